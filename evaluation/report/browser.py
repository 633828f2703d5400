"""The browser of nuclei on a page: every row of objects.csv as data, with its outlines if the case has a scene."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.findings import counted
from evaluation.model import Float64, Int64
from evaluation.report.nuclei import NucleusTable
from evaluation.report.page import Section, Widget
from evaluation.report.pictures.scenes import Scene

STATES = ("matched", "wrong_class", "missed", "spurious")
MATCHED, WRONG_CLASS, MISSED, SPURIOUS = range(len(STATES))
ROWS_UP_TO = 20_000  # of nuclei on a page; of more, those with the largest loss are kept
TITLE = "Cases and nuclei"
LEAD = (
    "Every nucleus of objects.csv, the largest loss first. Lost pixels are all of a missed or spurious nucleus, "
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
