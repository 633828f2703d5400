"""Segmentation: how well are the matched nuclei outlined, whatever the class that was predicted?

What is measured on each pair: see the records below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from inspect import cleandoc
from typing import Any

import numpy as np

from evaluation.metrics.counts import hits, matched
from evaluation.metrics.literature import CHENG, DICE, HUTTENLOCHER, JACCARD, LESSONS, NIKOLOV, SURFACE
from evaluation.metrics.metric import Example, Metric, MetricFamily, Variant
from evaluation.metrics.order_statistics import median_of_units
from evaluation.metrics.undefined import code, mean_of, ratio, scores, why_undefined
from evaluation.model import Float64, Int64, Measure, MetricChoice, Scores, Units

OF_POINTS = frozenset({"centroid_distance_px", "centroid_distance_um"})  # need no outlines


def pair_mean(units: Units, measure: Measure) -> Scores:
    """Mean of a measure over all matched pairs: every nucleus weighs the same. Undefined if nothing matched."""
    of = hits(units)
    return where_spaced(ratio(units.sum(measure).sum(axis=(1, 2)), of.tp, of.undefined), measure)


def class_pair_mean(units: Units, measure: Measure, class_id: int) -> Scores:
    """Mean of a measure over the matched pairs whose reference has the class. Undefined if there is none."""
    confusion = units.sum("confusion")
    reason = why_undefined(confusion[:, class_id].sum(axis=1), confusion[:, :, class_id].sum(axis=1))
    total = units.sum(measure)[:, class_id - 1].sum(axis=1)
    return where_spaced(ratio(total, pairs_of_class(units)[:, class_id - 1], reason), measure)


def class_mean(units: Units, measure: Measure) -> Scores:
    """Mean of the class means over the classes of the matched references: every class weighs the same.

    Undefined if nothing matched.
    """
    total, number = units.sum(measure).sum(axis=2), pairs_of_class(units)
    parts = [ratio(total[:, index], number[:, index], code("nothing-matched")) for index in range(number.shape[1])]
    return where_spaced(mean_of(parts, hits(units).undefined), measure)


def pair_median(units: Units, measure: Measure) -> Scores:
    """Median of a measure over all matched pairs; of an even number, the mean of the two in the middle.

    Undefined if nothing matched.
    """
    of, pairs = hits(units), units.table.pairs
    value: Float64 = np.full(len(units), np.nan)
    if measure in pairs.measures:
        value = median_of_units(pairs.measures[measure], pairs.case, units)
    return where_spaced(scores(value, of.tp > 0, of.undefined), measure)


def pairs_of_class(units: Units) -> Int64:
    """Matched pairs by class of the reference, int64 (B, C)."""
    number: Int64 = matched(units).sum(axis=2)
    return number


def where_spaced(found: Scores, measure: Measure) -> Scores:
    """Undefined "no-spacing" for um where a case has no spacing."""
    if measure.endswith("_um"):
        lacking = np.isnan(found.value) & (found.reason == 0)
        found = Scores(found.value, np.where(lacking, code("no-spacing"), found.reason))
    return found


# --- records ----------------------------------------------------------------------------------------------------------

DRAWN = """
aaaaa  aaa..
.....  .....
BBB..  BB...
BBB..  BB...
BBB..  BB...
"""
RATIO: dict[str, Any] = {"better": "one", "highest": math.inf, "worst": None}
PX: dict[str, Any] = {"better": "lower", "highest": math.inf, "worst": "diagonal_px", "unit": "px"}
UM: dict[str, Any] = {**PX, "worst": "diagonal_um", "unit": "um"}


def measured(measure: Measure, text: str, by_hand: str, gives: float, *sources: str, **properties: Any) -> list[Metric]:
    """The metrics of what is measured on each matched pair: its means and its median."""

    def if_asked_for(choice: MetricChoice) -> Iterable[Variant]:
        return [Variant()] if measure in choice.measures else []

    return [
        Metric(
            path=("segmentation", *path),
            page=f"segmentation.{measure}",
            evaluate=partial(formula, measure=measure),
            each=(if_asked_for,),
            text=f"{text}\n\n{cleandoc(formula.__doc__ or '')}",
            outlines=measure not in OF_POINTS,
            sources=(*sources, LESSONS),
            example=Example(DRAWN, by_hand, gives) if formula is pair_mean else None,
            symmetric=measure != "area_ratio" and formula in (pair_mean, pair_median),
            **properties,
        )
        for path, formula in (
            ((measure,), pair_mean),
            ((f"{measure}_class_mean",), class_mean),
            ((f"{measure}_median",), pair_median),
            (("per_class", "<class>", measure), class_pair_mean),
        )
    ]


FAMILY = MetricFamily(
    "segmentation",
    "How well do the outlines of the matched nuclei agree?",
    "Of every matched pair, whatever class was predicted: A and B are the areas of reference and prediction, I what "
    "they share, U = A + B - I. The boundary of a nucleus is its pixels with a 4-neighbour outside it; whether the "
    "border of the image counts as outside is the rule `metrics.boundary`. Distances in um are undefined "
    "(`no-spacing`) where a case has no spacing. Nuclei that are points have no outlines (`points-only`), only a "
    "distance of centroids.",
    (
        *measured(
            "iou",
            'Intersection over union, I / U, in [0, 1]. The "average IoU" of "lessons from MoNuSAC 2020".',
            "a: I = 3, U = 5. B: I = 6, U = 9. (3/5 + 6/9) / 2 = 19/30.",
            0.633333,
            JACCARD,
        ),
        *measured(
            "dice",
            "Dice coefficient, 2 I / (A + B), in [0, 1].",
            "a: 2 * 3 / (5 + 3) = 3/4. B: 2 * 6 / (9 + 6) = 4/5. Mean: 31/40.",
            0.775,
            DICE,
        ),
        *measured(
            "boundary_iou",
            "Boundary IoU (Cheng et al., CVPR 2021): IoU of the pixels within the tolerance of the outline, "
            "inside each nucleus, in [0, 1]. The tolerance is rounded to whole pixels, at least 1.",
            "Tolerance 1 px: the bands are the boundary pixels. a: all pixels, 3/5. B: 8 in the reference, all but the "
            "middle; 6 in the prediction; 5 in both: 5 / (8 + 6 - 5) = 5/9. Mean: 26/45.",
            0.577778,
            CHENG,
        ),
        *measured(
            "surface_dice",
            "Normalised surface Dice (Nikolov et al., JMIR 23(7), 2021): the share of the boundary pixels of "
            "both sides that lie within the tolerance of the other boundary, in [0, 1]. Boundary pixels are counted; "
            "the program of Nikolov et al. sums lengths of contour pieces instead, as surface_dice_length does: other "
            "values, 0.05 apart on average in a comparison.",
            "Tolerance 1 px. a: of 5 + 3 boundary pixels one, 2 px away, is not within it: 7/8. B: all are. "
            "(7/8 + 1) / 2 = 15/16.",
            0.9375,
            NIKOLOV,
        ),
        *measured(
            "surface_dice_length",
            "Normalised surface Dice by length of contour (Nikolov et al., JMIR 23(7), 2021): the share of the length "
            "of both contours that lies within the tolerance of the other contour, in [0, 1]. At each corner of pixels "
            "with pixels in and out around it is a piece of the contour: of length 1 on a straight side, 1 / sqrt(2) "
            "around one pixel or three. The border of the image is outside, whatever `metrics.boundary` says.",
            "Tolerance 1 px. a: 4 corners each, 8 and 4 straight pieces, of which two corners, 2 px away, are not "
            "within it: (12 + 6 s) / (12 + 8 s) with s = 1 / sqrt(2). B: all are. Mean: (58 - 3 sqrt(2)) / 56.",
            0.959953,
            NIKOLOV,
        ),
        *measured(
            "hausdorff_px",
            "Hausdorff distance of the boundaries, px: the farthest that any pixel of one is from the other.",
            "a: the last of 5 pixels is 2 px from the prediction. B: the third column is 1 px from the second. "
            "(2 + 1) / 2.",
            1.5,
            HUTTENLOCHER,
            **PX,
        ),
        *measured(
            "hausdorff95_px",
            "Hausdorff distance of the boundaries with the 95th percentile (linear interpolation) of each directed set "
            "of distances instead of its maximum, px; the larger of the two.",
            "a: the distances are 0, 0, 0, 1, 2; at 95 %, index 0.95 * 4 = 3.8, is 1.8; back they are 0. B: 0 five "
            "times and 1 three times; index 6.65 is 1. (1.8 + 1) / 2.",
            1.4,
            HUTTENLOCHER,
            **PX,
        ),
        *measured(
            "mean_surface_distance_px",
            "Mean distance of the boundary pixels of both sides to the other boundary, px.",
            "a: (0 + 0 + 0 + 1 + 2) / (5 + 3) = 3/8. B: three of 8 boundary pixels are 1 px away, and back one of 6, "
            "the one in the middle: 4/14. Mean: 37/112.",
            0.330357,
            SURFACE,
            **PX,
        ),
        *measured(
            "centroid_distance_px",
            "Distance of the centroids, px.",
            "a: the mean columns are 2 and 1, 1 px. B: 1 and 1/2, 1/2 px. Mean: 3/4.",
            0.75,
            **PX,
        ),
        *measured(
            "hausdorff_um",
            "Hausdorff distance of the boundaries, um: ``hausdorff_px`` times the size of a pixel.",
            "2 px and 1 px at 0.5 um: (1 + 0.5) / 2 = 3/4.",
            0.75,
            HUTTENLOCHER,
            **UM,
        ),
        *measured(
            "hausdorff95_um",
            "95th percentile of the distances of the boundaries, um: ``hausdorff95_px`` times the size of a pixel.",
            "1.8 px and 1 px at 0.5 um: (0.9 + 0.5) / 2 = 7/10.",
            0.7,
            HUTTENLOCHER,
            **UM,
        ),
        *measured(
            "mean_surface_distance_um",
            "Mean distance of the boundary pixels of both sides to the other boundary, um: "
            "``mean_surface_distance_px`` times the size of a pixel.",
            "3/8 px and 4/14 px at 0.5 um: (3/16 + 1/7) / 2 = 37/224.",
            0.165179,
            SURFACE,
            **UM,
        ),
        *measured(
            "centroid_distance_um",
            "Distance of the centroids, um: ``centroid_distance_px`` times the size of a pixel.",
            "1 px and 1/2 px at 0.5 um: (1/2 + 1/4) / 2 = 3/8.",
            0.375,
            **UM,
        ),
        *measured(
            "area_ratio",
            "B / A: above 1 the prediction is too large, below 1 too small. The best value is 1.",
            "a: 3 / 5. B: 6 / 9. Mean: 19/30, too small.",
            0.633333,
            **RATIO,
        ),
    ),
)
