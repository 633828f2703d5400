"""The table [ranking] of a challenge: changed on the command line, in words, against gaming, and on the platform."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evaluation.board.team_scores import plan_columns
from evaluation.board.titles import METHODS, TESTS
from evaluation.challenge import Challenge
from evaluation.challenge.definition import tuples_for_lists
from evaluation.challenge.documents import parse_toml
from evaluation.challenge.formats import faults_of
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.findings import Finding, counted, fault, listed, quote
from evaluation.findings.errors import ChallengeBroken, WrongUsage
from evaluation.scoring.score import better_by_name, check_columns, wrong_directions
from nuclei_metrics.ranking.methods import needs_units

COLUMN = re.compile(r"(.+):(ascending|descending)(?::(\d*\.?\d+(?:[eE][+-]?\d+)?))?")  # a metric may hold colons


def ranking_of(challenge: Challenge) -> RankingRules:
    """Return the table [ranking], with a column at least. Raises ChallengeBroken ("no-ranking") if missing."""
    if challenge.ranking is not None and challenge.ranking.columns:
        return challenge.ranking
    wording = "" if challenge.ranking is None else "no-columns"
    raise ChallengeBroken(fault("no-ranking", "challenge.toml: ranking", wording=wording))


def load_ranked(folder: Path) -> tuple[Challenge, RankingRules]:
    """Load a challenge that ranks, and return its table [ranking] as well. Raises ChallengeBroken."""
    challenge = Challenge.load(folder)
    check_columns(challenge)
    return challenge, ranking_of(challenge)


def changed_rules(rules: RankingRules, settings: Mapping[str, Any]) -> RankingRules:
    """Change the values of some keys of the table [ranking]. Raises WrongUsage."""
    try:
        return RankingRules.model_validate({**dict(rules), **settings})
    except ValidationError as error:
        problems = error.errors()
    faults, known = [], sorted(set(RankingRules.model_fields) - {"columns"})
    for problem in problems:
        key = str(problem["loc"][0]) if problem["loc"] else "method"
        where = f"--set {key}"
        if problem["type"] == "extra_forbidden":
            faults.append(fault("unknown-key", where, wording="rule", name=key, known=known))
        else:
            named = faults_of(problem, ())
            faults += [fault("invalid-rule", where, got=each.got, expected=each.expected) for each in named]
    raise WrongUsage(*faults)


def parse_columns(texts: Sequence[str]) -> tuple[RankingColumn, ...]:
    """Read columns as they are on the command line. Raises WrongUsage.

    >>> parse_columns(["pq:descending", "hd:ascending:2"])[1].weight
    2.0
    """
    columns = []
    for text in texts:
        match = COLUMN.fullmatch(text)
        weight = float(match[3] or 1) if match else 0.0
        if match is None or not 0 < weight <= 1000:
            expected = "METRIC:ascending or METRIC:descending, and :WEIGHT above 0 if columns have different weights"
            raise WrongUsage(fault("invalid-rule", "--column", got=quote(text, 120), expected=expected))
        columns.append(RankingColumn.model_construct(path=match[1], direction=match[2], weight=weight))
    times = Counter(column.path for column in columns)
    if twice := sorted(path for path, number in times.items() if number > 1):
        got = f"{listed(twice)} twice"
        raise WrongUsage(fault("contradictory-rules", "--column", got=got, expected="every metric once"))
    if faults := wrong_directions("--column", columns, better_by_name(times)):
        raise WrongUsage(*faults)
    return tuple(columns)


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Read values for keys of [ranking], written as in TOML or as plain words. Raises WrongUsage.

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


def method_in_words(rules: RankingRules, units: int, unit_name: str, *, teams: int = 2) -> str:
    """Describe the ranking method in a few sentences; every rule of [ranking] that has an effect is in them."""
    columns = "the column" if len(rules.columns) == 1 else f"each of {len(rules.columns)} columns"
    weighted = any(column.weight != 1 for column in rules.columns)
    by_weight = "weighted " if weighted else ""
    words = {"columns": columns, "by_weight": by_weight, "aggregate": rules.aggregate, "units": unit_name}
    first = METHODS[rules.method].sentence.format(unit=unit_name.removesuffix("s"), **words)
    ties = {"min": '"1, 2, 2, 4"', "average": '"1, 2.5, 2.5, 4"', "dense": '"1, 2, 2, 3"'}[rules.ties]
    missing = {
        "worst": "A team without a value in a column is last there.",
        "unranked": "A team without a value in a column is not ranked.",
        "complete_cases": f"A team without a value in a column is not ranked; in a column only {unit_name} "
        "count in which every other team has a value.",
    }[rules.missing]
    floors = " and ".join(f"{floor.path} of at least {floor.at_least:g}" for floor in rules.require)
    floor = f"Teams without {floors} rank after all other teams." if floors else ""
    tested = _test_in_words(rules, units, unit_name) if teams > 1 else ""
    named = ", ".join(quote(name, 40) for name in rules.unranked)
    shown = f"Shown and not ranked: {named}." if named else ""
    shared = "Teams without a significant difference share a rank in a column." if rules.ex_aequo else ""
    return " ".join(filter(None, [floor, first, f"Equal values: {ties}.", missing, tested, shared, shown]))


def _test_in_words(rules: RankingRules, units: int, unit_name: str) -> str:
    """Describe the test of significance and its number of units."""
    if not units:
        return "No test, because only means are available."
    unit = unit_name.removesuffix("s")
    test = ", ".join(TESTS[rules.test]).format(units=f"{unit}s")
    unseen = f" A failure in fewer than 1 of {units / 3:.0f} {unit_name} may not have been seen."
    return f"Test: {test}; {counted(units, unit)}, level {rules.significance_level:g}.{unseen * (6 <= units < 25)}"


def rule_by_units(rules: RankingRules) -> str:
    return f"the method {quote(rules.method)}" if needs_units(rules.method) else "ex_aequo = true"


# --- whether a ranking can be won by silence or by copies ------------------------------------------------------------


def gameable_ranking(challenge: Challenge) -> list[Finding]:
    """Warn ("gameable-ranking") about the columns and floors of a challenge with checked rules."""
    rules = challenge.ranking
    if rules is None or not rules.columns:
        return []
    ranked = plan_columns(challenge, rules.paths)
    required = plan_columns(challenge, rules.floor_paths)
    blind = [column.path for column in ranked if column.metric.missed == "none"]
    copied = [column.path for column in ranked if column.metric.missed != "none" and column.metric.spurious == "none"]
    passed = [column.path for column in required if column.metric.spurious == "none"]
    if any(column.metric.spurious == column.metric.missed == "worse" for column in required):
        copied, passed = [], []  # a floor that sees both
    if challenge.submission.duplicates == "false_positive":
        copied, passed = [], []  # of copies one at most matches
    return [
        fault("gameable-ranking", f"challenge.toml: ranking.{key}", wording=wording, paths=paths)
        for wording, key, paths in (
            ("", "columns", blind),
            ("copies-pay", "columns", copied),
            ("floor-for-copies", "require", passed),
        )
        if paths
    ]
