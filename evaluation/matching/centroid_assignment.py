"""Matching rule ``centroid_assignment``: the most pairs within a radius, and among those the least total distance."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from evaluation.matching.distances import ClosePairs, close_pairs
from evaluation.model import Float64, Instances, Int64, Matches, OverlapTable

DENSE_ENTRIES = 1 << 14  # groups with a larger table of all pairs are solved without it


def match_centroid_assignment(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    table: OverlapTable | None = None,
) -> Matches:
    """The optimal assignment of pairs with a distance of at most ``radius_px``: the most pairs, then the least total.

    The distance is that of the centroids, or of the points. Of several optimal assignments it is the same for any
    order and ids of the instances, since points are compared in the order of y, x and class, others in that of their
    first pixels. ``table`` is the overlap table, if there is one already; points need none.
    Raises ValueError if the radius is negative or not finite.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> reference = instances_from_labels(np.array([[1, 0, 0, 2, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7, 0, 0, 9]]))
    >>> matches = match_centroid_assignment(reference, prediction, radius_px=2, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0, 1], [0, 1])
    """
    pairs = close_pairs(reference, prediction, radius_px=radius_px, class_aware=class_aware)
    chosen = np.concatenate([np.empty(0, np.int64), *(best_of_group(pairs, group) for group in rival_groups(pairs))])
    return pairs.matches(chosen, reference, prediction, table)


def rival_groups(pairs: ClosePairs) -> list[Int64]:
    """The pairs that compete with each other, directly or through others; those without a rival in one group."""
    references, predictions = len(pairs.reference_order), len(pairs.prediction_order)
    if len(pairs.reference) == 0:
        return []
    nodes = references + predictions
    edges = coo_array((np.ones(len(pairs.reference)), (pairs.reference, references + pairs.prediction)), (nodes, nodes))
    group = connected_components(edges, directed=False)[1][pairs.reference]
    size = np.bincount(group)[group]
    order = np.lexsort((pairs.prediction, pairs.reference, np.where(size == 1, -1, group)))
    key = np.where(size == 1, -1, group)[order]
    return np.split(order, np.flatnonzero(np.diff(key)) + 1)


def best_of_group(pairs: ClosePairs, members: Int64) -> Int64:
    """The pairs of a group to keep; members are sorted by reference, then prediction."""
    left, i = np.unique(pairs.reference[members], return_inverse=True)
    right, j = np.unique(pairs.prediction[members], return_inverse=True)
    if len(left) == len(right) == len(members):
        return members
    distance = np.sqrt(pairs.squared_px[members])
    # One pair more always outweighs the distances of all others.
    farthest = distance.max() + 1.0
    bonus = farthest * (min(len(left), len(right)) + 1)
    if len(left) * len(right) <= DENSE_ENTRIES:
        gain = np.zeros((len(left), len(right)))
        gain[i, j] = bonus - distance
        at = np.full(gain.shape, -1)
        at[i, j] = members
        chosen = at[linear_sum_assignment(gain, maximize=True)]
        return np.asarray(chosen[chosen >= 0])
    return members[sparse_assignment(i, j, distance + 1.0, bonus)]


def sparse_assignment(i: Int64, j: Int64, cost: Float64, bonus: float) -> Int64:
    """The edges of the cheapest assignment of all rows, where a row may stay alone for ``bonus``, (K,).

    Rows may stay alone in a column of their own, so that a full matching always exists. Costs are above 0, because
    scipy drops zeros. Edges are sorted by row, then column.
    """
    rows, columns = int(i.max()) + 1, int(j.max()) + 1
    alone = np.arange(rows)
    weight = np.concatenate([cost, np.full(rows, bonus)])
    place = np.concatenate([i, alone]), np.concatenate([j, columns + alone])
    row, column = min_weight_full_bipartite_matching(csr_array((weight, place), shape=(rows, columns + rows)))
    paired = column < columns
    return np.asarray(np.searchsorted(i * columns + j, row[paired] * columns + column[paired]))
