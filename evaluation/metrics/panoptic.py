"""Panoptic quality and its parts, PQ = SQ * RQ. It mixes detection, classification and segmentation.

For a class, a matched pair is a true positive if both sides have the class; a pair with two classes is a false positive
of one and a false negative of the other. ``present`` "reference" leaves out classes that the reference does not have,
as PanNuke does: predictions of them cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from evaluation.metrics.counts import Hits, class_hits, hits, if_present
from evaluation.metrics.detection import OF_BOTH, f1
from evaluation.metrics.metric import Metric, Variant
from evaluation.metrics.undefined import mean_of, ratio
from evaluation.model import ClassPresence, Float64, MetricChoice, Scores, Units


def panoptic_quality(units: Units, class_id: int, present: ClassPresence = "either") -> Scores:
    """Panoptic quality of one class, PQ = SQ * RQ = iou_sum / (tp + fp/2 + fn/2), in [0, 1].

    Undefined "no-instances" if the class occurs in neither reference nor prediction. Kirillov et al., CVPR 2019, Eq. 1.
    """
    found = panoptic_quality_of(class_hits(units, class_id), class_iou_sum(units, class_id))
    return if_present(units, found, present, class_id)


def segmentation_quality(units: Units, class_id: int) -> Scores:
    """Segmentation quality of one class, SQ = iou_sum / tp, in [0, 1]. Undefined without a true positive."""
    of = class_hits(units, class_id)
    return ratio(class_iou_sum(units, class_id), of.tp, of.undefined)


def recognition_quality(units: Units, class_id: int, present: ClassPresence = "either") -> Scores:
    """Recognition quality of one class, RQ = tp / (tp + fp/2 + fn/2), in [0, 1]: F1 of detection and
    classification.

    Undefined "no-instances" if the class occurs in neither reference nor prediction. The DQ of HoVer-Net.
    """
    return if_present(units, f1(class_hits(units, class_id)), present, class_id)


def binary_panoptic_quality(units: Units, present: ClassPresence = "either") -> Scores:
    """Panoptic quality with the classes ignored, PQ = iou_sum / (tp + fp/2 + fn/2), in [0, 1].

    Undefined "no-instances" if both sides are empty. The bPQ of PanNuke.
    """
    return if_present(units, panoptic_quality_of(hits(units), iou_sum(units)), present)


def binary_segmentation_quality(units: Units) -> Scores:
    """Segmentation quality with the classes ignored, SQ = iou_sum / tp, in [0, 1]. Undefined if nothing matched."""
    of = hits(units)
    return ratio(iou_sum(units), of.tp, of.undefined)


def binary_recognition_quality(units: Units, present: ClassPresence = "either") -> Scores:
    """Recognition quality with the classes ignored, RQ = tp / (tp + fp/2 + fn/2), in [0, 1]: the F1 of detection.

    Undefined "no-instances" if both sides are empty.
    """
    return if_present(units, f1(hits(units)), present)


def class_mean(units: Units, quality: Callable[..., Scores]) -> Scores:
    """Mean of a quality over the classes for which it is defined, in [0, 1].

    A class counts if it occurs in the reference or in the prediction (for SQ: if it has a true positive). Undefined
    if there is none. On pooled counts the class mean of PQ is the mPQ+ of CoNIC.
    """
    classes = range(1, units.sum("confusion").shape[1])
    return mean_of([quality(units, class_id=class_id) for class_id in classes], hits(units).undefined)


def class_mean_pq(units: Units, present: ClassPresence = "either") -> Scores:
    """Mean of PQ over the classes that occur in the reference or in the prediction, in [0, 1].

    Undefined "no-instances" if there is none. Pooled it is the mPQ+ of CoNIC (Graham et al., Medical Image Analysis 92,
    2024); as a mean over cases the mPQ of PanNuke.
    """
    return class_mean(units, partial(panoptic_quality, present=present))


def class_mean_sq(units: Units) -> Scores:
    """Mean of SQ over the classes that have a true positive, in [0, 1]. Undefined if there is none."""
    return class_mean(units, segmentation_quality)


def class_mean_rq(units: Units, present: ClassPresence = "either") -> Scores:
    """Mean of RQ over the classes that occur in the reference or in the prediction, in [0, 1].

    Undefined "no-instances" if there is none.
    """
    return class_mean(units, partial(recognition_quality, present=present))


def panoptic_quality_of(of: Hits, total_iou: Float64) -> Scores:
    return ratio(2 * total_iou, 2 * of.tp + of.fp + of.fn, of.undefined)


def iou_sum(units: Units) -> Float64:
    """Sum of the IoU of all matched pairs of each unit, float64 (B,)."""
    total: Float64 = units.sum("iou").sum(axis=(1, 2))
    return total


def class_iou_sum(units: Units, class_id: int) -> Float64:
    """Sum of the IoU of the pairs whose sides both have the class, float64 (B,)."""
    total: Float64 = units.sum("iou")[:, class_id - 1, 1]
    return total


# --- records ----------------------------------------------------------------------------------------------------------


def where_present(choice: MetricChoice) -> Iterable[Variant]:
    """The rule ``aggregation.class_present`` as an argument."""
    return [Variant(arguments={"present": choice.class_present})]


OF_MATCHED: dict[str, Any] = {"outlines": True, "symmetric": True}
COUNTS: dict[str, Any] = {"each": (where_present,), "outlines": True, **OF_BOTH}

METRICS = tuple(
    Metric(path=("panoptic", *path), evaluate=formula, **(OF_MATCHED if path[-1] == "sq" else COUNTS))
    for path, formula in (
        (("pq",), class_mean_pq),
        (("binary", "pq"), binary_panoptic_quality),
        (("per_class", "<class>", "pq"), panoptic_quality),
        (("sq",), class_mean_sq),
        (("binary", "sq"), binary_segmentation_quality),
        (("per_class", "<class>", "sq"), segmentation_quality),
        (("rq",), class_mean_rq),
        (("binary", "rq"), binary_recognition_quality),
        (("per_class", "<class>", "rq"), recognition_quality),
    )
)
