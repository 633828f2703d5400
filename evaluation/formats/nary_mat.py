"""MATLAB files with one label image (an "n-ary mask"), levels 4 and 5 (``-v4``, ``-v6``, ``-v7``).

Level 5 is a list of elements (type, bytes, data), each perhaps compressed; a matrix is the elements flags, dimensions,
name and data. They are read here and not by scipy.io.loadmat, which takes the memory that an element claims to need
(up to 4 GB for a name), before it looks at the dimensions; the tests compare both.
MathWorks, "MAT-File Format", R2019b.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from evaluation.errors import InputFault
from evaluation.findings import Finding, listed, quote
from evaluation.formats.bounded import CutOff, Inflated, Plain, Source, cut_off, read_array, stream_size
from evaluation.formats.label_array import check_labels, check_shape

VARIABLE = "n_ary_mask"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MAX_VARIABLES = 1000
MAX_NAME_BYTES = 256
MAX_AXES = 32

MI_MATRIX, MI_COMPRESSED = 14, 15
MI_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MX_NUMERIC = range(6, 16)
MX_NAMES = {1: "a cell array", 2: "a struct", 3: "an object", 4: "a text", 5: "a sparse matrix", 16: "a function"}
ENDIAN: dict[str, Literal["little", "big"]] = {"<": "little", ">": "big"}
COMPLEX_FLAG = 0x0800
LEVEL_4_DTYPES = ("f8", "f4", "i4", "i2", "u2", "u1")
FIX_VARIABLE = f"Save the label image alone: save(file, '{VARIABLE}', '-v7')."


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a MATLAB file, as its header describes it. ``kind`` is None for plain numbers, else what it is."""

    name: str
    shape: tuple[int, ...]
    kind: str | None
    position: int
    byte_order: str
    dtype: str = ""  # level 4 only; in level 5 the type stands with the data

    @property
    def is_plane(self) -> bool:
        return self.kind is None and len(self.shape) == 2


def read_nary_mat(
    stream: BinaryIO, *, where: str, shape_yx: tuple[int, int], bytes_limit: int
) -> npt.NDArray[np.integer[Any]]:
    """The label image of a MATLAB file, integer (H, W): the variable ``n_ary_mask``, or the only 2-D numeric one.

    stream       seekable, read from its start
    where        the file, for messages
    shape_yx     (H, W) px that it must have
    bytes_limit  the most bytes that the file, and the array in it, may have

    Nothing larger than the header is read before shape and size are known to be right.
    Raises InputFault: too-large, wrong-format, unsupported-format (7.3), unreadable-file, no-mask-variable,
    not-numeric (cells, structs, sparse, complex), and those of ``check_labels``.
    """
    size = stream_size(stream, where=where, bytes_limit=bytes_limit)
    try:
        level = file_level(stream, size, where)
        variables = list_level_4(stream, size) if level == 4 else list_level_5(stream, size)
        variable = choose_variable(variables, where)
        check_shape(variable.shape, where=where, shape_yx=shape_yx)
        source, dtype = open_level_4(stream, variable) if level == 4 else open_level_5(stream, variable)
    except CutOff:
        raise InputFault(cut_off(where)) from None
    except NotMatlab as error:
        refuse_format(where, str(error))
    array = read_array(source, variable.shape, dtype, where=where, bytes_limit=bytes_limit, fortran=True)
    return check_labels(array, where=where, shape_yx=shape_yx)


class NotMatlab(Exception):
    """The bytes are not those of a MATLAB file. Never leaves this module."""


def refuse_format(where: str, got: str) -> NoReturn:
    raise InputFault(
        Finding("wrong-format", where, got, "a MATLAB file of version 4, 6 or 7", "Save it with save(…, '-v7').")
    )


def file_level(stream: BinaryIO, size: int, where: str) -> int:
    """4 or 5. Raises InputFault or NotMatlab for anything else."""
    head = stream.read(520)
    if not head:
        raise NotMatlab("an empty file")
    if HDF5_MAGIC in (head[:8], head[512:520]) or head.startswith(b"MATLAB 7.3"):
        raise InputFault(
            Finding(
                "unsupported-format",
                where,
                "a MATLAB 7.3 file (HDF5)",
                "a MATLAB file of version 4, 6 or 7",
                "Save it with '-v7' instead of '-v7.3'; from Python use scipy.io.savemat.",
            )
        )
    if head[126:128] in (b"IM", b"MI") and 1 in head[124:126]:
        return 5
    if size >= 20 and 0 in head[:4]:
        return 4
    if head.startswith(b"MATLAB 5.0"):
        raise CutOff
    raise NotMatlab("a text file of Octave" if head.startswith(b"# Created by Octave") else "not a MATLAB file")


def choose_variable(variables: Sequence[Variable], where: str) -> Variable:
    """The variable that holds the label image. Raises InputFault if it cannot be told, or holds no plain numbers."""
    named = [variable for variable in variables if variable.name == VARIABLE]
    planes = [variable for variable in variables if variable.is_plane]
    candidates = named or planes or [variable for variable in variables if variable.kind is None]
    if len(candidates) == 1 and (chosen := candidates[0]).kind is None:
        return chosen
    expected = f"one variable {quote(VARIABLE)}, or only one 2-D array of numbers"
    if len(named) == 1 or (len(variables) == 1 and not candidates):
        chosen = variables[0] if not named else named[0]
        fix = f"Save full({chosen.name})." if chosen.kind == MX_NAMES[5] else FIX_VARIABLE
        got = f"{quote(chosen.name)} is {chosen.kind}"
        raise InputFault(Finding("not-numeric", where, got, "an array of whole numbers", fix))
    if not variables:
        got = "no variable"
    elif len(named) > 1:
        got = f"the variable {quote(VARIABLE)} {len(named)} times"
    else:
        names = listed(variable.name for variable in variables).replace(" or ", " and ")
        got = f"{len(planes)} 2-D arrays of numbers among the variables {names}"
    raise InputFault(Finding("no-mask-variable", where, got, expected, FIX_VARIABLE))


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
