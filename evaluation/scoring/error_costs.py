"""Cost of each kind of error per score: the gain if every nucleus of the kind were right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.challenge import Challenge
from evaluation.files.results.documents import rounded
from evaluation.scoring.score import penalised
from nuclei_metrics.aggregation import mean_of_units, stack_cases, unite
from nuclei_metrics.metrics import metrics_of
from nuclei_metrics.metrics.counts import IGNORED, KINDS, MISSED, POOR_OUTLINE, WRONG_CLASS
from nuclei_metrics.model import AGGREGATIONS, Case, CaseResult, CaseTable, Int64, MatchCounts

OUTLINES = ("iou", "dice")  # the measures of the headline scores
HEADLINES = (
    "detection.f1", "detection.precision", "detection.recall", "classification.balanced_accuracy",
    "classification.macro_f1", "segmentation.iou", "segmentation.dice", "panoptic.pq", "panoptic.sq", "panoptic.rq",
    "panoptic.binary.pq", "panoptic.binary.sq", "panoptic.binary.rq",
)  # fmt: skip
OF_MATCHED_PAIRS = {"classification": WRONG_CLASS, "segmentation": POOR_OUTLINE}  # by which kind alone they change


@dataclass(frozen=True, slots=True, eq=False)
class CaseErrors:
    """The errors of a case, as workers send them.

    counts      of the case under the first matching rule
    reference, prediction  nuclei of each kind, int64 (9,), in the order of ``KINDS``
    unmatched   nuclei without a match by side (reference, prediction), kind and class, int64 (2, 9, C + 1)
    """

    case: Case
    counts: MatchCounts
    reference: Int64
    prediction: Int64
    unmatched: Int64


def count_error_kinds(result: CaseResult, rule: str) -> CaseErrors:
    """Return how many nuclei of a case are of each kind under a matching rule."""
    counts, pairs = result.counts[rule], result.matches[rule]
    unmatched = np.zeros((2, len(KINDS), len(counts.confusion)), np.int64)
    sides = ((result.reference, pairs.reference_index), (result.prediction, pairs.prediction_index))
    for number, (nuclei, matched_index) in zip(unmatched, sides, strict=True):
        without = np.delete(np.arange(len(nuclei.class_id)), matched_index)
        np.add.at(number, (nuclei.kinds[rule][without], nuclei.class_id[without]), 1)
    reference, prediction = (np.bincount(nuclei.kinds[rule], minlength=len(KINDS)) for nuclei, _ in sides)
    for number, side in ((reference, "reference"), (prediction, "prediction")):
        number[IGNORED] = len(result.ignored[side].class_id) if side in result.ignored else 0
    return CaseErrors(result.case, counts, reference, prediction, unmatched)


def error_costs(challenge: Challenge, cases: Iterable[CaseErrors]) -> dict[str, Any]:
    """Costs of each kind of error in the headline scores of a challenge, as tables for JSON.

    ``as_is`` contains the scores by their paths in metrics.json, ``kinds`` the nuclei of each kind and the gain of each
    score, None if undefined. Gains do not add up to the difference from 1, because errors hide each other.
    """
    ordered = sorted(cases, key=lambda errors: (errors.case.group, errors.case.name))
    choice, unit = challenge.metric_choice(), challenge.aggregation.unit
    names = {"pooled": [""] * len(ordered), "group": [case.case.group for case in ordered]}
    unit_of_case = np.unique(names.get(unit, [case.case.name for case in ordered]), return_inverse=True)[1]
    members = np.split(np.argsort(unit_of_case, kind="stable"), np.cumsum(np.bincount(unit_of_case))[:-1])
    metrics = {
        ".".join(metric.path): metric
        for metric in metrics_of(choice, class_aware=challenge.matching.rules[0].class_aware)
    }
    aggregation = next(name for name in AGGREGATIONS if name.startswith(unit))

    def scores_of(table: CaseTable) -> dict[str, float | None]:
        units = unite(table, members)
        scores = {path: penalised(metrics[path], units, challenge) for path in HEADLINES if path in metrics}
        return {f"{path}.{aggregation}": rounded(mean_of_units(case).score.value) for path, case in scores.items()}

    measures = [name for name in choice.measures if name in OUTLINES]
    areas_mm2 = [challenge.area_mm2(case.case) for case in ordered]
    table = stack_cases([case.counts for case in ordered], (), measures=measures, areas_mm2=areas_mm2)
    as_is = scores_of(table)
    unmatched = np.stack([case.unmatched for case in ordered])
    kinds = []
    for kind, name in enumerate(KINDS[1:], start=1):
        corrected = scores_of(_correct_table(table, kind, unmatched[:, 0, kind], unmatched[:, 1, kind]))
        cost: dict[str, float | None] = {}
        for path, value in as_is.items():
            changed = corrected[path] if OF_MATCHED_PAIRS.get(path.split(".")[0], kind) == kind else value
            cost[path] = None if value is None or changed is None else rounded(changed - value)
        numbers = {"reference": sum(int(case.reference[kind]) for case in ordered)}
        numbers["prediction"] = sum(int(case.prediction[kind]) for case in ordered)
        kinds.append({"kind": name, **numbers, "cost": cost})
    return {"as_is": as_is, "kinds": kinds}


def _correct_table(table: CaseTable, kind: int, new_pairs: Int64, removed: Int64) -> CaseTable:
    """The cases with one kind of error corrected.

    Each nucleus of the kind is matched, with the right class and the mean outline quality of the matched nuclei of its
    class (over all cases; 1 without matches). Unmatched predictions of the kind are removed. For poor outlines, all
    matched nuclei get the outline of the reference instead.

    new_pairs, removed   reference nuclei and predictions of the kind without a match, by class, int64 (U, C + 1)
    """
    confusion = table.sums["confusion"].copy()
    classes = np.arange(1, confusion.shape[1])
    matched = confusion[:, 1:, 1:].sum(axis=2)
    if kind == WRONG_CLASS:
        confusion[:, 1:, 1:] = 0
        confusion[:, classes, classes] = matched
    confusion[:, classes, classes] += new_pairs[:, 1:]
    confusion[:, :, 0] -= new_pairs
    confusion[:, 0] = np.maximum(confusion[:, 0] - removed, 0)  # published faults of counting leave some out
    named_right = confusion[:, classes, classes]
    sums = {**table.sums, "confusion": confusion}
    for name in set(OUTLINES) & set(table.sums):
        named_wrong_sum, named_right_sum = np.moveaxis(table.sums[name], 2, 0)
        if kind == WRONG_CLASS:
            named_wrong_sum, named_right_sum = np.zeros_like(named_wrong_sum), named_wrong_sum + named_right_sum
        number = matched.sum(axis=0)
        average = np.where(number, table.sums[name].sum(axis=(0, 2)) / np.maximum(number, 1), 1.0)
        named_right_sum = named_right_sum + new_pairs[:, 1:] * average
        if kind == POOR_OUTLINE:
            named_wrong_sum, named_right_sum = matched + new_pairs[:, 1:] - named_right, named_right
        sums[name] = np.stack([named_wrong_sum, named_right_sum], axis=2).astype(np.float64)
    sums["missing"] = table.sums["missing"] * (kind != MISSED)
    sums["empty"] = table.sums["empty"] * ~new_pairs.any(axis=1)
    return replace(table, sums=sums)
