"""Files that list nuclei one by one: JSON of the platform, HoVer-Net, CellViT and labelme; lines of YOLO.

::

    {"type": "Multiple polygons", "version": {"major": 1, "minor": 0}, "polygons": [
        {"name": "…", "seed_point": [x, y, z], "path_points": [[x, y, z], …], "sub_type": "", "groups": [],
         "probability": 0.9}]}
    {"type": "Multiple points", "version": {"major": 1, "minor": 0}, "points": [
        {"name": "…", "point": [x, y, z], "probability": 0.9}]}
    {"mag": 40, "nuc": {"1": {"bbox": …, "centroid": [x, y], "contour": [[x, y], …], "type_prob": 0.9, "type": 1}}}
    {"wsi_metadata": …, "type_map": {"1": "Neoplastic"}, "cells": [{"centroid": …, "contour": …, "type": 1}]}
    {"version": …, "shapes": [{"label": "…", "points": [[x, y], …], "group_id": null, "shape_type": "polygon"}],
     "imageHeight": 1000, "imageWidth": 1000}
    0 0.681 0.485 0.670 0.487 0.676 0.487            class x1 y1 x2 y2 x3 y3 …
    1 0.504 0.000 0.501 0.004 0.498 0.004 0.93       with the confidence as the last number

From files of the platform only ``path_points`` or ``point``, ``name`` and ``probability`` are read; ``z`` is optional.
The schemas come from grand-challenge.org (grandchallenge/components/schemas.py), which allows no further keys.

HoVer-Net (``infer/base.py`` in https://github.com/vqdang/hover_net) and CellViT (``inference.py`` in
https://github.com/TIO-IKIM/CellViT-Inference; ``cell_detection.json`` has no contours) take contours from
OpenCV: their vertices are pixels, so ``origin`` is ``pixel_centre``. labelme (``label_file.py`` in
https://github.com/wkentaro/labelme) counts from the corner of the first pixel, as Ultralytics does.

YOLO's coordinates are shares of the width and height of the image, which cases.csv has.
https://docs.ultralytics.com/datasets/segment, ``Results.save_txt`` in https://github.com/ultralytics/ultralytics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import orjson

from evaluation.challenge.formats import ContoursJsonRules, YoloTxtRules
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.csv import numbers_of
from evaluation.files.decoding.json import Records, read_records, resting_collector
from evaluation.files.decoding.streams import plain_chunks
from evaluation.files.formats.annotation_lists import NUCLEI_AT_ONCE, NucleusLists, names_and_probabilities, root_words
from evaluation.files.formats.format import Example, Format, Request, SizeYx, Word, plain_size
from evaluation.files.formats.sheet import SKIPPED, UNKNOWN, class_of_text, json_of
from evaluation.findings import Finding, fault, for_each, quote
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Case, Float64, Outlines, Points

VERSION = {"major": 1, "minor": 0}
PLANE = 0.5
COUNTING_NAME = re.compile(r"Point \d+")
YOLO_LINE = re.compile(rb"[0-9]{1,5}(?: +[0-9.eE+-]+){6,}\s*?(?:\n|$)", re.ASCII)


def _read_polygons_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the outlines of a "Multiple polygons" or "Polygon" file, in document order, in px.

    ``rules.units`` um and mm become px by the spacing of the case: x_px = 1000 * x_mm / spacing_um. The class of a
    polygon is its ``name``; ``source_id`` is its number, from 1. A list without polygons is valid, a polygon without
    vertices is not. Raises InputFault with all faults: too-large, too-deep, not-json, wrong-format,
    invalid-annotation, empty-polygon, invalid-coordinate, unknown-class, invalid-probability, missing-probability.
    """
    return _read_items(stream, request, case, "polygon", "path_points", "a list of positions")


def _read_points_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the points of a "Multiple points" or "Point" file, in document order, in px.

    Otherwise as ``_read_polygons_json``; "Point 0", "Point 1", … of viewers and MONKEY files count as unnamed.
    """
    return _read_items(stream, request, case, "point", "point", "a position [x, y, z]")


def _read_items(stream: BinaryIO, request: Request, case: Case, kind: str, key: str, what: str) -> Annotations:
    """Read the nuclei of a file of the platform.

    kind, key   "polygon" or "point", and the key of the vertices or the position of an item
    what        is expected there
    """
    where = request.where
    with resting_collector():
        records = read_records(stream, key=f"{kind}s", where=where, limits=request.limits)
        nuclei = NucleusLists(request, case, kind)
        of_points = nuclei.of_points
        for piece in _items_of(records, (f"Multiple {kind}s", kind.title()), key, where):
            for item in piece:
                nuclei.next_annotation()
                is_item = type(item) is dict and key in item
                if not is_item or not (of_points or type(item[key]) is list):
                    expected = f"an object with {quote(key)}, {what}"
                    nuclei.fault("invalid-annotation", wording="value", expected=expected, value=json_of(item))
                    continue
                name = item.get("name")
                counts = of_points and type(name) is str and COUNTING_NAME.fullmatch(name)
                if counts and not nuclei.is_known(name):
                    name = None
                if (class_id := nuclei.class_of(name)) != SKIPPED:
                    nuclei.add_nucleus(item[key], class_id, nuclei.number, item.get("probability"))
            nuclei.settle()
        return nuclei.annotations()


def _items_of(records: Records, kinds: tuple[str, str], key: str, where: str) -> Iterator[list[Any]]:
    """Return the items of a file of the platform, some at a time.

    kinds  the types of a file with a list of items, and of a file with a single item
    key    of every item

    Raises InputFault ("wrong-format") for a file of another type.
    """
    several, single = kinds
    root = records.root
    kind = root.get("type", several) if isinstance(root, dict) else None
    if records.pieces is not None and kind == several:
        return records.pieces
    if kind == single and key in root:
        return iter([[root]])
    got = f"a {quote(several)} file without its list" if kind == several else root_words(root)
    raise refused("wrong-format", where, got=got, expected=f"a {quote(several)} file of the platform")


def write_polygons_json(
    outlines: Outlines, class_names: Sequence[str], name: str, *, where: str | None = None
) -> bytes:
    """Create a "Multiple polygons" file called ``name``, in the units that the outlines have. ``where`` is for
    messages.

    class_names  class id c has the name ``class_names[c - 1]``; nuclei of the class 0 get no name

    Nuclei without a vertex are omitted, and class probabilities. The format cannot contain holes or several parts:
    raises InputFault ("unsupported-shape") for them, and ValueError for ids of classes without a name.
    """
    first = np.searchsorted(outlines.ring_instance, np.arange(len(outlines) + 1))

    def shape_fault(index: int) -> Finding:
        has_hole = outlines.ring_is_hole[first[index] : first[index + 1]].any()
        place = f"{where or quote(name)}, nucleus {quote(outlines.source_id[index])}"
        what = "with a hole" if has_hole else "with several parts"
        return fault("unsupported-shape", place, wording="not-one-ring", what=what)

    if wrong := np.flatnonzero(np.diff(first) != 1).tolist():
        raise InputFault(*for_each(wrong, shape_fault))
    vertices = _in_plane(outlines.points_xy)
    paths = [vertices[start:stop] for start, stop in pairwise(outlines.ring_start.tolist())]
    polygons = []
    for path, of_nucleus in zip(paths, names_and_probabilities(outlines, class_names), strict=True):
        if len(path):
            polygon = {"seed_point": path[0], "path_points": path, "sub_type": "", "groups": []}
            polygons.append(named(polygon, *of_nucleus))
    file = {"type": "Multiple polygons", "name": name, "version": VERSION, "polygons": polygons}
    return orjson.dumps(file, option=orjson.OPT_SERIALIZE_NUMPY)


def _in_plane(points_xy: Float64) -> Float64:
    """Add the z of the platform for images without depth to vertices, float64 (V, 3)."""
    return np.ascontiguousarray(np.column_stack([points_xy, np.full(len(points_xy), PLANE)]))


def named(item: dict[str, Any], name: str | None, probability: float | None) -> dict[str, Any]:
    """Return the name and the probability of a nucleus for an item, if present."""
    return {
        **({} if name is None else {"name": name}),
        **item,
        **({} if probability is None else {"probability": probability}),
    }


def _example_of_polygons_json(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return write_polygons_json(made.outlines(cases[0], class_name), made.names, "nuclei")


# --- Multiple points --------------------------------------------------------------------------------------------------


def write_points_json(points: Points, class_names: Sequence[str]) -> bytes:
    """Create a "Multiple points" file, in the units that the points have.

    class_names  class id c has the name ``class_names[c - 1]``; nuclei of the class 0 get no name

    Class probabilities are omitted. Raises ValueError for ids of classes without a name.
    """
    nuclei = zip(_in_plane(points.points_xy), names_and_probabilities(points, class_names), strict=True)
    items = [named({"point": position}, *of_nucleus) for position, of_nucleus in nuclei]
    file = {"type": "Multiple points", "version": VERSION, "points": items}
    return orjson.dumps(file, option=orjson.OPT_SERIALIZE_NUMPY)


def _example_of_points_json(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return write_points_json(made.points(cases[0], class_name), made.names)


# --- HoVer-Net, CellViT and labelme. ----------------------------------------------------------------------------------


OUTLINE_TYPES = ("polygon", "rectangle")  # of labelme's shapes


# The name of a tool, and the key of its list, or object, of nuclei.
TOOLS = {"hovernet": ("HoVer-Net", "nuc"), "cellvit": ("CellViT", "cells"), "labelme": ("labelme", "shapes")}


def _read_contours_json(stream: BinaryIO, request: Request[ContoursJsonRules], case: Case) -> Annotations:
    """Read the nuclei of a file in document order: their contours or, with ``shape = "point"``, their centroids.

    - A class is a name (labelme), or a number: its name in ``type_map`` if this is a class, otherwise
      in
      ``class_values``. The number 0 and null mean no class.
    - ``type_prob`` is the probability. ``source_id`` is HoVer-Net's id, otherwise the position in the file, from 1.
    - labelme: polygons and rectangles with one ``group_id`` and one label are parts of a nucleus; ``point`` is a
      nucleus where nuclei are points. Other shapes are refused, or omitted with ``other_shapes = "skip"``.

    Raises InputFault with all faults: too-large, too-deep, not-json, duplicate-key, wrong-format,
    invalid-annotation, unsupported-shape, empty-polygon, invalid-coordinate, unknown-class, invalid-probability,
    missing-probability.
    """
    with resting_collector():
        title, key = TOOLS[request.rules.tool]
        records = read_records(stream, key=key, where=request.where, limits=request.limits, nan_is_null=True)
        reader = _ContourReader(request, case, _names_of_types(records.root))
        root = records.root if isinstance(records.root, dict) else None
        if records.pieces is not None and root is not None:
            reader.add(records.pieces)
        elif root is not None and isinstance(by_id := root.get(key), dict) and not reader.is_labelme:
            reader.add_named(by_id)
        else:
            expected = f"a file of {title}, with {quote(key)}"
            raise refused("wrong-format", request.where, got=root_words(records.root), expected=expected)
        return reader.nuclei.annotations()


def _size_in_labelme(stream: BinaryIO, request: Request, name: str) -> SizeYx | None:
    if request.rules.value("tool") != "labelme":
        return None
    root = read_records(stream, key="shapes", where=request.where, limits=request.limits, nan_is_null=True).root
    return plain_size([root.get("imageHeight"), root.get("imageWidth")]) if isinstance(root, dict) else None


def _names_of_types(root: Any) -> dict[int, str]:
    """Read the names of CellViT's class numbers; older versions write ``{"Neoplastic": 1}``.

    >>> _names_of_types({"type_map": {"1": "Neoplastic"}}), _names_of_types({"type_map": {"Neoplastic": 1}})
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


class _ContourReader:
    """Hands nuclei over to NucleusLists."""

    def __init__(self, request: Request[ContoursJsonRules], case: Case, type_names: Mapping[int, str]) -> None:
        self.is_labelme = request.rules.tool == "labelme"
        self.values = request.classes.values
        self.type_names = type_names
        self.nuclei = NucleusLists(request, case, "shape" if self.is_labelme else "cell")

    def add(self, pieces: Iterator[list[Any]]) -> None:
        """Add nuclei of a list. labelme's parts of a nucleus may be anywhere in it: they wait for its end."""
        grouped: dict[str, tuple[int, Any, list[list[Any]]]] = {}
        for piece in pieces:
            for record in piece:
                self.nuclei.next_annotation()
                if self.is_labelme:
                    self.add_shape(record, grouped)
                else:
                    self.add_record(record, self.nuclei.number)
            self.nuclei.settle()
        for number, label, parts in grouped.values():
            self.nuclei.number = number
            self.nuclei.add_outline(parts, self.nuclei.class_of(label), number)
        self.nuclei.settle()

    def add_named(self, records: Mapping[str, Any]) -> None:
        """Add nuclei of an object, by their ids."""
        for source_id, record in records.items():
            self.nuclei.next_annotation()
            self.add_record(record, source_id)
        self.nuclei.settle()

    def add_record(self, record: Any, source_id: object) -> None:
        key = "centroid" if self.nuclei.of_points else "contour"
        positions = record.get(key) if type(record) is dict else None
        if type(positions) is not list:
            fix = ""
            if type(record) is dict and type(record.get("centroid")) is list:
                fix = "It has no contours: submit the file with contours. Organisers: or set shape = 'point'."
            expected = f"an object with a list {quote(key)}"
            self.nuclei.fault("invalid-annotation", wording="value", expected=expected, fix=fix, value=json_of(record))
            return
        class_id = self.class_of_type(record.get("type"))
        if class_id != SKIPPED:
            self.nuclei.add_nucleus(positions, class_id, source_id, record.get("type_prob"))

    def class_of_type(self, number: Any) -> int:
        """Look up the class id of a type, or SKIPPED."""
        name = number
        if type(number) is int:
            name = self.type_names.get(number, str(number)) if number else None
            is_named = number in self.type_names and self.nuclei.is_known(name)
            if number in self.values and not is_named and not self.nuclei.request.file_class:
                return self.values[number]
        return self.nuclei.class_of(name)

    def add_shape(self, shape: Any, grouped: dict[str, tuple[int, Any, list[list[Any]]]]) -> None:
        """Add a shape of labelme."""
        points = shape.get("points") if type(shape) is dict else None
        if type(points) is not list:
            expected = "an object with a list 'points'"
            self.nuclei.fault("invalid-annotation", wording="value", expected=expected, value=json_of(shape))
            return
        label, kind = shape.get("label"), shape.get("shape_type") or "polygon"
        if self.nuclei.look_up(label) == SKIPPED:
            return
        wanted = ("point",) if self.nuclei.of_points else OUTLINE_TYPES
        if kind not in wanted:
            fix = "Leave it out." if self.nuclei.of_points else "Draw it as a polygon, or leave it out."
            self.nuclei.refuse_shape("shape", json_of(kind), wanted, fix)
            return
        if self.nuclei.of_points:
            class_id = self.nuclei.class_of(label)
            self.nuclei.add_points(points[:1], class_id, [self.nuclei.number] * len(points[:1]))
            return
        ring = _corners_of(points) if kind == "rectangle" else points
        group = shape.get("group_id")
        own = f"{json_of(group)} {json_of(label)}" if group is not None else f"- {self.nuclei.number}"
        grouped.setdefault(own, (self.nuclei.number, label, []))[2].append([ring])


def _corners_of(points: list[Any]) -> list[Any]:
    """Return the corners of a rectangle from two opposite corners; other lists unchanged.

    >>> _corners_of([[1, 2], [5, 9]])
    [[1, 2], [5, 2], [5, 9], [1, 9]]
    """
    if len(points) != 2 or not all(type(point) is list and len(point) == 2 for point in points):
        return points
    (left, top), (right, bottom) = points
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def _example_of_contours_json(made: Example[ContoursJsonRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    case, rules = cases[0], made.rules
    marks = made.marks(case, class_name)
    rings = [[]] * len(marks) if rules.are_points else [ring.tolist() for _, ring in made.rings(case, class_name)]
    document: dict[str, Any] = {"version": "5.5.0", "flags": {}, "imagePath": f"{case.name}.png", "imageData": None}
    cells, shapes = list[dict[str, Any]](), list[dict[str, Any]]()
    for (name, x, y), ring in zip(marks, rings, strict=True):
        kind = "polygon" if ring else "point"
        own = {"label": name, "group_id": None, "shape_type": kind, "flags": dict[str, Any]()}
        shapes.append({**own, "points": ring or [[x, y]]})
        cells.append({"centroid": [x, y], **({"contour": ring} if ring else {}), "type": made.values[name]})
    if rules.tool == "labelme":
        document |= {"shapes": shapes, "imageHeight": case.height, "imageWidth": case.width}
    elif rules.tool == "hovernet":
        document = {"mag": 40, "nuc": {str(index): cell for index, cell in enumerate(cells, start=1)}}
    else:
        type_map = {"0": "Background", **{str(number): name for name, number in made.values.items()}}
        document = {"wsi_metadata": {}, "type_map": type_map, "cells": cells}
    return orjson.dumps(document)


def _explain_contours_json(rules: ContoursJsonRules) -> list[str]:
    return [f"The files are written by {TOOLS[rules.tool][0]}."]


# --- YOLO: a line for each nucleus, with the number of its class and its outline. -------------------------------------


BEYOND_IMAGE = 0.01  # a share of the image; Ultralytics allows it too
FEWEST = 6  # numbers of an outline
NUMBERS_OF_BOX = (4, 5)  # numbers of a box, without and with its confidence


def _read_yolo_txt(stream: BinaryIO, request: Request[YoloTxtRules], case: Case) -> Annotations:
    """Read the outlines of a file in the order of its lines; ``source_id`` is the line, from 1. An empty file has no
    nuclei.

    ``class_values`` maps the number to the class; in a challenge of one class without them the number does not matter.
    An odd number of coordinates ends with the probability, for all nuclei or no nucleus. A line of fewer than two
    vertices is ignored with a warning.

    Raises InputFault: too-large, invalid-annotation, invalid-coordinate, unknown-class, invalid-probability,
    missing-probability.
    """
    data = b"".join(plain_chunks(stream, request.where, request.limits.bytes_per_file))
    nuclei = NucleusLists(request, case, "line")
    for line in data.splitlines():
        nuclei.next_annotation()
        if words := line.split():
            _add_line(nuclei, request, words, case)
        if nuclei.number % NUCLEI_AT_ONCE == 0:
            nuclei.settle()
    nuclei.settle()
    return nuclei.annotations()


def _add_line(nuclei: NucleusLists, request: Request[YoloTxtRules], words: list[bytes], case: Case) -> None:
    """Add the nucleus of a line."""
    text, numbers = words[0].decode("utf-8", "replace"), numbers_of(words[1:])
    class_id = request.file_class or class_of_text(text, request.classes)
    if class_id == UNKNOWN and not request.classes.values:
        class_id = request.classes.of_nameless or UNKNOWN
    if class_id == SKIPPED:
        return
    if class_id == UNKNOWN:
        nuclei.note_unknown(text, nuclei.number)
        class_id = 0
    if len(numbers) < NUMBERS_OF_BOX[0]:  # of a mask that was too small for an outline
        nuclei.left_out.fault("left-out", nuclei.here, wording="no-outline-in-line", words=len(words))
        return
    if len(numbers) < FEWEST:
        nuclei.fault("invalid-annotation", wording="box-in-line")
        return
    vertices = numbers[: len(numbers) // 2 * 2]
    if len(wrong := np.flatnonzero(~(np.abs(vertices - 0.5) <= 0.5 + BEYOND_IMAGE))):
        nuclei.fault("invalid-coordinate", wording="no-share", text=words[1 + wrong[0]].decode("utf-8", "replace"))
        return
    probability = float(numbers[-1]) if len(numbers) % 2 else None
    ring = (vertices.reshape(-1, 2) * (case.width, case.height)).tolist()
    nuclei.add_outline([[ring]], class_id, nuclei.number, probability)


def _example_of_yolo_txt(made: Example[YoloTxtRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    size = (cases[0].width, cases[0].height)
    lines = [
        " ".join(map(str, [made.values[name], *(ring / size).ravel().tolist()]))
        for name, ring in made.rings(cases[0], class_name)
    ]
    return "".join(f"{line}\n" for line in lines).encode()


FORMATS = {
    "polygons_json": Format(
        'JSON of the platform\'s kind "Multiple polygons"',
        _example_of_polygons_json,
        read=_read_polygons_json,
        told_by=(Word(("Multiple polygons",)),),
    ),
    "points_json": Format(
        'JSON of the platform\'s kind "Multiple points"',
        _example_of_points_json,
        read=_read_points_json,
        told_by=(Word(("Multiple points",)),),
    ),
    "contours_json": Format(
        "JSON of HoVer-Net, CellViT or labelme",
        _example_of_contours_json,
        read=_read_contours_json,
        explain=_explain_contours_json,
        told_by=(
            Word(("nuc",), {"tool": "hovernet", "shape": "outline"}, is_key=True),
            Word(("contour",), {"tool": "cellvit", "shape": "outline"}, is_key=True),
            Word(("cells",), {"tool": "cellvit", "shape": "point"}, is_key=True, is_late=True),
            Word(("shapes",), {"tool": "labelme", "shape": "outline"}, is_key=True),
        ),
        find_size=_size_in_labelme,
        centred=("hovernet", "cellvit"),
    ),
    "yolo_txt": Format(
        "YOLO's text files: a line `class x1 y1 x2 y2 …` for each nucleus, in shares of width and height",
        _example_of_yolo_txt,
        read=_read_yolo_txt,
        detect=lambda file: "lines of a class and pairs of numbers" if YOLO_LINE.match(file.head) else "",
        places=("shares of the image", ""),
    ),
}
