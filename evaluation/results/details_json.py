"""details.json, for administrators: counts, confusion matrices and scores of every case and group, and findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np

from evaluation.challenge import COUNTED, Challenge
from evaluation.decoding.confinement import missing_here
from evaluation.findings import Finding, render_findings
from evaluation.metrics.every_nucleus import coverage_curve
from evaluation.metrics.registry import metrics_of
from evaluation.model import CaseResult, Measure, MetricScores, UnitScores
from evaluation.model.scores import UNDEFINED_REASONS
from evaluation.results.metrics_json import identity, put, rounded, rounded_list, software

COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))


def details_document(
    challenge: Challenge,
    cases: Sequence[CaseResult],
    units: Mapping[str, Mapping[str, UnitScores]],
    scores: Mapping[str, Sequence[MetricScores]],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    """The content of details.json.

    units   ``units[rule]["cases" | "groups" | "pooled" | "strata"]``
    scores  as in metrics.json; from here come the numbers of units that were left out of a mean, or penalised
    """
    group_of = {result.case.name: result.case.group for result in cases}
    entries = {
        kind: {
            rule: unit_entries(
                of_kind[kind], paired=rule != COUNTED, measures=challenge.metrics.measures if kind == "cases" else None
            )
            for rule, of_kind in units.items()
        }
        for kind in next(iter(units.values()))
    }

    def rules_of(kind: str, name: str) -> dict[str, Any]:
        return {rule: of_rule[name] for rule, of_rule in entries[kind].items()}

    document = {
        "challenge": {**identity(challenge), "rules": challenge.model_dump(mode="json", exclude={"cases"})},
        "software": {**software(), **({"unconfined": missing} if (missing := missing_here()) else {})},
        "classes": ["none", *challenge.class_names],
        "findings": render_findings(findings),
        "cases": {
            result.case.name: {
                "group": group_of[result.case.name],
                "submitted": not result.missing,
                "ignored_predictions": result.ignored_predictions,
                "rasterisation": None if result.rasterisation is None else asdict(result.rasterisation),
                "rules": rules_of("cases", result.case.name),
            }
            for result in cases
        },
        "groups": {
            group: {
                "cases": sorted(name for name, its_group in group_of.items() if its_group == group),
                "rules": rules_of("groups", group),
            }
            for group in sorted(set(group_of.values()))
        },
        "pooled": {"rules": rules_of("pooled", "all")},
        "means": {rule: means_entry(metrics) for rule, metrics in scores.items()},
    }
    if "covered" in challenge.metrics.families:
        document["coverage_curves"] = coverage_curves(challenge, units)
    if "strata" in entries:
        strata = sorted({result.case.stratum for result in cases})
        document["strata"] = {stratum: {"rules": rules_of("strata", stratum)} for stratum in strata}
    return document


def coverage_curves(challenge: Challenge, units: Mapping[str, Mapping[str, UnitScores]]) -> dict[str, Any]:
    """What the pages draw: the quality of the best share of the reference nuclei, pooled, over the share.

    ``{"coverage": [0.05, …, 1], "rules": {rule: {"iou": […], "iou_class_mean": […], …}}}``; null where it is undefined.
    """
    choice = challenge.metric_choice()
    rules: dict[str, Any] = {}
    for rule, of_kind in units.items():
        rules[rule] = {}
        for metric in metrics_of(replace(choice, families=("covered",), metrics=()), class_aware=False):
            if metric.page != "covered.class_recall":
                name = metric.path[-1]
                curve = coverage_curve(
                    of_kind["pooled"].units,
                    cast(Measure, name.removesuffix("_class_mean")),
                    COVERAGES,
                    metric.highest if metric.better == "lower" else None,
                    by_class=name.endswith("_class_mean"),
                )
                values = curve.tolist()
                rules[rule][metric.path[-1]] = [None if math.isnan(value) else rounded(value) for value in values]
    return {"coverage": list(COVERAGES), "rules": rules}


def unit_entries(
    of_kind: UnitScores, *, paired: bool, measures: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Counts, scores and undefined values of all units of a kind, by their names.

    paired    False: nuclei of both sides were counted only, class by class
    measures  of matched pairs, which objects.csv has: then everything else that adds up is told, too, so that pooled
              scores of any of these units can be computed again
    """
    entries = {}
    units = of_kind.units
    told = ("cases", "missing", "empty", "confusion", *(measures or ()))
    more = {} if measures is None else {name: units.sum(name) for name in units.table.sums if name not in told}
    confusion, cases, missing = (units.sum(name) for name in ("confusion", "cases", "missing"))
    columns: dict[str, Any] = {}
    reasons: list[dict[str, Any]] = [{} for _ in of_kind.names]
    for path, of_metric in of_kind.scores.items():
        column: list[float | None] = [*rounded_list(np.where(of_metric.reason == 0, of_metric.value, 0.0))]
        for index, reason in enumerate(of_metric.reason.tolist()):
            if reason:
                column[index] = None
                put(reasons[index], path, UNDEFINED_REASONS[reason - 1])
        put(columns, path, column)
    rows = zip(of_kind.names, rows_of(columns) if columns else [{} for _ in reasons], reasons, strict=True)
    for index, (name, scores, undefined) in enumerate(rows):
        counts: dict[str, Any] = {"cases": int(cases[index]), "missing_cases": int(missing[index])}
        if paired:
            counts |= {
                "true_positives": int(confusion[index, 1:, 1:].sum()),
                "false_positives": int(confusion[index, 0].sum()),
                "false_negatives": int(confusion[index, :, 0].sum()),
                "confusion_matrix": confusion[index].tolist(),
            }
        else:
            counts |= {side: units.sum(f"count_{side}")[index].tolist() for side in ("reference", "prediction")}
        if any(values.any() for values in more.values()):
            counts["sums"] = {key: values[index].tolist() for key, values in more.items()}
        entries[name] = {"counts": counts, "scores": scores, "undefined": undefined}
    return entries


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """From nested tables of columns, at least one, to the same tables with one value of each, row by row."""
    values = [rows_of(of) if isinstance(of, dict) else of for of in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def means_entry(metrics: Sequence[MetricScores]) -> dict[str, Any]:
    """For each mean, how many units entered it, were left out as undefined, and were penalised with the worst value."""
    entry: dict[str, Any] = {}
    for metric in metrics:
        for aggregation, mean in metric.means.items():
            if aggregation != "pooled":
                units = {"units": mean.units, "left_out": mean.left_out, "penalised": mean.penalised}
                put(entry, (*metric.path, aggregation), units)
    return entry
