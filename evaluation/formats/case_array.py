"""NumPy arrays that hold all cases along their first axis, decoded case by case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.content import NPY_MAGIC, check_content
from evaluation.decoding.label_array import check_dtype, check_labels, check_shape
from evaluation.decoding.mat_file import SPARSE, MatFile, Variable
from evaluation.decoding.npy import read_npy_header
from evaluation.decoding.streams import Plain, cut_off, damage_told, read_array, stream_size
from evaluation.findings.errors import InputFault, refusal
from evaluation.formats.format import Request
from evaluation.model import Annotations, Case

FILE = "a NumPy file"


class CaseArray:
    """An array of all cases in a .npy file; only its header is read before a case is asked for.

    stream   seekable; stays open as long as cases are asked for
    shape    of the whole array, (N, …)

    Memory is that of a case; if the first axis runs fastest in the file, that of all. Raises InputFault: too-large,
    wrong-format, pickle, unreadable-file, not-numeric.
    """

    def __init__(self, stream: BinaryIO, request: Request) -> None:
        self.stream = stream
        self.where = request.where
        self.bytes_limit = request.limits.bytes_per_file
        size = stream_size(stream, where=self.where, bytes_limit=self.bytes_limit)
        check_content(stream, where=self.where, magics=(NPY_MAGIC,), name=FILE)
        with damage_told(self.where, FILE):
            self.header = read_npy_header(Plain(stream))
            self.start = stream.tell()
        check_dtype(self.header.dtype, where=self.where)
        self.shape = self.header.shape
        if self.start + math.prod(self.shape) * self.header.dtype.itemsize > size:
            raise cut_off(self.where)
        self.whole: npt.NDArray[Any] | None = None

    def of_case(self, index: int) -> npt.NDArray[Any]:
        """The part of the case with this index, in the shape without the first axis."""
        if self.header.fortran:
            if self.whole is None:
                self.whole = self.read(self.shape, 0, fortran=True)
            part: npt.NDArray[Any] = self.whole[index]
            return part
        shape = self.shape[1:]
        return self.read(shape, index * math.prod(shape) * self.header.dtype.itemsize)

    def read(self, shape: tuple[int, ...], offset: int, *, fortran: bool = False) -> npt.NDArray[Any]:
        with damage_told(self.where, FILE):
            self.stream.seek(self.start + offset)
            return read_array(
                Plain(self.stream),
                shape,
                self.header.dtype,
                where=self.where,
                bytes_limit=self.bytes_limit,
                fortran=fortran,
            )


class DecodedCases(Mapping[str, Annotations]):
    """What an array says of each case, by its name. A case is decoded each time it is asked for, which may raise.

    In the order in which the cases lie in the file, so that it is read from its start to its end.
    """

    def __init__(self, cases: Mapping[str, Case], decode: Callable[[Case], Annotations]) -> None:
        ordered = sorted(cases.values(), key=case_index)
        self.cases = {case.name: case for case in ordered}
        self.decode = decode

    def __getitem__(self, name: str) -> Annotations:
        return self.decode(self.cases[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)


def case_index(case: Case) -> int:
    """The index of a case in arrays, from 0; the rules see to it that every case has one."""
    if case.index is None:
        raise ValueError(f"the case {case.name!r} has no index")
    return case.index


def check_cases(array: CaseArray, cases: Mapping[str, Case]) -> None:
    """Refuse an array that has too few cases. Raises InputFault ("wrong-shape")."""
    last = max(cases.values(), key=case_index, default=None)
    if last is not None and case_index(last) >= array.shape[0]:
        raise refusal(
            "wrong-shape",
            array.where,
            wording="too-few-images",
            images=array.shape[0],
            case=last.name,
            index=case_index(last),
            needed=case_index(last) + 1,
        )


def wrong_array(where: str, shape: tuple[int, ...], wanted: str, advice: str) -> InputFault:
    return refusal("wrong-shape", where, wording="array", got=shown_shape(shape), expected=wanted, fix=advice)


def shown_shape(shape: tuple[int, ...]) -> str:
    """A shape in words.

    >>> shown_shape((4981, 256, 256, 2))
    'an array of 4981 x 256 x 256 x 2'
    """
    return f"an array of {' x '.join(str(size) for size in shape[:8])}" if shape else "a single number"


# --- The label image in a MATLAB file: the variable of MoNuSAC's "n-ary masks", or the only one that can be it. -------


VARIABLE = "n_ary_mask"


def read_mat_labels(
    stream: BinaryIO, *, where: str, shape_yx: tuple[int, int], bytes_limit: int
) -> npt.NDArray[np.integer[Any]]:
    """The label image of a MATLAB file, integer (H, W): the variable ``n_ary_mask``, or the only 2-D numeric one.

    stream       seekable, read from its start
    where        the file, for messages
    shape_yx     (H, W) px that it must have
    bytes_limit  the most bytes that the file, and the array in it, may have

    Nothing larger than the header is read before shape and size are known to be right. Raises InputFault:
    no-mask-variable, not-numeric (cells, structs, sparse, complex), and those of ``MatFile`` and ``check_labels``.
    """
    mat = MatFile(stream, where=where, bytes_limit=bytes_limit)
    variable = choose_variable(mat.variables, where)
    check_shape(variable.shape, where=where, shape_yx=shape_yx)
    return check_labels(mat.read(variable), where=where, shape_yx=shape_yx)


def choose_variable(variables: list[Variable], where: str) -> Variable:
    """The variable that holds the label image. Raises InputFault if it is not clear, or holds no plain numbers."""
    named = [variable for variable in variables if variable.name == VARIABLE]
    planes = [variable for variable in variables if variable.is_plane]
    candidates = named or planes or [variable for variable in variables if variable.kind is None]
    if len(candidates) == 1 and (chosen := candidates[0]).kind is None:
        return chosen
    if len(named) == 1 or (len(variables) == 1 and not candidates):
        chosen = variables[0] if not named else named[0]
        wording = "sparse-mask" if chosen.kind == SPARSE else "mask"
        raise refusal("not-numeric", where, wording=wording, kind=chosen.kind, name=chosen.name)
    names = [variable.name for variable in variables]
    if len(named) > 1:
        raise refusal("no-mask-variable", where, wording="label-twice", planes=len(named))
    raise refusal("no-mask-variable", where, wording="no-label", names=names, planes=len(planes))
