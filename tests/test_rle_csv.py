"""Run-length CSV: the Data Science Bowl's files and scores, codes made and decoded by hand, and broken files."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest
from endless import not_endless

from evaluation.challenge import LimitRules, format_rules
from evaluation.findings import render_findings
from evaluation.findings.errors import InputFault
from evaluation.formats.format import Request
from evaluation.formats.run_lengths import read_rle_csv_collection
from evaluation.model import Case, ClassTable, Collection, Instances

WIDE = Case("a", "P1", 3, 5)  # 3 rows of 5 px
TALL = Case("b", "P2", 4, 2)
CASES = {"a": WIDE, "b": TALL}
TWO_CLASSES = ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "vague": -1}, skipped=frozenset({"roi"}))
NUCLEUS = ClassTable(("Nucleus",), {"nucleus": 1})


def request(classes: ClassTable = NUCLEUS, limits: LimitRules | None = None, **rules) -> Request:
    rules = {"pixel_order": "column", "first_pixel": 1, **rules}
    return Request(
        where="'codes.csv'",
        name="codes.csv",
        rules=format_rules(format="rle_csv", files="codes.csv", **rules),
        classes=classes,
        limits=limits or LimitRules(),
    )


def read(text: str | bytes, cases=CASES, **how) -> Collection:
    data = text.encode() if isinstance(text, str) else text
    return read_rle_csv_collection(io.BytesIO(data), request(**how), cases)


def fault_lines(text: str | bytes, **how) -> list[str]:
    with pytest.raises(InputFault) as caught:
        read(text, **how)
    return [str(finding) for finding in caught.value.findings]


def instances_of(found: Collection, case: str) -> Instances:
    (instances,) = found.cases[case].parts
    assert isinstance(instances, Instances)
    return instances


def masks_of(instances: Instances) -> np.ndarray:
    """bool (N, H, W)."""
    masks = np.zeros((len(instances), instances.shape_yx[0] * instances.shape_yx[1]), np.bool_)
    for start, stop, index in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
        masks[index, start:stop] = True
    return masks.reshape(-1, *instances.shape_yx)


def decoded(code: str, case: Case, *, pixel_order: str, first_pixel: int) -> np.ndarray:
    """A code painted pixel by pixel, bool (H, W)."""
    mask = np.zeros((case.height, case.width), np.bool_)
    words = code.split()
    for start, length in zip(words[::2], words[1::2], strict=True):
        for pixel in range(int(start) - first_pixel, int(start) - first_pixel + int(length)):
            if pixel_order == "row":
                mask[pixel // case.width, pixel % case.width] = True
            else:
                mask[pixel % case.height, pixel // case.height] = True
    return mask


def picture(mask: np.ndarray) -> list[str]:
    return ["".join(".#"[int(pixel)] for pixel in row) for row in mask]


# --- what codes mean --------------------------------------------------------------------------------------------------

CODE = "ImageId,EncodedPixels\na,2 2 7 1\n"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"pixel_order": "column", "first_pixel": 1}, ["..#..", "#....", "#...."]),
        ({"pixel_order": "column", "first_pixel": 0}, [".#...", "..#..", "#...."]),
        ({"pixel_order": "row", "first_pixel": 1}, [".##..", ".#...", "....."]),
        ({"pixel_order": "row", "first_pixel": 0}, ["..##.", "..#..", "....."]),
    ],
)
def test_pixel_order_and_first_pixel_say_where_a_code_lies(rules, expected):
    assert picture(masks_of(instances_of(read(CODE, **rules), "a"))[0]) == expected


# --- what rows mean ---------------------------------------------------------------------------------------------------

IN_CASES = "id,annotation,cell_type\na,1 1,STROMA\na,2 1, tumour\na,3 1,ROI\na,4 1,vague\na,5 1,\n"
SCORES = "id,rle,score\na,1 1,0.25\nb,1 1,1\n"
READ = [
    ("rows of an image may lie anywhere and are told by their lines",
     "ImageId,EncodedPixels\na,1 1\nb,3 2\na,5 1\n", {},
     {"a": {"source_id": [2, 4], "shape_yx": (3, 5)}, "b": {"source_id": [3], "shape_yx": (4, 2)}}, {}),
    ("an empty code mentions its case and is no nucleus", "ImageId,EncodedPixels\nb,\na,1 1\na,  \n", {},
     {"b": {"source_id": []}, "a": {"source_id": [3]}}, {}),
    ("a case without a row has no entry", CODE, {}, {"a": {"source_id": [2]}}, {}),
    ("images that are no cases are counted and not looked into",
     "ImageId,EncodedPixels\nc,9 9 9\nc,\nd,x\na,1 1\n", {}, {"a": {"source_id": [5]}}, {"c": 2, "d": 1}),
    ("an image may be named with its folder and a key with a suffix", "image,rle\ntest/x/a.png,1 1\na.png,2 1\n",
     {"cases": {"a.png": WIDE}}, {"a": {"source_id": [2, 3]}}, {}),
    ("image_id wins over id", "id,image_id,rle\nb,a,1 1\n", {}, {"a": {"source_id": [2]}}, {}),
    ("classes come by name and others are left out", IN_CASES, {"classes": TWO_CLASSES},
     {"a": {"class_id": [2, 1, -1, 0], "source_id": [2, 3, 5, 6]}}, {}),
    ("without a class column the only class is meant", CODE, {}, {"a": {"class_id": [1]}}, {}),
    ("or none of several", CODE, {"classes": TWO_CLASSES}, {"a": {"class_id": [0]}}, {}),
    ("probabilities are read", SCORES, {}, {"a": {"probability": [0.25]}, "b": {"probability": [1.0]}}, {}),
    ("and need not be there", CODE, {}, {"a": {"probability": None}}, {}),
    ("probabilities of the classes are read, and name the class where no column does",
     "id,rle,probability_Tumour,probability_stroma\na,1 1,0.25,0.5\na,3 1,0.5,0.5\n", {"classes": TWO_CLASSES},
     {"a": {"class_probability": [[0.25, 0.5], [0.5, 0.5]], "class_id": [2, 1]}}, {}),
    ("sizes that fit are fine", "id,rle,Height,Width\na,1 1,3,5\nb,1 1,4,2\n", {},
     {"a": {"source_id": [2]}, "b": {"source_id": [3]}}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("why", "text", "options", "expected", "unknown"), READ, ids=[row[0] for row in READ])
def test_rows_become_these_nuclei(why, text, options, expected, unknown):
    found = read(text, **options)
    assert (list(found.cases), found.unknown) == (list(expected), unknown)
    for case, columns in expected.items():
        values = {key: getattr(instances_of(found, case), key) for key in columns}
        assert {key: value.tolist() if hasattr(value, "tolist") else value for key, value in values.items()} == columns


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_swapped_sizes_are_told_in_one_line_a_case():
    with pytest.raises(InputFault) as caught:
        read("id,rle,Height,Width\na,1 1,5,3\na,2 1,5,3\nb,1 1,4,2\n")
    (line,) = render_findings(caught.value.findings)
    assert line == (
        "[wrong-shape] 'codes.csv', line 2, line 3: an image of height '5' and width '3'; expected 3 and 5, the "
        "height and width of the image. Make the codes at the size of the image."
    )


@pytest.mark.parametrize("code", ["1", "0 1", "16 1", "15 2", "1 2 2 2", "a b", "9" * 40 + " 1"])
def test_broken_codes_are_told_with_their_line(code):
    (line,) = fault_lines(f"id,rle\na,1 1\na,{code}\n")
    assert line.startswith("[invalid-rle] 'codes.csv', line 3: ")


def test_many_broken_codes_of_many_cases_are_counted():
    cases = {f"c{index}": Case(f"c{index}", "P", 3, 5) for index in range(30)}
    with pytest.raises(InputFault) as caught:
        read("id,rle\n" + "".join(f"c{index},0 1\n" * 2 for index in range(30)), cases=cases)
    assert len(caught.value.findings) == 20
    assert sum(finding.count for finding in caught.value.findings) == 60


def test_all_kinds_of_fault_come_at_once():
    lines = fault_lines("id,rle,class,score,height,width\na,0 1,Tumor,2,3,4\na,1 1,Tumour,,3,5\n", classes=TWO_CLASSES)
    assert sorted(re.match(r"\[(.*?)\]", line)[1] for line in lines) == [
        "invalid-probability", "invalid-rle", "missing-probability", "unknown-class", "wrong-shape",
    ]  # fmt: skip


def test_a_file_without_a_code_column_is_refused():
    assert fault_lines("ImageId,Pixels\na,1 1\n")[0].startswith("[missing-column] 'codes.csv': no such column among")


def test_limits_are_named():
    limits = LimitRules(instances_per_case=2)
    assert fault_lines("id,rle\na,1 1\na,2 1\na,3 1\n", limits=limits) == [
        "[too-large] 'codes.csv', case 'a': 3 nuclei; expected at most 2. Remove some, or raise "
        "limits.instances_per_case in challenge.toml."
    ]
    assert fault_lines("id,rle\n" + "a,1 1\n" * 5, limits=limits)[0].startswith(
        "[too-large] 'codes.csv': more than 4 rows"
    )
    assert fault_lines("id,rle\na,1 1\n", limits=LimitRules(bytes_per_file=8))[0].startswith("[too-large]")


def test_small_codes_of_huge_areas_are_refused_in_time():
    huge = {"a": Case("a", "P", 60_000, 60_000)}
    with not_endless():
        (line,) = fault_lines("id,rle\n" + "a,2 3599999999\n" * 1000, cases=huge)
    assert line.startswith("[too-complex-runs]")


# --- the Data Science Bowl 2018 ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bowl(shared_data: Path) -> Path:
    return shared_data / "dsb2018"


@pytest.fixture(scope="module")
def bowl_rows(bowl: Path) -> list[dict[str, str]]:
    with (bowl / "stage1_solution.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def bowl_cases(bowl_rows) -> dict[str, Case]:
    return {
        row["ImageId"]: Case(row["ImageId"], row["ImageId"], int(row["Height"]), int(row["Width"])) for row in bowl_rows
    }


@pytest.fixture(scope="module")
def bowl_reference(bowl, bowl_cases) -> Collection:
    return read((bowl / "stage1_solution.csv").read_bytes(), cases=bowl_cases)


def test_the_reference_has_its_nuclei(bowl_reference):
    assert len(bowl_reference.cases) == 65
    assert sum(len(instances_of(bowl_reference, name)) for name in bowl_reference.cases) == 4152
    assert bowl_reference.unknown == {}


def test_the_reference_is_what_a_literal_decoder_paints(bowl_reference, bowl_rows, bowl_cases):
    smallest = sorted(bowl_cases, key=lambda name: sum(row["ImageId"] == name for row in bowl_rows))[:3]
    not_square = next(name for name, case in bowl_cases.items() if case.height != case.width)
    for name in {*smallest, not_square}:
        codes = [row["EncodedPixels"] for row in bowl_rows if row["ImageId"] == name]
        painted = [decoded(code, bowl_cases[name], pixel_order="column", first_pixel=1) for code in codes]
        assert np.array_equal(masks_of(instances_of(bowl_reference, name)), np.array(painted))


def test_every_image_of_gray53_has_an_empty_row_that_is_no_nucleus(bowl, bowl_cases):
    data = (bowl / "submission_gray53.csv").read_bytes()
    lines = data.splitlines()[1:]
    assert sum(line.endswith(b",") for line in lines) == 65
    found = read(data, cases=bowl_cases)
    assert sum(len(instances_of(found, name)) for name in found.cases) == len(lines) - 65
