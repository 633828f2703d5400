"""Which teams differ significantly: Friedman with Nemenyi, or Wilcoxon's signed ranks with Holm, over units (patients).

All teams were scored on the same units, and every test compares them unit by unit: how hard a unit is drops out.
Ranks are counted doubled, as whole numbers, since the average rank of tied values is a multiple of one half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import count, pairwise, permutations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from nuclei_metrics.model import Bool, Float64, Int64
from nuclei_metrics.model.arrays import blocks, concatenated
from nuclei_metrics.ranking import sign_flips
from nuclei_metrics.ranking.methods import number_ties

Int8 = npt.NDArray[np.int8]
Distribution = Literal["exact", "monte_carlo", "approximation"]

UNITS, TEAMS = 50, 20  # up to here orders are permuted; above, or with more teams, the approximations hold the level
SUMS = 100_000  # of ranks that are told apart; above, the approximations
AT_LEVEL = 1 + 1e-9  # times the level: probabilities that were added up are equal to it up to here
RankTest = Literal["friedman_nemenyi", "wilcoxon_holm"]
Test = Literal["sign_flips"] | RankTest
NoTest = Literal["one-team", "no-complete-unit", "one-unit"]

VALUE_ROUNDING = 1e-12  # of the largest value: values that differ by less are equal, and so are differences
EXACT_UNITS = 50  # up to so many units in which two teams differ signed ranks have their exact distribution
NORMAL_END, NORMAL_STEP = 9.0, 1 / 16  # of the integral in ``range_tail``
TAILS_AT_ONCE = 1024
SORTED_AT_ONCE = 2**13  # what is sorted at once stays in the cache of the processor: three times as fast


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseTest:
    """The result of a test of T teams in one column.

    test, level  as given
    undefined    why nothing was tested, else None. Then the numbers are None or NaN, ``better`` is 0, ``cliques`` empty
    compared     bool (T,): teams with a value in any unit. The others are in no test: NaN and 0 in their rows
    units        how many units were used: those in which every compared team has a value
    left_out     how many were not
    least_units  of fewer nothing can be significant (``fewest_units``)
    statistic    of Friedman: chi-square with (compared teams - 1) degrees of freedom; None under ``sign_flips``
    p_value      of it
    distribution  where that comes from: "exact" or "approximation" (chi-square)
    pair_distribution  where the p-values of the pairs come from; "exact" only if all of them are; "monte_carlo": signs
                 are drawn
    mean_ranks   float64 (T,), over the used units, under ``sign_flips`` over those of each team; 1 is best, equal
                 values get their average rank
    critical_difference  of mean ranks, at the level; None but for ``friedman_nemenyi``, and if nothing can reach it
    p_values     float64 (T, T), of each pair, corrected for the number of pairs, under ``sign_flips`` of all columns;
                 symmetric, with 1 in the diagonal
    better       int8 (T, T): 1 if the row is significantly better than the column, -1 if worse, 0 if neither
    cliques      stretches of teams in the order of their mean ranks, by index: two or more teams of which
                 no two differ significantly, and no stretch inside another. From the best mean rank to the worst
    """

    test: Test
    level: float
    undefined: NoTest | None
    compared: Bool
    units: int
    left_out: int
    least_units: int
    statistic: float | None
    p_value: float | None
    distribution: Distribution | None
    pair_distribution: Distribution | None
    mean_ranks: Float64
    critical_difference: float | None
    p_values: Float64
    better: Int8
    cliques: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Friedman:
    """Friedman's statistic with its p-value, and where that comes from."""

    statistic: float
    p_value: float
    how: Distribution


@dataclass(frozen=True, slots=True, eq=False)
class _PairTests:
    """The tests of all pairs of T teams.

    p_values  float64 (T, T)
    ahead     int8 (T, T): 1 if the row did better than the column, -1 if worse
    how       "exact" if all p-values are
    """

    p_values: Float64
    ahead: Int8
    how: Distribution = "approximation"


@dataclass(frozen=True, slots=True, eq=False)
class _SignedRanks:
    """Signed ranks of P pairs of teams in N units. All pairs: in the order of ``np.triu_indices(T, 1)``.

    differing    int64 (P,), units in which the two differ
    doubled_won  int64 (P,), twice the sum of the ranks of |difference| in the units that the first has won
    ties         int64 (P,), sum of t^3 - t over groups of t equal |differences|
    pattern      int64 (P,): bit n is set where the n-th smallest of the |differences| above 0 is above the one before
                 it, which says what ranks there are. 0 if more than ``EXACT_UNITS`` differ
    """

    differing: Int64
    doubled_won: Int64
    ties: Int64
    pattern: Int64

    @property
    def doubled_sum(self) -> Int64:
        """Twice the sum of all ranks, int64 (P,)."""
        return self.differing * (self.differing + 1)


def compare_teams(values: Float64, *, higher_is_better: bool, test: RankTest, level: float) -> PairwiseTest:
    """Test the differences between teams in one column by ranks.

    values  float64 (T, G), of each team in each unit; finite, or NaN where there is none
    level   of significance, such as 0.05. A difference is significant if p <= level

    friedman_nemenyi    Friedman's test of all teams at once, then Nemenyi's of each pair, from the difference of their
                        mean ranks. Pairs differ only if Friedman's p <= level too (Demsar 2006, JMLR 7:1-30). Two
                        teams: the exact sign test. Of few units and teams both p-values are those of all orders of
                        the ranks in each unit (``rank_sums``), else the approximations
    wilcoxon_holm       Wilcoxon's signed ranks of each pair, two-sided, corrected by Holm (1979) for the number of
                        pairs. Units in which the two are equal are dropped. Exact if the two differ in up to 50 units,
                        else by the normal approximation with ties, without continuity correction

    A team without any value is not compared. A unit in which a compared team has no value is left out for all. Values
    that differ by no more than 1e-12 of the largest are equal. If all are equal, p is 1.

    Undefined ("one-team", "no-complete-unit", "one-unit") with fewer than two compared teams or two used units.
    ValueError if values has not two axes, or the level is not between 0 and 1.

    >>> values = np.array([[0.9, 0.8, 0.9, 0.7, 0.9], [0.8, 0.7, 0.8, 0.6, 0.8], [0.1, 0.2, 0.3, 0.1, 0.1]])
    >>> found = compare_teams(values, higher_is_better=True, test="friedman_nemenyi", level=0.05)
    >>> found.statistic, round(found.p_value * 6**4, 9), found.mean_ranks.tolist()  # of 6 orders, five times the same
    (10.0, 1.0, [1.0, 2.0, 3.0])
    >>> found.better.tolist(), found.cliques
    ([[0, 0, 1], [0, 0, 0], [-1, 0, 0]], ((0, 1), (1, 2)))
    """
    if values.ndim != 2:
        raise ValueError(f"values has {values.ndim} axes; expected two: teams and units")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; expected a number between 0 and 1")
    known = ~np.isnan(values)
    compared: Bool = np.logical_or.reduce(known, axis=1)
    used = known[compared].all(axis=0) & compared.any()
    cost = values[np.ix_(compared, used)] * (-1.0 if higher_is_better else 1.0)
    mean_ranks = np.full(len(values), np.nan)
    p_values = np.full((len(values), len(values)), np.nan)
    better = np.zeros(p_values.shape, np.int8)
    units = cost.shape[1]
    undefined = _why_no_test(cost)
    friedman, critical = None, None
    by_pairs: Distribution | None = None
    if undefined is None:
        doubled = _rank_in_units(cost)
        chance = rank_sums(doubled)
        friedman = friedman_test(doubled, chance)
        pairs = _nemenyi(doubled, chance) if test == "friedman_nemenyi" else wilcoxon_holm(cost)
        by_pairs = pairs.how
        told_apart = pairs.p_values <= level * AT_LEVEL
        if test == "friedman_nemenyi":
            critical = critical_difference(len(cost), units, level)
            if chance is not None:
                width = chance.critical_width(level)
                critical = None if width is None else width / (2 * units)
            told_apart &= friedman.p_value <= level * AT_LEVEL
        mean_ranks[compared] = doubled.sum(axis=0) / (2 * units)
        p_values[np.ix_(compared, compared)] = pairs.p_values
        better[np.ix_(compared, compared)] = pairs.ahead * told_apart
    return PairwiseTest(
        test=test,
        level=level,
        undefined=undefined,
        compared=compared,
        units=units,
        left_out=values.shape[1] - units,
        least_units=fewest_units(test, int(compared.sum()), level),
        statistic=friedman.statistic if friedman else None,
        p_value=friedman.p_value if friedman else None,
        distribution=friedman.how if friedman else None,
        pair_distribution=by_pairs,
        mean_ranks=mean_ranks,
        critical_difference=critical,
        p_values=p_values,
        better=better,
        cliques=find_cliques(mean_ranks, better),
    )


@lru_cache(maxsize=256)
def fewest_units(test: Test, teams: int, level: float) -> int:
    """Return the least number of units with which any two teams can differ significantly, however large the lead is.

    >>> [fewest_units("sign_flips", teams, 0.05) for teams in (2, 10)]
    [6, 6]
    >>> [fewest_units("wilcoxon_holm", teams, 0.05) for teams in (2, 4, 10)]
    [6, 8, 11]
    >>> [fewest_units("friedman_nemenyi", teams, 0.05) for teams in (2, 4, 10)]
    [6, 3, 3]
    """
    if test == "sign_flips" or teams < 2:
        return sign_flips.fewest_units(level)
    return next(units for units in count(2) if _can_differ(test, teams, units, level * AT_LEVEL))


def _can_differ(test: Test, teams: int, units: int, level: float) -> bool:
    """Return whether teams in the same order in every unit differ significantly."""
    if test != "friedman_nemenyi":
        return bool(2.0 ** (1 - units) * teams * (teams - 1) / 2 <= level)
    if teams == 2 or _has_few_sums(teams, units):
        return bool(float(teams * (teams - 1)) ** (1 - units) <= level)
    friedman = scipy.special.chdtrc(teams - 1, units * (teams - 1))
    return bool(friedman <= level and critical_difference(teams, units, level) <= teams - 1)


def _why_no_test(cost: Float64) -> NoTest | None:
    """Return why teams cannot be tested by their values in the units that all have, (T, N); None if they can."""
    teams, units = cost.shape
    if teams < 2:
        return "one-team"
    return None if units >= 2 else "one-unit" if units else "no-complete-unit"


def ex_aequo_positions(comparison: PairwiseTest) -> Float64:
    """Rank teams so that teams without a significant difference may share a rank, float64 (T,); NaN if not compared.

    Competition ranks ("1, 1, 3") of the number of teams that are significantly better; all are 1 if nothing was tested.
    Teams of different places need not differ: below, the second and the third do not. Teams of one place never differ
    under Nemenyi; under Wilcoxon they may, since each can have one team above it, but not the same one.

    >>> values = np.array([[0.9, 0.8, 0.9, 0.7, 0.9], [0.8, 0.7, 0.8, 0.6, 0.8], [0.1, 0.2, 0.3, 0.1, 0.1]])
    >>> ex_aequo_positions(compare_teams(values, higher_is_better=True, test="friedman_nemenyi", level=0.05)).tolist()
    [1.0, 1.0, 3.0]
    """
    better_teams = (comparison.better < 0).sum(axis=1)[comparison.compared]
    positions = np.full(len(comparison.better), np.nan)
    positions[comparison.compared] = 1 + np.searchsorted(np.sort(better_teams), better_teams)
    return positions


def find_cliques(mean_ranks: Float64, better: Int8) -> tuple[tuple[int, ...], ...]:
    """Find the bars of a critical-difference diagram (``PairwiseTest.cliques``), without teams without a mean rank.

    Under Nemenyi these are all maximal groups of teams that do not differ, since only the difference of mean ranks
    decides. Under Wilcoxon there may be further groups, of teams that do not stand together. Teams with the same mean
    rank stand in the order of the table.
    """
    if np.isnan(mean_ranks).all():
        return ()
    order = np.argsort(mean_ranks, kind="stable")[: np.count_nonzero(~np.isnan(mean_ranks))]
    differ = np.triu(better[np.ix_(order, order)] != 0)
    index = np.arange(len(order), dtype=np.int32)
    first = np.maximum.accumulate(np.where(differ, index[:, None] + np.int32(1), np.int32(0)).max(axis=0))
    ends = np.append(first[1:] > first[:-1], True) & (first < index)
    return tuple(tuple(order[first[last] : last + 1].tolist()) for last in np.flatnonzero(ends))


# --- Friedman and Nemenyi ---------------------------------------------------------------------------------------------


def _rank_in_units(cost: Float64) -> Int64:
    """Rank teams in every unit by their values, float64 (T, N), the lowest first: twice the ranks, int64 (N, T).

    Equal values get their average rank.
    """
    order = np.argsort(cost.T, axis=1)
    begins = _begin_groups(np.take_along_axis(cost.T, order, axis=1), _rounding_of(cost))
    doubled = np.empty(order.shape, np.int64)
    np.put_along_axis(doubled, order, (2 * number_ties(begins, "average")).astype(np.int64), axis=1)
    return doubled


def friedman_test(doubled: Int64, chance: _RankSums | None = None) -> _Friedman:
    """Test k teams in N units by Friedman's chi-square, corrected for ties: 0, and p 1, if all values are equal.

    doubled  int64 (N, k), twice the ranks in each unit

    (k - 1) sum((R - N (k + 1) / 2)^2) / sum((r - (k + 1) / 2)^2), with r the ranks, R their sums for each team. That is
    the published 12 / (N k (k + 1)) sum(R^2) - 3 N (k + 1), divided by 1 - sum(t^3 - t) / (N (k^3 - k)) for ties of t
    values. For two teams it is the sign test: (wins - losses)^2 / (wins + losses). p is that of ``chance``; without it
    that of chi-square with k - 1 degrees of freedom, which is about the same in many units.

    >>> doubled = np.array([[2, 4], [2, 4], [4, 2], [3, 3]])
    >>> friedman_test(doubled)  # 2 wins, 1 loss, 1 equal: 1 / 3
    _Friedman(statistic=0.3333333333333333, p_value=0.5637028616507731, how='approximation')
    >>> friedman_test(doubled, rank_sums(doubled))  # one of three, or none, is lost or won in all cases
    _Friedman(statistic=0.3333333333333333, p_value=1.0, how='exact')
    """
    units, teams = doubled.shape
    spread = sum((total - units * (teams + 1)) ** 2 for total in doubled.sum(axis=0).tolist())
    possible = int(((doubled - (teams + 1)) ** 2).sum())
    if possible == 0:
        return _Friedman(0.0, 1.0, "exact")
    statistic = (teams - 1) * spread / possible
    if chance is None:
        return _Friedman(statistic, float(scipy.special.chdtrc(teams - 1, statistic)), "approximation")
    return _Friedman(statistic, chance.spread_tail(spread), "exact")


def _nemenyi(doubled: Int64, chance: _RankSums | None = None) -> _PairTests:
    """Test all pairs of k teams in N units as Nemenyi does, by the difference of their sums of ranks.

    p is the probability that the largest difference of two sums is as large: that of ``chance``. Without it, that the
    range of k independent normal values is above |difference of mean ranks| divided by sqrt(k (k + 1) / (12 N)), where
    ties are not corrected for, which makes p too large rather than too small.
    """
    (units, teams), sums = doubled.shape, doubled.sum(axis=0)
    ahead = sums - sums[:, None]
    sign = np.sign(ahead).astype(np.int8)
    if chance is not None:
        return _PairTests(chance.width_tail(np.abs(ahead)), sign, "exact")
    p_values = np.zeros(int(ahead.max()) + 1)
    p_values[ahead[ahead >= 0]] = 1
    distinct = np.flatnonzero(p_values)
    p_values[distinct] = range_tail(np.sqrt(3 / (units * teams * (teams + 1))) * distinct, teams)
    return _PairTests(p_values[np.abs(ahead)], sign)


@lru_cache(maxsize=1024)
def critical_difference(teams: int, units: int, level: float) -> float:
    """Compute the difference of mean ranks from which on Nemenyi's p <= level. Demsar 2006: q sqrt(k (k + 1) / (6 N)).

    >>> round(critical_difference(4, 14, 0.05), 2), round(critical_difference(4, 14, 0.10), 2)
    (1.25, 1.12)
    """
    quantile, step = 0.0, 64.0  # found by halves: scipy.optimize takes long to import
    while quantile + step > quantile:
        if range_tail(np.array([quantile + step]), teams)[0] > level:
            quantile += step
        step /= 2
    return quantile * math.sqrt(teams * (teams + 1) / (12 * units))


def range_tail(width: Float64, number: int) -> Float64:
    """Compute the probability that the range of k independent normal values is above each width, float64 (W,).

    1 - k int phi(z) (Phi(z) - Phi(z - w))^(k - 1) dz, where z is the largest value: the tail of the studentised range
    with infinitely many degrees of freedom. The trapezoidal rule in steps of 1/16 is within 1e-12 of it for 2 to 10,000
    values, and fast enough for the hundred thousands of distinct differences of a large board; scipy's is not.

    >>> range_tail(np.array([0.0, 1.0]), 2).round(6).tolist()  # for two values 2 Phi(-w / sqrt(2))
    [1.0, 0.4795]
    """
    largest = np.arange(-NORMAL_END, NORMAL_END + NORMAL_STEP, NORMAL_STEP)
    weight = number * NORMAL_STEP / math.sqrt(2 * math.pi) * np.exp(-(largest**2) / 2)
    counts = weight * scipy.special.ndtr(largest) ** (number - 1) > 1e-18
    largest, weight, below = largest[counts], weight[counts], scipy.special.ndtr(largest[counts])
    tail = np.zeros(len(width))
    # k (k - 1) / 2 pairs, each either way
    above_zero = np.flatnonzero(number**2 * scipy.special.ndtr(-width / math.sqrt(2)) > 1e-16)
    for block in blocks(len(above_zero), TAILS_AT_ONCE):
        part = above_zero[block]
        inside = below - scipy.special.ndtr(largest - width[part, None])
        tail[part] = 1 - (inside ** (number - 1) * weight).sum(axis=1)
    return np.clip(tail, 0, 1)


# --- Wilcoxon ---------------------------------------------------------------------------------------------------------


def wilcoxon_holm(cost: Float64) -> _PairTests:
    """Test all pairs of teams, float64 (T, N), by Wilcoxon's signed ranks, two-sided, with Holm's correction."""
    signed = _rank_pairs(cost)
    p_values = _correct_holm(_two_sided(signed))
    how: Distribution = "exact" if (signed.differing <= EXACT_UNITS).all() else "approximation"
    return _PairTests(fill_pairs(p_values, p_values, 1.0), _who_is_ahead(signed), how)


def _rank_pairs(cost: Float64) -> _SignedRanks:
    """Rank the differences of all pairs of teams, float64 (T, N); a unit is won by the lower cost."""
    teams, units = cost.shape
    rounding, at_once = _rounding_of(cost), max(1, SORTED_AT_ONCE // units)
    return concatenated(
        [
            rank_differences(cost[other : other + at_once] - cost[first], rounding)
            for first in range(teams - 1)
            for other in range(first + 1, teams, at_once)
        ]
    )


def rank_differences(difference: Float64, rounding: float) -> _SignedRanks:
    """Rank the leads of the first team of each pair over the second in each unit, float64 (P, N).

    One sort does it: the lowest bit of |difference| holds who won. Units in which the two are equal get no rank.

    >>> found = rank_differences(np.array([[0.5, -0.25, 0.25, 0.0]]), 1e-12)  # ranks 3, 1.5, 1.5, none
    >>> found.differing.tolist(), found.doubled_won.tolist(), found.ties.tolist(), found.pattern.tolist()
    ([3], [9], [6], [5])
    """
    pairs, units = difference.shape
    bits = np.abs(difference).view(np.uint64)
    bits &= ~np.uint64(1)
    bits |= difference > 0
    bits.sort(axis=1)
    won = bits & np.uint64(1)
    ordered = (bits ^ won).view(np.float64)
    begins = _begin_groups(ordered, rounding)
    tied = ~begins.all(axis=1) | (ordered[:, 0] <= rounding)
    ranks = _SignedRanks(  # the ranks are 1, 2, 3, …; floats hold the sums
        differing=np.full(pairs, units),
        doubled_won=(won.astype(np.float64) @ np.arange(2.0, 2 * units + 1, 2)).astype(np.int64),
        ties=np.zeros(pairs, np.int64),
        pattern=np.full(pairs, 2**units - 1 if units <= EXACT_UNITS else 0),
    )
    if tied.any():
        of_tied = _rank_tied(won[tied].view(np.int64), ordered[tied], begins[tied], rounding)
        for field in fields(ranks):
            getattr(ranks, field.name)[tied] = getattr(of_tied, field.name)
    return ranks


def _rank_tied(won: Int64, ordered: Float64, begins: Bool, rounding: float) -> _SignedRanks:
    """Rank differences (P, N), some tied or 0; return which are won, their sizes, and where ties begin."""
    pairs, units = won.shape
    start = np.flatnonzero(begins)
    size = np.diff(start, append=begins.size)
    first_group = np.searchsorted(start, np.arange(pairs) * units)
    equal = np.where(ordered[:, 0] <= rounding, size[first_group], 0)
    ranked = np.ones(len(start), np.bool_)
    ranked[first_group[equal > 0]] = False
    doubled = 2 * (start % units) + size + 1 - 2 * equal[start // units]
    last = min(units, EXACT_UNITS)  # the differing units are among the last ones, or too many
    dropped = np.maximum(last - (units - equal), 0)
    pattern = np.where(units - equal <= last, begins[:, -last:] @ (1 << np.arange(last)) >> dropped, 0)
    return _SignedRanks(
        differing=units - equal,
        doubled_won=np.add.reduceat(np.add.reduceat(won.ravel(), start) * doubled * ranked, first_group),
        ties=np.add.reduceat((size**3 - size) * ranked, first_group),
        pattern=pattern,
    )


def _two_sided(signed: _SignedRanks) -> Float64:
    """Compute two-sided p-values of pairs, float64 (P,): exact where ``compare_teams`` says so, else normal."""
    won, lost = signed.doubled_won, signed.doubled_sum - signed.doubled_won
    p_values: Float64 = 2 * scipy.special.ndtr(-np.abs(won - lost) / 4 / _standard_deviation(signed))
    exact = np.flatnonzero(signed.differing <= EXACT_UNITS)
    if len(exact) == 0:
        return p_values
    kinds, index = np.unique(np.stack([signed.pattern, signed.differing])[:, exact], axis=1, return_inverse=True)
    tails = [exact_tail(pattern, number) for pattern, number in kinds.T.tolist()]
    begin = np.cumsum([0] + [len(tail) for tail in tails])
    fewer = np.minimum(won[exact], lost[exact])
    p_values[exact] = np.minimum(2 * np.concatenate(tails)[begin[index.ravel()] + fewer], 1)
    return p_values


def _standard_deviation(signed: _SignedRanks) -> Float64:
    """Compute the SD of the ranks won, sqrt(n (n + 1) (2 n + 1) / 24 - ties / 48), float64 (P,); 1 without ranks."""
    number = signed.differing
    variance = number * (number + 1) * (2 * number + 1) / 24 - signed.ties / 48
    return np.sqrt(np.where(number > 0, variance, 1.0))


def exact_tail(pattern: int, number: int) -> Float64:
    """Compute how probable twice the sum of ranks won is at most 0, 1, 2, …, if each rank is won or lost evenly.

    number  of ranks; bit n of ``pattern`` is set where the n-th is above the one before it

    >>> exact_tail(0b11, 2).tolist()  # ranks 1 and 2: sums 0, 1, 2, 3
    [0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1.0]
    """
    begins = [index for index in range(number) if pattern >> index & 1]
    ways = np.zeros(number * (number + 1) + 1, np.int64)
    ways[0] = 1
    for start, stop in pairwise([*begins, number]):
        doubled = start + stop + 1
        for _ in range(start, stop):
            ways[doubled:] += ways[:-doubled].copy()
    tail: Float64 = np.cumsum(ways) / 2**number
    return tail


def _who_is_ahead(signed: _SignedRanks) -> Int8:
    """Return which team of each pair has won more than half of the sum of ranks, as in ``_PairTests.ahead``."""
    ahead = np.sign(2 * signed.doubled_won - signed.doubled_sum)
    return fill_pairs(ahead, -ahead, 0.0).astype(np.int8)


def fill_pairs(above: npt.NDArray[Any], below: npt.NDArray[Any], diagonal: float) -> Float64:
    """Fill a table of teams against teams, float64 (T, T), with values above its diagonal, (P,), and below it.

    >>> fill_pairs(np.array([1, 2, 3]), np.array([4, 5, 6]), 0).tolist()
    [[0.0, 1.0, 2.0], [4.0, 0.0, 3.0], [5.0, 6.0, 0.0]]
    """
    teams = (1 + math.isqrt(1 + 8 * len(above))) // 2
    square, mirrored = np.full((teams, teams), diagonal), np.zeros((teams, teams))
    is_above = np.triu(np.ones(square.shape, np.bool_), 1)
    square[is_above], mirrored[is_above] = above, below
    return np.where(is_above.T, mirrored.T, square)


def _correct_holm(p_values: Float64) -> Float64:
    """Correct M p-values by Holm, float64 (M,): the smallest times M, the next times M - 1, …; never descending.

    >>> _correct_holm(np.array([0.25, 0.0625, 0.5])).tolist()
    [0.5, 0.1875, 0.5]
    """
    order = np.argsort(p_values)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)), 1)
    return corrected


# --- ties -------------------------------------------------------------------------------------------------------------


def _rounding_of(cost: Float64) -> float:
    """Compute the rounding error up to which values, or their differences, count as equal."""
    return VALUE_ROUNDING * float(np.abs(cost).max())


def _begin_groups(ordered: Float64, rounding: float) -> Bool:
    """Mark where groups of equal values begin in ascending rows, bool of the same shape (N, M)."""
    begins = np.ones(ordered.shape, np.bool_)
    np.greater(np.diff(ordered, axis=1), rounding, out=begins[:, 1:])
    return begins


# --- sums of ranks by chance ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _RankSums:
    """The sums of ranks of k equally good teams: outcomes with their probabilities, (S,) each.

    spread       int64, ``sum((2 R - N (k + 1))^2)``, where R are the sums over N units: Friedman's statistic grows
                 with it
    width        int64, twice the largest difference of two sums
    probability  they add up to 1
    """

    spread: Int64
    width: Int64
    probability: Float64

    def spread_tail(self, spread: int) -> float:
        """Probability of this spread or a larger one: Friedman's p."""
        return float(_tails(self.spread, self.probability, np.array([spread]))[0])

    def width_tail(self, width: Int64) -> Float64:
        """Probability of each width or a larger one, float64 of the same shape: the p of a pair of teams."""
        return _tails(self.width, self.probability, width)

    def critical_width(self, level: float) -> int | None:
        """The smallest width whose probability is at most the level; None if there is none."""
        widths = np.unique(self.width)
        enough = widths[self.width_tail(widths) <= level * AT_LEVEL]
        return int(enough[0]) if len(enough) else None


def _tails(outcomes: Int64, probability: Float64, values: Int64) -> Float64:
    """Compute the probability of an outcome that is at least each value, float64."""
    order = np.argsort(outcomes)
    above = np.append(np.cumsum(probability[order][::-1])[::-1], 0.0)
    tail = above[np.searchsorted(outcomes[order], values)]
    return np.where(values <= outcomes.min(), 1.0, np.minimum(tail, 1.0))


def rank_sums(doubled: Int64) -> _RankSums | None:
    """Find the distribution of sums of ranks in units with these ties; None where the approximations are used.

    doubled  int64 (N, k), twice the ranks of k teams in each unit, average ranks where values are equal

    Two teams: always, the sign test. More: if there are few sums.

    >>> rank_sums(np.array([[2, 4], [2, 4], [4, 2], [2, 4]])).width_tail(np.array([4, 8])).round(9).tolist()
    [0.625, 0.125]
    """
    teams = doubled.shape[1]
    if teams > TEAMS:
        return None
    patterns = np.sort(doubled, axis=1)
    patterns = patterns[patterns[:, 0] < patterns[:, -1]]  # where all are equal every order is the same
    if teams > 2 and not _has_few_sums(teams, len(patterns)):
        return None
    both_ways = patterns, 2 * (teams + 1) - patterns[:, ::-1]  # the same sums, whether higher or lower is better
    first = min(np.ascontiguousarray(way[np.lexsort(way.T)]).tobytes() for way in both_ways)
    return _distribution_of(first, len(patterns), teams)


def _has_few_sums(teams: int, units: int) -> bool:
    """Return whether all sums of ranks can be listed, by about their number without ties."""
    return units <= UNITS and teams <= TEAMS and teams ** (teams - 2) * units ** (teams - 1) <= SUMS


@lru_cache(maxsize=32)
def _distribution_of(patterns: bytes, units: int, teams: int) -> _RankSums:
    """Find the distribution for units whose ranks, ascending, are ``patterns``, int64 (units, teams)."""
    ranks = np.frombuffer(patterns, np.int64).reshape(units, teams)
    if units == 0:  # all teams are equal in every unit: there is no order to count, however many teams
        return _described(np.zeros((1, teams), np.int64), np.ones(1))
    return _sign_test(units) if teams == 2 else _described(*_all_sums(ranks))


def _sign_test(units: int) -> _RankSums:
    """Find the distribution of two teams that differ in some units, each of which is won or lost evenly."""
    won = np.arange(units + 1)
    ahead = np.abs(2 * won - units)
    ways = scipy.special.gammaln(units + 1) - scipy.special.gammaln(won + 1) - scipy.special.gammaln(units - won + 1)
    return _RankSums(2 * ahead**2, 2 * ahead, np.exp(ways - units * np.log(2)))


def _described(sums: Int64, probability: Float64) -> _RankSums:
    """Describe outcomes by their doubled sums of ranks, int64 (S, k), which add up to the same in each row."""
    teams = sums.shape[1]
    spread = ((sums - sums.sum(axis=1, keepdims=True) // teams) ** 2).sum(axis=1)
    return _RankSums(spread, sums.max(axis=1) - sums.min(axis=1), probability)


def _all_sums(ranks: Int64) -> tuple[Int64, Float64]:
    """List all sums of doubled ranks with their probabilities, (S, k) and (S,).

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
