"""Boundaries, bands and distances of outlines, against literal code, scipy, scikit-image and SimpleITK."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_surfaces import band, digits, everything, outlines

from evaluation import Challenge, score_instances
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.model import Boundaries, MatchCounts


def test_the_published_case_of_surface_distance_differs_by_where_the_surface_lies(shared_data):
    """Their surface elements are the corners of a pixel; with these as points their numbers come out, all of them."""
    (case, *_) = json.loads((shared_data / "peer_cases.json").read_text())["surface_distance"]
    assert "gt pixel (50,70), pred pixel (50,72)" in case["what"]

    def corners(y: int, x: int) -> Boundaries:
        return outlines([(y + dy, x + dx) for dy in (0, 1) for dx in (0, 1)])

    theirs = everything(corners(50, 70), corners(50, 72), 1.0)
    assert theirs.mean_surface_distance_px.tolist() == [np.mean(case["average_surface_distance"])]
    assert theirs.hausdorff_px.tolist() == [case["hd100"]]
    assert theirs.hausdorff95_px.tolist() == [case["hd95"]]
    assert theirs.surface_dice.tolist() == [case["surface_dice_1mm"]]
    ours = everything(outlines([(50, 70)]), outlines([(50, 72)]), 1.0)
    assert digits(ours) == [[case["hd100"]], [case["hd95"]], [2.0], [0.0]]


# --- many pairs measured at once --------------------------------------------------------------------------------------


def counts_of(images: dict[str, tuple[np.ndarray, np.ndarray]], **metrics: object) -> dict[str, MatchCounts]:
    """What is counted and measured of label maps of each image, of one class."""
    challenge = Challenge.from_preset(
        "monusac2020",
        name="test",
        classes=[{"name": "nucleus"}],
        metrics={"families": ["segmentation"], "boundary": "closed", **metrics},
        ranking={"columns": []},
    )
    sides = {name: tuple(instances_from_labels(side, class_id=1) for side in pair) for name, pair in images.items()}
    return {case.case.name: case.counts["iou_above"] for case in score_instances(challenge, sides).cases}


def bars(number: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bars of 4 px in a row each; the predicted bar goes on for 0 to 3 px more, by chance. Both sides, and how many."""
    longer = np.random.default_rng(seed).integers(0, 4, number)
    reference, prediction = np.zeros((2, 2 * number, 9), int)
    for bar, more in enumerate(longer):
        reference[2 * bar, 1:5] = prediction[2 * bar, 1 : 5 + more] = bar + 1
    return reference, prediction, longer


def test_every_pair_of_a_crowded_image_has_its_own_measures_between_those_of_small_images():
    """5,000 pairs are measured in several batches, of which the first and the last hold other images, too."""
    made = {"a": bars(3, 1), "b": bars(5000, 2), "c": bars(700, 3), "d": bars(1, 4)}
    measures = ["iou", "hausdorff_px", "boundary_iou"]
    images = {name: (reference, prediction) for name, (reference, prediction, _) in made.items()}
    counts = counts_of(images, measures=measures, tolerance_px=1)
    for name, (_, _, longer) in made.items():
        found = counts[name].measures
        assert found["hausdorff_px"].tolist() == longer.tolist()
        assert found["boundary_iou"].tolist() == (4 / (4 + longer)).tolist()


def band_iou(reference: np.ndarray, prediction: np.ndarray, width_px: int, border: str) -> float:
    p, q = (band(labels > 0, width_px, border) for labels in (reference, prediction))
    return (p & q).sum() / (p | q).sum()


def test_the_band_of_boundary_iou_is_as_wide_as_the_rounded_tolerance_and_at_least_one_pixel():
    reference, prediction = np.zeros((2, 30, 34), int)
    reference[4:22, 5:25] = prediction[5:24, 6:27] = 1
    for tolerance, width in ((0.3, 1), (1.0, 1), (1.49, 1), (1.5, 2), (2.4, 2), (2.5, 3), (3.2, 3)):
        images = {"image": (reference, prediction)}
        found = counts_of(images, measures=["iou", "boundary_iou"], tolerance_px=tolerance)["image"].measures
        assert found["boundary_iou"].tolist() == [band_iou(reference, prediction, width, "closed")]


@pytest.mark.parametrize(("boundary", "distance", "expected"), [("closed", 3.0, 24 / 50), ("open", 6.0, 12 / 24)])
def test_the_border_of_the_image_is_an_outline_as_the_challenge_says(boundary, distance, expected):
    """Both nuclei are as wide as the image; under open only the lower edges, and the upper one inside, are outlines."""
    reference, prediction = np.zeros((2, 20, 12), int)
    reference[:10] = prediction[3:10] = 1
    options = {"measures": ["iou", "hausdorff_px", "boundary_iou"], "tolerance_px": 1}
    counts = counts_of({"image": (reference, prediction)}, boundary=boundary, **options)
    assert counts["image"].measures["hausdorff_px"].tolist() == [distance]
    assert counts["image"].measures["boundary_iou"].tolist() == [expected]


def test_nuclei_at_the_edges_of_images_of_different_sizes_are_measured_as_those_of_one_image():
    """What lies on the last row and column of a small image has no outline there, whatever is measured with it."""
    images = {}
    for name, (height, width) in {"small": (14, 17), "wide": (14, 40), "high": (33, 17), "large": (33, 40)}.items():
        reference, prediction = np.zeros((2, height, width), int)
        reference[height - 9 :, width - 11 :] = prediction[height - 8 :, width - 9 :] = 1
        images[name] = reference, prediction
    options = {"boundary": "open", "measures": ["iou", "hausdorff_px", "boundary_iou"], "tolerance_px": 2}
    together = counts_of(images, **options)
    for name, sides in images.items():
        assert together[name].measures["boundary_iou"].tolist() == [band_iou(*sides, 2, "open")]
        assert together[name].measures["hausdorff_px"].tolist() == [np.hypot(1, 2)]
