"""The list of all metrics: their path in metrics.json, and the properties that tests and documents rely on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import cleandoc
from typing import Any, Literal, get_args

import numpy as np

from evaluation.metrics import (
    classification,
    counting,
    covered,
    curves,
    detection,
    objects,
    overall,
    overlap,
    panoptic,
    segmentation,
)
from evaluation.metrics import thresholds as at_thresholds
from evaluation.metrics.counts import without_points
from evaluation.metrics.undefined import undefined
from evaluation.model import Better, Family, Float64, Measure, MetricChoice, Scores, Units

Evaluate = Callable[[Units], Scores]
Worst = float | Literal["diagonal_px", "diagonal_um"]
Effect = Literal["worse", "none", "either"]
FAMILIES: tuple[Family, ...] = get_args(Family)
SHARED_FAMILIES: frozenset[Family] = frozenset(
    {"thresholds", "overlap", "objects", "counting"}
)  # the same under every matching rule
STANDARD_RANGE = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A scored quantity.

    path      its place in metrics.json, without the aggregation: ("panoptic", "pq")
    page      name of its page in docs/metrics: classes, thresholds and groupings share one
    evaluate  the formula, for many units at once
    better    which direction is better; "one": a ratio whose best value is 1
    lowest, highest  bounds of its values
    worst     what a missing case costs: a value, the longest diagonal of the images, or None if there is no worst value
    unit      "px", "um", … or "" for a number without unit
    missed, spurious  what one more missed nucleus, or one more spurious one, away from all others, does to a value:
              "worse": it never gets better, and may get worse; "none": nothing; "either": it may get better, too
    symmetric whether it stays the same when reference and prediction change places
    counts_missing  whether a missing case already costs the worst value, though a missed nucleus may not
    """

    path: tuple[str, ...]
    page: str
    evaluate: Evaluate
    better: Better = "higher"
    lowest: float = 0.0
    highest: float = 1.0
    worst: Worst | None = 0.0
    unit: str = ""
    missed: Effect = "none"
    spurious: Effect = "none"
    symmetric: bool = False
    counts_missing: bool = False

    @property
    def family(self) -> str:
        return self.path[0]

    @property
    def counts_missed(self) -> bool:
        """Whether a missing case already makes it worse."""
        return self.missed == "worse" or self.counts_missing

    def worst_of(self, units: Units) -> Float64:
        """What a missing case costs in each unit, float64 (B,); NaN if nothing."""
        if isinstance(self.worst, str):
            return units.largest(self.worst)
        return np.full(len(units), math.nan if self.worst is None else self.worst)

    def definition(self) -> str:
        """What it is: the docstring of its formula, after that of what is measured or counted, if it is a choice."""
        function: Any = self.evaluate
        parts: list[str] = []
        while isinstance(function, partial):
            measure, formula = (function.keywords.get(key) for key in ("measure", "formula"))
            parts += [segmentation.MEASURES[measure]] if measure else [cleandoc(formula.__doc__)] if formula else []
            function = function.keywords.get("of", function.func)
        return "\n\n".join([*parts, cleandoc(function.__doc__ or "")])


def metrics_of(choice: MetricChoice, *, class_aware: bool, primary: bool = True) -> list[Metric]:
    """The metrics of the chosen families, in the order of metrics.json.

    class_aware  pairs of unequal classes were never matched, so classification would always be perfect: it is undefined
    primary      whether this is the first matching rule: what no rule can change is told with that one only
    """
    metrics = []
    for family in choice.families:
        if primary or family not in SHARED_FAMILIES:
            found = list(MAKERS[family](choice))
            if class_aware:
                found = [
                    replace(metric, evaluate=class_aware_matching) if judges_class(metric) else metric
                    for metric in found
                ]
            if family == "curves" and not primary:
                found = [metric for metric in found if "coco" not in metric.path[-1]]
            metrics += found
    return metrics


def judges_class(metric: Metric) -> bool:
    """Whether it compares the classes of matched pairs."""
    return metric.family == "classification" or metric.page in ("covered.class_recall", "overall.accuracy")


def class_aware_matching(units: Units) -> Scores:
    return undefined(len(units), "class-aware-matching")


def classes_of(choice: MetricChoice) -> Iterable[tuple[int, str]]:
    return enumerate(choice.class_names, start=1)


def outlined(units: Units, of: Callable[..., Scores], **arguments: Any) -> Scores:
    """A score that compares outlines; undefined for points."""
    return without_points(units, of(units, **arguments))


# --- families --------------------------------------------------------------------------------------------------------

DETECTION: dict[str, tuple[Callable[..., Scores], dict[str, Any]]] = {
    "precision": (detection.precision, {"spurious": "worse"}),
    "recall": (detection.recall, {"missed": "worse"}),
    "f1": (detection.f1, {"missed": "worse", "spurious": "worse", "symmetric": True}),
    "threat_score": (detection.threat_score, {"missed": "worse", "spurious": "worse", "symmetric": True}),
    "macro_f1": (detection.macro_f1, {"missed": "worse", "spurious": "worse", "symmetric": True}),
}
CLASS_DETECTION: dict[str, tuple[Callable[..., Scores], dict[str, Any]]] = {
    "precision": (detection.class_precision, {"spurious": "worse"}),
    "recall": (detection.class_recall, {"missed": "worse"}),
    "f1": (detection.class_f1, {"missed": "worse", "spurious": "worse", "symmetric": True}),
    "f_c": (detection.hovernet_class_f1, {"missed": "worse", "spurious": "worse", "symmetric": True}),
}


def detection_metrics(choice: MetricChoice) -> Iterable[Metric]:
    for name, (function, properties) in DETECTION.items():
        yield Metric(path=("detection", name), page=f"detection.{name}", evaluate=function, **properties)
    for class_id, class_name in classes_of(choice):
        for name, (function, properties) in CLASS_DETECTION.items():
            of_class = partial(function, class_id=class_id)
            path = ("detection", "per_class", class_name, name)
            yield Metric(path=path, page=f"detection.per_class.{name}", evaluate=of_class, **properties)


CLASSIFICATION: dict[str, tuple[Callable[..., Scores], float, bool]] = {  # formula, lowest value, symmetric
    "balanced_accuracy": (classification.balanced_accuracy, 0.0, False),
    "accuracy": (classification.accuracy, 0.0, True),
    "mcc": (classification.matthews_correlation, -1.0, False),
    "kappa": (classification.cohen_kappa, -1.0, True),
    "macro_f1": (classification.macro_f1, 0.0, True),
    "weighted_f1": (classification.weighted_f1, 0.0, False),
}
CLASS_CLASSIFICATION: dict[str, tuple[Callable[..., Scores], bool]] = {
    "precision": (classification.class_precision, False),
    "recall": (classification.class_recall, False),
    "f1": (classification.class_f1, False),
    "counted_precision": (classification.counted_class_precision, False),
    "counted_f1": (classification.counted_class_f1, True),
}


def classification_metrics(choice: MetricChoice) -> Iterable[Metric]:
    for name, (function, lowest, symmetric) in CLASSIFICATION.items():
        path, page = ("classification", name), f"classification.{name}"
        yield Metric(path=path, page=page, evaluate=function, lowest=lowest, worst=lowest, symmetric=symmetric)
    if choice.class_probabilities:
        yield Metric(path=("classification", "auroc"), page="classification.auroc", evaluate=classification.auroc)
    for class_id, class_name in classes_of(choice):
        for name, (of_class, symmetric) in CLASS_CLASSIFICATION.items():
            yield Metric(
                path=("classification", "per_class", class_name, name),
                page=f"classification.per_class.{name}",
                evaluate=partial(of_class, class_id=class_id),
                symmetric=symmetric,
            )
        if choice.class_probabilities:
            yield Metric(
                path=("classification", "per_class", class_name, "auroc"),
                page="classification.per_class.auroc",
                evaluate=partial(classification.class_auroc, class_id=class_id),
            )
    for grouping, groups in choice.class_groups.items():
        for name, (function, lowest, symmetric) in CLASSIFICATION.items():
            yield Metric(
                path=("classification", "grouped", grouping, name),
                page=f"classification.{name}",
                evaluate=partial(function, groups=tuple(groups.values())),
                lowest=lowest,
                worst=lowest,
                symmetric=symmetric,
            )


def segmentation_metrics(choice: MetricChoice) -> Iterable[Metric]:
    for measure in choice.measures:
        better = segmentation.better(measure)
        unit = measure[-2:] if better == "lower" else ""
        properties: dict[str, Any] = {
            "better": better,
            "unit": unit,
            "highest": 1.0 if better == "higher" else math.inf,
            "worst": {"lower": f"diagonal_{unit}", "higher": 0.0, "one": None}[better],
        }
        symmetric = measure != "area_ratio"
        for suffix, function in (
            ("", segmentation.pair_mean),
            ("_class_mean", segmentation.class_mean),
            ("_median", segmentation.pair_median),
        ):
            yield Metric(
                path=("segmentation", measure + suffix),
                page=f"segmentation.{measure}",
                evaluate=partial(function, measure=measure),
                symmetric=symmetric and suffix != "_class_mean",
                **properties,
            )
        for class_id, class_name in classes_of(choice):
            yield Metric(
                path=("segmentation", "per_class", class_name, measure),
                page=f"segmentation.{measure}",
                evaluate=partial(segmentation.class_pair_mean, measure=measure, class_id=class_id),
                **properties,
            )


def panoptic_metrics(choice: MetricChoice) -> Iterable[Metric]:
    for name, mean, binary, of_class in (
        ("pq", panoptic.class_mean_pq, panoptic.binary_panoptic_quality, panoptic.panoptic_quality),
        ("sq", panoptic.class_mean_sq, panoptic.binary_segmentation_quality, panoptic.segmentation_quality),
        ("rq", panoptic.class_mean_rq, panoptic.binary_recognition_quality, panoptic.recognition_quality),
    ):
        counts = name != "sq"
        effect = "worse" if counts else "none"
        properties: dict[str, Any] = {"missed": effect, "spurious": effect, "symmetric": True}
        present: dict[str, Any] = {"present": choice.class_present} if counts else {}
        page = f"panoptic.{name}"
        yield Metric(path=("panoptic", name), page=page, evaluate=partial(outlined, of=mean, **present), **properties)
        path: tuple[str, ...] = ("panoptic", "binary", name)
        evaluate = partial(outlined, of=binary, **present)
        yield Metric(path=path, page=f"panoptic.binary.{name}", evaluate=evaluate, **properties)
        for class_id, class_name in classes_of(choice):
            path = ("panoptic", "per_class", class_name, name)
            evaluate = partial(outlined, of=of_class, class_id=class_id, **present)
            yield Metric(path=path, page=f"panoptic.per_class.{name}", evaluate=evaluate, **properties)


def quality_metrics(choice: MetricChoice) -> Iterable[tuple[Measure, dict[str, Any], dict[str, Any]]]:
    """The measures that a missed nucleus can have a worst value of: what their formulas take, and their properties."""
    for measure in choice.measures:
        if segmentation.better(measure) == "higher":
            yield measure, {"measure": measure}, {"missed": "worse", "page": "score"}
        elif segmentation.better(measure) == "lower":
            unit = measure[-2:]
            cap = choice.distance_cap_px if unit == "px" else choice.distance_cap_um
            if cap is None:
                raise ValueError(f"{measure} has no distance cap in {unit}")
            properties = {"better": "lower", "unit": unit, "highest": cap, "worst": cap, "missed": "worse"}
            yield measure, {"measure": measure, "cap": cap}, {**properties, "page": "distance"}


def covered_metrics(choice: MetricChoice) -> Iterable[Metric]:
    if choice.coverage is None:
        raise ValueError("the family covered has no coverage")
    for measure, arguments, properties in quality_metrics(choice):
        page = f"covered.{properties.pop('page')}"
        for suffix, function in (("", covered.best_mean), ("_class_mean", covered.best_class_mean)):
            evaluate = partial(function, coverage=choice.coverage, **arguments)
            yield Metric(path=("covered", measure + suffix), page=page, evaluate=evaluate, **properties)
    yield Metric(
        path=("covered", "class_recall"),
        page="covered.class_recall",
        evaluate=covered.class_recall,
        missed="either",
        counts_missing=True,
    )


def overall_metrics(choice: MetricChoice) -> Iterable[Metric]:
    for measure, arguments, properties in quality_metrics(choice):
        page = f"overall.{properties.pop('page')}"
        for suffix, function in (("", overall.all_mean), ("_class_mean", overall.all_class_mean)):
            yield Metric(
                path=("overall", measure + suffix),
                page=page,
                evaluate=partial(function, **arguments),
                spurious="worse",
                symmetric=not suffix,
                **properties,
            )
    for name, formula in (("accuracy", overall.accuracy), ("accuracy_class_mean", overall.class_mean_accuracy)):
        yield Metric(
            path=("overall", name),
            page="overall.accuracy",
            evaluate=formula,
            missed="worse",
            spurious="worse",
            symmetric=name == "accuracy",
        )


FORMULAS: dict[str, tuple[at_thresholds.Formula, dict[str, Any]]] = {
    "precision": (detection.precision_of, {"spurious": "worse"}),
    "recall": (detection.recall_of, {"missed": "worse"}),
    "f1": (detection.f1_of, {"missed": "worse", "spurious": "worse", "symmetric": True}),
    "threat_score": (detection.threat_score_of, {"missed": "worse", "spurious": "worse", "symmetric": True}),
}


def thresholds_metrics(choice: MetricChoice) -> Iterable[Metric]:
    span = range_key(choice.iou_thresholds)
    for name, (formula, properties) in FORMULAS.items():
        page = f"thresholds.{name}"
        over = partial(at_thresholds.over_thresholds, formula=formula)
        if len(choice.iou_thresholds) > 1:
            yield Metric(path=("thresholds", f"{name}_{span}"), page=f"{page}_range", evaluate=over, **properties)
        for place, threshold in enumerate(choice.iou_thresholds):
            at = partial(at_thresholds.at_threshold, formula=formula, place=place)
            path: tuple[str, ...] = ("thresholds", f"{name}_{threshold_key(threshold)}")
            yield Metric(path=path, page=f"{page}_at", evaluate=at, **properties)
        for class_id, class_name in classes_of(choice):
            of_class = partial(at_thresholds.class_over_thresholds, formula=formula, class_id=class_id)
            path = ("thresholds", "per_class", class_name, f"{name}_{span}")
            yield Metric(path=path, page=f"thresholds.per_class.{name}_range", evaluate=of_class, **properties)


def threshold_key(threshold: float) -> str:
    """0.5 as "iou50", 0.725 as "iou72_5"."""
    return "iou" + f"{100 * threshold:g}".replace(".", "_")


def range_key(thresholds: tuple[float, ...]) -> str:
    """0.5:0.05:0.95 as "iou50_95"; other thresholds one by one, as "iou30_50_70"."""
    chosen = (thresholds[0], thresholds[-1]) if thresholds == STANDARD_RANGE else thresholds
    return "iou" + "_".join(threshold_key(threshold)[3:] for threshold in chosen)


def curves_metrics(choice: MetricChoice) -> Iterable[Metric]:
    properties: Mapping[str, Any] = {"missed": "worse", "spurious": "worse"}

    def metric(path: tuple[str, ...], page: str, evaluate: Evaluate) -> Metric:
        return Metric(path=("curves", *path), page=f"curves.{page}", evaluate=evaluate, **properties)

    for suffix in ("", "_101"):
        name, mean = f"average_precision{suffix}", f"mean_average_precision{suffix}"
        yield metric((name,), name, getattr(curves, name))
        yield metric((mean,), mean, getattr(curves, mean))
        for class_id, class_name in classes_of(choice):
            of_class = partial(getattr(curves, f"class_{name}"), class_id=class_id)
            yield metric(("per_class", class_name, name), f"per_class.{name}", of_class)
    if choice.iou_thresholds:
        span = range_key(choice.iou_thresholds)
        if len(choice.iou_thresholds) > 1:
            yield metric((f"coco_map_{span}",), "coco_map", curves.coco_mean_average_precision)
        for place, threshold in enumerate(choice.iou_thresholds):
            at = partial(curves.coco_average_precision, place=place)
            yield metric((f"coco_map_{threshold_key(threshold)}",), "coco_map_at", at)
        for class_id, class_name in classes_of(choice):
            of_class = partial(curves.coco_class_average_precision, class_id=class_id)
            yield metric(("per_class", class_name, f"coco_ap_{span}"), "per_class.coco_ap", of_class)
    if choice.false_positives:
        mean_arguments: dict[str, Any] = {"false_positives": choice.false_positives, "per": choice.per}
        yield metric(("froc",), "froc", partial(curves.mean_sensitivity, **mean_arguments))
        for rate in choice.false_positives:
            at = partial(curves.sensitivity_at, false_positives=rate, per=choice.per)
            yield metric((f"sensitivity_{rate_key(rate, choice.per)}",), "sensitivity_at", at)
        for class_id, class_name in classes_of(choice):
            of_class = partial(curves.class_mean_sensitivity, class_id=class_id, **mean_arguments)
            yield metric(("per_class", class_name, "froc"), "per_class.froc", of_class)


def rate_key(rate: float, per: str) -> str:
    """1/4 false positive per image as "at_0_25_per_image"."""
    return f"at_{rate:.12g}_per_{per}".replace(".", "_")


def overlap_metrics(choice: MetricChoice) -> Iterable[Metric]:
    del choice
    for name, function in (
        ("aji", overlap.aggregated_jaccard),
        ("aji_plus", overlap.aggregated_jaccard_plus),
        ("dice1", overlap.dice1),
        ("dice2", overlap.dice2),
    ):
        symmetric = name != "aji"
        yield Metric(
            path=("overlap", name),
            page=f"overlap.{name}",
            evaluate=partial(outlined, of=function),
            missed="none" if name == "dice2" else "worse",
            spurious="none" if name == "dice2" else "worse",
            symmetric=symmetric,
        )
    for name, function in (("splits", overlap.splits), ("merges", overlap.merges)):
        yield Metric(
            path=("overlap", name),
            page=f"overlap.{name}",
            evaluate=partial(outlined, of=function),
            better="lower",
            highest=math.inf,
            worst=None,
        )


def objects_metrics(choice: MetricChoice) -> Iterable[Metric]:
    del choice
    properties: Mapping[str, Any] = {"missed": "worse", "spurious": "worse"}
    for name, function, symmetric in (("f1", objects.object_f1, False), ("dice", objects.object_dice, True)):
        yield Metric(
            path=("objects", name),
            page=f"objects.{name}",
            evaluate=partial(outlined, of=function),
            symmetric=symmetric,
            **properties,
        )
    yield Metric(
        path=("objects", "hausdorff_px"),
        page="objects.hausdorff_px",
        evaluate=partial(outlined, of=objects.object_hausdorff),
        better="lower",
        highest=math.inf,
        worst="diagonal_px",
        unit="px",
        missed="either",
        spurious="either",
        symmetric=True,
        counts_missing=True,
    )


def counting_metrics(choice: MetricChoice) -> Iterable[Metric]:
    effects: Mapping[str, Any] = {"missed": "either", "spurious": "either"}
    r2: dict[str, Any] = {"lowest": -math.inf, "worst": None, **effects}
    error: dict[str, Any] = {"better": "lower", "highest": math.inf, "worst": None, "unit": "nuclei", **effects}
    yield Metric(path=("counting", "r2"), page="counting.r2", evaluate=counting.mean_r2, **r2)
    yield Metric(
        path=("counting", "mean_absolute_error"),
        page="counting.mean_absolute_error",
        evaluate=counting.mean_absolute_error,
        symmetric=True,
        **error,
    )
    for class_id, class_name in classes_of(choice):
        of_class = partial(counting.class_r2, class_id=class_id)
        path = ("counting", "per_class", class_name)
        yield Metric(path=(*path, "r2"), page="counting.per_class.r2", evaluate=of_class, **r2)
        yield Metric(
            path=(*path, "mean_absolute_error"),
            page="counting.per_class.mean_absolute_error",
            evaluate=partial(counting.class_mean_absolute_error, class_id=class_id),
            symmetric=True,
            **error,
        )


MAKERS: dict[Family, Callable[[MetricChoice], Iterable[Metric]]] = {
    "detection": detection_metrics,
    "classification": classification_metrics,
    "segmentation": segmentation_metrics,
    "panoptic": panoptic_metrics,
    "covered": covered_metrics,
    "overall": overall_metrics,
    "thresholds": thresholds_metrics,
    "curves": curves_metrics,
    "overlap": overlap_metrics,
    "objects": objects_metrics,
    "counting": counting_metrics,
}
