"""The files of a submission, a folder or a ZIP, behind one interface. What is not safe to read is refused.

Safe are plain files inside the folder. Links out of it could read the reference, names with '..' could be about where
a file is, devices could block, and a member of a ZIP could be larger than it claims.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, BinaryIO, ClassVar, cast

from evaluation.challenge import LimitRules
from evaluation.files.decoding.streams import Damaged, foreign_file
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
        """Device and inode of a file that has more names than this one; nothing for all others."""
        return frozenset()

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
        """What the file system states of a file; None if it is gone: opening it then fails."""
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
                raise InputFault(unsafe(name, "a link that leads nowhere")) from None
            raise InputFault(_damaged_file(name, _why_unreadable(error))) from None

    def place(self, name: str) -> str:
        """Return if a file was listed."""
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
                    raise InputFault(unsafe(name, "a link that leads out of the submission"))
                mode = Path(path).stat().st_mode
                break
        if not stat.S_ISREG(mode):
            raise InputFault(
                unsafe(name, "a link to a folder" if stat.S_ISDIR(mode) else "neither a file nor a folder")
            )
        return path

    def walk(self, faults: _Faults) -> Iterator[str]:
        """Names of all files below the folder, litter and folders omitted; what is not a file is a fault.

        The entries of a folder come in the order of their names, so that faults do not depend on the file system.
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
            faults.add(unsafe(name, "a link that leads nowhere"))
        else:
            return True
        return False


class _CsvFile(FolderFiles):
    """A CSV file that is the whole submission, under the name that the platform gives it."""

    def __init__(self, path: Path, limits: LimitRules) -> None:
        self.path = path.resolve()
        self.limits = limits
        self.names = (PLATFORM_CSV,)

    def place(self, name: str) -> str:
        return str(self.path)

    def locate(self, name: str) -> str:
        return self.place(name)


# --- Names of files in submissions: which are safe to read, which operating systems leave behind, and findings. -------


MAX_NAME_CHARACTERS = 1000
MAX_PART_CHARACTERS = 255
LITTER = {"__macosx", ".ds_store", "thumbs.db", "desktop.ini", "icon\r"}
ROOT = "submission"
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
PLATFORM_CSV = "predictions.csv"  # what the platform makes of a CSV file that is handed in as it is


def is_litter(part: str) -> bool:
    """Return whether a part of a name is what operating systems leave behind."""
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


def _checked_names(names: Iterable[str], faults: _Faults, limits: LimitRules) -> tuple[str, ...]:
    """The names, sorted. Raises SubmissionRejected if missing, too many, or unsafe ones."""
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
    """Refuse files whose sizes add up to more than a submission may have. Raises SubmissionRejected."""
    if (total := sum(sizes)) > limits.bytes_per_submission:
        raise SubmissionRejected(
            fault("too-large", ROOT, wording="too-many-bytes-in-all", size=total, limit=limits.bytes_per_submission)
        )


class _Faults:
    """Findings; of each kind the first few are listed, the others counted."""

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
        """Its own name and those of the files that go with it."""
        return self.name, *self.companions.values()


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a submission by case.

    files         files of each case by its name, in the order of their classes; no entry for a case without files
    missing       cases of cases.csv without any file; which cases a shared file lacks is known when it has been read
    findings      the fault, errors and warnings, sorted
    shared_files  files that contain all cases, in the order of their classes
    inputs        names of the images and files that the platform's jobs were given
    """

    files: dict[str, tuple[CaseFile, ...]]
    missing: frozenset[str]
    findings: tuple[Finding, ...]
    shared_files: tuple[CaseFile, ...] = ()
    inputs: frozenset[str] = frozenset()


# --- ZIP files --------------------------------------------------------------------------------------------------------


ENTRY = struct.Struct("<4s6H3L5H2L")  # a member in the list at the end
HEADER = struct.Struct("<4s5H3L2H")  # what stands before the data of a member
END = struct.Struct("<4s4H2LH")  # what stands after the list
END_64 = struct.Struct("<4sQ2H2L4Q")  # the same for large files, before the locator
LOCATOR = struct.Struct("<4sLQL")
COMMENT_BYTES = 65535
IN_EXTRA_FIELD = 0xFFFFFFFF  # says of a number that it stands, in 64 bits, in the extra field
STORED, DEFLATED = 0, 8
LIST_BYTES_PER_FILE = 336
SMALL_LIST_BYTES = 1 << 20
COPIED_BYTES = 1 << 20
IN_MEMORY_BYTES = 1 << 26  # larger members go to a temporary file


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a ZIP file, as the list at its end describes it.

    start, stop   where it begins in the ZIP file, and where it ends at the earliest
    packed_bytes  of its data inside the ZIP file
    size          bytes of the file itself
    """

    name: str
    start: int
    stop: int
    packed_bytes: int
    size: int
    method: int
    checksum: int
    is_encrypted: bool
    is_link: bool


class _ZipFiles(SubmissionFiles):
    """The members of a ZIP file. Each is unpacked when it is opened, large ones to a temporary file without a name."""

    is_archive = True

    def __init__(self, path: Path, limits: LimitRules) -> None:
        self.path = path.resolve()
        self.limits = limits
        faults = _Faults()
        members: dict[str, Member] = {}
        for member in list_zip_members(self.path, limits):
            if not member.name:
                faults.add(unsafe("", "a member without a name"))
                continue
            if member.name.endswith("/") or any(map(is_litter, member.name.split("/"))):
                continue
            if member.is_link:
                faults.add(unsafe(member.name, "a link"))
            elif member.name in members:
                faults.add(fault("duplicate-file", quote(member.name), wording="twice-in-zip"))
            members[member.name] = member
        self.names = _checked_names(members, faults, limits)
        self.members = members
        _check_total((member.size for member in members.values()), limits)

    def size(self, name: str) -> int:
        return self.members[name].size

    def open(self, name: str) -> BinaryIO:
        member = self.members[name]
        _check_file_bytes(name, member.size, self.limits)
        if problem := _why_not_opened(member, self.limits):
            raise InputFault(problem)
        content: IO[bytes] = io.BytesIO() if member.size <= IN_MEMORY_BYTES else tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with self.path.open("rb") as archive:
                copy_checked(unpack(archive, member), member, content)
            content.seek(0)
        except (Damaged, zlib.error, EOFError):
            raise InputFault(_damaged_file(name, "damaged inside the ZIP file")) from None
        except OSError as error:
            raise InputFault(_damaged_file(name, _why_unreadable(error))) from None
        return cast(BinaryIO, content)


def open_submission(path: Path, limits: LimitRules) -> SubmissionFiles:
    """The files of a folder, of a ZIP, which is not unpacked, or a CSV file alone. Litter is omitted.

    limits   ``files_per_submission``, ``bytes_per_submission``, ``bytes_per_file`` and ``archive_ratio`` bound what is
             listed and opened

    Raises WrongUsage if there is nothing to read at the path, SubmissionRejected with all faults if there are no
    files, too many, too large ones, or some that are not safe to read.
    """
    why = "neither a folder nor a file"
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return FolderFiles(path, limits)
        if stat.S_ISREG(mode):
            if path.suffix.casefold() == ".csv":
                return _CsvFile(path, limits)
            return _ZipFiles(path, limits)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a path with a zero byte
        why = "no such folder or file"
    except OSError as error:
        why = _why_unreadable(error)
    raise WrongUsage(fault("no-submission", quote(path, 200), got=why))


def _why_not_opened(member: Member, limits: LimitRules) -> Finding | None:
    """Why a member is not unpacked, whatever its size; None if it is."""
    if member.is_encrypted:
        return _damaged_file(member.name, "encrypted with a password")
    if member.method not in (STORED, DEFLATED):
        return _damaged_file(member.name, f"compressed with method {member.method}, not with deflate (8)")
    if member.size > limits.archive_ratio * member.packed_bytes:
        size, packed, ratio = member.size, member.packed_bytes, limits.archive_ratio
        return fault("too-compressed", quote(member.name), unpacked_bytes=size, packed_bytes=packed, ratio=ratio)
    return None


# --- the content of a member ------------------------------------------------------------------------------------------


def copy_checked(pieces: Iterator[bytes], member: Member, content: IO[bytes]) -> None:
    """Write what was unpacked, never more than the member claims to have. Raises Damaged if it is something else."""
    size = checksum = 0
    for piece in pieces:
        size += len(piece)
        if size > member.size:
            raise Damaged
        checksum = zlib.crc32(piece, checksum)
        content.write(piece)
    if (size, checksum) != (member.size, member.checksum):
        raise Damaged


def unpack(archive: BinaryIO, member: Member) -> Iterator[bytes]:
    """The content of a member in small pieces. Raises Damaged, zlib.error."""
    archive.seek(member.start)
    header = archive.read(HEADER.size)
    if len(header) < HEADER.size or not header.startswith(b"PK\3\4"):
        raise Damaged
    *_, name_bytes, extra_bytes = HEADER.unpack(header)
    archive.seek(name_bytes + extra_bytes, 1)
    packed = _packed_pieces(archive, member.packed_bytes)
    yield from packed if member.method == STORED else _inflate(packed)


def _packed_pieces(archive: BinaryIO, remaining: int) -> Iterator[bytes]:
    while remaining:
        piece = archive.read(min(remaining, COPIED_BYTES))
        if not piece:
            raise Damaged
        remaining -= len(piece)
        yield piece


def _inflate(packed: Iterator[bytes]) -> Iterator[bytes]:
    """What pieces of raw deflate data decompress to, nothing before or after them."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in packed:
        if inflater.eof:
            raise Damaged
        waiting = piece
        while waiting:
            yield inflater.decompress(waiting, COPIED_BYTES)
            waiting = inflater.unconsumed_tail
    yield inflater.flush()  # a few kB at most
    if not inflater.eof or inflater.unused_data:
        raise Damaged


# --- the list of members ----------------------------------------------------------------------------------------------


def list_zip_members(path: Path, limits: LimitRules) -> list[Member]:
    """All members of a ZIP file, with folders and files of operating systems. Raises SubmissionRejected, WrongUsage."""
    try:
        with path.open("rb") as stream:
            start, stop, prefix_bytes = _find_directory(stream)
            list_bytes, limit = stop - start, limits.files_per_submission
            if list_bytes > max(SMALL_LIST_BYTES, LIST_BYTES_PER_FILE * limit):
                wording = "too-long-list-of-members"
                problem = fault("too-many-files", ROOT, wording=wording, limit=limit, list_bytes=list_bytes)
                raise SubmissionRejected(problem)
            stream.seek(start)
            members = read_list(stream.read(list_bytes), prefix_bytes, limits)
        _check_places(members, start)
    except OSError as error:
        raise WrongUsage(fault("no-submission", quote(path, 200), got=_why_unreadable(error))) from None
    except Damaged:
        what = foreign_file(path) or None
        wording = "foreign-submission" if what else ""
        raise SubmissionRejected(fault("not-a-zip", quote(path.name), wording=wording, got=what)) from None
    return members


def _find_directory(stream: BinaryIO) -> tuple[int, int, int]:
    """Where the list of members starts and stops, and how many bytes are before the ZIP file proper."""
    file_bytes = stream.seek(0, 2)
    tail_start = max(0, file_bytes - END.size - COMMENT_BYTES)
    stream.seek(tail_start)
    tail = stream.read()
    end = tail.rfind(b"PK\5\6")
    if end < 0 or len(tail) - end < END.size:
        raise Damaged
    *_, size, offset, _ = END.unpack_from(tail, end)
    stop = tail_start + end
    if stop >= END_64.size + LOCATOR.size:
        stream.seek(stop - END_64.size - LOCATOR.size)
        record = stream.read(END_64.size)
        if stream.read(LOCATOR.size).startswith(b"PK\6\7"):
            if not record.startswith(b"PK\6\6"):
                raise Damaged
            stop -= END_64.size + LOCATOR.size
            *_, size, offset = END_64.unpack(record)
    start = stop - size
    if start < 0 or offset > start:
        raise Damaged
    return start, stop, start - offset


def read_list(data: bytes, prefix_bytes: int, limits: LimitRules) -> list[Member]:
    members: list[Member] = []
    offset = 0
    while offset < len(data):
        if len(members) >= 2 * limits.files_per_submission + 100:  # folders and litter count here
            raise SubmissionRejected(fault("too-many-files", ROOT, limit=limits.files_per_submission))
        if not data.startswith(b"PK\1\2", offset) or offset + ENTRY.size > len(data):
            raise Damaged
        entry = ENTRY.unpack_from(data, offset)
        flags, method, checksum, packed_bytes, size = entry[3], entry[4], *entry[7:10]
        name_bytes, extra_bytes, comment_bytes, attributes, start = *entry[10:13], *entry[15:]
        name_stop = offset + ENTRY.size + name_bytes
        name = data[name_stop - name_bytes : name_stop]
        offset = name_stop + extra_bytes + comment_bytes
        if offset > len(data):
            raise Damaged
        if IN_EXTRA_FIELD in (size, packed_bytes, start):
            extra = data[name_stop : name_stop + extra_bytes]
            size, packed_bytes, start = _in_64_bits(extra, [size, packed_bytes, start])
        start += prefix_bytes
        members.append(
            Member(
                name=_decoded(name, says_utf_8=bool(flags & 0x800)),
                start=start,
                stop=start + HEADER.size + name_bytes + packed_bytes,
                packed_bytes=packed_bytes,
                size=size,
                method=method,
                checksum=checksum,
                is_encrypted=bool(flags & 1),
                is_link=stat.S_ISLNK(attributes >> 16),
            )
        )
    return members


def _in_64_bits(extra: bytes, numbers: Sequence[int]) -> list[int]:
    """The numbers, those that did not fit in 32 bits taken from the extra field, in the same order."""
    offset = 0
    while offset + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, offset)
        if kind == 1:
            wanted = numbers.count(IN_EXTRA_FIELD)
            if length < 8 * wanted or len(extra) < offset + 4 + 8 * wanted:
                raise Damaged
            large = iter(struct.unpack_from(f"<{wanted}Q", extra, offset + 4))
            return [next(large) if number == IN_EXTRA_FIELD else number for number in numbers]
        offset += 4 + length
    return list(numbers)


def _decoded(name: bytes, *, says_utf_8: bool) -> str:
    """Decode the name of a member: as UTF-8, which macOS writes without saying so, otherwise by the code page of
    DOS."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("utf-8", "surrogateescape") if says_utf_8 else name.decode("cp437")


def _check_places(members: Sequence[Member], list_start: int) -> None:
    """Refuse members that share bytes (a small file can then unpack to any size) or are outside of the file."""
    ordered = sorted(members, key=lambda member: member.start)
    for before, member in pairwise(ordered):
        if member.start < before.stop:
            raise SubmissionRejected(fault("overlapping-members", quote(member.name), other=before.name))
    if ordered and ordered[-1].stop > list_start:
        raise Damaged
