"""The nearest nucleus of the other side: why a nucleus is missed, or a prediction spurious."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nuclei_metrics.metrics.counts import JoinedCases, best_rows
from nuclei_metrics.model import Bool, Float64, Int64
from nuclei_metrics.model.arrays import distinct, expand

_COMPARED_AT_ONCE = 1 << 20  # pairs of places; more are looked for in a tree


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


def nearest_candidates(cases: JoinedCases, *, swapped: bool = False) -> _NearestCandidates:
    """Return the best candidate of each reference nucleus among the predictions of its case.

    swapped  of each prediction among the reference nuclei of its case

    Of equal IoUs the nucleus that comes first by its position is taken, so labels decide nothing.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> from nuclei_metrics.metrics.counts import join_cases
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 0, 0, 2], [7, 7, 7, 0, 0])]
    >>> found = nearest_candidates(join_cases([(*sides, overlap_table(*sides))]))
    >>> found.index.tolist(), found.iou.round(3).tolist(), found.distance_px.tolist()
    ([0, 0], [0.667, 0.0], [0.5, 3.0])
    """
    turn = -1 if swapped else 1
    table, (at, there) = cases.table, cases.centroids_yx[::turn]
    left, right = (table.reference_index, table.prediction_index)[::turn]
    case, case_there = (cases.reference_case(), cases.prediction_case())[::turn]
    rank = cases.ranks[0 if swapped else 1]
    index, iou = np.full(len(at), -1, np.int64), np.zeros(len(at))
    if len(left):
        overlap = table.intersection_px / table.union_px()  # equal fractions give equal floats
        best = best_rows(left, right, overlap, rank)
        index[left[best]], iou[left[best]] = right[best], overlap[best]
    alone = np.flatnonzero((index < 0) & _has_place(at))
    order = np.argsort(rank)
    order = order[_has_place(there)[order]]  # cases stay one behind the other
    bound = np.searchsorted(case_there[order], np.arange(len(cases) + 1))
    first, last = bound[case[alone]], bound[case[alone] + 1]
    if (last - first).sum() <= _COMPARED_AT_ONCE:
        some = first < last
        index[alone[some]] = order[_nearest(at[alone[some]], there[order], first[some], last[some])]
    else:
        for number in distinct(case[alone[first < last]]).tolist():
            asked, others = alone[case[alone] == number], order[bound[number] : bound[number + 1]]
            index[asked] = others[_nearest_in_tree(at[asked], there[others])]
    distance_px = np.full(len(at), np.nan)
    some = index >= 0
    distance_px[some] = np.linalg.norm(at[some] - there[index[some]], axis=1)
    return _NearestCandidates(index, iou, distance_px)


def _nearest(at: Float64, there: Float64, first: Int64, last: Int64) -> Int64:
    """Return the place in ``there`` that is nearest to each place, of those from ``first`` to ``last`` - 1, int64 (N,).

    Of equally near places the first one is taken. Every place has one.
    """
    if not len(at):
        return np.empty(0, np.int64)
    asked, other = np.repeat(np.arange(len(at)), last - first), expand(first, last)
    squared = ((there[other] - at[asked]) ** 2).sum(axis=1)
    least = np.minimum.reduceat(squared, np.cumsum(last - first) - (last - first))
    nearest = np.flatnonzero(squared == least[asked])
    is_first = np.append(True, np.diff(asked[nearest]) > 0)
    return np.asarray(other[nearest[is_first]])


def _nearest_in_tree(at: Float64, there: Float64) -> Int64:
    from scipy.spatial import cKDTree  # slow to import, and only large images need it

    return np.asarray(cKDTree(there).query(at)[1])


def _has_place(at: Float64) -> Bool:
    return np.asarray(np.isfinite(at).all(axis=1))
