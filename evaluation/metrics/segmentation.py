"""Segmentation: how well are the matched nuclei outlined, whatever the class that was predicted?

What is measured on each pair, with A and B the areas of reference and prediction, I what they share, U = A + B - I:
``MEASURES`` has a line for each.
"""

from __future__ import annotations

import numpy as np

from evaluation.metrics.counts import hits, matched, without_points
from evaluation.metrics.ranks import weighted_median
from evaluation.metrics.undefined import code, mean_of, ratio, scores, why_undefined
from evaluation.model import Better, Float64, Int64, Measure, Scores, Units

MEASURES: dict[Measure, str] = {
    "iou": "Intersection over union, I / U, in [0, 1].",
    "dice": "Dice coefficient, 2 I / (A + B), in [0, 1].",
    "boundary_iou": "Boundary IoU (Cheng et al., CVPR 2021): IoU of the pixels within the tolerance of the outline, "
    "inside each nucleus, in [0, 1]. The tolerance is rounded to whole pixels, at least 1.",
    "surface_dice": "Normalised surface Dice (Nikolov et al., JMIR 23(7), 2021): the share of the boundary pixels of "
    "both sides that lie within the tolerance of the other boundary, in [0, 1].",
    "hausdorff_px": "Hausdorff distance of the boundaries, px: the farthest that any pixel of one is from the other.",
    "hausdorff95_px": "Hausdorff distance of the boundaries with the 95th percentile (linear interpolation) of each "
    "directed set of distances instead of its maximum, px; the larger of the two.",
    "mean_surface_distance_px": "Mean distance of the boundary pixels of both sides to the other boundary, px.",
    "centroid_distance_px": "Distance of the centroids, px.",
    "hausdorff_um": "Hausdorff distance of the boundaries, um: ``hausdorff_px`` times the size of a pixel.",
    "hausdorff95_um": "95th percentile of the distances of the boundaries, um: ``hausdorff95_px`` times the size of a "
    "pixel.",
    "mean_surface_distance_um": "Mean distance of the boundary pixels of both sides to the other boundary, um: "
    "``mean_surface_distance_px`` times the size of a pixel.",
    "centroid_distance_um": "Distance of the centroids, um: ``centroid_distance_px`` times the size of a pixel.",
    "area_ratio": "B / A: above 1 the prediction is too large, below 1 too small. The best value is 1.",
}
OF_POINTS = frozenset({"centroid_distance_px", "centroid_distance_um"})  # need no outlines


def better(measure: Measure) -> Better:
    """Which direction is better."""
    if measure == "area_ratio":
        return "one"
    return "lower" if measure.endswith(("_px", "_um")) else "higher"


def pair_mean(units: Units, measure: Measure) -> Scores:
    """Mean of a measure over all matched pairs: every nucleus weighs the same. Undefined if nothing matched."""
    of = hits(units)
    return of_outlines(units, ratio(units.sum(measure).sum(axis=(1, 2)), of.tp, of.undefined), measure)


def class_pair_mean(units: Units, measure: Measure, class_id: int) -> Scores:
    """Mean of a measure over the matched pairs whose reference has the class. Undefined if there is none."""
    confusion = units.sum("confusion")
    reason = why_undefined(confusion[:, class_id].sum(axis=1), confusion[:, :, class_id].sum(axis=1))
    total = units.sum(measure)[:, class_id - 1].sum(axis=1)
    return of_outlines(units, ratio(total, pairs_of_class(units)[:, class_id - 1], reason), measure)


def class_mean(units: Units, measure: Measure) -> Scores:
    """Mean of the class means over the classes of the matched references: every class weighs the same.

    Undefined if nothing matched. The "average IoU" of "lessons from MoNuSAC 2020".
    """
    total, number = units.sum(measure).sum(axis=2), pairs_of_class(units)
    parts = [ratio(total[:, index], number[:, index], code("nothing-matched")) for index in range(number.shape[1])]
    return of_outlines(units, mean_of(parts, hits(units).undefined), measure)


def pair_median(units: Units, measure: Measure) -> Scores:
    """Median of a measure over all matched pairs; of an even number, the mean of the two in the middle.

    Undefined if nothing matched.
    """
    of, pairs = hits(units), units.table.pairs
    value: Float64 = np.full(len(units), np.nan)
    if measure in pairs.measures:
        value = weighted_median(pairs.measures[measure], pairs.case, units.weights)
    return of_outlines(units, scores(value, of.tp > 0, of.undefined), measure)


def pairs_of_class(units: Units) -> Int64:
    """Matched pairs by class of the reference, int64 (B, C)."""
    number: Int64 = matched(units).sum(axis=2)
    return number


def of_outlines(units: Units, found: Scores, measure: Measure) -> Scores:
    """Undefined "points-only" where a case has points on a side, "no-spacing" for um where a case has no spacing."""
    if measure not in OF_POINTS:
        found = without_points(units, found)
    if measure.endswith("_um"):
        lacking = np.isnan(found.value) & (found.reason == 0)
        found = Scores(found.value, np.where(lacking, code("no-spacing"), found.reason))
    return found
