"""The same nuclei drawn a little differently: eroded, dilated or shifted, or coarser. How much does a score mind?

A nucleus is treated by itself: its neighbours do not stop it from growing, so dilated nuclei may overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evaluation.instances.runs import select_instances, with_runs
from evaluation.model import Bool, BorderRule, Instances, Int64
from evaluation.model.intervals import merge_runs, overlaps


@dataclass(frozen=True, slots=True, eq=False)
class Canvas:
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

    >>> from evaluation.instances.labels import instances_from_labels
    >>> dilate_instances(instances_from_labels(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]))).areas_px().tolist()
    [5]
    """
    for _ in range(px):
        canvas = Canvas(instances.shape_yx)
        start, stop = canvas.place(instances)
        moved = [(start - 1, stop + 1), (start - canvas.stride, stop - canvas.stride)]
        moved.append((start + canvas.stride, stop + canvas.stride))
        instances = canvas.read(instances, *merge_runs(*(np.concatenate(ends) for ends in zip(*moved, strict=True))))
    return instances


def erode_instances(instances: Instances, px: int = 1, *, border: BorderRule = "closed") -> Instances:
    """Shrink every nucleus ``px`` times by its pixels with a 4-neighbour outside it; nuclei that vanish are left out.

    border  whether what lies beyond the image border is outside: ``closed`` if it is, ``open`` if nuclei go on there

    >>> from evaluation.instances.labels import instances_from_labels
    >>> nuclei = instances_from_labels(np.array([[1, 1, 1, 1, 0]] * 3))
    >>> erode_instances(nuclei).areas_px().tolist(), erode_instances(nuclei, border="open").areas_px().tolist()
    ([2], [9])
    """
    for _ in range(px):
        canvas = Canvas(instances.shape_yx)
        start, stop = canvas.place(instances, border)
        inner = stop - start > 2
        eroded = overlaps((start + 1)[inner], (stop - 1)[inner], start - canvas.stride, stop - canvas.stride)[2:]
        eroded = overlaps(*eroded, start + canvas.stride, stop + canvas.stride)[2:]
        instances = canvas.read(instances, *eroded)
    return instances


def shift_instances(instances: Instances, dy: int = 0, dx: int = 1) -> Instances:
    """Move every nucleus ``dy`` rows down and ``dx`` columns to the right; pixels that leave the image are lost.

    >>> from evaluation.instances.labels import instances_from_labels
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

    >>> from evaluation.instances.labels import instances_from_labels
    >>> labels = np.array([[1, 1, 2, 0, 3], [1, 0, 0, 2, 3]])
    >>> halved = halve_instances(instances_from_labels(labels))
    >>> halved.shape_yx, halved.run_start.tolist(), halved.run_instance.tolist()
    ((1, 3), [0, 1, 2], [0, 1, 2])
    """
    height, width = instances.shape_yx
    canvas = Canvas(((height + 1) // 2, (width + 1) // 2))
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

    >>> from evaluation.instances.labels import instances_from_labels
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
    """How many pixels each changed nucleus shares with what it was, ``instances[source]``, int64 (M,).

    ``source`` ascends: one nucleus never becomes two.

    >>> from evaluation.instances.labels import instances_from_labels
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
