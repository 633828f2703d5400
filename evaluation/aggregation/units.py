"""From scores of units to scores of the data set: what an undefined value costs, and means over units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.model import (
    UNDEFINED_REASONS,
    Better,
    Bool,
    Float64,
    Score,
    Scores,
    UndefinedRule,
    UnitMean,
    Units,
)

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
        """Some of the units."""
        scores = Scores(self.scores.value[units], self.scores.reason[units])
        return PenalisedScores(self.value[units], self.penalised[units], scores)


def penalise(
    found: Scores, units: Units, worst: Float64, *, undefined: UndefinedRule, counts_missed: bool
) -> PenalisedScores:
    """What each unit brings into a mean.

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
    costly = (found.reason == COSTLY[0]) | (found.reason == COSTLY[1])
    instead = can_penalise & costly & ((missing > 0) | (undefined == "worst"))
    mixed = can_penalise & (found.reason == 0) & (missing > 0) & (not counts_missed)
    value = np.where(mixed, (1 - missing) * found.value + missing * worst, found.value)
    return PenalisedScores(np.where(instead, worst, value), instead | mixed, found)


def mean_of_units(
    penalised: PenalisedScores, strata: Sequence[Sequence[int]] | None = None, *, worst: Better | None = None
) -> UnitMean:
    """Mean of a metric over units; every unit weighs the same. Summed exactly (``math.fsum``), so in any order.

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
    kept = [part[~np.isnan(part)].tolist() for part in parts]
    means = [math.fsum(values) / len(values) for values in kept if values]
    if means and worst is not None:
        mean = Score(worst_value(means, worst))
    elif means:
        mean = Score(math.fsum(means) / len(means))
    else:
        reasons = set(reason.tolist())
        mean = Score(None, UNDEFINED_REASONS[reasons.pop() - 1] if len(reasons) == 1 else "no-units")
    return UnitMean(mean, int(entered.sum()), int((~entered).sum()), int(penalised.penalised.sum()))


def worst_value(values: Sequence[float], better: Better) -> float:
    """The lowest where higher is better, the highest where lower is, the farthest from 1 of ratios.

    >>> worst_value([0.5, 0.9], "higher"), worst_value([0.5, 0.9], "lower"), worst_value([0.5, 1.2], "one")
    (0.5, 0.9, 0.5)
    """
    if better == "one":
        return max(values, key=lambda value: (abs(value - 1), value))
    return min(values) if better == "higher" else max(values)
