"""How teams are ranked: values in columns, ranks in each column, one number of them, and the rank of that number.

All methods share the last three steps (``positions_of``) and differ in the values they begin with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import Aggregate, Bool, Float64, Int64, Missing, RankingMethod, ScoreTable, Ties
from evaluation.ranking.ranked_pairs import lock_pairs, majority_margins
from evaluation.ranking.ranks import ROUNDING, rank_values, weighted_median

BY_RANKS_IN_UNITS = ("rank_then_aggregate", "ranked_pairs")
BY_MATRIX = ("test_then_rank", "better_teams")
BY_UNITS = (*BY_RANKS_IN_UNITS, *BY_MATRIX, "aggregate_then_rank")


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The positions of teams, and the values and ranks that they follow from.

    teams, columns  of the table, (T,) and (K,)
    values          float64 (T, K), what each column was ranked by: the number of the data set, the aggregate over
                    units, the aggregated rank in units, or the share of tests won. NaN where there is none
    rank_by_column  float64 (T, K); NaN for teams that are not ranked
    combined        float64 (T,), the sum, mean or median of the ranks in the columns (absolute: the rank in the first;
                    ranked_pairs: how many teams stand before it); lower is better, whatever the method; NaN for teams
                    that are not ranked
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
    """Whether a method wants the values of units (groups), not only those of the data set."""
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

    return Ranking(
        teams=table.teams,
        columns=table.columns,
        values=merged(first.values, last.values),
        rank_by_column=merged(first.rank_by_column, last.rank_by_column + before),
        combined=merged(first.combined, last.combined + change),
        position=merged(first.position, last.position + before),
        why={**first.why, **last.why},
        left_out=merged(first.left_out, last.left_out),
        is_sum=first.is_sum,
    )


def select_teams(table: ScoreTable, chosen: Bool) -> ScoreTable:
    """The table of some of the teams."""
    if chosen.all():
        return table
    teams = tuple(name for name, is_in in zip(table.teams, chosen, strict=True) if is_in)
    by_unit, floors = (None if of is None else of[chosen] for of in (table.by_unit, table.floor_values))
    gaps = table.gaps
    if gaps is not None:
        gaps = replace(gaps, lacking=gaps.lacking[chosen], by_unit=gaps.by_unit[chosen])
    return replace(
        table,
        teams=teams,
        overall=table.overall[chosen],
        by_unit=by_unit,
        floor_values=floors,
        samples=None if table.samples is None else table.samples[chosen],
        gaps=gaps,
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
    ranked_pairs          the number of teams that stand before a team by ``lock_pairs`` is ranked: every unit in every
                          column is a ballot, with the weight of the column. Ranks in columns are those of
                          rank_then_aggregate, and only shown
    better_teams          the place in a column is one more than the number of teams that are better there by
                          ``paired_differences``, whatever the tie rule; with several columns the mean is ranked

    Every other rank, also that of the result, follows the tie rule. What was added up is equal up to ``ROUNDING``.

    missing      what happens to a team without a value in a column. "worst": it ranks after all others there. In
                 rank_then_aggregate and ranked_pairs this holds in each unit. "unranked": it is not ranked at all, and
                 takes no rank from others; in these two one unit without a value is enough. Under both, nobody is
                 ranked if no team has a value in any column; and what no team has (a unit in rank_then_aggregate) is
                 left out. aggregate_then_rank leaves units without a value out, as the means of metrics.json do
    aggregate    over units, for aggregate_then_rank and rank_then_aggregate
    test_matrix  int8 (K, T, T), 1 where the team of the row is significantly better than that of the column; for
                 test_then_rank and better_teams

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
    ahead: Float64 | None = None
    if method in BY_MATRIX:
        if test_matrix is None:
            raise ValueError(f"{method} needs the matrix of significant differences")
        if method == "test_then_rank":
            values = share_of_wins(test_matrix, has_value(table), missing)
        else:
            values = number_of_better(test_matrix, has_value(table), missing)
        higher_is_better = np.full(len(table.columns), method == "test_then_rank")
    elif needs_units(method):
        units = unit_values(table, method=method, ties=ties, missing=missing)
        values, higher_is_better = aggregate_units(units.by_unit, aggregate), units.higher_is_better
        tolerance = ROUNDING
        if method == "ranked_pairs":
            ahead = lock_pairs(majority_margins(units.by_unit, table.weights)).sum(axis=0).astype(np.float64)
    else:
        values = table.overall
    ranks = rank_columns(values, higher_is_better=higher_is_better, ties=ties, missing=missing, tolerance=tolerance)
    if method == "better_teams":
        ranks = places_by_better(values, ranks)
    combined = combine_ranks(ranks, method=method, weights=table.weights)
    if ahead is not None:
        combined = np.where(np.isnan(combined), np.nan, ahead)
    position = rank_combined(combined, len(table.columns), method=method, ties=ties)
    gaps = find_gaps(table)
    by_gap = method in BY_RANKS_IN_UNITS and missing == "unranked"
    return Ranking(
        teams=table.teams,
        columns=table.columns,
        values=values,
        rank_by_column=ranks,
        combined=combined,
        position=position,
        why=explain(table, values, position, gaps if by_gap else gaps[..., :0]),
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
    tolerance: float = ROUNDING,
) -> Float64:
    """Positions of the teams, float64 (..., T), from values in columns (..., T, K); NaN for teams not ranked.

    The part that all methods share; ``higher_is_better`` and ``weights`` are (K,). ``tolerance`` is that of the values.

    >>> values = np.array([[0.3, 0.2], [0.1 + 0.2, 0.1]])
    >>> positions_of(values, higher_is_better=np.array([True, True]), weights=np.ones(2), method="mean_of_ranks",
    ...              ties="min", missing="worst").tolist()
    [1.0, 2.0]
    """
    ranks = rank_columns(values, higher_is_better=higher_is_better, ties=ties, missing=missing, tolerance=tolerance)
    if method == "better_teams":
        ranks = places_by_better(values, ranks)
    combined = combine_ranks(ranks, method=method, weights=weights)
    return rank_combined(combined, values.shape[-1], method=method, ties=ties)


def rank_combined(combined: Float64, columns: int, *, method: RankingMethod, ties: Ties) -> Float64:
    """The rank of the combined number; of better_teams in one column it is the rank already, a whole number."""
    if method == "better_teams" and columns == 1:
        return np.round(combined)
    return rank_values(combined, higher_is_better=False, ties=ties, tolerance=ROUNDING)


@dataclass(frozen=True, slots=True, eq=False)
class UnitValues:
    """What is averaged over units: by_unit float64 (T, K, G), higher_is_better bool (K,)."""

    by_unit: Float64
    higher_is_better: Bool


def unit_values(table: ScoreTable, *, method: RankingMethod, ties: Ties, missing: Missing) -> UnitValues:
    """The values of units that a method aggregates: those of the table, or the ranks in each unit.

    Ranks are those of rank_then_aggregate and ranked_pairs: NaN where no team has a value; and everywhere for a team
    that lacks a value where another has one, if such teams are not ranked. Raises ``ValueError`` if the table has no
    units.

    >>> table = ScoreTable(("A", "B"), ("pq",), np.array([True]), np.ones(1), np.array([[0.6], [0.5]]),
    ...                    ("P1", "P2", "P3"), np.array([[[0.5, 0.7, np.nan]], [[0.6, np.nan, np.nan]]]))
    >>> unit_values(table, method="rank_then_aggregate", ties="min", missing="worst").by_unit.tolist()
    [[[2.0, 1.0, nan]], [[1.0, 2.0, nan]]]
    """
    if table.by_unit is None:
        raise ValueError("the values of units are not known")
    if method not in BY_RANKS_IN_UNITS:
        return UnitValues(table.by_unit, table.higher_is_better)
    values = np.where(table.higher_is_better[:, None], -table.by_unit, table.by_unit)
    if missing == "unranked":
        values[find_gaps(table).any(axis=(1, 2))] = np.nan
    in_unit = np.moveaxis(values, 0, -1)
    found = rank_values(in_unit, higher_is_better=False, ties=ties, missing=missing, tolerance=ROUNDING)
    ranks = np.where(np.isnan(in_unit).all(axis=-1, keepdims=True), np.nan, found)
    return UnitValues(np.moveaxis(ranks, -1, 0), np.zeros(len(table.columns), np.bool_))


def aggregate_units(by_unit: Float64, aggregate: Aggregate) -> Float64:
    """Mean or median along the last axis, (..., G) -> (...): over the units that have a value; NaN if none has.

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


def share_of_wins(matrix: npt.NDArray[np.int8], known: Bool, missing: Missing) -> Float64:
    """Share of the other teams that each team is significantly better than, float64 (T, K); NaN where not ``known``.

    matrix  int8 (K, T, T), 1 where the row is better. Teams that are not ranked count neither as won nor as others
    known   bool (T, K), whether a team has a value in a column

    One team alone has won nothing: 0.

    >>> share_of_wins(np.array([[[0, 1, 1], [-1, 0, 0], [-1, 0, 0]]], np.int8), np.ones((3, 1), bool), "worst").tolist()
    [[1.0], [0.0], [0.0]]
    """
    others = np.asarray(known.all(axis=1) | (missing == "worst"))
    wins = (matrix == 1)[:, :, others].sum(axis=-1).T
    return np.where(known, wins / max(1, np.count_nonzero(others) - 1), np.nan)


def number_of_better(matrix: npt.NDArray[np.int8], known: Bool, missing: Missing) -> Float64:
    """How many others are better than each team, float64 (T, K), as in ``share_of_wins``; NaN where not ``known``.

    >>> number_of_better(np.array([[[0, 1], [0, 0]]], np.int8), np.ones((2, 1), bool), "worst").tolist()
    [[0.0], [1.0]]
    """
    others = np.asarray((missing == "worst") | known.all(axis=1))
    return np.where(known, (matrix == 1)[:, others].sum(axis=1).T, np.nan)


def places_by_better(better: Float64, ranks: Float64) -> Float64:
    """1 + the number of better teams (..., T, K); of a ranked team without a value all that have one are better."""
    others = np.asarray((~np.isnan(better)).sum(axis=-2, keepdims=True))
    return np.where(np.isnan(ranks), np.nan, 1 + np.where(np.isnan(better), others, better))


def rank_columns(values: Float64, *, higher_is_better: Bool, ties: Ties, missing: Missing, tolerance: float) -> Float64:
    """Ranks of the teams in each column, float64 (..., T, K) as the values; NaN for teams that are not ranked."""
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


def combine_ranks(ranks: Float64, *, method: RankingMethod, weights: Float64) -> Float64:
    """One number for each team, float64 (...), from its ranks in columns (..., K); NaN from NaN. Lower is better."""
    if method == "absolute":
        return ranks[..., 0].copy()
    if method == "median_of_ranks":
        return weighted_median(ranks, weights)
    total = np.asarray((ranks * weights).sum(axis=-1))
    return total if method == "sum_of_ranks" else total / weights.sum()


def has_value(table: ScoreTable) -> Bool:
    """Whether a team has a value in a column, bool (T, K): in any unit, or of the data set if units are not known."""
    if table.by_unit is None:
        return np.asarray(~np.isnan(table.overall))
    return np.asarray((~np.isnan(table.by_unit)).any(axis=-1))


def find_gaps(table: ScoreTable) -> Bool:
    """Where a team has no value in a unit although another team has one, bool (T, K, G); G is 0 without units."""
    if table.by_unit is None:
        return np.zeros((len(table.teams), len(table.columns), 0), np.bool_)
    absent = np.isnan(table.by_unit)
    return np.asarray(absent & ~absent.all(axis=0))


def explain(table: ScoreTable, values: Float64, position: Float64, gaps: Bool) -> dict[str, str]:
    """Why teams have no position. Units are counted, not named: their names may be hidden from participants.

    gaps  bool (T, K, G), units whose lack was enough; G is 0 where only columns count
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
