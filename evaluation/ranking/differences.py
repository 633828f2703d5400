"""By how much teams differ: paired differences over units, with intervals and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.model import Float64, Int64
from evaluation.ranking.methods import SCORE_ROUNDING
from evaluation.ranking.significance import PairwiseTest

FEWEST_UNITS = 5  # in common, for an interval and for a test
UNDECIDED, EQUIVALENT, BETTER, WORSE = 0, 1, 2, 3
VERDICTS = ("undecided", "equivalent", "better", "worse")
POWER = 0.8  # of the number of units that would decide a pair
UNITS_WORKED_OUT = 2_000  # of more the approximation to Student's noncentral distribution is off by less than one
TEAM_PAIRS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """What the team of the row is ahead of the team of the column, in one column, (R, T) each; NaN where unknown.

    rows     int64 (R,), which teams the rows are
    units    int64, in which both have a value
    mean     of the differences over these units; above 0: the row is better, whether higher or lower values are
    low, high  of its interval, simultaneous for all pairs: all of them hold together with the level
    effect   the mean difference in standard deviations of the differences (Cohen's d of paired values)
    ahead    share of the units in which the row is ahead, equal values half
    verdict  int8, the index in ``VERDICTS``
    level    of each interval
    """

    rows: Int64
    units: Int64
    mean: Float64
    low: Float64
    high: Float64
    effect: Float64
    ahead: Float64
    verdict: npt.NDArray[np.int8]
    level: float

    @property
    def needed(self) -> Float64:
        """In how many units each pair would be decided with probability 0.8, if mean and spread stay, (R, T).

        Infinite if the mean is 0. Decided is here: the interval does not hold 0.
        """
        return units_that_decide(self.effect, self.level)


def paired_differences(
    values: Float64, *, higher_is_better: bool, level: float, margin: float = 0.0, rows: Sequence[int] | None = None
) -> Differences:
    """The differences of pairs of teams, from their values in units, float64 (T, G), NaN where there is none.

    rows    teams that are compared with all others, None: every team. The level is that of all pairs nevertheless
    level   error of all intervals together, such as 0.05: each has the level divided by the number of pairs
    margin  differences up to here do not matter, 0 or more

    With n units in common, mean m and standard deviation s of the differences, the interval is m ± t s / sqrt(n), t of
    Student's distribution with n - 1 degrees of freedom (see ``half_width``). It is equivalent if it lies inside
    ±margin; else better or worse if it does not hold 0; else undecided. Without an interval (fewer than 5 units in
    common) undecided.

    >>> found = paired_differences(np.array([[0.9, 0.8, 0.9, 0.7, 0.9, 1.0], [0.8, 0.7, 0.8, 0.6, 0.8, 0.9]]),
    ...                            higher_is_better=True, level=0.05)
    >>> found.mean[0, 1].round(6).item(), VERDICTS[found.verdict[0, 1]], found.ahead[0, 1].item()
    (0.1, 'better', 1.0)
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
    least = 1e-12 * max(float(np.nanmax(np.abs(values), initial=0.0)), 1e-300)
    spread = np.where(spread <= least, 0.0, spread)
    mean = np.where(np.abs(mean) <= least, 0.0, mean)
    half = half_width(units, mean, spread, level / pairs)
    low, high = mean - half, mean + half
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(mean == 0, 0.0, mean / spread)
    verdict = np.zeros(mean.shape, np.int8)
    verdict[low > 0], verdict[high < 0] = BETTER, WORSE
    verdict[(low >= -margin) & (high <= margin)] = EQUIVALENT
    return Differences(chosen, units.astype(np.int64), mean, low, high, effect, ahead, verdict, level / pairs)


def units_that_decide(effect: Float64, level: float) -> Float64:
    """The fewest units, 5 or more, in which an interval does not hold 0 with probability 0.8, (…), as ``effect``.

    effect  the mean in standard deviations; units are infinite where it is 0, NaN where it is NaN

    By Student's noncentral distribution; above 2,000 units by Guenther's approximation to it (The American Statistician
    35, 1981).

    >>> units_that_decide(np.array([0.3, -1.0, 0.0]), 0.05)
    array([90., 10., inf])
    """
    normal = -scipy.special.ndtri(level / 2)
    size = np.abs(effect)
    with np.errstate(divide="ignore"):
        fewest = ((normal + scipy.special.ndtri(POWER)) / size) ** 2  # Student's distribution asks for more
    needed: Float64 = np.maximum(np.ceil(fewest + normal**2 / 2), FEWEST_UNITS)
    few = fewest <= UNITS_WORKED_OUT
    fewest_units, size = np.maximum(np.ceil(fewest[few]), FEWEST_UNITS), np.where(size[few] < 1e6, size[few], 1e6)
    is_open = np.ones(len(fewest_units), np.bool_)
    while is_open.any():
        units = fewest_units[is_open]
        missed = scipy.special.nctdtr(
            units - 1, size[is_open] * np.sqrt(units), scipy.special.stdtrit(units - 1, 1 - level / 2)
        )
        is_open[is_open] = missed > 1 - POWER
        fewest_units[is_open] += 1
    needed[few] = fewest_units
    return needed


def half_width(units: Float64, mean: Float64, spread: Float64, level: float) -> Float64:
    """Of the interval of a mean difference, from the standard deviation of the differences; NaN for too few units.

    Where all differences are equal, as rounded values can be by chance, the sign test decides whether 0 is outside.
    """
    half = scipy.special.stdtrit(np.maximum(units - 1, 1), 1 - level / 2) * spread / np.sqrt(np.maximum(units, 1))
    half = np.where((spread == 0) & (2.0 ** (1 - units) > level), np.abs(mean), half)
    return np.where(units >= FEWEST_UNITS, half, np.nan)


def better_in_samples(
    values: Float64, *, higher_is_better: bool, level: float, margin: float = 0.0
) -> Callable[[Int64], Float64]:
    """The function that counts in samples how many others are better than each team, float64 (S, T).

    It takes how often each sample has each unit, int64 (S, G). "Better" is as in ``paired_differences``, of the units
    as often as they were drawn. NaN for a team that has no value in a sample.
    """
    first, second = np.triu_indices(len(values), 1)
    known, each = ~np.isnan(values), np.eye(len(values))
    complete = bool(known.all())
    least = 1e-12 * max(float(np.nanmax(np.abs(values), initial=0.0)), 1e-300)

    def count_better(weights: Int64) -> Float64:
        drawn = weights.astype(np.float64)
        better = np.where(drawn @ known.T > 0, 0.0, np.nan)
        of_team = drawn @ np.nan_to_num(values).T * (1.0 if higher_is_better else -1.0)
        for begin in range(0, len(first), TEAM_PAIRS_AT_ONCE):
            one, other = (of[begin : begin + TEAM_PAIRS_AT_ONCE] for of in (first, second))
            both = known[one] & known[other]
            apart = np.where(both, values[one] - values[other], 0.0) * (1.0 if higher_is_better else -1.0)
            centre = apart.sum(axis=1) / np.maximum(both.sum(axis=1), 1)
            off = np.where(both, apart - centre[:, None], 0.0)
            squares = drawn @ (off**2).T
            if complete:  # then sums of teams are enough
                units = drawn.sum(axis=1)[:, None]
                total = (of_team[:, one] - of_team[:, other]) - units * centre
            else:
                units, total = drawn @ both.T.astype(np.float64), drawn @ off.T
            mean = total / np.maximum(units, 1)
            variance = np.maximum(squares - total * mean, 0.0) / np.maximum(units - 1, 1)
            spread = np.sqrt(np.where(variance <= 1e-14 * squares, 0.0, variance))
            mean, spread = (np.where(np.abs(of) <= least, 0.0, of) for of in (centre + mean, spread))
            half = half_width(units, mean, spread, level / len(first))
            beyond = np.abs(mean) + half > margin  # not inside ± margin
            better += (beyond & (mean - half > 0)) @ each[other] + (beyond & (mean + half < 0)) @ each[one]
        return better

    return count_better


def across_columns(tests: list[PairwiseTest | None]) -> list[int]:
    """How many pairs of teams differ significantly in each column when all columns are corrected for together.

    Holm's steps over columns: of K columns the one with the smallest p-value is tested at level / K, the next at
    level / (K - 1), and so on, until one has no pair that differs. The p-value of a column is the smallest of its
    pairs, which are corrected for their number already, and not below Friedman's under ``friedman_nemenyi``. So of
    boards on which all teams are equal in all columns at most a share of ``level`` shows any difference. Untested
    columns have 0.
    """
    counts = [0] * len(tests)
    tested = []
    for index, test in enumerate(tests):
        if test is None or test.undefined is not None:
            continue
        pairs = np.minimum(test.p_values, test.p_values.T)[np.triu_indices(len(test.p_values), 1)]
        if test.test == "friedman_nemenyi" and test.p_value is not None:
            pairs = np.maximum(pairs, test.p_value)
        tested.append((float(np.nanmin(pairs)), index, pairs, test.level))
    tested.sort(key=lambda item: item[:2])
    for step, (smallest, index, pairs, level) in enumerate(tested):
        least = level / (len(tested) - step)
        if smallest > least:
            break
        counts[index] = int((pairs <= least).sum())
    return counts
