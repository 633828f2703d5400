"""Points as CSV: a column for x, one for y, and as needed for class, probability and case.

Columns are found by their names in the header, in any order; further columns do not matter. A file without a header is
read if the challenge names its columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np

from evaluation.challenge.formats import PointsCsvRules
from evaluation.decoding.csv import Table
from evaluation.decoding.streams import damage_told
from evaluation.findings.errors import InputFault
from evaluation.formats.class_table import most_probable, read_class_probabilities
from evaluation.formats.csv_columns import (
    CASE_COLUMNS,
    NAMED_CASE_COLUMNS,
    POINT_COLUMNS,
    check_case,
    check_counts,
    check_one_image,
    other_table,
    point_columns,
    read_classes,
    read_coordinates,
    read_probabilities,
    rows_of_cases,
    table_of,
)
from evaluation.formats.example import Example, csv_bytes
from evaluation.formats.format import Format, Request, um_and_spacing
from evaluation.model import Annotations, Bool, Case, Collection, Float64, Points

NO_HEADER = "If the file has no header, its columns must be named in challenge.toml ('columns')."


def read_points_csv(stream: BinaryIO, request: Request[PointsCsvRules], case: Case) -> Annotations:
    """The points of one case. If there is a column for the case (``NAMED_CASE_COLUMNS``), all rows must name this one.

    x, y         px, um or mm, as the rules say, in the columns of ``POINT_COLUMNS``; um and mm become px by the spacing
                 of the case. A row with neither is no nucleus, but its case is mentioned
    class        in the first of the columns class, cell_type, label and type, or that of the tool, by name or number
    probability  in the first of the columns probability, score and confidence
    probability_<class>  the probability of each class, one column for every class or none. Without a column for the
                 class a point has the most probable one, of equal ones the earlier in the challenge

    ``source_id`` is the line of a point, from 1. Raises InputFault: too-large, invalid-csv, missing-column, other-case,
    unknown-class, invalid-coordinate, invalid-probability, missing-probability.
    """
    with damage_told(request.where, "a CSV file"):
        table = table_of(stream, request, 1)
        if (column := table.find(NAMED_CASE_COLUMNS)) is not None:
            check_case(table, column, request, case)
        check_one_image(table, request)
        points, _ = points_of(table, request, np.repeat(spacings_um([case]), len(table)))
    return Annotations((points,))


def read_points_csv_collection(
    stream: BinaryIO, request: Request[PointsCsvRules], cases: Mapping[str, Case]
) -> Collection:
    """The points of all cases, from a file with a column for the case; otherwise as ``read_points_csv``."""
    with damage_told(request.where, "a CSV file"):
        table = table_of(stream, request, len(cases))
        rows = rows_of_cases(table, table.need(*CASE_COLUMNS, fix=NO_HEADER), cases)
        check_counts(rows, request)
        points, kept = points_of(rows.table, request, spacings_um(rows.cases)[rows.case_of_row])
    found = {
        case.name: Annotations((select_points(points, part),))
        for case, part in zip(rows.cases, rows.take(kept).slices(), strict=True)
    }
    return Collection(found, rows.unknown)


def spacings_um(cases: Sequence[Case]) -> Float64:
    """um for a px in each case, float64 (C,)."""
    return np.array([np.nan if case.spacing_um is None else case.spacing_um for case in cases], np.float64)


def points_of(table: Table, request: Request[PointsCsvRules], spacing_um: Float64) -> tuple[Points, Bool]:
    """The points of all rows that are nuclei, and which rows these are, bool (R,).

    spacing_um  float64 (R,), um for a px at each row
    """
    names = [name.casefold() for name in table.names]
    x_name, y_name, classes = point_columns(names) or POINT_COLUMNS[0]
    fix = (other_table(names) and f"The file is {other_table(names)}.") or NO_HEADER
    x, y = table.need(x_name, fix=fix), table.need(y_name, fix=fix)
    is_nucleus: Bool = (table.stop[:, x] > table.start[:, x]) | (table.stop[:, y] > table.start[:, y])
    table = table.take(is_nucleus)
    class_column = table.find(classes)
    class_id, kept, faults = read_classes(table, class_column, request)
    table, class_id = table.take(kept), class_id[kept]
    is_nucleus[is_nucleus] = kept
    scale = um_and_spacing(request.rules.units, spacing_um[is_nucleus])
    points_xy, wrong_points = read_coordinates(table, (x, y), *scale)
    probability, wrong_probabilities = read_probabilities(table)
    class_probability, wrong_of_classes = read_class_probabilities(table, request)
    if faults := [*faults, *wrong_points, *wrong_probabilities, *wrong_of_classes]:
        raise InputFault(*faults)
    if class_column is None and not request.file_class and class_probability is not None:
        class_id = most_probable(class_probability)
    return Points(points_xy, class_id, table.line.astype(object), probability, class_probability), is_nucleus


def select_points(points: Points, rows: slice) -> Points:
    return Points(
        points.points_xy[rows],
        points.class_id[rows],
        points.source_id[rows],
        None if points.probability is None else points.probability[rows],
        None if points.class_probability is None else points.class_probability[rows],
    )


def example(made: Example[PointsCsvRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    columns = list(made.rules.columns or ["case", "x", "y", "class"])
    rows = []
    for case in cases:
        for name, x, y in made.marks(case, class_name):
            of_class = made.values[name] if made.rules.class_values else name
            known = {"case": made.rules.key_of(case), "x": f"{x:g}", "y": f"{y:g}", "class": of_class, "probability": 1}
            rows.append([known.get(column, "") for column in columns])
    return csv_bytes(None if made.rules.columns else columns, rows)


def explain(rules: PointsCsvRules) -> list[str]:
    return [f"The columns are {', '.join(rules.columns)}; there is no header."] if rules.columns else []


FORMAT = Format(
    words="CSV with a row for each nucleus",
    explain=explain,
    read=read_points_csv,
    read_all=read_points_csv_collection,
    example=example,
)
