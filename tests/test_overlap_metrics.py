"""AJI, AJI+, DICE1, DICE2, splits and merges against their definitions on dense masks and numbers worked by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from literal import instances_of, pairs_of_images, position
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from sklearn.metrics import f1_score

from evaluation.matching.table import overlap_table
from evaluation.metrics import overlap
from evaluation.metrics.counts import join_cases
from evaluation.metrics.metric import of_outlines
from evaluation.metrics.overlap import count_overlaps
from evaluation.model import CaseTable, Matches, Units

SCORES = {
    "aji": overlap.aggregated_jaccard,
    "aji_plus": overlap.aggregated_jaccard_plus,
    "dice1": overlap.dice1,
    "dice2": overlap.dice2,
    "splits": overlap.splits,
    "merges": overlap.merges,
}


# --- from masks to scores -------------------------------------------------------------------------------------------


def masks_of(picture: str) -> np.ndarray:
    """One mask for each letter, in alphabetical order; rows are separated by blanks."""
    letters = np.array([list(row) for row in picture.split()])
    return np.array([letters == letter for letter in sorted(set(letters.flat) - {"."})]).reshape(-1, *letters.shape)


def greatest_iou_pairs(reference: np.ndarray, prediction: np.ndarray) -> Matches:
    """One to one, the greatest total IoU, by scipy on a dense matrix."""
    shape = len(reference), len(prediction)
    shared = np.array([[(r & p).sum() for p in prediction] for r in reference], int).reshape(shape)
    union = np.array([[(r | p).sum() for p in prediction] for r in reference], int).reshape(shape)
    rows, columns = linear_sum_assignment(shared / np.maximum(union, 1), maximize=True)
    kept = shared[rows, columns] > 0
    rows, columns = rows[kept], columns[kept]
    return Matches(rows.astype(np.int32), columns.astype(np.int32), shared[rows, columns], union[rows, columns])


def count(reference: np.ndarray, prediction: np.ndarray, pairs: Matches | None = None) -> dict[str, np.ndarray]:
    sides = [instances_of(masks, [1] * len(masks)) for masks in (reference, prediction)]
    if pairs is None:
        pairs = greatest_iou_pairs(reference, prediction)
    found = count_overlaps(join_cases([(*sides, overlap_table(*sides))]), pairs)
    sums = {name: of_cases[0] for name, of_cases in found.items()}
    confusion = np.array([[0, len(prediction)], [len(reference), 0]])
    return {**sums, "confusion": confusion, "cases": np.array(1), "missing": np.array(0), "points": np.array(0)}


def units_of(cases: list[dict[str, np.ndarray]], units: list[list[int]]) -> Units:
    """Units of cases, each a list of places."""
    sums = {name: np.stack([case[name] for case in cases]) for name in cases[0]}
    table = CaseTable(sums=sums, largest={}, area_mm2=np.ones(len(cases)), pairs=None, predictions=None)
    weights = np.array([np.bincount(unit, minlength=len(cases)) for unit in units])
    return Units(table, csr_array(weights))


def score(reference: np.ndarray, prediction: np.ndarray) -> dict[str, float | str]:
    units = units_of([count(reference, prediction)], [[0]])
    found = {name: function(units).at(0) for name, function in SCORES.items()}
    return {name: one.undefined or one.value for name, one in found.items()}


# --- the definitions, literally -------------------------------------------------------------------------------------


def literal_aji(reference: np.ndarray, prediction: np.ndarray) -> Fraction | None:
    shared = union = 0
    used = set()
    for r in reference:
        touching = [j for j, p in enumerate(prediction) if (r & p).any()]
        if not touching:
            union += int(r.sum())
            continue
        iou = {j: Fraction(int((r & prediction[j]).sum()), int((r | prediction[j]).sum())) for j in touching}
        partner = min(touching, key=lambda j: (-iou[j], position(prediction[j])))
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
    for piece in pieces:
        background = (piece & ~nuclei.any(axis=0)).sum()
        shared = [(piece & nucleus).sum() for nucleus in nuclei]
        best = min(range(len(nuclei)), key=lambda i: (-shared[i], position(nuclei[i])), default=None)
        if best is not None and shared[best] > background:
            assigned.append(best)
    return sum(assigned.count(i) > 1 for i in range(len(nuclei)))


@given(pairs_of_images(overlap=True) | pairs_of_images(overlap=False, most=9))
def test_scores_equal_their_definitions_on_dense_masks(pair):
    (reference, _), (prediction, _) = pair
    found = score(reference, prediction)
    for name, literal in (("aji", literal_aji), ("aji_plus", literal_aji_plus), ("dice2", literal_dice2)):
        expected = literal(reference, prediction)
        assert found[name] == ("no-instances" if expected is None else float(expected)), name
    if len(reference) + len(prediction):
        assert found["splits"] == literal_splits(reference, prediction)
        assert found["merges"] == literal_splits(prediction, reference)


@given(pairs_of_images(overlap=True) | pairs_of_images(overlap=False))
def test_dice1_is_the_f1_of_pixels_in_scikit_learn(pair):
    (reference, _), (prediction, _) = pair
    if len(reference) + len(prediction):
        foregrounds = reference.any(axis=0).ravel(), prediction.any(axis=0).ravel()
        assert score(reference, prediction)["dice1"] == pytest.approx(f1_score(*foregrounds), abs=1e-15)


# --- worked by hand -------------------------------------------------------------------------------------------------


def test_all_scores_of_a_small_picture():
    """Of A (6 px) 4 px are found, B (3 px) is cut in pieces of 2 and 1 px, C (2 px) is missed."""
    reference = masks_of("AAA.BBB.C AAA.....C")
    prediction = masks_of(".PP.QQR.. .PP......")
    found = score(reference, prediction)
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
    assert score(nucleus, masks_of(pieces))["splits"] == expected
    assert score(masks_of(pieces), nucleus)["merges"] == expected
    assert score(nucleus, masks_of(pieces))["merges"] == 0


def test_a_pixel_under_two_nuclei_of_a_side_is_one_pixel_of_the_foreground_and_not_background():
    reference = np.array([[[1, 1, 1, 0, 0, 0]], [[0, 1, 1, 1, 0, 0]]], bool)
    prediction = np.array([[[0, 1, 1, 1, 1, 1]]], bool)
    found = score(reference, prediction)
    assert found["dice1"] == 2 * 3 / (4 + 5)
    assert found["merges"] == 1  # both nuclei lie in it; with areas summed its background would be 5 - 5 = 0
    assert score(prediction, reference)["merges"] == 0


# --- when there is nothing ------------------------------------------------------------------------------------------

NOTHING = np.zeros((0, 2, 3), bool)
SOMETHING = np.array([[[1, 1, 0], [0, 0, 0]]], bool)


@pytest.mark.parametrize("name", SCORES)
def test_nothing_is_said_of_a_unit_in_which_a_case_has_points(name):
    points = {**count(SOMETHING, NOTHING), "points": np.array(1)}
    found = of_outlines(units_of([count(SOMETHING, SOMETHING), points], [[0], [0, 1]]), SCORES[name])
    assert found.at(0).value is not None
    assert found.at(1).undefined == "points-only"


# --- properties -----------------------------------------------------------------------------------------------------


def test_sums_add_up_over_cases_with_their_weights():
    cases = [count(masks_of("AAABB"), masks_of("PPPPP")), count(masks_of("AAA.."), masks_of(".PPP."))]
    found = overlap.aggregated_jaccard(units_of(cases, [[0], [1], [0, 1], [0, 1, 1]]))
    assert found.value.tolist() == [5 / 10, 2 / 4, 7 / 14, 9 / 18]
    assert overlap.merges(units_of(cases, [[0], [1], [0, 1, 1], [0, 0]])).value.tolist() == [1, 0, 1, 2]
