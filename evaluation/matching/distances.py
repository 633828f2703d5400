"""Pairs of nuclei whose centroids are close to each other: the candidates of the rules that match by distance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from evaluation.matching.order import position_rank
from evaluation.matching.table import overlap_table
from evaluation.model import Bool, Float64, Instances, Int64, Matches, OverlapTable

PAIRS_AT_ONCE = 1 << 21  # pairs that are held before those that cannot match are left out
MARGIN = 1 + 1e-9  # of the search, whose rounding is not ours; every pair it finds is compared again


@dataclass(frozen=True, slots=True, eq=False)
class ClosePairs:
    """Pairs whose centroids lie within the radius, (P,); instances are named by their place in an order of positions.

    reference, prediction              int64 (P,), places: ties are decided by them
    squared_px                         float64 (P,), squared distance of the centroids
    reference_order, prediction_order  int64, the instance at each place
    """

    reference: Int64
    prediction: Int64
    squared_px: Float64
    reference_order: Int64
    prediction_order: Int64

    def matches(
        self, chosen: Int64, reference: Instances, prediction: Instances, table: OverlapTable | None
    ) -> Matches:
        """The chosen pairs as matches, sorted by reference; with what they share, unless a side is points."""
        left = self.reference_order[self.reference[chosen]]
        right = self.prediction_order[self.prediction[chosen]]
        order = np.argsort(left)
        left, right = left[order], right[order]
        intersection = union = np.zeros(len(left), np.int64)
        if reference.point_yx is None and prediction.point_yx is None:
            table = overlap_table(reference, prediction) if table is None else table
            intersection = shared_px(table, left, right)
            union = table.reference_area_px[left] + table.prediction_area_px[right] - intersection
        return Matches(left.astype(np.int32), right.astype(np.int32), intersection, union)


def close_pairs(reference: Instances, prediction: Instances, *, radius_px: float, class_aware: bool) -> ClosePairs:
    """All pairs with a distance of centroids of at most ``radius_px`` (squares are compared) that could match.

    A reference that shares predictions with k - 1 others never needs more than its k nearest ones: under either rule
    one of these is left for it. So the pairs that are kept are bounded by the references and their density, whatever
    the predictions are; at most about ``PAIRS_AT_ONCE``, or those of one reference, are held besides.
    Raises ValueError if the radius is negative or not finite.
    """
    if not 0 <= radius_px < np.inf:
        raise ValueError(f"a radius of {radius_px} px; a finite number from 0 on")
    orders = [position_order(side) for side in (reference, prediction)]
    sides = zip((reference, prediction), orders, strict=True)
    left, right = (np.ascontiguousarray(side.centroids_yx()[order]) for side, order in sides)
    tree = cKDTree(right)
    reach = radius_px * MARGIN
    count = tree.query_ball_point(left, reach, return_length=True)
    enough = cKDTree(left).query_ball_point(left, 2 * reach * MARGIN, return_length=True)
    found: list[tuple[Int64, Int64, Float64]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for part in batches(count):
        near = cKDTree(left[part]).sparse_distance_matrix(tree, reach, output_type="ndarray")
        i, j = near["i"] + part.start, near["j"]
        squared = ((left[i] - right[j]) ** 2).sum(axis=1)
        kept = squared <= radius_px * radius_px
        if class_aware:
            kept &= reference.class_id[orders[0][i]] == prediction.class_id[orders[1][j]]
        i, j, squared = i[kept], j[kept], squared[kept]
        if np.any(count[part] > enough[part]):
            nearest = nearest_of_each(i, j, squared, enough)
            i, j, squared = i[nearest], j[nearest], squared[nearest]
        found.append((i, j, squared))
    i, j, squared = (np.concatenate(column) for column in zip(*found, strict=True))
    return ClosePairs(i, j, squared, *orders)


def position_order(instances: Instances) -> Int64:
    """The instances that have a centroid, in an order that owes nothing to their ids, int64.

    Points by y, x and class; others by ``position_rank``. What agrees in all of it keeps the order of the file.
    """
    if instances.point_yx is None:
        areas = instances.areas_px()
        order = np.argsort(position_rank(instances, areas))
        return np.asarray(order[areas[order] > 0])
    y, x = instances.point_yx.T
    return np.lexsort((instances.class_id, x, y))


def batches(count: Int64) -> Iterator[slice]:
    """References whose pairs, as many as are counted for each, go together."""
    total = np.cumsum(count)
    first = 0
    while first < len(count):
        before = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, before + PAIRS_AT_ONCE, side="right")))
        yield slice(first, last)
        first = last


def nearest_of_each(i: Int64, j: Int64, squared: Float64, enough: Int64) -> Bool:
    """Which pairs are among the first ``enough[i]`` of their reference, by distance, then by place, bool (P,)."""
    order = np.lexsort((j, squared, i))
    owner = i[order]
    nearest = np.empty(len(i), np.bool_)
    nearest[order] = np.arange(len(i)) - np.searchsorted(owner, owner) < enough[owner]
    return nearest


def shared_px(table: OverlapTable, reference_index: Int64, prediction_index: Int64) -> Int64:
    """Pixels that each pair shares, int64 (T,); 0 for pairs that are not in the table."""
    span = len(table.prediction_area_px)
    key = table.reference_index.astype(np.int64) * span + table.prediction_index
    wanted = reference_index.astype(np.int64) * span + prediction_index
    place = np.searchsorted(key, wanted)
    known = np.append(key, -1)[place] == wanted
    return np.where(known, np.append(table.intersection_px, 0)[place], 0)
