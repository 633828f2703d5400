"""What a third reading of the metric engine found, each with the numbers that were wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from literal import instances_of

from evaluation import Challenge, score_instances
from evaluation.challenge.cases import read_cases
from evaluation.findings.errors import ChallengeBroken
from evaluation.model import Instances

TWO_SQUARES = np.zeros((2, 20, 20), bool)
TWO_SQUARES[0, 2:6, 2:6] = TWO_SQUARES[1, 10:14, 10:14] = True


def squares(*classes: int) -> Instances:
    return instances_of(TWO_SQUARES, classes)


def challenge(families: list[str], preset: str = "monusac2020", undefined: str = "worst", **metrics: Any) -> Challenge:
    return Challenge.from_preset(
        preset,
        name="test",
        classes=[{"name": name} for name in "abc"],
        metrics={"families": families, "boundary": "open", **metrics},
        aggregation={"unit": "case", "undefined": undefined},
        ranking={"columns": []},
    )


# --- class groups -----------------------------------------------------------------------------------------------------


def test_an_image_without_a_nucleus_of_any_group_is_left_out_and_charged_nothing():
    """Its nuclei were found and named, but a grouping need not have all classes: there is nothing to measure."""
    grouped = challenge(["classification"], class_groups={"coarse": {"x": ["a"], "y": ["b"]}})
    images = {"with": (squares(1, 2), squares(1, 2)), "without": (squares(3, 3), squares(3, 3))}
    result = score_instances(grouped, images)
    for name in ("accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "kappa"):
        assert result.value(f"classification.grouped.coarse.{name}.case_mean") == 1.0, name


def test_an_image_whose_grouped_nuclei_were_found_under_other_classes_only_is_charged():
    grouped = challenge(["classification"], class_groups={"coarse": {"x": ["a"], "y": ["b"]}})
    images = {"right": (squares(1, 2), squares(1, 2)), "wrong": (squares(1, 2), squares(3, 3))}
    assert score_instances(grouped, images).value("classification.grouped.coarse.accuracy.case_mean") == 0.5


@pytest.mark.parametrize("groups", [{"coarse": {}}, {"coarse": {"x": []}}])
def test_a_grouping_without_groups_and_a_group_without_classes_are_refused(groups):
    with pytest.raises(ChallengeBroken) as caught:
        challenge(["classification"], class_groups=groups)
    assert "metrics.class_groups.coarse" in str(caught.value)


# --- published faults -------------------------------------------------------------------------------------------------


def test_published_faults_change_no_number_that_depends_on_no_matching_rule():
    """The class of the second prediction is not in the reference; its mask is "unopened", but its outline is right."""
    images = {"image": (squares(1, 1), squares(1, 2))}
    paths = [f"thresholds.{name}_iou50.pooled" for name in ("precision", "recall", "f1", "threat_score")]
    found = {}
    for preset in ("monusac2020", "monusac2020_as_published"):
        result = score_instances(challenge(["panoptic", "thresholds"], preset, iou_thresholds=[0.5]), images)
        found[preset] = [result.value(path) for path in paths]
    assert found["monusac2020_as_published"] == found["monusac2020"] == [1.0] * 4


@pytest.mark.parametrize("ids", [("a", "b"), ("x", "b"), (1, 2)])
def test_an_id_that_is_no_number_is_the_number_of_no_nucleus(ids):
    """Two found nuclei whose numbers are no predicted id: two false positives, 2 / (2 + 2/2)."""
    published = challenge(["panoptic"], "monusac2020_as_published")
    reference = replace(squares(1, 1), source_id=np.array(["a", "b"], object))
    prediction = replace(squares(1, 1), source_id=np.array(ids, object))
    assert score_instances(published, {"image": (reference, prediction)}).value("panoptic.pq.pooled") == pytest.approx(
        2 / 3, abs=1e-6
    )


# --- cases.csv --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["spacing_um", "area_mm2"])
@pytest.mark.parametrize("size", ["1e307", "1e-320", "1000001"])
def test_a_size_that_no_image_has_is_refused_before_it_overflows(column, size):
    with pytest.raises(ChallengeBroken) as caught:
        read_cases(f"case,height,width,{column}\na,10,10,{size}\n")
    assert f"line 2: {column} '{size}'" in str(caught.value)


def test_sizes_at_their_bounds_are_taken():
    for size in ("0.000001", "1000000"):
        assert read_cases(f"case,height,width,spacing_um\na,10,10,{size}\n")[0].spacing_um == float(size)
