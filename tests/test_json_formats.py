"""GeoJSON, and the platform's "Multiple polygons" and "Multiple points": what a file means, and what is refused.

The oracles are shapely and the files of QuPath, PUMA, CellViT and ASAP.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from json_files import CLASSES, faults_of, read_json_file

import evaluation
from evaluation.findings.errors import InputFault
from evaluation.formats.geojson import write_geojson
from evaluation.formats.listed_nuclei import write_points_json, write_polygons_json
from evaluation.instances.rasterise import rasterise_outlines
from evaluation.model import Outlines, Points

RING = [[1, 2], [5, 2], [1, 6.5], [1, 2]]
OTHER = [[10, 10], [20, 10], [20, 20], [10, 20], [10, 10]]
HOLE = [[12, 12], [14, 12], [14, 15], [12, 12]]
PATH = [[1, 2, 0.5], [5, 2, 0.5], [1, 6.5, 0.5]]
GEOJSON, POINTS = {"format": "geojson"}, {"format": "geojson", "shape": "point"}
POLYGONS_JSON, POINTS_JSON = {"format": "polygons_json"}, {"format": "points_json"}
PUMA_CLASSES = [
    f"nuclei_{name}"
    for name in (
        "tumor", "lymphocyte", "plasma_cell", "histiocyte", "melanophage",
        "neutrophil", "stroma", "epithelium", "endothelium", "apoptosis",
    )
]  # fmt: skip


def shape(*rings) -> dict:
    return {"type": "Polygon", "coordinates": list(rings or [RING])}


def spot(*coordinates, kind="MultiPoint") -> dict:
    return {"type": kind, "coordinates": list(coordinates)}


def feature(geometry=None, cls="Epithelial", **keys) -> dict:
    properties = {"objectType": "annotation"} | ({} if cls is None else {"classification": {"name": cls}})
    properties |= keys.pop("properties", {})
    return {"type": "Feature", "geometry": geometry or shape(), "properties": properties} | keys


def collection(*features: dict) -> dict:
    return {"type": "FeatureCollection", "features": list(features)}


def polygon(path=None, name: Any = "Epithelial", **keys) -> dict:
    return {"name": name, "seed_point": [0, 0, 0], "path_points": PATH if path is None else path, "sub_type": "",
            "groups": []} | keys  # fmt: skip


def polygons(*items) -> dict:
    return {"type": "Multiple polygons", "version": {"major": 1, "minor": 0}, "polygons": list(items)}


def point(*position, name: Any = "Epithelial", **keys) -> dict:
    return {"point": list(position), "name": name} | keys


def points(*items) -> dict:
    return {"type": "Multiple points", "version": {"major": 1, "minor": 0}, "points": list(items)}


def read(content, format="geojson", **options) -> Any:
    (part,) = read_json_file(content, format, **options).parts
    return part


def read_points(content, **options) -> Points:
    return read(content, "points_json", **options)


def rings_of(outlines: Outlines) -> list[list[list[float]]]:
    return [ring.tolist() for ring in np.split(outlines.points_xy, outlines.ring_start[1:-1])]


# --- what is read -----------------------------------------------------------------------------------------------------

CELL = feature(shape(OTHER), nucleusGeometry=shape(HOLE), properties={"objectType": "cell"})
CHILD = feature(shape(HOLE), id="child", properties={"childObjects": [feature(id="grandchild")]})
PARENT = feature(shape(OTHER), id="parent", properties={"childObjects": [CHILD, feature(id="second")]})
REGION = feature(shape(OTHER), cls="ROI", properties={"childObjects": [feature(id="cell")]})
NAMED = feature(properties={"name": "N 7"})
LINE = spot([1, 2], [3, 4], kind="LineString")
ONE = {"classes": ["nucleus"], "ids": {"nucleus": 1}}
ALIAS = {"ids": {"epithelial": 1, "lymphocyte": 2, "": 2}}
WIDE = {"classes": ["Epithelial", "Lymphocyte", "T: Positive"],
        "ids": {"epithelial": 1, "epi": 1, "lymphocyte": 2, "7": 2, "t: positive": 3, "ambiguous": -1}}  # fmt: skip
TRIANGLE = RING[:-1]
NAMES = polygons(polygon(name=" EPI "), polygon(name="Ambiguous"), polygon(name="ROI"), polygon(name=None))
MM = {"units": "mm", "spacing_um": 0.5}

READ = [
    # --- GeoJSON: what a file may be, and its geometries
    *(("a collection, a list, a feature and a compressed file say the same", content, GEOJSON,
       {"rings": [TRIANGLE], "class_id": [1], "source_id": ["n1"], "ring_start": [0, 3], "probability": None})
      for one in [feature(id="n1")] for content in (
          collection(one), [one], one, gzip.compress(json.dumps([one]).encode()))),
    *(("a geometry without a feature is a nucleus of the only class", content, GEOJSON | ONE,
       {"class_id": [1], "source_id": ["1"]}) for content in (collection(shape()), [shape()], shape())),
    ("the members of a file that is one geometry collection are nuclei",
     {"type": "GeometryCollection", "geometries": [shape(), shape(OTHER)]}, GEOJSON | {"file_class": 2},
     {"class_id": [2, 2]}),
    *(("a file without features has no nuclei", content, of, {"points_xy": [], "class_id": []})
      for content in (collection(), []) for of in (GEOJSON, POINTS)),
    ("a polygon has holes and a MultiPolygon parts in the order of the document",
     collection(feature({"type": "MultiPolygon", "coordinates": [[OTHER, HOLE], [RING]]}), feature(shape(RING, HOLE))),
     GEOJSON, {"ring_instance": [0, 0, 0, 1, 1], "ring_is_hole": [False, True, False, False, True],
               "rings": [OTHER[:-1], HOLE[:-1], TRIANGLE, TRIANGLE, HOLE[:-1]]}),
    ("a collection in a feature is one nucleus of all its parts",
     feature({"type": "GeometryCollection", "geometries": [
         shape(OTHER), {"type": "GeometryCollection", "geometries": [shape(HOLE)]}, shape(RING)]}), GEOJSON,
     {"class_id": [1], "rings": [OTHER[:-1], HOLE[:-1], TRIANGLE]}),
    ("open and closed rings are the same, and only a repeated vertex is dropped",
     [feature(shape(TRIANGLE)), feature(shape([[3, 3]])), feature(shape([[3, 3], [3, 3]]))], GEOJSON,
     {"rings": [TRIANGLE, [[3, 3]], [[3, 3]]]}),
    ("a third coordinate is not looked at", feature(shape([[1, 2, 0], [5, 2], [1, 6.5, None], [1, 2, 9]])), GEOJSON,
     {"rings": [TRIANGLE]}),
    ("the nucleus of a cell is its nucleus geometry", [CELL, CELL | {"nucleusGeometry": None}], GEOJSON,
     {"rings": [HOLE[:-1], OTHER[:-1]]}),
    ("children of an object of QuPath come after it", [PARENT, feature(id="last")], GEOJSON,
     {"source_id": ["parent", "child", "grandchild", "second", "last"]}),
    ("children of a skipped object stay", [REGION], GEOJSON | {"skipped": ["roi"]}, {"source_id": ["cell"]}),
    ("empty holes are left out", feature(shape(RING, [], HOLE)), GEOJSON, {"ring_is_hole": [False, True]}),
    ("every point of a MultiPoint is a nucleus of its own",
     [feature(spot([1, 2], [3, 4.5, 0]), id="m"), feature(spot(7, 8, kind="Point"), "Lymphocyte")], POINTS,
     {"points_xy": [[1, 2], [3, 4.5], [7, 8]], "class_id": [1, 1, 2], "source_id": ["m/1", "m/2", "2"]}),
    ("points that repeat the first one are not dropped", [feature(spot([1, 2], [3, 4], [1, 2]))], POINTS,
     {"points_xy": [[1, 2], [3, 4], [1, 2]]}),
    # --- GeoJSON: classes, ids and probabilities
    *(("the class is the classification, or an object type that is a class",
       [{"type": "Feature", "geometry": shape(), "properties": properties}], GEOJSON | WIDE, {"class_id": [class_id]})
      for properties, class_id in (
          ({"classification": {"name": " LYMPHOcyte "}}, 2), ({"classification": "epi"}, 1),
          ({"classification": {"name": "Ambiguous", "color": [1, 2, 3]}}, -1),
          ({"classification": {"names": ["T", "Positive"]}}, 3),
          ({"classification": {"name": "Epithelial"}, "objectType": "Lymphocyte"}, 1),
          ({"objectType": "lymphocyte"}, 2), ({"classification": None, "objectType": "lymphocyte"}, 2),
          ({"classification": {}, "objectType": "lymphocyte"}, 2),
          ({"classification": {"name": None}, "objectType": "annotation"}, 0),
          ({"objectType": "annotation", "name": "Lymphocyte"}, 0), ({"objectType": ["lymphocyte"]}, 0),
          ({"type": "Lymphocyte"}, 2), ({"type": 7, "objectType": "annotation"}, 2),
          ({"type": "Lymphocyte", "classification": "epi"}, 1), ({"type": "Lymphocyte", "objectType": "epi"}, 1),
          ({}, 0), (None, 0), ([], 0), (7, 0))),
    *(("a flat type matters to nobody who needs no name", [feature(cls=None, properties={"type": kind})],
       GEOJSON | {"classes": ["Cell"], "ids": {"cell": 1}}, {"class_id": [1]}) for kind in ("Neoplastic", 3)),
    ("a nameless feature has the class of the empty alias", [feature(cls=None)], GEOJSON | ALIAS, {"class_id": [2]}),
    ("the class of the file wins and no name is looked at", [feature(cls="Unknown"), feature(cls="ROI")],
     GEOJSON | {"file_class": -1, "skipped": ["roi"]}, {"class_id": [-1, -1]}),
    ("skipped annotations are left out whatever their shape and classification",
     [feature(cls="ROI"), feature(LINE, cls="roi"), feature(cls=None, properties={"objectType": "Tile"}),
      feature(id="n")], GEOJSON | {"skipped": ["roi", "tile"]}, {"source_id": ["n"]}),
    ("the id is that of the feature, its name or its position",
     [feature(id="a"), feature(id=12), NAMED, feature(id=""), feature(id="PathDetectionObject"), feature(id=[1]),
      NAMED | {"id": "PathAnnotationObject"}, feature(id=True), feature(id=None)], GEOJSON,
     {"source_id": ["a", "12", "N 7", "4", "5", "6", "N 7", "8", "9"]}),
    *(("a probability is a property or a measurement", [feature(properties=properties)], GEOJSON,
       {"probability": [0.25]}) for properties in (
        {"probability": 0.25}, {"score": 0.25, "measurements": {"Probability": 0.5}},
        {"measurements": {"Area": 7, "Probability": 0.25}}, {"measurements": {"Detection probability": 0.25}},
        {"measurements": [{"name": "Area", "value": 7}, {"name": "confidence", "value": 0.25}, 7]},
        {"probability": None, "measurements": {"probability": 0.25}}, {"type": "epi", "prob": 0.25})),
    ("measurements of other kinds are no probability",
     [feature(properties=of) for of in ({"prob": 7}, *({"measurements": value} for value in (
         None, 7, [], {}, {"Area": 1}, [{"value": 1}])))], GEOJSON, {"probability": None}),
    # --- the platform
    ("polygons are outlines of one ring", polygons(polygon(), polygon([[7, 8], [9, 8], [9, 9]], "lymphocyte")),
     POLYGONS_JSON, {"rings": [TRIANGLE, [[7, 8], [9, 8], [9, 9]]], "ring_instance": [0, 1], "class_id": [1, 2],
                     "ring_is_hole": [False, False], "source_id": [1, 2], "probability": None}),
    *(("the type may be missing, or that of one", content, POLYGONS_JSON, {"rings": [TRIANGLE]})
      for content in ({"polygons": [polygon()]}, polygon() | {"type": "Polygon", "version": {}})),
    *(("the type may be missing, or that of one", content, POINTS_JSON, {"points_xy": [[1, 2]]})
      for content in ({"points": [point(1, 2)]}, point(1, 2) | {"type": "Point"})),
    ("an empty list has no nuclei", polygons(), POLYGONS_JSON, {"class_id": []}),
    *(("units become pixels by the spacing", polygons(polygon()), POLYGONS_JSON | {"units": units, "spacing_um": 0.25},
       {"rings": [[[factor * x, factor * y] for x, y in TRIANGLE]]})
      for units, factor in (("px", 1), ("um", 4), ("mm", 4000))),
    ("units become pixels by the spacing", points(point(0.5, 0.25, 0)), POINTS_JSON | MM,
     {"points_xy": [[1000, 500]]}),
    ("one or two vertices are an outline", polygons(polygon(PATH[:1]), polygon(PATH[:2])), POLYGONS_JSON,
     {"ring_start": [0, 1, 3]}),
    ("names are classes", NAMES, POLYGONS_JSON | {"skipped": ["roi"]},
     {"class_id": [1, -1, 0], "source_id": [1, 2, 4]}),
    ("the path of the file tells the class", NAMES, POLYGONS_JSON | {"file_class": 2}, {"class_id": [2, 2, 2, 2]}),
    ("probabilities are those of all nuclei that count",
     polygons(polygon(probability=1), polygon(name="ROI"), polygon(probability=0.1)),
     POLYGONS_JSON | {"skipped": ["roi"]}, {"probability": [1, 0.1]}),
    ("or of none", polygons(polygon(probability=None), polygon()), POLYGONS_JSON, {"probability": None}),
    ("points have two or three coordinates",
     points(point(1, 2, 0.5, probability=1), point(3, 4.5, name="Lymphocyte", probability=0.5)), POINTS_JSON,
     {"points_xy": [[1, 2], [3, 4.5]], "class_id": [1, 2], "source_id": [1, 2], "probability": [1, 0.5]}),
    *(("numbered names are no names", points(point(1, 2, name=name)), POINTS_JSON | options, {"class_id": [expected]})
      for name, options, expected in (
          ("Point 0", ONE, 1), ("Point 12", ONE, 1), ("Point 1", {"ids": {"point 1": 2}}, 2), ("Point 1", {}, 0))),
]  # fmt: skip


@pytest.mark.parametrize(("why", "content", "options", "expected"), READ, ids=[row[0] for row in READ])
def test_a_file_becomes_these_annotations(why, content, options, expected):
    annotations = read_json_file(content, **options)
    (part,) = annotations.parts
    found = {key: getattr(part, key, None) for key in expected} | ({"rings": None} if "rings" in expected else {})
    found = {key: value if value is None else value.tolist() for key, value in found.items()}
    assert found | ({"rings": rings_of(part)} if "rings" in expected else {}) == expected
    assert part.probability is None or part.probability.dtype == np.float64
    assert part.points_xy.shape[1:] == (2,) and annotations.findings == ()


LEFT_OUT = [
    ([feature(spot(7, 8, kind="Point")), feature(cls="Unknown"), feature()], POINTS | {"other_shapes": "skip"},
     ["feature 2", "feature 3"]),
    ([feature() | {"geometry": None}, feature()], GEOJSON, ["feature 1"]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "places"), LEFT_OUT)
def test_other_shapes_and_features_without_one_are_left_out_with_a_warning(content, options, places):
    found = read_json_file(content, **options)
    assert len(found.parts[0]) == 1
    assert [(finding.code, finding.severity, finding.where) for finding in found.findings] == [
        ("left-out", "warning", f"'nuclei.json', {place}") for place in places
    ]


AROUND = shape([[0, 0], [99, 0], [99, 99], [0, 99]])


def of_type(kind: str, geometry: dict, cls: str | None = "Epithelial") -> dict:
    return feature(geometry, cls=cls, properties={"objectType": kind})


def test_a_region_around_detections_is_left_out_whatever_its_class_but_one_that_is_not_scored():
    """Unlike a challenge's other annotations, whose classes must be known."""
    nucleus = of_type("detection", shape(OTHER))
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
    content = collection(*[of_type("annotation", AROUND)] * 4, *[of_type("detection", shape(OTHER))] * 5)
    monkeypatch.setattr("evaluation.formats.geojson.MOST_INSIDE", 20)
    assert len(read(content)) == 5
    monkeypatch.setattr("evaluation.formats.geojson.MOST_INSIDE", 19)
    assert "more than 19 pairs of an annotation and a detection inside it" in str(faults_of(content, "geojson")[0])


# --- what is refused --------------------------------------------------------------------------------------------------

GEOJSON_IS = (
    "expected GeoJSON: a FeatureCollection, a list of features, a Feature or a geometry. Write the file again in this "
    "format."
)
PLATFORM_IS = "file of the platform. Write the file again in this format."
KNOWN = "is not a class of this challenge; expected 'epi', 'epithelial' or 'lymphocyte'."
OUTLINES_ARE = "expected 'Polygon' or 'MultiPolygon'. Write each nucleus as an outline, or leave the feature out."
NO_NUMBERS = [None, 7, [], [1], "12", {"x": 1}, [None, 1], ["1", "2"], [True, 1], [1, False], [1e10, 0], [0, -1.1e9],
              [[1], 2], [10**30, 1], [None] * 2]  # fmt: skip
EMPTY = [
    shape([]), shape([], HOLE), spot(kind="Polygon"), spot(kind="MultiPolygon"), spot([RING], [], kind="MultiPolygon"),
]  # fmt: skip
FAR = polygons(polygon([[1e6, 0, 0], [0, 0, 0], [0, 1e308, 0]]))

REFUSED = [  # how the lines begin, behind the name of the file
    *((content, GEOJSON, [f"[wrong-format] {got}; {GEOJSON_IS}"]) for content, got in (
        ({"type": "Multiple polygons", "polygons": []}, "an object of the type 'Multiple polygons'"),
        ({"images": [], "annotations": []}, "an object with the keys 'images' and 'annotations'"),
        ({"type": "FeatureCollection", "features": None}, "a FeatureCollection without a list of features"),
        ({}, "an empty object"), (7, "the value '7'"), ("text", "the value '\"text\"'"))),
    *((content, POLYGONS_JSON, [f"[wrong-format] {got}; expected a 'Multiple polygons' {PLATFORM_IS}"])
      for content, got in (
          ({"type": "Multiple points", "points": []}, "an object of the type 'Multiple points'"),
          ({"type": "Multiple points", "polygons": []}, "an object of the type 'Multiple points'"),
          ({"type": "FeatureCollection", "features": []}, "an object of the type 'FeatureCollection'"),
          ({"type": "Polygon", "coordinates": []}, "an object of the type 'Polygon'"),
          ({"type": "Multiple polygons"}, "a 'Multiple polygons' file without its list"),
          ({"polygons": {}}, "a 'Multiple polygons' file without its list"), ([polygon()], "a list"),
          (7, "the value '7'"))),
    *((content, POINTS_JSON, ["[wrong-format] "]) for content in (
        polygons(), [[1, 2, 0]], {"type": "Point", "coordinates": [1, 2]}, {"007.tiff": [[1, 2, 0]]})),
    # --- shapes
    ([feature(), *map(feature, EMPTY)], GEOJSON, [f"[empty-polygon] feature {number}" for number in range(2, 7)]),
    (polygons(polygon(), polygon([])), POLYGONS_JSON, ["[empty-polygon] polygon 2"]),
    *(([feature(geometry)], GEOJSON, [f"[invalid-annotation] feature 1: {got}"]) for geometry, got in (
        (spot([1, 2], [3, 4], kind="Polygon"), "the coordinates of a 'Polygon' are '[[1, 2], [3, 4]]'"),
        ({"type": "Polygon", "coordinates": 7}, "the coordinates of a 'Polygon' are '7'"),
        ({"type": "Polygon", "coordinates": [{}]}, "the coordinates of a 'Polygon' are '[{}]'"),
        ({"type": "Polygon"}, "the coordinates of a 'Polygon' are 'null'"),
        ({"type": "MultiPolygon", "coordinates": [7]}, "the coordinates of a 'MultiPolygon' are '[7]'"),
        ({"type": "MultiPolygon", "coordinates": [[7]]}, "the coordinates of a 'MultiPolygon' are '[[7]]'"),
        ({"type": "GeometryCollection"}, "the geometries of a collection are 'null'"),
        ({"type": "GeometryCollection", "geometries": [7]}, "'7' as a geometry"),
        (["Polygon"], "'[\"Polygon\"]' as a geometry"))),
    ([feature({"type": ["Polygon"]})], GEOJSON, ["[invalid-annotation] feature 1: a geometry of the type '[\"Polyg"]),
    *(([feature(), feature(spot([1, 2], [3, 4], kind=kind))], GEOJSON,
       [f"[unsupported-shape] feature 2: a geometry of the type '{kind}'; {OUTLINES_ARE}"])
      for kind in ("LineString", "MultiLineString", "Circle")),
    *(([feature(), feature(geometry)], GEOJSON,
       [f"[unsupported-shape] feature 2: a geometry of the type 'Point'; {OUTLINES_ARE}"])
      for geometry in (spot(1, 2, kind="Point"), spot([1, 2], [3, 4]))),
    ([feature(spot(7, 8, kind="Point")), feature()], POINTS, ["[unsupported-shape] feature 2"]),
    *(([feature(), item], GEOJSON, ["[invalid-annotation] feature 2"])
      for item in (7, None, "Feature", [], {}, {"type": "Circle"}, {"type": []}, {"id": 1})),
    *((polygons(polygon(), item), POLYGONS_JSON, ["[invalid-annotation] polygon 2"]) for item in (
        None, 7, [], {}, {"path_points": None}, {"path_points": {"x": 1}}, {"point": [1, 2, 3]})),
    *((points(point(1, 2), item), POINTS_JSON, ["[invalid-annotation] point 2"])
      for item in (None, 7, [], {}, {"path_points": []})),
    # --- coordinates
    *((content, options, [f"[invalid-coordinate] {place}"]) for position in NO_NUMBERS for content, options, place in (
        ([feature(), feature(shape(RING, [*HOLE[:2], position, *HOLE[2:]]))], GEOJSON, "feature 2, ring 2, vertex 3"),
        (polygons(polygon([*PATH, position])), POLYGONS_JSON, "polygon 1, vertex 4"),
        (points(point(1, 2), {"point": position}), POINTS_JSON, "point 2"),
        ([feature({"type": "Point", "coordinates": position})], POINTS, "feature 1"),
        ([feature(spot([1, 1], position))], POINTS, "feature 1, vertex 2"))),
    (FAR, POLYGONS_JSON | MM, [f"[invalid-coordinate] polygon 1, vertex {vertex}" for vertex in (1, 3)]),
    (FAR, POLYGONS_JSON, ["[invalid-coordinate] polygon 1, vertex 3"]),
    # --- classes and probabilities
    ([feature(), *[feature(cls="Lymphocytes")] * 18, feature(cls={"a": 1})], GEOJSON,
     ["[unknown-class] feature 2, feature 3, feature 4 and 15 more: 'Lymphocytes' is not a class of this challenge; "
      "expected 'epi', 'epithelial' or 'lymphocyte'. Did you mean 'lymphocyte'?",
      f"[unknown-class] feature 20: '{{\"a\": 1}}' {KNOWN}"]),
    *(([feature(cls=None, properties={"type": kind})], GEOJSON, [f"[unknown-class] feature 1: '{kind}' {KNOWN}"])
      for kind in ("Neoplastic", 3)),
    (polygons(polygon(), polygon(name="epithelia"), polygon(name="epithelia")), POLYGONS_JSON,
     [f"[unknown-class] polygon 2, polygon 3: 'epithelia' {KNOWN} Did you mean 'epithelial'?"]),
    (points(point(1, 2, name="Points 1")), POINTS_JSON | ONE, ["[unknown-class] point 1"]),
    *((content, options, [f"[invalid-probability] {place} 2"])
      for value in (-0.1, 1.5, 1e300, "0.5", True, [0.5], {}) for content, options, place in (
          ([feature(properties={"probability": 1}), feature(properties={"probability": value})], GEOJSON, "feature"),
          (polygons(polygon(probability=1), polygon(probability=value)), POLYGONS_JSON, "polygon"))),
    ([feature(cls="ROI"), feature(properties={"probability": 0}), feature()], GEOJSON | {"skipped": ["roi"]},
     ["[missing-probability] feature 3"]),
    (polygons(polygon(probability=1), polygon(probability=None)), POLYGONS_JSON, ["[missing-probability] polygon 2"]),
    # --- limits
    *((content, options | {"limits": {limit: number}},
       [f"[too-large] more than {number} {what}; expected at most {number}. "])
      for content, options, limit, number, what in (
          ([feature(), feature()], GEOJSON, "vertices_per_file", 7, "vertices"),
          ([feature(), feature()], GEOJSON, "instances_per_case", 1, "features or nuclei"),
          (polygons(polygon(), polygon()), POLYGONS_JSON, "vertices_per_file", 5, "vertices"))),
    (polygons(polygon(), polygon()), POLYGONS_JSON | {"limits": {"instances_per_case": 1}}, ["[too-large] "]),
    ([feature(spot(*[[1, 1]] * 5))], POINTS | {"limits": {"instances_per_case": 4}},
     ["[too-large] more than 4 features or nuclei"]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "lines"), REFUSED)
def test_a_file_is_refused_with_these_lines(content, options, lines):
    said = [re.sub(r" 'nuclei\.json'[,:]", "", str(fault)) for fault in faults_of(content, **options)]
    assert len(said) == len(lines)
    assert all(line.startswith(begin) for line, begin in zip(said, lines, strict=True))
    for limit, number in options.get("limits", {}).items():
        assert f"limits.{limit} in challenge.toml" in said[0]
        assert read_json_file(content, **{**options, "limits": {limit: number + 1}}).parts


def test_a_million_equal_faults_are_counted_not_listed():
    faults = faults_of([feature(shape([[1]] * 1000)) for _ in range(50)], "geojson")
    assert len(faults) == 20
    assert sum(fault.count for fault in faults) == 50_000
    many = [feature(cls=f"Unknown {index}") for index in range(3000)] + [{}] * 500
    faults = faults_of(many, "geojson")
    assert Counter(fault.code for fault in faults) == {"unknown-class": 20, "invalid-annotation": 20}
    assert sum(fault.count for fault in faults) == 3500
    missing = faults_of(polygons(*[polygon()] * 30, polygon(probability=1)), "polygons_json")
    assert {fault.code for fault in missing} == {"missing-probability"}
    assert sum(fault.count for fault in missing) == 30


def test_all_faults_of_a_file_come_at_once():
    items = [polygon([]), polygon(name="x"), polygon([[1]]), 7, polygon(probability=2), polygon()]
    assert {fault.code for fault in faults_of(polygons(*items), "polygons_json")} == {
        "empty-polygon", "unknown-class", "invalid-coordinate", "invalid-annotation", "invalid-probability",
        "missing-probability",
    }  # fmt: skip


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


ORDINATES = st.one_of(st.integers(-1000, 100000), st.floats(-1e8, 1e8))


@st.composite
def some_outlines(draw) -> Outlines:
    """Rectangles in a row, each with a triangle as a hole or not; the fractions are arbitrary."""
    shapes = []
    count = draw(st.integers(0, 4))
    for _ in range(count):
        parts = []
        for index in range(draw(st.integers(1, 3))):
            x, y = 100 * index + draw(st.floats(0, 10)), draw(ORDINATES)
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
            "geometry": shape(RING),
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
    with pytest.raises(ValueError, match=f"class id {class_id}"):
        write_points_json(Points(np.array([[1.5, 2]]), np.array([class_id], np.int16), np.array([1], object)), CLASSES)


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
    again = read(write_polygons_json(outlines, CLASSES, "nuclei"), "polygons_json")
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
    with pytest.raises(InputFault) as fault:
        write_polygons_json(two_rings(is_hole=is_hole), CLASSES, "nuclei")
    assert [str(finding) for finding in fault.value.findings] == [
        f"[unsupported-shape] 'nuclei', nucleus 'b': {got}; expected outlines without holes, of one part, in a "
        "'Multiple polygons' file. Split it, fill its holes, or write another format, such as GeoJSON."
    ]


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


# --- real files -------------------------------------------------------------------------------------------------------


def read_real(path: Path, format: str = "geojson", classes=PUMA_CLASSES, **options: Any) -> Any:
    ids = {name.casefold(): index for index, name in enumerate(classes, start=1)}
    return read(path.read_bytes(), format, **{"classes": classes, "ids": ids, **options})


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
    (fault,) = faults_of(text.replace("6.5", "NaN").encode(), "geojson")
    assert fault.code == "invalid-coordinate"


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


@pytest.mark.parametrize(
    ("job", "nuclei", "tumour"),
    [("80873d95-fc44-4393-a39a-617bd8725d20", 401, 116), ("d112c34d-b7ae-425c-b9d4-8caa0890b1de", 453, 259)],
)
def test_a_submission_to_puma_is_read(shared_data, job, nuclei, tumour):
    path = shared_data / f"puma/submission/{job}/output/melanoma-10-class-nuclei-segmentation.json"
    content = json.loads(path.read_text())
    names = sorted({item["name"] for item in content["polygons"]})
    found = read_real(path, "polygons_json", names)
    assert len(found) == len(content["polygons"]) == nuclei
    assert int((found.class_id == names.index("nuclei_tumor") + 1).sum()) == tumour
    theirs = [vertex[:2] for item in content["polygons"] for vertex in item["path_points"]]
    assert found.points_xy.tolist() == theirs
    assert found.probability.tolist() == [item["probability"] for item in content["polygons"]]


@pytest.mark.parametrize(
    ("name", "nuclei", "first"),
    [("lymphocytes", 498, [12248, 86646]), ("monocytes", 623, [9746.66602, 87487.8594]),
     ("inflammatory-cells", 1121, [12248, 86646])],
)  # fmt: skip
def test_the_reference_of_monkey_is_read(shared_data, name, nuclei, first):
    path = shared_data / f"monkey/ground_truth/A_P000001_{name}.json"
    for options in ({"file_class": 2}, {"classes": ["cell"]}):
        found = read_real(path, "points_json", **options)
        assert len(found) == nuclei
        assert found.points_xy[0].tolist() == first
        assert set(found.class_id.tolist()) == {options.get("file_class", 1)}


def test_points_of_midog_in_millimetres_are_read(shared_data):
    path = shared_data / "midog/output/mitotic-figures.json"
    found = read_real(path, "points_json", units="mm", spacing_um=0.25, classes=["mitosis"])
    assert found.points_xy.tolist() == pytest.approx(
        np.array([[0.14647372756903898, 0.1580733550628604], [0.11008273935312868, 0.03707331924495862]]) * 4000
    )
