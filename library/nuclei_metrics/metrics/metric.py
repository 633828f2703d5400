"""What a metric is: one record with its formula and its properties. Its words are in pages/, a file a family.

A record stands in the file of its formula. Its path may hold placeholders, such as ``<class>``: ``PLACEHOLDERS`` says
what takes their place in a challenge, and which arguments the formula then gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model import UNDEFINED_REASONS, Better, Bool, Float64, MetricChoice, Scores, UndefinedReason, Units

# --- undefined --------------------------------------------------------------------------------------------------------

# Scores of many units at once, and why a value is undefined.

Reasons = npt.NDArray[np.int8]
Numbers = npt.NDArray[Any]


def code(reason: UndefinedReason) -> np.int8:
    """The number that stands for a reason in ``Scores.reason``."""
    return np.int8(1 + UNDEFINED_REASONS.index(reason))


def why_undefined(references: Numbers, predictions: Numbers) -> Reasons:
    """Why a score that needs matched pairs, or one side, has no value, from how many there are on either side, (B,)."""
    without_reference = np.where(predictions == 0, code("no-instances"), code("no-reference"))
    with_reference = np.where(predictions == 0, code("no-prediction"), code("nothing-matched"))
    return np.where(references == 0, without_reference, with_reference)


def ratio(numerator: Numbers, denominator: Numbers, reason: Reasons | np.int8) -> Scores:
    """``numerator / denominator`` of each unit; undefined for the reason where the denominator is 0."""
    return scores(numerator / np.where(denominator == 0, 1, denominator), denominator != 0, reason)


def scores(value: Numbers, defined: Bool, reason: Reasons | np.int8) -> Scores:
    """The values where they are defined, the reason elsewhere."""
    return Scores(
        np.where(defined, value, np.nan).astype(np.float64, copy=False), np.where(defined, np.int8(0), reason)
    )


def undefined(units: int, reason: UndefinedReason) -> Scores:
    """Return scores that are undefined in every unit, for one reason."""
    return Scores(np.full(units, np.nan), np.full(units, code(reason)))


def mean_of(parts: Sequence[Scores], reason: Reasons | np.int8) -> Scores:
    """Mean over those parts (classes, thresholds) that are defined, unit by unit; the reason where none is.

    Added up in the order of the parts, so always to the same digits.
    """
    total: Float64 = np.zeros(len(parts[0]))
    number = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        defined = part.reason == 0
        total[defined] += part.value[defined]
        number += defined
    return ratio(total, number, reason)


Evaluate = Callable[..., Scores]
Worst = float | Literal["diagonal_px", "diagonal_um"]
Effect = Literal["worse", "none", "either"]

OF_POINTS = frozenset({"centroid_distance_px", "centroid_distance_um"})  # measures that need no outlines


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the metrics that a record stands for in a challenge.

    names       what stands for its placeholders
    arguments   of the formula
    properties  fields of the record that the challenge decides, such as ``worst``
    """

    names: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)


Each = Callable[[MetricChoice], Iterable[Variant]]


@dataclass(frozen=True, slots=True)
class Empty:
    """The value of a metric where a side is empty or nothing matched: a reason, a number, or None for the formula's.

    Of a metric of a class: where a side has no nucleus of the class.
    """

    both_sides: UndefinedReason | float | None
    no_prediction: UndefinedReason | float | None
    no_reference: UndefinedReason | float | None
    nothing_matched: UndefinedReason | float | None


OF_PAIRS = Empty("no-instances", "no-prediction", "no-reference", "nothing-matched")  # of matched pairs only
OF_ALL = Empty("no-instances", 0, 0, 0)  # of all nuclei of both sides
BY_FORMULA = Empty(None, None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A scored quantity.

    path      its place in metrics.json, without the aggregation: ("detection", "per_class", "<class>", "f1")
    page      the heading of its section in pages/, by which it is chosen and explained; if not given, the path without
              placeholders. Metrics with one page are chosen together
    evaluate  the formula, for many units at once
    each      more that a challenge decides: whether it is there, arguments of the formula, properties
    better    which direction is better; "one": a ratio whose best value is 1
    lowest, highest  bounds of its values
    worst     what a missing case costs: a value, the longest diagonal of the images, or None if there is no worst value
    limit     the rule of a challenge that is both ``highest`` and ``worst``, in words, if there is one
    unit      "px", "um", … or "" for a number without unit
    empty     its values where there is nothing to compare
    outlines  whether it compares outlines: then it is undefined ("points-only") for points
    missed, spurious  what one more missed nucleus, or one more spurious one, away from all others, does to a value:
              "worse": it never gets better, and may get worse; "none": nothing; "either": it may get better, too
    symmetric whether it stays the same when reference and prediction change places
    counts_missing  whether a missing case already costs the worst value, though a false negative may not
    judges_class  whether it compares the classes of matched pairs: undefined where only pairs of equal classes match
    by_rule   whether it depends on the matching rule; if not, it is given with the first rule only
    """

    path: tuple[str, ...]
    page: str = ""
    evaluate: Evaluate
    each: tuple[Each, ...] = ()
    better: Better = "higher"
    lowest: float = 0.0
    highest: float = 1.0
    worst: Worst | None = 0.0
    limit: str = ""
    unit: str = ""
    empty: Empty = OF_PAIRS
    outlines: bool = False
    missed: Effect = "none"
    spurious: Effect = "none"
    symmetric: bool = False
    counts_missing: bool = False
    judges_class: bool = False
    by_rule: bool = True

    def __post_init__(self) -> None:
        if not self.page:
            object.__setattr__(self, "page", ".".join(key for key in self.path if not key.startswith("<")))

    @property
    def family(self) -> str:
        return self.path[0]

    @property
    def counts_missed(self) -> bool:
        """Whether a missing case already makes it worse."""
        return self.missed == "worse" or self.counts_missing

    def worst_of(self, units: Units) -> Float64:
        """Return the cost of a missing case in each unit, float64 (B,); NaN if there is no cost."""
        if isinstance(self.worst, str):
            return units.largest(self.worst)
        return np.full(len(units), math.nan if self.worst is None else self.worst)

    def in_challenge(self, choice: MetricChoice) -> Iterable[Metric]:
        """The metric for each class, threshold, … of a challenge, without placeholders."""
        evaluate = partial(of_outlines, evaluate=self.evaluate) if self.outlines else self.evaluate
        name = ".".join(self.path)
        held = [each for placeholder, each in PLACEHOLDERS.items() if placeholder in name] if "<" in name else []
        for variants in product(*(each(choice) for each in (*self.each, *held))):
            path, arguments, properties = self.path, dict[str, Any](), dict[str, Any]()
            for variant in variants:
                arguments |= variant.arguments
                properties |= variant.properties
                for placeholder, name in variant.names.items():
                    path = tuple(key.replace(placeholder, name) for key in path)
            formula = partial(evaluate, **arguments) if arguments else evaluate
            yield replace(self, path=path, evaluate=formula, each=(), **properties)


def of_outlines(units: Units, evaluate: Evaluate, **arguments: Any) -> Scores:
    """A score that compares outlines: undefined "points-only" where the nuclei of a case are points on a side."""
    score, points = evaluate(units, **arguments), units.sum("points") > 0
    return Scores(np.where(points, np.nan, score.value), np.where(points, code("points-only"), score.reason))


# --- what placeholders stand for --------------------------------------------------------------------------------------

STANDARD_RANGE = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))


def _each_class(choice: MetricChoice) -> Iterable[Variant]:
    return [Variant({"<class>": name}, {"class_id": c}) for c, name in enumerate(choice.class_names, start=1)]


def _each_grouping(choice: MetricChoice) -> Iterable[Variant]:
    groupings = choice.class_groups.items()
    return [Variant({"<grouping>": name}, {"groups": tuple(groups.values())}) for name, groups in groupings]


def _each_threshold(choice: MetricChoice) -> Iterable[Variant]:
    """One IoU threshold, by its index: ``f1_iou<threshold>`` is f1_iou50 at 0.5, f1_iou72_5 at 0.725."""
    return [
        Variant({"<threshold>": _threshold_digits(t)}, {"index": index})
        for index, t in enumerate(choice.iou_thresholds)
    ]


def _all_thresholds(choice: MetricChoice) -> Iterable[Variant]:
    """All IoU thresholds: ``f1_iou<thresholds>`` is f1_iou50_95 for 0.5:0.05:0.95, others are written out."""
    span = choice.iou_thresholds
    chosen = (span[0], span[-1]) if span == STANDARD_RANGE else span
    return [Variant({"<thresholds>": "_".join(map(_threshold_digits, chosen))})] if span else []


def if_several_thresholds(choice: MetricChoice) -> Iterable[Variant]:
    """The mean over one threshold is that one."""
    return [Variant()] if len(choice.iou_thresholds) > 1 else []


def _threshold_digits(threshold: float) -> str:
    """0.5 as "50", 0.725 as "72_5"."""
    return f"{100 * threshold:g}".replace(".", "_")


def _each_rate(choice: MetricChoice) -> Iterable[Variant]:
    """One number of false positives: ``at_<rate>`` at 1/4 an image is at_0_25_per_image."""
    for rate in choice.false_positives:
        name = f"{rate:.12g}_per_{choice.per}".replace(".", "_")
        yield Variant({"<rate>": name}, {"false_positives": rate, "per": choice.per})


PLACEHOLDERS: Mapping[str, Each] = {
    "<class>": _each_class,
    "<grouping>": _each_grouping,
    "<threshold>": _each_threshold,
    "<thresholds>": _all_thresholds,
    "<rate>": _each_rate,
}
