"""The files of a submission, a folder or a ZIP, behind one interface. What is not safe to read is refused.

Safe are plain files inside the folder. Links out of it could read the reference, names with '..' could lie about where
a file is, devices could block, and a member of a ZIP could be larger than it says.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self

from evaluation.errors import InputFault, SubmissionRejected, WrongUsage
from evaluation.findings import EXAMPLES_SHOWN, Finding, quote

MAX_FILES = 100_000
MAX_NAME_CHARACTERS = 1000
MAX_PART_CHARACTERS = 255
MAX_DIRECTORY_BYTES = 1 << 25  # the list of members at the end of a ZIP
DEFAULT_BYTES_LIMIT = 2_000_000_000
CHUNK_BYTES = 1 << 20
LITTER = {"__macosx", ".ds_store", "thumbs.db", "desktop.ini", "icon\r"}
ROOT = "submission"


class SubmissionFiles(ABC):
    """The files of a submission by relative POSIX name, sorted. Can be pickled; closes itself as a context manager."""

    names: tuple[str, ...]

    @abstractmethod
    def size(self, name: str) -> int:
        """Bytes of a file, uncompressed, as the file system or the ZIP claims."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """A seekable stream of a file. Raises InputFault if it cannot be read or is too large."""

    def close(self) -> None:  # noqa: B027 (a folder has nothing to release)
        """Release what is open; streams that were handed out stay usable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_submission(path: Path, *, bytes_limit: int = DEFAULT_BYTES_LIMIT) -> SubmissionFiles:
    """The files of a folder, or of a ZIP, which is read where it lies. Litter of operating systems is left out.

    bytes_limit   the most bytes that one file may have

    Raises WrongUsage if there is nothing at the path, SubmissionRejected with all that is wrong if there are no files,
    too many, or some that are not safe to read.
    """
    if path.is_dir():
        return FolderFiles(path, bytes_limit=bytes_limit)
    if path.is_file():
        return ZipFiles(path, bytes_limit=bytes_limit)
    raise WrongUsage(
        Finding("no-submission", quote(path, 200), "no such folder or file", "a folder or a ZIP file with predictions")
    )


class FolderFiles(SubmissionFiles):
    """The files below a folder. The folder itself may be a link; a link inside it must not lead out of it."""

    def __init__(self, folder: Path, *, bytes_limit: int) -> None:
        self.root = folder.resolve()
        self.bytes_limit = bytes_limit
        faults = Faults()
        self.names = checked_names(walk(self.root, faults), faults)

    def size(self, name: str) -> int:
        return self.locate(name).stat().st_size

    def open(self, name: str) -> BinaryIO:
        try:
            path = self.locate(name)
            if (size := path.stat().st_size) > self.bytes_limit:
                raise InputFault(too_large(name, size, self.bytes_limit))
            return path.open("rb")
        except OSError as error:
            raise InputFault(unreadable(name, (error.strerror or "not readable").lower())) from None

    def locate(self, name: str) -> Path:
        """The path of a file, checked again: links may have changed since the folder was listed."""
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            raise InputFault(unsafe(name, "a link that leads out of the submission"))
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputFault(unsafe(name, "neither a file nor a folder"))
        return path


def walk(root: Path, faults: Faults) -> Iterator[str]:
    """Names of all files below a folder, litter and folders left out; what is not a file is a fault."""
    waiting = [""]
    seen = 0
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(root / prefix) as entries:
                for entry in entries:
                    seen += 1
                    if seen > 2 * MAX_FILES:
                        raise SubmissionRejected(too_many_files())
                    name = prefix + entry.name
                    if is_litter(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/")
                    elif entry.is_symlink():
                        yield from resolved_link(root, name, faults)
                    elif entry.is_file(follow_symlinks=False):
                        yield name
                    else:
                        faults.add(unsafe(name, "neither a file nor a folder"))
        except OSError as error:
            faults.add(unreadable(prefix or ".", (error.strerror or "not readable").lower()))


def resolved_link(root: Path, name: str, faults: Faults) -> Iterator[str]:
    """The name of a link if it leads to a file inside the folder."""
    try:
        target = (root / name).resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a link that leads to itself
        faults.add(unsafe(name, "a link that leads nowhere"))
        return
    if not target.is_relative_to(root):
        faults.add(unsafe(name, "a link that leads out of the submission"))
    elif not target.is_file():
        faults.add(unsafe(name, "a link to a folder"))
    else:
        yield name


class ZipFiles(SubmissionFiles):
    """The members of a ZIP file. Nothing is unpacked to disk; a member that is opened is held in memory."""

    def __init__(self, path: Path, *, bytes_limit: int) -> None:
        self.path = path.resolve()
        self.bytes_limit = bytes_limit
        self.archive: zipfile.ZipFile | None = None
        self.owner = 0
        faults = Faults()
        members = {}
        for member in self.opened().infolist():
            if not member.filename:
                faults.add(unsafe(member.orig_filename, "a member without a name"))
                continue
            if member.is_dir() or any(is_litter(part) for part in PurePosixPath(member.filename).parts):
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                faults.add(unsafe(member.filename, "a link"))
            elif member.orig_filename in members:
                faults.add(duplicate_member(member.filename))
            members[member.orig_filename] = member
        self.names = checked_names(members, faults)
        self.members: Mapping[str, zipfile.ZipInfo] = members

    def opened(self) -> zipfile.ZipFile:
        """The ZIP file, opened once in every process."""
        if self.archive is None or self.owner != os.getpid():
            check_directory_size(self.path)
            try:
                self.archive, self.owner = zipfile.ZipFile(self.path), os.getpid()
            except ZIP_FAULTS:
                raise SubmissionRejected(not_a_zip(self.path)) from None
        return self.archive

    def close(self) -> None:
        if self.archive is not None and self.owner == os.getpid():
            self.archive.close()
        self.archive = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "archive": None}

    def size(self, name: str) -> int:
        return self.members[name].file_size

    def open(self, name: str) -> BinaryIO:
        member = self.members[name]
        if member.file_size > self.bytes_limit:
            raise InputFault(too_large(name, member.file_size, self.bytes_limit))
        if member.flag_bits & 1:
            raise InputFault(unreadable(name, "encrypted with a password"))
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others decompress without bound
            got = f"compressed with method {member.compress_type}, not with deflate (8)"
            raise InputFault(unreadable(name, got))
        content = io.BytesIO()
        try:
            with self.opened().open(member) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    content.write(chunk)
        except ZIP_FAULTS:
            raise InputFault(unreadable(name, "damaged inside the ZIP file")) from None
        if content.tell() != member.file_size:
            raise InputFault(unreadable(name, "shorter than the ZIP file says"))
        content.seek(0)
        return content


# What zipfile raises for damaged files: BadZipFile by itself; zlib.error, EOFError and struct.error from what it calls;
# NotImplementedError (a RuntimeError) for features it lacks; ValueError and OverflowError (OSError) for bad offsets.
ZIP_FAULTS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)


def check_directory_size(path: Path) -> None:
    """Refuse a ZIP whose list of members is too long to be held in memory. Raises SubmissionRejected."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            tail_start = max(0, size - 22 - 65535 - 20)
            stream.seek(tail_start)
            tail = stream.read()
            end = tail.rfind(b"PK\5\6")
            if end < 0 or len(tail) - end < 22:
                raise SubmissionRejected(not_a_zip(path))
            (directory_bytes,) = struct.unpack_from("<I", tail, end + 12)
            locator = tail[end - 20 : end] if end >= 20 else b""
            if locator.startswith(b"PK\6\7"):
                (record,) = struct.unpack_from("<Q", locator, 8)
                stream.seek(min(record, size))
                record64 = stream.read(56)
                if len(record64) == 56:
                    (directory_bytes,) = struct.unpack_from("<Q", record64, 40)
    except OSError:
        raise SubmissionRejected(not_a_zip(path)) from None
    if min(directory_bytes, size) > MAX_DIRECTORY_BYTES:
        raise SubmissionRejected(too_many_files())


def checked_names(names: Iterator[str] | Mapping[str, object], faults: Faults) -> tuple[str, ...]:
    """The names, sorted. Raises SubmissionRejected if there are none, too many, or unsafe ones."""
    safe = []
    for name in names:
        if why := what_is_unsafe(name):
            faults.add(unsafe(name, why))
        safe.append(name)
        if len(safe) > MAX_FILES:
            raise SubmissionRejected(too_many_files())
    if faults.findings:
        raise SubmissionRejected(*faults.findings)
    if not safe:
        raise SubmissionRejected(
            Finding(
                "empty-submission",
                ROOT,
                "no file in it",
                "predictions",
                "Check that the folder or ZIP is the right one and that writing the predictions worked.",
            )
        )
    return tuple(sorted(safe))


class Faults:
    """Findings, of which each kind is listed a few times and then counted."""

    def __init__(self) -> None:
        self.by_kind: dict[tuple[str, str], list[Finding]] = {}

    def add(self, finding: Finding) -> None:
        alike = self.by_kind.setdefault((finding.code, finding.got), [])
        if len(alike) < EXAMPLES_SHOWN:
            alike.append(finding)
        else:
            last = alike[-1]
            alike[-1] = Finding(last.code, last.where, last.got, last.expected, last.fix, last.count + 1)

    @property
    def findings(self) -> list[Finding]:
        return [finding for alike in self.by_kind.values() for finding in alike]


def is_litter(part: str) -> bool:
    """Whether a part of a name is what operating systems leave behind."""
    return part.casefold() in LITTER or part.startswith("._")


def what_is_unsafe(name: str) -> str:
    """Why a name is refused, or "".

    >>> what_is_unsafe("P1/../../etc/passwd")
    "a name with '..'"
    >>> what_is_unsafe("P1/P1_1.mat")
    ''
    """
    parts = name.split("/")
    if not name.isprintable():
        return "a name with control characters or broken ones"
    if "\\" in name:
        return "a name with a backslash"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return "an absolute path"
    if ".." in parts:
        return "a name with '..'"
    if "" in parts or "." in parts:
        return "a name with an empty part or '.'"
    if len(name) > MAX_NAME_CHARACTERS or max(len(part) for part in parts) > MAX_PART_CHARACTERS:
        return f"a name of {len(name):,} characters"
    return ""


def unsafe(name: str, got: str) -> Finding:
    return Finding(
        "unsafe-path",
        quote(name),
        got,
        "plain files inside the submission, with '/' between folders and short, printable names",
        "Copy the file itself to its place, or rename it.",
    )


def unreadable(name: str, got: str) -> Finding:
    return Finding("unreadable-file", quote(name), got, "a file that can be read to its end", "Write or pack it again.")


def too_large(name: str, size: int, bytes_limit: int) -> Finding:
    return Finding("too-large", quote(name), f"{size:,} bytes", f"at most {bytes_limit:,} bytes in a file")


def too_many_files() -> Finding:
    return Finding(
        "too-many-files",
        ROOT,
        f"more than {MAX_FILES:,} files",
        f"at most {MAX_FILES:,}",
        "Leave out everything but the predictions.",
    )


def duplicate_member(name: str) -> Finding:
    return Finding("duplicate-file", quote(name), "twice in the ZIP file", "every file once", "Pack the ZIP again.")


def not_a_zip(path: Path) -> Finding:
    got = "not a ZIP file, or a damaged one"
    return Finding("not-a-zip", quote(path.name), got, "a folder or a ZIP file", "Pack or copy it again.")
