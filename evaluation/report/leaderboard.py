"""The page of a leaderboard, made of leaderboard.json: who stands where, and how far that can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluation.analysis.audit_document import plural
from evaluation.leaderboard.document import (
    COMBINED,
    NO_SAMPLES,
    NO_TEST,
    decimal,
    interval,
    percent,
    probability,
    short_titles,
    shown,
)
from evaluation.report.audit import LINES_UP_TO, answer_text, labels_of, rule_sections, tau_figure, unranked_table
from evaluation.report.critical_difference import draw_diagram, lay_out_diagram
from evaluation.report.documents import embed_document, identify_document, show_rest
from evaluation.report.figures import (
    Box,
    Mark,
    blob_figure,
    box_figure,
    heat_map_figure,
    series_colour,
)
from evaluation.report.page import Block, Cell, Column, Figure, Page, Section, Table, Text, Tile, Tiles
from evaluation.report.rank_lines import rank_lines
from evaluation.report.team_labels import label_teams, name_some

FILE = "leaderboard.json"
ROWS_UP_TO = 500  # teams in tables
TEAMS_UP_TO = 50  # teams in plots
MARKS_UP_TO = 6000  # values in all box plots together, and cells of the heat map of patients

Document = Mapping[str, Any]


def leaderboard_page(document: Document, *, audit: Document | None = None, title: str = "") -> Page:
    """The page of the content of a leaderboard.json.

    audit  the content of an audit.json of the same challenge: what becomes of the places under other rules
    """
    identity = document["challenge"] or {}
    data, told = embed_document("leaderboard", document)
    sections = [places_section(document)]
    if document["teams"]:
        sections += [
            value_section(document),
            difference_section(document),
            stability_section(document),
            method_section(document),
            *audit_sections(document, audit),
            unit_section(document),
        ]
    return Page(
        title=title or (f"{identity['name']}: leaderboard" if identity else "Leaderboard"),
        subtitle=f"{plural(len(document['teams']), 'team')} in their places",
        facts=identify_document(document),
        sections=(*sections, rules_section(document, told)),
        data=data,
    )


# --- places -----------------------------------------------------------------------------------------------------------


def column_titles(document: Document) -> list[str]:
    """Short names of the columns, with an arrow where better values are."""
    columns = document["columns"]
    return [
        f"{name} {'↑' if column['direction'] == 'descending' else '↓'}"
        for name, column in zip(short_titles([column["path"] for column in columns]), columns, strict=True)
    ]


def places_section(document: Document) -> Section:
    """The leaderboard itself."""
    blocks: list[Block] = [Tiles(tuple(first_tiles(document))), board_table(document)]
    if any(team.get("below_floor") for team in document["teams"]):
        blocks.append(floor_table(document))
    if document["not_ranked"]:
        blocks.append(unranked_table(document["not_ranked"]))
    return Section("places", "Places", tuple(blocks), lead=document["ranking"]["in_words"])


def first_tiles(document: Document) -> Iterator[Tile]:
    """What is seen first: who is first, and how sure that is."""
    teams = document["teams"]
    first = [team for team in teams if team["position"] == teams[0]["position"]]
    if first:
        chance = first[0]["probability_of_first"]
        detail = "shared" if len(first) > 1 else "" if chance is None else f"first in {percent(chance)} of the samples"
        yield Tile("first place", name_some([team["name"] for team in first]), detail)
    unranked = len(document["not_ranked"])
    yield Tile("teams", len(teams), f"{unranked:,} more not ranked" if unranked else "ranked")
    if document["units"]["number"]:
        yield Tile(document["units"]["kind"], document["units"]["number"], "that teams are compared on")


def board_table(document: Document) -> Table:
    """All teams with their values and ranks."""
    teams = document["teams"]
    is_drawn = document["stability"]["undefined"] is None
    method = document["ranking"]["method"]
    columns = [
        Column("team"),
        Column("place", 1, "= before it: another team has the same"),
        Column(COMBINED.get(method, "mean rank"), 3, "of the ranks in the columns; lower is better"),
    ]
    if is_drawn:
        columns += [
            Column("places", 1, "the middle 95 % of its places in samples"),
            Column("first", 2, "share of the samples in which it is first"),
        ]
    for column, title in zip(document["columns"], column_titles(document), strict=True):
        weight = "" if column["weight"] == 1 else f", weight {column['weight']:g}"
        better = "higher" if column["direction"] == "descending" else "lower"
        columns.append(Column(title, 4, f"{column['path']}, {better} is better{weight}; its rank in brackets"))
    note = "The rank in each column stands in brackets. "
    if any(team["equal"] for team in teams):
        note += "“=”: teams that share a place. "
    return Table(
        "board",
        "Teams, from the first place to the last",
        tuple(columns),
        tuple(board_row(team, len(teams), is_drawn=is_drawn) for team in teams[:ROWS_UP_TO]),
        note=(note + show_rest(len(teams), ROWS_UP_TO, "teams", FILE)).strip(),
    )


def board_row(team: Document, teams: int, *, is_drawn: bool) -> tuple[Cell | float | str | None, ...]:
    row: list[Cell | float | str | None] = [
        team["name"],
        Cell(team["position"], f"{'=' if team['equal'] else ''}{shown(team['position'])}"),
        Cell(team["combined"], shown(team["combined"])),
    ]
    if is_drawn:
        among, first = team["rank_interval"], team["probability_of_first"]
        row += [Cell(among["low"], interval(among["low"], among["high"])), Cell(first, percent(first))]
    for cell in team["columns"]:
        shade = (teams - cell["rank"]) / (teams - 1) if teams > 1 else None
        row.append(Cell(cell["value"], f"{decimal(cell['value'])} ({shown(cell['rank'])})", shade=shade))
    return tuple(row)


def floor_table(document: Document) -> Table:
    """Teams that stand behind the others since they fail a floor, with their numbers there."""
    floors = document["ranking"]["require"]
    columns = [Column("team"), Column("place", 1)]
    columns += [Column(floor["path"].replace(".", " ").replace("_", " "), 4, "a floor") for floor in floors]
    rows = [
        (team["name"], team["position"], *(Cell(value, decimal(value)) for value in team["floors"]))
        for team in document["teams"]
        if team.get("below_floor")
    ]
    asked = " and ".join(f"{floor['path']} of at least {floor['at_least']:g}" for floor in floors)
    note = f"Asked for: {asked}. {show_rest(len(rows), ROWS_UP_TO, 'teams', FILE)}"
    return Table(
        "floors", "Below a floor, and so behind the others", tuple(columns), tuple(rows[:ROWS_UP_TO]), note=note
    )


def unit_of(document: Document) -> str:
    """One of what teams are compared on: "group", "case"."""
    return str(document["units"]["kind"]).removesuffix("s")


def labelled(document: Document, limit: int) -> list[tuple[str, Document]]:
    """The first teams with their names beside plots."""
    return list(zip(labels_of(document, limit), document["teams"][:limit], strict=True))


# --- values -----------------------------------------------------------------------------------------------------------


def value_section(document: Document) -> Section:
    """Box plots of the values of units."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title, lead = f"Values of each {unit}", f"A point is a {unit}; the box is the middle half, with the median in it."
    if not names or "by_unit" not in document["teams"][0]["columns"][0]:
        told = f"Values of each {unit} are not in {FILE}: they are not known for every team, or they are too many."
        return Section("values", title, (Text((told,)),))
    limit = min(max(MARKS_UP_TO // (len(names) * len(document["columns"])), 3), TEAMS_UP_TO)
    rest = show_rest(len(document["teams"]), limit, "teams", FILE, before=" ")
    teams = labelled(document, limit)
    figures = [value_boxes(teams, place, heading, names, rest) for place, heading in enumerate(column_titles(document))]
    return Section("values", title, tuple(figures), lead=lead)


def value_boxes(
    teams: Sequence[tuple[str, Document]], place: int, title: str, names: Sequence[str], rest: str
) -> Figure:
    """The values of the teams in a column, one for each unit."""
    boxes = [
        Box(
            label,
            tuple(
                Mark(value, f"{label}\n{name}\n{title[:-2]}: {value}")
                for name, value in zip(names, team["columns"][place]["by_unit"], strict=True)
                if value is not None
            ),
            series_colour(row),
        )
        for row, (label, team) in enumerate(teams)
    ]
    overall = "; ".join(f"{label} {decimal(team['columns'][place]['value'])}" for label, team in teams[:3])
    return box_figure(
        f"values-{place + 1}",
        f"{title}: {'higher' if title.endswith('↑') else 'lower'} is better",
        f"A row for each team, from the first place to the last.{rest} As a whole: {overall}.",
        [box for box in boxes if box.marks],
        value_title=title,
        horizontal=True,
        height=150 + (44 if len(teams) <= 8 else 30) * len(teams),
    )


# --- differences ------------------------------------------------------------------------------------------------------


def difference_section(document: Document) -> Section:
    """What tests say of each column: a critical-difference diagram and a matrix."""
    blocks: list[Block] = []
    for place, (column, title) in enumerate(zip(document["columns"], column_titles(document), strict=True)):
        blocks += column_differences(document, place, column["significance"], title)
    lead = (
        "Are teams apart by more than chance? Bars join teams that cannot be told apart, which does not mean that they "
        "are equal. Mean ranks go over all "
        f"{document['units']['kind']}; the lower, the better."
    )
    if all(column["significance"] is None for column in document["columns"]):
        blocks, lead = [Text((f"Nothing is tested: the values of each {unit_of(document)} are not known.",))], ""
    return Section("differences", "Significant differences", tuple(blocks), lead=lead)


def column_differences(document: Document, place: int, tested: Document | None, title: str) -> list[Block]:
    if tested is None:
        return []
    if tested["undefined"] is not None:
        return [Text((f"{title}: no test, since {NO_TEST.get(tested['undefined'], tested['undefined'])}.",))]
    if "cliques" not in tested:
        return [Text((f"{title}: with {len(tested['teams']):,} teams, {FILE} tells no single pairs.",))]
    said = describe_test(tested, title, document["units"]["kind"])
    return [
        difference_diagram(document, tested, title, said, f"difference-{place + 1}"),
        better_matrix(document, tested, title, f"better-{place + 1}"),
    ]


def describe_test(tested: Document, title: str, kind: str) -> str:
    """What was tested in a column, in a sentence."""
    teams = len(tested["teams"])
    apart = sum(len(team["better_than"]) for team in tested["teams"])
    p_value = probability(tested["friedman"]["p_value"])
    by = "Nemenyi" if tested["test"] == "friedman_nemenyi" else "Wilcoxon and Holm"
    left_out = f", {tested['left_out']:,} left out" if tested["left_out"] else ""
    return (
        f"{apart:,} of {teams * (teams - 1) // 2:,} pairs of teams differ significantly in {title[:-2]} ({by}, "
        f"{tested['units']:,} {kind}{left_out}; Friedman p {p_value if p_value.startswith('<') else f'= {p_value}'})."
    )


def difference_diagram(document: Document, tested: Document, title: str, said: str, anchor: str) -> Figure:
    """Mean ranks of the teams that were tested, and which cannot be told apart."""
    teams = [team for team in tested["teams"] if team["mean_rank"] is not None]
    label_of = {team["name"]: label for label, team in labelled(document, len(document["teams"]))}
    diagram = lay_out_diagram(
        {label_of[team["name"]]: team["mean_rank"] for team in teams},
        [[label_of[name] for name in clique] for clique in tested["cliques"]],
    )
    best = ", ".join(f"{label.name} {label.mean_rank:.2f}" for label in diagram.labels[:3])
    bars = {0: "No bar: all teams can be told apart.", 1: "One bar joins teams that cannot be told apart."}
    return draw_diagram(
        diagram,
        anchor=anchor,
        caption=f"{title}: mean ranks, and who cannot be told apart",
        description=f"{said} The best mean ranks: {best}. "
        + bars.get(len(diagram.bars), f"{len(diagram.bars)} bars join teams that cannot be told apart."),
        critical_difference=tested["critical_difference"],
    )


def better_matrix(document: Document, tested: Document, title: str, anchor: str) -> Figure:
    """Which team is significantly better than which, in the order of the places."""
    of_name = {team["name"]: team for team in tested["teams"]}
    teams = [(label, of_name[team["name"]]) for label, team in labelled(document, TEAMS_UP_TO)]
    values: list[list[int | None]] = []
    hover = []
    for label, team in teams:
        better, worse = set(team["better_than"]), set(team["worse_than"])
        p_value = dict(zip(of_name, team["p_values"], strict=True))
        names = [other["name"] for _, other in teams]
        signs = [None if name == team["name"] else (name in better) - (name in worse) for name in names]
        values.append(signs)
        hover.append(
            [
                f"{label} {VERDICTS[sign or 0]} {of_other}\np = {p_value[other['name']]}"
                for (of_other, other), sign in zip(teams, signs, strict=True)
            ]
        )
    labels = [label for label, _ in teams]
    rest = show_rest(len(document["teams"]), TEAMS_UP_TO, "teams", FILE, before=" ")
    figure = heat_map_figure(
        anchor,
        f"{title}: who is significantly better than whom",
        "▲ the team of the row is significantly better than that of the column, ▽ it is worse; empty: they cannot be "
        f"told apart.{rest}",
        rows=labels,
        columns=labels,
        values=values,
        shown=[["" if not sign else "▲" if sign > 0 else "▽" for sign in of] for of in values],
        hover=hover,
        scale="diverging",
        value_range=(-1, 1),
        height=map_height(len(labels)),
    )
    return with_trace(figure, showscale=False)


def map_height(rows: int) -> int:
    """px of a heat map, whose cells are lower if there are many."""
    return 150 + (32 if rows <= 20 else 18) * rows


def with_trace(figure: Figure, **changes: Any) -> Figure:
    """The figure with other settings of its one trace."""
    return replace(figure, traces=({**figure.traces[0], **changes},))


VERDICTS = {1: "is significantly better than", -1: "is significantly worse than", 0: "cannot be told apart from"}


# --- stability --------------------------------------------------------------------------------------------------------


def stability_section(document: Document) -> Section:
    """The places in samples of the units."""
    found, kind = document["stability"], document["units"]["kind"]
    title = "How stable the places are"
    if found["undefined"] is not None:
        told = (
            f"How far the places can be trusted is not known: {NO_SAMPLES.get(found['undefined'], found['undefined'])}."
        )
        return Section("stability", title, (Text((told,)),))
    tau = found["kendall_tau"]
    tiles = Tiles(
        (
            Tile("same order", found["same_order"], "share of the samples"),
            Tile(
                "Kendall’s tau",
                tau["mean"],
                f"to the published order, in the mean; {decimal(tau['low'])} at the low end",
            ),
            Tile(
                f"another first without one {unit_of(document)}",
                len(found["first_changes_without"]),
                name_some(found["first_changes_without"], 5) or f"whichever of the {kind} is left out",
            ),
        )
    )
    blocks: list[Block] = [tiles]
    if any("places" in team for team in document["teams"]):
        blocks.append(place_blobs(document))
    if found["approximate"]:
        told = f"Some columns are no means over {kind}: the samples are of a ranking that differs a little."
        blocks.append(Text((told,), "warning"))
    lead = (
        f"{found['samples']:,} samples of as many {kind} as there are were drawn with replacement, and all teams "
        "ranked in each: where would they stand with others of the same kind?"
    )
    return Section("stability", title, tuple(blocks), lead=lead)


def place_blobs(document: Document) -> Figure:
    """In which share of the samples each team has each place, with the middle 95 % as a line."""
    teams = labelled(document, TEAMS_UP_TO)
    shares = [{entry["place"]: entry["share"] for entry in team["places"]} for _, team in teams]
    among = [interval(team["rank_interval"]["low"], team["rank_interval"]["high"]) for _, team in teams]
    places = sorted({*(place for of in shares for place in of), *(team["position"] for _, team in teams)})
    figure = blob_figure(
        "sampled-places",
        "Places in the samples",
        "The area of a disc is the share of the samples, the line the middle 95 % of them, ◇ the published place."
        + show_rest(len(document["teams"]), TEAMS_UP_TO, "teams", FILE, before=" ")
        + f" The middle 95 %: {'; '.join(f'{label} {of}' for (label, _), of in zip(teams[:3], among, strict=False))}.",
        rows=[label for label, _ in teams],
        columns=[shown(place) for place in places],
        shares=[[of.get(place, 0.0) for place in places] for of in shares],
        x_title="place",
        hover=[
            [
                f"{label}\nplace {shown(place)} in {of.get(place, 0.0)} of the samples\n"
                f"the middle 95 %: {middle}; published: {shown(team['position'])}"
                for place in places
            ]
            for (label, team), of, middle in zip(teams, shares, among, strict=True)
        ],
    )
    drawn = [(label, team["rank_interval"]) for label, team in teams if team["rank_interval"]["low"] is not None]
    lines = {
        "type": "scatter",
        "mode": "lines",
        "name": "the middle 95 %",
        "x": [x for _, of in drawn for x in (shown(of["low"]), shown(of["high"]), None)],
        "y": [y for label, _ in drawn for y in (label, label, None)],
        "line": {"color": "@muted", "width": 2},
        "hoverinfo": "skip",
    }
    published = {
        "type": "scatter",
        "mode": "markers",
        "name": "published place",
        "x": [shown(team["position"]) for _, team in teams],
        "y": [label for label, _ in teams],
        "marker": {"symbol": "diamond-open", "size": 10, "color": "@ink"},
        "hoverinfo": "skip",
    }
    return replace(figure, traces=(lines, *figure.traces, published))


# --- other rules ------------------------------------------------------------------------------------------------------


def method_section(document: Document) -> Section:
    """Ranks in each column, and places under every method of ranking."""
    own, methods = document["ranking"]["method"], document.get("methods", ())
    titles = column_titles(document)
    teams = labelled(document, LINES_UP_TO)
    labels = [label for label, _ in teams]
    note = show_rest(len(document["teams"]), LINES_UP_TO, "teams", FILE)
    blocks: list[Block] = []
    if len(titles) > 1:
        ranks = [[team["position"], *(cell["rank"] for cell in team["columns"])] for _, team in teams]
        caption, rules = "Places of the teams, and their ranks in each column", ["place", *titles]
        blocks.append(rank_lines("rank-lines", caption, rules=rules, teams=labels, ranks=ranks, note=note))
    if methods:
        order = sorted(range(len(methods)), key=lambda place: methods[place]["method"] != own)
        names = [in_words(methods[place]["method"], own) for place in order]
        places = [[methods[place]["places"][row] for place in order] for row in range(len(teams))]
        caption = "Places under other methods of ranking"
        blocks.append(rank_lines("method-lines", caption, rules=names, teams=labels, ranks=places, note=note))
        tau = [[methods[one]["kendall_tau"][other] for other in order] for one in order]
        blocks.append(tau_figure("method-tau", "Kendall’s tau between the methods", names, tau))
    else:
        blocks.append(Text((f"{FILE} does not tell the places under other methods.",)))
    lead = "Would another way to combine the same numbers have given other places? All else stays as it is."
    return Section("methods", "Other methods of ranking", tuple(blocks), lead=lead)


def in_words(method: str, own: str) -> str:
    return method.replace("_", " ") + (" (applied)" if method == own else "")


def audit_sections(document: Document, audit: Document | None) -> list[Section]:
    """What an audit of the same challenge says."""
    if audit is None:
        return []
    title = "Can the first place be defended?"
    if audit["challenge"] != document["challenge"]:
        return [
            Section("audit", title, (Text(("The audit.json beside this leaderboard is of other rules or cases.",)),))
        ]
    return [
        Section("audit", title, (answer_text(audit),), lead="The answer of the audit (audit.json)."),
        *rule_sections(audit),
    ]


# --- units ------------------------------------------------------------------------------------------------------------


def unit_section(document: Document) -> Section:
    """Who is first, second and third on each unit alone."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title = f"Podium of each {unit}"
    if not names or "unit_places" not in document["teams"][0]:
        return Section("podium", title, (Text((f"Places in each {unit} are not in {FILE}.",)),))
    ahead = [count_ahead([team["unit_places"][place] for team in document["teams"]]) for place in range(len(names))]
    steps = [[of[row] for of in ahead] for row in range(len(document["teams"]))]  # a row for each team
    lead = (
        f"All teams, ranked by the values of one {unit} at a time. First is a team that no other is ahead of, second "
        "one that a single team is ahead of, third one with two."
    )
    return Section("podium", title, (podium_table(document, steps), unit_map(document)), lead=lead)


def count_ahead(places: Sequence[float | None]) -> list[int | None]:
    """How many teams stand before each; None for a team without a place.

    >>> count_ahead([1.5, 3, 1.5, None])
    [0, 2, 0, None]
    """
    ordered = sorted(place for place in places if place is not None)
    first: dict[float, int] = {}
    for index, place in enumerate(ordered):
        first.setdefault(place, index)
    return [None if place is None else first[place] for place in places]


def podium_table(document: Document, steps: Sequence[Sequence[int | None]]) -> Table:
    """How often each team is first, second and third."""
    units = len(document["unit_names"])
    rows = []
    for team, ahead in list(zip(document["teams"], steps, strict=True))[:ROWS_UP_TO]:
        counts = [ahead.count(step) for step in range(3)]
        rows.append((team["name"], *(Cell(n, shade=n / units) for n in counts), sum(counts)))
    return Table(
        "podium-table",
        f"Times on the podium, of {units:,} {document['units']['kind']}",
        (Column("team"), Column("first", 0), Column("second", 0), Column("third", 0), Column("all", 0)),
        tuple(rows),
        note=show_rest(len(document["teams"]), ROWS_UP_TO, "teams", FILE),
    )


def unit_map(document: Document) -> Figure:
    """The place of each team on each unit."""
    teams = labelled(document, TEAMS_UP_TO)
    limit = MARKS_UP_TO // len(teams)
    names = document["unit_names"][:limit]
    values = [team["unit_places"][:limit] for _, team in teams]
    labels, columns = [label for label, _ in teams], label_teams(names)
    rest = show_rest(len(document["teams"]), TEAMS_UP_TO, "teams", FILE, before=" ")
    rest += show_rest(len(document["unit_names"]), limit, document["units"]["kind"], FILE, before=" ")
    figure = heat_map_figure(
        "podium-map",
        f"The place of each team in each {unit_of(document)}",
        f"A column for each {unit_of(document)}; the darkest is the first place, empty: none.{rest}",
        rows=labels,
        columns=columns,
        values=values,
        hover=[
            [f"{label}, {name}\nplace {shown(place)}" for name, place in zip(columns, row, strict=True)]
            for label, row in zip(labels, values, strict=True)
        ],
        value_range=(1, 4),  # the podium stands out
        height=map_height(len(labels)),
    )
    return with_trace(figure, reversescale=True, showscale=False)


# --- rules ------------------------------------------------------------------------------------------------------------


def rules_section(document: Document, told: str) -> Section:
    """The rules of the ranking as they were applied, and what else there is to know."""
    ranking = document["ranking"]
    rules = tuple(
        (key, in_toml(value)) for key, value in sorted(ranking.items()) if key != "in_words" and value is not None
    )
    columns = tuple((of["path"], of["direction"], of["weight"]) for of in document["columns"])
    blocks: list[Block] = [
        Text((ranking["in_words"],)),
        Table(
            "columns", "Columns", (Column("path"), Column("direction"), Column("weight", 2)), columns, sortable=False
        ),
        Table("ranking", "Rules of the ranking, as applied", (Column("key"), Column("value")), rules, sortable=False),
    ]
    if findings := tuple(document["findings"]):
        blocks.append(Text(findings, "warning"))
    if told:
        blocks.append(Text((told,)))
    return Section("method", "The method", tuple(blocks))


def in_toml(value: object) -> str:
    """A value as it would stand in challenge.toml.

    >>> in_toml(True), in_toml(0.05), in_toml("min")
    ('true', '0.05', 'min')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)
