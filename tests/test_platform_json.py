"""JSON from strangers, and the platform's "Multiple polygons" and "Multiple points". The oracle of JSON is the standard
library's parser."""

from __future__ import annotations

import gc
import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import orjson
import pytest
from endless import not_endless
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_files import CLASSES, faults_of, read_json_file

from evaluation.challenge import LimitRules
from evaluation.decoding import json as bounded_json
from evaluation.decoding.json import read_json, read_records
from evaluation.findings.catalogue import CATALOGUE
from evaluation.findings.errors import InputFault
from evaluation.formats.points_json import write_points_json
from evaluation.formats.polygons_json import write_polygons_json
from evaluation.model import Outlines, Points

PATH = [[1, 2, 0.5], [5, 2, 0.5], [1, 6.5, 0.5]]


def parse(data: bytes | str, **limits) -> Any:
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return read_json(stream, where="'nuclei.json'", limits=LimitRules(**limits))


def records_of(data: bytes, *, key: str = "nuclei", piece_bytes: int = 1 << 20, **limits) -> tuple[Any, Any]:
    """The value of a file without its records, and the records; with pieces of another size."""
    with mock.patch.multiple(bounded_json, PIECE_BYTES=piece_bytes, SCAN_BYTES=max(1, piece_bytes // 3)):
        found = read_records(io.BytesIO(data), key=key, where="'nuclei.json'", limits=LimitRules(**limits))
        return found.root, None if found.pieces is None else [record for piece in found.pieces for record in piece]


def line_of(call, *arguments, **options) -> str:
    with pytest.raises(InputFault) as fault:
        call(*arguments, **options)
    (finding,) = fault.value.findings
    return str(finding)


# --- JSON from strangers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    ["NaN", "[Infinity]", "[-Infinity]", "1e999", "[-1e400]", "9" * 400, '"\\ud800"', '{"\\udfff": 1}', "[1,]",
     "[1", "{'a': 1}", "[01]", "[1] 2", "[1]\0", "\0", '"\0"', '["\n"]', "nul", "", "  \n", b"\xff\xfe[\0001\0]\0",
     b'["\xff"]', b"\x80\x04]."],
)  # fmt: skip
def test_what_is_not_json_is_told(data):
    assert line_of(parse, data).startswith("[not-json] 'nuclei.json': ")
    assert line_of(records_of, data if isinstance(data, bytes) else data.encode()).startswith("[not-json] ")


@pytest.mark.parametrize("after", [b"", b" \xff", b"]"])
@pytest.mark.parametrize("read", [parse, records_of])
def test_the_first_byte_that_is_not_utf_8_is_told(read, after):
    records = b'[\n{"a": 1}, {"b": "\xc3\xa4"},\n{"c": "Gr\xfc\xdfe"}' + after + b"]"
    assert ": bytes that are not UTF-8 (line 3, column 10); expected" in line_of(read, records)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (gzip.compress(b"[1]", mtime=0) + gzip.compress(b" ", mtime=0), [1]),
        (gzip.compress(b"\xef\xbb\xbf[1]", mtime=0), [1]),
        (b"123456789012345678901234567890", 123456789012345678901234567890.0),
        (b"1e-999", 0.0),
        (b'"\\u0000\\ud83d\\ude00"', "\0\N{GRINNING FACE}"),
    ],
)
def test_unusual_json_is_read(data, value):
    assert parse(data) == value


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"[":', '["\\"", [{"\\\\": ['])
def test_depth_is_bounded_before_anything_is_parsed(opening):
    closing = opening.replace('"a":', "")[::-1].translate(str.maketrans("[{", "]}"))
    depth = len([character for character in json.dumps(None) + opening if character in "[{"]) - opening.count('"[')
    assert "nested more than 32 deep" in line_of(parse, opening * (600_000 // depth) + closing)


def test_depth_counts_brackets_outside_of_strings_only():
    fine = json.dumps([["[[[", '"[[\\', {"{{{": "]]"}]])
    assert parse(fine, json_depth=3) == json.loads(fine)
    assert "nested more than 2 deep; expected at most 2 " in line_of(parse, fine, json_depth=2)


def test_a_bomb_and_a_cut_off_file_in_gzip_are_told():
    bomb = gzip.compress(b"[" + b" " * (1 << 25) + b"]", mtime=0)
    assert "bytes after decompression; expected at most " in line_of(parse, bomb)
    assert "[too-large]" in line_of(parse, gzip.compress(b"[1, 2, 3]", mtime=0), bytes_per_file=8)
    assert "[too-large]" in line_of(parse, b"[1, 2, 3]", bytes_per_file=8)
    assert "[unreadable-file]" in line_of(parse, gzip.compress(b"[1, 2, 3]" * 100, mtime=0)[:-4])


@pytest.mark.parametrize(
    "data", [b"[" * 3_000_000, b'"' * 3_000_000, b'\\"' * 1_500_000, b"]" * 3_000_000, b'{"nuclei":[],' * 250_000,
             b'{"nuclei":' + b"[[]," * 750_000, b"\\" * 3_000_000]
)  # fmt: skip
def test_hostile_bytes_take_no_time(data):
    with not_endless():
        line_of(records_of, data)


def test_the_garbage_collector_is_as_it_was():
    assert gc.isenabled()
    parse("[1]")
    assert gc.isenabled()
    line_of(parse, "[1")
    assert gc.isenabled()
    gc.disable()
    try:
        parse("[1]")
        assert not gc.isenabled()
    finally:
        gc.enable()


# --- records, piece by piece ------------------------------------------------------------------------------------------

TEXTS = st.lists(st.sampled_from(['"', "\\", "[", "]", "{", "}", ",", "é", "\n", "nuclei"]), max_size=5).map("".join)
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
FILES = st.one_of(
    st.lists(JSON_VALUES, max_size=12),
    st.builds(
        lambda before, records, after: before | {"nuclei": records} | after,
        st.dictionaries(TEXTS.filter(lambda text: text != "nuclei"), JSON_VALUES, max_size=3),
        st.lists(JSON_VALUES, max_size=12),
        st.dictionaries(TEXTS.filter(lambda text: text != "nuclei"), JSON_VALUES, max_size=3),
    ),
)


@settings(max_examples=300)
@example({'"nuclei': [1, [2], 3], "nuclei": [[4], [5]]}, None, True, 1)
@given(FILES, st.sampled_from([None, 0, 3]), st.booleans(), st.integers(1, 40))
def test_pieces_hold_the_records_of_the_file(value, indent, ascii, piece_bytes):
    data = json.dumps(value, indent=indent, ensure_ascii=ascii).encode()
    root, records = records_of(data, piece_bytes=piece_bytes)
    if isinstance(value, dict):
        assert (root | {"nuclei": records}, list(root)) == (value, list(value))
    else:
        assert (root, records) == ([], value)


@settings(max_examples=300)
@given(FILES, st.integers(1, 40), st.data())
def test_a_file_is_refused_in_pieces_exactly_if_it_is_refused_as_a_whole(value, piece_bytes, draw):
    data = json.dumps(value).encode()
    place = draw.draw(st.integers(0, len(data)))
    token = draw.draw(st.sampled_from([b"", b",", b"[", b"]", b'"', b"\\", b"0", b"{", b"}", b"NaN", b"\n"]))
    data = data[:place] + token + data[place + draw.draw(st.integers(0, 2)) :]
    try:
        whole = orjson.loads(data)
    except orjson.JSONDecodeError:
        told = line_of(records_of, data, piece_bytes=piece_bytes, json_depth=500)
        assert told.startswith(("[not-json]", "[duplicate-key]"))
        return
    if has_key_twice(data):
        told = line_of(records_of, data, piece_bytes=piece_bytes, json_depth=500)
        assert told.startswith("[duplicate-key]")
        return
    root, records = records_of(data, piece_bytes=piece_bytes, json_depth=500)
    if isinstance(whole, dict) and isinstance(whole.get("nuclei"), list):
        assert root | {"nuclei": records} == whole
    else:
        assert records == (whole if isinstance(whole, list) else None)


def has_key_twice(data):
    """Whether an object of a text of JSON has a key twice, told by the standard library."""
    objects = []
    json.loads(data, object_pairs_hook=lambda pairs: objects.append([key for key, _ in pairs]))
    return any(len(set(keys)) < len(keys) for keys in objects)


KEYS = st.sampled_from(
    ['""', '"a"', '"ab"', '"\\u0061"', '"a very long key 1"', '"a very long key 2"', '"{"', '":"', '"\\""']
)
ANY_KEYS = st.recursive(
    st.sampled_from(["1", '"a"', '"{\\"a\\":"']),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(KEYS, inner), max_size=5).map(lambda of: "{" + " ,".join(f"{k} : {v}" for k, v in of) + "}"),
    ),
    max_leaves=20,
)


@settings(max_examples=500)
@example('[{"a":{"a":1}},{"a":1,"b":{"b":2},"a":3}]')
@example('[{"0123456-------0123456":1,"0123456=======0123456":1}]')
@given(ANY_KEYS)
def test_a_key_that_an_object_has_twice_is_found_as_the_standard_library_finds_it(text):
    if has_key_twice(text):
        assert line_of(parse, text, json_depth=500).startswith("[duplicate-key]")
    else:
        assert parse(text, json_depth=500) == json.loads(text)


@pytest.mark.parametrize("format", ["geojson", "polygons_json", "points_json"])
def test_a_key_twice_is_named_wherever_the_nucleus_stands_in_a_long_file(format):
    nucleus = {
        "geojson": '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,1],[9,1],[9,8],[1,1]]]},%s'
        '"properties":{"classification":{"name":"epi"}}}',
        "polygons_json": '{"path_points":[[1,1,0.5],[9,1,0.5],[9,8,0.5]],%s"name":"epi"}',
        "points_json": '{"point":[1,1,0.5],%s"name":"epi"}',
    }[format]
    around = {
        "geojson": '{"type":"FeatureCollection","features":[%s]}',
        "polygons_json": '{"type":"Multiple polygons","polygons":[%s]}',
        "points_json": '{"type":"Multiple points","points":[%s]}',
    }[format]
    nuclei = [nucleus % ""] * 30_000
    assert len(read_json_file((around % ",".join(nuclei)).encode(), format).parts[0].class_id) == 30_000
    nuclei[100] = nucleus % '"x":1,"x":1,'
    (fault,) = faults_of((around % ",".join(nuclei)).encode(), format)
    assert (fault.code, fault.got) == ("duplicate-key", "an object with the key 'x' twice")


def test_nothing_is_read_behind_what_is_too_deep():
    class Endless(io.BytesIO):
        """Claims a gigabyte of brackets and counts what is taken."""

        taken = 0

        def seek(self, offset, whence=0):
            return 10**9 if whence == 2 else 0

        def read(self, size=-1):
            self.taken += size
            return b"[" * size

    for read in (read_json, lambda stream, **options: read_records(stream, key="nuclei", **options)):
        stream = Endless()
        with pytest.raises(InputFault, match="too-deep"):
            read(stream, where="'a.json'", limits=LimitRules())
        assert stream.taken < 5_000_000


def test_a_second_list_of_records_is_refused():
    data = b'{"nuclei": [[1], [2]], "nuclei": [[3], [4]]}'
    assert "the key 'nuclei' twice" in line_of(records_of, data)
    assert "the key 'nuclei' twice" in line_of(records_of, data, piece_bytes=1)
    assert "the key 'nuclei' twice" in line_of(records_of, b'{"nuclei": [[1], [2]], "nuclei": 7}', piece_bytes=1)


@pytest.mark.parametrize("place", [5, 500, 999])
def test_the_place_of_a_fault_is_that_in_the_file(place):
    records = [f'{{"id": {index}}}' for index in range(1000)]
    records[place] = '{"id": NaN}'
    text = '{"type": "x",\n"nuclei": [\n' + ",\n".join(records) + "\n]}"
    line = line_of(records_of, text.encode(), piece_bytes=100)
    assert f"(line {place + 3:,}, column 8)" in line
    assert f"(line {place + 3:,}, column 8)" in line_of(parse, text)


@pytest.mark.parametrize("data", [b"7", b"{}", b'{"nuclei": {}}', b'{"points": [[1], [2]]}', b"[]x"[:0] + b"null"])
def test_a_file_without_the_list_has_no_pieces(data):
    assert records_of(data, piece_bytes=1) == (json.loads(data), None)


def test_a_record_that_is_too_large_is_told():
    with mock.patch.object(bounded_json, "PART_BYTES", 1000):
        small = json.dumps({"nuclei": [[1] * 100] * 50}).encode()
        assert len(records_of(small, piece_bytes=200)[1]) == 50
        for large in (
            {"nuclei": [[1], [1] * 1000, [1]]},
            {"a": [1] * 1000, "nuclei": []},
            {"nuclei": [], "a": "a" * 1000},
        ):
            line = line_of(records_of, json.dumps(large).encode(), piece_bytes=200)
            assert line.startswith("[too-large] 'nuclei.json': ")
            assert "bytes that are no list of annotations, or are a single one; expected at most 1,000 bytes." in line
        assert "[too-large]" in line_of(parse, b"[" + b"1," * 500 + b"1]")


# --- "Multiple polygons" ----------------------------------------------------------------------------------------------


def polygon(path=None, name: Any = "Epithelial", **keys) -> dict:
    return {"name": name, "seed_point": [0, 0, 0], "path_points": PATH if path is None else path, "sub_type": "",
            "groups": []} | keys  # fmt: skip


def polygons(*items) -> dict:
    return {"type": "Multiple polygons", "version": {"major": 1, "minor": 0}, "polygons": list(items)}


def read_polygons(content, **options) -> Outlines:
    (part,) = read_json_file(content, "polygons_json", **options).parts
    assert isinstance(part, Outlines)
    return part


def test_polygons_are_outlines_of_one_ring():
    found = read_polygons(polygons(polygon(), polygon([[7, 8], [9, 8], [9, 9]], "lymphocyte")))
    assert found.points_xy.tolist() == [[1, 2], [5, 2], [1, 6.5], [7, 8], [9, 8], [9, 9]]
    assert found.ring_start.tolist() == [0, 3, 6]
    assert found.ring_instance.tolist() == [0, 1]
    assert not found.ring_is_hole.any()
    assert found.class_id.tolist() == [1, 2]
    assert found.source_id.tolist() == [1, 2]
    assert found.probability is None


@pytest.mark.parametrize(
    "content", [polygons(polygon()), {"polygons": [polygon()]}, polygon() | {"type": "Polygon", "version": {}}]
)
def test_the_type_may_be_missing_or_that_of_one_polygon(content):
    assert read_polygons(content).points_xy.tolist() == [[1, 2], [5, 2], [1, 6.5]]


def test_an_empty_list_has_no_nuclei():
    assert len(read_polygons(polygons())) == 0


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ({"type": "Multiple points", "points": []}, "an object of the type 'Multiple points'"),
        ({"type": "Multiple points", "polygons": []}, "an object of the type 'Multiple points'"),
        ({"type": "FeatureCollection", "features": []}, "an object of the type 'FeatureCollection'"),
        ({"type": "Polygon", "coordinates": []}, "an object of the type 'Polygon'"),
        ({"type": "Multiple polygons"}, "a 'Multiple polygons' file without its list"),
        ({"polygons": {}}, "a 'Multiple polygons' file without its list"),
        ([polygon()], "a list"),
        (7, "the value '7'"),
    ],
)
def test_other_files_are_told_from_polygons(content, got):
    (fault,) = faults_of(content, "polygons_json")
    assert str(fault) == (
        f"[wrong-format] 'nuclei.json': {got}; expected a 'Multiple polygons' file of the platform. Write the file "
        "again in this format."
    )


@pytest.mark.parametrize(("units", "factor"), [("px", 1), ("um", 4), ("mm", 4000)])
def test_units_become_pixels_by_the_spacing(units, factor):
    found = read_polygons(polygons(polygon()), units=units, spacing_um=0.25)
    assert found.points_xy.tolist() == [[factor * x, factor * y] for x, y, _ in PATH]


def test_coordinates_are_bounded_in_pixels():
    content = polygons(polygon([[1e6, 0, 0], [0, 0, 0], [0, 1e308, 0]]))
    (first, second) = faults_of(content, "polygons_json", units="mm", spacing_um=0.25)
    assert (first.where, second.where) == ("'nuclei.json', polygon 1, vertex 1", "'nuclei.json', polygon 1, vertex 3")
    (fault,) = faults_of(content, "polygons_json")
    assert (fault.code, fault.where) == ("invalid-coordinate", "'nuclei.json', polygon 1, vertex 3")


def test_a_polygon_without_vertices_is_told_but_one_of_two_is_an_outline():
    (fault,) = faults_of(polygons(polygon(), polygon([])), "polygons_json")
    assert str(fault) == CATALOGUE["empty-polygon"].example
    assert read_polygons(polygons(polygon(PATH[:1]), polygon(PATH[:2]))).ring_start.tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    "item", [None, 7, [], {}, {"path_points": None}, {"path_points": {"x": 1}}, {"point": [1, 2, 3]}]
)
def test_items_that_are_no_polygons_are_told(item):
    (fault,) = faults_of(polygons(polygon(), item), "polygons_json")
    assert (fault.code, fault.where) == ("invalid-annotation", "'nuclei.json', polygon 2")


@pytest.mark.parametrize("position", [None, 1, [], [1], ["1", 2], [None, None, None], [True, 2, 3]])
def test_positions_that_are_no_numbers_are_told(position):
    (fault,) = faults_of(polygons(polygon([*PATH, position])), "polygons_json")
    assert (fault.code, fault.where) == ("invalid-coordinate", "'nuclei.json', polygon 1, vertex 4")


def test_names_are_classes_unless_the_path_of_the_file_tells():
    content = polygons(polygon(name=" EPI "), polygon(name="Ambiguous"), polygon(name="ROI"), polygon(name=None))
    assert read_polygons(content, skipped=["roi"]).class_id.tolist() == [1, -1, 0]
    assert read_polygons(content, skipped=["roi"]).source_id.tolist() == [1, 2, 4]
    assert read_polygons(content, file_class=2).class_id.tolist() == [2, 2, 2, 2]
    (fault,) = faults_of(polygons(polygon(), polygon(name="epithelia"), polygon(name="epithelia")), "polygons_json")
    assert str(fault) == (
        "[unknown-class] 'nuclei.json', polygon 2, polygon 3: 'epithelia' is not a class of this challenge; expected "
        "'epi', 'epithelial' or 'lymphocyte'. Did you mean 'epithelial'?"
    )


def test_probabilities_are_those_of_all_nuclei_or_of_none():
    content = polygons(polygon(probability=1), polygon(name="ROI"), polygon(probability=0.1))
    assert read_polygons(content, skipped=["roi"]).probability.tolist() == [1, 0.1]
    assert read_polygons(polygons(polygon(probability=None), polygon())).probability is None
    missing = faults_of(polygons(*[polygon()] * 30, polygon(probability=1)), "polygons_json")
    assert {fault.code for fault in missing} == {"missing-probability"}
    assert sum(fault.count for fault in missing) == 30
    for probability, code in ((1.5, "invalid-probability"), (None, "missing-probability")):
        content = polygons(polygon(probability=1), polygon(probability=probability))
        (fault,) = faults_of(content, "polygons_json")
        assert str(fault) == CATALOGUE[code].example


def test_limits_of_polygons_are_named():
    content = polygons(polygon(), polygon())
    (fault,) = faults_of(content, "polygons_json", limits={"vertices_per_file": 5})
    assert "more than 5 vertices; expected at most 5. " in str(fault)
    assert "limits.vertices_per_file" in str(fault)
    (fault,) = faults_of(content, "polygons_json", limits={"instances_per_case": 1})
    assert "limits.instances_per_case" in str(fault)


def test_all_faults_of_a_file_come_at_once():
    items = [polygon([]), polygon(name="x"), polygon([[1]]), 7, polygon(probability=2), polygon()]
    codes = Counter(fault.code for fault in faults_of(polygons(*items), "polygons_json"))
    assert set(codes) == {
        "empty-polygon", "unknown-class", "invalid-coordinate", "invalid-annotation", "invalid-probability",
        "missing-probability",
    }  # fmt: skip


# --- "Multiple points" ------------------------------------------------------------------------------------------------


def points(*items) -> dict:
    return {"type": "Multiple points", "version": {"major": 1, "minor": 0}, "points": list(items)}


def point(*position, name: Any = "Epithelial", **keys) -> dict:
    return {"point": list(position), "name": name} | keys


def read_points(content, **options) -> Points:
    (part,) = read_json_file(content, "points_json", **options).parts
    assert isinstance(part, Points)
    return part


def test_points_have_two_or_three_coordinates():
    content = points(point(1, 2, 0.5, probability=1), point(3, 4.5, name="Lymphocyte", probability=0.5))
    found = read_points(content)
    assert found.points_xy.tolist() == [[1, 2], [3, 4.5]]
    assert found.class_id.tolist() == [1, 2]
    assert found.source_id.tolist() == [1, 2]
    assert found.probability.tolist() == [1, 0.5]


@pytest.mark.parametrize("content", [{"points": [point(1, 2)]}, point(1, 2) | {"type": "Point"}])
def test_the_type_may_be_missing_or_that_of_one_point(content):
    assert read_points(content).points_xy.tolist() == [[1, 2]]


def test_points_in_millimetres_become_pixels():
    assert read_points(points(point(0.5, 0.25, 0)), units="mm", spacing_um=0.5).points_xy.tolist() == [[1000, 500]]


def test_numbered_names_are_no_names():
    one = {"classes": ["mitosis"], "ids": {"mitosis": 1}}
    assert read_points(points(point(1, 2, name="Point 0"), point(1, 2, name="Point 12")), **one).class_id.tolist() == [
        1,
        1,
    ]
    assert read_points(points(point(1, 2, name="Point 1")), ids={"point 1": 2}).class_id.tolist() == [2]
    assert read_points(points(point(1, 2, name="Point 1"))).class_id.tolist() == [0]
    (fault,) = faults_of(points(point(1, 2, name="Points 1")), "points_json", **one)
    assert fault.code == "unknown-class"


@pytest.mark.parametrize("item", [None, 7, [], {}, {"path_points": []}])
def test_items_that_are_no_points_are_told(item):
    (fault,) = faults_of(points(point(1, 2), item), "points_json")
    assert (fault.code, fault.where) == ("invalid-annotation", "'nuclei.json', point 2")


@pytest.mark.parametrize("position", [None, [], [1], [None, 2], [1e300, 2], "12", {"x": 1, "y": 2}])
def test_points_without_coordinates_are_told(position):
    (fault,) = faults_of(points(point(1, 2), {"point": position}), "points_json")
    assert (fault.code, fault.where) == ("invalid-coordinate", "'nuclei.json', point 2")


@pytest.mark.parametrize(
    "content", [polygons(), [[1, 2, 0]], {"type": "Point", "coordinates": [1, 2]}, {"007.tiff": [[1, 2, 0]]}]
)
def test_other_files_are_told_from_points(content):
    (fault,) = faults_of(content, "points_json")
    assert (fault.code, fault.expected) == ("wrong-format", "a 'Multiple points' file of the platform")


# --- writing ----------------------------------------------------------------------------------------------------------

COORDINATES = st.tuples(st.one_of(st.integers(-9, 9), st.floats(-1e9, 1e9)), st.floats(-1e9, 1e9))
PROBABILITIES = st.floats(0, 1, width=32)


@given(
    st.lists(st.tuples(st.lists(COORDINATES, min_size=1, max_size=5), st.integers(0, 2), PROBABILITIES)), st.booleans()
)
def test_written_polygons_are_read_again(nuclei, with_probability):
    rings = [ring for ring, _, _ in nuclei]
    outlines = Outlines(
        points_xy=np.array([vertex for ring in rings for vertex in ring], np.float64).reshape(-1, 2),
        ring_start=np.cumsum([0, *map(len, rings)]),
        ring_instance=np.arange(len(rings), dtype=np.int32),
        ring_is_hole=np.zeros(len(rings), np.bool_),
        class_id=np.array([class_id for _, class_id, _ in nuclei], np.int16),
        source_id=np.arange(1, len(rings) + 1).astype(object),
        probability=np.array([value for _, _, value in nuclei], np.float64) if with_probability and nuclei else None,
    )
    again = read_polygons(write_polygons_json(outlines, CLASSES, "nuclei"))
    for name in Outlines.__dataclass_fields__:
        assert np.array_equal(getattr(again, name), getattr(outlines, name)), name


@given(st.lists(st.tuples(COORDINATES, st.integers(0, 2), PROBABILITIES)), st.booleans())
def test_written_points_are_read_again(nuclei, with_probability):
    before = Points(
        points_xy=np.array([position for position, _, _ in nuclei], np.float64).reshape(-1, 2),
        class_id=np.array([class_id for _, class_id, _ in nuclei], np.int16),
        source_id=np.arange(1, len(nuclei) + 1).astype(object),
        probability=np.array([value for _, _, value in nuclei], np.float64) if with_probability and nuclei else None,
    )
    again = read_points(write_points_json(before, CLASSES))
    for name in Points.__dataclass_fields__:
        assert np.array_equal(getattr(again, name), getattr(before, name)), name


def two_rings(*, is_hole: bool) -> Outlines:
    square = [[0.0, 0], [9, 0], [9, 9], [0, 9]]
    return Outlines(
        np.array(square * 3), np.array([0, 4, 8, 12]), np.array([0, 1, 1], np.int32), np.array([False, False, is_hole]),
        np.array([1, 1], np.int16), np.array(["a", "b"], object),
    )  # fmt: skip


@pytest.mark.parametrize(("is_hole", "got"), [(True, "an outline with a hole"), (False, "an outline of several parts")])
def test_holes_and_parts_cannot_be_written_as_polygons(is_hole, got):
    assert line_of(write_polygons_json, two_rings(is_hole=is_hole), CLASSES, "nuclei") == (
        f"[unsupported-shape] 'nuclei', nucleus 'b': {got}; expected outlines without holes, of one part, in a "
        "'Multiple polygons' file. Split it, fill its holes, or write another format, such as GeoJSON."
    )


def test_written_files_have_the_keys_of_the_platform():
    ring = two_rings(is_hole=False)
    outlines = Outlines(ring.points_xy[:4], np.array([0, 4]), np.zeros(1, np.int32), np.zeros(1, np.bool_),
                        np.ones(1, np.int16), np.array(["a"], object), np.array([0.1], np.float64))  # fmt: skip
    assert json.loads(write_polygons_json(outlines, CLASSES, "cells")) == {
        "type": "Multiple polygons",
        "name": "cells",
        "version": {"major": 1, "minor": 0},
        "polygons": [
            {
                "name": "Epithelial",
                "seed_point": [0, 0, 0.5],
                "path_points": [[0, 0, 0.5], [9, 0, 0.5], [9, 9, 0.5], [0, 9, 0.5]],
                "sub_type": "",
                "groups": [],
                "probability": 0.1,
            }
        ],
    }
    one = Points(np.array([[1.5, 2]]), np.ones(1, np.int16), np.array([1], object), np.array([0.1], np.float64))
    assert json.loads(write_points_json(one, CLASSES)) == {
        "type": "Multiple points",
        "version": {"major": 1, "minor": 0},
        "points": [{"name": "Epithelial", "point": [1.5, 2, 0.5], "probability": 0.1}],
    }


def test_ignore_classes_cannot_be_written():
    one = Points(np.array([[1.5, 2]]), np.array([-1], np.int16), np.array([1], object))
    with pytest.raises(ValueError, match="class id -1"):
        write_points_json(one, CLASSES)


# --- real files -------------------------------------------------------------------------------------------------------


def read_real(path: Path, format: str, **options) -> Any:
    (part,) = read_json_file(path.read_bytes(), format, **options).parts
    return part


@pytest.mark.parametrize(
    ("job", "nuclei", "tumour"),
    [("80873d95-fc44-4393-a39a-617bd8725d20", 401, 116), ("d112c34d-b7ae-425c-b9d4-8caa0890b1de", 453, 259)],
)
def test_a_submission_to_puma_is_read(shared_data, job, nuclei, tumour):
    path = shared_data / f"puma/submission/{job}/output/melanoma-10-class-nuclei-segmentation.json"
    content = json.loads(path.read_text())
    names = sorted({item["name"] for item in content["polygons"]})
    ids = {name: index for index, name in enumerate(names, start=1)}
    found = read_real(path, "polygons_json", classes=names, ids=ids)
    assert len(found) == len(content["polygons"]) == nuclei
    assert int((found.class_id == ids["nuclei_tumor"]).sum()) == tumour
    theirs = [vertex[:2] for item in content["polygons"] for vertex in item["path_points"]]
    assert found.points_xy.tolist() == theirs
    assert found.probability.tolist() == [item["probability"] for item in content["polygons"]]
    again = read_json_file(write_polygons_json(found, names, "nuclei"), "polygons_json", classes=names, ids=ids).parts[
        0
    ]
    assert np.array_equal(again.points_xy, found.points_xy)


@pytest.mark.parametrize(
    ("name", "nuclei", "first"),
    [("lymphocytes", 498, [12248, 86646]), ("monocytes", 623, [9746.66602, 87487.8594]),
     ("inflammatory-cells", 1121, [12248, 86646])],
)  # fmt: skip
def test_the_reference_of_monkey_is_read(shared_data, name, nuclei, first):
    path = shared_data / f"monkey/ground_truth/A_P000001_{name}.json"
    for options in ({"file_class": 2}, {"classes": ["cell"], "ids": {"cell": 1}}):
        found = read_real(path, "points_json", **options)
        assert len(found) == nuclei
        assert found.points_xy[0].tolist() == first
        assert set(found.class_id.tolist()) == {options.get("file_class", 1)}


def test_points_of_midog_in_millimetres_are_read(shared_data):
    path = shared_data / "midog/output/mitotic-figures.json"
    found = read_real(path, "points_json", units="mm", spacing_um=0.25, classes=["mitosis"], ids={"mitosis": 1})
    assert found.points_xy.tolist() == pytest.approx(
        np.array([[0.14647372756903898, 0.1580733550628604], [0.11008273935312868, 0.03707331924495862]]) * 4000
    )


def test_nan_of_python_is_no_json(shared_data):
    data = (shared_data / "cellvit/vit256_fold1_results.json").read_bytes()
    assert line_of(parse, data).startswith("[not-json] ")
