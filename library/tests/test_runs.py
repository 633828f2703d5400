"""Instances as runs: labels, masks, positions and centroids."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from literal import images, instances_of, masks_of
from scipy import ndimage

from nuclei_metrics.instances.runs import (
    dilate_instances,
    erode_instances,
    instances_from_labels,
    majority_classes,
    shift_instances,
)
from nuclei_metrics.model import Instances
from nuclei_metrics.model import arrays as model_arrays
from nuclei_metrics.model.annotations import (
    TooManyRuns,
    count_regions,
    count_tops,
    present_labels,
    runs_of,
    runs_of_bands,
)

# --- label maps become runs -------------------------------------------------------------------------------------------


@given(
    images(overlap=False, most=8),
    st.sampled_from([np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]),
    st.sampled_from(["C", "F"]),
)
def test_label_maps_become_the_same_masks_in_runs_that_end_with_their_row(side, dtype, order):
    masks, _ = side
    labels = np.zeros(masks.shape[1:], dtype, order=order)
    for index, mask in enumerate(masks):
        labels[mask] = 100 - 7 * index
    instances = instances_from_labels(labels)
    assert instances.source_id.tolist() == sorted(100 - 7 * i for i in range(len(masks)))
    assert np.array_equal(masks_of(instances), masks[::-1])
    assert (instances.run_start // labels.shape[1] == (instances.run_stop - 1) // labels.shape[1]).all()


def test_huge_labels_need_no_huge_table():
    labels = np.array([[0, 2**62, 2**62], [5, 0, 2**31 + 3]])
    instances = instances_from_labels(labels)
    assert instances.source_id.tolist() == [5, 2**31 + 3, 2**62]
    assert instances.areas_px().tolist() == [1, 1, 2]


def test_blocks_of_the_pass_leave_no_trace():
    labels = np.repeat(np.random.default_rng(3).integers(0, 3, 90_000), 7).reshape(700, 900)
    assert instances_from_labels(labels).areas_px().tolist() == np.bincount(labels.ravel())[1:].tolist()


# --- planes as runs: the same in bands or at once ---------------------------------------------------------------------


shapes = st.tuples(st.integers(1, 7), st.integers(1, 7))
planes = arrays(np.int16, shapes, elements=st.sampled_from([0, 0, 1, 1, 2, 9]))


@given(planes, st.integers(1, 9))
def test_regions_are_those_of_scipy(plane, runs_at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_arrays, "RUNS_AT_ONCE", runs_at_once)
        assert count_regions(runs_of(plane)) == ndimage.label(plane, structure=np.ones((3, 3)))[1]


@given(planes)
def test_a_label_has_at_most_as_many_regions_as_tops(plane):
    runs = runs_of(plane)
    labels = present_labels(runs)
    for label, tops in zip(labels, count_tops(runs, labels), strict=True):
        here = plane == label
        near_above = ndimage.binary_dilation(np.pad(here, ((1, 0), (0, 0)))[:-1], np.ones((1, 3)))
        rows = [ndimage.label(row) for row in here]
        expected = sum(not near_above[y][row == k].any() for y, (row, n) in enumerate(rows) for k in range(1, n + 1))
        assert tops == expected >= ndimage.label(here, structure=np.ones((3, 3)))[1]


def test_runs_above_the_limit_are_refused_before_all_bands_are_read():
    def bands():
        yield np.ones((1, 4), np.int64)
        yield np.ones((1, 4), np.int64)
        raise AssertionError("read on")

    with pytest.raises(TooManyRuns):
        runs_of_bands(bands(), (3, 4), bytes_limit=47)


@given(planes, st.data())
def test_the_class_of_an_instance_is_that_of_most_of_its_pixels(plane, data):
    class_map = data.draw(arrays(np.int16, plane.shape, elements=st.sampled_from([0, 1, 2, 3, -1, -2])))
    instances = instances_from_labels(plane)
    found = majority_classes(instances, runs_of(class_map))
    for label, winner in zip(instances.source_id, found, strict=True):
        votes = Counter(int(value) for value in class_map[plane == label] if value)
        expected = min(votes, key=lambda value: (-votes[value], value < 0, abs(value)), default=0)
        assert winner == expected


# --- erosion, dilation and shift of runs ------------------------------------------------------------------------------


def kept_masks(masks):
    return np.array([mask for mask in masks if mask.any()]).reshape(-1, *masks.shape[1:])


@given(image=images(overlap=True), px=st.integers(1, 2))
def test_dilation_and_erosion_are_those_of_scipy_with_nothing_beyond_the_border(px, image):
    masks, classes = image
    grown, shrunk = (
        np.array([change(mask, iterations=px) for mask in masks]).reshape(masks.shape)
        for change in (ndimage.binary_dilation, ndimage.binary_erosion)
    )
    assert np.array_equal(masks_of(dilate_instances(instances_of(masks, classes), px)), grown)
    assert np.array_equal(masks_of(erode_instances(instances_of(masks, classes), px)), kept_masks(shrunk))


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
