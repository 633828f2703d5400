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
from evaluation.metrics.literature import CONIC, KIRILLOV, QUALITY
from evaluation.metrics.metric import Example, Metric, MetricFamily, Variant
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

DRAWN = """
aaaaa  aaa..
.....  .....
BBB.c  BB...
BBB..  BB.D.
BBB.e  BB...
"""


def where_present(choice: MetricChoice) -> Iterable[Variant]:
    """The rule ``aggregation.class_present`` as an argument."""
    return [Variant(arguments={"present": choice.class_present})]


OF_MATCHED: dict[str, Any] = {"outlines": True, "symmetric": True, "sources": (KIRILLOV, QUALITY)}
COUNTS: dict[str, Any] = {"each": (where_present,), **OF_MATCHED, **OF_BOTH}

FAMILY = MetricFamily(
    "panoptic",
    "Detection, classification and segmentation in one number",
    "PQ = SQ * RQ mixes the three: read it beside the others. iou_sum is the sum of the IoU of the true "
    "positives. Of a "
    "class: a pair is a true positive if both sides have the class. A class counts in a unit if it occurs on either "
    'side, or, with `aggregation.class_present = "reference"`, in the reference.',
    (
        Metric(
            path=("panoptic", "pq"),
            evaluate=class_mean_pq,
            example=Example(
                DRAWN,
                "Lymphocytes: a has IoU 3/5, c and e are missed, (3/5) / (1 + 2/2) = 3/10. Tumor cells: B has IoU 6/9, "
                "D is spurious, (2/3) / (1 + 1/2) = 4/9. Mean: 67/180.",
                0.372222,
            ),
            **{**COUNTS, "sources": (CONIC, KIRILLOV, QUALITY)},
        ),
        Metric(
            path=("panoptic", "binary", "pq"),
            evaluate=binary_panoptic_quality,
            example=Example(
                DRAWN, "tp = 2 (a, B), fp = 1 (D), fn = 2 (c, e): (3/5 + 6/9) / (2 + 1/2 + 2/2) = 38/105.", 0.361905
            ),
            **COUNTS,
        ),
        Metric(
            path=("panoptic", "per_class", "<class>", "pq"),
            evaluate=panoptic_quality,
            example=Example(DRAWN, "a has IoU 3/5, c and e are missed: (3/5) / (1 + 2/2) = 3/10.", 0.3),
            **COUNTS,
        ),
        Metric(
            path=("panoptic", "sq"),
            evaluate=class_mean_sq,
            example=Example(DRAWN, "Lymphocytes 3/5 (a), tumor cells 6/9 (B). Mean: 19/30.", 0.633333),
            **OF_MATCHED,
        ),
        Metric(
            path=("panoptic", "binary", "sq"),
            evaluate=binary_segmentation_quality,
            example=Example(DRAWN, "(3/5 + 6/9) / 2 = 19/30.", 0.633333),
            **OF_MATCHED,
        ),
        Metric(
            path=("panoptic", "per_class", "<class>", "sq"),
            evaluate=segmentation_quality,
            example=Example(DRAWN, "The only pair, a, has IoU 3/5.", 0.6),
            **OF_MATCHED,
        ),
        Metric(
            path=("panoptic", "rq"),
            evaluate=class_mean_rq,
            example=Example(
                DRAWN,
                "Lymphocytes: a found, c and e missed, 1 / (1 + 2/2) = 1/2. Tumor cells: B found, D spurious, "
                "1 / (1 + 1/2) = 2/3. Mean: 7/12.",
                0.583333,
            ),
            **COUNTS,
        ),
        Metric(
            path=("panoptic", "binary", "rq"),
            evaluate=binary_recognition_quality,
            example=Example(DRAWN, "tp = 2 (a, B), fp = 1 (D), fn = 2 (c, e): 2 / (2 + 1/2 + 2/2) = 4/7.", 0.571429),
            **COUNTS,
        ),
        Metric(
            path=("panoptic", "per_class", "<class>", "rq"),
            evaluate=recognition_quality,
            example=Example(DRAWN, "a found, c and e missed: 1 / (1 + 2/2) = 1/2.", 0.5),
            **COUNTS,
        ),
    ),
)
