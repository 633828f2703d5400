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
    )


def unit_mean(
    units: Sequence[tuple[Score, MatchCounts]], worst: Callable[[MatchCounts], float], *, undefined: UndefinedRule
) -> UnitMean:
    """Mean of a metric over units; every unit weighs the same. Summed exactly (``math.fsum``), so in any order.

    - A unit of which no case was submitted has the worst value.
    - Undefined although the reference has nuclei (nothing matched, nothing predicted): left out under ``skip``, the
      worst value under ``worst``.
    - Undefined because there is nothing to measure: left out.
    """
    values: list[float] = []
    charged = 0
    for score, counts in units:
        missing = counts.missing_cases == counts.cases and score.undefined != "class-aware-matching"
        if missing or (undefined == "worst" and score.undefined in COSTLY):
            values.append(worst(counts))
            charged += 1
        elif score.value is not None:
            values.append(score.value)
    if values:
        mean = Score(math.fsum(values) / len(values))
    else:
        reasons = {score.undefined for score, _ in units}
        mean = Score(None, reasons.pop() if len(reasons) == 1 else "no-units")
    return UnitMean(mean, len(values), len(units) - len(values), charged)
