"""How alike two rankings are: pairs of teams in the same order in both, and Kendall's tau-b."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.model import Bool, Float64, Int64

SMALL = 16  # teams of which all pairs are compared sooner than sorted


@dataclass(frozen=True, slots=True, eq=False)
class PairCounts:
    """Pairs of teams in two rankings, int64 of one shape each.

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
        """Pairs that do not stand the same way: turned round, or tied in one ranking only."""
        return self.discordant + self.tied_first + self.tied_second - 2 * self.tied_both

    def tau(self) -> Float64:
        """Kendall's tau-b; see ``kendall_tau``."""
        concordant = self.pairs - self.tied_first - self.tied_second + self.tied_both - self.discordant
        untied_first = (self.pairs - self.tied_first).astype(np.float64)
        untied_second = (self.pairs - self.tied_second).astype(np.float64)
        scale = np.sqrt(untied_first * untied_second)
        return np.where(scale > 0, (concordant - self.discordant) / np.where(scale > 0, scale, 1.0), np.nan)


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> Float64:
    """Kendall's tau-b of two rankings, in [-1, 1]: 1 for the same order, -1 for the reversed one.

    ``(C - D) / sqrt((n - n1) (n - n2))`` over all n pairs of teams: C of them stand the same way in both rankings, D
    the other way round, n1 are tied in the first, n2 in the second. Kendall, Biometrika 33, 1945.

    first, second  (…, T) of any kind of number, of which only the order counts; the axes before the last are broadcast

    Teams that are unranked (NaN) in either ranking are left out. NaN if fewer than two teams are left, or all are tied
    in one of the rankings. Counted in whole numbers, O(T log T) for each pair of rankings.

    Of three pairs two stand the same way and one is turned; a tie of the first two teams leaves two pairs in one side:

    >>> kendall_tau([1.0, 2.0, 3.0], [[2.0, 1.0, 3.0], [1.0, 1.0, 3.0]]).round(6).tolist()
    [0.333333, 0.816497]
    """
    return count_pairs(np.asarray(first, np.float64), np.asarray(second, np.float64)).tau()


def count_pairs(first: Float64, second: Float64) -> PairCounts:
    """Pairs of teams in two rankings (…, T), of the teams that are ranked in both (not NaN).

    After sorting by the first ranking, and by the second one where that is tied, the discordant pairs are the
    inversions of the second. Knight, JASA 61, 1966.
    """
    left_out = np.isnan(first) | np.isnan(second)
    teams = left_out.shape[-1]
    code_first, code_second = (np.where(left_out, teams, number_values(values)) for values in (first, second))
    both = np.sort(code_first * (teams + 1) + code_second, axis=-1)
    among_left_out = choose_two(np.count_nonzero(left_out, axis=-1))  # behind all others and tied in both rankings
    return PairCounts(
        pairs=choose_two(np.count_nonzero(~left_out, axis=-1)),
        tied_first=count_ties(both // (teams + 1)) - among_left_out,
        tied_second=count_ties(np.sort(code_second, axis=-1)) - among_left_out,
        tied_both=count_ties(both) - among_left_out,
        discordant=count_inversions(both % (teams + 1)),
    )


def choose_two(number: npt.ArrayLike) -> Int64:
    count = np.asarray(number, np.int64)
    return np.asarray(count * (count - 1) // 2)


def number_values(values: Float64) -> Int64:
    """The distinct values of each row (…, T) numbered from 0, ascending; equal values have one number, int64 (…, T)."""
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    found = np.empty(values.shape, np.int64)
    np.put_along_axis(found, order, np.cumsum(starts_of_ties(ordered), axis=-1) - 1, axis=-1)
    return found


def count_ties(ordered: Int64) -> Int64:
    """Pairs of equal values in each row of sorted values (…, T), int64 (…).

    >>> count_ties(np.array([[1, 1, 1, 4], [0, 0, 2, 2]])).tolist()
    [3, 2]
    """
    position = np.arange(ordered.shape[-1])
    start = np.maximum.accumulate(np.where(starts_of_ties(ordered), position, 0), axis=-1)
    return np.asarray((position - start).sum(axis=-1))


def starts_of_ties(ordered: npt.NDArray[np.generic]) -> Bool:
    """Where a value differs from the one before it in sorted rows (…, T)."""
    starts = np.ones(ordered.shape, np.bool_)
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=starts[..., 1:])
    return starts


def count_inversions(codes: Int64) -> Int64:
    """Pairs of positions of which the earlier one has the larger value, in each row (…, T), int64 (…).

    codes  int64, 0 … T

    Inside blocks of some ``SMALL`` positions all pairs are compared. Then blocks are merged two and two, all of a size
    and in all rows at once: where the values of a right block come to stand tells how many of the left one are larger.

    >>> count_inversions(np.array([[0, 1, 2], [2, 1, 0], [1, 1, 0]])).tolist()
    [0, 3, 2]
    """
    *rows, number = codes.shape
    merges = max((number // SMALL).bit_length() - 1, 0)
    size = -(-number // 2**merges)
    padding = np.full((*rows, size * 2**merges - number), number + 1, np.int32)  # above any code, and last
    blocks = np.concatenate([codes.astype(np.int32), padding], axis=-1).reshape(*rows, 2**merges, size)
    found = np.zeros(rows, np.int64)
    positions = np.ascontiguousarray(np.moveaxis(blocks, -1, 0))
    for apart in range(1, size):
        found += np.count_nonzero(positions[:-apart] > positions[apart:], axis=(0, -1))
    for _ in range(merges):
        marked = 2 * blocks
        marked[..., 1::2, :] += 1
        size *= 2
        merged = np.sort(marked.reshape(*rows, -1, size), axis=-1)
        in_order = int(np.arange(size // 2, size).sum())
        stand = (merged & 1).astype(np.float64) @ np.arange(float(size))  # whole numbers, exact
        found += (in_order - stand).sum(axis=-1).astype(np.int64)
        blocks = merged >> 1
    return found
