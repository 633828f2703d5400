"""Why is my PQ low? What detection, classes and outlines cost the main score, and how much of it is a pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.board.titles import metric_title
from evaluation.findings import percent
from evaluation.report.nuclei import disc_iou
from evaluation.report.page import Cell, Table, Value
from evaluation.report.skills import MARK
from evaluation.report.tables import decimal_cell, table_of
from evaluation.scoring.error_costs import count_error_kinds, error_costs
from evaluation.scoring.score import Result

_MAIN = ("panoptic.pq", "panoptic.binary.pq", "detection.f1")  # the first that has costs is explained
_ROWS: Mapping[str, str] = {  # by the kind of error
    "missed": "Detection: false negatives",
    "spurious": "Detection: false positives",
    "duplicate": "Detection: duplicates",
    "split": "Detection: split nuclei",
    "merged": "Detection: merged nuclei",
    "wrong_class": "Classes: wrong class",
    "poor_outline": "Outlines: all of them as in the reference",
}


@dataclass(frozen=True, slots=True)
class _Summary:
    """The main score of a model, the cost of each kind of error, and its outlines compared with a pixel.

    numbers  nuclei of each kind, the larger of the two sides
    iou, of_a_pixel, within  mean IoU of matched pairs, the IoU of discs of their areas drawn one pixel too small, and
             the share of pairs with at least this IoU; None without outlines
    """

    path: str
    value: float | None
    costs: Mapping[str, float | None]
    numbers: Mapping[str, int]
    iou: float | None
    of_a_pixel: float | None
    within: float | None


def _summarise(result: Result) -> _Summary | None:
    """Summarise a result under its first matching rule; None if nothing is matched by it."""
    if result.challenge.are_counts:
        return None
    rule = result.challenge.matching.rules[0].name
    costs = error_costs(result.challenge, [count_error_kinds(case, rule) for case in result.cases])
    known = {path.rpartition(".")[0]: path for path in costs["as_is"]}
    path = next((known[path] for path in _MAIN if path in known), "")
    if not path:
        return None
    of_pairs = [(case.reference.area_px[pairs.reference_index], pairs.intersection_px / np.maximum(pairs.union_px, 1))
                for case in result.cases if (pairs := case.matches[rule])]  # fmt: skip
    area, iou = (np.concatenate([pair[side] for pair in of_pairs] or [np.empty(0)]) for side in (0, 1))
    pixel = disc_iou(area)
    has_outlines = bool(len(area)) and bool(area.any())
    means = [float(np.mean(of)) if has_outlines else None for of in (iou, pixel, iou >= pixel)]
    return _Summary(
        path,
        costs["as_is"][path],
        {kind["kind"]: kind["cost"][path] for kind in costs["kinds"]},
        {kind["kind"]: max(kind["reference"], kind["prediction"]) for kind in costs["kinds"]},
        *means,
    )


def summary_table(results: Mapping[str, Result]) -> Table | None:
    """Tabulate the cost of each kind of error in the main score of each model; None without matches.

    Names that begin with ``MARK`` are second annotations: the agreement of annotators.
    """
    known = {model: one for model, result in results.items() if (one := _summarise(result)) is not None}
    if not known:
        return None
    models = sorted(known, key=lambda model: model.startswith(MARK))
    own = [known[model] for model in models]
    title = metric_title(own[0].path.rpartition(".")[0])
    rows: list[list[Value]] = [[title, *(decimal_cell(one.value) for one in own)]]
    for kind, words in _ROWS.items():
        cells: list[Value] = []
        for one in own:
            cost, number = one.costs[kind], one.numbers[kind]
            is_largest = cost is not None and cost > 0 and cost == max(one.costs[name] or 0 for name in _ROWS)
            text = "–" if cost is None else f"{cost:z.3f}" + f" ({number:,})" * (kind != "poor_outline")
            cells.append(Cell(cost, text, tone="warning" if is_largest else "plain"))
        if any(isinstance(cell, Cell) and cell.value for cell in cells):
            rows.append([words, *cells])
    rows += _pixel_rows(own)
    columns = ["", *models]
    note = (
        f"Detection, classes, outlines: how much higher {title} would be if errors of this kind alone were corrected "
        "(in brackets: nuclei). Rows do not add up, because errors interact. !: the costliest kind."
    )
    if any(one.iou is not None for one in own):
        note += (
            " IoU of one pixel: mean over discs with the areas of the matched nuclei, drawn one pixel too small; in "
            "the row below, each nucleus is compared with a disc of the same area."
        )
    if models[-1].startswith(MARK):
        note += " ○: a second annotation; its agreement with the reference is the ceiling."
    return table_of("summary", f"Why {title} is below 1", columns, rows, help={}, sortable=False, note=note)


def _pixel_rows(own: Sequence[_Summary]) -> list[list[Value]]:
    """Describe how close the outlines of matched nuclei are to the border of the reference."""
    if all(one.iou is None for one in own):
        return []
    return [
        ["Matched nuclei: mean IoU, pooled", *(decimal_cell(one.iou) for one in own)],
        ["IoU of one pixel", *(decimal_cell(one.of_a_pixel) for one in own)],
        ["Matched nuclei with at least this IoU", *(Cell(one.within, percent(one.within)) for one in own)],
    ]
