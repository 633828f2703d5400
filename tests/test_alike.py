"""Entries that share their errors, or are the reference itself, are told to organisers beside the board alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from frozen_demo import copy_frozen_demo
from literal import instances_of, masks_of
from scipy.io import loadmat, savemat

from benchmarks.gaming import PLANS, made_field
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.instances.perturb import dilate_instances
from evaluation.instances.runs import select_instances
from evaluation.leaderboard.matched_nuclei import (
    Alike,
    Outlines,
    compare_outlines,
    matched_nuclei,
    outlines_of,
    share_of_errors,
)
from evaluation.model import Case, Instances
from evaluation.scoring.match import match_case
from evaluation.study.tricks import Field, outlines_of_cases, read_field

HEAD = "case,rule,outcome,reference_id,reference_class,reference_area_px,prediction_area_px,iou"
REFERENCE = np.arange(100.0, 200.0)


def of_areas(area: np.ndarray) -> Outlines:
    return Outlines(area, np.where(np.isnan(area), np.nan, 0.8))


def honest(count: int, *, spread: float = 0.1, seed: int = 0) -> dict[str, Outlines]:
    rng = np.random.default_rng(seed)
    return {f"h{team}": of_areas(REFERENCE * np.exp(rng.normal(0, spread, 100))) for team in range(count)}


# --- the share ------------------------------------------------------------------------------------------------------


def test_the_share_is_worked_by_hand() -> None:
    reference = np.full(100, 100.0)
    one, other = reference.copy(), reference.copy()
    one[:60] = 120.0
    other[:30], other[30:40], other[40:50], other[50:60] = 122.0, 123.0, np.nan, 100.0  # 120 of 122 px is the same
    assert share_of_errors(one, other, reference) == share_of_errors(other, one, reference) == 30 / 50
    assert share_of_errors(reference, reference, reference) is None  # nothing differs from the reference
    assert share_of_errors(one[:25], other[:25], reference[:25]) == 1
    assert share_of_errors(one[:19], other[:19], reference[:19]) is None


def test_agreement_with_the_reference_is_no_sign() -> None:
    """Two good teams outline nine nuclei of ten as the reference does, and err elsewhere by themselves."""
    teams = honest(2)
    for team in teams.values():
        team.area[:90] = REFERENCE[:90]
    teams |= {name: Outlines(np.tile(of.area, 5), np.tile(of.iou, 5)) for name, of in teams.items()}
    assert compare_outlines(np.tile(REFERENCE, 5), teams).pairs == ()


# --- which pairs are named ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_a_copy_is_named_among_honest_teams_and_no_other_pair(count: int) -> None:
    teams = honest(count)
    assert compare_outlines(REFERENCE, teams).pairs == ()
    found = compare_outlines(REFERENCE, {**teams, "zz": teams["h0"]})
    assert found.pairs == (("h0", "zz", 1.0),)
    assert (found.others is None) == (count == 1)
    assert found.others is None or found.others < 0.4


def test_the_other_pairs_say_how_much_is_much() -> None:
    """Teams with one published model share many errors: 70 % is a sign only where others share less than half of it."""
    teams = honest(5)
    half = teams["h0"].area.copy()
    half[70:] = teams["h1"].area[70:] * 1.5
    assert [pair[:2] for pair in compare_outlines(REFERENCE, {**teams, "zz": of_areas(half)}).pairs] == [("h0", "zz")]
    for team in list(teams.values())[1:]:
        team.area[:40] = teams["h0"].area[:40]
    assert compare_outlines(REFERENCE, {**teams, "zz": of_areas(half)}).pairs == ()


def test_where_more_than_a_tenth_of_the_pairs_look_alike_nothing_is_said() -> None:
    """Of 10 teams, 45 pairs: three copies of one entry are 3 pairs, four are 6."""
    teams = honest(9)
    three = {**teams, "y": teams["h0"], "z": teams["h0"]}
    del three["h8"]
    assert [pair[:2] for pair in compare_outlines(REFERENCE, three).pairs] == [("h0", "y"), ("h0", "z"), ("y", "z")]
    four = {**three, "x": teams["h0"]}
    del four["h7"]
    assert len(four) == 10
    assert compare_outlines(REFERENCE, four).pairs == ()
    assert compare_outlines(REFERENCE, four).lines() == []


@pytest.mark.parametrize("spread", [0.03, 0.06, 0.15])
def test_honest_teams_are_not_named(spread: float) -> None:
    for seed in range(10):
        for count in (2, 3, 6):
            assert compare_outlines(REFERENCE, honest(count, spread=spread, seed=seed)).lines() == []


def test_who_has_the_pixels_of_the_reference_is_named_as_that_and_not_as_a_pair() -> None:
    known = np.ones(100)
    known[:30] = 0.7
    teams = {**honest(2), "r": Outlines(REFERENCE, np.ones(100)), "s": Outlines(REFERENCE, known)}
    found = compare_outlines(REFERENCE, teams)
    assert (found.reference, found.pairs) == ((("r", 1.0), ("s", 0.7)), ())
    few = {name: Outlines(of.area[:19], of.iou[:19]) for name, of in teams.items()}
    assert compare_outlines(REFERENCE[:19], few) == Alike()


def test_one_line_names_three_pairs() -> None:
    pairs = tuple((f"a{index}", f"b{index}", 0.54) for index in range(8))
    (line,) = Alike(pairs, (), 0.12).lines()
    assert line == (
        "For organisers only: 'a0' and 'b0' share 54 % of their outlines; 'a1' and 'b1' share 54 % of their outlines; "
        "'a2' and 'b2' share 54 % of their outlines; and 5 more pairs (equal areas, of the nuclei that both matched "
        "and one outlined unlike the reference, other pairs 12 % at most): ask them."
    )
    assert "other pairs" not in Alike(pairs[:1]).lines()[0]
    (line,) = Alike((), (("r", 0.93),)).lines()
    assert "'r' has the very pixels of the reference in 93 % of the nuclei that it matched" in line


# --- nuclei with pixels ---------------------------------------------------------------------------------------------


def jittered(nuclei: Instances, rng: np.random.Generator, px: int = 1) -> Instances:
    """Every nucleus moved by itself; what leaves the image is lost."""
    masks = np.pad(masks_of(nuclei), ((0, 0), (px, px), (px, px)))
    height, width = nuclei.shape_yx
    for index, (y, x) in enumerate(rng.integers(0, 2 * px + 1, (len(masks), 2))):
        masks[index, :height, :width] = masks[index, y : y + height, x : x + width]
    return instances_of(masks[:, :height, :width], tuple(nuclei.class_id.tolist()))


def outlined(field: Field, nuclei: Sequence[Instances | None]) -> Outlines:
    challenge = Challenge.from_preset("recommended", name="made", cases=field.cases)
    cases = zip(field.cases, field.references, nuclei, strict=True)
    return outlines_of_cases([match_case(challenge, *case) for case in cases])


@pytest.mark.parametrize(("plan", "seed"), [("few", 3), ("common", 4)])
def test_honest_teams_are_told_from_jittered_copies(plan: str, seed: int) -> None:
    field = made_field(PLANS[plan], seed)
    reference = np.concatenate([of.instances.areas_px() for of in field.references])
    teams = {name: outlined(field, nuclei) for name, nuclei in field.teams.items()}
    assert compare_outlines(reference, teams).pairs == ()
    rng = np.random.default_rng(1)
    name = min(teams, key=lambda name: np.nanmean(teams[name].iou))
    nuclei = [of for of in field.teams[name] if of is not None]
    kept = [jittered(select_instances(of, rng.random(len(of)) < 0.7), rng, 1) for of in nuclei]
    found = compare_outlines(reference, {**teams, "zz": outlined(field, kept)})
    assert [pair[:2] for pair in found.pairs] == [(name, "zz")]
    assert found.pairs[0][2] > 0.9 and found.others < 0.45
    larger = {**teams, "zz": outlined(field, [dilate_instances(of) for of in nuclei])}
    assert compare_outlines(reference, larger).pairs == ()


# --- from the tables of a board -------------------------------------------------------------------------------------


def table(path: Path, areas: dict[int, object], iou: object = 0.8) -> Path:
    rows = [f"c,iou_above,matched,{nucleus},A,100,{area},{iou}" for nucleus, area in areas.items()]
    others = ["c,iou_above,missed,999,A,100,,", "c,other,matched,1,A,100,5,0.5", ""]
    path.write_text("\n".join([HEAD, *rows, *others]))
    return path


@pytest.fixture
def challenge() -> Challenge:
    return Challenge.from_preset("recommended", name="made", cases=()).model_copy(
        update={"cases": (Case("c", "c", 9, 9),)}
    )


def test_areas_come_from_the_matched_rows_of_the_first_rule(tmp_path: Path, challenge: Challenge) -> None:
    ours, theirs = ({n: 110 + n for n in range(first, 40)} for first in (0, 10))
    tables = {"a": table(tmp_path / "a", ours), "b": table(tmp_path / "b", theirs, 1), "c": None}
    reference, teams = outlines_of(matched_nuclei(challenge, (), tables))
    assert reference.tolist() == [100.0] * 40 and set(teams) == {"a", "b"}
    assert teams["a"].area.tolist() == list(ours.values())
    assert np.isnan(teams["b"].area).tolist() == np.isnan(teams["b"].iou).tolist() == [True] * 10 + [False] * 30
    found = compare_outlines(reference, teams)
    assert (found.pairs, found.reference) == ((("a", "b", 1.0),), (("b", 1.0),))


def test_points_and_areas_that_are_not_known_say_nothing(tmp_path: Path, challenge: Challenge) -> None:
    points = table(tmp_path / "p", dict.fromkeys(range(40), ""), "")
    old = tmp_path / "old"
    old.write_text("case,rule,outcome,reference_id,reference_class,reference_area_px\nc,iou_above,matched,1,A,100\n")
    tables = {"a": points, "b": points, "c": old, "d": tmp_path / "none"}
    assert compare_outlines(*outlines_of(matched_nuclei(challenge, (), tables))) == Alike()


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
    assert "'again' and 'namer' share > 99 % of their outlines" in line
    assert "of their outlines" in (out / "leaderboard.html").read_text()
    for name in ("leaderboard.json", "leaderboard.csv"):
        assert "outlines" not in (out / name).read_text() and "alike" not in (out / name).read_text()
    public = tmp_path / "public.html"
    assert run(["report", "--results", str(out), "--output", str(public)]) == 0
    assert "of their outlines" not in public.read_text()


def test_tricks_compare_the_submissions_themselves(tmp_path: Path) -> None:
    demo = copy_frozen_demo(tmp_path)
    challenge = Challenge.load(demo.challenge)
    field, alike, left_out = read_field(
        demo.challenge, challenge, {**demo.submissions, "again": demo.submissions["namer"]}
    )
    assert set(field.teams) == {*demo.submissions, "again"} and left_out == {}
    assert [pair[:2] for pair in alike.pairs] == [("again", "namer")]
    assert alike.pairs[0][2] == 1 and 0 < alike.others < 0.1
