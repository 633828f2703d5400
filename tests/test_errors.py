"""Kinds of errors, and hints at what would match."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from literal import instances_of, iou, look_alikes, pairs_of_images, position

import evaluation
from evaluation.folders.convert import convert_file
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import match_iou_above, overlap_table
from nuclei_metrics.matching.rules import match_best_iou_any_overlap
from nuclei_metrics.matching.table import find_twins
from nuclei_metrics.metrics.counts import KINDS, ErrorKinds, sort_errors
from nuclei_metrics.model import Instances, Matches

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


def test_a_pair_that_only_its_classes_keep_apart_is_a_wrong_class():
    """Matched or not: under a class-aware rule, a pair with a lower IoU has a poor outline, whatever its classes."""
    found = sort_sides(side_of("AAA.BBB", "12"), side_of("aaa.bbb", "11"))
    assert names_of(found) == ("right wrong_class", "right wrong_class")
    found = sort_sides(side_of("AAA.BBB...", "12"), side_of("aaa...bbbb", "21"), class_aware=True)
    assert names_of(found) == ("wrong_class poor_outline", "wrong_class poor_outline")


def test_an_unmatched_prediction_on_a_matched_one_is_a_duplicate():
    """Of a copy, a smaller one inside and one that shares half of it; beside nothing matched it is none."""
    pictures = ("aaaa......", "aaaa......", "aa........", "..aaaaa...", "......bbb.", "......bbb.")
    prediction = np.stack([np.array([list(row)]) != "." for row in pictures]), [1] * len(pictures)
    sides = instances_of(*side_of("AAAA......")), instances_of(*prediction)
    first = match_sides(*sides).prediction_index.tolist()
    found = sort_errors(*sides, overlap_table(*sides), match_sides(*sides), twins=find_twins(sides[1]))
    expected = ["duplicate"] * 3 + ["spurious"] * 3  # half of the smaller one is not more than half
    expected[first[0]] = "right"
    assert names_of(found) == ("right", " ".join(expected)) and first[0] < 2


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


def test_a_long_row_in_which_each_pair_waits_for_the_one_before_it():
    """Nuclei side by side, predicted half a nucleus further on: round after round it would take an hour."""
    labels = np.repeat(np.arange(1, 50_001), 4)[np.newaxis]
    further = np.roll(labels, 2, axis=1)
    further[:, :2] = 0
    sides = instances_from_labels(labels), instances_from_labels(further)
    found = sort_errors(*sides, overlap_table(*sides), NO_PAIRS)
    assert (found.reference == KINDS.index("poor_outline")).all()


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


# --- hints: what would match when nearly nothing does. Each mistake is made on purpose and must be named --------------


def scattered(seed: int, number: int = 40, side: int = 200) -> np.ndarray:
    """Ellipse-like nuclei that do not touch, on a square image, numbered from 1."""
    random = np.random.default_rng(seed)
    labels, label = np.zeros((side, side), np.int32), 0
    while label < number:
        y, x, height, width = (*random.integers(8, side - 8, 2), random.integers(4, 7), random.integers(4, 7))
        around = labels[max(0, y - 9) : y + 10, max(0, x - 9) : x + 10]
        dy, dx = np.ogrid[max(-y, -9) : 10, max(-x, -9) : 10][:2]
        dy, dx = dy[: around.shape[0]], dx[:, : around.shape[1]]
        if not around[dy**2 + dx**2 <= 81].any():
            label += 1
            around[(dy / height) ** 2 + (dx / width) ** 2 <= 1] = label
    return labels


def hinted(reference, prediction) -> str:
    found = evaluation.compare(reference, prediction)
    return " ".join(str(finding) for finding in found.findings if finding.code == "nearly-nothing-matches")


def third_of_transposed() -> np.ndarray:
    """Squares of which a third match where the image is transposed."""
    labels = np.zeros((200, 200), np.int32)
    places = [(n, n) for n in range(10)] + [(n, n + 3) for n in range(7)] + [(n, n + 5) for n in range(5)]
    for label, (row, column) in enumerate(places, start=1):
        labels[20 * row : 20 * row + 9, 20 * column : 20 * column + 9] = label
    return labels


def both(change) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [ONE, TWO], [np.ascontiguousarray(change(ONE)), np.ascontiguousarray(change(TWO))]


ONE, TWO, MANY, THIRD = scattered(1), scattered(2), scattered(3, 320, 640), third_of_transposed()
NO_NUCLEI = np.zeros_like(ONE)
IDS = np.where(MANY, np.where(MANY % 256, MANY % 256, 1) % 16 + 1, 0).astype(np.uint8)
NAMES, NEXT = [name for name in "TSL" for _ in range(14)][:40], {"T": "S", "S": "L", "L": "T"}
NUMBERS = [1 + index // 14 for index in range(40)]


@pytest.mark.parametrize("sides, words", [
    (both(np.transpose), ["Transposed, it is 100% (2 images were tried): are rows and columns"]),
    (both(np.fliplr), ["Mirrored left to right, it is 100%"]),
    (both(np.flipud), ["Mirrored top to bottom, it is 100%"]),
    (both(lambda labels: labels[::-1, ::-1]), ["Turned by 180 degrees, it is 100%"]),
    (both(np.rot90), ["Turned by 90 degrees, it is 100%"]),
    (both(lambda labels: np.rot90(labels, 3)), ["Turned by 270 degrees, it is 100%"]),
    (both(lambda labels: np.roll(labels, (-11, 17), (0, 1))), ["Moved by -17 px in x and 11 px in y"]),
    (both(lambda labels: np.pad(labels[::2, ::2], ((0, 100), (0, 100)))), ["2 times as large, it is"]),
    (both(lambda labels: np.where(labels > 6, 1, labels)),
     ["With a number for each region, it is 100% (2 images were tried): are the labels classes, not nuclei?"]),
    (both(lambda labels: np.where(labels, labels, 255)), []),  # a warning of each image says it: background-is-nucleus
    ((THIRD, THIRD.T.copy()), ["IoU > 0.5 for 45% of the nuclei", "Transposed, it is 100%"]),
    ((MANY, IDS), ["With a number for each region, it is 100% (1 image was tried): do ids restart in each tile"]),
    (({"a": ONE, "b": TWO}, {"a": TWO, "b": ONE}), ["Given to each other's images, it is 100%", "b for a"]),
    (((ONE, NAMES), (ONE, [NEXT[name] for name in NAMES])),
     ["the right class for 0% of the matched nuclei",
      "it is 100% ('T is L', 'L is S' and 'S is T'): are they in another order?"]),
    (((ONE, NUMBERS), (ONE, [number + 1 for number in NUMBERS])), ["are their numbers off by one?"]),
    *((([ONE, TWO], prediction), []) for prediction in (  # half of the nuclei, all, others, and none
        [np.where(ONE % 2, ONE, 0), np.where(TWO % 2, TWO, 0)], [ONE, TWO], [scattered(8), scattered(9)],
        [NO_NUCLEI, TWO], [NO_NUCLEI, NO_NUCLEI])),
])  # fmt: skip
def test_the_usual_mistakes_are_named(sides, words):
    said = hinted(*sides)
    assert bool(said) == bool(words)
    assert [text for text in words if text not in said] == []


PLACES = np.random.default_rng(4).permutation(400)[:60]
POINTS = np.stack([50.0 * (PLACES // 20) + 20, 30.0 * (PLACES % 20) + 7], axis=1)  # x up to 970, y up to 577


def hinted_of_points(prediction: np.ndarray, folder: Path) -> str:
    for side, points in (("reference", POINTS), ("prediction", prediction)):
        (folder / side).mkdir()
        rows = "".join(f"{x},{y}\n" for x, y in points)
        (folder / side / "a.csv").write_text(f"x,y\n{rows}")
    found = evaluation.compare(folder / "reference", folder / "prediction")
    return " ".join(str(finding) for finding in found.findings if finding.code == "nearly-nothing-matches")


@pytest.mark.parametrize("change, words", [
    (lambda points: points[:, ::-1], "Transposed, it is 100% (1 image was tried): are rows and columns"),
    (lambda points: 0.25 * points, "4 times as large, it is 100% (1 image was tried): is the image of"),
    (lambda points: 0.502 * points, "2 times as large, it is 100%"),
    (lambda points: 2 * points, "0.5 times as large, it is 100%"),
    (lambda points: 4 * points + 1, "0.25 times as large, it is 100%"),
    (lambda points: points - (31, -40), "Moved by 31 px in x and -40 px in y, it is 100%"),
    (lambda points: points, ""),
    (lambda points: points[:20], ""),
    (lambda points: points[::-1] * 0 + np.random.default_rng(5).uniform(0, 900, points.shape), ""),
])  # fmt: skip
def test_the_usual_mistakes_of_points_are_named(change, words, tmp_path):
    said = hinted_of_points(change(POINTS), tmp_path)
    assert words in said if words else said == ""
    assert not said or "a point within 12 px for" in said


def test_parts_of_an_outline_that_are_nuclei_are_named(tmp_path):
    ring = [[[x, 5], [x + 10, 5], [x + 10, 15], [x, 15], [x, 5]] for x in (5, 25, 45)]
    apart, together = [("Polygon", [one]) for one in ring], [("MultiPolygon", [[one] for one in ring])]
    for side, shapes in (("r", apart), ("p", together)):
        features = [
            {"type": "Feature", "properties": {}, "geometry": {"type": kind, "coordinates": coordinates}}
            for kind, coordinates in shapes
        ]
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    said = " ".join(map(str, evaluation.compare(tmp_path / "r", tmp_path / "p").findings))
    assert "are the parts of an outline separate nuclei? Write one outline for each nucleus." in said
    assert "scipy" not in said


def test_half_a_pixel_is_named(own_demo, tmp_path):
    """The same vertices as XML, whose whole numbers are pixel centres, and as GeoJSON, where they are corners."""
    for name in ("P2_1", "P2_2"):
        source = own_demo.challenge / "reference" / "P2" / f"{name}.xml"
        (tmp_path / "reference").mkdir(exist_ok=True)
        (tmp_path / "reference" / f"{name}.xml").write_bytes(source.read_bytes())
        convert_file(source, tmp_path / "prediction" / f"{name}.geojson", "geojson", origin="pixel_centre")
    found = evaluation.compare(tmp_path / "reference", tmp_path / "prediction")
    (hint,) = (finding for finding in found.findings if finding.code == "nearly-nothing-matches")
    assert "Moved by +0.5 px in x and y it is 1.00" in hint.fix
    assert "origin = 'pixel_centre'" in hint.fix
