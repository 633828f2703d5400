"""Outlines to runs: exactly the pixels of ``skimage.draw.polygon``, for all outlines of a file at once.

A pixel belongs to a ring if the ray from its centre to the right crosses an odd number of edges, or the ray to the left
does, or a vertex lies on the centre (within 1e-12). Both rays are counted, because they differ for centres that lie on
an edge (J. O'Rourke, Computational Geometry in C, 1998, chapter 7). An edge crosses the right ray of the pixels left of
a column A of a row, and the left ray of those from a column B on; so sorting all A and all B of a row gives its runs.
A and B are found with the very expression that scikit-image evaluates pixel by pixel, so rounding is the same too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.errors import UnusableOutlines
from nuclei_metrics.instances.runs import (
    flat_indices,
    give_memory_back,
    order_of_runs,
    positions,
    select_instances,
    subtract_runs,
    with_runs,
)
from nuclei_metrics.model import (
    Bool,
    Float64,
    Instances,
    Int32,
    Int64,
    OriginRule,
    Outlines,
    VanishedRule,
    VerticesRule,
)
from nuclei_metrics.model.arrays import concatenated, distinct, merge_runs

NEAR_CENTRE = 1e-4  # px, many times what rounding can move a crossing point
VERTEX_TOLERANCE = 1e-12
CHUNK_VERTICES = 1 << 15  # what a chunk of rings touches stays in the cache
CHUNK_CROSSINGS = 1 << 20  # of edges with rows, at once; bounds the memory for outlines that are large
CROSSINGS_LIMIT = 1 << 27  # in one file: two million nuclei, or half a minute and 5 GB
CROSSINGS_FREELY = 1 << 23  # and in a file of few vertices, with so many more for each of them; nuclei have one or two
CROSSINGS_PER_VERTEX = 64


def rasterise_outlines(
    outlines: Outlines,
    shape_yx: tuple[int, int],
    *,
    vertices: VerticesRule,
    origin: OriginRule,
    vanished: VanishedRule,
    where: str = "outlines",
) -> Instances:
    """The pixels of outlines, as instances of an image of ``shape_yx`` pixels.

    vertices  ``exact`` takes fractions as they are, ``truncate`` cuts them off towards zero, ``nearest`` rounds to the
              nearest whole number (halves up); applied after the origin
    origin    whole coordinates lie on a ``pixel_centre``, or on a ``pixel_corner``: then 1/2 is subtracted first
    vanished  what becomes of outlines that cover no pixel of the image: ``drop`` leaves them out, ``pixel`` gives them
              the pixel nearest to the mean of their vertices if that is in the image, ``error`` refuses the file
    where     the file, for messages

    An instance has the pixels of its outer rings, each minus those of the holes that come between it and the next one
    (which are pixels of a ring, too: of two outlines that share an edge both have the pixel centres on it). Rings with
    fewer than three vertices have at most the pixels on whose centres a vertex lies. Cost: vertices, and rows that
    edges cross inside the image. Raises UnusableOutlines for ``error``, and for edges that cross more than 2^27
    rows, or more than 2^23 and 64 for each vertex.

    >>> triangle = Outlines(np.array([[0.0, 0], [3, 0], [0, 3]]), np.array([0, 3]), np.zeros(1, np.int32),
    ...                     np.zeros(1, np.bool_), np.ones(1, np.int16), np.array(["1/1"], object))
    >>> rules = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}
    >>> rasterise_outlines(triangle, (5, 5), **rules).areas_px().tolist()
    [10]
    """
    points = placed_vertices(outlines.points_xy, vertices=vertices, origin=origin)
    instances = cover_outlines(outlines, points, shape_yx, where=where)
    return settle_vanished(instances, outlines, points, vanished, where=where)


def placed_vertices(points_xy: Float64, *, vertices: VerticesRule, origin: OriginRule) -> Float64:
    """Vertices on the grid whose whole coordinates are pixel centres, under the rules of the challenge.

    Coordinates are rounded in the grid of the file, which the origin then moves.
    """
    if vertices == "truncate":
        points_xy = np.trunc(points_xy)
    return points_xy - 0.5 if origin == "pixel_corner" else points_xy


def settle_vanished(
    instances: Instances, outlines: Outlines, points_xy: Float64, rule: VanishedRule, *, where: str
) -> Instances:
    """Apply the rule for outlines without pixels; afterwards every instance has one."""
    vanished = instances.areas_px() == 0
    if not vanished.any():
        return instances
    if rule == "error":
        first = outlines.source_id[vanished][0]
        raise UnusableOutlines("vanished-outline", where, outline=first, total=int(vanished.sum()))
    if rule == "pixel":
        instances = _with_nearest_pixels(instances, outlines, points_xy, vanished)
        vanished = instances.areas_px() == 0
    return select_instances(instances, ~vanished)


def _with_nearest_pixels(instances: Instances, outlines: Outlines, points_xy: Float64, chosen: Bool) -> Instances:
    """Give the chosen outlines the pixel nearest to the mean of their vertices (of outer rings), if it is in the image.

    Halves go to the later pixel.
    """
    height, width = instances.shape_yx
    per_ring = np.where(outlines.ring_is_hole, 0, np.diff(outlines.ring_start))
    outer = np.repeat(~outlines.ring_is_hole, np.diff(outlines.ring_start))
    owner = np.repeat(outlines.ring_instance, per_ring)
    count = np.bincount(owner, minlength=len(outlines))
    sums = [np.bincount(owner, points_xy[outer, axis], minlength=len(outlines)) for axis in (0, 1)]
    column, row = (np.floor(total / np.maximum(count, 1) + 0.5) for total in sums)
    inside = chosen & (count > 0) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
    index = np.flatnonzero(inside)
    flat = row[index].astype(np.int64) * width + column[index].astype(np.int64)
    return with_runs(
        instances,
        np.concatenate([instances.run_start, flat]),
        np.concatenate([instances.run_stop, flat + 1]),
        np.concatenate([instances.run_instance, index.astype(np.int32)]),
    )


def cover_outlines(
    outlines: Outlines, points_xy: Float64, shape_yx: tuple[int, int], *, where: str = "outlines"
) -> Instances:
    """One instance for each outline, also for those without a pixel; ``points_xy`` are its placed vertices."""
    _refuse_endless_work(points_xy[:, 1], outlines.ring_start, shape_yx[0], where)
    starts, lengths, owners = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for rings in _chunks_of_rings(outlines):
        runs = _cover_rings(points_xy, outlines.ring_start[rings.start : rings.stop + 1], shape_yx)
        instance, is_hole = outlines.ring_instance[rings], outlines.ring_is_hole[rings]
        if np.all(np.diff(instance) > 0) and not is_hole.any():
            owners.append(instance[runs.ring])
        else:
            runs = _combine_rings(runs, instance, is_hole, shape_yx)
            owners.append(runs.ring.astype(np.int32))
        starts.append(runs.start)
        lengths.append((runs.stop - runs.start).astype(np.int32))
    # With a million nuclei each of these is as large as the runs of the image; none stays longer than it is needed.
    start, length, owner = (_emptied(parts) for parts in (starts, lengths, owners))
    give_memory_back(len(start))
    order, run_start = order_of_runs(start, owner)
    del start
    return Instances(
        shape_yx=shape_yx,
        class_id=outlines.class_id,
        source_id=outlines.source_id,
        run_start=run_start,
        run_stop=run_start + length[order],
        run_instance=owner[order],
        probability=outlines.probability,
        class_probability=outlines.class_probability,
    )


def _emptied(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate the parts and empty the list, so that memory is not taken twice."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _chunks_of_rings(outlines: Outlines) -> Iterator[slice]:
    """The rings, some at a time, with about ``CHUNK_VERTICES`` vertices; those of an outline stay together."""
    if len(outlines.ring_instance) == 0:
        return
    is_first = np.diff(outlines.ring_instance, prepend=-1) > 0
    first_vertex = np.maximum.accumulate(np.where(is_first, outlines.ring_start[:-1], 0))
    cuts = np.flatnonzero(np.diff(first_vertex // CHUNK_VERTICES)) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(is_first)]):
        yield slice(first, last)


@dataclass(frozen=True, slots=True, eq=False)
class _RingRuns:
    """Runs of rings: ring int64, start and stop flat pixel indices int64, (R,) each; sorted by ring, then by start."""

    ring: Int64
    start: Int64
    stop: Int64


def _combine_rings(rings: _RingRuns, instance: Int32, is_hole: Bool, shape_yx: tuple[int, int]) -> _RingRuns:
    """Runs of instances (in the place of rings): the union of their parts, each an outer ring minus its own holes.

    instance, is_hole   of each ring, (K,)
    """
    height, width = shape_yx
    span = height * (width + 1)
    part_of_ring = np.cumsum(~is_hole | (np.diff(instance, prepend=-1) > 0)) - 1
    of_hole = is_hole[rings.ring]
    start = part_of_ring[rings.ring] * span + positions(rings.start, width)
    stop = start + (rings.stop - rings.start)
    holes = merge_runs(start[of_hole], stop[of_hole])
    _, start, stop = subtract_runs(*merge_runs(start[~of_hole], stop[~of_hole]), *holes)

    instance_of_part = np.zeros(len(part_of_ring), np.int64)
    instance_of_part[part_of_ring] = instance
    part = start // span
    shift = (instance_of_part[part] - part) * span
    start, stop = merge_runs(start + shift, stop + shift)
    owner = start // span
    first = flat_indices(start - owner * span, width)
    return _RingRuns(owner, first, first + (stop - start))


def _cover_rings(points_xy: Float64, ring_start: Int64, shape_yx: tuple[int, int]) -> _RingRuns:
    """The pixels of each ring inside the image."""
    filled = np.flatnonzero(np.diff(ring_start))
    if len(filled) == 0:
        return _RingRuns(*(np.empty(0, np.int64) for _ in range(3)))
    begin, end = ring_start[0], ring_start[-1]
    x, y = points_xy[begin:end].T.copy()
    runs = _cover_rows(_Edges.of_rings(x, y, ring_start[filled] - begin), shape_yx, 0, shape_yx[0])
    return _RingRuns(filled[runs.ring], runs.start, runs.stop)


def _refuse_endless_work(y: Float64, ring_start: Int64, height: int, where: str) -> None:
    """Raise UnusableOutlines if edges (those that close rings left aside) cross too many rows of the image."""
    crossings = 0.0
    for first in range(0, len(y), CHUNK_CROSSINGS):
        crossings += float(np.abs(np.diff(np.clip(y[first : first + CHUNK_CROSSINGS + 1], 0, height))).sum())
    between_rings = distinct(ring_start[1:-1])
    between_rings = between_rings[(between_rings > 0) & (between_rings < len(y))]
    ends = np.clip(y[between_rings], 0, height), np.clip(y[between_rings - 1], 0, height)
    crossings -= float(np.abs(ends[0] - ends[1]).sum())
    limit = min(CROSSINGS_LIMIT, CROSSINGS_FREELY + CROSSINGS_PER_VERTEX * len(y))
    if crossings > limit:
        raise UnusableOutlines("too-complex-outlines", where, crossings=crossings, limit=limit, vertices=len(y))


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Edges of rings without gaps between them; edge i goes from the vertex before vertex i to vertex i of its ring.

    x0, y0  float64 (E,)  vertex i                x1, y1  float64 (E,)  the vertex before it in the ring
    ring    int64 (E,)    0…K-1, ascending        first   int64 (K,)    first edge of each ring
    """

    x0: Float64
    y0: Float64
    x1: Float64
    y1: Float64
    ring: Int64
    first: Int64

    @classmethod
    def of_rings(cls, x: Float64, y: Float64, first: Int64) -> _Edges:
        last = np.concatenate([first[1:], [len(x)]]) - 1
        before = np.arange(-1, len(x) - 1)
        before[first] = last
        ring = np.repeat(np.arange(len(first)), last + 1 - first)
        return cls(x, y, x[before], y[before], ring, first)


def _cover_rows(edges: _Edges, shape_yx: tuple[int, int], row_begin: int, row_end: int) -> _RingRuns:
    """The pixels of rings in the rows ``row_begin`` to ``row_end``, in halves if edges cross too many of them."""
    low, high = np.minimum(edges.y0, edges.y1), np.maximum(edges.y0, edges.y1)
    inner_begin = np.clip(np.floor(low) + 1, row_begin, row_end).astype(np.int64)
    inner_end = np.clip(np.ceil(high), row_begin, row_end).astype(np.int64)
    inner_rows = np.maximum(inner_end - inner_begin, 0)
    if inner_rows.sum() > CHUNK_CROSSINGS and row_end - row_begin > 1:
        middle = (row_begin + row_end) // 2
        upper = _cover_rows(edges, shape_yx, row_begin, middle)
        lower = _cover_rows(edges, shape_yx, middle, row_end)
        runs = concatenated([upper, lower])
        order = np.argsort(runs.ring, kind="stable")
        return _RingRuns(runs.ring[order], runs.start[order], runs.stop[order])

    width = shape_yx[1]
    slots = _RowSlots.of_rings(edges, low, high, row_begin, row_end)
    keys = [
        *_end_toggles(edges, low, high, slots, width),
        *_inner_toggles(edges, inner_begin, inner_rows, slots, width),
    ]
    start, stop = _runs_between_toggles(np.concatenate(keys))
    start, stop = _add_vertex_pixels(start, stop, edges, slots, width)
    return slots.runs(start, stop, width)


@dataclass(frozen=True, slots=True, eq=False)
class _RowSlots:
    """A number for every row of every ring, counted through: row y of ring k has slot ``base[k] + y``.

    A pixel has the position ``slot * (width + 1) + column``; the gap behind each row keeps rows apart.
    """

    row_begin: int
    row_end: int
    base: Int64  # (K,)
    base_of_edge: Int64  # (E,)
    ring_of_slot: Int64

    @classmethod
    def of_rings(cls, edges: _Edges, low: Float64, high: Float64, row_begin: int, row_end: int) -> _RowSlots:
        lowest, highest = np.minimum.reduceat(low, edges.first), np.maximum.reduceat(high, edges.first)
        begin = np.clip(np.ceil(lowest - VERTEX_TOLERANCE), row_begin, row_end).astype(np.int64)
        end = np.clip(np.floor(highest + VERTEX_TOLERANCE) + 1, row_begin, row_end).astype(np.int64)
        rows = np.maximum(end - begin, 0)
        base = np.cumsum(rows) - rows - begin
        return cls(row_begin, row_end, base, base[edges.ring], np.repeat(np.arange(len(rows)), rows))

    def __len__(self) -> int:
        return len(self.ring_of_slot)

    def runs(self, start: Int64, stop: Int64, width: int) -> _RingRuns:
        """Turn positions on the number line into runs of rings."""
        slot = start // (width + 1)
        ring = self.ring_of_slot[slot]
        first = start - slot - self.base[ring] * width
        return _RingRuns(ring, first, first + (stop - start))


# A toggle is the position from which on a crossing counts differently, times 4, plus 1 for the right ray (A), 2 for
# the left ray (B), 3 for both: one sort orders all. The rays differ only where an edge goes through a pixel centre.
RIGHT, LEFT, BOTH = 1, 2, 3


def _end_toggles(edges: _Edges, low: Float64, high: Float64, slots: _RowSlots, width: int) -> list[Int64]:
    """Toggles of edges in the rows on which they end: A at the end with the smaller y, B at the other one.

    There the crossing is at the vertex itself, ``A = ceil(x)`` and ``B = floor(x) + 1``, without any rounding.
    """
    keys = []
    rising = edges.y0 < edges.y1
    for ray, y, at_current in ((RIGHT, low, rising), (LEFT, high, ~rising)):
        chosen = (np.floor(y) == y) & (low < high) & (y >= slots.row_begin) & (y < slots.row_end)
        edge = np.flatnonzero(chosen)
        x = np.where(at_current[edge], edges.x0[edge], edges.x1[edge])
        column = np.ceil(x) if ray == RIGHT else np.floor(x) + 1
        slot = slots.base_of_edge[edge] + y[edge].astype(np.int64)
        keys.append(_toggles(slot, column, width, ray))
    return keys


def _inner_toggles(edges: _Edges, begin: Int64, rows: Int64, slots: _RowSlots, width: int) -> list[Int64]:
    """Toggles of edges in the rows strictly between their ends.

    The column is that behind the crossing point. Within NEAR_CENTRE of a pixel's centre it is decided by scikit-image's
    expression, whose sign can differ from that of exact arithmetic only next to the crossing: it decreases by 1 from
    column to column, and its error is below 1e-6 for coordinates up to 1e9.
    """
    crossing = np.flatnonzero(rows)
    count = rows[crossing]
    edge = np.repeat(crossing, count)
    row = np.arange(len(edge)) + np.repeat(begin[crossing] - (np.cumsum(count) - count), count)
    slope = np.zeros(len(rows))
    slope[crossing] = (edges.x1 - edges.x0)[crossing] / (edges.y1 - edges.y0)[crossing]
    x = edges.x0[edge] - (edges.y0[edge] - row) * slope[edge]
    right = np.ceil(x)
    slot = slots.base_of_edge[edge] + row

    near = np.flatnonzero(np.abs(right - x - 0.5) > 0.5 - NEAR_CENTRE)
    guess, edge, row = right[near], edge[near], row[near]
    x0, x1 = edges.x0[edge], edges.x1[edge]
    y0, y1 = edges.y0[edge] - row, edges.y1[edge] - row

    def side(x: Float64) -> Float64:
        return np.asarray(((x0 - x) * y1 - (x1 - x) * y0) / (y1 - y0))

    here, before = side(guess), side(guess - 1)
    right[near] += (here > 0) * 1.0 - (before <= 0)  # the first column that does not have side > 0
    left = guess + (here >= 0) - (before < 0)  # the first column that has side < 0
    of_right = _toggles(slot, right, width, BOTH)
    differ = np.flatnonzero(right[near] != left)
    of_right[near[differ]] -= LEFT
    return [of_right, _toggles(slot[near[differ]], left[differ], width, LEFT)]


def _toggles(slot: Int64, column: Float64, width: int, rays: int) -> Int64:
    """Number the toggles by row and column; columns left of the image become its first column."""
    return (slot * (width + 1) + np.clip(column, 0, width).astype(np.int64)) * 4 + rays


def _runs_between_toggles(keys: Int64) -> tuple[Int64, Int64]:
    """Positions at which the number of toggles so far is odd for either ray, as runs. Every row has an even number."""
    keys = np.sort(keys)
    position = keys >> 2
    state = np.bitwise_xor.accumulate(keys.astype(np.uint8) & BOTH)
    settled = np.flatnonzero(np.diff(position, append=-1))  # behind all toggles of a position
    inside = state[settled] != 0
    edge = position[settled[np.flatnonzero(np.diff(inside, prepend=False))]]
    return edge[::2], edge[1::2]


def _add_vertex_pixels(start: Int64, stop: Int64, edges: _Edges, slots: _RowSlots, width: int) -> tuple[Int64, Int64]:
    """Add the pixels on whose centres a vertex lies, where no run covers them yet."""
    column, row = np.rint(edges.x0), np.rint(edges.y0)
    near = (np.abs(edges.x0 - column) < VERTEX_TOLERANCE) & (np.abs(edges.y0 - row) < VERTEX_TOLERANCE)
    near &= (column >= 0) & (column < width) & (row >= slots.row_begin) & (row < slots.row_end)
    vertex = np.flatnonzero(near)
    slot = slots.base_of_edge[vertex] + row[vertex].astype(np.int64)
    pixel = slot * (width + 1) + column[vertex].astype(np.int64)
    if len(start) and len(pixel):
        # Most rows of a ring have one run: look there first, and search for the rest only.
        first_run = np.full(len(slots), -1, np.int64)
        first_run[(start // (width + 1))[::-1]] = np.arange(len(start))[::-1]
        pixel = pixel[~_lies_in(pixel, first_run[slot], start, stop)]
        pixel = pixel[~_lies_in(pixel, np.searchsorted(start, pixel, "right") - 1, start, stop)]
    if len(pixel) == 0:
        return start, stop
    return merge_runs(np.concatenate([start, pixel]), np.concatenate([stop, pixel + 1]))


def _lies_in(position: Int64, run: Int64, start: Int64, stop: Int64) -> Bool:
    """Return whether each position lies in the run whose index is given for it; -1 stands for no run."""
    return np.asarray((run >= 0) & (start[run] <= position) & (position < stop[run]))
