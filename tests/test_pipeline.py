"""The whole street on instances in memory: the faults of published rankings, properties, and what a result says."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from every_format import write_challenge
from hypothesis import given, settings
from hypothesis import strategies as st
from literal import instances_of, pairs_of_images, points_of

from benchmarks.label_maps import count_label_maps, draw_label_maps
from benchmarks.synthesis import Mistakes
from evaluation import (
    Case,
    Challenge,
    ChallengeBroken,
    SubmissionRejected,
    check_submission,
    instances_from_labels,
    instances_from_outlines,
    score_instances,
    score_submission,
)
from evaluation.files.results.documents import as_json
from evaluation.report.result import is_lower_better
from evaluation.scoring import street as pipeline
from evaluation.scoring.match import CaseSides, MatchedCase, match_case, match_cases
from evaluation.scoring.measure import measure_cases
from nuclei_metrics import measure
from nuclei_metrics.instances.prepare import PreparedReference, apply_ignore_region, prepare_reference
from nuclei_metrics.instances.runs import empty_region, union_region
from nuclei_metrics.model import Instances, Outlines, Region
from nuclei_metrics.model.instances import join_instances


def challenge(**rules) -> Challenge:
    return Challenge.from_preset("monusac2020", name="test", **rules)


def three_squares(ids=(1, 2, 3), classes=(1, 1, 1), size: int = 6):
    labels = np.zeros((12, 40), int)
    for place, label in enumerate(ids):
        labels[3 : 3 + size, 3 + 12 * place : 3 + 12 * place + size] = label
    order = np.argsort(ids)
    return instances_from_labels(labels, np.array(classes)[order])


# --- the three faults of MoNuSAC 2020 -------------------------------------------------------------------------------


def test_shifting_all_label_ids_changes_nothing():
    """The published code removed the reference's index from the list of predictions: 0.667 instead of 1.0."""
    documents = [
        as_json(score_instances(challenge(), {"image": (three_squares(), three_squares(ids))}).metrics)
        for ids in ((1, 2, 3), (101, 102, 103), (30, 20, 10))
    ]
    assert documents[0] == documents[1] == documents[2]
    assert json.loads(documents[0])["panoptic"]["pq"]["pooled"] == 1.0


def test_a_prediction_of_a_class_that_the_reference_lacks_lowers_the_score():
    """The published code never opened the masks of classes without a reference."""
    reference = three_squares((1, 2), (1, 1))
    perfect, with_lymphocyte = three_squares((1, 2), (1, 1)), three_squares((1, 2, 3), (1, 1, 2))
    scores = [
        score_instances(challenge(), {"image": (reference, prediction)}).value("panoptic.pq.group_mean")
        for prediction in (perfect, with_lymphocyte)
    ]
    assert scores == [1.0, 0.5]


def test_splitting_an_image_of_a_patient_into_tiles_changes_no_pooled_or_group_score():
    """The published code averaged over sub-images."""
    rng = np.random.default_rng(4)
    sides = np.zeros((2, 40, 40), int)
    for label in range(1, 13):  # a grid of nuclei, none at the cut, where an open boundary would be another
        y, x = 2 + 13 * ((label - 1) // 4), 2 + 10 * ((label - 1) % 4)
        sides[0, y : y + 6, x : x + 6] = label
        if label % 5:
            dy, dx = rng.integers(0, 3, 2)
            sides[1, y + dy : y + dy + 6, x + min(dx, 1) : x + min(dx, 1) + 6] = label
    classes = ([1 + label % 4 for label in range(13)], [1 + label // 2 % 4 for label in range(13)])

    def instances_of_part(columns: slice):
        parts = zip(sides[:, :, columns], classes, strict=True)
        return [instances_from_labels(part, [of[label] for label in np.unique(part[part > 0])]) for part, of in parts]

    left, right = instances_of_part(slice(0, 20)), instances_of_part(slice(20, 40))
    of_whole = score_instances(challenge(), {"a": instances_of_part(slice(None))}, groups={"a": "P"})
    of_parts = score_instances(challenge(), {"a": left, "b": right}, groups={"a": "P", "b": "P"})
    for one, two in zip(of_whole.scores["iou_above"], of_parts.scores["iou_above"], strict=True):
        assert one.path == two.path
        assert one.means["pooled"].score == two.means["pooled"].score
        assert one.means["group_mean"].score == two.means["group_mean"].score
    assert of_whole.value("panoptic.pq.case_mean") != of_parts.value("panoptic.pq.case_mean")


# --- properties -----------------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(st.lists(pairs_of_images(overlap=True, most=4), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_cases_changes_no_byte(images, random):
    cases = {
        name: (instances_of(*reference), instances_of(*prediction))
        for name, (reference, prediction) in zip(("b1", "a2", "c0", "a1"), images, strict=False)
    }
    groups = {name: "PQ"[index % 2] for index, name in enumerate(cases)}
    shuffled = dict(random.sample(list(cases.items()), len(cases)))
    one, two = (score_instances(challenge(), order, groups=groups) for order in (cases, shuffled))
    assert one.texts() == two.texts()
    assert [result.case for result in two.cases] == sorted(
        two.challenge.cases, key=lambda case: (case.group, case.name)
    )


@settings(max_examples=20)
@given(pairs_of_images(overlap=True))
def test_found_and_missed_make_up_the_reference_and_found_and_spurious_the_prediction(pair):
    (reference, classes), (prediction, predicted) = pair
    result = score_instances(
        challenge(), {"a": (instances_of(reference, classes), instances_of(prediction, predicted))}
    )
    for units in result.units.values():
        confusion = units["pooled"].units.sum("confusion")[0]
        assert confusion[1:].sum() == len(reference)
        assert confusion[:, 1:].sum() == len(prediction)
        assert confusion.sum(axis=1)[1:].tolist() == [classes.count(c) for c in (1, 2, 3, 4)]


# --- what a result says ---------------------------------------------------------------------------------------------


def test_a_case_that_was_not_submitted_counts_with_the_worst_value():
    cases = {"a": (three_squares(), three_squares()), "b": (three_squares(), None)}
    result = score_instances(challenge(), cases)
    assert result.value("detection.recall.pooled") == 0.5
    assert result.value("detection.precision.pooled") == 0.5  # half of the cases are missing
    assert result.value("detection.f1.case_mean") == result.value("segmentation.iou.case_mean") == 0.5
    assert result.value("segmentation.hausdorff_px.case_mean") == pytest.approx(np.hypot(11, 39) / 2, abs=1e-6)
    means = result.details["means"]["iou_above"]["segmentation"]["iou"]
    assert means["case_mean"] == {"units": 2, "left_out": 0, "penalised": 1, "standard_deviation": None}


def test_an_empty_case_is_left_out_and_that_is_told():
    empty = instances_from_labels(np.zeros((5, 5), int))
    result = score_instances(challenge(), {"a": (three_squares(), three_squares()), "b": (empty, empty)})
    assert result.value("detection.f1.case_mean") == 1.0
    assert result.details["means"]["iou_above"]["detection"]["f1"]["case_mean"]["left_out"] == 1


def test_objects_list_every_nucleus_once_for_each_rule():
    result = score_instances(challenge(), {"a": (three_squares((1, 2), (1, 2)), three_squares((7, 8, 9), (1, 1, 3)))})
    rows = [line.split(",") for line in result.objects.splitlines()]
    assert rows[0][:5] == ["case", "group", "rule", "outcome", "reference_id"]
    assert [row[3:8] for row in rows[1:4]] == [
        ["matched", "1", "Epithelial", "36", "7"],
        ["matched", "2", "Lymphocyte", "36", "8"],
        ["spurious", "", "", "", "9"],
    ]
    assert len(rows) == 1 + 2 * 3


def test_metrics_are_strict_json_without_dots_in_keys_and_hold_no_counts():
    result = score_instances(challenge(), {"a": (three_squares(), three_squares())})
    text = as_json(result.metrics)
    assert len(text) < 100_000

    def keys(node):
        for key, value in node.items():
            yield key
            if isinstance(value, dict):
                yield from keys(value)

    assert not any("." in key for key in keys(json.loads(text)))
    assert "confusion" not in text
    assert "case a" not in text


def test_a_ranking_column_that_no_result_has_is_refused():
    broken = challenge(ranking={"columns": [{"path": "panoptic.pqs.group_mean", "direction": "descending"}]})
    with pytest.raises(ChallengeBroken, match=r"ranking\.columns.*Did you mean 'panoptic\.\w+\.group_mean'\?"):
        score_instances(broken, {"a": (three_squares(), three_squares())})


def test_unusable_case_names_are_refused():
    for name in ("../x", "", "a/b", "x" * 300):
        with pytest.raises(ValueError, match="cannot be the name"):
            score_instances(challenge(), {name: (three_squares(), three_squares())})


def test_outlines_labels_and_runs_of_the_same_nuclei_score_the_same():
    square = [(3, 3), (8, 3), (8, 8), (3, 8)]
    outlines = [np.add(square, (12 * place, 0)) for place in range(3)]
    from_outlines = instances_from_outlines(outlines, [1, 1, 1], (12, 40), overlap="last")
    result = score_instances(challenge(), {"a": (three_squares(), from_outlines)})
    assert result.value("segmentation.iou.pooled") == 1.0


SQUARE = [(0, 0), (3, 0), (3, 3), (0, 3)]


@pytest.mark.parametrize("ring, class_id, rules, told", [
    ([(x, y, 0.5) for x, y in SQUARE], 1, {}, r"outline 0 has vertices of shape \(4, 3\)"),
    ([(0, 0), (3, float("nan")), (3, 3)], 1, {}, "expected finite x and y"),
    ([0, 1, 2], 1, {}, r"shape \(3,\)"),
    ([0, 0, 3, 0, 3, 3], 1, {}, r"shape \(6,\)"),
    ([[[0, 0], [3, 0]]], 1, {}, r"shape \(1, 2, 2\)"),
    (5, 1, {}, r"shape \(\)"),
    (SQUARE, 1.7, {}, "one integer for each"),
    (SQUARE, 70000, {}, "expected 1 to C, C up to 32,767"),
    (SQUARE, [1, 2], {}, "one integer for each"),
    (SQUARE, np.ma.masked_equal([1], 1), {}, "classes are masked"),
    (SQUARE, 1, {"overlap": "best"}, "there is no rule 'best'; expected one of keep, last"),
    (SQUARE, 1, {"origin": "corner"}, "expected one of pixel_centre, pixel_corner"),
])  # fmt: skip
def test_outlines_of_another_form_are_refused(ring, class_id, rules, told):
    with pytest.raises(ValueError, match=told):
        instances_from_outlines(
            [ring], class_id if np.ndim(class_id) else [class_id], (6, 6), **{"overlap": "last", **rules}
        )


@pytest.mark.parametrize("outlines, shape, told", [
    (None, (6, 6), "outlines are None; expected a list"),
    ({"a": SQUARE}, (6, 6), r"outline 0 is of type str; expected x and y of each vertex, \(V, 2\)"),
    ([Instances], (6, 6), "outline 0 is of type type; expected x and y"),
    *(([SQUARE], shape, "shape_yx is .*; expected height and width of the image, whole numbers of px")
      for shape in (6, None, (6,), (6, 6, 3), (6.5, 6), ("6", "6"), (-1, 6), (2**40, 2**40))),
])  # fmt: skip
def test_what_is_no_list_of_outlines_in_an_image_is_refused(outlines, shape, told):
    with pytest.raises(ValueError, match=told):
        instances_from_outlines(outlines, [1], shape, overlap="last")


def test_contours_of_opencv_are_outlines_and_those_without_vertices_are_no_nuclei():
    contour = np.array(SQUARE, np.int32)[:, np.newaxis]
    for outlines, areas in (([], []), ([[], SQUARE], [16]), ([contour], [16])):
        found = instances_from_outlines(outlines, [1] * len(outlines), (6, 6), overlap="last")
        assert found.areas_px().tolist() == areas


def test_class_aware_matching_pairs_equal_classes_only():
    rule = {"name": "aware", "rule": "iou_above", "threshold": 0.5, "class_aware": True, "ties": "first_pixel"}
    ranking = {"columns": [{"path": "detection.f1.pooled", "direction": "descending"}]}
    cases = {"a": (three_squares(classes=(1, 1, 2)), three_squares(classes=(1, 1, 1)))}
    result = score_instances(challenge(matching={"rules": [rule]}, ranking=ranking), cases)
    assert result.value("detection.recall.pooled") == pytest.approx(2 / 3, abs=1e-6)
    assert result.metrics["undefined"]["classification"]["accuracy"]["pooled"] == "class-aware-matching"


def test_images_measured_together_are_measured_as_if_alone(monkeypatch):
    rng = np.random.default_rng(8)
    images = [draw_label_maps(rng, (150, 130), 12, Mistakes(grow_px=1, missed=0.1, shift_px=1)) for _ in range(5)]
    alone = [count_label_maps([maps])[0] for maps in images]
    for pairs in (1, 7, 2048):
        monkeypatch.setattr(measure, "OUTLINES_AT_ONCE", pairs)
        for one, together in zip(alone, count_label_maps(images), strict=True):
            for name in ("hausdorff_px", "hausdorff95_px"):
                assert one.measures[name].tolist() == together.measures[name].tolist()


def test_leaving_out_a_hard_case_of_a_patient_does_not_pay():
    """Metrics that missed nuclei do not enter are mixed with their worst value by the share of missing cases."""
    easy, hard = three_squares(), three_squares(size=6)
    rough = three_squares((1, 2, 3, 4)[:3], size=5)
    groups = {"a": "P", "b": "P"}
    handed_in, left_out = (
        score_instances(challenge(), {"a": (easy, easy), "b": (hard, prediction)}, groups=groups)
        for prediction in (rough, None)
    )
    for one, two in zip(handed_in.scores["iou_above"], left_out.scores["iou_above"], strict=True):
        before, after = one.means["group_mean"].score.value, two.means["group_mean"].score.value
        if before is not None and after is not None:
            assert after >= before if is_lower_better(one.path[-1]) else after <= before, one.path


def test_a_missing_prediction_is_refused_if_the_challenge_rejects_those():
    strict = challenge(submission={"missing_case": "reject"})
    with pytest.raises(SubmissionRejected, match=r"\[missing-case\] case 'a'"):
        score_instances(strict, {"a": (three_squares(), None)})
    with pytest.raises(ValueError, match="no images"):
        score_instances(challenge(), {})


@pytest.mark.parametrize("labels, classes, message", [
    (np.array([[-1, 0, 3]]), None, "labels are from -1 to 3"),
    (np.array([[1.5, 0.0]]), None, "not all whole numbers, such as 1.5; of probabilities make labels"),
    (np.array([[1.0, np.nan]]), None, "write 0 for NaN, numpy.nan_to_num"),
    (np.array([[1.0, 1e300]]), None, "number the nuclei anew"),
    (np.ones((2, 2, 2), int), None, "not whole numbers of shape"),
    (np.array([[2**64 - 1, 0]], np.uint64), None, "labels are from"),
    (np.array([[1, 0, 2]]), [2], r"\(1,\) classes"),
    (np.array([[1, 0, 2]]), [1.9, 2.7], "one integer for each"),
    (np.array([[1, 0, 2]]), [1, 70_000], "class ids are from"),
])  # fmt: skip
def test_label_maps_that_make_no_sense_are_refused(labels, classes, message):
    with pytest.raises(ValueError, match=message):
        instances_from_labels(labels, classes)
    for class_id in (-1, 1.5, 40_000, None, "a"):
        with pytest.raises(ValueError, match=r"class ids are from|one integer for each"):
            instances_from_labels(np.array([[1, 0, 2]]), class_id=class_id)


@pytest.mark.parametrize("overlap", ["keep", "last", "first", "smallest", "class_order", "ignore"])
@pytest.mark.parametrize(
    "policy, fraction", [("clip", None), ("drop_overlapping", 0.3), ("drop_centroid", None), ("drop_unmatched", 0.3)]
)
def test_a_perfect_submission_is_perfect_under_every_policy(overlap, policy, fraction):
    """Two nuclei that overlap, one under an ignore region, one touching it."""
    boxes = [((2, 2, 9, 9), 1), ((6, 4, 14, 9), 2), ((20, 2, 26, 8), 1), ((30, 2, 38, 8), 1), ((28, 0, 33, 12), -1)]
    rings = [np.array([(a, b), (c, b), (c, d), (a, d)], float) for (a, b, c, d), _ in boxes]
    outlines = Outlines(
        np.concatenate(rings),
        np.arange(0, 21, 4),
        np.arange(5, dtype=np.int32),
        np.zeros(5, bool),
        np.array([class_id for _, class_id in boxes], np.int16),
        np.arange(5).astype(object),
    )
    rules = {"overlap": overlap, "ignore": {"policy": policy, **({"fraction": fraction} if fraction else {})}}
    if overlap == "ignore" and policy not in ("clip", "drop_unmatched"):
        with pytest.raises(ChallengeBroken, match="contested pixels must leave both sides"):
            challenge(reference=rules)
        return
    rules_of_challenge = challenge(reference=rules)
    common = {"overlap_scope": "image", "vanished": "drop", "vertices": "exact", "origin": "pixel_centre"}
    case = Case("a", "a", 14, 44)
    reference = prepare_reference(
        [outlines], case.shape_yx, overlap=overlap, ignore_policy=policy, ignore_fraction=fraction, **common
    )
    # What a participant hands in: every nucleus, as the overlap rule leaves it, before ignore regions are applied.
    scored = outlines.class_id > 0
    handed_in = instances_from_outlines(
        [ring for ring, kept in zip(rings, scored, strict=True) if kept],
        outlines.class_id[scored],
        case.shape_yx,
        overlap="keep" if overlap == "ignore" else overlap,
    )
    result = pipeline.summarise(
        rules_of_challenge,
        measure_cases(rules_of_challenge, [match_case(rules_of_challenge, case, reference, handed_in)]),
    )
    assert result.value("detection.f1.pooled") == 1.0
    assert result.value("segmentation.iou.pooled") == 1.0
    assert result.value("segmentation.hausdorff_px.pooled") == 0.0


def test_nuclei_outside_the_image_are_told_and_a_submission_of_nothing_else_is_refused(tmp_path):
    """A participant who writes mm where the challenge asks for px must not get a silent zero."""
    folder, submission = write_challenge("polygons_json", tmp_path)
    documents = {path: json.loads(path.read_text()) for path in sorted(submission.glob("*.json"))}

    def move_outside(polygons: slice) -> None:
        for path, document in documents.items():
            for polygon in document["polygons"][polygons]:
                polygon["path_points"] = [[x + 100, y, 0.5] for x, y, _ in polygon["path_points"]]
            path.write_text(json.dumps(document))

    move_outside(slice(0, 1))
    result = score_submission(folder, submission)
    got = "1 of 3 nuclei is outside the image or covers no pixel"
    assert [finding.got for finding in result.findings] == [got] * 3
    move_outside(slice(1, 3))
    with pytest.raises(SubmissionRejected, match="all 9 nuclei are outside their images"):
        score_submission(folder, submission)
    _, findings = check_submission(folder, submission)
    assert {finding.code for finding in findings} == {"outside-image", "everything-outside"}


def matched_and_spurious(policy: str, fraction: float | None, *boxes) -> tuple[int, list[int]]:
    """How many predictions match, and the areas of the others; boxes are (top, left, bottom, right)."""
    labels = np.zeros((20, 40), int)
    labels[2:12, 14:24] = 1  # four of ten columns in the region
    region = union_region(instances_from_labels((np.arange(40) >= 20).astype(int)[None].repeat(20, 0)))
    parts = [np.zeros((20, 40), int) for _ in boxes]
    for part, (top, left, bottom, right) in zip(parts, boxes, strict=True):
        part[top:bottom, left:right] = 1
    ignore = {"policy": policy, **({"fraction": fraction} if fraction else {})}
    rules_of_challenge = challenge(reference={"ignore": ignore})
    reference = apply_ignore_region(instances_from_labels(labels, class_id=1), region, policy, fraction)
    matched = match_case(
        rules_of_challenge,
        Case("a", "a", 20, 40),
        PreparedReference(reference, region),
        join_instances([instances_from_labels(part, class_id=1) for part in parts], (20, 40)),
    )
    found = next(iter(matched.matches.values())).prediction_index
    return len(found), np.delete(matched.table.prediction_area_px, found).tolist()


def test_small_cases_matched_as_one_image_are_matched_as_each_alone():
    """Of other sizes, with touching and overlapping nuclei of the reference, empty, and not submitted."""
    rng = np.random.default_rng(5)
    rules = [
        {"name": "low", "rule": "iou_above", "threshold": 0.1, "class_aware": False, "ties": "first_pixel"},
        {"name": "centre", "rule": "best_iou_centroid_inside", "class_aware": True, "ties": "first_pixel"},
        {"name": "near", "rule": "centroid_closest_first", "class_aware": True, "ties": "first_pixel", "radius_px": 9},
    ]
    rules_of_challenge = challenge(matching={"rules": rules})
    cases = []
    for index, (height, width) in enumerate([(20, 30), (31, 17), (12, 44), (20, 30), (9, 9)]):
        labels = rng.integers(0, 9, (2, -(-height // 4), -(-width // 5))).repeat(4, 1).repeat(5, 2)[:, :height, :width]
        reference, prediction = (instances_from_labels(side, class_id=1) for side in labels)
        if index == 3:
            reference = join_instances([reference, instances_from_labels(labels[1] % 3, class_id=1)], (height, width))
        submitted = None if index == 4 else prediction
        prepared = PreparedReference(reference, empty_region())
        cases.append(CaseSides(Case(str(index), "a", height, width), prepared, submitted))
    for together, case in zip(match_cases(rules_of_challenge, cases), cases, strict=True):
        alone = match_case(rules_of_challenge, case.case, case.reference, case.prediction)
        assert isinstance(together, MatchedCase)
        tables = (together.table, *together.matches.values()), (alone.table, *alone.matches.values())
        for one, other in zip(*tables, strict=True):
            for field in fields(one):
                assert getattr(one, field.name).tolist() == getattr(other, field.name).tolist()
        assert together.submitted == alone.submitted
        assert together.ignored is alone.ignored is None


@pytest.mark.parametrize("policy, fraction, boxes, matched, spurious", [
    # Nine tenths of 100 px lie inside: a nucleus of 10 px is left of it under clip, and nothing under the void rule.
    ("clip", None, [(5, 19, 15, 29)], 0, [10]), ("drop_unmatched", 0.5, [(5, 19, 15, 29)], 0, []),
    # Exactly the fraction stays.
    ("drop_unmatched", 0.5, [(5, 15, 15, 25)], 0, [50]), ("drop_unmatched", 0.5, [(5, 16, 15, 26)], 0, []),
    # A match stays however much of it lies inside: what is left of both sides are the same 60 px; 140 px lay inside.
    ("drop_unmatched", 0.5, [(2, 14, 12, 34)], 1, []), ("drop_unmatched", 0.5, [(2, 14, 12, 34)] * 2, 1, []),
    ("clip", None, [(2, 14, 12, 34)] * 2, 1, [60]),
])  # fmt: skip
def test_what_becomes_of_predictions_in_an_ignore_region(policy, fraction, boxes, matched, spurious):
    assert matched_and_spurious(policy, fraction, *boxes) == (matched, spurious)


def test_points_in_an_ignore_region_leave():
    """A reference of outlines with predictions of points."""
    region = Region(np.array([0]), np.array([5]))
    points = points_of([(0.2, 2.0), (0.2, 7.0), (-3.0, 2.0)], shape_yx=(4, 10))
    for policy in ("clip", "drop_centroid", "drop_overlapping", "drop_unmatched"):
        assert apply_ignore_region(points, region, policy, 0.5).source_id.tolist() == [1, 2]


CONFIDENCE = {"level": 0.9, "samples": 200, "seed": 4, "method": "percentile", "resample": "groups"}


def patients(**rules):
    """Four patients of two images each, of two organs; each has other mistakes."""
    images, groups, strata = {}, {}, {}
    for index in range(8):
        reference, prediction = three_squares(), three_squares((1, 2, 3)[: 1 + (index + 1) // 3], size=5 + index % 2)
        name = f"image {index}"
        images[name], groups[name] = (reference, prediction), f"P{index // 2}"
        strata[name] = "kidney" if index < 2 else "lung"
    return score_instances(challenge(**rules), images, groups=groups, strata=strata)


def test_confidence_intervals_stand_beside_the_numbers_that_they_belong_to():
    result = patients(confidence=CONFIDENCE)
    found = result.metrics["confidence_intervals"]
    for path in (("detection", "recall"), ("segmentation", "iou_median"), ("panoptic", "pq")):
        interval = found[path[0]][path[1]]["group_mean"]
        assert interval["low"] <= result.value(".".join((*path, "group_mean"))) <= interval["high"]
        assert interval["low"] < interval["high"]
    assert "per_class" not in found["detection"]
    assert set(found["panoptic"]["pq"]) == {"group_mean"}  # the unit of the challenge
    assert "confidence_intervals" not in patients().metrics


def test_the_columns_of_confidence_intervals_may_be_chosen():
    other = "alternatives.best_iou_centroid_inside.detection.f1.case_mean"
    columns = ("detection.recall.pooled", "panoptic.pq.stratum_mean", other)
    result = patients(confidence={**CONFIDENCE, "columns": columns})
    assert {".".join(path) for path in result.intervals} == set(columns)
    alternative = result.metrics["confidence_intervals"]["alternatives"]["best_iou_centroid_inside"]
    assert alternative["detection"]["f1"]["case_mean"]["low"] > 0
    with pytest.raises(ChallengeBroken, match=r"confidence\.columns.*Did you mean"):
        patients(confidence={**CONFIDENCE, "columns": ("detection.recal.pooled",)})


def test_one_patient_has_no_confidence_interval_and_the_reason_is_told():
    result = score_instances(challenge(confidence=CONFIDENCE), {"a": (three_squares(), three_squares())})
    assert result.metrics["confidence_intervals"]["detection"]["f1"]["group_mean"] == {"low": None, "high": None}
    assert result.metrics["undefined"]["confidence_intervals"]["detection"]["f1"]["group_mean"] == "one-group"


def test_the_mean_over_strata_weighs_organs_and_not_patients():
    result = patients()
    kidney, *lung = group_values(result, "detection.recall")
    assert result.value("detection.recall.stratum_mean") == pytest.approx((kidney + sum(lung) / 3) / 2, abs=1e-6)
    assert result.value("detection.recall.stratum_mean") != result.value("detection.recall.group_mean")


def group_values(result, path):
    family, metric = path.split(".")
    groups = result.details["groups"]
    return [groups[name]["rules"]["iou_above"]["scores"][family][metric] for name in ("P0", "P1", "P2", "P3")]


def test_strata_may_be_pooled_before_they_are_averaged():
    result = patients(aggregation={"unit": "pooled"})
    strata = result.details["strata"]
    values = [strata[organ]["rules"]["iou_above"]["scores"]["detection"]["f1"] for organ in ("kidney", "lung")]
    assert result.value("detection.f1.stratum_mean") == pytest.approx(sum(values) / 2, abs=1e-6)
