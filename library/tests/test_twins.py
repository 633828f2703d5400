"""Nuclei of one side that share more than half of the smaller one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from literal import images, instances_of, masks_of, points_of

from nuclei_metrics.instances.runs import dilate_instances, select_instances
from nuclei_metrics.matching.table import duplicates_among, find_twins
from nuclei_metrics.model import Instances
from nuclei_metrics.model.instances import join_instances

SHAPE = 60, 70


def squares(*corners_yx: tuple[int, int], side: int = 8, classes: tuple[int, ...] = ()) -> Instances:
    masks = np.zeros((len(corners_yx), *SHAPE), bool)
    for mask, (y, x) in zip(masks, corners_yx, strict=True):
        mask[y : y + side, x : x + side] = True
    return instances_of(masks, classes or (1,) * len(corners_yx))


def points(*yx: tuple[float, float]) -> Instances:
    return points_of(yx, shape_yx=SHAPE)


def together(*parts: Instances) -> Instances:
    return join_instances(list(parts), SHAPE)


# --- which pairs ------------------------------------------------------------------------------------------------------


@given(images(overlap=True))
def test_twins_are_the_pairs_that_share_more_than_half_of_the_smaller(image: Any) -> None:
    masks, classes = image
    expected = [
        (i, j)
        for j in range(len(masks))
        for i in range(j)
        if 2 * (masks[i] & masks[j]).sum() > min(masks[i].sum(), masks[j].sum())
    ]
    first, second = find_twins(instances_of(masks, classes))
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == sorted(expected)


def test_points_are_twins_that_lie_less_than_half_the_radius_apart() -> None:
    at = points((10, 10), (10, 14), (20, 20), (20, 25), (40, 40))
    first, second = find_twins(at, radius_px=10)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 1)]
    assert [len(side) for side in find_twins(at)] == [0, 0]


def fits(number: int) -> Any:
    """Made IoUs, some of them equal, and some 0: those match nothing."""
    return np.where(np.arange(number) % 3 == 1, 0, 0.6 + (np.arange(number) * 7 % 5) / 20)


@given(images(overlap=True))
def test_of_two_twins_one_takes_part_and_every_one_that_does_not_fits_better_or_matches_nothing(image: Any) -> None:
    nuclei = instances_of(*image)
    first, second = find_twins(nuclei)
    fit = fits(len(nuclei))
    away = duplicates_among(nuclei, (first, second), np.zeros(len(nuclei), bool), fit)
    twins = {(i, j) for i, j in zip(first.tolist(), second.tolist(), strict=True)}
    assert not any(not away[i] and not away[j] for i, j in twins)
    for index in np.flatnonzero(away).tolist():
        others = [j if i == index else i for i, j in twins if index in (i, j)]
        assert any(not away[of] and (0 < fit[of] <= fit[index] or not fit[index]) for of in others)


def test_a_nucleus_whose_only_worse_twin_does_not_take_part_does() -> None:
    row = squares((5, 5), (5, 8), (5, 11))
    first, second = find_twins(row)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 1), (1, 2)]
    away = duplicates_among(row, (first, second), np.zeros(3, bool), np.array([0.6, 0.7, 0.8]))
    assert away.tolist() == [False, True, False]


def test_two_twins_that_both_match_take_part() -> None:
    pair = squares((5, 5), (5, 8))
    assert not duplicates_among(pair, find_twins(pair), np.ones(2, bool), np.array([0.6, 0.7])).any()


@pytest.mark.parametrize("first", [0, 1])
def test_of_a_nucleus_and_a_copy_around_it_that_fits_as_well_the_inner_one_takes_part(first: int) -> None:
    inner = squares((5, 5))
    both = together(*(inner, dilate_instances(inner))[:: 1 - 2 * first])
    away = duplicates_among(both, find_twins(both), np.zeros(2, bool), np.array([0.7, 0.7]))
    assert select_instances(both, ~away).areas_px().tolist() == [64]


@given(images(overlap=True))
def test_neither_the_order_of_the_file_nor_a_confidence_decides(image: Any) -> None:
    masks, classes = image
    fit = fits(len(masks))
    kept = []
    for at, sure in ((slice(None), 0), (slice(None, None, -1), 0), (slice(None), 1)):
        nuclei = instances_of(masks[at], classes[at])
        nuclei = replace(nuclei, probability=np.arange(len(nuclei))[:: 1 - 2 * sure] / 100)
        away = duplicates_among(nuclei, find_twins(nuclei), np.zeros(len(nuclei), bool), fit[at])
        left = select_instances(nuclei, ~away)
        kept.append(
            sorted((mask.tobytes(), number) for mask, number in zip(masks_of(left), left.class_id, strict=True))
        )
    assert kept[0] == kept[1] == kept[2]


# --- what they do -----------------------------------------------------------------------------------------------------

APART = ((5, 5), (5, 30), (30, 5), (30, 30), (45, 50))


def test_nuclei_without_twins_cost_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("compared")

    monkeypatch.setattr("nuclei_metrics.matching.table.overlap_table", refuse)
    assert [len(side) for side in find_twins(squares(*APART))] == [0, 0]
    with pytest.raises(AssertionError, match="compared"):
        find_twins(squares((5, 5), (12, 12)))
