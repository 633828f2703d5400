"""Reading Aperio XML: what layers, regions and attributes mean, and what is refused. The oracle is ElementTree."""

from __future__ import annotations

import gzip
import io
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xml_files import CASE, xml_request

from evaluation.decoding import chunks as chunks_module
from evaluation.decoding import xml as bounded_xml
from evaluation.findings.catalogue import CATALOGUE
from evaluation.findings.errors import InputFault
from evaluation.formats import aperio_xml
from evaluation.formats.aperio_xml import read_aperio_xml
from evaluation.model import Annotations, Outlines

CLASSES = {"epithelial": 1, "lymphocyte": 2, "ambiguous": -1}
TRIANGLE = ((1, 2), (5, 2), (1, 6.5))


def region(*points, id="1", **attributes) -> str:
    texts = "".join(f'<Vertex X="{x}" Y="{y}" Z="0"/>' for x, y in points or TRIANGLE)
    named = "".join(f' {key}="{value}"' for key, value in {"Id": id, **attributes}.items() if value is not None)
    return f"<Region{named}><Attributes/><Vertices>{texts}</Vertices></Region>"


def layer(*regions: str, cls: str | None = "Epithelial", id="1", name="") -> str:
    attributes = "<Attributes/>" if cls is None else f'<Attributes><Attribute Id="0" Name="{cls}"/></Attributes>'
    number = "" if id is None else f' Id="{id}"'
    return f'<Annotation Name="{name}"{number}>{attributes}<Regions>{"".join(regions)}</Regions></Annotation>'


def document(*layers: str) -> str:
    return f'<?xml version="1.0"?>\n<Annotations MicronsPerPixel="0.25">{"".join(layers)}</Annotations>'


def read(text: str | bytes, classes=CLASSES, **options) -> Outlines:
    (outlines,) = read_annotations(text, classes, **options).parts
    return outlines


def read_annotations(text: str | bytes, classes=CLASSES, **options) -> Annotations:
    data = text.encode() if isinstance(text, str) else text
    return read_aperio_xml(io.BytesIO(data), xml_request(classes, **options), CASE)


def fault_of(text: str | bytes, **options) -> str:
    """The lines of the one fault that the file has."""
    with pytest.raises(InputFault) as fault:
        read(text, **options)
    return "\n".join(str(finding) for finding in fault.value.findings)


# --- layers and classes ----------------------------------------------------------------------------------------------


def test_layers_keep_their_order_whatever_their_ids_and_empty_ones_add_nothing():
    text = document(
        layer(region(id="9"), region(id="4"), cls="Lymphocyte", id="4"),
        layer(cls="Epithelial", id="2"),
        layer(region(id="4"), cls="Ambiguous", id="1"),
    )
    outlines = read(text)
    assert outlines.source_id.tolist() == ["4/9", "4/4", "1/4"]
    assert outlines.class_id.tolist() == [2, 2, -1]
    assert outlines.ring_start.tolist() == [0, 3, 6, 9]
    assert outlines.points_xy[:3].tolist() == [list(point) for point in TRIANGLE]


def test_the_class_may_come_after_the_regions_and_in_any_order_of_attributes():
    text = document(f'<Annotation><Regions>{region()}</Regions><Attributes><Attribute Value="" Id="3" '
                    'Name="Lymphocyte"/></Attributes></Annotation>')  # fmt: skip
    assert read(text).class_id.tolist() == [2]


def test_the_class_is_matched_in_any_case_and_with_blanks_around():
    assert read(document(layer(region(), cls="  epiTHELial "))).class_id.tolist() == [1]


def test_attributes_of_a_region_are_not_the_class():
    inner = region().replace("<Attributes/>", '<Attributes><Attribute Name="Lymphocyte"/></Attributes>')
    assert read(document(layer(inner, cls="Epithelial"))).class_id.tolist() == [1]


def test_an_attribute_that_is_known_is_the_class_although_another_comes_first():
    two = layer(region()).replace("<Attribute ", '<Attribute Name="Description"/><Attribute ')
    assert read(document(two)).class_id.tolist() == [1]


def test_the_name_of_the_layer_is_the_class_if_no_attribute_is_known():
    assert read(document(layer(region(), cls="Description", name="Lymphocyte"))).class_id.tolist() == [2]


def test_a_layer_without_a_name_has_the_class_of_the_empty_alias():
    nameless = document(layer(region(), cls=None), layer(region(), cls="Description"))
    assert read(nameless, classes={"nucleus": 1, "": 1}).class_id.tolist() == [1, 1]


def test_an_unknown_class_is_refused_with_its_nearest_name_and_the_number_of_regions():
    text = document(layer(*(region(id=str(number)) for number in range(3, 9)), cls="Lymphocytes", id="2"))
    assert fault_of(text) == (
        "[unknown-class] 'a.xml', region '2/3', region '2/4', region '2/5' and 3 more: 'Lymphocytes' is not a class of "
        "this challenge; expected 'epithelial' or 'lymphocyte'. Did you mean 'lymphocyte'?"
    )


def test_a_layer_without_a_name_is_refused_if_no_class_stands_for_it():
    assert "the layer has no class name" in fault_of(document(layer(region(), cls=None)))


@pytest.mark.parametrize(("attribute", "expected"), [("Description", 5), ("", 5), ("Epithelail", None)])
def test_a_misspelt_name_is_never_taken_for_no_name(attribute, expected):
    text = document(layer(region(), cls=attribute))
    classes = {"epithelial": 1, "other": 5, "": 5}
    if expected is None:
        assert "'Epithelail' is not a class" in fault_of(text, classes=classes)
    else:
        assert read(text, classes=classes).class_id.tolist() == [expected]


def test_a_layer_without_a_name_has_the_only_class_of_a_challenge_with_one():
    assert read(document(layer(region(), cls=None)), classes={"nucleus": 1}).class_id.tolist() == [1]
    assert "is not a class" in fault_of(document(layer(region(), cls="mitosis")), classes={"nucleus": 1})


def test_layers_of_one_unknown_name_are_one_finding_and_many_names_are_counted():
    one = document(*(layer(region(), region(), cls="Fibroblast", id=str(number)) for number in range(30)))
    places = "region '0/1', region '0/1', region '1/1' and 57 more"
    assert fault_of(one).startswith(f"[unknown-class] 'a.xml', {places}: 'Fibroblast' is not a class")
    with pytest.raises(InputFault) as fault:
        read(document(*(layer(region(), region(), cls=f"name {number}") for number in range(30))))
    assert len(fault.value.findings) == bounded_xml.FAULTS_NAMED
    assert sum(finding.count for finding in fault.value.findings) == 60


def test_the_class_of_the_file_goes_before_the_names_in_it():
    text = document(layer(region(), cls="Fibroblast"), layer(region(), cls="Lymphocyte"), layer(region(), cls=None))
    assert read(text, file_class=1).class_id.tolist() == [1, 1, 1]


def test_skipped_layers_are_left_out_whatever_they_hold():
    text = document(
        layer(region(id="7"), cls="Lymphocyte", id="1"),
        layer(region((1, 1), (5, 5), Type="2"), region(NegativeROA="1"), cls=" ROI ", id="2"),
        layer(region(*square(1, 1, 3), id="8"), cls="Description", name="Roi", id="3"),
        layer(region(*square(5, 5, 3), id="9"), cls="Epithelial", name="ROI", id="4"),
    )
    for file_class, classes in ((0, [2, 1]), (2, [2, 2])):
        annotations = read_annotations(text, skipped=["roi"], file_class=file_class)
        (outlines,) = annotations.parts
        assert annotations.findings == ()
        assert outlines.source_id.tolist() == ["1/7", "4/9"]
        assert outlines.class_id.tolist() == classes
        assert outlines.points_xy.tolist() == [list(point) for point in (*TRIANGLE, *square(5, 5, 3))]


def test_layers_without_a_name_are_left_out_if_the_challenge_skips_them():
    assert len(read(document(layer(region(), cls=None)), classes={"nucleus": 1}, skipped=[""])) == 0


def test_an_unknown_class_without_regions_is_no_fault():
    assert len(read(document(layer(cls="Fibroblast"), layer(region())))) == 1


def test_missing_ids_are_replaced_by_positions():
    text = document(layer(id=None), layer(region(id=None), id=None), layer(region(id=None), region(id=None), id=None))
    assert read(text).source_id.tolist() == ["2/1", "3/1", "3/2"]


def test_a_file_without_regions_has_no_outlines():
    for text in (document(), document(layer()), "<Annotations/>"):
        outlines = read(text)
        assert (len(outlines), outlines.points_xy.shape, outlines.ring_start.tolist()) == (0, (0, 2), [0])


def test_regions_without_vertices_are_outlines_without_vertices():
    empty = '<Region Id="1"><Vertices/></Region>'
    outlines = read(document(layer(empty, region(id="2"), '<Region Id="3"/>')))
    assert outlines.ring_start.tolist() == [0, 0, 3, 3]


def test_the_coordinates_of_a_vertex_may_come_in_any_order_and_among_others():
    vertices = '<Vertex Y="2" X="1"/><Vertex Z="9" X="3" Y="4"/><Vertex X="5" Z="9" Y="6"/><Vertex X="7" Y="8"/>'
    outlines = read(document(layer(f"<Region><Vertices>{vertices}</Vertices></Region>")))
    assert outlines.points_xy.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_vertices_of_anything_else_are_left_aside():
    plot = '<Plots><Plot><Vertices><Vertex X="1" Y="x"/></Vertices></Plot></Plots><Vertex/>'
    text = document(layer(region()).replace("<Regions>", plot + "<Regions>"))
    assert read(text).points_xy.tolist() == [list(point) for point in TRIANGLE]


# --- holes -----------------------------------------------------------------------------------------------------------


def square(left, top, size):
    return (left, top), (left + size, top), (left + size, top + size), (left, top + size)


def test_a_hole_belongs_to_the_smallest_outline_around_it_wherever_it_stands():
    text = document(
        layer(
            region(*square(4, 4, 2), id="hole", NegativeROA="1"),
            region(*square(0, 0, 20), id="large"),
            region(*square(2, 2, 8), id="small"),
            region(*square(3, 3, 0.5), id="beside"),
            region(*square(15, 15, 2), id="other hole", NegativeROA="1"),
        )
    )
    outlines = read(text)
    assert outlines.source_id.tolist() == ["1/large", "1/small", "1/beside"]
    assert outlines.ring_instance.tolist() == [0, 0, 1, 1, 2]
    assert outlines.ring_is_hole.tolist() == [False, True, False, True, False]
    first_vertices = outlines.points_xy[outlines.ring_start[:-1]].tolist()
    assert first_vertices == [[0, 0], [15, 15], [2, 2], [4, 4], [3, 3]]


@pytest.mark.parametrize("around", [layer(region(*square(0, 0, 20)), cls="Lymphocyte"), "", layer(region((0, 0)))])
def test_a_hole_without_an_outline_in_its_layer_is_left_out_with_a_warning(around):
    text = document(around, layer(region(*square(4, 4, 2), id="7", NegativeROA="1"), id="5"))
    annotations = read_annotations(text)
    assert not annotations.parts[0].ring_is_hole.any()
    (finding,) = annotations.findings
    assert str(finding).startswith("[hole-without-outline] 'a.xml', region '5/7': a hole (NegativeROA)")
    assert finding.severity == "warning"


def test_only_the_value_1_of_negative_roa_is_a_hole():
    assert len(read(document(layer(region(NegativeROA="0"), region(NegativeROA=""), region())))) == 3


def test_of_equal_outlines_around_a_hole_the_first_gets_it_also_beside_degenerate_ones(monkeypatch):
    text = document(
        layer(
            region((0, 0), (9, 9), (0, 0), id="no area"),
            region(*square(0, 0, 9), id="first"),
            region(*square(0, 0, 9), id="second"),
            region(*square(3, 2, 2), id="hole", NegativeROA="1"),
            region(*square(6, 2, 2), id="other hole", NegativeROA="1"),
        )
    )
    for limit in (1 << 22, 6):  # pieces of one hole
        monkeypatch.setattr(aperio_xml, "PAIRS_LIMIT", limit)
        assert read(text).ring_instance.tolist() == [0, 1, 1, 1, 2]
    monkeypatch.setattr(aperio_xml, "PAIRS_LIMIT", 4)
    assert fault_of(text).startswith(
        "[too-complex-outlines] 'a.xml': 2 holes (NegativeROA) that may lie in more than 4 "
    )


def test_holes_that_are_looked_at_piece_by_piece_find_their_outlines(monkeypatch):
    corners = [(30 * index, 0) for index in range(4)]
    outlines = [region(*square(*corner, 20)) for corner in corners]
    holes = [region(*square(left + 5, 5, 2), NegativeROA="1") for left, _ in corners[1:]]
    monkeypatch.setattr(aperio_xml, "PAIRS_LIMIT", 4)
    assert read(document(layer(*holes, *outlines))).ring_instance.tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_many_holes_in_many_outlines_are_refused_in_time():
    outlines = [region((0, 0), (1000, 0), (0, 1000 + i)) for i in range(5000)]
    holes = [region((1, 1), (2, 1), (1, 2), NegativeROA="1")] * 5000
    assert fault_of(document(layer(*outlines, *holes)), vertices_limit=10**6).startswith("[too-complex-outlines]")


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vertex", "got"),
    [
        ('X="1" Y="NaN"', "Y is 'NaN'"),
        ('X="inf" Y="1"', "X is 'inf'"),
        ('X="1,5" Y="1"', "X is '1,5'"),
        ('X="1" Y="1000000001"', "Y is '1000000001'"),
        ('X="" Y="1"', "X is ''"),
        ('X="1_000" Y="1"', "X is '1_000'"),
        ('X="1" Y="\uff11"', "Y is '\uff11'"),
        ('X="1\u00a0" Y="1"', "X is '1?'"),
        ('X="0x10" Y="1"', "X is '0x10'"),
        ('X="1 2" Y="1"', "X is '1 2'"),
        ('X="1e400" Y="1"', "X is '1e400'"),
        ('Y="1"', "no X"),
        ('X="1"', "no Y"),
        ('x="1" Y="1"', "no X"),
    ],
)
def test_a_vertex_without_usable_coordinates_is_named(vertex, got):
    bad = region(id="8").replace('X="5" Y="2"', vertex)
    assert fault_of(document(layer(region(), bad, id="3"))) == (
        f"[invalid-coordinate] 'a.xml', region '3/8', vertex 2: {got}; "
        "expected numbers between -1e9 and 1e9 as X and Y of every vertex."
    )


def test_all_bad_coordinates_are_counted_and_a_few_are_named():
    text = document(layer(*(region(("a", 1), (2, "b"), (3, 4), id=str(i)) for i in range(40))))
    with pytest.raises(InputFault) as fault:
        read(text)
    assert sum(finding.count for finding in fault.value.findings) == 80
    assert len(fault.value.findings) == bounded_xml.FAULTS_NAMED


def test_coordinates_up_to_the_limit_are_accepted():
    outlines = read(document(layer(region((1e9, -1e9), ("+.5", "-1."), ("1e3", " 2&#10;")))))
    assert outlines.points_xy.tolist() == [[1e9, -1e9], [0.5, -1], [1000, 2]]


def test_ellipses_are_refused_and_rectangles_are_not():
    assert len(read(document(layer(region(Type="0"), region(Type="1"))))) == 2
    line = fault_of(document(layer(region((1, 1), (5, 4), id="6", Type="2"))))
    assert line.startswith("[unsupported-shape] 'a.xml', region '1/6': Type '2' (ellipse); expected Type '0'")


def test_a_rectangle_of_two_corners_is_refused():
    line = fault_of(document(layer(region((1, 1), (5, 4), Type="1"))))
    assert line.startswith("[unsupported-shape] 'a.xml', region '1/1': Type '1' (rectangle) of two vertices;")


def test_several_kinds_of_fault_are_told_in_one_pass():
    text = document(layer(region(("x", 1)), region(Type="2"), cls="Fibroblast"))
    codes = [line.split("]")[0] for line in fault_of(text).splitlines()]
    assert codes == ["[invalid-coordinate", "[unsupported-shape", "[unknown-class"]


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE Annotations><Annotations/>",
        '<!DOCTYPE a [<!ENTITY b "c">]><Annotations>&b;</Annotations>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><Annotations/>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><Annotations>&b;</Annotations>',
    ],
)
def test_document_types_and_entities_are_refused(text):
    assert fault_of(text).startswith("[forbidden-xml] 'a.xml': a document type or entity declaration;")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not XML",
        '{"type": "Polygon"}',
        document(layer(region()))[:-20],
        "<Annotations></Annotation>",
        "<Annotations>&nbsp;</Annotations>",
        '<?xml version="1.0" encoding="klingon"?><Annotations/>',
        '<?xml version="1.0" encoding="shift_jis"?><Annotations/>',
        b"\x00\x01\x02\x03",
        b"\xff\xfe<",
    ],
)
def test_what_is_not_xml_is_refused(text):
    assert fault_of(text).startswith("[not-xml] 'a.xml': ")


@pytest.mark.parametrize("root", ["ASAP_Annotations", "Annotation", "Vertex", "html"])
def test_xml_of_another_kind_is_refused(root):
    assert fault_of(f"<{root}/>").startswith(f"[wrong-format] 'a.xml': the root element is '{root}';")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_and_never_crashes(data):
    whole = bytearray(document(layer(region(), region(NegativeROA="1")), layer(region(), cls="Lymphocyte")).encode())
    if data.draw(st.booleans()):
        whole = bytearray(gzip.compress(bytes(whole), mtime=0))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        outlines = read(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except InputFault as fault:
        assert all(str(finding).startswith("[") for finding in fault.findings)
    else:
        assert outlines.ring_start[-1] == len(outlines.points_xy)


# --- size and compression --------------------------------------------------------------------------------------------


def test_the_limit_of_bytes_counts_after_decompression():
    text = document(layer(region())).encode()
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


def test_a_small_file_may_grow_more():
    text = document(layer(region())).encode() + b" " * 4_000_000
    assert len(gzip.compress(text)) < 10_000
    assert len(read(gzip.compress(text), bytes_limit=10**9)) == 1


def test_the_limit_of_vertices_is_kept():
    assert len(read(document(layer(region(), region())), vertices_limit=6)) == 2
    line = fault_of(document(layer(region(), region())), vertices_limit=5)
    assert line.startswith("[too-large] 'a.xml': more than 5 vertices; expected at most 5.")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (document(layer(region(), region()), layer(region(NegativeROA="1"))), "regions"),
        (document(layer(), layer(), layer()), "layers"),
        (document(layer(region()).replace("<Attributes>", "<Attributes><Attribute/><Attribute/>")), "attributes"),
    ],
)
def test_the_limit_of_instances_bounds_all_that_is_kept(text, what):
    assert read(text, instances_limit=3) is not None
    line = fault_of(text, instances_limit=2)
    assert line.startswith(f"[too-large] 'a.xml': more than 2 {what}")
    assert line.endswith(
        "expected at most 2. Make the file smaller; organisers can raise limits.instances_per_case in challenge.toml."
    )


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("<Annotations>" * 100, "elements nested more than 64 deep"),
        (f"<Annotations>{'<Annotation>' * 10**6}", "elements nested more than 64 deep"),
        (
            "<Annotations><Annotation><Regions><Region><Vertices>" + "<Vertex>" * 10**6,
            "elements nested more than 64 deep",
        ),
        ("<Annotations>" + "".join(f"<a{i}/>" for i in range(50_000)), "more than 1,000 different names"),
        ("<Annotations>" + "".join(f'<a b{i}=""/>' for i in range(50_000)), "more than 1,000 different names"),
        (f"<Annotations><!--{'x' * 10**7}--></Annotations>", "a tag or comment of more than a million bytes"),
        (f"<Annotations a='{'x' * 10**7}'/>", "a tag or comment of more than a million bytes"),
        (f"<?a {'x' * 10**7}?><Annotations/>", "a tag or comment of more than a million bytes"),
        (f"<{'x' * 10**7}/>", "a tag or comment of more than a million bytes"),
    ],
)
def test_what_would_take_time_or_memory_of_the_parser_is_refused(text, got):
    assert fault_of(text).startswith(f"[not-xml] 'a.xml': {got}")


def test_gzip_files_of_several_members_and_with_padding_are_read_to_the_end():
    text = document(layer(region())).encode()
    data = gzip.compress(text[:100]) + gzip.compress(text[100:]) + bytes(1000)
    assert read(data).points_xy.tolist() == [list(point) for point in TRIANGLE]


@pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:40], lambda d: d[:2], lambda d: d + b"rest",
                                    lambda d: d[:-8] + bytes(8)])  # fmt: skip
def test_damaged_gzip_files_are_refused(damage):
    data = gzip.compress(document(layer(region())).encode())
    assert "[unreadable-file] 'a.xml': " in fault_of(damage(data))


def test_pieces_of_the_file_do_not_change_what_is_read(monkeypatch):
    text = document(layer(region(), region(id="2")), layer(region(), cls="Lymphocyte", id="2"))
    for data in (text.encode(), gzip.compress(text.encode()), text.encode("utf-16")):
        monkeypatch.setattr(bounded_xml, "CHUNK_BYTES", 1 << 18)
        whole = read(data)
        monkeypatch.setattr(bounded_xml, "CHUNK_BYTES", 16 * 7)
        parts = read(data)
        assert parts.points_xy.tolist() == whole.points_xy.tolist()
        assert parts.source_id.tolist() == whole.source_id.tolist() == ["1/1", "1/2", "2/1"]


def test_a_bad_coordinate_is_placed_whatever_piece_it_is_in(monkeypatch):
    monkeypatch.setattr(bounded_xml, "CHUNK_BYTES", 100)
    text = document(layer(region(), region(id="2")), layer(region((1, 2), (3, "x"), (5, 6), id="4"), id="3"))
    assert fault_of(text).startswith("[invalid-coordinate] 'a.xml', region '3/4', vertex 2: Y is 'x';")


# --- the catalogue ----------------------------------------------------------------------------------------------------

COMPLETE = document(layer(region()))
EXAMPLES = {
    "not-xml": "<Annotations>" + "\n" * 811,
    "forbidden-xml": "<!DOCTYPE Annotations><Annotations/>",
    "unreadable-file": gzip.compress(COMPLETE.encode())[:-9],
    "unknown-class": document(layer(*(region(id=str(i)) for i in range(1, 19)), cls="Lymphocytes", id="2")),
    "invalid-coordinate": document(layer(region(*[(1, 2)] * 11, (1, "NaN"), id="3"))),
    "unsupported-shape": document(layer(region(id="3", Type="2"))),
}


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_examples_in_the_catalogue_are_what_is_printed(code):
    where = "'P1_1.xml.gz'" if code == "unreadable-file" else "'P1_1.xml'"
    classes = {"epithelial": 1, "lymphocyte": 2}
    assert fault_of(EXAMPLES[code], classes=classes, where=where) == CATALOGUE[code].example


def test_the_examples_of_warnings_and_limits_are_what_is_printed():
    text = document(layer(region(id="9", NegativeROA="1")))
    (finding,) = read_annotations(text, where="case 'P1_1', 'P1_1.xml'").findings
    assert str(finding) == CATALOGUE["hole-without-outline"].example
    finding = bounded_xml.too_many("case 'P1_1', 'P1_1.xml'", "vertices", 1000, "vertices_per_file")
    assert str(finding) == CATALOGUE["too-large"].example


# --- real files ------------------------------------------------------------------------------------------------------


def test_real_files_are_read_as_elementtree_reads_them(shared_data):
    files = sorted([*shared_data.glob("monusac/*.xml"), *shared_data.glob("monuseg/*.xml.gz")])
    assert len(files) == 11
    classes = {"epithelial": 1, "lymphocyte": 2, "neutrophil": 3, "macrophage": 4, "": 1}
    for path in files:
        data = path.read_bytes()
        outlines = read(data, classes=classes)
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


def test_real_files_have_the_measured_numbers_of_outlines(shared_data):
    classes = {"epithelial": 1, "lymphocyte": 2, "neutrophil": 3, "macrophage": 4}
    for name, expected in {"A9K0_1": {1: 314, 4: 7}, "A9K0_3": {3: 5}}.items():
        data = (shared_data / "monusac" / f"{name}.xml").read_bytes()
        outlines = read(data, classes=classes)
        ids, counts = np.unique(outlines.class_id, return_counts=True)
        assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    "texts", [["1.5", "-2e3"], [""], [" "], ["", "1"], ["1", ""], ["1 2"], ["+1", ".5", "007"], []]
)
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
