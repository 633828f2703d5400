"""The optimal assignment of pairs that compete, without a table of all instances against all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from evaluation.findings.errors import TooManyPairs
from evaluation.matching.table import has_rival
from evaluation.model import Bool, Float64, Int64

SUM_ROUNDING = 1e-9  # of sums of values
DENSE_ENTRIES = 1 << 14  # groups with a larger table of all pairs are solved without it,
MOST_STEPS = 20_000_000_000  # of a table: at worst 12 s, where one side lies beside the other; among each other 0.2 s
DENSE_SHARE = 4  # unless the table is at most this many times what the pairs themselves take


def best_assignment(left: Int64, right: Int64, value: Float64, *, most_pairs: bool) -> Bool:
    """Which pairs to keep, bool (P,), each instance in one at the most, so that their total value is the greatest.

    left, right  the two instances of each pair as ranks of position, (P,); no pair twice
    value        of each pair, finite; without ``most_pairs`` above 0
    most_pairs   the most pairs first, whatever their value, and among those the greatest total

    Pairs without a rival are kept, and so are, without ``most_pairs``, those that are worth more than all of their
    rivals together. The others are solved group by group of those that compete, directly or through others, so what
    lies elsewhere in an image decides nothing. If all pairs of a group share an instance, the one with
    the greatest value is kept, of several the one that comes first by left, then right. In other groups with several
    optimal assignments one of them is chosen; the choice depends on the order of ranks only. Memory is proportional to
    the pairs.

    >>> left, right = np.array([0, 0, 1]), np.array([0, 1, 0])
    >>> best_assignment(left, right, np.array([0.9, 0.2, 0.3]), most_pairs=False).tolist()
    [True, False, False]
    >>> best_assignment(left, right, np.array([0.9, 0.2, 0.3]), most_pairs=True).tolist()
    [False, True, True]
    """
    chosen = np.zeros(len(left), np.bool_) if most_pairs else outweighs_rivals(left, right, value)
    rest = np.flatnonzero(~(np.isin(left, left[chosen]) | np.isin(right, right[chosen])))
    contested = has_rival(left[rest], right[rest])
    chosen[rest[~contested]] = True
    pairs = rest[contested]
    if len(pairs) == 0:
        return chosen
    groups = find_groups(left[pairs], right[pairs])
    order = np.lexsort((right[pairs], left[pairs], -value[pairs], groups.of_pair))
    best = order[np.append(True, np.diff(groups.of_pair[order]) > 0)]
    chosen[pairs[best[groups.is_star[groups.of_pair[best]]]]] = True

    order = np.lexsort((right[pairs], left[pairs], groups.of_pair))
    order = order[~groups.is_star[groups.of_pair[order]]]
    bounds = np.flatnonzero(np.diff(groups.of_pair[order], prepend=-1, append=len(groups.is_star)))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        members = order[first:last]
        i, j = groups.left[members], groups.right[members]
        gain = value[pairs[members]]
        if most_pairs:
            gain = outweigh(gain, min(int(i.max()), int(j.max())) + 1)
        chosen[pairs[members[solve(i, j, gain)]]] = True
    return chosen


def outweighs_rivals(left: Int64, right: Int64, value: Float64) -> Bool:
    """Whether each pair is worth more than all pairs together that share an instance with it, bool (P,).

    Every optimal assignment contains such a pair.

    An assignment without such a pair gains if the pair takes the place of its rivals, two at the most.
    """
    if len(value) == 0:
        return np.zeros(0, np.bool_)
    with_rivals = np.bincount(left, value)[left] + np.bincount(right, value)[right]
    return np.asarray(3 * value > with_rivals * (1 + SUM_ROUNDING))


def outweigh(value: Float64, most: int) -> Float64:
    """Gains in the order of the values, all above 0, such that ``most`` pairs gain more than any fewer."""
    lowest = value.min()
    span = float(value.max() - lowest) or 1.0
    return np.asarray(value - lowest + span * (most + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Pairs that compete with each other, directly or through others.

    of_pair      int64 (P,), the group of each pair
    is_star      bool (G,), whether all pairs of a group share an instance
    left, right  int64 (P,), the instances of each pair, numbered in their group from 0 in the order of rank
    """

    of_pair: Int64
    is_star: Bool
    left: Int64
    right: Int64


def find_groups(left: Int64, right: Int64) -> Groups:
    left, right = (np.unique(side, return_inverse=True)[1] for side in (left, right))
    lefts, rights = int(left.max()) + 1, int(right.max()) + 1
    nodes = lefts + rights
    edges = scipy.sparse.coo_array((np.ones(len(left), np.int8), (left, lefts + right)), (nodes, nodes))
    count, group = scipy.sparse.csgraph.connected_components(edges, directed=False)
    sizes = [np.bincount(side, minlength=count) for side in (group[:lefts], group[lefts:])]
    return Groups(
        of_pair=group[left].astype(np.int64),
        is_star=np.minimum(*sizes) == 1,
        left=number_inside(group[:lefts], sizes[0])[left],
        right=number_inside(group[lefts:], sizes[1])[right],
    )


def number_inside(group: Int64, sizes: Int64) -> Int64:
    """The number of each node inside its group, from 0."""
    order = np.argsort(group, kind="stable")
    number = np.empty(len(group), np.int64)
    number[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return number


def solve(i: Int64, j: Int64, gain: Float64) -> Int64:
    """The pairs of one group with the greatest total gain, int64 (K,); pairs are sorted by i, then j; gains above 0."""
    rows, columns = int(i.max()) + 1, int(j.max()) + 1
    if rows * columns > max(DENSE_ENTRIES, DENSE_SHARE * len(i)):
        return solve_sparse(i, j, gain, rows, columns)
    refuse_too_many_steps(rows, columns)
    table = np.zeros((rows, columns))
    table[i, j] = gain
    pair = np.full((rows, columns), -1)
    pair[i, j] = np.arange(len(i))
    chosen = pair[scipy.optimize.linear_sum_assignment(table, maximize=True)]
    return np.asarray(chosen[chosen >= 0])


def refuse_too_many_steps(reference: int, prediction: int) -> None:
    """Raise ``TooManyPairs`` if a table of so many nuclei may take long: the smaller side squared times the other."""
    if (steps := min(reference, prediction) * reference * prediction) > MOST_STEPS:
        what = f"steps of assigning {reference:,} x {prediction:,} nuclei"
        raise TooManyPairs(what, steps, MOST_STEPS, by_reference=reference**3 > MOST_STEPS)


def solve_sparse(i: Int64, j: Int64, gain: Float64, rows: int, columns: int) -> Int64:
    """``solve`` without a table of all rows against all columns.

    Each row may stay alone, in a column of its own, so that a full matching always exists. Costs are above 0, because
    scipy drops zeros. The fewer rows, the faster.
    """
    if rows > columns:
        turned = np.lexsort((i, j))
        return turned[solve_sparse(j[turned], i[turned], gain[turned], columns, rows)]
    alone = np.arange(rows)
    most = float(gain.max())
    cost = np.concatenate([most - gain, np.full(rows, most)]) + most
    entries = np.concatenate([i, alone]), np.concatenate([j, columns + alone])
    graph = scipy.sparse.csr_array((cost, entries), shape=(rows, columns + rows))
    row, column = scipy.sparse.csgraph.min_weight_full_bipartite_matching(graph)
    paired = column < columns
    return np.asarray(np.searchsorted(i * columns + j, row[paired] * columns + column[paired]))
