"""Formulas of metrics: values by hand, scikit-learn, and means over units."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from literal import instances_of, iou, pairs_of_images
from made_counts import counts_of, score_of, units_of
from scipy.sparse import csr_array
from sklearn.metrics import accuracy_score, balanced_accuracy_score, cohen_kappa_score, f1_score, matthews_corrcoef

from nuclei_metrics.aggregation import mean_of_units, penalise
from nuclei_metrics.aggregation.units import PenalisedScores
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import match_iou_above, overlap_table
from nuclei_metrics.matching.rules import match_best_iou_centroid_inside
from nuclei_metrics.metrics import classification, count_matches, detection, metrics_of, segmentation
from nuclei_metrics.metrics.counts import join_cases, overlap_measures, shape_measures
from nuclei_metrics.metrics.every_nucleus import HALF, ONE, join_halves
from nuclei_metrics.model import CaseTable, MetricChoice, Scores, Units, um_to_px
from nuclei_metrics.model.counts import Score

CLASSES = ("a", "b", "c")


ALL = MetricChoice(("detection", "classification", "segmentation", "panoptic"), CLASSES)


matrices = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 6), min_size=n + 1, max_size=n + 1), min_size=n + 1, max_size=n + 1)
)


@given(matrices)
@example([[0, 0, 0], [0, 1, 0], [0, 1, 0]])  # a class that is never predicted
def test_classification_equals_scikit_learn(matrix):
    matrix[0][0] = 0
    counts = counts_of(matrix)
    assume(len(counts.pair_class))
    truth, predicted = counts.pair_class.T
    assert score_of(classification.accuracy, counts).value == pytest.approx(accuracy_score(truth, predicted))
    macro = f1_score(truth, predicted, average="macro", zero_division=0)
    assert score_of(classification.macro_f1, counts).value == pytest.approx(macro)
    assume(len({*truth, *predicted}) > 1)  # scikit-learn warns about a single class, and classes never in the truth
    if np.isin(predicted, truth).all():
        assert score_of(classification.balanced_accuracy, counts).value == pytest.approx(
            balanced_accuracy_score(truth, predicted)
        )
    mcc = score_of(classification.matthews_correlation, counts)
    if len(set(truth)) == 1:
        assert mcc == Score(None, "one-class")
    else:
        assert mcc.value == pytest.approx(matthews_corrcoef(truth, predicted))


def test_groups_of_classes_equal_scikit_learn_on_renamed_nuclei():
    matrix = np.random.default_rng(3).integers(0, 9, (5, 5))
    matrix[0, 0] = 0
    counts = counts_of(matrix.tolist())
    truth, predicted = np.where(counts.pair_class <= 2, 1, 2).T
    groups = ((1, 2), (3, 4))
    table = {
        classification.accuracy: accuracy_score(truth, predicted),
        classification.macro_f1: f1_score(truth, predicted, average="macro"),
        classification.cohen_kappa: cohen_kappa_score(truth, predicted),
        classification.matthews_correlation: matthews_corrcoef(truth, predicted),
    }
    for formula, expected in table.items():
        assert score_of(partial(formula, groups=groups), counts).value == pytest.approx(expected)


@given(matrices)
def test_detection_ignores_classes(matrix):
    matrix[0][0] = 0
    counts = counts_of(matrix)
    tp = sum(map(sum, (row[1:] for row in matrix[1:])))
    fp, fn = sum(matrix[0]), sum(row[0] for row in matrix)
    for function, numerator, denominator in (
        (detection.precision, tp, tp + fp),
        (detection.recall, tp, tp + fn),
        (detection.f1, 2 * tp, 2 * tp + fp + fn),
        (detection.threat_score, tp, tp + fp + fn),
    ):
        value = score_of(detection.detection_score, counts, formula=function).value
        assert value == (pytest.approx(numerator / denominator) if denominator else None)


def published_squares(confusion, shift: int, seed: int = 0):
    """Squares of 10 x 10 px on a grid of 20 px, the prediction shifted to the right, with random ids."""
    rng = np.random.default_rng(seed)
    reference, prediction = np.zeros((2, 200, 200), np.int64)
    ids = rng.permutation(np.arange(1, 500))
    classes: tuple[dict, dict] = ({}, {})
    place = 0
    for i, row in enumerate(confusion):
        for j, number in enumerate(row):
            for _ in range(number):
                y, x = 5 + 20 * (place // 9), 5 + 20 * (place % 9)
                if i:
                    reference[y : y + 10, x : x + 10] = ids[place]
                    classes[0][ids[place]] = i
                if j:
                    prediction[y : y + 10, x + shift : x + shift + 10] = ids[-place - 1]
                    classes[1][ids[-place - 1]] = j
                place += 1
    return tuple(
        instances_from_labels(labels, [of[label] for label in sorted(of)])
        for labels, of in zip((reference, prediction), classes, strict=True)
    )


def evaluate(reference, prediction, rule=match_iou_above, classes=4, **arguments):
    table = overlap_table(reference, prediction)
    if rule is match_iou_above:
        arguments.setdefault("threshold", 0.5)
    found = rule(table, reference, prediction, class_aware=False, **arguments)
    return count_matches(reference, prediction, found, classes=classes, measures=overlap_measures(found))


FIRST = [[0, 1, 0, 2, 0], [0, 5, 0, 0, 0], [3, 0, 2, 0, 0], [0, 0, 0, 5, 0], [4, 0, 0, 0, 1]]
SECOND = [[0, 1, 0, 2, 0], [0, 5, 2, 0, 0], [2, 1, 2, 0, 0], [0, 1, 0, 5, 2], [0, 1, 0, 0, 1]]


@pytest.mark.parametrize("rule", [match_iou_above, match_best_iou_centroid_inside])
@pytest.mark.parametrize("confusion", [FIRST, SECOND])
def test_an_image_made_from_a_confusion_matrix_gives_it_back(confusion, rule):
    assert evaluate(*published_squares(confusion, shift=1), rule=rule).confusion.tolist() == confusion


def test_published_example_of_disentangled_metrics():
    """peer_cases.json, disentangled_metrics: fractions transcribed from the tests of the published code."""
    counts = evaluate(*published_squares(FIRST, shift=1))
    iou_of_pair = Fraction(9, 11)
    for class_id, weight in enumerate(("5/5.5", "2/3.5", "5/6", "1/3"), start=1):
        tp, divisor = map(float, weight.split("/"))
        value = score_of(segmentation.panoptic_quality, counts, class_id=class_id).value
        assert value == pytest.approx(float(iou_of_pair) * tp / divisor)
    assert score_of(detection.detection_score, counts, formula=detection.precision).value == 13 / 16
    assert score_of(detection.detection_score, counts, formula=detection.recall).value == 13 / 20
    assert score_of(detection.detection_score, counts, formula=detection.f1).value == pytest.approx(13 / 18)
    assert score_of(classification.accuracy, counts).value == 1
    assert score_of(segmentation.pair_mean, counts, measure="iou").value == pytest.approx(9 / 11)

    counts = evaluate(*published_squares(SECOND, shift=1))
    first = Fraction(5, 7)
    column = first + Fraction(1, 3) + Fraction(1, 8) + Fraction(1, 2)
    assert score_of(classification.class_precision, counts, class_id=1).value == pytest.approx(float(first / column))
    assert score_of(classification.class_recall, counts, class_id=1).value == pytest.approx(float(first))
    recalls = [first, Fraction(2, 3), Fraction(5, 8), Fraction(1, 2)]
    assert score_of(classification.balanced_accuracy, counts).value == pytest.approx(float(sum(recalls) / 4))


@given(pairs_of_images(overlap=False))
def test_panoptic_quality_equals_its_definition(pair):
    (reference, classes), (prediction, prediction_classes) = pair
    counts = evaluate(instances_of(reference, classes), instances_of(prediction, prediction_classes), classes=3)
    for class_id in (1, 2, 3):
        left = [mask for mask, c in zip(reference, classes, strict=True) if c == class_id]
        right = [mask for mask, c in zip(prediction, prediction_classes, strict=True) if c == class_id]
        values = [v for a in left for b in right if (v := iou(a, b)) > 0.5]
        weight = len(values) + (len(left) - len(values)) / 2 + (len(right) - len(values)) / 2
        score = score_of(segmentation.panoptic_quality, counts, class_id=class_id)
        assert score.value == (pytest.approx(sum(values) / weight) if weight else None)


EMPTY = [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
ONLY_REFERENCE = [[0, 0, 0], [3, 0, 0], [0, 0, 0]]
ONLY_PREDICTION = [[0, 3, 0], [0, 0, 0], [0, 0, 0]]
NOTHING_MATCHED = [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
PERFECT_ONE_CLASS = [[0, 0, 0], [0, 3, 0], [0, 0, 0]]


def test_classification_is_undefined_under_class_aware_matching():
    metric = metrics_of(replace(ALL, families=("classification",)), class_aware=True)[0]
    assert score_of(metric.evaluate, counts_of(PERFECT_ONE_CLASS)) == Score(None, "class-aware-matching")


def metric_of(path):
    return next(m for m in metrics_of(ALL, class_aware=False) if ".".join(m.path) == path)


def mean_of(metric, units: Units, undefined="skip"):
    worst = metric.worst_of(units)
    charged = penalise(metric.evaluate(units), units, worst, undefined=undefined, counts_missed=metric.counts_missed)
    return mean_of_units(charged)


PERFECT, MISSING = counts_of(PERFECT_ONE_CLASS), counts_of(ONLY_REFERENCE, missing=True)


@pytest.mark.parametrize("path, cases, undefined, expected, left_out", [
    ("detection.f1", [PERFECT, counts_of(EMPTY)], "skip", 1.0, 1),
    ("detection.f1", [PERFECT, MISSING], "skip", 0.5, 0),  # the worst value where there is something to find
    ("detection.f1", [PERFECT, counts_of(EMPTY, missing=True)], "skip", 1.0, 1),
    ("detection.f1", [counts_of(EMPTY)] * 2, "skip", "no-instances", 2),
    ("segmentation.hausdorff_px", [MISSING], "skip", 50.0, 0),  # the diagonal of the image
    *(("classification.accuracy", [PERFECT, counts_of(NOTHING_MATCHED), counts_of(ONLY_PREDICTION)], *of)
      for of in (("skip", 1.0, 2), ("worst", 0.5, 1))),
])  # fmt: skip
def test_what_units_without_a_value_cost(path, cases, undefined, expected, left_out):
    mean = mean_of(metric_of(path), units_of(*cases), undefined)
    assert (mean.score.undefined or mean.score.value, mean.left_out) == (expected, left_out)
    assert mean.units == len(cases) - left_out


def test_a_missing_case_of_a_unit_costs_its_share_where_missed_nuclei_cost_nothing():
    units = units_of(PERFECT, MISSING, members=[[0, 1]])
    for path, expected in (("detection.precision", 0.5), ("detection.f1", 2 / 3), ("segmentation.hausdorff_px", 26.0)):
        assert mean_of(metric_of(path), units).score.value == pytest.approx(expected), path


def test_a_mean_over_strata_weighs_every_stratum_the_same():
    found = Scores(np.array([1.0, 0.5, 0.0, np.nan]), np.array([0, 0, 0, 1], np.int8))
    penalised = PenalisedScores(found.value, np.zeros(4, np.bool_), found)
    assert mean_of_units(penalised).score.value == 0.5
    assert mean_of_units(penalised, [[0, 1], [2], [3]]).score.value == pytest.approx((0.75 + 0) / 2)


def test_measures_of_a_pair_are_those_of_its_pixels():
    reference, prediction = (
        instances_from_labels(np.array([[1, 1, 1, 1, 0]])),
        instances_from_labels(np.array([[0, 0, 1, 1, 1]])),
    )
    table = overlap_table(reference, prediction)
    matches = match_iou_above(table, reference, prediction, threshold=0.1, class_aware=False)
    measures = {**overlap_measures(matches), **shape_measures(join_cases([(reference, prediction, table)]), matches)}
    assert {name: values.tolist() for name, values in measures.items()} == {
        "iou": [2 / 5],
        "dice": [4 / 7],
        "area_ratio": [3 / 4],
        "centroid_distance_px": [1.5],
    }


def test_classes_out_of_range_are_refused():
    labels = instances_from_labels(np.array([[1]]), class_id=4)
    with pytest.raises(ValueError, match="1 to 3"):
        evaluate(labels, labels, classes=3)


@given(st.lists(st.integers(0, ONE), min_size=1, max_size=20))
def test_two_halves_are_the_sum_rounded_once(quality):
    halves = np.divmod(np.array(quality), HALF)
    assert float(join_halves(*(half.sum() for half in halves))) == float(sum(quality))


@pytest.mark.parametrize("times", [1, 10**6, 10**12])
def test_agreement_beyond_chance_of_any_number_of_pairs(times):
    """The same matrix, however often: the value is that of the small one, by whole numbers without end."""
    confusion = np.zeros((1, 3, 3), np.int64)
    confusion[0, 1:, 1:] = np.array([[3000, 1000], [500, 2000]]) * times
    table = CaseTable({"cases": np.ones(1), "confusion": confusion}, {}, np.ones(1), None, None)
    units = Units(table, csr_array([[1]]))
    covariance, spread = (
        5000 * 6500 - (4000 * 3500 + 2500 * 3000),
        (6500**2 - 3500**2 - 3000**2) * (6500**2 - 4000**2 - 2500**2),
    )
    assert classification.matthews_correlation(units).value[0] == pytest.approx(
        covariance / math.sqrt(spread), abs=1e-12
    )
    chance = Fraction(4000 * 3500 + 2500 * 3000, 6500**2)
    kappa = (Fraction(5000, 6500) - chance) / (1 - chance)
    assert classification.cohen_kappa(units).value[0] == pytest.approx(float(kappa), abs=1e-12)


@given(st.integers(1, 10**7), st.integers(1, 999), st.integers(0, 3))
def test_um_are_the_px_that_one_would_write_down(px_thousandths, spacing_thousandths, digits):
    """k thousandths of a pixel, at a spacing with three decimals: back to k thousandths, to the digit."""
    px, spacing = Fraction(px_thousandths, 10**digits), Fraction(spacing_thousandths, 1000)
    assert um_to_px(float(px * spacing), float(spacing)) == float(px)
    assert um_to_px(np.array([float(px * spacing)]), float(spacing)).tolist() == [float(px)]
    assert um_to_px(4.0, 0.24199951) == 4.0 / 0.24199951  # no short number of px
