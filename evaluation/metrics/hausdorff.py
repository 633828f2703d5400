"""Hausdorff distances of many pairs at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from evaluation.model import Boundaries, Float64, Int64

STEP_ENTRIES = 1 << 16  # distances held at once; with their intermediate results they stay in the cache
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

    >>> p = Boundaries(np.array([[0, 0], [0, 1]], np.int32), np.array([0, 2]))
    >>> q = Boundaries(np.array([[0, 0], [3, 0]], np.int32), np.array([0, 2]))
    >>> hausdorff_distances(p, q)[0].tolist()
    [3.0]
    """
    sizes = np.diff(reference.start), np.diff(prediction.start)
    maximum, quantile = np.zeros((2, len(sizes[0])))
    small = sizes[0] * sizes[1] <= TREE_ENTRIES
    for pair in np.flatnonzero(~small):
        maximum[pair], quantile[pair] = distances_by_tree(reference, prediction, pair, percentile)
    pairs = np.flatnonzero(small)
    order = pairs[np.lexsort((sizes[0][pairs], sizes[1][pairs]))]
    step = 0
    while step < len(order):
        widest = sizes[1][order[min(step + 64, len(order) - 1)]]  # sorted by it: hardly wider than the first
        batch = order[step : step + max(1, STEP_ENTRIES // int(widest))]
        p, q = padded(reference, batch, sizes[0]), padded(prediction, batch, sizes[1])
        nearest = nearest_squared(p, q)
        maximum[batch] = np.sqrt(np.maximum(*(squared.max(axis=0) for squared in nearest)), dtype=np.float64)
        quantile[batch] = np.maximum(
            *(column_percentile(d, size[batch], percentile) for d, size in zip(nearest, sizes, strict=True))
        )
        step += len(batch)
    return maximum, quantile


def padded(boundaries: Boundaries, batch: Int64, size: Int64) -> npt.NDArray[np.int32]:
    """Points of each pair as columns, (2, A, K); short columns repeat their last point, which changes no minimum."""
    width = int(size[batch].max())
    within = np.minimum(np.arange(width)[:, None], size[batch] - 1)
    return np.moveaxis(boundaries.points_yx[boundaries.start[batch] + within], 2, 0)


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
    squared, other = np.empty_like(qy), np.empty_like(qy)
    for point in range(len(py)):  # all pairs of the batch, and all points of their other side, at once
        np.subtract(qy, py[point], out=squared)
        np.multiply(squared, squared, out=squared)
        np.subtract(qx, px[point], out=other)
        np.multiply(other, other, out=other)
        np.add(squared, other, out=squared)
        np.minimum(nearest_q, squared, out=nearest_q)
        squared.min(axis=0, out=nearest_p[point])
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
    return low + (high - low) * (position - below)


def distances_by_tree(
    reference: Boundaries, prediction: Boundaries, pair: int, percentile: float
) -> tuple[float, float]:
    """Both distances of one pair with very many points."""
    p, q = (side.points_yx[side.start[pair] : side.start[pair + 1]] for side in (reference, prediction))
    directed = [cKDTree(b).query(a)[0] for a, b in ((p, q), (q, p))]
    return (
        max(float(distances.max()) for distances in directed),
        max(float(np.percentile(distances, percentile)) for distances in directed),
    )
