"""Teams in pairs on the nuclei that both matched, on the page of a leaderboard."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.findings import percent
from evaluation.leaderboard.titles import metric_title
from evaluation.report.listing import table_of, with_key
from evaluation.report.page import Cell, Column, Section, Text
from evaluation.report.result import Document
from evaluation.report.team_labels import name_some, write_name


def common_section(document: Document) -> list[Section]:
    """The second table, if the nuclei of teams are known."""
    found = document.get("common_nuclei")
    if not found:
        return []
    reasons: dict[str, list[str]] = {of["reason"]: [] for of in found["without"]}
    for of in found["without"]:
        reasons[of["reason"]].append(of["name"])
    unknown = tuple(f"Not compared: {name_some(names)}. {reason}" for reason, names in reasons.items())
    notes = [Text(unknown, "warning")] if unknown else []
    if len(found["teams"]) < 2:
        return [Section("common", "On common nuclei", tuple(notes))] if notes else []
    measures = measure_titles(found["measures"])
    others = len(found["teams"]) - 1

    def ahead(team: Document, measure: int) -> Cell:
        return Cell(team["ahead"][measure], f"{team['ahead'][measure]:,} of {others:,}")

    teams = table_of(
        "common-teams",
        "Teams that each team is ahead of, pair by pair",
        found["teams"],
        Column("team", of=lambda team: write_name(team["name"])),
        Column("matched nuclei", 0, "reference nuclei that it matched", "matched"),
        *(Column(f"ahead in {name}", 0, of=with_key(ahead, index)) for index, name in enumerate(measures)),
        rest="teams of leaderboard.json",
    )
    pairs = table_of(
        "common-pairs",
        "Pairs of teams on their common nuclei, neighbours first",
        found["pairs"],
        Column("team", of=lambda pair: write_name(pair["first"])),
        Column("other team", of=lambda pair: write_name(pair["second"])),
        Column("common nuclei", 0, "reference nuclei that both matched", "common"),
        Column("of its matches", None, "share of what each of the two matched", shares),
        *(Column(f"ahead in {name}", of=with_key(who_is_ahead, index)) for index, name in enumerate(measures)),
        rest="pairs of leaderboard.json",
        note=f"Compared are two teams with at least {found['least']} common nuclei that are at least "
        f"{percent(found['share'])} of what each of them matched; else whoever matched more is ahead. In brackets: the "
        "middle 95 % of the samples; (?) it contains 0: they cannot be told apart.",
    )
    lead = (
        "Who outlines the same nuclei better? Two teams are compared on the reference nuclei that both matched, every "
        f"one of the {document['units']['kind']} weighing the same."
    )
    return [Section("common", "On common nuclei", (teams, pairs, *notes), lead)]


def measure_titles(measures: Sequence[Document]) -> list[str]:
    return [f"{metric_title(of['name'])} {'↑' if of['better'] == 'higher' else '↓'}" for of in measures]


def shares(pair: Document) -> Cell:
    return Cell(min(of or 0 for of in pair["shares"]), " and ".join(percent(of) for of in pair["shares"]))


def who_is_ahead(pair: Document, measure: int) -> Cell:
    """Which team is ahead and by how much, or that the number of matched nuclei decides."""
    found = pair["measures"][measure]
    ahead = "neither" if found["ahead"] is None else write_name(found["ahead"])
    if pair["by"] == "matched":
        return Cell(ahead, f"{ahead}: matched more" if found["ahead"] else "neither: matched as many")
    if found["difference"] is None:
        return Cell(None)
    sign, interval = -1 if found["difference"] < 0 else 1, ""
    if found["low"] is not None:
        low, high = sorted((sign * found["low"], sign * found["high"]))
        interval = f" ({low:.4f} to {high:.4f}){' (?)' * (low <= 0)}"
    return Cell(ahead, f"{ahead} by {abs(found['difference']):.4f}{interval}")
