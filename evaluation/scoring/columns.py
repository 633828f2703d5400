"""The columns that a ranking or confidence intervals may name: the numbers that a result has."""

from __future__ import annotations

from collections.abc import Collection

from evaluation.challenge import Challenge
from evaluation.findings import Finding
from evaluation.findings.challenge import CasesWithoutStratum, UnknownColumn
from evaluation.findings.errors import ChallengeBroken
from evaluation.metrics import metrics_of
from evaluation.model import (
    STRATUM_MEAN,
)
from evaluation.scoring.score import aggregations_of


def check_columns(challenge: Challenge) -> None:
    """Refuse columns of a ranking, or of confidence intervals, that no result can have."""
    columns = {
        "ranking.columns": [column.path for column in challenge.ranking.columns] if challenge.ranking else [],
        "confidence.columns": challenge.confidence.columns if challenge.confidence else (),
    }
    if not any(columns.values()):
        return
    metrics = {
        ".".join((*prefix, *metric.path))
        for index, (rule, class_aware) in enumerate(challenge.matching.passes)
        for prefix in [("alternatives", rule) if index else ()]
        for metric in metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=index == 0)
    }
    known = {f"{metric}.{aggregation}" for metric in metrics for aggregation in aggregations_of(challenge)}
    faults = [
        unknown_column(f"challenge.toml: {key}", path, metrics, known)
        for key, paths in columns.items()
        for path in paths
        if path not in known
    ]
    if faults:
        raise ChallengeBroken(*faults)


def unknown_column(where: str, path: str, metrics: Collection[str], known: Collection[str]) -> Finding:
    """The finding for a path that no result has: a mean over strata without strata, or anything else."""
    metric, _, aggregation = path.rpartition(".")
    if aggregation == STRATUM_MEAN and metric in metrics:
        return CasesWithoutStratum(path).at(where)
    return UnknownColumn(path, known).at(where)
