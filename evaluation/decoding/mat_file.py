"""MATLAB files: their variables, and the numbers in those that are plain arrays; through scipy.io, 7.3 through h5py.

MathWorks, "MAT-File Format", R2019b.
"""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.content import HDF5_MAGIC
from evaluation.decoding.matlab_hdf5 import (
    MAX_AXES,
    Hdf5Member,
    Unsupported,
    list_members,
    read_member,
)
from evaluation.decoding.streams import CutOff, Damaged, damage_told, inflated, stream_size, too_large
from evaluation.findings import fault
from evaluation.findings.errors import InputFault

MAX_VARIABLES = 1000
MAX_NAME_BYTES = 256
HDF5_START = 512
MI_MATRIX, MI_COMPRESSED = 14, 15
# The first number of a file of version 4: byte order, type of the numbers, and whether they are plain, text or sparse.
LEVEL_4 = {order + dtype + kind for order in (0, 1000) for dtype in range(0, 60, 10) for kind in (0, 1, 2)}
TEXT, STRUCT, OBJECT, SPARSE = "a text", "a struct", "an object", "a sparse matrix"
MATLAB_CLASSES = {
    "cell": "a cell array",
    "struct": STRUCT,
    "char": TEXT,
    "function": "a function",
    "function_handle": "a function",
    "sparse": SPARSE,
}
INTEGERS = {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBER_BYTES = {"double": 8, "single": 4, "logical": 1, **INTEGERS}

# What scipy.io raises for damaged files: the first where the data stop or cannot be decompressed.
CUT_OFF_FAULTS = (OSError, EOFError, zlib.error)
FORMAT_FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, MemoryError, struct.error)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a MATLAB file, as its header describes it. ``kind`` is None for plain numbers, else what it is."""

    name: str
    shape: tuple[int, ...]
    kind: str | None
    itemsize: int = 0  # bytes of a number, as its class says
    member: Hdf5Member | None = None  # level 7.3 only

    @property
    def is_plane(self) -> bool:
        return self.kind is None and len(self.shape) == 2


class NotMatlab(Exception):
    """The bytes are not those of a MATLAB file. Never leaves this module."""


class MatFile:
    """The variables of a MATLAB file, in the order of the file (7.3: of their names).

    stream       seekable, read from its start; stays open as long as variables are read
    where        the file, for messages
    bytes_limit  the most bytes that the file, and each array in it, may have

    Only headers are read. Raises InputFault: too-large, wrong-format, unsupported-format, unreadable-file.
    """

    def __init__(self, stream: BinaryIO, *, where: str, bytes_limit: int) -> None:
        self.stream = stream
        self.where = where
        self.bytes_limit = bytes_limit
        size = stream_size(stream, where=where, bytes_limit=bytes_limit)
        with matlab_damage_told(where):
            if is_level_7_3(stream, size, where):
                self.variables = [self.variable_of(member) for member in list_members(stream)]
                return
            self.stream = without_compression(stream, size, where, bytes_limit)
            self.variables = list_variables(self.stream)

    def variable_of(self, member: Hdf5Member) -> Variable:
        """A member of level 7.3 as a variable."""
        kind = member.kind
        matlab_class = text_of(member.attributes.get("MATLAB_class"))
        if "MATLAB_sparse" in member.attributes:
            kind = SPARSE
        elif matlab_class and matlab_class not in NUMBER_BYTES:
            kind = MATLAB_CLASSES.get(matlab_class, OBJECT)
        shape = member.shape[::-1]
        if kind is None and np.any(member.attributes.get("MATLAB_empty", 0)):
            if not 2 <= math.prod(shape) <= MAX_AXES:
                raise Damaged("an empty array without its size")
            sizes = read_member(member, where=self.where, bytes_limit=self.bytes_limit)
            shape = tuple(int(size) for size in sizes.reshape(-1))
        return Variable(member.name, shape, kind, member=member)

    def read(self, variable: Variable) -> npt.NDArray[Any]:
        """The numbers of a variable whose kind is None, in its shape.

        Raises InputFault: too-large, wrong-format, unsupported-format, unreadable-file.
        """
        with matlab_damage_told(self.where):
            if variable.member is not None:
                array = read_member(variable.member, where=self.where, bytes_limit=self.bytes_limit).T
            else:
                count = math.prod(variable.shape)
                needed = count * variable.itemsize
                if count > self.stream.seek(0, 2):
                    raise NotMatlab(f"less data than an array of {count:,} numbers has")
                if needed > self.bytes_limit:
                    raise InputFault(too_large(self.where, f"an array of {needed:,} bytes", self.bytes_limit))
                array = read_variable(self.stream, variable.name)
            if array.shape != variable.shape:
                raise Damaged(f"an array of {array.shape} where {variable.shape} is said")
            return array


@contextmanager
def matlab_damage_told(where: str) -> Iterator[None]:
    """Turn what readers raise about damaged files into findings."""
    try:
        with damage_told(where, "a MATLAB file of version 4, 6 or 7"):
            yield
    except NotMatlab as error:
        raise InputFault(fault("wrong-format", where, wording="other-than-matlab", got=str(error))) from None
    except Unsupported as error:
        raise InputFault(fault("unsupported-format", where, wording="matlab", what=str(error))) from None


def text_of(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value or "")


def is_level_7_3(stream: BinaryIO, size: int, where: str) -> bool:
    """Whether a file is of level 7.3, or else of 5. Raises InputFault, CutOff or NotMatlab for anything else."""
    head = stream.read(HDF5_START + len(HDF5_MAGIC))
    if not head:
        raise NotMatlab("an empty file")
    if head[HDF5_START:] == HDF5_MAGIC and head.startswith(b"MATLAB"):
        return True
    if HDF5_MAGIC in (head[: len(HDF5_MAGIC)], head[HDF5_START:]):
        raise InputFault(fault("unsupported-format", where, wording="other-hdf5"))
    if head[126:128] in (b"IM", b"MI") and 1 in head[124:126]:
        return False
    beginnings = [struct.unpack_from(f"{order}5i", head) for order in "<>"] if size >= 20 else []
    if any(kind in LEVEL_4 and 1 <= name_bytes <= MAX_NAME_BYTES for kind, *_, name_bytes in beginnings):
        raise NotMatlab("a MATLAB file of version 4")
    if head.startswith((b"MATLAB 5.0", b"MATLAB 7")):
        raise CutOff
    raise NotMatlab("a text file of Octave" if head.startswith(b"# Created by Octave") else "not a MATLAB file")


def without_compression(stream: BinaryIO, size: int, where: str, bytes_limit: int) -> BinaryIO:
    """A copy of a file of level 5 in which no element is compressed, and all are as long as they say.

    (scipy.io takes twice the time for compressed ones, and the memory that a damaged one claims to need.)
    Raises InputFault (too-large), CutOff, NotMatlab.
    """
    stream.seek(0)
    pieces = [stream.read(128)]
    tag = struct.Struct("<II" if pieces[0].endswith(b"IM") else ">II")
    position, left = 128, bytes_limit
    while position + tag.size <= size:
        kind, count = tag.unpack(stream.read(tag.size))
        position += tag.size + count
        if position > size:
            raise CutOff
        piece = stream.read(count)
        if kind == MI_COMPRESSED:
            piece = inflated(piece, left)
            left -= len(piece)
            if left < 0:
                raise InputFault(too_large(where, "more after decompression", bytes_limit))
            kind, count = tag.unpack_from(piece.ljust(tag.size, b"\0"))
            piece = piece[tag.size :]
        if kind != MI_MATRIX or count != len(piece):
            raise NotMatlab("a damaged header of a variable")
        check_matrix(piece, tag)
        pieces += [tag.pack(kind, count), piece]
        if len(pieces) > 2 * MAX_VARIABLES + 1:
            raise NotMatlab(f"more than {MAX_VARIABLES:,} variables")
    return BytesIO(b"".join(pieces))


def check_matrix(matrix: bytes, tag: struct.Struct) -> None:
    """Raise NotMatlab if the parts of a matrix (flags, dimensions, name, numbers) are longer than they can be."""
    position = 0
    for most in (8, 4 * MAX_AXES, MAX_NAME_BYTES, len(matrix)):
        if position + tag.size > len(matrix):
            return
        kind, count = tag.unpack_from(matrix, position)
        count = 0 if kind >> 16 else count  # small data are packed into the tag
        position += tag.size + count + -count % 8
        if count > most or position > len(matrix) + 7:
            raise NotMatlab("a damaged header of a variable")


def list_variables(stream: BinaryIO) -> list[Variable]:
    """The variables of a file of level 5 that have a name (a function workspace has none)."""
    from scipy.io import whosmat

    with scipy_faults():
        found = whosmat(stream)
    if len(found) > MAX_VARIABLES:
        raise NotMatlab(f"more than {MAX_VARIABLES:,} variables")
    variables = []
    for name, shape, matlab_class in found:
        kind = None if matlab_class in NUMBER_BYTES else MATLAB_CLASSES.get(matlab_class, OBJECT)
        if kind is None and (len(shape) < 2 or min(shape) < 0 or len(shape) > MAX_AXES):
            raise NotMatlab("a variable without usable dimensions")
        sizes = tuple(int(side) for side in shape)
        variables.append(Variable(name, sizes, kind, NUMBER_BYTES.get(matlab_class, 0)))
    return [variable for variable in variables if variable.name != "__function_workspace__"]


def read_variable(stream: BinaryIO, name: str) -> npt.NDArray[Any]:
    """The numbers of a variable of a file of level 5."""
    from scipy.io import loadmat

    with scipy_faults():
        array: npt.NDArray[Any] = np.asarray(loadmat(stream, variable_names=[name])[name])
    return array


@contextmanager
def scipy_faults() -> Iterator[None]:
    """What scipy.io raises and warns of, as CutOff or NotMatlab."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    except CUT_OFF_FAULTS:
        raise CutOff from None
    except (*FORMAT_FAULTS, Warning) as error:
        if "Not enough bytes" in str(error):
            raise CutOff from None
        raise NotMatlab("a damaged header of a variable") from None
