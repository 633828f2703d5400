"""The plots of the papers: scores of each patient by team, agreement of metrics, and matched outlines by size.

Foucart et al., Evaluating participating methods in image analysis challenges: lessons from MoNuSAC 2020, Fig. 5 and 6;
Foucart et al., Panoptic quality should be avoided, Fig. 3 and 5; Hirling et al., Segmentation metric variants, Fig. 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from evaluation.board.titles import metric_title
from evaluation.findings import counted, percent
from evaluation.report.figures import MARKS_UP_TO, SYMBOLS_UP_TO, series_colour
from evaluation.report.nuclei import NucleusTable
from evaluation.report.page import Axis, Dot, Figure, Section, Series
from evaluation.report.result import ResultDocuments, Unit, is_lower_better
from nuclei_metrics.model import Bool, Float64
from nuclei_metrics.ranking.stability import kendall_tau

# --- scores of each patient -------------------------------------------------------------------------------------------


RESULTS_UP_TO = 8  # in a plot: as many as there are colours
PATIENT, MEAN = 0.05, 0.12  # sizes of dots
PAIRS_OF_SCORES = (  # the first that a result has is drawn: anchor, caption, x, y
    ("quality", "Segmentation quality and recognition quality", "panoptic.rq", "panoptic.sq"),
    ("quality", "Segmentation quality and recognition quality", "panoptic.binary.rq", "panoptic.binary.sq"),
    ("precision-recall", "Precision and recall of detection", "detection.recall", "detection.precision"),
)
NAMES_OF_AXES = {"panoptic.rq": "RQ (DQ)", "panoptic.binary.rq": "RQ (DQ) without classes"}


def scatter_section(
    results: Mapping[str, ResultDocuments], unit: str, names: Sequence[str] | None = None
) -> list[Section]:
    """Plot SQ against RQ and precision against recall, a dot for each unit of each result; nothing without details.

    results  by name, leading results first; ``unit``: the unit of a dot, such as "patient"
    names    of the units in order, if hidden; None: as in details.json
    """
    known = {name: result for name, result in results.items() if result.details is not None}
    shown = dict(list(known.items())[:RESULTS_UP_TO])
    figures: dict[str, Figure] = {}
    for anchor, caption, x, y in PAIRS_OF_SCORES:
        if anchor not in figures and any(result.has(x) and result.has(y) for result in shown.values()):
            figures[anchor] = _scatter_figure(anchor, f"{caption} of each {unit}", x, y, shown, names)
    if not any(len(one.dots) for figure in figures.values() for one in figure.series):
        return []
    lead = f"A dot is one {unit}; a symbol is the mean of a result, as in its metrics.json."
    lead += f" The first {len(shown)} of {len(known)} results." * (len(known) > len(shown))
    return [Section("scatter", f"Scores of each {unit} in pairs", (*figures.values(),), lead)]


def _value_in_mean(result: ResultDocuments, unit: Unit, path: str) -> float | None:
    """Return the value of a unit as it enters the mean: 0 if it is undefined although there are reference nuclei."""
    value = unit.value(path)
    has_nuclei = bool(unit.counts.get("true_positives") or unit.counts.get("false_negatives"))
    return 0.0 if value is None and has_nuclei and result.rules["aggregation"]["undefined"] == "worst" else value


def _scatter_figure(
    anchor: str, caption: str, x: str, y: str, results: Mapping[str, ResultDocuments], names: Sequence[str] | None
) -> Figure:
    """Draw two scores of each unit against each other, and their means on top."""
    titles = [NAMES_OF_AXES.get(path, metric_title(path).removeprefix("detection ")) for path in (x, y)]
    means, dots = [], []
    for index, (name, result) in enumerate(results.items()):
        mean_x, mean_y = (result.value(f"{path}.group_mean") for path in (x, y))
        texts = [unit.name for unit in result.groups] if names is None else [*names, *[""] * len(result.groups)]
        places = []
        for text, unit in zip(texts, result.groups, strict=False):
            value_x, value_y = (_value_in_mean(result, unit, path) for path in (x, y))
            if value_x is not None and value_y is not None:
                places.append(Dot(value_x, value_y, text, size=PATIENT))
        places = places[:: 1 + len(places) * len(results) // MARKS_UP_TO]
        dots.append(Series(name, places, series_colour(index), "discs"))
        if mean_x is not None and mean_y is not None:
            label = f"{name}: {mean_x:.3f}, {mean_y:.3f}"
            means.append(Series(label, [Dot(mean_x, mean_y, "mean", size=MEAN)], series_colour(index)))
    words = f"Means, {titles[0]} and {titles[1]}: {'; '.join(one.name for one in means)}."
    return Figure(anchor, caption, words, [*means, *dots], x=Axis(titles[0]), y=Axis(titles[1]))


# --- agreement of metrics on the order of teams -----------------------------------------------------------------------


METRICS_UP_TO = 14
FEWEST_TEAMS = 3
ORDERING = (
    "detection.f1.pooled", "detection.f1", "detection.macro_f1", "thresholds.threat_score_iou50_95",
    "thresholds.f1_iou50_95", "thresholds.f1_iou75", "thresholds.f1_iou90", "panoptic.pq.pooled", "panoptic.pq",
    "panoptic.binary.pq", "panoptic.sq", "panoptic.rq", "classification.balanced_accuracy", "segmentation.iou",
    "segmentation.hausdorff_px", "covered.class_f1", "covered.surface_dice", "overlap.aji",
    "counting.mean_absolute_error",
)  # fmt: skip


def correlation_figure(
    results: Mapping[str, ResultDocuments], ranked: Sequence[str], aggregation: str
) -> Figure | None:
    """Draw Kendall's tau between metrics over the teams of a board; None for fewer than three teams or two metrics.

    ranked  paths of the columns of the ranking, shown first; ``aggregation``: of the other metrics
    """
    paths = dict.fromkeys(
        [*ranked, *(path if path.endswith("pooled") else f"{path}.{aggregation}" for path in ORDERING)]
    )
    values: dict[str, Float64] = {}
    for path in paths:
        column = np.array(
            [value if (value := result.value(path)) is not None else math.nan for result in results.values()]
        )
        if np.isfinite(column).sum() >= FEWEST_TEAMS and len(np.unique(column[np.isfinite(column)])) > 1:
            title = metric_title(path) + ", pooled" * (path.endswith(".pooled") and aggregation != "pooled")
            values.setdefault(title, -column if is_lower_better(path.rpartition(".")[0]) else column)
    names = list(values)[:METRICS_UP_TO]
    if len(names) < 2:
        return None
    taus = [(a, b, float(kendall_tau(values[a], values[b]))) for a, b in combinations(names, 2)]
    known = [(a, b, tau) for a, b, tau in taus if not math.isnan(tau)]
    alike = [Dot(a, b, f"tau {tau:.2f}", size=tau) for a, b, tau in known if tau >= 0]
    turned = [Dot(a, b, f"tau {tau:.2f}", size=-tau) for a, b, tau in known if tau < 0]
    frame = [Dot(name, name, "the same metric", size=0.0) for name in names]  # every metric has its row and column
    least = min(known, key=lambda one: one[2], default=None)
    words = f"Kendall’s tau-b of the orders of {counted(len(results), 'team')} by two metrics, the better team first. "
    words += "The area of a disc is its size; discs in the second colour are below 0."
    words += f" The lowest is {least[2]:.2f}: {least[0]} and {least[1]}." if least else ""
    series = [Series("", frame, "@line", "discs"), Series("same order", alike, "@accent", "discs")]
    series += [Series("reversed order", turned, "@missed", "discs")] if turned else []
    return Figure("metric-agreement", "How metrics agree on the order of the teams", words, series)


# --- matched outlines: agreement of annotators ------------------------------------------------------------------------


MODELS_UP_TO = 4  # with two plots each
BINS = 8
CLOSE_PX = 3  # the line of the paper: about 0.75 um
FEWEST_PAIRS = 3  # of a fit


class _LogLinearFit(NamedTuple):
    """Least squares of ln(distance) = intercept + slope * IoU; ``pairs`` with a distance above 0 that it rests on."""

    slope: float
    intercept: float
    pairs: int


def log_linear_fit(iou: Float64, distance_px: Float64) -> _LogLinearFit | None:
    """Fit a log-linear regression of distances on IoU, each (N,); None for fewer than three pairs, or one IoU alone.

    Pairs with a distance of 0 have no logarithm and are omitted.

    >>> log_linear_fit(np.array([0.0, 0.5, 1.0, 1.0]), np.exp([2.0, 1.0, 0.0, -np.inf])).slope.round(6).item()
    -2.0
    """
    known: Bool = np.isfinite(iou) & np.isfinite(distance_px) & (distance_px > 0)
    x, y = iou[known], np.log(distance_px[known])
    if len(x) < FEWEST_PAIRS or np.ptp(x) == 0:
        return None
    slope = ((x - x.mean()) @ (y - y.mean())) / ((x - x.mean()) @ (x - x.mean()))
    return _LogLinearFit(slope, y.mean() - slope * x.mean(), len(x))


def outline_section(nuclei: Mapping[str, NucleusTable | None], rule: str) -> list[Section]:
    """Plot the IoU of matched pairs by area, and their Hausdorff distance against IoU; nothing without such pairs.

    nuclei  of each model, or of a second annotator to show agreement; ``rule``: the matching rule, in words
    """
    figures: list[Figure] = []
    for index, (name, table) in enumerate(nuclei.items()):
        if table is None or index >= MODELS_UP_TO or "iou" not in table.measures:
            continue
        pairs = table.outcome == 0
        iou = table.measures["iou"][pairs]
        area = table.reference_area[pairs]
        distance = table.measures.get("hausdorff_px", np.full(len(table.outcome), np.nan))[pairs]
        model = f", {name}" * (len(nuclei) > 1)
        figures += [_area_figure(f"iou-by-area-{index + 1}", model, area, iou)] if np.isfinite(iou).any() else []
        has_both = np.isfinite(iou) & np.isfinite(distance)
        if has_both.any():
            figures.append(_distance_figure(f"iou-by-hausdorff-{index + 1}", model, iou[has_both], distance[has_both]))
    lead = f"Matched pairs: {rule}. If the prediction is a second annotator, this is the agreement of annotators."
    return [Section("outlines", "Outlines of matched nuclei", tuple(figures), lead, folded=True)] if figures else []


def _area_figure(anchor: str, model: str, area: Float64, iou: Float64) -> Figure:
    """Draw the IoU of pairs in parts of equal numbers by the area of the reference nucleus, as box plots."""
    known = np.flatnonzero(np.isfinite(area) & np.isfinite(iou))
    order = known[np.argsort(area[known], kind="stable")]
    parts = [part for part in np.array_split(order, min(BINS, max(1, len(order) // 5))) if len(part)]
    names = [f"{area[part[0]]:,.0f} to {area[part[-1]]:,.0f}" for part in parts]
    boxes = [
        Series(name, [Dot(name, value) for value in iou[part].tolist()], "@accent", "boxes")
        for name, part in zip(names, parts, strict=True)
    ]
    medians = [float(np.median(iou[part])) for part in parts]
    words = f"Median IoU {medians[0]:.3f} of the smallest nuclei ({names[0]} px), {medians[-1]:.3f} of the largest "
    words += f"({names[-1]} px); {counted(len(order), 'pair')}."
    return Figure(anchor, f"IoU by area{model}", words, boxes, x=Axis("area of the reference nucleus, px"),
                  y=Axis("IoU", (0, 1.02)))  # fmt: skip


def _distance_figure(anchor: str, model: str, iou: Float64, distance: Float64) -> Figure:
    """Draw the Hausdorff distance of pairs against their IoU, with the log-linear fit and a line at 3 px."""
    dots = [Dot(x, y) for x, y in zip(iou.tolist(), distance.tolist(), strict=True)]
    close = Series(f"{CLOSE_PX} px", [Dot(0.0, CLOSE_PX), Dot(1.0, CLOSE_PX)], "@muted", "lines")
    series = [Series("pairs", dots), close]
    share = float(np.mean(distance <= CLOSE_PX))
    words = f"{percent(share)} of {counted(len(dots), 'pair')} are within {CLOSE_PX} px; "
    words += f"median distance {np.median(distance):.2f} px."
    if (fit := log_linear_fit(iou, distance)) is not None:
        ends = np.linspace(iou.min(), iou.max(), SYMBOLS_UP_TO + 1)
        line = [
            Dot(x, y) for x, y in zip(ends.tolist(), np.exp(fit.intercept + fit.slope * ends).tolist(), strict=True)
        ]
        series.insert(1, Series("log-linear fit", line, "@missed", "lines"))
        words += f" Fit: ln(distance) = {fit.intercept:.3f} {'−' if fit.slope < 0 else '+'} {abs(fit.slope):.3f} IoU"
        words += f" ({counted(fit.pairs, 'pair')} above 0 px)."
    return Figure(anchor, f"Hausdorff distance against IoU{model}", words, series, x=Axis("IoU", (0, 1.02)),
                  y=Axis("Hausdorff distance, px"))  # fmt: skip
