"""Reading and writing GeoJSON: features, geometries, classes and probabilities. The oracles are shapely and the files
of QuPath, PUMA, CellViT and ASAP."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from json_files import faults_of, json_request, read_json_file

import evaluation
from evaluation.formats.geojson import read_geojson, write_geojson
from evaluation.instances.rasterise import rasterise_outlines
from evaluation.model import Case, Outlines, Points

RING = [[1, 2], [5, 2], [1, 6.5], [1, 2]]
OTHER = [[10, 10], [20, 10], [20, 20], [10, 20], [10, 10]]
HOLE = [[12, 12], [14, 12], [14, 15], [12, 12]]
PUMA_CLASSES = [
    f"nuclei_{name}"
    for name in (
        "tumor", "lymphocyte", "plasma_cell", "histiocyte", "melanophage",
        "neutrophil", "stroma", "epithelium", "endothelium", "apoptosis",
    )
]  # fmt: skip


def polygon(*rings) -> dict:
    return {"type": "Polygon", "coordinates": list(rings or [RING])}


def feature(geometry=None, cls="Epithelial", **keys) -> dict:
    properties = {"objectType": "annotation"} | ({} if cls is None else {"classification": {"name": cls}})
    properties |= keys.pop("properties", {})
    return {"type": "Feature", "geometry": geometry or polygon(), "properties": properties} | keys


def collection(*features: dict) -> dict:
    return {"type": "FeatureCollection", "features": list(features)}


def read(content, **options) -> Outlines:
    (part,) = read_json_file(content, "geojson", **options).parts
    assert isinstance(part, Outlines)
    return part


def read_points(content, **options) -> Points:
    (part,) = read_json_file(content, "geojson", shape="point", **options).parts
    assert isinstance(part, Points)
    return part


def fault_of(content, **options) -> str:
    """The line of the one fault that the file has."""
    (finding,) = faults_of(content, "geojson", **options)
    return str(finding)


def rings_of(outlines: Outlines) -> list[list[list[float]]]:
    return [ring.tolist() for ring in np.split(outlines.points_xy, outlines.ring_start[1:-1])]


# --- what a file may be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap", [collection, lambda one: [one], lambda one: one, lambda one: gzip.compress(json.dumps([one]).encode())]
)
def test_a_collection_a_list_a_feature_and_a_compressed_file_say_the_same(wrap):
    outlines = read(wrap(feature(id="n1")))
    assert rings_of(outlines) == [[[1, 2], [5, 2], [1, 6.5]]]
    assert (outlines.class_id.tolist(), outlines.source_id.tolist()) == ([1], ["n1"])
    assert outlines.ring_start.tolist() == [0, 3]
    assert outlines.probability is None


@pytest.mark.parametrize("wrap", [collection, lambda one: [one], lambda one: one])
def test_a_geometry_without_a_feature_is_a_nucleus_of_the_only_class(wrap):
    outlines = read(wrap(polygon()), classes=["nucleus"], ids={"nucleus": 1})
    assert (outlines.class_id.tolist(), outlines.source_id.tolist()) == ([1], ["1"])


def test_the_members_of_a_file_that_is_one_geometry_collection_are_nuclei():
    content = {"type": "GeometryCollection", "geometries": [polygon(), polygon(OTHER)]}
    assert read(content, file_class=2).class_id.tolist() == [2, 2]


@pytest.mark.parametrize("content", [collection(), []])
def test_a_file_without_features_has_no_nuclei(content):
    assert len(read(content)) == 0
    assert len(read_points(content)) == 0
    assert read(content).points_xy.shape == (0, 2)


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ({"type": "Multiple polygons", "polygons": []}, "an object of the type 'Multiple polygons'"),
        ({"images": [], "annotations": []}, "an object with the keys 'images' and 'annotations'"),
        ({"type": "FeatureCollection", "features": None}, "a FeatureCollection without a list of features"),
        ({}, "an empty object"),
        (7, "the value '7'"),
        ("text", "the value '\"text\"'"),
    ],
)
def test_other_json_is_told(content, got):
    assert fault_of(content) == (
        f"[wrong-format] 'nuclei.json': {got}; expected GeoJSON: a FeatureCollection, a list of features, a Feature or "
        "a geometry. Write the file again in this format."
    )


# --- geometries as outlines -------------------------------------------------------------------------------------------


def test_a_polygon_has_holes_and_a_multipolygon_parts_in_document_order():
    multi = {"type": "MultiPolygon", "coordinates": [[OTHER, HOLE], [RING]]}
    outlines = read(collection(feature(multi), feature(polygon(RING, HOLE))))
    assert outlines.ring_instance.tolist() == [0, 0, 0, 1, 1]
    assert outlines.ring_is_hole.tolist() == [False, True, False, False, True]
    assert rings_of(outlines) == [OTHER[:-1], HOLE[:-1], RING[:-1], RING[:-1], HOLE[:-1]]


AROUND = polygon([[0, 0], [99, 0], [99, 99], [0, 99]])


def of_type(kind: str, geometry: dict, cls: str | None = "Epithelial") -> dict:
    return feature(geometry, cls=cls, properties={"objectType": kind})


def test_a_region_around_detections_is_left_out_whatever_its_class_but_one_that_is_not_scored():
    """Unlike a challenge's other annotations, whose classes must be known."""
    nucleus = of_type("detection", polygon(OTHER))
    told = read_json_file(collection(of_type("annotation", AROUND, "Tissue"), nucleus), "geojson")
    assert [len(part) for part in told.parts] == [1]
    assert str(told.findings[0]) == (
        "[left-out] 'nuclei.json', feature 1: an annotation of QuPath around 1 detection, which is a region; expected "
        "nuclei. It is left out."
    )
    ids = {"epithelial": 1, "necrosis": -1}
    not_scored = collection(of_type("annotation", AROUND, "Necrosis"), nucleus)
    assert read(not_scored, classes=["Epithelial"], ids=ids).class_id.tolist() == [-1, 1]


def test_detections_in_too_many_annotations_are_refused_before_time_is_lost(monkeypatch):
    content = collection(*[of_type("annotation", AROUND)] * 4, *[of_type("detection", polygon(OTHER))] * 5)
    monkeypatch.setattr("evaluation.formats.geojson.MOST_INSIDE", 20)
    assert len(read(content)) == 5
    monkeypatch.setattr("evaluation.formats.geojson.MOST_INSIDE", 19)
    assert "more than 19 pairs of an annotation and a detection inside it" in fault_of(content)


def test_a_collection_in_a_feature_is_one_nucleus_of_all_its_parts():
    inner = {"type": "GeometryCollection", "geometries": [polygon(HOLE)]}
    outlines = read(feature({"type": "GeometryCollection", "geometries": [polygon(OTHER), inner, polygon(RING)]}))
    assert len(outlines) == 1
    assert rings_of(outlines) == [OTHER[:-1], HOLE[:-1], RING[:-1]]


def test_open_and_closed_rings_are_the_same_and_only_a_repeated_vertex_is_dropped():
    opened, shut = read([feature(polygon(RING[:-1]))]), read([feature(polygon(RING))])
    assert rings_of(opened) == rings_of(shut)
    one, two = [[3, 3]], [[3, 3], [3, 3]]
    assert rings_of(read([feature(polygon(one)), feature(polygon(two))])) == [[[3, 3]], [[3, 3]]]


def test_a_third_coordinate_is_not_looked_at():
    mixed = [[1, 2, 0], [5, 2], [1, 6.5, None], [1, 2, 9]]
    assert rings_of(read(feature(polygon(mixed)))) == [[[1, 2], [5, 2], [1, 6.5]]]


def test_the_nucleus_of_a_cell_is_its_nucleus_geometry():
    cell = feature(polygon(OTHER), nucleusGeometry=polygon(HOLE), properties={"objectType": "cell"})
    assert rings_of(read([cell])) == [HOLE[:-1]]
    assert rings_of(read([cell | {"nucleusGeometry": None}])) == [OTHER[:-1]]


def test_children_of_an_object_of_qupath_come_after_it():
    child = feature(polygon(HOLE), id="child", properties={"childObjects": [feature(id="grandchild")]})
    parent = feature(polygon(OTHER), id="parent", properties={"childObjects": [child, feature(id="second")]})
    found = read([parent, feature(id="last")])
    assert found.source_id.tolist() == ["parent", "child", "grandchild", "second", "last"]
    region = feature(polygon(OTHER), cls="ROI", properties={"childObjects": [feature(id="cell")]})
    assert read([region], skipped=["roi"]).source_id.tolist() == ["cell"]


def test_empty_holes_are_left_out_but_a_polygon_without_vertices_is_a_fault():
    assert read(feature(polygon(RING, [], HOLE))).ring_is_hole.tolist() == [False, True]
    empty = [
        polygon([]),
        polygon([], HOLE),
        {"type": "Polygon", "coordinates": []},
        {"type": "MultiPolygon", "coordinates": []},
        {"type": "MultiPolygon", "coordinates": [[RING], []]},
    ]
    faults = faults_of([feature(), *map(feature, empty)], "geojson")
    assert [(fault.code, fault.where) for fault in faults] == [
        ("empty-polygon", f"'nuclei.json', feature {number}") for number in range(2, 7)
    ]


@pytest.mark.parametrize(
    ("geometry", "got"),
    [
        ({"type": "Polygon", "coordinates": [[1, 2], [3, 4]]}, "the coordinates of a 'Polygon' are '[[1, 2], [3, 4]]'"),
        ({"type": "Polygon", "coordinates": 7}, "the coordinates of a 'Polygon' are '7'"),
        ({"type": "Polygon", "coordinates": [{}]}, "the coordinates of a 'Polygon' are '[{}]'"),
        ({"type": "Polygon"}, "the coordinates of a 'Polygon' are 'null'"),
        ({"type": "MultiPolygon", "coordinates": [7]}, "the coordinates of a 'MultiPolygon' are '[7]'"),
        ({"type": "MultiPolygon", "coordinates": [[7]]}, "the coordinates of a 'MultiPolygon' are '[[7]]'"),
        ({"type": "MultiPoint", "coordinates": "ab"}, "the coordinates of a 'MultiPoint' are '\"ab\"'"),
        ({"type": "GeometryCollection"}, "the geometries of a collection are 'null'"),
        ({"type": "GeometryCollection", "geometries": [7]}, "'7' as a geometry"),
        ({"type": ["Polygon"]}, "a geometry of the type '[\"Polygon\"]'"),
        (["Polygon"], "'[\"Polygon\"]' as a geometry"),
    ],
)
def test_geometries_that_are_not_built_as_they_should_be_are_told(geometry, got):
    assert got in str(faults_of([feature(geometry)], "geojson")[0])


@pytest.mark.parametrize("item", [7, None, "Feature", [], {}, {"type": "Circle"}, {"type": []}, {"id": 1}])
def test_items_that_are_no_features_are_told(item):
    (fault,) = faults_of([feature(), item], "geojson")
    assert (fault.code, fault.where) == ("invalid-annotation", "'nuclei.json', feature 2")


@pytest.mark.parametrize(
    "position",
    [7, None, "12", [], [1], {"x": 1}, [None, 1], ["1", "2"], [True, 1], [1, False], [1e10, 0], [0, -1.1e9], [[1], 2],
     [10**30, 1]],
)  # fmt: skip
def test_every_position_must_be_two_numbers_within_bounds(position):
    (fault,) = faults_of([feature(), feature(polygon(RING, [*HOLE[:2], position, *HOLE[2:]]))], "geojson")
    assert (fault.code, fault.where) == ("invalid-coordinate", "'nuclei.json', feature 2, ring 2, vertex 3")
    assert fault.expected == "numbers between -1e9 and 1e9 px as x and y of every vertex"


def test_a_million_equal_faults_are_counted_not_listed():
    faults = faults_of([feature(polygon([[1]] * 1000)) for _ in range(50)], "geojson")
    assert len(faults) == 20
    assert sum(fault.count for fault in faults) == 50_000
    many = [feature(cls=f"Unknown {index}") for index in range(3000)] + [{}] * 500
    faults = faults_of(many, "geojson")
    assert Counter(fault.code for fault in faults) == {"unknown-class": 20, "invalid-annotation": 20}
    assert sum(fault.count for fault in faults) == 3500


# --- geometries as points ---------------------------------------------------------------------------------------------


def test_every_point_of_a_multipoint_is_a_nucleus_of_its_own():
    multi = {"type": "MultiPoint", "coordinates": [[1, 2], [3, 4.5, 0]]}
    points = read_points([feature(multi, id="m"), feature({"type": "Point", "coordinates": [7, 8]}, "Lymphocyte")])
    assert points.points_xy.tolist() == [[1, 2], [3, 4.5], [7, 8]]
    assert points.class_id.tolist() == [1, 1, 2]
    assert points.source_id.tolist() == ["m/1", "m/2", "2"]


def test_points_that_repeat_the_first_one_are_not_dropped():
    assert len(read_points([feature({"type": "MultiPoint", "coordinates": [[1, 2], [3, 4], [1, 2]]})])) == 3


@pytest.mark.parametrize("position", [None, [], [1], "a", ["a", 1], [None, None]])
def test_a_point_without_coordinates_is_told(position):
    (fault,) = faults_of([feature({"type": "Point", "coordinates": position})], "geojson", shape="point")
    assert (fault.code, fault.where) == ("invalid-coordinate", "'nuclei.json', feature 1")
    multi = {"type": "MultiPoint", "coordinates": [[1, 1], position]}
    (fault,) = faults_of([feature(multi)], "geojson", shape="point")
    assert fault.where == "'nuclei.json', feature 1, vertex 2"


@pytest.mark.parametrize("kind", ["Point", "MultiPoint", "LineString", "MultiLineString", "Circle"])
def test_shapes_that_the_nuclei_do_not_have_are_refused(kind):
    line = feature({"type": kind, "coordinates": [[1, 2], [3, 4]] if kind != "Point" else [1, 2]})
    expected = f"a geometry of the type '{kind.replace('Multi', '') if 'Point' in kind else kind}'"
    assert fault_of([feature(), line]) == (
        f"[unsupported-shape] 'nuclei.json', feature 2: {expected}; expected 'Polygon' or 'MultiPolygon'. Write each "
        "nucleus as an outline, or leave the feature out."
    )


def test_outlines_are_refused_or_left_out_among_points():
    features = [feature({"type": "Point", "coordinates": [7, 8]}), feature(cls="Unknown"), feature()]
    (fault,) = {finding.code for finding in faults_of(features, "geojson", shape="point")}
    assert fault == "unsupported-shape"
    found = read_json_file(features, "geojson", shape="point", other_shapes="skip")
    assert len(found.parts[0]) == 1
    assert [(finding.code, finding.where) for finding in found.findings] == [
        ("left-out", f"'nuclei.json', feature {number}") for number in (2, 3)
    ]


def test_a_feature_without_a_geometry_is_left_out_with_a_warning():
    found = read_json_file([feature() | {"geometry": None}, feature()], "geojson")
    assert len(found.parts[0]) == 1
    assert [(finding.code, finding.severity) for finding in found.findings] == [("left-out", "warning")]


# --- classes, ids and probabilities -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "class_id"),
    [
        ({"classification": {"name": " LYMPHOcyte "}}, 2),
        ({"classification": {"name": "Ambiguous", "color": [1, 2, 3]}}, -1),
        ({"classification": "epi"}, 1),
        ({"classification": {"names": ["T", "Positive"]}}, 3),
        ({"classification": {"name": "Epithelial"}, "objectType": "Lymphocyte"}, 1),
        ({"objectType": "lymphocyte"}, 2),
        ({"classification": None, "objectType": "lymphocyte"}, 2),
        ({"classification": {}, "objectType": "lymphocyte"}, 2),
        ({"classification": {"name": None}, "objectType": "annotation"}, 0),
        ({"objectType": "annotation", "name": "Lymphocyte"}, 0),
        ({"objectType": ["lymphocyte"]}, 0),
        ({"type": "Lymphocyte"}, 2),
        ({"type": 7, "objectType": "annotation"}, 2),
        ({"type": "Lymphocyte", "classification": "epi"}, 1),
        ({"type": "Lymphocyte", "objectType": "epi"}, 1),
        ({}, 0),
    ],
)
def test_the_class_is_the_classification_or_an_object_type_that_is_a_class(properties, class_id):
    ids = {"epithelial": 1, "epi": 1, "lymphocyte": 2, "7": 2, "t: positive": 3, "ambiguous": -1}
    item = {"type": "Feature", "geometry": polygon(), "properties": properties}
    assert read([item], classes=["Epithelial", "Lymphocyte", "T: Positive"], ids=ids).class_id.tolist() == [class_id]


def test_a_flat_type_that_is_no_class_is_told_unless_nuclei_need_no_name():
    for kind in ("Neoplastic", 3):
        (fault,) = faults_of([feature(cls=None, properties={"type": kind})], "geojson")
        assert (fault.code, f"'{kind}' is not a class" in str(fault)) == ("unknown-class", True)
        item = feature(cls=None, properties={"type": kind})
        assert read([item], classes=["Cell"], ids={"cell": 1}).class_id.tolist() == [1]


@pytest.mark.parametrize("properties", [None, [], 7])
def test_features_may_have_no_properties(properties):
    assert read([feature() | {"properties": properties}]).class_id.tolist() == [0]


def test_a_nameless_feature_has_the_class_of_the_empty_alias():
    assert read([feature(cls=None)], ids={"epithelial": 1, "lymphocyte": 2, "": 2}).class_id.tolist() == [2]


def test_the_class_of_the_file_wins_and_no_name_is_looked_at():
    assert read([feature(cls="Unknown"), feature(cls="ROI")], file_class=-1, skipped=["roi"]).class_id.tolist() == [
        -1,
        -1,
    ]


def test_skipped_annotations_are_left_out_whatever_their_shape_and_classification():
    line = {"type": "LineString", "coordinates": [[1, 2], [3, 4]]}
    by_type = feature(cls=None, properties={"objectType": "Tile"})
    content = [feature(cls="ROI"), feature(line, cls="roi"), by_type, feature(id="n")]
    assert read(content, skipped=["roi", "tile"]).source_id.tolist() == ["n"]


def test_an_unknown_class_is_told_once_with_its_number():
    content = [feature(), *[feature(cls="Lymphocytes")] * 18, feature(cls={"a": 1})]
    lines = [str(fault) for fault in faults_of(content, "geojson")]
    assert lines == [
        "[unknown-class] 'nuclei.json', feature 2, feature 3, feature 4 and 15 more: 'Lymphocytes' is not a class of "
        "this challenge; expected 'epi', 'epithelial' or 'lymphocyte'. Did you mean 'lymphocyte'?",
        "[unknown-class] 'nuclei.json', feature 20: '{\"a\": 1}' is not a class of this challenge; expected "
        "'epi', 'epithelial' or 'lymphocyte'.",
    ]


def test_the_id_is_that_of_the_feature_its_name_or_its_position():
    named = feature(properties={"name": "N 7"})
    content = [
        feature(id="a"),
        feature(id=12),
        named,
        feature(id=""),
        feature(id="PathDetectionObject"),
        feature(id=[1]),
    ]
    content += [named | {"id": "PathAnnotationObject"}, feature(id=True), feature(id=None)]
    assert read(content).source_id.tolist() == ["a", "12", "N 7", "4", "5", "6", "N 7", "8", "9"]


@pytest.mark.parametrize(
    "properties",
    [
        {"probability": 0.25},
        {"score": 0.25, "measurements": {"Probability": 0.5}},
        {"measurements": {"Area": 7, "Probability": 0.25}},
        {"measurements": {"Detection probability": 0.25}},
        {"measurements": [{"name": "Area", "value": 7}, {"name": "confidence", "value": 0.25}, 7]},
        {"probability": None, "measurements": {"probability": 0.25}},
        {"type": "epi", "prob": 0.25},
    ],
)
def test_a_probability_is_a_property_or_a_measurement(properties):
    outlines = read([feature(properties=properties)])
    assert outlines.probability is not None
    assert outlines.probability.dtype == np.float64
    assert outlines.probability.tolist() == [0.25]


def test_measurements_of_other_kinds_are_no_probability():
    contents = [{"prob": 7}] + [{"measurements": value} for value in (None, 7, [], {}, {"Area": 1}, [{"value": 1}])]
    assert read([feature(properties=properties) for properties in contents]).probability is None


@pytest.mark.parametrize("value", [-0.1, 1.5, 1e300, "0.5", True, [0.5], {}])
def test_probabilities_outside_of_0_to_1_are_told(value):
    content = [feature(properties={"probability": 1}), feature(properties={"probability": value})]
    (fault,) = faults_of(content, "geojson")
    assert (fault.code, fault.where) == ("invalid-probability", "'nuclei.json', feature 2")


def test_a_probability_that_only_some_nuclei_have_is_told():
    content = [feature(cls="ROI"), feature(properties={"probability": 0}), feature()]
    (fault,) = faults_of(content, "geojson", skipped=["roi"])
    assert (fault.code, fault.where) == ("missing-probability", "'nuclei.json', feature 3")


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ({"vertices_per_file": 7}, "more than 7 vertices; expected at most 7. "),
        ({"instances_per_case": 1}, "more than 1 features or nuclei; expected at most 1. "),
    ],
)  # fmt: skip
def test_limits_are_named(limits, line):
    told = fault_of([feature(), feature()], limits=limits)
    assert told.startswith(f"[too-large] 'nuclei.json': {line}")
    assert all(f"limits.{key} in challenge.toml" in told for key in limits)
    wider = {key: value + 1 for key, value in limits.items()}
    assert len(read([feature(), feature()], limits=wider)) == 2


def test_the_points_of_a_multipoint_are_counted():
    content = [feature({"type": "MultiPoint", "coordinates": [[1, 1]] * 5})]
    assert "more than 4 features or nuclei" in fault_of(content, shape="point", limits={"instances_per_case": 4})


# --- writing ----------------------------------------------------------------------------------------------------------


def outlines_of(shapes, class_id, probability=None, source_id=None) -> Outlines:
    """Outlines from lists of parts, which are lists of rings, each as a list of vertices."""
    rings = [
        (index, ring, hole > 0)
        for index, parts in enumerate(shapes)
        for part in parts
        for hole, ring in enumerate(part)
    ]
    points = [vertex for _, ring, _ in rings for vertex in ring]
    return Outlines(
        points_xy=np.array(points, np.float64).reshape(-1, 2),
        ring_start=np.cumsum([0, *(len(ring) for _, ring, _ in rings)]),
        ring_instance=np.array([index for index, _, _ in rings], np.int32),
        ring_is_hole=np.array([hole for _, _, hole in rings], np.bool_),
        class_id=np.array(class_id, np.int16),
        source_id=np.array([*(source_id or map(str, range(len(shapes)))), None], object)[:-1],
        probability=None if probability is None else np.array(probability, np.float64),
    )


def same_outlines(first: Outlines, second: Outlines) -> bool:
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("points_xy", "ring_start", "ring_instance", "ring_is_hole", "class_id", "source_id")
    ) and (
        (first.probability is None and second.probability is None)
        or np.array_equal(first.probability, second.probability)
    )


COORDINATES = st.one_of(st.integers(-1000, 100000), st.floats(-1e8, 1e8))


@st.composite
def some_outlines(draw) -> Outlines:
    """Rectangles in a row, each with a triangle as a hole or not; the fractions are arbitrary."""
    shapes = []
    count = draw(st.integers(0, 4))
    for _ in range(count):
        parts = []
        for index in range(draw(st.integers(1, 3))):
            x, y = 100 * index + draw(st.floats(0, 10)), draw(COORDINATES)
            ring = [[x, y], [x + 50, y], [x + 50, y + 50], [x, y + 60]]
            holes = [[[x + 10, y + 10], [x + 20, y + 10], [x + 20, y + 30]]] * draw(st.integers(0, 2))
            parts.append([ring, *holes])
        shapes.append(parts)
    probability = st.one_of(st.none(), st.lists(st.floats(0, 1, width=32), min_size=count, max_size=count))
    class_id = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return outlines_of(shapes, class_id, draw(probability) if count else None)


@given(some_outlines())
def test_what_is_written_is_read_again(outlines):
    data = write_geojson(outlines, ["Epithelial", "Lymphocyte"], ["#ff0080", None])
    assert same_outlines(read(data), outlines)


def test_a_written_file_has_the_structure_of_qupath(shared_data):
    outlines = outlines_of([[[RING[:-1]]], [[OTHER[:-1], HOLE[:-1]], [RING[:-1]]]], [1, 2], [0.1, 1], ["a", "b"])
    written = json.loads(write_geojson(outlines, ["Epithelial", "Lymphocyte"], ["#ff0080", None]))
    classification = {"name": "Epithelial", "color": [255, 0, 128]}
    assert written == collection(
        {
            "type": "Feature",
            "id": "a",
            "geometry": polygon(RING),
            "properties": {
                "objectType": "annotation", "classification": classification, "measurements": {"Probability": 0.1}
            },
        },
        {
            "type": "Feature",
            "id": "b",
            "geometry": {"type": "MultiPolygon", "coordinates": [[OTHER, HOLE], [RING]]},
            "properties": {
                "objectType": "annotation",
                "classification": {"name": "Lymphocyte"},
                "measurements": {"Probability": 1.0},
            },
        },
    )  # fmt: skip
    theirs = json.loads((shared_data / "asap_geojson/tests/files/qupath05.geojson").read_text())
    for item in (written, theirs):
        assert set(item) == {"type", "features"}
        assert {frozenset(one) for one in item["features"]} == {frozenset({"type", "id", "geometry", "properties"})}
        assert {one["properties"]["objectType"] for one in item["features"]} == {"annotation"}


def test_whole_coordinates_are_written_without_a_point():
    square = outlines_of([[[OTHER[:-1]]]], [0])
    assert b'"coordinates":[[[10,10],[20,10],[20,20],[10,20],[10,10]]]' in write_geojson(square, [], [])


def test_holes_go_to_the_smallest_part_around_them_and_strays_to_the_first():
    def square(x, size):
        return [[x, 0], [x + size, 0], [x + size, size], [x, size]]

    def ring(*numbers):
        return [all_rings[number] for number in numbers]

    all_rings = [square(0, 100), square(200, 100), square(1, 50), square(210, 5), square(5, 5), square(400, 5)]
    outlines = outlines_of([[all_rings]], [0])
    outlines = Outlines(
        points_xy=outlines.points_xy,
        ring_start=outlines.ring_start,
        ring_instance=outlines.ring_instance,
        ring_is_hole=np.array([False, False, False, True, True, True]),
        class_id=outlines.class_id,
        source_id=outlines.source_id,
    )
    (item,) = json.loads(write_geojson(outlines, [], []))["features"]
    parts = [[ring[:-1] for ring in part] for part in item["geometry"]["coordinates"]]
    assert parts == [ring(0, 5), ring(1, 3), ring(2, 4)]


def test_rings_of_few_vertices_get_four_positions_and_cover_the_same_pixels():
    outlines = outlines_of([[[[[3, 3]]]], [[[[3, 3], [7, 3]]]], [[[[3, 3], [7, 3], [3, 3]]]]], [1, 1, 1])
    data = write_geojson(outlines, ["Epithelial"], [None])
    sizes = [len(one["geometry"]["coordinates"][0]) for one in json.loads(data)["features"]]
    assert sizes == [4, 4, 4]
    rules = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}
    before, after = (rasterise_outlines(one, (10, 10), **rules) for one in (outlines, read(data)))
    assert before.run_start.tolist() == after.run_start.tolist()
    assert before.run_instance.tolist() == after.run_instance.tolist()


def test_nuclei_without_vertices_are_left_out():
    outlines = outlines_of([[[[]]], [[OTHER[:-1], []]]], [0, 0], [0, 1])
    assert read(write_geojson(outlines, [], [])).probability.tolist() == [1]


@pytest.mark.parametrize("class_id", [-1, 3])
def test_ignore_classes_have_no_name_to_write(class_id):
    with pytest.raises(ValueError, match=f"class id {class_id}"):
        write_geojson(outlines_of([[[OTHER]]], [class_id]), ["a", "b"], [None, None])


# --- hostile files ----------------------------------------------------------------------------------------------------

VALUES = st.sampled_from(
    [b"null", b"[]", b"{}", b"-1", b"1e999", b"NaN", b'""', b"[[[]]]", b"true", b'"\\u0000"', b"9" * 40]
)


# --- real files -------------------------------------------------------------------------------------------------------


def read_real(path: Path, *, shape: str = "outline", classes=PUMA_CLASSES) -> Outlines | Points:
    ids = {name.casefold(): index for index, name in enumerate(classes, start=1)}
    request = json_request("geojson", shape=shape, classes=classes, ids=ids)
    with path.open("rb") as stream:
        (part,) = read_geojson(stream, request, Case("a", "a", 1024, 1024)).parts
    return part


def shapely_geometries(path: Path) -> list[shapely.Geometry]:
    data = path.read_bytes()
    text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    content = json.loads(text)
    return [shapely.from_geojson(json.dumps(one["geometry"])) for one in content["features"]]


@pytest.mark.parametrize(
    ("name", "nuclei"),
    [
        ("metastatic_roi_029_nuclei.geojson.gz", 546),
        ("metastatic_roi_102_nuclei.geojson", 302),
        ("primary_roi_101_nuclei.geojson", 382),
        ("primary_roi_102_nuclei.geojson", 471),
    ],
)
def test_puma_is_read_as_shapely_reads_it(shared_data, name, nuclei):
    path = shared_data / "puma/reference" / f"training_set_{name}"
    outlines = read_real(path)
    theirs = shapely_geometries(path)
    polygons = shapely.get_parts(theirs)
    assert len(outlines) == len(theirs) == nuclei
    assert int((~outlines.ring_is_hole).sum()) == len(polygons)
    assert int(outlines.ring_is_hole.sum()) == shapely.get_num_interior_rings(polygons).sum() > 0
    assert (outlines.points_xy.min(), outlines.points_xy.max()) == (0, 1024)
    rings = [shapely.Polygon(ring).area if len(ring) > 2 else 0.0 for ring in rings_of(outlines)]
    area = np.bincount(outlines.ring_instance, np.where(outlines.ring_is_hole, -1, 1) * rings)
    assert area == pytest.approx(shapely.area(theirs))


def test_puma_names_its_classes(shared_data):
    outlines = read_real(shared_data / "puma/reference/training_set_metastatic_roi_029_nuclei.geojson.gz")
    counts = Counter(PUMA_CLASSES[class_id - 1] for class_id in outlines.class_id)
    assert counts == {"nuclei_tumor": 528, "nuclei_apoptosis": 15, "nuclei_lymphocyte": 3}


def test_cellvit_points_are_nuclei(shared_data):
    path = shared_data / "cellvit/cell_detection.geojson"
    points = read_real(path, shape="point", classes=["Neoplastic", "Inflammatory", "Connective"])
    assert np.bincount(points.class_id).tolist() == [0, 36, 3562, 34329]
    assert points.points_xy[0].tolist() == [20290, 9161]
    assert len(set(points.source_id.tolist())) == 37927


def test_annotations_of_qupath_without_a_classification_have_no_class(shared_data):
    outlines = read_real(shared_data / "asap_geojson/tests/files/qupath05.geojson")
    assert outlines.class_id.tolist() == [0, 0, 0]
    assert len(outlines.points_xy) == sum(
        len(geometry.exterior.coords) - 1
        for geometry in shapely_geometries(shared_data / "asap_geojson/tests/files/qupath05.geojson")
    )


def test_measurements_that_are_no_numbers_do_not_matter_but_coordinates_do():
    """QuPath writes bare NaN where it could not measure; a text that looks like one stays as it is."""
    text = json.dumps(collection(feature(id='NaN "Infinity', properties={"measurements": {"a": 1.5, "b": -2.5}})))
    outlines = read(text.replace("1.5", "NaN").replace("-2.5", "-Infinity").encode())
    assert outlines.source_id.tolist() == ['NaN "Infinity']
    assert "[invalid-coordinate]" in fault_of(text.replace("6.5", "NaN").encode())


# --- CellViT: a MultiPolygon for each class ---------------------------------------------------------------------------


IDS_OF_CELLVIT = {"neoplastic": 1, "inflammatory": 2}


def cellvit(number: int) -> list[dict]:
    """``cells.geojson`` as CellViT writes it: a list of features, a MultiPolygon with all nuclei of a class in each."""
    features = []
    for place, name in enumerate(("Neoplastic", "Inflammatory")):
        rings = [
            [[[x, y], [x + 6, y], [x + 6, y + 6], [x, y + 6], [x, y]]]
            for x, y in ((12 * index, 20 * place) for index in range(number))
        ]
        features.append(
            {
                "type": "Feature",
                "id": f"3b1d{place}",
                "geometry": {"type": "MultiPolygon", "coordinates": rings},
                "properties": {"objectType": "annotation", "classification": {"name": name, "color": [255, 0, 0]}},
            }
        )
    return features


def test_parts_of_a_multipolygon_are_nuclei_where_the_rules_say_so():
    names = ("Neoplastic", "Inflammatory")
    apart = read(cellvit(40), classes=names, ids=IDS_OF_CELLVIT, parts="apart")
    assert len(apart) == 80
    assert np.bincount(apart.class_id).tolist() == [0, 40, 40]
    assert apart.source_id[:2].tolist() == ["3b1d0/1", "3b1d0/2"]
    assert len(read(cellvit(40), classes=names, ids=IDS_OF_CELLVIT, parts="together")) == 2


def test_many_parts_that_count_as_one_nucleus_are_told():
    said = read_json_file(cellvit(40), "geojson", classes=("Neoplastic", "Inflammatory"), ids=IDS_OF_CELLVIT)
    assert [finding.code for finding in said.findings] == ["many-parts", "many-parts"]
    assert "40 parts" in said.findings[0].got
    assert (
        read_json_file(cellvit(3), "geojson", classes=("Neoplastic", "Inflammatory"), ids=IDS_OF_CELLVIT).findings == ()
    )


def test_compare_takes_the_parts_for_nuclei(tmp_path):
    for side in ("reference", "cells"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "slide.geojson").write_text(json.dumps(cellvit(40)))
    found = evaluation.compare(tmp_path / "reference", tmp_path / "cells")
    assert sum(case.counts["iou_above"].true_positives for case in found.result_of().cases) == 80
    assert found.value("classification.accuracy.pooled") == 1
