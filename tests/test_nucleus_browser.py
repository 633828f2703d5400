"""The browser of cases and nuclei: what it holds, and that people can look through it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from browser import Browser, OpenedPage
from test_overlay import judged_case

from evaluation.commands.main import run
from evaluation.report import nuclei as nucleus_browser
from evaluation.report.nuclei import NUCLEUS_STATES, NucleusTable, TeamNuclei, browser_of, browser_section, lost_px
from evaluation.report.scenes import Scene, Window, lost_in_rows, scene_rows

Row = dict[str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of the demo's team 'namer', with everything that is drawn."""
    folder = tmp_path_factory.mktemp("nuclei")
    assert run(["demo", "--output", str(folder), "--workers", "1"]) == 0
    where = ["--challenge", str(folder / "challenge"), "--submission", str(folder / "submissions" / "namer")]
    page = ["--results", str(folder / "results" / "namer"), "--output", str(folder / "page.html")]
    assert run(["report", *where, *page, "--workers", "1"]) == 0
    return folder


@pytest.fixture(scope="module")
def rows(made: Path) -> list[Row]:
    with (made / "results" / "namer" / "objects.csv").open() as stream:
        return [row for row in csv.DictReader(stream) if row["rule"] == "iou_above"]


@pytest.fixture(scope="module")
def opened(chromium: Any, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedPage]:
    with Browser(chromium, tmp_path_factory.mktemp("pictures")).open(made / "page.html", width=1440) as opened:
        yield opened


def state_of(row: Row) -> str:
    is_wrong = row["outcome"] == "matched" and row["reference_class"] != row["prediction_class"]
    return "wrong_class" if is_wrong else row["outcome"]


def table(**columns: Any) -> NucleusTable:
    """Nuclei of one case and class; without a state they are missed."""
    number = len(next(iter(columns.values())))
    nothing = np.full(number, np.nan)
    given = {
        "outcome": np.ones(number, np.int64), "classes": ("a",), "reference_class": np.zeros(number, np.int64),
        "reference_area": nothing, "measures": {}, "cases": ("P1",), "case": np.zeros(number, np.int64),
        "prediction_class": np.zeros(number, np.int64), "prediction_area": nothing,
        "reference_id": np.full(number, ""), "prediction_id": np.full(number, ""),
    }  # fmt: skip
    return NucleusTable(**{**given, **columns})


# --- what it holds ----------------------------------------------------------------------------------------------------


def test_what_is_lost_is_what_the_pixels_say() -> None:
    """A pair with 3 px on one side only, one of another class, a missed nucleus and a spurious one."""
    case = judged_case("aaaaaa.BBB.cc....", ".aaaaaabbb.....dd")
    assert lost_in_rows(case, scene_rows(case)).tolist() == [3, 2, 2, 2]  # "B" comes before "a"
    nuclei = table(
        outcome=np.array([0, 0, 1, 2]),
        reference_area=np.array([6, 3, 2, np.nan]),
        prediction_area=np.array([6, 3, np.nan, 2]),
        measures={"iou": np.array([5 / 7, 1, np.nan, np.nan])},
    )
    assert lost_px(nuclei, np.array([0, 1, 2, 3])).tolist() == [2, 3, 2, 2]


def test_points_and_pairs_without_an_iou_have_no_loss() -> None:
    points = table(outcome=np.array([0, 1, 2]))
    assert np.isnan(lost_px(points, np.array([0, 2, 3]))).all()
    pair = table(outcome=np.array([0]), reference_area=np.array([9.0]), prediction_area=np.array([9.0]))
    assert np.isnan(lost_px(pair, np.array([0]))).all()


def test_of_many_nuclei_those_that_lost_most_are_kept_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nucleus_browser, "NUCLEI_UP_TO", 3)
    block = browser_of([TeamNuclei("", table(reference_area=np.array([5.0, 50, 7, 70, 9])), {})])
    assert block.data["columns"]["loss"] == [50, 70, 9]
    assert block.note == "The 3 of 5 nuclei that lost most are here."


def test_cases_whose_outlines_have_no_room_are_not_drawn_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nuclei of 17 characters have room, the three of the second case have none."""
    monkeypatch.setattr(nucleus_browser, "OUTLINES_UP_TO", 40)
    nuclei = table(reference_area=np.arange(5.0) + 1, cases=("a", "b"), case=np.array([0, 0, 1, 1, 1]))
    scenes = {
        name: Scene(name, (9, 9), (Window(0, 0, 9, 9, 1, b"x"),), True, ("1 0 2 1 -1 1 -1 2",) * many, ("",) * many,
                    ("missed",) * many)
        for name, many in (("a", 2), ("b", 3))
    }  # fmt: skip
    block = browser_of([TeamNuclei("", nuclei, scenes)])
    assert [bool(text) for text in block.data["columns"]["reference"]] == [True, True, False, False, False]
    assert [(case["size"], len(case["windows"])) for case in block.data["cases"]] == [([9, 9], 1), (None, 0)]
    assert block.note == "The first 1 of 2 cases are drawn; the others stand in the tables."


def test_no_nucleus_makes_no_section() -> None:
    assert browser_section([TeamNuclei("", table(outcome=np.empty(0, np.int64)), {})]) == []


# --- people look through it -------------------------------------------------------------------------------------------


def found(opened: OpenedPage) -> int:
    return int(opened.page.locator(".found").inner_text().split(" of ")[0].replace(",", ""))


def test_filters_count_what_objects_csv_has(opened: OpenedPage, rows: list[Row]) -> None:
    form = opened.page.locator(".browser form")
    first = opened.page.locator(".found").inner_text()
    assert found(opened) == sum(state_of(row) != "matched" for row in rows)
    for index, state in enumerate(NUCLEUS_STATES):
        form.locator("[name=state]").select_option(str(index))
        own = [row for row in rows if state_of(row) == state]
        assert found(opened) == len(own) > 0
    form.locator("[name=state]").select_option("")
    form.locator("[name=case]").select_option(label="P1_1")
    form.locator("[name=class]").select_option(label="Lymphocyte")
    form.locator("[name=low]").fill("300")
    own = [
        row
        for row in rows
        if row["case"] == "P1_1"
        and "Lymphocyte" in (row["reference_class"], row["prediction_class"])
        and float(row["reference_area_px"] or row["prediction_area_px"]) >= 300
    ]
    assert found(opened) == len(own) > 0
    canvas = opened.page.locator(".case-view canvas")
    assert canvas.count() == 1 and "P1_1" in str(canvas.get_attribute("aria-label"))
    form.get_by_role("button", name="Clear").click()
    opened.page.locator(".found", has_text=first).wait_for()  # a form is empty a moment after the click


def test_what_lost_most_comes_first(opened: OpenedPage, rows: list[Row]) -> None:
    texts = opened.page.locator(".card").all_inner_texts()
    lost = [int(text.split(" px lost")[0].split("\n")[-1].replace(",", "")) for text in texts]
    assert lost == sorted(lost, reverse=True)
    areas = [int(row["reference_area_px"]) for row in rows if row["outcome"] == "missed"]
    assert lost[0] >= max(areas)


def test_nuclei_are_drawn_in_their_colour(opened: OpenedPage) -> None:
    card = opened.page.locator(".card").first
    card.scroll_into_view_if_needed()
    canvas = card.locator("canvas[data-painted]")
    canvas.wait_for()
    orange = canvas.evaluate("""canvas => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4)
        count += Math.abs(data[at] - 230) < 25 && Math.abs(data[at + 1] - 159) < 25 && data[at + 2] < 40;
      return count;
    }""")
    assert card.inner_text().startswith("False negative") and orange > 100


def test_a_nucleus_is_looked_at_by_keyboard_alone(opened: OpenedPage) -> None:
    page = opened.page
    first = page.locator(".card").first
    first.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog.nucleus")
    assert dialog.is_visible() and "False negative" in dialog.inner_text()
    assert dialog.locator(".where").inner_text().startswith("1 of ")
    page.keyboard.press("ArrowRight")
    assert dialog.locator(".where").inner_text().startswith("2 of ")
    assert opened.violations() == []
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.wait_for_function("document.activeElement === document.querySelectorAll('.card')[1]")


def test_a_case_of_the_table_leads_to_its_nuclei(opened: OpenedPage, rows: list[Row]) -> None:
    opened.page.get_by_role("heading", name="Patients and cases", exact=True).click()
    opened.page.locator("#cases").get_by_role("link", name="P2_1").click()
    assert found(opened) == sum(row["case"] == "P2_1" for row in rows)
    opened.page.locator(".browser").get_by_role("button", name="Clear").click()


WATCH_LINES = """() => {
  const canvas = CanvasRenderingContext2D.prototype, {beginPath, moveTo, lineTo} = canvas;
  let last = null;
  window.lines = [];
  canvas.beginPath = function () { last = null; return beginPath.call(this); };
  canvas.moveTo = function (x, y) { last = [x, y]; return moveTo.call(this, x, y); };
  canvas.lineTo = function (x, y) {
    if (last) lines.push([...last, x, y]);
    last = [x, y];
    return lineTo.call(this, x, y);
  };
}"""


def test_no_line_joins_the_parts_of_a_nucleus(tmp_path: Path, browser: Browser) -> None:
    """Outlines go along the pixels, so every line of them is level or upright."""
    labels = np.zeros((40, 40), np.uint8)
    labels[5:9, 5:9] = labels[20:24, 25:29] = 1
    for side, of in (("reference", labels), ("prediction", labels[:, ::-1])):
        (tmp_path / side).mkdir()
        tifffile.imwrite(tmp_path / side / "a.tif", of)
    kept, results = tmp_path / "kept", tmp_path / "results"
    sides = [str(tmp_path / side) for side in ("reference", "prediction")]
    assert run(["compare", *sides, "--save-challenge", str(kept)]) == 0
    submission = str(kept / "submissions" / "prediction")
    assert (
        run(["score", "--challenge", str(kept), "--submission", submission, "--output", str(results), "--report"]) == 0
    )
    with browser.open(results / "report.html") as opened:
        opened.page.evaluate(WATCH_LINES)
        opened.page.locator(".browser form [name=state]").select_option(index=0)
        opened.page.wait_for_function("lines.length > 0")
        opened.page.wait_for_timeout(200)
        lines = opened.page.evaluate("lines")
    assert [line for line in lines if line[0] != line[2] and line[1] != line[3]] == []


def test_without_script_it_says_where_the_nuclei_are(made: Path, browser: Browser) -> None:
    with browser.open(made / "page.html", script=False) as opened:
        assert "objects.csv has every one" in opened.page.locator(".browser").inner_text()
        assert not opened.page.locator(".browser form").is_visible()


def test_names_of_strangers_are_texts_of_the_browser(made: Path, tmp_path: Path, browser: Browser) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    results = made / "results" / "namer"
    for name in ("metrics.json", "details.json", "objects.csv"):
        text = (results / name).read_text().replace("P1_1", hostile).replace("Lymphocyte", "</script><b>x")
        (tmp_path / name).write_text(text)
    assert run(["report", "--results", str(tmp_path), "--output", str(tmp_path / "page.html")]) == 0
    with browser.open(tmp_path / "page.html") as opened:
        opened.page.locator(".browser [name=case]").select_option(label=hostile)
        assert hostile in opened.page.locator(".card").first.inner_text()
        opened.page.locator(".card").first.click()
        assert opened.page.locator("main img").count() == opened.page.locator("main b").count() == 0
        assert opened.errors == []
