"""Groups (patients) and cases on a page: how scores are spread over them, tables of them, precision against recall."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evaluation.findings import counted
from evaluation.leaderboard.titles import metric_title
from evaluation.report.listing import table_of, with_key
from evaluation.report.page import Axis, Block, Cell, Column, Dot, Figure, Label, Section, Series, Table, Text
from evaluation.report.plots import plot, series_colour
from evaluation.report.result import ResultDocuments, Unit, is_lower_better
from evaluation.report.shown import shown_number

ROWS_SHOWN = 500
POINTS_SHOWN = 1000
SPREAD = (
    ("spread", "scores", ("detection.f1", "classification.balanced_accuracy", "segmentation.iou_class_mean",
                          "segmentation.iou", "panoptic.pq")),
    ("spread-distances", "distances", ("segmentation.hausdorff_px", "segmentation.hausdorff_um")),
    ("spread-errors", "errors of counts", ("counting.mean_absolute_error",)),
)  # fmt: skip
COLUMNS = (
    "detection.f1",
    "classification.balanced_accuracy",
    "segmentation.iou_class_mean",
    "segmentation.hausdorff_px",
    "panoptic.pq",
    "counting.mean_absolute_error",
)


def case_anchors(result: ResultDocuments) -> dict[str, str]:
    """The rows of cases in their table, by name: all, or the worst if there are too many."""
    shown = {unit.name for unit in worst_cases(result, ROWS_SHOWN)}
    return {unit.name: f"case-row-{index}" for index, unit in enumerate(result.cases) if unit.name in shown}


def worst_cases(result: ResultDocuments, number: int) -> list[Unit]:
    """The cases with the lowest main score, those without a value last; equal ones by name."""
    score = main_score(result)

    def badness(unit: Unit) -> tuple[bool, float, str]:
        value = unit.value(score)
        if value is None:
            return True, 0.0, unit.name
        return False, -value if is_lower_better(score) else value, unit.name

    return sorted(result.cases, key=badness)[:number]


def main_score(result: ResultDocuments) -> str:
    """The score that cases are sorted by: PQ, else detection F1, else the error of counts."""
    known = ("panoptic.pq", "detection.f1", "counting.mean_absolute_error")
    return next((path for path in known if result.has(path)), next(iter(result.paths), ""))


def first_anchor(unit: Unit, anchors: Mapping[str, str]) -> str:
    """The row of the first case of a unit that has one."""
    return next((anchors[name] for name in unit.cases if name in anchors), "")


# --- distribution -----------------------------------------------------------------------------------------------------


def unit_section(result: ResultDocuments) -> Section:
    """The main scores over groups, or over cases where these are the groups; precision against recall; the groups."""
    what = "group" if result.are_grouped else "case"
    blocks: list[Block] = []
    for anchor, title, paths in SPREAD:
        chosen = [path for path in paths if result.has(path)]
        if "segmentation.iou_class_mean" in chosen and "segmentation.iou" in chosen:
            chosen.remove("segmentation.iou")
        if chosen:
            blocks.append(spread_figure(result, anchor, f"{what}s", chosen, title))
    if not blocks:
        blocks.append(Text(("None of the main scores was asked for, so there is nothing to plot.",)))
    blocks += precision_recall(result, what)
    if result.are_grouped:
        blocks.append(group_table(result))
    lead = f"Every point is one {what}."
    return Section("spread-section", f"Differences between {what}s", tuple(blocks), lead)


def spread_figure(result: ResultDocuments, anchor: str, what: str, paths: list[str], title: str) -> Figure | Text:
    units, anchors = result.groups if result.are_grouped else result.cases, case_anchors(result)
    boxes, found, left_out = [], [], []
    for index, path in enumerate(paths):
        name = metric_title(path)
        known = [(unit, value) for unit in units if (value := unit.value(path)) is not None]
        step = -(-len(known) // POINTS_SHOWN) or 1
        if len(known) < len(units):
            lacking = len(units) - len(known)
            of_all = counted(len(units), what.removesuffix("s"))
            left_out.append(f"{lacking:,} of {of_all} {'has' if lacking == 1 else 'have'} no {name}")
        if step > 1:
            left_out.append(f"of {len(known):,} {what} one in {step} is drawn")
        if known:
            dots = tuple(Dot(name, value, unit.name, first_anchor(unit, anchors)) for unit, value in known[::step])
            boxes.append(Series(name, dots, series_colour(index), "boxes"))
            values = [value for _, value in known]
            over = counted(len(values), what.removesuffix("s"))
            found.append(f"{name}: from {min(values):.3f} to {max(values):.3f} over {over}")
    if not boxes:
        return Text((f"{sentence(left_out)} There is nothing to plot.",))
    most = max(float(dot.y or 0) for box in boxes for dot in box.dots)
    ends = (0.0, 1.02 if anchor == "spread" else 1.05 * most or 1.0)
    description = " ".join(sentence(part) for part in (found, left_out) if part)
    height = 300 if len(boxes) == 1 else 380
    return plot(anchor, f"{title} of {what}".capitalize(), description, boxes, y=Axis(title, ends), height=height)


def sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def precision_recall(result: ResultDocuments, what: str) -> list[Figure]:
    """Precision against recall of each unit, with lines of equal F1."""
    anchors, dots = case_anchors(result), []
    for unit in result.groups if result.are_grouped else result.cases:
        recall, precision, f1 = (unit.value(f"detection.{name}") for name in ("recall", "precision", "f1"))
        if recall is not None and precision is not None:
            text = f"{unit.name}, F1 {shown_number(f1)}"
            dots.append(Dot(recall, precision, text, first_anchor(unit, anchors)))
    if not dots:
        return []
    low = max(0.0, math.floor(20 * min(min(float(dot.x), float(dot.y or 0)) for dot in dots) - 0.5) / 20)
    step = 0.1 if low < 0.6 else 0.05 if low < 0.85 else 0.02
    lines, labels = [], []
    for f1 in (round(step * index, 2) for index in range(1, round(1 / step))):
        start = max(f1 / (2 - f1), low, 0.01)
        xs = [start + (1 - start) * part / 40 for part in range(41)]
        end = f1 / (2 - f1)
        if end > low:
            curve = tuple(Dot(x, f1 * x / (2 * x - f1)) for x in xs)
            lines.append(Series("", curve, "@line", dash="dot", is_curve=True))
            labels.append(Label(1, end, f"F1 {f1:g}", "right"))
    above = sum(float(dot.y or 0) > float(dot.x) for dot in dots)
    every = f"Of {counted(len(dots), what)} {above:,} {'has' if above == 1 else 'have'}"
    ends = (low, 1 + 0.04 * (1 - low))
    dots = dots[:: -(-len(dots) // POINTS_SHOWN) or 1]
    return [
        plot(
            "precision-recall",
            f"Precision and recall of detection, a point for each {what}",
            "Lower right: too many predictions; upper left: too few. Thin lines join points of equal F1. "
            f"{every} more precision than recall.",
            [Series(f"{what}s", tuple(dots)), *lines],
            x=Axis("recall", ends),
            y=Axis("precision", ends),
            height=440,
            labels=labels,
        )
    ]


# --- tables -----------------------------------------------------------------------------------------------------------


def group_table(result: ResultDocuments) -> Table:
    anchors = case_anchors(result)
    return table_of(
        "groups",
        "Groups (patients); each leads to its first case",
        result.groups,
        Column("group", of=lambda unit: Cell(unit.name, anchor=first_anchor(unit, anchors))),
        *unit_columns(result),
        Column("cases", 0, of=lambda unit: len(unit.cases)),
        rest="groups of details.json",
    )


def case_section(result: ResultDocuments) -> Section:
    """The table of cases; each leads to its nuclei in the browser, if the page has one."""
    anchors = case_anchors(result)

    def name(unit: Unit) -> Cell:
        return Cell(unit.name, anchor="browser", name=anchors[unit.name])

    note, number = "", len(result.cases)
    if len(anchors) < number:
        score = metric_title(main_score(result))
        note = f"These are the {len(anchors):,} of {number:,} cases with the worst {score}."
    table = table_of(
        "cases",
        "Counts and scores of cases",
        [unit for unit in result.cases if unit.name in anchors],
        Column("case", of=name),
        *unit_columns(result),
        *([Column("group", of=lambda unit: unit.group)] if result.are_grouped else []),
        note=note,
    )
    return Section("cases-section", "Cases", (table,))


def unit_columns(result: ResultDocuments) -> list[Column]:
    """Columns of scores and counts of units, the scores first."""
    columns = [
        Column(metric_title(path), 2 if is_lower_better(path) else 3, path, with_key(Unit.value, path))
        for path in COLUMNS
        if result.has(path)
    ]
    keys: tuple[tuple[str, str], ...] = (("in the reference", "reference"), ("predicted", "prediction"))
    if result.cases and "true_positives" in result.cases[0].counts:
        keys = (("matched", "true_positives"), ("missed", "false_negatives"), ("spurious", "false_positives"))
    for index, (title, key) in enumerate(keys):

        def count(unit: Unit, key: str = key, is_first: bool = index == 0) -> Cell:
            found = unit.counts[key]
            number = sum(found) if isinstance(found, list) else found
            if is_first and not unit.submitted:
                return Cell(number, f"{number} (not all submitted)", tone="warning")
            return Cell(number)

        columns.append(Column(title, 0, of=count))
    return columns
