"""Entries that share their errors, and teams on the nuclei that both matched."""

from __future__ import annotations

import csv
import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frozen_demo import copy_frozen_demo
from hypothesis import given
from hypothesis import strategies as st
from literal import instances_of, masks_of
from scipy.io import loadmat, savemat
from scipy.stats import ttest_1samp
from test_leaderboard_page import part, texts_of
from test_rank_command import rank

from benchmarks.gaming import PLANS, made_field
from benchmarks.tricks import Field
from evaluation.board.matched_nuclei import (
    Alike,
    MatchedOutlines,
    compare_outlines,
    read_matched_nuclei,
    share_of_errors,
)
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.folders.demo import DemoPaths
from evaluation.report.leaderboard import leaderboard_page
from evaluation.scoring.match import match_case
from nuclei_metrics.instances.runs import dilate_instances, select_instances
from nuclei_metrics.model import Case, Instances
from nuclei_metrics.ranking.stability import compare_on_common

HEAD = "case,rule,outcome,reference_id,reference_class,reference_area_px,prediction_area_px,iou"
REFERENCE = np.arange(100.0, 200.0)


def of_areas(area: np.ndarray) -> MatchedOutlines:
    return MatchedOutlines(area, np.where(np.isnan(area), np.nan, 0.8))


def honest(count: int, *, spread: float = 0.1, seed: int = 0) -> dict[str, MatchedOutlines]:
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
    teams |= {name: MatchedOutlines(np.tile(of.area, 5), np.tile(of.iou, 5)) for name, of in teams.items()}
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
    """Teams with one published model share many errors: 70% is a sign only where others share less than half of it."""
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
    teams = {**honest(2), "r": MatchedOutlines(REFERENCE, np.ones(100)), "s": MatchedOutlines(REFERENCE, known)}
    found = compare_outlines(REFERENCE, teams)
    assert (found.reference, found.pairs) == ((("r", 1.0), ("s", 0.7)), ())
    few = {name: MatchedOutlines(of.area[:19], of.iou[:19]) for name, of in teams.items()}
    assert compare_outlines(REFERENCE[:19], few) == Alike()


def test_one_line_names_three_pairs() -> None:
    pairs = tuple((f"a{index}", f"b{index}", 0.54) for index in range(8))
    (line,) = Alike(pairs, (), 0.12).lines()
    assert line == (
        "For organisers only: 'a0' and 'b0' share 54% of their outlines; 'a1' and 'b1' share 54% of their outlines; "
        "'a2' and 'b2' share 54% of their outlines; and 5 more pairs (equal areas, among nuclei that both matched "
        "and at least one outlined unlike the reference; other pairs: at most 12%): ask both teams."
    )
    assert "other pairs" not in Alike(pairs[:1]).lines()[0]
    (line,) = Alike((), (("r", 0.93),)).lines()
    assert "'r' has exactly the pixels of the reference in 93% of its matched nuclei" in line


# --- nuclei with pixels ---------------------------------------------------------------------------------------------


def jittered(nuclei: Instances, rng: np.random.Generator, px: int = 1) -> Instances:
    """Every nucleus moved by itself; what leaves the image is lost."""
    masks = np.pad(masks_of(nuclei), ((0, 0), (px, px), (px, px)))
    height, width = nuclei.shape_yx
    for index, (y, x) in enumerate(rng.integers(0, 2 * px + 1, (len(masks), 2))):
        masks[index, :height, :width] = masks[index, y : y + height, x : x + width]
    return instances_of(masks[:, :height, :width], tuple(nuclei.class_id.tolist()))


def outlined(field: Field, nuclei: Sequence[Instances | None]) -> MatchedOutlines:
    challenge = Challenge.from_preset("recommended", name="made", cases=field.cases)
    areas, ious = [np.empty(0)], [np.empty(0)]
    for of_case in zip(field.cases, field.references, nuclei, strict=True):
        case = match_case(challenge, *of_case)
        pairs = next(iter(case.matches.values()))
        area, iou = np.full((2, len(case.reference.instances)), np.nan)
        if len(pairs):
            area[pairs.reference_index] = case.prediction.areas_px()[pairs.prediction_index]
            iou[pairs.reference_index] = pairs.intersection_px / pairs.union_px
        areas.append(area)
        ious.append(iou)
    return MatchedOutlines(np.concatenate(areas), np.concatenate(ious))


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
    found = read_matched_nuclei(challenge, (), tables)
    reference, teams = found.reference_area, found.outlines()
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
    found = read_matched_nuclei(challenge, (), tables)
    assert compare_outlines(found.reference_area, found.outlines()) == Alike()


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
    assert "'again' and 'namer' share > 99% of their outlines" in line
    assert "of their outlines" in (out / "leaderboard.html").read_text()
    for name in ("leaderboard.json", "leaderboard.csv"):
        assert "outlines" not in (out / name).read_text() and "alike" not in (out / name).read_text()
    public = tmp_path / "public.html"
    assert run(["report", "--results", str(out), "--output", str(public)]) == 0
    assert "of their outlines" not in public.read_text()


# --- teams in pairs on the nuclei that both matched: against loops over rows, in exact fractions ----------------------


Row = dict[str, str]


def difference_by_hand(one: dict[Any, Fraction], other: dict[Any, Fraction], group_of: dict[Any, Any]) -> Any:
    """The difference of each group on common nuclei, from {nucleus: measure} of two teams."""
    of_group = defaultdict(list)
    for nucleus in one.keys() & other.keys():
        of_group[group_of[nucleus]].append(one[nucleus] - other[nucleus])
    return {group: sum(of, Fraction(0)) / len(of) for group, of in of_group.items()}


def mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 7), st.sampled_from([35, 60, 120]))
def test_pairs_are_those_of_loops_in_exact_fractions(seed: int, teams: int, groups: int, nuclei: int) -> None:
    random = np.random.default_rng(seed)
    found_by = random.uniform(0.5, 1, teams)
    matched = random.random((teams, nuclei)) < found_by[:, None]
    sixteenths = random.integers(0, 17, (2, teams, nuclei))
    group = random.integers(0, groups, nuclei)
    found = compare_on_common(matched, sixteenths / 16, group, groups=groups)
    group_of = dict(enumerate(group.tolist()))
    for pair, (one, other) in enumerate(combinations(range(teams), 2)):
        assert (found.first[pair], found.second[pair]) == (one, other)
        common = [n for n in range(nuclei) if matched[one, n] and matched[other, n]]
        enough = all(Fraction(len(common)) >= Fraction(7, 10) * int(matched[team].sum()) for team in (one, other))
        assert found.common[pair] == len(common)
        assert found.compared[pair] == (enough and len(common) >= 30)
        for kind in range(2):
            of = [
                {n: Fraction(int(sixteenths[kind, team, n]), 16) for n in range(nuclei) if matched[team, n]}
                for team in (one, other)
            ]
            by_group = difference_by_hand(of[0], of[1], group_of)
            got = [values[pair, kind] for values in (found.difference, found.low, found.high)]
            if not found.compared[pair]:
                assert np.isnan(got).all()
                continue
            assert got[0] == pytest.approx(float(mean(list(by_group.values()))), abs=1e-12)
            if len(by_group) < 5:
                assert np.isnan(got[1:]).all()
                continue
            of_groups = ttest_1samp([float(value) for value in by_group.values()], 0).confidence_interval(0.95)
            assert got[1:] == pytest.approx([of_groups.low, of_groups.high], abs=1e-12)


def test_thirty_common_nuclei_and_seven_tenths_are_just_enough() -> None:
    """The second team matched 30 of 43, and 30 of 42, nuclei of the first: 70% of 42 are 29.4, of 43 are 30.1."""
    for first, both, is_enough in [(42, 30, True), (43, 30, False), (29, 29, False), (30, 30, True), (100, 70, True)]:
        matched = np.zeros((2, first), bool)
        matched[0], matched[1, :both] = True, True
        group = np.arange(first) % 2
        found = compare_on_common(matched, np.ones((1, 2, first)), group, groups=2)
        assert found.compared.tolist() == [is_enough]


def test_teams_with_the_same_nuclei_are_exactly_equal_and_the_order_of_nuclei_does_not_matter() -> None:
    random = np.random.default_rng(5)
    matched = np.repeat(random.random((1, 200)) < 0.9, 2, axis=0)
    values = np.repeat(random.random((1, 1, 200)), 2, axis=1)
    group = random.integers(0, 7, 200)
    found = compare_on_common(matched, values, group, groups=7)
    assert (found.difference[0, 0], found.low[0, 0], found.high[0, 0]) == (0, 0, 0)
    values[0, 1] = random.random(200)
    order = random.permutation(200)
    one, other = (
        compare_on_common(matched[:, of], values[:, :, of], group[of], groups=7) for of in (np.arange(200), order)
    )
    assert one.difference == pytest.approx(other.difference, abs=1e-13)


def test_a_measure_that_is_unknown_leaves_its_group_out() -> None:
    """A distance in um of an image without spacing."""
    values = np.stack([np.full(60, 3.0), np.full(60, 1.0)])[None].copy()
    values[0, 0, 30] = np.nan
    group = np.repeat([0, 1], 30)
    found = compare_on_common(np.ones((2, 60), bool), values, group, groups=2)
    assert found.difference.tolist() == [[2.0]]
    values[0, 0, 0] = np.nan
    found = compare_on_common(np.ones((2, 60), bool), values, group, groups=2)
    assert np.isnan([found.difference, found.low, found.high]).all()


# --- from objects.csv -------------------------------------------------------------------------------------------------


def found_in(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "leaderboard.json").read_text(), parse_constant=pytest.fail)
    return document


def matched_rows(path: Path, rule: str) -> dict[tuple[str, ...], Row]:
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["rule"] == rule and row["outcome"] == "matched"]
    found = {(row["case"], row["reference_class"], row["reference_id"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_the_second_table_of_a_leaderboard_is_that_of_the_rows_of_objects_csv(board: Path) -> None:
    document = found_in(board)
    found = document["common_nuclei"]
    order = [team["name"] for team in document["teams"]]
    rows = {name: matched_rows(board / f"results/{name}/objects.csv", found["rule"]) for name in order}
    assert found["measures"] == [{"name": "iou", "better": "higher"}, {"name": "hausdorff_px", "better": "lower"}]
    assert [(team["name"], team["matched"]) for team in found["teams"]] == [(n, len(rows[n])) for n in order]
    assert [(p["first"], p["second"]) for p in found["pairs"]] == [
        (order[0], order[1]),
        (order[1], order[2]),
        (order[0], order[2]),
    ]
    wins = {name: [0, 0] for name in order}
    by = set()
    for pair in found["pairs"]:
        one, other = rows[pair["first"]], rows[pair["second"]]
        common = one.keys() & other.keys()
        assert pair["common"] == len(common)
        assert pair["shares"] == [round(len(common) / len(of), 6) for of in (one, other)]
        is_compared = len(common) >= 30 and min(len(common) / len(one), len(common) / len(other)) >= 0.7
        assert pair["by"] == ("quality" if is_compared else "matched")
        by.add(pair["by"])
        for kind, (name, sign) in enumerate([("iou", 1), ("hausdorff_px", -1)]):
            got = pair["measures"][kind]
            if is_compared:
                sides = [{nucleus: Fraction(row[name]) for nucleus, row in of.items()} for of in (one, other)]
                group_of = {nucleus: row["group"] for nucleus, row in one.items()}
                difference = mean(list(difference_by_hand(sides[0], sides[1], group_of).values()))
                assert got["difference"] == pytest.approx(float(difference), abs=1e-6)
                assert got["low"] is got["high"] is None, "4 patients are too few"
                lead = sign * difference
            else:
                assert (got["difference"], got["low"], got["high"]) == (None, None, None)
                lead = Fraction(len(one) - len(other))
            assert got["ahead"] == (pair["first"] if lead > 0 else pair["second"])
            wins[got["ahead"]][kind] += 1
    assert by == {"quality", "matched"}, "the demo shows both"
    assert {team["name"]: team["ahead"] for team in found["teams"]} == wins


def test_the_page_and_the_shell_say_who_is_ahead_and_why(made: DemoPaths, board: Path, tmp_path, capsys) -> None:
    document = found_in(board)
    cells = [texts_of(row) for row in part(leaderboard_page(document), "common-pairs").rows]
    for pair, texts in zip(document["common_nuclei"]["pairs"], cells, strict=True):
        for got, text in zip(pair["measures"], texts[4:], strict=True):
            if pair["by"] == "matched":
                assert text == f"{got['ahead']}: more matches"
            else:
                assert text == f"{got['ahead']} by {abs(got['difference']):.4f}"
    assert rank(tmp_path, "--challenge", made.challenge, "--results", board)[0] == 0
    printed = capsys.readouterr().out
    assert "Team pairs on common nuclei" in printed
    assert "more matches" in printed


def test_an_interval_stands_in_brackets(board: Path) -> None:
    document = found_in(board)
    pair = next(pair for pair in document["common_nuclei"]["pairs"] if pair["by"] == "quality")
    pair["measures"][0] |= {"difference": -0.01, "low": -0.03, "high": 0.02, "ahead": pair["second"]}
    pair["measures"][1] |= {"difference": None, "low": None, "high": None, "ahead": None}
    rows = [texts_of(row) for row in part(leaderboard_page(document), "common-pairs").rows]
    (row,) = [row for row in rows if "(" in str(row[4])]
    assert row[4] == f"{pair['second']} by 0.0100 (−0.0200 to 0.0300)"
    assert not row[5]


def test_teams_whose_nuclei_are_not_known_are_left_out_and_named(made: DemoPaths, board: Path, tmp_path) -> None:
    shutil.copytree(board / "results", tmp_path / "results")
    (tmp_path / "results/namer/objects.csv").unlink()
    (tmp_path / "results/outliner/objects.csv").write_text("case,rule\nP9,iou\n")
    code, document = rank(tmp_path, "--challenge", made.challenge, "--results", tmp_path / "results")
    assert code == 0
    assert len(document["teams"]) == 3, "they keep their places"
    found = document["common_nuclei"]
    assert [team["name"] for team in found["teams"]] == ["finder"]
    assert {of["name"]: of["reason"].split("]")[0] for of in found["without"]} == {
        "namer": "[not-metrics",
        "outliner": "[missing-column",
    }
    assert found["pairs"] == []
    (section,) = [of for of in leaderboard_page(document).sections if of.anchor == "common"]
    (told,) = section.blocks
    assert [line.partition(".")[0] for line in told.paragraphs] == ["Not compared: namer", "Not compared: outliner"]


def test_a_table_of_scores_has_no_second_table(tmp_path) -> None:
    (tmp_path / "scores.csv").write_text("team,case,metric,value\na,1,pq,0.5\nb,1,pq,0.6\n")
    code, document = rank(tmp_path, "--scores", tmp_path / "scores.csv", "--column", "pq:descending")
    assert code == 0
    assert document["common_nuclei"] is None


def test_the_columns_of_segmentation_say_what_is_compared(made: DemoPaths, board: Path, tmp_path) -> None:
    """A ranking by F1 alone compares IoU; one by Dice compares Dice."""
    path = made.challenge / "challenge.toml"
    text = path.read_text()
    try:
        for column, expected in [
            ("segmentation.dice_class_mean.group_mean", "dice"),
            ("panoptic.pq.group_mean", "iou"),
        ]:
            rules = text.partition("[[ranking.columns]]")[0]
            path.write_text(f'{rules}[[ranking.columns]]\npath = "{column}"\ndirection = "descending"\n')
            code, document = rank(tmp_path, "--challenge", made.challenge, "--results", board)
            assert code == 0
            assert [of["name"] for of in document["common_nuclei"]["measures"]] == [expected]
    finally:
        path.write_text(text)
