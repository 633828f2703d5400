"""Features of GeoJSON that are polygons of a single ring: their vertices become arrays, not Python lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec
import numpy as np

from evaluation.model import Float64

NUMBERS_AND_BLANKS = b"0123456789+-.eE \t\r\n"
BRACKETS_AND_BLANKS = b"[] \t\r\n"
VERTEX = b"[,],"  # what is left of "[1.5, 2]," without numbers
VERTICES = VERTEX * (1 << 12)


@dataclass(slots=True, eq=False)
class Ring:
    """The vertices of a ring, float64 (V, 2)."""

    points_xy: Float64

    def __len__(self) -> int:
        return len(self.points_xy)


class Polygon(msgspec.Struct, gc=False):
    """A geometry; its coordinates as they stand in the text."""

    type: Literal["Polygon"]
    coordinates: msgspec.Raw


class Feature(msgspec.Struct, gc=False):
    """Features have other keys too, which no reader looks at."""

    type: Literal["Feature"]
    geometry: Polygon
    properties: dict[str, Any] | None = None
    id: str | int | float | bool | None = None
    nucleusGeometry: None = None  # would go before the geometry


@cache
def decoders() -> tuple[msgspec.json.Decoder[list[Feature]], msgspec.json.Decoder[list[float]]]:
    """Decoders of features, and of numbers."""
    return msgspec.json.Decoder(list[Feature]), msgspec.json.Decoder(list[float])


def decode_polygons(text: bytes | bytearray) -> list[Any] | None:
    """The features in the text of a list, with a Ring as the coordinates of each; None if one is something else.

    >>> text = b'[{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[1, 2], [3, 4.5]]]}}]'
    >>> decode_polygons(text)[0]["geometry"]["coordinates"].points_xy.tolist()
    [[1.0, 2.0], [3.0, 4.5]]
    """
    of_features, of_numbers = decoders()
    try:
        features = of_features.decode(text)
        raw = [bytes(feature.geometry.coordinates) for feature in features]
        sizes = [vertices_of(coordinates.translate(None, NUMBERS_AND_BLANKS)) for coordinates in raw]
        if not raw or min(sizes) < 1:
            return None
        numbers = of_numbers.decode(b"[" + b",".join(raw).translate(None, BRACKETS_AND_BLANKS) + b"]")
    except msgspec.MsgspecError:
        return None
    points_xy = np.array(numbers, np.float64).reshape(-1, 2)
    found = []
    stop = 0
    for feature, size in zip(features, sizes, strict=True):
        start, stop = stop, stop + size
        geometry = {"type": "Polygon", "coordinates": Ring(points_xy[start:stop])}
        found.append({"type": "Feature", "id": feature.id, "geometry": geometry, "properties": feature.properties})
    return found


def vertices_of(structure: bytes) -> int:
    """How many vertices the brackets and commas of a polygon stand for; 0 if they are not those of one ring in 2-D."""
    vertices, rest = divmod(len(structure) - 3, len(VERTEX))
    pattern = VERTICES if 4 * vertices <= len(VERTICES) else VERTEX * vertices
    is_ring = rest == 0 and structure[:2] == b"[[" and structure[-2:] == b"]]"
    return vertices if is_ring and structure[2:-2] == pattern[: 4 * vertices - 1] else 0
