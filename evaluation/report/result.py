"""Scores and intervals of metrics.json and details.json for pages, why a score is undefined, and the rules in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evaluation.challenge import COUNTED
from evaluation.challenge.matching_rules import rule_from
from evaluation.leaderboard.team_scores import value_at
from evaluation.leaderboard.titles import metric_title
from evaluation.metrics import FAMILIES

Document = Mapping[str, Any]

AGGREGATIONS: Mapping[str, str] = {
    "group_mean": "mean over patients",
    "case_mean": "mean over cases",
    "stratum_mean": "mean over strata",
    "worst_group": "worst patient",
    "worst_stratum": "worst stratum",
    "pooled": "all pooled",
}
OF_UNIT: Mapping[str, str] = {"pooled": "pooled", "group": "group_mean", "case": "case_mean"}
REASONS: Mapping[str, str] = {
    "no-instances": "there is nothing to score, neither in the reference nor in the prediction",
    "no-reference": "there are predictions, but no reference nucleus",
    "no-prediction": "there are reference nuclei, but no prediction",
    "nothing-matched": "there are nuclei on both sides, but no matched pair",
    "one-class": "there is one class only, in the challenge or among the matched nuclei: nothing to distinguish",
    "constant-reference": "all cases have the same number of reference nuclei",
    "no-probability": "the predictions come without confidences, or without probabilities of classes",
    "class-aware-matching": "the matching rule already compared the classes",
    "points-only": "nuclei of one side are points, which have no outline to compare",
    "no-spacing": "the size of a pixel is not known",
    "no-units": "no patient or case has a value, for different reasons",
    "one-group": "there is one patient only: no bootstrap",
    "undefined": "the number itself is undefined",
    "few-groups": "too few patients for an interval",
    "often-undefined": "the number is undefined in too many bootstrap samples",
    "outside-samples": "the number lies outside of all bootstrap samples",
    "needs-details": "the rank depends on the values of every patient, which are not known for earlier results",
    "unranked": "the challenge shows this entry without a rank",
    "no-stored-results": "the challenge keeps no results of other teams to rank it among",
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
        return number_at(self.scores, path)


@dataclass(frozen=True)
class ResultDocuments:
    """metrics.json, and details.json if that may be shown. ``order``: classes as the challenge has them, if known."""

    metrics: Document
    details: Document | None = None
    order: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Whether a metric, a path without aggregation, is in metrics.json."""
        return isinstance(node_at(self.metrics, path), Mapping)

    def value(self, path: str) -> float | None:
        return number_at(self.metrics, path)

    def why(self, path: str) -> str:
        """Why a number of metrics.json is null, in words."""
        return reason_in_words(str(node_at(self.metrics["undefined"], path) or ""))

    def interval(self, path: str) -> tuple[float, float] | None:
        low, high = (self.interval_end(path, end) for end in ("low", "high"))
        return None if low is None or high is None else (low, high)

    def interval_end(self, path: str, end: str) -> float | None:
        return number_at(self.metrics, f"confidence_intervals.{path}.{end}")

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
            for path in metric_paths(self.metrics[family], family)
        )

    @cached_property
    def aggregations(self) -> tuple[str, ...]:
        """Those that the result has, the challenge's own one first."""
        found = {name for path in self.paths for name in node_at(self.metrics, path)}
        return tuple(sorted(found, key=lambda name: (name != self.main, list(AGGREGATIONS).index(name))))

    @cached_property
    def main(self) -> str:
        """The aggregation of the challenge: its unit; else that of the intervals or of the ranked columns."""
        if self.details is not None:
            return OF_UNIT[self.rules["aggregation"]["unit"]]
        for part in ("confidence_intervals", "leaderboard"):
            names = set(keys_of(self.metrics.get(part) or {})) & set(AGGREGATIONS)
            if len(names) == 1:
                return str(names.pop())
        return "group_mean"

    @property
    def main_in_words(self) -> str:
        """Where every patient has one case, patients are not spoken of."""
        alone = self.main == "group_mean" and self.details is not None and not self.are_grouped
        return AGGREGATIONS["case_mean" if alone else self.main]

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
        found = {path.split(".")[2] for path in self.paths if ".per_class." in path}
        return (*(name for name in self.order if name in found), *sorted(found - {*self.order}))

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
        found = sorted(self.details["cases"].items(), key=lambda item: (item[1]["group"], item[0]))
        return tuple(self.unit(name, case["group"], (name,), bool(case["submitted"]), case) for name, case in found)

    def unit(self, name: str, group: str, cases: tuple[str, ...], submitted: bool, entry: Document) -> Unit:
        scored = entry["rules"][self.rule]
        return Unit(name, group, cases, submitted, scored["scores"], scored["counts"])

    @property
    def are_grouped(self) -> bool:
        """Whether groups are more than single cases."""
        return len(self.groups) < len(self.cases)


def node_at(tree: Document, path: str) -> Any:
    return value_at(tree, path.split("."))


def number_at(tree: Document, path: str) -> float | None:
    """The number as it stands in the document; None if it is null or not there."""
    node = node_at(tree, path)
    return node if isinstance(node, int | float) else None


def reason_in_words(reason: str) -> str:
    return REASONS.get(reason, reason or "not measured")


def metric_paths(tree: Document, prefix: str) -> Iterator[str]:
    """The paths of metrics below a table of metrics.json: tables of numbers by aggregation."""
    for key, node in tree.items():
        path = f"{prefix}.{key}"
        if isinstance(node, Mapping):
            if node and not any(isinstance(value, Mapping) for value in node.values()):
                yield path
            else:
                yield from metric_paths(node, path)


def keys_of(tree: Document) -> Iterator[str]:
    for key, node in tree.items():
        yield key
        if isinstance(node, Mapping):
            yield from keys_of(node)


def leaves_of(tree: Document, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and values of all that is no table."""
    for key, node in tree.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(node, Mapping):
            yield from leaves_of(node, path)
        else:
            yield path, node


def is_lower_better(path: str) -> bool:
    """Whether a smaller value of a metric is the better one: distances, errors, splits and merges.

    >>> is_lower_better("segmentation.hausdorff95_px_class_mean"), is_lower_better("detection.f1")
    (True, False)
    """
    name = path.rpartition(".")[2].removesuffix("_class_mean").removesuffix("_median")
    return name.endswith(("_px", "_um")) or name in ("mean_absolute_error", "splits", "merges")


# --- the rules in words -----------------------------------------------------------------------------------------------


OVERLAP: Mapping[str, str] = {
    "keep": "belong to all of them",
    "last": "belong to the last one in the file",
    "first": "belong to the first one in the file",
    "smallest": "belong to the smallest one",
    "class_order": "belong to the later class in the list, inside a class to the last one in the file",
    "ignore": "are not scored",
}
VANISHED: Mapping[str, str] = {"drop": "are left out", "pixel": "get the nearest pixel", "error": "are an error"}
VERTICES: Mapping[str, str] = {
    "exact": "taken as they are",
    "truncate": "cut to whole pixels",
    "nearest": "rounded to the nearest pixel",
}
IGNORED: Mapping[str, str] = {
    "clip": "the pixels inside them leave both sides",
    "drop_overlapping": "nuclei with more than {fraction} inside leave both sides",
    "drop_centroid": "nuclei with their centroid inside leave both sides",
    "drop_unmatched": "the pixels inside them leave both sides, and so do predicted nuclei that match nothing and had "
    "more than {fraction} inside",
}
MISSING_CASE: Mapping[str, str] = {
    "worst": "is scored as if nothing had been predicted in it",
    "reject": "makes the whole submission invalid",
}
UNIT: Mapping[str, str] = {
    "pooled": "Counts of all cases are added up, then each formula is applied once.",
    "group": "Counts are added up for each patient (group), each formula is applied there, then patients are averaged.",
    "case": "Each formula is applied to every case, then cases are averaged.",
}
UNDEFINED: Mapping[str, str] = {
    "skip": "are left out of means",
    "worst": "count as the worst value where nothing was predicted or nothing matched, and are left out elsewhere",
}


def rules_in_words(rules: Document) -> list[tuple[str, str]]:
    """Names and rows, in the order in which the rules act."""
    reference, metrics = rules["reference"], rules["metrics"]
    matching = rules["matching"]["rules"]
    rows = [("Classes", ", ".join(of_class["name"] for of_class in rules["classes"]))]
    if reference["overlap"] is not None:
        scope = " of its class" if reference["overlap_scope"] == "class" else ""
        words = f"Pixels inside several outlines{scope} {OVERLAP[reference['overlap']]}."
        if reference.get("vanished") is not None:
            words += f" Outlines without a pixel {VANISHED[reference['vanished']]}."
        if reference.get("vertices") is not None:
            words += f" Vertices are {VERTICES[reference['vertices']]}."
        rows.append(("Reference", words))
    ignore = reference["ignore"]
    if ignore["classes"]:
        what = IGNORED[ignore["policy"]].format(fraction=ignore["fraction"])
        rows.append(("Not scored", f"Regions called {', '.join(ignore['classes'])}: {what}."))
    rows.append(("A missing case", f"It {MISSING_CASE[rules['submission']['missing_case']]}."))
    if not matching:
        rows.append(("Counting", "The nuclei of each class are counted in each case; where they lie does not matter."))
    for index, rule in enumerate(matching):
        name = f"Matching: {rule['name']}" if index == 0 else f"Also: {rule['name']}"
        rows.append((name, rule_from(rule).words))
    rows.append(("Averages", averages_in_words(rules["aggregation"])))
    if {"segmentation", "covered", "overall"} & {name.partition(".")[0] for name in metrics["families"]}:
        edge = "counts" if metrics["boundary"] == "closed" else "does not count"
        measured = "; ".join(metric_title(name) for name in metrics["measures"])
        words = f"Measured on each pair: {measured}. The border of the image {edge} as boundary."
        for unit in ("px", "um"):
            if metrics[f"tolerance_{unit}"] is not None:
                words += f" Tolerance: {metrics[f'tolerance_{unit}']:g} {unit}."
            if metrics.get(f"distance_cap_{unit}") is not None:
                words += f" A false negative counts as a distance of {metrics[f'distance_cap_{unit}']:g} {unit}."
        if metrics.get("coverage") is not None:
            words += f" Covered: the best {100 * metrics['coverage']:g} % of the reference nuclei."
        rows.append(("Segmentation", words))
    if (confidence := rules["confidence"]) is not None:
        drawn = f"{confidence['samples']:,} bootstrap samples of {confidence['resample'].replace('_', ' ')}"
        method = {"by_groups": "studentised bootstrap", "bca": "BCa bootstrap"}.get(
            confidence["method"], f"{confidence['method']} bootstrap"
        )
        words = f"{100 * confidence['level']:g} %, {method}: {drawn}, seed {confidence['seed']}."
        rows.append(("Intervals", words))
    if (ranking := rules["ranking"]) is not None and ranking["columns"]:
        columns = "; ".join(
            f"{column['path']} ({'higher' if column['direction'] == 'descending' else 'lower'} is better"
            f"{'' if column['weight'] == 1 else ', weight {:g}'.format(column['weight'])})"
            for column in ranking["columns"]
        )
        floors = " and ".join(f"{of['path']} of at least {of['at_least']:g}" for of in ranking.get("require", ()))
        behind = f" Teams without {floors} are ranked behind the others." if floors else ""
        rows.append(("Ranking", f"By {ranking['method'].replace('_', ' ')}: {columns}.{behind}"))
    return rows


def averages_in_words(aggregation: Mapping[str, Any]) -> str:
    words = f"{UNIT[aggregation['unit']]} Undefined values {UNDEFINED[aggregation['undefined']]}."
    if aggregation["class_present"] == "reference":
        words += " A class counts in a unit only if the reference has it."
    return words
