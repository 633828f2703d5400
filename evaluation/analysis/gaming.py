"""Does a trick pay? Tricks are played on the nuclei of every team, one team at a time, and the teams are ranked again.

A trick *pays* if the team stands higher although its pooled detection F1, or its pooled class score (the mean over
classes of the F1 of detection with the right class), has fallen by more than 0.005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.analysis.near_identical import NEARLY_THE_SAME, twin_share
from evaluation.analysis.plays import Play
from evaluation.analysis.tricks import TRICKS, Trick, TrickCase
from evaluation.analysis.tricks_document import Change, Entry, TricksFound, moved_teams, names_at_first
from evaluation.challenge import Challenge
from evaluation.challenge.rules import Floor, RankingColumn, RankingRules
from evaluation.findings import fault, render_findings
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.instances.prepare import PreparedReference
from evaluation.leaderboard.board import apply_method, load_ranked
from evaluation.leaderboard.gameable import gameable_ranking
from evaluation.leaderboard.team_scores import (
    PlannedColumn,
    TeamScores,
    as_columns,
    groups_of,
    plan_columns,
    score_table,
)
from evaluation.leaderboard.teams import find_teams
from evaluation.model import Case, CaseResult, Float64, Instances
from evaluation.results.metrics_json import identity, rounded
from evaluation.scoring.from_files import read_submission
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.rasterise import with_sizes_of
from evaluation.scoring.score import average_units, case_table, members_of, score_units

F1, CLASS_SCORE = "detection.f1.pooled", "detection.macro_f1.pooled"
ORIGINAL = ""  # stands for the submission as it is, among the names of tricks

Predictions = Sequence[Instances | None]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Teams, and what they are compared on.

    references   of each case, with what is not scored
    teams        by name, the predictions of each case; None: not submitted
    """

    cases: tuple[Case, ...]
    references: tuple[PreparedReference, ...]
    teams: Mapping[str, Predictions]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.teams))


def count_predictions(challenge: Challenge, field: Field, predictions: Predictions) -> list[CaseResult]:
    """Match and measure one submission under all rules of a challenge that has the cases of the field."""
    challenge = with_sizes_of(challenge, [of.instances.areas_px() for of in field.references])
    matched = [
        match_case(challenge, case, reference, prediction)
        for case, reference, prediction in zip(field.cases, field.references, predictions, strict=True)
    ]
    results = measure_cases(challenge, matched)
    return sorted(results, key=lambda result: (result.case.group, result.case.name))


def play(trick: Trick, field: Field, team: str, classes: int) -> Predictions:
    """The submission of a team after a trick."""
    sides = zip(field.references, field.teams[team], strict=True)
    return trick.apply([TrickCase(reference.instances, prediction, classes) for reference, prediction in sides])


# --- scores -----------------------------------------------------------------------------------------------------------


def score_paths(challenge: Challenge, results: Sequence[CaseResult], paths: Sequence[str], name: str) -> TeamScores:
    """The numbers of metrics.json at some paths, with what each group contributes to them."""
    columns = plan_columns(challenge, as_columns(paths))
    members, groups = members_of(results), groups_of(challenge)
    overall, by_unit = np.full(len(columns), np.nan), np.full((len(columns), len(groups)), np.nan)
    for index, (rule, _) in enumerate(challenge.matching.passes):
        of_rule = [(number, column) for number, column in enumerate(columns) if column.rule == rule]
        if not of_rule:
            continue
        table = case_table(challenge, results, rule, primary=index == 0)
        metrics = list({column.metric.path: column.metric for _, column in of_rule}.values())
        found = score_units(metrics, table, members, challenge)
        for number, column in of_rule:
            mean = average_units(column.metric, found, results, challenge).means[column.aggregation].score.value
            overall[number] = np.nan if mean is None else rounded(mean)
            entered = found.penalised[column.metric.path]
            by_unit[number] = values_of_groups(
                challenge, column, entered["groups"].value, entered["cases"].value, results
            )
    return TeamScores(name, overall, by_unit)


def values_of_groups(
    challenge: Challenge, column: PlannedColumn, of_groups: Float64, of_cases: Float64, results: Sequence[CaseResult]
) -> Float64:
    """What each group, in ascending order, contributes to a column, float64 (G,)."""
    names = list(dict.fromkeys(result.case.group for result in results))
    if not column.is_by_case(challenge):
        return of_groups[np.argsort(names)]
    group = np.array([names.index(result.case.group) for result in results])
    parts = [of_cases[(group == number) & ~np.isnan(of_cases)] for number in np.argsort(names)]
    return np.array([part.mean() if len(part) else np.nan for part in parts])


# --- rankings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RankedBy:
    """A ranking that tricks are tried on: the rules of the challenge, or what they could be changed to.

    words  the change, "" for the challenge as it is
    """

    challenge: Challenge
    rules: RankingRules
    words: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        columns = [column.path for column in self.rules.columns]
        return tuple(dict.fromkeys([*columns, *(floor.path for floor in self.rules.require)]))


def scores_for(ranked: RankedBy, results: Sequence[CaseResult], name: str) -> TeamScores:
    """What a ranking reads of a counted submission."""
    found = score_paths(ranked.challenge, results, ranked.paths, name)
    index_of = {path: index for index, path in enumerate(ranked.paths)}
    columns = [index_of[column.path] for column in ranked.rules.columns]
    floors = [index_of[floor.path] for floor in ranked.rules.require]
    assert found.by_unit is not None
    return TeamScores(name, found.overall[columns], found.by_unit[columns], floors=found.overall[floors])


def positions(ranked: RankedBy, scores: Sequence[TeamScores]) -> dict[str, float]:
    """The positions of teams by their names, in ascending order; NaN for those that are not ranked."""
    table = score_table(scores, ranked.rules, groups_of(ranked.challenge))
    return dict(zip(table.teams, apply_method(table, ranked.rules).position.tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """All tricks of all teams, counted once, and what every ranking and the judge say of each.

    scores   by the index of the ranking, then the team and the trick (``ORIGINAL``: as it is)
    judged   pooled F1 and pooled class score, float64 (2,), by team and trick
    """

    rankings: tuple[RankedBy, ...]
    tricks: tuple[Trick, ...]
    teams: tuple[str, ...]
    scores: tuple[Mapping[tuple[str, str], TeamScores], ...]
    judged: Mapping[tuple[str, str], Float64]

    def positions(self, ranking: int) -> dict[str, float]:
        """Where the teams stand as they are."""
        scores = self.scores[ranking]
        return positions(self.rankings[ranking], [scores[team, ORIGINAL] for team in self.teams])

    def plays(self, ranking: int) -> list[Play]:
        """What every trick does to every team in a ranking."""
        ranked, scores = self.rankings[ranking], self.scores[ranking]
        originals = [scores[team, ORIGINAL] for team in self.teams]
        found, standing = [], self.positions(ranking)
        for team in self.teams:
            before = standing[team]
            others = [of for of in originals if of.name != team]
            for trick in self.tricks:
                after = positions(ranked, [*others, scores[team, trick.name]])[team]
                change = self.judged[team, trick.name] - self.judged[team, ORIGINAL]
                found.append(Play(trick.name, team, trick.kind, before, after, *np.nan_to_num(change).tolist()))
        return found


def play_all(
    field: Field,
    counted: Challenge,
    judge: RankedBy,
    rankings: Sequence[RankedBy],
    tricks: Sequence[Trick] = TRICKS,
) -> Played:
    """Play every trick on every team, and score each under every ranking.

    counted  the rules by which nuclei are matched and measured: those of all rankings together
    judge    by whose first two columns, pooled F1 and class score, it is known whether the submission became worse
    """
    scores: list[dict[tuple[str, str], TeamScores]] = [{} for _ in rankings]
    judged = {}
    classes = len(counted.classes)
    for team in field.names:
        for name, predictions in [
            (ORIGINAL, field.teams[team]),
            *((trick.name, play(trick, field, team, classes)) for trick in tricks),
        ]:
            results = count_predictions(counted, field, predictions)
            judged[team, name] = score_paths(judge.challenge, results, judge.paths, team).overall
            for index, ranked in enumerate(rankings):
                scores[index][team, name] = scores_for(ranked, results, team)
    return Played(tuple(rankings), tuple(tricks), field.names, tuple(scores), judged)


# --- other rankings ---------------------------------------------------------------------------------------------------

COVERED_COLUMNS = (
    RankingColumn(path="detection.f1.group_mean", direction="descending"),
    RankingColumn(path="covered.class_recall.pooled", direction="descending"),
    RankingColumn(path="covered.iou_class_mean.pooled", direction="descending"),
    RankingColumn(path="covered.hausdorff_px_class_mean.pooled", direction="ascending"),
)
FLOOR = Floor(path="detection.f1.group_mean", at_least=0.5)


def with_families(challenge: Challenge, families: Sequence[str]) -> Challenge:
    """The challenge with more families, and the coverage and the cap that they ask for; ranks nothing by itself."""
    metrics = challenge.metrics
    added: dict[str, Any] = {
        "families": tuple(dict.fromkeys([*metrics.families, *families])),
        "coverage": metrics.coverage or 0.5,
    }
    if not are_points(challenge):
        added |= {
            "measures": tuple(dict.fromkeys([*metrics.measures, "iou", "hausdorff_px"])),
            "distance_cap_px": metrics.distance_cap_px or 10.0,
            "distance_cap_um": metrics.distance_cap_um or 2.5,
        }
    return challenge.model_copy(update={"metrics": metrics.model_copy(update=added)})


def changes(challenge: Challenge, rules: RankingRules) -> list[RankedBy]:
    """The ranking of a challenge, and rankings under which tricks may not pay, the smallest change first."""
    aggregation = challenge.aggregation.model_copy(update={"undefined": "worst"})
    worst = challenge.model_copy(update={"aggregation": aggregation})
    floored = rules.model_copy(
        update={"require": tuple({floor.path: floor for floor in (*rules.require, FLOOR)}.values())}
    )
    covered = floored.model_copy(update={"method": "sum_of_ranks", "columns": columns_for(challenge)})
    return [
        RankedBy(challenge, rules),
        RankedBy(worst, rules, 'undefined = "worst"'),
        RankedBy(challenge, floored, f"a floor, {FLOOR.path} of at least {FLOOR.at_least:g}"),
        RankedBy(worst, floored, 'the floor and undefined = "worst"'),
        RankedBy(worst, covered, "the columns of the preset 'recommended' with its floor"),
    ]


def columns_for(challenge: Challenge) -> tuple[RankingColumn, ...]:
    """The columns of the preset ``recommended`` that a challenge can have: of points and of one class, fewer."""
    kept = [column for column in COVERED_COLUMNS if not (are_points(challenge) and "class_mean" in column.path)]
    return tuple(column for column in kept if len(challenge.classes) > 1 or "class_recall" not in column.path)


def are_points(challenge: Challenge) -> bool:
    return challenge.reference.are_points or challenge.submission.are_points


def judge_of(challenge: Challenge) -> RankedBy:
    """The pooled F1 and class score under the first matching rule."""
    columns = as_columns((F1, CLASS_SCORE))
    rules = RankingRules(method="sum_of_ranks", ties="min", significance_level=0.05, columns=columns)
    return RankedBy(challenge, rules)


# --- from files -------------------------------------------------------------------------------------------------------


def read_field(folder: Path, challenge: Challenge, submissions: Mapping[str, Path]) -> tuple[Field, dict[str, str]]:
    """The nuclei of all teams, in memory, and why some teams are left out; one submission after the other.

    Raises ChallengeBroken. A team whose submission is rejected is left out.
    """
    teams: dict[str, Predictions] = {}
    left_out: dict[str, str] = {}
    references: list[PreparedReference] = []
    cases: list[Case] = []
    for name, path in sorted(submissions.items()):
        try:
            read = read_submission(folder, challenge, path)
        except SubmissionRejected as error:
            left_out[name] = str(error).partition("\n")[0]
            continue
        cases = [of.matched.case for of in read]
        references = references or [of.matched.reference for of in read]
        teams[name] = [of.prediction for of in read]
    return Field(tuple(cases), tuple(references), teams), left_out


# --- the audit of a challenge -----------------------------------------------------------------------------------------


def audit_tricks(folder: Path, submissions: Path, *, output: Path | None = None) -> TricksFound:
    """Play every trick on every team of a folder, and say what pays under the ranking of the challenge.

    Raises WrongUsage, ChallengeBroken ("contradictory-rules" where numbers of nuclei are all that is known).
    """
    challenge, rules = load_ranked(folder)
    if challenge.are_counts:
        raise ChallengeBroken(
            fault("contradictory-rules", "challenge.toml: reference.format", wording="no-nuclei-for-tricks")
        )
    teams = find_teams(submissions, output=output, without=rules.unranked).teams
    field, left_out = read_field(folder, challenge, {team.name: team.path for team in teams})
    counted = with_families(challenge, ("detection", "covered"))
    rankings = changes(counted, rules)
    tricks = tuple(trick for trick in TRICKS if trick.points or not are_points(challenge))
    played = play_all(field, counted, judge_of(counted), rankings, tricks) if field.teams else None
    identified = identity(challenge)
    findings = tuple(render_findings(gameable_ranking(challenge)))
    if played is None:
        return TricksFound(identified, tricks, (), (), left_out=left_out, findings=findings)
    own = played.positions(0)
    return TricksFound(
        identified,
        tricks,
        tuple(played.plays(0)),
        names_at_first(own),
        tuple(
            Change(
                ranked.words,
                sum(play.pays and play.kind != "calibration" for play in played.plays(index)),
                moved_teams(list(own.values()), list(played.positions(index).values())),
            )
            for index, ranked in enumerate(rankings)
            if index
        ),
        tuple(entries_of(field, played)),
        left_out,
        findings,
    )


def entries_of(field: Field, played: Played) -> list[Entry]:
    """What the presence of each team, and a second entry of it, does to the first place."""
    ranked = played.rankings[0]
    originals = {team: played.scores[0][team, ORIGINAL] for team in played.teams}
    first = names_at_first(played.positions(0))
    found = []
    for team, scores in originals.items():
        others = [of for name, of in originals.items() if name != team]
        without = names_at_first(positions(ranked, others)) if others else ()
        second = replace(scores, name=f"{team}\N{NO-BREAK SPACE}again")
        twice = names_at_first(positions(ranked, [*originals.values(), second]))
        twice = tuple(dict.fromkeys(team if name == second.name else name for name in twice))
        alike = [
            name
            for name in played.teams
            if name < team and twin_share(field.teams[name], field.teams[team]) >= NEARLY_THE_SAME
        ]
        found.append(
            Entry(
                team,
                without if team not in first and without != first else (),
                alike[0] if alike else "",
                twice if twice != first else (),
            )
        )
    return found
