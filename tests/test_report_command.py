"""``evaluation report``, and ``--report`` of score and demo: from files to pages, and what a browser makes of them."""

from __future__ import annotations

import html
import json
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, OpenedPage
from every_format import write_challenge

from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.report.folders import Sources, page_of_results
from evaluation.report.html import page_html
from evaluation.report.page import Table, Widget

LIMIT_BYTES = 10_000_000
CLASSES = ["Epithelial", "Lymphocyte", "Neutrophil", "Macrophage"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo with its pages. Tests do not change it."""
    folder = tmp_path_factory.mktemp("demo")
    assert run(["demo", "--report", "--output", str(folder), "--workers", "1"]) == 0
    return folder


@pytest.fixture(scope="module")
def opened(chromium: Any, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedPage]:
    """The page of one result in a wide, light window, for all tests that look at it."""
    with Browser(chromium, tmp_path_factory.mktemp("opened")).open(made / "results/finder/report.html") as page:
        yield page


@pytest.fixture
def finder(made: Path, tmp_path: Path) -> Path:
    """A copy of one result."""
    return Path(shutil.copytree(made / "results" / "finder", tmp_path / "finder"))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def rows_of(page: str, anchor: str) -> list[list[str]]:
    """The texts of the rows of a table on a page."""
    body = page.split(f'id="{anchor}"')[1].split("<tbody>")[1].split("</tbody>")[0]
    return [[html.unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in body.split("</tr>")[:-1]]  # fmt: skip


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run(["report", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def of_demo(made: Path, team: str = "finder") -> tuple[object, ...]:
    return "--challenge", made / "challenge", "--submission", made / "submissions" / team


# --- in a browser -----------------------------------------------------------------------------------------------------


def test_the_page_shows_the_numbers_of_the_documents(made: Path, opened: OpenedPage) -> None:
    folder = made / "results" / "finder"
    metrics, details = read(folder / "metrics.json"), read(folder / "details.json")
    groups = [group["rules"]["iou_above"]["scores"] for _, group in sorted(details["groups"].items())]
    shown = opened.page.locator("#groups tbody tr > :nth-child(2)").evaluate_all(
        "all => all.map(of => of.dataset.value)"
    )
    assert [float(value) for value in shown] == [group["detection"]["f1"] for group in groups]
    opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    main = opened.page.locator("#scores tr", has_text="panoptic.pq").first.inner_text()
    assert f"{metrics['panoptic']['pq']['group_mean']:.3f}" in main
    nuclei = opened.page.locator("#size-table tbody tr > :last-child").evaluate_all(
        "all => all.map(of => +of.dataset.value)"
    )
    counts = details["pooled"]["rules"]["iou_above"]["counts"]
    assert sum(nuclei) == counts["true_positives"] + counts["false_negatives"]


def test_cases_sort_and_groups_lead_to_them(made: Path, opened: OpenedPage) -> None:
    cases = read(made / "results" / "finder" / "details.json")["cases"]
    f1 = {name: case["rules"]["iou_above"]["scores"]["detection"]["f1"] for name, case in cases.items()}
    opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    table = opened.page.locator("#cases")
    table.get_by_role("button", name="detection F1").click()
    names = table.locator("tbody th").all_inner_texts()
    assert [f1[name.strip()] for name in names] in (sorted(f1.values()), sorted(f1.values(), reverse=True))
    opened.page.locator("#groups").get_by_role("link", name="P3").click()
    opened.page.wait_for_selector(":target")
    assert opened.page.evaluate("document.querySelector(location.hash).innerText").startswith("P3_3")


# --- pictures and costs -----------------------------------------------------------------------------------------------


def test_a_page_with_sources_has_pictures_and_costs(made: Path) -> None:
    page = page_of_results(made / "results" / "finder", sources=sources(made), workers=1)
    anchors = [section.anchor for section in page.sections]
    assert "browser-section" in anchors
    (browser,) = (block for section in page.sections for block in section.blocks if isinstance(block, Widget))
    assert all(case["size"] for case in browser.data["cases"])
    tables = [block for section in page.sections for block in section.blocks if isinstance(block, Table)]
    (errors,) = (table for table in tables if table.anchor == "errors")
    counts = read(made / "results" / "finder" / "details.json")["pooled"]["rules"]["iou_above"]["counts"]
    wrong = sum(sum(row[1:]) - row[index] for index, row in enumerate(counts["confusion_matrix"]) if index)
    assert {row[0]: row[-2] for row in errors.rows}["wrong class"] == wrong


def sources(made: Path, team: str = "finder") -> Sources:
    return Sources(made / "challenge", made / "submissions" / team)


def test_the_page_is_the_same_whatever_the_workers(made: Path) -> None:
    folder = made / "results" / "finder"
    one, two = (page_of_results(folder, sources=sources(made), workers=workers) for workers in (1, 2))
    assert page_html(one) == page_html(two)


def test_pages_are_below_ten_megabytes(made: Path) -> None:
    sizes = [path.stat().st_size for path in made.rglob("*.html")]
    assert len(sizes) == 1 + 3 + 8  # the board, teams, cases
    assert max(sizes) < LIMIT_BYTES


def test_a_result_of_other_rules_is_refused(made: Path, finder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("metrics.json", "details.json"):
        document = read(finder / name)
        document["challenge"]["hash"] = "0" * 64
        (finder / name).write_text(json.dumps(document))
    code, _, err = report(capsys, "--results", finder, *of_demo(made))
    assert code == 2
    assert "[different-challenges] 'metrics.json': the hash 000000000000…" in err


def test_another_submission_than_was_scored_is_refused(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = report(capsys, "--results", made / "results" / "finder", *of_demo(made, "namer"))
    assert code == 2
    assert "[not-metrics] 'metrics.json': detection.f1.group_mean is 0.9" in err


# --- what is asked for ------------------------------------------------------------------------------------------------


def classes_on(page: Path) -> list[str]:
    """The rows of the table of classes."""
    return re.findall(r'<th scope="row">(\w+)</th>', page.read_text().split('id="classes"')[1])[: len(CLASSES)]


def test_a_public_page_tells_nothing_of_cases(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "public.html"
    code, out, _ = report(capsys, "--results", made / "results" / "finder", "--public", "--output", page)
    assert (code, out) == (0, f"Written to {page}\n")
    assert "P1_1" in (made / "results" / "finder" / "report.html").read_text()
    assert "P1_1" not in page.read_text()
    assert ["page_browser" in of.read_text() for of in (page, made / "results/finder/report.html")] == [False, True]
    (tmp_path / "alone").mkdir()
    shutil.copyfile(made / "results" / "finder" / "metrics.json", tmp_path / "alone" / "metrics.json")
    assert report(capsys, "--results", tmp_path / "alone", "--output", tmp_path / "alone.html")[0] == 0
    assert sorted((tmp_path / "alone.html").read_text()) == sorted(page.read_text())  # but for the order of classes
    assert classes_on(page) == CLASSES and classes_on(tmp_path / "alone.html") == sorted(CLASSES)


def test_with_the_challenge_a_public_page_has_its_classes_in_order_and_what_publish_names(made, tmp_path, capsys):
    challenge = tmp_path / "challenge"
    shutil.copytree(made / "challenge", challenge)
    results = made / "results" / "finder"
    where = ("--results", results, "--public", "--challenge", challenge, "--output", tmp_path / "public.html")
    rules_file = challenge / "challenge.toml"
    as_shipped = rules_file.read_text()
    rules_file.write_text(f'{as_shipped}\n[publish]\nmetrics = "all"\n')
    assert report(capsys, *where)[0] == 0
    assert classes_on(tmp_path / "public.html") == CLASSES
    rules_file.write_text(f'{as_shipped}\n[publish]\nmetrics = "ranked"\n')
    assert report(capsys, *where)[0] == 0
    page = (tmp_path / "public.html").read_text()
    shown = {row[0] for row in rows_of(page, "scores")}
    ranked = set(Challenge.load(challenge).published_paths or ())
    metrics = read(results / "metrics.json")
    assert {path.rpartition(".")[0] for path in ranked} <= shown
    assert {path.split(".")[0] for path in ranked} == {path.split(".")[0] for path in shown}
    assert "panoptic" in metrics and "panoptic" not in page
    cases = challenge / "cases.csv"
    cases.write_text(cases.read_text().replace("0.25", "0.5"))
    code, _, told = report(capsys, *where)
    assert code == 2
    assert "[different-challenges]" in told


def test_a_public_page_does_not_tell_how_many_nuclei_there_are(made: Path, tmp_path: Path) -> None:
    """Errors of counts times cases are numbers of nuclei; reasons of undefined values name absent classes."""
    metrics = read(made / "results" / "finder" / "metrics.json")
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


def test_without_output_a_summary_is_printed(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = report(capsys, "--results", made / "results" / "finder")
    assert code == 0
    metrics = read(made / "results" / "finder" / "metrics.json")
    for text in ("Detection", "Only on the page: Classes", f"{metrics['panoptic']['pq']['group_mean']:.3f}"):
        assert text in out


def test_overlays_of_all_cases_are_written(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "overlays"
    assert report(capsys, "--results", made / "results" / "finder", *of_demo(made), "--overlays", folder)[0] == 0
    cases = read(made / "results" / "finder" / "details.json")["cases"]
    assert {path.name for path in folder.rglob("*.*")} == {
        f"{name}{end}" for name in cases for end in (".geojson", "_reference.tif", "_prediction.tif")
    }


@pytest.mark.parametrize("name", ["leaderboard.json"])
def test_a_folder_with_another_document_makes_its_page(made, capsys, name):
    code, out, _ = report(capsys, "--results", made)
    assert code == 0
    assert all(team in out for team in ("finder", "namer", "outliner"))


@pytest.mark.parametrize("arguments, line", [
    (("--public", "CHALLENGE"), "[contradictory-rules] --public: given with --submission"),
    (("--images", "x"), "[missing-option] --challenge: not given, but --images is"),
    (("--submission", "x"), "[missing-option] --challenge: not given, but --submission is"),
    (("CHALLENGE", "--submission", "x"), "[no-submission] 'x': no such folder or file"),
    (("CHALLENGE", "--images", "x"), "[missing-file] 'x': no such folder; expected images such as 'P1_1.svs'"),
    (("CHALLENGE", "--images", "."), "[missing-file] '.': no image of any case; expected images such as 'P1_1."),
])  # fmt: skip
def test_options_that_contradict_are_told(made, capsys, arguments, line):
    given = [part for one in arguments for part in (of_demo(made) if one == "CHALLENGE" else (one,))]
    code, _, err = report(capsys, "--results", made / "results" / "finder", *given)
    assert code == 2
    assert line in err


def test_folders_and_documents_that_are_no_results_are_told(made, finder, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    code, _, err = report(capsys, "--results", tmp_path / "empty")
    assert (code, "no metrics.json, leaderboard.json, audit.json, sensitivity.json or tricks.json" in err) == (2, True)
    details = read(finder / "details.json")
    del details["cases"]["P1_1"]["rules"]
    (finder / "details.json").write_text(json.dumps(details))
    code, _, err = report(capsys, "--results", finder)
    assert code == 2
    assert "[not-metrics] 'details.json': 'cases.P1_1.rules' is wrong: field required" in err


DOCUMENTS = ("metrics.json", "details.json", "leaderboard.json", "audit.json", "sensitivity.json", "tricks.json")
ODD: tuple[object, ...] = (
    None, True, [], {}, "x", -1, 0, 1e300, -1e308, 2**80, [1], {"a": 1}, "<b>", [[]], [None], "deleted"
)  # fmt: skip


@pytest.fixture(scope="module")
def documents(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with each document that has a page, by its name."""
    folder = tmp_path_factory.mktemp("documents")
    for name in ("challenge", "submissions"):  # studies take two teams, and an image of two patients each
        shutil.copytree(made / name, folder / name, ignore=shutil.ignore_patterns("P?_2*", "P3", "P4", "outliner"))
    cases = folder / "challenge/cases.csv"
    cases.write_text("".join(cases.read_text().splitlines(True)[:3]))
    challenge, submissions = (str(folder / name) for name in ("challenge", "submissions"))
    studied = ["--challenge", challenge, "--output", str(folder / "studied")]
    ranked = ["--challenge", str(made / "challenge"), "--results", str(made / "results"), "--output", str(folder)]
    assert run(["rank", *ranked]) == 0
    assert run(["sensitivity", *studied]) == 0
    for more in ([], ["--tricks"]):
        assert run(["audit", *studied, "--submissions", submissions, *more]) == 0
    places = {**dict.fromkeys(DOCUMENTS, folder / "studied"), "leaderboard.json": folder}
    return {**places, **dict.fromkeys(DOCUMENTS[:2], made / "results" / "finder")}


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


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_without_its_first_keys_is_told_by_name(documents, name, tmp_path, capsys):
    if name == "details.json":
        (tmp_path / "metrics.json").write_text((documents[name] / "metrics.json").read_text())
    (tmp_path / name).write_text(json.dumps({"software": {"version": "0.2.0", "format_version": 1}}))
    code, _, err = report(capsys, "--results", tmp_path)
    assert (code, f"[not-metrics] '{name}': 'challenge' is wrong: field required" in err) == (2, True)


# --- score and demo ---------------------------------------------------------------------------------------------------


def test_score_writes_a_report_beside_the_same_files(made: Path, tmp_path: Path) -> None:
    where = ["--challenge", str(made / "challenge"), "--submission", str(made / "submissions" / "finder")]
    assert run(["score", *where, "--output", str(tmp_path), "--report", "--workers", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "details.json",
        "metrics.json",
        "objects.csv",
        "report.html",
    ]
    for name in ("details.json", "objects.csv"):
        assert (tmp_path / name).read_bytes() == (made / "results" / "finder" / name).read_bytes()
    metrics = read(tmp_path / "metrics.json")
    assert metrics.pop("leaderboard")["position"] is None
    del metrics["undefined"]["leaderboard"]
    assert metrics == read(made / "results" / "finder" / "metrics.json")


def test_images_that_are_of_no_case_are_told_before_anything_is_scored(made, tmp_path, capsys):
    where = ["score", *map(str, of_demo(made)), "--output", str(tmp_path / "out"), "--report"]
    assert run([*where, "--images", str(tmp_path)]) == 2
    assert "[missing-file]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_library_is_told_before_anything_is_scored(made, tmp_path, monkeypatch, capsys, package):
    monkeypatch.setitem(sys.modules, package, None)
    where = ["--challenge", str(made / "challenge"), "--submission", str(made / "submissions" / "finder")]
    output = tmp_path / "out"
    assert run(["score", *where, "--output", str(output), "--report", "--workers", "1"]) == 2
    assert "[missing-extra]" in capsys.readouterr().err
    assert not output.exists()
    assert run(["score", *where, "--output", str(output), "--workers", "1"]) == 0
    assert report(capsys, "--results", output)[0] == 0


def test_scoring_without_a_report_imports_nothing_of_it(made: Path, tmp_path: Path) -> None:
    import subprocess

    where = ["--challenge", str(made / "challenge"), "--submission", str(made / "submissions" / "finder")]
    code = f"""
import sys
from evaluation.commands.main import run
assert run({["score", *where, "--output", str(tmp_path), "--workers", "1"]!r}) == 0
print([name for name in sys.modules if "report_command" in name or "pages" in name or name in ("jinja2", "matplotlib")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


@pytest.mark.parametrize("kind", ["points_json", "label_image by class", "geojson outlines"])
def test_every_kind_of_challenge_has_a_page(tmp_path: Path, kind: str) -> None:
    challenge, submission = write_challenge(kind, tmp_path)
    where = ["--challenge", str(challenge), "--submission", str(submission), "--output", str(tmp_path / "out")]
    assert run(["score", *where, "--report", "--workers", "1"]) == 0
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_challenge_that_counts_has_a_page(tmp_path: Path) -> None:
    from test_counts import Bench

    bench = Bench(tmp_path)
    where = [
        "--challenge",
        str(bench.challenge),
        "--submission",
        str(bench.submission),
        "--output",
        str(tmp_path / "out"),
    ]
    assert run(["score", *where, "--report", "--workers", "1"]) == 0
    page = page_of_results(tmp_path / "out")
    assert "confusion-section" not in [section.anchor for section in page.sections]
    assert page.figures() == []
    assert not any("matching rule" in section.lead for section in page.sections)


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
    where = ["--challenge", str(challenge), "--submission", str(source / "submission"), "--images", str(images)]
    assert run(["score", *where, "--output", str(tmp_path / "out"), "--report"]) == 0
    path = tmp_path / "out" / "report.html"
    assert path.stat().st_size < LIMIT_BYTES
    with browser.open(path) as opened:
        assert opened.errors == opened.requests == []
        cases = {case["name"]: case for case in json.loads(opened.page.locator("#page_browser").inner_text())["cases"]}
        assert [len(case["windows"]) for case in cases.values()] == [1, 0, 0, 0]  # one has an image
        assert cases["P1_1"]["size"] == [1153, 1307]
        assert 40_000 < len(cases["P1_1"]["windows"][0][4]) < 4 / 3 * 0.2 * 1153 * 1307
