"""Order statistics of units: medians, areas under ROC curves, and the counts along an order that curves are read from.

Entries (T,) stand in one order for all units, and each belongs to a case. In a unit every entry occurs as often as its
case does, ``weights[b, case]`` times. Few units, or units that share few cases, are written out; for many samples of
the same cases that would be too long, so the order is cut into blocks, and whole blocks are counted with one product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model import Bool, Float64, Int64, Units
from nuclei_metrics.model.arrays import expand

CHUNK = 2**15  # entries of several units that are worked on at once: few enough for the cache of the processor
LARGEST_TABLE = 2**22  # numbers in an array of which one side is all cases
LARGEST_KERNEL = 2**11  # cases
LARGEST_SHARE = 32  # of a table with kinds of cases and steps, times the entries: beyond it running sums are faster

WholeOrFloat = Int64 | Float64


def median_of_units(values: Float64, case: Int64, units: Units) -> Float64:
    """Median of each unit, float64 (B,): of the values (T,), each as often as its case (T,) is in the unit.

    For an even number the mean of the two in the middle; NaN where there is none.

    Three values in two cases: all of them, those of the first case, none.

    >>> from scipy.sparse import csr_array
    >>> units = Units(None, csr_array([[1, 1], [1, 0], [0, 0]]))
    >>> median_of_units(np.array([1.0, 5.0, 2.0]), np.array([0, 0, 1]), units).tolist()
    [2.0, 3.0, nan]
    """
    if len(values) == 0:
        return np.full(len(units), np.nan)
    order = np.argsort(values)
    ranking, ordered = rank(case[order], units), values[order]
    number = ranking.number
    lower, upper = ordered[ranking.find((number - 1) // 2)], ordered[ranking.find(number // 2)]
    return np.where(number > 0, (lower + upper) / 2, np.nan)


def weighted_auroc(score: Float64, positive: Bool, case: Int64, units: Units) -> Float64:
    """Area under the ROC curve of each unit, float64 (B,), in [0, 1]; NaN where one of the two sides is empty.

    The share of the pairs (positive, negative entry) in which the positive one has the higher score; equal scores count
    one half. ``score``, ``positive`` and ``case`` are (T,). Counted in whole numbers.

    Scores .9, .5, .5 with a positive at .9 and one at .5: the first wins, the second draws.

    >>> from scipy.sparse import csr_array
    >>> score, positive, case = np.array([0.9, 0.5, 0.5]), np.array([True, True, False]), np.zeros(3, int)
    >>> weighted_auroc(score, positive, case, Units(None, csr_array([[1]]))).tolist()
    [0.75]
    """
    cases = units.weights.shape[1]
    positives = units.weights @ np.bincount(case[positive], minlength=cases)
    negatives = units.weights @ np.bincount(case[~positive], minlength=cases)
    order = np.argsort(-score)
    positive, tie, ranking = positive[order], tie_numbers(score[order]), rank(case[order], units)
    if isinstance(ranking, Blocks) and ranking.has_small_kernel:
        wins_twice = _wins_by_kernel(ranking.case, positive, tie, ranking.weights)
    else:
        wins_twice = wins_by_steps(ranking, positive, tie, negatives)
    pairs = positives * negatives
    return np.where(pairs > 0, wins_twice / (2 * np.maximum(pairs, 1)), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Cumulative counts of sorted entries in b units, at the steps of each unit, one unit after the other, (P,).

    A step is the end of a tie. The steps of unit i are ``start[i]:start[i + 1]``.

    first, stop  which units: ``first`` to ``stop``, so b of them
    start        int64 (b + 1,)
    right, all   whole numbers (P,), rising within a unit
    """

    first: int
    stop: int
    start: Int64
    right: WholeOrFloat
    all: WholeOrFloat

    def gain(self, number: WholeOrFloat) -> WholeOrFloat:
        """Return how much each step adds to a number (P,) that rises with the steps of a unit."""
        gain = np.diff(number, prepend=0)
        begin = self.start[:-1][np.diff(self.start) > 0]
        gain[begin] = number[begin]
        return gain

    def totals(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sum of values (P,) over the steps of each unit, (b,)."""
        totals = np.zeros(len(self.start) - 1, values.dtype)
        filled = np.diff(self.start) > 0
        if filled.any():
            totals[filled] = np.add.reduceat(values, self.start[:-1][filled])
        return totals


def rank(case: Int64, units: Units) -> Ranking:
    """The ranking of entries that are sorted already, each given by its case (T,)."""
    if units.holders[case].sum() <= 4 * len(case):  # it takes little more memory than the entries do
        return write_out(case, units.weights)
    weights, kind = units.kinds
    return Blocks(kind[case], weights)


def tie_numbers(ordered: Float64) -> Int64:
    """Number sorted values so that equal ones share a number: 0, 1, 2, …, int64 (T,)."""
    return np.cumsum(np.concatenate([np.zeros(1, bool), ordered[1:] != ordered[:-1]])[: len(ordered)])


@dataclass(frozen=True, slots=True, eq=False)
class _WrittenOut:
    """A ranking that is written out: units with all their entries, (E,), unit after unit, each in order.

    length      how many entries there are in the order of all
    unit, index int64 (E,)
    cumulated   int64 (E + 1,), how many come before each one, from the first unit on
    start       int64 (B + 1,), where the entries of each unit begin
    """

    length: int
    unit: Int64
    index: Int64
    cumulated: Int64
    start: Int64

    @property
    def number(self) -> Int64:
        """Entries of each unit, int64 (B,)."""
        return np.diff(self.cumulated[self.start])

    def find(self, rank: Int64) -> Int64:
        """Find the entry with a rank (from 0) in each unit: its index in the order of all entries, int64 (B,).

        Where a unit has fewer entries the index means nothing.
        """
        index = np.searchsorted(self.cumulated[1:], self.cumulated[self.start[:-1]] + rank, side="right")
        return np.append(self.index, 0)[index]

    def before(self, index: Int64) -> Int64:
        """Count the entries of each unit before an index, int64 (B,)."""
        key = self.unit * (self.length + 1) + self.index
        wanted = np.arange(len(self.start) - 1) * (self.length + 1) + index
        return self.cumulated[np.searchsorted(key, wanted)] - self.cumulated[self.start[:-1]]

    def steps(self, right: Bool, tie: Int64, *, every: bool = False) -> Iterator[Steps]:
        """Go through all units. ``tie`` int64 (T,) numbers the ties. Unless ``every`` one is wanted, those behind
        which precision can only rise until the next step are left out (``_is_peak``)."""
        if not every:
            peaks = np.flatnonzero(_is_peak(right, tie))
            tie = np.searchsorted(peaks, tie)  # up to the same peak all is one tie; behind the last one nothing
        stretch = tie[self.index]
        ends = np.ones(len(stretch), bool)
        ends[:-1] = (stretch[1:] != stretch[:-1]) | (self.unit[1:] != self.unit[:-1])
        if not every:
            ends &= stretch < len(peaks)
        last, unit = np.flatnonzero(ends), self.unit[ends]
        cumulated_right = np.concatenate([[0], np.cumsum(np.diff(self.cumulated) * right[self.index])])
        begin = self.start[unit]
        yield Steps(
            0,
            len(self.start) - 1,
            np.searchsorted(last, self.start),
            cumulated_right[last + 1] - cumulated_right[begin],
            self.cumulated[last + 1] - self.cumulated[begin],
        )


def write_out(case: Int64, weights: Any) -> _WrittenOut:
    """The entries of every unit, in order."""
    units = weights.shape[0]
    unit = np.repeat(np.arange(units, dtype=np.min_scalar_type(units)), np.diff(weights.indptr))
    by_case, many = np.argsort(weights.indices, kind="stable"), np.bincount(weights.indices, minlength=weights.shape[1])
    begin, number = (np.cumsum(many) - many)[case], many[case]  # the units of each entry
    cell = by_case[expand(begin, begin + number)]
    order = np.argsort(unit[cell], kind="stable")  # of small integers it is fast
    cell, index = cell[order], np.repeat(np.arange(len(case)), number)[order]
    start = np.concatenate([[0], np.cumsum(np.bincount(unit[cell], minlength=units))])
    cumulated = np.concatenate([[0], np.cumsum(weights.data[cell])])
    return _WrittenOut(len(case), unit[cell].astype(np.int64), index, cumulated, start)


@dataclass(frozen=True, eq=False)
class Blocks:
    """A ranking in blocks of entries; it does what ``_WrittenOut`` does.

    case       int64 (T,), of the entries in order; or the kind of the case
    weights    sparse int64 (B, U), by rows
    """

    case: Int64
    weights: Any

    @property
    def has_small_kernel(self) -> bool:
        """Whether comparing all entries of two cases, for every two, is less work than going through every unit."""
        (units, cases), length = self.weights.shape, len(self.case)
        return bool(cases <= LARGEST_KERNEL and cases * (length + units * cases // 32) < 2 * units * length)

    @property
    def size(self) -> int:
        """How many entries a block has."""
        return max(isqrt(len(self.case)), len(self.case) // 256, 1)

    @cached_property
    def cumulated(self) -> Int64:
        """Count the entries of each unit before each block, int64 (B, K + 1); steps do without it."""
        length, cases = len(self.case), self.weights.shape[1]
        blocks = -(-length // self.size)
        per_block = np.bincount(np.arange(length) // self.size * cases + self.case, minlength=blocks * cases)
        # Products of floats go through BLAS; below 2^53 they are whole numbers.
        per_block_of_case = per_block.reshape(blocks, cases).T.astype(np.float64)
        cumulated = np.zeros((self.weights.shape[0], blocks + 1), np.int64)
        for first, chunk in dense(self.weights, blocks):
            counts = chunk.astype(np.float64) @ per_block_of_case
            cumulated[first : first + len(chunk), 1:] = np.cumsum(counts, axis=1)
        return cumulated

    @property
    def number(self) -> Int64:
        return self.cumulated[:, -1]

    def find(self, rank: Int64) -> Int64:
        block = np.minimum((self.cumulated[:, 1:] <= rank[:, None]).sum(axis=1), self.cumulated.shape[1] - 2)
        rest = rank - self.cumulated[np.arange(len(block)), block]
        position = np.zeros(len(block), np.int64)
        for first, inside in self.contents(block):
            upto = np.cumsum(inside, axis=1) <= rest[first : first + len(inside), None]
            position[first : first + len(inside)] = upto.sum(axis=1)
        index: Int64 = np.minimum(block * self.size + position, len(self.case) - 1)
        return index

    def before(self, index: Int64) -> Int64:
        block = np.minimum(index // self.size, self.cumulated.shape[1] - 2)
        rest = index - block * self.size
        number: Int64 = self.cumulated[np.arange(len(block)), block]
        for first, inside in self.contents(block):
            counted = np.arange(self.size) < rest[first : first + len(inside), None]
            number[first : first + len(inside)] += (inside * counted).sum(axis=1)
        return number

    def contents(self, block: Int64) -> Iterator[tuple[int, Int64]]:
        """Yield the weights of the entries of one block of each unit: index of the first unit, weights (b, size)."""
        padded = np.concatenate([self.case, np.repeat(self.case[-1:], self.size)])
        for first, weights in dense(self.weights, self.size):
            begin = block[first : first + len(weights)] * self.size
            cell = padded[begin[:, None] + np.arange(self.size)]
            cell += np.arange(len(weights))[:, None] * weights.shape[1]
            yield first, weights.ravel()[cell]

    def steps(self, right: Bool, tie: Int64, *, every: bool = False) -> Iterator[Steps]:
        last = np.flatnonzero(np.diff(tie, append=tie[-1] + 1))
        if not every:
            last = last[_is_peak(right, tie)]
        cases = self.weights.shape[1]
        if cases * len(last) > min(LARGEST_TABLE, LARGEST_SHARE * len(self.case)):
            yield from self.steps_by_sums(right, last)
            return
        # How many entries of each case stand up to each step, all and right ones: (2, cases, steps).
        step = np.searchsorted(last, np.arange(len(self.case)))
        cell = self.case * (len(last) + 1) + step
        upto = np.stack([np.bincount(cells, minlength=cases * (len(last) + 1)) for cells in (cell, cell[right])])
        upto = np.cumsum(upto.reshape(2, cases, -1)[:, :, :-1], axis=2).astype(np.float64)
        weights = self.weights.toarray().astype(np.float64)
        few = max(1, CHUNK // max(len(last), 1))
        for first in range(0, len(weights), few):
            chunk = weights[first : first + few]
            start = np.arange(len(chunk) + 1) * len(last)
            yield Steps(first, first + len(chunk), start, (chunk @ upto[1]).ravel(), (chunk @ upto[0]).ravel())

    def steps_by_sums(self, right: Bool, last: Int64) -> Iterator[Steps]:
        """Sum over all entries, and keep the sums at the ends of the wanted steps."""
        # One running sum for both numbers: all entries in the lower half of an integer, right ones in the upper half.
        column = self.case + self.weights.shape[1] * right
        for first, weights in dense(self.weights, len(self.case)):
            both = np.concatenate([weights, weights + (weights << 32)], axis=1)
            cumulated = np.cumsum(np.take(both, column, axis=1, mode="clip"), axis=1)
            cumulated = np.take(cumulated, last, axis=1).ravel()
            start = np.arange(len(weights) + 1) * len(last)
            yield Steps(first, first + len(weights), start, cumulated >> 32, cumulated & 0xFFFFFFFF)


Ranking = _WrittenOut | Blocks  # sorted entries, and units that hold each of them any number of times


def _is_peak(right: Bool, tie: Int64) -> Bool:
    """The ties at which precision may be higher than at all later ones, whatever the weights, bool (ties,).

    A tie with right entries, behind which the next one has a wrong entry: without it, precision would rise further.
    """
    total, of_right = np.bincount(tie), np.bincount(tie, weights=right)
    return np.asarray((of_right > 0) & np.append(of_right[1:] < total[1:], True))


def dense(weights: Any, length: int) -> Iterator[tuple[int, Int64]]:
    """Yield some rows of weights at a time as arrays, int64 (b, U), with the index of the first of them."""
    many = max(1, LARGEST_TABLE // weights.shape[1])
    few = max(1, CHUNK // max(length, 1))
    for first in range(0, weights.shape[0], many):
        chunk = weights[first : first + many].toarray()
        for begin in range(0, len(chunk), few):
            yield first + begin, chunk[begin : begin + few]


def wins_by_steps(ranking: Ranking, positive: Bool, tie: Int64, negatives: Int64) -> Int64:
    """Count the pairs that the positive entry wins twice, and those that are drawn once, int64 (B,)."""
    wins_twice = np.zeros(len(negatives), np.int64)
    for steps in ranking.steps(positive, tie, every=True):
        units, negative = slice(steps.first, steps.stop), steps.all - steps.right
        below_twice = 2 * (np.repeat(negatives[units], np.diff(steps.start)) - negative) + steps.gain(negative)
        wins_twice[units] = steps.totals(steps.gain(steps.right) * below_twice)
    return wins_twice


def _wins_by_kernel(case: Int64, positive: Bool, tie: Int64, weights: Any) -> Int64:
    """Wins of each unit from how often the positive entries of each case win against the negative ones of each case.

    ``kernel`` (U, U) holds that number for every two cases, so that the wins in a unit with weights w are
    ``w kernel w``. Products of floats go through BLAS; below 2^53 they are whole numbers.
    """
    cases, ties = weights.shape[1], int(tie[-1]) + 1
    by_case = np.argsort(case, kind="stable")
    case, positive, tie = case[by_case], positive[by_case], tie[by_case]
    winners, start = np.unique(case[positive], return_index=True)
    kernel, many = np.zeros((cases, cases)), max(1, CHUNK // ties)
    for first in range(0, cases, many):
        losers = ~positive & (case >= first) & (case < first + many)
        cell = (case[losers] - first) * ties + tie[losers]
        negative = np.bincount(cell, minlength=min(many, cases - first) * ties).reshape(-1, ties)
        upto = np.cumsum(negative, axis=1)
        wins = 2 * (upto[:, -1:] - upto) + negative
        kernel[winners, first : first + many] = np.add.reduceat(wins[:, tie[positive]], start, axis=1).T
    wins_twice = np.zeros(weights.shape[0], np.int64)
    for first, chunk in dense(weights, 1):
        numbers = chunk.astype(np.float64)
        wins_twice[first : first + len(chunk)] = ((numbers @ kernel) * numbers).sum(axis=1)
    return wins_twice
