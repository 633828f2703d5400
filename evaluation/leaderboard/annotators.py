"""Several annotators: how well they agree, and where teams stand beside them.

A challenge may have a folder ``annotators/`` beside ``reference/``, with a folder for each annotator that holds what
``reference/`` holds, for all cases or some. Each annotator is scored as if it were a submission against each other
one, by the rules of the challenge; so is each team against each annotator. ``reference/`` stays what is ranked by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from evaluation.challenge import Challenge, is_safe_name
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.execution.storage import fetched
from evaluation.findings import Finding, quote
from evaluation.findings.challenge import FewAnnotators
from evaluation.findings.errors import ChallengeBroken, InputFault, SubmissionRejected, faults_as
from evaluation.instances.prepare import PreparedReference
from evaluation.instances.runs import select_instances
from evaluation.leaderboard.document import Board, number
from evaluation.leaderboard.team_scores import (
    PlannedColumn,
    groups_of,
    number_at,
    plan_columns,
    ranking_of,
    value_at,
    values_of_groups,
)
from evaluation.model import BorderRule, Case, Float64, Instances, Int64, Matches
from evaluation.ranking.differences import BETTER, WORSE, half_width, paired_differences
from evaluation.results.metrics_json import identity, software
from evaluation.scoring.columns import check_columns
from evaluation.scoring.from_files import read_submission
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases, measure_outlines, outlined_image
from evaluation.scoring.rasterise import with_sizes
from evaluation.scoring.read import read_reference, read_shared_reference, reference_files
from evaluation.scoring.score import summarise

FOLDER, REFERENCE = "annotators", "reference/"
MOST = 100  # annotators: of K there are K (K - 1) comparisons
DISTANCE_SHARE = 0.95  # of the nuclei that two annotators both marked lie within the proposed radius

Marks = tuple[Instances | None, Int64 | None]  # as a prediction; numbers of nuclei of each class if those are all


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """A prediction scored against an annotator, in the columns of the ranking.

    overall  float64 (K,), as in metrics.json, of the cases that the annotator marked; NaN: undefined
    by_unit  float64 (K, G), of each group of the challenge; NaN where it is undefined or not marked
    by_case  float64 (K, cases of the challenge)
    """

    overall: Float64
    by_unit: Float64
    by_case: Float64


def annotator_names(folder: Path) -> tuple[str, ...]:
    """The annotators of a challenge, in ascending order; empty if there is no folder. Raises ChallengeBroken."""
    if not (folder / FOLDER).is_dir():
        return ()
    names = sorted(path.name for path in (folder / FOLDER).iterdir() if path.is_dir() and path.name[0] != ".")
    names = [name for name in names if is_safe_name(name)]
    if not 2 <= len(names) <= MOST:
        raise ChallengeBroken(FewAnnotators(len(names), MOST).at(quote(f"{FOLDER}/")))
    return tuple(names)


def reference_of(challenge: Challenge, name: str) -> Challenge:
    """The same challenge with an annotator in the place of its reference.

    >>> from evaluation.model import Case
    >>> challenge = Challenge.from_preset("monusac2020", name="example", cases=[Case("a", "P1", 9, 9)])
    >>> challenge.reference.files, reference_of(challenge, "reader_1").reference.files
    ('reference/{group}/{case}.xml', 'annotators/reader_1/{group}/{case}.xml')
    """
    rules = challenge.reference
    patterns = {key: rules.value(key) for key in ("files", *rules.companions)}
    moved = {
        key: f"{FOLDER}/{name}/{pattern.removeprefix(REFERENCE)}"
        for key, pattern in patterns.items()
        if isinstance(pattern, str)
    }
    return challenge.model_copy(update={"reference": rules.model_copy(update=moved)})


def read_annotator(challenge: Challenge, folder: Path, name: str) -> dict[str, PreparedReference]:
    """What an annotator marked, a prepared reference by the name of each case that has a file.

    One file of all cases must have them all. Raises ChallengeBroken.
    """
    own = reference_of(challenge, name)
    found: dict[str, PreparedReference] = {}
    faults: list[Finding] = []
    with faults_as(ChallengeBroken):
        shared = read_shared_reference(own, folder)
    for case in challenge.cases:
        if shared is None:
            try:
                reference_files(own, folder, case)
            except InputFault as fault:
                if all(finding.code == "missing-file" for finding in fault.findings):
                    continue
                raise ChallengeBroken(*fault.findings) from fault
        try:
            found[case.name] = read_reference(own, folder, case, None if shared is None else shared.cases[case.name])
        except InputFault as fault:
            faults += fault.findings
    if faults:
        raise ChallengeBroken(*faults)
    return found


def score_pair(
    challenge: Challenge,
    columns: Sequence[PlannedColumn],
    references: Mapping[str, PreparedReference],
    predictions: Mapping[str, Marks],
) -> PairScores:
    """Score predictions against an annotator, in the cases that both have; nothing is defined if there are none."""
    groups = groups_of(challenge)
    cases = tuple(case for case in challenge.cases if case.name in references and case.name in predictions)
    overall = np.full(len(columns), np.nan)
    by_unit, by_case = (np.full((len(columns), size), np.nan) for size in (len(groups), len(challenge.cases)))
    if cases:
        part = challenge.model_copy(update={"cases": cases, "confidence": None})
        matched = [match_case(part, case, references[case.name], *predictions[case.name]) for case in cases]
        result = summarise(part, measure_cases(part, matched))
        metrics, details = result.metrics, result.details
        here = [groups.index(group) for group in groups_of(part)]
        rows = [number for number, case in enumerate(challenge.cases) if case.name in references.keys() & predictions]
        for index, column in enumerate(columns):
            overall[index] = number_at(metrics, column.path)
            by_unit[index, here] = values_of_groups(part, details, column)
            of_cases = [details["cases"][case.name]["rules"][column.rule]["scores"] for case in cases]
            values = [value_at(scores, column.metric.path) for scores in of_cases]
            by_case[index, rows] = [math.nan if value is None else value for value in values]
    return PairScores(overall, by_unit, by_case)


def read_predictions(challenge: Challenge, folder: Path, path: Path) -> dict[str, Marks]:
    """The predictions of a submission by the names of cases. Raises SubmissionRejected, ChallengeBroken."""
    read = [(of.matched, of.prediction) for of in read_submission(folder, challenge, path)]
    return {
        of.case.name: (prediction, of.prediction_counts if challenge.are_counts else None) for of, prediction in read
    }


# --- agreement --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Annotators against each other, and teams against annotators.

    cases   how many each annotator marked
    pairs   by (scored, reference), both annotators
    teams   by (team, reference)
    """

    challenge: Challenge
    rules: RankingRules
    cases: Mapping[str, int]
    pairs: Mapping[tuple[str, str], PairScores]
    teams: Mapping[tuple[str, str], PairScores]


Marked = Mapping[str, Mapping[str, PreparedReference]]  # by the names of annotators and of cases


def read_annotators(folder: Path, challenge: Challenge) -> Marked:
    """What all annotators marked; empty if the challenge has none. Raises ChallengeBroken."""
    return {name: read_annotator(challenge, folder, name) for name in annotator_names(folder)}


def compare_annotators(
    challenge: Challenge, rules: RankingRules, marked: Marked, teams: Iterable[tuple[str, Mapping[str, Marks]]]
) -> Agreement:
    """Score all annotators and teams against all annotators.

    teams  their names and predictions (``predictions_of``). Raises ChallengeBroken.
    """
    score = partial(score_pair, challenge, plan_columns(challenge, rules.columns))
    drawn = {
        name: {case: (of.instances, of.class_counts) for case, of in of_name.items()}
        for name, of_name in marked.items()
    }
    pairs = {(one, other): score(marked[other], drawn[one]) for one, other in permutations(marked, 2)}
    scored = {(team, name): score(marked[name], predictions) for team, predictions in teams for name in marked}
    cases = {name: len(of_name) for name, of_name in marked.items()}
    return Agreement(challenge, rules, cases, pairs, scored)


def predictions_of(
    teams: Mapping[str, Path | str], challenge: Challenge, folder: Path
) -> Iterator[tuple[str, dict[str, Marks]]]:
    """The predictions of each team by the names of cases, one team at a time; none of a submission that is rejected."""
    for team, path in sorted(teams.items()):
        try:
            with fetched(path, challenge.limits) as here:
                predictions = read_predictions(challenge, folder, here)
        except SubmissionRejected:
            continue
        yield team, predictions


def annotator_distances(challenge: Challenge, marked: Marked) -> dict[str, Any]:
    """``distances_between`` of each pair of annotators in the cases that both marked."""
    sides = [(case, marked[one][case.name].instances, marked[other][case.name].instances)
             for one, other in combinations(marked, 2) for case in challenge.cases
             if case.name in marked[one].keys() & marked[other].keys()]  # fmt: skip
    return distances_between(sides, challenge.metrics.boundary)


def distances_between(sides: Iterable[tuple[Case, Instances, Instances]], border: BorderRule) -> dict[str, Any]:
    """How far apart two annotators place and outline a nucleus, and what follows for the rules.

    Pairs are nuclei of which each is nearest to the other by its centroid, whatever the classes. ``radius_px`` is the
    95th percentile of their distances, but not above half the median distance of a nucleus to the next one of the same
    annotator, beyond which neighbours are confused. ``radius_um`` if all cases have a spacing. ``contour_px`` is the
    median over pairs of the 95th percentile of the distances of their contours (``hausdorff95_px``), from which a
    tolerance follows (Nikolov et al., Journal of Medical Internet Research 23(7), 2021). All None without pairs.
    """
    pairs, next_px, spacings, contours = [], [], [], []
    for case, *both in sides:
        one, other = (select_instances(of, np.asarray(~np.isnan(of.centroids_yx()).any(axis=1))) for of in both)
        left, right = one.centroids_yx(), other.centroids_yx()
        for points in (left, right):
            if len(points) > 1:
                next_px.append(scipy.spatial.cKDTree(points).query(points, k=2)[0][:, 1])
        if len(left) and len(right):
            to_right, of_left = scipy.spatial.cKDTree(right).query(left)
            of_right = scipy.spatial.cKDTree(left).query(right)[1]
            chosen = np.flatnonzero(of_right[of_left] == np.arange(len(left)))
            pairs.append(to_right[chosen])
            spacings.append(case.spacing_um)
            if one.point_yx is None and other.point_yx is None:
                contours.append(contour_distances(one, other, chosen, of_left[chosen], border))
    if not pairs:
        return dict.fromkeys(("pairs", "median_px", "share_px", "next_px", "radius_px", "radius_um", "contour_px"))
    distance = np.concatenate(pairs)
    share_px = float(np.quantile(distance, DISTANCE_SHARE))
    apart = float(np.median(np.concatenate(next_px))) if next_px else math.inf
    radius = min(share_px, apart / 2)
    known = [spacing for spacing in spacings if spacing is not None]
    same = len(set(known)) == 1 and len(known) == len(spacings)
    return {
        "pairs": len(distance),
        "median_px": number(float(np.median(distance))),
        "share_px": number(share_px),
        "next_px": number(apart) if math.isfinite(apart) else None,
        "radius_px": number(radius),
        "radius_um": number(radius * known[0]) if same else None,
        "contour_px": number(float(np.median(np.concatenate(contours)))) if contours else None,
    }


def contour_distances(one: Instances, other: Instances, left: Int64, right: Int64, border: BorderRule) -> Float64:
    """``hausdorff95_px`` of pairs of nuclei of two images."""
    nothing = np.zeros(len(left), np.int64)
    pairs = Matches(left.astype(np.int32), right.astype(np.int32), nothing, nothing)
    image = outlined_image(one, other, [pairs])
    return measure_outlines([image], {"hausdorff95_px"}, border=border, tolerances_px=[None])[0][0]["hausdorff95_px"]


def place_of(team: str, found: Agreement, index: int) -> str | None:
    """Where a team stands in a column beside the annotators: above, within, below; None: too few groups to tell.

    The team is compared with every annotator, both scored against every other annotator, group by group
    (``paired_differences``). It is *above* human agreement if it is better in every one of these comparisons, *below*
    if it is worse in every one, else *within*. Each is tested at the level of the ranking: all of them have to agree
    (intersection-union test; Berger, Technometrics 24, 1982), so their number needs no correction. A team that
    submits what one annotator drew is within.
    """
    column = found.rules.columns[index]
    return place_beside(
        [
            np.stack([found.teams[team, reference].by_unit[index], of.by_unit[index]])
            for (_, reference), of in found.pairs.items()
        ],
        higher_is_better=column.direction == "descending",
        level=found.rules.significance_level,
        margin=found.rules.margin_of(column),
    )


def place_beside(
    comparisons: Iterable[Float64], *, higher_is_better: bool, level: float, margin: float = 0.0
) -> str | None:
    """``place_of`` from the values of the team and of an annotator against another one, (2, G) for each comparison.

    A team that is as good as any annotator is above in at most half the level, and below in at most half
    (``benchmarks.claims annotators``).
    """
    found = [
        paired_differences(values, higher_is_better=higher_is_better, level=level, margin=margin)
        for values in comparisons
    ]
    if any(np.isnan(of.low[0, 1]) for of in found):
        return None
    verdicts = {int(of.verdict[0, 1]) for of in found}
    return "above" if verdicts == {BETTER} else "below" if verdicts == {WORSE} else "within"


def mean_with_interval(values: Sequence[Float64], level: float) -> dict[str, Any]:
    """The mean over groups of the means over comparisons (P, G), with Student's t interval over groups."""
    stacked = np.stack(values)
    known = (~np.isnan(stacked)).sum(axis=0)
    of_group = (np.nansum(stacked, axis=0) / np.maximum(known, 1))[known > 0]
    if not len(of_group):
        return {"mean": None, "low": None, "high": None, "units": 0}
    mean = math.fsum(of_group.tolist()) / len(of_group)
    spread = of_group.std(ddof=1) if len(of_group) > 1 else math.nan
    half = float(half_width(np.array([float(len(of_group))]), np.array([spread]), level)[0])
    return {"mean": number(mean), "low": number(mean - half), "high": number(mean + half), "units": len(of_group)}


def proposed_margin(found: Agreement, index: int) -> float | None:
    """By how much a score changes if another annotator is the reference: the mean of the absolute changes.

    Over everybody who was scored (annotators and teams) and all pairs of annotators, of the mean over the groups in
    which both are defined. Differences between teams that are smaller might be others with another annotator
    (Maier-Hein et al., Nature Communications 9, 2018: rankings depend on who annotated). None if none was scored
    against two annotators: two annotators without a team.
    """
    scores = {**found.pairs, **found.teams}
    changes = []
    for scored in dict.fromkeys(scored for scored, _ in scores):
        against = [of.by_unit[index] for (name, _), of in scores.items() if name == scored]
        for one, other in combinations(against, 2):
            apart = (one - other)[~np.isnan(one - other)]
            if len(apart):
                changes.append(abs(math.fsum(apart.tolist()) / len(apart)))
    return math.fsum(changes) / len(changes) if changes else None


# --- as a document ----------------------------------------------------------------------------------------------------


def annotator_entry(found: Agreement, marked: Marked, *, with_units: bool) -> dict[str, Any]:
    """The content of annotators.json, and without groups and cases the table of that name of leaderboard.json."""
    return {
        "names": list(found.cases),
        "cases": [{"annotator": name, "cases": cases} for name, cases in found.cases.items()],
        "columns": [
            column_entry(found, index, column, with_units=with_units)
            for index, column in enumerate(found.rules.columns)
        ],
        "distances": annotator_distances(found.challenge, marked),
    }


def column_entry(found: Agreement, index: int, column: RankingColumn, *, with_units: bool) -> dict[str, Any]:
    level, names = found.rules.significance_level, list(found.cases)

    def cell(key: tuple[str, str], of: PairScores) -> dict[str, Any]:
        entry: dict[str, Any] = {"scored": key[0], "reference": key[1], "value": defined(of.overall[index])}
        if with_units:
            groups, cases = groups_of(found.challenge), [case.name for case in found.challenge.cases]
            for kind, units, values in (("groups", groups, of.by_unit), ("cases", cases, of.by_case)):
                cells = zip(units, values[index], strict=True)
                entry[kind] = [{"name": name, "value": defined(value)} for name, value in cells]
        return entry

    teams = []
    for team in dict.fromkeys(team for team, _ in found.teams):
        of_team = [found.teams[team, name] for name in names]
        teams.append(
            {
                "name": team,
                "against": [cell((team, name), of) for name, of in zip(names, of_team, strict=True)],
                "all": mean_with_interval([of.by_unit[index] for of in of_team], level),
                "place": place_of(team, found, index),
            }
        )
    margin = proposed_margin(found, index)
    return {
        "path": column.path,
        "direction": column.direction,
        "agreement": mean_with_interval([of.by_unit[index] for of in found.pairs.values()], level),
        "pairs": [cell(key, of) for key, of in found.pairs.items()],
        "teams": teams,
        "proposed_margin": None if margin is None else number(margin),
    }


def defined(value: float) -> float | None:
    return None if math.isnan(value) else number(value)


def annotators_document(folder: Path, teams: Mapping[str, Path | str]) -> dict[str, Any]:
    """The content of annotators.json. Raises ChallengeBroken, also for a challenge without annotators."""
    challenge = Challenge.load(folder)
    check_columns(challenge)
    challenge = with_sizes(challenge, folder)
    marked = read_annotators(folder, challenge)
    if not marked:
        raise ChallengeBroken(FewAnnotators(0, MOST).at(quote(f"{FOLDER}/")))
    found = compare_annotators(challenge, ranking_of(challenge), marked, predictions_of(teams, challenge, folder))
    head = {"challenge": identity(challenge), "software": software()}
    return {**head, **annotator_entry(found, marked, with_units=True)}


def with_annotators(
    board: Board, challenge: Challenge, rules: RankingRules, folder: Path, teams: Mapping[str, Path | str]
) -> Board:
    """The board with the table ``annotators``, of ranked teams; unchanged if the challenge has no annotators."""
    if not annotator_names(folder):
        return board
    challenge = with_sizes(challenge, folder)
    marked = read_annotators(folder, challenge)
    ranked = {row.name for row in board.teams}
    predictions = predictions_of({name: path for name, path in teams.items() if name in ranked}, challenge, folder)
    found = compare_annotators(challenge, rules, marked, predictions)
    return replace(board, annotators=annotator_entry(found, marked, with_units=False))


def annotator_lines(document: Mapping[str, Any]) -> list[str]:
    """What is found, in lines, and the lines of challenge.toml that follow from it."""
    cases = (f"{of['annotator']} ({of['cases']:,} cases)" for of in document["cases"])
    lines, margins = [f"Annotators: {', '.join(cases)}."], []
    for of in document["columns"]:
        lines.append(f"{of['path']}: annotators agree {in_words(of['agreement'])}")
        for team in of["teams"]:
            place = f"{team['place']} human agreement" if team["place"] else "too few groups to compare"
            lines.append(f"  {team['name']} {in_words(team['all'])}: {place}")
        if of["proposed_margin"]:  # 0: they agree everywhere
            margins.append(
                f'  {{ path = "{of["path"]}", direction = "{of["direction"]}", margin = {of["proposed_margin"]:g} }},'
            )
    distances = document["distances"]
    proposals = ["[ranking]", "columns = [", *margins, "]"] if margins else []
    if distances["radius_px"] is not None:
        lines.append(
            f"Of {distances['pairs']:,} nuclei that two annotators marked, half lie within "
            f"{distances['median_px']:g} px and 95 % within {distances['share_px']:g} px of each other."
        )
        if distances["radius_px"]:
            proposals += ["[[matching.rules]]", f"radius_px = {distances['radius_px']:g}"]
        if distances["radius_um"]:
            proposals.append(f"# or radius_um = {distances['radius_um']:g}")
    if distances["contour_px"]:
        lines.append(f"Half of them have 95 % of their contours within {distances['contour_px']:g} px of each other.")
        proposals += ["[metrics]", f"tolerance_px = {distances['contour_px']:g}"]
    return [*lines, "Proposed for challenge.toml:", *proposals] if proposals else lines


def in_words(of: Mapping[str, Any]) -> str:
    if of["mean"] is None:
        return "undefined"
    ends = "" if of["low"] is None else f" ({of['low']:.4f} to {of['high']:.4f})"
    return f"{of['mean']:.4f}{ends}"
