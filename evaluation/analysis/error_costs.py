"""How much each kind of error costs each score.

In the workers, every case is sorted and corrected (``sort_case``, ``correct_case``); then the scores are computed
from the corrected counts by the same formulas and in the same way as those of metrics.json.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.aggregation import mean_of_units, stack_cases, unite
from evaluation.challenge import Challenge
from evaluation.challenge.matching_rules import Sides
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.metrics import metrics_of
from evaluation.metrics.errors import ALL, KINDS, OUTLINES, ErrorKinds, bare, corrected_counts, sort_errors
from evaluation.model import AGGREGATIONS, AggregationUnit, Case, CaseResult, Float64, Int64, MatchCounts
from evaluation.results.metrics_json import rounded
from evaluation.scoring.match import MatchedCase
from evaluation.scoring.score import penalised

AS_IS = "as_is"
HEADLINES: tuple[tuple[str, ...], ...] = (
    ("detection", "f1"),
    ("detection", "precision"),
    ("detection", "recall"),
    ("classification", "balanced_accuracy"),
    ("classification", "macro_f1"),
    ("segmentation", "iou"),
    ("segmentation", "dice"),
    ("panoptic", "pq"),
    ("panoptic", "sq"),
    ("panoptic", "rq"),
    ("panoptic", "binary", "pq"),
    ("panoptic", "binary", "sq"),
    ("panoptic", "binary", "rq"),
)
FAMILIES_THAT_CHANGE: Mapping[str, Collection[str]] = {  # by which kinds; the other families by all
    "classification": ("wrong_class", ALL),
    "segmentation": ("spurious", "wrong_class", "poor_outline", "split", "merged", ALL),
}


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedCase:
    """A case, and what it would be without each kind of error.

    reference, prediction  nuclei of each kind, int64 (7,), in the order of ``KINDS``
    counts                 by ``AS_IS``, each of ``KINDS[1:]``, and ``ALL``
    probability            float64 (T, C) of the pairs of ``AS_IS``, or None
    """

    case: Case
    reference: Int64
    prediction: Int64
    counts: Mapping[str, MatchCounts]
    probability: Float64 | None = None


@dataclass(frozen=True, slots=True)
class ScoreCost:
    """What a kind of error costs a score. ``path`` is that of metrics.json; None: undefined."""

    path: str
    as_is: float | None
    corrected: float | None

    @property
    def cost(self) -> float | None:
        """How much the score would gain."""
        return None if self.as_is is None or self.corrected is None else self.corrected - self.as_is


@dataclass(frozen=True, slots=True)
class ErrorCost:
    """A kind of error: how many nuclei of each side are of it, and what it costs. ``ALL`` counts all but the right."""

    kind: str
    reference: int
    prediction: int
    scores: tuple[ScoreCost, ...]


def sort_case(challenge: Challenge, case: MatchedCase) -> ErrorKinds:
    """The kind of every nucleus of a case under the first matching rule of the challenge, which must have one."""
    rule = challenge.matching.rules[0]
    reference, prediction = case.reference.instances, case.prediction
    misnamed = None
    if rule.class_aware:
        blind = rule.model_copy(update={"class_aware": False})
        sides = Sides(case.case, case.table, reference, prediction, challenge.metrics.boundary)
        with suppress(InputFault, ChallengeBroken):  # too many pairs if classes are ignored: none is misnamed
            misnamed = blind.match(sides)
    return sort_errors(reference, prediction, case.table, case.matches[rule.name], misnamed=misnamed)


def correct_case(case: MatchedCase, result: CaseResult, kinds: ErrorKinds, rule: str) -> CorrectedCase:
    """What a case would be without each kind of error. ``result``: as it is; ``rule``: whose kinds they are."""
    as_is, found = result.counts[rule], case.matches[rule]
    counts = {AS_IS: bare(as_is)}
    for kind in (*KINDS[1:], ALL):
        counts[kind] = corrected_counts(as_is, case.reference.instances, case.prediction, found, kinds, kind)
    reference, prediction = (np.bincount(side, minlength=len(KINDS)) for side in (kinds.reference, kinds.prediction))
    return CorrectedCase(case.case, reference, prediction, counts, as_is.pair_probability)


def error_costs(challenge: Challenge, cases: Iterable[CorrectedCase]) -> tuple[ErrorCost, ...]:
    """What each kind of error costs the headline scores of a challenge, in its unit of aggregation; last, all of them.

    Costs do not add up to what is missing from a perfect score: correcting two kinds gains more, or less, than the sum.
    """
    ordered = sorted(cases, key=lambda corrected: (corrected.case.group, corrected.case.name))
    known = [corrected.counts[AS_IS] for corrected in ordered]
    unit = unit_of_each([corrected.case for corrected in ordered], challenge.aggregation.unit)
    areas_mm2 = [challenge.area_mm2(corrected.case) for corrected in ordered]
    as_is = headline_scores(challenge, AS_IS, known, known, unit, areas_mm2)
    number_of = sum(np.stack([corrected.reference, corrected.prediction]) for corrected in ordered)
    costs = []
    for kind in (*KINDS[1:], ALL):
        counts = fill_in_outlines([corrected.counts[kind] for corrected in ordered], known, unit)
        scores = headline_scores(challenge, kind, counts, known, unit, areas_mm2)
        of_kind = slice(1, None) if kind == ALL else slice(KINDS.index(kind), KINDS.index(kind) + 1)
        reference, prediction = np.asarray(number_of)[:, of_kind].sum(axis=1).tolist()
        found = tuple(ScoreCost(path, value, scores[path]) for path, value in as_is.items())
        costs.append(ErrorCost(kind, reference, prediction, found))
    return tuple(costs)


def unit_of_each(cases: Sequence[Case], kind: AggregationUnit) -> Int64:
    """The index of the unit that each case is in, int64."""
    names = {"pooled": [""] * len(cases), "group": [c.group for c in cases], "case": [c.name for c in cases]}
    return np.unique(names[kind], return_inverse=True)[1]


def headline_scores(
    challenge: Challenge,
    kind: str,
    counts: Sequence[MatchCounts],
    known: Sequence[MatchCounts],
    unit: Int64,
    areas_mm2: Sequence[float | None],
) -> dict[str, float | None]:
    """The headline scores by their paths in metrics.json, as ``summarise`` computes them.

    Correcting some kinds of errors finds nuclei without a known class or outline. Classification or segmentation then
    stays that of the known pairs (``FAMILIES_THAT_CHANGE``).

    counts  with errors of the kind corrected; ``known``: as they are
    unit    that each case is in
    """
    choice = challenge.metric_choice()
    metrics = {
        metric.path: metric for metric in metrics_of(choice, class_aware=challenge.matching.rules[0].class_aware)
    }
    measures = [name for name in choice.measures if name in OUTLINES]
    members = np.split(np.argsort(unit, kind="stable"), np.cumsum(np.bincount(unit))[:-1])
    submitted = [replace(c, missing=corrected.missing) for c, corrected in zip(known, counts, strict=True)]
    units_corrected, units_known = (
        unite(stack_cases(of_cases, (), measures=measures, areas_mm2=areas_mm2), members)
        for of_cases in (counts, submitted)
    )
    aggregation = next(name for name in AGGREGATIONS if name.startswith(challenge.aggregation.unit))
    scores = {}
    for path in HEADLINES:
        if path in metrics:
            changes = kind in FAMILIES_THAT_CHANGE.get(path[0], (kind,))
            found = penalised(metrics[path], units_corrected if changes else units_known, challenge)
            scores[".".join((*path, aggregation))] = mean_of_units(found).score.value
    return scores


def fill_in_outlines(counts: Sequence[MatchCounts], known: Sequence[MatchCounts], unit: Int64) -> Sequence[MatchCounts]:
    """Counts in which measures that are not known, NaN, are those of an average nucleus.

    It is the mean of the pairs of this class on both sides, in the unit; if there are none, in all units; if there are
    none, of all pairs; and 1 if there are none at all.

    known   the counts as they are, of the same cases
    unit    that each case is in
    """
    classes = len(known[0].confusion) - 1
    pair_class = np.concatenate([c.pair_class for c in known])
    right = pair_class[:, 0] == pair_class[:, 1]
    of_class = pair_class[right, 0] - 1
    of_unit = np.repeat(unit, [len(c.pair_class) for c in known])[right]
    means = {}
    for name in sorted(set().union(*(c.measures for c in counts))):
        values = np.concatenate([c.measures.get(name, np.zeros(len(c.pair_class))) for c in known])  # points have none
        in_unit = means_by(of_unit * classes + of_class, values[right], (unit.max() + 1) * classes)
        in_all = means_by(of_class, values[right], classes)
        instead = np.where(np.isnan(in_all), values.mean() if len(values) else 1.0, in_all)
        means[name] = np.where(np.isnan(in_unit), np.tile(instead, unit.max() + 1), in_unit).reshape(-1, classes)
    return [
        replace(
            of_case,
            measures={
                name: np.where(np.isnan(values), means[name][index, of_case.pair_class[:, 0] - 1], values)
                for name, values in of_case.measures.items()
            },
        )
        for of_case, index in zip(counts, unit.tolist(), strict=True)
    ]


def means_by(key: Int64, values: Float64, size: int) -> Float64:
    """Means of values by a whole number, float64 (size,); NaN where there is none."""
    number = np.bincount(key, minlength=size)
    return np.bincount(key, weights=values, minlength=size) / np.where(number, number, np.nan)


def costs_document(costs: Sequence[ErrorCost]) -> dict[str, Any]:
    """What errors cost as nested tables for JSON; six decimals as in metrics.json, None where a score is undefined."""
    as_is = {score.path: rounded(score.as_is) for score in costs[0].scores}
    kinds = []
    for of_kind in costs:
        corrected = {score.path: rounded(score.corrected) for score in of_kind.scores}
        gain = {path: difference(value, as_is[path]) for path, value in corrected.items()}
        numbers = {"reference": of_kind.reference, "prediction": of_kind.prediction}
        kinds.append({"kind": of_kind.kind, **numbers, "corrected": corrected, "cost": gain})
    return {"scores": list(as_is), "as_is": as_is, "kinds": kinds}


def difference(corrected: float | None, as_is: float | None) -> float | None:
    return None if corrected is None or as_is is None else rounded(corrected - as_is)
