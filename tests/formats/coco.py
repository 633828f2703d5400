"""COCO JSON and MIDOG's: what images, categories, segmentations and scores mean, and what is refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

from pycocotools import mask as coco_mask

from formats import Table
from nuclei_metrics.model import Case, ClassTable

CLASSES = ClassTable(
    ("plasma", "Tumour"), {"plasma": 1, "tumour": 2, "smear": -1}, skipped=frozenset({"region of interest"})
)
CASES = {name: Case(name, name, 3, 4) for name in ("a", "b")}
CATEGORIES = [{"id": 1, "name": "Tumour"}, {"id": 2, "name": "plasma"}, {"id": 5, "name": "smear"},
              {"id": 6, "name": "Region of interest"}]  # fmt: skip
IMAGES = [{"id": 7, "file_name": "train/a.png", "height": 3, "width": 4}, {"id": 8, "file_name": "b.png"}]
CODE = {"size": [3, 4], "counts": [1, 3, 8]}
PACKED = CODE | {"counts": coco_mask.frPyObjects(CODE, 3, 4)["counts"].decode()}
PIXELS = [".#..", "#...", "#..."]
SQUARE = [0, 0, 2, 0, 2, 1.5, 0, 1.5]
MASKS = {"bboxes": [[0, 0, 1, 1]] * 2, "labels": [1, 0], "scores": [0.5, 0.25], "masks": [CODE, CODE]}


def entry(**keys: Any) -> dict[str, Any]:
    return {"image_id": 7, "category_id": 2, "segmentation": CODE} | keys


def of_image(name: Any, **keys: Any) -> dict[str, Any]:
    return entry(image_id=name, **keys)


def data_set(*entries: Any, images: Any = IMAGES, categories: Any = CATEGORIES) -> dict[str, Any]:
    return {"info": {}, "images": images, "annotations": list(entries), "categories": categories}


def of_a(*entries: Any, **keys: Any) -> dict[str, Any]:
    return data_set(*entries, images=[{"id": 7, "file_name": "a.png"}], **keys)


def box(*corners: Any, image: int = 1, category: int = 1, **keys: Any) -> dict[str, Any]:
    return {"image_id": image, "category_id": category, "bbox": list(corners or (10, 20, 15, 40))} | keys


def boxes(*annotations: Any) -> dict[str, Any]:
    images = [{"id": number, "file_name": f"00{number}.tiff"} for number in (1, 2)]
    return {"images": images, "categories": FIGURES, "annotations": annotations}


FIGURES = [{"id": 1, "name": "mitotic figure"}, {"id": 2, "name": "not mitotic figure"}]
MIDOG = {
    "format": "midog_json",
    "cases": {name: Case(name, name, 100, 200) for name in ("001", "002")},
    "classes": ClassTable(("mitotic figure",), {"mitotic figure": 1}, {}, frozenset({"not mitotic figure"})),
}
CORNERS = [[0, 0], [2, 0], [2, 1.5], [0, 1.5]]
NAMELESS = {key: value for key, value in entry().items() if key != "image_id"}
BOTH = [entry(category_id=1), entry(category_id=2), entry(category_id=5)]
ONE = {"cases": None, "shape_yx": (3, 4)}  # a file of the case a
OF_A = {"cases": {"a": CASES["a"]}}
OF_B = {"cases": None, "case": CASES["b"]}
EMPTY_CODE = data_set(entry(id=1), entry(id=2, segmentation={"size": [3, 4], "counts": [12]}), entry(id=3))
CROWD = "a crowd ('iscrowd' is 1); expected single nuclei, or crowds of an ignore class."
NUMBERED = {"classes": replace(CLASSES, values={0: 1, 1: 2})}
HUGE = {"a": Case("a", "a", 50_000, 50_000)}
PANOPTIC = {"annotations": [{"image_id": 7, "file_name": "a.png", "segments_info": [{"id": 3, "category_id": 1}]}]}
INVALID = "[invalid-annotation]"
TWICE = "the id '1' again, with"
AGAIN = "is the case 'a' again; expected one image"
AT = "annotations[0]:"
TWO, ONE_SQUARE = data_set(entry(), of_image(8), entry()), data_set(entry(segmentation=[SQUARE]))

READ = [
    # --- images and cases
    *(("images are cases by their file name or id, and others are counted", document, {"cases": cases},
       {name: {"source_id": ids} if ids else {"parts": []} for name, ids in found.items()} | {"unknown": unknown})
      for document, cases, found, unknown in (
        *((data_set(entry(), images=[{"id": 7, "file_name": name}]), CASES, {"a": ["0"]}, {})
          for name in ("a", "a.png", "train/a.png", "C:\\train\\a.png", "train/a")),
        (data_set(entry()), {"train/a.png": CASES["a"]}, {"a": ["0"]}, {"b.png": 0}),
        (data_set(of_image("a"), images=[{"id": "a"}]), CASES, {"a": ["0"]}, {}),
        ([of_image(17)], {"17": CASES["b"]}, {"b": ["0"]}, {}),
        (data_set(entry()), CASES, {"a": ["0"], "b": []}, {}),
        ([of_image("a")], CASES, {"a": ["0"]}, {}),
        (data_set(entry(), of_image(9), of_image(9), images=[
            *IMAGES, {"id": 9, "file_name": "other.png"}, {"id": 10, "file_name": "empty.png"}]), CASES,
         {"a": ["0"], "b": []}, {"other.png": 2, "empty.png": 0}),
        ([of_image("c"), of_image("a")], CASES, {"a": ["1"]}, {"c": 1}),
        ([of_image("c", segmentation=3, category_id=[], score=9)], CASES, {}, {"c": 1}),
        (gzip.compress(json.dumps(data_set(entry())).encode()), CASES, {"a": ["0"], "b": []}, {}))),
    *(("a file of one case is of that case whatever it calls the image", document, ONE,
       {"source_id": ids} if ids else {"parts": []}) for document, ids in (
        (data_set(entry(), images=[{"id": 7, "file_name": "z.png"}]), ["0"]), ([of_image("z")], ["0"]),
        ([NAMELESS, NAMELESS], ["0", "1"]), ({"annotations": [NAMELESS]}, ["0"]), ([], []), ({"annotations": []}, []))),
    *(("of several images the one named like the case is read, and the others are told", document, OF_B,
       {"source_id": ["x"], "findings": ["[left-out] "]}) for document in (
        data_set(of_image(8, id="x"), entry(), entry()), [of_image("a"), of_image("b", id="x"), of_image("a")])),
    ("the lists of mmdetection are a file of one case", MASKS, ONE | NUMBERED,
     {"class_id": [2, 1], "probability": [0.5, 0.25]}),
    # --- classes, ids and probabilities
    *(("annotations have these classes, ids and probabilities", document, options | OF_A,
       {"a": expected}) for document, options, expected in (
        (of_a(*BOTH), {}, {"class_id": [2, 1, -1], "probability": None}),
        (of_a(*BOTH), {"classes": replace(CLASSES, values={1: 1, 2: 2, 5: 2})}, {"class_id": [2, 1, -1]}),
        (of_a(entry(category_id=9), categories=[*CATEGORIES, {"id": 9, "name": "Neoplastic cell"}]),
         {"classes": replace(CLASSES, values={9: 2})}, {"class_id": [2]}),
        ([of_image("a", category_id=0)], {"classes": replace(CLASSES, values={0: 2})}, {"class_id": [2]}),
        ([of_image("a", category_id="Tumour"), of_image("a", category_id=3), of_image("a", category_id=None)], {},
         {"class_id": [2, 0, 0]}),
        ([of_image("a")], {"classes": {"x": 1}}, {"class_id": [1]}),
        (of_a(entry(category_id=[])), {"file_class": 2}, {"class_id": [2]}),
        (of_a(entry(id=1), entry(category_id=6)), {}, {"source_id": ["1"]}),
        (of_a(entry(id=40), entry(id="x1"), entry(), entry(id=None)), {}, {"source_id": ["40", "x1", "2", "3"]}),
        (of_a(entry(score=1), entry(score=0.25)), {}, {"probability": [1, 0.25]}),
        (of_a(entry(score=0.5), entry(category_id=6)), {}, {"probability": [0.5]}))),
    ("crowds are left out with a warning but kept in an ignore class",
     of_a(*(entry(**keys) for keys in (
         {"iscrowd": 1}, {"iscrowd": 1}, {"iscrowd": 0, "score": 1}, {"iscrowd": 1, "category_id": 5, "score": 1}))),
     {},
     {"a": {"class_id": [1, -1], "probability": [1, 1]},
      "findings": [f"[left-out] annotations[{number}]: {CROWD}" for number in (0, 1)]}),
    # --- segmentations
    ("polygons are outlines, and several are parts of one nucleus",
     of_a(entry(segmentation=[SQUARE, [3, 2, 3.5, 2, 3, 2.5]]), entry(segmentation=[SQUARE])), {},
     {"a": {"type": "Outlines", "ring_instance": [0, 0, 1], "ring_is_hole": [False] * 3,
            "rings": [CORNERS, [[3, 2], [3.5, 2], [3, 2.5]], CORNERS]}}),
    ("codes are instances, compressed or not", of_a(entry(), entry(segmentation=PACKED)), {},
     {"a": {"type": "Instances", "masks": [PIXELS, PIXELS]}}),
    ("a case may have outlines and codes",
     data_set(entry(id=1), entry(id=2, segmentation=[SQUARE]), entry(id=3), of_image(8, id=4)), {},
     {"a": {"parts": [{"source_id": ["2"]}, {"source_id": ["1", "3"]}]}, "b": {"source_id": ["4"]}}),
    ("cases in turn get their own shapes in the order of the file",
     data_set(*(of_image(7 + n % 2, id=n, segmentation=[[n, 0, 1, 1, 2, 2], [n, 9, 1, 1]]) for n in range(5))), {},
     {name: {"source_id": [str(n) for n in numbers], "ring_instance": [i for i in range(len(numbers)) for _ in "12"],
             "rings": [ring for n in numbers for ring in ([[n, 0], [1, 1], [2, 2]], [[n, 9], [1, 1]])]}
      for name, numbers in (("a", (0, 2, 4)), ("b", (1, 3)))}),
    ("a code without a pixel is left out", EMPTY_CODE, OF_A,
     {"a": {"source_id": ["1", "3"], "masks": [PIXELS, PIXELS]}, "unknown": {"b.png": 0}, "findings": ["[left-out]"]}),
    # --- MIDOG
    ("a nucleus is the middle of its box", boxes(box(10, 20, 15, 40), box(-1, 0.5, 1, 0.5), box(image=2)), MIDOG,
     {"001": {"points_xy": [[12.5, 30], [0, 0.5]], "class_id": [1, 1], "source_id": ["0", "1"], "probability": None},
      "002": {}}),
    *(("hard negatives are skipped or a class of their own", boxes(box(category=2, id=1), box(id=2)), MIDOG | more,
       {"001": expected, "002": {"parts": []}}) for more, expected in (
        ({}, {"source_id": ["2"]}),
        ({"classes": ClassTable(("a", "b"), {"mitotic figure": 1, "not mitotic figure": 2})}, {"class_id": [2, 1]}),
        ({"classes": ClassTable(("a", "b"), {"a": 1, "b": 2}, {1: 1, 2: 2})}, {"class_id": [2, 1]}))),
    ("an image with nothing but hard negatives has no nuclei", boxes(box(), box(image=2, category=2)), MIDOG,
     {"001": {"class_id": [1]}, "002": {"parts": []}}),
    ("scores are probabilities", boxes(box(score=0.5), box(score=1)), MIDOG,
     {"001": {"probability": [0.5, 1]}, "002": {"parts": []}}),
    ("a file may hold one case",
     {"annotations": [{"bbox": [0, 0, 2, 4], "category_id": 1}], "categories": FIGURES}, MIDOG | {"cases": None},
     {"points_xy": [[1, 2]]}),
]  # fmt: skip

REFUSED = [  # what stands in the line
    (data_set(images=[{"id": 7, "file_name": "a.png", "height": 4, "width": 3}]), {},
     "[wrong-shape] images[0]: 4 rows x 3 columns; expected 3 rows x 4 columns, the height and width of the "
     "image. Write codes and coordinates for the size of the image; in 'size', height comes before width."),
    (data_set(images=[{"id": 7, "file_name": "x/a.png"}, {"id": 8, "file_name": "y/a.png"}]), {},
     f"{INVALID} images[1]: 'y/a.png' {AGAIN}"),
    ([of_image("a"), of_image("x/a")], {}, f"{INVALID} image 'x/a': 'x/a' {AGAIN}"),
    (data_set(entry(), of_image(3)), {}, f"{INVALID} annotations[1]: 'image_id' is '3'; expected the id of an image"),
    ([NAMELESS], {}, "[invalid-annotation] [0]: no 'image_id'; expected the id of an image"),
    ([of_image(True)], {}, "[invalid-annotation] [0]: 'image_id' is 'True'"),
    (data_set(entry()), {"cases": None, "case": Case("c", "c", 3, 4)},
     "[other-case] 2 images: 'train/a.png' and 'b.png'; expected an image 'c'."),
    (MASKS | {"scores": [1]}, ONE, "[not-coco] 'scores' that are no list as long as 'masks'"),
    *((document, options, "[not-coco] ") for options in (ONE, {}) for document in (
        3, '"a"', None, {}, {"annotations": {}}, {"masks": 1}, {"images": []})),
    *((document, {}, "[not-coco] COCO panoptic, with shapes in PNG files")
      for document in (PANOPTIC, {"images": IMAGES, "categories": CATEGORIES} | PANOPTIC)),
    *((data_set() | change, {}, line) for change, line in (
        ({"images": 3}, "[not-coco] 'images' that are no list"),
        ({"images": [3]}, f"{INVALID} images[0]: '3'; expected an object with an 'id'"),
        ({"categories": [{"name": "a"}]}, f"{INVALID} categories[0]: '{{’name’: ’a’}}'; expected an object with"),
        ({"categories": [{"id": 1, "name": "a"}, {"id": "1", "name": "b"}]}, f"{INVALID} categories[1]: {TWICE}"),
        ({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]}, f"{INVALID} images[1]: {TWICE}"),
        ({"annotations": [3]}, f"{INVALID} annotations[0]: '3'; expected an object"))),
    (data_set(*[entry(category_id=3)] * 4, categories=[{"id": 3, "name": "Plasme"}]), {},
     "[unknown-class] annotations[0], annotations[1], annotations[2] and 1 more: 'Plasme' is not a class of "
     "this challenge; expected 'plasma' or 'tumour'. Did you mean 'plasma'?"),
    (data_set(entry(category_id=4)), {}, "[unknown-class] annotations[0]: '4' is not a class"),
    ([of_image("a", category_id="--5")], {}, "[unknown-class] [0]: '--5' is not a class"),
    (data_set(entry(category_id=1.0)), {},
     f"{INVALID} annotations[0]: 'category_id' is '1.0'; expected a whole number or a name"),
    *((data_set(entry(score=score)), {}, f"[invalid-probability] {AT} 'score' is ")
      for score in (-0.1, 1.5, "0.5", True, [], 1e30)),
    (data_set(entry(score=0.5), of_image(8)), {}, "[missing-probability] annotations[1]"),
    *((data_set(entry(segmentation=segmentation)), {}, line) for segmentation, line in (
        (None, f"[unsupported-shape] {AT} no segmentation; expected a list of polygons"),
        ([], f"[unsupported-shape] {AT} no segmentation"), ([[]], f"[unsupported-shape] {AT} no segmentation"),
        ({}, f"[unsupported-shape] {AT} no segmentation"), (3, f"{INVALID} {AT} 'segmentation' is '3'"),
        ([1, 2, 3, 4, 5, 6], f"{INVALID} {AT} 'segmentation' is a list of other things"),
        ([[1, 2], [3, 4], [5, 6]], f"{INVALID} {AT} 'segmentation' is a list of 3 pair"),
        ([[[1, 2], [3, 4], [5, 6]]], f"[invalid-coordinate] {AT} a polygon of 3 numbers"),
        ([[[1, 2], [3, 4]]], f"[invalid-coordinate] {AT} a coordinate is '[1, 2]'"),
        ([[1, 2, 3, 4, 5]], f"[invalid-coordinate] {AT} a polygon of 5 numbers; expected x and y of each vertex"),
        ([SQUARE, [], [1, "2"]], f"[invalid-coordinate] {AT} a coordinate is '\"2\"'"),
        ([[1, 2e9]], f"[invalid-coordinate] {AT} a coordinate is '2000000000.0'"),
        ([[1, None]], f"[invalid-coordinate] {AT} a coordinate is 'null'"),
        ([[1, True]], f"[invalid-coordinate] {AT} a coordinate is 'true'"),
        ({"counts": [12]}, f"{INVALID} {AT} 'size' is 'None'; expected [height, width]"),
        ({"size": [3, 4]}, f"{INVALID} {AT} 'counts' is 'None'"),
        ({"size": [4, 3], "counts": [12]}, f"[wrong-shape] {AT} 4 rows x 3 columns; expected 3"),
        ({"size": [3, 4], "counts": [11]}, f"[invalid-rle] {AT} counts that add up to 11, not 12"))),
    # --- limits
    (TWO, {"limits": {"instances_per_case": 1}},
     "[too-large] case 'a': more than 1 nuclei; expected at most 1. Make the file smaller; organisers can "
     "raise limits.instances_per_case in challenge.toml."),
    (ONE_SQUARE, {"limits": {"vertices_per_file": 3}}, "[too-large] more than 3 vertices and runs;"),
    (TWO, {"limits": {"bytes_per_file": 100}}, "[too-large]"), (TWO, {"limits": {"json_depth": 3}}, "[too-deep]"),
    ([of_image("a", segmentation={"size": [50_000, 50_000], "counts": [0, 2_500_000_000]})] * 1000, {"cases": HUGE},
     "[too-complex-runs] case 'a': run-length codes that cover more than 278,144 rows"),
    (MASKS, NUMBERED, "[not-coco] the masks of one image, without its name"),
    (EMPTY_CODE, {"vanished": "error"}, "[vanished-outline] annotations[1]: a code without a pixel"),
    (data_set(entry(segmentation=[[1, 2, 3]]), entry(segmentation={"size": [3, 4], "counts": [1]}),
              entry(category_id=77), entry(score=2, segmentation=None)), {},
     ["[unknown-class]", "[unsupported-shape]", "[invalid-coordinate]", "[invalid-probability]",
      *["[missing-probability]"] * 3, "[invalid-rle]"]),
    # --- MIDOG
    *((boxes(box(*corners)), MIDOG, [line]) for corners, line in (
        ((60, 20, 50, 50), "[invalid-coordinate] annotations[0]: 'bbox' is '[60, 20, 50, 50]'; expected "),
        ((6, 50, 50, 49.5), "[invalid-coordinate] annotations[0]: 'bbox' is '[6, 50, 50, 49.5]'"),
        ((0, 0, 1, 2e9), "[invalid-coordinate] annotations[0]: 'bbox' is '[0, 0, 1, 2000000000.0]'"),
        ((1, 2, 3), f"{INVALID} annotations[0]: 'bbox' is '[1, 2, 3]'; expected [x1, y1, x2"),
        ((1, 2, 3, "4"), f"{INVALID} annotations[0]: 'bbox' is '[1, 2, 3, ’4’]'"),
        ((1, 2, 3, None), f"{INVALID} annotations[0]: 'bbox' is '[1, 2, 3, None]'"))),
    (boxes(box(), box(bbox=None)), MIDOG, "…annotations[1]: no 'bbox'; expected [x1, y1, x2, y2]"),
    ({"masks": [{"size": [2, 3], "counts": [1, 5]}]}, MIDOG, "…masks[0]: no 'image_id'"),
    (boxes(box(), box()), MIDOG | {"limits": {"instances_per_case": 1}},
     "[too-large] case '001': more than 1 nuclei; expected at most 1. Make the file smaller; organisers can raise "
     "limits.instances_per_case"),
]  # fmt: skip

TABLE = Table(
    {"format": "coco_json", "classes": CLASSES, "cases": CASES},
    READ,
    REFUSED,
    [
        ([of_image("a", segmentation={"size": [3, 4], "counts": [1]})] * 50_000, {}, 20, 50_000),
        (data_set(entry(score=0.5), *[of_image(8)] * 50_000), {}, 20, 50_000),
    ],
)
