"""Scores of nuclei: a file a question, in which each metric is one record; ``METRIC_FAMILIES`` lists them.

Every metric is a function of ``Units``, unions of cases, and evaluates all of them at once: what adds up is added up
over the cases of each unit, then one formula closes, for a case, a group, all cases and a sample of a bootstrap alike.

In: matches and instances of each case. Out: its counts, and the scores of any units. Every room but model, findings and
instances may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from nuclei_metrics.metrics.classification import CLASSIFICATION
from nuclei_metrics.metrics.counts import count_matches
from nuclei_metrics.metrics.curves import CURVES
from nuclei_metrics.metrics.detection import COUNTING, DETECTION, THRESHOLDS
from nuclei_metrics.metrics.every_nucleus import COVERED, OVERALL
from nuclei_metrics.metrics.metric import Metric, undefined
from nuclei_metrics.metrics.overlap import OBJECTS, OVERLAP
from nuclei_metrics.metrics.partition import PARTITION
from nuclei_metrics.metrics.segmentation import PANOPTIC, SEGMENTATION, SIZES
from nuclei_metrics.model import MetricChoice, Scores, Units

FAMILIES_OF_PAIRS = (DETECTION, CLASSIFICATION, SEGMENTATION, PANOPTIC, COVERED, OVERALL)  # that a matching rule finds
FAMILIES_OF_SIDES = (THRESHOLDS, CURVES, SIZES, OVERLAP, OBJECTS, PARTITION, COUNTING)  # with their own, or none
METRIC_FAMILIES: dict[str, tuple[Metric, ...]] = {
    metrics[0].family: metrics for metrics in (*FAMILIES_OF_PAIRS, *FAMILIES_OF_SIDES)
}
FAMILIES = tuple(METRIC_FAMILIES)


@lru_cache(maxsize=64)
def metrics_of(choice: MetricChoice, *, class_aware: bool, primary: bool = True) -> tuple[Metric, ...]:
    """Return the chosen metrics of a challenge, family by family; the same list for equal choices.

    class_aware  pairs of unequal classes were never matched, so classification would always be perfect: it is undefined
    primary      whether this is the first matching rule: scores independent of rules are given with it only
    """
    return tuple(
        replace(metric, evaluate=class_aware_matching) if class_aware and record.judges_class else metric
        for family in choice.families
        for record in METRIC_FAMILIES[family]
        if primary or record.by_rule
        for metric in record.in_challenge(choice)
        if _is_chosen(metric, choice.metrics)
    )


def _is_chosen(metric: Metric, names: Sequence[str]) -> bool:
    """Return whether a metric of a chosen family is computed: all are, unless some of the family are named."""
    of_family = [name for name in names if name.startswith(f"{metric.family}.")]
    return not of_family or metric.page in of_family or ".".join(metric.path) in of_family


def unknown_metrics(choice: MetricChoice) -> dict[str, list[str]]:
    """The names in a choice that no metric of the challenge has, each with the names of the metrics of its family."""
    every = metrics_of(replace(choice, metrics=()), class_aware=False) if choice.metrics else ()
    return {
        name: list(dict.fromkeys(metric.page for metric in every if name.startswith(f"{metric.family}.")))
        for name in choice.metrics
        if not any(name in (metric.page, ".".join(metric.path)) for metric in every)
    }


def class_aware_matching(units: Units) -> Scores:
    return undefined(len(units), "class-aware-matching")
