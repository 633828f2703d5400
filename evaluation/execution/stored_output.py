"""Output folders, here or at an address of storage, whose kept results are found again.

A folder at an address has a copy on this machine, whose files are put there one by one. Files that lie two folders deep
(results of teams, of which there may be thousands) are fetched when they are asked for, others at once. A file is put
under a temporary name and renamed; the large object stores show an object only when it is whole, so there it is put at
once. What makes a result valid (metrics.json, key.json) is removed before its other files change, and put last.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation.execution.storage import NO_LIMITS, SECRET, Found, check_storable, files_below, open_address
from evaluation.findings import quote
from evaluation.findings.command_line import CannotWrite, MissingProtocol
from evaluation.findings.errors import EvaluationError, WrongUsage
from evaluation.submission.names import Faults, checked_names

WHOLE_OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl"}
ONLY_READ = {"http", "https", "zip", "tar", "github", "data"}
INDEX_FILE = ".index.jsonl"  # the one hidden file that is put
FETCHED_LATER = 2  # folders deep
LAST = ("leaderboard.json", "audit.json", "metrics.json", "key.json")  # in this order, behind all others


class LocalOutput:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def state(self, below: str) -> str:
        """Changes with every file of a folder below it; "" if that cannot be told without reading them."""
        return state_of(self.folder / below, None)

    def bring(self, below: str) -> None:
        """The files of a folder below it are here from now on."""

    def put(self, below: str = "") -> None:
        """The files of a folder below it are where they belong from now on."""


def state_of(path: Path, settled_before: int | None) -> str:
    """Changes with the name, size, inode and times of every file below a folder, or of a file.

    "" for links, and for what changed since ``settled_before``, nanoseconds.
    """
    found: list[str] = []
    waiting = [str(path)]
    while waiting:
        name = waiting.pop()
        try:
            state = os.lstat(name)
            if stat.S_ISDIR(state.st_mode):
                waiting += [entry.path for entry in os.scandir(name)]
                continue
        except OSError:
            return ""
        is_settled = settled_before is None or max(state.st_ctime_ns, state.st_mtime_ns) <= settled_before
        if not stat.S_ISREG(state.st_mode) or not is_settled:
            return ""
        found.append(repr((name, state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)))
    return hashlib.sha256(repr(sorted(found)).encode("utf-8", "surrogatepass")).hexdigest()


class StoredOutput:
    """A folder at an address, and its copy here, ``folder``.  Raises WrongUsage: cannot-write, missing-extra."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        with told_writing(address):
            self.system, root = open_address(address)
            self.root = root.rstrip("/")
            protocols = {self.system.protocol} if isinstance(self.system.protocol, str) else {*self.system.protocol}
            if protocols & ONLY_READ:
                raise WrongUsage(CannotWrite("storage that is only read").at(quote(SECRET.sub("", address), 200)))
            self.is_whole = bool(protocols & WHOLE_OBJECTS)
            if not self.is_whole:  # object stores have no folders, and a bucket would be made for a mistyped name
                self.system.makedirs(self.root, exist_ok=True)
            probe = f"{self.root}/.evaluation.{secrets.token_hex(4)}"
            self.system.pipe_file(probe, b"")  # or it would be known when all is scored
            self.system.rm_file(probe)
            self.there = self.listed("")
        self.known: dict[str, tuple[int, int]] = {}
        self.fetch({name for name in self.there.files if name.count("/") < FETCHED_LATER})

    def listed(self, below: str) -> Found:
        """What lies in a folder now; object stores have no empty folders."""
        root = f"{self.root}/{below}".rstrip("/")
        files = dict(files_below(self.system, root, NO_LIMITS, Faults())) if self.system.isdir(root) else {}
        if files:
            check_storable(checked_names(files, Faults(), NO_LIMITS))
        return Found(self.system, self.root, True, files)

    def fetch(self, names: set[str]) -> None:
        """Bring files that are not here yet."""
        wanted = {name: of for name, of in self.there.files.items() if name in names and name not in self.known}
        with told_writing(self.address):
            Found(self.system, self.root, True, wanted).copy(self.folder, NO_LIMITS)
        for name in wanted:
            self.known[name] = state_here(self.folder / name)

    def state(self, below: str) -> str:
        """Changes with every file of a folder below it; "" if the storage does not tell."""
        found = self.there.below(below)
        return (found.key or "") if found.files else ""

    def bring(self, below: str) -> None:
        """The files of a folder below it are here from now on."""
        self.fetch({name for name in self.there.files if name.startswith(f"{below}/")})

    def here(self, below: str) -> dict[str, tuple[int, int]]:
        """The names of the files of this machine, with size and time."""
        paths = sorted(path for path in (self.folder / below).rglob("*") if path.is_file())
        shown = (path for path in paths if path.name[0] != "." or (path.name == INDEX_FILE and not below))
        return {path.relative_to(self.folder).as_posix(): state_here(path) for path in shown}

    def put(self, below: str = "") -> None:
        """Make what lies there the same as what lies here. Raises WrongUsage: cannot-write."""
        now = self.here(below)
        before = {name: self.known[name] for name in self.known if name.startswith(f"{below}/" if below else "")}
        changed = {name for name in now.keys() | before.keys() if before.get(name) != now.get(name)}
        folders = {name.rpartition("/")[0] for name in changed}
        last = {name for name in before if rank(name) and name.rpartition("/")[0] in folders}
        outdated = last | (before.keys() - now.keys())
        with told_writing(self.address):
            for name in sorted(outdated, key=rank, reverse=True):
                with suppress(FileNotFoundError):
                    self.system.rm_file(f"{self.root}/{name}")
                del self.known[name]
            for name in sorted((changed | outdated) & now.keys(), key=rank):
                if name.endswith(INDEX_FILE):
                    self.add_lines(name)
                self.put_file(name)
                self.known[name] = now[name]
            if below:
                kept = {name: of for name, of in self.there.files.items() if not name.startswith(f"{below}/")}
                new = {f"{below}/{name}": of for name, of in self.listed(below).files.items()}
                self.there = replace(self.there, files={**kept, **new})

    def add_lines(self, name: str) -> None:
        """What another call wrote into an index meanwhile."""
        path = self.folder / name
        with suppress(FileNotFoundError):
            lines = self.system.cat_file(f"{self.root}/{name}").splitlines(keepends=True)
            path.write_bytes(b"".join(dict.fromkeys([*lines, *path.read_bytes().splitlines(keepends=True)])))

    def put_file(self, name: str) -> None:
        path = f"{self.root}/{name}"
        folder, _, last = path.rpartition("/")
        if self.is_whole:
            self.system.put_file(str(self.folder / name), path)
            return
        self.system.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.{last}.{secrets.token_hex(4)}"
        self.system.put_file(str(self.folder / name), temporary)
        self.system.mv(temporary, path)


def output_at(output: Path | LocalOutput | StoredOutput) -> LocalOutput | StoredOutput:
    return LocalOutput(output) if isinstance(output, Path) else output


def state_here(path: Path) -> tuple[int, int]:
    """Size and time of a file of this machine."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def rank(name: str) -> int:
    """The place of a file in the order in which files are put."""
    last = name.rpartition("/")[2]
    return LAST.index(last) + 1 if last in LAST else 0


@contextmanager
def told_writing(address: str) -> Iterator[None]:
    """What file systems raise while they are written to, as a finding without secrets."""
    where = quote(SECRET.sub("", address), 200)
    try:
        yield
    except EvaluationError:
        raise
    except ImportError as error:
        raise WrongUsage(MissingProtocol(error.name or str(error), "storage").at(where)) from None
    except Exception as error:  # each file system has exceptions of its own
        why = SECRET.sub("", str(error)).partition("\n")[0] or type(error).__name__
        raise WrongUsage(CannotWrite(quote(why, 200)).at(where)) from error


@contextmanager
def stored_output(address: str) -> Iterator[StoredOutput]:
    """An output folder at an address. What is there in the end is put, also after a fault: each file is whole."""
    with TemporaryDirectory(prefix="evaluation-output-") as temporary:
        output = StoredOutput(address, Path(temporary) / "output")
        output.folder.mkdir(exist_ok=True)
        try:
            yield output
        finally:
            output.put()
