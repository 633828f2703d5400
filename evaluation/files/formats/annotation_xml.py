"""XML of Aperio ImageScope (MoNuSeg, MoNuSAC), layers of outlines, and of ASAP, one list of dots and outlines.

::

    Annotations / Annotation (a layer) / Attributes / Attribute@Name         the class of the layer
                                       / Regions / Region / Vertices / Vertex@X @Y
    ASAP_Annotations / Annotations / Annotation@Type @PartOfGroup / Coordinates / Coordinate@Order @X @Y

In ASAP the class of an annotation is the group that it is part of, as ``annotation/XmlRepository.cpp`` of
github.com/computationalpathologygroup/ASAP writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import shapely

from evaluation.challenge.formats import AsapXmlRules
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.streams import check_number
from evaluation.files.decoding.xml import MISSING, Dialect, Vertices, read_elements
from evaluation.files.formats.format import Example, Format, Request, Word, outlines_of_rings
from evaluation.files.formats.sheet import SKIPPED, UNKNOWN, Sheet, class_of_names
from evaluation.findings import quote
from evaluation.findings.errors import refused
from nuclei_metrics.model import Bool, Case, Float64, Int64, Outlines, Points
from nuclei_metrics.model.arrays import expand


class Regions(Sheet):
    """The N regions of a document, in its order: lists during parsing, because they are fast to garbage-collect, then
    arrays.

    region, vertex  their names in the format
    nameless        message for a region without a named owner
    points_xy       float64 (V, 2)
    start           int64 (N + 1,)  region i has the vertices from ``start[i]`` to before ``start[i + 1]``
    count           int64 (N,)      number of vertices
    type            int64 (N,)      index into ``types``
    owner           int64 (N,)      the layer or group of a region
    class_id        int16 (N,)      also UNKNOWN and SKIPPED
    source_id       of a region, by its index
    """

    def __init__(self, dialect: Dialect, region: str, vertex: str, request: Request, nameless: str) -> None:
        super().__init__(request, lambda index: f"{region} {quote(self.source_id(index))}", nameless)
        self.vertex = vertex
        self.counted = f"{region}s", "instances_per_case", request.where, request.limits
        self.vertices = Vertices(dialect.columns, request.where, request.limits)
        self.starts: list[int] = []
        self.owners: list[int] = []
        self.types: dict[str, int] = {}  # the number of each text, from 0
        self.type_numbers: list[int] = []

    def open(self, owner: int, type: str) -> None:
        """Begin a region when its element opens."""
        check_number(len(self.starts) + 1, *self.counted)
        self.starts.append(len(self.vertices))
        self.owners.append(owner)
        self.type_numbers.append(self.types.setdefault(type.strip(), len(self.types)))

    def check_number(self, present: int, what: str) -> None:
        """Raise InputFault if one more would be too many: stored content is bounded."""
        check_number(present + 1, what, "instances_per_case", self.request.where, self.request.limits)

    def arrange(self, owners: Sequence[_Owner], source_id: Callable[[int], str]) -> None:
        """Create arrays of the parsed content, and find the classes of the owners."""
        self.points_xy = self.vertices.points_xy()
        self.start = np.array([*self.starts, len(self.vertices)], np.int64)
        self.count: Int64 = np.diff(self.start)
        self.type, self.owner = np.array(self.type_numbers, np.int64), np.array(self.owners, np.int64)
        classes = [class_of_names(owner.names, owner.is_nameless, self.request) for owner in owners]
        self.class_id = np.array(classes, np.int16)[self.owner]
        self.shown = [owner.shown for owner in owners]
        self.source_id = source_id

    def of_types(self, *types: str) -> Bool:
        """Return which regions have one of these types, bool (N,)."""
        return np.array([name in types for name in self.types], np.bool_)[self.type]

    def type_of(self, index: int) -> str:
        return list(self.types)[int(self.type[index])]

    def check_regions(self, is_classed: Bool) -> None:
        """Record the faults of vertices, and of the names of regions that need a class, bool (N,); then raise them."""
        for vertex, axis, text in self.vertices.invalid:
            index = int(np.searchsorted(self.start, vertex, "right")) - 1
            place = f"{self.place(index)}, {self.vertex} {vertex - self.start[index] + 1:,}"
            got = f"no {axis}" if text == MISSING else f"{axis} is {quote(text)}"
            self.faults.fault("invalid-coordinate", place, got=got)
        self.faults.total["invalid-coordinate"] += self.vertices.invalid_count - len(self.vertices.invalid)
        for index in np.flatnonzero(is_classed & (self.class_id == UNKNOWN)).tolist():
            self.note_unknown(self.shown[self.owner[index]], index)
        self.check()

    def rings(self, ring: Int64) -> tuple[Float64, Int64]:
        """Return the vertices of the chosen regions, one ring after the other, and how many each of them has."""
        if np.array_equal(ring, np.arange(len(self.type))):  # all of them
            return self.points_xy, self.count
        return self.points_xy[expand(self.start[ring], self.start[ring + 1])], self.count[ring]

    def columns(self, index: Int64) -> dict[str, Any]:
        """Create the columns of the chosen regions. Raises InputFault with all faults of the file."""
        return self.checked_columns(self.class_id[index], [*map(self.source_id, index.tolist())])


@dataclass(frozen=True, slots=True)
class _Owner:
    """A layer or group: names that may be its class, whether they are meaningless, and the name for messages."""

    names: Sequence[str]
    is_nameless: bool
    shown: str


# --- Aperio -----------------------------------------------------------------------------------------------------------


LAYER = ("Annotations", "Annotation")
ATTRIBUTE = (*LAYER, "Attributes", "Attribute")
REGION = (*LAYER, "Regions", "Region")
APERIO = Dialect("Aperio", "Annotations", (*REGION, "Vertices"), "Vertex", ("X", "Y"))
RECTANGLE = "1"
POLYGON_TYPES = ("", "0", RECTANGLE)  # an ellipse (2) holds two corners of its box, an arrow (3) no area
WORDS_OF_TYPES = {RECTANGLE: " (rectangle) of two vertices", "2": " (ellipse)"}
DEFAULT_ATTRIBUTE = "description"  # what ImageScope puts into every layer: a field for free text, not a name
PAIRS_LIMIT = 1 << 21  # of holes and outlines whose boxes they lie in


def _read_aperio_xml(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the outlines of an Aperio XML file, compressed with gzip or not, in document order, in px of the file.

    The class of a layer comes from the file (``request.file_class``), the name of an attribute, or the name of the
    layer. Layers without regions need no class; layers in ``request.classes.skipped`` are ignored. A region
    with ``NegativeROA="1"`` is a hole of the smallest outline of its layer that contains its first vertex; if missing
    it is omitted, with a warning. ``source_id`` is "<layer id>/<region id>", where a missing id is replaced by the
    position (1, 2, …). A file without regions has no outlines.

    Raises InputFault with all faults: too-large, unreadable-file, not-xml, forbidden-xml, wrong-format,
    unknown-class, invalid-coordinate, unsupported-shape, too-complex-outlines.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from nuclei_metrics.model import ClassTable
    >>> text = b'<Annotations><Annotation Id="7"><Attributes><Attribute Name="Epithelial"/></Attributes><Regions>'
    >>> text += b'<Region Id="3"><Vertices><Vertex X="1" Y="2"/><Vertex X="5" Y="2"/><Vertex X="1" Y="6.5"/></Vertices>'
    >>> text += b'</Region></Regions></Annotation></Annotations>'
    >>> rules = format_rules(
    ...     format="aperio_xml", files="{case}.xml", vertices="exact", origin="pixel_centre", vanished="drop"
    ... )
    >>> classes = ClassTable(("Epithelial",), {"epithelial": 1})
    >>> request = Request(where="'a.xml'", name="a.xml", rules=rules, classes=classes, limits=LimitRules())
    >>> (outlines,) = _read_aperio_xml(io.BytesIO(text), request, Case("a", "a", 100, 100)).parts
    >>> outlines.class_id.tolist(), outlines.source_id.tolist(), outlines.points_xy.tolist()
    ([1], ['7/3'], [[1.0, 2.0], [5.0, 2.0], [1.0, 6.5]])
    """
    regions = Regions(APERIO, "region", "vertex", request, "the layer has no class name")
    layer_id: list[str] = []
    layer_names: list[list[str]] = []
    layer_start: list[int] = []
    region_id: list[str] = []
    holes: list[bool] = []
    attribute_count = 0

    def open_layer(attributes: Mapping[str, str]) -> None:
        regions.check_number(len(layer_id), "layers")
        layer_id.append(attributes.get("Id", "").strip())
        layer_names.append([attributes.get("Name", "")])  # comes behind those of its attributes
        layer_start.append(len(region_id))

    def open_attribute(attributes: Mapping[str, str]) -> None:
        nonlocal attribute_count
        regions.check_number(attribute_count, "attributes of layers")
        attribute_count += 1
        layer_names[-1].insert(-1, attributes.get("Name", ""))

    def open_region(attributes: Mapping[str, str]) -> None:
        regions.open(len(layer_id) - 1, attributes.get("Type", ""))
        region_id.append(attributes.get("Id", "").strip())
        holes.append(attributes.get("NegativeROA", "").strip() == "1")

    def source_id(index: int) -> str:
        layer = regions.owners[index]
        return f"{layer_id[layer] or layer + 1}/{region_id[index] or index - layer_start[layer] + 1}"

    opened = {LAYER: open_layer, ATTRIBUTE: open_attribute, REGION: open_region}
    read_elements(stream, APERIO, regions.vertices, opened)
    owners = [
        _Owner(
            names,
            all(name.strip().casefold() in ("", DEFAULT_ATTRIBUTE) for name in names),
            next((name for name in names if name.strip()), ""),
        )
        for names in layer_names
    ]
    regions.arrange(owners, source_id)
    is_kept = regions.class_id != SKIPPED
    is_wrong = ~regions.of_types(*POLYGON_TYPES) | (regions.of_types(RECTANGLE) & (regions.count == 2))
    for index in regions.rows_with("unsupported-shape", is_wrong & is_kept):
        shape = WORDS_OF_TYPES.get(type := regions.type_of(index), "")
        regions.fault("unsupported-shape", index, wording="other-region", type=type, shape=shape)
    regions.check_regions(is_kept)
    return outlines_with_holes(regions, np.array(holes, np.bool_), is_kept)


def outlines_with_holes(regions: Regions, is_hole: Bool, is_kept: Bool) -> Annotations:
    """Create Outlines of the regions that are kept; a hole is a ring of the outline that contains it."""
    owner = np.where(is_kept, np.arange(len(is_hole)), -1)
    hole = np.flatnonzero(is_hole & is_kept)
    if len(hole):
        owner[hole] = _outlines_around(regions, hole, np.flatnonzero(~is_hole & (regions.count >= 3)))
    for index in regions.left_out.first("hole-without-outline", hole[owner[hole] < 0].tolist()):
        regions.left_out.fault("hole-without-outline", regions.place(index))
    is_outline = is_kept & ~is_hole
    ring = np.flatnonzero(owner >= 0)
    ring = ring[np.argsort(owner[ring] * 2 + is_hole[ring], kind="stable")]
    instance = np.cumsum(is_outline) - 1
    columns = regions.columns(np.flatnonzero(is_outline))
    outlines = outlines_of_rings(*regions.rings(ring), instance[owner[ring]], is_hole[ring], **columns)
    return Annotations((outlines,), tuple(regions.left_out.findings()))


def _outlines_around(regions: Regions, hole: Int64, candidate: Int64) -> Int64:
    """For each hole the index of the smallest candidate of its layer that contains its first vertex; otherwise -1.

    A vertex on the outline counts as inside; of equally small outlines the first is taken. Raises InputFault
    ("too-complex-outlines") if holes are in the boxes of too many outlines.
    """
    around = np.full(len(hole), -1, np.int64)
    placed = np.flatnonzero(regions.count[hole] > 0)
    if len(candidate) == 0:
        return around
    points, size = regions.rings(candidate)
    polygons = shapely.polygons(shapely.linearrings(points, indices=np.repeat(np.arange(len(candidate)), size)))
    shapely.prepare(polygons)
    area = shapely.area(polygons)
    tree = shapely.STRtree(polygons)
    vertices = shapely.points(regions.points_xy[regions.start[hole[placed]]])
    layer_of_hole, layer_of_polygon = regions.owner[hole[placed]], regions.owner[candidate]
    step = max(1, PAIRS_LIMIT // len(candidate))  # then the pairs of a piece fit into memory
    pairs = 0
    for begin in range(0, len(placed), step):
        pair_hole, pair_polygon = tree.query(vertices[begin : begin + step])
        pair_hole += begin
        pairs += len(pair_hole)
        if pairs > PAIRS_LIMIT:
            where = regions.request.where
            raise refused("too-complex-outlines", where, wording="too-holes", holes=len(hole), limit=PAIRS_LIMIT)
        inside = layer_of_hole[pair_hole] == layer_of_polygon[pair_polygon]
        inside[inside] = shapely.intersects(polygons[pair_polygon[inside]], vertices[pair_hole[inside]])
        pair_hole, pair_polygon = pair_hole[inside], pair_polygon[inside]
        order = np.lexsort((pair_polygon, area[pair_polygon], pair_hole))
        best, first = np.unique(pair_hole[order], return_index=True)
        around[placed[best]] = candidate[pair_polygon[order][first]]
    return around


def _example_of_aperio_xml(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    layers = dict.fromkeys(made.names, "")
    for label, (name, ring) in enumerate(made.rings(cases[0], class_name), start=1):
        vertices = "".join(f'<Vertex X="{x:g}" Y="{y:g}"/>' for x, y in ring)
        layers[name] += f'<Region Id="{label}"><Vertices>{vertices}</Vertices></Region>'
    texts = "".join(
        f'<Annotation Id="{class_id}"><Attributes><Attribute Name="{name}"/></Attributes><Regions>{text}</Regions>'
        "</Annotation>"
        for class_id, (name, text) in enumerate(layers.items(), start=1)
    )
    return f"<?xml version='1.0'?>\n<Annotations>{texts}</Annotations>\n".encode()


# --- ASAP -------------------------------------------------------------------------------------------------------------


ANNOTATION = ("ASAP_Annotations", "Annotations", "Annotation")
ASAP = Dialect("ASAP", "ASAP_Annotations", (*ANNOTATION, "Coordinates"), "Coordinate", ("Order", "X", "Y"))
TYPES_OF_SHAPE = {"point": ("Dot", "PointSet"), "outline": ("Polygon", "Rectangle")}
TYPES_OF_OTHER_SHAPE = {
    "point": ("Polygon", "Rectangle", "Spline", "Measurement"),
    "outline": ("Dot", "PointSet", "Measurement"),  # a spline is an outline, but a curve through its coordinates
}
NO_GROUP = ("", "None")  # ASAP writes "None" for annotations outside of all groups


def _read_asap_xml(stream: BinaryIO, request: Request[AsapXmlRules], case: Case) -> Annotations:
    """Read the nuclei of an ASAP XML file, compressed with gzip or not, in document order, in px of the file.

    They are Points (Dot, and each coordinate of a PointSet) or Outlines (Polygon, Rectangle), as
    ``request.rules.shape`` states. Annotations of the other shape are a fault, unless ``other_shapes`` is "skip"; then
    they are omitted, with a warning. A Spline is a fault where nuclei are outlines.

    The class of an annotation comes from the file (``request.file_class``) or its group; the group "None" means no
    name. Annotations of a group in ``request.classes.skipped`` are ignored. The nesting of groups does not matter.
    Coordinates are sorted by ``Order``, or kept in file order if an ``Order`` in the annotation is missing or repeated.
    ``source_id`` is the position of the annotation in the file (1, 2, …); in a PointSet "<position>/<position of the
    coordinate>".

    Raises InputFault with all faults: too-large, unreadable-file, not-xml, forbidden-xml, wrong-format,
    unknown-class, invalid-coordinate, unsupported-shape.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from nuclei_metrics.model import ClassTable
    >>> text = b'<ASAP_Annotations><Annotations><Annotation Name="a" Type="Dot" PartOfGroup="monocytes"><Coordinates>'
    >>> text += b'<Coordinate Order="0" X="7.5" Y="2" /></Coordinates></Annotation></Annotations></ASAP_Annotations>'
    >>> rules = format_rules(format="asap_xml", files="{case}.xml", shape="point", origin="pixel_corner")
    >>> classes = ClassTable(("lymphocyte", "monocyte"), {"lymphocytes": 1, "monocytes": 2})
    >>> request = Request(where="'a.xml'", name="a.xml", rules=rules, classes=classes, limits=LimitRules())
    >>> (points,) = _read_asap_xml(io.BytesIO(text), request, Case("a", "a", 100, 100)).parts
    >>> points.class_id.tolist(), points.source_id.tolist(), points.points_xy.tolist()
    ([2], ['1'], [[7.5, 2.0]])
    """
    regions = Regions(ASAP, "annotation", "coordinate", request, "the annotation is in no group")
    groups: dict[str, int] = {}

    def open_annotation(attributes: Mapping[str, str]) -> None:
        group = groups.setdefault(attributes.get("PartOfGroup", "").strip(), len(groups))
        regions.open(group, attributes.get("Type", ""))

    read_elements(stream, ASAP, regions.vertices, {ANNOTATION: open_annotation})
    owners = [_Owner([name], name in NO_GROUP, "" if name in NO_GROUP else name) for name in groups]
    regions.arrange(owners, lambda index: str(index + 1))
    shape, count = request.rules.shape, regions.count
    is_nucleus = regions.class_id != SKIPPED
    is_other = is_nucleus & regions.of_types(*TYPES_OF_OTHER_SHAPE[shape])
    if request.rules.other_shapes == "skip":
        is_nucleus &= ~is_other
        for index in regions.left_out.first("left-out", np.flatnonzero(is_other).tolist()):
            place, type = regions.place(index), regions.type_of(index)
            regions.left_out.fault("left-out", place, wording="asap-shape-left-out", type=type, shape=shape)
    is_dot, is_kind = regions.of_types("Dot"), regions.of_types(*TYPES_OF_SHAPE[shape])
    is_cut = regions.of_types("Rectangle") & (count != 4)

    is_outline = shape == "outline"
    for index in regions.rows_with("invalid-coordinate", is_nucleus & is_dot & (count != 1)):
        regions.fault("invalid-coordinate", index, wording="dot-without", number=count[index] or "no")
    for index in regions.rows_with("unsupported-shape", is_nucleus & (is_cut | ~is_kind)):
        regions.fault(
            "unsupported-shape",
            index,
            wording="asap-other" if is_other[index] else "asap",
            type=regions.type_of(index),
            corners=f" of {count[index]:,} coordinates" if is_cut[index] and is_outline else "",
            types=TYPES_OF_SHAPE[shape],
            wanted_corners=" of four coordinates" if is_outline else "",
            shape=shape,
        )
    regions.check_regions(is_nucleus & is_kind)
    order = by_order(regions.vertices.column("Order"), regions.start)
    points_xy = regions.points_xy[order][np.repeat(is_nucleus, count)]
    nuclei = _nuclei_drawn(regions, np.flatnonzero(is_nucleus), points_xy, is_dot)
    return Annotations((nuclei,), tuple(regions.left_out.findings()))


def _nuclei_drawn(regions: Regions, nucleus: Int64, points_xy: Float64, is_dot: Bool) -> Points | Outlines:
    """Create Points or Outlines of the annotations that are nuclei; annotations without coordinates are outlines
    without vertices.

    Raises InputFault ("too-large") if there are too many points.
    """
    count, columns, request = regions.count[nucleus], regions.columns(nucleus), regions.request
    if not request.rules.are_points:
        return outlines_of_rings(points_xy, count, **columns)
    check_number(int(count.sum()), "points", "instances_per_case", request.where, request.limits)
    names: list[str] = []
    for name, dot, number in zip(columns["source_id"], is_dot[nucleus].tolist(), count.tolist(), strict=True):
        names += [name] if dot else [f"{name}/{point}" for point in range(1, number + 1)]
    return Points(points_xy, np.repeat(columns["class_id"], count), np.array([*names, None], object)[:-1])


def by_order(order: Float64, start: Int64) -> Int64 | slice:
    """Order the vertices: return an index, int64 (V,), that sorts the vertices of each annotation.

    order  float64 (V,)  NaN if it is missing; an annotation in which it is, or occurs twice, stays as it is
    start  int64 (N + 1,)

    >>> by_order(np.array([1, 0, 7, 1, 1, 0]), np.array([0, 2, 3, 6])).tolist()
    [1, 0, 2, 3, 4, 5]
    """
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    same_owner = owner[1:] == owner[:-1]
    if np.all(order[1:] > order[:-1], where=same_owner):
        return slice(None)
    is_usable = np.ones(len(start) - 1, np.bool_)
    is_usable[owner[np.isnan(order)]] = False
    by_order = np.lexsort((order, owner))
    is_twice = same_owner & (order[by_order][1:] == order[by_order][:-1])
    is_usable[owner[1:][is_twice]] = False
    return np.lexsort((np.where(is_usable[owner], order, 0), owner))


def _example_of_asap_xml(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    shapes: list[tuple[str, str, Any]]
    if made.rules.are_points:
        shapes = [("Dot", name, [(x, y)]) for name, x, y in made.marks(cases[0], class_name)]
    else:
        shapes = [("Polygon", name, ring) for name, ring in made.rings(cases[0], class_name)]
    annotations = "".join(
        f'<Annotation Name="Annotation {index}" Type="{kind}" PartOfGroup="{name}"><Coordinates>'
        + "".join(f'<Coordinate Order="{i}" X="{x:g}" Y="{y:g}"/>' for i, (x, y) in enumerate(ring))
        + "</Coordinates></Annotation>"
        for index, (kind, name, ring) in enumerate(shapes)
    )
    text = f"<ASAP_Annotations><Annotations>{annotations}</Annotations><AnnotationGroups/></ASAP_Annotations>\n"
    return f"<?xml version='1.0'?>\n{text}".encode()


FORMATS = {
    "aperio_xml": Format(
        "Aperio ImageScope XML", _example_of_aperio_xml, read=_read_aperio_xml, root=b"<Annotations", centred=("",)
    ),
    "asap_xml": Format(
        "ASAP XML",
        _example_of_asap_xml,
        read=_read_asap_xml,
        root=b"<ASAP_Annotations",
        told_by=(
            Word(("Dot", "PointSet"), {"shape": "point"}),
            Word(("Polygon", "Rectangle", "Spline"), {"shape": "outline"}),
        ),
    ),
}
