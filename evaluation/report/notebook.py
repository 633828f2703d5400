"""What notebooks show: tables without the style of a page, and a page in a frame."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from evaluation.report.html import page_html
from evaluation.report.page import Page, Table
from evaluation.report.tables import shown_cell, visible
from evaluation.report.terminal import SIGNS


def table_html(table: Table) -> str:
    """Write a table with the rows and texts of the terminal as HTML."""

    def text(words: str) -> str:
        return escape(visible(words))

    left, right = (f' style="text-align:{side}"' for side in ("left", "right"))
    head = "".join(f"<th>{text(column.title)}</th>" for column in table.columns)
    rows = []
    for row in table.rows:
        first, *cells = (shown_cell(cell, column) for cell, column in zip(row, table.columns, strict=True))
        values = "".join(f"<td{right}>{SIGNS[cell.tone]}{text(cell.text or '–')}</td>" for cell in cells)
        rows.append(f"<tr><th{left}>{text(first.text)}</th>{values}</tr>")
    caption = f"<caption{left}>{text(table.caption)}</caption>" if table.caption else ""
    note = f"<p>{text(table.note)}</p>" if table.note else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{note}"


@dataclass(frozen=True, slots=True, repr=False)
class ShownTable:
    """A table that prints itself as on a terminal, and shows itself in a notebook."""

    table: Table

    def __repr__(self) -> str:
        from rich.console import Console

        from evaluation.report.terminal import block_renderables

        console = Console(width=120, no_color=True, highlight=False)
        with console.capture() as capture:
            for part in block_renderables(self.table, len(self.table.rows)):
                console.print(part)
        return "\n".join(line.rstrip() for line in capture.get().strip("\n").splitlines())

    def _repr_html_(self) -> str:
        return table_html(self.table)


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page that a notebook shows in a separate frame; ``height`` in px."""

    page: Page
    height: int = 640

    def __repr__(self) -> str:
        return f"{self.page.title}, {self.page.subtitle}: shown in a notebook"

    def _repr_html_(self) -> str:
        content = escape(page_html(self.page))
        style = f"width:100%;height:{self.height}px;border:1px solid #ccc"
        title = escape(self.page.title)
        return f'<iframe sandbox="allow-scripts" style="{style}" title="{title}" srcdoc="{content}"></iframe>'
