"""Matching rule ``best_iou_any_overlap``: the prediction with the highest IoU, however small that is."""

from __future__ import annotations

from evaluation.matching.best_iou import best_of_each_prediction, best_of_each_reference
from evaluation.matching.pairs import candidate_pairs
from evaluation.model import Instances, Matches, OverlapTable


def match_best_iou_any_overlap(
    table: OverlapTable, reference: Instances, prediction: Instances, *, class_aware: bool
) -> Matches:
    """Each reference takes the prediction with the highest IoU; one shared pixel is enough.

    A prediction may be taken by several references; the one with the highest IoU keeps it, the others stay unmatched:
    they do not look for a second choice. Ties: the instance that comes first. Foucart, Debeir, Decaestecker, "Panoptic
    quality should be avoided as a metric …", Scientific Reports 13, 2023: "the loosest possible sense, i.e. as any
    overlapping pair of annotated objects", with the largest IoU if there are several.

    >>> import numpy as np
    >>> from evaluation.instances.labels import instances_from_labels
    >>> from evaluation.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 1, 2, 2, 2], [0, 0, 7, 7, 7, 9])]
    >>> matches = match_best_iou_any_overlap(overlap_table(*sides), *sides, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([1], [0])
    """
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    best = best_of_each_reference(pairs, prediction)
    return pairs.matches(best_of_each_prediction(pairs, best, reference))
