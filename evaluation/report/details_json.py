"""details.json, for administrators: counts, confusion matrices and scores of every case and group, and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evaluation.challenge import Challenge
from evaluation.findings import Finding, render_findings
from evaluation.model import CaseResult, MatchCounts, MetricScores, UnitScores
from evaluation.report.metrics_json import identity, put, rounded


def details_document(
    challenge: Challenge,
    cases: Sequence[CaseResult],
    units: Mapping[str, Mapping[str, Mapping[str, UnitScores]]],
    scores: Mapping[str, Sequence[MetricScores]],
    findings: Sequence[Finding],
    software_version: str,
) -> dict[str, Any]:
    """The content of details.json.

    units   ``units[rule]["cases" | "groups" | "pooled"][name]``
    scores  as in metrics.json; from here come the numbers of units that were left out of a mean, or charged
    """
    group_of = {result.case.name: result.case.group for result in cases}
    return {
        "challenge": {**identity(challenge), "rules": challenge.model_dump(mode="json", exclude={"cases"})},
        "software": {"version": software_version},
        "classes": ["none", *challenge.class_names],
        "findings": render_findings(findings),
        "cases": {
            result.case.name: {
                "group": group_of[result.case.name],
                "submitted": not result.missing,
                "ignored_predictions": result.ignored_predictions,
                "rasterisation": None if result.rasterisation is None else asdict(result.rasterisation),
                "rules": {rule: unit_entry(units[rule]["cases"][result.case.name]) for rule in units},
            }
            for result in cases
        },
        "groups": {
            group: {
                "cases": sorted(name for name, its_group in group_of.items() if its_group == group),
                "rules": {rule: unit_entry(units[rule]["groups"][group]) for rule in units},
            }
            for group in sorted(set(group_of.values()))
        },
        "pooled": {"rules": {rule: unit_entry(units[rule]["pooled"]["all"]) for rule in units}},
        "means": {rule: means_entry(metrics) for rule, metrics in scores.items()},
    }


def unit_entry(unit: UnitScores) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    undefined: dict[str, Any] = {}
    for path, score in unit.scores.items():
        put(scores, path, rounded(score.value))
        if score.value is None:
            put(undefined, path, score.undefined)
    return {"counts": counts_entry(unit.counts), "scores": scores, "undefined": undefined}


def counts_entry(counts: MatchCounts) -> dict[str, Any]:
    return {
        "true_positives": counts.true_positives,
        "false_positives": counts.false_positives,
        "false_negatives": counts.false_negatives,
        "confusion_matrix": counts.confusion.tolist(),
        "cases": counts.cases,
        "missing_cases": counts.missing_cases,
    }


def means_entry(metrics: Sequence[MetricScores]) -> dict[str, Any]:
    """For each mean, how many units entered it, were left out as undefined, and were charged with the worst value."""
    entry: dict[str, Any] = {}
    for metric in metrics:
        for aggregation in ("group_mean", "case_mean"):
            mean = getattr(metric, aggregation)
            units = {"units": mean.units, "left_out": mean.left_out, "charged": mean.charged}
            put(entry, (*metric.path, aggregation), units)
    return entry
