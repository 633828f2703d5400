"""Two teams of a leaderboard side by side: differences in each unit and class, and on the nuclei that both matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.leaderboard.titles import metric_title, short_titles
from evaluation.model import Float64
from evaluation.report.common_nuclei import measure_titles, who_is_ahead
from evaluation.report.page import Section, Widget
from evaluation.report.result import Document, ResultDocuments, is_lower_better
from evaluation.report.skills import main_of

VALUES_UP_TO = 200_000  # of units in the page; of more the units are thinned
BY_CLASS = ("panoptic.pq", "detection.recall", "detection.precision", "classification.f1", "segmentation.iou",
            "segmentation.hausdorff_px")  # fmt: skip


def versus_section(document: Document, results: Mapping[str, Document], classes: Sequence[str] = ()) -> Section | None:
    """The section with the choice of two teams; None for fewer, or if no unit and no class is known."""
    teams = document["teams"]
    columns, note = unit_columns(document)
    rows = class_rows(document, results, classes)
    if len(teams) < 2 or not (columns or rows):
        return None
    kind = str(document["units"]["kind"])
    data = {
        "teams": [team["name"] for team in teams],
        "kind": kind,
        "columns": columns,
        "classes": rows,
        "common": common_pairs(document),
    }
    widget = Widget("versus", data, f"Two of {len(teams):,} teams side by side, in each unit and class", note)
    lead = f"Choose two teams: where is one better than the other, in which {kind} and in which classes?"
    return Section("versus-section", "Two teams side by side", (widget,), lead)


def common_pairs(document: Document) -> dict[str, Any]:
    """What is known of each pair of teams on common nuclei: their indices, the number of nuclei, who is ahead."""
    found = document.get("common_nuclei") or {"measures": (), "pairs": ()}
    index_of = {team["name"]: index for index, team in enumerate(document["teams"])}
    return {
        "titles": measure_titles(found["measures"]),
        "pairs": [
            [index_of[pair["first"]], index_of[pair["second"]], pair["common"], [
                who_is_ahead(pair, index).text for index in range(len(found["measures"]))
            ]]
            for pair in found["pairs"]
        ],
    }  # fmt: skip


def unit_columns(document: Document) -> tuple[list[dict[str, Any]], str]:
    """The values of every team in every unit, a table for each column, and what is left out."""
    teams, names = document["teams"], document.get("unit_names") or ()
    if not names or "by_unit" not in teams[0]["columns"][0]:
        return [], ""
    columns = document["columns"]
    limit = max(VALUES_UP_TO // (len(teams) * len(columns)), 1)
    chosen = np.unique(np.linspace(0, len(names) - 1, min(limit, len(names))).round().astype(int)).tolist()
    kind = document["units"]["kind"]
    some = f"{len(chosen):,} of {len(names):,} {kind} are here, evenly spread; counts and means are of all."
    note = some if len(chosen) < len(names) else ""

    made = []
    for index, title in enumerate(short_titles([column["path"] for column in columns])):
        of_column = [team["columns"][index] for team in teams]
        values = np.round(np.array([team["by_unit"] for team in of_column], float), 4)  # NaN where there is none
        made.append(
            {
                "title": title,
                "higher": columns[index]["direction"] == "descending",
                "names": [names[unit] for unit in chosen],
                "overall": [None if team["value"] is None else round(team["value"], 4) for team in of_column],
                "values": [[None if np.isnan(value) else value for value in row] for row in values[:, chosen].tolist()],
                "pairs": [compare_teams(values, first) for first in range(len(teams))],
            }
        )
    return made, note


def compare_teams(values: Float64, first: int) -> list[tuple[int, int, int, float]]:
    """A team with each one behind it, in all units: units that both have, in which its value is higher, in which lower,
    and the mean difference.

    values  float64 (teams, units); NaN: undefined
    """
    difference = values[first] - values[first + 1 :]
    known = (~np.isnan(difference)).sum(axis=1)
    higher, lower = (difference > 0).sum(axis=1), (difference < 0).sum(axis=1)
    mean = np.nansum(difference, axis=1) / np.maximum(known, 1)
    return list(zip(known.tolist(), higher.tolist(), lower.tolist(), np.round(mean, 4).tolist(), strict=True))


def class_rows(document: Document, results: Mapping[str, Document], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Scores of each class, a row for a score and a class, in the order of ``classes``."""
    of_teams = [ResultDocuments(results[name]) if (name := team["name"]) in results else None
                for team in document["teams"]]  # fmt: skip
    known = [of for of in of_teams if of is not None]
    if not known:
        return []
    main, rows = main_of(document, known[0]), []
    for path in BY_CLASS:
        family, metric = path.split(".")
        for name in classes or known[0].classes:
            full = f"{family}.per_class.{name}.{metric}.{main}"
            values = [of.value(full) if of is not None else None for of in of_teams]
            if any(value is not None for value in values):
                title = metric_title(path)
                rows.append({"class": name, "title": title, "higher": not is_lower_better(path), "values": values})
    return rows
