"""Folders and files at addresses of fsspec (``s3://…``, ``https://…``), brought to this machine when they are read.

Local paths are what they are, and ask for nothing to be installed. What is fetched is listed and checked first: no more
files and bytes than the challenge allows, and no name that would lie outside of the folder that it is written to. It
stays in a cache of this machine (cache.py) while the storage tells by ETags, checksums or times that it is the same.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from evaluation.challenge import LimitRules
from evaluation.execution.cache import cached
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
NO_LIMITS = LimitRules.model_construct(
    bytes_per_file=sys.maxsize, files_per_submission=sys.maxsize, bytes_per_submission=sys.maxsize
)
TELLS_CHANGES = (
    "etag",
    "md5hash",
    "generation",
    "checksum",
    "lastmodified",
    "last_modified",
    "mtime",
    "created",
    "ino",
)


def is_address(path: Path | str) -> bool:
    """Whether something is an address of fsspec and no local path.

    >>> is_address("s3://bucket/folder"), is_address("folder/file.zip"), is_address("C:/folder")
    (True, False, False)
    """
    return isinstance(path, str) and ADDRESS.match(path) is not None


origins: dict[Path, tuple[str, LimitRules]] = {}  # where what this process fetched comes from: for workers elsewhere


@contextmanager
def fetched(path: Path | str, limits: LimitRules, *, cache: Path | None = None) -> Iterator[Path]:
    """The folder or file at an address, on this machine until the end; a local path as it is.

    cache   the folder of the cache; None: that of this machine

    Raises WrongUsage (missing-extra, not-fetched), and SubmissionRejected for names and sizes.
    """
    if not is_address(path):
        yield Path(path)
        return
    address = str(path)
    with ExitStack() as stack:
        with told_faults(address):
            found = look(address, limits)

        def fetch(folder: Path) -> None:
            with told_faults(address):
                found.copy(folder / name_at(address), limits)

        key = found.key
        if key is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evaluation-")))
            fetch(folder)
        else:
            folder = stack.enter_context(cached(f"{key}-{found.size}", found.size, fetch, root=cache))
        target = folder / name_at(address)
        origins[target] = address, limits
        stack.callback(origins.pop, target, None)
        yield target


@dataclass(frozen=True, slots=True)
class Found:
    """What lies at an address: a file, or the files of a folder by their names.

    files   the path of each in the file system, and what that tells of it
    """

    system: Any
    address: str
    is_folder: bool
    files: Mapping[str, tuple[str, Mapping[str, Any]]]

    @property
    def key(self) -> str | None:
        """Changes with any of the files; None if the storage does not tell."""
        return key_of(self.address, {name: entry for name, (_, entry) in self.files.items()})

    @property
    def size(self) -> int:
        """Bytes of all, as far as it is known."""
        return sum(entry.get("size") or 0 for _, entry in self.files.values())

    def below(self, folder: str) -> Found:
        """The files of a folder in it."""
        start = f"{folder}/"
        files = {name.removeprefix(start): of for name, of in self.files.items() if name.startswith(start)}
        return Found(self.system, f"{self.address}/{folder}", True, files)

    def copy(self, target: Path, limits: LimitRules) -> None:
        """Fetch all. Raises SubmissionRejected, and what the file system raises."""
        if not self.is_folder:
            copy_file(self.system, self.files[""][0], target, limits)
            return
        target.mkdir(parents=True, exist_ok=True)
        for name in self.files:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
        sized = [name for name, (_, entry) in self.files.items() if entry.get("size") is not None]
        self.system.get([self.files[name][0] for name in sized], [str(target / name) for name in sized])  # many at once
        total = self.size
        for name, (path, entry) in self.files.items():
            if entry.get("size") is None:
                total += copy_file(self.system, path, target / name, limits)
                check_total([total], limits)


def look(address: str, limits: LimitRules) -> Found:
    """List what lies at an address. Raises SubmissionRejected, and what the file system raises."""
    system, root = open_address(address)
    if not system.isdir(root):
        return Found(system, address, False, {"": (root, system.info(root))})
    faults = Faults()
    entries = dict(files_below(system, root, limits, faults))
    names = checked_names(entries, faults, limits)
    check_storable(names)
    found = Found(system, address, True, {name: entries[name] for name in names})
    limit = limits.bytes_per_file
    sizes = {name: entry.get("size") or 0 for name, (_, entry) in found.files.items()}
    large = [TooManyBytes(size, limit).at(quote(name)) for name, size in sizes.items() if size > limit]
    if large:
        raise SubmissionRejected(*large)
    check_total([found.size], limits)
    return found


def key_of(address: str, entries: Mapping[str, Mapping[str, Any]]) -> str | None:
    """A hash of an address and of what the storage tells of each file; None if that does not tell every change."""
    digest = hashlib.sha256(repr(address).encode())
    for name, entry in sorted(entries.items()):
        known = {key.casefold(): str(value) for key, value in entry.items() if value is not None}
        states = [(key, known[key]) for key in TELLS_CHANGES if key in known]
        if not states or "size" not in known:
            return None
        digest.update(repr((name, known["size"], states)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


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


def files_below(
    system: Any, root: str, limits: LimitRules, faults: Faults
) -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    """The name of every file below a folder but litter, with its path and entry; links and the like are faults."""
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
                yield name, (path, entry)
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
