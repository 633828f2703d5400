"""Surface Dice by length of contour: against the definition of surface-distance, written out, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

from evaluation.instances.boundary import runs_by_instance
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.outlines import DIAGONAL, STRAIGHT, contours_of, join_contours
from evaluation.metrics.surfaces import length_within

HALF = math.hypot(1, 1) / 2
LENGTHS = {  # pixels around a corner, upper left, upper right, lower left, lower right
    (0, 0, 0, 1): HALF, (0, 0, 1, 0): HALF, (0, 1, 0, 0): HALF, (1, 0, 0, 0): HALF,
    (1, 1, 1, 0): HALF, (1, 1, 0, 1): HALF, (1, 0, 1, 1): HALF, (0, 1, 1, 1): HALF,
    (0, 0, 1, 1): 1, (1, 1, 0, 0): 1, (0, 1, 0, 1): 1, (1, 0, 1, 0): 1,
    (0, 1, 1, 0): 2 * HALF, (1, 0, 0, 1): 2 * HALF,
}  # fmt: skip


def surface(mask):
    """Whether a piece of the contour is at each corner of pixels, and its length; (H + 1, W + 1)."""
    padded = np.pad(mask.astype(int), 1)
    length = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1))
    for y, x in np.ndindex(length.shape):
        around = tuple(padded[y : y + 2, x : x + 2].ravel().tolist())
        length[y, x] = LENGTHS.get(around, 0)
    return length > 0, length


def literal(reference, prediction, tolerance):
    """Distances by a distance transform of the other contour, lengths summed up to the tolerance."""
    (border, length), (other_border, other_length) = surface(reference), surface(prediction)
    to_other = ndimage.distance_transform_edt(~other_border)[border]
    to_this = ndimage.distance_transform_edt(~border)[other_border]
    length, other_length = length[border], other_length[other_border]
    within = length[to_other <= tolerance].sum() + other_length[to_this <= tolerance].sum()
    return within / (length.sum() + other_length.sum())


def contour_of(mask):
    return contours_of(runs_by_instance(instances_from_labels(mask.astype(int), class_id=1)), np.array([0]))


def blobs(seed, number=40):
    random = np.random.default_rng(seed)
    for _ in range(number):
        shape = random.integers(1, 25, 2)
        mask = random.random(shape) < random.choice([0.2, 0.6, 0.95])
        other = np.roll(mask, random.integers(-2, 3, 2), axis=(0, 1)) ^ (random.random(shape) < 0.05)
        if mask.any() and other.any():
            yield mask, other


@pytest.mark.parametrize("tolerance", [0.0, 1.0, 1.5, 3.0])
def test_it_is_the_definition_of_surface_distance(tolerance):
    pairs = list(blobs(int(10 * tolerance)))
    sides = [join_contours([contour_of(pair[side]) for pair in pairs]) for side in (0, 1)]
    found = length_within(*sides, np.full(len(pairs), tolerance))
    expected = [literal(*pair, tolerance) for pair in pairs]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len({round(value, 6) for value in expected}) > 3


def test_the_length_of_a_contour_is_that_of_its_pieces():
    for mask, _ in blobs(3):
        contour = contour_of(mask)
        border, length = surface(mask)
        assert contour.straight.sum() + contour.diagonal.sum() * HALF == pytest.approx(length.sum())
        np.testing.assert_array_equal(contour.points.points_yx.T, np.argwhere(border))


def test_a_square_of_ten_is_short_of_its_corners():
    contour = contour_of(np.ones((10, 10), bool))
    assert (contour.straight.sum(), contour.diagonal.sum()) == (36, 4)


def test_the_tables_are_those_of_the_definition():
    for around, length in LENGTHS.items():
        code = int("".join(map(str, around)), 2)
        assert STRAIGHT[code] + DIAGONAL[code] * HALF == length


def test_several_nuclei_of_an_image_have_the_contours_that_each_has_alone():
    labels = np.array([[1, 1, 0, 2], [1, 3, 3, 2], [0, 3, 0, 2]])
    both = contours_of(runs_by_instance(instances_from_labels(labels, class_id=1)), np.array([2, 0]))
    for entry, label in enumerate((3, 1)):
        alone = contour_of(labels == label)
        of_entry = slice(both.points.first[entry], both.points.first[entry] + both.points.size[entry])
        np.testing.assert_array_equal(both.points.points_yx[:, of_entry], alone.points.points_yx)
        np.testing.assert_array_equal(both.straight[of_entry], alone.straight)
