"""Matching of nuclei: the overlap table, what holds for every rule, and each rule against a slow literal version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from every_format import small_document, write_files, write_rules
from hypothesis import given, settings
from hypothesis import strategies as st
from literal import (
    Candidates,
    best_pairing,
    centroid_pixel,
    directed_distances,
    instances_of,
    iou_of_all,
    literal_closest_first,
    literal_confidence_first,
    pairs_of,
    pairs_of_images,
    points_of,
    position,
)
from pycoco import OF_PYCOCOTOOLS, coco_evaluation, code_of
from pycocotools import mask as coco_mask
from scipy.optimize import linear_sum_assignment
from test_matching_rules import boundary_points, with_probability

from benchmarks.label_maps import draw_label_maps
from benchmarks.synthesis import Mistakes, seeded
from evaluation.challenge import MATCHING_RULES, Challenge
from evaluation.challenge.matching_rules import Sides
from evaluation.commands.main import run
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.scoring.match import match, match_case
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import match_iou_above, overlap_table, rules
from nuclei_metrics.matching.rules import match_centroid_assignment, match_confidence_first_iou_many
from nuclei_metrics.model import Case, Instances, Matches, Region

# --- what holds for every rule ----------------------------------------------------------------------------------------

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
RADIUS_RULES = [name for name, rule in MATCHING_RULES.items() if "radius_px" in rule.model_fields]
CENTROID_RULES = [
    ("centroid_closest_first", {}),
    ("centroid_assignment", {"cutoff": "before"}),
    ("centroid_assignment", {"cutoff": "after"}),
    ("confidence_first", {}),
]


def apply(rule, parameters, reference, prediction, *, class_aware=False, spacing_um=None, border="open") -> Matches:
    """A rule as the program applies it, from the words of challenge.toml."""
    made = MATCHING_RULES[rule](rule=rule, name="a", class_aware=class_aware, ties="first_pixel", **parameters)
    case = Case("a", "P1", *reference.shape_yx, spacing_um=spacing_um)
    return match(made, Sides(case, overlap_table(reference, prediction), reference, prediction, border))


def applied(rule, parameters, *sides, **options) -> list[tuple[int, int]]:
    return pairs_of(apply(rule, parameters, *sides, **options))


def rows(*labels) -> list[Instances]:
    """Images of one row each."""
    return [instances_from_labels(np.array([row])) for row in labels]


# Few values, so that predictions are equally probable.
some_probabilities = st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=5, max_size=5)


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
            for i, j in applied(rule, parameters, left, right, class_aware=class_aware)
        )

    plain = list(range(len(reference))), list(range(len(prediction)))
    assert matched(*plain) == matched(*(random.sample(side, len(side)) for side in plain))


@cache
def crowd(seed: int) -> list[Instances]:
    """Some 250 made nuclei, touching, and a prediction with mistakes of every kind."""
    mistakes = Mistakes(missed=0.1, spurious=0.15, grow_spread_px=1, shift_px=3, roughen_px=1, split=0.2, merged=0.2)
    maps = draw_label_maps(seeded(seed), (420, 500), 250, mistakes)
    return [
        instances_from_labels(maps.reference, maps.reference_class),
        instances_from_labels(maps.prediction, maps.prediction_class),
    ]


@EVERY_RULE
def test_a_crowd_is_paired_as_it_is_with_other_ids_and_with_swapped_sides(rule, parameters):
    """A radius reaches several nuclei; rules that look from one side are not symmetric."""
    left, right = crowd(3)
    parameters = parameters | ({"radius_px": 12.0} if "radius_px" in parameters else {})
    ids = np.random.default_rng(5).permutation(len(left)), np.random.default_rng(6).permutation(len(right))

    def renumbered(side, order):
        return replace(side, class_id=side.class_id[np.argsort(order)], run_instance=order[side.run_instance])

    plain = applied(rule, parameters, left, right)
    other = applied(rule, parameters, renumbered(left, ids[0]), renumbered(right, ids[1]))
    assert len(plain) > 100
    assert sorted((ids[0][i], ids[1][j]) for i, j in plain) == other
    if not rule.startswith(("best_iou", "confidence")):
        assert sorted((j, i) for i, j in plain) == applied(rule, parameters, right, left)


@EVERY_RULE
def test_small_sides(rule, parameters):
    masks = np.ones((1, 2, 3), bool)
    for counts in ((0, 0), (0, 1), (1, 0)):
        nothing = apply(rule, parameters, *(instances_of(masks[:number], [1] * number) for number in counts))
        assert (len(nothing), nothing.reference_index.dtype, nothing.union_px.dtype) == (0, np.int32, np.int64)
    labels = np.zeros((9, 12), int)
    labels[1, 2], labels[7, 9] = 5, 3
    pixels = instances_from_labels(labels)
    assert applied(rule, parameters, pixels, pixels) == [(0, 0), (1, 1)]
    labels = np.array([[1, 1, 1, 0, 0, 2, 2, 2]])
    sides = instances_from_labels(labels, np.array([1, 2])), instances_from_labels(labels, np.array([2, 2]))
    assert applied(rule, parameters, *sides) == [(0, 0), (1, 1)]
    assert applied(rule, parameters, *sides, class_aware=True) == [(1, 1)]


# Columns of one nucleus, and of two others that lie to its left and right as the mirror shows: IoU 3/5, centroids and
# boundaries 1 px apart. Its centroid lies between columns 4 and 5, in both of the others.
MIDDLE, LEFT, RIGHT = slice(3, 7), slice(2, 6), slice(4, 8)


@EVERY_RULE
def test_of_equal_candidates_the_one_that_comes_first_is_taken(rule, parameters):
    parameters = parameters | ({"threshold": 0.3} if "threshold" in parameters else {})
    for order in ((LEFT, RIGHT), (RIGHT, LEFT)):
        one, two = np.zeros((1, 1, 10), bool), np.zeros((2, 1, 10), bool)
        one[0, :, MIDDLE] = two[0, :, order[0]] = two[1, :, order[1]] = True
        single, both = instances_of(one, [1]), instances_of(two, [1, 1])
        first = order.index(LEFT)
        assert applied(rule, parameters, single, both) == [(0, first)]
        assert applied(rule, parameters, both, single) == [(first, 0)]


# --- rules of IoU -----------------------------------------------------------------------------------------------------


def literal_best_iou(candidates: Candidates, left: Sequence, right: Sequence, accepted) -> list[tuple[int, int]]:
    """Each reference nucleus chooses its best prediction; of those that chose the same, the best one keeps it."""
    chosen: dict[int, list] = {}
    for i, place in enumerate(left):
        fitting = [(distance, right[j], j) for (r, j), distance in candidates.items() if r == i]
        if fitting and accepted(i, min(fitting)[-1]):
            chosen.setdefault(min(fitting)[-1], []).append((min(fitting)[0], place, i))
    return sorted((min(rivals)[-1], j) for j, rivals in chosen.items())


@given(pairs_of_images(overlap=True), some_probabilities, st.sampled_from([0.1, 0.5, 1.0]), st.booleans())
def test_the_best_iou_and_confidence_first_equal_their_definitions(pair, probability, threshold, class_aware):
    (reference, classes), (prediction, prediction_classes) = pair
    value = iou_of_all(reference, prediction)
    touching = {
        (i, j): -value[i, j]
        for i, j in np.argwhere(value > 0).tolist()
        if not class_aware or classes[i] == prediction_classes[j]
    }
    places = [[(*position(mask), of) for mask, of in zip(*side, strict=True)] for side in pair]
    places[1] = [(*place, -sure) for place, sure in zip(places[1], probability, strict=False)]  # of equal ones
    surest = sorted(range(len(prediction)), key=lambda j: (-probability[j], places[1][j]))
    enough = {at: distance for at, distance in touching.items() if -distance >= threshold}

    def is_inside(i, j):
        return reference[i][centroid_pixel(prediction[j])]

    right = with_probability(instances_of(prediction, prediction_classes), probability[: len(prediction)])
    for rule, parameters, expected in (
        ("best_iou_centroid_inside", {}, literal_best_iou(touching, *places, is_inside)),
        ("best_iou_any_overlap", {}, literal_best_iou(touching, *places, lambda i, j: True)),
        ("confidence_first", {"threshold": threshold}, literal_confidence_first(enough, places[0], surest)),
    ):
        found = applied(rule, parameters, instances_of(reference, classes), right, class_aware=class_aware)
        assert found == expected, rule


@given(
    pairs_of_images(overlap=True, most=4),
    st.sampled_from([0.0, 0.2, 0.5, 0.55, 0.75]),
    st.booleans(),
    st.sampled_from([(0, 0, 0), (0, 1 << 14, 4), (10, 1 << 14, 4)]),
)
def test_iou_above_and_assignment_are_the_best_of_all(pair, threshold, class_aware, limits):
    """The most pairs by trying everything, and the greatest total IoU by scipy's solver on all against all."""
    (reference, classes), (prediction, prediction_classes) = pair
    value = iou_of_all(reference, prediction)
    allowed = value > threshold
    if class_aware:
        allowed &= np.array(classes, int)[:, None] == np.array(prediction_classes, int)
    sides = [instances_of(*side) for side in pair]
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in zip(("FEW_PAIRS", "DENSE_ENTRIES", "DENSE_SHARE"), limits, strict=True):
            patch.setattr(rules, name, limit)
        most, greatest = (
            applied(rule, {"threshold": threshold}, *sides, class_aware=class_aware)
            for rule in ("iou_above" if threshold else "iou_assignment", "iou_assignment")
        )
    assert all(allowed[at] for at in most + greatest)
    if threshold:
        total = pytest.approx(sum(value[at] for at in most), abs=1e-12)
        assert (len(most), total) == best_pairing(np.where(allowed, value, -np.inf))
    weights = np.where(allowed, value, 0)
    best = weights[linear_sum_assignment(weights, maximize=True)].sum()
    assert sum(value[at] for at in greatest) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("rule, threshold, expected", [
    ("iou_above", 0.5, [0, 1]),
    ("iou_assignment", 0.5, [0, 1]),
    ("confidence_first", 0.5, [1, 1]),  # as pycocotools has it
])  # fmt: skip
def test_what_an_iou_of_exactly_the_threshold_is(rule, threshold, expected):
    """A nucleus of 4 px, and 2 or 3 of them."""
    sides = [rows([1, 1, 1, 1, 0], [1] * predicted + [0] * (5 - predicted)) for predicted in (2, 3)]
    assert [len(applied(rule, {"threshold": threshold}, *pair)) for pair in sides] == expected


def test_a_threshold_of_one_asks_for_the_same_pixels():
    sides = rows([1, 1, 2, 2, 0], [1, 1, 2, 2, 2])
    assert applied("confidence_first", {"threshold": 1.0}, *sides) == [(0, 0)]


def test_six_thousand_nuclei_in_one_group_need_no_table_of_all_pairs():
    """Nuclei of 10 px in a row, predictions moved by 4: all compete; a table of all pairs has 36 million entries."""
    labels = np.repeat(np.arange(1, 6001), 10)[None]
    sides = instances_from_labels(labels), instances_from_labels(np.roll(labels, 4, axis=1))
    table = overlap_table(*sides)
    sizes = []

    def watched(make):
        def made(*arguments, **keys):
            array = make(*arguments, **keys)
            sizes.append(array.size)
            return array

        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules.np, "zeros", watched(np.zeros))
        patch.setattr(rules.np, "full", watched(np.full))
        matches = match_iou_above(table, *sides, threshold=0.1, class_aware=False)
    assert matches.prediction_index.tolist() == list(range(6000))
    assert max(sizes) < 100_000


def test_a_far_nucleus_is_in_the_way_of_a_near_one_only_if_the_cut_comes_afterwards():
    """References in rows 0, columns 0 and 12, predictions at (0, 12) and (12, 12): 24 px in total, or 16.97 px."""
    sides = points_of([(0, 0), (0, 12)]), points_of([(0, 12), (12, 12)])
    for keys, expected in (
        ({}, [(0, 0), (1, 1)]),
        ({"cutoff": "before"}, [(0, 0), (1, 1)]),
        ({"cutoff": "after"}, [(1, 0)]),
    ):
        assert applied("centroid_assignment", {"radius_px": 12.0, **keys}, *sides) == expected


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


@pytest.mark.parametrize(("rule", "keys"), CENTROID_RULES)
def test_where_in_the_image_equally_near_nuclei_lie_does_not_decide(rule, keys):
    """Centroids in thirds of a pixel, 2 px to the left and to the right of another one: floats tell them apart."""
    for x in range(2, 40):
        sides = np.zeros((2, 2, 44), int)
        for side, label, column in [(0, 1, x), (1, 1, x - 2), (1, 2, x + 2)]:
            sides[side, [0, 0, 1], [column, column + 1, column]] = label
        one, two = map(instances_from_labels, sides)
        assert applied(rule, {"radius_px": 2, **keys}, one, two) == [(0, 0)], x
        assert applied(rule, {"radius_px": 2, **keys}, two, one) == [(0, 0)], x


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
        found = [len(apply(rule, {"radius_px": px, **keys}, reference, prediction)) for px in (5, 4.999999)]
        assert found == [1, 0]


@pytest.mark.parametrize("rule, keys", [*CENTROID_RULES, ("hausdorff_closest_first", {})])
def test_exactly_a_radius_in_um_matches(rule, keys):
    """0.3 / 0.1 is 2.9999999999999996."""
    for radius_um, spacing_um, px in [(0.3, 0.1, 3), (0.6, 0.2, 3), (0.7, 0.1, 7), (7.5, 0.3, 25)]:
        sides = [instances_from_labels(np.eye(1, 41, column, dtype=int)) for column in (0, px)]
        for um, number in ((radius_um, 1), (radius_um - 0.001, 0)):
            assert len(apply(rule, {"radius_um": um, **keys}, *sides, spacing_um=spacing_um)) == number


@pytest.mark.parametrize(("rule", "keys"), CENTROID_RULES)
@pytest.mark.parametrize("spacing_um", [0.23, 0.221])
def test_exactly_the_radius_matches_points_that_come_in_mm(rule, keys, spacing_um):
    """The centres of boxes in px, and points in mm that are 7.5 um below, written with their last digit."""
    for y, x in product(range(0, 200, 13), range(1, 200, 17)):
        below = Fraction(y) * Fraction(str(spacing_um)) / 1000 + Fraction("0.0075")
        across = Fraction(x) * Fraction(str(spacing_um)) / 1000
        point = float(below) * 1000 / spacing_um, float(across) * 1000 / spacing_um
        sides = points_of([(y, x)]), points_of([point])
        assert len(apply(rule, {"radius_um": 7.5, **keys}, *sides, spacing_um=spacing_um)) == 1


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
    options = {"class_aware": class_aware, "border": border}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "CLOSE_PAIRS_AT_ONCE", at_once)
        sides = [instances_of(*side) for side in pair]
        found = applied("hausdorff_closest_first", {"radius_px": radius}, *sides, **options)
    every = {
        (i, j): hausdorff(r, p, border)
        for (i, r), (j, p) in product(enumerate(reference), enumerate(prediction))
        if not class_aware or classes[i] == prediction_classes[j]
    }
    near = {at: distance for at, distance in every.items() if distance <= radius}
    assert found == literal_closest_first(near, *([position(mask) for mask in masks] for masks, _ in pair))


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


# --- confidence by IoU, as pycocotools has it -------------------------------------------------------------------------


THRESHOLDS = [round(0.5 + 0.05 * step, 2) for step in range(10)]


def coco_pairs(reference: list, prediction: list, probability) -> list[list[tuple[int, int]]]:
    """Pairs that pycocotools finds in an image at each threshold, from run-length codes."""
    image = reference, [1] * len(reference), prediction, [1] * len(prediction), probability
    (found,) = coco_evaluation([image], THRESHOLDS).evalImgs
    return [
        sorted((int(r) - 1, int(p) - 1) for p, r in zip(found["dtIds"], at, strict=True) if r > 0)
        for at in found["dtMatches"]
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
    classes, ids = np.ones(len(codes), np.int16), np.arange(len(codes))
    return Instances((height, width), classes, ids, start, stop, owner.astype(np.int32))


def check_against_pycocotools(truth, codes, probability, at_least) -> None:
    left, right = instances_of_codes(truth), with_probability(instances_of_codes(codes), probability)
    table = overlap_table(left, right)
    found = match_confidence_first_iou_many(table, left, right, THRESHOLDS, class_aware=False)
    assert [pairs_of(matches) for matches in found] == coco_pairs(truth, codes, probability)
    assert len(found[0]) > at_least
    assert pairs_of(found[0]) != pairs_of(match_iou_above(table, left, right, threshold=0.5, class_aware=False))


@OF_PYCOCOTOOLS
def test_confidence_first_by_iou_is_what_pycocotools_does_at_ten_thresholds():
    """Discs that overlap on both sides, with unequal probabilities."""
    rng = np.random.default_rng(8)
    yy, xx = np.mgrid[:150, :190]
    centres = rng.uniform((5, 5), (145, 185), (120, 2))
    copies = centres[rng.integers(0, 120, 300)] + rng.normal(0, 1.2, (300, 2))
    truth, codes = (
        [code_of((yy - y) ** 2 + (xx - x) ** 2 <= radius**2) for (y, x), radius in zip(at, sizes, strict=True)]
        for at, sizes in ((centres, rng.uniform(5, 9, 120)), (copies, rng.uniform(5, 9, 300)))
    )
    check_against_pycocotools(truth, codes, (rng.permutation(300) + 1) / 512, at_least=90)


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
    check_against_pycocotools([code_of(labels == label) for label in np.unique(labels[labels > 0])], codes, scores, 40)


WHO = "[case-too-costly] case 'a', matching rule 'a': "
FEWER = "Remove single-pixel objects and duplicate detections."
SMALLER = 'Choose a smaller radius or cutoff = "before", or smaller images.'


@pytest.mark.parametrize("rule, cutoff", [
    ("centroid_assignment", "after"), ("centroid_closest_first", ""), ("hausdorff_closest_first", ""),
    ("confidence_first", ""),
])  # fmt: skip
def test_too_many_nuclei_of_a_side_are_told_to_who_can_help_it_and_say_nothing_of_the_other(rule, cutoff, monkeypatch):
    parameters = {"radius_px": 9.0} | ({"cutoff": cutoff} if cutoff else {})
    limits = ["MOST_OF_REFERENCE", "MOST_OF_PREDICTION"] if cutoff else ["MOST_CLOSE"]
    two, three = rows([1, 1, 0, 2, 2], [1, 0, 3, 0, 2])
    nothing = rows([0] * 5, [0] * 5)[0]
    what, most = (
        ("nuclei in an assignment of all to all", 2) if cutoff else ("pairs of nuclei of a side within the radius", 4)
    )
    number = 3 if cutoff else 9
    for limit in limits:
        monkeypatch.setattr(rules, limit, most)
    apply(rule, parameters, two, two)
    for reference in (two, nothing):
        with pytest.raises(InputFault) as caught:
            apply(rule, parameters, reference, three)
        assert [str(f) for f in caught.value.findings] == [f"{WHO}{number} {what}; expected at most {most}. {FEWER}"]
    for prediction in (two, three, nothing):
        with pytest.raises(ChallengeBroken) as broken:
            apply(rule, parameters, three, prediction)
        assert [str(f) for f in broken.value.findings] == [f"{WHO}{number} {what}; expected at most {most}. {SMALLER}"]


@pytest.mark.parametrize("policy", ["clip", "drop_overlapping", "drop_centroid", "drop_unmatched"])
@pytest.mark.parametrize("duplicates", ["keep", "false_positive"])
def test_an_ignore_region_decides_nothing_about_too_many_predictions(policy, duplicates, monkeypatch):
    """Whether a case is too costly depends on the submission alone: the region would remove two of three points."""
    monkeypatch.setattr(rules, "MOST_OF_PREDICTION", 2)
    given = {"rule": "centroid_assignment", "radius_px": 9.0, "cutoff": "after"}
    challenge = challenge_with(points=True, **given)
    ignore = challenge.reference.ignore.model_copy(update={"policy": policy, "fraction": 0.5})
    changes = {
        "reference": challenge.reference.model_copy(update={"ignore": ignore}),
        "submission": challenge.submission.model_copy(update={"duplicates": duplicates}),
    }
    changed, many = challenge.model_copy(update=changes), points_of([(1, 1), (4, 4), (7, 7)])
    told = set()
    for region in (Region(np.array([]), np.array([])), Region(np.array([524, 917]), np.array([525, 918]))):
        side = PreparedReference(points_of([(1, 1)]), region)
        match_case(changed, Case("a", "P1", 9, 9), side, points_of([(1, 1), (4, 4)]))
        with pytest.raises(InputFault) as caught:
            match_case(changed, Case("a", "P1", 9, 9), side, many)
        told.update(str(f) for f in caught.value.findings)
    assert told == {f"{WHO}3 nuclei in an assignment of all to all; expected at most 2. {FEWER}"}


@pytest.mark.parametrize("nuclei, code", [(3, 0), (4, 3)])
def test_no_submission_makes_the_challenge_at_fault(nuclei, code, tmp_path, monkeypatch):
    """Of 1 to 6 predicted points: a reference beyond its limit ends all with 3, a prediction beyond its own with 1."""
    monkeypatch.setattr(rules, "MOST_OF_REFERENCE", 3)
    monkeypatch.setattr(rules, "MOST_OF_PREDICTION", 5)
    rule = {"name": "a", "rule": "centroid_assignment", "radius_px": 3.0, "cutoff": "after"}
    document = small_document(POINTS, rule, cases=(Case("a", "P1", 9, 9),))
    write_rules(document, tmp_path)

    def write(folder: str, number: int) -> None:
        points = [{"name": "nucleus", "point": [x, 1, 0.5]} for x in range(number)]
        content = {"type": "Multiple points", "points": points, "version": {"major": 1, "minor": 0}}
        write_files(tmp_path / folder, {"a.json": content})

    write("reference", nuclei)
    codes = []
    for number in range(1, 7):
        write("submission", number)
        sides = ["--challenge", str(tmp_path), "--submission", str(tmp_path / "submission")]
        codes.append(run(["score", *sides, "--output", str(tmp_path / "out"), "--quiet"]))
    assert codes == ([0] * 5 + [1] if code == 0 else [3] * 6)


# --- in challenge.toml ------------------------------------------------------------------------------------------------


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
    return str(finding).replace("challenge.toml: matching.rules.0.", "")


@EVERY_RULE
def test_every_rule_can_be_written_and_points_take_those_that_need_no_pixels(rule, parameters):
    (rules_,) = challenge_with(rule=rule, **parameters).matching.rules
    assert rules_.model_dump(exclude_none=True, exclude=["name", "class_aware", "ties"]) == {"rule": rule, **parameters}
    if rule in dict(CENTROID_RULES) and "radius_px" in parameters:
        assert challenge_with(points=True, rule=rule, **parameters).matching.rules == (rules_,)
        matches = apply(rule, parameters, points_of([(3, 3)]), points_of([(3, 4)]))
        assert (pairs_of(matches), matches.union_px.tolist()) == ([(0, 0)], [0])
    else:
        assert refusal(points=True, rule=rule, **parameters) == (
            f"[contradictory-rules] rule: '{rule}' for points; expected a rule that "
            "needs no pixels, 'centroid_closest_first', 'centroid_assignment' or 'confidence_first', with a radius."
        )


@pytest.mark.parametrize("rule", RADIUS_RULES)
def test_a_radius_in_um_is_one_in_px_times_the_spacing_that_every_case_needs(rule):
    found = [applied(rule, {"radius_px": radius}, *crowd(3)) for radius in (1.5, 4.0)]
    assert found[0] != found[1]
    assert found == [applied(rule, {"radius_um": um}, *crowd(3), spacing_um=0.25) for um in (0.375, 1.0)]
    assert challenge_with(rule=rule, radius_um=2.0, spacing_um=0.25).matching.rules[0].needs_spacing
    assert refusal(rule=rule, radius_um=2.0) == (
        "[contradictory-rules] radius_um: given, but spacing_um is empty for 1 case; expected spacing_um for every "
        "case in cases.csv."
    )


@pytest.mark.parametrize("rule, keys, line", [
    ("confidence_first", {},
     "[contradictory-rules] radius_px: missing; expected one of radius_px, radius_um and threshold."),
    ("confidence_first", {"radius_px": 3.0, "threshold": 0.5},
     "[contradictory-rules] threshold: given together with radius_px; expected one of radius_px, radius_um and "
     "threshold."),
    ("confidence_first", {"threshold": 0.0}, "[invalid-rule] threshold: 0.0; expected greater than 0."),
    ("confidence_first", {"threshold": 0.1234567},
     "[invalid-rule] threshold: 0.1234567; expected a number of at most six decimals, to compare exactly."),
    ("iou_assignment", {"threshold": 1.0}, "[invalid-rule] threshold: 1.0; expected less than 1."),
    ("hausdorff_closest_first", {"radius_px": 3.0, "radius_um": 1.0},
     "[contradictory-rules] radius_px: given together with radius_um; expected one of radius_px and radius_um."),
    ("centroid_assignment", {"radius_px": 3.0, "cutoff": "never"},
     "[invalid-rule] cutoff: 'never'; expected 'before' or 'after'."),
    ("best_iou_any_overlap", {"threshold": 0.5},
     "[unknown-key] threshold: an unknown key; expected one of 'class_aware', 'name', 'rule' or 'ties'."),
])  # fmt: skip
def test_parameters_that_do_not_fit_are_refused(rule, keys, line):
    assert refusal(rule=rule, **keys) == line
