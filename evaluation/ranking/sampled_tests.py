"""How often teams win a test in samples of units: for ``test_then_rank`` in the bootstrap, many samples at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.model import Float64, Int64
from evaluation.ranking.differences import TEAM_PAIRS_AT_ONCE
from evaluation.ranking.significance import (
    AT_LEVEL,
    TEAMS,
    UNITS,
    Test,
    critical_difference,
    rank_in_units,
    rank_sums,
    rounding_of,
)

Float32 = npt.NDArray[np.float32]
Wins = Callable[[Int64], Int64]

ORDERS_DRAWN = 999  # of orders in each sample; the published test has more
BYTES_KEPT = 1_000_000_000  # of what is known of all pairs of teams, over all columns


def wins_in_samples(values: Float64, *, higher_is_better: bool, test: Test, level: float, columns: int = 1) -> Wins:
    """The function that says how many others each team is significantly better than, int64 (S, T), in samples.

    values   float64 (T, G), NaN where a team has none
    columns  how many such functions are needed, which bounds what each may keep

    The function takes how often each sample has each unit, int64 (S, G). The tests are those of ``compare_teams``, with
    ``ORDERS_DRAWN`` orders, and Wilcoxon's by the normal approximation. Teams are compared in the units that all have
    that have any. Of more than 50 units Wilcoxon's sum of ranks is the linear part of what it is in the sample, which
    is off by about one part in the number of units.
    """
    known = ~np.isnan(values)
    compared = np.flatnonzero(known.any(axis=1))
    used = np.flatnonzero(known[compared].all(axis=0)) if len(compared) else np.empty(0, np.int64)
    cost = values[np.ix_(compared, used)] * (-1.0 if higher_is_better else 1.0)

    def wins(weights: Int64) -> Int64:
        won = np.zeros((len(weights), len(values)), np.int64)
        drawn = weights[:, used]
        enough = drawn.sum(axis=1) >= 2
        if len(compared) >= 2 and enough.any():
            won[np.ix_(enough, compared)] = of_compared(drawn[enough])
        return won

    if len(compared) < 2 or len(used) == 0:
        return wins
    if test == "friedman_nemenyi":
        of_compared: Wins = partial(nemenyi_wins, rank_in_units(cost), level)
    else:
        of_compared = WilcoxonWins(cost, level, keep=len(compared) ** 2 * len(used) * 4 * columns <= 2 * BYTES_KEPT)
    return wins


def nemenyi_wins(doubled: Int64, level: float, weights: Int64) -> Int64:
    """Friedman and Nemenyi from twice the ranks in units, (N, T), which no sample changes."""
    teams, number = doubled.shape[1], weights.sum(axis=1)
    sums = weights @ doubled
    spread = ((sums - (number * (teams + 1))[:, None]) ** 2).astype(np.float64).sum(axis=1)
    possible = weights @ ((doubled - (teams + 1)) ** 2).sum(axis=1)
    statistic = np.where(possible > 0, (teams - 1) * spread / np.maximum(possible, 1), 0.0)
    differs = scipy.special.chdtrc(teams - 1, statistic) <= level * AT_LEVEL
    if teams == 2 or (teams <= TEAMS and len(doubled) <= UNITS):
        width = np.empty(len(weights))
        for index, times in enumerate(weights):
            chance = rank_sums(np.repeat(doubled, times, axis=0), draws=ORDERS_DRAWN)
            if chance is None:  # more units are drawn than are permuted
                width[index] = 2 * number[index] * critical_difference(teams, int(number[index]), level)
                continue
            critical = chance.critical_width(level)
            width[index] = np.inf if critical is None else critical
            of_sample = int(((sums[index] - number[index] * (teams + 1)) ** 2).sum())
            differs[index] = chance.spread_tail(of_sample) <= level * AT_LEVEL
    else:
        width = np.array([2 * units * critical_difference(teams, units, level) for units in number.tolist()])
    return np.asarray(behind(sums, width) * differs[:, None])


def behind(sums: Int64, width: Float64) -> Int64:
    """How many of each row of sums, (S, T), are larger than each of it by at least the width of the row, int64 (S, T).

    >>> behind(np.array([[1, 4, 6]]), np.array([2.5])).tolist()
    [[2, 0, 0]]
    """
    whole = np.where(np.isfinite(width), np.ceil(width), 0).astype(np.int64)
    row = np.arange(len(sums))[:, None] * (2 * int(sums.max(initial=0)) + int(whole.max(initial=0)) + 2)
    ordered = np.sort(sums, axis=1) + row
    smaller = np.searchsorted(ordered.ravel(), (sums + whole[:, None] + row).ravel()).reshape(sums.shape)
    last = np.arange(1, len(sums) + 1)[:, None] * sums.shape[1]
    return np.asarray((last - smaller) * np.isfinite(width)[:, None])


class WilcoxonWins:
    """Wilcoxon's signed ranks of all pairs with Holm's correction, in many samples.

    The sum of the ranks that the first of a pair has won is the number of pairs of units u <= v whose differences add
    up to more than 0: w K w / 2 + w d / 2, with w how often each unit is drawn, K_uv whether the two add up to more
    (half: to 0), and d whether the first has won the unit. Its linear part around w = 1 is
    w (K 1) - 1 K 1 / 2 + w d / 2.
    """

    def __init__(self, cost: Float64, level: float, *, keep: bool) -> None:
        self.cost, self.level, self.is_small = cost, level, cost.shape[1] <= UNITS
        self.first, self.second = np.triu_indices(len(cost), 1)
        self.rounding = rounding_of(cost)
        size = max(1, 2**20 // cost.shape[1] ** 2) if self.is_small else TEAM_PAIRS_AT_ONCE
        self.blocks = [slice(begin, begin + size) for begin in range(0, len(self.first), size)]
        self.kept = [self.linear(block) for block in self.blocks] if keep and not self.is_small else []

    def differences(self, block: slice) -> Float64:
        """By how much the first team of each pair leads in each unit, (P, N); 0 for a lead of rounding."""
        difference = self.cost[self.second[block]] - self.cost[self.first[block]]
        return np.where(np.abs(difference) > self.rounding, difference, 0.0)

    def linear(self, block: slice) -> tuple[Float32, Float64, Any]:
        """K 1 + d / 2, float32 (P, N), exact; 1 K 1 / 2, (P,); and whether the two are equal in a unit, sparse."""
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
        """Sum of the ranks won and how many units differ, (S, P) each; whole numbers and quarters, so exact."""
        turned, constant, equal = self.kept[index] if self.kept else self.linear(self.blocks[index])
        number = drawn.sum(axis=1)[:, None] - (equal @ drawn.T).T
        changed = scipy.sparse.csr_array(drawn - 1)
        if changed.nnz < drawn.size // 16:  # without single units
            won = turned.sum(axis=1, dtype=np.float64) + changed @ turned.T.astype(np.float64)
        else:
            won = drawn @ turned.T.astype(np.float64)
        return won - constant, np.asarray(number, np.float64)

    def by_all_pairs(self, block: slice, drawn: Float64) -> tuple[Float64, Float64]:
        """``by_linear_part``, but exactly, from all pairs of units."""
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
