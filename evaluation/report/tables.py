"""Tables of a page from lists of data, and how names, numbers and other values are shown in their cells."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix
from typing import Any

from evaluation.findings import percent, quote
from evaluation.report.page import Cell, Column, Table, Value

ROWS_UP_TO = 500  # of a table
UNCUT_COLUMNS = ("path", "key", "column of the ranking")  # columns of what people copy, which is never cut


HELP: Mapping[str, str] = {  # what columns hold, by their titles
    "ahead": "share of the patients or cases in which the team is better than the other; ties count half",
    "alone": "variants in which no other team is first as well",
    "best": "the team that ranks first in this score",
    "common nuclei": "reference nuclei that both teams matched",
    "difference": "mean over patients or cases; above 0: the first team is better",
    "disc, one pixel too small": "at the median area",
    "d_z": "mean difference divided by its standard deviation",
    "first changes": "comparisons that change the winner or a tie for first",
    "interval": "Student's, over all pairs and columns together; significance comes from the test",
    "p": "from the declared test, corrected for the number of pairs",
    "IoU lost for a pixel": "median loss under the worst one-pixel change",
    "matched nuclei": "reference nuclei that the team matched",
    "of its matches": "share of the matched nuclei of each team",
    "pairs turned": "mean share of team pairs that change their order",
    "part": "first ranks, tied ranks divided equally; all teams add up to 1",
    "ranks": "the best and the worst in all variants",
    "vanished": "nuclei without a pixel left",
}


def table_of(
    anchor: str,
    caption: str,
    columns: Sequence[str],
    records: Iterable[Any],
    *,
    help: Mapping[str, str] = HELP,
    rest: str = "",
    note: str = "",
    sortable: bool = True,
) -> Table:
    """Tabulate the first records; ``rest`` ("teams of leaderboard.json") names the omitted records.

    columns   keys of records, which ``FIELDS`` states how to show; or titles, where records are rows

    Numbers of a column have as many digits as its largest one needs.
    """
    records = list(records)
    titles, rows = list(columns), [tuple(record) for record in records[:ROWS_UP_TO]]
    if records and isinstance(records[0], Mapping):
        named = {key: key if key in help else key.replace("_", " ").replace("f1", "F1") for key in columns}
        fields = [FIELDS.get(key) or _ShownField(named[key]) for key in columns]
        titles = [field.title for field in fields]
        rows = [
            tuple(field.make(record[key]) for key, field in zip(columns, fields, strict=True))
            for record in records[:ROWS_UP_TO]
        ]
    digits = [_digits_of([row[index] for row in rows]) for index in range(len(titles))]
    heads = [Column(title, number, help.get(title, "")) for title, number in zip(titles, digits, strict=True)]
    notes = filter(None, [note, show_rest(len(records), ROWS_UP_TO, rest)])
    return Table(anchor, caption, tuple(heads), tuple(rows), sortable, " ".join(notes))


def _digits_of(values: Sequence[Value]) -> int | None:
    """The digits of a column of numbers; None for texts.

    >>> _digits_of([3, 0.25]), _digits_of([30.5]), _digits_of([1200]), _digits_of(["a", 1])
    (3, 2, 0, None)
    """
    known = [value for cell in values if (value := cell.value if isinstance(cell, Cell) else cell) is not None]
    numbers = [value for value in known if not isinstance(value, str)]
    if len(numbers) < len(known) or not known:
        return None
    return 0 if all(float(value).is_integer() for value in numbers) else _digits_for(max(map(abs, numbers)))


def _digits_for(number: float) -> int:
    """Choose how many decimals a number of this size is shown with, if it is not whole."""
    return 3 if number < 10 else 2 if number < 100 else 1


def _in_cell(value: Any) -> Value:
    """Write a value of a document in a cell: the first names of a list, True as "yes", False as ""."""
    if isinstance(value, list | tuple):
        return name_some([str(_in_cell(one)) for one in value])
    if isinstance(value, Mapping):
        known = [
            f"{key} {_in_toml(one)}" for key, one in value.items() if key != "name" and one not in (None, False, [])
        ]
        return ", ".join([str(_in_cell(value["name"])), *known] if "name" in value else known)
    if isinstance(value, bool):
        return "yes" if value else ""
    return value  # type: ignore[no-any-return]


def leaf_table(anchor: str, caption: str, document: Mapping[str, Any], *, note: str = "") -> Table:
    """List all values of a document, a row for each path; values that are null or empty are omitted."""
    rows = []
    for path, value in leaves_of(document):
        if value is not None and value not in ([], ()):
            are_records = isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value)
            rows.append([path, "; ".join(str(_in_cell(one)) for one in value) if are_records else _in_toml(value)])
    return table_of(anchor, caption, ["key", "value"], rows, note=note, sortable=False)


def leaves_of(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Walk through nested tables, and yield the path and the value of each leaf."""
    for key, node in tree.items():
        if isinstance(node, Mapping):
            yield from leaves_of(node, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", node


def _in_toml(value: object) -> str:
    """A value as it would be in challenge.toml.

    >>> _in_toml(True), _in_toml(0.05), _in_toml("min"), _in_toml([1, 2.5])
    ('true', '0.05', 'min', '1, 2.5')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_toml, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def share_cell(share: tuple[int, int]) -> Cell:
    """ "3 of 4", shaded by the share."""
    number, total = share
    return Cell(number, f"{number:,} of {total:,}", shade=number / total)


def decimal_cell(value: float | None, text: str = "{}") -> Cell:
    """A score with four decimals; ``text`` adds words next to it."""
    return Cell(value, text.format(decimal(value)))


def rank_cell(rank: float | None) -> Cell:
    return Cell(rank, rank_text(rank))


def _p_cell(value: float | None) -> Cell:
    return Cell(value, "–" if value is None else probability(value)[2:].removeprefix("= "))


def percent_cell(share: float | None) -> Cell:
    return Cell(share, percent(share))


def _ends_cell(ends: tuple[float | None, float | None]) -> Cell:
    """Write the interval of a difference."""
    return Cell(ends[0], "–" if None in ends else f"{decimal(ends[0])} to {decimal(ends[1])}")


def in_percent(share: float) -> Value:
    """Show a share in a column "…, %" with one decimal; "> 99.9" and "< 0.1" instead of a rounded 100 or 0.

    >>> in_percent(0.25), in_percent(0.9999).text
    (25.0, '> 99.9')
    """
    text = percent(share, 1)
    return Cell(100 * share, text.removesuffix("%")) if text[0] in "<>" else 100 * share


def bar_cell(
    value: float | None, text: str = "", ends: tuple[float, float] | None = None, *, is_bar: bool = True
) -> Cell:
    """A score with a bar, if it is in 0…1 and higher is better."""
    if value is None or not is_bar or not 0 <= value <= 1:
        return Cell(value, text)
    low, high = ends or (value, value)
    return Cell(value, text, bar=(min(max(low, 0.0), 1.0), value, min(max(high, 0.0), 1.0)))


def show_rest(number: int, limit: int, what: str, *, before: str = "") -> str:
    """A sentence on the omitted part of a long list; nothing for a short list.

    >>> show_rest(53, 50, "teams of leaderboard.json")
    'The first 50 of 53 teams of leaderboard.json are shown.'
    """
    return f"{before}The first {limit:,} of {number:,} {what} are shown." if number > limit else ""


@dataclass(frozen=True, slots=True)
class _ShownField:
    """How tables show a key of a document: the title of its column, and how a cell is built from a value."""

    title: str
    make: Callable[[Any], Value] = _in_cell


FIELDS: Mapping[str, _ShownField] = {
    "ahead": _ShownField("ahead", percent_cell),
    "before": _ShownField("rank before", rank_cell),
    "change_of_first": _ShownField("first changes", share_cell),
    "difference": _ShownField("difference", decimal_cell),
    "dimension": _ShownField("rule"),
    "first_alone": _ShownField("alone"),
    "first_share": _ShownField("part"),
    "interval": _ShownField("interval", _ends_cell),
    "name": _ShownField("team"),
    "now": _ShownField("rank now", rank_cell),
    "p_value": _ShownField("p", _p_cell),
    "pairs_changed": _ShownField("pairs turned", percent_cell),
    "published": _ShownField("rank", rank_cell),
}


# --- values and texts as they are shown -------------------------------------------------------------------------------


LEFTWARDS = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]"
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    """Show control characters, including characters that change the direction of writing, by their numbers.

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
    """Put marks around words from right to left, which otherwise move the numbers next to them.

    >>> isolated("שלום 0.5, b 0.7", "<", ">")
    '<שלום> 0.5, b 0.7'
    """
    return re.sub(rf"{LEFTWARDS}+(?:[ '’._-]+{LEFTWARDS}+)*", rf"{before}\g<0>{after}", text)


def name_ends(table: Table) -> tuple[int, int]:
    """Count the characters at the start and end of the names in the first column that a table does not show."""
    if table.columns[0].title in UNCUT_COLUMNS:
        return 0, 0
    return _common_ends([shown_cell(row[0], table.columns[0]).text for row in table.rows])


def _common_ends(names: Sequence[str], limit: int = 40) -> tuple[int, int]:
    """Count the characters that all names of a column begin and end with, if some names are long; whole words stay.

    >>> _common_ends(["TCGA-E2-A1B5 breast 1.tif", "TCGA-E2-A1B5 breast 12.tif"], 12)
    (13, 4)
    """
    if len(set(names)) < 2 or max(map(len, names)) <= limit:
        return 0, 0
    start = re.sub(r"\w+\W*\w*$", "", commonprefix(names).replace("_", " "))  # noqa: RUF071
    backwards = [name[len(start) :][::-1] for name in names]
    end = re.sub(r"\w+$", "", commonprefix(backwards).replace("_", " "))  # noqa: RUF071
    return len(start), len(end)


def shown_cell(value: Value, column: Column) -> Cell:
    """A cell with its text: numbers with the digits of their column."""
    cell = value if isinstance(value, Cell) else Cell(value)
    return replace(cell, text=cell.text or ("" if cell.value is None else shown_value(cell.value, column.digits)))


def shown_value(value: float | int | str, digits: int | None = None) -> str:
    """A number with a true minus, and commas between thousands; without ``digits`` with three or four that count.

    >>> shown_value(-0.12345), shown_value(1234.5), shown_value(12), shown_value(3.0), shown_value(0.5, 2)
    ('−0.123', '1,234.5', '12', '3', '0.50')
    """
    if isinstance(value, str):
        return value
    if digits is None:
        digits = 0 if float(value).is_integer() else _digits_for(abs(value))
    return f"{value:z,.{digits}f}".replace("-", "−")


def shown_number(value: float | str | None) -> str:
    """Return a number with up to four decimals; a text as it is.

    >>> shown_number(1.576923), shown_number(12.0), shown_number(None)
    ('1.5769', '12', 'undefined')
    """
    if value is None:
        return "undefined"
    return value if isinstance(value, str) else f"{value:z.4f}".rstrip("0").rstrip(".")


def decimal(value: float | None) -> str:
    """A score with four decimals and a true minus sign; 0 has no sign.

    >>> decimal(-0.12345), decimal(-0.00001)
    ('−0.1235', '0.0000')
    """
    return "–" if value is None else f"{value:z.4f}".replace("-", "−")


def rank_text(value: float | None) -> str:
    """A rank, or a sum of ranks: whole numbers without decimals.

    >>> rank_text(2.0), rank_text(1.5), rank_text(None)
    ('2', '1.5', '–')
    """
    return "–" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def rank_range(low: float | None, high: float | None) -> str:
    """An interval of ranks; both ends may be equal."""
    return rank_text(low) if low == high else f"{rank_text(low)} to {rank_text(high)}"


def probability(value: float | None) -> str:
    """A p-value with its sign.

    >>> probability(0.03), probability(1e-9)
    ('p = 0.0300', 'p < 0.0001')
    """
    return "p –" if value is None else "p < 0.0001" if value < 0.0001 else f"p = {value:.4f}"


# --- names of teams ---------------------------------------------------------------------------------------------------


NAME_UP_TO = 60  # characters of a name in tables and sentences
LABEL_UP_TO = 20  # characters of a name beside a plot


def label_teams(names: Sequence[str]) -> list[str]:
    """Names that fit next to a plot, all different, so that no two teams share a row.

    >>> label_teams(["finder", "a" * 98, "a" * 99])
    ['finder', 'aaaaaaaaaaaaa…aaaaaaa #1', 'aaaaaaaaaaaaa…aaaaaaa #2']
    """
    short = [write_name(name, LABEL_UP_TO) for name in names]
    times, numbers, taken = Counter(short), Counter[str](), set(short)
    labels = []
    for name in short:
        label = name
        while times[name] > 1 and label in taken:
            numbers[name] += 1
            label = f"{name} #{numbers[name]}"
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
    first = [write_name(name) for name in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(first)} and {len(names) - limit:,} more"
    return " and ".join(filter(None, [", ".join(first[:-1]), *first[-1:]]))
