"""Label maps and label images as instances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import Instances, Int16, Int64, LabelImage, LabelRuns
from evaluation.model.intervals import overlaps
from evaluation.model.label_runs import runs_of

EXACT_UP_TO = 2**53  # of float64


def instances_from_labels(
    labels: npt.ArrayLike, class_of_instance: npt.ArrayLike | None = None, *, class_id: int = 0
) -> Instances:
    """The instances of a label map: every positive value is one instance, also if its pixels lie apart.

    labels             whole numbers (H, W) of any type, 0 background, other values may have gaps; no negative values
    class_of_instance  class id of each instance (N,), in ascending order of labels; else ``class_id`` for all

    Instances are in ascending order of their labels, which become ``source_id``. Raises ValueError for anything else.

    >>> import numpy as np
    >>> instances = instances_from_labels(np.array([[0, 7, 7], [2, 0, 7]]), [1, 3])
    >>> instances.source_id.tolist(), instances.areas_px().tolist(), instances.class_id.tolist()
    ([2, 7], [1, 3], [1, 3])
    """
    runs = runs_of(whole_labels(labels))
    if len(runs.value) and not 0 < runs.value.min() <= runs.value.max() <= np.iinfo(np.int64).max:
        raise ValueError(f"labels are from {runs.value.min()} to {runs.value.max()}, not from 0 to 2^63 - 1")
    instances = instances_from_runs(runs, 0)
    given = np.full(len(instances), class_id) if class_of_instance is None else class_of_instance
    return replace(instances, class_id=checked_class_ids(given, len(instances)))


def checked_class_ids(class_ids: npt.ArrayLike, instances: int) -> Int16:
    """The class id of each of N instances, int16 (N,). Raises ValueError for other shapes, types and numbers."""
    given = as_array(class_ids, "classes")
    if given.shape != (instances,) or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"{given.shape} classes of {given.dtype} for {instances} instances; one integer for each")
    most = np.iinfo(np.int16).max
    if given.size and not 0 <= given.min() <= given.max() <= most:
        raise ValueError(f"class ids are from {given.min()} to {given.max()}; expected 1 to C, C up to {most:,}")
    return given.astype(np.int16)


def whole_labels(labels: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
    """Labels as an array of integers (H, W); bool and float are taken where they are whole numbers.

    Raises ValueError for other types, shapes and numbers.

    >>> whole_labels([[0.0, 2.0], [True, False]]).tolist()
    [[0, 2], [1, 0]]
    """
    array = as_array(labels, "labels")
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        of_masks = "; instances_from_masks takes masks of single nuclei" if array.ndim != 2 else ""
        got = f"labels are {array.dtype} of shape {array.shape}"
        raise ValueError(f"{got}, not whole numbers of shape (H, W){of_masks}")
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind != "f":
        return array
    if not np.isfinite(array).all() or np.abs(array).max(initial=0) > EXACT_UP_TO:
        raise ValueError("labels are not all whole numbers: infinite, NaN or above 2^53")
    whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise ValueError(f"labels are not all whole numbers, such as {float(array[whole != array][0]):g}")
    return whole


def as_array(given: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """An array of what was given. Raises ValueError for what cannot be one: ragged rows, masks, tensors of a GPU."""
    if np.ma.is_masked(given):
        raise ValueError(f"{what} are masked; fill what does not count, for labels with 0: labels.filled(0)")
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{what} cannot become an array: {error}") from None


def instances_from_runs(runs: LabelRuns, class_id: int) -> Instances:
    """The instances of a label image whose values are all positive; ``class_id`` for all."""
    source_id, instance = compact(runs.value)
    return Instances(
        shape_yx=runs.shape_yx,
        class_id=np.full(len(source_id), class_id, np.int16),
        source_id=source_id,
        run_start=runs.start,
        run_stop=runs.stop,
        run_instance=instance,
    )


def instances_from_label_image(image: LabelImage, *, with_source: bool = False) -> Instances:
    """The instances of a decoded label image.

    With a class map an instance has the class of most of its pixels among those that have one (the smaller class id
    if two are equal); 0 if none has. Ignore classes, whose ids are negative, come after all others there.

    with_source  put the name of the file before the ids
    """
    instances = instances_from_runs(image.labels, image.class_id)
    if image.class_of_instance is not None:
        if image.class_of_instance.shape != instances.class_id.shape:
            raise ValueError(f"{len(image.class_of_instance)} classes for {len(instances)} instances; one for each")
        instances = replace(instances, class_id=image.class_of_instance)
    if image.class_map is not None:
        instances = replace(instances, class_id=majority_classes(instances, image.class_map))
    if with_source:
        sources = np.array([f"{image.source}:{label}" for label in instances.source_id] + [None], object)[:-1]
        instances = replace(instances, source_id=sources)
    return instances


def compact(value: npt.NDArray[Any]) -> tuple[Int64, npt.NDArray[np.int32]]:
    """The distinct values in ascending order, int64 (N,), and for each value its index among them, int32."""
    largest = int(value.max(initial=0))
    if largest > 4 * len(value) + 1024:
        distinct, index = np.unique(value, return_inverse=True)
        return distinct.astype(np.int64), index.astype(np.int32)
    present = np.zeros(largest + 1, np.bool_)
    present[value] = True
    distinct = np.flatnonzero(present)
    table = np.zeros(largest + 1, np.int32)
    table[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, table[value]


def majority_classes(instances: Instances, class_map: LabelRuns) -> npt.NDArray[np.int16]:
    """For each instance the class of most of its pixels in ``class_map`` (0 does not count), int16 (N,)."""
    run, of_map, start, stop = overlaps(instances.run_start, instances.run_stop, class_map.start, class_map.stop)
    classes, entry = np.unique(class_map.value, return_inverse=True)
    classes = classes.astype(np.int64)
    # Only the pairs that occur: never a table of all instances and classes.
    pair, vote_of = np.unique(instances.run_instance[run] * np.int64(len(classes)) + entry[of_map], return_inverse=True)
    votes = np.bincount(vote_of, stop - start, minlength=len(pair))

    instance, entry = np.divmod(pair, max(len(classes), 1))
    class_id = classes[entry]
    order = np.lexsort((np.abs(class_id), class_id < 0, -votes, instance))  # ignore classes are the last choice
    voted, first = np.unique(instance[order], return_index=True)
    winner = np.zeros(len(instances), np.int16)
    winner[voted] = class_id[order[first]]
    return winner
