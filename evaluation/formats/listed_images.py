"""Which images a file of all cases is about, and how large they are, as far as it tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from evaluation.decoding.csv import Table, read_table
from evaluation.decoding.streams import damage_told
from evaluation.formats import counts_csv, points_csv, rle_csv
from evaluation.formats.case_array import CaseArray
from evaluation.formats.coco_document import read_document
from evaluation.formats.csv_columns import rows_limit
from evaluation.formats.request import Request

LARGEST_SIDE = 1 << 24
IMAGES_AT_MOST = 1000  # of a table, for its limit of rows
CASE_COLUMNS = {
    "points_csv": points_csv.CASE_COLUMNS,
    "rle_csv": rle_csv.CASE_COLUMNS,
    "counts_csv": counts_csv.CASE_COLUMNS,
}


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image of a file of all cases.

    names    what it may be called, the likeliest first; none if the file has numbers of images only
    index    its place from 0, if that is all the file says of it
    size_yx  height and width, px; None if the file does not tell
    """

    names: tuple[str, ...]
    index: int | None = None
    size_yx: tuple[int, int] | None = None


def list_images(stream: BinaryIO, request: Request) -> list[ListedImage]:
    """The images in the order of the file. Raises InputFault as the readers of the formats do, for what they meet."""
    format = request.rules.format
    with damage_told(request.where, "a file that can be read"):
        if format in ("conic_array", "pannuke_masks"):
            shape = CaseArray(stream, request).shape
            size_yx = plain_size(shape[1], shape[2]) if len(shape) > 2 else None
            return [ListedImage((), index, size_yx) for index in range(shape[0] if len(shape) > 2 else 0)]
        if format in CASE_COLUMNS:
            return images_of_table(stream, request)
        document = read_document(stream, request)
        images = []
        for image in document.images or document.image_ids():
            entry = document.images.get(image)
            size_yx = None if entry is None else plain_size(entry.height, entry.width)
            images.append(ListedImage(tuple(reversed(document.names(image)[:4])), None, size_yx))
        return images


def images_of_table(stream: BinaryIO, request: Request) -> list[ListedImage]:
    table = read_table(
        stream,
        where=request.where,
        bytes_limit=request.limits.bytes_per_file,
        rows_limit=rows_limit(request, IMAGES_AT_MOST),
        names=request.rules.value("columns"),
    )
    column = table.find(CASE_COLUMNS[request.rules.format])
    if column is None:
        is_row = request.rules.format == "counts_csv"
        return [ListedImage((), index) for index in range(len(table) if is_row else 0)]
    names, name_of_row = table.categories(column)
    _, first = np.unique(name_of_row, return_index=True)
    return [ListedImage((name,), None, size_in_row(table, row)) for name, row in zip(names, first, strict=True) if name]


def size_in_row(table: Table, row: int) -> tuple[int, int] | None:
    columns = [table.find([side]) for side in ("height", "width")]
    sides = [table.text(row, column) for column in columns if column is not None]
    numbers = [int(side) for side in sides if re.fullmatch("[0-9]{1,9}", side, re.ASCII)]
    return plain_size(*numbers) if len(numbers) == 2 else None


def plain_size(height: Any, width: Any) -> tuple[int, int] | None:
    """Height and width, if they are whole numbers above 0."""
    is_plain = all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in (height, width))
    return (height, width) if is_plain else None
