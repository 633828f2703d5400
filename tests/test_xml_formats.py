"""Reading the XML of Aperio and ASAP: what elements and attributes mean, what is refused. ElementTree is the oracle."""

from __future__ import annotations

import gzip
import io
import json
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xml_files import AS_DRAWN, CASE, xml_request

from evaluation.decoding import streams as chunks_module
from evaluation.decoding import xml as bounded_xml
from evaluation.findings.errors import InputFault
from evaluation.formats import annotation_xml, read_annotations
from evaluation.formats.annotation_xml import by_order
from evaluation.model import Annotations

CLASSES = {"epithelial": 1, "lymphocyte": 2, "ambiguous": -1}
POINT = {"shape": "point", "origin": "pixel_corner"}
OUTLINE = {"shape": "outline", **AS_DRAWN}
TRIANGLE = ((1, 2), (5, 2), (1, 6.5))
SQUARE = ((0, 0), (4, 0), (4, 3), (0, 3))
SKIP = {"other_shapes": "skip"}


def region(*points, id="1", **attributes) -> str:
    texts = "".join(f'<Vertex X="{x}" Y="{y}" Z="0"/>' for x, y in points or TRIANGLE)
    named = "".join(f' {key}="{value}"' for key, value in {"Id": id, **attributes}.items() if value is not None)
    return f"<Region{named}><Attributes/><Vertices>{texts}</Vertices></Region>"


def layer(*regions: str, cls: str | None = "Epithelial", id="1", name="") -> str:
    attributes = "<Attributes/>" if cls is None else f'<Attributes><Attribute Id="0" Name="{cls}"/></Attributes>'
    number = "" if id is None else f' Id="{id}"'
    return f'<Annotation Name="{name}"{number}>{attributes}<Regions>{"".join(regions)}</Regions></Annotation>'


def aperio(*layers: str) -> str:
    return f'<?xml version="1.0"?>\n<Annotations MicronsPerPixel="0.25">{"".join(layers)}</Annotations>'


def annotation(*points, type="Dot", group="epithelial", orders=None) -> str:
    texts = "".join(
        "<Coordinate" + ("" if order is None else f' Order="{order}"') + f' X="{x}" Y="{y}" />'
        for order, (x, y) in zip(range(len(points)) if orders is None else orders, points, strict=True)
    )
    named = {"Name": "Annotation 0", "Type": type, "PartOfGroup": group, "Color": "#F4FA58"}
    attributes = "".join(f' {key}="{value}"' for key, value in named.items() if value is not None)
    return f"<Annotation{attributes}><Coordinates>{texts}</Coordinates></Annotation>"


def dot(x=1.5, y=2.25, **options) -> str:
    return annotation((x, y), **options)


def polygon(*points, **options) -> str:
    return annotation(*(points or TRIANGLE), **{"type": "Polygon", **options})


def asap(*annotations: str) -> str:
    groups = '<Group Name="epithelial" PartOfGroup="cells" Color="#ff0000"><Attributes /></Group>'
    return (
        f'<?xml version="1.0"?>\n<ASAP_Annotations><Annotations>{"".join(annotations)}</Annotations>'
        f"<AnnotationGroups>{groups}</AnnotationGroups></ASAP_Annotations>"
    )


def read_file(text: str | bytes, classes=CLASSES, **options) -> Annotations:
    """A file of ASAP is one of points if nothing else is said."""
    data = text.encode() if isinstance(text, str) else text
    if options.get("format") == "asap_xml" and "shape" not in options:
        options |= POINT
    return read_annotations(io.BytesIO(data), xml_request(classes, **options), CASE)


def read(text: str | bytes, **options):
    (part,) = read_file(text, **options).parts
    return part


def fault_of(text: str | bytes, **options) -> str:
    """The lines of all that is wrong with a file."""
    with pytest.raises(InputFault) as fault:
        read_file(text, **options)
    return "\n".join(str(finding) for finding in fault.value.findings)


def points(*coordinates) -> list[list[float]]:
    return [list(point) for point in coordinates]


def square(left, top, size):
    return (left, top), (left + size, top), (left + size, top + size), (left, top + size)


# --- what is read -----------------------------------------------------------------------------------------------------

ASAP = {"format": "asap_xml"}
OF_OUTLINES = ASAP | OUTLINE
ONE = {"classes": {"nucleus": 1}}
ALIAS = {"classes": {"epithelial": 1, "other": 5, "": 5}}
ELSEWHERE = '<Annotation Type="x"><Coordinates><Coordinate X="a"/></Coordinates></Annotation><Coordinate X="b"/>'
VERTICES = '<Vertex Y="2" X="1"/><Vertex Z="9" X="3" Y="4"/><Vertex X="5" Z="9" Y="6"/><Vertex X="7" Y="8"/>'
NO_OUTLINES = {"source_id": [], "points_xy": [], "ring_start": [0]}

READ = [
    # --- Aperio: layers and classes
    ("layers keep their order whatever their ids, and empty ones add nothing",
     aperio(layer(region(id="9"), region(id="4"), cls="Lymphocyte", id="4"), layer(id="2"),
            layer(region(id="4"), cls="Ambiguous", id="1")), {},
     {"source_id": ["4/9", "4/4", "1/4"], "class_id": [2, 2, -1], "ring_start": [0, 3, 6, 9],
      "points_xy": points(*TRIANGLE) * 3}),
    ("the class may come after the regions and in any order of attributes",
     aperio(f'<Annotation><Regions>{region()}</Regions><Attributes><Attribute Value="" Id="3" Name="Lymphocyte"/>'
            "</Attributes></Annotation>"), {}, {"class_id": [2]}),
    ("the class is matched in any case and with blanks around",
     aperio(layer(region(), cls="  epiTHELial ")), {}, {"class_id": [1]}),
    ("attributes of a region are not the class",
     aperio(layer(region().replace("<Attributes/>", '<Attributes><Attribute Name="Lymphocyte"/></Attributes>'))), {},
     {"class_id": [1]}),
    ("an attribute that is known is the class although another comes first",
     aperio(layer(region()).replace("<Attribute ", '<Attribute Name="Description"/><Attribute ')), {},
     {"class_id": [1]}),
    ("the name of the layer is the class if no attribute is known",
     aperio(layer(region(), cls="Description", name="Lymphocyte")), {}, {"class_id": [2]}),
    ("a layer without a name has the class of the empty alias",
     aperio(*(layer(region(), cls=cls) for cls in (None, "Description", ""))), ALIAS, {"class_id": [5, 5, 5]}),
    ("a layer without a name has the only class of a challenge with one",
     aperio(layer(region(), cls=None)), ONE, {"class_id": [1]}),
    ("the class of the file goes before the names in it",
     aperio(*(layer(region(), cls=cls) for cls in ("Fibroblast", "Lymphocyte", None))), {"file_class": 1},
     {"class_id": [1, 1, 1]}),
    ("layers without a name are left out if the challenge skips them",
     aperio(layer(region(), cls=None)), ONE | {"skipped": [""]}, NO_OUTLINES),
    ("an unknown class without regions is no fault",
     aperio(layer(cls="Fibroblast"), layer(region())), {}, {"class_id": [1]}),
    ("missing ids are replaced by positions",
     aperio(layer(id=None), layer(region(id=None), id=None), layer(region(id=None), region(id=None), id=None)), {},
     {"source_id": ["2/1", "3/1", "3/2"]}),
    *(("a file without regions has no outlines", text, {}, NO_OUTLINES)
      for text in (aperio(), aperio(layer()), "<Annotations/>")),
    ("regions without vertices are outlines without vertices",
     aperio(layer('<Region Id="1"><Vertices/></Region>', region(id="2"), '<Region Id="3"/>')), {},
     {"ring_start": [0, 0, 3, 3]}),
    ("the coordinates of a vertex may come in any order and among others",
     aperio(layer(f"<Region><Vertices>{VERTICES}</Vertices></Region>")), {},
     {"points_xy": [[1, 2], [3, 4], [5, 6], [7, 8]]}),
    ("vertices of anything else are left aside",
     aperio(layer(region()).replace("<Regions>", '<Plots><Plot><Vertices><Vertex X="1" Y="x"/></Vertices></Plot>'
                                    "</Plots><Vertex/><Regions>")), {}, {"points_xy": points(*TRIANGLE)}),
    ("only the value 1 of NegativeROA is a hole",
     aperio(layer(region(NegativeROA="0"), region(NegativeROA=""), region())), {},
     {"ring_is_hole": [False, False, False]}),
    ("a hole belongs to the smallest outline around it wherever it stands",
     aperio(layer(region(*square(4, 4, 2), id="hole", NegativeROA="1"), region(*square(0, 0, 20), id="large"),
                  region(*square(2, 2, 8), id="small"), region(*square(3, 3, 0.5), id="beside"),
                  region(*square(15, 15, 2), id="other hole", NegativeROA="1"))), {},
     {"source_id": ["1/large", "1/small", "1/beside"], "ring_instance": [0, 0, 1, 1, 2],
      "ring_is_hole": [False, True, False, True, False],
      "points_xy": points(*square(0, 0, 20), *square(15, 15, 2), *square(2, 2, 8), *square(4, 4, 2),
                          *square(3, 3, 0.5))}),
    ("coordinates up to the limit are accepted",
     aperio(layer(region((1e9, -1e9), ("+.5", "-1."), ("1e3", " 2&#10;")))), {},
     {"points_xy": [[1e9, -1e9], [0.5, -1], [1000, 2]]}),
    ("rectangles of four corners are outlines", aperio(layer(region(Type="0"), region(Type="1"))), {},
     {"class_id": [1, 1]}),
    ("gzip files of several members and with padding are read to the end",
     gzip.compress(aperio(layer(region())).encode()[:100]) + gzip.compress(aperio(layer(region())).encode()[100:])
     + bytes(1000), {}, {"points_xy": points(*TRIANGLE)}),
    ("a small file may grow more", gzip.compress(aperio(layer(region())).encode() + b" " * 4_000_000), {},
     {"class_id": [1]}),
    # --- ASAP
    ("dots and the coordinates of point sets are points in document order",
     asap(dot(10, 20, group="lymphocyte"), annotation((1, 2), (3, 4), type="PointSet"), annotation(type="PointSet"),
          dot(5, 6, group="Lymphocyte")), ASAP,
     {"points_xy": [[10, 20], [1, 2], [3, 4], [5, 6]], "class_id": [2, 1, 1, 2],
      "source_id": ["1", "2/1", "2/2", "4"]}),
    ("polygons and rectangles are outlines in document order",
     asap(polygon(group="lymphocyte"), annotation(*SQUARE, type="Rectangle"), polygon(group="ambiguous")), OF_OUTLINES,
     {"points_xy": points(*TRIANGLE, *SQUARE, *TRIANGLE), "ring_start": [0, 3, 7, 10], "ring_instance": [0, 1, 2],
      "ring_is_hole": [False] * 3, "class_id": [2, 1, -1], "source_id": ["1", "2", "3"]}),
    *(("files without annotations have no nuclei", text, ASAP, {"points_xy": [], "class_id": []})
      for text in (asap(), "<ASAP_Annotations/>")),
    ("files without annotations have no outlines", asap(), OF_OUTLINES, NO_OUTLINES),
    ("a polygon without coordinates is an outline without vertices",
     asap(polygon(), '<Annotation Type="Polygon" PartOfGroup="lymphocyte" />', polygon(*SQUARE)), OF_OUTLINES,
     {"ring_start": [0, 3, 3, 7]}),
    ("groups are matched in any case and with blanks around",
     asap(dot(group=" LYMPHOcyte  "), dot(group=" None ", type=" Dot ")),
     ASAP | {"classes": {"": 1, "lymphocyte": 2}}, {"class_id": [2, 1]}),
    *(("no group is the class of the empty alias or the only one", asap(dot(group=group)), ASAP | {"classes": classes},
       {"class_id": [expected]})
      for group in ("None", "", None) for classes, expected in (({"a": 1, "b": 2, "": 2}, 2), ({"a": 1}, 1))),
    ("a class may be called none", asap(dot(group="None")), ASAP | {"classes": {"a": 1, "none": 2}}, {"class_id": [2]}),
    *(("annotations of skipped groups are left out whatever they are",
       asap(polygon(group="ROI"), dot(7, 8), annotation((1, 1), (9, 9), type="Measurement", group="roi"),
            annotation(group="roi"), annotation((1, 1), type="Nonsense", group="ROI")),
       ASAP | {"skipped": ["roi"]} | options, {"source_id": ["2"], "points_xy": [[7, 8]]})
      for options in ({}, SKIP, {"file_class": 2})),
    *(("annotations without a group are left out if the challenge skips them", asap(dot(group="None"), dot()),
       ASAP | {"classes": {"epithelial": 1}, "skipped": [skipped]}, {"source_id": ["2"]}) for skipped in ("none", "")),
    ("the class of the file goes before the groups in it",
     asap(*(dot(group=group) for group in ("lymphocyte", "unknown", "None"))), ASAP | {"file_class": 1},
     {"class_id": [1, 1, 1]}),
    ("coordinates go by their order",
     asap(polygon(*SQUARE), polygon(TRIANGLE[2], TRIANGLE[0], TRIANGLE[1], orders=[2, 0, 1]), polygon(*SQUARE)),
     OF_OUTLINES, {"points_xy": points(*SQUARE, *TRIANGLE, *SQUARE)}),
    *(("a wrong or missing order keeps that of the document",
       asap(polygon(*SQUARE, orders=[3, 2, 1, 0]), polygon(orders=orders)), OF_OUTLINES,
       {"points_xy": points(*SQUARE[::-1], *TRIANGLE)})
      for orders in ([2, 0, 0], [2, None, 0], [2, "x", 0], [None] * 3, [0, 0, 0], [2, "nan", 0])),
    ("attributes of a coordinate may come in any order",
     asap(dot()).replace('Order="0" X="1.5" Y="2.25"', 'Y="2.25" Z="7" X="1.5" Order="0"'), ASAP,
     {"points_xy": [[1.5, 2.25]]}),
    ("elements of the same names elsewhere are left aside",
     asap(dot()).replace("<AnnotationGroups>", f"<AnnotationGroups>{ELSEWHERE}").replace(
         "</Coordinates>", f"<Other>{ELSEWHERE}</Other></Coordinates>{ELSEWHERE}"), ASAP, {"points_xy": [[1.5, 2.25]]}),
    ("coordinates of whole slides are not rounded", asap(dot("188234.5234", "999999.0625")), ASAP,
     {"points_xy": [[188234.5234, 999999.0625]]}),
    ("compressed ASAP is read", gzip.compress(asap(dot()).encode()), ASAP, {"points_xy": [[1.5, 2.25]]}),
]  # fmt: skip


@pytest.mark.parametrize(("why", "text", "options", "expected"), READ, ids=[row[0] for row in READ])
def test_a_file_becomes_these_annotations(why, text, options, expected):
    annotations = read_file(text, **options)
    (part,) = annotations.parts
    assert {key: getattr(part, key).tolist() for key in expected} == expected
    assert annotations.findings == ()


@pytest.mark.parametrize(("file_class", "classes"), [(0, [2, 1]), (2, [2, 2])])
def test_skipped_layers_are_left_out_whatever_they_hold(file_class, classes):
    text = aperio(
        layer(region(id="7"), cls="Lymphocyte", id="1"),
        layer(region((1, 1), (5, 5), Type="2"), region(NegativeROA="1"), cls=" ROI ", id="2"),
        layer(region(*square(1, 1, 3), id="8"), cls="Description", name="Roi", id="3"),
        layer(region(*square(5, 5, 3), id="9"), cls="Epithelial", name="ROI", id="4"),
    )
    outlines = read(text, skipped=["roi"], file_class=file_class)
    assert outlines.source_id.tolist() == ["1/7", "4/9"]
    assert outlines.class_id.tolist() == classes
    assert outlines.points_xy.tolist() == points(*TRIANGLE, *square(5, 5, 3))


@pytest.mark.parametrize("around", [layer(region(*square(0, 0, 20)), cls="Lymphocyte"), "", layer(region((0, 0)))])
def test_a_hole_without_an_outline_in_its_layer_is_left_out_with_a_warning(around):
    annotations = read_file(aperio(around, layer(region(*square(4, 4, 2), id="7", NegativeROA="1"), id="5")))
    assert not annotations.parts[0].ring_is_hole.any()
    (finding,) = annotations.findings
    assert str(finding).startswith("[hole-without-outline] 'a.xml', region '5/7': a hole (NegativeROA)")
    assert finding.severity == "warning"


def test_of_equal_outlines_around_a_hole_the_first_gets_it_also_piece_by_piece(monkeypatch):
    text = aperio(
        layer(
            region((0, 0), (9, 9), (0, 0), id="no area"),
            region(*square(0, 0, 9), id="first"),
            region(*square(0, 0, 9), id="second"),
            region(*square(3, 2, 2), id="hole", NegativeROA="1"),
            region(*square(6, 2, 2), id="other hole", NegativeROA="1"),
        )
    )
    row = [region(*square(30 * index, 0, 20)) for index in range(4)]
    holes = [region(*square(30 * index + 5, 5, 2), NegativeROA="1") for index in range(1, 4)]
    for limit in (1 << 22, 6):  # pieces of one hole
        monkeypatch.setattr(annotation_xml, "PAIRS_LIMIT", limit)
        assert read(text).ring_instance.tolist() == [0, 1, 1, 1, 2]
    monkeypatch.setattr(annotation_xml, "PAIRS_LIMIT", 4)
    assert read(aperio(layer(*holes, *row))).ring_instance.tolist() == [0, 1, 1, 2, 2, 3, 3]
    line = fault_of(text)
    assert line.startswith("[too-complex-outlines] 'a.xml': 2 holes (NegativeROA) that may lie in more than 4 ")


def test_many_holes_in_many_outlines_are_refused_in_time():
    outlines = [region((0, 0), (1000, 0), (0, 1000 + i)) for i in range(5000)]
    holes = [region((1, 1), (2, 1), (1, 2), NegativeROA="1")] * 5000
    assert fault_of(aperio(layer(*outlines, *holes)), vertices_limit=10**6).startswith("[too-complex-outlines]")


@pytest.mark.parametrize("name", ["Polygon", "Rectangle", "Spline", "Measurement"])
def test_an_outline_in_a_challenge_of_points_is_refused_unless_other_shapes_are_skipped(name):
    text = asap(dot(), annotation(*SQUARE, type=name, group="ROI"), dot(3, 4), annotation(*SQUARE, type=name))
    for rule in ({}, {"other_shapes": "reject"}):
        lines = fault_of(text, **ASAP, **rule).split("\n")
        start = f"[unsupported-shape] 'a.xml', annotation '2': Type '{name}'; expected Type 'Dot' or 'PointSet', since"
        assert len(lines) == 2 and lines[0].startswith(start)
    annotations = read_file(text, **ASAP, **SKIP)
    assert annotations.parts[0].source_id.tolist() == ["1", "3"]
    (finding,) = annotations.findings
    assert finding.severity == "warning"
    assert str(finding).startswith(f"[left-out] 'a.xml', annotation '2', annotation '4': Type '{name}'; expected")


def test_points_in_a_challenge_of_outlines_are_left_out_if_other_shapes_are_skipped():
    text = asap(dot(group="unknown"), polygon(), dot(), annotation((1, 2), type="PointSet"))
    annotations = read_file(text, **OF_OUTLINES, **SKIP)
    assert annotations.parts[0].source_id.tolist() == ["2"]
    said = [(finding.got, finding.count) for finding in annotations.findings]
    assert said == [("Type 'Dot'", 2), ("Type 'PointSet'", 1)]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, np.nan, np.inf]), max_size=4), max_size=5))
def test_vertices_are_ordered_as_annotation_by_annotation(orders):
    start = np.cumsum([0, *map(len, orders)])
    index = np.arange(start[-1])[by_order(np.array([o for some in orders for o in some], float), start)]
    expected = []
    for begin, some in zip(start.tolist(), orders, strict=False):
        places = range(len(some))
        if len(set(some)) == len(some) and not np.isnan(some).any():
            places = sorted(places, key=some.__getitem__)
        expected += [begin + place for place in places]
    assert index.tolist() == expected


# --- what is refused --------------------------------------------------------------------------------------------------

NUMBERS = [
    ('X="1" Y="NaN"', "Y is 'NaN'"), ('X="inf" Y="1"', "X is 'inf'"), ('X="1,5" Y="1"', "X is '1,5'"),
    ('X="1" Y="1000000001"', "Y is '1000000001'"), ('X="" Y="1"', "X is ''"), ('X="1_000" Y="1"', "X is '1_000'"),
    ('X="1" Y="\uff11"', "Y is '\uff11'"), ('X="1\u00a0" Y="1"', "X is '1?'"), ('X="0x10" Y="1"', "X is '0x10'"),
    ('X="1 2" Y="1"', "X is '1 2'"), ('X="1e400" Y="1"', "X is '1e400'"), ('Y="1"', "no X"), ('X="1"', "no Y"),
    ('x="1" Y="1"', "no X"),
]  # fmt: skip
UNKNOWN = "is not a class of this challenge; expected 'epithelial' or 'lymphocyte'."
CLASSLESS = aperio(layer(*(region(id=str(number)) for number in range(3, 9)), cls="Lymphocytes", id="2"))
FEW = "expected at most 2. Make the file smaller; organisers can raise limits.instances_per_case in challenge.toml."
DEEP, LONG = "elements nested more than 64 deep", "a tag or comment of more than a million bytes"
ZIPPED = gzip.compress(aperio(layer(region())).encode())

REFUSED = [  # the beginning of the lines, or "…" and their end
    (CLASSLESS, {}, f"[unknown-class] 'a.xml', region '2/3', region '2/4', region '2/5' and 3 more: 'Lymphocytes' "
     f"{UNKNOWN} Did you mean 'lymphocyte'?"),
    (aperio(layer(region(), cls=None)), {}, "[unknown-class] 'a.xml', region '1/1': the layer has no class name"),
    (aperio(layer(region(), cls="Epithelail")), ALIAS, "[unknown-class] 'a.xml', region '1/1': 'Epithelail' is not a "),
    (aperio(layer(region(), cls="mitosis")), ONE, "[unknown-class] 'a.xml', region '1/1': 'mitosis' is not a class"),
    (aperio(*(layer(region(), region(), cls="Fibroblast", id=str(number)) for number in range(30))), {},
     "[unknown-class] 'a.xml', region '0/1', region '0/1', region '1/1' and 57 more: 'Fibroblast' is not a class"),
    *((aperio(layer(region(), region(id="8").replace('X="5" Y="2"', vertex), id="3")), {},
       f"[invalid-coordinate] 'a.xml', region '3/8', vertex 2: {got}; expected numbers between -1e9 and 1e9 as X and Y "
       "of every vertex.") for vertex, got in NUMBERS),
    (aperio(layer(region((1, 1), (5, 4), id="6", Type="2"))), {},
     "[unsupported-shape] 'a.xml', region '1/6': Type '2' (ellipse); expected Type '0'"),
    (aperio(layer(region((1, 1), (5, 4), Type="1"))), {},
     "[unsupported-shape] 'a.xml', region '1/1': Type '1' (rectangle) of two vertices;"),
    *((text, {}, "[forbidden-xml] 'a.xml': a document type or entity declaration;") for text in (
        "<!DOCTYPE Annotations><Annotations/>", '<!DOCTYPE a [<!ENTITY b "c">]><Annotations>&b;</Annotations>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><Annotations/>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><Annotations>&b;</Annotations>')),
    *((text, {}, "[not-xml] 'a.xml': ") for text in (
        "", "not XML", '{"type": "Polygon"}', aperio(layer(region()))[:-20], "<Annotations></Annotation>",
        "<Annotations>&nbsp;</Annotations>", '<?xml version="1.0" encoding="klingon"?><Annotations/>',
        '<?xml version="1.0" encoding="shift_jis"?><Annotations/>', b"\x00\x01\x02\x03", b"\xff\xfe<")),
    *((f"<{root}/>", {}, f"[wrong-format] 'a.xml': the root element is '{root}';")
      for root in ("ASAP_Annotations", "Annotation", "Vertex", "html")),
    (aperio(layer(region(), region())), {"vertices_limit": 5},
     "[too-large] 'a.xml': more than 5 vertices; expected at most 5."),
    *((text, {"instances_limit": 2}, f"[too-large] 'a.xml': more than 2 {what}") for what, text in (
        ("regions", aperio(layer(region(), region()), layer(region(NegativeROA="1")))),
        ("layers", aperio(layer(), layer(), layer())),
        ("attributes", aperio(layer(region()).replace("<Attributes>", "<Attributes><Attribute/><Attribute/>"))))),
    (aperio(layer(), layer(), layer()), {"instances_limit": 2}, f"…{FEW}"),
    *((text, {}, f"[not-xml] 'a.xml': {got}") for text, got in (
        ("<Annotations>" * 100, DEEP), (f"<Annotations>{'<Annotation>' * 10**6}", DEEP),
        ("<Annotations><Annotation><Regions><Region><Vertices>" + "<Vertex>" * 10**6, DEEP),
        ("<Annotations>" + "".join(f"<a{i}/>" for i in range(50_000)), "more than 1,000 different names"),
        ("<Annotations>" + "".join(f'<a b{i}=""/>' for i in range(50_000)), "more than 1,000 different names"),
        (f"<Annotations><!--{'x' * 10**7}--></Annotations>", LONG), (f"<Annotations a='{'x' * 10**7}'/>", LONG),
        (f"<?a {'x' * 10**7}?><Annotations/>", LONG), (f"<{'x' * 10**7}/>", LONG))),
    *((data, {}, "[unreadable-file] 'a.xml': ") for data in (
        ZIPPED[:-9], ZIPPED[:40], ZIPPED[:2], ZIPPED + b"rest", ZIPPED[:-8] + bytes(8))),
    # --- ASAP
    (asap(polygon(), dot(), dot(), annotation((1, 2), type="PointSet")), OF_OUTLINES, "\n".join(
        f"[unsupported-shape] 'a.xml', annotation '{index}': Type '{name}'; expected Type 'Polygon' or 'Rectangle' of "
        "four coordinates, since nuclei are outlines in this challenge. Remove it; or name its group in skip_classes, "
        "or set other_shapes to 'skip', in challenge.toml."
        for index, name in ((2, "Dot"), (3, "Dot"), (4, "PointSet")))),
    *((asap(annotation(*SQUARE, type=name)), OF_OUTLINES | SKIP,
       f"[unsupported-shape] 'a.xml', annotation '1': Type '{name or ''}'; expected Type 'Polygon'")
      for name in ("Spline", "polygon", "None", "", None, "Ellipse")),
    (asap(annotation(*SQUARE, type="Spline")), OF_OUTLINES | SKIP, "…Draw it anew, or remove it."),
    (asap(annotation((0, 0), (4, 3), type="Rectangle")), OF_OUTLINES,
     "[unsupported-shape] 'a.xml', annotation '1': Type 'Rectangle' of 2 coordinates; expected"),
    *((asap(dot(), annotation(*where)), ASAP,
       f"[invalid-coordinate] 'a.xml', annotation '2': a Dot with {got} coordinates; expected one coordinate for a "
       "Dot. Draw several points as a PointSet.") for where, got in (((), "no"), (((1, 2), (3, 4)), "2"))),
    (asap(dot(), dot(group="lymphocytes"), dot(group="x"), dot(group="lymphocytes"), polygon(group="y"),
          dot(group="None")), ASAP | SKIP,
     f"[unknown-class] 'a.xml', annotation '2', annotation '4': 'lymphocytes' {UNKNOWN} Did you mean 'lymphocyte'?\n"
     f"[unknown-class] 'a.xml', annotation '3': 'x' {UNKNOWN}\n"
     "[unknown-class] 'a.xml', annotation '6': the annotation is in no group; expected 'epithelial' or 'lymphocyte'."),
    *((asap(dot(), polygon().replace('Order="1" X="5" Y="2"', f'Order="0" {coordinate}')), ASAP | SKIP,
       f"[invalid-coordinate] 'a.xml', annotation '2', coordinate 2: {got}; expected numbers between -1e9 and 1e9 as X "
       "and Y of every coordinate.") for coordinate, got in NUMBERS),
    *((f"<{root}/>", ASAP, f"[wrong-format] 'a.xml': the root element is '{root}';")
      for root in ("Annotations", "Annotation", "html")),
    ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><ASAP_Annotations>&b;</ASAP_Annotations>', ASAP,
     "[forbidden-xml] 'a.xml': a document type or entity declaration;"),
    *((text, ASAP, "[not-xml] 'a.xml': ")
      for text in ("", "{}", asap(dot())[:-20], asap(dot()).replace("/>", ">", 1))),
    ("", ASAP, "…expected well-formed ASAP XML. Export or copy the file again."),
    (gzip.compress(asap(dot()).encode())[:-4], ASAP,
     "[unreadable-file] 'a.xml': the compressed data stop before their end"),
    (asap(dot(), dot()), ASAP | {"instances_limit": 1}, "[too-large] 'a.xml': more than 1 annotations;"),
    (asap(annotation((1, 2), (3, 4), type="PointSet")), ASAP | {"instances_limit": 1},
     "[too-large] 'a.xml': more than 1 points; expected at most 1."),
    (asap(polygon(), dot()), ASAP | SKIP | {"vertices_limit": 3},
     "[too-large] 'a.xml': more than 3 vertices; expected at most 3."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "lines"), REFUSED)
def test_a_file_is_refused_with_these_lines(text, options, lines):
    said = fault_of(text, **options)
    assert said.endswith(lines[1:]) if lines.startswith("…") else said.startswith(lines)
    limits = {key: value + 1 for key, value in options.items() if key.endswith("_limit")}
    assert not limits or read_file(text, **{**options, **limits}).parts


@pytest.mark.parametrize(
    ("text", "options", "codes"),
    [
        (aperio(layer(region(("x", 1)), region(Type="2"), cls="Fibroblast")), {},
         ["invalid-coordinate", "unsupported-shape", "unknown-class"]),
        (asap(dot("x"), annotation(), polygon(), dot(group="unknown")), ASAP,
         ["invalid-coordinate", "invalid-coordinate", "unsupported-shape", "unknown-class"]),
    ],
)  # fmt: skip
def test_several_kinds_of_fault_are_told_in_one_pass(text, options, codes):
    assert [line.split("]")[0][1:] for line in fault_of(text, **options).splitlines()] == codes


@pytest.mark.parametrize(
    ("text", "options", "number"),
    [
        (aperio(*(layer(region(), region(), cls=f"name {number}") for number in range(30))), {}, 60),
        (aperio(layer(*(region(("a", 1), (2, "b"), (3, 4), id=str(i)) for i in range(40)))), {}, 80),
        (asap(*[dot(group=f"g{number}") for number in range(40)] * 3), ASAP, 120),
    ],
)
def test_many_faults_are_counted_and_a_few_are_named(text, options, number):
    with pytest.raises(InputFault) as fault:
        read_file(text, **options)
    assert sum(finding.count for finding in fault.value.findings) == number
    assert len(fault.value.findings) == bounded_xml.FAULTS_NAMED


# --- size and pieces --------------------------------------------------------------------------------------------------


def test_the_limit_of_bytes_counts_after_decompression():
    text = aperio(layer(region())).encode()
    for data in (text, gzip.compress(text)):
        assert len(read(data, bytes_limit=len(text))) == 1
        got = "more than" if len(data) < len(text) else "a file of"
        assert fault_of(data, bytes_limit=len(text) - 1).startswith(f"[too-large] 'a.xml': {got}")


def test_a_gzip_bomb_is_refused_before_it_expands(monkeypatch):
    produced = []
    chunks = chunks_module.unbounded_chunks

    def watched(stream, where):
        for chunk in chunks(stream, where):
            produced.append(len(chunk))
            yield chunk

    monkeypatch.setattr(chunks_module, "unbounded_chunks", watched)
    bomb = gzip.compress(b"<Annotations>" + b" " * 50_000_000)
    assert "more than 1,000,000 bytes after decompression" in fault_of(bomb, bytes_limit=10**6)
    assert sum(produced) < 2 * 10**6
    produced.clear()
    limit = 100 * len(bomb)
    assert 1 << 22 < limit < 20 * 10**6
    assert f"more than {limit:,} bytes after decompression" in fault_of(bomb, bytes_limit=10**9)
    assert sum(produced) < limit + 10**6


def test_pieces_of_the_file_do_not_change_what_is_read_or_where_a_fault_is(monkeypatch):
    text = aperio(layer(region(), region(id="2")), layer(region(), cls="Lymphocyte", id="2"))
    for data in (text.encode(), gzip.compress(text.encode()), text.encode("utf-16")):
        monkeypatch.setattr(bounded_xml, "CHUNK_BYTES", 1 << 18)
        whole = read(data)
        monkeypatch.setattr(bounded_xml, "CHUNK_BYTES", 16 * 7)
        parts = read(data)
        assert parts.points_xy.tolist() == whole.points_xy.tolist()
        assert parts.source_id.tolist() == whole.source_id.tolist() == ["1/1", "1/2", "2/1"]
    bad = aperio(layer(region(), region(id="2")), layer(region((1, 2), (3, "x"), (5, 6), id="4"), id="3"))
    assert fault_of(bad).startswith("[invalid-coordinate] 'a.xml', region '3/4', vertex 2: Y is 'x';")


@pytest.mark.parametrize("texts", [["1.5", "-2e3"], [""], [" "], ["", "1"], ["1", ""], ["1 2"], ["+1", ".5"], []])
def test_texts_become_the_numbers_that_float_makes_of_them(texts):
    def expected(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return np.nan

    assert np.array_equal(bounded_xml.numbers_of(texts), np.array([expected(text) for text in texts]), equal_nan=True)


def test_random_decimals_become_the_numbers_that_float_makes_of_them():
    rng = np.random.default_rng(0)
    texts = [repr(float(value)) for value in rng.integers(0, 2**63, 2000).view(np.float64) if np.isfinite(value)]
    texts += [f"{value:.{digits}f}" for value in rng.uniform(-3e4, 3e4, 50) for digits in range(30)]
    texts += ["-0", "-0.0", "0", "1e22", "9007199254740993", "123456789012345678901234567890", "5e-324", "1e-400"]
    assert np.array_equal(bounded_xml.numbers_of(texts), [float(text) for text in texts])
    for text in texts:  # alone, too: a text that is no JSON sends all others another way
        assert bounded_xml.numbers_of([text]).tolist() == [float(text)]
    assert np.array_equal(bounded_xml.numbers_of(["1e400", "1"]), [np.inf, 1])


# --- real files -------------------------------------------------------------------------------------------------------

MONUSAC = {"epithelial": 1, "lymphocyte": 2, "neutrophil": 3, "macrophage": 4, "": 1}
MONKEY = {"lymphocytes": 1, "monocytes": 2}
TILES = {"aberrant_positive_columnar": 1, "unsure": 2}


def test_real_files_of_aperio_are_read_as_elementtree_reads_them(shared_data):
    files = sorted([*shared_data.glob("monusac/*.xml"), *shared_data.glob("monuseg/*.xml.gz")])
    assert len(files) == 11
    numbers = {}
    for path in files:
        data = path.read_bytes()
        outlines = read(data, classes=MONUSAC)
        tree = ElementTree.fromstring(gzip.decompress(data) if path.suffix == ".gz" else data)
        regions = [
            (f"{annotation.get('Id')}/{element.get('Id')}", element)
            for annotation in tree.findall("Annotation")
            for element in annotation.findall("Regions/Region")
        ]
        assert outlines.source_id.tolist() == [name for name, _ in regions]
        for (_, element), (begin, end) in zip(regions, pairwise(outlines.ring_start), strict=True):
            expected = [[float(v.get("X")), float(v.get("Y"))] for v in element.findall("Vertices/Vertex")]
            assert np.array_equal(outlines.points_xy[begin:end], np.array(expected).reshape(-1, 2))
        numbers[path.stem] = np.bincount(outlines.class_id, minlength=5).tolist()
    assert (numbers["A9K0_1"], numbers["A9K0_3"]) == ([0, 314, 0, 0, 7], [0, 0, 0, 5, 0])


def elements_of(data: bytes, groups) -> list[tuple[str, str, list[list[float]]]]:
    """Position, group and coordinates of the annotations in these groups, as ElementTree reads them."""
    return [
        (str(index), element.get("PartOfGroup"), [[float(c.get("X")), float(c.get("Y"))] for c in element[0]])
        for index, element in enumerate(ElementTree.fromstring(data).iterfind("Annotations/Annotation"), start=1)
        if element.get("PartOfGroup") in groups
    ]


def test_the_dots_of_monkey_are_told_from_its_regions_of_interest_and_have_their_boxes(shared_data):
    folder = shared_data / "monkey"
    data = (folder / "A_P000001.xml").read_bytes()
    dots = read(data, classes=MONKEY, skipped=["roi"], **ASAP)
    assert np.bincount(dots.class_id).tolist() == [0, 469, 771]
    expected = elements_of(data, MONKEY)
    assert dots.source_id.tolist() == [name for name, _, _ in expected]
    assert dots.class_id.tolist() == [MONKEY[group] for _, group, _ in expected]
    assert dots.points_xy.tolist() == [point for _, _, (point,) in expected]

    annotations = read_file(data, classes=MONKEY, **ASAP, **SKIP)
    assert np.array_equal(annotations.parts[0].points_xy, dots.points_xy)
    assert [(finding.got, finding.count) for finding in annotations.findings] == [("Type 'Polygon'", 2)]
    assert [line.split("]")[0] for line in fault_of(data, classes=MONKEY, **ASAP).split("\n")] == [
        "[unsupported-shape"
    ] * 2

    boxes = (folder / "A_P000001_region.xml").read_bytes()
    outlines = read(boxes, classes=MONKEY, skipped=["roi"], **OF_OUTLINES)
    assert np.array_equal(outlines.class_id, dots.class_id)
    assert (np.diff(outlines.ring_start) == 4).all()
    assert np.abs(outlines.points_xy.reshape(-1, 4, 2).mean(axis=1) - dots.points_xy).max() < 1e-3


def test_tiles_xml_equals_tiles_geojson(shared_data):
    folder = shared_data / "asap_geojson"
    outlines = read((folder / "tiles.xml").read_bytes(), classes=TILES, **OF_OUTLINES)
    features = json.loads((folder / "tiles.geojson").read_text())["features"]
    assert len(outlines) == len(features) == 136
    assert np.bincount(outlines.class_id).tolist() == [0, 116, 20]
    for feature, class_id, (begin, end) in zip(
        features, outlines.class_id.tolist(), pairwise(outlines.ring_start), strict=True
    ):
        (ring,) = feature["geometry"]["coordinates"]
        assert TILES[feature["properties"]["classification"]["name"]] == class_id
        assert outlines.points_xy[begin:end].tolist() == (ring[:-1] if ring[0] == ring[-1] else ring)


@pytest.mark.parametrize(
    "name", ["asap_geojson/tiles.xml", "asap_geojson/xml_example.xml", "monkey/A_P000001_region.xml"]
)
def test_real_outlines_of_asap_are_read_as_elementtree_reads_them(shared_data, name):
    data = (shared_data / name).read_bytes()
    classes = {**TILES, **{group: index + 2 for group, index in MONKEY.items()}}
    outlines = read(data, classes=classes, skipped=["roi"], **OF_OUTLINES)
    expected = elements_of(data, classes)
    assert outlines.source_id.tolist() == [name for name, _, _ in expected]
    assert outlines.class_id.tolist() == [classes[group] for _, group, _ in expected]
    assert outlines.ring_start.tolist() == np.cumsum([0, *(len(points) for _, _, points in expected)]).tolist()
    assert outlines.points_xy.tolist() == [point for _, _, points in expected for point in points]
