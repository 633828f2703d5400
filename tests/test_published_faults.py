"""Faults of a published ranking, kept on purpose: what they do to files, and where they do nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from literal import instances_of, iou, pairs_of_images
from scipy.io import savemat

from evaluation import Challenge, Result, score_instances, score_submission
from evaluation.findings.errors import ChallengeBroken
from evaluation.model import Instances

PUBLISHED, CLEAN = "monusac2020_as_published", "monusac2020"
# First and last row, first and last column of each nucleus; the layers of the file, in their order.
SQUARES = {"Epithelial": [(10, 19, 10, 19), (10, 19, 30, 39), (50, 59, 50, 59)]}


def aperio(layers: dict[str, list[tuple[int, int, int, int]]]) -> str:
    """Boxes as an Aperio file. ``Id`` says nothing: outlines are numbered by their place in the file."""
    text = ""
    for name, boxes in layers.items():
        regions = ""
        for top, bottom, left, right in boxes:
            corners = ((left, top), (right, top), (right, bottom), (left, bottom))
            vertices = "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in corners)
            regions += f'<Region Id="77"><Vertices>{vertices}</Vertices></Region>'
        text += (
            f'<Annotation><Attributes><Attribute Name="{name}"/></Attributes><Regions>{regions}</Regions></Annotation>'
        )
    return f"<Annotations>{text}</Annotations>"


def mask_of(boxes: list[tuple[int, int, int, int]], numbers: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros((80, 90), np.uint16)
    for (top, bottom, left, right), number in zip(boxes, numbers, strict=True):
        mask[top : bottom + 1, left : right + 1] = number
    return mask


def scored(folder: Path, layers: dict, masks: dict[str, np.ndarray], *, missing: bool = False) -> dict[str, Result]:
    """The same files under both presets: one image of a patient, and, if asked, another that was not submitted."""
    (folder / "reference" / "P1").mkdir(parents=True)
    cases = ["image", *["other"] * missing]
    for case in cases:
        (folder / "reference" / "P1" / f"{case}.xml").write_text(aperio(layers))
    (folder / "cases.csv").write_text("case,group,height,width\n" + "".join(f"{case},P1,80,90\n" for case in cases))
    for name, mask in masks.items():
        (folder / "submission" / "P1" / "image" / name).mkdir(parents=True)
        savemat(folder / "submission" / "P1" / "image" / name / "team.mat", {"n_ary_mask": mask})
    results = {}
    for preset in (PUBLISHED, CLEAN):
        (folder / "challenge.toml").write_text(f'format_version = 1\nname = "test"\npreset = "{preset}"\n')
        results[preset] = score_submission(folder, folder / "submission")
    return results


def panoptic_quality(results: dict[str, Result]) -> tuple[float | None, float | None]:
    """Of the only image, as published and as it is."""
    return results[PUBLISHED].value("panoptic.pq.case_mean"), results[CLEAN].value("panoptic.pq.case_mean")


# --- through files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [((4, 5, 6), 0.666667), ((1, 2, 3), 1.0), ((3, 1, 2), 1.0), ((3, 4, 5), 0.75), ((1, 500, 65_000), 0.75)],
)
def test_three_squares_found_perfectly_score_by_their_ids_as_published_and_one_otherwise(tmp_path, numbers, expected):
    """The example of the page."""
    results = scored(tmp_path, SQUARES, {"Epithelial": mask_of(SQUARES["Epithelial"], numbers)})
    assert panoptic_quality(results) == (expected, 1.0)


def test_outlines_are_numbered_through_all_layers_of_the_file(tmp_path):
    layers = {"Lymphocyte": [(70, 75, 5, 12)], **SQUARES}
    masks = {"Lymphocyte": mask_of(layers["Lymphocyte"], (1,)), "Epithelial": mask_of(SQUARES["Epithelial"], (1, 2, 3))}
    # Epithelial cells have the numbers 2, 3, 4, of which 4 is no id: 3 / 3.5 and 1.
    assert panoptic_quality(scored(tmp_path, layers, masks)) == (pytest.approx((3 / 3.5 + 1) / 2, abs=1e-6), 1.0)


def test_a_class_that_the_reference_lacks_is_not_looked_at_as_published(tmp_path):
    masks = {
        "Epithelial": mask_of(SQUARES["Epithelial"], (1, 2, 3)),
        "Macrophage": mask_of([(30, 40, 60, 70), (30, 40, 75, 80)], (1, 2)),
    }
    results = scored(tmp_path, SQUARES, masks)
    assert panoptic_quality(results) == (1.0, 0.5)
    assert [results[name].value("panoptic.per_class.Macrophage.pq.case_mean") for name in results] == [None, 0.0]


def test_an_image_that_was_not_submitted_has_pq_0_under_both(tmp_path):
    results = scored(tmp_path, SQUARES, {"Epithelial": mask_of(SQUARES["Epithelial"], (1, 2, 3))}, missing=True)
    assert panoptic_quality(results) == (0.5, 0.5)


def test_a_nucleus_half_under_an_ambiguous_region_that_is_found_perfectly_is_right_under_both(tmp_path):
    layers = {"Ambiguous": [(10, 19, 35, 60)], **SQUARES}
    results = scored(tmp_path, layers, {"Epithelial": mask_of(SQUARES["Epithelial"], (2, 3, 4))})
    assert panoptic_quality(results) == (1.0, 1.0)


def test_ids_are_ids_also_where_a_file_has_only_one(tmp_path):
    """Two separate parts with one id are one nucleus, numbered as the file says."""
    reference = {"Neutrophil": [(10, 19, 10, 19)]}
    mask = mask_of([(10, 19, 10, 19), (70, 71, 70, 71)], (1, 1))
    results = scored(tmp_path, reference, {"Neutrophil": mask})
    assert panoptic_quality(results) == (pytest.approx(100 / 104, abs=1e-6),) * 2


# --- where ids agree --------------------------------------------------------------------------------------------------


BOTH = [Challenge.from_preset(preset, name="test") for preset in (PUBLISHED, CLEAN)]


def numbered_like_the_reference(reference: np.ndarray, prediction: np.ndarray, spare: list[int]) -> np.ndarray:
    """Ids of predictions: that of the nucleus of which they cover more than half of the union, else a spare one."""
    ids = np.zeros(len(prediction), int)
    for (i, one), (j, other) in product(enumerate(reference), enumerate(prediction)):
        if iou(one, other) > 0.5:
            ids[j] = i + 1
    left = iter(number for number in spare if number not in ids)
    return np.array([number or next(left) for number in ids.tolist()], int)


@given(pairs_of_images(overlap=False), st.permutations(range(1, 12)), st.lists(st.integers(0, 9), min_size=5))
def test_both_agree_on_images_whose_ids_and_classes_are_those_of_the_reference(pair, spare, choice):
    """Spurious predictions may have the number of a nucleus that was missed; that costs nothing."""
    (reference, classes), (prediction, _) = pair
    assume(len(reference) > 0)
    of_prediction = [classes[number % len(classes)] for number in choice[: len(prediction)]]
    left = replace(instances_of(reference, classes), source_id=np.arange(1, len(reference) + 1))
    ids = numbered_like_the_reference(reference, prediction, spare)
    right = replace(instances_of(prediction, of_prediction), source_id=ids)
    values = [score_instances(challenge, {"image": (left, right)}).value("panoptic.pq.case_mean") for challenge in BOTH]
    assert values[0] == values[1]


def test_faults_need_rules_that_pair_inside_a_class():
    rule = {"name": "a", "rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
    with pytest.raises(ChallengeBroken) as caught:
        Challenge.from_preset(
            PUBLISHED, name="test", matching={"published_faults": ["unopened_masks"], "rules": [rule]}
        )
    assert "matching.published_faults: given beside a rule that ignores classes" in str(caught.value.findings[0])


# --- from arrays ------------------------------------------------------------------------------------------------------

TWO_SQUARES = np.zeros((2, 20, 20), bool)
TWO_SQUARES[0, 2:6, 2:6] = TWO_SQUARES[1, 10:14, 10:14] = True


def squares(*classes: int) -> Instances:
    return instances_of(TWO_SQUARES, classes)


def challenge(families: list[str], preset: str = "monusac2020", undefined: str = "worst", **metrics: Any) -> Challenge:
    return Challenge.from_preset(
        preset,
        name="test",
        classes=[{"name": name} for name in "abc"],
        metrics={"families": families, "boundary": "open", **metrics},
        aggregation={"unit": "case", "undefined": undefined},
        ranking={"columns": []},
    )


def test_published_faults_change_no_number_that_depends_on_no_matching_rule():
    """The class of the second prediction is not in the reference; its mask is "unopened", but its outline is right."""
    images = {"image": (squares(1, 1), squares(1, 2))}
    paths = [f"thresholds.{name}_iou50.pooled" for name in ("precision", "recall", "f1", "threat_score")]
    found = {}
    for preset in ("monusac2020", "monusac2020_as_published"):
        result = score_instances(challenge(["panoptic", "thresholds"], preset, iou_thresholds=[0.5]), images)
        found[preset] = [result.value(path) for path in paths]
    assert found["monusac2020_as_published"] == found["monusac2020"] == [1.0] * 4


@pytest.mark.parametrize("ids", [("a", "b"), ("x", "b"), (1, 2)])
def test_an_id_that_is_no_number_is_the_number_of_no_nucleus(ids):
    """Two found nuclei whose numbers are no predicted id: two false positives, 2 / (2 + 2/2)."""
    published = challenge(["panoptic"], "monusac2020_as_published")
    reference = replace(squares(1, 1), source_id=np.array(["a", "b"], object))
    prediction = replace(squares(1, 1), source_id=np.array(ids, object))
    assert score_instances(published, {"image": (reference, prediction)}).value("panoptic.pq.pooled") == pytest.approx(
        2 / 3, abs=1e-6
    )
