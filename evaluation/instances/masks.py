"""Masks of single nuclei in memory to instances, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.instances.labels import as_array, checked_class_ids
from evaluation.model import Float64, Instances
from evaluation.model.label_runs import find_runs

EXPECTED = "expected masks (N, H, W) of True and False, a list of masks (H, W), or SAM's list of records"


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
        raise ValueError(f"masks are of type {type(masks).__name__}; {EXPECTED}")
    stack = None if isinstance(masks, list | tuple) else as_array(masks, "masks")
    entries = list(masks if stack is None else stack)
    if not entries and (stack is None or stack.ndim != 3):
        raise ValueError(f"there is no mask, so the size of the image is not known; {EXPECTED}")
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
            raise ValueError(f"record {number} has no 'segmentation'; {EXPECTED}")
        entry = entry["segmentation"]
        if isinstance(entry, Mapping):
            do = "output_mode='binary_mask', or pycocotools.mask.decode(record['segmentation']) of each"
            raise ValueError(f"record {number} has a run-length code for its 'segmentation'; expected a mask: {do}")
    array = as_array(entry, f"mask {number}")
    if array.ndim == 3 and len(array) == 1:
        array = array[0]  # torchvision's masks are (N, 1, H, W)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"mask {number} is {array.dtype} of shape {array.shape}; {EXPECTED}")
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
