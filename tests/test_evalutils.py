"""evalutils, which is grand-challenge-metrics since 0.6: its functions are oracles, its ROC is on a team's page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from every_format import challenge_document, write_files, write_rules
from grand_challenge_metrics import stats
from grand_challenge_metrics.roc import get_bootstrapped_roc_ci_curves
from scipy import ndimage

from evaluation import Challenge, score_submission
from evaluation.commands.main import run
from evaluation.report.folders import Sources, page_of_results
from evaluation.scoring.from_arrays import score_instances
from nuclei_metrics.model import Case


def blob(rng: np.random.Generator) -> np.ndarray:
    """A random shape in one piece that touches no edge of the image."""
    noise = ndimage.gaussian_filter(rng.normal(size=(40, 50)), 4)
    noise[:6], noise[-6:], noise[:, :6], noise[:, -6:] = -1, -1, -1, -1
    labels, _ = ndimage.label(noise > 0)
    return labels == np.bincount(labels.ravel())[1:].argmax() + 1


ONE_CLASS = {"classes": [{"name": "nucleus", "aliases": [""]}], "reference": {"ignore": {"classes": []}}}


@pytest.mark.parametrize("seed", range(8))
def test_iou_dice_and_hausdorff_distance_of_a_pair_are_those_of_evalutils(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reference = blob(rng)
    prediction = ndimage.binary_dilation(reference, iterations=2) & ~np.roll(ndimage.binary_erosion(reference), 3)
    prediction |= ndimage.binary_erosion(reference, iterations=1)
    challenge = Challenge.from_preset("recommended", name="a", **ONE_CLASS)
    result = score_instances(challenge, {"a": (reference.astype(int), prediction.astype(int))})
    matrix = stats.calculate_confusion_matrix(reference, prediction, [False, True])
    assert result.value("detection.f1.pooled") == 1
    for path, expected in (
        ("segmentation.iou", stats.jaccard_from_confusion_matrix(matrix)[1]),
        ("segmentation.dice", stats.dice_from_confusion_matrix(matrix)[1]),
        ("segmentation.hausdorff_px", stats.hausdorff_distance(reference, prediction)),
    ):
        assert result.value(f"{path}.pooled") == pytest.approx(expected, abs=1e-6), path


# --- class probabilities ----------------------------------------------------------------------------------------------

CLASSES = ("Epithelial", "Lymphocyte")
CASES = (Case("c1", "P1", 300, 300, 0.25, 0), Case("c2", "P2", 300, 300, 0.25, 1))


def with_probabilities(folder: Path, *, named: bool = True) -> tuple[Path, Path, np.ndarray, np.ndarray]:
    """Points of two classes whose predicted probabilities are often right; also truth and probability of the first."""
    rng = np.random.default_rng(3)
    document = challenge_document("points_csv", CASES)
    document["metrics"] |= {"families": ["detection", "classification"], "class_probabilities": named}
    for side in ("reference", "submission"):
        document[side]["origin"] = "pixel_corner"
    document["submission"]["files"], truths, first = "{case}.csv", [], []
    for case in CASES:
        truth = rng.random(100) < 0.4
        probability = np.clip(rng.normal(np.where(truth, 0.6, 0.4), 0.2), 0, 1).round(3)
        places = [(12.5 + 25 * (index % 10), 12.5 + 25 * (index // 10)) for index in range(100)]
        lines = ["x,y,class"]
        predicted = ["x,y,class" + ",probability_Epithelial,probability_Lymphocyte" * named]
        for (x, y), is_first, value in zip(places, truth.tolist(), probability.tolist(), strict=True):
            lines.append(f"{x},{y},{CLASSES[int(not is_first)]}")
            more = f",{value},{round(1 - value, 3)}" if named else ""
            predicted.append(f"{x},{y},{CLASSES[int(value < 0.5)]}{more}")
        write_files(folder / "c", {f"reference/{case.name}.csv": "\n".join([*lines, ""])})
        write_files(folder / "s", {f"{case.name}.csv": "\n".join([*predicted, ""])})
        truths, first = [*truths, truth], [*first, probability]
    return write_rules(document, folder / "c"), folder / "s", np.concatenate(truths), np.concatenate(first)


def test_the_area_under_the_curve_lies_in_the_interval_of_evalutils(tmp_path: Path) -> None:
    challenge, submission, truth, probability = with_probabilities(tmp_path)
    value = score_submission(challenge, submission, workers=1).value("classification.per_class.Epithelial.auroc.pooled")
    curve = get_bootstrapped_roc_ci_curves(probability, truth)
    assert curve.low_az_val < value < curve.high_az_val < 0.95


@pytest.mark.parametrize("named", [True, False])
def test_a_page_has_roc_curves_where_probabilities_of_classes_are_there(named: bool, tmp_path: Path) -> None:
    challenge, submission, truth, probability = with_probabilities(tmp_path, named=named)
    command = ["score", "--challenge", challenge, "--submission", submission, "--output", tmp_path / "out"]
    assert run([*map(str, command), "--workers", "1"]) == 0
    page = page_of_results(tmp_path / "out", sources=Sources(challenge, submission), workers=1)
    figures = [figure for figure in page.figures() if figure.anchor == "roc"]
    assert len(figures) == named
    for figure in figures:
        assert [one.name for one in figure.series] == list(CLASSES)
        curve = get_bootstrapped_roc_ci_curves(probability, truth)
        assert [dot.y for dot in figure.series[0].dots] == pytest.approx(curve.mean_tpr_vals.tolist())
        assert figure.series[0].dots[10].low == pytest.approx(curve.low_tpr_vals[10])
