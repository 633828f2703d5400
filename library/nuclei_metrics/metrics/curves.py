"""Curves over the confidence of the predictions: precision and recall, and FROC.

Predictions are taken in order of falling probability; those of equal probability enter together. With a threshold t,
tp(t) and fp(t) are the predictions with probability >= t that found a nucleus, and that did not; n are the reference
nuclei. Recall is R = tp / n, precision P = tp / (tp + fp). Which prediction found which nucleus was decided before, by
the matching rule, and does not change with t; for the numbers of COCO, by the greedy assignment of COCO.

Of a class: its predictions, right if the nucleus that they found has the class; n are the reference nuclei of the
class. A prediction that found a nucleus of another class is a false positive, and that nucleus is not found by it.

Undefined everywhere: "no-probability" if predictions have no probability, and without reference nuclei. Without
predictions a value is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from nuclei_metrics.metrics.counts import class_ids, hits
from nuclei_metrics.metrics.metric import (
    Empty,
    Metric,
    Variant,
    code,
    if_several_thresholds,
    mean_of,
    ratio,
    scores,
    undefined,
)
from nuclei_metrics.metrics.order_statistics import Ranking, Steps, rank, tie_numbers
from nuclei_metrics.model import Bool, Float64, Int64, MetricChoice, Scores, Units

Per = Literal["image", "mm2"]

ALL_POINTS, ONE_HUNDRED_AND_ONE = 0, 1  # columns of ``areas``
RECALLS: Float64 = np.linspace(0, 1, 101)


def average_precision(units: Units, class_id: int = 0) -> Scores:
    """Area under the precision-recall curve, all points, in [0, 1]; with the classes ignored, or of one class.

    ``sum_k (R_k - R_(k-1)) max_(j >= k) P_j`` over the distinct probabilities, R_0 = 0: precision is replaced by the
    best one at this recall or a higher one, which is 0 at recalls that are never reached. PASCAL VOC since 2010
    (Everingham et al., IJCV 111, 2015). scikit-learn's ``average_precision_score`` takes P_k itself, so it is never
    higher, and it knows no nuclei without a prediction. Undefined without reference nuclei or probabilities.
    """
    return _area_under_curve(units, class_id, 0, ALL_POINTS)


def average_precision_101(units: Units, class_id: int = 0) -> Scores:
    """Area under the precision-recall curve at 101 recalls, in [0, 1]; with the classes ignored, or of one class.

    ``1/101 sum_(r = 0, 0.01, ..., 1) max_(R_j >= r) P_j``: COCO's way of summing, on the matches of this matching rule.
    Recalls are compared as floats, as pycocotools does: 7 of 10 do not reach its 0.70, which is 0.7000000000000001.
    Undefined without reference nuclei or probabilities.
    """
    return _area_under_curve(units, class_id, 0, ONE_HUNDRED_AND_ONE)


def mean_average_precision(units: Units, formula: Callable[[Units, int], Scores]) -> Scores:
    """Mean over classes of the area under the precision-recall curve of each, in [0, 1].

    A class counts if it has reference nuclei. Undefined if none has, and without probabilities.
    """
    return _mean_over_referenced(units, [formula(units, class_id) for class_id in class_ids(units)])


def coco_average_precision(units: Units, index: int) -> Scores:
    """Mean over classes of COCO's average precision at one IoU threshold, given by its index, in [0, 1].

    101 recalls; within an image the predictions of a class, from the most confident on, each take the free nucleus of
    the class with the highest IoU, if that is at least the threshold. There is no limit to the number of predictions
    (pycocotools stops at maxDets = 100 an image and class), and ties enter together (there, in the order of the file).
    Recalls are compared as floats (7 of 10 do not reach 0.70). A class counts if it has reference nuclei. Undefined if
    none has, without probabilities, and for points. Lin et al., ECCV 2014.
    """
    return _mean_over_referenced(units, [_coco_at(units, class_id, index) for class_id in class_ids(units)])


def coco_mean_average_precision(units: Units) -> Scores:
    """COCO's mAP: mean of its average precision over the IoU thresholds and the classes, in [0, 1].

    A class counts if it has reference nuclei. Undefined if none has, without probabilities, and for points. As
    pycocotools computes it without a limit to the number of predictions (maxDets).
    """
    return _mean_over_referenced(
        units, [coco_class_average_precision(units, class_id) for class_id in class_ids(units)]
    )


def _coco_average_recall(units: Units) -> Scores:
    """COCO's average recall: mean over the IoU thresholds and the classes of the share of nuclei found, in [0, 1].

    Predictions take nuclei as for COCO's average precision; all of them count, without pycocotools' limit maxDets. A
    class counts if it has reference nuclei. Undefined if none has, without probabilities (they say who takes a nucleus
    first), and for points.
    """
    predictions = units.table.predictions
    if probabilities(units) is None or predictions.hits is None:
        return undefined(len(units), "no-probability")
    parts = []
    for class_id in class_ids(units):
        of_class, counts = predictions.class_id == class_id, hits(units, class_id)
        for hit in predictions.hits.T:
            by_case = np.bincount(predictions.case[of_class & hit], minlength=len(units.table))
            parts.append(ratio(units.weights @ by_case, counts.references, counts.undefined))
    return _mean_over_referenced(units, parts)


def coco_class_average_precision(units: Units, class_id: int) -> Scores:
    """Mean over the IoU thresholds of COCO's average precision of a class, in [0, 1].

    Undefined without reference nuclei of the class, without probabilities, and for points.
    """
    found = units.table.predictions.hits
    parts = [_coco_at(units, class_id, index) for index in range(1 if found is None else found.shape[1])]
    return mean_of(parts, parts[0].reason)


def sensitivity_at(units: Units, false_positives: float, per: Per) -> Scores:
    """Sensitivity at a number of false positives per image or per mm2, in [0, 1]; classes are ignored.

    A point of the FROC curve: with x, the number times the images or the annotated area, rounded to 9 decimals, R at
    the lowest threshold with fp <= x. If predictions of one probability follow, some right and more wrong than x
    allows, a part of them enters: tp runs in a straight line from one threshold to the next, as if their order were
    drawn by lot. Beyond the lowest probability it stays. Undefined without reference nuclei or probabilities, and per
    mm2 "no-spacing" if the area of a case is not known. CAMELYON16 and MONKEY interpolate in this way.
    """
    return _sensitivities(units, 0, (false_positives,), per)[0]


def mean_sensitivity(units: Units, false_positives: Sequence[float], per: Per, class_id: int = 0) -> Scores:
    """FROC score: mean of the sensitivities at several numbers of false positives, per image or per mm2, in [0, 1].

    With the classes ignored, or of one class. Undefined as the sensitivities are.
    """
    points = _sensitivities(units, class_id, false_positives, per)  # all defined, or all undefined
    return mean_of(points, points[0].reason)


def _coco_at(units: Units, class_id: int, index: int) -> Scores:
    """COCO's average precision of a class at one threshold."""
    if units.table.predictions.hits is None:
        return undefined(len(units), "no-probability")
    return _area_under_curve(units, class_id, 1 + index, ONE_HUNDRED_AND_ONE)


def _area_under_curve(units: Units, class_id: int, curve: int, column: int) -> Scores:
    """Return one of the ``areas``, of all predictions (class 0) or of one class."""
    probability, counts = probabilities(units), hits(units, class_id)
    if probability is None:
        return undefined(len(units), "no-probability")
    return scores(areas(units, class_id, probability)[:, curve, column], counts.references > 0, counts.undefined)


def areas(units: Units, class_id: int, probability: Float64) -> Float64:
    """Areas under the precision-recall curves of all predictions (class 0) or of one class, float64 (B, 1 + K, 2).

    First under the matching rule, all points and 101 recalls, then those of COCO at K thresholds, 101 recalls only.
    """
    name = f"curves/{class_id}"
    if name in units.cache:
        return units.cache[name]
    predictions = units.table.predictions
    chosen, right = _predictions_of(units, class_id)
    order = np.argsort(-probability[chosen])
    chosen, curves = chosen[order], [right[order]]
    if class_id and predictions.hits is not None:
        curves += list(predictions.hits[chosen].T)
    ranking = rank(predictions.case[chosen], units)
    tie = tie_numbers(probability[chosen])
    many = np.maximum(hits(units, class_id).references, 1)
    needed = needed_for_recalls(many)
    unit_areas: Float64 = np.zeros((len(units), len(curves), 2))
    for column, right in enumerate(curves):
        for steps in ranking.steps(right, tie):
            here = slice(steps.first, steps.stop)
            precision = best_from_here(steps)
            if column == 0:
                unit_areas[here, column, ALL_POINTS] = steps.totals(steps.gain(steps.right) * precision) / many[here]
            unit_areas[here, column, ONE_HUNDRED_AND_ONE] = mean_at(steps, precision, needed[here])
    units.cache[name] = unit_areas
    return unit_areas


def needed_for_recalls(references: Int64) -> Float64:
    """The number of true positives that each of the 101 recalls needs, (B, 101), from the number of references, (B,).

    As pycocotools, in floats: recall 7 / 20 does not reach 0.35, which linspace has as 0.35000000000000003.
    """
    needed = np.floor(RECALLS * references[:, None])
    needed += needed / references[:, None] < RECALLS
    return needed


def mean_at(steps: Steps, precision: Float64, needed: Float64) -> Float64:
    """Average the precisions at the steps that first reach the needed true positives, float64 (b,); 0 if none does.

    needed  (b, 101), ascending
    """
    if len(precision) == 0:
        return np.zeros(len(needed))
    shift = np.arange(len(needed)) * (steps.right.max() + needed.max() + 1)
    right, wanted = steps.right + np.repeat(shift, np.diff(steps.start)), (needed + shift[:, None]).ravel()
    if len(right) > len(wanted):
        step = np.searchsorted(right, wanted)
    else:  # the same, as the fewer are looked up: how many steps stand before so many numbers, or fewer
        reached = np.searchsorted(wanted, right, side="right")
        step = np.cumsum(np.bincount(reached, minlength=len(wanted) + 1))[:-1]
    step = step.reshape(needed.shape)
    precisions = precision.take(step, mode="clip")
    precisions *= step < steps.start[1:, None]
    return np.asarray(precisions.mean(axis=1))


def best_from_here(steps: Steps) -> Float64:
    """The largest precision at each step or a later one of its unit, float64 (P,)."""
    precision = np.maximum(steps.all, 1.0)
    np.divide(steps.right, precision, out=precision)
    length = np.diff(steps.start)
    if len(precision) and (length == length[0]).all():
        # Floats from 0 on are in the order of their bits, and whole numbers compare faster.
        rows = precision.view(np.int64).reshape(len(length), -1)[:, ::-1]
        np.maximum.accumulate(rows, axis=1, out=rows)
        return precision
    # Complex numbers compare by their real parts first, so that each unit begins anew.
    unit = -np.repeat(np.arange(len(length)), length)
    return np.maximum.accumulate((unit + 1j * precision)[::-1])[::-1].imag


def _sensitivities(units: Units, class_id: int, false_positives: Sequence[float], per: Per) -> list[Scores]:
    """Read the FROC curve of all predictions (class 0), or of one class, at several numbers of false positives."""
    probability, counts = probabilities(units), hits(units, class_id)
    if probability is None:
        return [undefined(len(units), "no-probability")] * len(false_positives)
    extent = units.sum("cases").astype(np.float64) if per == "image" else units.area_mm2()
    names = [f"curves/froc/{class_id}/{per}/{rate!r}" for rate in false_positives]
    if any(name not in units.cache for name in names):
        chosen, hit = _predictions_of(units, class_id)
        right = _sorted_predictions(units, chosen[hit], probability)
        wrong = _sorted_predictions(units, chosen[~hit], probability)
        for name, rate in zip(names, false_positives, strict=True):
            units.cache[name] = _found_within(right, wrong, np.round(rate * np.nan_to_num(extent), 9))
    defined = (counts.references > 0) & ~np.isnan(extent)
    reason = np.where(counts.references > 0, code("no-spacing"), counts.undefined)
    return [scores(units.cache[name] / np.maximum(counts.references, 1), defined, reason) for name in names]


@dataclass(frozen=True, slots=True, eq=False)
class _SortedPredictions:
    """The true positives, or the false positives, sorted from the most to the least confident.

    below_zero  float64 (M,), minus their probabilities, so that they rise
    ranking     of the predictions
    """

    below_zero: Float64
    ranking: Ranking

    def surer_than(self, below_zero: Float64) -> Int64:
        """Number of predictions of each unit with more than a probability, one for each unit, int64 (B,)."""
        return self.ranking.before(np.searchsorted(self.below_zero, below_zero, side="left"))

    def as_sure_as(self, below_zero: Float64) -> Int64:
        """Number of predictions of each unit with at least a probability, one for each unit, int64 (B,)."""
        return self.ranking.before(np.searchsorted(self.below_zero, below_zero, side="right"))


def _sorted_predictions(units: Units, chosen: Int64, probability: Float64) -> _SortedPredictions:
    """The predictions with the chosen indices, sorted by confidence."""
    order = np.argsort(-probability[chosen])
    chosen = chosen[order]
    return _SortedPredictions(-probability[chosen], rank(units.table.predictions.case[chosen], units))


def _found_within(right: _SortedPredictions, wrong: _SortedPredictions, limit: Float64) -> Float64:
    """Number of true positives of each unit at the threshold where the false positives reach ``limit``, (B,)."""
    every, spare = right.ranking.number, wrong.ranking.number <= limit
    if spare.all():
        return every.astype(np.float64)
    # The first false positive that is too much, and all predictions that are as confident as it is.
    first = wrong.below_zero[wrong.ranking.find(np.floor(limit).astype(np.int64))]
    tp, fp = right.surer_than(first), wrong.surer_than(first)
    more_tp, more_fp = right.as_sure_as(first) - tp, wrong.as_sure_as(first) - fp
    return np.where(spare, every, tp + (limit - fp) * more_tp / np.maximum(more_fp, 1))


def _predictions_of(units: Units, class_id: int) -> tuple[Int64, Bool]:
    """Indices of all predictions (class 0) or of those of one class, int64 (M,), and which of them are right."""
    predictions = units.table.predictions
    if class_id == 0:
        return np.arange(len(predictions.case)), predictions.found_class > 0
    chosen = np.flatnonzero(predictions.class_id == class_id)
    return chosen, predictions.found_class[chosen] == class_id


def probabilities(units: Units) -> Float64 | None:
    """The confidence of every prediction, or None if a prediction has none."""
    predictions = units.table.predictions
    return predictions.probability if len(predictions.case) else np.empty(0, np.float64)


def _mean_over_referenced(units: Units, parts: Sequence[Scores]) -> Scores:
    """Mean over the classes that have reference nuclei; undefined if none has, and without probabilities."""
    lacking = any((part.reason == code("no-probability")).any() for part in parts)
    return mean_of(parts, code("no-probability") if lacking else hits(units).undefined)


# --- records ----------------------------------------------------------------------------------------------------------

CURVE: dict[str, Any] = {"missed": "worse", "spurious": "worse", "empty": Empty("no-instances", 0, "no-reference", 0)}
OF_COCO: dict[str, Any] = {"outlines": True, "by_rule": False, **CURVE}


def _all_rates(choice: MetricChoice) -> Iterable[Variant]:
    rates = choice.false_positives
    return [Variant(arguments={"false_positives": rates, "per": choice.per})] if rates else []


CURVES = (
    *(
        Metric(path=("curves", *path), evaluate=evaluate, **CURVE)
        for name, formula in (
            ("average_precision", average_precision),
            ("average_precision_101", average_precision_101),
        )
        for path, evaluate in (
            ((name,), formula),
            ((f"mean_{name}",), partial(mean_average_precision, formula=formula)),
            (("per_class", "<class>", name), formula),
        )
    ),
    Metric(
        path=("curves", "coco_map_iou<thresholds>"),
        page="curves.coco_map",
        evaluate=coco_mean_average_precision,
        each=(if_several_thresholds,),
        **OF_COCO,
    ),
    Metric(
        path=("curves", "coco_map_iou<threshold>"),
        page="curves.coco_map_at",
        evaluate=coco_average_precision,
        **OF_COCO,
    ),
    Metric(
        path=("curves", "per_class", "<class>", "coco_ap_iou<thresholds>"),
        page="curves.per_class.coco_ap",
        evaluate=coco_class_average_precision,
        **OF_COCO,
    ),
    Metric(
        path=("curves", "coco_ar_iou<thresholds>"),
        page="curves.coco_ar",
        evaluate=_coco_average_recall,
        **{**OF_COCO, "spurious": "none"},
    ),
    Metric(path=("curves", "froc"), evaluate=mean_sensitivity, each=(_all_rates,), **CURVE),
    Metric(path=("curves", "sensitivity_at_<rate>"), page="curves.sensitivity_at", evaluate=sensitivity_at, **CURVE),
    Metric(path=("curves", "per_class", "<class>", "froc"), evaluate=mean_sensitivity, each=(_all_rates,), **CURVE),
)
