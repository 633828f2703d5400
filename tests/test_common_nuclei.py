"""Teams in pairs on the nuclei that both matched: against loops over rows, in exact fractions."""

from __future__ import annotations

import csv
import json
import shutil
from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_leaderboard import leaderboard
from test_leaderboard_page import part, texts_of
from test_rank_command import rank

from evaluation.authoring.demo import DemoPaths
from evaluation.ranking import common_nuclei
from evaluation.ranking.common_nuclei import compare_on_common
from evaluation.ranking.stability import draw_units
from evaluation.report.leaderboard import leaderboard_page

Row = dict[str, str]


def difference_by_hand(one: dict[Any, Fraction], other: dict[Any, Fraction], group_of: dict[Any, Any]) -> Any:
    """The difference of each group on common nuclei, from {nucleus: measure} of two teams."""
    of_group = defaultdict(list)
    for nucleus in one.keys() & other.keys():
        of_group[group_of[nucleus]].append(one[nucleus] - other[nucleus])
    return {group: sum(of, Fraction(0)) / len(of) for group, of in of_group.items()}


def mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 5), st.sampled_from([35, 60, 120]))
def test_pairs_are_those_of_loops_in_exact_fractions(seed: int, teams: int, groups: int, nuclei: int) -> None:
    random = np.random.default_rng(seed)
    found_by = random.uniform(0.5, 1, teams)
    matched = random.random((teams, nuclei)) < found_by[:, None]
    sixteenths = random.integers(0, 17, (2, teams, nuclei))
    group = random.integers(0, groups, nuclei)
    found = compare_on_common(matched, sixteenths / 16, group, groups=groups, samples=100, seed=3)
    (weights,) = draw_units(groups, samples=100, seed=3, at_once=100) if groups > 1 else (np.empty((0, 1)),)
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
            if groups == 1:
                assert np.isnan(got[1:]).all()
                continue
            drawn = sorted(
                mean([by_group[g] for g, times in enumerate(sample) for _ in range(times) if g in by_group])
                for sample in weights.tolist()
                if any(times and g in by_group for g, times in enumerate(sample))
            )
            outside = len(drawn) * 25 // 1000
            assert got[1:] == pytest.approx([float(drawn[outside]), float(drawn[-1 - outside])], abs=1e-12)


def test_thirty_common_nuclei_and_seven_tenths_are_just_enough() -> None:
    """The second team matched 30 of 43, and 30 of 42, nuclei of the first: 70 % of 42 are 29.4, of 43 are 30.1."""
    for first, both, is_enough in [(42, 30, True), (43, 30, False), (29, 29, False), (30, 30, True), (100, 70, True)]:
        matched = np.zeros((2, first), bool)
        matched[0], matched[1, :both] = True, True
        group = np.arange(first) % 2
        found = compare_on_common(matched, np.ones((1, 2, first)), group, groups=2, samples=100, seed=1)
        assert found.compared.tolist() == [is_enough]


def test_teams_with_the_same_nuclei_are_exactly_equal_and_the_order_of_nuclei_does_not_matter() -> None:
    random = np.random.default_rng(5)
    matched = np.repeat(random.random((1, 200)) < 0.9, 2, axis=0)
    values = np.repeat(random.random((1, 1, 200)), 2, axis=1)
    group = random.integers(0, 7, 200)
    found = compare_on_common(matched, values, group, groups=7, samples=200, seed=1)
    assert (found.difference[0, 0], found.low[0, 0], found.high[0, 0]) == (0, 0, 0)
    values[0, 1] = random.random(200)
    order = random.permutation(200)
    one, other = (
        compare_on_common(matched[:, of], values[:, :, of], group[of], groups=7, samples=200, seed=1)
        for of in (np.arange(200), order)
    )
    assert one.difference == pytest.approx(other.difference, abs=1e-13)


def test_a_measure_that_is_unknown_leaves_its_group_out() -> None:
    """A distance in um of an image without spacing."""
    values = np.stack([np.full(60, 3.0), np.full(60, 1.0)])[None].copy()
    values[0, 0, 30] = np.nan
    group = np.repeat([0, 1], 30)
    found = compare_on_common(np.ones((2, 60), bool), values, group, groups=2, samples=100, seed=1)
    assert found.difference.tolist() == [[2.0]]
    values[0, 0, 0] = np.nan
    found = compare_on_common(np.ones((2, 60), bool), values, group, groups=2, samples=100, seed=1)
    assert np.isnan([found.difference, found.low, found.high]).all()


def test_as_many_samples_as_the_ranking_has_but_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    values, group, matched = random.random((1, 2, 80)), random.integers(0, 9, 80), np.ones((2, 80), bool)
    few, many = (compare_on_common(matched, values, group, groups=9, samples=n, seed=1) for n in (100, 900))
    assert few.low.tolist() != many.low.tolist()
    monkeypatch.setattr(common_nuclei, "SAMPLES_UP_TO", 100)
    limited = compare_on_common(matched, values, group, groups=9, samples=900, seed=1)
    assert limited.low.tolist() == few.low.tolist()


# --- from objects.csv -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def board(made: DemoPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of 'leaderboard' for the demo, not to be changed."""
    folder = tmp_path_factory.mktemp("board")
    assert leaderboard(made.challenge, made.challenge.parent / "submissions", folder) == 0
    return folder


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
                assert got["low"] <= got["difference"] <= got["high"]
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
                assert text == f"{got['ahead']}: matched more"
            else:
                ends = sorted(abs(end) for end in (got["low"], got["high"]))
                assert text == f"{got['ahead']} by {abs(got['difference']):.4f} ({ends[0]:.4f} to {ends[1]:.4f})"
    assert rank(tmp_path, "--challenge", made.challenge, "--results", board)[0] == 0
    printed = capsys.readouterr().out
    assert "Pairs of teams on their common nuclei" in printed
    assert "matched more" in printed


def test_an_interval_around_zero_is_marked(board: Path) -> None:
    document = found_in(board)
    pair = next(pair for pair in document["common_nuclei"]["pairs"] if pair["by"] == "quality")
    pair["measures"][0] |= {"difference": -0.01, "low": -0.03, "high": 0.02, "ahead": pair["second"]}
    pair["measures"][1] |= {"difference": None, "low": None, "high": None, "ahead": None}
    rows = [texts_of(row) for row in part(leaderboard_page(document), "common-pairs").rows]
    (row,) = [row for row in rows if "(?)" in str(row[4])]
    assert row[4] == f"{pair['second']} by 0.0100 (-0.0200 to 0.0300) (?)"
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
