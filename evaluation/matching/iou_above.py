"""Matching rule ``iou_above``: a pair matches if its IoU is strictly above a threshold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluation.matching.assignment import best_assignment
from evaluation.matching.pairs import as_fraction, candidate_pairs, has_rival
from evaluation.model import Instances, Matches, OverlapTable


def match_iou_above(
    table: OverlapTable, reference: Instances, prediction: Instances, *, threshold: float, class_aware: bool
) -> Matches:
    """Pairs with IoU > ``threshold``, compared in integers: exactly at the threshold is no match.

    From 1/2 on a pair is unique among instances that do not overlap on their own side (Kirillov et al., CVPR 2019).
    Wherever candidates compete (a lower threshold, or overlapping instances), an optimal assignment of the competing
    ones is taken: the most pairs, and among those the greatest sum of IoU. Of several optimal ones it is the same for
    any labels and order, since instances are compared in the order of their positions (``best_assignment``).
    ``threshold`` lies in 0 <= t < 1 and has at most six decimals; more are rounded.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> from evaluation.matching.table import overlap_table
    >>> reference = instances_from_labels(np.array([[1, 1, 2, 2, 2]]))
    >>> prediction = instances_from_labels(np.array([[7, 0, 9, 9, 0]]))
    >>> table = overlap_table(reference, prediction)
    >>> match_iou_above(table, reference, prediction, threshold=0.5, class_aware=False).reference_index.tolist()
    [1]
    """
    return match_iou_above_many(table, reference, prediction, [threshold], class_aware=class_aware)[0]


def match_iou_above_many(
    table: OverlapTable,
    reference: Instances,
    prediction: Instances,
    thresholds: Sequence[float],
    *,
    class_aware: bool,
) -> list[Matches]:
    """``match_iou_above`` at each threshold, in their order.

    A pair without a rival at the lowest threshold has none at any other: candidates are looked for once.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> from evaluation.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 2, 2, 2], [7, 0, 9, 9, 0])]
    >>> found = match_iou_above_many(overlap_table(*sides), *sides, [0.5, 0.7], class_aware=False)
    >>> [len(matches) for matches in found]
    [1, 0]
    """
    if not thresholds:
        return []
    limits = [as_fraction(threshold) for threshold in thresholds]
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    pairs = pairs.part(pairs.above(min(limits)))  # the comparison: IoU > threshold, in integers
    contested = np.flatnonzero(has_rival(pairs.reference_index, pairs.prediction_index))
    if len(contested) == 0:
        return [pairs.matches(pairs.above(limit)) for limit in limits]
    left = reference.position_rank()[pairs.reference_index[contested]]
    right = prediction.position_rank()[pairs.prediction_index[contested]]
    iou = pairs.iou()[contested]
    found = []
    for limit in limits:
        kept = pairs.above(limit)
        fought = kept[contested]
        kept[contested[fought]] = best_assignment(left[fought], right[fought], iou[fought], most_pairs=True)
        found.append(pairs.matches(kept))
    return found
