"""The page of a leaderboard: every number on it is one of leaderboard.json, or counted from it by hand here."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import EDGES, METHODS, SEPARATE, published_pq, ranked, table_of, values_of
from scipy.stats import kendalltau, rankdata

from evaluation.board.board import rank_scores
from evaluation.board.document import PAIRS_UP_TO, leaderboard_document, leaderboard_json
from evaluation.board.rules import load_ranked
from evaluation.board.score_csv import ScoresInFile
from evaluation.commands import main as cli
from evaluation.files.results.documents import as_json
from evaluation.folders.demo import DemoPaths
from evaluation.report.figures import difference_figure
from evaluation.report.html import page_html
from evaluation.report.leaderboard import leaderboard_page
from evaluation.report.page import Cell, Figure, Page, Table, Text
from evaluation.report.skills import read_results
from evaluation.scoring.street import score_submission
from nuclei_metrics.model import ScoreTable

NAN = float("nan")
HOSTILE = ["<img src=x onerror=alert(1)>", "<b>bold</b>", "</script><script>alert(2)</script>", "%{x} & 'quoted'\n"]


def document_of(table: ScoreTable, **rules: Any) -> dict[str, Any]:
    """What leaderboard.json holds, read back."""
    found: dict[str, Any] = json.loads(leaderboard_json(ranked(table, **rules)), parse_constant=pytest.fail)
    return found


def part(page: Page, anchor: str) -> Any:
    """The table or figure with an anchor."""
    (found,) = (
        block for section in page.sections for block in section.blocks if getattr(block, "anchor", "") == anchor
    )
    return found


def anchors(page: Page) -> list[str]:
    return [b.anchor for s in page.sections for b in s.blocks if isinstance(b, Table | Figure)]


def texts_of(row: tuple[Any, ...]) -> list[Any]:
    return [cell.text if isinstance(cell, Cell) else cell for cell in row]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Twenty teams in 25 patients and four columns, one of which is better when low."""
    rng = np.random.default_rng(7)
    values = 0.6 + rng.normal(0, 0.08, (1, 20, 1)) + rng.normal(0, 0.05, (4, 20, 25))
    table = table_of(values)
    table.higher_is_better[3] = False
    return document_of(table)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_each_subtask_has_a_ranking_by_the_sum_of_its_ranks() -> None:
    """Tables 2 and 4 of the lessons from MoNuSAC, dilated borders, strict IoU; IoU and Hausdorff share a prize."""
    published = {
        "detection.f1.group_mean": [0.889, 0.895, 0.799, 0.903],
        "classification.balanced_accuracy.group_mean": [0.89, 0.92, 0.91, 0.86],
        "segmentation.iou.group_mean": [0.799, 0.795, 0.795, 0.793],
        "segmentation.hausdorff_px.group_mean": [3.742, 3.602, 4.47, 3.702],
    }
    values = np.array(list(published.values()))
    table = table_of(values[..., None], columns=tuple(published), higher_is_better=np.array([True, True, True, False]))
    document = document_of(table)
    ranks = {
        path: rankdata(row if "hausdorff" in path else -row, "min")
        for path, row in published.items()
        for row in [np.array(row)]
    }
    segmentation = rankdata(ranks["segmentation.iou.group_mean"] + ranks["segmentation.hausdorff_px.group_mean"], "min")
    expected = {"detection": [3, 2, 4, 1], "classification": [3, 1, 2, 4], "segmentation": segmentation.tolist()}
    assert expected["segmentation"] == [2, 1, 3, 3]
    teams = [team["name"] for team in document["teams"]]
    found = {one["name"]: dict(zip(teams, one["places"], strict=True)) for one in document["subtasks"]}
    assert found == {
        name: {f"team {team}": place for team, place in enumerate(places)} for name, places in expected.items()
    }
    assert [len(one["columns"]) for one in document["subtasks"]] == [1, 1, 2]
    shown = part(leaderboard_page(document), "subtasks")
    assert [column.title for column in shown.columns] == ["team", *expected, "all"]
    assert values_of(shown.rows[0]) == ["team 1", 2, 1, 1, 1]


def test_one_subtask_alone_has_no_ranking_of_its_own(document) -> None:
    assert document["subtasks"] == [] and "subtasks" not in anchors(leaderboard_page(document))


def test_teams_that_share_a_place_are_marked(document) -> None:
    page = leaderboard_page(document_of(table_of([[[0.5, 0.7], [0.9, 0.3], [0.1, 0.1], [0.8, 0.8]]])))
    assert [texts_of(row)[0].split()[0] for row in part(page, "board").rows] == ["1", "=2", "=2", "4"]
    assert "share a rank" in part(page, "board").note


def boxes_of(figure: Figure) -> dict[str, list[Any]]:
    return {one.name: [dot.y for dot in one.dots] for one in figure.series}


def test_values_of_units_are_those_that_were_ranked() -> None:
    """One column, two patients; the second team has no value in the first patient."""
    document = document_of(table_of([[[0.5, 0.1234567], [NAN, 0.7]]]))
    assert document["unit_names"] == ["P0", "P1"]
    assert {t["name"]: t["columns"][0]["by_unit"] for t in document["teams"]} == {
        "team 0": [0.5, 0.123457],
        "team 1": [None, 0.7],
    }
    assert boxes_of(part(leaderboard_page(document), "values-1")) == {"team 0": [0.5, 0.123457], "team 1": [0.7]}


def test_discs_are_the_shares_of_the_samples_and_dots_the_published_ranks(document) -> None:
    discs, published = part(leaderboard_page(document), "sampled-places").series
    found: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for dot in discs.dots:
        found[dot.x][dot.y] = dot.size
    assert found == {team["name"]: {of["place"]: of["share"] for of in team["places"]} for team in document["teams"]}
    assert {dot.x: dot.y for dot in published.dots} == {team["name"]: team["position"] for team in document["teams"]}


# --- podium -----------------------------------------------------------------------------------------------------------

# Places by hand: patient 0: A B C D = 1 2 3 4; patient 1: B and C first, A third, D has no value and is last;
# patient 2: D, C, B, A.
PODIUM = [[[0.9, 0.5, 0.1], [0.8, 0.7, 0.2], [0.7, 0.7, 0.3], [0.6, NAN, 0.4]]]


@pytest.mark.parametrize("ties, places", [
    ("min", {"A": [1, 3, 4], "B": [2, 1, 3], "C": [3, 1, 2], "D": [4, 4, 1]}),
    ("average", {"A": [1, 3, 4], "B": [2, 1.5, 3], "C": [3, 1.5, 2], "D": [4, 4, 1]}),
    ("dense", {"A": [1, 2, 4], "B": [2, 1, 3], "C": [3, 1, 2], "D": [4, 3, 1]}),
])  # fmt: skip
def test_ranks_in_each_patient_are_counted_by_hand(ties, places) -> None:
    document = document_of(table_of(PODIUM, teams=tuple("ABCD")), ties=ties)
    assert {team["name"]: team["unit_places"] for team in document["teams"]} == places
    expected = {}
    for name, of in places.items():
        _, middle, most = sorted(of)
        expected[name] = [name, of.count(1), sum(rank <= 3 for rank in of), middle, most, 0]
    rows = part(leaderboard_page(document), "podium-table").rows
    assert {row[0]: values_of(row) for row in rows} == expected


def test_the_place_in_a_patient_is_that_of_all_columns_together() -> None:
    """Ranks of A and B in the three columns of the patient: 1 2, 2 1, 2 1; the second column counts five times."""
    table = table_of([[[0.9], [0.1]], [[0.1], [0.9]], [[0.5], [0.4]]])
    table.higher_is_better[2] = False
    table.weights[:] = [1, 5, 1]
    board = ranked(table)
    assert {row.name: row.unit_places for row in board.teams} == {"team 0": (2.0,), "team 1": (1.0,)}


def test_a_team_that_is_not_ranked_on_a_patient_has_no_place_there() -> None:
    document = document_of(table_of([[[0.5, 0.6], [0.4, NAN]]]), missing="unranked")
    assert {team["name"]: team["unit_places"] for team in document["teams"]} == {"team 0": [1, 1], "team 1": [2, None]}
    rows = part(leaderboard_page(document), "podium-table").rows
    assert [values_of(row) for row in rows] == [["team 0", 2, 2, 1, 1, 0], ["team 1", 0, 1, 2, 2, 1]]


# --- other methods ----------------------------------------------------------------------------------------------------


def test_places_under_other_methods_are_those_of_a_ranking_by_them(document) -> None:
    """By a ranking that is asked for, and Kendall's tau by scipy."""
    rng = np.random.default_rng(3)
    table = table_of(rng.random((3, 6, 9)))
    found = document_of(table)
    names = [team["name"] for team in found["teams"]]
    cannot = {"absolute", "test_then_rank"}  # several columns; by tests all teams share a place
    assert [of["method"] for of in found["methods"]] == [method for method in METHODS if method not in cannot]
    assert {row.position for row in ranked(table, method="test_then_rank").teams} == {1}
    for of in found["methods"]:
        by_name = {row.name: row.position for row in ranked(table, method=of["method"]).teams}
        assert of["places"] == [by_name[name] for name in names]
        for tau, other in zip(of["kendall_tau"], found["methods"], strict=True):
            expected = kendalltau(of["places"], other["places"]).statistic
            assert tau == (None if np.isnan(expected) else pytest.approx(expected, abs=1e-6))


def test_without_values_of_units_only_methods_that_need_none_are_told() -> None:
    found = document_of(table_of([SEPARATE], units=(), by_unit=None))
    assert [of["method"] for of in found["methods"]] == list(METHODS[:4])
    assert found["unit_names"] == []
    told = [
        text for s in leaderboard_page(found).sections for b in s.blocks if isinstance(b, Text) for text in b.paragraphs
    ]
    assert any(text.startswith("No tests: ") for text in told)
    assert any("per-patient scores are not available" in text for text in told)


# --- significance -----------------------------------------------------------------------------------------------------


def lines_in(figure: Figure) -> dict[str, tuple[float, float]]:
    """The line of each team that has one: from where to where."""
    return {dot.x: (dot.low, dot.high) for dot in figure.series[-1].dots if dot.low is not None}  # type: ignore[misc]


def test_a_line_leads_from_each_team_to_the_last_one_that_does_not_differ_significantly() -> None:
    means = {"D": 3.5, "A": 1.0, "C": 3.0, "B": 1.5, "E": 6.0}
    figure = difference_figure("a", "c", "d", means, [["A", "B"], ["B", "C", "D"], ["E"]], 0.75)
    ruler, teams = figure.series
    assert [(dot.x, dot.y) for dot in teams.dots] == [("A", 1), ("B", 1.5), ("C", 3), ("D", 3.5), ("E", 6)]
    assert lines_in(figure) == {"A": (1, 1.5), "B": (1.5, 3.5), "C": (3, 3.5)}
    assert [(dot.x, dot.low, dot.high) for dot in ruler.dots] == [("critical difference 0.75", 1, 1.75)]
    assert len(difference_figure("a", "c", "d", means, [], None).series) == 1


def test_only_the_first_and_the_last_differ_and_two_bars_say_so() -> None:
    """Mean ranks 1, 2, 3 over five patients. Of all 6^5 orders 3.9% have sums of ranks that lie 8 or more apart, 9.3 %
    7 or more: so the critical difference is 8 / 5."""
    page = leaderboard_page(document_of(table_of([SEPARATE]), test="friedman_nemenyi"))
    figure = part(page, "difference-1")
    assert [*lines_in(figure).values()] == [(1, 2), (2, 3)]
    assert figure.series[0].dots[0].x == "critical difference 1.6"


def test_dots_of_a_diagram_are_the_mean_ranks_of_the_teams_that_are_tested() -> None:
    document = document_of(table_of([SEPARATE, [*SEPARATE[:2], [NAN] * 5]]))
    page = leaderboard_page(document)
    for place, (column, tested) in enumerate(zip(document["columns"], (3, 2), strict=True), start=1):
        dots = [dot.y for dot in part(page, f"difference-{place}").series[-1].dots]
        assert len(dots) == tested
        assert sorted(dots) == sorted(
            team["mean_rank"] for team in column["significance"]["teams"] if team["mean_rank"] is not None
        )


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge", EDGES)
def test_every_edge_has_a_page(edge: str) -> None:
    for missing, ex_aequo in (("worst", True), ("unranked", False)):
        document = document_of(table_of(EDGES[edge]), missing=missing, ex_aequo=ex_aequo)
        page = leaderboard_page(document)
        assert len(set(anchors(page))) == len(anchors(page))
        assert [row[0].value for row in part(page, "board").rows] == [team["name"] for team in document["teams"]]
        if document["not_ranked"]:
            assert [row[0] for row in part(page, "unranked").rows] == [of["name"] for of in document["not_ranked"]]
        assert page_html(page).startswith("<!DOCTYPE html>")


def test_of_many_teams_the_page_says_what_is_left_out() -> None:
    table = table_of(np.random.default_rng(1).random((1, PAIRS_UP_TO + 1, 12)))
    document = document_of(table, samples=100)
    assert document["methods"] == []
    page = leaderboard_page(document)
    assert len(part(page, "board").rows) == PAIRS_UP_TO + 1
    assert len(part(page, "values-1").series) == 20
    rest = f"The first 20 of {PAIRS_UP_TO + 1} teams of leaderboard.json are shown."
    assert rest in part(page, "values-1").description
    assert len(part(page, "podium-table").rows) == PAIRS_UP_TO + 1
    assert "difference-1" not in anchors(page)


@pytest.mark.parametrize(("teams", "units", "bytes_up_to"), [(30, 25, 400_000), (106, 2263, 700_000)])
def test_a_page_stays_small(teams, units, bytes_up_to) -> None:
    """A usual board, and as many teams and cases as the largest challenges had."""
    values = np.random.default_rng(1).random((4, teams, units))
    document = document_of(table_of(values), samples=100)
    assert len(document["teams"][0]["columns"][0]["by_unit"]) == len(document["teams"][0]["unit_places"]) == units
    page = leaderboard_page(document)
    assert {"values-1", "values-4", "pairs", "difference-1", "podium-table", "sampled-places"} <= set(anchors(page))
    assert len(page_html(page)) < bytes_up_to


def test_too_many_values_are_left_out_of_the_document(monkeypatch) -> None:
    from evaluation.board import document

    monkeypatch.setattr(document, "VALUES_UP_TO", 100)
    full, over = (
        leaderboard_document(ranked(table_of(np.random.default_rng(1).random((2, 10, number))), samples=100))
        for number in (5, 6)
    )
    assert len(full["unit_names"]) == 5 == len(full["teams"][0]["columns"][0]["by_unit"])
    assert over["unit_names"] == []
    assert "by_unit" not in over["teams"][0]["columns"][0]
    assert "unit_places" not in over["teams"][0]


def test_an_audit_of_other_rules_is_left_out_and_told() -> None:
    document = document_of(table_of([SEPARATE]))
    audit = {"challenge": {"name": "x", "version": "1", "hash": "00"}}
    page = leaderboard_page(document, audit=audit)
    (section,) = (section for section in page.sections if section.anchor == "audit")
    assert section.blocks == (Text(("audit.json was made with other rules or cases.",)),)


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_in_a_csv_stay_hidden_where_the_challenge_hides_them(made) -> None:
    challenge, rules = load_ranked(made.challenge)
    submission = challenge.submission.model_copy(update={"case_names": "hidden"})
    table = table_of(np.random.default_rng(1).random((4, 2, 3)))
    board = rank_scores(ScoresInFile(table, "patients"), rules, challenge.model_copy(update={"submission": submission}))
    assert board.unit_names == ("patient 1", "patient 2", "patient 3")
    assert "P0" not in leaderboard_json(board)


def test_teams_whose_names_are_alike_stay_apart() -> None:
    names = [f"{'a long name ' * 9}{place}" for place in range(3)]
    page = leaderboard_page(document_of(table_of([np.tile(SEPARATE, 2)], teams=tuple(names))))
    assert len(set(part(page, "sampled-places").names("x"))) == 3
    assert [row[0].value for row in part(page, "board").rows] == names


def test_a_team_has_the_same_label_in_every_plot() -> None:
    """However many teams a plot has, and in whatever order they were tested: here from the last to the first."""
    long = "the same letters at either end, {} as a whole"
    names = [long.format("other"), *(f"team {place}" for place in range(23)), long.format("another")]
    values = np.linspace(0.1, 0.9, 25)[:, np.newaxis] + np.linspace(0, 0.01, 12)
    page = leaderboard_page(document_of(table_of([values], teams=tuple(names)), samples=100))
    first = part(page, "sampled-places").names("x")[0]
    assert first.endswith(" #1")
    assert part(page, "values-1").names("x")[0] == first
    assert first in part(page, "difference-1").names("x")


# --- in a browser -----------------------------------------------------------------------------------------------------


def options_of(made: DemoPaths, output: Path) -> list[Path | str]:
    submissions = made.challenge.parent / "submissions"
    return ["--challenge", made.challenge, "--submissions", submissions, "--output", output]


def write_page(path: Path, document: dict[str, Any]) -> Path:
    """The page, with names that are markup for the first teams."""
    text = json.dumps(document)
    for place, name in enumerate(HOSTILE):
        text = text.replace(f'"team {place}"', json.dumps(name))
    path.write_text(page_html(leaderboard_page(json.loads(text))), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_is_accessible_and_fits(browser, tmp_path, width, scheme) -> None:
    """With ties, a column without a test, and a team that is not ranked."""
    few = [[0.5, 0.5, 0.6], [0.5, 0.5, 0.6], [0.3, 0.9, 0.1], [0.2, 0.1, 0.4]]
    gaps = [[NAN, 0.5, NAN], [0.5, NAN, 0.5], [0.4, NAN, NAN], [NAN, NAN, NAN]]
    path = write_page(tmp_path / "few.html", document_of(table_of([few, gaps]), missing="unranked"))
    with browser.open(path, width=width, scheme=scheme) as opened:
        opened.check()


# --- commands ---------------------------------------------------------------------------------------------------------


def test_scores_with_intervals_fit_side_by_side(made, tmp_path, browser) -> None:
    where = options_of(made, tmp_path)
    assert cli.run(["leaderboard", *map(str, where), "--workers", "1"]) == 0
    document = json.loads((tmp_path / "leaderboard.json").read_text())
    results = read_results(tmp_path, document)
    for metrics in results.values():
        metrics["confidence_intervals"] = {
            family: {name: {"group_mean": {"low": 0.25, "high": 12.125}} for name in metrics[family]}
            for family in ("detection", "classification", "segmentation", "covered", "overall", "panoptic")
            if family in metrics
        }
    path = tmp_path / "leaderboard.html"
    path.write_text(page_html(leaderboard_page(document, results=results)), encoding="utf-8")
    with browser.open(path, width=1440) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        tables = opened.page.locator("section#teams .scroll")
        wide = tables.evaluate_all("all => all.filter(of => of.scrollWidth > of.clientWidth + 1).length")
        assert (tables.count() >= 5, wide) == (True, 0)
        assert "(0.250\u00a0to\u00a012.125)" in tables.first.inner_text()


def test_results_of_other_rules_and_outside_of_the_folder_are_not_read(made, tmp_path) -> None:
    score = score_submission(made.challenge, made.challenge.parent / "submissions" / "finder", workers=1)
    metrics = json.loads(as_json(score.metrics))
    teams = [{"name": name} for name in ("own", "other", "../outside", "none")]
    for name, version in (("own", "1"), ("other", "2"), ("../outside", "1")):
        (tmp_path / "results" / name).mkdir(parents=True)
        content = metrics | {"challenge": metrics["challenge"] | {"version": version}}
        (tmp_path / "results" / name / "metrics.json").write_text(json.dumps(content))
    document = {"teams": teams, "challenge": metrics["challenge"] | {"version": "1"}}
    assert set(read_results(tmp_path, document)) == {"own"}


def test_rank_report_writes_the_page_of_monusac(shared_data: Path, tmp_path, browser) -> None:
    """The organisers' PQ of four teams on 25 patients; who differs from whom is told in docs/ranking.md."""
    of_image, patient = published_pq(shared_data)
    rows = [f"{team},{image},{patient[image]},pq,{pq}" for (team, image), pq in of_image.items()]
    (tmp_path / "scores.csv").write_text("\n".join(["team,case,group,metric,value", *rows]))
    arguments = ["--scores", "scores.csv", "--column", "pq:descending", "--output", "board", "--report"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert cli.run(["rank", *arguments]) == 0
    page = leaderboard_page(json.loads((tmp_path / "board/leaderboard.json").read_text()))
    means = {dot.x: dot.y for dot in part(page, "difference-1").series[-1].dots}
    assert lines_in(part(page, "difference-1")) == {"IVG": (means["IVG"], means["Dark Brotherhood"])}
    with browser.open(tmp_path / "board/leaderboard.html") as opened:
        assert opened.errors == []


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_told_before_anything_is_scored(made, tmp_path, capsys, monkeypatch, package) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    output = tmp_path / "out"
    arguments = options_of(made, output)
    for command in ("leaderboard", "audit"):
        assert cli.run([command, *map(str, arguments), "--report"]) == 2
        assert "[missing-extra]" in capsys.readouterr().err
        assert not output.exists()


def test_one_pair_differs_and_no_box_is_told_where_none_is_drawn() -> None:
    """Of fewer than five units the values are points on a line."""
    five, four = (
        leaderboard_page(document_of(table_of([np.array(SEPARATE)[:, :number]]), test="friedman_nemenyi"))
        for number in (5, 4)
    )
    assert "1 of 3 pairs of teams differs significantly" in part(five, "difference-1").description
    leads = [next(of for of in page.sections if of.anchor == "values").lead for page in (five, four)]
    assert leads == ["A point is a patient; boxes show the middle 50%.", "A point is a patient."]
