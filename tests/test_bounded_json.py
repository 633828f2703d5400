"""JSON from strangers, whole and piece by piece. The oracle is the standard library's parser."""

from __future__ import annotations

import gc
import gzip
import io
import json
from typing import Any
from unittest import mock

import orjson
import pytest
from endless import memory_below, not_endless
from formats import faults_of
from hypothesis import example, given
from hypothesis import strategies as st

from evaluation.challenge import LimitRules
from evaluation.files.decoding import json as bounded_json
from evaluation.files.decoding.json import read_json, read_records
from evaluation.findings.errors import InputFault


def parse(data: bytes | str, **limits) -> Any:
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return read_json(stream, where="'nuclei.json'", limits=LimitRules(**limits))


def records_of(data: bytes, *, key: str = "nuclei", piece_bytes: int = 1 << 20, **limits) -> tuple[Any, Any]:
    """The value of a file without its records, and the records; with pieces of another size."""
    with mock.patch.object(bounded_json, "BATCH_BYTES", piece_bytes):
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


@pytest.mark.parametrize("data, value", [
    (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    (gzip.compress(b"[1]", mtime=0) + gzip.compress(b" ", mtime=0), [1]),
    (gzip.compress(b"\xef\xbb\xbf[1]", mtime=0), [1]),
    (b"123456789012345678901234567890", 123456789012345678901234567890.0),
    (b"1e-999", 0.0),
    (b'"\\u0000\\ud83d\\ude00"', "\0\N{GRINNING FACE}"),
])  # fmt: skip
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


@example({'"nuclei': [1, [2], 3], "nuclei": [[4], [5]]}, None, True, 1)
@given(FILES, st.sampled_from([None, 0, 3]), st.booleans(), st.integers(1, 40))
def test_pieces_hold_the_records_of_the_file(value, indent, ascii, piece_bytes):
    data = json.dumps(value, indent=indent, ensure_ascii=ascii).encode()
    root, records = records_of(data, piece_bytes=piece_bytes)
    if isinstance(value, dict):
        assert (root | {"nuclei": records}, list(root)) == (value, list(value))
    else:
        assert (root, records) == ([], value)


@given(FILES, st.integers(1, 40), st.data())
def test_a_file_is_refused_in_pieces_exactly_if_it_is_refused_as_a_whole(value, piece_bytes, draw):
    data = json.dumps(value).encode()
    place = draw.draw(st.integers(0, len(data)))
    token = draw.draw(st.sampled_from([b"", b",", b"[", b"]", b'"', b"\\", b"0", b"{", b"}", b"NaN", b"\n"]))
    data = data[:place] + token + data[place + draw.draw(st.integers(0, 2)) :]
    how = {"piece_bytes": piece_bytes, "json_depth": 500}
    try:
        whole = orjson.loads(data)
        codes = ("[duplicate-key]",) if has_key_twice(data) else ()
    except orjson.JSONDecodeError:
        codes = ("[not-json]", "[duplicate-key]")
    if codes:
        assert line_of(records_of, data, **how).startswith(codes)
        return
    root, records = records_of(data, **how)
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


@example('[{"a":{"a":1}},{"a":1,"b":{"b":2},"a":3}]')
@example('[{"0123456-------0123456":1,"0123456=======0123456":1}]')
@given(ANY_KEYS)
def test_a_key_that_an_object_has_twice_is_found_as_the_standard_library_finds_it(text):
    if has_key_twice(text):
        assert line_of(parse, text, json_depth=500).startswith("[duplicate-key]")
    else:
        assert parse(text, json_depth=500) == json.loads(text)


@pytest.mark.parametrize("format, around, nucleus", [
    ("geojson", '{"type":"FeatureCollection","features":[%s]}',
     '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,1],[9,1],[9,8],[1,1]]]},%s'
     '"properties":{"classification":{"name":"epi"}}}'),
    ("polygons_json", '{"polygons":[%s]}', '{"path_points":[[1,1,0.5],[9,1,0.5],[9,8,0.5]],%s"name":"epi"}'),
    ("points_json", '{"points":[%s]}', '{"point":[1,1,0.5],%s"name":"epi"}'),
])  # fmt: skip
def test_a_key_twice_is_named_wherever_the_nucleus_stands_in_a_long_file(format, around, nucleus):
    nuclei = [nucleus % ""] * 10_000
    nuclei[100] = nucleus % '"x":1,"x":1,'
    shape = {"shape": "outline"} if format == "geojson" else {}
    (fault,) = faults_of(around % ",".join(nuclei), format=format, classes={"epi": 1}, **shape)
    assert (fault.code, fault.got) == ("duplicate-key", "an object with the key 'x' twice")


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
        small = json.dumps({"nuclei": [{"x": [1] * 100}] * 50}).encode()
        assert len(records_of(small, piece_bytes=200)[1]) == 50
        too_large = {"nuclei": [{"x": [1] * 1000}]}, {"a": [1] * 1000, "nuclei": []}, {"nuclei": [], "a": "a" * 1000}
        for large in too_large:
            line = line_of(records_of, json.dumps(large).encode(), piece_bytes=200)
            assert line.startswith("[too-large] 'nuclei.json': ")
            assert "bytes without a list of annotations, or in a single annotation; expected at most 1,000 " in line
        assert "[too-large]" in line_of(parse, b"[" + b"1," * 500 + b"1]")


@pytest.mark.parametrize("record", ["1", "{}", '"x"', "[[]]"])
def test_many_short_records_take_little_memory(record):
    data = f'{{"nuclei": [{",".join([record] * 300_000)}]}}'.encode()
    with mock.patch.multiple(bounded_json, PART_BYTES=1000, MOST_RECORDS=1000), memory_below(4 * len(data) + 1_000_000):
        line = line_of(read_records, io.BytesIO(data), key="nuclei", where="'nuclei.json'", limits=LimitRules())
    assert line.startswith("[too-large] 'nuclei.json': ")
    assert ("more than 1,000 annotations; expected at most 1,000. Split the file." in line) == (record == "{}")
    assert len(records_of(b"[" + b"{}," * 999 + b"{}]")[1]) == 1000


def test_nan_of_python_is_no_json(shared_data):
    data = (shared_data / "cellvit/vit256_fold1_results.json").read_bytes()
    assert line_of(parse, data).startswith("[not-json] ")
