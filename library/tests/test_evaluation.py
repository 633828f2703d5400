"""Scores over many images: sums, means, parts, and the same digits in any order."""

from __future__ import annotations

import math
import pickle
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_sides import NOTHING, PREDICTION, REFERENCE, picture

from nuclei_metrics import Evaluation, ImagePair, Score, aji, panoptic_quality, threat_score
from nuclei_metrics.metrics import METRIC_FAMILIES

EVERY = [family for family in METRIC_FAMILIES if family not in ("covered", "overall", "sizes")]


def random_image(seed: int) -> dict:
    """Two label maps with classes and confidences."""
    draw = np.random.default_rng(seed)
    sides = [draw.integers(0, 7, (6, 8)) * (draw.random((6, 8)) < 0.7) for _ in range(2)]
    classes = [{label: 1 + label % 2 for label in range(1, 8)} for _ in range(2)]
    confidence = draw.choice([0.1, 0.3, 0.7], len(np.unique(sides[1][sides[1] > 0])))
    return {
        "reference": sides[0],
        "prediction": sides[1],
        "reference_class": classes[0],
        "prediction_class": classes[1],
        "confidence": confidence,
    }


def evaluated(seeds: list[int], groups: dict[int, str] | None = None) -> Evaluation:
    val = Evaluation(classes=["a", "b"], metrics=EVERY, iou=0.2, tolerance_px=1)
    for seed in seeds:
        val.update(**random_image(seed), group=None if groups is None else groups[seed])
    return val


def test_counts_of_all_images_are_added_before_the_formula():
    val = Evaluation()
    val.update(REFERENCE, PREDICTION)  # tp 2, fp 1, fn 1
    val.update(picture("aa"), picture(".."))  # fn 1
    assert val.compute()["detection.f1"] == Score(4 / 7)
    assert val.compute("images")["detection.f1"] == Score((2 / 3 + 0) / 2)
    assert len(val) == 2


def test_a_mean_leaves_out_what_is_undefined_and_counts_the_rest():
    val = Evaluation(metrics=["detection"])
    for prediction in (PREDICTION, NOTHING):
        val.update(REFERENCE, prediction)
    means = val.compute("images")
    assert (means["detection.precision"], means.units("detection.precision")) == (Score(2 / 3), 1)
    assert (means["detection.recall"], means.units("detection.recall")) == (Score(1 / 3), 2)


def test_groups_are_pooled_before_they_are_averaged():
    val = Evaluation(metrics=["detection"])
    val.update(REFERENCE, PREDICTION, group="one")
    val.update(REFERENCE, NOTHING, group="one")
    val.update(REFERENCE, REFERENCE, group="two")
    each = val.compute_each()
    assert {name: scores["detection.recall"].value for name, scores in each.items()} == {"one": 2 / 6, "two": 1.0}
    assert val.compute("groups")["detection.recall"] == Score((2 / 6 + 1) / 2)
    assert [s["detection.recall"].value for s in val.compute_each("images").values()] == [2 / 3, 0.0, 1.0]
    assert list(val.compute_each("images")) == [0, 1, 2]
    val.update(REFERENCE, REFERENCE)
    with pytest.raises(ValueError, match="an image has no group"):
        val.compute_each()
    assert val.compute("groups").units("detection.recall") == 3


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=5, unique=True), st.data())
def test_no_order_of_images_or_parts_changes_a_digit(seeds, data):
    groups = {seed: "abc"[seed % 3] for seed in seeds}
    whole = evaluated(seeds, groups)
    order = data.draw(st.permutations(seeds))
    cut = data.draw(st.integers(0, len(seeds)))
    parts = [evaluated(order[cut:], groups), evaluated(order[:cut], groups)]
    total = pickle.loads(pickle.dumps(parts[0])) + parts[1]
    for over in ("pooled", "groups", "images"):
        assert total.compute(over).to_dict() == whole.compute(over).to_dict()
    each = total.compute_each()
    assert {name: each[name].to_dict() for name in each} == {
        name: scores.to_dict() for name, scores in whole.compute_each().items()
    }


def test_parts_keep_their_own_images():
    parts = [evaluated([1]), evaluated([2])]
    total = parts[0] + parts[1]
    total.update(**random_image(3))
    assert [len(part) for part in (*parts, total)] == [1, 1, 3]
    with pytest.raises(ValueError, match="different rules"):
        parts[0] + Evaluation()


def test_one_image_has_the_scores_of_the_functions():
    for seed in range(5):
        image = random_image(seed)
        pair = ImagePair(**image)
        val = Evaluation(classes=["a", "b"], metrics=["panoptic", "overlap", "thresholds"])
        val.update(pair)
        found = val.compute()
        assert found["panoptic.binary.pq"] == panoptic_quality(image["reference"], image["prediction"])
        assert found["overlap.aji"] == aji(pair)
        every = threat_score(pair, iou=[0.5 + 0.05 * step for step in range(10)])
        assert found["thresholds.threat_score_iou50_95"].value == pytest.approx(every.value)


def test_names_of_papers_stand_for_metrics():
    val = Evaluation(classes=["a", "b"], metrics=["mPQ+", "AJI", "panoptic.binary.pq"])
    val.update(**random_image(1))
    pooled, images = val.compute(), val.compute("images")
    assert set(pooled) == {"panoptic.pq", "panoptic.binary.pq", "overlap.aji"}
    assert pooled["mPQ+"] == pooled["panoptic.pq"]
    assert images["mPQ"] == images["panoptic.pq"]
    assert images["bPQ"] == images["panoptic.binary.pq"]
    assert images["AJI"] == images["overlap.aji"]
    with pytest.raises(KeyError, match=r"panoptic.pq.pooled"):
        images["mPQ+"]
    with pytest.raises(KeyError, match="no score 'quality'"):
        pooled["quality"]


def test_a_name_with_several_readings_is_refused_with_them():
    val = Evaluation(classes=["a", "b"], metrics=["thresholds", "curves"])
    val.update(**random_image(1))
    with pytest.raises(KeyError, match=r"'AP50' over 'pooled' is 2 of these readings: curves.coco_map_iou50.pooled"):
        val.compute()["AP50"]
    assert val.compute("images")["AP50"] == val.compute("images")["thresholds.threat_score_iou50"]
    with pytest.raises(ValueError, match=r"'AP50' .*curves.coco_map_iou50.*thresholds.threat_score_iou50"):
        Evaluation(metrics=["AP50"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": ["detections"]}, "'detections' is no metric"),
        ({"metrics": ["detection.f3"]}, "no metric 'detection.f3'; expected one of .*detection.f1"),
        ({"metrics": ["sizes"]}, "no family 'sizes'; expected one of detection"),
        ({"metrics": "detection"}, "expected a list"),
        ({"classes": ["a", "a"]}, "with different names"),
    ],
)
def test_what_cannot_be_measured_is_a_value_error(given, message):
    with pytest.raises(ValueError, match=message):
        Evaluation(**given)


def test_a_class_beyond_the_classes_is_a_value_error():
    with pytest.raises(ValueError, match="class ids are 2 to 2, not 1 to 1"):
        Evaluation().update(picture("a"), picture("a"), reference_class=[2])
    with pytest.raises(ValueError, match="no image"):
        Evaluation().compute()


def test_centroids_may_be_the_rule():
    val = Evaluation(metrics=["detection"], radius_px=1)
    val.update(picture("a....b"), picture(".c...d"))
    assert val.compute()["detection.f1"] == Score(1.0)


def test_every_rule_changes_a_score():
    sides = picture("aa.bbb."), picture("c..ddd.")
    usual = {"classes": ["a", "b"], "metrics": ["detection", "segmentation", "thresholds"], "tolerance_px": 0.0}
    big = np.zeros((2, 9, 9), int)
    big[0, :, :] = 1
    big[1, :, :7] = 1

    def scores(**changed) -> dict:
        val = Evaluation(**{**usual, **changed})
        val.update(*sides, reference_class=[1, 2], prediction_class=[1, 1])
        val.update(*big)
        return val.compute().to_dict()

    for changed in (
        {"iou": 0.9}, {"strict": False}, {"class_aware": True}, {"radius_px": 0.1}, {"tolerance_px": 3.0},
        {"border": "open"},
    ):  # fmt: skip
        assert scores(**changed) != scores()
    assert scores(iou_thresholds=[0.9])["thresholds.f1_iou90"] == 2 / 6


def test_a_summary_is_a_table_and_a_plain_dict():
    val = Evaluation(metrics=["detection.f1", "detection.precision"])
    val.update(REFERENCE, NOTHING)
    assert repr(val.compute()) == "detection.precision  no-prediction\ndetection.f1         0.0000"
    assert val.compute().to_dict() == {"detection.precision": None, "detection.f1": 0.0}
    assert math.isnan(val.compute().to_dict(math.nan)["detection.precision"])


def test_equal_images_are_counted_each():
    val = Evaluation(metrics=["detection"])
    for _ in range(3):
        val.update(REFERENCE, PREDICTION)
    assert val.compute()["detection.f1"] == Score(2 / 3)
    assert val.compute("images").units("detection.f1") == 3


def test_any_order_of_three_patients_gives_one_mean():
    groups = {1: "a", 2: "b", 3: "c"}
    values = {evaluated(list(order), groups).compute("groups")["panoptic.pq"] for order in permutations(groups)}
    assert len(values) == 1
