"""Label maps and label images as instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import Float64, Instances, Int16, Int64, LabelImage, LabelRuns
from evaluation.model.annotations import find_runs, runs_of
from evaluation.model.arrays import overlaps

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
    instances = instances_of_values(runs, 0)
    class_ids = np.full(len(instances), class_id) if class_of_instance is None else class_of_instance
    return replace(instances, class_id=checked_class_ids(class_ids, len(instances)))


def checked_class_ids(class_ids: npt.ArrayLike, instances: int) -> Int16:
    """The class id of each of N instances, int16 (N,). Raises ValueError for other shapes, types and numbers."""
    array = as_array(class_ids, "classes")
    if array.shape != (instances,) or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{array.shape} classes of {array.dtype} for {instances} instances; one integer for each")
    most = np.iinfo(np.int16).max
    if array.size and not 0 <= array.min() <= array.max() <= most:
        raise ValueError(f"class ids are from {array.min()} to {array.max()}; expected 1 to C, C up to {most:,}")
    return array.astype(np.int16)


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


def as_array(values: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """The values as a numpy array. Raises ValueError for ragged rows, masked arrays and tensors of a GPU."""
    if np.ma.is_masked(values):
        raise ValueError(f"{what} are masked; fill what does not count, for labels with 0: labels.filled(0)")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{what} cannot become an array: {error}") from None


def instances_of_values(runs: LabelRuns, class_id: int) -> Instances:
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
    instances = instances_of_values(image.labels, image.class_id)
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


# --- masks ------------------------------------------------------------------------------------------------------------


EXPECTED_MASKS = "expected masks (N, H, W) of True and False, a list of masks (H, W), or SAM's list of records"


def instances_from_masks(masks: Any, class_of_instance: npt.ArrayLike | None = None, *, class_id: int = 0) -> Instances:
    """The instances of masks, one for each nucleus; masks may share pixels, and one without pixels is left out.

    masks              booleans, or 0 and one other number, (N, H, W), a list of such (H, W), or the records of Segment
                       Anything: tables with ``segmentation``, a mask, and perhaps ``predicted_iou``, the confidence
    class_of_instance  class id of each mask (N,); else ``class_id`` for all

    The number of a mask, from 1, becomes its ``source_id``. Raises ValueError for anything else.

    >>> import numpy as np
    >>> masks = np.zeros((2, 3, 4), bool)
    >>> masks[0, 0, :2] = masks[1, :, 1] = True
    >>> instances_from_masks(masks, [1, 3]).areas_px().tolist()
    [2, 3]
    """
    if not hasattr(masks, "__iter__") or isinstance(masks, Mapping | str):
        raise ValueError(f"masks are of type {type(masks).__name__}; {EXPECTED_MASKS}")
    stack = None if isinstance(masks, list | tuple) else as_array(masks, "masks")
    entries = list(masks if stack is None else stack)
    if not entries and (stack is None or stack.ndim != 3):
        raise ValueError(f"there is no mask, so the size of the image is not known; {EXPECTED_MASKS}")
    planes = [mask_of(one, number) for number, one in enumerate(entries, start=1)]
    shape_yx = planes[0].shape if stack is None or entries else stack.shape[1:]
    if other := [plane.shape for plane in planes if plane.shape != shape_yx]:
        raise ValueError(f"masks of different sizes, {shape_yx} and {other[0]} px (height, width); expected one size")
    chosen = np.array([plane.any() for plane in planes], np.bool_)
    starts, stops = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for plane in planes:
        start, stop, _ = find_runs(plane.view(np.uint8))
        starts.append(start)
        stops.append(stop)
    numbers = np.cumsum(chosen) - 1  # of the masks that have pixels, from 0
    sizes = [len(start) for start in starts[1:]]
    start, stop, instance = np.concatenate(starts), np.concatenate(stops), np.repeat(numbers, sizes)
    order = np.argsort(start, kind="stable")
    ids = np.full(len(planes), class_id) if class_of_instance is None else class_of_instance
    confidences = confidences_of(entries)
    return Instances(
        shape_yx=(int(shape_yx[0]), int(shape_yx[1])),
        class_id=checked_class_ids(ids, len(planes))[chosen],
        source_id=np.flatnonzero(chosen) + 1,
        run_start=start[order],
        run_stop=stop[order],
        run_instance=instance[order].astype(np.int32),
        probability=None if confidences is None else confidences[chosen],
    )


def mask_of(entry: Any, number: int) -> npt.NDArray[np.bool_]:
    """The mask (H, W) that an entry is, or that a record has under ``segmentation``. Raises ValueError."""
    if isinstance(entry, Mapping):
        if "segmentation" not in entry:
            raise ValueError(f"record {number} has no 'segmentation'; {EXPECTED_MASKS}")
        entry = entry["segmentation"]
        if isinstance(entry, Mapping):
            do = "output_mode='binary_mask', or pycocotools.mask.decode(record['segmentation']) of each"
            raise ValueError(f"record {number} has a run-length code for its 'segmentation'; expected a mask: {do}")
    array = as_array(entry, f"mask {number}")
    if array.ndim == 3 and len(array) == 1:
        array = array[0]  # torchvision's masks are (N, 1, H, W)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"mask {number} is {array.dtype} of shape {array.shape}; {EXPECTED_MASKS}")
    mask = np.ascontiguousarray(array != 0)
    if array.dtype.kind == "f" and not np.array_equal(array, np.where(mask, array.max(initial=0), 0)):
        raise ValueError(f"mask {number} has several values, as probabilities have; give mask > 0.5")
    if array.dtype.kind in "iu" and mask.any() and (array[mask] != array[mask][0]).any():
        raise ValueError(f"mask {number} has several labels; labels are for instances_from_labels")
    return mask


def are_records(entries: Any) -> bool:
    """Whether the entries are a list of records, as Segment Anything writes them."""
    return isinstance(entries, list) and bool(entries) and all(isinstance(one, Mapping) for one in entries)


def confidences_of(entries: list[Any]) -> Float64 | None:
    """``predicted_iou`` of each record, which may be a little above 1; None if one has none."""
    if not are_records(entries) or not all("predicted_iou" in record for record in entries):
        return None
    confidences: Float64 = np.array([float(record["predicted_iou"]) for record in entries])
    if not np.isfinite(confidences).all():
        raise ValueError("a record has a 'predicted_iou' that is no finite number")
    return confidences.clip(0, 1)
