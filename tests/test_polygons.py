"""Polygons of a single ring become arrays; every other text is left to the parser of all JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.decoding.polygons import VERTICES, decode_polygons, vertices_of

NUMBERS = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)
RINGS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20)


def feature(coordinates: object, **keys: object) -> dict[str, object]:
    return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": coordinates}, **keys}


@given(st.lists(RINGS, min_size=1, max_size=5), st.sampled_from([None, (",", ":"), (" , ", " : ")]), st.booleans())
def test_the_numbers_are_those_of_the_json_parser_of_python(rings, separators, indented):
    features = [feature([ring], id=f"n{index}", properties={"a": [index]}) for index, ring in enumerate(rings)]
    found = decode_polygons(json.dumps(features, separators=separators, indent=1 if indented else None).encode())
    assert found is not None
    assert [one["id"] for one in found] == [f"n{index}" for index in range(len(rings))]
    assert [one["properties"] for one in found] == [{"a": [index]} for index in range(len(rings))]
    for one, ring in zip(found, rings, strict=True):
        np.testing.assert_array_equal(one["geometry"]["coordinates"].points_xy, np.array(ring, float).reshape(-1, 2))


@pytest.mark.parametrize(
    "coordinates",
    [
        "[]", "[[]]", "[[[]]]", "[[[1]]]", "[[[1,2,3],[4]]]", "[[[1,2],[3]]]", "[[[1,2,3]]]", "[[1,2],[3,4]]", "[1,2]",
        "[[[1,2]],[[3,4]]]", "[[[[1,2]]]]", "[[[1,true]]]", "[[[1,null]]]", '[[[1,"2"]]]', "[[[1 2]]]", "[[[1,2],]]",
        "[[[1,2] [3,4]]]", "[[[1,1e999]]]", "[[[1,NaN]]]", "null", "7", '"[[[1,2]]]"', "{}",
    ],
)  # fmt: skip
def test_everything_else_is_left_to_the_other_parser(coordinates):
    good = json.dumps(feature([[[1, 2], [3, 4]]]))
    bad = good.replace("[[[1, 2], [3, 4]]]", coordinates)
    assert decode_polygons(f"[{good}]".encode()) is not None
    assert decode_polygons(f"[{good},{bad}]".encode()) is None


@pytest.mark.parametrize(
    "keys",
    [
        {"nucleusGeometry": {"type": "Polygon", "coordinates": []}},
        {"geometry": {"type": "MultiPolygon", "coordinates": [[[[1, 2]]]]}},
        {"geometry": None},
        {"type": "feature"},
        {"properties": []},
        {"id": {}},
    ],
)
def test_features_of_another_kind_are_left_to_the_other_parser(keys):
    assert decode_polygons(json.dumps([feature([[[1, 2]]]) | keys]).encode()) is None


def test_rings_longer_than_the_prepared_pattern_are_read():
    vertices = len(VERTICES) // 4 + 5
    assert vertices_of(b"[[" + b",".join([b"[,]"] * vertices) + b"]]") == vertices
    assert vertices_of(b"[[" + b",".join([b"[,]"] * vertices + [b"[,,]"]) + b"]]") == 0
