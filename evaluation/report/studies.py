"""The pages of studies: audit.json, sensitivity.json and tricks.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.findings import counted, percent
from evaluation.leaderboard.document import interval, shown
from evaluation.leaderboard.titles import metric_title
from evaluation.report.page import Block, Cell, Column, Page, Section, Table, Text, Tone, document_page
from evaluation.report.result import Document
from evaluation.report.tables import (
    name_some,
    percent_cell,
    rank_cell,
    shaded_table,
    share_cell,
    show_rest,
    table_of,
    with_key,
    write_name,
)
from evaluation.study.sensitivity import MEASURES, ONE_PIXEL, PERTURBATIONS

# --- the audit: does the first rank hold under other rules, and which rule changes it? --------------------------------


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
    sections = [first_place_section(document), *rule_sections(document), method_section(document)]
    teams = [team["name"] for team in document["teams"]]
    subtitle = "The ranking under other rules"
    return document_page("audit", document, sections, subtitle=subtitle, teams=teams)


def first_place_section(document: Document) -> Section:
    """The answer, and the ranks of all teams."""
    blocks: tuple[Block, ...] = (answer_text(document), team_table(document))
    return Section("first-place", "Can the first rank be defended?", blocks)


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
        Column("part", 2, "shared first ranks in equal parts: those of all teams make 1", "first_share"),
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
            "mean share of the pairs of teams whose order changes",
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
        "What was varied, and the share of the first ranks under each value",
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
    return Section("varied-rules", "The method", blocks, lead, folded=True)


def unranked_table(teams: Sequence[Document]) -> Table:
    """Teams without a rank, and why."""
    columns = (Column("team", of="name"), Column("code", of="code"), Column("reason", of="reason"))
    return table_of("unranked", "Teams that are not ranked", teams, *columns, rest="teams of the JSON")


# --- sensitivity: what a pixel costs, and which rules break -----------------------------------------------------------


CLASSES_UP_TO = 30  # in plots and tables; sensitivity.json has all
ALL_NUCLEI = "all nuclei"
IN_BARS = (*ONE_PIXEL, "halved")
DEFINITIONS = (
    "Eroded and dilated: by pixels with a 4-neighbour outside the nucleus, each nucleus by itself; at the border of "
    "the image nuclei go on. Shifted: down, with the whole image; what leaves it is gone. Half the resolution: blocks "
    "of 2 x 2 pixels from the upper left corner; a block belongs to a nucleus that covers more than half of it, or "
    "half of it with its upper left pixel.",
    "Each nucleus is compared with its changed copy. One without a pixel left has IoU, Dice and surface Dice 0, and "
    "no distance. Given are the median, and in brackets the 10 % and the 90 % quantile.",
    "For matching rules the changed reference is a submission, neighbours and ignore regions included. A nucleus is "
    "lost if it is not paired with its changed copy; those without a pixel left are not counted.",
)


def sensitivity_page(document: Document) -> Page:
    """The page of the content of a sensitivity.json."""
    sections = [advice_section(document)]
    if document["nuclei"]:
        sections += [rule_section(document), number_section(document)]
    sections.append(definition_section(document))
    subtitle = "The reference against itself, drawn a pixel differently"
    return document_page("sensitivity", document, sections, subtitle=subtitle)


# --- access to the document -------------------------------------------------------------------------------------------


def of_all_sizes(document: Document) -> list[Document]:
    """All nuclei, and those of each class, if there are several, that has any."""
    found = [of for of in document["strata"] if of["size_px"] is None and of["nuclei"]]
    return found[: 1 + CLASSES_UP_TO] if len(found) > 2 else found[:1]


def of_sizes(document: Document) -> list[Document]:
    """Nuclei of each size, of whatever class."""
    return [of for of in document["strata"] if of["class"] is None and of["size_px"] is not None]


def name_of(of: Document) -> str:
    """The class, or the size; different for different classes."""
    if of["size_px"] is not None:
        low, high = of["size_px"]["from"], of["size_px"]["below"]
        return f"from {low} px" if high is None else f"{low} to {high} px"
    if of["class"] is None:
        return ALL_NUCLEI
    return f"class {of['class']}" if of["class"] == ALL_NUCLEI else str(of["class"])


def effect_of(of: Document, perturbation: str) -> Document:
    effects: dict[str, Document] = {effect["perturbation"]: effect for effect in of["effects"]}
    return effects[perturbation]


def spread_cell(row: tuple[Document, str], measure: str) -> Cell:
    """The median, and the range of eight nuclei of ten, of some nuclei under a change."""
    spread = effect_of(*row)["measures"][measure]
    if spread["median"] is None:
        return Cell(None, "–")
    return Cell(spread["median"], f"{spread['median']:.2f} ({spread['low']:.2f}–{spread['high']:.2f})")


# --- sections ---------------------------------------------------------------------------------------------------------


def advice_section(document: Document) -> Section:
    """The advice in words, and what a pixel costs each class and each size as a table."""
    first, *others = document["advice"]
    blocks: list[Block] = [Text((first["text"],), "warning" if first["is_warning"] else "good")]
    for is_warning in (True, False):
        texts = tuple(advice["text"] for advice in others if advice["is_warning"] is is_warning)
        blocks += [Text(texts, "warning" if is_warning else "plain")] if texts else []
    if not (chosen := of_all_sizes(document)):
        return Section("advice", "What to do", tuple(blocks))

    def cost(of: Document) -> Cell:
        return Cell(of["one_pixel_costs"], f"{of['one_pixel_costs']:.2f}", shade=of["one_pixel_costs"])

    def iou(of: Document, name: str) -> Cell:
        return spread_cell((of, name), "iou")

    table = table_of(
        "classes",
        "What a pixel costs each class and each size",
        [*chosen, *of_sizes(document)],
        Column("nuclei of", of=name_of),
        Column("IoU lost for a pixel", 2, "by the worst change by one pixel, in the median", cost),
        *(Column(f"IoU, {PERTURBATIONS[name].replace('by ', '')}", 2, of=with_key(iou, name)) for name in IN_BARS),
        Column("nuclei", 0, of="nuclei"),
        Column("diameter, px", 0, "the median", "diameter_px.median"),
    )
    return Section("advice", "What to do", (*blocks, table))


def rule_section(document: Document) -> Section:
    """Which matching rules lose nuclei, by change."""
    names = [f"{of['words']} (yours: {of['name']})" if of["is_own"] else str(of["words"]) for of in document["rules"]]
    effects = document["strata"][0]["effects"]
    values = [[effect["lost"].get(rule["name"]) for effect in effects] for rule in document["rules"]]
    table = shaded_table(
        "lost",
        "Share of nuclei that a rule does not find again",
        names,
        list(PERTURBATIONS.values()),
        values,
        texts=[["–" if value is None else percent(value, 1) for value in row] for row in values],
        head="matching rule",
        note="Not paired with their changed copy, by matching rule and by change.",
    )
    lead = "The changed reference as a submission: every nucleus is there, and a rule should find each again."
    return Section("rules", "Which matching rules break", (table,), lead)


def number_section(document: Document) -> Section:
    """All measures of all classes, and of all sizes."""
    rows = [(of, change) for of in [*of_all_sizes(document), *of_sizes(document)] for change in PERTURBATIONS]
    classes = sum(of["size_px"] is None and of["class"] is not None for of in document["strata"])
    table = table_of(
        "measures",
        "Median (10 % to 90 % quantile) of every measure",
        rows,
        Column("nuclei of", of=lambda row: name_of(row[0])),
        Column("change", of=lambda row: PERTURBATIONS[row[1]]),
        Column("vanished", 0, "those without a pixel left", lambda row: effect_of(*row)["vanished"]),
        *(Column(metric_title(measure), 2, of=with_key(spread_cell, measure)) for measure in MEASURES),
        rest="rows of sensitivity.json",
        note=show_rest(classes, CLASSES_UP_TO, "classes of sensitivity.json"),
    )
    return Section("numbers", "All numbers", (table,), folded=True)


def definition_section(document: Document) -> Section:
    """How it was computed, and of how many nuclei."""
    sizes = (
        f"{counted(document['nuclei'], 'nucleus', 'nuclei')} in {counted(document['cases'], 'case')}, "
        f"{document['empty_cases']:,} of them without nuclei. "
        f"{counted(document['one_pixel_nuclei'], 'nucleus is', 'nuclei are')} a single pixel."
    )
    return Section("definitions", "How it is computed", (Text((sizes, *DEFINITIONS)),), folded=True)


# --- tricks: which attempts to game the ranking work, for whom --------------------------------------------------------


def tricks_page(document: Document) -> Page:
    """The page of the content of a tricks.json."""
    sections = [trick_section(document), entry_section(document), play_section(document)]
    subtitle = "Can a team gain ranks by handing in something worse?"
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
        "the team ranks higher although its pooled F1 or its pooled class score fell by more than 0.005."
    )
    return Section("tried-section", "What works, and for whom", tuple(blocks), lead)


def entry_section(document: Document) -> Section:
    """Which entries decide the first rank, and which are nearly the same."""
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
    none = "No team's absence or second entry gives the first rank to another team; no two share their outlines."
    lead = "No sum of ranks stops a second entry from turning the order of others: rank one entry for each team."
    return Section(
        "entries", "Entries that decide the first rank", (table if table.rows else Text((none,), "good"),), lead
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
        Column("rank before", 1, of="before"),
        Column("rank after", 1, of="after"),
        Column("F1", 3, "change, pooled", of="f1_change"),
        Column("class score", 3, "change, pooled", of="class_score_change"),
        Column("works", of=lambda play: "yes" if play["pays"] else ""),
        rest="plays of tricks.json",
    )
    left_out = tuple(f"{write_name(name)} is left out: {why}" for name, why in document["left_out"].items())
    return Section("all-plays", "All plays", (table, *([Text(left_out, "warning")] if left_out else [])), folded=True)
