"""The quality of each matched pair in [0, 1]; a missed or spurious nucleus has 0. Covered and overall add it up.

A score such as IoU is its own quality. A distance d has the quality 1 - min(d, cap) / cap. Qualities are whole numbers
of 2^-41 (below 5e-13), so that sums inside a case are exact: the order of the nuclei changes no digit. A sum of more
than 2^22 of them does not fit 64 bits, so it is made of two halves (``join_halves``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evaluation.metrics.metric import Empty, Metric, Variant
from evaluation.metrics.segmentation import OF_POINTS, where_spaced
from evaluation.metrics.undefined import Numbers, Reasons, code, ratio
from evaluation.model import Float64, Int64, Measure, MetricChoice, Scores, Units

ONE = 2**41
HALF = 2**21  # sums of the upper and the lower half of the digits are exact for up to 2^32 nuclei


def quality_of_pairs(units: Units, measure: Measure, cap: float | None) -> Int64:
    """Quality of every matched pair of the table, times ``ONE``, int64 (T,); 0 where it was not measured.

    cap  of a distance: nothing costs more; None for a score in [0, 1]
    """
    values = units.table.pairs.measures.get(measure)
    if values is None:
        return np.zeros(len(units.table.pairs.case), np.int64)
    quality = values if cap is None else 1 - np.minimum(values, cap) / cap
    return np.rint(np.nan_to_num(quality) * ONE).astype(np.int64)


def join_halves(upper: Any, lower: Any) -> Float64:
    """``HALF`` times sums of quality // HALF, plus sums of quality % HALF: the sum, rounded once; float64."""
    return np.asarray(upper * float(HALF) + lower)


def mean_quality(
    units: Units, total: Float64, number: Int64, measure: Measure, cap: float | None, reason: Reasons | np.int8
) -> Scores:
    """``total / (ONE number)`` of each unit as the value of a measure; undefined for the reason where the number is 0.

    total   sum of qualities, times ``ONE``, float64 (B,)
    number  int64 (B,), how many nuclei it is divided by
    """
    found = ratio(total, number * float(ONE), reason)
    if cap is not None:
        found = Scores(cap * (1 - found.value), found.reason)
    values = units.table.pairs.measures.get(measure)
    if values is not None and np.isnan(values).any():  # distances in um of cases without spacing
        lacking = units.weights @ np.bincount(units.table.pairs.case[np.isnan(values)], minlength=len(units.table)) > 0
        found = Scores(np.where(lacking, np.nan, found.value), found.reason)
    return where_spaced(found, measure)


def why_no_reference(confusion: Numbers, class_id: int = 0) -> Reasons:
    """Why there is no reference nucleus, of a class or of all (0): "no-instances" or "no-reference", int8 (B,)."""
    predicted = confusion[:, :, class_id].sum(axis=1) if class_id else confusion[:, :, 1:].sum(axis=(1, 2))
    return np.where(predicted == 0, code("no-instances"), code("no-reference"))


# --- records ----------------------------------------------------------------------------------------------------------

SCORES: tuple[Measure, ...] = ("iou", "dice", "boundary_iou", "surface_dice", "surface_dice_length")
DISTANCES: tuple[Measure, ...] = tuple(
    f"{name}_{unit}"  # type: ignore[misc]
    for unit in ("px", "um")
    for name in ("hausdorff", "hausdorff95", "mean_surface_distance", "centroid_distance")
)


def quality_metrics(
    family: str,
    formulas: Mapping[str, Callable[..., Scores]],
    empty: Empty,
    each: tuple[Callable[[MetricChoice], Iterable[Variant]], ...] = (),
    **properties: Any,
) -> Iterable[Metric]:
    """The metrics of a family for every measure that a missed nucleus can have a worst value of.

    formulas  by what follows the name of the measure in the path; the first one is symmetric if the family is
    empty     of scores; of distances the cap stands for the numbers in it
    """

    def if_asked_for(choice: MetricChoice, measure: Measure) -> Iterable[Variant]:
        if measure not in choice.measures:
            return []
        if measure in SCORES:
            return [Variant()]
        cap = choice.distance_cap_px if measure.endswith("_px") else choice.distance_cap_um
        if cap is None:
            raise ValueError(f"{measure} has no distance cap")
        return [Variant(arguments={"cap": cap}, properties={"highest": cap, "worst": cap})]

    for measure in (*SCORES, *DISTANCES):
        is_distance = measure in DISTANCES
        of_measure: dict[str, Any] = {"empty": empty}
        if is_distance:
            capped = Empty(empty.both_sides, None, empty.no_reference if family == "covered" else None, None)
            of_measure = {"better": "lower", "unit": measure[-2:], "empty": capped}
            of_measure["limit"] = "`metrics.distance_cap_px` (`_um`)"
        for suffix, formula in formulas.items():
            yield Metric(
                path=(family, measure + suffix),
                page=f"{family}.{'distance' if is_distance else 'score'}",
                evaluate=partial(formula, measure=measure),
                each=(partial(if_asked_for, measure=measure), *each),
                outlines=measure not in OF_POINTS,
                missed="worse",
                symmetric=not suffix and family == "overall",
                **of_measure,
                **properties,
            )
