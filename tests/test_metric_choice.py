"""Metrics chosen by family or one by one: what a result holds then, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pictures import score_all

from evaluation.challenge import Challenge
from evaluation.findings.errors import ChallengeBroken
from evaluation.metrics import Metric, metrics_of
from evaluation.metrics.metric import Variant
from evaluation.model import MetricChoice, Scores, Units
from evaluation.scoring.score import check_columns

PICTURE = """
aa.BB  aa...
aa.BB  aa...
.....  .....
.....  c.d..
"""


def paths(**metrics: Any) -> list[str]:
    (scores,) = score_all(PICTURE, **metrics).scores.values()
    return [".".join(metric.path) for metric in scores]


def test_a_metric_is_chosen_by_its_path_and_no_other_of_its_family_is_there() -> None:
    chosen = paths(families=("detection.f1", "panoptic.binary.pq"))
    assert chosen == ["detection.f1", "panoptic.binary.pq"]


def test_beside_single_metrics_a_whole_family_can_be_chosen() -> None:
    whole = paths(families=("panoptic",))
    assert len(whole) == 12
    assert paths(families=("detection.recall", "panoptic")) == ["detection.recall", *whole]


def test_the_name_of_a_page_chooses_all_its_paths_and_a_path_that_one_only() -> None:
    assert paths(families=("segmentation.iou",)) == [
        "segmentation.iou",
        "segmentation.iou_class_mean",
        "segmentation.iou_median",
        "segmentation.per_class.lymphocyte.iou",
        "segmentation.per_class.tumor.iou",
    ]
    assert paths(families=("segmentation.iou_median",)) == ["segmentation.iou_median"]
    assert paths(families=("detection.per_class.tumor.f1",)) == ["detection.per_class.tumor.f1"]
    assert paths(families=("thresholds.f1_iou75",)) == ["thresholds.f1_iou75"]


def test_a_chosen_metric_has_the_value_that_it_has_among_all() -> None:
    of_all, alone = score_all(PICTURE), score_all(PICTURE, families=("detection.f1", "overlap.aji"))
    for path in ("detection.f1.pooled", "overlap.aji.pooled"):
        assert alone.value(path) == of_all.value(path)
    assert set(alone.metrics) - {"challenge", "software", "undefined"} == {"detection", "overlap"}


def test_single_metrics_are_given_under_other_matching_rules_too() -> None:
    choice = score_all(PICTURE, families=("detection.f1", "overlap")).challenge.metric_choice()
    assert [metric.path for metric in metrics_of(choice, class_aware=False, primary=False)] == [("detection", "f1")]


def refusal(**metrics: Any) -> str:
    with pytest.raises(ChallengeBroken) as broken:
        score_all(PICTURE, **metrics)
    return str(broken.value.findings[0])


@pytest.mark.parametrize(
    ("families", "message"),
    [
        (("detektion",), "metrics.families: 'detektion'; expected one of 'detection', 'classification',"),
        (("detektion.f1",), "Did you mean 'detection'?"),
        (("detection.f2",), "Did you mean 'detection.f1'?"),
        (("detection.f2", "panoptic"), "[invalid-rule] challenge.toml: metrics.families: 'detection.f2'; expected "),
        (("segmentation.hausdorf_px",), "Did you mean 'segmentation.hausdorff_px'?"),
        (("detection.per_class.stroma.f1",), "'detection', or a metric of it in this challenge"),
        (("detection.",), "'detection.'; expected"),
        (("detection", "detection.f1"), "'detection.f1' beside 'detection'; expected the family, or metrics of it"),
        (("detection.f1", "detection.f1"), "the same one twice"),
    ],
)
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
