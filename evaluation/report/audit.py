"""The page of an audit, made of audit.json: can the first place be defended, and which rule moves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.analysis.audit_document import decimal, plural
from evaluation.leaderboard.document import interval, percent, short_titles, shown
from evaluation.report.documents import embed_document, identify_document, show_rest
from evaluation.report.figures import blob_figure, heat_map_figure
from evaluation.report.page import Block, Cell, Column, Page, Section, Table, Text, Tile, Tiles, Tone
from evaluation.report.rank_lines import rank_lines
from evaluation.report.team_labels import label_teams, write_name

LINES_UP_TO = 20  # teams in a plot of lines
TEAMS_UP_TO = 50  # teams in other plots
VARIANTS_UP_TO = 40  # variants side by side
ROWS_UP_TO = 200  # rows of a table

TONES: Mapping[str, Tone] = {"yes": "good", "shared": "warning", "no": "bad"}


def audit_page(document: Mapping[str, Any], *, title: str = "") -> Page:
    """The page of the content of an audit.json."""
    identity = document["challenge"] or {}
    data, told = embed_document("audit", document)
    return Page(
        title=title or (f"{identity['name']}: audit" if identity else "Audit"),
        subtitle="What becomes of the ranking under other rules",
        facts=identify_document(document),
        sections=(
            first_place_section(document),
            *rule_sections(document),
            swap_section(document),
            difference_section(document),
            notes_section(document, told),
        ),
        data=data,
    )


# --- the answer -------------------------------------------------------------------------------------------------------


def first_place_section(document: Mapping[str, Any]) -> Section:
    """The answer, the main numbers, and every team."""
    variants = len(document["variants"])
    tau = document["kendall_tau"]
    tiles = Tiles(
        (
            Tile("variants", variants, "combinations of rules that were ranked"),
            Tile("different orders", len(document["orders"]), "of the teams among them"),
            Tile("Kendall’s tau", tau["mean"], tau_detail(tau)),
        )
    )
    return Section(
        "first-place",
        "Can the first place be defended?",
        (answer_text(document), tiles, team_table(document), *place_blob(document)),
        lead="Every combination of the rules that were tried is a variant; in each all teams are ranked anew. "
        "Shares of variants are no probabilities: they say how much of what was tried agrees.",
    )


def answer_text(document: Mapping[str, Any]) -> Text:
    first = document["first_place"]
    return Text(tuple(first["answer"]), TONES.get(first["defended"], "plain"))


def tau_detail(tau: Mapping[str, Any]) -> str:
    if tau["mean"] is None:
        return "not defined, or there are too many different orders"
    return f"in the mean over all pairs of variants, {decimal(tau['low'])} at the lowest; 1 is the same order"


def labels_of(document: Mapping[str, Any], limit: int) -> list[str]:
    """The names of the first teams beside plots, which are the same beside each."""
    return label_teams([team["name"] for team in document["teams"]])[:limit]


def team_table(document: Mapping[str, Any]) -> Table:
    """How far each team can be trusted."""
    variants = len(document["variants"])
    columns = (
        Column("team"),
        Column("place", 1, "by the challenge’s own rules"),
        Column("places", 1, "the best and the worst in all variants"),
        Column("first", 0, "in how many variants it is first, alone or with others"),
        Column("alone", 0, "in how many of them nobody shares this"),
        Column("not ranked", 0, "in how many variants it has no place"),
        Column("first when", None, "which variants those are"),
    )
    rows = []
    for team in document["teams"][:ROWS_UP_TO]:
        places = team["places"]
        first = f"{team['first']:,} ({percent(team['first'] / variants)})"
        rows.append(
            (
                team["name"],
                Cell(team["published"], shown(team["published"])),
                Cell(places and places["low"], interval(places["low"], places["high"]) if places else "–"),
                Cell(team["first"], first, shade=team["first"] / variants),
                team["first_alone"],
                team["not_ranked"],
                team["first_when"],
            )
        )
    return Table(
        "audit-teams",
        f"Places in {plural(variants, 'variant')}",
        columns,
        tuple(rows),
        note=show_rest(len(document["teams"]), ROWS_UP_TO, "teams", "audit.json"),
    )


def place_blob(document: Mapping[str, Any]) -> list[Block]:
    """In which share of the variants each team has each place."""
    variants = len(document["variants"])
    teams = document["teams"][:TEAMS_UP_TO]
    if variants < 2 or not teams:
        return []
    by_team = {team["name"]: Counter[float]() for team in teams}
    for order, times in Counter(variant["order"] for variant in document["variants"]).items():
        for entry in document["orders"][order]:
            if entry["position"] is not None and entry["team"] in by_team:
                by_team[entry["team"]][entry["position"]] += times
    places = sorted({place for counts in by_team.values() for place in counts})
    labels = labels_of(document, TEAMS_UP_TO)
    shares = [[by_team[team["name"]][place] / variants for place in places] for team in teams]
    hover = [
        [
            f"{label}\nplace {shown(place)} in {by_team[team['name']][place]:,} of {variants:,} variants"
            for place in places
        ]
        for label, team in zip(labels, teams, strict=True)
    ]
    return [
        blob_figure(
            "audit-places",
            "Places in all variants",
            "The area of a disc is the share of the variants; the table above has the best and the worst place of each "
            "team." + show_rest(len(document["teams"]), TEAMS_UP_TO, "teams", "audit.json", before=" "),
            rows=labels,
            columns=[shown(place) for place in places],
            shares=shares,
            x_title="place",
            hover=hover,
        )
    ]


# --- the rules --------------------------------------------------------------------------------------------------------


def rule_sections(document: Mapping[str, Any]) -> list[Section]:
    """What rules change: one at a time, and how alike the orders are; on the page of a leaderboard as well."""
    chosen = choose_variants(document)
    blocks: list[Block] = [effect_table(document)]
    lead = "All pairs of variants are compared that differ in one rule only."
    if len(chosen) > 1 and document["teams"]:
        blocks += [variant_lines(document, chosen), *tau_map(document, chosen)]
        lead += (
            " The plots change one rule of the challenge at a time."
            if published_variant(document) is not None
            else " The plots show the variants that were given."
        )
    return [Section("rules", "What one rule changes", tuple(blocks), lead=lead)]


def published_variant(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((variant for variant in document["variants"] if variant["published"]), None)


def choose_variants(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Variants that stand side by side, with what is special about each: the challenge's own first.

    Beside it those that differ from it in one rule only; all, if none is the challenge's own. At most VARIANTS_UP_TO.
    """
    own = published_variant(document)
    if own is None:
        named = [(", ".join(s["value"] for s in v["settings"]), v) for v in document["variants"][:VARIANTS_UP_TO]]
        return list(dict(named).items()) if len(dict(named)) == len(named) else []
    by_settings = {values_of(variant): variant for variant in document["variants"]}
    found = [("as published", own)]
    for place, dimension in enumerate(document["dimensions"]):
        for value in dimension["values"]:
            values = list(values_of(own))
            if values[place] != value:
                values[place] = value
                if (other := by_settings.get(tuple(values))) is not None:
                    found.append((f"{dimension['name']}: {value}", other))
    return found[:VARIANTS_UP_TO]


def values_of(variant: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(setting["value"] for setting in variant["settings"])


def effect_table(document: Mapping[str, Any]) -> Table:
    """What each rule does alone, the strongest first."""
    values = {dimension["name"]: dimension["values"] for dimension in document["dimensions"]}

    def strength(effect: Mapping[str, Any]) -> tuple[float, float, str]:
        mean = effect["kendall_tau"]["mean"]
        return 2.0 if mean is None else mean, -effect["first_changes"] / effect["comparisons"], effect["dimension"]

    effects = sorted((effect for effect in document["effects"] if effect["comparisons"]), key=strength)
    rows = [
        (
            effect["dimension"],
            ", ".join(values[effect["dimension"]]),
            effect["kendall_tau"]["mean"],
            effect["kendall_tau"]["low"],
            Cell(effect["same_order"], percent(effect["same_order"])),
            Cell(
                effect["first_changes"],
                f"{effect['first_changes']:,} of {effect['comparisons']:,}",
                shade=effect["first_changes"] / effect["comparisons"],
            ),
        )
        for effect in effects
    ]
    columns = (
        Column("rule"),
        Column("values"),
        Column(
            "mean tau", 2, "Kendall’s tau-b between two variants that differ in this rule only; 1 is the same order"
        ),
        Column("lowest tau", 2),
        Column("same order", 0, "share of the comparisons"),
        Column("first changes", 0, "comparisons in which another team, or another number of teams, is first"),
    )
    return Table("effects", "Rules, the one that moves the order most first", columns, tuple(rows))


def variant_lines(document: Mapping[str, Any], chosen: Sequence[tuple[str, Mapping[str, Any]]]) -> Block:
    """The places of the teams in variants side by side."""
    names = [team["name"] for team in document["teams"][:LINES_UP_TO]]
    places = [{e["team"]: e["position"] for e in document["orders"][variant["order"]]} for _, variant in chosen]
    is_published = published_variant(document) is not None
    return rank_lines(
        "audit-lines",
        "Places of the teams, one rule changed at a time" if is_published else "Places of the teams",
        rules=[name for name, _ in chosen],
        teams=labels_of(document, LINES_UP_TO),
        ranks=[[of[name] for of in places] for name in names],
        note=show_rest(len(document["teams"]), LINES_UP_TO, "teams", "audit.json"),
        is_published=is_published,
    )


def tau_map(document: Mapping[str, Any], chosen: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Block]:
    """Kendall's tau between variants side by side."""
    between = document["kendall_tau"]["between_orders"]
    if between is None:
        return [Text(("There are too many different orders to tell Kendall’s tau between all of them.",))]
    names = [name for name, _ in chosen]
    orders = [variant["order"] for _, variant in chosen]
    values = [[between[one][other] for other in orders] for one in orders]
    return [tau_figure("audit-tau", "Kendall’s tau between the variants", names, values)]


def tau_figure(anchor: str, caption: str, names: Sequence[str], values: Sequence[Sequence[float | None]]) -> Block:
    """A heat map of Kendall's tau between rankings by different rules."""
    pairs = [
        (value, names[row], names[column])
        for row, of in enumerate(values)
        for column, value in enumerate(of[:row])
        if value is not None
    ]
    least = min(pairs, default=None)
    told = f" The least alike are {least[1]} and {least[2]} ({decimal(least[0])})." if least else ""
    return heat_map_figure(
        anchor,
        caption,
        f"1: the same order, −1: the reverse; empty: undefined.{told}",
        rows=names,
        columns=names,
        values=values,
        scale="diverging",
        value_range=(-1, 1),
        value_title="tau",
    )


# --- pairs of teams ---------------------------------------------------------------------------------------------------


def swap_section(document: Mapping[str, Any]) -> Section:
    """Teams that stand in both orders."""
    variants = len(document["variants"])
    swaps = document["swaps"]
    if not swaps:
        return Section("swaps", "Teams that swap", (Text(("No two teams stand in both orders.",), "good"),))
    rows = [
        (
            write_name(swap["ahead"]),
            write_name(swap["behind"]),
            Cell(swap["turned"], f"{swap['turned']:,} of {variants:,}", shade=swap["turned"] / variants),
            swap["tied"],
            swap["rule"] or "several at once",
            swap["turned_when"],
        )
        for swap in swaps[:ROWS_UP_TO]
    ]
    columns = (
        Column("ahead", None, "as published; else in most variants"),
        Column("behind"),
        Column("turned", 0, "in how many variants they stand the other way"),
        Column("tied", 0, "in how many they share a place"),
        Column("rule", None, "the one that turns them in the largest share of its comparisons"),
        Column("turned when"),
    )
    note = show_rest(len(swaps), ROWS_UP_TO, "pairs", "audit.json")
    table = Table("swap-table", "Pairs of teams that stand in both orders", columns, tuple(rows), note=note)
    return Section("swaps", "Teams that swap", (table,))


def difference_section(document: Mapping[str, Any]) -> Section:
    """Significant differences, and whether they stay under other rules."""
    found = document["significant_differences"]
    title = "Significant differences"
    if not found:
        told = "No difference between two teams is significant in any variant, or none could be tested."
        return Section("differences", title, (Text((told,)),))
    paths = list(dict.fromkeys(one["column"] for one in found))
    titles = dict(zip(paths, short_titles(paths), strict=True))
    rows = [
        (
            titles[one["column"]],
            write_name(one["better"]),
            write_name(one["worse"]),
            "in all" if one["survives"] else "robust" if one["robust"] else "in some",
            Cell(one["significant"], f"{one['significant']:,} of {one['tables']:,}"),
            one["opposite"],
            one["same_direction"],
        )
        for one in found[:ROWS_UP_TO]
    ]
    columns = (
        Column("column"),
        Column("better"),
        Column("worse"),
        Column("verdict", None, "whether it is significant in all variants of the scores"),
        Column("significant", 0, "in how many variants of the scores"),
        Column("opposite", 0, "in how many it is significantly worse"),
        Column("same direction", 0, "in how many its value is the better one"),
    )
    note = "Robust: the same direction in all variants, and significant in at least half of them. "
    note += show_rest(len(found), ROWS_UP_TO, "differences", "audit.json")
    caption = "Differences that are significant in some variant"
    return Section("differences", title, (Table("difference-table", caption, columns, tuple(rows), note=note.strip()),))


def notes_section(document: Mapping[str, Any], told: str) -> Section:
    """What was varied, who is not ranked, what is left out."""
    rows = tuple(
        (dimension["name"], dimension["published"] or "–", ", ".join(dimension["values"]))
        for dimension in document["dimensions"]
    )
    columns = (Column("rule"), Column("the challenge’s own"), Column("values that were tried"))
    blocks: list[Block] = [Table("varied", "Rules that were varied", columns, rows, sortable=False)]
    if document["not_ranked"]:
        blocks.append(unranked_table(document["not_ranked"]))
    if notes := tuple(filter(None, [*document["notes"], told])):
        blocks.append(Text(notes))
    return Section("varied-rules", "What was varied", tuple(blocks))


def unranked_table(teams: Sequence[Mapping[str, Any]]) -> Table:
    """Teams without a place, and why."""
    return Table(
        "unranked",
        "Teams that are not ranked",
        (Column("team"), Column("code"), Column("reason")),
        tuple((team["name"], team["code"], team["reason"]) for team in teams[:ROWS_UP_TO]),
        note=show_rest(len(teams), ROWS_UP_TO, "teams", "the JSON"),
    )
