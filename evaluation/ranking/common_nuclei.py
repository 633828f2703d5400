"""Two teams on the reference nuclei that both matched: who outlines the same nuclei better.

Conditional scores compare what each team found, and so reward keeping easy nuclei only. Here both are measured on the
same nuclei. That is a fair comparison only as long as these are most of what each of them found: else a team that keeps
its easiest nuclei would again be asked about those alone. Then whoever matched more nuclei is ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from evaluation.model import Bool, Float64, Int64
from evaluation.ranking.stability import OF, OUTSIDE, draw_units, sample_means

FEWEST_COMMON = 30  # common nuclei
COMMON_SHARE = 0.7  # of what each of the two matched
SAMPLES_UP_TO = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class CommonPairs:
    """All pairs of T teams, P = T (T - 1) / 2, the teams of each in ascending order.

    first, second  int64 (P,), indices of the teams
    common         int64 (P,), reference nuclei that both matched
    compared       bool (P,): there are ``FEWEST_COMMON`` or more, ``COMMON_SHARE`` of what each matched
    matched        int64 (T,), reference nuclei that each team matched
    difference     float64 (P, K), measure of the first less that of the second: the mean over the common nuclei of a
                   group, then over the groups that have any. NaN for pairs that are not compared
    low, high      float64 (P, K), the middle 95 % of it in samples of the groups; NaN if there is one group only
    """

    first: Int64
    second: Int64
    common: Int64
    compared: Bool
    matched: Int64
    difference: Float64
    low: Float64
    high: Float64


def compare_on_common(
    matched: Bool, measures: Float64, group: Int64, *, groups: int, samples: int, seed: int
) -> CommonPairs:
    """Compare all teams in pairs on the reference nuclei that both matched.

    matched   bool (T, N), whether a team matched a reference nucleus
    measures  float64 (K, T, N), of the matched nuclei; others are not looked at. NaN leaves the group out
    group     int64 (N,), of each nucleus, from 0 in the order of their names
    groups    how many there are; those without a common nucleus are left out of a mean
    samples   as many, but at most ``SAMPLES_UP_TO``. They are those of the ranking (``bootstrap_ranks``), the same for
              both teams of a pair, so that it is the difference that is drawn

    A share of exactly 7/10 is enough: ``10 common >= 7 matched``, in whole numbers.

    Thirty nuclei of one patient, on which the first team is better by 1/4, and ten of another on which it is worse:

    >>> measures = np.array([[np.repeat([0.75, 0.5], [30, 10]), np.repeat([0.5, 1.0], [30, 10])]])
    >>> group = np.repeat([0, 1], [30, 10])
    >>> found = compare_on_common(np.ones((2, 40), bool), measures, group, groups=2, samples=100, seed=1)
    >>> found.common.tolist(), found.difference.tolist(), found.low.tolist(), found.high.tolist()
    ([40], [[-0.125]], [[-0.5]], [[0.25]])
    """
    teams, kinds = len(matched), len(measures)
    first, second = np.triu_indices(teams, 1)
    mean_difference, zeroed = np.full((3, len(first), kinds), np.nan), np.where(matched, measures, 0.0)
    number, common = matched.sum(axis=1), np.zeros(len(first), np.int64)
    compared = np.zeros(len(first), np.bool_)
    weights = draw(groups, samples=min(samples, SAMPLES_UP_TO), seed=seed) if groups > 1 else None
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
        mean_difference[:, of_pair[rows]] = describe(difference, weights)
    return CommonPairs(first, second, common, compared, number, *mean_difference)


def draw(groups: int, *, samples: int, seed: int) -> Any:
    """Draw samples of groups: how often each has each group, sparse int64 (S, G)."""
    (weights,) = draw_units(groups, samples=samples, seed=seed, at_once=samples)
    return scipy.sparse.csr_array(weights)


def describe(by_group: Float64, weights: Any) -> Float64:
    """Compute the mean over groups and both ends of its interval in the samples, stacked to float64 (3, P, K).

    by_group  float64 (P, K, G), NaN where a pair has no common nucleus in a group
    weights   sparse int64 (S, G), or None: no interval

    At most 2.5 % of the samples in which a group with common nuclei was drawn are below the interval, and as many
    above. Its ends are values of samples.
    """
    mean = sample_means(by_group, np.ones((1, by_group.shape[2]), np.int64))[0]
    if weights is None:
        return np.stack([mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)])
    drawn = np.sort(sample_means(by_group, weights), axis=0)  # NaN last
    known = np.count_nonzero(~np.isnan(drawn), axis=0)
    outside = OUTSIDE * known // OF
    low, high = (np.take_along_axis(drawn, of[None], axis=0)[0] for of in (outside, known - 1 - outside))
    return np.stack([mean, low, high])
