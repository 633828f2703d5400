"""The nuclei of a submission on its page: figures of matched pairs, and the browser, which draws them on the tissue."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.board.titles import metric_title
from evaluation.findings import counted
from evaluation.report.figures import series_colour
from evaluation.report.page import Axis, Block, Dot, Figure, Section, Series, Table, Text, Value, Widget
from evaluation.report.pictures import Scene
from evaluation.report.reasons import rule_in_words
from evaluation.report.result import ResultDocuments
from evaluation.report.tables import in_percent, table_of
from nuclei_metrics.model import Float64, Int64, MatchCounts

SIZE_BINS = 10


@dataclass(frozen=True, slots=True, eq=False)
class NucleusTable:
    """objects.csv under one matching rule.

    outcome          int64 (R,), index in ``OUTCOMES`` of objects.csv
    classes          names; ``reference_class`` int64 (R,) is an index in them, -1: no reference nucleus
    reference_area   float64 (R,) px, NaN without a reference nucleus
    measures         float64 (R,) by the name of the measure, NaN: not measured
    cases            names; ``case`` int64 (R,) is an index in them. This and the following are for the browser
    prediction_class, prediction_area   as for the reference
    reference_id, prediction_id         texts, object (R,)
    reasons          the columns of objects.csv that explain why a nucleus is not matched, (R,); may be empty
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
    reference_id: npt.NDArray[np.object_] = field(default_factory=lambda: np.empty(0, object))
    prediction_id: npt.NDArray[np.object_] = field(default_factory=lambda: np.empty(0, object))
    reasons: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def of_case(self, name: str) -> NucleusTable:
        """The rows of one case."""
        rows = np.flatnonzero(self.case == (self.cases.index(name) if name in self.cases else -1))
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        chosen: dict[str, Any] = {
            key: column[rows] for key, column in columns.items() if isinstance(column, np.ndarray)
        }
        for key in ("measures", "reasons"):
            chosen[key] = {name: values[rows] for name, values in columns[key].items()}
        chosen["case"] = np.zeros(len(rows), np.int64)
        return replace(self, **chosen, cases=(name,))


def disc_iou(area: Float64 | np.float64) -> Float64:
    """Compute from a disc's area its IoU with the disc that is one pixel smaller all around, (1 - 1/r)².

    >>> disc_iou(math.pi * np.array([100.0, 1.0, 0.0])).round(2).tolist()
    [0.81, 0.0, 0.0]
    """
    radius = np.sqrt(np.maximum(area, math.pi) / math.pi)
    return np.asarray((1 - 1 / radius) ** 2)


# --- size -------------------------------------------------------------------------------------------------------------


def size_section(nuclei: NucleusTable) -> Section:
    """Numbers and quality of matched nuclei per size, next to the cost of a pixel at that size."""
    lead = (
        "A pixel costs a small nucleus more than a large one. The disc of the same area that is drawn one pixel too "
        "small all around has the IoU that a pixel costs: a median above it loses by its size, one below it by more."
    )
    table = size_table(nuclei)
    none = Text(("No reference nucleus has an area, so there is nothing to compare.",))
    return Section("size", "Effect of nucleus size", (table if table.rows else none,), lead)


def size_table(nuclei: NucleusTable) -> Table:
    """Reference nuclei in tenths by size: the share that is matched, and the median IoU of these."""
    known = np.flatnonzero((nuclei.outcome < 2) & np.isfinite(nuclei.reference_area))
    known = known[np.argsort(nuclei.reference_area[known], kind="stable")]
    ascending = nuclei.reference_area[known]
    starts = ascending[len(known) * np.arange(SIZE_BINS if len(known) else 0) // SIZE_BINS]
    edges = np.unique(np.searchsorted(ascending, starts))  # equal ones stay together, so there may be fewer parts
    rows: list[list[Value]] = []
    for part in np.split(known, edges)[1:]:
        area, is_matched = nuclei.reference_area[part], nuclei.outcome[part] == 0
        iou = nuclei.measures["iou"][part[is_matched]]
        iou = iou[np.isfinite(iou)]
        median = float(np.median(iou)) if len(iou) else None
        disc = disc_iou(np.median(area)).item()
        share = in_percent(float(np.mean(is_matched)))
        rows.append([f"{area.min():,.0f} to {area.max():,.0f}", share, median, disc, len(part)])
    titles = ["area, px", "matched, %", "median IoU", "disc, one pixel too small", "nuclei"]
    return table_of("size-table", "All reference nuclei in tenths by size", titles, rows, sortable=False)


# --- thresholds -------------------------------------------------------------------------------------------------------


def threshold_section(result: ResultDocuments) -> list[Section]:
    """F1 and threat score against the IoU threshold; nothing where metrics.json does not have them."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for path in result.paths:  # "iou72_5" is 0.725, "iou50_95" a mean over a range
        match = re.fullmatch(r"thresholds\.(f1|threat_score|precision|recall)_iou(\d+(?:_\d)?)", path)
        value = result.value(f"{path}.{result.main}")
        if match is not None and value is not None:
            threshold = round(float(match[2].replace("_", ".")) / 100, 6)
            curves.setdefault(match[1].replace("_", " ").replace("f1", "F1"), []).append((threshold, value))
    if not curves:
        return []
    curves = {name: sorted(points) for name, points in curves.items()}
    name, points = next(iter(curves.items()))
    (low, best), (high, least) = points[0], points[-1]
    figure = Figure(
        "score-by-threshold",
        "Scores by the IoU that a pair must exceed",
        f"{name} is {best:.3f} at an IoU above {low:g} and {least:.3f} above {high:g}. Nuclei are matched again at "
        f"each threshold; {result.main_in_words}.",
        _curve_series(curves),
        x=Axis("IoU that a pair must exceed", (max(0.0, low - 0.05), 1.0)),
        y=Axis("score", (0, 1.02)),
    )
    lead = "How many matches would be left at a higher IoU threshold?"
    return [Section("thresholds", "Score against threshold", (figure,), lead)]


def roc_section(result: ResultDocuments, counts: Sequence[MatchCounts]) -> list[Section]:
    """Plot ROC curves of each class over the matched pairs of all cases; nothing without class probabilities.

    The bands come from bootstrap samples of nuclei, as in evalutils (``roc`` of grand-challenge-metrics).
    """
    known = [(each.pair_class[:, 0], each.pair_probability) for each in counts if len(each.pair_class)]
    if not known or any(probability is None for _, probability in known):
        return []
    from grand_challenge_metrics.roc import get_bootstrapped_roc_ci_curves  # slow to import: scikit-learn

    truth, probability = (np.concatenate(columns) for columns in zip(*known, strict=True))
    series, areas = [], []
    for class_id, name in enumerate(result.classes, start=1):
        is_class = truth == class_id
        if is_class.all() or not is_class.any():
            continue
        curve = get_bootstrapped_roc_ci_curves(probability[:, class_id - 1], is_class)
        columns = (curve.fpr_vals, curve.mean_tpr_vals, curve.low_tpr_vals, curve.high_tpr_vals)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        dots = [Dot(x, y, low=low, high=high) for x, y, low, high in rows]
        series.append(Series(name, dots, series_colour(class_id - 1), "lines"))
        areas.append(f"{name} {curve.low_az_val:.3f} to {curve.high_az_val:.3f}")
    if not series:
        return []
    figure = Figure(
        "roc",
        "ROC curve of each class against all other classes",
        f"Area under the curve, 95% interval: {', '.join(areas)}. Mean over 100 bootstrap samples of matched nuclei; "
        "bands are 95% intervals.",
        series,
        x=Axis("false positive rate", (0, 1)),
        y=Axis("true positive rate", (0, 1.02)),
    )
    return [Section("roc-section", "ROC curves", (figure,), "Class probabilities of the matched nuclei of all cases.")]


def _curve_series(curves: Mapping[str, Iterable[tuple[float, float]]]) -> list[Series]:
    """Create a line of each curve; a curve is a list of points, by its name."""
    return [
        Series(name, [Dot(*point) for point in points], series_colour(index), "lines")
        for index, (name, points) in enumerate(curves.items())
    ]


def coverage_section(result: ResultDocuments) -> list[Section]:
    """One plot for scores and one per unit of distances; nothing if details.json has no curves."""
    curves = result.details.get("coverage_curves") if result.details is not None else None
    if curves is None:
        return []
    known = {name: values for name, values in curves["rules"].get(result.rule, {}).items() if None not in values}
    chosen = {name: values for name, values in known.items() if name.endswith("_class_mean")} or known
    half, whole = (curves["coverage"].index(share) for share in (0.5, 1.0))
    blocks: list[Block] = []
    units = {name: name.removesuffix("_class_mean").rpartition("_")[2] for name in chosen}
    for unit in ("", "px", "um"):
        names = [name for name in chosen if (units[name] if units[name] in ("px", "um") else "") == unit]
        if not names:
            continue
        ends = "; ".join(
            f"{metric_title(name)} {chosen[name][half]:.3f} over the better half, {chosen[name][whole]:.3f} over all"
            for name in names
        )
        title = f"distance, {unit}" if unit else "score"
        words = "A false negative counts with the worst value: a curve bends where the true positives end."
        figure = Figure(
            f"coverage-{unit or 'scores'}",
            f"{title.capitalize()} over the best share of the reference nuclei",
            f"{words} {ends}.",
            _curve_series({metric_title(name): zip(curves["coverage"], chosen[name], strict=True) for name in names}),
            x=Axis("share of the reference nuclei", (0, 1)),
            y=Axis(title, None if unit else (0, 1)),
        )
        blocks.append(figure)
    lead = (
        "Each point averages the best share of all reference nuclei, pooled, from a twentieth to all. A flat curve "
        "means outlines of similar quality; an early drop means few true positives."
    )
    return [Section("coverage", "Quality against coverage", tuple(blocks), lead)] if blocks else []


# --- the browser ------------------------------------------------------------------------------------------------------


NUCLEUS_STATES = ("matched", "wrong_class", "missed", "spurious", "ignored")
MATCHED, WRONG_CLASS, MISSED, SPURIOUS, IGNORED = range(len(NUCLEUS_STATES))
NUCLEI_UP_TO = 20_000  # of nuclei on a page; of more, those with the largest loss are kept
OUTLINES_UP_TO = 1_500_000  # characters on a page; cases whose outlines come later are not drawn
PAGE_TITLE = "Cases and nuclei"
LEAD = (
    "Every nucleus of objects.csv, the largest loss first. Lost pixels are all of a false negative or false positive, "
    "all of a pair with different classes, and those on one side only of a pair with the same class."
)


@dataclass(frozen=True, slots=True)
class TeamNuclei:
    """The nuclei of a submission, and the scene and main score of each case by name."""

    name: str
    nuclei: NucleusTable
    scenes: Mapping[str, Scene]
    scores: Mapping[str, float | None] = field(default_factory=dict)


def browser_section(teams: Sequence[TeamNuclei], rule: Mapping[str, Any], *, score: str = "") -> list[Section]:
    """The section with the browser; nothing without nuclei."""
    if not any(len(team.nuclei.case) for team in teams):
        return []
    return [Section("browser-section", PAGE_TITLE, (browser_of(teams, rule, score=score),), LEAD)]


def browser_of(
    teams: Sequence[TeamNuclei],
    rule: Mapping[str, Any],
    *,
    score: str = "",
    order: Sequence[str] = (),
    overview: int = 0,
    start: str = "",
) -> Widget:
    """The nuclei of one submission or more as data. Rows stay in the order of objects.csv.

    rule      the first matching rule, as in the resolved rules
    score     title of the main score
    order     names of the first cases
    overview  number of cases that are drawn as a whole before a case is chosen
    start     a case that the viewer shows at once
    """
    names = dict.fromkeys([*order, *(name for team in teams for name in team.nuclei.cases)])
    cases = {name: index for index, name in enumerate(names)}
    parts = [_browser_columns(team, index, cases) for index, team in enumerate(teams)]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    number = len(columns["loss"])
    loss = np.nan_to_num(columns["loss"], nan=-1.0)
    rows = np.sort(np.lexsort((np.arange(number), -loss))[:NUCLEI_UP_TO])
    thinned = (
        [f"Here: the {NUCLEI_UP_TO:,} of {number:,} nuclei with the largest loss."] if number > NUCLEI_UP_TO else []
    )
    columns = {key: values[rows] for key, values in columns.items()}
    outlines = columns["reference"] + columns["prediction"]
    characters = np.bincount(columns["case"], [len(text) for text in outlines], len(cases)).cumsum()
    first = max(1, int(np.searchsorted(characters, OUTLINES_UP_TO, side="right")))  # that have room
    columns |= {side: np.where(columns["case"] < first, columns[side], "") for side in ("reference", "prediction")}
    drawn = int(np.count_nonzero(outlines[columns["case"] < first] != ""))
    if first < len(cases) and drawn:
        thinned.append(f"The first {first:,} of {len(cases):,} cases are drawn; the tables list all cases.")
    elif 0 < drawn < len(rows):
        has = "has" if drawn == 1 else "have"
        thinned.append(f"{drawn:,} of them {has} a picture: in large cases, around the costliest nuclei.")
    scenes: dict[str, list[Scene]] = {name: [] for name in cases}
    for scene in (scene for team in teams for name, scene in team.scenes.items() if cases.get(name, first) < first):
        scenes[scene.case].append(scene)
    data = {
        "teams": [team.name for team in teams] if len(teams) > 1 else [],
        "overview": overview,
        "start": start,
        "classes": list(teams[0].nuclei.classes),
        "score": score,
        "rule": {"words": rule_in_words(rule), "threshold": rule.get("threshold")},
        "cases": [
            {**_case_entry(name, of_case), "scores": [team.scores.get(name) for team in teams]}
            for name, of_case in scenes.items()
        ],
        **_packed_columns(columns),
    }
    return Widget(data, f"{counted(len(rows), 'nucleus', 'nuclei')} to look through", " ".join(thinned))


def _case_entry(name: str, scenes: Sequence[Scene]) -> dict[str, Any]:
    """Return a case and the windows of all submissions, each window once."""
    windows = dict.fromkeys(window for scene in scenes for window in scene.windows)
    return {
        "name": name,
        "size": list(scenes[0].shape_yx) if scenes and scenes[0].is_whole else None,
        "windows": [
            [part.x0, part.y0, part.x1, part.y1, base64.b64encode(part.webp).decode()] for part in windows if part.webp
        ],
    }


def _browser_columns(team: TeamNuclei, index: int, cases: Mapping[str, int]) -> dict[str, Any]:
    """The rows of one submission, an array for each column."""
    nuclei, number = team.nuclei, len(team.nuclei.case)
    is_pair = nuclei.outcome == 0
    state = np.choose(nuclei.outcome, [MATCHED, MISSED, SPURIOUS, IGNORED])
    state[is_pair & (nuclei.reference_class != nuclei.prediction_class)] = WRONG_CLASS
    texts = {key: np.full(number, "", object) for key in ("reference", "prediction")}
    for at, name in enumerate(nuclei.cases):
        rows = np.flatnonzero(nuclei.case == at)
        if (scene := team.scenes.get(name)) is not None and len(scene.reference) == len(rows):
            texts["reference"][rows], texts["prediction"][rows] = scene.reference, scene.prediction
    nothing = {"kind": "", "nearest_id": "", "taken_by": "", "nearest_iou": math.nan, "nearest_distance_px": math.nan}
    return {
        "team": np.full(number, index),
        "case": np.array([cases[name] for name in nuclei.cases], np.int64)[nuclei.case],
        "state": state,
        "reference_class": nuclei.reference_class,
        "prediction_class": nuclei.prediction_class,
        "reference_area": nuclei.reference_area,
        "prediction_area": nuclei.prediction_area,
        "iou": nuclei.measures.get("iou", np.full(number, np.nan)).round(3),
        "loss": lost_px(nuclei, state),
        "reference_id": nuclei.reference_id,
        "prediction_id": nuclei.prediction_id,
        **{key: nuclei.reasons.get(key, np.full(number, empty)) for key, empty in nothing.items()},
        **texts,
    }


_OF_UNMATCHED = ("nearest_id", "nearest_iou", "nearest_distance_px", "taken_by")


def _packed_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Pack the columns of all rows, without repeats.

    runs      team, case and number of rows that follow each other
    outlines  texts; ``columns`` contain their indices. The first is empty
    kinds     words; ``columns`` contain their indices
    why       the best candidates of rows without a match, by ``row``
    """
    packed = {key: values for key, values in columns.items() if key not in ("team", "case", *_OF_UNMATCHED)}
    starts = np.flatnonzero(np.diff(columns["team"], prepend=-1) | np.diff(columns["case"], prepend=-1))
    numbers = np.diff(starts, append=len(columns["case"]))
    outlines: dict[str, int] = {"": 0}
    for side in ("reference", "prediction"):
        packed[side] = np.array([outlines.setdefault(text, len(outlines)) for text in columns[side].tolist()], np.int64)
    kinds, packed["kind"] = np.unique(columns["kind"].astype(str), return_inverse=True)
    alone = np.flatnonzero((columns["state"] >= MISSED) & (columns["nearest_id"] != ""))
    why = {key: plain_values(columns[key][alone]) for key in _OF_UNMATCHED}
    return {
        "runs": np.stack([columns["team"][starts], columns["case"][starts], numbers], axis=1).tolist(),
        "outlines": list(outlines),
        "kinds": [kind.replace("_", " ") for kind in kinds.tolist()],
        "why": {"row": alone.tolist(), **why},
        "columns": {key: plain_values(values) for key, values in packed.items()},
    }


def lost_px(nuclei: NucleusTable, state: Int64) -> Float64:
    """Pixels that each row costs, float64 (R,): A and B are the areas, and A + B = (1 + IoU) union.

    False negative or false positive: the area; wrong class: the union; matched: the union without the intersection. NaN
    if unknown, as for points, or ignored.
    """
    total = np.nansum([nuclei.reference_area, nuclei.prediction_area], axis=0)
    union = total / (1 + nuclei.measures.get("iou", np.full(len(total), np.nan)))
    loss = np.select([state == MATCHED, state == WRONG_CLASS], [2 * union - total, union], total)
    known = np.isfinite(np.where(state == SPURIOUS, nuclei.prediction_area, nuclei.reference_area)) & (state != IGNORED)
    return np.asarray(np.where(known, loss.round(), np.nan))


def plain_values(values: Any) -> list[Any]:
    """List an array as JSON has it: whole numbers without a point, NaN as null."""
    if not np.issubdtype(values.dtype, np.floating):
        return list(values.tolist())
    return [None if value != value else int(value) if value == int(value) else value for value in values.tolist()]
