"""Matching rule ``best_iou_centroid_inside``: the prediction with the highest IoU, if its centroid is inside."""

from __future__ import annotations

import numpy as np

from evaluation.matching.best_iou import best_of_each_prediction, best_of_each_reference
from evaluation.matching.pairs import candidate_pairs
from evaluation.model import Bool, Instances, Int32, Int64, Matches, OverlapTable


def match_best_iou_centroid_inside(
    table: OverlapTable, reference: Instances, prediction: Instances, *, class_aware: bool
) -> Matches:
    """Each reference takes the prediction with the highest IoU; it matches if the prediction's centroid lies inside.

    "Inside": the pixel that holds the centroid (``Instances.centroid_pixels_yx``) is one of the reference's. If
    reference instances overlap, a prediction may be accepted by several; the one with the highest IoU keeps it, the
    others stay unmatched. Ties: the instance that comes first.
    Foucart, Debeir, Decaestecker, "lessons from MoNuSAC 2020", section 3.2.1.
    """
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    best = best_of_each_reference(pairs, prediction)
    inside = centroid_inside(reference, prediction, pairs.reference_index[best], pairs.prediction_index[best])
    return pairs.matches(best_of_each_prediction(pairs, best[inside], reference))


def centroid_inside(
    reference: Instances, prediction: Instances, reference_index: Int32, prediction_index: Int32
) -> Bool:
    """For each pair: is the pixel that holds the prediction's centroid one of the reference instance's?"""
    height, width = reference.shape_yx
    span = height * width + 1
    y, x = prediction.centroid_pixels_yx()[prediction_index].T
    wanted = reference_index.astype(np.int64) * span + y * width + x
    order = reference.runs_by_instance()
    base: Int64 = reference.run_instance[order] * np.int64(span)
    start, stop = base + reference.run_start[order], base + reference.run_stop[order]
    run = np.searchsorted(start, wanted, side="right") - 1
    return np.asarray((run >= 0) & (wanted < stop[np.maximum(run, 0)]))
