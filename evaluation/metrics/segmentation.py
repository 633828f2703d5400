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

from evaluation.metrics.counts import Hits, JoinedCases, class_hits, hits, if_present, matched
from evaluation.metrics.curves import best_from_here, mean_at, needed_for_recalls, probabilities
from evaluation.metrics.detection import OF_BOTH, f1
from evaluation.metrics.metric import (
    OF_POINTS,
    Empty,
    Metric,
    Reasons,
    Variant,
    code,
    mean_of,
    ratio,
    scores,
    undefined,
    why_undefined,
)
from evaluation.metrics.order_statistics import median_of_units, rank, tie_numbers
from evaluation.model import Bool, ClassPresence, Float64, Int64, Matches, Measure, MetricChoice, Scores, Units


def pair_mean(units: Units, measure: Measure) -> Scores:
    """Mean of a measure over all matched pairs: every nucleus weighs the same. Undefined if nothing matched."""
    counts = hits(units)
    return where_spaced(ratio(units.sum(measure).sum(axis=(1, 2)), counts.tp, counts.undefined), measure)


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
    counts, pairs = hits(units), units.table.pairs
    value: Float64 = np.full(len(units), np.nan)
    if measure in pairs.measures:
        value = median_of_units(pairs.measures[measure], pairs.case, units)
    return where_spaced(scores(value, counts.tp > 0, counts.undefined), measure)


def pairs_of_class(units: Units) -> Int64:
    """Matched pairs by class of the reference, int64 (B, C)."""
    number: Int64 = matched(units).sum(axis=2)
    return number


def where_spaced(score: Scores, measure: Measure) -> Scores:
    """Undefined "no-spacing" for um where a case has no spacing."""
    if measure.endswith("_um"):
        lacking = np.isnan(score.value) & (score.reason == 0)
        score = Scores(score.value, np.where(lacking, code("no-spacing"), score.reason))
    return score


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


SEGMENTATION = (
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

# --- panoptic ---------------------------------------------------------------------------------------------------------

# Panoptic quality and its parts, PQ = SQ * RQ. It mixes detection, classification and segmentation.
#
# For a class, a matched pair is a true positive if both sides have the class; a pair with two classes is a false
# positive of one and a false negative of the other. ``present`` "reference" leaves out classes that the reference does
# not have, as PanNuke does: predictions of them cost nothing.


def panoptic_quality(units: Units, class_id: int, present: ClassPresence = "either") -> Scores:
    """Panoptic quality of one class, PQ = SQ * RQ = iou_sum / (tp + fp/2 + fn/2), in [0, 1].

    Undefined "no-instances" if the class occurs in neither reference nor prediction. Kirillov et al., CVPR 2019, Eq. 1.
    """
    quality = panoptic_quality_of(class_hits(units, class_id), class_iou_sum(units, class_id))
    return if_present(units, quality, present, class_id)


def segmentation_quality(units: Units, class_id: int) -> Scores:
    """Segmentation quality of one class, SQ = iou_sum / tp, in [0, 1]. Undefined without a true positive."""
    counts = class_hits(units, class_id)
    return ratio(class_iou_sum(units, class_id), counts.tp, counts.undefined)


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
    counts = hits(units)
    return ratio(iou_sum(units), counts.tp, counts.undefined)


def binary_recognition_quality(units: Units, present: ClassPresence = "either") -> Scores:
    """Recognition quality with the classes ignored, RQ = tp / (tp + fp/2 + fn/2), in [0, 1]: the F1 of detection.

    Undefined "no-instances" if both sides are empty.
    """
    return if_present(units, f1(hits(units)), present)


def mean_over_classes(units: Units, quality: Callable[..., Scores]) -> Scores:
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
    return mean_over_classes(units, partial(panoptic_quality, present=present))


def class_mean_sq(units: Units) -> Scores:
    """Mean of SQ over the classes that have a true positive, in [0, 1]. Undefined if there is none."""
    return mean_over_classes(units, segmentation_quality)


def class_mean_rq(units: Units, present: ClassPresence = "either") -> Scores:
    """Mean of RQ over the classes that occur in the reference or in the prediction, in [0, 1].

    Undefined "no-instances" if there is none.
    """
    return mean_over_classes(units, partial(recognition_quality, present=present))


def panoptic_quality_of(counts: Hits, total_iou: Float64) -> Scores:
    return ratio(2 * total_iou, 2 * counts.tp + counts.fp + counts.fn, counts.undefined)


def iou_sum(units: Units) -> Float64:
    """Sum of the IoU of all matched pairs of each unit, float64 (B,)."""
    total: Float64 = units.sum("iou").sum(axis=(1, 2))
    return total


def class_iou_sum(units: Units, class_id: int) -> Float64:
    """Sum of the IoU of the pairs whose sides both have the class, float64 (B,)."""
    total: Float64 = units.sum("iou")[:, class_id - 1, 1]
    return total


def where_present(choice: MetricChoice) -> Iterable[Variant]:
    """The rule ``aggregation.class_present`` as an argument."""
    return [Variant(arguments={"present": choice.class_present})]


OF_MATCHED: dict[str, Any] = {"outlines": True, "symmetric": True}
COUNTS: dict[str, Any] = {"each": (where_present,), "outlines": True, **OF_BOTH}

PANOPTIC = tuple(
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

# --- sizes ------------------------------------------------------------------------------------------------------------

# Nuclei by their size: detection, segmentation and COCO's average precision of small, medium and large ones.
#
# ``size_nuclei`` int64 (U, S, C): reference nuclei of each size and class; no matching rule changes it.

Range = tuple[float, float]
LARGEST_AREA_PX = 1e12  # px


def quantile_sizes(areas_px: Int64, names: Sequence[str]) -> dict[str, Range]:
    """Sizes with as many nuclei each, from the areas of all reference nuclei, int64 (N,); the smallest first.

    Of K sizes the k-th ends at the smallest area that at least k / K of the nuclei do not exceed (the quantile that is
    an area itself, R's type 1), the last at 1e12. Nuclei of equal area are of one size, so sizes may differ in number;
    one may be empty, and its scores undefined, as of fewer nuclei than sizes.

    >>> quantile_sizes(np.array([5, 9, 7, 7, 30]), ["small", "large"])
    {'small': (0.0, 7.0), 'large': (8.0, 1000000000000.0)}
    """
    ordered, many = np.sort(areas_px), len(areas_px)
    ends = [float(ordered[-(-many * k // len(names)) - 1]) if many else 0.0 for k in range(1, len(names))]
    return dict(zip(names, zip([0.0, *(end + 1 for end in ends)], [*ends, LARGEST_AREA_PX], strict=True), strict=True))


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
    """Whether each area lies in a range of sizes, both limits included, as in COCO."""
    return np.asarray((area_px >= limits[0]) & (area_px <= limits[1]))


def size_recall(units: Units, size: int, limits: Range) -> Scores:
    """Share of the reference nuclei of a size that were found, in [0, 1]; classes are ignored.

    Undefined "no-reference" if no reference nucleus has the size.
    """
    return ratio(pairs_inside(units, limits), references(units, size), why_none(units, size))


def size_iou(units: Units, size: int, limits: Range) -> Scores:
    """Mean IoU of the matched pairs whose reference nucleus has the size, in [0, 1]; classes are ignored.

    Undefined if there is none.
    """
    total = pairs_inside(units, limits, units.table.pairs.measures["iou"])
    counts = hits(units)
    score = ratio(total, pairs_inside(units, limits), counts.undefined)
    reason = np.where((score.reason > 0) & (references(units, size) == 0), why_none(units, size), score.reason)
    return Scores(score.value, reason)


def size_average_precision(units: Units, size: int, limits: Range) -> Scores:
    """COCO's mAP of the nuclei of a size: mean over the IoU thresholds and the classes, in [0, 1].

    Other reference nuclei are ignored: so is a prediction that takes one of them, which it may only if no free nucleus
    of the size is near enough, and a prediction without a match whose own area is not of the size. As pycocotools
    computes it with ``areaRng``, without a limit to the number of predictions. A class counts if it has reference
    nuclei of the size. Undefined "no-reference" if none has, without probabilities, and for points.
    """
    hits, probability = units.table.predictions.size_hits, probabilities(units)
    if probability is None or hits is None:
        return undefined(len(units), "no-probability")
    many = units.sum("size_nuclei")[:, size]
    areas = [size_class_areas(units, size, class_id, hits, probability) for class_id in range(1, 1 + many.shape[1])]
    parts = [
        scores(area, of_class > 0, code("no-reference"))
        for areas_of_class, of_class in zip(areas, many.T, strict=True)
        for area in areas_of_class
    ]
    return mean_of(parts, why_none(units, size))


def size_class_areas(
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


def pairs_inside(units: Units, limits: Range, values: Float64 | None = None) -> Float64:
    """How many matched pairs of each unit have a reference nucleus of the size, or the sum of their values, (B,)."""
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


def why_none(units: Units, size: int) -> Reasons:
    """Why there is no reference nucleus of the size: "no-instances" if there is no nucleus at all."""
    counts = hits(units)
    return np.where(counts.tp + counts.fp + counts.fn == 0, code("no-instances"), code("no-reference"))


RECALL: dict[str, Any] = {"missed": "worse", "empty": Empty("no-instances", 0, "no-reference", 0)}


def each_size(choice: MetricChoice) -> Iterable[Variant]:
    names: Mapping[str, Range] = choice.sizes_px
    return [
        Variant({"<size>": name}, {"size": index, "limits": limits})
        for index, (name, limits) in enumerate(names.items())
    ]


SIZES = (
    Metric(path=("sizes", "<size>", "recall"), evaluate=size_recall, each=(each_size,), outlines=True, **RECALL),
    Metric(path=("sizes", "<size>", "iou"), evaluate=size_iou, each=(each_size,), outlines=True),
    Metric(
        path=("sizes", "<size>", "coco_map_iou<thresholds>"),
        page="sizes.coco_map",
        evaluate=size_average_precision,
        each=(each_size,),
        outlines=True,
        by_rule=False,
        spurious="worse",
        **RECALL,
    ),
)
