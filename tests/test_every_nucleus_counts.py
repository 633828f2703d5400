"""Every nucleus of a file counts once: none vanishes, counts twice, or is refused without being at fault."""

from __future__ import annotations

import json
import shutil

import pytest
from every_format import write_challenge

from evaluation import score_submission
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.scoring.street import check_submission


def change(challenge, old, new):
    path = challenge / "challenge.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def move_polygons(folder, place):
    """``place`` gives the vertices of nucleus k from those it has."""
    for path in folder.glob("c*.json"):
        document = json.loads(path.read_text())
        for k, polygon in enumerate(document["polygons"]):
            polygon["path_points"] = place(k, polygon["path_points"])
        path.write_text(json.dumps(document))


def test_outlines_that_get_their_nearest_pixel_are_not_outside(tmp_path):
    challenge, submission = write_challenge("polygons_json", tmp_path)
    change(challenge, 'vanished = "drop"', 'vanished = "pixel"')
    for folder in (challenge / "reference", submission):
        move_polygons(folder, lambda k, _: [[5 * k + 0.1, 3.1, 0], [5 * k + 0.3, 3.1, 0], [5 * k + 0.3, 3.3, 0]])
    result = score_submission(challenge, submission, workers=1)
    assert result.value("detection.f1.pooled") == 1.0
    assert result.findings == ()


def test_outlines_that_vanish_are_still_told(tmp_path):
    challenge, submission = write_challenge("polygons_json", tmp_path)
    move_polygons(submission, lambda k, _: [[5 * k + 0.1, 3.1, 0], [5 * k + 0.3, 3.1, 0], [5 * k + 0.3, 3.3, 0]])
    with pytest.raises(SubmissionRejected, match="everything-outside"):
        score_submission(challenge, submission, workers=1)


@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_reference_files_of_a_class_in_other_letters_count(spelling, tmp_path):
    challenge, submission = write_challenge("label_image by class", tmp_path)
    for path in list((challenge / "reference").rglob("Epithelial.tif")):
        path.rename(path.with_name(f"{spelling('Epithelial')}.tif"))
    result = score_submission(challenge, submission, workers=1)
    assert result.value("detection.f1.pooled") == 1.0


def test_two_reference_files_of_a_class_are_refused(tmp_path):
    challenge, submission = write_challenge("label_image by class", tmp_path)
    change(challenge, '{name = "Epithelial"}', '{name = "Epithelial", aliases = ["Epi"]}')
    file = challenge / "reference" / "c1" / "Epithelial.tif"
    shutil.copy(file, file.with_name("Epi.tif"))
    with pytest.raises(ChallengeBroken, match="duplicate-file"):
        score_submission(challenge, submission, workers=1)
    file.unlink()
    assert score_submission(challenge, submission, workers=1).value("detection.f1.pooled") == 1.0


def test_validate_says_no_more_than_is_known_when_a_case_cannot_be_read(tmp_path):
    challenge, submission = write_challenge("polygons_json", tmp_path)
    move_polygons(submission, lambda k, xyz: [[x + 900, y, z] for x, y, z in xyz])
    _, before = check_submission(challenge, submission, workers=1)
    assert "everything-outside" in {finding.code for finding in before}
    (submission / "c1.json").write_text("{")
    _, findings = check_submission(challenge, submission, workers=1)
    assert {finding.code for finding in findings} == {"not-json", "outside-image"}


@pytest.mark.parametrize("found", [score_submission, check_submission])
def test_a_submission_of_which_all_is_left_out_is_refused(found, tmp_path):
    challenge, submission = write_challenge("geojson points", tmp_path)
    change(challenge, 'shape = "point"', 'shape = "point", other_shapes = "skip"')
    assert found(challenge, submission, workers=1)
    for path in submission.glob("*.geojson"):
        text = json.loads(path.read_text())
        for feature in text["features"]:
            feature["geometry"] = {"type": "Polygon", "coordinates": [[[1, 1], [3, 1], [3, 3], [1, 1]]]}
        path.write_text(json.dumps(text))
    if found is score_submission:
        with pytest.raises(SubmissionRejected, match=r"everything-outside.*no nucleus; .* annotations are left out"):
            found(challenge, submission, workers=1)
    else:
        assert "everything-outside" in {finding.code for finding in found(challenge, submission, workers=1)[1]}


@pytest.mark.parametrize("and_another", [False, True])
def test_files_of_crowds_alone_hold_no_nucleus_and_are_scored(and_another, tmp_path):
    challenge, submission = write_challenge("coco_json", tmp_path)
    for path in submission.glob("*.json"):
        document = json.loads(path.read_text())
        for annotation in document["annotations"]:
            annotation["iscrowd"] = 1
        if and_another:
            size = [document["images"][0][side] for side in ("height", "width")]
            code = {"size": size, "counts": [size[0] * size[1]]}
            document["annotations"].append({**document["annotations"][0], "segmentation": code, "iscrowd": 0, "id": 99})
        path.write_text(json.dumps(document))
    if and_another:
        with pytest.raises(SubmissionRejected, match="everything-outside"):
            score_submission(challenge, submission, workers=1)
    else:
        assert score_submission(challenge, submission, workers=1).value("detection.recall.pooled") == 0
