"""The class of every id of a label image, as CSV with the columns "id" and "class", or as JSON.

JSON is an object of classes by id, ``{"1": "tumour", "2": "stroma"}``, or a list of ``{"id": 1, "class": "tumour"}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from evaluation.decoding.csv import Categories, categories, count_rest, read_table
from evaluation.decoding.json import read_json
from evaluation.decoding.streams import damage_told
from evaluation.findings import fault, for_each, quote
from evaluation.findings.errors import InputFault
from evaluation.formats.classes import UNKNOWN, find_classes
from evaluation.formats.csv_columns import CLASS_COLUMNS, ID_COLUMNS, rows_limit
from evaluation.formats.request import Request

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
        raise InputFault(fault("invalid-class-table", where, wording="no-entries", value=value))
    if len(pairs) > (limit := rows_limit(request, 1)):
        raise InputFault(fault("too-large", where, wording="too-many-rows", limit=limit))

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
