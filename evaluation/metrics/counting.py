"""Counting: does the number of predicted nuclei of each case agree with the reference? Positions are ignored.

Sums over cases, with t reference nuclei and p predictions of a class in a case: ``count_reference`` t,
``count_prediction`` p and ``count_absolute_error`` |t - p|, int64 (U, C); ``count_squared`` t^2 and
``count_squared_error`` (t - p)^2, float64 (U, C), since squares of made-up numbers must not wrap round. They are exact
up to 2^53.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evaluation.metrics.metric import BY_FORMULA, Metric
from evaluation.metrics.undefined import code, mean_of, ratio, scores
from evaluation.model import Float64, Int64, Scores, Units


def count_errors(references: Int64, predictions: Int64) -> dict[str, Int64 | Float64]:
    """The sums of one case from its numbers of nuclei of each class, int64 (C,)."""
    difference = references - predictions
    return {
        "count_reference": references,
        "count_prediction": predictions,
        "count_absolute_error": np.abs(difference),
        "count_squared": references.astype(np.float64) ** 2,
        "count_squared_error": difference.astype(np.float64) ** 2,
    }


def class_r2(units: Units, class_id: int) -> Scores:
    """Coefficient of determination of the numbers of a class, 1 - RSS / TSS, in (-inf, 1]; 1 is perfect.

    ``RSS = sum (t - p)^2``, ``TSS = sum (t - mean t)^2`` over the n cases of the unit. 0 is as good as always saying
    the mean; there is no worst value. Undefined "constant-reference" if all cases have the same number (TSS = 0), as
    in a unit of one case. Task 2 of CoNIC (Graham et al., Medical Image Analysis 92, 2024).
    """
    k, cases = class_id - 1, units.sum("cases")
    total = units.sum("count_reference")[:, k].astype(np.float64)
    # n times TSS: both terms are rounded once, so that it is 0 where the reference is constant
    spread = cases * units.sum("count_squared")[:, k] - total**2
    value = 1 - cases * units.sum("count_squared_error")[:, k] / np.where(spread == 0, 1, spread)
    return scores(value, spread > 0, code("constant-reference"))


def mean_r2(units: Units) -> Scores:
    """Mean over classes of the coefficient of determination of their numbers, in (-inf, 1]; 1 is perfect.

    Undefined if it is for every class. The R2 of task 2 of CoNIC.
    """
    classes = range(1, units.sum("count_reference").shape[1] + 1)
    return mean_of([class_r2(units, class_id) for class_id in classes], code("constant-reference"))


def class_mean_absolute_error(units: Units, class_id: int) -> Scores:
    """Mean over cases of |t - p|, the error in the number of nuclei of a class, in [0, inf), nuclei per case."""
    return ratio(units.sum("count_absolute_error")[:, class_id - 1], units.sum("cases"), code("no-instances"))


def mean_absolute_error(units: Units) -> Scores:
    """Mean over classes and cases of |t - p|, in [0, inf), nuclei per case and class."""
    errors = units.sum("count_absolute_error")
    return ratio(errors.sum(axis=1), units.sum("cases") * errors.shape[1], code("no-instances"))


# --- records ----------------------------------------------------------------------------------------------------------

EITHER: dict[str, Any] = {"missed": "either", "spurious": "either", "empty": BY_FORMULA, "worst": None}
R2: dict[str, Any] = {"lowest": -math.inf, **EITHER}
ERROR: dict[str, Any] = {"better": "lower", "highest": math.inf, "unit": "nuclei", "symmetric": True, **EITHER}

METRICS = tuple(
    Metric(path=("counting", *path), evaluate=formula, by_rule=False, **properties)
    for path, formula, properties in (
        (("r2",), mean_r2, R2),
        (("mean_absolute_error",), mean_absolute_error, ERROR),
        (("per_class", "<class>", "r2"), class_r2, R2),
        (("per_class", "<class>", "mean_absolute_error"), class_mean_absolute_error, ERROR),
    )
)
