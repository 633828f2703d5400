"""The audit of a leaderboard: ``rank`` under all combinations of other plausible rules.

A view is a table of scores with rules to rank it. Only rules about overlaps, ignore regions and changed
predictions need new scores. Matching rules, thresholds and units are further paths of metrics.json from the same run.
Every view is ranked by every method that ``rank`` lists.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeVar, get_args

import numpy as np
import orjson

from evaluation.board import board, ranked_table, team_scores
from evaluation.board.board import rules_of_scores
from evaluation.board.rules import gameable_ranking, load_ranked, parse_settings
from evaluation.board.score_csv import UnitKind, aggregation_of, read_rows, table_of_rows, without_teams
from evaluation.board.stored import Unranked
from evaluation.board.teams import Kept, Note, TeamOutcome, score_teams
from evaluation.board.variants import (
    Audit,
    BorderScores,
    Dimension,
    EntryScores,
    PairDifference,
    audit_positions,
    compare_conditions,
)
from evaluation.challenge import CHALLENGE_FILE, AnyMatchingRule, Challenge, ConfidenceFirst, IouRule
from evaluation.challenge.formats import ColourMapRules
from evaluation.challenge.rules import AuditRules, RankingRules
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.formats.format import image_bytes
from evaluation.files.results.documents import as_json
from evaluation.findings import Finding, counted, fault, render_findings
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.scoring.rasterise import of_every_case
from evaluation.scoring.read import read_reference
from evaluation.scoring.score import UNIT_OF_MEAN, Result
from evaluation.scoring.street import score_submission
from evaluation.scoring.workers import Progress, progress_of_round, run_work
from nuclei_metrics.instances.runs import erode_instances
from nuclei_metrics.metrics import class_aware_matching, metrics_of
from nuclei_metrics.model import AGGREGATIONS, WITH_FRACTION, Case, Float64, MissingValues, RankingMethod, ScoreTable
from nuclei_metrics.ranking.declared_test import ComparedTeams
from nuclei_metrics.ranking.methods import keep_complete_units

TABLES_UP_TO = 1_000  # of scores, each ranked by every method
WEIGHT_FACTORS = (0.0, 0.5, 2.0)  # of the weight of each column
AS_WRITTEN = "as written"
BORDERS = ("remove", "remove_and_dilate")
CODED = "colour-coded reference"  # what a copy of the reference scores in colour maps
PAIRED_UP_TO = 30  # teams that are compared in pairs under all conditions
KEPT, SCORES = "scores", "scores.json"  # folder in the output, and the file of a team and a run
TEAM_OUTCOMES: tuple[TeamOutcome, ...] = ("not ranked", "scored", "kept")  # of a team: the first of its runs' outcomes
WITHOUT_NUCLEI = (
    "Matching rules, their thresholds, overlap and ignored regions are not varied: that needs nuclei, and these are "
    "scores."
)

Choice = TypeVar("Choice")
Matching = tuple[str, str]  # a rule and a threshold: ``AS_WRITTEN`` or a number


# --- views ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class AuditView:
    """A table of scores and the rules to rank it; ``values``: changes to the published rules, by dimension."""

    table: ScoreTable
    rules: RankingRules
    values: Mapping[str, str]


def audit_views(views: Sequence[AuditView], audit: AuditRules) -> Audit:
    """Rank the teams of every view by every method, and audit the ranks. The first view is the published one.

    Its weights are varied, too.
    """
    views = [*views]
    notes: list[str] = []
    for index, view in enumerate(views):
        if view.rules.missing == "complete_cases":
            views[index] = replace(view, table=keep_complete_units(view.table))
    own, rules = views[0], views[0].rules
    tests = ranked_table.compare_teams(own.table, rules) if own.table.teams else None
    methods = _methods_of(own, audit, tests, notes)
    conditions = [view for view in views if view.values.get("unit") == own.values.get("unit")]
    views += weight_views(own, audit.weights)
    ranked = [{method: rank_view(view, method) for method in methods} for view in views]
    distinct_methods = _different_methods(ranked, notes)
    rows = [
        (dict(view.values) | {"method": method}, places[method])
        for view, places in zip(views, ranked, strict=True)
        for method in distinct_methods
    ]
    published = {**own.values, "weights": AS_WRITTEN, "method": rules.method}
    dimensions = [
        Dimension(name, tuple(dict.fromkeys(values.get(name, value) for values, _ in rows)), value)
        for name, value in published.items()
    ]
    settings = [
        [dimension.values.index(values.get(dimension.name, dimension.published)) for dimension in dimensions]
        for values, _ in rows
    ]
    position, combined = (np.stack(places) for places in zip(*(places for _, places in rows), strict=True))
    is_ranked = ~np.isnan(position).all(axis=0)
    named = list(zip(own.table.teams, is_ranked.tolist(), strict=True))
    teams, places = [name for name, is_in in named if is_in], (position[:, is_ranked], combined[:, is_ranked])
    better = _better_pairs(own.table.teams, tests)
    pairs = _pairs_under_conditions(conditions, [name for name in own.table.teams if name in teams])
    return replace(
        audit_positions(teams, dimensions, settings, *places, published=0, better=better),
        pairs=pairs,
        unranked=tuple(Unranked(name, "no-value", "no rank in any variant") for name, is_in in named if not is_in),
        notes=(f"{counted(len(rows), 'variant')} of {counted(len(views), 'table')} of scores.", *notes),
    )


def rank_view(view: AuditView, method: RankingMethod) -> tuple[Float64, Float64]:
    return ranked_table.rank_table(view.table, view.rules.model_copy(update={"method": method}))


def _methods_of(
    own: AuditView, audit: AuditRules, tests: ComparedTeams | None, notes: list[str]
) -> tuple[RankingMethod, ...]:
    """List the methods that [audit] names, otherwise all that ``rank`` names; the published one is the first."""
    rules, several = own.rules, len(own.rules.columns) > 1
    if audit.methods is not None:
        if several and "absolute" in audit.methods:
            got = f"'absolute' with {len(rules.columns)} columns"
            raise contradictory("audit.methods", got, "methods for several columns")
        return _own_first(rules.method, audit.methods)
    places = ranked_table.places_by_methods(own.table, rules, tests) if own.table.teams else {}
    unable = [name for name in get_args(RankingMethod) if name not in places and (name != "absolute" or not several)]
    if places and unable:
        notes.append(f"Methods not tried, because all teams would share a rank: {', '.join(unable)}.")
    return _own_first(rules.method, tuple(places))


def _different_methods(
    ranked: Sequence[Mapping[RankingMethod, tuple[Float64, Float64]]], notes: list[str]
) -> list[RankingMethod]:
    """Keep the first of several methods that give the same ranks in every view."""
    groups: dict[bytes, list[RankingMethod]] = {}
    for method in ranked[0]:
        places = np.stack([places[method][0] for places in ranked])
        groups.setdefault(np.nan_to_num(places).tobytes(), []).append(method)
    words = [f"{first} ({', '.join(same)} too)" if same else first for first, *same in groups.values()]
    notes.append(f"Methods that rank differently: {', '.join(words)}.")
    return [first for first, *_ in groups.values()]


def _better_pairs(teams: Sequence[str], tests: ComparedTeams | None) -> set[tuple[str, str]] | None:
    """Find the pairs of teams in which the first is significantly better in a column; None: nothing could be tested."""
    tested = [test for test in (tests.columns if tests else ()) if test.undefined is None]
    pairs = {(teams[row], teams[column]) for test in tested for row, column in np.argwhere(test.better == 1).tolist()}
    return pairs if tested else None


def _pairs_under_conditions(views: Sequence[AuditView], teams: Sequence[str]) -> tuple[PairDifference, ...]:
    """Compare each pair of teams in each column under all conditions: tables of other nuclei, pairs or missing values.

    Empty for a single condition, for more than ``PAIRED_UP_TO`` teams, and if the values of patients are unknown.
    """
    if len(views) < 2 or not 1 < len(teams) <= PAIRED_UP_TO:
        return ()
    ahead, significant = [], []
    for view in views:
        tests = ranked_table.compare_teams(view.table, view.rules)
        if tests is None or not set(teams) <= set(view.table.teams):
            return ()
        chosen = [view.table.teams.index(name) for name in teams]
        values = (view.table.overall * np.where(view.table.higher_is_better, 1, -1))[chosen].T
        ahead.append(np.nan_to_num(np.sign(values[:, :, None] - values[:, None])))
        significant.append([test.better[np.ix_(chosen, chosen)] for test in tests.columns])
    return compare_conditions(teams, views[0].rules.paths, np.array(ahead, np.int64), np.array(significant, np.int64))


def weight_views(own: AuditView, factors: Sequence[float] | None) -> Iterator[AuditView]:
    """Yield the view without each column, and with each weight multiplied. A single column has no such views."""
    table, columns = own.table, own.rules.columns
    tried = [factor for factor in (WEIGHT_FACTORS if factors is None else factors) if factor != 1]
    for index, factor in product(range(len(columns)) if len(columns) > 1 else (), tried):
        weights = table.weights.copy()
        weights[index] *= factor
        remaining = np.flatnonzero(weights)
        changed = ranked_table.part_of_table(replace(table, weights=weights), remaining.tolist())
        rules = own.rules.model_copy(update={"columns": tuple(columns[place] for place in remaining)})
        name = f"{columns[index].path} {f'x {factor:g}' if factor else 'without'}"
        yield AuditView(changed, rules, {**own.values, "weights": name})


# --- scores from elsewhere --------------------------------------------------------------------------------------------


def audit_scores_in_file(
    challenge_folder: Path | None, scores: Path, *, columns: Sequence[str], settings: Sequence[str], unit: UnitKind
) -> Audit:
    """Audit the teams of a CSV file, which is read and ranked as the command ``rank`` does.

    Varied: the method, the rule for missing values if any are missing, whether cases or groups count the same, the
    weights of columns, and the patients. Raises WrongUsage and ChallengeBroken.
    """
    challenge, rules = rules_of_scores(challenge_folder, scores, columns, parse_settings(settings))
    rows, findings = read_rows(scores, rules.columns, challenge)
    rows = without_teams(rows, rules.unranked)
    own = table_of_rows(rows, rules.columns, unit=unit, missing=rules.missing)
    notes, missing = [WITHOUT_NUCLEI], (rules.missing,)
    if any(finding.code == "incomplete-scores" for finding in own.findings):
        missing = _own_first(rules.missing, get_args(MissingValues))
    else:
        notes.append("The rule for missing values is not varied: no team lacks a value.")
    written = {aggregation_of(column.path, unit) for column in rules.columns}
    name = next(iter(written)) if len(written) == 1 else AS_WRITTEN
    means: dict[str, UnitKind | None] = {name: None}
    if len(rows.groups) in (1, len(rows.cases)):
        notes.append("The unit of averages is not varied: patients and cases give the same.")
    else:
        means |= {other: other for other in get_args(UnitKind) if other != name}
    views = []
    for rule, (name, mean) in product(missing, means.items()):
        by_rule = rules.model_copy(update={"missing": rule})
        scores_of_view = table_of_rows(rows, rules.columns, unit=unit, missing=rule, mean=mean)
        table = board.table_in_file(scores_of_view, by_rule, challenge)
        views.append(AuditView(table, by_rule, {"missing": rule, "unit": name}))
    audit = audit_views(views, challenge.audit if challenge else AuditRules())
    notes += render_findings([*findings, *own.findings])
    return replace(audit, identity=board.identity_of(challenge, rules), notes=(*audit.notes, *notes))


# --- what is varied in a challenge ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """Rules for which all teams are scored once: overlaps and ignore regions of the reference, and borders.

    border  of colour maps; "": other files
    """

    overlap: str
    ignore: str
    border: str
    challenge: Challenge


@dataclass(frozen=True, slots=True)
class _AuditPlan:
    """Variations other than methods and weights; the rule of the challenge comes first.

    columns  the paths of all columns under a matching rule and a threshold, ``AS_WRITTEN`` or a number
    notes    omissions, with reasons
    """

    challenge: Challenge
    rules: RankingRules
    runs: tuple[Run, ...]
    columns: dict[Matching, tuple[str, ...]]
    units: tuple[str, ...]
    notes: tuple[str, ...]

    def paths(self, matching: Matching, unit: str) -> list[str]:
        """The paths of the columns in a view."""
        columns = self.columns[matching]
        return [path if unit == AS_WRITTEN else f"{path.rpartition('.')[0]}.{unit}" for path in columns]

    @property
    def all_paths(self) -> tuple[str, ...]:
        """Every path once, in a fixed order."""
        views = product(self.columns, self.units)
        return tuple(dict.fromkeys(path for matching, unit in views for path in self.paths(matching, unit)))


def plan_audit(challenge: Challenge, rules: RankingRules) -> _AuditPlan:
    """Choose the variations: the lists of [audit], or defaults for the challenge.

    Raises ChallengeBroken for a list that contradicts the challenge, and for more than ``TABLES_UP_TO`` tables.
    """
    notes: list[str] = []
    columns, all_rules = _plan_matching(challenge, rules, notes)
    units = _plan_units(challenge, rules)
    runs = _plan_runs(challenge, all_rules, notes)
    if (tables := len(runs) * len(columns) * len(units)) > TABLES_UP_TO:
        got = f"{tables:,} tables of scores, from {len(runs):,} runs of each team"
        fix = "List fewer values: a list with only the value of the challenge varies nothing."
        raise contradictory("audit", got, f"at most {TABLES_UP_TO:,}", fix)
    return _AuditPlan(challenge, rules, runs, columns, units, tuple(notes))


def contradictory(key: str, got: str, expected: str, fix: str = "") -> ChallengeBroken:
    return ChallengeBroken(
        fault("contradictory-rules", f"{CHALLENGE_FILE}: {key}", got=got, expected=expected, fix=fix)
    )


def _own_first(own: Choice, others: Sequence[Choice]) -> tuple[Choice, ...]:
    return tuple(dict.fromkeys((own, *others)))


def _plan_matching(
    challenge: Challenge, rules: RankingRules, notes: list[str]
) -> tuple[dict[Matching, tuple[str, ...]], tuple[AnyMatchingRule, ...]]:
    """List the columns under each matching rule and threshold, and all rules that the runs need, the rules of the
    challenge first.
    """
    own, extra = challenge.matching.rules, challenge.audit.matching
    names = [rule.name for rule in (*own, *extra)]
    if len(set(names)) < len(names):
        expected = "a different name for each rule, and none of the names under [matching]"
        raise contradictory("audit.matching", "two rules with the same name", expected)
    if extra and not own:
        expected = "no matching, since numbers cannot be paired"
        raise contradictory("audit.matching", "given although nuclei are only counted", expected)
    paths = rules.paths
    columns: dict[Matching, tuple[str, ...]] = {}
    added = [*extra]
    for rule in (*own, *extra):
        moved = [path if rule is own[0] else _moved_path(challenge, path, rule) for path in paths]
        if None in moved:
            notes.append(f"The matching rule {rule.name} is not varied: some columns have no value under it.")
            continue
        columns[rule.name, AS_WRITTEN] = tuple(filter(None, moved))
        for threshold in _other_thresholds(rule, challenge.audit.thresholds):
            name = next(name for n in range(len(names) + 1) if (name := f"audit_{n}") not in names)
            names.append(name)
            added.append(rule.model_copy(update={"name": name, "threshold": threshold}))
            under = (_moved_path(challenge, path, added[-1]) for path in paths)
            columns[rule.name, f"{threshold:g}"] = tuple(filter(None, under))
    if set(columns.values()) == {paths} and columns:
        notes.append("Matching rules are not varied: no ranked score depends on the first rule.")
    if len(set(columns.values())) < 2:
        return {(challenge.matching.passes[0][0], AS_WRITTEN): paths}, own
    return columns, (*own, *added)


def _other_thresholds(rule: AnyMatchingRule, wanted: Sequence[float] | None) -> list[float]:
    """List other IoU thresholds for a rule, by default 0.1 less and 0.1 more; none for a rule without a threshold."""
    if not isinstance(rule, IouRule | ConfidenceFirst) or rule.threshold is None:
        return []
    own, least = rule.threshold, 1e-9 if wanted is None or isinstance(rule, ConfidenceFirst) else 0
    tried = wanted if wanted is not None else (round(own - 0.1, 6), round(own + 0.1, 6))
    return [threshold for threshold in dict.fromkeys(tried) if threshold != own and least <= threshold < 1]


def _moved_path(challenge: Challenge, path: str, rule: AnyMatchingRule) -> str | None:
    """Find the path of a column under another matching rule than the first; None if there is no such number.

    Paths that do not depend on the matching rule, or that name a rule, stay unchanged.
    """
    if path.startswith("alternatives."):
        return path
    metrics = metrics_of(challenge.metric_choice(), class_aware=rule.class_aware, primary=False)
    moved = {".".join(metric.path): metric for metric in metrics}.get(path.rpartition(".")[0])
    if moved is None:
        return path
    return None if moved.evaluate is class_aware_matching else f"alternatives.{rule.name}.{path}"


def _plan_units(challenge: Challenge, rules: RankingRules) -> tuple[str, ...]:
    """List the aggregations to put at the end of paths. Aggregations with the same numbers for all teams are listed
    once.
    """
    written = {column.path.rpartition(".")[2] for column in rules.columns}
    own = next(iter(written)) if len(written) == 1 else AS_WRITTEN
    if challenge.audit.units is not None:
        return _own_first(own, [name for name, unit in UNIT_OF_MEAN.items() if unit in challenge.audit.units])
    groups = len({case.group for case in challenge.cases})
    number_of_units = {"group_mean": groups, "pooled": 1, "case_mean": len(challenge.cases)}
    same = {name for name, number in number_of_units.items() if number == groups}
    shown = own if own in same else "group_mean"
    return _own_first(own, [name for name in AGGREGATIONS if name not in same or name == shown])


def _plan_runs(challenge: Challenge, rules: Sequence[AnyMatchingRule], notes: list[str]) -> tuple[Run, ...]:
    """List the runs. Combinations of rules that contradict each other are omitted, and a note reports it."""
    reference, audit = challenge.reference, challenge.audit
    areas = reference.overlap is not None and not (reference.dense and "{class}" not in reference.files)
    overlaps = tried("overlap", reference.overlap, audit.overlap, ("keep", "last") if areas else ())
    ignored = ("clip", "drop_centroid") if reference.ignore.classes else ()
    policies = tried("ignore", reference.ignore.policy, audit.ignore, ignored)
    borders = tried("border", getattr(challenge.submission, "border", None), audit.border, BORDERS)
    runs: list[Run] = []
    for overlap, policy, border in product(overlaps, policies, borders):
        fraction = reference.ignore.fraction if policy == reference.ignore.policy else audit.fraction
        ignore = {"policy": policy, "fraction": fraction if policy in WITH_FRACTION else None}
        drawn = {**dict(reference), "overlap": overlap, "ignore": {**dict(reference.ignore), **ignore}}
        document = {**dict(challenge), "reference": drawn, "confidence": None}
        if border is not None:
            document["submission"] = {**dict(challenge.submission), "border": border}
        if rules:
            document["matching"] = challenge.matching.model_copy(update={"rules": tuple(rules)})
        try:
            runs.append(Run(overlap or "none", policy or "none", border or "", Challenge.build(document)))
        except ChallengeBroken as error:
            if not runs:
                raise
            notes.append(f"Overlap {overlap} with ignore policy {policy} is not varied: {error.findings[0].got}.")
    return tuple(runs)


def tried(key: str, own: str | None, wanted: Sequence[str] | None, suggested: Sequence[str]) -> tuple[str | None, ...]:
    """List the value of the challenge, then the values of [audit], or default values without a list."""
    if own is None and wanted:
        side = "submission" if key == "border" else "reference"
        raise contradictory(f"audit.{key}", f"a list of {key}", f"no such key, since the {side} has no {key} rule")
    return _own_first(own, () if own is None and key == "border" else suggested if wanted is None else wanted)


# --- scores of a challenge --------------------------------------------------------------------------------------------


def audit_challenge(
    challenge_folder: Path,
    submissions: Path,
    output: Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    note: Note | None = None,
    executor: Executor | None = None,
) -> Audit:
    """Score all teams of a folder under all rules that are varied, and audit their ranking.

    Scores are cached in the output, as for a leaderboard. A second audit reuses them and resumes an interrupted audit.

    workers   processes, or tasks that ``executor`` works on at once
    progress  is called with the number of submissions that are scored, each in every run, and of all
    note      is called with the name of each team, its outcome, and the traceback of a fault of the program, or ""

    Raises WrongUsage, ChallengeBroken and WorkersLost.
    """
    challenge, rules = load_ranked(challenge_folder)
    plan = plan_audit(challenge, rules)
    outcomes: dict[str, set[TeamOutcome]] = {}
    traces: dict[str, str] = {}

    def note_run(name: str, outcome: TeamOutcome, trace: str) -> None:
        outcomes.setdefault(name, set()).add(outcome)
        traces[name] = trace or traces.get(name, "")

    runs = [
        score_teams(
            challenge_folder,
            run.challenge,
            submissions,
            output,
            workers=workers,
            progress=progress_of_round(progress, before, len(plan.runs)),
            note=note_run,
            executor=executor,
            kept=kept_of(run, plan.all_paths),
        )
        for before, run in enumerate(plan.runs)
    ]
    for name, reached in sorted(outcomes.items()):
        if note:
            note(name, next(kind for kind in TEAM_OUTCOMES if kind in reached), traces[name])
    unranked = {row.name: row for scored in runs for row in scored.unranked}
    left_out, views = {*unranked, *rules.unranked}, []
    for run, scored in zip(plan.runs, runs, strict=True):
        teams = [team for team in scored.scores if team.name not in left_out]
        views += [view_of(plan, run, teams, matching, unit) for matching, unit in product(plan.columns, plan.units)]
    audit = audit_views(views, challenge.audit)
    if plan.runs[0].border:
        teams_of_runs = [[team for team in scored.scores if team.name not in unranked] for scored in runs]
        coded = _coded_references(challenge_folder, plan, workers)
        audit = replace(audit, borders=_scores_by_border(plan, teams_of_runs, coded))
    findings = [*runs[0].findings, *gameable_ranking(challenge)]
    return replace(
        audit,
        identity=board.identity_of(challenge, rules),
        unranked=tuple(sorted([*audit.unranked, *unranked.values()], key=lambda row: row.name)),
        notes=(*audit.notes, *plan.notes, *(f"{finding.where}: {finding.got}." for finding in findings)),
    )


def _coded_references(folder: Path, plan: _AuditPlan, workers: int | None) -> list[team_scores.TeamScores]:
    """Score the reference itself, drawn as colour maps of a submission, in each run: the limit of the format.

    Table 1 of "lessons from MoNuSAC 2020" has it as "ground truth".
    """
    with tempfile.TemporaryDirectory(prefix="evaluation-audit-") as scratch:
        target = Path(scratch)
        of_every_case(partial(_draw_coded, target), plan.challenge, folder, run=partial(run_work, workers=workers))
        results = [score_submission(folder, target, challenge=run.challenge, workers=workers) for run in plan.runs]
    return [_scores_at(CODED, result, plan.all_paths) for result in results]


def _draw_coded(
    target: Path, challenge: Challenge, folder: Path, case: Case, content: Annotations | None
) -> Path | tuple[Finding, ...]:
    """Write the reference of a case as a colour map: nuclei in the colours of their classes, boundaries as borders."""
    rules = challenge.submission
    assert isinstance(rules, ColourMapRules)
    try:
        instances = read_reference(challenge, folder, case, content).instances
    except InputFault as error:
        return error.findings
    picture = np.zeros((*case.shape_yx, 3), np.uint8).reshape(-1, 3)
    colours = np.array([list(bytes.fromhex(rules.colours[name][1:])) for name in challenge.class_names], np.uint8)
    for nuclei, colour in ((instances, None), (erode_instances(instances, border="open"), colours)):
        lengths = nuclei.run_stop - nuclei.run_start
        pixels = np.arange(lengths.sum()) + np.repeat(nuclei.run_start - (lengths.cumsum() - lengths), lengths)
        border = np.array(list(bytes.fromhex(rules.border_colour[1:])), np.uint8)
        of_run = None if colour is None else colour[nuclei.class_id[nuclei.run_instance] - 1]
        picture[pixels] = border if of_run is None else np.repeat(of_run, lengths, axis=0)
    path = target / rules.files.format(case=case.name, group=case.group)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image_bytes(picture.reshape(*case.shape_yx, 3), ".png"))
    return path


def _scores_by_border(
    plan: _AuditPlan, teams_of_runs: Sequence[Sequence[team_scores.TeamScores]], coded: Sequence[team_scores.TeamScores]
) -> tuple[BorderScores, ...]:
    """List the scores of teams and of the coded reference by border and matching rule; other rules stay as written."""
    own, every = plan.runs[0], {path: index for index, path in enumerate(plan.all_paths)}
    rules = [matching for matching in plan.columns if matching[1] == AS_WRITTEN]
    scores = []
    for run, teams, reference in zip(plan.runs, teams_of_runs, coded, strict=True):
        if (run.overlap, run.ignore) == (own.overlap, own.ignore):
            for matching in rules:
                chosen = [every[path] for path in plan.paths(matching, plan.units[0])]
                entries = tuple(EntryScores(team.name, team.overall[chosen]) for team in (*teams, reference))
                scores.append(BorderScores(run.border, matching[0], tuple(plan.columns[rules[0]]), entries))
    return tuple(scores)


def kept_of(run: Run, paths: Sequence[str]) -> Kept:
    """Return how the numbers of a team at these paths are cached in a small file."""
    return Kept(
        folder=f"{KEPT}/{'-'.join(filter(None, (run.overlap, run.ignore, run.border)))}",
        key=hashlib.sha256(repr(paths).encode()).hexdigest(),
        files=(SCORES,),
        finish=partial(_scores_file, paths=paths),
        read=lambda folder, name: team_scores.scores_from_entry(name, orjson.loads((folder / SCORES).read_bytes())),
    )


def _scores_file(result: Result, *, paths: Sequence[str]) -> dict[str, str]:
    """Write the numbers at some paths of a result into the text of a file."""
    return {SCORES: as_json(team_scores.scores_entry(_scores_at("", result, paths)))}


def _scores_at(name: str, result: Result, paths: Sequence[str]) -> team_scores.TeamScores:
    columns = team_scores.plan_columns(result.challenge, paths)
    return team_scores.team_of_documents(name, result.challenge, columns, result.metrics, result.details)


def view_of(
    plan: _AuditPlan, run: Run, teams: Sequence[team_scores.TeamScores], matching: Matching, unit: str
) -> AuditView:
    """Create the view of the teams of a run under a matching rule and a unit of averages."""
    every = {path: index for index, path in enumerate(plan.all_paths)}
    chosen = [every[path] for path in plan.paths(matching, unit)]
    scores = [
        replace(team, overall=team.overall[chosen], by_unit=None if team.by_unit is None else team.by_unit[chosen])
        for team in teams
    ]
    table = team_scores.score_table(scores, plan.rules, team_scores.groups_of(plan.challenge))
    rule, threshold = matching
    values = {"matching": rule, "threshold": threshold, "unit": unit, "overlap": run.overlap, "ignore": run.ignore}
    values |= {"border": run.border} if run.border else {}
    return AuditView(table, plan.rules, values)
