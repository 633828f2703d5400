"""The pages of a leaderboard as a folder that opens from disk: the board, a page for each team, one for each case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from evaluation.execution.workers import Progress
from evaluation.leaderboard.document import Board, leaderboard_document
from evaluation.leaderboard.teams import find_teams
from evaluation.leaderboard.titles import metric_title
from evaluation.report.browser import Seen, browser_section
from evaluation.report.documents import identify_document
from evaluation.report.leaderboard import leaderboard_page
from evaluation.report.listing import table_of, with_key
from evaluation.report.nuclei import NucleusTable
from evaluation.report.page import Cell, Column, Page, Section, Table, Text
from evaluation.report.pictures.scenes import Scene
from evaluation.report.result import ResultDocuments, Unit, is_lower_better
from evaluation.report.results_folder import Sources, page_of_result, read_again, write_page
from evaluation.report.skills import read_results
from evaluation.report.units import main_score, unit_columns, worst_cases

CASES_UP_TO = 100  # that have a page
TEAMS_UP_TO = 20  # on the page of a case
BOARD = "leaderboard.html"


def report_board(
    output: Path,
    board: Board,
    challenge: Path,
    submissions: Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Write all pages of a leaderboard that ``leaderboard`` made in ``output``; their names.

    submissions   the folder that was scored
    """
    document = leaderboard_document(board)
    paths = {team.name: team.path for team in find_teams(submissions, output=output).teams}
    names = [team["name"] for team in (*document["teams"], *document["shown"])]
    chosen: list[str] = []
    seen: dict[str, TeamCases] = {}
    first: ResultDocuments | None = None
    for index, name in enumerate(names):
        folder = output / "results" / name
        read = read_again(folder, Sources(challenge, paths[name]), workers=workers, progress=progress)
        write_page(replace(page_of_result(read, title=f"Result of {name}"), pages=(back(2),)), folder / "report.html")
        if index == 0:
            chosen = [unit.name for unit in worst_cases(read.result, CASES_UP_TO)]
        if index < TEAMS_UP_TO:
            units = {unit.name: unit for unit in read.result.cases if unit.name in chosen}
            scenes = {case: scene for case, scene in read.scenes.items() if case in chosen}
            seen[name] = TeamCases(units, read.nuclei, scenes)
            first = first or read.result
    if first is not None:
        (output / "cases").mkdir(exist_ok=True)
        for case in chosen:
            write_page(case_page(case, seen, first), output / "cases" / f"{case}.html")
    page = leaderboard_page(document, results=read_results(output, document))
    links = {name: f"results/{quote(name)}/report.html" for name in names}
    page = linked(page, links)
    if lines := board.alike.lines():
        section = Section("alike", "Entries that share their errors", (Text(tuple(lines), "warning"),))
        page = replace(page, sections=(page.sections[0], section, *page.sections[1:]))
    if first is not None:
        page = replace(page, sections=(*page.sections[:-1], case_list(chosen, seen, first), *page.sections[-1:]))
    write_page(page, output / BOARD)
    return [BOARD, *(f"results/{name}/report.html" for name in names), *(f"cases/{case}.html" for case in chosen)]


def back(levels: int) -> tuple[str, str]:
    return "Leaderboard", f"{'../' * levels}{BOARD}"


def linked(page: Page, links: Mapping[str, str]) -> Page:
    """The page with the names of teams in its tables leading to their pages."""

    def of_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
        first = row[0] if isinstance(row[0], Cell) else Cell(row[0])
        url = links.get(str(first.value), "")
        return (replace(first, page=url), *row[1:]) if url else row

    def of_block(block: Any) -> Any:
        if not isinstance(block, Table) or not block.columns or block.columns[0].title != "team":
            return block
        return replace(block, rows=tuple(map(of_row, block.rows)))

    sections = [replace(section, blocks=tuple(map(of_block, section.blocks))) for section in page.sections]
    return replace(page, sections=tuple(sections))


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TeamCases:
    """What a team did in the cases that have a page, by their names."""

    units: Mapping[str, Unit]
    nuclei: NucleusTable | None
    scenes: Mapping[str, Scene]


def case_page(case: str, seen: Mapping[str, TeamCases], first: ResultDocuments) -> Page:
    """One case across teams: their scores and counts, and the nuclei of all of them on the same tissue."""
    score = main_score(first)
    values = {name: read.units[case].value(score) for name, read in seen.items()}
    links = {name: f"../results/{quote(name)}/report.html" for name in seen}

    def of_team(name: str, of: Any) -> Any:
        return of(seen[name].units[case])

    columns = [replace(column, of=with_key(of_team, column.of)) for column in unit_columns(first)]
    table = table_of(
        "teams",
        f"All teams on case {case}",
        list(seen),
        Column("team", of=lambda name: Cell(name, page=links[name])),
        *columns,
    )
    sections = [Section("scores", "What was found", (Text((best_and_worst(values, score),)), table))]
    browser = browser_section(
        [
            Seen(name, read.nuclei.of_case(case), {case: read.scenes[case]} if case in read.scenes else {})
            for name, read in seen.items()
            if read.nuclei is not None
        ]
    )
    empty = "No nucleus is known here, neither of the reference nor of a team."
    sections += [browser] if browser else [Section("nuclei", "Nuclei", (Text((empty,)),))]
    subtitle = str(first.metrics["challenge"]["name"])
    facts = identify_document(first.metrics)
    return Page(f"Case {case}", subtitle, facts, tuple(sections), pages=(back(1),))


def best_and_worst(values: Mapping[str, float | None], score: str) -> str:
    known = sorted((value, name) for name, value in values.items() if value is not None)
    if not known:
        return f"No team has a {metric_title(score)} here: there is nothing to score."
    (low, lowest), (high, highest) = known[0], known[-1]
    if len(known) == 1:
        return f"{metric_title(score)} is {low:.3f} for {lowest}."
    return f"{metric_title(score)} is highest for {highest} ({high:.3f}) and lowest for {lowest} ({low:.3f})."


def case_list(cases: list[str], seen: Mapping[str, TeamCases], first: ResultDocuments) -> Section:
    """The section of the board that leads to the cases, the hardest first."""
    score = main_score(first)

    def values(case: str) -> list[float]:
        known = [read.units[case].value(score) for read in seen.values()]
        return [value for value in known if value is not None]

    def median(case: str) -> float | None:
        return float(np.median(of)) if (of := values(case)) else None

    way = max if is_lower_better(score) else min
    title = metric_title(score)
    note = f"The {len(cases)} of {len(first.cases):,} cases that the first team finds hardest have a page." * (
        len(cases) < len(first.cases)
    )
    table = table_of(
        "case-pages",
        "Cases, each with a page of all teams",
        cases,
        Column("case", of=lambda case: Cell(case, page=f"cases/{quote(case)}.html")),
        Column(f"median {title}", 3, of=median),
        Column(f"worst {title}", 3, of=lambda case: way(values(case), default=None)),
        note=note,
    )
    return Section("case-list", "Cases", (table,))
