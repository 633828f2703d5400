"""Features of GeoJSON that are decoded all at once are read as those that are looked at one by one."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import nullcontext
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from formats import faults_of, read, read_part
from formats.json_outlines import AROUND, GEOJSON, OTHER, TABLE, collection, of_type, shape
from hypothesis import given
from hypothesis import strategies as st

import evaluation.files.decoding.json as bounded_json
from evaluation.challenge import LimitRules
from evaluation.files.decoding.json import read_records
from evaluation.files.formats import geojson
from evaluation.files.formats.annotation_lists import NucleusLists
from evaluation.findings.errors import InputFault

READ_AS = {**TABLE.options, **GEOJSON}

NUMBERS = ["1", "2.5", "-3", "1e2", "0", "-0.0", "1234567890123456789012345e-20", "1.5E+1", "123.456789012345678", "9"]
ODD_POSITIONS = [
    "[1, 2, 3]", "[1]", "[]", "[1 2]", "[1, ]2", "1[, 2]", "[1, NaN]", "[true, 2]", "[01, 2]", "[1, 2e9]", "[1, 2.]",
    "null", '"coordinates"', "[[1, 2]]", "[1, 2] ", " [ 1 , 2 ]", "[1,\n 2\n]", "[-, 2]", "[1e999, 2]", "[1:, 2]",
    "[1, 2]3", "3[1, 2]", "[1, 2], ", "[1, 2}", "[\v1, 2]", "[1, \x002]", "[1234567890123456789012, 2]", "[.1, 2]",
]  # fmt: skip
VALUES = [
    "1", "0.25", "null", "NaN", "-Infinity", '"a: b"', '"\\u00b5"', '"coordinates"', "{}", "[]", "[200, 0, 0]", "true",
    '{"a": 1, "a": 2}', '{"a" :1, "b": {"c": 1}}', '"\\ud800"', "[[[[1]]]]", "123456789012345678901", "1e999", "2",
    '{"\\u0063oordinates": 1}', '{"coordinates": [[[1, 2]]]}', '"}, {\\"type\\": "', '{"Probability": 0.5}', '"\xe9"',
    '{"score": 0.5, "Area: mm^2": NaN}', '[{"name": "Probability", "value": 0.75}]', "[[[[[[[[[[[[1]]]]]]]]]]]]",
    '{"Epithelial": 0.5, "Lymphocyte": 0.5}', '":1"', '"\t"', '{"a": [1, {"b": 1, "b": 1}]}',
]  # fmt: skip
KEYS = [
    "objectType", "isLocked", "name", "color", "measurements", "measurements", "probability", "class_probabilities",
    "type", "x", "coordinates", "score", "a b", "childObjects", "cl\\u0061ss", "classification", "NaN",
]  # fmt: skip
EXTRA = [
    '"id": "n1"', '"id": 7', '"id": null', '"bbox": [1, 2]', '"type": "Feature"', '"id": ""', '"nucleusGeometry": null',
]  # fmt: skip
CLASSIFICATIONS = [
    '{"name": "Epithelial"}', '{"name": "epi", "color": [1, 2, 3]}', '{"name": "lymphocyte"}', '{"name": "Other"}',
    '"epi"',
    '{"name": "skip"}', '{"name": ""}', '{"names": ["epi"], "name": "x"}', "null", "{}", '{"name": 1}',
    '{"name": ["epi"]}',
]  # fmt: skip


class Writer:
    """Documents that are mostly plain; ``oddity`` is the share of what is not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.oddity = self.random.choice([0, 0, 0.002, 0.02, 0.1])
        self.comma = self.random.choice([", ", ",", " ,\n  "])
        self.colon = self.random.choice([": ", ":", ":", " : "])

    def is_odd(self) -> bool:
        return self.random.random() < self.oddity

    def listed(self, items: list[str]) -> str:
        return f"[{self.comma.join(items)}]"

    def keyed(self, **items: str) -> str:
        pairs = [f'"{key}"{self.colon}{value}' for key, value in items.items()]
        if self.is_odd():
            self.random.shuffle(pairs)
        return "{" + self.comma.join(pairs) + "}"

    def position(self) -> str:
        return self.random.choice(ODD_POSITIONS) if self.is_odd() else self.listed(self.random.choices(NUMBERS, k=2))

    def ring(self) -> str:
        positions = [self.position() for _ in range(0 if self.is_odd() else self.random.randint(1, 5))]
        return self.listed(positions + positions[: self.random.choice([0, 1, 1])])

    def polygon(self) -> str:
        return self.listed([self.ring() for _ in range(0 if self.is_odd() else self.random.choice([1, 1, 1, 2, 3]))])

    def feature(self) -> str:
        kind, coordinates = "Polygon", self.polygon()
        if self.random.random() < 0.2:
            kind = "MultiPolygon"
            count = 0 if self.is_odd() else self.random.choice([1, 2, 12])
            coordinates = self.listed([self.polygon() for _ in range(count)])
        if self.is_odd():
            kind = self.random.choice(["Polygon", "MultiPolygon", "Point", "LineString", "GeometryCollection"])
        said = {"classification": self.random.choice(CLASSIFICATIONS[: 12 if self.is_odd() else 3])}
        while self.random.random() < 0.2 + self.oddity:
            plain = {"objectType": '"annotation"', "isLocked": "false", "measurements": '{"Area": 1, "a: b": 2.5}'}
            key = self.random.choice(KEYS if self.is_odd() else list(plain))
            said[key] = self.random.choice(VALUES) if self.is_odd() else plain.get(key, "1")
        keys = {"type": '"Feature"', "id": json.dumps(f"n{self.random.random()}")}
        keys |= {"geometry": self.keyed(type=f'"{kind}"', coordinates=coordinates), "properties": self.keyed(**said)}
        text = self.keyed(**keys)
        return f"{text[:-1]}{self.comma}{self.random.choice(EXTRA)}}}" if self.is_odd() else text

    def document(self) -> bytes:
        records = self.listed([self.feature() for _ in range(self.random.randint(0, 8))])
        text = self.random.choice([records, self.keyed(type='"FeatureCollection"', features=records)])
        if self.random.random() < 0.1:
            text = self.keyed(type='"FeatureCollection"', name='"a"', features=records, crs='{"x": [1]}')
        for _ in range(self.random.choice([0, 0, 0, 1, 2])):
            at = self.random.randrange(len(text))
            inserted = self.random.choice(["", "", "[", "]", "}", ",", '"', "1", "\\", " ", "\x00"])
            text = text[:at] + inserted + text[at + self.random.choice([0, 1]) :]
        return text.encode("latin-1" if self.is_odd() else "utf-8")


def told(data: bytes, **options: Any) -> Any:
    try:
        found = read(data, **{**READ_AS, "skipped": ["skip"], **options})
    except InputFault as fault:
        return [str(finding) for finding in fault.findings]
    (part,) = found.parts
    columns = {name: getattr(part, name) for name in part.__dataclass_fields__}
    return {name: None if value is None else (value.dtype, value.tolist()) for name, value in columns.items()} | {
        "notes": [str(finding) for finding in found.findings]
    }


def told_one_by_one(data: bytes, **options: Any) -> Any:
    with mock.patch.object(geojson, "_decode_features", lambda _: None):
        return told(data, **options)


OPTIONS: list[dict[str, Any]] = [
    {}, {}, {"parts": "apart"}, {"parts": "together"}, {"other_shapes": "skip"}, {"classes": {}},
    {"file_class": 2},
    {"limits": {"json_depth": 9}}, {"limits": {"json_depth": 7}}, {"limits": {"instances_per_case": 4}},
    {"shape": "point"},
    {"limits": {"vertices_per_file": 20}},
]  # fmt: skip


def assert_same(seed: int, piece_bytes: int) -> bool:
    """Whether a document was accepted, which both ways read alike."""
    data = Writer(seed).document()
    options = OPTIONS[seed % len(OPTIONS)]
    with mock.patch.object(bounded_json, "BATCH_BYTES", piece_bytes):
        fast, slow = told(data, **options), told_one_by_one(data, **options)
    assert fast == slow, (seed, data)
    return isinstance(fast, dict)


@pytest.mark.parametrize("piece_bytes", [1, 300, 1 << 18])
def test_results_and_findings_are_those_of_the_other_way(piece_bytes):
    accepted = [assert_same(seed, piece_bytes) for seed in range(piece_bytes, piece_bytes + 80)]
    assert 0.2 < np.mean(accepted) < 0.9


def features_of(data: bytes) -> list[Any]:
    features: list[Any] = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["features"]
    return features


PUMA = ["primary_roi_101", "primary_roi_102", "metastatic_roi_102", "metastatic_roi_029"]


@pytest.mark.parametrize("name", PUMA)
@pytest.mark.parametrize("options", [{}, {"parts": "apart"}, {"other_shapes": "skip"}])
def test_real_files_are_read_alike_and_by_columns(shared_data, name, options):
    (path,) = (shared_data / "puma/reference").glob(f"*{name}*")
    data = path.read_bytes()
    names = sorted({feature["properties"]["classification"]["name"] for feature in features_of(data)})
    options = {"classes": {name: number for number, name in enumerate(names, start=1)}, **options}
    spy = mock.patch.object(NucleusLists, "settle", autospec=True, side_effect=NucleusLists.settle)
    with mock.patch.object(bounded_json, "BATCH_BYTES", 20_000), spy as settle:
        fast = told(data, **options)
    assert fast == told_one_by_one(data, **options)
    assert isinstance(fast, dict)
    assert options.get("parts") == "apart" or not settle.called


def test_text_that_is_not_utf_8_is_told_in_files_of_any_length():
    one = PLAIN.replace('"properties":{}', '"properties":{"a":"%s"}').encode()
    for at in (0, 3, 2000):
        data = b"[" + b",".join(one % (b"\xe9" if number == at else b"x") for number in range(at + 3)) + b"]"
        (finding,) = told(data)
        assert finding.startswith("[not-json]")


# --- what is left to the parser of all JSON ---------------------------------------------------------------------------

PLAIN = '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,2],[3,4]]]},"properties":{}}'
OTHER_COORDINATES = [
    "[]", "[[]]", "[[[]]]", "[[[1]]]", "[[[1,2,3],[4]]]", "[[[1,2],[3]]]", "[[[1,2,3]]]", "[[1,2],[3,4]]", "[1,2]",
    "[[[[1,2]]]]", "[[[1,true]]]", "[[[1,null]]]", '[[[1,"2"]]]', "[[[1 2]]]", "[[[1,2],]]", "[[[1,2],[]],[[1,2]]]",
    "[[[1,2] [3,4]]]", "[[[1,1e999]]]", "[[[1,NaN]]]", "null", "7", '"[[[1,2]]]"', "{}", "[[[1,2]],[]]",
    "[[[1,2]]]]",
    "[[[1,]2]]", "[[1[,2]]]", "[[[1,]2,[3,4]]]", "[[[1,] 2,[3,4]]]", "[[[1,2],3[,4]]]", "[[[1,2],3 [,4]]]",
    "1[[[,2]]]",
    "[[[1,2]]]5", "[[[1,2],[3,4]5]]", "[[[1,2]],[3,4]]", "[[[1,-]]]", "[[[1,.5]]]", "[[[1,5.]]]", "[[[1,05]]]",
    "[[[1,+5]]]", "[[[1,\v2]]]", "[[[1:,2]]]", ":[[[1,2]]]", '[[[1,2]]],"coordinates":[[[1,2]]]',
]  # fmt: skip
OTHER_KEYS: list[dict[str, Any]] = [
    {"nucleusGeometry": {"type": "Polygon", "coordinates": []}},
    {"geometry": {"type": "Point", "coordinates": [1, 2]}},
    {"geometry": None},
    {"type": "feature"},
    {"properties": []},
    {"properties": {"coordinates": [[[1, 2]]]}},
    {"properties": {"childObjects": [{"type": "Feature", "properties": {"a": {}}}]}},
    {"properties": {"a": {"b": {"c": 1}}}},
    {"id": {}},
    {"id": 1 << 64},
]
OTHER_TEXTS = [
    *(PLAIN.replace("[[[1,2],[3,4]]]", coordinates) for coordinates in OTHER_COORDINATES),
    *(json.dumps(json.loads(PLAIN) | keys) for keys in OTHER_KEYS),
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
]


def decoded(texts: list[str]) -> Any:
    return geojson._decode_features(f"[{','.join(texts)}]".encode())


def test_features_of_another_kind_are_left_to_the_other_parser():
    assert decoded([PLAIN]) is not None
    for text in OTHER_TEXTS:
        for texts in ([text], [PLAIN, text], [text, PLAIN], [PLAIN, text, PLAIN]):
            assert decoded(texts) is None, texts
            data = f'{{"type": "FeatureCollection", "features": [{",".join(texts)}]}}'.encode()
            assert told(data) == told_one_by_one(data), texts


def test_coordinates_that_are_whole_only_together_are_left_to_the_other_parser():
    for texts in (
        ("[[[1", "2]]]", '[[[1,2]]],"x":[[[3,4]]]'), ("[[[1,2]]],[[[3,4]]]", "[[[1,2]]]"), ("[[[1,2]]", "][[[1,2]]]"),
    ):  # fmt: skip
        assert decoded([PLAIN.replace("[[[1,2],[3,4]]]", text) for text in texts]) is None


NUMBER = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=8), min_size=1, max_size=5), st.booleans())
def test_numbers_are_those_of_the_json_parser_of_python(rings, is_dense):
    separators = (",", ":") if is_dense else (", ", ": ")
    texts = [PLAIN.replace("[[[1,2],[3,4]]]", json.dumps([ring], separators=separators)) for ring in rings]
    _, found = decoded(texts)
    assert found.points_xy.tolist() == [[float(x), float(y)] for ring in rings for x, y in ring]


# --- depth ------------------------------------------------------------------------------------------------------------


def test_nesting_is_bounded_in_the_list_and_around_it():
    deep = "[" * 9 + "]" * 9
    for text in (f'{{"nuclei": [{{"id": {deep}}}]}}', f'{{"x": {deep}, "nuclei": [{{"id": 1}}]}}'):
        for depth in (10, 11, 12):
            limits = LimitRules(json_depth=depth)
            is_fine = depth >= (12 if text.startswith('{"nuclei"') else 10)
            with nullcontext() if is_fine else pytest.raises(InputFault, match="too-deep"):
                records = read_records(io.BytesIO(text.encode()), key="nuclei", where="'a'", limits=limits)
                assert sum(map(len, records.pieces or ())) == 1


# --- regions ----------------------------------------------------------------------------------------------------------


def test_detections_in_too_many_annotations_are_refused_before_time_is_lost(monkeypatch):
    content = collection(*[of_type("annotation", AROUND)] * 4, *[of_type("detection", shape(OTHER))] * 5)
    monkeypatch.setattr(geojson, "MOST_INSIDE", 20)
    assert len(read_part(content, **READ_AS)) == 5
    monkeypatch.setattr(geojson, "MOST_INSIDE", 19)
    assert "more than 19 pairs of an annotation and a detection inside it" in str(faults_of(content, **READ_AS)[0])
