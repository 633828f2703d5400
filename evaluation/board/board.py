"""The leaderboard: ranks of teams, significant differences, and how stable the ranks are.

``build_board`` makes it from a table of scores: of submissions, of stored results, or of a CSV file. ``rank_result``
ranks one submission among earlier results.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.board import document, matched_nuclei, ranked_table
from evaluation.board import rules as ranking_rules
from evaluation.board.score_csv import ScoresInFile, UnitKind, metrics_in, read_scores
from evaluation.board.stored import REFERENCE_FILE, RESULTS, Unranked, read_metrics, read_reference_hashes, score_or_nan
from evaluation.board.team_scores import TeamScores, floor_values, groups_of, plan_columns, score_table
from evaluation.board.teams import Note, ResultFolder, reference_hashes, score_teams
from evaluation.board.titles import subtasks_of
from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingRules
from evaluation.files.results.documents import ABSENT, Ranks, as_json, identity, number, software
from evaluation.files.results.files import write_atomically
from evaluation.findings import Finding, fault, quote, render_findings
from evaluation.findings.errors import ChallengeBroken, InputFault, WrongUsage, faults_as
from evaluation.scoring.score import Result, rank_paths
from evaluation.scoring.workers import Progress
from nuclei_metrics.model import ScoreTable
from nuclei_metrics.ranking.declared_test import ComparedTeams
from nuclei_metrics.ranking.methods import Ranking, has_replaced, needs_units, select_teams

EARLIER = "leaderboard"  # folder of a challenge with results that are ranked beside a submission
EARLIER_LIMIT = 10_000
WITH_TESTS = "'unranked' or 'complete_cases', since filled-in values hide differences from tests"
SET_MISSING = "Write the missing values, or --set missing=unranked (or complete_cases)."
THIS = ""  # stands for the submission among earlier ones; no file has this name
_NO_PLACES: dict[str, Any] = {"teams": (), "together": None, "subtasks": (), "methods": (), "decided_by": ()}
DEFAULT_RANKING: Mapping[str, Any] = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05}


# --- commands ---------------------------------------------------------------------------------------------------------


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
) -> document.Board:
    """Score all teams of a folder without stored results, and rank all teams.

    executor  runs the cases, ``workers`` tasks at once, instead of new processes
    before    an older board, its folder or its leaderboard.json: changes are reported

    Raises WrongUsage, ChallengeBroken and WorkersLost.
    """
    old = _older_board(before)
    challenge, rules = ranking_rules.load_ranked(challenge_folder)
    hashes = reference_hashes(challenge_folder, challenge)
    scored = score_teams(
        challenge_folder,
        challenge,
        submissions,
        output,
        columns=plan_columns(challenge, rules.paths),
        workers=workers,
        progress=progress,
        note=note,
        executor=executor,
    )
    board = board_of_challenge(challenge, rules, scored.scores, scored.unranked, scored.findings)
    objects = {team.name: output / RESULTS / team.name / "objects.csv" for team in board.teams}
    write_atomically(output / REFERENCE_FILE, as_json({"format_version": 1, "cases": hashes}))
    board = _with_moves(board, old, hashes, challenge)
    return with_pairs(board, challenge, rules, objects)


def rank_folder(challenge_folder: Path, results: ResultFolder, settings: Mapping[str, Any]) -> document.Board:
    """Rank the results of a folder. Raises WrongUsage, ChallengeBroken."""
    challenge, rules = ranking_rules.load_ranked(challenge_folder)
    rules = ranking_rules.changed_rules(rules, settings)
    challenge = challenge.model_copy(update={"ranking": rules})
    scores, unranked = results.read(challenge, plan_columns(challenge, rules.paths))
    board = board_of_challenge(challenge, rules, scores, unranked, ())
    return with_pairs(board, challenge, rules, results.objects())


@dataclass(frozen=True, slots=True, eq=False)
class _Older:
    """A leaderboard.json that was written before, and the hashes of the reference next to it, if there are any."""

    document: Mapping[str, Any]
    hashes: Mapping[str, str] | None


def _older_board(path: Path | None) -> _Older | None:
    """Read a board that was written before. Raises WrongUsage."""
    with faults_as(WrongUsage):
        return None if path is None else _Older(document.read_board(path), read_reference_hashes(path))


def _with_moves(
    board: document.Board,
    older: _Older | None,
    hashes: Mapping[str, str] | None = None,
    challenge: Challenge | None = None,
) -> document.Board:
    """Add the ranks and scores on an older board, and the cases with a changed reference.

    hashes  of the reference now; None: not known
    """
    if older is None:
        return board
    before = {team["name"]: team for team in older.document["teams"]}
    now = {team.name: team for team in board.teams}
    moves = []
    for name in [*now, *sorted(before.keys() - now.keys())]:
        old, new = before.get(name), now.get(name)
        old_values = {cell["path"]: cell["value"] for cell in old["columns"]} if old else {}
        new_values = {cell.path: number(cell.value) for cell in new.columns} if new else {}
        scores = [
            document.ScoreChange(column.path, old_values.get(column.path), new_values.get(column.path))
            for column in board.columns
        ]
        places = old["position"] if old else None, number(new.position) if new else None
        moves.append(document.Move(name, *places, scores))
    reference = _changed_reference(older.hashes, hashes, challenge)
    return replace(board, before=document.OlderBoard(older.document["challenge"], reference, moves))


def _changed_reference(
    before: Mapping[str, str] | None, now: Mapping[str, str] | None, challenge: Challenge | None
) -> document.ReferenceChange | None:
    """Find the cases with different reference files, by their publishable names; None: unknown."""
    if before is None or now is None or challenge is None:
        return None
    names = tuple(now)
    changed = [before.get(name) != now[name] for name in names]
    public = _public_names(challenge, names, "cases")
    return document.ReferenceChange(
        len(names), [name for name, is_changed in zip(public, changed, strict=True) if is_changed]
    )


def with_pairs(
    board: document.Board,
    challenge: Challenge,
    rules: RankingRules,
    objects: Mapping[str, Path | bytes | None],
    *,
    alike: bool = True,
) -> document.Board:
    """Compare the ranked teams of a board in pairs: on common nuclei and, if ``alike``, in the errors that they share.

    objects  the objects.csv of each team

    Returned unchanged for more than ``PAIRS_UP_TO`` teams, and for challenges in which nothing is matched.
    """
    order = [team.name for team in board.teams]
    if not challenge.matching.rules or len(order) > document.PAIRS_UP_TO:
        return board
    matched = matched_nuclei.read_matched_nuclei(
        challenge, matched_nuclei.compared_measures(challenge, rules), {name: objects[name] for name in order}
    )
    if matched.measures:
        common = matched_nuclei.compare_teams_on_common(challenge, rules, matched, order)
        board = replace(board, common_nuclei=common)
    if alike:
        pairs = matched_nuclei.compare_outlines(matched.reference_area, matched.outlines())
        board = replace(board, alike=pairs)
    return board


def rank_scores(scores: ScoresInFile, rules: RankingRules, challenge: Challenge | None) -> document.Board:
    """Rank the teams of a CSV file. Raises WrongUsage ("missing-metric")."""
    return build_board(
        table_in_file(scores, rules, challenge),
        rules,
        challenge=challenge,
        shown=scores.shown,
        unit_name=scores.unit_name,
        findings=[*scores.findings, *_unknown_entries(rules, scores.names)],
    )


def table_in_file(scores: ScoresInFile, rules: RankingRules, challenge: Challenge | None) -> ScoreTable:
    """Add the floors, which must be on columns, to the table of a CSV file. Raises WrongUsage ("missing-metric")."""
    columns, floors = rules.paths, rules.floor_paths
    for path in floors:
        if path not in columns:
            raise WrongUsage(fault("missing-metric", "ranking.require", wording="floor-without-scores", path=path))
    indices = [columns.index(path) for path in floors]
    samples = scores.table.samples
    return replace(
        scores.table,
        samples=None if samples is None else np.concatenate([samples, samples[..., indices]], axis=2),
        units=_public_names(challenge, scores.table.units, scores.unit_name),
        floors=floors,
        at_least=tuple(floor.at_least for floor in rules.require),
        floor_values=scores.table.overall[:, indices] if indices else None,
    )


def write_board(folder: Path, board: document.Board) -> None:
    """Write leaderboard.csv and leaderboard.json, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "leaderboard.csv", document.leaderboard_csv(board))
    write_atomically(folder / "leaderboard.json", document.leaderboard_json(board))


def rank_given(
    challenge_folder: Path | None,
    *,
    results: Path | None,
    scores: Path | None,
    columns: Sequence[str],
    settings: Sequence[str],
    unit: UnitKind,
    before: Path | None = None,
) -> document.Board:
    """Rank the teams of a folder of results, or of a CSV file. Raises WrongUsage, ChallengeBroken.

    before    an older board, its folder or its leaderboard.json: changes are reported

    Without a challenge the columns of a CSV file must be given; the rules are then sum_of_ranks, ties "min", level
    0.05, changed by ``settings``.
    """
    if (results is None) == (scores is None):
        number = "neither is" if results is None else "both are"
        raise WrongUsage(fault("missing-option", "--results, --scores", wording="no-results-or-scores", number=number))
    changes, old = ranking_rules.parse_settings(settings), _older_board(before)
    if results is not None:
        if challenge_folder is None:
            raise WrongUsage(fault("missing-option", "--challenge", wording="no-challenge-of-results"))
        _refuse_columns(columns, "--results")
        board = rank_folder(challenge_folder, ResultFolder(results), changes)
        hashes = read_reference_hashes(results) or read_reference_hashes(results.resolve().parent)  # out, out/results
        return _with_moves(board, old, hashes, Challenge.load(challenge_folder))
    assert scores is not None
    challenge, rules = rules_of_scores(challenge_folder, scores, columns, changes)
    in_file = read_scores(scores, rules, unit=unit, challenge=challenge)
    return _with_moves(rank_scores(in_file, rules, challenge), old)


def rules_of_scores(
    challenge_folder: Path | None, scores: Path, columns: Sequence[str], changes: Mapping[str, Any]
) -> tuple[Challenge | None, RankingRules]:
    """Choose the rules for a CSV file: from a challenge, or from the given columns. Raises as ``rank_given``."""
    challenge: Challenge | None = None
    if challenge_folder is not None:
        _refuse_columns(columns, "--challenge")
        challenge, rules = ranking_rules.load_ranked(challenge_folder)
    elif not columns:
        raise WrongUsage(fault("missing-option", "--column", wording="no-column", metrics=metrics_in(scores)))
    else:
        rules = RankingRules(**DEFAULT_RANKING, columns=ranking_rules.parse_columns(columns))
    return challenge, ranking_rules.changed_rules(rules, changes)


def _refuse_columns(columns: Sequence[str], beside: str) -> None:
    if columns:
        why = "the challenge defines the columns"
        raise WrongUsage(fault("contradictory-rules", "--column", wording="only-one-option", other=beside, reason=why))


# --- from scores to a board -------------------------------------------------------------------------------------------


def board_of_challenge(
    challenge: Challenge,
    rules: RankingRules,
    scores: Sequence[TeamScores],
    unranked: Sequence[Unranked],
    findings: Sequence[Finding],
) -> document.Board:
    """Rank the results of a challenge."""
    versions = tuple(sorted({team.version for team in scores}))
    if len(versions) > 1:
        findings = [*findings, fault("several-versions", "results", versions=versions)]
    names = [*(team.name for team in scores), *(team.name for team in unranked)]
    findings = [*findings, *ranking_rules.gameable_ranking(challenge), *_unknown_entries(rules, names)]
    unit_name = "patients" if any(case.name != case.group for case in challenge.cases) else "cases"
    return build_board(
        score_table(scores, rules, _public_names(challenge, groups_of(challenge), unit_name)),
        rules,
        challenge=challenge,
        versions=versions,
        unranked=unranked,
        shown=[team for team in scores if team.name in rules.unranked],
        unit_name=unit_name,
        findings=findings,
    )


def _unknown_entries(rules: RankingRules, names: Sequence[str]) -> list[Finding]:
    """Warn about names of ``ranking.unranked`` that no entry has."""
    unknown = [name for name in rules.unranked if name not in names]
    return [fault("unknown-entry", "challenge.toml: ranking.unranked", name=name, known=names) for name in unknown]


def _public_names(challenge: Challenge | None, units: tuple[str, ...], unit_name: str) -> tuple[str, ...]:
    """Name the units as a published leaderboard may: by numbers if the challenge hides the names of cases."""
    if challenge is None or challenge.submission.case_names != "hidden":
        return units
    return tuple(f"{unit_name.removesuffix('s')} {index}" for index in range(1, len(units) + 1))


def identity_of(challenge: Challenge | None, rules: RankingRules) -> dict[str, str]:
    """Return the identity of the challenge, with the hash of the ranking as it was applied."""
    return {} if challenge is None else identity(challenge.model_copy(update={"ranking": rules}))


def build_board(
    table: ScoreTable,
    rules: RankingRules,
    *,
    challenge: Challenge | None = None,
    versions: Sequence[str] = (),
    unranked: Sequence[Unranked] = (),
    shown: Sequence[TeamScores] = (),
    unit_name: str = "patients",
    findings: Sequence[Finding] = (),
) -> document.Board:
    """Rank the teams of a table, test their differences, and draw samples of their units.

    unranked  teams that have no scores
    shown     entries that are not in the table, since the rules do not rank them

    Teams without a rank are excluded from tests and samples. Raises WrongUsage ("missing-units") if the rules need
    missing values of units.
    """
    table = _complete_table(table, rules)
    tests = ranked_table.compare_teams(table, rules) if rules.method == "test_then_rank" else None
    full = ranked_table.apply_method(table, rules, tests) if table.teams else None
    is_ranked = ~np.isnan(full.position) if full else np.zeros(0, np.bool_)
    placed = select_teams(table, is_ranked)
    if tests is None or placed is not table:
        tests = ranked_table.compare_teams(placed, rules)
    few = len(table.teams) + len(unranked) <= document.PAIRS_UP_TO
    places = _NO_PLACES | {"stability": document.BoardStability(0, rules.seed, "no-teams")}
    if full and placed.teams:
        plain = full if placed is table else ranked_table.apply_method(placed, rules, tests)
        places = _placed_teams(placed, rules, tests, plain, few=few)
    teams: tuple[document.TeamRow, ...] = places["teams"]
    by_unit = bool(teams) and teams[0].columns[0].by_unit is not ABSENT
    paths = rules.paths
    without = [
        document.UnrankedRow(name, document.cells_of(paths, value=values), "no-value", full.why[name])
        for name, values, has_place in zip(table.teams, table.overall, is_ranked, strict=True)
        if full and not has_place
    ]
    without += [document.UnrankedRow(team.name, (), team.code, team.reason) for team in unranked]
    return document.Board(
        challenge=identity_of(challenge, rules) or None,
        software={**software(), "scored_with": tuple(versions)},
        ranking={
            **rules.model_dump(mode="json", exclude={"columns"}),
            "in_words": ranking_rules.method_in_words(rules, len(table.units), unit_name, teams=len(teams)),
        },
        units=document.UnitCount(len(table.units), unit_name),
        unit_names=table.units if by_unit else (),
        columns=_board_columns(placed, rules, tests, placed.teams.index(teams[0].name) if teams else 0, few=few),
        not_ranked=tuple(sorted(without, key=lambda row: row.name)),
        shown=tuple(_shown_row(team, paths, by_unit=by_unit) for team in sorted(shown, key=lambda team: team.name)),
        findings=tuple(render_findings(findings)),
        gaps=document.board_gaps(placed, rules, unit_name),
        **places,
    )


def _complete_table(table: ScoreTable, rules: RankingRules) -> ScoreTable:
    """Return the table that is ranked, without units in which a team lacks a value if the rules want complete cases.

    Raises WrongUsage: missing-units, contradictory-rules.
    """
    if table.by_unit is None and table.teams and (needs_units(rules.method) or rules.ex_aequo):
        raise WrongUsage(fault("missing-units", "ranking", rule=ranking_rules.rule_by_units(rules)))
    if has_replaced(table) and (rules.method == "test_then_rank" or rules.ex_aequo):
        got = f"'worst' for missing values together with {ranking_rules.rule_by_units(rules)}"
        raise WrongUsage(fault("contradictory-rules", "ranking.missing", got=got, expected=WITH_TESTS, fix=SET_MISSING))
    return ranked_table.complete_table(table, rules) if rules.missing == "complete_cases" else table


def _placed_teams(
    placed: ScoreTable, rules: RankingRules, tests: ComparedTeams | None, plain: Ranking, *, few: bool
) -> dict[str, Any]:
    """Rank all teams that can be ranked, by all columns, by subtasks and by other methods, and draw samples of units.

    plain  their ranking before ranks are shared
    """
    drawn = ranked_table.draw_samples(placed, rules, plain)
    ranking = ranked_table.share_places(placed, rules, tests) if rules.ex_aequo and tests else plain
    together = tests.together.in_order(ranking.position) if tests and tests.together else None
    teams = document.team_rows(placed, rules, ranking, drawn, together, few=few)
    leading = ranked_table.first_without(placed, rules, ranking.position)
    place_of = {name: index for index, name in enumerate(placed.teams)}
    order = [place_of[team.name] for team in teams]
    paths = rules.paths
    by_method = ranked_table.places_by_methods(placed, rules, tests) if len(teams) <= document.PAIRS_UP_TO else {}
    return {
        "teams": teams,
        "together": document.test_together(together, placed.teams, few=few),
        "stability": document.board_stability(drawn, rules, placed),
        "decided_by": tuple(starmap(document.Decision, leading.items())),
        "subtasks": tuple(
            document.SubtaskPlaces(
                name, [paths[index] for index in columns], ranked_table.places_in_subtask(placed, rules, columns)[order]
            )
            for name, columns in subtasks_of(paths).items()
        ),
        "methods": document.board_methods({name: places[order] for name, places in by_method.items()}),
    }


def _board_columns(
    placed: ScoreTable, rules: RankingRules, tests: ComparedTeams | None, first: int, *, few: bool
) -> tuple[document.BoardColumn, ...]:
    """Describe each column, its test, and the differences of the teams, of many teams only from the ``first``."""
    common = ranked_table.common_values(placed)
    return tuple(
        document.board_column(
            column,
            rules,
            tests.columns[index] if tests else None,
            ranked_table.differences_of(common, index, rules, first),
            placed.teams,
            few=few,
        )
        for index, column in enumerate(rules.columns)
    )


def _shown_row(team: TeamScores, paths: Sequence[str], *, by_unit: bool) -> document.ShownRow:
    values = {} if team.by_unit is None or not by_unit else {"by_unit": team.by_unit}
    return document.ShownRow(team.name, document.cells_of(paths, value=team.overall, **values))


# --- one result among earlier ones ------------------------------------------------------------------------------------


def rank_result(challenge_folder: Path, result: Result, *, team: str = "") -> Result:
    """Rank a result among the results in ``leaderboard/`` of the challenge; without results it gets no ranks.

    team  that the submission is of: its stored result, the file of that name, is excluded. "": unknown

    Results with the same hash of the challenge are ranked; a warning names the rest, and files that are no result.
    ``position`` is the rank by the method of [ranking], ``sum_of_ranks`` the weighted sum of the ranks in its columns,
    ``submissions`` the number of ranked results, including this result. Names of teams are not stored.
    """
    rules = result.challenge.ranking
    if rules is None or not rules.columns:
        return result
    earlier_folder = challenge_folder / EARLIER
    if earlier_folder.is_dir() and not os.access(earlier_folder, os.R_OK | os.X_OK):
        closed = fault("other-leaderboard", quote(EARLIER), wording="closed")
        return replace(result, findings=(*result.findings, closed))
    if team in rules.unranked:
        return result
    earlier, findings = _read_earlier(earlier_folder, result.challenge, (team, *rules.unranked))
    warned = replace(result, findings=(*result.findings, *findings)) if findings else result
    if not earlier:
        return warned
    results = {THIS: result.metrics, **earlier}
    scores = [
        TeamScores(
            name,
            np.array([score_or_nan(metrics, column.path) for column in rules.columns]),
            floors=floor_values(metrics, rules.require),
        )
        for name, metrics in results.items()
    ]
    return replace(warned, ranks=_ranks_of_first(score_table(scores, rules, ()), rules))


def _ranks_of_first(table: ScoreTable, rules: RankingRules) -> Ranks:
    """Compute the table ``leaderboard`` of metrics.json for the first team."""
    summed = ranked_table.apply_method(table, rules.model_copy(update={"method": "sum_of_ranks"}))
    subtasks = subtasks_of(table.columns)
    position, reason, places = math.nan, "needs-details", [math.nan] * len(subtasks)
    if not needs_units(rules.method) and not rules.ex_aequo:
        position, reason = float(ranked_table.apply_method(table, rules).position[0]), "no-value"
        places = [ranked_table.places_in_subtask(table, rules, columns)[0] for columns in subtasks.values()]
    ranks = [(position, reason), *((rank, "no-value") for rank in (summed.combined[0], *summed.rank_by_column[0]))]
    ranks += [(place, reason) for place in places]
    known = [(None, reason) if math.isnan(rank) else (float(rank), None) for rank, reason in ranks]
    submissions = int(np.count_nonzero(~np.isnan(summed.position)))
    paths = [*rank_paths(rules), *(("subtask", name) for name in subtasks)]
    return {("submissions",): (submissions, None), **dict(zip(paths, known, strict=True))}


def store_results(board: document.Board, files: Mapping[str, Path], folder: Path) -> None:
    """Write the metrics.json of every ranked team as ``<team>.json``, for ``leaderboard/`` of a challenge.

    files  the metrics.json of each team
    """
    folder.mkdir(parents=True, exist_ok=True)
    for team in board.teams:
        write_atomically(folder / f"{team.name}.json", files[team.name].read_text("utf-8"))


def _read_earlier(
    folder: Path, challenge: Challenge, without: Collection[str]
) -> tuple[dict[str, dict[str, Any]], list[Finding]]:
    """Read the results of the same challenge in a folder, by the names of their files, and warn about other results.

    A file that is no metrics.json is omitted like one of another challenge: it never costs a participant the score.
    Raises ChallengeBroken for too many files.
    """
    paths = sorted(folder.glob("*.json"), key=lambda path: path.parts)
    files = [path for path in paths if not (path.is_dir() or path.name.startswith("."))]
    count, limit = len(files), EARLIER_LIMIT
    if count > limit:
        raise ChallengeBroken(
            fault("too-many-files", quote(EARLIER), wording="too-earlier-results", limit=limit, count=count)
        )
    earlier: dict[str, dict[str, Any]] = {}
    findings: list[Finding] = []
    for path in files:
        if path.stem in without:
            continue
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
