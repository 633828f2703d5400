"""Label maps to runs: one pass over the pixels, all else costs what the runs cost."""

from __future__ import annotations

from collections.abc import Sequence
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


def instances_from_label_images(images: Sequence[LabelImage], shape_yx: tuple[int, int]) -> Instances:
    """The instances of a case from all its label images: one per class, or one with a class map.

    Instances of different files may overlap, and may have the same ids: an id is an instance of its own in each file.
    With a class map an instance has the class of most of its pixels among those that have one (the smaller class id
    if two are equal); 0 if none has.
    """
    parts = []
    for image in images:
        instances = instances_from_labels(image.labels, class_id=image.class_id)
        if image.class_map is not None:
            instances = replace(instances, class_id=majority_classes(instances, image.class_map))
        parts.append(instances)
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0, *(len(part) for part in parts)])
    start = np.concatenate([part.run_start for part in parts] or [np.empty(0, np.int64)])
    order = np.argsort(start, kind="stable")
    instance = [part.run_instance + np.int32(offset) for part, offset in zip(parts, offsets[:-1], strict=True)]
    sources = [f"{image.source}:{label}" for image, part in zip(images, parts, strict=True) for label in part.source_id]
    return Instances(
        shape_yx=shape_yx,
        class_id=np.concatenate([part.class_id for part in parts] or [np.empty(0, np.int16)]),
        source_id=np.array(sources, object),
        run_start=start[order],
        run_stop=np.concatenate([part.run_stop for part in parts] or [start])[order],
        run_instance=np.concatenate(instance or [np.empty(0, np.int32)])[order],
    )


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
    pixel = np.repeat(instances.run_start - (np.cumsum(length) - length), length) + np.arange(length.sum())
    class_of_pixel = class_map[pixel // width, pixel % width].astype(np.int64)
    classes = int(class_of_pixel.max(initial=0)) + 1
    key = np.repeat(instances.run_instance.astype(np.int64), length) * classes + class_of_pixel
    votes = np.bincount(key, minlength=len(instances) * classes).reshape(-1, classes)
    votes[:, 0] = 0
    winner = votes.argmax(axis=1) if classes > 1 else np.zeros(len(instances), np.int64)
    return winner.astype(np.int16)
