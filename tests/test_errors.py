"""Kinds of errors against pictures, and against their definitions on dense masks, nucleus by nucleus."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from literal import instances_of, iou, look_alikes, pairs_of_images, position

from evaluation.instances.labels import instances_from_labels
from evaluation.matching import match_best_iou_any_overlap, match_iou_above, overlap_table
from evaluation.metrics.errors import KINDS, ErrorKinds, sort_errors
from evaluation.model import Instances, Matches

NO_PAIRS = Matches(*np.empty((2, 0), np.int32), *np.empty((2, 0), np.int64))
Side = tuple[np.ndarray, list[int]]  # masks and classes


# --- from pictures to kinds -----------------------------------------------------------------------------------------


def side_of(picture: str, classes: str = "") -> Side:
    """One mask for each letter, in alphabetical order; rows are separated by blanks; all of class 1 if not given."""
    letters = np.array([list(row) for row in picture.split()])
    names = sorted(set(letters.flat) - {"."})
    masks = np.array([letters == name for name in names]).reshape(-1, *letters.shape)
    return masks, [int(digit) for digit in classes] or [1] * len(names)


def match_sides(reference: Instances, prediction: Instances, *, class_aware: bool = False) -> Matches:
    table = overlap_table(reference, prediction)
    return match_iou_above(table, reference, prediction, threshold=0.5, class_aware=class_aware)


def sort_sides(
    reference: Side, prediction: Side, *, class_aware: bool = False, matches: Matches | None = None
) -> ErrorKinds:
    sides = instances_of(*reference), instances_of(*prediction)
    return sort_errors(
        *sides,
        overlap_table(*sides),
        match_sides(*sides, class_aware=class_aware) if matches is None else matches,
        misnamed=match_sides(*sides) if class_aware else None,
    )


def names_of(found: ErrorKinds) -> tuple[str, str]:
    reference, prediction = (" ".join(KINDS[code] for code in side) for side in (found.reference, found.prediction))
    return reference, prediction


PICTURES = {
    "found": ("AAAA..", "aaaa..", "right", "right"),
    "found, a poor outline": ("AAAA..", ".aaa..", "right", "right"),
    "nothing predicted": ("AAAA..", "......", "missed", ""),
    "nothing there": ("......", ".aaaa.", "", "spurious"),
    "far from each other": ("AAA...", "...aaa", "missed", "spurious"),
    "IoU 2/6": ("AAAA..", "..aaaa", "poor_outline", "poor_outline"),
    "IoU 1/10": ("AAAAA.....", "....aaaaaa", "poor_outline", "poor_outline"),
    "IoU 1/11": ("AAAAA......", "....aaaaaaa", "missed", "spurious"),
    "the better of two": ("AAAAAA....", "a..bbbbbbb", "poor_outline", "spurious poor_outline"),
    "the better pair first": ("AAAA.BBBBB..", "..aaaaaaaa..", "missed right", "right"),
    "two halves": ("AAAAAAAA", "aaaabbbb", "split", "split split"),
    "three parts, one of them far too large": ("AAAAAAAA......", "aaaabbcccccccc", "split", "split split spurious"),
    "a part of a nucleus that was found": ("AAAAAAAAAA", "aaaaaaabbb", "right", "right split"),
    "half of a part lies outside": ("AAAA....", "aa.bb...", "poor_outline", "poor_outline spurious"),
    "parts of half a nucleus": ("AAAAAAAA", "aa..bb..", "poor_outline", "poor_outline spurious"),
    "parts of more than half a nucleus": ("AAAAAAAA", "aa..bbb.", "split", "split split"),
    "a speck is no part": ("A" * 11, "aaaaaaaaab.", "right", "right spurious"),
    "a tenth is a part": ("A" * 10, "aaaaaaaaab", "right", "right split"),
    "two nuclei in one": ("AAAABBBB", "aaaaaaaa", "merged merged", "merged"),
    "one of the two was found": ("AAAAAAABBB", "aaaaaaaaaa", "right merged", "right"),
    "half of a nucleus lies outside": ("AA.BB...", "aaaa....", "poor_outline missed", "poor_outline"),
    "split before merged": ("AAAAAAAAAABBB", "aaaabbbbbbbbb", "split missed", "split split"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_nucleus_of_a_picture_has_its_kind(name):
    reference, prediction, *expected = PICTURES[name]
    assert names_of(sort_sides(side_of(reference), side_of(prediction))) == tuple(expected)


def test_a_matched_pair_of_two_classes_is_a_wrong_class():
    found = sort_sides(side_of("AAA.BBB", "12"), side_of("aaa.bbb", "11"))
    assert names_of(found) == ("right wrong_class", "right wrong_class")


def test_under_a_class_aware_rule_a_pair_that_only_its_classes_keep_apart_is_a_wrong_class():
    """The same pair with a lower IoU has a poor outline, whatever its classes."""
    found = sort_sides(side_of("AAA.BBB...", "12"), side_of("aaa...bbbb", "21"), class_aware=True)
    assert names_of(found) == ("wrong_class poor_outline", "wrong_class poor_outline")


def test_kinds_follow_the_pairs_of_the_rule_and_not_the_overlap():
    """Under a loose rule one shared pixel is a found nucleus; under a strict one a good overlap may be no pair."""
    reference, prediction = side_of("AAAA........BBBB"), side_of("...aaaaaaaa.bbbb")
    sides = instances_of(*reference), instances_of(*prediction)
    loose = match_best_iou_any_overlap(overlap_table(*sides), *sides, class_aware=False)
    assert names_of(sort_sides(reference, prediction, matches=loose)) == ("right right", "right right")
    assert names_of(sort_sides(reference, prediction, matches=NO_PAIRS)) == (
        "missed poor_outline",
        "spurious poor_outline",
    )


def pairs_at(*places: tuple[int, int]) -> Matches:
    reference_index, prediction_index = np.array(places, np.int32).T
    return Matches(reference_index, prediction_index, np.ones(len(places), int), np.ones(len(places), int))


def test_points_are_right_missed_spurious_or_of_a_wrong_class():
    def points(classes: list[int]) -> Instances:
        nothing = instances_of(np.zeros((0, 9, 9), bool), [])
        places = np.arange(2.0 * len(classes)).reshape(-1, 2)
        ids = np.arange(len(classes))
        return replace(nothing, class_id=np.array(classes, np.int16), source_id=ids, point_yx=places)

    sides = points([1, 1, 2]), points([1, 2])
    pairs = pairs_at((0, 0), (1, 1))
    found = sort_errors(*sides, overlap_table(*sides), pairs)
    assert names_of(found) == ("right wrong_class missed", "right wrong_class")


# --- the definitions, literally -------------------------------------------------------------------------------------


def positions(side: Side) -> list[tuple[int, int, bytes, int]]:
    """What decides between equals: the position, then the class."""
    return [(*position(mask), class_id) for mask, class_id in zip(*side, strict=True)]


def literal_pieces(whole_side, pieces, whole_is_free, piece_is_free, pairs) -> dict[int, list[int]]:
    """The pieces of each nucleus that is covered in pieces. ``pairs``: (whole, piece)."""
    wholes, order = whole_side[0], positions(whole_side)
    of_whole: dict[int, list[int]] = {}
    for p, piece in enumerate(pieces):
        able = [
            w
            for w, whole in enumerate(wholes)
            if 2 * (whole & piece).sum() > piece.sum()
            and 10 * (whole & piece).sum() >= whole.sum()
            and (piece_is_free[p] or (w, p) in pairs)
        ]
        if able:
            most = max((wholes[w] & piece).sum() for w in able)
            best = [w for w in able if (wholes[w] & piece).sum() == most]
            of_whole.setdefault(min(best, key=lambda w: (order[w], w)), []).append(p)
    return {
        w: found
        for w, found in of_whole.items()
        if len(found) > 1
        and 2 * sum((wholes[w] & pieces[p]).sum() for p in found) > wholes[w].sum()
        and (whole_is_free[w] or any((w, p) in pairs for p in found))
    }


def literal_kinds(reference: Side, prediction: Side, matches: Matches, misnamed: list[tuple[int, int]]):
    """Kinds of both sides."""
    (left, left_class), (right, right_class) = reference, prediction
    of_left, of_right = ["missed"] * len(left), ["spurious"] * len(right)
    pairs = set()
    for i, j in zip(matches.reference_index.tolist(), matches.prediction_index.tolist(), strict=True):
        of_left[i] = of_right[j] = "right" if left_class[i] == right_class[j] else "wrong_class"
        pairs.add((i, j))
    for i, j in misnamed:
        if of_left[i] == "missed" and of_right[j] == "spurious" and left_class[i] != right_class[j]:
            of_left[i] = of_right[j] = "wrong_class"
            pairs.add((i, j))

    def free():
        return [kind == "missed" for kind in of_left], [kind == "spurious" for kind in of_right]

    left_free, right_free = free()
    for i, pieces in literal_pieces(reference, right, left_free, right_free, pairs).items():
        of_left[i] = "split" if left_free[i] else of_left[i]
        for j in pieces:
            of_right[j] = "split" if right_free[j] else of_right[j]
    left_free, right_free = free()
    swapped = {(j, i) for i, j in pairs}
    for j, pieces in literal_pieces(prediction, left, right_free, left_free, swapped).items():
        of_right[j] = "merged" if right_free[j] else of_right[j]
        for i in pieces:
            of_left[i] = "merged" if left_free[i] else of_left[i]
    of_a, of_b = positions(reference), positions(prediction)
    rivals = [
        (-iou(a, b), of_b[j], j, of_a[i], i)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if 10 * (a & b).sum() >= (a | b).sum()
    ]
    for *_, j, _, i in sorted(rivals):
        if of_left[i] == "missed" and of_right[j] == "spurious":
            of_left[i] = of_right[j] = "poor_outline"
    return of_left, of_right


@st.composite
def stripes(draw, *, most: int = 6):
    """Nuclei side by side in one row, so that many are split, merged and cut badly."""
    sides = []
    for _ in range(2):
        masks, end = np.zeros((most, 2, 48), bool), 0
        count = draw(st.integers(0, most))
        for index in range(count):
            end += draw(st.sampled_from([0, 0, 0, 1, 3]))
            length = draw(st.sampled_from([1, 2, 3, 4, 6, 9]))
            masks[index, : draw(st.sampled_from([1, 2, 2, 2])), end : end + length] = True
            end += length
        kept = masks[:count][masks[:count].any(axis=(1, 2))]
        sides.append((kept, draw(st.lists(st.integers(1, 2), min_size=len(kept), max_size=len(kept)))))
    return tuple(sides)


SCENES = st.one_of(stripes(), pairs_of_images(overlap=False), pairs_of_images(overlap=True))
RULES = st.sampled_from(["above", "any", "none"])


def pairs_of(rule: str, sides: tuple[Instances, Instances], *, class_aware: bool) -> Matches:
    if rule == "above":
        return match_sides(*sides, class_aware=class_aware)
    if rule == "any":
        return match_best_iou_any_overlap(overlap_table(*sides), *sides, class_aware=class_aware)
    return NO_PAIRS


@given(SCENES, RULES, st.booleans())
def test_kinds_are_those_of_the_definition(scene, rule, class_aware):
    reference, prediction = scene
    sides = instances_of(*reference), instances_of(*prediction)
    matches = pairs_of(rule, sides, class_aware=class_aware)
    blind = pairs_of(rule, sides, class_aware=False) if class_aware else None
    found = sort_errors(*sides, overlap_table(*sides), matches, misnamed=blind)
    misnamed = [] if blind is None else list(zip(blind.reference_index, blind.prediction_index, strict=True))
    of_left, of_right = literal_kinds(reference, prediction, matches, misnamed)
    assert names_of(found) == (" ".join(of_left), " ".join(of_right))


# --- properties -----------------------------------------------------------------------------------------------------


@given(SCENES, RULES)
def test_right_and_wrong_classes_are_the_pairs_and_the_rest_is_missed_and_spurious(scene, rule):
    sides = instances_of(*scene[0]), instances_of(*scene[1])
    matches = pairs_of(rule, sides, class_aware=False)
    found = sort_errors(*sides, overlap_table(*sides), matches)
    for side, other in ((found.reference, "spurious"), (found.prediction, "missed")):
        numbers = Counter(KINDS[code] for code in side)
        assert numbers["right"] + numbers["wrong_class"] == len(matches)
        assert numbers[other] == 0
    assert (found.reference == KINDS.index("poor_outline")).sum() == (
        found.prediction == KINDS.index("poor_outline")
    ).sum()


def test_a_long_row_in_which_each_pair_waits_for_the_one_before_it():
    """Nuclei side by side, predicted half a nucleus further on: round after round it would take an hour."""
    labels = np.repeat(np.arange(1, 50_001), 4)[np.newaxis]
    further = np.roll(labels, 2, axis=1)
    further[:, :2] = 0
    sides = instances_from_labels(labels), instances_from_labels(further)
    found = sort_errors(*sides, overlap_table(*sides), NO_PAIRS)
    assert (found.reference == KINDS.index("poor_outline")).all()


@given(stripes())
def test_swapping_the_sides_swaps_missed_with_spurious_and_split_with_merged(scene):
    """Where no nucleus could be in a split as well as in a merge (it is in the split), and no two pairs are equal."""
    (left, _), (right, _) = scene
    matches = match_sides(instances_of(*scene[0]), instances_of(*scene[1]))
    pairs = set(zip(matches.reference_index.tolist(), matches.prediction_index.tolist(), strict=True))
    found = {i for i, _ in pairs}, {j for _, j in pairs}
    free = [[k not in found[side] for k in range(len(masks))] for side, masks in enumerate((left, right))]
    splits = literal_pieces(scene[0], right, *free, pairs)
    merges = literal_pieces(scene[1], left, *free[::-1], {(j, i) for i, j in pairs})
    in_splits = {*splits}, {j for pieces in splits.values() for j in pieces}
    in_merges = {i for pieces in merges.values() for i in pieces}, {*merges}
    for side in (0, 1):
        assume(not any(free[side][k] for k in in_splits[side] & in_merges[side]))
    values = [value for a in left for b in right if (value := iou(a, b))]
    assume(len(values) == len(set(values)))

    swap = {"missed": "spurious", "spurious": "missed", "split": "merged", "merged": "split"}
    back = names_of(sort_sides(*scene[::-1]))[::-1]
    assert names_of(sort_sides(*scene)) == tuple(
        " ".join(swap.get(name, name) for name in side.split()) for side in back
    )


@given(SCENES | look_alikes(), st.randoms(use_true_random=False))
def test_the_order_of_nuclei_in_a_file_changes_no_kind(scene, random):
    for masks, _ in scene:
        assume(len({mask.tobytes() for mask in masks}) == len(masks))  # of nuclei in one place the first comes first
    orders = [random.sample(range(len(masks)), len(masks)) for masks, _ in scene]
    shuffled = [
        (masks[order], [classes[k] for k in order]) for (masks, classes), order in zip(scene, orders, strict=True)
    ]
    found, again = sort_sides(*scene), sort_sides(*shuffled)
    assert found.reference[orders[0]].tolist() == again.reference.tolist()
    assert found.prediction[orders[1]].tolist() == again.prediction.tolist()
