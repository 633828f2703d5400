"""The page of a leaderboard (leaderboard.json): the answer, the table, one picture; everything else is folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evaluation.findings import counted, percent
from evaluation.leaderboard.document import COMBINED, NO_TEST, decimal, interval, probability, shown
from evaluation.leaderboard.titles import metric_title, short_titles
from evaluation.leaderboard.verdict import verdict_sentences, why_no_samples
from evaluation.report.figures import BOX_FROM, draw_diagram, lay_out_diagram, plot, rank_discs, series_colour
from evaluation.report.page import (
    Axis,
    Block,
    Cell,
    Column,
    Dot,
    Figure,
    Page,
    Section,
    Series,
    Table,
    Text,
    Tile,
    Tiles,
    document_page,
)
from evaluation.report.result import Document
from evaluation.report.skills import team_tables
from evaluation.report.studies import answer_text, rule_sections, unranked_table
from evaluation.report.tables import (
    LABEL_UP_TO,
    interval_cell,
    label_teams,
    name_some,
    percent_cell,
    rank_cell,
    show_rest,
    table_of,
    with_key,
    write_name,
)

RANKS_UP_TO, BOXES_UP_TO = 40, 20  # teams in a plot
PAIRS_UP_TO = 40  # in a table
TEAMS = "teams of leaderboard.json"
MARK = "○ "
NOT_RANKED = "“○”: shown and not ranked; it is in nobody's ranks and tests."
FIRST_IN_SAMPLES = "share of the bootstrap samples in which it is first"


def leaderboard_page(
    document: Document, *, audit: Document | None = None, results: Mapping[str, Document] | None = None, title: str = ""
) -> Page:
    """The page of the content of a leaderboard.json.

    audit    the content of an audit.json of the same challenge: the ranks under other rules
    results  the content of the metrics.json of teams, by name: all their scores side by side
    """
    sections = [verdict_section(document), *moves_section(document)]
    if tables := team_tables(document, results or {}):
        sections.append(Section("teams", "Detection, classification and segmentation", tuple(tables), folded=True))
    number = len(document["teams"])
    return document_page(
        "leaderboard",
        document,
        [*sections, *folded_sections(document, audit)],
        subtitle=f"{counted(number, 'team')}, ranked",
        title=title,
        teams=[team["name"] for team in document["teams"]],
    )


def folded_sections(document: Document, audit: Document | None = None) -> list[Section]:
    """What stands behind the ranking, each part closed at first."""
    sections = []
    if document["teams"]:
        sections = [
            *common_section(document),
            difference_section(document),
            value_section(document),
            unit_section(document),
            stability_section(document),
            method_section(document),
            *audit_sections(document, audit),
        ]
    return [replace(section, folded=True) for section in (*sections, rules_section(document))]


def column_titles(document: Document) -> list[str]:
    """Names of the columns, with an arrow towards better values."""
    names = short_titles([column["path"] for column in document["columns"]])
    ways = [column["direction"] for column in document["columns"]]
    return [f"{name} {'↑' if way == 'descending' else '↓'}" for name, way in zip(names, ways, strict=True)]


def floor_table(document: Document) -> Table:
    """Teams that are ranked behind the others since they are below a minimum, with their numbers there."""
    floors = document["ranking"]["require"]
    below = [team for team in document["teams"] if team.get("below_floor")]
    columns = [Column("team", of="name"), Column("rank", 1, of=lambda team: rank_cell(team["position"]))]
    for index, floor in enumerate(floors):
        of = with_key(lambda team, index: Cell(team["floors"][index], decimal(team["floors"][index])), index)
        columns.append(Column(metric_title(floor["path"]), 4, f"at least {floor['at_least']:g}", of=of))
    asked = " and ".join(f"{metric_title(floor['path'])} of at least {floor['at_least']:g}" for floor in floors)
    note = f"Teams without {asked} are ranked among themselves, behind the others."
    return table_of("floors", "Below the minimum", below, *columns, rest=TEAMS, note=note)


def unit_of(document: Document) -> str:
    """One of what teams are compared on: "group", "case"."""
    return str(document["units"]["kind"]).removesuffix("s")


def labelled(document: Document, limit: int) -> list[tuple[str, Document]]:
    """The first teams with their names beside plots."""
    names = label_teams([team["name"] for team in document["teams"]])
    return list(zip(names[:limit], document["teams"][:limit], strict=True))


def shown_entries(document: Document) -> list[tuple[str, Document]]:
    """Entries without a place that have values of units, with marked names beside plots."""
    entries = [entry for entry in document.get("shown", ()) if "by_unit" in entry["columns"][0]]
    return [(MARK + write_name(entry["name"], LABEL_UP_TO), entry) for entry in entries]


def rest_of(document: Document, limit: int) -> str:
    return show_rest(len(document["teams"]), limit, TEAMS, before=" ")


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict_section(document: Document) -> Section:
    """The answer in words, the leaderboard itself, and one picture: how far the ranks can be trusted."""
    blocks: list[Block] = [Text((" ".join(document.get("verdict") or verdict_sentences(document)),))]
    blocks.append(board_table(document))
    if any(team.get("below_floor") for team in document["teams"]):
        blocks.append(floor_table(document))
    if document["not_ranked"]:
        blocks.append(unranked_table(document["not_ranked"]))
    if any(team.get("places") for team in document["teams"]):
        blocks.append(rank_figure(document))
    return Section("places", "Ranking", tuple(blocks))


def moves_section(document: Document) -> list[Section]:
    """Whose rank differs from that on an older board, and whether the rules are the same; nothing without one."""
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

    def rank(team: Document, key: str) -> Cell:
        return rank_cell(team[key])

    table = table_of(
        "moves-table", counted(len(moved), "team has another rank", "teams have another rank"), moved,
        Column("team", of="name"),
        Column("rank before", 1, of=with_key(rank, "before")), Column("rank now", 1, of=with_key(rank, "now")),
    )  # fmt: skip
    first: Block = table if moved else Text(("No team has another rank.",))
    return [Section("moves", "Changed ranks", (first, Text(tuple(lines))), "This board beside an older one.")]


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
    columns = [Column("team", None, "with its rank; “=”: shared", lambda team: Cell(team["name"], place_of(team)))]
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
            Column("95 % of the ranks", 1, "the middle 95 % of its ranks in bootstrap samples", place_interval),
            Column("first", 2, FIRST_IN_SAMPLES, lambda team: percent_cell(team.get("probability_of_first"))),
        ]
    note = "Ranks stand in brackets." + " “=”: teams that share a rank." * any(team["equal"] for team in teams)
    note += f" {NOT_RANKED}" * bool(shown_only)
    caption = "Teams, from the first to the last"
    return table_of("board", caption, [*teams, *shown_only], *columns, rest=TEAMS, note=note)


def standing_of(document: Document, name: str) -> list[Block]:
    """The rank of one entry in words, and its ranked scores beside the best of all teams."""
    teams = document["teams"]
    entry = next(entry for entry in (*teams, *document.get("shown", ())) if entry["name"] == name)
    if "position" in entry:
        words = f"Rank {shown(entry['position'])} of {counted(len(teams), 'team')}"
        words += f", shared with {name_some(entry['equal'])}" * bool(entry["equal"])
        if (among := place_interval(entry)).value is not None:
            words += f"; rank {among.text} in at least 95 % of the bootstrap samples"
        words += "; below the minimum, so ranked behind the others" * bool(entry.get("below_floor"))
    else:
        words = "This entry is shown and not ranked"

    def value_of(team: Document, row: int) -> Cell:
        value = team["columns"][row]["value"]
        return Cell(value, decimal(value))

    def best(row: int) -> Cell:
        known = [(team["columns"][row]["rank"], team) for team in teams if team["columns"][row].get("rank") is not None]
        if not known:
            return Cell(None)
        team = min(known, key=lambda of: of[0])[1]
        cell = value_of(team, row)
        return replace(cell, text=f"{cell.text} ({write_name(team['name'])})")

    titles = column_titles(document)
    table = table_of(
        "standing",
        "The scores that rank",
        range(len(titles)),
        Column("score", of=lambda row: titles[row]),
        Column("value", 4, of=lambda row: value_of(entry, row)),
        Column("rank", 1, of=lambda row: rank_cell(entry["columns"][row].get("rank"))),
        Column("best", 4, "the team that ranks first in this score", best),
        sortable=False,
    )
    return [Text((f"{words}.",)), table]


def place_of(team: Document) -> str:
    if "position" not in team:
        return f"{MARK}{team['name']}"
    return f"{'=' if team['equal'] else ''}{shown(team['position'])}\u2002{team['name']}"


def place_interval(team: Document) -> Cell:
    among = team.get("rank_interval")
    if among is None:
        return Cell(None)
    return Cell(among["low"], interval(among["low"], among["high"]))


def rank_figure(document: Document) -> Figure:
    """In which share of the bootstrap samples each team has each rank, and its published rank."""
    teams = labelled(document, RANKS_UP_TO)
    shares = [{entry["place"]: entry["share"] for entry in team["places"]} for _, team in teams]
    published = tuple(Dot(label, team["position"], "published") for label, team in teams)
    middle = "; ".join(f"{label} {place_interval(team).text}" for label, team in teams[:3])
    return rank_discs(
        "sampled-places",
        "Ranks in bootstrap samples",
        f"The area of a disc is the share of the bootstrap samples, the dark dot the published rank."
        f"{rest_of(document, RANKS_UP_TO)} The middle 95 % of the ranks: {middle}.",
        [label for label, _ in teams],
        shares,
        Series("published rank", published, "@ink"),
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
            blocks.append(win_table(document, tested, name, f"better-{number}"))
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
        "Bars join teams whose differences are not significant, which does not mean that the teams are equal. Mean "
        f"ranks go over all {kind}; the lower, the better."
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
        "pairs", "Differences between pairs of teams", rows[:PAIRS_UP_TO],
        Column("column", of=lambda row: row[0]),
        Column("team", of=lambda row: row[2]["first"]),
        Column("other", of=lambda row: row[2]["second"]),
        Column("difference", 4, f"mean over {kind}; above 0: the team is better", lambda row: row[2]["mean"]),
        Column("interval", None, "of all pairs of a column together", lambda row: interval_cell(row[2])),
        Column("effect", 2, "difference in standard deviations of the differences", lambda row: row[2]["effect"]),
        Column("ahead", 0, f"share of the {kind}", lambda row: percent_cell(row[2]["ahead"])),
        Column("verdict", of=lambda row: row[2]["verdict"]),
        note="Equivalent: the interval lies inside the margin, "
        f"{', '.join(dict.fromkeys(f'{margin:g}' for _, margin, _ in rows))}. Fewer than five {kind}: no interval."
        f"{show_rest(len(rows), PAIRS_UP_TO, 'pairs of leaderboard.json', before=' ')}",
    )  # fmt: skip


def difference_diagram(document: Document, tested: Document, title: str, anchor: str) -> Figure:
    """Mean ranks of the teams that were tested, and which differences are not significant."""
    label_of = {team["name"]: label for label, team in labelled(document, len(document["teams"]))}
    diagram = lay_out_diagram(
        {label_of[team["name"]]: team["mean_rank"] for team in tested["teams"] if team["mean_rank"] is not None},
        [[label_of[name] for name in clique] for clique in tested["cliques"]],
    )
    best = ", ".join(f"{label.name} {label.mean_rank:.2f}" for label in diagram.labels[:3])
    bars = {0: "No bar: all differences are significant.", 1: "One bar joins teams without a significant difference."}
    joined = bars.get(len(diagram.bars), f"{len(diagram.bars)} bars join teams without a significant difference.")
    return draw_diagram(
        diagram,
        anchor=anchor,
        caption=f"{title}: mean ranks and significant differences",
        description=f"{describe_test(tested, title, document['units']['kind'])} The best mean ranks: {best}. {joined}",
        critical_difference=tested["critical_difference"],
    )


def win_table(document: Document, tested: Document, title: str, anchor: str) -> Table:
    """Which teams each team is significantly better and worse than, in the order of the ranks."""
    of_name = {team["name"]: team for team in tested["teams"]}

    def among(team: Document, key: str) -> Cell:
        names = of_name[team["name"]][key]
        return Cell(len(names), f"{len(names):,}: {name_some(names)}" if names else "0")

    return table_of(
        anchor,
        f"{title}: wins and losses by the test",
        [team for team in document["teams"] if of_name[team["name"]]["mean_rank"] is not None],
        Column("team", of="name"),
        Column("significantly better than", of=with_key(among, "better_than")),
        Column("significantly worse than", of=with_key(among, "worse_than")),
        Column("smallest p", of=lambda team: smallest_p(of_name[team["name"]])),
        rest=TEAMS,
    )


def smallest_p(team: Document) -> Cell:
    known = [p for p in team["p_values"] if p is not None]
    return Cell(min(known), probability(min(known))) if known else Cell(None)


# --- units ------------------------------------------------------------------------------------------------------------


def value_section(document: Document) -> Section:
    """The values of units in each column as box plots."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title = f"Scores of each {unit}"
    if not names or "by_unit" not in document["teams"][0]["columns"][0]:
        missing = f"Values of each {unit} are not in leaderboard.json: not known for every team, or too many."
        return Section("values", title, (Text((missing,)),))
    teams, titles = [*labelled(document, BOXES_UP_TO), *shown_entries(document)], column_titles(document)
    figures = []
    for index, heading in enumerate(titles):
        overall = "; ".join(f"{label} {decimal(team['columns'][index]['value'])}" for label, team in teams[:3])
        boxes = [
            Series(
                label,
                tuple(
                    Dot(label, value, name)
                    for name, value in zip(names, team["columns"][index]["by_unit"], strict=True)
                    if value is not None
                ),
                series_colour(row) if "position" in team else "@muted",
                "boxes",
            )
            for row, (label, team) in enumerate(teams)
        ]
        caption = f"{heading}: {'higher' if heading.endswith('↑') else 'lower'} is better"
        rest = rest_of(document, BOXES_UP_TO)
        description = f"A row for each team, from the first to the last.{rest} Overall: {overall}."
        boxes = [box for box in boxes if box.dots]
        figures.append(plot(f"values-{index + 1}", caption, description, boxes, y=Axis(heading), horizontal=True))
    is_marked = f" {NOT_RANKED}" * (len(shown_entries(document)) > 0)
    lead = f"A point is a {unit}" + "; the box is the middle half of them" * (len(names) >= BOX_FROM) + f".{is_marked}"
    return Section("values", title, tuple(figures), lead)


def unit_section(document: Document) -> Section:
    """How each team is ranked by the values of one unit alone."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title = f"Ranks in each {unit}"
    if not names or "unit_places" not in document["teams"][0]:
        return Section("podium", title, (Text((f"Ranks in each {unit} are not in leaderboard.json.",)),))

    def known(team: Document) -> list[float]:
        return [rank for rank in team["unit_places"] if rank is not None]

    def best(team: Document, number: int) -> int:
        return sum(rank <= number for rank in known(team))

    table = table_of(
        "podium-table",
        f"In how many of {counted(len(names), unit)} a team is first, and among the first three",
        document["teams"],
        Column("team", of="name"),
        Column("first", 0, of=with_key(best, 1)),
        Column("among the first three", 0, of=with_key(best, 3)),
        Column("median rank", 1, of=lambda team: rank_cell(float(np.median(known(team))) if known(team) else None)),
        Column("lowest rank", 1, of=lambda team: rank_cell(max(known(team), default=None))),
        Column("not ranked", 0, of=lambda team: len(names) - len(known(team))),
        rest=TEAMS,
    )
    return Section("podium", title, (table,), f"All teams, ranked by the values of one {unit} at a time.")


# --- stability and other rules ----------------------------------------------------------------------------------------


def stability_section(document: Document) -> Section:
    """How much the order changes in samples of the units."""
    found, kind, title = document["stability"], document["units"]["kind"], "How stable the ranks are"
    if found["undefined"] is not None:
        words = f"How stable the ranks are is not known: {why_no_samples(document)}."
        return Section("stability", title, (Text((words,)),))
    tau, without = found["kendall_tau"], found["first_changes_without"]
    to_published = f"to the published order, in the mean; {decimal(tau['low'])} at the low end"
    names = name_some(without, 5) or f"whichever of the {kind} is left out"
    tiles = (
        Tile("same order", percent(found["same_order"]), "share of the bootstrap samples"),
        Tile("Kendall’s tau", tau["mean"], to_published),
        Tile(f"another first without one {unit_of(document)}", len(without), names),
    )
    blocks: list[Block] = [Tiles(tiles)]
    lead = (
        f"{found['samples']:,} bootstrap samples: as many {kind} as there are, drawn with replacement. All teams are "
        "ranked in each."
    )
    return Section("stability", title, tuple(blocks), lead)


def method_section(document: Document) -> Section:
    """The ranks under every method of ranking."""
    own, methods = document["ranking"]["method"], document.get("methods", ())
    lead = "Another way to combine the same numbers; all else stays as it is."
    if not methods:
        none = Text(("leaderboard.json does not have the ranks under other methods.",))
        return Section("methods", "Other methods of ranking", (none,), lead)
    ordered = sorted(methods, key=lambda method: method["method"] != own)

    def rank(row: int, method: Document) -> Cell:
        value = method["places"][row]
        return Cell(value, shown(value) + " *" * (value != ordered[0]["places"][row]))

    table = table_of(
        "method-table",
        "Ranks under other methods of ranking",
        range(len(document["teams"])),
        Column("team", of=lambda row: document["teams"][row]["name"]),
        *(
            Column(method["method"].replace("_", " ") + " (applied)" * (method["method"] == own), 1,
                   of=with_key(rank, method))
            for method in ordered
        ),
        rest=TEAMS,
        note="*: another rank than by the method that is applied.",
    )  # fmt: skip
    return Section("methods", "Other methods of ranking", (table,), lead)


def audit_sections(document: Document, audit: Document | None) -> list[Section]:
    """What an audit of the same challenge says."""
    if audit is None:
        return []
    title = "Can the first rank be defended?"
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


# --- pairs of teams on the nuclei that both matched -------------------------------------------------------------------


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
        "Wins, pair by pair",
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
        "middle 95 % of the bootstrap samples; (?): it contains 0, so the difference is not significant.",
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
