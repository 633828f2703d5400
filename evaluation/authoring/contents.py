"""What is in a file: the sizes of its images, how far its nuclei reach, and its classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from evaluation.authoring.convert import class_table, numbers_in_mat, read_one_case, whole_numbers
from evaluation.authoring.sides import NAMELESS, FoundCase, FoundFile, FoundSide
from evaluation.challenge import FormatRules, LimitRules
from evaluation.challenge.formats import FORMATS
from evaluation.decoding.image_size import IMAGE_SUFFIXES, read_image_size
from evaluation.findings import Finding, quote
from evaluation.findings.errors import InputFault
from evaluation.formats import Request, read_collection
from evaluation.formats.case_array import CaseArray
from evaluation.formats.class_table import read_class_table
from evaluation.formats.coco_document import read_document
from evaluation.formats.images import DOCUMENTS, find_image, list_images
from evaluation.formats.label_image import read_image
from evaluation.model import Annotations, Case, Outlines, Points

NUMBERED = ("hovernet_mat", "conic_array", "pannuke_masks")  # formats with numbers for classes alone
PANNUKE = ("Neoplastic", "Inflammatory", "Connective", "Dead", "Epithelial")
UNKNOWN_YX = (1 << 20, 1 << 20)


class TableFault(InputFault):
    """A table of ids and classes beside a label image cannot be read; without it the image can."""


def size_beside(file: FoundFile) -> tuple[int, int] | None:
    """The size of an image that is named like a file, and lies beside it."""
    for suffix in IMAGE_SUFFIXES:
        path = file.path.with_name(file.case + suffix)
        if path != file.path and path.is_file():
            return read_image_size(path)
    return None


def request_for(name: str, where: str, format: str, keys: Mapping[str, Any], names: list[str]) -> Request:
    rules: FormatRules = FORMATS[format].model_validate({"format": format, "files": "{case}", **keys})
    return Request(
        where=quote(where, 120), name=name, rules=rules, classes=class_table(rules, names), limits=LimitRules()
    )


def look_into(
    file: FoundFile, format: str, keys: dict[str, Any], classes: list[str], numbers: dict[str, int]
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The size of the image of a file, and how far its nuclei reach; new classes are added to the lists.

    Raises InputFault if the file cannot be read, TableFault if its class table cannot.
    """
    given, keys = keys, dict(keys)
    if format == "pannuke_masks":
        with file.path.open("rb") as stream:
            request = request_for(file.case + file.suffix, file.name, format, {**keys, "class_values": {"a": 0}}, ["a"])
            keys["class_values"] = channels_of(CaseArray(stream, request).shape[-1], classes, numbers)
    named = classes if format == "pannuke_masks" else []
    request = request_for(file.case + file.suffix, file.name, format, keys, named)
    with file.path.open("rb") as stream:
        is_image = file.suffix in IMAGE_SUFFIXES
        found = None if is_image else find_image(Path(file.case + file.suffix), stream, request, file.case)
        size_yx = read_image_size(file.path) if found is None else found.size_yx
        if format == "hovernet_mat":
            add_numbers(numbers_in_mat(stream, file.name), classes, numbers)
        if file.classes is not None and file.class_key == "class_table":
            with file.classes.open("rb") as table:
                where = quote(str(PurePosixPath(file.name).with_name(file.classes.name)), 120)
                try:
                    read_class_table(table, request, where)
                except InputFault as fault:
                    raise TableFault(*fault.findings) from None
            classes += [name for name in request.classes.ids if name not in classes]
        elif file.classes is not None:
            add_numbers(numbers_in_image(file, size_yx), classes, numbers)
        if request.rules.dense or found is None:
            return size_yx, None
        case = Case(file.case, file.case, *(size_yx or UNKNOWN_YX), 1.0, 0)
        said = read_one_case(stream, request, case, found)
    if any(finding.code == "many-parts" for finding in said.findings):
        given["parts"] = "apart"
    if format not in NUMBERED:
        classes += [name for name in request.classes.ids if name not in classes]
    return size_yx, extent_of(said)


def extent_of(said: Annotations) -> tuple[int, int] | None:
    """The height and width of an image that holds all nuclei."""
    points = [part.points_xy for part in said.parts if isinstance(part, Outlines | Points) and len(part.points_xy)]
    if not points:
        return None
    x, y = np.concatenate(points).max(axis=0)
    return max(1, int(np.ceil(y)) + 1), max(1, int(np.ceil(x)) + 1)


def numbers_in_image(file: FoundFile, size_yx: tuple[int, int] | None) -> list[int]:
    assert file.classes is not None
    assert size_yx is not None
    with file.classes.open("rb") as stream:
        case = Case(file.case, file.case, *size_yx)
        limit = LimitRules().bytes_per_file
        return whole_numbers(
            read_image(stream, suffix=file.suffix, where=quote(file.name), case=case, bytes_limit=limit)
        )


def add_numbers(found: Iterable[int], classes: list[str], numbers: dict[str, int]) -> None:
    for number in found:
        if str(number) not in numbers:
            numbers[str(number)] = number
            classes.append(str(number))
    classes.sort(key=lambda name: numbers.get(name, 0))


def channels_of(channels: int, classes: list[str], numbers: dict[str, int]) -> dict[str, int]:
    """The channel of each class of PanNuke's masks; other arrays have numbers for names."""
    names = PANNUKE if channels == len(PANNUKE) + 1 else tuple(map(str, range(1, channels)))
    if not classes:
        classes += names
        numbers.update({name: channel for channel, name in enumerate(names)})
    return dict(numbers)


def has_boxes_of_coco(file: FoundFile, format: str, keys: Mapping[str, Any]) -> bool:
    """Whether the boxes of a file are COCO's (x, y, width, height) and not MIDOG's (two corners, for a point)."""
    with file.path.open("rb") as stream:
        document = read_document(stream, request_for(file.name, file.name, format, keys, []))
        entries = [entry for piece in document.pieces for entry in piece if type(entry) is dict]
    boxes: list[tuple[Any, Any]] = [
        (entry["bbox"], entry.get("area")) for entry in entries if is_box(entry.get("bbox"))
    ]
    if not boxes:
        return False
    is_size = any(x > width or y > height for (x, y, width, height), _ in boxes)
    has_area = all(type(area) in (int, float) and abs(area - b[2] * b[3]) <= 0.01 * area for b, area in boxes)
    return not document.images or is_size or has_area


def is_box(box: object) -> bool:
    return type(box) is list and len(box) == 4 and all(type(side) in (int, float) for side in box)


def look_into_shared(
    path: Path, format: str, suffix: str, keys: dict[str, Any], file: FoundFile, findings: tuple[Finding, ...]
) -> FoundSide | None:
    """The cases and classes of a file that holds all cases; None if it holds one without a name."""
    classes: list[str] = []
    numbers: dict[str, int] = {}
    categories: Mapping[str, str] = {}
    files = {"files": f"all{suffix}"}
    with file.path.open("rb") as stream:
        if FORMATS[format].model_fields.get("class_values") and format in NUMBERED:
            request = request_for(f"all{suffix}", file.name, format, {**keys, **files, "class_values": {"a": 1}}, ["a"])
            array = CaseArray(stream, request)
            if format == "pannuke_masks":
                if len(array.shape) != 4:
                    return None
                channels_of(array.shape[3], classes, numbers)
            elif len(array.shape) == 4:
                planes = (array.of_case(index)[..., 1] for index in range(array.shape[0]))
                add_numbers(sorted({n for plane in planes for n in whole_numbers(plane)}), classes, numbers)
            stream.seek(0)
            images = list_images(stream, request)
        else:
            request = request_for(f"all{suffix}", file.name, format, {**keys, **files}, [])
            images = list_images(stream, request)
            if not any(image.names for image in images):
                return None
            if format in DOCUMENTS:
                categories = read_document(stream, request).categories
            stream.seek(0)
            known = {name: Case(name, name, *(image.size_yx or UNKNOWN_YX)) for image in images for name in image.names}
            collection = read_collection(stream, request, known)
            extents = {name: extent_of(collection.cases[name]) for name in collection.cases}
            classes += list(request.classes.ids)
    digits = len(str(len(images)))
    cases = {}
    for image in images:
        name = image.names[0] if image.names else f"image_{image.index:0{digits}}"
        extent_yx = None if not image.names else next((extents[n] for n in image.names if extents.get(n)), None)
        cases[name] = FoundCase(
            (file,), "", image.size_yx, image.index, extent_yx, image.id, (image.names or ("",))[-1]
        )
    named = tuple(name for name in classes if name != NAMELESS)
    return FoundSide(path, format, suffix, keys, cases, named, numbers, True, findings, categories=categories)
