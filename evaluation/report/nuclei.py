"""The nuclei of objects.csv on a page: how IoU hangs on size, Hausdorff distance on IoU, F1 on the IoU asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.model import Float64, Int64
from evaluation.report.figures import Dot, Series, line_figure, scatter_figure, series_colour, shown_number
from evaluation.report.page import Block, Column, Figure, Section, Table, Text
from evaluation.report.result import ResultDocuments

POINTS_SHOWN = 2000
CLASSES_SHOWN = 8
SIZE_BINS = 10
TOP = 1.01  # of axes of IoU, so that points at 1 are seen whole
THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))
OUTCOMES = ("matched", "missed", "spurious")


@dataclass(frozen=True, slots=True, eq=False)
class NucleusTable:
    """objects.csv under one matching rule.

    outcome          int64 (R,), place in ``OUTCOMES``
    classes          names; ``reference_class`` int64 (R,) is a place in them, -1: no reference nucleus
    reference_area   float64 (R,) px, NaN: none
    measures         by name, float64 (R,), NaN: none
    """

    outcome: Int64
    classes: tuple[str, ...]
    reference_class: Int64
    reference_area: Float64
    measures: Mapping[str, Float64]

    def count(self, outcome: str) -> int:
        return int(np.count_nonzero(self.outcome == OUTCOMES.index(outcome)))

    def pairs_with(self, *measures: str) -> Int64:
        """The rows of matched pairs for which all of these are known."""
        known = self.outcome == 0
        for name in measures:
            known &= np.isfinite(self.measures.get(name, np.full(len(known), np.nan)))
        return np.flatnonzero(known)


def spread_sample(values: Float64, size: int) -> Int64:
    """Places of at most ``size`` values, evenly spread over their ranks: the same each time, the extremes among them.

    >>> spread_sample(np.array([5.0, 1.0, 3.0, 2.0, 4.0]), 3).tolist()
    [1, 2, 0]
    """
    order = np.argsort(values, kind="stable")
    if len(order) <= size:
        return order
    return order[np.linspace(0, len(order) - 1, size).round().astype(np.int64)]


def disc_iou(area: Float64) -> Float64:
    """IoU of discs of an area and the same discs drawn one pixel too small all around, (1 - 1/r)².

    >>> disc_iou(math.pi * np.array([100.0, 1.0, 0.0])).round(2).tolist()
    [0.81, 0.0, 0.0]
    """
    radius = np.sqrt(np.maximum(area, math.pi) / math.pi)
    return np.asarray((1 - 1 / radius) ** 2)


# --- size -------------------------------------------------------------------------------------------------------------


def size_section(nuclei: NucleusTable) -> Section:
    """IoU against area, and Hausdorff distance against IoU."""
    lead = (
        "A pixel costs a small nucleus more than a large one. The dashed line is what a disc of that area would have "
        "if it were drawn one pixel too small all around: nuclei on it lose by their size, those below it by more."
    )
    pairs = nuclei.pairs_with("iou")
    pairs = pairs[np.isfinite(nuclei.reference_area[pairs])]
    if len(pairs) == 0:
        words = "There is no matched pair of outlines with an area and an IoU, so there is nothing to plot."
        return Section("size", "How much of it is size", (Text((words,)),))
    blocks: list[Block] = [area_figure(nuclei, pairs), size_table(nuclei)]
    distance = next((name for name in ("hausdorff_px", "hausdorff_um") if name in nuclei.measures), None)
    if distance is not None and len(both := nuclei.pairs_with("iou", distance)):
        blocks.append(distance_figure(nuclei, both, distance))
    return Section("size", "How much of it is size", tuple(blocks), lead)


def area_figure(nuclei: NucleusTable, pairs: Int64) -> Figure:
    area, iou = nuclei.reference_area[pairs], nuclei.measures["iou"][pairs]
    shown = pairs[spread_sample(area, POINTS_SHOWN)]
    bins = size_bins(area)
    middles = [float(np.median(area[members])) for members in bins]
    medians = [float(np.median(iou[members])) for members in bins]
    curve = np.geomspace(max(area.min(), 1.0), max(area.max(), 2.0), 40)
    typical = [
        f"{len(members):,} nuclei around {x:g} px\nmedian IoU {shown_number(y)}"
        for x, y, members in zip(middles, medians, bins, strict=True)
    ]
    discs = curve_trace(
        "disc, one pixel too small", curve.tolist(), disc_iou(curve).tolist(), colour="@muted", dash="dash"
    )
    figure = scatter_figure(
        "iou-by-area",
        "IoU of matched pairs by the area of the reference nucleus",
        f"A pair loses {1 - iou.mean():.3f} of IoU in the mean; discs of the same areas that are drawn one pixel too "
        f"small would lose {1 - disc_iou(area).mean():.3f}. The median IoU is {medians[0]:.3f} among the smallest "
        f"tenth of the nuclei and {medians[-1]:.3f} among the largest. The line of medians is of all {len(pairs):,} "
        f"pairs; {sample_words(len(shown), len(pairs))}.",
        class_series(nuclei, shown, "reference_area", "iou"),
        x_title="area of the reference nucleus, px (logarithmic)",
        y_title="IoU",
        y_range=(lower_end(iou), TOP),
        x_log=True,
        height=420,
    )
    median = curve_trace("median of each tenth", middles, medians, colour="@ink", texts=typical)
    layout = {**figure.layout, "showlegend": True}
    return replace(figure, traces=(*figure.traces, discs, median), layout=layout)


def distance_figure(nuclei: NucleusTable, pairs: Int64, distance: str) -> Figure:
    iou, far = nuclei.measures["iou"][pairs], nuclei.measures[distance][pairs]
    shown = pairs[spread_sample(far, POINTS_SHOWN)]
    unit = distance[-2:]
    return scatter_figure(
        "hausdorff-by-iou",
        "Hausdorff distance of matched pairs by their IoU",
        "High up on the right: the area agrees, but somewhere the outline strays. "
        f"Over all {len(pairs):,} pairs the median IoU is {np.median(iou):.3f}, the median distance "
        f"{np.median(far):.2f} {unit}, the largest {far.max():.2f} {unit}; {sample_words(len(shown), len(pairs))}.",
        class_series(nuclei, shown, "iou", distance),
        x_title="IoU",
        y_title=f"Hausdorff distance, {unit}",
        x_range=(lower_end(iou), TOP),
        height=420,
    )


def lower_end(values: Float64) -> float:
    """Where an axis begins whose values end at 1: a little below the lowest one.

    >>> lower_end(np.array([0.63, 0.9]))
    0.6
    """
    return max(0.0, math.floor(20 * float(values.min()) - 0.2) / 20)


def class_series(nuclei: NucleusTable, rows: Int64, x: str, y: str) -> list[Series]:
    """The marks of nuclei, a series for each class, or one if there are too many."""
    columns = {"reference_area": nuclei.reference_area, **nuclei.measures}
    of_row = nuclei.reference_class[rows]
    parts = [("nuclei", rows)]
    if 1 < len(nuclei.classes) <= CLASSES_SHOWN:
        parts = [(name, rows[of_row == place]) for place, name in enumerate(nuclei.classes)]
    found = []
    for index, (name, part) in enumerate(parts):
        values = zip(columns[x][part].tolist(), columns[y][part].tolist(), strict=True)
        found.append(Series(name, tuple(Dot(*value, size=5) for value in values), series_colour(index)))
    return [one for one in found if one.dots]


def size_bins(area: Float64) -> list[Int64]:
    """The places of nuclei in each tenth by size; equal ones stay together, so there may be fewer parts."""
    if len(area) == 0:
        return []
    order = np.argsort(area, kind="stable")
    ascending = area[order]
    starts = len(order) * np.arange(SIZE_BINS) // SIZE_BINS
    return np.split(order, np.unique(np.searchsorted(ascending, ascending[starts]))[1:])


def size_table(nuclei: NucleusTable) -> Table:
    """What becomes of reference nuclei of each tenth by size: found or missed, and the IoU of those found."""
    rows = np.flatnonzero((nuclei.outcome < 2) & np.isfinite(nuclei.reference_area))
    iou = nuclei.measures["iou"]
    lines = []
    for members in size_bins(nuclei.reference_area[rows]):
        part = rows[members]
        area, found = nuclei.reference_area[part], part[nuclei.outcome[part] == 0]
        known = iou[found][np.isfinite(iou[found])]
        lines.append(
            (
                f"{area.min():,.0f} to {area.max():,.0f}",
                len(part),
                100 * len(found) / len(part),
                float(np.median(known)) if len(known) else None,
                float(disc_iou(np.array(np.median(area)))),
            )
        )
    return Table(
        "size-table",
        "All reference nuclei in tenths by size",
        (
            Column("area, px"),
            Column("nuclei", 0),
            Column("found, %", 1, "share that has a matched prediction"),
            Column("median IoU", 3, "of those found"),
            Column("disc, one pixel too small", 3, "IoU of a disc of the median area, drawn one pixel too small"),
        ),
        tuple(lines),
        sortable=False,
    )


def sample_words(shown: int, known: int) -> str:
    return "all are drawn" if shown == known else f"{shown:,} are drawn, evenly spread over the ranks"


def curve_trace(
    name: str, x: Sequence[float], y: Sequence[float], *, colour: str, dash: str = "solid", texts: Sequence[str] = ()
) -> dict[str, Any]:
    """A line through points, of plotly; with texts it can be pointed at, and has a mark at each point."""
    trace = {
        "type": "scatter",
        "mode": "lines+markers" if texts else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "dash": dash, "width": 2},
        "hoverinfo": "text" if texts else "skip",
    }
    return {**trace, "hovertext": list(texts), "marker": {"color": colour, "size": 6}} if texts else trace


# --- thresholds -------------------------------------------------------------------------------------------------------


def threshold_section(result: ResultDocuments, nuclei: NucleusTable | None) -> Section | None:
    """F1 and threat score against the IoU that is asked for: those of the result, else those of its pairs."""
    measured = measured_at_thresholds(result)
    if measured:
        words = f"Found at each threshold by a pairing of its own; {result.main.replace('_', ' ')}."
        return Section("thresholds", "Score against threshold", (threshold_figure(measured, words),))
    if nuclei is None or len(pairs := nuclei.pairs_with("iou")) == 0:
        return None
    if (start := pairing_threshold(result)) > THRESHOLDS[-1]:
        return None
    words = (
        f"Of the {len(pairs):,} pairs that the rule '{result.rule}' made, those with an IoU (rounded to six decimals) "
        "above the threshold are counted as found, all others as missed and spurious; all cases pooled. No nucleus is "
        "paired anew."
        + (f" The rule itself makes no pair up to {start:g}, so the curve begins there." if start else "")
    )
    lead = "How much of what was found would be left if a better outline were asked for?"
    figure = threshold_figure(scores_of_pairs(nuclei, pairs, start), words)
    return Section("thresholds", "Score against threshold", (figure,), lead)


def measured_at_thresholds(result: ResultDocuments) -> dict[str, list[tuple[float, float]]]:
    """(threshold, score) of what the family ``thresholds`` of metrics.json holds, by the name of the score."""
    known = None if result.details is None else set(result.rules["metrics"]["iou_thresholds"])
    found: dict[str, list[tuple[float, float]]] = {}
    for path in result.paths:
        match = re.fullmatch(r"thresholds\.(f1|threat_score|precision|recall)_iou(\d+)(_\d+)?", path)
        value = result.value(f"{path}.{result.main}")
        if match is None or value is None:
            continue
        after = (match[3] or "").replace("_", ".")
        threshold = round(float(match[2] + after) / 100, 6)
        # "iou72_5" is 0.725, "iou50_95" a mean over a range: told apart by the rules, else by the number of digits
        if threshold in known if known is not None else len(after) <= 2:
            found.setdefault(match[1].replace("_", " ").replace("f1", "F1"), []).append((threshold, value))
    return {name: sorted(points) for name, points in found.items()}


def scores_of_pairs(nuclei: NucleusTable, pairs: Int64, start: float) -> dict[str, list[tuple[float, float]]]:
    iou = np.sort(nuclei.measures["iou"][pairs])
    references = nuclei.count("matched") + nuclei.count("missed")
    predictions = nuclei.count("matched") + nuclei.count("spurious")
    found: dict[str, list[tuple[float, float]]] = {"F1": [], "threat score": []}
    for threshold in THRESHOLDS:
        if threshold >= start:
            left = len(iou) - int(np.searchsorted(iou, threshold, side="right"))
            found["F1"].append((threshold, 2 * left / (references + predictions)))
            found["threat score"].append((threshold, left / (references + predictions - left)))
    return found


def pairing_threshold(result: ResultDocuments) -> float:
    """The IoU below which the first matching rule makes no pair; 0 if it does not ask for one."""
    return float(result.rules["matching"]["rules"][0].get("threshold") or 0)


def threshold_figure(curves: Mapping[str, Sequence[tuple[float, float]]], how: str) -> Figure:
    series = [
        Series(
            name,
            tuple(Dot(x, y, f"{name} above an IoU of {x:g}\n{shown_number(y)}") for x, y in points),
            series_colour(i),
        )
        for i, (name, points) in enumerate(curves.items())
    ]
    first = next(iter(curves))
    (low, best), (high, least) = curves[first][0], curves[first][-1]
    return line_figure(
        "score-by-threshold",
        "Scores by the IoU that a pair must exceed",
        f"{first} is {best:.3f} at an IoU above {low:g} and {least:.3f} above {high:g}. {how}",
        series,
        x_title="IoU that a pair must exceed",
        y_title="score",
        x_range=(max(0.0, low - 0.05), 1.0),
        y_range=(0, 1.02),
    )
