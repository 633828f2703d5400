"""Polygons of GeoJSON become arrays; every other text is left to the parser of all JSON."""

from __future__ import annotations

import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.decoding.polygons import decode_polygons

NUMBERS = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)
RINGS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8)
POLYGONS = st.lists(RINGS, min_size=1, max_size=3)
GEOMETRIES = POLYGONS.map(lambda rings: ("Polygon", rings)) | st.lists(POLYGONS, min_size=1, max_size=3).map(
    lambda parts: ("MultiPolygon", parts)
)


def feature(coordinates: object, kind: str = "Polygon", **keys: object) -> dict[str, object]:
    return {"type": "Feature", "geometry": {"type": kind, "coordinates": coordinates}, **keys}


@settings(max_examples=20)
@given(
    st.lists(GEOMETRIES, min_size=1, max_size=5),
    st.sampled_from([None, (",", ":"), (" , ", ": ")]),
    st.booleans(),
    st.booleans(),
)
def test_the_numbers_are_those_of_the_json_parser_of_python(geometries, separators, indented, is_sorted):
    features = [
        feature(coordinates, kind, id=f"n{index}", properties={"a": [index]})
        for index, (kind, coordinates) in enumerate(geometries)
    ]
    text = json.dumps(features, separators=separators, indent=1 if indented else None, sort_keys=is_sorted)
    found = decode_polygons(text[1:-1].encode())
    assert found is not None
    assert [one.id for one in found.features] == [f"n{index}" for index in range(len(geometries))]
    assert [one.properties for one in found.features] == [{"a": [index]} for index in range(len(geometries))]
    parts = [[coordinates] if kind == "Polygon" else coordinates for kind, coordinates in geometries]
    rings = [
        (index, ring, number > 0) for index, of in enumerate(parts) for part in of for number, ring in enumerate(part)
    ]
    assert found.feature.tolist() == [index for index, _, _ in rings]
    assert found.is_hole.tolist() == [is_hole for _, _, is_hole in rings]
    assert found.size.tolist() == [len(ring) for _, ring, _ in rings]
    assert found.parts == max(map(len, parts))
    expected = np.array(list(chain.from_iterable(ring for _, ring, _ in rings)), float)
    np.testing.assert_array_equal(found.points_xy, expected)


@pytest.mark.parametrize(
    "coordinates",
    [
        "[]", "[[]]", "[[[]]]", "[[[1]]]", "[[[1,2,3],[4]]]", "[[[1,2],[3]]]", "[[[1,2,3]]]", "[[1,2],[3,4]]", "[1,2]",
        "[[[[1,2]]]]", "[[[1,true]]]", "[[[1,null]]]", '[[[1,"2"]]]', "[[[1 2]]]", "[[[1,2],]]", "[[[1,2],[]],[[1,2]]]",
        "[[[1,2] [3,4]]]", "[[[1,1e999]]]", "[[[1,NaN]]]", "null", "7", '"[[[1,2]]]"', "{}", "[[[1,2]],[]]",
        "[[[1,2]]]]",
        "[[[1,]2]]", "[[1[,2]]]", "[[[1,]2,[3,4]]]", "[[[1,] 2,[3,4]]]", "[[[1,2],3[,4]]]", "[[[1,2],3 [,4]]]",
        "1[[[,2]]]",
        "[[[1,2]]]5", "[[[1,2],[3,4]5]]", "[[[1,2]],[3,4]]", "[[[1,-]]]", "[[[1,.5]]]", "[[[1,5.]]]", "[[[1,05]]]",
        "[[[1,+5]]]", "[[[1,\v2]]]", "[[[1:,2]]]", ":[[[1,2]]]", '[[[1,2]]],"coordinates":[[[1,2]]]',
    ],
)  # fmt: skip
def test_everything_else_is_left_to_the_other_parser(coordinates):
    good = json.dumps(feature([[[1, 2], [3, 4]]]))
    bad = good.replace("[[[1, 2], [3, 4]]]", coordinates)
    assert decode_polygons(good.encode()) is not None
    for texts in ([good, bad], [bad, good], [good, bad, good]):
        assert decode_polygons(",".join(texts).encode()) is None


@pytest.mark.parametrize(
    "texts",
    [["[[[1", "2]]]", '[[[1,2]]],"x":[[[3,4]]]'], ["[[[1,2]]],[[[3,4]]]", "[[[1,2]]]"], ["[[[1,2]]", "][[[1,2]]]"]],
)
def test_coordinates_that_are_whole_only_together_are_left_to_the_other_parser(texts):
    features = [json.dumps(feature(0)).replace('"coordinates": 0', f'"coordinates": {text}') for text in texts]
    assert decode_polygons(",".join(features).encode()) is None


@pytest.mark.parametrize(
    "keys",
    [
        {"nucleusGeometry": {"type": "Polygon", "coordinates": []}},
        {"geometry": {"type": "Point", "coordinates": [1, 2]}},
        {"geometry": None},
        {"type": "feature"},
        {"properties": []},
        {"properties": {"coordinates": [[[1, 2]]]}},
        {"properties": {"x": "coordinates"}},
        {"properties": {"childObjects": [{"type": "Feature", "properties": {"a": {}}}]}},
        {"properties": {"a": {"b": {"c": 1}}}},
        {"id": {}},
        {"id": 1 << 64},
    ],
)
def test_features_of_another_kind_are_left_to_the_other_parser(keys):
    assert decode_polygons(json.dumps(feature([[[1, 2]]]) | keys).encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates" :0},"properties":{"coordinates":[[[1,2]]]}}',
        '{"type":"Feature","geometry":{"type":"Polygon","\\u0063oordinates":0},"properties":{"coordinates":[[[1,2]]]}}',
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]],"coordinates":[[[3,4]]]}}',
        '{"type":"Feature","type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]]}}',
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]]},"properties":{"a":1,"a" :1,"b":2}}',
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]]},"properties":{"a":1,"\\u0061":1}}',
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]]},"id":null,"id":null}',
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]]}}]',
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]',
        '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2]]],"type":"Polygon"}}',
        "",
    ],
)
def test_keys_that_stand_elsewhere_or_twice_are_left_to_the_other_parser(text):
    assert decode_polygons(text.encode()) is None


def test_numbers_that_are_none_are_null_where_the_caller_says_so():
    text = json.dumps(feature([[[1, 2]]], properties={"measurements": {"a": float("nan")}})).encode()
    assert decode_polygons(text) is None
    found = decode_polygons(text, lambda rest: rest.replace(b"NaN", b"null"))
    assert found is not None
    assert found.features[0].properties == {"measurements": {"a": None}}
    np.testing.assert_array_equal(found.points_xy, [[1, 2]])
