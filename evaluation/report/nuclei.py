"""The nuclei of a submission on its page: figures of matched pairs, and the browser, which draws them on the tissue."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evaluation.findings import counted
from evaluation.leaderboard.titles import metric_title
from evaluation.model import Bool, Float64, Int64, MatchCounts
from evaluation.report.figures import plot, series_colour
from evaluation.report.page import Axis, Block, Column, Dot, Figure, Section, Series, Table, Text, Value, Widget
from evaluation.report.result import ResultDocuments
from evaluation.report.scenes import Scene
from evaluation.report.tables import in_percent, table_of

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
            "decimals) above the threshold stay matched, all others become false negatives and false positives; all "
            "cases pooled. No nucleus is matched anew."
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


# --- quality against coverage -----------------------------------------------------------------------------------------


def coverage_section(result: ResultDocuments) -> Section | None:
    """A plot for the scores and one for each unit of the distances; None where details.json has no curves."""
    curves = result.details.get("coverage_curves") if result.details is not None else None
    if curves is None:
        return None
    found = curves["rules"].get(result.rule, {})
    known = {name: values for name, values in found.items() if None not in values}
    chosen = {name: of for name, of in known.items() if name.endswith("_class_mean")} or known
    blocks: list[Block] = []
    units = {name: name.removesuffix("_class_mean").rpartition("_")[2] for name in chosen}
    for unit in ("", "px", "um"):
        names = [name for name in chosen if (units[name] if units[name] in ("px", "um") else "") == unit]
        if not names:
            continue
        at = [curves["coverage"].index(share) for share in (0.5, 1.0)]
        ends = "; ".join(
            f"{metric_title(name)} {chosen[name][at[0]]:.3f} over the better half, {chosen[name][at[1]]:.3f} over all"
            for name in names
        )
        series = [
            Series(
                metric_title(name),
                tuple(map(Dot, curves["coverage"], chosen[name])),
                series_colour(index),
                "lines",
            )
            for index, name in enumerate(names)
        ]
        title = f"distance, {unit}" if unit else "score"
        words = "A false negative counts the worst value: where a curve bends, the nuclei that were found end."
        blocks.append(
            plot(
                f"coverage-{unit or 'scores'}",
                f"{title.capitalize()} over the best share of the reference nuclei",
                f"{words} {ends}.",
                series,
                x=Axis("share of the reference nuclei", (0, 1)),
                y=Axis(title, None if unit else (0, 1)),
            )
        )
    lead = (
        "Of all reference nuclei, pooled, the best share counts, from a twentieth to all of them. A curve that stays "
        "flat to the end belongs to outlines that are alike; one that drops early to few nuclei that were found."
    )
    return Section("coverage", "Quality against coverage", tuple(blocks), lead) if blocks else None


# --- probabilities of the classes -------------------------------------------------------------------------------------


LEAST = 10  # nuclei of a class, and of the others: of fewer no curve is worth drawing
MOST_PAIRS = 20_000  # of which a curve is made, evenly spread over all of them
SAMPLES = 200
LEVEL = 0.95


def roc_section(classes: Sequence[str], counts: Sequence[MatchCounts]) -> Section | None:
    """A curve for each class: the share of its nuclei above a probability, against that of all others.

    counts   of the cases under the first matching rule; pairs of known class only

    None if a submission gives no probabilities of the classes, or no class has enough nuclei. The bands say how much
    the curves change with the nuclei, as if they had been drawn anew one by one; nuclei of a patient are alike, so true
    bands are wider. With numpy's generator of the library, seed 40: the same each time.
    """
    paired = [count for count in counts if len(count.pair_class)]
    given = [count.pair_probability for count in paired]
    known = [probability for probability in given if probability is not None]
    if len(known) < len(paired) or not known:
        return None
    reference = np.concatenate([count.pair_class[:, 0] for count in paired])
    probability = np.concatenate(known)[reference > 0]
    reference = reference[reference > 0].astype(np.int64)
    curves = {
        name: series_of(name, series_colour(class_id - 1), probability[:, class_id - 1], reference == class_id)
        for class_id, name in enumerate(classes, start=1)
        if LEAST <= np.count_nonzero(reference == class_id) <= len(reference) - LEAST
    }
    if not curves:
        return None
    areas = ", ".join(f"{name} {low:.3f} to {high:.3f}" for name, (_, low, high) in curves.items())
    figure = plot(
        "roc",
        "Share of the nuclei of a class that a probability finds, against that of the others it takes for it",
        f"Area under the curve, {LEVEL:.0%} band: {areas}. Dashed: the band of {SAMPLES} samples of the matched "
        "nuclei, drawn one by one; nuclei of a patient are alike, so true bands are wider.",
        [one for found, _, _ in curves.values() for one in found],
        x=Axis("others above the probability", (0.0, 1.0)),
        y=Axis("nuclei of the class above it", (0.0, 1.02)),
    )
    nuclei = counted(len(reference), "matched nucleus", "matched nuclei")
    lead = f"How well do the probabilities distinguish the classes of {nuclei}?"
    return Section("roc", "Probabilities of the classes", (figure,), lead)


def series_of(name: str, colour: str, probability: Float64, positive: Bool) -> tuple[list[Series], float, float]:
    """The mean curve and both edges of its band, and the ends of the interval of the area under it."""
    from grand_challenge_metrics.roc import get_bootstrapped_roc_ci_curves  # slow to import: scikit-learn

    chosen: Int64 = np.linspace(0, len(positive) - 1, min(len(positive), MOST_PAIRS)).astype(np.int64)
    found = get_bootstrapped_roc_ci_curves(
        probability[chosen].astype(np.float64), positive[chosen], num_bootstraps=SAMPLES, ci_to_use=LEVEL
    )
    edges = (("", found.low_tpr_vals), ("", found.high_tpr_vals), (name, found.mean_tpr_vals))
    series = [
        Series(
            label,
            tuple(Dot(float(x), float(y)) for x, y in zip(found.fpr_vals, shares, strict=True)),
            colour,
            dash="" if label else "dash",
            is_curve=True,
        )
        for label, shares in edges
    ]
    return series, float(found.low_az_val), float(found.high_az_val)


# --- the browser ------------------------------------------------------------------------------------------------------


STATES = ("matched", "wrong_class", "missed", "spurious")
MATCHED, WRONG_CLASS, MISSED, SPURIOUS = range(len(STATES))
ROWS_UP_TO = 20_000  # of nuclei on a page; of more, those with the largest loss are kept
TITLE = "Cases and nuclei"
LEAD = (
    "Every nucleus of objects.csv, the largest loss first. Lost pixels are all of a false negative or false positive, "
    "all of a pair with different classes, and those on one side only of a pair with the same class."
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The nuclei of a submission and, by the name of the case, what is drawn of them."""

    team: str
    nuclei: NucleusTable
    scenes: Mapping[str, Scene]


def browser_section(seen: Sequence[Seen]) -> Section | None:
    """The section with the browser; None if no nucleus is known."""
    if not any(len(of.nuclei.case) for of in seen):
        return None
    return Section("browser-section", TITLE, (browser_of(seen),), LEAD)


def browser_of(seen: Sequence[Seen], *, order: Sequence[str] = (), overview: int = 0) -> Widget:
    """The nuclei of one submission or more as data. Rows stay in the order of objects.csv.

    order     names of cases, those that come first
    overview  how many of these are drawn as a whole before one is chosen
    """
    names = dict.fromkeys([*order, *(name for one in seen for name in one.nuclei.cases)])
    cases = {name: index for index, name in enumerate(names)}
    parts = [columns_of(of, team, cases) for team, of in enumerate(seen)]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    number = len(columns["loss"])
    loss = np.nan_to_num(columns["loss"], nan=-1.0)
    kept = np.sort(np.lexsort((np.arange(number), -loss))[:ROWS_UP_TO])
    drawn = int(np.count_nonzero(columns["reference"][kept] + columns["prediction"][kept] != ""))
    thinned = [f"The {ROWS_UP_TO:,} of {number:,} nuclei that lost most are here."] if number > ROWS_UP_TO else []
    if 0 < drawn < len(kept):
        has = "has" if drawn == 1 else "have"
        thinned.append(f"{drawn:,} of them {has} a picture: of large cases, what is around the nuclei that lost most.")
    scenes: dict[str, list[Scene]] = {name: [] for name in cases}
    for scene in (scene for of in seen for name, scene in of.scenes.items() if name in cases):
        scenes[scene.case].append(scene)
    data = {
        "teams": [of.team for of in seen] if len(seen) > 1 else [],
        "overview": overview,
        "classes": list(seen[0].nuclei.classes),
        "cases": [case_entry(name, of) for name, of in scenes.items()],
        "columns": {key: plain_values(values[kept]) for key, values in columns.items()},
    }
    return Widget("browser", data, f"{counted(len(kept), 'nucleus', 'nuclei')} to look through", " ".join(thinned))


def case_entry(name: str, scenes: Sequence[Scene]) -> dict[str, Any]:
    """A case with its windows, each once; submissions may have different windows."""
    windows = dict.fromkeys(window for scene in scenes for window in scene.windows)
    return {
        "name": name,
        "size": list(scenes[0].shape_yx) if scenes and scenes[0].is_whole else None,
        "windows": [[of.x0, of.y0, of.x1, of.y1, base64.b64encode(of.webp).decode()] for of in windows if of.webp],
    }


def columns_of(seen: Seen, team: int, cases: Mapping[str, int]) -> dict[str, Any]:
    """The rows of one submission, an array for each column."""
    nuclei, number = seen.nuclei, len(seen.nuclei.case)
    is_pair = nuclei.outcome == 0
    state = np.choose(nuclei.outcome, [MATCHED, MISSED, SPURIOUS])
    state[is_pair & (nuclei.reference_class != nuclei.prediction_class)] = WRONG_CLASS
    texts = {key: np.full(number, "", object) for key in ("reference", "prediction", "kind")}
    for index, name in enumerate(nuclei.cases):
        rows = np.flatnonzero(nuclei.case == index)
        if (scene := seen.scenes.get(name)) is not None and len(scene.kinds) == len(rows):
            texts["reference"][rows], texts["prediction"][rows] = scene.reference, scene.prediction
            texts["kind"][rows] = scene.kinds
    return {
        "team": np.full(number, team),
        "case": np.array([cases[name] for name in nuclei.cases], np.int64)[nuclei.case],
        "state": state,
        "reference_class": nuclei.reference_class,
        "prediction_class": nuclei.prediction_class,
        "reference_area": nuclei.reference_area,
        "prediction_area": nuclei.prediction_area,
        "iou": nuclei.measures.get("iou", np.full(number, np.nan)).round(3),
        "loss": lost_px(nuclei, state),
        "reference_id": np.array(nuclei.reference_id, object),
        "prediction_id": np.array(nuclei.prediction_id, object),
        **texts,
    }


def lost_px(nuclei: NucleusTable, state: Int64) -> Float64:
    """Pixels that each row costs, float64 (R,): A and B are the areas, and A + B = (1 + IoU) union.

    Missed or spurious: the area; of the wrong class: the union; matched: the union without the intersection. NaN: not
    known, as of points.
    """
    total = np.nansum([nuclei.reference_area, nuclei.prediction_area], axis=0)
    union = total / (1 + nuclei.measures.get("iou", np.full(len(total), np.nan)))
    loss = np.select([state == MATCHED, state == WRONG_CLASS], [2 * union - total, union], total)
    known = np.isfinite(np.where(state == SPURIOUS, nuclei.prediction_area, nuclei.reference_area))
    return np.asarray(np.where(known, loss.round(), np.nan))


def plain_values(values: Any) -> list[Any]:
    """An array as JSON has it: whole numbers without a point, NaN as null."""
    if not np.issubdtype(values.dtype, np.floating):
        return list(values.tolist())
    return [None if value != value else int(value) if value == int(value) else value for value in values.tolist()]
