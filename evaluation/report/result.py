"""Scores and intervals of metrics.json and details.json for pages, why a score is undefined, and the rules in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evaluation.board.stored import value_at
from evaluation.board.titles import Document
from evaluation.challenge import COUNTED
from evaluation.report.tables import leaves_of
from nuclei_metrics.metrics import FAMILIES

WORDS_OF_AGGREGATIONS: Mapping[str, str] = {
    "group_mean": "mean over patients",
    "case_mean": "mean over cases",
    "stratum_mean": "mean over strata",
    "pooled": "all pooled",
}
OF_UNIT: Mapping[str, str] = {"pooled": "pooled", "group": "group_mean", "case": "case_mean"}
REASONS: Mapping[str, str] = {
    "no-instances": "there are no nuclei in the reference and the prediction",
    "no-reference": "there are predictions, but no reference nucleus",
    "no-prediction": "there are reference nuclei, but no prediction",
    "nothing-matched": "there are nuclei on both sides, but no matched pair",
    "one-class": "there is one class only, in the challenge or among the matched nuclei: nothing to distinguish",
    "constant-reference": "all cases have the same number of reference nuclei",
    "no-probability": "the predictions come without confidences, or without probabilities of classes",
    "class-aware-matching": "the matching rule already compared the classes",
    "points-only": "nuclei of one side are points, which have no outline to compare",
    "no-spacing": "the pixel size is unknown",
    "no-units": "no patient or case has a value, for different reasons",
    "one-group": "there is one patient only: no bootstrap",
    "undefined": "the score itself is undefined",
    "few-groups": "too few patients for an interval",
    "few-nuclei": "too few nuclei for an interval",
    "often-undefined": "the score is undefined in too many bootstrap samples",
    "needs-details": "the rank needs per-patient scores, which earlier results do not contain",
    "no-value": "a column has no value, or the submission is not ranked",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """A group or a case under the first matching rule.

    scores, counts  as in details.json
    cases      names of its cases
    submitted  whether all of its cases were
    """

    name: str
    group: str
    cases: tuple[str, ...]
    submitted: bool
    scores: Document
    counts: Document

    def value(self, path: str) -> float | None:
        return _number_at(self.scores, path)


@dataclass(frozen=True)
class ResultDocuments:
    """metrics.json, and details.json if that may be shown. ``order``: classes as the challenge has them, if known."""

    metrics: Document
    details: Document | None = None
    order: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Return whether a metric, a path without aggregation, is in metrics.json."""
        return isinstance(node_at(self.metrics, path), Mapping)

    def value(self, path: str) -> float | None:
        return _number_at(self.metrics, path)

    def why(self, path: str) -> str:
        """Return why a number of metrics.json is null, in words."""
        return reason_in_words(str(node_at(self.metrics["undefined"], path) or ""))

    def interval(self, path: str) -> tuple[float, float] | None:
        low, high = (self.interval_end(path, end) for end in ("low", "high"))
        return None if low is None or high is None else (low, high)

    def interval_end(self, path: str, end: str) -> float | None:
        return _number_at(self.metrics, f"confidence_intervals.{path}.{end}")

    def deviation(self, path: str) -> float | None:
        """The standard deviation over the units of a mean; None for fewer than three."""
        return _number_at(self.metrics, f"standard_deviations.{path}")

    @cached_property
    def has_intervals(self) -> bool:
        return bool(self.metrics.get("confidence_intervals"))

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """All metrics of the first matching rule, without aggregation, in the order of the families."""
        return tuple(
            path
            for family in FAMILIES
            if isinstance(self.metrics.get(family), Mapping)
            for path in dict.fromkeys(path.rpartition(".")[0] for path, _ in leaves_of({family: self.metrics[family]}))
        )

    @cached_property
    def aggregations(self) -> tuple[str, ...]:
        """The available aggregations, the aggregation of the challenge first."""
        names = {name for path in self.paths for name in node_at(self.metrics, path)}
        return tuple(sorted(names, key=lambda name: (name != self.main, list(WORDS_OF_AGGREGATIONS).index(name))))

    @cached_property
    def main(self) -> str:
        """The aggregation of the challenge: its unit, otherwise from the intervals or the ranked columns."""
        if self.details is not None:
            return OF_UNIT[self.rules["aggregation"]["unit"]]
        for part in ("confidence_intervals", "leaderboard"):
            names = {key for path, _ in leaves_of(self.metrics.get(part) or {}) for key in path.split(".")}
            names &= set(WORDS_OF_AGGREGATIONS)
            if len(names) == 1:
                return str(names.pop())
        return "group_mean"

    @property
    def main_in_words(self) -> str:
        """Name the main aggregation in words; "cases" if every patient has one case."""
        alone = self.main == "group_mean" and self.details is not None and not self.are_grouped
        return WORDS_OF_AGGREGATIONS["case_mean" if alone else self.main]

    @property
    def rules(self) -> Document:
        """The resolved rules of the challenge. Needs details.json."""
        assert self.details is not None
        rules: Document = self.details["challenge"]["rules"]
        return rules

    @cached_property
    def rule(self) -> str:
        """The name of the first matching rule. Needs details.json."""
        listed = self.rules["matching"]["rules"]
        return str(listed[0]["name"]) if listed else COUNTED

    @cached_property
    def classes(self) -> tuple[str, ...]:
        if self.details is not None:
            return tuple(self.details["classes"][1:])
        classes = {path.split(".")[2] for path in self.paths if ".per_class." in path}
        return (*(name for name in self.order if name in classes), *sorted(classes - {*self.order}))

    @cached_property
    def groups(self) -> tuple[Unit, ...]:
        if self.details is None:
            return ()
        submitted = {name: bool(case["submitted"]) for name, case in self.details["cases"].items()}
        return tuple(
            self.unit(name, name, tuple(group["cases"]), all(submitted[case] for case in group["cases"]), group)
            for name, group in sorted(self.details["groups"].items())
        )

    @cached_property
    def cases(self) -> tuple[Unit, ...]:
        """In ascending order of groups and names."""
        if self.details is None:
            return ()
        cases = sorted(self.details["cases"].items(), key=lambda item: (item[1]["group"], item[0]))
        return tuple(self.unit(name, case["group"], (name,), bool(case["submitted"]), case) for name, case in cases)

    def unit(self, name: str, group: str, cases: tuple[str, ...], submitted: bool, entry: Document) -> Unit:
        scored = entry["rules"][self.rule]
        return Unit(name, group, cases, submitted, scored["scores"], scored["counts"])

    @property
    def are_grouped(self) -> bool:
        """Return whether groups are more than single cases."""
        return len(self.groups) < len(self.cases)


def node_at(tree: Document, path: str) -> Any:
    return value_at(tree, path.split("."))


def _number_at(tree: Document, path: str) -> float | None:
    """The number as it is in the document; None if it is null or not there."""
    node = node_at(tree, path)
    return node if isinstance(node, int | float) else None


def reason_in_words(reason: str) -> str:
    return REASONS.get(reason, reason or "not measured")


def is_lower_better(path: str) -> bool:
    """Return whether a smaller value of a metric is the better one: distances, errors, splits and merges.

    >>> is_lower_better("segmentation.hausdorff95_px_class_mean"), is_lower_better("detection.f1")
    (True, False)
    """
    name = path.rpartition(".")[2].removesuffix("_class_mean").removesuffix("_median")
    return name.endswith(("_px", "_um")) or name in ("mean_absolute_error", "splits", "merges")
