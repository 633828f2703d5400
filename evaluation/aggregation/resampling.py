"""Samples of a bootstrap: patients drawn with replacement, and what every aggregation is in each sample.

What is drawn are groups (patients), then perhaps cases inside each drawn group; never single nuclei, which are not
independent of each other. The data set itself, and the data set without one group, are samples too, so that all three
go through the same formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from evaluation.model import AggregationUnit, Bool, CaseTable, Float64, Int64, Units
from evaluation.model.arrays import RandomIntegers, blocks

Stages = Literal["groups", "groups_and_cases", "groups_in_strata"]
Evaluate = Callable[[Units], Float64]

SAMPLES_AT_ONCE = 1024  # and fewer if there are many groups: what is held at once stays below some 100 MB
ENTRIES_AT_ONCE = 2**18
UNITS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Column:
    """A number that wants an interval: a metric and what it is aggregated over.

    metric     its index in what ``evaluate`` returns
    unit       "pooled": the metric of all cases together; "group", "case": its mean over groups, over cases
    of_strata  the same inside every stratum, then the mean over strata
    bounds     of its values, beyond which no interval goes
    """

    metric: int
    unit: AggregationUnit
    of_strata: bool = False
    bounds: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """S samples, each made of drawn groups.

    drawn  sparse int64 (S, D): how often each sample has each of the D distinct drawn groups
    units  sparse int64 (D, U): how often each of them has each case
    """

    drawn: Any
    units: Any

    def cases(self) -> Any:
        """How often each sample has each case, sparse int64 (S, U)."""
        weights = self.drawn @ self.units
        weights.sort_indices()
        return weights


def resample(
    groups: Int64, *, samples: int, seed: int, stages: Stages, strata: Int64 | None = None
) -> Iterator[Samples]:
    """Samples of as many groups as there are, drawn with replacement; some at a time, ``samples`` in all.

    groups  group of each case, int64 (U,); every number from 0 to G - 1 occurs. Number the groups in the order of their
            names, and sort the cases inside them by name: what is drawn are indices in that order.
    stages  "groups": a drawn group has its cases as they are. "groups_and_cases": as many cases as the group has are
            drawn from them with replacement, anew for each time that the group is drawn. "groups_in_strata": as many
            groups as each stratum has are drawn from that stratum
    strata  stratum of each case, int64 (U,); a group belongs to that of its first case

    Groups come from stream 0 of the seed, one word for each drawn group, sample by sample; cases from stream 1, one
    word for each drawn case. So both stages draw the same groups. Only in
    strata no sample misses one.

    >>> found = next(resample(np.array([0, 0, 1]), samples=2, seed=1, stages="groups"))
    >>> found.drawn.toarray().tolist(), found.cases().toarray().tolist()
    ([[0, 2], [1, 1]], [[0, 0, 2], [1, 1, 1]])
    """
    group_draw, case_draw = RandomIntegers(seed=seed, stream=0), RandomIntegers(seed=seed, stream=1)
    size = np.bincount(groups)
    at_once = min(SAMPLES_AT_ONCE, max(1, ENTRIES_AT_ONCE // (len(size) * int(size.max()))))
    for first in range(0, samples, at_once):
        shape = min(at_once, samples - first), len(size)
        if stages == "groups_in_strata" and strata is not None:
            first_case = np.unique(groups, return_index=True)[1]
            drawn = draw_in_strata(strata[first_case], shape[0], group_draw)
        else:
            drawn = group_draw.below(np.full(shape, len(size)))
        if stages != "groups_and_cases":
            yield Samples(count_indices(drawn, len(size)), group_units(groups))
        else:
            yield draw_cases(drawn, groups, case_draw)


def draw_in_strata(strata: Int64, samples: int, integers: RandomIntegers) -> Int64:
    """Units drawn with replacement from their own strata, int64 (samples, N), from the stratum of each unit, (N,).

    One word for each drawn unit, as without strata.

    >>> draw_in_strata(np.array([0, 1, 0]), 2, RandomIntegers(seed=1, stream=0)).tolist()
    [[2, 1, 0], [2, 1, 0]]
    """
    members = np.argsort(strata, kind="stable")
    of_stratum = np.bincount(strata)
    first = np.cumsum(of_stratum) - of_stratum
    index = integers.below(np.broadcast_to(of_stratum[strata], (samples, len(strata))))
    return np.asarray(members[first[strata] + index])


def draw_cases(drawn: Int64, groups: Int64, integers: RandomIntegers) -> Samples:
    """Draw cases with replacement inside each drawn group, int64 (S, G). Equal results are one unit."""
    size = np.bincount(groups)
    members, first = np.argsort(groups, kind="stable"), np.cumsum(size) - size
    group = drawn.ravel()
    draw = np.repeat(np.arange(len(group)), size[group])
    index = integers.below(size[group[draw]])
    widest = int(size.max())
    times = np.bincount(draw * widest + index, minlength=len(group) * widest).reshape(len(group), widest)
    distinct, unit = np.unique(np.column_stack([group, times]), axis=0, return_inverse=True)
    row, index = np.nonzero(distinct[:, 1:])
    case = members[first[distinct[row, 0]] + index]
    units = scipy.sparse.csr_array((distinct[row, 1 + index], (row, case)), shape=(len(distinct), len(groups)))
    return Samples(count_indices(unit.reshape(drawn.shape), len(distinct)), units)


def count_indices(indices: Int64, number: int) -> Any:
    """How often each of ``number`` indices occurs in each row, sparse int64 (S, number)."""
    row = np.repeat(np.arange(len(indices)), indices.shape[1])
    return scipy.sparse.csr_array(
        (np.ones(indices.size, np.int64), (row, indices.ravel())), shape=(len(indices), number)
    )


def group_units(groups: Int64) -> Any:
    """The groups as unions of their cases, sparse int64 (G, U)."""
    cases = np.arange(len(groups))
    return scipy.sparse.csr_array(
        (np.ones(len(groups), np.int64), (groups, cases)), shape=(int(groups.max()) + 1, len(groups))
    )


def everything(groups: Int64) -> Samples:
    """The data set as it is, as the one sample that has every group once."""
    units = group_units(groups)
    return Samples(scipy.sparse.csr_array(np.ones((1, units.shape[0]), np.int64)), units)


def leave_one_out(groups: Int64) -> Iterator[Samples]:
    """The data set as it is, then without each of its groups in turn (the jackknife); some at a time, 1 + G in all.

    >>> next(leave_one_out(np.array([0, 0, 1]))).cases().toarray().tolist()
    [[1, 1, 1], [0, 0, 1], [1, 1, 0]]
    """
    units = group_units(groups)
    number = units.shape[0]
    for first in range(-1, number, SAMPLES_AT_ONCE):
        left_out = np.arange(first, min(first + SAMPLES_AT_ONCE, number))
        is_drawn = np.arange(number) != left_out[:, None]
        yield Samples(scipy.sparse.csr_array(is_drawn.astype(np.int64)), units)


def together(parts: Iterable[Samples]) -> Iterator[Samples]:
    """Join parts that draw from the same groups into fewer parts of samples, where two are small enough together.

    >>> one, two = everything(np.array([0, 1, 1])), next(leave_one_out(np.array([0, 1, 1])))
    >>> [part.drawn.toarray().tolist() for part in together([one, two])]
    [[[1, 1], [1, 1], [0, 1], [1, 0]]]
    """
    last = None
    for part in parts:
        rows = part.drawn.shape[0] + (0 if last is None else last.drawn.shape[0])
        if last is not None and rows <= min(SAMPLES_AT_ONCE, ENTRIES_AT_ONCE // part.units.shape[1]):
            part = Samples(scipy.sparse.vstack([last.drawn, part.drawn], format="csr"), part.units)
        elif last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def score_samples(
    table: CaseTable,
    samples: Samples,
    of_case: Float64,
    columns: Sequence[Column],
    evaluate: Evaluate,
    strata: Int64,
    *,
    of_group: Float64 | None = None,
) -> Float64:
    """The columns in every sample, float64 (S, K); NaN where one is undefined.

    of_case  the metrics of every single case, float64 (U, M), NaN where one is left out
    strata   stratum of each case, int64 (U,), from 0
    of_group the metrics of the drawn groups, float64 (D, M), if they are known
    """
    cases = samples.cases()
    group_first_case = samples.units.indices[samples.units.indptr[:-1]]
    if of_group is None:
        has_groups = any(column.unit == "group" for column in columns)
        of_group = evaluate_units(table, samples.units, evaluate) if has_groups else np.empty((0, 0))

    def within(unit: AggregationUnit, part: Bool) -> Float64:
        """All metrics aggregated over the cases that are in a part of the data set, (S, M)."""
        if unit == "pooled":
            weights = keep_cases(cases, part)
            if weights.nnz == 0:  # none of these samples has a case of the stratum
                return np.full((weights.shape[0], of_case.shape[1]), np.nan)
            return evaluate_units(table, weights, evaluate)
        if unit == "group":
            return weighted_mean(samples.drawn, np.where(part[group_first_case, None], of_group, np.nan))
        return weighted_mean(cases, np.where(part[:, None], of_case, np.nan))

    scored = np.empty((cases.shape[0], len(columns)))
    for unit, of_strata in sorted({(column.unit, column.of_strata) for column in columns}):
        if of_strata:
            values = mean_of_parts(within(unit, strata == stratum) for stratum in range(int(strata.max()) + 1))
        else:
            values = within(unit, np.ones(len(table), np.bool_))
        indices = [k for k, column in enumerate(columns) if (column.unit, column.of_strata) == (unit, of_strata)]
        scored[:, indices] = values[:, [columns[k].metric for k in indices]]
    return scored


def evaluate_units(table: CaseTable, weights: Any, evaluate: Evaluate) -> Float64:
    """All metrics of units given by their weights over cases (B, U), ``UNITS_AT_ONCE`` at a time; float64 (B, M).

    NaN for units without a case, which a metric is never asked for.
    """
    present = np.flatnonzero(np.diff(weights.indptr))
    parts = blocks(len(present), UNITS_AT_ONCE)
    values = np.concatenate([evaluate(Units(table, weights[present[part]])) for part in parts])
    if len(present) == weights.shape[0]:
        return values
    complete = np.full((weights.shape[0], values.shape[1]), np.nan)
    complete[present] = values
    return complete


def keep_cases(weights: Any, part: Bool) -> Any:
    """Weights over cases (S, U) without those that are outside a part, bool (U,)."""
    if part.all():
        return weights
    inside = scipy.sparse.csr_array(
        (weights.data * part[weights.indices], weights.indices, weights.indptr), shape=weights.shape, copy=True
    )
    inside.eliminate_zeros()
    return inside


def weighted_mean(weights: Any, values: Float64) -> Float64:
    """Mean of each column of values (N, M) under each row of weights (S, N), NaN left out; (S, M).

    ``sum w v / sum w`` over the values that are defined; NaN where none is. Added up in the order of the values.

    >>> weighted_mean(scipy.sparse.csr_array([[2, 1], [0, 3]]), np.array([[1.0, 0.5], [4.0, np.nan]])).tolist()
    [[2.0, 0.5], [4.0, nan]]
    """
    defined = ~np.isnan(values)
    total = weights @ np.where(defined, values, 0.0)
    return divide(total, weights @ defined.astype(np.int64))


def mean_of_parts(parts: Iterator[Float64]) -> Float64:
    """Mean over parts (strata) of values (S, M), those that are NaN left out; NaN where all are."""
    total, number = np.zeros(1), np.zeros(1, np.int64)
    for values in parts:
        defined = ~np.isnan(values)
        total, number = total + np.where(defined, values, 0.0), number + defined
    return divide(total, number)


def divide(total: Float64, number: Int64) -> Float64:
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
