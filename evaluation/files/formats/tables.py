"""CSV files: the meaning of columns, and formats with rows of points, outlines or counts of images.

NuCLS has a row for each nucleus, an outline ("polyline") or only its box ("rectangle"), and three class levels::

    raw_classification, main_classification, super_classification   the class on each level; the rules state which
    counts
    type                                                            rectangle or polyline
    xmin, ymin, xmax, ymax                                          extent of the nucleus, px of the field of view
    coords_x, coords_y                                              its vertices, "x1,x2,…" and "y1,y2,…"

Both types are nuclei. A rectangle is read as the outline of its corners: it covers more than its nucleus, so
detection and classes can be scored with it, but the IoU is the IoU of a box.
https://sites.google.com/view/nucls/data-format

CoNIC's counts (task 2) have the columns neutrophil, epithelial, lymphocyte, plasma, eosinophil and connective, and rows
without names, in the order of the images in its arrays. https://github.com/TissueImageAnalytics/CoNIC
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from evaluation.challenge.formats import NuclsCsvRules, PointsCsvRules
from evaluation.files.decoding.annotations import Annotations, Collection
from evaluation.files.decoding.csv import Table, count_rest, numbers_of, read_table
from evaluation.files.decoding.streams import check_number
from evaluation.files.formats import headers
from evaluation.files.formats.format import (
    Example,
    Format,
    ListedImage,
    Request,
    SizeYx,
    are_coordinates,
    csv_bytes,
    outlines_of_rings,
    part_of,
    plain_size,
    to_px,
)
from evaluation.files.formats.sheet import SKIPPED, Sheet, check_size, keys_of_classes
from evaluation.findings import Finding, fault, for_each, quote
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Bool, Case, Counts, Float64, Int64, Points

IMAGES_AT_MOST = 1000  # of a table, for its limit of rows


def _find_case(cases: Mapping[str, Case], key: str) -> Case | None:
    """Find the case that a file calls ``key``; folders before the name of an image file do not count."""
    return cases.get(key) or cases.get(key.replace("\\", "/").rpartition("/")[2])


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

    def take(self, chosen: Bool) -> CaseRows:
        """Keep the same cases with some of the rows, bool (R,)."""
        return replace(self, table=self.table.take(chosen), case_of_row=self.case_of_row[chosen])

    def slices(self) -> list[slice]:
        """Return the rows of each case."""
        edges = np.searchsorted(self.case_of_row, np.arange(len(self.cases) + 1)).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def rows_of_cases(table: Table, column: int, cases: Mapping[str, Case]) -> CaseRows:
    """Sort the rows of a table by the cases that a column names."""
    keys, key_of_row = table.categories(column)
    number_and_case: dict[str, tuple[int, Case]] = {}
    case_of_key = np.full(len(keys), -1, np.int64)
    for index, key in enumerate(keys):
        if (case := _find_case(cases, key)) is not None:
            case_of_key[index] = number_and_case.setdefault(case.name, (len(number_and_case), case))[0]
    count = np.bincount(key_of_row, minlength=len(keys))
    unknown = {keys[index]: int(count[index]) for index in np.flatnonzero(case_of_key < 0)}
    case_of_row = case_of_key[key_of_row]
    order = np.argsort(case_of_row, kind="stable")
    order = order[case_of_row[order] >= 0]
    return CaseRows(table.take(order), tuple(case for _, case in number_and_case.values()), case_of_row[order], unknown)


def _check_one_image(table: Table, request: Request) -> None:
    """Refuse a table that has no column of cases and counts several images. Raises InputFault ("other-case")."""
    names = {name.casefold() for name in table.names}
    if headers.is_of_imagej(names) and (column := table.find(["label"])) is not None:
        images = {text.partition(":")[0] for text in table.categories(column)[0]}
        if 1 < len(images) < len(table):
            raise refused("other-case", request.where, wording="images-in-labels", count=len(images))
    if table.find(headers.NAMED_CASE_COLUMNS) is None and (column := table.find(headers.IMAGE_NUMBERS)) is not None:
        numbers = table.categories(column)[0]
        if len(numbers) > 1:
            what, count = table.names[column], len(numbers)
            raise refused("other-case", request.where, wording="images-by-number", what=what, count=count)


def check_rows_per_case(rows: CaseRows, request: Request) -> None:
    """Refuse a case with more rows than the challenge allows nuclei. Raises InputFault ("too-large")."""
    limit, counts = request.limits.instances_per_case, np.bincount(rows.case_of_row, minlength=len(rows.cases))

    def count_fault(index: int) -> Finding:
        place, wording = f"{request.where}, case {quote(rows.cases[index].name)}", "too-many-nuclei-in-rows"
        return fault("too-large", place, wording=wording, nuclei=counts[index], limit=limit)

    if wrong := np.flatnonzero(counts > limit).tolist():
        raise InputFault(*for_each(wrong, count_fault))


def _class_columns(table: Table, request: Request, prefix: str = "") -> tuple[list[int], list[Finding]]:
    """Find the columns that are called ``prefix`` and the name or an alias of a class, in the order of the classes.

    Also return the fault: a class with two columns or no column. No columns at all if no name matches.
    """
    where, headers = request.where, [name for name in table.names if name]
    found, twice = keys_of_classes(table.names, request.classes, prefix)
    columns = [column for column in found if column is not None]
    if prefix and not columns:
        return [], []
    faults = [fault("invalid-csv", where, wording="two-columns-of-class", first=one, second=two) for one, two in twice]
    wanted = f"a column {quote(prefix + '…')} for each class, or no column" if prefix else "a column for each class"
    lacking = [prefix + name for name, column in zip(request.classes.names, found, strict=True) if column is None]
    faults += [fault("missing-column", where, expected=wanted, name=name, known=headers) for name in lacking]
    return columns, count_rest(faults)


class NucleusRows(Sheet):
    """The rows of a table that are nuclei, with their classes and probabilities, and the faults of these.

    classes     the headers of the class, the likeliest first; without such a column or a class in the path, a nucleus
                has its most probable class
    table       the rows without skipped classes
    is_nucleus  bool, these rows in the whole table
    has_class   whether a column, the path, or class probabilities define the class
    """

    def __init__(self, table: Table, request: Request, classes: Sequence[str]) -> None:
        super().__init__(request, lambda line: f"line {line:,}")
        column = None if request.file_class else table.find(classes)
        class_id = np.full(len(table), request.file_class or request.classes.of_nameless, np.int16)
        if column is not None:
            class_id = self.classes_of(*table.categories(column), table.line)
        self.is_nucleus: Bool = class_id != SKIPPED
        self.table, self.class_id = table.take(self.is_nucleus), class_id[self.is_nucleus]
        columns = [] if (of_nucleus := self.table.find(headers.PROBABILITY_COLUMNS)) is None else [of_nucleus]
        probability, self.class_probability = self.read_probabilities(columns), self.read_class_probabilities()
        self.probability = None if probability is None else probability[:, 0]
        self.has_class = column is not None or bool(request.file_class) or self.class_probability is not None
        if column is None and not request.file_class and self.class_probability is not None:
            self.class_id = np.asarray(self.class_probability.argmax(axis=1) + 1, np.int16)  # of equal ones the earlier

    def read_class_probabilities(self) -> Float64 | None:
        """Read the probabilities in the columns "probability_<class>", float64 (R, C) in the order of the classes.

        None if there are no such columns, or no row has anything in them. Raises InputFault ("too-large").
        """
        columns, faults = _class_columns(self.table, self.request, headers.COLUMN_PREFIX)
        self.faults.others += faults
        if faults or not columns:
            return None
        check_size(len(self.table), len(columns), self.request.where)
        return self.read_probabilities(columns, of_classes=True) if len(self.table) else np.empty((0, len(columns)))

    def read_probabilities(self, columns: Sequence[int], *, of_classes: bool = False) -> Float64 | None:
        """Read columns of probabilities, float64 (R, K); None if no row has anything in them."""
        numbers = np.empty((len(self.table), len(columns)), np.float64)
        is_missing = np.zeros(numbers.shape, np.bool_)
        for k, column in enumerate(columns):
            cells = self.table.cells(column)
            numbers[:, k] = numbers_of(cells)
            for row in np.flatnonzero(np.isnan(numbers[:, k])):
                is_missing[row, k] = not cells[row].strip()
        if is_missing.all():
            return None
        names = [self.table.names[column] for column in columns]

        def value(row: int, k: int) -> str:
            return self.table.text(row, columns[k])

        self.check_probabilities(numbers, is_missing, self.table.line, names, value, of_classes=of_classes)
        return numbers

    def read_coordinates(
        self, rows: Bool | slice, columns: Sequence[int], spacing_um: Float64 | None = None
    ) -> Float64:
        """Read columns of coordinates in px, float64 (R, K), of some rows; the fault is recorded.

        rows        bool, of the whole table, or a slice
        spacing_um  float64 (R, 1)
        """
        table = self.table.take(rows)
        numbers = np.stack([numbers_of(table.cells(column)) for column in columns], axis=1)
        numbers = to_px(numbers, self.request.rules.value("units"), spacing_um)

        def at(row: int, k: int) -> tuple[str, str, str]:
            return self.place(table.line[row]), table.names[columns[k]], table.text(row, columns[k])

        self.check_coordinates(~are_coordinates(numbers), at)
        return numbers

    def columns(self) -> dict[str, Any]:
        """Create the columns of all nuclei, as in ``Points``. Raises InputFault with all faults of the
        file."""
        lines = self.table.line.astype(object)
        return self.checked_columns(self.class_id, lines, self.probability, self.class_probability)


def _check_case(table: Table, column: int, request: Request, case: Case) -> None:
    """Refuse rows of other cases in a file that contains one. Raises InputFault ("other-case").

    A row may have the name of the case or, as in shared files, ``case_key``, with folders before it or without.
    """
    key = request.rules.key_of(case)
    texts, text_of_row = table.categories(column)
    wrong = [index for index, text in enumerate(texts) if _find_case({case.name: case, key: case}, text) is None]

    def fault_at(row: int) -> Finding:
        return fault("other-case", table.place(row), wording="row", name=texts[text_of_row[row]], case=key)

    if wrong:
        raise InputFault(*for_each(np.flatnonzero(np.isin(text_of_row, wrong)).tolist(), fault_at))


def load_table(stream: BinaryIO, request: Request, cases: int) -> Table:
    """Read the table of a file with this number of cases. Raises InputFault: too-large, invalid-csv."""
    return read_table(
        stream,
        where=request.where,
        bytes_limit=request.limits.bytes_per_file,
        rows_limit=rows_limit(request, cases),
        names=request.rules.value("columns"),
    )


def rows_limit(request: Request, cases: int) -> int:
    """Return the maximum number of rows of a file with this number of cases."""
    return request.limits.instances_per_case * max(cases, 1)


# --- A point in each row ----------------------------------------------------------------------------------------------


def read_points_csv(stream: BinaryIO, request: Request[PointsCsvRules], case: Case) -> Annotations:
    """Read the points of one case. If there is a column for the case (``NAMED_CASE_COLUMNS``), all rows must name this
    one.

    x, y         px, um or mm, according to the rules, in the columns of ``POINT_COLUMNS``; um and mm become px by the
                 spacing of the case. A row without both is not a nucleus, but mentions its case
    class        in the first of the columns class, cell_type, label and type, or of the tool, by name or number
    probability  in the first of the columns probability, score and confidence
    probability_<class>  the probability of each class, one column for every class or no column. Without a column for
                 the class a point has the most probable class, in a tie the first in the challenge

    ``source_id`` is the line of a point, from 1. Raises InputFault: too-large, invalid-csv, missing-column, other-case,
    unknown-class, invalid-coordinate, invalid-probability, missing-probability.
    """
    table = load_table(stream, request, 1)
    if (column := table.find(headers.NAMED_CASE_COLUMNS)) is not None:
        _check_case(table, column, request, case)
    _check_one_image(table, request)
    columns, _ = _points_in_rows(table, request, np.repeat(np.array([case.spacing_um], np.float64), len(table)))
    return Annotations((Points(**columns),))


def _read_points_csv_collection(
    stream: BinaryIO, request: Request[PointsCsvRules], cases: Mapping[str, Case]
) -> Collection:
    """Read the points of all cases, from a file with a column for the case; otherwise as ``read_points_csv``."""
    table = load_table(stream, request, len(cases))
    rows = rows_of_cases(table, table.need(*headers.CASE_COLUMNS, of_points=True), cases)
    check_rows_per_case(rows, request)
    spacing_um = np.array([case.spacing_um for case in rows.cases], np.float64)
    columns, is_nucleus = _points_in_rows(rows.table, request, spacing_um[rows.case_of_row])
    by_case = {
        case.name: Annotations((Points(**part_of(columns, part)),))
        for case, part in zip(rows.cases, rows.take(is_nucleus).slices(), strict=True)
    }
    return Collection(by_case, rows.unknown)


def _points_in_rows(table: Table, request: Request[PointsCsvRules], spacing_um: Float64) -> tuple[dict[str, Any], Bool]:
    """Read the columns of ``Points`` for all rows that are nuclei, and which rows these are, bool (R,).

    spacing_um  float64 (R,), um for a px at each row
    """
    names = {name.casefold() for name in table.names}
    x_name, y_name, classes = headers.point_columns(names) or headers.POINT_COLUMNS[0]
    fix = f"The file is {what}." if (what := headers.other_table(names)) else ""
    x, y = (table.need(name, fix=fix, of_points=True) for name in (x_name, y_name))
    is_nucleus: Bool = (table.stop[:, x] > table.start[:, x]) | (table.stop[:, y] > table.start[:, y])
    rows = NucleusRows(table.take(is_nucleus), request, classes)
    if not (len(rows.table) or rows.has_class or request.classes.of_nameless):
        table.need(*classes, of_points=True)  # a row without a class is told when its nuclei are checked
    is_nucleus[is_nucleus] = rows.is_nucleus
    points_xy = rows.read_coordinates(slice(None), (x, y), spacing_um[is_nucleus, np.newaxis])
    return {"points_xy": points_xy, **rows.columns()}, is_nucleus


def _example_of_points_csv(made: Example[PointsCsvRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    columns = list(made.rules.columns or ["case", "x", "y", "class"])
    rows = []
    for case in cases:
        for name, x, y in made.marks(case, class_name):
            of_class = made.values[name] if made.rules.class_values else name
            known = {"case": made.rules.key_of(case), "x": f"{x:g}", "y": f"{y:g}", "class": of_class, "probability": 1}
            rows.append([known.get(column, "") for column in columns])
    return csv_bytes(None if made.rules.columns else columns, rows)


def _explain_points_csv(rules: PointsCsvRules) -> list[str]:
    return [f"The columns are {', '.join(rules.columns)}; there is no header."] if rules.columns else []


# --- NuCLS: an outline or a box in each row ---------------------------------------------------------------------------


BOX_COLUMNS = ("xmin", "ymin", "xmax", "ymax")
CORNERS_OF_BOX = [0, 1, 2, 1, 2, 3, 0, 3]  # of a box, as x and y in turn


def _read_nucls_csv(stream: BinaryIO, request: Request[NuclsCsvRules], case: Case) -> Annotations:
    """Read the outlines of a NuCLS file, one for each row; the class is in the column ``class_column`` of the rules.

    A rectangle without vertices has the corners of xmin, ymin, xmax, ymax. ``source_id`` is the line of a row, from 1.
    Predictions may have a column probability, score or confidence, and columns probability_<class>; with these they
    need no class, and have the most probable class (in a tie the first).

    Raises InputFault: too-large, invalid-csv, missing-column, unknown-class, unsupported-shape, invalid-coordinate,
    invalid-probability, missing-probability.
    """
    rows = NucleusRows(load_table(stream, request, 1), request, [request.rules.class_column])
    table = rows.table
    if not rows.has_class and not rows.faults.findings():
        table.need(request.rules.class_column)
    types, type_of_row = table.categories(table.need("type"))
    is_rectangle = np.array([name.casefold() == "rectangle" for name in types], np.bool_)[type_of_row]
    is_polyline = np.array([name.casefold() == "polyline" for name in types], np.bool_)[type_of_row]
    x, y = (_read_lists(rows, name) for name in ("coords_x", "coords_y"))
    is_box = is_rectangle & (x.count == 0) & (y.count == 0)
    for row in rows.rows_with("unsupported-shape", ~(is_rectangle | is_polyline)):
        rows.fault("unsupported-shape", table.line[row], wording="other-nucls-type", type=types[type_of_row[row]])
    for row in rows.rows_with("invalid-coordinate", (x.count != y.count) | (is_polyline & (x.count == 0))):
        rows.fault("invalid-coordinate", table.line[row], wording="more-x-than-y", x=x.count[row], y=y.count[row])
    columns_of_box = [table.need(name) for name in BOX_COLUMNS] if is_box.any() else []
    corners = rows.read_coordinates(is_box, columns_of_box) if columns_of_box else np.empty((0, 4))
    count, columns = np.where(is_box, 4, x.count), rows.columns()
    points_xy = np.empty((int(count.sum()), 2))
    of_box = np.repeat(is_box, count)
    points_xy[of_box] = corners[:, CORNERS_OF_BOX].reshape(-1, 2)
    points_xy[~of_box] = np.stack([x.numbers, y.numbers], axis=1)
    return Annotations((outlines_of_rings(points_xy, count, **columns),))


@dataclass(frozen=True, slots=True, eq=False)
class _Lists:
    """The numbers of a column of lists, float64 (V,), and how many each row has, int64 (R,)."""

    numbers: Float64
    count: Int64


def _read_lists(rows: NucleusRows, column: str) -> _Lists:
    """Read a column of lists such as "1,2.5,3"; invalid coordinates are recorded. Raises InputFault ("too-large")."""
    table, request = rows.table, rows.request
    cells = table.cells(table.need(column))
    lists = [cell for cell in cells if cell.strip()]
    count = np.array([cell.count(b",") + 1 if cell.strip() else 0 for cell in cells], np.int64)
    check_number(int(count.sum()), "vertices", "vertices_per_file", request.where, request.limits)
    texts = b",".join(lists).split(b",") if lists else []
    numbers, stop = numbers_of(texts), np.cumsum(count)

    def at(index: int) -> tuple[str, str, str]:
        row = int(np.searchsorted(stop, index, "right"))
        place = f"{rows.place(table.line[row])}, vertex {index - stop[row] + count[row] + 1:,}"
        return place, column, texts[index].decode().strip()

    rows.check_coordinates(~are_coordinates(numbers), at)
    return _Lists(numbers, count)


def _example_of_nucls_csv(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    columns = ["raw_classification", "main_classification", "super_classification", "type"]
    rows = []
    for name, ring in made.rings(cases[0], class_name):
        coordinates = [",".join(f"{value:g}" for value in ring[:, axis]) for axis in (0, 1)]
        box = [f"{value:g}" for value in (*ring.min(axis=0), *ring.max(axis=0))]
        rows.append([*[name] * 3, "polyline", *box, *coordinates])
    return csv_bytes([*columns, "xmin", "ymin", "xmax", "ymax", "coords_x", "coords_y"], rows)


def _explain_nucls_csv(rules: NuclsCsvRules) -> list[str]:
    return [f"The class is in the column `{rules.class_column}`."]


# --- Counts: an image in each row -------------------------------------------------------------------------------------


LARGEST_COUNT = 10**9
IMAGES_LIMIT = 1_000_000


def _read_counts_csv_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """Return the number of nuclei per class and case, as a part ``Counts`` per case.

    A column is a class if its name is a class or an alias; every class needs a column, and other columns are ignored.
    Without a column for the case (case, image_id, ImageId, image, id) the rows are the cases in the order of their
    ``index``, and all must have one. With it, a case may lack a row; then it is not in the result.

    Raises InputFault: too-large, invalid-csv, missing-column, row-count, duplicate-row, invalid-count.
    """
    rows_limit, bytes_limit = max(IMAGES_LIMIT, len(cases)), request.limits.bytes_per_file
    table = read_table(stream, where=request.where, bytes_limit=bytes_limit, rows_limit=rows_limit)
    columns, faults = _class_columns(table, request)
    if faults:
        raise InputFault(*faults)
    rows = _case_rows(table, request, cases)
    counts = _read_counts(rows.table, columns)
    by_case = {case.name: Annotations((Counts(row),)) for case, row in zip(rows.cases, counts, strict=True)}
    return Collection(by_case, rows.unknown)


def write_counts_csv(counts: Mapping[str, Sequence[int]], class_names: Sequence[str]) -> bytes:
    """Create a CSV file with the column "case" and a column per class, with a row per case, in the order of ``counts``.

    >>> write_counts_csv({"a": (3, 0)}, ["tumour", "other"])
    b'case,tumour,other\\na,3,0\\n'
    """
    return csv_bytes(["case", *class_names], [[name, *row] for name, row in counts.items()])


def _read_counts(table: Table, columns: Sequence[int]) -> Int64:
    """Read the numbers in the columns, int64 (R, C). Raises InputFault ("invalid-count")."""
    numbers = np.stack([numbers_of(table.cells(column)) for column in columns], axis=1)
    is_count = (numbers >= 0) & (numbers <= LARGEST_COUNT) & (np.floor(numbers) == numbers)

    def count_fault(cell: list[int]) -> Finding:
        row, column = cell[0], columns[cell[1]]
        place, name, text = table.place(row), table.names[column], table.text(row, column)
        return fault("invalid-count", place, column=name, text=text)

    if not is_count.all():
        raise InputFault(*for_each(np.argwhere(~is_count).tolist(), count_fault))
    return numbers.astype(np.int64)


def _case_rows(table: Table, request: Request, cases: Mapping[str, Case]) -> CaseRows:
    """Find the row of each case. Raises InputFault: row-count, duplicate-row."""
    column = table.find(headers.CASE_COLUMNS)
    if column is None:
        if len(table) != len(cases):
            raise refused("row-count", request.where, rows=len(table), cases=len(cases))
        if any(case.index is None for case in cases.values()):
            raise refused("missing-column", request.where, wording="no-case")
        ordered = sorted(cases.values(), key=lambda case: case.index or 0)
        return CaseRows(table, tuple(ordered), np.arange(len(table)), {})
    rows = rows_of_cases(table, column, cases)
    again = np.flatnonzero(np.diff(rows.case_of_row, prepend=-1) == 0).tolist()
    found = rows.table

    def fault_at(row: int) -> Finding:
        case, line = found.text(row, column), found.line[row - 1]
        return fault("duplicate-row", found.place(row), wording="case-twice", case=case, line=line)

    if again:
        raise InputFault(*for_each(again, fault_at))
    return rows


def _example_of_counts_csv(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    counts = {}
    for case in cases:
        names = [name for _, name in made.classes_of(case)]
        counts[made.rules.key_of(case)] = [names.count(name) for name in made.names]
    return write_counts_csv(counts, made.names)


# --- the images of a file ---------------------------------------------------------------------------------------------


def list_images(stream: BinaryIO, request: Request) -> list[ListedImage]:
    """List the images that a column of a CSV file names, with their sizes if there are columns for height and width."""
    table = load_table(stream, request, IMAGES_AT_MOST)
    column = table.find(headers.NAMED_CASE_COLUMNS if request.rules.are_points else headers.CASE_COLUMNS)
    if column is None:
        return [ListedImage((), index) for index in range(len(table) if request.rules.are_counts else 0)]
    names, name_of_row = table.categories(column)
    _, first = np.unique(name_of_row, return_index=True)
    return [ListedImage((name,), None, _size_in_row(table, row)) for name, row in zip(names, first, strict=True)]


def _size_in_row(table: Table, row: int) -> SizeYx | None:
    columns = [table.find([side]) for side in ("height", "width")]
    sides = [float(numbers_of(table.cells(column)[row : row + 1])[0]) for column in columns if column is not None]
    return plain_size([int(side) if side.is_integer() else side for side in sides])


FORMATS = {
    "nucls_csv": Format(
        "NuCLS CSV",
        _example_of_nucls_csv,
        read=_read_nucls_csv,
        explain=_explain_nucls_csv,
        detect=lambda file: headers.columns_among(file, {"coords_x", "coords_y"}, 2),
    ),
    "points_csv": Format(
        "CSV with a row for each nucleus",
        _example_of_points_csv,
        read=read_points_csv,
        read_all=_read_points_csv_collection,
        explain=_explain_points_csv,
        detect=headers.columns_of_points,
        list_images=list_images,
    ),
    "counts_csv": Format(
        "CSV with a row for each image and a column for each class: how many nuclei there are",
        _example_of_counts_csv,
        read_all=_read_counts_csv_collection,
        detect=headers.columns_of_counts,
        list_images=list_images,
    ),
}
