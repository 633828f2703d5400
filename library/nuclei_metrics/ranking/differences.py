"""By how much teams differ: paired differences over units, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from nuclei_metrics.model import Bool, Float64, Int64
from nuclei_metrics.ranking.methods import SCORE_ROUNDING

FEWEST_UNITS = 5  # in common, for an interval


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
