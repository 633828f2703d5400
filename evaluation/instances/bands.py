"""Bands along the inside of outlines, and what the bands of two nuclei share, from runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.instances.boundary import (
    ChosenRuns,
    between_neighbours,
    between_rows,
    covered_by_all,
    crowded_entries,
    select_runs,
    without,
)
from evaluation.model import BorderRule, Int64

Ends = tuple[npt.NDArray[Any], npt.NDArray[Any]]  # beginnings and ends of runs


@dataclass(frozen=True, slots=True, eq=False)
class BandOverlaps:
    """Pixels that the inner bands of each of T pairs share, and pixels in either of them, int64 (T,)."""

    intersection_px: Int64
    union_px: Int64


def band_overlaps(left: ChosenRuns, right: ChosenRuns, *, width_px: int, border: BorderRule) -> BandOverlaps:
    """Intersection and union of the inner bands of pairs of nuclei; their quotient is the boundary IoU.

    The band of a nucleus: its pixels with a pixel outside it that is at most ``width_px`` rows and columns away. That
    is the nucleus without what ``width_px`` erosions with the 3 x 3 square leave of it. A nucleus in which no square of
    ``2 width_px + 1`` pixels a side has room is band all over; the boundary IoU of two such is their IoU.
    Entry t of both sides is pair t; entries may lie in several images.

    width_px  at least 1, else ValueError
    border    whether what lies beyond the image border is outside: ``closed`` if it is, ``open`` if not. Under
              ``open`` a nucleus that fills the image has no band; if both do, the union is 0.

    Cheng et al., Boundary IoU, CVPR 2021. Their program is ``closed``, and its width is 2 % of the image diagonal,
    rounded, at least 1.

    >>> from evaluation.instances.boundary import choose_runs, runs_by_instance
    >>> from evaluation.instances.labels import instances_from_labels
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
    crowded = crowded_entries(left, entries) | crowded_entries(right, entries)
    lonely, others = (
        measure(select_runs(left, kind[left.entry]), select_runs(right, kind[right.entry]), entries, width_px, border)
        for kind, measure in ((~crowded, lonely_overlaps), (crowded, any_overlaps))
    )
    return BandOverlaps(lonely.intersection_px + others.intersection_px, lonely.union_px + others.union_px)


def lonely_overlaps(
    reference: ChosenRuns, prediction: ChosenRuns, entries: int, width_px: int, border: BorderRule
) -> BandOverlaps:
    """Bands of pairs that have one run a row: without a search, except for the rows that both have.

    With what is left of both after erosion, G' and P', ``|G - G', P - P'| = |G, P| - |G', P| - |G, P'| + |G', P'|``.
    """
    sides = []
    for runs in (reference, prediction):
        between = partial(between_neighbours, runs, border=border)
        begin, end = again_and_again(between, shrink(runs, width_px, border), width_px)
        sides.append(((runs.begin, runs.end), (begin, np.maximum(begin, end))))
    areas = [
        sum_by_entry(runs.entry, outer[1] - outer[0] - (inner[1] - inner[0]), entries)
        for runs, (outer, inner) in zip((reference, prediction), sides, strict=True)
    ]
    i, j = equal_values(reference.line(), prediction.line())
    (g, g_inner), (p, p_inner) = (
        [(begin[rows], end[rows]) for begin, end in side] for side, rows in zip(sides, (i, j), strict=True)
    )
    shared = shared_px(g, p) - shared_px(g_inner, p) - shared_px(g, p_inner) + shared_px(g_inner, p_inner)
    intersection = sum_by_entry(reference.entry[i], shared, entries)
    return BandOverlaps(intersection, areas[0] + areas[1] - intersection)


def any_overlaps(
    reference: ChosenRuns, prediction: ChosenRuns, entries: int, width_px: int, border: BorderRule
) -> BandOverlaps:
    """Bands of any pairs. All entries lie on one number line, rows one after the other (``line``)."""
    height, width = reference.shape_yx
    bands: list[tuple[Int64, Int64]] = []
    for runs in (reference, prediction):
        base = runs.line() * width
        begin, end = shrink(runs, width_px, border)
        some = begin < end
        between = partial(between_rows, runs=runs, border=border)
        inner = again_and_again(between, ((base + begin)[some], (base + end)[some]), width_px)
        bands.append(without(base + runs.begin, base + runs.end, *inner))
    starts, stops = zip(*bands, strict=True)
    shared = covered_by_all(starts, stops, 2)
    intersection, *areas = (
        sum_by_entry(start // ((height + 2) * width), stop - start, entries) for start, stop in (shared, *bands)
    )
    return BandOverlaps(intersection, areas[0] + areas[1] - intersection)


def again_and_again(erode: Callable[[Ends, Ends], Ends], ends: Ends, times: int) -> Ends:
    """Erode ``times`` times, or until nothing is lost any more."""
    before = -1
    for _ in range(times):
        pixels = int(np.maximum(ends[1] - ends[0], 0).sum())
        if pixels == before:
            break
        before, ends = pixels, erode(ends, ends)
    return ends


def shrink(runs: ChosenRuns, width_px: int, border: BorderRule) -> Ends:
    """The runs without ``width_px`` pixels at either end; ends at an open image border stay."""
    width = runs.shape_yx[1]
    by = np.int32(min(width_px, width))
    begin, end = runs.begin + by, runs.end - by
    if border == "open":
        begin[runs.begin == 0] = 0
        at_edge = runs.at_right_edge()
        end[at_edge] = runs.end[at_edge]
    return begin, end


def equal_values(a: Int64, b: Int64) -> tuple[Int64, Int64]:
    """Where two ascending lists, each without repetition, have the same values: indices into both."""
    order = np.argsort(np.concatenate([a, b]), kind="stable")  # merges two sorted halves in one go
    values = np.concatenate([a, b])[order]
    same = np.flatnonzero(values[1:] == values[:-1])
    return order[same], order[same + 1] - len(a)


def shared_px(a: Ends, b: Ends) -> npt.NDArray[Any]:
    """Pixels that two runs of a row share."""
    return np.asarray(np.maximum(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0]), 0))


def sum_by_entry(entry: Int64, values: npt.NDArray[np.integer[Any]], entries: int) -> Int64:
    """Sum of the values of each entry, int64 (T,); entries ascend."""
    before = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    return np.asarray(np.diff(before[np.searchsorted(entry, np.arange(entries + 1))]))
