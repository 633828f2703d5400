"""The platform's "Multiple polygons" and "Multiple points": outlines or points with a class name and a probability.

::

    {"type": "Multiple polygons", "version": {"major": 1, "minor": 0}, "polygons": [
        {"name": "…", "seed_point": [x, y, z], "path_points": [[x, y, z], …], "sub_type": "", "groups": [],
         "probability": 0.9}]}
    {"type": "Multiple points", "version": {"major": 1, "minor": 0}, "points": [
        {"name": "…", "point": [x, y, z], "probability": 0.9}]}

Only ``path_points`` or ``point``, ``name`` and ``probability`` are looked at; ``z`` may be missing. The schemas are
those of grand-challenge.org (grandchallenge/components/schemas.py), which allow no further keys.
``class_probabilities``, an object with a number for each class by its name, is read all the same: from uploads, and
from outputs of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import orjson

from evaluation.decoding.json import Records, read_records, resting_collector
from evaluation.decoding.streams import memory_told
from evaluation.findings import quote
from evaluation.findings.errors import InputFault, refused
from evaluation.formats.annotation_lists import Faults, NucleusLists, class_name_of, describe, probabilities_of
from evaluation.formats.classes import SKIPPED, shown
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request
from evaluation.model import Annotations, Case, Float64, Outlines, Points

VERSION = {"major": 1, "minor": 0}
PLANE = 0.5
CLASS_PROBABILITIES = "class_probabilities"
COUNTING_NAME = re.compile(r"Point \d+")


def read_polygons_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The outlines of a "Multiple polygons" or "Polygon" file, in document order, in px.

    ``rules.units`` um and mm become px by the spacing of the case: x_px = 1000 * x_mm / spacing_um. The class of a
    polygon is its ``name``; ``source_id`` is its position, from 1. A list without polygons is fine, a polygon without
    vertices is not. Raises InputFault with all that is wrong: too-large, too-deep, not-json, wrong-format,
    invalid-annotation, empty-polygon, invalid-coordinate, unknown-class, invalid-probability, missing-probability.
    """
    return read_items(stream, request, case, "polygon", "path_points", "a list of positions")


def read_points_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The points of a "Multiple points" or "Point" file, in document order, in px.

    Otherwise as ``read_polygons_json``; "Point 0", "Point 1", …, which viewers and the files of MONKEY write, stand for
    no name.
    """
    return read_items(stream, request, case, "point", "point", "a position [x, y, z]")


def read_items(stream: BinaryIO, request: Request, case: Case, kind: str, key: str, what: str) -> Annotations:
    """The nuclei of a file of the platform.

    kind, key   "polygon" or "point", and the key under which an item has its vertices or its position
    what        stands there
    """
    where = request.where
    with memory_told(where), resting_collector():
        records = read_records(stream, key=f"{kind}s", where=where, limits=request.limits)
        nuclei = NucleusLists(request, case, kind)
        of_points = nuclei.of_points
        for piece in items_of(records, (f"Multiple {kind}s", kind.title()), key, where):
            for item in piece:
                nuclei.next_annotation()
                is_item = type(item) is dict and key in item
                if not is_item or not (of_points or type(item[key]) is list):
                    expected = f"an object with {quote(key)}, {what}"
                    nuclei.fault("invalid-annotation", wording="value", expected=expected, value=shown(item))
                    continue
                name = item.get("name")
                if (
                    of_points
                    and type(name) is str
                    and COUNTING_NAME.fullmatch(name)
                    and not nuclei.names.is_known(name)
                ):
                    name = None
                if nuclei.names.look_up(name) != SKIPPED:
                    class_id = nuclei.class_of(name)
                    probabilities = item.get("probability"), item.get(CLASS_PROBABILITIES)
                    if of_points:
                        nuclei.add_points([item[key]], class_id, [nuclei.number], *probabilities)
                    else:
                        nuclei.add_outline([[item[key]]], class_id, nuclei.number, *probabilities)
            nuclei.settle()
        return nuclei.annotations()


def items_of(records: Records, kinds: tuple[str, str], key: str, where: str) -> Iterator[list[Any]]:
    """The items of a file of the platform, some at a time.

    kinds  the types of a file with a list of items, and of one that is a single item
    key    what every item has

    Raises InputFault ("wrong-format") for a file of another type.
    """
    several, single = kinds
    root = records.root
    kind = root.get("type", several) if isinstance(root, dict) else None
    if records.pieces is not None and kind == several:
        return records.pieces
    if kind == single and key in root:
        return iter([[root]])
    seen = f"a {quote(several)} file without its list" if kind == several else describe(root)
    raise refused("wrong-format", where, got=seen, expected=f"a {quote(several)} file of the platform")


def write_polygons_json(
    outlines: Outlines, class_names: Sequence[str], name: str, *, where: str | None = None
) -> bytes:
    """A "Multiple polygons" file called ``name``, in the units that the outlines have. ``where`` is for messages.

    class_names  class id c has the name ``class_names[c - 1]``; nuclei of the class 0 get none

    Nuclei without a vertex are left out; so are class probabilities, since the platform's schema refuses them. The
    format has neither holes nor several parts: raises InputFault ("unsupported-shape") for them, and ValueError for ids
    of classes without a name.
    """
    faults = Faults(where or quote(name))
    first = np.searchsorted(outlines.ring_instance, np.arange(len(outlines) + 1))
    for index in np.flatnonzero(np.diff(first) != 1):
        has_hole = outlines.ring_is_hole[first[index] : first[index + 1]].any()
        what = "with a hole" if has_hole else "of several parts"
        faults.fault(
            "unsupported-shape", f"nucleus {quote(outlines.source_id[index])}", wording="not-one-ring", what=what
        )
    if faults.total:
        raise InputFault(*faults.findings())
    vertices = in_plane(outlines.points_xy)
    paths = [vertices[start:stop] for start, stop in pairwise(outlines.ring_start.tolist())]
    probability = probabilities_of(outlines.probability, len(outlines))
    polygons = []
    for path, class_id, value in zip(paths, outlines.class_id.tolist(), probability, strict=True):
        if len(path):
            polygon = {"seed_point": path[0], "path_points": path, "sub_type": "", "groups": []}
            polygons.append(named(polygon, class_name_of(class_id, class_names), value))
    file = {"type": "Multiple polygons", "name": name, "version": VERSION, "polygons": polygons}
    return orjson.dumps(file, option=orjson.OPT_SERIALIZE_NUMPY)


def in_plane(points_xy: Float64) -> Float64:
    """Vertices with the z that the platform gives to an image without depth, float64 (V, 3)."""
    return np.ascontiguousarray(np.column_stack([points_xy, np.full(len(points_xy), PLANE)]))


def named(item: dict[str, Any], name: str | None, probability: float | None) -> dict[str, Any]:
    """An item with a name and a probability, as far as it has them."""
    return {
        **({} if name is None else {"name": name}),
        **item,
        **({} if probability is None else {"probability": probability}),
    }


def example_of_polygons(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return write_polygons_json(made.outlines(cases[0], class_name), made.names, "nuclei")


# --- Multiple points --------------------------------------------------------------------------------------------------


def write_points_json(points: Points, class_names: Sequence[str]) -> bytes:
    """A "Multiple points" file, in the units that the points have.

    class_names  class id c has the name ``class_names[c - 1]``; nuclei of the class 0 get none

    Class probabilities are left out, since the platform's schema refuses them. Raises ValueError for ids of classes
    without a name.
    """
    probability = probabilities_of(points.probability, len(points))
    items = [
        named({"point": position}, class_name_of(class_id, class_names), value)
        for position, class_id, value in zip(
            in_plane(points.points_xy), points.class_id.tolist(), probability, strict=True
        )
    ]
    file = {"type": "Multiple points", "version": VERSION, "points": items}
    return orjson.dumps(file, option=orjson.OPT_SERIALIZE_NUMPY)


def example_of_points(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return write_points_json(made.points(cases[0], class_name), made.names)


FORMATS = {
    "polygons_json": Format(
        words='JSON of the platform\'s kind "Multiple polygons"', read=read_polygons_json, example=example_of_polygons
    ),
    "points_json": Format(
        words='JSON of the platform\'s kind "Multiple points"', read=read_points_json, example=example_of_points
    ),
}
