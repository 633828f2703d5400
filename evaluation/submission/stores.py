"""Zarr stores that are folders: ``NAME.zarr/`` with all its parts counts as one file, ``NAME.zarr.zip``.

The parts are packed, without compression, when the file is opened. Each is opened as any file is (no link leads out, a
member of a ZIP has the size that it claims), and together they may have the bytes of one file.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from evaluation.challenge import LimitRules
from evaluation.decoding.foreign import ZARR, is_of_zarr
from evaluation.findings import quote
from evaluation.findings.annotations import TooManyBytes
from evaluation.findings.errors import InputFault, SubmissionRejected
from evaluation.submission.files import FolderFiles, SubmissionFiles
from evaluation.submission.names import unreadable, why_unreadable

IN_STORE = re.compile(r"((?:[^/]+/)*?[^/]*\.zarr)/(.+)", re.IGNORECASE)
PACKED = ".zip"
MEMORY_BYTES = 1 << 26  # larger stores go to a temporary file


def find_stores(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The names of the parts of each store, by the name that it counts as; a folder inside a store is a part of it.

    >>> find_stores(["P1/a.zarr/.zgroup", "P1/a.zarr/0/.zarray", "b.zarr/notes.txt"])
    {'P1/a.zarr.zip': ('P1/a.zarr/.zgroup', 'P1/a.zarr/0/.zarray')}
    """
    parts: dict[str, list[str]] = {}
    tops = set()
    known = set()
    for name in names:
        known.add(name)
        if match := IN_STORE.fullmatch(name):
            parts.setdefault(match[1], []).append(name)
            if is_of_zarr(name) and "/" not in match[2]:
                tops.add(match[1])
    return {top + PACKED: tuple(parts[top]) for top in parts if top in tops and top + PACKED not in known}


class WithStores(SubmissionFiles):
    """The files of a submission, in which each store is one file."""

    def __init__(self, files: SubmissionFiles, stores: Mapping[str, tuple[str, ...]], limits: LimitRules) -> None:
        self.files, self.stores, self.limits = files, stores, limits
        self.path = files.path
        in_stores = {part for parts in stores.values() for part in parts}
        self.names = tuple(sorted([*stores, *(name for name in files.names if name not in in_stores)]))

    def parts(self, name: str) -> tuple[str, ...]:
        return self.stores.get(name, (name,))

    def size(self, name: str) -> int:
        return sum(map(self.files.size, self.parts(name)))

    def linked_identities(self, name: str) -> frozenset[tuple[int, int]]:
        return frozenset().union(*map(self.files.linked_identities, self.parts(name)))

    def open(self, name: str) -> BinaryIO:
        if name not in self.stores:
            return self.files.open(name)
        return pack(self.files, self.stores[name], name, len(name) - len(PACKED) + 1, self.limits)


def with_stores(files: SubmissionFiles, limits: LimitRules) -> SubmissionFiles:
    stores = find_stores(files.names)
    return WithStores(files, stores, limits) if stores else files


def pack(files: SubmissionFiles, parts: Iterable[str], name: str, cut: int, limits: LimitRules) -> BinaryIO:
    """A ZIP of some files, whose names lose their first ``cut`` characters. Raises InputFault."""
    parts = list(parts)
    try:
        size = sum(map(files.size, parts))
    except OSError as error:
        raise InputFault(unreadable(name, why_unreadable(error))) from None
    if size > limits.bytes_per_file:
        raise InputFault(TooManyBytes(size, limits.bytes_per_file).at(quote(name)))
    content = cast(BinaryIO, tempfile.SpooledTemporaryFile(MEMORY_BYTES))  # noqa: SIM115 (its reader closes it)
    with zipfile.ZipFile(content, "w") as archive:
        for part in parts:
            with files.open(part) as opened, archive.open(zipfile.ZipInfo(part[cut:]), "w", force_zip64=True) as target:
                shutil.copyfileobj(opened, target)
    content.seek(0)
    return content


# --- stores of the own disk -------------------------------------------------------------------------------------------


def is_store(path: Path) -> bool:
    """Whether a folder is a Zarr store."""
    return path.is_dir() and any((path / name).is_file() for name in ZARR)


def store_at(path: Path) -> Path | None:
    """The folder that counts as the file at a path, None if there is none."""
    folder = path.with_name(path.name.removesuffix(PACKED))
    has_name = path.name.lower().endswith(f".zarr{PACKED}")
    return folder if has_name and not path.exists() and is_store(folder) else None


def is_file(path: Path) -> bool:
    return path.is_file() or store_at(path) is not None


def open_file(path: Path, limits: LimitRules) -> BinaryIO:
    """A file, or the store that counts as it. Raises InputFault, OSError."""
    folder = store_at(path)
    return path.open("rb") if folder is None else pack_folder(folder, limits)


def pack_folder(folder: Path, limits: LimitRules) -> BinaryIO:
    """A store as a ZIP. Raises InputFault."""
    try:
        files = FolderFiles(folder, limits)
    except SubmissionRejected as error:
        raise InputFault(*error.findings) from None
    return pack(files, files.names, folder.name, 0, limits)


def packed_copy(folder: Path, workspace: Path) -> Path:
    """A store as ``NAME.zarr.zip`` in another folder. Raises InputFault."""
    copy = workspace / re.sub(r"(\.zarr)?$", ".zarr.zip", folder.resolve().name, count=1, flags=re.IGNORECASE)
    with pack_folder(folder, LimitRules()) as packed, copy.open("wb") as stream:
        shutil.copyfileobj(packed, stream)
    return copy
