"""The leaderboard: places of teams, significant differences, and how stable the places are.

``build_board`` makes it from a table of scores: of submissions, of stored results, or of a CSV file. ``rank_result``
ranks one submission among earlier results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from evaluation.challenge import Challenge
from evaluation.challenge.base import faults_of
from evaluation.challenge.rules import RankingRules
from evaluation.execution.workers import Progress
from evaluation.findings import Finding, fault, quote, render_findings
from evaluation.findings.errors import ChallengeBroken, InputFault, WrongUsage, faults_as
from evaluation.leaderboard.common_nuclei import common_entry, compared_measures
from evaluation.leaderboard.document import (
    DIFFERENCES_UP_TO,
    PAIRS_UP_TO,
    VALUES_UP_TO,
    Board,
    BoardColumn,
    Shown,
    TeamRow,
    leaderboard_csv,
    leaderboard_json,
    optional,
)
from evaluation.leaderboard.gameable import gameable_ranking, stored_tricks
from evaluation.leaderboard.matched_nuclei import compare_outlines, matched_nuclei, outlines_of
from evaluation.leaderboard.ranked_result import UNRANKED, with_ranks, without_place
from evaluation.leaderboard.score_csv import ScoresInFile
from evaluation.leaderboard.team_scores import (
    TeamScores,
    Unranked,
    floor_values,
    groups_of,
    number_at,
    plan_columns,
    ranking_of,
    read_board,
    read_metrics,
    score_table,
)
from evaluation.leaderboard.teams import RESULTS, Note, ResultFolder, score_teams
from evaluation.model import Bool, Float64, Int64, RankingMethod, ScoreTable
from evaluation.ranking.differences import BETTER, Differences, across_columns, better_in_samples, paired_differences
from evaluation.ranking.methods import (
    BY_MATRIX,
    Ranking,
    find_gaps,
    has_replaced,
    has_value,
    keep_complete_units,
    needs_units,
    positions_of,
    rank_behind,
    rank_teams,
    select_teams,
    unit_values,
)
from evaluation.ranking.sampled_tests import wins_in_samples
from evaluation.ranking.significance import PairwiseTest, compare_teams, ex_aequo_positions
from evaluation.ranking.stability import (
    RankSamples,
    Stability,
    bootstrap_ranks,
    kendall_tau,
    rank_by_values,
    sample_means,
    sample_weights,
    undrawn,
)
from evaluation.results.documents import identity, number, put
from evaluation.results.files import write_atomically
from evaluation.scoring.score import Result, check_columns

EARLIER = "leaderboard"  # folder of a challenge with results that are ranked beside a submission
EARLIER_LIMIT = 10_000
SAME = 2e-6  # up to here numbers differ that were made from values with six decimals
WITH_TESTS = "'unranked' or 'complete_cases', since values in the place of missing ones hide differences from tests"
SET_MISSING = "Write the missing values, or --set missing=unranked (or complete_cases)."
THIS = ""  # stands for the submission among earlier ones; no file has this name


# --- commands ---------------------------------------------------------------------------------------------------------


def load_ranked(folder: Path) -> tuple[Challenge, RankingRules]:
    """A challenge that ranks, with its table [ranking]. Raises ChallengeBroken."""
    challenge = Challenge.load(folder)
    check_columns(challenge)
    return challenge, ranking_of(challenge)


def score_and_rank(
    challenge_folder: Path,
    submissions: Path,
    output: Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    note: Note | None = None,
    executor: Executor | None = None,
    before: Path | None = None,
) -> Board:
    """Score all teams of a folder, as far as it is not done, and rank them.

    executor  works on the cases, ``workers`` of its tasks at once, in the place of processes of its own
    before    an older board, its folder or its leaderboard.json: who moves is told

    Raises WrongUsage, ChallengeBroken and WorkersLost.
    """
    old = older_board(before)
    challenge, rules = load_ranked(challenge_folder)
    columns = plan_columns(challenge, rules.columns)
    scored = score_teams(
        challenge_folder,
        challenge,
        columns,
        submissions,
        output,
        workers=workers,
        progress=progress,
        note=note,
        executor=executor,
    )
    board = board_of_challenge(challenge, rules, scored.scores, scored.unranked, scored.findings)
    objects = {team.name: output / RESULTS / team.name / "objects.csv" for team in board.teams}
    board = replace(board, tricks=stored_tricks(output / "tricks.json", board.identity, objects))
    board = with_moves(board, old)
    return with_pairs(board, challenge, rules, objects)


def rank_folder(
    challenge_folder: Path, results: ResultFolder, settings: Mapping[str, Any], progress: Progress | None = None
) -> Board:
    """Rank the results of a folder. Raises WrongUsage, ChallengeBroken."""
    challenge, rules = load_ranked(challenge_folder)
    rules = changed_rules(rules, settings)
    challenge = challenge.model_copy(update={"ranking": rules})
    scores, unranked = results.read(challenge, plan_columns(challenge, rules.columns))
    board = board_of_challenge(challenge, rules, scores, unranked, (), progress)
    return with_pairs(board, challenge, rules, results.objects())


def older_board(path: Path | None) -> dict[str, Any] | None:
    """The content of a leaderboard.json that was written before. Raises WrongUsage."""
    with faults_as(WrongUsage):
        return None if path is None else read_board(path)


def with_moves(board: Board, old: Mapping[str, Any] | None) -> Board:
    """The board with the teams that stand elsewhere than on an older one."""
    if old is None:
        return board
    places = {team["name"]: team["position"] for team in old["teams"]}
    now = {team.name: number(team.position) for team in board.teams}
    moved = [
        {"name": name, "before": places.get(name), "now": now.get(name)}
        for name in [*now, *sorted(places.keys() - now.keys())]
        if places.get(name) != now.get(name)
    ]
    return replace(board, before={"challenge": old["challenge"], "teams": moved})


def with_pairs(
    board: Board, challenge: Challenge, rules: RankingRules, objects: Mapping[str, Path | None], *, alike: bool = True
) -> Board:
    """The board with its ranked teams in pairs: its second table and, if ``alike``, which share their errors.

    objects  the objects.csv of each team

    As it was for more than ``PAIRS_UP_TO`` teams, and for challenges in which nothing is matched.
    """
    order = [team.name for team in board.teams]
    if not challenge.matching.rules or len(order) > PAIRS_UP_TO:
        return board
    matched = matched_nuclei(challenge, compared_measures(challenge, rules), {name: objects[name] for name in order})
    if matched.measures:
        board = replace(board, common_nuclei=common_entry(challenge, rules, matched, order))
    return replace(board, alike=compare_outlines(*outlines_of(matched))) if alike else board


def rank_scores(
    scores: ScoresInFile, rules: RankingRules, challenge: Challenge | None, progress: Progress | None = None
) -> Board:
    """Rank the teams of a CSV file. Raises WrongUsage ("missing-metric")."""
    return build_board(
        table_in_file(scores, rules, challenge),
        rules,
        identity=identity_of(challenge, rules),
        shown=scores.shown,
        unit_name=scores.unit_name,
        findings=[*scores.findings, *unknown_entries(rules, scores.names)],
        progress=progress,
    )


def table_in_file(scores: ScoresInFile, rules: RankingRules, challenge: Challenge | None) -> ScoreTable:
    """The table of a CSV file with its floors, which must be on columns. Raises WrongUsage ("missing-metric")."""
    columns, floors = [column.path for column in rules.columns], tuple(floor.path for floor in rules.require)
    for path in floors:
        if path not in columns:
            raise WrongUsage(fault("missing-metric", "ranking.require", wording="floor-without-scores", path=path))
    indices = [columns.index(path) for path in floors]
    samples = scores.table.samples
    return replace(
        scores.table,
        samples=None if samples is None else np.concatenate([samples, samples[..., indices]], axis=2),
        units=public_names(challenge, scores.table.units, scores.unit_name),
        floors=floors,
        at_least=tuple(floor.at_least for floor in rules.require),
        floor_values=scores.table.overall[:, indices] if indices else None,
    )


def changed_rules(rules: RankingRules, settings: Mapping[str, Any]) -> RankingRules:
    """The table [ranking] with other values for some of its keys. Raises WrongUsage."""
    if not settings:
        return rules
    try:
        return RankingRules.model_validate(
            {**{key: getattr(rules, key) for key in type(rules).model_fields}, **settings}
        )
    except ValueError as error:
        raise WrongUsage(*setting_faults(error)) from None


def setting_faults(error: ValueError) -> list[Finding]:
    """What is wrong with values that were given for keys of [ranking]."""
    faults, known = [], sorted(set(RankingRules.model_fields) - {"columns"})
    for problem in error.errors() if hasattr(error, "errors") else []:
        key = str(problem["loc"][0]) if problem["loc"] else "method"
        where = f"--set {key}"
        if problem["type"] == "extra_forbidden":
            faults.append(fault("unknown-key", where, wording="rule", name=key, known=known))
        else:
            faults += [
                fault("invalid-rule", where, got=each.got, expected=each.expected) for each in faults_of(problem, ())
            ]
    return faults


def write_board(folder: Path, board: Board) -> None:
    """Write leaderboard.csv and leaderboard.json, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "leaderboard.csv", leaderboard_csv(board))
    write_atomically(folder / "leaderboard.json", leaderboard_json(board))


# --- from scores to a board -------------------------------------------------------------------------------------------


def board_of_challenge(
    challenge: Challenge,
    rules: RankingRules,
    scores: Sequence[TeamScores],
    unranked: Sequence[Unranked],
    findings: Sequence[Finding],
    progress: Progress | None = None,
) -> Board:
    """The leaderboard of results of a challenge."""
    versions = tuple(sorted({team.version for team in scores}))
    if len(versions) > 1:
        findings = [*findings, fault("several-versions", "results", versions=versions)]
    names = [*(team.name for team in scores), *(team.name for team in unranked)]
    findings = [*findings, *gameable_ranking(challenge), *unknown_entries(rules, names)]
    shown = [
        Shown(team.name, optional(team.overall), () if team.by_unit is None else tuple(map(optional, team.by_unit)))
        for team in scores
        if team.name in rules.unranked
    ]
    unit_name = "patients" if any(case.name != case.group for case in challenge.cases) else "cases"
    return build_board(
        score_table(scores, rules, public_names(challenge, groups_of(challenge), unit_name)),
        rules,
        identity=identity_of(challenge, rules),
        versions=versions,
        unranked=unranked,
        shown=shown,
        unit_name=unit_name,
        findings=findings,
        progress=progress,
    )


def unknown_entries(rules: RankingRules, names: Sequence[str]) -> list[Finding]:
    """Warnings about names of ``ranking.unranked`` that no entry has."""
    unknown = [name for name in rules.unranked if name not in names]
    return [fault("unknown-entry", "challenge.toml: ranking.unranked", name=name, known=names) for name in unknown]


def public_names(challenge: Challenge | None, units: tuple[str, ...], unit_name: str) -> tuple[str, ...]:
    """The names of units as a leaderboard, which is made to be published, may tell them: numbers if they are hidden."""
    if challenge is None or challenge.submission.case_names != "hidden":
        return units
    return tuple(f"{unit_name.removesuffix('s')} {index}" for index in range(1, len(units) + 1))


def identity_of(challenge: Challenge | None, rules: RankingRules) -> dict[str, str]:
    """Which challenge, with the hash of the ranking as it was applied."""
    return {} if challenge is None else identity(challenge.model_copy(update={"ranking": rules}))


def build_board(
    table: ScoreTable,
    rules: RankingRules,
    *,
    identity: Mapping[str, str] | None = None,
    versions: Sequence[str] = (),
    unranked: Sequence[Unranked] = (),
    shown: Sequence[Shown] = (),
    unit_name: str = "patients",
    findings: Sequence[Finding] = (),
    progress: Progress | None = None,
) -> Board:
    """Rank the teams of a table, test their differences, and draw samples of their units.

    unranked  teams that have no scores
    shown     entries that are not in the table, since the rules do not rank them
    progress  is called with the number of columns that are tested, and of all

    Teams without a place are neither tested nor in a sample. Raises WrongUsage ("missing-units") if the rules ask for
    values of units that are not known.
    """
    if table.by_unit is None and table.teams and (needs_units(rules.method) or rules.ex_aequo):
        raise WrongUsage(fault("missing-units", "ranking", rule=rule_by_units(rules)))
    if has_replaced(table) and (rules.method in BY_MATRIX or rules.ex_aequo):
        got = f"'worst' for missing values, beside {rule_by_units(rules)}"
        raise WrongUsage(fault("contradictory-rules", "ranking.missing", got=got, expected=WITH_TESTS, fix=SET_MISSING))
    if rules.missing == "complete_cases":
        table = complete_table(table, rules)
    tests = compare_columns(table, rules, progress) if rules.method == "test_then_rank" else None
    full = apply_method(table, rules, tests) if table.teams else None
    is_ranked = ~np.isnan(full.position) if full else np.zeros(0, np.bool_)
    ranked_table = select_teams(table, is_ranked)
    if tests is None or ranked_table is not table:
        tests = compare_columns(ranked_table, rules, progress)
    common = common_values(ranked_table)
    claimed = tests if common is ranked_table else compare_columns(common, rules, progress)
    across = across_columns(claimed)
    rows: tuple[TeamRow, ...] = ()
    methods: tuple[dict[str, Any], ...] = ()
    stability = not_drawn(rules, "no-teams")
    if full and ranked_table.teams:
        plain = full if ranked_table is table else apply_method(ranked_table, rules, tests)
        drawn = draw_samples(ranked_table, rules, plain)
        rows = team_rows(
            ranked_table, rules, share_places(ranked_table, rules, tests) if rules.ex_aequo else plain, drawn
        )
        stability = stability_entry(drawn, rules, ranked_table)
        if len(rows) <= PAIRS_UP_TO:
            at = [ranked_table.teams.index(row.name) for row in rows]
            methods = methods_entry(
                {name: places[at] for name, places in places_by_methods(ranked_table, rules, tests).items()}
            )
    unit_names = table.units if rows and rows[0].by_unit else ()
    without = [
        Unranked(name, "no-value", full.why[name], optional(values))
        for name, values, ranked in zip(table.teams, table.overall, is_ranked, strict=True)
        if full and not ranked
    ]
    return Board(
        identity=dict(identity or {}),
        versions=tuple(versions),
        rules=rules.model_dump(mode="json", exclude={"columns"}),
        words=method_in_words(rules, len(table.units), unit_name),
        columns=tuple(
            BoardColumn(
                column.path,
                column.direction,
                column.weight,
                test,
                rules.margin_of(column),
                differences_of(common, index, rules, ranked_table.teams.index(rows[0].name) if rows else 0),
                across[index],
            )
            for index, (column, test) in enumerate(zip(rules.columns, claimed, strict=True))
        ),
        compared=ranked_table.teams,
        teams=rows,
        unranked=tuple(sorted([*without, *unranked], key=lambda row: row.name)),
        units=len(table.units),
        unit_name=unit_name,
        stability=stability,
        findings=tuple(render_findings(findings)),
        shown=tuple(
            entry if unit_names else replace(entry, by_unit=()) for entry in sorted(shown, key=lambda entry: entry.name)
        ),
        unit_names=unit_names,
        gaps=gaps_entry(ranked_table, rules, unit_name),
        methods=methods,
    )


def rule_by_units(rules: RankingRules) -> str:
    return f"the method {quote(rules.method)}" if needs_units(rules.method) else "ex_aequo = true"


def complete_table(table: ScoreTable, rules: RankingRules) -> ScoreTable:
    """``keep_complete_units``, also in samples."""
    cut = keep_complete_units(table)
    if cut.samples is None or cut.gaps is None or cut.by_unit is None:
        return cut
    weights = sample_weights(len(table.units), rules.samples, rules.seed)
    means = np.moveaxis(np.round(sample_means(cut.by_unit, weights), 6), 0, 1)
    samples, columns = cut.samples.copy(), np.flatnonzero(cut.gaps.left_out)
    samples[..., columns] = means[..., columns]
    return replace(cut, samples=samples)


def apply_method(table: ScoreTable, rules: RankingRules, tests: Sequence[PairwiseTest | None] | None = None) -> Ranking:
    """Rank the teams of a table by the method of the rules; places are not shared yet. Floors come first.

    tests  those of ``compare_columns``, if they are there
    """

    def rank(part: ScoreTable) -> Ranking:
        return rank_by_method(part, rules, tests if part is table else None)

    return rank_behind(table, rank)


def rank_by_method(
    table: ScoreTable, rules: RankingRules, tests: Sequence[PairwiseTest | None] | None = None
) -> Ranking:
    """``apply_method`` to teams of which all, or none, meet the floors."""
    matrix = None
    if rules.method == "test_then_rank":
        tests = tests or compare_columns(table, rules)
        matrix = np.stack([test.better for test in tests if test is not None])
    elif rules.method == "better_teams":
        matrix = better_matrix(table, rules)
    return rank_teams(
        table,
        method=rules.method,
        ties=rules.ties,
        missing=rules.missing_rank,
        aggregate=rules.aggregate,
        test_matrix=matrix,
    )


def better_matrix(table: ScoreTable, rules: RankingRules) -> npt.NDArray[np.int8]:
    """1 where the team of the row is better than that of the column by the paired difference, int8 (K, T, T)."""
    assert table.by_unit is not None
    comparisons = [
        paired_differences(
            table.by_unit[:, index],
            higher_is_better=bool(table.higher_is_better[index]),
            level=rules.significance_level,
            margin=rules.margin_of(column),
        )
        for index, column in enumerate(rules.columns)
    ]
    return np.stack([comparison.verdict == BETTER for comparison in comparisons]).astype(np.int8)


def compare_columns(
    table: ScoreTable, rules: RankingRules, progress: Progress | None = None
) -> list[PairwiseTest | None]:
    """The differences between teams, tested in each column; None where the values of units are not known."""
    if table.by_unit is None:
        return [None] * len(table.columns)
    tests: list[PairwiseTest | None] = []
    for index in range(len(table.columns)):
        if progress:
            progress(index, len(table.columns))
        tests.append(
            compare_teams(
                table.by_unit[:, index],
                higher_is_better=bool(table.higher_is_better[index]),
                test=rules.test,
                level=rules.significance_level,
            )
        )
    return tests


def differences_of(table: ScoreTable, column: int, rules: RankingRules, first: int) -> Differences | None:
    """The paired differences of the teams in a column; None where the values of units are not known.

    first  of more teams than ``DIFFERENCES_UP_TO`` only this one is compared with the others

    All intervals of all columns hold together with the level.
    """
    if table.by_unit is None or not table.teams:
        return None
    return paired_differences(
        table.by_unit[:, column],
        higher_is_better=bool(table.higher_is_better[column]),
        level=rules.significance_level / len(rules.columns),
        margin=rules.margin_of(rules.columns[column]),
        rows=None if len(table.teams) <= DIFFERENCES_UP_TO else [first],
    )


def common_values(table: ScoreTable) -> ScoreTable:
    """The table with the values that teams have, none of which stands in the place of a missing one."""
    return table if table.gaps is None else replace(table, by_unit=table.gaps.by_unit)


def gaps_entry(table: ScoreTable, rules: RankingRules, unit_name: str) -> dict[str, Any] | None:
    """The table ``gaps`` of leaderboard.json: how many values ranked teams lack, each in the column with most of them.

    ``rule`` says what became of them: "worst" and "complete_cases" as in ``missing``, or "no-value".
    """
    gaps, lacking = table.gaps, find_gaps(table).sum(axis=-1)
    if gaps is not None:
        lacking = gaps.lacking
    if table.by_unit is None or not lacking.any():
        return None
    left_out = 0 if gaps is None else int(gaps.left_out.max())
    values = len(table.units) if gaps is None else gaps.values
    most = lacking.max(axis=1).tolist()
    filled = "worst" if gaps is not None and rules.missing == "worst" else "no-value"
    return {
        "rule": "complete_cases" if left_out else filled,
        "values": values,
        "kind": unit_name if values == len(table.units) else "cases",
        "left_out": left_out,
        "teams": [{"name": name, "lacking": gap} for name, gap in zip(table.teams, most, strict=True) if gap],
    }


def share_places(table: ScoreTable, rules: RankingRules, tests: Sequence[PairwiseTest | None]) -> Ranking:
    """Rank the teams so that those which cannot be told apart share a place in a column (ex aequo).

    In a column the rank of a team is one more than the number of teams with fewer teams significantly better than them
    (``ex_aequo_positions``). These places take the part of the ranks: their sum, mean or median is ranked. For the
    methods that rank by the values of units it is their mean.
    """
    places = np.stack([ex_aequo_positions(test) for test in tests if test is not None], axis=1)
    shared = replace(table, overall=places, higher_is_better=np.zeros(len(table.columns), np.bool_), by_unit=None)
    method = "mean_of_ranks" if needs_units(rules.method) else rules.method
    return rank_behind(shared, partial(rank_teams, method=method, ties=rules.ties, missing=rules.missing_rank))


def rank_table(
    table: ScoreTable, rules: RankingRules, tests: Sequence[PairwiseTest | None] | None = None
) -> tuple[Float64, Float64]:
    """Places and combined numbers of all teams, as the leaderboard has them; NaN for teams that are not ranked.

    tests  those of ``compare_columns``, if they are there
    """
    position, combined = (np.full(len(table.teams), np.nan) for _ in range(2))
    if not table.teams:
        return position, combined
    placed = apply_method(table, rules, tests)
    is_ranked = ~np.isnan(placed.position)
    if not is_ranked.any():
        return position, combined
    if rules.ex_aequo or not is_ranked.all():
        ranked_table = select_teams(table, is_ranked)
        of_kept = tests if tests is not None and is_ranked.all() else compare_columns(ranked_table, rules)
        placed = share_places(ranked_table, rules, of_kept) if rules.ex_aequo else apply_method(ranked_table, rules)
    position[is_ranked], combined[is_ranked] = placed.position, placed.combined
    return position, combined


def places_by_methods(
    table: ScoreTable, rules: RankingRules, tests: Sequence[PairwiseTest | None]
) -> dict[RankingMethod, Float64]:
    """The places of the teams under every method that can decide: the one list of leaderboards and audits.

    Left out are methods by values of units where these are not known, "absolute" for several columns, and methods by
    tests where values stand in the place of missing ones, and where all teams share a place, as they do in too few
    units. All other rules stay.
    """
    by_method: dict[RankingMethod, Float64] = {}
    replaced = has_replaced(table)
    for method in get_args(RankingMethod):
        if (needs_units(method) and table.by_unit is None) or (method == "absolute" and len(table.columns) > 1):
            continue
        if method in BY_MATRIX and replaced:
            continue
        places, _ = rank_table(table, rules.model_copy(update={"method": method}), tests)
        if method == rules.method or method not in BY_MATRIX or np.nanmin(places) < np.nanmax(places):
            by_method[method] = places
    return by_method


def methods_entry(places_of_methods: Mapping[RankingMethod, Float64]) -> tuple[dict[str, Any], ...]:
    """The table ``methods`` of leaderboard.json: places under each method, Kendall's tau-b to those under all."""
    places = np.stack(list(places_of_methods.values()))
    return tuple(
        {
            "method": method,
            "places": list(map(number, place)),
            "kendall_tau": list(map(number, kendall_tau(place, places))),
        }
        for method, place in places_of_methods.items()
    )


def places_in_units(table: ScoreTable, rules: RankingRules) -> Float64:
    """The places of the teams by the values of each unit alone, float64 (T, G).

    In a unit there is one value in a column, so that methods that go by many units are the mean of ranks there.
    """
    assert table.by_unit is not None

    method = "mean_of_ranks" if rules.method == "better_teams" else rules.method
    rank = position_ranker(table, rules, table.higher_is_better, method)
    return positions_behind(np.moveaxis(table.by_unit, -1, 0), rank, table.below_floor()).T


def position_ranker(
    table: ScoreTable, rules: RankingRules, higher_is_better: Bool, method: RankingMethod
) -> Callable[[Float64], Float64]:
    """``positions_of`` by the weights of a table and the rules."""
    return partial(
        positions_of,
        higher_is_better=higher_is_better,
        weights=table.weights,
        method=method,
        ties=rules.ties,
        missing=rules.missing_rank,
    )


def positions_behind(values: Float64, rank: Callable[[Float64], Float64], below: Bool) -> Float64:
    """Positions (..., T) from values (..., T, K), those of teams below a floor behind all others."""
    if below.all() or not below.any():
        return rank(values)
    first, last = rank(values[..., ~below, :]), rank(values[..., below, :])
    positions = np.empty(values.shape[:-1])
    positions[..., ~below] = first
    positions[..., below] = last + np.count_nonzero(~np.isnan(first), axis=-1)[..., None]
    return positions


def draw_samples(table: ScoreTable, rules: RankingRules, plain: Ranking) -> Stability:
    """The bootstrap over the units of a table, of the ranking before places are shared."""
    reason = "no-units" if table.by_unit is None else "one-unit" if len(table.units) < 2 else ""
    if reason or not_resampled(table, rules):
        return undrawn(plain.position, reason or "not-resampled")
    rank = sample_ranker(table, rules)
    return bootstrap_ranks(rank, plain.position, units=len(table.units), samples=rules.samples, seed=rules.seed)


def not_resampled(table: ScoreTable, rules: RankingRules) -> list[str]:
    """Columns, and floors, that the ranking looks at and whose values in samples are not known.

    They are known where those in the sample of all units, each once, are the published ones.
    """
    values, floors = sampled_values(table)(np.ones((1, len(table.units)), np.int64))
    pairs = [] if needs_units(rules.method) else [(table.columns, values[0], table.overall)]
    if table.floor_values is not None:
        pairs.append((table.floors, floors[0], table.floor_values))
    return [
        path
        for paths, recomputed, published in pairs
        for path, one, other in zip(paths, recomputed.T, published.T, strict=True)
        if not np.allclose(one, other, rtol=SAME, atol=SAME, equal_nan=True)
    ]


def sampled_values(table: ScoreTable) -> Callable[[Int64], tuple[Float64, Float64]]:
    """The function from samples of units, int64 (S, G), to the numbers of the teams in them: those in the columns,
    float64 (S, T, K), with six decimals as the published ones, and those at the floors, (S, T, F)."""
    assert table.by_unit is not None
    by_unit, number = table.by_unit, len(table.columns)
    if table.samples is None:
        places = [table.columns.index(path) if path in table.columns else -1 for path in table.floors]

        def of_means(weights: Int64) -> tuple[Float64, Float64]:
            values = np.round(sample_means(by_unit, weights), 6)
            unknown = np.full((*values.shape[:2], 1), np.nan)
            return values, np.concatenate([values, unknown], axis=2)[..., places]

        return of_means
    samples = np.moveaxis(table.samples, 0, 1)
    units = len(table.units)
    drawn = sample_weights(units, table.samples.shape[1] - units - 1, table.seed)
    row_of = {weights.tobytes(): row for row, weights in enumerate(drawn)}

    def of_samples(weights: Int64) -> tuple[Float64, Float64]:
        chosen = samples[[row_of[draw.tobytes()] for draw in weights.astype(np.int16)]]
        return chosen[..., :number], chosen[..., number:]

    return of_samples


def sample_ranker(table: ScoreTable, rules: RankingRules) -> RankSamples:
    """The function that ranks samples of the units of a table by the method of the rules.

    Which teams are below a floor is found in each sample; samples in which these are the same are ranked together.
    """
    values = sampled_values(table)
    if not table.floors:
        return rank_in_samples(table, rules, values)
    rankers: dict[bytes, RankSamples] = {}

    def rank_samples(weights: Int64) -> Float64:
        below = ~(values(weights)[1] >= np.array(table.at_least)).all(axis=2)
        positions = np.empty(below.shape)
        patterns, pattern_of = np.unique(below, axis=0, return_inverse=True)
        for index, pattern in enumerate(patterns):
            key, drawn = pattern.tobytes(), np.flatnonzero(pattern_of.ravel() == index)
            if key not in rankers:
                known = np.where(pattern, 0.0, 1.0)[:, None]
                of_pattern = replace(table, floors=("",), at_least=(0.5,), floor_values=known)
                rankers[key] = rank_in_samples(of_pattern, rules, values)
            positions[drawn] = rankers[key](weights[drawn])
        return positions

    return rank_samples


def rank_in_samples(
    table: ScoreTable, rules: RankingRules, values: Callable[[Int64], tuple[Float64, Float64]]
) -> RankSamples:
    """``sample_ranker`` for samples in which the same teams are below a floor."""
    assert table.by_unit is not None
    if rules.method == "ranked_pairs":
        return lambda weights: np.array([rank_drawn(table, rules, times) for times in weights])
    below = table.below_floor()
    if rules.method in BY_MATRIX:
        return test_ranker(table, rules, below)
    if not needs_units(rules.method):
        rank = position_ranker(table, rules, table.higher_is_better, rules.method)
        return lambda weights: positions_behind(values(weights)[0], rank, below)
    unit_ranks = unit_values(table, method=rules.method, ties=rules.ties, missing=rules.missing_rank)
    if rules.method == "rank_then_aggregate" and below.any() and not below.all():  # ranks in units are among themselves
        by_unit = np.empty_like(unit_ranks.by_unit)
        for part in (below, ~below):
            of_part = unit_values(
                select_teams(table, part), method=rules.method, ties=rules.ties, missing=rules.missing_rank
            )
            by_unit[part] = of_part.by_unit
        unit_ranks = replace(unit_ranks, by_unit=by_unit)
    rank = position_ranker(table, rules, unit_ranks.higher_is_better, rules.method)
    return rank_by_values(
        unit_ranks.by_unit, lambda values: positions_behind(values, rank, below), aggregate=rules.aggregate
    )


def rank_drawn(table: ScoreTable, rules: RankingRules, times: Int64) -> Float64:
    """Positions in a sample, whose units are written out, each as often as it was drawn."""
    assert table.by_unit is not None
    drawn = table.by_unit[:, :, np.repeat(np.arange(table.by_unit.shape[2]), times)]
    return apply_method(replace(table, by_unit=drawn, units=("",) * drawn.shape[-1]), rules).position


def test_ranker(table: ScoreTable, rules: RankingRules, below: Bool) -> RankSamples:
    """The same for ``BY_MATRIX``: all pairs of teams are tested again in each sample, those below a floor apart."""
    by_tests = rules.method == "test_then_rank"

    def in_samples(values: Float64, index: int) -> Callable[[Int64], npt.NDArray[Any]]:
        higher, level = bool(table.higher_is_better[index]), rules.significance_level
        if by_tests:
            columns = len(table.columns)
            return wins_in_samples(values, higher_is_better=higher, test=rules.test, level=level, columns=columns)
        margin = rules.margin_of(rules.columns[index])
        return better_in_samples(values, higher_is_better=higher, level=level, margin=margin)

    parts = [part for part in (below, ~below) if part.any()]
    of_parts = [
        [in_samples(of_part.by_unit[:, index], index) for index in range(len(table.columns))]
        for part in parts
        if (of_part := select_teams(table, part)).by_unit is not None
    ]

    rank = position_ranker(table, rules, np.full(len(table.columns), by_tests), rules.method)

    def rank_samples(weights: Int64) -> Float64:
        won = np.empty((len(weights), *table.overall.shape))
        for part, of_columns in zip(parts, of_parts, strict=True):
            won[:, part] = np.stack([of_column(weights) for of_column in of_columns], axis=2)
        won[:, ~has_value(table)] = np.nan
        return positions_behind(won, rank, below)

    return rank_samples


# --- what the documents are made of -----------------------------------------------------------------------------------


def team_rows(table: ScoreTable, rules: RankingRules, ranking: Ranking, drawn: Stability) -> tuple[TeamRow, ...]:
    """The teams from the first rank to the last, equal places by name."""
    order = sorted(range(len(table.teams)), key=lambda team: (ranking.position[team], table.teams[team]))
    equal: dict[int, tuple[str, ...]] = {}
    for _, alike in groupby(order, key=lambda team: float(ranking.position[team])):
        members = list(alike)
        for team in members:
            equal[team] = tuple(table.teams[other] for other in members if other != team)
    has_samples, below = drawn.reason is None, table.below_floor()
    by_unit = table.by_unit if table.by_unit is not None and table.by_unit.size <= VALUES_UP_TO else None
    places = places_in_units(table, rules) if by_unit is not None else None
    return tuple(
        TeamRow(
            name=table.teams[team],
            position=float(ranking.position[team]),
            combined=float(ranking.combined[team]),
            values=optional(table.overall[team]),
            ranks=optional(ranking.rank_by_column[team]),
            ranked_by=optional(ranking.values[team]) if needs_units(rules.method) and not rules.ex_aequo else (),
            equal=equal[team],
            low=float(drawn.low[team]) if has_samples else None,
            high=float(drawn.high[team]) if has_samples else None,
            first=float(drawn.first[team]) if has_samples else None,
            alone=float(drawn.alone[team]) if has_samples else None,
            shared=float(drawn.shared[team]) if has_samples else None,
            places=tuple(
                (float(place), float(share))
                for place, share in zip(drawn.ranks, drawn.frequency[team], strict=True)
                if share > 0
            ),
            by_unit=() if by_unit is None else tuple(optional(values) for values in by_unit[team]),
            unit_places=() if places is None else optional(places[team]),
            floor_values=() if table.floor_values is None else optional(table.floor_values[team]),
            below_floor=bool(below[team]),
        )
        for team in order
    )


def stability_entry(drawn: Stability, rules: RankingRules, table: ScoreTable) -> dict[str, Any]:
    """The table ``stability`` of leaderboard.json: what the bootstrap says of the ranking as a whole.

    ``most_changes_without`` is the unit without which most pairs of teams stand otherwise.
    """
    if drawn.reason is not None:
        more = {"columns": not_resampled(table, rules)} if drawn.reason == "not-resampled" else {}
        return not_drawn(rules, drawn.reason) | more
    left_out, tau, units = drawn.left_out, drawn.tau, table.units
    return {
        "samples": drawn.samples,
        "seed": rules.seed,
        "undefined": None,
        "kendall_tau": {"mean": number(tau.mean), "median": number(tau.median), "low": number(tau.low)},
        "same_order": number(tau.same_order),
        "first_changes_without": [units[unit] for unit in np.flatnonzero(left_out.changes_first).tolist()],
        "most_changes_without": None if left_out.most is None else units[left_out.most],
    }


def not_drawn(rules: RankingRules, reason: str) -> dict[str, Any]:
    return {"samples": 0, "seed": rules.seed, "undefined": reason}


def method_in_words(rules: RankingRules, units: int, unit_name: str) -> str:
    """What decides, in a few sentences; every rule of [ranking] that has an effect is in them."""
    columns = "the one column" if len(rules.columns) == 1 else f"each of {len(rules.columns)} columns"
    each = unit_name.removesuffix("s")
    weighted = any(column.weight != 1 for column in rules.columns)
    by_weight = "weighted " if weighted else ""
    weighting = " with the weight of its column" if weighted else ""
    first = {
        "sum_of_ranks": f"Teams are ranked in {columns}; the {by_weight}sum of their ranks decides.",
        "mean_of_ranks": f"Teams are ranked in {columns}; the {by_weight}mean of their ranks decides.",
        "median_of_ranks": f"Teams are ranked in {columns}; the {by_weight}median of their ranks decides.",
        "absolute": "The value of the column decides.",
        "aggregate_then_rank": f"In {columns} teams are ranked by the {rules.aggregate} of their values over all "
        f"{unit_name}; the {by_weight}mean of these ranks decides.",
        "rank_then_aggregate": f"In {columns} teams are ranked in each {each}, and then by the {rules.aggregate} of "
        f"these ranks; the {by_weight}mean of the ranks decides.",
        "test_then_rank": f"In {columns} teams are ranked by how many others they are significantly better than; the "
        f"{by_weight}mean of these ranks decides.",
        "better_teams": f"In {columns} the rank of a team is one more than the number of teams that are better there: "
        "ahead by the interval of the paired difference, and not only inside the margin"
        + (f". The {by_weight}mean of these ranks decides." if len(rules.columns) > 1 else "."),
        "ranked_pairs": f"Teams meet in pairs: each {each} in {columns} is a ballot{weighting}, and the pairs are "
        "locked from the clearest to the closest, unless they contradict what is locked. How many teams stand "
        "before a team decides.",
    }[rules.method]
    ties = {"min": '"1, 2, 2, 4"', "average": '"1, 2.5, 2.5, 4"', "dense": '"1, 2, 2, 3"'}[rules.ties]
    missing = {
        "worst": "A team without a value in a column is last there.",
        "unranked": "A team without a value in a column is not ranked.",
        "complete_cases": f"A team without a value in a column is not ranked; in a column only {unit_name} "
        "count in which every other team has a value.",
    }[rules.missing]
    test = {"friedman_nemenyi": "Friedman and Nemenyi", "wilcoxon_holm": "Wilcoxon and Holm"}[rules.test]
    over = {0: "not made: only means are known", 1: f"not made: one {unit_name.removesuffix('s')} only"}.get(
        units, f"over {units} {unit_name}, level {rules.significance_level:g}"
    )
    floors = " and ".join(f"{floor.path} of at least {floor.at_least:g}" for floor in rules.require)
    floor = f"Teams without {floors} are ranked among themselves, behind the others." if floors else ""
    tested = f"Tests: {test}, {over}."
    named = ", ".join(quote(name, 40) for name in rules.unranked)
    shown = f"Shown and not ranked: {named}." if named else ""
    shared = "Teams without a significant difference share a rank in a column." if rules.ex_aequo else ""
    return " ".join(filter(None, [floor, first, f"Equal values: {ties}.", missing, tested, shared, shown]))


# --- one result among earlier ones ------------------------------------------------------------------------------------


def rank_result(challenge_folder: Path, result: Result, *, team: str = "") -> Result:
    """The result with its place among those in ``leaderboard/`` of the challenge; unchanged if nothing is ranked.

    team  that the submission is of: its stored result, the file of that name, is no rival. "": unknown

    Ranked are results with the same hash of the challenge; a warning names the others, and files that are no result.
    ``position`` is that by the method of [ranking], ``sum_of_ranks`` the weighted sum of the ranks in its columns,
    ``submissions`` how many results are ranked, this one included. Names of teams go nowhere.
    """
    rules = result.challenge.ranking
    if rules is None or not rules.columns:
        return result
    earlier_folder = challenge_folder / EARLIER
    if earlier_folder.is_dir() and not os.access(earlier_folder, os.R_OK | os.X_OK):
        return without_place(
            replace(result, findings=(*result.findings, fault("other-leaderboard", quote(EARLIER), wording="closed")))
        )
    if team in rules.unranked:
        return without_place(result, UNRANKED)
    files = [path for path in earlier_files(challenge_folder) if path.stem not in (team, *rules.unranked)]
    earlier, findings = read_earlier(files, result.challenge)
    warned = replace(result, findings=(*result.findings, *findings)) if findings else result
    if not earlier:
        return without_place(warned)
    results = {THIS: result.metrics, **earlier}
    scores = [
        TeamScores(
            name,
            np.array([number_at(metrics, column.path) for column in rules.columns]),
            floors=floor_values(metrics, rules.require),
        )
        for name, metrics in results.items()
    ]
    return with_ranks(warned, *ranks_of_first(score_table(scores, rules, ()), rules))


def ranks_of_first(table: ScoreTable, rules: RankingRules) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table ``leaderboard`` of metrics.json for the first team, and the reasons why numbers in it are None."""
    summed = apply_method(table, rules.model_copy(update={"method": "sum_of_ranks"}))
    ranks: dict[str, Any] = {"submissions": int(np.count_nonzero(~np.isnan(summed.position)))}
    not_ranked: dict[str, Any] = {}
    position, reason = float("nan"), "needs-details"
    if not needs_units(rules.method) and not rules.ex_aequo:
        position, reason = float(apply_method(table, rules).position[0]), "no-value"
    entries: dict[tuple[str, ...], float] = {("position",): position, ("sum_of_ranks",): float(summed.combined[0])}
    for column, rank in zip(rules.columns, summed.rank_by_column[0], strict=True):
        entries["rank", *column.path.split(".")] = float(rank)
    for path, value in entries.items():
        put(ranks, path, number(value))
        if np.isnan(value):
            put(not_ranked, path, reason if path == ("position",) else "no-value")
    return ranks, not_ranked


def store_results(board: Board, output: Path, folder: Path) -> None:
    """Write the metrics.json of every ranked team as ``<team>.json``: what a challenge keeps in ``leaderboard/``."""
    folder.mkdir(parents=True, exist_ok=True)
    for team in board.teams:
        metrics = (output / "results" / team.name / "metrics.json").read_text("utf-8")
        write_atomically(folder / f"{team.name}.json", metrics)


def earlier_files(challenge_folder: Path) -> list[Path]:
    """The results that a challenge keeps, in ascending order. Raises ChallengeBroken for too many."""
    folder = challenge_folder / EARLIER
    files = sorted(path for path in folder.glob("*.json") if path.is_file() and not path.name.startswith("."))
    count, limit = len(files), EARLIER_LIMIT
    if count > limit:
        raise ChallengeBroken(
            fault("too-many-files", quote(EARLIER), wording="too-earlier-results", limit=limit, count=count)
        )
    return files


def read_earlier(files: Sequence[Path], challenge: Challenge) -> tuple[dict[str, dict[str, Any]], list[Finding]]:
    """The earlier results of the same challenge by the names of their files, and warnings about all others.

    A file that is no metrics.json is left out like one of another challenge: it never costs a participant the score.
    """
    earlier: dict[str, dict[str, Any]] = {}
    findings: list[Finding] = []
    for path in files:
        where = f"'{EARLIER}/{quote(path.name)[1:]}"
        try:
            metrics = read_metrics(path, where=where)
        except InputFault as error:
            findings.append(fault("other-leaderboard", where, wording="broken-result", got=error.findings[0].got))
            continue
        name, hash_of_rules = (metrics["challenge"][key] for key in ("name", "hash"))
        if hash_of_rules == challenge.hash:
            earlier[path.name] = metrics
        else:
            findings.append(fault("other-leaderboard", where, challenge=name, hash=hash_of_rules))
    return earlier, findings
