"""Nuclei by their size: detection, segmentation and COCO's average precision of small, medium and large ones.

``size_nuclei`` int64 (U, S, C): reference nuclei of each size and class; no matching rule changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.metrics.counts import hits
from evaluation.metrics.curves import best_from_here, mean_at, needed_for_recalls, probabilities
from evaluation.metrics.joined import JoinedCases
from evaluation.metrics.metric import Empty, Metric, Variant
from evaluation.metrics.order_statistics import rank, tie_numbers
from evaluation.metrics.undefined import Reasons, code, mean_of, ratio, scores, undefined
from evaluation.model import Bool, Float64, Int64, Matches, MetricChoice, Scores, Units

Range = tuple[float, float]
LARGEST = 1e12  # px


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
    return dict(zip(names, zip([0.0, *(end + 1 for end in ends)], [*ends, LARGEST], strict=True), strict=True))


def count_sizes(cases: JoinedCases, sizes_px: Sequence[Range], *, classes: int) -> Int64:
    """``size_nuclei`` of each of K cases, (K, S, C)."""
    counts = np.zeros((len(cases), len(sizes_px), classes), np.int64)
    area, case = cases.table.reference_area_px, cases.reference_case()
    for size, limits in enumerate(sizes_px):
        chosen = inside(area, limits)
        of_class = cases.reference.class_id[chosen].astype(np.int64) - 1
        key = case[chosen] * classes + of_class
        counts[:, size] = np.bincount(key, minlength=len(cases) * classes).reshape(-1, classes)
    return counts


def hits_by_size(
    cases: JoinedCases, sizes_px: Sequence[Range], found: Sequence[Sequence[tuple[Matches, Matches]]]
) -> npt.NDArray[np.int8]:
    """What COCO makes of each prediction at each size and threshold, int8 (M, S, K): 1 right, 0 wrong, -1 ignored.

    found  of each size and threshold, the pairs with nuclei of the size, and those of what is left with other nuclei
    """
    area = cases.table.prediction_area_px
    said = np.empty((len(area), len(sizes_px), len(found[0])), np.int8)
    for size, limits in enumerate(sizes_px):
        said[:, size] = np.where(inside(area, limits), 0, -1)[:, None]
        for index, (right, ignored) in enumerate(found[size]):
            said[ignored.prediction_index, size, index] = -1
            said[right.prediction_index, size, index] = 1
    return said


def inside(area_px: Int64 | Float64, limits: Range) -> Bool:
    """Which areas are of a size; both limits belong to it, as in COCO."""
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
    of = hits(units)
    found = ratio(total, pairs_inside(units, limits), of.undefined)
    reason = np.where((found.reason > 0) & (references(units, size) == 0), why_none(units, size), found.reason)
    return Scores(found.value, reason)


def size_average_precision(units: Units, size: int, limits: Range) -> Scores:
    """COCO's mAP of the nuclei of a size: mean over the IoU thresholds and the classes, in [0, 1].

    Other reference nuclei are ignored: so is a prediction that takes one of them, which it may only if no free nucleus
    of the size is near enough, and a prediction without a match whose own area is not of the size. As pycocotools
    computes it with ``areaRng``, without a limit to the number of predictions. A class counts if it has reference
    nuclei of the size. Undefined "no-reference" if none has, without probabilities, and for points.
    """
    found, probability = units.table.predictions.size_hits, probabilities(units)
    if probability is None or found is None:
        return undefined(len(units), "no-probability")
    many = units.sum("size_nuclei")[:, size]
    areas = [size_class_areas(units, size, class_id, found, probability) for class_id in range(1, 1 + many.shape[1])]
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
    chosen = inside(pairs.area_px, limits)
    case, values = pairs.case[chosen], (np.ones(len(pairs.case)) if values is None else values)[chosen]
    order = np.lexsort((values, case))
    return np.asarray(units.weights @ np.bincount(case[order], values[order], minlength=len(units.table)))


def references(units: Units, size: int) -> Int64:
    """Reference nuclei of a size, of all classes, (B,)."""
    return np.asarray(units.sum("size_nuclei")[:, size].sum(axis=1))


def why_none(units: Units, size: int) -> Reasons:
    """Why there is no reference nucleus of the size: "no-instances" if there is no nucleus at all."""
    of = hits(units)
    return np.where(of.tp + of.fp + of.fn == 0, code("no-instances"), code("no-reference"))


# --- records ----------------------------------------------------------------------------------------------------------

RECALL: dict[str, Any] = {"missed": "worse", "empty": Empty("no-instances", 0, "no-reference", 0)}


def each_size(choice: MetricChoice) -> Iterable[Variant]:
    names: Mapping[str, Range] = choice.sizes_px
    return [
        Variant({"<size>": name}, {"size": index, "limits": limits})
        for index, (name, limits) in enumerate(names.items())
    ]


METRICS = (
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
