"""What is found in folders, and what would match."""

from __future__ import annotations

import json

import numpy as np

import evaluation
from evaluation.findings import render_findings
from findings.bench import Bench
from findings.registry import example_of

NUCLEI = np.zeros((20, 30), np.uint8)
for number, (top, left) in enumerate([(1, 2), (1, 20), (8, 3), (12, 22), (14, 10)], start=1):
    NUCLEI[top : top + 4, left : left + 3] = number
PICTURE = np.zeros((20, 30, 3), np.uint8)
SQUARE = np.zeros((20, 20), np.uint8)
for number, (top, left) in enumerate([(1, 12), (2, 5), (15, 2), (8, 17)], start=1):
    SQUARE[top : top + 3, left : left + 4] = number


def compare(bench: Bench) -> str:
    return bench.run("compare", "reference", "masks")


@example_of("nothing-to-compare")
def pictures_in_colour(bench: Bench) -> str:
    bench.write("reference/a.png", NUCLEI)
    bench.write("photos/a.png", PICTURE)
    return bench.run("compare", "reference", "photos")


@example_of("nothing-to-ignore")
def label_that_no_pixel_has(bench: Bench) -> str:
    for side in ("reference", "masks"):
        bench.write(f"{side}/a.png", NUCLEI)
    return bench.run("compare", "reference", "masks", "--ignore", "250")


@example_of("no-class-map")
def two_images_as_a_pair(bench: Bench) -> str:
    pair = (SQUARE, SQUARE)
    return "\n".join(render_findings(evaluation.compare(pair, pair).findings))


@example_of("file-not-read")
def picture_beside_the_labels(bench: Bench) -> str:
    bench.write("reference/a.png", NUCLEI)
    bench.write("masks/a.png", NUCLEI)
    bench.write("masks/photo.png", PICTURE)
    return compare(bench)


@example_of("not-paired")
def image_without_prediction(bench: Bench) -> str:
    for name in "ab":
        bench.write(f"reference/{name}.png", NUCLEI)
    for name in "bc":
        bench.write(f"masks/{name}.png", NUCLEI)
    return compare(bench)


@example_of("sizes-differ")
def transposed_image(bench: Bench) -> str:
    bench.write("reference/a.png", NUCLEI)
    bench.write("masks/a.png", np.ascontiguousarray(NUCLEI.T))
    return compare(bench)


@example_of("size-unknown")
def outlines_without_an_image(bench: Bench) -> str:
    ring = [[1, 1], [29, 1], [29, 19], [1, 1]]
    feature = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": {}}
    for side in ("reference", "masks"):
        bench.write(f"{side}/a.geojson", json.dumps({"type": "FeatureCollection", "features": [feature]}))
    return compare(bench)


@example_of("classes-differ")
def class_of_the_prediction_alone(bench: Bench) -> str:
    for side, values in (("reference", (1, 1)), ("masks", (1, 2))):
        bench.write(f"{side}/a.png", NUCLEI)
        bench.write(f"{side}/a_class.png", np.where(NUCLEI > 2, values[1], (NUCLEI > 0) * values[0]).astype(np.uint8))
    return compare(bench)


@example_of("nearly-nothing-matches")
def rows_and_columns_are_swapped(bench: Bench) -> str:
    bench.write("reference/a.png", SQUARE)
    bench.write("masks/a.png", np.ascontiguousarray(SQUARE.T))
    return compare(bench)
