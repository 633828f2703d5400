"""MATLAB 7.3 files, which are HDF5, through h5py; what points elsewhere, and what may be damaged, is looked for before.

Its axes are those of MATLAB in reverse order. Links, external files and virtual datasets are never followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.streams import CutOff, Damaged, inflated, too_large
from evaluation.findings.errors import InputFault

MAX_MEMBERS = 1000
MAX_PATH = 1000
MAX_AXES = 32
MAX_NUMBERS = 1 << 56  # numpy cannot make larger arrays, even if another axis is 0
MAX_CHUNKS = 1 << 18
PADDED_BYTES = 1 << 20  # chunks may be so much larger than a small array …
PADDED_RATIO = 8  # … or so many times larger than a large one
DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
KINDS = {"c": "an array of complex numbers", "S": "a text", "O": "an object", "V": "an object"}

# What h5py raises for damaged files. KeyError and RuntimeError: its own translations of the errors of HDF5.
HDF5_FAULTS = (OSError, KeyError, RuntimeError, ValueError, TypeError, NotImplementedError, OverflowError)


class Unsupported(Exception):
    """A part of HDF5 that is not read. Never leaves the readers of this package."""


class Hdf5Member:
    """A member of the root group, or of one in it.

    name        its path from the root
    kind        None for plain numbers, else what it is
    shape       sizes of the axes as HDF5 has them
    attributes  texts of MATLAB, and numbers as they are
    """

    def __init__(self, name: str, item: Any | None) -> None:
        self.name = name
        self.dataset = item if hasattr(item, "shape") else None  # a named type has no shape
        self.kind = "a link" if item is None else "a struct" if self.dataset is None else None
        self.shape: tuple[int, ...] = ()
        self.attributes = {} if item is None else {key: item.attrs[key] for key in item.attrs if "MATLAB_" in key}
        if self.dataset is not None:
            dtype = self.dataset.dtype
            self.shape = self.dataset.shape if self.dataset.shape is not None else (0,)
            self.kind = None if dtype.kind in "biuf" and dtype.itemsize <= 8 else KINDS.get(dtype.kind, "an object")
            if dtype.names == ("real", "imag"):
                self.kind = KINDS["c"]
            if math.prod(max(size, 1) for size in self.shape) > MAX_NUMBERS or len(self.shape) > MAX_AXES:
                raise Damaged("a variable without usable dimensions")


def list_members(stream: BinaryIO, *, nested: bool = False) -> list[Hdf5Member]:
    """The members of the root group but those that MATLAB keeps for itself; ``nested``: also those of all groups.

    Raises CutOff, Damaged.
    """
    import h5py

    members: list[Hdf5Member] = []
    with hdf5_damage():
        file = h5py.File(stream, "r", driver="fileobj", locking=False)
        waiting: list[tuple[str, Any]] = [("", file)]
        while waiting:
            prefix, group = waiting.pop(0)
            if len(members) + len(group) > MAX_MEMBERS or len(prefix) > MAX_PATH:
                raise Damaged(f"more than {MAX_MEMBERS:,} variables")
            for name in group:
                if name.startswith("#"):
                    continue
                is_hard = type(group.get(name, getlink=True)) is h5py.HardLink
                member = Hdf5Member(prefix + name, group[name] if is_hard else None)
                members.append(member)
                if nested and is_hard and isinstance(group[name], h5py.Group):
                    waiting.append((f"{prefix}{name}/", group[name]))
    return members


def read_member(member: Hdf5Member, *, where: str, bytes_limit: int) -> npt.NDArray[Any]:
    """The numbers of a member, in its shape. Raises InputFault (too-large), CutOff, Damaged, Unsupported."""
    dataset: Any = member.dataset
    needed = math.prod(member.shape) * dataset.dtype.itemsize
    if needed > bytes_limit:
        raise InputFault(too_large(where, f"an array of {needed:,} bytes ({dataset.dtype.name})", bytes_limit))
    with hdf5_damage():
        if dataset.is_virtual or dataset.external:
            raise Unsupported("data in another file")
        if dataset.chunks is not None:
            check_chunks(dataset, needed)
        elif dataset.id.get_storage_size() not in (0, needed):
            raise Damaged(f"{dataset.id.get_storage_size():,} bytes of data for an array of {needed:,}")
        numbers: npt.NDArray[Any] = np.asarray(dataset[()])
    return numbers.reshape(member.shape)


def check_chunks(dataset: Any, needed: int) -> None:
    """Refuse chunks that lie beside the others, or give fewer or more bytes than they have: HDF5 itself does not."""
    plist, chunk = dataset.id.get_create_plist(), dataset.chunks
    filters = [plist.get_filter(index)[0] for index in range(plist.get_nfilters())]
    for number in filters:
        if number not in (DEFLATE, SHUFFLE, FLETCHER32) or filters.count(number) > 1:
            raise Unsupported(f"the filter {number}")
    count = math.prod(-(-size // step) for size, step in zip(dataset.shape, chunk, strict=True))
    chunk_bytes = math.prod(chunk) * dataset.dtype.itemsize
    if count * chunk_bytes > max(PADDED_BYTES, PADDED_RATIO * needed):
        raise Damaged(f"chunks of {chunk_bytes:,} bytes for an array of {needed:,}")
    if count > MAX_CHUNKS:
        raise Unsupported(f"{count:,} chunks")
    written = dataset.id.get_num_chunks()
    if written > count:
        raise Damaged("a chunk beside the others")
    found = [dataset.id.get_chunk_info(index) for index in range(written)]
    offsets = {info.chunk_offset for info in found}
    inside = [
        all(start % step == 0 and start < size for start, step, size in zip(offset, chunk, dataset.shape, strict=True))
        for offset in offsets
    ]
    if len(offsets) < written or not all(inside):
        raise Damaged("a chunk beside the others")
    for info in found:
        if info.size > 2 * chunk_bytes + 1024:
            raise Damaged("a chunk that is too long")
        check_size_of_chunk(dataset, info, filters, chunk_bytes)


def check_size_of_chunk(dataset: Any, info: Any, filters: list[int], chunk_bytes: int) -> None:
    """Raise CutOff unless the bytes of a chunk are, or are inflated to, those of its numbers."""
    applied = [number for index, number in enumerate(filters) if not info.filter_mask >> index & 1]
    check_sum = 4 * (FLETCHER32 in applied)
    size = info.size
    if DEFLATE in applied:
        _, data = dataset.id.read_direct_chunk(info.chunk_offset)
        if FLETCHER32 in applied and applied.index(FLETCHER32) > applied.index(DEFLATE):
            data, check_sum = data[:-4], 0
        size = len(inflated(data, chunk_bytes + 4))
    if size != chunk_bytes + check_sum:
        raise CutOff


@contextmanager
def hdf5_damage() -> Iterator[None]:
    """What h5py raises, as CutOff or Damaged."""
    try:
        yield
    except HDF5_FAULTS as error:
        text = str(error)
        if any(word in text for word in ("truncated file", "filter returned failure", "read data", "checksum", "eof")):
            raise CutOff from None
        raise Damaged(text.partition("(")[2].rstrip(")") or text) from None
