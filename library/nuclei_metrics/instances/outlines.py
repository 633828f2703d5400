"""Outlines in memory to instances, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import scipy

from nuclei_metrics.instances.boundary import RunsByInstance, boundaries_of_runs, choose_runs, join_boundaries
from nuclei_metrics.instances.prepare import resolve_overlaps
from nuclei_metrics.instances.rasterise import rasterise_outlines
from nuclei_metrics.instances.runs import as_array, checked_class_ids
from nuclei_metrics.model.annotations import OriginRule, Outlines, OverlapRule, OverlapScope, VanishedRule, VerticesRule
from nuclei_metrics.model.arrays import Bool, Float64, Int32, Int64, distinct, expand, overlaps
from nuclei_metrics.model.instances import Boundaries, Contours, Instances

LARGEST_SIDE_PX = 10_000_000  # so that positions in images of all classes together are int64


def instances_from_outlines(
    outlines_xy_px: Sequence[npt.ArrayLike],
    class_ids: npt.ArrayLike,
    shape_yx: tuple[int, int],
    *,
    overlap: OverlapRule,
    overlap_scope: OverlapScope = "image",
    vertices: VerticesRule = "exact",
    origin: OriginRule = "pixel_centre",
    vanished: VanishedRule = "drop",
) -> Instances:
    """The instances of polygons, one ring each: exactly the pixels that ``skimage.draw.polygon`` sets.

    outlines_xy_px  rings of vertices (V, 2), or (V, 1, 2) as OpenCV gives them, column before row, px; not closed
    class_ids       class id of each outline (N,), 1…C
    shape_yx        height and width of the image, px
    overlap         which outline keeps a pixel that several cover; the other rules: see docs/challenge.md

    Raises ValueError for other shapes, other rules, and vertices that are not finite, and UnusableOutlines (a
    ValueError) for an outline that covers no pixel centre if ``vanished`` is "error", or that would take too long.

    >>> square = [(0, 0), (3, 0), (3, 3), (0, 3)]
    >>> moved = [(2, 2), (5, 2), (5, 5), (2, 5)]
    >>> instances = instances_from_outlines([square, moved], [1, 1], (6, 6), overlap="first")
    >>> instances.areas_px().tolist()
    [16, 12]
    """
    rules = {OverlapRule: overlap, OverlapScope: overlap_scope, VerticesRule: vertices, OriginRule: origin}
    for known, rule in {**rules, VanishedRule: vanished}.items():
        if rule not in get_args(known):
            raise ValueError(f"there is no rule {rule!r}; expected one of {', '.join(get_args(known))}")
    sides = as_array(shape_yx, "shape_yx")
    if sides.shape != (2,) or sides.dtype.kind not in "iu" or not 0 <= sides.min() <= sides.max() <= LARGEST_SIDE_PX:
        expected = f"height and width of the image, whole numbers of px up to {LARGEST_SIDE_PX:,}"
        raise ValueError(f"shape_yx is {shape_yx!r}; expected {expected}")
    if not isinstance(outlines_xy_px, Iterable):
        raise ValueError(f"outlines are {outlines_xy_px!r}; expected a list with the vertices of each, (V, 2)")
    rings = [_checked_ring(ring, index) for index, ring in enumerate(outlines_xy_px)]
    sources: npt.NDArray[Any] = np.arange(1, len(rings) + 1)
    outlines = Outlines(
        points_xy=np.concatenate([*rings, np.empty((0, 2))]),
        ring_start=np.cumsum([0, *map(len, rings)], dtype=np.int64),
        ring_instance=np.arange(len(rings), dtype=np.int32),
        ring_is_hole=np.zeros(len(rings), np.bool_),
        class_id=checked_class_ids(class_ids, len(rings)),
        source_id=sources,
    )
    instances = rasterise_outlines(
        outlines, (int(sides[0]), int(sides[1])), vertices=vertices, origin=origin, vanished=vanished
    )
    return resolve_overlaps(instances, overlap, overlap_scope).instances


def _checked_ring(ring: npt.ArrayLike, index: int) -> Float64:
    """The vertices of an outline, px, float64 (V, 2), V may be 0. Raises ValueError for other shapes and numbers."""
    try:
        points = np.asarray(ring, np.float64)
    except (TypeError, ValueError) as error:
        kind = type(ring).__name__
        raise ValueError(
            f"outline {index} is of type {kind}; expected x and y of each vertex, (V, 2): {error}"
        ) from None
    are_pairs = points.shape[-1:] == (2,) and points.size == 2 * len(points)
    if points.size and not (are_pairs and np.isfinite(points).all()):
        raise ValueError(
            f"outline {index} has vertices of shape {points.shape}; expected finite x and y of each, (V, 2)"
        )
    return points.reshape(-1, 2)


# --- Contours from runs: pieces of known length at the corners of pixels, as Nikolov et al. define them. --------------


# Of the pixels upper left, upper right, lower left, lower right (8, 4, 2, 1): pieces along a side, and across a corner.
STRAIGHT = np.array([0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0])
DIAGONAL = np.array([0, 1, 1, 0, 1, 0, 2, 1, 1, 2, 0, 1, 0, 1, 1, 0])


def contours_of(by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]]) -> Contours:
    """The contour of each chosen instance: a piece at every corner of pixels with pixels in and out around it.

    Point (y, x) is the upper left corner of pixel (y, x). Two neighbours of the four pixels around it make a piece of
    length 1, one pixel or three make one of 1 / sqrt(2), two opposite ones two of these. The border of the image is
    outside. The points of an entry come row by row. Costs in proportion to the boundary pixels, and a search in the
    runs for each.

    >>> from nuclei_metrics.instances.boundary import runs_by_instance
    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> two = contours_of(runs_by_instance(instances_from_labels(np.array([[1, 1]]))), np.array([0]))
    >>> two.points.size.tolist(), two.straight.sum().tolist(), two.diagonal.sum().tolist()
    ([6], 2, 4)
    """
    height, width = by_instance.shape_yx
    runs = choose_runs(by_instance, chosen)
    boundary = boundaries_of_runs(runs, border="closed")
    entry = np.repeat(np.arange(len(chosen)), boundary.size)
    y, x = boundary.points_yx[:, expand(boundary.first, boundary.first + boundary.size)].astype(np.int64)
    line = width + 2  # with a column on either side of the image, and a row above and below

    def key(entry: Int64, y: Int64, x: Int64) -> Int64:
        return (entry * (height + 2) + y) * line + x

    corners = distinct(np.concatenate([key(entry, y + down, x + right) for down in (0, 1) for right in (0, 1)]))
    row = runs.row.astype(np.int64) + 1
    start, stop = key(runs.entry, row, runs.begin + np.int64(1)), key(runs.entry, row, runs.end + np.int64(1))
    code = np.zeros(len(corners), np.int64)
    for value, step in ((8, 0), (4, 1), (2, line), (1, line + 1)):
        run = np.searchsorted(start, corners + step, side="right") - 1
        code += value * ((run >= 0) & (corners + step < stop[run]))
    mixed = (code > 0) & (code < 15)
    corners, code = corners[mixed], code[mixed]
    entry, rest = np.divmod(corners, (height + 2) * line)
    size = np.bincount(entry, minlength=len(chosen))
    points = Boundaries(np.stack(np.divmod(rest, line)).astype(np.int32), np.cumsum(size) - size, size)
    return Contours(points, STRAIGHT[code], DIAGONAL[code])


def join_contours(parts: Sequence[Contours]) -> Contours:
    """The contours of several images, one after the other."""
    return Contours(
        join_boundaries([part.points for part in parts]),
        np.concatenate([part.straight for part in parts]),
        np.concatenate([part.diagonal for part in parts]),
    )


# --- Instances to outlines: the border of the pixels of each instance as polygons, for all instances at once. ---------


def trace_outlines(instances: Instances) -> Outlines:
    """The outlines of instances, on pixel corners: the pixel in row 0, column 0 is the square from (0, 0) to (1, 1).

    The area of an outline is exactly the number of its pixels, and ``rasterise_outlines`` with vertices ``exact`` and
    origin ``pixel_corner`` gives the same pixels. Vertices are the corners only; none lies on a straight border.

    Pixels hang together by their sides (4 neighbours). An instance has an outer ring for each part that does, followed
    by its holes; a hole is a patch of missing pixels that hang together by their sides, too. So rings touch at corners
    at the most, never themselves, and all polygons are valid. Outer rings begin at their uppermost left corner and go
    to the right, holes the other way round (with y upwards, outer rings are counterclockwise, as GeoJSON wants them).
    An instance without pixels, such as a point, has no ring.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> outlines = trace_outlines(instances_from_labels(np.array([[0, 5, 5], [0, 5, 0]])))
    >>> outlines.points_xy.tolist()
    [[1.0, 0.0], [3.0, 0.0], [3.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0]]
    """
    runs = _CornerRuns.of_instances(instances)
    corners = _Corners.of_runs(runs)
    following = _split_at_touching_corners(corners, corners.following())
    rings = _Rings.of_corners(corners, following, runs)
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
class _CornerRuns:
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
    def of_instances(cls, instances: Instances) -> _CornerRuns:
        height, width = instances.shape_yx
        line = width + 1
        span = line * (height + 2)
        order = np.argsort(instances.run_instance, kind="stable")
        instance = instances.run_instance[order]
        first = instances.run_start[order]
        start = instance.astype(np.int64) * span + first + first // max(width, 1)
        return cls(start, start + (instances.run_stop[order] - first), instance, line, span)

    def parts(self) -> Int64:
        """The number of the part that each run belongs to; pixels of a part are connected by their sides."""
        above, below, _, _ = overlaps(self.start + self.line, self.stop + self.line, self.start, self.stop)
        nodes = len(self.start)
        edges = scipy.sparse.coo_array((np.ones(len(above), np.bool_), (above, below)), shape=(nodes, nodes))
        return np.asarray(scipy.sparse.csgraph.connected_components(edges, directed=False)[1], np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Corners:
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
    def of_runs(cls, runs: _CornerRuns) -> _Corners:
        positions, owners, kinds = [], [], []
        for is_left, ends in ((False, runs.stop), (True, runs.start)):
            upper, lower = ends, ends + runs.line
            for is_upper, here, there in ((True, upper, lower), (False, lower, upper)):
                alone = np.flatnonzero(~_is_among(here, there))
                positions.append(here[alone])
                owners.append(alone)
                kinds.append(np.full(len(alone), 2 * is_left + is_upper, np.int8))
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


def _is_among(values: Int64, others: Int64) -> Bool:
    """Return which values are among the others; both ascending, without repeats."""
    index = np.searchsorted(others, values)
    return np.asarray(np.append(others, -1)[index] == values)


def _split_at_touching_corners(corners: _Corners, following: Int64) -> Int64:
    """Split rings that touch themselves at a corner: each becomes several rings that touch each other there.

    So a gap that a part closes with a corner becomes a hole, and holes that meet at a corner are two. As a part hangs
    together, what lies between two such corners of a ring never crosses what lies between two others.
    """
    first = np.flatnonzero((corners.x[1:] == corners.x[:-1]) & (corners.y[1:] == corners.y[:-1]))
    if len(first) == 0:
        return following
    ring = _ring_numbers(following)
    first = first[ring[first] == ring[first + 1]]
    following = following.copy()
    following[first], following[first + 1] = following[first + 1], following[first]
    return following


def _ring_numbers(following: Int64) -> Int64:
    """The number of the ring of each corner, in the order of their first corners, int64 (V,)."""
    count = len(following)
    edges = scipy.sparse.coo_array((np.ones(count, np.bool_), (np.arange(count), following)), shape=(count, count))
    ring = scipy.sparse.csgraph.connected_components(edges, directed=False)[1]
    _, first, ring = np.unique(ring, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[ring]


@dataclass(frozen=True, slots=True, eq=False)
class _Rings:
    """Rings in their order: ring k has the corners ``corner[start[k] : start[k + 1]]``."""

    corner: Int64
    start: Int64
    instance: Int32
    is_hole: Bool

    @classmethod
    def of_corners(cls, corners: _Corners, following: Int64, runs: _CornerRuns) -> _Rings:
        ring = _ring_numbers(following)
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
        corner[begin[ring] + _steps_from(first[ring], following, int(size.max(initial=1)))] = np.arange(len(ring))
        return cls(corner, start, corners.instance[first[order]], is_hole[order])


def _steps_from(first: Int64, following: Int64, longest: int) -> Int64:
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
