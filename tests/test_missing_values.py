"""A team never gains by leaving a case out of a table of scores, whatever the values of all teams."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.decoding.csv import read_table
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.leaderboard.board import rank_table, table_in_file
from evaluation.leaderboard.document import Board
from evaluation.leaderboard.rank_given import rank_given
from evaluation.leaderboard.score_csv import ScoresInFile, find_rows, table_of_rows

KINDS = (("f1", "descending"), ("hausdorff", "ascending"))  # with a worst value, and without
ONE_COLUMN = ("absolute", "rank_then_aggregate", "test_then_rank")  # where it holds for one column only
ANY_COLUMNS = (
    "sum_of_ranks",
    "mean_of_ranks",
    "median_of_ranks",
    "aggregate_then_rank",
    "better_teams",
    "ranked_pairs",
)


def table_of(values: np.ndarray, groups: np.ndarray, kinds: Any, rules: RankingRules) -> ScoresInFile:
    """A CSV file of values (T, K, C), read; NaN where a team left a case out."""
    lines = [
        f"T{team},c{case},g{groups[case]},{kinds[column][0]},{float(value)!r}"
        for (team, column, case), value in np.ndenumerate(values)
        if not np.isnan(value)
    ]
    text = "\n".join(["team,case,group,metric,value", *lines, ""]).encode()
    table = read_table(io.BytesIO(text), where="scores.csv", bytes_limit=10**6, rows_limit=10**4)
    rows, _ = find_rows(table, rules.columns, None)
    return table_of_rows(rows, rules.columns, unit="group", missing=rules.missing)


def places(values: np.ndarray, groups: np.ndarray, kinds: Any, ending: str, **rules: Any) -> np.ndarray:
    """Of the teams; 99 for those that are not ranked."""
    columns = tuple(
        RankingColumn.model_construct(path=f"{name}{ending}", direction=direction, weight=1.0)
        for name, direction in kinds
    )
    chosen = RankingRules(**{"ties": "min", "significance_level": 0.05} | rules, columns=columns)
    found = table_of(values, groups, kinds, chosen)
    position, _ = rank_table(table_in_file(found, chosen, None), chosen)
    return np.nan_to_num(position, nan=99)


@st.composite
def leavings(draw: st.DrawFn, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Values with gaps, groups of the cases, and the same without one case of a team, in one column or in all.

    Another team has a value there: a case that no team has a value in is none.
    """
    teams, cases = draw(st.integers(2, 5)), draw(st.integers(2, 7))
    seed, levels = draw(st.integers(0, 2**20)), draw(st.sampled_from([2, 5, 1000]))
    random = np.random.default_rng(seed)
    values = np.round(random.random((teams, columns, cases)) * levels) / levels
    if draw(st.booleans()):  # teams that differ by little in every case: what tests find
        values = (
            0.5 + 0.3 * random.random((1, columns, cases)) + 0.02 * random.permutation(teams)[:, None, None]
        ).clip(0, 1)
    values[random.random(values.shape) < draw(st.sampled_from([0, 0.1, 0.3]))] = np.nan
    team, case = draw(st.integers(0, teams - 1)), draw(st.integers(0, cases - 1))
    chosen = np.flatnonzero(~np.isnan(values[team, :, case]))
    assume(len(chosen) > 0)
    if draw(st.booleans()):
        chosen = chosen[:1]
    others = np.delete(values, team, axis=0)
    assume(not np.isnan(others[:, chosen, case]).all(axis=0).any())
    without = values.copy()
    without[team, chosen, case] = np.nan
    assume(not np.isnan(without).all(axis=(1, 2)).any() and not np.isnan(without).all(axis=(0, 2)).any())
    groups = np.unique(random.integers(0, draw(st.integers(1, cases)), cases), return_inverse=True)[1]
    return values, without, groups, team


def gained(before: np.ndarray, after: np.ndarray, team: int) -> bool:
    """Whether a team now stands before, or level with, another one before which it did not stand, or not so."""
    apart = [np.sign(of - of[team]) for of in (before, after)]
    return bool((apart[1] > apart[0]).any())


@pytest.mark.parametrize("missing", ["worst", "unranked"])
@pytest.mark.parametrize("method", [*ONE_COLUMN, *ANY_COLUMNS])
@given(data=st.data())
def test_no_team_gains_by_leaving_a_case_out(method: str, missing: str, data: st.DataObject) -> None:
    tests_rank = method in ("test_then_rank", "better_teams")
    kinds = data.draw(st.sampled_from([KINDS[1:], *([] if method in ONE_COLUMN else [KINDS]), KINDS[:1]]))
    assume(missing == "unranked" or kinds == KINDS[1:] or not tests_rank)  # which is refused
    values, without, groups, team = data.draw(leavings(len(kinds)))
    rules = {
        "method": method,
        "missing": missing,
        "ties": data.draw(st.sampled_from(["min", "average"])),
        "aggregate": data.draw(st.sampled_from(["mean", "median"])),
        "test": data.draw(st.sampled_from(["friedman_nemenyi", "wilcoxon_holm"])),
    }
    ending = data.draw(st.sampled_from(["", ".group_mean", ".case_mean"]))
    before, after = (places(of, groups, kinds, ending, **rules) for of in (values, without))
    assert not gained(before, after, team), (before, after)


def test_the_worst_team_does_not_get_the_value_of_the_next_one() -> None:
    """A's 0.02 is the worst value of all: 0.43, the worst of the others, must not take its place."""
    values = np.array([[[0.9, 0.02]], [[0.5, 0.43]]])
    for kinds, own in ((KINDS[:1], values), (KINDS[1:], 1 - values)):
        without = own.copy()
        without[0, 0, 1] = np.nan
        for of in (own, without):
            assert places(of, np.arange(2), kinds, "", method="mean_of_ranks").tolist() == [2, 1]


def test_tests_do_not_rank_values_that_stand_in_the_place_of_missing_ones(tmp_path: Path) -> None:
    """B is worse in all ten cases by little; with 0 in one of them the differences would vary more than they do."""
    level = np.linspace(0.5, 0.8, 10)
    values = np.stack([level + 0.02 + 0.001 * np.arange(10), level])[:, None]
    rules = {"method": "better_teams", "test": "wilcoxon_holm"}
    assert places(values, np.arange(10), KINDS[:1], "", **rules).tolist() == [1, 2]
    values[1, 0, 4] = np.nan
    assert places(values, np.arange(10), KINDS[:1], "", **rules).tolist() == [1, 1]
    lines = [f"{team},c{case},f1,{value}" for (team, _, case), value in np.ndenumerate(values) if not np.isnan(value)]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["team,case,metric,value", *lines, ""]))
    for rule in ("method=better_teams", "method=test_then_rank", "ex_aequo=true"):
        with pytest.raises(WrongUsage, match="--set missing=unranked"):
            rank(path, rule)
        assert rank(path, rule, "missing=complete_cases").teams
    assert not {"better_teams", "test_then_rank"} & {of["method"] for of in rank(path).methods}


def rank(path: Path, *rules: str) -> Board:
    return rank_given(None, results=None, scores=path, columns=["f1:descending"], settings=rules, unit="case")


def test_a_value_beyond_the_worst_of_its_metric_is_an_error() -> None:
    """Else the team would gain by leaving it out."""
    with pytest.raises(InputFault) as error:
        places(np.array([[[0.5, -0.1]], [[0.4, 0.2]]]), np.arange(2), KINDS[:1], "", method="mean_of_ranks")
    assert "'-0.1'; expected at least 0, the worst value of 'f1'" in str(error.value)
