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

from evaluation.decoding.csv import Table, count_rest, numbers_of, read_table
from evaluation.decoding.streams import damage_told
from evaluation.findings import Finding, fault, for_each
from evaluation.findings.errors import InputFault, refusal
from evaluation.formats.csv_columns import CASE_COLUMNS, CaseRows, class_columns, rows_of_cases
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request
from evaluation.model import Annotations, Case, Collection, Counts, Int64

LARGEST_COUNT = 10**9
ROWS_LIMIT = 1_000_000


def read_counts_csv_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """How many nuclei of each class each case has, a part ``Counts`` for each.

    A column is a class if its name is one, or an alias; there must be one for every class, and others do not matter.
    Without a column for the case (case, image_id, ImageId, image, id) the rows are the cases in the order of their
    ``index``, and all must have one. With it, a case may lack a row; then it is not in the result.

    Raises InputFault: too-large, invalid-csv, missing-column, row-count, duplicate-row, invalid-count.
    """
    with damage_told(request.where, "a CSV file"):
        table = read_table(
            stream,
            where=request.where,
            bytes_limit=request.limits.bytes_per_file,
            rows_limit=max(ROWS_LIMIT, len(cases)),
        )
        columns, faults = class_columns(table, request)
        if faults:
            raise InputFault(*count_rest(faults))
        rows = case_rows(table, request, cases)
        counts = read_counts(rows.table, columns)
    found = {case.name: Annotations((Counts(row),)) for case, row in zip(rows.cases, counts, strict=True)}
    return Collection(found, rows.unknown)


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


def read_counts(table: Table, columns: Sequence[int]) -> Int64:
    """The numbers in the columns, int64 (R, C). Raises InputFault ("invalid-count")."""
    numbers = np.stack([numbers_of(table.cells(column)) for column in columns], axis=1)
    wrong = np.argwhere(~((numbers >= 0) & (numbers <= LARGEST_COUNT) & (np.floor(numbers) == numbers))).tolist()

    def fault_at(cell: list[int]) -> Finding:
        row, column = cell[0], columns[cell[1]]
        return fault("invalid-count", table.place(row), column=table.names[column], text=table.text(row, column))

    if wrong:
        raise InputFault(*for_each(wrong, fault_at))
    return numbers.astype(np.int64)


def case_rows(table: Table, request: Request, cases: Mapping[str, Case]) -> CaseRows:
    """The row of each case. Raises InputFault: row-count, duplicate-row."""
    column = table.find(CASE_COLUMNS)
    if column is None:
        if len(table) != len(cases):
            raise refusal("row-count", request.where, rows=len(table), cases=len(cases))
        if any(case.index is None for case in cases.values()):
            raise refusal("missing-column", request.where, wording="no-case")
        ordered = sorted(cases.values(), key=lambda case: case.index or 0)
        return CaseRows(table, tuple(ordered), np.arange(len(table)), {})
    rows = rows_of_cases(table, column, cases)
    again = np.flatnonzero(np.diff(rows.case_of_row, prepend=-1) == 0).tolist()
    found = rows.table
    if again:
        raise InputFault(
            *for_each(
                again,
                lambda row: fault(
                    "duplicate-row",
                    found.place(row),
                    wording="case-twice",
                    case=found.text(row, column),
                    line=found.line[row - 1],
                ),
            )
        )
    return rows


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    counts = {}
    for case in cases:
        found = [name for _, name in made.classes_of(case)]
        counts[made.rules.key_of(case)] = [found.count(name) for name in made.names]
    return write_counts_csv(counts, made.names)


FORMAT = Format(
    words="CSV with a row for each image and a column for each class: how many nuclei there are",
    read_all=read_counts_csv_collection,
    example=example,
)
