"""Options and paths that several commands take."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from evaluation.findings import quote
from evaluation.findings.command_line import AddressOfOutput, CannotWrite, FileForFolder, NoChallenge, NoPath
from evaluation.findings.errors import ChallengeBroken, ResultsNotWritten, SubmissionRejected, WrongUsage

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
BoardReport = click.option("--report", is_flag=True, help="Write leaderboard.html as well, to be opened in a browser.")
Attempts = click.option("--attempts", type=click.Choice(["last", "best", "chosen", "ladder"]),
                        help="Entries called TEAM@NAME are attempts of a team; which one counts.")  # fmt: skip
Cluster = click.option("--cluster", metavar="ADDRESS", help="Scheduler of a Dask cluster that works on the cases.")
Workers = click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; never changes a result.")
FolderPath = LocalType()


def has_earlier_results(challenge: Path) -> bool:
    """Whether the challenge keeps results that a submission is ranked among."""
    return any((challenge / "leaderboard").glob("*.json"))


def output_folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise WrongUsage(FileForFolder().at(quote(path)))
    return path


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Tell what cannot be written as a fault of the command line; a full disk and the platform's folder are not."""
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


def local(
    path: Path | str, cluster: str | None = None, output: Path | None = None, *, challenge: Path | None = None
) -> Path:
    """A path, or what lies at an address until the command ends: with a cluster below the output, which it can see.

    challenge   whose limits hold; None: what is fetched is the organisers' own, whatever its size
    """
    if isinstance(path, Path):
        return path
    from evaluation.challenge import Challenge, LimitRules
    from evaluation.execution.storage import FETCHED, fetched

    own = LimitRules(**dict.fromkeys(("bytes_per_file", "files_per_submission", "bytes_per_submission"), sys.maxsize))
    limits = own if challenge is None else Challenge.load(challenge).limits
    below = output / FETCHED if cluster and output else None
    return click.get_current_context().with_resource(fetched(path, limits, below=below))


def challenge_folder(path: Path | str, cluster: str | None = None, output: Path | None = None) -> Path:
    try:
        path = local(path, cluster, output)
    except SubmissionRejected as error:  # for the names of its files
        raise ChallengeBroken(*error.findings) from None
    if not path.is_dir():
        raise WrongUsage(NoChallenge().at(quote(path, 120)))
    return path


def existing(path: Path, option: str) -> Path:
    if not path.exists():
        raise WrongUsage(NoPath(option, path).at(option))
    return path
