"""YOLO's text files for segmentation: a line of a class and shares of width and height for each nucleus."""

from __future__ import annotations

from formats import Table
from nuclei_metrics.model import ClassTable

CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {0: 1, 3: 2})
ONE = {"classes": {"nucleus": 1}, "class_values": None}
RING = "0.5 0.5 0.1 0.2 0.25 0.75"
THREE = f"0 {RING}\n5 {RING}\n0 {RING}\n"

TABLE = Table(
    {
        "format": "yolo_txt", "classes": CLASSES, "class_values": {"tumour": 0, "stroma": 3}, "origin": "pixel_corner",
        "shape_yx": (40, 60),
    },
    [
        ("vertices are shares of width and height, and the line is the id", f"0 {RING}\n3 {RING} 0 1\n", {},
         {"rings": [[[30, 20], [6, 8], [15, 30]], [[30, 20], [6, 8], [15, 30], [0, 40]]], "class_id": [1, 2],
          "source_id": [1, 2], "probability": None}),
        ("an odd number of coordinates ends with the confidence", f"0 {RING} 0.5\n3 {RING} 0 1 0.75", {},
         {"probability": [0.5, 0.75], "ring_start": [0, 3, 7]}),
        ("lines without words are counted and no nuclei", f"\n\n3 {RING}\n\n", {}, {"source_id": [3], "class_id": [2]}),
        ("a mask too small for an outline is left out", f"0 0.27\n3 {RING}\n0\n", {},
         {"source_id": [2], "findings": "[left-out] line 1: 2 words"}),
        ("an empty file has no nuclei", "", {}, {"class_id": [], "ring_start": [0]}),
        ("numbers do not matter in a challenge of one class", THREE, ONE, {"class_id": [1, 1, 1]}),
    ],
    [
        (THREE, {"classes": ClassTable(("nucleus",), {"nucleus": 1}, {0: 1}), "class_values": {"nucleus": 0}},
         "[unknown-class] line 2: '5' is not a class"),
        ("0 0.5 0.5 0.1 0.2\n9 0 0 1 0 1 1\n0 0 0 30 0 1 1\n0 0 0 1 0 1 1 1.5\n", {},
         ["[unknown-class] line 2: '9' is not a class of this challenge; expected 'stroma' or 'tumour', or one of the "
          "numbers 0, 3", "[invalid-annotation] line 1: a box", "[invalid-coordinate] line 3: the coordinate '30'",
          "[invalid-probability] line 4: ", "[missing-probability] line 2: "]),
    ],
)  # fmt: skip
