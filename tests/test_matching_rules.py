"""What holds for every matching rule, and each new rule against a slow literal version or other people's code."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from every_format import small_document
from hypothesis import given, settings
from hypothesis import strategies as st
from literal import (
    boundary,
    directed_distances,
    images,
    instance_boundaries,
    instances_of,
    iou,
    pairs_of_images,
    points_of,
)
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from scipy.optimize import linear_sum_assignment

from benchmarks.label_maps import draw_label_maps
from benchmarks.synthesis import Mistakes, seeded
from evaluation.challenge import MATCHING_RULES, Challenge
from evaluation.challenge.matching_rules import Sides
from evaluation.findings.errors import ChallengeBroken, InputFault, TooManyPairs
from evaluation.instances.labels import instances_from_labels
from evaluation.matching import match_iou_above, overlap_table
from evaluation.matching import rules as matching_rules
from evaluation.matching.rules import (
    best_assignment,
    boundary_boxes,
    match_best_iou_any_overlap,
    match_centroid_assignment,
    match_confidence_first,
    match_confidence_first_iou,
    match_confidence_first_iou_many,
    match_iou_above_many,
    match_iou_assignment,
)
from evaluation.model import Boundaries, Case, Instances, Matches
from evaluation.scoring.match import match

# Parameters of each rule: a rule that is missing here fails the first test.
PARAMETERS = {
    "iou_above": [{"threshold": 0.1}, {"threshold": 0.5}],
    "iou_assignment": [{"threshold": 0.0}, {"threshold": 0.4}],
    "best_iou_centroid_inside": [{}],
    "best_iou_any_overlap": [{}],
    "centroid_closest_first": [{"radius_px": 2.5}],
    "centroid_assignment": [{"radius_px": 2.5, "cutoff": "before"}, {"radius_px": 2.5, "cutoff": "after"}],
    "hausdorff_closest_first": [{"radius_px": 3.0}],
    "confidence_first": [{"radius_px": 2.5}, {"threshold": 0.3}],
}
RULES = [(name, parameters) for name, choices in PARAMETERS.items() for parameters in choices]
EVERY_RULE = pytest.mark.parametrize(
    "rule, parameters", RULES, ids=["-".join(map(str, (name, *keys.values()))) for name, keys in RULES]
)
SYMMETRIC = [(name, keys) for name, keys in RULES if not name.startswith(("best_iou", "confidence"))]


def apply(rule, parameters, reference, prediction, *, class_aware=False, spacing_um=None, border="open") -> Matches:
    """A rule as the program applies it, from the words of challenge.toml."""
    rules = MATCHING_RULES[rule](rule=rule, name="a", class_aware=class_aware, ties="first_pixel", **parameters)
    case = Case("a", "P1", *reference.shape_yx, spacing_um=spacing_um)
    return match(rules, Sides(case, overlap_table(reference, prediction), reference, prediction, border))


def pairs_of(matches: Matches) -> list[tuple[int, int]]:
    return list(zip(matches.reference_index.tolist(), matches.prediction_index.tolist(), strict=True))


def with_probability(instances: Instances, probability) -> Instances:
    return replace(instances, probability=np.array(probability, np.float64))


# Few values, so that predictions are equally probable.
some_probabilities = st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=5, max_size=5)


# --- what holds for every rule --------------------------------------------------------------------------------------


def test_every_rule_is_tested_here():
    assert set(PARAMETERS) == set(MATCHING_RULES)


@EVERY_RULE
@settings(max_examples=12)  # of each rule
@given(pairs_of_images(overlap=True), some_probabilities, st.booleans())
def test_a_nucleus_is_in_one_pair_at_the_most_and_pairs_tell_what_they_share(
    rule, parameters, pair, probability, class_aware
):
    """So tp + fn are all reference nuclei, and tp + fp all predictions."""
    (reference, classes), (prediction, prediction_classes) = pair
    right = with_probability(instances_of(prediction, prediction_classes), probability[: len(prediction)])
    matches = apply(rule, parameters, instances_of(reference, classes), right, class_aware=class_aware)
    pairs = pairs_of(matches)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs) == len(matches.union_px)
    assert pairs == sorted(pairs)
    assert (matches.reference_index.dtype, matches.prediction_index.dtype) == (np.int32, np.int32)
    for (i, j), shared, union in zip(pairs, matches.intersection_px, matches.union_px, strict=True):
        assert (shared, union) == ((reference[i] & prediction[j]).sum(), (reference[i] | prediction[j]).sum())
        assert not class_aware or classes[i] == prediction_classes[j]


@EVERY_RULE
@settings(max_examples=12)  # of each rule
@given(pairs_of_images(overlap=True), some_probabilities, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_nuclei_does_not_matter(rule, parameters, pair, probability, class_aware, random):
    (reference, classes), (prediction, prediction_classes) = pair

    def matched(order, other):
        left = instances_of(reference[order], np.array(classes)[order])
        right = instances_of(prediction[other], np.array(prediction_classes)[other])
        right = with_probability(right, [probability[j] for j in other])
        return sorted(
            (
                (reference[order[i]].tobytes(), classes[order[i]]),
                (prediction[other[j]].tobytes(), prediction_classes[other[j]], probability[other[j]]),
            )
            for i, j in pairs_of(apply(rule, parameters, left, right, class_aware=class_aware))
        )

    plain = list(range(len(reference))), list(range(len(prediction)))
    assert matched(*plain) == matched(*(random.sample(side, len(side)) for side in plain))


@EVERY_RULE
def test_a_crowd_is_paired_as_it_is_with_other_ids(rule, parameters):
    left, right = crowd(3)
    parameters = far(parameters)
    ids = np.random.default_rng(5).permutation(len(left)), np.random.default_rng(6).permutation(len(right))

    def renumbered(side, order):
        return replace(side, class_id=side.class_id[np.argsort(order)], run_instance=order[side.run_instance])

    plain = pairs_of(apply(rule, parameters, left, right))
    other = pairs_of(apply(rule, parameters, renumbered(left, ids[0]), renumbered(right, ids[1])))
    assert len(plain) > 100
    assert sorted((ids[0][i], ids[1][j]) for i, j in plain) == other


def far(parameters):
    """The parameters with a radius over several nuclei."""
    return parameters | ({"radius_px": 12.0} if "radius_px" in parameters else {})


def crowd(seed: int) -> list[Instances]:
    """Some 250 made nuclei, touching, and a prediction with mistakes of every kind."""
    mistakes = Mistakes(missed=0.1, spurious=0.15, grow_spread_px=1, shift_px=3, roughen_px=1, split=0.2, merged=0.2)
    maps = draw_label_maps(seeded(seed), (420, 500), 250, mistakes)
    return [
        instances_from_labels(maps.reference, maps.reference_class),
        instances_from_labels(maps.prediction, maps.prediction_class),
    ]


@pytest.mark.parametrize(
    "rule, parameters", SYMMETRIC, ids=["-".join(map(str, (name, *keys.values()))) for name, keys in SYMMETRIC]
)
def test_swapping_the_sides_swaps_the_pairs(rule, parameters):
    left, right = crowd(4)
    parameters = far(parameters)
    there = pairs_of(apply(rule, parameters, left, right))
    assert sorted((j, i) for i, j in there) == pairs_of(apply(rule, parameters, right, left))


def rows(*labels) -> list[Instances]:
    """Images of one row each."""
    return [instances_from_labels(np.array([row])) for row in labels]


@EVERY_RULE
@pytest.mark.parametrize(("references", "predictions"), [(0, 0), (0, 1), (1, 0)])
def test_an_empty_side_has_no_pair(rule, parameters, references, predictions):
    masks = np.ones((1, 2, 3), bool)
    sides = [instances_of(masks[:number], [1] * number) for number in (references, predictions)]
    matches = apply(rule, parameters, *sides)
    assert (len(matches), matches.reference_index.dtype, matches.union_px.dtype) == (0, np.int32, np.int64)


@EVERY_RULE
def test_a_nucleus_of_one_pixel_finds_itself(rule, parameters):
    labels = np.zeros((9, 12), int)
    labels[1, 2], labels[7, 9] = 5, 3
    sides = instances_from_labels(labels), instances_from_labels(labels)
    assert pairs_of(apply(rule, parameters, *sides)) == [(0, 0), (1, 1)]


@EVERY_RULE
def test_class_aware_rules_pair_no_nuclei_of_two_classes(rule, parameters):
    labels = np.array([[1, 1, 1, 0, 0, 2, 2, 2]])
    left, right = instances_from_labels(labels, np.array([1, 2])), instances_from_labels(labels, np.array([2, 2]))
    assert pairs_of(apply(rule, parameters, left, right)) == [(0, 0), (1, 1)]
    assert pairs_of(apply(rule, parameters, left, right, class_aware=True)) == [(1, 1)]


# Columns of one nucleus, and of two others that lie to its left and right as the mirror shows: IoU 3/5, centroids and
# boundaries 1 px apart. Its centroid lies between columns 4 and 5, in both of the others.
MIDDLE, LEFT, RIGHT = slice(3, 7), slice(2, 6), slice(4, 8)


@EVERY_RULE
@pytest.mark.parametrize("order", [(LEFT, RIGHT), (RIGHT, LEFT)])
def test_of_equal_candidates_the_one_that_comes_first_is_taken(rule, parameters, order):
    parameters = parameters | ({"threshold": 0.3} if "threshold" in parameters else {})
    one, two = np.zeros((1, 1, 10), bool), np.zeros((2, 1, 10), bool)
    one[0, :, MIDDLE] = two[0, :, order[0]] = two[1, :, order[1]] = True
    single, both = instances_of(one, [1]), instances_of(two, [1, 1])
    first = order.index(LEFT)
    assert pairs_of(apply(rule, parameters, single, both)) == [(0, first)]
    assert pairs_of(apply(rule, parameters, both, single)) == [(first, 0)]


RADIUS_RULES = [name for name, rules in MATCHING_RULES.items() if "radius_px" in rules.model_fields]


@pytest.mark.parametrize("rule", RADIUS_RULES)
def test_a_radius_in_um_is_one_in_px_times_the_spacing(rule):
    sides = crowd(5)
    found = [pairs_of(apply(rule, {"radius_px": radius}, *sides)) for radius in (1.5, 4.0)]
    assert found[0] != found[1]
    assert found == [pairs_of(apply(rule, {"radius_um": radius}, *sides, spacing_um=0.25)) for radius in (0.375, 1.0)]


# --- the order of positions -----------------------------------------------------------------------------------------


@given(
    images(overlap=True, most=8, largest=4, classes=2), st.lists(st.sampled_from([0.5, 1.0]), min_size=8, max_size=8)
)
def test_positions_are_ordered_as_they_are_said_to_be(side, probability):
    masks, classes = side

    def place(i):
        pixels = np.flatnonzero(masks[i]).tolist()
        return pixels[0], len(pixels), pixels, classes[i], -probability[i]

    instances = with_probability(instances_of(masks, classes), probability[: len(masks)])
    assert instances.position_order().tolist() == sorted(range(len(masks)), key=place)


CENTROID_RULES = [
    pytest.param("centroid_closest_first", {}, id="closest_first"),
    pytest.param("centroid_assignment", {"cutoff": "before"}, id="assignment"),
    pytest.param("centroid_assignment", {"cutoff": "after"}, id="assignment, cut after"),
    pytest.param("confidence_first", {}, id="confidence_first"),
]


@pytest.mark.parametrize(("rule", "keys"), CENTROID_RULES)
def test_exactly_the_radius_matches_wherever_a_nucleus_lies(rule, keys):
    """The same pixels 3 rows and 4 columns away: their centroids are 5 px apart, though rounded each for itself."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        mask = rng.random((5, 7)) < 0.5
        mask[2, 3] = True
        top, left = rng.integers(0, 900, 2)
        sides = np.zeros((2, top + 8, left + 11), int)
        sides[0, top : top + 5, left : left + 7] = sides[1, top + 3 :, left + 4 :] = mask
        reference, prediction = map(instances_from_labels, sides)
        assert len(apply(rule, {"radius_px": 5, **keys}, reference, prediction).union_px) == 1
        assert len(apply(rule, {"radius_px": 4.999999, **keys}, reference, prediction).union_px) == 0


@pytest.mark.parametrize("rule, keys", [*CENTROID_RULES, pytest.param("hausdorff_closest_first", {}, id="hausdorff")])
@pytest.mark.parametrize("radius_um, spacing_um, px", [(0.3, 0.1, 3), (0.6, 0.2, 3), (0.7, 0.1, 7), (7.5, 0.3, 25)])
def test_exactly_a_radius_in_um_matches(rule, keys, radius_um, spacing_um, px):
    """0.3 / 0.1 is 2.9999999999999996."""
    reference, prediction = (instances_from_labels(np.eye(1, 41, column, dtype=int)) for column in (0, px))
    assert (
        len(apply(rule, {"radius_um": radius_um, **keys}, reference, prediction, spacing_um=spacing_um).union_px) == 1
    )
    nearer = apply(rule, {"radius_um": radius_um - 0.001, **keys}, reference, prediction, spacing_um=spacing_um)
    assert len(nearer.union_px) == 0


@pytest.mark.parametrize(("rule", "keys"), CENTROID_RULES)
@pytest.mark.parametrize("spacing_um", [0.23, 0.221])
def test_exactly_the_radius_matches_points_that_come_in_mm(rule, keys, spacing_um):
    """The centres of boxes in px, and points in mm that are 7.5 um below, written with their last digit."""
    centres = [(y, x) for y in range(0, 200, 13) for x in range(1, 200, 17)]
    matched = 0
    for y, x in centres:
        below = Fraction(y) * Fraction(str(spacing_um)) / 1000 + Fraction("0.0075")
        across = Fraction(x) * Fraction(str(spacing_um)) / 1000
        point = float(below) * 1000 / spacing_um, float(across) * 1000 / spacing_um
        found = apply(rule, {"radius_um": 7.5, **keys}, points_of([(y, x)]), points_of([point]), spacing_um=spacing_um)
        matched += len(found.union_px)
    assert matched == len(centres)


def test_points_are_ordered_by_y_x_class_and_probability():
    points = points_of([(2, 1), (1, 9), (1, 3), (1, 3), (1, 3)], [1, 1, 2, 1, 1], [0.5, 0.5, 0.9, 0.2, 0.7])
    assert points.position_order().tolist() == [4, 3, 2, 1, 0]


def test_equal_points_are_told_apart_by_the_probabilities_of_their_classes():
    points = replace(
        points_of([(1, 1)] * 3), class_probability=np.array([[0.2, 0.3], [0.5, 0.1], [0.2, 0.4]], np.float64)
    )
    assert points.position_order().tolist() == [1, 2, 0]


# --- assignment -----------------------------------------------------------------------------------------------------


def total_iou(reference, prediction, threshold, allowed) -> float:
    """The greatest total IoU of pairs above a threshold, by scipy's solver on a table of all against all."""
    value = np.zeros((len(reference), len(prediction)))
    for i, j in product(range(len(reference)), range(len(prediction))):
        if allowed(i, j) and iou(reference[i], prediction[j]) > threshold:
            value[i, j] = iou(reference[i], prediction[j])
    return float(value[linear_sum_assignment(value, maximize=True)].sum())


@given(
    pairs_of_images(overlap=True, most=6),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.booleans(),
    st.sampled_from([(0, 0), (1 << 14, 4)]),
)
def test_iou_assignment_has_the_greatest_total_that_scipy_finds(pair, threshold, class_aware, dense):
    (reference, classes), (prediction, prediction_classes) = pair
    left, right = instances_of(reference, classes), instances_of(prediction, prediction_classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching_rules, "DENSE_ENTRIES", dense[0])
        patch.setattr(matching_rules, "DENSE_SHARE", dense[1])
        matches = match_iou_assignment(
            overlap_table(left, right), left, right, threshold=threshold, class_aware=class_aware
        )
    values = [iou(reference[i], prediction[j]) for i, j in pairs_of(matches)]
    assert all(value > threshold for value in values)
    assert sum(values) == pytest.approx(
        total_iou(
            reference, prediction, threshold, lambda i, j: not class_aware or classes[i] == prediction_classes[j]
        ),
        abs=1e-12,
    )


@pytest.mark.parametrize(("predicted", "pairs"), [(2, 0), (3, 1)])
def test_iou_assignment_takes_no_pair_of_exactly_the_threshold(predicted, pairs):
    sides = rows([1, 1, 1, 1, 0], [1] * predicted + [0] * (5 - predicted))
    assert len(match_iou_assignment(overlap_table(*sides), *sides, threshold=0.5, class_aware=False)) == pairs


@pytest.mark.parametrize("most_pairs", [False, True])
@pytest.mark.parametrize(("lefts", "rights", "density"), [(40, 60, 0.1), (60, 40, 0.1), (25, 25, 1.0), (80, 80, 0.02)])
def test_an_assignment_is_optimal_with_and_without_a_table_of_all_pairs(
    lefts, rights, density, most_pairs, monkeypatch
):
    rng = np.random.default_rng(lefts + rights)
    value = np.where(rng.random((lefts, rights)) < density, 0.01 + rng.random((lefts, rights)), 0)
    left, right = np.nonzero(value)
    best = value + 1000 * (value > 0) * most_pairs
    best_rows, best_columns = linear_sum_assignment(best, maximize=True)
    used = value[best_rows, best_columns] > 0
    for entries, share in ((0, 0), (1 << 14, 4)):
        monkeypatch.setattr(matching_rules, "DENSE_ENTRIES", entries)
        monkeypatch.setattr(matching_rules, "DENSE_SHARE", share)
        shuffled = rng.permutation(len(left))
        kept = best_assignment(left[shuffled], right[shuffled], value[left, right][shuffled], most_pairs=most_pairs)
        found = zip(left[shuffled][kept].tolist(), right[shuffled][kept].tolist(), strict=True)
        assert sorted(found) == list(zip(best_rows[used].tolist(), best_columns[used].tolist(), strict=True))


@pytest.mark.parametrize("shared", ["left", "right"])
def test_of_equal_pairs_that_share_a_nucleus_the_first_is_kept(shared):
    ends = np.array([4, 4, 4]), np.array([9, 2, 5])
    sides = ends if shared == "left" else ends[::-1]
    assert best_assignment(*sides, np.array([0.5, 0.5, 0.5]), most_pairs=True).tolist() == [False, True, False]
    assert best_assignment(*sides, np.array([0.5, 0.5, 0.75]), most_pairs=True).tolist() == [False, False, True]


def test_what_lies_elsewhere_decides_no_tie(monkeypatch):
    square = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    value = np.array([0.5, 0.5, 0.5, 0.5])
    alone = best_assignment(*square, value, most_pairs=False)
    beside = best_assignment(
        *(np.concatenate([side, side + 2]) for side in square),
        np.concatenate([value, [0.1, 0.9, 0.9, 0.1]]),
        most_pairs=False,
    )
    assert beside.tolist() == [*alone.tolist(), False, True, True, False]


def test_six_thousand_nuclei_in_one_group_need_no_table_of_all_pairs():
    """Nuclei of 10 px in a row, predictions moved by 4: all compete; a table of all pairs has 36 million entries."""
    labels = np.repeat(np.arange(1, 6001), 10)[None]
    sides = instances_from_labels(labels), instances_from_labels(np.roll(labels, 4, axis=1))
    table = overlap_table(*sides)
    largest = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching_rules.np, "zeros", watched(np.zeros, largest))
        patch.setattr(matching_rules.np, "full", watched(np.full, largest))
        matches = match_iou_above(table, *sides, threshold=0.1, class_aware=False)
    assert matches.prediction_index.tolist() == list(range(6000))
    assert max(largest) < 100_000


def watched(make, sizes):
    def made(*arguments, **keys):
        array = make(*arguments, **keys)
        sizes.append(array.size)
        return array

    return made


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


# --- any overlap ----------------------------------------------------------------------------------------------------


@given(pairs_of_images(overlap=False, most=5), st.booleans())
def test_best_iou_any_overlap_equals_its_definition(pair, class_aware):
    (reference, classes), (prediction, prediction_classes) = pair
    left, right = instances_of(reference, classes), instances_of(prediction, prediction_classes)
    matches = match_best_iou_any_overlap(overlap_table(left, right), left, right, class_aware=class_aware)
    chosen: dict[int, list] = {}
    for i, mask in enumerate(reference):
        candidates = [
            (-iou(mask, other), int(np.flatnonzero(other)[0]), j)
            for j, other in enumerate(prediction)
            if (mask & other).any() and (not class_aware or classes[i] == prediction_classes[j])
        ]
        if candidates:
            value, _, j = min(candidates)
            chosen.setdefault(j, []).append((value, int(np.flatnonzero(mask)[0]), i))
    assert set(pairs_of(matches)) == {(min(rivals)[2], j) for j, rivals in chosen.items()}


# --- Hausdorff ------------------------------------------------------------------------------------------------------


def boundary_points(mask: np.ndarray, border: str) -> np.ndarray:
    """Under ``open`` a nucleus that fills its image has the border of the image."""
    found = boundary(mask, border)
    if not found.any():
        found = mask.copy()
        found[1:-1, 1:-1] = False
    return found


def hausdorff(a: np.ndarray, b: np.ndarray, border: str) -> float:
    p, q = boundary_points(a, border), boundary_points(b, border)
    return max(directed_distances(p, q) + directed_distances(q, p))


@given(
    pairs_of_images(overlap=False, most=4, largest=7),
    st.sampled_from([0.0, 1.0, 2.5, 20.0]),
    st.booleans(),
    st.sampled_from(["open", "closed"]),
    st.sampled_from([1, 1 << 21]),
)
def test_hausdorff_closest_first_equals_its_definition(pair, radius, class_aware, border, at_once):
    (reference, classes), (prediction, prediction_classes) = pair
    left, right = instances_of(reference, classes), instances_of(prediction, prediction_classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching_rules, "CLOSE_PAIRS_AT_ONCE", at_once)
        matches = apply(
            "hausdorff_closest_first", {"radius_px": radius}, left, right, class_aware=class_aware, border=border
        )

    def first(mask):
        return int(np.flatnonzero(mask)[0])

    candidates = sorted(
        (hausdorff(r, p, border), first(r), first(p), i, j)
        for (i, r), (j, p) in product(enumerate(reference), enumerate(prediction))
        if not class_aware or classes[i] == prediction_classes[j]
    )
    expected: list[tuple[int, int]] = []
    for distance, _, _, i, j in candidates:
        if distance <= radius and all(i != r and j != p for r, p in expected):
            expected.append((i, j))
    assert pairs_of(matches) == sorted(expected)


def test_boundaries_in_one_box_may_be_too_far_apart():
    """A square of 15 px, and one with a hole whose edge lies 5 px inside of the other boundary."""
    reference, prediction = np.zeros((2, 17, 19), int)
    reference[1:16, 1:16] = prediction[1:16, 1:16] = 1
    prediction[6:11, 6:11] = 0
    sides = instances_from_labels(reference), instances_from_labels(prediction)
    found = [len(apply("hausdorff_closest_first", {"radius_px": radius}, *sides)) for radius in (3.0, 3.999, 4.0)]
    assert found == [0, 0, 1]


def test_points_have_no_boundary():
    with pytest.raises(ValueError, match="points have no boundary"):
        apply("hausdorff_closest_first", {"radius_px": 2.0}, *[points_of([(1, 1)])] * 2)


@given(images(overlap=True, most=6), st.sampled_from(["open", "closed"]))
def test_boxes_of_boundaries_are_those_of_their_points(side, border):
    masks, classes = side
    boundaries = instance_boundaries(instances_of(masks, classes), np.arange(len(masks)), border=border)
    expected = []
    for mask in masks:
        points = np.argwhere(boundary_points(mask, border))
        expected.append([*points.min(axis=0), *points.max(axis=0)])
    assert boundary_boxes(boundaries).tolist() == expected


def test_an_empty_boundary_has_no_box():
    points = np.array([[3, 4], [5, 5]], np.int32)
    boundaries = Boundaries(points, np.array([0, 0, 0]), np.array([2, 0, 2]))
    assert boundary_boxes(boundaries).tolist() == [[3, 5, 4, 5], [-1, -1, -1, -1], [3, 5, 4, 5]]


# --- confidence -----------------------------------------------------------------------------------------------------

places = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda place: (place[0] / 2, place[1] / 2))
found_nuclei = st.lists(st.tuples(places, st.integers(1, 2), st.sampled_from([0.25, 0.5, 1.0])), max_size=7)
nuclei = st.lists(st.tuples(places, st.integers(1, 2)), max_size=7)


@given(
    nuclei,
    found_nuclei,
    st.sampled_from([0, 0.5, 1, 2.5, 30]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 1 << 21]),
)
def test_confidence_first_equals_its_definition(reference, prediction, radius, class_aware, told, at_once):
    left = points_of([place for place, _ in reference], [c for _, c in reference])
    probability = [p for *_, p in prediction] if told else None
    right = points_of([place for place, *_ in prediction], [c for _, c, _ in prediction], probability)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching_rules, "CLOSE_PAIRS_AT_ONCE", at_once)
        matches = match_confidence_first(left, right, radius_px=radius, class_aware=class_aware)
    free, expected = set(range(len(reference))), []
    for j in sorted(range(len(prediction)), key=lambda j: (-prediction[j][2] * told, *prediction[j][:2])):
        (y, x), c, _ = prediction[j]
        near = [
            ((reference[i][0][0] - y) ** 2 + (reference[i][0][1] - x) ** 2, *reference[i], i)
            for i in free
            if not class_aware or reference[i][1] == c
        ]
        near = [entry for entry in near if entry[0] <= radius**2]
        if near:
            i = min(near)[-1]
            free.remove(i)
            expected.append((reference[i], prediction[j][: 2 + told]))
    assert sorted((reference[i], prediction[j][: 2 + told]) for i, j in pairs_of(matches)) == sorted(expected)


def test_the_most_confident_prediction_chooses_first_and_takes_what_is_nearest_to_it():
    left = points_of([(0, 2), (0, 4)])
    right = points_of([(0, 0), (0, 1)], probability=[0.9, 0.8])  # the second one is nearer to the only one near both
    assert pairs_of(match_confidence_first(left, right, radius_px=2, class_aware=False)) == [(0, 0)]
    assert pairs_of(match_confidence_first(left, right, radius_px=4, class_aware=False)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("radius", [-1, float("inf"), float("nan")])
def test_confidence_first_refuses_a_radius_that_is_none(radius):
    with pytest.raises(ValueError, match="radius"):
        match_confidence_first(points_of([(1, 1)]), points_of([(1, 1)]), radius_px=radius, class_aware=False)


@given(pairs_of_images(overlap=True, most=5), some_probabilities, st.sampled_from([0.1, 0.5, 1.0]), st.booleans())
def test_confidence_first_by_iou_equals_its_definition(pair, probability, threshold, class_aware):
    (reference, classes), (prediction, prediction_classes) = pair
    left = instances_of(reference, classes)
    right = with_probability(instances_of(prediction, prediction_classes), probability[: len(prediction)])
    matches = match_confidence_first_iou(
        overlap_table(left, right), left, right, threshold=threshold, class_aware=class_aware
    )

    def place(mask, of_class):
        pixels = np.flatnonzero(mask).tolist()
        return pixels[0], len(pixels), pixels, of_class

    places_r = [place(*nucleus) for nucleus in zip(reference, classes, strict=True)]
    places_p = [place(*nucleus) for nucleus in zip(prediction, prediction_classes, strict=True)]
    free, expected = set(range(len(reference))), []
    for j in sorted(range(len(prediction)), key=lambda j: (-probability[j], places_p[j])):
        fitting = [
            (-iou(reference[i], prediction[j]), places_r[i], i)
            for i in sorted(free)
            if iou(reference[i], prediction[j]) >= threshold
            and (not class_aware or classes[i] == prediction_classes[j])
        ]
        if fitting:
            free.remove(min(fitting)[-1])
            expected.append((min(fitting)[-1], j))
    assert pairs_of(matches) == sorted(expected)


THRESHOLDS = [round(0.5 + 0.05 * step, 2) for step in range(10)]


def code_of(mask: np.ndarray) -> dict:
    return coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))


def coco_pairs(reference: list, prediction: list, probability) -> list[list[tuple[int, int]]]:
    """Pairs that pycocotools finds in an image at each threshold, from run-length codes."""
    height, width = reference[0]["size"]

    def entries(codes, **keys):
        return [
            {"id": number, "image_id": 1, "category_id": 1, "segmentation": code, "iscrowd": 0}
            | {key: values[number - 1] for key, values in keys.items()}
            for number, code in enumerate(codes, start=1)
        ]

    truth = COCO()
    truth.dataset = {
        "info": {},
        "images": [{"id": 1, "height": height, "width": width}],
        "categories": [{"id": 1}],
        "annotations": entries(reference, area=[float(coco_mask.area(code)) for code in reference]),
    }
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(entries(prediction, score=list(map(float, probability)))), "segm")
        evaluation.params.iouThrs = np.array(THRESHOLDS)
        evaluation.params.maxDets = [100_000]
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.evaluate()
    (image,) = evaluation.evalImgs
    return [
        sorted((int(r) - 1, int(p) - 1) for p, r in zip(image["dtIds"], found, strict=True) if r > 0)
        for found in image["dtMatches"]
    ]


def instances_of_codes(codes: list) -> Instances:
    height, width = codes[0]["size"]
    runs = []
    for index, code in enumerate(codes):
        x, y, columns, lines = coco_mask.toBbox(code).astype(int)
        mask = np.pad(coco_mask.decode(code)[y : y + lines, x : x + columns].astype(np.int8), ((0, 0), (1, 1)))
        row, column = np.nonzero(np.diff(mask, axis=1))  # starts and stops alternate
        flat = ((row + y) * width + column + x).reshape(-1, 2)
        runs.append(np.column_stack([flat, np.full(len(flat), index)]))
    table = np.concatenate(runs)
    start, stop, owner = table[np.argsort(table[:, 0], kind="stable")].T
    return Instances(
        (height, width), np.ones(len(codes), np.int16), np.arange(len(codes)), start, stop, owner.astype(np.int32)
    )


OF_PYCOCOTOOLS = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@OF_PYCOCOTOOLS
def test_confidence_first_by_iou_is_what_pycocotools_does_at_ten_thresholds():
    """Discs that overlap on both sides, with unequal probabilities."""
    rng = np.random.default_rng(8)
    yy, xx = np.mgrid[:150, :190]
    centres = rng.uniform((5, 5), (145, 185), (120, 2))
    copies = centres[rng.integers(0, 120, 300)] + rng.normal(0, 1.2, (300, 2))
    reference, prediction = (
        np.array([(yy - y) ** 2 + (xx - x) ** 2 <= radius**2 for (y, x), radius in zip(at, sizes, strict=True)])
        for at, sizes in ((centres, rng.uniform(5, 9, 120)), (copies, rng.uniform(5, 9, 300)))
    )
    probability = (rng.permutation(300) + 1) / 512
    truth, codes = ([code_of(mask) for mask in masks] for masks in (reference, prediction))
    left, right = instances_of_codes(truth), with_probability(instances_of_codes(codes), probability)
    found = match_confidence_first_iou_many(overlap_table(left, right), left, right, THRESHOLDS, class_aware=False)
    expected = coco_pairs(truth, codes, probability)
    assert [pairs_of(matches) for matches in found] == expected
    assert len(found[0]) > 90
    assert found[0] != pairs_of(
        match_iou_above(overlap_table(left, right), left, right, threshold=0.5, class_aware=False)
    )


@OF_PYCOCOTOOLS
def test_overlapping_masks_of_a_real_model_match_as_pycocotools_matches_them(shared_data):
    """The upper left quarter of an image of CoNSeP, and what a Mask R-CNN found in it."""
    labels = np.load(shared_data / "consep" / "test_1_gt_stitched.npz")["inst"][:500, :500]
    results = json.loads((shared_data / "consep/predict/maskrcnn/preds/test_1.json").read_text())
    inside = [
        k for k, code in enumerate(results["masks"]) if (coco_mask.toBbox(code).reshape(2, 2).sum(axis=0) <= 500).all()
    ]
    scores = np.array(results["scores"], np.float64)[inside]
    codes = [code_of(coco_mask.decode(results["masks"][k])[:500, :500]) for k in inside]
    assert len(np.unique(scores)) == len(codes) > 200
    truth = [code_of(labels == label) for label in np.unique(labels[labels > 0])]
    left, right = instances_from_labels(labels), with_probability(instances_of_codes(codes), scores)
    table = overlap_table(left, right)
    found = match_confidence_first_iou_many(table, left, right, THRESHOLDS, class_aware=False)
    assert [pairs_of(matches) for matches in found] == coco_pairs(truth, codes, scores)
    assert len(found[0]) > 40


# --- assigned first, cut off afterwards -----------------------------------------------------------------------------


def within(reference, prediction, chosen, radius) -> frozenset:
    """Those of the chosen pairs of places that are at most the radius apart."""
    return frozenset((i, j) for i, j in chosen if distance_of(reference[i], prediction[j]) <= radius)


def distance_of(one, other) -> float:
    (y, x), (v, u) = one[0], other[0]
    return float(np.hypot(y - v, x - u))


def optimal_assignments(reference, prediction, indices) -> list[list[tuple[int, int]]]:
    """All assignments that use up the smaller side, whatever the distance, with the least total, by trying all."""
    left, right = indices
    if len(left) > len(right):
        turned = optimal_assignments(prediction, reference, (right, left))
        return [[(i, j) for j, i in pairs] for pairs in turned]
    tried = [list(zip(left, chosen, strict=True)) for chosen in permutations(right, len(left))]
    totals = [sum(distance_of(reference[i], prediction[j]) for i, j in pairs) for pairs in tried]
    return [pairs for pairs, total in zip(tried, totals, strict=True) if total <= min(totals) + 1e-9]


few_nuclei = st.lists(st.tuples(places, st.integers(1, 2)), max_size=5)


@given(few_nuclei, few_nuclei, st.sampled_from([0, 0.5, 1, 2.5, 30]), st.booleans())
def test_an_assignment_cut_off_afterwards_is_one_of_all_nuclei_without_its_far_pairs(
    reference, prediction, radius, class_aware
):
    sides = [points_of([place for place, _ in side], [c for _, c in side]) for side in (reference, prediction)]
    matches = match_centroid_assignment(*sides, radius_px=radius, class_aware=class_aware, cutoff="after")
    expected = {frozenset()}
    for class_id in (1, 2) if class_aware else (None,):
        of_class = [
            [index for index, (_, c) in enumerate(side) if class_id in (None, c)] for side in (reference, prediction)
        ]
        optimal = optimal_assignments(reference, prediction, of_class)
        found = {within(reference, prediction, pairs, radius) for pairs in optimal}
        expected = {one | other for one, other in product(expected, found)}
    assert frozenset(pairs_of(matches)) in expected


@pytest.mark.parametrize(("references", "predictions"), [(150, 130), (130, 150), (140, 140)])
def test_a_crowd_cut_off_afterwards_has_the_pairs_that_scipy_finds(references, predictions):
    rng = np.random.default_rng(references)
    sides = [points_of(rng.uniform(0, 100, (n, 2)), rng.integers(1, 3, n).tolist()) for n in (references, predictions)]
    distance = np.hypot(*(sides[0].point_yx[:, None] - sides[1].point_yx).transpose(2, 0, 1))
    assigned = linear_sum_assignment(distance)
    for radius in (2.0, 6.0, 25.0):
        expected = [(i, j) for i, j in np.transpose(assigned).tolist() if distance[i, j] <= radius]
        found = match_centroid_assignment(*sides, radius_px=radius, class_aware=False, cutoff="after")
        assert pairs_of(found) == expected
    of_classes = match_centroid_assignment(*sides, radius_px=6, class_aware=True, cutoff="after")
    alone = []
    for class_id in (1, 2):
        i, j = (np.flatnonzero(side.class_id == class_id) for side in sides)
        chosen = linear_sum_assignment(distance[np.ix_(i, j)])
        pairs = zip(i[chosen[0]].tolist(), j[chosen[1]].tolist(), strict=True)
        alone += [pair for pair in pairs if distance[pair] <= 6]
    assert pairs_of(of_classes) == sorted(alone)


def test_a_far_nucleus_is_in_the_way_of_a_near_one_only_if_the_cut_comes_afterwards():
    """References in rows 0, columns 0 and 12, predictions at (0, 12) and (12, 12): 24 px in total, or 16.97 px."""
    sides = points_of([(0, 0), (0, 12)]), points_of([(0, 12), (12, 12)])
    found = {
        cutoff: pairs_of(apply("centroid_assignment", {"radius_px": 12.0, **keys}, *sides))
        for cutoff, keys in (("before", {"cutoff": "before"}), ("after", {"cutoff": "after"}), ("not written", {}))
    }
    assert found == {"before": [(0, 0), (1, 1)], "after": [(1, 0)], "not written": [(0, 0), (1, 1)]}


@pytest.mark.parametrize("radius", [-1, float("inf"), float("nan")])
def test_a_cut_afterwards_needs_a_radius_too(radius):
    sides = points_of([(1, 1)]), points_of([(1, 1)])
    with pytest.raises(ValueError, match="radius"):
        match_centroid_assignment(*sides, radius_px=radius, class_aware=False, cutoff="after")


def test_a_table_of_too_many_pairs_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(matching_rules, "MOST_PAIRS", 12)
    sides = points_of([(y, 0) for y in range(4)], [1, 1, 1, 2]), points_of([(y, 0) for y in range(4)], [1, 1, 1, 2])
    assert len(match_centroid_assignment(*sides, radius_px=1, class_aware=True, cutoff="after")) == 4
    assert len(match_centroid_assignment(*sides, radius_px=1, class_aware=False, cutoff="before")) == 4
    with pytest.raises(TooManyPairs, match=r"^16 pairs of 4 x 4 nuclei; at most 12$"):
        match_centroid_assignment(*sides, radius_px=1, class_aware=False, cutoff="after")


def test_an_assignment_of_too_many_steps_is_refused_before_it_is_made(monkeypatch):
    """Points beyond the others on a line take the square of the smaller side times the larger."""
    near, far = points_of([(y, 0) for y in range(40)]), points_of([(y, 0) for y in range(40, 90)])
    monkeypatch.setattr(matching_rules, "MOST_STEPS", 40 * 40 * 50)
    for sides in ((near, far), (far, near)):
        assert len(match_centroid_assignment(*sides, radius_px=99, class_aware=False, cutoff="after")) == 40
    monkeypatch.setattr(matching_rules, "MOST_STEPS", 40 * 40 * 50 - 1)
    with pytest.raises(TooManyPairs, match=r"^80,000 steps of assigning 40 x 50 nuclei; at most 79,999$") as caught:
        match_centroid_assignment(near, far, radius_px=99, class_aware=False, cutoff="after")
    assert not caught.value.by_reference
    with pytest.raises(TooManyPairs) as caught:
        match_centroid_assignment(far, near, radius_px=99, class_aware=False, cutoff="after")
    assert caught.value.by_reference  # 50 nuclei against themselves have more steps
    assert len(match_centroid_assignment(near, far, radius_px=99, class_aware=False, cutoff="before")) == 40
    monkeypatch.setattr(matching_rules, "MOST_STEPS", 40**3 - 1)
    with pytest.raises(TooManyPairs, match=r"^64,000 steps of assigning 40 x 40 nuclei"):
        match_centroid_assignment(near, far, radius_px=99, class_aware=False, cutoff="before")


def test_organisers_read_which_case_has_too_many_pairs(monkeypatch):
    monkeypatch.setattr(matching_rules, "MOST_PAIRS", 3)
    sides = rows([1, 1, 0, 2, 2], [1, 0, 3, 0, 2])
    with pytest.raises(ChallengeBroken) as caught:
        apply("centroid_assignment", {"radius_px": 2.0, "cutoff": "after"}, *sides)
    (finding,) = caught.value.findings
    assert str(finding) == (
        "[case-too-costly] case 'a', matching rule 'a': 6 pairs of 2 x 3 nuclei; expected at most 3. Choose a smaller "
        'radius or cutoff = "before", or cut the images into smaller ones.'
    )


def test_participants_who_predict_far_too_many_nuclei_are_refused_without_a_word_on_the_reference(monkeypatch):
    monkeypatch.setattr(matching_rules, "MOST_PAIRS", 5)
    sides = rows([1, 1, 0, 2, 2], [1, 0, 3, 0, 2])
    with pytest.raises(InputFault) as caught:
        apply("centroid_assignment", {"radius_px": 2.0, "cutoff": "after"}, *sides)
    assert [str(finding) for finding in caught.value.findings] == [
        "[case-too-costly] case 'a', matching rule 'a': 3 nuclei, which make too many pairs with those of the "
        "reference; expected fewer, or nuclei that lie where those of the image are. Leave out what is no nucleus, such"
        " as single pixels, and what was found several times."
    ]


@pytest.mark.parametrize(
    "rule, pairs", [("centroid_closest_first", 6), ("hausdorff_closest_first", 6), ("confidence_first", 6)]
)
def test_too_many_pairs_within_the_radius_are_counted_and_not_looked_at(rule, pairs, monkeypatch):
    sides = rows([1, 1, 0, 2, 2], [1, 0, 3, 0, 2])
    monkeypatch.setattr(matching_rules, "MOST_CLOSE", pairs)
    apply(rule, {"radius_px": 9.0}, *sides)
    monkeypatch.setattr(matching_rules, "MOST_CLOSE", pairs - 1)
    with pytest.raises(InputFault, match=r"^\[case-too-costly\] case 'a', matching rule 'a': 3 nuclei, which make"):
        apply(rule, {"radius_px": 9.0}, *sides)
    monkeypatch.setattr(matching_rules, "MOST_CLOSE", 3)  # 2 x 2 of the reference with itself
    with pytest.raises(ChallengeBroken, match=r"6 pairs within the radius; expected at most 3\."):
        apply(rule, {"radius_px": 9.0}, *sides)


@OF_PYCOCOTOOLS
def test_a_real_model_loses_most_of_its_pairs_if_the_cut_comes_afterwards(shared_data):
    """An image of CoNSeP, and all 979 masks that a Mask R-CNN found in it, at the 12 px of its challenge."""
    labels = np.load(shared_data / "consep" / "test_1_gt_stitched.npz")["inst"]
    results = json.loads((shared_data / "consep/predict/maskrcnn/preds/test_1.json").read_text())
    sides = instances_from_labels(labels), instances_of_codes(results["masks"])
    pairs = {
        cutoff: len(match_centroid_assignment(*sides, radius_px=12, class_aware=False, cutoff=cutoff))
        for cutoff in ("before", "after")
    }
    assert (len(sides[1]), pairs) == (979, {"before": 221, "after": 85})


# --- in challenge.toml ----------------------------------------------------------------------------------------------


POINTS = {"format": "points_json", "files": "{case}.json", "units": "px", "origin": "pixel_centre"}


def challenge_with(*, points=False, spacing_um=None, **rule) -> Challenge:
    case = Case("a", "P1", 9, 9, spacing_um=spacing_um)
    matching = {"rules": [{"name": "a", "class_aware": False, "ties": "first_pixel", **rule}]}
    if points:
        return Challenge.build(small_document(POINTS, unit="case", matching=matching, cases=(case,)))
    return Challenge.from_preset("monusac2020", name="n", cases=[case], matching=matching)


def refusal(**arguments) -> str:
    with pytest.raises(ChallengeBroken) as caught:
        challenge_with(**arguments)
    (finding,) = caught.value.findings
    return str(finding)


@EVERY_RULE
def test_every_rule_can_be_written(rule, parameters):
    (rules,) = challenge_with(rule=rule, **parameters).matching.rules
    assert rules.model_dump(exclude_none=True, exclude=["name", "class_aware", "ties"]) == {"rule": rule, **parameters}


@pytest.mark.parametrize("rule", RADIUS_RULES)
def test_a_radius_in_um_needs_the_spacing_of_every_case(rule):
    assert challenge_with(rule=rule, radius_um=2.0, spacing_um=0.25).matching.rules[0].needs_spacing
    assert refusal(rule=rule, radius_um=2.0) == (
        "[contradictory-rules] challenge.toml: matching.rules.0.radius_um: given, but spacing_um is empty for 1 case; "
        "expected spacing_um for every case in cases.csv."
    )


FOR_POINTS = ["centroid_closest_first", "centroid_assignment", "confidence_first"]


@EVERY_RULE
def test_points_take_the_rules_that_need_no_pixels(rule, parameters):
    if rule in FOR_POINTS and "radius_px" in parameters:
        (rules,) = challenge_with(points=True, rule=rule, **parameters).matching.rules
        sides = points_of([(3, 3)]), points_of([(3, 4)])
        matches = match(rules, Sides(Case("a", "P1", 9, 9), overlap_table(*sides), *sides, "open"))
        assert (pairs_of(matches), matches.union_px.tolist()) == ([(0, 0)], [0])
    else:
        assert refusal(points=True, rule=rule, **parameters) == (
            f"[contradictory-rules] challenge.toml: matching.rules.0.rule: '{rule}' for points; expected a rule that "
            "needs no pixels, 'centroid_closest_first', 'centroid_assignment' or 'confidence_first', with a radius."
        )


@pytest.mark.parametrize("rule, keys, line", [
    ("confidence_first", {},
     "[contradictory-rules] challenge.toml: matching.rules.0.radius_px: missing; expected one of radius_px, "
     "radius_um and threshold."),
    ("confidence_first", {"radius_px": 3.0, "threshold": 0.5},
     "[contradictory-rules] challenge.toml: matching.rules.0.threshold: given beside radius_px; expected one of "
     "radius_px, radius_um and threshold."),
    ("confidence_first", {"threshold": 0.0},
     "[invalid-rule] challenge.toml: matching.rules.0.threshold: '0.0'; expected greater than 0."),
    ("confidence_first", {"threshold": 0.1234567},
     "[invalid-rule] challenge.toml: matching.rules.0.threshold: 0.1234567; expected a number of at most six "
     "decimals, to compare exactly."),
    ("iou_assignment", {"threshold": 1.0},
     "[invalid-rule] challenge.toml: matching.rules.0.threshold: '1.0'; expected less than 1."),
    ("hausdorff_closest_first", {"radius_px": 3.0, "radius_um": 1.0},
     "[contradictory-rules] challenge.toml: matching.rules.0.radius_px: given beside radius_um; expected one of "
     "radius_px and radius_um."),
    ("centroid_assignment", {"radius_px": 3.0, "cutoff": "never"},
     "[invalid-rule] challenge.toml: matching.rules.0.cutoff: 'never'; expected 'before' or 'after'."),
    ("best_iou_any_overlap", {"threshold": 0.5},
     "[unknown-key] challenge.toml: matching.rules.0.threshold: a key that is not known; expected one of "
     "'class_aware', 'name', 'rule' or 'ties'."),
])  # fmt: skip
def test_parameters_that_do_not_fit_are_refused(rule, keys, line):
    assert refusal(rule=rule, **keys) == line


def test_a_threshold_of_one_asks_for_the_same_pixels():
    sides = rows([1, 1, 2, 2, 0], [1, 1, 2, 2, 2])
    assert pairs_of(apply("confidence_first", {"threshold": 1.0}, *sides)) == [(0, 0)]
