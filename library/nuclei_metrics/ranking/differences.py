"""By how much teams differ: paired differences over units, with intervals, and how many others each team is
significantly better than in samples of the units (for the bootstrap of ``test_then_rank``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from nuclei_metrics.model import Bool, Float64, Int64
from nuclei_metrics.model.arrays import blocks
from nuclei_metrics.ranking import significance
from nuclei_metrics.ranking.methods import SCORE_ROUNDING
from nuclei_metrics.ranking.sign_flips import wins_by_flips
from nuclei_metrics.ranking.significance import Test

Float32 = npt.NDArray[np.float32]
Wins = Callable[[Int64], Int64]

FEWEST_UNITS = 5  # in common, for an interval
TEAM_PAIRS_AT_ONCE = 256
BYTES_KEPT = 1_000_000_000  # of what is known of all pairs of teams, over all columns


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """By how much the team of the row is ahead of the team of the column, for one metric, (R, T); NaN where unknown.

    rows     int64 (R,), which teams the rows are
    units    int64, in which both have a value
    mean     of the differences over these units; above 0: the row is better, whether higher or lower values are
    low, high  of its interval, simultaneous for all pairs: all of them hold together with the level
    effect   the mean difference in standard deviations of the differences (d_z)
    ahead    share of the units in which the row is ahead, equal values half
    level    of each interval
    """

    rows: Int64
    units: Int64
    mean: Float64
    low: Float64
    high: Float64
    effect: Float64
    ahead: Float64
    level: float

    def within(self, margin: float) -> Bool:
        """Return whether the interval lies inside ± margin, bool (R, T)."""
        return np.asarray((self.low >= -margin) & (self.high <= margin))


def paired_differences(
    values: Float64, *, higher_is_better: bool, level: float, rows: Sequence[int] | None = None
) -> Differences:
    """Compare pairs of teams by their values in units, float64 (T, G), NaN where there is none.

    rows    teams that are compared with all others, None: every team. The level remains that of all pairs
    level   error of all intervals together, such as 0.05: each has the level divided by the number of pairs

    With n units in common, mean m and standard deviation s of the differences, the interval is m ± t s / sqrt(n), t of
    Student's distribution with n - 1 degrees of freedom (see ``half_width``); none under 5 units in common. It shows
    how large a difference is; the declared test decides whether it is significant.

    >>> found = paired_differences(np.array([[0.9, 0.8, 0.9, 0.7, 0.9, 1.0], [0.8, 0.7, 0.8, 0.6, 0.8, 0.9]]),
    ...                            higher_is_better=True, level=0.05)
    >>> found.mean[0, 1].round(6).item(), found.ahead[0, 1].item()
    (0.1, 1.0)
    """
    teams = len(values)
    pairs = max(teams * (teams - 1) // 2, 1)
    signed = values if higher_is_better else -values
    chosen = np.arange(teams) if rows is None else np.asarray(rows, np.int64)
    units, mean, spread, ahead = (np.full((len(chosen), teams), np.nan) for _ in range(4))
    for row, team in enumerate(chosen.tolist()):
        apart = signed[team] - signed
        known = ~np.isnan(apart)
        number = known.sum(axis=1)
        units[row] = number
        apart = np.where(known, apart, 0.0)
        enough = np.maximum(number, 1)
        mean[row] = np.where(number > 0, apart.sum(axis=1) / enough, np.nan)
        off = np.where(known, apart - mean[row][:, None], 0.0)
        spread[row] = np.where(number > 1, np.sqrt((off**2).sum(axis=1) / np.maximum(number - 1, 1)), np.nan)
        size = np.clip(np.abs(np.where(known, signed[team], 0.0)), 1, np.finfo(np.float64).max)
        apart = np.where(np.abs(apart) <= SCORE_ROUNDING * size, 0.0, apart)
        ahead[row] = np.where(number > 0, (known * (np.sign(apart) + 1) / 2).sum(axis=1) / enough, np.nan)
    least = _negligible(values)
    spread = np.where(spread <= least, 0.0, spread)
    mean = np.where(np.abs(mean) <= least, 0.0, mean)
    half = half_width(units, mean, spread, level / pairs)
    low, high = mean - half, mean + half
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(mean == 0, 0.0, mean / spread)
    return Differences(chosen, units.astype(np.int64), mean, low, high, effect, ahead, level / pairs)


def _negligible(values: Float64) -> float:
    """Compute up to where differences of values, float64 (T, G), differ from 0 by rounding only."""
    return 1e-12 * max(float(np.nanmax(np.abs(values), initial=0.0)), 1e-300)


def half_width(units: Float64, mean: Float64, spread: Float64, level: float) -> Float64:
    """Compute half the width of the interval of a mean difference from the standard deviation of the differences.

    NaN for too few units.

    Where all differences are equal, as rounded values can be by chance, the sign test decides whether 0 is outside.
    """
    half = scipy.special.stdtrit(np.maximum(units - 1, 1), 1 - level / 2) * spread / np.sqrt(np.maximum(units, 1))
    half = np.where((spread == 0) & (2.0 ** (1 - units) > level), np.abs(mean), half)
    return np.where(units >= FEWEST_UNITS, half, np.nan)


# --- in samples of units, many at once --------------------------------------------------------------------------------


def wins_in_samples(values: Float64, *, higher_is_better: Bool, test: Test, level: float) -> Wins:
    """Make the function that counts how many others each team is significantly better than in samples, (S, T, K).

    values  float64 (T, K, G), NaN where a team has none

    The function takes how often each sample has each unit, int64 (S, G), and returns int64. The tests are those of
    ``compare_in_columns``, flipped signs with fewer draws, and Wilcoxon's by the normal approximation. Of more than 50
    units Wilcoxon's sum of ranks is the linear part of what it is in the sample, which is off by about one part in the
    number of units.
    """
    if test == "sign_flips":
        return wins_by_flips(values, higher_is_better, level)
    columns = values.shape[1]
    of_columns = [
        _rank_test_wins(values[:, index] * (-1.0 if higher else 1.0), test, level, columns)
        for index, higher in enumerate(higher_is_better.tolist())
    ]
    return lambda weights: np.stack([of_column(weights) for of_column in of_columns], axis=2)


def _rank_test_wins(cost: Float64, test: Test, level: float, columns: int) -> Wins:
    """Make the function for one column, float64 (T, G), whose lower values are better: int64 (S, T).

    Teams are compared in the units that all have that have any. ``columns`` bounds what each function may keep.
    """
    known = ~np.isnan(cost)
    compared = np.flatnonzero(known.any(axis=1))
    used = np.flatnonzero(known[compared].all(axis=0)) if len(compared) else np.empty(0, np.int64)
    cost = cost[np.ix_(compared, used)]

    def wins(weights: Int64) -> Int64:
        won = np.zeros((len(weights), len(known)), np.int64)
        drawn = weights[:, used]
        enough = drawn.sum(axis=1) >= 2
        if len(compared) >= 2 and enough.any():
            won[np.ix_(enough, compared)] = of_compared(drawn[enough])
        return won

    if len(compared) < 2 or len(used) == 0:
        return wins
    if test == "friedman_nemenyi":
        of_compared: Wins = partial(_nemenyi_wins, significance.rank_in_units(cost), level)
    else:
        of_compared = _WilcoxonWins(cost, level, keep=len(compared) ** 2 * len(used) * 4 * columns <= 2 * BYTES_KEPT)
    return wins


def _nemenyi_wins(doubled: Int64, level: float, weights: Int64) -> Int64:
    """Count wins in samples by Friedman and Nemenyi, from twice the ranks in units, (N, T), which no sample changes."""
    teams, number = doubled.shape[1], weights.sum(axis=1)
    sums = weights @ doubled
    spread = ((sums - (number * (teams + 1))[:, None]) ** 2).astype(np.float64).sum(axis=1)
    possible = weights @ ((doubled - (teams + 1)) ** 2).sum(axis=1)
    statistic = np.where(possible > 0, (teams - 1) * spread / np.maximum(possible, 1), 0.0)
    differs = scipy.special.chdtrc(teams - 1, statistic) <= level * significance.AT_LEVEL
    width = np.empty(len(weights))
    for index, times in enumerate(weights):
        units, chance = int(number[index]), significance.rank_sums(np.repeat(doubled, times, axis=0))
        if chance is None:
            width[index] = 2 * units * significance.critical_difference(teams, units, level)
            continue
        critical = chance.critical_width(level)
        width[index] = np.inf if critical is None else critical
        of_sample = int(((sums[index] - units * (teams + 1)) ** 2).sum())
        differs[index] = chance.spread_tail(of_sample) <= level * significance.AT_LEVEL
    return np.asarray(behind(sums, width) * differs[:, None])


def behind(sums: Int64, width: Float64) -> Int64:
    """Count in each row of sums, (S, T), those that are larger than each by the width of the row or more, int64 (S, T).

    >>> behind(np.array([[1, 4, 6]]), np.array([2.5])).tolist()
    [[2, 0, 0]]
    """
    whole = np.where(np.isfinite(width), np.ceil(width), 0).astype(np.int64)
    row = np.arange(len(sums))[:, None] * (2 * int(sums.max(initial=0)) + int(whole.max(initial=0)) + 2)
    ordered = np.sort(sums, axis=1) + row
    smaller = np.searchsorted(ordered.ravel(), (sums + whole[:, None] + row).ravel()).reshape(sums.shape)
    last = np.arange(1, len(sums) + 1)[:, None] * sums.shape[1]
    return np.asarray((last - smaller) * np.isfinite(width)[:, None])


class _WilcoxonWins:
    """Wilcoxon's signed ranks of all pairs with Holm's correction, in many samples.

    The sum of the ranks that the first of a pair has won is the number of pairs of units u <= v whose differences add
    up to more than 0: w K w / 2 + w d / 2, with w how often each unit is drawn, K_uv whether the two add up to more
    (half: to 0), and d whether the first has won the unit. Its linear part around w = 1 is
    w (K 1) - 1 K 1 / 2 + w d / 2.
    """

    def __init__(self, cost: Float64, level: float, *, keep: bool) -> None:
        self.cost, self.level, self.is_small = cost, level, cost.shape[1] <= significance.UNITS
        self.first, self.second = np.triu_indices(len(cost), 1)
        self.rounding = significance.rounding_of(cost)
        size = max(1, 2**20 // cost.shape[1] ** 2) if self.is_small else TEAM_PAIRS_AT_ONCE
        self.blocks = blocks(len(self.first), size)
        self.linear_parts = [self.linear(block) for block in self.blocks] if keep and not self.is_small else []

    def differences(self, block: slice) -> Float64:
        """Compute by how much the first team of each pair leads in each unit, (P, N); 0 if only by rounding."""
        difference = self.cost[self.second[block]] - self.cost[self.first[block]]
        return np.where(np.abs(difference) > self.rounding, difference, 0.0)

    def linear(self, block: slice) -> tuple[Float32, Float64, Any]:
        """Compute K 1 + d / 2, float32 (P, N), exact; 1 K 1 / 2, (P,); and in which units the two are equal, sparse."""
        difference = self.differences(block)
        turned = np.zeros(difference.shape, np.float32)
        for row, of_pair in enumerate(difference):
            here = of_pair != 0
            apart = of_pair[here]
            ordered = np.sort(apart)
            above = len(apart) - np.searchsorted(ordered, -apart + self.rounding, "right")
            not_below = len(apart) - np.searchsorted(ordered, -apart - self.rounding, "left")
            turned[row, here] = (above + not_below) / 2
        constant = turned.sum(axis=1, dtype=np.float64) / 2
        turned[difference > 0] += 0.5
        return turned, constant, scipy.sparse.csr_array((difference == 0).astype(np.int64))

    def by_linear_part(self, index: int, drawn: Any) -> tuple[Float64, Float64]:
        """Sum the ranks won, and count the units that differ, (S, P) each; whole numbers and quarters, so exact."""
        turned, constant, equal = self.linear_parts[index] if self.linear_parts else self.linear(self.blocks[index])
        number = drawn.sum(axis=1)[:, None] - (equal @ drawn.T).T
        changed = scipy.sparse.csr_array(drawn - 1)
        if changed.nnz < drawn.size // 16:  # without single units
            won = turned.sum(axis=1, dtype=np.float64) + changed @ turned.T.astype(np.float64)
        else:
            won = drawn @ turned.T.astype(np.float64)
        return won - constant, np.asarray(number, np.float64)

    def by_all_pairs(self, block: slice, drawn: Float64) -> tuple[Float64, Float64]:
        """Do what ``by_linear_part`` does without the approximation, from all pairs of units."""
        difference = self.differences(block)
        total = difference[:, :, None] + difference[:, None, :]
        both = (difference[:, :, None] != 0) & (difference[:, None, :] != 0)
        more = np.where(both, (total > self.rounding) + (np.abs(total) <= self.rounding) / 2, 0.0)
        quadratic = np.einsum("psu,su->sp", drawn @ more, drawn)
        return (quadratic + drawn @ (difference > 0).T) / 2, drawn @ (difference != 0).T

    def __call__(self, weights: Int64) -> Int64:
        drawn = weights.astype(np.float64)
        score = np.empty((len(weights), len(self.first)))
        ties = ((drawn**3 - drawn).sum(axis=1) / 48)[:, None]  # a unit that is drawn t times ties t differences
        for index, block in enumerate(self.blocks):
            won, number = self.by_all_pairs(block, drawn) if self.is_small else self.by_linear_part(index, drawn)
            variance = number * (number + 1) * (2 * number + 1) / 24 - ties
            score[:, block] = (won - number * (number + 1) / 4) / np.sqrt(np.maximum(variance, 0.25))
        pairs = score.shape[1]
        least = -scipy.special.ndtri(self.level / 2 / np.arange(pairs, 0, -1))  # Holm: of the largest, the next, …
        ordered = np.sort(np.abs(score), axis=1)[:, ::-1]
        rejected = np.logical_and.accumulate(ordered >= least, axis=1).sum(axis=1)
        limit = np.take_along_axis(ordered, np.maximum(rejected - 1, 0)[:, None], axis=1)
        limit[rejected == 0] = np.inf
        one, shape = np.ones(pairs), (pairs, len(self.cost))
        of_first, of_second = (
            scipy.sparse.csr_array((one, (np.arange(pairs), team)), shape=shape) for team in (self.first, self.second)
        )
        better = (score >= limit) @ of_first + (score <= -limit) @ of_second
        return np.asarray(np.rint(better), np.int64)
