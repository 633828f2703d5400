"""The leaderboard as files: places, ranks, values, tests, and how stable the places are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evaluation.findings import SUMMARY_LIMIT
from evaluation.leaderboard.matched_nuclei import Alike
from evaluation.leaderboard.stored import Unranked
from evaluation.leaderboard.verdict import verdict_sentences
from evaluation.model import Float64
from evaluation.ranking.differences import VERDICTS, Differences
from evaluation.ranking.significance import PairwiseTest
from evaluation.results.csv_files import csv_table
from evaluation.results.documents import as_json, encoded, number, software

PAIRS_UP_TO = 200  # teams; of more, what is known of each pair would fill megabytes that nobody reads
DIFFERENCES_UP_TO = 50  # teams, of which all pairs are written; of more those with the first one
VALUES_UP_TO = 2_000_000  # values of teams in columns and units; 106 teams x 2,263 cases x 8 columns fit


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A team with a place.

    combined   what its ranks in the columns add up to, or their mean or median; lower is better
    values, ranks  in the columns, in their order; None: no value
    ranked_by  what was ranked in each column, if not the value: an aggregate over units, or the share of tests won
    equal      the other teams in the same place
    low, high  interval of its places in the samples of the bootstrap, None: nothing was drawn
    first      probability of being first, shared by teams that are first together
    alone, shared  share of the samples in which it is first, alone and together with others
    places     share of the samples by place, those that occur; empty if nothing was drawn
    by_unit    its values in each column and unit; empty if they are not known or too many
    unit_places  its places by the values of each unit alone, None: none; empty as above
    floor_values  its numbers at the floors of the ranking, in their order; ``below_floor``: it fails one of them
    """

    name: str
    position: float
    combined: float
    values: tuple[float | None, ...]
    ranks: tuple[float | None, ...]
    ranked_by: tuple[float | None, ...] = ()
    equal: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    first: float | None = None
    alone: float | None = None
    shared: float | None = None
    places: tuple[tuple[float, float], ...] = ()
    by_unit: tuple[tuple[float | None, ...], ...] = ()
    unit_places: tuple[float | None, ...] = ()
    floor_values: tuple[float | None, ...] = ()
    below_floor: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry that is shown and not ranked (``ranking.unranked``): its values, as in ``TeamRow``."""

    name: str
    values: tuple[float | None, ...]
    by_unit: tuple[tuple[float | None, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """A column of the leaderboard; ``test`` and ``differences`` None: the values of units are not known.

    test                of the teams ``Board.compared``
    differences         of pairs of them, with the margin of equivalence, at the level divided by the number of columns
    significant_across  pairs of teams that differ significantly when all columns are corrected for together
    """

    path: str
    direction: str
    weight: float
    test: PairwiseTest | None
    margin: float = 0.0
    differences: Differences | None = None
    significant_across: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """A leaderboard.

    identity    of the challenge, as in metrics.json; empty if scores came from a table
    versions    of the program that scored the teams
    rules       the table [ranking] as it was applied
    words       the method in words
    compared    the teams with a place, in the order of the tests
    teams       the same from the first rank to the last, equal places by name
    shown       entries that are shown and not ranked, by name
    units       what was drawn and compared: how many, and what they are called
    unit_names  their names, as far as the challenge tells them; empty if ``by_unit`` of the teams is
    gaps        the table of this name of leaderboard.json; None: no team lacks a value that another one has
    methods, stability, common_nuclei  the tables of these names of leaderboard.json; None: not known
    tricks         what those do that were played on these teams, in words (``stored_tricks``); "" if it is not known
    before         the challenge of an older board, and the teams that stand elsewhere now; None: none was given
    alike          entries that share their errors: for organisers, never in leaderboard.json
    """

    identity: Mapping[str, str]
    versions: tuple[str, ...]
    rules: Mapping[str, Any]
    words: str
    columns: tuple[BoardColumn, ...]
    compared: tuple[str, ...]
    teams: tuple[TeamRow, ...]
    unranked: tuple[Unranked, ...]
    units: int
    unit_name: str
    stability: Mapping[str, Any]
    findings: tuple[str, ...] = field(default=())
    shown: tuple[Shown, ...] = ()
    unit_names: tuple[str, ...] = ()
    gaps: Mapping[str, Any] | None = None
    methods: tuple[Mapping[str, Any], ...] = ()
    common_nuclei: Mapping[str, Any] | None = None
    before: Mapping[str, Any] | None = None
    alike: Alike = field(default_factory=Alike)
    tricks: str = ""


# --- leaderboard.json -------------------------------------------------------------------------------------------------


def leaderboard_json(board: Board) -> str:
    """The content of leaderboard.json: strict JSON, sorted keys, six decimals; the same bytes for the same board."""
    return as_json(leaderboard_document(board))


def leaderboard_document(board: Board) -> dict[str, Any]:
    """The content of leaderboard.json. Names and paths are values, never keys, so that they may hold anything."""
    paths = [column.path for column in board.columns]
    few = len(board.teams) + len(board.unranked) <= PAIRS_UP_TO
    document: dict[str, Any] = {
        "challenge": dict(board.identity) or None,
        "software": {**software(), "scored_with": list(board.versions)},
        "ranking": {**board.rules, "in_words": board.words},
        "units": {"number": board.units, "kind": board.unit_name},
        "unit_names": list(board.unit_names),
        "columns": [column_entry(column, board.compared, few=few) for column in board.columns],
        "teams": encoded([team_entry(row, paths, few=few) for row in board.teams]),
        "not_ranked": encoded(
            [
                {"name": row.name, "code": row.code, "reason": row.reason, "columns": cells(paths, row)}
                for row in board.unranked
            ]
        ),
        "shown": encoded([{"name": row.name, "columns": cells(paths, row)} for row in board.shown]),
        "methods": list(board.methods),
        "common_nuclei": board.common_nuclei,
        "stability": board.stability,
        "findings": list(board.findings),
    }
    if board.gaps is not None:
        document["gaps"] = board.gaps
    if board.before is not None:
        document["before"] = board.before
    document["verdict"] = verdict_sentences(document, board.tricks)
    return document


OF_COLUMN = {"value": "values", "rank": "ranks", "ranked_by": "ranked_by", "by_unit": "by_unit"}


def cells(paths: Sequence[str], row: TeamRow | Shown | Unranked) -> list[dict[str, Any]]:
    """What is known of an entry in each column; nothing of one that was not scored."""
    known = {key: values for key, field in OF_COLUMN.items() if (values := getattr(row, field, ()))}
    names = zip(paths, *known.values(), strict=True) if known else ()
    return [dict(zip(("path", *known), cell_values, strict=True)) for cell_values in names]


def team_entry(row: TeamRow, paths: Sequence[str], *, few: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": row.name,
        "position": row.position,
        "combined": row.combined,
        "columns": cells(paths, row),
        "equal": row.equal,
        "rank_interval": None if row.low is None else {"low": row.low, "high": row.high},
        "probability_of_first": row.first,
        "first_alone": row.alone,
        "first_shared": row.shared,
    }
    if row.floor_values:
        entry |= {"floors": row.floor_values, "below_floor": row.below_floor}
    if row.unit_places:
        entry["unit_places"] = row.unit_places
    if few:
        entry["places"] = [{"place": place, "share": share} for place, share in row.places]
    return entry


def column_entry(column: BoardColumn, names: Sequence[str], *, few: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": column.path, "direction": column.direction, "weight": number(column.weight)}
    test = column.test
    if test is None:
        return entry | {"significance": None}
    tested: dict[str, Any] = {key: getattr(test, key) for key in ("test", "units", "left_out", "undefined")}
    if test.undefined is None:
        tested["friedman"] = {
            "statistic": number(test.statistic),
            "p_value": significant(test.p_value),
            "distribution": test.distribution,
        }
        tested["pair_distribution"] = test.pair_distribution
        tested["critical_difference"] = number(test.critical_difference)
        tested["teams"] = [team_test(test, names, index, few=few) for index in range(len(names))]
        if few:
            tested["cliques"] = [[names[index] for index in clique] for clique in test.cliques]
    entry["significance"] = tested
    tested["pairs_across_columns"] = column.significant_across
    if column.differences is not None:
        entry["margin"] = number(column.margin)
        entry["differences"] = difference_entries(names, column.differences)
    return entry


def difference_entries(names: Sequence[str], differences: Differences) -> list[dict[str, Any]]:
    """What the first of each pair of teams is ahead of the second."""
    needed, rows = differences.needed, differences.rows.tolist()
    every = len(rows) == len(names)
    return [
        {
            "first": names[rows[one]],
            "second": names[other],
            "units": int(differences.units[one, other]),
            "mean": number(float(differences.mean[one, other])),
            "low": number(float(differences.low[one, other])),
            "high": number(float(differences.high[one, other])),
            "effect": finite(differences.effect[one, other]),
            "ahead": number(float(differences.ahead[one, other])),
            "needed": finite(needed[one, other]),
            "verdict": VERDICTS[differences.verdict[one, other]],
        }
        for one, team in enumerate(rows)
        for other in range(team + 1 if every else 0, len(names))
        if other != team
    ]


def finite(value: float) -> float | int | None:
    return number(float(value)) if math.isfinite(value) else None


def team_test(test: PairwiseTest, names: Sequence[str], index: int, *, few: bool) -> dict[str, Any]:
    """The row of a team in the matrix of a column: which teams it is better and worse than, and the p-values."""
    row = test.better[index]
    entry: dict[str, Any] = {"name": names[index], "mean_rank": number(test.mean_ranks[index])}
    if few:
        entry["better_than"] = [names[other] for other in np.flatnonzero(row > 0).tolist()]
        entry["worse_than"] = [names[other] for other in np.flatnonzero(row < 0).tolist()]
        entry["p_values"] = [significant(value) for value in test.p_values[index].tolist()]
    else:
        entry |= {"better_than": int((row > 0).sum()), "worse_than": int((row < 0).sum())}
    return entry


def optional(values: Float64) -> tuple[float | None, ...]:
    """Numbers, None for NaN."""
    return tuple(None if np.isnan(value) else float(value) for value in values)


def significant(value: float | None) -> float | int | None:
    """A p-value to six significant digits, so that a small one is not 0; None for what is not known.

    >>> significant(0.012345678), significant(3.0000001e-12), significant(1.0)
    (0.0123457, 3e-12, 1)
    """
    if value is None or math.isnan(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


# --- leaderboard.csv --------------------------------------------------------------------------------------------------


def leaderboard_csv(board: Board) -> str:
    """The content of leaderboard.csv: a row for each team, those that are not ranked last, with their reasons."""
    without = [Unranked(entry.name, "shown", "ranking.unranked names it", entry.values) for entry in board.shown]
    rows: list[list[object]] = []
    of_columns = [name for column in board.columns for name in (column.path, f"{column.path}.rank")]
    ends = ("rank_low", "rank_high", "probability_of_first", "not_ranked", "reason")
    for row in board.teams:
        pairs = [number(n) for pair in zip(row.values, row.ranks, strict=True) for n in pair]
        trust = [number(row.low), number(row.high), number(row.first)]
        rows.append([number(row.position), row.name, number(row.combined), *pairs, *trust, "", ""])
    for unranked in [*without, *board.unranked]:
        values = unranked.values or (None,) * len(board.columns)
        pairs = [n for value in values for n in (number(value), None)]
        rows.append(["", unranked.name, "", *pairs, "", "", "", unranked.code, unranked.reason])
    return csv_table(["position", "team", "combined", *of_columns, *ends], rows, limit=SUMMARY_LIMIT)
