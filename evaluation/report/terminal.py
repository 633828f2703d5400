"""For people in a shell: a page with its tiles, tables and texts, and plots in words; scores side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table as Grid
from rich.text import Text as Words

from evaluation.findings import counted
from evaluation.model import RasterisationReport
from evaluation.report.page import Block, Figure, Page, Section, Table, Text, Tiles, Tone, Widget
from evaluation.report.result import ResultDocuments, reason_in_words
from evaluation.report.skills import (
    ABOUT,
    COMPARED,
    SKILLS,
    Score,
    about_distances,
    best_of,
    compared_titles,
    main_of,
    mean_of,
    skill_rows,
)
from evaluation.report.tables import names_apart, shown_cell, shown_value, table_of, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

SIDE_BY_SIDE = 5  # teams in a shell
SIGNS: dict[Tone, str] = {"plain": "", "good": "✓ ", "warning": "! ", "bad": "✕ "}
STYLES: dict[Tone, str] = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}


def page_renderables(page: Page, *, rows: int = 20) -> list[RenderableType]:
    """What rich prints, part by part. Of tables the first ``rows``; folded sections are only named."""
    parts: list[RenderableType] = [words(page.title, "bold")]
    if page.subtitle:
        parts.append(words(page.subtitle))
    for section in page.sections:
        if section.folded:
            continue
        parts += [Words(), words(section.title, "bold underline")]
        if section.lead:
            parts.append(words(section.lead, "dim"))
        for block in section.blocks:
            parts += [Words(), *block_renderables(block, rows)]
    folded = [section.title for section in page.sections if section.folded]
    if folded:
        parts += [Words(), words(f"Only on the page: {'; '.join(folded)}.", "dim")]
    return [*parts, Words(), *(words(f"{name}: {value}", "dim") for name, value in page.facts)]


def section_renderables(section: Section, *, rows: int = 50) -> list[RenderableType]:
    """The texts and tables of a section alone."""
    blocks = [block for block in section.blocks if isinstance(block, Text | Table)]
    return [part for block in blocks for part in (*block_renderables(block, rows), Words())]


def block_renderables(block: Block, rows: int) -> list[RenderableType]:
    match block:
        case Text():
            sign = SIGNS[block.tone]
            return [
                words((sign if index == 0 else "") + paragraph, STYLES[block.tone])
                for index, paragraph in enumerate(block.paragraphs)
            ]
        case Tiles():
            return [tile_grid(block)]
        case Table():
            left_out = len(block.rows) - rows
            more = f"and {counted(left_out, 'more row')} on the page" if left_out > 0 else ""
            return [table_grid(block, rows), *(words(line, "dim") for line in (more, block.note) if line)]
        case Figure():
            return [words(block.caption, "bold"), words(block.description)]
        case Widget():
            return [words(f"{block.words}, on the page only.", "dim")]


def tile_grid(tiles: Tiles) -> Grid:
    grid = Grid(box=None, show_header=False, pad_edge=False)
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column()
    for tile in tiles.tiles:
        value = "–" if tile.value is None else shown_value(tile.value)
        label = words(SIGNS[tile.tone] + tile.label, STYLES[tile.tone])
        grid.add_row(label, words(value, "bold"), words(tile.detail, "dim"))
    return grid


def table_grid(table: Table, rows: int) -> Grid:
    grid = Grid(title=words(table.caption, "bold"), box=box.SIMPLE_HEAD, title_justify="left", title_style="")
    for column in table.columns:
        grid.add_column(words(column.title), justify="left" if column.digits is None else "right", overflow="fold")
    shown = [
        [shown_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows[:rows]
    ]
    names = names_apart([cells[0].text for cells in shown])
    for name, cells in zip(names, shown, strict=True):
        texts = zip((name, *(one.text for one in cells[1:])), cells, strict=True)
        grid.add_row(*(words(SIGNS[one.cell.tone] + (text or "–"), STYLES[one.cell.tone]) for text, one in texts))
    return grid


def words(text: str, style: str = "") -> Words:
    """A text without markup, and without what would move the cursor."""
    return Words(visible(text), style)


# --- scores side by side ----------------------------------------------------------------------------------------------


def skill_grid(columns: Mapping[str, tuple[ResultDocuments, str]], title: str = "", *, compared: bool = True) -> Grid:
    """The scores of each skill, a column for each result and aggregation by its name.

    compared   the best value of a row stands out; scores of every nucleus are left out, which the ranking shows
    """
    left: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "caption_justify": "left"}
    grid = Grid(title=title or None, box=box.SIMPLE_HEAD, **left)
    grid.add_column("", no_wrap=True)
    for name in columns:
        grid.add_column(words(name), justify="right")
    skill = ""
    skills = {skill: paths for skill, paths in SKILLS.items() if not (compared and skill == "Every nucleus")}
    rows = skill_rows(list(columns.values()), skills)
    grid.caption = about_distances(rows) or None
    for row in rows:
        if row.skill != skill:
            skill = row.skill
            grid.add_row(f"[bold]{skill}{ABOUT.get(skill, '')}[/bold]")
        best = row.best if compared else None
        grid.add_row(f"  {row.path} {row.arrow}", *(marked(score, best) for score in row.scores))
    return grid


MODELS_WITH_POOLED = 3  # side by side; of more models only means are shown


def comparison_grid(models: Mapping[str, Mapping[str, Any]], unit: str, units: int) -> Grid:
    """The numbers of the field, a row each, from the metrics.json of each model: means with intervals, and pooled.

    unit    what means are over, such as "images"
    units   how many these are; of a single one there is no mean
    """
    results = {name: ResultDocuments(metrics) for name, metrics in models.items()}
    with_pooled = len(results) <= MODELS_WITH_POOLED and units > 1
    grid = Grid(box=box.SIMPLE_HEAD)
    grid.add_column("", no_wrap=True)
    columns = []
    for name, result in results.items():
        grid.add_column(words(f"{name}\nmean over {unit}" if units > 1 else name), justify="right")
        columns.append((result, "group_mean"))
        if with_pooled:
            grid.add_column("\npooled", justify="right")
            columns.append((result, "pooled"))
    rows = skill_rows(columns, {"": tuple(COMPARED)})
    for row, title in zip(rows, compared_titles([row.path for row in rows]), strict=True):
        means = [score for score, (_, name) in zip(row.scores, columns, strict=True) if name != "pooled"]
        best = best_of(means, row.arrow)
        cells = [
            marked(replace(score, why=""), best if name != "pooled" else None)
            for score, (_, name) in zip(row.scores, columns, strict=True)
        ]
        grid.add_row(f"{title} {row.arrow}", *cells)
    return grid


def undefined_words(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why scores of a comparison have no value, a line for each reason."""
    rows = skill_rows([(ResultDocuments(metrics), "group_mean") for metrics in models.values()], {"": tuple(COMPARED)})
    reasons: dict[str, None] = dict.fromkeys(score.why for row in rows for score in row.scores if score.value is None)
    return [f"–: {reason_in_words(reason)}." for reason in reasons]


def team_grid(document: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> Grid:
    """The first teams of a leaderboard with a result, side by side; entries that are not ranked are marked."""
    names = {team["name"]: team["name"] for team in document["teams"]}
    names |= {entry["name"]: f"○ {entry['name']}" for entry in document["shown"]}
    found = {label: ResultDocuments(results[name]) for name, label in names.items() if name in results}
    main, shown = main_of(document, next(iter(found.values()))), list(found.items())[:SIDE_BY_SIDE]
    which = "All teams" if len(found) <= SIDE_BY_SIDE else f"The first {SIDE_BY_SIDE} of {len(found):,} teams"
    return skill_grid({name: (of, main) for name, of in shown}, f"{which} side by side, {mean_of(document, main)}")


def marked(score: Score, best: float | None) -> str:
    if score.value is None:
        return f"– ({score.why.replace('-', ' ')})" if score.why else "–"
    interval = f" [dim]{score.ends[0]:.3f}–{score.ends[1]:.3f}[/]" if score.ends else ""
    return (f"[bold green]{score.value:.4f} ★[/]" if score.value == best else f"{score.value:.4f}") + interval


# --- the reference ----------------------------------------------------------------------------------------------------

RASTERISED = {
    "ignore regions": "ignore_outlines",
    "contested px": "contested_px",
    "lost pixels": "outlines_that_lost_pixels",
    "lost whole": "outlines_lost_whole",
}
OF_OUTLINES = {  # what cannot happen to a reference that holds pixels
    "vanished": "outlines_vanished",
    "self-intersecting": "outlines_self_intersecting",
    "reach outside": "outlines_outside",
    "holes": "outlines_with_holes",
    "multi-part": "outlines_multi_part",
}


def rasterisation_table(reports: Mapping[str, RasterisationReport], *, outlines: bool = True) -> Grid:
    """What happened when outlines became pixels; ``outlines`` False: the reference holds pixels."""

    fields = {"outlines" if outlines else "nuclei": "outlines", **RASTERISED, **(OF_OUTLINES if outlines else {})}
    rows = [
        [
            case,
            *(len(of) if isinstance(of := getattr(report, field), tuple | list) else of for field in fields.values()),
        ]
        for case, report in reports.items()
    ]
    table = table_of("", "Rasterisation of the reference", ["case", *fields], rows)
    return table_grid(table, len(table.rows))
