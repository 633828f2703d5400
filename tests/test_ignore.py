"""Ignore regions: what leaves, what stays. The oracle works on dense masks and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import instances_of, masks_of, points_of

from evaluation.instances.prepare import apply_ignore_region, prepare_reference
from evaluation.instances.runs import join_regions, union_region
from evaluation.model import Instances, Outlines, Region


@st.composite
def images_with_regions(draw):
    """Instances that may overlap, and a region, as masks."""
    height, width = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    count = draw(st.integers(0, 4))
    bits = draw(st.lists(st.booleans(), min_size=(count + 1) * height * width, max_size=(count + 1) * height * width))
    masks = np.array(bits, bool).reshape(count + 1, height, width)
    masks = np.concatenate([masks[:1], masks[1:][masks[1:].any(axis=(1, 2))]])
    return masks[1:], masks[0]


def region_of(mask: np.ndarray) -> Region:
    return union_region(instances_of(mask[None], [1]))


def apply(masks, region, policy, fraction=None) -> tuple[list[int], np.ndarray]:
    """Which instances stay, and their masks."""
    left = apply_ignore_region(instances_of(masks, [1] * len(masks)), region_of(region), policy, fraction)
    return left.source_id.tolist(), masks_of(left)


@given(images_with_regions())
def test_clip_takes_the_pixels_inside_and_the_instances_that_have_no_other(image):
    masks, region = image
    expected = masks & ~region
    kept = expected.any(axis=(1, 2))
    ids, found = apply(masks, region, "clip")
    assert ids == np.flatnonzero(kept).tolist()
    assert np.array_equal(found, expected[kept])


@given(images_with_regions(), st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 1.0]))
def test_drop_overlapping_takes_the_instances_with_more_than_the_fraction_inside(image, fraction):
    masks, region = image
    kept = [
        index
        for index, mask in enumerate(masks)
        if not Fraction(int((mask & region).sum()), int(mask.sum())) > Fraction(str(fraction)).limit_denominator(10**9)
    ]
    ids, found = apply(masks, region, "drop_overlapping", fraction)
    assert ids == kept
    assert np.array_equal(found, masks[kept])


@given(images_with_regions())
def test_drop_centroid_takes_the_instances_whose_centroid_pixel_is_inside(image):
    masks, region = image
    kept = []
    for index, mask in enumerate(masks):
        rows, columns = np.nonzero(mask)
        row, column = (int(Fraction(int(v.sum()), len(v)) + Fraction(1, 2)) for v in (rows, columns))
        if not region[row, column]:
            kept.append(index)
    ids, found = apply(masks, region, "drop_centroid")
    assert ids == kept
    assert np.array_equal(found, masks[kept])


@pytest.mark.parametrize(("inside", "stays"), [(28, True), (29, True), (30, False)])
def test_exactly_the_fraction_is_not_more_than_the_fraction(inside, stays):
    # 0.29 * 100 is 28.999999999999996 in floating point
    masks, region = np.ones((1, 1, 100), bool), np.zeros((1, 100), bool)
    region[0, :inside] = True
    assert apply(masks, region, "drop_overlapping", 0.29)[0] == ([0] if stays else [])


def test_a_missing_fraction_is_refused():
    with pytest.raises(ValueError, match="fraction"):
        apply(np.ones((1, 2, 3), bool), np.ones((2, 3), bool), "drop_overlapping")


@pytest.mark.parametrize("policy", ["clip", "drop_overlapping", "drop_centroid", "drop_unmatched"])
def test_an_empty_region_changes_nothing(policy):
    masks = np.ones((2, 2, 3), bool)
    assert apply(masks, np.zeros((2, 3), bool), policy, 0.5)[0] == [0, 1]


def test_joined_regions_have_each_pixel_once():
    first, second = (np.array([[1, 1, 0, 0]], bool), np.array([[0, 1, 1, 0]], bool))
    joined = join_regions([region_of(first), region_of(second)], 4)
    assert (joined.run_start.tolist(), joined.run_stop.tolist()) == ([0], [3])


# --- in a reference --------------------------------------------------------------------------------------------------


def squares(*corners_and_classes) -> Outlines:
    """Squares of 3 x 3 pixels: (left, top, class)."""
    points = [
        (left + dx, top + dy) for left, top, _ in corners_and_classes for dx, dy in ((0, 0), (2, 0), (2, 2), (0, 2))
    ]
    count = len(corners_and_classes)
    return Outlines(
        points_xy=np.array(points, float).reshape(-1, 2),
        ring_start=np.arange(count + 1) * 4,
        ring_instance=np.arange(count, dtype=np.int32),
        ring_is_hole=np.zeros(count, bool),
        class_id=np.array([c for _, _, c in corners_and_classes], np.int16),
        source_id=np.array([f"1/{i}" for i in range(count)], object),
    )


def prepare(outlines: Outlines, **rules):
    defaults = {
        "overlap": "last",
        "overlap_scope": "image",
        "vanished": "drop",
        "vertices": "exact",
        "origin": "pixel_centre",
        "ignore_policy": "clip",
    }
    return prepare_reference([outlines], (6, 8), **{**defaults, **rules})


def areas(instances: Instances) -> dict[str, int]:
    return dict(zip(instances.source_id, instances.areas_px().tolist(), strict=True))


def test_outlines_of_ignore_classes_are_a_region_and_no_instances():
    prepared = prepare(squares((0, 0, 1), (4, 0, -1), (5, 0, -2)))
    assert areas(prepared.instances) == {"1/0": 9}
    assert prepared.ignore.area_px() == 12
    assert (prepared.report.outlines, prepared.report.ignore_outlines) == (1, 2)


def test_outlines_of_ignore_classes_do_not_contest():
    prepared = prepare(squares((0, 0, 1), (2, 2, -1)), ignore_policy="drop_centroid")
    assert areas(prepared.instances) == {"1/0": 9}
    assert prepared.report.contested_px == 0


def test_under_clip_the_reference_loses_the_pixels_of_the_region():
    assert areas(prepare(squares((0, 0, 1), (1, 1, -1), (1, 1, 1))).instances) == {"1/0": 5}


def test_under_ignore_the_contested_pixels_join_the_region():
    prepared = prepare(squares((0, 0, 1), (2, 2, 1), (5, 3, -1)), overlap="ignore", ignore_policy="drop_centroid")
    assert areas(prepared.instances) == {"1/0": 8, "1/1": 8}
    assert prepared.ignore.area_px() == 1 + 9


def test_outlines_hidden_by_the_overlap_rule_are_lost_whole_and_others_lose_pixels():
    report = prepare(squares((0, 0, 1), (4, 0, 1), (0, 0, 2), (5, 1, 1))).report
    assert report.outlines_lost_whole == ("1/0",)
    assert report.outlines_that_lost_pixels == 1


def test_the_vanished_rule_reaches_ignore_regions_too():
    point = squares((3, 3, -1))
    outside = squares((20, 20, -1))
    assert prepare(point).ignore.area_px() == 9
    assert prepare(outside).ignore.area_px() == 0
    assert prepare(outside).report.outlines_vanished == ("1/0",)


@pytest.mark.parametrize(
    ("y", "x", "inside"), [(1.6, 2.6, True), (1.4, 2.6, False), (1.6, 2.4, False), (2.4, 3.4, True), (2.6, 3.4, False)]
)
def test_a_point_lies_in_the_pixel_whose_centre_is_nearest(y, x, inside):
    """The region is the pixel in row 2 and column 3 of an image of 5 x 7 px."""
    point = points_of([(y, x)], shape_yx=(5, 7))
    region = Region(np.array([2 * 7 + 3]), np.array([2 * 7 + 4]))
    assert len(apply_ignore_region(point, region, "clip")) == (0 if inside else 1)
