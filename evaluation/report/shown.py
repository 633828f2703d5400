"""Values and texts as they are shown, in HTML and in the terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix

from evaluation.report.page import Cell, Column

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
