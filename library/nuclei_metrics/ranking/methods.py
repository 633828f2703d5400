"""How teams are ranked: values in columns, ranks in each column, one number of them, and the rank of that number.

All methods share the last three steps (``positions_of``) and differ in the values they begin with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model.annotations import Aggregate, Missing, MissingValues, RankingMethod, Ties
from nuclei_metrics.model.arrays import Bool, Float64, Int64
from nuclei_metrics.model.counts import Gaps, ScoreTable

SCORE_ROUNDING = 1e-9  # what may lie between two numbers that were added up in another order, and are equal


def rank_values(
    values: Float64, *, higher_is_better: bool, ties: Ties, missing: Missing = "unranked", tolerance: float = 0.0
) -> Float64:
    """Rank values along the last axis, float64 (..., T); 1 is best.

    ties       what equal values get: "min" 1, 2, 2, 4; "average" 1, 2.5, 2.5, 4; "dense" 1, 2, 2, 3
    missing    what NaN gets: "unranked" NaN, and no rank is taken from the others; "worst" the rank after all others,
               which all NaN share by the tie rule (if all are NaN, they share the first)
    tolerance  0: values are equal if they are the same number, as on the platform. Above: two neighbours in the order
               are equal if they lie no further apart than this, times their size where that is above 1. Take
               ``SCORE_ROUNDING`` for whatever was added up

    Nothing but the order counts, and no rank depends on the order of the teams.

    >>> values = np.array([0.5, 0.7, 0.5, 0.9, np.nan])
    >>> rank_values(values, higher_is_better=True, ties="min").tolist()
    [3.0, 2.0, 3.0, 1.0, nan]
    >>> rank_values(values, higher_is_better=False, ties="average", missing="worst").tolist()
    [1.5, 3.0, 1.5, 4.0, 5.0]
    """
    ascending = -values if higher_is_better else values
    order = np.argsort(ascending, axis=-1)  # NaN come last
    ordered = np.take_along_axis(ascending, order, axis=-1)
    in_order = number_ties(find_ties(ordered, tolerance), ties)
    if missing == "unranked":
        in_order[np.isnan(ordered)] = np.nan
    ranks = np.empty_like(in_order)
    np.put_along_axis(ranks, order, in_order, axis=-1)
    return ranks


def find_ties(ordered: Float64 | Int64, tolerance: float) -> Bool:
    """Mark where a new rank begins in ascending values (..., T) with NaN at the end, bool (..., T). NaN are equal."""
    begins = np.ones(ordered.shape, np.bool_)
    lower, upper = ordered[..., :-1], ordered[..., 1:]
    if tolerance == 0:
        apart = lower != upper
    else:
        size = np.clip(np.abs(lower), 1, np.finfo(np.float64).max)
        with np.errstate(invalid="ignore"):  # between two infinities lies nothing
            apart = upper - lower > tolerance * size
    begins[..., 1:] = np.where(np.isnan(upper), ~np.isnan(lower), apart)
    return begins


def number_ties(begins: Bool, ties: Ties) -> Float64:
    """Number the entries of an order with their ranks, float64 (..., T), from where a new rank begins, bool (..., T).

    >>> begins = np.array([True, True, False, True])
    >>> number_ties(begins, "average").tolist(), number_ties(begins, "dense").tolist()
    ([1.0, 2.5, 2.5, 4.0], [1.0, 2.0, 2.0, 3.0])
    """
    if ties == "dense":
        return np.cumsum(begins, axis=-1).astype(np.float64)
    number = begins.shape[-1]
    index = np.arange(1.0, number + 1)
    first = np.maximum.accumulate(np.where(begins, index, 0), axis=-1)
    if ties == "min":
        return first
    ends = np.ones(begins.shape, np.bool_)
    ends[..., :-1] = begins[..., 1:]
    last = np.minimum.accumulate(np.where(ends, index, number)[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray((first + last) / 2)


def weighted_median(values: Float64, weights: Float64) -> Float64:
    """Compute medians along the last axis, (..., N) -> (...): half of the weight lies below, half above.

    In ascending order the first value at which the weights add up to more than half of them all; if they add up to
    exactly half at a value, the mean of that one and the next. With equal weights the median as it is known, and with
    whole weights that of the values, each written as often as its weight says. NaN are left out; NaN where none is
    left. ``weights`` are 0 or more and broadcast to the values; only their proportions count.

    >>> weighted_median(np.array([1.0, 4.0, 2.0]), np.array([2.0, 1.0, 1.0])).item()
    1.5
    """
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    spread = np.take_along_axis(np.broadcast_to(weights, values.shape), order, axis=-1)
    below = np.cumsum(np.where(np.isnan(ordered), 0.0, spread), axis=-1)
    half = below[..., -1:] / 2
    lower, upper = (
        np.take_along_axis(ordered, np.argmax(reached, axis=-1)[..., None], axis=-1)[..., 0]
        for reached in (below >= half * (1 - SCORE_ROUNDING), below > half * (1 + SCORE_ROUNDING))
    )
    return np.where(half[..., 0] > 0, (lower + upper) / 2, np.nan)


# --- How teams are ranked: values in columns, ranks in each column, one number of them, and the rank of that number. --


BY_UNITS = ("rank_then_aggregate", "test_then_rank", "aggregate_then_rank")


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The positions of teams, and the values and ranks that they follow from.

    teams, columns  of the table, (T,) and (K,)
    values          float64 (T, K), what each column was ranked by: the number of the data set, the aggregate over
                    units, the aggregated rank in units, or the share of tests won. NaN where there is none
    rank_by_column  float64 (T, K); NaN for teams that are not ranked
    combined        float64 (T,), the sum, mean or median of the ranks in the columns (absolute: the rank in the first);
                    lower is better, whatever the method; NaN for teams that are not ranked
    position        float64 (T,), the ranks of ``combined``; NaN for teams that are not ranked
    why             the reason for each team that is not ranked
    left_out        int64 (T, K), in how many units a team has no value although another team has one
    is_sum          whether ``combined`` is a sum of ranks

    Teams below a floor have been ranked among themselves: their ranks and positions begin behind all others.
    """

    teams: tuple[str, ...]
    columns: tuple[str, ...]
    values: Float64
    rank_by_column: Float64
    combined: Float64
    position: Float64
    why: dict[str, str]
    left_out: Int64
    is_sum: bool = False


def needs_units(method: RankingMethod) -> bool:
    """Return whether a method needs the values of units (groups), not only of the data set."""
    return method in BY_UNITS


def rank_behind(table: ScoreTable, rank: Callable[[ScoreTable], Ranking]) -> Ranking:
    """Rank the teams that meet all floors of a table, and behind them those that do not, each among themselves.

    What is added to the ranks and positions of those behind is how many stand before them, whatever the tie rule.

    >>> table = ScoreTable(("A", "B", "C"), ("iou",), np.array([True]), np.ones(1), np.array([[0.9], [0.7], [0.6]]),
    ...                    floors=("f1",), at_least=(0.5,), floor_values=np.array([[0.1], [0.8], [0.6]]))
    >>> found = rank_behind(table, lambda of: rank_teams(of, method="sum_of_ranks", ties="min", missing="worst"))
    >>> found.position.tolist(), found.rank_by_column.tolist()
    ([3.0, 1.0, 2.0], [[3.0], [1.0], [2.0]])
    """
    below = table.below_floor()
    if below.all() or not below.any():
        return rank(table)
    first, last = rank(select_teams(table, ~below)), rank(select_teams(table, below))
    before = np.count_nonzero(~np.isnan(first.position))
    change = before * (table.weights.sum() if first.is_sum else 1.0)

    def merged(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.empty((len(table.teams), *one.shape[1:]), one.dtype)
        values[~below], values[below] = one, other
        return values

    return replace(
        first,
        teams=table.teams,
        values=merged(first.values, last.values),
        rank_by_column=merged(first.rank_by_column, last.rank_by_column + before),
        combined=merged(first.combined, last.combined + change),
        position=merged(first.position, last.position + before),
        why=first.why | last.why,
        left_out=merged(first.left_out, last.left_out),
    )


def select_teams(table: ScoreTable, chosen: Bool) -> ScoreTable:
    """Cut a table down to some of its teams."""
    if chosen.all():
        return table
    gaps = table.gaps
    return replace(
        table,
        teams=tuple(name for name, is_in in zip(table.teams, chosen, strict=True) if is_in),
        overall=table.overall[chosen],
        by_unit=None if table.by_unit is None else table.by_unit[chosen],
        gaps=gaps and replace(gaps, lacking=gaps.lacking[chosen], by_unit=gaps.by_unit[chosen]),
        floor_values=None if table.floor_values is None else table.floor_values[chosen],
        samples=None if table.samples is None else table.samples[chosen],
    )


def rank_teams(
    table: ScoreTable,
    *,
    method: RankingMethod,
    ties: Ties,
    missing: Missing,
    aggregate: Aggregate = "mean",
    test_matrix: npt.NDArray[np.int8] | None = None,
) -> Ranking:
    """Rank the teams of a table.

    sum_of_ranks, mean_of_ranks   the weighted sum or mean of the ranks in the columns (Sirinukunwattana et al., Medical
                                  Image Analysis 2017, the GlaS challenge; the platform's "mean")
    median_of_ranks       their weighted median (the platform's "median")
    absolute              the rank in the first column; the others are shown (the platform's "absolute")
    aggregate_then_rank   the mean or median over units is ranked in each column, then the mean of ranks
    rank_then_aggregate   the teams are ranked in each unit; the mean or median of these ranks is ranked in each column,
                          then the mean of ranks (both: Maier-Hein et al., Nature Communications 2018)
    test_then_rank        the share of the other teams that a team is significantly better than is ranked in each
                          column, then the mean of ranks (Wiesenfarth et al., Scientific Reports 2021)

    Every other rank, also that of the result, follows the tie rule. Sums are equal up to ``SCORE_ROUNDING``.

    missing      what happens to a team without a value in a column. "worst": it ranks after all others there. In
                 rank_then_aggregate this holds in each unit. "unranked": it is not ranked at all, and takes no rank
                 from others; in rank_then_aggregate one unit without a value is enough. Under both, nobody is
                 ranked if no team has a value in any column; and what no team has (a unit in rank_then_aggregate) is
                 left out. aggregate_then_rank leaves units without a value out, as the means of metrics.json do
    aggregate    over units, for aggregate_then_rank and rank_then_aggregate
    test_matrix  int8 (K, T, T), 1 where the team of the row is significantly better than that of the column; for
                 test_then_rank

    Raises ``ValueError`` if the table has no column, or lacks the units or the matrix that the method needs.

    >>> table = ScoreTable(("A", "B", "C"), ("pq", "hd"), np.array([True, False]), np.ones(2),
    ...                    np.array([[0.6, 9.0], [0.5, 7.0], [0.4, 8.0]]))
    >>> found = rank_teams(table, method="sum_of_ranks", ties="min", missing="worst")
    >>> found.rank_by_column.tolist(), found.combined.tolist(), found.position.tolist()
    ([[1.0, 3.0], [2.0, 1.0], [3.0, 2.0]], [4.0, 3.0, 5.0], [2.0, 1.0, 3.0])
    """
    if not table.columns:
        raise ValueError("a table without a column cannot be ranked")
    higher_is_better, tolerance = table.higher_is_better, 0.0
    if method == "test_then_rank":
        if test_matrix is None:
            raise ValueError(f"{method} needs the matrix of significant differences")
        known = _has_value(table)
        others = np.asarray(known.all(axis=1) | (missing == "worst"))
        values = _number_of_wins(test_matrix, known, others) / max(1, int(others.sum()) - 1)  # of one team alone 0
        higher_is_better = np.ones(len(table.columns), np.bool_)
    elif needs_units(method):
        units = unit_values(table, method=method, ties=ties, missing=missing)
        values, higher_is_better = aggregate_units(units.by_unit, aggregate), units.higher_is_better
        tolerance = SCORE_ROUNDING
    else:
        values = table.overall
    ranks = _rank_columns(values, higher_is_better=higher_is_better, ties=ties, missing=missing, tolerance=tolerance)
    combined = _combine_ranks(ranks, method=method, weights=table.weights)
    position = rank_values(combined, higher_is_better=False, ties=ties, tolerance=SCORE_ROUNDING)
    gaps = find_gaps(table)
    by_gap = method == "rank_then_aggregate" and missing == "unranked"
    return Ranking(
        teams=table.teams,
        columns=table.columns,
        values=values,
        rank_by_column=ranks,
        combined=combined,
        position=position,
        why=_reasons_unranked(table, values, position, gaps if by_gap else gaps[..., :0]),
        left_out=gaps.sum(axis=-1),
        is_sum=method == "sum_of_ranks",
    )


def positions_of(
    values: Float64,
    *,
    higher_is_better: Bool,
    weights: Float64,
    method: RankingMethod,
    ties: Ties,
    missing: Missing,
    tolerance: float = SCORE_ROUNDING,
) -> Float64:
    """Rank the teams by their values in columns, (..., T, K): positions, float64 (..., T); NaN for teams not ranked.

    The part that all methods share; ``higher_is_better`` and ``weights`` are (K,). ``tolerance`` is that of the values.

    >>> values = np.array([[0.3, 0.2], [0.1 + 0.2, 0.1]])
    >>> positions_of(values, higher_is_better=np.array([True, True]), weights=np.ones(2), method="mean_of_ranks",
    ...              ties="min", missing="worst").tolist()
    [1.0, 2.0]
    """
    ranks = _rank_columns(values, higher_is_better=higher_is_better, ties=ties, missing=missing, tolerance=tolerance)
    combined = _combine_ranks(ranks, method=method, weights=weights)
    return rank_values(combined, higher_is_better=False, ties=ties, tolerance=SCORE_ROUNDING)


@dataclass(frozen=True, slots=True, eq=False)
class _UnitValues:
    """The values that are averaged over units: by_unit float64 (T, K, G), higher_is_better bool (K,)."""

    by_unit: Float64
    higher_is_better: Bool


def unit_values(table: ScoreTable, *, method: RankingMethod, ties: Ties, missing: Missing) -> _UnitValues:
    """Return the values of units that a method aggregates: those of the table, or the ranks in each unit.

    Ranks are those of rank_then_aggregate: NaN where no team has a value; and everywhere for a team
    that lacks a value where another has one, if such teams are not ranked. Raises ``ValueError`` if the table has no
    units.

    >>> table = ScoreTable(("A", "B"), ("pq",), np.array([True]), np.ones(1), np.array([[0.6], [0.5]]),
    ...                    ("P1", "P2", "P3"), np.array([[[0.5, 0.7, np.nan]], [[0.6, np.nan, np.nan]]]))
    >>> unit_values(table, method="rank_then_aggregate", ties="min", missing="worst").by_unit.tolist()
    [[[2.0, 1.0, nan]], [[1.0, 2.0, nan]]]
    """
    if table.by_unit is None:
        raise ValueError("the values of units are not known")
    if method != "rank_then_aggregate":
        return _UnitValues(table.by_unit, table.higher_is_better)
    values = np.where(table.higher_is_better[:, None], -table.by_unit, table.by_unit)
    if missing == "unranked":
        values[find_gaps(table).any(axis=(1, 2))] = np.nan
    in_unit = np.moveaxis(values, 0, -1)
    unit_ranks = rank_values(in_unit, higher_is_better=False, ties=ties, missing=missing, tolerance=SCORE_ROUNDING)
    ranks = np.where(np.isnan(in_unit).all(axis=-1, keepdims=True), np.nan, unit_ranks)
    return _UnitValues(np.moveaxis(ranks, -1, 0), np.zeros(len(table.columns), np.bool_))


def aggregate_units(by_unit: Float64, aggregate: Aggregate) -> Float64:
    """Take the mean or median along the last axis, (..., G) -> (...), of the units that have a value; NaN if none has.

    >>> by_unit = np.array([[0.25, 0.5, np.nan, 1.5], [np.nan] * 4])
    >>> aggregate_units(by_unit, "mean").tolist(), aggregate_units(by_unit, "median").tolist()
    ([0.75, nan], [0.5, nan])
    """
    if aggregate == "median":
        return weighted_median(by_unit, np.ones(by_unit.shape[-1]))
    known = ~np.isnan(by_unit)
    number = np.asarray(known.sum(axis=-1))
    total = np.asarray(np.where(known, by_unit, 0.0).sum(axis=-1))
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _number_of_wins(matrix: npt.NDArray[np.int8], known: Bool, others: Bool) -> Float64:
    """Count the others that each team is significantly better than, float64 (T, K); NaN where not ``known``.

    matrix  int8 (K, T, T), 1 where the row is better
    known   bool (T, K), whether a team has a value in a column
    others  bool (T,), which teams count

    >>> matrix = np.array([[[0, 1, 1], [-1, 0, 0], [-1, 0, 0]]], np.int8)
    >>> _number_of_wins(matrix, np.ones((3, 1), bool), np.ones(3, bool)).tolist()
    [[2.0], [0.0], [0.0]]
    """
    return np.where(known, (matrix == 1)[:, :, others].sum(axis=-1).T, np.nan)


def _rank_columns(
    values: Float64, *, higher_is_better: Bool, ties: Ties, missing: Missing, tolerance: float
) -> Float64:
    """Rank the teams in each column, float64 (..., T, K) as the values; NaN for teams that are not ranked."""
    absent = np.isnan(values)
    nobody = np.asarray(absent.all(axis=(-2, -1)))
    signed = np.where(higher_is_better, -values, values)
    signed[absent.any(axis=-1) & (missing == "unranked")] = np.nan
    by_column = rank_values(
        np.swapaxes(signed, -1, -2), higher_is_better=False, ties=ties, missing=missing, tolerance=tolerance
    )
    ranks = np.swapaxes(by_column, -1, -2)
    ranks[nobody] = np.nan
    return ranks


def _combine_ranks(ranks: Float64, *, method: RankingMethod, weights: Float64) -> Float64:
    """Combine the ranks of each team in columns, (..., K), into one number, float64 (...); NaN from NaN."""
    if method == "absolute":
        return ranks[..., 0].copy()
    if method == "median_of_ranks":
        return weighted_median(ranks, weights)
    total = np.asarray((ranks * weights).sum(axis=-1))
    return total if method == "sum_of_ranks" else total / weights.sum()


def _has_value(table: ScoreTable) -> Bool:
    """Whether a team has a value in a column, bool (T, K): in any unit, or of the data set if units are not known."""
    if table.by_unit is None:
        return np.asarray(~np.isnan(table.overall))
    return np.asarray((~np.isnan(table.by_unit)).any(axis=-1))


def find_gaps(table: ScoreTable) -> Bool:
    """Mark where a team has no value in a unit although another team has one, bool (T, K, G); G is 0 without units."""
    if table.by_unit is None:
        return np.zeros((len(table.teams), len(table.columns), 0), np.bool_)
    absent = np.isnan(table.by_unit)
    return np.asarray(absent & ~absent.all(axis=0))


def _reasons_unranked(table: ScoreTable, values: Float64, position: Float64, gaps: Bool) -> dict[str, str]:
    """Return why teams have no position. Units are counted, not named: their names may be hidden from participants.

    gaps  bool (T, K, G), units whose missing values are the reason; G is 0 where only columns count
    """
    why = {}
    absent, in_units = np.isnan(values), gaps.sum(axis=-1)
    for team in np.flatnonzero(np.isnan(position)):
        lacking = np.flatnonzero(in_units[team] if in_units[team].any() else absent[team])
        text = f"no value in {table.columns[lacking[0]]}"
        if in_units[team].any():
            text += f" in {in_units[team, lacking[0]]} of {gaps.shape[-1]} cases or patients"
        if len(lacking) > 1:
            text += f", and in {len(lacking) - 1} more of {len(table.columns)} columns"
        why[table.teams[team]] = text
    if absent.all() and not in_units.any():
        return dict.fromkeys(why, "no team has a value in any column")
    return why


# --- missing values ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Values of teams in columns and units after their gaps were settled.

    values    float64 (T, K, G), what ranks
    own       float64 (T, K, G), what is evidence: the same without values that stand in the place of missing ones
    lacking   int64 (T, K), in how many units a team lacks a value that another team has
    left_out  int64 (K,), units that no team is judged by, since a team lacks a value there (``complete_cases``)
    """

    values: Float64
    own: Float64
    lacking: Int64
    left_out: Int64


def settle_gaps(values: Float64, worst: Float64, missing: MissingValues) -> Settled:
    """Settle the gaps of teams in columns and units, float64 (T, K, G): NaN of a team where another team has a value.

    worst           the worst value that the metric can have, float64 (K,), takes their place; where there is none, NaN,
                    a team with a gap has no value at all in the column, so that it ranks after all others there
    unranked        a team with a gap has no value at all in the column
    complete_cases  the unit is left out in this column for all teams

    A team without any value in a column has none there under every rule, and takes no unit from others. A unit in which
    no team has a value counts for nobody. What a gap costs under ``worst`` does not depend on the values of any team:
    else the worst team could have the value of the next one by leaving its own out.

    >>> values = np.array([[[0.9, np.nan, 0.7]], [[0.5, 0.2, 0.6]]])
    >>> settle_gaps(values, np.array([0.0]), "worst").values.tolist()
    [[[0.9, 0.0, 0.7]], [[0.5, 0.2, 0.6]]]
    >>> settle_gaps(values, np.array([np.nan]), "worst").values.tolist()
    [[[nan, nan, nan]], [[0.5, 0.2, 0.6]]]
    >>> settle_gaps(values, np.array([0.0]), "complete_cases").values.tolist()
    [[[0.9, nan, 0.7]], [[0.5, nan, 0.6]]]
    """
    absent = np.isnan(values)
    is_in = ~absent.all(axis=2, keepdims=True)
    gaps = absent & is_in & ~absent.all(axis=0)
    lacking = (absent & ~absent.all(axis=0)).sum(axis=2)
    in_units = gaps.any(axis=0)
    left_out = np.zeros(values.shape[1], np.int64)
    if missing == "complete_cases":
        settled = np.where(in_units, np.nan, values)
        return Settled(settled, settled, lacking, np.asarray(in_units.sum(axis=1)))
    settled = np.where(gaps, worst[:, None], values)
    settled[gaps.any(axis=2) & (np.isnan(worst) | (missing == "unranked"))] = np.nan
    return Settled(settled, values, lacking, left_out)


def has_replaced(table: ScoreTable) -> bool:
    """Return whether values stand in the place of missing ones: then methods that rank by tests cannot be trusted.

    They make differences vary more, so that these are significant less often: who is worse by little in all units would
    gain by leaving one out.
    """
    if table.gaps is None or table.by_unit is None:
        return False
    return bool((np.isnan(table.gaps.by_unit) & ~np.isnan(table.by_unit)).any())


def keep_complete_units(table: ScoreTable) -> ScoreTable:
    """Keep in each column the units in which every team with any value in the column has a value.

    A column that loses a unit becomes the mean over the others; its overall value is not known for them.
    """
    if table.by_unit is None:
        return table
    settled = settle_gaps(table.by_unit, np.full(len(table.columns), np.nan), "complete_cases")
    known = ~np.isnan(settled.values)
    number = known.sum(axis=2)
    means = np.where(known, settled.values, 0.0).sum(axis=2) / np.maximum(number, 1)
    overall = np.where(settled.left_out > 0, np.where(number > 0, means, np.nan), table.overall)
    gaps = Gaps(settled.lacking, settled.left_out, len(table.units), settled.values)
    return replace(table, by_unit=settled.values, overall=overall, gaps=table.gaps or gaps)
