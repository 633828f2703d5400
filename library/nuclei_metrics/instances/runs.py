"""Sets of pixels as runs: union, difference and depth, for regions and for the runs of instances; label maps as runs.

Runs lie on a number line. The flat pixel index is one, but on it the end of a row touches the start of the next;
``positions`` leaves a gap between rows, and gives every instance (or class) a stretch of its own if asked to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model import Bool, BorderRule, Float64, Instances, Int16, Int64, LabelImage, LabelRuns, Region
from nuclei_metrics.model.annotations import find_runs, runs_of
from nuclei_metrics.model.arrays import blocks, concatenated, distinct, expand, merge_runs, overlaps


def empty_region() -> Region:
    return Region(np.empty(0, np.int64), np.empty(0, np.int64))


def subtract_runs(start: Int64, stop: Int64, away_start: Int64, away_stop: Int64) -> tuple[Int64, Int64, Int64]:
    """The parts of each run (any order, may overlap) that lie outside the sorted disjoint runs ``away``.

    Returns the index of the run, start and stop of each piece; the pieces of a run come one after the other.

    >>> import numpy as np
    >>> run, start, stop = subtract_runs(np.array([0, 4]), np.array([9, 6]), np.array([2, 5]), np.array([3, 8]))
    >>> run.tolist(), start.tolist(), stop.tolist()
    ([0, 0, 0, 1], [0, 3, 8, 4], [2, 5, 9, 5])
    """
    first = np.searchsorted(away_stop, start, "right")  # the first run of `away` that ends behind the start
    touched = np.searchsorted(away_start, stop, "left") - first
    if not touched.any():
        return np.arange(len(start)), start, stop
    run = np.repeat(np.arange(len(start)), touched + 1)
    after = expand(first, first + touched + 1)  # the piece lies between after - 1 and after
    piece_start, piece_stop = start[run], stop[run]
    inner = run[1:] == run[:-1]
    piece_start[1:][inner] = away_stop[after[1:][inner] - 1]
    piece_stop[:-1][inner] = away_start[after[:-1][inner]]
    some = piece_start < piece_stop
    return run[some], piece_start[some], piece_stop[some]


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Stretches between the ends of runs, int64 (S,) each, sorted: ``depth`` runs cover every pixel of a stretch."""

    start: Int64
    stop: Int64
    depth: Int64


def cover_depth(start: Int64, stop: Int64) -> Cover:
    """Count the runs that cover each pixel; the runs may come in any order. Pixels under no run are left out.

    >>> import numpy as np
    >>> cover = cover_depth(np.array([0, 2]), np.array([5, 9]))
    >>> cover.start.tolist(), cover.stop.tolist(), cover.depth.tolist()
    ([0, 2, 5], [2, 5, 9], [1, 2, 1])
    """
    start, stop = np.sort(start, kind="stable"), np.sort(stop)  # made of sorted pieces
    edge = distinct(np.concatenate([start, stop]))
    depth = np.searchsorted(start, edge, "right") - np.searchsorted(stop, edge, "right")
    inside = np.flatnonzero(depth)  # the last edge has depth 0
    return Cover(edge[inside], edge[inside + 1], depth[inside])


def positions(flat: Int64, width: int) -> Int64:
    """Flat pixel indices on a number line with a gap of one behind every row: ``row * (width + 1) + column``."""
    return flat + flat // width


def flat_indices(position: Int64, width: int) -> Int64:
    """The inverse of ``positions``."""
    return position - position // (width + 1)


def region_of_positions(start: Int64, stop: Int64, width: int) -> Region:
    """The union of runs given as positions."""
    start, stop = merge_runs(start, stop)
    first = flat_indices(start, width)
    return Region(first, first + (stop - start))


def union_region(instances: Instances) -> Region:
    """All pixels that belong to an instance."""
    width = instances.shape_yx[1]
    start = positions(instances.run_start, width)
    return region_of_positions(start, start + (instances.run_stop - instances.run_start), width)


def join_regions(regions: list[Region], width: int) -> Region:
    """Union of regions."""
    if not any(len(region.run_start) for region in regions):
        return empty_region()
    everything = concatenated(regions)
    start = positions(everything.run_start, width)
    return region_of_positions(start, start + (everything.run_stop - everything.run_start), width)


def subtract_region(instances: Instances, region: Region) -> Instances:
    """The instances without their pixels in the region; some may be left without pixels."""
    run, start, stop = subtract_runs(instances.run_start, instances.run_stop, region.run_start, region.run_stop)
    return with_runs(instances, start, stop, instances.run_instance[run])


def select_instances(instances: Instances, chosen: Bool) -> Instances:
    """The chosen instances, in the same order."""
    if chosen.all():
        return instances
    runs = chosen[instances.run_instance]
    index = (np.cumsum(chosen) - 1).astype(np.int32)
    return Instances(
        shape_yx=instances.shape_yx,
        class_id=instances.class_id[chosen],
        source_id=instances.source_id[chosen],
        run_start=instances.run_start[runs],
        run_stop=instances.run_stop[runs],
        run_instance=index[instances.run_instance[runs]],
        probability=None if instances.probability is None else instances.probability[chosen],
        point_yx=None if instances.point_yx is None else instances.point_yx[chosen],
        class_probability=None if instances.class_probability is None else instances.class_probability[chosen],
    )


def with_runs(instances: Instances, start: Int64, stop: Int64, instance: npt.NDArray[np.int32]) -> Instances:
    """The instances with other runs, which are sorted here: by start, then by instance."""
    order, start = order_of_runs(start, instance)
    return replace(instances, run_start=start, run_stop=stop[order], run_instance=instance[order])


def order_of_runs(start: Int64, instance: npt.NDArray[np.int32]) -> tuple[Int64, Int64]:
    """Order of runs by start, then by instance, and the sorted starts. Runs are unique in (start, instance)."""
    if np.all(start[1:] > start[:-1]):
        return np.arange(len(start)), start
    order, ascending = _stable_order(start)
    if np.all(instance[1:] >= instance[:-1]) or np.all(ascending[1:] > ascending[:-1]):
        return order, ascending
    order = np.lexsort((instance, start))
    return order, start[order]


def _stable_order(values: Int64) -> tuple[Int64, Int64]:
    """``argsort`` of numbers of 0 or more, where those that agree stay in their order, and the sorted numbers.

    As a rule a number and its index fit into 63 bits; sorted together they are read one after the other. Everything is
    done in the same memory, since new memory costs more than the arithmetic.
    """
    bits = len(values).bit_length()
    if int(values.max(initial=0)) >> (63 - bits):
        order = np.argsort(values, kind="stable")
        return order, values[order]
    numbered = values << bits
    for block in blocks(len(values)):
        numbered[block] |= np.arange(block.start, block.stop)
    numbered.sort()
    order = numbered & ((1 << bits) - 1)
    numbered >>= bits
    return order, numbered


VERY_MANY = 1 << 20  # elements


def give_memory_back(elements: int) -> None:
    """Return freed memory to the system, after work on so many elements in pieces; do nothing below a million.

    The C library keeps the space between small arrays: a gigabyte for a million nuclei.
    """
    if elements >= VERY_MANY:
        with suppress(AttributeError, OSError, TypeError):  # where there is no glibc
            ctypes.CDLL(None).malloc_trim(0)


# --- the same nuclei drawn a little differently -----------------------------------------------------------------------


# These functions show how much a score changes if nuclei are drawn a pixel larger, smaller or aside, or at half the
# resolution. Each nucleus is changed alone: neighbours do not stop it from growing, so dilated nuclei may overlap.


@dataclass(frozen=True, slots=True, eq=False)
class _Canvas:
    """A number line for runs on which rows do not touch, with an empty row above and below every instance.

    A pixel of instance i lies at ``(i (H + 2) + row + 1) (W + 3) + column + 1``.
    """

    shape_yx: tuple[int, int]

    @property
    def stride(self) -> int:
        return self.shape_yx[1] + 3  # a run that grew on both sides does not touch the next line

    def place(self, instances: Instances, border: BorderRule = "closed") -> tuple[Int64, Int64]:
        """Start and stop of all runs on the line, sorted; under ``open`` runs at the border are a pixel longer."""
        height, width = self.shape_yx
        row, column = np.divmod(instances.run_start, width)
        start = (instances.run_instance.astype(np.int64) * (height + 2) + row + 1) * self.stride + column + 1
        stop = start + instances.run_stop - instances.run_start
        if border == "open":
            start, stop = start - (column == 0), stop + (stop % self.stride == width + 1)
            top, bottom = row == 0, row == height - 1
            start = np.concatenate([start, start[top] - self.stride, start[bottom] + self.stride])
            stop = np.concatenate([stop, stop[top] - self.stride, stop[bottom] + self.stride])
        return np.sort(start), np.sort(stop)

    def read(self, instances: Instances, start: Int64, stop: Int64) -> Instances:
        """The instances with other runs, cut at the border of the image; instances without pixels are left out."""
        height, width = self.shape_yx
        line = start // self.stride
        index, row = np.divmod(line, height + 2)
        first = np.maximum(start - line * self.stride - 1, 0)
        last = np.minimum(stop - line * self.stride - 1, width)
        inside = (row >= 1) & (row <= height) & (first < last)
        base = (row[inside] - 1) * width
        drawn = with_runs(instances, base + first[inside], base + last[inside], index[inside].astype(np.int32))
        return select_instances(drawn, np.bincount(drawn.run_instance, minlength=len(drawn)) > 0)


def dilate_instances(instances: Instances, px: int = 1) -> Instances:
    """Grow every nucleus ``px`` times by the pixels of the image that have a 4-neighbour in it.

    >>> dilate_instances(instances_from_labels(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]))).areas_px().tolist()
    [5]
    """
    for _ in range(px):
        canvas = _Canvas(instances.shape_yx)
        start, stop = canvas.place(instances)
        moved = [(start - 1, stop + 1), (start - canvas.stride, stop - canvas.stride)]
        moved.append((start + canvas.stride, stop + canvas.stride))
        instances = canvas.read(instances, *merge_runs(*(np.concatenate(ends) for ends in zip(*moved, strict=True))))
    return instances


def erode_instances(instances: Instances, px: int = 1, *, border: BorderRule = "closed") -> Instances:
    """Shrink every nucleus ``px`` times by its pixels with a 4-neighbour outside it; nuclei that vanish are left out.

    border  whether pixels beyond the image border are outside: ``closed`` if it is, ``open`` if nuclei go on there

    >>> nuclei = instances_from_labels(np.array([[1, 1, 1, 1, 0]] * 3))
    >>> erode_instances(nuclei).areas_px().tolist(), erode_instances(nuclei, border="open").areas_px().tolist()
    ([2], [9])
    """
    for _ in range(px):
        canvas = _Canvas(instances.shape_yx)
        start, stop = canvas.place(instances, border)
        inner = stop - start > 2
        eroded = overlaps((start + 1)[inner], (stop - 1)[inner], start - canvas.stride, stop - canvas.stride)[2:]
        eroded = overlaps(*eroded, start + canvas.stride, stop + canvas.stride)[2:]
        instances = canvas.read(instances, *eroded)
    return instances


def shift_instances(instances: Instances, dy: int = 0, dx: int = 1) -> Instances:
    """Move every nucleus ``dy`` rows down and ``dx`` columns to the right; pixels that leave the image are lost.

    >>> shift_instances(instances_from_labels(np.array([[1, 1, 0]])), dx=2).run_start.tolist()
    [2]
    """
    height, width = instances.shape_yx
    row, column = np.divmod(instances.run_start, width)
    first = np.maximum(column + dx, 0)
    last = np.minimum(column + dx + instances.run_stop - instances.run_start, width)
    inside = (row + dy >= 0) & (row + dy < height) & (first < last)
    base = (row + dy)[inside] * width
    moved = with_runs(instances, base + first[inside], base + last[inside], instances.run_instance[inside])
    return select_instances(moved, np.bincount(moved.run_instance, minlength=len(moved)) > 0)


def halve_instances(instances: Instances) -> Instances:
    """The instances at half the resolution: a pixel there is a block of 2 x 2, counted from the upper left corner.

    A block belongs to a nucleus that covers more than half of it, or half of it with its upper left pixel. So a tie is
    decided by position: on the whole nuclei neither grow nor shrink, and those that do not overlap still do not. At an
    odd right or lower edge of the image only pixels inside count. Nuclei without a block are gone.

    >>> labels = np.array([[1, 1, 2, 0, 3], [1, 0, 0, 2, 3]])
    >>> halved = halve_instances(instances_from_labels(labels))
    >>> halved.shape_yx, halved.run_start.tolist(), halved.run_instance.tolist()
    ((1, 3), [0, 1, 2], [0, 1, 2])
    """
    height, width = instances.shape_yx
    canvas = _Canvas(((height + 1) // 2, (width + 1) // 2))
    row, first = np.divmod(instances.run_start, width)
    last = first + instances.run_stop - instances.run_start
    last += (last == width) & (width % 2 == 1)  # pixels at an odd edge count twice, as if they were two
    upper = row % 2 == 0
    lower = ~upper | ((row == height - 1) & (height % 2 == 1))
    line = instances.run_instance.astype(np.int64) * (canvas.shape_yx[0] + 2) + row // 2 + 1
    base = line * canvas.stride + 1

    def blocks(begin: Int64, end: Int64, chosen: Bool) -> tuple[Int64, Int64]:
        """The chosen runs in one row of blocks, as the first block and the one behind the last block; sorted."""
        some = chosen & (begin < end)
        return np.sort((base + begin)[some]), np.sort((base + end)[some])

    from_any, from_whole, to_whole, to_any = first // 2, (first + 1) // 2, last // 2, (last + 1) // 2
    start, stop = zip(
        blocks(from_whole, to_whole, upper),
        overlaps(*blocks(from_whole, to_any, upper), *blocks(from_any, to_any, lower))[2:],
        overlaps(*blocks(from_any, to_any, upper), *blocks(from_whole, to_whole, lower))[2:],
        strict=True,
    )
    merged = merge_runs(np.concatenate(start), np.concatenate(stop))
    return canvas.read(replace(instances, shape_yx=canvas.shape_yx), *merged)


def double_instances(instances: Instances, shape_yx: tuple[int, int]) -> Instances:
    """The instances of ``halve_instances`` on the pixels of the image that they came from.

    >>> double_instances(instances_from_labels(np.array([[0, 1]])), (2, 3)).run_start.tolist()
    [2, 5]
    """
    height, width = shape_yx
    row, column = np.divmod(instances.run_start, instances.shape_yx[1])
    last = np.minimum(2 * (column + instances.run_stop - instances.run_start), width)
    rows = np.concatenate([2 * row, 2 * row + 1])
    inside = rows < height
    start, stop = (rows * width + np.tile(end, 2) for end in (2 * column, last))
    instance = np.tile(instances.run_instance, 2)
    return with_runs(replace(instances, shape_yx=shape_yx), start[inside], stop[inside], instance[inside])


def shared_px(instances: Instances, changed: Instances, source: Int64) -> Int64:
    """Count the pixels that each changed nucleus shares with its original, ``instances[source]``, int64 (M,).

    ``source`` ascends: one nucleus never becomes two.

    >>> nuclei = instances_from_labels(np.array([[1, 1, 1, 2, 2]]))
    >>> shared_px(nuclei, shift_instances(nuclei), np.arange(2)).tolist()
    [2, 1]
    """
    pixels = instances.shape_yx[0] * instances.shape_yx[1]

    def line(nuclei: Instances, instance: Int64) -> tuple[Int64, Int64]:
        return np.sort(instance * pixels + nuclei.run_start), np.sort(instance * pixels + nuclei.run_stop)

    before = line(instances, instances.run_instance.astype(np.int64))
    _, _, start, stop = overlaps(*before, *line(changed, source[changed.run_instance]))
    total = np.zeros(len(instances), np.int64)
    np.add.at(total, start // max(pixels, 1), stop - start)
    return total[source]


# --- label maps and label images --------------------------------------------------------------------------------------


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
        advice = "write 0 for NaN, numpy.nan_to_num(labels)" if np.isnan(array).any() else "number the nuclei anew"
        raise ValueError(f"labels are not all whole numbers: infinite, NaN or above 2^53; {advice}")
    whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        got = f"labels are not all whole numbers, such as {float(array[whole != array][0]):g}"
        raise ValueError(f"{got}; of probabilities make labels, such as scipy.ndimage.label(array > 0.5)[0]")
    return whole


def as_array(values: Any, what: str) -> npt.NDArray[Any]:
    """Return the values as a NumPy array, without a copy if possible: of anything with ``__array__`` or DLPack.

    Raises ValueError for ragged rows, masked arrays, and tensors on a GPU or with a gradient: nothing is moved between
    devices unasked.
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{what} are masked; fill what does not count, for labels with 0: labels.filled(0)")
    tensor = hasattr(values, "__dlpack__")
    try:
        if tensor and not hasattr(values, "__array__"):
            return np.from_dlpack(values)
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        fix = "; expected an array on the CPU, such as tensor.detach().cpu()" if tensor else ""
        raise ValueError(f"{what} cannot become an array: {error}{fix}") from None


def instances_of_values(runs: LabelRuns, class_id: int) -> Instances:
    """The instances of a label image whose values are all positive; ``class_id`` for all."""
    source_id, instance = _compact(runs.value)
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


def _compact(value: npt.NDArray[Any]) -> tuple[Int64, npt.NDArray[np.int32]]:
    """The distinct values in ascending order, int64 (N,), and for each value its index among them, int32."""
    largest = int(value.max(initial=0))
    if largest > 4 * len(value) + 1024:
        distinct, index = np.unique(value, return_inverse=True)
        return distinct.astype(np.int64), index.astype(np.int32)
    present = np.zeros(largest + 1, np.bool_)
    present[value] = True
    distinct = present.nonzero()[0]
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
    planes = [_mask_of(one, number) for number, one in enumerate(entries, start=1)]
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
    confidences = _confidences_of(entries)
    return Instances(
        shape_yx=(int(shape_yx[0]), int(shape_yx[1])),
        class_id=checked_class_ids(ids, len(planes))[chosen],
        source_id=np.flatnonzero(chosen) + 1,
        run_start=start[order],
        run_stop=stop[order],
        run_instance=instance[order].astype(np.int32),
        probability=None if confidences is None else confidences[chosen],
    )


def _mask_of(entry: Any, number: int) -> npt.NDArray[np.bool_]:
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
    """Return whether the entries are a list of records, as Segment Anything writes them."""
    return isinstance(entries, list) and bool(entries) and all(isinstance(one, Mapping) for one in entries)


def _confidences_of(entries: list[Any]) -> Float64 | None:
    """``predicted_iou`` of each record, which may be a little above 1; None if one has none."""
    if not are_records(entries) or not all("predicted_iou" in record for record in entries):
        return None
    confidences: Float64 = np.array([float(record["predicted_iou"]) for record in entries])
    if not np.isfinite(confidences).all():
        raise ValueError("a record has a 'predicted_iou' that is no finite number")
    return confidences.clip(0, 1)
