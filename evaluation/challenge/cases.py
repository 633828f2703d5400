"""cases.csv: the list of what is scored."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evaluation.challenge.documents import CASES_FILE
from evaluation.findings import Finding, did_you_mean, fault, listed, quote
from evaluation.findings.errors import ChallengeBroken
from evaluation.model import Case

LONGEST_SIDE_PX, MOST_PIXELS = 4_000_000, 500_000_000_000  # sums of coordinates of all pixels have 63 bits
SMALLEST, LARGEST = 1e-6, 1e6  # sizes: products and quotients of such numbers stay finite


def read_cases(text: str) -> tuple[Case, ...]:
    """The rows of cases.csv: case, height, width, and if they are needed the other columns of ``Case``.

    Cases come back sorted by group and name, so that the order of rows changes nothing. Raises ChallengeBroken.
    """
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [name.strip() for name in rows.fieldnames or []]
    except csv.Error as error:
        raise ChallengeBroken(
            fault("invalid-cases", f"{CASES_FILE}, line 1", got=str(error), expected="comma-separated values")
        ) from None
    rows.fieldnames = header
    faults: list[Finding] = []

    def fault_at(where: str, got: str, expected: str, fix: str = "") -> None:
        faults.append(fault("invalid-cases", f"{CASES_FILE}{where}", got=got, expected=expected, fix=fix))

    for column in REQUIRED:
        if column not in header:
            fault_at(", line 1", f"no column {quote(column)}", f"the columns {listed(COLUMNS, last='and')}")
    for column in header:
        if column not in COLUMNS:
            suggestion = did_you_mean(column, COLUMNS)
            fault_at(", line 1", f"column {quote(column)}", f"one of {listed(COLUMNS)}", suggestion)
    if len(set(header)) < len(header):
        fault_at(", line 1", "a column twice", "every column once")
    if faults:
        raise ChallengeBroken(*faults)

    cases: dict[str, Case] = {}
    indices: set[int] = set()
    for row in lines_of(rows, faults):
        where = f", line {rows.line_num}"
        if None in row or None in row.values():
            fault_at(where, "another number of values than the header", "one value for each column")
            continue
        texts = {column: text.strip() for column, text in row.items()}
        values: dict[str, Any] = {}
        for column, (read, expected) in COLUMNS.items():
            if (text := texts.get(column, "")) or column in REQUIRED:
                values[column] = read(text)
                if values[column] is None or (column == "index" and values[column] in indices):
                    fault_at(where, f"{column} {quote(text)}", expected)
        name, height, width = texts["case"], values["height"], values["width"]
        if height and width and height * width > MOST_PIXELS:
            fault_at(where, f"{height * width:,} pixels", f"at most {MOST_PIXELS:,}")
        if name in cases:
            fault_at(where, f"case {quote(name)} again", "every case once")
        if height and width:
            spacing, index, stratum = values.get("spacing_um"), values.get("index"), texts.get("stratum", "")
            offset_xy = values.get("offset_x", 0.0), values.get("offset_y", 0.0)
            area, group = values.get("area_mm2"), texts.get("group") or name
            cases[name] = Case(name, group, height, width, spacing, index, offset_xy, stratum, area)
            indices.update(() if index is None else {index})
    for group, stratum in {case.group: case.stratum for case in cases.values()}.items():
        others = sorted({case.stratum for case in cases.values() if case.group == group} - {stratum})
        if others:
            got = f"patient (group) {quote(group)} in the strata {quote(others[0])} and {quote(stratum)}"
            fault_at("", got, "one stratum")
    if any(case.stratum for case in cases.values()) and not all(case.stratum for case in cases.values()):
        fault_at("", "cases with a stratum and cases without", "a stratum for every case, or for none")
    if not cases and not faults:
        fault_at("", "no rows", "one row for each case that is scored")
    if faults:
        raise ChallengeBroken(*faults)
    return tuple(sorted(cases.values(), key=lambda case: (case.group, case.name)))


def lines_of(rows: csv.DictReader[str], faults: list[Finding]) -> Iterator[dict[str, str]]:
    try:
        yield from rows
    except csv.Error as error:
        where = f"{CASES_FILE}, line {rows.line_num}"
        faults.append(fault("invalid-cases", where, got=str(error), expected="comma-separated values"))


def is_safe_name(name: object) -> bool:
    """Whether a case or group name can be part of a path and of a message."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= 200
        and set(name) != {"."}
        and all(c.isalnum() or c in " _-.+@" for c in name)
    )


def safe_name(text: str) -> str | None:
    return text if is_safe_name(text) else None


def whole_number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"0*[1-9][0-9]{0,8}", text, re.ASCII) else None


def length_of_side(text: str) -> int | None:
    number = whole_number(text)
    return number if number and number <= LONGEST_SIDE_PX else None


def case_index(text: str) -> int | None:
    return 0 if text == "0" else whole_number(text)


def positive_number(text: str) -> float | None:
    number = finite_number(text)
    return number if number is not None and SMALLEST <= number <= LARGEST else None


def finite_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


NAME = "a name of letters, digits and any of ' _-.+@', up to 200"
SIDE = f"a whole number of pixels, 1 to {LONGEST_SIDE_PX:,}"
INDEX = "its position in arrays of all cases: 0, 1, 2, …, each once"
OFFSET = "px from the slide's corner"
REQUIRED = ("case", "height", "width")
# How the cells of each column are read, None where that cannot be, and what is expected in them.
COLUMNS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "case": (safe_name, NAME),
    "group": (safe_name, NAME),
    "height": (length_of_side, SIDE),
    "width": (length_of_side, SIDE),
    "spacing_um": (positive_number, "the size of a pixel in um, 0.000001 to 1,000,000"),
    "index": (case_index, INDEX),
    "offset_x": (finite_number, OFFSET),
    "offset_y": (finite_number, OFFSET),
    "stratum": (safe_name, NAME),
    "area_mm2": (positive_number, "the annotated area in mm2, 0.000001 to 1,000,000"),
}
