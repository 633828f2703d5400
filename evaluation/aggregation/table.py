"""The cases under one matching rule as one table, and unions of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.model.annotations import UndefinedRule
from evaluation.model.arrays import Bool, Float64, Int64
from evaluation.model.counts import (
    UNDEFINED_REASONS,
    Better,
    CaseTable,
    MatchCounts,
    PairSamples,
    PredictionSamples,
    Score,
    Scores,
    SharedCounts,
    Unions,
    UnitMean,
    Units,
)

Element = TypeVar("Element", bound=np.generic)


def stack_cases(
    counts: Sequence[MatchCounts],
    shared: Sequence[SharedCounts],
    *,
    measures: Sequence[str],
    areas_mm2: Sequence[float | None],
) -> CaseTable:
    """Stack the counts of cases, at least one, to a table with a row for each, in their order.

    shared     what no matching rule can change, of each case; empty if it is told elsewhere
    measures   those that the table is to have; where a case lacks one its sum is 0
    areas_mm2  of each case, None if not known
    """
    pairs = stack_pairs(counts, measures)
    sums: dict[str, npt.NDArray[np.generic]] = {
        "cases": np.ones(len(counts), np.int64),
        "missing": np.array([c.missing for c in counts], np.int64),
        "empty": np.array([is_empty(c) for c in counts], np.int64),
        "points": np.array([not c.outlines for c in counts], np.int64),
        "confusion": np.stack([c.confusion for c in counts]),
        **measure_sums(pairs, len(counts), counts[0].confusion.shape[0] - 1),
    }
    for name in shared[0].sums if shared else ():
        sums[name] = np.stack([of_case.sums[name] for of_case in shared])
    spacing = np.array([math.nan if c.spacing_um is None else c.spacing_um for c in counts])
    diagonal = np.array([c.diagonal_px for c in counts])
    return CaseTable(
        sums=sums,
        largest={"diagonal_px": diagonal, "diagonal_um": diagonal * spacing},
        area_mm2=np.array([math.nan if area is None else area for area in areas_mm2]),
        pairs=pairs,
        predictions=stack_predictions(counts, shared),
    )


def is_empty(counts: MatchCounts) -> bool:
    """Tell whether a case was submitted without a nucleus although the reference has nuclei."""
    return not counts.missing and bool(counts.confusion[1:].any()) and not counts.confusion[:, 1:].any()


def stack_pairs(counts: Sequence[MatchCounts], measures: Sequence[str]) -> PairSamples:
    return PairSamples(
        case=np.repeat(np.arange(len(counts)), [len(c.pair_class) for c in counts]),
        class_id=np.concatenate([c.pair_class for c in counts]),
        measures={
            name: np.concatenate([c.measures.get(name, np.zeros(len(c.pair_class))) for c in counts])
            for name in measures
        },
        class_probability=joined_if_known([c.pair_probability for c in counts if len(c.pair_class)]),
        area_px=joined_if_known([c.pair_area_px for c in counts]),
    )


def stack_predictions(counts: Sequence[MatchCounts], shared: Sequence[SharedCounts]) -> PredictionSamples:
    lists = [c.predictions for c in counts]
    return PredictionSamples(
        case=np.repeat(np.arange(len(lists)), [len(of_case.class_id) for of_case in lists]),
        class_id=np.concatenate([of_case.class_id for of_case in lists]),
        found_class=np.concatenate([of_case.found_class for of_case in lists]),
        probability=joined_if_known([of_case.probability for of_case in lists]),
        hits=joined_if_known([of_case.hits for of_case in shared]),
        size_hits=joined_if_known([of_case.size_hits for of_case in shared]),
    )


def joined_if_known(arrays: Sequence[npt.NDArray[Element] | None]) -> npt.NDArray[Element] | None:
    """Join the arrays of all cases, one after the other; None if there are none, or if one is not known."""
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if known and len(known) == len(arrays) else None


def measure_sums(pairs: PairSamples, cases: int, classes: int) -> dict[str, Float64]:
    """Sum each measure by case, class of the reference, and whether the prediction has that class too, (U, C, 2).

    Each is the exact sum, rounded once (``math.fsum``), so the order of the nuclei does not change a digit.
    """
    right = pairs.class_id[:, 0] == pairs.class_id[:, 1]
    key = (pairs.case * classes + pairs.class_id[:, 0] - 1) * 2 + right
    order = np.argsort(key, kind="stable")
    present, first = np.unique(key[order], return_index=True)
    bounds = [*first.tolist(), len(order)]
    sums = {}
    for name, values in pairs.measures.items():
        of_measure = np.zeros(cases * classes * 2)
        ordered = values[order].tolist()
        of_measure[present] = [math.fsum(ordered[a:b]) for a, b in pairwise(bounds)]
        sums[name] = of_measure.reshape(cases, classes, 2)
    return sums


def unite(table: CaseTable, members: Sequence[Sequence[int]] | Sequence[Int64]) -> Units:
    """Unite cases into units. ``members``: the rows of the table that belong to each, at least one."""
    rows = np.concatenate([np.asarray(rows, np.int64) for rows in members])
    bounds = np.concatenate([[0], np.cumsum([len(rows) for rows in members])])
    return Units(table, Unions(rows, bounds, len(table)))


# --- From scores of units to scores of the data set: what an undefined value costs, and means over units. -------------


COSTLY = 1 + UNDEFINED_REASONS.index("no-prediction"), 1 + UNDEFINED_REASONS.index("nothing-matched")
POINTS_ONLY = 1 + UNDEFINED_REASONS.index("points-only")


@dataclass(frozen=True, slots=True, eq=False)
class PenalisedScores:
    """Scores of units as they enter a mean.

    value    float64 (B,), NaN for units that are left out
    penalised  bool (B,), where the worst value entered, in whole or in part
    scores   as they were before
    """

    value: Float64
    penalised: Bool
    scores: Scores

    def part(self, units: slice) -> PenalisedScores:
        """Cut the scores down to some of the units."""
        scores = Scores(self.scores.value[units], self.scores.reason[units])
        return PenalisedScores(self.value[units], self.penalised[units], scores)


def penalise(
    scores: Scores, units: Units, worst: Float64, *, undefined: UndefinedRule, counts_missed: bool
) -> PenalisedScores:
    """Decide which value of each unit enters a mean.

    worst          the worst value in each unit, float64 (B,), NaN if the metric has none: then nothing is penalised
    counts_missed  whether missed nuclei already make the metric worse

    - Cases that were not submitted are scored as if nothing had been found in them. Where that costs nothing, since
      missed nuclei do not enter the metric (``counts_missed`` False: precision, and all that is measured on matched
      pairs), the value of the unit is mixed with the worst one by the share m / n of its n cases that are missing:
      ``(1 - m / n) value + (m / n) worst``. Leaving out hard cases must not pay.
    - Under the rule ``worst`` a case with reference nuclei and an empty prediction counts as one that was not
      submitted: silence costs the same in either form.
    - Undefined although the reference has nuclei (nothing matched, nothing predicted): the worst value if a case is
      missing or the rule is ``worst``, else left out.
    - Undefined because there is nothing to measure: left out.
    """
    absent = units.sum("missing") + (units.sum("empty") if undefined == "worst" else 0)
    missing = absent / units.sum("cases")
    can_penalise = ~np.isnan(worst)
    costly = (scores.reason == COSTLY[0]) | (scores.reason == COSTLY[1])
    instead = can_penalise & costly & ((missing > 0) | (undefined == "worst"))
    mixed = can_penalise & (scores.reason == 0) & (missing > 0) & (not counts_missed)
    value = np.where(mixed, (1 - missing) * scores.value + missing * worst, scores.value)
    return PenalisedScores(np.where(instead, worst, value), instead | mixed, scores)


def mean_of_units(
    penalised: PenalisedScores, strata: Sequence[Sequence[int]] | None = None, *, worst: Better | None = None
) -> UnitMean:
    """Average a metric over units, which weigh the same. The sum is exact (``math.fsum``), so that no order matters.

    strata   the units of each stratum: then the mean over strata of their means, each stratum weighing the same; one of
             which every unit is left out is left out
    worst    the direction of the metric: then the worst of these means, not their mean; "one": the farthest from 1

    The mean is undefined if a unit has points where outlines are asked for: no cost makes up for that.
    """
    value, reason = penalised.value, penalised.scores.reason
    if np.any(reason == POINTS_ONLY):
        return UnitMean(Score(None, "points-only"), 0, len(value), 0)
    entered = ~np.isnan(value)
    parts = [value] if strata is None else [value[np.asarray(stratum)] for stratum in strata]
    defined = [part[~np.isnan(part)].tolist() for part in parts]
    means = [math.fsum(values) / len(values) for values in defined if values]
    if means and worst is not None:
        mean = Score(worst_value(means, worst))
    elif means:
        mean = Score(math.fsum(means) / len(means))
    else:
        reasons = set(reason.tolist())
        mean = Score(None, UNDEFINED_REASONS[reasons.pop() - 1] if len(reasons) == 1 else "no-units")
    return UnitMean(mean, int(entered.sum()), int((~entered).sum()), int(penalised.penalised.sum()))


def worst_value(values: Sequence[float], better: Better) -> float:
    """Choose the worst value: the lowest if higher is better, the highest if lower is, of ratios the farthest from 1.

    >>> worst_value([0.5, 0.9], "higher"), worst_value([0.5, 0.9], "lower"), worst_value([0.5, 1.2], "one")
    (0.5, 0.9, 0.5)
    """
    if better == "one":
        return max(values, key=lambda value: (abs(value - 1), value))
    return min(values) if better == "higher" else max(values)
