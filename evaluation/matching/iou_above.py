"""Matching rule ``iou_above``: a pair matches if its IoU is strictly above a threshold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from evaluation.matching.order import position_rank
from evaluation.matching.pairs import candidate_pairs, take_matches
from evaluation.model import Bool, Instances, Int64, Matches, OverlapTable

FINEST = 1_000_000  # thresholds are fractions with at most this denominator


def match_iou_above(
    table: OverlapTable, reference: Instances, prediction: Instances, *, threshold: float, class_aware: bool
) -> Matches:
    """Pairs with IoU > ``threshold``, compared in integers: exactly at the threshold is no match.

    From 1/2 on a pair is unique among instances that do not overlap on their own side (Kirillov et al., CVPR 2019).
    Wherever candidates compete (a lower threshold, or overlapping instances), an optimal assignment of the competing
    ones is taken: the most pairs, and among those the greatest sum of IoU. Of several optimal ones it is the same for
    any labels and order, since instances are compared in the order of their first pixels.
    ``threshold`` has at most six decimals; more are rounded. Groups of competitors cost memory by their size squared.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> from evaluation.matching.table import overlap_table
    >>> reference = instances_from_labels(np.array([[1, 1, 2, 2, 2]]))
    >>> prediction = instances_from_labels(np.array([[7, 0, 9, 9, 0]]))
    >>> table = overlap_table(reference, prediction)
    >>> match_iou_above(table, reference, prediction, threshold=0.5, class_aware=False).reference_index.tolist()
    [1]
    """
    limit = Fraction(str(threshold)).limit_denominator(FINEST)
    rows = candidate_pairs(table, reference, prediction, class_aware)
    union = table.union_px()[rows]
    rows = rows[table.intersection_px[rows] * limit.denominator > union * limit.numerator]
    contested = has_rival(table, rows)
    if contested.any():
        fought = rows[contested]
        rows = np.concatenate([rows[~contested], best_assignment(table, fought, reference, prediction)])
    return take_matches(table, rows)


def has_rival(table: OverlapTable, rows: Int64) -> Bool:
    """Which candidates share their reference or prediction with another candidate."""
    of_reference = np.bincount(table.reference_index[rows], minlength=1)
    of_prediction = np.bincount(table.prediction_index[rows], minlength=1)
    rivals = (of_reference[table.reference_index[rows]] > 1) | (of_prediction[table.prediction_index[rows]] > 1)
    return np.asarray(rivals, np.bool_)


def best_assignment(table: OverlapTable, rows: Int64, reference: Instances, prediction: Instances) -> Int64:
    """The candidates to keep: the most pairs, then the greatest total IoU, solved group by connected group."""
    reference_rank = position_rank(reference, table.reference_area_px)[table.reference_index[rows]]
    prediction_rank = position_rank(prediction, table.prediction_area_px)[table.prediction_index[rows]]
    iou = table.intersection_px[rows] / table.union_px()[rows]
    nodes = len(reference) + len(prediction)
    edges = coo_array((np.ones(len(rows)), (reference_rank, len(reference) + prediction_rank)), shape=(nodes, nodes))
    group = connected_components(edges, directed=False)[1][reference_rank]
    order = np.lexsort((prediction_rank, reference_rank, group))
    kept = []
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        left, i = np.unique(reference_rank[members], return_inverse=True)
        right, j = np.unique(prediction_rank[members], return_inverse=True)
        # One pair more always outweighs the IoU of all others.
        gain = np.zeros((len(left), len(right)))
        gain[i, j] = min(len(left), len(right)) + 1 + iou[members]
        at = np.full(gain.shape, -1)
        at[i, j] = members
        chosen = at[linear_sum_assignment(gain, maximize=True)]
        kept.append(chosen[chosen >= 0])
    return np.asarray(rows[np.concatenate(kept)])
