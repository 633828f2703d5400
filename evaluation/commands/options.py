"""Shared options and paths of the commands, and the platform's folders for input and results."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import click

from evaluation.files.system import long_path
from evaluation.findings import fault, quote
from evaluation.findings.errors import ChallengeBroken, ResultsNotWritten, WrongUsage

Command = Callable[..., None]
Decorator = Callable[[Command], Command]
OUTPUT = Path("/output")  # of the platform
_LONG = 160  # characters of a path that leave room on Windows for the names of folders and files in it
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


class _LocalType(click.Path):
    """A local path. Raises WrongUsage for a URL, which would create a folder such as ``s3:``."""

    def convert(self, value: str | os.PathLike[str], *_: object) -> Path:
        if isinstance(value, str) and "://" in value:
            raise WrongUsage(fault("cannot-write", quote(value, 120), wording="address-of-storage"))
        path = Path(value)
        return long_path(path) if len(str(path.absolute())) > _LONG else path


FolderPath = _LocalType()


def output_folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise WrongUsage(fault("file-exists", quote(path), wording="file-for-folder"))
    return path


def challenge_folder(path: Path) -> Path:
    """The folder of a challenge. Raises WrongUsage for any other folder."""
    from evaluation.challenge.documents import CHALLENGE_FILE  # slow to import

    if not path.is_dir():
        raise WrongUsage(fault("no-challenge", quote(path, 120)))
    with suppress(OSError):  # told when challenge.toml is read
        if CHALLENGE_FILE not in {entry.name for entry in path.iterdir()}:
            raise WrongUsage(fault("no-challenge", quote(path, 120), wording="other-folder"))
    return path


def path_option(name: str, help: str, *, required: bool = False, check: Callable[[Path], Path] = Path) -> Decorator:
    """An option with a file or folder of this machine, which is checked if it is given."""
    callback = lambda _, __, path: None if path is None else check(path)  # noqa: E731
    return click.option(name, type=FolderPath, required=required, callback=callback, help=help)


challenge_option = partial(path_option, "--challenge", check=challenge_folder)
output_option = partial(path_option, "--output", check=output_folder)
RulesFolder = challenge_option("Folder with challenge.toml and cases.csv.", required=True)
ReferenceFolder = challenge_option("Folder with challenge.toml, cases.csv, reference.", required=True)
Cluster = click.option("--cluster", metavar="ADDRESS", help="Scheduler of a Dask cluster that scores the cases.")
WORKERS_VARIABLE = "NUCLEI_EVALUATION_WORKERS"  # the platform gives no arguments, and drops GRAND_CHALLENGE_…
Workers = click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    envvar=WORKERS_VARIABLE,
    help=f"Processes to use; never changes a result. [or {WORKERS_VARIABLE}]",
)
Before = path_option("--before", "Older leaderboard (folder or leaderboard.json) to compare with.")


def page_option(name: str, help: str = "Also write {}.html, a page to open in a browser.") -> Decorator:
    """The option ``--report``. Raises WrongUsage, before anything is scored, if no page can be drawn."""

    def checked(_: click.Context, __: click.Parameter, wanted: bool) -> bool:
        if wanted:
            from evaluation.report.html import require_extra

            require_extra()
        return wanted

    return click.option("--report", is_flag=True, callback=checked, help=help.format(name))


def folder_of_pages(report: bool, output: Path | None) -> None:
    """Raise WrongUsage for pages without an output folder."""
    if report and output is None:
        raise WrongUsage(fault("missing-option", "--output", wording="no-folder-for-pages"))


def _gathered_as(name: str, *options: Decorator) -> Decorator:
    """Join options that a command only passes on: the command gets their values as one dictionary of this name."""

    def decorate(command: Command) -> Command:
        def gathered(**values: Any) -> None:
            command(**{key: values.pop(key) for key in [*values] if key not in names}, **{name: values})

        before = len(getattr(command, "__click_params__", ()))
        update_wrapper(gathered, command)
        for option in reversed(options):
            gathered = option(gathered)
        names = {parameter.name for parameter in gathered.__click_params__[before:]}  # type: ignore[attr-defined]
        return gathered

    return decorate


ScoreColumns = _gathered_as(  # how a CSV of scores is ranked
    "ranked",
    click.option("--column", "columns", multiple=True, metavar="METRIC:DIRECTION[:WEIGHT]",
                 help="A column to rank by, ascending or descending; for --scores without a challenge."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                 help="Another value for a key of [ranking]."),
    click.option("--unit", type=click.Choice(["group", "case"]), default="group", show_default=True,
                 help="Average, test and resample --scores over patients (group) or cases."),
)  # fmt: skip
Work = _gathered_as(  # how submissions are scored
    "work",
    Cluster,
    click.option("--log", type=FolderPath, metavar="FILE",
                 help="Append a JSON line per finished submission to this file."),
    Workers,
)  # fmt: skip


def needed_beside(other: str, option: str, expected: str) -> WrongUsage:
    """Create the error for an option that needs another next to it; ``expected``: which options go together."""
    problem = fault("missing-option", option, wording="not-given-beside", expected=expected, option=option, given=other)
    return WrongUsage(problem)


def not_both(option: str, other: str, reason: str) -> WrongUsage:
    """Create the error for two options that cannot be given together."""
    return WrongUsage(fault("contradictory-rules", option, wording="only-one-option", other=other, reason=reason))


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Raise WrongUsage for unwritable files; ResultsNotWritten on a full disk or in the platform's folder."""
    try:
        yield
    except OSError as error:
        is_of_stream = error.filename is None and error.errno in (errno.EPIPE, errno.EINVAL)  # nobody reads on
        if is_of_stream or error.errno == errno.EAGAIN:  # no process can be started
            raise
        why = (error.strerror or "not writable").lower()
        file = _file_in(folder, error)
        problem = fault("cannot-write", quote(file or folder, 120), got=why, wording="of-file" if file else "")
        if error.errno in OF_THE_MACHINE or folder == OUTPUT:
            raise ResultsNotWritten(why, problem) from None
        raise WrongUsage(problem) from None


def _file_in(folder: Path, error: OSError) -> Path | None:
    """Return the file of a folder that an error is about, such as one that is open in another program on Windows."""
    paths = [path for path in (error.filename, error.filename2) if isinstance(path, str | os.PathLike)]
    return next((file for path in paths if (file := folder / Path(path).name).is_file()), None)


def existing(path: Path, option: str, *, usual: bool = False) -> Path:
    """The path. Raises WrongUsage if it does not exist; ``usual``: the default path, not given by the user."""
    if not path.exists():
        raise WrongUsage(
            fault("missing-option", option, wording="no-path", option=option, usual_path=path)
            if usual
            else fault("missing-option", option, wording="not-there", path=str(path))
        )
    return path


# --- the platform -----------------------------------------------------------------------------------------------------


INPUT = Path("/input")
GROUND_TRUTH = Path("/opt/ml/input/data/ground_truth")
OWN_GROUND_TRUTH = Path(__file__).resolve().parents[2] / "ground_truth"


def is_platform() -> bool:
    """Return whether this is the platform, where the folder of the ground truth always exists, and not a dry run."""
    return GROUND_TRUTH.is_dir()


def ground_truth() -> Path:
    """The uploaded ground truth if it contains files, otherwise the ground truth in the image.

    On the platform the folder always exists; elsewhere the image is only being tried, and its demo is used.
    Raises ChallengeBroken if the folder is empty and the image contains only the ground truth of the demo, or if the
    folder cannot be read.
    """
    if is_platform() and not os.access(GROUND_TRUTH, os.R_OK | os.X_OK):
        raise ChallengeBroken(fault("unreadable-file", quote(GROUND_TRUTH), got="permission denied"))
    if is_platform() and any(path.is_file() for path in GROUND_TRUTH.rglob("*")):
        return GROUND_TRUTH
    own = existing(OWN_GROUND_TRUTH, "--challenge", usual=True)
    if is_platform():
        from evaluation.folders.demo import is_demo

        if is_demo(own):
            raise ChallengeBroken(fault("no-challenge", quote(GROUND_TRUTH), wording="no-ground-truth"))
    return own
