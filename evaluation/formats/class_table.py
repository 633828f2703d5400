"""The class of every id of a label image, as CSV with the columns "id" and "class", or as JSON.

JSON is an object of classes by id, ``{"1": "tumour", "2": "stroma"}``, or a list of ``{"id": 1, "class": "tumour"}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from evaluation.decoding.csv import Categories, Table, categories, count_rest, numbers_of, read_table
from evaluation.decoding.json import read_json
from evaluation.decoding.streams import damage_told
from evaluation.findings import FAULTS_NAMED, Finding, fault, for_each, quote, with_rest
from evaluation.findings.errors import InputFault, refusal
from evaluation.formats.classes import UNKNOWN, find_classes
from evaluation.formats.csv_columns import CLASS_COLUMNS, ID_COLUMNS, class_columns, rows_limit
from evaluation.formats.format import Request
from evaluation.model import Bool, Float64, Int16

ID = re.compile(r"\s*0*([1-9][0-9]{0,18})(\.0*)?\s*", re.ASCII)
HIGHEST_ID = 2**63 - 1


def read_class_table(stream: BinaryIO, request: Request, where: str) -> dict[int, int]:
    """The class id of each instance id. Classes are names or, if the rules have ``class_values``, numbers.

    where   the table, for messages; JSON if it ends in .json or .json.gz

    Ids of classes that are skipped have the class id 0; those without a class are not there. Raises InputFault:
    too-large, invalid-csv, missing-column, too-deep, not-json, invalid-class-table, duplicate-row, unknown-class.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from evaluation.model import ClassTable
    >>> rules = format_rules(format="label_image", files="{case}.png", class_table="{case}.csv")
    >>> classes = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2})
    >>> request = Request(where="'a.png'", name="a.png", rules=rules, classes=classes, limits=LimitRules())
    >>> read_class_table(io.BytesIO(b"id,class\\n7,Stroma\\n9,tumour\\n"), request, "'a.csv'")
    {7: 2, 9: 1}
    """
    with damage_told(where, "a class table"):
        is_json = where.rstrip("'").lower().removesuffix(".gz").endswith(".json")
        entries = json_entries(stream, request, where) if is_json else csv_entries(stream, request, where)
        return classes_by_id(entries, request)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Ids as texts, their classes as ``categories`` gives them, and the place of each entry, for messages."""

    ids: Sequence[str]
    classes: Categories
    place: Callable[[int], str]


def csv_entries(stream: BinaryIO, request: Request, where: str) -> Entries:
    limit = request.limits.bytes_per_file
    table = read_table(stream, where=where, bytes_limit=limit, rows_limit=rows_limit(request, 1))
    id_column = table.need(*ID_COLUMNS)
    ids = [cell.decode() for cell in table.cells(id_column)]
    of_classes = [name for name in CLASS_COLUMNS if table.find([name]) != id_column]  # "label" may be either
    return Entries(ids, table.categories(table.need(*of_classes)), table.place)


def json_entries(stream: BinaryIO, request: Request, where: str) -> Entries:
    value = read_json(stream, where=where, limits=request.limits)
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(entry.get("id"), entry.get("class")) if isinstance(entry, dict) else (None, None) for entry in value]
    else:
        raise refusal("invalid-class-table", where, wording="no-entries", value=value)
    if len(pairs) > (limit := rows_limit(request, 1)):
        raise refusal("too-large", where, wording="too-many-rows", limit=limit)

    def place(index: int) -> str:
        return f"{where}, {quote(pairs[index][0]) if isinstance(value, dict) else f'[{index}]'}"

    wrong = [index for index, pair in enumerate(pairs) if not all(map(is_text, pair))]
    if wrong:
        raise InputFault(
            *for_each(wrong, lambda index: fault("invalid-class-table", place(index), wording="no-id-and-class"))
        )
    return Entries([str(key) for key, _ in pairs], categories([str(name).strip() for _, name in pairs]), place)


def is_text(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def distinct_numbers(ids: Sequence[str]) -> list[int]:
    """The ids as numbers, if all are plain digits and no two are equal; else none: ``ID`` looks at each of them."""
    text = "".join(ids)
    if not (text.isascii() and text.isdigit()) or not 0 < len(min(ids, key=len)) <= len(max(ids, key=len)) <= 18:
        return []
    numbers = [*map(int, ids)]
    return numbers if min(numbers) > 0 and len(set(numbers)) == len(numbers) else []


def classes_by_id(entries: Entries, request: Request) -> dict[int, int]:
    """The class id by instance id. Raises InputFault with all entries that are wrong."""
    class_id, is_nucleus, faults = find_classes(*entries.classes, entries.place, request.classes)
    class_id[is_nucleus & (class_id == 0)] = UNKNOWN  # an empty cell: no class, and not left out either
    if not faults and (numbers := distinct_numbers(entries.ids)):
        return known(dict(zip(numbers, class_id.tolist(), strict=True)))
    found: dict[int, int] = {}
    for index, (text, of_class) in enumerate(zip(entries.ids, class_id.tolist(), strict=True)):
        number = ID.fullmatch(text)
        if number is None or int(number[1]) > HIGHEST_ID:
            faults.append(fault("invalid-class-table", entries.place(index), wording="no-id", id=text))
        elif found.setdefault(int(number[1]), of_class) != of_class:
            faults.append(fault("duplicate-row", entries.place(index), wording="id-twice", id=text))
    if faults:
        raise InputFault(*count_rest(faults))
    return known(found)


def known(found: dict[int, int]) -> dict[int, int]:
    """The ids that have a class, or are left out."""
    if UNKNOWN not in found.values():
        return found
    return {number: of_id for number, of_id in found.items() if of_id != UNKNOWN}


# --- Probabilities of the classes: a number from 0 to 1 for each nucleus and each class of the challenge. -------------


NUMBERS_LIMIT = 50_000_000  # nuclei times classes: 200 MB
COLUMN_PREFIX = "probability_"


def check_size(nuclei: int, classes: int, where: str) -> None:
    """Refuse more numbers than fit, before there are any. Raises InputFault ("too-large").

    >>> check_size(50_000_000 // 6, 6, "'a.csv'")
    """
    if nuclei * classes > NUMBERS_LIMIT:
        raise refusal(
            "too-large", where, wording="too-many-probabilities", classes=classes, nuclei=nuclei, limit=NUMBERS_LIMIT
        )


def read_class_probabilities(table: Table, request: Request) -> tuple[Float64 | None, list[Finding]]:
    """The probabilities in the columns "probability_<class>", and what is wrong with them.

    Float64 (R, C) in the order of the classes; None if there are no such columns, or no row has anything in them.
    Raises InputFault ("too-large").
    """
    if not request.classes.names:
        return None, []
    columns, faults = class_columns(table, request, COLUMN_PREFIX)
    if faults or not columns:
        return None, count_rest(faults)
    check_size(len(table), len(columns), request.where)
    probability = np.empty((len(table), len(columns)), np.float64)
    given = np.ones(probability.shape, np.bool_)
    for k, column in enumerate(columns):
        cells = table.cells(column)
        numbers = numbers_of(cells)
        probability[:, k] = np.where((numbers >= 0) & (numbers <= 1), numbers, np.nan)
        for row in np.flatnonzero(np.isnan(numbers)):
            given[row, k] = bool(cells[row].strip())
    if len(table) and not given.any():
        return None, []
    lacking = np.flatnonzero(~given.all(axis=1)).tolist()
    faults = wrong_cells(table, columns, given & np.isnan(probability))
    faults += for_each(
        lacking, lambda row: fault("missing-probability", table.place(row), wording="row-without-class-probabilities")
    )
    return (None if faults else probability), faults


def wrong_cells(table: Table, columns: list[int], is_wrong: Bool) -> list[Finding]:
    """Cells, bool (R, C), that are no numbers from 0 to 1."""
    named = [
        fault(
            "invalid-probability",
            table.place(row),
            value=table.text(row, columns[k]),
            what=f"{table.names[columns[k]]} is",
        )
        for row, k in zip(*(index[:FAULTS_NAMED].tolist() for index in np.nonzero(is_wrong)), strict=True)
    ]
    return with_rest(named, int(is_wrong.sum()))


def most_probable(class_probability: Float64) -> Int16:
    """The class id of the largest probability of each nucleus, int16 (N,); of equal ones the earlier class.

    >>> most_probable(np.array([[0.2, 0.7], [0.5, 0.5]], np.float64)).tolist()
    [2, 1]
    """
    return np.asarray(class_probability.argmax(axis=1) + 1, np.int16)
