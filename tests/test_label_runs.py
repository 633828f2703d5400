"""Planes as runs: the same in bands or at once; regions and votes against scipy and a literal count."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from label_pictures import picture
from scipy import ndimage

from evaluation.instances.labels import instances_from_labels, majority_classes
from evaluation.model import intervals
from evaluation.model.label_runs import (
    TooManyRuns,
    count_regions,
    count_tops,
    present_labels,
    runs_of,
    runs_of_bands,
    split_labels,
)

shapes = st.tuples(st.integers(1, 7), st.integers(1, 7))
planes = arrays.arrays(np.int16, shapes, elements=st.sampled_from([0, 0, 1, 1, 2, 9]))


@given(planes, st.lists(st.integers(0, 7), max_size=3))
def test_a_plane_in_bands_has_the_runs_of_the_plane(plane, cuts):
    edges = sorted({0, len(plane), *(cut for cut in cuts if cut < len(plane))})
    bands = [plane[first:last] for first, last in pairwise(edges)]
    whole, in_bands = runs_of(plane), runs_of_bands(iter(bands), plane.shape)
    for name in ("start", "stop", "value"):
        np.testing.assert_array_equal(getattr(in_bands, name), getattr(whole, name))
    np.testing.assert_array_equal(picture(whole), plane)
    assert present_labels(whole) == sorted({int(value) for value in plane.flat} - {0})


@given(planes, st.integers(1, 9))
def test_regions_are_those_of_scipy(plane, runs_at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "RUNS_AT_ONCE", runs_at_once)
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


def test_counting_regions_takes_the_memory_of_some_rows():
    """A chequered image has as many runs as there can be, in one region."""
    runs = runs_of(np.indices((3000, 2000)).sum(axis=0) % 2)
    tracemalloc.start()
    try:
        assert count_regions(runs) == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * len(runs.start)  # 200 bytes a run if all rows are looked at in one go


@given(planes)
def test_labels_that_are_left_out_become_background(plane):
    kept, left_out = map(picture, split_labels(runs_of(plane), [1, 9]))
    is_left_out = np.isin(plane, [1, 9])
    np.testing.assert_array_equal(kept, np.where(is_left_out, 0, plane))
    np.testing.assert_array_equal(left_out, np.where(is_left_out, plane, 0))


def test_runs_above_the_limit_are_refused_before_all_bands_are_read():
    def bands():
        yield np.ones((1, 4), np.int64)
        yield np.ones((1, 4), np.int64)
        raise AssertionError("read on")

    with pytest.raises(TooManyRuns):
        runs_of_bands(bands(), (3, 4), bytes_limit=47)


@given(planes, st.data())
def test_the_class_of_an_instance_is_that_of_most_of_its_pixels(plane, data):
    class_map = data.draw(arrays.arrays(np.int16, plane.shape, elements=st.sampled_from([0, 1, 2, 3, -1, -2])))
    instances = instances_from_labels(plane)
    found = majority_classes(instances, runs_of(class_map))
    for label, winner in zip(instances.source_id, found, strict=True):
        votes = Counter(int(value) for value in class_map[plane == label] if value)
        expected = min(votes, key=lambda value: (-votes[value], value < 0, abs(value)), default=0)
        assert winner == expected
