"""Half-open integer intervals ``[start, stop)`` as pairs of arrays; sorted and disjoint unless said otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.model import Int64

Whole = TypeVar("Whole", bound=np.integer[Any])
RUNS_AT_ONCE = 1 << 18  # of each side; what is made of them stays near the cache, whatever the size of the image


def row_bands(starts: Sequence[Int64], width: int) -> Iterator[tuple[slice, ...]]:
    """Bands of whole rows with about ``RUNS_AT_ONCE`` runs of each list: for each list, which runs lie in the band.

    starts   of runs as flat indices, ascending, of images of the same width; runs do not cross the end of a row
    """
    cuts = distinct(np.concatenate([start[RUNS_AT_ONCE::RUNS_AT_ONCE] // max(width, 1) * width for start in starts]))
    bounds = [[0, *np.searchsorted(start, cuts).tolist(), len(start)] for start in starts]
    for ends in pairwise(zip(*bounds, strict=True)):
        yield tuple(slice(first, last) for first, last in zip(*ends, strict=True))


def distinct(values: npt.NDArray[Whole]) -> npt.NDArray[Whole]:
    """The values in ascending order, each once: ``np.unique`` hashes, and takes several times as long."""
    values = np.sort(values, kind="stable")
    once: npt.NDArray[Whole] = values[np.diff(values, prepend=values[:1] - 1) != 0]
    return once


def overlaps(start_a: Int64, stop_a: Int64, start_b: Int64, stop_b: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """All overlapping pairs of two lists: indices into a and b, and start and stop of what they share, in order.

    >>> import numpy as np
    >>> a, b, start, stop = overlaps(np.array([0, 5]), np.array([4, 9]), np.array([2]), np.array([7]))
    >>> a.tolist(), b.tolist(), start.tolist(), stop.tolist()
    ([0, 1], [0, 0], [2, 5], [4, 7])
    """
    first = count_before(start_a, stop_b, ties_count=True)
    count = count_before(stop_a, start_b, ties_count=False) - first
    touched = np.flatnonzero(count)
    count = count[touched]
    a = np.repeat(touched, count)
    b = np.arange(len(a)) + np.repeat(first[touched] - (np.cumsum(count) - count), count)
    return a, b, np.maximum(start_a[a], start_b[b]), np.minimum(stop_a[a], stop_b[b])


def count_before(values: Int64, others: Int64, *, ties_count: bool) -> Int64:
    """How many ``others`` are below each value (or equal to it, if ``ties_count``); both sorted.

    The same as ``np.searchsorted``, at a third of its time: a stable sort merges two sorted halves in one go.
    """
    halves = (others, values) if ties_count else (values, others)
    order = np.argsort(np.concatenate(halves), kind="stable")
    is_value = order >= len(others) if ties_count else order < len(values)
    return np.flatnonzero(is_value) - np.arange(len(values))


def expand(start: Int64, stop: Int64) -> Int64:
    """All integers in the intervals, one interval after the other (they need not be sorted).

    >>> import numpy as np
    >>> expand(np.array([3, 8]), np.array([5, 9])).tolist()
    [3, 4, 8]
    """
    length = stop - start
    return np.repeat(start - (np.cumsum(length) - length), length) + np.arange(length.sum())


def merge_runs(start: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """Union of intervals in any order that may overlap: sorted, disjoint, and joined where they touch.

    After sorting starts and stops apart, a part of the union ends at ``stop[i]`` exactly if ``start[i + 1]`` is beyond.

    >>> import numpy as np
    >>> start, stop = merge_runs(np.array([7, 1, 3]), np.array([9, 3, 5]))
    >>> start.tolist(), stop.tolist()
    ([1, 7], [5, 9])
    """
    if len(start) == 0:
        return start, stop
    start, stop = np.sort(start, kind="stable"), np.sort(stop, kind="stable")  # made of sorted pieces
    gap = start[1:] > stop[:-1]
    return start[np.concatenate([[True], gap])], stop[np.concatenate([gap, [True]])]


def outside(start: Int64, stop: Int64, away_start: Int64, away_stop: Int64) -> tuple[Int64, Int64]:
    """The parts of the first intervals outside the second ones: their overlaps with the gaps between those.

    >>> import numpy as np
    >>> start, stop = outside(np.array([0, 6]), np.array([5, 9]), np.array([2, 5]), np.array([3, 8]))
    >>> start.tolist(), stop.tolist()
    ([0, 3, 8], [2, 5, 9])
    """
    if len(start) == 0:
        return start, stop
    gap_start = np.concatenate([start[:1], away_stop])
    gap_stop = np.concatenate([away_start, stop[-1:]])
    within = gap_start < gap_stop
    _, _, start, stop = overlaps(start, stop, gap_start[within], gap_stop[within])
    return start, stop
