"""Run-length codes as CSV (Data Science Bowl 2018, Sartorius): one row for each nucleus, with its image and its code.

A code is a list "start length start length …"; ``pixel_order`` and ``first_pixel`` of the rules say which pixel a start
is. Both challenges number pixels from 1; the Data Science Bowl goes down columns, Sartorius along rows.
https://www.kaggle.com/c/data-science-bowl-2018/overview/evaluation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np

from evaluation.challenge.formats import RleCsvRules
from evaluation.decoding.csv import Table, count_rest, numbers_of
from evaluation.decoding.streams import damage_told
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault
from evaluation.formats.csv_columns import (
    CASE_COLUMNS,
    CLASS_COLUMNS,
    CaseRows,
    check_counts,
    read_classes,
    read_probabilities,
    rows_of_cases,
    table_of,
)
from evaluation.formats.example import Example, csv_bytes
from evaluation.formats.format import Format, Request
from evaluation.formats.run_lengths import instances_from_runs, runs_of_pairs
from evaluation.model import Annotations, Case, Collection, Float64, Instances, Int16

CODE_COLUMNS = ("EncodedPixels", "annotation", "rle", "segmentation", "encoded_pixels", "predicted")


def read_rle_csv_collection(stream: BinaryIO, request: Request[RleCsvRules], cases: Mapping[str, Case]) -> Collection:
    """The nuclei of all cases from the rows of a CSV file, one row for each nucleus.

    case         in the first of ``CASE_COLUMNS``
    code         in the first of the columns EncodedPixels, annotation, rle, segmentation, encoded_pixels and predicted;
                 a row without a code is no nucleus, but its case is mentioned
    class        in the first of ``CLASS_COLUMNS``, by name or number
    probability  in the first of the columns probability, score and confidence
    size         if there are columns height and width they must be those of the case

    ``source_id`` is the line of a row, from 1. Raises InputFault: too-large, invalid-csv, missing-column, wrong-shape,
    unknown-class, invalid-rle, too-complex-runs, invalid-probability, missing-probability.
    """
    with damage_told(request.where, "a CSV file"):
        table = table_of(stream, request, len(cases))
        code_column = table.need(*CODE_COLUMNS)
        rows = rows_of_cases(table, table.need(*CASE_COLUMNS), cases)
        faults = size_faults(rows)
        rows = rows.take(np.array([bool(cell.strip()) for cell in rows.table.cells(code_column)], np.bool_))
        check_counts(rows, request)
        class_id, kept, wrong_classes = read_classes(rows.table, rows.table.find(CLASS_COLUMNS), request)
        rows = rows.take(kept)
        probability, wrong_probabilities = read_probabilities(rows.table)
        faults += [*wrong_classes, *wrong_probabilities]
        codes = [cell.decode() for cell in rows.table.cells(code_column)]
        found: dict[str, Annotations] = {}
        for case, part in zip(rows.cases, rows.slices(), strict=True):
            try:
                instances = instances_of(
                    codes[part],
                    rows.table.take(part),
                    request,
                    case,
                    class_id=class_id[kept][part],
                    probability=None if probability is None else probability[part],
                )
                found[case.name] = Annotations((instances,))
            except InputFault as error:
                faults += error.findings
    if faults:
        raise InputFault(*count_rest(faults))
    return Collection(found, rows.unknown)


def instances_of(
    codes: list[str],
    rows: Table,
    request: Request[RleCsvRules],
    case: Case,
    *,
    class_id: Int16,
    probability: Float64 | None,
) -> Instances:
    """The nuclei of one case, from its codes and the rows that they are in."""
    runs = runs_of_pairs(codes, rows.place, pixels=case.height * case.width, first_pixel=request.rules.first_pixel)
    return instances_from_runs(
        runs.start,
        runs.length,
        runs.instance,
        shape_yx=case.shape_yx,
        pixel_order=request.rules.pixel_order,
        class_id=class_id,
        source_id=rows.line.astype(object),
        probability=probability,
        where=f"{request.where}, case {quote(case.name)}",
    )


def size_faults(rows: CaseRows) -> list[Finding]:
    """Cases of which a row gives another height or width than theirs, one finding each."""
    table = rows.table
    columns = [table.find([name]) for name in ("height", "width")]
    sizes = [numbers_of(table.cells(column)) for column in columns if column is not None]
    if len(sizes) < 2:
        return []
    faults = []
    for case, part in zip(rows.cases, rows.slices(), strict=True):
        wrong = np.flatnonzero((sizes[0][part] != case.height) | (sizes[1][part] != case.width))
        if len(wrong):
            row = part.start + int(wrong[0])
            height, width = (table.text(row, column) for column in columns if column is not None)
            faults.append(
                fault(
                    "wrong-shape",
                    table.place(row),
                    wording="other-size-of-code",
                    total=len(wrong),
                    found_height=height,
                    found_width=width,
                    height=case.height,
                    width=case.width,
                )
            )
    return faults


def example(made: Example[RleCsvRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    rows = []
    for case in cases:
        labels = made.labels(case, class_name)
        flat = labels.reshape(-1) if made.rules.pixel_order == "row" else labels.T.reshape(-1)
        for label, name in made.classes_of(case, class_name):
            edges = np.flatnonzero(np.diff(flat == label, prepend=False, append=False))
            codes = [
                f"{start + made.rules.first_pixel} {stop - start}"
                for start, stop in zip(edges[::2], edges[1::2], strict=True)
            ]
            rows.append([made.rules.key_of(case), " ".join(codes), name])
    return csv_bytes(["image_id", "rle", "class"], rows)


def explain(rules: RleCsvRules) -> list[str]:
    along = "along the rows" if rules.pixel_order == "row" else "down the columns"
    return [f"Run lengths go {along}; the first pixel is {rules.first_pixel}."]


FORMAT = Format(
    words="CSV of run-length codes",
    explain=explain,
    read_all=read_rle_csv_collection,
    example=example,
)
