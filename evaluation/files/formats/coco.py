"""COCO JSON and its relatives: images, categories and annotations that name them; in MIDOG's files boxes.

::

    {"images": [{"id": 7, "file_name": "a.png", "height": 4, "width": 5}], "categories": [{"id": 1, "name": "plasma"}],
     "annotations": [{"image_id": 7, "category_id": 1, "segmentation": …, "iscrowd": 0, "score": 0.9}]}
    [{"image_id": 7, "category_id": 1, "segmentation": …, "score": 0.9}]
    {"labels": [0], "scores": [0.9], "masks": […]}           predictions of mmdetection for one image

Ids are whole numbers or texts; both are compared as texts. A segmentation is a list of polygons
``[x1, y1, x2, y2, …]``, together one nucleus, or a run-length code ``{"size": [H, W], "counts": …}``, compressed or not
(see ``run_lengths``).

MIDOG's ``"bbox"`` is ``[x1, y1, x2, y2]``, two corners, unlike COCO's; a nucleus is the point in its middle. Its second
category are hard negatives, cells that look alike: name them under ``skip_classes``. Files may be compressed with gzip.

https://cocodataset.org/#format-data, https://cocodataset.org/#format-results. M. Aubreville et al., "A comprehensive
multi-domain dataset for mitotic figure detection", Scientific Data 10:484, 2023.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
import orjson

from evaluation.files.decoding.annotations import Annotations, Collection
from evaluation.files.decoding.json import read_records
from evaluation.files.decoding.streams import check_number
from evaluation.files.formats.annotation_lists import ListSheet
from evaluation.files.formats.format import (
    Example,
    Format,
    ListedImage,
    Request,
    SizeYx,
    Word,
    are_coordinates,
    noting,
    outlines_of_rings,
    part_of,
    plain_size,
)
from evaluation.files.formats.run_lengths import CodeRuns, instances_of_codes, join_parts, runs_of_counts
from evaluation.files.formats.sheet import NUMBERS, SKIPPED, UNKNOWN, FileFaults, json_of, numbers_in
from evaluation.findings import fault, listed, quote
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Case, Float64, Int64, Part, Points
from nuclei_metrics.model.arrays import expand

NO_CASE = -1
CaseOfImage = Callable[[str], Case | None]
EMPTY_LIST = "an empty list: no nucleus"  # of Segment Anything, or results of COCO
CATEGORY_NUMBER = re.compile(r"-?[0-9]+")

# --- the document -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Image:
    """An entry of the list of images."""

    place: str
    file_name: str | None
    height: Any
    width: Any


@dataclass(slots=True)
class _CocoDocument:
    """Content of a file in any of the three forms.

    pieces      the annotations or results, in pieces, for one pass; each should be an object
    list_name   the name of their list, for messages
    images      by id as text; empty if the file has no such list
    categories  names by id as text
    """

    where: str
    pieces: Iterator[list[Any]]
    list_name: str = ""
    images: dict[str, Image] = field(default_factory=dict)
    categories: dict[str, str] = field(default_factory=dict)
    is_one_image: bool = False

    def image_ids(self) -> list[str]:
        """List the ids of the images that annotations name, in the order of the file, which is read to its end."""
        ids = (_id_of(entry, "image_id") for piece in self.pieces for entry in piece if type(entry) is dict)
        return [id for id in dict.fromkeys(ids) if id is not None]

    def names(self, image: str) -> list[str]:
        """Return possible names of an image: its file name with and without folders and suffix, or its id."""
        entry = self.images.get(image)
        name = image if entry is None or entry.file_name is None else entry.file_name
        base = name.replace("\\", "/").rpartition("/")[2]
        return [name, base, *(text.rpartition(".")[0] or text for text in (name, base)), image]

    def find_case(self, image: str, cases: Mapping[str, Case]) -> Case | None:
        return next((cases[name] for name in self.names(image) if name in cases), None)


def _id_of(entry: Mapping[str, Any], key: str) -> str | None:
    """Return the id under a key as text; None if missing or of another type."""
    value = entry.get(key)
    return str(value) if type(value) is int or type(value) is str else None


def read_coco(stream: BinaryIO, request: Request) -> _CocoDocument:
    """Read the document in a file. Raises InputFault: not-json, too-large, too-deep, not-coco, invalid-annotation."""
    where = request.where
    stream.seek(0)
    records = read_records(stream, key="annotations", where=where, limits=request.limits)
    root = records.root
    if records.pieces is not None:
        document = _CocoDocument(where, records.pieces)
        return _read_tables(document, root) if type(root) is dict else document
    if type(root) is not dict:
        raise refused("not-coco", where, got="not an object or a list")
    if type(root.get("masks")) is list:
        return _CocoDocument(where, iter([_read_masks(root, where)]), "masks", is_one_image=True)
    if type(root.get("annotations")) is dict and "images" in root:  # LIVECell: annotations by their ids
        return _read_tables(_CocoDocument(where, iter([list(root["annotations"].values())])), root)
    got = f"an object with {listed(root, last='and')}" if root else "an empty object"
    raise refused("not-coco", where, got=got)


def _read_tables(document: _CocoDocument, root: Mapping[str, Any]) -> _CocoDocument:
    """Read the images and categories into a document. Raises InputFault for entries without an id."""
    document.list_name = "annotations"
    faults = FileFaults(document.where)
    for key, name_key in (("images", "file_name"), ("categories", "name")):
        entries = root.get(key) or []
        if type(entries) is not list:
            raise refused("not-coco", document.where, got=f"'{key}' that are no list")
        for index, entry in enumerate(entries):
            place = f"{key}[{index}]"
            id = _id_of(entry, "id") if type(entry) is dict else None
            if id is None:
                expected = "an object with an 'id', a whole number or a text"
                faults.fault("invalid-annotation", place, wording="value", expected=expected, value=entry)
                continue
            name = _id_of(entry, name_key)
            if key == "images":
                image = Image(place, name, entry.get("height"), entry.get("width"))
                before = document.images.setdefault(id, image).file_name
            else:
                before = document.categories.setdefault(id, name or "") or None
            if before != (name or None):
                faults.fault("invalid-annotation", place, wording="id-with-other-name", id=id)
    if findings := faults.findings():
        raise InputFault(*findings)
    return document


def _read_masks(root: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Read the lists that mmdetection writes for one image, as results. Raises InputFault if they differ in length."""
    columns = {"segmentation": root["masks"]}
    for key, name in (("labels", "category_id"), ("scores", "score")):
        if key in root:
            if type(root[key]) is not list or len(root[key]) != len(root["masks"]):
                raise refused("not-coco", where, got=f"'{key}' that are no list as long as 'masks'")
            columns[name] = root[key]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# --- which image is which case ----------------------------------------------------------------------------------------


class _Places:
    """The cases of the images of a document, each with a number; found at the first use of an image.

    images    that are looked for at once
    case_of   gives the case of an image by its id; None for other images, which are omitted
    nameless  the case of annotations that name no image
    """

    def __init__(
        self, document: _CocoDocument, images: Iterable[str], case_of: CaseOfImage, nameless: Case | None = None
    ) -> None:
        self.document, self.case_of, self.nameless = document, case_of, nameless
        self.faults = FileFaults(document.where)
        self.cases: list[Case] = []
        self.number_of_image: dict[str, int] = {}
        self.image_of_case: dict[str, str] = {}
        self.unknown: Counter[str] = Counter()
        for image in images:
            self.find(image)

    def find(self, image: str) -> int:
        """Find the number of the case that an image is, or NO_CASE."""
        if image in self.number_of_image:
            return self.number_of_image[image]
        name, entry, case = self.document.names(image)[0], self.document.images.get(image), self.case_of(image)
        self.number_of_image[image] = NO_CASE if case is None else len(self.cases)
        if case is None:
            self.unknown[name] += 0
            return NO_CASE
        place = f"image {quote(image)}" if entry is None else entry.place
        if self.image_of_case.setdefault(case.name, image) != image:
            self.faults.fault("invalid-annotation", place, wording="case-again", image=name, case=case.name)
        if entry is not None and type(entry.height) is int and type(entry.width) is int:
            self.check_shape(place, [entry.height, entry.width], case)
        self.cases.append(case)
        return self.number_of_image[image]

    def number_of_entry(self, entry: Mapping[str, Any], place: str) -> int:
        """Find the number of the case of an annotation, or NO_CASE: then its image is counted, or its id is a fault."""
        image = _id_of(entry, "image_id")
        if entry.get("image_id") is None and self.nameless is not None:
            if not self.cases:
                self.cases.append(self.nameless)
            return 0
        if image is None or (self.document.images and image not in self.document.images):
            got = f"'image_id' is {quote(entry['image_id'])}" if "image_id" in entry else "no 'image_id'"
            self.faults.fault("invalid-annotation", place, got=got, expected="the id of an image")
            return NO_CASE
        number = self.find(image)
        if number == NO_CASE:
            self.unknown[self.document.names(image)[0]] += 1
        return number

    def check_shape(self, place: str, size: list[int], case: Case) -> bool:
        """Record an image, or a code, of another size than the case."""
        height, width = case.shape_yx
        if size != [height, width]:
            fix = "Write codes and coordinates for the size of the image; in 'size', height comes before width."
            self.faults.fault("wrong-shape", place, found=size, fix=fix, height=height, width=width, channels="")
        return size == [height, width]


# --- annotations ------------------------------------------------------------------------------------------------------


def _read_one(kind: type[_AnnotatedNuclei], stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the annotations for the case of a file: its only image, or the image named like the case.

    Raises InputFault with all faults, "other-case" if no image is the case.
    """
    document = read_coco(stream, request)
    ids = list(document.images)
    if not ids:
        ids = document.image_ids()
        document = read_coco(stream, request)  # once more from its start
    if len(ids) > 1:
        key, names = request.rules.key_of(case), [document.names(image)[0] for image in ids]
        ids = [image for image in ids if document.find_case(image, {case.name: case, key: case})]
        if not ids:
            count = len(names)
            raise refused("other-case", request.where, wording="no-image", count=count, names=names, case=key)
    nameless = case if len(document.images) <= 1 else None
    places = _Places(document, ids, dict.fromkeys(ids, case).get, nameless)
    collection = _collect_nuclei(kind(document, places, request))
    findings = collection.findings
    if others := sum(collection.unknown.values()):
        findings += (fault("left-out", request.where, wording="other-images", total=others, count=others),)
    return Annotations(collection.cases[case.name].parts if case.name in collection.cases else (), findings)


def read_all(kind: type[_AnnotatedNuclei], stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """Read the annotations of all cases. Raises InputFault with all faults."""
    document = read_coco(stream, request)
    # Results have no list of images: their ids are those of the reference, which cases.csv has as ``index``.
    of_id = {} if document.images else {str(case.index): case for case in cases.values()}
    places = _Places(document, document.images, lambda id: document.find_case(id, cases) or of_id.get(id))
    return _collect_nuclei(kind(document, places, request))


def _collect_nuclei(nuclei: _AnnotatedNuclei) -> Collection:
    """Collect the annotations of the images that are cases. Raises InputFault with all faults."""
    places = nuclei.places
    number = 0
    for piece in nuclei.document.pieces:
        for entry in piece:
            nuclei.add_entry(number, entry)
            number += 1
        nuclei.settle()
    parts: dict[str, list[Part]] = {case.name: [] for case in places.cases}
    for index, part in nuclei.parts(nuclei.columns()):
        parts[places.cases[index].name].append(part)
    cases = {name: Annotations(tuple(of_case)) for name, of_case in parts.items()}
    return Collection(cases, dict(places.unknown), tuple(nuclei.left_out.findings()))


class _AnnotatedNuclei(ListSheet, ABC):
    """The annotations that are nuclei of cases; ``case``: the case number of each annotation."""

    probability_name = "score"

    def __init__(self, document: _CocoDocument, places: _Places, request: Request) -> None:
        super().__init__(request, lambda number: f"{document.list_name}[{number}]")
        self.document = document
        self.places = places
        self.faults = places.faults
        self.per_case: Counter[int] = Counter()
        self.case: list[int] = []
        self.class_of_category: dict[str, int] = {}

    def add_entry(self, number: int, entry: Any) -> None:
        """Record an annotation, with the first thing that is wrong with it."""
        self.number = number
        if type(entry) is not dict:
            self.fault("invalid-annotation", wording="value", expected="an object", value=entry)
            return
        if "segments_info" in entry:
            fix = "Export COCO with a 'segmentation' for each nucleus, or label images."
            raise refused("not-coco", self.document.where, got="COCO panoptic, with shapes in PNG files", fix=fix)
        case = self.places.number_of_entry(entry, self.here)
        if case == NO_CASE or (class_id := self.class_of_entry(entry)) == SKIPPED:
            return
        crowd = entry.get("iscrowd")
        if class_id >= 0 and crowd is not None and crowd == 1:
            self.left_out.fault("left-out", self.here, wording="crowd")
            return
        self.per_case[case] += 1
        if self.per_case[case] > self.request.limits.instances_per_case:
            where = f"{self.request.where}, case {quote(self.places.cases[case].name)}"
            check_number(self.per_case[case], "nuclei", "instances_per_case", where, self.request.limits)
        source = _id_of(entry, "id")
        self.case.append(case)
        self.class_id.append(class_id)
        self.source_id.append(str(number) if source is None else source)
        self.probability.append(entry.get("score"))
        self.numbers.append(number)
        self.add_shape(entry)

    def wrong_value(self, entry: Mapping[str, Any], key: str, expected: str) -> None:
        """Record an invalid value of the current annotation, and the expected value."""
        self.fault("invalid-annotation", expected=expected, of=f"{quote(key)} is", value=entry.get(key))

    def class_of_entry(self, entry: Mapping[str, Any]) -> int:
        """Look up the class id of an annotation: SKIPPED, or 0 for an unknown one, which is recorded."""
        category = _id_of(entry, "category_id")
        if category is None:
            if entry.get("category_id") is not None and not self.request.file_class:
                self.wrong_value(entry, "category_id", "a whole number or a name")
                return 0
            category = ""
        if (class_id := self.class_of_category.get(category)) is None:
            class_id = self.class_of_category[category] = self.resolve(category)
        if class_id == UNKNOWN:
            self.note_unknown(self.document.categories.get(category) or category, self.number)
            return 0
        return class_id

    def resolve(self, category: str) -> int:
        """Find the class of a category, by its id as text, "" for none: by its name, otherwise by its number. Gives
        a class id, SKIPPED or UNKNOWN.
        """
        categories, values = self.document.categories, self.request.classes.values
        is_number = CATEGORY_NUMBER.fullmatch(category) is not None
        name = categories.get(category, "" if is_number else category)
        if self.request.file_class or self.is_known(name):
            return self.look_up(name)
        if is_number and len(category) < 10 and int(category) in values:
            return values[int(category)]
        return UNKNOWN if name or (category and (categories or values)) else self.look_up(None)

    @abstractmethod
    def add_shape(self, entry: Mapping[str, Any]) -> None:
        """Record the shape of the nucleus in the last row, or the fault."""

    @abstractmethod
    def settle(self) -> None:
        """Create arrays of the shapes since the last call."""

    @abstractmethod
    def parts(self, columns: Mapping[str, Any]) -> Iterator[tuple[int, Part]]:
        """Yield case numbers and their content from the columns of all rows; call after a successful ``settle``."""

    def by_case(self, rows: Int64, columns: Mapping[str, Any]) -> Iterator[tuple[int, Int64, dict[str, Any]]]:
        """Yield the number of each case with rows, the indices of its rows, and their columns."""
        case = np.array(self.case, np.int64)[rows]
        order = np.argsort(case, kind="stable")
        for chosen in filter(len, np.split(order, np.flatnonzero(np.diff(case[order])) + 1)):
            yield int(case[chosen[0]]), chosen, part_of(columns, rows[chosen])


# --- COCO: polygons and run-length codes ------------------------------------------------------------------------------


SEGMENTATION_WORDS = "a list of polygons [x1, y1, x2, y2, …], or an object with 'size' and 'counts'"


def _read_coco_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the nuclei of one case from its file: from its only image, or the image named like the case.

    Classes, crowds, probabilities and faults as in ``_read_coco_json_collection``; the lists that mmdetection writes
    for one image are read too. Raises InputFault, also "other-case" if there are several images and no image is
    the case.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from nuclei_metrics.model import ClassTable
    >>> rules = format_rules(format="coco_json", files="{case}.json", vertices="exact", origin="pixel_corner",
    ...                     vanished="drop")
    >>> request = Request(where="'a.json'", name="a.json", rules=rules, classes=ClassTable(("plasma",), {"plasma": 1}),
    ...                   limits=LimitRules())
    >>> text = b'[{"image_id": 7, "segmentation": {"size": [2, 3], "counts": [1, 3, 2]}, "score": 0.5}]'
    >>> (nuclei,) = _read_coco_json(io.BytesIO(text), request, Case("a", "a", 2, 3)).parts
    >>> nuclei.run_start.tolist(), nuclei.run_stop.tolist(), nuclei.class_id.tolist(), nuclei.probability.tolist()
    ([1, 3], [2, 5], [1], [0.5])
    """
    return _read_one(_SegmentedNuclei, stream, request, case)


def _read_coco_json_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """Read the nuclei of all cases from one file.

    case         the image of an annotation by its ``file_name``, with or without folders and suffix, otherwise by its
                 id
    class        by the name of the category if that is a class, otherwise by its number in ``class_values``; without
                 either
                 the class of nuclei without a name
    crowds       (``iscrowd`` 1) contain several nuclei: kept if their class is an ignore class, otherwise omitted with
                 a
                 warning
    codes        without a pixel are omitted with a warning, or refused if ``vanished`` is "error"
    probability  ``score``

    ``source_id`` is the id of the annotation, or its position from 0. Nuclei are in file order, except that nuclei with
    polygons come before nuclei with codes. Raises InputFault: not-json, too-large, too-deep, not-coco,
    invalid-annotation, unknown-class, unsupported-shape, invalid-coordinate, invalid-rle, too-complex-runs,
    wrong-shape, vanished-outline, invalid-probability, missing-probability.
    """
    return read_all(_SegmentedNuclei, stream, request, cases)


class _SegmentedNuclei(_AnnotatedNuclei):
    """Nuclei with polygons or run-length codes."""

    def __init__(self, document: _CocoDocument, places: _Places, request: Request) -> None:
        if document.is_one_image and places.nameless is None:
            fix = "Write a list of results, each with its 'image_id'."
            raise refused("not-coco", document.where, got="the masks of one image, without its name", fix=fix)
        super().__init__(document, places, request)
        self.size = 0  # numbers in segmentations
        nothing = np.empty(0, np.int64)
        self.polygon_rows: list[int] = []  # of the polygons of the piece at hand
        self.polygons: list[list[list[Any]]] = []
        self.outlines = [(nothing, nothing, nothing, np.empty(0))]  # rows, their rings, vertices of these, coordinates
        self.code_rows: list[int] = []  # of the codes of the piece at hand
        self.codes: list[list[Any] | str] = []
        self.coded: list[int] = []  # the rows of those that have runs
        self.runs = [CodeRuns(nothing, nothing, np.empty(0, np.int32))]

    def add_shape(self, entry: Mapping[str, Any]) -> None:
        segmentation, row = entry.get("segmentation"), len(self.numbers) - 1
        if type(segmentation) is dict and segmentation:
            size, counts = segmentation.get("size"), segmentation.get("counts")
            if type(size) is not list or len(size) != 2 or set(map(type, size)) != {int}:
                self.wrong_value(segmentation, "size", "[height, width] of the image")
            elif type(counts) is not list and type(counts) is not str:
                self.wrong_value(segmentation, "counts", "a list of numbers, or a text")
            elif self.places.check_shape(self.here, size, self.places.cases[self.case[row]]):
                self.size += len(counts)
                self.code_rows.append(row)
                self.codes.append(counts)
        elif type(segmentation) is list and any(segmentation):
            are_lists = set(map(type, segmentation)) == {list}
            if not are_lists or (len(segmentation) > 2 and set(map(len, segmentation)) == {2}):
                what = f"{len(segmentation):,} pairs" if are_lists else "other things than lists"
                got = f"'segmentation' is a list of {what}"
                self.fault("invalid-annotation", got=got, expected=SEGMENTATION_WORDS)
            else:
                self.size += sum(map(len, segmentation))
                self.polygon_rows.append(row)
                self.polygons.append(segmentation)
        elif segmentation is None or type(segmentation) is list or segmentation == {}:
            self.fault("unsupported-shape", wording="no-segmentation", expected=SEGMENTATION_WORDS)
        else:
            self.wrong_value(entry, "segmentation", SEGMENTATION_WORDS)

    def settle(self) -> None:
        """Create arrays of the segmentations since the last call."""
        what, limits = "vertices and runs", self.request.limits
        check_number(self.size // 2, what, "vertices_per_file", self.request.where, limits)
        self.settle_polygons()
        self.settle_codes()

    def settle_polygons(self) -> None:
        rows = np.array(self.polygon_rows, np.int64)
        ring_count = np.fromiter(map(len, self.polygons), np.int64, len(self.polygons))
        rings = list(chain.from_iterable(self.polygons))
        size = np.fromiter(map(len, rings), np.int64, len(rings))
        numbers, _ = numbers_in([*chain.from_iterable(rings)])
        owner, stop = np.repeat(rows, ring_count), np.cumsum(size)
        for ring in self.rows_with("invalid-coordinate", size % 2 == 1):
            self.fault("invalid-coordinate", self.numbers[owner[ring]], wording="odd-polygon", value=size[ring])

        def at(index: int) -> tuple[str, str, object]:
            ring = int(np.searchsorted(stop, index, "right"))
            value = rings[ring][index - int(stop[ring] - size[ring])]
            return self.place(self.numbers[owner[ring]]), "a coordinate", json_of(value)

        self.check_coordinates(~are_coordinates(numbers), at)
        self.outlines.append((rows, ring_count, size // 2, numbers))
        self.polygon_rows.clear()
        self.polygons.clear()

    def settle_codes(self) -> None:
        """Create runs of the codes so far. A code without a pixel is ignored, or a fault if the rules require it."""
        fresh, codes, self.code_rows, self.codes = self.code_rows, self.codes, [], []
        shapes = [self.places.cases[self.case[row]].shape_yx for row in fresh]
        pixels = np.array([height * width for height, width in shapes], np.int64)

        def place(index: int) -> str:
            return f"{self.request.where}, {self.place(self.numbers[fresh[index]])}"

        with noting(self.faults.others):
            runs = runs_of_counts(codes, place, pixels=pixels)
            has_pixels = np.bincount(runs.instance, minlength=len(fresh)) > 0
            for index in np.flatnonzero(~has_pixels).tolist():
                self.number = self.numbers[fresh[index]]
                if self.request.rules.value("vanished") == "error":
                    self.fault("vanished-outline", wording="code")
                else:
                    self.left_out.fault("left-out", self.here, wording="code-left-out")
            instance = len(self.coded) + np.cumsum(has_pixels)[runs.instance] - 1
            self.runs.append(CodeRuns(runs.start, runs.length, instance.astype(np.int32)))
            self.coded += [fresh[index] for index in np.flatnonzero(has_pixels).tolist()]

    def parts(self, columns: Mapping[str, Any]) -> Iterator[tuple[int, Part]]:
        """The nuclei with polygons as Outlines, then nuclei with codes as Instances. Raises InputFault."""
        rows, ring_count, ring_size, numbers = map(np.concatenate, zip(*self.outlines, strict=True))
        points = numbers.reshape(-1, 2)
        stop_ring, stop = np.cumsum(ring_count), np.cumsum(ring_size)
        for number, chosen, of_case in self.by_case(rows, columns):
            ring = expand(stop_ring[chosen] - ring_count[chosen], stop_ring[chosen])
            owner = np.repeat(np.arange(len(chosen)), ring_count[chosen])
            vertices = points[expand(stop[ring] - ring_size[ring], stop[ring])]
            yield number, outlines_of_rings(vertices, ring_size[ring], owner, **of_case)
        runs = join_parts(self.runs)
        edges = np.searchsorted(runs.instance, np.arange(len(self.coded) + 1))
        for number, chosen, of_case in self.by_case(np.array(self.coded, np.int64), columns):
            case, index = self.places.cases[number], expand(edges[chosen], edges[chosen + 1])
            instance = np.repeat(np.arange(len(chosen), dtype=np.int32), edges[chosen + 1] - edges[chosen])
            of_nuclei = CodeRuns(runs.start[index], runs.length[index], instance)
            shape_yx, where = case.shape_yx, f"{self.request.where}, case {quote(case.name)}"
            instances = instances_of_codes(of_nuclei, shape_yx=shape_yx, pixel_order="column", where=where, **of_case)
            yield number, instances


def _example_document(made: Example, cases: Sequence[Case], shapes: Callable[[Case], list[tuple[str, Any]]]) -> bytes:
    """Create an example of all cases; ``shapes`` gives the class of each nucleus of a case, and its index."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, case in enumerate(cases, start=1):
        name = made.rules.key_of(case)
        images.append({"id": image_id, "file_name": name, "height": case.height, "width": case.width})
        for class_name, shape in shapes(case):
            ids = {"id": len(annotations) + 1, "image_id": image_id, "category_id": made.names.index(class_name) + 1}
            annotations.append({**ids, **shape})
    categories = [{"id": index, "name": name} for index, name in enumerate(made.names, start=1)]
    return orjson.dumps({"images": images, "annotations": annotations, "categories": categories})


def _example_of_coco_json(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    def shapes(case: Case) -> list[tuple[str, Any]]:
        rings = [(name, ring.reshape(-1).tolist()) for name, ring in made.rings(case)]
        return [(name, {"segmentation": [numbers], "iscrowd": 0}) for name, numbers in rings]

    return _example_document(made, cases, shapes)


# --- MIDOG: boxes -----------------------------------------------------------------------------------------------------


BOX_WORDS = "[x1, y1, x2, y2], two corners of the box"


def _read_midog_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the nuclei of one case from its file: from its only image, or the image named like the case.

    Raises InputFault as ``_read_midog_json_collection`` does, also "other-case" if there are several images and no
    image is the case.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from nuclei_metrics.model import ClassTable
    >>> request = Request(where="'a.json'", name="a.json", limits=LimitRules(), classes=ClassTable(("cell",), {}),
    ...                   rules=format_rules(format="midog_json", files="{case}.json", origin="pixel_corner"))
    >>> text = b'{"annotations": [{"image_id": 1, "bbox": [10, 20, 15, 40]}]}'
    >>> _read_midog_json(io.BytesIO(text), request, Case("a", "a", 100, 100)).parts[0].points_xy.tolist()
    [[12.5, 30.0]]
    """
    return _read_one(_BoxedNuclei, stream, request, case)


def _read_midog_json_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """Read the nuclei of all cases from one file: the middle ((x1 + x2) / 2, (y1 + y2) / 2) of each box, px of the
    file.

    Images, classes and ``score`` as in ``_read_coco_json_collection``. Raises InputFault: not-json, too-large,
    too-deep, not-coco, invalid-annotation, unknown-class, wrong-shape, invalid-coordinate (also for corners in the
    wrong order, as in COCO boxes of width and height), invalid-probability, missing-probability.
    """
    return read_all(_BoxedNuclei, stream, request, cases)


class _BoxedNuclei(_AnnotatedNuclei):
    """Nuclei with boxes of two corners."""

    def __init__(self, document: _CocoDocument, places: _Places, request: Request) -> None:
        super().__init__(document, places, request)
        self.rows: list[int] = []
        self.pending: list[list[float]] = []
        self.middles_xy: list[Float64] = [np.empty((0, 2))]

    def add_shape(self, entry: Mapping[str, Any]) -> None:
        box = entry.get("bbox")
        if box is None:
            self.fault("invalid-annotation", got="no 'bbox'", expected=BOX_WORDS)
        elif type(box) is not list or len(box) != 4 or not NUMBERS.issuperset(map(type, box)):
            self.wrong_value(entry, "bbox", BOX_WORDS)
        else:
            self.rows.append(len(self.numbers) - 1)
            self.pending.append(box)

    def settle(self) -> None:
        boxes = np.array(self.pending, np.float64).reshape(-1, 4)
        is_box = np.all(boxes[:, :2] <= boxes[:, 2:], axis=1) & np.all(are_coordinates(boxes), axis=1)
        for index in self.rows_with("invalid-coordinate", ~is_box):
            number = self.numbers[self.rows[index - len(boxes)]]
            self.fault("invalid-coordinate", number, wording="no-box", box=self.pending[index], wanted=BOX_WORDS)
        self.middles_xy.append((boxes[:, :2] + boxes[:, 2:]) / 2)
        self.pending.clear()

    def parts(self, columns: Mapping[str, Any]) -> Iterator[tuple[int, Part]]:
        middles_xy = np.concatenate(self.middles_xy)
        for case, chosen, of_case in self.by_case(np.array(self.rows, np.int64), columns):
            yield case, Points(points_xy=middles_xy[chosen], **of_case)


def _example_of_midog_json(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    def shapes(case: Case) -> list[tuple[str, Any]]:
        return [(name, {"bbox": [x - 25, y - 25, x + 25, y + 25]}) for name, x, y in made.marks(case)]

    return _example_document(made, cases, shapes)


# --- the images of a file ---------------------------------------------------------------------------------------------


def _sizes_of_codes(document: _CocoDocument) -> Iterator[tuple[str | None, SizeYx | None]]:
    """Yield, for each annotation, the image that it names, if it does, and the size in its code, if it has one."""
    for entry in (entry for piece in document.pieces for entry in piece if type(entry) is dict):
        code = entry.get("segmentation")
        yield _id_of(entry, "image_id"), plain_size(code.get("size")) if type(code) is dict else None


def _list_images(stream: BinaryIO, request: Request) -> list[ListedImage]:
    document = read_coco(stream, request)
    sizes = {image: plain_size([entry.height, entry.width]) for image, entry in document.images.items()}
    if not sizes or None in sizes.values():
        only = set(sizes)
        for image, size in _sizes_of_codes(document):
            if image is not None and (not only or image in only):
                sizes[image] = sizes.get(image) or size
    return [ListedImage(tuple(reversed(document.names(image)[:4])), None, size, image) for image, size in sizes.items()]


def _find_size(stream: BinaryIO, request: Request, name: str) -> SizeYx | None:
    """Find the size of the image named like the file, or of the only image, from the list of images or a code."""
    document, images = read_coco(stream, request), {name: Case(name, name, 1, 1)}
    fitting = [image for image in document.images if document.find_case(image, images)] or list(document.images)
    if len(fitting) == 1:
        entry = document.images[fitting[0]]
        if size_yx := plain_size([entry.height, entry.width]):
            return size_yx
    sizes = (size for image, size in _sizes_of_codes(document) if not fitting or image in (None, *fitting))
    return next(filter(None, sizes), None)


FORMATS = {
    "coco_json": Format(
        "COCO JSON",
        _example_of_coco_json,
        read=_read_coco_json,
        read_all=_read_coco_json_collection,
        detect=lambda file: EMPTY_LIST if file.head.split() in ([b"[]"], [b"[", b"]"]) else "",
        told_by=(Word(("segmentation", "masks")),),
        list_images=_list_images,
        find_size=_find_size,
    ),
    "midog_json": Format(
        "MIDOG JSON, a box for each nucleus",
        _example_of_midog_json,
        read=_read_midog_json,
        read_all=_read_midog_json_collection,
        told_by=(Word(("bbox",), is_late=True),),
        list_images=_list_images,
        find_size=_find_size,
    ),
}
