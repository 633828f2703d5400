"""Boundary pixels from runs: neither a picture nor a loop over instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model import Bool, BorderRule, Boundaries, Instances, Int32, Int64
from nuclei_metrics.model.arrays import expand


@dataclass(frozen=True, slots=True, eq=False)
class RunsByInstance:
    """The runs of one image in the order of their instances, those of each row by row.

    order   int32 or int64 (R,): indices of runs; ``order[bound[i] : bound[i + 1]]`` are those of instance i
    bound   int64 (N + 1,)
    shape_yx   of the image, or the largest height and width of several images
    images_yx, top   int32 (N, 2) and (N,): the shape of the image of each instance, and its first row, if several
            images lie below each other; rows then count from there. None: one image
    """

    instances: Instances
    order: npt.NDArray[np.integer[Any]]
    bound: Int64
    shape_yx: tuple[int, int]
    images_yx: Int32 | None = None
    top: Int32 | None = None

    def columns(self, chosen: Int64 | slice = slice(None)) -> tuple[Int32, Int32, Int32]:
        """Row, first column and last column + 1 of the runs in this order, or of some of them."""
        runs = self.order[chosen]
        start, stop = self.instances.run_start[runs], self.instances.run_stop[runs]
        row, begin = np.divmod(start, max(self.instances.shape_yx[1], 1))
        if self.top is not None:
            row -= self.top[self.instances.run_instance[runs]]
        return row.astype(np.int32), begin.astype(np.int32), (begin + (stop - start)).astype(np.int32)


def runs_by_instance(
    instances: Instances, shapes_yx: Int64 | None = None, image: Int64 | None = None
) -> RunsByInstance:
    """Sort the runs by instance.

    shapes_yx, image   of images that lie below each other, int64 (K, 2), and the image of each instance, int64 (N,)
    """
    counts = np.bincount(instances.run_instance, minlength=len(instances))
    order, bound = instances.runs_by_instance(), np.concatenate([[0], np.cumsum(counts)])
    if shapes_yx is None or image is None:
        return RunsByInstance(instances, order, bound, instances.shape_yx)
    top = np.cumsum(shapes_yx[:, 0]) - shapes_yx[:, 0]
    height, width = shapes_yx.max(axis=0).tolist()
    images = shapes_yx[image].astype(np.int32), top[image].astype(np.int32)
    return RunsByInstance(instances, order, bound, (height, width), *images)


def boundaries_of_runs(runs: ChosenRuns, *, border: BorderRule) -> Boundaries:
    """The boundary pixels of chosen instances: their pixels with a 4-neighbour outside the instance.

    border  whether pixels beyond the image border count as outside: ``closed`` if it does, ``open`` if not.
            Under ``open`` an instance that fills the image has no boundary; it then gets all its pixels on the
            border of the image, so that a distance stays defined.

    The points of an instance come row by row. Cost: proportional to the runs of the chosen instances, after
    ``runs_by_instance``, which costs a sort of all runs; call that once to ask for many parts of the same instances.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> square = choose_runs(runs_by_instance(instances_from_labels(np.ones((3, 4), int))), np.array([0]))
    >>> boundaries_of_runs(square, border="closed").size.tolist()
    [10]
    """
    entries = len(runs.images_yx)
    crowded = _crowded_entries(runs, entries)[runs.entry]
    pieces = [
        find(_select_runs(runs, kind), border)
        for kind, find in ((~crowded, _boundary_of_lonely), (crowded, _boundary_of_any))
        if kind.any()
    ]
    boundaries = _points_of_pieces(pieces, entries)
    if border == "open" and not boundaries.size.all():
        return _add_image_borders(boundaries, runs)
    return boundaries


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRuns:
    """Runs of the chosen instances: entry (index among the chosen), row, begin and end of each; all (R,), sorted.

    shape_yx   of the largest image
    images_yx  int32 (K, 2), of the image of each entry
    """

    shape_yx: tuple[int, int]
    images_yx: Int32
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
            end += self.at_right_edge()
        return begin, end

    def at_right_edge(self) -> Bool:
        """Return which runs end where their image does, bool (R,)."""
        return np.asarray(self.end == self.images_yx[self.entry, 1])


def choose_runs(by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]]) -> ChosenRuns:
    first, last = by_instance.bound[chosen], by_instance.bound[chosen + 1]
    entry = np.repeat(np.arange(len(chosen)), last - first)
    if by_instance.images_yx is None:
        images_yx = np.broadcast_to(np.array(by_instance.shape_yx, np.int32), (len(chosen), 2))
    else:
        images_yx = by_instance.images_yx[chosen]
    return ChosenRuns(by_instance.shape_yx, images_yx, entry, *by_instance.columns(expand(first, last)))


def join_runs(parts: Sequence[ChosenRuns]) -> ChosenRuns:
    """Runs that were chosen in several images, as entries of one list; at least one image."""
    if len(parts) == 1:
        return parts[0]
    images_yx = np.concatenate([part.images_yx for part in parts])
    first = np.cumsum([0, *(len(part.images_yx) for part in parts)])
    height, width = np.max([part.shape_yx for part in parts], axis=0).tolist()
    return ChosenRuns(
        (height, width),
        images_yx,
        np.concatenate([part.entry + offset for part, offset in zip(parts, first[:-1], strict=True)]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.begin for part in parts]),
        np.concatenate([part.end for part in parts]),
    )


def _select_runs(runs: ChosenRuns, wanted: Bool) -> ChosenRuns:
    if wanted.all():
        return runs
    columns = (runs.entry[wanted], runs.row[wanted], runs.begin[wanted], runs.end[wanted])
    return ChosenRuns(runs.shape_yx, runs.images_yx, *columns)


def _crowded_entries(runs: ChosenRuns, entries: int) -> Bool:
    """Return which entries have two runs in one row, bool (K,)."""
    same = (runs.row[1:] == runs.row[:-1]) & (runs.entry[1:] == runs.entry[:-1])
    crowded = np.zeros(entries, np.bool_)
    crowded[runs.entry[1:][same]] = True
    return crowded


@dataclass(frozen=True, slots=True, eq=False)
class _BoundaryRuns:
    """Stretches of boundary pixels, (S,) each, sorted by entry, row and begin; some may be empty."""

    entry: Int64
    row: Int32
    begin: Int32
    end: Int32


def _boundary_of_lonely(runs: ChosenRuns, border: BorderRule) -> _BoundaryRuns:
    """Boundary of instances with one run a row: elementwise, without any search."""
    begin, end = _between_neighbours(runs, runs.inner(border), (runs.begin, runs.end), border)
    none = begin >= end
    begin[none] = end[none] = runs.begin[none]
    return _BoundaryRuns(
        np.repeat(runs.entry, 2),
        np.repeat(runs.row, 2),
        np.stack([runs.begin, end], axis=1).reshape(-1),
        np.stack([begin, runs.end], axis=1).reshape(-1),
    )


def _between_neighbours(
    runs: ChosenRuns, inner: tuple[Int32, Int32], cover: tuple[Int32, Int32], border: BorderRule
) -> tuple[Int32, Int32]:
    """The parts of ``inner`` under ``cover`` one row above and one row below, for instances with one run a row.

    Both give a beginning and an end for each run; where the end is not behind the beginning, nothing is left.
    """
    begin, end = inner[0].copy(), inner[1].copy()
    line = runs.line()
    first = np.flatnonzero(np.diff(line, prepend=line[:1] - 2) != 1)  # runs without a run right above
    last = np.flatnonzero(np.diff(line, append=line[-1:] + 2) != 1)  # runs without a run right below
    bottom = runs.images_yx[runs.entry[last], 0] - 1
    sides = ((np.s_[1:], np.s_[:-1], first, 0), (np.s_[:-1], np.s_[1:], last, bottom))
    for here, there, bare, edge in sides:
        bare_begin, bare_end = begin[bare], end[bare]
        np.maximum(begin[here], cover[0][there], out=begin[here])
        np.minimum(end[here], cover[1][there], out=end[here])
        begin[bare] = bare_begin
        goes_on = (runs.row[bare] == edge) & (border == "open")
        end[bare] = np.where(goes_on, bare_end, bare_begin)
    return begin, end


def _boundary_of_any(runs: ChosenRuns, border: BorderRule) -> _BoundaryRuns:
    """Boundary of any instances, by intersecting each with itself moved up and down by a row.

    All entries lie on one number line, rows one after the other (``line``).
    """
    height, width = runs.shape_yx
    base = runs.line() * width
    start, stop = base + runs.begin, base + runs.end
    begin, end = runs.inner(border)
    some = begin < end
    inner = _between_rows(((base + begin)[some], (base + end)[some]), (start, stop), runs, border)
    start, stop = without(start, stop, *inner)
    entry, row = np.divmod(start // width, height + 2)
    base = (start // width) * width
    return _BoundaryRuns(entry, row.astype(np.int32), (start - base).astype(np.int32), (stop - base).astype(np.int32))


def _between_rows(
    inner: tuple[Int64, Int64], cover: tuple[Int64, Int64], runs: ChosenRuns, border: BorderRule
) -> tuple[Int64, Int64]:
    """The parts of ``inner`` that lie under ``cover`` both one row above and one row below, on the number line.

    Beyond an open edge of the image the rows on the edge go on.
    """
    height, width = runs.shape_yx
    start, stop = cover
    starts, stops = [inner[0], start + width, start - width], [inner[1], stop + width, stop - width]
    if border == "open":
        entry, row = np.divmod(start // width, height + 2)
        for at_edge in (row == 0, row == runs.images_yx[entry, 0] - 1):
            starts.append(start[at_edge])
            stops.append(stop[at_edge])
    return _covered_by_all(starts, stops, 3)


def _covered_by_all(starts: Sequence[Int64], stops: Sequence[Int64], covers: int) -> tuple[Int64, Int64]:
    """The intervals that lie under every cover; those of one cover are in any order and do not overlap.

    Behind the t-th stop and before the next, all covers lie on one another from the start number ``t + covers`` on.
    """
    start, stop = merged(starts)[covers - 1 :], merged(stops)
    stop = stop[: len(start)]
    some = start < stop
    return start[some], stop[some]


def without(start: Int64, stop: Int64, inner_start: Int64, inner_stop: Int64) -> tuple[Int64, Int64]:
    """Return the parts of the intervals outside other intervals, which lie inside them.

    Starts of the intervals and stops of the others alternate with stops of the intervals and starts of the others.
    """
    start, stop = merged([start, inner_stop]), merged([stop, inner_start])
    some = start < stop
    return start[some], stop[some]


def merged(lists: Sequence[Int64]) -> Int64:
    """Merge several ascending lists into one, by a stable sort."""
    return np.sort(np.concatenate(lists))


def _points_of_pieces(lists: list[_BoundaryRuns], entries: int) -> Boundaries:
    """The pixels of the pieces as points; each entry is in one of the lists only."""
    first, size = np.zeros((2, entries), np.int64)
    points = [np.empty((2, 0), np.int32)]
    offset = 0
    for pieces in lists:
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


def _add_image_borders(boundaries: Boundaries, runs: ChosenRuns) -> Boundaries:
    """Give the instances that fill their image the border of the image as their boundary."""
    fills = (boundaries.size == 0) & (np.bincount(runs.entry, minlength=len(boundaries.size)) > 0)
    points, first, size = [boundaries.points_yx], boundaries.first.copy(), boundaries.size.copy()
    offset = boundaries.points_yx.shape[1]
    for height, width in np.unique(runs.images_yx[fills], axis=0).tolist():
        image = np.zeros((height, width), np.bool_)
        image[[0, -1]] = True
        image[:, [0, -1]] = True
        points.append(np.array(np.nonzero(image), np.int32))
        filled = fills & (runs.images_yx == (height, width)).all(axis=1)
        first[filled], size[filled] = offset, points[-1].shape[1]
        offset += points[-1].shape[1]
    return Boundaries(np.concatenate(points, axis=1), first, size)


# --- Bands along the inside of outlines, and what the bands of two nuclei share, from runs. ---------------------------


Ends = tuple[npt.NDArray[Any], npt.NDArray[Any]]  # beginnings and ends of runs


@dataclass(frozen=True, slots=True, eq=False)
class _BandOverlaps:
    """Pixels that the inner bands of each of T pairs share, and pixels in either of them, int64 (T,)."""

    intersection_px: Int64
    union_px: Int64


def band_overlaps(left: ChosenRuns, right: ChosenRuns, *, width_px: int, border: BorderRule) -> _BandOverlaps:
    """Intersection and union of the inner bands of pairs of nuclei; their quotient is the boundary IoU.

    The band of a nucleus: its pixels with a pixel outside it that is at most ``width_px`` rows and columns away. That
    is the nucleus without what ``width_px`` erosions with the 3 x 3 square leave of it. A nucleus in which no square of
    ``2 width_px + 1`` pixels a side has room is band all over; the boundary IoU of two such is their IoU.
    Entry t of both sides is pair t; entries may lie in several images.

    width_px  at least 1, else ValueError
    border    whether pixels beyond the image border are outside: ``closed`` if it is, ``open`` if not. Under
              ``open`` a nucleus that fills the image has no band; if both do, the union is 0.

    Cheng et al., Boundary IoU, CVPR 2021. Their program is ``closed``, and its width is 2% of the image diagonal,
    rounded, at least 1.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> labels = np.zeros((7, 9), int)
    >>> labels[1:6, 1:7] = 1
    >>> sides = [runs_by_instance(instances_from_labels(side)) for side in (labels, np.roll(labels, 1, axis=1))]
    >>> chosen = [choose_runs(side, np.array([0])) for side in sides]
    >>> found = band_overlaps(*chosen, width_px=1, border="closed")
    >>> found.intersection_px.tolist(), found.union_px.tolist()
    ([10], [26])

    Both bands have 18 pixels; they share five in the first row and five in the last.
    """
    if width_px < 1:
        raise ValueError(f"a band of {width_px} px; at least 1 is expected")
    entries = len(left.images_yx)
    crowded = _crowded_entries(left, entries) | _crowded_entries(right, entries)
    lonely, others = (
        measure(_select_runs(left, kind[left.entry]), _select_runs(right, kind[right.entry]), entries, width_px, border)
        for kind, measure in ((~crowded, _lonely_overlaps), (crowded, _any_overlaps))
    )
    return _BandOverlaps(lonely.intersection_px + others.intersection_px, lonely.union_px + others.union_px)


def _lonely_overlaps(
    reference: ChosenRuns, prediction: ChosenRuns, entries: int, width_px: int, border: BorderRule
) -> _BandOverlaps:
    """Compare bands of pairs with one run per row, which needs a search only in rows that both have.

    With what is left of both after erosion, G' and P', ``|G - G', P - P'| = |G, P| - |G', P| - |G, P'| + |G', P'|``.
    """
    sides = []
    for runs in (reference, prediction):
        between = partial(_between_neighbours, runs, border=border)
        begin, end = _again_and_again(between, _shrink(runs, width_px, border), width_px)
        sides.append(((runs.begin, runs.end), (begin, np.maximum(begin, end))))
    areas = [
        _sum_by_entry(runs.entry, outer[1] - outer[0] - (inner[1] - inner[0]), entries)
        for runs, (outer, inner) in zip((reference, prediction), sides, strict=True)
    ]
    i, j = _equal_values(reference.line(), prediction.line())
    (g, g_inner), (p, p_inner) = (
        [(begin[rows], end[rows]) for begin, end in side] for side, rows in zip(sides, (i, j), strict=True)
    )
    shared = _common_px(g, p) - _common_px(g_inner, p) - _common_px(g, p_inner) + _common_px(g_inner, p_inner)
    intersection = _sum_by_entry(reference.entry[i], shared, entries)
    return _BandOverlaps(intersection, areas[0] + areas[1] - intersection)


def _any_overlaps(
    reference: ChosenRuns, prediction: ChosenRuns, entries: int, width_px: int, border: BorderRule
) -> _BandOverlaps:
    """Bands of any pairs. All entries lie on one number line, rows one after the other (``line``)."""
    height, width = reference.shape_yx
    bands: list[tuple[Int64, Int64]] = []
    for runs in (reference, prediction):
        base = runs.line() * width
        begin, end = _shrink(runs, width_px, border)
        some = begin < end
        between = partial(_between_rows, runs=runs, border=border)
        inner = _again_and_again(between, ((base + begin)[some], (base + end)[some]), width_px)
        bands.append(without(base + runs.begin, base + runs.end, *inner))
    starts, stops = zip(*bands, strict=True)
    shared = _covered_by_all(starts, stops, 2)
    intersection, *areas = (
        _sum_by_entry(start // ((height + 2) * width), stop - start, entries) for start, stop in (shared, *bands)
    )
    return _BandOverlaps(intersection, areas[0] + areas[1] - intersection)


def _again_and_again(erode: Callable[[Ends, Ends], Ends], ends: Ends, times: int) -> Ends:
    """Erode ``times`` times, or until an erosion removes no pixel."""
    before = -1
    for _ in range(times):
        pixels = int(np.maximum(ends[1] - ends[0], 0).sum())
        if pixels == before:
            break
        before, ends = pixels, erode(ends, ends)
    return ends


def _shrink(runs: ChosenRuns, width_px: int, border: BorderRule) -> Ends:
    """The runs without ``width_px`` pixels at either end; ends at an open image border stay."""
    width = runs.shape_yx[1]
    by = np.int32(min(width_px, width))
    begin, end = runs.begin + by, runs.end - by
    if border == "open":
        begin[runs.begin == 0] = 0
        at_edge = runs.at_right_edge()
        end[at_edge] = runs.end[at_edge]
    return begin, end


def _equal_values(a: Int64, b: Int64) -> tuple[Int64, Int64]:
    """Return where two ascending lists, each without repetition, have the same values: indices into both."""
    order = np.argsort(np.concatenate([a, b]), kind="stable")  # merges two sorted halves in one go
    values = np.concatenate([a, b])[order]
    same = np.flatnonzero(values[1:] == values[:-1])
    return order[same], order[same + 1] - len(a)


def _common_px(a: Ends, b: Ends) -> npt.NDArray[Any]:
    """Pixels that two runs of a row share."""
    return np.asarray(np.maximum(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0]), 0))


def _sum_by_entry(entry: Int64, values: npt.NDArray[np.integer[Any]], entries: int) -> Int64:
    """Sum of the values of each entry, int64 (T,); entries ascend."""
    before = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    return np.asarray(np.diff(before[np.searchsorted(entry, np.arange(entries + 1))]))
