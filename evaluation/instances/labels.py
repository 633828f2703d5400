"""Label maps to runs: one pass over the pixels, all else costs what the runs cost."""

from __future__ import annotations

from collections.abc import Sequence
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

    Instances are in ascending order of their labels, which become ``source_id``.

    >>> import numpy as np
    >>> instances = instances_from_labels(np.array([[0, 7, 7], [2, 0, 7]]), [1, 3])
    >>> instances.source_id.tolist(), instances.areas_px().tolist(), instances.class_id.tolist()
    ([2, 7], [1, 3], [1, 3])
    """
    start, stop, value = foreground_runs(labels)
    source_id, instance = compact(value)
    classes = np.full(len(source_id), class_id, np.int16)
    if class_of_instance is not None:
        classes[:] = np.asarray(class_of_instance)
    start, stop, instance = split_at_row_ends(start, stop, instance, labels.shape[1])
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
            instances = with_classes(instances, majority_classes(instances, image.class_map))
        parts.append(instances)
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0, *(len(part) for part in parts)])
    start = np.concatenate([part.run_start for part in parts] or [np.empty(0, np.int64)])
    order = np.argsort(start, kind="stable")
    instance = [part.run_instance + np.int32(offset) for part, offset in zip(parts, offsets[:-1], strict=True)]
    sources = [
        f"{image.source}:{label}" for image, part in zip(images, parts, strict=True) for label in part.source_id
    ]
    return Instances(
        shape_yx=shape_yx,
        class_id=np.concatenate([part.class_id for part in parts] or [np.empty(0, np.int16)]),
        source_id=np.array(sources, object),
        run_start=start[order],
        run_stop=np.concatenate([part.run_stop for part in parts] or [start])[order],
        run_instance=np.concatenate(instance or [np.empty(0, np.int32)])[order],
    )


def with_classes(instances: Instances, class_id: npt.NDArray[np.int16]) -> Instances:
    """The same instances with other classes."""
    return Instances(
        instances.shape_yx,
        class_id,
        instances.source_id,
        instances.run_start,
        instances.run_stop,
        instances.run_instance,
    )


def foreground_runs(labels: npt.NDArray[np.integer[Any]]) -> tuple[Int64, Int64, npt.NDArray[Any]]:
    """Maximal stretches of equal positive labels in the flat image (they may cross row ends): start, stop, label."""
    flat = np.ascontiguousarray(labels).reshape(-1)
    if flat.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), flat
    changed = np.empty(BLOCK_PX, np.bool_)
    edges, values = [np.zeros(1, np.int64)], [flat[:1]]
    for begin in range(1, flat.size, BLOCK_PX):
        block = flat[begin : begin + BLOCK_PX]
        differs = changed[: block.size]
        np.not_equal(block, flat[begin - 1 : begin - 1 + block.size], out=differs)
        found = np.flatnonzero(differs)
        values.append(block[found])
        found += begin
        edges.append(found)
    edges.append(np.array([flat.size]))
    edge, value = np.concatenate(edges), np.concatenate(values)
    inside = np.flatnonzero(value)
    return edge[inside], edge[inside + 1], value[inside]


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


def split_at_row_ends(
    start: Int64, stop: Int64, instance: npt.NDArray[np.int32], width: int
) -> tuple[Int64, Int64, npt.NDArray[np.int32]]:
    """Cut the runs that cross the end of a row."""
    if len(start) == 0:
        return start, stop, instance
    first_row = start // width
    pieces = (stop - 1) // width - first_row + 1
    if pieces.max() == 1:
        return start, stop, instance
    origin = np.repeat(np.arange(len(start)), pieces)
    nth = np.arange(len(origin)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    row_start = (first_row[origin] + nth) * width
    return (
        np.maximum(start[origin], row_start),
        np.minimum(stop[origin], row_start + width),
        instance[origin],
    )


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
