"""The page of a leaderboard (leaderboard.json): the answer, the table, one picture; the rest is folded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

import numpy as np

from evaluation.board.facts import are_too_few, facts_of, why_no_samples
from evaluation.board.titles import METHODS, Document, metric_title, short_titles, unit_of
from evaluation.files.results.documents import encoded
from evaluation.findings import counted, percent
from evaluation.report import page, tables
from evaluation.report.figures import BOX_FROM, difference_figure, series_colour
from evaluation.report.plots import FEWEST_TEAMS, correlation_figure, scatter_section
from evaluation.report.reasons import columns_lost, standing_in_words
from evaluation.report.result import ResultDocuments
from evaluation.report.skills import MARK, main_of, team_tables
from evaluation.report.studies import answer_text, rule_section, unranked_table

RANKS_UP_TO, BOXES_UP_TO = 40, 20  # teams in a plot
PAIRS_IN_A_TABLE = 40  # in a table
TABLE_OF_TEAMS = "teams of leaderboard.json"
NOT_RANKED = "“○”: shown without a rank; not part of any rank or test."
NO_TEST = {
    "one-team": "fewer than two teams have a value",
    "one-unit": "all teams have a value in one unit only",
    "no-complete-unit": "no patient or case has a value from every team",
}


def leaderboard_page(
    document: Document,
    *,
    audit: Document | None = None,
    results: Mapping[str, Document] | None = None,
    details: Mapping[str, ResultDocuments] | None = None,
    title: str = "",
) -> page.Page:
    """Create the page of the content of a leaderboard.json.

    audit    the content of an audit.json of the same challenge: the ranks under other rules
    results  the content of the metrics.json of teams, by name: all their scores side by side
    details  the results of teams with details.json: their scores in each unit
    """
    sections = [ranking_section(document), *_subtask_section(document), *_moves_section(document)]
    if of_skills := team_tables(document, results or {}):
        title_of_skills = "Detection, classification and segmentation"
        sections.append(page.Section("teams", title_of_skills, tuple(of_skills), folded=True))
    sections += [replace(section, folded=True) for section in _plots(document, results or {}, details or {})]
    return page.document_page(
        "leaderboard",
        document,
        [*sections, *folded_sections(document, audit)],
        subtitle=f"{counted(len(document['teams']), 'team')}, ranked",
        title=title,
        teams=[team["name"] for team in document["teams"]],
    )


def _plots(
    document: Document, results: Mapping[str, Document], details: Mapping[str, ResultDocuments]
) -> list[page.Section]:
    """Plot the scores of each unit in pairs, and how metrics agree on the order of the ranked teams."""
    marked = {entry["name"]: f"{MARK}{entry['name']}" for entry in document.get("shown", ())}
    with_details = {marked.get(name, name): result for name, result in details.items()}
    sections = scatter_section(with_details, unit_of(document), document.get("unit_names", ()))
    ranked = [team["name"] for team in document["teams"] if team["name"] in results]
    of_teams = {name: ResultDocuments(results[name]) for name in ranked}
    if len(of_teams) < FEWEST_TEAMS:
        return sections
    columns = [column["path"] for column in document["columns"]]
    figure = correlation_figure(of_teams, columns, main_of(document, of_teams[ranked[0]]))
    title = "How metrics agree"
    return [*sections, page.Section("metric-agreement-section", title, (figure,))] if figure else sections


def folded_sections(document: Document, audit: Document | None = None) -> list[page.Section]:
    """Create the sections below the ranking, closed at first."""
    sections = []
    if document["teams"]:
        sections = [
            *_common_section(document),
            _difference_section(document),
            _value_section(document),
            _unit_section(document),
            _stability_section(document),
            _methods_section(document),
            *_audit_sections(document, audit),
        ]
    return [replace(section, folded=True) for section in (*sections, _ranking_rules_section(document))]


def _column_titles(document: Document) -> list[str]:
    """Name the columns, with an arrow towards better values."""
    names = short_titles([column["path"] for column in document["columns"]])
    ways = [column["direction"] for column in document["columns"]]
    return [f"{name} {'↑' if way == 'descending' else '↓'}" for name, way in zip(names, ways, strict=True)]


def _labelled(document: Document, limit: int) -> list[tuple[str, Document]]:
    """Return the first teams with their names in plots."""
    names = tables.label_teams([team["name"] for team in document["teams"]])
    return list(zip(names[:limit], document["teams"][:limit], strict=True))


# --- the facts --------------------------------------------------------------------------------------------------------


def ranking_section(document: Document) -> page.Section:
    """Show the facts, the leaderboard itself, and one picture: how far the ranks can be trusted."""
    blocks: list[page.Block] = [facts_table(document), board_table(document)]
    if below := [team for team in document["teams"] if team.get("below_floor")]:
        blocks.append(_floor_table(document["ranking"]["require"], below))
    if document["not_ranked"]:
        blocks.append(unranked_table(document["not_ranked"]))
    if any(team.get("places") for team in document["teams"]) and not are_too_few(document):
        blocks.append(_rank_figure(document))
    return page.Section("places", "Ranking", tuple(blocks))


def _subtask_section(document: Document) -> list[page.Section]:
    """Show the ranks by the columns of each subtask alone, next to the rank by all of them."""
    subtasks = document.get("subtasks", ())
    if not subtasks:
        return []
    names = [subtask["name"].replace("_", " ") for subtask in subtasks]
    rows = [
        [team["name"], *map(tables.rank_cell, ranks), tables.rank_cell(team["position"])]
        for team, *ranks in zip(document["teams"], *(subtask["places"] for subtask in subtasks), strict=True)
    ]
    help = dict(zip(names, (", ".join(subtask["columns"]) for subtask in subtasks), strict=True))
    caption = "Ranks per subtask, and the rank over all columns"
    titles = ["team", *names, "all"]
    table = tables.table_of("subtasks", caption, titles, rows, help=help, rest=TABLE_OF_TEAMS)
    lead = "Each subtask is ranked by its columns only, with the method of the ranking."
    return [page.Section("subtask-section", "Ranks of each subtask", (table,), lead)]


def _moves_section(document: Document) -> list[page.Section]:
    """Show the ranks and scores of all teams on an older board and now, and further changes."""
    before = document.get("before")
    if before is None:
        return []
    lines = [_about_reference(before["reference"])]
    for key, what in (("hash", "Rules and cases"), ("ranking_hash", "Rules of the ranking")):
        old, now = ((challenge or {}).get(key) for challenge in (before["challenge"], document["challenge"]))
        if old != now:
            lines.append(f"{what}: {old or 'unknown'} before, {now or 'unknown'} now.")
        elif now:
            lines.append(f"{what} are the same: {now}.")
    teams, titles = before["teams"], _column_titles(document)
    moved = sum(team["before"] != team["now"] for team in teams)
    changed = sum(any(score["before"] != score["now"] for score in team["scores"]) for team in teams)
    records = [
        {
            "team": team["name"],
            "rank": _change_cell(team, tables.rank_text),
            **{title: _change_cell(one, tables.decimal) for title, one in zip(titles, team["scores"], strict=True)},
        }
        for team in teams
    ]
    caption = f"{counted(len(teams), 'team')}: {moved:,} with a new rank, {changed:,} with new scores"
    blocks: list[page.Block] = [page.Text(tuple(lines))]
    if records:
        note = "Before → now; one number: the same to the digits that are shown."
        blocks.append(tables.table_of("moves-table", caption, [*records[0]], records, rest=TABLE_OF_TEAMS, note=note))
    return [page.Section("moves", "Changes", tuple(blocks), "Compared with an earlier leaderboard.")]


def _about_reference(reference: Document | None) -> str:
    if reference is None:
        return "Changes of the reference are unknown: a board has no reference.json next to it."
    changed = reference["changed"]
    if not changed:
        return "The reference files are the same."
    if changed == [""]:
        return "The reference has changed."
    where = f"{len(changed):,} of {counted(reference['cases'], 'case')}: {tables.name_some(changed)}"
    return f"The reference has changed in {where}."


def _change_cell(change: Document, text: Callable[[float | None], str]) -> page.Cell:
    """Write a number before and now; once if it is the same."""
    before, now = (text(change[when]) for when in ("before", "now"))
    return page.Cell(change["now"], now if before == now else f"{before} → {now}")


def facts_table(document: Document) -> page.Block:
    """Show facts about the ranking with their evidence."""
    facts = document.get("facts") or encoded(facts_of(document))
    if not facts:
        return page.Text(("No team is ranked.",))
    return tables.table_of("facts", "", ("fact", "value", "rests_on"), facts, sortable=False)


def board_table(document: Document) -> page.Table:
    """List all teams with their values and ranks; the scores are next to the names, so that a phone shows them."""
    teams, shown_only = document["teams"], document.get("shown", ())
    help, titles = {"team": "rank and name; “=” marks a tie"}, _column_titles(document)
    for column, title in zip(document["columns"], titles, strict=True):
        weight = "" if column["weight"] == 1 else f", weight {column['weight']:g}"
        better = "higher" if column["direction"] == "descending" else "lower"
        help[title] = f"{column['path']}, {better} is better{weight}; its rank in brackets"
    combined = METHODS[document["ranking"]["method"]].head
    help[combined] = "computed from the ranks in all columns; lower is better"
    has_samples = document["stability"]["undefined"] is None and not are_too_few(document)
    if has_samples and any("rank_set" in team for team in teams):
        help["rank set"] = (
            "1 + teams significantly better to all - teams significantly worse, over the columns together"
        )
    if has_samples:
        help["95% of the ranks"] = "ranks in the middle 95% of bootstrap samples"
        help["first"] = "share of bootstrap samples in which the team ranks first"

    def in_column(score: Document) -> page.Cell:
        if "rank" not in score:
            return tables.decimal_cell(score["value"])
        cell = tables.decimal_cell(score["value"], f"{{}} ({tables.rank_text(score['rank'])})")
        return replace(cell, shade=(len(teams) - score["rank"]) / (len(teams) - 1) if len(teams) > 1 else None)

    def record_of(team: Document) -> dict[str, page.Cell]:
        place = MARK
        if "position" in team:
            place = f"{'=' if team['equal'] else ''}{tables.rank_text(team['position'])}\u2002"
        return {
            "team": page.Cell(team["name"], f"{place}{team['name']}"),
            **dict(zip(titles, map(in_column, team["columns"]), strict=True)),
            combined: tables.rank_cell(team.get("combined")),
            "rank set": _rank_range(team.get("rank_set")),
            "95% of the ranks": rank_interval(team),
            "first": tables.percent_cell(team.get("probability_of_first")),
        }

    note = "Ranks are in brackets." + " “=”: teams that share a rank." * any(team["equal"] for team in teams)
    note += f" {NOT_RANKED}" * bool(shown_only)
    records, caption = map(record_of, (*teams, *shown_only)), "Ranked teams"
    return tables.table_of("board", caption, list(help), records, help=help, rest=TABLE_OF_TEAMS, note=note)


def rank_interval(team: Document) -> page.Cell:
    return _rank_range(team.get("rank_interval"))


def _rank_range(among: Document | None) -> page.Cell:
    return page.Cell(None) if among is None else page.Cell(among["low"], tables.rank_range(among["low"], among["high"]))


def _floor_table(floors: Sequence[Document], below: Sequence[Document]) -> page.Table:
    """List the teams below a minimum, which rank after all other teams, with these numbers."""
    titles = [metric_title(floor["path"]) for floor in floors]
    asked = [f"{title} of at least {floor['at_least']:g}" for title, floor in zip(titles, floors, strict=True)]
    records = [
        {
            "team": team["name"],
            "rank": tables.rank_cell(team["position"]),
            **dict(zip(titles, map(tables.decimal_cell, team["floors"]), strict=True)),
        }
        for team in below
    ]
    note = f"Teams without {' and '.join(asked)} rank after all other teams."
    return tables.table_of("floors", "Below the minimum", [*records[0]], records, rest=TABLE_OF_TEAMS, note=note)


def standing_of(document: Document, name: str) -> list[page.Block]:
    """Return the rank of one entry in words, and show its ranked scores next to the best of all teams."""
    teams = document["teams"]
    entry = next(entry for entry in (*teams, *document.get("shown", ())) if entry["name"] == name)
    words = "Shown without a rank"
    if "position" in entry:
        words = f"Rank {tables.rank_text(entry['position'])} of {counted(len(teams), 'team')}"
        words += f", shared with {tables.name_some(entry['equal'])}" * bool(entry["equal"])
        if (among := rank_interval(entry)).value is not None and not are_too_few(document):
            words += f"; rank {among.text} in at least 95% of bootstrap samples"
        words += "; below the minimum, so ranked after all other teams" * bool(entry.get("below_floor"))
    records = []
    for index, (title, own) in enumerate(zip(_column_titles(document), entry["columns"], strict=True)):
        ranked = [
            (cell["rank"], cell["value"], team["name"])
            for team in teams
            if (cell := team["columns"][index]).get("rank") is not None
        ]
        _, value, first = min(ranked, key=itemgetter(0), default=(None, None, ""))
        best = tables.decimal_cell(value, f"{{}} ({tables.write_name(first)})") if ranked else page.Cell(None)
        own_value, rank = tables.decimal_cell(own["value"]), tables.rank_cell(own.get("rank"))
        records.append({"score": title, "value": own_value, "rank": rank, "best": best})
    table = tables.table_of("standing", "Ranked scores", [*records[0]], records, sortable=False)
    behind = page.Text(tuple(columns_lost(document, name, _column_titles(document))))
    return [page.Text((f"{words}.",)), table, *[behind] * bool(behind.paragraphs)]


def why_behind(document: Document, name: str) -> list[str]:
    """Return the rank of a team, and the columns in which other teams are better. Raises WrongUsage."""
    return standing_in_words(document, name, _column_titles(document))


def _rank_figure(document: Document) -> page.Figure:
    """Draw in which share of the bootstrap samples each team has each rank, next to its published rank."""
    teams = _labelled(document, RANKS_UP_TO)
    drawn = [
        (label, entry["place"], entry["share"])
        for label, team in teams
        for entry in sorted(team["places"], key=itemgetter("place"))
        if entry["share"]
    ]
    of_samples = "in {} of the bootstrap samples"
    discs = [
        page.Dot(label, place, of_samples.format(percent(share, 1).replace(".0%", "%")), size=share)
        for label, place, share in drawn
    ]
    published = [page.Dot(label, team["position"], "published") for label, team in teams]
    series = page.Series("bootstrap samples", discs, kind="discs"), page.Series("published rank", published, "@ink")
    middle = "; ".join(f"{label} {rank_interval(team).text}" for label, team in teams[:3])
    rest = tables.show_rest(len(document["teams"]), RANKS_UP_TO, TABLE_OF_TEAMS, before=" ")
    last = max(entry["place"] for _, team in teams for entry in team["places"])
    return page.Figure(
        "sampled-places",
        "Ranks in bootstrap samples",
        f"Disc area: share of bootstrap samples. Dark dot: published rank.{rest} Middle 95% of the ranks: {middle}.",
        series,
        y=page.Axis("rank", (0.5, last + 0.5), is_whole=True),
        horizontal=True,
    )


# --- differences ------------------------------------------------------------------------------------------------------


def _difference_section(document: Document) -> page.Section:
    """Show the test results of each column: a critical-difference diagram, and the differences of pairs."""
    title, kind = "Differences between teams", document["units"]["kind"]
    blocks = list[page.Block]()
    for number, name in enumerate(_column_titles(document), start=1):
        tested = document["columns"][number - 1]["significance"]
        if tested is None:
            continue
        if (why := tested["undefined"]) is not None:
            blocks.append(page.Text((f"{name}: no test, since {NO_TEST.get(why, why)}.",)))
        elif "cliques" not in tested:
            unnamed = f"{name}: with {len(tested['teams']):,} teams, leaderboard.json has no single pairs."
            blocks.append(page.Text((unnamed,)))
        else:
            blocks.append(_difference_diagram(document, tested, name, f"difference-{number}"))
    if not blocks:
        unknown = f"No tests: scores per {unit_of(document)} are not available."
        return _text_section("differences", title, unknown)
    if (table := _pair_table(document)).rows:
        blocks.append(table)
    lead = (
        "A line connects each team to the last team without a significant difference, which does not mean that the "
        f"teams are equal. Mean ranks are over all {kind}; lower is better."
    )
    return page.Section("differences", title, tuple(blocks), lead)


def _text_section(anchor: str, title: str, words: str) -> page.Section:
    """Create a section with only a reason for missing content."""
    return page.Section(anchor, title, (page.Text((words,)),))


def _pair_table(document: Document) -> page.Table:
    """List the differences between the teams of each pair, with intervals and verdicts."""
    compared = [
        (title, column)
        for title, column in zip(_column_titles(document), document["columns"], strict=True)
        if column.get("differences")
    ]
    pairs = [
        {**pair, "column": title, "team": pair["first"], "other": pair["second"], "difference": pair["mean"],
         "interval": (pair["low"], pair["high"]), "d_z": pair["effect"]}
        for title, column in compared
        for pair in column["differences"]
    ]  # fmt: skip
    margins = ", ".join(dict.fromkeys(f"{column['margin']:g}" for _, column in compared))
    note = f"Equivalent: interval within ±{margins}. Intervals need at least five {document['units']['kind']}."
    note += f"{tables.show_rest(len(pairs), PAIRS_IN_A_TABLE, 'pairs of leaderboard.json', before=' ')}"
    keys = ("column", "team", "other", "difference", "interval", "p_value", "d_z", "ahead", "verdict")
    return tables.table_of("pairs", "Differences between pairs of teams", keys, pairs[:PAIRS_IN_A_TABLE], note=note)


DISTRIBUTIONS: dict[str | None, str] = {"exact": "exact", "monte_carlo": "from drawn signs"}


def _describe_test(tested: Document, title: str, kind: str) -> str:
    """Describe the test in a column in a sentence."""
    teams = len(tested["teams"])
    better = [team["better_than"] for team in tested["teams"]]
    apart = sum(teams_behind if isinstance(teams_behind, int) else len(teams_behind) for teams_behind in better)
    pairs = counted(teams * (teams - 1) // 2, "pair")
    verdict = f"{apart:,} of {pairs} of teams {'differs' if apart == 1 else 'differ'} significantly"
    left_out = f", {tested['left_out']:,} excluded" if tested["left_out"] else ""
    if tested["units"] < tested["least_units"]:
        least = f"{tested['least_units']} are the least"
        verdict = f"{tested['units']:,} {kind} are too few for a significant difference: {least}"
    if tested["test"] == "sign_flips":
        by, end = "flipped signs, corrected for all pairs and columns", DISTRIBUTIONS[tested["pair_distribution"]]
    elif tested["test"] == "friedman_nemenyi":
        friedman = tested["friedman"]
        by = "the sign test" if teams == 2 else "Nemenyi"
        how = DISTRIBUTIONS.get(friedman.get("distribution"), "chi-squared approximation")
        end = f"Friedman {tables.probability(friedman['p_value'])}, {how}"
    else:
        by, end = "Wilcoxon and Holm", DISTRIBUTIONS.get(tested.get("pair_distribution"), "normal approximation")
    return f"{title[:-2]}: {verdict} ({by}, {tested['units']:,} {kind}{left_out}; {end})."


def _difference_diagram(document: Document, tested: Document, title: str, anchor: str) -> page.Figure:
    """Draw the mean ranks of the teams that were tested, and which differences are not significant."""
    label_of = {team["name"]: label for label, team in _labelled(document, len(document["teams"]))}
    means = {label_of[team["name"]]: team["mean_rank"] for team in tested["teams"] if team["mean_rank"] is not None}
    cliques = [[label_of[name] for name in clique] for clique in tested["cliques"] if len(clique) > 1]
    best = ", ".join(
        f"{name} {mean:.2f}" for name, mean in sorted(means.items(), key=lambda mean: (mean[1], mean[0]))[:3]
    )
    caption = f"{title}: mean ranks and significant differences"
    words = f"{_describe_test(tested, title, document['units']['kind'])} The best mean ranks: {best}."
    return difference_figure(anchor, caption, words, means, cliques, tested["critical_difference"])


# --- units ------------------------------------------------------------------------------------------------------------


def _value_section(document: Document) -> page.Section:
    """Draw the values of units in each column as box plots."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title = f"Scores of each {unit}"
    if not names or "by_unit" not in document["teams"][0]["columns"][0]:
        missing = f"Values of each {unit} are not in leaderboard.json: missing for some teams, or too many."
        return _text_section("values", title, missing)
    entries = [entry for entry in document.get("shown", ()) if "by_unit" in entry["columns"][0]]
    marked = [(MARK + tables.write_name(entry["name"], tables.LABEL_UP_TO), entry) for entry in entries]
    teams, figures = [*_labelled(document, BOXES_UP_TO), *marked], []
    for index, heading in enumerate(_column_titles(document)):
        overall = "; ".join(f"{label} {tables.decimal(team['columns'][index]['value'])}" for label, team in teams[:3])
        boxes = []
        for row, (label, team) in enumerate(teams):
            values = zip(names, team["columns"][index]["by_unit"], strict=True)
            dots = [page.Dot(label, value, name) for name, value in values if value is not None]
            colour = series_colour(row) if "position" in team else "@muted"
            boxes += [page.Series(label, dots, colour, "boxes")] if dots else []
        caption = f"{heading}: {'higher' if heading.endswith('↑') else 'lower'} is better"
        rest = tables.show_rest(len(document["teams"]), BOXES_UP_TO, TABLE_OF_TEAMS, before=" ")
        description = f"One row per team, in rank order.{rest} Overall: {overall}."
        figures.append(
            page.Figure(f"values-{index + 1}", caption, description, boxes, y=page.Axis(heading), horizontal=True)
        )
    lead = f"A point is a {unit}" + "; boxes show the middle 50%" * (len(names) >= BOX_FROM) + "."
    return page.Section("values", title, tuple(figures), lead + f" {NOT_RANKED}" * bool(marked))


def _unit_section(document: Document) -> page.Section:
    """Show how each team is ranked by the values of one unit alone."""
    unit, names = unit_of(document), document.get("unit_names", ())
    title = f"Ranks in each {unit}"
    if not names or "unit_places" not in document["teams"][0]:
        return _text_section("podium", title, f"Ranks in each {unit} are not in leaderboard.json.")

    records = []
    for team in document["teams"]:
        ranks = [rank for rank in team["unit_places"] if rank is not None]
        record = {
            "team": team["name"],
            "first": sum(rank <= 1 for rank in ranks),
            "in the top three": sum(rank <= 3 for rank in ranks),
            "median rank": tables.rank_cell(float(np.median(ranks)) if ranks else None),
            "worst rank": tables.rank_cell(max(ranks, default=None)),
            "not ranked": len(names) - len(ranks),
        }
        records.append(record)
    caption = f"{counted(len(names), unit).capitalize()}: in how many each team ranks first, and in the top three"
    table = tables.table_of("podium-table", caption, [*records[0]], records, rest=TABLE_OF_TEAMS)
    return page.Section("podium", title, (table,), f"All teams, ranked by the values of one {unit} at a time.")


# --- stability and other rules ----------------------------------------------------------------------------------------


def _stability_section(document: Document) -> page.Section:
    """Show how much the order changes in samples of the units."""
    stability, kind, title = document["stability"], document["units"]["kind"], "How stable the ranks are"
    if stability["undefined"] is not None:
        return _text_section("stability", title, f"Stability is unknown: {why_no_samples(document)}.")
    tau, without = stability["kendall_tau"], stability["first_changes_without"]
    to_published = f"to the published order, mean over samples; lower end of the interval: {tables.decimal(tau['low'])}"
    names = tables.name_some(without, 5) or f"whichever of the {kind} is excluded"
    tiles = (
        page.Tile("same order", percent(stability["same_order"]), "share of the bootstrap samples"),
        page.Tile("Kendall’s tau", tau["mean"], to_published),
        page.Tile(f"another first without one {unit_of(document)}", len(without), names),
    )
    lead = (
        f"{stability['samples']:,} bootstrap samples of the {kind}, drawn with replacement. All teams are ranked again "
        "in every sample."
    )
    return page.Section("stability", title, (page.Tiles(tiles),), lead)


def _methods_section(document: Document) -> page.Section:
    """Show the ranks under every method of ranking."""
    own, title = document["ranking"]["method"], "Other methods of ranking"
    lead = "The same scores, combined by other methods."
    methods = sorted(document.get("methods", ()), key=lambda method: bool(method["method"] != own))
    if not methods:
        none = "leaderboard.json does not have the ranks under other methods."
        return page.Section("methods", title, (page.Text((none,)),), lead)
    titles = [method["method"].replace("_", " ") + " (applied)" * (method["method"] == own) for method in methods]
    rows = [
        [team["name"], *(page.Cell(rank, tables.rank_text(rank) + " *" * (rank != ranks[0])) for rank in ranks)]
        for team, *ranks in zip(document["teams"], *(method["places"] for method in methods), strict=True)
    ]
    note, caption = "*: differs from the rank by the applied method.", "Ranks under other methods of ranking"
    table = tables.table_of("method-table", caption, ["team", *titles], rows, rest=TABLE_OF_TEAMS, note=note)
    return page.Section("methods", title, (table,), lead)


def _audit_sections(document: Document, audit: Document | None) -> list[page.Section]:
    """Show the answer of an audit of the same challenge."""
    if audit is None:
        return []
    title = "Can the first rank be defended?"
    if audit["challenge"] != document["challenge"]:
        return [_text_section("audit", title, "audit.json was made with other rules or cases.")]
    return [page.Section("audit", title, (answer_text(audit),), "From audit.json."), rule_section(audit)]


def _ranking_rules_section(document: Document) -> page.Section:
    """Show the rules of the ranking as they were applied, and findings."""
    ranking = {key: value for key, value in sorted(document["ranking"].items()) if key != "in_words"}
    columns = tables.table_of("columns", "Columns", ("path", "direction", "weight"), document["columns"])
    applied = tables.leaf_table("ranking", "Ranking rules", ranking)
    blocks: list[page.Block] = [page.Text((document["ranking"]["in_words"],)), columns, applied]
    if findings := tuple(document["findings"]):
        blocks.append(page.Text(findings, "warning"))
    return page.Section("method", "The method", tuple(blocks))


# --- pairs of teams on the nuclei that both matched -------------------------------------------------------------------


def _common_section(document: Document) -> list[page.Section]:
    """Compare pairs of teams on the nuclei that both teams matched, if these nuclei are stored."""
    common = document.get("common_nuclei")
    if not common:
        return []
    reasons: dict[str, list[str]] = {}
    for team in common["without"]:
        reasons.setdefault(team["reason"], []).append(team["name"])
    unknown = tuple(f"Not compared: {tables.name_some(names)}. {reason}" for reason, names in reasons.items())
    notes = [page.Text(unknown, "warning")] if unknown else []
    if len(common["teams"]) < 2:
        return [page.Section("common", "On common nuclei", tuple(notes))] if notes else []
    others = len(common["teams"]) - 1
    ahead = [f"ahead in {metric_title(measure['name'])} or matches" for measure in common["measures"]]
    rows: list[list[page.Value]] = [
        [team["name"], team["matched"], *(page.Cell(wins, f"{wins:,} of {others:,}") for wins in team["ahead"])]
        for team in common["teams"]
    ]
    teams = tables.table_of(
        "common-teams", "Wins, pair by pair", ["team", "matched nuclei", *ahead], rows, rest=TABLE_OF_TEAMS
    )
    rows = []
    has_intervals = any(m["low"] is not None for pair in common["pairs"] for m in pair["measures"])
    for pair in common["pairs"]:
        shares = page.Cell(min(share or 0 for share in pair["shares"]), " and ".join(map(percent, pair["shares"])))
        who = [_ahead_cell(pair["by"], measure) for measure in pair["measures"]]
        rows.append([pair["first"], pair["second"], pair["common"], shares, *who])
    pairs = tables.table_of(
        "common-pairs",
        "Team pairs on common nuclei, adjacent ranks first",
        ["team", "other team", "common nuclei", "of its matches", *ahead],
        rows,
        rest="pairs of leaderboard.json",
        note=f"Two teams are compared if at least {common['least']} nuclei are common, and at least "
        f"{percent(common['share'])} of the matched nuclei of each team; otherwise the team with more matches is "
        f"ahead.{' In brackets: the 95% interval (Student).' * has_intervals}",
    )
    lead = (
        "Which team outlines the same nuclei better? Only nuclei matched by both teams count; all "
        f"{document['units']['kind']} have the same weight."
    )
    return [page.Section("common", "On common nuclei", (teams, pairs, *notes), lead)]


def _ahead_cell(by: str, measure: Document) -> page.Cell:
    """Return which team of a pair is ahead and by how much, or that the number of matched nuclei decides."""
    ahead = "neither" if measure["ahead"] is None else tables.write_name(measure["ahead"])
    if by == "matched":
        return page.Cell(ahead, f"{ahead}: more matches" if measure["ahead"] else "tie: equal matches")
    if measure["difference"] is None:
        return page.Cell(None)
    sign, ends = -1 if measure["difference"] < 0 else 1, ""
    if measure["low"] is not None:
        low, high = sorted((sign * measure["low"], sign * measure["high"]))
        ends = f" ({tables.decimal(low)} to {tables.decimal(high)})"
    return page.Cell(ahead, f"{ahead} by {abs(measure['difference']):.4f}{ends}")
