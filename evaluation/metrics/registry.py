"""The list of all metrics: their path in metrics.json, their direction and their worst value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from evaluation.metrics import classification, detection, panoptic, segmentation
from evaluation.model import MatchCounts, Score

OUTLINED_FAMILIES = frozenset({"segmentation", "panoptic"})


@dataclass(frozen=True, slots=True)
class Metric:
    """A scored quantity.

    path      its place in metrics.json, without the aggregation: ("panoptic", "pq")
    evaluate  from counts, of a case, a group or all cases, to the score
    counts_missed  whether missed nuclei already make it worse
    better    which direction is better
    lowest    the worst value if higher is better; for distances the worst value is the diagonal of the image
    """

    path: tuple[str, ...]
    evaluate: Callable[[MatchCounts], Score]
    better: Literal["higher", "lower"] = "higher"
    lowest: float = 0.0
    counts_missed: bool = False

    @property
    def family(self) -> str:
        return self.path[0]

    def worst(self, counts: MatchCounts) -> float:
        """What a missing case costs."""
        return self.lowest if self.better == "higher" else counts.diagonal_px


def metrics_of(families: Iterable[str], class_names: Sequence[str], *, class_aware: bool) -> list[Metric]:
    """The metrics of the families, in the order of metrics.json.

    ``class_aware``: pairs of unequal classes were never matched, so classification would always be perfect; it is
    undefined instead. Segmentation and panoptic quality are undefined if the nuclei of a side are points.
    """
    makers = {
        "detection": detection_metrics,
        "classification": undefined_classification if class_aware else classification_metrics,
        "segmentation": segmentation_metrics,
        "panoptic": panoptic_metrics,
    }
    metrics = [metric for family in families for metric in makers[family](class_names)]
    return [
        replace(metric, evaluate=partial(of_outlines, evaluate=metric.evaluate))
        if metric.family in OUTLINED_FAMILIES
        else metric
        for metric in metrics
    ]


def of_outlines(counts: MatchCounts, evaluate: Callable[[MatchCounts], Score]) -> Score:
    """A score that compares outlines; undefined for points."""
    return evaluate(counts) if counts.outlines else Score(None, "points-only")


def detection_metrics(class_names: Sequence[str]) -> list[Metric]:
    del class_names
    functions = {
        "precision": detection.precision,
        "recall": detection.recall,
        "f1": detection.f1,
        "threat_score": detection.threat_score,
    }
    return [
        Metric(("detection", name), function, counts_missed=name != "precision") for name, function in functions.items()
    ]


def classification_metrics(class_names: Sequence[str]) -> list[Metric]:
    metrics = [
        Metric(("classification", "balanced_accuracy"), classification.balanced_accuracy),
        Metric(("classification", "accuracy"), classification.accuracy),
        Metric(("classification", "mcc"), classification.matthews_correlation, lowest=-1.0),
        Metric(("classification", "macro_f1"), classification.macro_f1),
    ]
    functions = {
        "precision": classification.class_precision,
        "recall": classification.class_recall,
        "f1": classification.class_f1,
    }
    return metrics + [
        Metric(("classification", "per_class", class_name, name), partial(function, class_id=class_id))
        for class_id, class_name in enumerate(class_names, start=1)
        for name, function in functions.items()
    ]


def undefined_classification(class_names: Sequence[str]) -> list[Metric]:
    def undefined(counts: MatchCounts) -> Score:
        del counts
        return Score(None, "class-aware-matching")

    return [Metric(metric.path, undefined) for metric in classification_metrics(class_names)]


def segmentation_metrics(class_names: Sequence[str]) -> list[Metric]:
    metrics = []
    for measure in segmentation.MEASURES:
        better: Literal["higher", "lower"] = "lower" if measure.endswith("_px") else "higher"
        pair_mean = partial(segmentation.pair_mean, measure=measure)
        class_mean = partial(segmentation.class_mean, measure=measure)
        metrics.append(Metric(("segmentation", measure), pair_mean, better))
        metrics.append(Metric(("segmentation", f"{measure}_class_mean"), class_mean, better))
        for class_id, class_name in enumerate(class_names, start=1):
            of_class = partial(segmentation.class_pair_mean, measure=measure, class_id=class_id)
            metrics.append(Metric(("segmentation", "per_class", class_name, measure), of_class, better))
    return metrics


def panoptic_metrics(class_names: Sequence[str]) -> list[Metric]:
    qualities: dict[str, panoptic.Quality] = {
        "pq": panoptic.panoptic_quality,
        "sq": panoptic.segmentation_quality,
        "rq": panoptic.recognition_quality,
    }
    metrics = []
    for name, quality in qualities.items():
        missed = name != "sq"
        class_mean = partial(panoptic.class_mean, quality=quality)
        binary = partial(binary_quality, quality=quality)
        metrics.append(Metric(("panoptic", name), class_mean, counts_missed=missed))
        metrics.append(Metric(("panoptic", "binary", name), binary, counts_missed=missed))
        for class_id, class_name in enumerate(class_names, start=1):
            of_class = partial(class_quality, quality=quality, class_id=class_id)
            metrics.append(Metric(("panoptic", "per_class", class_name, name), of_class, counts_missed=missed))
    return metrics


def binary_quality(counts: MatchCounts, quality: panoptic.Quality) -> Score:
    return quality(panoptic.of_all(counts))


def class_quality(counts: MatchCounts, quality: panoptic.Quality, class_id: int) -> Score:
    return quality(panoptic.of_class(counts, class_id))
