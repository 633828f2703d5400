"""Hausdorff distances of many pairs at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from evaluation.model import Boundaries, Float64, Int64

STEP_ENTRIES = 1 << 17  # distances held at once; with their intermediate results they stay in the cache
PADDING = 1.4  # how much larger the largest pair of a batch may be than the smallest
TREE_ENTRIES = 1 << 21  # a pair with more distances than this is cheaper with trees


def hausdorff_distances(
    reference: Boundaries, prediction: Boundaries, *, percentile: float = 95.0
) -> tuple[Float64, Float64]:
    """Hausdorff distance of each pair of boundaries and its percentile variant, px, float64 (T,) each.

    With d(p, Q) the Euclidean distance from pixel p to the nearest pixel of Q,
    ``H(P, Q) = max(max_p d(p, Q), max_q d(q, P))``, and the percentile variant takes the percentile of each directed
    set of distances (linear interpolation) instead of its maximum. Pair t compares entry t of both arguments; every
    entry has at least one point. Squared distances are integers held exactly, so results do not depend on the machine.
    Huttenlocher et al., IEEE TPAMI 15(9), 1993.

    >>> p = Boundaries(np.array([[0, 0], [0, 1]], np.int32), np.array([0]), np.array([2]))
    >>> q = Boundaries(np.array([[0, 3], [0, 0]], np.int32), np.array([0]), np.array([2]))
    >>> hausdorff_distances(p, q)[0].tolist()
    [3.0]
    """
    sizes = reference.size, prediction.size
    maximum, quantile = np.zeros((2, len(sizes[0])))
    small = sizes[0] * sizes[1] <= TREE_ENTRIES
    for pair in np.flatnonzero(~small).tolist():
        maximum[pair], quantile[pair] = distances_by_tree(reference, prediction, pair, percentile)
    pairs = np.flatnonzero(small)
    larger = np.maximum(*sizes)[pairs]
    order = np.argsort(larger, kind="stable")
    pairs, larger = pairs[order], larger[order]
    first = 0
    while first < len(pairs):
        width = int(PADDING * larger[first]) + 4  # pairs of about one size; points are padded to the largest
        last = min(int(np.searchsorted(larger, width, side="right")), first + max(1, STEP_ENTRIES // width))
        batch = pairs[first:last]
        nearest = nearest_squared(padded(reference, batch), padded(prediction, batch))
        maximum[batch] = np.sqrt(np.maximum(*(squared.max(axis=0) for squared in nearest)), dtype=np.float64)
        quantile[batch] = np.maximum(
            *(column_percentile(d, size[batch], percentile) for d, size in zip(nearest, sizes, strict=True))
        )
        first = last
    return maximum, quantile


def padded(boundaries: Boundaries, batch: Int64) -> npt.NDArray[np.int32]:
    """Points of each pair as columns, (2, A, K); short columns repeat their last point, which changes no minimum."""
    size = boundaries.size[batch]
    within = np.minimum(np.arange(size.max())[:, None], size - 1)
    within += boundaries.first[batch]
    return boundaries.points_yx.take(within, axis=1)


def nearest_squared(
    p: npt.NDArray[np.int32], q: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
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


def column_percentile(squared: npt.NDArray[np.integer], size: Int64, percentile: float) -> Float64:
    """Percentile of the square roots of the first ``size`` entries of each column, by linear interpolation."""
    padding = np.arange(len(squared))[:, None] >= size
    rows = np.where(padding, np.iinfo(squared.dtype).max, squared).T.copy()
    rows.sort(axis=1)
    position = percentile / 100 * (size - 1)
    below = np.floor(position).astype(np.int64)
    row = np.arange(len(rows))
    low = np.sqrt(rows[row, below], dtype=np.float64)
    high = np.sqrt(rows[row, np.minimum(below + 1, size - 1)], dtype=np.float64)
    return np.asarray(low + (high - low) * (position - below))


def distances_by_tree(
    reference: Boundaries, prediction: Boundaries, pair: int, percentile: float
) -> tuple[float, float]:
    """Both distances of one pair with very many points."""
    p, q = reference.points_of(pair), prediction.points_of(pair)
    directed = [cKDTree(b).query(a)[0] for a, b in ((p, q), (q, p))]
    return (
        max(float(distances.max()) for distances in directed),
        max(float(np.percentile(distances, percentile)) for distances in directed),
    )
