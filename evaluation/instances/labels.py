"""Label maps to runs: one pass over the pixels, all else costs what the runs cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import Instances, Int64, LabelImage

BLOCK_PX = 1 << 17  # what a block touches stays in the cache


def instances_from_labels(
    labels: npt.NDArray[np.integer[Any]], class_of_instance: npt.ArrayLike | None = None, *, class_id: int = 0
) -> Instances:
    """The instances of a label map: every positive value is one instance, also if its pixels lie apart.

    labels             integer (H, W), 0 background, other values may have gaps; no negative values
    class_of_instance  class id of each instance (N,), in ascending order of labels; else ``class_id`` for all

    Instances are in ascending order of their labels, which become ``source_id``. Raises ValueError for anything else.

    >>> import numpy as np
    >>> instances = instances_from_labels(np.array([[0, 7, 7], [2, 0, 7]]), [1, 3])
    >>> instances.source_id.tolist(), instances.areas_px().tolist(), instances.class_id.tolist()
    ([2, 7], [1, 3], [1, 3])
    """
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise ValueError(f"labels are {labels.dtype} of shape {labels.shape}, not integers of shape (H, W)")
    start, stop, value = foreground_runs(labels)
    if len(value) and not 0 < value.min() <= value.max() <= np.iinfo(np.int64).max:
        raise ValueError(f"labels are from {value.min()} to {value.max()}, not from 0 to 2^63 - 1")
    source_id, instance = compact(value)
    classes = np.full(len(source_id), class_id, np.int16)
    if class_of_instance is not None:
        given = np.asarray(class_of_instance)
        if given.shape != classes.shape or (given.size and given.dtype.kind not in "iu"):
            raise ValueError(
                f"{given.shape} classes of {given.dtype} for {len(classes)} instances; one integer for each"
            )
        if given.size and not 0 <= given.min() <= given.max() <= np.iinfo(np.int16).max:
            raise ValueError(f"class ids are from {given.min()} to {given.max()}, not from 1 to C")
        classes[:] = given
    return Instances(
        shape_yx=(labels.shape[0], labels.shape[1]),
        class_id=classes,
        source_id=source_id,
        run_start=start,
        run_stop=stop,
        run_instance=instance,
    )


def instances_from_label_image(image: LabelImage, *, with_source: bool = False) -> Instances:
    """The instances of a decoded label image.

    With a class map an instance has the class of most of its pixels among those that have one (the smaller class id
    if two are equal); 0 if none has. Ignore classes, whose ids are negative, come after all others there.

    with_source  put the name of the file before the ids
    """
    instances = instances_from_labels(image.labels, class_id=image.class_id)
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


def foreground_runs(labels: npt.NDArray[np.integer[Any]]) -> tuple[Int64, Int64, npt.NDArray[Any]]:
    """Maximal stretches of equal positive labels inside a row: start and stop in the flat image, and their label.

    Goes through the image in blocks of whole rows, so that all that is as large as a block stays in the cache.
    """
    width = labels.shape[1]
    flat = np.ascontiguousarray(labels).reshape(-1)
    step = max(1, BLOCK_PX // max(width, 1)) * width
    changed = np.empty(min(step, flat.size), np.bool_)
    starts, stops, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [flat[:0]]
    for begin in range(0, flat.size, max(step, 1)):
        block = flat[begin : begin + step]
        differs = changed[: block.size]
        np.not_equal(block[1:], block[:-1], out=differs[1:])
        differs[::width] = True
        edge = np.flatnonzero(differs)
        value = block[edge]
        edge += begin
        inside = np.flatnonzero(value)
        starts.append(edge[inside])
        values.append(value[inside])
        inside += 1
        stops.append(np.append(edge, begin + block.size)[inside])
    return np.concatenate(starts), np.concatenate(stops), np.concatenate(values)


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


def majority_classes(instances: Instances, class_map: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int16]:
    """For each instance the class of most of its pixels in ``class_map`` (0 does not count), int16 (N,)."""
    width = instances.shape_yx[1]
    length = instances.run_stop - instances.run_start
    before = np.cumsum(length) - length  # pixels in the runs before each run
    pixel = np.repeat(instances.run_start - before, length) + np.arange(length.sum())
    class_of_pixel = class_map[pixel // width, pixel % width]

    # Stretches of one class in a run count at once, and only the pairs that occur: never a table N x C.
    begins = np.ones(len(pixel), np.bool_)
    np.not_equal(class_of_pixel[1:], class_of_pixel[:-1], out=begins[1:])
    begins[before] = True
    begin = np.flatnonzero(begins)
    class_id = class_of_pixel[begin].astype(np.int64)
    highest, lowest = int(class_id.max(initial=0)), int(class_id.min(initial=0))
    classes = np.array([*range(highest + 1), *range(-1, lowest - 1, -1)], np.int16)  # by place, in order of preference
    place = np.where(class_id < 0, highest - class_id, class_id)
    instance = instances.run_instance[np.searchsorted(before, begin, "right") - 1].astype(np.int64)
    pair, pair_of_stretch = np.unique(instance * len(classes) + place, return_inverse=True)
    votes = np.bincount(pair_of_stretch, np.diff(begin, append=len(pixel)))

    instance, place = np.divmod(pair, len(classes))
    order = np.lexsort((place, -votes, place == 0, instance))  # no class is the last choice
    voted, first = np.unique(instance[order], return_index=True)
    winner = np.zeros(len(instances), np.int16)
    winner[voted] = classes[place[order[first]]]
    return winner
