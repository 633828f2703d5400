"""Matching rule ``iou_assignment``: the pairs above a threshold with the greatest total IoU."""

from __future__ import annotations

from evaluation.matching.assignment import best_assignment
from evaluation.matching.pairs import as_fraction, candidate_pairs
from evaluation.model import Instances, Matches, OverlapTable


def match_iou_assignment(
    table: OverlapTable, reference: Instances, prediction: Instances, *, threshold: float, class_aware: bool
) -> Matches:
    """The optimal assignment of pairs with IoU > ``threshold``: the greatest total IoU, however many pairs that takes.

    ``iou_above`` takes the most pairs first; this rule leaves a nucleus alone if that lets the others overlap better.
    The two agree wherever no candidates compete, so from 1/2 on among instances that do not overlap on their own side.
    IoU is compared with the threshold in integers. Of several optimal assignments it is the same for any labels and
    order, since instances are compared in the order of their positions (``best_assignment``).
    ``threshold`` lies in 0 <= t < 1 and has at most six decimals; more are rounded. Kuhn, Naval Research Logistics
    Quarterly 2, 1955.

    >>> import numpy as np
    >>> from evaluation.instances.labels import instances_from_labels
    >>> from evaluation.matching.table import overlap_table
    >>> reference = instances_from_labels(np.array([[1, 1, 1, 1, 2, 2]]))
    >>> prediction = instances_from_labels(np.array([[5, 7, 7, 7, 7, 0]]))
    >>> table = overlap_table(reference, prediction)
    >>> matches = match_iou_assignment(table, reference, prediction, threshold=0, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()  # 3/5 is more than 1/4 + 1/5
    ([0], [1])
    """
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    pairs = pairs.part(pairs.above(as_fraction(threshold)))
    left = reference.position_rank()[pairs.reference_index]
    right = prediction.position_rank()[pairs.prediction_index]
    return pairs.matches(best_assignment(left, right, pairs.iou(), most_pairs=False))
