"""Segmentation: how well are the matched nuclei outlined, whatever the class that was predicted?

What is measured on each pair: see the records below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from evaluation.metrics.counts import hits, matched
from evaluation.metrics.metric import Metric, Variant
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

PX: dict[str, Any] = {"better": "lower", "highest": math.inf, "worst": "diagonal_px", "unit": "px"}
UM: dict[str, Any] = {**PX, "worst": "diagonal_um", "unit": "um"}
RATIO: dict[str, Any] = {"better": "one", "highest": math.inf, "worst": None}


def measured(measure: Measure, **properties: Any) -> Iterable[Metric]:
    """The metrics of what is measured on each matched pair: its means and its median."""

    def if_asked_for(choice: MetricChoice) -> Iterable[Variant]:
        return [Variant()] if measure in choice.measures else []

    for path, formula in (
        ((measure,), pair_mean),
        ((f"{measure}_class_mean",), class_mean),
        ((f"{measure}_median",), pair_median),
        (("per_class", "<class>", measure), class_pair_mean),
    ):
        yield Metric(
            path=("segmentation", *path),
            page=f"segmentation.{measure}",
            evaluate=partial(formula, measure=measure),
            each=(if_asked_for,),
            outlines=measure not in OF_POINTS,
            symmetric=measure != "area_ratio" and formula in (pair_mean, pair_median),
            **properties,
        )


METRICS = (
    *measured("iou"),
    *measured("dice"),
    *measured("boundary_iou"),
    *measured("surface_dice"),
    *measured("surface_dice_length"),
    *measured("hausdorff_px", **PX),
    *measured("hausdorff95_px", **PX),
    *measured("mean_surface_distance_px", **PX),
    *measured("centroid_distance_px", **PX),
    *measured("hausdorff_um", **UM),
    *measured("hausdorff95_um", **UM),
    *measured("mean_surface_distance_um", **UM),
    *measured("centroid_distance_um", **UM),
    *measured("area_ratio", **RATIO),
)
