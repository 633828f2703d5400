"""Entries that are nearly the same are told to organisers beside the board, and to nobody else."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from frozen_demo import copy_frozen_demo
from scipy.io import loadmat, savemat

from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.leaderboard.alike import alike_lines, areas_of_teams, share_alike, with_alike_teams
from evaluation.leaderboard.document import AlikeTeams, Board
from evaluation.leaderboard.matched_nuclei import matched_nuclei
from evaluation.model import Case

HEAD = "case,rule,outcome,reference_id,reference_class,reference_area_px,prediction_area_px"


def table(path: Path, areas: dict[int, object], rule: str = "iou_above") -> Path:
    rows = [f"c,{rule},matched,{nucleus},A,100,{area}" for nucleus, area in areas.items()]
    path.write_text("\n".join([HEAD, *rows, f"c,{rule},missed,999,A,100,", "c,other,matched,1,A,100,5", ""]))
    return path


@pytest.fixture
def challenge() -> Challenge:
    return Challenge.from_preset("recommended", name="made", cases=()).model_copy(
        update={"cases": (Case("c", "c", 9, 9),)}
    )


def told(challenge: Challenge, tables: dict[str, Path | None]) -> tuple[AlikeTeams, ...]:
    empty = dict.fromkeys(Board.__dataclass_fields__, ())
    board = replace(Board(**empty), teams=tuple(SimpleNamespace(name=name) for name in tables))  # type: ignore[arg-type]
    return with_alike_teams(board, matched_nuclei(challenge, (), tables)).alike


def test_the_share_is_worked_by_hand(tmp_path: Path, challenge: Challenge) -> None:
    ours = {n: 100 + n for n in range(40)}
    # 98 of 100 px is the same; 97 of 100 is not; ten more that only the other matched
    theirs = {n: round(0.98 * (100 + n) + 0.5) if n < 36 else 2 * (100 + n) for n in range(50)}
    pair = table(tmp_path / "a", ours), table(tmp_path / "b", theirs)
    (found,) = told(challenge, {"a": pair[0], "b": pair[1]})
    assert found == AlikeTeams("a", "b", 36 / 50)
    assert share_alike(np.full(100, 100.0), np.full(100, 97.0)) == 0


def test_few_nuclei_or_points_say_nothing(tmp_path: Path, challenge: Challenge) -> None:
    same = table(tmp_path / "a", {n: 100 + n for n in range(40)})
    assert len(told(challenge, {"a": same, "b": same})) == 1
    few, points = (
        table(tmp_path / "f", dict.fromkeys(range(19), 100)),
        table(tmp_path / "p", dict.fromkeys(range(40), "")),
    )
    assert told(challenge, {"a": few, "b": few}) == told(challenge, {"a": points, "b": points}) == ()
    assert told(challenge, {"a": same, "b": None, "c": tmp_path / "none"}) == ()
    assert areas_of_teams(matched_nuclei(challenge, (), {"p": points}))["p"].size == 0


def test_a_copy_is_told_on_the_terminal_and_the_page_of_organisers_alone(tmp_path: Path, capfd) -> None:
    demo = copy_frozen_demo(tmp_path)
    copy = tmp_path / "submissions/again"
    for path in demo.submissions["namer"].rglob("*.mat"):
        mat = loadmat(path)
        new = copy / path.relative_to(demo.submissions["namer"])
        new.parent.mkdir(parents=True, exist_ok=True)
        savemat(new, {key: np.roll(of, (1, 1), (0, 1)) for key, of in mat.items() if not key.startswith("__")})
    out = tmp_path / "out"
    places = ["--challenge", str(demo.challenge), "--output", str(out)]
    assert run(["leaderboard", *places, "--submissions", str(tmp_path / "submissions"), "--report"]) == 0
    (line,) = (line for line in capfd.readouterr().out.splitlines() if line.startswith("For organisers only"))
    assert "'again' and 'namer' are nearly the same" in line
    assert "are nearly the same" in (out / "leaderboard.html").read_text()
    for name in ("leaderboard.json", "leaderboard.csv"):
        assert "nearly" not in (out / name).read_text() and "alike" not in (out / name).read_text()
    public = tmp_path / "public.html"
    assert run(["report", "--results", str(out), "--output", str(public)]) == 0
    assert "are nearly the same" not in public.read_text()
    with (out / "results/namer/objects.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["rule"] == "iou_above" and row["outcome"] == "matched"]
    found = matched_nuclei(Challenge.load(demo.challenge), (), {"namer": out / "results/namer/objects.csv"})
    assert sorted(areas_of_teams(found)["namer"]) == sorted(float(row["prediction_area_px"]) for row in rows)
    assert alike_lines(replace(Board(**dict.fromkeys(Board.__dataclass_fields__, ())))) == []  # type: ignore[arg-type]


def test_many_copies_of_one_entry_take_no_line_for_each_pair():
    pairs = tuple(AlikeTeams(f"a{index}", f"b{index}", 1.0) for index in range(91))
    board = replace(Board(**dict.fromkeys(Board.__dataclass_fields__, ())), alike=pairs)  # type: ignore[arg-type]
    lines = alike_lines(board)
    assert [f"'a{index}'" in line for index, line in enumerate(lines[:-1])] == [True] * 10
    assert lines[-1] == "For organisers only: so are 81 more pairs of teams."
    assert len(alike_lines(replace(board, alike=pairs[:10]))) == 10
