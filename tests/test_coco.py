"""COCO JSON and MIDOG's: what images, categories, segmentations and scores mean, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from pycocotools import mask as coco_mask

from evaluation.challenge import LimitRules, format_rules
from evaluation.findings.errors import InputFault
from evaluation.formats.coco import (
    read_coco_json,
    read_coco_json_collection,
    read_midog_json,
    read_midog_json_collection,
)
from evaluation.formats.format import Request
from evaluation.model import Case, ClassTable, Instances, Outlines

RULES = format_rules(
    format="coco_json", files="{case}.json", vertices="exact", origin="pixel_centre", vanished="drop", skip_classes=()
)
CLASSES = ClassTable(
    ("plasma", "Tumour"), {"plasma": 1, "tumour": 2, "smear": -1}, skipped=frozenset({"region of interest"})
)
CASES = {name: Case(name, name, 3, 4) for name in ("a", "b")}
CATEGORIES = [{"id": 1, "name": "Tumour"}, {"id": 2, "name": "plasma"}, {"id": 5, "name": "smear"},
              {"id": 6, "name": "Region of interest"}]  # fmt: skip
IMAGES = [{"id": 7, "file_name": "train/a.png", "height": 3, "width": 4}, {"id": 8, "file_name": "b.png"}]
CODE = {"size": [3, 4], "counts": [1, 3, 8]}
SQUARE = [0, 0, 2, 0, 2, 1.5, 0, 1.5]
MASKS = {"bboxes": [[0, 0, 1, 1]] * 2, "labels": [1, 0], "scores": [0.5, 0.25], "masks": [CODE, CODE]}


def request(classes=CLASSES, limits=None, rules=RULES, **options) -> Request:
    limits = LimitRules(**(limits or {}))
    return Request(where="'a.json'", name="a.json", rules=rules, classes=classes, limits=limits, **options)


def entry(**keys) -> dict:
    return {"image_id": 7, "category_id": 2, "segmentation": CODE} | keys


def of_image(name, **keys) -> dict:
    return entry(image_id=name, **keys)


def data_set(*entries: dict, images=IMAGES, categories=CATEGORIES) -> dict:
    return {"info": {}, "images": images, "annotations": list(entries), "categories": categories}


def as_file(document) -> io.BytesIO:
    return io.BytesIO(document if isinstance(document, bytes) else json.dumps(document).encode())


def read_all(document, cases=CASES, **options):
    return read_coco_json_collection(as_file(document), request(**options), cases)


def nuclei_of(document, case="a", **options) -> Instances | Outlines:
    (part,) = read_all(document, **options).cases[case].parts
    return part


def read_one(document, case="a", **options):
    return read_coco_json(as_file(document), request(**options), Case(case, case, 3, 4))


def faults_of(document, read=read_all, **options) -> str:
    with pytest.raises(InputFault) as fault:
        read(document, **options)
    return "\n".join(str(finding) for finding in fault.value.findings)


NAMELESS = {key: value for key, value in entry().items() if key != "image_id"}


# --- images and cases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "cases", "found", "unknown"),
    [
        *((data_set(entry(), images=[{"id": 7, "file_name": name}]), CASES, {"a": 1}, {})
          for name in ("a", "a.png", "train/a.png", "C:\\train\\a.png", "train/a")),
        (data_set(entry()), {"train/a.png": CASES["a"]}, {"a": 1}, {"b.png": 0}),
        (data_set(of_image("a"), images=[{"id": "a"}]), CASES, {"a": 1}, {}),
        ([of_image(17)], {"17": CASES["b"]}, {"b": 1}, {}),
        (data_set(entry()), CASES, {"a": 1, "b": 0}, {}),
        ([of_image("a")], CASES, {"a": 1}, {}),
        (data_set(entry(), of_image(9), of_image(9), images=[
            *IMAGES, {"id": 9, "file_name": "other.png"}, {"id": 10, "file_name": "empty.png"}]), CASES,
         {"a": 1, "b": 0}, {"other.png": 2, "empty.png": 0}),
        ([of_image("c"), of_image("a")], CASES, {"a": 1}, {"c": 1}),
        ([of_image("c", segmentation=3, category_id=[], score=9)], CASES, {}, {"c": 1}),
        (gzip.compress(json.dumps(data_set(entry())).encode()), CASES, {"a": 1, "b": 0}, {}),
    ],
)  # fmt: skip
def test_images_are_cases_by_their_file_name_or_id_and_others_are_counted(document, cases, found, unknown):
    read = read_all(document, cases=cases)
    assert {name: sum(map(len, said.parts)) for name, said in read.cases.items()} == found
    assert read.unknown == unknown


@pytest.mark.parametrize(
    ("document", "case", "nuclei"),
    [
        (data_set(entry(), images=[{"id": 7, "file_name": "z.png"}]), "a", ["0"]),  # the only image, whatever its name
        ([of_image("z")], "a", ["0"]),
        ([NAMELESS, NAMELESS], "a", ["0", "1"]),
        ({"annotations": [NAMELESS]}, "a", ["0"]),
        ([], "a", []),
        ({"annotations": []}, "a", []),
    ],
)
def test_a_file_of_one_case(document, case, nuclei):
    assert [name for part in read_one(document, case).parts for name in part.source_id.tolist()] == nuclei


@pytest.mark.parametrize(
    "document", [data_set(of_image(8, id="x"), entry(), entry()), [of_image("a"), of_image("b", id="x"), of_image("a")]]
)
def test_of_several_images_the_one_named_like_the_case_is_read_and_the_others_are_told(document):
    found = read_one(document, case="b")
    assert found.parts[0].source_id.tolist() == ["x"]
    assert [(finding.code, finding.count) for finding in found.findings] == [("left-out", 2)]


def test_the_lists_of_mmdetection_are_read_in_a_file_of_one_case_only():
    classes = replace(CLASSES, values={0: 1, 1: 2})
    (part,) = read_one(MASKS, classes=classes).parts
    assert part.class_id.tolist() == [2, 1]
    assert part.probability.tolist() == [0.5, 0.25]
    assert "[not-coco] 'a.json': the masks of one image, without its name" in faults_of(MASKS, classes=classes)


# --- classes, ids and probabilities -----------------------------------------------------------------------------------

BOTH = [entry(category_id=1), entry(category_id=2), entry(category_id=5)]


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        (data_set(*BOTH), {}, {"class_id": [2, 1, -1]}),
        (data_set(*BOTH), {"classes": replace(CLASSES, values={1: 1, 2: 2, 5: 2})}, {"class_id": [2, 1, -1]}),
        (data_set(entry(category_id=9), categories=[*CATEGORIES, {"id": 9, "name": "Neoplastic cell"}]),
         {"classes": replace(CLASSES, values={9: 2})}, {"class_id": [2]}),
        ([of_image("a", category_id=0)], {"classes": replace(CLASSES, values={0: 2})}, {"class_id": [2]}),
        ([of_image("a", category_id="Tumour"), of_image("a", category_id=3), of_image("a", category_id=None)], {},
         {"class_id": [2, 0, 0]}),
        ([of_image("a")], {"classes": ClassTable(("x",), {"x": 1})}, {"class_id": [1]}),
        (data_set(entry(category_id=[])), {"file_class": 2}, {"class_id": [2]}),
        (data_set(entry(id=1), entry(category_id=6)), {}, {"source_id": ["1"]}),
        (data_set(entry(id=40), entry(id="x1"), entry(), entry(id=None)), {}, {"source_id": ["40", "x1", "2", "3"]}),
        (data_set(entry(score=1), entry(score=0.25)), {}, {"probability": [1, 0.25]}),
        (data_set(entry(score=0.5), entry(iscrowd=1), entry(category_id=6)), {}, {"probability": [0.5]}),
    ],
)  # fmt: skip
def test_annotations_have_these_classes_ids_and_probabilities(document, options, expected):
    part = nuclei_of(document, **options)
    assert {key: getattr(part, key).tolist() for key in expected} == expected
    assert nuclei_of(data_set(entry())).probability is None


def test_crowds_are_left_out_with_a_warning_but_kept_in_an_ignore_class():
    found = read_all(data_set(entry(iscrowd=1), entry(iscrowd=1), entry(iscrowd=0), entry(iscrowd=1, category_id=5)))
    assert found.cases["a"].parts[0].class_id.tolist() == [1, -1]
    crowd = "a crowd ('iscrowd' is 1); expected single nuclei, or crowds of an ignore class."
    lines = [str(finding) for finding in found.findings]
    assert lines == [f"[left-out] 'a.json', annotations[{number}]: {crowd}" for number in (0, 1)]


# --- segmentations ----------------------------------------------------------------------------------------------------


def test_polygons_are_outlines_and_several_are_parts_of_one_nucleus():
    part = nuclei_of(data_set(entry(segmentation=[SQUARE, [3, 2, 3.5, 2, 3, 2.5]]), entry(segmentation=[SQUARE])))
    assert isinstance(part, Outlines)
    assert part.ring_start.tolist() == [0, 4, 7, 11]
    assert part.ring_instance.tolist() == [0, 0, 1]
    assert not part.ring_is_hole.any()
    assert part.points_xy[:3].tolist() == [[0, 0], [2, 0], [2, 1.5]]
    assert part.points_xy[4:7].tolist() == [[3, 2], [3.5, 2], [3, 2.5]]


def test_codes_are_instances_compressed_or_not():
    string = coco_mask.frPyObjects(CODE, 3, 4)["counts"].decode()
    part = nuclei_of(data_set(entry(), entry(segmentation={"size": [3, 4], "counts": string})))
    assert isinstance(part, Instances)
    assert part.run_instance.tolist().count(0) == part.run_instance.tolist().count(1) == 3
    first = part.run_instance == 0
    assert (part.run_start[first].tolist(), part.run_stop[first].tolist()) == ([1, 4, 8], [2, 5, 9])


def test_a_case_may_have_outlines_and_codes():
    found = read_all(data_set(entry(id=1), entry(id=2, segmentation=[SQUARE]), entry(id=3), of_image(8, id=4)))
    outlines, coded = found.cases["a"].parts
    assert (outlines.source_id.tolist(), coded.source_id.tolist()) == (["2"], ["1", "3"])
    assert found.cases["b"].parts[0].source_id.tolist() == ["4"]


def test_cases_in_turn_get_their_own_shapes_in_the_order_of_the_file():
    found = read_all(
        data_set(*(of_image(7 + n % 2, id=n, segmentation=[[n, 0, 1, 1, 2, 2], [n, 9, 1, 1]]) for n in range(5)))
    )
    for name, expected in (("a", [0, 2, 4]), ("b", [1, 3])):
        (part,) = found.cases[name].parts
        assert part.source_id.tolist() == [str(index) for index in expected]
        assert part.points_xy[part.ring_start[:-1]].tolist() == [[index, y] for index in expected for y in (0, 9)]
        assert part.ring_instance.tolist() == [number for number in range(len(expected)) for _ in range(2)]


def test_a_file_in_many_pieces_gives_the_same_as_in_one(monkeypatch):
    entries = [of_image(7 + n % 2, id=n, score=0.5, segmentation=[SQUARE] if n % 3 else CODE) for n in range(40)]
    once = read_all(data_set(*entries))
    monkeypatch.setattr("evaluation.decoding.json.PIECE_BYTES", 200)
    pieces = read_all(data_set(*entries))
    for name in ("a", "b"):
        for found, expected in zip(pieces.cases[name].parts, once.cases[name].parts, strict=True):
            for key in ("class_id", "source_id", "probability", "points_xy", "run_start", "run_stop", "run_instance"):
                if hasattr(expected, key):
                    assert getattr(found, key).tolist() == getattr(expected, key).tolist()


def test_a_code_without_a_pixel_is_left_out_or_refused_if_the_rules_say_so():
    document = data_set(entry(id=1), entry(id=2, segmentation={"size": [3, 4], "counts": [12]}), entry(id=3))
    found = read_all(document)
    assert found.cases["a"].parts[0].source_id.tolist() == ["1", "3"]
    assert np.bincount(found.cases["a"].parts[0].run_instance).tolist() == [3, 3]
    assert [finding.code for finding in found.findings] == ["left-out"]
    rules = RULES.model_copy(update={"vanished": "error"})
    assert "[vanished-outline] 'a.json', annotations[1]: a code without a pixel" in faults_of(document, rules=rules)


# --- what is refused --------------------------------------------------------------------------------------------------

HUGE = {"a": Case("a", "a", 50_000, 50_000)}
PANOPTIC = {"annotations": [{"image_id": 7, "file_name": "a.png", "segments_info": [{"id": 3, "category_id": 1}]}]}
TWICE = "the id '1' again, with"
AGAIN = "is the case 'a' again; expected one image"
AT = "'a.json', annotations[0]:"
TWO, ONE_SQUARE = data_set(entry(), of_image(8), entry()), data_set(entry(segmentation=[SQUARE]))

REFUSED = [  # what stands in the line
    (data_set(images=[{"id": 7, "file_name": "a.png", "height": 4, "width": 3}]), {},
     "[wrong-shape] 'a.json', images[0]: 4 rows x 3 columns; expected 3 rows x 4 columns, the height and width of the "
     "image. Write codes and coordinates for the image at its own size; height comes before width in 'size'."),
    (data_set(images=[{"id": 7, "file_name": "x/a.png"}, {"id": 8, "file_name": "y/a.png"}]), {},
     f"images[1]: 'y/a.png' {AGAIN}"),
    ([of_image("a"), of_image("x/a")], {}, f"image 'x/a': 'x/a' {AGAIN}"),
    (data_set(entry(), of_image(3)), {}, "annotations[1]: 'image_id' is '3'; expected the id of an image"),
    ([NAMELESS], {}, "[0]: no 'image_id'; expected the id of an image"),
    ([of_image(True)], {}, "[0]: 'image_id' is 'True'"),
    (data_set(entry()), {"read": read_one, "case": "c"},
     "[other-case] 'a.json': 2 images: 'train/a.png' and 'b.png'; expected an image 'c'."),
    (MASKS | {"scores": [1]}, {"read": read_one}, "'scores' that are no list as long as 'masks'"),
    *((document, {"read": read}, "[not-coco] 'a.json': ") for read in (read_one, read_all) for document in (
        3, "a", None, {}, {"annotations": {}}, {"masks": 1}, {"images": []})),
    *((document, {}, "[not-coco] 'a.json': COCO panoptic, whose shapes are in PNG files")
      for document in (PANOPTIC, {"images": IMAGES, "categories": CATEGORIES} | PANOPTIC)),
    *((data_set() | change, {}, line) for change, line in (
        ({"images": 3}, "[not-coco] 'a.json': 'images' that are no list"),
        ({"images": [3]}, "images[0]: '3'; expected an object with an 'id'"),
        ({"categories": [{"name": "a"}]}, "categories[0]: '{’name’: ’a’}'; expected an object with an 'id'"),
        ({"categories": [{"id": 1, "name": "a"}, {"id": "1", "name": "b"}]}, f"categories[1]: {TWICE}"),
        ({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]}, f"images[1]: {TWICE}"),
        ({"annotations": [3]}, "annotations[0]: '3'; expected an object"))),
    (data_set(*[entry(category_id=3)] * 4, categories=[{"id": 3, "name": "Plasme"}]), {},
     "[unknown-class] 'a.json', annotations[0], annotations[1], annotations[2] and 1 more: 'Plasme' is not a class of "
     "this challenge; expected 'plasma' or 'tumour'. Did you mean 'plasma'?"),
    (data_set(entry(category_id=4)), {}, "[0]: '4' is not a class"),
    ([of_image("a", category_id="--5")], {}, "[0]: '--5' is not a class"),
    (data_set(entry(category_id=1.0)), {}, "[0]: 'category_id' is '1.0'; expected a whole number or a name"),
    *((data_set(entry(score=score)), {}, f"[invalid-probability] {AT} 'score' is ")
      for score in (-0.1, 1.5, "0.5", True, [], 1e30)),
    (data_set(entry(score=0.5), of_image(8)), {}, "[missing-probability] 'a.json', annotations[1]"),
    *((data_set(entry(segmentation=segmentation)), {}, line) for segmentation, line in (
        (None, f"[unsupported-shape] {AT} no segmentation; expected a list of polygons"),
        ([], f"[unsupported-shape] {AT} no segmentation"), ([[]], f"[unsupported-shape] {AT} no segmentation"),
        ({}, f"[unsupported-shape] {AT} no segmentation"), (3, f"[invalid-annotation] {AT} 'segmentation' is '3'"),
        ([1, 2, 3, 4, 5, 6], f"[invalid-annotation] {AT} 'segmentation' is a list of other things"),
        ([[1, 2], [3, 4], [5, 6]], f"[invalid-annotation] {AT} 'segmentation' is a list of 3 pair"),
        ([[[1, 2], [3, 4], [5, 6]]], f"[invalid-coordinate] {AT} a polygon of 3 numbers"),
        ([[[1, 2], [3, 4]]], f"[invalid-coordinate] {AT} the number '[1, 2]'"),
        ([[1, 2, 3, 4, 5]], f"[invalid-coordinate] {AT} a polygon of 5 numbers; expected numbers"),
        ([SQUARE, [], [1, "2"]], f"[invalid-coordinate] {AT} the number '2'"),
        ([[1, 2e9]], f"[invalid-coordinate] {AT} the number '2000000000.0'"),
        ([[1, None]], f"[invalid-coordinate] {AT} the number 'None'"),
        ([[1, True]], f"[invalid-coordinate] {AT} the number 'True'"),
        ({"counts": [12]}, f"[invalid-annotation] {AT} 'size' is 'None'; expected [height, width]"),
        ({"size": [3, 4]}, f"[invalid-annotation] {AT} 'counts' is 'None'"),
        ({"size": [4, 3], "counts": [12]}, f"[wrong-shape] {AT} 4 rows x 3 columns; expected 3"),
        ({"size": [3, 4], "counts": [11]}, f"[invalid-rle] {AT} counts that add up to 11, not 12"))),
    # --- limits
    (TWO, {"limits": {"instances_per_case": 1}},
     "[too-large] 'a.json', case 'a': more than 1 nuclei; expected at most 1. Make the file smaller; organisers can "
     "raise limits.instances_per_case in challenge.toml."),
    (ONE_SQUARE, {"limits": {"vertices_per_file": 3}}, "limits.vertices_per_file"),
    (TWO, {"limits": {"bytes_per_file": 100}}, "[too-large]"), (TWO, {"limits": {"json_depth": 3}}, "[too-deep]"),
    ([of_image("a", segmentation={"size": [50_000, 50_000], "counts": [0, 2_500_000_000]})] * 1000, {"cases": HUGE},
     "[too-complex-runs] 'a.json', case 'a': run-length codes that cover more than 278,144 rows"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "options", "line"), REFUSED)
def test_a_file_is_refused_with_this_line(document, options, line):
    assert line in faults_of(document, **options)


def test_limits_can_just_be_met():
    assert read_all(TWO, limits={"instances_per_case": 2}).cases
    assert read_all(ONE_SQUARE, limits={"vertices_per_file": 4}).cases


def test_all_faults_of_a_file_come_at_once():
    entries = [entry(segmentation=[[1, 2, 3]]), entry(segmentation={"size": [3, 4], "counts": [1]}),
               entry(category_id=77), entry(score=2, segmentation=None)]  # fmt: skip
    codes = {line.partition("]")[0][1:] for line in faults_of(data_set(*entries)).splitlines()}
    assert codes == {
        "invalid-coordinate", "invalid-rle", "unknown-class", "invalid-probability", "unsupported-shape",
        "missing-probability",
    }  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        [of_image("a", segmentation={"size": [3, 4], "counts": [1]})] * 50_000,
        data_set(entry(score=0.5), *[of_image(8)] * 50_000),
    ],
    ids=["codes", "scores"],
)
def test_fifty_thousand_equal_mistakes_are_counted(document):
    with pytest.raises(InputFault) as fault:
        read_all(document)
    assert len(fault.value.findings) == 20
    assert sum(finding.count for finding in fault.value.findings) == 50_000


# --- MIDOG: a nucleus is the middle of a box of two corners -----------------------------------------------------------

MIDOG = format_rules(format="midog_json", files="midog.json", origin="pixel_corner")
FIGURES = ClassTable(("mitotic figure",), {"mitotic figure": 1}, skipped=frozenset({"not mitotic figure"}))
FIGURE_CATEGORIES = [{"id": 1, "name": "mitotic figure"}, {"id": 2, "name": "not mitotic figure"}]
BOXED = {name: Case(name, name, 100, 200) for name in ("001", "002")}


def box(*corners, image=1, category=1, **keys) -> dict:
    return {"image_id": image, "category_id": category, "bbox": list(corners or (10, 20, 15, 40))} | keys


def document(*annotations) -> dict:
    images = [{"id": number, "file_name": f"00{number}.tiff"} for number in (1, 2)]
    return {"images": images, "categories": FIGURE_CATEGORIES, "annotations": annotations}


def boxes_in(value, classes=FIGURES, limits=None):
    return read_midog_json_collection(as_file(value), request(classes, limits, MIDOG), BOXED)


def points_in(value, **options):
    (part,) = boxes_in(value, **options).cases["001"].parts
    return part


def fault_in(value, **options) -> str:
    return faults_of(value, boxes_in, **options)


def test_a_nucleus_is_the_middle_of_its_box():
    points = points_in(document(box(10, 20, 15, 40), box(-1, 0.5, 1, 0.5), box(image=2)))
    assert points.points_xy.tolist() == [[12.5, 30], [0, 0.5]]
    assert points.class_id.tolist() == [1, 1]
    assert points.source_id.tolist() == ["0", "1"]
    assert points.probability is None


def test_hard_negatives_are_skipped_or_a_class_of_their_own():
    value = document(box(category=2, id=1), box(id=2))
    assert points_in(value).source_id.tolist() == ["2"]
    both = ClassTable(("a", "b"), {"mitotic figure": 1, "not mitotic figure": 2})
    assert points_in(value, classes=both).class_id.tolist() == [2, 1]
    numbers = ClassTable(("a", "b"), {"a": 1, "b": 2}, {1: 1, 2: 2})
    assert points_in(value, classes=numbers).class_id.tolist() == [2, 1]


def test_an_image_with_nothing_but_hard_negatives_has_no_nuclei():
    assert boxes_in(document(box(), box(image=2, category=2))).cases["002"].parts == ()


def test_scores_are_probabilities():
    assert points_in(document(box(score=0.5), box(score=1))).probability.tolist() == [0.5, 1]


def test_a_file_may_hold_one_case():
    value = {"annotations": [{"bbox": [0, 0, 2, 4], "category_id": 1}], "categories": FIGURE_CATEGORIES}
    found = read_midog_json(as_file(value), request(FIGURES, rules=MIDOG), BOXED["002"])
    assert found.parts[0].points_xy.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("corners", "line"),
    [
        ((60, 20, 50, 50), "[invalid-coordinate] 'a.json', annotations[0]: 'bbox' is '[60, 20, 50, 50]'; expected "),
        ((6, 50, 50, 49.5), "[invalid-coordinate] 'a.json', annotations[0]: 'bbox' is '[6, 50, 50, 49.5]'"),
        ((0, 0, 1, 2e9), "[invalid-coordinate] 'a.json', annotations[0]: 'bbox' is '[0, 0, 1, 2000000000.0]'"),
        ((1, 2, 3), "[invalid-annotation] 'a.json', annotations[0]: 'bbox' is '[1, 2, 3]'; expected [x1, y1, x2"),
        ((1, 2, 3, "4"), "[invalid-annotation] 'a.json', annotations[0]: 'bbox' is '[1, 2, 3, ’4’]'"),
        ((1, 2, 3, None), "[invalid-annotation] 'a.json', annotations[0]: 'bbox' is '[1, 2, 3, None]'"),
    ],
)
def test_boxes_that_are_none_are_refused(corners, line):
    assert fault_in(document(box(*corners))).startswith(line)


def test_annotations_without_a_box_and_masks_are_refused():
    assert "annotations[1]: no 'bbox'; expected [x1, y1, x2, y2]" in fault_in(document(box(), box(bbox=None)))
    assert "masks[0]: no 'image_id'" in fault_in({"masks": [{"size": [2, 3], "counts": [1, 5]}]})


def test_the_limit_of_nuclei_is_named():
    line = fault_in(document(box(), box()), limits={"instances_per_case": 1})
    assert "more than 1 nuclei; expected at most 1." in line
    assert "limits.instances_per_case" in line


# --- MIDOG++ ----------------------------------------------------------------------------------------------------------


def test_midog_has_26286_boxes_in_553_images_of_which_78_have_no_mitosis(shared_data):
    path = shared_data / "midog" / "databases" / "MIDOG++.json.gz"
    database = json.loads(gzip.decompress(path.read_bytes()))
    cases = {
        image["file_name"]: Case(image["file_name"][:-5], "", image["height"], image["width"])
        for image in database["images"]
    }
    with path.open("rb") as stream:
        figures = read_midog_json_collection(stream, request(FIGURES, rules=MIDOG), cases)
        both = ClassTable(("a", "b"), {"mitotic figure": 1, "not mitotic figure": 2})
        everything = read_midog_json_collection(stream, request(both, rules=MIDOG), cases)
    assert sum(len(part) for said in everything.cases.values() for part in said.parts) == 26_286
    assert len(figures.cases) == 553
    assert sum(not said.parts for said in figures.cases.values()) == 78
    assert figures.unknown == {}
    assert everything.cases["001"].parts[0].points_xy[0].tolist() == [4361, 371]  # of the box 4336, 346, 4386, 396
    points = np.concatenate([part.points_xy for said in figures.cases.values() for part in said.parts])
    middles = [
        [(x1 + x2) / 2, (y1 + y2) / 2]
        for x1, y1, x2, y2 in (one["bbox"] for one in database["annotations"] if one["category_id"] == 1)
    ]
    assert sorted(points.tolist()) == sorted(middles)
