"""Boundary pixels from runs: neither a picture nor a loop over instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.intervals import expand, overlaps
from evaluation.model import Bool, BorderRule, Boundaries, Instances, Int32, Int64


def instance_boundaries(
    instances: Instances, chosen: npt.NDArray[np.integer[Any]], *, border: BorderRule
) -> Boundaries:
    """The boundary pixels of the chosen instances: their pixels with a 4-neighbour outside the instance.

    chosen  indices (K,) into the instances; entry k of the result belongs to ``chosen[k]``
    border  whether what lies beyond the image border counts as outside: ``closed`` if it does, ``open`` if not.
            Under ``open`` an instance that fills the image has no boundary; it then gets all its pixels on the
            border of the image, so that a distance stays defined.

    The points of an instance come row by row. Cost: proportional to the runs of the chosen instances, after
    ``runs_by_instance``, which costs a sort of all runs; call that once to ask for many parts of the same instances.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> square = instances_from_labels(np.ones((3, 4), int))
    >>> instance_boundaries(square, np.array([0]), border="closed").size.tolist()
    [10]
    """
    return boundaries_of(runs_by_instance(instances), chosen, border=border)


@dataclass(frozen=True, slots=True, eq=False)
class RunsByInstance:
    """The runs of one image, those of instance i at ``bound[i]`` to ``bound[i + 1]``, in order; int64."""

    shape_yx: tuple[int, int]
    start: Int64
    stop: Int64
    bound: Int64


def runs_by_instance(instances: Instances) -> RunsByInstance:
    """Sort the runs by instance."""
    size = instances.shape_yx[0] * instances.shape_yx[1] + 1
    counts = np.bincount(instances.run_instance, minlength=len(instances))
    stop = instances.run_instance.astype(np.int64)
    stop *= size
    start = instances.run_start + stop
    stop += instances.run_stop
    start.sort()
    stop.sort()
    stretch = np.repeat(np.arange(len(instances)) * size, counts)
    start -= stretch
    stop -= stretch
    return RunsByInstance(instances.shape_yx, start, stop, np.concatenate([[0], np.cumsum(counts)]))


def boundaries_of(
    by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]], *, border: BorderRule
) -> Boundaries:
    """``instance_boundaries`` of runs that are sorted by instance already."""
    runs = ChosenRuns(by_instance, chosen)
    lonely = runs.without_company()
    kinds = ((lonely, lonely_pieces), (~lonely, pieces))
    boundaries = as_boundaries([find(runs.select(kind), border) for kind, find in kinds if kind.any()], runs)
    if border == "open" and not boundaries.size.all():
        return add_image_border(boundaries, by_instance, chosen)
    return boundaries


class ChosenRuns:
    """The runs of the chosen instances on one number line, sorted.

    Entry k has the stretch ``[k * span, (k + 1) * span)``, its image in the middle of it with an empty row on either
    side, so that a shift by a row stays inside the stretch. ``row`` and ``column`` are on that line, too.
    """

    def __init__(self, by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]]) -> None:
        height, width = by_instance.shape_yx
        self.height, self.width, self.span, self.count = height, width, (height + 2) * width, len(chosen)
        first, last = by_instance.bound[chosen], by_instance.bound[chosen + 1]
        runs = expand(first, last)
        base = np.repeat(np.arange(len(chosen)) * self.span + width, last - first)
        self.start = by_instance.start[runs] + base
        self.stop = by_instance.stop[runs] + base
        self.row = self.start // max(width, 1)

    def select(self, wanted: Bool) -> ChosenRuns:
        part = object.__new__(ChosenRuns)
        part.height, part.width, part.span, part.count = self.height, self.width, self.span, self.count
        part.start, part.stop, part.row = (
            (self.start, self.stop, self.row)
            if wanted.all()
            else (self.start[wanted], self.stop[wanted], self.row[wanted])
        )
        return part

    def without_company(self) -> Bool:
        """Which runs belong to an instance that has no row with two runs."""
        shared = np.flatnonzero(self.row[1:] == self.row[:-1])
        crowded = np.zeros(self.count, np.bool_)
        crowded[self.start[shared] // self.span] = True
        if not len(shared):
            return np.ones(len(self.start), np.bool_)
        return np.asarray(~crowded[self.start // self.span])

    def first_row(self) -> Bool:
        """Which runs lie in the first row of the image."""
        return np.asarray(self.row % (self.height + 2) == 1)

    def last_row(self) -> Bool:
        return np.asarray(self.row % (self.height + 2) == self.height)

    def inner(self, border: BorderRule) -> tuple[Int64, Int64]:
        """The runs without their ends, which have a neighbour outside; under ``open`` not those at the image border."""
        start, stop = self.start + 1, self.stop - 1
        if border == "open":
            column = self.start - self.row * self.width
            start -= column == 0
            stop += column + (self.stop - self.start) == self.width
        return start, stop


Pieces = tuple[Int64, Int64]


def lonely_pieces(runs: ChosenRuns, border: BorderRule) -> Pieces:
    """Boundary of instances with one run a row, as sorted intervals, some of them empty: elementwise, no search.

    A pixel inside its run is interior if the run above and the run below cover it.
    """
    start, stop = runs.inner(border)
    follows = runs.row[1:] - runs.row[:-1] == 1  # run i + 1 lies right below run i
    for here, there, shift in ((np.s_[1:], np.s_[:-1], runs.width), (np.s_[:-1], np.s_[1:], -runs.width)):
        bare = np.ones(len(start), np.bool_)
        bare[here] = ~follows
        np.maximum(start[here], runs.start[there] + shift, out=start[here], where=follows)
        np.minimum(stop[here], runs.stop[there] + shift, out=stop[here], where=follows)
        if border == "open":
            bare &= ~(runs.first_row() if shift > 0 else runs.last_row())
        stop[bare] = runs.start[bare]
    none = start >= stop
    start[none] = stop[none] = runs.start[none]
    return np.stack([runs.start, stop], axis=1).reshape(-1), np.stack([start, runs.stop], axis=1).reshape(-1)


def pieces(runs: ChosenRuns, border: BorderRule) -> Pieces:
    """Boundary of any instances, as sorted intervals, some of them empty."""
    start, stop, width = runs.start, runs.stop, runs.width
    above, below = (start + width, stop + width), (start - width, stop - width)
    if border == "open":
        above, below = with_edge(above, runs.first_row(), runs), with_edge(below, runs.last_row(), runs)
    inner_start, inner_stop = runs.inner(border)
    kept = inner_start < inner_stop
    inner_start, inner_stop = overlaps(inner_start[kept], inner_stop[kept], *above)[2:]
    inner_start, inner_stop = overlaps(inner_start, inner_stop, *below)[2:]
    # Instance minus interior: its starts and the interior's stops alternate with its stops and the interior's starts.
    return np.sort(np.concatenate([start, inner_stop])), np.sort(np.concatenate([stop, inner_start]))


def with_edge(cover: Pieces, at_edge: Bool, runs: ChosenRuns) -> Pieces:
    """Add the runs on an open edge of the image to the runs that lie beside them: beyond the edge is not outside."""
    if not at_edge.any():
        return cover
    return (
        np.sort(np.concatenate([cover[0], runs.start[at_edge]])),
        np.sort(np.concatenate([cover[1], runs.stop[at_edge]])),
    )


def as_boundaries(parts: list[Pieces], runs: ChosenRuns) -> Boundaries:
    """The pixels of the intervals, as points."""
    first, size = np.zeros((2, runs.count), np.int64)
    points: list[Int32] = []
    offset = 0
    for start, stop in parts:
        length = stop - start
        before = np.concatenate([[0], np.cumsum(length)])
        bounds = before[np.searchsorted(start, np.arange(runs.count + 1) * runs.span)]
        of_part = np.diff(bounds)
        first[of_part > 0] = bounds[:-1][of_part > 0] + offset
        size += of_part
        row = start // runs.width
        part = np.empty((2, before[-1]), np.int32)
        part[0] = np.repeat((row % (runs.height + 2) - 1).astype(np.int32), length)
        part[1] = np.repeat((start - row * runs.width - before[:-1]).astype(np.int32), length)
        part[1] += np.arange(before[-1], dtype=np.int32)
        points.append(part)
        offset += int(before[-1])
    return Boundaries(np.concatenate([np.empty((2, 0), np.int32), *points], axis=1), first, size)


def add_image_border(
    boundaries: Boundaries, by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]]
) -> Boundaries:
    """Give the instances that fill the image the border of the image as their boundary."""
    height, width = by_instance.shape_yx
    image = np.zeros((height, width), np.bool_)
    image[[0, -1]] = True
    image[:, [0, -1]] = True
    border = np.array(np.nonzero(image), np.int32)
    fills = (boundaries.size == 0) & (np.diff(by_instance.bound)[chosen] > 0)
    return Boundaries(
        np.concatenate([boundaries.points_yx, border], axis=1),
        np.where(fills, boundaries.points_yx.shape[1], boundaries.first),
        np.where(fills, border.shape[1], boundaries.size),
    )
