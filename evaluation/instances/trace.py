"""Instances to outlines: the border of the pixels of each instance as polygons, for all instances at once.

The corners of such polygons are found from the ends of runs. In the grid line between two rows, an end of a run above
and an end of the same kind below cancel out (the border goes straight on there); all other ends are corners. Every
corner has one horizontal and one vertical edge. Those of a grid line join its corners in pairs, from left to right, or
from top to bottom; so two sorts give the next corner of each. Where two pixels touch at a corner only, that corner is
there twice, once for either pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from evaluation.model import Bool, Instances, Int32, Int64, Outlines
from evaluation.model.intervals import overlaps


def trace_outlines(instances: Instances) -> Outlines:
    """The outlines of instances, on pixel corners: the pixel in row 0, column 0 is the square from (0, 0) to (1, 1).

    The area of an outline is exactly the number of its pixels, and ``rasterise_outlines`` with vertices ``exact`` and
    origin ``pixel_corner`` gives the same pixels. Vertices are the corners only; none lies on a straight border.

    Pixels hang together by their sides (4 neighbours). An instance has an outer ring for each part that does, followed
    by its holes; a hole is a patch of missing pixels that hang together by their sides, too. So rings touch at corners
    at the most, never themselves, and all polygons are valid. Outer rings begin at their uppermost left corner and go
    to the right, holes the other way round (with y upwards, outer rings are counterclockwise, as GeoJSON wants them).
    An instance without pixels, such as a point, has no ring.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> outlines = trace_outlines(instances_from_labels(np.array([[0, 5, 5], [0, 5, 0]])))
    >>> outlines.points_xy.tolist()
    [[1.0, 0.0], [3.0, 0.0], [3.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0]]
    """
    runs = SortedRuns.of_instances(instances)
    corners = Corners.of_runs(runs)
    following = split_at_touching_corners(corners, corners.following())
    rings = Rings.of_corners(corners, following, runs)
    return Outlines(
        points_xy=np.stack([corners.x, corners.y], axis=1)[rings.corner].astype(np.float64),
        ring_start=rings.start,
        ring_instance=rings.instance,
        ring_is_hole=rings.is_hole,
        class_id=instances.class_id,
        source_id=instances.source_id,
        probability=instances.probability,
        class_probability=instances.class_probability,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SortedRuns:
    """Runs sorted by instance, then position, on a number line of corners: ``instance * span + y * line + x``.

    start, stop  int64 (R,), upper left and upper right corner of each run; ``line`` more is the lower one
    instance     int32 (R,)
    """

    start: Int64
    stop: Int64
    instance: Int32
    line: int
    span: int

    @classmethod
    def of_instances(cls, instances: Instances) -> SortedRuns:
        height, width = instances.shape_yx
        line = width + 1
        span = line * (height + 2)
        order = np.argsort(instances.run_instance, kind="stable")
        instance = instances.run_instance[order]
        first = instances.run_start[order]
        start = instance.astype(np.int64) * span + first + first // max(width, 1)
        return cls(start, start + (instances.run_stop[order] - first), instance, line, span)

    def parts(self) -> Int64:
        """For each run, the number of its part: what hangs together by the sides of pixels."""
        above, below, _, _ = overlaps(self.start + self.line, self.stop + self.line, self.start, self.stop)
        nodes = len(self.start)
        edges = scipy.sparse.coo_array((np.ones(len(above), np.bool_), (above, below)), shape=(nodes, nodes))
        return np.asarray(scipy.sparse.csgraph.connected_components(edges, directed=False)[1], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Corners:
    """The corners of all borders, (V,), sorted by instance, y, x; where one is there twice, the end of a run first.

    is_upper  it is an upper corner of its run, so its vertical edge lies below it, else above
    is_left   it is a left corner of its run, so its horizontal edge lies to the right of it, else to the left
    run       number of its run
    """

    instance: Int32
    y: Int64
    x: Int64
    is_upper: Bool
    is_left: Bool
    run: Int64

    @classmethod
    def of_runs(cls, runs: SortedRuns) -> Corners:
        positions, owners, kinds = [], [], []
        for is_left, ends in ((False, runs.stop), (True, runs.start)):
            upper, lower = ends, ends + runs.line
            for is_upper, here, there in ((True, upper, lower), (False, lower, upper)):
                kept = np.flatnonzero(~is_among(here, there))
                positions.append(here[kept])
                owners.append(kept)
                kinds.append(np.full(len(kept), 2 * is_left + is_upper, np.int8))
        position, run, kind = np.concatenate(positions), np.concatenate(owners), np.concatenate(kinds)
        order = np.argsort(position, kind="stable")
        position, run, kind = position[order], run[order], kind[order]
        instance = runs.instance[run]
        y, x = np.divmod(position - instance.astype(np.int64) * runs.span, runs.line)
        return cls(instance, y, x, (kind & 1).astype(np.bool_), kind >= 2, run)

    def following(self) -> Int64:
        """The next corner of each along its ring, with the pixels of the instance on the right hand, int64 (V,)."""
        following = np.empty(len(self.x), np.int64)
        left, right = np.arange(0, len(self.x), 2), np.arange(1, len(self.x), 2)
        # The pixel below an edge belongs to the instance if its left end is an upper left or a lower right corner.
        below = self.is_upper[left] == self.is_left[left]
        following[np.where(below, left, right)] = np.where(below, right, left)

        order = np.lexsort((self.is_upper, self.y, self.x, self.instance))
        top, bottom = order[::2], order[1::2]
        # Upper left corners are tops of edges with the pixel on their right, upper right ones with it on their left.
        rightwards = self.is_left[top]
        following[np.where(rightwards, bottom, top)] = np.where(rightwards, top, bottom)
        return following


def is_among(values: Int64, others: Int64) -> Bool:
    """Which values are among the others; both ascending, without repeats."""
    index = np.searchsorted(others, values)
    return np.asarray(np.append(others, -1)[index] == values)


def split_at_touching_corners(corners: Corners, following: Int64) -> Int64:
    """Rings that touch themselves at a corner are taken apart there: each becomes several rings that touch each other.

    So a gap that a part closes with a corner becomes a hole, and holes that meet at a corner are two. As a part hangs
    together, what lies between two such corners of a ring never crosses what lies between two others.
    """
    first = np.flatnonzero((corners.x[1:] == corners.x[:-1]) & (corners.y[1:] == corners.y[:-1]))
    if len(first) == 0:
        return following
    ring = ring_numbers(following)
    first = first[ring[first] == ring[first + 1]]
    following = following.copy()
    following[first], following[first + 1] = following[first + 1], following[first]
    return following


def ring_numbers(following: Int64) -> Int64:
    """The number of the ring of each corner, in the order of their first corners, int64 (V,)."""
    count = len(following)
    edges = scipy.sparse.coo_array((np.ones(count, np.bool_), (np.arange(count), following)), shape=(count, count))
    ring = scipy.sparse.csgraph.connected_components(edges, directed=False)[1]
    _, first, ring = np.unique(ring, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[ring]


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """Rings in their order: ring k has the corners ``corner[start[k] : start[k + 1]]``."""

    corner: Int64
    start: Int64
    instance: Int32
    is_hole: Bool

    @classmethod
    def of_corners(cls, corners: Corners, following: Int64, runs: SortedRuns) -> Rings:
        ring = ring_numbers(following)
        size = np.bincount(ring)
        first = np.empty(len(size), np.int64)
        first[ring[::-1]] = np.arange(len(ring))[::-1]
        # The uppermost left corner of an outer ring is that of a pixel.
        is_hole = ~(corners.is_upper[first] & corners.is_left[first])
        order = np.arange(len(size))
        if is_hole.any():
            part = runs.parts()[corners.run[first]]
            outer = np.empty(len(runs.start), np.int64)
            outer[part[~is_hole]] = order[~is_hole]
            order = np.lexsort((order, is_hole, outer[part]))
        start = np.concatenate([[0], np.cumsum(size[order])])
        begin = np.empty(len(size), np.int64)
        begin[order] = start[:-1]
        corner = np.empty(len(ring), np.int64)
        corner[begin[ring] + steps_from(first[ring], following, int(size.max(initial=1)))] = np.arange(len(ring))
        return cls(corner, start, corners.instance[first[order]], is_hole[order])


def steps_from(first: Int64, following: Int64, longest: int) -> Int64:
    """How many steps along its ring each corner is behind the first one of the ring, int64 (V,), by doubling steps."""
    step = np.empty(len(following), np.int64)
    step[following] = np.arange(len(following))  # backwards
    at_first = first == np.arange(len(first))
    step[at_first] = np.flatnonzero(at_first)
    steps = (~at_first).astype(np.int64)
    for _ in range(longest.bit_length()):
        steps += steps[step]
        step = step[step]
    return np.asarray(steps)
