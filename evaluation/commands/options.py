"""Options and paths that several commands take."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluation.findings import quote
from evaluation.findings.command_line import AddressOfOutput, CannotWrite, FileForFolder, NoChallenge, NoPath, NotThere
from evaluation.findings.errors import ChallengeBroken, ResultsNotWritten, SubmissionRejected, WrongUsage

if TYPE_CHECKING:
    from evaluation.execution.stored_output import LocalOutput, StoredOutput

OUTPUT = Path("/output")  # of the platform
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


class AddressType(click.Path):
    """A local path, or an address of storage (fsspec), which is fetched when it is read. Shells complete paths."""

    def convert(self, value: str | os.PathLike[str], *_: object) -> Path | str:
        return value if isinstance(value, str) and "://" in value else Path(value)


class LocalType(click.Path):
    """A path of this machine. Raises WrongUsage for an address, of which it would make a folder such as ``s3:``."""

    def convert(self, value: str | os.PathLike[str], *_: object) -> Path:
        if isinstance(value, str) and "://" in value:
            raise WrongUsage(AddressOfOutput().at(quote(value, 120)))
        return Path(value)


PathOrAddress = AddressType()
ReferenceFolder = click.option("--challenge", type=PathOrAddress, required=True,
                               help="Folder with challenge.toml, cases.csv, reference.")  # fmt: skip
BoardReport = click.option("--report", is_flag=True, help="Write leaderboard.html as well, to be opened in a browser.")
Cluster = click.option("--cluster", metavar="ADDRESS", help="Scheduler of a Dask cluster that works on the cases.")
Workers = click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; never changes a result.")
FolderPath = LocalType()
Before = click.option("--before", type=FolderPath,
                      help="An older leaderboard, its folder or its leaderboard.json: who moves?")  # fmt: skip


def ScoreColumns(command: Callable[..., None]) -> Callable[..., None]:
    """How a CSV of scores is ranked: ``--column``, ``--set``, ``--unit``."""
    options = (
        click.option("--column", "columns", multiple=True, metavar="METRIC:DIRECTION[:WEIGHT]",
                     help="A column to rank by, ascending or descending; for --scores without a challenge."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                     help="Another value for a key of [ranking]."),
        click.option("--unit", type=click.Choice(["group", "case"]), default="group", show_default=True,
                     help="What means of --scores are taken over, and what is tested and drawn."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def output_folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise WrongUsage(FileForFolder().at(quote(path)))
    return path


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command writes: its ``folder`` here, which is a copy of what lies at ``shown`` if that is an address."""

    kept: LocalOutput | StoredOutput
    shown: Path | str

    @property
    def folder(self) -> Path:
        return self.kept.folder


def open_output(path: Path | str) -> Output:
    """An output folder, which may be at an address of storage; all is there when the command ends."""
    from evaluation.execution.stored_output import LocalOutput, stored_output

    if isinstance(path, Path):
        return Output(LocalOutput(output_folder(path)), path)
    return Output(click.get_current_context().with_resource(stored_output(path)), path)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Raise WrongUsage for what cannot be written; ResultsNotWritten on a full disk or in the platform's folder."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EAGAIN:  # no process can be started
            raise
        why = (error.strerror or "not writable").lower()
        fault = CannotWrite(why).at(quote(folder, 120))
        if error.errno in OF_THE_MACHINE or folder == OUTPUT:
            raise ResultsNotWritten(why, fault) from None
        raise WrongUsage(fault) from None


def local(path: Path | str, *, challenge: Path | None = None) -> Path:
    """A path, or what lies at an address until the command ends.

    challenge   whose limits hold; None: what is fetched is the organisers' own, whatever its size
    """
    if isinstance(path, Path):
        return path
    from evaluation.challenge import Challenge
    from evaluation.execution.storage import NO_LIMITS, fetched

    limits = NO_LIMITS if challenge is None else Challenge.load(challenge).limits
    return click.get_current_context().with_resource(fetched(path, limits))


def challenge_folder(path: Path | str) -> Path:
    try:
        path = local(path)
    except SubmissionRejected as error:  # for the names of its files
        raise ChallengeBroken(*error.findings) from None
    if not path.is_dir():
        raise WrongUsage(NoChallenge().at(quote(path, 120)))
    return path


def existing(path: Path, option: str, *, usual: bool = False) -> Path:
    """The path. Raises WrongUsage if nothing is there; ``usual``: it was not given, but is where it usually is."""
    if not path.exists():
        raise WrongUsage((NoPath(option, path) if usual else NotThere(str(path))).at(option))
    return path
