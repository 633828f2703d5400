"""Several cases counted as one image give each case what it has alone, digit by digit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from literal import instances_of, pairs_of_images

from evaluation.instances.boundary import (
    band_overlaps,
    boundaries_of_runs,
    choose_runs,
    instance_boundaries,
    join_runs,
    runs_by_instance,
)
from evaluation.instances.labels import instances_from_labels
from evaluation.matching import match_iou_above_many, match_iou_assignment
from evaluation.matching.table import overlap_table
from evaluation.metrics.counts import JoinedCases, join_cases
from evaluation.metrics.detection import count_threshold_nuclei, count_threshold_pairs
from evaluation.metrics.overlap import count_objects, count_overlaps
from evaluation.model import Instances

several_pairs = st.lists(
    pairs_of_images(overlap=True) | pairs_of_images(overlap=False, most=7, largest=12), min_size=2, max_size=4
)
NOTHING = np.zeros((0, 3, 5), bool)
SOMETHING = np.zeros((1, 3, 5), bool)
SOMETHING[0, 1:, :2] = True


def cases_of(pairs) -> list[tuple[Instances, Instances]]:
    return [(instances_of(*reference), instances_of(*prediction)) for reference, prediction in pairs]


def join(cases) -> JoinedCases:
    return join_cases([(*sides, overlap_table(*sides)) for sides in cases])


def sums_of(cases: JoinedCases, runs=()) -> dict[str, np.ndarray]:
    sides = cases.table, cases.reference, cases.prediction
    found = match_iou_above_many(*sides, [0.2, 0.5], class_aware=False)
    return {
        "pairs": count_threshold_pairs(cases, found, classes=3),
        "nuclei": count_threshold_nuclei(cases, classes=3),
        **count_overlaps(cases, match_iou_assignment(*sides, threshold=0.0, class_aware=False)),
        **count_objects(cases, runs),
    }


def check(cases) -> None:
    together = sums_of(join(cases))
    alone = [sums_of(join([sides])) for sides in cases]
    for name, values in together.items():
        assert values.tolist() == [of_case[name][0].tolist() for of_case in alone], name


@given(several_pairs)
def test_the_sums_of_each_case_are_those_of_the_case_alone(pairs):
    check(cases_of(pairs))


@pytest.mark.parametrize("place", range(3))
def test_a_case_without_nuclei_on_a_side_leaves_the_others_as_they_are(place):
    cases = [[instances_of(masks, [1] * len(masks)) for masks in (SOMETHING, SOMETHING)] for _ in range(3)]
    nothing = instances_of(NOTHING, [])
    for sides in ((nothing, cases[0][1]), (cases[0][0], nothing), (nothing, nothing)):
        check([tuple(sides) if k == place else tuple(case) for k, case in enumerate(cases)])


@given(several_pairs)
def test_runs_that_are_sorted_already_change_no_digit(pairs):
    cases = cases_of(pairs)
    runs = [runs_by_instance(sides[side]) for side in (0, 1) for sides in cases]
    joined = join(cases)
    sorted_here, sorted_before = sums_of(joined), sums_of(joined, runs)
    assert {name: sums.tolist() for name, sums in sorted_before.items()} == {
        name: sums.tolist() for name, sums in sorted_here.items()
    }


@settings(max_examples=30)
@given(several_pairs, st.integers(1, 3), st.sampled_from(["open", "closed"]))
def test_bands_of_several_images_are_those_of_each(pairs, width_px, border):
    """Open borders are those of each image, however large the others are."""
    rules = {"width_px": width_px, "border": border}
    chosen: tuple[list, list] = ([], [])
    expected = []
    for sides in cases_of(pairs):
        runs = [runs_by_instance(side) for side in sides]
        index = [indices.ravel() for indices in np.indices([len(side) for side in sides])]
        alone = band_overlaps(*map(choose_runs, runs, index), **rules)
        expected += zip(alone.intersection_px.tolist(), alone.union_px.tolist(), strict=True)
        for parts, of_side, of_index in zip(chosen, runs, index, strict=True):
            parts.append(choose_runs(of_side, of_index))
    together = band_overlaps(*map(join_runs, chosen), **rules)
    assert list(zip(together.intersection_px.tolist(), together.union_px.tolist(), strict=True)) == expected


@settings(max_examples=30)
@given(several_pairs, st.sampled_from(["open", "closed"]))
def test_boundaries_of_several_images_are_those_of_each(pairs, border):
    images = [
        *(side for sides in cases_of(pairs) for side in sides),
        instances_from_labels(np.ones((2, 3), int), class_id=1),
    ]
    every = [np.arange(len(image)) for image in images]
    alone = [instance_boundaries(image, index, border=border) for image, index in zip(images, every, strict=True)]
    runs = [choose_runs(runs_by_instance(image), index) for image, index in zip(images, every, strict=True)]
    together = boundaries_of_runs(join_runs(runs), border=border)
    expected = [part.points_of(entry).tolist() for part in alone for entry in range(len(part.size))]
    assert [together.points_of(entry).tolist() for entry in range(len(together.size))] == expected


def test_the_order_in_a_file_decides_nothing_among_nuclei_of_one_first_pixel_and_area():
    rng = np.random.default_rng(0)
    for _ in range(40):
        sides = np.zeros((2, 3, 12), bool)
        for mask in sides.reshape(6, 12):
            mask[[0, *(1 + rng.permutation(11)[:3])]] = True
        masks = sides.reshape(2, 3, 3, 4)
        before, after = (sums_of(join(cases_of([[(side[::step], [1] * 3) for side in masks]]))) for step in (1, -1))
        for name, values in before.items():
            assert values.tolist() == after[name].tolist(), name
