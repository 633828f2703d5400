"""Boards beside older ones, and with entries that are shown and not ranked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evaluation.challenge import Challenge
from evaluation.commands.main import run

FROZEN = Path(__file__).parent / "golden" / "frozen"


def first_cases(folder: Path, number: int, submissions: str) -> Path:
    """The first cases of the frozen challenge, and what its teams submitted for them."""
    shutil.copytree(FROZEN / "challenge", folder / "challenge")
    lines = (folder / "challenge/cases.csv").read_text().splitlines()[: number + 1]
    (folder / "challenge/cases.csv").write_text("\n".join(lines) + "\n")
    for team in ("outliner", "finder", "namer"):
        for case, group in (line.split(",")[:2] for line in lines[1:]):
            path = Path(team, group, case)
            shutil.copytree(FROZEN / "submissions" / path, folder / submissions / path)
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cases of two patients, three teams, and their board."""
    folder = first_cases(tmp_path_factory.mktemp("published"), 2, "submissions")
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
    before = found["before"]
    assert before["challenge"] == old["challenge"] and before["reference"]["changed"] == []
    assert [team["name"] for team in before["teams"]] == [team["name"] for team in old["teams"]]
    assert all(one["before"] == one["now"] for team in before["teams"] for one in (team, *team["scores"]))
    told = " ".join(capfd.readouterr().out.split())
    assert f"{len(before['teams'])} teams: 0 with a new rank, 0 with new scores" in told
    assert (
        "The reference files are the same." in told
        and f"Rules and cases are the same: {old['challenge']['hash']}." in told
    )
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
    assert moved == {name: (old.get(name), now.get(name)) for name in old | now}
    assert moved["late"][0] is None and moved["namer"] == (old["namer"], None) and len(moved) > 2
    hashes = [board_in(tmp_path / "a" / name)["challenge"] for name in ("out", "again")]
    told = " ".join(capfd.readouterr().out.split())
    for key, what in (("hash", "Rules and cases"), ("ranking_hash", "Rules of the ranking")):
        assert hashes[0][key] != hashes[1][key]
        assert f"{what}: {hashes[0][key]} before, {hashes[1][key]} now." in told
    page = (tmp_path / "a/again/leaderboard.html").read_text()
    climbed = sum(before != now for before, now in moved.values())
    assert all(f"{len(moved)} teams: {climbed} with a new rank" in text for text in (page, told))
    assert "Changes" in page


def test_stored_results_are_compared_with_a_board_and_scores_with_a_file(published, tmp_path, capfd):
    challenge, results = str(published / "challenge"), str(published / "out/results")
    rank = ["rank", "--challenge", challenge, "--results", results, "--set", "method=median_of_ranks"]
    assert run([*rank, "--before", str(published / "out"), "--output", str(tmp_path / "median")]) == 0
    old, now = places_in(published / "out"), places_in(tmp_path / "median")
    before = board_in(tmp_path / "median")["before"]
    assert {team["name"]: (team["before"], team["now"]) for team in before["teams"]} == {
        name: (old[name], now[name]) for name in old
    }
    assert before["reference"]["changed"] == []
    (published / "out/reference.json").rename(published / "out/elsewhere")
    assert run([*rank, "--before", str(published / "out"), "--output", str(tmp_path / "median")]) == 0
    (published / "out/elsewhere").rename(published / "out/reference.json")
    assert board_in(tmp_path / "median")["before"]["reference"] is None
    scores = tmp_path / "scores.csv"
    scores.write_text("team,case,group,metric,value\nnamer,a,a,f1,0.5\nfinder,a,a,f1,0.7\n")
    given = ["--scores", str(scores), "--column", "f1:descending", "--output", str(tmp_path / "csv")]
    capfd.readouterr()
    assert run(["rank", *given, "--before", str(published / "out/leaderboard.json")]) == 0
    assert {team["name"] for team in board_in(tmp_path / "csv")["before"]["teams"]} >= {"outliner"}
    assert "before, unknown now." in " ".join(capfd.readouterr().out.split())


def test_without_a_board_before_nothing_is_scored(published: Path, tmp_path: Path, capfd) -> None:
    places = ["--before", str(tmp_path), "--output", str(tmp_path / "again")]
    assert run(["leaderboard", *sides(published), *places]) == 2
    assert "'leaderboard.json'" in capfd.readouterr().err and not (tmp_path / "again").exists()


def check_archive(challenge: Path, results: Path, archive: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The ranking of an archive that is made of results is computed again."""
    packed = ["--challenge", str(challenge), "--results", str(results), "--output", str(archive), "--private"]
    assert run(["archive", *packed, "--creator", "Doe, Jane", "--date", "2026-01-01"]) == 0
    capfd.readouterr()
    assert run(["verify", str(archive)]) == 0
    assert "same to the byte: the ranking in leaderboard.json" in capfd.readouterr().out


def test_an_archive_of_a_board_beside_an_older_one_is_computed_again(published: Path, tmp_path: Path, capfd) -> None:
    shutil.copytree(published, tmp_path / "a")
    scored_again(tmp_path / "a", "--store", str(tmp_path / "kept"))
    check_archive(tmp_path / "a/challenge", tmp_path / "a/again", tmp_path / "all.zip", capfd)


# --- entries that are scored and shown, and not ranked: the board of the others is the one without them ---------------


PLAIN = ("teams", "columns", "stability", "methods", "units", "unit_names", "facts", "common_nuclei", "not_ranked")
HEAD = "team,case,group,metric,value"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first_cases(tmp_path, 3, "teams")
    shutil.copytree(tmp_path / "teams", tmp_path / "all")
    shutil.copytree(tmp_path / "teams/namer", tmp_path / "all/pathologist 2")
    return tmp_path


def leave_unranked(folder: Path, *names: str) -> None:
    with (folder / "challenge/challenge.toml").open("a") as stream:
        stream.write(f"\n[ranking]\nunranked = {json.dumps(names)}\n")


def board_of(folder: Path, submissions: str, output: str, *more: str) -> Any:
    places = ["--challenge", str(folder / "challenge"), "--submissions", str(folder / submissions)]
    assert run(["leaderboard", *places, "--output", str(folder / output), *more]) == 0
    return json.loads((folder / output / "leaderboard.json").read_text())


def test_the_board_is_the_one_without_the_entry_which_is_shown(folder: Path, capfd) -> None:
    leave_unranked(folder, "pathologist 2")
    plain = board_of(folder, "teams", "plain")
    told = capfd.readouterr().out
    assert "'pathologist 2' is no entry; expected 'finder', 'namer' or 'outliner'." in " ".join(told.split())
    found = board_of(folder, "all", "out", "--report")
    assert {key: found[key] for key in PLAIN} == {key: plain[key] for key in PLAIN}
    assert [entry["name"] for entry in found["shown"]] == ["pathologist 2"] and plain["shown"] == []
    of_namer = {team["name"]: team for team in found["teams"]}["namer"]["columns"]
    assert found["shown"][0]["columns"] == [
        {key: cell[key] for key in ("path", "value", "by_unit")} for cell in of_namer
    ]
    told = " ".join(capfd.readouterr().out.split())
    assert "○ pathologist 2" in told and "Shown and not ranked: 'pathologist 2'." in told
    assert "is no entry" not in told
    page = (folder / "out/leaderboard.html").read_text()
    assert page.count("○ pathologist 2") >= 1 + len(found["columns"])  # in the table, and in each plot of values
    assert (folder / "out/results/pathologist 2/report.html").is_file()
    row = (folder / "out/leaderboard.csv").read_text().splitlines()[-1]
    assert row.startswith(",pathologist 2,") and ",shown," in row


def test_stored_results_and_audits_leave_it_out(folder: Path) -> None:
    leave_unranked(folder, "pathologist 2")
    board_of(folder, "all", "out", "--store", str(folder / "challenge/leaderboard"))
    assert not (folder / "challenge/leaderboard/pathologist 2.json").exists()
    shutil.copy(folder / "challenge/leaderboard/namer.json", folder / "challenge/leaderboard/pathologist 2.json")
    places = ["--challenge", str(folder / "challenge")]
    ranks = []
    for team, submissions in (("new", "finder"), ("pathologist 2", "namer")):
        given = ["--submission", str(folder / "teams" / submissions), "--team", team, "--output", str(folder / team)]
        assert run(["score", *places, *given]) == 0
        ranks.append(json.loads((folder / team / "metrics.json").read_text()).get("leaderboard"))
    assert ranks[0]["submissions"] == 4
    assert ranks[1] is None
    audits = []
    for name in ("teams", "all"):
        out = folder / f"audit_{name}"
        given = ["--submissions", str(folder / name), "--output", str(out)]
        assert run(["audit", *places, *given]) == 0
        audits.append(json.loads((out / "audit.json").read_text()))
    assert audits[0] == audits[1]


def test_an_archive_of_the_board_is_computed_again(folder: Path, capfd) -> None:
    leave_unranked(folder, "pathologist 2")
    board_of(folder, "all", "out")
    check_archive(folder / "challenge", folder / "out", folder / "all.zip", capfd)


def scores(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name / "scores.csv"
    path.parent.mkdir()
    path.write_text("\n".join([HEAD, *lines, ""]))
    return path


@pytest.mark.parametrize("missing", ["worst", "unranked", "complete_cases"])
def test_of_scores_the_units_and_gaps_of_the_entry_touch_nobody(tmp_path: Path, missing: str, capfd) -> None:
    teams = [
        f"{team},c{case},p{case % 6},f1,{0.5 + 0.04 * number + 0.01 * ((case * (number + 3)) % 7)}"
        for number, team in enumerate("abc")
        for case in range(12)
        if (team, case) != ("c", 5)
    ]
    baseline = [f"baseline,c{case},p{case % 6},f1,0.1" for case in range(1, 12)] + ["baseline,x,only here,f1,0.99"]
    files = scores(tmp_path, "without", teams), scores(tmp_path, "with", [*baseline, *teams])
    boards = []
    for path in files:
        out = path.parent
        given = ["--column", "f1:descending", "--set", f"missing={missing}", "--set", 'unranked=["baseline"]']
        assert run(["rank", "--scores", str(path), *given, "--output", str(out)]) == 0
        assert run(["audit", "--scores", str(path), *given, "--output", str(out)]) == 0
        audit = json.loads((out / "audit.json").read_text())
        boards.append([json.loads((out / "leaderboard.json").read_text()), audit])
    (plain, audit), (found, other) = boards
    assert {key: found[key] for key in PLAIN} == {key: plain[key] for key in PLAIN}
    assert audit == other
    assert [entry["name"] for entry in found["shown"]] == ["baseline"] and plain["shown"] == []
    assert found["shown"][0]["columns"][0]["value"] is None  # it lacks a case that others have
    assert len(plain["findings"]) == len(found["findings"]) + 1


def test_all_entries_may_be_unranked(folder: Path, tmp_path: Path) -> None:
    leave_unranked(folder, "outliner", "finder", "namer")
    found = board_of(folder, "teams", "out", "--report")
    assert found["facts"] == [] and len(found["shown"]) == 3
    path = scores(tmp_path, "scores", ["a,c,c,f1,0.5"])
    given = ["--column", "f1:descending", "--set", 'unranked=["a"]', "--output", str(tmp_path / "csv")]
    assert run(["rank", "--scores", str(path), *given]) == 2


def test_it_belongs_to_the_hash_of_the_ranking_and_not_to_that_of_the_rules(folder: Path) -> None:
    before = Challenge.load(folder / "challenge")
    leave_unranked(folder, "baseline")
    after = Challenge.load(folder / "challenge")
    assert before.hash == after.hash and before.ranking_hash != after.ranking_hash
