"""Tables of scores from elsewhere: audits of them, and values that are missing."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import METHODS, ranked, rules_of, score_table
from hypothesis import assume, given
from hypothesis import strategies as st

from evaluation.board.audit import AuditView, audit_scores_in_file, weight_views
from evaluation.board.board import build_board, rank_given, table_in_file
from evaluation.board.document import Board, leaderboard_document
from evaluation.board.facts import facts_of
from evaluation.board.ranked_table import rank_table
from evaluation.board.score_csv import ScoresInFile, rows_of_columns, table_of_rows
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.commands import main as cli
from evaluation.files.decoding.csv import read_table
from evaluation.findings.errors import InputFault, WrongUsage

COLUMNS = ("pq:descending", "hd:ascending")
# A leads on P1 to P3 by a little, B is ahead by far on P4; hd is in favour of B everywhere
SCORES: dict[str, dict[str, list[float | None]]] = {
    "A": {"pq": [0.8, 0.8, 0.8, 0.1], "hd": [5, 5, 5, 5]},
    "B": {"pq": [0.7, 0.7, 0.7, 0.9], "hd": [4, 4, 4, 4]},
}


def table(folder: Path, scores: Any = SCORES, groups: str = "P1 P2 P3 P4") -> Path:
    rows = ["team,case,group,metric,value"]
    for team, of_team in scores.items():
        for metric, values in of_team.items():
            for place, (group, value) in enumerate(zip(groups.split(), values, strict=True)):
                rows.append(f"{team},c{place},{group},{metric},{'' if value is None else value}")
    path = folder / "scores.csv"
    path.write_text("\n".join([*rows, ""]))
    return path


def audit(path: Path, *columns: str, settings: tuple[str, ...] = (), unit: Any = "group") -> Any:
    return audit_scores_in_file(None, path, columns=columns, settings=settings, unit=unit)


def first_when(found: Any, **values: str) -> set[str]:
    """Who is first in the variant that differs from the published one by these values only."""
    own = {of.name: of.published for of in found.dimensions} | values
    (row,) = [row for row in range(found.variants) if found.setting(row) == own]
    places = found.position[row]
    return {name for name, place in zip(found.teams, places, strict=True) if place == np.nanmin(places)}


def test_the_published_variant_is_the_board_of_rank(tmp_path: Path) -> None:
    path = table(tmp_path)
    found = audit(path, *COLUMNS, settings=("method=mean_of_ranks",))
    board = rank_given(
        None, results=None, scores=path, columns=COLUMNS, settings=["method=mean_of_ranks"], unit="group"
    )
    assert {name: (found.position[0, place], found.combined[0, place]) for place, name in enumerate(found.teams)} == {
        row.name: (row.position, row.combined) for row in board.teams
    }
    assert found.published == 0


def test_the_weight_of_a_column_is_a_rule_that_can_decide(tmp_path: Path) -> None:
    lean = SCORES | {"A": {"pq": [0.9, 0.9, 0.9, 0.9], "hd": [5, 5, 5, 5]}}
    found = audit(table(tmp_path, lean), "pq:descending:1.1", "hd:ascending:1")
    assert (first_when(found), found.verdict) == ({"A"}, "no")
    for changed, first in (("pq x 0.5", "B"), ("pq x 2", "A"), ("pq without", "B"), ("hd without", "A")):
        assert first_when(found, weights=changed) == {first}
    values = {of.name: of.values for of in audit(table(tmp_path), "pq:descending").dimensions}
    assert values["weights"] == ("as written",)  # one column has no weight to vary


def test_whether_cases_or_patients_count_the_same_is_varied(tmp_path: Path) -> None:
    found = audit(table(tmp_path, groups="P1 P1 P1 P2"), "pq:descending")
    assert first_when(found, unit="group") == {"B"}  # 0.8 and 0.1 against 0.7 and 0.9
    assert first_when(found, unit="case") == {"B"}
    cases = {"A": {"pq": [0.9, 0.9, 0.9, 0.5]}, "B": {"pq": [0.8, 0.8, 0.8, 0.65]}}
    found = audit(table(tmp_path, cases, groups="P1 P1 P1 P2"), "pq:descending")
    assert (first_when(found), first_when(found, unit="case")) == ({"B"}, {"A"})
    found = audit(table(tmp_path), "pq:descending")
    assert any("patients and cases give the same" in note for note in found.notes)


def test_the_rule_for_missing_values_is_varied_where_some_are_missing(tmp_path: Path) -> None:
    picks = {"A": {"pq": [0.9, None, 0.9, 0.9]}, "B": {"pq": [0.7, 0.2, 0.7, 0.7]}, "C": {"pq": [0.6, 0.6, 0.6, 0.6]}}
    found = audit(table(tmp_path, picks), "pq:descending", settings=("missing=unranked",))
    assert first_when(found) == {"C"}
    assert first_when(found, missing="complete_cases") == {"A"}
    assert first_when(found, missing="worst") == {"A"}
    whole = audit(table(tmp_path), "pq:descending")
    assert next(of.values for of in whole.dimensions if of.name == "missing") == ("worst",)
    assert any("no team lacks a value" in note for note in whole.notes)


def test_what_needs_nuclei_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = table(tmp_path), tmp_path / "out"
    given = ["--scores", str(path), "--column", COLUMNS[0], "--column", COLUMNS[1], "--output", str(output)]
    assert cli.run(["audit", *given]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Matching rules, their thresholds, overlap and ignored regions are not varied" in printed
    document = json.loads((output / "audit.json").read_text())
    assert [of["name"] for of in document["dimensions"]] == ["missing", "unit", "weights", "method"]


@pytest.mark.parametrize("arguments, code", [
    ([], "missing-option"),
    (["--submissions", "."], "missing-option"),
    (["--scores", "scores.csv", "--submissions", "."], "contradictory-rules"),
    (["--challenge", ".", "--submissions", ".", "--column", "pq:descending"], "contradictory-rules"),
    (["--scores", "scores.csv"], "missing-option"),
])  # fmt: skip
def test_options_that_do_not_go_together_are_told(arguments, code, tmp_path, monkeypatch, capsys):
    table(tmp_path)
    (tmp_path / "challenge.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert cli.run(["audit", "--output", "out", *arguments]) == 2
    assert f"[{code}]" in capsys.readouterr().err


# --- weights, wherever scores come from -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sum_of_ranks", "rank_then_aggregate", "test_then_rank"])
def test_without_a_column_the_board_is_that_of_the_other_one(method: Any) -> None:
    values = np.random.default_rng(2).random((3, 2, 6))
    of = score_table(values, columns=("m.x", "m.y"))
    views = weight_views(AuditView(of, rules_of(of, method=method), {}), None)
    (view,) = [view for view in views if view.values == {"weights": "m.x without"}]
    alone = score_table(values[:, 1:], columns=("m.y",))
    first, second = (
        {row.name: row.position for row in build_board(table, rules).teams}
        for table, rules in ((view.table, view.rules), (alone, rules_of(alone, method=method)))
    )
    assert first == second


# --- one list of methods ----------------------------------------------------------------------------------------------


def methods_in(notes: tuple[str, ...], start: str) -> set[str]:
    (note,) = [note for note in notes if note.startswith(start)]
    return set(re.findall(r"[a-z]+(?:_[a-z]+)+|absolute", note))


@pytest.mark.parametrize("patients", [1, 3, 4, 8])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[:1]])
def test_audit_and_rank_name_the_same_methods(tmp_path: Path, patients: int, columns: tuple[str, ...]) -> None:
    drawn = np.random.default_rng(patients).random((3, 2, patients)) / 4 + np.array([[[0.6]], [[0.3]], [[0.0]]])
    scores = {name: {"pq": of[0].tolist(), "hd": of[1][::-1].tolist()} for name, of in zip("ABC", drawn, strict=True)}
    path = table(tmp_path, scores, groups=" ".join(f"P{n}" for n in range(patients)))
    board = rank_given(None, results=None, scores=path, columns=columns, settings=[], unit="group")
    ranked = {of.method for of in board.methods}
    found = audit(path, *columns)
    assert methods_in(found.notes, "Methods that rank differently") == ranked
    (values,) = [of.values for of in found.dimensions if of.name == "method"]
    assert set(values) <= ranked
    for of in board.methods:
        assert of.method != "test_then_rank" or len(set(of.places)) > 1


def test_names_of_one_ranking_count_once_and_methods_that_cannot_decide_not_at_all(tmp_path: Path) -> None:
    """Four patients: no test can find A, which leads everywhere, better; so it is first under every method."""
    lead = {"A": {"pq": [0.9, 0.8, 0.7, 0.6]}, "B": {"pq": [0.8, 0.7, 0.6, 0.5]}}
    path = table(tmp_path, lead)
    found = audit(path, "pq:descending", settings=("test=wilcoxon_holm",))
    values = {of.name: of.values for of in found.dimensions}
    assert "test_then_rank" in methods_in(found.notes, "Methods not tried")
    assert "test_then_rank" not in values["method"]
    assert {team.name: team.first for team in found.places} == {"A": found.variants, "B": 0}
    assert values["method"] == ("sum_of_ranks",)
    assert found.verdict == "nothing-varied"  # one ranking under many names
    board = rank_given(
        None, results=None, scores=path, columns=["pq:descending"], settings=["test=wilcoxon_holm"], unit="group"
    )
    others = len(board.methods) - 1
    assert f"in {others} of {others}" in [fact.value for fact in facts_of(leaderboard_document(board))]


def test_a_fact_counts_different_rankings_and_shared_first_places_apart() -> None:
    """Ranks of A: 1, 1, 3; of B: 2, 2, 1; of C: 3, 3, 2, in one case each: sums 5, 5 and 8, medians 1, 2 and 3."""
    values = [[[0.9], [0.8], [0.1]], [[0.8], [0.7], [0.9]], [[0.1], [0.1], [0.5]]]
    document = leaderboard_document(ranked(score_table(values, units=(), by_unit=None)))
    assert "in 1 of 2; 'team 0' in 1 (median of ranks)" in [fact.value for fact in facts_of(document)]


# --- a team never gains by leaving a case out of a table of scores, whatever the values of all teams ------------------


KINDS = (("f1", "descending"), ("hausdorff", "ascending"))  # with a worst value, and without
ONE_COLUMN = ("absolute", "rank_then_aggregate", "test_then_rank")  # where it holds for one column only
ANY_COLUMNS = tuple(method for method in METHODS if method not in ONE_COLUMN)


def table_of(values: np.ndarray, groups: np.ndarray, kinds: Any, rules: RankingRules) -> ScoresInFile:
    """A CSV file of values (T, K, C), read; NaN where a team left a case out."""
    lines = [
        f"T{team},c{case},g{groups[case]},{kinds[column][0]},{float(value)!r}"
        for (team, column, case), value in np.ndenumerate(values)
        if not np.isnan(value)
    ]
    text = "\n".join(["team,case,group,metric,value", *lines, ""]).encode()
    table = read_table(io.BytesIO(text), where="scores.csv", bytes_limit=10**6, rows_limit=10**4)
    rows, _ = rows_of_columns(table, rules.columns, None)
    return table_of_rows(rows, rules.columns, unit="group", missing=rules.missing)


def places_with_gaps(values: np.ndarray, groups: np.ndarray, kinds: Any, ending: str, **rules: Any) -> np.ndarray:
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
    tests_rank = method == "test_then_rank"
    kinds = data.draw(st.sampled_from([KINDS[1:], *([] if method in ONE_COLUMN else [KINDS]), KINDS[:1]]))
    assume(missing == "unranked" or kinds == KINDS[1:] or not tests_rank)  # which is refused
    values, without, groups, team = data.draw(leavings(len(kinds)))
    rules = {
        "method": method,
        "missing": missing,
        "ties": data.draw(st.sampled_from(["min", "average"])),
        "aggregate": data.draw(st.sampled_from(["mean", "median"])),
        "test": data.draw(st.sampled_from(["sign_flips", "friedman_nemenyi", "wilcoxon_holm"])),
    }
    ending = data.draw(st.sampled_from(["", ".group_mean", ".case_mean"]))
    before, after = (places_with_gaps(of, groups, kinds, ending, **rules) for of in (values, without))
    assert not gained(before, after, team), (before, after)


def test_the_worst_team_does_not_get_the_value_of_the_next_one() -> None:
    """A's 0.02 is the worst value of all: 0.43, the worst of the others, must not take its place."""
    values = np.array([[[0.9, 0.02]], [[0.5, 0.43]]])
    for kinds, own in ((KINDS[:1], values), (KINDS[1:], 1 - values)):
        without = own.copy()
        without[0, 0, 1] = np.nan
        for of in (own, without):
            assert places_with_gaps(of, np.arange(2), kinds, "", method="mean_of_ranks").tolist() == [2, 1]


def test_tests_do_not_rank_values_that_stand_in_the_place_of_missing_ones(tmp_path: Path) -> None:
    """B would leave out the cases in which it is worse."""
    level = np.linspace(0.5, 0.8, 10)
    values = np.stack([level + 0.02 + 0.001 * np.arange(10), level])[:, None]
    values[1, 0, 4] = np.nan
    lines = [f"{team},c{case},f1,{value}" for (team, _, case), value in np.ndenumerate(values) if not np.isnan(value)]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["team,case,metric,value", *lines, ""]))
    for rule in ("method=test_then_rank", "ex_aequo=true"):
        with pytest.raises(WrongUsage, match="--set missing=unranked"):
            rank(path, rule)
        assert rank(path, rule, "missing=complete_cases").teams
    assert "test_then_rank" not in {of.method for of in rank(path).methods}


def rank(path: Path, *rules: str) -> Board:
    return rank_given(None, results=None, scores=path, columns=["f1:descending"], settings=rules, unit="case")


def test_a_value_beyond_the_worst_of_its_metric_is_an_error() -> None:
    """Else the team would gain by leaving it out."""
    with pytest.raises(InputFault) as error:
        places_with_gaps(np.array([[[0.5, -0.1]], [[0.4, 0.2]]]), np.arange(2), KINDS[:1], "", method="mean_of_ranks")
    assert "'-0.1'; expected at least 0, the worst value of 'f1'" in str(error.value)


def test_teams_that_tie_to_six_decimals_are_equal_in_tests_too(tmp_path: Path) -> None:
    """Otherwise a constant difference of 1e-9 is significant although the teams share their rank."""
    lines = ["team,case,metric,value", *(f"{t},c{case},m,{0.5 + (t == 'b') * 1e-9}" for t in "ab" for case in range(8))]
    path = tmp_path / "close.csv"
    path.write_text("\n".join(lines))
    ranked = rank_given(None, results=None, scores=path, columns=["m:descending"], settings=[], unit="case")
    board = leaderboard_document(ranked)
    (pair,) = board["columns"][0]["differences"]
    assert [team["position"] for team in board["teams"]] == [1, 1]
    assert (pair["mean"], pair["p_value"], pair["verdict"]) == (0, 1, "equivalent")


def test_a_board_of_one_team_names_no_test(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("\n".join(["team,case,metric,value", *(f"a,c{case},m,0.{case}" for case in range(8))]))
    ranked = rank_given(None, results=None, scores=path, columns=["m:descending"], settings=[], unit="case")
    assert leaderboard_document(ranked)["ranking"]["in_words"].endswith("is last there.")


def test_a_team_that_is_not_ranked_changes_no_digit_of_the_others(tmp_path: Path) -> None:
    """Sums depend on how numbers lie in memory: of many teams some difference would have another last digit."""
    random, boards = np.random.default_rng(1), []
    lines = [f"t{team},c{case},m,{random.random():.4f}" for team in range(60) for case in range(8)]
    for number, (rows, settings) in enumerate(((lines, ["unranked=['t1']"]), (lines[:8] + lines[16:], []))):
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(["team,case,metric,value", *rows, ""]))
        ranked = rank_given(None, results=None, scores=path, columns=["m:descending"], settings=settings, unit="case")
        boards.append(leaderboard_document(ranked))
    assert boards[0]["columns"] == boards[1]["columns"]
    assert boards[0]["teams"] == boards[1]["teams"]
