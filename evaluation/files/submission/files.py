"""The files of a submission, a folder or a ZIP, through one interface. Unsafe files are refused.

Safe are plain files inside the folder. Links out of it could read the reference, names with '..' could be about where
a file is, devices could block, and a member of a ZIP could be larger than it claims.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, BinaryIO, ClassVar, cast

from evaluation.challenge import Challenge, LimitRules
from evaluation.files.decoding.streams import (
    MEMBER_HEADER_BYTES,
    ZIP_MAGIC,
    CutOff,
    LongList,
    Plain,
    SharedBytes,
    foreign_file,
    list_zip_members,
)
from evaluation.files.system import long_path
from evaluation.findings import EXAMPLES_SHOWN, Finding, fault, quote
from evaluation.findings.errors import InputFault, SubmissionRejected, WrongUsage, refused


class SubmissionFiles(ABC):
    """The files of a submission by relative POSIX name, sorted; they are opened one by one. Can be pickled."""

    names: tuple[str, ...]
    path: Path  # of the folder or the ZIP
    is_archive: ClassVar[bool] = False

    @abstractmethod
    def size(self, name: str) -> int:
        """Bytes of a file, uncompressed, as the file system or the ZIP claims."""

    def linked_identities(self, name: str) -> frozenset[tuple[int, int]]:
        """Device and inode of a file with several hard links; nothing for other files."""
        return frozenset()

    def shown(self, name: str) -> str:
        """The name of a file in messages."""
        return name

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """A seekable stream of a file. Raises InputFault if it cannot be read or is too large."""


class FolderFiles(SubmissionFiles):
    """The files below a folder. The folder itself may be a link; a link inside it must not lead out of it."""

    def __init__(self, folder: Path, limits: LimitRules) -> None:
        self.path = folder.resolve()
        self.root = long_path(self.path)
        self.limits = limits
        faults = _Faults()
        self.names = _checked_names(self.walk(faults), faults, limits)
        _check_total((status.st_size for name in self.names if (status := self.listed_status(name))), limits)

    def size(self, name: str) -> int:
        return os.stat(self.place(name)).st_size  # noqa: PTH116, of thousands of files: a Path costs more than this

    def linked_identities(self, name: str) -> frozenset[tuple[int, int]]:
        status = self.listed_status(name)
        return frozenset({(status.st_dev, status.st_ino)} if status and status.st_nlink > 1 else ())

    def listed_status(self, name: str) -> os.stat_result | None:
        """The file status; None if the file is gone, so that opening it fails."""
        with suppress(OSError):
            return os.stat(self.place(name))  # noqa: PTH116, as in ``size``
        return None

    def open(self, name: str) -> BinaryIO:
        try:
            path = self.locate(name)
            _check_file_bytes(name, os.stat(path).st_size, self.limits)  # noqa: PTH116, as in ``size``
            return open(path, "rb")  # noqa: PTH123, as in ``size``
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link that leads to itself
                raise InputFault(unsafe(name, "a link to a missing file")) from None
            raise InputFault(_damaged_file(name, _why_unreadable(error))) from None

    def place(self, name: str) -> str:
        """Return the path of a file as listed."""
        return f"{self.root}/{name}"

    def locate(self, name: str) -> str:
        """Return the path of a file, checked again: links may have changed since the folder was listed."""
        path, mode = str(self.root), 0
        for part in name.split("/"):
            path = f"{path}/{part}"
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                path = os.path.realpath(self.place(name))
                if not Path(path).is_relative_to(self.root):
                    raise InputFault(unsafe(name, "a link to a file outside the submission"))
                mode = Path(path).stat().st_mode
                break
        if not stat.S_ISREG(mode):
            raise InputFault(unsafe(name, "a link to a folder" if stat.S_ISDIR(mode) else "not a file or folder"))
        return path

    def walk(self, faults: _Faults) -> Iterator[str]:
        """Names of all files below the folder, litter and folders omitted; other types are faults.

        The entries of a folder are sorted by name, so that faults do not depend on the file system.
        """
        waiting, number = [""], 0
        limit = self.limits.files_per_submission
        most = 2 * limit + 100  # folders and litter count here
        while waiting:
            prefix = waiting.pop()
            try:
                with os.scandir(self.root / prefix) as entries:
                    listed = list(islice(entries, most - number + 1))
                number += len(listed)
                if number > most:
                    raise SubmissionRejected(fault("too-many-files", ROOT, limit=limit))
                for entry in sorted(listed, key=lambda entry: entry.name):
                    name = prefix + entry.name
                    if is_litter(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/")
                    elif entry.is_file(follow_symlinks=False) or self.may_follow(name, faults):
                        yield name
            except OSError as error:
                faults.add(_damaged_file(prefix or ".", _why_unreadable(error)))

    def may_follow(self, name: str, faults: _Faults) -> bool:
        """Return whether a link leads to a file inside the folder; what does not is a fault."""
        try:
            self.locate(name)
        except InputFault as error:
            faults.add(*error.findings)
        except OSError:
            faults.add(unsafe(name, "a link to a missing file"))
        else:
            return True
        return False


class PlacedFiles(FolderFiles):
    """Files anywhere, under the names that the patterns of a challenge give them.

    places  path of each file by name
    called  names in messages, where they are others
    """

    def __init__(
        self, path: Path, places: Mapping[str, str], limits: LimitRules, called: Mapping[str, str] | None = None
    ) -> None:
        self.path, self.places, self.limits, self.called = path.resolve(), places, limits, called or {}
        self.names = tuple(sorted(places))

    def shown(self, name: str) -> str:
        return self.called.get(name, name)

    def place(self, name: str) -> str:
        return self.places.get(name, "")

    locate = place


# --- Names of files in submissions: which are safe to read, which operating systems leave behind, and findings. -------


MAX_NAME_CHARACTERS = 1000
MAX_PART_CHARACTERS = 255
LITTER = {"__macosx", ".ds_store", "thumbs.db", "desktop.ini", "icon\r"}
ROOT = "submission"
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
PLATFORM_CSV = "predictions.csv"  # what the platform makes of a CSV file that is handed in as it is


def is_litter(part: str) -> bool:
    """Return whether a part of a name is litter of an operating system."""
    return part.casefold() in LITTER or part.startswith("._")


def what_is_unsafe(name: str) -> str:
    """Return why a name is refused, or "".

    >>> what_is_unsafe("P1/../../etc/passwd")
    "a name with '..'"
    >>> what_is_unsafe("P1/P1_1.mat")
    ''
    """
    parts = name.split("/")
    if not name.isprintable():
        return "a name with control characters or invalid characters"
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


def _checked_names(names: Iterable[str], faults: _Faults, limits: LimitRules) -> tuple[str, ...]:
    """The names, sorted. Raises SubmissionRejected for missing, too many, or unsafe names."""
    safe = []
    for name in names:
        if why := what_is_unsafe(name):
            faults.add(unsafe(name, why))
        safe.append(name)
        if len(safe) > limits.files_per_submission:
            raise SubmissionRejected(fault("too-many-files", ROOT, limit=limits.files_per_submission))
    if faults.findings:
        raise SubmissionRejected(*faults.findings)
    if not safe:
        raise SubmissionRejected(fault("empty-submission", ROOT))
    return tuple(sorted(safe))


def _check_file_bytes(name: str, size: int, limits: LimitRules) -> None:
    """Raise InputFault for a file that is larger than one may be."""
    if size > limits.bytes_per_file:
        most = limits.bytes_per_file
        raise refused("too-large", quote(name), wording="too-many-bytes", size=size, limit=most)


def _check_total(sizes: Iterable[int], limits: LimitRules) -> None:
    """Refuse files with a total size above the limit of submissions. Raises SubmissionRejected."""
    if (total := sum(sizes)) > limits.bytes_per_submission:
        raise SubmissionRejected(
            fault("too-large", ROOT, wording="too-many-bytes-in-all", size=total, limit=limits.bytes_per_submission)
        )


class _Faults:
    """Findings; the first few of each kind are listed, the rest is counted."""

    def __init__(self) -> None:
        self.by_kind: dict[tuple[str, str], list[Finding]] = {}

    def add(self, finding: Finding) -> None:
        alike = self.by_kind.setdefault((finding.code, finding.got), [])
        if len(alike) < EXAMPLES_SHOWN:
            alike.append(finding)
        else:
            alike[-1] = replace(alike[-1], count=alike[-1].count + 1)

    @property
    def findings(self) -> list[Finding]:
        return [finding for alike in self.by_kind.values() for finding in alike]


def unsafe(name: str, why: str) -> Finding:
    return fault("unsafe-path", quote(name), wording="backslash" if "backslash" in why else "", got=why)


def _damaged_file(name: str, why: str) -> Finding:
    return fault("unreadable-file", quote(name), wording="damaged-in-submission", got=why)


def _why_unreadable(error: OSError) -> str:
    """Why a file could not be read. Raises the error where space, memory or open files of the machine have run out."""
    if error.errno in OF_THE_MACHINE:
        raise error
    return (error.strerror or "not readable").lower()


# --- The files of each case of a submission, for all layouts. ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file of a case, or of all cases, and the files that go with it.

    class_id    the class of everything in it, or 0: the file states it
    companions  names of these files by the key of the rules that has their pattern: class_map, class_table
    """

    name: str
    class_id: int
    companions: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Its name and the names of its companions."""
        return self.name, *self.companions.values()


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a submission by case.

    files         files of each case by its name, in the order of their classes; no entry for a case without files
    missing       cases of cases.csv without any file; missing cases in a shared file are found when it is read
    findings      the fault, errors and warnings, sorted
    shared_files  files that contain all cases, in the order of their classes
    inputs        names of the input images and files of the platform's jobs
    """

    files: dict[str, tuple[CaseFile, ...]]
    missing: frozenset[str]
    findings: tuple[Finding, ...]
    shared_files: tuple[CaseFile, ...] = ()
    inputs: frozenset[str] = frozenset()


# --- ZIP files --------------------------------------------------------------------------------------------------------


STORED, DEFLATED, ENCRYPTED, IS_UTF_8 = 0, 8, 0x1, 0x800
LIST_BYTES_PER_FILE = 336
SMALL_LIST_BYTES = 1 << 20
COPIED_BYTES = 1 << 20
IN_MEMORY_BYTES = 1 << 26  # larger members go to a temporary file


class _ZipFiles(SubmissionFiles):
    """The members of a ZIP file. A member is unpacked when it is opened, large members to an unnamed temporary file."""

    is_archive = True

    def __init__(self, path: Path, limits: LimitRules) -> None:
        self.path = path.resolve()
        self.limits = limits
        faults = _Faults()
        members: dict[str, zipfile.ZipInfo] = {}
        for member in _list_members(self.path, limits):
            name = _name_of(member)
            if not name:
                faults.add(unsafe("", "a member without a name"))
                continue
            if name.endswith("/") or any(map(is_litter, name.split("/"))):
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                faults.add(unsafe(name, "a link"))
            elif name in members:
                faults.add(fault("duplicate-file", quote(name), wording="twice-in-zip"))
            members[name] = member
        self.names = _checked_names(members, faults, limits)
        self.members = members
        _check_total((member.file_size for member in members.values()), limits)

    def size(self, name: str) -> int:
        return self.members[name].file_size

    def open(self, name: str) -> BinaryIO:
        member = self.members[name]
        _check_file_bytes(name, member.file_size, self.limits)
        if problem := _why_not_opened(name, member, self.limits):
            raise InputFault(problem)
        is_small = member.file_size <= IN_MEMORY_BYTES
        content: IO[bytes] = io.BytesIO() if is_small else tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with self.path.open("rb") as archive:
                archive.seek(member.header_offset)
                header = Plain(archive).read(MEMBER_HEADER_BYTES)
                archive.seek(sum(struct.unpack_from("<2H", header, 26)), 1)
                if header.startswith(ZIP_MAGIC):
                    packed = zipfile.ZipExtFile(archive, "r", member)
                    shutil.copyfileobj(packed, content, COPIED_BYTES)  # at the end the check sum is compared
            if content.tell() != member.file_size:
                raise CutOff
            content.seek(0)
        except (CutOff, zipfile.BadZipFile, zlib.error, EOFError):
            raise InputFault(_damaged_file(name, "damaged inside the ZIP file")) from None
        except OSError as error:
            raise InputFault(_damaged_file(name, _why_unreadable(error))) from None
        return cast(BinaryIO, content)


def open_submission(path: Path, limits: LimitRules) -> SubmissionFiles:
    """The files of a folder, of a ZIP, which is not unpacked, or a CSV file alone. Litter is omitted.

    limits   ``files_per_submission``, ``bytes_per_submission``, ``bytes_per_file`` and ``archive_ratio`` are the
             bounds

    Raises WrongUsage if the path does not exist, SubmissionRejected with all faults if there are no files, too many, or
    too large or unsafe files.
    """
    why = "not a folder or file"
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return FolderFiles(path, limits)
        if stat.S_ISREG(mode):
            if path.suffix.casefold() == ".csv":
                return PlacedFiles(path, {PLATFORM_CSV: str(path.resolve())}, limits)
            return _ZipFiles(path, limits)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a path with a zero byte
        why = "no such folder or file"
    except OSError as error:
        why = _why_unreadable(error)
    raise WrongUsage(fault("no-submission", quote(path, 200), got=why))


def open_of_challenge(path: Path, challenge: Challenge) -> SubmissionFiles:
    """Open a submission (``open_submission``); the names of hidden cases are not in its faults."""
    try:
        return open_submission(path, challenge.limits)
    except SubmissionRejected as error:
        raise rejection(challenge, error.findings) from None


def rejection(challenge: Challenge, findings: Iterable[Finding], inputs: Iterable[str] = ()) -> SubmissionRejected:
    """Create the exception for a submission with faults. ``inputs``: names of the images that jobs had as input."""
    names = {name for case in challenge.cases for name in (case.name, case.group)} | set(inputs)
    return SubmissionRejected(*findings).hiding(names if challenge.submission.case_names == "hidden" else ())


def _why_not_opened(name: str, member: zipfile.ZipInfo, limits: LimitRules) -> Finding | None:
    """Return why a member is not unpacked, whatever its size; None if it is."""
    if member.flag_bits & ENCRYPTED:
        return _damaged_file(name, "encrypted with a password")
    if member.compress_type not in (STORED, DEFLATED):
        return _damaged_file(name, f"compressed with method {member.compress_type}, not with deflate (8)")
    if member.file_size > limits.archive_ratio * member.compress_size:
        size, packed, ratio = member.file_size, member.compress_size, limits.archive_ratio
        return fault("too-compressed", quote(name), unpacked_bytes=size, packed_bytes=packed, ratio=ratio)
    return None


def _list_members(path: Path, limits: LimitRules) -> list[zipfile.ZipInfo]:
    """List all members of a ZIP, with folders and files of operating systems. Raises SubmissionRejected, WrongUsage."""
    limit = limits.files_per_submission
    most = max(SMALL_LIST_BYTES, LIST_BYTES_PER_FILE * limit), 2 * limit + 100  # folders and litter count here
    try:
        with path.open("rb") as stream:
            return list_zip_members(stream, *most)
    except OSError as error:
        raise WrongUsage(fault("no-submission", quote(path, 200), got=_why_unreadable(error))) from None
    except LongList as error:
        wording = "too-long-list-of-members" if error.list_bytes else ""
        problem = fault("too-many-files", ROOT, wording=wording, limit=limit, list_bytes=error.list_bytes)
    except SharedBytes as error:
        problem = fault("overlapping-members", quote(_name_of(error.member)), other=_name_of(error.before))
    except CutOff:
        what = foreign_file(path) or None
        problem = fault("not-a-zip", quote(path.name), wording="foreign-submission" if what else "", got=what)
    raise SubmissionRejected(problem)


def _name_of(member: zipfile.ZipInfo) -> str:
    """Return the name of a member: macOS writes UTF-8 without a flag, which zipfile reads by the code page of DOS."""
    name = member.orig_filename
    if not member.flag_bits & IS_UTF_8:
        with suppress(UnicodeDecodeError):
            return name.encode("cp437").decode()
    return name
