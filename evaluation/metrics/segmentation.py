"""Segmentation: how well are the matched nuclei outlined, whatever the class that was predicted?"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from evaluation.metrics.undefined import why_undefined
from evaluation.model import Float64, MatchCounts, Score

Measure = Literal["iou", "dice", "hausdorff_px", "hausdorff95_px"]
MEASURES: tuple[Measure, ...] = ("iou", "dice", "hausdorff_px", "hausdorff95_px")


def pair_mean(counts: MatchCounts, measure: Measure) -> Score:
    """Mean of a measure over all matched pairs: every nucleus weighs the same. Undefined if nothing matched.

    iou ``I / U`` and dice ``2 I / (A + B)`` in [0, 1]; hausdorff_px and hausdorff95_px: see ``hausdorff_distances``.
    """
    values: Float64 = getattr(counts, measure)
    if len(values) == 0:
        references = counts.true_positives + counts.false_negatives
        return Score(None, why_undefined(references, counts.true_positives + counts.false_positives))
    return Score(math.fsum(values) / len(values))


def class_pair_mean(counts: MatchCounts, measure: Measure, class_id: int) -> Score:
    """Mean of a measure over the matched pairs whose reference has the class. Undefined if there is none."""
    values: Float64 = getattr(counts, measure)[counts.pair_class[:, 0] == class_id]
    if len(values) == 0:
        references = int(counts.confusion[class_id].sum())
        return Score(None, why_undefined(references, int(counts.confusion[:, class_id].sum())))
    return Score(math.fsum(values) / len(values))


def class_mean(counts: MatchCounts, measure: Measure) -> Score:
    """Mean of the class means over the classes of the matched references: every class weighs the same.

    Undefined if nothing matched. The "average IoU" of "lessons from MoNuSAC 2020".
    """
    classes = np.unique(counts.pair_class[:, 0])
    means = [class_pair_mean(counts, measure, int(class_id)).value for class_id in classes]
    if not means:
        return pair_mean(counts, measure)
    return Score(math.fsum(value for value in means if value is not None) / len(means))
