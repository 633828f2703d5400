"""The default test of a leaderboard: the signs of whole units (patients) flipped, for all pairs of teams and columns.

H0 of a pair: the two teams could be swapped in every unit. Then the difference d of a unit could as well be -d, and the
statistic |sum d| / sqrt(sum d^2), which orders samples as Student's t does, is compared with its values under other
signs. A unit has one sign for all pairs and columns, so that their dependence is kept. The maximum over pairs and
columns corrects for their number, step by step (Westfall & Young 1993; Romano & Wolf 2005).

The observed signs and their mirror image are always as extreme as themselves, so p is at least 2 / 2^n in n units. No
test of means holds its level under skew: a failure in a share f of all patients is unseen in (1 - f)^n of the boards
(Bahadur & Savage 1956), so that in n patients a failure in fewer than 1 of n / 3 may not have been seen (rule of three,
Hanley & Lippman-Hand 1983).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model.arrays import Bool, Float64, Int64, RandomIntegers, blocks

Int8 = npt.NDArray[np.int8]

DRAWS = 9_999  # of signs; up to 14 units all 2^n are taken, of which one half mirrors the other
FEWEST_DRAWS, FLIPS_UP_TO = 499, 2**24  # fewer are drawn for many pairs: draws times pairs in columns
SEED, STREAM = 1, 3  # the bootstrap has streams 0 and 1
ROUNDING = 1e-12  # of the largest value of a column: differences up to here are 0
SAME = 1e-9  # statistics that differ by less are equal
ENTRIES_AT_ONCE = 2**21


class PairedValues:
    """The differences of all pairs of T teams, P = T (T - 1) / 2, in K columns and G units; none is kept.

    first, second  int64 (P,), the teams of each pair, in the order of ``np.triu_indices(T, 1)``
    units          int64 (K, P), in how many units both have a value
    length         float64 (K, P), sqrt(sum d^2) over these units, but 1 where that is 0
    varying        bool (G,), units in which any pair differs
    """

    def __init__(self, values: Float64, higher_is_better: Bool) -> None:
        """Take the values of teams, float64 (T, K, G), NaN where there is none."""
        self.first, self.second = np.triu_indices(len(values), 1)
        self._signed = np.moveaxis(values, 1, 0) * np.where(higher_is_better, 1.0, -1.0)[:, None, None]
        self._rounding = ROUNDING * np.abs(np.nan_to_num(self._signed)).max(axis=(1, 2), initial=0.0)
        columns, pairs = len(self._signed), len(self.first)
        self.units, self.length = np.zeros((columns, pairs), np.int64), np.ones((columns, pairs))
        self.varying = np.zeros(values.shape[2], np.bool_)
        for column, block in product(range(columns), blocks(pairs, max(1, ENTRIES_AT_ONCE // max(1, values.shape[2])))):
            difference = self._difference(column, np.arange(pairs)[block])
            self.units[column, block] = (~np.isnan(difference)).sum(axis=1)
            difference = np.nan_to_num(difference)
            self.varying |= difference.any(axis=0)
            length = np.sqrt((difference**2).sum(axis=1))
            self.length[column, block] = np.where(length > 0, length, 1.0)

    def _difference(self, column: int, pairs: Int64) -> Float64:
        """Subtract the values of the second team of each pair, float64 (M, G); above 0 where the first is better."""
        signed = self._signed[column]
        difference = signed[self.first[pairs]] - signed[self.second[pairs]]
        return np.where(np.abs(difference) <= self._rounding[column], 0.0, difference)

    def difference(self, column: int, pairs: Int64) -> Float64:
        """Return the same with 0 for NaN, which is where one of the two has no value."""
        return np.asarray(np.nan_to_num(self._difference(column, pairs)))

    def terms(self, rows: Int64) -> Float64:
        """d / sqrt(sum d^2) of rows of the table (K, P), float64 (M, G): what they add up to is the statistic."""
        column, pair = np.unravel_index(rows, self.units.shape)
        terms = np.empty((len(rows), len(self.varying)))
        for one in range(len(self.units)):
            here = column == one
            terms[here] = self.difference(one, pair[here]) / self.length[one, pair[here], None]
        return terms

    def terms_together(self, weights: Float64, pairs: Int64) -> Float64:
        """The sum of the terms of all columns, float64 (M, G), with the weights of the columns, (K,)."""
        terms = np.zeros((len(pairs), len(self.varying)))
        for column, weight in enumerate(weights.tolist()):
            terms += weight * self.difference(column, pairs) / self.length[column, pairs, None]
        return terms


@dataclass(frozen=True, slots=True, eq=False)
class _FlippedSigns:
    """The p-values of pairs, corrected for the number of pairs, and who of each pair is ahead.

    p_values  float64 (M,)
    ahead     int8 (M,): 1 if the first team is ahead, -1 if it is behind, else 0
    is_exact  whether all signs were taken
    """

    p_values: Float64
    ahead: Int8
    is_exact: bool


Terms = Callable[[Int64], Float64]


def flip_signs(terms: Terms, rows: int, varying: Bool) -> _FlippedSigns:
    """Test whether sums over units differ from 0, all rows as one family.

    terms    of rows, whose indices, int64 (M,), it takes, float64 (M, G)
    rows     how many there are
    varying  bool (G,); in all other units all terms are 0

    The p-value of a row is the share of all signs under which the largest |sum|, of this row and those with smaller
    sums, is at least the observed |sum|; and never below that of a row with a larger one. Where signs are drawn the
    observed ones count as one more draw, so that p is never 0 (Phipson & Smyth 2010).

    >>> table = np.array([[0.5, 0.5, 0.5, 0.5], [0.5, -0.5, 0.5, -0.5]])
    >>> flip_signs(table.__getitem__, 2, np.ones(4, bool)).p_values.tolist()  # the first under 4 of 16 signs
    [0.25, 1.0]
    """
    units, every_row = int(varying.sum()), np.arange(rows)
    signs, is_exact = _every_sign(units, max(FEWEST_DRAWS, min(DRAWS, FLIPS_UP_TO // max(1, rows))))
    size = max(1, ENTRIES_AT_ONCE // max(1, len(varying)))
    sums = np.concatenate([np.zeros(0), *(terms(every_row[block]).sum(axis=1) for block in blocks(rows, size))])
    p_values = _step_down(lambda chosen: terms(chosen)[:, varying], sums, signs, drawn=not is_exact)
    return _FlippedSigns(p_values, np.where(np.abs(sums) > SAME, np.sign(sums), 0).astype(np.int8), is_exact)


def fewest_units(level: float) -> int:
    """Return the least number of units with which a difference can be significant: 2 / 2^n <= level.

    >>> fewest_units(0.05), fewest_units(0.01)
    (6, 8)
    """
    return next(units for units in range(2, 1100) if 2.0 ** (1 - units) <= level)


@lru_cache(maxsize=4)
def _every_sign(units: int, most: int) -> tuple[Float64, bool]:
    """List the signs of units, float64 (units, F), and say whether these are all but their mirror images.

    If there are more than ``most``, so many are drawn, the same on all machines.

    >>> _every_sign(3, 4)[0].astype(int).tolist()
    [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]]
    """
    if units == 0:
        return np.zeros((0, 1)), True
    if (units - 1) < most.bit_length() and 2 ** (units - 1) <= most:
        minus = np.arange(2 ** (units - 1)) >> np.arange(-1, units - 1).clip(0)[:, None] & 1
        minus[0] = 0
        return 1.0 - 2.0 * minus, True
    return _drawn_signs(most, units).T.astype(np.float64), False


def _drawn_signs(draws: int, units: int) -> Int8:
    """Draw signs of units, int8 (draws, units), each 1 or -1."""
    minus = RandomIntegers(seed=SEED, stream=STREAM).below(np.full((draws, units), 2))
    return (1 - 2 * minus).astype(np.int8)


def _step_down(terms: Terms, observed: Float64, signs: Float64, *, drawn: bool) -> Float64:
    """Compute the p-values of M rows by steps from the largest observed sum down, float64 (M,).

    terms     as in ``flip_signs``; ``observed`` their sums, (M,)
    signs     float64 (G, F); ``drawn``: the observed ones are not among them
    """
    sums = np.abs(observed)
    order = np.argsort(sums, kind="stable")
    largest, count = np.zeros(signs.shape[1]), np.empty(len(sums), np.int64)
    for block in blocks(len(sums), max(1, ENTRIES_AT_ONCE // signs.shape[1])):
        chosen = order[block]
        flipped = np.abs(terms(chosen) @ signs)
        np.maximum(flipped[0], largest, out=flipped[0])
        np.maximum.accumulate(flipped, axis=0, out=flipped)
        count[block] = np.count_nonzero(flipped >= sums[chosen, None] - SAME, axis=1)
        largest = flipped[-1].copy()
    p_values = np.empty(len(sums))
    by_size = (count + drawn) / (signs.shape[1] + drawn)
    p_values[order] = np.maximum.accumulate(by_size[::-1])[::-1]
    return p_values
