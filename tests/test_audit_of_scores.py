"""Audits of tables of scores from elsewhere; weights of columns and methods as dimensions of any audit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.commands import main as cli
from evaluation.leaderboard.board import build_board
from evaluation.leaderboard.document import leaderboard_document
from evaluation.leaderboard.rank_given import rank_given
from evaluation.leaderboard.verdict import verdict_sentences
from evaluation.model import ScoreTable
from evaluation.study.audit import View, audit_scores_in_file, weight_views

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
    lean = {
        "A": {"pq": [0.9, 0.9, 0.9, 0.9], "hd": [5, 5, 5, 5]},
        "B": {"pq": [0.7, 0.7, 0.7, 0.9], "hd": [4, 4, 4, 4]},
    }
    found = audit(table(tmp_path, lean), "pq:descending:1.1", "hd:ascending:1")
    assert first_when(found) == {"A"}
    assert first_when(found, weights="pq x 0.5") == {"B"}
    assert first_when(found, weights="pq x 2") == {"A"}
    assert first_when(found, weights="pq without") == {"B"}
    assert first_when(found, weights="hd without") == {"A"}
    assert found.verdict == "no"


def test_one_column_has_no_weight_to_vary(tmp_path: Path) -> None:
    values = {of.name: of.values for of in audit(table(tmp_path), "pq:descending").dimensions}
    assert values["weights"] == ("as written",)


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


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "missing-option"),
        (["--submissions", "."], "missing-option"),
        (["--scores", "scores.csv", "--submissions", "."], "contradictory-rules"),
        (["--scores", "scores.csv", "--tricks"], "contradictory-rules"),
        (["--challenge", ".", "--submissions", ".", "--column", "pq:descending"], "contradictory-rules"),
        (["--scores", "scores.csv"], "missing-option"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    arguments: list[str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["audit", "--output", "out", *arguments]) == 2
    assert f"[{code}]" in capsys.readouterr().err


# --- weights, wherever scores come from -------------------------------------------------------------------------------

RULES = RankingRules(
    method="sum_of_ranks", ties="min", significance_level=0.05, samples=100,
    columns=(RankingColumn(path="m.x", direction="descending"), RankingColumn(path="m.y", direction="descending")),
)  # fmt: skip


def made(values: Any) -> ScoreTable:
    by_unit = np.array(values, float)
    return ScoreTable(
        ("A", "B", "C"), ("m.x", "m.y"), np.ones(2, bool), np.ones(2), np.round(by_unit.mean(axis=2), 6),
        tuple(f"P{unit}" for unit in range(by_unit.shape[2])), by_unit,
    )  # fmt: skip


def places(of: ScoreTable, rules: RankingRules) -> dict[str, float]:
    return {row.name: row.position for row in build_board(of, rules).teams}


@pytest.mark.parametrize("method", ["sum_of_ranks", "rank_then_aggregate", "test_then_rank", "ranked_pairs"])
def test_without_a_column_the_board_is_that_of_the_other_one(method: Any) -> None:
    of, rules = made(np.random.default_rng(2).random((3, 2, 6))), RULES.model_copy(update={"method": method})
    (view,) = [view for view in weight_views(View(of, rules, {}), None) if view.values == {"weights": "m.x without"}]
    alone = ScoreTable(of.teams, ("m.y",), np.ones(1, bool), np.ones(1), of.overall[:, 1:], of.units, of.by_unit[:, 1:])  # type: ignore[index]
    assert places(view.table, view.rules) == places(alone, rules.model_copy(update={"columns": rules.columns[1:]}))


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
    ranked = {of["method"] for of in board.methods}
    found = audit(path, *columns)
    assert methods_in(found.notes, "Methods that rank differently") == ranked
    (values,) = [of.values for of in found.dimensions if of.name == "method"]
    assert set(values) <= ranked
    by_test = {"test_then_rank", "better_teams"} & ranked
    assert by_test == (set() if patients == 1 else by_test)
    for of in board.methods:
        assert of["method"] == "sum_of_ranks" or of["method"] not in by_test or len(set(of["places"])) > 1


def test_names_of_one_ranking_count_once_and_methods_that_cannot_decide_not_at_all(tmp_path: Path) -> None:
    """Four patients: no test can find A, which leads everywhere, better; so it is first under every method."""
    lead = {"A": {"pq": [0.9, 0.8, 0.7, 0.6]}, "B": {"pq": [0.8, 0.7, 0.6, 0.5]}}
    path = table(tmp_path, lead)
    found = audit(path, "pq:descending", settings=("test=wilcoxon_holm",))
    values = {of.name: of.values for of in found.dimensions}
    assert "test_then_rank" in methods_in(found.notes, "Methods that cannot decide")
    assert "test_then_rank" not in values["method"]
    assert {team.name: team.first for team in found.places} == {"A": found.variants, "B": 0}
    assert values["method"] == ("sum_of_ranks",)
    assert found.verdict == "nothing-varied"  # one ranking under many names
    board = rank_given(
        None, results=None, scores=path, columns=["pq:descending"], settings=["test=wilcoxon_holm"], unit="group"
    )
    words = " ".join(verdict_sentences(leaderboard_document(board)))
    assert f"All {len(board.methods)} methods of ranking agree on the first rank" in words


def test_a_verdict_counts_different_rankings_and_shared_first_places_apart() -> None:
    """Ranks of A: 1, 1, 3; of B: 2, 2, 1; of C: 3, 3, 2, in one case each: sums 5, 5 and 8, medians 1, 2 and 3."""
    values = np.array([[[0.9], [0.8], [0.1]], [[0.8], [0.7], [0.9]], [[0.1], [0.1], [0.5]]])
    of = ScoreTable(("A", "B", "C"), ("m.x", "m.y", "m.z"), np.ones(3, bool), np.ones(3), values[:, :, 0])
    rules = RULES.model_copy(
        update={"columns": tuple(RankingColumn(path=path, direction="descending") for path in of.columns)}
    )
    document = leaderboard_document(build_board(of, rules))
    assert any(
        "The 3 methods of ranking give 2 different orders: only some of those who share the first rank "
        "are first in 1 (median of ranks)." in sentence
        for sentence in verdict_sentences(document)
    )
