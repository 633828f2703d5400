"""The page of tricks.json: which attempts to game the ranking work, for whom, and which entries decide who is first."""

from __future__ import annotations

from evaluation.leaderboard.document import shown
from evaluation.report.documents import document_page
from evaluation.report.listing import table_of
from evaluation.report.page import Block, Cell, Column, Page, Section, Text
from evaluation.report.result import Document
from evaluation.report.team_labels import name_some, write_name


def tricks_page(document: Document) -> Page:
    """The page of the content of a tricks.json."""
    sections = [trick_section(document), entry_section(document), play_section(document)]
    subtitle = "Can a team gain places by handing in something worse?"
    return document_page("tricks", document, sections, subtitle=subtitle)


def trick_section(document: Document) -> Section:
    """All that was tried, those first that work for most teams."""
    paying: dict[str, list[Document]] = {of["name"]: [] for of in document["tricks"]}
    for play in document["plays"]:
        if play["pays"]:
            paying[play["trick"]].append(play)
    tricks = sorted(document["tricks"], key=lambda of: -len(paying[of["name"]]))
    works = any(paying[of["name"]] for of in tricks)

    def largest_climb(of: Document) -> Cell:
        best = max(paying[of["name"]], key=lambda play: play["before"] - play["after"], default=None)
        if best is None:
            return Cell(None, "")
        words = f"{write_name(best['team'])}, {shown(best['before'])} to {shown(best['after'])}"
        return Cell(best["before"] - best["after"], words)

    def by_whom(of: Document) -> str:
        return "only with the reference" if of["by_reference"] else "anybody"

    blocks: list[Block] = [Text((" ".join(document["verdict"]),), "bad" if works else "good")]
    blocks += [Text(tuple(document["findings"]), "warning")] if document["findings"] else []
    blocks.append(
        table_of(
            "tried",
            "What was tried",
            tricks,
            Column("what is done", of="words"),
            Column("who could", of=by_whom),
            Column("works for", of=lambda of: name_some([play["team"] for play in paying[of["name"]]])),
            Column("largest climb", of=largest_climb),
        )
    )
    lead = (
        "Each was played on the nuclei of every team, one team at a time, and all teams were ranked again. It works if "
        "the team stands higher although its pooled F1 or its pooled class score fell by more than 0.005."
    )
    return Section("tried-section", "What works, and for whom", tuple(blocks), lead)


def entry_section(document: Document) -> Section:
    """Which entries decide the first place, and which are nearly the same."""
    keys = ("first_without_it", "shares_outlines_with", "first_if_it_is_there_twice")
    table = table_of(
        "entry-table",
        "Entries that matter to others",
        [of for of in document["entries"] if any(of[key] for key in keys)],
        Column("team", of=lambda of: write_name(of["team"])),
        Column("first without it", of=lambda of: name_some(of["first_without_it"])),
        Column("first if it is there twice", of=lambda of: name_some(of["first_if_it_is_there_twice"])),
        Column("shares its outlines with", of=lambda of: name_some(of["shares_outlines_with"])),
        rest="entries of tricks.json",
    )
    none = "No team's absence or second entry gives the first place to another team; no two share their outlines."
    lead = "No sum of ranks stops a second entry from turning the order of others: rank one entry for each team."
    return Section(
        "entries", "Entries that decide the first place", (table if table.rows else Text((none,), "good"),), lead
    )


def play_section(document: Document) -> Section:
    """Every play, the largest climbs first."""
    words = {trick["name"]: trick["words"] for trick in document["tricks"]}
    moved = [play for play in document["plays"] if None not in (play["before"], play["after"])]
    table = table_of(
        "plays",
        "Every play, the largest climbs first",
        sorted(moved, key=lambda play: (play["after"] - play["before"], play["trick"], play["team"])),
        Column("what is done", of=lambda play: words[play["trick"]]),
        Column("team", of=lambda play: write_name(play["team"])),
        Column("place before", 1, of="before"),
        Column("place after", 1, of="after"),
        Column("F1", 3, "change, pooled", of="f1_change"),
        Column("class score", 3, "change, pooled", of="class_score_change"),
        Column("works", of=lambda play: "yes" if play["pays"] else ""),
        rest="plays of tricks.json",
    )
    left_out = tuple(f"{write_name(name)} is left out: {why}" for name, why in document["left_out"].items())
    return Section("all-plays", "All plays", (table, *([Text(left_out, "warning")] if left_out else [])), folded=True)
