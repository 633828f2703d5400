"""NumPy files: .npy, and .npz (a ZIP of them). NumPy Enhancement Proposal 1.

Nothing is unpickled.
"""

from __future__ import annotations

import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.content import EMPTY_ZIP_MAGIC, NPY_MAGIC
from evaluation.decoding.label_array import Pixels
from evaluation.decoding.streams import CutOff, Damaged, Plain, read_array
from evaluation.findings import quote
from evaluation.findings.errors import refused

NPY_HEADER_BYTES = 10_000  # as many as numpy itself allows
MAX_AXES = 32
MAX_SIDE = 1 << 62
DIRECTORY_BYTES = 1 << 20
MEMBER_HEADER_BYTES = 30
ID_NAMES = ("labels", "label", "inst_map", "inst", "instances", "n_ary_mask", "mask", "masks", "arr_0")
CLASS_NAMES = ("classes", "class_map", "type_map", "type", "types")

# What numpy raises for headers that it does not write: ValueError by itself, the others from what it calls.
HEADER_FAULTS = (
    ValueError, TypeError, SyntaxError, LookupError, MemoryError, RecursionError, OverflowError, TokenError,
)  # fmt: skip

# What zipfile raises for damaged files: BadZipFile by itself, the others from what it calls.
ZIP_FAULTS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, OverflowError,
    struct.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a .npy file says of its array. ``fortran``: the first axis runs fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @property
    def holds_object(self) -> bool:
        """Whether it is a single Python object, as in files of cellpose."""
        return self.dtype.kind == "O" and self.shape == ()


def peek_npy(stream: BinaryIO, where: str, bytes_limit: int) -> Pixels:
    """The array of a .npy file. Reading raises InputFault: too-large, unreadable-file. Raises CutOff, Damaged."""
    source = Plain(stream)
    header = read_npy_header(source)

    def read() -> npt.NDArray[Any]:
        return read_array(
            source, header.shape, header.dtype, where=where, bytes_limit=bytes_limit, fortran=header.fortran
        )

    return Pixels(where, header.shape, read, header.dtype)


def read_npy_header(source: Plain) -> NpyHeader:
    """Shape and type from the dictionary that a .npy file starts with; the source is left at the data."""
    start = source.read(8)
    if not start.startswith(NPY_MAGIC):
        raise Damaged("not that of an array")
    version = 1 if start[6] == 1 else 2
    size = source.read(2 * version)
    header_bytes = int.from_bytes(size, "little")
    if header_bytes > NPY_HEADER_BYTES:
        raise Damaged(f"a description of {header_bytes:,} bytes")
    read_header = np.lib.format.read_array_header_1_0 if version == 1 else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings(action="ignore"):  # about headers of Python 2
            shape, fortran, dtype = read_header(BytesIO(size + source.read(header_bytes)))
    except HEADER_FAULTS:
        raise Damaged("no description of the array") from None
    if len(shape) > MAX_AXES or not all(type(size) is int and 0 <= size < MAX_SIDE for size in shape):
        raise Damaged("no usable shape")
    return NpyHeader(shape, dtype, fortran)


def peek_npz(stream: BinaryIO, where: str, bytes_limit: int, *, names: Sequence[str] = ID_NAMES) -> Pixels:
    """The only array of an .npz file, or the only one with one of the names. It is read where it lies.

    Raises InputFault (no-mask-variable), CutOff, Damaged; reading as ``peek_npy``.
    """
    check_directory(stream)
    with zip_damage_told():
        archive = zipfile.ZipFile(stream)
        member = choose_member(archive, where, names)
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Damaged("an array that is encrypted, or compressed in another way than numpy does")
        content: Any = archive.open(member)  # it only has to read
        pixels = peek_npy(content, f"{where}, {quote(member.filename)}", bytes_limit)

    def read() -> npt.NDArray[Any]:
        with zip_damage_told():
            array = pixels.read()
            if content.read(1):  # at its end the check sum is compared
                raise CutOff
            return array

    return replace(pixels, read=read)


@contextmanager
def zip_damage_told() -> Iterator[None]:
    """What zipfile raises, as CutOff."""
    try:
        yield
    except ZIP_FAULTS:
        raise CutOff from None


def check_directory(stream: BinaryIO, most: int = DIRECTORY_BYTES) -> None:
    """Refuse a ZIP whose list of members has more bytes than ``most``, names one twice, or lets them share bytes.

    Raises CutOff, Damaged.
    """
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 65535 - 22))
    tail = stream.read()
    end = tail.rfind(EMPTY_ZIP_MAGIC)
    if end < 0 or len(tail) - end < 22:
        raise CutOff
    (directory_bytes,) = struct.unpack_from("<I", tail, end + 12)
    if tail[max(0, end - 20) : end].startswith(b"PK\6\7") or directory_bytes > most:
        raise Damaged("a list of members that is too long")
    try:
        members = sorted(zipfile.ZipFile(stream).infolist(), key=lambda member: member.header_offset)
    except ZIP_FAULTS:
        raise CutOff from None
    if len({member.filename for member in members}) < len(members):
        raise Damaged("a list that names a member twice")
    for before, member in pairwise(members):
        if member.header_offset < before.header_offset + MEMBER_HEADER_BYTES + before.compress_size:
            raise Damaged("members that share bytes")
    stream.seek(0)


def choose_member(archive: zipfile.ZipFile, where: str, names: Sequence[str]) -> zipfile.ZipInfo:
    """The array to read. Raises InputFault if it cannot be told."""
    members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    named = [member for member in members if member.filename.removesuffix(".npy") in names]
    chosen = named if len(members) > 1 else members
    if len(chosen) == 1:
        return chosen[0]
    names_there = [member.filename.removesuffix(".npy") for member in members]
    expected = f"one array, or one with a name such as {quote(names[0])}"
    raise refused("no-mask-variable", where, wording="no-array-in-npz", expected=expected, names=names_there)
