"""CSV tables that people open in a spreadsheet: no text from a file becomes a formula, a new row or a control code."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

CELL_CHARACTERS = 200
PLAIN = re.compile(r"\w[\w ./:#-]*")
PLAIN_LINES = re.compile(rf"(?:\w[\w ./:#-]{{0,{CELL_CHARACTERS - 1}}}\n)*+")
FORMULA = re.compile(r"(^|[,;|])(\s*)(?=[=+\-@＝＋－＠])")  # wide signs count, too


def safe_cell(value: object, limit: int = CELL_CHARACTERS) -> object:
    """A cell as it is written. Numbers stay; a text loses its control characters, and its middle if it is long.

    An apostrophe goes before '=', '+', '-' or '@' at the start, or behind what separates cells elsewhere (';', '|').

    >>> safe_cell("12/7"), safe_cell(-5), safe_cell("=HYPERLINK(1)"), safe_cell("a\\nb;@c")
    ('12/7', -5, "'=HYPERLINK(1)", "a?b;'@c")
    """
    if not isinstance(value, str) or (len(value) <= limit and PLAIN.fullmatch(value)):
        return value
    text = value if len(value) <= limit else f"{value[: limit * 2 // 3]}…{value[-limit // 3 :]}"
    text = "".join(character if character.isprintable() else "?" for character in text)
    return FORMULA.sub(r"\1\2'", text)


def cell_text(value: object) -> str:
    """A safe cell as it stands in a file, between commas.

    >>> cell_text(7), cell_text("a,b"), cell_text(None)
    ('7', '"a,b"', '')
    """
    text = "" if value is None else str(safe_cell(value))
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def cell_texts(values: Sequence[object]) -> Sequence[str]:
    """``cell_text`` of each; of many plain texts at once.

    >>> cell_texts(["12/7", "a"]), cell_texts(["12/7", "a\\nb"]), cell_texts([7, "=1"])
    (['12/7', 'a'], ['12/7', 'a?b'], ['7', "'=1"])
    """
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        lines = "\n".join([*texts, ""])
        if lines.count("\n") == len(texts) and PLAIN_LINES.fullmatch(lines):
            return texts
    return list(map(cell_text, values))


def csv_table(header: Sequence[str], rows: Iterable[Iterable[object]], limit: int = CELL_CHARACTERS) -> str:
    """A table of safe cells, with its header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([safe_cell(cell, limit) for cell in row] for row in rows)
    return text.getvalue()
