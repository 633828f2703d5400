"""ROC curves of the classes of matched nuclei: those of scikit-learn, inside their bands."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from made_counts import counts_of
from sklearn import metrics

from evaluation.report.nuclei import MOST_PAIRS, roc_section

CLASSES = ("tumour", "stroma")


def counts(size: int, *, seed: int = 0, separation: float = 1.0):
    """Counts of a case with pairs of both classes, whose probabilities tell them apart more or less."""
    rng = np.random.default_rng(seed)
    class_id = rng.integers(1, 3, size).astype(np.int16)
    score = 1 / (1 + np.exp(-rng.normal(separation * (class_id == 1), 1.0)))
    return replace(
        counts_of([[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
        pair_class=np.stack([class_id, class_id], axis=1),
        pair_probability=np.stack([score, 1 - score], axis=1).astype(np.float64),
    )


def curves(section):
    (figure,) = section.blocks
    return figure, [np.transpose([(dot.x, dot.y) for dot in one.dots]) for one in figure.series]


def test_a_curve_is_that_of_scikit_learn_inside_its_band():
    cases = [counts(400, seed=seed) for seed in range(3)]
    figure, found = curves(roc_section(CLASSES, cases))
    assert [one.name for one in figure.series] == ["", "", "tumour", "", "", "stroma"]
    truth = np.concatenate([case.pair_class[:, 0] for case in cases])
    score = np.concatenate([case.pair_probability for case in cases])
    for class_id in (1, 2):
        lower, upper, mean = found[3 * class_id - 3 : 3 * class_id]
        others, share, _ = metrics.roc_curve(truth == class_id, score[:, class_id - 1])
        expected = np.interp(mean[0][1:], others, share)
        np.testing.assert_allclose(mean[1][1:], expected, atol=0.03)
        assert (lower[1] <= mean[1] + 0.005).all()  # percentiles of a skewed distribution
        assert (mean[1] <= upper[1] + 0.005).all()
    area = metrics.roc_auc_score(truth == 1, score[:, 0])
    low, high = (float(word) for word in figure.description.split("tumour ")[1].split(", ")[0].split(" to "))
    assert low < area < high
    assert high - low < 4 * math.sqrt(0.25 / 600)


def test_it_is_the_same_each_time_and_many_pairs_are_thinned_out():
    many = [counts(2 * MOST_PAIRS, separation=0.5)]
    first, second = (curves(roc_section(CLASSES, many))[0] for _ in range(2))
    assert first == second


def test_there_is_no_curve_without_probabilities_or_nuclei():
    assert roc_section(CLASSES, []) is None
    assert roc_section(CLASSES, [replace(counts(100), pair_probability=None)]) is None
    assert roc_section(CLASSES, [counts(100), replace(counts(100), pair_probability=None)]) is None
    assert roc_section(CLASSES, [counts(8)]) is None
