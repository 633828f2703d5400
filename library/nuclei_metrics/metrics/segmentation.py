"""How well are the matched nuclei outlined, whatever the class that was predicted?

The families ``segmentation``, ``panoptic`` (with detection and classification in one number) and ``sizes`` (small and
large nuclei apart).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.metrics import metric
from nuclei_metrics.metrics.counts import JoinedCases, class_ids, hits, if_present, matched
from nuclei_metrics.metrics.curves import best_from_here, mean_at, needed_for_recalls, probabilities
from nuclei_metrics.metrics.detection import OF_BOTH, f1
from nuclei_metrics.metrics.order_statistics import median_of_units, rank, tie_numbers
from nuclei_metrics.model import Bool, ClassPresence, Float64, Int64, Matches, Measure, MetricChoice, Scores, Units
from nuclei_metrics.model.counts import MEASURES


def pair_mean(units: Units, measure: Measure) -> Scores:
    """Mean of a measure over all matched pairs: every nucleus weighs the same. Undefined if nothing matched."""
    counts = hits(units)
    return where_spaced(metric.ratio(units.sum(measure).sum(axis=(1, 2)), counts.tp, counts.undefined), measure)


def _class_pair_mean(units: Units, measure: Measure, class_id: int) -> Scores:
    """Mean of a measure over the matched pairs whose reference has the class. Undefined if there is none."""
    total, number = units.sum(measure)[:, class_id - 1].sum(axis=1), _pairs_of_class(units)[:, class_id - 1]
    return where_spaced(metric.ratio(total, number, hits(units, class_id).undefined), measure)


def class_mean(units: Units, measure: Measure) -> Scores:
    """Mean of the class means over the classes of the matched references: every class weighs the same.

    Undefined if nothing matched.
    """
    total, number = units.sum(measure).sum(axis=2), _pairs_of_class(units)
    parts = [
        metric.ratio(total[:, index], number[:, index], metric.code("nothing-matched"))
        for index in range(number.shape[1])
    ]
    return where_spaced(metric.mean_of(parts, hits(units).undefined), measure)


def _pair_median(units: Units, measure: Measure) -> Scores:
    """Median of a measure over all matched pairs; of an even number, the mean of the two in the middle.

    Undefined if nothing matched.
    """
    counts, pairs = hits(units), units.table.pairs
    value: Float64 = np.full(len(units), np.nan)
    if measure in pairs.measures:
        value = median_of_units(pairs.measures[measure], pairs.case, units)
    return where_spaced(metric.scores(value, counts.tp > 0, counts.undefined), measure)


def _pairs_of_class(units: Units) -> Int64:
    """Matched pairs by class of the reference, int64 (B, C)."""
    number: Int64 = matched(units).sum(axis=2)
    return number


def where_spaced(score: Scores, measure: Measure) -> Scores:
    """Undefined "no-spacing" for um where a case has no spacing."""
    if measure.endswith("_um"):
        lacking = np.isnan(score.value) & (score.reason == 0)
        score = Scores(score.value, np.where(lacking, metric.code("no-spacing"), score.reason))
    return score


def is_distance(measure: str) -> bool:
    """Return whether a measure of matched pairs is a distance: less is better, and it has a unit."""
    return measure.endswith(("_px", "_um"))


def _measure_properties(measure: Measure) -> dict[str, Any]:
    """Return the properties of the metrics of a measure: a missing case costs a distance the diagonal of the image."""
    if measure == "area_ratio":
        return {"better": "one", "highest": math.inf, "worst": None}
    if not is_distance(measure):
        return {}
    unit = measure[-2:]
    return {"better": "lower", "highest": math.inf, "worst": f"diagonal_{unit}", "unit": unit}


def _if_measured(choice: MetricChoice, measure: Measure) -> Iterable[metric.Variant]:
    return [metric.Variant()] if measure in choice.measures else []


SEGMENTATION = tuple(
    metric.Metric(
        path=("segmentation", *path),
        page=f"segmentation.{measure}",
        evaluate=partial(formula, measure=measure),
        each=(partial(_if_measured, measure=measure),),
        outlines=measure not in metric.OF_POINTS,
        symmetric=measure != "area_ratio" and formula in (pair_mean, _pair_median),
        **_measure_properties(measure),
    )
    for measure in MEASURES
    for path, formula in (
        ((measure,), pair_mean),
        ((f"{measure}_class_mean",), class_mean),
        ((f"{measure}_median",), _pair_median),
        (("per_class", "<class>", measure), _class_pair_mean),
    )
)

# --- panoptic ---------------------------------------------------------------------------------------------------------

# Panoptic quality and its parts, PQ = SQ * RQ. It mixes detection, classification and segmentation.
#
# For a class, a matched pair is a true positive if both sides have the class; a pair with two classes is a false
# positive of one and a false negative of the other. ``present`` "reference" leaves out classes that the reference does
# not have, as PanNuke does: predictions of them cost nothing.


def panoptic_quality(units: Units, class_id: int = 0, present: ClassPresence = "either") -> Scores:
    """Panoptic quality of one class, PQ = SQ * RQ = iou_sum / (tp + fp/2 + fn/2), in [0, 1].

    Undefined "no-instances" if the class occurs in neither reference nor prediction. Kirillov et al., CVPR 2019, Eq. 1.
    """
    counts = hits(units, class_id)
    quality = metric.ratio(2 * _iou_sum(units, class_id), 2 * counts.tp + counts.fp + counts.fn, counts.undefined)
    return if_present(units, quality, present, class_id)


def segmentation_quality(units: Units, class_id: int = 0) -> Scores:
    """Segmentation quality of one class, SQ = iou_sum / tp, in [0, 1]. Undefined without a true positive."""
    counts = hits(units, class_id)
    return metric.ratio(_iou_sum(units, class_id), counts.tp, counts.undefined)


def recognition_quality(units: Units, class_id: int = 0, present: ClassPresence = "either") -> Scores:
    """Recognition quality of one class, RQ = tp / (tp + fp/2 + fn/2), in [0, 1]: F1 of detection and
    classification.

    Undefined "no-instances" if the class occurs in neither reference nor prediction. The DQ of HoVer-Net.
    """
    return if_present(units, f1(hits(units, class_id)), present, class_id)


def _mean_over_classes(units: Units, formula: Callable[..., Scores], **arguments: Any) -> Scores:
    """Mean over the classes for which it is defined, in [0, 1]. Undefined if there is none."""
    parts = [formula(units, class_id=class_id, **arguments) for class_id in class_ids(units)]
    return metric.mean_of(parts, hits(units).undefined)


def _iou_sum(units: Units, class_id: int) -> Float64:
    """Sum of the IoU of all matched pairs of each unit (0), or of those whose sides both have the class, (B,)."""
    total = units.sum("iou")
    return np.asarray(total[:, class_id - 1, 1] if class_id else total.sum(axis=(1, 2)))


def _where_present(choice: MetricChoice) -> Iterable[metric.Variant]:
    """The rule ``aggregation.class_present`` as an argument."""
    return [metric.Variant(arguments={"present": choice.class_present})]


PANOPTIC = tuple(
    metric.Metric(path=("panoptic", *path, name), evaluate=evaluate, outlines=True, **properties)
    for name, formula, properties in (
        ("pq", panoptic_quality, {"each": (_where_present,), **OF_BOTH}),
        ("sq", segmentation_quality, {"symmetric": True}),
        ("rq", recognition_quality, {"each": (_where_present,), **OF_BOTH}),
    )
    for path, evaluate in (
        ((), partial(_mean_over_classes, formula=formula)),
        (("binary",), formula),
        (("per_class", "<class>"), formula),
    )
)

# --- sizes ------------------------------------------------------------------------------------------------------------

# Nuclei by their size: detection, segmentation and COCO's average precision of small, medium and large ones.
#
# ``size_nuclei`` int64 (U, S, C): reference nuclei of each size and class; no matching rule changes it.

Range = tuple[float, float]


def count_sizes(cases: JoinedCases, sizes_px: Sequence[Range], *, classes: int) -> Int64:
    """``size_nuclei`` of each of K cases, (K, S, C)."""
    counts = np.zeros((len(cases), len(sizes_px), classes), np.int64)
    area, case = cases.table.reference_area_px, cases.reference_case()
    for size, limits in enumerate(sizes_px):
        chosen = has_size(area, limits)
        of_class = cases.reference.class_id[chosen].astype(np.int64) - 1
        key = case[chosen] * classes + of_class
        counts[:, size] = np.bincount(key, minlength=len(cases) * classes).reshape(-1, classes)
    return counts


def hits_by_size(
    cases: JoinedCases, sizes_px: Sequence[Range], matches: Sequence[Sequence[tuple[Matches, Matches]]]
) -> npt.NDArray[np.int8]:
    """How COCO counts each prediction at each size and threshold, int8 (M, S, K): 1 right, 0 wrong, -1 not at all.

    matches  of each size and threshold, the pairs with nuclei of the size, and those of what is left with other nuclei
    """
    area = cases.table.prediction_area_px
    hits = np.empty((len(area), len(sizes_px), len(matches[0])), np.int8)
    for size, limits in enumerate(sizes_px):
        hits[:, size] = np.where(has_size(area, limits), 0, -1)[:, None]
        for index, (right, ignored) in enumerate(matches[size]):
            hits[ignored.prediction_index, size, index] = -1
            hits[right.prediction_index, size, index] = 1
    return hits


def has_size(area_px: Int64 | Float64, limits: Range) -> Bool:
    """Return whether each area lies in a range of sizes, both limits included, as in COCO."""
    return np.asarray((area_px >= limits[0]) & (area_px <= limits[1]))


def _size_recall(units: Units, size: int, limits: Range) -> Scores:
    """Share of the reference nuclei of a size that were found, in [0, 1]; classes are ignored.

    Undefined "no-reference" if no reference nucleus has the size.
    """
    return metric.ratio(_pairs_inside(units, limits), references(units, size), _why_none(units, size))


def _size_iou(units: Units, size: int, limits: Range) -> Scores:
    """Mean IoU of the matched pairs whose reference nucleus has the size, in [0, 1]; classes are ignored.

    Undefined if there is none.
    """
    total = _pairs_inside(units, limits, units.table.pairs.measures["iou"])
    score = metric.ratio(total, _pairs_inside(units, limits), hits(units).undefined)
    reason = np.where((score.reason > 0) & (references(units, size) == 0), _why_none(units, size), score.reason)
    return Scores(score.value, reason)


def _size_average_precision(units: Units, size: int, limits: Range) -> Scores:
    """COCO's mAP of the nuclei of a size: mean over the IoU thresholds and the classes, in [0, 1].

    Other reference nuclei are ignored: so is a prediction that takes one of them, which it may only if no free nucleus
    of the size is near enough, and a prediction without a match whose own area is not of the size. As pycocotools
    computes it with ``areaRng``, without a limit to the number of predictions. A class counts if it has reference
    nuclei of the size. Undefined "no-reference" if none has, without probabilities, and for points.
    """
    said, probability = units.table.predictions.size_hits, probabilities(units)
    if probability is None or said is None:
        return metric.undefined(len(units), "no-probability")
    many = units.sum("size_nuclei")[:, size]
    areas = [_size_class_areas(units, size, class_id, said, probability) for class_id in range(1, 1 + many.shape[1])]
    parts = [
        metric.scores(area, of_class > 0, metric.code("no-reference"))
        for areas_of_class, of_class in zip(areas, many.T, strict=True)
        for area in areas_of_class
    ]
    return metric.mean_of(parts, _why_none(units, size))


def _size_class_areas(
    units: Units, size: int, class_id: int, said: npt.NDArray[np.int8], probability: Float64
) -> list[Float64]:
    """COCO's areas of the nuclei of a size and a class at each IoU threshold, (B,) each."""
    predictions, many = units.table.predictions, units.sum("size_nuclei")[:, size, class_id - 1]
    needed, areas = needed_for_recalls(np.maximum(many, 1)), []
    of_class = np.flatnonzero(predictions.class_id == class_id)
    of_class = of_class[np.argsort(-probability[of_class])]
    for right in said[of_class, size].T:
        chosen, area = of_class[right >= 0], np.zeros(len(units))
        ranking = rank(predictions.case[chosen], units)
        for steps in ranking.steps(right[right >= 0] > 0, tie_numbers(probability[chosen])):
            here = slice(steps.first, steps.stop)
            area[here] = mean_at(steps, best_from_here(steps), needed[here])
        areas.append(area)
    return areas


def _pairs_inside(units: Units, limits: Range, values: Float64 | None = None) -> Float64:
    """Count the matched pairs of each unit with a reference nucleus of the size, or sum their values, (B,)."""
    pairs = units.table.pairs
    if pairs.area_px is None:
        return np.zeros(len(units))
    chosen = has_size(pairs.area_px, limits)
    case, values = pairs.case[chosen], (np.ones(len(pairs.case)) if values is None else values)[chosen]
    order = np.lexsort((values, case))
    return np.asarray(units.weights @ np.bincount(case[order], values[order], minlength=len(units.table)))


def references(units: Units, size: int) -> Int64:
    """Reference nuclei of a size, of all classes, (B,)."""
    return np.asarray(units.sum("size_nuclei")[:, size].sum(axis=1))


def _why_none(units: Units, size: int) -> metric.Reasons:
    """Return why no reference nucleus has the size: "no-instances" if there is no nucleus at all."""
    return np.where(hits(units).all_nuclei == 0, metric.code("no-instances"), metric.code("no-reference"))


RECALL: dict[str, Any] = {"missed": "worse", "empty": metric.Empty("no-instances", 0, "no-reference", 0)}


def _each_size(choice: MetricChoice) -> Iterable[metric.Variant]:
    names: Mapping[str, Range] = choice.sizes_px
    return [
        metric.Variant({"<size>": name}, {"size": index, "limits": limits})
        for index, (name, limits) in enumerate(names.items())
    ]


SIZES = (
    metric.Metric(
        path=("sizes", "<size>", "recall"), evaluate=_size_recall, each=(_each_size,), outlines=True, **RECALL
    ),
    metric.Metric(path=("sizes", "<size>", "iou"), evaluate=_size_iou, each=(_each_size,), outlines=True),
    metric.Metric(
        path=("sizes", "<size>", "coco_map_iou<thresholds>"),
        page="sizes.coco_map",
        evaluate=_size_average_precision,
        each=(_each_size,),
        outlines=True,
        by_rule=False,
        spurious="worse",
        **RECALL,
    ),
)
