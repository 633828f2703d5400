"""A board beside an older one: who moves, and whether the rules are the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evaluation.commands.main import run

FROZEN = Path(__file__).parent / "golden" / "frozen"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cases of two patients, three teams, and their board."""
    folder = tmp_path_factory.mktemp("published")
    shutil.copytree(FROZEN / "challenge", folder / "challenge")
    lines = (folder / "challenge/cases.csv").read_text().splitlines()
    (folder / "challenge/cases.csv").write_text("\n".join(lines[:3]) + "\n")
    kept = [line.split(",")[:2] for line in lines[1:3]]
    for team in ("outliner", "finder", "namer"):
        for case, group in kept:
            shutil.copytree(FROZEN / "submissions" / team / group / case, folder / "submissions" / team / group / case)
    assert run(["leaderboard", *sides(folder), "--output", str(folder / "out")]) == 0
    return folder


def sides(folder: Path) -> list[str]:
    return ["--challenge", str(folder / "challenge"), "--submissions", str(folder / "submissions")]


def board_in(folder: Path) -> Any:
    return json.loads((folder / "leaderboard.json").read_text())


def places_in(folder: Path) -> dict[str, float]:
    return {team["name"]: team["position"] for team in board_in(folder)["teams"]}


def scored_again(folder: Path, *more: str) -> Any:
    before = ["--before", str(folder / "out"), "--output", str(folder / "again")]
    assert run(["leaderboard", *sides(folder), *before, *more]) == 0
    return board_in(folder / "again")


def test_nobody_moves_where_nothing_was_changed(published: Path, tmp_path: Path, capfd) -> None:
    shutil.copytree(published, tmp_path / "a")
    found, old = scored_again(tmp_path / "a"), board_in(published / "out")
    assert found["before"] == {"challenge": old["challenge"], "teams": []}
    told = " ".join(capfd.readouterr().out.split())
    assert "No team has another rank." in told and f"Rules and cases are the same: {old['challenge']['hash']}." in told
    assert "before" not in old


def test_a_changed_rule_is_told_by_both_hashes_with_who_moves(published: Path, tmp_path: Path, capfd) -> None:
    shutil.copytree(published, tmp_path / "a")
    columns = '[ranking]\ncolumns = [{path = "detection.f1.group_mean", direction = "descending"}]\n'
    with (tmp_path / "a/challenge/challenge.toml").open("a") as stream:
        stream.write(f'[reference]\noverlap = "last"\n{columns}')
    shutil.rmtree(tmp_path / "a/submissions/namer")
    shutil.copytree(tmp_path / "a/submissions/finder", tmp_path / "a/submissions/late")
    found = scored_again(tmp_path / "a", "--report")
    old, now = places_in(tmp_path / "a/out"), places_in(tmp_path / "a/again")
    moved = {team["name"]: (team["before"], team["now"]) for team in found["before"]["teams"]}
    assert moved == {name: (old.get(name), now.get(name)) for name in old | now if old.get(name) != now.get(name)}
    assert moved["late"][0] is None and moved["namer"] == (old["namer"], None) and len(moved) > 2
    hashes = [board_in(tmp_path / "a" / name)["challenge"] for name in ("out", "again")]
    told = " ".join(capfd.readouterr().out.split())
    for key, what in (("hash", "Rules and cases"), ("ranking_hash", "Rules of the ranking")):
        assert hashes[0][key] != hashes[1][key]
        assert f"{what}: {hashes[0][key]} before, {hashes[1][key]} now." in told
    page = (tmp_path / "a/again/leaderboard.html").read_text()
    assert "Changed ranks" in page and all(f"{len(moved)} teams have another rank" in text for text in (page, told))


def test_stored_results_are_compared_with_a_board_and_scores_with_a_file(
    published: Path, tmp_path: Path, capfd
) -> None:
    challenge, results = str(published / "challenge"), str(published / "out/results")
    rank = ["rank", "--challenge", challenge, "--results", results, "--set", "method=median_of_ranks"]
    assert run([*rank, "--before", str(published / "out"), "--output", str(tmp_path / "median")]) == 0
    old, now = places_in(published / "out"), places_in(tmp_path / "median")
    moved = {team["name"] for team in board_in(tmp_path / "median")["before"]["teams"]}
    assert moved == {name for name in old if old[name] != now[name]}
    scores = tmp_path / "scores.csv"
    scores.write_text("team,case,group,metric,value\nnamer,a,a,f1,0.5\nfinder,a,a,f1,0.7\n")
    given = ["--scores", str(scores), "--column", "f1:descending", "--output", str(tmp_path / "csv")]
    capfd.readouterr()
    assert run(["rank", *given, "--before", str(published / "out/leaderboard.json")]) == 0
    assert {team["name"] for team in board_in(tmp_path / "csv")["before"]["teams"]} >= {"outliner"}
    assert "before, not known now." in " ".join(capfd.readouterr().out.split())


def test_without_a_board_before_nothing_is_scored(published: Path, tmp_path: Path, capfd) -> None:
    places = ["--before", str(tmp_path), "--output", str(tmp_path / "again")]
    assert run(["leaderboard", *sides(published), *places]) == 2
    assert "'leaderboard.json'" in capfd.readouterr().err and not (tmp_path / "again").exists()


def test_an_archive_of_a_board_beside_an_older_one_is_computed_again(published: Path, tmp_path: Path, capfd) -> None:
    shutil.copytree(published, tmp_path / "a")
    scored_again(tmp_path / "a", "--store", str(tmp_path / "kept"))
    packed = ["--challenge", str(tmp_path / "a/challenge"), "--results", str(tmp_path / "a/again")]
    made = ["--output", str(tmp_path / "all.zip"), "--creator", "Doe, Jane", "--date", "2026-01-01", "--private"]
    assert run(["archive", *packed, *made]) == 0
    capfd.readouterr()
    assert run(["verify", str(tmp_path / "all.zip")]) == 0
    assert "same to the byte: the ranking in leaderboard.json" in capfd.readouterr().out
