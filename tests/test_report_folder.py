"""Pages of one submission, and the folder of all pages."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

import numpy as np
import pytest
from browser import Browser, OpenedPage
from PIL import Image

from evaluation import Challenge, instances_from_labels, score_instances
from evaluation.commands.main import run
from evaluation.model import UndefinedReason
from evaluation.model.counts import NoInterval
from evaluation.report.nuclei import NucleusTable, size_table
from evaluation.report.page import Cell, Figure, Page, Section, Table, Text, Tiles
from evaluation.report.result import REASONS, ResultDocuments
from evaluation.report.submission import ReadResult, submission_page
from evaluation.results.documents import as_json
from evaluation.scoring.score import Result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's board; a team has a name that a URL must not have as it is."""
    folder = tmp_path_factory.mktemp("pages")
    assert run(["demo", "--output", str(folder), "--workers", "1"]) == 0
    (folder / "submissions" / "namer").rename(folder / "submissions" / "namer + co @1")
    where = ["--challenge", str(folder / "challenge"), "--submissions", str(folder / "submissions")]
    assert run(["leaderboard", *where, "--output", str(folder / "board"), "--workers", "1", "--report"]) == 0
    return folder / "board"


def links_of(page: Path) -> set[Path]:
    """The files that a page leads to."""
    urls = re.findall(r'<a href="([^"#][^"]*)"', page.read_text().partition("<script")[0])
    return {(page.parent / unquote(url)).resolve() for url in urls}


def test_every_link_leads_to_a_page_and_every_page_leads_back(made: Path) -> None:
    board = (made / "leaderboard.html").resolve()
    pages = {path.resolve() for path in made.rglob("*.html")}
    teams = {path for path in pages if path.name == "report.html"}
    cases = {path for path in pages if path.parent.name == "cases"}
    assert len(teams) == 3 and len(cases) == 8
    assert links_of(board) == teams | cases
    assert all(links_of(page) == {board} for page in teams)
    assert all(links_of(page) == {board} | teams for page in cases)


def test_a_team_reads_its_rank_and_what_its_errors_cost_on_the_first_of_four_screens(made, browser):
    board = json.loads((made / "leaderboard.json").read_text())
    for index, team in enumerate(board["teams"]):
        with browser.open(made / "results" / team["name"] / "report.html", width=1440) as opened:
            first = opened.page.locator("#skills")
            assert first.get_by_text(f"Rank {index + 1} of 3 teams").is_visible()
            rows = first.locator("#standing tbody tr")
            best = [min(board["teams"], key=lambda of: of["columns"][column]["rank"]) for column in range(rows.count())]
            assert [row.inner_text().split("\t")[1:] for row in rows.all()] == [
                [f"{cell['value']:.4f}", f"{cell['rank']:g}", f"{of['columns'][column]['value']:.4f} ({of['name']})"]
                for column, (cell, of) in enumerate(zip(team["columns"], best, strict=True))
            ]
            lost = [float(row.inner_text().split("\t")[1]) for row in first.locator("#errors tbody tr").all()]
            assert len(lost) >= 3 and lost == sorted(lost, reverse=True)
            bottom = opened.page.evaluate("document.querySelector('#errors').getBoundingClientRect().bottom")
            assert bottom <= 1300
            assert opened.page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
            opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
            scroll = "all => all.filter(of => of.scrollWidth > of.clientWidth + 1).map(of => of.closest('[id]').id)"
            assert opened.page.locator(".scroll").evaluate_all(scroll) == []


def test_from_the_board_to_a_team_and_a_case_and_back(made: Path, browser: Browser) -> None:
    with browser.open(made / "leaderboard.html") as opened:
        opened.follow(opened.page.locator("#board").get_by_role("link", name="namer + co @1"), "report.html")
        assert opened.page.locator("h1").inner_text() == "Result of namer + co @1"
        opened.follow(opened.page.get_by_role("link", name="Leaderboard", exact=True), "leaderboard.html")
        opened.page.locator("#case-list summary").first.click()
        opened.follow(opened.page.locator("#case-pages").get_by_role("link", name="P2_1"), "P2_1.html")
        assert opened.page.locator("h1").inner_text() == "Case P2_1"
        assert opened.errors == []


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_page_of_a_case_shows_it_for_every_team(made: Path, browser: Browser, width: int, scheme: Any) -> None:
    with browser.open(made / "cases" / "P2_1.html", width=width, scheme=scheme) as opened:
        assert opened.page.locator(".case-view canvas").count() == 3
        opened.page.locator(".browser [name=team]").select_option(label="outliner")
        assert opened.page.locator(".case-view canvas").count() == 1
        details = json.loads((made / "results" / "outliner" / "details.json").read_text())
        counts = details["cases"]["P2_1"]["rules"]["iou_above"]["counts"]
        opened.page.locator(".browser [name=state]").select_option("2")
        assert opened.page.locator(".found").inner_text().startswith(f"{counts['false_negatives']} of ")
        row = opened.page.locator("#teams tr", has_text="outliner").inner_text()
        assert str(counts["true_positives"]) in row
        opened.check()


def test_tables_and_plots_are_handed_on_as_files(made: Path, browser: Browser, tmp_path: Path) -> None:
    document = json.loads((made / "leaderboard.json").read_text())
    with browser.open(made / "leaderboard.html") as opened:

        def saved(scope: str, name: str) -> str:
            with opened.page.expect_download() as found:
                opened.page.locator(scope).get_by_role("button", name=name).first.click()
            found.value.save_as(tmp_path / "file")
            return (tmp_path / "file").read_bytes().decode()

        rows = list(csv.reader(saved("#board", "CSV").splitlines()))
        assert [float(row[1]) for row in rows[1:]] == [team["columns"][0]["value"] for team in document["teams"]]
        latex = saved("#board", "LaTeX")
        assert latex.count("\\\\\n") == 4 and "\\begin{tabular}{lrrrrrrr}" in latex and " \\%" in latex
        assert saved("#sampled-places", "Save SVG").startswith("<svg xmlns=")
        opened.page.locator("#board .columns summary").click()
        opened.page.locator("#board .columns input").first.uncheck()
        assert len(next(csv.reader(saved("#board", "CSV").splitlines()))) == len(rows[0]) - 1
        facts = opened.page.locator("footer").inner_text()
        assert f"rules and cases {document['challenge']['hash'][:12]}" in facts
        assert opened.errors == []


def test_one_team_stands_out_in_tables(made: Path, browser: Browser) -> None:
    with browser.open(made / "leaderboard.html") as opened:
        opened.page.locator(".highlight input").fill("outliner")
        assert "outliner" in opened.page.locator("#board tr.chosen").inner_text()
        opened.page.locator(".highlight input").fill("")
        assert opened.page.locator("tr.chosen").count() == 0


# --- screenshots, compared by their structure -------------------------------------------------------------------------

PARTS = """() => [...document.querySelectorAll('h1, h2, .tiles, .table, .plot, .gallery, .case-view canvas')]
  .filter(part => part.checkVisibility({ contentVisibilityAuto: true }) && part.getBoundingClientRect().height)
  .map(part => {
    const { x, y, width, height } = part.getBoundingClientRect();
    const kinds = { H1: 'heading', H2: 'heading', CANVAS: 'picture', DL: 'tiles', OL: 'gallery' };
    const kind = kinds[part.tagName] || (part.matches('.plot') ? 'plot' : 'table');
    return { kind, name: part.id || (part.closest('.figure') || {}).id || '', x, y: y + scrollY, width, height };
  })"""
LOOKED_AT = {"board": "leaderboard.html", "team": "results/outliner/report.html", "case": "cases/P2_1.html"}


def structure_of(opened: OpenedPage, name: str) -> list[str]:
    """The parts of a page from top to bottom, each and whether it is as wide as half the screenshot.

    Every plot and picture must have ink: more than two colours, the rarer ones on a thousandth of its pixels at least.
    """
    parts = opened.page.evaluate(PARTS)
    pixels = np.array(Image.open(opened.screenshot(name)).convert("RGB")).astype(np.int64)
    lines = []
    for part in sorted(parts, key=lambda part: (round(part["y"]), part["x"])):
        x, y = max(round(part["x"]), 0), round(part["y"])
        seen = pixels[y : y + round(part["height"]), x : x + round(part["width"])]
        if part["kind"] in ("plot", "canvas", "svg"):
            _, count = np.unique(seen.reshape(-1, 3) @ [65536, 256, 1], return_counts=True)
            assert len(count) > 2 and 1 - count.max() / count.sum() > 0.001, (name, part)
        across = "wide" if part["width"] > 0.5 * pixels.shape[1] else "narrow"
        lines.append(f"{part['kind']} {across} {part['name']}".strip())
    for one, other in itertools.combinations([part for part in parts if part["kind"] in ("plot", "table")], 2):
        apart = one["y"] + one["height"] <= other["y"] + 1 or other["y"] + other["height"] <= one["y"] + 1
        assert apart, (name, one["name"], other["name"])
    return lines


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_screenshot_has_the_structure_of_the_golden_one(made, browser, name, width, scheme, request):
    with browser.open(made / LOOKED_AT[name], width=width, scheme=scheme) as opened:
        found = structure_of(opened, name)
        opened.check()
    golden = Path(__file__).parent / "golden" / "pages" / f"{name}_{width}.txt"
    if request.config.getoption("--renew-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8").splitlines()


# --- the page of one submission: what stands on it is what the documents say, and it holds for every kind of chal -----


def squares(*places: tuple[int, int, int, int], shape: tuple[int, int] = (40, 60)):
    """Nuclei as squares: (row, column, side, class)."""
    labels = np.zeros(shape, np.int64)
    for number, (row, column, side, _) in enumerate(places, start=1):
        labels[row : row + side, column : column + side] = number
    return instances_from_labels(labels, [place[3] for place in places])


REFERENCE = squares((2, 2, 6, 1), (2, 20, 8, 2), (20, 2, 10, 1), (20, 30, 5, 3))
PREDICTION = squares((2, 2, 6, 1), (2, 20, 7, 2), (20, 2, 10, 2), (30, 45, 5, 1))


def documents(result: Result) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads(as_json(result.metrics)), json.loads(as_json(result.details))


def scored(**cases: tuple[Any, Any]) -> Result:
    challenge = Challenge.from_preset("monusac2020", name="squares")
    return score_instances(challenge, cases, groups={name: name[:2] for name in cases})


@pytest.fixture(scope="module")
def result() -> Result:
    return scored(P1_a=(REFERENCE, PREDICTION), P1_b=(PREDICTION, PREDICTION), P2_a=(REFERENCE, squares()))


@pytest.fixture(scope="module")
def page(result: Result) -> Page:
    metrics, details = documents(result)
    return submission_page(ReadResult(ResultDocuments(metrics, details)))


def section(page: Page, anchor: str) -> Section:
    return next(section for section in page.sections if section.anchor == anchor)


def figure(page: Page, anchor: str) -> Figure:
    return next(figure for figure in page.figures() if figure.anchor == anchor)


def table(page: Page, anchor: str) -> Table:
    blocks = [block for section in page.sections for block in section.blocks]
    return next(block for block in blocks if isinstance(block, Table) and block.anchor == anchor)


def plain(cell: Any) -> Any:
    return cell.value if isinstance(cell, Cell) else cell


def at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[key]
    return document


# --- the numbers are those of the documents ---------------------------------------------------------------------------


def test_patients_stand_above_their_cases_and_lead_to_the_first(result, page):
    _, details = documents(result)
    names = {plain(row[0]): row[0].name for row in table(page, "cases").rows}
    rows = table(page, "groups").rows
    assert [(plain(row[0]), row[0].anchor, row[-1]) for row in rows] == [
        ("P1", names["P1_a"], 2),
        ("P2", names["P2_a"], 1),
    ]
    for name, (_, f1, *_) in zip(("P1", "P2"), rows, strict=True):
        assert plain(f1) == details["groups"][name]["rules"]["iou_above"]["scores"]["detection"]["f1"]


def test_the_confusion_matrix_has_rows_of_the_reference_and_none_last(page):
    """By hand: P1_a calls one epithelial nucleus a lymphocyte, misses the neutrophil, adds one; P2 misses all."""
    found = table(page, "confusion")
    assert [column.title for column in found.columns[1:]] == [
        "Epithelial", "Lymphocyte", "Neutrophil", "Macrophage", "none",
    ]  # fmt: skip
    assert [[plain(cell) for cell in row] for row in found.rows] == [
        ["Epithelial", 3, 1, 0, 0, 2],
        ["Lymphocyte", 0, 3, 0, 0, 1],
        ["Neutrophil", 0, 0, 0, 0, 2],
        ["Macrophage", 0, 0, 0, 0, 0],
        ["none", 1, 0, 0, 0, None],
    ]
    assert [cell.text for cell in found.rows[0][1:]] == ["3 (50.0 %)", "1 (16.7 %)", "0", "0", "2 (33.3 %)"]
    assert {cell.text for cell in found.rows[3][1:]} == {"0"}


def test_every_reason_has_words():
    assert {
        *get_args(UndefinedReason),
        *get_args(NoInterval),
        "needs-details",
        "no-value",
        "no-stored-results",
        "unranked",
    } == set(REASONS)


def test_the_rules_stand_as_they_were_applied_with_the_matching_in_words(result, page):
    words, rules = section(page, "rules-section").blocks
    assert [text.partition(":")[0] for text in words.paragraphs] == ["iou_above", "best_iou_centroid_inside"]
    stored = result.challenge.model_dump(mode="json")
    rows = dict(rules.rows)
    assert rows["aggregation.unit"] == stored["aggregation"]["unit"]
    assert rows["metrics.families"] == ", ".join(stored["metrics"]["families"])
    assert rows["classes"].startswith("Epithelial, ") and "limits.json_depth" not in rows


# --- what may be shown ------------------------------------------------------------------------------------------------


def every_text(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for key, value in part.items():
            yield from (*every_text(key), *every_text(value))
    elif isinstance(part, list | tuple):
        for value in part:
            yield from every_text(value)
    elif hasattr(part, "__dataclass_fields__"):
        for name in part.__dataclass_fields__:
            yield from every_text(getattr(part, name))


def test_metrics_json_alone_makes_a_page_without_cases_and_groups(result, page):
    metrics, _ = documents(result)
    names = ("P1_a", "P1_b", "P2_a")
    assert any(name in text for text in every_text(page) for name in names)
    public = submission_page(ReadResult(ResultDocuments(metrics)))
    assert not any(name in text for text in every_text(public) for name in (*names, "P1", "P2"))
    assert [one.anchor for one in public.sections] == [
        "skills",
        "classes",
        "alternatives",
        "scores-section",
        "undefined",
    ]


def test_a_public_page_shows_the_aggregation_of_the_intervals():
    """metrics.json does not name the unit of the challenge; intervals are given for it alone."""
    metrics, _ = documents(scored(P1_a=(REFERENCE, PREDICTION)))
    assert ResultDocuments(metrics).main == "group_mean"
    metrics["confidence_intervals"] = {"detection": {"f1": {"pooled": {"low": 0.25, "high": 0.75}}}}
    assert ResultDocuments(metrics).main == "pooled"
    (tiles,) = [
        block
        for block in submission_page(ReadResult(ResultDocuments(metrics))).sections[0].blocks
        if isinstance(block, Tiles)
    ]
    assert "0.250 to 0.750" in tiles.tiles[0].detail
    rows = {row[0]: row[1:4] for row in table(submission_page(ReadResult(ResultDocuments(metrics))), "scores").rows}
    assert rows["detection.f1"] == (metrics["detection"]["f1"]["pooled"], 0.25, 0.75)


def test_the_place_among_earlier_results_is_shown(result):
    metrics, details = documents(result)
    path = "detection.f1.group_mean"
    board = {
        "position": 3.0,
        "sum_of_ranks": 7.0,
        "submissions": 12,
        "rank": {"detection": {"f1": {"group_mean": 2.0}}},
    }
    page = submission_page(ReadResult(ResultDocuments({**metrics, "leaderboard": board}, details)))
    (tiles,) = [block for block in section(page, "skills").blocks if isinstance(block, Tiles)]
    assert (tiles.tiles[-1].value, tiles.tiles[-1].detail) == ("3", "of 12 ranked, this one included")
    assert table(page, "ranks").rows == ((path, at(metrics, path), Cell(2.0)),)


# --- every kind of challenge ------------------------------------------------------------------------------------------


def test_nothing_at_all_makes_a_page_with_sentences_instead_of_plots():
    metrics, details = documents(scored(P1_a=(squares(), squares())))
    page = submission_page(ReadResult(ResultDocuments(metrics, details), nothing()))
    assert page.figures() == []
    assert any(isinstance(block, Text) for block in section(page, "size").blocks)
    (tiles,) = [block for block in section(page, "skills").blocks if isinstance(block, Tiles)]
    assert {tile.value for tile in tiles.tiles} == {None}
    assert REASONS["no-instances"] in tiles.tiles[0].detail


def nothing() -> NucleusTable:
    return NucleusTable(np.empty(0, np.int64), ("a",), np.empty(0, np.int64), np.empty(0), {"iou": np.empty(0)})


def test_one_case_a_group_shows_cases_and_no_table_of_groups(result):
    challenge = Challenge.from_preset("monusac2020", name="squares")
    metrics, details = documents(score_instances(challenge, {"a": (REFERENCE, PREDICTION)}))
    page = submission_page(ReadResult(ResultDocuments(metrics, details)))
    assert section(page, "skills").lead.startswith("All numbers: mean over cases, under")
    cases = section(page, "cases-section")
    assert (cases.title, len(cases.blocks)) == ("Cases", 1)
    assert "patient" not in [column.title for column in table(page, "cases").columns]


def test_of_many_cases_the_worst_are_listed(result):
    metrics, details = documents(result)
    for number in range(700):
        name = f"P1_{number:04}"
        details["cases"][name] = json.loads(json.dumps(details["cases"]["P1_a"]))
        details["cases"][name]["rules"]["iou_above"]["scores"]["panoptic"]["pq"] = number / 1000
    found = table(submission_page(ReadResult(ResultDocuments(metrics, details))), "cases")
    assert len(found.rows) == 500
    assert {plain(row[0]) for row in found.rows} == {"P2_a", "P1_a", *(f"P1_{n:04}" for n in range(498))}
    assert found.caption.endswith("the worst PQ first")
    assert "The first 500 of 703 cases" in found.note


# --- nuclei -----------------------------------------------------------------------------------------------------------


def test_scores_of_the_family_thresholds_are_drawn_as_they_stand():
    metrics_of = {"families": ["detection", "thresholds"], "boundary": "open", "iou_thresholds": [0.5, 0.725, 0.9]}
    challenge = Challenge.from_preset("monusac2020", name="squares", metrics=metrics_of, ranking=None)
    metrics, details = documents(
        score_instances(challenge, {"a": (REFERENCE, PREDICTION), "b": (REFERENCE, REFERENCE)})
    )
    for page in (
        submission_page(ReadResult(ResultDocuments(metrics))),
        submission_page(ReadResult(ResultDocuments(metrics, details))),
    ):
        series = {one.name: one.dots for one in figure(page, "score-by-threshold").series}
        assert set(series) == {"F1", "threat score", "precision", "recall"}
        assert [dot.x for dot in series["F1"]] == [0.5, 0.725, 0.9]
        named = [metrics["thresholds"][f"f1_iou{key}"]["group_mean"] for key in ("50", "72_5", "90")]
        assert [dot.y for dot in series["F1"]] == named
        assert named[0] > named[2]


def test_errors_and_what_they_cost_are_those_of_the_document(result):
    metrics, details = documents(result)
    costs = {
        "as_is": {"panoptic.pq.group_mean": 0.25, "detection.f1.group_mean": None},
        "kinds": [
            {"kind": kind, "reference": number, "prediction": 0, "cost": {"panoptic.pq.group_mean": cost}}
            for kind, number, cost in (("wrong_class", 2, -0.0625), ("split", 0, 0.5), ("missed", 3, 0.125))
        ],
    }
    found = table(submission_page(ReadResult(ResultDocuments(metrics, details), costs=costs)), "errors")
    assert [column.title for column in found.columns] == ["error", "PQ lost", "reference nuclei", "predictions"]
    assert [[plain(cell) for cell in row] for row in found.rows] == [
        ["false negative", 0.125, 3, 0],
        ["wrong class", -0.0625, 2, 0],
    ]


def test_nuclei_are_counted_by_size(result):
    """Ten sizes, the smaller five missed: a row for each."""
    area = np.arange(10, 110, 10.0)
    iou = np.where(area > 50, area / 200, np.nan)
    nuclei = NucleusTable((area <= 50).astype(np.int64), ("a", "b"), np.arange(10) % 2, area, {"iou": iou})
    metrics, details = documents(result)
    page = submission_page(ReadResult(ResultDocuments(metrics, details), nuclei))
    rows = table(page, "size-table").rows
    assert [(row[0], row[4], row[1]) for row in rows[4:6]] == [("50 to 50", 1, 0.0), ("60 to 60", 1, 100.0)]
    assert [row[2] for row in rows] == [None] * 5 + [0.3, 0.35, 0.4, 0.45, 0.5]


@pytest.mark.parametrize(("area", "sizes"), [([36.0] * 17 + [60, 50], [17, 2]), (range(40), [4] * 10), ([], [])])
def test_nuclei_of_equal_size_stay_together(area, sizes):
    """Boxes are often all alike: which tenth one came into would say where it stands in the file."""
    nothing, area = np.zeros(len(area), np.int64), np.array(area, float)
    nuclei = NucleusTable(nothing, ("a",), nothing, area, {"iou": np.ones(len(area))})
    assert [row[-1] for row in size_table(nuclei).rows] == sizes


def test_the_curve_of_quality_against_coverage_is_drawn_from_details(result: Result) -> None:
    """Of four nuclei one is found with IoU 1, one with 9/16, two are missed: 1, 25/32, 25/48, 25/64."""
    families = ("detection", "classification", "segmentation", "covered")
    coverage = {"families": families, "coverage": 0.5, "distance_cap_px": 10.0, "measures": ("iou", "hausdorff_px")}
    challenge = Challenge.from_preset("monusac2020", name="squares", metrics=coverage)
    places = [(2, 2, 4, 1), (2, 20, 4, 1), (20, 2, 4, 1), (20, 30, 4, 1)]
    found = squares((2, 2, 4, 1), (2, 20, 3, 1))
    metrics, details = documents(score_instances(challenge, {"P1_a": (squares(*places), found)}))
    figures = {
        figure.anchor: figure for figure in submission_page(ReadResult(ResultDocuments(metrics, details))).figures()
    }
    (line,) = figures["coverage-scores"].series
    values = {dot.x: dot.y for dot in line.dots}
    assert [values[share] for share in (0.25, 0.5, 0.75, 1.0)] == pytest.approx(
        [1, 25 / 32, 25 / 48, 25 / 64], abs=1e-6
    )
    (line,) = figures["coverage-px"].series
    curve = details["coverage_curves"]["rules"][next(iter(details["coverage_curves"]["rules"]))]
    assert [dot.y for dot in line.dots] == curve["hausdorff_px_class_mean"]
    assert "coverage-scores" not in [
        figure.anchor for figure in submission_page(ReadResult(ResultDocuments(metrics))).figures()
    ]
    plain, more = documents(result)
    assert "coverage-scores" not in [
        figure.anchor for figure in submission_page(ReadResult(ResultDocuments(plain, more))).figures()
    ]


def test_one_nucleus_is_one_nucleus():
    """A verb agrees with its number, and one class is not the best and the worst."""
    challenge = Challenge.from_preset("monusac2020", name="squares")
    metrics, details = documents(score_instances(challenge, {"a": (REFERENCE, PREDICTION)}))
    rule = details["pooled"]["rules"]["iou_above"]
    rule["counts"] |= {"true_positives": 1, "false_negatives": 0, "false_positives": 1}
    rule["counts"]["confusion_matrix"] = [[0] * 5, [0, 1, 0, 0, 0], *[[0] * 5] * 3]
    for of in metrics["panoptic"]["per_class"].values():
        of["pq"] = dict.fromkeys(of["pq"], 1.0)
    page = submission_page(ReadResult(ResultDocuments(metrics, details)))
    words = " ".join(text for block in section(page, "skills").blocks for text in getattr(block, "paragraphs", ()))
    assert "1 of 1 reference nucleus is matched: 0 false negatives, 1 false positive." in words
    assert "1 of the matched nuclei has the right class." in words
    assert "By class" not in words


def test_only_true_shares_read_all_or_none(result):
    """19,999 of 20,000 are not 100.0 %, and one of them is not 0.0 %."""
    metrics, details = documents(result)
    matrix = [[0] * 5, [0, 19_999, 1, 0, 0], [0, 0, 7, 0, 0], *[[0] * 5] * 2]
    details["pooled"]["rules"]["iou_above"]["counts"]["confusion_matrix"] = matrix
    rows = table(submission_page(ReadResult(ResultDocuments(metrics, details))), "confusion").rows
    assert [cell.text for cell in rows[0][1:3]] == ["19,999 (> 99.9 %)", "1 (< 0.1 %)"]
    assert rows[1][2].text == "7 (100 %)"
