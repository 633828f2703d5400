"""GeoJSON (RFC 7946) as QuPath, CellViT and PUMA write it.

::

    {"type": "FeatureCollection", "features": [
        {"type": "Feature", "id": "…", "geometry": {"type": "Polygon", "coordinates": [[[x, y], …], [a hole], …]},
         "properties": {"classification": {"name": "…", "color": [r, g, b]}, "measurements": {"Probability": …}}}]}

A list of features, one Feature, and geometries without features are read as well, compressed with gzip or not.
QuPath: https://github.com/qupath/qupath, QuPathTypeAdapters and ROITypeAdapters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import pairwise
from struct import pack
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import numpy as np
import orjson
import shapely

from evaluation.challenge.formats import FeatureRules, GeojsonRules
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.json import JsonText, repeated_key, resting_collector
from evaluation.files.formats.annotation_lists import NucleusLists, Rings, names_and_probabilities, root_words
from evaluation.files.formats.format import Example, Format, Request, Word
from evaluation.files.formats.sheet import SKIPPED, UNKNOWN, class_of_name, json_of
from evaluation.findings import quote
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Case, Float64, Int64, Outlines

FEATURES = "features"
PARTS_OF_A_NUCLEUS = 10  # more of them are hardly ever one nucleus
OUTLINE_KINDS = ("Polygon", "MultiPolygon")
POINT_KINDS = ("Point", "MultiPoint")
COLLECTION = "GeometryCollection"
GEOMETRIES = (*OUTLINE_KINDS, *POINT_KINDS, "LineString", "MultiLineString", COLLECTION)
PROBABILITIES = ("probability", "Probability", "score", "Score", "confidence", "Confidence", "Detection probability")
NAMED = frozenset(PROBABILITIES)
OBJECT_TYPES = frozenset({"annotation", "detection", "cell", "tile", "tma_core", "root", "unknown"})  # of QuPath
TYPES_AS_IDS = frozenset(
    f"{kind}Object" for kind in ("PathAnnotation", "PathDetection", "PathCell", "PathTile", "PathRoot", "TMACore")
)  # what QuPath 0.2 wrote as the id of every object
NO_IDS = TYPES_AS_IDS | {""}
NUCLEI_OF_QUPATH = frozenset({"detection", "cell", "PathDetectionObject", "PathCellObject"})
AROUND_NUCLEI = (OBJECT_TYPES | TYPES_AS_IDS) - NUCLEI_OF_QUPATH - {"unknown"}
WORD_OF_NUCLEI = re.compile(rb'"(?:detection|cell|PathDetectionObject|PathCellObject)"')
WORD_AROUND = re.compile(rb'"(?:annotation|tile|tma_core|root|Path(?:Annotation|Tile|Root)Object|TMACoreObject)"')
MOST_INSIDE = 50_000_000  # detections of an annotation, of all annotations together
MORE_THAN_A_NUCLEUS = 2  # times the area of a nucleus inside: less is the same one again, drawn by hand
GEOJSON_WORDS = "GeoJSON: a FeatureCollection, a list of features, a Feature or a geometry"


class Malformed(Exception):
    """An annotation is not built according to GeoJSON; carries the words of its finding. Never leaves this module."""

    def __init__(self, **words: Any) -> None:
        super().__init__(words)
        self.words = words


def _read_geojson(stream: BinaryIO, request: Request[GeojsonRules], case: Case) -> Annotations:
    """Read the nuclei of a GeoJSON file in document order: Outlines or Points, as ``rules.shape`` states.

    - A feature is a nucleus. Its geometry is ``nucleusGeometry`` if it has one (cells of QuPath), otherwise
      ``geometry``.
      All parts of a MultiPolygon or GeometryCollection belong to the same nucleus; every point of a MultiPoint is a
      nucleus of its own. A geometry without a feature is a nucleus without a class; if the whole file is one
      GeometryCollection, each of its members is. Features in ``properties.childObjects`` count too, after their parent.
    - The class is ``properties.classification``, or its ``name``, or its ``names`` joined by ": ". Without one,
      ``properties.objectType``, or ``properties.type`` (TIAToolbox: a name or a number), is the class if it is the name
      of one. Where classes are unknown, QuPath's own types of objects are none.
    - The probability is the first of probability, score, confidence (TIAToolbox: prob) in ``properties``, or the
      measurement of this name or of the name "Detection probability".
    - ``source_id`` is the feature's id, or the name in its properties, or its position in the file, from 1; points of
      a MultiPoint have "/1", "/2", … after it. The ids of QuPath 0.2, which are types, do not count.
    - Rings close by themselves; a last vertex that repeats the first is dropped.
    - An annotation, tile, core or root of QuPath around detections or cells is a region (``_find_regions``):
      it is omitted with a warning, unless its class is not scored.

    Shapes that the nuclei do not have are refused or, with ``other_shapes = "skip"``, omitted with a warning, as are
    features without a geometry. Raises InputFault with all faults: too-large, too-deep, not-json, wrong-format,
    invalid-annotation, unsupported-shape, empty-polygon, invalid-coordinate, unknown-class, invalid-probability,
    missing-probability.
    """
    with resting_collector():
        text = JsonText(stream, request.where, request.limits, nan_is_null=True)
        features = FeatureReader(request, case, _find_regions(text, request))
        are_plain = not features.of_points and request.limits.json_depth >= DEPTH
        for items in _pieces_of(text, decode=_decode_features if are_plain else None):
            features.add(items)
        return features.nuclei.annotations()


def _pieces_of(text: JsonText, **options: Any) -> Iterator[list[Any]]:
    """Yield the features or geometries of a file, some at a time. Raises InputFault."""
    records = text.find_records(FEATURES, **options)
    yield from [_sole_items(records.root, text.where)] if records.pieces is None else records.pieces


def _find_regions(text: JsonText, request: Request[GeojsonRules]) -> dict[int, int]:
    """Find the numbers of the features that are regions, and how many detections or cells of QuPath are in each.

    A region is an object of QuPath, no detection or cell, around the centre of a detection of less than half its area.
    """
    if request.rules.shape != "outline" or not (WORD_OF_NUCLEI.search(text.text) and WORD_AROUND.search(text.text)):
        return {}
    around: list[tuple[int, Any]] = []
    middles_xy, areas = [], []
    try:
        number = 0
        for items in _pieces_of(text):
            for item in _with_children(items):
                number += 1
                kind = _object_type(item)
                if kind in AROUND_NUCLEI and not _is_ignored(item, request):
                    around.append((number, shapely.MultiPolygon(_shapes_in(item))))
                elif kind in NUCLEI_OF_QUPATH:
                    for shape in _shapes_in(item)[:1]:
                        middles_xy.append(shapely.centroid(shape))
                        areas.append(shape.area)
    except InputFault:  # told where the file is read
        return {}
    tree, area = shapely.STRtree(middles_xy), np.array(areas)
    regions, pairs = {}, 0
    for number, shape in around:
        pairs += len(tree.query(shape))
        if pairs > MOST_INSIDE:
            what = f"{MOST_INSIDE:,} pairs of an annotation and a detection inside it"
            raise refused("too-large", request.where, wording="too-much-to-decode", what=what)
        inside = tree.query(shape, predicate="intersects")
        if (MORE_THAN_A_NUCLEUS * area[inside] < shape.area).any():
            regions[number] = len(inside)
    return regions


def _with_children(items: Sequence[Any]) -> Iterator[Any]:
    """Yield features, each followed by its children."""
    waiting = list(items[::-1])
    while waiting:
        item = waiting.pop()
        yield item
        waiting += _children_of(item)[::-1]


def _children_of(item: Any) -> list[Any]:
    properties = item.get("properties") if type(item) is dict and item.get("type") == "Feature" else None
    children = properties.get("childObjects") if type(properties) is dict else None
    return children if type(children) is list else []


def _object_type(item: Any) -> str | None:
    """Return the type of an object of QuPath, None for other features."""
    if type(item) is not dict or item.get("type") != "Feature":
        return None
    properties = item.get("properties")
    said = [properties.get(key) for key in ("objectType", "_object_type")] if type(properties) is dict else []
    kinds = [kind for kind in (*said, item.get("id")) if type(kind) is str]
    return next((kind for kind in kinds if kind in OBJECT_TYPES | TYPES_AS_IDS), None)


def _is_ignored(item: dict[str, Any], request: Request[GeojsonRules]) -> bool:
    """Return whether the class of a feature is one that the challenge does not score."""
    name = _name_of_class(item["properties"]) if type(item.get("properties")) is dict else None
    if not isinstance(name, str) or not request.classes.names:
        return False
    return UNKNOWN < class_of_name(name, request.classes) < 0


def _shapes_in(item: dict[str, Any]) -> list[Any]:
    """Return the parts of the outline of a feature as shapes; empty if no shape is usable."""
    try:
        outlines, _, _ = _split_shape(item.get("nucleusGeometry") or item.get("geometry"))
        return [shapely.Polygon(rings[0], [hole for hole in rings[1:] if len(hole) > 3]) for rings in outlines if rings]
    except (Malformed, ArithmeticError, ValueError, TypeError, shapely.errors.ShapelyError):
        return []


# --- features as software writes them, with nothing in them that is deeper -------------------------------------------


DEPTH = 8  # of brackets in a collection of them
VERTEX = b"[,],"  # what is left of "[1.5, 2]," without numbers
NUMBERS_AND_BLANKS = b"0123456789+-.eE \t\r\n"
COLONS_AS_COMMAS = bytes.maketrans(b":", b",")
Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # of larger ones orjson makes floats
Scalar = str | Integer | float | bool | None
PropertyValue = Scalar | list[Scalar | dict[str, Scalar]] | dict[str, Scalar | list[Scalar]]


class _Geometry(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A geometry whose rings, or polygons, are texts."""

    type: Literal["Polygon", "MultiPolygon"]
    coordinates: list[msgspec.Raw]
    isEllipse: bool = False
    plane: dict[str, Scalar] | None = None

    def parts(self) -> list[list[msgspec.Raw]]:
        """List the rings of each part. Raises MsgspecError."""
        if self.type == "Polygon":
            return [self.coordinates]
        return [msgspec.json.decode(polygon, type=list[msgspec.Raw]) for polygon in self.coordinates]


class _Feature(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: Literal["Feature"]
    geometry: _Geometry
    properties: dict[str, PropertyValue] | None = None
    id: str | Integer | None = None
    nucleusGeometry: None = None  # would go before the geometry

    def as_item(self) -> dict[str, Any]:
        """Return the feature as a dictionary, as if all of it had been parsed."""
        coordinates = [orjson.loads(memoryview(text)) for text in self.geometry.coordinates]
        geometry = {"type": self.geometry.type, "coordinates": coordinates}
        return {"type": "Feature", "id": self.id, "geometry": geometry, "properties": self.properties}


@cache
def _decoder() -> msgspec.json.Decoder[list[_Feature]]:
    return msgspec.json.Decoder(list[_Feature])


def _decode_features(text: bytes) -> tuple[list[_Feature], Rings] | None:
    """Decode a list of features that are outlines, and all their vertices at once; None if one is anything else.

    >>> text = b'[{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[1, 2], [3, 4.5]]]}}]'
    >>> _decode_features(text)[1].points_xy.tolist()
    [[1.0, 2.0], [3.0, 4.5]]
    """
    try:
        features = _decoder().decode(text)
        parts = [(index, part) for index, feature in enumerate(features) for part in feature.geometry.parts()]
        rings = b":".join([ring for _, part in parts for ring in part])
        numbers = orjson.loads(b"[%b]" % rings.translate(COLONS_AS_COMMAS, b"[]"))
    except (msgspec.MsgspecError, UnicodeDecodeError, orjson.JSONDecodeError):
        return None
    brackets = rings.translate(None, NUMBERS_AND_BLANKS).split(b":")  # "[[,],[,]]" of a ring of two vertices
    size = np.fromiter(map(len, brackets), np.int64, len(brackets)) // len(VERTEX)
    expected = {count: b"[%b]" % (VERTEX * count)[:-1] for count in set(size.tolist())}
    owner, count = np.array([(index, len(part)) for index, part in parts], np.int64).reshape(-1, 2).T
    are_all = len(set(owner.tolist())) == len(features) and bool(count.all() and size.all())
    are_all &= brackets == [expected[count] for count in size.tolist()]
    if not are_all or not _has_each_key_once(text, features):
        return None
    is_hole = np.ones(len(size), np.bool_)
    is_hole[np.cumsum(count) - count] = False
    points_xy = np.frombuffer(pack(f"{len(numbers)}d", *numbers)).reshape(-1, 2)
    return features, Rings(points_xy, size, np.repeat(owner, count), is_hole)


def _has_each_key_once(text: bytes, features: Sequence[_Feature]) -> bool:
    """Return whether no object has a key twice; as a rule there are as many colons as keys were found."""
    properties = [feature.properties for feature in features if feature.properties is not None]
    keys = 4 * len(features) + len(properties) + sum(map(len, properties))
    keys += sum([feature.id is not None for feature in features])
    for key in ("classification", "measurements"):
        keys += sum([len(value) for each in properties if type(value := each.get(key)) is dict])
    return text.count(b":") == keys or repeated_key(text) is None


def _sole_items(root: Any, where: str) -> list[Any]:
    """List the contents of a file without a list of features: a Feature, a geometry or members of a collection."""
    kind = root.get("type") if isinstance(root, dict) else None
    if kind == COLLECTION and isinstance(root.get("geometries"), list):
        members: list[Any] = root["geometries"]
        return members
    if kind == "Feature" or kind in GEOMETRIES:
        return [root]
    got = "a FeatureCollection without a list of features" if kind == "FeatureCollection" else root_words(root)
    raise refused("wrong-format", where, got=got, expected=GEOJSON_WORDS)


class FeatureReader:
    """Adds the nuclei among features to NucleusLists."""

    def __init__(self, request: Request[FeatureRules], case: Case, regions: Mapping[int, int]) -> None:
        self.nuclei = NucleusLists(request, case, "feature", closed=request.rules.shape == "outline")
        self.of_points = self.nuclei.of_points
        self.parts_are_nuclei = None if request.rules.parts is None else request.rules.parts == "apart"
        self.regions = regions

    def add(self, items: list[Any] | tuple[list[_Feature], Rings]) -> None:
        """Add features or geometries, and the children of features."""
        if isinstance(items, tuple) and self.add_features(*items):
            return
        waiting = [feature.as_item() for feature in items[0]] if isinstance(items, tuple) else items[:]
        waiting.reverse()
        while waiting:
            item = waiting.pop()
            self.nuclei.next_annotation()
            try:
                self.add_item(item)
            except Malformed as error:
                self.nuclei.fault("invalid-annotation", **error.words)
            else:
                waiting += _children_of(item)[::-1]
        self.nuclei.settle()

    def add_features(self, features: list[_Feature], rings: Rings) -> bool:
        """Add features all at once; False, and nothing is added, if a feature must be read alone."""
        nuclei = self.nuclei
        properties: list[dict[str, Any]] = [feature.properties or {} for feature in features]
        keys = set().union(*set(map(tuple, properties)))
        parts = int(np.bincount(rings.owner[~rings.is_hole]).max())
        if "childObjects" in keys or parts > {None: PARTS_OF_A_NUCLEUS, True: 1, False: parts}[self.parts_are_nuclei]:
            return False
        if any(nuclei.number < number <= nuclei.number + len(features) for number in self.regions):
            return False
        names = list(map(self.class_name, properties))
        if not {str, type(None)}.issuperset(map(type, names)):
            return False
        class_ids = {name: nuclei.look_up(name) for name in dict.fromkeys(names)}  # in the order of the file
        if not {SKIPPED, UNKNOWN}.isdisjoint(class_ids.values()):
            return False
        return nuclei.add_outlines(
            rings,
            [class_ids[name] for name in names],
            self.source_ids(features, properties),
            _probabilities_in(properties, keys),
        )

    def source_ids(self, features: list[_Feature], properties: list[dict[str, Any]]) -> list[Any]:
        ids = [feature.id for feature in features]
        if set(map(type, ids)) == {str} and NO_IDS.isdisjoint(ids):
            return ids
        numbers = range(self.nuclei.number + 1, self.nuclei.number + len(ids) + 1)
        return list(map(self.source_id, ids, properties, numbers))

    def add_item(self, item: Any) -> None:
        """Add one feature or geometry. Raises Malformed."""
        if type(item) is not dict:
            raise Malformed(wording="value", expected="a Feature with a geometry", value=json_of(item))
        kind = item.get("type")
        if kind == "Feature":
            geometry = item.get("nucleusGeometry") or item.get("geometry")
            properties = item.get("properties")
            if type(properties) is not dict:
                properties = {}
        elif type(kind) is str and kind in GEOMETRIES:
            geometry, properties = item, {}
        else:
            raise Malformed(got=root_words(item), expected="a Feature with a geometry")
        if (inside := self.regions.get(self.nuclei.number)) is not None:
            self.nuclei.left_out.fault("left-out", self.nuclei.here, wording="region", inside=inside)
            return
        name = self.class_name(properties)
        if self.nuclei.look_up(name) == SKIPPED:
            return
        if geometry is None:
            self.nuclei.left_out.fault("left-out", self.nuclei.here, wording="no-geometry")
            return
        outlines, points, others = _split_shape(geometry)
        if self.of_points:
            chosen, not_chosen = points, [*others, *(("Polygon",) if outlines else ())]
        else:
            chosen, not_chosen = outlines, [*others, *(("Point",) if points else ())]
        if not_chosen:
            what, wanted = ("a point", POINT_KINDS) if self.of_points else ("an outline", OUTLINE_KINDS)
            fix = f"Write each nucleus as {what}, or leave the feature out."
            self.nuclei.refuse_shape("geometry", not_chosen[0], wanted, fix)
        if not chosen:
            return
        class_id = self.nuclei.class_of(name)
        source_id = self.source_id(item.get("id"), properties, self.nuclei.number)
        probability = _probability_in(properties)
        if self.of_points:
            several = geometry["type"] != "Point"
            ids = [f"{source_id}/{index}" for index in range(1, len(points) + 1)] if several else [source_id]
            self.nuclei.add_points(points, class_id, ids, probability)
        else:
            for number, parts in enumerate(self.nuclei_of(outlines), start=1):
                own_id = source_id if parts is outlines else f"{source_id}/{number}"
                self.nuclei.add_outline(parts, class_id, own_id, probability)

    def nuclei_of(self, outlines: list[list[Any]]) -> list[list[list[Any]]]:
        """Take the parts of a geometry as one nucleus, or as one nucleus each."""
        if self.parts_are_nuclei and len(outlines) > 1:
            return [[part] for part in outlines]
        if len(outlines) > PARTS_OF_A_NUCLEUS and self.parts_are_nuclei is None:
            self.nuclei.left_out.fault("many-parts", self.nuclei.here, parts=len(outlines))
        return [outlines]

    def class_name(self, properties: dict[str, Any]) -> Any:
        """Find the name of the class, None if missing."""
        name = _name_of_class(properties)
        return self.flat_class_name(properties) if name is None or name == "" else name

    def flat_class_name(self, properties: dict[str, Any]) -> str | None:
        """Find the name in ``objectType`` or ``type`` of a feature without a class; None if it needs no name."""
        classes, name = self.nuclei.request.classes, None
        for key in ("objectType", "type"):
            kind = properties.get(key)
            name = str(kind) if type(kind) is int and key == "type" else kind
            if (classes.names or name not in OBJECT_TYPES) and self.nuclei.is_known(name):
                return name
        return name if type(name) is str and "" not in classes.ids and not classes.of_nameless else None

    def source_id(self, identity: object, properties: dict[str, Any], number: int) -> str:
        for candidate in (identity, properties.get("name")):
            if type(candidate) in (str, int) and candidate not in NO_IDS:
                return str(candidate)
        return str(number)


def _name_of_class(properties: dict[str, Any]) -> Any:
    """Return the name of the class of a feature; None if missing."""
    name = properties.get("classification")
    if type(name) is dict:
        names = name.get("names")
        return ": ".join(map(str, names)) if type(names) is list else name.get("name")
    return name


def _split_shape(geometry: Any) -> tuple[list[list[Any]], list[Any], list[str]]:
    """Sort the content of a geometry: polygons (lists of rings), points, and the types of other shapes. Raises
    Malformed.
    """
    polygons: list[list[Any]] = []
    points: list[Any] = []
    others: list[str] = []
    waiting = [geometry]
    while waiting:
        member = waiting.pop()
        if type(member) is not dict:
            raise Malformed(wording="geometry", expected="an object with a type and coordinates", value=json_of(member))
        kind, coordinates = member.get("type"), member.get("coordinates")
        if kind == "Polygon":
            polygons.append(_list_of_lists(coordinates, kind))
        elif kind == "MultiPolygon":
            polygons += [_list_of_lists(polygon, kind) for polygon in _list_of_lists(coordinates, kind)] or [[]]
        elif kind == "Point":
            points.append(coordinates)
        elif kind == "MultiPoint":
            if type(coordinates) is not list:
                raise _malformed_coordinates(coordinates, kind)
            points += coordinates
        elif kind == COLLECTION:
            members = member.get("geometries")
            if type(members) is not list:
                raise Malformed(
                    expected="a list of geometries", of="the geometries of a collection are", value=json_of(members)
                )
            waiting += members[::-1]
        elif type(kind) is str:
            others.append(kind)
        else:
            wanted = "a type of GeoJSON, such as 'Polygon'"
            raise Malformed(expected=wanted, of="a geometry of the type", value=json_of(kind))
    return polygons, points, others


WANTED = {
    "Polygon": "a list of rings, each a list of positions",
    "MultiPolygon": "a list of polygons, each a list of rings",
    "MultiPoint": "a list of positions",
}


def _list_of_lists(coordinates: Any, kind: str) -> list[Any]:
    """Check that coordinates are lists of lists of lists: a level too few is a frequent mistake. Raises Malformed."""
    if type(coordinates) is list:
        for ring in coordinates:
            if type(ring) is not list or (ring and type(ring[0]) is not list):
                break
        else:
            return coordinates
    raise _malformed_coordinates(coordinates, kind)


def _malformed_coordinates(coordinates: Any, kind: str) -> Malformed:
    return Malformed(expected=WANTED[kind], of=f"the coordinates of a {quote(kind)} are", value=json_of(coordinates))


def _probability_in(properties: dict[str, Any]) -> Any:
    """Find the probability among the properties or measurements of a feature, None if missing."""
    measurements = properties.get("measurements")
    if type(measurements) is list:  # QuPath before 0.4
        measurements = {str(entry.get("name")): entry.get("value") for entry in measurements if type(entry) is dict}
    names = (*PROBABILITIES, "prob") if "type" in properties else PROBABILITIES
    for holder in (properties, measurements):
        if type(holder) is dict:
            for name in names:
                if (value := holder.get(name)) is not None:
                    return value
    return None


def _probabilities_in(properties: list[dict[str, Any]], keys: Set[str]) -> list[Any]:
    """Find the probability of each feature, None without one.

    keys  of all of them
    """
    if "type" not in keys and NAMED.isdisjoint(keys):
        measured = [each.get("measurements") for each in properties] if "measurements" in keys else []
        if not set(map(type, measured)) - {dict, type(None)}:
            layouts = set(map(tuple, filter(None, measured)))
            names = [name for name in PROBABILITIES if any(name in layout for layout in layouts)]
            if not names:
                return [None] * len(properties)
            if len(names) == 1:
                return [each.get(names[0]) if each else None for each in measured]
    return list(map(_probability_in, properties))


def write_geojson(outlines: Outlines, class_names: Sequence[str], colours: Sequence[str | None]) -> bytes:
    """Create a FeatureCollection that QuPath opens: an annotation for each nucleus, with its class and colour.

    class_names  class id c has the name ``class_names[c - 1]``; nuclei of the class 0 get none
    colours      ``#rrggbb`` of each class, or None

    Coordinates are written as they are: QuPath counts from the corner of the first pixel. Rings are closed, holes
    come after the part around them (the smallest one that contains their first vertex, otherwise the first), and
    rings of one or two vertices repeat the last one, since a ring must have four positions. Nuclei without a
    vertex are omitted. ``source_id`` becomes the id, the probability the measurement "Probability"; class
    probabilities are omitted. The same outlines give the same bytes. Raises ValueError for ids of classes without
    a name.
    """
    rings = closed_rings(outlines.points_xy, outlines.ring_start)
    first = np.searchsorted(outlines.ring_instance, np.arange(len(outlines) + 1)).tolist()
    colour_of = dict(zip(class_names, colours, strict=False))
    features = []
    for index, (name, probability) in enumerate(names_and_probabilities(outlines, class_names)):
        of_nucleus = [ring for ring in range(first[index], first[index + 1]) if len(rings[ring])]
        parts = [[rings[ring] for ring in part] for part in nucleus_parts(outlines, of_nucleus)]
        if not parts:
            continue
        properties: dict[str, Any] = {"objectType": "annotation"}
        if name is not None:
            properties["classification"] = {"name": name}
            if (colour := colour_of.get(name)) is not None:
                properties["classification"]["color"] = list(bytes.fromhex(colour[1:]))
        if probability is not None:
            properties["measurements"] = {"Probability": probability}
        several = len(parts) > 1
        geometry = {"type": "MultiPolygon" if several else "Polygon", "coordinates": parts if several else parts[0]}
        identity = str(outlines.source_id[index])
        features.append({"type": "Feature", "id": identity, "geometry": geometry, "properties": properties})
    return orjson.dumps({"type": "FeatureCollection", "features": features}, option=orjson.OPT_SERIALIZE_NUMPY)


def closed_rings(points_xy: Float64, ring_start: Int64) -> list[Float64 | Int64]:
    """Close each ring with its first vertex, which is repeated until there are four; an empty ring stays empty.

    Whole numbers, if all are whole, are integers, which take less room in a file.
    """
    size = np.diff(ring_start)
    start = ring_start[:-1]
    several = np.flatnonzero(size > 1)
    is_closed = (points_xy[start[several]] == points_xy[ring_start[several + 1] - 1]).all(axis=1)
    size[several[is_closed]] -= 1
    size_closed = np.where(size > 0, np.maximum(size + 1, 4), 0)
    edges = np.concatenate([[0], np.cumsum(size_closed)])
    position = np.arange(edges[-1]) - np.repeat(edges[:-1], size_closed)
    position[position >= np.repeat(size, size_closed)] = 0
    vertices = points_xy[np.repeat(start, size_closed) + position]
    whole = vertices.astype(np.int64)
    vertices = whole if np.array_equal(whole, vertices) else vertices
    return [vertices[begin:end] for begin, end in pairwise(edges.tolist())]


def nucleus_parts(outlines: Outlines, rings: Sequence[int]) -> list[list[int]]:
    """Sort the rings of a nucleus into parts: each an outer ring and its holes."""
    outer = [ring for ring in rings if not outlines.ring_is_hole[ring]]
    holes = [ring for ring in rings if outlines.ring_is_hole[ring]]
    if len(outer) <= 1 or not holes:
        return [[ring, *holes] for ring in outer]
    start = outlines.ring_start
    parts = {ring: [ring] for ring in outer}
    shapes = [
        (ring, shapely.Polygon(outlines.points_xy[start[ring] : start[ring + 1]]))
        for ring in outer
        if start[ring + 1] - start[ring] >= 3
    ]
    shapes.sort(key=lambda shape: shape[1].area)
    for hole in holes:
        vertex = shapely.Point(outlines.points_xy[start[hole]])
        around = next((ring for ring, shape in shapes if shapely.intersects(shape, vertex)), outer[0])
        parts[around].append(hole)
    return list(parts.values())


def _example_of_geojson(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    if not made.rules.are_points:
        return write_geojson(made.outlines(cases[0], class_name), made.names, [None] * len(made.names))
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [x, y]},
            "properties": {"objectType": "annotation", "classification": {"name": name}},
        }
        for name, x, y in made.marks(cases[0], class_name)
    ]
    return orjson.dumps({"type": "FeatureCollection", "features": features})


FORMATS = {
    "geojson": Format(
        "GeoJSON as QuPath writes it",
        _example_of_geojson,
        read=_read_geojson,
        told_by=(
            Word(OUTLINE_KINDS, {"shape": "outline"}),
            Word(POINT_KINDS, {"shape": "point"}),
            Word(("FeatureCollection",), is_late=True),
        ),
    )
}
