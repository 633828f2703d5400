"""The page of an erratum: what changed, who moves and why, old beside new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.findings import listed
from evaluation.leaderboard.registration import registration_words
from evaluation.leaderboard.titles import short_titles
from evaluation.report.documents import document_page
from evaluation.report.page import Cell, Column, Page, Section, Table, Text


def rescore_page(document: Mapping[str, Any]) -> Page:
    """The page of rescore.json."""
    before, now, changed = document["before"] or {}, document["challenge"] or {}, document["changed"]
    moved = [team["name"] for team in document["teams"] if team["moves"]]
    sentences = [f"Rule {line}" for line in changed["rules"]]
    if changed["cases"]:
        sentences.append(f"Results differ in {len(changed['cases'])} cases: {listed(changed['cases'])}.")
    if changed["cases"] and not changed["rules"] and not changed["programs"] and before.get("hash") == now.get("hash"):
        sentences.append("Rules and program are the same: the reference, or a submission, was changed.")
    if changed["programs"]:
        sentences.append(f"Program {changed['programs'][0]} before, {changed['programs'][1]} now.")
    lead = f"{len(moved)} of {len(document['teams'])} teams move: {listed(moved)}." if moved else "No team moves."
    if document.get("registration"):
        sentences.append(registration_words(document["registration"]))
    references = document["reference"]
    if None not in references:
        sentences.append("The reference is another one." if len(set(references)) > 1 else "The reference is the same.")
    times = ("before", "now")
    facts = [
        f"{key} {when}: {of[key]}"
        for when, of in zip(times, (before, now), strict=True)
        for key in ("hash", "ranking_hash")
        if of.get(key)
    ]
    facts += [f"reference {when}: {of}" for when, of in zip(times, references, strict=True) if of]
    sections = (
        Section("moves", "Who moves", (Text((lead,)), places_table(document))),
        Section("changed", "What changed", (Text(tuple(sentences or ["Nothing."])), Text(tuple(facts)))),
        Section("why", "Why", (columns_table(document),), "Values and ranks that differ, and where they changed most."),
    )
    title = f"{now.get('name', 'Leaderboard')}: scored again"
    return document_page("rescore", document, sections, subtitle="old beside new", title=title)


def places_table(document: Mapping[str, Any]) -> Table:
    rows = []
    for team in document["teams"]:
        places = [Cell(None, "not ranked") if place is None else place for place in team["position"]]
        rows.append((team["name"], *places, "moves" if team["moves"] else ""))
    columns = (Column("team"), Column("place before", 0), Column("place now", 0), Column(""))
    return Table("places", "Places before and now", columns, tuple(rows))


def columns_table(document: Mapping[str, Any]) -> Table:
    titles = Column("team"), Column("column"), Column("before", 4), Column("now", 4), Column("rank before", 1)
    rows = []
    for team in document["teams"]:
        names = short_titles([column["path"] for column in team["columns"]])
        for title, column in zip(names, team["columns"], strict=True):
            (value, now), (rank, rank_now) = column["value"], column["rank"]
            if value != now or rank != rank_now:
                units = ", ".join(f"{unit['name']} ({unit['change']:+.4f})" for unit in column["units"])
                rows.append((team["name"], title, value, now, rank, rank_now, units))
    columns = (*titles, Column("rank now", 1), Column("changed most in"))
    return Table("columns", "Values and ranks that differ", columns, tuple(rows))
