"""cellpose's ``_seg.npy``: the array ``masks`` of a pickled dictionary, without the help of what the pickle names.

A pickle is a program for a stack machine that builds texts, numbers, bytes, lists and dictionaries, and calls what it
names. Here every name becomes a ``Name``, and every call a ``Call`` that only keeps its arguments: nothing is imported
or run. The array is then made of the bytes that numpy's own call was given.

``save_masks`` and ``masks_flows_to_seg`` in https://github.com/MouseLand/cellpose/blob/main/cellpose/io.py
"""

from __future__ import annotations

import math
import pickle
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evaluation.decoding.streams import CutOff
from evaluation.findings.errors import InputFault
from evaluation.findings.labels import Pickle

MASKS = "masks"
RECONSTRUCT = re.compile(r"numpy\.(_core|core)\.multiarray\._reconstruct")
NUMBERS = re.compile(r"b1|[iuf][1248]")
# What the stack machine raises for pickles that are cut off, and for all others that it cannot run.
CUT_OFF_FAULTS = (EOFError, struct.error)
FAULTS = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(slots=True)
class Call:
    """A call in a pickle: its name, what it is given, and what the result is then told to hold."""

    name: str
    args: tuple[Any, ...]
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True, slots=True)
class Name:
    """A function or a class that a pickle names."""

    name: str

    def __call__(self, *args: Any) -> Call:
        return Call(self.name, args)


class Row(tuple[Any, ...]):
    """A tuple that is no key: Python calls itself for each tuple in a tuple that is one, until the stack is full."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]


def as_row(load: Callable[[Any], None]) -> Callable[[Any], None]:
    def loaded(machine: Any) -> None:
        load(machine)
        machine.stack[-1] = Row(machine.stack[-1])

    return loaded


class Inert(pickle._Unpickler):
    """The stack machine in Python, whose memory grows with the file alone, and in which nothing has a meaning."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    for code in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3):
        dispatch[code[0]] = as_row(dispatch[code[0]])

    def find_class(self, module: str, name: str) -> Name:
        return Name(f"{module}.{name}")


def read_masks(content: bytes, where: str) -> npt.NDArray[Any]:
    """The array ``masks`` of the dictionary that is the only object of a .npy file; ``content``: its pickle.

    Raises InputFault ("pickle") if there is none, CutOff.
    """
    try:
        outer = Inert(BytesIO(content)).load()
        (held,) = outer.state[4]
        return array_of(held[MASKS])
    except CUT_OFF_FAULTS:
        raise CutOff from None
    except FAULTS:
        raise InputFault(Pickle().at(where)) from None


def array_of(call: Call) -> npt.NDArray[Any]:
    """The array of numbers that numpy's call would make. Raises ValueError, TypeError or AttributeError for others."""
    _, shape, dtype, fortran, data = call.state
    _, order, *_ = dtype.state
    (kind, *_) = dtype.args
    if not RECONSTRUCT.fullmatch(call.name) or dtype.name != "numpy.dtype" or not NUMBERS.fullmatch(kind):
        raise ValueError
    numbers = np.dtype(("<" if order == "|" else order) + kind)
    if not all(type(side) is int and side >= 0 for side in shape) or type(data) is not bytes:
        raise TypeError
    if math.prod(shape) * numbers.itemsize != len(data):
        raise ValueError
    return np.frombuffer(data, numbers).reshape(shape, order="F" if fortran else "C")
