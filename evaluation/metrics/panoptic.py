"""Panoptic quality and its parts, PQ = SQ * RQ. It mixes finding, naming and outlining: read it beside the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from evaluation.metrics.undefined import why_undefined
from evaluation.model import MatchCounts, Score


@dataclass(frozen=True, slots=True)
class PanopticCounts:
    """What panoptic quality is made of, for one class: true and false positives, false negatives, sum of IoU."""

    tp: int
    fp: int
    fn: int
    iou_sum: float


def panoptic_quality(counts: PanopticCounts) -> Score:
    """Panoptic quality of one class, PQ = SQ * RQ = iou_sum / (tp + fp/2 + fn/2), in [0, 1].

    Undefined "no-instances" if the class occurs in neither reference nor prediction.
    Works on one case and on pooled counts alike. Kirillov et al., CVPR 2019, Eq. 1.

    >>> panoptic_quality(PanopticCounts(tp=1, fp=1, fn=0, iou_sum=0.75)).value
    0.5
    """
    weight = 2 * counts.tp + counts.fp + counts.fn
    return Score(2 * counts.iou_sum / weight) if weight else Score(None, "no-instances")


def recognition_quality(counts: PanopticCounts) -> Score:
    """Recognition quality of one class, RQ = tp / (tp + fp/2 + fn/2), in [0, 1]: F1 of finding and naming.

    Undefined "no-instances" if the class occurs in neither reference nor prediction. The DQ of HoVer-Net.
    """
    weight = 2 * counts.tp + counts.fp + counts.fn
    return Score(2 * counts.tp / weight) if weight else Score(None, "no-instances")


def segmentation_quality(counts: PanopticCounts) -> Score:
    """Segmentation quality of one class, SQ = iou_sum / tp, in [0, 1]. Undefined without a true positive."""
    if counts.tp:
        return Score(counts.iou_sum / counts.tp)
    return Score(None, why_undefined(counts.fn, counts.fp))


Quality = Callable[[PanopticCounts], Score]


def of_class(counts: MatchCounts, class_id: int) -> PanopticCounts:
    """Counts of one class: a matched pair is a true positive if both sides have the class.

    A pair with two classes is a false positive of one and a false negative of the other.
    """
    tp = int(counts.confusion[class_id, class_id])
    right = (counts.pair_class == class_id).all(axis=1)
    return PanopticCounts(
        tp=tp,
        fp=int(counts.confusion[:, class_id].sum()) - tp,
        fn=int(counts.confusion[class_id].sum()) - tp,
        iou_sum=math.fsum(counts.iou[right]),
    )


def of_all(counts: MatchCounts) -> PanopticCounts:
    """Counts with the classes ignored, for the binary variants."""
    return PanopticCounts(counts.true_positives, counts.false_positives, counts.false_negatives, math.fsum(counts.iou))


def class_mean(counts: MatchCounts, quality: Quality) -> Score:
    """Mean over the classes for which the quality is defined.

    A class counts if it occurs in the reference or in the prediction (for SQ: if it has a true positive). Undefined
    if there is none. On pooled counts the class mean of PQ is the mPQ+ of CoNIC.
    """
    by_class = [quality(of_class(counts, class_id)) for class_id in range(1, len(counts.confusion))]
    values = [score.value for score in by_class if score.value is not None]
    if not values:
        totals = of_all(counts)
        return Score(None, why_undefined(totals.tp + totals.fn, totals.tp + totals.fp))
    return Score(math.fsum(values) / len(values))
