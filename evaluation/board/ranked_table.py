"""A table of scores, ranked by the rules of a challenge: ranks, tests, and ranks in bootstrap samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np

from evaluation.challenge.rules import RankingRules
from nuclei_metrics.model import Bool, Float64, Int64, RankingMethod, ScoreTable
from nuclei_metrics.ranking import methods, stability
from nuclei_metrics.ranking.declared_test import ComparedTeams, compare_in_columns
from nuclei_metrics.ranking.differences import Differences, paired_differences
from nuclei_metrics.ranking.significance import ex_aequo_positions

DIFFERENCES_UP_TO = 50  # teams, of which all pairs are compared; of more those with the first one
SAME = 2e-6  # up to here numbers differ that were made from values with six decimals


def complete_table(table: ScoreTable, rules: RankingRules) -> ScoreTable:
    """Apply ``keep_complete_units``, to the values in samples as well."""
    cut = methods.keep_complete_units(table)
    if cut.samples is None or cut.gaps is None or cut.by_unit is None:
        return cut
    weights = stability.sample_weights(len(table.units), rules.samples, rules.seed)
    means = np.moveaxis(np.round(stability.sample_means(cut.by_unit, weights), 6), 0, 1)
    samples, columns = cut.samples.copy(), np.flatnonzero(cut.gaps.left_out)
    samples[..., columns] = means[..., columns]
    return replace(cut, samples=samples)


def apply_method(table: ScoreTable, rules: RankingRules, tests: ComparedTeams | None = None) -> methods.Ranking:
    """Rank the teams of a table by the method of the rules; ranks are not shared yet. Floors come first.

    tests  of ``compare_teams``, if they are there
    """

    def rank(part: ScoreTable) -> methods.Ranking:
        matrix = None
        if rules.method == "test_then_rank":
            of_part = tests if tests and part is table else compare_teams(part, rules)
            matrix = np.stack([test.better for test in of_part.columns]) if of_part else None
        return methods.rank_teams(
            part,
            method=rules.method,
            ties=rules.ties,
            missing=rules.missing_rank,
            aggregate=rules.aggregate,
            test_matrix=matrix,
        )

    return methods.rank_behind(table, rank)


def part_of_table(table: ScoreTable, columns: Sequence[int]) -> ScoreTable:
    """Return the table with some of its columns."""
    chosen, gaps = np.asarray(columns, np.int64), table.gaps
    return replace(
        table,
        columns=tuple(table.columns[place] for place in columns),
        higher_is_better=table.higher_is_better[chosen],
        weights=table.weights[chosen],
        overall=table.overall[:, chosen],
        by_unit=None if table.by_unit is None else table.by_unit[:, chosen],
        gaps=gaps
        and replace(
            gaps, lacking=gaps.lacking[:, chosen], left_out=gaps.left_out[chosen], by_unit=gaps.by_unit[:, chosen]
        ),
        samples=None,
    )


def places_in_subtask(table: ScoreTable, rules: RankingRules, columns: Sequence[int]) -> Float64:
    """Rank the teams by some of the columns alone, by the method of the rules, float64 (T,)."""
    part = part_of_table(table, columns)
    rules = rules.model_copy(update={"columns": tuple(rules.columns[index] for index in columns)})
    tests = compare_teams(part, rules) if rules.ex_aequo else None
    return (share_places(part, rules, tests) if tests else apply_method(part, rules)).position


def compare_teams(table: ScoreTable, rules: RankingRules) -> ComparedTeams | None:
    """Compare the teams of a table by the declared test, ``ranking.test``; None: the values of units are unknown.

    This is the only answer to "does team A differ significantly from team B": in column c if
    ``columns[c].better[A, B]`` is not 0 (1: A is better), and over the columns together if ``together.better[A, B]`` is
    not 0. Fewer patients than ``columns[c].least_units`` are too few. A difference within the margin
    of a column is not significant there. Values that replace missing values are not evidence.
    """
    table = common_values(table)
    if table.by_unit is None:
        return None
    compared = compare_in_columns(
        table.by_unit,
        higher_is_better=table.higher_is_better,
        weights=table.weights,
        test=rules.test,
        level=rules.significance_level,
    )
    columns = []
    for index, (test, column) in enumerate(zip(compared.columns, rules.columns, strict=True)):
        if margin := rules.margin_of(column):
            differences = _differences_in(table, index, rules)
            test = replace(test, better=np.where(differences.within(margin), np.int8(0), test.better))
        columns.append(test)
    return ComparedTeams(tuple(columns), compared.together)


def _differences_in(
    table: ScoreTable, column: int, rules: RankingRules, rows: Sequence[int] | None = None
) -> Differences:
    """Compute the paired differences of the teams in a column; ``rows`` as in ``paired_differences``."""
    assert table.by_unit is not None
    higher = bool(table.higher_is_better[column])
    level = rules.significance_level / len(rules.columns)
    return paired_differences(table.by_unit[:, column], higher_is_better=higher, level=level, rows=rows)


def differences_of(table: ScoreTable, column: int, rules: RankingRules, first: int) -> Differences | None:
    """Compute the paired differences of a column of the board; None without values of units.

    first  the only team compared with the rest if there are more than ``DIFFERENCES_UP_TO`` teams

    All intervals of all columns are valid jointly at the level.
    """
    if table.by_unit is None or not table.teams:
        return None
    rows = None if len(table.teams) <= DIFFERENCES_UP_TO else [first]
    return _differences_in(table, column, rules, rows)


def common_values(table: ScoreTable) -> ScoreTable:
    """Return the table without replacements of missing values."""
    return table if table.gaps is None else replace(table, by_unit=table.gaps.by_unit)


def first_without(table: ScoreTable, rules: RankingRules, position: Float64) -> dict[str, list[str]]:
    """Name the teams that would be first without the minimum, with equal weights, and in the units that all have.

    position  float64 (T,), the published ranks; rules with the same first rank are omitted
    """
    varied = {}
    if table.below_floor().any():
        varied["minimum"] = replace(table, floors=(), at_least=(), floor_values=None)
    if len(set(table.weights.tolist())) > 1:
        varied["weights"] = replace(table, weights=np.ones(len(table.columns)))
    if table.gaps is not None and rules.missing == "worst":
        varied["gaps"] = methods.keep_complete_units(replace(common_values(table), gaps=None))
    found = {}
    for rule, other in varied.items():
        places, _ = rank_table(other, rules)
        if np.isnan(places).all():
            continue
        best = places == np.nanmin(places)
        if (best != (position == np.nanmin(position))).any():
            found[rule] = [name for name, is_first in zip(table.teams, best.tolist(), strict=True) if is_first]
    return found


def share_places(table: ScoreTable, rules: RankingRules, tests: ComparedTeams) -> methods.Ranking:
    """Rank the teams so that teams without a significant difference share a rank in a column (ex aequo).

    In a column the rank of a team is one more than the number of teams with fewer significantly better teams
    (``ex_aequo_positions``). The sum, mean or median of these ranks is ranked; for methods that rank by the values of
    units, their mean.
    """
    places = np.stack([ex_aequo_positions(test) for test in tests.columns], axis=1)
    shared = replace(table, overall=places, higher_is_better=np.zeros(len(table.columns), np.bool_), by_unit=None)
    method = "mean_of_ranks" if methods.needs_units(rules.method) else rules.method
    return methods.rank_behind(
        shared, partial(methods.rank_teams, method=method, ties=rules.ties, missing=rules.missing_rank)
    )


def rank_table(table: ScoreTable, rules: RankingRules, tests: ComparedTeams | None = None) -> tuple[Float64, Float64]:
    """Compute the ranks and combined numbers of all teams, as on the leaderboard; NaN for teams that are not ranked.

    tests  of ``compare_teams``, if they are there
    """
    position, combined = (np.full(len(table.teams), np.nan) for _ in range(2))
    if not table.teams:
        return position, combined
    placed = apply_method(table, rules, tests)
    is_ranked = ~np.isnan(placed.position)
    if not is_ranked.any():
        return position, combined
    if rules.ex_aequo or not is_ranked.all():
        ranked_table = methods.select_teams(table, is_ranked)
        of_kept = tests if tests is not None and is_ranked.all() else compare_teams(ranked_table, rules)
        placed = (
            share_places(ranked_table, rules, of_kept)
            if rules.ex_aequo and of_kept
            else apply_method(ranked_table, rules)
        )
    position[is_ranked], combined[is_ranked] = placed.position, placed.combined
    return position, combined


def places_by_methods(
    table: ScoreTable, rules: RankingRules, tests: ComparedTeams | None
) -> dict[RankingMethod, Float64]:
    """Rank the teams by every method that can decide. Leaderboards and audits share this list.

    Without values of units, methods that need them are omitted. So are "absolute" for several columns, and methods by
    tests if values replace missing values or all teams share a rank (too few units). All other rules stay.
    """
    by_method: dict[RankingMethod, Float64] = {}
    replaced = methods.has_replaced(table)
    for method in get_args(RankingMethod):
        if (methods.needs_units(method) and table.by_unit is None) or (method == "absolute" and len(table.columns) > 1):
            continue
        by_tests = method == "test_then_rank"
        if by_tests and replaced:
            continue
        places, _ = rank_table(table, rules.model_copy(update={"method": method}), tests)
        if method == rules.method or not by_tests or np.nanmin(places) < np.nanmax(places):
            by_method[method] = places
    return by_method


def places_in_units(table: ScoreTable, rules: RankingRules) -> Float64:
    """Rank the teams by the values of each unit alone, float64 (T, G).

    A unit has one value per column, so methods over several units become the mean of ranks.
    """
    assert table.by_unit is not None
    rank = _position_ranker(table, rules, table.higher_is_better)
    return _positions_behind(np.moveaxis(table.by_unit, -1, 0), rank, table.below_floor()).T


def _position_ranker(table: ScoreTable, rules: RankingRules, higher_is_better: Bool) -> Callable[[Float64], Float64]:
    """Bind ``positions_of`` to the weights of a table and to the rules."""
    return partial(
        methods.positions_of,
        higher_is_better=higher_is_better,
        weights=table.weights,
        method=rules.method,
        ties=rules.ties,
        missing=rules.missing_rank,
    )


def _positions_behind(values: Float64, rank: Callable[[Float64], Float64], below: Bool) -> Float64:
    """Turn values (..., T, K) into positions (..., T), with teams below a floor after all other teams."""
    if below.all() or not below.any():
        return rank(values)
    first, last = rank(values[..., ~below, :]), rank(values[..., below, :])
    positions = np.empty(values.shape[:-1])
    positions[..., ~below] = first
    positions[..., below] = last + np.count_nonzero(~np.isnan(first), axis=-1)[..., None]
    return positions


def draw_samples(table: ScoreTable, rules: RankingRules, plain: methods.Ranking) -> stability.Stability:
    """Draw bootstrap samples of the units of a table, and rank every sample, before ranks are shared.

    Nothing is drawn if tests rank: they would count a unit that a sample has twice as two independent units.
    """
    reason = "no-units" if table.by_unit is None else "one-unit" if len(table.units) < 2 else ""
    reason = reason or "ranked-by-tests" * (rules.method == "test_then_rank")
    if reason or not_resampled(table, rules):
        return stability.undrawn(plain.position, reason or "not-resampled")
    rank = sample_ranker(table, rules)
    return stability.bootstrap_ranks(
        rank, plain.position, units=len(table.units), samples=rules.samples, seed=rules.seed
    )


def not_resampled(table: ScoreTable, rules: RankingRules) -> list[str]:
    """List the columns and floors of the ranking without values in samples.

    Values are valid if the sample with every unit once reproduces the published values.
    """
    values, floors = _sampled_values(table)(np.ones((1, len(table.units)), np.int64))
    pairs = [] if methods.needs_units(rules.method) else [(table.columns, values[0], table.overall)]
    if table.floor_values is not None:
        pairs.append((table.floors, floors[0], table.floor_values))
    return [
        path
        for paths, recomputed, published in pairs
        for path, one, other in zip(paths, recomputed.T, published.T, strict=True)
        if not np.allclose(one, other, rtol=SAME, atol=SAME, equal_nan=True)
    ]


def _sampled_values(table: ScoreTable) -> Callable[[Int64], tuple[Float64, Float64]]:
    """Create the function that computes the numbers of the teams in samples of units, int64 (S, G).

    It returns the values in the columns, float64 (S, T, K), with six decimals like the published values, and the values
    at the floors, (S, T, F).
    """
    assert table.by_unit is not None
    by_unit, number = table.by_unit, len(table.columns)
    if table.samples is None:
        places = [table.columns.index(path) if path in table.columns else -1 for path in table.floors]

        def of_means(weights: Int64) -> tuple[Float64, Float64]:
            values = np.round(stability.sample_means(by_unit, weights), 6)
            unknown = np.full((*values.shape[:2], 1), np.nan)
            return values, np.concatenate([values, unknown], axis=2)[..., places]

        return of_means
    samples = np.moveaxis(table.samples, 0, 1)
    units = len(table.units)
    drawn = stability.sample_weights(units, table.samples.shape[1] - units - 1, table.seed)
    row_of = {weights.tobytes(): row for row, weights in enumerate(drawn)}

    def of_samples(weights: Int64) -> tuple[Float64, Float64]:
        chosen = samples[[row_of[draw.tobytes()] for draw in weights.astype(np.int16)]]
        return chosen[..., :number], chosen[..., number:]

    return of_samples


def sample_ranker(table: ScoreTable, rules: RankingRules) -> stability.RankSamples:
    """Create the function that ranks samples of the units of a table by the method of the rules.

    Which teams are below a floor is found in each sample; samples in which these are the same are ranked together.
    """
    values = _sampled_values(table)
    if not table.floors:
        return _rank_in_samples(table, rules, values)
    rankers: dict[bytes, stability.RankSamples] = {}

    def rank_samples(weights: Int64) -> Float64:
        below = ~(values(weights)[1] >= np.array(table.at_least)).all(axis=2)
        positions = np.empty(below.shape)
        patterns, pattern_of = np.unique(below, axis=0, return_inverse=True)
        for index, pattern in enumerate(patterns):
            key, drawn = pattern.tobytes(), np.flatnonzero(pattern_of.ravel() == index)
            if key not in rankers:
                known = np.where(pattern, 0.0, 1.0)[:, None]
                of_pattern = replace(table, floors=("",), at_least=(0.5,), floor_values=known)
                rankers[key] = _rank_in_samples(of_pattern, rules, values)
            positions[drawn] = rankers[key](weights[drawn])
        return positions

    return rank_samples


def _rank_in_samples(
    table: ScoreTable, rules: RankingRules, values: Callable[[Int64], tuple[Float64, Float64]]
) -> stability.RankSamples:
    """Create the ranker of samples in which the same teams are below a floor."""
    assert table.by_unit is not None
    below = table.below_floor()
    if not methods.needs_units(rules.method):
        rank = _position_ranker(table, rules, table.higher_is_better)
        return lambda weights: _positions_behind(values(weights)[0], rank, below)
    values_of = partial(methods.unit_values, method=rules.method, ties=rules.ties, missing=rules.missing_rank)
    unit_ranks = values_of(table)
    if rules.method == "rank_then_aggregate" and below.any() and not below.all():  # ranks in units are among themselves
        by_unit = np.empty_like(unit_ranks.by_unit)
        for part in (below, ~below):
            by_unit[part] = values_of(methods.select_teams(table, part)).by_unit
        unit_ranks = replace(unit_ranks, by_unit=by_unit)
    rank = _position_ranker(table, rules, unit_ranks.higher_is_better)
    return stability.rank_by_values(
        unit_ranks.by_unit, lambda values: _positions_behind(values, rank, below), aggregate=rules.aggregate
    )
