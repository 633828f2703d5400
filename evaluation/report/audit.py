"""The page of an audit (audit.json): does the first place hold under other rules, and which rule changes it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from evaluation.findings import counted
from evaluation.leaderboard.document import interval, shown
from evaluation.leaderboard.titles import titles_by_path
from evaluation.report.documents import document_page
from evaluation.report.listing import percent_cell, share_cell, show_rest, table_of
from evaluation.report.page import Block, Cell, Column, Figure, Page, Section, Table, Text, Tile, Tiles, Tone
from evaluation.report.plots import place_discs, rank_lines
from evaluation.report.result import Document
from evaluation.report.team_labels import label_teams, write_name

LINES_UP_TO = 20  # teams in a plot of lines
TEAMS_UP_TO = 110  # teams in other plots
VARIANTS_UP_TO = 40  # variants side by side
VALUES_UP_TO = 12  # of a rule that are named
TONES: Mapping[str, Tone] = {
    "yes": "good",
    "untested": "warning",
    "undecided": "warning",
    "shared": "warning",
    "no": "bad",
}
APART = {"predictions": "none", "patients": "all"}  # dimensions that are no rules, and their published values


def audit_page(document: Document) -> Page:
    """The page of the content of an audit.json."""
    labels = labels_of(document, len(document["teams"]))
    sections = [
        verdict_section(document),
        *rule_sections(document),
        swap_section(document),
        difference_section(document),
        method_section(document),
    ]
    teams = [(team["name"], label) for team, label in zip(document["teams"], labels, strict=True)]
    subtitle = "The ranking under other rules"
    return document_page("audit", document, sections, subtitle=subtitle, teams=teams)


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict_section(document: Document) -> Section:
    """The answer, the places of all teams as a picture and as a table, and how alike the orders are."""
    tau = document["kendall_tau"]
    detail = "not defined, or there are too many different orders"
    if tau["mean"] is not None:
        detail = f"mean over all pairs of variants, {tau['low'] or 0:.2f} at the lowest; 1 is the same order"
    tiles = Tiles(
        (
            Tile("variants", rule_variants(document), "combinations of rules that were ranked"),
            Tile("different orders", len(document["orders"]), "of the teams among them"),
            Tile("Kendall’s tau", tau["mean"], detail),
        )
    )
    robustness = [Text(tuple(notes))] if (notes := document["first_place"].get("predictions")) else []
    blocks: tuple[Block, ...] = (
        answer_text(document), *robustness, *place_figure(document), team_table(document), tiles,
    )  # fmt: skip
    return Section("first-place", "Can the first place be defended?", blocks)


def answer_text(document: Document) -> Text:
    first = document["first_place"]
    return Text(tuple(first["answer"]), TONES.get(first["defended"], "plain"))


def rule_variants(document: Document) -> int:
    """Variants of the rules: those with the predictions as they are, and all patients."""
    return int(document["first_place"].get("variants", len(document["variants"])))


def labels_of(document: Document, limit: int) -> list[str]:
    """The names of the first teams beside plots; a team has the same label in every plot."""
    return label_teams([team["name"] for team in document["teams"]])[:limit]


def team_table(document: Document) -> Table:
    """How stable the place of each team is."""
    variants = rule_variants(document)

    def places(team: Document) -> Cell:
        among = team["places"]
        return Cell(among["low"], interval(among["low"], among["high"])) if among else Cell(None, "–")

    return table_of(
        "audit-teams",
        f"Places in {counted(variants, 'variant')}",
        document["teams"],
        Column("team", of="name"),
        Column("place", 1, "by the challenge’s own rules", lambda of: Cell(of["published"], shown(of["published"]))),
        Column("places", 1, "the best and the worst in all variants", places),
        Column("first", 0, "alone or with others", lambda team: share_cell(team["first"], variants)),
        Column("part", 2, "shared first places in equal parts: those of all teams make 1", "first_share"),
        Column("alone", 0, "variants in which no other team is first as well", "first_alone"),
        Column("not ranked", 0, "in how many variants it has no place", "not_ranked"),
        Column("first when", None, "which variants those are", "first_when"),
        rest="teams of audit.json",
    )


def is_by_rules(variant: Document) -> bool:
    """Whether a variant has all patients and unchanged predictions."""
    return all(of["value"] == APART.get(of["dimension"], of["value"]) for of in variant["settings"])


def place_figure(document: Document) -> list[Figure]:
    """In which share of the variants of the rules each team has each place."""
    variants, teams = rule_variants(document), document["teams"][:TEAMS_UP_TO]
    if variants < 2 or not teams:
        return []
    counts = {team["name"]: Counter[float]() for team in teams}
    for order, times in Counter(variant["order"] for variant in document["variants"] if is_by_rules(variant)).items():
        for entry in document["orders"][order]:
            if entry["position"] is not None and entry["team"] in counts:
                counts[entry["team"]][entry["position"]] += times
    shares = [{place: times / variants for place, times in counts[team["name"]].items()} for team in teams]
    rest = show_rest(len(document["teams"]), TEAMS_UP_TO, "teams of audit.json", before=" ")
    description = f"The area of a disc is the share of the {variants:,} variants.{rest}"
    labels = labels_of(document, TEAMS_UP_TO)
    return [place_discs("audit-places", "Places in all variants", description, labels, shares, "variants")]


# --- the rules --------------------------------------------------------------------------------------------------------


def rule_sections(document: Document) -> list[Section]:
    """What rules change: one at a time, and how alike the orders are; on the page of a leaderboard as well."""
    chosen = choose_variants(document)
    blocks: list[Block] = [effect_table(document)]
    lead = "All pairs of variants are compared that differ in one rule only."
    if len(chosen) > 1 and document["teams"]:
        is_published = published_variant(document) is not None
        names = [name for name, _ in chosen]
        orders = [variant["order"] for _, variant in chosen]
        places = [{entry["team"]: entry["position"] for entry in document["orders"][order]} for order in orders]
        lines = rank_lines(
            "audit-lines",
            "Places of the teams, one rule changed at a time" if is_published else "Places of the teams",
            names,
            labels_of(document, LINES_UP_TO),
            [[of[team["name"]] for of in places] for team in document["teams"][:LINES_UP_TO]],
            note=show_rest(len(document["teams"]), LINES_UP_TO, "teams of audit.json"),
            is_published=is_published,
        )
        blocks.insert(0, lines)
        shows = "change one rule of the challenge at a time" if is_published else "show the variants that were given"
        lead += f" The plots {shows}."
    return [Section("rules", "What one rule changes", tuple(blocks), lead)]


def published_variant(document: Document) -> Document | None:
    return next((variant for variant in document["variants"] if variant["published"]), None)


def choose_variants(document: Document) -> list[tuple[str, Document]]:
    """The variants that are shown side by side, each with a short name; at most VARIANTS_UP_TO.

    The challenge's own comes first, then those that differ from it in one rule. Without an own one: all variants.
    """

    def values_of(variant: Document) -> tuple[str, ...]:
        return tuple(setting["value"] for setting in variant["settings"])

    own = published_variant(document)
    if own is None:
        named = [(", ".join(values_of(variant)), variant) for variant in document["variants"][:VARIANTS_UP_TO]]
        return named if len(dict(named)) == len(named) else []
    by_settings = {values_of(variant): variant for variant in document["variants"]}
    found = [("as published", own)]
    for index, dimension in enumerate(document["dimensions"]):
        for value in dimension["values"]:
            values = list(values_of(own))
            if values[index] != value:
                values[index] = value
                if (other := by_settings.get(tuple(values))) is not None:
                    found.append((f"{dimension['name']}: {value}", other))
    return found[:VARIANTS_UP_TO]


def effect_table(document: Document) -> Table:
    """What a change of one rule alone changes, the rule with the largest effect first."""
    values = {dimension["name"]: some_values(dimension) for dimension in document["dimensions"]}

    def strength(effect: Document) -> tuple[bool, float, float, str]:
        is_rule = effect["dimension"] not in APART
        first = effect["first_changes"] / effect["comparisons"]
        return not is_rule, -(effect.get("pairs_changed") or 0), -first, effect["dimension"]

    shown = sorted((effect for effect in document["effects"] if effect["comparisons"]), key=strength)
    without = [f"{one['tau_undefined']:,} of {one['dimension']}" for one in shown if one.get("tau_undefined")]
    help_of_pairs = "mean share of the pairs of teams that stand otherwise"
    help_of_first = "comparisons in which another team, or another number of teams, is first"
    return table_of(
        "effects",
        "Rules, the one that moves the order most first",
        shown,
        Column("rule", of="dimension"),
        Column("first changes", 0, help_of_first, lambda of: share_cell(of["first_changes"], of["comparisons"])),
        Column("pairs turned", 0, help_of_pairs, lambda of: percent_cell(of.get("pairs_changed"))),
        Column("mean tau", 2, "Kendall’s tau-b between two variants; 1 is the same order", "kendall_tau.mean"),
        Column("lowest tau", 2, of="kendall_tau.low"),
        Column("same order", 0, "share of all", lambda of: percent_cell(of["same_order"])),
        Column("values", of=lambda effect: values[effect["dimension"]]),
        note=f"Tau leaves out comparisons in which all teams share a place: {', '.join(without)}." if without else "",
    )


# --- pairs of teams ---------------------------------------------------------------------------------------------------


def swap_section(document: Document) -> Section:
    """Pairs of teams whose order differs between variants."""
    variants, swaps = rule_variants(document), document["swaps"]
    if not swaps:
        return Section("swaps", "Teams that swap", (Text(("No two teams stand in both orders.",), "good"),))

    table = table_of(
        "swap-table",
        "Pairs of teams that stand in both orders",
        swaps,
        Column("ahead", None, "as published; else in most variants", lambda swap: write_name(swap["ahead"])),
        Column("behind", of=lambda swap: write_name(swap["behind"])),
        Column("turned", 0, "variants with the other order", lambda swap: share_cell(swap["turned"], variants)),
        Column("tied", 0, "in how many they share a place", "tied"),
        Column("rule", None, "that turns them most often", lambda swap: swap["rule"] or "several at once"),
        Column("turned when", of="turned_when"),
        rest="pairs of audit.json",
    )
    return Section("swaps", "Teams that swap", (table,))


def difference_section(document: Document) -> Section:
    """Significant differences, and whether they stay under other rules."""
    found = document["significant_differences"]
    if not found:
        none = "No difference between two teams is significant in any variant, or none could be tested."
        return Section("differences", "Significant differences", (Text((none,)),))
    titles = titles_by_path(list(dict.fromkeys(one["column"] for one in found)))
    table = table_of(
        "difference-table",
        "Differences that are significant in some variant",
        found,
        Column("column", of=lambda one: titles[one["column"]]),
        Column("better", of=lambda one: write_name(one["better"])),
        Column("worse", of=lambda one: write_name(one["worse"])),
        Column("verdict", of=lambda one: "in all" if one["survives"] else "robust" if one["robust"] else "in some"),
        Column("significant", 0, "variants of the scores", lambda one: share_cell(one["significant"], one["tables"])),
        Column("opposite", 0, "in how many it is significantly worse", "opposite"),
        Column("same direction", 0, "in how many its value is the better one", "same_direction"),
        rest="differences of audit.json",
        note="Robust: the same direction in all variants, and significant in at least half of them.",
    )
    return Section("differences", "Significant differences", (table,))


# --- the method -------------------------------------------------------------------------------------------------------


def method_section(document: Document) -> Section:
    """What was varied, who is not ranked, what is left out."""
    varied = table_of(
        "varied",
        "Rules that were varied",
        document["dimensions"],
        Column("rule", of="name"),
        Column("the challenge’s own", of=lambda dimension: dimension["published"] or "–"),
        Column("values that were tried", of=some_values),
        sortable=False,
    )
    unranked = [unranked_table(document["not_ranked"])] if document["not_ranked"] else []
    notes = tuple(document["notes"])
    lead = (
        "Every combination of the rules that were tried is a variant; in each all teams are ranked anew. Shares of "
        "variants are no probabilities: they say how much of what was tried agrees."
    )
    return Section("varied-rules", "The method", (varied, *unranked, *([Text(notes)] if notes else [])), lead)


def some_values(dimension: Document) -> str:
    values = dimension["values"]
    rest = [f"{len(values) - VALUES_UP_TO:,} more"] if len(values) > VALUES_UP_TO else []
    return ", ".join([*values[:VALUES_UP_TO], *rest])


def unranked_table(teams: Sequence[Document]) -> Table:
    """Teams without a place, and why."""
    columns = (Column("team", of="name"), Column("code", of="code"), Column("reason", of="reason"))
    return table_of("unranked", "Teams that are not ranked", teams, *columns, rest="teams of the JSON")
