"""Prints a page in a shell: its tiles, tables and texts, and its plots in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.table import Table as Grid
from rich.text import Text as Words

from evaluation.findings import counted
from evaluation.report.page import Block, Figure, Page, Section, Table, Text, Tiles, Tone, Widget
from evaluation.report.tables import name_ends, shown_cell, shown_value, table_of, visible, write_name
from nuclei_metrics.model import RasterisationReport

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

SIGNS: dict[Tone, str] = {"plain": "", "good": "✓ ", "warning": "! ", "bad": "✕ "}
STYLES: dict[Tone, str] = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}


def page_renderables(page: Page, *, rows: int = 20) -> list[RenderableType]:
    """List the parts of a page for rich: of tables the first ``rows``, of folded sections the title."""
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
            return [_FittingTable(block, rows), *(words(line, "dim") for line in (more, block.note) if line)]
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


@dataclass(frozen=True, slots=True)
class _FittingTable:
    """The first rows of a table, in as many blocks of columns as the terminal needs.

    Each has the first column, and the second if rows have the same first cell.
    """

    table: Table
    rows: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = self.table.columns
        start, end = name_ends(replace(self.table, rows=self.table.rows[: self.rows]))
        rows = []
        for row in self.table.rows[: self.rows]:
            cells = [shown_cell(cell, column) for cell, column in zip(row, columns, strict=True)]
            name = cells[0].text
            cut = "…" * (start > 0) + name[start : len(name) - end] + "…" * (end > 0)
            texts = (cut, *(cell.text for cell in cells[1:]))
            rows.append(
                [words(SIGNS[cell.tone] + (text or "–"), STYLES[cell.tone])
                 for text, cell in zip(texts, cells, strict=True)]
            )  # fmt: skip
        heads = [words(_head_of(column.title)) for column in columns]
        widths = [
            _ends_of_width([heads[index], *(row[index] for row in rows)], is_whole=column.digits is not None)
            for index, column in enumerate(columns)
        ]
        widths[0] = max(widths[0][0], min(widths[0][1], _NAME_UP_TO)), widths[0][1]
        title = words(self.table.caption, "bold") if self.table.caption else None
        heading = 1 + (len({row[0].plain for row in rows}) < len(rows))
        for block in _blocks(widths, options.max_width, heading):
            grid = Grid(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="")
            for index, width in zip(block, _fitted([widths[index] for index in block], options.max_width), strict=True):
                justify: Literal["left", "right"] = "left" if columns[index].digits is None else "right"
                grid.add_column(heads[index], justify=justify, overflow="fold", width=width)
            for texts_of_row in rows:
                grid.add_row(*(texts_of_row[index] for index in block))
            yield grid
            title = None


_HEAD_UP_TO = 32  # characters of a title without blanks
_NAME_UP_TO = 40  # characters of the first column that are not wrapped
_BESIDE = 3  # characters beside a column, and one more at the end of a row


def _head_of(title: str) -> str:
    """Return the title of a column; a long name without blanks is cut in its middle."""
    return title if " " in title else write_name(title, _HEAD_UP_TO)


def _ends_of_width(texts: Sequence[Words], *, is_whole: bool) -> tuple[int, int]:
    """Return the least width of a column, in which no word is cut and no number wrapped, and the width of one line."""
    head, *cells = texts
    natural = max(text.cell_len for text in texts)
    longest = max(cell_len(word) for text in (texts if not is_whole else [head]) for word in text.plain.split(" "))
    return (max([longest, *(text.cell_len for text in cells)]) if is_whole else longest), natural


def _blocks(widths: Sequence[tuple[int, int]], room: int, heading: int) -> Iterator[list[int]]:
    """Yield the columns of each block: the columns that head the rows, and as many further columns as fit.

    >>> [*_blocks([(10, 20), (8, 8), (8, 8), (8, 8)], 40, 1)], [*_blocks([(9, 9)] * 4, 40, 2)]
    ([[0, 1, 2], [0, 3]], [[0, 1, 2], [0, 1, 3]])
    """
    block = head = [*range(min(heading, len(widths)))]
    for index in range(len(head), len(widths)):
        if len(block) > len(head) and sum(widths[one][0] + _BESIDE for one in (*block, index)) + 1 > room:
            yield block
            block = head
        block = [*block, index]
    yield block


def _fitted(widths: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Share the width of a row: the widest columns are wrapped, but not below their minimum width.

    >>> _fitted([(10, 20), (8, 8)], 28), _fitted([(10, 20), (8, 8)], 80), _fitted([(5, 30), (5, 20)], 37)
    ([13, 8], [20, 8], [15, 15])
    """
    room -= 1 + _BESIDE * len(widths)
    for most in range(max(natural for _, natural in widths), 0, -1):
        fitted = [max(least, min(natural, most)) for least, natural in widths]
        if sum(fitted) <= room:
            return fitted
    return [max(min(least, room), 1) for least, _ in widths]


def words(text: str, style: str = "") -> Words:
    """A text without markup and cursor movements."""
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
    """Tabulate the effects of rasterising; effects without nuclei have no column."""
    columns: dict[str, list[int]] = {}
    for title, name in RASTERISED.items():
        values = [getattr(report, name) for report in reports.values()]
        columns[title] = [len(value) if isinstance(value, tuple) else value or 0 for value in values]
    none = [title for title, column in columns.items() if title != "nuclei" and not any(column)]
    rows = zip(reports, *(column for title, column in columns.items() if title not in none), strict=True)
    titles = ["case", *(title for title in columns if title not in none)]
    note = f"In no case: {', '.join(none)}." if none else ""
    return table_of("", "Rasterisation of the reference", titles, rows, note=note)
