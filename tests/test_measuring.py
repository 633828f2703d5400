"""Measures of the outlines of many pairs at once: each pair gets its own, whatever else is measured with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import binary_erosion

from evaluation import Challenge, instances_from_labels, score_instances
from evaluation.model import MatchCounts


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


@pytest.mark.parametrize(
    ("tolerance_px", "width_px"), [(0.3, 1), (1.0, 1), (1.49, 1), (1.5, 2), (2.4, 2), (2.5, 3), (3.2, 3)]
)
def test_the_band_of_boundary_iou_is_as_wide_as_the_rounded_tolerance_and_at_least_one_pixel(tolerance_px, width_px):
    reference, prediction = np.zeros((2, 30, 34), int)
    reference[4:22, 5:25] = prediction[5:24, 6:27] = 1

    def band(labels: np.ndarray) -> np.ndarray:
        return (labels > 0) & ~binary_erosion(labels > 0, np.ones((3, 3)), iterations=width_px)

    p, q = band(reference), band(prediction)
    counts = counts_of({"image": (reference, prediction)}, measures=["iou", "boundary_iou"], tolerance_px=tolerance_px)
    assert counts["image"].measures["boundary_iou"].tolist() == [(p & q).sum() / (p | q).sum()]


@pytest.mark.parametrize(("boundary", "distance", "band_iou"), [("closed", 3.0, 24 / 50), ("open", 6.0, 12 / 24)])
def test_the_border_of_the_image_is_an_outline_as_the_challenge_says(boundary, distance, band_iou):
    """Both nuclei are as wide as the image; under open only the lower edges, and the upper one inside, are outlines."""
    reference, prediction = np.zeros((2, 20, 12), int)
    reference[:10] = prediction[3:10] = 1
    options = {"measures": ["iou", "hausdorff_px", "boundary_iou"], "tolerance_px": 1}
    counts = counts_of({"image": (reference, prediction)}, boundary=boundary, **options)
    assert counts["image"].measures["hausdorff_px"].tolist() == [distance]
    assert counts["image"].measures["boundary_iou"].tolist() == [band_iou]


def test_nuclei_at_the_edges_of_images_of_different_sizes_are_measured_as_those_of_one_image():
    """What lies on the last row and column of a small image has no outline there, whatever is measured with it."""
    images = {}
    for name, (height, width) in {"small": (14, 17), "wide": (14, 40), "high": (33, 17), "large": (33, 40)}.items():
        reference, prediction = np.zeros((2, height, width), int)
        reference[height - 9 :, width - 11 :] = prediction[height - 8 :, width - 9 :] = 1
        images[name] = reference, prediction
    options = {"boundary": "open", "measures": ["iou", "hausdorff_px", "boundary_iou"], "tolerance_px": 2}
    together = counts_of(images, **options)
    for name, (reference, prediction) in images.items():

        def band(labels: np.ndarray) -> np.ndarray:
            return (labels > 0) & ~binary_erosion(labels > 0, np.ones((3, 3)), iterations=2, border_value=1)

        p, q = band(reference), band(prediction)
        assert together[name].measures["boundary_iou"].tolist() == [(p & q).sum() / (p | q).sum()]
        assert together[name].measures["hausdorff_px"].tolist() == [np.hypot(1, 2)]
