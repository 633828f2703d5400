"""The nearest nucleus of the other side: why a nucleus is missed, or a prediction spurious."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nuclei_metrics.metrics.counts import best_rows
from nuclei_metrics.model import Bool, Float64, Instances, Int64, OverlapTable


@dataclass(frozen=True, slots=True, eq=False)
class _NearestCandidates:
    """The best candidate of each nucleus of a side on the other side: the highest IoU, otherwise the nearest centroid.

    index        int64 (N,), the candidate, or -1 if the other side is empty
    iou          float64 (N,), 0 if nothing overlaps
    distance_px  float64 (N,), between the centroids, NaN without a candidate
    """

    index: Int64
    iou: Float64
    distance_px: Float64


def nearest_candidates(
    table: OverlapTable, own: Instances, other: Instances, *, swapped: bool = False
) -> _NearestCandidates:
    """Return the best candidate of each nucleus of ``own`` on the other side.

    swapped  whether ``own`` is the prediction, so the second side of the table

    Of equal IoUs the nucleus that comes first by its position is taken, so labels decide nothing.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 0, 0, 2], [7, 7, 7, 0, 0])]
    >>> found = nearest_candidates(overlap_table(*sides), *sides)
    >>> found.index.tolist(), found.iou.round(3).tolist(), found.distance_px.tolist()
    ([0, 0], [0.667, 0.0], [0.5, 3.0])
    """
    columns = table.reference_index, table.prediction_index
    left, right = columns[::-1] if swapped else columns
    index, iou = np.full(len(own), -1, np.int64), np.zeros(len(own))
    if len(left):
        overlap = table.intersection_px / table.union_px()  # equal fractions give equal floats
        best = best_rows(left, right, overlap, other.position_rank())
        index[left[best]], iou[left[best]] = right[best], overlap[best]
    at, there = own.centroids_yx(), other.centroids_yx()
    alone = np.flatnonzero((index < 0) & _has_place(at))
    order = other.position_order()
    order = order[_has_place(there)[order]]
    if len(alone) and len(order):
        from scipy.spatial import cKDTree

        index[alone] = order[cKDTree(there[order]).query(at[alone])[1]]
    distance_px = np.full(len(own), np.nan)
    some = index >= 0
    distance_px[some] = np.linalg.norm(at[some] - there[index[some]], axis=1)
    return _NearestCandidates(index, iou, distance_px)


def _has_place(at: Float64) -> Bool:
    return np.asarray(np.isfinite(at).all(axis=1))
