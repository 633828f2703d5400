"""Answers of a child process, as bytes that can only become plain values.

Tuples, mappings, texts, numbers, arrays of numbers and the records of ``nuclei_metrics.model`` that readers return. Not
pickle: a person who took over the child could run code in the parent with it. A record has the arrays that its class
describes, or is refused: later code may rely on this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.annotations import Annotations
from evaluation.findings import Finding
from nuclei_metrics.model import Counts, Instances, LabelImage, LabelRuns, Outlines, Points

RECORDS = {
    record.__name__: record
    for record in (Annotations, Counts, Finding, Instances, LabelImage, LabelRuns, Outlines, Points)
}
FIELDS_OF = {name: tuple(part.name for part in fields(record)) for name, record in RECORDS.items()}
NUMBER_KINDS = "biuf"
# The parts of records: the kinds of their numbers, "?" if there may be none, and their shapes; a letter is one size.
ARRAYS = {
    "Counts": "per_class i C",
    "Points": "points_xy f N2, class_id i N, source_id Oiu N, probability f? N, class_probability f? NC",
    "Outlines": "points_xy f V2, ring_start i S, ring_instance i K, ring_is_hole b K, class_id i N, source_id Oiu N, "
    "probability f? N, class_probability f? NC",
    "Instances": "class_id i N, source_id Oiu N, run_start i R, run_stop i R, run_instance i R, probability f? N, "
    "point_yx f? N2, class_probability f? NC",
    "LabelRuns": "start i R, stop i R, value iu R",
    "LabelImage": "class_of_instance i? M",
}
_ARRAYS_OF = {RECORDS[name]: [part.split() for part in parts.split(", ")] for name, parts in ARRAYS.items()}
PLAIN_TYPES = (str, bool, int, float, type(None))
PARTS_OF_IMAGES = (Counts, Instances, LabelImage, Outlines, Points)
FINDING = {name: {"count": int, "named": int, "data": dict}.get(name, str) for name in FIELDS_OF["Finding"]}


def to_plain(value: Any, buffers: list[npt.NDArray[Any]]) -> Any:
    """Write a value as lists, texts and numbers; the numbers of its arrays go into ``buffers``.

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
    return [name, [to_plain(getattr(value, part), buffers) for part in FIELDS_OF[name]]]


def from_plain(value: Any, buffers: Sequence[npt.NDArray[np.uint8]]) -> Any:
    """Create the value again; lists come back as tuples. Raises ValueError for values that ``to_plain`` does not
    create.
    """
    if not isinstance(value, list):
        if type(value) not in PLAIN_TYPES:
            raise ValueError("no plain value")
        return value
    kind, *rest = value
    if kind == "array":
        name, shape, index = rest
        dtype = np.dtype(str(name))
        if dtype.kind not in NUMBER_KINDS or math.prod(shape) * dtype.itemsize != buffers[index].size:
            raise ValueError(f"an array of {name}")
        return buffers[index].view(dtype).reshape(shape)
    (items,) = rest
    if kind == "objects":
        if not all(type(item) in PLAIN_TYPES for item in items):
            raise ValueError("an object")
        array = np.empty(len(items), object)
        array[:] = items
        return array
    if kind == "tuple":
        return tuple(from_plain(item, buffers) for item in items)
    if kind == "mapping":
        return {key: from_plain(item, buffers) for key, item in items}
    if kind not in RECORDS:
        raise ValueError(f"a record {kind!r}")
    record = RECORDS[kind](*(from_plain(item, buffers) for item in items))
    _check_record(record)
    return record


def _check_record(record: Any) -> None:
    """Raise ValueError, or TypeError, for a record that is not as its class describes it."""
    sizes: dict[str, int] = {}
    for name, kinds, shape in _ARRAYS_OF.get(type(record), ()):
        array = getattr(record, name)
        if array is None and kinds.endswith("?"):
            continue
        fits = len(shape) == array.ndim
        for axis, size in zip(shape, array.shape, strict=False):
            fits &= size == (int(axis) if axis.isdigit() else sizes.setdefault(axis, size))
        if array.dtype.kind not in kinds or not fits or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            raise ValueError(name)
    if isinstance(record, Finding):
        if {name: type(getattr(record, name)) for name in FINDING} != FINDING or min(record.count, record.named) < 1:
            raise ValueError("a finding")
        return
    match record:
        case Annotations(parts=parts, findings=findings):
            is_sound = all(isinstance(part, PARTS_OF_IMAGES) for part in parts)
            is_sound &= all(isinstance(finding, Finding) for finding in findings)
        case Counts():
            is_sound = record.per_class.min(initial=0) >= 0
        case Outlines():
            rings, start = len(record.ring_instance), record.ring_start
            is_sound = len(start) == rings + 1 and start[0] == 0 and start[-1] == len(record.points_xy)
            is_sound &= (
                _ascend(start) and _ascend(record.ring_instance) and _are_below(record.ring_instance, len(record))
            )
        case Instances():
            is_sound = _are_runs(record.run_start, record.run_stop, record.shape_yx) and _ascend(record.run_start)
            is_sound &= _are_below(record.run_instance, len(record))
        case LabelRuns():
            is_sound = _are_runs(record.start, record.stop, record.shape_yx) and _ascend(record.start)
            is_sound &= bool((record.start[1:] >= record.stop[:-1]).all())
        case LabelImage(labels=LabelRuns(), class_id=int(), class_map=LabelRuns() | None, source=str()):
            is_sound = True
        case LabelImage():
            is_sound = False
        case _:
            is_sound = True
    if not is_sound:
        raise ValueError(f"a record {type(record).__name__}")


def _ascend(numbers: npt.NDArray[Any]) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _are_below(numbers: npt.NDArray[Any], size: int) -> bool:
    return bool(numbers.min(initial=0) >= 0 and numbers.max(initial=-1) < size)


def _are_runs(start: npt.NDArray[Any], stop: npt.NDArray[Any], shape_yx: tuple[int, int]) -> bool:
    """Return whether runs are not empty and are in an image, each in a row of it."""
    height, width = shape_yx
    is_inside = start.min(initial=0) >= 0 and stop.max(initial=0) <= height * width
    return bool(is_inside and ((start < stop) & (start // width == (stop - 1) // width)).all())
