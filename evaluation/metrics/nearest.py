"""How far each pixel of an outline is from the other outline of its pair, for many pairs at once, in integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.model import Boundaries, Float64, Int64

STEP_ENTRIES = 1 << 17  # distances held at once; with their intermediate results they stay in the cache
PADDING = 1.4  # how much larger the largest pair of a batch may be than the smallest
TREE_ENTRIES = 1 << 21  # a pair with more distances than this is cheaper with trees

Squares = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Squared distances from one outline of each pair to the other, for K pairs.

    squared  integer (A, K), px^2: column k holds those of the ``size[k]`` pixels of pair k, and then repeats the last
    size     int64 (K,), at least 1
    """

    squared: Squares
    size: Int64

    def largest(self) -> Int64:
        """The largest squared distance of each pair, int64 (K,)."""
        return np.asarray(self.squared.max(axis=0), np.int64)

    def sorted(self) -> SortedNearest:
        """The same sorted. It costs most of what is measured on them: call it once."""
        padding = np.arange(len(self.squared))[:, None] >= self.size
        rows = np.where(padding, np.iinfo(self.squared.dtype).max, self.squared).T.copy()
        rows.sort(axis=1)
        return SortedNearest(rows, self.size)


@dataclass(frozen=True, slots=True, eq=False)
class SortedNearest:
    """The squared distances of ``Nearest``, sorted: the order of the pixels is forgotten, so it changes no digit.

    squared  integer (K, A), px^2, ascending; behind the first ``size[k]`` of row k is the largest number of the type,
             which no distance reaches
    size     int64 (K,)
    """

    squared: Squares
    size: Int64

    def percentile(self, percentile: float) -> Float64:
        """Percentile of the distances of each pair, px, float64 (K,), by linear interpolation."""
        position = percentile / 100 * (self.size - 1)
        below = np.floor(position).astype(np.int64)
        row = np.arange(len(self.size))
        low = np.sqrt(self.squared[row, below], dtype=np.float64)
        high = np.sqrt(self.squared[row, np.minimum(below + 1, self.size - 1)], dtype=np.float64)
        return np.asarray(low + (high - low) * (position - below))

    def sum(self) -> Float64:
        """Sum of the distances of each pair, px, float64 (K,): the roots are added one by one, the smallest first."""
        roots = np.sqrt(self.squared, dtype=np.float64)
        return np.asarray(np.cumsum(roots, axis=1)[np.arange(len(self.size)), self.size - 1])

    def count_within(self, limit_squared: Int64) -> Int64:
        """How many squared distances of each pair are at most its limit, int64 (K,)."""
        limit = np.minimum(limit_squared, np.iinfo(self.squared.dtype).max - 1).astype(self.squared.dtype)
        return np.asarray(np.count_nonzero(self.squared <= limit[:, None], axis=1), np.int64)


def nearest_in_batches(
    reference: Boundaries, prediction: Boundaries
) -> Iterator[tuple[Int64, tuple[Nearest, Nearest]]]:
    """Distances from reference to prediction and back, for all pairs of entries, a batch of pairs at a time.

    Pair t is entry t of both arguments; every entry has at least one point. Gives the pairs of a batch, int64 (K,), and
    their distances in both directions; every pair is in one batch. Distances are exact, whatever the batch.
    """
    sizes = reference.size, prediction.size
    small = sizes[0] * sizes[1] <= TREE_ENTRIES
    for pair in np.flatnonzero(~small).tolist():
        batch = np.array([pair])
        yield batch, nearest_by_tree(reference.points_of(pair), prediction.points_of(pair))
    pairs = np.flatnonzero(small)
    larger = np.maximum(*sizes)[pairs]
    order = np.argsort(larger, kind="stable")
    pairs, larger = pairs[order], larger[order]
    first = 0
    while first < len(pairs):
        width = int(PADDING * larger[first]) + 4  # pairs of about one size; points are padded to the largest
        last = min(int(np.searchsorted(larger, width, side="right")), first + max(1, STEP_ENTRIES // width))
        batch = pairs[first:last]
        there, back = nearest_squared(padded(reference, batch), padded(prediction, batch))
        yield batch, (Nearest(there, sizes[0][batch]), Nearest(back, sizes[1][batch]))
        first = last


def padded(boundaries: Boundaries, batch: Int64) -> npt.NDArray[np.int32]:
    """Points of each pair as columns, (2, A, K); short columns repeat their last point, which changes no minimum."""
    size = boundaries.size[batch]
    within = np.minimum(np.arange(size.max())[:, None], size - 1)
    within += boundaries.first[batch]
    return boundaries.points_yx.take(within, axis=1)


def nearest_squared(p: npt.NDArray[np.int32], q: npt.NDArray[np.int32]) -> tuple[Squares, Squares]:
    """Squared distance of each point to the nearest one of the other side: (A, K) for (2, A, K), and (B, K).

    Computed in the smallest integer type that holds the squares: exact, and twice as fast each time it halves.
    """
    low = np.minimum(p.min(axis=1), q.min(axis=1))[:, None]
    p, q = p - low, q - low
    extent = int(max(p.max(), q.max()))
    dtype = np.int16 if extent < 128 else np.int32 if extent < 32768 else np.int64
    (py, px), (qy, qx) = p.astype(dtype, order="C"), q.astype(dtype, order="C")
    nearest_p = np.empty(py.shape, dtype)
    nearest_q = np.full(qy.shape, np.iinfo(dtype).max, dtype)
    step = max(1, STEP_ENTRIES // qy.size)  # points that meet all points of the other side, in all pairs, at once
    squared, other = np.empty((2, step, *qy.shape), dtype)
    for first in range(0, len(py), step):
        here = py[first : first + step, None]
        d, e = squared[: len(here)], other[: len(here)]
        np.subtract(qy, here, out=d)
        np.multiply(d, d, out=d)
        np.subtract(qx, px[first : first + step, None], out=e)
        np.multiply(e, e, out=e)
        np.add(d, e, out=d)
        d.min(axis=1, out=nearest_p[first : first + step])
        np.minimum(nearest_q, d[0] if step == 1 else d.min(axis=0), out=nearest_q)
    return nearest_p, nearest_q


def nearest_by_tree(p: npt.NDArray[np.int32], q: npt.NDArray[np.int32]) -> tuple[Nearest, Nearest]:
    """Both directions of one pair with very many points, (A, 2) and (B, 2)."""
    p, q = p.astype(np.int64), q.astype(np.int64)
    there, back = (((a - b[scipy.spatial.cKDTree(b).query(a)[1]]) ** 2).sum(axis=1) for a, b in ((p, q), (q, p)))
    return Nearest(there[:, None], np.array([len(p)])), Nearest(back[:, None], np.array([len(q)]))
