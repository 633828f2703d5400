"""Whether a ranking can be won by silence or by copies: what its columns see, and what to add.

A column that sees matched pairs only is won by a team that keeps its easiest nucleus. ``docs/gaming.md`` shows what
pays under every preset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingColumn
from evaluation.findings import Finding, counted, fault
from evaluation.leaderboard.team_scores import as_columns, plan_columns
from evaluation.metrics import Metric

TRICKS_BYTES = 100_000_000


def gameable_ranking(challenge: Challenge) -> list[Finding]:
    """Warnings ("gameable-ranking") about the columns and floors of a challenge whose rules were checked."""
    rules = challenge.ranking
    if rules is None or not rules.columns:
        return []
    ranked = metrics_of_paths(challenge, rules.columns)
    required = metrics_of_paths(challenge, as_columns(floor.path for floor in rules.require))
    blind = [path for path, metric in ranked.items() if metric.missed == "none"]
    is_safe = any(metric.spurious == "worse" and metric.missed == "worse" for metric in required.values())
    copied = [path for path, metric in ranked.items() if metric.missed != "none" and metric.spurious == "none"]
    passed = [path for path, metric in required.items() if metric.spurious == "none"]
    findings = []
    if blind:
        findings.append(fault("gameable-ranking", "challenge.toml: ranking.columns", paths=blind))
    if copied and not is_safe:
        findings.append(
            fault("gameable-ranking", "challenge.toml: ranking.columns", wording="copies-pay", paths=copied)
        )
    if passed and not is_safe:
        findings.append(
            fault("gameable-ranking", "challenge.toml: ranking.require", wording="floor-for-copies", paths=passed)
        )
    return findings


def against_tricks(document: Mapping[str, Any]) -> str:
    """Whether any attempt to game a ranking works, from tricks.json, without names of teams; "" if none was played."""
    tricks = {trick["name"]: trick["words"] for trick in document["tricks"]}
    paying = Counter(play["trick"] for play in document["plays"] if play["pays"])
    if not document["plays"]:
        return ""
    if not paying:
        return f"none of {counted(len(tricks), 'attempt')} to game the ranking worked"
    often = min(paying, key=lambda name: (-paying[name], name))
    work = "works" if len(paying) == 1 else "work"
    return f"{len(paying)} of {counted(len(tricks), 'attempt')} to game the ranking {work}, most often: {tricks[often]}"


def stored_tricks(file: Path, identity: Mapping[str, str], teams: Collection[str]) -> str:
    """What a tricks.json says of a ranking, if it is of this challenge, these rules and these teams; "" otherwise."""
    try:
        with file.open("rb") as stream:
            document = orjson.loads(stream.read(TRICKS_BYTES))
        played = {play["team"] for play in document["plays"]}
        return against_tricks(document) if document["challenge"] == identity and played == set(teams) else ""
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return ""


def metrics_of_paths(challenge: Challenge, columns: Iterable[RankingColumn]) -> dict[str, Metric]:
    return {planned.path: planned.metric for planned in plan_columns(challenge, tuple(columns))}
