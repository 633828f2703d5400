"""MATLAB files: their variables, and the numbers in plain arrays; through scipy.io.

MathWorks, "MAT-File Format", R2019b.
"""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, islice
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.label_array import check_labels, check_shape
from evaluation.files.decoding.pixels import MAX_AXES
from evaluation.files.decoding.streams import HDF5_MAGIC, CutOff, check_bytes, damage_told, inflated, stream_size
from evaluation.findings.errors import refused

MAX_VARIABLES = 1000
MAX_NAME_BYTES = 256
BEGINNING_BYTES = 1024  # of a variable: flags, dimensions and name
HDF5_START = 512
MI_MATRIX, MI_COMPRESSED = 14, 15
# The first number of a file of version 4: byte order, type of the numbers, and whether they are plain, text or sparse.
LEVEL_4 = {order + dtype + kind for order in (0, 1000) for dtype in range(0, 60, 10) for kind in (0, 1, 2)}
TEXT, STRUCT, OBJECT, SPARSE = "a text", "a struct", "an object", "a sparse matrix"
MATLAB_CLASSES = {
    "cell": "a cell array", "struct": STRUCT, "char": TEXT, "function": "a function", "function_handle": "a function",
    "sparse": SPARSE,
}  # fmt: skip
INTEGERS = {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}
COMPLEX_BYTES = 16
NUMBER_BYTES = {"double": 8, "single": 4, "logical": 1, **INTEGERS}

# What scipy.io raises where the data stop or cannot be decompressed.
CUT_OFF_FAULTS = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class _Element:
    """Where the bytes of a variable are in a file of level 5."""

    position: int
    count: int
    is_compressed: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a MATLAB file, as its header describes it. ``kind``: None for plain numbers."""

    name: str
    shape: tuple[int, ...]
    kind: str | None
    source: _Element
    itemsize: int = 0  # bytes of a number, as its class says


class _NotMatlab(Exception):
    """The bytes are not a MATLAB file. Never leaves this module."""


class MatFile:
    """The variables of a MATLAB file, in the order of the file.

    stream       seekable, read from its start; stays open as long as variables are read
    where        the file, for messages
    bytes_limit  the most bytes that the file, and each array in it, may have

    Only headers are read, and decompressed, before a variable is requested. Raises InputFault: too-large, wrong-format,
    unsupported-format, unreadable-file.
    """

    def __init__(self, stream: BinaryIO, *, where: str, bytes_limit: int) -> None:
        self.stream = stream
        self.where = where
        self.bytes_limit = bytes_limit
        size = stream_size(stream, where=where, bytes_limit=bytes_limit)
        with _matlab_damage_told(where):
            _check_level(stream.read(HDF5_START + len(HDF5_MAGIC)), size, where)
            stream.seek(0)
            self.header = stream.read(128)
            self.tag = struct.Struct("<II" if self.header.endswith(b"IM") else ">II")
            self.variables = self.list_variables([*islice(self.elements(size), MAX_VARIABLES + 1)])

    def elements(self, size: int) -> Iterator[_Element]:
        """Yield the variables of a file of level 5. Raises CutOff, NotMatlab."""
        position = 128
        while position + self.tag.size <= size:
            self.stream.seek(position)
            kind, count = self.tag.unpack(self.stream.read(self.tag.size))
            if kind not in (MI_MATRIX, MI_COMPRESSED):
                raise _NotMatlab("a damaged header of a variable")
            position += self.tag.size
            yield _Element(position, count, kind == MI_COMPRESSED)
            position += count
            if position > size:
                raise CutOff

    def matrix_of(self, element: _Element, most: int) -> bytes:
        """Read a variable of level 5, or a beginning of it that has about ``most`` bytes. Raises CutOff, NotMatlab.

        (scipy.io takes twice the time for compressed data, and any memory that a damaged file claims to need.)
        """
        self.stream.seek(element.position)
        piece, kind, count = self.stream.read(min(element.count, 4 * most)), MI_MATRIX, element.count
        if element.is_compressed:
            piece = inflated(piece, most)
            kind, count = self.tag.unpack_from(piece.ljust(self.tag.size, b"\0"))
            piece = piece[self.tag.size :]
        matrix = piece[: most - self.tag.size + 1]
        if kind != MI_MATRIX or len(matrix) != min(count, most - self.tag.size + 1):
            raise _NotMatlab("a damaged header of a variable")
        _check_matrix(matrix, count, self.tag)
        return matrix

    def as_file(self, matrices: Iterable[bytes]) -> BinaryIO:
        """Create a file of level 5 of variables."""
        parts = ((self.tag.pack(MI_MATRIX, len(matrix)), matrix) for matrix in matrices)
        return BytesIO(b"".join([self.header, *chain.from_iterable(parts)]))

    def list_variables(self, elements: list[_Element]) -> list[Variable]:
        """Return the named variables of a file of level 5 (a function workspace has no name)."""
        from scipy.io import whosmat

        if len(elements) > MAX_VARIABLES:
            raise _NotMatlab(f"more than {MAX_VARIABLES:,} variables")
        beginnings = self.as_file(self.matrix_of(element, BEGINNING_BYTES) for element in elements)
        with _scipy_faults():
            listed = whosmat(beginnings)
        variables = []
        for element, (name, shape, matlab_class) in zip(elements, listed, strict=True):
            kind = None if matlab_class in NUMBER_BYTES else MATLAB_CLASSES.get(matlab_class, OBJECT)
            if kind is None and (len(shape) < 2 or min(shape) < 0 or len(shape) > MAX_AXES):
                raise _NotMatlab("a variable without usable dimensions")
            sizes = tuple(int(side) for side in shape)
            variables.append(Variable(name, sizes, kind, element, NUMBER_BYTES.get(matlab_class, 0)))
        return [variable for variable in variables if variable.name != "__function_workspace__"]

    def read(self, variable: Variable) -> npt.NDArray[Any]:
        """Return the numbers of a variable of kind None, in its shape.

        Raises InputFault: too-large, wrong-format, unsupported-format, unreadable-file.
        """
        with _matlab_damage_told(self.where):
            count = math.prod(variable.shape)
            matrix = self.matrix_of(variable.source, min(self.bytes_limit, BEGINNING_BYTES + COMPLEX_BYTES * count))
            if count > len(matrix):
                raise _NotMatlab(f"less data than an array of {count:,} numbers has")
            check_bytes(count * variable.itemsize, "an array", self.where, self.bytes_limit)
            from scipy.io import loadmat

            with _scipy_faults():
                return np.asarray(loadmat(self.as_file([matrix]))[variable.name])


@contextmanager
def _matlab_damage_told(where: str) -> Iterator[None]:
    """Convert errors of readers about damaged files to findings."""
    try:
        with damage_told(where, "a MATLAB file of version 4, 6 or 7"):
            yield
    except _NotMatlab as error:
        raise refused("wrong-format", where, wording="other-than-matlab", got=str(error)) from None


def _check_level(head: bytes, size: int, where: str) -> None:
    """Refuse files of other levels than 5 by their beginning. Raises InputFault, CutOff, NotMatlab."""
    if not head:
        raise _NotMatlab("an empty file")
    if HDF5_MAGIC in (head[: len(HDF5_MAGIC)], head[HDF5_START:]):
        raise refused("unsupported-format", where, wording="hdf5")
    if head[126:128] in (b"IM", b"MI") and 1 in head[124:126]:
        return
    beginnings = [struct.unpack_from(f"{order}5i", head) for order in "<>"] if size >= 20 else []
    if any(kind in LEVEL_4 and 1 <= name_bytes <= MAX_NAME_BYTES for kind, *_, name_bytes in beginnings):
        raise _NotMatlab("a MATLAB file of version 4")
    if head.startswith((b"MATLAB 5.0", b"MATLAB 7")):
        raise CutOff
    raise _NotMatlab("a text file of Octave" if head.startswith(b"# Created by Octave") else "not a MATLAB file")


def _check_matrix(matrix: bytes, size: int, tag: struct.Struct) -> None:
    """Raise NotMatlab if the parts of a matrix (flags, dimensions, name, numbers) are longer than they can be.

    size  of the whole matrix, which may be longer
    """
    position = 0
    for most in (8, 4 * MAX_AXES, MAX_NAME_BYTES, size):
        if position + tag.size > len(matrix):
            return
        kind, count = tag.unpack_from(matrix, position)
        count = 0 if kind >> 16 else count  # small data are packed into the tag
        position += tag.size + count + -count % 8
        if count > most or position > size + 7:
            raise _NotMatlab("a damaged header of a variable")


@contextmanager
def _scipy_faults() -> Iterator[None]:
    """Convert errors and warnings of scipy.io to CutOff or NotMatlab."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    except CUT_OFF_FAULTS:
        raise CutOff from None
    except Exception as error:  # noqa: BLE001 (scipy raises UnboundLocalError, among others)
        if "Not enough bytes" in str(error):
            raise CutOff from None
        raise _NotMatlab("a damaged header of a variable") from None


# --- The label image in a MATLAB file: the variable of MoNuSAC's "n-ary masks", or the only one that can be it. -------


VARIABLE = "n_ary_mask"


def read_mat_labels(
    stream: BinaryIO, *, where: str, shape_yx: tuple[int, int], bytes_limit: int
) -> npt.NDArray[np.integer[Any]]:
    """Read the label image of a MATLAB file, integer (H, W): the variable ``n_ary_mask``, or the only 2-D numeric one.

    stream       seekable, read from its start
    where        the file, for messages
    shape_yx     (H, W) px that it must have
    bytes_limit  the most bytes that the file, and the array in it, may have

    Nothing larger than the header is read before shape and size are checked. Raises InputFault: no-mask-variable,
    not-numeric (cells, structs, sparse, complex), and as ``MatFile`` and ``check_labels``.
    """
    mat = MatFile(stream, where=where, bytes_limit=bytes_limit)
    variable = choose_variable(mat.variables, where)
    check_shape(variable.shape, where=where, shape_yx=shape_yx)
    return check_labels(mat.read(variable), where=where, shape_yx=shape_yx)


def choose_variable(variables: list[Variable], where: str) -> Variable:
    """Find the variable that contains the label image. Raises InputFault if it is not clear, or contains no plain
    numbers."""
    named = [variable for variable in variables if variable.name == VARIABLE]
    of_numbers = [variable for variable in variables if variable.kind is None]
    planes = [variable for variable in of_numbers if len(variable.shape) == 2]
    candidates = named or planes or of_numbers
    if len(candidates) == 1 and (chosen := candidates[0]).kind is None:
        return chosen
    if len(named) == 1 or (len(variables) == 1 and not candidates):
        chosen = variables[0] if not named else named[0]
        wording = "sparse-mask" if chosen.kind == SPARSE else "mask"
        raise refused("not-numeric", where, wording=wording, kind=chosen.kind, name=chosen.name)
    names = [variable.name for variable in variables]
    if len(named) > 1:
        raise refused("no-mask-variable", where, wording="label-twice", planes=len(named))
    raise refused("no-mask-variable", where, wording="no-label", names=names, planes=len(planes))
