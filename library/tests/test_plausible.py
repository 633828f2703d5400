"""Signs that labels are not nuclei, against literal versions on random images."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from nuclei_metrics.instances.plausible import background_index, scattered_instances
from nuclei_metrics.instances.runs import instances_from_labels


def literally_scattered(labels: np.ndarray) -> list[int]:
    """Indices of labels of which a part lies further from the longest one than that is long."""
    found = []
    for index, label in enumerate(np.unique(labels)[1:].tolist()):
        parts, _ = ndimage.label(labels == label, np.ones((3, 3)))
        boxes = [(y.start, x.start, y.stop, x.stop) for y, x in ndimage.find_objects(parts)]
        length = [max(y1 - y0, x1 - x0) for y0, x0, y1, x1 in boxes]
        top, left, bottom, right = boxes[length.index(max(length))]
        gaps = [max(y0 - bottom, top - y1, x0 - right, left - x1) for y0, x0, y1, x1 in boxes]
        found += [index] if max(gaps) > max(length) else []
    return found


@pytest.mark.parametrize("seed", range(40))
def test_scattered_instances_are_those_of_the_literal_version(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = np.zeros((30, 50), np.int64)
    for _ in range(random.integers(1, 25)):
        y, x, height, width = random.integers(0, 27), random.integers(0, 45), *random.integers(1, 12, 2)
        labels[y : y + height, x : x + width] = random.integers(0, 12)
    labels[0, 0] = 1
    assert scattered_instances(instances_from_labels(labels)).tolist() == literally_scattered(labels)


def test_a_background_covers_more_than_half_and_touches_all_four_borders() -> None:
    labels = np.ones((40, 40), np.int64)
    labels[10:30, 10:30] = 2
    assert background_index(instances_from_labels(labels)) == 0
    for border in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
        open_side = labels.copy()
        open_side[border] = 0
        assert background_index(instances_from_labels(open_side)) is None
    labels[3:37, 3:37] = 0
    assert background_index(instances_from_labels(labels)) is None  # a frame covers less than half


def test_two_labels_without_a_background_share_the_image_and_tessellations_do_not() -> None:
    halves = np.repeat([[1, 2]], 40, axis=0).repeat(20, axis=1)
    assert background_index(instances_from_labels(halves)) == 0
    thirds = np.repeat([[1, 2, 3]], 42, axis=0).repeat(14, axis=1)
    assert background_index(instances_from_labels(thirds)) is None
