"""The files of a submission, a folder or a ZIP, behind one interface. What is not safe to read is refused.

Safe are plain files inside the folder. Links out of it could read the reference, names with '..' could lie about where
a file is, devices could block, and a member of a ZIP could be larger than it claims.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from evaluation.challenge import LimitRules
from evaluation.findings import EXAMPLES_SHOWN, Finding, fault, quote
from evaluation.findings.errors import InputFault, SubmissionRejected, refused


class SubmissionFiles(ABC):
    """The files of a submission by relative POSIX name, sorted; they are opened one by one. Can be pickled."""

    names: tuple[str, ...]
    path: Path  # of the folder or the ZIP

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
        self.path = self.root = folder.resolve()
        self.limits = limits
        faults = Faults()
        self.names = checked_names(walk(self.root, faults, limits), faults, limits)
        check_total(map(self.listed_size, self.names), limits)

    def size(self, name: str) -> int:
        return self.locate(name).stat().st_size

    def linked_identities(self, name: str) -> frozenset[tuple[int, int]]:
        with suppress(OSError):
            status = (self.root / name).stat()
            return frozenset({(status.st_dev, status.st_ino)} if status.st_nlink > 1 else ())
        return frozenset()

    def listed_size(self, name: str) -> int:
        """The size of a file; 0 if it is gone: opening it then fails."""
        with suppress(OSError):
            return (self.root / name).stat().st_size
        return 0

    def open(self, name: str) -> BinaryIO:
        try:
            path = self.locate(name)
            check_bytes(name, path.stat().st_size, self.limits)
            return path.open("rb")
        except OSError as error:
            raise InputFault(unreadable(name, why_unreadable(error))) from None
        except RuntimeError:  # a link that leads to itself
            raise InputFault(unsafe(name, "a link that leads nowhere")) from None

    def locate(self, name: str) -> Path:
        """The path of a file, checked again: links may have changed since the folder was listed."""
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            raise InputFault(unsafe(name, "a link that leads out of the submission"))
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputFault(unsafe(name, "neither a file nor a folder"))
        return path


class CsvFile(SubmissionFiles):
    """A CSV file that is the whole submission, under the name that the platform gives it."""

    def __init__(self, path: Path, limits: LimitRules) -> None:
        self.path = path.resolve()
        self.limits = limits
        self.names = (PLATFORM_CSV,)

    def size(self, name: str) -> int:
        return self.path.stat().st_size

    def open(self, name: str) -> BinaryIO:
        check_bytes(name, self.size(name), self.limits)
        try:
            return self.path.open("rb")
        except OSError as error:
            raise InputFault(unreadable(name, why_unreadable(error))) from None


def walk(root: Path, faults: Faults, limits: LimitRules) -> Iterator[str]:
    """Names of all files below a folder, litter and folders left out; what is not a file is a fault.

    The entries of a folder come in the order of their names, so that faults do not depend on the file system.
    """
    waiting = [""]
    number = 0
    most = 2 * limits.files_per_submission + 100  # folders and litter count here
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(root / prefix) as entries:
                listed = list(islice(entries, most - number + 1))
                number += len(listed)
                if number > most:
                    raise SubmissionRejected(fault("too-many-files", ROOT, limit=limits.files_per_submission))
                for entry in sorted(listed, key=lambda entry: entry.name):
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
            faults.add(unreadable(prefix or ".", why_unreadable(error)))


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


# --- Names of files in submissions: which are safe to read, which operating systems leave behind, and findings. -------


MAX_NAME_CHARACTERS = 1000
MAX_PART_CHARACTERS = 255
LITTER = {"__macosx", ".ds_store", "thumbs.db", "desktop.ini", "icon\r"}
ROOT = "submission"
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
PLATFORM_CSV = "predictions.csv"  # what the platform makes of a CSV file that is handed in as it is


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


def checked_names(names: Iterable[str], faults: Faults, limits: LimitRules) -> tuple[str, ...]:
    """The names, sorted. Raises SubmissionRejected if there are none, too many, or unsafe ones."""
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


def check_bytes(name: str, size: int, limits: LimitRules) -> None:
    """Raise InputFault for a file that is larger than one may be."""
    if size > limits.bytes_per_file:
        most = limits.bytes_per_file
        raise refused("too-large", quote(name), wording="too-many-bytes", size=size, limit=most)


def check_total(sizes: Iterable[int], limits: LimitRules) -> None:
    """Refuse files whose sizes add up to more than a submission may have. Raises SubmissionRejected."""
    if (total := sum(sizes)) > limits.bytes_per_submission:
        raise SubmissionRejected(
            fault("too-large", ROOT, wording="too-many-bytes-in-all", size=total, limit=limits.bytes_per_submission)
        )


class Faults:
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


def unreadable(name: str, why: str) -> Finding:
    return fault("unreadable-file", quote(name), wording="damaged-in-submission", got=why)


def why_unreadable(error: OSError) -> str:
    """Why a file could not be read. Raises the error where space, memory or open files of the machine have run out."""
    if error.errno in OF_THE_MACHINE:
        raise error
    return (error.strerror or "not readable").lower()


# --- The files of each case of a submission, for all layouts. ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file of a case, and the files that go with it.

    class_id    the class of everything in it, or 0: the file says it
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
class SharedFile:
    """A file of all cases; ``class_id`` as in ``CaseFile``."""

    name: str
    class_id: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a submission by case.

    files         files of each case by its name, in the order of their classes; no entry for a case without files
    missing       cases of cases.csv without any file; which cases a shared file lacks is known when it has been read
    findings      what is wrong, errors and warnings, sorted
    shared_files  files that hold all cases, in the order of their classes
    inputs        names of the images and files that the platform's jobs were given
    """

    files: dict[str, tuple[CaseFile, ...]]
    missing: frozenset[str]
    findings: tuple[Finding, ...]
    shared_files: tuple[SharedFile, ...] = ()
    inputs: frozenset[str] = frozenset()
