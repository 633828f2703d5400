"""Features of GeoJSON that are polygons: all their vertices become one array, not Python lists.

Most of such a text is coordinates. They are removed first, so that the JSON parser gets a short text. After a check of
brackets and commas, their numbers are parsed as one flat list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from struct import pack
from typing import Annotated, Literal

import msgspec
import numpy as np
import orjson

from evaluation.files.decoding.json import repeated_key
from nuclei_metrics.model import Bool, Float64, Int64

COORDINATES = b'"coordinates":'
ESCAPED_LETTER = re.compile(rb"\\u00[67]")  # there are other ways to write "coordinates"
BLANKS = b" \t\r\n"
NUMBERS_AND_BLANKS = b"0123456789+-.eE" + BLANKS
BRACKETS_AND_BLANKS = b"[]:" + BLANKS
EXPONENTS = (b"e", b"E", b"+")
BRACKETS_AS_BLANKS = bytes.maketrans(b"[]:", b"   ")
VERTEX = b"[,],"  # what is left of "[1.5, 2]," without numbers
EDGES = {"Polygon": (b",[[[", b"]]]"), "MultiPolygon": (b",[[[[", b"]]]]")}
COMMA, OPENING, CLOSING, SPACE = b",[] "
FIRST, CHARACTERS = ord("-"), ord("9") - ord("-") + 1  # a number of JSON begins and ends with one of these
ENDS_OF_KEYS = (b'":', b" :", b"\t:", b"\r:", b"\n:")
DEPTH = 8  # of brackets in a collection of the features below

Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # of larger ones orjson makes floats
Scalar = str | Integer | float | bool | None
PropertyValue = Scalar | list[Scalar | dict[str, Scalar]] | dict[str, Scalar | list[Scalar]]


@dataclass(slots=True, eq=False)
class Ring:
    """The vertices of a ring, float64 (V, 2)."""

    points_xy: Float64

    def __len__(self) -> int:
        return len(self.points_xy)


class _Geometry(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A geometry without its coordinates, which have a number instead."""

    type: Literal["Polygon", "MultiPolygon"]
    coordinates: int
    isEllipse: bool = False
    plane: dict[str, Scalar] | None = None


class Feature(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A feature with nothing in it that is deeper than software writes it, and no feature in it."""

    type: Literal["Feature"]
    geometry: _Geometry
    properties: dict[str, PropertyValue] | None = None
    id: str | Integer | None = None
    nucleusGeometry: None = None  # would go before the geometry


@dataclass(frozen=True, slots=True, eq=False)
class Polygons:
    """Features that are polygons, and their rings in document order.

    points_xy  float64 (V, 2)      size     int64 (R,), vertices of each ring, at least one
    feature    int64 (R,), index   is_hole  bool (R,)
    parts      the most that a feature has
    """

    features: list[Feature]
    points_xy: Float64
    size: Int64
    feature: Int64
    is_hole: Bool
    parts: int


@cache
def _decoder() -> msgspec.json.Decoder[list[Feature]]:
    return msgspec.json.Decoder(list[Feature])


def decode_polygons(text: bytes, without_nan: Callable[[bytes], bytes | bytearray] = bytes) -> Polygons | None:
    """Decode the features in the text of the items of a list; None for other items, invalid JSON, or duplicate keys.

    without_nan  writes null for numbers that are not JSON

    >>> text = b'{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[1, 2], [3, 4.5]]]}}'
    >>> decode_polygons(text).points_xy.tolist()
    [[1.0, 2.0], [3.0, 4.5]]
    """
    rest, coordinates = _take_out(text)
    try:
        try:
            features = _decoder().decode(rest)
        except msgspec.MsgspecError:
            if (repaired := without_nan(rest)) is rest:
                return None
            features = _decoder().decode(repaired)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    are_all = len(features) == len(coordinates) == rest.count(b'"coordinates"')
    if not (coordinates and are_all) or (b"\\" in rest and ESCAPED_LETTER.search(rest)):
        return None
    if not _has_each_key_once(rest, features):
        return None
    joined = b":,".join(coordinates)
    rings = _find_rings(b"," + joined.translate(None, NUMBERS_AND_BLANKS), features)
    points_xy = None if rings is None else _parse_positions(joined)
    return None if rings is None or points_xy is None else Polygons(features, points_xy, *rings)


def _take_out(text: bytes) -> tuple[bytes, list[bytes]]:
    """Write the text as a list with 0 instead of coordinates, and give the coordinates.

    >>> _take_out(b'{"coordinates": [[1, 2]]}')
    (b'[{"coordinates":0}]', [b' [[1, 2]]'])
    """
    rest, coordinates, stop = [], [], 0
    find = text.find
    while (key := find(COORDINATES, stop)) >= 0:
        rest.append(text[stop:key])
        start = key + len(COORDINATES)
        if (quote := find(b'"', start)) < 0:
            quote = len(text)
        if (stop := find(b"}", start, quote)) < 0:  # another key comes behind
            stop = text.rfind(b"]", start, quote) + 1 or start
        coordinates.append(text[start:stop])
    rest.append(text[stop:])
    return b"[" + (COORDINATES + b"0").join(rest) + b"]", coordinates


def _find_rings(structure: bytes, features: list[Feature]) -> tuple[Int64, Int64, Bool, int] | None:
    """Find the size of each ring, the index of its feature, whether it is a hole, and the most parts of a feature.

    None if brackets and commas do not form polygons with two numbers per vertex.

    structure  the coordinates of all features without numbers: ",[[[,],[,]]]:,[[[,]]]"
    """
    texts = structure.split(b":")
    kinds = [feature.geometry.type for feature in features]
    if len(texts) != len(kinds):
        return None
    plain = {length: b",[[%b]]" % _brackets_of_vertices(length // len(VERTEX) - 1) for length in set(map(len, texts))}
    if min(plain) >= 2 * len(VERTEX) and "MultiPolygon" not in kinds and texts == [plain[len(text)] for text in texts]:
        size = np.fromiter(map(len, texts), np.int64, len(texts)) // len(VERTEX) - 1
        return size, np.arange(len(size)), np.zeros(len(size), np.bool_), 1
    bodies: list[bytes] = []  # what is within the outermost and innermost brackets of a ring: ",],[,],[,"
    feature_of: list[int] = []
    is_hole: list[bool] = []
    most_parts = 1
    for index, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        opening, closing = EDGES[kind]
        if not (text.startswith(opening) and text.endswith(closing)):
            return None
        inner = text[len(opening) : -len(closing)]
        if b"]]" not in inner:
            bodies.append(inner)
            feature_of.append(index)
            is_hole.append(False)
            continue
        parts = inner.split(b"]]],[[[") if kind == "MultiPolygon" else [inner]
        most_parts = max(most_parts, len(parts))
        for part in parts:
            rings = part.split(b"]],[[")
            bodies += rings
            feature_of += [index] * len(rings)
            is_hole += [False] + [True] * (len(rings) - 1)
    joined = b"],[".join(bodies)
    if not joined or joined != _brackets_of_vertices((len(joined) + 3) // len(VERTEX))[1:-1]:
        return None
    size = (np.fromiter(map(len, bodies), np.int64, len(bodies)) + 3) // len(VERTEX)
    return size, np.array(feature_of, np.int64), np.array(is_hole, np.bool_), most_parts


def _brackets_of_vertices(count: int) -> bytes:
    """Write brackets and commas of so many vertices, at least one."""
    return (VERTEX * count)[:-1]


def _has_each_key_once(text: bytes, features: list[Feature]) -> bool:
    """Return whether no object in the text has a key twice; as a rule there are as many colons as keys were found."""
    of_features = [feature.properties for feature in features if feature.properties is not None]
    keys = 4 * len(features) + sum(feature.id is not None for feature in features)
    keys += len(of_features) + sum(map(len, of_features))
    for key in ("classification", "measurements"):
        keys += sum([len(value) for each in of_features if type(value := each.get(key)) is dict])
    if text.count(b":") == keys or sum(map(text.count, ENDS_OF_KEYS)) == keys:
        return True
    return repeated_key(text) is None


def _parse_positions(text: bytes) -> Float64 | None:
    """Parse the numbers of coordinates in pairs; None if some are outside the innermost brackets.

    text   coordinates with the brackets and commas of positions

    >>> _parse_positions(b"[[1, 2], [3, 4.5]]").tolist(), _parse_positions(b"[[1, ]2, [3, 4.5]]")
    ([[1.0, 2.0], [3.0, 4.5]], None)
    """
    data = np.frombuffer(text, np.uint8)
    if ((data[1:] <= SPACE) & (data[:-1] != COMMA)).any() or any(character in text for character in EXPONENTS):
        data = np.frombuffer(text.translate(None, BLANKS), np.uint8)
        flat = text.translate(BRACKETS_AS_BLANKS)
    else:  # blanks only behind commas: no numbers become one without them
        flat = text.translate(None, BRACKETS_AND_BLANKS)
    is_number = (data - np.uint8(FIRST)) < CHARACTERS
    if (is_number[1:] & (data[:-1] == CLOSING)).any() or (is_number[:-1] & (data[1:] == OPENING)).any():
        return None
    try:
        numbers = orjson.loads(b"[" + flat + b"]")
    except orjson.JSONDecodeError:
        return None
    return np.frombuffer(pack(f"{len(numbers)}d", *numbers)).reshape(-1, 2)
