"""All teams in one table: detection, classification and segmentation beside panoptic quality, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from evaluation.findings.errors import InputFault
from evaluation.leaderboard.team_scores import read_metrics
from evaluation.leaderboard.titles import metric_title
from evaluation.report.listing import table_of, with_key
from evaluation.report.page import Cell, Column, Table
from evaluation.report.result import AGGREGATIONS, Document, ResultDocuments, is_lower_better

PATHS = (
    "detection.f1",
    "detection.precision",
    "detection.recall",
    "classification.balanced_accuracy",
    "classification.macro_f1",
    "covered.class_recall",
    "segmentation.iou_class_mean",
    "segmentation.dice_class_mean",
    "segmentation.hausdorff_px",
    "covered.iou_class_mean",
    "panoptic.pq",
    "panoptic.sq",
    "panoptic.rq",
    "counting.mean_absolute_error",
)

TEAMS_UP_TO = 200  # that are shown side by side: reading the results of thousands takes longer than ranking them


def read_results(folder: Path, document: Document) -> dict[str, Document]:
    """The metrics.json of teams, by name, as ``leaderboard`` keeps them: ``results/<team>/metrics.json``.

    Of more than ``TEAMS_UP_TO`` teams those in front are read. Left out are teams without one, and results of other
    rules or cases than those of the leaderboard.
    """
    found: dict[str, Document] = {}
    for name in (team["name"] for team in document["teams"][:TEAMS_UP_TO]):
        path = folder / "results" / name / "metrics.json"
        if path.parent.parent == folder / "results" and path.is_file():
            with suppress(InputFault):
                metrics = read_metrics(path, where="'metrics.json'")
                if metrics["challenge"] == document["challenge"]:
                    found[name] = metrics
    return found


def team_table(document: Document, results: Mapping[str, Document]) -> Table | None:
    """A row for each team with a result, the first place on top; the best value of each column is marked."""
    rows = [
        (team["name"], ResultDocuments(results[team["name"]])) for team in document["teams"] if team["name"] in results
    ]
    if not rows:
        return None
    main = next((name for name in AGGREGATIONS if document["columns"][0]["path"].endswith(f".{name}")), rows[0][1].main)
    paths = [path for path in PATHS if any(result.has(path) for _, result in rows)]
    known = {path: [value for _, of in rows if (value := of.value(f"{path}.{main}")) is not None] for path in paths}
    best = {path: (min if is_lower_better(path) else max)(known[path], default=None) for path in paths}

    def score(row: tuple[str, ResultDocuments], path: str) -> Cell:
        value, ends = row[1].value(f"{path}.{main}"), row[1].interval(f"{path}.{main}")
        if value is None:
            return Cell(None)
        interval = f" ({ends[0]:.3f} to {ends[1]:.3f})" if ends else ""
        return Cell(value, f"{value:.3f}{interval}", tone="good" if value == best[path] else "plain")

    arrows = {path: "↓" if is_lower_better(path) else "↑" for path in paths}
    among = f" here, the first {TEAMS_UP_TO}" if len(document["teams"]) > TEAMS_UP_TO else ""
    note = "In brackets: confidence intervals. " if any(result.has_intervals for _, result in rows) else ""
    return table_of(
        "all-scores",
        f"All teams side by side, {AGGREGATIONS[main]}",
        rows,
        Column("team", of=lambda row: row[0]),
        *(Column(f"{metric_title(path)} {arrows[path]}", 3, path, with_key(score, path)) for path in paths),
        rest="teams of leaderboard.json",
        note=f"{note}✓: the best of the teams{among}.",
    )
