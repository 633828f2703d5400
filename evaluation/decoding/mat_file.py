"""MATLAB files: their variables, and the numbers in those that are plain arrays. Levels 4, 5 and 7.3.

Level 5 (``-v6``, ``-v7``) is a list of elements (type, bytes, data), each perhaps compressed; a matrix is the elements
flags, dimensions, name and data. They are read here and not by scipy.io.loadmat, which takes the memory that an element
claims to need (up to 4 GB for a name), before it looks at the dimensions; the tests compare both. Level 7.3 is HDF5
behind a block of 512 bytes; its axes are those of MATLAB in reverse order.
MathWorks, "MAT-File Format", R2019b.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from evaluation.decoding.hdf5 import HDF5_MAGIC, MAX_AXES, MAX_NAME_BYTES, Hdf5File, Member, Unsupported
from evaluation.decoding.streams import CutOff, Damaged, Inflated, Plain, Source, damage_told, read_array, stream_size
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault

MAX_VARIABLES = 1000
HDF5_START = 512

MI_MATRIX, MI_COMPRESSED = 14, 15
MI_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MX_NUMERIC = range(6, 16)
TEXT, STRUCT, OBJECT, SPARSE = "a text", "a struct", "an object", "a sparse matrix"
MX_NAMES = {1: "a cell array", 2: STRUCT, 3: OBJECT, 4: TEXT, 5: SPARSE, 16: "a function"}
ENDIAN: dict[str, Literal["little", "big"]] = {"<": "little", ">": "big"}
COMPLEX_FLAG = 0x0800
LEVEL_4_DTYPES = ("f8", "f4", "i4", "i2", "u2", "u1")
INTEGER_CLASSES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMERIC_CLASSES = {"double", "single", "logical", *INTEGER_CLASSES}
HDF5_CLASSES = {"cell": MX_NAMES[1], "struct": STRUCT, "char": TEXT, "function_handle": MX_NAMES[16]}
EXPECTED_FILE = "a MATLAB file of version 4, 6 or 7"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a MATLAB file, as its header describes it. ``kind`` is None for plain numbers, else what it is."""

    name: str
    shape: tuple[int, ...]
    kind: str | None
    position: int = 0
    byte_order: str = "<"
    dtype: str = ""  # level 4 only; in level 5 the type stands with the data
    member: Member | None = None  # level 7.3 only

    @property
    def is_plane(self) -> bool:
        return self.kind is None and len(self.shape) == 2


class NotMatlab(Exception):
    """The bytes are not those of a MATLAB file. Never leaves this module."""


class MatFile:
    """The variables of a MATLAB file, in the order of the file.

    stream       seekable, read from its start; stays open as long as variables are read
    where        the file, for messages
    bytes_limit  the most bytes that the file, and each array in it, may have

    Only headers are read. Raises InputFault: too-large, wrong-format, unsupported-format, unreadable-file.
    """

    def __init__(self, stream: BinaryIO, *, where: str, bytes_limit: int) -> None:
        self.stream = stream
        self.where = where
        self.bytes_limit = bytes_limit
        self.hdf5: Hdf5File | None = None
        size = stream_size(stream, where=where, bytes_limit=bytes_limit)
        with matlab_damage_told(where):
            self.variables = self.list_variables(size)

    def list_variables(self, size: int) -> list[Variable]:
        level = file_level(self.stream, size, self.where)
        if level == 4:
            return list_level_4(self.stream, size)
        if level == 5:
            return list_level_5(self.stream, size)
        self.hdf5 = Hdf5File(self.stream, HDF5_START)
        members = [member for member in self.hdf5.members if not member.name.startswith("#")]
        return [self.variable_of(self.hdf5, member) for member in members]

    def variable_of(self, file: Hdf5File, member: Member) -> Variable:
        """A member of level 7.3 as a variable."""
        kind = member.kind
        matlab_class = member.attributes.get("MATLAB_class", b"").decode("latin-1")
        if "MATLAB_sparse" in member.attributes:
            kind = SPARSE
        elif matlab_class in HDF5_CLASSES:
            kind = HDF5_CLASSES[matlab_class]
        elif matlab_class and matlab_class not in NUMERIC_CLASSES:
            kind = OBJECT
        shape = member.shape[::-1]
        if kind is None and any(member.attributes.get("MATLAB_empty", b"")):
            if not 2 <= math.prod(shape) <= MAX_AXES or member.dtype.kind != "u":
                raise Damaged("an empty array without its size")
            sizes = file.read(member, where=self.where, bytes_limit=self.bytes_limit)
            shape = tuple(sizes.reshape(-1).tolist())
        return Variable(member.name, shape, kind, member=member)

    def read(self, variable: Variable) -> npt.NDArray[Any]:
        """The numbers of a variable whose kind is None, in its shape; no more memory is taken than they need.

        Raises InputFault: too-large, wrong-format, unsupported-format, unreadable-file.
        """
        with matlab_damage_told(self.where):
            limits: dict[str, Any] = {"where": self.where, "bytes_limit": self.bytes_limit}
            if self.hdf5 is not None and variable.member is not None:
                array = self.hdf5.read(variable.member, **limits).T
                if array.shape != variable.shape:
                    raise Damaged("an empty array that is not empty")
                return array
            source, dtype = (open_level_4 if variable.dtype else open_level_5)(self.stream, variable)
            return read_array(source, variable.shape, dtype, fortran=True, **limits)


@contextmanager
def matlab_damage_told(where: str) -> Iterator[None]:
    """Turn what readers raise about damaged files into findings."""
    try:
        with damage_told(where, EXPECTED_FILE):
            yield
    except NotMatlab as error:
        refuse_format(where, str(error))
    except Unsupported as error:
        raise InputFault(unsupported(where, f"a MATLAB 7.3 file (HDF5) with {error}")) from None


def refuse_format(where: str, got: str) -> NoReturn:
    raise InputFault(Finding("wrong-format", where, got, EXPECTED_FILE, "Save it with save(…, '-v7').")) from None


def unsupported(where: str, got: str) -> Finding:
    fix = "Save it with '-v7' instead of '-v7.3'; from Python use scipy.io.savemat."
    return Finding("unsupported-format", where, got, EXPECTED_FILE, fix)


def file_level(stream: BinaryIO, size: int, where: str) -> int:
    """4, 5 or 7 (for 7.3). Raises InputFault, CutOff or NotMatlab for anything else."""
    head = stream.read(HDF5_START + len(HDF5_MAGIC))
    if not head:
        raise NotMatlab("an empty file")
    if head[HDF5_START:] == HDF5_MAGIC and head.startswith(b"MATLAB"):
        return 7
    if HDF5_MAGIC in (head[: len(HDF5_MAGIC)], head[HDF5_START:]):
        raise InputFault(unsupported(where, "an HDF5 file that is not MATLAB's, so the order of its axes is not known"))
    if head[126:128] in (b"IM", b"MI") and 1 in head[124:126]:
        return 5
    if size >= 20 and 0 in head[:4]:
        return 4
    if head.startswith((b"MATLAB 5.0", b"MATLAB 7")):
        raise CutOff
    raise NotMatlab("a text file of Octave" if head.startswith(b"# Created by Octave") else "not a MATLAB file")


def list_level_5(stream: BinaryIO, size: int) -> list[Variable]:
    """The variables of a level 5 file that have a name (a function workspace has none)."""
    stream.seek(126)
    byte_order = "<" if stream.read(2) == b"IM" else ">"
    variables: list[Variable] = []
    position = 128
    for _ in range(MAX_VARIABLES):
        if position + 8 > size:
            break
        stream.seek(position)
        _, count = struct.unpack(f"{byte_order}II", Plain(stream).read(8))
        if position + 8 + count > size:
            raise CutOff
        variable = read_matrix_header(matrix_source(stream, position, byte_order), position, byte_order)
        if variable.name:
            variables.append(variable)
        position += 8 + count
    else:
        raise NotMatlab(f"more than {MAX_VARIABLES:,} variables")
    return variables


def matrix_source(stream: BinaryIO, position: int, byte_order: str) -> Source:
    """The inside of the matrix element at a position, decompressed if it is compressed."""
    stream.seek(position)
    source: Source = Plain(stream)
    kind, count = struct.unpack(f"{byte_order}II", source.read(8))
    if kind == MI_COMPRESSED:
        source = Inflated(stream, count)
        kind, count = struct.unpack(f"{byte_order}II", source.read(8))
    if kind != MI_MATRIX:
        raise NotMatlab(f"an element of type {kind} where a variable should be")
    return source


def read_matrix_header(source: Source, position: int, byte_order: str) -> Variable:
    """Flags, dimensions and name of a matrix; the source is left at its data."""
    flags = int.from_bytes(read_element(source, byte_order, kinds=(6,), limit=8)[:4], ENDIAN[byte_order])
    mx_class = flags & 0xFF
    if mx_class == 17:  # opaque objects have names where others have dimensions
        return Variable("(object)", (), MX_NAMES[3], position, byte_order)
    dims_data = read_element(source, byte_order, kinds=(5, 6), limit=4 * MAX_AXES)
    dims = np.frombuffer(dims_data[: len(dims_data) // 4 * 4], f"{byte_order}i4")
    name = read_element(source, byte_order, kinds=(1, 2, 16), limit=MAX_NAME_BYTES)
    if len(dims) < 2 or (dims < 0).any():
        raise NotMatlab("a variable without usable dimensions")
    kind = None if mx_class in MX_NUMERIC else MX_NAMES.get(mx_class, "an unknown kind of variable")
    if kind is None and flags & COMPLEX_FLAG:
        kind = "an array of complex numbers"
    return Variable(name.rstrip(b"\0").decode("latin-1"), tuple(dims.tolist()), kind, position, byte_order)


def read_element(source: Source, byte_order: str, *, kinds: tuple[int, ...], limit: int) -> bytes:
    """The data of a small element, which must have one of the kinds and not more bytes than ``limit``."""
    kind, count, short = read_tag(source, byte_order)
    if kind not in kinds or count > limit:
        raise NotMatlab("a damaged header of a variable")
    if short is not None:
        return short[:count]
    return source.read(count + -count % 8)[:count]


def read_tag(source: Source, byte_order: str) -> tuple[int, int, bytes | None]:
    """Type and number of bytes of an element, and the data themselves if they are packed into the tag."""
    tag = source.read(8)
    kind, count = struct.unpack(f"{byte_order}II", tag)
    if kind >> 16:
        return kind & 0xFFFF, kind >> 16, tag[4:]
    return kind, count, None


def open_level_5(stream: BinaryIO, variable: Variable) -> tuple[Source, np.dtype[Any]]:
    """The source of a variable's numbers, and their type."""
    source = matrix_source(stream, variable.position, variable.byte_order)
    read_matrix_header(source, variable.position, variable.byte_order)
    kind, count, short = read_tag(source, variable.byte_order)
    if kind not in MI_DTYPES:
        raise NotMatlab(f"numbers of the unknown type {kind}")
    dtype = np.dtype(variable.byte_order + MI_DTYPES[kind])
    needed = int(np.prod(variable.shape, dtype=object)) * dtype.itemsize
    if count != needed:
        raise NotMatlab(f"{count:,} bytes of data for an array of {needed:,}")
    if short is not None:
        return Plain(io.BytesIO(short)), dtype
    return source, dtype


def list_level_4(stream: BinaryIO, size: int) -> list[Variable]:
    """The variables of a level 4 file: headers of five numbers, a name, the data."""
    variables: list[Variable] = []
    position = 0
    for _ in range(MAX_VARIABLES):
        if position + 20 > size:
            break
        stream.seek(position)
        header = Plain(stream).read(20)
        byte_order = "<" if struct.unpack("<i", header[:4])[0] in range(5000) else ">"
        mopt, rows, columns, imaginary, name_bytes = struct.unpack(f"{byte_order}5i", header)
        order, zero, number, matrix = (mopt // 10**power % 10 for power in (3, 2, 1, 0))
        plausible = order == (byte_order == ">") and zero == 0 and number < len(LEVEL_4_DTYPES) and matrix <= 2
        if not (plausible and 0 <= mopt < 5000 and min(rows, columns) >= 0 and 1 <= name_bytes <= MAX_NAME_BYTES):
            raise NotMatlab("not a MATLAB file")
        dtype = np.dtype(byte_order + LEVEL_4_DTYPES[number])
        name = Plain(stream).read(name_bytes).rstrip(b"\0").decode("latin-1")
        kind = {0: None, 1: MX_NAMES[4], 2: MX_NAMES[5]}[matrix]
        if kind is None and imaginary:
            kind = "an array of complex numbers"
        start = position + 20 + name_bytes
        variables.append(Variable(name, (rows, columns), kind, start, byte_order, dtype.str))
        position = start + rows * columns * dtype.itemsize * (2 if imaginary else 1)
        if position > size:
            raise CutOff
    else:
        raise NotMatlab(f"more than {MAX_VARIABLES:,} variables")
    return variables


def open_level_4(stream: BinaryIO, variable: Variable) -> tuple[Source, np.dtype[Any]]:
    """The source of a variable's numbers, and their type."""
    stream.seek(variable.position)
    return Plain(stream), np.dtype(variable.dtype)
