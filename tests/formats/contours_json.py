"""JSON of HoVer-Net, CellViT and labelme, imitated from the code that writes it."""

from __future__ import annotations

from typing import Any

from formats import Table
from nuclei_metrics.model import ClassTable

CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {5: 1, 2: 2}, frozenset({"region"}))
CONTOUR = [[3, 2], [3, 6], [8, 6], [8, 2]]  # of 6 x 5 px, as OpenCV's CHAIN_APPROX_SIMPLE gives it
NUCLEUS = {"bbox": [[2, 3], [7, 9]], "centroid": [5.5, 4.0], "contour": CONTOUR, "type_prob": 0.75, "type": 5}
DETECTED = {key: NUCLEUS[key] for key in ("bbox", "centroid", "type")}
SQUARE, OTHER, CORNERS = [[1, 1], [4, 1], [4, 4], [1, 4]], [[10, 1], [12, 1], [12, 3]], [[20, 5], [24, 9]]
CELLVIT, LABELME, POINT = {"tool": "cellvit"}, {"tool": "labelme", "origin": "pixel_corner"}, {"shape": "point"}


def hovernet(*types: Any, **keys: Any) -> dict[str, Any]:
    """Nuclei called 7, 8, … with these types."""
    return {"mag": 40, "nuc": {str(7 + i): {**NUCLEUS, "type": kind, **keys} for i, kind in enumerate(types)}}


def cells(*types: int, **keys: Any) -> dict[str, Any]:
    return {"wsi_metadata": {}, "cells": [{**NUCLEUS, "type": number} for number in types], **keys}


def shape(points: Any, label: str = "tumour", group_id: Any = None, shape_type: str = "polygon") -> dict[str, Any]:
    return {"label": label, "points": points, "group_id": group_id, "shape_type": shape_type, "flags": {}}


def labelme(*shapes: Any) -> dict[str, Any]:
    return {"version": "5.5.0", "flags": {}, "shapes": shapes, "imageHeight": 20, "imageWidth": 30, "imageData": "QUJD"}


CIRCLE = labelme(shape([[1, 1], [4, 1]], shape_type="circle"))

TABLE = Table(
    {"format": "contours_json", "classes": CLASSES, "shape_yx": (20, 30), "tool": "hovernet", "shape": "outline"},
    [
        ("a contour is an outline with its type and probability", hovernet(5), {},
         {"rings": [CONTOUR], "class_id": [1], "source_id": ["7"], "probability": [0.75]}),
        ("centroids are the points", hovernet(5), POINT, {"points_xy": [[5.5, 4.0]]}),
        ("no type and the type 0 are no class", hovernet(None, 0, 2, type_prob=None), {},
         {"class_id": [0, 0, 2], "probability": None}),
        *(("names of CellViT go before numbers", cells(1, 2, 5, type_map=types), CELLVIT,
           {"class_id": [1, 2, 1], "source_id": [1, 2, 3]})
          for types in ({"1": "Tumour", "2": "Stroma"}, {"Tumour": 1, "Stroma": 2})),
        ("cell detection has points", {"cells": [DETECTED]}, CELLVIT | POINT, {"points_xy": [[5.5, 4.0]]}),
        ("a group of labelme is one nucleus, a rectangle has two corners, and skipped labels are left out",
         labelme(shape(SQUARE, group_id=3), shape(CORNERS, "stroma", shape_type="rectangle"), shape(OTHER, group_id=3),
                 shape(SQUARE, "region")), LABELME,
         {"class_id": [1, 2], "ring_instance": [0, 0, 1],
          "rings": [SQUARE, OTHER, [[20, 5], [24, 5], [24, 9], [20, 9]]]}),
        ("other shapes are left out", CIRCLE, LABELME | {"other_shapes": "skip"},
         {"class_id": [], "findings": ["[left-out] "]}),
        ("points of labelme", labelme(shape([[4, 5]], shape_type="point")), LABELME | POINT, {"points_xy": [[4, 5]]}),
    ],
    [
        ({"type_map": {"9": "Dead"}, **cells(9)}, CELLVIT, "[unknown-class] cell 1: 'Dead' is not a class"),
        ({"cells": [DETECTED]}, CELLVIT, "…It has no contours"),
        (CIRCLE, LABELME, "[unsupported-shape] "),
        *((content, options, "[wrong-format] ") for content, options in (
            (hovernet(5), LABELME), (labelme(), CELLVIT), ([], {}), ({}, CELLVIT))),
    ],
)  # fmt: skip
