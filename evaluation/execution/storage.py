"""Folders and files at addresses of fsspec (``s3://…``, ``https://…``), brought to this machine when they are read.

Local paths are what they are, and ask for nothing to be installed. What is fetched is listed and checked first: no more
files and bytes than the challenge allows, and no name that would lie outside of the folder that it is written to.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from evaluation.challenge import LimitRules
from evaluation.findings import quote
from evaluation.findings.annotations import TooManyBytes
from evaluation.findings.command_line import MissingProtocol
from evaluation.findings.errors import EvaluationError, SubmissionRejected, WrongUsage
from evaluation.findings.execution import CannotFetch, NotFetched
from evaluation.findings.submission import TooManyFiles
from evaluation.submission.names import (
    ROOT,
    Faults,
    check_total,
    checked_names,
    is_litter,
    unsafe,
    what_is_unsafe,
)

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*(::[a-z0-9+.-]*)*://", re.IGNORECASE)
SECRET = re.compile(r"\?[^\s'\"]*|(?<=//)[^/@\s]*@")  # in addresses, and so in what file systems say
PIECE_BYTES = 1 << 20
PART_BYTES = 255  # of a name that file systems of this machine take
FETCHED = ".fetched"  # folder in the output, where workers elsewhere shall read what was fetched


def is_address(path: Path | str) -> bool:
    """Whether something is an address of fsspec and no local path.

    >>> is_address("s3://bucket/folder"), is_address("folder/file.zip"), is_address("C:/folder")
    (True, False, False)
    """
    return isinstance(path, str) and ADDRESS.match(path) is not None


@contextmanager
def fetched(path: Path | str, limits: LimitRules, *, below: Path | None = None) -> Iterator[Path]:
    """The folder or file at an address, on this machine until the end; a local path as it is.

    below   a folder that all workers share; None: one for temporary files will do

    Raises WrongUsage (missing-extra, not-fetched), and SubmissionRejected for names and sizes.
    """
    if not is_address(path):
        yield Path(path)
        return
    if below is not None:
        below.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evaluation-", dir=below) as temporary:
        target = Path(temporary) / name_at(str(path))
        with told_faults(str(path)):
            fetch(str(path), target, limits)
        yield target


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies in a folder of storage."""

    name: str
    address: str
    is_folder: bool


def entries_at(address: str) -> list[Entry]:
    """What lies in a folder, by its names. Raises WrongUsage."""
    with told_faults(address):
        system, root = open_address(address)
        entries = [
            Entry(name_below(system, path, root), system.unstrip_protocol(path), entry["type"] == "directory")
            for path, entry in listed(system, root)
        ]
        return sorted(entries, key=lambda entry: entry.name)


def name_at(address: str) -> str:
    """The last part of an address, as the name of a local file or folder.

    >>> name_at("s3://bucket/submissions/alpha.zip?version=3"), name_at("memory://..")
    ('alpha.zip', 'fetched')
    """
    name = plain(re.split(r"[?#]", address)[0]).rsplit("/", 1)[-1]
    return "fetched" if what_is_unsafe(name) else name


def plain(name: str) -> str:
    """A path without the slash of folders at its end."""
    return str(name).rstrip("/")


def open_address(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    from fsspec.core import url_to_fs

    system, root = url_to_fs(address)
    return system, str(root)


@contextmanager
def told_faults(address: str) -> Iterator[None]:
    """What file systems raise, as a finding about the address, without its parts that may be secret."""
    where = quote(SECRET.sub("", address), 200)
    try:
        yield
    except ImportError as error:
        raise WrongUsage(MissingProtocol(error.name or str(error), "storage").at(where)) from None
    except FileNotFoundError:
        raise WrongUsage(NotFetched().at(where)) from None
    except EvaluationError:
        raise
    except Exception as error:  # each file system has exceptions of its own
        why = SECRET.sub("", str(error)).partition("\n")[0] or type(error).__name__
        raise WrongUsage(CannotFetch(why).at(where)) from error


def fetch(address: str, target: Path, limits: LimitRules) -> None:
    """Copy a folder or a file. Raises SubmissionRejected, and what the file system raises."""
    system, root = open_address(address)
    if not system.isdir(root):
        copy_file(system, root, target, limits)
        return
    faults = Faults()
    found = dict(files_below(system, root, limits, faults))
    names = checked_names(found, faults, limits)
    check_storable(names)
    limit = limits.bytes_per_file
    large = [TooManyBytes(size, limit).at(quote(name)) for name in names if (size := found[name][1] or 0) > limit]
    if large:
        raise SubmissionRejected(*large)
    total = sum(found[name][1] or 0 for name in names)
    check_total([total], limits)
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
    sized = [name for name in names if found[name][1] is not None]
    system.get([found[name][0] for name in sized], [str(target / name) for name in sized])  # many at once
    for name in names:
        if found[name][1] is None:
            total += copy_file(system, found[name][0], target / name, limits)
            check_total([total], limits)


def files_below(
    system: Any, root: str, limits: LimitRules, faults: Faults
) -> Iterator[tuple[str, tuple[str, int | None]]]:
    """The name of every file below a folder but litter, with its path and size; links and the like are faults."""
    waiting, seen = [root], 0
    while waiting:
        for path, entry in listed(system, waiting.pop()):
            seen += 1
            if seen > 2 * limits.files_per_submission + 100:  # folders and litter count here
                raise SubmissionRejected(TooManyFiles(limits.files_per_submission).at(ROOT))
            name = name_below(system, path, root)
            if is_litter(name.rsplit("/", 1)[-1]):
                continue
            if entry["type"] == "directory":
                waiting.append(path)
            elif entry["type"] == "file":
                yield name, (path, entry.get("size"))
            else:
                faults.add(unsafe(name, "neither a file nor a folder"))


def listed(system: Any, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What lies in a folder now, by its path; what is listed and lies elsewhere, as pages link to, is left out."""
    folder = plain(folder)
    below = f"{folder}/" if folder else ""  # what is in a ZIP has no root
    is_page = "http" in system.protocol
    system.invalidate_cache(folder)
    for entry in system.ls(below if is_page else folder or "/", detail=True):
        path = plain(entry["name"])
        if path.startswith(below) and not (is_page and "?" in path):  # links that sort the page
            yield path, entry


def check_storable(names: Sequence[str]) -> None:
    """Refuse names that an object store has room for, and a folder has not. Raises SubmissionRejected."""
    faults = Faults()
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    for name in names:
        if name in folders:
            faults.add(unsafe(name, "the name of a file and of a folder"))
        if max(len(part.encode()) for part in name.split("/")) > PART_BYTES:
            faults.add(unsafe(name, f"a name of more than {PART_BYTES} bytes"))
    if faults.findings:
        raise SubmissionRejected(*faults.findings)


def name_below(system: Any, path: str, root: str) -> str:
    """The name of a file in its folder, as it is called there."""
    name = path.removeprefix(f"{plain(root)}/")
    return unquote(name) if "http" in system.protocol else name


def copy_file(system: Any, path: str, target: Path, limits: LimitRules) -> int:
    """Copy one file, and stop where it is larger than files may be; its bytes. Raises SubmissionRejected."""
    copied = 0
    with system.open(path, "rb") as source, target.open("wb") as stream:
        while piece := source.read(PIECE_BYTES):
            copied += len(piece)
            if copied > limits.bytes_per_file:
                raise SubmissionRejected(TooManyBytes(copied, limits.bytes_per_file).at(quote(target.name)))
            stream.write(piece)
    return copied
