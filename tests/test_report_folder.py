"""The folder of pages that ``leaderboard --report`` writes: it opens from disk, and links lead on and back."""

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from browser import Browser, OpenedPage
from PIL import Image

from evaluation.commands.main import run


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


def test_a_team_reads_its_rank_and_what_its_errors_cost_on_the_first_of_four_screens(
    made: Path, browser: Browser
) -> None:
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
def test_a_screenshot_has_the_structure_of_the_golden_one(
    made: Path, browser: Browser, name: str, width: int, scheme: Any, request: pytest.FixtureRequest
) -> None:
    with browser.open(made / LOOKED_AT[name], width=width, scheme=scheme) as opened:
        found = structure_of(opened, name)
        opened.check()
    golden = Path(__file__).parent / "golden" / "pages" / f"{name}_{width}.txt"
    if request.config.getoption("--renew-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8").splitlines()
