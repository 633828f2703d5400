"""Matching rules: arrays in, pairs out, against slow literal versions and other libraries."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import (
    Candidates,
    best_pairing,
    boundary,
    centroid_pixel,
    images,
    instance_boundaries,
    instances_of,
    literal_closest_first,
    literal_confidence_first,
    pairs_of,
    pairs_of_images,
    points_of,
    position,
)
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from nuclei_metrics import match
from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import match_iou_above, overlap_table, rules
from nuclei_metrics.matching import table as table_module
from nuclei_metrics.matching.rules import (
    best_assignment,
    boundary_boxes,
    match_centroid_assignment,
    match_centroid_closest_first,
    match_confidence_first,
    match_confidence_first_iou,
    match_confidence_first_iou_many,
    match_iou_above_many,
)
from nuclei_metrics.model import Boundaries, Instances, arrays

# --- the overlap table ------------------------------------------------------------------------------------------------


@given(pairs_of_images(overlap=True, most=8), st.sampled_from([1, 3, 1 << 20]), st.sampled_from([1, 4, 1 << 18]))
def test_the_table_is_that_of_dense_masks_however_small_its_steps(pair, pieces, runs):
    """With bands of one row and sums of one piece each, and in one go."""
    (reference, _), (prediction, _) = pair
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "PIECES_AT_ONCE", pieces)
        patch.setattr(arrays, "RUNS_AT_ONCE", runs)
        table = overlap_table(*(instances_of(*side) for side in pair))
    shared = {
        (i, j): int((r & p).sum()) for i, r in enumerate(reference) for j, p in enumerate(prediction) if (r & p).any()
    }
    pairs = list(zip(table.reference_index.tolist(), table.prediction_index.tolist(), strict=True))
    assert pairs == sorted(pairs)
    assert dict(zip(pairs, table.intersection_px.tolist(), strict=True)) == shared
    assert table.reference_area_px.tolist() == [mask.sum() for mask in reference]


@given(pairs_of_images(overlap=True, most=8))
def test_shared_rows_are_counted_without_looking_at_them(pair):
    sides = [instances_of(*side) for side in pair]
    runs = [list(zip(side.run_start.tolist(), side.run_stop.tolist(), strict=True)) for side in sides]
    one_by_one = sum(a < d and c < b for a, b in runs[0] for c, d in runs[1])
    assert table_module.count_shared_rows(*sides) == one_by_one


def test_more_shared_rows_than_allowed_are_refused_before_they_are_looked_at():
    """Five nuclei on each other, of two rows each: 50 shared rows where twice 10 runs are free."""
    five = instances_of(np.ones((5, 2, 3), bool), [1] * 5)
    table_module.refuse_overlaps(five, 30)
    for by_reference in (True, False):
        with pytest.raises(TooManyPairs, match=r"^50 rows of pixels in two nuclei of a side; at most 49$") as caught:
            table_module.refuse_overlaps(five, 29, by_reference=by_reference)
        assert caught.value.by_reference == by_reference
    single = instances_of(np.eye(4, dtype=bool)[:, None], [1] * 4)  # without overlaps there is no limit
    table_module.refuse_overlaps(single, 0)


@given(pairs_of_images(overlap=True, most=8))
def test_where_both_sides_are_bounded_their_shared_rows_are(pair):
    """A pair of runs shares a pixel, and each side has at most its own pairs there: by Cauchy and Schwarz."""
    sides = [instances_of(*side) for side in pair]
    own = [table_module.count_shared_rows(side, side) for side in sides]
    assert table_module.count_shared_rows(*sides) ** 2 <= own[0] * own[1] * max(1, sides[0].shape_yx[1]) ** 2


def test_images_of_different_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(3, 2\)"):
        overlap_table(instances_from_labels(np.ones((2, 3), int)), instances_from_labels(np.ones((3, 2), int)))


@given(pairs_of_images(overlap=False, most=8), st.sampled_from([1, 1 << 17]), st.sampled_from([3, 1 << 24]))
def test_one_pass_over_two_label_maps_gives_the_table_of_their_instances(pair, block, factor):
    pictures = []
    for masks, _ in pair:
        labels = np.zeros(masks.shape[1:], np.int64)
        for index, mask in enumerate(masks):
            labels[mask] = factor * (len(masks) - index)
        pictures.append(labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "BLOCK_PX", block)
        found = table_module.compare_label_maps(*pictures)
    sides = [instances_from_labels(labels) for labels in pictures]
    if factor > 3 and any(len(side) for side in sides):
        assert found is None  # labels do not fit the packing
        return
    expected = overlap_table(*sides)
    assert found is not None
    for name in ("reference_index", "prediction_index", "intersection_px", "reference_area_px", "prediction_area_px"):
        assert getattr(found.table, name).tolist() == getattr(expected, name).tolist()
    ids = found.reference_ids, found.prediction_ids
    assert [of_side.tolist() for of_side in ids] == [side.source_id.tolist() for side in sides]


def test_rows_that_are_too_long_for_the_packing_go_the_general_way():
    labels = np.ones((1, 40_000), np.int32)
    assert table_module.compare_label_maps(labels, labels) is None
    assert match(labels, labels).iou.tolist() == [1.0]


def with_probability(instances: Instances, probability) -> Instances:
    return replace(instances, probability=np.array(probability, np.float64))


@given(
    images(overlap=True, most=8, largest=4, classes=2), st.lists(st.sampled_from([0.5, 1.0]), min_size=8, max_size=8)
)
def test_positions_are_ordered_as_they_are_said_to_be(side, probability):
    masks, classes = side
    instances = with_probability(instances_of(masks, classes), probability[: len(masks)])
    in_order = sorted(range(len(masks)), key=lambda i: (*position(masks[i]), classes[i], -probability[i]))
    assert instances.position_order().tolist() == in_order


def test_points_are_ordered_by_y_x_class_and_probabilities():
    points = points_of([(2, 1), (1, 9), (1, 3), (1, 3), (1, 3)], [1, 1, 2, 1, 1], [0.5, 0.5, 0.9, 0.2, 0.7])
    assert points.position_order().tolist() == [4, 3, 2, 1, 0]
    of_classes = np.array([[0.2, 0.3], [0.5, 0.1], [0.2, 0.4]], np.float64)
    equal = replace(points_of([(1, 1)] * 3), class_probability=of_classes)
    assert equal.position_order().tolist() == [1, 2, 0]


@given(pairs_of_images(overlap=True, most=4), st.booleans())
def test_many_thresholds_give_what_each_gives(pair, class_aware):
    left, right = (instances_of(*side) for side in pair)
    table = overlap_table(left, right)
    thresholds = [0.75, 0.05, 0.5, 0.2]
    for one, many in (
        (match_iou_above, match_iou_above_many),
        (match_confidence_first_iou, match_confidence_first_iou_many),
    ):
        found = many(table, left, right, thresholds, class_aware=class_aware)
        singles = [one(table, left, right, threshold=t, class_aware=class_aware) for t in thresholds]
        assert [pairs_of(matches) for matches in found] == [pairs_of(matches) for matches in singles]
        assert many(table, left, right, [], class_aware=class_aware) == []


@pytest.mark.parametrize("most_pairs", [False, True])
@pytest.mark.parametrize(("lefts", "rights", "density"), [(40, 60, 0.1), (60, 40, 0.1), (25, 25, 1.0), (80, 80, 0.02)])
def test_an_assignment_is_optimal_with_and_without_a_table_of_all_pairs(
    lefts, rights, density, most_pairs, monkeypatch
):
    rng = np.random.default_rng(lefts + rights)
    value = np.where(rng.random((lefts, rights)) < density, 0.01 + rng.random((lefts, rights)), 0)
    left, right = np.nonzero(value)
    best_rows, best_columns = linear_sum_assignment(value + 1000 * (value > 0) * most_pairs, maximize=True)
    used = value[best_rows, best_columns] > 0
    for entries, share in ((0, 0), (1 << 14, 4)):
        monkeypatch.setattr(rules, "DENSE_ENTRIES", entries)
        monkeypatch.setattr(rules, "DENSE_SHARE", share)
        shuffled = rng.permutation(len(left))
        kept = best_assignment(left[shuffled], right[shuffled], value[left, right][shuffled], most_pairs=most_pairs)
        found = zip(left[shuffled][kept].tolist(), right[shuffled][kept].tolist(), strict=True)
        assert sorted(found) == list(zip(best_rows[used].tolist(), best_columns[used].tolist(), strict=True))


def test_of_equal_pairs_that_share_a_nucleus_the_first_is_kept():
    ends = np.array([4, 4, 4]), np.array([9, 2, 5])
    for sides in (ends, ends[::-1]):
        assert best_assignment(*sides, np.array([0.5, 0.5, 0.5]), most_pairs=True).tolist() == [False, True, False]
        assert best_assignment(*sides, np.array([0.5, 0.5, 0.75]), most_pairs=True).tolist() == [False, False, True]


def test_what_lies_elsewhere_decides_no_tie():
    square, value = (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])), np.full(4, 0.5)
    alone = best_assignment(*square, value, most_pairs=False)
    both = [np.concatenate([side, side + 2]) for side in square]
    beside = best_assignment(*both, np.concatenate([value, [0.1, 0.9, 0.9, 0.1]]), most_pairs=False)
    assert beside.tolist() == [*alone.tolist(), False, True, True, False]


# --- rules of distance ------------------------------------------------------------------------------------------------

# Few places, so that points coincide and distances are equal, in halves, so that all is exact.
places = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda place: (place[0] / 2, place[1] / 2))
radii = st.sampled_from([0, 0.5, 1, 2.5, 30])


def spots(most: int):
    """Places, classes and probabilities."""
    return st.lists(st.tuples(places, st.integers(1, 2), st.sampled_from([0.25, 0.5, 1.0])), max_size=most)


def points_at(side, told=True) -> Instances:
    points = [place for place, *_ in side], [c for _, c, _ in side]
    return points_of(*points, [p for *_, p in side] if told else None)


def squares_between(reference, prediction, radius, class_aware) -> Candidates:
    """The squared distance of each pair that may match."""
    every = {
        (i, j): (y - v) ** 2 + (x - u) ** 2
        for (i, ((y, x), c, _)), (j, ((v, u), d, _)) in product(enumerate(reference), enumerate(prediction))
        if c == d or not class_aware
    }
    return {pair: square for pair, square in every.items() if square <= radius**2}


@given(spots(7), spots(7), radii, st.booleans(), st.booleans(), st.sampled_from([1, 1 << 21]))
def test_closest_first_and_confidence_first_equal_their_definitions(
    reference, prediction, radius, class_aware, told, at_once
):
    """Points of the same place, class and probability are the same."""
    candidates = squares_between(reference, prediction, radius, class_aware)
    left = [nucleus[:2] for nucleus in reference]
    right = [(place, c, -p * told) for place, c, p in prediction]
    surest = sorted(range(len(right)), key=lambda j: (right[j][2], right[j]))
    for rule, expected in (
        (match_centroid_closest_first, literal_closest_first(candidates, left, right)),
        (match_confidence_first, literal_confidence_first(candidates, left, surest)),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rules, "CLOSE_PAIRS_AT_ONCE", at_once)
            sides = points_at(reference, told=False), points_at(prediction, told)
            found = pairs_of(rule(*sides, radius_px=radius, class_aware=class_aware))
        same = [sorted((left[i], right[j]) for i, j in pairs) for pairs in (found, expected)]
        assert same[0] == same[1], rule.__name__


def test_the_most_confident_prediction_chooses_first_and_takes_what_is_nearest_to_it():
    left = points_of([(0, 2), (0, 4)])
    right = points_of([(0, 0), (0, 1)], probability=[0.9, 0.8])  # the second one is nearer to the only one near both
    assert pairs_of(match_confidence_first(left, right, radius_px=2, class_aware=False)) == [(0, 0)]
    assert pairs_of(match_confidence_first(left, right, radius_px=4, class_aware=False)) == [(0, 0), (1, 1)]


@given(spots(5), spots(5), radii, st.booleans(), st.sampled_from([0, 1 << 14]), st.sampled_from([1, 1 << 21]))
def test_assignment_is_the_best_of_all(reference, prediction, radius, class_aware, dense, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "DENSE_ENTRIES", dense)
        patch.setattr(rules, "CLOSE_PAIRS_AT_ONCE", at_once)
        sides = points_at(reference), points_at(prediction)
        pairs = pairs_of(match_centroid_assignment(*sides, radius_px=radius, class_aware=class_aware))
    value = np.full((len(reference), len(prediction)), -np.inf)
    for pair, square in squares_between(reference, prediction, radius, class_aware).items():
        value[pair] = -math.sqrt(square)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert (len(pairs), pytest.approx(sum(value[at] for at in pairs))) == best_pairing(value)


def optimal_assignments(distance: np.ndarray) -> list[list[tuple[int, int]]]:
    """All assignments that use up the smaller side, whatever the distance, with the least total, by trying all."""
    if distance.shape[0] > distance.shape[1]:
        return [[(i, j) for j, i in pairs] for pairs in optimal_assignments(distance.T)]
    tried = [list(enumerate(chosen)) for chosen in permutations(range(distance.shape[1]), distance.shape[0])]
    totals = [sum(distance[pair] for pair in pairs) for pairs in tried]
    return [pairs for pairs, total in zip(tried, totals, strict=True) if total <= min(totals) + 1e-9]


@given(spots(5), spots(5), radii, st.booleans())
def test_an_assignment_cut_off_afterwards_is_one_of_all_nuclei_without_its_far_pairs(
    reference, prediction, radius, class_aware
):
    sides = points_at(reference), points_at(prediction)
    matches = match_centroid_assignment(*sides, radius_px=radius, class_aware=class_aware, cutoff="after")
    distance = np.hypot(*(sides[0].point_yx[:, None] - sides[1].point_yx).transpose(2, 0, 1))
    expected = {frozenset()}
    for class_id in (1, 2) if class_aware else (None,):
        rows_, columns = (
            [k for k, (_, c, _) in enumerate(s) if class_id in (None, c)] for s in (reference, prediction)
        )
        found = {
            frozenset((rows_[i], columns[j]) for i, j in pairs if distance[rows_[i], columns[j]] <= radius)
            for pairs in optimal_assignments(distance[np.ix_(rows_, columns)])
        }
        expected = {one | other for one, other in product(expected, found)}
    assert frozenset(pairs_of(matches)) in expected


def random_points(seed: int, references: int, predictions: int) -> tuple[list[Instances], np.ndarray]:
    """Both sides, and the distance of all to all."""
    rng = np.random.default_rng(seed)
    sides = [points_of(rng.uniform(0, 100, (n, 2)), rng.integers(1, 3, n)) for n in (references, predictions)]
    return sides, np.hypot(*(sides[0].point_yx[:, None] - sides[1].point_yx).transpose(2, 0, 1))


def test_assignment_of_a_crowd_costs_what_scipy_says(monkeypatch):
    sides, length = random_points(1, 150, 130)
    for dense, radius in product((0, 1 << 14), (2, 6, 25, 200)):
        monkeypatch.setattr(rules, "DENSE_ENTRIES", dense)
        matches = match_centroid_assignment(*sides, radius_px=radius, class_aware=False)
        penalised = np.where(length <= radius, length, 1e6)
        best = penalised[linear_sum_assignment(penalised)]
        found = length[matches.reference_index, matches.prediction_index]
        assert len(found) == (best < 1e6).sum()
        assert found.sum() == pytest.approx(best[best < 1e6].sum())


@pytest.mark.parametrize(("references", "predictions"), [(150, 130), (130, 150), (140, 140)])
def test_a_crowd_cut_off_afterwards_has_the_pairs_that_scipy_finds(references, predictions):
    sides, distance = random_points(references, references, predictions)
    everybody = [np.arange(len(side)) for side in sides]
    of_classes = [[np.flatnonzero(side.class_id == class_id) for side in sides] for class_id in (1, 2)]
    for radius, parts in ((2.0, [everybody]), (6.0, [everybody]), (25.0, [everybody]), (6, of_classes)):
        expected = []
        for i, j in parts:
            chosen = linear_sum_assignment(distance[np.ix_(i, j)])
            pairs = zip(i[chosen[0]].tolist(), j[chosen[1]].tolist(), strict=True)
            expected += [pair for pair in pairs if distance[pair] <= radius]
        found = match_centroid_assignment(*sides, radius_px=radius, class_aware=len(parts) > 1, cutoff="after")
        assert pairs_of(found) == sorted(expected)


def test_assignment_takes_three_pairs_at_the_radius_before_two_that_coincide():
    reference, prediction = points_of([[0, 0], [0, 10], [0, 20]]), points_of([[0, -10], [0, 0], [0, 10]])
    found = match_centroid_assignment(reference, prediction, radius_px=10, class_aware=False)
    assert pairs_of(found) == [(0, 0), (1, 1), (2, 2)]


def test_what_is_left_out_to_save_memory_matters_to_no_match(monkeypatch):
    plain = {}
    for is_bare in (False, True):
        if is_bare:
            monkeypatch.setattr(rules, "nearest_of_each", lambda i, *_: np.ones(len(i), bool))
        for rule, aware, counts in product(
            (match_centroid_closest_first, match_centroid_assignment), (False, True), ((12, 400), (400, 12))
        ):
            found = pairs_of(rule(*random_points(2, *counts)[0], radius_px=30, class_aware=aware))
            assert plain.setdefault((rule, aware, counts), found) == found
            assert found


def test_a_pile_of_predictions_does_not_pile_up_pairs():
    reference, prediction = points_of([(50, 50), (50, 53)]), points_of(np.full((5000, 2), 50.0))
    assert len(rules.close_centroids(reference, prediction, radius_px=5, class_aware=False).reference) == 4


@given(images(overlap=True))
def test_centroids_are_exact_means_of_pixel_centres_and_lie_in_a_pixel(side):
    masks, classes = side
    instances = instances_of(masks, classes)
    means = [[float(Fraction(int(axis.sum()), len(axis))) for axis in np.nonzero(mask)] for mask in masks]
    assert instances.centroids_yx().tolist() == means
    assert instances.centroids_yx().shape == (len(masks), 2)
    assert instances.centroid_pixels_yx().tolist() == [list(centroid_pixel(mask)) for mask in masks]


def test_instances_without_pixels_have_no_centroid_and_match_nothing():
    masks = np.zeros((2, 4, 6), bool)
    masks[1, 1, 2] = True
    instances = instances_of(masks, [1, 1])
    assert np.isnan(instances.centroids_yx()[0]).all()
    for rule in (match_centroid_closest_first, match_centroid_assignment):
        assert pairs_of(rule(instances, instances, radius_px=50, class_aware=False)) == [(1, 1)]


def test_a_radius_that_is_none_is_refused():
    point = points_of([(1, 1)])
    for radius in (-1, math.inf, math.nan):
        for rule in (match_centroid_closest_first, match_centroid_assignment, match_confidence_first):
            with pytest.raises(ValueError, match="radius"):
                rule(point, point, radius_px=radius, class_aware=False)
        with pytest.raises(ValueError, match="radius"):
            match_centroid_assignment(point, point, radius_px=radius, class_aware=False, cutoff="after")


def test_points_match_outlines_and_share_no_pixels():
    outlined = instances_from_labels(np.array([[0, 4, 4, 4, 0, 0, 0, 9, 9]]))
    for rule in (match_centroid_closest_first, match_centroid_assignment):
        matches = rule(outlined, points_of([(0.5, 7.5), (0, 2)]), radius_px=1, class_aware=False)
        assert pairs_of(matches) == [(0, 1), (1, 0)]
        assert matches.intersection_px.tolist() == matches.union_px.tolist() == [0, 0]


def boundary_points(mask: np.ndarray, border: str) -> np.ndarray:
    """Under ``open`` a nucleus that fills its image has the border of the image."""
    found = boundary(mask, border)
    if not found.any():
        found = mask.copy()
        found[1:-1, 1:-1] = False
    return found


@given(images(overlap=True, most=6), st.sampled_from(["open", "closed"]))
def test_boxes_of_boundaries_are_those_of_their_points(side, border):
    masks, classes = side
    boundaries = instance_boundaries(instances_of(masks, classes), np.arange(len(masks)), border=border)
    points = [np.argwhere(boundary_points(mask, border)) for mask in masks]
    assert boundary_boxes(boundaries).tolist() == [[*p.min(axis=0), *p.max(axis=0)] for p in points]


def test_an_empty_boundary_has_no_box():
    boundaries = Boundaries(np.array([[3, 4], [5, 5]], np.int32), np.array([0, 0, 0]), np.array([2, 0, 2]))
    assert boundary_boxes(boundaries).tolist() == [[3, 5, 4, 5], [-1, -1, -1, -1], [3, 5, 4, 5]]


# --- too many pairs ---------------------------------------------------------------------------------------------------


def test_an_assignment_of_all_to_all_bounds_each_side_by_itself(monkeypatch):
    """And each class, whether the other side has it or not."""
    monkeypatch.setattr(rules, "MOST_OF_REFERENCE", 3)
    monkeypatch.setattr(rules, "MOST_OF_PREDICTION", 4)
    sides = [points_of([(y, 0) for y in range(number)], classes) for number, classes in (
        (3, [1, 1, 1]), (4, [1, 1, 2, 2]), (4, [2, 2, 2, 2]), (5, [1, 1, 2, 2, 2]), (0, []),
    )]  # fmt: skip

    def ending(reference: int, prediction: int, *, class_aware: bool) -> str:
        try:
            match_centroid_assignment(
                sides[reference], sides[prediction], radius_px=9, class_aware=class_aware, cutoff="after"
            )
        except TooManyPairs as error:
            return f"{error.by_reference}: {error}"
        return ""

    what = "nuclei in an assignment of all to all"
    assert [ending(0, other, class_aware=False) for other in range(5)] == [
        "", "", "", f"False: 5 {what}; at most 4", ""
    ]  # fmt: skip
    assert {ending(1, other, class_aware=False) for other in range(5)} == {f"True: 4 {what}; at most 3"}
    assert {ending(1, other, class_aware=True) for other in range(5)} == {""}
    of_class = "nuclei of a class in an assignment of all to all"
    assert {ending(2, other, class_aware=True) for other in range(5)} == {f"True: 4 {of_class}; at most 3"}


def test_a_reference_with_too_many_neighbours_is_refused_whatever_is_predicted(monkeypatch):
    near, far = points_of([(y, 0) for y in range(40)]), points_of([(y, 0) for y in range(40, 90)])

    def pairs(*sides: Instances) -> int:
        return len(match_centroid_assignment(*sides, radius_px=99, class_aware=False))

    monkeypatch.setattr(rules, "MOST_NEIGHBOURS", 40)
    assert pairs(near, far) == 40
    nothing = points_of([])
    for prediction in (near, far, nothing):
        with pytest.raises(TooManyPairs, match=r"^50 nuclei within twice the radius of one; at most 40$") as caught:
            pairs(far, prediction)
        assert caught.value.by_reference


@given(st.integers(0, 3), st.floats(0.5, 40))
def test_where_both_sides_are_no_crowds_their_close_pairs_are_bounded(seed, reach):
    """At most 9 times the square root of the pairs of one side times those of the other."""
    random = np.random.default_rng(seed)
    sides = [random.normal(20, 30 * random.random(), (int(random.integers(1, 400)), 2)) for _ in range(2)]
    trees = [cKDTree(side) for side in sides]
    crowds = [rules._pairs_in_cells(side, reach) for side in sides]
    assert trees[0].count_neighbors(trees[1], reach) <= 9 * math.sqrt(crowds[0] * crowds[1])
