"""Erosion, dilation and shift of runs against scipy's on dense masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import images, instances_of, masks_of
from scipy import ndimage

from evaluation.instances.perturb import dilate_instances, erode_instances, shift_instances
from evaluation.model import Instances


def kept_masks(masks):
    return np.array([mask for mask in masks if mask.any()]).reshape(-1, *masks.shape[1:])


@pytest.mark.parametrize("px", [1, 2])
@given(image=images(overlap=True))
def test_dilation_is_that_of_scipy_inside_the_image(px, image):
    masks, classes = image
    expected = np.array([ndimage.binary_dilation(mask, iterations=px) for mask in masks]).reshape(masks.shape)
    assert np.array_equal(masks_of(dilate_instances(instances_of(masks, classes), px)), expected)


@pytest.mark.parametrize("px", [1, 2])
@given(image=images(overlap=True))
def test_erosion_is_that_of_scipy_with_everything_outside_beyond_the_border(px, image):
    masks, classes = image
    expected = kept_masks(np.array([ndimage.binary_erosion(m, iterations=px) for m in masks]).reshape(masks.shape))
    assert np.array_equal(masks_of(erode_instances(instances_of(masks, classes), px)), expected)


@given(images(overlap=True), st.integers(-3, 3), st.integers(-3, 3))
def test_a_shift_moves_pixels_and_drops_those_that_leave_the_image(image, dy, dx):
    masks, classes = image
    expected = [ndimage.shift(mask.astype(np.int8), (dy, dx), order=0).astype(bool) for mask in masks]
    found = shift_instances(instances_of(masks, classes), dy, dx)
    assert np.array_equal(masks_of(found), kept_masks(np.array(expected, bool).reshape(masks.shape)))


@given(images(overlap=True))
def test_runs_stay_sorted_and_those_of_a_nucleus_apart(image):
    masks, classes = image
    for change in (dilate_instances, erode_instances, shift_instances):
        found: Instances = change(instances_of(masks, classes))
        assert np.all(np.diff(found.run_start) >= 0)
        assert np.array_equal(masks_of(instances_of(masks_of(found), found.class_id)), masks_of(found))
        assert len(found.run_start) == len(instances_of(masks_of(found), found.class_id).run_start)


def test_what_vanishes_takes_its_class_and_id_along():
    masks = np.zeros((2, 5, 9), bool)
    masks[0, 1, 1] = True
    masks[1, 1:4, 4:8] = True
    left = erode_instances(instances_of(masks, [2, 1]))
    assert (left.class_id.tolist(), left.source_id.tolist(), left.areas_px().tolist()) == ([1], [1], [2])
