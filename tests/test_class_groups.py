"""Groups of classes: images without a nucleus of any group, and groupings that say nothing."""

from __future__ import annotations

import pytest
from test_published_faults import challenge, squares

from evaluation import score_instances
from evaluation.findings.errors import ChallengeBroken


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
