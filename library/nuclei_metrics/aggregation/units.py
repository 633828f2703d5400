"""From cases to scores of the data set: unions of cases, means over units, and bootstrap intervals.

The cases under one matching rule are one table; a unit (case, group, data set) is a union of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from nuclei_metrics.model import AggregationUnit, Interval
from nuclei_metrics.model.annotations import UndefinedRule
from nuclei_metrics.model.arrays import Bool, Float64, Int64, RandomIntegers, blocks
from nuclei_metrics.model.counts import (
    UNDEFINED_REASONS,
    CaseTable,
    MatchCounts,
    PairSamples,
    PredictionSamples,
    Score,
    Scores,
    SharedCounts,
    Unions,
    UnitMean,
    Units,
)

Scalar = TypeVar("Scalar", bound=np.generic)
Joined = TypeVar("Joined", PairSamples, PredictionSamples)


def stack_cases(
    counts: Sequence[MatchCounts],
    shared: Sequence[SharedCounts],
    *,
    measures: Sequence[str],
    areas_mm2: Sequence[float | None],
) -> CaseTable:
    """Stack the counts of cases, at least one, to a table with a row for each, in their order.

    shared     counts of each case that do not depend on the matching rule; empty if they are elsewhere
    measures   names of the measures in the table; if a case lacks a measure, its sum is 0
    areas_mm2  of each case, None if not known
    """
    pairs = _stack_pairs(counts, measures)
    sums: dict[str, npt.NDArray[np.generic]] = {
        "cases": np.ones(len(counts), np.int64),
        "missing": np.array([c.missing for c in counts], np.int64),
        "empty": np.array([is_empty(c) for c in counts], np.int64),
        "points": np.array([not c.outlines for c in counts], np.int64),
        "confusion": np.stack([c.confusion for c in counts]),
        **measure_sums(pairs, len(counts), counts[0].confusion.shape[0] - 1),
    }
    for name in shared[0].sums if shared else ():
        sums[name] = np.stack([of_case.sums[name] for of_case in shared])
    spacing = np.array([math.nan if c.spacing_um is None else c.spacing_um for c in counts])
    diagonal = np.array([c.diagonal_px for c in counts])
    return CaseTable(
        sums=sums,
        largest={"diagonal_px": diagonal, "diagonal_um": diagonal * spacing},
        area_mm2=np.array([math.nan if area is None else area for area in areas_mm2]),
        pairs=pairs,
        predictions=_stack_predictions(counts, shared),
    )


def join_tables(tables: Sequence[CaseTable], rows: Int64) -> CaseTable:
    """Join tables of different cases: row k is row ``rows[k]`` of all tables, one below the other."""
    place, first = np.argsort(rows), np.cumsum([0, *map(len, tables)]).tolist()

    def in_order(samples: Sequence[Joined]) -> Joined:
        case = np.concatenate([place[one.case + at] for one, at in zip(samples, first, strict=False)])
        order = np.argsort(case, kind="stable")
        # Without pairs it is not known whether pairs have class probabilities.
        known = [one for one in samples if len(one.case) or isinstance(one, PredictionSamples)] or samples
        columns = {column.name: [getattr(one, column.name) for one in known] for column in fields(samples[0])}
        joined = {name: _rows_of(parts, order) for name, parts in columns.items() if name != "case"}
        return type(samples[0])(case=case[order], **joined)

    return CaseTable(
        sums=_rows_of([table.sums for table in tables], rows),
        largest=_rows_of([table.largest for table in tables], rows),
        area_mm2=_rows_of([table.area_mm2 for table in tables], rows),
        pairs=in_order([table.pairs for table in tables]),
        predictions=in_order([table.predictions for table in tables]),
    )


def _rows_of(parts: Sequence[Any], rows: Int64) -> Any:
    """Join arrays, or tables of them, and choose rows; None if an array is unknown."""
    if isinstance(parts[0], Mapping):
        return {name: _rows_of([part[name] for part in parts], rows) for name in parts[0]}
    joined = _joined_if_known(parts)
    return None if joined is None else joined[rows]


def is_empty(counts: MatchCounts) -> bool:
    """Return whether a case was submitted without a nucleus although the reference has nuclei."""
    return not counts.missing and bool(counts.confusion[1:].any()) and not counts.confusion[:, 1:].any()


def _stack_pairs(counts: Sequence[MatchCounts], measures: Sequence[str]) -> PairSamples:
    return PairSamples(
        case=np.repeat(np.arange(len(counts)), [len(c.pair_class) for c in counts]),
        class_id=np.concatenate([c.pair_class for c in counts]),
        measures={
            name: np.concatenate([c.measures.get(name, np.zeros(len(c.pair_class))) for c in counts])
            for name in measures
        },
        class_probability=_joined_if_known([c.pair_probability for c in counts if len(c.pair_class)]),
        area_px=_joined_if_known([c.pair_area_px for c in counts]),
    )


def _stack_predictions(counts: Sequence[MatchCounts], shared: Sequence[SharedCounts]) -> PredictionSamples:
    lists = [c.predictions for c in counts]
    return PredictionSamples(
        case=np.repeat(np.arange(len(lists)), [len(of_case.class_id) for of_case in lists]),
        class_id=np.concatenate([of_case.class_id for of_case in lists]),
        found_class=np.concatenate([of_case.found_class for of_case in lists]),
        probability=_joined_if_known([of_case.probability for of_case in lists]),
        hits=_joined_if_known([of_case.hits for of_case in shared]),
        size_hits=_joined_if_known([of_case.size_hits for of_case in shared]),
    )


def _joined_if_known(arrays: Sequence[npt.NDArray[Scalar] | None]) -> npt.NDArray[Scalar] | None:
    """Join the arrays of all cases, one after the other; None if there are no cases, or if an array is unknown."""
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if known and len(known) == len(arrays) else None


def measure_sums(pairs: PairSamples, cases: int, classes: int) -> dict[str, Float64]:
    """Sum each measure by case, class of the reference, and whether the prediction has that class too, (U, C, 2).

    Each is the exact sum, rounded once (``math.fsum``), so the order of the nuclei does not change a digit.
    """
    right = pairs.class_id[:, 0] == pairs.class_id[:, 1]
    key = (pairs.case * classes + pairs.class_id[:, 0] - 1) * 2 + right
    order = np.argsort(key, kind="stable")
    present, first = np.unique(key[order], return_index=True)
    bounds = [*first.tolist(), len(order)]
    sums = {}
    for name, values in pairs.measures.items():
        of_measure = np.zeros(cases * classes * 2)
        ordered = values[order].tolist()
        of_measure[present] = [math.fsum(ordered[a:b]) for a, b in pairwise(bounds)]
        sums[name] = of_measure.reshape(cases, classes, 2)
    return sums


def unite(table: CaseTable, members: Sequence[Sequence[int]] | Sequence[Int64]) -> Units:
    """Unite cases into units. ``members``: the rows of the table that belong to each, at least one."""
    rows = np.concatenate([np.asarray(rows, np.int64) for rows in members])
    bounds = np.concatenate([[0], np.cumsum([len(rows) for rows in members])])
    return Units(table, Unions(rows, bounds, len(table)))


# --- From scores of units to scores of the data set: what an undefined value costs, and means over units. -------------


COSTLY = 1 + UNDEFINED_REASONS.index("no-prediction"), 1 + UNDEFINED_REASONS.index("nothing-matched")
POINTS_ONLY = 1 + UNDEFINED_REASONS.index("points-only")


@dataclass(frozen=True, slots=True, eq=False)
class PenalisedScores:
    """Scores of units as they enter a mean.

    value    float64 (B,), NaN for units that are left out
    penalised  bool (B,), where the worst value entered, in whole or in part
    scores   as they were before
    """

    value: Float64
    penalised: Bool
    scores: Scores

    def part(self, units: slice | Int64) -> PenalisedScores:
        """Return the scores of some of the units."""
        scores = Scores(self.scores.value[units], self.scores.reason[units])
        return PenalisedScores(self.value[units], self.penalised[units], scores)


def penalise(
    scores: Scores, units: Units, worst: Float64, *, undefined: UndefinedRule, counts_missed: bool
) -> PenalisedScores:
    """Decide which value of each unit enters a mean.

    worst          the worst value in each unit, float64 (B,), NaN if the metric has none: then nothing is penalised
    counts_missed  whether false negatives already make the metric worse

    - Cases that were not submitted are scored as if nothing had been found in them. Where that costs nothing, since
      false negatives do not enter the metric (``counts_missed`` False: precision, and all that is measured on matched
      pairs), the value of the unit is mixed with the worst one by the share m / n of its n cases that are missing:
      ``(1 - m / n) value + (m / n) worst``. Leaving out hard cases must not pay.
    - Under the rule ``worst`` a case with reference nuclei and an empty prediction counts as one that was not
      submitted: silence costs the same in either form.
    - Undefined although the reference has nuclei (nothing matched, nothing predicted): the worst value if a case is
      missing or the rule is ``worst``, else left out.
    - Undefined because there is nothing to measure: left out.
    """
    absent = units.sum("missing") + (units.sum("empty") if undefined == "worst" else 0)
    missing = absent / units.sum("cases")
    can_penalise = ~np.isnan(worst)
    costly = (scores.reason == COSTLY[0]) | (scores.reason == COSTLY[1])
    instead = can_penalise & costly & ((missing > 0) | (undefined == "worst"))
    mixed = can_penalise & (scores.reason == 0) & (missing > 0) & (not counts_missed)
    value = np.where(mixed, (1 - missing) * scores.value + missing * worst, scores.value)
    return PenalisedScores(np.where(instead, worst, value), instead | mixed, scores)


def mean_of_units(penalised: PenalisedScores, strata: Sequence[Sequence[int]] | None = None) -> UnitMean:
    """Average a metric over units, which weigh the same. The sum is exact (``math.fsum``), so that no order matters.

    strata   the units of each stratum: then the mean over strata of their means, each stratum weighing the same; one of
             which every unit is left out is left out

    The mean is undefined if a unit has points where outlines are asked for: no cost makes up for that.
    """
    value, reason = penalised.value, penalised.scores.reason
    if np.any(reason == POINTS_ONLY):
        return UnitMean(Score(None, "points-only"), 0, len(value), 0)
    entered = ~np.isnan(value)
    parts = [value] if strata is None else [value[np.asarray(stratum)] for stratum in strata]
    defined = [part[~np.isnan(part)].tolist() for part in parts]
    means = [math.fsum(values) / len(values) for values in defined if values]
    if means:
        mean = Score(math.fsum(means) / len(means))
    else:
        reasons = set(reason.tolist())
        mean = Score(None, UNDEFINED_REASONS[reasons.pop() - 1] if len(reasons) == 1 else "no-units")
    deviation = None if strata is not None or mean.value is None else _deviation(defined[0], mean.value)
    return UnitMean(mean, int(entered.sum()), int((~entered).sum()), int(penalised.penalised.sum()), deviation)


_FEWEST_VALUES = 3  # of a standard deviation: of two the values can be computed from mean and deviation


def _deviation(values: Sequence[float], mean: float) -> float | None:
    """Compute the standard deviation of a sample, with n - 1; None for fewer than three values.

    >>> _deviation([1.0, 2.0, 4.5], 2.5), _deviation([1.0, 2.0], 1.5)
    (1.8027756377319946, None)
    """
    if len(values) < _FEWEST_VALUES:
        return None
    squares = (np.array(values) - mean) ** 2
    return math.sqrt(math.fsum(squares.tolist()) / (len(values) - 1))


# --- confidence intervals, by the bootstrap over groups (patients) ----------------------------------------------------


Method = Literal["percentile", "by_groups"]
FEWEST_GROUPS = 5  # of "by_groups": none below
MANY_GROUPS, SAMPLES_OF_MANY = 400, 500  # from so many on "by_groups" takes the moments of so many samples
FEW_GROUPS = 15  # below, the standard error of a pooled number is made from each sample without each of its groups
DEFINED_SHARE = 0.9  # of the samples: with fewer, what is left is no longer a sample of the data set
SPREAD_PART = 1e3  # times these: a spread below that is none
TIE, TIE_PART = 1e-12, 1e-9  # numbers closer than TIE, or than this part of one, differ by rounding only


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Settings of the bootstrap.

    samples  how many are drawn
    seed     of the draw, 0 … 2^32 - 1
    level    share of such intervals that should contain the true value, such as 0.95
    method   "percentile"; or "by_groups": studentised, and none of fewer than 5 groups
    stages   "groups": groups are drawn with replacement; "groups_in_strata": inside their strata
    """

    samples: int
    seed: int
    level: float
    method: Method
    stages: Stages


def bootstrap(
    table: CaseTable,
    groups: Int64,
    columns: Sequence[Column],
    evaluate: EvaluateColumn,
    rules: Bootstrap,
    *,
    strata: Int64 | None = None,
    of_case: Float64 | None = None,
) -> tuple[Interval, ...]:
    """Compute the confidence interval of each column.

    groups    group of each case, int64 (U,); every number from 0 to G - 1 occurs. Groups are numbered, and cases
              sorted, by name: the same seed then draws the same ones whatever the order of files.
    evaluate  all metrics of B units as they enter a mean, float64 (B, M); NaN where one is left out. Every unit that it
              is asked for has a case; it is asked for ``UNITS_AT_ONCE`` at the most.
    strata    stratum of each case, int64 (U,), every number from 0 occurs; None: all in one
    of_case   all metrics of each case as they enter a mean, float64 (U, M), if they are known

    Means leave out NaN and know no other reason for a mean to be undefined: do not ask for columns that are undefined
    for another one (points where outlines are needed). The draw is the same on all machines, and sums of floats keep
    one order. Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapters 13 and 14.

    Two patients, of whose nuclei 1 of 4 and 3 of 4 were found; a quarter of the samples has the first one twice:

    >>> table = CaseTable({"cases": np.ones(2, np.int64), "found": np.array([1, 3])}, {}, np.ones(2), None, None)
    >>> recall = lambda units: (units.sum("found") / (4 * units.sum("cases")))[:, None]
    >>> rules = Bootstrap(samples=999, seed=1, level=0.9, method="percentile", stages="groups")
    >>> bootstrap(table, np.array([0, 1]), [Column(0, "pooled")], recall, rules)
    (Interval(low=0.25, high=0.75, reason=None),)
    """
    number, by_moments, studentised = int(groups.max()) + 1, False, rules.method == "by_groups"
    if number == 1 or (studentised and number < FEWEST_GROUPS):
        return tuple(Interval(None, None, "one-group" if number == 1 else "few-groups") for _ in columns)
    if studentised and number >= MANY_GROUPS:
        studentised, by_moments = False, True
    of_case = evaluate_units(table, group_units(np.arange(len(groups))), evaluate) if of_case is None else of_case
    of_group = of_case  # if each case is a group
    if any(column.unit == "group" for column in columns) and (groups != np.arange(len(groups))).any():
        of_group = evaluate_units(table, group_units(groups), evaluate)
    stratum = np.zeros(len(groups), np.int64) if strata is None else strata

    def score(samples: Iterable[Samples]) -> Float64:
        """Score the columns in samples, float64 (S, K)."""
        return np.concatenate(
            [score_samples(table, part, of_case, columns, evaluate, stratum, of_group=of_group) for part in samples]
        )

    samples: Iterable[Samples] = resample(
        groups,
        samples=min(rules.samples, SAMPLES_OF_MANY) if by_moments else rules.samples,
        seed=rules.seed,
        stages=rules.stages,
        strata=stratum,
    )
    if studentised:
        samples = list(samples)
    replicates = score(samples)
    estimate, jackknife = np.split(score(_leave_one_out(groups) if studentised else [everything(groups)]), [1])
    estimate = estimate[0]
    if by_moments:
        ends = _clipped(_moments_interval(replicates, estimate, rules.level), columns)
    elif not studentised:
        ends = percentile_interval(replicates, rules.level)
    else:
        weights = np.concatenate([*(part.drawn.toarray() for part in samples), np.ones((1, number), np.int64)])
        values = np.concatenate([replicates, estimate[None]])
        alone = np.where(
            [column.of_strata for column in columns],
            number * estimate - (number - 1) * jackknife,
            score([_each_alone(groups)]),
        )
        errors = standard_errors(weights, values, estimate, jackknife, alone)
        pooled = np.array([column.unit == "pooled" for column in columns])
        if number < FEW_GROUPS and rules.stages == "groups" and pooled.any():
            errors[:, pooled] = nested_jackknife(weights, groups, score)[:, pooled]
        ends = studentised_interval(replicates, estimate, errors[:-1], errors[-1], rules.level)
        ends = _clipped(ends, columns)
    often = _often_defined(replicates)
    return tuple(_interval_of(ends[k], float(estimate[k]), bool(often[k])) for k in range(len(columns)))


def _interval_of(ends: Float64, estimate: float, often_defined: bool) -> Interval:
    """Return the interval with these ends (2,), or the reason if they are NaN."""
    if math.isnan(estimate):
        return Interval(None, None, "undefined")
    low, high = ends.tolist()
    return Interval(low, high) if often_defined and not math.isnan(low) else Interval(None, None, "often-undefined")


def percentile_interval(replicates: Float64, level: float) -> Float64:
    """Take the middle ``level`` of the samples: quantiles (1 - level) / 2 and (1 + level) / 2, float64 (K, 2).

    replicates  of each column in each sample, float64 (S, K), NaN where it is undefined; those are left out

    NaN for a column that is undefined in more than a tenth of the samples. Quantiles are interpolated linearly, as
    numpy does. Efron & Tibshirani 1993, section 13.3.

    >>> percentile_interval(np.array([[4.0], [0.0], [3.0], [1.0], [2.0]]), 0.5).tolist()
    [[1.0, 3.0]]
    """
    tail = (1 - level) / 2
    return _quantiles(replicates, np.broadcast_to([tail, 1 - tail], (replicates.shape[1], 2)))


def _moments_interval(replicates: Float64, estimate: Float64, level: float) -> Float64:
    """Compute the normal interval, float64 (K, 2): the estimate ± z standard deviations of its replicates, (S, K).

    Of many groups it is as good as the studentised one, and needs a quarter of the samples and no jackknife. Efron &
    Tibshirani 1993, section 13.2.
    """
    defined = ~np.isnan(replicates)
    number = defined.sum(axis=0)
    mean = np.where(defined, replicates, 0.0).sum(axis=0) / np.maximum(number, 1)
    squares = (np.where(defined, replicates - mean, 0.0) ** 2).sum(axis=0)
    reach = scipy.special.ndtri((1 + level) / 2) * np.sqrt(squares / np.maximum(number - 1, 1))
    return np.stack([estimate - reach, estimate + reach], axis=1)


def _clipped(ends: Float64, columns: Sequence[Column]) -> Float64:
    """Return the ends of the interval of each column, inside the range of its metric."""
    bounds = np.array([column.bounds for column in columns]).reshape(-1, 2)
    return np.clip(ends, bounds[:, :1], bounds[:, 1:])


def studentised_interval(
    replicates: Float64, estimate: Float64, errors: Float64, own: Float64, level: float
) -> Float64:
    """Compute the bootstrap-t interval, float64 (K, 2), by how many standard errors samples lie from the estimate.

    replicates  of each column in each sample, float64 (S, K), NaN where it is undefined; those are left out
    estimate    of each column in the data set, float64 (K,)
    errors  the standard error of each column in each sample, computed from that sample, float64 (S, K)
    own     the standard error of each column in the data set, float64 (K,)

    With t the quantiles of (sample - estimate) / errors, the ends are estimate - t((1 + level) / 2) own and
    estimate - t((1 - level) / 2) own. A sample without a spread has no t and is left out. A column without a spread
    has an interval of no width. Efron & Tibshirani 1993, section 12.5.
    """
    spreads = errors > (TIE + TIE_PART * np.abs(estimate)) * SPREAD_PART
    steps = np.where(spreads, (replicates - estimate) / np.where(spreads, errors, 1.0), np.nan)
    tail = (1 - level) / 2
    ends = _quantiles(steps, np.broadcast_to([1 - tail, tail], (len(estimate), 2)), defined=_often_defined(replicates))
    interval: Float64 = np.where(own[:, None] > 0, estimate[:, None] - ends * own[:, None], estimate[:, None])
    interval[np.isnan(steps).all(axis=0) & (own > 0)] = np.nan
    return interval


def standard_errors(
    weights: Int64, replicates: Float64, estimate: Float64, jackknife: Float64, alone: Float64
) -> Float64:
    """Compute the standard error of each column in each sample from the groups of that sample, float64 (S, K).

    weights     how often each sample has each group, int64 (S, G)
    replicates  of each column in each sample, float64 (S, K)
    estimate    of each column in the data set, e, float64 (K,)
    jackknife, alone  of each column in the data set without each group, J, and in that group alone, r, float64 (G, K)

    A mean over groups or cases, and a pooled number such as recall, is a ratio sum f / sum n over the groups. The share
    that a group has of sum n is c = (J - e) / (J - r), and f - e n of it is a = (e - J) (1 - c) of sum n. In a sample
    that has each group w times and the value R, a group moves the value by u = (a - (R - e) c) / sum w c, and
    the standard error is sqrt(m / (m - 1) sum w u²), with the m drawn groups that have a share. Numbers that are no
    ratios, such as means over classes, are treated as if they were. Where c is not determined (a group whose
    value is the estimate), it is 1 / G; a group without a value has none. Cochran, Sampling Techniques, 1977,
    chapter 6.
    """
    distance = jackknife - alone
    share = np.divide(jackknife - estimate, distance, out=np.zeros_like(distance), where=distance != 0)
    share = np.where((share > TIE) & (share < 1 - TIE), share, 1 / len(jackknife))
    share = np.where(np.isnan(distance), 0.0, share)
    moved = np.where(np.isnan(jackknife), 0.0, (estimate - jackknife) * (1 - share))
    total, drawn = weights @ share, weights @ (share > 0)
    change = replicates - estimate
    squares = weights @ moved**2 - 2 * change * (weights @ (moved * share)) + change**2 * (weights @ share**2)
    scale = np.sqrt(drawn / np.maximum(drawn - 1, 1)) / np.where(total > 0, total, 1.0)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)) * scale)


def nested_jackknife(weights: Int64, groups: Int64, score: Callable[[Iterable[Samples]], Float64]) -> Float64:
    """Compute the standard error of each column in each sample by the jackknife of that sample, float64 (S, K).

    weights  how often each sample has each group, int64 (S, G)
    score    the columns in samples, float64 (B, K)

    sqrt((G - 1) / G sum w (v - mean)²), with v the value of the sample without one of its groups, once. Samples that
    are the same are computed once. Efron & Tibshirani 1993, section 11.
    """
    number = weights.shape[1]
    distinct, sample = np.unique(weights, axis=0, return_inverse=True)
    row, left_out = np.nonzero(distinct)
    times = distinct[row, left_out].astype(np.float64)[:, None]
    units = group_units(groups)
    values = []
    for part in blocks(len(row), SAMPLES_AT_ONCE):
        drawn = distinct[row[part]]
        drawn[np.arange(len(drawn)), left_out[part]] -= 1
        values.append(score([Samples(scipy.sparse.csr_array(drawn), units)]))
    value = np.concatenate(values)
    known = ~np.isnan(value)
    value, times = np.where(known, value, 0.0), times * known
    begin = np.flatnonzero(np.diff(row, prepend=-1))
    drawn_times = np.maximum(np.add.reduceat(times, begin), 1.0)
    mean = np.add.reduceat(times * value, begin) / drawn_times
    spread = np.add.reduceat(times * (value - mean[row]) ** 2, begin)
    return np.asarray(np.sqrt((number - 1) / drawn_times * spread)[sample.ravel()])


def _each_alone(groups: Int64) -> Samples:
    """Create one sample per group, with that group once."""
    units = group_units(groups)
    return Samples(scipy.sparse.eye_array(units.shape[0], dtype=np.int64, format="csr"), units)


def _quantiles(replicates: Float64, shares: Float64, *, defined: Bool | None = None) -> Float64:
    """Compute quantiles of each column of replicates (S, K) without NaN, each at its own shares (K, Q); (K, Q).

    defined  which columns have quantiles, bool (K,), the rest NaN; if not given, those that are defined often enough

    Linear between two neighbours.
    """
    ordered = np.sort(replicates.T, axis=1)  # NaN comes last
    last = np.maximum(np.count_nonzero(~np.isnan(ordered), axis=1) - 1, 0)[:, None]
    position = shares * last
    before = np.floor(position).astype(np.int64)
    low = np.take_along_axis(ordered, before, axis=1)
    high = np.take_along_axis(ordered, np.minimum(before + 1, last), axis=1)
    values: Float64 = low + (high - low) * (position - before)
    values[~(_often_defined(replicates) if defined is None else defined)] = np.nan
    return values


def _often_defined(replicates: Float64) -> Bool:
    """Mark the columns that are defined in at least nine samples of ten, bool (K,)."""
    often: Bool = np.count_nonzero(~np.isnan(replicates), axis=0) >= DEFINED_SHARE * len(replicates)
    return often


# --- samples of patients ----------------------------------------------------------------------------------------------


Stages = Literal["groups", "groups_in_strata"]
EvaluateColumn = Callable[[Units], Float64]

SAMPLES_AT_ONCE = 1024  # and fewer if there are many groups: what is held at once stays below some 100 MB
ENTRIES_AT_ONCE = 2**18
UNITS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Column:
    """A score that needs an interval: a metric and its unit of aggregation.

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

    drawn  sparse int64 (S, G): how often each sample has each group
    units  sparse int64 (G, U): which cases each group has
    """

    drawn: Any
    units: Any

    def cases(self) -> Any:
        """Count how often each sample has each case, sparse int64 (S, U)."""
        weights = self.drawn @ self.units
        weights.sort_indices()
        return weights


def resample(
    groups: Int64, *, samples: int, seed: int, stages: Stages, strata: Int64 | None = None
) -> Iterator[Samples]:
    """Draw samples of as many groups as there are, with replacement; some at a time, ``samples`` in all.

    groups  group of each case, int64 (U,); every number from 0 to G - 1 occurs. Number the groups in the order of their
            names, and sort the cases inside them by name: what is drawn are indices in that order.
    stages  "groups": all are drawn alike. "groups_in_strata": as many groups as each stratum has are drawn from it
    strata  stratum of each case, int64 (U,); a group belongs to that of its first case

    Groups come from stream 0 of the seed, one word for each drawn group, sample by sample. A drawn group has its
    cases as they are. Only in strata no sample misses one.

    >>> found = next(resample(np.array([0, 0, 1]), samples=2, seed=1, stages="groups"))
    >>> found.drawn.toarray().tolist(), found.cases().toarray().tolist()
    ([[0, 2], [1, 1]], [[0, 0, 2], [1, 1, 1]])
    """
    integers, units = RandomIntegers(seed=seed, stream=0), group_units(groups)
    size = np.bincount(groups)
    at_once = min(SAMPLES_AT_ONCE, max(1, ENTRIES_AT_ONCE // (len(size) * int(size.max()))))
    for first in range(0, samples, at_once):
        shape = min(at_once, samples - first), len(size)
        if stages == "groups_in_strata" and strata is not None:
            first_case = np.unique(groups, return_index=True)[1]
            drawn = _draw_in_strata(strata[first_case], shape[0], integers)
        else:
            drawn = integers.below(np.full(shape, len(size)))
        yield Samples(_count_indices(drawn, len(size)), units)


def _draw_in_strata(strata: Int64, samples: int, integers: RandomIntegers) -> Int64:
    """Draw units with replacement from their own strata, int64 (samples, N), by the stratum of each unit, (N,).

    One word for each drawn unit, as without strata.

    >>> _draw_in_strata(np.array([0, 1, 0]), 2, RandomIntegers(seed=1, stream=0)).tolist()
    [[2, 1, 0], [2, 1, 0]]
    """
    members = np.argsort(strata, kind="stable")
    of_stratum = np.bincount(strata)
    first = np.cumsum(of_stratum) - of_stratum
    index = integers.below(np.broadcast_to(of_stratum[strata], (samples, len(strata))))
    return np.asarray(members[first[strata] + index])


def _count_indices(indices: Int64, number: int) -> Any:
    """Count how often each of ``number`` indices occurs in each row, sparse int64 (S, number)."""
    row = np.repeat(np.arange(len(indices)), indices.shape[1])
    return scipy.sparse.csr_array(
        (np.ones(indices.size, np.int64), (row, indices.ravel())), shape=(len(indices), number)
    )


def group_units(groups: Int64) -> Any:
    """Make units of the groups, each the union of its cases, sparse int64 (G, U)."""
    return _count_indices(groups[:, None], int(groups.max()) + 1).T.tocsr()


def everything(groups: Int64) -> Samples:
    """Make the one sample that has every group once: the data set as it is."""
    units = group_units(groups)
    return Samples(scipy.sparse.csr_array(np.ones((1, units.shape[0]), np.int64)), units)


def _leave_one_out(groups: Int64) -> Iterator[Samples]:
    """Yield the data set as it is, then without each of its groups (the jackknife); some at a time, 1 + G in all.

    >>> next(_leave_one_out(np.array([0, 0, 1]))).cases().toarray().tolist()
    [[1, 1, 1], [0, 0, 1], [1, 1, 0]]
    """
    units = group_units(groups)
    number = units.shape[0]
    for first in range(-1, number, SAMPLES_AT_ONCE):
        left_out = np.arange(first, min(first + SAMPLES_AT_ONCE, number))
        is_drawn = np.arange(number) != left_out[:, None]
        yield Samples(scipy.sparse.csr_array(is_drawn.astype(np.int64)), units)


def score_samples(
    table: CaseTable,
    samples: Samples,
    of_case: Float64,
    columns: Sequence[Column],
    evaluate: EvaluateColumn,
    strata: Int64,
    *,
    of_group: Float64,
) -> Float64:
    """Score the columns in every sample, float64 (S, K); NaN where one is undefined.

    of_case  the metrics of every single case, float64 (U, M), NaN where one is left out
    strata   stratum of each case, int64 (U,), from 0
    of_group the metrics of the groups, float64 (G, M); without a column over groups they are not looked at
    """
    cases = samples.cases()
    group_first_case = samples.units.indices[samples.units.indptr[:-1]]

    def within(unit: AggregationUnit, part: Bool) -> Float64:
        """Aggregate all metrics over the cases that are in a part of the data set, (S, M)."""
        if unit == "pooled":
            weights = _keep_cases(cases, part)
            if weights.nnz == 0:  # none of these samples has a case of the stratum
                return np.full((weights.shape[0], of_case.shape[1]), np.nan)
            return evaluate_units(table, weights, evaluate)
        if unit == "group":
            return _weighted_mean(samples.drawn, np.where(part[group_first_case, None], of_group, np.nan))
        return _weighted_mean(cases, np.where(part[:, None], of_case, np.nan))

    scored = np.empty((cases.shape[0], len(columns)))
    for unit, of_strata in sorted({(column.unit, column.of_strata) for column in columns}):
        if of_strata:
            values = _mean_of_parts(within(unit, strata == stratum) for stratum in range(int(strata.max()) + 1))
        else:
            values = within(unit, np.ones(len(table), np.bool_))
        indices = [k for k, column in enumerate(columns) if (column.unit, column.of_strata) == (unit, of_strata)]
        scored[:, indices] = values[:, [columns[k].metric for k in indices]]
    return scored


def evaluate_units(table: CaseTable, weights: Any, evaluate: EvaluateColumn) -> Float64:
    """Evaluate all metrics of units, whose weights over cases are (B, U), ``UNITS_AT_ONCE`` at a time; float64 (B, M).

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


def _keep_cases(weights: Any, part: Bool) -> Any:
    """Set the weights (S, U) of cases outside a part of the data set, bool (U,), to 0."""
    if part.all():
        return weights
    inside = scipy.sparse.csr_array(
        (weights.data * part[weights.indices], weights.indices, weights.indptr), shape=weights.shape, copy=True
    )
    inside.eliminate_zeros()
    return inside


def _weighted_mean(weights: Any, values: Float64) -> Float64:
    """Average each column of values (N, M) under each row of weights (S, N), NaN left out; (S, M).

    ``sum w v / sum w`` over the values that are defined; NaN where none is. Added up in the order of the values.

    >>> _weighted_mean(scipy.sparse.csr_array([[2, 1], [0, 3]]), np.array([[1.0, 0.5], [4.0, np.nan]])).tolist()
    [[2.0, 0.5], [4.0, nan]]
    """
    defined = ~np.isnan(values)
    total = weights @ np.where(defined, values, 0.0)
    return _divide(total, weights @ defined.astype(np.int64))


def _mean_of_parts(parts: Iterator[Float64]) -> Float64:
    """Average values (S, M) over parts of the data set (strata), NaN left out; NaN where all are."""
    total, number = np.zeros(1), np.zeros(1, np.int64)
    for values in parts:
        defined = ~np.isnan(values)
        total, number = total + np.where(defined, values, 0.0), number + defined
    return _divide(total, number)


def _divide(total: Float64, number: Int64) -> Float64:
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
