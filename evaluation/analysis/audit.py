"""The audit of a leaderboard: all teams, ranked under every combination of rules that somebody might have chosen.

Only some rules ask for new scores: how the reference is drawn, what is ignored, and what is done to the predictions.
Matching rules, thresholds and units come out of the same run as further paths of metrics.json, and methods out of the
same scores. The numbers of each run are kept, so that a second audit scores nothing and an interrupted one goes on.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import orjson

from evaluation.analysis.audit_document import Audit, Dimension, audit_csv, audit_json
from evaluation.analysis.reweighted import ALL, other_patients, other_weights, reweighted, without_unit
from evaluation.analysis.variants import audit_positions, find_differences
from evaluation.challenge import CHALLENGE_FILE, AnyMatchingRule, Challenge, ConfidenceFirst, IouRule
from evaluation.challenge.rules import AuditRules, RankingRules
from evaluation.execution.storage import fetched
from evaluation.execution.stored_output import LocalOutput, StoredOutput, output_at
from evaluation.execution.worker_pools import work_through
from evaluation.execution.workers import Progress, Workers
from evaluation.findings import Finding, counted
from evaluation.findings.challenge import Contradiction
from evaluation.findings.errors import ChallengeBroken, EvaluationError, SubmissionRejected, WorkersLost
from evaluation.leaderboard.board import apply_method, compare_columns, load_ranked, share_places
from evaluation.leaderboard.gameable import gameable_ranking
from evaluation.leaderboard.index import Index, digest_of, listing, scores_entry, scores_of, stamp_of
from evaluation.leaderboard.team_scores import (
    TeamScores,
    Unranked,
    as_columns,
    groups_of,
    plan_columns,
    score_table,
    team_of_documents,
)
from evaluation.leaderboard.teams import (
    Note,
    Team,
    add_text,
    challenge_key,
    find_teams,
    rejection_in,
    submission_key,
    why_unranked,
)
from evaluation.metrics import metrics_of
from evaluation.metrics.registry import class_aware_matching
from evaluation.model import AGGREGATIONS, WITH_FRACTION, Float64, Int64, Perturbation, RankingMethod, ScoreTable
from evaluation.ranking.methods import select_teams
from evaluation.ranking.missing import keep_complete_units
from evaluation.ranking.significance import Comparison
from evaluation.results.files import write_atomically
from evaluation.results.metrics_json import as_json, identity
from evaluation.scoring.from_files import score_then
from evaluation.scoring.memory import memory_needs
from evaluation.scoring.score import MEANS, UNIT_OF_MEAN, Result

COMBINATIONS_UP_TO = 10_000
DIMENSIONS = ("matching", "threshold", "unit", "overlap", "ignore", "predictions", "weights", "patients", "method")
AS_WRITTEN = "as written"  # the threshold of each rule, the aggregation of each column
PERTURBATIONS: tuple[Perturbation, ...] = get_args(Perturbation)
MEAN_OF_UNIT = {unit: name for name, unit in UNIT_OF_MEAN.items()}
KEPT = "scores"  # folder in the output with the scores of each team in each run
KEPT_BYTES = 500_000_000

T = TypeVar("T")


# --- what is varied ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """Rules that ask for scores of their own."""

    overlap: str
    ignore: str
    predictions: Perturbation
    challenge: Challenge


@dataclass(frozen=True, slots=True)
class Matching:
    """A matching rule that teams are ranked by.

    rule       the name that it is listed under in the challenge and in the audit
    threshold  as shown: ``AS_WRITTEN`` or another IoU threshold
    name       of the rule in the challenge of the runs
    """

    rule: str
    threshold: str
    name: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is varied, the challenge's own rules first in each.

    paths   of all columns under each matching rule and unit, by the names of the two
    weights, patients   what is varied under the challenge's own rules only: columns with other weights, by their names
                        and by all methods, and the patients that are left out
    notes   what is left out, and why
    """

    challenge: Challenge
    rules: RankingRules
    runs: tuple[Run, ...]
    matchings: tuple[Matching, ...]
    units: tuple[str, ...]
    methods: tuple[RankingMethod, ...]
    paths: dict[tuple[str, str], tuple[str, ...]]
    weights: dict[str, tuple[int, float]]
    patients: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def combinations(self) -> int:
        return len(self.runs) * len(self.matchings) * len(self.units) * len(self.methods)

    @property
    def all_paths(self) -> tuple[str, ...]:
        """Every path once, in a fixed order."""
        floors = (floor.path for floor in self.rules.require)
        return tuple(dict.fromkeys([*(path for paths in self.paths.values() for path in paths), *floors]))

    def dimensions(self) -> tuple[Dimension, ...]:
        values = (
            [matching.rule for matching in self.matchings],
            [matching.threshold for matching in self.matchings],
            self.units,
            [run.overlap for run in self.runs],
            [run.ignore for run in self.runs],
            [run.predictions for run in self.runs],
            [AS_WRITTEN, *self.weights],
            [ALL, *self.patients],
            self.methods,
        )
        distinct = [tuple(dict.fromkeys(of)) for of in values]
        return tuple(Dimension(name, of, of[0]) for name, of in zip(DIMENSIONS, distinct, strict=True))


def plan_audit(challenge: Challenge, rules: RankingRules) -> Plan:
    """What is varied: the lists of [audit], and what the challenge suggests where there are none.

    Raises ChallengeBroken for a list that contradicts the challenge, and for more than ``COMBINATIONS_UP_TO``.
    """
    notes: list[str] = []
    matchings, all_rules = plan_matching(challenge, rules, notes)
    units = plan_units(challenge, rules)
    paths = {
        (matching.name, unit): columns_under(challenge, rules, all_rules, matching.name, unit)
        for matching in matchings
        for unit in units
    }
    plan = Plan(
        challenge=challenge,
        rules=rules,
        runs=plan_runs(challenge, all_rules, notes),
        matchings=matchings,
        units=units,
        methods=plan_methods(challenge.audit, rules),
        paths=paths,
        weights=other_weights(rules, challenge.audit.weights),
        patients=other_patients(groups_of(challenge), wanted=challenge.audit.patients, notes=notes),
        notes=tuple(notes),
    )
    if plan.combinations > COMBINATIONS_UP_TO:
        got = f"{plan.combinations:,} combinations, of which {len(plan.runs):,} need scores of their own"
        fix = "List fewer values: a list with the challenge's own value alone varies nothing."
        raise ChallengeBroken(contradiction("audit", got, f"at most {COMBINATIONS_UP_TO:,}", fix))
    return plan


def contradiction(key: str, got: str, expected: str, fix: str = "") -> Finding:
    return Contradiction(got, expected, fix).at(f"{CHALLENGE_FILE}: {key}")


def own_first(own: T, others: Sequence[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((own, *others)))


def plan_matching(
    challenge: Challenge, rules: RankingRules, notes: list[str]
) -> tuple[tuple[Matching, ...], tuple[AnyMatchingRule, ...]]:
    """The matching rules to rank by, and all rules of the challenge of the runs, the challenge's own first."""
    own = challenge.matching.rules
    primary = challenge.matching.passes[0][0]
    listed = challenge.audit.matching
    names = [rule.name for rule in (*own, *listed)]
    if len(set(names)) < len(names):
        expected = "a name of its own for each rule, other than those under [matching]"
        raise ChallengeBroken(contradiction("audit.matching", "two rules with the same name", expected))
    if not own:
        if listed:
            expected = "no matching, since numbers cannot be paired"
            raise ChallengeBroken(contradiction("audit.matching", "given beside numbers of nuclei", expected))
        return (Matching(primary, AS_WRITTEN, primary),), own
    if all(path == moved_path(challenge, path, "", class_aware=False) for path in paths_of(rules)):
        notes.append("Matching rules are not varied: no column of the ranking depends on the first one.")
        return (Matching(primary, AS_WRITTEN, primary),), own
    matchings, added = [], []
    for rule in (*own, *listed):
        if any(
            moved_path(challenge, path, rule.name, class_aware=rule.class_aware) is None for path in paths_of(rules)
        ):
            notes.append(f"The matching rule {rule.name} is left out: not every column has a value under it.")
            continue
        matchings.append(Matching(rule.name, AS_WRITTEN, rule.name))
        if rule in listed:
            added.append(rule)
        for threshold in thresholds_for(challenge, rule):
            name = f"audit_{len(added)}"
            while name in names:
                name += "_"
            names.append(name)
            added.append(rule.model_copy(update={"name": name, "threshold": threshold}))
            matchings.append(Matching(rule.name, f"{threshold:g}", name))
    return tuple(matchings), (*own, *added)


def thresholds_for(challenge: Challenge, rule: AnyMatchingRule) -> tuple[float, ...]:
    """Other IoU thresholds for a rule; none for a rule without one.

    Where none are listed, 0.1 less and 0.1 more than the rule of the challenge has.
    """
    if not isinstance(rule, IouRule | ConfidenceFirst) or rule.threshold is None:
        return ()
    own, listed = rule.threshold, challenge.audit.thresholds
    if listed is None:
        listed = tuple(t for t in (round(own - 0.1, 6), round(own + 0.1, 6)) if 0 < t < 1)
    return tuple(t for t in dict.fromkeys(listed) if t != own and not (t == 0 and isinstance(rule, ConfidenceFirst)))


def paths_of(rules: RankingRules) -> tuple[str, ...]:
    return tuple(column.path for column in rules.columns)


def moved_path(challenge: Challenge, path: str, rule: str, *, class_aware: bool) -> str | None:
    """The path of a column under another matching rule; None if there is no such number.

    What no matching rule can change, and what names its rule itself, stays as it is.
    """
    if rule == challenge.matching.passes[0][0] or path.startswith("alternatives."):
        return path
    metric = path.rpartition(".")[0]
    choice = challenge.metric_choice()
    by_path = {".".join(m.path): m for m in metrics_of(choice, class_aware=class_aware, primary=False)}
    if metric not in by_path:
        return path
    is_undefined = by_path[metric].evaluate is class_aware_matching
    return None if is_undefined else f"alternatives.{rule}.{path}"


def plan_units(challenge: Challenge, rules: RankingRules) -> tuple[str, ...]:
    """The aggregations at the end of the columns. What is the same number for every team is there once only."""
    written = {path.rpartition(".")[2] for path in paths_of(rules)}
    own = next(iter(written)) if len(written) == 1 else AS_WRITTEN
    listed = challenge.audit.units
    if listed is not None:
        return own_first(own, [MEAN_OF_UNIT[unit] for unit in listed])
    groups = len({case.group for case in challenge.cases})
    twin = {
        "pooled": "group_mean" if groups == 1 else "pooled",
        "case_mean": "group_mean" if groups == len(challenge.cases) else "case_mean",
    }
    by_twin = {twin.get(name, name): name for name in (*reversed(AGGREGATIONS), own)}
    return own_first(own, [name for name in AGGREGATIONS if by_twin[twin.get(name, name)] == name])


def columns_under(
    challenge: Challenge, rules: RankingRules, all_rules: Sequence[AnyMatchingRule], name: str, unit: str
) -> tuple[str, ...]:
    """The paths of the columns under a matching rule and a unit."""
    aware = {rule.name: rule.class_aware for rule in all_rules}.get(name, False)
    paths = []
    for path in paths_of(rules):
        moved = moved_path(challenge, path, name, class_aware=aware)
        assert moved is not None  # such rules are left out
        metric, _, aggregation = moved.rpartition(".")
        paths.append(f"{metric}.{unit if unit in MEANS.values() else aggregation}")
    return tuple(paths)


def plan_methods(rules_of_audit: AuditRules, rules: RankingRules) -> tuple[RankingMethod, ...]:
    """The methods of the ranking, those that can give other places than the challenge's own."""
    listed = rules_of_audit.methods
    several = len(rules.columns) > 1
    if listed is not None:
        if several and "absolute" in listed:
            got = f"'absolute' with {len(rules.columns)} columns"
            raise ChallengeBroken(contradiction("audit.methods", got, "methods for several columns"))
        return own_first(rules.method, listed)
    suggested: list[RankingMethod] = [*(["median_of_ranks"] if several else []), "rank_then_aggregate"]  # type: ignore[list-item]
    if rules.method in ("median_of_ranks", "rank_then_aggregate"):
        suggested.append("sum_of_ranks")
    return own_first(rules.method, suggested)


def plan_runs(challenge: Challenge, rules: Sequence[AnyMatchingRule], notes: list[str]) -> tuple[Run, ...]:
    """The runs that need scores of their own; contradictory combinations are left out, with a note."""
    given = challenge.audit
    overlaps: Sequence[str | None] = own_first(challenge.reference.overlap, overlap_rules(challenge))
    policies: Sequence[str | None] = own_first(challenge.reference.ignore.policy, ignore_policies(challenge))
    drawn = perturbations(challenge, notes)
    found: list[Run] = []
    for overlap, policy in product(overlaps, policies):
        own = policy == challenge.reference.ignore.policy
        fraction = challenge.reference.ignore.fraction if own else given.fraction
        ignore = challenge.reference.ignore.model_dump() | {
            "policy": policy,
            "fraction": fraction if policy in WITH_FRACTION else None,
        }
        reference = {key: getattr(challenge.reference, key) for key in type(challenge.reference).model_fields}
        document = {key: getattr(challenge, key) for key in Challenge.model_fields} | {
            "reference": reference | {"overlap": overlap, "ignore": ignore},
            "confidence": None,
        }
        if rules:
            document["matching"] = challenge.matching.model_copy(update={"rules": tuple(rules)})
        try:
            varied = Challenge.build(document)
        except ChallengeBroken as error:
            if (overlap, policy) == (overlaps[0], policies[0]):
                raise
            first = error.findings[0]
            notes.append(f"Overlap {overlap} with ignore policy {policy} is left out: {first.got}.")
            continue
        found += [Run(overlap or "none", policy or "none", name, varied) for name in drawn]
    return tuple(found)


def overlap_rules(challenge: Challenge) -> Sequence[Any]:
    """Which overlap rules are tried beside the challenge's own: by default two, where nuclei can overlap."""
    if challenge.audit.overlap is not None:
        if challenge.reference.overlap is None and challenge.audit.overlap:
            expected = "no such key, since points and numbers do not overlap"
            raise ChallengeBroken(contradiction("audit.overlap", "given without areas", expected))
        return challenge.audit.overlap
    one_label_a_pixel = challenge.reference.dense and "{class}" not in challenge.reference.files
    return () if challenge.reference.overlap is None or one_label_a_pixel else ("keep", "last")


def ignore_policies(challenge: Challenge) -> Sequence[Any]:
    """Which ignore policies are tried beside the challenge's own: by default another if there are ignore classes."""
    if challenge.audit.ignore is not None:
        if challenge.reference.ignore.policy is None and challenge.audit.ignore:
            expected = "no such key, since nothing is ignored"
            raise ChallengeBroken(contradiction("audit.ignore", "given without an ignore policy", expected))
        return challenge.audit.ignore
    return ("clip", "drop_centroid") if challenge.reference.ignore.classes else ()


def perturbations(challenge: Challenge, notes: list[str]) -> tuple[Perturbation, ...]:
    """What is done to the predictions; points have no border, and numbers no position."""
    if challenge.are_counts:
        return ("none",)
    can: Sequence[Perturbation] = ("none", "shifted") if challenge.submission.are_points else PERTURBATIONS
    wanted = can if challenge.audit.predictions is None else challenge.audit.predictions
    notes += [f"Predictions cannot be {name}: points have no border." for name in wanted if name not in can]
    return own_first("none", [name for name in wanted if name in can])


# --- scores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TeamRuns:
    """The scores of a team in every run, in the columns ``Plan.all_paths``."""

    name: str
    runs: tuple[TeamScores, ...]


def audit_challenge(
    challenge_folder: Path,
    submissions: Path | str,
    output: Path | LocalOutput | StoredOutput,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    note: Note | None = None,
    executor: Executor | None = None,
) -> Audit:
    """Score all teams of a folder under all rules that are varied, and audit their ranking.

    workers   processes, or tasks that ``executor`` works on at once; several teams are in flight
    progress  is called with the number of runs that are done, and of all
    note      is called with the name of each team and the outcome

    Raises WrongUsage, ChallengeBroken and WorkersLost.
    """
    challenge, rules = load_ranked(challenge_folder)
    plan = plan_audit(challenge, rules)
    output = output_at(output)
    folder_of_teams = find_teams(submissions, output=output.folder)
    teams = folder_of_teams.teams
    key = challenge_key(challenge_folder, challenge)
    index = Index(output, KEPT, digest_of([run_key(key, run, plan.all_paths) for run in plan.runs]))
    done = dict.fromkeys((team.name for team in teams), 0)
    counting = threading.Lock()  # teams are in threads of their own; progress never goes back

    def advance(name: str, runs: int) -> None:
        with counting:
            done[name] = max(done[name], runs)  # a team may be scored once more, by itself
            if progress:
                progress(sum(done.values()), len(teams) * len(plan.runs))

    def work(team: Team, workers: Workers) -> tuple[TeamRuns | Unranked, bool, str]:
        stamp = stamp_of(team.path, challenge.limits)
        if entry := index.find(team.name, stamp):
            return runs_of(team.name, entry), True, ""
        output.bring(f"{KEPT}/{team.name}")
        folder = output.folder / KEPT / team.name
        try:
            found, is_kept = score_runs(plan, challenge_folder, key, team, folder, workers, partial(advance, team.name))
        except SubmissionRejected as error:  # by its names or sizes, before it was fetched
            return why_unranked(team.name, error), False, ""
        return found, is_kept, stamp

    found: dict[int, TeamRuns | Unranked] = {}
    needs = memory_needs(challenge, challenge.cases, folder=challenge_folder)
    for number, (of_team, is_kept, stamp) in work_through(
        teams,
        work,
        cases=challenge.cases,
        needs=needs,
        workers=workers,
        executor=executor,
        idle=partial(advance, teams[0].name, 0),
    ):
        found[number], name = of_team, teams[number].name
        if not is_kept:
            output.put(f"{KEPT}/{name}")
        if isinstance(of_team, TeamRuns) and stamp:
            index.add(name, stamp, {"runs": [scores_entry(scores) for scores in of_team.runs]})
        if note:
            note(name, "not ranked" if isinstance(of_team, Unranked) else "kept" if is_kept else "scored")
        advance(name, len(plan.runs))
    ordered = [found[number] for number in range(len(teams))]
    scored = [of_team for of_team in ordered if isinstance(of_team, TeamRuns)]
    unranked = [*(of_team for of_team in ordered if isinstance(of_team, Unranked)), *folder_of_teams.unranked]
    findings = [*folder_of_teams.findings, *gameable_ranking(challenge)]
    notes = [f"{finding.where}: {finding.got}." for finding in findings]
    return audit_runs(plan, scored, unranked, notes)


def runs_of(name: str, entry: Mapping[str, Any]) -> TeamRuns:
    """What the index knows of a team."""
    return TeamRuns(name, tuple(scores_of(name, scores) for scores in entry["runs"]))


def score_runs(
    plan: Plan,
    challenge_folder: Path,
    of_challenge: str,
    team: Team,
    folder: Path,
    workers: Workers,
    advance: Callable[[int], None],
) -> tuple[TeamRuns | Unranked, bool]:
    """All runs of a team, and whether nothing had to be scored. A rejected submission is looked at once."""
    scores, is_kept = [], True
    with fetched(team.path, plan.challenge.limits) as path:
        files = submission_key(of_challenge, plan.challenge, path)
        for index, run in enumerate(plan.runs):
            advance(index)
            key = run_key(files, run, plan.all_paths)
            kept_in = folder / f"{run.overlap}-{run.ignore}-{run.predictions}.json"
            found = read_scores(kept_in, key, team.name)
            if found is None:
                is_kept = False
                found, lasts = score_run(plan, run, challenge_folder, team.name, path, workers)
                write_scores(kept_in, key if lasts else "", found)
            if isinstance(found, Unranked):
                return found, is_kept
            scores.append(found)
    return TeamRuns(team.name, tuple(scores)), is_kept


def score_run(
    plan: Plan, run: Run, challenge_folder: Path, name: str, path: Path, workers: Workers
) -> tuple[TeamScores | Unranked, bool]:
    """One submission under the rules of one run, and whether this can be kept. Raises ChallengeBroken, WorkersLost."""
    finish = partial(scores_in, name=name, paths=plan.all_paths)
    try:
        scores = score_then(
            finish, challenge_folder, path, workers=workers, challenge=run.challenge, perturbation=run.predictions
        )
    except (ChallengeBroken, WorkersLost):
        raise
    except EvaluationError as error:
        return why_unranked(name, error), isinstance(error, SubmissionRejected)  # others may be gone the next time
    return scores, True


def scores_in(result: Result, *, name: str, paths: Sequence[str]) -> TeamScores:
    """The numbers at some paths of a result."""
    columns = plan_columns(result.challenge, as_columns(paths))
    return team_of_documents(name, result.challenge, columns, result.metrics, result.details)


def run_key(files: str, run: Run, paths: Sequence[str]) -> str:
    """The hash of all that the scores of a run depend on; "" if the files of the submission cannot be read.

    files  of the program, the challenge with its reference, and the submission
    """
    if not files:
        return ""
    digest = hashlib.sha256()
    add_text(digest, files, run.challenge.hash, run.predictions, *paths)
    return digest.hexdigest()


def write_scores(path: Path, key: str, found: TeamScores | Unranked) -> None:
    """Keep the scores of a run, or why there are none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(found, Unranked):
        content: dict[str, Any] = {"code": found.code, "reason": found.reason}
    else:
        assert found.by_unit is not None
        content = {"overall": listing(found.overall), "by_unit": listing(found.by_unit), "version": found.version}
    write_atomically(path, as_json({"key": key, "check": checksum(content), **content}))


def checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(as_json(content).encode()).hexdigest()


def read_scores(path: Path, key: str, name: str) -> TeamScores | Unranked | None:
    """What was kept under this key, whole and unchanged; None if nothing was."""
    try:
        with path.open("rb") as stream:
            content = orjson.loads(stream.read(KEPT_BYTES))
    except (OSError, orjson.JSONDecodeError):
        return None
    if not key or not isinstance(content, dict) or content.pop("key", None) != key:
        return None
    if content.pop("check", None) != checksum(content):
        return None
    if "overall" not in content:
        return rejection_in(content, name)
    overall, by_unit = (np.array(content[part], np.float64) for part in ("overall", "by_unit"))
    return TeamScores(name, overall, by_unit, content["version"])


# --- from scores to the audit -----------------------------------------------------------------------------------------


def audit_runs(plan: Plan, teams: Sequence[TeamRuns], unranked: Sequence[Unranked], notes: Sequence[str] = ()) -> Audit:
    """Rank the teams under every combination, and audit the rankings."""
    names = tuple(sorted(team.name for team in teams))
    ranked = Variants(plan.dimensions(), plan.rules, plan.methods, names)
    for run, matching, unit in product(range(len(plan.runs)), plan.matchings, plan.units):
        of = plan.runs[run]
        ranked.add_table(
            table_of(plan, teams, run, matching, unit),
            plan.rules,
            matching=matching.rule,
            threshold=matching.threshold,
            unit=unit,
            overlap=of.overlap,
            ignore=of.ignore,
            predictions=of.predictions,
        )
    if names:
        own = table_of(plan, teams, 0, plan.matchings[0], plan.units[0])
        own = keep_complete_units(own) if plan.rules.missing == "complete_cases" else own
        ranked.add_weights(own, plan.weights)
        ranked.add_patients(own, plan.patients)
    note = f"{counted(len(ranked.settings), 'variant')} out of {counted(len(plan.runs), 'run')} of each team."
    return ranked.audit(
        identity=identity(plan.challenge),
        unranked=unranked,
        notes=[note, *plan.notes, *notes],
    )


class Variants:
    """The places of teams in one variant after the other; the first one is the published one.

    What is not said of a variant has the published value.
    """

    def __init__(
        self,
        dimensions: Sequence[Dimension],
        rules: RankingRules,
        methods: Sequence[RankingMethod],
        teams: Sequence[str],
    ) -> None:
        self.dimensions, self.rules, self.methods, self.teams = tuple(dimensions), rules, methods, tuple(teams)
        shape = len(rules.columns), len(teams), len(teams)
        self.tables: Int64 = np.zeros(shape[0], np.int64)  # as in ``find_differences``
        self.wins: Int64 = np.zeros(shape, np.int64)
        self.same: Int64 = np.zeros(shape, np.int64)
        self.known: dict[bytes, list[Comparison | None]] = {}
        self.settings: list[list[int]] = []
        self.places: list[tuple[Float64, Float64]] = []

    def add(
        self, table: ScoreTable, rules: RankingRules, tests: Sequence[Comparison | None] | None, **values: str
    ) -> None:
        """A variant: the teams ranked by some rules, and what is special about it."""
        self.settings.append(
            [of.values.index(values.get(of.name, of.published or of.values[0])) for of in self.dimensions]
        )
        self.places.append(rank_table(table, rules, tests))

    def add_table(self, table: ScoreTable, rules: RankingRules, **values: str) -> None:
        """A table under every method, and what differs significantly in it."""
        if rules.missing == "complete_cases":
            table = keep_complete_units(table)
        key = b"" if table.by_unit is None else table.by_unit.tobytes()  # rules often change nothing
        if key not in self.known:
            self.known[key] = compare_columns(table, rules) if self.teams else []
        tests = self.known[key]
        for index, test in enumerate(tests):
            if test is not None and test.undefined is None:
                score = table.overall[:, index] * (1 if table.higher_is_better[index] else -1)
                self.tables[index] += 1
                self.wins[index] += test.better == 1
                self.same[index] += score[:, None] > score[None, :]
        for method in self.methods:
            self.add(table, rules.model_copy(update={"method": method}), tests, method=method, **values)

    def add_weights(self, table: ScoreTable, weights: dict[str, tuple[int, float]]) -> None:
        """The published table with other weights of its columns, under every method."""
        for (name, (column, factor)), method in product(weights.items(), self.methods):
            changed, rules = reweighted(table, self.rules, column, factor)
            self.add(changed, rules.model_copy(update={"method": method}), None, weights=name, method=method)

    def add_patients(self, table: ScoreTable, patients: Sequence[str]) -> None:
        """The published table without each of its patients, by the published rules."""
        for unit, name in enumerate(patients if table.by_unit is not None else ()):
            self.add(without_unit(table, unit), self.rules, None, patients=name)

    def audit(self, *, identity: dict[str, Any], unranked: Sequence[Unranked], notes: Sequence[str]) -> Audit:
        """The audit of these variants; teams without a place in any of them are not ranked."""
        position, combined = (
            np.array(of).reshape(len(self.settings), len(self.teams)) for of in zip(*self.places, strict=True)
        )
        is_ranked = np.asarray((~np.isnan(position)).any(axis=0))
        named = list(zip(self.teams, is_ranked, strict=True))
        rows = [Unranked(name, "no-value", "no place in any variant") for name, ranked in named if not ranked]
        return audit_positions(
            tuple(name for name, ranked in named if ranked),
            self.dimensions,
            self.settings,
            position[:, is_ranked],
            combined[:, is_ranked],
            published=0,
            identity=identity,
            differences=find_differences(paths_of(self.rules), self.teams, self.tables, self.wins, self.same),
            unranked=sorted([*rows, *unranked], key=lambda row: row.name),
            notes=notes,
            tested=bool(self.tables.any()),
        )


def table_of(plan: Plan, teams: Sequence[TeamRuns], run: int, matching: Matching, unit: str) -> ScoreTable:
    """The table that is ranked in some variants, with the columns of the challenge; its floors stay as they are."""
    every = {path: index for index, path in enumerate(plan.all_paths)}
    chosen = [every[path] for path in plan.paths[matching.name, unit]]
    scores = []
    for team in teams:
        of_run = team.runs[run]
        by_unit = None if of_run.by_unit is None else of_run.by_unit[chosen]
        floors = of_run.overall[[every[floor.path] for floor in plan.rules.require]]
        scores.append(TeamScores(team.name, of_run.overall[chosen], by_unit, of_run.version, floors))
    return score_table(scores, plan.rules, groups_of(plan.challenge))


def rank_table(
    table: ScoreTable, rules: RankingRules, tests: Sequence[Comparison | None] | None
) -> tuple[Float64, Float64]:
    """Places and combined numbers of all teams, as the leaderboard has them; NaN for teams that are not ranked.

    tests  those of ``compare_columns``, if they are there
    """
    position, combined = (np.full(len(table.teams), np.nan) for _ in range(2))
    if not table.teams:
        return position, combined
    found = apply_method(table, rules)
    is_ranked = ~np.isnan(found.position)
    if not is_ranked.any():
        return position, combined
    if rules.ex_aequo or not is_ranked.all():
        kept = select_teams(table, is_ranked)
        of_kept = tests if tests is not None and is_ranked.all() else compare_columns(kept, rules)
        found = share_places(kept, rules, of_kept) if rules.ex_aequo else apply_method(kept, rules)
    position[is_ranked], combined[is_ranked] = found.position, found.combined
    return position, combined


def write_audit(folder: Path, audit: Audit) -> None:
    """Write audit.csv and audit.json, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "audit.csv", audit_csv(audit))
    write_atomically(folder / "audit.json", audit_json(audit))
