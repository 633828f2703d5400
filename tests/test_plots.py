"""The plots of the papers: every mark is a number of the results, and fits and correlations are those of scipy."""

from __future__ import annotations

import json
import re
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import directed_hausdorff
from scipy.stats import kendalltau, linregress

import evaluation
from evaluation.board.stored import read_details
from evaluation.board.titles import metric_title
from evaluation.commands.main import run
from evaluation.folders.demo import DemoPaths
from evaluation.report.figures import svg_of
from evaluation.report.folders import page_of_results
from evaluation.report.page import Figure, Page
from evaluation.report.plots import correlation_figure, log_linear_fit
from evaluation.report.result import ResultDocuments

PATHS = ("detection.f1", "panoptic.pq", "segmentation.iou", "segmentation.hausdorff_px")


def figure(page: Page, anchor: str) -> Figure:
    (found,) = (one for one in page.figures() if one.anchor == anchor)
    return found


def results_of(values: dict[str, Any]) -> dict[str, ResultDocuments]:
    """Results of as many teams as there are values at each path, as means over patients."""
    results = {}
    for team in range(len(next(iter(values.values())))):
        document: dict[str, Any] = {"undefined": {}}
        for path, column in values.items():
            family, name = path.split(".")
            document.setdefault(family, {})[name] = {"group_mean": column[team]}
        results[f"team {team}"] = ResultDocuments(document)
    return results


def taus_of(drawn: Figure) -> dict[frozenset[str], float]:
    """Kendall's tau of each pair of metrics, as the numbers of the figure say it."""
    dots = [dot for one in drawn.series if one.name for dot in one.dots]
    assert all(abs(float(dot.text.removeprefix("tau "))) == pytest.approx(dot.size, abs=0.00501) for dot in dots)
    signs = {"same order": 1, "reversed order": -1}
    return {frozenset((dot.x, dot.y)): signs[one.name] * (dot.size or 0.0)
            for one in drawn.series if one.name for dot in one.dots}  # fmt: skip


# --- how metrics agree ------------------------------------------------------------------------------------------------


def test_metrics_agree_as_scipy_says() -> None:
    rng = np.random.default_rng(3)
    values = {path: rng.integers(0, 9, 12) / 10 for path in PATHS}  # with ties
    drawn = correlation_figure(results_of(values), [], "group_mean")
    assert drawn is not None
    taus = taus_of(drawn)
    assert len(taus) == 6
    for first, second in combinations(PATHS, 2):
        expected = kendalltau(values[first], values[second]).statistic
        expected *= -1 if second.endswith("hausdorff_px") else 1  # a lower distance is better
        assert taus[frozenset(map(metric_title, (first, second)))] == pytest.approx(expected), (first, second)
    assert svg_of(drawn).count("<text") >= 2 * len(PATHS)


@pytest.mark.real_data
def test_the_published_teams_stand_otherwise_by_each_metric(shared_data: Path) -> None:
    """Tables 1, 2 and 4 of the lessons from MoNuSAC: four teams, dilated borders, strict IoU."""
    tables = json.loads((shared_data / "lessons_from_monusac_tables.json").read_text())
    condition = "border-dilated strict-iou"
    published = {
        "panoptic.pq": tables["table1_pq_patient_mean"][condition],
        "detection.f1": [row[3] for row in tables["detection_patient_mean_threat_precision_recall_f1"][condition]],
        "segmentation.hausdorff_px": tables["table4_hausdorff_px_patient_mean"][condition],
    }
    drawn = correlation_figure(results_of(published), [], "group_mean")
    assert drawn is not None
    taus = taus_of(drawn)
    # PQ orders 1 2 4 3, F1 4 2 1 3, Hausdorff 2 4 1 3: of six pairs of teams 3, 2 and 1 are turned
    assert taus[frozenset(("PQ", "detection F1"))] == pytest.approx(0)
    assert taus[frozenset(("PQ", "Hausdorff distance, px"))] == pytest.approx(2 / 6)
    assert taus[frozenset(("detection F1", "Hausdorff distance, px"))] == pytest.approx(4 / 6)


def test_two_teams_or_one_metric_have_no_agreement() -> None:
    two = {path: [0.1, 0.2] for path in PATHS}
    assert correlation_figure(results_of(two), [], "group_mean") is None
    alike = {"detection.f1": [0.1, 0.2, 0.3], "panoptic.pq": [0.5, 0.5, 0.5]}
    assert correlation_figure(results_of(alike), [], "group_mean") is None


# --- patients in pairs of scores --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def board(demo: DemoPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    where = ["--challenge", str(demo.challenge), "--submissions", str(next(iter(demo.submissions.values())).parent)]
    assert run(["leaderboard", *where, "--output", str(folder), "--workers", "1"]) == 0
    return folder


@pytest.mark.parametrize(
    ("anchor", "x", "y"),
    [("quality", "panoptic.rq", "panoptic.sq"), ("precision-recall", "detection.recall", "detection.precision")],
)
def test_a_dot_is_a_patient_of_a_team_and_a_symbol_its_mean(board: Path, anchor: str, x: str, y: str) -> None:
    drawn = figure(page_of_results(board), anchor)
    for team in ("finder", "namer", "outliner"):
        details = read_details(board / "results" / team / "details.json", where="details")
        metrics = json.loads((board / "results" / team / "metrics.json").read_text())
        expected = set()
        for patient, entry in details["groups"].items():
            scores = entry["rules"]["iou_above"]["scores"]
            first, second = (scores[path.split(".")[0]][path.split(".")[1]] for path in (x, y))
            expected.add((patient, first, second))
        (dots,) = (one for one in drawn.series if one.name == team)
        assert {(dot.text, dot.x, dot.y) for dot in dots.dots} == expected and len(expected) == 4
        (mean,) = (one.dots[0] for one in drawn.series if one.name.startswith(f"{team}:"))
        assert (mean.x, mean.y) == tuple(
            metrics[path.split(".")[0]][path.split(".")[1]]["group_mean"] for path in (x, y)
        )


def test_an_image_without_a_prediction_is_drawn_as_it_enters_the_mean() -> None:
    """One of two nuclei is found in the first image, none in the second; the third is empty on both sides."""
    nuclei, first, nothing = np.zeros((3, 20, 20), int)
    nuclei[2:8, 2:8], nuclei[12:18, 2:8], first[2:8, 2:8] = 1, 2, 1
    sides = {"a": nuclei, "b": nuclei, "c": nothing}, {"a": first, "b": nothing, "c": nothing}
    page = evaluation.compare(*sides).page()
    for anchor, expected in (
        ("quality", {"a": (2 / 3, 1), "b": (0, 0)}),
        ("precision-recall", {"a": (0.5, 1), "b": (0, 0)}),
    ):
        mean, dots = figure(page, anchor).series
        drawn = {dot.text: (dot.x, dot.y) for dot in dots.dots}
        assert drawn == {name: pytest.approx(pair, abs=1e-6) for name, pair in expected.items()}
        assert (mean.dots[0].x, mean.dots[0].y) == pytest.approx(np.mean([*expected.values()], axis=0), abs=1e-6)


def test_hidden_names_of_patients_stay_hidden(board: Path, tmp_path: Path) -> None:
    shutil.copytree(board, tmp_path / "hidden")
    document = json.loads((board / "leaderboard.json").read_text())
    (tmp_path / "hidden" / "leaderboard.json").write_text(json.dumps({**document, "unit_names": ["1", "2", "3", "4"]}))
    drawn = figure(page_of_results(tmp_path / "hidden"), "quality")
    assert {dot.text for one in drawn.series for dot in one.dots} == {"1", "2", "3", "4", "mean"}


def test_a_board_without_details_has_no_patients(board: Path, tmp_path: Path) -> None:
    (tmp_path / "leaderboard.json").write_bytes((board / "leaderboard.json").read_bytes())
    anchors = [one.anchor for one in page_of_results(tmp_path).figures()]
    assert "quality" not in anchors and "metric-agreement" not in anchors and anchors


# --- outlines of two annotators ---------------------------------------------------------------------------------------


def test_annotators_are_compared_over_all_overlapping_pairs() -> None:
    """Centred squares of sides l and l + 2: IoU l² / (l + 2)² grows with the area, the distance stays √2 (S2, 5.1)."""
    sides = (3, 4, 5, 6, 8, 9, 11, 14, 17, 20)
    first, second = np.zeros((2, 60, 300), int)
    for number, side in enumerate(sides, start=1):
        left = 25 * number
        first[20 : 20 + side, left : left + side] = number
        second[19 : 21 + side, left - 1 : left + side + 1] = number
    page = evaluation.compare(first, second, match="any_overlap").page()
    boxes = figure(page, "iou-by-area-1").series
    found = [dot.y for one in boxes for dot in one.dots]
    assert found == pytest.approx([side**2 / (side + 2) ** 2 for side in sides], abs=1e-6)
    assert [one.name for one in boxes] == ["9 to 64", "81 to 400"]
    pairs = figure(page, "iou-by-hausdorff-1").series[0]
    assert [dot.y for dot in pairs.dots] == pytest.approx([2**0.5] * len(sides), abs=1e-6)
    corner = [np.argwhere(side == 1) for side in (first, second)]
    assert directed_hausdorff(*corner[::-1])[0] == pytest.approx(2**0.5)
    assert "100% of 10 pairs are within 3 px" in figure(page, "iou-by-hausdorff-1").description


def test_the_fit_is_the_regression_of_scipy(demo: DemoPaths) -> None:
    found = evaluation.compare(demo.challenge / "reference", demo.submissions["namer"], match="any_overlap")
    drawn = figure(found.page(), "iou-by-hausdorff-1")
    pairs, line, close = drawn.series
    x, y = (np.array([getattr(dot, axis) for dot in pairs.dots]) for axis in "xy")
    assert len(x) > 250 and x.min() < 0.2  # every pair that shares a pixel, not those above 0.5 alone
    expected = linregress(x, np.log(y))
    ends = np.array([[dot.x, dot.y] for dot in line.dots])
    assert ends[:, 1] == pytest.approx(np.exp(expected.intercept + expected.slope * ends[:, 0]))
    slope, intercept = abs(float(expected.slope)), float(expected.intercept)
    assert re.search(rf"ln\(distance\) = {intercept:.3f} − {slope:.3f} IoU", drawn.description)
    assert {dot.y for dot in close.dots} == {3}


def test_a_fit_leaves_out_identical_outlines_and_needs_three_pairs() -> None:
    iou, distance = np.array([0.2, 0.5, 0.8, 1.0, np.nan]), np.array([9.0, 4.0, 2.0, 0.0, 3.0])
    fit = log_linear_fit(iou, distance)
    assert fit is not None and fit.pairs == 3
    assert fit.slope == pytest.approx(linregress(iou[:3], np.log(distance[:3])).slope)
    assert log_linear_fit(iou[2:], distance[2:]) is None
    assert log_linear_fit(np.full(4, 0.5), np.arange(1.0, 5)) is None


def test_a_second_annotator_is_the_ceiling_and_neither_best_nor_ranked(demo: DemoPaths) -> None:
    models = {team: demo.submissions[team] for team in ("finder", "namer", "outliner")}
    found = evaluation.compare(demo.challenge / "reference", models, annotators=["outliner"])
    free = evaluation.compare(demo.challenge / "reference", models)
    assert max(models, key=lambda team: free.value("segmentation.iou", team) or 0) == "outliner"
    assert found.board is not None and free.board is not None
    assert [team.name for team in found.board.teams] == ["finder", "namer"] and len(free.board.teams) == 3
    assert [entry.name for entry in found.board.shown] == ["outliner"]
    assert {one.best for one in found.differences} <= {"finder", "namer"}
    assert "outliner" not in {one.model for one in found.differences}
    assert "namer  ○ outliner" in re.sub(" {3,}", "  ", repr(found.summary()))
    (table,) = (block for section in found.page().sections for block in section.blocks
                if getattr(block, "anchor", "") == "compared-scores")  # fmt: skip
    (row,) = (row for row in table.rows if row[0] == "Matched nuclei: IoU ↑")
    assert [column.title for column in table.columns][1:] == ["finder", "namer", "○ outliner"]
    assert [cell.tone for cell in row[1:]] == ["good", "plain", "plain"]
    lines = found.table().markdown().splitlines()
    assert "**" in lines[2] and lines[4].startswith("| ○ outliner") and "**" not in lines[4]
    with pytest.raises(ValueError, match="annotators: 'x' is no prediction"):
        evaluation.compare(demo.challenge / "reference", models, annotators=["x"])
