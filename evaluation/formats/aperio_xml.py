"""Aperio ImageScope XML (MoNuSeg, MoNuSAC): layers of outlines, the class is the name of an attribute of the layer.

::

    Annotations / Annotation (a layer) / Attributes / Attribute@Name         the class of the layer
                                       / Regions / Region / Vertices / Vertex@X @Y

Files may be compressed with gzip. The parser is expat itself, fed piece by piece: 27 MB in about a second.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import BinaryIO
from xml.parsers import expat

import numpy as np
import shapely

from evaluation.errors import InputFault
from evaluation.findings import Finding, did_you_mean, listed, quote
from evaluation.intervals import expand
from evaluation.model import Bool, Float64, Int64, Outlines

CHUNK_BYTES = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
COORDINATE_LIMIT = 1e9
RECTANGLE = "1"
POLYGON_TYPES = ("", "0", RECTANGLE)  # an ellipse (2) holds two corners of its box, an arrow (3) no area
SHAPES = {RECTANGLE: " (rectangle) of two vertices", "2": " (ellipse)"}
MISSING = "\0"  # stands for an attribute that is absent: no XML can hold this character
DEFAULT_ATTRIBUTE = "description"  # what ImageScope puts into every layer: a field for free text, not a name
LAYER_PATH = ["Annotations", "Annotation"]
ATTRIBUTE_PATH = [*LAYER_PATH, "Attributes", "Attribute"]
REGION_PATH = [*LAYER_PATH, "Regions", "Region"]
FAULTS_NAMED = 20  # more of a kind are counted, not listed


def read_aperio_xml(
    stream: BinaryIO, *, where: str, class_ids: Mapping[str, int], bytes_limit: int, vertices_limit: int
) -> Outlines:
    """The outlines of an Aperio XML file, compressed with gzip or not, in document order.

    where           the file, for messages
    class_ids       class id by case-folded name: 1…C scored, negative for ignore classes, "" for layers without a name
    bytes_limit     the most bytes the XML may have after decompression
    vertices_limit  the most vertices it may have

    The class of a layer is the name of one of its own attributes, or else the layer's own name. Layers without regions
    need no class. A region with ``NegativeROA="1"`` is a hole of the smallest outline of its layer that contains its
    first vertex; if there is none it is left out, with a warning. ``source_id`` is "<layer id>/<region id>", where a
    missing id is replaced by the position (1, 2, …). A file without regions gives no outlines.

    Raises InputFault with all that is wrong: not XML, entities or a DTD, another root, too large, an unknown class, a
    vertex without usable coordinates, a shape that is not a polygon.

    >>> import io
    >>> text = b'<Annotations><Annotation Id="7"><Attributes><Attribute Name="Epithelial"/></Attributes><Regions>'
    >>> text += b'<Region Id="3"><Vertices><Vertex X="1" Y="2"/><Vertex X="5" Y="2"/><Vertex X="1" Y="6.5"/></Vertices>'
    >>> text += b'</Region></Regions></Annotation></Annotations>'
    >>> outlines = read_aperio_xml(
    ...     io.BytesIO(text), where="a.xml", class_ids={"epithelial": 1}, bytes_limit=1000, vertices_limit=100
    ... )
    >>> outlines.class_id.tolist(), outlines.source_id.tolist(), outlines.points_xy.tolist()
    ([1], ['7/3'], [[1.0, 2.0], [5.0, 2.0], [1.0, 6.5]])
    """
    document = Document(where, vertices_limit)
    parser = make_parser(document)
    try:
        for chunk in bounded(plain_chunks(stream, where), where, bytes_limit):
            parser.Parse(chunk, False)
            document.convert_coordinates()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        place = f"{expat.errors.messages.get(error.code, 'not XML')} (line {error.lineno}, column {error.offset})"
        raise InputFault(not_xml(where, place)) from None
    except (LookupError, ValueError) as error:  # what pyexpat raises for encodings that it cannot read
        raise InputFault(not_xml(where, str(error))) from None
    document.convert_coordinates()
    faults = [*document.faults(), *class_faults(document, class_ids)]
    if faults:
        raise InputFault(*faults)
    return outlines_of(document, class_ids)


def plain_chunks(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """The bytes of a stream, decompressed if they begin as gzip does; never more than CHUNK_BYTES at once."""
    data = stream.read(CHUNK_BYTES)
    if not data.startswith(GZIP_MAGIC):
        while data:
            yield data
            data = stream.read(CHUNK_BYTES)
        return
    inflate = zlib.decompressobj(wbits=31)
    try:
        while data:
            if inflate.eof:  # what follows is another member, or padding
                data = data.lstrip(b"\0")
                if data:
                    inflate = zlib.decompressobj(wbits=31)
            if data and (plain := inflate.decompress(data, CHUNK_BYTES)):
                yield plain
            data = data and (inflate.unused_data if inflate.eof else inflate.unconsumed_tail)
            data = data or stream.read(CHUNK_BYTES // 16)
        while rest := inflate.decompress(b"", CHUNK_BYTES):
            yield rest
    except zlib.error as error:
        raise InputFault(broken_gzip(where, str(error))) from None
    if not inflate.eof:
        raise InputFault(broken_gzip(where, "the compressed data stop before their end"))


def bounded(chunks: Iterator[bytes], where: str, bytes_limit: int) -> Iterator[bytes]:
    """The same chunks; raises InputFault when they come to more bytes than allowed."""
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > bytes_limit:
            got = f"more than {bytes_limit:,} bytes after decompression"
            fix = "Split the file, or raise limits.bytes_per_file in challenge.toml."
            raise InputFault(Finding("too-large", where, got, f"at most {bytes_limit:,} bytes", fix))
        yield chunk


def broken_gzip(where: str, got: str) -> Finding:
    return Finding("unreadable-file", where, got, "a complete gzip file", "Compress or copy the file again.")


def not_xml(where: str, got: str) -> Finding:
    return Finding("not-xml", where, got, "well-formed Aperio XML", "Export or copy the file again.")


@dataclass(slots=True)
class Layer:
    """An Annotation element: its id or position, and the names that may be its class."""

    label: str
    name: str
    attributes: list[str] = field(default_factory=list)
    regions: int = 0
    first_region: str = ""

    def class_id(self, class_ids: Mapping[str, int]) -> int | None:
        """The class of the first attribute that is known, else of the layer's name; None if neither is.

        "" (no name) counts only if there is none: a misspelt name is never taken for it.
        """
        names = [name.strip().casefold() for name in [*self.attributes, self.name]]
        nameless = not any(name and name != DEFAULT_ATTRIBUTE for name in names)
        candidates = [name for name in names if name] + ([""] if nameless else [])
        return next((class_ids[name] for name in candidates if name in class_ids), None)

    def shown_name(self) -> str:
        """What its author takes for the class."""
        return next((name for name in [*self.attributes, self.name] if name.strip()), "")


@dataclass(slots=True)
class Region:
    """A Region element: its layer (index), id or position, first vertex, and what it is."""

    layer: int
    label: str
    first_vertex: int
    is_hole: bool
    type: str


class Document:
    """What the parser has met so far: layers, regions, coordinates. Texts become numbers chunk by chunk."""

    def __init__(self, where: str, vertices_limit: int) -> None:
        self.where = where
        self.vertices_limit = vertices_limit
        self.layers: list[Layer] = []
        self.regions: list[Region] = []
        self.texts: list[str] = []  # X and Y in turn, of the chunk at hand
        self.numbers: list[Float64] = []
        self.vertices = 0  # converted so far
        self.bad_coordinates: list[tuple[int, str, str]] = []  # vertex, axis, text; the first few
        self.bad_coordinate_count = 0

    def open_region(self, attributes: Mapping[str, str]) -> None:
        """A Region element of the layer at hand begins."""
        layer = self.layers[-1]
        layer.regions += 1
        label = attributes.get("Id", "").strip() or str(layer.regions)
        if layer.regions == 1:
            layer.first_region = label
        is_hole = attributes.get("NegativeROA", "").strip() == "1"
        first_vertex = self.vertices + len(self.texts) // 2
        region = Region(len(self.layers) - 1, label, first_vertex, is_hole, attributes.get("Type", "").strip())
        self.regions.append(region)

    def convert_coordinates(self) -> None:
        """Turn the collected texts into numbers, all at once. Raises InputFault if there are too many vertices."""
        count = len(self.texts) // 2
        if self.vertices + count > self.vertices_limit:
            limit = f"{self.vertices_limit:,}"
            fix = "Split the file, or raise limits.vertices_per_file in challenge.toml."
            raise InputFault(Finding("too-large", self.where, f"more than {limit} vertices", f"at most {limit}", fix))
        try:
            numbers = np.array(self.texts, np.float64)
        except ValueError:
            numbers = np.array([number_or_nan(text) for text in self.texts], np.float64)
        bad = np.flatnonzero(~(np.abs(numbers) <= COORDINATE_LIMIT))
        for index in bad[: FAULTS_NAMED - len(self.bad_coordinates)]:
            self.bad_coordinates.append((self.vertices + int(index) // 2, "XY"[index % 2], self.texts[index]))
        self.bad_coordinate_count += len(bad)
        self.numbers.append(numbers)
        self.vertices += count
        self.texts.clear()

    def points_xy(self) -> Float64:
        return np.concatenate([np.empty(0), *self.numbers]).reshape(-1, 2)

    def source_id(self, region: Region) -> str:
        return f"{self.layers[region.layer].label}/{region.label}"

    def faults(self) -> list[Finding]:
        """What is wrong with vertices and shapes: the first few of each kind, with the number of all."""
        starts = [region.first_vertex for region in self.regions]
        coordinates = []
        for vertex, axis, text in self.bad_coordinates:
            index = int(np.searchsorted(starts, vertex, "right")) - 1
            place = f"region {quote(self.source_id(self.regions[index]))}, vertex {vertex - starts[index] + 1}"
            got = f"no {axis}" if text == MISSING else f"{axis} is {quote(text)}"
            expected = "numbers between -1e9 and 1e9 as X and Y of every vertex"
            coordinates.append(Finding("invalid-coordinate", f"{self.where}, {place}", got, expected))
        vertices = np.diff([*starts, self.vertices])
        unsupported = [
            region
            for region, count in zip(self.regions, vertices, strict=True)
            if region.type not in POLYGON_TYPES or (region.type == RECTANGLE and count == 2)
        ]
        shapes = [
            Finding(
                "unsupported-shape",
                f"{self.where}, region {quote(self.source_id(region))}",
                f"Type {quote(region.type)}{SHAPES.get(region.type, '')}",
                "Type '0' (freehand) or '1' (rectangle of four vertices), whose vertices are corners of the outline",
                "Draw the region as an outline, or remove it.",
            )
            for region in unsupported[:FAULTS_NAMED]
        ]
        return [*with_rest(coordinates, self.bad_coordinate_count), *with_rest(shapes, len(unsupported))]


def with_rest(named: list[Finding], total: int) -> list[Finding]:
    """The findings that are named; the last one stands for those that are not."""
    rest = total - len(named)
    return [*named[:-1], replace(named[-1], count=1 + rest)] if rest else named


def number_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def make_parser(document: Document) -> expat.XMLParserType:
    """An expat parser that fills the document, and refuses every declaration that a stranger could misuse."""
    parser = expat.ParserCreate()
    parser.ordered_attributes = True  # a list [name, value, …]: a fifth less time than a dictionary per vertex
    collect = document.texts.append
    path: list[str] = []  # the open elements, except the vertices of regions

    def start(name: str, pairs: list[str]) -> None:
        if name == "Vertex" and path and path[-1] == "Vertices":
            if len(pairs) >= 4 and pairs[0] == "X" and pairs[2] == "Y":
                collect(pairs[1])
                collect(pairs[3])
            else:
                attributes = dict(zip(pairs[::2], pairs[1::2], strict=True))
                collect(attributes.get("X", MISSING))
                collect(attributes.get("Y", MISSING))
            return
        attributes = dict(zip(pairs[::2], pairs[1::2], strict=True))
        path.append(name)
        if len(path) == 1 and name != "Annotations":
            got = f"the root element is {quote(name)}"
            raise InputFault(Finding("not-aperio-xml", document.where, got, "an Aperio XML file (root 'Annotations')"))
        if path == LAYER_PATH:
            label = attributes.get("Id", "").strip() or str(len(document.layers) + 1)
            document.layers.append(Layer(label, attributes.get("Name", "")))
        elif path == ATTRIBUTE_PATH:
            document.layers[-1].attributes.append(attributes.get("Name", ""))
        elif path == REGION_PATH:
            document.open_region(attributes)
        elif name == "Vertices" and path[:-1] != REGION_PATH:
            path[-1] = "Vertices of something else"

    def end(name: str) -> None:
        if name != "Vertex" or path[-1] == "Vertex":
            path.pop()

    def refuse(*_: object) -> int:
        got = "a document type or entity declaration"
        fix = "Remove the '<!DOCTYPE …>' part."
        raise InputFault(Finding("forbidden-xml", document.where, got, "XML without declarations", fix))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.UnparsedEntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    return parser


def class_faults(document: Document, class_ids: Mapping[str, int]) -> list[Finding]:
    """Layers that have regions but no class of the challenge; one finding each, which counts the regions."""
    known = sorted(name for name in class_ids if name)
    faults = []
    for layer in document.layers:
        if layer.regions == 0 or layer.class_id(class_ids) is not None:
            continue
        name = layer.shown_name()
        place = f"{document.where}, region {quote(f'{layer.label}/{layer.first_region}')}"
        got = f"{quote(name)} is not a class of this challenge" if name else "the layer has no class name"
        fix = did_you_mean(name, known)
        faults.append(Finding("unknown-class", place, got, listed(known), fix, layer.regions))
    return faults


def outlines_of(document: Document, class_ids: Mapping[str, int]) -> Outlines:
    """The document as Outlines: regions with a class each, holes put to the outlines that contain them."""
    regions = document.regions
    points = document.points_xy()
    start = np.array([region.first_vertex for region in regions] + [len(points)], np.int64)
    is_hole = np.array([region.is_hole for region in regions], np.bool_)
    classes = [layer.class_id(class_ids) or 0 for layer in document.layers]
    class_id = np.array([classes[region.layer] for region in regions], np.int16)
    source_id = np.array([document.source_id(region) for region in regions] + [None], object)[:-1]

    owner = np.arange(len(regions))
    if is_hole.any():
        owner[is_hole] = outlines_around(points, start, np.array([region.layer for region in regions]), is_hole)
    findings = [
        Finding(
            "hole-without-outline",
            f"{document.where}, region {quote(source_id[index])}",
            "a hole (NegativeROA) in no outline of its layer",
            "holes inside an outline",
            "The hole is left out; check where it lies.",
        )
        for index in np.flatnonzero(owner < 0)
    ]
    instance_of_region = np.cumsum(~is_hole) - 1
    ring = np.flatnonzero(owner >= 0)
    ring = ring[np.argsort(owner[ring] * 2 + is_hole[ring], kind="stable")]
    points, start = select_rings(points, start, ring)
    return Outlines(
        points_xy=points,
        ring_start=start,
        ring_instance=instance_of_region[owner[ring]].astype(np.int32),
        ring_is_hole=is_hole[ring],
        class_id=class_id[~is_hole],
        source_id=source_id[~is_hole],
        findings=tuple(with_rest(findings[:FAULTS_NAMED], len(findings))),
    )


def outlines_around(points: Float64, start: Int64, layer: Int64, is_hole: Bool) -> Int64:
    """For each hole the index of the smallest region of its layer that contains its first vertex; -1 if none does.

    A vertex on the outline counts as inside; of equally small outlines the first one is taken.
    """
    count = np.diff(start)
    candidate = np.flatnonzero(~is_hole & (count >= 3))
    ring_points, ring_start = select_rings(points, start, candidate)
    rings = shapely.linearrings(ring_points, indices=np.repeat(np.arange(len(candidate)), np.diff(ring_start)))
    polygons = shapely.polygons(rings)
    area = shapely.area(polygons)
    hole = np.flatnonzero(is_hole & (count > 0))
    pair_hole, pair_polygon = shapely.STRtree(polygons).query(shapely.points(points[start[hole]]), "intersects")
    same = layer[hole[pair_hole]] == layer[candidate[pair_polygon]]
    pair_hole, pair_polygon = pair_hole[same], pair_polygon[same]
    order = np.lexsort((pair_polygon, area[pair_polygon], pair_hole))
    best, first = np.unique(pair_hole[order], return_index=True)
    around = np.full(len(start) - 1, -1, np.int64)
    around[hole[best]] = candidate[pair_polygon[order][first]]
    return around[is_hole]


def select_rings(points: Float64, start: Int64, ring: Int64) -> tuple[Float64, Int64]:
    """The vertices of the chosen rings, one ring after the other, and where each of them starts."""
    vertices = expand(start[ring], start[ring + 1])
    return points[vertices], np.concatenate([[0], np.cumsum(start[ring + 1] - start[ring])])
