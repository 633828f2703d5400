"""Nuclei by their size, and average recall: against pycocotools."""

from __future__ import annotations

import numpy as np
import pytest
from literal import instances_of
from test_curves import coco_evaluation, moved, rectangles

from evaluation.challenge import Challenge
from evaluation.scoring.from_arrays import score_instances

SIZES = {"small": (0, 40), "medium": (40, 70), "large": (70, 1e10)}
THRESHOLDS = (0.3, 0.5, 0.75)


def scene(seed):
    """Five images: masks, classes of the reference; masks, classes, probabilities of the prediction."""
    random = np.random.default_rng(seed)
    scores = random.permutation(300).astype(np.float32) / 300
    images = []
    for _ in range(5):
        reference, of_reference = rectangles(random, 30)
        spurious, of_spurious = rectangles(random, 8)
        prediction = np.concatenate([moved(random, reference[5:]), spurious])
        prediction[::3, :, 1:] &= prediction[::3, :, :-1]  # narrower, so that sizes differ
        of_prediction = np.concatenate([of_reference[5:], of_spurious])
        of_prediction[:3] = 3
        images.append((reference, of_reference, prediction, of_prediction, scores[: len(prediction)]))
        scores = scores[len(prediction) :]
    return images


def scored(images):
    challenge = Challenge.from_preset(
        "monusac2020",
        name="sizes",
        classes=[{"name": name} for name in "abc"],
        metrics={
            "families": ["curves", "sizes", "detection"],
            "boundary": "closed",
            "iou_thresholds": THRESHOLDS,
            "sizes_px": SIZES,
        },
        ranking=None,
    )
    sides = {}
    for index, (reference, of_reference, prediction, of_prediction, probability) in enumerate(images):
        found = instances_of(prediction.astype(bool), of_prediction)
        object.__setattr__(found, "probability", probability)
        sides[f"image_{index}"] = instances_of(reference.astype(bool), of_reference), found
    return score_instances(challenge, sides)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of pycocotools
@pytest.mark.parametrize("seed", range(3))
def test_pycocotools_gives_the_same_average_precision_of_every_size_and_average_recall(seed):
    images = scene(seed)
    found = scored(images)
    precision, recall = coco_evaluation(images, THRESHOLDS, [(0, 1e10), *SIZES.values()])
    assert found.value("curves.coco_ar_iou30_50_75.pooled") == pytest.approx(recall[:, :, 0].mean(), abs=1e-6)
    for place, size in enumerate(SIZES, start=1):
        theirs = precision[:, :, :, place]
        path = f"sizes.{size}.coco_map_iou30_50_75.pooled"
        assert found.value(path) == pytest.approx(theirs[theirs > -1].mean(), abs=1e-6)
        assert 0.05 < theirs.mean() < 0.95


def test_recall_and_iou_of_a_size_are_those_of_its_nuclei():
    """Area 40 belongs to both small and medium: ranges include their ends, as in COCO."""
    found = scored([tiny()])
    assert found.value("sizes.small.recall.pooled") == 0.5
    assert found.value("sizes.medium.recall.pooled") == 1.0
    assert found.value("sizes.small.iou.pooled") == found.value("sizes.medium.iou.pooled") == 0.9
    assert found.value("sizes.large.recall.pooled") is None


def tiny():
    reference = np.zeros((2, 40, 40), np.uint8)
    reference[0, :5, :8] = 1  # 40 px, found with 36
    reference[1, 20:23, 20:25] = 1  # 15 px, missed
    prediction = reference[:1].copy()
    prediction[0, 4, 4:8] = 0
    return reference, np.array([1, 2]), prediction, np.array([1]), np.array([0.5], np.float32)
