"""Which format a file has, by what is in it; its name matters only to say what is wrong with a ``.mat`` file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from evaluation.challenge import LimitRules
from evaluation.decoding.content import EMPTY_ZIP_MAGIC, MHA_MAGICS, NPY_MAGIC, PNG_MAGIC, TIFF_MAGICS, ZIP_MAGIC
from evaluation.decoding.mat_file import MatFile
from evaluation.decoding.pixels import read_npy_header
from evaluation.decoding.streams import Plain, damage_told, plain_chunks
from evaluation.findings import listed, quote
from evaluation.formats import arrays, run_lengths
from evaluation.formats.tables import POINT_COLUMNS, other_table, point_columns

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
)
IMAGE_COLUMNS = ("case", "image_id", "imageid", "image")
WHOLE = re.compile(r"\s*[0-9]+(?:\.0*)?\s*", re.ASCII)
TABLE_SIGNS = (  # a format, columns that tell it, how many of them have to be there, and how many columns in all
    ("nucls_csv", {"coords_x", "coords_y"}, 2, 2),
    ("rle_csv", {name.casefold() for name in run_lengths.CODE_COLUMNS}, 1, 1),
    *(("points_csv", {*of_tool[:2]}, 2, 2) for of_tool in POINT_COLUMNS),
    ("counts_csv", {*IMAGE_COLUMNS}, 1, 2),
)


@dataclass(frozen=True, slots=True)
class Detected:
    """A format, the keys of its rules that the file tells, such as ``shape``, and the sign by which it is known."""

    format: str
    keys: Mapping[str, str] = field(default_factory=dict)
    sign: str = field(default="", compare=False)


def detect_format(path: Path) -> Detected | None:
    """The format of a file, None if it is of no known one. Text may be compressed with gzip.

    Label images and class maps look the same, as do maps of colours: all are label images here.
    Raises InputFault for damaged files, OSError for those that cannot be read.
    """
    where, limit = quote(path.name, 120), LimitRules().bytes_per_file
    with path.open("rb") as stream:
        head = stream.read(16)
        stream.seek(0)
        if head.startswith(IMAGE_MAGICS):
            return Detected("label_image", sign="its first bytes are those of an image")
        if head.startswith(NPY_MAGIC):
            return detect_array(stream, where)
        if head.startswith(MATLAB_MAGIC) or path.suffix.lower() == ".mat":
            names = {variable.name for variable in MatFile(stream, where=where, bytes_limit=limit).variables}
            format = "hovernet_mat" if arrays.IDS in names else "nary_mat"
            return Detected(format, sign=f"a MATLAB file with {listed(sorted(names), 3, last='and')}")
        return detect_text(plain_chunks(stream, where, limit))


def detect_array(stream: BinaryIO, where: str) -> Detected:
    """Arrays of all images have four axes; masks of one image have three, the last one of a few channels."""
    with damage_told(where, "a NumPy file"):
        shape = read_npy_header(Plain(stream)).shape
    is_masks = len(shape) in (3, 4) and 2 < shape[-1] <= MOST_CHANNELS and (len(shape) == 4 or shape[0] > 2)
    format = "conic_array" if len(shape) == 4 and shape[3] == 2 else "pannuke_masks" if is_masks else "label_image"
    return Detected(format, sign=f"an array of {' x '.join(map(str, shape))}")


def detect_text(chunks: Iterator[bytes]) -> Detected | None:
    head = next(chunks, b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith((b"{", b"[")):
        if head.split() in ([b"[]"], [b"[", b"]"]):
            return Detected("coco_json", sign=EMPTY_LIST)  # of Segment Anything, or results of COCO
        return first_word(head, chunks, JSON_WORDS, JSON_KEYS)
    if not head.startswith(b"<"):
        return detect_table(head)
    if b"<ASAP_Annotations" in head:
        return first_word(head, chunks, XML_WORDS) or Detected("asap_xml", sign="<ASAP_Annotations>")
    return Detected("aperio_xml", sign="<Annotations>") if b"<Annotations" in head else None


def first_word(head: bytes, chunks: Iterator[bytes], words: Words, keys: Words = ()) -> Detected | None:
    """What the first word in quotes that decides stands for; ``keys`` decide before a colon only."""
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
    """The names in the first line of a CSV file, in lower case."""
    line = re.split(rb"[\r\n]", head.lstrip(), maxsplit=1)[0].decode("utf-8", "replace")
    return {name.strip().strip('"').casefold() for name in re.split("[,;\t]", line)}


def foreign_table(path: Path) -> str:
    """What a table of another tool is that is not read, and what to do; "" if nothing is known of it."""
    with path.open("rb") as stream:
        head = stream.read(FIRST_LINE_BYTES).removeprefix(b"\xef\xbb\xbf")
    return next((words for line, words in LINES if line.match(head)), "") or other_table(header_names(head))


def detect_table(head: bytes) -> Detected | None:
    """The format of a CSV file by the names of its columns; of numbers with blanks between them that of YOLO."""
    if YOLO_LINE.match(head):
        return Detected("yolo_txt", sign="lines of a class and pairs of numbers")
    columns = header_names(head)
    for format, needed, least, in_all in TABLE_SIGNS:
        if len(here := columns & needed) < least or len(columns) < in_all:
            continue
        if format == "points_csv" and not point_columns(columns):
            continue
        if format == "counts_csv" and (other_table(columns) or not are_counts(head)):
            continue
        return Detected(format, sign=f"the columns {listed(sorted(here), last='and')}")
    return None


def are_counts(head: bytes) -> bool:
    """Whether a table has a row for each image, with whole numbers besides its name, as far as its beginning tells."""
    lines = head[: head.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines() or [""]
    separator = next((character for character in ",;\t" if character in lines[0]), ",")
    names, *rows = csv.reader(lines, delimiter=separator)
    columns = [name.strip().casefold() for name in names]
    image = next(column for column, name in enumerate(columns) if name in IMAGE_COLUMNS)
    filled = [row for row in rows if len(row) == len(columns)]
    numbers = (cell for row in filled for column, cell in enumerate(row) if column != image)
    return bool(filled) and len({row[image] for row in filled}) == len(filled) and all(map(WHOLE.fullmatch, numbers))
