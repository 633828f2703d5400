"""What the columns of CSV formats mean: cases, classes, probabilities, coordinates."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from evaluation.decoding.csv import Table, numbers_of, read_table
from evaluation.findings import Finding, fault, for_each, quote
from evaluation.findings.errors import InputFault, refusal
from evaluation.formats.classes import find_classes
from evaluation.formats.format import Request, are_coordinates
from evaluation.model import Bool, Case, Float64, Int16, Int64, um_to_px

# The headers that every CSV reader takes, the likeliest first; upper and lower case are the same.
CASE_COLUMNS = ("case", "image_id", "ImageId", "image", "id")
NAMED_CASE_COLUMNS = CASE_COLUMNS[:-1]  # where "id" may be that of a nucleus
CLASS_COLUMNS = ("class", "cell_type", "label", "type")
# The headers of x and y in px, the likeliest first, and those of the class: tables of other tools count px as we do.
POINT_COLUMNS = (
    ("x", "y", CLASS_COLUMNS),
    ("axis-1", "axis-0", CLASS_COLUMNS),  # napari: of rows and columns the row comes first
    ("centroid-1", "centroid-0", ("class", "cell_type", "type")),  # scikit-image, whose label is an id
    ("location_center_x", "location_center_y", CLASS_COLUMNS),  # CellProfiler
    ("areashape_center_x", "areashape_center_y", CLASS_COLUMNS),
    ("centroid x px", "centroid y px", ("class", "classification")),  # QuPath
    ("center of the object_0", "center of the object_1", ("predicted class",)),  # ilastik
)
MORE_AXES = ("axis-2", "vertex-index", "centroid-2")
IMAGE_NUMBERS = ("imagenumber", "slice", "frame", "timestep")  # count images, which they do not name
WITH_XY = "with columns x and y in px"
ONE_EACH = f"write a table for each image, {WITH_XY}"
# Headers that all occur in a table that is not read, what it is, and what to do. A micro sign in lower case is a mu.
OTHER_TABLES = (
    (("shape-type", "vertex-index"), "shapes of napari", "export their labels layer (.tif)"),
    (("axis-0", "axis-1", "axis-2"), "points of napari with more than two axes", ONE_EACH),
    (("centroid-2",), "a table of scikit-image with more than two axes", ONE_EACH),
    (("position_x", "track_id"), "spots of TrackMate, in units of the image", f"write a table {WITH_XY}"),
    (("centroid x \u03bcm",), "measurements of QuPath in um", "export GeoJSON (File > Export objects as GeoJSON)"),
    (("centroid_x_um",), "measurements of QuPath in um", "export GeoJSON (File > Export objects as GeoJSON)"),
    (("imagenumber",), "a table of CellProfiler without places", "export with MeasureObjectSizeShape"),
    (("xmin", "xmax", "ymin", "ymax"), "a table of boxes without outlines", f"write outlines, or a table {WITH_XY}"),
    (("labelimage_oid",), "a table of ilastik without places", "export the feature 'Center of the object', too"),
)
ID_COLUMNS = ("id", "instance", "label")
PROBABILITY_COLUMNS = ("probability", "score", "confidence")


def find_case(cases: Mapping[str, Case], key: str) -> Case | None:
    """The case that a file calls ``key``; folders before the name of an image file do not count."""
    return cases.get(key) or cases.get(key.replace("\\", "/").rpartition("/")[2])


def point_columns(names: Collection[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """The headers of x, y and the class in a table of points; None if x or y is missing, or there are more axes.

    names  of the columns, in lower case
    """
    if {*MORE_AXES} & {*names} and not {"x", "y"} <= {*names}:
        return None
    return next((of_tool for of_tool in POINT_COLUMNS if {*of_tool[:2]} <= {*names}), None)


def other_table(names: Collection[str]) -> str:
    """What a table without columns of points is, and what to do; "" if nothing is known of it.

    >>> other_table(["index", "shape-type", "vertex-index", "axis-0", "axis-1"])
    'shapes of napari, not read; export their labels layer (.tif)'
    """
    return next((f"{what}, not read; {todo}" for needed, what, todo in OTHER_TABLES if {*needed} <= {*names}), "")


@dataclass(frozen=True, slots=True, eq=False)
class CaseRows:
    """The rows of a table that belong to cases, case by case, in the order of the file inside a case.

    cases        that the file names, in order of first appearance
    case_of_row  int64 (R,), ascending: which of them
    unknown      how many rows each name has that is no case
    """

    table: Table
    cases: tuple[Case, ...]
    case_of_row: Int64
    unknown: Mapping[str, int]

    def take(self, kept: Bool) -> CaseRows:
        """The same cases with some of the rows, bool (R,)."""
        return replace(self, table=self.table.take(kept), case_of_row=self.case_of_row[kept])

    def slices(self) -> list[slice]:
        """The rows of each case."""
        edges = np.searchsorted(self.case_of_row, np.arange(len(self.cases) + 1)).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def rows_of_cases(table: Table, column: int, cases: Mapping[str, Case]) -> CaseRows:
    """Sort the rows of a table by the cases that a column names."""
    keys, key_of_row = table.categories(column)
    found: dict[str, tuple[int, Case]] = {}
    case_of_key = np.full(len(keys), -1, np.int64)
    for index, key in enumerate(keys):
        if (case := find_case(cases, key)) is not None:
            case_of_key[index] = found.setdefault(case.name, (len(found), case))[0]
    count = np.bincount(key_of_row, minlength=len(keys))
    unknown = {keys[index]: int(count[index]) for index in np.flatnonzero(case_of_key < 0)}
    case_of_row = case_of_key[key_of_row]
    order = np.argsort(case_of_row, kind="stable")
    order = order[case_of_row[order] >= 0]
    return CaseRows(table.take(order), tuple(case for _, case in found.values()), case_of_row[order], unknown)


def check_one_image(table: Table, request: Request) -> None:
    """Refuse a table that has no column of cases and counts several images. Raises InputFault ("other-case")."""
    if table.find(NAMED_CASE_COLUMNS) is None and (column := table.find(IMAGE_NUMBERS)) is not None:
        numbers = table.categories(column)[0]
        if len(numbers) > 1:
            what, count = table.names[column], len(numbers)
            raise refusal("other-case", request.where, wording="images-by-number", what=what, count=count)


def check_counts(rows: CaseRows, request: Request) -> None:
    """Refuse a case with more rows than the challenge allows nuclei. Raises InputFault ("too-large")."""
    limit = request.limits.instances_per_case
    counts = [(case, part.stop - part.start) for case, part in zip(rows.cases, rows.slices(), strict=True)]
    wrong = [(f"{request.where}, case {quote(case.name)}", count) for case, count in counts if count > limit]
    if wrong:
        raise InputFault(
            *for_each(
                wrong,
                lambda found: fault(
                    "too-large", found[0], wording="too-many-nuclei-in-rows", nuclei=found[1], limit=limit
                ),
            )
        )


def class_columns(table: Table, request: Request, prefix: str = "") -> tuple[list[int], list[Finding]]:
    """The columns that are called ``prefix`` and the name or an alias of a class, in the order of the classes.

    Also what is wrong with them: a class with two, or with none; no columns at all if nothing is called so.
    """
    by_class: dict[int, int] = {}
    faults: list[Finding] = []
    for column, name in enumerate(table.names):
        folded = name.casefold()
        of_class = folded.removeprefix(prefix).strip() if folded.startswith(prefix) else ""
        class_id = request.classes.ids.get(of_class, 0) if of_class else 0
        if class_id > 0 and by_class.setdefault(class_id, column) != column:
            faults.append(
                fault(
                    "invalid-csv",
                    request.where,
                    wording="two-columns-of-class",
                    first=table.names[by_class[class_id]],
                    second=name,
                )
            )
    if prefix and not by_class:
        return [], []
    missing = [name for class_id, name in enumerate(request.classes.names, start=1) if class_id not in by_class]
    seen = [name for name in table.names if name]

    def fault_at(name: str) -> Finding:
        wanted = "a column for each class"
        if prefix:
            wanted = f"a column {quote(prefix + '…')} for each class, or for none"
        return fault("missing-column", request.where, expected=wanted, name=prefix + name, known=seen)

    faults += for_each(missing, fault_at)
    return [by_class[class_id] for class_id in sorted(by_class)], faults


def read_classes(table: Table, column: int | None, request: Request) -> tuple[Int16, Bool, list[Finding]]:
    """The class id of each row, int16 (R,), which rows are nuclei, bool (R,), and what is wrong with the classes."""
    if request.file_class or column is None:
        only = request.file_class or request.classes.of_nameless
        return np.full(len(table), only, np.int16), np.ones(len(table), np.bool_), []
    return find_classes(*table.categories(column), table.place, request.classes)


def read_probabilities(table: Table) -> tuple[Float64 | None, list[Finding]]:
    """The probability of each row, float64 (R,), None if no row has one, and what is wrong with them."""
    column = table.find(PROBABILITY_COLUMNS)
    if column is None:
        return None, []
    cells = table.cells(column)
    given = np.array([bool(cell.strip()) for cell in cells], np.bool_)
    if not given.any():
        return None, []
    numbers = numbers_of(cells)
    wrong = np.flatnonzero(given & ~((numbers >= 0) & (numbers <= 1))).tolist()
    missing = np.flatnonzero(~given).tolist()
    what = f"{table.names[column]} is"
    faults = [
        *for_each(
            wrong, lambda row: fault("invalid-probability", table.place(row), value=table.text(row, column), what=what)
        ),
        *for_each(missing, lambda row: fault("missing-probability", table.place(row))),
    ]
    return (None if faults else numbers.astype(np.float64)), faults


def check_case(table: Table, column: int, request: Request, case: Case) -> None:
    """Refuse rows of other cases in a file that holds one. Raises InputFault ("other-case").

    A row may have the name of the case or, as in shared files, ``case_key``, with folders before it or without.
    """
    key = request.rules.key_of(case)
    texts, text_of_row = table.categories(column)
    wrong = [index for index, text in enumerate(texts) if find_case({case.name: case, key: case}, text) is None]
    if wrong:
        rows = np.flatnonzero(np.isin(text_of_row, wrong)).tolist()
        raise InputFault(
            *for_each(
                rows,
                lambda row: fault(
                    "other-case", table.place(row), wording="row", name=texts[text_of_row[row]], case=key
                ),
            )
        )


def table_of(stream: BinaryIO, request: Request, cases: int) -> Table:
    """The table of a file of so many cases. Raises InputFault: too-large, invalid-csv."""
    return read_table(
        stream,
        where=request.where,
        bytes_limit=request.limits.bytes_per_file,
        rows_limit=rows_limit(request, cases),
        names=request.rules.value("columns"),
    )


def rows_limit(request: Request, cases: int) -> int:
    """The most rows that a file of so many cases may have."""
    return request.limits.instances_per_case * max(cases, 1)


def read_coordinates(
    table: Table, columns: Sequence[int], um_per_unit: float = 1.0, spacing_um: Float64 | float | None = None
) -> tuple[Float64, list[Finding]]:
    """Columns of coordinates in px, float64 (R, K), and what is wrong with them.

    x_px = x * um_per_unit / spacing_um, with one spacing for all rows or one for each; None: they are px already.
    """
    numbers = np.stack([numbers_of(table.cells(column)) for column in columns], axis=1)
    if spacing_um is not None:
        with np.errstate(over="ignore"):
            numbers = um_to_px(numbers * um_per_unit, np.reshape(spacing_um, (-1, 1)))

    def fault_at(cell: list[int]) -> Finding:
        row, column = cell[0], columns[cell[1]]
        return fault(
            "invalid-coordinate",
            table.place(row),
            wording="no-coordinate",
            column=table.names[column],
            text=table.text(row, column),
        )

    return numbers, for_each(np.argwhere(~are_coordinates(numbers)).tolist(), fault_at)
