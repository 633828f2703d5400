"""An output folder at an address of storage: a folder of this machine, whose files are put there one by one.

What lies there is fetched first, so that kept results are found. A file is put under a temporary name and renamed; the
large object stores show an object only when it is whole, so there it is put at once. What makes a result valid
(metrics.json, key.json) is removed before its other files change, and put last.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation.execution.storage import NO_LIMITS, SECRET, files_below, look, open_address
from evaluation.findings import quote
from evaluation.findings.command_line import CannotWrite, MissingProtocol
from evaluation.findings.errors import EvaluationError, WrongUsage
from evaluation.submission.names import Faults

WHOLE_OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl"}
ONLY_READ = {"http", "https", "zip", "tar", "github", "data"}
LAST = ("leaderboard.json", "audit.json", "metrics.json", "key.json")  # in this order, behind all others


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
            is_there = self.system.isdir(self.root)  # object stores have no empty folders
            if is_there and next(files_below(self.system, self.root, NO_LIMITS, Faults()), None):
                look(address, NO_LIMITS).copy(folder, NO_LIMITS)
        self.known = self.here("")

    def here(self, below: str) -> dict[str, tuple[int, int]]:
        """The names of the files of this machine, with size and time."""
        paths = sorted(path for path in (self.folder / below).rglob("*") if path.is_file())
        found = {path.relative_to(self.folder).as_posix(): path.stat() for path in paths if path.name[0] != "."}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}

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
                self.put_file(name)
                self.known[name] = now[name]

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
