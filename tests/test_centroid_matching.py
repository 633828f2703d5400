"""Matching by the distance of centroids: against slow literal versions, by hand, and on the points of a real slide."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import images, instances_of, points_of
from scipy.optimize import linear_sum_assignment

from evaluation.instances.labels import instances_from_labels
from evaluation.matching import (
    assignment,
    match_centroid_assignment,
    match_centroid_closest_first,
    match_confidence_first,
    rules,
)

RULES = [match_centroid_closest_first, match_centroid_assignment]
BOTH_RULES = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)


def pairs_of(matches) -> list[tuple[int, int]]:
    return list(zip(matches.reference_index.tolist(), matches.prediction_index.tolist(), strict=True))


# Few places, so that points coincide and distances are equal, in halves, so that all is exact.
places = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda place: (place[0] / 2, place[1] / 2))
nuclei = st.lists(st.tuples(places, st.integers(1, 2)), max_size=7)
radii = st.sampled_from([0, 0.5, 1, 2.5, 30])


def closest_first(reference, prediction, radius, class_aware) -> list[tuple[int, int]]:
    """The definition: look for the closest pair of all that are left, again and again."""
    left, right, pairs = dict(enumerate(reference)), dict(enumerate(prediction)), []
    while True:
        candidates = [
            ((py - qy) ** 2 + (px - qx) ** 2, (py, px, c), (qy, qx, d), i, j)
            for i, ((py, px), c) in left.items()
            for j, ((qy, qx), d) in right.items()
            if (py - qy) ** 2 + (px - qx) ** 2 <= radius**2 and (c == d or not class_aware)
        ]
        if not candidates:
            return sorted(pairs)
        *_, i, j = min(candidates)
        pairs.append((i, j))
        del left[i], right[j]


def split(side):
    return points_of([place for place, _ in side], [c for _, c in side])


@given(nuclei, nuclei, radii, st.booleans(), st.sampled_from([1, 1 << 21]))
def test_closest_first_equals_its_definition(reference, prediction, radius, class_aware, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "CLOSE_PAIRS_AT_ONCE", at_once)
        matches = match_centroid_closest_first(
            split(reference), split(prediction), radius_px=radius, class_aware=class_aware
        )
    assert pairs_of(matches) == closest_first(reference, prediction, radius, class_aware)


def best_assignment(reference, prediction, radius, class_aware) -> tuple[int, float]:
    """The most pairs and their least total distance, by trying everything."""
    if len(reference) > len(prediction):
        reference, prediction = prediction, reference
    cost = [
        [np.hypot(py - qy, px - qx) if c == d or not class_aware else np.inf for (qy, qx), d in prediction]
        for (py, px), c in reference
    ]
    best = (0, 0.0)
    for chosen in permutations(range(len(prediction)), len(reference)):
        found = [cost[i][j] for i, j in enumerate(chosen) if cost[i][j] <= radius]
        best = max(best, (len(found), -sum(found)))
    return best[0], -best[1]


few_nuclei = st.lists(st.tuples(places, st.integers(1, 2)), max_size=5)


@given(few_nuclei, few_nuclei, radii, st.booleans(), st.sampled_from([0, 1 << 14]), st.sampled_from([1, 1 << 21]))
def test_assignment_is_the_best_of_all(reference, prediction, radius, class_aware, dense, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "DENSE_ENTRIES", dense)
        patch.setattr(rules, "CLOSE_PAIRS_AT_ONCE", at_once)
        matches = match_centroid_assignment(
            split(reference), split(prediction), radius_px=radius, class_aware=class_aware
        )
    pairs = pairs_of(matches)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    length = [np.hypot(*np.subtract(reference[i][0], prediction[j][0])) for i, j in pairs]
    assert all(value <= radius for value in length)
    assert not class_aware or all(reference[i][1] == prediction[j][1] for i, j in pairs)
    assert (len(pairs), pytest.approx(sum(length))) == best_assignment(reference, prediction, radius, class_aware)


def crowds(seed: int, references: int, predictions: int):
    rng = np.random.default_rng(seed)
    return [points_of(rng.uniform(0, 100, (n, 2)), rng.integers(1, 3, n)) for n in (references, predictions)]


@pytest.mark.parametrize("radius", [2, 6, 25, 200])
@pytest.mark.parametrize("dense", [0, 1 << 14])
def test_assignment_of_a_crowd_costs_what_scipy_says(radius, dense, monkeypatch):
    monkeypatch.setattr(assignment, "DENSE_ENTRIES", dense)
    reference, prediction = crowds(1, 150, 130)
    matches = match_centroid_assignment(reference, prediction, radius_px=radius, class_aware=False)
    length = np.hypot(*(reference.point_yx[:, None] - prediction.point_yx).transpose(2, 0, 1))
    penalised = np.where(length <= radius, length, 1e6)
    best = penalised[linear_sum_assignment(penalised)]
    found = length[matches.reference_index, matches.prediction_index]
    assert len(found) == (best < 1e6).sum()
    assert found.sum() == pytest.approx(best[best < 1e6].sum())


@pytest.mark.parametrize(("references", "predictions"), [(12, 400), (400, 12)])
@pytest.mark.parametrize("class_aware", [False, True])
@BOTH_RULES
def test_what_is_left_out_to_save_memory_matters_to_no_match(rule, class_aware, references, predictions, monkeypatch):
    sides = crowds(2, references, predictions)
    plain = rule(*sides, radius_px=30, class_aware=class_aware)
    monkeypatch.setattr(rules, "nearest_of_each", lambda i, *_: np.ones(len(i), bool))
    assert pairs_of(plain) == pairs_of(rule(*sides, radius_px=30, class_aware=class_aware))


def test_a_pile_of_predictions_does_not_pile_up_pairs():
    reference, prediction = points_of([(50, 50), (50, 53)]), points_of(np.full((5000, 2), 50.0))
    assert len(rules.close_centroids(reference, prediction, radius_px=5, class_aware=False).reference) == 4


@given(images(overlap=True))
def test_centroids_are_exact_means_of_pixel_centres(side):
    masks, classes = side
    found = instances_of(masks, classes).centroids_yx()
    assert found.shape == (len(masks), 2)
    for mask, centroid in zip(masks, found.tolist(), strict=True):
        means = [Fraction(int(axis.sum()), len(axis)) for axis in np.nonzero(mask)]
        assert centroid == [float(mean) for mean in means]


def test_instances_without_pixels_have_no_centroid_and_match_nothing():
    masks = np.zeros((2, 4, 6), bool)
    masks[1, 1, 2] = True
    instances = instances_of(masks, [1, 1])
    assert np.isnan(instances.centroids_yx()[0]).all()
    for rule in RULES:
        assert pairs_of(rule(instances, instances, radius_px=50, class_aware=False)) == [(1, 1)]


@BOTH_RULES
@pytest.mark.parametrize("radius", [-1, float("inf"), float("nan")])
def test_a_radius_that_is_none_is_refused(rule, radius):
    with pytest.raises(ValueError, match="radius"):
        rule(points_of([(1, 1)]), points_of([(1, 1)]), radius_px=radius, class_aware=False)


def test_assignment_takes_three_pairs_at_the_radius_before_two_that_coincide():
    reference, prediction = points_of([[0, 0], [0, 10], [0, 20]]), points_of([[0, -10], [0, 0], [0, 10]])
    found = match_centroid_assignment(reference, prediction, radius_px=10, class_aware=False)
    assert pairs_of(found) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("rule", [*RULES, partial(match_centroid_assignment, cutoff="after"), match_confidence_first])
def test_where_in_the_image_equally_near_nuclei_lie_does_not_decide(rule):
    """Centroids in thirds of a pixel, 2 px to the left and to the right of another one: floats tell them apart."""
    for x in range(2, 40):
        sides = np.zeros((2, 2, 44), int)
        for side, label, column in [(0, 1, x), (1, 1, x - 2), (1, 2, x + 2)]:
            sides[side, [0, 0, 1], [column, column + 1, column]] = label
        one, two = map(instances_from_labels, sides)
        assert pairs_of(rule(one, two, radius_px=2, class_aware=False)) == [(0, 0)], x
        assert pairs_of(rule(two, one, radius_px=2, class_aware=False)) == [(0, 0)], x


@BOTH_RULES
def test_points_match_outlines_and_share_no_pixels(rule):
    outlined = instances_from_labels(np.array([[0, 4, 4, 4, 0, 0, 0, 9, 9]]))
    pointed = points_of([(0.5, 7.5), (0, 2)])
    matches = rule(outlined, pointed, radius_px=1, class_aware=False)
    assert pairs_of(matches) == [(0, 1), (1, 0)]
    assert matches.intersection_px.tolist() == matches.union_px.tolist() == [0, 0]
