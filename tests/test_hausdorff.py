"""Boundaries, Hausdorff distances and the search for the nearest, against literal code, scikit-image and SimpleITK."""

from __future__ import annotations

import numpy as np
import pytest
import SimpleITK as sitk
from hypothesis import given, settings
from hypothesis import strategies as st
from literal import boundary, directed_distances, images, instances_of, pairs_of_images
from skimage.metrics import hausdorff_distance
from skimage.morphology import disk, erosion

from evaluation.instances.boundary import instance_boundaries
from evaluation.instances.labels import instances_from_labels
from evaluation.metrics import surfaces
from evaluation.metrics.surfaces import hausdorff_distances
from evaluation.model import Boundaries


def boundary_of(mask: np.ndarray, border: str = "open"):
    return instance_boundaries(instances_of(mask[None], [1]), np.array([0]), border=border)


@given(images(overlap=True), st.sampled_from(["open", "closed"]), st.randoms(use_true_random=False))
def test_boundaries_are_the_pixels_with_an_outside_neighbour(side, border, random):
    masks, classes = side
    chosen = random.sample(range(len(masks)), random.randint(0, len(masks)))
    found = instance_boundaries(instances_of(masks, classes), np.array(chosen, int), border=border)
    for place, index in enumerate(chosen):
        expected = boundary(masks[index], border)
        if not expected.any():  # fills the image
            expected = boundary(masks[index], "closed")
        points = found.points_of(place)
        assert points.tolist() == np.argwhere(expected).tolist()


@given(images(overlap=False, most=1))
def test_open_boundary_is_what_erosion_in_scikit_image_removes(side):
    for mask in side[0]:
        expected = mask & ~erosion(mask, disk(1))
        if expected.any():
            assert boundary_of(mask).points_of(0).tolist() == np.argwhere(expected).tolist()


@settings(max_examples=80)
@given(pairs_of_images(overlap=True, most=1), st.sampled_from(["open", "closed"]))
def test_distances_equal_their_definition_and_scikit_image(pair, border):
    (reference, _), (prediction, _) = pair
    if not len(reference) or not len(prediction):
        return
    sides = [boundary_of(mask[0], border) for mask in (reference, prediction)]
    pictures = []
    for side, mask in zip(sides, (reference[0], prediction[0]), strict=True):
        picture = np.zeros_like(mask)
        picture[tuple(side.points_yx)] = True
        pictures.append(picture)
    maximum, percentile = hausdorff_distances(*sides)
    directed = [directed_distances(*pictures), directed_distances(*pictures[::-1])]
    assert maximum[0] == pytest.approx(max(map(max, directed)), abs=1e-12)
    assert maximum[0] == pytest.approx(hausdorff_distance(*pictures), abs=1e-12)
    assert percentile[0] == pytest.approx(max(np.percentile(d, 95) for d in directed), abs=1e-12)


def test_distances_equal_simpleitk_on_discs():
    y, x = np.mgrid[:80, :90]
    reference = (y - 40) ** 2 + (x - 33) ** 2 < 20**2
    prediction = ((y - 44) / 1.3) ** 2 + (x - 36) ** 2 < 17**2
    sides = [boundary_of(mask) for mask in (reference, prediction)]
    pictures = [np.zeros((80, 90), np.uint8) for _ in sides]
    for side, picture in zip(sides, pictures, strict=True):
        picture[tuple(side.points_yx)] = 1
    oracle = sitk.HausdorffDistanceImageFilter()
    oracle.Execute(*(sitk.GetImageFromArray(picture) for picture in pictures))
    assert hausdorff_distances(*sides)[0][0] == pytest.approx(oracle.GetHausdorffDistance(), abs=1e-6)


def many_discs(seed: int, count: int = 300):
    rng = np.random.default_rng(seed)
    masks = []
    y, x = np.mgrid[:64, :64]
    for radius in rng.integers(1, 28, count):
        masks.append((y - rng.integers(5, 58)) ** 2 + (x - rng.integers(5, 58)) ** 2 <= radius**2)
    labels = np.zeros((count * 64, 64), np.int32)
    for index, mask in enumerate(masks):
        labels[index * 64 : (index + 1) * 64][mask] = index + 1
    return instances_from_labels(labels)


def test_a_batch_gives_what_each_pair_gives_alone(monkeypatch):
    reference, prediction = many_discs(1), many_discs(2)
    everyone = np.arange(len(reference))
    sides = [instance_boundaries(side, everyone, border="closed") for side in (reference, prediction)]
    together = hausdorff_distances(*sides)
    for entries, tree in ((64, surfaces.TREE_ENTRIES), (surfaces.STEP_ENTRIES, 0)):
        monkeypatch.setattr(surfaces, "STEP_ENTRIES", entries)
        monkeypatch.setattr(surfaces, "TREE_ENTRIES", tree)
        alone = hausdorff_distances(*sides)
        assert np.array_equal(together[0], alone[0])
        assert np.array_equal(together[1], alone[1])


@pytest.mark.parametrize("scale", [1, 100, 10_000, 1_000_000])
def test_squares_are_exact_whatever_the_extent(scale):
    points = np.array([[0, 0], [0, 3], [4, 0]], np.int32) * scale
    one = np.array([[0, 0]], np.int32)
    sides = [Boundaries(p.T, np.array([0]), np.array([len(p)])) for p in (points, one)]
    assert hausdorff_distances(*sides)[0].tolist() == [4.0 * scale]


def test_the_percentile_is_an_argument():
    points = np.stack([np.zeros(21, np.int32), np.arange(21, dtype=np.int32)], axis=1)
    sides = [Boundaries(p.T, np.array([0]), np.array([len(p)])) for p in (points, points[:1])]
    assert hausdorff_distances(*sides, percentile=50.0)[1].tolist() == [10.0]
    assert hausdorff_distances(*sides, percentile=95.0)[1].tolist() == [19.0]


def test_no_pairs_give_no_distances():
    empty = instance_boundaries(instances_from_labels(np.zeros((3, 3), int)), np.array([], int), border="open")
    assert [d.tolist() for d in hausdorff_distances(empty, empty)] == [[], []]
