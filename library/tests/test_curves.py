"""Curves over the confidence: worked by hand, against a literal version, scikit-learn and pycocotools."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import iou_of_all, literal_average_precision_101, literal_curve, literal_sensitivity
from pycoco import OF_PYCOCOTOOLS, coco_evaluation, coded, made_images
from pycocotools.cocoeval import Params
from scipy.sparse import csr_array
from sklearn.metrics import average_precision_score, precision_recall_curve

from nuclei_metrics.metrics import curves, order_statistics
from nuclei_metrics.model import CaseTable, Units
from nuclei_metrics.model.counts import PairSamples, PredictionSamples

mean_average_precision = partial(curves.mean_average_precision, formula=curves.average_precision)
EVERY_AREA = (
    curves.average_precision, curves.average_precision_101, mean_average_precision,
    partial(curves.mean_average_precision, formula=curves.average_precision_101),
    partial(curves.average_precision, class_id=1), partial(curves.average_precision_101, class_id=1),
)  # fmt: skip
EVERY_COCO = (
    partial(curves.coco_average_precision, index=1),
    curves.coco_mean_average_precision,
    partial(curves.coco_class_average_precision, class_id=1),
)
EVERY_POINT = (
    partial(curves.sensitivity_at, false_positives=2.0, per="image"),
    partial(curves.mean_sensitivity, false_positives=(0.5, 2.0), per="image"),
    partial(curves.mean_sensitivity, false_positives=(0.5, 2.0), per="image", class_id=1),
)
EVERYTHING = EVERY_AREA + EVERY_COCO + EVERY_POINT


def table_of(predictions, missed=(), *, cases=1, classes=2, area_mm2=None, hits=None) -> CaseTable:
    """Predictions (case, class, class of the nucleus that it found or 0, probability); missed nuclei (case, class)."""
    columns = np.array(predictions, np.float64).reshape(-1, 4).T
    case, class_id, found_class = (column.astype(np.int64) for column in columns[:3])
    confusion = np.zeros((cases, classes + 1, classes + 1), np.int64)
    np.add.at(confusion, (case, found_class, class_id), 1)
    for of, lost in missed:
        confusion[of, lost, 0] += 1
    right = (found_class == class_id)[:, None] & np.ones(2, bool)
    return CaseTable(
        sums={"cases": np.ones(cases, np.int64), "confusion": confusion, "points": np.zeros(cases, int)},
        largest={},
        area_mm2=np.full(cases, np.nan) if area_mm2 is None else np.array(area_mm2, np.float64),
        pairs=PairSamples(np.empty(0, np.int64), np.empty((0, 2), np.int16), {}, None),
        predictions=PredictionSamples(
            case,
            class_id.astype(np.int16),
            found_class.astype(np.int16),
            columns[3].astype(np.float64),
            right if hits is None else hits,
        ),
    )


def pooled(table: CaseTable) -> Units:
    return Units(table, csr_array(np.ones((1, len(table)), np.int64)))


def value(metric, table: CaseTable, **arguments):
    """Number, or the reason why there is none, of all cases together."""
    score = metric(pooled(table), **arguments).at(0)
    return score.undefined or score.value


def test_a_wrong_class_is_a_false_positive_and_leaves_its_nucleus_unfound():
    """Class 1 found a nucleus of class 2. Ignoring classes all is found; class 1: P 0, 1/2; class 2: one of two."""
    mixed = table_of([(0, 1, 2, 0.9), (0, 1, 1, 0.8), (0, 2, 2, 0.7)])
    assert value(curves.average_precision, mixed) == 1
    assert value(curves.average_precision, mixed, class_id=1) == 1 / 2
    assert value(curves.average_precision, mixed, class_id=2) == 1 / 2
    assert value(mean_average_precision, mixed) == 1 / 2
    at_none = {"false_positives": 0.0, "per": "image"}
    assert value(curves.sensitivity_at, mixed, **at_none) == 1
    assert value(curves.mean_sensitivity, mixed, class_id=1, false_positives=(0.0,), per="image") == 0
    assert value(curves.mean_sensitivity, mixed, class_id=2, false_positives=(0.0,), per="image") == 1 / 2
    assert value(curves.mean_sensitivity, mixed, class_id=1, false_positives=(0, 1), per="image") == 1 / 2


def test_false_positives_are_counted_per_mm2():
    """Two images of 0.5 and 1.5 mm2: 1 per mm2 are 2, 1 per image are 2 as well; 0.5 per mm2 are 1."""
    rows = [(0, 1, 1, 0.9), (1, 1, 0, 0.8), (1, 1, 1, 0.7), (0, 1, 0, 0.6), (0, 1, 1, 0.5), (0, 1, 0, 0.4)]
    table = table_of(rows, cases=2, area_mm2=[0.25, 1.75])
    by_area = partial(curves.sensitivity_at, per="mm2")
    assert [value(by_area, table, false_positives=rate) for rate in (0, 0.5, 1, 1.5)] == [1 / 3, 2 / 3, 1, 1]
    each = Units(table, csr_array(np.eye(2, dtype=np.int64)))
    np.testing.assert_array_equal(by_area(each, false_positives=4.0).value, [1, 1])
    np.testing.assert_array_equal(by_area(each, false_positives=0.5).value, [1 / 2, 0])


def test_a_product_that_falls_short_by_rounding_still_admits_the_last_false_positive():
    """0.29 x 100 is 28.999999999999996 in floats."""
    wrong = [(0, 1, 0, 0.9 - 0.01 * place) for place in range(29)]
    table = table_of([*wrong, (0, 1, 1, 0.1)], cases=100)
    assert value(curves.sensitivity_at, table, false_positives=0.29, per="image") == 1
    assert value(curves.sensitivity_at, table, false_positives=0.28, per="image") == 0


def test_without_an_area_there_is_nothing_per_mm2():
    table = table_of([(0, 1, 1, 0.9), (1, 1, 1, 0.9)], cases=2, area_mm2=[1, np.nan])
    found = curves.sensitivity_at(Units(table, csr_array(np.array([[1, 0], [1, 1]]))), 1.0, "mm2")
    assert (found.at(0).value, found.at(1).undefined) == (1, "no-spacing")
    assert value(curves.mean_sensitivity, table, false_positives=(1, 2), per="mm2") == "no-spacing"
    assert value(curves.mean_sensitivity, table, false_positives=(1, 2), per="image") == 1


def test_without_probabilities_nothing_is_defined_and_those_of_0_are_probabilities():
    """What each says where a side is empty or nothing matched stands in ``situations``."""
    for metric in EVERYTHING:
        assert value(metric, table_of([(0, 1, 1, 0.0)])) == pytest.approx(1, abs=1e-12), metric
        table = table_of([(0, 1, 1, 0.9)])
        given = table.predictions
        bare = PredictionSamples(given.case, given.class_id, given.found_class, None, None)
        without = CaseTable(table.sums, table.largest, table.area_mm2, table.pairs, bare)
        assert value(metric, without) == "no-probability", metric


# A literal version: one union of cases, written out


def literal_average_precision(probability, right, references):
    """Exactly, as a fraction."""
    points = literal_curve(probability, right)
    area, before = Fraction(0), 0
    for place, (tp, _) in enumerate(points):
        area += Fraction(tp - before, references) * max(Fraction(t, t + f) for t, f in points[place:])
        before = tp
    return float(area)


scenes = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 40), st.sampled_from([2, 5, 1000]), st.booleans()
)


def scene(seed, cases, number, levels, dense):
    """A table of random predictions, and units: weights (B, U)."""
    random = np.random.default_rng(seed)
    class_id = random.integers(1, 3, number)
    other = np.where(random.random(number) < 0.2, 3 - class_id, class_id)
    rows = np.stack(
        [
            random.integers(0, cases, number),
            class_id,
            np.where(random.random(number) < 0.6, other, 0),
            random.integers(0, levels, number) / levels,
        ],
        axis=1,
    )
    missed = [(int(random.integers(0, cases)), int(random.integers(1, 3))) for _ in range(random.integers(0, 9))]
    table = table_of(rows, missed, cases=cases, hits=random.random((number, 2)) < 0.5)
    weights = random.multinomial(cases, np.full(cases, 1 / cases), size=8) if dense else np.eye(cases, dtype=np.int64)
    return table, weights


def unions(table, weights, class_id, index=None):
    """Probability, right and references of each unit, from predictions repeated as often as they occur."""
    given, confusion = table.predictions, table.sums["confusion"]
    for row in weights:
        n = np.where((class_id == 0) | (given.class_id == class_id), row[given.case], 0)
        right = given.found_class > 0 if class_id == 0 else given.found_class == class_id
        right = right if index is None else given.hits[:, index]
        nuclei = confusion[:, 1:] if class_id == 0 else confusion[:, class_id]
        yield np.repeat(given.probability, n), np.repeat(right, n), int((row @ nuclei.reshape(len(row), -1)).sum())


@pytest.fixture(params=["as it is", "in small pieces"], scope="module")
def pieces(request):
    """What is done at once must not matter."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in small pieces":
            patch.setattr(order_statistics, "CHUNK", 64)
            patch.setattr(order_statistics, "LARGEST_TABLE", 12)
        yield


@pytest.mark.usefixtures("pieces")
@given(scene=scenes)
def test_areas_and_points_are_those_of_the_literal_version(scene):
    table, weights = globals()["scene"](*scene)
    units = Units(table, csr_array(weights))
    for class_id in (0, 1, 2):
        named = {"class_id": class_id} if class_id else {}
        area, area_101 = (
            formula(units, **named) for formula in (curves.average_precision, curves.average_precision_101)
        )
        at = {rate: curves.mean_sensitivity(units, (rate,), "image", **named) for rate in (0.0, 0.3, 2.0)}
        for place, (probability, right, references) in enumerate(unions(table, weights, class_id)):
            if references == 0:
                assert area.at(place).undefined in ("no-reference", "no-instances")
                continue
            assert area.at(place).value == pytest.approx(
                literal_average_precision(probability, right, references), abs=1e-13
            )
            assert area_101.at(place).value == pytest.approx(
                literal_average_precision_101(probability, right, references), abs=1e-13
            )
            for rate, found in at.items():
                limit = rate * int(weights[place].sum())
                expected = literal_sensitivity(probability, right, references, limit)
                assert found.at(place).value == pytest.approx(expected, abs=1e-9)


@given(scene=scenes)
def test_the_areas_of_coco_are_those_of_its_own_hits(scene):
    table, weights = globals()["scene"](*scene)
    units = Units(table, csr_array(weights))
    single = {
        (class_id, place): [
            literal_average_precision_101(*of) if of[2] else None for of in unions(table, weights, class_id, place)
        ]
        for class_id in (1, 2)
        for place in (0, 1)
    }
    for unit in range(len(weights)):
        known = {key: of[unit] for key, of in single.items() if of[unit] is not None}
        assert (curves.coco_mean_average_precision(units).at(unit).value is None) == (not known)
        if known:
            mean = sum(known.values()) / len(known)
            assert curves.coco_mean_average_precision(units).at(unit).value == pytest.approx(mean)
            at_second = [number for (_, place), number in known.items() if place == 1]
            found = curves.coco_average_precision(units, 1).at(unit).value
            assert found == pytest.approx(sum(at_second) / len(at_second))
        if (1, 0) in known:
            of_class = curves.coco_class_average_precision(units, 1).at(unit).value
            assert of_class == pytest.approx((known[1, 0] + known[1, 1]) / 2)


def test_scikit_learn_s_curve_gives_the_area_once_precision_is_made_to_fall():
    """It knows no nuclei without a prediction, so its recall is of those that were found."""
    for seed in range(20):
        table, _ = scene(seed, 1, 40, 7, False)
        ((probability, right, references),) = unions(table, np.ones((1, 1), np.int64), 0)
        share = right.sum() / references
        precision, recall, _ = precision_recall_curve(right, probability)
        best = np.maximum.accumulate(precision[:-1])
        ours = value(curves.average_precision, table)
        assert ours == pytest.approx(share * float((-np.diff(recall) * best).sum()))
        assert ours >= share * average_precision_score(right, probability) - 1e-12


# pycocotools


def literal_hits(reference, of_reference, prediction, of_prediction, probability, thresholds):
    """COCO's greedy assignment: the most confident first, each the free nucleus of its class with the highest IoU."""
    hits = np.zeros((len(prediction), len(thresholds)), bool)
    value = np.where(of_reference[:, None] == of_prediction, iou_of_all(reference, prediction), -1)
    for column, threshold in enumerate(thresholds):
        free = np.ones(len(reference), bool)
        for index in np.argsort(-probability, kind="stable"):
            of_free = np.where(free, value[:, index], -1)
            if of_free.max() >= threshold:
                free[len(free) - 1 - np.argmax(of_free[::-1])] = False  # the last of equal ones
                hits[index, column] = True
    return hits


@OF_PYCOCOTOOLS
@pytest.mark.parametrize("seed", range(4))
def test_pycocotools_gives_the_same_average_precisions(seed):
    thresholds = (0.3, 0.5, 0.75)
    images = made_images(seed)
    hits = np.concatenate([literal_hits(*image, thresholds) for image in images])
    rows = [(case, c, 0, p) for case, (*_, of, chance) in enumerate(images) for c, p in zip(of, chance, strict=True)]
    missed = [(case, c) for case, (_, of_reference, *_) in enumerate(images) for c in of_reference]
    table = table_of(rows, missed, cases=5, classes=3, hits=hits)
    theirs = coco_evaluation(coded(images), thresholds).eval["precision"][..., 0, 0]
    assert 0.1 < theirs.mean() < 0.9
    assert value(curves.coco_mean_average_precision, table) == pytest.approx(theirs.mean(), abs=1e-12)
    for place in range(3):
        ours = value(curves.coco_average_precision, table, index=place)
        assert ours == pytest.approx(theirs[place].mean(), abs=1e-12)
    for class_id in (1, 2, 3):
        ours = value(curves.coco_class_average_precision, table, class_id=class_id)
        assert ours == pytest.approx(theirs[:, :, class_id - 1].mean(), abs=1e-12)


def test_recall_is_compared_in_floats_as_pycocotools_does():
    """7 of 20 nuclei do not reach the recall 0.35, for pycocotools has it as 0.35000000000000003."""
    recalls = Params("segm").recThrs
    assert recalls[35] > 7 / 20
    for found, reached in ((7, 35), (8, 41)):
        assert (recalls <= found / 20).sum() == reached
        table = table_of([(0, 1, 1, 0.9)] * found, [(0, 1)] * (20 - found))
        assert value(curves.average_precision_101, table) == pytest.approx(reached / 101)


def test_asking_twice_gives_the_same_and_asking_in_another_order_too():
    for metric in EVERYTHING:
        table, weights = scene(8, 4, 40, 1000, True)
        units = Units(table, csr_array(weights))
        first = metric(units).value
        for other in EVERYTHING:
            other(units)
        np.testing.assert_array_equal(metric(units).value, first)
