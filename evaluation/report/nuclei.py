"""The nuclei of objects.csv on a page: IoU by size, F1 by IoU threshold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluation.findings import counted
from evaluation.model import Float64, Int64
from evaluation.report.listing import in_percent, table_of
from evaluation.report.page import Axis, Block, Column, Dot, Figure, Section, Series, Table, Text, Value
from evaluation.report.plots import plot, series_colour
from evaluation.report.result import ResultDocuments

POINTS_SHOWN = 500
CLASSES_SHOWN = 8
SIZE_BINS = 10
TOP = 1.01  # of axes of IoU, so that points at 1 are seen whole
THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))
OUTCOMES = ("matched", "missed", "spurious")


@dataclass(frozen=True, slots=True, eq=False)
class NucleusTable:
    """objects.csv under one matching rule.

    outcome          int64 (R,), index in ``OUTCOMES``
    classes          names; ``reference_class`` int64 (R,) is an index in them, -1: no reference nucleus
    reference_area   float64 (R,) px, NaN: none
    measures         float64 (R,) by the name of the measure, NaN: not measured
    cases            names; ``case`` int64 (R,) is an index in them. This and what follows is for the browser
    prediction_class, prediction_area   as those of the reference
    reference_id, prediction_id         texts, (R,)
    """

    outcome: Int64
    classes: tuple[str, ...]
    reference_class: Int64
    reference_area: Float64
    measures: Mapping[str, Float64]
    cases: tuple[str, ...] = ()
    case: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    prediction_class: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    prediction_area: Float64 = field(default_factory=lambda: np.empty(0))
    reference_id: Sequence[str] = ()
    prediction_id: Sequence[str] = ()

    def of_case(self, name: str) -> NucleusTable:
        """The rows of one case."""
        rows = np.flatnonzero(self.case == (self.cases.index(name) if name in self.cases else -1))
        arrays = ("outcome", "reference_class", "reference_area", "prediction_class", "prediction_area")
        ids = ("reference_id", "prediction_id")
        of_rows = {key: getattr(self, key)[rows] for key in arrays}
        of_rows |= {key: [getattr(self, key)[row] for row in rows.tolist()] for key in ids}
        measures = {key: values[rows] for key, values in self.measures.items()}
        return replace(self, cases=(name,), case=np.zeros(len(rows), np.int64), measures=measures, **of_rows)

    def count(self, outcome: str) -> int:
        return int(np.count_nonzero(self.outcome == OUTCOMES.index(outcome)))

    def pairs_with(self, *measures: str) -> Int64:
        """The rows of matched pairs for which all of these are known."""
        known = self.outcome == 0
        for name in measures:
            known &= np.isfinite(self.measures.get(name, np.full(len(known), np.nan)))
        return np.flatnonzero(known)


def spread_sample(values: Float64, size: int) -> Int64:
    """Indices of at most ``size`` values, evenly spread over their ranks: the same each time, the extremes among them.

    >>> spread_sample(np.array([5.0, 1.0, 3.0, 2.0, 4.0]), 3).tolist()
    [1, 2, 0]
    """
    order = np.argsort(values, kind="stable")
    if len(order) <= size:
        return order
    return order[np.linspace(0, len(order) - 1, size).round().astype(np.int64)]


def disc_iou(area: Float64 | np.float64) -> Float64:
    """IoU of discs of an area and the same discs drawn one pixel too small all around, (1 - 1/r)².

    >>> disc_iou(math.pi * np.array([100.0, 1.0, 0.0])).round(2).tolist()
    [0.81, 0.0, 0.0]
    """
    radius = np.sqrt(np.maximum(area, math.pi) / math.pi)
    return np.asarray((1 - 1 / radius) ** 2)


# --- size -------------------------------------------------------------------------------------------------------------


def size_section(nuclei: NucleusTable) -> Section:
    """IoU against area, and the same in tenths."""
    lead = (
        "A pixel costs a small nucleus more than a large one. The dashed line is the IoU of a disc of that area "
        "that is drawn one pixel too small all around: nuclei on it lose by their size, those below it by more."
    )
    pairs = nuclei.pairs_with("iou")
    pairs = pairs[np.isfinite(nuclei.reference_area[pairs])]
    if len(pairs) == 0:
        words = "There is no matched pair of outlines with an area and an IoU, so there is nothing to plot."
        return Section("size", "How much of it is size", (Text((words,)),))
    blocks: list[Block] = [area_figure(nuclei, pairs), size_table(nuclei)]
    return Section("size", "How much of it is size", tuple(blocks), lead)


def area_figure(nuclei: NucleusTable, pairs: Int64) -> Figure:
    area, iou = nuclei.reference_area[pairs], nuclei.measures["iou"][pairs]
    shown = pairs[spread_sample(area, POINTS_SHOWN)]
    tenths = [(len(of), float(np.median(area[of])), float(np.median(iou[of]))) for of in size_bins(area)]
    medians = tuple(Dot(x, y, counted(n, "nucleus", "nuclei")) for n, x, y in tenths)
    areas = np.geomspace(max(area.min(), 1.0), max(area.max(), 2.0), 40)
    disc = tuple(map(Dot, areas.tolist(), disc_iou(areas).tolist()))
    return plot(
        "iou-by-area",
        "IoU of matched pairs by the area of the reference nucleus",
        f"A pair loses {1 - iou.mean():.3f} of IoU in the mean; discs of the same areas that are drawn one pixel too "
        f"small would lose {1 - disc_iou(area).mean():.3f}. The median IoU is {tenths[0][2]:.3f} among the smallest "
        f"tenth of the nuclei and {tenths[-1][2]:.3f} among the largest. The line of medians is of "
        f"{every_pair(pairs)}; {sample_words(len(shown), len(pairs))}.",
        [
            *class_series(nuclei, shown, "reference_area", "iou"),
            Series("disc, one pixel too small", disc, "@muted", dash="dash", is_curve=True),
            Series("median of each tenth", medians, "@ink", "lines", "solid"),
        ],
        x=Axis("area of the reference nucleus, px (logarithmic)", is_log=True),
        y=Axis("IoU", (lower_end(iou), TOP)),
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
        parts = [(name, rows[of_row == index]) for index, name in enumerate(nuclei.classes)]
    found = []
    for index, (name, part) in enumerate(parts):
        values = zip(columns[x][part].tolist(), columns[y][part].tolist(), strict=True)
        found.append(Series(name, tuple(Dot(*value) for value in values), series_colour(index)))
    return [one for one in found if one.dots]


def size_bins(area: Float64) -> list[Int64]:
    """The indices of nuclei in each tenth by size; equal ones stay together, so there may be fewer parts."""
    if len(area) == 0:
        return []
    order = np.argsort(area, kind="stable")
    ascending = area[order]
    starts = len(order) * np.arange(SIZE_BINS) // SIZE_BINS
    return np.split(order, np.unique(np.searchsorted(ascending, ascending[starts]))[1:])


def size_table(nuclei: NucleusTable) -> Table:
    """Reference nuclei in tenths by size: the share that is matched, and the median IoU of these."""
    rows = np.flatnonzero((nuclei.outcome < 2) & np.isfinite(nuclei.reference_area))
    parts = [rows[members] for members in size_bins(nuclei.reference_area[rows])]

    def areas(part: Int64) -> Float64:
        return nuclei.reference_area[part]

    def matched(part: Int64) -> Value:
        return in_percent(float(np.mean(nuclei.outcome[part] == 0)))

    def median_iou(part: Int64) -> float | None:
        iou = nuclei.measures["iou"][part[nuclei.outcome[part] == 0]]
        known = iou[np.isfinite(iou)]
        return float(np.median(known)) if len(known) else None

    return table_of(
        "size-table",
        "All reference nuclei in tenths by size",
        parts,
        Column("area, px", of=lambda part: f"{areas(part).min():,.0f} to {areas(part).max():,.0f}"),
        Column("matched, %", 1, "share of the nuclei", matched),
        Column("median IoU", 3, "of those matched", median_iou),
        Column("disc, one pixel too small", 3, "at the median area", lambda of: disc_iou(np.median(areas(of))).item()),
        Column("nuclei", 0, of=len),
        sortable=False,
    )


def every_pair(pairs: Int64) -> str:
    return "the only pair" if len(pairs) == 1 else f"all {len(pairs):,} pairs"


def sample_words(shown: int, known: int) -> str:
    return "all are drawn" if shown == known else f"{shown:,} are drawn, evenly spread over the ranks"


# --- thresholds -------------------------------------------------------------------------------------------------------


def threshold_section(result: ResultDocuments, nuclei: NucleusTable | None) -> Section | None:
    """F1 and threat score against the IoU threshold: as scored if metrics.json has them, else from matched pairs."""
    lead = "How many matches would be left at a higher IoU threshold?"
    if curves := measured_at_thresholds(result):
        words = f"Nuclei are matched anew at each threshold; {result.main.replace('_', ' ')}."
    elif nuclei is None or len(pairs := nuclei.pairs_with("iou")) == 0:
        return None
    else:
        start = float(result.rules["matching"]["rules"][0].get("threshold") or 0)  # the rule makes no pair up to it
        if start > THRESHOLDS[-1]:
            return None
        curves = scores_of_pairs(nuclei, pairs, start)
        words = (
            f"Of {every_pair(pairs)} that the rule '{result.rule}' made, those with an IoU (rounded to six "
            "decimals) above the threshold count as matched, all others as missed and spurious; all cases pooled. No "
            "nucleus is matched anew."
            + (f" The rule itself makes no pair up to {start:g}, so the curve begins there." if start else "")
        )
    return Section("thresholds", "Score against threshold", (threshold_figure(curves, words),), lead)


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
        # "iou72_5" is 0.725, "iou50_95" a mean over a range: the rules say which, else the number of digits
        if threshold in known if known is not None else len(after) <= 2:
            found.setdefault(match[1].replace("_", " ").replace("f1", "F1"), []).append((threshold, value))
    return {name: sorted(points) for name, points in found.items()}


def scores_of_pairs(nuclei: NucleusTable, pairs: Int64, start: float) -> dict[str, list[tuple[float, float]]]:
    iou = np.sort(nuclei.measures["iou"][pairs])
    references = nuclei.count("matched") + nuclei.count("missed")
    predictions = nuclei.count("matched") + nuclei.count("spurious")
    found: dict[str, list[tuple[float, float]]] = {"F1": [], "threat score": []}
    for threshold in (threshold for threshold in THRESHOLDS if threshold >= start):
        left = len(iou) - int(np.searchsorted(iou, threshold, side="right"))
        found["F1"].append((threshold, 2 * left / (references + predictions)))
        found["threat score"].append((threshold, left / (references + predictions - left)))
    return found


def threshold_figure(curves: Mapping[str, Sequence[tuple[float, float]]], how: str) -> Figure:
    series = [
        Series(name, tuple(Dot(*point) for point in points), series_colour(index), "lines")
        for index, (name, points) in enumerate(curves.items())
    ]
    first = next(iter(curves))
    (low, best), (high, least) = curves[first][0], curves[first][-1]
    return plot(
        "score-by-threshold",
        "Scores by the IoU that a pair must exceed",
        f"{first} is {best:.3f} at an IoU above {low:g} and {least:.3f} above {high:g}. {how}",
        series,
        x=Axis("IoU that a pair must exceed", (max(0.0, low - 0.05), 1.0)),
        y=Axis("score", (0, 1.02)),
    )
