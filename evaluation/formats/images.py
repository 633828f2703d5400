"""Which images a file is about, and how large they are, as far as its header, tables and lists tell.

``init`` makes cases.csv of this; ``convert`` needs the only image of a file without a challenge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from evaluation.decoding.csv import Table, numbers_of
from evaluation.decoding.label_array import check_dtype
from evaluation.decoding.mat_file import MatFile, choose_variable
from evaluation.decoding.pixels import CONTAINERS, IMAGE_SUFFIXES, peek, read_image_size, suffix_of
from evaluation.decoding.streams import damage_told
from evaluation.findings.errors import refused
from evaluation.formats.arrays import IDS, CaseArray, variable_of
from evaluation.formats.coco import CocoDocument, id_of, read_coco
from evaluation.formats.format import Request
from evaluation.formats.listed_nuclei import size_in_labelme
from evaluation.formats.tables import CASE_COLUMNS, NAMED_CASE_COLUMNS, load_table
from evaluation.model import Case

SizeYx = tuple[int, int]

LARGEST_SIDE = 1 << 24
COLOUR_CHANNELS = (3, 4)
IMAGES_AT_MOST = 1000  # of a table, for its limit of rows
COCO_FORMATS = ("coco_json", "midog_json")
WORDS_OF_FILE = "a file that can be read"
CASE_COLUMNS_OF = {"points_csv": NAMED_CASE_COLUMNS, "rle_csv": CASE_COLUMNS, "counts_csv": CASE_COLUMNS}


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image of a file of all cases.

    names    what it may be called, the likeliest first; none if the file has numbers of images only
    index    its position from 0, if that is all the file says of it
    size_yx  height and width, px; None if the file does not tell
    id       the number of a COCO file for it, under which results name it
    """

    names: tuple[str, ...]
    index: int | None = None
    size_yx: SizeYx | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class FoundImage:
    """The only image of a file.

    name           what the file calls it; the name of the file if it does not say
    size_yx        height and width, px; None if the file does not tell
    in_collection  the file is built like one of several images, of which it has one
    """

    name: str
    size_yx: SizeYx | None = None
    in_collection: bool = False


def list_images(stream: BinaryIO, request: Request) -> list[ListedImage]:
    """The images of a file of all cases, in its order, none if its format is not known to list any.

    Raises InputFault as the readers do, for what they meet.
    """
    with damage_told(request.where, WORDS_OF_FILE):
        if request.rules.needs_index:
            return images_of_array(stream, request)
        if request.rules.format in CASE_COLUMNS_OF:
            return [image for image in images_of_table(stream, request) if image.names != ("",)]
        if request.rules.format not in COCO_FORMATS:
            return []
        document = read_coco(stream, request)
        sizes = {image: plain_size([entry.height, entry.width]) for image, entry in document.images.items()}
        if not sizes or None in sizes.values():
            only = set(sizes)
            for image, size in sizes_of_codes(document):
                if image is not None and (not only or image in only):
                    sizes[image] = sizes.get(image) or size
        return [
            ListedImage(tuple(reversed(document.names(image)[:4])), None, size, image) for image, size in sizes.items()
        ]


def find_image(source: Path, stream: BinaryIO, request: Request, name: str) -> FoundImage:
    """The only image of a file; the stream is left anywhere.

    name   what the image is called if the file does not say

    Raises InputFault: "other-case" for several images in a table or an array, and what the readers raise.
    """
    with damage_told(request.where, WORDS_OF_FILE):
        match request.rules.format:
            case "rle_csv" | "points_csv":
                return only_image(images_of_table(stream, request), request, name)
            case "conic_array":
                return only_image(images_of_array(stream, request), request, name)
            case "pannuke_masks":
                shape = CaseArray(stream, request).shape
                if len(shape) == 4:
                    return only_image(images_of_array(stream, request), request, name)
                return FoundImage(name, plain_size([*shape[:2]]))
            case "coco_json" | "midog_json":
                return FoundImage(name, size_in_document(stream, request, name))
            case "nary_mat" | "hovernet_mat":
                return FoundImage(name, size_in_mat(stream, request))
            case "label_image" | "colour_map":
                return FoundImage(name, size_of_image(source, stream, request))
            case "contours_json":
                return FoundImage(name, plain_size(size_in_labelme(stream, request)))
    return FoundImage(name)


def only_image(images: list[ListedImage], request: Request, name: str) -> FoundImage:
    """The image of a list of one. Raises InputFault ("other-case") if there are several."""
    if len(images) > 1:
        names = [image.names[0] for image in images if image.names]
        raise refused("other-case", request.where, wording="several-images-in-file", count=len(images), names=names)
    if not images:
        return FoundImage(name, in_collection=request.rules.file_holds == "all cases")
    return FoundImage([*images[0].names, name][0], images[0].size_yx, in_collection=True)


# --- tables, lists and arrays of images -------------------------------------------------------------------------------


def sizes_of_codes(document: CocoDocument) -> Iterator[tuple[str | None, SizeYx | None]]:
    """The image that each annotation names, if it does, and the size in its code, if it has one; goes through them."""
    for entry in (entry for piece in document.pieces for entry in piece if type(entry) is dict):
        code = entry.get("segmentation")
        yield id_of(entry, "image_id"), plain_size(code.get("size")) if type(code) is dict else None


def images_of_table(stream: BinaryIO, request: Request) -> list[ListedImage]:
    """The images that a column of a CSV file names, with their sizes if there are columns for height and width."""
    table = load_table(stream, request, IMAGES_AT_MOST)
    column = table.find(CASE_COLUMNS_OF[request.rules.format])
    if column is None:
        return [ListedImage((), index) for index in range(len(table) if request.rules.are_counts else 0)]
    names, name_of_row = table.categories(column)
    _, first = np.unique(name_of_row, return_index=True)
    return [ListedImage((name,), None, size_in_row(table, row)) for name, row in zip(names, first, strict=True)]


def size_in_row(table: Table, row: int) -> SizeYx | None:
    columns = [table.find([side]) for side in ("height", "width")]
    sides = [float(numbers_of(table.cells(column)[row : row + 1])[0]) for column in columns if column is not None]
    return plain_size([int(side) if side.is_integer() else side for side in sides])


def images_of_array(stream: BinaryIO, request: Request) -> list[ListedImage]:
    """The images of an array N x H x W (x C), which has numbers for them."""
    shape = CaseArray(stream, request).shape
    size_yx = plain_size(list(shape[1:3]))
    return [ListedImage((), index, size_yx) for index in range(shape[0] if len(shape) > 2 else 0)]


def size_in_document(stream: BinaryIO, request: Request, name: str) -> SizeYx | None:
    """The size of the image that is named like the file, or is the only one, from the list of images or from a code."""
    document, images = read_coco(stream, request), {name: Case(name, name, 1, 1)}
    fitting = [image for image in document.images if document.find_case(image, images)] or list(document.images)
    if len(fitting) == 1:
        entry = document.images[fitting[0]]
        if size_yx := plain_size([entry.height, entry.width]):
            return size_yx
    sizes = (size for image, size in sizes_of_codes(document) if not fitting or image in (None, *fitting))
    return next(filter(None, sizes), None)


def plain_size(size: object) -> SizeYx | None:
    """Height and width, if they are two whole numbers above 0."""
    if type(size) is list and len(size) == 2 and all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in size):
        return size[0], size[1]
    return None


# --- images -----------------------------------------------------------------------------------------------------------


def size_in_mat(stream: BinaryIO, request: Request) -> SizeYx | None:
    mat = MatFile(stream, where=request.where, bytes_limit=request.limits.bytes_per_file)
    is_nary = request.rules.format == "nary_mat"
    variable = choose_variable(mat.variables, request.where) if is_nary else variable_of(mat, IDS)
    return None if variable is None else plane_of(variable.shape, ())


def size_of_image(source: Path, stream: BinaryIO, request: Request) -> SizeYx | None:
    """The size in the header of an image file; None for suffixes that label images do not have."""
    if source.suffix in IMAGE_SUFFIXES:
        return read_image_size(source)
    if (suffix := suffix_of(request.name)) not in CONTAINERS:
        return None
    pixels = peek(stream, suffix, request.where, request.limits.bytes_per_file)
    if pixels.dtype is not None:
        check_dtype(pixels.dtype, where=request.where)
    has_classes = request.rules.value("class_channel") is not None
    return plane_of(pixels.shape, COLOUR_CHANNELS if request.rules.format == "colour_map" else (2,) * has_classes)


def plane_of(shape: tuple[int, ...], channels: tuple[int, ...]) -> SizeYx | None:
    """The size of the plane that an array of this shape holds; ``channels``: how many an image may have.

    The first two axes if it is not clear, so that the reader can say what is wrong.

    >>> plane_of((1, 20, 30), ()), plane_of((2, 20, 30), (2,)), plane_of((20, 30, 4), (3, 4)), plane_of((7,), ())
    ((20, 30), (20, 30), (20, 30), None)
    """
    sizes = shape if len(shape) == 2 + bool(channels) else tuple(size for size in shape if size != 1)
    if channels and len(sizes) == 3 and sizes[2] not in channels and sizes[0] in channels:
        sizes = sizes[1:]
    return plain_size(list((sizes if len(sizes) >= 2 else shape)[:2]))
