"""GeoJSON, and the platform's "Multiple polygons" and "Multiple points": what a file means, and what is refused."""

from __future__ import annotations

import gzip
import json
from typing import Any

from formats import Table

RING = [[1, 2], [5, 2], [1, 6.5], [1, 2]]
OTHER = [[10, 10], [20, 10], [20, 20], [10, 20], [10, 10]]
HOLE = [[12, 12], [14, 12], [14, 15], [12, 12]]
PATH = [[1, 2, 0.5], [5, 2, 0.5], [1, 6.5, 0.5]]
GEOJSON, POINTS = {"format": "geojson", "shape": "outline"}, {"format": "geojson", "shape": "point"}
POLYGONS_JSON, POINTS_JSON = {"format": "polygons_json"}, {"format": "points_json"}


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


CELL = feature(shape(OTHER), nucleusGeometry=shape(HOLE), properties={"objectType": "cell"})
CHILD = feature(shape(HOLE), id="child", properties={"childObjects": [feature(id="grandchild")]})
PARENT = feature(shape(OTHER), id="parent", properties={"childObjects": [CHILD, feature(id="second")]})
REGION = feature(shape(OTHER), cls="ROI", properties={"childObjects": [feature(id="cell")]})
NAMED = feature(properties={"name": "N 7"})
LINE = spot([1, 2], [3, 4], kind="LineString")
ONE = {"classes": {"nucleus": 1}}
ALIAS = {"classes": {"epithelial": 1, "lymphocyte": 2, "": 2}}
WIDE = {"classes": {"epithelial": 1, "epi": 1, "lymphocyte": 2, "7": 2, "t: positive": 3, "ambiguous": -1}}
TRIANGLE = RING[:-1]
NAMES = polygons(polygon(name=" EPI "), polygon(name="Ambiguous"), polygon(name="ROI"), polygon(name=None))
MM = {"units": "mm", "spacing_um": 0.5}

AROUND = shape([[0, 0], [99, 0], [99, 99], [0, 99]])
MEASURED = collection(feature(id='NaN "Infinity', properties={"measurements": {"a": 1.5, "b": -2.5}}))
OF_CELLVIT = {"classes": {"neoplastic": 1, "inflammatory": 2}}


def of_type(kind: str, geometry: dict, cls: str = "Epithelial") -> dict:
    return feature(geometry, cls=cls, properties={"objectType": kind})


def cellvit(number: int) -> list[dict]:
    """``cells.geojson`` as CellViT writes it: a list of features, a MultiPolygon with all nuclei of a class in each."""
    return [
        {
            "type": "Feature",
            "id": f"3b1d{place}",
            "geometry": {
                "type": "MultiPolygon",
                "coordinates": [
                    [[[x, y], [x + 6, y], [x + 6, y + 6], [x, y + 6], [x, y]]]
                    for x, y in ((12 * index, 20 * place) for index in range(number))
                ],
            },
            "properties": {"objectType": "annotation", "classification": {"name": name, "color": [255, 0, 0]}},
        }
        for place, name in enumerate(("Neoplastic", "Inflammatory"))
    ]


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
          ({"objectType": "annotation", "name": "Lymphocyte"}, 0), ({"objectType": ["lymphocyte"]}, 0),
          ({"type": "Lymphocyte"}, 2), ({"type": 7, "objectType": "annotation"}, 2),
          ({"type": "Lymphocyte", "classification": "epi"}, 1), ({"type": "Lymphocyte", "objectType": "epi"}, 1),
          ({}, 0), (None, 0), ([], 0), (7, 0))),
    *(("a flat type matters to nobody who needs no name", [feature(cls=None, properties={"type": kind})],
       GEOJSON | {"classes": {"cell": 1}}, {"class_id": [1]}) for kind in ("Neoplastic", 3)),
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
          ("Point 0", ONE, 1), ("Point 12", ONE, 1), ("Point 1", {"classes": {"x": 1, "point 1": 2}}, 2),
          ("Point 1", {}, 0))),
    # --- what is left out, or told
    *(("other shapes and features without one are left out with a warning", content, options,
       {"type": kind, "source_id": [left], "findings": [f"[left-out] feature {number}" for number in numbers]})
      for content, options, kind, left, numbers in (
        ([feature(spot(7, 8, kind="Point")), feature(cls="Unknown"), feature()], POINTS | {"other_shapes": "skip"},
         "Points", "1", (2, 3)),
        ([feature() | {"geometry": None}, feature()], GEOJSON, "Outlines", "2", (1,)))),
    ("a region around detections is left out whatever its class",
     collection(of_type("annotation", AROUND, "Tissue"), of_type("detection", shape(OTHER))), GEOJSON,
     {"class_id": [1], "findings": ["[left-out] feature 1: an annotation of QuPath around 1 detection, which is a "
                                    "region; expected nuclei. It is ignored."]}),
    ("but one of a class that is not scored is not",
     collection(of_type("annotation", AROUND, "Necrosis"), of_type("detection", shape(OTHER))),
     GEOJSON | {"classes": {"epithelial": 1, "necrosis": -1}}, {"class_id": [-1, 1]}),
    ("QuPath writes bare NaN where it could not measure, and a text that looks like one stays as it is",
     json.dumps(MEASURED).replace("1.5", "NaN").replace("-2.5", "-Infinity"), GEOJSON,
     {"source_id": ['NaN "Infinity']}),
    *(("parts of a MultiPolygon are nuclei where the rules say so", cellvit(3), GEOJSON | OF_CELLVIT | {"parts": parts},
       {"class_id": ids, "source_id": names}) for parts, ids, names in (
        ("apart", [1] * 3 + [2] * 3, [f"{name}/{part}" for name in ("3b1d0", "3b1d1") for part in (1, 2, 3)]),
        ("together", [1, 2], ["3b1d0", "3b1d1"]))),
    ("a few parts that count as one nucleus are not told", cellvit(3), GEOJSON | OF_CELLVIT, {"class_id": [1, 2]}),
    ("many are", cellvit(40), GEOJSON | OF_CELLVIT,
     {"class_id": [1, 2], "findings": [f"[many-parts] feature {number}: a MultiPolygon of 40 p" for number in (1, 2)]}),
]  # fmt: skip

GEOJSON_IS = (
    "expected GeoJSON: a FeatureCollection, a list of features, a Feature or a geometry. Write the file again in this "
    "format."
)
PLATFORM_IS = "file of the platform. Write the file again in this format."
KNOWN = "is not a class of this challenge; expected 'epi', 'epithelial' or 'lymphocyte'."
OUTLINES_ARE = "expected 'Polygon' or 'MultiPolygon'. Write each nucleus as an outline, or leave the feature out."
NO_NUMBERS = [None, 7, [1], "12", [None, 1], ["1", "2"], [True, 1], [0, -1.1e9], [[1], 2], [10**30, 1]]
EMPTY = [
    shape([]), shape([], HOLE), spot(kind="Polygon"), spot(kind="MultiPolygon"), spot([RING], [], kind="MultiPolygon"),
]  # fmt: skip
FAR = polygons(polygon([[1e6, 0, 0], [0, 0, 0], [0, 1e308, 0]]))

REFUSED = [  # how the lines begin, behind the name of the file
    *((content, GEOJSON, [f"[wrong-format] {got}; {GEOJSON_IS}"]) for content, got in (
        ({"type": "Multiple polygons", "polygons": []}, "an object of the type 'Multiple polygons'"),
        ({"images": [], "annotations": []}, "an object with the keys 'images' and 'annotations'"),
        ({"type": "FeatureCollection", "features": None}, "a FeatureCollection without a list of features"),
        ({}, "an empty object"), (7, "the value '7'"), ('"text"', "the value '\"text\"'"))),
    *((content, POLYGONS_JSON, [f"[wrong-format] {got}; expected a 'Multiple polygons' {PLATFORM_IS}"])
      for content, got in (
          ({"type": "Multiple points", "polygons": []}, "an object of the type 'Multiple points'"),
          ({"type": "Polygon", "coordinates": []}, "an object of the type 'Polygon'"),
          ({"type": "Multiple polygons"}, "a 'Multiple polygons' file without its list"),
          ({"polygons": {}}, "a 'Multiple polygons' file without its list"), ([polygon()], "a list"),
          (7, "the value '7'"))),
    (polygons(), POINTS_JSON, ["[wrong-format] "]),
    # --- shapes
    ([feature(), *map(feature, EMPTY)], GEOJSON, [f"[empty-polygon] feature {number}" for number in range(2, 7)]),
    (polygons(polygon(), polygon([])), POLYGONS_JSON, ["[empty-polygon] polygon 2"]),
    *(([feature(geometry)], GEOJSON, [f"[invalid-annotation] feature 1: {got}"]) for geometry, got in (
        (spot([1, 2], [3, 4], kind="Polygon"), "the coordinates of a 'Polygon' are '[[1, 2], [3, 4]]'"),
        ({"type": "Polygon", "coordinates": [{}]}, "the coordinates of a 'Polygon' are '[{}]'"),
        ({"type": "Polygon"}, "the coordinates of a 'Polygon' are 'null'"),
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
    *((content, options, [f"[invalid-probability] {place} 2"])
      for value in (-0.1, 1.5, "0.5", True, [0.5]) for content, options, place in (
          ([feature(properties={"probability": 1}), feature(properties={"probability": value})], GEOJSON, "feature"),
          (polygons(polygon(probability=1), polygon(probability=value)), POLYGONS_JSON, "polygon"))),
    ([feature(cls="ROI"), feature(properties={"probability": 0}), feature()], GEOJSON | {"skipped": ["roi"]},
     ["[missing-probability] feature 3"]),
    # --- limits
    *((content, options | {"limits": {limit: number}},
       [f"[too-large] more than {number} {what}; expected at most {number}. "])
      for content, options, limit, number, what in (
          ([feature(), feature()], GEOJSON, "vertices_per_file", 7, "vertices"),
          ([feature(), feature()], GEOJSON, "instances_per_case", 1, "features or nuclei"),
          (polygons(polygon(), polygon()), POLYGONS_JSON, "vertices_per_file", 5, "vertices"))),
    ([feature(spot(*[[1, 1]] * 5))], POINTS | {"limits": {"instances_per_case": 4}},
     ["[too-large] more than 4 features or nuclei"]),
    (json.dumps(MEASURED).replace("6.5", "NaN"), GEOJSON, ["[invalid-coordinate]"]),
    (polygons(polygon([]), polygon(name="x"), polygon([[1]]), 7, polygon(probability=2), polygon()), POLYGONS_JSON,
     ["[unknown-class]", "[empty-polygon]", "[invalid-annotation]", "[invalid-coordinate]", "[invalid-probability]",
      "[missing-probability]", "[missing-probability]", "[missing-probability]"]),
]  # fmt: skip

TABLE = Table(
    {"classes": {"epithelial": 1, "epi": 1, "lymphocyte": 2, "ambiguous": -1}},
    READ,
    REFUSED,
    [
        ([feature(shape([[1]] * 1000)) for _ in range(50)], GEOJSON, 20, 50_000),
        ([feature(cls=f"Unknown {index}") for index in range(3000)] + [{}] * 500, GEOJSON, 40, 3500),
        (polygons(*[polygon()] * 30, polygon(probability=1)), POLYGONS_JSON, 20, 30),
    ],
)
