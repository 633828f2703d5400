"""cases.csv: the list of what is scored."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator

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
    known = ["case", "group", "height", "width", "spacing_um", "index", "offset_x", "offset_y", "stratum", "area_mm2"]
    faults: list[Finding] = []

    def fault_at(where: str, got: str, expected: str, fix: str = "") -> None:
        faults.append(fault("invalid-cases", f"{CASES_FILE}{where}", got=got, expected=expected, fix=fix))

    for column in ("case", "height", "width"):
        if column not in header:
            fault_at(", line 1", f"no column {quote(column)}", f"the columns {listed(known, last='and')}")
    for column in header:
        if column not in known:
            fault_at(", line 1", f"column {quote(column)}", f"one of {listed(known)}", did_you_mean(column, known))
    if len(set(header)) < len(header):
        fault_at(", line 1", "a column twice", "every column once")
    if faults:
        raise ChallengeBroken(*faults)

    cases: dict[str, Case] = {}
    for row in lines_of(rows, faults):
        where = f", line {rows.line_num}"
        if None in row or None in row.values():
            fault_at(where, "another number of values than the header", "one value for each column")
            continue
        name = row["case"].strip()
        group = row.get("group", "").strip() or name
        for column, value in (("case", name), ("group", group)):
            if not is_safe_name(value):
                fault_at(where, f"{column} {quote(value)}", "a name of letters, digits and any of ' _-.+@', up to 200")
        sides = (whole_number(row[column]) for column in ("height", "width"))
        height, width = (side if side and side <= LONGEST_SIDE_PX else None for side in sides)
        for column, number in (("height", height), ("width", width)):
            if number is None:
                expected = f"a whole number of pixels, 1 to {LONGEST_SIDE_PX:,}"
                fault_at(where, f"{column} {quote(row[column])}", expected)
        if height and width and height * width > MOST_PIXELS:
            fault_at(where, f"{height * width:,} pixels", f"at most {MOST_PIXELS:,}")
        stratum = row.get("stratum", "").strip()
        if stratum and not is_safe_name(stratum):
            fault_at(where, f"stratum {quote(stratum)}", "a name of letters, digits and any of ' _-.+@', up to 200")
        sizes: dict[str, float | None] = {"spacing_um": None, "area_mm2": None}
        for column, meaning in (("spacing_um", "the size of a pixel in um"), ("area_mm2", "the annotated area in mm2")):
            if row.get(column, "").strip():
                sizes[column] = positive_number(row[column])
                if sizes[column] is None:
                    fault_at(where, f"{column} {quote(row[column])}", f"{meaning}, 0.000001 to 1,000,000")
        index = None
        if text := row.get("index", "").strip():
            index = whole_number(text) if text != "0" else 0
            if index is None or index in {case.index for case in cases.values()}:
                fault_at(where, f"index {quote(text)}", "its position in arrays of all cases: 0, 1, 2, …, each once")
        offset_xy = tuple(finite_number(row.get(column, "").strip() or "0") for column in ("offset_x", "offset_y"))
        if None in offset_xy:
            fault_at(
                where,
                f"offset {quote(row.get('offset_x'))}, {quote(row.get('offset_y'))}",
                "px from the slide's corner",
            )
        if name in cases:
            fault_at(where, f"case {quote(name)} again", "every case once")
        if height is not None and width is not None:
            offset = offset_xy[0] or 0.0, offset_xy[1] or 0.0
            spacing, area = sizes["spacing_um"], sizes["area_mm2"]
            cases[name] = Case(name, group, height, width, spacing, index, offset, stratum, area)
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
        faults.append(
            fault(
                "invalid-cases",
                f"{CASES_FILE}, line {rows.line_num}",
                got=str(error),
                expected="comma-separated values",
            )
        )


def is_safe_name(name: object) -> bool:
    """Whether a case or group name can be part of a path and of a message."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= 200
        and set(name) != {"."}
        and all(c.isalnum() or c in " _-.+@" for c in name)
    )


def whole_number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*0*[1-9][0-9]{0,8}\s*", text, re.ASCII) else None


def positive_number(text: str) -> float | None:
    number = finite_number(text)
    return number if number is not None and SMALLEST <= number <= LARGEST else None


def finite_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
