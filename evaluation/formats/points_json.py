"""The platform's "Multiple points": points with a class name and a probability each.

::

    {"type": "Multiple points", "version": {"major": 1, "minor": 0}, "points": [
        {"name": "…", "point": [x, y, z], "probability": 0.9}]}

Only ``point``, ``name`` and ``probability`` are looked at; ``z`` may be missing. The schema is that of
grand-challenge.org (grandchallenge/components/schemas.py). ``class_probabilities`` are as in "Multiple polygons".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

import orjson

from evaluation.decoding.json import read_records, resting_collector
from evaluation.decoding.streams import memory_told
from evaluation.formats.annotation_lists import NucleusLists, class_name_of, probabilities_of
from evaluation.formats.classes import SKIPPED, shown
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request
from evaluation.formats.polygons_json import CLASS_PROBABILITIES, VERSION, in_plane, items_of, named
from evaluation.model import Annotations, Case, Points

COUNTING_NAME = re.compile(r"Point \d+")


def read_points_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The points of a "Multiple points" or "Point" file, in document order, in px.

    ``rules.units`` um and mm become px by the spacing of the case: x_px = 1000 * x_mm / spacing_um. The class of a
    point is its ``name``; "Point 0", "Point 1", …, which viewers and the files of MONKEY write, stand for no name.
    ``source_id`` is its position, from 1. Raises InputFault with all that is wrong: too-large, too-deep, not-json,
    wrong-format, invalid-annotation, invalid-coordinate, unknown-class, invalid-probability, missing-probability.
    """
    with memory_told(request.where), resting_collector():
        records = read_records(stream, key="points", where=request.where, limits=request.limits)
        nuclei = NucleusLists(request, case, "point")
        for piece in items_of(records, ("Multiple points", "Point"), "point", request.where):
            for point in piece:
                nuclei.next_annotation()
                if type(point) is not dict or "point" not in point:
                    nuclei.fault(
                        "invalid-annotation",
                        wording="value",
                        expected="an object with 'point', a position [x, y, z]",
                        value=shown(point),
                    )
                    continue
                name = point.get("name")
                if type(name) is str and COUNTING_NAME.fullmatch(name) and not nuclei.names.is_known(name):
                    name = None
                if nuclei.names.look_up(name) != SKIPPED:
                    class_id = nuclei.class_of(name)
                    probabilities = point.get("probability"), point.get(CLASS_PROBABILITIES)
                    nuclei.add_points([point["point"]], class_id, [nuclei.number], *probabilities)
            nuclei.settle()
        return Annotations((nuclei.points(),))


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


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return write_points_json(made.points(cases[0], class_name), made.names)


FORMAT = Format(
    words='JSON of the platform\'s kind "Multiple points"',
    read=read_points_json,
    example=example,
)
