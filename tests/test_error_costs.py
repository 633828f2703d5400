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
from made_counts import counts_of

from benchmarks.label_maps import draw_label_maps
from evaluation import Challenge, ChallengeBroken, Instances, Result, instances_from_labels, score_instances
from evaluation.analysis.error_costs import (
    HEADLINES,
    CorrectedCase,
    ErrorCost,
    correct_case,
    costs_document,
    error_costs,
    fill_in_outlines,
    sort_case,
)
from evaluation.authoring.synthesis import Mistakes, seeded
from evaluation.challenge import MATCHING_RULES
from evaluation.findings import Finding
from evaluation.instances.prepare import PreparedReference
from evaluation.metrics.errors import KINDS
from evaluation.model import Region
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases

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


def score_and_correct(
    challenge: Challenge, images: Images, groups: Mapping[str, str]
) -> tuple[Result, list[CorrectedCase]]:
    result = score_instances(challenge, images, groups=groups)
    nothing = Region(np.empty(0, np.int64), np.empty(0, np.int64))
    rule = challenge.matching.rules[0].name
    corrected = []
    for case in result.challenge.cases:
        matched = match_case(
            result.challenge, case, PreparedReference(images[case.name][0], nothing), images[case.name][1]
        )
        measured = measure_cases(result.challenge, [matched])[0]
        corrected.append(correct_case(matched, measured, sort_case(result.challenge, matched), rule))
    return result, corrected


def costs_of(challenge: Challenge, images: Images, groups: Mapping[str, str] | None = None) -> dict[str, ErrorCost]:
    """By the kind; that the scores as they are equal metrics.json, and all corrected is perfect, holds every time."""
    result, corrected = score_and_correct(challenge, images, groups or {})
    costs = error_costs(result.challenge, corrected)
    assert all((counts.confusion >= 0).all() for case in corrected for counts in case.counts.values())
    assert [cost.kind for cost in costs] == [*KINDS[1:], "all"]
    for cost in costs:
        for score in cost.scores:
            assert (None if score.as_is is None else round(score.as_is, 6)) == result.value(score.path), score.path
    assert {score.corrected for score in costs[-1].scores} <= {1.0, None}
    return {cost.kind: cost for cost in costs}


def costs_at(cost: ErrorCost, *paths: str, aggregation: str = "pooled") -> list[Fraction | None]:
    by_path = {score.path.removesuffix(f".{aggregation}"): score.cost for score in cost.scores}
    return [None if by_path[path] is None else Fraction(by_path[path]).limit_denominator(10**6) for path in paths]


def numbers_of(costs: Mapping[str, ErrorCost]) -> dict[str, tuple[int, int]]:
    """Nuclei of reference and prediction, of the kinds that occur."""
    found = {kind: (cost.reference, cost.prediction) for kind, cost in costs.items() if kind != "all"}
    return {kind: numbers for kind, numbers in found.items() if any(numbers)}


# --- worked by hand -------------------------------------------------------------------------------------------------


def test_a_missed_nucleus_costs_finding_only():
    """3 of 4 found: F1 = RQ = 6/7, recall 3/4. No score of naming or outlining changes."""
    costs = costs_of(challenge_of(), {"a": (side_of("AA.BB.CC.DD", "1111"), side_of("AA.BB.CC...", "111"))})
    assert numbers_of(costs) == {"missed": (1, 0)}
    paths = "detection.f1", "detection.recall", "panoptic.pq", "panoptic.binary.rq"
    assert costs_at(costs["missed"], *paths) == [Fraction(1, 7), Fraction(1, 4), Fraction(1, 7), Fraction(1, 7)]
    unmoved = "detection.precision", "classification.balanced_accuracy", "segmentation.iou", "panoptic.sq"
    assert costs_at(costs["missed"], *unmoved) == [0, 0, 0, 0]
    assert all(score.cost == 0 for kind in KINDS[2:] for score in costs[kind].scores)


def test_a_missed_nucleus_is_found_like_an_average_one_of_its_class():
    """Class 1 is outlined with IoU 3/4, class 2 with 1. PQ is (3/4 / (3/2) + 1) / 2 = 3/4, corrected (3/4 + 1) / 2."""
    images = {"a": (side_of("AAAA.BB.CCCC", "121"), side_of("AAA..BB.....", "12"))}
    costs = costs_of(challenge_of(), images)
    assert costs_at(costs["missed"], "panoptic.pq", "panoptic.sq") == [Fraction(1, 8), 0]
    binary = (Fraction(3, 4) * 2 + 1) / 3 - (Fraction(3, 4) + 1) / Fraction(5, 2)
    assert costs_at(costs["missed"], "panoptic.binary.pq") == [binary.limit_denominator(10**6)]
    assert costs_at(costs["missed"], "segmentation.iou", "segmentation.dice") == [0, 0]


def test_poor_outlines_cost_outlining_only():
    """Both found and named right, with IoU 3/4 and 2/3: all that PQ lacks is due to outlines."""
    costs = costs_of(challenge_of(), {"a": (side_of("AAAA.BBB", "11"), side_of("AAA..BB.", "11"))})
    lost = 1 - (Fraction(3, 4) + Fraction(2, 3)) / 2
    assert numbers_of(costs) == {}
    paths = "panoptic.pq", "panoptic.sq", "panoptic.binary.pq", "segmentation.iou"
    assert costs_at(costs["poor_outline"], *paths) == [lost] * 4
    assert costs_at(costs["poor_outline"], "segmentation.dice") == [1 - (Fraction(6, 7) + Fraction(4, 5)) / 2]
    assert costs_at(costs["poor_outline"], "detection.f1", "classification.macro_f1", "panoptic.rq") == [0, 0, 0]
    assert all(score.cost == 0 for kind in KINDS[1:] if kind != "poor_outline" for score in costs[kind].scores)


def test_an_outline_below_the_threshold_costs_finding_too():
    """IoU 1/3: one missed and one spurious for the rule. F1 is 1/2."""
    costs = costs_of(challenge_of(), {"a": (side_of("AA.BBBB..", "11"), side_of("AA...BBBB", "11"))})
    assert numbers_of(costs) == {"poor_outline": (1, 1)}
    assert costs_at(costs["poor_outline"], "detection.f1", "panoptic.pq") == [Fraction(1, 2), Fraction(1, 2)]


def test_wrong_names_cost_naming_and_the_panoptic_quality_of_classes_but_not_finding():
    """Class 1: 1 right, 1 false negative, PQ 2/3; class 2: 1 right, 1 false positive, 2/3. Recalls 1/2 and 1."""
    costs = costs_of(challenge_of(), {"a": (side_of("A.B.C", "112"), side_of("A.B.C", "122"))})
    assert numbers_of(costs) == {"wrong_class": (1, 1)}
    paths = "classification.balanced_accuracy", "panoptic.pq", "panoptic.rq"
    assert costs_at(costs["wrong_class"], *paths) == [Fraction(1, 4), Fraction(1, 3), Fraction(1, 3)]
    unmoved = "detection.f1", "segmentation.iou", "panoptic.sq", "panoptic.binary.pq"
    assert costs_at(costs["wrong_class"], *unmoved) == [0] * 4


def test_under_a_class_aware_rule_wrong_names_cost_finding():
    """2 of 3 found, one missed and one spurious: F1 2/3. Classification is not scored."""
    images = {"a": (side_of("A.BBBB.C", "112"), side_of("A.BBB..C", "122"))}
    costs = costs_of(challenge_of(rule={**IOU_RULE, "class_aware": True}), images)
    assert numbers_of(costs) == {"wrong_class": (1, 1)}
    assert costs_at(costs["wrong_class"], "detection.f1") == [Fraction(1, 3)]
    iou = (2 + Fraction(3, 4)) / 3 - 1  # the nucleus that is found then has IoU 3/4
    assert costs_at(costs["wrong_class"], "segmentation.iou", "classification.macro_f1") == [
        iou.limit_denominator(10**6),
        None,
    ]


def test_where_a_rule_cannot_ignore_classes_no_nucleus_is_misnamed(monkeypatch):
    """The rule may need a table of all pairs, which is too large if those of two classes are in it."""

    rule = MATCHING_RULES["iou_above"]
    match = rule.match

    def refuse(self, sides):
        if self.class_aware:
            return match(self, sides)
        raise ChallengeBroken(Finding("too-large", "case 'a'", "too many pairs", "fewer"))

    monkeypatch.setattr(rule, "match", refuse)
    costs = costs_of(
        challenge_of(rule={**IOU_RULE, "class_aware": True}), {"a": (side_of("A", "1"), side_of("A", "2"))}
    )
    assert numbers_of(costs) == {"poor_outline": (1, 1)}


def test_spurious_predictions_cost_precision():
    """1 of 3 found something. A class that only predictions have is gone with them: PQ was (1 + 0) / 2."""
    costs = costs_of(challenge_of(), {"a": (side_of("A....", "1"), side_of("A.B.C", "122"))})
    assert numbers_of(costs) == {"spurious": (0, 2)}
    assert costs_at(costs["spurious"], "detection.precision", "detection.recall") == [Fraction(2, 3), 0]
    assert costs_at(costs["spurious"], "panoptic.pq", "panoptic.binary.pq") == [Fraction(1, 2), Fraction(1, 2)]


def test_a_split_nucleus_costs_a_miss_and_its_pieces():
    """Two halves of 4 of 9 px; united 8/9. F1 was 2 / (2 + 1 + 2)."""
    costs = costs_of(challenge_of(), {"a": (side_of("A.BBBBBBBBB", "11"), side_of("A.BBBBCCCC.", "111"))})
    assert numbers_of(costs) == {"split": (1, 2)}
    pq = (1 + Fraction(8, 9)) / 2 - 1 / Fraction(5, 2)
    assert costs_at(costs["split"], "detection.f1", "panoptic.pq") == [Fraction(3, 5), pq.limit_denominator(10**6)]


def test_merged_nuclei_cost_all_but_one_of_them():
    """The larger one, 6 of 9 px, was found with IoU 6/9. Parted, both have IoU 1."""
    costs = costs_of(challenge_of(), {"a": (side_of("AAAAAABBB", "11"), side_of("AAAAAAAAA", "1"))})
    assert numbers_of(costs) == {"merged": (1, 0)}
    assert costs_at(costs["merged"], "detection.f1", "segmentation.iou") == [Fraction(1, 3), Fraction(1, 3)]
    assert costs_at(costs["merged"], "panoptic.binary.pq") == [1 - Fraction(2, 3) / Fraction(3, 2)]


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
        assert costs_at(costs["missed"], "detection.f1", aggregation=aggregation) == [gain]


def test_a_case_that_was_not_submitted_costs_outlines_and_names_too():
    """One patient with IoU 3/4 and one without a file, who is penalised with IoU 0: found, both have 3/4."""
    reference, prediction = side_of("AAAA", "1"), side_of("AAA.", "1")
    costs = costs_of(challenge_of("group"), {"a": (reference, prediction), "b": (reference, None)})
    assert numbers_of(costs) == {"missed": (1, 0)}
    paths = "segmentation.iou", "detection.f1", "classification.macro_f1"
    gains = costs_at(costs["missed"], *paths, aggregation="group_mean")
    assert gains == [Fraction(3, 8), Fraction(1, 2), Fraction(1, 2)]


def test_where_nothing_was_ever_found_a_nucleus_is_found_perfectly():
    costs = costs_of(challenge_of(undefined="worst"), {"a": (side_of("AAAA", "1"), side_of("....", ""))})
    assert costs_at(costs["missed"], "panoptic.pq", "segmentation.iou") == [1, 0]


def test_only_wrong_classes_cost_naming():
    """Two nuclei are found, one of them is named wrong; of the others one each is missed, split and outlined poorly."""
    reference = side_of("A.B.CC.DDDD..EEEE.FFFF....", "121212")
    prediction = side_of("a.b......ddddeeff........g", "112121")
    costs = costs_of(challenge_of(), {"a": (reference, prediction)})
    assert set(numbers_of(costs)) == {"missed", "spurious", "wrong_class", "poor_outline", "split"}
    for kind in KINDS[1:]:
        [gain] = costs_at(costs[kind], "classification.macro_f1")
        assert (gain > 0) == (kind == "wrong_class")


def test_an_average_outline_is_that_of_the_class_in_the_unit_or_in_all_units_or_of_all_pairs():
    """Of pairs named right: class 1 has 0.6 in the first unit, 0.8 in the third; class 2 was never named right."""
    known = [
        counts_of([[0, 0, 0], [0, 1, 1], [0, 0, 0]], [0.6, 0.9]),
        counts_of(np.zeros((3, 3))),
        counts_of([[0, 0, 0], [0, 1, 0], [0, 0, 0]], [0.8]),
    ]
    found = [replace(c, measures={"iou": np.full(2, np.nan)}, pair_class=np.array([[1, 1], [2, 2]])) for c in known]
    filled = [c.measures["iou"].tolist() for c in fill_in_outlines(found, known, np.arange(3))]
    of_all = (0.6 + 0.9 + 0.8) / 3
    assert filled == [pytest.approx([value, of_all]) for value in (0.6, 0.7, 0.8)]


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
    """Drawn nuclei touch and overlap, so a few errors of other kinds come with them."""
    costs = costs_of(challenge_of(), drawn(MISTAKES[kind]))
    gains = {name: costs_at(costs[name], "panoptic.pq")[0] for name in (*KINDS[1:], "all")}
    loss = gains.pop("all")
    assert max(gains, key=gains.get) == kind
    assert gains[kind] > loss / 2


EVERYTHING = Mistakes(
    missed=0.1, spurious=0.1, confusion=CONFUSION, grow_px=-1, shift_px=1, roughen_px=1, split=0.1, merged=0.1
)
FAULTS = {"published_faults": ["reference_index", "unopened_masks"]}


@pytest.mark.parametrize("unit", ["pooled", "group", "case"])
@pytest.mark.parametrize("undefined", ["skip", "worst"])
@pytest.mark.parametrize("rule", [IOU_RULE, RADIUS_RULE, ANY_RULE], ids=lambda rule: rule["rule"])
@pytest.mark.parametrize("class_aware", [False, True])
def test_scores_as_they_are_equal_metrics_json_and_all_mended_is_perfect(unit, undefined, rule, class_aware):
    """``costs_of`` compares; a case was not submitted, one is empty in the reference, one on both sides."""
    images = dict(drawn(EVERYTHING, cases=2))
    empty = instances_from_labels(np.zeros((300, 400), int), np.empty(0, np.int16))
    images |= {"d": (images["case0"][0], None), "e": (empty, images["case0"][1]), "f": (empty, empty)}
    groups = {"case0": "P1", "case1": "P2", "d": "P1", "e": "P3", "f": "P4"}
    costs = costs_of(challenge_of(unit, {**rule, "class_aware": class_aware}, undefined=undefined), images, groups)
    assert rule is ANY_RULE or set(numbers_of(costs)) == set(KINDS[1:])
    paths = {".".join(path) for path in HEADLINES}
    assert {score.path.rpartition(".")[0] for score in costs["all"].scores} == paths


def test_published_faults_stay_until_everything_is_mended():
    """They add false positives that no prediction is, so there is nothing to take away."""
    rule, precision = {**IOU_RULE, "class_aware": True}, "detection.precision.pooled"
    images = {**drawn(EVERYTHING), "b": (side_of("A....", "1"), side_of("A.B.C", "122"))}  # class 2 is not opened
    with_faults, without = (costs_of(challenge_of(rule=rule, matching=more), images) for more in (FAULTS, {}))
    perfect = {score.path: score.corrected for score in without["spurious"].scores}[precision]
    found = {score.path: score for score in with_faults["spurious"].scores}[precision]
    assert found.as_is < found.corrected < perfect


def test_points_have_no_outlines_to_mend():
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
    paths = "detection.recall", "classification.macro_f1", "panoptic.pq"
    assert costs_at(costs["missed"], *paths)[::2] == [Fraction(1, 2), None]
    assert costs_at(costs["wrong_class"], *paths)[:2] == [
        0,
        Fraction(2, 3) * Fraction(2, 3),
    ]  # one case of 3 is missing
    assert all(
        costs[kind].scores == tuple(replace(s, corrected=s.as_is) for s in costs[kind].scores) for kind in KINDS[4:]
    )


def test_the_order_of_cases_and_the_way_through_a_worker_change_no_byte():
    result, corrected = score_and_correct(challenge_of("group"), drawn(EVERYTHING), {"case0": "P1", "case2": "P1"})
    sent = [pickle.loads(pickle.dumps(case)) for case in corrected[::-1]]
    assert error_costs(result.challenge, sent) == error_costs(result.challenge, corrected)


def test_the_document_holds_the_rounded_numbers_and_their_differences():
    costs = list(costs_of(challenge_of("case"), drawn(EVERYTHING)).values())
    document = json.loads(json.dumps(costs_document(costs), allow_nan=False))
    assert document["scores"] == [score.path for score in costs[0].scores]
    assert [kind["kind"] for kind in document["kinds"]] == [*KINDS[1:], "all"]
    for cost, kind in zip(costs, document["kinds"], strict=True):
        assert (kind["reference"], kind["prediction"]) == (cost.reference, cost.prediction)
        for score in cost.scores:
            assert kind["corrected"][score.path] == round(score.corrected, 6)
            assert kind["cost"][score.path] == round(kind["corrected"][score.path] - document["as_is"][score.path], 6)


# --- the document ---------------------------------------------------------------------------------------------------


def test_the_worked_example_of_the_document_is_right():
    page = (Path(__file__).resolve().parents[1] / "docs" / "errors.md").read_text()
    pictures = re.findall(r"^(?:reference|prediction)  +([A-Za-z.]+)$", page, re.MULTILINE)
    sides = [side_of(picture, "1" * len({*picture} - {"."})) for picture in pictures]
    costs = costs_of(challenge_of(), {"a": (sides[0], sides[1])})
    rows = re.findall(r"^\| (\w+) \| (\d) \| (\d) \| (\S+) \| (\S+) \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == list(costs)
    for kind, reference, prediction, f1, pq in rows:
        cost = costs[kind]
        assert (cost.reference, cost.prediction) == (int(reference), int(prediction))
        corrected = {score.path: score.corrected for score in cost.scores}
        assert corrected["detection.f1.pooled"] == pytest.approx(float(Fraction(f1)))
        assert corrected["panoptic.pq.pooled"] == pytest.approx(float(Fraction(pq)))
    gains = [costs_at(cost, "panoptic.pq")[0] for cost in costs.values()]
    assert [f"{float(gain):.2f}" for gain in (sum(gains[:-1]), gains[-1])] == ["0.78", "0.85"]
