"""AJI, DICE, splits, merges and metrics of objects: against their definitions, and cases counted as one image."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from literal import instance_boundaries, instances_of, iou_of_all, pairs_of_images, points_of, position
from scipy.ndimage import distance_transform_edt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from sklearn.metrics import f1_score

from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances.boundary import (
    band_overlaps,
    boundaries_of_runs,
    choose_runs,
    join_runs,
    runs_by_instance,
)
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching.rules import match_iou_above_many, match_iou_assignment
from nuclei_metrics.matching.table import overlap_table
from nuclei_metrics.metrics import overlap
from nuclei_metrics.metrics.counts import JoinedCases, join_cases
from nuclei_metrics.metrics.detection import count_threshold_nuclei, count_threshold_pairs
from nuclei_metrics.metrics.metric import of_outlines
from nuclei_metrics.metrics.overlap import count_objects, count_overlaps, hausdorff_squared, shapes_of
from nuclei_metrics.model import CaseTable, Instances, Matches, Units
from nuclei_metrics.model.counts import Unions

SCORES = {
    "aji": overlap.aggregated_jaccard,
    "aji_plus": overlap.aggregated_jaccard_plus,
    "dice1": overlap.dice1,
    "dice2": overlap.dice2,
    "splits": overlap.splits,
    "merges": overlap.merges,
    "object_f1": overlap.object_f1,
    "object_dice": overlap.object_dice,
    "object_hausdorff": overlap.object_hausdorff,
}


# --- from masks to scores ---------------------------------------------------------------------------------------------


def masks_of(picture: str) -> np.ndarray:
    """One mask for each letter, in alphabetical order; rows are separated by blanks."""
    letters = np.array([list(row) for row in picture.split()])
    return np.array([letters == letter for letter in sorted(set(letters.flat) - {"."})]).reshape(-1, *letters.shape)


def greatest_iou_pairs(reference: np.ndarray, prediction: np.ndarray) -> Matches:
    """One to one, the greatest total IoU, by scipy on a dense matrix."""
    value = iou_of_all(reference, prediction)
    rows, columns = linear_sum_assignment(value, maximize=True)
    kept = value[rows, columns] > 0
    rows, columns = rows[kept].astype(np.int32), columns[kept].astype(np.int32)
    both = [(reference[i], prediction[j]) for i, j in zip(rows, columns, strict=True)]
    shared, union = (np.array([f(*pair).sum() for pair in both], int) for f in (np.logical_and, np.logical_or))
    return Matches(rows, columns, shared, union)


def count(reference: np.ndarray, prediction: np.ndarray) -> dict[str, np.ndarray]:
    """The sums of one case."""
    sides = [instances_of(masks, [1] * len(masks)) for masks in (reference, prediction)]
    joined = join_cases([(*sides, overlap_table(*sides))])
    found = {**count_overlaps(joined, greatest_iou_pairs(reference, prediction)), **count_objects(joined)}
    confusion = np.array([[0, len(prediction)], [len(reference), 0]])
    others = {"confusion": confusion, "cases": np.array(1), "missing": np.array(0), "points": np.array(0)}
    return {**{name: of_cases[0] for name, of_cases in found.items()}, **others}


def units_of(cases: list[dict[str, np.ndarray]], units: list[list[int]]) -> Units:
    """Units of cases, each a list of places."""
    sums = {name: np.stack([case[name] for case in cases]) for name in cases[0]}
    table = CaseTable(sums=sums, largest={}, area_mm2=np.ones(len(cases)), pairs=None, predictions=None)
    return Units(table, csr_array(np.array([np.bincount(unit, minlength=len(cases)) for unit in units])))


def score(*cases: tuple[np.ndarray, np.ndarray]) -> dict[str, float | str]:
    """The scores of some cases, pooled."""
    units = units_of([count(*case) for case in cases], [list(range(len(cases)))])
    found = {name: function(units).at(0) for name, function in SCORES.items()}
    return {name: one.undefined or one.value for name, one in found.items()}


# --- the definitions, literally -------------------------------------------------------------------------------------


def shared_px(mask: np.ndarray, other: np.ndarray) -> int:
    return int((mask & other).sum())


def iou(mask: np.ndarray, other: np.ndarray) -> Fraction:
    return Fraction(shared_px(mask, other), int((mask | other).sum()))


def literal_partners(here: np.ndarray, there: np.ndarray, value=shared_px) -> list[int | None]:
    """For each mask another that touches it, by value, then IoU, then position; equal masks take turns."""
    partners: list[int | None] = []
    for index, mask in enumerate(here):
        touching = [j for j, other in enumerate(there) if (mask & other).any()]
        equal = [j for j in touching if (mask == there[j]).all()]
        if len(equal) > 1:
            before = sum((mask == other).all() for other in here[:index])
            partners.append(equal[before % len(equal)])
            continue
        key = {j: (-value(mask, there[j]), -iou(mask, there[j]), position(there[j])) for j in touching}
        partners.append(min(touching, key=key.__getitem__, default=None))
    return partners


def literal_aji(reference: np.ndarray, prediction: np.ndarray) -> Fraction | None:
    shared = union = 0
    used = set()
    for r, partner in zip(reference, literal_partners(reference, prediction, iou), strict=True):
        if partner is None:
            union += int(r.sum())
            continue
        shared += int((r & prediction[partner]).sum())
        union += int((r | prediction[partner]).sum())
        used.add(partner)
    union += sum(int(p.sum()) for j, p in enumerate(prediction) if j not in used)
    return Fraction(shared, union) if union else None


def literal_aji_plus(reference: np.ndarray, prediction: np.ndarray) -> Fraction | None:
    pairs = greatest_iou_pairs(reference, prediction)
    shared, union = int(pairs.intersection_px.sum()), int(pairs.union_px.sum())
    union += sum(int(r.sum()) for i, r in enumerate(reference) if i not in pairs.reference_index)
    union += sum(int(p.sum()) for j, p in enumerate(prediction) if j not in pairs.prediction_index)
    return Fraction(shared, union) if union else None


def literal_dice2(reference: np.ndarray, prediction: np.ndarray) -> Fraction | None:
    pairs = [(r, p) for r in reference for p in prediction if (r & p).any()]
    if not pairs:
        return Fraction(0) if len(reference) + len(prediction) else None
    return Fraction(sum(int(2 * (r & p).sum()) for r, p in pairs), sum(int(r.sum() + p.sum()) for r, p in pairs))


def literal_splits(nuclei: np.ndarray, pieces: np.ndarray) -> int:
    """How many nuclei have two pieces or more that share with them the most pixels, and more than with nothing."""
    assigned = []
    for piece, best in zip(pieces, literal_partners(pieces, nuclei), strict=True):
        background = (piece & ~nuclei.any(axis=0)).sum()
        if best is not None and shared_px(piece, nuclei[best]) > background:
            assigned.append(best)
    return sum(assigned.count(i) > 1 for i in range(len(nuclei)))


def literal_f1(reference: np.ndarray, prediction: np.ndarray) -> float:
    found = set()
    for s, best in zip(prediction, literal_partners(prediction, reference), strict=True):
        if best is not None and Fraction(int((s & reference[best]).sum()), int(reference[best].sum())) > Fraction(1, 2):
            found.add(best)
    tp, fp, fn = len(found), len(prediction) - len(found), len(reference) - len(found)
    return 2 * tp / (2 * tp + fp + fn)


def of_both_sides(reference: np.ndarray, prediction: np.ndarray, value) -> float:
    """Mean of the two sides; on each the mean of ``value(object, its best one or None, others)``, weighted by area."""
    halves = []
    for here, there in ((reference, prediction), (prediction, reference)):
        best = literal_partners(here, there)
        values = [value(m, None if j is None else there[j], there) for m, j in zip(here, best, strict=True)]
        halves.append(sum(m.sum() / here.sum() * v for m, v in zip(here, values, strict=True)))
    return float(sum(halves) / 2)


def literal_dice(mask: np.ndarray, best: np.ndarray | None, _: np.ndarray) -> float:
    return 0.0 if best is None else 2 * float((mask & best).sum()) / float(mask.sum() + best.sum())


def set_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Hausdorff distance of all pixels, by scipy's distance transform."""
    return max(float(distance_transform_edt(~b)[a].max()), float(distance_transform_edt(~a)[b].max()))


def literal_hausdorff(mask: np.ndarray, best: np.ndarray | None, others: np.ndarray) -> float:
    return min(set_distance(mask, other) for other in others) if best is None else set_distance(mask, best)


@pytest.mark.parametrize("second", [(slice(5, 8), slice(5, 8)), (slice(2, 12), slice(2, 12))])
def test_a_copy_of_nuclei_on_each_other_has_the_best_scores(second: tuple[slice, slice]) -> None:
    """One inside the other, and two that are equal. DICE2 compares all pairs that touch, so it is below 1."""
    masks = np.zeros((2, 30, 30), bool)
    masks[0, 2:12, 2:12] = True
    masks[1][second] = True
    found = score((masks, masks))
    best = {"aji": 1, "aji_plus": 1, "dice1": 1, "splits": 0, "merges": 0}
    best |= {"object_f1": 1, "object_dice": 1, "object_hausdorff": 0}
    assert {name: found[name] for name in best} == best
    assert (found["dice2"] < 1) == (masks[0] != masks[1]).any()


@given(pairs_of_images(overlap=True) | pairs_of_images(overlap=False, most=9, largest=14))
def test_scores_equal_their_definitions_on_dense_masks(pair):
    """DICE1 is the F1 of pixels in scikit-learn."""
    (reference, _), (prediction, _) = pair
    found = score((reference, prediction))
    for name, literal in (("aji", literal_aji), ("aji_plus", literal_aji_plus), ("dice2", literal_dice2)):
        expected = literal(reference, prediction)
        assert found[name] == ("no-instances" if expected is None else float(expected)), name
    if len(reference) + len(prediction):
        assert found["splits"] == literal_splits(reference, prediction)
        assert found["merges"] == literal_splits(prediction, reference)
        foregrounds = reference.any(axis=0).ravel(), prediction.any(axis=0).ravel()
        assert found["dice1"] == pytest.approx(f1_score(*foregrounds), abs=1e-15)
    if len(reference) and len(prediction):
        assert found["object_f1"] == pytest.approx(literal_f1(reference, prediction), abs=1e-12)
        for name, literal in (("object_dice", literal_dice), ("object_hausdorff", literal_hausdorff)):
            assert found[name] == pytest.approx(of_both_sides(reference, prediction, literal), abs=1e-9), name


# --- worked by hand -------------------------------------------------------------------------------------------------


def test_all_scores_of_a_small_picture():
    """Of A (6 px) 4 px are found, B (3 px) is cut in pieces of 2 and 1 px, C (2 px) is missed."""
    reference = masks_of("AAA.BBB.C AAA.....C")
    prediction = masks_of(".PP.QQR.. .PP......")
    found = score((reference, prediction))
    # partners: A-P (4 px shared, union 6), B-Q (2, union 3); C alone 2; R is nobody's partner: 1
    assert found["aji"] == 6 / (6 + 3 + 2 + 1)
    assert found["aji_plus"] == 6 / 12
    assert found["dice1"] == 2 * 7 / (11 + 7)
    assert found["dice2"] == 2 * (4 + 2 + 1) / ((6 + 4) + (3 + 2) + (3 + 1))
    assert (found["splits"], found["merges"]) == (1, 0)


@pytest.mark.parametrize("pieces, expected", [
    ("PPPQQQ....", 1),  # both inside
    ("PPPQQQQQQ.", 0),  # as many pixels outside as inside: of the background
    ("PPPQQQQQ..", 1),
    ("PQRSTU....", 1),  # one nucleus in six pieces is one split
    ("PPPPPP....", 0),
    ("......PPQQ", 0),
])  # fmt: skip
def test_a_nucleus_is_split_if_two_predictions_lie_mostly_in_it(pieces, expected):
    nucleus = masks_of("GGGGGG....")
    assert score((nucleus, masks_of(pieces)))["splits"] == expected
    assert score((masks_of(pieces), nucleus))["merges"] == expected
    assert score((nucleus, masks_of(pieces)))["merges"] == 0


def test_a_pixel_under_two_nuclei_of_a_side_is_one_pixel_of_the_foreground_and_not_background():
    reference = np.array([[[1, 1, 1, 0, 0, 0]], [[0, 1, 1, 1, 0, 0]]], bool)
    prediction = np.array([[[0, 1, 1, 1, 1, 1]]], bool)
    found = score((reference, prediction))
    assert found["dice1"] == 2 * 3 / (4 + 5)
    assert found["merges"] == 1  # both nuclei lie in it; with areas summed its background would be 5 - 5 = 0
    assert score((prediction, reference))["merges"] == 0


def test_all_scores_of_objects_of_a_small_picture():
    """A (4 px) is found 1 px too far right, B (1 px) is missed, 4 px after the found one."""
    found = score((masks_of("AAAA....B"), masks_of(".PPPP....")))
    assert found["object_f1"] == 2 / 3
    assert found["object_dice"] == pytest.approx((4 / 5 * 3 / 4 + 1 * 3 / 4) / 2, abs=1e-15)
    assert found["object_hausdorff"] == pytest.approx((4 / 5 * 1 + 1 / 5 * 7 + 1) / 2, abs=1e-15)


@pytest.mark.parametrize(("covered", "expected"), [("PP......", 0), ("PPP.....", 1), ("PPPPPPPP", 1)])
def test_an_object_is_found_if_more_than_half_of_it_is_covered_however_large_the_prediction(covered, expected):
    assert score((masks_of("AAAA...."), masks_of(covered)))["object_f1"] == expected


def test_of_two_objects_that_share_as_much_that_with_the_higher_iou_is_best():
    """P shares 1 px with A (1 px, so covered) and with B (3 px): F1 is 2/3 if A is taken, 0 if B is."""
    assert score((masks_of("ABBB"), masks_of("PP..")))["object_f1"] == 2 / 3
    assert score((masks_of("BBBA"), masks_of("..PP")))["object_f1"] == 2 / 3
    assert score((masks_of("BBBA")[::-1], masks_of("..PP")))["object_f1"] == 2 / 3


def test_of_two_objects_with_equal_shares_and_iou_the_first_is_best():
    """P (2 px) shares 1 px with A and with B (2 px each)."""
    found = score((masks_of("AABB"), masks_of(".PP.")))
    assert (found["object_f1"], found["object_dice"]) == (0, 0.5)


# --- several cases in a unit ------------------------------------------------------------------------------------------

NOTHING = np.zeros((0, 4, 5), bool)
SOMETHING = masks_of("AA... ..... ..... .....")


def test_objects_of_a_case_without_predictions_cost_the_diagonal_of_their_image():
    diagonal = math.hypot(3, 4)
    for case in ((SOMETHING, NOTHING), (NOTHING, SOMETHING)):
        assert score((SOMETHING, SOMETHING), case)["object_hausdorff"] == (diagonal / 2 + 0) / 2


def test_nothing_is_said_of_a_unit_in_which_a_case_has_points():
    sides = instances_of(SOMETHING, [1]), points_of(np.ones((2, 2)), shape_yx=(4, 5))
    of_points = count_objects(join_cases([(*sides, overlap_table(*sides))]))
    points = {**count(SOMETHING, NOTHING), **{name: sums[0] for name, sums in of_points.items()}, "points": np.array(1)}
    for name, function in SCORES.items():
        found = of_outlines(units_of([count(SOMETHING, SOMETHING), points], [[0], [0, 1]]), function)
        assert found.at(0).value is not None, name
        assert found.at(1).undefined == "points-only", name


def test_sums_add_up_over_cases_with_their_weights():
    cases = [count(masks_of("AAABB"), masks_of("PPPPP")), count(masks_of("AAA.."), masks_of(".PPP."))]
    found = overlap.aggregated_jaccard(units_of(cases, [[0], [1], [0, 1], [0, 1, 1]]))
    assert found.value.tolist() == [5 / 10, 2 / 4, 7 / 14, 9 / 18]
    assert overlap.merges(units_of(cases, [[0], [1], [0, 1, 1], [0, 0]])).value.tolist() == [1, 0, 1, 2]


def test_weights_run_over_all_objects_of_the_unit():
    """A perfect object of 6 px and, in another image, one of 2 px of which 1 px is found."""
    cases = [count(masks_of("AAAAAA"), masks_of("AAAAAA")), count(masks_of("AA...."), masks_of("P....."))]
    found = overlap.object_dice(units_of(cases, [[0], [1], [0, 1], [0, 1, 1]]))
    dice = 2 / 3
    expected = [1, dice, ((6 + 2 * dice) / 8 + (6 + 1 * dice) / 7) / 2, ((6 + 4 * dice) / 10 + (6 + 2 * dice) / 8) / 2]
    assert found.value.tolist() == pytest.approx(expected, abs=1e-15)
    assert overlap.object_hausdorff(units_of(cases, [[0, 1]])).value.tolist() == [(2 / 8 + 1 / 7) / 2]
    assert overlap.object_f1(units_of(cases, [[1], [0, 1]])).value.tolist() == [0, 1 / 2]


# --- distances of larger and stranger shapes --------------------------------------------------------------------------


def draw_shape(rng: np.random.Generator, shape_yx: tuple[int, int]) -> np.ndarray:
    """A disc, a ring, a comb with many runs in a row, a thin slanted line, or dust that does not hang together."""
    y, x = np.mgrid[: shape_yx[0], : shape_yx[1]]
    centre, radius = rng.integers(0, shape_yx), rng.integers(1, 16)
    away = np.hypot(y - centre[0], (x - centre[1]) * rng.uniform(0.5, 2))
    disc = away <= radius
    kinds = (
        disc,
        disc & (away >= radius - rng.integers(1, 4)),
        disc & (((x + (y // 5 % 2)) % rng.integers(2, 5)) == 0),
        disc & (np.abs(y - centre[0] - 0.7 * (x - centre[1])) < 1.2),
        disc & (rng.random(shape_yx) < 0.15),
    )
    mask = kinds[rng.integers(len(kinds))]
    return mask if mask.any() else disc | ((y == centre[0]) & (x == centre[1]))


@pytest.mark.parametrize("seed", range(4))
def test_distances_of_all_pixels_equal_a_distance_transform(seed):
    rng = np.random.default_rng(seed)
    masks = np.array([draw_shape(rng, (61, 83)) for _ in range(24)])
    sides = [instances_of(part, [1] * len(part)) for part in (masks[:12], masks[12:])]
    one, other = (index.ravel() for index in np.mgrid[:24, :24])
    found = hausdorff_squared(shapes_of(*sides), one, other).reshape(24, 24)
    transforms = [distance_transform_edt(~mask) for mask in masks]
    directed = np.array([[transform[mask].max() for transform in transforms] for mask in masks])
    np.testing.assert_allclose(np.sqrt(found), np.maximum(directed, directed.T), rtol=0, atol=1e-9)


def test_distances_are_exact_in_an_image_whose_squared_distances_pass_32_bits():
    side = 60_000
    one, index = np.ones(1, np.int16), np.zeros(1, np.int32)
    corners = [
        Instances((side, side), one, np.arange(1), np.array([start]), np.array([start + 3]), index)
        for start in (0, side * side - 3)
    ]
    sums = count_objects(join_cases([(*corners, overlap_table(*corners))]))
    assert sums["object_hausdorff"][0].tolist() == pytest.approx([3 * math.hypot(side - 1, side - 3)] * 2, rel=1e-15)


# --- many objects that touch nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "first"), [(0, 1), (1, 4), (2, 1), (3, 4)])
def test_the_nearest_of_a_crowd_is_that_of_all_pairs(seed, first, monkeypatch):
    """Predictions that lie on each other, some of them with the same pixels, far from the reference or near to it."""
    monkeypatch.setattr(overlap, "FIRST_MEASURED", first)
    monkeypatch.setattr(overlap, "NEIGHBOURS_AT_ONCE", 7)
    rng = np.random.default_rng(seed)
    reference = [draw_shape(rng, (60, 60)) for _ in range(8)]
    crowd = [draw_shape(rng, (60, 60)) for _ in range(10)]
    shift = rng.integers(0, 70, (40, 2))
    masks = np.zeros((2, 48, 150, 150), bool)
    for place, mask in enumerate(reference):
        masks[0, place, 2:62, 2:62] = mask
    for place, (y, x) in enumerate(shift[rng.integers(0, 40, 40)]):
        masks[1, place, 62 + y % 20 : 122 + y % 20, x : 60 + x] = crowd[place % 10]
    sides = [instances_of(masks[0, :8], [1] * 8), instances_of(masks[1, :40], [1] * 40)]
    shapes, case = shapes_of(*sides), np.zeros(48, np.int64)
    search = overlap.Search(shapes, case, 8)
    one, other = (index.ravel() for index in np.mgrid[:48, :48])
    table = hausdorff_squared(shapes, one, other).reshape(48, 48)
    expected = [*table[:8, 8:].min(axis=1), *table[8:, :8].min(axis=1)]
    assert search.nearest_squared(np.arange(48)).tolist() == expected


def test_the_nearest_of_objects_at_equal_bounds_is_that_of_all_pairs():
    """All have the same box; the trees put objects at equal bounds in another order for each number of neighbours."""
    rng = np.random.default_rng(2)
    masks = np.zeros((120, 40, 40), bool)
    for mask, (y, x) in zip(masks, rng.integers(0, 31, (120, 2)), strict=True):
        square = rng.random((9, 9)) < rng.random()
        square[[0, 0, 8, 8], [0, 8, 0, 8]] = True
        mask[y : y + 9, x : x + 9] = square
    shapes = shapes_of(*(instances_of(part, [1] * 60) for part in (masks[:60], masks[60:])))
    one, other = (index.ravel() for index in np.mgrid[:60, 60:120])
    table = hausdorff_squared(shapes, one, other).reshape(60, 60)
    found = overlap.Search(shapes, np.zeros(120, np.int64), 60).nearest_squared(np.arange(120))
    assert found.tolist() == [*table.min(axis=1), *table.min(axis=0)]


def test_objects_that_are_too_far_and_too_many_are_counted_and_refused(monkeypatch):
    rng = np.random.default_rng(1)
    reference, prediction = np.zeros((2, 12, 40, 90), bool)
    for masks, left in ((reference, 0), (prediction, 60)):
        for mask, (y, x) in zip(masks, rng.integers(0, 20, (12, 2)), strict=True):
            mask[y : y + 5, left + x : left + x + 5] = True
    count(reference, prediction)
    monkeypatch.setattr(overlap, "MOST_MEASURED", 20)
    with pytest.raises(TooManyPairs, match=r"pairs of distant objects; at most 20$"):
        count(reference, prediction)


# --- several cases counted as one image give each case what it has alone, digit by digit ------------------------------


several_pairs = st.lists(
    pairs_of_images(overlap=True) | pairs_of_images(overlap=False, most=7, largest=12), min_size=2, max_size=4
)
NO_MASK = np.zeros((0, 3, 5), bool)
SOME_MASK = np.zeros((1, 3, 5), bool)
SOME_MASK[0, 1:, :2] = True


def cases_of(pairs) -> list[tuple[Instances, Instances]]:
    return [(instances_of(*reference), instances_of(*prediction)) for reference, prediction in pairs]


def join(cases) -> JoinedCases:
    return join_cases([(*sides, overlap_table(*sides)) for sides in cases])


def sums_of_joined(cases: JoinedCases, runs=()) -> dict[str, np.ndarray]:
    sides = cases.table, cases.reference, cases.prediction
    found = match_iou_above_many(*sides, [0.2, 0.5], class_aware=False)
    return {
        "pairs": count_threshold_pairs(cases, found, classes=3),
        "nuclei": count_threshold_nuclei(cases, classes=3),
        **count_overlaps(cases, match_iou_assignment(*sides, threshold=0.0, class_aware=False)),
        **count_objects(cases, runs),
    }


def check(cases) -> None:
    joined = join(cases)
    together = {name: sums.tolist() for name, sums in sums_of_joined(joined).items()}
    alone = [sums_of_joined(join([sides])) for sides in cases]
    assert together == {name: [of_case[name][0].tolist() for of_case in alone] for name in together}
    runs = [runs_by_instance(sides[side]) for side in (0, 1) for sides in cases]  # sorted already
    assert together == {name: sums.tolist() for name, sums in sums_of_joined(joined, runs).items()}


@given(several_pairs)
def test_the_sums_of_each_case_are_those_of_the_case_alone(pairs):
    """Digit by digit. Swapped sides swap the sums of two."""
    check(cases_of(pairs))
    here, there = (count_objects(join([sides[::step] for sides in cases_of(pairs)])) for step in (1, -1))
    for name in ("object_area", "object_dice", "object_hausdorff"):
        assert here[name].tolist() == there[name][:, ::-1].tolist()


def test_a_case_without_nuclei_on_a_side_leaves_the_others_as_they_are():
    some = tuple(instances_of(masks, [1]) for masks in (SOME_MASK, SOME_MASK))
    nothing = instances_of(NO_MASK, [])
    for place in range(3):
        for sides in ((nothing, some[1]), (some[0], nothing), (nothing, nothing)):
            check([sides if k == place else some for k in range(3)])


@settings(max_examples=20)
@given(several_pairs, st.integers(1, 3), st.sampled_from(["open", "closed"]))
def test_bands_and_boundaries_of_several_images_are_those_of_each(pairs, width_px, border):
    """Open borders are those of each image, however large the others are."""
    rules = {"width_px": width_px, "border": border}
    full = instances_from_labels(np.ones((2, 3), int), class_id=1)
    chosen: tuple[list, list] = ([], [])
    bands, boundaries = [], []
    for sides in [*cases_of(pairs), (full, full)]:
        runs = [runs_by_instance(side) for side in sides]
        index = [indices.ravel() for indices in np.indices([len(side) for side in sides])]
        alone = band_overlaps(*map(choose_runs, runs, index), **rules)
        bands += zip(alone.intersection_px.tolist(), alone.union_px.tolist(), strict=True)
        for parts, of_side, of_index in zip(chosen, runs, index, strict=True):
            parts.append(choose_runs(of_side, of_index))
        reference = instance_boundaries(sides[0], index[0], border=border)
        boundaries += [reference.points_of(entry).tolist() for entry in range(len(reference.size))]
    together = band_overlaps(*map(join_runs, chosen), **rules)
    assert list(zip(together.intersection_px.tolist(), together.union_px.tolist(), strict=True)) == bands
    joined = boundaries_of_runs(join_runs(chosen[0]), border=border)
    assert [joined.points_of(entry).tolist() for entry in range(len(joined.size))] == boundaries


def test_the_order_in_a_file_decides_nothing_among_nuclei_of_one_first_pixel_and_area():
    rng = np.random.default_rng(0)
    for _ in range(20):
        sides = np.zeros((2, 3, 12), bool)
        for mask in sides.reshape(6, 12):
            mask[[0, *(1 + rng.permutation(11)[:3])]] = True
        masks = sides.reshape(2, 3, 3, 4)
        before, after = (
            sums_of_joined(join(cases_of([[(side[::step], [1] * 3) for side in masks]]))) for step in (1, -1)
        )
        for name, values in before.items():
            assert values.tolist() == after[name].tolist(), name


# --- units that hold cases once, against scipy's sparse products ------------------------------------------------------


@pytest.mark.parametrize(("seed", "shape"), [(0, ()), (1, (1,)), (2, (7,))])
def test_sums_are_those_of_scipy_to_the_last_bit(seed: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    cases, sizes = 30, rng.integers(1, 30, 12)
    indices = np.concatenate([np.sort(rng.permutation(cases)[:size]) for size in sizes])
    unions = Unions(indices, np.concatenate([[0], np.cumsum(sizes)]), cases)
    numbers = rng.normal(size=(cases, *shape)) * 10.0 ** rng.integers(-9, 9, (cases, *shape))
    numbers[3] = np.nan
    for values in (numbers, rng.integers(-9, 9, (cases, *shape)), numbers > 0):
        for part in (slice(None), slice(4, 9), slice(11, 12)):
            expected = unions.tocsr()[part] @ values
            found = unions[part] @ values
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)


def test_the_median_of_units_needs_no_scipy_sparse() -> None:
    """Importing it takes longer than pooling all scores of a small data set."""
    program = """
import sys
import numpy as np
from nuclei_metrics.metrics.order_statistics import median_of_units
from nuclei_metrics.model.counts import Unions
from nuclei_metrics.model import Units

units = Units(None, Unions(np.array([0, 1, 1]), np.array([0, 2, 3]), 2))
print(median_of_units(np.array([1.0, 5.0, 2.0]), np.array([0, 0, 1]), units).tolist(), "scipy.sparse" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[2.0, 2.0] False"
