"""Formulas of metrics, also at the ends of what numbers can hold."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from formats import read_part
from formats.json_outlines import point, points
from hypothesis import assume, example, given
from hypothesis import strategies as st
from literal import instances_of, iou, pairs_of_images, points_of
from made_counts import counts_of, score_of, units_of
from scipy.sparse import csr_array
from sklearn.metrics import accuracy_score, balanced_accuracy_score, cohen_kappa_score, f1_score, matthews_corrcoef

from evaluation import Challenge, score_instances
from evaluation.challenge.documents import LONGEST_SIDE_PX, MOST_PIXELS, read_cases
from evaluation.findings.errors import ChallengeBroken
from nuclei_metrics.aggregation import mean_of_units, penalise
from nuclei_metrics.aggregation.units import PenalisedScores
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import match_iou_above, overlap_table
from nuclei_metrics.matching.rules import match_best_iou_centroid_inside, match_centroid_closest_first
from nuclei_metrics.metrics import classification, count_matches, detection, every_nucleus, metrics_of, segmentation
from nuclei_metrics.metrics.counts import overlap_measures, shape_measures
from nuclei_metrics.metrics.curves import average_precision
from nuclei_metrics.metrics.every_nucleus import HALF, ONE, join_halves
from nuclei_metrics.model import CaseTable, Instances, MetricChoice, Scores, Units, um_to_px
from nuclei_metrics.model.counts import PairSamples, PredictionSamples, Score

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
    measures = {**overlap_measures(matches), **shape_measures(reference, prediction, matches)}
    assert {name: values.tolist() for name, values in measures.items()} == {
        "iou": [2 / 5],
        "dice": [4 / 7],
        "area_ratio": [3 / 4],
        "centroid_distance_px": [1.5],
    }


def test_points_on_one_side_are_enough_to_have_no_outlines_also_when_pooled_with_a_missing_case():
    """What every metric says of points stands in ``situations``."""
    sides = instances_from_labels(np.full((50, 70), 1), class_id=1), points_of([(24.5, 34.5)], shape_yx=(50, 70))
    for pair in (sides, sides[::-1]):
        matches = match_centroid_closest_first(*pair, radius_px=0, class_aware=True)
        points = count_matches(*pair, matches, classes=2, measures=overlap_measures(matches))
        assert (len(matches), points.outlines, dict(points.measures)) == (1, False, {})
    for metric in metrics_of(MetricChoice(("segmentation", "panoptic"), ("a", "b")), class_aware=False):
        assert score_of(metric.evaluate, points, MISSING) == Score(None, "points-only")
        mean = mean_of(metric, units_of(points, MISSING), "worst")
        assert (mean.score, mean.units, mean.left_out, mean.penalised) == (Score(None, "points-only"), 0, 2, 0)


def test_classes_out_of_range_are_refused():
    labels = instances_from_labels(np.array([[1]]), class_id=4)
    with pytest.raises(ValueError, match="1 to 3"):
        evaluate(labels, labels, classes=3)


# --- sums, products and quotients at the ends of what numbers can hold ------------------------------------------------


SURE = (0.99999999, 0.99999998, 0.99999997)


def units_at_bounds(quality: np.ndarray, cases: int) -> Units:
    """All cases together; every nucleus is matched, with these IoU."""
    case = np.sort(np.arange(len(quality)) % cases)
    confusion = np.zeros((cases, 2, 2), np.int64)
    confusion[:, 1, 1] = np.bincount(case, minlength=cases)
    pairs = PairSamples(case, np.ones((len(quality), 2), np.int64), {"iou": quality}, None, None)
    zero = np.zeros(cases, np.int64)
    sums = {"cases": zero + 1, "confusion": confusion, "points": zero, "missing": zero, "empty": zero}
    return Units(CaseTable(sums, {}, np.ones(cases), pairs, None), csr_array(np.ones((1, cases), np.int64)))


def test_more_pairs_than_a_sum_of_64_bits_holds_in_one_case_and_in_three():
    one, three = units_at_bounds(np.ones(2**22 + 9), 1), units_at_bounds(np.ones(4_500_000), 3)
    assert every_nucleus.all_mean(one, "iou").value.tolist() == [1.0]
    assert every_nucleus.best_mean(one, "iou", 1.0).value.tolist() == [1.0]
    assert every_nucleus.coverage_curve(three, "iou", [0.5, 1.0]).tolist() == [1.0, 1.0]


def test_the_best_share_of_five_million_pairs_is_that_of_sorted_values():
    quality = np.random.default_rng(1).uniform(0.9, 1, 5_000_000)
    units = units_at_bounds(quality, 1)
    for coverage in (0.5, 1.0):
        best = np.sort(quality)[len(quality) - math.ceil(coverage * len(quality)) :]
        assert every_nucleus.best_mean(units, "iou", coverage).value[0] == pytest.approx(best.mean(), abs=1e-9)


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


def filled(height: int, width: int) -> Instances:
    """One nucleus that fills an image."""
    start = np.arange(height, dtype=np.int64) * width
    one = np.ones(1, np.int16)
    return Instances((height, width), one, one, start, start + width, np.zeros(height, np.int32))


def test_a_nucleus_that_fills_the_largest_image_has_its_centroid_in_the_middle():
    """Sums of coordinates of the pixels of a nucleus, twice: 63 bits hold them."""
    for height, width in ((MOST_PIXELS // LONGEST_SIDE_PX, LONGEST_SIDE_PX), (LONGEST_SIDE_PX // 8, 10**6)):
        assert height * width == MOST_PIXELS
        image = filled(height, width)
        assert image.centroids_yx().tolist() == [[(height - 1) / 2, (width - 1) / 2]]
        assert image.centroid_pixels_yx().tolist() == [[height // 2, width // 2]]


@pytest.mark.parametrize("height, width, got", [
    (1, LONGEST_SIDE_PX + 1, "width '4000001'; expected a whole number of pixels, 1 to 4,000,000"),
    (LONGEST_SIDE_PX, LONGEST_SIDE_PX, "16,000,000,000,000 pixels; expected at most 500,000,000,000"),
    (1, 3_000_000_000, "width '3000000000'; expected a whole number of pixels, 1 to 4,000,000"),
])  # fmt: skip
def test_larger_images_are_refused(height, width, got):
    with pytest.raises(ChallengeBroken, match=got):
        read_cases(f"case,height,width\na,{height},{width}\n")
    with pytest.raises(ValueError, match="px; expected"):
        both = replace(filled(1, 1), shape_yx=(height, width))
        score_instances(Challenge.from_preset("dsb2018", name="x"), {"a": (both, both)})


@given(st.integers(1, 10**7), st.integers(1, 999), st.integers(0, 3))
def test_um_are_the_px_that_one_would_write_down(px_thousandths, spacing_thousandths, digits):
    """k thousandths of a pixel, at a spacing with three decimals: back to k thousandths, to the digit."""
    px, spacing = Fraction(px_thousandths, 10**digits), Fraction(spacing_thousandths, 1000)
    assert um_to_px(float(px * spacing), float(spacing)) == float(px)
    assert um_to_px(np.array([float(px * spacing)]), float(spacing)).tolist() == [float(px)]
    assert um_to_px(4.0, 0.24199951) == 4.0 / 0.24199951  # no short number of px


@pytest.mark.parametrize("family", ["boundary_iou", "surface_dice"])
def test_a_tolerance_in_um_is_that_in_px(family):
    """Squares of 30 px, 4 px apart; 0.7 um at 0.2 um/px are 3.5 px, though the quotient of floats is below."""
    labels = np.zeros((60, 60), np.int64)
    labels[10:40, 10:40] = 1
    found = []
    rule = {"name": "iou", "rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
    for tolerance, spacing in (({"tolerance_px": 3.5}, None), ({"tolerance_um": 0.7}, 0.2)):
        metrics = {"families": ["segmentation", "thresholds"], "measures": [family], "boundary": "closed", **tolerance}
        rules = {"metrics": metrics, "ranking": None, "matching": {"rules": [rule]}}
        challenge = Challenge.from_preset("dsb2018", name="x", **rules)
        result = score_instances(challenge, {"a": (labels, np.roll(labels, 4, axis=1))}, spacing_um=spacing)
        found.append(result.value(f"segmentation.{family}.pooled"))
    assert found[0] == found[1]
    if family == "boundary_iou":
        assert found[0] == pytest.approx(1 / 3, abs=1e-6)


@pytest.mark.parametrize("read", [
    lambda: read_part(points(*(point(1, 2, name="", probability=p) for p in SURE)), format="points_json").probability,
    lambda: read_part("x,y,score\n" + "".join(f"1,2,{p}\n" for p in SURE), format="points_csv").probability,
])  # fmt: skip
def test_probabilities_that_differ_in_the_eighth_digit_are_no_ties(read):
    """Right, wrong, right, in this order: (1 + 2/3) / 2 of two nuclei is 5/6; a tie of all would give 2/3."""
    probability = read()
    assert probability.tolist() == list(SURE)
    samples = PredictionSamples(
        np.zeros(3, np.int64), np.ones(3, np.int16), np.array([1, 0, 1]), probability, None, None
    )
    sums = {"cases": np.ones(1, np.int64), "confusion": np.array([[[0, 1], [0, 2]]])}
    units = Units(CaseTable(sums, {}, np.ones(1), None, samples), csr_array([[1]]))
    assert average_precision(units).value.tolist() == [pytest.approx(5 / 6)]
