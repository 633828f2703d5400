"""Inner bands of nuclei against scipy's erosion on pictures and what the published program does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from literal import instances_of, pairs_of_images
from scipy.ndimage import binary_erosion

from evaluation.instances.boundary import choose_runs, runs_by_instance
from evaluation.instances.labels import band_overlaps

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


@settings(max_examples=400)
@given(
    pairs_of_images(overlap=True, most=4, largest=14),
    st.integers(1, 6),
    st.sampled_from(["open", "closed"]),
    st.randoms(use_true_random=False),
)
def test_bands_are_what_erosion_in_scipy_takes_away(pair, width_px, border, random):
    (reference, _), (prediction, _) = pair
    every = [(i, j) for i in range(len(reference)) for j in range(len(prediction))]
    pairs = random.choices(every, k=random.randint(0, 5)) if every else []
    found = overlaps_of(reference, prediction, pairs, width_px=width_px, border=border)
    assert found == expected_of(reference, prediction, pairs, width_px, border)


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(["open", "closed"]))
@example(3, 1, "open")
def test_bands_of_nuclei_with_holes_and_many_parts_are_too(seed, width_px, border):
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


@pytest.mark.parametrize("border", ["open", "closed"])
@pytest.mark.parametrize("with_hole", [False, True])
def test_a_wide_band_is_the_whole_nucleus(border, with_hole):
    masks = np.zeros((2, 12, 15), bool)
    masks[0, 2:9, 3:12] = masks[1, 3:10, 3:12] = True
    if with_hole:
        masks[:, 5, 6] = False
    expected = np.count_nonzero(masks[0] & masks[1]), np.count_nonzero(masks[0] | masks[1])
    for width_px in (4, 12, 10**9):
        assert overlaps_of(masks[:1], masks[1:], [(0, 0)], width_px=width_px, border=border) == [expected]


def test_the_image_border_is_an_outline_only_if_it_is_closed():
    masks = np.zeros((1, 8, 9), bool)
    masks[0, :5, :6] = True  # in the upper left corner
    assert overlaps_of(masks, masks, [(0, 0)], width_px=1, border="closed") == [(18, 18)]
    assert overlaps_of(masks, masks, [(0, 0)], width_px=1, border="open") == [(10, 10)]


def test_a_nucleus_that_fills_the_image_has_no_band_if_the_border_is_open():
    full = np.ones((1, 5, 7), bool)
    assert overlaps_of(full, full, [(0, 0)], width_px=3, border="open") == [(0, 0)]
    assert overlaps_of(full, full, [(0, 0)], width_px=1, border="closed") == [(20, 20)]


def test_pairs_do_not_touch_each_other():
    """Entries that follow each other on the number line, from the last row of the image to the first."""
    masks = np.ones((2, 6, 4), bool)
    masks[0, :, 0] = masks[1, 2, 2] = False
    pairs = [(0, 0), (1, 1), (0, 1), (1, 0)] * 3
    for border in ("open", "closed"):
        for width_px in (1, 2, 3, 5):
            found = overlaps_of(masks, masks, pairs, width_px=width_px, border=border)
            assert found == expected_of(masks, masks, pairs, width_px, border)


@pytest.mark.parametrize("width_px", [0, -2])
def test_a_band_without_width_is_refused(width_px):
    full = np.ones((1, 5, 7), bool)
    with pytest.raises(ValueError, match="at least 1"):
        overlaps_of(full, full, [(0, 0)], width_px=width_px, border="open")


def test_no_pairs_have_no_bands():
    full = np.ones((1, 5, 7), bool)
    assert overlaps_of(full, full, [], width_px=2, border="open") == []
