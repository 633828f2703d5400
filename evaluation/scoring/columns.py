"""The columns that a ranking or confidence intervals may name: the numbers that a result has."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping

from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingColumn
from evaluation.findings import Finding, fault
from evaluation.findings.errors import ChallengeBroken
from evaluation.metrics import FAMILIES, Metric, metrics_of
from evaluation.metrics.registry import METRIC_FAMILIES
from evaluation.model import AGGREGATIONS, OF_STRATA, WORST_GROUP, WORST_STRATUM, Better
from evaluation.scoring.score import aggregations_of

AGGREGATIONS_OF_MEANS = (*AGGREGATIONS, *OF_STRATA, WORST_GROUP)


def check_columns(challenge: Challenge) -> None:
    """Refuse columns of a ranking, or of confidence intervals, that no result can have."""
    columns = {
        "ranking.columns": [column.path for column in challenge.ranking.columns] if challenge.ranking else [],
        "ranking.require": [floor.path for floor in challenge.ranking.require] if challenge.ranking else [],
        "confidence.columns": challenge.confidence.columns if challenge.confidence else (),
    }
    if not any(columns.values()):
        return
    metrics = {
        ".".join((*prefix, *metric.path)): metric
        for index, (rule, class_aware) in enumerate(challenge.matching.passes)
        for prefix in [("alternatives", rule) if index else ()]
        for metric in metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=index == 0)
    }
    known = {f"{metric}.{aggregation}" for metric in metrics for aggregation in aggregations_of(challenge)}
    faults = [
        unknown_column(challenge, f"challenge.toml: {key}", path, metrics, known)
        for key, paths in columns.items()
        for path in paths
        if path not in known or (key == "confidence.columns" and path.endswith((WORST_GROUP, WORST_STRATUM)))
    ]
    faults += [
        fault("contradictory-rules", "challenge.toml: ranking.require", wording="no-floor", path=path)
        for path in columns["ranking.require"]
        if path in known and not is_floor(metrics[path.rpartition(".")[0]])
    ]
    if challenge.ranking:
        better = {f"{metric}.{name}": metrics[metric].better for metric in metrics for name in AGGREGATIONS_OF_MEANS}
        faults += wrong_directions("challenge.toml: ranking.columns", challenge.ranking.columns, better)
    if faults:
        raise ChallengeBroken(*faults)


def wrong_directions(where: str, columns: Iterable[RankingColumn], better: Mapping[str, Better]) -> list[Finding]:
    """The columns that would put the worst team first, by which direction is better at the paths of known metrics."""
    expected = {"higher": "descending", "lower": "ascending"}
    return [
        fault(
            "contradictory-rules",
            where,
            wording="wrong-direction",
            path=column.path,
            direction=column.direction,
            right=expected[better[column.path]],
            better=better[column.path],
        )
        for column in columns
        if expected.get(better.get(column.path, ""), column.direction) != column.direction
    ]


def better_by_name(paths: Iterable[str]) -> dict[str, Better]:
    """Which direction is better at those paths of a table of scores that name a metric of this program.

    A path may be the bare name of a metric, in any case, with or without its unit.

    >>> better_by_name(["F1", "hausdorff", "panoptic.pq.group_mean", "price"])
    {'F1': 'higher', 'hausdorff': 'lower', 'panoptic.pq.group_mean': 'higher'}
    """
    named = {path: {metric.better for metric in metrics} for path, metrics in metrics_by_name(paths).items()}
    return {path: better.pop() for path, better in named.items() if len(better) == 1}


def worst_by_name(paths: Iterable[str]) -> dict[str, float]:
    """The worst value that the metric at a path of a table of scores can have, where it is known and there is one.

    >>> worst_by_name(["f1", "kappa", "hausdorff", "price"])
    {'f1': 0.0, 'kappa': -1.0}
    """
    named = {
        path: {metric.lowest if metric.better == "higher" else math.inf for metric in metrics}
        for path, metrics in metrics_by_name(paths).items()
    }
    return {path: ends.pop() for path, ends in named.items() if len(ends) == 1 and math.isfinite(min(ends))}


def metrics_by_name(paths: Iterable[str]) -> dict[str, list[Metric]]:
    """The metrics of this program that a path of a table of scores may mean; nothing for other paths."""
    known: dict[str, list[Metric]] = {}
    for family in METRIC_FAMILIES.values():
        for metric in family:
            name = metric.path[-1]
            for alias in {name, re.sub(r"_(px|um)$", "", name)}:
                known.setdefault(alias, []).append(metric)
    found = {}
    for path in paths:
        parts = path.split(".")
        if parts[0] == "alternatives":
            parts = parts[2:]
        if parts and parts[-1] in AGGREGATIONS_OF_MEANS:
            parts.pop()
        name = parts[-1].casefold().replace(" ", "_").replace("-", "_") if parts else ""
        if name in known and (len(parts) == 1 or parts[0] in FAMILIES):
            found[path] = known[name]
    return found


def is_floor(metric: Metric) -> bool:
    """Whether a number can have a minimum that teams must reach: a score in [0, 1] of which more is better."""
    return metric.better == "higher" and metric.highest == 1.0


def unknown_column(
    challenge: Challenge, where: str, path: str, metrics: Collection[str], known: Collection[str]
) -> Finding:
    """The finding for a path that no result of a challenge has.

    Its family is not asked for, it is a mean over strata without strata, or anything else.
    """
    family, listed = path.partition(".")[0], challenge.metrics.family_names
    if family in FAMILIES and family not in listed:
        return fault("invalid-rule", where, wording="family-not-listed", path=path, family=family, listed=listed)
    metric, _, aggregation = path.rpartition(".")
    if aggregation in OF_STRATA and metric in metrics:
        return fault("contradictory-rules", where, wording="cases-without-stratum", path=path)
    return fault("invalid-rule", where, wording="unknown-column", name=path, known=known)
