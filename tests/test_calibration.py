"""Calibration, weighted kappa and expected cost: against scikit-learn and a literal version."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_counts import counts_of as counts_with
from made_counts import units_of
from sklearn.metrics import brier_score_loss, cohen_kappa_score, log_loss

from evaluation.challenge import Challenge
from evaluation.findings.errors import ChallengeBroken
from evaluation.metrics import calibration, classification


def counts_of(reference, prediction, given, classes):
    """A case whose matched pairs have these classes and these probabilities."""
    confusion = np.zeros((classes + 1, classes + 1), int)
    np.add.at(confusion, (reference, prediction), 1)
    pairs = np.stack([reference, prediction], axis=1).astype(np.int16)
    return counts_with(confusion, pair_class=pairs, pair_probability=given)


def scene(seed, pairs=200, classes=3):
    """Classes of reference and prediction, probabilities (not adding up to 1), and the units of two cases."""
    random = np.random.default_rng(seed)
    given = random.random((pairs, classes)).astype(np.float32)
    given[random.random(pairs) < 0.1] = 0
    reference, prediction = random.integers(1, classes + 1, pairs), given.argmax(axis=1) + 1
    prediction[:20] = random.integers(1, classes + 1, 20)
    half = pairs // 2
    parts = [slice(0, half), slice(half, pairs)]
    counts = [counts_of(reference[part], prediction[part], given[part], classes) for part in parts]
    total = given.sum(axis=1, keepdims=True, dtype=np.float64)
    shares = np.where(total > 0, given / np.where(total > 0, total, 1), 1 / classes)
    return reference, prediction, shares, units_of(*counts, members=[[0, 1]])


@pytest.mark.parametrize("seed", range(4))
def test_scikit_learn_gives_the_same_brier_score_and_logarithmic_loss(seed):
    reference, _, shares, units = scene(seed)
    for class_id in (1, 2, 3):
        expected = brier_score_loss(reference == class_id, shares[:, class_id - 1])
        assert calibration.class_brier(units, class_id).at(0).value == pytest.approx(expected, abs=1e-9)
    truth = np.eye(3)[reference - 1]
    literal = math.fsum(float(((row - is_it) ** 2).sum()) for row, is_it in zip(shares, truth, strict=True)) / 200
    assert calibration.brier(units).at(0).value == pytest.approx(literal, abs=1e-9)
    clipped = np.clip(shares, 2.0**-23, 1)
    theirs = log_loss(reference, clipped / clipped.sum(axis=1, keepdims=True), labels=[1, 2, 3])
    assert calibration.log_loss(units).at(0).value == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_the_calibration_error_is_that_of_a_loop_over_bins(bins):
    reference, prediction, shares, units = scene(9)
    confidence = shares[np.arange(200), prediction - 1]
    error = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [k for k, c in enumerate(confidence) if low < c <= high or (number == 0 and c == 0)]
        if inside:
            right = sum(reference[k] == prediction[k] for k in inside) / len(inside)
            error += len(inside) / 200 * abs(right - sum(confidence[k] for k in inside) / len(inside))
    assert calibration.expected_calibration_error(units, bins).at(0).value == pytest.approx(error, abs=1e-6)


def test_a_probability_of_one_for_every_class_gains_nothing():
    ones = units_of(counts_of(np.array([1]), np.array([1]), np.ones((1, 2), np.float32), 2))
    assert calibration.log_loss(ones).at(0).value == pytest.approx(math.log(2))
    assert calibration.brier(ones).at(0).value == pytest.approx(1 / 2)


def test_a_class_that_was_held_impossible_costs_the_largest_loss():
    sure = units_of(counts_of(np.array([2]), np.array([1]), np.array([[1, 0]], np.float32), 2))
    assert calibration.log_loss(sure).at(0).value == calibration.LARGEST_LOSS == pytest.approx(23 * math.log(2))


@pytest.mark.parametrize("weights", ["linear", "quadratic"])
@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn_gives_the_same_weighted_kappa(weights, seed):
    reference, prediction, _, units = scene(seed, classes=4)
    expected = cohen_kappa_score(reference, prediction, weights=weights, labels=[1, 2, 3, 4])
    assert classification.weighted_kappa(units, weights).at(0).value == pytest.approx(expected, abs=1e-12)


def test_the_expected_cost_is_the_mean_over_pairs():
    reference, prediction, _, units = scene(5)
    costs = ((0, 2, 5), (1, 0, 1), (1, 0.5, 0))
    expected = math.fsum(costs[i - 1][j - 1] for i, j in zip(reference, prediction, strict=True)) / 200
    assert classification.expected_cost(units, costs).at(0).value == pytest.approx(expected, abs=1e-12)


def challenge(**metrics):
    return Challenge.from_preset(
        "monusac2020",
        name="costs",
        classes=[{"name": name} for name in "abc"],
        metrics={"families": ["classification"], "boundary": "closed", **metrics},
    )


def test_costs_are_given_by_name_and_are_one_if_they_are_not_given():
    found = challenge(class_costs={"A": {"b": 4}}).metric_choice().class_costs
    assert found == ((0, 4, 1), (1, 0, 1), (1, 1, 0))
    assert challenge().metric_choice().class_costs == ()


@pytest.mark.parametrize(
    "metrics",
    [
        {"class_costs": {"z": {"a": 1}}},
        {"class_costs": {"a": {"z": 1}}},
        {"class_costs": {"a": {"a": 1}}},
        {"families": ["calibration"]},
        {"families": ["sizes"]},
        {"sizes_px": {"small": [0, 4]}},
        {"families": ["sizes"], "sizes_px": {"small": [4, 0]}},
        {"families": ["sizes"], "sizes_px": {"small": [0, 4]}, "measures": ["dice"]},
    ],
)
def test_rules_without_sense_are_refused(metrics):
    with pytest.raises(ChallengeBroken):
        challenge(**metrics)


def test_only_a_key_with_another_value_changes_the_hash():
    assert challenge(calibration_bins=15).hash == challenge().hash
    assert challenge(calibration_bins=10).hash != challenge().hash
