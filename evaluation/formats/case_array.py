"""NumPy arrays that hold all cases along their first axis, decoded case by case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy.typing as npt

from evaluation.decoding.content import NPY_MAGIC, check_content
from evaluation.decoding.label_array import check_dtype
from evaluation.decoding.npy import read_npy_header
from evaluation.decoding.streams import Plain, cut_off, damage_told, read_array, stream_size
from evaluation.findings import fault
from evaluation.findings.errors import InputFault
from evaluation.formats.request import Request
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
            raise InputFault(cut_off(self.where))
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
        raise InputFault(
            fault(
                "wrong-shape",
                array.where,
                wording="too-few-images",
                images=array.shape[0],
                case=last.name,
                index=case_index(last),
                needed=case_index(last) + 1,
            )
        )


def wrong_array(where: str, shape: tuple[int, ...], wanted: str, advice: str) -> InputFault:
    return InputFault(fault("wrong-shape", where, wording="array", got=shown_shape(shape), expected=wanted, fix=advice))


def shown_shape(shape: tuple[int, ...]) -> str:
    """A shape in words.

    >>> shown_shape((4981, 256, 256, 2))
    'an array of 4981 x 256 x 256 x 2'
    """
    return f"an array of {' x '.join(str(size) for size in shape[:8])}" if shape else "a single number"
