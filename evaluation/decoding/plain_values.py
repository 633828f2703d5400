"""What a child process answers, as bytes that only ever become plain values.

Tuples, mappings, texts, numbers, arrays of numbers and the records of ``evaluation.model`` that readers return. Not
pickle: whoever took over the child could run code in the parent with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.findings import Finding
from evaluation.model import Annotations, Counts, Instances, LabelImage, LabelRuns, Outlines, Points

RECORDS = {
    record.__name__: record
    for record in (Annotations, Counts, Finding, Instances, LabelImage, LabelRuns, Outlines, Points)
}
PARTS = {name: tuple(part.name for part in fields(record)) for name, record in RECORDS.items()}
NUMBERS = "biuf"


def to_plain(value: Any, buffers: list[npt.NDArray[Any]]) -> Any:
    """A value as lists, texts and numbers; the numbers of its arrays go into ``buffers``.

    >>> to_plain((1, np.array([2.5])), buffers := [])
    ['tuple', [1, ['array', '<f8', [1], 0]]]
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return ["objects", value.tolist()]
        buffers.append(np.ascontiguousarray(value))
        return ["array", value.dtype.str, list(value.shape), len(buffers) - 1]
    if isinstance(value, tuple | list):
        return ["tuple", [to_plain(item, buffers) for item in value]]
    if isinstance(value, Mapping):
        return ["mapping", [[to_plain(key, buffers), to_plain(item, buffers)] for key, item in value.items()]]
    name = type(value).__name__
    if RECORDS.get(name) is not type(value):
        raise TypeError(f"a {name} among the answers of a reader")
    return [name, [to_plain(getattr(value, part), buffers) for part in PARTS[name]]]


def from_plain(value: Any, buffers: Sequence[npt.NDArray[np.uint8]]) -> Any:
    """The value again; lists come back as tuples. Raises ValueError for anything that ``to_plain`` does not make."""
    if not isinstance(value, list):
        return value
    kind, *rest = value
    if kind == "array":
        name, shape, index = rest
        dtype = np.dtype(str(name))
        if dtype.kind not in NUMBERS or math.prod(shape) * dtype.itemsize != buffers[index].size:
            raise ValueError(f"an array of {name}")
        return buffers[index].view(dtype).reshape(shape)
    (items,) = rest
    if kind == "objects":
        array = np.empty(len(items), object)
        array[:] = items
        return array
    if kind == "tuple":
        return tuple(from_plain(item, buffers) for item in items)
    if kind == "mapping":
        return {key: from_plain(item, buffers) for key, item in items}
    if kind not in RECORDS:
        raise ValueError(f"a record {kind!r}")
    return RECORDS[kind](*(from_plain(item, buffers) for item in items))
