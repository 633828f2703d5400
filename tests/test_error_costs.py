"""What errors cost, against fractions worked by hand, metrics.json, and submissions that make one kind of mistake."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.label_maps import draw_label_maps
from benchmarks.synthesis import Mistakes, seeded
from evaluation import Challenge, Instances, Result, instances_from_labels, score_instances
from evaluation.challenge import MATCHING_RULES
from evaluation.scoring.error_costs import HEADLINES, CaseErrors, count_error_kinds, error_costs
from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.metrics.counts import KINDS

IOU_RULE = {"name": "iou", "rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
RADIUS_RULE = {**IOU_RULE, "rule": "centroid_closest_first", "threshold": None, "radius_px": 6}
ANY_RULE = {**IOU_RULE, "rule": "best_iou_any_overlap", "threshold": None}
MONUSAC = Challenge.from_preset("monusac2020", name="test")
Images = Mapping[str, tuple[Instances, Instances | None]]


def challenge_of(unit: str = "pooled", rule: Mapping[str, Any] = IOU_RULE, **more: Any) -> Challenge:
    rule = {key: value for key, value in rule.items() if value is not None}
    aggregation = {"unit": unit, "undefined": more.pop("undefined", "skip")}
    matching = {"rules": [rule], **more.pop("matching", {})}
    return Challenge.from_preset("monusac2020", name="test", aggregation=aggregation, matching=matching, **more)


def side_of(picture: str, classes: str) -> Instances:
    """One nucleus for each letter of a row, in alphabetical order."""
    letters = np.array([list(picture)])
    names = sorted(set(letters.flat) - {"."})
    labels = sum((k * (letters == name) for k, name in enumerate(names, start=1)), np.zeros(letters.shape, int))
    return instances_from_labels(labels, np.array([int(digit) for digit in classes], np.int16))


def score_and_sort(challenge: Challenge, images: Images, groups: Mapping[str, str]) -> tuple[Result, list[CaseErrors]]:
    result = score_instances(challenge, images, groups=groups)
    rule = challenge.matching.rules[0].name
    return result, [count_error_kinds(case, rule) for case in result.cases]


def costs_of(challenge: Challenge, images: Images, groups: Mapping[str, str] | None = None) -> dict[str, Any]:
    """By the kind; that the scores as they are equal metrics.json holds every time."""
    result, errors = score_and_sort(challenge, images, groups or {})
    costs = json.loads(json.dumps(error_costs(result.challenge, errors), allow_nan=False))
    assert [kind["kind"] for kind in costs["kinds"]] == [*KINDS[1:]]
    assert costs["as_is"] == {path: result.value(path) for path in costs["as_is"]}
    return {kind["kind"]: {**kind, "as_is": costs["as_is"]} for kind in costs["kinds"]}


def gains(kind: Mapping[str, Any], *paths: str, aggregation: str = "pooled") -> list[float | None]:
    return [kind["cost"][f"{path}.{aggregation}"] for path in paths]


def near(*values: Fraction | float) -> Any:
    return pytest.approx([float(value) for value in values], abs=2e-6)


def numbers_of(costs: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Nuclei of reference and prediction, of the kinds that occur."""
    found = {name: (kind["reference"], kind["prediction"]) for name, kind in costs.items()}
    return {kind: numbers for kind, numbers in found.items() if any(numbers)}


# --- worked by hand -------------------------------------------------------------------------------------------------


F1, PRECISION, RECALL = "detection.f1", "detection.precision", "detection.recall"
PQ, BINARY_PQ, IOU, DICE = "panoptic.pq", "panoptic.binary.pq", "segmentation.iou", "segmentation.dice"
BALANCED, MACRO_F1 = "classification.balanced_accuracy", "classification.macro_f1"
AWARE = {**IOU_RULE, "class_aware": True}
BY_HAND = {  # reference and its classes, prediction and its classes, nuclei of each kind, what one of them costs
    # 3 of 4 found: F1 = RQ = 6/7. No score of the matched nuclei changes.
    "missed": ("AA.BB.CC.DD", "1111", "AA.BB.CC...", "111", {"missed": (1, 0)}, {
        F1: (1, 7), RECALL: (1, 4), PQ: (1, 7), "panoptic.binary.rq": (1, 7),
        PRECISION: (0, 1), BALANCED: (0, 1), IOU: (0, 1), "panoptic.sq": (0, 1)}),
    # Of class 1 one is named wrong with IoU 3/4, one right with 1: the missed one gets the average, 7/8.
    "missed, of a class that is named wrong": ("AAAA.BB.CC", "111", "AAA..BB...", "21",
        {"missed": (1, 0), "wrong_class": (1, 1)}, {BINARY_PQ: (7, 40)}),
    # Both found and named right, with IoU 3/4 and 2/3: all that PQ lacks is due to outlines.
    "poor_outline": ("AAAA.BBB", "11", "AAA..BB.", "11", {}, {
        PQ: (7, 24), "panoptic.sq": (7, 24), BINARY_PQ: (7, 24), IOU: (7, 24), DICE: (6, 35),
        F1: (0, 1), MACRO_F1: (0, 1), "panoptic.rq": (0, 1)}),
    # IoU 1/3: one missed and one spurious for the rule. F1 is 1/2.
    "poor_outline, below the threshold": ("AA.BBBB..", "11", "AA...BBBB", "11", {"poor_outline": (1, 1)},
        {F1: (1, 2), PQ: (1, 2)}),
    # Class 1: 1 right, 1 false negative, PQ 2/3; class 2: 1 right, 1 false positive, 2/3. Recalls 1/2 and 1.
    "wrong_class": ("A.B.C", "112", "A.B.C", "122", {"wrong_class": (1, 1)}, {
        BALANCED: (1, 4), PQ: (1, 3), "panoptic.rq": (1, 3), F1: (0, 1), IOU: (0, 1), BINARY_PQ: (0, 1)}),
    # With IoU 3/4 it is renamed: PQ of class 1 is (1 + 3/4) / 2, of class 2 undefined, from (1 / (3/2) + 0) / 2.
    "wrong_class, which keeps its outline": ("A.BBBB", "11", "A.BBB.", "12", {"wrong_class": (1, 1)}, {PQ: (13, 24)}),
    # 2 of 3 found, one missed and one spurious: F1 2/3. Classification is not scored.
    "wrong_class, under a class-aware rule": ("A.BBBB.C", "112", "A.BBB..C", "122", {"wrong_class": (1, 1)},
        {F1: (1, 3), IOU: (0, 1), MACRO_F1: None}),
    # 1 of 3 found something. A class that only predictions have is gone with them: PQ was (1 + 0) / 2.
    "spurious": ("A....", "1", "A.B.C", "122", {"spurious": (0, 2)},
        {PRECISION: (2, 3), RECALL: (0, 1), PQ: (1, 2), BINARY_PQ: (1, 2)}),
    # F1 was 2 / (2 + 1 + 2). Found, it is outlined like the other one, with IoU 1.
    "split": ("A.BBBBBBBBB", "11", "A.BBBBCCCC.", "111", {"split": (1, 2)}, {F1: (3, 5), PQ: (3, 5)}),
    # The larger one, 6 of 9 px, was found with IoU 6/9: so is the other, then.
    "merged": ("AAAAAABBB", "11", "AAAAAAAAA", "1", {"merged": (1, 0)}, {F1: (1, 3), IOU: (0, 1), BINARY_PQ: (2, 9)}),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_what_one_error_costs_is_worked_by_hand(name: str) -> None:
    kind, _, of = name.partition(", ")
    *sides, numbers, expected = BY_HAND[name]
    challenge = challenge_of(rule=AWARE if "class-aware" in of else IOU_RULE)
    costs = costs_of(challenge, {"a": (side_of(*sides[:2]), side_of(*sides[2:]))})
    assert numbers_of(costs) == numbers
    found = dict(zip(expected, gains(costs[kind], *expected), strict=True))
    assert found == {
        path: None if value is None else pytest.approx(value[0] / value[1], abs=2e-6)
        for path, value in expected.items()
    }
    others = [set(costs[other]["cost"].values()) for other in KINDS[1:] if other != kind]
    assert name not in ("missed", "poor_outline") or all(of == {0} for of in others)


def test_a_missed_nucleus_is_found_like_the_average_one_of_its_class_in_all_cases():
    """Class 1 has IoU 3/4 in one patient and 1 in the other, class 2 has 1: the missed one of class 1 gets 7/8."""
    images = {
        "a": (side_of("AAAA.BB.CCCC", "121"), side_of("AAA..BB.....", "12")),
        "b": (side_of("AAAA", "1"), side_of("AAAA", "1")),
    }
    costs = costs_of(challenge_of("group"), images, {"a": "P1", "b": "P2"})
    before, after = (Fraction(1, 2) + 1) / 2, ((Fraction(3, 4) + Fraction(7, 8)) / 2 + 1) / 2
    assert gains(costs["missed"], "panoptic.pq", aggregation="group_mean") == near((after - before) / 2)
    binary = (Fraction(3, 4) + 1 + Fraction(7, 8)) / 3 - Fraction(7, 4) / Fraction(5, 2)
    assert gains(costs["missed"], "panoptic.binary.pq", aggregation="group_mean") == near(binary / 2)
    unmoved = "segmentation.iou", "segmentation.dice", "classification.macro_f1"
    assert gains(costs["missed"], *unmoved, aggregation="group_mean") == [0, 0, 0]


def test_where_a_rule_cannot_ignore_classes_no_nucleus_is_misnamed(monkeypatch):
    """The rule may need a table of all pairs, which is too large if those of two classes are in it."""

    rule = MATCHING_RULES["iou_above"]
    match = rule.match

    def refuse(self, sides):
        if self.class_aware:
            return match(self, sides)
        raise TooManyPairs("pairs", 2, 1, by_reference=False)

    monkeypatch.setattr(rule, "match", refuse)
    challenge = challenge_of(rule={**IOU_RULE, "class_aware": True})
    assert numbers_of(costs_of(challenge, {"a": (side_of("A", "1"), side_of("A", "2"))})) == {"poor_outline": (1, 1)}


def test_means_over_groups_are_means_of_what_each_group_would_gain():
    """P1: 1 of 2 found, F1 2/3; P2, two cases: 2 of 2. With cases as units: 2/3, 1, 1."""
    one, two = side_of("AA.BB", "11"), side_of("AA...", "1")
    images = {"a": (one, two), "b": (two, two), "c": (two, two)}
    groups = {"a": "P1", "b": "P2", "c": "P2"}
    for unit, aggregation, gain in (
        ("group", "group_mean", Fraction(1, 6)),
        ("case", "case_mean", Fraction(1, 9)),
        ("pooled", "pooled", 1 - Fraction(6, 7)),
    ):
        costs = costs_of(challenge_of(unit), images, groups)
        assert gains(costs["missed"], "detection.f1", aggregation=aggregation) == near(gain)


def test_a_case_that_was_not_submitted_is_submitted_once_its_nuclei_are_found():
    """One patient with IoU 3/4 and one without a file. Its precision was the worst, 0, and is 1 then."""
    reference, prediction = side_of("AAAA", "1"), side_of("AAA.", "1")
    costs = costs_of(challenge_of("group"), {"a": (reference, prediction), "b": (reference, None)})
    assert numbers_of(costs) == {"missed": (1, 0)}
    paths = "detection.f1", "detection.precision", "panoptic.pq"
    assert gains(costs["missed"], *paths, aggregation="group_mean") == near(0.5, 0.5, 0.375)
    assert set(costs["split"]["cost"].values()) == {0}  # another kind: the case stays missing


@pytest.mark.parametrize("kind", ["missed", "split"])
def test_a_case_in_which_nothing_was_matched_costs_nothing_once_its_nuclei_are_found(kind):
    """Under ``undefined = "worst"`` an empty prediction counts as one that was not submitted."""
    prediction = side_of("....", "") if kind == "missed" else side_of("AABB", "11")
    costs = costs_of(challenge_of(undefined="worst"), {"a": (side_of("AAAA", "1"), prediction)})
    if kind == "split":
        assert numbers_of(costs) == {"split": (1, 2)}
    assert gains(costs[kind], "panoptic.pq", "detection.precision", "segmentation.iou") == [1, 1, 0]


def test_only_wrong_classes_cost_classification_and_only_poor_outlines_cost_segmentation():
    """Two are matched, one of them named wrong and outlined badly; of the others two are missed, one is split."""
    reference = side_of("A.BBBB.CC.DDDDDDDDEEEE..", "12121")
    prediction = side_of("a.bbb.....ddddeeee....gg", "11211")
    costs = costs_of(challenge_of(), {"a": (reference, prediction)})
    assert set(numbers_of(costs)) == {"missed", "spurious", "wrong_class", "split"}
    for kind in KINDS[1:]:
        [named, outlined] = gains(costs[kind], "classification.macro_f1", "segmentation.iou")
        assert (named > 0, outlined > 0) == (kind == "wrong_class", kind == "poor_outline")


# --- submissions that make one kind of mistake ----------------------------------------------------------------------

CONFUSION = [[0.7, 0.1, 0.1, 0.1], [0.2, 0.6, 0.1, 0.1], [0.0, 0.1, 0.8, 0.1], [0.1, 0.1, 0.1, 0.7]]
MISTAKES = {
    "missed": Mistakes(missed=0.2),
    "spurious": Mistakes(spurious=0.2),
    "wrong_class": Mistakes(confusion=CONFUSION),
    "poor_outline": Mistakes(grow_px=-2, roughen_px=1.5),
    "split": Mistakes(split=0.3),
    "merged": Mistakes(merged=0.3),
}


def drawn(mistakes: Mistakes, seed: int = 5, cases: int = 3) -> Images:
    images = {}
    for case in range(cases):
        maps = draw_label_maps(seeded(seed, case), (300, 400 + case), 60, mistakes)
        images[f"case{case}"] = (
            instances_from_labels(maps.reference, maps.reference_class),
            instances_from_labels(maps.prediction, maps.prediction_class),
        )
    return images


@pytest.mark.parametrize("kind", MISTAKES)
def test_the_cost_of_a_mistake_is_found_where_it_was_made(kind):
    """Drawn nuclei touch and overlap, so a few errors of other kinds come with them.

    A nucleus that is matched to the largest of its pieces, or to a prediction that covers others, too, has a poor
    outline: what splits and merges cost beyond that is seen in F1.
    """
    costs = costs_of(challenge_of(), drawn(MISTAKES[kind]))
    path = "detection.f1" if kind in ("split", "merged") else "panoptic.pq"
    cost = {name: gains(of_kind, path)[0] for name, of_kind in costs.items()}
    assert max(cost, key=cost.get) == kind
    assert cost[kind] > (1 - costs[kind]["as_is"][f"{path}.pooled"]) / 2


EVERYTHING = Mistakes(
    missed=0.1, spurious=0.1, confusion=CONFUSION, grow_px=-1, shift_px=1, roughen_px=1, split=0.1, merged=0.1
)
FAULTS = {"published_faults": ["reference_index", "unopened_masks"]}


@pytest.mark.parametrize("unit, rule, class_aware, undefined", [
    ("pooled", IOU_RULE, False, "worst"), ("group", IOU_RULE, True, "skip"), ("case", RADIUS_RULE, False, "worst"),
    ("group", RADIUS_RULE, True, "skip"), ("case", ANY_RULE, True, "skip"), ("group", ANY_RULE, False, "worst"),
])  # fmt: skip
def test_scores_as_they_are_equal_metrics_json(unit, undefined, rule, class_aware):
    """``costs_of`` compares; a case was not submitted, one is empty in the reference, one on both sides.

    Labels have no duplicates.
    """
    images = dict(drawn(EVERYTHING, cases=2))
    empty = instances_from_labels(np.zeros((300, 400), int), np.empty(0, np.int16))
    images |= {"d": (images["case0"][0], None), "e": (empty, images["case0"][1]), "f": (empty, empty)}
    groups = {"case0": "P1", "case1": "P2", "d": "P1", "e": "P3", "f": "P4"}
    costs = costs_of(challenge_of(unit, {**rule, "class_aware": class_aware}, undefined=undefined), images, groups)
    assert rule is ANY_RULE or set(numbers_of(costs)) == {*KINDS[1:]} - {"duplicate", "ignored"}
    assert {path.rpartition(".")[0] for path in costs["missed"]["as_is"]} == set(HEADLINES)


def test_published_faults_stay_when_spurious_predictions_go():
    """They add false positives that no prediction is, so there is nothing to take away."""
    rule, precision = {**IOU_RULE, "class_aware": True}, "detection.precision.pooled"
    images = {**drawn(EVERYTHING), "b": (side_of("A....", "1"), side_of("A.B.C", "122"))}  # class 2 is not opened
    with_faults, without = (costs_of(challenge_of(rule=rule, matching=more), images) for more in (FAULTS, {}))
    perfect, corrected = (
        of["spurious"]["as_is"][precision] + of["spurious"]["cost"][precision] for of in (without, with_faults)
    )
    assert with_faults["spurious"]["as_is"][precision] < corrected < perfect


def test_points_have_no_outlines_to_correct():
    def points(*places_and_classes: tuple[float, float, int]) -> Instances:
        *yx, classes = np.array(places_and_classes).T
        nothing = instances_from_labels(np.zeros((50, 60), int), np.empty(0, np.int16))
        ids = np.arange(len(classes))
        return replace(nothing, class_id=classes.astype(np.int16), source_id=ids, point_yx=np.stack(yx, axis=1))

    images = {"a": (points((5, 5, 1), (20, 20, 1), (40, 9, 2)), points((5, 6, 1), (20, 20, 2), (1, 50, 2)))}
    empty = instances_from_labels(np.zeros((50, 60), int), np.empty(0, np.int16))  # nothing says that these are points
    images |= {"b": (empty, empty), "c": (points((1, 1, 1)), None)}
    rules = {"families": ["detection", "classification", "panoptic"], "boundary": "open"}
    ranking = {**MONUSAC.ranking.model_dump(), "columns": [{"path": "detection.f1.pooled", "direction": "descending"}]}
    costs = costs_of(challenge_of(rule=RADIUS_RULE, metrics=rules, ranking=ranking), images)
    assert numbers_of(costs) == {"missed": (2, 0), "spurious": (0, 1), "wrong_class": (1, 1)}
    assert gains(costs["missed"], "detection.recall", "panoptic.pq") == [0.5, None]
    one_case_of_three_is_missing = Fraction(2, 3)
    assert gains(costs["wrong_class"], "classification.macro_f1") == near(Fraction(2, 3) * one_case_of_three_is_missing)
    assert all(set(costs[kind]["cost"].values()) <= {0, None} for kind in KINDS[4:])


def test_the_order_of_cases_and_the_way_through_a_worker_change_no_byte():
    result, errors = score_and_sort(challenge_of("group"), drawn(EVERYTHING), {"case0": "P1", "case2": "P1"})
    sent = [pickle.loads(pickle.dumps(case)) for case in errors[::-1]]
    assert error_costs(result.challenge, sent) == error_costs(result.challenge, errors)


# --- the document ---------------------------------------------------------------------------------------------------


def test_the_worked_example_of_the_document_is_right():
    page = (Path(__file__).resolve().parents[1] / "docs" / "report.md").read_text()
    pictures = re.findall(r"^(?:reference|prediction)  +([A-Za-z.]+)$", page, re.MULTILINE)
    sides = [side_of(picture, "1" * len({*picture} - {"."})) for picture in pictures]
    costs = costs_of(challenge_of(), {"a": (sides[0], sides[1])})
    rows = re.findall(r"^\| (\w+) \| (\d) \| (\d) \| (\S+) \| (\S+) \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == list(costs)
    for kind, reference, prediction, f1, pq in rows:
        cost = costs[kind]
        assert (cost["reference"], cost["prediction"]) == (int(reference), int(prediction))
        as_is = [cost["as_is"][f"{path}.pooled"] for path in ("detection.f1", "panoptic.pq")]
        corrected = [
            value + gain for value, gain in zip(as_is, gains(cost, "detection.f1", "panoptic.pq"), strict=True)
        ]
        assert corrected == near(Fraction(f1), Fraction(pq))
    total = sum(gains(cost, "panoptic.pq")[0] for cost in costs.values())
    assert [f"{value:.2f}" for value in (total, 1 - as_is[1])] == ["0.63", "0.85"]
