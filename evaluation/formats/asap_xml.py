"""ASAP XML: one list of dots, point sets and outlines; the class of an annotation is the group that it is part of.

::

    ASAP_Annotations / Annotations / Annotation@Type @PartOfGroup / Coordinates / Coordinate@Order @X @Y

As ``annotation/XmlRepository.cpp`` of github.com/computationalpathologygroup/ASAP writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from evaluation.challenge.formats import AsapXmlRules
from evaluation.decoding.streams import check_number, memory_told
from evaluation.decoding.xml import Dialect, Vertices, read_elements
from evaluation.findings import EXAMPLES_SHOWN, Finding, fault, for_each, quote
from evaluation.findings.errors import InputFault
from evaluation.formats.classes import SKIPPED, UNKNOWN, class_of_names, unknown_classes
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request, outlines_of_rings
from evaluation.model import Annotations, Bool, Case, Float64, Int16, Int64, Outlines, Points

ANNOTATION = ("ASAP_Annotations", "Annotations", "Annotation")
HOLDER = (*ANNOTATION, "Coordinates")
ASAP = Dialect("ASAP", "ASAP_Annotations", HOLDER, "Coordinate", ("Order", "X", "Y"))
TYPES = ("Dot", "PointSet", "Polygon", "Rectangle", "Spline", "Measurement")
KINDS = {name: kind for kind, name in enumerate(TYPES)}
DOT, POINT_SET, POLYGON, RECTANGLE, SPLINE, MEASUREMENT = range(6)
OTHER = 6  # any other text
KINDS_OF_SHAPE = {"point": (DOT, POINT_SET), "outline": (POLYGON, RECTANGLE)}
KINDS_OF_OTHER_SHAPE = {
    "point": (POLYGON, RECTANGLE, SPLINE, MEASUREMENT),
    "outline": (DOT, POINT_SET, MEASUREMENT),  # a spline is an outline, but a curve through its coordinates
}
CORNERS_OF_RECTANGLE = 4
NO_GROUP = ("", "None")  # ASAP writes "None" for annotations outside of all groups


def read_asap_xml(stream: BinaryIO, request: Request[AsapXmlRules], case: Case) -> Annotations:
    """The nuclei of an ASAP XML file, compressed with gzip or not, in document order, in its own px.

    They are Points (Dot, and each coordinate of a PointSet) or Outlines (Polygon, Rectangle), as
    ``request.rules.shape`` says. Annotations of the other shape are a fault, unless ``other_shapes`` is "skip"; then
    they are left out, with a warning. A Spline is a fault where nuclei are outlines.

    The class of an annotation is that of the file (``request.file_class``), or else of its group; the group "None"
    stands for no name. Annotations of a group in ``request.classes.skipped`` are left out, whatever they are. How
    groups are nested does not matter. Coordinates go by their ``Order``, or as they stand in the file if that is
    missing, or twice the same, anywhere in an annotation. ``source_id`` is the position of the annotation in the file
    (1, 2, …); in a PointSet "<position>/<position of the coordinate>".

    Raises InputFault with all that is wrong: too-large, unreadable-file, not-xml, forbidden-xml, wrong-format,
    unknown-class, invalid-coordinate, unsupported-shape.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from evaluation.model import ClassTable
    >>> text = b'<ASAP_Annotations><Annotations><Annotation Name="a" Type="Dot" PartOfGroup="monocytes"><Coordinates>'
    >>> text += b'<Coordinate Order="0" X="7.5" Y="2" /></Coordinates></Annotation></Annotations></ASAP_Annotations>'
    >>> rules = format_rules(format="asap_xml", files="{case}.xml", shape="point", origin="pixel_corner")
    >>> classes = ClassTable(("lymphocyte", "monocyte"), {"lymphocytes": 1, "monocytes": 2})
    >>> request = Request(where="'a.xml'", name="a.xml", rules=rules, classes=classes, limits=LimitRules())
    >>> (points,) = read_asap_xml(io.BytesIO(text), request, Case("a", "a", 100, 100)).parts
    >>> points.class_id.tolist(), points.source_id.tolist(), points.points_xy.tolist()
    ([2], ['1'], [[7.5, 2.0]])
    """
    with memory_told(request.where):
        document = Document(request)
        read_elements(stream, ASAP, document.vertices, {ANNOTATION: document.open_annotation})
        drawn = document.arrange(request)
        if faults := [
            *document.vertices.faults(drawn.place_of_vertex, "coordinate"),
            *dot_faults(drawn, request),
            *shape_faults(drawn, request),
            *class_faults(drawn, request),
        ]:
            raise InputFault(*faults)
        part = points_drawn(drawn, request) if request.rules.shape == "point" else outlines_drawn(drawn)
        return Annotations((part,), tuple(left_out(drawn, request)))


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The N annotations of a document.

    points_xy   float64 (V, 2)  the vertices of one annotation after the other, each in its order
    start       int64 (N + 1,)  annotation i has the vertices from ``start[i]`` to before ``start[i + 1]``
    type        int64 (N,)      index into ``types``
    types       texts
    kind        int64 (N,)      DOT … OTHER
    group       int64 (N,)      index into ``groups``
    groups      texts
    class_id    int16 (N,)      also UNKNOWN and SKIPPED
    is_other    bool (N,)       not skipped, but of the shape that nuclei do not have
    is_nucleus  bool (N,)       neither skipped nor left out
    """

    points_xy: Float64
    start: Int64
    type: Int64
    types: tuple[str, ...]
    kind: Int64
    group: Int64
    groups: tuple[str, ...]
    class_id: Int16
    is_other: Bool
    is_nucleus: Bool

    @property
    def count(self) -> Int64:
        return np.diff(self.start)

    def place_of_vertex(self, vertex: int) -> str:
        index = int(np.searchsorted(self.start, vertex, "right")) - 1
        return f"{place(index)}, coordinate {vertex - self.start[index] + 1:,}"

    def vertices_of(self, chosen: Bool) -> Float64:
        """Float64 (v, 2): the vertices of the chosen annotations."""
        return self.points_xy[np.repeat(chosen, self.count)]


class Document:
    """What the parser has met so far: types and groups of annotations, and vertices."""

    def __init__(self, request: Request[AsapXmlRules]) -> None:
        self.where = request.where
        self.limits = request.limits
        self.types: dict[str, int] = {}  # the number of each text, from 0
        self.groups: dict[str, int] = {}
        self.type: list[int] = []
        self.group: list[int] = []
        self.start: list[int] = []
        self.vertices = Vertices(ASAP.columns, request.where, request.limits)

    def open_annotation(self, attributes: Mapping[str, str]) -> None:
        """An Annotation element begins."""
        check_number(len(self.start) + 1, "annotations", "instances_per_case", self.where, self.limits)
        self.type.append(self.types.setdefault(attributes.get("Type", "").strip(), len(self.types)))
        self.group.append(self.groups.setdefault(attributes.get("PartOfGroup", "").strip(), len(self.groups)))
        self.start.append(len(self.vertices))

    def arrange(self, request: Request[AsapXmlRules]) -> Drawn:
        """What was met, as arrays."""
        shape = request.rules.shape
        start = np.array([*self.start, len(self.vertices)], np.int64)
        type_, group = np.array(self.type, np.int64), np.array(self.group, np.int64)
        kind = np.array([KINDS.get(name, OTHER) for name in self.types], np.int64)[type_]
        classes = [class_of_names([name], name in NO_GROUP, request) for name in self.groups]
        class_id = np.array(classes, np.int16)[group]
        is_nucleus = class_id != SKIPPED
        is_other = is_nucleus & np.isin(kind, KINDS_OF_OTHER_SHAPE[shape])
        if request.rules.other_shapes == "skip":
            is_nucleus &= ~is_other
        order = in_order(self.vertices.column("Order"), start)
        return Drawn(
            points_xy=self.vertices.points_xy()[order],
            start=start,
            type=type_,
            types=tuple(self.types),
            kind=kind,
            group=group,
            groups=tuple(self.groups),
            class_id=class_id,
            is_other=is_other,
            is_nucleus=is_nucleus,
        )


def in_order(order: Float64, start: Int64) -> Int64 | slice:
    """Index of the vertices, int64 (V,), with those of each annotation in ascending order.

    order  float64 (V,)  NaN where it is missing; an annotation in which it is, or occurs twice, stays as it is
    start  int64 (N + 1,)

    >>> in_order(np.array([1, 0, 7, 1, 1, 0]), np.array([0, 2, 3, 6])).tolist()
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


# --- what is wrong, or left out ---------------------------------------------------------------------------------------


def place(index: int) -> str:
    return f"annotation {quote(index + 1)}"


def dot_faults(drawn: Drawn, request: Request[AsapXmlRules]) -> list[Finding]:
    """Dots that are not at one place."""
    wrong = np.flatnonzero(drawn.is_nucleus & (drawn.kind == DOT) & (drawn.count != 1)).tolist()
    return for_each(
        wrong,
        lambda index: fault(
            "invalid-coordinate",
            f"{request.where}, {place(index)}",
            wording="dot-without",
            number=drawn.count[index] or "no",
        ),
    )


def shape_faults(drawn: Drawn, request: Request[AsapXmlRules]) -> list[Finding]:
    """Annotations that are no nuclei of the shape that the challenge has."""
    shape = request.rules.shape
    wanted = KINDS_OF_SHAPE[shape]
    is_cut = (drawn.kind == RECTANGLE) & (drawn.count != CORNERS_OF_RECTANGLE)
    wrong = np.flatnonzero(drawn.is_nucleus & (is_cut | ~np.isin(drawn.kind, wanted))).tolist()

    def fault_at(index: int) -> Finding:
        corners = f" of {drawn.count[index]:,} coordinates" if is_cut[index] and shape == "outline" else ""
        return fault(
            "unsupported-shape",
            f"{request.where}, {place(index)}",
            wording="asap-other" if drawn.is_other[index] else "asap",
            type=drawn.types[drawn.type[index]],
            corners=corners,
            types=[TYPES[kind] for kind in wanted],
            wanted_corners=" of four coordinates" if shape == "outline" else "",
            shape=shape,
        )

    return for_each(wrong, fault_at)


def class_faults(drawn: Drawn, request: Request[AsapXmlRules]) -> list[Finding]:
    """Groups that are no class of the challenge; the first annotations of each, all are counted."""
    is_kind = np.isin(drawn.kind, KINDS_OF_SHAPE[request.rules.shape])
    wrong = np.flatnonzero(drawn.is_nucleus & is_kind & (drawn.class_id == UNKNOWN))
    names = ["" if name in NO_GROUP else name for name in drawn.groups]
    nameless = "the annotation is in no group"
    return unknown_classes(
        names, drawn.group, wrong, lambda row: f"{request.where}, {place(row)}", request.classes, nameless=nameless
    )


def left_out(drawn: Drawn, request: Request[AsapXmlRules]) -> list[Finding]:
    """Warnings about annotations of the other shape that are left out; the first of each type, all are counted."""
    others = np.flatnonzero(drawn.is_other & ~drawn.is_nucleus)
    named: list[Finding] = []
    for type_ in np.unique(drawn.type[others]).tolist():
        of_type = others[drawn.type[others] == type_]
        places = [f"{request.where}, {place(index)}" for index in of_type[:EXAMPLES_SHOWN].tolist()]
        named.append(
            fault(
                "left-out",
                *places,
                wording="asap-shape-left-out",
                total=len(of_type),
                type=drawn.types[type_],
                shape=request.rules.shape,
            )
        )
    return named


# --- nuclei -----------------------------------------------------------------------------------------------------------


def points_drawn(drawn: Drawn, request: Request[AsapXmlRules]) -> Points:
    """The coordinates of dots and point sets. Raises InputFault ("too-large") if they are too many."""
    chosen = drawn.is_nucleus
    count = drawn.count[chosen]
    check_number(int(count.sum()), "points", "instances_per_case", request.where, request.limits)
    source_id: list[str] = []
    for index, kind, number in zip(
        np.flatnonzero(chosen).tolist(), drawn.kind[chosen].tolist(), count.tolist(), strict=True
    ):
        name = str(index + 1)
        source_id += [name] if kind == DOT else [f"{name}/{point}" for point in range(1, number + 1)]
    return Points(
        points_xy=drawn.vertices_of(chosen),
        class_id=np.repeat(drawn.class_id[chosen], count),
        source_id=np.array(source_id, object),
    )


def outlines_drawn(drawn: Drawn) -> Outlines:
    """Polygons and rectangles; those without coordinates are outlines without vertices."""
    chosen = drawn.is_nucleus
    return outlines_of_rings(
        drawn.vertices_of(chosen),
        drawn.count[chosen],
        class_id=drawn.class_id[chosen],
        source_id=np.array([str(index + 1) for index in np.flatnonzero(chosen).tolist()], object),
    )


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
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


FORMATS = {"asap_xml": Format(words="ASAP XML", read=read_asap_xml, example=example)}
