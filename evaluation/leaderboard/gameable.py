"""Whether a ranking can be won by silence or by copies: what its columns see, and what to add.

A column that sees matched pairs only is won by a team that keeps its easiest nucleus. ``docs/gaming.md`` shows what
pays under every preset.
"""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingColumn
from evaluation.findings import Finding, listed
from evaluation.leaderboard.team_scores import plan_columns
from evaluation.metrics import Metric

ADD = (
    "Rank as the preset 'recommended' does, by detection.f1, covered.class_recall and covered.iou_class_mean with a "
    "floor on F1, and show these numbers beside it; docs/gaming.md tells what pays."
)


def gameable_ranking(challenge: Challenge) -> list[Finding]:
    """Warnings ("gameable-ranking") about the columns and floors of a challenge whose rules were checked."""
    rules = challenge.ranking
    if rules is None or not rules.columns:
        return []
    floors = [RankingColumn(path=floor.path, direction="descending") for floor in rules.require]
    ranked = metrics_of_paths(challenge, rules.columns)
    required = metrics_of_paths(challenge, floors)
    blind = [path for path, metric in ranked.items() if metric.missed == "none"]
    found = []
    if blind:
        got = f"a missed nucleus costs nothing in {words(blind)}"
        found.append(finding("ranking.columns", got, "columns that a missed nucleus makes worse", ADD))
    is_safe = any(metric.spurious == "worse" and metric.missed == "worse" for metric in required.values())
    copied = [path for path, metric in ranked.items() if metric.missed != "none" and metric.spurious == "none"]
    if copied and not is_safe:
        got = f"a spurious nucleus costs nothing in {words(copied)}, and no floor is asked for"
        fix = 'Add require = [{ path = "detection.f1.group_mean", at_least = 0.5 }] to [ranking].'
        found.append(finding("ranking.columns", got, "a floor on a score that spurious nuclei make worse", fix))
    passed = [path for path, metric in required.items() if metric.spurious == "none"]
    if passed and not is_safe:
        got = f"a floor on {words(passed)}, which copies of nuclei pass"
        expected = "a floor on a score that missed and spurious nuclei make worse"
        found.append(finding("ranking.require", got, expected, "Put it on detection.f1."))
    return found


def metrics_of_paths(challenge: Challenge, columns: Iterable[RankingColumn]) -> dict[str, Metric]:
    return {planned.path: planned.metric for planned in plan_columns(challenge, tuple(columns))}


def words(paths: Iterable[str]) -> str:
    return listed(paths).replace(" or ", " and ")


def finding(key: str, got: str, expected: str, fix: str) -> Finding:
    return Finding("gameable-ranking", f"challenge.toml: {key}", got, expected, fix)
