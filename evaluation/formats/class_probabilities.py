"""Probabilities of the classes: a number from 0 to 1 for each nucleus and each class of the challenge.

The numbers of a nucleus need not add up to 1: a model may know classes that the challenge does not score, or judge each
class by itself. What a file says of other classes does not matter.
"""

from __future__ import annotations

import numpy as np

from evaluation.decoding.csv import Table, count_rest, numbers_of
from evaluation.findings import FAULTS_NAMED, Finding, fault, for_each, with_rest
from evaluation.findings.errors import InputFault
from evaluation.formats.csv_columns import class_columns
from evaluation.formats.request import Request
from evaluation.model import Bool, Float64, Int16

NUMBERS_LIMIT = 50_000_000  # nuclei times classes: 200 MB
COLUMN_PREFIX = "probability_"


def check_size(nuclei: int, classes: int, where: str) -> None:
    """Refuse more numbers than fit, before there are any. Raises InputFault ("too-large").

    >>> check_size(50_000_000 // 6, 6, "'a.csv'")
    """
    if nuclei * classes > NUMBERS_LIMIT:
        raise InputFault(
            fault(
                "too-large",
                where,
                wording="too-many-probabilities",
                classes=classes,
                nuclei=nuclei,
                limit=NUMBERS_LIMIT,
            )
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
