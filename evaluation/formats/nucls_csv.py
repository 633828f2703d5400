"""NuCLS CSV: one row for each nucleus, an outline ("polyline") or only its box ("rectangle"), and three class levels.

::

    raw_classification, main_classification, super_classification   the class on each level; the rules say which counts
    type                                                            rectangle or polyline
    xmin, ymin, xmax, ymax                                          extent of the nucleus, px of the field of view
    coords_x, coords_y                                              its vertices, "x1,x2,…" and "y1,y2,…"

Both types are nuclei. A rectangle is read as the outline of its corners: it covers more than its nucleus does, so
detection and classes can be scored with it, but IoU is that of a box. https://sites.google.com/view/nucls/data-format
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from evaluation.challenge.formats import NuclsCsvRules
from evaluation.decoding.csv import Table, numbers_of
from evaluation.decoding.streams import check_number, damage_told
from evaluation.findings import Finding, fault, for_each
from evaluation.findings.errors import InputFault
from evaluation.formats.class_table import most_probable, read_class_probabilities
from evaluation.formats.csv_columns import read_classes, read_coordinates, read_probabilities, table_of
from evaluation.formats.example import Example, csv_bytes
from evaluation.formats.format import Format, Request, are_coordinates
from evaluation.model import Annotations, Case, Float64, Int64, Outlines

BOX_COLUMNS = ("xmin", "ymin", "xmax", "ymax")
CORNERS = [0, 1, 2, 1, 2, 3, 0, 3]  # of a box, as x and y in turn


def read_nucls_csv(stream: BinaryIO, request: Request[NuclsCsvRules], case: Case) -> Annotations:
    """The outlines of a NuCLS file, one for each row; the class is in the column ``class_column`` of the rules.

    A rectangle without vertices has the corners of xmin, ymin, xmax, ymax. ``source_id`` is the line of a row, from 1.
    Predictions may have a column probability, score or confidence, and columns probability_<class>; with these they
    need no class, and have the most probable one (of equal ones the earlier).

    Raises InputFault: too-large, invalid-csv, missing-column, unknown-class, unsupported-shape, invalid-coordinate,
    invalid-probability, missing-probability.
    """
    with damage_told(request.where, "a CSV file"):
        table = table_of(stream, request, 1)
        of_rules = request.rules.class_column
        class_column = table.find([of_rules])
        class_id, kept, faults = read_classes(table, class_column, request)
        table, class_id = table.take(kept), class_id[kept]
        shapes = read_shapes(table, request)
        probability, wrong_probabilities = read_probabilities(table)
        class_probability, wrong_of_classes = read_class_probabilities(table, request)
        if class_column is None and not request.file_class:
            if class_probability is not None:
                class_id = most_probable(class_probability)
            elif not wrong_of_classes:
                table.need(of_rules)
    if faults := [*faults, *shapes.faults, *wrong_probabilities, *wrong_of_classes]:
        raise InputFault(*faults)
    outlines = Outlines(
        points_xy=shapes.points_xy,
        ring_start=np.concatenate([[0], np.cumsum(shapes.count)]),
        ring_instance=np.arange(len(table), dtype=np.int32),
        ring_is_hole=np.zeros(len(table), np.bool_),
        class_id=class_id,
        source_id=table.line.astype(object),
        probability=probability,
        class_probability=class_probability,
    )
    return Annotations((outlines,))


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """The vertices of all rows, float64 (V, 2), how many each row has, int64 (R,), and what is wrong with them."""

    points_xy: Float64
    count: Int64
    faults: list[Finding]


def read_shapes(table: Table, request: Request[NuclsCsvRules]) -> Shapes:
    """The vertices of all rows; of boxes without vertices the corners."""
    types, type_of_row = table.categories(table.need("type"))
    is_rectangle = np.array([name.casefold() == "rectangle" for name in types], np.bool_)[type_of_row]
    is_polyline = np.array([name.casefold() == "polyline" for name in types], np.bool_)[type_of_row]
    x, y = (read_lists(table, name, request) for name in ("coords_x", "coords_y"))
    is_box = is_rectangle & (x.count == 0) & (y.count == 0)
    other = np.flatnonzero(~(is_rectangle | is_polyline)).tolist()
    uneven = np.flatnonzero((x.count != y.count) | (is_polyline & (x.count == 0))).tolist()
    faults = [
        *for_each(
            other,
            lambda row: fault(
                "unsupported-shape", table.place(row), wording="other-nucls-type", type=types[type_of_row[row]]
            ),
        ),
        *for_each(
            uneven,
            lambda row: fault(
                "invalid-coordinate", table.place(row), wording="more-x-than-y", x=x.count[row], y=y.count[row]
            ),
        ),
        *vertex_faults(table, "coords_x", x),
        *vertex_faults(table, "coords_y", y),
    ]
    boxes = table.take(is_box)
    corners = np.empty((0, 4), np.float64)
    if len(boxes):
        corners, wrong = read_coordinates(boxes, [boxes.need(name) for name in BOX_COLUMNS])
        faults += wrong
    count = np.where(is_box, 4, x.count)
    if faults:
        return Shapes(np.empty((0, 2)), count, faults)
    points_xy = np.empty((int(count.sum()), 2))
    of_box = np.repeat(is_box, count)
    points_xy[of_box] = corners[:, CORNERS].reshape(-1, 2)
    points_xy[~of_box] = np.stack([x.numbers, y.numbers], axis=1)
    return Shapes(points_xy, count, [])


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The numbers of a column of lists, float64 (V,), their texts, and how many each row has, int64 (R,)."""

    numbers: Float64
    texts: list[bytes]
    count: Int64


def read_lists(table: Table, column: str, request: Request[NuclsCsvRules]) -> Lists:
    """A column of lists such as "1,2.5,3"; NaN for what is no number. Raises InputFault ("too-large")."""
    cells = table.cells(table.need(column))
    lists = [cell for cell in cells if cell.strip()]
    count = np.array([cell.count(b",") + 1 if cell.strip() else 0 for cell in cells], np.int64)
    check_number(int(count.sum()), "vertices", "vertices_per_file", request.where, request.limits)
    texts = b",".join(lists).split(b",") if lists else []
    return Lists(numbers_of(texts), texts, count)


def vertex_faults(table: Table, column: str, lists: Lists) -> list[Finding]:
    """Numbers that are no coordinates."""
    stop = np.cumsum(lists.count)

    def fault_at(index: int) -> Finding:
        row = int(np.searchsorted(stop, index, "right"))
        vertex = int(index - stop[row] + lists.count[row])
        text = lists.texts[index].decode().strip()
        return fault(
            "invalid-coordinate",
            f"{table.place(row)}, vertex {vertex + 1:,}",
            wording="no-coordinate",
            column=column,
            text=text,
        )

    return for_each(np.flatnonzero(~are_coordinates(lists.numbers)).tolist(), fault_at)


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    columns = ["raw_classification", "main_classification", "super_classification", "type"]
    rows = []
    for name, ring in made.rings(cases[0], class_name):
        coordinates = [",".join(f"{value:g}" for value in ring[:, axis]) for axis in (0, 1)]
        box = [f"{value:g}" for value in (*ring.min(axis=0), *ring.max(axis=0))]
        rows.append([*[name] * 3, "polyline", *box, *coordinates])
    return csv_bytes([*columns, "xmin", "ymin", "xmax", "ymax", "coords_x", "coords_y"], rows)


def explain(rules: NuclsCsvRules) -> list[str]:
    return [f"The class is in the column `{rules.class_column}`."]


FORMAT = Format(
    words="NuCLS CSV",
    explain=explain,
    read=read_nucls_csv,
    example=example,
)
