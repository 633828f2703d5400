"""The page of an audit (audit.json): does the first place hold under other rules, and which rule changes it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.findings import counted, percent
from evaluation.leaderboard.document import interval
from evaluation.report.documents import document_page
from evaluation.report.listing import percent_cell, rank_cell, share_cell, table_of
from evaluation.report.page import Block, Cell, Column, Page, Section, Table, Text, Tone
from evaluation.report.result import Document
from evaluation.report.team_labels import name_some, write_name

VALUES_UP_TO = 12  # of a rule that are named
TONES: Mapping[str, Tone] = {
    "yes": "good",
    "untested": "warning",
    "undecided": "warning",
    "shared": "warning",
    "no": "bad",
}


def audit_page(document: Document) -> Page:
    """The page of the content of an audit.json."""
    sections = [verdict_section(document), *rule_sections(document), method_section(document)]
    teams = [team["name"] for team in document["teams"]]
    subtitle = "The ranking under other rules"
    return document_page("audit", document, sections, subtitle=subtitle, teams=teams)


def verdict_section(document: Document) -> Section:
    """The answer, and the ranks of all teams."""
    blocks: tuple[Block, ...] = (answer_text(document), team_table(document))
    return Section("first-place", "Can the first place be defended?", blocks)


def answer_text(document: Document) -> Text:
    first = document["first_place"]
    return Text(tuple(first["answer"]), TONES.get(first["defended"], "plain"))


def team_table(document: Document) -> Table:
    """The ranks of each team in the variants of the rules."""
    variants = document["first_place"]["variants"]

    def ranks(team: Document) -> Cell:
        among = team["places"]
        return Cell(among[0]["place"], interval(among[0]["place"], among[-1]["place"])) if among else Cell(None, "–")

    return table_of(
        "audit-teams",
        f"Ranks in {counted(variants, 'variant')}",
        document["teams"],
        Column("team", of="name"),
        Column("rank", 1, "by the challenge’s own rules", lambda team: rank_cell(team["published"])),
        Column("ranks", 1, "the best and the worst in all variants", ranks),
        Column("first", 0, "alone or with others", lambda team: share_cell(team["first"], variants)),
        Column("part", 2, "shared first places in equal parts: those of all teams make 1", "first_share"),
        Column("alone", 0, "variants in which no other team is first as well", "first_alone"),
        Column("not ranked", 0, "in how many variants it has no rank", "not_ranked"),
        rest="teams of audit.json",
    )


def rule_sections(document: Document) -> list[Section]:
    """What one rule changes; on the page of a leaderboard as well."""
    lead = "All pairs of variants are compared that differ in this only."
    return [Section("rules", "What one rule changes", (effect_table(document),), lead)]


def effect_table(document: Document) -> Table:
    """What a change of one rule alone changes, the one with the largest effect first."""

    def strength(effect: Document) -> tuple[float, float, str]:
        return -effect["pairs_changed"], -effect["first_changes"] / effect["comparisons"], effect["dimension"]

    return table_of(
        "effects",
        "Rules, the one that moves the order most first",
        sorted((effect for effect in document["effects"] if effect["comparisons"]), key=strength),
        Column("rule", of="dimension"),
        Column(
            "first changes",
            0,
            "comparisons in which another team, or another number of teams, is first",
            lambda of: share_cell(of["first_changes"], of["comparisons"]),
        ),
        Column(
            "pairs turned",
            0,
            "mean share of the pairs of teams that stand otherwise",
            lambda of: percent_cell(of["pairs_changed"]),
        ),
    )


def method_section(document: Document) -> Section:
    """What was varied, and who is first then; who is not ranked; what is left out."""
    rows = []
    for dimension in document["dimensions"]:
        alike: dict[str, list[Document]] = {}
        for of in dimension["values"]:
            first = [f"{write_name(team['team'])} {percent(team['share'])}" for team in of["first"]]
            alike.setdefault(name_some(first) or "nobody", []).append(of)
        rows += [(dimension, values, first) for first, values in alike.items()]

    def name_values(row: tuple[Document, list[Document], str]) -> str:
        own = row[0]["published"]
        return name_some([f"{of['value']} (own)" if of["value"] == own else of["value"] for of in row[1]], VALUES_UP_TO)

    varied = table_of(
        "varied",
        "What was varied, and the share of the first places under each value",
        rows,
        Column("rule", of=lambda row: row[0]["name"]),
        Column("values", of=name_values),
        Column("variants", 0, of=lambda row: sum(of["variants"] for of in row[1])),
        Column("first", of=lambda row: row[2]),
        sortable=False,
    )
    unranked = [unranked_table(document["not_ranked"])] if document["not_ranked"] else []
    notes = tuple(document["notes"])
    blocks: tuple[Block, ...] = (varied, *unranked, *([Text(notes)] if notes else []))
    lead = (
        "In each variant all teams are ranked anew. Shares of variants are no probabilities: they say how much of "
        "what was tried agrees."
    )
    return Section("varied-rules", "The method", blocks, lead)


def unranked_table(teams: Sequence[Document]) -> Table:
    """Teams without a rank, and why."""
    columns = (Column("team", of="name"), Column("code", of="code"), Column("reason", of="reason"))
    return table_of("unranked", "Teams that are not ranked", teams, *columns, rest="teams of the JSON")
