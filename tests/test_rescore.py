"""Scoring again after an erratum: what changed, who moves and why."""

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


def rescored(folder: Path, *more: str) -> Any:
    places = ["--before", str(folder / "out"), "--output", str(folder / "again")]
    assert run(["rescore", *sides(folder), *places, *more]) == 0
    return json.loads((folder / "again/rescore.json").read_text())


def test_nothing_changes_where_nothing_was_changed(published: Path, tmp_path: Path, capfd) -> None:
    shutil.copytree(published, tmp_path / "a")
    found = rescored(tmp_path / "a")
    assert found["changed"]["rules"] == found["changed"]["cases"] == found["changed"]["programs"] == []
    assert not any(team["moves"] for team in found["teams"])
    assert found["before"] == found["challenge"]
    told = capfd.readouterr().out
    assert "No team moves." in told and "The reference is the same." in told


def test_a_corrected_reference_is_told_by_its_cases_and_groups(published: Path, tmp_path: Path, capfd) -> None:
    shutil.copytree(published, tmp_path / "a")
    path = tmp_path / "a/challenge/reference/P1/P1_1.xml"
    text = path.read_text()
    start = text.index("<Region ", text.index("<Regions>"))
    end = text.index("</Region>", start) + len("</Region>")
    path.write_text(text[:start] + text[end:])  # one nucleus less
    found = rescored(tmp_path / "a")
    assert found["changed"]["cases"] == ["P1_1"] and found["changed"]["rules"] == []
    assert found["before"]["hash"] == found["challenge"]["hash"]
    changed = [unit["name"] for team in found["teams"] for column in team["columns"] for unit in column["units"]]
    assert set(changed) == {"P1"}
    old = json.loads((tmp_path / "a/out/leaderboard.json").read_text())["teams"]
    for team in found["teams"]:
        was = next(of for of in old if of["name"] == team["name"])
        now = json.loads((tmp_path / f"a/again/results/{team['name']}/metrics.json").read_text())
        assert team["columns"][0]["value"] == [was["columns"][0]["value"], now["detection"]["f1"]["group_mean"]]
    told = capfd.readouterr().out
    assert "Rules and program are the same: the reference, or a submission, was changed." in told
    assert "The reference is another one." in told and len(set(found["reference"])) == 2
    assert all(
        f"reference {when}: {of}" in told for when, of in zip(("before", "now"), found["reference"], strict=True)
    )


def test_a_changed_rule_is_named_with_both_hashes_and_who_moves(published: Path, tmp_path: Path, capfd) -> None:
    shutil.copytree(published, tmp_path / "a")
    columns = '[ranking]\ncolumns = [{path = "segmentation.hausdorff_px.group_mean", direction = "descending"}]\n'
    with (tmp_path / "a/challenge/challenge.toml").open("a") as stream:
        stream.write(f'[reference]\noverlap = "last"\n{columns}')
    found = rescored(tmp_path / "a", "--report")
    assert 'reference.overlap: "class_order" before, "last" now' in found["changed"]["rules"]
    assert found["before"]["hash"] != found["challenge"]["hash"]
    assert found["before"]["ranking_hash"] != found["challenge"]["ranking_hash"]
    moved = {team["name"]: team["position"] for team in found["teams"] if team["moves"]}
    boards = [json.loads((tmp_path / "a" / out / "leaderboard.json").read_text()) for out in ("out", "again")]
    places = [{team["name"]: team["position"] for team in board["teams"]} for board in boards]
    assert moved == {n: [places[0][n], places[1][n]] for n in places[0] if places[0][n] != places[1][n]} != {}
    out = capfd.readouterr().out
    assert found["before"]["hash"] in out.replace("\n", "") and f"{len(moved)} of 3 teams move" in out
    assert (tmp_path / "a/again/rescore.html").is_file()


def test_without_a_board_before_there_is_nothing_to_compare(published: Path, tmp_path: Path, capfd) -> None:
    places = ["--before", str(tmp_path), "--output", str(tmp_path / "again")]
    assert run(["rescore", *sides(published), *places]) == 2
    assert "'leaderboard.json'" in capfd.readouterr().err
