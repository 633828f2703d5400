"""Overlays as GeoJSON: the state of each nucleus, for QuPath (drag the file onto the open image).

Nuclei are detections with a classification such as "Missed", or "Matched: reference" beside "Matched: prediction",
which QuPath shows in their colour and lets people switch on and off; regions are annotations. Coordinates count from
the corner of the first pixel, in px. Ids of files and kinds of errors are metadata, which QuPath
has from 0.5 on. https://github.com/qupath/qupath, QuPathTypeAdapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from evaluation.formats.geojson import closed_rings, parts_of
from evaluation.instances.trace import trace_outlines
from evaluation.model import Instances, Outlines, Region
from evaluation.report.pictures.drawing import COLOURS, Drawing, DrawnSide, Side
from evaluation.report.pictures.states import STATES, State

IGNORE_REGION, CONTESTED = "Ignore region", "Contested"


@dataclass(frozen=True, slots=True)
class Facts:
    """What QuPath shows of a nucleus: numbers by their names, and texts."""

    measurements: Mapping[str, float]
    metadata: Mapping[str, str]


def overlay_geojson(drawing: Drawing, class_names: Sequence[str], facts: Mapping[Side, Sequence[Facts]]) -> bytes:
    """A FeatureCollection of all nuclei of both sides and of the regions; the same drawing gives the same bytes.

    class_names  class id c is ``class_names[c - 1]``; it becomes the name of the nucleus
    facts        of each nucleus that is scored
    """
    features = [
        *region_features(drawing.ignore, drawing.shape_yx, IGNORE_REGION, "ignored"),
        *region_features(drawing.contested, drawing.shape_yx, CONTESTED, "contested"),
    ]
    for side in drawing.sides:
        features += nucleus_features(side, class_names, facts[side.side])
    return orjson.dumps({"type": "FeatureCollection", "features": features}, option=orjson.OPT_SERIALIZE_NUMPY)


def nucleus_features(side: DrawnSide, class_names: Sequence[str], facts: Sequence[Facts]) -> list[dict[str, Any]]:
    features = []
    for index, geometry in geometries_of(side):
        state, class_id = int(side.state[index]), int(side.instances.class_id[index])
        properties: dict[str, Any] = {
            "objectType": "detection",
            "classification": {"name": name_of(STATES[state], side.side), "color": list(COLOURS[state])},
        }
        if 0 < class_id <= len(class_names):
            properties["name"] = class_names[class_id - 1]
        if STATES[state] != "ignored":
            properties |= {"measurements": facts[index].measurements, "metadata": facts[index].metadata}
        identity = f"{side.side} {side.instances.source_id[index]}"
        features.append({"type": "Feature", "id": identity, "geometry": geometry, "properties": properties})
    return features


def name_of(state: State, side: Side) -> str:
    """The classification of a nucleus in QuPath. Both nuclei of a pair have the same state.

    >>> name_of("missed", "reference"), name_of("wrong_class", "prediction")
    ('Missed', 'Wrong class: prediction')
    """
    name = state.replace("_", " ").capitalize()
    return f"{name}: {side}" if state in ("matched", "wrong_class") else name


def geometries_of(side: DrawnSide) -> Iterator[tuple[int, dict[str, Any]]]:
    """Index and geometry of each nucleus that has pixels or a point."""
    if side.points_xy is not None:
        for index, point in enumerate(side.points_xy.tolist()):
            yield index, {"type": "Point", "coordinates": point}
        return
    for indices, outlines in side.traced():
        yield from zip(indices.tolist(), polygons_of(outlines), strict=True)


def polygons_of(outlines: Outlines) -> list[dict[str, Any]]:
    """The geometry of each instance; all have pixels."""
    rings = closed_rings(outlines.points_xy, outlines.ring_start)
    first = np.searchsorted(outlines.ring_instance, np.arange(len(outlines) + 1)).tolist()
    geometries = []
    for begin, end in pairwise(first):
        parts = [[rings[ring] for ring in part] for part in parts_of(outlines, range(begin, end))]
        several = len(parts) > 1
        polygon = {"type": "MultiPolygon" if several else "Polygon", "coordinates": parts if several else parts[0]}
        geometries.append(polygon)
    return geometries


def region_features(region: Region, shape_yx: tuple[int, int], name: str, state: State) -> list[dict[str, Any]]:
    """A region as an annotation, if it is not empty."""
    if len(region.run_start) == 0:
        return []
    whole = Instances(
        shape_yx,
        np.ones(1, np.int16),
        np.zeros(1, np.int64),
        region.run_start,
        region.run_stop,
        np.zeros(len(region.run_start), np.int32),
    )
    classification = {"name": name, "color": list(COLOURS[STATES.index(state)])}
    properties = {"objectType": "annotation", "classification": classification, "name": name}
    return [
        {"type": "Feature", "geometry": geometry, "properties": properties}
        for geometry in polygons_of(trace_outlines(whole))
    ]
