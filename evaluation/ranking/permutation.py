"""The distribution of sums of ranks by chance, exact or drawn, where units are too few for the approximations.

If all teams are equally good, every order of the ranks in a unit is as probable as every other, whatever is tied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.model import Float64, Int64
from evaluation.model.arrays import RandomIntegers

Distribution = Literal["exact", "monte_carlo", "approximation"]

UNITS, TEAMS = 50, 20  # up to here orders are permuted; above, or with more teams, the approximations hold the level
SUMS = 100_000  # of ranks that are told apart: with more of them they are drawn
DRAWS = 9_999
SEED, STREAM = 1, 2  # the bootstrap has streams 0 and 1
AT_LEVEL = 1 + 1e-9  # times the level: probabilities that were added up are equal to it up to here


@dataclass(frozen=True, slots=True, eq=False)
class RankSums:
    """The sums of ranks of k equally good teams: outcomes with their probabilities, (S,) each.

    how          exact, or drawn (monte_carlo)
    spread       int64, ``sum((2 R - N (k + 1))^2)``, where R are the sums over N units: Friedman's statistic grows
                 with it
    width        int64, twice the largest difference of two sums
    probability  they add up to 1. Of draws, the observed outcome counts as one more that is as extreme as any, so that
                 p is (1 + as extreme) / (1 + draws) and never 0 (Phipson & Smyth 2010)
    """

    how: Distribution
    spread: Int64
    width: Int64
    probability: Float64

    def spread_tail(self, spread: int) -> float:
        """Probability of this spread or a larger one: Friedman's p."""
        return float(tails(self.spread, self.probability, np.array([spread]))[0])

    def width_tail(self, width: Int64) -> Float64:
        """Probability of each width or a larger one, float64 of the same shape: the p of a pair of teams."""
        return tails(self.width, self.probability, width)

    def critical_width(self, level: float) -> int | None:
        """The smallest width whose probability is at most the level; None if there is none."""
        found = np.unique(self.width)
        enough = found[(self.width_tail(found) <= level * AT_LEVEL) & (found < LARGEST)]
        return int(enough[0]) if len(enough) else None


LARGEST = np.iinfo(np.int64).max


def tails(outcomes: Int64, probability: Float64, values: Int64) -> Float64:
    """Probability of an outcome that is at least each value, float64."""
    order = np.argsort(outcomes)
    above = np.append(np.cumsum(probability[order][::-1])[::-1], 0.0)
    found = above[np.searchsorted(outcomes[order], values)]
    return np.where(values <= outcomes.min(), 1.0, np.minimum(found, 1.0))


def rank_sums(doubled: Int64, *, draws: int = DRAWS) -> RankSums | None:
    """The distribution of sums of ranks in units with these ties; None where the approximations are used.

    doubled  int64 (N, k), twice the ranks of k teams in each unit, average ranks where values are equal

    Two teams: always exact, the sign test. Up to ``UNITS`` units and ``TEAMS`` teams: exact if there are few sums, else
    ``draws`` orders are drawn. The draw has a seed of its own and is the same on all machines.

    >>> found = rank_sums(np.array([[2, 4], [2, 4], [4, 2], [2, 4]]))
    >>> found.how, found.width_tail(np.array([4, 8])).round(9).tolist()  # 3 : 1 and 4 : 0
    ('exact', [0.625, 0.125])
    """
    units, teams = doubled.shape
    if teams > 2 and (units > UNITS or teams > TEAMS):
        return None
    patterns = np.sort(doubled, axis=1)
    patterns = patterns[patterns[:, 0] < patterns[:, -1]]  # where all are equal every order is the same
    both_ways = patterns, 2 * (teams + 1) - patterns[:, ::-1]  # the same sums, whether higher or lower is better
    first = min(np.ascontiguousarray(of[np.lexsort(of.T)]).tobytes() for of in both_ways)
    return distribution_of(first, len(patterns), teams, draws)


@lru_cache(maxsize=32)
def distribution_of(patterns: bytes, units: int, teams: int, draws: int) -> RankSums:
    """The distribution for units whose ranks, ascending, are ``patterns``, int64 (units, teams)."""
    ranks = np.frombuffer(patterns, np.int64).reshape(units, teams)
    if units == 0:  # all teams are equal in every unit: there is no order to count, however many teams
        return described("exact", np.zeros((1, teams), np.int64), np.ones(1))
    if teams == 2:
        return sign_test(units)
    if teams ** (teams - 2) * units ** (teams - 1) <= SUMS:  # about the number of sums, if nothing is tied
        sums, probability = all_sums(ranks)
        return described("exact", sums, probability)
    sums = drawn_sums(ranks, draws)
    found = described("monte_carlo", sums, np.full(draws, 1 / (draws + 1)))
    return RankSums(
        "monte_carlo",
        np.append(found.spread, LARGEST),
        np.append(found.width, LARGEST),
        np.append(found.probability, 1 / (draws + 1)),
    )


def sign_test(units: int) -> RankSums:
    """Two teams that differ in some units: each is won or lost evenly."""
    won = np.arange(units + 1)
    ahead = np.abs(2 * won - units)
    ways = scipy.special.gammaln(units + 1) - scipy.special.gammaln(won + 1) - scipy.special.gammaln(units - won + 1)
    return RankSums("exact", 2 * ahead**2, 2 * ahead, np.exp(ways - units * np.log(2)))


def described(how: Distribution, sums: Int64, probability: Float64) -> RankSums:
    """From doubled sums of ranks, int64 (S, k), which add up to the same in each row."""
    teams = sums.shape[1]
    spread = ((sums - sums.sum(axis=1, keepdims=True) // teams) ** 2).sum(axis=1)
    return RankSums(how, spread, sums.max(axis=1) - sums.min(axis=1), probability)


def all_sums(ranks: Int64) -> tuple[Int64, Float64]:
    """All sums of doubled ranks with their probabilities, (S, k) and (S,).

    Unit by unit, from the sums so far. Which team has which sum does not matter, so sums are kept in ascending order.
    """
    teams = ranks.shape[1]
    orders = np.array(list(permutations(range(teams))))
    sums: Int64 = np.zeros((1, teams), np.int64)
    probability: Float64 = np.ones(1)
    powers = (int(ranks.max(initial=0)) * len(ranks) + 1) ** np.arange(teams, dtype=np.int64)
    for unit in ranks:
        ways, times = np.unique(unit[orders], axis=0, return_counts=True)
        following = np.sort((sums[:, None] + ways).reshape(-1, teams), axis=1)
        of_each = np.outer(probability, times / len(orders)).ravel()
        _, first, index = np.unique(following @ powers, return_index=True, return_inverse=True)
        sums, probability = following[first], np.asarray(np.bincount(index, weights=of_each), np.float64)
    return sums, probability


def drawn_sums(ranks: Int64, draws: int) -> Int64:
    """Doubled sums of ranks when the order in each unit is drawn, int64 (draws, k)."""
    units, teams = ranks.shape
    sums = np.zeros((draws, teams), np.int64)
    for unit, orders in zip(ranks, drawn_orders(units, teams, draws), strict=True):
        sums += unit[orders]
    return sums


@lru_cache(maxsize=2)
def drawn_orders(units: int, teams: int, draws: int) -> npt.NDArray[np.uint8]:
    """Orders of the teams, uint8 (units, draws, teams)."""
    words = RandomIntegers(seed=SEED, stream=STREAM)
    bounds = np.full((draws, teams), 2**32)
    return np.stack([np.argsort(words.below(bounds), axis=1, kind="stable").astype(np.uint8) for _ in range(units)])
