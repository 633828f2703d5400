"""Annotations and lists as JSON."""

from __future__ import annotations

from typing import Any

from findings.bench import Bench
from findings.registry import example_of

PATH = [[1, 1, 0.5], [9, 1, 0.5], [9, 8, 0.5]]


def polygon(path: list[list[float]] = PATH, **keys: Any) -> dict[str, Any]:
    return {"name": "Epithelial", "path_points": path, **keys}


def converted(bench: Bench, format: str, document: Any) -> str:
    """What is said about a file of one case, to whoever converts it."""
    name = "nuclei.geojson" if format == "geojson" else "nuclei.json"
    bench.write(name, document)
    return bench.convert(name, "--from", format)


def polygons(bench: Bench, *items: Any) -> str:
    document = {"type": "Multiple polygons", "version": {"major": 1, "minor": 0}, "polygons": items}
    return converted(bench, "polygons_json", document)


@example_of("not-json")
def number_that_json_does_not_know(bench: Bench) -> str:
    return converted(bench, "points_json", '{"type": "Multiple points", "points": [  NaN]}')


@example_of("too-deep")
def forty_brackets(bench: Bench) -> str:
    return converted(bench, "polygons_json", "[" * 40 + "]" * 40)


@example_of("duplicate-key")
def two_lists(bench: Bench) -> str:
    return converted(bench, "polygons_json", '{"type": "Multiple polygons", "polygons": [], "polygons": []}')


@example_of("invalid-annotation")
def ring_without_its_list(bench: Bench) -> str:
    geometry = {"type": "Polygon", "coordinates": [[1, 2], [5, 2], [1, 6]]}
    feature = {"type": "Feature", "geometry": geometry, "properties": {"classification": {"name": "Epithelial"}}}
    return converted(bench, "geojson", {"type": "FeatureCollection", "features": [feature]})


@example_of("empty-polygon")
def contour_that_came_out_empty(bench: Bench) -> str:
    return polygons(bench, polygon(), polygon([]))


@example_of("invalid-probability")
def logits(bench: Bench) -> str:
    return polygons(bench, polygon(probability=1), polygon(probability=1.5))


@example_of("missing-probability")
def half_of_the_probabilities(bench: Bench) -> str:
    return polygons(bench, polygon(probability=1), polygon())


@example_of("many-parts")
def all_nuclei_in_one_feature(bench: Bench) -> str:
    parts = [[[[x, 1], [x + 1, 1], [x + 1, 9], [x, 1]]] for x in range(1, 23, 2)]
    geometry = {"type": "MultiPolygon", "coordinates": parts}
    feature = {"type": "Feature", "geometry": geometry, "properties": {"classification": {"name": "Epithelial"}}}
    return converted(bench, "geojson", {"type": "FeatureCollection", "features": [feature]})
