"""Half-open integer intervals ``[start, stop)`` as pairs of arrays; sorted and disjoint unless said otherwise."""

from __future__ import annotations

import numpy as np

from evaluation.model import Int64


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
