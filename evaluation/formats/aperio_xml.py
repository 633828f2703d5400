"""Aperio ImageScope XML (MoNuSeg, MoNuSAC): layers of outlines, the class is the name of an attribute of the layer.

::

    Annotations / Annotation (a layer) / Attributes / Attribute@Name         the class of the layer
                                       / Regions / Region / Vertices / Vertex@X @Y
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import shapely

from evaluation.decoding.streams import check_number, memory_told
from evaluation.decoding.xml import Dialect, Vertices, read_elements
from evaluation.findings import Finding, fault, for_each, quote
from evaluation.findings.errors import InputFault, refused
from evaluation.formats.classes import SKIPPED, UNKNOWN, class_of_names, unknown_classes
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request
from evaluation.model import Annotations, Bool, Case, Float64, Int16, Int64, Outlines
from evaluation.model.intervals import expand

LAYER = ("Annotations", "Annotation")
ATTRIBUTE = (*LAYER, "Attributes", "Attribute")
REGION = (*LAYER, "Regions", "Region")
APERIO = Dialect("Aperio", "Annotations", (*REGION, "Vertices"), "Vertex", ("X", "Y"))
RECTANGLE = "1"
POLYGON_TYPES = ("", "0", RECTANGLE)  # an ellipse (2) holds two corners of its box, an arrow (3) no area
SHAPES = {RECTANGLE: " (rectangle) of two vertices", "2": " (ellipse)"}
DEFAULT_ATTRIBUTE = "description"  # what ImageScope puts into every layer: a field for free text, not a name
PAIRS_LIMIT = 1 << 21  # of holes and outlines whose boxes they lie in


def read_aperio_xml(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The outlines of an Aperio XML file, compressed with gzip or not, in document order, in its own px.

    The class of a layer is that of the file (``request.file_class``), or else of the name of one of its own attributes,
    or else of its own name. Layers without regions need no class; those that ``request.classes.skipped`` names are left
    out. A region with ``NegativeROA="1"`` is a hole of the smallest outline of its layer that contains its first
    vertex; if there is none it is left out, with a warning. ``source_id`` is "<layer id>/<region id>", where a missing
    id is replaced by the position (1, 2, …). A file without regions gives no outlines.

    Raises InputFault with all that is wrong: too-large, unreadable-file, not-xml, forbidden-xml, wrong-format,
    unknown-class, invalid-coordinate, unsupported-shape, too-complex-outlines.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from evaluation.model import ClassTable
    >>> text = b'<Annotations><Annotation Id="7"><Attributes><Attribute Name="Epithelial"/></Attributes><Regions>'
    >>> text += b'<Region Id="3"><Vertices><Vertex X="1" Y="2"/><Vertex X="5" Y="2"/><Vertex X="1" Y="6.5"/></Vertices>'
    >>> text += b'</Region></Regions></Annotation></Annotations>'
    >>> rules = format_rules(
    ...     format="aperio_xml", files="{case}.xml", vertices="exact", origin="pixel_centre", vanished="drop"
    ... )
    >>> classes = ClassTable(("Epithelial",), {"epithelial": 1})
    >>> request = Request(where="'a.xml'", name="a.xml", rules=rules, classes=classes, limits=LimitRules())
    >>> (outlines,) = read_aperio_xml(io.BytesIO(text), request, Case("a", "a", 100, 100)).parts
    >>> outlines.class_id.tolist(), outlines.source_id.tolist(), outlines.points_xy.tolist()
    ([1], ['7/3'], [[1.0, 2.0], [5.0, 2.0], [1.0, 6.5]])
    """
    with memory_told(request.where):
        document = Document(request)
        opened = {LAYER: document.open_layer, ATTRIBUTE: document.open_attribute, REGION: document.open_region}
        read_elements(stream, APERIO, document.vertices, opened)
        drawn = document.arrange(request)
        if faults := [
            *document.vertices.faults(drawn.place_of_vertex, "vertex"),
            *shape_faults(drawn, request.where),
            *class_faults(drawn, request),
        ]:
            raise InputFault(*faults)
        return outlines_with_holes(drawn, request.where)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The N regions of a document, of which those of a layer follow each other.

    points_xy    float64 (V, 2)
    start        int64 (N + 1,)  region i has the vertices from ``start[i]`` to before ``start[i + 1]``
    region_id    of each region; empty if it has none
    type         int64 (N,)      index into ``types``
    types        texts
    is_hole      bool (N,)
    layer        int64 (N,)      index of the layer
    layer_id     of each layer; empty if it has none
    layer_start  int64           layer k has the regions from ``layer_start[k]`` to before ``layer_start[k + 1]``
    layer_names  the names that may be the class of a layer, for layers with regions, by index
    class_id     int16 (N,)      also UNKNOWN and SKIPPED
    """

    points_xy: Float64
    start: Int64
    region_id: list[str]
    type: Int64
    types: tuple[str, ...]
    is_hole: Bool
    layer: Int64
    layer_id: list[str]
    layer_start: Int64
    layer_names: Mapping[int, list[str]]
    class_id: Int16

    def source_id(self, index: int) -> str:
        layer = int(self.layer[index])
        region_id = self.region_id[index] or str(index - int(self.layer_start[layer]) + 1)
        return f"{self.layer_id[layer] or layer + 1}/{region_id}"

    def place(self, index: int) -> str:
        return f"region {quote(self.source_id(index))}"

    def place_of_vertex(self, vertex: int) -> str:
        index = int(np.searchsorted(self.start, vertex, "right")) - 1
        return f"{self.place(index)}, vertex {vertex - self.start[index] + 1:,}"


class Document:
    """What the parser has met so far: layers, regions, vertices; in lists, which the garbage collector walks fast."""

    def __init__(self, request: Request) -> None:
        self.where = request.where
        self.limits = request.limits
        self.layer_id: list[str] = []
        self.layer_name: list[str] = []
        self.layer_start: list[int] = []
        self.attributes: dict[int, list[str]] = {}  # names of the attributes of layers that have some
        self.attribute_count = 0
        self.region_id: list[str] = []
        self.types: dict[str, int] = {}  # the number of each text, from 0
        self.type: list[int] = []
        self.is_hole: list[bool] = []
        self.start: list[int] = []
        self.vertices = Vertices(APERIO.columns, request.where, request.limits)

    def open_layer(self, attributes: Mapping[str, str]) -> None:
        """An Annotation element begins."""
        self.check_number(len(self.layer_id), "layers")
        self.layer_id.append(attributes.get("Id", "").strip())
        self.layer_name.append(attributes.get("Name", ""))
        self.layer_start.append(len(self.region_id))

    def open_attribute(self, attributes: Mapping[str, str]) -> None:
        """An Attribute element of the layer at hand begins."""
        self.check_number(self.attribute_count, "attributes of layers")
        self.attribute_count += 1
        self.attributes.setdefault(len(self.layer_id) - 1, []).append(attributes.get("Name", ""))

    def open_region(self, attributes: Mapping[str, str]) -> None:
        """A Region element of the layer at hand begins."""
        self.check_number(len(self.region_id), "regions")
        self.region_id.append(attributes.get("Id", "").strip())
        self.type.append(self.types.setdefault(attributes.get("Type", "").strip(), len(self.types)))
        self.is_hole.append(attributes.get("NegativeROA", "").strip() == "1")
        self.start.append(len(self.vertices))

    def check_number(self, present: int, what: str) -> None:
        """Raise InputFault if one more would be too many: what is kept of a file is bounded."""
        check_number(present + 1, what, "instances_per_case", self.where, self.limits)

    def arrange(self, request: Request) -> Drawn:
        """What was met, as arrays, and the classes."""
        layer_start = np.array([*self.layer_start, len(self.region_id)], np.int64)
        regions = np.diff(layer_start)
        names = {
            index: [*self.attributes.get(index, ()), self.layer_name[index]]
            for index in np.flatnonzero(regions).tolist()
        }
        class_of_layer = np.zeros(len(regions), np.int16)
        for index, some in names.items():
            is_nameless = all(name.strip().casefold() in ("", DEFAULT_ATTRIBUTE) for name in some)
            class_of_layer[index] = class_of_names(some, is_nameless, request)
        layer = np.repeat(np.arange(len(regions)), regions)
        return Drawn(
            points_xy=self.vertices.points_xy(),
            start=np.array([*self.start, len(self.vertices)], np.int64),
            region_id=self.region_id,
            type=np.array(self.type, np.int64),
            types=tuple(self.types),
            is_hole=np.array(self.is_hole, np.bool_),
            layer=layer,
            layer_id=self.layer_id,
            layer_start=layer_start,
            layer_names=names,
            class_id=class_of_layer[layer],
        )


def shape_faults(drawn: Drawn, where: str) -> list[Finding]:
    """Regions whose vertices are no corners."""
    is_polygon = np.array([name in POLYGON_TYPES for name in drawn.types], np.bool_)[drawn.type]
    is_rectangle = np.array([name == RECTANGLE for name in drawn.types], np.bool_)[drawn.type]
    is_wrong = ~is_polygon | (is_rectangle & (np.diff(drawn.start) == 2))
    wrong = np.flatnonzero(is_wrong & (drawn.class_id != SKIPPED)).tolist()

    def fault_at(index: int) -> Finding:
        name = drawn.types[drawn.type[index]]
        return fault(
            "unsupported-shape",
            f"{where}, {drawn.place(index)}",
            wording="other-region",
            type=name,
            shape=SHAPES.get(name, ""),
        )

    return for_each(wrong, fault_at)


def class_faults(drawn: Drawn, request: Request) -> list[Finding]:
    """Layers whose regions have no class of the challenge; the first regions of each name, all are counted."""
    wrong = np.flatnonzero(drawn.class_id == UNKNOWN)
    named: dict[str, int] = {}  # the number of each name, from 0
    name_of_layer = np.zeros(len(drawn.layer_id), np.int64)
    for layer in np.unique(drawn.layer[wrong]).tolist():
        name = next((name for name in drawn.layer_names[layer] if name.strip()), "")
        name_of_layer[layer] = named.setdefault(name, len(named))

    def place(row: int) -> str:
        return f"{request.where}, {drawn.place(row)}"

    nameless = "the layer has no class name"
    return unknown_classes(list(named), name_of_layer[drawn.layer], wrong, place, request.classes, nameless=nameless)


def outlines_with_holes(drawn: Drawn, where: str) -> Annotations:
    """The regions as Outlines, holes put to the outlines that contain them."""
    is_hole = drawn.is_hole
    is_kept = drawn.class_id != SKIPPED
    owner = np.where(is_kept, np.arange(len(is_hole)), -1)
    hole = np.flatnonzero(is_hole & is_kept)
    if len(hole):
        owner[hole] = outlines_around(drawn, hole, where)
    lost = hole[owner[hole] < 0].tolist()
    warnings = for_each(lost, lambda index: fault("hole-without-outline", f"{where}, {drawn.place(index)}"))
    is_outline = is_kept & ~is_hole
    instance = np.cumsum(is_outline) - 1
    ring = np.flatnonzero(owner >= 0)
    ring = ring[np.argsort(owner[ring] * 2 + is_hole[ring], kind="stable")]
    points, start = select_rings(drawn, ring)
    outlines = Outlines(
        points_xy=points,
        ring_start=start,
        ring_instance=instance[owner[ring]].astype(np.int32),
        ring_is_hole=is_hole[ring],
        class_id=drawn.class_id[is_outline],
        source_id=np.array([drawn.source_id(index) for index in np.flatnonzero(is_outline).tolist()], object),
    )
    return Annotations((outlines,), tuple(warnings))


def outlines_around(drawn: Drawn, hole: Int64, where: str) -> Int64:
    """For each hole the index of the smallest region of its layer that contains its first vertex; -1 if none does.

    A vertex on the outline counts as inside; of equally small outlines the first one is taken. Raises InputFault
    ("too-complex-outlines") if holes lie in the boxes of too many outlines.
    """
    count = np.diff(drawn.start)
    around = np.full(len(hole), -1, np.int64)
    candidate = np.flatnonzero(~drawn.is_hole & (count >= 3))
    placed = np.flatnonzero(count[hole] > 0)
    if len(candidate) == 0:
        return around
    ring_points, ring_start = select_rings(drawn, candidate)
    rings = shapely.linearrings(ring_points, indices=np.repeat(np.arange(len(candidate)), np.diff(ring_start)))
    polygons = shapely.polygons(rings)
    shapely.prepare(polygons)
    area = shapely.area(polygons)
    tree = shapely.STRtree(polygons)
    vertices = shapely.points(drawn.points_xy[drawn.start[hole[placed]]])
    layer_of_hole, layer_of_polygon = drawn.layer[hole[placed]], drawn.layer[candidate]
    step = max(1, PAIRS_LIMIT // len(candidate))  # then the pairs of a piece fit into memory
    pairs = 0
    for begin in range(0, len(placed), step):
        pair_hole, pair_polygon = tree.query(vertices[begin : begin + step])
        pair_hole += begin
        pairs += len(pair_hole)
        if pairs > PAIRS_LIMIT:
            raise refused("too-complex-outlines", where, wording="too-holes", holes=len(hole), limit=PAIRS_LIMIT)
        inside = layer_of_hole[pair_hole] == layer_of_polygon[pair_polygon]
        inside[inside] = shapely.intersects(polygons[pair_polygon[inside]], vertices[pair_hole[inside]])
        pair_hole, pair_polygon = pair_hole[inside], pair_polygon[inside]
        order = np.lexsort((pair_polygon, area[pair_polygon], pair_hole))
        best, first = np.unique(pair_hole[order], return_index=True)
        around[placed[best]] = candidate[pair_polygon[order][first]]
    return around


def select_rings(drawn: Drawn, ring: Int64) -> tuple[Float64, Int64]:
    """The vertices of the chosen regions, one ring after the other, and where each of them starts."""
    start, stop = drawn.start[ring], drawn.start[ring + 1]
    if np.array_equal(ring, np.arange(len(drawn.region_id))):
        return drawn.points_xy, drawn.start
    return drawn.points_xy[expand(start, stop)], np.concatenate([[0], np.cumsum(stop - start)])


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    layers = []
    for class_id, name in enumerate(made.names, start=1):
        regions = "".join(
            f'<Region Id="{label}"><Vertices>'
            + "".join(f'<Vertex X="{x:g}" Y="{y:g}"/>' for x, y in ring)
            + "</Vertices></Region>"
            for label, (of_class, ring) in enumerate(made.rings(cases[0], class_name), start=1)
            if of_class == name
        )
        layers.append(
            f'<Annotation Id="{class_id}"><Attributes><Attribute Name="{name}"/></Attributes>'
            f"<Regions>{regions}</Regions></Annotation>"
        )
    return f"<?xml version='1.0'?>\n<Annotations>{''.join(layers)}</Annotations>\n".encode()


FORMATS = {"aperio_xml": Format(words="Aperio ImageScope XML", read=read_aperio_xml, example=example)}
