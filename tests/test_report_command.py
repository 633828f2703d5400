"""``evaluation report``, and ``--report`` of score and leaderboard: from files to pages, which a browser opens.

``pages`` (conftest.py) is the demo with its board, the pages of its teams and those of its cases.
"""

from __future__ import annotations

import csv
import html
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import numpy as np
import pytest
import tifffile
from browser import Browser, OpenedPage
from every_format import write_challenge
from PIL import Image

from evaluation.board.stored import read_details
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.report.folders import page_of_results
from evaluation.report.html import page_html
from evaluation.report.nuclei import NUCLEUS_STATES

LIMIT_BYTES = 10_000_000
CLASSES = ["Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"]
Row = dict[str, str]
OPEN_ALL = "document.querySelectorAll('details').forEach(part => part.open = true)"


@pytest.fixture
def finder(pages: Path, tmp_path: Path) -> Path:
    """A copy of one result."""
    return Path(shutil.copytree(pages / "results" / "finder", tmp_path / "finder"))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def called(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = called("report", *arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def of_demo(pages: Path, team: str = "finder") -> tuple[object, ...]:
    return "--challenge", pages / "challenge", "--submission", pages / "submissions" / team


# --- the folder of all pages ------------------------------------------------------------------------------------------


def links_of(page: Path) -> set[Path]:
    """The files that a page leads to."""
    urls = re.findall(r'<a href="([^"#][^"]*)"', page.read_text().partition("<script")[0])
    return {(page.parent / unquote(url.partition("#")[0])).resolve() for url in urls}


def test_every_link_leads_to_a_page_and_every_page_leads_back(pages: Path) -> None:
    board = (pages / "leaderboard.html").resolve()
    found = {path.resolve() for path in pages.rglob("*.html")}
    teams = {path for path in found if path.name == "report.html"}
    cases = {path for path in found if path.parent.name == "cases"}
    assert len(teams) == 3 and len(cases) == 8 and found == {board} | teams | cases
    assert links_of(board) == teams | cases
    assert all(links_of(page) == {board} for page in teams)
    assert all(links_of(page) == {board} | teams for page in cases)
    assert max(path.stat().st_size for path in found) < LIMIT_BYTES


def test_a_page_is_the_same_whatever_the_workers(pages: Path, tmp_path: Path) -> None:
    where = ("report", "--results", pages / "results/finder", *of_demo(pages))
    for workers in (1, 2):
        assert called(*where, "--output", tmp_path / f"{workers}.html", "--workers", workers) == 0
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()
    assert '"page_browser"' in (tmp_path / "1.html").read_text()


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("team, other_rules, line", [
    ("finder", True, "[different-challenges] 'metrics.json': the hash 000000000000…"),
    ("outliner", False, "[not-metrics] 'metrics.json': detection.f1.group_mean is 0.9"),
])  # fmt: skip
def test_a_result_of_other_rules_or_of_another_submission_is_refused(pages, finder, capsys, team, other_rules, line):
    for name in ("metrics.json", "details.json") if other_rules else ():
        document = read(finder / name)
        document["challenge"]["hash"] = "0" * 64
        (finder / name).write_text(json.dumps(document))
    code, _, err = report(capsys, "--results", finder, *of_demo(pages, team))
    assert (code, line in err) == (2, True)


def rows_of(page: str, anchor: str) -> list[list[str]]:
    """The texts of the rows of a table on a page."""
    body = page.split(f'id="{anchor}"')[1].split("<tbody>")[1].split("</tbody>")[0]
    return [[html.unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in body.split("</tr>")[:-1]]  # fmt: skip


def classes_on(page: str) -> list[str]:
    return [row[0] for row in rows_of(page, "classes")]


def test_a_public_page_tells_nothing_of_cases(pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, page = pages / "results/finder", tmp_path / "public.html"
    assert report(capsys, "--results", results, "--public", "--output", page)[:2] == (0, f"Written to {page}\n")
    public, full = page.read_text(), (results / "report.html").read_text()
    for name in ("P1_1", "P3_2", "P4", "page_browser"):
        assert (name in public, name in full) == (False, True)
    (tmp_path / "alone").mkdir()
    shutil.copyfile(results / "metrics.json", tmp_path / "alone" / "metrics.json")
    assert report(capsys, "--results", tmp_path / "alone", "--output", tmp_path / "alone.html")[0] == 0
    alone = (tmp_path / "alone.html").read_text()
    assert sorted(alone) == sorted(public)  # but for the order of classes
    assert classes_on(public) == CLASSES and classes_on(alone) == sorted(CLASSES)


def test_with_the_challenge_a_public_page_has_its_classes_in_order_and_what_publish_names(pages, tmp_path, capsys):
    challenge = Path(shutil.copytree(pages / "challenge", tmp_path / "challenge"))
    results, page = pages / "results" / "finder", tmp_path / "public.html"
    where = ("--results", results, "--public", "--challenge", challenge, "--output", page)
    as_shipped = (challenge / "challenge.toml").read_text()
    for publish in ("scores", "ranked"):
        (challenge / "challenge.toml").write_text(f'{as_shipped}\n[publish]\nmetrics = "{publish}"\n')
        assert report(capsys, *where)[0] == 0
        if publish == "scores":
            assert classes_on(page.read_text()) == CLASSES
    shown = {row[0] for row in rows_of(page.read_text(), "scores")}
    ranked = set(Challenge.load(challenge).ranked_paths)
    assert {path.rpartition(".")[0] for path in ranked} <= shown
    assert {path.split(".")[0] for path in ranked} == {path.split(".")[0] for path in shown}
    assert "panoptic" in read(results / "metrics.json") and "panoptic" not in page.read_text()
    cases = challenge / "cases.csv"
    cases.write_text(cases.read_text().replace("0.25", "0.5"))
    code, _, told = report(capsys, *where)
    assert (code, "[different-challenges]" in told) == (2, True)


def test_a_public_page_does_not_tell_how_many_nuclei_there_are(pages: Path, tmp_path: Path) -> None:
    """Errors of counts times cases are numbers of nuclei; reasons of undefined values name absent classes."""
    metrics = read(pages / "results" / "finder" / "metrics.json")
    counting = {"mean_absolute_error": {"pooled": 12.345678}}
    metrics |= {
        "counting": counting,
        "alternatives": {"other": {"counting": counting, "detection": metrics["detection"]}},
        "undefined": {"panoptic": {"per_class": {"Rare": {"pq": {"pooled": "no-instances"}}}}},
    }
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    page = page_html(page_of_results(tmp_path, public=True))
    assert "12.34" not in page and "no-instances" not in page and "Rare" not in page
    full = page_html(page_of_results(tmp_path))
    assert "12.34" in full and "Rare" in full


def test_without_output_a_summary_of_the_document_is_printed(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, texts in (
        (pages / "results/finder", ("Detection", "Only on the page: Findings; Classes")),
        (pages, ("finder", "namer", "outliner")),
    ):
        code, out, _ = report(capsys, "--results", folder)
        assert code == 0 and [text for text in texts if text not in out] == []


def test_overlays_of_all_cases_are_written(pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--results", pages / "results" / "finder", *of_demo(pages), "--overlays", tmp_path)
    assert report(capsys, *where)[0] == 0
    ends = (".geojson", "_reference.tif", "_prediction.tif")
    cases = read(pages / "results" / "finder" / "details.json")["cases"]
    assert {path.name for path in tmp_path.rglob("*.*")} == {f"{name}{end}" for name in cases for end in ends}


@pytest.mark.parametrize("arguments, line", [
    (("--public", "CHALLENGE"), "[contradictory-rules] --public: given with --submission"),
    (("--images", "x"), "[missing-option] --challenge: not given, but --images is"),
    (("--submission", "x"), "[missing-option] --challenge: not given, but --submission is"),
    (("CHALLENGE", "--submission", "x"), "[no-submission] 'x': no such folder or file"),
    (("CHALLENGE", "--images", "x"), "[missing-file] 'x': no such folder; expected images such as 'P1_1.svs'"),
    (("CHALLENGE", "--images", "."), "[missing-file] '.': no image of any case; expected images such as 'P1_1."),
    (("--results", "EMPTY"), "no metrics.json, leaderboard.json, audit.json or sensitivity.json"),
])  # fmt: skip
def test_options_that_contradict_and_folders_without_results_are_told(pages, tmp_path, capsys, arguments, line):
    filled = {"CHALLENGE": of_demo(pages), "EMPTY": (tmp_path,)}
    given = [part for one in arguments for part in filled.get(one, (one,))]
    code, _, err = report(capsys, "--results", pages / "results" / "finder", *given)
    assert (code, line in err) == (2, True), err


# --- damaged documents ------------------------------------------------------------------------------------------------


DOCUMENTS = ("metrics.json", "details.json", "leaderboard.json", "audit.json", "sensitivity.json")
ODD: tuple[object, ...] = (
    None, True, [], {}, "x", -1, 0, 1e300, -1e308, 2**80, [1], {"a": 1}, "<b>", [[]], [None], "deleted"
)  # fmt: skip


@pytest.fixture(scope="module")
def documents(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with each document that has a page, by its name."""
    folder = tmp_path_factory.mktemp("documents")
    for name in ("challenge", "submissions"):  # studies take two teams, and an image of two patients each
        shutil.copytree(pages / name, folder / name, ignore=shutil.ignore_patterns("P?_2*", "P3", "P4", "outliner"))
    cases = folder / "challenge/cases.csv"
    cases.write_text("".join(cases.read_text().splitlines(True)[:3]))
    studied = ("--challenge", folder / "challenge", "--output", folder / "studied")
    assert called("sensitivity", *studied) == 0
    assert called("audit", *studied, "--submissions", folder / "submissions") == 0
    found = pages / "results" / "finder"
    return {**dict.fromkeys(DOCUMENTS, folder / "studied"), **dict.fromkeys(DOCUMENTS[:2], found), DOCUMENTS[2]: pages}


def places_in(node: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places_in(value, (*path, key))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_damaged_document_is_drawn_or_refused_and_never_breaks_the_program(documents, name, tmp_path, capsys):
    text = (documents[name] / name).read_text()
    if name == "details.json":
        (tmp_path / "metrics.json").write_text((documents[name] / "metrics.json").read_text())
    where, generator = list(places_in(json.loads(text))), random.Random(name)
    codes: Counter[int] = Counter()
    for number in range(80 if name == "details.json" else 25):  # most values of details are not on the page
        document = json.loads(text)
        *tables, key = generator.choice(where)
        odd, node = generator.choice(ODD), document
        for table in tables:
            node = node[table]
        node[key] = odd
        if odd == "deleted":
            del node[key]
        (tmp_path / name).write_text(json.dumps(document))
        code, _, err = report(capsys, "--results", tmp_path, *(["--output", tmp_path / "page.html"] * (number % 2)))
        assert code in (0, 2), (tables, key, odd, err)
        codes[code] += 1
    assert codes[2]


def test_what_a_document_lacks_is_told_by_name(finder: Path, tmp_path: Path, capsys) -> None:
    details = read(finder / "details.json")
    del details["cases"]["P1_1"]["rules"]
    (finder / "details.json").write_text(json.dumps(details))
    code, _, err = report(capsys, "--results", finder)
    assert (code, "[not-metrics] 'details.json': 'cases.P1_1.rules' is wrong: field required" in err) == (2, True)
    for name in DOCUMENTS[1:]:  # details.json stands beside a good metrics.json
        place = finder if name == "details.json" else tmp_path / name.partition(".")[0]
        place.mkdir(exist_ok=True)
        (place / name).write_text(json.dumps({"software": {"version": "0.2.0", "format_version": 1}}))
        code, _, err = report(capsys, "--results", place)
        assert (code, f"[not-metrics] '{name}': 'challenge' is wrong: field required" in err) == (2, True)


# --- score ------------------------------------------------------------------------------------------------------------


def test_score_writes_a_report_beside_the_same_files(pages: Path, tmp_path: Path) -> None:
    assert called("score", *of_demo(pages), "--output", tmp_path, "--report", "--workers", "1") == 0
    names = ["details.json", "metrics.json", "objects.csv", "report.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in names[:3]:
        assert (tmp_path / name).read_bytes() == (pages / "results" / "finder" / name).read_bytes()


@pytest.mark.parametrize("lacking", ["images", "jinja2", "matplotlib"])
def test_what_the_report_lacks_is_told_before_anything_is_scored(pages, tmp_path, monkeypatch, capsys, lacking):
    if lacking != "images":
        monkeypatch.setitem(sys.modules, lacking, None)
    where = ("score", *of_demo(pages), "--output", tmp_path / "out", "--workers", "1")
    assert called(*where, "--report", *(["--images", tmp_path] * (lacking == "images"))) == 2
    assert ("[missing-file]" if lacking == "images" else "[missing-extra]") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_scoring_and_a_summary_need_no_library_of_pages(tmp_path: Path) -> None:
    challenge, submission = write_challenge("points_csv", tmp_path)
    folders = ["--challenge", str(challenge), "--submission", str(submission), "--output", str(tmp_path / "out")]
    code = f"""
import sys
from evaluation.commands.main import run
assert run(["score", *{folders!r}, "--workers", "1"]) == 0
print([name for name in ("jinja2", "matplotlib", "evaluation.report.html") if name in sys.modules])
sys.modules["jinja2"] = sys.modules["matplotlib"] = None
sys.exit(run(["report", "--results", {str(tmp_path / "out")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "[]"


@pytest.mark.parametrize("kind", ["points_json", "label_image by class", "counts"])
def test_every_kind_of_challenge_has_a_page(tmp_path: Path, kind: str) -> None:
    if kind == "counts":
        from test_counts import Bench

        bench = Bench(tmp_path)
        challenge, submission = bench.challenge, bench.submission
    else:
        challenge, submission = write_challenge(kind, tmp_path)
    where = ("--challenge", challenge, "--submission", submission, "--output", tmp_path / "out")
    assert called("score", *where, "--report", "--workers", "1") == 0
    assert (tmp_path / "out" / "report.html").is_file()
    page = page_of_results(tmp_path / "out")
    has_pairs = ["confusion-section" in [section.anchor for section in page.sections], page.figures() != [],
                 any("matching rule" in section.lead for section in page.sections)]  # fmt: skip
    assert kind != "counts" or not any(has_pairs)


# --- in a browser: boards, teams and cases ----------------------------------------------------------------------------


def test_a_team_reads_its_rank_and_what_its_errors_cost_on_the_first_of_four_screens(pages, browser):
    board = read(pages / "leaderboard.json")
    for index, team in enumerate(board["teams"]):
        with browser.open(pages / "results" / team["name"] / "report.html", width=1440) as opened:
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
            assert bottom <= 1400
            assert opened.page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
            opened.page.evaluate(OPEN_ALL)
            scroll = "all => all.filter(of => of.scrollWidth > of.clientWidth + 1).map(of => of.closest('[id]').id)"
            assert opened.page.locator(".scroll").evaluate_all(scroll) == []


def test_from_the_board_to_a_team_and_a_case_and_back(pages: Path, browser: Browser) -> None:
    with browser.open(pages / "leaderboard.html") as opened:
        page = opened.page
        page.locator(".highlight input").fill("outliner")
        assert "outliner" in page.locator("#board tr.chosen").inner_text()
        page.locator(".highlight input").fill("")
        assert page.locator("tr.chosen").count() == 0
        opened.follow(page.locator("#board").get_by_role("link", name="namer + co @1"), "report.html")
        assert page.locator("h1").inner_text() == "Result of namer + co @1"
        opened.follow(page.get_by_role("link", name="Leaderboard", exact=True), "leaderboard.html")
        page.locator("#case-list summary").first.click()
        opened.follow(page.locator("#case-pages").get_by_role("link", name="P2_1"), "P2_1.html")
        assert page.locator("h1").inner_text() == "Case P2_1"
        assert page.locator(".case-view canvas").count() == 3
        page.locator(".browser [name=team]").select_option(label="outliner")
        assert page.locator(".case-view canvas").count() == 1
        case = read(pages / "results" / "outliner" / "details.json")["cases"]["P2_1"]
        counts = case["rules"]["iou_above"]["counts"]
        page.locator(".browser [name=state]").select_option("2")
        assert page.locator(".found").inner_text().startswith(f"{counts['false_negatives']} of ")
        assert str(counts["true_positives"]) in page.locator("#teams tr", has_text="outliner").inner_text()
        assert opened.errors == []


def test_tables_and_plots_are_handed_on_as_files(pages: Path, browser: Browser, tmp_path: Path) -> None:
    document = read(pages / "leaderboard.json")
    with browser.open(pages / "leaderboard.html") as opened:

        def saved(scope: str, name: str) -> str:
            with opened.page.expect_download() as found:
                opened.page.locator(scope).get_by_role("button", name=name).first.click()
            found.value.save_as(tmp_path / "file")
            return (tmp_path / "file").read_bytes().decode()

        rows = list(csv.reader(saved("#board", "CSV").splitlines()))
        assert [float(row[1]) for row in rows[1:]] == [team["columns"][0]["value"] for team in document["teams"]]
        latex = saved("#board", "LaTeX")
        assert latex.count("\\\\\n") == 4 and "\\begin{tabular}{lrrrr}" in latex
        opened.page.evaluate(OPEN_ALL)
        assert "\\%" in saved("#common-pairs", "LaTeX")
        assert saved("#values-1", "Save SVG").startswith("<svg xmlns=")
        names = next(csv.reader(saved("#pairs", "CSV").splitlines()))
        opened.page.locator("#pairs .columns input").first.uncheck()
        assert next(csv.reader(saved("#pairs", "CSV").splitlines())) == [names[0], *names[2:]]
        facts = opened.page.locator("footer").inner_text()
        assert f"rules and cases {document['challenge']['hash'][:12]}" in facts
        assert opened.errors == []


# --- in a browser: screenshots, compared by their structure -----------------------------------------------------------

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
def test_a_screenshot_has_the_structure_of_the_golden_one(pages, browser, name, width, scheme, request):
    with browser.open(pages / LOOKED_AT[name], width=width, scheme=scheme) as opened:
        found = structure_of(opened, name)
        opened.check()
    golden = Path(__file__).parent / "golden" / "pages" / f"{name}_{width}.txt"
    if request.config.getoption("--renew-golden"):
        golden.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8").splitlines()


# --- in a browser: people look through the nuclei ---------------------------------------------------------------------


TEAM = "namer + co @1"


@pytest.fixture(scope="module")
def rows(pages: Path) -> list[Row]:
    with (pages / "results" / TEAM / "objects.csv").open() as stream:
        return [row for row in csv.DictReader(stream) if row["rule"] == "iou_above"]


@pytest.fixture(scope="module")
def opened(chromium: Any, pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedPage]:
    """The page of a team in a wide window, for all tests that look at it."""
    with Browser(chromium, tmp_path_factory.mktemp("opened")).open(
        pages / "results" / TEAM / "report.html", width=1440
    ) as page:
        yield page


def state_of(row: Row) -> str:
    is_wrong = row["outcome"] == "matched" and row["reference_class"] != row["prediction_class"]
    return "wrong_class" if is_wrong else row["outcome"]


def found(opened: OpenedPage) -> int:
    return int(opened.page.locator(".found").inner_text().split(" of ")[0].replace(",", ""))


def test_filters_count_what_objects_csv_has(opened: OpenedPage, rows: list[Row]) -> None:
    form = opened.page.locator(".browser form")
    first = opened.page.locator(".found").inner_text()
    assert found(opened) == sum(state_of(row) not in ("matched", "ignored") for row in rows)
    for index, state in enumerate(NUCLEUS_STATES):
        form.locator("[name=state]").select_option(state if state == "ignored" else str(index))
        assert found(opened) == sum(state_of(row) == state for row in rows) > 0
    form.locator("[name=state]").select_option("")
    form.locator("[name=case]").select_option(label="P1_1")
    form.locator("[name=class]").select_option(label="Lymphocyte")
    form.locator("[name=low]").fill("300")
    own = [
        row for row in rows
        if row["case"] == "P1_1" and "Lymphocyte" in (row["reference_class"], row["prediction_class"])
        and float(row["reference_area_px"] or row["prediction_area_px"]) >= 300
    ]  # fmt: skip
    assert found(opened) == len(own) > 0
    canvas = opened.page.locator(".case-view canvas")
    assert canvas.count() == 1 and "P1_1" in str(canvas.get_attribute("aria-label"))
    form.get_by_role("button", name="Clear").click()
    opened.page.locator(".found", has_text=first).wait_for()  # a form is empty a moment after the click


def test_what_lost_most_comes_first_and_is_drawn_in_its_colour(opened: OpenedPage, rows: list[Row]) -> None:
    texts = opened.page.locator(".card").all_inner_texts()
    lost = [int(text.split(" px lost")[0].split("\n")[-1].replace(",", "")) for text in texts]
    assert lost == sorted(lost, reverse=True)
    assert lost[0] >= max(int(row["reference_area_px"]) for row in rows if row["outcome"] == "missed")
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
    page.locator(".card").first.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog.viewer")
    assert dialog.is_visible() and "False negative" in dialog.inner_text()
    assert dialog.locator(".where").inner_text().startswith("1 of ")
    page.keyboard.press("ArrowRight")
    assert dialog.locator(".where").inner_text().startswith("2 of ")
    assert opened.violations() == []
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.wait_for_function("document.activeElement === document.querySelectorAll('.card')[1]")


def test_cases_sort_and_groups_lead_to_them_and_they_to_their_nuclei(
    pages: Path, opened: OpenedPage, rows: list[Row]
) -> None:
    cases = read_details(pages / "results" / TEAM / "details.json", where="details")["cases"]
    f1 = {name: case["rules"]["iou_above"]["scores"]["detection"]["f1"] for name, case in cases.items()}
    opened.page.evaluate(OPEN_ALL)
    table = opened.page.locator("#cases")
    table.get_by_role("button", name="detection F1").click()
    names = table.locator("tbody th").all_inner_texts()
    assert [f1[name.strip()] for name in names] in (sorted(f1.values()), sorted(f1.values(), reverse=True))
    opened.page.locator("#groups").get_by_role("link", name="P3").click()
    opened.page.wait_for_selector(":target")
    assert opened.page.evaluate("document.querySelector(location.hash).innerText").startswith("P3_")
    table.get_by_role("link", name="P2_1").click()
    assert found(opened) == sum(row["case"] == "P2_1" for row in rows)
    opened.page.locator(".browser").get_by_role("button", name="Clear").click()


# --- in a browser: the viewer -----------------------------------------------------------------------------------------


def case_rows(pages: Path, case: str) -> dict[str, list[Row]]:
    """The rows of objects.csv of a case, by team."""
    found = {}
    for path in sorted((pages / "results").iterdir()):
        with (path / "objects.csv").open() as stream:
            rows = [row for row in csv.DictReader(stream) if row["rule"] == "iou_above" and row["case"] == case]
        found[path.name] = rows
    return found


@pytest.fixture(scope="module")
def viewed(chromium: Any, pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedPage]:
    """The page of a case with all teams, for all tests that look at it."""
    with Browser(chromium, tmp_path_factory.mktemp("viewed")).open(pages / "cases/P1_1.html", width=1440) as page:
        yield page


def drawn(opened: OpenedPage) -> str:
    """A digest of the picture in the viewer, once it is complete."""
    canvas = opened.page.locator("dialog.viewer canvas")
    return str(canvas.evaluate("canvas => canvas.toDataURL()"))


def test_layers_are_switched_by_keys(viewed: OpenedPage, pages: Path) -> None:
    page = viewed.page
    page.locator(".case-view canvas").first.click(position={"x": 3, "y": 250})
    dialog = page.locator("dialog.viewer")
    boxes = {name: dialog.locator(f".layers [name={name}]") for name in ("tissue", "reference", "classes", "model")}
    assert [box.is_checked() for box in boxes["model"].all()] == [True, False, False]
    pictures = [drawn(viewed)]
    for key in ("r", "1", "2", "3", "c"):
        page.keyboard.press(key)
        pictures.append(drawn(viewed))
    assert [box.is_checked() for box in boxes["model"].all()] == [False, True, True]
    assert boxes["classes"].is_checked() and not boxes["reference"].is_checked() and boxes["tissue"].is_checked()
    assert len(set(pictures)) == len(pictures)
    dialog.locator(".classes label", has_text="Epithelial").locator("input").uncheck()
    assert drawn(viewed) not in pictures
    assert "namer + co @1" in dialog.locator(".layers").inner_text() and viewed.violations() == []
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert page.locator(".form-place form").count() == 1 and "#" not in page.url


def test_the_picture_is_moved_and_enlarged_by_mouse_and_keys(viewed: OpenedPage) -> None:
    page = viewed.page
    page.get_by_role("button", name="Open the viewer").click()
    stage = page.locator("dialog.viewer canvas")

    def view() -> list[float]:
        return [float(number) for number in str(stage.get_attribute("data-turn")).split(" ")[-3:]]

    x, y, scale = view()
    page.keyboard.press("+")
    assert view()[2] == pytest.approx(1.5 * scale)
    page.keyboard.press("0")
    assert view() == [x, y, scale]
    box = stage.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 400, box["y"] + 300)
    under = [x + 400 / scale, y + 300 / scale]
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"!document.querySelector('dialog canvas').dataset.turn.endsWith(' {scale:g}')")
    left, top, larger = view()
    assert larger > 2 * scale and [left + 400 / larger, top + 300 / larger] == pytest.approx(under)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 320, steps=4)
    page.mouse.up()
    assert view()[:2] == pytest.approx([left - 100 / larger, top - 20 / larger])
    page.keyboard.press("Shift+ArrowRight")
    assert view()[0] == pytest.approx(left - 20 / larger)
    page.get_by_role("button", name="Close").click()


def test_on_a_phone_one_finger_moves_the_picture_and_two_enlarge_it(pages: Path, browser: Browser) -> None:
    with browser.open(pages / "cases/P1_1.html", width=390, height=844, phone=True) as opened:
        page = opened.page
        page.get_by_role("button", name="Open the viewer").tap()
        stage, fingers = page.locator("dialog.viewer canvas"), page.context.new_cdp_session(page)

        def view() -> list[float]:
            return [float(number) for number in str(stage.get_attribute("data-turn")).split(" ")[-3:]]

        def touch(*moves: list[tuple[float, float]]) -> None:
            for kind, points in zip(
                ["touchStart", *["touchMove"] * len(moves[1:]), "touchEnd"], [*moves, []], strict=True
            ):
                places = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(points)]
                fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

        box = stage.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        ratio = int(str(stage.get_attribute("width"))) / box["width"]
        left, top, scale = view()
        middle = [left + ratio * box["width"] / 2 / scale, top + ratio * box["height"] / 2 / scale]
        touch(*[[(x - apart, y), (x + apart, y)] for apart in (30, 45, 60, 90)])
        left, top, larger = view()
        assert larger == pytest.approx(3 * scale)
        assert [left + ratio * box["width"] / 2 / larger, top + ratio * box["height"] / 2 / larger] == pytest.approx(
            middle
        )
        touch(*[[(x + by, y - by)] for by in (0, 20, 40)])
        assert view() == pytest.approx([left - 40 * ratio / larger, top + 40 * ratio / larger, larger])
        assert page.evaluate("visualViewport.scale") == 1 and opened.errors == []
        page.locator("dialog [name=next]").tap()
        assert page.locator("dialog .why").inner_text() and opened.overflow() <= 0


def test_a_link_leads_to_its_nucleus_and_says_why_it_is_not_matched(pages: Path, browser: Browser) -> None:
    (row, *_) = [
        row for row in case_rows(pages, "P1_1")["outliner"] if row["outcome"] == "missed" and row["nearest_id"]
    ]
    given = urlencode({"case": "P1_1", "nucleus": row["reference_id"], "model": "outliner"})
    with browser.open(pages / "cases/P1_1.html", hash=f"#{given}") as opened:
        dialog = opened.page.locator("dialog.viewer")
        assert row["reference_id"] in dialog.locator(".side > dl").inner_text()
        words = dialog.locator(".why").inner_text()
        assert words.startswith("False negative") and f"{row['nearest_id']}," in words
        assert f"{float(row['nearest_distance_px']):.1f} px" in words and "needs an IoU above 0.5" in words
        assert f"matched to {'reference nucleus ' + row['taken_by'] if row['taken_by'] else 'nothing'}" in words
        opened.page.keyboard.press("ArrowRight")
        address = opened.page.url
        assert f"#{given}" not in address and "#case=P1_1&nucleus=" in address
        assert address.endswith(str(dialog.locator(".link").get_attribute("href")))
        shown = dialog.locator(".side > dl").inner_text()
        opened.page.goto("about:blank")
        opened.page.goto(address)
        opened.wait_until_drawn()
        assert dialog.locator(".side > dl").inner_text() == shown and opened.errors == []


def test_nuclei_that_one_team_found_and_another_did_not(viewed: OpenedPage, pages: Path) -> None:
    rows = case_rows(pages, "P1_1")
    found = {team: {row["reference_id"]: row["outcome"] for row in of_team} for team, of_team in rows.items()}
    expected = {id for id, outcome in found["finder"].items() if outcome == "matched"}
    expected &= {id for id, outcome in found["outliner"].items() if outcome == "missed"}
    page = viewed.page
    page.get_by_role("button", name="Open the viewer").click()
    form = page.locator("dialog.viewer form")
    page.locator("dialog.viewer .filter summary").click()
    form.locator("[name=by]").select_option(label="finder")
    form.locator("[name=not]").select_option(label="outliner")
    where = page.locator("dialog.viewer .where")
    assert where.inner_text() == f"1 of {len(expected)}" and len(expected) > 3
    assert [box.is_checked() for box in page.locator("dialog [name=model]").all()] == [True, False, True]
    seen = set()
    page.locator("dialog canvas").focus()
    for _ in expected:
        seen.add(page.locator("dialog .side > dl dd").nth(2).inner_text().split(" · ")[0])
        page.keyboard.press("ArrowRight")
    assert seen == expected
    form.get_by_role("button", name="Clear").click()
    page.locator(".viewer .where", has_text=f"1 of {len(expected)}").wait_for(state="detached")
    form.locator("[name=id]").fill(min(expected))
    page.locator(".viewer .where", has_text="of").wait_for()
    of_id = [
        row for team in rows.values() for row in team if min(expected) in (row["reference_id"], row["prediction_id"])
    ]
    assert where.inner_text() == f"1 of {len(of_id)}"
    page.get_by_role("button", name="Close").click()
    page.locator(".browser").get_by_role("button", name="Clear").click()


def test_cases_are_turned_by_keys_and_kinds_are_those_of_objects_csv(opened: OpenedPage, rows: list[Row]) -> None:
    page = opened.page
    page.get_by_role("button", name="Open the viewer").click()
    dialog, names = page.locator("dialog.viewer"), sorted({row["case"] for row in rows})
    assert dialog.locator(".why").inner_text() == names[0]
    errors = sum(state_of(row) not in ("matched", "ignored") for row in rows if row["case"] == names[0])
    assert f"{errors} errors" in dialog.locator(".side > dl").inner_text()
    page.keyboard.press("]")
    assert dialog.locator(".why").inner_text() == names[1]
    page.keyboard.press("[")
    page.keyboard.press("[")
    assert dialog.locator(".why").inner_text() == names[-1] and dialog.locator("select").first.input_value() == "7"
    page.keyboard.press("Escape")
    form = page.locator(".browser form")
    for kind in ("split", "poor outline"):
        number = sum(row["kind"] == kind.replace(" ", "_") for row in rows)
        if number:
            form.locator("[name=state]").select_option(kind)
            assert found(opened) == number
    form.get_by_role("button", name="Clear").click()


WATCH_LINES = """() => {
  const path = Path2D.prototype, {moveTo, lineTo} = path;
  const last = new WeakMap();
  window.lines = [];
  path.moveTo = function (x, y) { last.set(this, [x, y]); return moveTo.call(this, x, y); };
  path.lineTo = function (x, y) {
    if (last.has(this)) lines.push([...last.get(this), x, y]);
    last.set(this, [x, y]);
    return lineTo.call(this, x, y);
  };
}"""


def test_no_line_joins_the_parts_of_a_nucleus(tmp_path: Path, browser: Browser) -> None:
    """Outlines go along the pixels, so every line of them is level or upright."""
    labels = np.zeros((40, 40), np.uint8)
    labels[5:9, 5:9] = labels[20:24, 25:29] = 1
    sides = [tmp_path / side for side in ("reference", "prediction")]
    for side, of in zip(sides, (labels, labels[:, ::-1]), strict=True):
        side.mkdir()
        tifffile.imwrite(side / "a.tif", of)
    kept = tmp_path / "kept"
    assert called("compare", *sides, "--save-challenge", kept) == 0
    where = ("--challenge", kept, "--submission", kept / "submissions/prediction", "--output", tmp_path / "results")
    assert called("score", *where, "--report") == 0
    with browser.open(tmp_path / "results/report.html", before=WATCH_LINES) as opened:
        opened.page.wait_for_function("lines.length > 0")
        opened.page.wait_for_timeout(200)
        lines = opened.page.evaluate("lines")
    assert [line for line in lines if line[0] != line[2] and line[1] != line[3]] == []


def test_without_script_it_says_where_the_nuclei_are(pages: Path, browser: Browser) -> None:
    with browser.open(pages / "results/finder/report.html", script=False) as opened:
        assert "objects.csv lists all nuclei" in opened.page.locator(".browser").inner_text()
        assert not opened.page.locator(".browser form").is_visible()


def test_names_of_strangers_are_texts_of_the_browser(finder: Path, browser: Browser) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    for name in ("metrics.json", "details.json", "objects.csv"):
        text = (finder / name).read_text().replace("P1_1", hostile).replace("Lymphocyte", "</script><b>x")
        (finder / name).write_text(text)
    assert called("report", "--results", finder, "--output", finder / "page.html") == 0
    with browser.open(finder / "page.html") as opened:
        opened.page.locator(".browser [name=case]").select_option(label=hostile)
        assert hostile in opened.page.locator(".card").first.inner_text()
        opened.page.locator(".card").first.click()
        assert opened.page.locator("main img").count() == opened.page.locator("main b").count() == 0
        assert opened.errors == []


# --- real data --------------------------------------------------------------------------------------------------------


def test_monusac_shows_real_tissue(shared_data: Path, tmp_path: Path, browser: Browser) -> None:
    """The images are the slides that the challenge was derived from; two of four cases have their whole slide."""
    source = shared_data / "monusac_challenge"
    challenge = Path(shutil.copytree(source / "ground_truth", tmp_path / "challenge", copy_function=shutil.copyfile))
    for path in (challenge, *challenge.rglob("*")):
        path.chmod(0o755)
    (challenge / "challenge.toml").write_text('format_version = 1\nname = "MoNuSAC"\npreset = "monusac2020"\n')
    images = tmp_path / "images"
    images.mkdir()
    shutil.copyfile(shared_data / "monusac" / "A9K0_1.svs", images / "P1_1.svs")
    where = ("--challenge", challenge, "--submission", source / "submission", "--images", images)
    assert called("score", *where, "--output", tmp_path / "out", "--report") == 0
    path = tmp_path / "out" / "report.html"
    assert path.stat().st_size < LIMIT_BYTES
    with browser.open(path) as opened:
        assert opened.errors == opened.requests == []
        cases = {case["name"]: case for case in json.loads(opened.page.locator("#page_browser").inner_text())["cases"]}
        assert [len(case["windows"]) for case in cases.values()] == [1, 0, 0, 0]  # one has an image
        assert cases["P1_1"]["size"] == [1153, 1307]
        assert 40_000 < len(cases["P1_1"]["windows"][0][4]) < 4 / 3 * 0.2 * 1153 * 1307
