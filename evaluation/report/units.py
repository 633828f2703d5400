"""Groups (patients) and cases on a page: how scores are spread over them, tables of them, what they trade for what."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluation.report.figures import (
    Box,
    Dot,
    Mark,
    Series,
    box_figure,
    scatter_figure,
    series_colour,
    shown_number,
)
from evaluation.report.nuclei import curve_trace
from evaluation.report.page import Block, Cell, Column, Figure, Section, Table, Text
from evaluation.report.result import ResultDocuments, Unit, is_lower_better, label_of

ROWS_SHOWN = 500
POINTS_SHOWN = 1000
CLASSES_SHOWN = 7
MAIN = (
    "detection.f1",
    "classification.balanced_accuracy",
    "segmentation.iou_class_mean",
    "segmentation.iou",
    "panoptic.pq",
)
DISTANCES = ("segmentation.hausdorff_px", "segmentation.hausdorff_um")
ERRORS = ("counting.mean_absolute_error",)
COLUMNS = (
    "detection.f1",
    "classification.balanced_accuracy",
    "segmentation.iou",
    "segmentation.hausdorff_px",
    "panoptic.pq",
    "counting.mean_absolute_error",
)
TOP = 1.02  # of axes whose values end at 1, so that points there are seen whole


def case_anchors(result: ResultDocuments) -> dict[str, str]:
    """The rows of cases in their table, by name: all, or the worst if there are too many."""
    shown = {unit.name for unit in worst_cases(result, ROWS_SHOWN)}
    return {unit.name: f"case-row-{place}" for place, unit in enumerate(result.cases) if unit.name in shown}


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
    """What tells bad cases from good ones: PQ, which mixes all skills, else what there is."""
    known = ("panoptic.pq", "detection.f1", "counting.mean_absolute_error")
    return next((path for path in known if result.has(path)), next(iter(result.paths), ""))


def under_rule(result: ResultDocuments) -> str:
    """What is said of numbers that hang on the matching rule; nothing if only counts are scored."""
    counted = all(path.startswith("counting.") for path in result.paths)
    return "" if counted else ", under the first matching rule"


# --- distribution -----------------------------------------------------------------------------------------------------


def spread_section(result: ResultDocuments) -> Section:
    """Boxes of the main scores over groups, or over cases where these are the groups."""
    units, what = (result.groups, "groups") if result.are_grouped else (result.cases, "cases")
    paths = [path for path in MAIN if result.has(path)]
    if "segmentation.iou_class_mean" in paths and "segmentation.iou" in paths:
        paths.remove("segmentation.iou")
    blocks: list[Block] = []
    parts = (
        ("spread", paths, "scores", (0.0, TOP)),
        ("spread-distances", [path for path in DISTANCES if result.has(path)], "distances", None),
        ("spread-errors", [path for path in ERRORS if result.has(path)], "errors of counts", None),
    )
    for anchor, chosen, title, ends in parts:
        if chosen:
            blocks.append(spread_figure(result, anchor, units, what, chosen, title, ends))
    if not blocks:
        blocks.append(Text(("None of the main scores was asked for, so there is nothing to plot.",)))
    lead = "One number hides how much the " + ("patients" if result.are_grouped else "cases") + " differ. "
    lead += f"Every point is one of them{under_rule(result)}; a click leads to its row in the table of cases."
    if result.are_grouped:
        blocks.append(group_table(result))
    return Section("spread-section", f"Spread over {what}", tuple(blocks), lead)


def spread_figure(
    result: ResultDocuments,
    anchor: str,
    units: Sequence[Unit],
    what: str,
    paths: Sequence[str],
    title: str,
    ends: tuple[float, float] | None,
) -> Figure | Text:
    anchors = case_anchors(result)
    boxes, told, left_out = [], [], []
    for index, path in enumerate(paths):
        known = [(unit, value) for unit in units if (value := unit.value(path)) is not None]
        if len(known) < len(units):
            left_out.append(f"{len(units) - len(known)} of {len(units)} {what} have no {label_of(path)}")
        shown = known[:: -(-len(known) // POINTS_SHOWN) or 1]
        if len(shown) < len(known):
            left_out.append(f"of {len(known):,} {what} every {-(-len(known) // POINTS_SHOWN)}th is drawn")
        marks = tuple(
            Mark(value, f"{unit.name}\n{label_of(path)}: {shown_number(value)}", first_anchor(unit, anchors))
            for unit, value in shown
        )
        if marks:
            values = [value for _, value in known]
            boxes.append(Box(label_of(path), marks, series_colour(index)))
            told.append(f"{label_of(path)}: from {min(values):.3f} to {max(values):.3f} over {len(values)} {what}")
    if not boxes:
        return Text((f"{sentence('; '.join(left_out))} There is nothing to plot.",))
    description = " ".join(sentence("; ".join(part)) for part in (told, left_out) if part)
    if ends is None:
        ends = (0.0, 1.05 * max(mark.value for box in boxes for mark in box.marks) or 1.0)
    caption = f"{title} of {what}".capitalize()
    height = 300 if len(boxes) == 1 else 380
    return box_figure(anchor, caption, description, boxes, value_title=title, value_range=ends, height=height)


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def first_anchor(unit: Unit, anchors: Mapping[str, str]) -> str:
    """The row of the first case of a unit that has one."""
    return next((anchors[name] for name in unit.cases if name in anchors), "")


# --- tables -----------------------------------------------------------------------------------------------------------


def group_table(result: ResultDocuments) -> Table:
    anchors = case_anchors(result)
    columns, paths = unit_columns(result)
    rows = [
        (Cell(unit.name, anchor=first_anchor(unit, anchors)), len(unit.cases), *unit_cells(unit, paths))
        for unit in result.groups[:ROWS_SHOWN]
    ]
    note = f"The first {ROWS_SHOWN:,} of {len(result.groups):,} groups." if len(result.groups) > ROWS_SHOWN else ""
    return Table(
        "groups",
        "Groups (patients); each leads to its first case",
        (Column("group"), Column("cases", 0), *columns),
        tuple(rows),
        note=note,
    )


def case_section(result: ResultDocuments, pictures: Mapping[str, str]) -> Section:
    """The table of cases. ``pictures``: anchors of the pictures of cases, by name."""
    anchors = case_anchors(result)
    columns, paths = unit_columns(result)
    rows = [
        (
            Cell(unit.name, anchor=pictures.get(unit.name, ""), name=anchors[unit.name]),
            *([unit.group] if result.are_grouped else []),
            *unit_cells(unit, paths),
        )
        for unit in result.cases
        if unit.name in anchors
    ]
    note = ""
    if len(rows) < len(result.cases):
        score = label_of(main_score(result))
        note += f"These are the {len(rows):,} of {len(result.cases):,} cases with the worst {score}."
    table = Table(
        "cases",
        "Counts and scores of cases",
        (Column("case"), *([Column("group")] if result.are_grouped else []), *columns),
        tuple(rows),
        note=note.strip(),
    )
    return Section("cases-section", "Cases", (table,))


def unit_columns(result: ResultDocuments) -> tuple[list[Column], list[str]]:
    """Columns of counts and scores of units, and the paths of the scores."""
    paths = [path for path in COLUMNS if result.has(path)]
    paired = result.cases and "true_positives" in result.cases[0].counts
    counts = (
        [Column("matched", 0), Column("missed", 0), Column("spurious", 0)]
        if paired
        else [Column("in the reference", 0), Column("predicted", 0)]
    )
    digits = {path: 2 if is_lower_better(path) else 3 for path in paths}
    return [*counts, *(Column(label_of(path), digits[path], path) for path in paths)], paths


def unit_cells(unit: Unit, paths: Sequence[str]) -> list[Cell | float | int | str | None]:
    counts = unit.counts
    if "true_positives" in counts:
        numbers = [counts["true_positives"], counts["false_negatives"], counts["false_positives"]]
    else:
        numbers = [sum(counts["reference"]), sum(counts["prediction"])]
    cells: list[Cell | float | int | str | None] = [*numbers]
    if not unit.submitted:
        cells[0] = Cell(numbers[0], text=f"{numbers[0]} (not all submitted)", tone="warning")
    return [*cells, *(unit.value(path) for path in paths)]


# --- what is traded for what ------------------------------------------------------------------------------------------


def trade_section(result: ResultDocuments) -> Section:
    """Precision against recall, and SQ against RQ, of each group."""
    units, what = (result.groups, "group") if result.are_grouped else (result.cases, "case")
    blocks: list[Block] = []
    for figure in (precision_recall(result, units, what), quality_parts(result, units, what)):
        if figure is not None:
            blocks.append(figure)
    if not blocks:
        blocks.append(Text((f"No {what} has both numbers of a pair, so there is nothing to plot.",)))
    lead = "Equal F1 and equal PQ come about in different ways; the thin lines join points of equal value."
    return Section("trade-section", "What is traded for what", tuple(blocks), lead)


def unit_dots(
    result: ResultDocuments, units: Sequence[Unit], x: str, y: str, labels: tuple[str, str, str], product: str
) -> tuple[Dot, ...]:
    """A dot for each unit that has both values; ``product`` is a third score told on hover."""
    anchors = case_anchors(result)
    dots = []
    for unit in units:
        left, right, third = unit.value(x), unit.value(y), unit.value(product)
        if left is not None and right is not None:
            values = zip(labels, (left, right, third), strict=True)
            told = [f"{name}: {shown_number(value)}" for name, value in values]
            dots.append(Dot(left, right, "\n".join([unit.name, *told]), first_anchor(unit, anchors)))
    return tuple(dots[:: -(-len(dots) // POINTS_SHOWN) or 1])


def precision_recall(result: ResultDocuments, units: Sequence[Unit], what: str) -> Figure | None:
    x, y, f1 = "detection.recall", "detection.precision", "detection.f1"
    dots = unit_dots(result, units, x, y, ("recall", "precision", "F1"), f1)
    if not dots:
        return None
    above = sum(float(dot.y or 0) > float(dot.x) for dot in dots)
    figure = scatter_figure(
        "precision-recall",
        f"Precision and recall of finding, a point for each {what}",
        "Lower right: too many predictions; upper left: too few. "
        f"Of {len(dots)} points {above} have more precision than recall.",
        [Series(f"{what}s", dots, "@accent")],
        x_title="recall",
        y_title="precision",
        height=440,
    )
    return with_isolines(figure, "F1", dots, lambda f1, x: f1 * x / (2 * x - f1), lambda f1: f1 / (2 - f1))


def quality_parts(result: ResultDocuments, units: Sequence[Unit], what: str) -> Figure | None:
    """SQ against RQ: all nuclei together, and each class by itself; in both PQ is exactly the product."""
    tables = [("classes ignored", "panoptic.binary", "@accent")]
    if 1 < len(result.classes) <= CLASSES_SHOWN:
        tables += [(name, f"panoptic.per_class.{name}", series_colour(i)) for i, name in enumerate(result.classes)]
    series = []
    for name, table, colour in tables:
        dots = unit_dots(result, units, f"{table}.rq", f"{table}.sq", ("RQ", "SQ", "PQ"), f"{table}.pq")
        if dots:
            series.append(Series(name, dots, colour))
    if not series:
        return None
    figure = scatter_figure(
        "rq-sq",
        f"RQ (F1 of finding) and SQ (mean IoU of matched pairs), a point for each {what}",
        f"{len(series[0].dots)} points with classes ignored, where PQ is exactly the product of the two; so it is "
        "for each class by itself, but not for their mean, which is the PQ of the tables."
        + (" Click a name of the legend to show a class." if len(series) > 1 else ""),
        series,
        x_title="RQ",
        y_title="SQ",
        height=460,
    )
    shown = [{**trace, "visible": True if place == 0 else "legendonly"} for place, trace in enumerate(figure.traces)]
    figure = replace(figure, traces=tuple(shown))
    dots = tuple(dot for one in series for dot in one.dots)
    return with_isolines(figure, "PQ", dots, lambda pq, x: pq / x, lambda pq: pq)


def with_isolines(
    figure: Figure,
    name: str,
    dots: Sequence[Dot],
    at: Callable[[float, float], float],
    first: Callable[[float], float],
) -> Figure:
    """The plot with lines of equal value, and axes that begin a little below its dots.

    at     y of a line by its value and x; ``first`` its least x, where y is 1
    """
    low = max(0.0, math.floor(20 * min(min(float(dot.x), float(dot.y or 0)) for dot in dots) - 0.5) / 20)
    step = 0.1 if low < 0.6 else 0.05 if low < 0.85 else 0.02
    lines, labels = [], []
    for value in (round(step * place, 2) for place in range(1, round(1 / step))):
        start = max(first(value), low, 0.01)
        xs = [start + (1 - start) * part / 40 for part in range(41)]
        ys = [at(value, x) for x in xs]
        if ys[-1] > low:
            lines.append(curve_trace("", xs, ys, colour="@line", dash="dot"))
            label = {"x": 1, "y": ys[-1], "text": f"{name} {value:g}", "showarrow": False}
            labels.append({**label, "xanchor": "right", "yanchor": "bottom", "font": {"size": 11, "color": "@muted"}})
    ends: dict[str, Any] = {
        key: {**figure.layout[key], "range": [low, 1 + 0.04 * (1 - low)]} for key in ("xaxis", "yaxis")
    }
    hidden = [{**line, "showlegend": False} for line in lines]
    return replace(figure, traces=(*figure.traces, *hidden), layout={**figure.layout, **ends, "annotations": labels})
