"""Tables of a page from lists of data, and how names, numbers and other values are shown in their cells."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from evaluation.findings import percent, quote
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


# --- values and texts as they are shown -------------------------------------------------------------------------------


LEFTWARDS = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]"
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    """A text in which nothing is hidden: control characters, and those that turn the direction, by their numbers.

    >>> visible("a\\u202eb")
    'a‹U+202E›b'
    """
    if text.isprintable():
        return text
    return "".join(
        f"‹U+{ord(character):04X}›" if character != "\n" and unicodedata.category(character) in HIDDEN else character
        for character in text
    )


def isolated(text: str, before: str = "\u2068", after: str = "\u2069") -> str:
    """A text whose words from right to left stand between marks: else they draw the numbers beside them along.

    >>> isolated("שלום 0.5, b 0.7", "<", ">")
    '<שלום> 0.5, b 0.7'
    """
    return re.sub(rf"{LEFTWARDS}+(?:[ '’._-]+{LEFTWARDS}+)*", rf"{before}\g<0>{after}", text)


def common_ends(names: Sequence[str], limit: int = 40) -> tuple[int, int]:
    """How many characters all names of a column begin and end with, but for a word, if some of them are long.

    >>> common_ends(["TCGA-E2-A1B5 breast 1.tif", "TCGA-E2-A1B5 breast 12.tif"], 12)
    (13, 4)
    """
    if len(set(names)) < 2 or max(map(len, names)) <= limit:
        return 0, 0
    start = re.sub(r"\w+\W*\w*$", "", commonprefix(names).replace("_", " "))  # noqa: RUF071
    backwards = [name[len(start) :][::-1] for name in names]
    end = re.sub(r"\w+$", "", commonprefix(backwards).replace("_", " "))  # noqa: RUF071
    return len(start), len(end)


def names_apart(names: Sequence[str], limit: int = 40) -> list[str]:
    """The names of a column without their common ends.

    >>> names_apart(["TCGA-E2-A1B5 breast 1.tif", "TCGA-E2-A1B5 breast 12.tif"], 12)
    ['…breast 1…', '…breast 12…']
    """
    start, end = common_ends(names, limit)
    return ["…" * (start > 0) + name[start : len(name) - end] + "…" * (end > 0) for name in names]


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell as the template prints it: ``number`` or ``order`` is what it is sorted by if not its text."""

    cell: Cell
    text: str
    number: float | int | None
    order: str


def shown_cell(value: Cell | float | int | str | None, column: Column) -> ShownCell:
    """A cell with its text: numbers with the digits of their column."""
    cell = value if isinstance(value, Cell) else Cell(value)
    number = None if isinstance(cell.value, str) else cell.value
    text = cell.text or ("" if cell.value is None else shown_value(cell.value, column.digits))
    order = cell.value if isinstance(cell.value, str) and cell.text else ""
    return ShownCell(cell, text, number, order)


def shown_value(value: float | int | str, digits: int | None = None) -> str:
    """A number with a true minus, and commas between thousands; without ``digits`` with three or four that count.

    >>> shown_value(-0.12345), shown_value(1234.5), shown_value(12), shown_value(3.0), shown_value(0.5, 2)
    ('−0.123', '1,234.5', '12', '3', '0.50')
    """
    if isinstance(value, str):
        return value
    if digits is None:
        whole = float(value).is_integer()
        digits = 0 if whole else 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("-")


def shown_number(value: float | str | None) -> str:
    """A number as it stands in the JSON; a text as it is.

    >>> shown_number(0.25), shown_number(12.0), shown_number(None)
    ('0.25', '12', 'undefined')
    """
    if value is None:
        return "undefined"
    return value if isinstance(value, str) else f"{value:.6f}".rstrip("0").rstrip(".")


# --- names of teams ---------------------------------------------------------------------------------------------------


NAME_UP_TO = 60  # characters of a name in tables and sentences
LABEL_UP_TO = 20  # characters of a name beside a plot


def label_teams(names: Sequence[str]) -> list[str]:
    """Names that fit beside a plot, all different, so that no two teams share a row.

    >>> label_teams(["finder", "a" * 98, "a" * 99])
    ['finder', 'aaaaaaaaaaaaa…aaaaaaa #1', 'aaaaaaaaaaaaa…aaaaaaa #2']
    """
    short = [write_name(name, LABEL_UP_TO) for name in names]
    times, seen, taken = Counter(short), Counter[str](), set(short)
    labels = []
    for name in short:
        label = name
        while times[name] > 1 and label in taken:
            seen[name] += 1
            label = f"{name} #{seen[name]}"
        taken.add(label)
        labels.append(label)
    return labels


def write_name(name: str, limit: int = NAME_UP_TO) -> str:
    """A name without control characters, cut in the middle when long."""
    return quote(name, limit)[1:-1]


def name_some(names: Sequence[str], limit: int = 3) -> str:
    """Names in a sentence: "A", "A and B", "A, B and 7 more".

    >>> name_some(["A", "B", "C", "D", "E"])
    'A, B, C and 2 more'
    """
    found = [write_name(name) for name in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(found)} and {len(names) - limit:,} more"
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
