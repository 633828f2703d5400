"""MIDOG JSON: a nucleus is the middle of a box of two corners."""

from __future__ import annotations

import gzip
import io
import json

import numpy as np
import pytest

from evaluation.challenge import LimitRules, format_rules
from evaluation.findings.errors import InputFault
from evaluation.formats.coco import read_midog_json, read_midog_json_collection
from evaluation.formats.format import Request
from evaluation.model import Case, ClassTable, Points

RULES = format_rules(format="midog_json", files="midog.json", origin="pixel_corner")
FIGURES = ClassTable(("mitotic figure",), {"mitotic figure": 1}, skipped=frozenset({"not mitotic figure"}))
CATEGORIES = [{"id": 1, "name": "mitotic figure"}, {"id": 2, "name": "not mitotic figure"}]
IMAGES = [{"id": 1, "file_name": "001.tiff"}, {"id": 2, "file_name": "002.tiff"}]
CASES = {name: Case(name, name, 100, 200) for name in ("001", "002")}


def box(*corners, image=1, category=1, **keys) -> dict:
    return {"image_id": image, "category_id": category, "bbox": list(corners or (10, 20, 15, 40))} | keys


def document(*annotations) -> dict:
    return {"images": IMAGES, "categories": CATEGORIES, "annotations": annotations}


def request(classes=FIGURES, limits=None) -> Request:
    limits = limits or LimitRules()
    return Request(where="'midog.json'", name="midog.json", rules=RULES, classes=classes, limits=limits)


def read(value, **options):
    stream = io.BytesIO(value if isinstance(value, bytes) else json.dumps(value).encode())
    return read_midog_json_collection(stream, request(**options), CASES)


def points_of(value, case="001", **options) -> Points:
    (part,) = read(value, **options).cases[case].parts
    return part


def fault_of(value, **options) -> str:
    with pytest.raises(InputFault) as fault:
        read(value, **options)
    (finding,) = fault.value.findings
    return str(finding)


def test_a_nucleus_is_the_middle_of_its_box():
    points = points_of(document(box(10, 20, 15, 40), box(-1, 0.5, 1, 0.5), box(image=2)))
    assert points.points_xy.tolist() == [[12.5, 30], [0, 0.5]]
    assert points.class_id.tolist() == [1, 1]
    assert points.source_id.tolist() == ["0", "1"]
    assert points.probability is None


def test_hard_negatives_are_skipped_or_a_class_of_their_own():
    value = document(box(category=2, id=1), box(id=2))
    assert points_of(value).source_id.tolist() == ["2"]
    both = ClassTable(("a", "b"), {"mitotic figure": 1, "not mitotic figure": 2})
    assert points_of(value, classes=both).class_id.tolist() == [2, 1]
    numbers = ClassTable(("a", "b"), {"a": 1, "b": 2}, {1: 1, 2: 2})
    assert points_of(value, classes=numbers).class_id.tolist() == [2, 1]


def test_an_image_with_nothing_but_hard_negatives_has_no_nuclei():
    assert read(document(box(), box(image=2, category=2))).cases["002"].parts == ()


def test_scores_are_probabilities():
    assert points_of(document(box(score=0.5), box(score=1))).probability.tolist() == [0.5, 1]


def test_a_file_may_hold_one_case():
    value = {"annotations": [{"bbox": [0, 0, 2, 4], "category_id": 1}], "categories": CATEGORIES}
    found = read_midog_json(io.BytesIO(json.dumps(value).encode()), request(), CASES["002"])
    assert found.parts[0].points_xy.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("corners", "line"),
    [
        (
            (60, 20, 50, 50),
            "[invalid-coordinate] 'midog.json', annotations[0]: 'bbox' is '[60, 20, 50, 50]'; expected ",
        ),
        ((6, 50, 50, 49.5), "[invalid-coordinate] 'midog.json', annotations[0]: 'bbox' is '[6, 50, 50, 49.5]'"),
        ((0, 0, 1, 2e9), "[invalid-coordinate] 'midog.json', annotations[0]: 'bbox' is '[0, 0, 1, 2000000000.0]'"),
        ((1, 2, 3), "[invalid-annotation] 'midog.json', annotations[0]: 'bbox' is '[1, 2, 3]'; expected [x1, y1, x2"),
        ((1, 2, 3, "4"), "[invalid-annotation] 'midog.json', annotations[0]: 'bbox' is '[1, 2, 3, ’4’]'"),
        ((1, 2, 3, None), "[invalid-annotation] 'midog.json', annotations[0]: 'bbox' is '[1, 2, 3, None]'"),
    ],
)
def test_boxes_that_are_none_are_refused(corners, line):
    assert fault_of(document(box(*corners))).startswith(line)


def test_annotations_without_a_box_and_masks_are_refused():
    assert "annotations[1]: no 'bbox'; expected [x1, y1, x2, y2]" in fault_of(document(box(), box(bbox=None)))
    assert fault_of({"masks": []}).startswith("[not-coco] 'midog.json': masks")


def test_the_limit_of_nuclei_is_named():
    line = fault_of(document(box(), box()), limits=LimitRules(instances_per_case=1))
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
        figures = read_midog_json_collection(stream, request(), cases)
        both = ClassTable(("a", "b"), {"mitotic figure": 1, "not mitotic figure": 2})
        everything = read_midog_json_collection(stream, request(classes=both), cases)
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
