"""The page of a leaderboard (leaderboard.json): places, differences between teams, and how stable the places are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.findings import counted, percent
from evaluation.leaderboard.document import (
    COMBINED,
    NO_TEST,
    decimal,
    interval,
    probability,
    shown,
)
from evaluation.leaderboard.titles import metric_title, short_titles
from evaluation.leaderboard.verdict import verdict_sentences, why_no_samples
from evaluation.report.audit import TEAMS_UP_TO, answer_text, labels_of, rule_sections, unranked_table
from evaluation.report.common_nuclei import common_section
from evaluation.report.critical_difference import draw_diagram, lay_out_diagram
from evaluation.report.documents import document_page
from evaluation.report.listing import interval_cell, percent_cell, show_rest, table_of, with_key
from evaluation.report.page import Block, Cell, Column, Figure, Page, Section, Table, Text, Tile, Tiles
from evaluation.report.plots import BOX_FROM, Axis, Dot, Series, heat_map, place_discs, plot, rank_lines, series_colour
from evaluation.report.result import Document
from evaluation.report.skills import team_table
from evaluation.report.team_labels import LABEL_UP_TO, label_teams, name_some, write_name

LINES_UP_TO = 20  # teams in a plot of lines
BOXED_VALUES = 6000  # in all box plots together; more are heat maps
MAPPED_VALUES = 20_000  # in a heat map of units; of more the units are thinned
TEAMS = "teams of leaderboard.json"
MARK = "○ "
NOT_RANKED = "“○”: shown and not ranked; it is in nobody's ranks and tests."
FIRST_IN_SAMPLES = "share of the samples in which it is first"


def leaderboard_page(
    document: Document,
    *,
    audit: Document | None = None,
    results: Mapping[str, Document] | None = None,
    title: str = "",
) -> Page:
    """The page of the content of a leaderboard.json.

    audit    the content of an audit.json of the same challenge: the places under other rules
    results  the content of the metrics.json of teams, by name: all their scores side by side
    """
    sections = [verdict_section(document)]
    if (table := team_table(document, results or {})) is not None:
        sections.append(Section("teams", "Detection, classification and segmentation", (table,)))
    sections += moves_section(document)
    if document["teams"]:
        sections += [
            *common_section(document),
            difference_section(document),
            value_section(document),
            unit_section(document),
            stability_section(document),
            method_section(document),
            *audit_sections(document, audit),
        ]
    number = len(document["teams"])
    return document_page(
        "leaderboard",
        document,
        [*sections, rules_section(document)],
        subtitle=f"{counted(number, 'team')}, ranked",
        title=title,
        teams=[(team["name"], label) for label, team in labelled(document, number)],
    )


def column_titles(document: Document) -> list[str]:
    """Names of the columns, with an arrow towards better values."""
    names = short_titles([column["path"] for column in document["columns"]])
    ways = [column["direction"] for column in document["columns"]]
    return [f"{name} {'↑' if way == 'descending' else '↓'}" for name, way in zip(names, ways, strict=True)]


def floor_table(document: Document) -> Table:
    """Teams that are ranked behind the others since they fail a floor, with their numbers there."""
    floors = document["ranking"]["require"]
    below = [team for team in document["teams"] if team.get("below_floor")]
    columns = [Column("team", of="name"), Column("place", 1, of="position")]
    for index, floor in enumerate(floors):
        of = with_key(lambda team, index: Cell(team["floors"][index], decimal(team["floors"][index])), index)
        columns.append(Column(metric_title(floor["path"]), 4, f"at least {floor['at_least']:g}", of=of))
    asked = " and ".join(f"{metric_title(floor['path'])} of at least {floor['at_least']:g}" for floor in floors)
    note = f"Teams without {asked} are ranked among themselves, behind the others."
    return table_of("floors", "Below a floor", below, *columns, rest=TEAMS, note=note)


def unit_of(document: Document) -> str:
    """One of what teams are compared on: "group", "case"."""
    return str(document["units"]["kind"]).removesuffix("s")


def labelled(document: Document, limit: int = TEAMS_UP_TO) -> list[tuple[str, Document]]:
    """The first teams with their names beside plots."""
    return list(zip(labels_of(document, limit), document["teams"][:limit], strict=True))


def shown_entries(document: Document) -> list[tuple[str, Document]]:
    """Entries without a place that have values of units, with marked names beside plots."""
    entries = [entry for entry in document.get("shown", ()) if "by_unit" in entry["columns"][0]]
    return [(MARK + write_name(entry["name"], LABEL_UP_TO), entry) for entry in entries]


def rest_of(document: Document, limit: int = TEAMS_UP_TO) -> str:
    return show_rest(len(document["teams"]), limit, TEAMS, before=" ")


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict_section(document: Document) -> Section:
    """What was found in words, the places as a picture, and the leaderboard itself."""
    blocks: list[Block] = [Text((" ".join(document.get("verdict") or verdict_sentences(document)),))]
    if any(team.get("places") for team in document["teams"]):
        blocks.append(place_figure(document))
    blocks.append(board_table(document))
    if any(team.get("below_floor") for team in document["teams"]):
        blocks.append(floor_table(document))
    if document["not_ranked"]:
        blocks.append(unranked_table(document["not_ranked"]))
    return Section("places", "Who stands where", tuple(blocks))


def moves_section(document: Document) -> list[Section]:
    """Who stands elsewhere than on an older board, and whether the rules are the same; nothing without one."""
    before = document.get("before")
    if before is None:
        return []
    moved, lines = before["teams"], []
    for key, what in (("hash", "Rules and cases"), ("ranking_hash", "Rules of the ranking")):
        old, now = ((of or {}).get(key) for of in (before["challenge"], document["challenge"]))
        if old != now:
            lines.append(f"{what}: {old or 'not known'} before, {now or 'not known'} now.")
        elif now:
            lines.append(f"{what} are the same: {now}.")

    def place(team: Document, key: str) -> Cell:
        return Cell(team[key], "none" if team[key] is None else shown(team[key]))

    table = table_of(
        "moves-table", counted(len(moved), "team moves", "teams move"), moved,
        Column("team", of="name"),
        Column("rank before", 1, of=with_key(place, "before")), Column("rank now", 1, of=with_key(place, "now")),
    )  # fmt: skip
    first: Block = table if moved else Text(("No team moves.",))
    return [Section("moves", "Who moves", (first, Text(tuple(lines))), "This board beside an older one.")]


def pairs_apart(tested: Document) -> str:
    teams, better = len(tested["teams"]), [team["better_than"] for team in tested["teams"]]
    apart = sum(of if isinstance(of, int) else len(of) for of in better)
    pairs = counted(teams * (teams - 1) // 2, "pair")
    return f"{apart:,} of {pairs} of teams {'differs' if apart == 1 else 'differ'} significantly"


def describe_test(tested: Document, title: str, kind: str) -> str:
    """What was tested in a column, in a sentence."""
    left_out = f", {tested['left_out']:,} left out" if tested["left_out"] else ""
    if tested["test"] == "friedman_nemenyi":
        friedman = tested["friedman"]
        by = "the sign test" if len(tested["teams"]) == 2 else "Nemenyi"
        end = f"; Friedman {probability(friedman['p_value'])}, {DISTRIBUTIONS[friedman.get('distribution')]}"
    else:
        by, end = "Wilcoxon and Holm", f"; {DISTRIBUTIONS[tested.get('pair_distribution')]}"
    return f"{title[:-2]}: {pairs_apart(tested)} ({by}, {tested['units']:,} {kind}{left_out}{end})."


DISTRIBUTIONS = {
    "exact": "exact",
    "monte_carlo": "from drawn orders of the teams",
    "approximation": "by its approximation for many",
    None: "by its approximation for many",
}


def board_table(document: Document) -> Table:
    """All teams with their values and ranks; the scores stand beside the names, so that a phone shows them."""
    teams, shown_only = document["teams"], document.get("shown", ())
    columns = [Column("team", None, "with its place; “=”: shared", lambda team: Cell(team["name"], place_of(team)))]
    for index, (column, title) in enumerate(zip(document["columns"], column_titles(document), strict=True)):
        weight = "" if column["weight"] == 1 else f", weight {column['weight']:g}"
        better = "higher" if column["direction"] == "descending" else "lower"

        def of_column(team: Document, index: int = index) -> Cell:
            cell = team["columns"][index]
            if "rank" not in cell:
                return Cell(cell["value"], decimal(cell["value"]))
            shade = (len(teams) - cell["rank"]) / (len(teams) - 1) if len(teams) > 1 else None
            return Cell(cell["value"], f"{decimal(cell['value'])} ({shown(cell['rank'])})", shade=shade)

        words = f"{column['path']}, {better} is better{weight}; its rank in brackets"
        columns.append(Column(title, 4, words, of_column))
    name = COMBINED.get(document["ranking"]["method"], "mean rank")
    lower = "of the ranks in the columns; lower is better"
    columns.append(Column(name, 3, lower, lambda team: Cell(team.get("combined"), shown(team.get("combined")))))
    if document["stability"]["undefined"] is None:
        columns += [
            Column("places", 1, "the middle 95 % of its places in samples", place_interval),
            Column("first", 2, FIRST_IN_SAMPLES, lambda team: percent_cell(team.get("probability_of_first"))),
        ]
    note = "Ranks stand in brackets." + " “=”: teams that share a place." * any(team["equal"] for team in teams)
    note += f" {NOT_RANKED}" * bool(shown_only)
    caption = "Teams, from the first place to the last"
    return table_of("board", caption, [*teams, *shown_only], *columns, rest=TEAMS, note=note)


def place_of(team: Document) -> str:
    if "position" not in team:
        return f"{MARK}{team['name']}"
    return f"{'=' if team['equal'] else ''}{shown(team['position'])}\u2002{team['name']}"


def place_interval(team: Document) -> Cell:
    among = team.get("rank_interval")
    if among is None:
        return Cell(None)
    return Cell(among["low"], interval(among["low"], among["high"]))


def place_figure(document: Document) -> Figure:
    """In which share of the samples each team has each place, with the middle 95 % as a line."""
    teams = labelled(document)
    shares = [{entry["place"]: entry["share"] for entry in team["places"]} for _, team in teams]
    line: list[Dot] = []
    for label, team in teams:
        among = team["rank_interval"]
        if among["low"] is not None:
            line += [Dot(label, shown(among["low"])), Dot(label, shown(among["high"])), Dot(label, None)]
    published = tuple(Dot(label, shown(team["position"])) for label, team in teams)
    middle = "; ".join(f"{label} {place_interval(team).text}" for label, team in teams[:3])
    return place_discs(
        "sampled-places",
        "Places in the samples",
        f"The area of a disc is the share of the samples, the line the middle 95 % of them, ◇ the published place."
        f"{rest_of(document)} The middle 95 %: {middle}.",
        [label for label, _ in teams],
        shares,
        "samples",
        Series("the middle 95 %", tuple(line), "@muted", is_curve=True),
        Series("published place", published, "@ink", symbol="diamond-open"),
    )


# --- differences ------------------------------------------------------------------------------------------------------


def difference_section(document: Document) -> Section:
    """What tests say of each column: a critical-difference diagram and a matrix."""
    title, kind = "Significant differences", document["units"]["kind"]
    blocks: list[Block] = []
    for number, (column, name) in enumerate(zip(document["columns"], column_titles(document), strict=True), start=1):
        tested = column["significance"]
        if tested is None:
            continue
        if tested["undefined"] is not None:
            blocks.append(Text((f"{name}: no test, since {NO_TEST.get(tested['undefined'], tested['undefined'])}.",)))
        elif "cliques" not in tested:
            number = len(tested["teams"])
            blocks.append(Text((f"{name}: with {number:,} teams, leaderboard.json has no single pairs.",)))
        else:
            blocks.append(difference_diagram(document, tested, name, f"difference-{number}"))
            blocks.append(better_matrix(document, tested, name, f"better-{number}"))
    if not blocks:
        unknown = f"Nothing is tested: the values of each {unit_of(document)} are not known."
        return Section("differences", title, (Text((unknown,)),))
    if (table := pair_table(document)) is not None:
        blocks.append(table)
    across = [
        column["significance"]["pairs_across_columns"]
        for column in document["columns"]
        if (column["significance"] or {}).get("pairs_across_columns") is not None
    ]
    if len(across) > 1:
        how = "all columns corrected for together (Holm)"
        apart = counted(sum(across), "pair of teams differs", "pairs of teams differ")
        found = f"{apart} significantly, in {np.count_nonzero(across):,} of {len(across):,} columns."
        blocks.insert(0, Text((f"With {how} {found}",)))
    lead = (
        "Are teams apart by more than chance? Bars join teams that cannot be told apart, which does not mean that they "
        f"are equal. Mean ranks go over all {kind}; the lower, the better."
    )
    return Section("differences", title, tuple(blocks), lead)


def pair_table(document: Document) -> Table | None:
    """The difference between the teams of each pair, with its interval and verdict."""
    titles = column_titles(document)
    rows = [
        (title, column["margin"], pair)
        for title, column in zip(titles, document["columns"], strict=True)
        for pair in column.get("differences") or ()
    ]
    if not rows:
        return None
    kind = document["units"]["kind"]
    return table_of(
        "pairs", "Differences of all pairs of teams", rows,
        Column("column", of=lambda row: row[0]),
        Column("team", of=lambda row: row[2]["first"]),
        Column("other", of=lambda row: row[2]["second"]),
        Column("difference", 4, f"mean over {kind}; above 0: the team is better", lambda row: row[2]["mean"]),
        Column("interval", None, "of all pairs of a column together", lambda row: interval_cell(row[2])),
        Column("effect", 2, "difference in standard deviations of the differences", lambda row: row[2]["effect"]),
        Column("ahead", 0, f"share of the {kind}", lambda row: percent_cell(row[2]["ahead"])),
        Column("verdict", of=lambda row: row[2]["verdict"]),
        rest="differences of leaderboard.json",
        note="Equivalent: the interval lies inside the margin, "
        f"{', '.join(dict.fromkeys(f'{margin:g}' for _, margin, _ in rows))}. Fewer than five {kind}: no interval.",
    )  # fmt: skip


def difference_diagram(document: Document, tested: Document, title: str, anchor: str) -> Figure:
    """Mean ranks of the teams that were tested, and which cannot be told apart."""
    label_of = {team["name"]: label for label, team in labelled(document, len(document["teams"]))}
    diagram = lay_out_diagram(
        {label_of[team["name"]]: team["mean_rank"] for team in tested["teams"] if team["mean_rank"] is not None},
        [[label_of[name] for name in clique] for clique in tested["cliques"]],
    )
    best = ", ".join(f"{label.name} {label.mean_rank:.2f}" for label in diagram.labels[:3])
    bars = {0: "No bar: all teams can be told apart.", 1: "One bar joins teams that cannot be told apart."}
    joined = bars.get(len(diagram.bars), f"{len(diagram.bars)} bars join teams that cannot be told apart.")
    return draw_diagram(
        diagram,
        anchor=anchor,
        caption=f"{title}: mean ranks, and who cannot be told apart",
        description=f"{describe_test(tested, title, document['units']['kind'])} The best mean ranks: {best}. {joined}",
        critical_difference=tested["critical_difference"],
    )


def better_matrix(document: Document, tested: Document, title: str, anchor: str) -> Figure:
    """Which team is significantly better than which, in the order of the places."""
    of_name = {team["name"]: team for team in tested["teams"]}
    teams = [(label, team["name"]) for label, team in labelled(document)]
    values: list[list[int | None]] = []
    hover = []
    for label, name in teams:
        better, worse = set(of_name[name]["better_than"]), set(of_name[name]["worse_than"])
        p_value = dict(zip(of_name, of_name[name]["p_values"], strict=True))
        signs = [None if other == name else (other in better) - (other in worse) for _, other in teams]
        values.append(signs)
        words = [f"{label} {VERDICTS[sign or 0]}" for sign in signs]
        hover.append(
            [f"{of} {other}\n{probability(p_value[key])}" for of, (other, key) in zip(words, teams, strict=True)]
        )
    labels = [label for label, _ in teams]
    return heat_map(
        anchor,
        f"{title}: who is significantly better than whom",
        "▲ the team of the row is significantly better than that of the column, ▽ it is worse; empty: they cannot be "
        f"told apart.{rest_of(document)}",
        labels,
        labels,
        values,
        shown=[["" if not sign else "▲" if sign > 0 else "▽" for sign in of] for of in values],
        hover=hover,
        ends=(-1, 1),
        is_diverging=True,
        showscale=False,
    )


VERDICTS = {1: "is significantly better than", -1: "is significantly worse than", 0: "cannot be told apart from"}


# --- units ------------------------------------------------------------------------------------------------------------


def value_section(document: Document) -> Section:
    """The values of units in each column: box plots, of many values heat maps."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title = f"Scores of each {unit}"
    if not names or "by_unit" not in document["teams"][0]["columns"][0]:
        missing = f"Values of each {unit} are not in leaderboard.json: not known for every team, or too many."
        return Section("values", title, (Text((missing,)),))
    teams, titles = [*labelled(document), *shown_entries(document)], column_titles(document)
    is_marked = f" {NOT_RANKED}" * (len(shown_entries(document)) > 0)
    if len(teams) * len(names) * len(titles) > BOXED_VALUES:
        maps = [value_map(document, index, heading) for index, heading in enumerate(titles)]
        lead = f"A row for each team, a column for each {unit}, the hardest on the left. Too many values for box plots."
        return Section("values", title, tuple(maps), lead + is_marked)
    figures = []
    for index, heading in enumerate(titles):
        overall = "; ".join(f"{label} {decimal(team['columns'][index]['value'])}" for label, team in teams[:3])
        boxes = [
            Series(
                label,
                tuple(
                    Dot(label, value, f"{label}\n{name}\n{heading[:-2]}: {value}")
                    for name, value in zip(names, team["columns"][index]["by_unit"], strict=True)
                    if value is not None
                ),
                series_colour(row) if "position" in team else "@muted",
                "boxes",
            )
            for row, (label, team) in enumerate(teams)
        ]
        caption = f"{heading}: {'higher' if heading.endswith('↑') else 'lower'} is better"
        description = f"A row for each team, from the first place to the last.{rest_of(document)} Overall: {overall}."
        boxes = [box for box in boxes if box.dots]
        figures.append(plot(f"values-{index + 1}", caption, description, boxes, y=Axis(heading), horizontal=True))
    lead = f"A point is a {unit}" + "; the box is the middle half of them" * (len(names) >= BOX_FROM) + f".{is_marked}"
    return Section("values", title, tuple(figures), lead)


def value_map(document: Document, index: int, title: str) -> Figure:
    """The values of all teams in a column, the units with the worst median first."""
    teams = [*labelled(document), *shown_entries(document)]
    table = np.array([team["columns"][index]["by_unit"] for _, team in teams], dtype=float)
    middle = [np.median(known) if len(known := unit[~np.isnan(unit)]) else np.nan for unit in table.T]
    order = np.argsort(np.array(middle) * (1 if title.endswith("↑") else -1), kind="stable")
    chosen, thinned = thin_units(document, order)
    values = [[None if np.isnan(value) else round(value, 4) for value in row] for row in table[:, chosen].tolist()]
    columns = label_teams([document["unit_names"][unit] for unit in chosen])
    description = f"The darker, the higher the value; empty: undefined.{rest_of(document)}{thinned}"
    labels = [label for label, _ in teams]
    return heat_map(f"values-{index + 1}", f"{title} of each {unit_of(document)}", description, labels, columns, values)


def thin_units(document: Document, order: Sequence[int] | np.ndarray[Any, Any]) -> tuple[list[int], str]:
    """Units evenly spread over an order, as many as a heat map shows, and a sentence if some are left out."""
    limit = max(MAPPED_VALUES // min(len(document["teams"]), TEAMS_UP_TO), 1)
    if len(order) <= limit:
        return [int(unit) for unit in order], ""
    chosen = [int(order[index]) for index in np.linspace(0, len(order) - 1, limit).round().astype(int)]
    kind = document["units"]["kind"]
    return chosen, f" {limit:,} of {len(order):,} {kind} are shown, evenly spread; leaderboard.json has all."


def unit_section(document: Document) -> Section:
    """The place of each team on each unit alone."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title = f"Places in each {unit}"
    if not names or "unit_places" not in document["teams"][0]:
        return Section("podium", title, (Text((f"Places in each {unit} are not in leaderboard.json.",)),))
    teams = labelled(document)
    chosen, thinned = thin_units(document, range(len(names)))
    labels, columns = [label for label, _ in teams], label_teams([names[index] for index in chosen])
    values = [[team["unit_places"][index] for index in chosen] for _, team in teams]
    description = f"A column for each {unit}; the darkest is the first place, empty: none.{rest_of(document)}{thinned}"
    figure = heat_map(
        "podium-map", f"The place of each team in each {unit}", description, labels, columns, values,
        ends=(1, 4), reversescale=True, showscale=False,
    )  # fmt: skip
    return Section("podium", title, (figure,), f"All teams, ranked by the values of one {unit} at a time.")


# --- stability and other rules ----------------------------------------------------------------------------------------


def stability_section(document: Document) -> Section:
    """How much the order changes in samples of the units."""
    found, kind, title = document["stability"], document["units"]["kind"], "How stable the places are"
    if found["undefined"] is not None:
        words = f"How far the places can be trusted is not known: {why_no_samples(document)}."
        return Section("stability", title, (Text((words,)),))
    tau, without = found["kendall_tau"], found["first_changes_without"]
    to_published = f"to the published order, in the mean; {decimal(tau['low'])} at the low end"
    names = name_some(without, 5) or f"whichever of the {kind} is left out"
    tiles = (
        Tile("same order", percent(found["same_order"]), "share of the samples"),
        Tile("Kendall’s tau", tau["mean"], to_published),
        Tile(f"another first without one {unit_of(document)}", len(without), names),
    )
    blocks: list[Block] = [Tiles(tiles)]
    lead = (
        f"{found['samples']:,} samples of as many {kind} as there are were drawn with replacement, and all teams "
        "ranked in each: where would they stand with others of the same kind?"
    )
    return Section("stability", title, tuple(blocks), lead)


def method_section(document: Document) -> Section:
    """Ranks in each column, and places under every method of ranking."""
    own, methods, titles = document["ranking"]["method"], document.get("methods", ()), column_titles(document)
    teams = labelled(document, LINES_UP_TO)
    labels, note = [label for label, _ in teams], rest_of(document, LINES_UP_TO).strip()
    blocks: list[Block] = []
    if len(titles) > 1:
        ranks = [[team["position"], *(cell["rank"] for cell in team["columns"])] for _, team in teams]
        caption = "Places of the teams, and their ranks in each column"
        blocks.append(rank_lines("rank-lines", caption, ["place", *titles], labels, ranks, note=note))
    if methods:
        ordered = sorted(methods, key=lambda of: of["method"] != own)
        names = [of["method"].replace("_", " ") + " (applied)" * (of["method"] == own) for of in ordered]
        places = [[of["places"][row] for of in ordered] for row in range(len(teams))]
        caption = "Places under other methods of ranking"
        blocks.append(rank_lines("method-lines", caption, names, labels, places, note=note))
    else:
        blocks.append(Text(("leaderboard.json does not have the places under other methods.",)))
    lead = "Would another way to combine the same numbers have given other places? All else stays as it is."
    return Section("methods", "Other methods of ranking", tuple(blocks), lead)


def audit_sections(document: Document, audit: Document | None) -> list[Section]:
    """What an audit of the same challenge says."""
    if audit is None:
        return []
    title = "Can the first place be defended?"
    if audit["challenge"] != document["challenge"]:
        other = "The audit.json beside this leaderboard is of other rules or cases."
        return [Section("audit", title, (Text((other,)),))]
    return [Section("audit", title, (answer_text(audit),), "The answer of the audit."), *rule_sections(audit)]


def rules_section(document: Document) -> Section:
    """The rules of the ranking as they were applied, and findings."""
    ranking = document["ranking"]
    rules = [(key, value) for key, value in sorted(ranking.items()) if key != "in_words" and value is not None]
    columns = table_of(
        "columns", "Columns", document["columns"],
        Column("path", of="path"), Column("direction", of="direction"), Column("weight", 2, of="weight"),
        sortable=False,
    )  # fmt: skip
    applied = table_of(
        "ranking", "Rules of the ranking, as applied", rules,
        Column("key", of=lambda rule: rule[0]), Column("value", of=lambda rule: in_toml(rule[1])), sortable=False,
    )  # fmt: skip
    blocks: list[Block] = [Text((ranking["in_words"],)), columns, applied]
    if findings := tuple(document["findings"]):
        blocks.append(Text(findings, "warning"))
    return Section("method", "The method", tuple(blocks))


def in_toml(value: object) -> str:
    """A value as it would stand in challenge.toml.

    >>> in_toml(True), in_toml(0.05), in_toml("min")
    ('true', '0.05', 'min')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
