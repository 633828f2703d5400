"""Boundaries of nuclei, and the distances between them."""

from __future__ import annotations

import math
from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from literal import boundary, images, instance_boundaries, instances_of, pairs_of_images
from scipy import ndimage
from scipy.ndimage import binary_erosion, distance_transform_edt
from skimage.metrics import hausdorff_distance

from nuclei_metrics.instances.boundary import band_overlaps, choose_runs, runs_by_instance
from nuclei_metrics.instances.outlines import contours_of, join_contours
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.metrics import surfaces
from nuclei_metrics.metrics.surfaces import SurfaceMeasures, length_within, surface_measures
from nuclei_metrics.model import Boundaries

# --- boundaries, Hausdorff distances and the search for the nearest ---------------------------------------------------


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


def test_a_nucleus_that_fills_its_image_has_the_border_of_the_image_for_its_boundary_under_both_rules():
    full = instances_of(np.ones((1, 3, 4), bool), [1])
    border = [[y, x] for y in range(3) for x in range(4) if (y, x) not in ((1, 1), (1, 2))]
    for rule in ("open", "closed"):
        assert instance_boundaries(full, np.array([0]), border=rule).points_of(0).tolist() == border


def test_the_percentile_is_an_argument():
    points = np.stack([np.zeros(21, np.int32), np.arange(21, dtype=np.int32)], axis=1)
    sides = [Boundaries(p.T, np.array([0]), np.array([len(p)])) for p in (points, points[:1])]
    assert surface_measures(*sides, percentile=50.0).hausdorff95_px.tolist() == [10.0]
    assert surface_measures(*sides, percentile=95.0).hausdorff95_px.tolist() == [19.0]


# --- inner bands, against erosion in scipy ----------------------------------------------------------------------------


SQUARE = np.ones((3, 3), bool)


def band(mask: np.ndarray, width_px: int, border: str) -> np.ndarray:
    return mask & ~binary_erosion(mask, SQUARE, iterations=width_px, border_value=border == "open")


def overlaps_of(reference: np.ndarray, prediction: np.ndarray, pairs: list[tuple[int, int]], **rules):
    sides = [runs_by_instance(instances_of(masks, [1] * len(masks))) for masks in (reference, prediction)]
    index = np.array(pairs, int).reshape(-1, 2).T
    found = band_overlaps(*map(choose_runs, sides, index), **rules)
    return list(zip(found.intersection_px.tolist(), found.union_px.tolist(), strict=True))


def expected_of(reference: np.ndarray, prediction: np.ndarray, pairs: list[tuple[int, int]], width_px, border):
    expected = []
    for i, j in pairs:
        p, q = band(reference[i], width_px, border), band(prediction[j], width_px, border)
        expected.append((np.count_nonzero(p & q), np.count_nonzero(p | q)))
    return expected


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(["open", "closed"]))
@example(3, 1, "open")
def test_bands_are_what_erosion_in_scipy_takes_away(seed, width_px, border):
    """Nuclei with holes and many parts."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 24, 2)
    sides = []
    for _ in range(2):
        masks = rng.random((4, *shape)) < rng.uniform(0.1, 1.0, (4, 1, 1))
        masks |= binary_erosion(rng.random((4, *shape)) < 0.97, np.ones((1, 3, 3)))
        sides.append(masks[masks.any(axis=(1, 2))])
    pairs = [(i, j) for i in range(len(sides[0])) for j in range(len(sides[1]))]
    found = overlaps_of(*sides, pairs, width_px=width_px, border=border)
    assert found == expected_of(*sides, pairs, width_px, border)


@given(pairs_of_images(overlap=True, most=1, largest=14), st.integers(1, 5))
def test_closed_bands_are_those_of_the_published_program(pair, width_px):
    """It pads the mask with one row of background and erodes by a routine that takes what lies beyond for inside."""
    (reference, _), (prediction, _) = pair
    if not len(reference) or not len(prediction):
        return

    def published(mask: np.ndarray) -> np.ndarray:
        eroded = binary_erosion(np.pad(mask, 1), SQUARE, iterations=width_px, border_value=1)[1:-1, 1:-1]
        return mask & ~eroded

    p, q = published(reference[0]), published(prediction[0])
    found = overlaps_of(reference, prediction, [(0, 0)], width_px=width_px, border="closed")
    assert found == [(np.count_nonzero(p & q), np.count_nonzero(p | q))]


def test_a_wide_band_is_the_whole_nucleus():
    for border, hole, width_px in product(("open", "closed"), ([], [6]), (4, 12, 10**9)):
        masks = np.zeros((2, 12, 15), bool)
        masks[0, 2:9, 3:12] = masks[1, 3:10, 3:12] = True
        masks[:, 5, hole] = False
        expected = np.count_nonzero(masks[0] & masks[1]), np.count_nonzero(masks[0] | masks[1])
        assert overlaps_of(masks[:1], masks[1:], [(0, 0)], width_px=width_px, border=border) == [expected]


def test_a_nucleus_that_fills_the_image_has_no_band_if_the_border_is_open():
    full = np.ones((1, 5, 7), bool)
    assert overlaps_of(full, full, [(0, 0)], width_px=3, border="open") == [(0, 0)]
    assert overlaps_of(full, full, [(0, 0)], width_px=1, border="closed") == [(20, 20)]


def test_pairs_do_not_touch_each_other():
    """Entries that follow each other on the number line, from the last row of the image to the first."""
    masks = np.ones((2, 6, 4), bool)
    masks[0, :, 0] = masks[1, 2, 2] = False
    pairs = [(0, 0), (1, 1), (0, 1), (1, 0)] * 3
    for border, width_px in product(("open", "closed"), (1, 2, 3, 5)):
        found = overlaps_of(masks, masks, pairs, width_px=width_px, border=border)
        assert found == expected_of(masks, masks, pairs, width_px, border)
    with pytest.raises(ValueError, match="at least 1"):
        overlaps_of(masks, masks, pairs, width_px=0, border="open")


# --- surface Dice by length of contour, as surface-distance defines it ------------------------------------------------


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


def test_several_nuclei_of_an_image_have_the_contours_that_each_has_alone():
    labels = np.array([[1, 1, 0, 2], [1, 3, 3, 2], [0, 3, 0, 2]])
    both = contours_of(runs_by_instance(instances_from_labels(labels, class_id=1)), np.array([2, 0]))
    for entry, label in enumerate((3, 1)):
        alone = contour_of(labels == label)
        of_entry = slice(both.points.first[entry], both.points.first[entry] + both.points.size[entry])
        np.testing.assert_array_equal(both.points.points_yx[:, of_entry], alone.points.points_yx)
        np.testing.assert_array_equal(both.straight[of_entry], alone.straight)


# --- measures of outlines against their definitions -------------------------------------------------------------------


TOLERANCES = [0.0, 0.9, 1.0, np.sqrt(2), 1.5, 2.0, np.sqrt(5), 3.7, np.inf]


def outlines_of(masks: np.ndarray, border: str = "closed") -> Boundaries:
    return instance_boundaries(instances_of(masks, [1] * len(masks)), np.arange(len(masks)), border=border)


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


@given(
    pairs_of_images(overlap=True, most=4),
    st.lists(st.sampled_from(TOLERANCES), min_size=4, max_size=4),
    st.sampled_from(["open", "closed"]),
)
def test_measures_are_their_definitions_on_distance_transforms(pair, tolerances, border):
    (reference, _), (prediction, _) = pair
    count = min(len(reference), len(prediction))
    tolerance = np.array(tolerances[:count])
    sides = [masks[:count] for masks in (reference, prediction)]
    found = surface_measures(*(outlines_of(side, border) for side in sides), tolerance_px=tolerance, mean=True)
    for t in range(count):
        p, q = (boundary(masks[t], border if boundary(masks[t], border).any() else "closed") for masks in sides)
        there, back = directed(p, q), directed(q, p)
        points = len(there) + len(back)
        assert found.hausdorff_px[t] == pytest.approx(max(there.max(), back.max()), abs=1e-12)
        assert found.hausdorff_px[t] == pytest.approx(hausdorff_distance(p, q), abs=1e-12)  # of scikit-image
        assert found.hausdorff95_px[t] == pytest.approx(max(np.percentile(d, 95) for d in (there, back)), abs=1e-12)
        assert found.mean_surface_distance_px[t] == pytest.approx((there.sum() + back.sum()) / points, abs=1e-12)
        near = np.count_nonzero(np.concatenate([there, back]) <= tolerance[t] + 1e-9)
        assert found.surface_dice[t] == near / points


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


def test_a_rounded_quotient_of_um_loses_no_pixel():
    for tolerance_px, inside in ((0.6 / 0.2, 1.0), (np.sqrt(9 - 1e-9), 0.0), (np.nextafter(3, 4), 1.0)):
        found = surface_measures(outlines([(0, 0)]), outlines([(0, 3)]), tolerance_px=np.array([tolerance_px]))
        assert found.surface_dice.tolist() == [inside]


def test_a_root_as_tolerance_reaches_its_square():
    offsets = [(dy, dx) for dy in range(1, 60) for dx in range(60)]
    squared = np.array([dy * dy + dx * dx for dy, dx in offsets])
    sides = outlines(*[[(0, 0)]] * len(offsets)), outlines(*([offset] for offset in offsets))
    for root, reached in ((np.sqrt(squared), 1.0), (np.sqrt(squared - 1e-6), 0.0)):
        assert set(surface_measures(*sides, tolerance_px=root).surface_dice.tolist()) == {reached}


def test_measures_are_exact_whatever_the_extent():
    for scale in (1, 40, 10_000, 1_000_000):
        found = everything(outlines([(0, 0), (0, 3 * scale), (4 * scale, 0)]), outlines([(0, 0)]), 3.0 * scale)
        assert digits(found)[0] == [4.0 * scale]
        assert digits(found)[2:] == [[7.0 * scale / 4], [0.75]]


def test_only_what_is_asked_for_is_measured_and_nothing_of_no_pair():
    found = surface_measures(outlines([(0, 0)]), outlines([(3, 4)]))
    assert found.hausdorff_px.tolist() == found.hausdorff95_px.tolist() == [5.0]
    assert found.mean_surface_distance_px is found.surface_dice is None
    assert digits(everything(outlines(), outlines())) == [[], [], [], []]
