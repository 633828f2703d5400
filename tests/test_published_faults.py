"""Faults of published rankings that presets keep on purpose, and the presets of MoNuSAC and GlaS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from literal import instances_of, iou, pairs_of_images
from preset_files import MONUSAC, blobs, disturbed, ids_of, overlap, score, squares_xml, start, write
from scipy.io import savemat
from scipy.spatial.distance import cdist

from evaluation import Challenge, Result, instances_from_labels, score_instances, score_submission
from evaluation.findings.errors import ChallengeBroken
from nuclei_metrics.model import Instances

# --- faults of a published ranking: what they do to files, and where they do nothing ----------------------------------


PUBLISHED, CLEAN = "monusac2020_as_published", "monusac2020"
# First and last row, first and last column of each nucleus; the layers of the file, in their order.
SQUARES = {"Epithelial": [(10, 19, 10, 19), (10, 19, 30, 39), (50, 59, 50, 59)]}


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
        (folder / "reference" / "P1" / f"{case}.xml").write_text(squares_xml(list(layers.items())))
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
    "numbers, expected",
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
    assert "matching.published_faults: given with a rule that ignores classes" in str(caught.value.findings[0])


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


# --- the presets against their definitions, written down once more ----------------------------------------------------


# --- MoNuSAC as published ---------------------------------------------------------------------------------------------


def literal_monusac(reference: Mapping[str, np.ndarray], prediction: Mapping[str, np.ndarray]) -> float | None:
    """PQ of one sub-image as it was published, from n-ary masks; the mean over the classes that the reference has."""
    qualities = []
    for name, drawn in reference.items():
        if not drawn.any():
            continue
        found = prediction[name]
        unmatched = set(ids_of(found))
        iou_sum, matched = 0.0, 0
        for number in ids_of(drawn):
            for label in ids_of(found[drawn == number]):
                iou = overlap(drawn == number, found == label) / ((drawn == number) | (found == label)).sum()
                if iou > 0.5:
                    iou_sum, matched = iou_sum + iou, matched + 1
                    unmatched -= {number}  # the published slip: not ``label``
        missed = len(ids_of(drawn)) - matched
        qualities.append(iou_sum / (matched + len(unmatched) / 2 + missed / 2))
    return sum(qualities) / len(qualities) if qualities else None


def test_the_published_ranking_of_monusac_is_met_on_files(tmp_path):
    """Outlines are numbered through the file, layers in any order; classes without an outline are not looked at."""
    rng = np.random.default_rng(5)
    cases = [{"case": f"image{i}", "group": f"P{i // 2}", "height": 60, "width": 70} for i in range(6)]
    folders = start(tmp_path, "monusac2020_as_published", cases)
    expected = []
    for case in cases:
        layers, number, reference = [], 0, {name: np.zeros((60, 70), int) for name in MONUSAC}
        for name in rng.permutation(MONUSAC):
            boxes = []
            for _ in range(rng.integers(0, 6)):
                y, x, h, w = (int(v) for v in (rng.integers(0, 50), rng.integers(0, 60), *rng.integers(4, 9, 2)))
                number += 1
                reference[name][y : y + h, x : x + w] = number
                boxes.append((y, y + h - 1, x, x + w - 1))
            layers.append((name, boxes))
        prediction = {}
        for name in MONUSAC:
            moved = np.roll(reference[name], rng.integers(0, 2, 2), axis=(0, 1))
            new = blobs(rng, 2, 70)[:60]
            prediction[name] = np.where(moved == 0, (new > 0) * (new + 30), moved)
            if rng.random() < 0.7:
                ids = ids_of(prediction[name])
                values = np.zeros(200, int)
                values[ids] = rng.permutation(len(ids)) + rng.integers(1, 9)
                prediction[name] = values[prediction[name]]
            file = folders[1] / case["group"] / case["case"] / name / "1.mat"
            file.parent.mkdir(parents=True)
            savemat(file, {"n_ary_mask": prediction[name].astype(np.uint16)})
        write(folders[0] / f"reference/{case['group']}/{case['case']}.xml", squares_xml(layers))
        expected.append(literal_monusac(reference, prediction))
    values = [value for value in expected if value is not None]
    assert score(folders).value("panoptic.pq.case_mean") == pytest.approx(np.mean(values), abs=1e-6)


def test_ignored_and_vanished_outlines_have_numbers_too(tmp_path):
    """The nucleus is the third outline of its file: the prediction with the id 3 is taken off, 1 is not."""
    for label, expected in ((3, 1.0), (1, 1 / 1.5)):
        case = {"case": "image", "group": "P", "height": 30, "width": 30}
        folders = start(tmp_path / str(label), "monusac2020_as_published", [case])
        outside = (90, 95, 90, 95)
        layers = [("Ambiguous", [(20, 29, 20, 29)]), ("Lymphocyte", [outside, (2, 9, 2, 9)])]
        write(folders[0] / "reference/P/image.xml", squares_xml(layers))
        mask = np.zeros((30, 30), np.uint8)
        mask[2:10, 2:10] = label
        (folders[1] / "P/image/Lymphocyte").mkdir(parents=True)
        savemat(folders[1] / "P/image/Lymphocyte/a.mat", {"n_ary_mask": mask})
        assert score(folders).value("panoptic.pq.case_mean") == pytest.approx(expected, abs=1e-6)


# --- GlaS -------------------------------------------------------------------------------------------------------------


def dice(a: np.ndarray, b: np.ndarray) -> float:
    return 2 * overlap(a, b) / int(a.sum() + b.sum())


def set_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Hausdorff distance of two sets of pixels."""
    distance = cdist(np.argwhere(a), np.argwhere(b))
    return float(max(distance.min(axis=0).max(), distance.min(axis=1).max()))


def masks_in(labels: np.ndarray) -> list[np.ndarray]:
    """In the order of their first pixels."""
    masks = [labels == label for label in ids_of(labels)]
    return sorted(masks, key=lambda mask: int(np.flatnonzero(mask)[0]))


def partner(mask: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray | None:
    shared = [overlap(mask, other) for other in others]
    return others[int(np.argmax(shared))] if any(shared) else None


def literal_glas(images: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float, float]:
    """Object F1, object Dice and object Hausdorff of the images of a test part, reference and segmentation."""
    hits = objects = 0
    dices: tuple[list, list] = ([], [])
    distances: tuple[list, list] = ([], [])
    for reference, segmentation in images:
        glands, segmented = masks_in(reference), masks_in(segmentation)
        objects += len(glands) + len(segmented)
        for mask in segmented:
            gland = partner(mask, glands)
            hits += gland is not None and 2 * overlap(mask, gland) > gland.sum()
        for side, (these, others) in enumerate(((segmented, glands), (glands, segmented))):
            for mask in these:
                best, area = partner(mask, others), int(mask.sum())
                dices[side].append((area, 0.0 if best is None else dice(mask, best)))
                candidates = others if best is None else [best]
                distances[side].append((area, min(set_distance(mask, other) for other in candidates)))

    def weighted(values: Sequence[tuple[int, float]]) -> float:
        return sum(area * value for area, value in values) / sum(area for area, _ in values)

    mean_dice, mean_distance = ((weighted(of[0]) + weighted(of[1])) / 2 for of in (dices, distances))
    return 2 * hits / objects, mean_dice, mean_distance


GLAS_COLUMNS = ("objects.f1.pooled", "objects.dice.pooled", "objects.hausdorff_px.pooled")


def score_glas(images: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[float | None]:
    instances = {
        f"image{i}": (instances_from_labels(reference, class_id=1), instances_from_labels(segmentation, class_id=1))
        for i, (reference, segmentation) in enumerate(images)
    }
    result = score_instances(Challenge.from_preset("glas2015", name="test"), instances)
    return [result.value(path) for path in GLAS_COLUMNS]


@pytest.mark.parametrize("seed", range(4))
def test_the_objects_of_glas_are_weighed_over_all_images_of_a_test_part(seed):
    rng = np.random.default_rng(seed)
    references = [blobs(rng, 6) for _ in range(4)]
    images = [(reference, disturbed(rng, reference)) for reference in references]
    assert score_glas(images) == pytest.approx(literal_glas(images), abs=1e-6)


def test_a_glas_object_must_cover_more_than_half_of_its_gland_and_may_be_much_larger():
    gland = np.zeros((12, 12), int)
    gland[4:8, 4:8] = 1
    half, large = np.zeros_like(gland), np.ones_like(gland)
    half[4:8, 4:6] = 7
    assert score_glas([(gland, half)])[0] == 0.0
    assert score_glas([(gland, large)])[:2] == [1.0, pytest.approx(2 * 16 / 160, abs=1e-6)]


# --- the published notebook on real files -----------------------------------------------------------------------------

# PQ by PQ_metric.ipynb at 48c250d (ruchikaverma-iitg/MoNuSAC), of masks drawn as in its n-ary_mask_generation.ipynb.
NOTEBOOK = {
    "P1_1": {"Epithelial": 0.698573, "Neutrophil": 0.457546, "Macrophage": 0.441527},
    "P1_2": {"Epithelial": 0.648945, "Neutrophil": 0.186419, "Macrophage": 0.0},
    "P2_1": {"Epithelial": 0.689408, "Neutrophil": 0.361966, "Macrophage": 0.48648},
    "P2_2": {"Epithelial": 0.686179, "Neutrophil": 0.403745, "Macrophage": 0.404241},
}
CUT_ON_ONE_SIDE = {("P1_1", "Epithelial"), ("P2_2", "Epithelial")}  # nuclei under an ambiguous region: docs/presets.md


@pytest.mark.real_data
def test_the_published_notebook_gives_the_same_on_real_files(tmp_path, shared_data):
    source = shared_data / "monusac_challenge"
    (tmp_path / "challenge.toml").write_text(f'format_version = 1\nname = "test"\npreset = "{PUBLISHED}"\n')
    (tmp_path / "cases.csv").write_text((source / "ground_truth/cases.csv").read_text())
    (tmp_path / "reference").symlink_to(source / "ground_truth/reference")
    result = score_submission(tmp_path, source / "submission", workers=1)
    found = {
        (case, name): of["pq"]
        for case, entry in result.details["cases"].items()
        for name, of in entry["rules"]["iou_above"]["scores"]["panoptic"]["per_class"].items()
        if of["pq"] is not None
    }
    published = {(case, name): pq for case, classes in NOTEBOOK.items() for name, pq in classes.items()}
    assert found.keys() == published.keys()
    differences = {key: found[key] - pq for key, pq in published.items() if abs(found[key] - pq) > 1e-6}
    assert differences.keys() == CUT_ON_ONE_SIDE and all(0 < value < 0.006 for value in differences.values())
