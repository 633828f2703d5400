"""Every format end to end: its example files are a perfect submission, through files, kit, validation and scoring."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from every_format import CASES, SIDES, rules_of, write_challenge

from evaluation import score_submission
from evaluation.challenge import Challenge, format_rules
from evaluation.challenge.formats import FORMATS
from evaluation.commands.main import run
from evaluation.platform.kit import write_kit
from evaluation.scoring.street import check_submission


def test_no_format_is_left_out():
    """Counts have no nuclei to find, name or outline: they are scored in test_counts."""
    assert {kind.split()[0] for kind in SIDES} == set(FORMATS) - {"counts_csv"}


@pytest.mark.parametrize("kind", SIDES)
def test_the_example_of_a_format_is_a_perfect_submission(kind, tmp_path):
    challenge, submission = write_challenge(kind, tmp_path)
    result = score_submission(challenge, submission, workers=1)
    assert result.findings == ()
    for path in ("detection.f1.pooled", "classification.accuracy.pooled", "detection.f1.group_mean"):
        assert result.value(path) == 1.0
    pooled = result.units[result.challenge.matching.rules[0].name]["pooled"].units
    assert pooled.sum("confusion")[0, 1:, 1:].sum() == 3 * len(CASES)
    if not result.challenge.reference.are_points:
        assert result.value("segmentation.iou.pooled") == 1.0
        assert result.value("alternatives.near.detection.f1.pooled") == 1.0
    else:
        assert result.value("segmentation.iou.pooled") is None
        assert result.metrics["undefined"]["segmentation"]["iou"]["pooled"] == "points-only"


@pytest.mark.parametrize("kind", ["geojson outlines", "aperio_xml", "points_json by class", "coco_json shared"])
def test_submissions_in_json_and_xml_may_be_packed(kind, tmp_path):
    challenge, submission = write_challenge(kind, tmp_path)
    for path in [path for path in submission.rglob("*") if path.is_file()]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert score_submission(challenge, submission, workers=1).value("detection.f1.pooled") == 1.0
    first = min(path for path in submission.rglob("*.gz"))
    first.with_suffix("").write_bytes(gzip.decompress(first.read_bytes()))
    _, findings = check_submission(challenge, submission)
    assert [finding.code for finding in findings] == ["duplicate-file"]


@pytest.mark.parametrize("kind", SIDES)
def test_the_kit_of_a_format_holds_an_example_that_validates(kind, tmp_path):
    challenge, _ = write_challenge(kind, tmp_path)
    write_kit(challenge, kit := tmp_path / "kit")
    examples = ("example_submission", "example_submission.zip")
    for example in examples if kind == next(iter(SIDES)) else examples[:1]:
        _, findings = check_submission(kit, kit / example, workers=1)
        assert findings == ()
    guide = (kit / "GUIDE.md").read_text()
    assert "Epithelial" in guide and "evaluation validate" in guide


def test_a_kit_of_hidden_cases_names_none_of_them(tmp_path):
    challenge, _ = write_challenge("polygons_json", tmp_path)
    rules = challenge / "challenge.toml"
    rules.write_text(rules.read_text().replace('"px", missing', '"px", case_names = "hidden", missing'))
    assert Challenge.load(challenge).submission.case_names == "hidden"
    write_kit(challenge, kit := tmp_path / "kit")
    for path in kit.rglob("*"):
        assert not any(case.name in path.name for case in CASES)
        is_packed = path.suffix in (".zip", ".whl")
        assert path.is_dir() or is_packed or not any(f"{case.name}," in path.read_text() for case in CASES)
    example = str(kit / "example_submission")
    assert run(["validate", "--challenge", str(kit), "--submission", example]) == 0


def test_validate_says_the_same_with_the_kit_as_with_the_reference(tmp_path, capsys):
    challenge, submission = write_challenge("geojson outlines", tmp_path)
    write_kit(challenge, kit := tmp_path / "kit")
    (submission / "c1.geojson").write_text("{")
    (submission / "c3.geojson").rename(submission / "c03.geojson")
    lines = []
    for folder, command in ((challenge, "score"), (challenge, "validate"), (kit, "validate")):
        output = ["--output", str(tmp_path / "out")] if command == "score" else []
        assert run([command, "--challenge", str(folder), "--submission", str(submission), *output]) == 1
        lines.append(capsys.readouterr().err)
    assert lines[0] == lines[1] == lines[2]
    assert "Did you mean" in lines[0]
    document = ["validate", "--json", "--challenge", str(kit), "--submission", str(submission)]
    assert run(document) == 1
    assert not json.loads(capsys.readouterr().out)["valid"]


# --- every command ----------------------------------------------------------------------------------------------------


COLOURS = ("a picture in colour", "a picture in colour")
TWO_CHANNELS = ("an image of three axes", "an image of three axes")
NOT_READ = {  # where rules say what files cannot say: the cause that compare and init name; "" where one reads them
    "polygons_json in mm": ("Check the units", "Check the units"),
    "points_csv without header": ("a table without a header", "a table without a header"),
    "rle_csv": ("a value for the size of 'c1'", "height ''"),
    "rle_csv by rows": ("the start 0; expected pairs of start (from 1)", "the start 0; expected pairs of start"),
    "label_image channel npz": ("", "ids of nuclei in one channel and classes in a second channel"),
    "label_image channel mha": TWO_CHANNELS,
    "yolo_txt": ("a value for the size of 'c1'", ""),
    "colour_map": COLOURS,
    "colour_map dilated": COLOURS,
}


def outcome(command: list[object], capsys: pytest.CaptureFixture[str], metrics: Path) -> str:
    """Return "" if both sides are the same nuclei of the same classes, else what is printed."""
    code = run([*map(str, command), "--output", str(metrics.parent), "--workers", "1"])
    printed = " ".join(capsys.readouterr().err.split())
    if code:
        return printed
    scores = json.loads(metrics.read_text())
    found = scores["detection"]["f1"]["pooled"], scores["classification"]["balanced_accuracy"]["pooled"]
    return "" if found == (1.0, 1.0) else f"other scores: {found}"


@pytest.mark.parametrize("kind", SIDES)
def test_compare_and_init_read_what_score_reads(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, submission = write_challenge(kind, tmp_path)
    by_compare, by_init = NOT_READ.get(kind, ("", ""))
    told = outcome(["compare", challenge / "reference", submission], capsys, tmp_path / "compared" / "metrics.json")
    assert (by_compare in told) if by_compare else told == ""

    begun = tmp_path / "begun"
    shutil.copytree(challenge / "reference", begun / "reference")
    code = run(["init", str(begun), "--submission", str(submission)])
    told = " ".join(capsys.readouterr().err.split())
    if code == 0:
        command = ["score", "--challenge", begun, "--submission", submission]
        told = outcome(command, capsys, tmp_path / "scored" / "metrics.json")
    assert (by_init in told) if by_init else (code, told) == (0, "")


@pytest.mark.parametrize("kind", SIDES)
def test_validate_and_convert_read_every_format(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, submission = write_challenge(kind, tmp_path)
    command: list[object] = ["validate", "--challenge", challenge, "--submission", submission]
    assert run(list(map(str, command))) == 0, capsys.readouterr().err
    target = "platform" if format_rules(**rules_of(kind)).are_points else "geojson"
    for source, output in (("reference", "a"), (str(submission), "b")):
        command = ["convert", source, tmp_path / output, "--challenge", challenge, "--to", target]
        assert run(list(map(str, command))) == 0, capsys.readouterr().err
    command = ["compare", tmp_path / "a", tmp_path / "b"]
    assert outcome(command, capsys, tmp_path / "compared" / "metrics.json") == ""
