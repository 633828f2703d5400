"""Scores: numbers, or why there is none, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from evaluation.model.arrays import Bool, Float64, Int64
from evaluation.model.counts import Units

UndefinedReason = Literal[
    "no-instances",
    "no-reference",
    "no-prediction",
    "nothing-matched",
    "one-class",
    "class-aware-matching",
    "points-only",
    "no-probability",
    "constant-reference",
    "no-spacing",
    "no-units",
]
UNDEFINED_REASONS: tuple[UndefinedReason, ...] = get_args(UndefinedReason)


@dataclass(frozen=True, slots=True)
class Score:
    """A finite number, or None with the reason why there is none. Never NaN."""

    value: float | None
    undefined: UndefinedReason | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One metric of B units.

    value   float64 (B,), NaN where it is undefined
    reason  int8 (B,), 0 where it is defined, else 1 + the index of the reason in ``UNDEFINED_REASONS``
    """

    value: Float64
    reason: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.value)

    def at(self, unit: int) -> Score:
        reason = int(self.reason[unit])
        return Score(None, UNDEFINED_REASONS[reason - 1]) if reason else Score(float(self.value[unit]))


@dataclass(frozen=True, slots=True)
class UnitMean:
    """A mean over units (groups or cases), and what became of each unit.

    score     the mean, or undefined: the reason of the only unit, "no-units" if none of several has a value
    units     how many units entered the mean
    left_out  how many were left out because the value is undefined there
    penalised   how many entered with the worst value: not submitted, or undefined at a cost
    """

    score: Score
    units: int
    left_out: int
    penalised: int


NoInterval = Literal["one-group", "few-groups", "undefined", "often-undefined", "outside-samples"]


@dataclass(frozen=True, slots=True)
class Interval:
    """The ends of a confidence interval, or None with the reason why there is none.

    one-group        there are fewer than two groups
    few-groups       there are too few groups for an interval
    undefined        the number itself is undefined
    often-undefined  it is undefined in more than a tenth of the samples
    outside-samples  it lies outside all samples, so that BCa has no correction for it
    """

    low: float | None
    high: float | None
    reason: NoInterval | None = None


Better = Literal["higher", "lower", "one"]


@dataclass(frozen=True, slots=True)
class MetricScores:
    """One metric on the whole data set. ``path`` is its address in metrics.json, without the aggregation.

    means   by the name of the aggregation, in the order of ``AGGREGATIONS``
    better  "one": a ratio whose best value is 1
    """

    path: tuple[str, ...]
    better: Better
    means: Mapping[str, UnitMean]


@dataclass(frozen=True, slots=True, eq=False)
class UnitScores:
    """Units of one kind (cases, groups, or all pooled) under one matching rule, and what every metric says of each.

    names   of the units, (B,)
    scores  by the path of the metric
    """

    names: tuple[str, ...]
    units: Units
    scores: Mapping[tuple[str, ...], Scores]


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Values that a team lacks although another one has them, and what became of them.

    lacking   int64 (T, K), how many values a team lacks
    left_out  int64 (K,), how many are left out for all teams
    values    how many there are of a team in a column: as many as cases, or as units
    by_unit   float64 (T, K, G), as in ``ScoreTable``, NaN where it rests on a value that was put in the place of one
    """

    lacking: Int64
    left_out: Int64
    values: int
    by_unit: Float64


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """The values of teams in the ranked columns, on the whole data set and in each of its units.

    teams    (T,) names, in ascending order
    columns  (K,) paths of metrics.json
    higher_is_better  bool (K,)
    weights  float64 (K,), above 0
    overall  float64 (T, K), the numbers of metrics.json; NaN: undefined, or not known
    units    (G,) names of groups (patients), or of cases where there are no groups, in ascending order
    by_unit  float64 (T, K, G), the same of each unit; NaN where it is undefined. None if only ``overall`` is known
    floors   (F,) paths of numbers that a team needs to stand before those that lack it, and ``at_least`` how much
    floor_values  float64 (T, F), the numbers of the teams; NaN is below any floor. None if there are no floors
    samples  float64 (T, R, K + F), the numbers in columns and at floors in samples of units: in all units, without each
             of them in turn, and in those drawn with ``seed`` (``sample_weights``). None: they follow from ``by_unit``
    gaps     what became of values that a team lacks and another one has; None: they are NaN in ``by_unit``
    """

    teams: tuple[str, ...]
    columns: tuple[str, ...]
    higher_is_better: Bool
    weights: Float64
    overall: Float64
    units: tuple[str, ...] = ()
    by_unit: Float64 | None = None
    floors: tuple[str, ...] = ()
    at_least: tuple[float, ...] = ()
    floor_values: Float64 | None = None
    samples: Float64 | None = None
    seed: int = 1
    gaps: Gaps | None = None

    def below_floor(self) -> Bool:
        """Which teams fail a floor, bool (T,)."""
        if self.floor_values is None:
            return np.zeros(len(self.teams), np.bool_)
        return np.asarray(~(self.floor_values >= np.array(self.at_least)).all(axis=1))
