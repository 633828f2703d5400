"""The page of one submission: what stands on it is what the documents say, for every kind of challenge.

What a whole page says is golden (test_golden.py); here are values that its challenge does not have.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
import pytest
from test_overlay import judged_case

from evaluation import Challenge, instances_from_labels, score_instances
from evaluation.files.results.documents import as_json
from evaluation.report import nuclei as nucleus_browser
from evaluation.report.nuclei import NucleusTable, TeamNuclei, browser_of, browser_section, lost_px, size_table
from evaluation.report.page import Cell, Figure, Page, Section, Table, Text, Tiles
from evaluation.report.pictures import Scene, Window, lost_in_rows, scene_rows
from evaluation.report.result import REASONS, ResultDocuments
from evaluation.report.submission import ReadResult, submission_page
from nuclei_metrics.model import UndefinedReason
from nuclei_metrics.model.counts import NoInterval


def squares(*places: tuple[int, int, int, int]):
    """Nuclei as squares in an image of 40 x 60 px: (row, column, side, class)."""
    labels = np.zeros((40, 60), np.int64)
    for number, (row, column, side, _) in enumerate(places, start=1):
        labels[row : row + side, column : column + side] = number
    return instances_from_labels(labels, [place[3] for place in places])


REFERENCE = squares((2, 2, 6, 1), (2, 20, 8, 2), (20, 2, 10, 1), (20, 30, 5, 3))
PREDICTION = squares((2, 2, 6, 1), (2, 20, 7, 2), (20, 2, 10, 2), (30, 45, 5, 1))
IOU = {"name": "iou_above", "rule": "iou_above", "threshold": 0.5}
Documents = tuple[dict[str, Any], dict[str, Any]]


def documents(cases: dict[str, tuple[Any, Any]], **rules: Any) -> Documents:
    """metrics.json and details.json; a case belongs to the patient that the first two letters name."""
    challenge = Challenge.from_preset("monusac2020", name="squares", **rules)
    result = score_instances(challenge, cases, groups={name: name[:2] for name in cases})
    return json.loads(as_json(result.metrics)), json.loads(as_json(result.details))


@pytest.fixture
def three() -> Documents:
    return documents(
        {"P1_a": (REFERENCE, PREDICTION), "P1_b": (PREDICTION, PREDICTION), "P2_a": (REFERENCE, squares())}
    )


def page_of(metrics: dict[str, Any], details: dict[str, Any] | None = None, **more: Any) -> Page:
    return submission_page(ReadResult(ResultDocuments(metrics, details), **more))


def section(page: Page, anchor: str) -> Section:
    return next(section for section in page.sections if section.anchor == anchor)


def table(page: Page, anchor: str) -> Table:
    blocks = [block for section in page.sections for block in section.blocks]
    return next(block for block in blocks if isinstance(block, Table) and block.anchor == anchor)


def tiles(page: Page) -> Tiles:
    return next(block for block in section(page, "skills").blocks if isinstance(block, Tiles))


def figure(page: Page, anchor: str) -> Figure | None:
    return next((figure for figure in page.figures() if figure.anchor == anchor), None)


def plain(cell: Any) -> Any:
    return cell.value if isinstance(cell, Cell) else cell


# --- the numbers are those of the documents ---------------------------------------------------------------------------


def test_patients_stand_above_their_cases_and_lead_to_the_first(three: Documents) -> None:
    page = page_of(*three)
    names = {plain(row[0]): row[0].name for row in table(page, "cases").rows}
    rows = [(plain(row[0]), row[0].anchor, row[-1], plain(row[1])) for row in table(page, "groups").rows]
    f1 = [three[1]["groups"][name]["rules"]["iou_above"]["scores"]["detection"]["f1"] for name in ("P1", "P2")]
    assert rows == [("P1", names["P1_a"], 2, f1[0]), ("P2", names["P2_a"], 1, f1[1])]


def test_the_confusion_matrix_has_rows_of_the_reference_and_none_last(three: Documents) -> None:
    """By hand: P1_a calls one epithelial nucleus a lymphocyte, misses the neutrophil, adds one; P2 misses all."""
    found = table(page_of(*three), "confusion")
    names = ["Epithelial", "Lymphocyte", "Neutrophil", "Macrophage", "none"]
    assert [column.title for column in found.columns[1:]] == [row[0] for row in found.rows] == names
    assert [[plain(cell) for cell in row[1:]] for row in found.rows] == [
        [3, 1, 0, 0, 2], [0, 3, 0, 0, 1], [0, 0, 0, 0, 2], [0, 0, 0, 0, 0], [1, 0, 0, 0, None]
    ]  # fmt: skip
    assert [cell.text for cell in found.rows[0][1:]] == ["3 (50.0%)", "1 (16.7%)", "0", "0", "2 (33.3%)"]
    assert {cell.text for cell in found.rows[3][1:]} == {"0"}


def test_only_true_shares_read_all_or_none(three: Documents) -> None:
    """19,999 of 20,000 are not 100.0%, and one of them is not 0.0%."""
    matrix = [[0] * 5, [0, 19_999, 1, 0, 0], [0, 0, 7, 0, 0], *[[0] * 5] * 2]
    three[1]["pooled"]["rules"]["iou_above"]["counts"]["confusion_matrix"] = matrix
    rows = table(page_of(*three), "confusion").rows
    assert [cell.text for cell in (*rows[0][1:3], rows[1][2])] == ["19,999 (> 99.9%)", "1 (< 0.1%)", "7 (100%)"]


def test_every_reason_has_words() -> None:
    of_pages = {"needs-details", "no-value"}
    assert {*get_args(UndefinedReason), *get_args(NoInterval), *of_pages} == set(REASONS)


def test_a_public_page_shows_the_aggregation_of_the_intervals() -> None:
    """metrics.json does not name the unit of the challenge; intervals are given for it alone."""
    metrics, _ = documents({"P1_a": (REFERENCE, PREDICTION)})
    assert ResultDocuments(metrics).main == "group_mean"
    metrics["confidence_intervals"] = {"detection": {"f1": {"pooled": {"low": 0.25, "high": 0.75}}}}
    assert ResultDocuments(metrics).main == "pooled"
    assert "0.250 to 0.750" in tiles(page_of(metrics)).tiles[0].detail
    rows = {row[0]: row[1:4] for row in table(page_of(metrics), "scores").rows}
    assert rows["detection.f1"] == (metrics["detection"]["f1"]["pooled"], 0.25, 0.75)


def test_the_place_among_earlier_results_is_shown(three: Documents) -> None:
    metrics, details = three
    rank = {"detection": {"f1": {"group_mean": 2.0}}}
    metrics["leaderboard"] = {"position": 3.0, "sum_of_ranks": 7.0, "submissions": 12, "rank": rank}
    page = page_of(metrics, details)
    last = tiles(page).tiles[-1]
    assert (last.value, last.detail) == ("3", "of 12 ranked, including this submission")
    score = metrics["detection"]["f1"]["group_mean"]
    assert table(page, "ranks").rows == (("detection.f1.group_mean", score, Cell(2.0)),)


def test_errors_and_what_they_cost_are_those_of_the_document(three: Documents) -> None:
    given = (("wrong_class", 2, -0.0625), ("split", 0, 0.5), ("missed", 3, 0.125))
    kinds = [
        {"kind": kind, "reference": number, "prediction": 0, "cost": {"panoptic.pq.group_mean": cost}}
        for kind, number, cost in given
    ]
    as_is = {"panoptic.pq.group_mean": 0.25, "detection.f1.group_mean": None}
    found = table(page_of(*three, costs={"as_is": as_is, "kinds": kinds}), "errors")
    assert [column.title for column in found.columns] == ["error", "PQ lost", "reference nuclei", "predictions"]
    assert [[plain(cell) for cell in row] for row in found.rows] == [
        ["false negative", 0.125, 3, 0],
        ["wrong class", -0.0625, 2, 0],
    ]


# --- every kind of challenge ------------------------------------------------------------------------------------------


def test_nothing_at_all_makes_a_page_with_sentences_instead_of_plots() -> None:
    nothing = NucleusTable(np.empty(0, np.int64), ("a",), np.empty(0, np.int64), np.empty(0), {"iou": np.empty(0)})
    page = page_of(*documents({"P1_a": (squares(), squares())}), nuclei=nothing)
    assert page.figures() == []
    assert any(isinstance(block, Text) for block in section(page, "size").blocks)
    assert {tile.value for tile in tiles(page).tiles} == {None}
    assert REASONS["no-instances"] in tiles(page).tiles[0].detail


def test_one_case_a_group_shows_cases_and_no_table_of_groups() -> None:
    page = page_of(*documents({"a": (REFERENCE, PREDICTION)}))
    assert section(page, "skills").lead.startswith("All numbers: mean over cases, under")
    cases = section(page, "cases-section")
    assert (cases.title, len(cases.blocks)) == ("Cases", 1)
    assert "patient" not in [column.title for column in table(page, "cases").columns]


@pytest.mark.parametrize("missing, words", [
    ((), "All cases were submitted."),
    ("a", "1 of 3 cases was not submitted."),
    ("ac", "2 of 3 cases were not submitted."),
])  # fmt: skip
def test_cases_that_were_not_submitted_are_counted(missing: str, words: str) -> None:
    page = page_of(*documents({f"P1_{name}": (REFERENCE, None if name in missing else PREDICTION) for name in "abc"}))
    assert words in [text for block in section(page, "undefined").blocks if isinstance(block, Text)
                     for text in block.paragraphs]  # fmt: skip


def test_of_many_cases_the_worst_are_listed(three: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.report.tables.ROWS_UP_TO", 50)
    cases = three[1]["cases"]
    for number in range(70):
        cases[f"P1_{number:04}"] = json.loads(json.dumps(cases["P1_a"]))
        cases[f"P1_{number:04}"]["rules"]["iou_above"]["scores"]["panoptic"]["pq"] = number / 100
    found = table(page_of(*three), "cases")
    assert {plain(row[0]) for row in found.rows} == {"P2_a", "P1_a", *(f"P1_{n:04}" for n in range(48))}
    assert found.caption.endswith("the worst PQ first")
    assert len(found.rows) == 50 and "The first 50 of 73 cases" in found.note


def test_scores_of_the_family_thresholds_are_drawn_as_they_stand() -> None:
    metrics_of = {"families": ["detection", "thresholds"], "boundary": "open", "iou_thresholds": [0.5, 0.725, 0.9]}
    cases = {"a": (REFERENCE, PREDICTION), "b": (REFERENCE, REFERENCE)}
    metrics, details = documents(cases, metrics=metrics_of, ranking=None)
    named = [metrics["thresholds"][f"f1_iou{key}"]["group_mean"] for key in ("50", "72_5", "90")]
    assert named[0] > named[2]
    for page in (page_of(metrics), page_of(metrics, details)):
        series = {one.name: [(dot.x, dot.y) for dot in one.dots] for one in figure(page, "score-by-threshold").series}
        assert set(series) == {"F1", "threat score", "precision", "recall"}
        assert series["F1"] == list(zip([0.5, 0.725, 0.9], named, strict=True))


def test_the_curve_of_quality_against_coverage_is_drawn_from_details(three: Documents) -> None:
    """Of four nuclei one is found with IoU 1, one with 9/16, two are missed: 1, 25/32, 25/48, 25/64."""
    families = ("detection", "classification", "segmentation", "covered")
    coverage = {"families": families, "coverage": 0.5, "distance_cap_px": 10.0, "measures": ("iou", "hausdorff_px")}
    reference = squares((2, 2, 4, 1), (2, 20, 4, 1), (20, 2, 4, 1), (20, 30, 4, 1))
    cases = {"P1_a": (reference, squares((2, 2, 4, 1), (2, 20, 3, 1)))}
    metrics, details = documents(cases, metrics=coverage)
    page = page_of(metrics, details)
    (line,) = figure(page, "coverage-scores").series
    values = {dot.x: dot.y for dot in line.dots}
    expected = [1, 25 / 32, 25 / 48, 25 / 64]
    assert [values[share] for share in (0.25, 0.5, 0.75, 1.0)] == pytest.approx(expected, abs=1e-6)
    (line,) = figure(page, "coverage-px").series
    curve, *_ = details["coverage_curves"]["rules"].values()
    assert [dot.y for dot in line.dots] == curve["hausdorff_px_class_mean"]
    assert figure(page_of(metrics), "coverage-scores") is figure(page_of(*three), "coverage-scores") is None


def test_one_nucleus_is_one_nucleus() -> None:
    """A verb agrees with its number, and one class is not the best and the worst."""
    metrics, details = documents({"a": (REFERENCE, PREDICTION)})
    counts = details["pooled"]["rules"]["iou_above"]["counts"]
    counts |= {"true_positives": 1, "false_negatives": 0, "false_positives": 1}
    counts["confusion_matrix"] = [[0] * 5, [0, 1, 0, 0, 0], *[[0] * 5] * 3]
    for of in metrics["panoptic"]["per_class"].values():
        of["pq"] = dict.fromkeys(of["pq"], 1.0)
    blocks = section(page_of(metrics, details), "skills").blocks
    words = " ".join(text for block in blocks for text in getattr(block, "paragraphs", ()))
    assert "1 of 1 reference nucleus is matched: 0 false negatives, 1 false positive." in words
    assert "1 of the matched nuclei has the right class." in words
    assert "By class" not in words


# --- nuclei -----------------------------------------------------------------------------------------------------------


def nuclei_of(**columns: Any) -> NucleusTable:
    """Nuclei of one case and class; without a state they are missed."""
    number = len(next(iter(columns.values())))
    nothing, zeros, empty = np.full(number, np.nan), np.zeros(number, np.int64), np.full(number, "")
    given = {
        "outcome": zeros + 1, "classes": ("a",), "reference_class": zeros, "reference_area": nothing, "measures": {},
        "cases": ("P1",), "case": zeros, "prediction_class": zeros, "prediction_area": nothing, "reference_id": empty,
        "prediction_id": empty,
    }  # fmt: skip
    return NucleusTable(**{**given, **columns})


def test_nuclei_are_counted_by_size(three: Documents) -> None:
    """Ten sizes, the smaller five missed: a row for each."""
    area = np.arange(10, 110, 10.0)
    iou = np.where(area > 50, area / 200, np.nan)
    missed = (area <= 50).astype(np.int64)
    nuclei = nuclei_of(outcome=missed, reference_area=area, measures={"iou": iou})
    rows = table(page_of(*three, nuclei=nuclei), "size-table").rows
    assert [(row[0], row[4], row[1]) for row in rows[4:6]] == [("50 to 50", 1, 0.0), ("60 to 60", 1, 100.0)]
    assert [row[2] for row in rows] == [None] * 5 + [0.3, 0.35, 0.4, 0.45, 0.5]


@pytest.mark.parametrize(("area", "sizes"), [([36.0] * 17 + [60, 50], [17, 2]), (range(40), [4] * 10), ([], [])])
def test_nuclei_of_equal_size_stay_together(area, sizes) -> None:
    """Boxes are often all alike: which tenth one came into would say where it stands in the file."""
    nuclei = nuclei_of(reference_area=np.array(area, float), measures={"iou": np.ones(len(area))})
    assert [row[-1] for row in size_table(nuclei).rows] == sizes


def test_what_is_lost_is_what_the_pixels_say() -> None:
    """A pair with 3 px on one side only, one of another class, a missed nucleus and a spurious one; poor outlines."""
    case = judged_case("aaaaaa.BBB.cc....", ".aaaaaabbb.....dd")
    assert lost_in_rows(case, scene_rows(case)).tolist() == [3, 2, 2, 2]  # "B" comes before "a"
    poor = judged_case("aaaa......", ".ddddddd..")
    assert lost_in_rows(poor, scene_rows(poor)).tolist() == [4, 7]
    outcome, iou = np.array([0, 0, 1, 2]), np.array([5 / 7, 1, np.nan, np.nan])
    reference, prediction = np.array([6, 3, 2, np.nan]), np.array([6, 3, np.nan, 2])
    areas = {"reference_area": reference, "prediction_area": prediction}
    wrong = np.array([0, 1, 2, 3])
    assert lost_px(nuclei_of(outcome=outcome, **areas, measures={"iou": iou}), wrong).tolist() == [2, 3, 2, 2]
    assert np.isnan(lost_px(nuclei_of(outcome=outcome), wrong)).all()  # points
    assert np.isnan(lost_px(nuclei_of(outcome=outcome[:1], reference_area=reference[:1]), wrong[:1])).all()  # no IoU


def test_of_many_nuclei_those_that_lost_most_are_kept_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nucleus_browser, "NUCLEI_UP_TO", 3)
    block = browser_of([TeamNuclei("", nuclei_of(reference_area=np.array([5.0, 50, 7, 70, 9])), {})], IOU)
    assert block.data["columns"]["loss"] == [50, 70, 9]
    assert block.note == "Here: the 3 of 5 nuclei with the largest loss."
    assert browser_section([TeamNuclei("", nuclei_of(outcome=np.empty(0, np.int64)), {})], IOU) == []


def test_cases_whose_outlines_have_no_room_are_not_drawn_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nuclei of 17 characters have room, the three of the second case have none."""
    monkeypatch.setattr(nucleus_browser, "OUTLINES_UP_TO", 40)
    nuclei = nuclei_of(reference_area=np.arange(5.0) + 1, cases=("a", "b"), case=np.array([0, 0, 1, 1, 1]))
    windows, outline = (Window(0, 0, 9, 9, 1, b"x"),), "1 0 2 1 -1 1 -1 2"
    scenes = {
        name: Scene(name, (9, 9), windows, True, (outline,) * many, ("",) * many) for name, many in (("a", 2), ("b", 3))
    }
    block = browser_of([TeamNuclei("", nuclei, scenes)], IOU)
    assert block.data["outlines"] == ["", outline]
    assert [bool(text) for text in block.data["columns"]["reference"]] == [True, True, False, False, False]
    assert [(case["size"], len(case["windows"])) for case in block.data["cases"]] == [([9, 9], 1), (None, 0)]
    assert block.note == "The first 1 of 2 cases are drawn; the tables list all cases."
