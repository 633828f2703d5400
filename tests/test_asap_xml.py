"""Reading ASAP XML: what types, groups and orders mean, what is refused. The oracles are ElementTree and GeoJSON."""

from __future__ import annotations

import gzip
import io
import json
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xml_files import AS_DRAWN, CASE, xml_request

from evaluation.decoding import xml as bounded_xml
from evaluation.findings.catalogue import CATALOGUE
from evaluation.findings.errors import InputFault
from evaluation.formats import read_annotations
from evaluation.formats.asap_xml import in_order
from evaluation.model import Annotations, Outlines, Points

CLASSES = {"lymphocytes": 1, "monocytes": 2, "blurred": -1}
POINT = {"shape": "point", "origin": "pixel_corner"}
OUTLINE = {"shape": "outline", **AS_DRAWN}
TRIANGLE = ((1, 2), (5, 2), (1, 6.5))
SQUARE = ((0, 0), (4, 0), (4, 3), (0, 3))


def annotation(*points, type="Dot", group="lymphocytes", orders=None) -> str:
    orders = range(len(points)) if orders is None else orders
    texts = "".join(
        "<Coordinate" + ("" if order is None else f' Order="{order}"') + f' X="{x}" Y="{y}" />'
        for order, (x, y) in zip(orders, points, strict=True)
    )
    named = {"Name": "Annotation 0", "Type": type, "PartOfGroup": group, "Color": "#F4FA58"}
    attributes = "".join(f' {key}="{value}"' for key, value in named.items() if value is not None)
    return f"<Annotation{attributes}><Coordinates>{texts}</Coordinates></Annotation>"


def dot(x=1.5, y=2.25, **options) -> str:
    return annotation((x, y), **options)


def polygon(*points, **options) -> str:
    return annotation(*(points or TRIANGLE), **{"type": "Polygon", **options})


def document(*annotations: str) -> str:
    groups = '<Group Name="lymphocytes" PartOfGroup="cells" Color="#ff0000"><Attributes /></Group>'
    return (
        f'<?xml version="1.0"?>\n<ASAP_Annotations><Annotations>{"".join(annotations)}</Annotations>'
        f"<AnnotationGroups>{groups}</AnnotationGroups></ASAP_Annotations>"
    )


def read_file(text: str | bytes, classes=CLASSES, **options) -> Annotations:
    data = text.encode() if isinstance(text, str) else text
    request = xml_request(classes, format="asap_xml", **(options if "shape" in options else {**POINT, **options}))
    return read_annotations(io.BytesIO(data), request, CASE)


def points_of(text: str | bytes, **options) -> Points:
    (part,) = read_file(text, **options).parts
    assert isinstance(part, Points)
    return part


def outlines_of(text: str | bytes, **options) -> Outlines:
    (part,) = read_file(text, **{**OUTLINE, **options}).parts
    assert isinstance(part, Outlines)
    return part


def fault_of(text: str | bytes, **options) -> str:
    """The lines of all that is wrong with a file."""
    with pytest.raises(InputFault) as fault:
        read_file(text, **options)
    return "\n".join(str(finding) for finding in fault.value.findings)


# --- shapes ----------------------------------------------------------------------------------------------------------


def test_dots_and_the_coordinates_of_point_sets_are_points_in_document_order():
    text = document(
        dot(10, 20, group="monocytes"),
        annotation((1, 2), (3, 4), type="PointSet"),
        annotation(type="PointSet"),
        dot(5, 6, group="Monocytes"),
    )
    points = points_of(text)
    assert points.points_xy.tolist() == [[10, 20], [1, 2], [3, 4], [5, 6]]
    assert points.class_id.tolist() == [2, 1, 1, 2]
    assert points.class_id.dtype == np.int16
    assert points.source_id.tolist() == ["1", "2/1", "2/2", "4"]
    assert points.probability is None


def test_polygons_and_rectangles_are_outlines_in_document_order():
    text = document(polygon(group="monocytes"), annotation(*SQUARE, type="Rectangle"), polygon(group="blurred"))
    outlines = outlines_of(text)
    assert outlines.points_xy.tolist() == [list(point) for point in (*TRIANGLE, *SQUARE, *TRIANGLE)]
    assert outlines.ring_start.tolist() == [0, 3, 7, 10]
    assert outlines.ring_instance.tolist() == [0, 1, 2]
    assert not outlines.ring_is_hole.any()
    assert outlines.class_id.tolist() == [2, 1, -1]
    assert outlines.source_id.tolist() == ["1", "2", "3"]


def test_files_without_annotations_have_no_nuclei():
    for text in (document(), "<ASAP_Annotations/>"):
        assert (len(points_of(text)), points_of(text).points_xy.shape) == (0, (0, 2))
        outlines = outlines_of(text)
        assert (len(outlines), outlines.points_xy.shape, outlines.ring_start.tolist()) == (0, (0, 2), [0])


def test_a_polygon_without_coordinates_is_an_outline_without_vertices():
    bare = '<Annotation Type="Polygon" PartOfGroup="monocytes" />'
    assert outlines_of(document(polygon(), bare, polygon(*SQUARE))).ring_start.tolist() == [0, 3, 3, 7]


def test_a_dot_in_a_challenge_of_outlines_is_refused():
    line = fault_of(document(polygon(), dot(), dot(), annotation((1, 2), type="PointSet")), **OUTLINE)
    assert line == "\n".join(
        f"[unsupported-shape] 'a.xml', annotation '{index}': Type '{name}'; expected Type 'Polygon' or 'Rectangle' of "
        "four coordinates, since nuclei are outlines in this challenge. Remove it; or name its group in skip_classes, "
        "or set other_shapes to 'skip', in challenge.toml."
        for index, name in ((2, "Dot"), (3, "Dot"), (4, "PointSet"))
    )


@pytest.mark.parametrize("name", ["Polygon", "Rectangle", "Spline", "Measurement"])
def test_an_outline_in_a_challenge_of_points_is_refused_unless_other_shapes_are_skipped(name):
    text = document(dot(), annotation(*SQUARE, type=name, group="ROI"), dot(3, 4), annotation(*SQUARE, type=name))
    for rule in ({}, {"other_shapes": "reject"}):
        lines = fault_of(text, **rule).split("\n")
        assert len(lines) == 2
        start = f"[unsupported-shape] 'a.xml', annotation '2': Type '{name}'; expected Type 'Dot' or 'PointSet', since"
        assert lines[0].startswith(start)
    annotations = read_file(text, other_shapes="skip")
    assert annotations.parts[0].points_xy.tolist() == [[1.5, 2.25], [3, 4]]
    assert annotations.parts[0].source_id.tolist() == ["1", "3"]
    (finding,) = annotations.findings
    assert finding.severity == "warning"
    assert str(finding).startswith(
        f"[left-out] 'a.xml', annotation '2', annotation '4': Type '{name}'; expected nuclei"
    )


def test_points_in_a_challenge_of_outlines_are_left_out_if_other_shapes_are_skipped():
    text = document(dot(group="unknown"), polygon(), dot(), annotation((1, 2), type="PointSet"))
    annotations = read_file(text, **OUTLINE, other_shapes="skip")
    assert annotations.parts[0].source_id.tolist() == ["2"]
    assert [(finding.got, finding.count) for finding in annotations.findings] == [
        ("Type 'Dot'", 2),
        ("Type 'PointSet'", 1),
    ]


@pytest.mark.parametrize("name", ["Spline", "polygon", "None", "", None, "Ellipse"])
def test_what_is_no_outline_of_corners_is_refused_also_if_other_shapes_are_skipped(name):
    text = document(annotation(*SQUARE, type=name))
    line = fault_of(text, **OUTLINE, other_shapes="skip")
    assert line.startswith(f"[unsupported-shape] 'a.xml', annotation '1': Type '{name or ''}'; expected Type 'Polygon'")
    assert line.endswith("Draw it anew, or remove it.")


def test_a_rectangle_that_has_not_four_corners_is_refused():
    text = document(annotation((0, 0), (4, 3), type="Rectangle"))
    assert "annotation '1': Type 'Rectangle' of 2 coordinates; expected" in fault_of(text, **OUTLINE)


@pytest.mark.parametrize(("points", "got"), [((), "no"), (((1, 2), (3, 4)), "2")])
def test_a_dot_that_is_not_at_one_place_is_refused(points, got):
    assert fault_of(document(dot(), annotation(*points))) == (
        f"[invalid-coordinate] 'a.xml', annotation '2': a Dot with {got} coordinates; expected one coordinate for a "
        "Dot. Draw several points as a PointSet."
    )


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_matched_in_any_case_and_with_blanks_around():
    text = document(dot(group=" MONOcytes  "), dot(group=" None ", type=" Dot "))
    assert points_of(text, classes={"": 1, "monocytes": 2}).class_id.tolist() == [2, 1]


def test_an_unknown_group_is_refused_once_with_the_number_of_annotations():
    text = document(
        dot(), dot(group="lymphocyte"), dot(group="x"), dot(group="lymphocyte"), polygon(group="y"), dot(group="None")
    )
    assert fault_of(text, other_shapes="skip") == (
        "[unknown-class] 'a.xml', annotation '2', annotation '4': 'lymphocyte' is not a class of this challenge; "
        "expected 'lymphocytes' or 'monocytes'. Did you mean 'lymphocytes'?\n"
        "[unknown-class] 'a.xml', annotation '3': 'x' is not a class of this challenge; expected "
        "'lymphocytes' or 'monocytes'.\n"
        "[unknown-class] 'a.xml', annotation '6': the annotation is in no group; expected 'lymphocytes' or "
        "'monocytes'."
    )


def test_many_unknown_groups_are_counted_and_a_few_are_named():
    with pytest.raises(InputFault) as fault:
        read_file(document(*[dot(group=f"g{number}") for number in range(40)] * 3))
    assert sum(finding.count for finding in fault.value.findings) == 120
    assert len(fault.value.findings) == bounded_xml.FAULTS_NAMED


@pytest.mark.parametrize("group", ["None", "", None])
def test_no_group_is_the_class_of_the_empty_alias_or_the_only_one(group):
    assert points_of(document(dot(group=group)), classes={"a": 1, "b": 2, "": 2}).class_id.tolist() == [2]
    assert points_of(document(dot(group=group)), classes={"a": 1}).class_id.tolist() == [1]


def test_a_class_may_be_called_none():
    assert points_of(document(dot(group="None")), classes={"a": 1, "none": 2}).class_id.tolist() == [2]


def test_annotations_of_skipped_groups_are_left_out_whatever_they_are():
    text = document(
        polygon(group="ROI"),
        dot(7, 8),
        annotation((1, 1), (9, 9), type="Measurement", group="roi"),
        annotation(group="roi"),
        annotation((1, 1), type="Nonsense", group="ROI"),
    )
    for options in ({}, {"other_shapes": "skip"}, {"file_class": 2}):
        annotations = read_file(text, skipped=["roi"], **options)
        assert annotations.findings == ()
        assert annotations.parts[0].source_id.tolist() == ["2"]
        assert annotations.parts[0].points_xy.tolist() == [[7, 8]]


@pytest.mark.parametrize("skipped", ["none", ""])
def test_annotations_without_a_group_are_left_out_if_the_challenge_skips_them(skipped):
    text = document(dot(group="None"), dot())
    assert points_of(text, classes={"lymphocytes": 1}, skipped=[skipped]).source_id.tolist() == ["2"]


def test_the_class_of_the_file_goes_before_the_groups_in_it():
    text = document(dot(group="monocytes"), dot(group="unknown"), dot(group="None"))
    assert points_of(text, file_class=1).class_id.tolist() == [1, 1, 1]


# --- coordinates -----------------------------------------------------------------------------------------------------


def test_coordinates_go_by_their_order():
    shuffled = [TRIANGLE[2], TRIANGLE[0], TRIANGLE[1]]
    text = document(polygon(*SQUARE), polygon(*shuffled, orders=[2, 0, 1]), polygon(*SQUARE))
    assert outlines_of(text).points_xy.tolist() == [list(point) for point in (*SQUARE, *TRIANGLE, *SQUARE)]


@pytest.mark.parametrize("orders", [[2, 0, 0], [2, None, 0], [2, "x", 0], [None] * 3, [0, 0, 0], [2, "nan", 0]])
def test_a_wrong_or_missing_order_keeps_that_of_the_document(orders):
    text = document(polygon(*SQUARE, orders=[3, 2, 1, 0]), polygon(orders=orders))
    assert outlines_of(text).points_xy.tolist() == [list(point) for point in (*SQUARE[::-1], *TRIANGLE)]


@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, np.nan, np.inf]), max_size=4), max_size=5),
)
def test_vertices_are_ordered_as_annotation_by_annotation(orders):
    start = np.cumsum([0, *map(len, orders)])
    index = np.arange(start[-1])[in_order(np.array([o for some in orders for o in some], float), start)]
    expected = []
    for begin, some in zip(start.tolist(), orders, strict=False):
        places = range(len(some))
        if len(set(some)) == len(some) and not np.isnan(some).any():
            places = sorted(places, key=some.__getitem__)
        expected += [begin + place for place in places]
    assert index.tolist() == expected


def test_attributes_of_a_coordinate_may_come_in_any_order():
    text = document(dot()).replace('Order="0" X="1.5" Y="2.25"', 'Y="2.25" Z="7" X="1.5" Order="0"')
    assert points_of(text).points_xy.tolist() == [[1.5, 2.25]]


@pytest.mark.parametrize(
    ("coordinate", "got"),
    [
        ('Order="0" Y="1"', "no X"),
        ('Order="0" X="1"', "no Y"),
        ('Order="0" X="1,5" Y="1"', "X is '1,5'"),
        ('Order="0" X="NaN" Y="1"', "X is 'NaN'"),
        ('Order="0" X="1" Y="-1000000001"', "Y is '-1000000001'"),
        ('Order="0" X="1_000" Y="1"', "X is '1_000'"),
        ('Order="0" X="\u0661" Y="1"', "X is '\u0661'"),
    ],
)
def test_missing_and_unusable_coordinates_are_named(coordinate, got):
    text = document(dot(), polygon().replace('Order="1" X="5" Y="2"', coordinate))
    assert fault_of(text, other_shapes="skip") == (
        f"[invalid-coordinate] 'a.xml', annotation '2', coordinate 2: {got}; expected numbers between -1e9 and 1e9 as "
        "X and Y of every coordinate."
    )


def test_elements_of_the_same_names_elsewhere_are_left_aside():
    elsewhere = '<Annotation Type="x"><Coordinates><Coordinate X="a"/></Coordinates></Annotation><Coordinate X="b"/>'
    text = document(dot()).replace("<AnnotationGroups>", f"<AnnotationGroups>{elsewhere}")
    text = text.replace("</Coordinates>", f"<Other>{elsewhere}</Other></Coordinates>{elsewhere}")
    assert points_of(text).points_xy.tolist() == [[1.5, 2.25]]


def test_coordinates_of_whole_slides_are_not_rounded():
    assert points_of(document(dot("188234.5234", "999999.0625"))).points_xy.tolist() == [[188234.5234, 999999.0625]]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_several_kinds_of_fault_are_told_in_one_pass():
    text = document(dot("x"), annotation(), polygon(), dot(group="unknown"))
    codes = [line.split("]")[0] for line in fault_of(text).splitlines()]
    assert codes == ["[invalid-coordinate", "[invalid-coordinate", "[unsupported-shape", "[unknown-class"]


@pytest.mark.parametrize("root", ["Annotations", "Annotation", "html"])
def test_xml_of_another_kind_is_refused(root):
    assert fault_of(f"<{root}/>").startswith(f"[wrong-format] 'a.xml': the root element is '{root}';")


def test_document_types_are_refused():
    text = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><ASAP_Annotations>&b;</ASAP_Annotations>'
    assert fault_of(text).startswith("[forbidden-xml] 'a.xml': a document type or entity declaration;")


@pytest.mark.parametrize("text", ["", "{}", document(dot())[:-20], document(dot()).replace("/>", ">", 1)])
def test_truncated_and_broken_files_are_refused(text):
    line = fault_of(text)
    assert line.startswith("[not-xml] 'a.xml': ")
    assert line.endswith("expected well-formed ASAP XML. Export or copy the file again.")


def test_files_compressed_with_gzip_are_read_and_refused_if_they_are_cut_off():
    data = gzip.compress(document(dot()).encode())
    assert points_of(data).points_xy.tolist() == [[1.5, 2.25]]
    assert fault_of(data[:-4]).startswith("[unreadable-file] 'a.xml': the compressed data stop before their end")


@pytest.mark.parametrize(
    ("text", "options", "got", "limit"),
    [
        (document(dot(), dot()), {"instances_limit": 1}, "1 annotations", "instances_per_case"),
        (document(annotation((1, 2), (3, 4), type="PointSet")), {"instances_limit": 1}, "1 points",
         "instances_per_case"),
        (document(polygon(), dot()), {"vertices_limit": 3}, "3 vertices", "vertices_per_file"),
    ],
)  # fmt: skip
def test_limits_are_kept_and_named(text, options, got, limit):
    (name, number), *_ = options.items()
    assert read_file(text, **{name: number + 1}, other_shapes="skip").parts
    line = fault_of(text, **options, other_shapes="skip")
    assert line.startswith(f"[too-large] 'a.xml': more than {got}; expected at most {number}.")
    assert limit in line


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_and_never_crashes(data):
    shuffled = polygon(orders=[2, 0, 1])
    whole = bytearray(document(dot(), shuffled, annotation((1, 2), (3, 4), type="PointSet", group="None")).encode())
    if data.draw(st.booleans()):
        whole = bytearray(gzip.compress(bytes(whole), mtime=0))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    rules = data.draw(st.sampled_from([POINT, OUTLINE]))
    try:
        (part,) = read_file(bytes(whole[: data.draw(st.integers(0, len(whole)))]), **rules, other_shapes="skip").parts
    except InputFault as fault:
        assert all(str(finding).startswith("[") for finding in fault.findings)
    else:
        assert len(part.class_id) == len(part.source_id)
        assert len(part.points_xy) == (part.ring_start[-1] if isinstance(part, Outlines) else len(part))


# --- the catalogue ---------------------------------------------------------------------------------------------------


def test_the_examples_in_the_catalogue_are_what_is_printed():
    where = "'P1_1.xml'"
    text = document(polygon(group="ROI"), dot(), polygon(group="ROI"))
    (finding,) = read_file(text, other_shapes="skip", where=where).findings
    assert str(finding) == CATALOGUE["left-out"].example.replace("case 'P1_1', ", "")


# --- real files ------------------------------------------------------------------------------------------------------

MONKEY = {"lymphocytes": 1, "monocytes": 2}
TILES = {"aberrant_positive_columnar": 1, "unsure": 2}


def elements_of(data: bytes, groups) -> list[tuple[str, str, list[list[float]]]]:
    """Position, group and coordinates of the annotations in these groups, as ElementTree reads them."""
    return [
        (str(index), element.get("PartOfGroup"), [[float(c.get("X")), float(c.get("Y"))] for c in element[0]])
        for index, element in enumerate(ElementTree.fromstring(data).iterfind("Annotations/Annotation"), start=1)
        if element.get("PartOfGroup") in groups
    ]


def test_the_dots_of_monkey_are_told_from_its_regions_of_interest(shared_data):
    data = (shared_data / "monkey" / "A_P000001.xml").read_bytes()
    points = points_of(data, classes=MONKEY, skipped=["roi"])
    assert np.bincount(points.class_id).tolist() == [0, 469, 771]
    expected = elements_of(data, MONKEY)
    assert points.source_id.tolist() == [name for name, _, _ in expected]
    assert points.class_id.tolist() == [MONKEY[group] for _, group, _ in expected]
    assert points.points_xy.tolist() == [point for _, _, (point,) in expected]

    annotations = read_file(data, classes=MONKEY, other_shapes="skip")
    assert np.array_equal(annotations.parts[0].points_xy, points.points_xy)
    assert [(finding.got, finding.count) for finding in annotations.findings] == [("Type 'Polygon'", 2)]
    faults = fault_of(data, classes=MONKEY).split("\n")
    assert [fault.split("]")[0] for fault in faults] == ["[unsupported-shape"] * 2


def test_the_boxes_of_monkey_lie_around_its_dots(shared_data):
    folder = shared_data / "monkey"
    points = points_of((folder / "A_P000001.xml").read_bytes(), classes=MONKEY, skipped=["roi"])
    outlines = outlines_of((folder / "A_P000001_region.xml").read_bytes(), classes=MONKEY, skipped=["roi"])
    assert np.array_equal(outlines.class_id, points.class_id)
    assert np.array_equal(outlines.source_id, points.source_id)
    assert (np.diff(outlines.ring_start) == 4).all()
    centres = outlines.points_xy.reshape(-1, 4, 2).mean(axis=1)
    assert np.abs(centres - points.points_xy).max() < 1e-3


def test_tiles_xml_equals_tiles_geojson(shared_data):
    folder = shared_data / "asap_geojson"
    outlines = outlines_of((folder / "tiles.xml").read_bytes(), classes=TILES)
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
def test_real_outlines_are_read_as_elementtree_reads_them(shared_data, name):
    data = (shared_data / name).read_bytes()
    classes = {**TILES, **{group: index + 2 for group, index in MONKEY.items()}}
    outlines = outlines_of(data, classes=classes, skipped=["roi"])
    expected = elements_of(data, classes)
    assert outlines.source_id.tolist() == [name for name, _, _ in expected]
    assert outlines.class_id.tolist() == [classes[group] for _, group, _ in expected]
    assert outlines.ring_start.tolist() == np.cumsum([0, *(len(points) for _, _, points in expected)]).tolist()
    assert outlines.points_xy.tolist() == [point for _, _, points in expected for point in points]
