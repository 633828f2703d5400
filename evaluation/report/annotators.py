"""The section of a leaderboard page that compares teams with human agreement."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.report.listing import interval_cell, table_of, with_key
from evaluation.report.page import Column, Section
from evaluation.report.result import Document
from evaluation.report.team_labels import write_name


def annotator_section(document: Document, titles: Sequence[str]) -> list[Section]:
    """How well annotators agree in each column, and each team against all of them; none without annotators.

    titles  of the columns
    """
    found = document.get("annotators")
    if not found:
        return []
    columns = list(zip(titles, found["columns"], strict=True))
    agreement = table_of(
        "annotator-agreement",
        "How well annotators agree",
        columns,
        Column("column", of=lambda row: row[0]),
        Column("agreement", 4, "mean over groups and pairs of annotators", lambda row: row[1]["agreement"]["mean"]),
        Column("interval", of=lambda row: interval_cell(row[1]["agreement"])),
        Column("margin", 4, "how much a score changes with the annotator", lambda row: row[1]["proposed_margin"]),
        rest="columns of leaderboard.json",
    )
    rows = [(title, column, team) for title, column in columns for team in column["teams"]]
    teams = table_of(
        "annotator-teams",
        "Teams against the annotators",
        rows,
        Column("team", of=lambda row: write_name(row[2]["name"])),
        Column("column", of=lambda row: row[0]),
        *(Column(f"against {name}", 4, of=with_key(lambda row, index: row[2]["against"][index]["value"], index))
          for index, name in enumerate(found["names"])),
        Column("against all", 4, "mean over groups and annotators", lambda row: row[2]["all"]["mean"]),
        Column("interval", of=lambda row: interval_cell(row[2]["all"])),
        Column("human agreement", of=lambda row: row[2]["place"] or "too few groups"),
        rest="teams of leaderboard.json",
        note="Above (below): better (worse) than every annotator, both compared with every other annotator, by paired "
        "differences over groups; else within. Teams are not corrected for their number.",
    )  # fmt: skip
    lead = (
        "Annotators and teams are scored against each annotator by the rules of the challenge. The ranking uses the "
        "reference of the challenge alone."
    )
    return [Section("annotators", "Beside human agreement", (agreement, teams), lead)]
