"""The stability of a ranking: with other patients of the same kind, and without each patient.

The bootstrap draws as many units (patients) as there are, with replacement, and ranks the teams in each sample by the
method of the challenge. It knows no method: a function ranks S samples at once, each given by how often it has every
unit. The data set itself, and the data set without one unit, are such samples too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from nuclei_metrics.model import Bool, Float64, Int16, Int32, Int64
from nuclei_metrics.model.arrays import RandomIntegers, blocks
from nuclei_metrics.ranking.differences import half_width
from nuclei_metrics.ranking.methods import find_ties, number_ties, rank_values

RankSamples = Callable[[Int64], Float64]
RankValues = Callable[[Float64], Float64]

SAMPLE_ENTRIES_AT_ONCE = 2**18  # of an array with a row for each sample: few enough for the cache of the processor
OUTSIDE, OF = 25, 1000  # at most this share of the samples lies below an interval, and as much above


@dataclass(frozen=True, slots=True)
class _TauDistribution:
    """Kendall's tau-b between the ranking in a sample and the published one, over all samples; NaN if undefined.

    mean, median, low  of the samples in which it is defined; at most 2.5% of these lie below ``low``
    defined     share of samples in which it is defined
    same_order  share of samples in which the same teams are ranked and every pair has its published order
    """

    mean: float
    median: float
    low: float
    defined: float
    same_order: float


@dataclass(frozen=True, slots=True, eq=False)
class _LeftOut:
    """The ranking without each unit in turn, beside the ranking by all units.

    positions      float64 (G, T), NaN where a team is not ranked
    changed_pairs  int64 (G,): pairs of teams that stand otherwise than by all units. Unranked teams stand behind all
    changes_first  bool (G,): not the same teams are first
    """

    positions: Float64
    changed_pairs: Int64
    changes_first: Bool

    @property
    def most(self) -> int | None:
        """The unit whose removal changes the order of most pairs (the first such unit); None if there is none."""
        return int(self.changed_pairs.argmax()) if self.changed_pairs.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Stability:
    """The bootstrap over units of a ranking of T teams.

    samples    how many were drawn; 0 if none could be, then ``reason`` says why and the numbers are NaN
    reason     "no-units", "one-unit", "not-resampled" or "ranked-by-tests", or None
    low, high  rank interval, float64 (T,): the narrowest one with at most 2.5% of the samples below it and at most
               2.5% above, among the samples in which the team is ranked; NaN if there are none. Both ends are
               positions that the team has in some sample.
    ranks      positions that occur in any sample, ascending, float64 (P,)
    frequency  share of the samples in which a team has each of them, float64 (T, P)
    unranked   share of the samples in which it is not ranked, float64 (T,); with its row of ``frequency`` it makes 1
    first      probability of being first, float64 (T,): share of the samples, where teams that are first together have
               equal parts
    alone, shared  share of the samples in which a team is first, alone and together with others, float64 (T,)
    of_units   the positions by all units once each, by the method of the samples, float64 (T,)
    """

    samples: int
    reason: str | None
    low: Float64
    high: Float64
    ranks: Float64
    frequency: Float64
    unranked: Float64
    first: Float64
    alone: Float64
    shared: Float64
    tau: _TauDistribution
    of_units: Float64
    left_out: _LeftOut


def bootstrap_ranks(rank: RankSamples, position: Float64, *, units: int, samples: int, seed: int) -> Stability:
    """Rank the teams in samples of units drawn with replacement, and without each unit.

    rank      positions of the teams in each sample, float64 (S, T), from how often it has each unit, int64 (S, units);
              multiples of 1/2 in 1 … T, NaN for a team that is not ranked
    position  the published ranking by this method, float64 (T,), with which samples are compared. Where teams share a
              place because a test cannot tell them apart, that is the ranking before they do
    units     in the order of their names; 0 if the scores of units are not known
    samples   1 or more

    The draw is that of the confidence intervals (stream 0 of the seed, a word for each drawn unit, sample by sample),
    so all metrics, methods and teams get the same samples.

    Nothing is drawn from fewer than two units. Efron & Tibshirani 1993, chapter 13; for rankings Wiesenfarth et al.,
    Scientific Reports 11, 2021 (challengeR).

    The first team is ahead unless the second unit is drawn twice, in a quarter of the samples:

    >>> by_unit = np.array([[[0.9, 0.5]], [[0.6, 0.7]]])
    >>> rank = rank_by_values(by_unit, lambda values: 1.0 + (values[:, :, 0] < values.max(axis=1)))
    >>> found = bootstrap_ranks(rank, np.array([1.0, 2.0]), units=2, samples=1000, seed=1)
    >>> found.low.tolist(), found.high.tolist(), found.first.tolist(), found.left_out.most
    ([1.0, 1.0], [2.0, 2.0], [0.754, 0.246], 0)
    """
    if units < 2:
        return undrawn(position, "one-unit" if units else "no-units")
    teams = len(position)
    of_units = rank(np.ones((1, units), np.int64))[0]
    counts = np.zeros((teams, 2 * teams + 1), np.int32)
    first, alone, shared = (np.zeros(teams) for _ in range(3))
    taus, same = [], []
    for weights in draw_units(units, samples=samples, seed=seed, at_once=at_once(max(teams, units))):
        positions = rank(weights)
        sample, team = np.nonzero(~np.isnan(positions))
        np.add.at(counts, (team, np.rint(2 * positions[sample, team]).astype(np.int64)), 1)
        is_first = find_first(positions)
        together = is_first.sum(axis=1)[:, None]
        first += (is_first / np.maximum(together, 1)).sum(axis=0)
        alone += (is_first & (together == 1)).sum(axis=0)
        shared += (is_first & (together > 1)).sum(axis=0)
        taus.append(_count_pairs(position, positions).tau())
        same.append(_stand_as(position, positions))
    occur = np.flatnonzero(counts.any(axis=0))
    counts = counts[:, occur]
    low, high = rank_intervals(occur / 2, counts)
    return Stability(
        samples=samples,
        reason=None,
        low=low,
        high=high,
        ranks=occur / 2,
        frequency=counts / samples,
        unranked=(samples - counts.sum(axis=1)) / samples,
        first=first / samples,
        alone=alone / samples,
        shared=shared / samples,
        tau=_describe_taus(np.concatenate(taus), float(np.concatenate(same).mean())),
        of_units=of_units,
        left_out=_leave_one_unit_out(rank, of_units, units),
    )


def undrawn(position: Float64, reason: str) -> Stability:
    """The result where nothing can be drawn, such as for fewer than two units."""
    no_units = _LeftOut(np.empty((0, len(position))), np.empty(0, np.int64), np.empty(0, np.bool_))
    return Stability(
        samples=0,
        reason=reason,
        ranks=np.empty(0),
        frequency=np.empty((len(position), 0)),
        tau=_TauDistribution(*[math.nan] * 5),
        of_units=position,
        left_out=no_units,
        **dict.fromkeys(("low", "high", "unranked", "first", "alone", "shared"), np.full(len(position), np.nan)),
    )


def at_once(entries: int) -> int:
    """Return the number of samples to process at once, given the number of entries of each sample."""
    return max(1, SAMPLE_ENTRIES_AT_ONCE // max(entries, 1))


def draw_units(units: int, *, samples: int, seed: int, at_once: int) -> Iterator[Int64]:
    """Draw samples, some at a time: how often each has each unit, int64 (S, units).

    >>> next(draw_units(2, samples=2, seed=1, at_once=8)).tolist()
    [[0, 2], [1, 1]]
    """
    integers = RandomIntegers(seed=seed, stream=0)
    for part in blocks(samples, at_once):
        number = part.stop - part.start
        drawn = integers.below(np.full((number, units), units)) + units * np.arange(number)[:, None]
        yield np.bincount(drawn.ravel(), minlength=number * units).reshape(number, units)


@lru_cache(maxsize=2)
def sample_weights(units: int, samples: int, seed: int) -> Int16:
    """List weights of units: once each, without each in turn, and as often as each sample has them, int16 (R, units).

    >>> sample_weights(2, samples=1, seed=1).tolist()
    [[1, 1], [0, 1], [1, 0], [0, 2]]
    """
    every = np.ones((1, units), np.int16)
    drawn = draw_units(units, samples=samples, seed=seed, at_once=at_once(units))
    return np.concatenate(
        [every, every - np.eye(units, dtype=np.int16), *(counts.astype(np.int16) for counts in drawn)]
    )


def _leave_one_unit_out(rank: RankSamples, of_units: Float64, units: int) -> _LeftOut:
    """Rank the teams without each unit, and compare with the ranking by all units, float64 (T,)."""
    parts, every_unit = blocks(units, at_once(max(len(of_units), units))), np.arange(units)
    positions = np.concatenate([rank((every_unit != every_unit[part, None]).astype(np.int64)) for part in parts])
    changed = np.concatenate([unranked_last(of_units, positions[part]).changed() for part in parts])
    return _LeftOut(positions, changed, (find_first(positions) != find_first(of_units[None])).any(axis=1))


def find_first(positions: Float64) -> Bool:
    """Mark the teams that are first in each ranking, bool (S, T); none where no team is ranked."""
    best = np.where(np.isnan(positions), np.inf, positions).min(axis=1, initial=np.inf)
    return np.asarray(positions == best[:, None])


def unranked_last(first: Float64, second: Float64) -> _PairCounts:
    """Count pairs of all teams in two rankings (…, T). Unranked teams come after all others."""
    return _count_pairs(*(np.where(np.isnan(positions), np.inf, positions) for positions in (first, second)))


def _stand_as(position: Float64, positions: Float64) -> Bool:
    """Mark the rankings (S, T) in which the same teams are ranked as in one, (T,), and every pair stands as there."""
    same_teams = (np.isnan(positions) == np.isnan(position)).all(axis=1)
    return np.asarray(same_teams & (unranked_last(position, positions).changed() == 0))


def rank_intervals(ranks: Float64, counts: Int32 | Int64) -> tuple[Float64, Float64]:
    """Find both ends of each team's rank interval, float64 (T,), from how often it has each rank, ascending, (T, P).

    The narrowest interval with at most 2.5% of the counts below it, and at most 2.5% above.

    >>> low, high = rank_intervals(np.array([1.0, 2.0, 3.0]), np.array([[25, 950, 25], [0, 974, 26]]))
    >>> low.tolist(), high.tolist()
    ([2.0, 2.0], [2.0, 3.0])
    """
    total = counts.sum(axis=1)
    if len(ranks) == 0:
        nothing = np.full(len(counts), np.nan)
        return nothing, nothing
    up_to = np.cumsum(counts, axis=1)
    low = ranks[(OF * up_to > OUTSIDE * total[:, None]).argmax(axis=1)]
    high = ranks[(OF * up_to >= (OF - OUTSIDE) * total[:, None]).argmax(axis=1)]
    return np.where(total > 0, low, np.nan), np.where(total > 0, high, np.nan)


def _describe_taus(taus: Float64, same_order: float) -> _TauDistribution:
    """Describe the distribution of Kendall's tau in the samples, (S,), that are not NaN."""
    ordered = np.sort(taus[~np.isnan(taus)])
    defined = len(ordered) / len(taus)
    if len(ordered) == 0:
        return _TauDistribution(math.nan, math.nan, math.nan, defined, same_order)
    low = float(ordered[OUTSIDE * len(ordered) // OF])
    return _TauDistribution(float(ordered.mean()), float(np.median(ordered)), low, defined, same_order)


# --- ranking samples ------------------------------------------------------------------------------------------------


def rank_by_values(by_unit: Float64, rank: RankValues, *, aggregate: Literal["mean", "median"] = "mean") -> RankSamples:
    """Rank samples by the mean or median of each column over the drawn units, NaN omitted.

    by_unit  float64 (T, K, G), what is averaged: the scores of units, or the ranks inside each unit
    rank     positions, float64 (S, T), from the columns of the samples, float64 (S, T, K), NaN where a team has no unit

    Memory is limited by ``SAMPLE_ENTRIES_AT_ONCE``, or by one sample.
    """
    teams, columns, units = by_unit.shape
    average = sample_means if aggregate == "mean" else sample_medians
    size = at_once(teams * columns * (1 if aggregate == "mean" else units))

    def rank_samples(weights: Int64) -> Float64:
        return np.concatenate([rank(average(by_unit, weights[part])) for part in blocks(len(weights), size)])

    return rank_samples


def sample_means(by_unit: Float64, weights: Int16 | Int64) -> Float64:
    """Average each column over the units of each sample without NaN, float64 (S, T, K); NaN where nothing is left.

    by_unit  float64 (T, K, G)
    weights  how often each sample has each unit, whole numbers (S, G); may be sparse

    Added up in the order of the units for each team alone (a BLAS product does not promise that): teams with the same
    values have the same mean to the last bit.

    >>> sample_means(np.array([[[1.0, 4.0]], [[np.nan, 2.0]]]), np.array([[2, 1], [2, 0]])).tolist()
    [[[2.0], [2.0]], [[1.0], [nan]]]
    """
    teams, columns, units = by_unit.shape
    values = by_unit.reshape(teams * columns, units).T
    defined = ~np.isnan(values)
    drawn = scipy.sparse.csr_array(weights)
    total = drawn @ np.where(defined, values, 0.0)
    number = drawn.sum(axis=1)[:, None] if defined.all() else drawn @ defined.astype(np.int64)
    means = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    return means.reshape(weights.shape[0], teams, columns)


def sample_medians(by_unit: Float64, weights: Int64) -> Float64:
    """Take the median of each column over the units of each sample without NaN, float64 (S, T, K); NaN of nothing.

    A unit counts as often as it is in the sample; of an even number the mean of the two in the middle. Arguments as in
    ``sample_means``; all samples have the same number of units, at least one.

    >>> sample_medians(np.array([[[1.0, 4.0, 6.0]]]), np.array([[1, 1, 1], [2, 1, 0]])).ravel().tolist()
    [4.0, 1.0]
    """
    drawn = np.repeat(np.tile(np.arange(by_unit.shape[2]), len(weights)), weights.ravel()).reshape(len(weights), -1)
    ordered = np.sort(np.moveaxis(by_unit[:, :, drawn], 2, 0), axis=-1)  # NaN comes last
    number = np.count_nonzero(~np.isnan(ordered), axis=-1, keepdims=True)
    lower, upper = (
        np.take_along_axis(ordered, np.maximum(middle, 0), axis=-1)[..., 0]
        for middle in ((number - 1) // 2, number // 2)
    )
    return np.asarray((lower + upper) / 2)


# --- how alike two rankings are ---------------------------------------------------------------------------------------


SMALL = 16  # teams of which all pairs are compared sooner than sorted


@dataclass(frozen=True, slots=True, eq=False)
class _PairCounts:
    """Numbers of pairs of teams with the same order in two rankings, int64 of one shape each.

    pairs       all of them
    tied_first, tied_second, tied_both   tied in the first ranking, in the second, in both
    discordant  the other way round in the second ranking
    """

    pairs: Int64
    tied_first: Int64
    tied_second: Int64
    tied_both: Int64
    discordant: Int64

    def changed(self) -> Int64:
        """Pairs with another order: reversed, or tied in one ranking only."""
        return self.discordant + self.tied_first + self.tied_second - 2 * self.tied_both

    def tau(self) -> Float64:
        """Kendall's tau-b; see ``kendall_tau``."""
        concordant = self.pairs - self.tied_first - self.tied_second + self.tied_both - self.discordant
        untied_first = (self.pairs - self.tied_first).astype(np.float64)
        untied_second = (self.pairs - self.tied_second).astype(np.float64)
        scale = np.sqrt(untied_first * untied_second)
        return np.where(scale > 0, (concordant - self.discordant) / np.where(scale > 0, scale, 1.0), np.nan)


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> Float64:
    """Compute Kendall's tau-b of two rankings, in [-1, 1]: 1 for the same order, -1 for the reversed one.

    ``(C - D) / sqrt((n - n1) (n - n2))`` over all n pairs of teams: C of them stand the same way in both rankings, D
    the other way round, n1 are tied in the first, n2 in the second. Kendall, Biometrika 33, 1945.

    first, second  (…, T) of any kind of number, of which only the order counts; the axes before the last are broadcast

    Teams that are unranked (NaN) in either ranking are left out. NaN if fewer than two teams are left, or all are tied
    in one of the rankings. Counted in whole numbers, O(T log T) for each pair of rankings.

    Of three pairs two stand the same way and one is turned; a tie of the first two teams leaves two pairs in one side:

    >>> kendall_tau([1.0, 2.0, 3.0], [[2.0, 1.0, 3.0], [1.0, 1.0, 3.0]]).round(6).tolist()
    [0.333333, 0.816497]
    """
    return _count_pairs(np.asarray(first, np.float64), np.asarray(second, np.float64)).tau()


def _count_pairs(first: Float64, second: Float64) -> _PairCounts:
    """Count pairs of the teams that are ranked (not NaN) in both of two rankings (…, T).

    After sorting by the first ranking, and by the second one where that is tied, the discordant pairs are the
    inversions of the second. Knight, JASA 61, 1966.
    """
    left_out = np.isnan(first) | np.isnan(second)
    teams = left_out.shape[-1]
    code_first, code_second = (np.where(left_out, teams, _number_values(values)) for values in (first, second))
    both = np.sort(code_first * (teams + 1) + code_second, axis=-1)
    among_left_out = _choose_two(np.count_nonzero(left_out, axis=-1))  # behind all others and tied in both rankings
    return _PairCounts(
        pairs=_choose_two(np.count_nonzero(~left_out, axis=-1)),
        tied_first=_count_ties(both // (teams + 1)) - among_left_out,
        tied_second=_count_ties(np.sort(code_second, axis=-1)) - among_left_out,
        tied_both=_count_ties(both) - among_left_out,
        discordant=_count_inversions(both % (teams + 1)),
    )


def _choose_two(number: npt.ArrayLike) -> Int64:
    count = np.asarray(number, np.int64)
    return np.asarray(count * (count - 1) // 2)


def _number_values(values: Float64) -> Int64:
    """Number the distinct values of each row (…, T) from 0, ascending, int64 (…, T)."""
    return rank_values(values, higher_is_better=False, ties="dense", missing="worst").astype(np.int64) - 1


def _count_ties(ordered: Int64) -> Int64:
    """Count the pairs of equal values in each row of sorted values (…, T), int64 (…).

    >>> _count_ties(np.array([[1, 1, 1, 4], [0, 0, 2, 2]])).tolist()
    [3, 2]
    """
    before_it = np.arange(1, ordered.shape[-1] + 1) - number_ties(find_ties(ordered, 0), "min")
    return np.asarray(before_it.sum(axis=-1), np.int64)


def _count_inversions(codes: Int64) -> Int64:
    """Count the pairs of positions of which the earlier one has the larger value, in each row (…, T), int64 (…).

    codes  int64, 0 … T

    Inside blocks of some ``SMALL`` positions all pairs are compared. Then blocks are merged two and two, all of a size
    and in all rows at once: where the values of a right block come to stand tells how many of the left one are larger.

    >>> _count_inversions(np.array([[0, 1, 2], [2, 1, 0], [1, 1, 0]])).tolist()
    [0, 3, 2]
    """
    *rows, number = codes.shape
    merges = max((number // SMALL).bit_length() - 1, 0)
    size = -(-number // 2**merges)
    padding = np.full((*rows, size * 2**merges - number), number + 1, np.int32)  # above any code, and last
    blocks = np.concatenate([codes.astype(np.int32), padding], axis=-1).reshape(*rows, 2**merges, size)
    inversions = np.zeros(rows, np.int64)
    positions = np.ascontiguousarray(np.moveaxis(blocks, -1, 0))
    for apart in range(1, size):
        inversions += np.count_nonzero(positions[:-apart] > positions[apart:], axis=(0, -1))
    for _ in range(merges):
        marked = 2 * blocks
        marked[..., 1::2, :] += 1
        size *= 2
        merged = np.sort(marked.reshape(*rows, -1, size), axis=-1)
        in_order = int(np.arange(size // 2, size).sum())
        stand = (merged & 1).astype(np.float64) @ np.arange(float(size))  # whole numbers, exact
        inversions += (in_order - stand).sum(axis=-1).astype(np.int64)
        blocks = merged >> 1
    return inversions


# --- two teams on the nuclei that both matched: who outlines the same nuclei better -----------------------------------


# Conditional scores compare what each team found, and so reward keeping easy nuclei only. Here both are measured on the
# same nuclei. That is a fair comparison only as long as these are most of what each of them found: else a team that
# keeps its easiest nuclei would again be asked about those alone. Then whoever matched more nuclei is ahead.


FEWEST_COMMON = 30  # common nuclei
COMMON_SHARE = 0.7  # of what each of the two matched
INTERVAL = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class CommonPairs:
    """All pairs of T teams, P = T (T - 1) / 2, the teams of each in ascending order.

    first, second  int64 (P,), indices of the teams
    common         int64 (P,), reference nuclei that both matched
    compared       bool (P,): there are ``FEWEST_COMMON`` or more, ``COMMON_SHARE`` of what each matched
    matched        int64 (T,), reference nuclei that each team matched
    difference     float64 (P, K), measure of the first less that of the second: the mean over the common nuclei of a
                   group, then over the groups that have any. NaN for pairs that are not compared
    low, high      float64 (P, K), its 95% interval by Student's distribution over these groups; NaN below 5 groups
    """

    first: Int64
    second: Int64
    common: Int64
    compared: Bool
    matched: Int64
    difference: Float64
    low: Float64
    high: Float64


def compare_on_common(matched: Bool, measures: Float64, group: Int64, *, groups: int) -> CommonPairs:
    """Compare all teams in pairs on the reference nuclei that both matched.

    matched   bool (T, N), whether a team matched a reference nucleus
    measures  float64 (K, T, N), of the matched nuclei; others are not looked at. NaN leaves the group out
    group     int64 (N,), of each nucleus, from 0 in the order of their names
    groups    how many there are; those without a common nucleus are left out of a mean

    A share of exactly 7/10 is enough: ``10 common >= 7 matched``, in whole numbers.

    Thirty nuclei of one patient, on which the first team is better by 1/4, and ten of another on which it is worse:

    >>> measures = np.array([[np.repeat([0.75, 0.5], [30, 10]), np.repeat([0.5, 1.0], [30, 10])]])
    >>> group = np.repeat([0, 1], [30, 10])
    >>> found = compare_on_common(np.ones((2, 40), bool), measures, group, groups=2)
    >>> found.common.tolist(), found.difference.tolist(), found.low.tolist()
    ([40], [[-0.125]], [[nan]])
    """
    teams, kinds = len(matched), len(measures)
    first, second = np.triu_indices(teams, 1)
    mean_difference, zeroed = np.full((3, len(first), kinds), np.nan), np.where(matched, measures, 0.0)
    number, common = matched.sum(axis=1), np.zeros(len(first), np.int64)
    compared = np.zeros(len(first), np.bool_)
    by_nucleus = np.ascontiguousarray(matched.T.astype(np.float64))
    values = [np.ascontiguousarray(of.T) for of in zeroed]
    for team in range(teams - 1):
        of_pair, others = np.flatnonzero(first == team), slice(team + 1, teams)
        mine = np.flatnonzero(matched[team])
        in_group = scipy.sparse.csr_array((np.ones(len(mine)), (group[mine], mine)), shape=(groups, len(group)))
        size = in_group @ by_nucleus[:, others]
        common[of_pair] = size.sum(axis=0).astype(np.int64)
        enough = 10 * common[of_pair, None] >= 7 * np.stack([number[team].repeat(len(of_pair)), number[others]], axis=1)
        compared[of_pair] = enough.all(axis=1) & (common[of_pair] >= FEWEST_COMMON)
        rows = np.flatnonzero(compared[of_pair])
        if len(rows) == 0:
            continue
        difference = np.empty((len(rows), kinds, groups))
        for kind in range(kinds):
            own = scipy.sparse.csr_array((zeroed[kind, team, mine], (group[mine], mine)), shape=in_group.shape)
            less = own @ by_nucleus[:, others] - in_group @ values[kind][:, others]
            mean = np.where(size > 0, less / np.maximum(size, 1), np.nan)
            difference[:, kind] = mean[:, rows].T
        mean_difference[:, of_pair[rows]] = _describe(difference)
    return CommonPairs(first, second, common, compared, number, *mean_difference)


def _describe(by_group: Float64) -> Float64:
    """Compute the mean over groups and both ends of its interval, stacked to float64 (3, P, K).

    by_group  float64 (P, K, G), NaN where a pair has no common nucleus in a group
    """
    known = ~np.isnan(by_group)
    number = known.sum(axis=2)
    mean = sample_means(by_group, np.ones((1, by_group.shape[2]), np.int64))[0]
    squares = np.where(known, (by_group - mean[..., None]) ** 2, 0.0).sum(axis=2)
    half = half_width(number, mean, np.sqrt(squares / np.maximum(number - 1, 1)), 1 - INTERVAL)
    return np.stack([mean, mean - half, mean + half])
