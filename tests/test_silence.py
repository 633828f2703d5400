"""Silence does not pay: floors before ranks, an empty case that costs what a missing one costs, and what is said of "
"it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import METHODS, ranking_by, score_table
from findings import Bench
from hypothesis import given
from hypothesis import strategies as st
from made_counts import counts_of
from pictures import nuclei, read_drawings
from scipy.io import loadmat, savemat

from evaluation import Challenge
from evaluation.board.board import build_board, rank_scores, score_and_rank
from evaluation.board.document import leaderboard_document
from evaluation.board.ranked_table import compare_teams, rank_table
from evaluation.board.rules import gameable_ranking
from evaluation.board.score_csv import ScoresInFile
from evaluation.board.team_scores import plan_columns, team_of_documents
from evaluation.challenge import preset_names
from evaluation.challenge.rules import RankingRules
from evaluation.findings.errors import ChallengeBroken, WrongUsage
from evaluation.folders.demo import DemoPaths
from evaluation.platform.phase import phase_of
from evaluation.report.leaderboard import ranking_section
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.score import Result, check_columns
from nuclei_metrics.aggregation.units import is_empty
from nuclei_metrics.model import Instances, ScoreTable
from nuclei_metrics.ranking.methods import select_teams
from nuclei_metrics.ranking.stability import sample_means, sample_weights

# --- floors -----------------------------------------------------------------------------------------------------------


FLOOR_OF_TABLE = ({"path": "f.f1.pooled", "at_least": 0.5},)


def rules_of(**settings: Any) -> RankingRules:
    return RankingRules.model_validate(ranking_by("a.b.c", "d.e.f", require=FLOOR_OF_TABLE) | settings)


def table_of(by_unit: Any, floors: Any) -> ScoreTable:
    """``by_unit[team][column][unit]``, and what each team has where 0.5 is the floor."""
    floor_values = np.array(floors, float)[:, None]
    more = {"floors": ("f.f1.pooled",), "at_least": (0.5,), "floor_values": floor_values}
    return score_table(by_unit, columns=("a.b.c", "d.e.f"), weights=[1.0, 2.0], **more)


@st.composite
def tables(draw: Any) -> ScoreTable:
    teams, units = draw(st.integers(1, 6)), draw(st.integers(2, 4))
    value = st.sampled_from([0.1, 0.4, 0.4, 0.6, 0.9])
    by_unit = [[[draw(value) for _ in range(units)] for _ in range(2)] for _ in range(teams)]
    return table_of(by_unit, [draw(st.sampled_from([0.2, 0.5, 0.8, np.nan])) for _ in range(teams)])


@given(
    tables(),
    st.sampled_from([of for of in METHODS if of != "absolute"]),
    st.sampled_from(["min", "average", "dense"]),
    st.booleans(),
)
def test_teams_below_a_floor_stand_behind_all_others_each_ranked_as_if_the_others_were_not_there(
    table: ScoreTable, method: Any, ties: Any, ex_aequo: bool
) -> None:
    rules = rules_of(method=method, ties=ties, ex_aequo=ex_aequo, samples=100)
    below = ~(table.floor_values[:, 0] >= 0.5)
    board = build_board(table, rules)
    place = {row.name: row.position for row in board.teams}
    before = int((~below).sum())
    assert all((place[name] > before) == is_below for name, is_below in zip(table.teams, below, strict=True))
    for part, offset in ((~below, 0), (below, before)):
        if part.any() and not ex_aequo:  # which differences are significant is tested among all teams
            alone = build_board(select_teams(table, part), rules)
            assert {row.name: row.position + offset for row in alone.teams} == {
                name: place[name] for name in np.array(table.teams)[part]
            }
    positions, _ = rank_table(table, rules, compare_teams(table, rules))
    assert dict(zip(table.teams, positions.tolist(), strict=True)) == place
    assert [row.name for row in board.teams] == sorted(place, key=lambda name: (place[name], name))


def test_the_best_values_do_not_help_below_the_floor_in_samples_and_patients_either() -> None:
    best = [[0.9, 0.9, 0.9]] * 2
    table = table_of([best, [[0.5, 0.6, 0.7]] * 2, [[0.4, 0.4, 0.8]] * 2], [0.1, 0.8, 0.7])
    values = np.moveaxis(sample_means(table.by_unit, sample_weights(3, 1000, 1)), 0, 1)
    floors = np.broadcast_to(table.floor_values[:, None], (*values.shape[:2], 1))  # the same in every sample
    board = build_board(replace(table, samples=np.concatenate([values, floors], axis=2)), rules_of())
    last = board.teams[-1]
    assert (last.name, last.position, last.below_floor, last.probability_of_first) == ("team 0", 3, True, 0)
    assert last.rank_interval is not None and last.rank_interval["low"] == 3
    assert last.unit_places.tolist() == [3, 3, 3]
    assert ([cell.rank for cell in last.columns], last.combined) == ([3, 3], 9)


def test_a_floor_is_met_at_exactly_its_value_and_not_without_one() -> None:
    table = table_of([[[0.1, 0.1]] * 2, [[0.9, 0.9]] * 2, [[0.8, 0.8]] * 2], [0.5, np.nan, 0.499999])
    assert table.below_floor().tolist() == [False, True, True]
    assert [row.name for row in build_board(table, rules_of()).teams] == ["team 0", "team 1", "team 2"]


def test_it_is_said_who_stands_behind_and_why() -> None:
    board = build_board(table_of([[[0.9, 0.9]] * 2, [[0.5, 0.6]] * 2], [0.1, 0.8]), rules_of())
    assert board.ranking["in_words"].startswith("Teams without f.f1.pooled of at least 0.5 rank after all other teams.")
    document = leaderboard_document(board)
    (table,) = [block for block in ranking_section(document).blocks if getattr(block, "anchor", "") == "floors"]
    assert table.note == "Teams without f F1 of at least 0.5 rank after all other teams."
    assert [(row[0], row[1].value, row[2].text) for row in table.rows] == [("team 0", 2, "0.1000")]
    assert document["ranking"]["require"] == [{"path": "f.f1.pooled", "at_least": 0.5}]
    assert [(team["name"], team["floors"], team["below_floor"]) for team in document["teams"]] == [
        ("team 1", [0.8], False),
        ("team 0", [0.1], True),
    ]


def test_a_table_of_scores_can_have_floors_on_its_columns_only() -> None:
    table = replace(table_of([[[0.9, 0.9]] * 2, [[0.5, 0.6]] * 2], [0, 0]), floors=(), at_least=(), floor_values=None)
    found = ScoresInFile(table, "cases", ())
    board = rank_scores(found, rules_of(require=({"path": "a.b.c", "at_least": 0.7},)), None)
    assert [row.below_floor for row in board.teams] == [False, True]
    with pytest.raises(WrongUsage, match="missing-metric"):
        rank_scores(found, rules_of(), None)


@pytest.mark.parametrize("floor, code, got", [
    ({"path": "detection.f1.pooled", "at_least": 1.5}, "invalid-rule", "1.5"),
    ({"path": "detection.f1.pooled", "at_least": 0}, "invalid-rule", "0"),
    ({"path": "detection.f2.pooled", "at_least": 0.5}, "invalid-rule", "detection.f2.pooled"),
    ({"path": "segmentation.hausdorff_px.pooled", "at_least": 0.5}, "contradictory-rules", "a minimum of"),
    ({"path": "detection.f1.pooled"}, "missing-rule", "missing"),
    ({"path": "detection.f1.pooled", "at_most": 0.5, "at_least": 0.5}, "unknown-key", "an unknown key"),
])  # fmt: skip
def test_a_floor_that_makes_no_sense_is_refused(floor: dict[str, Any], code: str, got: str) -> None:
    with pytest.raises(ChallengeBroken) as broken:
        check_columns(Challenge.from_preset("monusac2020", name="x", ranking={"require": [floor]}))
    (finding,) = broken.value.findings
    assert finding.code == code
    assert finding.where.startswith("challenge.toml: ranking.require")
    assert got in finding.got


# --- an empty case costs what a missing one costs ---------------------------------------------------------------------

PICTURE = """
aa.bb  aa.bb
aa.BB  aa.BB

cc.dd  cc...
EE.ff  ..EE.

gg.hh  gg.hh
II.jj  II.j.

....k  ....k
"""


def challenge_of(undefined: str) -> Challenge:
    return Challenge.from_preset(
        "monusac2020",
        name="silence",
        classes=[{"name": "lymphocyte"}, {"name": "tumor"}],
        metrics={
            "families": ["detection", "classification", "segmentation", "panoptic", "covered", "overall", "overlap"],
            "coverage": 0.5,
            "distance_cap_px": 5.0,
        },
        aggregation={"unit": "group", "undefined": undefined},
    )


def scored(undefined: str, silent: dict[int, str]) -> Result:
    """The picture with some images emptied ("empty") or not submitted ("missing"); two patients."""
    images: dict[str, tuple[Instances, Instances | None]] = {}
    for index, drawing in enumerate(read_drawings(PICTURE)):
        reference, prediction = nuclei(drawing.reference), nuclei(drawing.prediction)
        if index in silent:
            empty = nuclei(np.full(drawing.reference.shape, "."))
            images[f"image_{index}"] = reference, empty if silent[index] == "empty" else None
        else:
            images[f"image_{index}"] = reference, prediction
    return score_instances(challenge_of(undefined), images, groups={f"image_{n}": f"P{n // 2}" for n in range(4)})


def numbers(result: Result) -> dict[str, Any]:
    return {key: of for key, of in result.metrics.items() if key not in ("challenge", "software")}


@pytest.mark.parametrize("silent", [(1,), (0, 1), (3,), (0, 1, 2, 3)])
def test_under_worst_an_empty_case_costs_what_a_missing_one_costs_in_every_score(silent: tuple[int, ...]) -> None:
    empty, missing = (scored("worst", dict.fromkeys(silent, kind)) for kind in ("empty", "missing"))
    assert numbers(empty) == numbers(missing)
    names = empty.challenge.ranking.paths
    tables = [
        team_of_documents(
            "team", of.challenge, plan_columns(of.challenge, of.challenge.ranking.paths), of.metrics, of.details
        ).by_unit
        for of in (empty, missing)
    ]
    np.testing.assert_array_equal(*tables)
    assert not np.isnan(tables[0]).any(), names  # every patient stays in the tests


def test_under_skip_existing_scores_keep_their_formula() -> None:
    empty, missing = (scored("skip", {1: kind}) for kind in ("empty", "missing"))
    path = "segmentation.iou.group_mean"
    assert empty.value(path) > missing.value(path)
    for path in ("covered.iou.group_mean", "overall.iou.group_mean", "covered.class_recall.group_mean"):
        assert empty.value(path) == missing.value(path)


def test_a_case_without_reference_nuclei_may_be_empty() -> None:
    assert not is_empty(counts_of([[0, 0], [0, 0]]))
    assert is_empty(counts_of([[0, 0], [2, 0]]))
    assert not is_empty(counts_of([[0, 1], [2, 0]]))
    assert not is_empty(replace(counts_of([[0, 0], [2, 0]]), missing=True))


# --- what is said of a ranking that can be gamed ----------------------------------------------------------------------


def findings_of(*paths: str, require: tuple[Any, ...] = ()) -> list[str]:
    ranking = RankingRules.model_validate(ranking_by(*paths, require=require))
    return [str(finding) for finding in gameable_ranking(challenge_of("skip").model_copy(update={"ranking": ranking}))]


FLOOR = ({"path": "detection.f1.group_mean", "at_least": 0.5},)


F1, RECALL = "detection.f1.pooled", {"path": "detection.recall.pooled", "at_least": 0.5}


@pytest.mark.parametrize("paths, require, told", [
    ([F1, "segmentation.iou.pooled", "classification.mcc.pooled"], (),
     "do not worsen 'segmentation.iou.pooled' and 'classification.mcc.pooled'"),
    ([F1, "panoptic.pq.pooled", "overall.iou.pooled"], (), ""),
    ([F1, "covered.iou.pooled"], (), "a false positive costs nothing in 'covered.iou.pooled'"),
    ([F1, "covered.iou.pooled"], FLOOR, ""),
    ([F1], (RECALL,), "a minimum of 'detection.recall.pooled', which copies of nuclei reach"),
    ([F1], (RECALL, *FLOOR), ""),
])  # fmt: skip
def test_a_ranking_that_silence_or_copies_win_is_told(paths: list[str], require: tuple[Any, ...], told: str) -> None:
    assert [told in line for line in findings_of(*paths, require=require)] == ([True] if told else [])


def test_published_presets_that_can_be_gamed_say_so() -> None:
    flagged = {name for name in preset_names() if gameable_ranking(Challenge.from_preset(name, name=name))}
    assert flagged == {"disentangled", "monusac2020", "nucls"}


def test_the_platform_knows_no_minimum() -> None:
    challenge = Challenge.from_preset("monusac2020", name="x", ranking={"require": list(FLOOR)})
    assert any("ignores the minimum" in line for line in phase_of(challenge).document()["explanation"])


def test_init_leaderboard_and_audit_say_that_a_ranking_can_be_gamed(bench: Bench) -> None:
    bench.make("label_image by class", ranking=ranking_by("segmentation.iou.pooled"))
    shutil.copytree("submission", "submissions/alpha")
    shutil.copytree("submission", "submissions/beta")
    where = ("--challenge", "challenge", "--submissions", "submissions", "--workers", 1, "--output")
    assert "[gameable-ranking] challenge.toml: ranking.columns" in bench.run("leaderboard", *where, "board")
    (line,) = json.loads(Path("board/leaderboard.json").read_text())["findings"]
    assert "'segmentation.iou.pooled'" in line
    assert "false negatives do not worsen 'segmentation.iou.pooled'" in bench.run("audit", *where, "audit")
    assert "[gameable-ranking]" in bench.run("init", "--preset", "monusac2020", "new")
    assert "[gameable-ranking]" not in bench.run("init", "--preset", "dsb2018", "other")


# --- the demo ---------------------------------------------------------------------------------------------------------


def test_a_team_that_keeps_one_nucleus_of_each_image_does_not_win_the_demo(own_demo: DemoPaths, tmp_path: Path) -> None:
    """Under monusac2020 the largest nucleus of each image of 'outliner' wins; under the preset of the demo it is "
    "last."""
    silent = tmp_path / "submissions" / "silent"
    shutil.copytree(own_demo.submissions["outliner"], silent)
    for case in sorted({path.parent.parent for path in silent.glob("*/*/*/1.mat")}):
        masks = {path: loadmat(path)["n_ary_mask"] for path in sorted(case.glob("*/1.mat"))}
        sizes = {path: np.bincount(mask.ravel())[1:].max(initial=0) for path, mask in masks.items()}
        largest = max(sizes, key=sizes.__getitem__)
        for path, mask in masks.items():
            keep = mask == 1 + np.bincount(mask.ravel())[1:].argmax() if path == largest else np.zeros(mask.shape, bool)
            savemat(path, {"n_ary_mask": keep.astype(np.int32)})
    board = score_and_rank(own_demo.challenge, tmp_path / "submissions", tmp_path / "board", workers=1)
    assert [row.name for row in board.teams] == ["finder", "namer", "outliner", "silent"]
    rules = own_demo.challenge / "challenge.toml"
    rules.write_text(rules.read_text().replace('"recommended"', '"monusac2020"'))
    board = score_and_rank(own_demo.challenge, tmp_path / "submissions", tmp_path / "published", workers=1)
    assert board.teams[0].name == "silent"
