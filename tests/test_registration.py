"""A registered design, and boards that follow it or not."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evaluation.commands.main import run
from evaluation.findings.errors import ChallengeBroken
from evaluation.leaderboard.board import rank_folder
from evaluation.leaderboard.teams import ResultFolder

KEPT = Path(__file__).parent / "golden" / "kept_0.1"


@pytest.fixture
def challenge(tmp_path: Path) -> Path:
    shutil.copytree(KEPT / "challenge", tmp_path / "challenge")
    return tmp_path / "challenge"


def register(challenge: Path) -> int:
    late = "They are scored and not ranked."
    return run(["register", "--challenge", str(challenge), "--date", "2026-11-22", "--late", late])


def board(challenge: Path, **settings: Any) -> Any:
    return rank_folder(challenge, ResultFolder(KEPT / "last"), settings)


def test_a_board_follows_what_was_registered(challenge: Path, capfd) -> None:
    assert board(challenge).registration is None
    assert register(challenge) == 0
    sha256 = hashlib.sha256((challenge / "registration.json").read_bytes()).hexdigest()
    assert sha256 in capfd.readouterr().out
    found = board(challenge)
    assert found.registration == {"date": "2026-11-22", "sha256": sha256, "follows": True, "differs": []}
    assert found.words.endswith("this board follows it.")


def test_a_board_says_what_differs_from_what_was_registered(challenge: Path) -> None:
    register(challenge)
    assert board(challenge, ties="average").registration["differs"] == ['ranking.ties: "min" registered, "average" now']
    with (challenge / "challenge.toml").open("a") as stream:
        stream.write("[audit]\nfraction = 0.25\n")
    found = board(challenge)
    assert found.registration["differs"] == ["audit.fraction: 0.5 registered, 0.25 now"]
    assert "this board does not: audit.fraction" in found.words


def test_other_cases_than_were_registered_are_told(challenge: Path) -> None:
    cases = (challenge / "cases.csv").read_text()
    (challenge / "cases.csv").write_text(cases.replace("330", "331"))
    register(challenge)
    (challenge / "cases.csv").write_text(cases)
    assert board(challenge).registration["differs"] == ["cases.csv: other cases"]


def test_the_document_has_the_headings_of_bias_and_what_the_rules_say(challenge: Path) -> None:
    register(challenge)
    text = (challenge / "registration.md").read_text()
    for heading in ("Challenge organisation", "Mission of the challenge", "Challenge data sets", "Assessment methods"):
        assert f"## {heading}\n" in text
    for words in (
        "Epithelial, Lymphocyte",
        "2 cases of 2 groups",
        "Late submissions: They are scored and not ranked.",
        "A missing case: It is scored as if nothing had been predicted in it.",
        "`detection.f1.group_mean`, descending, weight 1, margin 0",
        "Test: friedman nemenyi, level 0.05",
    ):
        assert words in text, words
    assert "### Ethics approval\n\n*To be written by the organisers.*" in text


def test_a_registration_is_never_replaced(challenge: Path, capfd) -> None:
    assert (register(challenge), register(challenge)) == (0, 2)
    assert "[file-exists] 'registration.json'" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"date": "x"}', '{"date": "x", "challenge": {"rules": 1}}'])
def test_a_broken_registration_is_a_fault_of_the_challenge(challenge: Path, text: str) -> None:
    (challenge / "registration.json").write_text(text)
    with pytest.raises(ChallengeBroken):
        board(challenge)


def test_the_board_is_written_with_it(challenge: Path, tmp_path: Path) -> None:
    register(challenge)
    sides = ["--challenge", str(challenge), "--results", str(KEPT / "last"), "--output", str(tmp_path / "out")]
    assert run(["rank", *sides, "--set", "ties=dense"]) == 0
    document = json.loads((tmp_path / "out/leaderboard.json").read_text())
    assert document["registration"]["follows"] is False
    assert (
        document["challenge"]["ranking_hash"]
        != json.loads((challenge / "registration.json").read_text())["challenge"]["ranking_hash"]
    )
