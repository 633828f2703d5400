"""Prints a page in a shell: its tiles, tables and texts, and its plots in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table as Grid
from rich.text import Text as Words

from evaluation.findings import counted
from evaluation.report.page import Block, Figure, Page, Section, Table, Text, Tiles, Tone, Widget
from evaluation.report.tables import name_ends, shown_cell, shown_value, table_of, visible
from nuclei_metrics.model import RasterisationReport

if TYPE_CHECKING:
    from rich.console import RenderableType

SIGNS: dict[Tone, str] = {"plain": "", "good": "✓ ", "warning": "! ", "bad": "✕ "}
STYLES: dict[Tone, str] = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}


def page_renderables(page: Page, *, rows: int = 20) -> list[RenderableType]:
    """List what rich prints of a page: of tables the first ``rows``, of folded sections the title."""
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
            return [_tile_grid(block)]
        case Table():
            left_out = len(block.rows) - rows
            more = f"and {counted(left_out, 'more row')} on the page" if left_out > 0 else ""
            return [_table_grid(block, rows), *(words(line, "dim") for line in (more, block.note) if line)]
        case Figure():
            return [words(block.caption, "bold"), words(block.description)]
        case Widget():
            return [words(f"{block.words}, on the page only.", "dim")]


def _tile_grid(tiles: Tiles) -> Grid:
    grid = Grid(box=None, show_header=False, pad_edge=False)
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column()
    for tile in tiles.tiles:
        value = "–" if tile.value is None else shown_value(tile.value)
        label = words(SIGNS[tile.tone] + tile.label, STYLES[tile.tone])
        grid.add_row(label, words(value, "bold"), words(tile.detail, "dim"))
    return grid


def _table_grid(table: Table, rows: int) -> Grid:
    title = words(table.caption, "bold") if table.caption else None
    grid = Grid(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="")
    for column in table.columns:
        grid.add_column(words(column.title), justify="left" if column.digits is None else "right", overflow="fold")
    start, end = name_ends(replace(table, rows=table.rows[:rows]))
    for row in table.rows[:rows]:
        cells = [shown_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        name = cells[0].text
        cut = "…" * (start > 0) + name[start : len(name) - end] + "…" * (end > 0)
        texts = (cut, *(cell.text for cell in cells[1:]))
        styled = zip(texts, (cell.tone for cell in cells), strict=True)
        grid.add_row(*(words(SIGNS[tone] + (text or "–"), STYLES[tone]) for text, tone in styled))
    return grid


def words(text: str, style: str = "") -> Words:
    """A text without markup, and without what would move the cursor."""
    return Words(visible(text), style)


# --- the reference ----------------------------------------------------------------------------------------------------

RASTERISED = {
    "nuclei": "outlines",
    "ignore regions": "ignore_outlines",
    "contested px": "contested_px",
    "lost pixels": "outlines_that_lost_pixels",
    "lost whole": "outlines_lost_whole",
    "vanished": "outlines_vanished",
    "self-intersecting": "outlines_self_intersecting",
    "reach outside": "outlines_outside",
    "holes": "outlines_with_holes",
    "multi-part": "outlines_multi_part",
}


def rasterisation_table(reports: Mapping[str, RasterisationReport]) -> Table:
    """Tabulate what happened when outlines became pixels; what happened to none of them has no column."""
    columns: dict[str, list[int]] = {}
    for title, name in RASTERISED.items():
        values = [getattr(report, name) for report in reports.values()]
        columns[title] = [len(value) if isinstance(value, tuple) else value or 0 for value in values]
    none = [title for title, column in columns.items() if title != "nuclei" and not any(column)]
    rows = zip(reports, *(column for title, column in columns.items() if title not in none), strict=True)
    titles = ["case", *(title for title in columns if title not in none)]
    note = f"In no case: {', '.join(none)}." if none else ""
    return table_of("", "Rasterisation of the reference", titles, rows, note=note)
