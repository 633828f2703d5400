"""The leaderboard as records with the keys of leaderboard.json as fields, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter
from pydantic.json_schema import SkipJsonSchema

from evaluation.board import ranked_table
from evaluation.board.facts import facts_of
from evaluation.board.matched_nuclei import Alike, CommonNuclei
from evaluation.board.stored import read_document
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.files.results.documents import (
    ABSENT,
    ChallengeIdentity,
    Number,
    PValue,
    Software,
    Value,
    Values,
    as_json,
    csv_table,
    encoded,
    in_file,
)
from evaluation.findings import SUMMARY_LIMIT, quote
from nuclei_metrics.model import Float64, RankingMethod, ScoreTable
from nuclei_metrics.ranking.declared_test import ColumnsTogether
from nuclei_metrics.ranking.differences import Differences
from nuclei_metrics.ranking.methods import Ranking, find_gaps, needs_units
from nuclei_metrics.ranking.significance import Int8, PairwiseTest
from nuclei_metrics.ranking.stability import Stability, kendall_tau

PAIRS_UP_TO = 200  # teams; of more, what is known of each pair would fill megabytes that nobody reads
VALUES_UP_TO = 2_000_000  # values of teams in columns and units; 106 teams x 2,263 cases x 8 columns fit


_PValueInFile = Annotated[PValue, in_file(Number | None)]


class _SoftwareOfBoard(Software):
    scored_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _ColumnCell:
    """Information on an entry in a column of the ranking; NaN: undefined.

    ranked_by  the ranked quantity, if not the value: an aggregate over units, or the share of tests won
    by_unit    the values in each unit, float64 (G,)
    """

    path: str
    value: Value
    rank: Value = ABSENT
    ranked_by: Value = ABSENT
    by_unit: Values = ABSENT


@dataclass(frozen=True, slots=True, eq=False)
class ShownRow:
    """An entry that is shown and not ranked (``ranking.unranked``), with nothing in columns if it was not scored."""

    name: str
    columns: tuple[_ColumnCell, ...]


@dataclass(frozen=True, slots=True, eq=False)
class UnrankedRow(ShownRow):
    """A team without a rank: the code of the first thing that is wrong, and all of it in one line."""

    code: str
    reason: str


class _PlaceShare(NamedTuple):
    """The share of the bootstrap samples in which a team has a rank."""

    place: Value
    share: Value


@dataclass(frozen=True, slots=True, eq=False)
class TeamRow(ShownRow):
    """A ranked team.

    combined       sum, mean or median of its ranks in the columns; lower is better
    equal          the other teams in the same rank
    rank_set       ``low`` and ``high``: 1 + the number of significantly better teams over the columns together, and the
                   number of teams minus the significantly worse teams; absent without a test
    rank_interval  ``low`` and ``high`` of its ranks in bootstrap samples; None without samples
    probability_of_first       in these samples, shared by teams that are first together
    first_alone, first_shared  share of the samples in which it is first, alone and tied
    floors         its numbers at the floors of the ranking, in their order; ``below_floor``: it fails a floor
    unit_places    its ranks by the values of single units, NaN: no rank
    places         ranks that occur in samples; omitted for more than ``PAIRS_UP_TO`` teams
    """

    position: Number
    combined: Value
    equal: tuple[str, ...]
    rank_interval: Mapping[str, Value] | None
    probability_of_first: Value | None
    first_alone: Value | None
    first_shared: Value | None
    rank_set: Mapping[str, int] = ABSENT
    floors: Values = ABSENT
    below_floor: bool = ABSENT
    unit_places: Values = ABSENT
    places: tuple[_PlaceShare, ...] = ABSENT


@dataclass(frozen=True, slots=True)
class _PairDifference:
    """Difference between two teams in a column, first minus second, as in ``Differences``.

    p_value  of the declared test, corrected for the number of pairs
    verdict  of the first team by the declared test, "better" or "worse"; "equivalent": the interval is inside the
             margin; otherwise "undecided"
    """

    first: str
    second: str
    units: int
    mean: Value
    low: Value
    high: Value
    effect: Value
    ahead: Value
    p_value: _PValueInFile
    verdict: str


@dataclass(frozen=True, slots=True)
class _TeamTest:
    """A team in the test of a column, with the teams that it is better and worse than, or of many teams their number.

    p_values  next to each of the teams, in the order of the test
    """

    name: str
    better_than: list[str] | int
    worse_than: list[str] | int
    mean_rank: Value = ABSENT
    p_values: list[_PValueInFile] = ABSENT


class _FriedmanTest(NamedTuple):
    """The test whether any two teams differ."""

    statistic: Value | None
    p_value: _PValueInFile | None
    distribution: str | None


@dataclass(frozen=True, slots=True)
class _Significance:
    """The test of a column, as in ``PairwiseTest``. Without a test, ``undefined`` is the reason, and the rest is
    absent.

    least_units  fewer than these are too few: nothing can be significant
    cliques               teams without a significant difference; of more than ``PAIRS_UP_TO`` teams they are omitted
    """

    test: str
    units: int
    left_out: int
    undefined: str | None
    least_units: int
    friedman: _FriedmanTest = ABSENT
    pair_distribution: str | None = ABSENT
    critical_difference: Value | None = ABSENT
    teams: list[_TeamTest] = ABSENT
    cliques: list[list[str]] = ABSENT


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """A column of the leaderboard; without a test if the values of units are unknown.

    margin, differences  of pairs of teams, at the level divided by the number of columns
    """

    path: str
    direction: Literal["ascending", "descending"]
    weight: Number
    significance: _Significance | None
    margin: Value = ABSENT
    differences: list[_PairDifference] = ABSENT


@dataclass(frozen=True, slots=True)
class _TogetherTest:
    """The declared test over the columns together, in the direction of the ranking."""

    teams: list[_TeamTest]


class UnitCount(NamedTuple):
    """Number and name of the units that were drawn and compared."""

    number: int
    kind: str


class _MethodPlaces(NamedTuple):
    """Ranks under one method of ranking, and Kendall's tau-b to the ranks under every method."""

    method: RankingMethod
    places: Values
    kendall_tau: Values


class SubtaskPlaces(NamedTuple):
    """Ranks by the columns of one subtask, for prizes per subtask."""

    name: str
    columns: list[str]
    places: Values


@dataclass(frozen=True, slots=True)
class BoardStability:
    """Bootstrap statistics of the whole ranking; ``undefined`` is the reason if there are no samples.

    most_changes_without  the unit whose removal changes the order of most pairs of teams
    columns               columns without values in samples, if this is the reason
    """

    samples: int
    seed: int
    undefined: str | None
    kendall_tau: Mapping[str, Value] = ABSENT
    same_order: Value = ABSENT
    first_changes_without: list[str] = ABSENT
    most_changes_without: str | None = ABSENT
    columns: list[str] = ABSENT


class _LackingTeam(NamedTuple):
    """A team that lacks values: how many, in all columns."""

    name: str
    lacking: int


@dataclass(frozen=True, slots=True)
class _BoardGaps:
    """Missing values of ranked teams, if other teams have them.

    rule      their treatment: "worst" and "complete_cases" as in ``ranking.missing``, or "no-value"
    values    of a team in all columns; ``left_out``: the number omitted for all teams
    """

    rule: str
    values: int
    kind: str
    left_out: int
    teams: list[_LackingTeam]


class ScoreChange(NamedTuple):
    """The value of a team in a column of this board, on an older one and now."""

    path: str
    before: Value | None
    now: Value | None


class Decision(NamedTuple):
    """A rule of the ranking without which other teams are first: "minimum", "weights" or "gaps"."""

    rule: str
    first: list[str]


class Move(NamedTuple):
    """Rank and scores of a team on an older board and on this board; None if missing there."""

    name: str
    before: Value | None
    now: Value | None
    scores: list[ScoreChange]


class ReferenceChange(NamedTuple):
    """The cases with reference files that differ from an older board; a file with all cases counts as one case."""

    cases: int
    changed: list[str]


class OlderBoard(NamedTuple):
    """The challenge of an older board, and the teams of both. ``reference``: None if its files are unknown."""

    challenge: Mapping[str, Any] | None
    reference: ReferenceChange | None
    teams: list[Move]


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """A leaderboard: the keys of leaderboard.json, but for the facts.

    challenge   its identity as in metrics.json; None if scores come from a table
    ranking     the table [ranking] as it was applied, and in words
    teams       from the first rank to the last, equal ranks by name
    together    the test over the columns together; None without a test
    subtasks    empty if all columns belong to one subtask
    unit_names  if the challenge publishes them; empty if the teams have no ``by_unit``
    alike       entries that share their errors: for organisers, never in leaderboard.json
    """

    challenge: Annotated[Mapping[str, str] | None, in_file(ChallengeIdentity | None)]
    software: Annotated[Mapping[str, Any], in_file(_SoftwareOfBoard)]
    ranking: Mapping[str, Any]
    units: UnitCount
    unit_names: tuple[str, ...]
    columns: tuple[BoardColumn, ...]
    not_ranked: tuple[UnrankedRow, ...]
    shown: tuple[ShownRow, ...]
    stability: BoardStability
    findings: tuple[str, ...]
    together: _TogetherTest | None
    teams: tuple[TeamRow, ...]
    subtasks: tuple[SubtaskPlaces, ...]
    methods: tuple[_MethodPlaces, ...]
    decided_by: tuple[Decision, ...]
    gaps: _BoardGaps = ABSENT
    common_nuclei: CommonNuclei | None = None
    before: OlderBoard = ABSENT
    alike: SkipJsonSchema[Alike] = field(default_factory=Alike)


# --- from tables to records -------------------------------------------------------------------------------------------


def cells_of(paths: Sequence[str], **known: Iterable[Any]) -> tuple[_ColumnCell, ...]:
    """Create the cells of an entry, from information on it in each column."""
    rows = zip(paths, *known.values(), strict=True)
    return tuple(_ColumnCell(path, **dict(zip(known, values, strict=True))) for path, *values in rows)


def team_rows(
    table: ScoreTable,
    rules: RankingRules,
    ranking: Ranking,
    drawn: Stability,
    together: ColumnsTogether | None,
    *,
    few: bool,
) -> tuple[TeamRow, ...]:
    """Order the teams from the first rank to the last, equal ranks by name."""
    order = sorted(range(len(table.teams)), key=lambda team: (ranking.position[team], table.teams[team]))
    equal: dict[int, tuple[str, ...]] = {}
    for _, alike in groupby(order, key=lambda team: float(ranking.position[team])):
        members = list(alike)
        for team in members:
            equal[team] = tuple(table.teams[other] for other in members if other != team)
    known = {"value": table.overall, "rank": ranking.rank_by_column}
    if needs_units(rules.method) and not rules.ex_aequo:
        known["ranked_by"] = ranking.values
    more: dict[str, Sequence[Any] | Float64] = {}
    if table.by_unit is not None and table.by_unit.size <= VALUES_UP_TO:
        known["by_unit"], more["unit_places"] = table.by_unit, ranked_table.places_in_units(table, rules)
    if table.floor_values is not None:
        more |= {"floors": table.floor_values, "below_floor": table.below_floor().tolist()}
    if together is not None:
        low, high = (ends.tolist() for ends in together.rank_set())
        more["rank_set"] = [{"low": best, "high": worst} for best, worst in zip(low, high, strict=True)]
    if few:
        places = drawn.ranks.tolist()
        more["places"] = [
            tuple(_PlaceShare(place, share) for place, share in zip(places, shares, strict=True) if share > 0)
            for shares in drawn.frequency.tolist()
        ]
    is_drawn = drawn.reason is None
    return tuple(
        TeamRow(
            name=table.teams[team],
            columns=cells_of(table.columns, **{key: values[team] for key, values in known.items()}),
            position=ranking.position[team],
            combined=ranking.combined[team],
            equal=equal[team],
            rank_interval={"low": drawn.low[team], "high": drawn.high[team]} if is_drawn else None,
            probability_of_first=drawn.first[team] if is_drawn else None,
            first_alone=drawn.alone[team] if is_drawn else None,
            first_shared=drawn.shared[team] if is_drawn else None,
            **{key: values[team] for key, values in more.items()},
        )
        for team in order
    )


def board_column(
    column: RankingColumn,
    rules: RankingRules,
    test: PairwiseTest | None,
    differences: Differences | None,
    names: Sequence[str],
    *,
    few: bool,
) -> BoardColumn:
    """Describe a column, its test, and the differences of the teams ``names``."""
    significance = None
    if test is not None:
        significance = _Significance(test.test, test.units, test.left_out, test.undefined, test.least_units)
        if test.undefined is None:
            p_value = None if test.p_value is None else PValue(test.p_value)
            significance = replace(
                significance,
                friedman=_FriedmanTest(test.statistic, p_value, test.distribution) if p_value is not None else ABSENT,
                pair_distribution=test.pair_distribution,
                critical_difference=test.critical_difference,
                teams=_team_tests(names, test.better, test.p_values, test.mean_ranks, few=few),
                cliques=[[names[index] for index in clique] for clique in test.cliques] if few else ABSENT,
            )
    entry = BoardColumn(column.path, column.direction, column.weight, significance)
    if differences is None or test is None:
        return entry
    margin = rules.margin_of(column)
    return replace(entry, margin=margin, differences=_pair_differences(names, differences, test, margin))


def _pair_differences(
    names: Sequence[str], differences: Differences, test: PairwiseTest, margin: float
) -> list[_PairDifference]:
    """List the differences of all pairs of teams, or of the teams in ``differences.rows`` from all other teams."""
    rows = differences.rows.tolist()
    numbers = (getattr(differences, key) for key in ("mean", "low", "high", "effect", "ahead"))
    finite = (np.where(np.isfinite(table), table, np.nan).tolist() for table in numbers)
    verdicts = np.array(("undecided", "better", "worse"))[test.better[rows]]
    verdicts = np.where(differences.within(margin), "equivalent", verdicts).tolist()
    p_values = [list(map(PValue, row)) for row in test.p_values[rows].tolist()]
    tables: list[Any] = [differences.units.tolist(), *finite, p_values, verdicts]
    return [
        _PairDifference(names[team], names[other], *(table[row][other] for table in tables))
        for row, team in enumerate(rows)
        for other in range(team + 1 if len(rows) == len(names) else 0, len(names))
        if other != team
    ]


def _team_tests(
    names: Sequence[str], better: Int8, p_values: Float64, mean_ranks: Float64 | None = None, *, few: bool
) -> list[_TeamTest]:
    """Describe the teams in a test from who is better (T, T); for many teams only the numbers."""
    tests = []
    for index, (name, row) in enumerate(zip(names, better, strict=True)):
        mean_rank = ABSENT if mean_ranks is None else float(mean_ranks[index])
        if not few:
            tests.append(_TeamTest(name, int((row > 0).sum()), int((row < 0).sum()), mean_rank))
            continue
        ahead, behind = ([names[other] for other in np.flatnonzero(sides).tolist()] for sides in (row > 0, row < 0))
        tests.append(_TeamTest(name, ahead, behind, mean_rank, list(map(PValue, p_values[index].tolist()))))
    return tests


def test_together(together: ColumnsTogether | None, names: Sequence[str], *, few: bool) -> _TogetherTest | None:
    """Describe the test over the columns together; omitted for many teams."""
    if together is None or not few:
        return None
    return _TogetherTest(_team_tests(names, together.better, together.p_values, few=few))


def board_stability(drawn: Stability, rules: RankingRules, table: ScoreTable) -> BoardStability:
    """Describe the bootstrap statistics of the whole ranking."""
    if drawn.reason is not None:
        columns = ranked_table.not_resampled(table, rules) if drawn.reason == "not-resampled" else ABSENT
        return BoardStability(0, rules.seed, drawn.reason, columns=columns)
    left_out, units = drawn.left_out, table.units
    return BoardStability(
        drawn.samples,
        rules.seed,
        None,
        kendall_tau={name: getattr(drawn.tau, name) for name in ("mean", "median", "low")},
        same_order=drawn.tau.same_order,
        first_changes_without=[units[unit] for unit in np.flatnonzero(left_out.changes_first).tolist()],
        most_changes_without=None if left_out.most is None else units[left_out.most],
    )


def board_gaps(table: ScoreTable, rules: RankingRules, unit_name: str) -> _BoardGaps:
    """Count the values that ranked teams lack; absent if no team lacks any."""
    gaps, lacking = table.gaps, find_gaps(table).sum(axis=-1)
    values, left_out, rule = len(table.units), 0, "no-value"
    if gaps is not None:
        lacking, values, left_out = gaps.lacking, gaps.values, int(gaps.left_out.sum())
        rule = "worst" if rules.missing == "worst" else rule
    if table.by_unit is None or not lacking.any():
        return ABSENT  # type: ignore[no-any-return]
    return _BoardGaps(
        "complete_cases" if left_out else rule,
        values * len(table.columns),
        unit_name if values == len(table.units) else "cases",
        left_out,
        [_LackingTeam(name, gap) for name, gap in zip(table.teams, lacking.sum(axis=1).tolist(), strict=True) if gap],
    )


def board_methods(places_of_methods: Mapping[RankingMethod, Float64]) -> tuple[_MethodPlaces, ...]:
    """Compare the ranks under all methods with each other."""
    every = np.array(list(places_of_methods.values()))
    return tuple(_MethodPlaces(name, places, kendall_tau(places, every)) for name, places in places_of_methods.items())


# --- files ------------------------------------------------------------------------------------------------------------


@cache
def board_form() -> TypeAdapter[Board]:
    """Return the form of leaderboard.json: further keys may be there."""
    return TypeAdapter(Board)


def read_board(path: Path) -> dict[str, Any]:
    """Read a leaderboard.json, or the leaderboard.json of a folder, as ``read_document`` does."""
    path = path / "leaderboard.json" if path.is_dir() else path
    return read_document(path, partial(board_form().validate_json, strict=True), where=quote(path.name))


def leaderboard_json(board: Board) -> str:
    """Write leaderboard.json: strict JSON, sorted keys, six decimals; the same bytes for the same board."""
    return as_json(leaderboard_document(board))


def leaderboard_document(board: Board) -> dict[str, Any]:
    """Return the content of leaderboard.json. Names and paths are values, never keys, so they can contain anything."""
    document = encoded(replace(board, alike=ABSENT)) | {"ranking": dict(board.ranking)}
    return {**document, "facts": encoded(facts_of(document))}


def leaderboard_csv(board: Board) -> str:
    """Write leaderboard.csv: a row per team; teams without a rank last, with their reasons."""
    ends = ("rank_low", "rank_high", "probability_of_first", "not_ranked", "reason")
    rows: list[list[object]] = []
    for team in board.teams:
        scores: list[float | None] = [score for cell in team.columns for score in (cell.value, cell.rank)]
        low, high = (team.rank_interval[end] if team.rank_interval else None for end in ("low", "high"))
        rows.append([team.position, team.name, team.combined, *scores, low, high, team.probability_of_first, "", ""])
    shown = (UnrankedRow(entry.name, entry.columns, "shown", "ranking.unranked names it") for entry in board.shown)
    for entry in (*shown, *board.not_ranked):
        scores = [score for cell in entry.columns for score in (cell.value, None)] or [None, None] * len(board.columns)
        rows.append(["", entry.name, "", *scores, "", "", "", entry.code, entry.reason])
    of_columns = [name for column in board.columns for name in (column.path, f"{column.path}.rank")]
    return csv_table(["position", "team", "combined", *of_columns, *ends], encoded(rows), limit=SUMMARY_LIMIT)
