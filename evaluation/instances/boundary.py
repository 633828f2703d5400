"""Boundary pixels from runs: neither a picture nor a loop over instances."""

from __future__ import annotations

from collections.abc import Sequence
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
    """The runs of one image; those of instance i are ``bound[i]`` to ``bound[i + 1]``, row by row.

    row, begin, end  int32 (R,): the run covers the columns ``begin`` to ``end - 1`` of its row
    bound            int64 (N + 1,)
    """

    shape_yx: tuple[int, int]
    row: Int32
    begin: Int32
    end: Int32
    bound: Int64


def runs_by_instance(instances: Instances) -> RunsByInstance:
    """Sort the runs by instance."""
    height, width = instances.shape_yx
    size = height * width + 1
    counts = np.bincount(instances.run_instance, minlength=len(instances))
    stop = instances.run_instance.astype(np.int64)
    stop *= size
    start = instances.run_start + stop
    stop += instances.run_stop
    start.sort()
    stop.sort()
    start -= np.repeat(np.arange(len(instances)) * size, counts)
    stop -= np.repeat(np.arange(len(instances)) * size, counts)
    row = start // max(width, 1)
    start -= row * width
    stop -= row * width
    return RunsByInstance(
        instances.shape_yx,
        row.astype(np.int32),
        start.astype(np.int32),
        stop.astype(np.int32),
        np.concatenate([[0], np.cumsum(counts)]),
    )


def boundaries_of(
    by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]], *, border: BorderRule
) -> Boundaries:
    """``instance_boundaries`` of runs that are sorted by instance already."""
    runs = choose_runs(by_instance, chosen)
    crowded = has_crowded_rows(runs, len(chosen))
    found = [
        find(select_runs(runs, kind), border)
        for kind, find in ((~crowded, boundary_of_lonely), (crowded, boundary_of_any))
        if kind.any()
    ]
    boundaries = points_of_pieces(found, len(chosen))
    if border == "open" and not boundaries.size.all():
        return add_image_border(boundaries, by_instance, chosen)
    return boundaries


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRuns:
    """Runs of the chosen instances: entry (place among the chosen), row, begin and end of each; all (R,), sorted."""

    shape_yx: tuple[int, int]
    entry: Int64
    row: Int32
    begin: Int32
    end: Int32

    def line(self) -> Int64:
        """Rows of all entries on one line, two empty ones between entries, so that neighbours there are neighbours."""
        return self.entry * (self.shape_yx[0] + 2) + self.row

    def inner(self, border: BorderRule) -> tuple[Int32, Int32]:
        """The runs without their ends, which have a neighbour outside; under ``open`` not those at the image border."""
        begin, end = self.begin + np.int32(1), self.end - np.int32(1)
        if border == "open":
            begin -= self.begin == 0
            end += self.end == self.shape_yx[1]
        return begin, end


def choose_runs(by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]]) -> ChosenRuns:
    first, last = by_instance.bound[chosen], by_instance.bound[chosen + 1]
    runs = expand(first, last)
    entry = np.repeat(np.arange(len(chosen)), last - first)
    return ChosenRuns(
        by_instance.shape_yx, entry, by_instance.row[runs], by_instance.begin[runs], by_instance.end[runs]
    )


def select_runs(runs: ChosenRuns, wanted: Bool) -> ChosenRuns:
    if wanted.all():
        return runs
    return ChosenRuns(runs.shape_yx, runs.entry[wanted], runs.row[wanted], runs.begin[wanted], runs.end[wanted])


def has_crowded_rows(runs: ChosenRuns, entries: int) -> Bool:
    """Which runs belong to an instance that has two runs in one row."""
    same = (runs.row[1:] == runs.row[:-1]) & (runs.entry[1:] == runs.entry[:-1])
    crowded = np.zeros(entries, np.bool_)
    crowded[runs.entry[1:][same]] = True
    return np.asarray(crowded[runs.entry])


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Stretches of boundary pixels, (S,) each, sorted by entry, row and begin; some may be empty."""

    entry: Int64
    row: Int32
    begin: Int32
    end: Int32


def boundary_of_lonely(runs: ChosenRuns, border: BorderRule) -> Pieces:
    """Boundary of instances with one run a row: elementwise, without any search.

    A pixel inside its run is interior if the run above and the run below cover it.
    """
    height = runs.shape_yx[0]
    begin, end = runs.inner(border)
    line = runs.line()
    follows = line[1:] - line[:-1] == 1  # run i + 1 lies right below run i
    for here, there, edge in ((np.s_[1:], np.s_[:-1], 0), (np.s_[:-1], np.s_[1:], height - 1)):
        bare = np.ones(len(begin), np.bool_)
        bare[here] = ~follows
        np.maximum(begin[here], runs.begin[there], out=begin[here], where=follows)
        np.minimum(end[here], runs.end[there], out=end[here], where=follows)
        if border == "open":
            bare &= runs.row != edge
        end[bare] = runs.begin[bare]
    none = begin >= end
    begin[none] = end[none] = runs.begin[none]
    return Pieces(
        np.repeat(runs.entry, 2),
        np.repeat(runs.row, 2),
        np.stack([runs.begin, end], axis=1).reshape(-1),
        np.stack([begin, runs.end], axis=1).reshape(-1),
    )


def boundary_of_any(runs: ChosenRuns, border: BorderRule) -> Pieces:
    """Boundary of any instances, by intersecting each with itself moved up and down by a row.

    All entries lie on one number line, rows one after the other (``line``).
    """
    height, width = runs.shape_yx
    base = runs.line() * width
    start, stop = base + runs.begin, base + runs.end
    above, below = (start + width, stop + width), (start - width, stop - width)
    if border == "open":
        above, below = (
            with_edge(above, start, stop, runs.row == 0),
            with_edge(below, start, stop, runs.row == height - 1),
        )
    begin, end = runs.inner(border)
    kept = begin < end
    inner = overlaps((base + begin)[kept], (base + end)[kept], *above)[2:]
    inner_start, inner_stop = overlaps(*inner, *below)[2:]
    # Instance minus interior: its starts and the interior's stops alternate with its stops and the interior's starts.
    start = np.sort(np.concatenate([start, inner_stop]))
    stop = np.sort(np.concatenate([stop, inner_start]))
    some = start < stop
    start, stop = start[some], stop[some]
    entry, row = np.divmod(start // width, height + 2)
    base = (start // width) * width
    return Pieces(entry, row.astype(np.int32), (start - base).astype(np.int32), (stop - base).astype(np.int32))


def with_edge(cover: tuple[Int64, Int64], start: Int64, stop: Int64, at_edge: Bool) -> tuple[Int64, Int64]:
    """Add the runs on an open edge of the image to the runs that lie beside them: beyond the edge is not outside."""
    if not at_edge.any():
        return cover
    return np.sort(np.concatenate([cover[0], start[at_edge]])), np.sort(np.concatenate([cover[1], stop[at_edge]]))


def points_of_pieces(found: list[Pieces], entries: int) -> Boundaries:
    """The pixels of the pieces as points; each entry is in one of the lists only."""
    first, size = np.zeros((2, entries), np.int64)
    points = [np.empty((2, 0), np.int32)]
    offset = 0
    for pieces in found:
        length = pieces.end - pieces.begin
        before = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
        bounds = before[np.searchsorted(pieces.entry, np.arange(entries + 1))]
        of_pieces = np.diff(bounds)
        first[of_pieces > 0] = bounds[:-1][of_pieces > 0] + offset
        size += of_pieces
        part = np.empty((2, before[-1]), np.int32)
        part[0] = np.repeat(pieces.row, length)
        part[1] = np.repeat(pieces.begin - before[:-1].astype(np.int32), length)
        part[1] += np.arange(before[-1], dtype=np.int32)
        points.append(part)
        offset += int(before[-1])
    return Boundaries(np.concatenate(points, axis=1) if len(points) > 2 else points[-1], first, size)


def join_boundaries(parts: Sequence[Boundaries]) -> Boundaries:
    """The boundaries of several images, one after the other."""
    offsets = np.cumsum([0, *(part.points_yx.shape[1] for part in parts)])
    return Boundaries(
        np.concatenate([part.points_yx for part in parts], axis=1),
        np.concatenate([part.first + offset for part, offset in zip(parts, offsets[:-1], strict=True)]),
        np.concatenate([part.size for part in parts]),
    )


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
