"""Counts of nuclei as CSV (CoNIC, task 2): a row for each image, a column for each class.

CoNIC's columns are neutrophil, epithelial, lymphocyte, plasma, eosinophil and connective, and its rows have no names:
they come in the order of the images in its arrays. https://github.com/TissueImageAnalytics/CoNIC
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np

from evaluation.errors import InputFault
from evaluation.findings import Finding, did_you_mean, listed, quote
from evaluation.formats.bounded import damage_told
from evaluation.formats.bounded_csv import Table, count_rest, find_case, numbers_of, read_table
from evaluation.formats.bounded_xml import FAULTS_NAMED, with_rest
from evaluation.formats.request import Request
from evaluation.model import Case, Int64

CASE_COLUMNS = ("case", "image_id", "ImageId", "image", "id")
LARGEST_COUNT = 10**9
ROWS_LIMIT = 1_000_000


def read_counts_csv(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> dict[str, tuple[int, ...]]:
    """How many nuclei of each class each case has: by name of the case, in the order of the classes.

    A column is a class if its name is one, or an alias; there must be one for every class, and others do not matter.
    Without a column for the case (case, image_id, ImageId, image, id) the rows are the cases in the order of their
    ``index``, or of ``cases`` if they have none. With it, a case may lack a row; then it is not in the result.

    Raises InputFault: too-large, invalid-csv, missing-column, row-count, unknown-case, duplicate-row, invalid-count.
    """
    with damage_told(request.where, "a CSV file"):
        table = read_table(
            stream,
            where=request.where,
            bytes_limit=request.limits.bytes_per_file,
            rows_limit=max(ROWS_LIMIT, len(cases)),
        )
        columns = class_columns(table, request)
        counts = read_counts(table, columns)
        names = names_of_rows(table, request, cases)
    return {name: tuple(row) for name, row in zip(names, counts.tolist(), strict=True)}


def write_counts_csv(counts: Mapping[str, Sequence[int]], class_names: Sequence[str]) -> bytes:
    """A CSV file with the column "case" and one for each class, a row for each case, in the order of ``counts``.

    >>> write_counts_csv({"a": (3, 0)}, ["tumour", "other"])
    b'case,tumour,other\\na,3,0\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", *class_names])
    writer.writerows([name, *row] for name, row in counts.items())
    return text.getvalue().encode()


def class_columns(table: Table, request: Request) -> list[int]:
    """The column of each class, in the order of the classes."""
    by_class: dict[int, int] = {}
    faults = []
    for column, name in enumerate(table.names):
        class_id = request.classes.ids.get(name.casefold(), 0) if name else 0
        if class_id > 0 and by_class.setdefault(class_id, column) != column:
            got = f"two columns of one class, {quote(table.names[by_class[class_id]])} and {quote(name)}"
            faults.append(Finding("invalid-csv", request.where, got, "one column for each class"))
    for class_id, name in enumerate(request.classes.names, start=1):
        if class_id not in by_class:
            seen = [seen for seen in table.names if seen]
            got = f"no column {quote(name)} among {listed(seen).replace(' or ', ' and ')}"
            fix = did_you_mean(name, seen)
            faults.append(Finding("missing-column", request.where, got, "a column for each class", fix))
    if faults:
        raise InputFault(*count_rest(faults))
    return [by_class[class_id] for class_id in range(1, len(request.classes.names) + 1)]


def read_counts(table: Table, columns: Sequence[int]) -> Int64:
    """The numbers in the columns, int64 (R, C). Raises InputFault ("invalid-count")."""
    numbers = np.stack([numbers_of(table.cells(column)) for column in columns], axis=1)
    wrong = np.argwhere(~((numbers >= 0) & (numbers <= LARGEST_COUNT) & (np.floor(numbers) == numbers)))
    if len(wrong):
        named = [
            Finding(
                "invalid-count",
                table.place(row),
                f"{quote(table.names[columns[k]])} is {quote(table.text(row, columns[k]))}",
                "a whole number from 0 to 1,000,000,000",
            )
            for row, k in wrong[:FAULTS_NAMED]
        ]
        raise InputFault(*with_rest(named, len(wrong)))
    return numbers.astype(np.int64)


def names_of_rows(table: Table, request: Request, cases: Mapping[str, Case]) -> list[str]:
    """The name of the case of each row."""
    column = table.find(CASE_COLUMNS)
    if column is None:
        if len(table) != len(cases):
            fix = "If the rows are not in the order of the cases, add a column 'case'."
            expected = f"{len(cases):,}, one for each case, in their order"
            raise InputFault(Finding("row-count", request.where, f"{len(table):,} rows", expected, fix))
        ordered = list(cases.values())
        if all(case.index is not None for case in ordered):
            ordered.sort(key=lambda case: case.index or 0)
        return [case.name for case in ordered]
    names: dict[str, int] = {}
    faults = []
    for row in range(len(table)):
        key = table.text(row, column)
        case = find_case(cases, key)
        if case is None:
            got, fix = f"{quote(key)} is not a case of this challenge", "Correct its name, or leave out its row."
            expected = f"one of the {len(cases):,} cases in cases.csv"
            faults.append(Finding("unknown-case", table.place(row), got, expected, fix))
        elif (before := names.setdefault(case.name, row)) != row:
            got, expected = f"{quote(key)} again, after line {table.line[before]:,}", "one row for each case"
            faults.append(Finding("duplicate-row", table.place(row), got, expected, "Remove one of them."))
    if faults:
        raise InputFault(*count_rest(faults))
    return list(names)
