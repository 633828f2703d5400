"""Detection of files from beginnings, headers, tables and lists: format, images and their sizes.

The name of a file matters only to state the faults of a ``.mat`` file. ``init`` makes cases.csv of the images;
``convert`` needs the only image of a file without a challenge.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from evaluation.challenge import LimitRules
from evaluation.files.decoding.csv import Table, numbers_of
from evaluation.files.decoding.guard import reader_faults_told
from evaluation.files.decoding.label_array import check_dtype
from evaluation.files.decoding.mat_file import MatFile, choose_variable
from evaluation.files.decoding.pixels import (
    CONTAINERS,
    TISSUE_SUFFIXES,
    peek,
    read_image_size,
    read_npy_header,
    suffix_of,
)
from evaluation.files.decoding.streams import (
    EMPTY_ZIP_MAGIC,
    MHA_MAGICS,
    NPY_MAGIC,
    PNG_MAGIC,
    TIFF_MAGICS,
    ZIP_MAGIC,
    Plain,
    damage_told,
    plain_chunks,
)
from evaluation.files.formats.arrays import IDS, CaseArray, variable_of
from evaluation.files.formats.coco import CocoDocument, id_of, read_coco
from evaluation.files.formats.format import Request
from evaluation.files.formats.listed_nuclei import size_in_labelme
from evaluation.files.formats.run_lengths import CODE_COLUMNS
from evaluation.files.formats.tables import (
    CASE_COLUMNS,
    NAMED_CASE_COLUMNS,
    OBJECT_COLUMNS,
    POINT_COLUMNS,
    load_table,
    other_table,
    point_columns,
)
from evaluation.findings import listed, quote
from evaluation.findings.errors import refused
from nuclei_metrics.model import Case

IMAGE_MAGICS = (PNG_MAGIC, *TIFF_MAGICS, *MHA_MAGICS, ZIP_MAGIC, EMPTY_ZIP_MAGIC)
MATLAB_MAGIC = b"MATLAB"
MOST_CHANNELS = 16
YOLO_LINE = re.compile(rb"[0-9]{1,5}(?: +[0-9.eE+-]+){6,}\s*?(?:\n|$)", re.ASCII)
EMPTY_LIST = "an empty list: no nucleus"
FIRST_LINE_BYTES = 1 << 16
CUT = 64  # bytes of a chunk that are looked at again with the next one, for words that are cut
Words = Sequence[tuple[str, str, Mapping[str, str]]]
# What decides, in this order: a word of the file, the format that has it, and the keys of its rules that it tells.
OUTLINE, POINT = {"shape": "outline"}, {"shape": "point"}
JSON_WORDS: Words = (
    ("Multiple polygons", "polygons_json", {}),
    ("Multiple points", "points_json", {}),
    ("Polygon", "geojson", OUTLINE),
    ("MultiPolygon", "geojson", OUTLINE),
    ("Point", "geojson", POINT),
    ("MultiPoint", "geojson", POINT),
    ("segmentation", "coco_json", {}),
    ("masks", "coco_json", {}),
    ("FeatureCollection", "geojson", {}),
    ("bbox", "midog_json", {}),
)
JSON_KEYS: Words = (  # words that decide before a colon only
    ("nuc", "contours_json", {"tool": "hovernet", **OUTLINE}),
    ("contour", "contours_json", {"tool": "cellvit", **OUTLINE}),
    ("cells", "contours_json", {"tool": "cellvit", **POINT}),
    ("shapes", "contours_json", {"tool": "labelme", **OUTLINE}),
)
LATE_WORDS = ("FeatureCollection", "cells", "bbox")  # they decide if no other word does
XML_WORDS: Words = (
    ("Dot", "asap_xml", POINT),
    ("PointSet", "asap_xml", POINT),
    ("Polygon", "asap_xml", OUTLINE),
    ("Rectangle", "asap_xml", OUTLINE),
    ("Spline", "asap_xml", OUTLINE),
)


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
WHOLE = re.compile(r"\s*[0-9]+(?:\.0*)?\s*", re.ASCII)
TABLE_SIGNS = (  # a format, columns that tell it, how many of them have to be there, and how many columns in all
    ("nucls_csv", {"coords_x", "coords_y"}, 2, 2),
    ("rle_csv", {name.casefold() for name in CODE_COLUMNS}, 1, 1),
    *(("points_csv", {*of_tool[:2]}, 2, 2) for of_tool in POINT_COLUMNS),
    ("counts_csv", {*IMAGE_COLUMNS}, 1, 2),
)


@dataclass(frozen=True, slots=True)
class Detected:
    """A format, keys of its rules from the file, such as ``shape``, and the sign of detection."""

    format: str
    keys: Mapping[str, str] = field(default_factory=dict)
    sign: str = field(default="", compare=False)


def detect_format(path: Path) -> Detected | None:
    """Detect the format of a file; None if unknown. Text may be compressed with gzip.

    Label images and class maps look the same, as do maps of colours: all are label images here.
    Raises InputFault for damaged files, OSError for unreadable files.
    """
    where, limit = quote(path.name, 120), LimitRules().bytes_per_file
    with path.open("rb") as stream:
        head = stream.read(16)
        stream.seek(0)
        if head.startswith(IMAGE_MAGICS):
            return Detected("label_image", sign="it begins like an image")
        if head.startswith(NPY_MAGIC):
            return _detect_array(stream, where)
        if head.startswith(MATLAB_MAGIC) or path.suffix.lower() == ".mat":
            names = {variable.name for variable in MatFile(stream, where=where, bytes_limit=limit).variables}
            format = "hovernet_mat" if IDS in names else "nary_mat"
            return Detected(format, sign=f"a MATLAB file with {listed(sorted(names), 3, last='and')}")
        return _detect_text(plain_chunks(stream, where, limit))


def _detect_array(stream: BinaryIO, where: str) -> Detected:
    """Arrays of all images have four axes; masks of one image have three, the last of a few channels."""
    with damage_told(where, "a NumPy file"):
        shape = read_npy_header(Plain(stream)).shape
    is_masks = len(shape) in (3, 4) and 2 < shape[-1] <= MOST_CHANNELS and (len(shape) == 4 or shape[0] > 2)
    format = "conic_array" if len(shape) == 4 and shape[3] == 2 else "pannuke_masks" if is_masks else "label_image"
    return Detected(format, sign=f"an array of {' x '.join(map(str, shape))}")


def _detect_text(chunks: Iterator[bytes]) -> Detected | None:
    head = next(chunks, b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith((b"{", b"[")):
        if head.split() in ([b"[]"], [b"[", b"]"]):
            return Detected("coco_json", sign=EMPTY_LIST)  # of Segment Anything, or results of COCO
        return _first_word(head, chunks, JSON_WORDS, JSON_KEYS)
    if not head.startswith(b"<"):
        return _detect_table(head)
    if b"<ASAP_Annotations" in head:
        return _first_word(head, chunks, XML_WORDS) or Detected("asap_xml", sign="<ASAP_Annotations>")
    return Detected("aperio_xml", sign="<Annotations>") if b"<Annotations" in head else None


def _first_word(head: bytes, chunks: Iterator[bytes], words: Words, keys: Words = ()) -> Detected | None:
    """Find the first decisive word in quotes, and its meaning; ``keys`` decide only before a colon."""
    known = {word: Detected(format, details, f"the word '{word}'") for word, format, details in words}
    known |= {key: Detected(format, details, f"the key '{key}'") for key, format, details in keys}
    of_words, of_keys = ("|".join(word for word, _, _ in each) for each in (words, keys))
    pattern = re.compile(f'"(?:({of_words})"|({of_keys or "(?!)"})"\\s*:)'.encode())
    late: set[str] = set()
    text = head
    while text:
        for of_word, of_key in pattern.findall(text):
            if (word := (of_word or of_key).decode()) not in LATE_WORDS:
                return known[word]
            late.add(word)
        chunk = next(chunks, b"")
        text = chunk and text[-CUT:] + chunk
    return next((known[word] for word in LATE_WORDS if word in late), None)


def header_names(head: bytes) -> set[str]:
    """Return the names in the first line of a CSV file, in lower case."""
    line = re.split(rb"[\r\n]", head.lstrip(), maxsplit=1)[0].decode("utf-8", "replace")
    return {name.strip().strip('"').casefold() for name in re.split("[,;\t]", line)}


def foreign_table(path: Path) -> str:
    """Describe an unsupported table and how to export it; "" if the tool is unknown."""
    with path.open("rb") as stream:
        head = stream.read(FIRST_LINE_BYTES).removeprefix(b"\xef\xbb\xbf")
    known = next((words for line, words in LINES if line.match(head)), "") or other_table(header_names(head))
    return known or _rows_of_vertices(head)


def _detect_table(head: bytes) -> Detected | None:
    """Detect the format of a CSV file by the names of its columns; lines of numbers with blanks between them are
    YOLO's.
    """
    if YOLO_LINE.match(head):
        return Detected("yolo_txt", sign="lines of a class and pairs of numbers")
    columns = header_names(head)
    for format, needed, least, in_all in TABLE_SIGNS:
        if len(here := columns & needed) < least or len(columns) < in_all:
            continue
        if format == "points_csv" and (not point_columns(columns) or _rows_of_vertices(head)):
            continue
        if format == "counts_csv" and (other_table(columns) or not _are_counts(head)):
            continue
        return Detected(format, sign=f"the columns {listed(sorted(here), last='and')}")
    return None


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


def _touch(rows: Sequence[Sequence[str]], same: Sequence[bool], columns: tuple[int, int]) -> bool:
    """Return whether most neighbouring rows of the same nucleus have touching coordinates."""
    steps = []
    for is_same, (one, other) in zip(same, pairwise(rows), strict=True):
        with suppress(ValueError):
            steps += [max(abs(float(one[at]) - float(other[at])) for at in columns)] if is_same else []
    return bool(steps) and 2 * sum(step <= 1.5 for step in steps) > len(steps)


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


# --- The images of a file. --------------------------------------------------------------------------------------------


SizeYx = tuple[int, int]

LARGEST_SIDE = 1 << 24
COLOUR_CHANNELS = (3, 4)
IMAGES_AT_MOST = 1000  # of a table, for its limit of rows
COCO_FORMATS = ("coco_json", "midog_json")
WORDS_OF_FILE = "a file that can be read"
CASE_COLUMNS_OF = {"points_csv": NAMED_CASE_COLUMNS, "rle_csv": CASE_COLUMNS, "counts_csv": CASE_COLUMNS}


@dataclass(frozen=True, slots=True)
class _ListedImage:
    """An image of a file of all cases.

    names    its possible names, the likeliest first; empty if the file only numbers images
    index    its index from 0, if the file contains nothing else about it
    size_yx  height and width, px; None if unknown
    id       its number in a COCO file, as used in results
    """

    names: tuple[str, ...]
    index: int | None = None
    size_yx: SizeYx | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class FoundImage:
    """The only image of a file.

    name           its name in the file, otherwise the name of the file
    size_yx        height and width, px; None if unknown
    in_collection  the file has the form for several images, but contains one image
    """

    name: str
    size_yx: SizeYx | None = None
    in_collection: bool = False


def list_images(stream: BinaryIO, request: Request) -> list[_ListedImage]:
    """List the images of a file of all cases, in its order; empty for other formats.

    Raises InputFault as the readers do.
    """
    with reader_faults_told(request.where), damage_told(request.where, WORDS_OF_FILE):
        if request.rules.needs_index:
            return _images_of_array(stream, request)
        if request.rules.format in CASE_COLUMNS_OF:
            return [image for image in _images_of_table(stream, request) if image.names != ("",)]
        if request.rules.format not in COCO_FORMATS:
            return []
        document = read_coco(stream, request)
        sizes = {image: _plain_size([entry.height, entry.width]) for image, entry in document.images.items()}
        if not sizes or None in sizes.values():
            only = set(sizes)
            for image, size in _sizes_of_codes(document):
                if image is not None and (not only or image in only):
                    sizes[image] = sizes.get(image) or size
        return [
            _ListedImage(tuple(reversed(document.names(image)[:4])), None, size, image) for image, size in sizes.items()
        ]


def find_image(source: Path, stream: BinaryIO, request: Request, name: str) -> FoundImage:
    """Find the only image of a file; the stream is left anywhere.

    name   the name of the image if the file has no name

    Raises InputFault: "other-case" for several images in a table or an array, and as the readers do.
    """
    with reader_faults_told(request.where), damage_told(request.where, WORDS_OF_FILE):
        match request.rules.format:
            case "rle_csv" | "points_csv":
                return _only_image(_images_of_table(stream, request), request, name)
            case "conic_array":
                return _only_image(_images_of_array(stream, request), request, name)
            case "pannuke_masks":
                shape = CaseArray(stream, request).shape
                if len(shape) == 4:
                    return _only_image(_images_of_array(stream, request), request, name)
                return FoundImage(name, _plain_size([*shape[:2]]))
            case "coco_json" | "midog_json":
                return FoundImage(name, _size_in_document(stream, request, name))
            case "nary_mat" | "hovernet_mat":
                return FoundImage(name, _size_in_mat(stream, request))
            case "label_image" | "colour_map":
                return FoundImage(name, _size_of_image(source, stream, request))
            case "contours_json":
                return FoundImage(name, _plain_size(size_in_labelme(stream, request)))
    return FoundImage(name)


def _only_image(images: list[_ListedImage], request: Request, name: str) -> FoundImage:
    """Take the image of a list of one. Raises InputFault ("other-case") if there are several."""
    if len(images) > 1:
        names = [image.names[0] for image in images if image.names]
        raise refused("other-case", request.where, wording="several-images-in-file", count=len(images), names=names)
    if not images:
        return FoundImage(name, in_collection=request.rules.file_holds == "all cases")
    return FoundImage([*images[0].names, name][0], images[0].size_yx, in_collection=True)


# --- tables, lists and arrays of images -------------------------------------------------------------------------------


def _sizes_of_codes(document: CocoDocument) -> Iterator[tuple[str | None, SizeYx | None]]:
    """Yield, for each annotation, the image that it names, if it does, and the size in its code, if it has one."""
    for entry in (entry for piece in document.pieces for entry in piece if type(entry) is dict):
        code = entry.get("segmentation")
        yield id_of(entry, "image_id"), _plain_size(code.get("size")) if type(code) is dict else None


def _images_of_table(stream: BinaryIO, request: Request) -> list[_ListedImage]:
    """List the images that a column of a CSV file names, with their sizes if there are columns for height and width."""
    table = load_table(stream, request, IMAGES_AT_MOST)
    column = table.find(CASE_COLUMNS_OF[request.rules.format])
    if column is None:
        return [_ListedImage((), index) for index in range(len(table) if request.rules.are_counts else 0)]
    names, name_of_row = table.categories(column)
    _, first = np.unique(name_of_row, return_index=True)
    return [_ListedImage((name,), None, _size_in_row(table, row)) for name, row in zip(names, first, strict=True)]


def _size_in_row(table: Table, row: int) -> SizeYx | None:
    columns = [table.find([side]) for side in ("height", "width")]
    sides = [float(numbers_of(table.cells(column)[row : row + 1])[0]) for column in columns if column is not None]
    return _plain_size([int(side) if side.is_integer() else side for side in sides])


def _images_of_array(stream: BinaryIO, request: Request) -> list[_ListedImage]:
    """List the images of an array N x H x W (x C), which has numbers for them."""
    shape = CaseArray(stream, request).shape
    size_yx = _plain_size(list(shape[1:3]))
    return [_ListedImage((), index, size_yx) for index in range(shape[0] if len(shape) > 2 else 0)]


def _size_in_document(stream: BinaryIO, request: Request, name: str) -> SizeYx | None:
    """Find the size of the image named like the file, or of the only image, from the list of images or a code."""
    document, images = read_coco(stream, request), {name: Case(name, name, 1, 1)}
    fitting = [image for image in document.images if document.find_case(image, images)] or list(document.images)
    if len(fitting) == 1:
        entry = document.images[fitting[0]]
        if size_yx := _plain_size([entry.height, entry.width]):
            return size_yx
    sizes = (size for image, size in _sizes_of_codes(document) if not fitting or image in (None, *fitting))
    return next(filter(None, sizes), None)


def _plain_size(size: object) -> SizeYx | None:
    """Return height and width, if they are two whole numbers above 0."""
    if type(size) is list and len(size) == 2 and all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in size):
        return size[0], size[1]
    return None


# --- images -----------------------------------------------------------------------------------------------------------


def _size_in_mat(stream: BinaryIO, request: Request) -> SizeYx | None:
    mat = MatFile(stream, where=request.where, bytes_limit=request.limits.bytes_per_file)
    is_nary = request.rules.format == "nary_mat"
    variable = choose_variable(mat.variables, request.where) if is_nary else variable_of(mat, IDS)
    return None if variable is None else _plane_of(variable.shape, ())


def _size_of_image(source: Path, stream: BinaryIO, request: Request) -> SizeYx | None:
    """Find the size in the header of an image file; None for suffixes that label images do not have."""
    if source.suffix in TISSUE_SUFFIXES:
        return read_image_size(source)
    if (suffix := suffix_of(request.name)) not in CONTAINERS:
        return None
    pixels = peek(stream, suffix, request.where, request.limits.bytes_per_file)
    if pixels.dtype is not None:
        check_dtype(pixels.dtype, where=request.where)
    has_classes = request.rules.value("class_channel") is not None
    return _plane_of(pixels.shape, COLOUR_CHANNELS if request.rules.format == "colour_map" else (2,) * has_classes)


def _plane_of(shape: tuple[int, ...], channels: tuple[int, ...]) -> SizeYx | None:
    """Return the plane size of an array of this shape; ``channels``: allowed numbers per image.

    The first two axes if it is not clear, so that the reader can state the fault.

    >>> _plane_of((1, 20, 30), ()), _plane_of((2, 20, 30), (2,)), _plane_of((20, 30, 4), (3, 4)), _plane_of((7,), ())
    ((20, 30), (20, 30), (20, 30), None)
    """
    sizes = shape if len(shape) == 2 + bool(channels) else tuple(size for size in shape if size != 1)
    if channels and len(sizes) == 3 and sizes[2] not in channels and sizes[0] in channels:
        sizes = sizes[1:]
    return _plain_size(list((sizes if len(sizes) >= 2 else shape)[:2]))
