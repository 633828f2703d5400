"""The command ``rank``: where the scores come from, and the rules that they are ranked by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.challenge import Challenge
from evaluation.challenge.definition import tuples_for_lists
from evaluation.challenge.documents import parse_toml
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.execution.workers import Progress
from evaluation.findings import fault, listed, quote
from evaluation.findings.errors import WrongUsage
from evaluation.leaderboard.board import changed_rules, load_ranked, older_board, rank_folder, rank_scores, with_moves
from evaluation.leaderboard.document import Board
from evaluation.leaderboard.score_csv import Unit, metrics_in, read_scores
from evaluation.leaderboard.teams import ResultFolder
from evaluation.ranking.methods import needs_units
from evaluation.scoring.score import better_by_name, wrong_directions

DIRECTIONS = ("ascending", "descending")
DEFAULT_RANKING: Mapping[str, Any] = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05}


def rank_given(
    challenge_folder: Path | None,
    *,
    results: Path | None,
    scores: Path | None,
    columns: Sequence[str],
    settings: Sequence[str],
    unit: Unit,
    before: Path | None = None,
    progress: Progress | None = None,
) -> Board:
    """Rank the teams of a folder of results, or of a CSV file. Raises WrongUsage, ChallengeBroken.

    before  an older board, its folder or its leaderboard.json: who moves is told

    Without a challenge the columns of a CSV file must be given; the rules are then sum_of_ranks, ties "min", level 0.05
    but for what ``settings`` change.
    """
    if (results is None) == (scores is None):
        number = "neither is" if results is None else "both are"
        raise WrongUsage(fault("missing-option", "--results, --scores", wording="no-results-or-scores", number=number))
    changes, old = parse_settings(settings), older_board(before)
    if results is not None:
        if challenge_folder is None:
            raise WrongUsage(fault("missing-option", "--challenge", wording="no-challenge-of-results"))
        refuse_columns(columns, "--results")
        return with_moves(rank_folder(challenge_folder, ResultFolder(results), changes, progress), old)
    assert scores is not None
    challenge, rules = rules_of_scores(challenge_folder, scores, columns, changes)
    in_file = read_scores(
        scores,
        rules.columns,
        unit=unit,
        missing=rules.missing,
        challenge=challenge,
        unranked=rules.unranked,
        draw=None if needs_units(rules.method) else (rules.samples, rules.seed),
    )
    return with_moves(rank_scores(in_file, rules, challenge, progress), old)


def rules_of_scores(
    challenge_folder: Path | None, scores: Path, columns: Sequence[str], changes: Mapping[str, Any]
) -> tuple[Challenge | None, RankingRules]:
    """The rules that a CSV file is ranked by: those of a challenge, or columns that are given. As ``rank_given``."""
    challenge: Challenge | None = None
    if challenge_folder is not None:
        refuse_columns(columns, "--challenge")
        challenge, rules = load_ranked(challenge_folder)
    else:
        rules = RankingRules(**DEFAULT_RANKING, columns=parse_columns(columns, scores))
    return challenge, changed_rules(rules, changes)


def refuse_columns(columns: Sequence[str], beside: str) -> None:
    if columns:
        why = "the columns are those of the challenge"
        raise WrongUsage(fault("contradictory-rules", "--column", wording="only-one-option", other=beside, reason=why))


def parse_columns(texts: Sequence[str], scores: Path) -> tuple[RankingColumn, ...]:
    """Columns as they stand on the command line. Raises WrongUsage.

    >>> parse_columns(["pq:descending", "hd:ascending:2"], Path("scores.csv"))[1].weight
    2.0
    """
    if not texts:
        raise WrongUsage(fault("missing-option", "--column", wording="no-column", metrics=metrics_in(scores)))
    columns = []
    for text in texts:
        metric, direction, weight = split_column(text)
        if not metric or direction not in DIRECTIONS or not 0 < weight <= 1000:
            expected = "METRIC:ascending or METRIC:descending, and :WEIGHT above 0 if columns shall not count the same"
            raise WrongUsage(fault("invalid-rule", "--column", got=quote(text, 120), expected=expected))
        columns.append(RankingColumn.model_construct(path=metric, direction=direction, weight=weight))
    twice = sorted({column.path for column in columns if sum(column.path == other.path for other in columns) > 1})
    if twice:
        raise WrongUsage(
            fault("contradictory-rules", "--column", got=f"{listed(twice)} twice", expected="every metric once")
        )
    if faults := wrong_directions("--column", columns, better_by_name(column.path for column in columns)):
        raise WrongUsage(*faults)
    return tuple(columns)


def split_column(text: str) -> tuple[str, str, float]:
    """Metric, direction and weight; the weight is NaN if it is no number. A metric may hold colons."""
    parts = text.split(":")
    if parts[-1] in DIRECTIONS:
        return ":".join(parts[:-1]), parts[-1], 1.0
    try:
        weight = float(parts[-1])
    except ValueError:
        weight = math.nan
    return ":".join(parts[:-2]), parts[-2] if len(parts) > 2 else "", weight


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Values for keys of [ranking], written as in TOML or as plain words. Raises WrongUsage.

    >>> parse_settings(["method=absolute", "samples=500", "ex_aequo=true"])
    {'method': 'absolute', 'samples': 500, 'ex_aequo': True}
    """
    settings_by_key: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or key == "columns":
            expected = "KEY=VALUE, with a key of [ranking] but 'columns'"
            raise WrongUsage(fault("invalid-rule", "--set", got=quote(text), expected=expected))
        try:
            settings_by_key[key] = tuples_for_lists(parse_toml(f"value = {value}")["value"])
        except ValueError:
            settings_by_key[key] = value
    return settings_by_key
