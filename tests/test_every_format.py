"""Every format end to end: its example files are a perfect submission, through files, kit, validation and scoring."""

from __future__ import annotations

import gzip
import json

import pytest
from every_format import CASES, SIDES, write_challenge

from evaluation import score_submission
from evaluation.challenge import Challenge
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
    kit = write_kit(challenge, tmp_path / "kit")
    examples = ("example_submission", "example_submission.zip")
    for example in examples if kind == next(iter(SIDES)) else examples[:1]:
        _, findings = check_submission(kit.folder, kit.folder / example, workers=1)
        assert findings == ()
    guide = (kit.folder / "GUIDE.md").read_text()
    assert "Epithelial" in guide and "evaluation validate" in guide


def test_a_kit_of_hidden_cases_names_none_of_them(tmp_path):
    challenge, _ = write_challenge("polygons_json", tmp_path)
    rules = challenge / "challenge.toml"
    rules.write_text(rules.read_text().replace('"px", missing', '"px", case_names = "hidden", missing'))
    assert Challenge.load(challenge).submission.case_names == "hidden"
    kit = write_kit(challenge, tmp_path / "kit")
    for path in kit.folder.rglob("*"):
        assert not any(case.name in path.name for case in CASES)
        is_packed = path.suffix in (".zip", ".whl")
        assert path.is_dir() or is_packed or not any(f"{case.name}," in path.read_text() for case in CASES)
    example = str(kit.folder / "example_submission")
    assert run(["validate", "--challenge", str(kit.folder), "--submission", example]) == 0


def test_validate_says_the_same_with_the_kit_as_with_the_reference(tmp_path, capsys):
    challenge, submission = write_challenge("geojson outlines", tmp_path)
    kit = write_kit(challenge, tmp_path / "kit")
    (submission / "c1.geojson").write_text("{")
    (submission / "c3.geojson").rename(submission / "c03.geojson")
    lines = []
    for folder, command in ((challenge, "score"), (challenge, "validate"), (kit.folder, "validate")):
        output = ["--output", str(tmp_path / "out")] if command == "score" else []
        assert run([command, "--challenge", str(folder), "--submission", str(submission), *output]) == 1
        lines.append(capsys.readouterr().err)
    assert lines[0] == lines[1] == lines[2]
    assert "Did you mean" in lines[0]
    document = ["validate", "--json", "--challenge", str(kit.folder), "--submission", str(submission)]
    assert run(document) == 1
    assert not json.loads(capsys.readouterr().out)["valid"]
