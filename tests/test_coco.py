"""COCO JSON: what images, categories, segmentations and scores mean, and what is refused."""

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
from evaluation.formats.coco_json import read_coco_json, read_coco_json_collection
from evaluation.formats.request import Request
from evaluation.model import Case, ClassTable, Instances, Outlines

RULES = format_rules(
    format="coco_json", files="{case}.json", vertices="exact", origin="pixel_centre", vanished="drop", skip_classes=()
)
CLASSES = ClassTable(
    ("plasma", "Tumour"), {"plasma": 1, "tumour": 2, "smear": -1}, skipped=frozenset({"region of interest"})
)
CASES = {name: Case(name, name, 3, 4) for name in ("a", "b")}
CATEGORIES = [
    {"id": 1, "name": "Tumour"},
    {"id": 2, "name": "plasma"},
    {"id": 5, "name": "smear"},
    {"id": 6, "name": "Region of interest"},
]
IMAGES = [{"id": 7, "file_name": "train/a.png", "height": 3, "width": 4}, {"id": 8, "file_name": "b.png"}]
CODE = {"size": [3, 4], "counts": [1, 3, 8]}
SQUARE = [0, 0, 2, 0, 2, 1.5, 0, 1.5]


def request(classes=CLASSES, limits=None, rules=RULES, **options) -> Request:
    where = f"{options.pop('name', 'a.json')!r}"
    return Request(
        where=where, name=where[1:-1], rules=rules, classes=classes, limits=limits or LimitRules(), **options
    )


def entry(**keys) -> dict:
    return {"image_id": 7, "category_id": 2, "segmentation": CODE} | keys


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


# --- images and cases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_name", ["a", "a.png", "train/a.png", "C:\\train\\a.png", "train/a"])
def test_an_image_is_found_by_its_file_name_with_or_without_folder_and_suffix(file_name):
    found = read_all(data_set(entry(), images=[{"id": 7, "file_name": file_name}]))
    assert list(found.cases) == ["a"]
    assert not found.unknown


def test_a_key_with_folder_and_suffix_is_found():
    assert list(read_all(data_set(entry()), cases={"train/a.png": CASES["a"]}).cases) == ["a"]


def test_an_image_without_a_file_name_is_found_by_its_id():
    assert list(read_all(data_set(entry(image_id="a"), images=[{"id": "a"}])).cases) == ["a"]
    assert list(read_all([entry(image_id=17)], cases={"17": CASES["b"]}).cases) == ["b"]


def test_a_listed_image_without_annotations_is_a_case_without_nuclei():
    found = read_all(data_set(entry()))
    assert found.cases["b"].parts == ()
    assert set(found.cases) == {"a", "b"}


def test_a_case_that_no_result_names_is_not_mentioned():
    assert set(read_all([entry(image_id="a")]).cases) == {"a"}


def test_images_that_are_no_case_are_counted():
    images = [*IMAGES, {"id": 9, "file_name": "other.png"}, {"id": 10, "file_name": "empty.png"}]
    found = read_all(data_set(entry(), entry(image_id=9), entry(image_id=9), images=images))
    assert found.unknown == {"other.png": 2, "empty.png": 0}
    assert read_all([entry(image_id="c"), entry(image_id="a")]).unknown == {"c": 1}


def test_what_is_wrong_in_images_that_are_no_case_does_not_matter():
    assert read_all([entry(image_id="c", segmentation=3, category_id=[], score=9)]).unknown == {"c": 1}


def test_an_image_of_another_size_than_its_case_is_refused():
    images = [{"id": 7, "file_name": "a.png", "height": 4, "width": 3}]
    assert faults_of(data_set(images=images)) == (
        "[wrong-shape] 'a.json', images[0]: 4 rows x 3 columns; expected 3 rows x 4 columns, the height and width of "
        "the image. Write codes and coordinates for the image at its own size; height comes before width in 'size'."
    )


def test_two_images_of_a_case_are_refused():
    images = [{"id": 7, "file_name": "x/a.png"}, {"id": 8, "file_name": "y/a.png"}]
    assert "images[1]: 'y/a.png' is the case 'a' again; expected one image" in faults_of(data_set(images=images))
    assert "image 'x/a': 'x/a' is the case 'a' again" in faults_of([entry(image_id="a"), entry(image_id="x/a")])


def test_annotations_of_no_listed_image_are_refused():
    assert "annotations[1]: 'image_id' is '3'; expected the id of an image" in faults_of(
        data_set(entry(), entry(image_id=3))
    )
    without = {key: value for key, value in entry().items() if key != "image_id"}
    assert "[0]: no 'image_id'; expected the id of an image" in faults_of([without])
    assert "[0]: 'image_id' is 'True'" in faults_of([entry(image_id=True)])


# --- one file for one case --------------------------------------------------------------------------------------------


def test_the_only_image_of_a_file_is_its_case_whatever_it_is_called():
    for document in (data_set(entry(), images=[{"id": 7, "file_name": "z.png"}]), [entry(image_id="z")]):
        (part,) = read_one(document).parts
        assert len(part) == 1


def test_annotations_without_an_image_belong_to_the_case_of_the_file():
    without = {key: value for key, value in entry().items() if key != "image_id"}
    assert len(read_one([without, without]).parts[0]) == 2
    assert len(read_one({"annotations": [without]}).parts[0]) == 1


def test_of_several_images_the_one_named_like_the_case_is_read_and_the_others_are_told():
    for document in (
        data_set(entry(image_id=8, id="x"), entry(), entry()),
        [entry(image_id="a"), entry(image_id="b", id="x"), entry(image_id="a")],
    ):
        found = read_one(document, case="b")
        assert found.parts[0].source_id.tolist() == ["x"]
        assert [(finding.code, finding.count) for finding in found.findings] == [("left-out", 2)]


def test_a_file_of_other_cases_is_refused():
    line = "[other-case] 'a.json': 2 images: 'train/a.png' and 'b.png'; expected an image 'c'."
    assert faults_of(data_set(entry()), read_one, case="c") == line


def test_a_file_for_one_case_may_be_empty():
    assert read_one([]).parts == ()
    assert read_one({"annotations": []}).parts == ()


# --- forms ------------------------------------------------------------------------------------------------------------


def test_the_lists_of_mmdetection_are_read_in_a_file_of_one_case_only():
    document = {"bboxes": [[0, 0, 1, 1]] * 2, "labels": [1, 0], "scores": [0.5, 0.25], "masks": [CODE, CODE]}
    classes = replace(CLASSES, values={0: 1, 1: 2})
    (part,) = read_one(document, classes=classes).parts
    assert part.class_id.tolist() == [2, 1]
    assert part.probability.tolist() == [0.5, 0.25]
    assert "[not-coco] 'a.json': the masks of one image, without its name" in faults_of(document, classes=classes)
    assert "'scores' that are no list as long as 'masks'" in faults_of(document | {"scores": [1]}, read_one)


def test_a_file_may_be_compressed():
    assert len(nuclei_of(gzip.compress(json.dumps(data_set(entry())).encode()))) == 1


@pytest.mark.parametrize("document", [3, "a", None, {}, {"annotations": {}}, {"masks": 1}, {"images": []}])
def test_other_json_is_not_coco(document):
    for read in (read_one, read_all):
        assert faults_of(document, read).startswith("[not-coco] 'a.json': ")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"images": 3}, "[not-coco] 'a.json': 'images' that are no list"),
        ({"images": [3]}, "images[0]: '3'; expected an object with an 'id'"),
        ({"categories": [{"name": "a"}]}, "categories[0]: '{’name’: ’a’}'; expected an object with an 'id'"),
        ({"categories": [{"id": 1, "name": "a"}, {"id": "1", "name": "b"}]}, "categories[1]: the id '1' again, with"),
        ({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]}, "images[1]: the id '1' again, with"),
        ({"annotations": [3]}, "annotations[0]: '3'; expected an object"),
    ],
)
def test_broken_tables_are_refused(change, line):
    assert line in faults_of(data_set() | change)


# --- classes ----------------------------------------------------------------------------------------------------------


def test_the_class_is_the_name_of_the_category_not_its_number():
    entries = [entry(category_id=1), entry(category_id=2), entry(category_id=5)]
    assert nuclei_of(data_set(*entries)).class_id.tolist() == [2, 1, -1]
    values = replace(CLASSES, values={1: 1, 2: 2, 5: 2})
    assert nuclei_of(data_set(*entries), classes=values).class_id.tolist() == [2, 1, -1]


def test_a_category_whose_name_is_no_class_has_the_class_of_its_number():
    classes = replace(CLASSES, values={9: 2})
    categories = [*CATEGORIES, {"id": 9, "name": "Neoplastic cell"}]
    assert nuclei_of(data_set(entry(category_id=9), categories=categories), classes=classes).class_id.tolist() == [2]


def test_results_have_the_class_of_their_number_or_name_else_that_of_nuclei_without_a_name():
    values = replace(CLASSES, values={0: 2})
    assert nuclei_of([entry(image_id="a", category_id=0)], classes=values).class_id.tolist() == [2]
    assert nuclei_of([entry(image_id="a", category_id="Tumour")]).class_id.tolist() == [2]
    assert nuclei_of([entry(image_id="a", category_id=3)]).class_id.tolist() == [0]
    assert nuclei_of([entry(image_id="a")], classes=ClassTable(("x",), {"x": 1})).class_id.tolist() == [1]
    assert nuclei_of([entry(image_id="a", category_id=None)]).class_id.tolist() == [0]


def test_the_class_of_the_file_goes_before_that_of_the_annotation():
    assert nuclei_of(data_set(entry(category_id=[])), file_class=2).class_id.tolist() == [2]


def test_skipped_categories_are_left_out():
    assert nuclei_of(data_set(entry(id=1), entry(category_id=6))).source_id.tolist() == ["1"]


def test_an_unknown_class_is_told_once_with_the_number_of_its_annotations():
    categories = [{"id": 3, "name": "Plasme"}]
    assert faults_of(data_set(*[entry(category_id=3)] * 4, categories=categories)) == (
        "[unknown-class] 'a.json', annotations[0], annotations[1], annotations[2] and 1 more: 'Plasme' is not a class "
        "of this challenge; expected 'plasma' or 'tumour'. Did you mean 'plasma'?"
    )
    assert "[0]: '4' is not a class" in faults_of(data_set(entry(category_id=4)))
    assert "[0]: '--5' is not a class" in faults_of([entry(image_id="a", category_id="--5")])


def test_a_category_that_is_no_number_and_no_name_is_refused():
    assert "annotations[0]: 'category_id' is '1.0'; expected a whole number or a name" in faults_of(
        data_set(entry(category_id=1.0))
    )


def test_crowds_are_left_out_with_a_warning_but_kept_in_an_ignore_class():
    crowds = [entry(iscrowd=1), entry(iscrowd=1), entry(iscrowd=0), entry(iscrowd=1, category_id=5)]
    found = read_all(data_set(*crowds))
    (part,) = found.cases["a"].parts
    assert part.class_id.tolist() == [1, -1]
    assert [str(finding) for finding in found.findings] == [
        "[left-out] 'a.json', annotations[0]: a crowd ('iscrowd' is 1); expected single nuclei, or crowds of an ignore "
        "class.",
        "[left-out] 'a.json', annotations[1]: a crowd ('iscrowd' is 1); expected single nuclei, or crowds of an ignore "
        "class.",
    ]


# --- ids and probabilities --------------------------------------------------------------------------------------------


def test_the_source_is_the_id_of_an_annotation_or_its_position():
    entries = [entry(id=40), entry(id="x1"), entry(), entry(id=None)]
    assert nuclei_of(data_set(*entries)).source_id.tolist() == ["40", "x1", "2", "3"]


def test_scores_are_probabilities():
    part = nuclei_of(data_set(entry(score=1), entry(score=0.25)))
    assert part.probability.tolist() == [1, 0.25]
    assert part.probability.dtype == np.float64
    assert nuclei_of(data_set(entry())).probability is None


def test_scores_of_crowds_and_skipped_categories_do_not_matter():
    entries = [entry(score=0.5), entry(iscrowd=1), entry(category_id=6)]
    assert nuclei_of(data_set(*entries)).probability.tolist() == [0.5]


@pytest.mark.parametrize("score", [-0.1, 1.5, "0.5", True, [], 1e30])
def test_a_score_that_is_no_probability_is_refused(score):
    assert "annotations[0]: 'score' is " in (text := faults_of(data_set(entry(score=score))))
    assert text.startswith("[invalid-probability]")


def test_a_score_for_some_nuclei_only_is_refused():
    entries = [entry(score=0.5), *[entry(image_id=8)] * 30]
    with pytest.raises(InputFault) as fault:
        read_all(data_set(*entries))
    assert {finding.code for finding in fault.value.findings} == {"missing-probability"}
    assert sum(finding.count for finding in fault.value.findings) == 30
    assert fault.value.findings[0].where == "'a.json', annotations[1]"


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
    assert part.run_start[first].tolist() == [1, 4, 8]
    assert part.run_stop[first].tolist() == [2, 5, 9]


def test_a_case_may_have_outlines_and_codes():
    found = read_all(data_set(entry(id=1), entry(id=2, segmentation=[SQUARE]), entry(id=3), entry(image_id=8, id=4)))
    outlines, coded = found.cases["a"].parts
    assert (outlines.source_id.tolist(), coded.source_id.tolist()) == (["2"], ["1", "3"])
    assert found.cases["b"].parts[0].source_id.tolist() == ["4"]


def test_cases_in_turn_get_their_own_shapes_in_the_order_of_the_file():
    entries = [
        entry(image_id=7 + index % 2, id=index, segmentation=[[index, 0, 1, 1, 2, 2], [index, 9, 1, 1]])
        for index in range(5)
    ]
    found = read_all(data_set(*entries))
    for name, expected in (("a", [0, 2, 4]), ("b", [1, 3])):
        (part,) = found.cases[name].parts
        assert part.source_id.tolist() == [str(index) for index in expected]
        assert part.points_xy[part.ring_start[:-1]].tolist() == [[index, y] for index in expected for y in (0, 9)]
        assert part.ring_instance.tolist() == [number for number in range(len(expected)) for _ in range(2)]


def test_a_file_in_many_pieces_gives_the_same_as_in_one(monkeypatch):
    entries = [
        entry(image_id=7 + index % 2, id=index, score=0.5, segmentation=[SQUARE] if index % 3 else CODE)
        for index in range(40)
    ]
    once = read_all(data_set(*entries))
    monkeypatch.setattr("evaluation.decoding.json.PIECE_BYTES", 200)
    pieces = read_all(data_set(*entries))
    for name in ("a", "b"):
        for found, expected in zip(pieces.cases[name].parts, once.cases[name].parts, strict=True):
            for key in ("class_id", "source_id", "probability", "points_xy", "run_start", "run_stop", "run_instance"):
                if hasattr(expected, key):
                    assert getattr(found, key).tolist() == getattr(expected, key).tolist()


def test_a_code_without_a_pixel_is_left_out_or_refused_if_the_rules_say_so():
    empty = {"size": [3, 4], "counts": [12]}
    document = data_set(entry(id=1), entry(id=2, segmentation=empty), entry(id=3))
    found = read_all(document)
    assert found.cases["a"].parts[0].source_id.tolist() == ["1", "3"]
    assert np.bincount(found.cases["a"].parts[0].run_instance).tolist() == [3, 3]
    assert [finding.code for finding in found.findings] == ["left-out"]
    rules = RULES.model_copy(update={"vanished": "error"})
    assert "[vanished-outline] 'a.json', annotations[1]: a code without a pixel" in faults_of(document, rules=rules)


@pytest.mark.parametrize(
    ("segmentation", "line"),
    [
        (None, "[unsupported-shape] 'a.json', annotations[0]: no segmentation; expected a list of polygons"),
        ([], "[unsupported-shape] 'a.json', annotations[0]: no segmentation"),
        ([[]], "[unsupported-shape] 'a.json', annotations[0]: no segmentation"),
        ({}, "[unsupported-shape] 'a.json', annotations[0]: no segmentation"),
        (3, "[invalid-annotation] 'a.json', annotations[0]: 'segmentation' is '3'"),
        ([1, 2, 3, 4, 5, 6], "[invalid-annotation] 'a.json', annotations[0]: 'segmentation' is a list of other things"),
        ([[1, 2], [3, 4], [5, 6]], "[invalid-annotation] 'a.json', annotations[0]: 'segmentation' is a list of 3 pair"),
        ([[[1, 2], [3, 4], [5, 6]]], "[invalid-coordinate] 'a.json', annotations[0]: a polygon of 3 numbers"),
        ([[[1, 2], [3, 4]]], "[invalid-coordinate] 'a.json', annotations[0]: the number '[1, 2]'"),
        ([[1, 2, 3, 4, 5]], "[invalid-coordinate] 'a.json', annotations[0]: a polygon of 5 numbers; expected numbers"),
        ([SQUARE, [], [1, "2"]], "[invalid-coordinate] 'a.json', annotations[0]: the number '2'"),
        ([[1, 2e9]], "[invalid-coordinate] 'a.json', annotations[0]: the number '2000000000.0'"),
        ([[1, None]], "[invalid-coordinate] 'a.json', annotations[0]: the number 'None'"),
        ([[1, True]], "[invalid-coordinate] 'a.json', annotations[0]: the number 'True'"),
        ({"counts": [12]}, "[invalid-annotation] 'a.json', annotations[0]: 'size' is 'None'; expected [height, width]"),
        ({"size": [3, 4]}, "[invalid-annotation] 'a.json', annotations[0]: 'counts' is 'None'"),
        ({"size": [4, 3], "counts": [12]}, "[wrong-shape] 'a.json', annotations[0]: 4 rows x 3 columns; expected 3"),
        ({"size": [3, 4], "counts": [11]}, "[invalid-rle] 'a.json', annotations[0]: counts that add up to 11, not 12"),
    ],
)
def test_segmentations_that_are_none_are_refused(segmentation, line):
    assert line in faults_of(data_set(entry(segmentation=segmentation)))


def test_all_faults_of_a_file_come_at_once():
    entries = [
        entry(segmentation=[[1, 2, 3]]),
        entry(segmentation={"size": [3, 4], "counts": [1]}),
        entry(category_id=77),
        entry(score=2, segmentation=None),
    ]
    with pytest.raises(InputFault) as fault:
        read_all(data_set(*entries))
    assert {finding.code for finding in fault.value.findings} == {
        "invalid-coordinate",
        "invalid-rle",
        "unknown-class",
        "invalid-probability",
        "unsupported-shape",
        "missing-probability",
    }


def test_fifty_thousand_equal_mistakes_are_counted():
    with pytest.raises(InputFault) as fault:
        read_all([entry(image_id="a", segmentation={"size": [3, 4], "counts": [1]})] * 50_000)
    assert len(fault.value.findings) == 20
    assert sum(finding.count for finding in fault.value.findings) == 50_000


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_limits_name_themselves():
    two = data_set(entry(), entry(image_id=8), entry())
    assert faults_of(two, limits=LimitRules(instances_per_case=1)) == (
        "[too-large] 'a.json', case 'a': more than 1 nuclei; expected at most 1. Make the file smaller; organisers "
        "can raise limits.instances_per_case in challenge.toml."
    )
    assert read_all(two, limits=LimitRules(instances_per_case=2)).cases
    square = data_set(entry(segmentation=[SQUARE]))
    assert "limits.vertices_per_file" in faults_of(square, limits=LimitRules(vertices_per_file=3))
    assert read_all(square, limits=LimitRules(vertices_per_file=4)).cases
    assert "[too-large]" in faults_of(two, limits=LimitRules(bytes_per_file=100))
    assert "[too-deep]" in faults_of(two, limits=LimitRules(json_depth=3))


def test_many_codes_of_whole_images_are_refused():
    case = {"a": Case("a", "a", 50_000, 50_000)}
    code = {"size": [50_000, 50_000], "counts": [0, 2_500_000_000]}
    line = faults_of([entry(image_id="a", segmentation=code)] * 1000, cases=case)
    assert line.startswith("[too-complex-runs] 'a.json', case 'a': run-length codes that cover more than 278,144 rows")


def test_coco_panoptic_is_named_and_what_to_export_instead():
    listed = {"annotations": [{"image_id": 7, "file_name": "a.png", "segments_info": [{"id": 3, "category_id": 1}]}]}
    for document in (listed, {"images": IMAGES, "categories": CATEGORIES} | listed):
        assert faults_of(document).startswith("[not-coco] 'a.json': COCO panoptic, whose shapes are in PNG files")
