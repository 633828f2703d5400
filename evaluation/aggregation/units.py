"""From counts of cases to scores of the data set: pooled, mean over groups, mean over cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from evaluation.model import MatchCounts, Score, UndefinedReason, UndefinedRule, UnitMean

COSTLY: frozenset[UndefinedReason] = frozenset({"no-prediction", "nothing-matched"})


def pool_counts(counts: Sequence[MatchCounts]) -> MatchCounts:
    """The counts of several cases as those of one: everything adds up, pair measures are put one after the other."""
    return MatchCounts(
        confusion=np.sum([c.confusion for c in counts], axis=0),
        pair_class=np.concatenate([c.pair_class for c in counts]),
        iou=np.concatenate([c.iou for c in counts]),
        dice=np.concatenate([c.dice for c in counts]),
        hausdorff_px=np.concatenate([c.hausdorff_px for c in counts]),
        hausdorff95_px=np.concatenate([c.hausdorff95_px for c in counts]),
        cases=sum(c.cases for c in counts),
        missing_cases=sum(c.missing_cases for c in counts),
        diagonal_px=max(c.diagonal_px for c in counts),
        outlines=all(c.outlines for c in counts),
    )


def unit_mean(
    units: Sequence[tuple[Score, MatchCounts]],
    worst: Callable[[MatchCounts], float],
    *,
    undefined: UndefinedRule,
    counts_missed: bool = False,
) -> UnitMean:
    """Mean of a metric over units; every unit weighs the same. Summed exactly (``math.fsum``), so in any order.

    - Cases that were not submitted are scored as if nothing had been found in them. Where that costs nothing, since
      missed nuclei do not enter the metric (``counts_missed`` False: precision, and all that is measured on matched
      pairs), the value of the unit is mixed with the worst one by the share m / n of its n cases that are missing:
      ``(1 - m / n) value + (m / n) worst``. Leaving out hard cases must not pay.
    - Undefined although the reference has nuclei (nothing matched, nothing predicted): the worst value if a case is
      missing or the rule is ``worst``, else left out.
    - Undefined because there is nothing to measure: left out.
    - The mean is undefined if a unit has points where outlines are asked for: no cost makes up for that.
    """
    if any(score.undefined == "points-only" for score, _ in units):
        return UnitMean(Score(None, "points-only"), 0, len(units), 0)
    values: list[float] = []
    charged = 0
    for score, counts in units:
        missing = counts.missing_cases / counts.cases
        if score.value is None:
            if score.undefined in COSTLY and (missing or undefined == "worst"):
                values.append(worst(counts))
                charged += 1
        elif missing and not counts_missed:
            values.append((1 - missing) * score.value + missing * worst(counts))
            charged += 1
        else:
            values.append(score.value)
    if values:
        mean = Score(math.fsum(values) / len(values))
    else:
        reasons = {score.undefined for score, _ in units}
        mean = Score(None, reasons.pop() if len(reasons) == 1 else "no-units")
    return UnitMean(mean, len(values), len(units) - len(values), charged)
