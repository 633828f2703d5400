"""Detection at a row of IoU thresholds, whatever the matching rule: how many pairs have an IoU above each.

``threshold_pairs`` int64 (U, T, C + 1): at each threshold the matched pairs (``iou_above``, classes ignored), index 0
all of them, index c those whose sides both have class c. ``threshold_nuclei`` int64 (U, 2, C + 1): how many nuclei
reference and prediction have, all and of each class; no matching rule changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.metrics.counts import Hits
from evaluation.metrics.detection import OF_BOTH, OF_PRECISION, OF_RECALL, Formula, f1, precision, recall, threat_score
from evaluation.metrics.joined import JoinedCases
from evaluation.metrics.metric import Metric, if_several_thresholds
from evaluation.metrics.undefined import mean_of, why_undefined
from evaluation.model import Int64, Matches, Scores, Units


def count_threshold_pairs(cases: JoinedCases, matches: Sequence[Matches], *, classes: int) -> Int64:
    """``threshold_pairs`` of each of K cases, (K, T, C + 1), from the matches of all at each threshold."""
    reference, prediction, case = cases.reference, cases.prediction, cases.reference_case()
    counts = np.zeros((len(cases), len(matches), classes + 1), np.int64)
    for index, found in enumerate(matches):
        left, right = reference.class_id[found.reference_index], prediction.class_id[found.prediction_index]
        counts[:, index] = count_classes(case[found.reference_index], np.where(left == right, left, 0), counts.shape)
    return counts


def count_threshold_nuclei(cases: JoinedCases, *, classes: int) -> Int64:
    """``threshold_nuclei`` of each of K cases, (K, 2, C + 1)."""
    shape = len(cases), 2, classes + 1
    sides = (cases.reference_case(), cases.reference.class_id), (cases.prediction_case(), cases.prediction.class_id)
    return np.stack([count_classes(case, class_id, shape) for case, class_id in sides], axis=1)


def count_classes(case: Int64, class_id: npt.NDArray[np.integer[Any]], shape: tuple[int, ...]) -> Int64:
    """How often each class occurs in each case, and, at index 0, how many there are in all, (K, C + 1)."""
    number = np.bincount(case * shape[-1] + class_id, minlength=shape[0] * shape[-1]).reshape(shape[0], shape[-1])
    number[:, 0] = number.sum(axis=1)
    return number


def at_threshold(units: Units, formula: Formula, index: int) -> Scores:
    """A detection score at one IoU threshold, in [0, 1]: a pair matches if its IoU is strictly above.

    Classes are ignored. Undefined as the same score under ``detection``; for points.
    """
    return formula(hits_above(units, index, 0))


def over_thresholds(units: Units, formula: Formula) -> Scores:
    """Mean of a detection score over the IoU thresholds, in [0, 1], each counted anew; classes are ignored.

    Undefined where the score is undefined at all of them; for points.
    """
    parts = [formula(hits_above(units, index, 0)) for index in range(units.sum("threshold_pairs").shape[1])]
    return mean_of(parts, hits_above(units, 0, 0).undefined)


def class_over_thresholds(units: Units, formula: Formula, class_id: int) -> Scores:
    """Mean of a score of detection and classification of a class over the IoU thresholds, in [0, 1].

    A pair is a true positive if both sides have the class. Undefined where it is at all thresholds; for points.
    """
    parts = [formula(hits_above(units, index, class_id)) for index in range(units.sum("threshold_pairs").shape[1])]
    return mean_of(parts, hits_above(units, 0, class_id).undefined)


def hits_above(units: Units, index: int, class_id: int) -> Hits:
    """Hits at one threshold, of all nuclei (class 0) or of one class."""
    references, predictions = units.sum("threshold_nuclei")[:, :, class_id].T
    tp = units.sum("threshold_pairs")[:, index, class_id]
    name = f"thresholds/{class_id}/undefined"
    if name not in units.cache:
        units.cache[name] = why_undefined(references, predictions)
    return Hits(tp, predictions - tp, references - tp, units.cache[name])


# --- records ----------------------------------------------------------------------------------------------------------


def at_thresholds(name: str, formula: Formula, properties: dict[str, Any]) -> Iterable[Metric]:
    """A detection score as a mean over thresholds, at each threshold, and of each class as a mean."""
    for key, page, function, each in (
        ((f"{name}_iou<thresholds>",), "range", over_thresholds, (if_several_thresholds,)),
        ((f"{name}_iou<threshold>",), "at", at_threshold, ()),
        (("per_class", "<class>", f"{name}_iou<thresholds>"), "range", class_over_thresholds, ()),
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


METRICS = (
    *at_thresholds("precision", precision, OF_PRECISION),
    *at_thresholds("recall", recall, OF_RECALL),
    *at_thresholds("f1", f1, OF_BOTH),
    *at_thresholds("threat_score", threat_score, OF_BOTH),
)
