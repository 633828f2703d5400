"""The same nuclei drawn a little differently: eroded, dilated or shifted by a pixel. How much does a score mind?

A nucleus is treated by itself: its neighbours do not stop it from growing, so dilated nuclei may overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evaluation.instances.runs import select_instances, with_runs
from evaluation.intervals import merge_runs, overlaps
from evaluation.model import Instances, Int64, Perturbation


def perturb_instances(instances: Instances, perturbation: Perturbation) -> Instances:
    """The instances eroded, dilated or shifted to the right by one pixel; as they are under "none".

    Points have no border: they can be shifted only, and are as they are under the others. Those whose pixel leaves the
    image are gone.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> instances = instances_from_labels(np.ones((3, 3), int))
    >>> [int(perturb_instances(instances, name).areas_px()[0]) for name in ("none", "eroded", "shifted")]
    [9, 1, 6]
    """
    if instances.point_yx is not None:
        if perturbation != "shifted":
            return instances
        moved = instances.point_yx + np.array([0.0, 1.0])
        is_inside = np.floor(moved[:, 1] + 0.5) < instances.shape_yx[1]
        return select_instances(replace(instances, point_yx=moved), is_inside)
    if perturbation == "eroded":
        return erode_instances(instances)
    if perturbation == "dilated":
        return dilate_instances(instances)
    return shift_instances(instances) if perturbation == "shifted" else instances


@dataclass(frozen=True, slots=True, eq=False)
class Canvas:
    """A number line for runs on which rows do not touch, with an empty row above and below every instance.

    A pixel of instance i lies at ``(i (H + 2) + row + 1) (W + 3) + column + 1``.
    """

    shape_yx: tuple[int, int]

    @property
    def stride(self) -> int:
        return self.shape_yx[1] + 3  # a run that grew on both sides does not touch the next line

    def place(self, instances: Instances) -> tuple[Int64, Int64]:
        """Start and stop of all runs on the line, sorted."""
        row, column = np.divmod(instances.run_start, self.shape_yx[1])
        line = instances.run_instance.astype(np.int64) * (self.shape_yx[0] + 2) + row + 1
        start = np.sort(line * self.stride + column + 1)
        order = np.argsort(line * self.stride + column + 1, kind="stable")
        return start, start + (instances.run_stop - instances.run_start)[order]

    def read(self, instances: Instances, start: Int64, stop: Int64) -> Instances:
        """The instances with other runs, cut at the border of the image; those that are left without pixels leave."""
        height, width = self.shape_yx
        line = start // self.stride
        index, row = np.divmod(line, height + 2)
        first = np.maximum(start - line * self.stride - 1, 0)
        last = np.minimum(stop - line * self.stride - 1, width)
        kept = (row >= 1) & (row <= height) & (first < last)
        base = (row[kept] - 1) * width
        drawn = with_runs(instances, base + first[kept], base + last[kept], index[kept].astype(np.int32))
        return select_instances(drawn, np.bincount(drawn.run_instance, minlength=len(drawn)) > 0)


def dilate_instances(instances: Instances, px: int = 1) -> Instances:
    """Every nucleus with the pixels whose 4-neighbour belongs to it, ``px`` times; inside the image.

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


def erode_instances(instances: Instances, px: int = 1) -> Instances:
    """Every nucleus without the pixels that have a 4-neighbour outside it, ``px`` times; what vanishes is gone.

    What lies beyond the image border is outside.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> erode_instances(instances_from_labels(np.ones((3, 4), int))).areas_px().tolist()
    [2]
    """
    for _ in range(px):
        canvas = Canvas(instances.shape_yx)
        start, stop = canvas.place(instances)
        inner = stop - start > 2
        left = overlaps((start + 1)[inner], (stop - 1)[inner], start - canvas.stride, stop - canvas.stride)[2:]
        left = overlaps(*left, start + canvas.stride, stop + canvas.stride)[2:]
        instances = canvas.read(instances, *left)
    return instances


def shift_instances(instances: Instances, dy: int = 0, dx: int = 1) -> Instances:
    """Every nucleus ``dy`` rows down and ``dx`` columns to the right; what leaves the image is gone.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> shift_instances(instances_from_labels(np.array([[1, 1, 0]])), dx=2).run_start.tolist()
    [2]
    """
    height, width = instances.shape_yx
    row, column = np.divmod(instances.run_start, width)
    first = np.maximum(column + dx, 0)
    last = np.minimum(column + dx + instances.run_stop - instances.run_start, width)
    kept = (row + dy >= 0) & (row + dy < height) & (first < last)
    base = (row + dy)[kept] * width
    moved = with_runs(instances, base + first[kept], base + last[kept], instances.run_instance[kept])
    return select_instances(moved, np.bincount(moved.run_instance, minlength=len(moved)) > 0)
