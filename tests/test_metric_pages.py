"""The pages of the metrics: one for each, in docs/metrics.md, and what ``evaluation explain`` prints."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest
from pictures import CLASSES, score_all, score_pictures
from situations import COLUMNS, LIKE_BOTH_EMPTY, SITUATIONS, WHAT_WHEN, number, says
from test_written_documents import metrics_document

from evaluation.challenge.definition import explain_rule, rule_names
from evaluation.commands.main import run
from evaluation.findings.metric_pages import (
    DOCUMENT,
    anchor,
    definitions,
    docstring,
    example_text,
    known_words,
    metrics_by_page,
    page_of,
    pages_of,
    properties,
    section,
    sources,
    terminal_index,
    terminal_page,
    word_text,
    words_of,
)
from evaluation.scoring.score import Result
from nuclei_metrics.metrics import FAMILIES, metrics_of
from nuclei_metrics.metrics.metric import STANDARD_RANGE, Empty
from nuclei_metrics.model import UNDEFINED_REASONS, MetricScores
from nuclei_metrics.papers import table_text

PAGES = list(metrics_by_page())


def test_the_document_has_a_section_for_each_page() -> None:
    """That docs/metrics.md is this document, test_docs.py says."""
    assert re.findall(r"^### (\w+\.\S+)$", metrics_document(), re.MULTILINE) == PAGES
    assert [page for family in FAMILIES for page in pages_of(family)] == list(metrics_by_page())
    in_tables = re.findall(r"\[([\w.]+)\]\(#(\w+)\)(?:, | \|)(?=.*(?:yes|no) \|$)", metrics_document(), re.MULTILINE)
    assert sorted(to for _, to in in_tables) == sorted(anchor(page) for page in PAGES)


def test_a_definition_that_many_pages_share_is_given_once_with_all_of_its_paths() -> None:
    text = metrics_document()
    assert text.count("every nucleus weighs the same") == 1
    assert "`segmentation.<measure>_class_mean`: Mean of the class means" in text


def test_each_section_in_the_files_is_of_a_page_and_each_page_has_one() -> None:
    assert [page for family in FAMILIES for page in words_of(family)[2]] == PAGES


def test_every_source_is_cited_and_every_page_cites_known_ones() -> None:
    assert {source for page in PAGES for source in section(page).sources} == set(sources())
    assert [page for page in PAGES if not section(page).sources] == []


def test_every_page_has_situations() -> None:
    assert {page_of(path) for path in WHAT_WHEN} == set(PAGES)


def test_the_example_of_a_page_is_one_of_its_paths_and_gives_the_number_of_the_program() -> None:
    for page in PAGES:
        example = section(page)
        assert page_of(example.path) == page, page
        assert example.path.endswith(".pooled"), page
        assert example.by_hand.endswith("."), page
        options = {"false_positives": (0.25, 1.0)} if page.startswith("curves.") else {}
        confidence = example.confidence or None
        assert score_pictures(example.path, example.picture, confidence=confidence, **options) == example.gives, page


def test_words_in_place_of_a_docstring_stand_only_where_there_is_one_formula() -> None:
    """Else the page would say of all of them what holds for one: there they stand before the docstrings."""
    for page in PAGES:
        of = {docstring(metric) for metric in metrics_by_page()[page]}
        text = definitions(page)
        assert len(of) == 1 or all(doc.replace("``", "`") in text for doc in of), page
        assert section(page).words in text, page


# --- names in papers --------------------------------------------------------------------------------------------------

TWO_IMAGES = """
aaaaa  aaaa.
.....  .....
BBBBB  BBB..

cc...  .....
.....  .....
...e.  d..e.
"""
SURE = {"a": 0.9, "d": 0.8, "e": 0.7, "B": 0.6}
# IoU: a 4/5, B 3/5, e 1; c is missed, d is spurious. From the surest on: a right, d wrong, e right, B right.
READINGS = {
    "curves.average_precision.pooled": "(1 + 3/4 + 3/4) / 4",
    "curves.per_class.<class>.average_precision.pooled": "(1 + 2/3) / 3",
    "curves.average_precision_101.pooled": "(26 + 50 * 3/4) / 101",
    "curves.per_class.<class>.average_precision_101.pooled": "(34 + 33 * 2/3) / 101",
    "curves.mean_average_precision.pooled": "(5/9 + 1) / 2",
    "curves.mean_average_precision_101.pooled": "(56/101 + 1) / 2",
    "curves.coco_map_iou50.pooled": "(56/101 + 1) / 2",
    "curves.coco_map_iou75.pooled": "(56/101 + 0) / 2",
    "curves.coco_map_iou50_95.pooled": "((7 * 56/101 + 3 * 34/3/101) / 10 + 3/10) / 2",
    "thresholds.threat_score_iou50.pooled": "3/5",
    "thresholds.threat_score_iou50.case_mean": "(1 + 1/3) / 2",
    "thresholds.threat_score_iou50_95.pooled": "(2 * 3/5 + 4 * 2/6 + 4 * 1/7) / 10",
    "thresholds.threat_score_iou50_95.case_mean": "((2 * 1 + 4 * 1/3 + 4 * 0) / 10 + 1/3) / 2",
}


def test_the_readings_of_ap_and_map_are_those_that_were_worked_out_by_hand() -> None:
    table = table_text().partition("### Readings of AP and mAP")[2]
    assert set(re.findall(r"`([a-z]+\.[^`]+)`", table)) == set(READINGS)
    for path, by_hand in READINGS.items():
        named = path.replace("<class>", "lymphocyte")
        found = score_pictures(named, TWO_IMAGES, confidence=SURE, iou_thresholds=STANDARD_RANGE)
        assert found == pytest.approx(eval(by_hand), abs=1e-6), path


def test_the_paths_that_are_given_for_names_in_papers_have_pages() -> None:
    paths = re.findall(r"`([a-z]+\.[^`]+)`", table_text())
    assert len(paths) > 40
    assert [path for path in paths if page_of(path) is None] == []


@pytest.mark.parametrize("word, says", [
    ("ap", "`curves.average_precision.pooled`"),
    ("AP", "`thresholds.threat_score_iou50.case_mean`"),
    ("AP@50", "`curves.coco_map_iou50.pooled`"),
    ("map", "`thresholds.threat_score_iou50_95.case_mean`"),
    ("mAP", "`curves.coco_map_iou50_95.pooled`"),
    ("mean average precision", "`curves.mean_average_precision.pooled`"),
    ("aji", "# overlap.aji\n"),
    ("TS_agg", "`thresholds.threat_score_iou50_95.pooled`"),
    ("TS_avg", "`thresholds.threat_score_iou50_95.case_mean`"),
    ("aPQ", "`panoptic.pq.case_mean`"),
    ("overlap.dice1", "pixel-wise"),
    ("detection.f1", "object-wise"),
    ("thresholds.f1_iou50_95", "0.5:0.05:0.95"),
    ("AJI+", "`overlap.aji_plus.case_mean`"),
    ("pq", "panoptic.per_class.pq  "),
    ("Hausdorff distance", "`objects.hausdorff_px.pooled`"),
    ("FROC", "curves.per_class.froc  "),
    ("Detection", "detection.threat_score  "),
    ("DETECTION.F1", "# detection.f1\n"),
    ("Unknown-Class", "unknown-class: "),
    ("IoU_above", "# iou_above, a matching rule"),
    ("coverage", "# metrics.coverage, a key of challenge.toml"),
    ("Metrics.Distance_Cap_px", "cost of a false negative or false positive"),
    ("class_aware", "# matching.rules.class_aware, a key of challenge.toml"),
])  # fmt: skip
def test_a_word_of_the_field_is_found_whatever_its_case(word, says, capsys):
    code, printed = explained(capsys, word)
    assert code == 0
    assert says in printed


def test_every_word_that_can_be_meant_is_known() -> None:
    assert [word for word in known_words() if not word_text(word)] == []
    assert [name for name in rule_names() if not explain_rule(name)] == []


# --- empty sides ------------------------------------------------------------------------------------------------------

IN_SITUATIONS = {
    "both_sides": "both_empty",
    "no_prediction": "no_prediction",
    "no_reference": "no_reference",
    "nothing_matched": "nothing_matched",
}


def test_what_a_record_says_of_empty_sides_is_what_was_worked_out_by_hand() -> None:
    for path in WHAT_WHEN:
        of_page = metrics_by_page()[page_of(path) or ""]
        metric = next((metric for metric in of_page if ".".join(metric.path) == path), of_page[0])
        for field, situation in IN_SITUATIONS.items():
            declared = getattr(metric.empty, field)
            assert declared is None or str(declared) == says(path, situation), path
        assert metric.outlines == (says(path, "points") == "points-only"), path


def test_only_metrics_that_have_a_value_there_leave_empty_sides_to_their_formula() -> None:
    by_formula = {m.page for metrics in metrics_by_page().values() for m in metrics if m.empty == Empty(*[None] * 4)}
    assert {page.partition(".")[0] for page in by_formula} == {"counting"}


def test_a_page_says_everything() -> None:
    for page in PAGES:
        text = terminal_page(page)
        assert re.findall(r"^#+ (.*)$", text, re.MULTILINE) == [page, "Worked example", "Sources"], page
        for row in ("range", "better", "unit", "both sides empty", "one more false negative would"):
            assert re.search(f"^{row}  +\\S", text, re.MULTILINE), page
        assert example_text(page) in text, page
        assert all(sources()[name] in text for name in section(page).sources), page
        assert "``" not in text.replace("```", ""), page


def test_a_page_says_which_rule_bounds_a_value_and_is_its_worst() -> None:
    capped = properties(metrics_by_page()["covered.distance"])
    assert capped["range"] == "0 to `metrics.distance_cap_px` (`_um`)"
    assert capped["a case that was not submitted"].endswith("has `metrics.distance_cap_px` (`_um`)")


@pytest.mark.parametrize("path, page", [
    ("panoptic.pq.pooled", "panoptic.pq"),
    ("panoptic.per_class.Lymphocyte.pq.group_mean", "panoptic.per_class.pq"),
    ("segmentation.iou_median.stratum_mean", "segmentation.iou"),
    ("segmentation.per_class.Tumor cell.hausdorff95_um.case_mean", "segmentation.hausdorff95_um"),
    ("classification.grouped.super.kappa", "classification.kappa"),
    ("alternatives.best_iou_centroid_inside.detection.f1.pooled", "detection.f1"),
    ("thresholds.f1_iou50", "thresholds.f1_at"),
    ("thresholds.f1_iou50_95.case_mean", "thresholds.f1_range"),
    ("thresholds.f1_iou30_50_70", "thresholds.f1_range"),
    ("curves.coco_map_iou50_95", "curves.coco_map"),
    ("curves.coco_map_iou50.pooled", "curves.coco_map_at"),
    ("curves.sensitivity_at_0_25_per_image.pooled", "curves.sensitivity_at"),
    ("panoptic", None),
    ("panoptic.per_class.Lymphocyte", None),
    ("alternatives", None),
    ("", None),
])  # fmt: skip
def test_a_path_leads_to_its_page(path: str, page: str | None) -> None:
    assert page_of(path) == page


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(["explain", *arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_explain_prints_the_page_of_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = explained(capsys, "panoptic.per_class.Lymphocyte.pq.group_mean")
    assert code == 0
    assert terminal_page("panoptic.per_class.pq") in printed
    assert f"This page: {DOCUMENT}#panopticper_classpq" in printed


def test_explain_starts_quickly_because_it_imports_neither_scipy_nor_pydantic() -> None:
    code = (
        "import sys; from evaluation.commands.main import run; run(['explain', 'panoptic.pq']); print([*sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(re.findall(r"'(\w+)'", found.stdout.splitlines()[-1]))
    assert "numpy" in imported
    assert imported.isdisjoint({"scipy", "pydantic", "jinja2"})


def test_explain_lists_the_metrics_after_the_codes(capsys: pytest.CaptureFixture[str]) -> None:
    _, printed = explained(capsys)
    codes, _, _ = printed.partition("Metrics: detection")
    assert "  unknown-class " in codes
    assert printed.endswith(terminal_index() + "\n")


@pytest.mark.parametrize("wanted, meant", [
    ("panoptic.per_class.Lymphocyte.pqq.group_mean", "panoptic.per_class.pq"),
    ("segmentation.hausdorf_px", "segmentation.hausdorff_px"),
    ("unknown-clas", "unknown-class"),
])  # fmt: skip
def test_a_misspelt_path_or_code_is_wrong_usage(wanted: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = explained(capsys, wanted)
    assert code == 2
    assert f"[unknown-code] explain: '{wanted}'" in printed
    assert f"Did you mean '{meant}'?" in printed


# --- what each metric says when ---------------------------------------------------------------------------------------


@cache
def scored(situation: str) -> Result:
    of = SITUATIONS[situation]
    return score_all(of.picture, confidence=of.confidence, as_points=of.as_points)


@cache
def pooled(situation: str) -> dict[str, MetricScores]:
    (scores,) = scored(situation).scores.values()
    return {".".join(metric.path): metric for metric in scores}


def test_the_table_has_a_row_for_every_path_but_those_of_the_other_class() -> None:
    choice = scored("ordinary").challenge.metric_choice()
    assert set(choice.families) == set(FAMILIES)
    paths = {".".join(metric.path) for metric in metrics_of(choice, class_aware=False) if CLASSES[1] not in metric.path}
    assert set(WHAT_WHEN) == paths


def test_every_row_has_a_word_for_every_situation() -> None:
    for path in WHAT_WHEN:
        words = WHAT_WHEN[path].split()
        assert len(words) == len(COLUMNS), path
        assert all(number(word) is not None or word in UNDEFINED_REASONS for word in words), path


def test_what_each_metric_says_when() -> None:
    for situation in SITUATIONS:
        for path in WHAT_WHEN:
            score, expected = pooled(situation)[path].means["pooled"].score, says(path, situation)
            if number(expected) is None:
                assert (score.value, score.undefined) == (None, expected), (path, situation)
            else:
                assert score.undefined is None, (path, situation)
                assert score.value == pytest.approx(number(expected), abs=1e-12), (path, situation)


def test_everything_ignored_leaves_nothing_on_either_side() -> None:
    (case,) = scored(LIKE_BOTH_EMPTY).cases
    assert (len(case.reference.source_id), len(case.prediction.source_id), case.ignored_predictions) == (0, 0, 2)


@pytest.mark.parametrize("picture", ["aa.", "aa. aa", "aa. aa. aa.", "aa. aa.\naaa aa"])
def test_a_drawing_that_is_none_is_refused(picture: str) -> None:
    with pytest.raises(ValueError, match="no reference beside a prediction"):
        score_all(picture)


def test_a_number_and_a_reason_are_read_at_a_path_of_metrics_json() -> None:
    assert score_pictures("detection.f1.pooled", "a.b  a..") == 0.666667
    assert score_pictures("detection.f1.case_mean", "a.b  a..\n\na.. a..") == 0.833333
    assert score_pictures("classification.mcc.pooled", "a.b  a..") == "one-class"
    assert score_pictures("classification.auroc.pooled", "a.B  a.B") == "no-probability"
    assert score_pictures("classification.auroc.pooled", "a.B  a.B", confidence={"a": 0.6, "B": 0.9}) == 1.0
