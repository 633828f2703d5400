"""The files of a submission, a folder or a ZIP, behind one interface. What is not safe to read is refused.

Safe are plain files inside the folder. Links out of it could read the reference, names with '..' could lie about where
a file is, devices could block, and a member of a ZIP could be larger than it claims.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from evaluation.challenge import LimitRules
from evaluation.findings import fault, quote
from evaluation.findings.errors import InputFault, SubmissionRejected
from evaluation.submission.names import (
    PLATFORM_CSV,
    ROOT,
    Faults,
    check_total,
    checked_names,
    is_litter,
    unreadable,
    unsafe,
    why_unreadable,
)


class SubmissionFiles(ABC):
    """The files of a submission by relative POSIX name, sorted. Can be pickled; closes itself as a context manager."""

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

    def close(self) -> None:  # noqa: B027 (files are opened one by one: there is nothing to release)
        """Release what is open; streams that were handed out stay usable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
            if (size := path.stat().st_size) > self.limits.bytes_per_file:
                raise InputFault(
                    fault(
                        "too-large", quote(name), wording="too-many-bytes", size=size, limit=self.limits.bytes_per_file
                    )
                )
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
        if (size := self.size(name)) > self.limits.bytes_per_file:
            raise InputFault(
                fault("too-large", quote(name), wording="too-many-bytes", size=size, limit=self.limits.bytes_per_file)
            )
        try:
            return self.path.open("rb")
        except OSError as error:
            raise InputFault(unreadable(name, why_unreadable(error))) from None


def walk(root: Path, faults: Faults, limits: LimitRules) -> Iterator[str]:
    """Names of all files below a folder, litter and folders left out; what is not a file is a fault.

    The entries of a folder come in the order of their names, so that faults do not depend on the file system.
    """
    waiting = [""]
    seen = 0
    most = 2 * limits.files_per_submission + 100  # folders and litter count here
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(root / prefix) as entries:
                found = list(islice(entries, most - seen + 1))
                seen += len(found)
                if seen > most:
                    raise SubmissionRejected(fault("too-many-files", ROOT, limit=limits.files_per_submission))
                for entry in sorted(found, key=lambda entry: entry.name):
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
