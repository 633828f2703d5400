"""What is measured: single metrics of a family, groups of classes, and sizes of nuclei."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from literal import instances_of
from pictures import score_all
from pycoco import OF_PYCOCOTOOLS, coco_evaluation, coded, made_images
from test_published_faults import challenge, squares

from evaluation import score_instances
from evaluation.challenge import Challenge
from evaluation.findings.errors import ChallengeBroken
from evaluation.scoring.score import check_columns
from nuclei_metrics.metrics import Metric, metrics_of
from nuclei_metrics.metrics.metric import Variant
from nuclei_metrics.model import MetricChoice, Scores, Units

# --- single metrics of a family ---------------------------------------------------------------------------------------


PICTURE = """
aa.BB  aa...
aa.BB  aa...
.....  .....
.....  c.d..
"""


@pytest.mark.parametrize("families, chosen", [
    (("detection.f1", "panoptic.binary.pq"), ["detection.f1", "panoptic.binary.pq"]),
    (("segmentation.iou",), [  # the name of a page: all its paths
        "segmentation.iou", "segmentation.iou_class_mean", "segmentation.iou_median",
        "segmentation.per_class.lymphocyte.iou", "segmentation.per_class.tumor.iou",
    ]),
    (("segmentation.iou_median",), ["segmentation.iou_median"]),
    (("detection.per_class.tumor.f1",), ["detection.per_class.tumor.f1"]),
    (("thresholds.f1_iou75",), ["thresholds.f1_iou75"]),
])  # fmt: skip
def test_chosen_metrics_alone_are_there_with_the_values_that_they_have_among_all(families, chosen) -> None:
    of_all, result = score_all(PICTURE), score_all(PICTURE, families=families)
    (scores,) = result.scores.values()
    assert [".".join(metric.path) for metric in scores] == chosen
    assert set(result.metrics) - {"challenge", "software", "undefined"} == {path.partition(".")[0] for path in chosen}
    for path in chosen:
        assert result.value(f"{path}.pooled") == of_all.value(f"{path}.pooled")


def test_whole_families_can_be_chosen_beside_single_metrics_which_other_matching_rules_give_too() -> None:
    (whole,) = score_all(PICTURE, families=("panoptic",)).scores.values()
    mixed = score_all(PICTURE, families=("detection.f1", "panoptic"))
    (scores,) = mixed.scores.values()
    assert [metric.path for metric in scores] == [("detection", "f1"), *(metric.path for metric in whole)]
    assert len(whole) == 12
    choice = score_all(PICTURE, families=("detection.f1", "overlap")).challenge.metric_choice()
    assert [metric.path for metric in metrics_of(choice, class_aware=False, primary=False)] == [("detection", "f1")]


def refusal(**metrics: Any) -> str:
    with pytest.raises(ChallengeBroken) as broken:
        score_all(PICTURE, **metrics)
    return str(broken.value.findings[0])


@pytest.mark.parametrize("families, message", [
    (("detektion",), "metrics.families: 'detektion'; expected one of 'detection', 'classification',"),
    (("detektion.f1",), "Did you mean 'detection'?"),
    (("detection.f2",), "Did you mean 'detection.f1'?"),
    (("detection.f2", "panoptic"), "[invalid-rule] challenge.toml: metrics.families: 'detection.f2'; expected "),
    (("segmentation.hausdorf_px",), "Did you mean 'segmentation.hausdorff_px'?"),
    (("detection.per_class.stroma.f1",), "'detection', or a metric of it in this challenge"),
    (("detection.",), "'detection.'; expected"),
    (("detection", "detection.f1"), "'detection.f1' beside 'detection'; expected the family, or metrics of it"),
    (("detection.f1", "detection.f1"), "'detection.f1' more than once"),
])  # fmt: skip
def test_what_is_no_metric_of_the_challenge_is_refused(families: tuple[str, ...], message: str) -> None:
    assert message in refusal(families=families)


def test_a_metric_of_a_measure_that_is_not_measured_is_refused() -> None:
    assert "'segmentation.dice'; expected" in refusal(families=("segmentation.dice",), measures=("iou", "surface_dice"))


def test_a_ranking_cannot_name_what_is_not_chosen() -> None:
    challenge = score_all(PICTURE, families=("detection.f1",)).challenge
    column = {"path": "detection.recall.pooled", "direction": "descending", "weight": 1.0}
    ranking = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "columns": [column]}
    rules = challenge.model_dump(exclude_none=True, exclude={"cases"})
    ranked = Challenge.build({**rules, "ranking": ranking})
    with pytest.raises(ChallengeBroken, match=r"detection\.recall\.pooled"):
        check_columns(ranked)


def test_a_record_stands_for_one_metric_of_each_variant_that_the_challenge_has() -> None:
    def each_cap(choice: MetricChoice) -> list[Variant]:
        return [Variant({"<cap>": f"{cap:g}"}, {"cap": cap}, {"worst": cap}) for cap in choice.iou_thresholds]

    def formula(units: Units, class_id: int, cap: float) -> Scores:
        raise NotImplementedError

    record = Metric(path=("made", "per_class", "<class>", "up_to_<cap>"), evaluate=formula, each=(each_cap,))
    found = list(record.in_challenge(MetricChoice((), ("a", "b"), iou_thresholds=(0.25, 0.5))))
    assert record.page == "made.per_class.up_to_<cap>"
    assert [".".join(metric.path) for metric in found] == [
        "made.per_class.a.up_to_0.25",
        "made.per_class.b.up_to_0.25",
        "made.per_class.a.up_to_0.5",
        "made.per_class.b.up_to_0.5",
    ]
    assert [metric.worst for metric in found] == [0.25, 0.25, 0.5, 0.5]
    given = [metric.evaluate.keywords for metric in found if isinstance(metric.evaluate, partial)]
    assert given[1] == {"class_id": 2, "cap": 0.25}
    assert list(record.in_challenge(MetricChoice((), ("a",)))) == []


# --- groups of classes ------------------------------------------------------------------------------------------------


def test_an_image_is_charged_for_grouped_nuclei_that_it_has_and_left_out_where_it_has_none():
    """A grouping need not have all classes: without a nucleus of any group there is nothing to measure."""
    grouped = challenge(["classification"], class_groups={"coarse": {"x": ["a"], "y": ["b"]}})
    right = squares(1, 2), squares(1, 2)
    result = score_instances(grouped, {"with": right, "without": (squares(3, 3), squares(3, 3))})
    for name in ("accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "kappa"):
        assert result.value(f"classification.grouped.coarse.{name}.case_mean") == 1.0, name
    result = score_instances(grouped, {"right": right, "under other classes": (squares(1, 2), squares(3, 3))})
    assert result.value("classification.grouped.coarse.accuracy.case_mean") == 0.5


@pytest.mark.parametrize("groups", [{"coarse": {}}, {"coarse": {"x": []}}])
def test_a_grouping_without_groups_and_a_group_without_classes_are_refused(groups):
    with pytest.raises(ChallengeBroken) as caught:
        challenge(["classification"], class_groups=groups)
    assert "metrics.class_groups.coarse" in str(caught.value)


# --- sizes of nuclei --------------------------------------------------------------------------------------------------


SIZES = {"small": (0, 40), "medium": (40, 70), "large": (70, 1e10)}
THRESHOLDS = (0.3, 0.5, 0.75)


def scored(images):
    sides, challenge = sides_of(images)
    return score_instances(challenge, sides)


def sides_of(images):
    """Instances of each image, and the challenge that scores them."""
    challenge = Challenge.from_preset(
        "monusac2020",
        name="sizes",
        classes=[{"name": name} for name in "abc"],
        metrics={
            "families": ["curves", "sizes", "detection"],
            "boundary": "closed",
            "iou_thresholds": THRESHOLDS,
            "sizes_px": SIZES,
        },
        ranking=None,
    )
    sides = {}
    for index, (reference, of_reference, prediction, of_prediction, probability) in enumerate(images):
        found = instances_of(prediction.astype(bool), of_prediction)
        object.__setattr__(found, "probability", probability)
        sides[f"image_{index}"] = instances_of(reference.astype(bool), of_reference), found
    return sides, challenge


@OF_PYCOCOTOOLS
@pytest.mark.parametrize("seed", range(3))
def test_pycocotools_gives_the_same_average_precision_of_every_size_and_average_recall(seed):
    images = made_images(seed)
    found = scored(images)
    theirs = coco_evaluation(coded(images), THRESHOLDS, [(0, 1e10), *SIZES.values()]).eval
    precision, recall = theirs["precision"][..., 0], theirs["recall"][..., 0]
    assert found.value("curves.coco_ar_iou30_50_75.pooled") == pytest.approx(recall[:, :, 0].mean(), abs=1e-6)
    for place, size in enumerate(SIZES, start=1):
        of_size = precision[:, :, :, place]
        path = f"sizes.{size}.coco_map_iou30_50_75.pooled"
        assert found.value(path) == pytest.approx(of_size[of_size > -1].mean(), abs=1e-6)
        assert 0.05 < of_size.mean() < 0.95


def test_recall_and_iou_of_a_size_are_those_of_its_nuclei():
    """Area 40 belongs to both small and medium: ranges include their ends, as in COCO."""
    found = scored([tiny()])
    assert found.value("sizes.small.recall.pooled") == 0.5
    assert found.value("sizes.medium.recall.pooled") == 1.0
    assert found.value("sizes.small.iou.pooled") == found.value("sizes.medium.iou.pooled") == 0.9
    assert found.value("sizes.large.recall.pooled") is None


def tiny():
    reference = np.zeros((2, 40, 40), np.uint8)
    reference[0, :5, :8] = 1  # 40 px, found with 36
    reference[1, 20:23, 20:25] = 1  # 15 px, missed
    prediction = reference[:1].copy()
    prediction[0, 4, 4:8] = 0
    return reference, np.array([1, 2]), prediction, np.array([1]), np.array([0.5], np.float64)
