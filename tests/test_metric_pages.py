"""The pages of the metrics: one for each, equal to docs/metrics, and what ``evaluation explain`` prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from metric_documents import documents
from pictures import score_pictures
from situations import SITUATIONS, WHAT_WHEN, says

from evaluation.commands.main import run
from evaluation.metrics import FAMILIES, literature
from evaluation.metrics.metric import Empty
from evaluation.metrics.pages import (
    FOLDER,
    example_path,
    example_text,
    metrics_by_page,
    page_of,
    page_text,
    pages_of,
    terminal_index,
)

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(metrics_by_page())


def test_the_pages_in_docs_are_those_of_the_registry(pytestconfig: pytest.Config) -> None:
    folder, written = ROOT / FOLDER, documents()
    if pytestconfig.getoption("--renew-golden"):
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*.md"):
            path.unlink()
        for name, text in written.items():
            (folder / name).write_text(text)
    assert {path.name: path.read_text() for path in folder.iterdir()} == written


def test_the_index_links_to_each_page_once() -> None:
    links = re.findall(r"^- \[\S+?\]\((\S+?)\)", documents()["README.md"], re.MULTILINE)
    assert sorted(links) == sorted(f"{page}.md" for page in PAGES)
    assert [page for family in FAMILIES for page in pages_of(family)] == list(metrics_by_page())


def test_the_paths_that_the_index_gives_for_published_notation_have_pages() -> None:
    table = documents()["README.md"].partition("| in text |")[2].partition("\n\n")[0]
    paths = re.findall(r"`([a-z]+\.[^`]+)`", table)
    assert len(paths) == 14
    assert [path for path in paths if page_of(path) is None] == []


def test_every_page_has_an_example_situations_and_a_source() -> None:
    assert {page_of(path) for path in WHAT_WHEN} == set(PAGES)
    assert [page for page in PAGES if not metrics_by_page()[page][0].example] == []
    cited = {source for metrics in metrics_by_page().values() for metric in metrics for source in metric.sources}
    assert cited == {text for name, text in vars(literature).items() if name.isupper()}
    assert [page for page in PAGES if not metrics_by_page()[page][0].sources] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_page_is_one_of_its_paths_and_gives_the_number_of_the_program(page: str) -> None:
    metric = metrics_by_page()[page][0]
    example = metric.example
    assert example is not None
    path = example_path(metric, example)
    assert page_of(path) == page
    assert path.endswith(".pooled")
    assert example.by_hand.endswith(".")
    options = {"false_positives": (0.25, 1.0)} if metric.family == "curves" else {}
    assert score_pictures(path, example.picture, confidence=example.confidence or None, **options) == example.gives


IN_SITUATIONS = {
    "both_sides": "both_empty",
    "no_prediction": "no_prediction",
    "no_reference": "no_reference",
    "nothing_matched": "nothing_matched",
}


@pytest.mark.parametrize("path", WHAT_WHEN)
def test_what_a_record_says_of_empty_sides_is_what_was_worked_out_by_hand(path: str) -> None:
    of_page = metrics_by_page()[page_of(path) or ""]
    metric = next((metric for metric in of_page if ".".join(metric.path) == path), of_page[0])
    for field, situation in IN_SITUATIONS.items():
        declared = getattr(metric.empty, field)
        assert declared is None or str(declared) == says(path, situation)
    assert metric.outlines == (says(path, "points") == "points-only")


def test_only_metrics_that_have_a_value_there_leave_empty_sides_to_their_formula() -> None:
    by_formula = {m.page for metrics in metrics_by_page().values() for m in metrics if m.empty == Empty(*[None] * 4)}
    assert {page.partition(".")[0] for page in by_formula} == {"counting"}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_everything(page: str) -> None:
    text = documents()[f"{page}.md"]
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert headings == [page, "Worked example", "Sources", "In every situation"]
    for row in ("range", "better", "unit", "both sides empty", "one more missed nucleus would"):
        assert f"| {row} | " in text
    metric = metrics_by_page()[page][0]
    assert metric.example is not None
    assert example_text(metric, metric.example) in text
    for situation in SITUATIONS.values():
        assert f"\n| {situation.title.partition(':')[0]} | " in text
    assert "``" not in text.replace("```", "")


def test_a_page_says_which_rule_bounds_a_value_and_is_its_worst() -> None:
    capped = page_text("covered.distance")
    assert "no worst value" not in capped
    assert "| range | 0 to `metrics.distance_cap_px` (`_um`) |" in capped
    assert "has `metrics.distance_cap_px` (`_um`) |" in capped


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("panoptic.pq", "panoptic.pq"),
        ("panoptic.pq.pooled", "panoptic.pq"),
        ("panoptic.per_class.Lymphocyte.pq.group_mean", "panoptic.per_class.pq"),
        ("panoptic.per_class.pq", "panoptic.per_class.pq"),
        ("segmentation.iou_median.stratum_mean", "segmentation.iou"),
        ("segmentation.per_class.Tumor cell.hausdorff95_um.case_mean", "segmentation.hausdorff95_um"),
        ("classification.grouped.super.kappa", "classification.kappa"),
        ("alternatives.best_iou_centroid_inside.detection.f1.pooled", "detection.f1"),
        ("thresholds.f1_iou50", "thresholds.f1_at"),
        ("thresholds.f1_iou72_5", "thresholds.f1_at"),
        ("thresholds.f1_iou50_95.case_mean", "thresholds.f1_range"),
        ("thresholds.f1_iou30_50_70", "thresholds.f1_range"),
        ("thresholds.per_class.Lymphocyte.recall_iou50_75", "thresholds.per_class.recall_range"),
        ("curves.coco_map_iou50_95", "curves.coco_map"),
        ("curves.coco_map_iou50.pooled", "curves.coco_map_at"),
        ("curves.sensitivity_at_0_25_per_image.pooled", "curves.sensitivity_at"),
        ("curves.sensitivity_at_10_per_mm2", "curves.sensitivity_at"),
        ("panoptic", None),
        ("panoptic.per_class.Lymphocyte", None),
        ("pq", None),
        ("alternatives", None),
        ("", None),
    ],
)
def test_a_path_leads_to_its_page(path: str, page: str | None) -> None:
    assert page_of(path) == page


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(["explain", *arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_explain_prints_the_page_of_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = explained(capsys, "panoptic.per_class.Lymphocyte.pq.group_mean")
    assert code == 0
    assert documents()["panoptic.per_class.pq.md"].partition("## In every situation")[0].strip() in printed
    assert f"This page: {FOLDER}/panoptic.per_class.pq.md" in printed


def test_explain_starts_quickly_because_it_imports_neither_scipy_nor_pydantic() -> None:
    code = (
        "import sys; from evaluation.commands.main import run; run(['explain', 'panoptic.pq']); print([*sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    imported = set(re.findall(r"'(\w+)'", found.stdout.splitlines()[-1]))
    assert "numpy" in imported
    assert imported.isdisjoint({"scipy", "pydantic", "joblib", "jinja2"})


def test_explain_lists_the_metrics_after_the_codes(capsys: pytest.CaptureFixture[str]) -> None:
    _, printed = explained(capsys)
    codes, _, _ = printed.partition("Metrics: detection")
    assert "  unknown-class " in codes
    assert printed.endswith(terminal_index() + "\n")


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("panoptic.per_class.Lymphocyte.pqq.group_mean", "panoptic.per_class.pq"),
        ("segmentation.hausdorf_px", "segmentation.hausdorff_px"),
        ("unknown-clas", "unknown-class"),
    ],
)
def test_a_misspelt_path_or_code_is_wrong_usage(wanted: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = explained(capsys, wanted)
    assert code == 2
    assert f"[unknown-code] explain: '{wanted}'" in printed
    assert f"Did you mean '{meant}'?" in printed
