"""Measures of the outlines of matched pairs: how far they are apart, at worst, on average, and how often little."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from nuclei_metrics.model import Boundaries, Contours, Float64, Int64

TOLERANCE_ROUNDING = 1e-12  # of a squared tolerance: 0.6 um at 0.2 um/px are three pixels, whatever the division says
FARTHEST_SQUARED = 2.0**62  # no squared distance is larger


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceMeasures:
    """Measures of T pairs of outlines, float64 (T,) each, in the order of the pairs.

    hausdorff_px      Hausdorff distance
    hausdorff95_px    the same with a percentile of the distances instead of their maximum
    mean_surface_distance_px  average symmetric surface distance, or None if not asked for
    surface_dice  normalised surface Dice in [0, 1], or None if no tolerance was given
    """

    hausdorff_px: Float64
    hausdorff95_px: Float64
    mean_surface_distance_px: Float64 | None
    surface_dice: Float64 | None


def surface_measures(
    reference: Boundaries,
    prediction: Boundaries,
    *,
    percentile: float = 95.0,
    tolerance_px: Float64 | None = None,
    mean: bool = False,
) -> SurfaceMeasures:
    """Distances between the outlines of each pair: entry t of both arguments is pair t, and has at least one point.

    With P and Q the boundary pixels of a pair and d(p, Q) the Euclidean distance from pixel p to the nearest of Q:

    - Hausdorff distance ``max(max_p d(p, Q), max_q d(q, P))``, px. Huttenlocher et al., IEEE TPAMI 15(9), 1993.
    - Its percentile variant: the larger of the percentiles (linear interpolation) of the two sets of distances, px.
    - Average symmetric surface distance ``(sum_p d(p, Q) + sum_q d(q, P)) / (|P| + |Q|)``, px, if ``mean``. All pixels
      of both outlines weigh the same; ITK's average Hausdorff distance is the mean of the two directed means instead.
    - Normalised surface Dice ``(#{p: d(p, Q) <= tau} + #{q: d(q, P) <= tau}) / (|P| + |Q|)``, if ``tolerance_px`` gives
      the tau of each pair, float64 (T,), px, at least 0. Nikolov et al., J. Med. Internet Res. 23(7), 2021.

    Nikolov et al. and their program surface-distance measure the area (in 2D the length) of surface elements that lie
    between the pixels, half a pixel outside the boundary pixels. Here every boundary pixel counts once, where it is.
    So two pixels two columns apart have the distances 1 and 2 there, mean 1.5, and 2 here; Hausdorff is 2 in both.
    ``length_within`` is their surface Dice.

    Squared distances are integers, and are sorted before they are added: neither the machine nor the order of pixels
    nor a shift, a mirror or swapped sides changes a digit. A squared distance is within the tolerance if it is at most
    ``tau^2 (1 + 1e-12)``; so a tau that is the rounded quotient of a tolerance and a spacing in um loses no pixel.

    >>> p = Boundaries(np.array([[0, 0, 0], [0, 1, 2]], np.int32), np.array([0]), np.array([3]))
    >>> q = Boundaries(np.array([[0, 0], [0, 6]], np.int32), np.array([0]), np.array([2]))
    >>> found = surface_measures(p, q, tolerance_px=np.array([1.0]), mean=True)
    >>> found.hausdorff_px.tolist(), found.mean_surface_distance_px.tolist(), found.surface_dice.tolist()
    ([4.0], [1.4], [0.6])

    Here d(p, Q) is 0, 1 and 2, and d(q, P) is 0 and 4.
    """
    pairs = len(reference.size)
    maximum, quantile = np.zeros((2, pairs))
    total = np.zeros(pairs) if mean else None
    within = limit = None
    if tolerance_px is not None:
        within = np.zeros(pairs, np.int64)
        limit = _squared_tolerance(tolerance_px)
    for batch, directions in _nearest_in_batches(reference, prediction):
        maximum[batch] = np.sqrt(np.maximum(*(nearest.largest() for nearest in directions)), dtype=np.float64)
        there, back = (nearest.sorted() for nearest in directions)
        quantile[batch] = np.maximum(there.percentile(percentile), back.percentile(percentile))
        if total is not None:
            total[batch] = there.sum() + back.sum()
        if within is not None and limit is not None:
            within[batch] = there.count_within(limit[batch]) + back.count_within(limit[batch])
    points = reference.size + prediction.size
    return SurfaceMeasures(
        hausdorff_px=maximum,
        hausdorff95_px=quantile,
        mean_surface_distance_px=None if total is None else total / points,
        surface_dice=None if within is None else within / points,
    )


def _squared_tolerance(tolerance_px: Float64) -> Int64:
    """The largest squared distance within each tolerance, px^2."""
    return np.minimum(np.floor(tolerance_px**2 * (1 + TOLERANCE_ROUNDING)), FARTHEST_SQUARED).astype(np.int64)


def length_within(reference: Contours, prediction: Contours, tolerance_px: Float64) -> Float64:
    """Normalised surface Dice of each pair by the length of its contours, float64 (T,), in [0, 1].

    ``(length of the pieces of P within tau of Q + of Q within tau of P) / (length of P + length of Q)``: distances are
    those between the corners of pixels at which the pieces are (``contours_of``). Nikolov et al., J. Med. Internet Res.
    23(7), 2021; as compute_surface_dice_at_tolerance of surface-distance with a spacing of 1. Pieces are counted in
    whole numbers, so that no order changes a digit. ``tolerance_px`` is the tau of each pair.
    """
    pieces = np.zeros((2, 2, len(tolerance_px)), np.int64)  # within, all; straight, diagonal
    limit = _squared_tolerance(tolerance_px)
    for batch, directions in _nearest_in_batches(reference.points, prediction.points):
        for side, nearest in zip((reference, prediction), directions, strict=True):
            row, points = np.arange(len(nearest.squared))[:, None], side.points
            real = row < nearest.size
            index = points.first[batch] + np.minimum(row, nearest.size - 1)
            for which, counted in enumerate((real & (nearest.squared <= limit[batch]), real)):
                pieces[which, 0, batch] += (side.straight[index] * counted).sum(axis=0)
                pieces[which, 1, batch] += (side.diagonal[index] * counted).sum(axis=0)
    length = pieces[:, 0] + pieces[:, 1] * math.sqrt(0.5)
    return np.asarray(length[0] / length[1])


# --- nearest ----------------------------------------------------------------------------------------------------------

# How far each pixel of an outline is from the other outline of its pair, for many pairs at once, in integers.

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

    def sorted(self) -> _SortedNearest:
        """Sort the distances. Sorting is the most expensive step of the measures: call it once."""
        padding = np.arange(len(self.squared))[:, None] >= self.size
        rows = np.where(padding, np.iinfo(self.squared.dtype).max, self.squared).T.copy()
        rows.sort(axis=1)
        return _SortedNearest(rows, self.size)


@dataclass(frozen=True, slots=True, eq=False)
class _SortedNearest:
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
        """Return how many squared distances of each pair are at most its limit, int64 (K,)."""
        limit = np.minimum(limit_squared, np.iinfo(self.squared.dtype).max - 1).astype(self.squared.dtype)
        return np.asarray(np.count_nonzero(self.squared <= limit[:, None], axis=1), np.int64)


def _nearest_in_batches(
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
        yield batch, _nearest_by_tree(reference.points_of(pair), prediction.points_of(pair))
    pairs = np.flatnonzero(small)
    larger = np.maximum(*sizes)[pairs]
    order = np.argsort(larger, kind="stable")
    pairs, larger = pairs[order], larger[order]
    first = 0
    while first < len(pairs):
        width = int(PADDING * larger[first]) + 4  # pairs of about one size; points are padded to the largest
        last = min(int(np.searchsorted(larger, width, side="right")), first + max(1, STEP_ENTRIES // width))
        batch = pairs[first:last]
        there, back = _nearest_squared(_padded(reference, batch), _padded(prediction, batch))
        yield batch, (Nearest(there, sizes[0][batch]), Nearest(back, sizes[1][batch]))
        first = last


def _padded(boundaries: Boundaries, batch: Int64) -> npt.NDArray[np.int32]:
    """Points of each pair as columns, (2, A, K); short columns repeat their last point, which changes no minimum."""
    size = boundaries.size[batch]
    within = np.minimum(np.arange(size.max())[:, None], size - 1)
    within += boundaries.first[batch]
    return boundaries.points_yx.take(within, axis=1)


def _nearest_squared(p: npt.NDArray[np.int32], q: npt.NDArray[np.int32]) -> tuple[Squares, Squares]:
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


def _nearest_by_tree(p: npt.NDArray[np.int32], q: npt.NDArray[np.int32]) -> tuple[Nearest, Nearest]:
    """Both directions of one pair with very many points, (A, 2) and (B, 2)."""
    p, q = p.astype(np.int64), q.astype(np.int64)
    there, back = (((a - b[scipy.spatial.cKDTree(b).query(a)[1]]) ** 2).sum(axis=1) for a, b in ((p, q), (q, p)))
    return Nearest(there[:, None], np.array([len(p)])), Nearest(back[:, None], np.array([len(q)]))
