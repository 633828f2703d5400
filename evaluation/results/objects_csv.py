"""objects.csv: one row per matched, missed and spurious nucleus, under every matching rule.

Cells without a value are empty: points have no area, and what has no pixels has no IoU, Dice and Hausdorff distance.
Ids come from files of strangers; see ``safe_cell``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import CaseResult, MatchCounts, ObjectList
from evaluation.results.csv_cells import safe_cell
from evaluation.results.metrics_json import rounded

COLUMNS = (
    "case",
    "group",
    "rule",
    "outcome",
    "reference_id",
    "reference_class",
    "reference_area_px",
    "prediction_id",
    "prediction_class",
    "prediction_area_px",
)
ROWS_AT_ONCE = 1 << 16


def objects_csv(results: Sequence[CaseResult], class_names: Sequence[str], measures: Sequence[str]) -> str:
    """The object table as CSV; ``measures`` are its last columns.

    Rows: cases as in ``results``, then rules, then matched, missed and spurious nuclei.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    shapes = list(dict.fromkeys(name for result in results for name in result.reference.shapes))
    of_sides = [f"{side}_{name}" for side in ("reference", "prediction") for name in shapes]
    writer.writerow((*COLUMNS, *measures, *of_sides))
    for result in results:
        for rule in result.matches:
            for columns in object_columns(result, rule, np.array(["", *class_names], object), measures, shapes):
                writer.writerows(zip(*columns, strict=False))
    return text.getvalue()


Column = Iterable[Any]


def object_columns(
    result: CaseResult, rule: str, names: npt.NDArray[Any], measures: Sequence[str], shapes: Sequence[str]
) -> Iterator[list[Column]]:
    """The columns of a case under a rule, for some rows at a time; a value that all rows have may be endless."""
    matches, counts = result.matches[rule], result.counts[rule]
    start = [repeat(safe_cell(text)) for text in (result.case.name, result.case.group, rule)]
    none = [repeat(None)]
    missed, spurious = (
        np.setdiff1d(np.arange(len(side.area_px)), matched)
        for side, matched in (
            (result.reference, matches.reference_index),
            (result.prediction, matches.prediction_index),
        )
    )
    for rows in batches(len(matches)):
        values = [
            [rounded(value) for value in counts.measures[name][rows].tolist()] if name in counts.measures else none[0]
            for name in measures
        ]
        sides = [
            *side_columns(result.reference, matches.reference_index[rows], names, counts),
            *side_columns(result.prediction, matches.prediction_index[rows], names, counts),
        ]
        reference = shape_columns(result.reference, matches.reference_index[rows], shapes)
        prediction = shape_columns(result.prediction, matches.prediction_index[rows], shapes)
        yield [*start, repeat("matched"), *sides, *values, *reference, *prediction]
    for rows in batches(len(missed)):
        side = side_columns(result.reference, missed[rows], names, counts)
        reference = shape_columns(result.reference, missed[rows], shapes)
        yield [*start, repeat("missed"), *side, *(3 + len(measures)) * none, *reference, *len(shapes) * none]
    for rows in batches(len(spurious)):
        side = side_columns(result.prediction, spurious[rows], names, counts)
        prediction = shape_columns(result.prediction, spurious[rows], shapes)
        blank = (len(measures) + len(shapes)) * none
        yield [*start, repeat("spurious"), *3 * none, *side, *blank, *prediction]


def batches(rows: int) -> Iterator[slice]:
    for first in range(0, rows, ROWS_AT_ONCE):
        yield slice(first, first + ROWS_AT_ONCE)


def side_columns(
    side: ObjectList, index: npt.NDArray[np.integer[Any]], names: npt.NDArray[Any], counts: MatchCounts
) -> list[Column]:
    """Id, class and area in px of the chosen instances of a side; points have no area."""
    are_points = not counts.outlines and not side.area_px.any()
    area = repeat(None) if are_points else side.area_px[index].tolist()
    return [map(safe_cell, side.source_id[index].tolist()), names[side.class_id[index]].tolist(), area]


def shape_columns(side: ObjectList, index: npt.NDArray[np.integer[Any]], shapes: Sequence[str]) -> list[Column]:
    """The shapes of the chosen instances of a side; what has no pixels has none."""
    columns = [side.shapes[name][index].tolist() for name in shapes if name in side.shapes]
    return [["" if math.isnan(value) else rounded(value) for value in values] for values in columns]
