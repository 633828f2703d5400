"""Calibration: do the probabilities of the classes say how often the classes are right? Only matched pairs count.

Of each pair p_k is the probability that the prediction gives class k, divided by the sum over all classes (1 / C each
if the sum is 0), and y_k is 1 for the class of the reference, 0 for all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from evaluation.metrics.classification import without_probability
from evaluation.metrics.counts import hits
from evaluation.metrics.literature import BRIER, GOOD, GUO, RELOADED
from evaluation.metrics.metric import Example, Metric, MetricFamily, Variant
from evaluation.metrics.undefined import ratio
from evaluation.model import Float32, Float64, Int64, MetricChoice, Scores, Units

LEAST = 2.0**-23  # probabilities come in float32, of which this is the precision
LARGEST_LOSS = -math.log(LEAST)


def brier(units: Units) -> Scores:
    """Brier score of all classes, the mean over pairs of ``sum_k (p_k - y_k)^2``, in [0, 2]; 0 is best.

    With two classes it is twice the Brier score of either class. Undefined "no-probability" if predictions give no
    class probabilities, and if nothing matched.
    """
    given = units.table.pairs.class_probability
    if given is None:
        return without_probability(units)
    squares = (shares(given) - truth(units)) ** 2
    return ratio(pair_sum(units, squares.sum(axis=1)), hits(units).tp, hits(units).undefined)


def class_brier(units: Units, class_id: int) -> Scores:
    """Brier score of a class against the rest, the mean over pairs of ``(p_k - y_k)^2``, in [0, 1]; 0 is best.

    All matched pairs count, whatever their class. Undefined as for all classes. scikit-learn's ``brier_score_loss``.
    """
    given = units.table.pairs.class_probability
    if given is None:
        return without_probability(units)
    squares = (shares(given) - truth(units))[:, class_id - 1] ** 2
    return ratio(pair_sum(units, squares), hits(units).tp, hits(units).undefined)


def log_loss(units: Units) -> Scores:
    """Logarithmic loss, the mean over pairs of ``-ln p_k`` of the class k of the reference, in [0, 23 ln 2]; 0 is best.

    A probability below 2^-23 counts as that. Undefined as the Brier score. scikit-learn's ``log_loss``.
    """
    given = units.table.pairs.class_probability
    if given is None:
        return without_probability(units)
    of_truth = (shares(given) * truth(units)).sum(axis=1)
    loss = np.minimum(-np.log(np.clip(of_truth, LEAST, 1.0)), LARGEST_LOSS) + 0.0
    return ratio(pair_sum(units, loss), hits(units).tp, hits(units).undefined)


def expected_calibration_error(units: Units, bins: int) -> Scores:
    """Expected calibration error of the class that was predicted, in bins of equal width, in [0, 1]; 0 is best.

    With c the probability p_k of the predicted class k, the pairs with (b - 1) / B < c <= b / B are bin b of B; c = 0
    is in the first. ``sum_b n_b / n |right_b / n_b - mean c in b|``, where right_b of n_b pairs have the class of the
    reference. B is ``metrics.calibration_bins`` and stands in the path, since other bins give other values. It falls
    with fewer bins, and is biased upwards where bins have few pairs. c times B is rounded to six decimals, so that a
    probability of 0.6 in float32 is 0.6. Undefined as the Brier score.
    """
    pairs = units.table.pairs
    if pairs.class_probability is None:
        return without_probability(units)
    chosen = pairs.class_id[:, 1].astype(np.int64)
    confidence = shares(pairs.class_probability)[np.arange(len(chosen)), chosen - 1]
    bin_of = np.clip(np.ceil(np.round(confidence * bins, 6)).astype(np.int64) - 1, 0, bins - 1)
    right = pairs.class_id[:, 0] == pairs.class_id[:, 1]
    gap = sum_by(units, right - confidence, bin_of, bins)
    return ratio(np.abs(gap).sum(axis=1), hits(units).tp, hits(units).undefined)


def shares(given: Float32) -> Float64:
    """Probabilities (T, C) that add up to 1."""
    values = given.astype(np.float64)
    total = values.sum(axis=1, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1), 1 / values.shape[1])


def truth(units: Units) -> Float64:
    """y of each pair, (T, C)."""
    pairs = units.table.pairs
    classes = units.sum("confusion").shape[1] - 1
    return np.asarray(pairs.class_id[:, :1] == np.arange(1, classes + 1), np.float64)


def pair_sum(units: Units, values: Float64) -> Float64:
    """Sum over the pairs of each unit, (B,)."""
    return sum_by(units, values, np.zeros(len(values), np.int64), 1)[:, 0]


def sum_by(units: Units, values: Float64, bin_of: Int64, bins: int) -> Float64:
    """Sum over the pairs of each unit in each bin, (B, bins).

    In each case the smallest are added first, so the order of the nuclei changes no digit.
    """
    key = units.table.pairs.case * bins + bin_of
    order = np.lexsort((values, key))
    sums = np.bincount(key[order], values[order], minlength=len(units.table) * bins)
    return np.asarray(units.weights @ sums.reshape(-1, bins))


# --- records ----------------------------------------------------------------------------------------------------------

UNSURE = """
a.b.c  a.b.C
.....  .....
D....  D....
"""
CONFIDENCE = {"a": 0.9, "b": 0.7, "C": 0.6, "D": 0.8}
GIVEN = "The classes of the reference have the probabilities 0.9 (a), 0.7 (b), 0.4 (c, named tumor cell) and 0.8 (D)"
OF_PROBABILITIES: dict[str, Any] = {"judges_class": True, "better": "lower"}


def each_binning(choice: MetricChoice) -> Iterable[Variant]:
    return [Variant({"<bins>": str(choice.calibration_bins)}, {"bins": choice.calibration_bins})]


FAMILY = MetricFamily(
    "calibration",
    "Do the probabilities of the classes say how often they are right?",
    "Of the matched pairs. p_k is the probability that the prediction gives class k, divided by the sum over the "
    "classes (1 / C each if it is 0); y_k is 1 for the class of the reference and 0 for the others. Undefined "
    "(`no-probability`) if a prediction has no class probabilities; under a class-aware matching rule "
    "(`class-aware-matching`).",
    (
        Metric(
            path=("calibration", "brier"),
            evaluate=brier,
            highest=2.0,
            worst=2.0,
            sources=(BRIER, RELOADED),
            example=Example(
                UNSURE,
                f"{GIVEN}. Both classes miss by the same: 2 (0.1^2 + 0.3^2 + 0.6^2 + 0.2^2) / 4 = 1/4.",
                0.25,
                confidence=CONFIDENCE,
            ),
            **OF_PROBABILITIES,
        ),
        Metric(
            path=("calibration", "log_loss"),
            evaluate=log_loss,
            highest=LARGEST_LOSS,
            worst=LARGEST_LOSS,
            sources=(GOOD, RELOADED),
            example=Example(
                UNSURE,
                f"{GIVEN}: -ln(0.9 * 0.7 * 0.4 * 0.8) / 4 = -ln(0.2016) / 4.",
                0.400367,
                confidence=CONFIDENCE,
            ),
            **OF_PROBABILITIES,
        ),
        Metric(
            path=("calibration", "ece_<bins>_bins"),
            page="calibration.ece",
            evaluate=expected_calibration_error,
            each=(each_binning,),
            worst=1.0,
            sources=(GUO, RELOADED),
            example=Example(
                UNSURE,
                "Five bins. b (0.7) and D (0.8) are in the bin up to 0.8 and right: 2/4 (1 - 0.75) = 1/8. C (0.6) in "
                "the bin up to 0.6 is wrong: 1/4 * 0.6. a (0.9) is right: 1/4 * 0.1. Sum: 3/10.",
                0.3,
                "calibration.ece_5_bins.pooled",
                confidence=CONFIDENCE,
            ),
            **OF_PROBABILITIES,
        ),
        Metric(
            path=("calibration", "per_class", "<class>", "brier"),
            evaluate=class_brier,
            worst=1.0,
            sources=(BRIER, RELOADED),
            example=Example(
                UNSURE,
                f"{GIVEN}: (0.1^2 + 0.3^2 + 0.6^2 + 0.2^2) / 4 = 1/8.",
                0.125,
                confidence=CONFIDENCE,
            ),
            **OF_PROBABILITIES,
        ),
    ),
)
