"""Attempts of a team: which one counts, how many, and what choosing the best of them is worth."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.commands.main import run
from evaluation.leaderboard.attempts import choose_attempts, inflation_of, is_clear_step
from evaluation.leaderboard.team_scores import TeamScores, Unranked

KEPT = Path(__file__).parent / "golden" / "kept_0.1"
GOLDEN_REFERENCE = Path(__file__).parent / "golden" / "frozen" / "challenge" / "reference"
COLUMN = RankingColumn.model_construct(path="detection.f1.group_mean", direction="descending", weight=1.0)
RULES = RankingRules.model_construct(columns=(COLUMN,), seed=1)


def made(name: str, values: Sequence[float]) -> TeamScores:
    by_unit = np.array([values], float)
    return TeamScores(name, by_unit.mean(axis=1), by_unit)


def places(scores: Sequence[TeamScores]) -> dict[str, float]:
    order = sorted(scores, key=lambda of: -of.overall[0])
    return {of.name: place for place, of in enumerate(order, start=1)}


ATTEMPTS = (
    made("a@1", [0.5, 0.5, 0.5, 0.5]),
    made("a@2", [0.9, 0.8, 0.9, 0.8]),
    made("a@3", [0.91, 0.85, 0.8, 0.79]),
    made("a@chosen", [0.4, 0.4, 0.4, 0.4]),
    made("b", [0.6, 0.6, 0.6, 0.6]),
)


@pytest.mark.parametrize(
    ("counting", "counts"), [("last", "a@chosen"), ("best", "a@2"), ("chosen", "a@chosen"), ("ladder", "a@2")]
)
def test_one_attempt_of_a_team_counts(counting: str, counts: str) -> None:
    rejected = [Unranked("a@0", "no-files", "empty"), Unranked("c@1", "no-files", "empty")]
    found = choose_attempts(ATTEMPTS, rejected, RULES, counting, places)
    assert [of.name for of in found.scores] == [counts, "b"]
    assert [of.name for of in found.unranked] == ["c@1"]
    assert [(of["team"], of["made"], of["counts"]) for of in found.entry["teams"]] == [
        ("a", 5, counts), ("b", 1, "b"), ("c", 1, None)
    ]  # fmt: skip


def test_a_team_that_chose_none_is_not_ranked() -> None:
    found = choose_attempts(ATTEMPTS[:3], (), RULES, "chosen", places)
    assert found.scores == () and found.unranked[0].name == "a"


def test_in_a_last_phase_the_attempt_counts_that_counted_before() -> None:
    rejected = [Unranked("c@1", "no-files", "empty"), Unranked("c@2", "no-files", "later")]
    before = [("a", 20, "a@2"), ("b", 2, "b@1"), ("c", 3, "c@1"), ("e", 1, None), ("f", 1, "f")]
    table = {"counting": "best", "teams": [{"team": t, "made": n, "counts": c} for t, n, c in before]}
    found = choose_attempts((*ATTEMPTS, made("d", [0.9] * 4)), rejected, RULES, table, places)
    assert [of.name for of in found.scores] == ["a@2"]
    assert [(of.name, of.reason) for of in found.unranked] == [
        ("b", "'b@1', which counted in the phase before, is not here"),
        ("c@1", "empty"),
        ("d", "no attempt of it counted in the phase before"),
        ("e", "no attempt of it counted in the phase before"),
        ("f", "'f', which counted in the phase before, is not here"),
    ]
    assert [(of["team"], of["made"], of["scored"]) for of in found.entry["teams"]][:2] == [("a", 20, 4), ("b", 2, 1)]
    again = choose_attempts((*ATTEMPTS, made("d", [0.9] * 4)), rejected, RULES, found.entry, places)
    assert [of.name for of in again.scores] == ["a@2"]


def test_a_step_of_the_ladder_is_more_than_the_standard_error_of_the_difference() -> None:
    standing = made("a@1", [0.0, 0.0, 0.0, 0.0])
    # mean 0.25; s = 0.5, s / sqrt(4) = 0.25: not more
    assert not is_clear_step(standing, made("a@2", [1.0, 0.0, 0.0, 0.0]), higher=True)
    assert is_clear_step(standing, made("a@2", [1.0, 0.1, 0.0, 0.0]), higher=True)
    assert not is_clear_step(standing, made("a@2", [1.0, 0.1, 0.0, 0.0]), higher=False)
    assert is_clear_step(standing, made("a@2", [-1.0, -0.1, 0.0, 0.0]), higher=False)


@pytest.mark.parametrize(("attempts", "expected"), [(1, 0.0), (2, 0.564), (20, 1.867)])
def test_the_inflation_of_the_best_of_k_equal_attempts_is_the_expected_maximum(attempts: int, expected: float) -> None:
    """The expected maximum of k standard normals, in standard errors of the mean over 64 groups."""
    draw = np.random.default_rng(5)
    found = []
    for _ in range(30):
        teams = [made(f"a@{k:02}", draw.normal(size=64)) for k in range(attempts)]
        found.append(inflation_of(teams, RULES)[0] * 8)
    assert np.mean(found) == pytest.approx(expected, abs=0.12)


def test_the_inflation_is_positive_where_lower_is_better() -> None:
    draw = np.random.default_rng(5)
    teams = [made(f"a@{k:02}", draw.normal(size=64)) for k in range(20)]
    lower = COLUMN.model_copy(update={"direction": "ascending"})
    assert inflation_of(teams, RULES.model_copy(update={"columns": (lower,)}))[0] > 0.1


def test_the_commands_rank_attempts(tmp_path: Path, capfd) -> None:
    for name, team in (("a@1", "finder"), ("a@2", "namer"), ("b", "namer")):
        shutil.copytree(KEPT / "first" / team, tmp_path / "results" / name)
    sides = ["--challenge", str(KEPT / "challenge"), "--results", str(tmp_path / "results")]
    assert run(["rank", *sides, "--output", str(tmp_path / "out"), "--attempts", "last"]) == 0
    document = json.loads((tmp_path / "out/leaderboard.json").read_text())
    assert [team["name"] for team in document["teams"]] == ["a@2", "b"]
    assert [of["made"] for of in document["attempts"]["teams"]] == [2, 1]
    assert "Attempts: a 2, b 1." in capfd.readouterr().out


def test_a_last_phase_is_ranked_by_the_board_of_the_phase_before_and_computed_again(tmp_path: Path, capfd) -> None:
    for name, team in (("a@1", "finder"), ("a@2", "namer"), ("b", "namer")):
        shutil.copytree(KEPT / "first" / team, tmp_path / "results" / name)
    sides = ["--challenge", str(KEPT / "challenge"), "--results", str(tmp_path / "results")]
    assert run(["rank", *sides, "--output", str(tmp_path / "first"), "--attempts", "last"]) == 0
    path = tmp_path / "first/leaderboard.json"
    board = json.loads(path.read_text())
    last = ["rank", *sides, "--output", str(tmp_path), "--phase-before", str(path.parent)]
    assert run(last) == 2 and "the same cases" in capfd.readouterr().err
    other = {"challenge": board["challenge"] | {"hash": "0" * 64}}
    path.write_text(json.dumps(board | other))
    assert run(last) == 2 and "the same cases" in capfd.readouterr().err
    other["unit_names"] = ["P8", "P9"]
    path.write_text(json.dumps(board | other | {"attempts": None}))
    assert run(last) == 2 and "a board without attempts" in capfd.readouterr().err
    path.write_text(json.dumps(board | other | {"attempts": {"counting": "last", "teams": [{"team": "a"}]}}))
    assert run(last) == 2 and "'attempts.teams.0.made' is wrong: field required" in capfd.readouterr().err
    board["attempts"]["teams"][0]["counts"] = "a@1"
    path.write_text(json.dumps(board | other))
    assert run([*last, "--attempts", "best"]) == 2 and "only one of them" in capfd.readouterr().err
    assert run(last) == 0
    assert "Attempts: a 2, b 1. It was not chosen by these cases" in capfd.readouterr().out
    found = json.loads((tmp_path / "leaderboard.json").read_text())
    assert {team["name"] for team in found["teams"]} == {"a@1", "b"} and found["attempts"]["counting"] == "phase_before"
    archive = ["archive", *sides[:2], "--results", str(tmp_path), "--output", str(tmp_path / "a.zip"), "--private"]
    shutil.copytree(KEPT / "challenge", tmp_path / "challenge")
    shutil.copytree(GOLDEN_REFERENCE, tmp_path / "challenge/reference")
    archive[2] = str(tmp_path / "challenge")
    shutil.rmtree(tmp_path / "first")
    assert run([*archive, "--creator", "Doe, Jane", "--date", "2026-01-01"]) == 0
    run(["verify", str(tmp_path / "a.zip")])
    assert "same to the byte: the ranking in leaderboard.json" in capfd.readouterr().out
