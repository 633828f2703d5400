"""Probabilities of the classes: read from every format that has them, and carried to the instances that are scored."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from every_format import CASES, challenge_document
from hypothesis import given
from hypothesis import strategies as st
from json_files import faults_of as json_faults_of
from json_files import json_request, read_json_file

from evaluation.challenge import Challenge, LimitRules, format_rules
from evaluation.decoding import json as bounded_json
from evaluation.findings import Finding, render_findings
from evaluation.findings.errors import InputFault
from evaluation.formats import annotation_lists
from evaluation.formats import classes as classes_of_files
from evaluation.formats.format import Request
from evaluation.formats.geojson import read_geojson, write_geojson
from evaluation.formats.listed_nuclei import write_points_json, write_polygons_json
from evaluation.formats.tables import read_nucls_csv, read_points_csv, read_points_csv_collection
from evaluation.instances.outlines import trace_outlines
from evaluation.instances.overlap import resolve_overlaps
from evaluation.instances.prepare import apply_ignore_region, convert_parts, join_instances, prepare_reference
from evaluation.instances.rasterise import rasterise_outlines
from evaluation.model import (
    Annotations,
    Case,
    ClassTable,
    Counts,
    Float64,
    Instances,
    LabelImage,
    Outlines,
    Points,
    Region,
)
from evaluation.model.label_runs import runs_of
from evaluation.scoring.read import ReadPrediction, read_prediction, read_reference
from evaluation.submission import find_case_files, open_submission

CASE = Case("a", "P1", 100, 120, 0.25)
OTHER = Case("b", "P2", 100, 120, 0.25)
TWO = ClassTable(
    ("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "str": 2, "vague": -1}, {0: 1, 7: 2}, frozenset({"fov"})
)
ONE = ClassTable(("Nucleus",), {"nucleus": 1})
NAMELESS = ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "": 1})
POINTS = {"format": "points_csv", "files": "{case}.csv", "origin": "pixel_centre", "units": "px"}
NUCLS = {
    "format": "nucls_csv", "files": "{case}.csv", "origin": "pixel_centre", "vertices": "exact", "vanished": "drop",
    "class_column": "main_classification",
}  # fmt: skip


def request(rules: Mapping[str, Any], classes: ClassTable, file_class: int = 0) -> Request:
    return Request(
        where="'a.csv'", name="a.csv", rules=format_rules(**rules), classes=classes, limits=LimitRules(),
        file_class=file_class,
    )  # fmt: skip


def points(text: str, classes: ClassTable = TWO, *, file_class: int = 0) -> Points:
    (found,) = read_points_csv(io.BytesIO(text.encode()), request(POINTS, classes, file_class), CASE).parts
    assert isinstance(found, Points)
    return found


def nucls(text: str, classes: ClassTable = TWO, *, file_class: int = 0) -> Outlines:
    (found,) = read_nucls_csv(io.BytesIO(text.encode()), request(NUCLS, classes, file_class), CASE).parts
    assert isinstance(found, Outlines)
    return found


def table(numbers: Float64 | None) -> list[list[float]] | None:
    if numbers is None:
        return None
    assert numbers.dtype == np.float64
    return [[float(str(value)) for value in row] for row in numbers]


def faults_of(read: Callable[..., object], *arguments: Any, **options: Any) -> list[Finding]:
    with pytest.raises(InputFault) as fault:
        read(*arguments, **options)
    return list(fault.value.findings)


def lines_of(read: Callable[..., object], *arguments: Any, **options: Any) -> list[str]:
    return render_findings(faults_of(read, *arguments, **options))


# --- CSV --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [
    "x,y,class,probability_Tumour,probability_Stroma",
    "x,y,class,PROBABILITY_tumour,Probability_STR",
    'x,y,class, probability_Tumour ,"probability_ stroma"',
])  # fmt: skip
def test_columns_of_class_probabilities_are_found_by_name_or_alias(header):
    found = points(f"{header}\n1,2,Stroma,0.25,1\n3,4,Tumour,0,.5\n")
    assert table(found.class_probability) == [[0.25, 1], [0, 0.5]]
    assert found.class_id.tolist() == [2, 1]
    assert found.probability is None


def test_the_order_of_the_columns_does_not_matter():
    found = points("probability_stroma,y,probability_vague,x,class,probability_tumour\n0.1,2,?,1,Tumour,0.9\n")
    assert table(found.class_probability) == [[0.9, 0.1]]
    assert found.points_xy.tolist() == [[1, 2]]


def test_a_file_without_them_has_none():
    assert points("x,y,class,probability\n1,2,Stroma,0.5\n").class_probability is None
    assert points("x,y,class,probability_vague,probability_\n1,2,Stroma,0.5,7\n").class_probability is None
    assert points("x,y,class,probability_Tumour,probability_Stroma\n1,2,Stroma,, \n").class_probability is None


def test_without_a_class_column_the_largest_tells_the_class_and_of_equal_ones_the_first():
    found = points("probability_Stroma,probability_Tumour,x,y\n0.7,0.2,1,1\n0.5,0.5,2,2\n0.1,0.3,3,3\n")
    assert found.class_id.tolist() == [2, 1, 1]
    assert found.class_id.dtype == np.int16


def test_the_class_column_and_the_class_of_the_path_win_over_the_largest():
    text = "x,y,probability_Tumour,probability_Stroma{}\n1,1,0.9,0.1{}\n"
    assert points(text.format(",class", ",Stroma")).class_id.tolist() == [2]
    assert points(text.format(",class", ",")).class_id.tolist() == [0]
    assert points(text.format("", ""), file_class=2).class_id.tolist() == [2]
    assert points(text.format("", ""), NAMELESS).class_id.tolist() == [1]
    assert points("x,y,probability_Tumour,probability_Stroma\n1,1,0.1,0.9\n", NAMELESS).class_id.tolist() == [2]


def test_a_challenge_of_one_class_may_have_its_probability():
    found = points("x,y,probability_nucleus,probability\n1,1,0.5,0.75\n", ONE)
    assert (table(found.class_probability), found.probability.tolist(), found.class_id.tolist()) == (
        [[0.5]],
        [0.75],
        [1],
    )


def test_skipped_rows_and_rows_without_a_nucleus_need_none():
    found = points("x,y,class,probability_Tumour,probability_Stroma\n1,1,FOV,,\n,,,,\n2,2,Stroma,0.5,1\n")
    assert (table(found.class_probability), found.source_id.tolist()) == ([[0.5, 1]], [4])


@pytest.mark.parametrize("value", ["1.5", "-0.1", "nan", "inf", "1e999", "50%", "0x1", "1_0"])
def test_numbers_outside_of_0_to_1_are_told(value):
    text = f"x,y,class,probability_Tumour,probability_Str\n1,1,Tumour,0.5,0.5\n1,1,Tumour,0.5,{value}\n"
    assert lines_of(points, text) == [
        f"[invalid-probability] 'a.csv', line 3: probability_Str is '{value}'; expected a number from 0 to 1."
    ]


def test_a_class_without_a_column_is_told():
    assert lines_of(points, "x,y,class,probability_Tumour,probability_Stromal\n1,1,Tumour,0.5,0.5\n") == [
        "[missing-column] 'a.csv': no column 'probability_Stroma' among 'x', 'y', 'class', 'probability_Tumour' and "
        "'probability_Stromal'; expected a column 'probability_…' for each class, or for none. Did you mean "
        "'probability_Stromal'?"
    ]


def test_two_columns_of_a_class_are_told():
    (line,) = lines_of(points, "x,y,class,probability_Tumour,probability_Stroma,probability_STR\n1,1,Tumour,1,0,0\n")
    assert line.startswith(
        "[invalid-csv] 'a.csv': two columns of one class, 'probability_Stroma' and 'probability_STR'"
    )


def test_rows_that_lack_some_are_told():
    rows = ["1,1,Tumour,0.5,0.5", "1,1,Tumour,,", "1,1,Tumour,0.5, ", "1,1,Tumour,2,", "1,1,Tumour,0,1"]
    text = "\n".join(["x,y,class,probability_Tumour,probability_Stroma", *rows, ""])
    assert lines_of(points, text) == [
        "[invalid-probability] 'a.csv', line 5: probability_Tumour is '2'; expected a number from 0 to 1.",
        "[missing-probability] 'a.csv', line 3, line 4, line 5: no probability of each class; expected a probability "
        "of each class for every nucleus, or for none.",
    ]


def test_thousands_of_wrong_numbers_are_counted():
    text = "x,y,class,probability_Tumour,probability_Stroma\n" + "1,1,Tumour,7,8\n" * 500 + "1,1,Tumour,,1\n" * 300
    found = faults_of(points, text)
    assert len(found) == 40
    total = {
        code: sum(f.count for f in found if f.code == code) for code in ("invalid-probability", "missing-probability")
    }
    assert total == {"invalid-probability": 1000, "missing-probability": 300}


def test_all_that_is_wrong_is_told_at_once():
    text = "x,y,class,probability,probability_Tumour,probability_Stroma\n?,1,x,7,7,1\n"
    assert [line.split("]")[0] for line in lines_of(points, text)] == [
        "[invalid-coordinate", "[invalid-probability", "[unknown-class",
    ]  # fmt: skip


def test_a_file_without_a_row_needs_no_class_column():
    assert table(points("x,y,probability_Tumour,probability_Stroma\n").class_probability) == []
    assert len(nucls("type,coords_x,coords_y,probability_Tumour,probability_Stroma\n")) == 0


@pytest.mark.parametrize(("limit", "is_read"), [(6, True), (5, False)])
def test_the_numbers_of_a_file_are_bounded(limit, is_read):
    text = "x,y,class,probability_Tumour,probability_Stroma\n" + "1,1,Tumour,0,1\n" * 3
    with mock.patch.object(classes_of_files, "NUMBERS_LIMIT", limit):
        if is_read:
            assert len(points(text)) == 3
        else:
            (line,) = lines_of(points, text)
            assert line.startswith(
                "[too-large] 'a.csv': probabilities of 2 classes for 3 nuclei or more; expected at most 5"
            )


def test_each_case_of_a_shared_file_has_its_own():
    text = "case,x,y,probability_Tumour,probability_Stroma\nb,1,1,0.1,0.2\na,2,2,0.3,0.4\nc,1,1,?,?\nb,3,3,0.5,0.25\n"
    how = request({**POINTS, "files": "all.csv"}, TWO)
    found = read_points_csv_collection(io.BytesIO(text.encode()), how, {"a": CASE, "b": OTHER})
    (of_a,), (of_b,) = (found.cases[name].parts for name in "ab")
    assert table(of_a.class_probability) == [[0.3, 0.4]]
    assert table(of_b.class_probability) == [[0.1, 0.2], [0.5, 0.25]]
    assert (of_a.class_id.tolist(), of_b.class_id.tolist()) == ([2], [2, 1])


NUCLS_ROW = 'polyline,"1,5,1","1,1,5"'


def test_nucls_files_have_them_too():
    header = "main_classification,probability_Stroma,type,coords_x,coords_y,probability_Tumour"
    row = 'stroma,0.25,polyline,"1,5,1","1,1,5",0.75'
    found = nucls(f"{header}\n{row}\nfov,,rectangle,,,\n".replace("rectangle,,,", 'polyline,"1,5,1","1,1,5",'))
    assert (table(found.class_probability), found.class_id.tolist()) == ([[0.75, 0.25]], [2])
    found = nucls(f"type,coords_x,coords_y,probability_Stroma,probability_Tumour\n{NUCLS_ROW},0.25,0.75\n")
    assert (table(found.class_probability), found.class_id.tolist()) == ([[0.75, 0.25]], [1])
    assert nucls(f"main_classification,type,coords_x,coords_y\nstroma,{NUCLS_ROW}\n").class_probability is None


def test_nucls_files_with_neither_class_nor_probabilities_are_refused():
    (line,) = lines_of(nucls, f"type,coords_x,coords_y,probability_Stroma,probability_Tumour\n{NUCLS_ROW},,\n")
    assert line.startswith("[missing-column] 'a.csv': no such column among")
    assert "expected a column 'main_classification'" in line
    (line,) = lines_of(nucls, f"type,coords_x,coords_y,probability_Stroma\n{NUCLS_ROW},1\n")
    assert "no column 'probability_Tumour'" in line


# --- JSON -------------------------------------------------------------------------------------------------------------

PATH = [[1, 2, 0.5], [5, 2, 0.5], [1, 6.5, 0.5]]
JSON_KINDS = ["geojson", "geojson points", "polygons_json", "points_json"]


def item(kind: str, probabilities: Any = ..., name: str | None = "Epithelial") -> dict[str, Any]:
    """A nucleus with class probabilities; ``...``: without."""
    found: dict[str, Any] = {} if probabilities is ... else {"class_probabilities": probabilities}
    if kind.startswith("geojson"):
        geometry = {"type": "Polygon", "coordinates": [PATH]}
        if kind == "geojson points":
            geometry = {"type": "Point", "coordinates": [1, 2]}
        return {"type": "Feature", "geometry": geometry, "properties": {"classification": name, **found}}
    shape = {"path_points": PATH} if kind == "polygons_json" else {"point": [1, 2, 0.5]}
    return {"name": name, **shape, **found}


def document(kind: str, items: Sequence[Any]) -> Any:
    if kind.startswith("geojson"):
        return {"type": "FeatureCollection", "features": items}
    key = "polygons" if kind == "polygons_json" else "points"
    return {"type": f"Multiple {key}", "version": {"major": 1, "minor": 0}, key: items}


def options_of(kind: str) -> dict[str, Any]:
    return {"format": kind.split()[0], **({"shape": "point"} if kind == "geojson points" else {})}


def read(kind: str, *items: Any, **options: Any) -> Outlines | Points:
    (part,) = read_json_file(document(kind, items), **options_of(kind), **options).parts
    assert isinstance(part, Outlines | Points)
    return part


def json_lines_of(kind: str, *items: Any, **options: Any) -> list[str]:
    return render_findings(json_faults_of(document(kind, items), **options_of(kind), **options))


def place(kind: str, number: int) -> str:
    word = "feature" if kind.startswith("geojson") else kind.split("_")[0][:-1]
    return f"'nuclei.json', {word} {number}"


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_class_probabilities_are_objects_with_a_number_for_each_class(kind):
    first = item(kind, {"Epithelial": 0.9, "Lymphocyte": 0.05})
    second = item(kind, {" LYMPHOCYTE": 1, "background": "?", "epi": 0, "ambiguous": 7}, "lymphocyte")
    found = read(kind, first, second, second, first)
    assert table(found.class_probability) == [[0.9, 0.05], [0, 1], [0, 1], [0.9, 0.05]]
    assert found.class_id.tolist() == [1, 2, 2, 1]
    assert found.probability is None


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_files_without_them_have_none(kind):
    assert read(kind).class_probability is None
    assert read(kind, item(kind), item(kind, None)).class_probability is None


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_what_is_skipped_needs_none(kind):
    found = read(kind, item(kind, name="ROI"), item(kind, {"Epi": 1, "Lymphocyte": 0}), skipped=["roi"])
    assert table(found.class_probability) == [[1, 0]]


@pytest.mark.parametrize("kind", JSON_KINDS)
@pytest.mark.parametrize("value", [1.5, -0.1, "0.5", True, None, [0.5], 10**30])
def test_numbers_of_a_nucleus_outside_of_0_to_1_are_told(kind, value):
    good = item(kind, {"Epithelial": 0.5, "Lymphocyte": 0.5})
    (line,) = json_lines_of(kind, good, item(kind, {"Lymphocyte": value, "Epithelial": 0.5}))
    shown = "1e+30" if value == 10**30 else json.dumps(value).replace('"', '"')
    expected = (
        f"[invalid-probability] {place(kind, 2)}: the probability '{shown}' of the class 'Lymphocyte'; expected a"
    )
    assert line.startswith(expected)


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_a_nucleus_that_lacks_a_class_is_told(kind):
    good = item(kind, {"Epithelial": 0.5, "Lymphocyte": 0.5})
    assert json_lines_of(kind, good, item(kind, {"Lymphocyte": 0.5, "Epitelial": 0.5}), item(kind, {})) == [
        f"[missing-probability] {place(kind, 2)}: no probability of 'Epithelial' (also {place(kind, 3)}: no "
        "probability of 'Epithelial' and 'Lymphocyte'); expected a probability of each class for every "
        "nucleus, or for none."
    ]


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_a_nucleus_that_has_none_beside_others_is_told(kind):
    good = item(kind, {"Epithelial": 0.5, "Lymphocyte": 0.5})
    for items in ([good, item(kind)], [item(kind), good]):
        (line,) = json_lines_of(kind, *items)
        assert line.startswith(f"[missing-probability] {place(kind, 1 + items.index(item(kind)))}: no class prob")
    many = json_faults_of(document(kind, [*[item(kind)] * 50, good, *[item(kind)] * 50]), **options_of(kind))
    assert sum(finding.count for finding in many) == 100
    assert len(many) == 20


@pytest.mark.parametrize("kind", JSON_KINDS)
@pytest.mark.parametrize("value", [[0.5, 0.5], 0.5, "Epithelial", {"Epithelial": 0.5, "epi": 0.5, "Lymphocyte": 0}])
def test_what_is_no_such_object_is_told(kind, value):
    (line,) = json_lines_of(kind, item(kind, value))
    assert line.startswith(f"[invalid-annotation] {place(kind, 1)}: ")


def test_wrong_numbers_of_many_nuclei_are_counted():
    wrong = item("points_json", {"Epithelial": 7, "Lymphocyte": 0.5})
    found = json_faults_of(document("points_json", [wrong] * 10_000), "points_json")
    assert (len(found), sum(finding.count for finding in found)) == (20, 10_000)


def test_every_point_of_a_feature_has_those_of_the_feature():
    several = item("geojson points", {"Epithelial": 0.25, "Lymphocyte": 0.75})
    several["geometry"] = {"type": "MultiPoint", "coordinates": [[1, 1], [2, 2], [3, 3]]}
    found = read("geojson points", item("geojson points", {"Epithelial": 1, "Lymphocyte": 0}), several)
    assert table(found.class_probability) == [[1, 0], *[[0.25, 0.75]] * 3]


@pytest.mark.parametrize(("limit", "is_read"), [(8, True), (7, False)])
def test_the_numbers_of_a_json_file_are_bounded(limit, is_read):
    nuclei = [item("points_json", {"Epithelial": 1, "Lymphocyte": 0})] * 4
    with mock.patch.object(classes_of_files, "NUMBERS_LIMIT", limit):
        if is_read:
            assert len(read("points_json", *nuclei)) == 4
        else:
            (line,) = json_lines_of("points_json", *nuclei)
            assert line.startswith("[too-large] 'nuclei.json': probabilities of 2 classes for 4 nuclei")


ROWS = st.lists(st.tuples(st.booleans(), st.floats(0, 1, width=32), st.floats(0, 1, width=32)), max_size=12)


@given(ROWS, st.integers(1, 400), st.integers(1, 5))
def test_the_pieces_of_a_file_do_not_matter(rows, piece_bytes, at_once):
    items = [
        item(
            "geojson", {"Lymphocyte": second, "Epithelial": first} if swapped else {"epi": first, "lymphocyte": second}
        )
        for swapped, first, second in rows
    ]
    with (
        mock.patch.multiple(bounded_json, PIECE_BYTES=piece_bytes, SCAN_BYTES=max(1, piece_bytes // 3)),
        mock.patch.object(annotation_lists, "NUCLEI_AT_ONCE", at_once),
    ):
        found = read("geojson", *items)
    assert table(found.class_probability) == ([[float(str(np.float64(n))) for n in row[1:]] for row in rows] or None)


def test_a_file_whose_classes_are_not_known_beforehand_finds_no_classes_in_them(tmp_path):
    from evaluation.authoring.convert import convert_file

    (tmp_path / "a.geojson").write_text(json.dumps(document("geojson", [item("geojson", {"x": 7, "Epithelial": 0})])))
    (written,) = convert_file(tmp_path / "a.geojson", tmp_path / "b", "geojson").files
    assert b"class_probabilities" not in written.read_bytes()
    (item_written,) = json.loads(written.read_text())["features"]
    assert item_written["properties"]["classification"]["name"] == "Epithelial"
    (tmp_path / "a.csv").write_text("x,y,probability_q\n1,1,9\n")
    (points,) = convert_file(tmp_path / "a.csv", tmp_path / "c", "platform", format="points_csv").files
    assert [point["name"] for point in json.loads(points.read_text())["points"]] == ["nucleus"]


# --- writing ----------------------------------------------------------------------------------------------------------


def outlines_with(probability: Float64 | None, class_id: Sequence[int] = (2, 1)) -> Outlines:
    square = np.array([[0, 0], [3, 0], [3, 3], [0, 3]], float)
    n = len(class_id)
    return Outlines(
        np.concatenate([square + 10 * index for index in range(n)]), np.arange(0, 4 * n + 1, 4),
        np.arange(n, dtype=np.int32), np.zeros(n, np.bool_), np.array(class_id, np.int16),
        np.array([f"n{index}" for index in range(n)], object), class_probability=probability,
    )  # fmt: skip


def test_geojson_that_is_written_is_read_again():
    rows = np.array([[0.1, 0.7], [1, 0]], np.float64)
    names = ("Epithelial", "Lymphocyte", "Ambiguous")  # ignore classes stand behind the scored ones
    data = write_geojson(outlines_with(rows), names, [None] * 3)
    first = json.loads(data)["features"][0]["properties"]["class_probabilities"]
    assert first == {"Epithelial": 0.1, "Lymphocyte": 0.7}
    (part,) = read_geojson(io.BytesIO(data), json_request("geojson"), CASE).parts
    assert table(part.class_probability) == [[0.1, 0.7], [1, 0]]


def test_the_platforms_files_are_written_without_them_since_its_schema_refuses_them():
    rows = np.array([[0.1, 0.7], [1, 0]], np.float64)
    names = ("Epithelial", "Lymphocyte")
    assert b"class_prob" not in write_polygons_json(outlines_with(rows), names, "nuclei")
    nuclei = Points(np.zeros((2, 2)), np.ones(2, np.int16), np.array([1, 2], object), None, rows)
    assert b"class_prob" not in write_points_json(nuclei, names)


@pytest.mark.parametrize("classes", [["Epithelial", "Lymphocyte"], ["Lymphocyte", "Epithelial"]])
def test_conversion_keeps_them(tmp_path, classes):
    from evaluation.authoring.convert import convert_file

    source = document("polygons_json", [item("polygons_json", {"Lymphocyte": 0.25, "Epithelial": 0.5})])
    (tmp_path / "a.json").write_text(json.dumps(source))
    (written,) = convert_file(
        tmp_path / "a.json", tmp_path / "b", "geojson", format="polygons_json", class_names=classes
    ).files
    (feature,) = json.loads(written.read_text())["features"]
    assert feature["properties"]["class_probabilities"] == {"Epithelial": 0.5, "Lymphocyte": 0.25}
    assert list(feature["properties"]["class_probabilities"]) == classes


# --- the way to the instances -----------------------------------------------------------------------------------------


def follow(instances: Instances) -> list[int]:
    """Which nuclei are left; each must still have its own probabilities."""
    index = [int(str(source).removeprefix("n")) for source in instances.source_id]
    assert instances.class_probability is not None
    assert instances.class_probability.dtype == np.float64
    assert instances.class_probability.tolist() == marks(6)[index].tolist()
    return index


def marks(count: int) -> Float64:
    return (np.arange(2 * count).reshape(count, 2) / 64).astype(np.float64)


def six() -> Outlines:
    """Squares of 4 x 4 px from (0, 0) to (50, 50); the fifth lies on the fourth, the last one outside of the image."""
    outlines = outlines_with(marks(6), [1, 2, 1, 2, 1, 1])
    points_xy = outlines.points_xy.copy()
    points_xy[16:20] = points_xy[12:16]
    points_xy[20:] += 1000
    return replace(outlines, points_xy=points_xy)


def rasterised(shape_yx: tuple[int, int] = (60, 60)) -> Instances:
    return rasterise_outlines(six(), shape_yx, vertices="exact", origin="pixel_centre", vanished="drop")


def test_they_go_with_the_outlines_that_become_pixels():
    assert follow(rasterised()) == [0, 1, 2, 3, 4]
    assert follow(rasterised((25, 25))) == [0, 1, 2]


def test_they_go_with_the_nearest_pixel_of_an_outline():
    between = replace(six(), points_xy=six().points_xy / 8 + 0.4)
    found = rasterise_outlines(between, (60, 60), vertices="exact", origin="pixel_centre", vanished="pixel")
    assert follow(found) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "rule, left", [("keep", 5), ("last", 4), ("first", 4), ("smallest", 4), ("class_order", 4), ("ignore", 3)]
)
def test_they_go_with_who_wins_an_overlap(rule, left):
    kept = follow(resolve_overlaps(rasterised(), rule, "image").instances)
    assert len(kept) == left


@pytest.mark.parametrize(
    "policy, kept", [("clip", [0, 2, 3, 4]), ("drop_overlapping", [0, 2, 3, 4]), ("drop_centroid", [0, 2, 3, 4])]
)
def test_they_go_with_who_stays_beside_an_ignore_region(policy, kept):
    start = np.arange(10, 14) * 60 + 10
    region = Region(start, start + 4)
    assert follow(apply_ignore_region(rasterised(), region, policy, 0.5)) == kept


def test_points_in_an_ignore_region_take_theirs_along():
    drawn = Points(np.array([[5.0, 5], [10, 10], [20, 20]]), np.ones(3, np.int16), np.arange(3), None, marks(3))
    found = convert_parts([drawn], (60, 60), vertices=None, origin="pixel_centre", vanished=None, where="a").instances
    assert follow(found) == [0, 1, 2]
    start = np.array([10 * 60 + 10])
    assert follow(apply_ignore_region(found, Region(start, start + 1), "clip")) == [0, 2]


def test_a_reference_may_have_them():
    found = prepare_reference(
        [replace(six(), class_id=np.array([1, -1, 1, 2, 1, 1], np.int16))], (60, 60), overlap="first",
        overlap_scope="image", vanished="drop", vertices="exact", origin="pixel_centre", ignore_policy="clip",
    )  # fmt: skip
    assert follow(found.instances) == [0, 2, 3]


def test_traced_outlines_have_those_of_their_nuclei():
    instances = rasterised()
    assert trace_outlines(instances).class_probability is instances.class_probability


def test_joined_parts_have_them_one_after_the_other():
    instances = rasterised()
    kept = np.arange(5) < 2
    parts = [apply_ignore_region(instances, Region(np.array([0]), np.array([4])), "drop_centroid")]
    assert follow(parts[0]) == [0, 1, 2, 3, 4]
    halves = [pick(instances, kept), pick(instances, ~kept)]
    assert follow(join_instances(halves, (60, 60))) == [0, 1, 2, 3, 4]
    assert follow(join_instances(halves[::-1], (60, 60))) == [2, 3, 4, 0, 1]


def pick(instances: Instances, kept: np.ndarray) -> Instances:
    from evaluation.instances.runs import select_instances

    return select_instances(instances, kept)


def test_parts_without_a_nucleus_take_nothing_away():
    instances = replace(rasterised(), probability=np.linspace(0, 1, 5, dtype=np.float64))
    nobody = join_instances([], (60, 60))
    assert nobody.probability is None and nobody.class_probability is None
    joined = join_instances([nobody, instances, nobody], (60, 60))
    assert follow(joined) == [0, 1, 2, 3, 4]
    assert joined.probability is not None and joined.probability.tolist() == instances.probability.tolist()


def test_parts_with_and_without_them_have_none_together():
    instances = rasterised()
    assert join_instances([instances, replace(instances, class_probability=None)], (60, 60)).class_probability is None


def test_counts_are_no_instances():
    with pytest.raises(ValueError, match="counts"):
        convert_parts([Counts(np.array([1, 2]))], (9, 9), vertices=None, origin=None, vanished=None, where="a")


# --- whole submissions ------------------------------------------------------------------------------------------------


def challenge_of(kind: str, **submission: Any) -> Challenge:
    document = challenge_document(kind)
    document["submission"] |= submission
    return Challenge.build(document)


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def read_submitted(challenge: Challenge, folder: Path, files: Mapping[str, str]) -> ReadPrediction:
    """The prediction of the first case of a ZIP."""
    with zipfile.ZipFile(folder / "s.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    stored = open_submission(folder / "s.zip", challenge.limits)
    layout = find_case_files(stored, challenge)
    return read_prediction(challenge, stored, challenge.cases[0], layout.files[challenge.cases[0].name])


def nuclei_file(*rows: tuple[float, float, float, float]) -> str:
    points = [{"point": [x, y, 0.5], "class_probabilities": {"lymphocyte": b, "epithelial": a}} for x, y, a, b in rows]
    return json.dumps({"type": "Multiple points", "version": {"major": 1, "minor": 0}, "points": points})


def test_a_zip_of_files_for_each_class_is_joined_in_the_order_of_the_classes(tmp_path):
    challenge = challenge_of("points_json by class")
    files = {
        "c1/Lymphocyte.json": nuclei_file((1, 1, 0.25, 0.75)),
        "c1/Epithelial.json": nuclei_file((2, 2, 0.5, 0.25), (3, 3, 1, 0)),
    }
    found = read_submitted(challenge, tmp_path, files).instances
    by_class = dict(zip(found.class_id.tolist()[::-1], table(found.class_probability)[::-1], strict=True))
    assert sorted(found.class_id.tolist()) == [1, 1, 2]
    assert by_class == {1: [0.5, 0.25], 2: [0.25, 0.75]}


def test_a_class_without_a_nucleus_does_not_take_them_from_the_others(tmp_path):
    files = {"c1/Lymphocyte.json": nuclei_file(), "c1/Epithelial.json": nuclei_file((2, 2, 0.5, 0.25))}
    found = read_submitted(challenge_of("points_json by class"), tmp_path, files).instances
    assert table(found.class_probability) == [[0.5, 0.25]]


def test_files_of_a_case_with_and_without_them_are_refused(tmp_path):
    plain = json.dumps({"type": "Multiple points", "points": [{"point": [1, 1, 0.5]}]})
    files = {"c1/Lymphocyte.json": plain, "c1/Epithelial.json": nuclei_file((2, 2, 0.5, 0.25))}
    challenge = challenge_of("points_json by class")
    assert lines_of(read_submitted, challenge, tmp_path, files) == [
        "[missing-probability] case 'c1': class probabilities in 1 of 2 files with nuclei; expected a probability of "
        "each class for every nucleus, or for none."
    ]


def test_rows_of_a_submitted_csv_file_without_a_class_column_are_scored_classes(tmp_path):
    rows = [["x", "y", "probability_lymphocyte", "probability_EPITHELIAL"], [1, 1, 0.75, 0.5], [2, 2, 0.25, 0.25]]
    found = read_submitted(challenge_of("points_csv"), tmp_path, {"c1.csv": csv_text(rows)})
    assert (found.instances.class_id.tolist(), found.class_counts) == ([2, 1], None)
    assert table(found.instances.class_probability) == [[0.5, 0.75], [0.25, 0.25]]


def test_label_images_have_none():
    labels = np.zeros(CASES[0].shape_yx, np.uint8)
    labels[2:5, 2:5] = 1
    said = Annotations((LabelImage(runs_of(labels), 1), LabelImage(runs_of(labels), 2)))
    challenge = challenge_of("label_image by class")
    assert read_prediction(challenge, mock.Mock(), CASES[0], said).instances.class_probability is None


def test_counts_travel_beside_the_instances(tmp_path):
    challenge = challenge_of("points_csv shared")
    said = Annotations((Counts(np.array([3, 0])),))
    found = read_prediction(challenge, mock.Mock(), CASES[0], said)
    seen = found.seen
    assert (found.class_counts.tolist(), len(found.instances), seen.nuclei, seen.outside) == ([3, 0], 0, 3, 0)
    reference = read_reference(challenge, tmp_path, CASES[0], said)
    assert (reference.class_counts.tolist(), len(reference.instances), reference.annotations) == ([3, 0], 0, 3)
    assert len(said.parts[0]) == 3
