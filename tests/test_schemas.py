"""The schemas of what is submitted: what a model accepts its reader accepts, and the other way round."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evaluation.challenge import Challenge, LimitRules, format_rules
from evaluation.challenge.formats import FormatRules
from evaluation.commands.look import SUBMITTED
from evaluation.commands.main import run
from evaluation.files.formats import format_of
from evaluation.files.formats.format import Request
from evaluation.files.schemas import MODELS, json_schema, model_of
from evaluation.findings.errors import InputFault
from nuclei_metrics.model import Case, ClassTable

CASE = Case("a", "a", 100, 120, 0.25, 0)
OUTLINES = {"vertices": "exact", "vanished": "drop", "origin": "pixel_corner"}
SQUARE = [[1, 1], [9, 1], [9, 9.5], [1, 9]]
NAMES = st.sampled_from(["x", "y", None])
PROBABILITIES = st.one_of(st.none(), st.sampled_from([0, 0.5, 1]))
JUNK = st.sampled_from([None, True, -1e12, 0.5, "x", [], [1], [[1, 2]], {"a": 1}, {}])


def ring(draw: Any) -> list[Any]:
    return draw(st.lists(st.sampled_from([[1, 2], [3, 4.5, 0.5], [10, 20, 30, 40]]), min_size=1, max_size=4))


@st.composite
def records(draw: Any, record: Any) -> list[Any]:
    return [record(draw) for _ in range(draw(st.integers(0, 3)))]


def known(**keys: Any) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}


def polygon(draw: Any) -> dict[str, Any]:
    return known(path_points=ring(draw), name=draw(NAMES), probability=draw(PROBABILITIES), sub_type="")


def point(draw: Any) -> dict[str, Any]:
    return known(point=[1, 2.5, 0.5], name=draw(NAMES), probability=draw(PROBABILITIES))


def outline(draw: Any) -> dict[str, Any]:
    rings = [ring(draw) for _ in range(draw(st.integers(1, 2)))]
    polygon = {"type": "Polygon", "coordinates": rings}
    several = {"type": "MultiPolygon", "coordinates": [rings, [SQUARE]]}
    return draw(st.sampled_from([polygon, several, {"type": "GeometryCollection", "geometries": [polygon, several]}]))


def place(draw: Any) -> dict[str, Any]:
    several = {"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}
    return draw(st.sampled_from([{"type": "Point", "coordinates": [1, 2.5]}, several]))


def feature(draw: Any, geometry: Any) -> dict[str, Any]:
    classified = draw(st.sampled_from([{"classification": "x"}, {"classification": {"name": "y"}}, {}]))
    properties = {**classified, **known(probability=draw(PROBABILITIES))}
    return {"type": "Feature", "geometry": geometry(draw), "properties": properties}


def result(draw: Any) -> dict[str, Any]:
    codes = [{"size": [100, 120], "counts": [5, 3, 11992]}, [[1, 1, 9, 1, 9, 9]], [[1, 1, 9, 1], [2, 2, 4, 4, 2, 4]]]
    return known(
        image_id=7, segmentation=draw(st.sampled_from(codes)), category_id=draw(st.sampled_from([1, 2, "1", None])),
        score=draw(PROBABILITIES),
    )  # fmt: skip


def boxed(draw: Any) -> dict[str, Any]:
    box = draw(st.sampled_from([[1, 2, 9, 9.5], [3, 3, 3, 3]] * 9 + [[9, 9, 1, 1]]))
    return known(image_id=7, bbox=box, category_id=draw(st.sampled_from([1, 2, None])), score=draw(PROBABILITIES))


def cell(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from([1, 2, "x", None]))
    return known(contour=ring(draw), type=kind, type_prob=draw(PROBABILITIES), centroid=[1, 2])


def shape(draw: Any) -> dict[str, Any]:
    return known(points=ring(draw), label=draw(NAMES), shape_type=draw(st.sampled_from(["polygon", None])))


FILES: dict[str, tuple[dict[str, Any], Any]] = {
    "polygons_json": ({"format": "polygons_json", "units": "px", **OUTLINES}, records(polygon).map(
        lambda items: {"type": "Multiple polygons", "polygons": items})),
    "points_json": ({"format": "points_json", "units": "px", "origin": "pixel_corner"}, records(point).map(
        lambda items: {"type": "Multiple points", "points": items})),
    "geojson": ({"format": "geojson", "shape": "outline", **OUTLINES}, records(lambda draw: feature(draw, outline)).map(
        lambda items: {"type": "FeatureCollection", "features": items})),
    "geojson_points": ({"format": "geojson", "shape": "point", "origin": "pixel_corner"},
                       records(lambda draw: feature(draw, place)).map(lambda items: {"features": items})),
    "coco_json": ({"format": "coco_json", "class_values": {"x": 1, "y": 2}, **OUTLINES}, records(result)),
    "midog_json": ({"format": "midog_json", "class_values": {"x": 1, "y": 2}, "origin": "pixel_corner"},
                   records(boxed).map(lambda items: {"annotations": items})),
    "hovernet_json": ({"format": "contours_json", "tool": "hovernet", "shape": "outline", **OUTLINES,
                       "class_values": {"x": 1, "y": 2}},
                      records(cell).map(lambda cells: {"nuc": {str(key): each for key, each in enumerate(cells)}})),
    "cellvit_json": ({"format": "contours_json", "tool": "cellvit", "shape": "outline", **OUTLINES,
                      "class_values": {"x": 1, "y": 2}}, records(cell).map(lambda cells: {"cells": cells})),
    "labelme_json": ({"format": "contours_json", "tool": "labelme", "shape": "outline", **OUTLINES},
                     records(shape).map(lambda shapes: {"shapes": shapes})),
}  # fmt: skip


def places_in(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a document but its root, ids of images, and the numbers of run-length codes: whether these fit a
    case is for the reader to say.
    """
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    found = [place for key, value in items for place in ((*path, key), *places_in(value, (*path, key)))]
    return [place for place in found if not {"image_id", "counts", "size"} & set(place)]


@st.composite
def changed(draw: Any, documents: Any) -> Any:
    """A valid document, or one of which a value was removed or replaced."""
    document = copy.deepcopy(draw(documents))
    places = places_in(document)
    if not places or draw(st.booleans()):
        return document
    *path, last = draw(st.sampled_from(places))
    node = document
    for key in path:
        node = node[key]
    if draw(st.booleans()):
        del node[last]
    else:
        node[last] = draw(JUNK)
    return document


# Tables: the texts of cells by column, and what else a cell may hold. Names of cases and classes, and whether a code
# fits an image, are for the reader.
PLACES_IN_PX = st.sampled_from(["", "1", "2.5", "-3e1", "+4"])
VERTICES = st.sampled_from(["1,9,9"] * 6 + ["", "5"])
CELL_JUNK = st.sampled_from(["", "x", "nan", "1_000", "-1", "2e9", "0.5", "1 2 3", "1,2", "7"])
TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "points_csv": ({"format": "points_csv", "units": "px", "origin": "pixel_corner"},
                   {"case": st.just("a"), "x": PLACES_IN_PX, "y": PLACES_IN_PX,
                    "probability": st.sampled_from(["", "1"])}),
    "nucls_csv": ({"format": "nucls_csv", "class_column": "main_classification", **OUTLINES},
                  {"type": st.sampled_from(["rectangle", "Polyline"]), "coords_x": VERTICES,
                   "coords_y": VERTICES, **dict.fromkeys(("xmin", "ymin"), st.just("1")),
                   **dict.fromkeys(("xmax", "ymax"), st.just("9")), "probability": st.sampled_from(["0.5"] * 7 + [""]),
                   "main_classification": st.just("x")}),
    "rle_csv": ({"format": "rle_csv", "files": "all.csv", "pixel_order": "row", "first_pixel": 0},
                {"image_id": st.just("a"), "rle": st.sampled_from(["0 5 9 2", "", "7 1 ", "1 2"]),
                 "probability": st.sampled_from(["", "0"])}),
    "counts_csv": ({"format": "counts_csv", "files": "all.csv"},
                   {"case": st.just("a"), "x": st.integers(0, 10**6).map(str), "y": st.sampled_from(["3", "1e3"])}),
}  # fmt: skip
NOT_CHANGED = {"case", "image_id", "main_classification"}


@st.composite
def tables(draw: Any, name: str) -> list[dict[str, str]]:
    """Rows of texts, of which one cell may be another one."""
    columns = TABLES[name][1]
    rows = [
        {key: draw(cells) for key, cells in columns.items()}
        for _ in range(draw(st.integers(0, 1 if name == "counts_csv" else 3)))  # a case has one row of counts
    ]
    if rows and draw(st.booleans()):
        draw(st.sampled_from(rows))[draw(st.sampled_from([key for key in columns if key not in NOT_CHANGED]))] = draw(
            CELL_JUNK
        )
    return rows


def written(name: str, rows: list[dict[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(TABLES[name][1]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def typed(name: str, rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """What a program makes of a table before it looks into the schema: numbers; empty cells only where counts are."""
    plain = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?(e[0-9]+)?")
    return [
        {
            key: float(cell) if plain.fullmatch(cell) else cell
            for key, cell in row.items()
            if cell.strip() or name == "counts_csv"
        }
        for row in rows
    ]


CLASSES = [{"name": "x", "aliases": [""]}, {"name": "y"}]


def rules_of(name: str) -> Challenge:
    rules = {"files": "{case}.json", **FILES[name][0]}
    matching = {"rules": [{"name": "r", "rule": "centroid_closest_first", "radius_px": 9.0, "class_aware": False,
                           "ties": "first_pixel"}]}  # fmt: skip
    return Challenge.from_preset(
        "recommended", name="a", classes=CLASSES, submission=rules, cases=[CASE], matching=matching
    )


def reader_accepts(name: str, document: Any) -> bool:
    if name in FILES:
        challenge = rules_of(name)
        rules: FormatRules = challenge.submission
        classes, content = challenge.class_table(rules), json.dumps(document).encode()
    else:
        rules = format_rules(**{"files": "{case}.csv", **TABLES[name][0]})
        classes, content = ClassTable(("x", "y"), {"": 1, "x": 1, "y": 2}), document
    request = Request(where="'a'", name="a", rules=rules, classes=classes, limits=LimitRules())
    reader = format_of(rules.format)
    try:
        if rules.is_shared:
            reader.read_all(io.BytesIO(content), request, {CASE.name: CASE})
        else:
            reader.read(io.BytesIO(content), request, CASE)
    except InputFault:
        return False
    return True


def model_accepts(name: str, document: Any) -> bool:
    try:
        model_of(name).validate_python(document)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", [*TABLES, *FILES])
def test_a_model_accepts_what_its_reader_accepts(name: str) -> None:
    verdicts, is_table = [], name in TABLES

    @settings(max_examples=400, deadline=None, database=None, derandomize=True)
    @given(tables(name) if is_table else changed(FILES[name][1]))
    def play(document: Any) -> None:
        accepted = reader_accepts(name, written(name, document) if is_table else document)
        verdicts.append(accepted)
        assert model_accepts(name, typed(name, document) if is_table else document) == accepted, document

    play()
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.95


@pytest.mark.parametrize("name", MODELS)
def test_a_schema_stands_alone_and_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The platform puts the schema of a socket inside another one, where references lead nowhere."""
    text = json.dumps(json_schema(name))
    assert not {"$ref", "$defs", "prefixItems"} & set(text.split('"'))
    assert run(["explain", "--schema", name]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema(name)
    assert set(MODELS) == set(SUBMITTED)


@pytest.mark.parametrize("name", FILES)
def test_the_printed_schema_refuses_what_its_model_refuses_of_single_values(name: str) -> None:
    """jsonschema reads it as the platform does, inside another schema; what is said of all records together is not in
    it: some with a probability and some without.
    """
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft7Validator({"allOf": [json_schema(name)]})

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(changed(FILES[name][1]))
    def play(document: Any) -> None:
        if model_accepts(name, document):
            assert validator.is_valid(document), document
        elif validator.is_valid(document):
            assert "for every nucleus, or for no nucleus" in told(name, document) or "numbers" in told(name, document)

    play()


def told(name: str, document: Any) -> str:
    with pytest.raises(ValidationError) as error:
        model_of(name).validate_python(document)
    return str(error.value)
