"""How models differ in the main scores that a comparison shows: facts, without a ranking.

Each model is compared with the best model of a score. The test comes from the preset ``recommended``: signs of images
(or patients) flipped, corrected for all pairs of models and all of these scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from evaluation.board.facts import p_text
from evaluation.board.team_scores import (
    are_empty,
    groups_of,
    ordered_cases,
    plan_columns,
    values_of_groups,
    values_of_units,
)
from evaluation.files.results.documents import PValue, csv_table
from evaluation.findings import counted, quote
from evaluation.report.page import Cell, Table
from evaluation.report.result import is_lower_better
from evaluation.report.skills import COMPARED
from evaluation.report.tables import decimal, table_of, write_name
from evaluation.scoring.score import Result
from nuclei_metrics.model import Float64
from nuclei_metrics.ranking.declared_test import compare_in_columns
from nuclei_metrics.ranking.differences import paired_differences

MAIN_SCORES = ("detection.f1", "panoptic.pq", "panoptic.binary.pq", "overlap.aji", "counting.mean_absolute_error")
LEVEL = 0.05
_NAME_UP_TO = 32  # characters of a model in the table


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """A model next to the best one in a score, over the images or patients in which both have a value.

    difference  mean of the model minus the mean of the best
    low, high   its 95% interval, simultaneous over all pairs and scores; None: too few units
    p_value     of flipped signs, corrected for all pairs and scores; None: too few units for the test
    ahead       number of the ``units`` in which the model is ahead; ties count half
    decided_by  the images that decide the sign of the difference, or ""
    """

    score: str
    model: str
    value: float
    best: str
    best_value: float
    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    is_significant: bool
    units: int
    ahead: float
    decided_by: str = ""


def differences_of(results: Mapping[str, Result], shown: Sequence[str]) -> list[ModelDifference]:
    """Compare the models in those main scores that are shown. The best of a score has the best mean; ties by name."""
    paths = [path for path in MAIN_SCORES if path in shown]
    if len(results) < 2 or not paths:
        return []
    models = list(results)
    values = np.stack([[_of_groups(results[model], path) for path in paths] for model in models])
    higher = np.array([not is_lower_better(path) for path in paths])
    tested = compare_in_columns(
        values, higher_is_better=higher, weights=np.ones(len(paths)), test="sign_flips", level=LEVEL
    )
    found = []
    for column, path in enumerate(paths):
        test, level = tested.columns[column], LEVEL / len(paths)
        apart = paired_differences(values[:, column], higher_is_better=bool(higher[column]), level=level)
        known = {model: value_at(results[model], f"{path}.group_mean") for model in models}
        means = {model: value for model, value in known.items() if value is not None}
        if len(means) < 2:
            continue
        best = min(means, key=lambda model: (-means[model] if higher[column] else means[model], model))
        for model in means:
            row, other = models.index(model), models.index(best)
            units = int(apart.units[row, other])
            if model == best or not units:
                continue
            sign = 1 if higher[column] else -1
            low, high = sorted(sign * end for end in (apart.low[row, other], apart.high[row, other]))
            few = test.undefined is not None or units < test.least_units
            found.append(
                ModelDifference(
                    path,
                    model,
                    means[model],
                    best,
                    means[best],
                    round(float(sign * apart.mean[row, other]), 6) + 0.0,
                    None if math.isnan(low) else round(float(low), 6),
                    None if math.isnan(high) else round(float(high), 6),
                    None if few else PValue(test.p_values[row, other]).written(),
                    not few and bool(test.better[row, other]),
                    units,
                    float(apart.ahead[row, other]) * units,
                    _what_decides(results[model], results[best], path, model, higher=bool(higher[column])),
                )
            )
    return found


def value_at(result: Result, path: str) -> float | None:
    """Return the value at a path of metrics.json; None for missing numbers."""
    try:
        return result.value(path)
    except ValueError:
        return None


def _of_groups(result: Result, path: str) -> Float64:
    """The values of a score in each patient as they enter its mean; NaN if the model does not have the score."""
    if value_at(result, f"{path}.group_mean") is None:
        return np.full(len(groups_of(result.challenge)), np.nan)
    (column,) = plan_columns(result.challenge, [f"{path}.group_mean"])
    return values_of_groups(result.challenge, result.details, column)


def of_images(result: Result, path: str) -> Float64:
    """The values of a score in each image as they enter its mean, in the order of ``ordered_cases``.

    An image with nuclei for which nothing is predicted has the worst value. NaN: undefined, or not measured.
    """
    if value_at(result, f"{path}.group_mean") is None:
        return np.full(len(result.challenge.cases), np.nan)
    (column,) = plan_columns(result.challenge, [f"{path}.case_mean"])
    return values_of_units(result.challenge, result.details, column, "case")


def _what_decides(result: Result, best: Result, path: str, model: str, *, higher: bool) -> str:
    """Return images without which the model would be ahead: images without predictions, or a single image."""
    own, other = of_images(result, path), of_images(best, path)
    known = ~np.isnan(own) & ~np.isnan(other)
    cases, rule = ordered_cases(result.challenge), next(iter(result.scores))
    counts = [result.details["cases"][case.name]["rules"][rule]["counts"] for case in cases]
    empty = np.array([are_empty(one) for one in counts]) & known
    title = COMPARED[path]

    def turned(left_out: np.ndarray) -> str:
        rest = known & ~left_out
        if not rest.any():
            return ""
        means = own[rest].mean(), other[rest].mean()
        is_ahead = means[0] > means[1] if higher else means[0] < means[1]
        return f"{quote(model, 40)} is ahead, {title} {means[0]:.3f} against {means[1]:.3f}" if is_ahead else ""

    if empty.any() and (without := turned(empty)):
        images = f"{empty.sum():,} of {counted(int(known.sum()), 'image')} without a nucleus in {quote(model, 40)}"
        return f"{images}: without them {without}"
    for index in np.flatnonzero(known):
        left_out = np.zeros(len(known), np.bool_)
        left_out[index] = True
        if without := turned(left_out):
            return f"image {quote(cases[index].name, 40)}: without it {without}"
    return ""


# --- as a table -------------------------------------------------------------------------------------------------------


def differences_table(differences: Sequence[ModelDifference], unit: str) -> Table:
    """Tabulate the differences; ``unit``: the unit of means, such as "images"."""
    rows = []
    for one in differences:
        interval = "" if one.low is None or one.high is None else f" ({decimal(one.low)} to {decimal(one.high)})"
        p_value = f"too few {unit}" if one.p_value is None else p_text(one.p_value).removeprefix("p = ")
        ahead = f"{one.ahead:g} of {one.units:,}"
        rows.append(
            [
                COMPARED[one.score],
                Cell(one.model, write_name(one.model, _NAME_UP_TO)),
                Cell(one.best, write_name(one.best, _NAME_UP_TO)),
                Cell(one.difference, f"{decimal(one.difference)}{interval}"),
                Cell(one.p_value, p_value + ", significant" * one.is_significant),
                ahead,
                one.decided_by,
            ]
        )
    has_intervals = any(one.low is not None for one in differences)
    note = (
        f"Difference: mean over {unit}"
        f"{', with a 95% interval that holds for all pairs and scores together' * has_intervals}. p: test that flips "
        f"the signs of whole {unit}, corrected for all pairs and scores; it alone decides, and needs at least 6. "
        f"{unit.capitalize()} ahead: ties count half."
    )
    titles = ["score", "model", "best", "difference to the best", "p", f"{unit} ahead", "decided by"]
    return table_of(
        "model-differences", "Compared with the best model per score", titles, rows, help={}, note=note, sortable=False
    )


def differences_csv(differences: Sequence[ModelDifference]) -> str:
    names = [field.name for field in fields(ModelDifference)]
    return csv_table(names, [[getattr(one, name) for name in names] for one in differences])
