"""JSON of HoVer-Net, CellViT and labelme: one file for each image, with a contour and a class for each nucleus.

::

    {"mag": 40, "nuc": {"1": {"bbox": …, "centroid": [x, y], "contour": [[x, y], …], "type_prob": 0.9, "type": 1}}}
    {"wsi_metadata": …, "type_map": {"1": "Neoplastic"}, "cells": [{"centroid": …, "contour": …, "type": 1}]}
    {"version": …, "shapes": [{"label": "…", "points": [[x, y], …], "group_id": null, "shape_type": "polygon"}],
     "imageHeight": 1000, "imageWidth": 1000}

HoVer-Net (``infer/base.py`` in https://github.com/vqdang/hover_net) and CellViT (``inference.py`` in
https://github.com/TIO-IKIM/CellViT-Inference; ``cell_detection.json`` has no contours) take contours from
OpenCV: their vertices are pixels, so ``origin`` is ``pixel_centre``. labelme (``label_file.py`` in
https://github.com/wkentaro/labelme) counts from the corner of the first pixel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from evaluation.challenge.formats import ContoursJsonRules
from evaluation.decoding.json import read_records, resting_collector
from evaluation.decoding.streams import memory_told
from evaluation.findings import quote
from evaluation.findings.errors import refused
from evaluation.formats.annotation_lists import NucleusLists, describe
from evaluation.formats.classes import SKIPPED, UNKNOWN, shown
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request
from evaluation.model import Annotations, Case

OUTLINE_TYPES = ("polygon", "rectangle")  # of labelme's shapes


@dataclass(frozen=True, slots=True)
class Tool:
    """What a tool calls things; ``title`` is its name, ``records`` the key of the list, or dictionary, of nuclei."""

    title: str
    records: str
    outline: str
    point: str | None
    of_class: str
    probability: str | None = None


TOOLS = {
    "hovernet": Tool("HoVer-Net", "nuc", "contour", "centroid", "type", "type_prob"),
    "cellvit": Tool("CellViT", "cells", "contour", "centroid", "type", "type_prob"),
    "labelme": Tool("labelme", "shapes", "points", None, "label"),
}


def read_contours_json(stream: BinaryIO, request: Request[ContoursJsonRules], case: Case) -> Annotations:
    """The nuclei of a file in document order: their contours or, with ``shape = "point"``, their centroids.

    - A class is a name (labelme), or a number: the name that ``type_map`` gives to it if that is a class, else that of
      ``class_values``. The number 0 and null are no class.
    - ``type_prob`` is the probability. ``source_id`` is HoVer-Net's id, else the position in the file, from 1.
    - labelme: polygons and rectangles with one ``group_id`` and one label are parts of a nucleus; ``point`` is a
      nucleus where nuclei are points. Other shapes are refused, or left out with ``other_shapes = "skip"``.

    Raises InputFault with all that is wrong: too-large, too-deep, not-json, duplicate-key, wrong-format,
    invalid-annotation, unsupported-shape, empty-polygon, invalid-coordinate, unknown-class, invalid-probability,
    missing-probability.
    """
    with memory_told(request.where), resting_collector():
        tool = TOOLS[request.rules.tool]
        records = read_records(stream, key=tool.records, where=request.where, limits=request.limits, nan_is_null=True)
        reader = ContourReader(request, case, names_of_types(records.root))
        if records.pieces is not None and isinstance(records.root, dict):
            reader.add(records.pieces)
        elif isinstance(records.root, dict) and isinstance(found := records.root.get(tool.records), dict):
            reader.add_named(found)
        else:
            expected = f"a file of {tool.title}, with {quote(tool.records)}"
            raise refused("wrong-format", request.where, got=describe(records.root), expected=expected)
        return reader.nuclei.annotations()


def size_in_labelme(stream: BinaryIO, request: Request[ContoursJsonRules]) -> list[Any] | None:
    """Height and width that labelme writes, of whatever type they are."""
    if request.rules.tool != "labelme":
        return None
    root = read_records(stream, key="shapes", where=request.where, limits=request.limits, nan_is_null=True).root
    return [root.get("imageHeight"), root.get("imageWidth")] if isinstance(root, dict) else None


def names_of_types(root: Any) -> dict[int, str]:
    """The names of CellViT's class numbers; older versions write ``{"Neoplastic": 1}``.

    >>> names_of_types({"type_map": {"1": "Neoplastic"}}), names_of_types({"type_map": {"Neoplastic": 1}})
    ({1: 'Neoplastic'}, {1: 'Neoplastic'})
    """
    types = root.get("type_map") if isinstance(root, dict) else None
    names: dict[int, str] = {}
    for key, value in types.items() if isinstance(types, dict) else ():
        if type(value) is int:
            names[value] = key
        elif type(value) is str and len(key) < 10 and key.isascii() and key.isdecimal():
            names[int(key)] = value
    return names


class ContourReader:
    """Hands nuclei over to NucleusLists."""

    def __init__(self, request: Request[ContoursJsonRules], case: Case, type_names: Mapping[int, str]) -> None:
        self.rules = request.rules
        self.tool = TOOLS[request.rules.tool]
        self.values = request.classes.values
        self.type_names = type_names
        self.nuclei = NucleusLists(request, case, "shape" if request.rules.tool == "labelme" else "cell")

    def add(self, pieces: Iterator[list[Any]]) -> None:
        """Nuclei of a list. labelme's parts of a nucleus may lie anywhere in it: they wait for its end."""
        grouped: dict[str, tuple[int, Any, list[list[Any]]]] = {}
        for piece in pieces:
            for record in piece:
                self.nuclei.next_annotation()
                if self.rules.tool == "labelme":
                    self.add_shape(record, grouped)
                else:
                    self.add_record(record, self.nuclei.number)
            self.nuclei.settle()
        for number, label, parts in grouped.values():
            self.nuclei.number = number
            self.nuclei.add_outline(parts, self.nuclei.class_of(label), number, None, None)
        self.nuclei.settle()

    def add_named(self, records: Mapping[str, Any]) -> None:
        """Nuclei of an object, by their ids."""
        for source_id, record in records.items():
            self.nuclei.next_annotation()
            self.add_record(record, source_id)
        self.nuclei.settle()

    def add_record(self, record: Any, source_id: object) -> None:
        key = self.tool.point if self.rules.are_points else self.tool.outline
        positions = record.get(key) if type(record) is dict else None
        if type(positions) is not list:
            fix = ""
            if type(record) is dict and type(record.get(self.tool.point)) is list:
                fix = "It has no contours: hand in the file that has them, or let shape be 'point'."
            self.nuclei.fault(
                "invalid-annotation",
                wording="value",
                expected=f"an object with a list {quote(key)}",
                fix=fix,
                value=shown(record),
            )
            return
        class_id = self.class_of_type(record.get(self.tool.of_class))
        if class_id != SKIPPED:
            self.add_nucleus([[positions]], class_id, source_id, record.get(self.tool.probability))

    def add_nucleus(self, parts: list[list[Any]], class_id: int, source_id: object, probability: object) -> None:
        if self.rules.are_points:
            self.nuclei.add_points([parts[0][0]], class_id, [source_id], probability, None)
        else:
            self.nuclei.add_outline(parts, class_id, source_id, probability, None)

    def class_of_type(self, number: Any) -> int:
        """The class id of a type, or SKIPPED."""
        names = self.nuclei.names
        if type(number) is not int or number == 0:
            name = None if number == 0 and type(number) is int else number
        else:
            name = self.type_names.get(number, str(number))
            is_named = number in self.type_names and names.look_up(name) != UNKNOWN
            if not is_named and not names.file_class and number in self.values:
                return self.values[number]
        return SKIPPED if names.look_up(name) == SKIPPED else self.nuclei.class_of(name)

    def add_shape(self, shape: Any, grouped: dict[str, tuple[int, Any, list[list[Any]]]]) -> None:
        """A shape of labelme."""
        points = shape.get("points") if type(shape) is dict else None
        if type(points) is not list:
            self.nuclei.fault(
                "invalid-annotation", wording="value", expected="an object with a list 'points'", value=shown(shape)
            )
            return
        label, kind = shape.get("label"), shape.get("shape_type") or "polygon"
        if self.nuclei.names.look_up(label) == SKIPPED:
            return
        wanted = ("point",) if self.rules.are_points else OUTLINE_TYPES
        if kind not in wanted:
            fix = "Leave it out." if self.rules.are_points else "Draw it as a polygon, or leave it out."
            self.nuclei.refuse_shape("shape", shown(kind), wanted, fix)
            return
        if self.rules.are_points:
            class_id = self.nuclei.class_of(label)
            self.nuclei.add_points(points[:1], class_id, [self.nuclei.number] * len(points[:1]), None, None)
            return
        ring = corners_of(points) if kind == "rectangle" else points
        group = shape.get("group_id")
        own = f"{shown(group)} {shown(label)}" if group is not None else f"- {self.nuclei.number}"
        grouped.setdefault(own, (self.nuclei.number, label, []))[2].append([ring])


def corners_of(points: list[Any]) -> list[Any]:
    """The corners of a rectangle of which two opposite ones are given; other lists as they are.

    >>> corners_of([[1, 2], [5, 9]])
    [[1, 2], [5, 2], [5, 9], [1, 9]]
    """
    if len(points) != 2 or not all(type(point) is list and len(point) == 2 for point in points):
        return points
    (left, top), (right, bottom) = points
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def example(made: Example[ContoursJsonRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    case, rules = cases[0], made.rules
    marks = made.marks(case, class_name)
    rings = [[]] * len(marks) if rules.are_points else [ring.tolist() for _, ring in made.rings(case, class_name)]
    document: dict[str, Any]
    shapes: list[dict[str, Any]]
    if rules.tool == "labelme":
        shapes = [
            {
                "label": name,
                "points": ring or [[x, y]],
                "group_id": None,
                "shape_type": "polygon" if ring else "point",
                "flags": {},
            }
            for (name, x, y), ring in zip(marks, rings, strict=True)
        ]
        size = {"imageHeight": case.height, "imageWidth": case.width}
        document = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": f"{case.name}.png", **size}
        return orjson.dumps({**document, "imageData": None})
    cells = [
        {"centroid": [x, y], **({"contour": ring} if ring else {}), "type": made.values[name]}
        for (name, x, y), ring in zip(marks, rings, strict=True)
    ]
    if rules.tool == "hovernet":
        return orjson.dumps({"mag": 40, "nuc": {str(index): cell for index, cell in enumerate(cells, start=1)}})
    type_map = {"0": "Background", **{str(number): name for name, number in made.values.items()}}
    return orjson.dumps({"wsi_metadata": {}, "type_map": type_map, "cells": cells})


def explain(rules: ContoursJsonRules) -> list[str]:
    return [f"The files are those of {TOOLS[rules.tool].title}."]


FORMATS = {
    "contours_json": Format(
        words="JSON of HoVer-Net, CellViT or labelme", explain=explain, read=read_contours_json, example=example
    )
}
