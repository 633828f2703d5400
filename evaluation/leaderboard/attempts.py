"""Several attempts of a team: which one counts, how many there were, and how much choosing among them inflates scores.

An attempt is named by its team, ``@`` and a text of its own; in ascending order the later attempt comes later:
``alpha@2026-11-02``, ``alpha@2026-11-09``. One attempt of each team is ranked, under its whole name. In a last phase
on other cases it is the one that counted on the board of the phase before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingRules
from evaluation.findings.challenge import Contradiction, OnlyOneOption
from evaluation.findings.command_line import NoChallengeOfResults
from evaluation.findings.errors import WrongUsage, faults_as
from evaluation.leaderboard.document import number
from evaluation.leaderboard.team_scores import TeamScores, Unranked, groups_of, read_board
from evaluation.model import Float64

Counting = Literal["last", "best", "chosen", "ladder"]
Decided = Counting | Mapping[str, Any]  # by a rule, or by the table ``attempts`` of a board
CHOSEN = "chosen"
PHASE_BEFORE = "phase_before"
SPLITS = 1000

WORDS: Mapping[str, str] = {
    "last": "its last one that was scored",
    "best": "the one that stands first when all attempts of all teams are ranked together",
    "chosen": "the one called 'chosen'",
    "ladder": "the last one that was better than the one before it in the first column by more than the standard error "
    "of their paired difference (the ladder of Blum and Hardt, 2015)",
    PHASE_BEFORE: "the one that counted in the phase before, on other cases,",
}


@dataclass(frozen=True, slots=True, eq=False)
class Attempts:
    """The attempts that count, the teams that have none, and the table ``attempts`` of leaderboard.json."""

    scores: tuple[TeamScores, ...]
    unranked: tuple[Unranked, ...]
    entry: Mapping[str, Any]


def choose_attempts(
    scores: Sequence[TeamScores],
    unranked: Sequence[Unranked],
    rules: RankingRules,
    counting: Decided,
    rank: Callable[[Sequence[TeamScores]], Mapping[str, float]],
) -> Attempts:
    """One attempt of each team.

    counting  a table: the attempts that it names count, and as many were made as it says
    unranked  attempts that were rejected: they count as made, and are listed for a team without an attempt that counts
    rank      the places of all attempts together, by their names, NaN for none
    """
    teams: dict[str, list[TeamScores]] = {}
    for of in sorted(scores, key=lambda of: of.name):
        teams.setdefault(team_of(of.name), []).append(of)
    rejected: dict[str, list[Unranked]] = {}
    for one in sorted(unranked, key=lambda one: one.name):
        rejected.setdefault(team_of(one.name), []).append(one)
    if not isinstance(counting, str):
        return choose_as_before(teams, rejected, rules, counting)
    places = rank(scores) if counting == "best" and scores else {}
    kept, without, entries = [], [one for name, of in rejected.items() if name not in teams for one in of[-1:]], []
    for name, attempts in teams.items():
        chosen = chosen_of(attempts, rules, counting, places)
        made = len(attempts) + len(rejected.get(name, ()))
        if chosen is None:
            without.append(Unranked(name, "no-value", f"none of its {made} attempts is called '{CHOSEN}'"))
        else:
            kept.append(chosen)
        entries.append(entry_of(name, made, len(attempts), chosen, inflation_of(attempts, rules)))
    entries += [entry_of(name, len(of), 0, None, []) for name, of in rejected.items() if name not in teams]
    entry = {"counting": counting, "teams": sorted(entries, key=lambda each: str(each["team"]))}
    return Attempts(tuple(kept), tuple(without), entry)


def choose_as_before(
    teams: Mapping[str, Sequence[TeamScores]],
    rejected: Mapping[str, Sequence[Unranked]],
    rules: RankingRules,
    before: Mapping[str, Any],
) -> Attempts:
    """Of each team the attempt that counted in the table ``before``; teams without it are listed as not ranked."""
    counted = {of["team"]: of for of in before["teams"]}
    kept, without, entries = [], [], []
    for name in sorted(counted.keys() | teams.keys() | rejected.keys()):
        was, attempts = counted.get(name, {"made": 0, "counts": None}), teams.get(name, ())
        chosen = next((of for of in attempts if of.name == was["counts"]), None)
        why = f"'{was['counts']}', which counted in the phase before, is not here"
        why = why if was["counts"] else "no attempt of it counted in the phase before"
        if chosen is None:
            refused = (of for of in rejected.get(name, ()) if of.name == was["counts"])
            without.append(next(refused, Unranked(name, "no-value", why)))
        else:
            kept.append(chosen)
        inflation = inflation_of([chosen], rules) if chosen else []
        entries.append(entry_of(name, was["made"], len(attempts), chosen, inflation))
    return Attempts(tuple(kept), tuple(without), {"counting": PHASE_BEFORE, "teams": entries})


def entry_of(
    team: str, made: int, scored: int, counts: TeamScores | None, inflation: Sequence[float]
) -> dict[str, Any]:
    return {
        "team": team,
        "made": made,
        "scored": scored,
        "counts": counts.name if counts else None,
        "inflation": [number(of) for of in inflation],
    }


def decided_in(board: Mapping[str, Any]) -> Decided | None:
    """How the attempts of a leaderboard.json were chosen, to choose the same way again."""
    table = board.get("attempts")
    return table if table and table["counting"] == PHASE_BEFORE else (table or {}).get("counting")


def decided_by(attempts: Counting | None, before: Path | None, challenge_folder: Path | None) -> Decided | None:
    """What the options ``--attempts`` and ``--phase-before`` say; the latter a folder with a leaderboard.json.

    Raises WrongUsage: not both, and the phase before is one on other cases.
    """
    if before is None:
        return attempts
    if attempts is not None:
        raise WrongUsage(OnlyOneOption("--phase-before", "it decides which attempt counts").at("--attempts"))
    if challenge_folder is None:
        raise WrongUsage(NoChallengeOfResults().at("--challenge"))
    challenge = Challenge.load(challenge_folder)
    with faults_as(WrongUsage):
        board = read_board(before)
    if not board.get("attempts"):
        found, allowed = "a board without attempts", "one that was made with --attempts"
    elif (board.get("challenge") or {}).get("hash") == challenge.hash or (
        challenge.submission.case_names != "hidden" and set(groups_of(challenge)) <= set(board.get("unit_names") or ())
    ):
        found, allowed = "the same cases", "a phase on other cases: attempts are not chosen by those that rank them"
    else:
        table: Mapping[str, Any] = board["attempts"]
        return table
    raise WrongUsage(Contradiction(found, allowed).at("--phase-before"))


def team_of(name: str) -> str:
    """The team of an attempt.

    >>> team_of("alpha@2026-11-02"), team_of("alpha")
    ('alpha', 'alpha')
    """
    return name.partition("@")[0].strip() or name


def chosen_of(
    attempts: Sequence[TeamScores], rules: RankingRules, counting: Counting, places: Mapping[str, float]
) -> TeamScores | None:
    if counting == "chosen":
        alone = attempts[0] if len(attempts) == 1 and "@" not in attempts[0].name else None
        return next((of for of in attempts if of.name.partition("@")[2] == CHOSEN), alone)
    if counting == "last":
        return attempts[-1]
    if counting == "best":
        return min(attempts, key=lambda of: (np.nan_to_num(places[of.name], nan=np.inf), of.name))
    standing = attempts[0]
    for of in attempts[1:]:
        if is_clear_step(standing, of, higher=rules.columns[0].direction == "descending"):
            standing = of
    return standing


def is_clear_step(standing: TeamScores, new: TeamScores, *, higher: bool) -> bool:
    """Whether an attempt is ahead in the first column by more than the standard error of the paired difference.

    s / sqrt(G), s with G - 1. Groups in which one has no value are left out; with fewer than two nothing is a step.
    """
    if standing.by_unit is None or new.by_unit is None:
        return False
    ahead = (new.by_unit[0] - standing.by_unit[0]) * (1 if higher else -1)
    ahead = ahead[~np.isnan(ahead)]
    return len(ahead) > 1 and bool(ahead.mean() > ahead.std(ddof=1) / np.sqrt(len(ahead)))


def inflation_of(attempts: Sequence[TeamScores], rules: RankingRules) -> list[float]:
    """For each column by how much the best of the attempts looks better than it is; NaN where groups are not known.

    Groups are split in two halves, ``SPLITS`` times: the best attempt in one half, its value there less its value in
    the other half. Chance of half the groups is sqrt(2) times that of all, so this is divided by sqrt(2). One attempt
    has 0, but for the chance of the splits. Positive: too good, also where lower is better.
    """
    tables = [of.by_unit for of in attempts if of.by_unit is not None]
    if len(tables) < len(attempts) or tables[0].shape[1] < 4:
        return [np.nan] * len(rules.columns)
    values = np.stack(tables, axis=1)  # (K, A, G)
    draw = np.random.Generator(np.random.PCG64(rules.seed))
    units = values.shape[2] // 2 * 2
    order = np.argsort(draw.random((SPLITS, values.shape[2])), axis=1)[:, :units]
    signs = [1 if column.direction == "descending" else -1 for column in rules.columns]
    return [split_gap(of * sign, order) for of, sign in zip(values, signs, strict=True)]


def split_gap(values: Float64, order: np.ndarray[Any, Any]) -> float:
    """What the best row of one half loses in the other half, on average over sqrt(2); values (A, G), more is better."""
    known = np.where(np.isnan(values), 0.0, values), ~np.isnan(values)
    means = []
    for half in np.split(order, 2, axis=1):
        total, number_of = (of[:, half].sum(axis=2) for of in known)  # (A, S)
        means.append(np.where(number_of > 0, total / np.maximum(number_of, 1), np.nan))
    here, there = means
    if np.isnan(here).any() or np.isnan(there).any():
        return float("nan")
    best = here.argmax(axis=0), np.arange(here.shape[1])
    return float((here[best] - there[best]).mean() / np.sqrt(2))


def attempts_in_words(entry: Mapping[str, Any], paths: Sequence[str]) -> str:
    """Which attempt counts, how many there were, and by how much choosing among them flatters, in columns ``paths``.

    >>> teams = [{"team": "a", "made": 9, "inflation": [0.0123, -0.1]}, {"team": "b", "made": 1, "inflation": [0, 0]}]
    >>> attempts_in_words({"counting": "last", "teams": teams}, ["f1", "iou"])
    'Of each team its last one that was scored counts. Attempts: a 9, b 1. The best of several attempts looks better \
than it is by about (f1, iou): a 0.012, 0.'
    """
    made = ", ".join(f"{of['team']} {of['made']}" for of in entry["teams"])
    words = f"Of each team {WORDS[entry['counting']]} counts. Attempts: {made}."
    if entry["counting"] == PHASE_BEFORE:
        return f"{words} It was not chosen by these cases, so that choosing flatters nobody."
    flattered = [
        f"{of['team']} {', '.join('–' if by is None else f'{max(by, 0):.2g}' for by in of['inflation'])}"
        for of in entry["teams"]
        if of["made"] > 1 and any(by is not None for by in of["inflation"])
    ]
    if flattered:
        words += f" The best of several attempts looks better than it is by about ({', '.join(paths)}): "
        words += f"{'; '.join(flattered)}."
    return words
