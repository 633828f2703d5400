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
from evaluation.leaderboard.team_scores import TeamScores
from evaluation.leaderboard.teams import Unranked

KEPT = Path(__file__).parent / "golden" / "kept_0.1"
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
