"""Which format a file has, by what is in it; its name matters only to say what is wrong with a ``.mat`` file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from evaluation.challenge import LimitRules
from evaluation.decoding.chunks import plain_chunks
from evaluation.decoding.content import (
    EMPTY_ZIP_MAGIC,
    MHA_MAGICS,
    NPY_MAGIC,
    PNG_MAGIC,
    TIFF_MAGICS,
    ZIP_MAGIC,
)
from evaluation.decoding.mat_file import MatFile
from evaluation.decoding.npy import read_npy_header
from evaluation.decoding.streams import Plain, damage_told
from evaluation.findings import quote
from evaluation.formats import hovernet_mat, rle_csv

PICTURES = (PNG_MAGIC, *TIFF_MAGICS, *MHA_MAGICS, ZIP_MAGIC, EMPTY_ZIP_MAGIC)
MATLAB_MAGIC = b"MATLAB"
MOST_CHANNELS = 16
YOLO_LINE = re.compile(rb"[0-9]{1,5}(?: +[0-9.eE+-]+){6,}\s*?(?:\n|$)", re.ASCII)
NO_KEYS: Mapping[str, Detected] = MappingProxyType({})
CUT = 64  # bytes of a chunk that are looked at again with the next one, for words that are cut
# What decides, in this order: a word of the file, the format that has it, and the shape of its nuclei.
JSON_WORDS = (
    ("Multiple polygons", "polygons_json", None),
    ("Multiple points", "points_json", None),
    ("Polygon", "geojson", "outline"),
    ("MultiPolygon", "geojson", "outline"),
    ("Point", "geojson", "point"),
    ("MultiPoint", "geojson", "point"),
    ("segmentation", "coco_json", None),
    ("masks", "coco_json", None),
    ("FeatureCollection", "geojson", None),
    ("bbox", "midog_json", None),
)
# The same for keys: the tool, and the shape of its nuclei.
JSON_KEYS = (
    ("nuc", "hovernet", "outline"),
    ("contour", "cellvit", "outline"),
    ("cells", "cellvit", "point"),
    ("shapes", "labelme", "outline"),
)
LATE_WORDS = ("FeatureCollection", "cells", "bbox")  # they decide if no other word does
XML_WORDS = (
    ("Dot", "asap_xml", "point"),
    ("PointSet", "asap_xml", "point"),
    ("Polygon", "asap_xml", "outline"),
    ("Rectangle", "asap_xml", "outline"),
    ("Spline", "asap_xml", "outline"),
)


@dataclass(frozen=True, slots=True)
class Detected:
    """A format, and the keys of its rules that the file tells, such as ``shape``."""

    format: str
    keys: Mapping[str, str] = field(default_factory=dict)


def detect_format(path: Path) -> Detected | None:
    """The format of a file, None if it is of no known one. Text may be compressed with gzip.

    Label images and class maps look the same, as do maps of colours: all are label images here.
    Raises InputFault for damaged files, OSError for those that cannot be read.
    """
    where, limit = quote(path.name, 120), LimitRules().bytes_per_file
    with path.open("rb") as stream:
        head = stream.read(16)
        stream.seek(0)
        if head.startswith(PICTURES):
            return Detected("label_image")
        if head.startswith(NPY_MAGIC):
            return detect_array(stream, where)
        if head.startswith(MATLAB_MAGIC) or path.suffix.lower() == ".mat":
            names = {variable.name for variable in MatFile(stream, where=where, bytes_limit=limit).variables}
            return Detected("hovernet_mat" if hovernet_mat.IDS in names else "nary_mat")
        return detect_text(plain_chunks(stream, where, limit))


def detect_array(stream: BinaryIO, where: str) -> Detected:
    """Arrays of all images have four axes; masks of one image have three, the last one of a few channels."""
    with damage_told(where, "a NumPy file"):
        shape = read_npy_header(Plain(stream)).shape
    if len(shape) == 4:
        return Detected("conic_array" if shape[3] == 2 else "pannuke_masks")
    has_channels = len(shape) == 3 and 2 < shape[2] <= MOST_CHANNELS and shape[0] > 2
    return Detected("pannuke_masks" if has_channels else "label_image")


def detect_text(chunks: Iterator[bytes]) -> Detected | None:
    head = next(chunks, b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith((b"{", b"[")):
        keys = {key: Detected("contours_json", {"tool": tool, "shape": shape}) for key, tool, shape in JSON_KEYS}
        return first_word(head, chunks, JSON_WORDS, keys)
    if not head.startswith(b"<"):
        return detect_table(head)
    if b"<ASAP_Annotations" in head:
        return first_word(head, chunks, XML_WORDS) or Detected("asap_xml")
    return Detected("aperio_xml") if b"<Annotations" in head else None


def first_word(
    head: bytes,
    chunks: Iterator[bytes],
    words: tuple[tuple[str, str, str | None], ...],
    keys: Mapping[str, Detected] = NO_KEYS,
) -> Detected | None:
    """What the first word in quotes that decides stands for; ``keys`` decide before a colon only."""
    known = {word: Detected(format, {"shape": shape} if shape else {}) for word, format, shape in words}
    of_keys = f'|"({"|".join(keys)})"\\s*:' if keys else "|(?!)()"
    pattern = re.compile(f'"({"|".join(known)})"{of_keys}'.encode())
    known |= keys
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


def columns_of(head: bytes) -> set[str]:
    """The names in the first line of a CSV file, in lower case."""
    line = re.split(rb"[\r\n]", head.lstrip(), maxsplit=1)[0].decode("utf-8", "replace")
    return {name.strip().strip('"').casefold() for name in re.split("[,;\t]", line)}


def detect_table(head: bytes) -> Detected | None:
    """The format of a CSV file by the names of its columns; of numbers with blanks between them that of YOLO."""
    if YOLO_LINE.match(head):
        return Detected("yolo_txt")
    columns = columns_of(head)
    if {"coords_x", "coords_y"} <= columns:
        return Detected("nucls_csv")
    if columns & {name.casefold() for name in rle_csv.CODE_COLUMNS}:
        return Detected("rle_csv")
    if {"x", "y"} <= columns:
        return Detected("points_csv")
    is_counts = len(columns) > 1 and columns & {"case", "image_id", "imageid", "image"}
    return Detected("counts_csv") if is_counts else None
