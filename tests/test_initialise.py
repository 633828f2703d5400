"""``evaluation init`` for every preset and every format: cases are found in the reference, columns are there."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import tifffile
from every_format import CASES, SIDES, challenge_document, write_files
from test_challenge import MADE

from evaluation import Challenge, score_submission
from evaluation.challenge import preset_names
from evaluation.challenge.formats import FORMATS
from evaluation.commands.main import run
from evaluation.files.formats.format import image_bytes
from evaluation.findings.errors import ChallengeBroken
from evaluation.folders.init import find_cases
from evaluation.platform.kit import example_files

NEEDED = {  # columns of cases.csv beyond case, group, height and width
    "conic2022": ["index"],
    "midog2021": ["spacing_um"],
    "monkey2024": ["spacing_um", "area_mm2"],
    "pannuke": ["index", "stratum"],
}


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "cases.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", preset_names())
def test_an_empty_folder_gets_the_columns_that_the_preset_needs_and_a_place_for_the_reference(preset, tmp_path, capsys):
    assert run(["init", "--preset", preset, str(tmp_path)]) == 0
    needed = NEEDED.get(preset, [])
    assert (tmp_path / "cases.csv").read_text() == ",".join(["case", "group", "height", "width", *needed]) + "\n"
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_dir()] == ["reference"]
    told = capsys.readouterr().out
    assert f"put the reference files at {Challenge.from_preset(preset, name='x').reference.files} and list" in told
    for column in needed:
        assert f"Fill in the column {column} of cases.csv: " in told


@pytest.mark.parametrize("preset", preset_names())
def test_a_reference_in_place_becomes_cases_that_can_be_scored(preset, tmp_path, capsys):
    """What ``init`` leaves open is filled in, nothing else is changed."""
    rules = Challenge.from_preset(preset, name="x", cases=MADE)
    write_files(tmp_path, example_files(rules, rules.reference, MADE))
    assert run(["init", "--preset", preset, str(tmp_path)]) == 0
    told = capsys.readouterr().out
    rows = rows_of(tmp_path)
    is_array = rules.reference.format in ("conic_array", "pannuke_masks")
    assert [row["case"] for row in rows] == (["image_0", "image_1", "image_2"] if is_array else ["c1", "c2", "c3"])
    assert list(rows[0])[4:] == NEEDED.get(preset, [])
    by_hand = {"height": 20, "width": 30, "spacing_um": 0.25, "stratum": "one", "area_mm2": 0.02}
    for row in rows:
        for column, value in row.items():
            if value == "":
                assert f"Fill in the column {column} of" in told or "fill in their height and width" in told
                row[column] = str(by_hand[column])
    with (tmp_path / "cases.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    challenge = Challenge.load(tmp_path)
    write_files(tmp_path / "submission", example_files(challenge, challenge.submission, challenge.cases))
    result = score_submission(tmp_path, tmp_path / "submission", workers=1)
    assert not any(case.missing for case in result.cases)


def test_a_mean_over_strata_asks_for_the_column_of_strata(tmp_path):
    rules = Challenge.from_preset("pannuke", name="x", cases=MADE)
    write_files(tmp_path, example_files(rules, rules.reference, MADE))
    assert run(["init", "--preset", "pannuke", str(tmp_path)]) == 0
    write_files(tmp_path / "submission", example_files(rules, rules.submission, MADE))
    with pytest.raises(ChallengeBroken) as caught:
        score_submission(tmp_path, tmp_path / "submission", workers=1)
    (finding,) = caught.value.findings
    assert str(finding) == (
        "[contradictory-rules] challenge.toml: ranking.columns: 'panoptic.pq.stratum_mean', but cases have no stratum; "
        "expected a stratum for every case in cases.csv. Fill in the column 'stratum': the tissue, organ or centre of "
        "each case."
    )


def test_sizes_of_shared_files_are_those_that_they_tell(tmp_path):
    """Rows of the Data Science Bowl have Height and Width, images of MIDOG too; one row for each nucleus."""
    rows = ("bb,1 2,256,320,Public", "a,,1040,1388,Ignored", "bb,9 2,256,320,Public")
    table = "\n".join(["ImageId,EncodedPixels,Height,Width,Usage", *rows, ""])
    sized = {"id": 1, "file_name": "007.tiff", "height": 7, "width": 5}
    images = [sized, {"id": 2, "file_name": "x/008.tiff"}, {"id": 3, "file_name": "009.svs"}]
    for preset, name, content, cases in (
        ("dsb2018", "solution.csv", table, "case,group,height,width\na,a,1040,1388\nbb,bb,256,320\n"),
        ("midog2021", "MIDOG.json", {"images": images, "annotations": [], "categories": []},
         "case,group,height,width,spacing_um\n007,007,7,5,\n008,008,,,\n"),
    ):  # fmt: skip
        write_files(tmp_path / preset / "reference", {name: content})
        assert run(["init", "--preset", preset, str(tmp_path / preset)]) == 0
        assert (tmp_path / preset / "cases.csv").read_text() == cases


def test_what_the_reference_does_not_tell_is_asked_for(tmp_path, capsys):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "cells.csv").write_text("id,annotation\na,1 2\nb,3 4\n")
    assert run(["init", "--preset", "sartorius2021", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "No size for 2 images ('a', 'b'): fill in their height and width in cases.csv" in told


def test_without_images_sizes_are_how_far_the_outlines_reach_and_this_is_told(tmp_path, capsys):
    ring = [[3, 4], [13, 4], [13, 24], [3, 24], [3, 4]]
    nucleus = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": {}}
    write_files(tmp_path / "reference", {"a.geojson": {"type": "FeatureCollection", "features": [nucleus]}})
    assert run(["init", str(tmp_path)]) == 0
    assert (tmp_path / "cases.csv").read_text() == "case,group,height,width\na,a,25,14\n"
    told = capsys.readouterr().out
    assert (
        "No image next to 1 reference file ('a'): height and width in cases.csv end with the outermost nucleus." in told
    )
    assert run(["rasterise", "--challenge", str(tmp_path), "--output", str(tmp_path / "out")]) == 0


# --- every format -----------------------------------------------------------------------------------------------------

TELLS_SIZE = {name for name, keys in FORMATS.items() if keys.dense} | {"coco_json", "midog_json"}


def prepared(kind: str, folder: Path) -> Challenge:
    """A challenge whose reference is in its folder."""
    challenge = Challenge.build(challenge_document(kind))
    write_files(folder, example_files(challenge, challenge.reference, CASES))
    return challenge


@pytest.mark.parametrize("kind", SIDES)
def test_cases_are_found_in_the_reference_of_every_format(kind, tmp_path):
    challenge = prepared(kind, tmp_path)
    rules = challenge.reference
    found = find_cases(challenge, tmp_path)
    is_array = rules.is_shared and rules.format in ("conic_array", "pannuke_masks")
    assert [case.name for case in found] == ([f"image_{i}" for i in range(3)] if is_array else ["c1", "c2", "c3"])
    of_results = kind in ("coco_json shared", "midog_json shared")  # which name images by their ids
    assert [case.index for case in found] == ([0, 1, 2] if is_array else [1, 2, 3] if of_results else [None] * 3)
    groups = ["P1", "P1", "P2"] if "{group}" in rules.files else [case.name for case in found]
    assert [case.group for case in found] == groups
    if rules.format in TELLS_SIZE:
        assert {case.size_yx for case in found} == {(20, 30)}


@pytest.mark.parametrize("kind", [kind for kind, rules in SIDES.items() if "{case}" in rules["files"]])
def test_an_image_beside_a_reference_file_tells_its_size(kind, tmp_path):
    challenge = prepared(kind, tmp_path)
    for case in CASES:
        path = challenge.reference.files.replace("{case}", case.name).replace("{group}", case.group)
        beside = (tmp_path / path.replace("{class}", challenge.class_names[0])).parent / f"{case.name}.svs"
        tifffile.imwrite(beside, np.zeros((50 + case.index, 60, 3), np.uint8))
    assert [case.size_yx for case in find_cases(challenge, tmp_path)] == [(50, 60), (51, 60), (52, 60)]


def challenge_with(**reference: str) -> Challenge:
    document = challenge_document("label_image by class")
    document["reference"] |= reference
    return Challenge.build(document)


def test_classes_in_names_of_files_are_no_part_of_the_case(tmp_path):
    """Files of classes that the challenge does not have belong to no case."""
    challenge = challenge_with(files="reference/{case}_{class}.npy")
    names = ("a_b_epithelial", "a_b_Lymphocyte", "c_Lymphocyte", "d_stroma")
    write_files(tmp_path / "reference", {f"{name}.npy": np.zeros((4, 5), np.uint8) for name in names})
    assert [(case.name, case.size_yx) for case in find_cases(challenge, tmp_path)] == [("a_b", (4, 5)), ("c", (4, 5))]


@pytest.mark.parametrize("pattern, names, told", [
    ("reference/{case}/{class}.npy", ["a/Lymphocyte", "a/lymphocyte"], "case 'a' again; expected every case once"),
    ("reference/{group}/{case}_{class}.npy", ["p/a_Lymphocyte", "q/a_Epithelial"], "case 'a' again"),
    ("reference/{case}_{class}.npy", ["a;b_Lymphocyte"], "case 'a;b'; expected a plain name. Rename the file"),
])  # fmt: skip
def test_names_that_cannot_be_cases_are_told(pattern, names, told, tmp_path):
    write_files(tmp_path / "reference", {f"{name}.npy": np.zeros((4, 5), np.uint8) for name in names})
    with pytest.raises(ChallengeBroken) as caught:
        find_cases(challenge_with(files=pattern), tmp_path)
    assert told in str(caught.value.findings[0])


def test_packed_reference_files_are_found(tmp_path):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "a.b_nuclei.geojson.gz").write_bytes(b"")
    assert [case.name for case in find_cases(Challenge.from_preset("puma2024", name="x"), tmp_path)] == ["a.b"]


def test_a_damaged_reference_is_a_fault_of_the_challenge_and_no_crash(tmp_path, capsys):
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "labels.npy").write_bytes(b"\x93NUMPY\x01\x00")
    assert run(["init", "--preset", "conic2022", str(tmp_path)]) == 3
    assert "'labels.npy'" in capsys.readouterr().err
    assert not (tmp_path / "challenge.toml").exists()


def test_init_warns_of_a_reference_whose_background_is_not_0(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = np.full((40, 60), 9, np.uint8)
    labels[5:15, 5:15], labels[20:30, 30:40] = 1, 2
    write_files(Path(), {"mine/reference/a.tif": image_bytes(labels, "a.tif")})
    assert run(["init", "mine"]) == 0
    assert "[background-is-nucleus] reference of case 'a'" in "".join(capsys.readouterr())


@pytest.mark.parametrize("named, told", [("AABA", True), ("BBBB", True), ("aaAA", False)])
def test_a_class_of_the_sample_that_the_reference_lacks_is_named_with_what_lets_it_in(named, told, tmp_path, capsys):
    def outlines(classes: str) -> dict:
        rings = [[[x, 5], [x + 10, 5], [x + 10, 15], [x, 15], [x, 5]] for x in range(5, 125, 30)]
        return {"type": "FeatureCollection", "features": [
            {"type": "Feature", "properties": {"classification": {"name": name}},
             "geometry": {"type": "Polygon", "coordinates": [ring]}} for name, ring in zip(classes, rings, strict=True)
        ]}  # fmt: skip

    write_files(tmp_path, {"c/reference/a.geojson": outlines("AAAA"), "s/a.geojson": outlines(named)})
    assert run(["init", str(tmp_path / "c"), "--submission", str(tmp_path / "s")]) == 0
    assert ("no class 'B': submissions with it are rejected" in capsys.readouterr().out) == told
    command = ["score", "--challenge", str(tmp_path / "c"), "--submission", str(tmp_path / "s")]
    assert run([*command, "--output", str(tmp_path / "out")]) == int(told)
    rules = tmp_path / "c" / "challenge.toml"
    for entry in ('aliases = ["B"]\n', '[[classes]]\nname = "B"\nonly_predicted = true\n'):
        before = rules.read_text()
        rules.write_text(before.replace('name = "A"\n', f'name = "A"\n{entry}', 1))
        assert run([*command, "--output", str(tmp_path / "out")]) == 0
        rules.write_text(before)
