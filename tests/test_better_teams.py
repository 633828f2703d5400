"""``better_teams``: the place is one more than the number of teams that are better. Intervals are scipy's."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats

from evaluation.challenge.rules import RankingRules
from evaluation.leaderboard.board import apply_method, build_board, sample_ranker
from evaluation.leaderboard.document import Board
from evaluation.model import Float64, ScoreTable
from evaluation.ranking.methods import keep_complete_units

NAN = np.nan
STEPS = np.linspace(-0.02, 0.02, 8)  # of the patients, the same for all teams but for noise
NOISE = np.array([1, -1, 2, -2, 1, -1, 0, 0]) * 1e-3


def table_of(by_unit: Any, *, higher: bool = True) -> ScoreTable:
    """by_unit[column][team][unit]"""
    values = np.moveaxis(np.array(by_unit, float), 0, 1)
    teams, columns, units = values.shape
    known = ~np.isnan(values)
    overall = np.where(known.any(axis=2), np.nansum(values, axis=2) / np.maximum(known.sum(axis=2), 1), NAN)
    return ScoreTable(
        teams=tuple(f"T{team}" for team in range(teams)),
        columns=tuple(f"a.m{column}.group_mean" for column in range(columns)),
        higher_is_better=np.full(columns, higher),
        weights=np.ones(columns),
        overall=overall,
        units=tuple(f"P{unit}" for unit in range(units)),
        by_unit=values,
    )


def rules_of(table: ScoreTable, **more: Any) -> RankingRules:
    direction = "descending" if table.higher_is_better[0] else "ascending"
    columns = tuple({"path": path, "direction": direction} for path in table.columns)
    given = {"method": "better_teams", "ties": "min", "significance_level": 0.05, "columns": columns, "samples": 100}
    return RankingRules.model_validate({**given, **more})


def board_of(table: ScoreTable, **more: Any) -> Board:
    return build_board(table, rules_of(table, **more))


def literal_places(values: Float64, *, higher: bool, level: float, margin: float) -> list[float]:
    """By scipy's paired intervals, one pair after the other."""
    teams = range(len(values))
    pairs = max(len(values) * (len(values) - 1) // 2, 1)
    places = [1.0] * len(values)
    for one, other in product(teams, teams):
        both = ~np.isnan(values[one]) & ~np.isnan(values[other])
        if one == other or both.sum() < 5:
            continue
        sides = values[other, both], values[one, both]
        found = scipy.stats.ttest_rel(*(sides if higher else sides[::-1])).confidence_interval(1 - level / pairs)
        places[one] += bool(found.low > 0 and found.high > margin)
    return places


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("margin", [0.0, 0.02])
def test_places_are_those_of_scipys_intervals(higher: bool, margin: float) -> None:
    random = np.random.default_rng(7)
    seen = set()
    for _ in range(40):
        teams, units = random.integers(2, 7), random.integers(5, 15)
        values = 0.5 + random.normal(0, 0.02, (teams, units)) + random.normal(0, 0.02, (teams, 1))
        values[random.random(values.shape) < 0.05] = NAN
        if np.isnan(values).all(axis=1).any():
            continue
        table = table_of([values], higher=higher)
        expected = literal_places(values, higher=higher, level=0.05, margin=margin)
        found = apply_method(table, rules_of(table, margin=margin))
        assert found.position.tolist() == expected
        seen.update(expected)
    assert len(seen) >= 4


def test_teams_that_nobody_is_better_than_share_the_first_place_and_places_are_left_out_behind_them() -> None:
    """A and B are alike, C is behind both, D behind all: 1, 1, 3, 4 also where ties are dense."""
    values = [0.9 + STEPS + NOISE, 0.9 + STEPS - NOISE, 0.8 + STEPS, 0.7 + STEPS + NOISE]
    for ties in ("min", "dense", "average"):
        board = board_of(table_of([values]), ties=ties)
        assert [(team.name, team.position) for team in board.teams] == [("T0", 1), ("T1", 1), ("T2", 3), ("T3", 4)]


def test_what_lies_inside_the_margin_is_not_better() -> None:
    table = table_of([[0.9 + STEPS + NOISE, 0.89 + STEPS, 0.8 + STEPS]])
    assert apply_method(table, rules_of(table)).position.tolist() == [1, 2, 3]
    assert apply_method(table, rules_of(table, margin=0.05)).position.tolist() == [1, 1, 3]
    own = ({"path": table.columns[0], "direction": "descending", "margin": 0.05},)
    assert apply_method(table, rules_of(table, columns=own)).position.tolist() == [1, 1, 3]


def test_the_mean_of_the_places_in_several_columns_is_ranked() -> None:
    first, second = [0.9 + STEPS, 0.8 + STEPS + NOISE, 0.7 + STEPS], [0.5 + STEPS, 0.5 + STEPS + NOISE, 0.4 + STEPS]
    found = apply_method(table := table_of([first, second]), rules_of(table))
    assert found.rank_by_column.tolist() == [[1, 1], [2, 1], [3, 3]]
    assert (found.combined.tolist(), found.position.tolist()) == ([1, 1.5, 3], [1, 2, 3])


def test_fewer_than_five_patients_leave_all_first() -> None:
    assert [team.position for team in board_of(table_of([[[0.9] * 4, [0.1] * 4]])).teams] == [1, 1]


def test_a_team_without_a_value_is_last_or_not_ranked() -> None:
    table = table_of([[0.9 + STEPS, 0.8 + STEPS + NOISE, [NAN] * 8]])
    assert apply_method(table, rules_of(table)).position.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(apply_method(table, rules_of(table, missing="unranked")).position, [1, 2, NAN])


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("floors", [False, True])
def test_a_sample_is_ranked_as_the_table_that_is_drawn(floors: bool, gaps: bool) -> None:
    random = np.random.default_rng(3)
    values = 0.5 + random.normal(0, 0.02, (2, 6, 9)) + random.normal(0, 0.02, (2, 6, 1))
    if gaps:
        values[random.random(values.shape) < 0.05] = NAN
    values[:, 1] = values[:, 0]  # equal teams
    values[:, 2] = values[:, 0] + 0.01  # always ahead by the same
    table = table_of(values)
    if floors:
        below = np.nanmean(table.by_unit[:, :1], axis=2)
        table = ScoreTable(
            **{key: getattr(table, key) for key in ("teams", "columns", "higher_is_better", "weights", "overall")},
            units=table.units,
            by_unit=table.by_unit,
            floors=(table.columns[0],),
            at_least=(float(np.median(below)),),
            floor_values=below,
        )
    rules = rules_of(table, margin=0.002)
    weights = random.multinomial(9, [1 / 9] * 9, 30)
    found = sample_ranker(table, rules)(weights)
    for positions, times in zip(found, weights, strict=True):
        drawn = np.repeat(table.by_unit, times, axis=2)
        floor = {"floor_values": np.round(np.nanmean(drawn[:, :1], axis=2), 6)} if floors else {}
        again = replace(table, by_unit=drawn, units=("",) * 9, **floor)
        np.testing.assert_array_equal(positions, apply_method(again, rules).position)
    assert len(np.unique(found)) > 3


def test_complete_units_and_words() -> None:
    values = np.array([0.9 + STEPS, 0.8 + STEPS + NOISE, 0.7 + STEPS])
    values[0, 0] = NAN
    table = keep_complete_units(table_of([values]))
    assert apply_method(table, rules_of(table, missing="complete_cases")).position.tolist() == [1, 2, 3]
    assert "one more than the number of teams that are better" in board_of(table_of([values])).words
