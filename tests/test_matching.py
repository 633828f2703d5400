"""Matching of nuclei, by overlap and by centroids."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import best_pairing, centroid_pixel, images, instances_of, iou, masks_of, pairs_of_images, points_of
from scipy.optimize import linear_sum_assignment

from evaluation.findings.errors import TooManyPairs
from evaluation.instances.labels import instances_from_labels
from evaluation.matching import match_iou_above, overlap_table, rules
from evaluation.matching import table as table_module
from evaluation.matching.rules import (
    match_best_iou_centroid_inside,
    match_centroid_assignment,
    match_centroid_closest_first,
    match_confidence_first,
)
from evaluation.model import Instances, LabelMaps, arrays
from evaluation.scoring.from_arrays import count_label_maps


def dense_table(reference: np.ndarray, prediction: np.ndarray) -> dict[tuple[int, int], int]:
    return {
        (i, j): int((r & p).sum()) for i, r in enumerate(reference) for j, p in enumerate(prediction) if (r & p).any()
    }


@given(pairs_of_images(overlap=True))
def test_overlap_table_equals_dense_masks(pair):
    (reference, classes), (prediction, prediction_classes) = pair
    table = overlap_table(instances_of(reference, classes), instances_of(prediction, prediction_classes))
    found = dict(
        zip(zip(table.reference_index, table.prediction_index, strict=True), table.intersection_px, strict=True)
    )
    assert found == dense_table(reference, prediction)
    assert table.reference_area_px.tolist() == [mask.sum() for mask in reference]
    assert list(zip(table.reference_index, table.prediction_index, strict=True)) == sorted(found)


@given(pairs_of_images(overlap=True, most=8), st.sampled_from([1, 3, 1 << 20]), st.sampled_from([1, 4, 1 << 18]))
def test_the_table_is_the_same_in_small_steps(pair, pieces, runs):
    """With bands of one row and sums of one piece each."""
    (reference, classes), (prediction, prediction_classes) = pair
    sides = instances_of(reference, classes), instances_of(prediction, prediction_classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "PIECES_AT_ONCE", pieces)
        patch.setattr(arrays, "RUNS_AT_ONCE", runs)
        table = overlap_table(*sides)
    pairs = zip(table.reference_index.tolist(), table.prediction_index.tolist(), strict=True)
    assert dict(zip(pairs, table.intersection_px.tolist(), strict=True)) == dense_table(reference, prediction)


def shared_rows(reference: np.ndarray, prediction: np.ndarray) -> int:
    """Pairs of runs that share a pixel, one by one."""
    sides = [instances_of(masks, [1] * len(masks)) for masks in (reference, prediction)]
    runs = [list(zip(side.run_start.tolist(), side.run_stop.tolist(), strict=True)) for side in sides]
    return sum(a < d and c < b for a, b in runs[0] for c, d in runs[1])


@given(pairs_of_images(overlap=True, most=8))
def test_shared_rows_are_counted_without_looking_at_them(pair):
    (reference, classes), (prediction, prediction_classes) = pair
    sides = instances_of(reference, classes), instances_of(prediction, prediction_classes)
    assert table_module.count_shared_rows(*sides) == shared_rows(reference, prediction)


def stack(number: int, height: int = 2) -> Instances:
    """So many nuclei of ``height`` rows on the same pixels."""
    return instances_of(np.ones((number, height, 3), bool), [1] * number)


def test_more_shared_rows_than_allowed_are_refused_before_they_are_looked_at():
    """Four nuclei on five, of two rows each: 40 shared rows where 18 runs are free."""
    overlap_table(stack(4), stack(5), most=22)
    with pytest.raises(TooManyPairs, match=r"^40 rows of pixels in a nucleus of either side; at most 39$") as caught:
        overlap_table(stack(4), stack(5), most=21)
    assert not caught.value.by_reference  # 32 shared rows with itself, of which 16 are free


def test_a_reference_that_leaves_no_room_is_to_blame():
    with pytest.raises(TooManyPairs) as caught:
        overlap_table(stack(5), stack(5), most=29)
    assert caught.value.by_reference


def test_sides_without_overlaps_have_no_limit():
    single = instances_of(np.eye(4, dtype=bool)[:, None], [1] * 4)
    assert len(overlap_table(single, single, most=0).intersection_px) == 4


@given(pairs_of_images(overlap=True, most=4), st.sampled_from([0.0, 0.2, 0.5, 0.55, 0.75]), st.booleans())
def test_iou_above_takes_the_best_of_all_assignments(pair, threshold, class_aware):
    (reference, classes), (prediction, prediction_classes) = pair
    left, right = instances_of(reference, classes), instances_of(prediction, prediction_classes)
    matches = match_iou_above(overlap_table(left, right), left, right, threshold=threshold, class_aware=class_aware)
    pairs = list(zip(matches.reference_index, matches.prediction_index, strict=True))
    assert len({r for r, _ in pairs}) == len({p for _, p in pairs}) == len(pairs)
    values = [iou(reference[r], prediction[p]) for r, p in pairs]
    assert all(value > threshold for value in values)
    if class_aware:
        assert all(classes[r] == prediction_classes[p] for r, p in pairs)
    best = best_pairing(
        reference, prediction, threshold, lambda r, p: not class_aware or classes[r] == prediction_classes[p]
    )
    assert (len(pairs), pytest.approx(sum(values), abs=1e-12)) == best


@pytest.mark.parametrize(("predicted", "matched"), [(2, 0), (3, 1)])
def test_iou_of_exactly_one_half_is_no_match(predicted, matched):
    reference = instances_from_labels(np.array([[1, 1, 1, 1, 0]]))
    prediction = instances_from_labels(np.array([[1] * predicted + [0] * (5 - predicted)]))
    table = overlap_table(reference, prediction)
    assert len(match_iou_above(table, reference, prediction, threshold=0.5, class_aware=False)) == matched


@given(pairs_of_images(overlap=True, most=4), st.booleans())
def test_best_iou_centroid_inside_equals_its_definition(pair, class_aware):
    (reference, classes), (prediction, prediction_classes) = pair
    left, right = instances_of(reference, classes), instances_of(prediction, prediction_classes)
    matches = match_best_iou_centroid_inside(overlap_table(left, right), left, right, class_aware=class_aware)
    found = set(zip(matches.reference_index.tolist(), matches.prediction_index.tolist(), strict=True))

    def position(mask, of_class):
        pixels = np.flatnonzero(mask).tolist()
        return pixels[0], len(pixels), pixels, of_class

    accepted = []
    for r, mask in enumerate(reference):
        candidates = [
            (-iou(mask, other), position(other, prediction_classes[p]), p)
            for p, other in enumerate(prediction)
            if (mask & other).any() and (not class_aware or classes[r] == prediction_classes[p])
        ]
        if candidates:
            value, _, p = min(candidates)
            if mask[centroid_pixel(prediction[p])]:
                accepted.append((value, position(mask, classes[r]), r, p))
    expected = {}
    for _, _, r, p in sorted(accepted):
        expected.setdefault(p, r)
    assert found == {(r, p) for p, r in expected.items()}


@given(images(overlap=True))
def test_centroid_pixels_are_those_of_the_masks(side):
    instances = instances_of(*side)
    assert instances.centroid_pixels_yx().tolist() == [list(centroid_pixel(mask)) for mask in side[0]]


def test_images_of_different_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(3, 2\)"):
        overlap_table(instances_from_labels(np.ones((2, 3), int)), instances_from_labels(np.ones((3, 2), int)))


@given(images(overlap=False, most=8), st.sampled_from([np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]))
def test_label_maps_become_the_same_masks(side, dtype):
    masks, _ = side
    labels = np.zeros(masks.shape[1:], dtype)
    for index, mask in enumerate(masks):
        labels[mask] = 100 - 7 * index
    instances = instances_from_labels(labels)
    assert instances.source_id.tolist() == sorted(100 - 7 * i for i in range(len(masks)))
    assert np.array_equal(masks_of(instances), masks[::-1])


def test_huge_labels_need_no_huge_table():
    labels = np.array([[0, 2**62, 2**62], [5, 0, 2**31 + 3]])
    instances = instances_from_labels(labels)
    assert instances.source_id.tolist() == [5, 2**31 + 3, 2**62]
    assert instances.areas_px().tolist() == [1, 1, 2]


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_does_not_matter(order):
    labels = np.array([[1, 1, 0, 2], [0, 1, 2, 2]], order=order)
    assert instances_from_labels(labels).run_start.tolist() == [0, 3, 5, 6]


def test_a_run_never_crosses_the_end_of_a_row():
    instances = instances_from_labels(np.ones((4, 3), np.int32))
    assert instances.run_start.tolist() == [0, 3, 6, 9]
    assert instances.run_stop.tolist() == [3, 6, 9, 12]


def test_blocks_of_the_pass_leave_no_trace():
    rng = np.random.default_rng(3)
    labels = np.repeat(rng.integers(0, 3, 90_000), 7).reshape(700, 900)
    instances = instances_from_labels(labels)
    assert isinstance(instances, Instances)
    for label, area in zip(instances.source_id, instances.areas_px(), strict=True):
        assert area == (labels == label).sum()


@given(pairs_of_images(overlap=False, most=8), st.sampled_from([1, 1 << 17]), st.sampled_from([3, 1 << 24]))
def test_one_pass_over_two_label_maps_equals_runs_and_table(pair, block, factor):
    (reference, _), (prediction, _) = pair
    pictures = []
    for masks in (reference, prediction):
        labels = np.zeros(masks.shape[1:], np.int64)
        for index, mask in enumerate(masks):
            labels[mask] = factor * (len(masks) - index)
        pictures.append(labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "BLOCK_PX", block)
        found = table_module.compare_label_maps(*pictures, with_runs=True)
    sides = [instances_from_labels(labels) for labels in pictures]
    if factor > 3 and any(len(side) for side in sides):
        assert found is None  # labels do not fit the packing
        return
    expected = overlap_table(*sides)
    assert found is not None
    for name in ("reference_index", "prediction_index", "intersection_px", "reference_area_px", "prediction_area_px"):
        assert getattr(found.table, name).tolist() == getattr(expected, name).tolist()
    for side, ids, runs in zip(
        sides, (found.reference_ids, found.prediction_ids), (found.reference_runs, found.prediction_runs), strict=True
    ):
        assert ids.tolist() == side.source_id.tolist()
        assert runs is not None
        expected_runs = (side.run_start, side.run_stop, side.run_instance)
        assert [part.tolist() for part in runs] == [part.tolist() for part in expected_runs]


def test_rows_that_are_too_long_for_the_packing_go_the_general_way():
    labels = np.ones((1, 40_000), np.int32)
    assert table_module.compare_label_maps(labels, labels, with_runs=False) is None
    maps = LabelMaps(labels, labels, np.array([1]), np.array([1]))
    assert count_label_maps([maps])[0].measures["iou"].tolist() == [1.0]


# --- matching by the distance of centroids: against slow literal versions, by hand, and on the points of a real s -----


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
        patch.setattr(rules, "DENSE_ENTRIES", dense)
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
    monkeypatch.setattr(rules, "DENSE_ENTRIES", dense)
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
