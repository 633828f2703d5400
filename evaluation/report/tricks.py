"""The page of tricks.json: which tricks pay, for whom, under which rankings, and which entries decide who is first."""

from __future__ import annotations

from collections import Counter

from evaluation.leaderboard.document import shown
from evaluation.report.documents import document_page
from evaluation.report.listing import table_of
from evaluation.report.page import Block, Cell, Column, Page, Section, Text, Tile, Tiles
from evaluation.report.result import Document
from evaluation.report.team_labels import name_some, write_name


def tricks_page(document: Document) -> Page:
    """The page of the content of a tricks.json."""
    sections = [paying_section(document), closing_section(document), entry_section(document), play_section(document)]
    subtitle = "Can a team gain places by handing in something worse?"
    return document_page("tricks", document, sections, subtitle=subtitle)


def paying_section(document: Document) -> Section:
    """Which tricks pay, and for whom."""
    tricks = {trick["name"]: trick for trick in document["tricks"]}
    honest, paying = tricks_played(document)
    of_trick = Counter(play["trick"] for play in paying)
    open_to_all = sum(tricks[play["trick"]]["kind"] == "participant" for play in paying)
    tiles = Tiles(
        (
            Tile("plays that pay", len(paying), f"of {len(honest):,}: a trick, played by a team"),
            Tile("of these open to all", open_to_all, "the others choose by the reference, which no participant has"),
            Tile("teams that would gain", len({play["team"] for play in paying}), "by some trick"),
        )
    )
    verdict = Text(("No trick pays: no team gains places by handing in something worse.",), "good")
    if paying:
        (name, times) = of_trick.most_common(1)[0]
        teams = "1 team" if times == 1 else f"{times:,} teams"
        words = f"{tricks[name]['words'].capitalize()}: that pays for {teams}, more than any other trick."
        verdict = Text((words,), "bad" if open_to_all else "warning")
    findings = tuple(document.get("findings", ()))
    sentences = tuple(document.get("verdict") or ())
    summary = [Text((" ".join(sentences),))] if sentences else []
    blocks: list[Block] = [*summary, verdict, tiles, *([Text(findings, "warning")] if findings else [])]

    def teams_of(name: str) -> str:
        return name_some([play["team"] for play in paying if play["trick"] == name])

    def best_of(name: str) -> Document:
        return min((play for play in paying if play["trick"] == name), key=lambda play: play["after"] - play["before"])

    if paying:
        blocks.append(
            table_of(
                "paying",
                "Tricks that pay",
                [name for name, _ in of_trick.most_common()],
                Column("trick", of=lambda name: tricks[name]["words"]),
                Column("who could", of=lambda name: WHO[tricks[name]["kind"]]),
                Column("pays for", of=teams_of),
                Column("largest climb", of=lambda name: climb_of(best_of(name))),
                Column("its F1", 3, "change of the pooled F1", lambda name: best_of(name)["f1_change"]),
                Column("its class score", 3, "change, pooled", lambda name: best_of(name)["class_score_change"]),
                rest="tricks of tricks.json",
            )
        )
    lead = (
        "Tricks were played on the nuclei of every team, one team at a time, and all teams were ranked again. A trick "
        "pays if the team stands higher although its pooled F1 or its pooled class score fell by more than 0.005."
    )
    return Section("pays", "Which tricks pay, and for whom", tuple(blocks), lead)


def tricks_played(document: Document) -> tuple[list[Document], list[Document]]:
    """All plays but those of honest calibration, and those of them that pay."""
    calibration = {trick["name"] for trick in document["tricks"] if trick["kind"] == "calibration"}
    honest = [play for play in document["plays"] if play["trick"] not in calibration]
    return honest, [play for play in honest if play["pays"]]


WHO = {"participant": "anybody", "reference": "only with the reference", "calibration": "anybody; honest"}


def climb_of(play: Document) -> Cell:
    return Cell(
        play["before"] - play["after"], f"{write_name(play['team'])}, {shown(play['before'])} to {shown(play['after'])}"
    )


def closing_section(document: Document) -> Section | None:
    """Which tricks still pay under other rankings."""
    if not document["changes"] or not tricks_played(document)[1]:
        return None
    closing = next((of for of in document["changes"] if of["pays"] == 0), None)
    words = "Tricks pay under each of them."
    if closing:
        words = f"The smallest change under which no trick pays: {closing['words']}."
    table = table_of(
        "changes",
        "Plays that pay under each ranking",
        document["changes"],
        Column("change of the ranking", of="words"),
        Column("plays that still pay", 0, of="pays"),
        Column("teams that stand elsewhere", 0, "without any trick", "places"),
        sortable=False,
    )
    return Section(
        "closes", "Other rankings of the same submissions", (Text((words,), "good" if closing else "warning"), table)
    )


def entry_section(document: Document) -> Section:
    """Which entries decide the first place, and which are nearly the same."""
    moving = [
        of
        for of in document["entries"]
        if of["first_without_it"] or of["nearly_the_same_as"] or of["first_if_it_is_there_twice"]
    ]
    lead = "No sum of ranks stops a second entry from turning the order of others: rank one entry for each team."
    title = "Entries that decide the first place"
    if not moving:
        none = (
            "No team's absence, and no second entry of a team, gives the first place to another team; no two are alike."
        )
        return Section("entries", title, (Text((none,), "good"),), lead)
    table = table_of(
        "entry-table",
        "Entries that matter to others",
        moving,
        Column("team", of=lambda of: write_name(of["team"])),
        Column("first without it", of=lambda of: name_some(of["first_without_it"])),
        Column("first if it is there twice", of=lambda of: name_some(of["first_if_it_is_there_twice"])),
        Column("nearly the same as", of=lambda of: write_name(of["nearly_the_same_as"])),
        rest="entries of tricks.json",
    )
    return Section("entries", title, (table,), lead)


def play_section(document: Document) -> Section:
    """Every play, those first that climb most."""
    words = {trick["name"]: trick["words"] for trick in document["tricks"]}
    kinds = {trick["name"]: trick["kind"] for trick in document["tricks"]}
    moved = [play for play in document["plays"] if None not in (play["before"], play["after"])]
    plays = sorted(moved, key=lambda play: (play["after"] - play["before"], play["trick"], play["team"]))
    table = table_of(
        "plays",
        "Every play, the largest climbs first",
        plays,
        Column("trick", of=lambda play: words[play["trick"]]),
        Column("who could", of=lambda play: WHO[kinds[play["trick"]]]),
        Column("team", of=lambda play: write_name(play["team"])),
        Column("place before", 1, of="before"),
        Column("place after", 1, of="after"),
        Column("F1", 3, of="f1_change"),
        Column("class score", 3, of="class_score_change"),
        Column("pays", of=lambda play: "yes" if play["pays"] else ""),
        rest="plays of tricks.json",
    )
    left_out = tuple(f"{write_name(name)} is left out: {why}" for name, why in document["left_out"].items())
    sentences = (Text(left_out, "warning"),) if left_out else ()
    return Section("all-plays", "All plays", (table, *sentences), folded=True)
