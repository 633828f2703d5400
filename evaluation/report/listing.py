"""Tables of a page from lists of data: a column says how its value is taken from an item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluation.findings import percent
from evaluation.leaderboard.document import shown
from evaluation.report.page import Cell, Column, Table, Value

ROWS_UP_TO = 500  # of a table


def table_of(
    anchor: str,
    caption: str,
    items: Sequence[Any],
    *columns: Column,
    rest: str = "",
    note: str = "",
    sortable: bool = True,
) -> Table:
    """A row for each of the first items; ``rest`` ("teams of leaderboard.json") is what is said to be left out."""
    rows = tuple(tuple(value_at(item, column.of) for column in columns) for item in items[:ROWS_UP_TO])
    note = " ".join(filter(None, [note, show_rest(len(items), ROWS_UP_TO, rest)]))
    return Table(anchor, caption, columns, rows, sortable, note)


def shaded_table(
    anchor: str,
    caption: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    texts: Sequence[Sequence[str]] = (),
    head: str = "",
    note: str = "",
) -> Table:
    """Numbers from 0 to 1 in rows and columns, the darker the higher; ``texts`` are shown instead of them."""
    shown = texts or [["" if value is None else f"{value:.3g}" for value in row] for row in values]
    cells: list[tuple[Value, ...]] = [
        (name, *(Cell(value, text, shade=value) for value, text in zip(row, words, strict=True)))
        for name, row, words in zip(rows, values, shown, strict=True)
    ]
    titles = (Column(head), *(Column(name, 2) for name in columns))
    return Table(anchor, caption, titles, tuple(cells), sortable=False, note=note)


def value_at(item: Any, of: Callable[[Any], Value] | str) -> Value:
    """The value of a column for an item: that of a function, or the one at a key, or at keys joined by dots."""
    if callable(of):
        return of(item)
    for key in of.split("."):
        item = item[key]
    return item  # type: ignore[no-any-return]


def with_key(get: Callable[[Any, Any], Value], key: object) -> Callable[[Any], Value]:
    """A function of an item and a key as one of the item alone."""
    return lambda item: get(item, key)


def share_cell(number: int, total: int) -> Cell:
    """ "3 of 4", shaded by the share."""
    return Cell(number, f"{number:,} of {total:,}", shade=number / total)


def rank_cell(rank: float | None) -> Cell:
    """A rank: whole numbers without decimals.

    >>> rank_cell(2.0).text, rank_cell(1.5).text, rank_cell(None).text
    ('2', '1.5', '–')
    """
    return Cell(rank, shown(rank))


def percent_cell(share: float | None) -> Cell:
    return Cell(share, percent(share))


def in_percent(share: float) -> Value:
    """A value of a column "…, %", of one decimal: a number, unless that would be rounded to all or none.

    >>> in_percent(0.25), in_percent(0.9999)
    (25.0, Cell(value=99.99, text='> 99.9', anchor='', shade=None, bar=None, tone='plain', name='', page=''))
    """
    text = percent(share, 1)
    return Cell(100 * share, text.removesuffix(" %")) if text[0] in "<>" else 100 * share


def bar_cell(
    value: float | None, text: str = "", ends: tuple[float, float] | None = None, *, is_bar: bool = True
) -> Cell:
    """A score with a bar, if it lies in 0…1 and higher is better."""
    if value is None or not is_bar or not 0 <= value <= 1:
        return Cell(value, text)
    low, high = ends or (value, value)
    return Cell(value, text, bar=(min(max(low, 0.0), 1.0), value, min(max(high, 0.0), 1.0)))


def interval_cell(of: Mapping[str, Any]) -> Cell:
    """The ``low`` and the ``high`` end of an interval of a score."""
    return Cell(of["low"], "too few" if of["low"] is None else f"{of['low']:.4f} to {of['high']:.4f}")


def show_rest(number: int, limit: int, what: str, *, before: str = "") -> str:
    """A sentence on what is not shown of a long list; nothing for a short one.

    >>> show_rest(53, 50, "teams of leaderboard.json")
    'The first 50 of 53 teams of leaderboard.json are shown.'
    """
    return f"{before}The first {limit:,} of {number:,} {what} are shown." if number > limit else ""
