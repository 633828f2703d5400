"""objects.csv: one row per matched, missed and spurious nucleus, under every matching rule.

Cells without a value are empty: points have no area, and what has no pixels has no IoU, Dice and Hausdorff distance.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evaluation.model import CaseResult, MatchCounts, ObjectList
from evaluation.report.metrics_json import rounded

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


def objects_csv(results: Sequence[CaseResult], class_names: Sequence[str], measures: Sequence[str]) -> str:
    """The object table as CSV; ``measures`` are its last columns.

    Rows: cases as in ``results``, then rules, then matched, missed and spurious nuclei.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, *measures))
    for result in results:
        for rule in result.matches:
            writer.writerows(object_rows(result, rule, ("", *class_names), measures))
    return text.getvalue()


def object_rows(
    result: CaseResult, rule: str, names: Sequence[str], measures: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    matches, counts = result.matches[rule], result.counts[rule]
    start = (result.case.name, result.case.group, rule)
    reference, prediction = (
        list(zip(side.source_id.tolist(), [names[c] for c in side.class_id], areas(side, counts), strict=True))
        for side in (result.reference, result.prediction)
    )
    columns = [
        counts.measures[name].tolist() if name in counts.measures else [None] * len(matches) for name in measures
    ]
    pairs = zip(matches.reference_index.tolist(), matches.prediction_index.tolist(), *columns, strict=True)
    for left, right, *values in pairs:
        yield (*start, "matched", *reference[left], *prediction[right], *map(rounded, values))
    for left in np.setdiff1d(np.arange(len(reference)), matches.reference_index).tolist():
        yield (*start, "missed", *reference[left], *[None] * (3 + len(measures)))
    for right in np.setdiff1d(np.arange(len(prediction)), matches.prediction_index).tolist():
        yield (*start, "spurious", *[None] * 3, *prediction[right], *[None] * len(measures))


def areas(side: ObjectList, counts: MatchCounts) -> list[int | None]:
    """Area of each instance of a side, px; None for points."""
    are_points = not counts.outlines and not side.area_px.any()
    return [None] * len(side.area_px) if are_points else side.area_px.tolist()
