"""Measures of outlines against their definitions on scipy's distance transforms, SimpleITK and published cases."""

from __future__ import annotations

import json
from dataclasses import astuple
from itertools import pairwise

import numpy as np
import pytest
import SimpleITK as sitk
from hypothesis import given
from hypothesis import strategies as st
from literal import boundary, instances_of, pairs_of_images
from scipy.ndimage import distance_transform_edt

from evaluation.instances.boundary import instance_boundaries
from evaluation.metrics import surfaces
from evaluation.metrics.surfaces import SurfaceMeasures, surface_measures
from evaluation.model import Boundaries

TOLERANCES = [0.0, 0.9, 1.0, np.sqrt(2), 1.5, 2.0, np.sqrt(5), 3.7, 20.0]


def outlines_of(masks: np.ndarray) -> Boundaries:
    return instance_boundaries(instances_of(masks, [1] * len(masks)), np.arange(len(masks)), border="closed")


def outlines(*entries: list[tuple[int, int]]) -> Boundaries:
    size = np.array([len(entry) for entry in entries])
    points = np.array([point for entry in entries for point in entry], np.int32).reshape(-1, 2)
    return Boundaries(points.T.copy(), np.cumsum(size) - size, size)


def everything(reference: Boundaries, prediction: Boundaries, tolerance: float = 2.0) -> SurfaceMeasures:
    return surface_measures(reference, prediction, tolerance_px=np.full(len(reference.size), tolerance), mean=True)


def digits(found: SurfaceMeasures) -> list[list[float]]:
    return [column.tolist() for column in astuple(found)]


def directed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance from each pixel of picture ``a`` to the nearest pixel of picture ``b``."""
    return distance_transform_edt(~b)[a]


@given(pairs_of_images(overlap=True, most=4), st.lists(st.sampled_from(TOLERANCES), min_size=4, max_size=4))
def test_measures_are_their_definitions_on_distance_transforms(pair, tolerances):
    (reference, _), (prediction, _) = pair
    count = min(len(reference), len(prediction))
    tolerance = np.array(tolerances[:count])
    sides = [masks[:count] for masks in (reference, prediction)]
    found = surface_measures(*map(outlines_of, sides), tolerance_px=tolerance, mean=True)
    for t in range(count):
        p, q = (boundary(masks[t], "closed") for masks in sides)
        there, back = directed(p, q), directed(q, p)
        points = len(there) + len(back)
        assert found.hausdorff_px[t] == pytest.approx(max(there.max(), back.max()), abs=1e-12)
        assert found.hausdorff95_px[t] == pytest.approx(max(np.percentile(d, 95) for d in (there, back)), abs=1e-12)
        assert found.mean_distance_px[t] == pytest.approx((there.sum() + back.sum()) / points, abs=1e-12)
        near = np.count_nonzero(np.concatenate([there, back]) <= tolerance[t] + 1e-9)
        assert found.within_tolerance[t] == near / points


@given(pairs_of_images(overlap=True, most=1), st.randoms(use_true_random=False))
def test_order_of_pixels_shift_mirror_and_swapped_sides_change_no_digit(pair, random):
    (reference, _), (prediction, _) = pair
    if not len(reference) or not len(prediction):
        return
    sides = [outlines_of(masks) for masks in (reference, prediction)]
    expected = digits(everything(*sides))
    assert digits(everything(*sides[::-1])) == expected

    def changed(change) -> list[list[float]]:
        return digits(everything(*(Boundaries(change(s.points_yx), s.first, s.size) for s in sides)))

    def shuffled(points: np.ndarray) -> np.ndarray:
        return points[:, random.sample(range(points.shape[1]), points.shape[1])]

    assert changed(shuffled) == expected
    assert changed(lambda points: points + np.array([[-70_000], [31]], np.int32)) == expected
    assert changed(lambda points: -points) == expected
    assert changed(lambda points: points[::-1].copy()) == expected


def many_pieces(seed: int, count: int = 200) -> Boundaries:
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 90, count)
    return Boundaries(rng.integers(0, 40, (2, size.sum())).astype(np.int32), np.cumsum(size) - size, size)


def test_a_batch_a_pair_alone_and_trees_give_the_same_digits(monkeypatch):
    sides = many_pieces(1), many_pieces(2)
    together = digits(everything(*sides))
    for step, padding, tree in ((64, 1.4, surfaces.TREE_ENTRIES), (1 << 17, 50.0, surfaces.TREE_ENTRIES), (64, 1.4, 0)):
        monkeypatch.setattr(surfaces, "STEP_ENTRIES", step)
        monkeypatch.setattr(surfaces, "PADDING", padding)
        monkeypatch.setattr(surfaces, "TREE_ENTRIES", tree)
        assert digits(everything(*sides)) == together


def test_every_pair_has_its_own_tolerance():
    left = outlines(*[[(0, 0), (9, 0)]] * 4)
    right = outlines(*[[(0, 3), (9, 0)]] * 4)
    found = surface_measures(left, right, tolerance_px=np.array([0.0, 2.999, 3.0, np.inf]))
    assert found.within_tolerance.tolist() == [0.5, 0.5, 1.0, 1.0]


def test_everything_is_within_an_endless_tolerance():
    sides = many_pieces(6), many_pieces(7)
    assert everything(*sides, np.inf).within_tolerance.tolist() == [1.0] * 200


@pytest.mark.parametrize(
    ("tolerance_px", "inside"), [(0.6 / 0.2, True), (np.sqrt(9 - 1e-9), False), (np.nextafter(3, 4), True)]
)
def test_a_rounded_quotient_of_um_loses_no_pixel(tolerance_px, inside):
    found = surface_measures(outlines([(0, 0)]), outlines([(0, 3)]), tolerance_px=np.array([tolerance_px]))
    assert found.within_tolerance.tolist() == [float(inside)]


def test_a_root_as_tolerance_reaches_its_square():
    offsets = [(dy, dx) for dy in range(1, 60) for dx in range(60)]
    squared = np.array([dy * dy + dx * dx for dy, dx in offsets])
    sides = outlines(*[[(0, 0)]] * len(offsets)), outlines(*([offset] for offset in offsets))
    for root, reached in ((np.sqrt(squared), 1.0), (np.sqrt(squared - 1e-6), 0.0)):
        assert set(surface_measures(*sides, tolerance_px=root).within_tolerance.tolist()) == {reached}


def test_a_larger_tolerance_never_gives_less():
    sides = many_pieces(3), many_pieces(4)
    values = [everything(*sides, tolerance).within_tolerance for tolerance in TOLERANCES]
    for smaller, larger in pairwise(values):
        assert np.all(smaller <= larger)
    assert np.any(values[0] < values[-1])


@pytest.mark.parametrize("scale", [1, 40, 10_000, 1_000_000])
def test_measures_are_exact_whatever_the_extent(scale):
    found = everything(outlines([(0, 0), (0, 3 * scale), (4 * scale, 0)]), outlines([(0, 0)]), 3.0 * scale)
    assert digits(found)[0] == [4.0 * scale]
    assert digits(found)[2:] == [[7.0 * scale / 4], [0.75]]


def test_outlines_that_agree_are_nowhere_apart():
    sides = many_pieces(5), many_pieces(5)
    assert digits(everything(*sides, 0.0)) == [[0.0] * 200] * 3 + [[1.0] * 200]


def test_only_what_is_asked_for_is_measured():
    found = surface_measures(outlines([(0, 0)]), outlines([(3, 4)]))
    assert found.hausdorff_px.tolist() == found.hausdorff95_px.tolist() == [5.0]
    assert found.mean_distance_px is None
    assert found.within_tolerance is None


def test_no_pairs_have_no_measures():
    assert digits(everything(outlines(), outlines())) == [[], [], [], []]


def discs() -> list[np.ndarray]:
    y, x = np.mgrid[:80, :90]
    return [(y - 40) ** 2 + (x - 33) ** 2 < 20**2, ((y - 44) / 1.3) ** 2 + (x - 36) ** 2 < 17**2]


def test_the_average_of_simpleitk_is_the_mean_of_the_two_directed_means():
    y, x = np.mgrid[:80, :90]
    masks = [((y - 40) / 0.4) ** 2 + (x - 40) ** 2 < 35**2, (y - 36) ** 2 + (x - 38) ** 2 < 9**2]
    pictures = [boundary(mask, "closed") for mask in masks]
    oracle = sitk.HausdorffDistanceImageFilter()
    oracle.Execute(*(sitk.GetImageFromArray(picture.astype(np.uint8)) for picture in pictures))
    there, back = directed(*pictures), directed(*pictures[::-1])
    assert oracle.GetAverageHausdorffDistance() == pytest.approx((there.mean() + back.mean()) / 2, abs=1e-6)
    found = everything(*(outlines_of(mask[None]) for mask in masks)).mean_distance_px[0]
    assert found == pytest.approx((there.sum() + back.sum()) / (len(there) + len(back)), abs=1e-12)
    assert abs(found - oracle.GetAverageHausdorffDistance()) > 1  # the long outline weighs more here


def test_distances_of_simpleitk_distance_maps_have_the_same_mean_and_share():
    masks = discs()
    pictures = [boundary(mask, "closed") for mask in masks]
    maps = [
        sitk.GetArrayFromImage(
            sitk.SignedMaurerDistanceMap(
                sitk.GetImageFromArray(picture.astype(np.uint8)), insideIsPositive=False, squaredDistance=False
            )
        )
        for picture in pictures
    ]
    distances = np.concatenate([np.abs(maps[1][pictures[0]]), np.abs(maps[0][pictures[1]])])
    found = everything(*(outlines_of(mask[None]) for mask in masks), 2.5)
    assert found.mean_distance_px[0] == pytest.approx(distances.mean(), abs=1e-6)
    assert found.within_tolerance[0] == np.mean(distances <= 2.5)


def test_the_published_case_of_surface_distance_differs_by_where_the_surface_lies(shared_data):
    """Their surface elements are the corners of a pixel; with these as points their numbers come out, all of them."""
    (case, *_) = json.loads((shared_data / "peer_cases.json").read_text())["surface_distance"]
    assert "gt pixel (50,70), pred pixel (50,72)" in case["what"]

    def corners(y: int, x: int) -> Boundaries:
        return outlines([(y + dy, x + dx) for dy in (0, 1) for dx in (0, 1)])

    theirs = everything(corners(50, 70), corners(50, 72), 1.0)
    assert theirs.mean_distance_px.tolist() == [np.mean(case["average_surface_distance"])]
    assert theirs.hausdorff_px.tolist() == [case["hd100"]]
    assert theirs.hausdorff95_px.tolist() == [case["hd95"]]
    assert theirs.within_tolerance.tolist() == [case["surface_dice_1mm"]]
    ours = everything(outlines([(50, 70)]), outlines([(50, 72)]), 1.0)
    assert digits(ours) == [[case["hd100"]], [case["hd95"]], [2.0], [0.0]]
