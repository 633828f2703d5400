"""Were the nuclei found, whatever their outline: at one matching rule, at several IoU thresholds, and how many?

The families ``detection``, ``thresholds`` and ``counting``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.metrics.counts import Hits, JoinedCases, class_ids, hits
from nuclei_metrics.metrics.metric import (
    BY_FORMULA,
    OF_ALL,
    Empty,
    Metric,
    code,
    if_several_thresholds,
    mean_of,
    ratio,
    scores,
    why_undefined,
)
from nuclei_metrics.model import Float64, Int64, Matches, Scores, Units

Formula = Callable[[Hits], Scores]


def precision(counts: Hits) -> Scores:
    """Precision, tp / (tp + fp)."""
    return ratio(counts.tp, counts.tp + counts.fp, counts.undefined)


def recall(counts: Hits) -> Scores:
    """Recall, tp / (tp + fn)."""
    return ratio(counts.tp, counts.tp + counts.fn, counts.undefined)


def f1(counts: Hits) -> Scores:
    """F1, 2 tp / (2 tp + fp + fn)."""
    return ratio(2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn, counts.undefined)


def threat_score(counts: Hits) -> Scores:
    """Threat score, tp / (tp + fp + fn)."""
    return ratio(counts.tp, counts.tp + counts.fp + counts.fn, counts.undefined)


# What the formulas above have in common with each other, wherever they are used.
OF_PRECISION: dict[str, Any] = {"spurious": "worse", "empty": Empty("no-instances", "no-prediction", 0, 0)}
OF_RECALL: dict[str, Any] = {"missed": "worse", "empty": Empty("no-instances", 0, "no-reference", 0)}
OF_BOTH: dict[str, Any] = {"missed": "worse", "spurious": "worse", "empty": OF_ALL, "symmetric": True}


OF_FORMULAS: tuple[tuple[str, Formula, dict[str, Any]], ...] = (
    ("precision", precision, OF_PRECISION),
    ("recall", recall, OF_RECALL),
    ("f1", f1, OF_BOTH),
    ("threat_score", threat_score, OF_BOTH),
)


def detection_score(units: Units, formula: Formula, class_id: int = 0) -> Scores:
    """A detection score: with the classes ignored, or of one class, for which a matched pair is a true positive if both
    sides have the class.
    """
    return formula(hits(units, class_id))


def _detection_macro_f1(units: Units) -> Scores:
    """Mean over classes of their F1 of detection and classification, in [0, 1].

    A class counts in a unit if it occurs in reference or prediction. Undefined "no-instances" if none does. The
    "macro F1" of PUMA 2024.
    """
    return mean_of([f1(hits(units, class_id)) for class_id in class_ids(units)], hits(units).undefined)


def _hovernet_class_f1(units: Units, class_id: int) -> Scores:
    """F_c of HoVer-Net: F1 of a class in which a wrong class costs twice what a false negative or positive does.

    ``2 t / (2 t + 2 f + 2 g + s + m)``, in [0, 1], with t matched pairs of the class on both sides, f pairs in which
    only the prediction has the class, g pairs in which only the reference has it, s false positives and m false
    negatives of the class. Undefined "no-instances" if the class is on neither side. Graham et al., Medical Image
    Analysis 58, 2019, section 4.2, with matching by ``centroid_assignment`` within 12 px, ``cutoff = "after"``, pooled.
    """
    confusion = units.sum("confusion")
    both = hits(units, class_id)
    spurious, missed = confusion[:, 0, class_id], confusion[:, class_id, 0]
    wrong = both.fp - spurious + both.fn - missed
    return ratio(2 * both.tp, 2 * both.tp + 2 * wrong + spurious + missed, both.undefined)


DETECTION = (
    *(
        Metric(path=("detection", name), evaluate=partial(detection_score, formula=formula), **properties)
        for name, formula, properties in OF_FORMULAS
    ),
    Metric(path=("detection", "macro_f1"), evaluate=_detection_macro_f1, **OF_BOTH),
    *(
        Metric(
            path=("detection", "per_class", "<class>", name),
            evaluate=partial(detection_score, formula=formula),
            **properties,
        )
        for name, formula, properties in OF_FORMULAS[:3]
    ),
    Metric(path=("detection", "per_class", "<class>", "f_c"), evaluate=_hovernet_class_f1, **OF_BOTH),
)

# --- thresholds -------------------------------------------------------------------------------------------------------

# Detection at a row of IoU thresholds, whatever the matching rule: how many pairs have an IoU above each.
#
# ``threshold_pairs`` int64 (U, T, C + 1): at each threshold the matched pairs (``iou_above``, classes ignored), index 0
# all of them, index c those whose sides both have class c. ``threshold_nuclei`` int64 (U, 2, C + 1): how many nuclei
# reference and prediction have, all and of each class; no matching rule changes it.


def count_threshold_pairs(cases: JoinedCases, matches: Sequence[Matches], *, classes: int) -> Int64:
    """``threshold_pairs`` of each of K cases, (K, T, C + 1), from the matches of all at each threshold."""
    reference, prediction, case = cases.reference, cases.prediction, cases.reference_case()
    counts = np.zeros((len(cases), len(matches), classes + 1), np.int64)
    for index, pairs in enumerate(matches):
        left, right = reference.class_id[pairs.reference_index], prediction.class_id[pairs.prediction_index]
        counts[:, index] = _count_classes(case[pairs.reference_index], np.where(left == right, left, 0), counts.shape)
    return counts


def count_threshold_nuclei(cases: JoinedCases, *, classes: int) -> Int64:
    """Count ``threshold_nuclei``, the nuclei of each class, in each of K cases, (K, 2, C + 1)."""
    shape = len(cases), 2, classes + 1
    sides = (cases.reference_case(), cases.reference.class_id), (cases.prediction_case(), cases.prediction.class_id)
    return np.stack([_count_classes(case, class_id, shape) for case, class_id in sides], axis=1)


def _count_classes(case: Int64, class_id: npt.NDArray[np.integer[Any]], shape: tuple[int, ...]) -> Int64:
    """Count the nuclei of each class in each case, and all nuclei at index 0, (K, C + 1)."""
    number = np.bincount(case * shape[-1] + class_id, minlength=shape[0] * shape[-1]).reshape(shape[0], shape[-1])
    number[:, 0] = number.sum(axis=1)
    return number


def _at_threshold(units: Units, formula: Formula, index: int) -> Scores:
    """A detection score at one IoU threshold, in [0, 1]: a pair matches if its IoU is strictly above.

    Classes are ignored. Undefined as the same score under ``detection``; for points.
    """
    return formula(_hits_above(units, index, 0))


def _over_thresholds(units: Units, formula: Formula, class_id: int = 0) -> Scores:
    """Mean of a detection score over the IoU thresholds, in [0, 1], each counted anew.

    With the classes ignored, or of one class, for which a pair is a true positive if both sides have the class.
    Undefined where the score is undefined at all thresholds; for points.
    """
    parts = [formula(_hits_above(units, index, class_id)) for index in range(units.sum("threshold_pairs").shape[1])]
    return mean_of(parts, _hits_above(units, 0, class_id).undefined)


def _hits_above(units: Units, index: int, class_id: int) -> Hits:
    """Hits at one threshold, of all nuclei (class 0) or of one class."""
    references, predictions = units.sum("threshold_nuclei")[:, :, class_id].T
    tp = units.sum("threshold_pairs")[:, index, class_id]
    name = f"thresholds/{class_id}/undefined"
    if name not in units.cache:
        units.cache[name] = why_undefined(references, predictions)
    return Hits(tp, predictions - tp, references - tp, units.cache[name])


def _at_thresholds(name: str, formula: Formula, properties: dict[str, Any]) -> Iterable[Metric]:
    """A detection score as a mean over thresholds, at each threshold, and of each class as a mean."""
    for key, page, function, each in (
        ((f"{name}_iou<thresholds>",), "range", _over_thresholds, (if_several_thresholds,)),
        ((f"{name}_iou<threshold>",), "at", _at_threshold, ()),
        (("per_class", "<class>", f"{name}_iou<thresholds>"), "range", _over_thresholds, ()),
    ):
        yield Metric(
            path=("thresholds", *key),
            page=".".join(("thresholds", *key[:-2], f"{name}_{page}")),
            evaluate=partial(function, formula=formula),
            each=each,
            outlines=True,
            by_rule=False,
            **properties,
        )


THRESHOLDS = tuple(metric for of_formula in OF_FORMULAS for metric in _at_thresholds(*of_formula))

# --- counting ---------------------------------------------------------------------------------------------------------

# Counting: does the number of predicted nuclei of each case agree with the reference? Positions are ignored.
#
# Sums over cases, with t reference nuclei and p predictions of a class in a case: ``count_reference`` t,
# ``count_prediction`` p and ``count_absolute_error`` |t - p|, int64 (U, C); ``count_squared`` t^2 and
# ``count_squared_error`` (t - p)^2, float64 (U, C), since squares of made-up numbers must not wrap round. They are
# exact up to 2^53.


def count_errors(references: Int64, predictions: Int64) -> dict[str, Int64 | Float64]:
    """The sums of one case from its numbers of nuclei of each class, int64 (C,)."""
    difference = references - predictions
    return {
        "count_reference": references,
        "count_prediction": predictions,
        "count_absolute_error": np.abs(difference),
        "count_squared": references.astype(np.float64) ** 2,
        "count_squared_error": difference.astype(np.float64) ** 2,
    }


def _class_r2(units: Units, class_id: int) -> Scores:
    """Coefficient of determination of the numbers of a class, 1 - RSS / TSS, in (-inf, 1]; 1 is perfect.

    ``RSS = sum (t - p)^2``, ``TSS = sum (t - mean t)^2`` over the n cases of the unit. 0 is as good as always saying
    the mean; there is no worst value. Undefined "constant-reference" if all cases have the same number (TSS = 0), as
    in a unit of one case. Task 2 of CoNIC (Graham et al., Medical Image Analysis 92, 2024).
    """
    k, cases = class_id - 1, units.sum("cases")
    total = units.sum("count_reference")[:, k].astype(np.float64)
    # n times TSS: both terms are rounded once, so that it is 0 where the reference is constant
    spread = cases * units.sum("count_squared")[:, k] - total**2
    value = 1 - cases * units.sum("count_squared_error")[:, k] / np.where(spread == 0, 1, spread)
    return scores(value, spread > 0, code("constant-reference"))


def _mean_r2(units: Units) -> Scores:
    """Mean over classes of the coefficient of determination of their numbers, in (-inf, 1]; 1 is perfect.

    Undefined if it is for every class. The R2 of task 2 of CoNIC.
    """
    classes = range(1, units.sum("count_reference").shape[1] + 1)
    return mean_of([_class_r2(units, class_id) for class_id in classes], code("constant-reference"))


def _class_mean_absolute_error(units: Units, class_id: int) -> Scores:
    """Mean over cases of |t - p|, the error in the number of nuclei of a class, in [0, inf), nuclei per case."""
    return ratio(units.sum("count_absolute_error")[:, class_id - 1], units.sum("cases"), code("no-instances"))


def mean_absolute_error(units: Units) -> Scores:
    """Mean over classes and cases of |t - p|, in [0, inf), nuclei per case and class."""
    errors = units.sum("count_absolute_error")
    return ratio(errors.sum(axis=1), units.sum("cases") * errors.shape[1], code("no-instances"))


EITHER: dict[str, Any] = {"missed": "either", "spurious": "either", "empty": BY_FORMULA, "worst": None}
R2: dict[str, Any] = {"lowest": -math.inf, **EITHER}
ERROR: dict[str, Any] = {"better": "lower", "highest": math.inf, "unit": "nuclei", "symmetric": True, **EITHER}

COUNTING = tuple(
    Metric(path=("counting", *path), evaluate=formula, by_rule=False, **properties)
    for path, formula, properties in (
        (("r2",), _mean_r2, R2),
        (("mean_absolute_error",), mean_absolute_error, ERROR),
        (("per_class", "<class>", "r2"), _class_r2, R2),
        (("per_class", "<class>", "mean_absolute_error"), _class_mean_absolute_error, ERROR),
    )
)
