"""The columns that a ranking or confidence intervals may name: the numbers that a result has."""

from __future__ import annotations

from collections.abc import Collection

from evaluation.challenge import Challenge
from evaluation.findings import Finding, fault
from evaluation.findings.errors import ChallengeBroken
from evaluation.metrics import FAMILIES, Metric, metrics_of
from evaluation.model import OF_STRATA, WORST_GROUP, WORST_STRATUM
from evaluation.scoring.score import aggregations_of


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
        family_not_listed(challenge, f"challenge.toml: {key}", path)
        or unknown_column(f"challenge.toml: {key}", path, metrics, known)
        for key, paths in columns.items()
        for path in paths
        if path not in known or (key == "confidence.columns" and path.endswith((WORST_GROUP, WORST_STRATUM)))
    ]
    faults += [
        fault("contradictory-rules", "challenge.toml: ranking.require", wording="no-floor", path=path)
        for path in columns["ranking.require"]
        if path in known and not is_floor(metrics[path.rpartition(".")[0]])
    ]
    if faults:
        raise ChallengeBroken(*faults)


def is_floor(metric: Metric) -> bool:
    """Whether a team can be asked to reach a value of it."""
    return metric.better == "higher" and metric.highest == 1.0


def unknown_column(where: str, path: str, metrics: Collection[str], known: Collection[str]) -> Finding:
    """The finding for a path that no result has: a mean over strata without strata, or anything else."""
    metric, _, aggregation = path.rpartition(".")
    if aggregation in OF_STRATA and metric in metrics:
        return fault("contradictory-rules", where, wording="cases-without-stratum", path=path)
    return fault("invalid-rule", where, wording="unknown-column", name=path, known=known)


def family_not_listed(challenge: Challenge, where: str, path: str) -> Finding | None:
    """The finding for a path of a family that there is, but that the challenge does not ask for."""
    family = path.partition(".")[0]
    listed = challenge.metrics.family_names
    return (
        fault("invalid-rule", where, wording="family-not-listed", path=path, family=family, listed=listed)
        if family in FAMILIES and family not in listed
        else None
    )
