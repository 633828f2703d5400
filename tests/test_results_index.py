"""The index of stored results: what did not change is not read, and two calls may write at once."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from evaluation.authoring.demo import write_demo
from evaluation.challenge import LimitRules
from evaluation.execution.stored_output import INDEX_FILE, LocalOutput
from evaluation.leaderboard import index, teams
from evaluation.leaderboard.board import score_and_rank
from evaluation.leaderboard.document import leaderboard_json
from evaluation.leaderboard.index import Index, scores_entry, scores_of, stamp_of
from evaluation.leaderboard.team_scores import TeamScores


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    demo = write_demo(folder)
    cases = folder / "challenge/cases.csv"
    cases.write_text("\n".join(line for line in cases.read_text().splitlines() if not line.startswith(("P3", "P4"))))
    for patient in ("P3", "P4"):
        for submission in demo.submissions.values():
            shutil.rmtree(submission / patient)
    shutil.copytree(demo.submissions["namer"], folder / "submissions/broken")
    next((folder / "submissions/broken").rglob("*.mat")).write_bytes(b"not a MATLAB file")
    patch = pytest.MonkeyPatch()
    patch.setattr(index, "SETTLED_SECONDS", 0)
    again(folder)
    patch.undo()
    return folder


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SETTLED_SECONDS", 0)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The submissions and results that are read from now on."""
    found: list[str] = []
    key, documents = teams.submission_key, teams.read_team
    monkeypatch.setattr(
        teams, "submission_key", lambda of, challenge, path: (found.append(path.name), key(of, challenge, path))[1]
    )
    monkeypatch.setattr(
        teams, "read_team", lambda folder, *rest: (found.append(f"{folder.name}'s"), documents(folder, *rest))[1]
    )
    return found


def again(folder: Path) -> str:
    return leaderboard_json(score_and_rank(folder / "challenge", folder / "submissions", folder / "out", workers=1))


def test_only_a_new_submission_is_read_and_the_board_is_the_same(scored: Path, read: list[str]) -> None:
    first = again(scored)
    assert read == []
    (scored / "out/results" / INDEX_FILE).rename(scored / "index")
    assert again(scored) == first
    assert sorted(read) == ["broken", "finder", "finder's", "namer", "namer's", "outliner", "outliner's"]
    read.clear()
    shutil.copytree(scored / "submissions/namer", scored / "submissions/new")
    again(scored)
    assert read == ["new", "new's"]
    shutil.rmtree(scored / "submissions/new")


def test_whatever_changed_is_read(scored: Path, read: list[str]) -> None:
    first = again(scored)
    prediction = next((scored / "submissions/namer").rglob("*.mat"))
    content, times = prediction.read_bytes(), prediction.stat()
    prediction.write_bytes(content)
    os.utime(prediction, ns=(times.st_atime_ns, times.st_mtime_ns))  # the same size and time of change
    assert again(scored) == first
    assert read == ["namer", "namer's"]
    details = scored / "out/results/finder/details.json"
    details.write_text(details.read_text().replace("0.", "1."))
    read.clear()
    assert again(scored) == first  # it was scored again
    assert read == ["finder", "finder's"]
    read.clear()
    (scored / "submissions/outliner/link").symlink_to(scored / "challenge/cases.csv")
    again(scored)
    assert "outliner" in read  # what a link leads to changes without it
    (scored / "submissions/outliner/link").unlink()


def test_other_columns_and_other_rules_have_other_entries(scored: Path, read: list[str]) -> None:
    again(scored)
    toml = scored / "challenge/challenge.toml"
    text = toml.read_text()
    column = '{path = "detection.f1.group_mean", direction = "descending"}'
    for added in (f"[ranking]\ncolumns = [{column}]\n", "[limits]\nbytes_per_file = 12345678\n"):
        toml.write_text(f"{text}\n{added}")
        read.clear()
        again(scored)
        assert "namer's" in read
    toml.write_text(text)
    read.clear()
    again(scored)


def test_what_has_just_changed_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SETTLED_SECONDS", 60)
    (tmp_path / "team").mkdir()
    (tmp_path / "team/a").write_text("a")
    assert stamp_of(tmp_path / "team", LimitRules()) == ""
    assert Index(LocalOutput(tmp_path), "results", "of").with_result("team", "") == ""
    monkeypatch.setattr(index, "SETTLED_SECONDS", 0)
    assert stamp_of(tmp_path / "team", LimitRules()) != ""


def test_numbers_come_back_as_they_were() -> None:
    units = np.array([[0.1, np.nan, 1 / 3], [np.nan, 2.0, 1e-300]])
    for scores in (
        TeamScores("a", np.array([np.nan, 0.7]), units, "1", np.array([0.5])),
        TeamScores("a", np.array([0.1]), None, "2"),
    ):
        entry = index.orjson.loads(index.orjson.dumps(scores_entry(scores)))
        found = scores_of("a", entry)
        for name in ("overall", "by_unit", "floors"):
            np.testing.assert_array_equal(getattr(found, name), getattr(scores, name))
        assert found.version == scores.version


def add_many(folder: Path, who: int) -> None:
    of = Index(LocalOutput(folder), "results", "challenge")
    for number in range(100):
        of.add(f"team {number}", f"stamp {who}", {"by": who, "text": "x" * 20_000})


def test_two_calls_at_once_and_one_that_was_killed_do_no_harm(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"results/team {number}").mkdir(parents=True)
        (tmp_path / f"results/team {number}/key.json").touch()
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_many, args=(tmp_path, who)) for who in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with (tmp_path / "results" / INDEX_FILE).open("ab") as stream:
        stream.write(b'["challenge","team 3","stamp"]\t{"by')
    found = Index(LocalOutput(tmp_path), "results", "challenge")
    assert len((tmp_path / "results" / INDEX_FILE).read_bytes().splitlines()) == 201
    for number in range(100):
        entries = [found.find(f"team {number}", f"stamp {who}") for who in (1, 2)]
        assert sum(entry is not None for entry in entries) == 1
    assert Index(LocalOutput(tmp_path), "results", "another").entries == {}
