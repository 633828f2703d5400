"""Tables by the names of their columns: which ones readers take, and what tables of other tools are."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence, Set
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from evaluation.files.formats.format import Beginning
from evaluation.findings import listed, quote

# The headers that every CSV reader takes, the likeliest first; upper and lower case are the same.
CASE_COLUMNS = ("case", "image_id", "ImageId", "image", "id")
NAMED_CASE_COLUMNS = CASE_COLUMNS[:-1]  # where "id" may be that of a nucleus
CLASS_COLUMNS = ("class", "cell_type", "label", "type")
# The headers of x and y in px, the likeliest first, and those of the class: tables of other tools count px as we do.
POINT_COLUMNS = (
    ("x", "y", CLASS_COLUMNS),
    ("xm", "ym", CLASS_COLUMNS),  # ImageJ: centres of mass
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
OF_QUPATH = f"export GeoJSON (File > Export objects as GeoJSON), or divide by the size of a pixel: a table {WITH_XY}"
ONE_EACH = f"write a table for each image, {WITH_XY}"
BY_ROW = "name the columns y and x; if a nucleus has several rows, write label images"
# Headers that all occur in a table that is not read, what it is, and what to do. A micro sign in lower case is a mu.
OTHER_TABLES = (
    (("shape-type", "vertex-index"), "shapes of napari", "export their labels layer (.tif)"),
    (("axis-0", "axis-1", "axis-2"), "points of napari with more than two axes", ONE_EACH),
    *(((row, column), "places by row and column", BY_ROW) for row, column in (("row", "col"), ("row", "column"))),
    (("centroid-2",), "a table of scikit-image with more than two axes", ONE_EACH),
    (("position_x", "track_id"), "spots of TrackMate, in units of the image", f"write a table {WITH_XY}"),
    (("centroid x \u03bcm",), "measurements of QuPath in µm", OF_QUPATH),
    (("centroid_x_um",), "measurements of QuPath in µm", OF_QUPATH),
    (("imagenumber",), "a table of CellProfiler without coordinates", "export with MeasureObjectSizeShape"),
    (("xmin", "xmax", "ymin", "ymax"), "a table of boxes without outlines", f"write outlines, or a table {WITH_XY}"),
    (
        ("cellid", "x_local_px", "y_local_px"),
        "outlines by their vertices, as CosMx's",
        "write GeoJSON, or label images",
    ),
    (("vertex_x", "vertex_y"), "outlines by their vertices, as Xenium's in µm", "write GeoJSON in px, or label images"),
    (("geometry",), "a table of shapes (WKT)", "write GeoJSON, or GeoParquet"),
    (("labelimage_oid",), "a table of ilastik without coordinates", "export the feature 'Center of the object', too"),
    *(
        ((name,), "a table of outlines as texts", "write GeoJSON")
        for name in ("polygon", "polygons", "wkt", "geometry", "contour", "vertices", "outline")
    ),
)
ID_COLUMNS = ("id", "instance", "label")
OBJECT_COLUMNS = re.compile(
    r"(?:(?:cell|nucleus|object|instance|contour|polygon|shape|mask)[ _]?(?:id|index|number)?|id|roi)"
)
COLUMN_PREFIX = "probability_"  # of columns with the probability of a class
PROBABILITY_COLUMNS = ("probability", "score", "confidence")
LINES = (  # of texts that are not read: what their first line is, and what to do
    (
        re.compile(rb"[0-9]+(?: +[0-9.eE+-]+){4,5}\s*?(?:\n|$)"),
        "boxes of YOLO without outlines, not read; write outlines",
    ),
    (
        re.compile(rb"[0-9]+(?:,[0-9]+){5,}\s*?(?:\n|$)"),
        "outlines of cellpose as text, not read; use its _cp_masks, or its _seg.npy",
    ),
    (
        re.compile(rb"[0-9]+(?:\.[0-9]*)?(?:[,;\t][^,;\t\n]*){1,9}\n"),
        "a table without a header; add a first line such as x,y,class",
    ),
)
IMAGE_COLUMNS = ("case", "image_id", "imageid", "image")
FEWEST_VERTICES = 3  # of a nucleus
_NUMBER = re.compile(r"\s*[-+]?[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?\s*", re.ASCII | re.IGNORECASE)
WHOLE = re.compile(r"\s*[0-9]+(?:\.0*)?\s*", re.ASCII)
FIRST_LINE_BYTES = 1 << 16


def point_columns(names: Set[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Find the headers of x, y and the class in a table of points; None if x or y is missing, or there are more axes.

    names  of the columns, in lower case
    """
    if names & {*MORE_AXES} and not names >= {"x", "y"}:
        return None
    columns = next((of_tool for of_tool in POINT_COLUMNS if names >= {*of_tool[:2]}), None)
    if columns is None or not is_of_imagej(names):
        return columns
    return (*columns[:2], tuple(name for name in columns[2] if name != "label"))


def is_of_imagej(names: Set[str]) -> bool:
    """Return whether a column ``label`` comes from ImageJ's results: the name of the image, perhaps with the ROI."""
    return "label" in names and not names.isdisjoint(("area", "mean", "perim.", "intden", "%area"))


def other_table(names: Set[str]) -> str:
    """Describe a table without columns of points, with a remedy; "" if unknown.

    >>> other_table({"index", "shape-type", "vertex-index", "axis-0", "axis-1"})
    'shapes of napari, not read; export their labels layer (.tif)'
    """
    return next((f"{what}, not read; {todo}" for needed, what, todo in OTHER_TABLES if names >= {*needed}), "")


def header_names(head: bytes) -> set[str]:
    """Return the names in the first line of a CSV file, in lower case."""
    line = re.split(rb"[\r\n]", head.lstrip(), maxsplit=1)[0].decode("utf-8", "replace")
    return {name.strip().strip('"').casefold() for name in re.split("[,;\t]", line)}


def foreign_table(path: Path) -> str:
    """Describe an unsupported table and how to export it; "" if the tool is unknown."""
    with path.open("rb") as stream:
        head = stream.read(FIRST_LINE_BYTES).removeprefix(b"\xef\xbb\xbf")
    known = next((words for line, words in LINES if line.match(head)), "") or other_table(header_names(head))
    return known or _rows_of_vertices(head) or _other_columns(head)


def columns_among(file: Beginning, needed: Set[str], least: int = 1) -> str:
    """Describe the columns of a table that are among ``needed``; "" if there are fewer than ``least``."""
    here = file.names & needed if file.kind == "text" else set()
    return f"the columns {listed(sorted(here), last='and')}" if len(here) >= least else ""


def columns_of_points(file: Beginning) -> str:
    """Describe the columns of x and y in a table with a row for each nucleus; "" if it is none."""
    signs = (columns_among(file, {*of_tool[:2]}, 2) for of_tool in POINT_COLUMNS)
    sign = next(filter(None, signs), "")
    return sign if sign and point_columns(file.names) and not _rows_of_vertices(file.head) else ""


def columns_of_counts(file: Beginning) -> str:
    """Describe the column of images in a table of counts; "" if it is none."""
    is_table = len(file.names) > 1 and not other_table(file.names) and _are_counts(file.head)
    return columns_among(file, {*IMAGE_COLUMNS}) if is_table else ""


def _rows_of_vertices(head: bytes) -> str:
    """Report that a table of x and y has a row for each vertex or pixel of a nucleus, with a remedy; "" if it has not.

    The beginning of the table has three or more consecutive rows with the same id, or the same label and touching
    coordinates.

    >>> _rows_of_vertices(b"cell_id,x,y\\n" + b"1,2,3\\n1,9,3\\n1,9,8\\n" * 2)[:47]
    "a row for each vertex or pixel of a nucleus ('c"
    >>> _rows_of_vertices(b"label,x,y\\n" + b"1,2,3\\n1,9,3\\n1,9,8\\n" * 2)
    ''
    """
    columns, rows = _beginning(head)
    used = point_columns(set(columns))
    if used is None or len(rows) < FEWEST_VERTICES:
        return ""
    x, y = columns.index(used[0]), columns.index(used[1])
    for column, name in enumerate(columns):
        if not (OBJECT_COLUMNS.fullmatch(name) or name == "label") or name in used[:2]:
            continue
        same = [one[column] == other[column] for one, other in pairwise(rows)]
        ends = len(rows) - sum(same)
        if FEWEST_VERTICES * ends > len(rows) or (name == "label" and not _touch(rows, same, (x, y))):
            continue
        what = f"a row for each vertex or pixel of a nucleus ({quote(name)} repeats)"
        return f"{what}, not read; write outlines (GeoJSON), or label images"
    return ""


def _other_columns(head: bytes) -> str:
    """Describe a table whose columns belong to no format; "" if the text is no table with numbers.

    >>> _other_columns(b"name,x_px,y_px\\na,1,2\\n")
    "a table with the columns 'name', 'x_px' and 'y_px', not read; name the columns of points x and y"
    >>> _other_columns(b"Notes, of today\\nNothing, really\\n")
    ''
    """
    columns, rows = _beginning(head)
    if not any(_NUMBER.fullmatch(cell) for row in rows[:1] for cell in row):
        return ""
    return f"a table with the columns {listed(columns, 4, last='and')}, not read; name the columns of points x and y"


def _touch(rows: Sequence[Sequence[str]], same: Sequence[bool], columns: tuple[int, int]) -> bool:
    """Return whether most neighbouring rows of the same nucleus have touching coordinates."""
    steps = []
    for is_same, (one, other) in zip(same, pairwise(rows), strict=True):
        with suppress(ValueError):
            steps += [max(abs(float(one[at]) - float(other[at])) for at in columns)] if is_same else []
    return bool(steps) and 2 * sum(step <= 1.5 for step in steps) > len(steps)


@lru_cache(1)  # a table is asked several questions
def _beginning(head: bytes) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of a CSV file, in lower case, and the complete rows of its beginning."""
    lines = head[: head.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines() or [""]
    separator = next((character for character in ",;\t" if character in lines[0]), ",")
    names, *rows = csv.reader(lines, delimiter=separator)
    return [name.strip().casefold() for name in names], [row for row in rows if len(row) == len(names)]


def _are_counts(head: bytes) -> bool:
    """Return whether a table has a row for each image, with integers besides its name, judging by its beginning."""
    columns, filled = _beginning(head)
    image = next((column for column, name in enumerate(columns) if name in IMAGE_COLUMNS), None)
    if image is None:
        return False
    numbers = (cell for row in filled for column, cell in enumerate(row) if column != image)
    return bool(filled) and len({row[image] for row in filled}) == len(filled) and all(map(WHOLE.fullmatch, numbers))
