"""Tricks: what a participant could do to the nuclei of a submission to stand higher without being better.

Every trick is played on every team, one team at a time; what comes of it is scored and ranked as any submission is.
A trick *pays*, or works, if the team ranks higher although its pooled detection F1, or its pooled class score (mean
over classes of the F1 of detection with the right class), has fallen by more than 0.005.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from evaluation.board import ranked_table, team_scores
from evaluation.board.matched_nuclei import Alike, MatchedOutlines, compare_outlines
from evaluation.board.rules import against_tricks, gameable_ranking, load_ranked, ranking_of
from evaluation.board.sensitivity import neighbour_distances
from evaluation.board.teams import find_teams
from evaluation.board.verdict import names_of
from evaluation.challenge import Challenge
from evaluation.files.results import __version__
from evaluation.files.results.documents import encoded, identity
from evaluation.findings import fault, render_findings
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.scoring.match import MatchedCase, match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.rasterise import with_sizes_of
from evaluation.scoring.score import summarise
from evaluation.scoring.street import read_submission
from nuclei_metrics.instances import runs
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import overlap_table
from nuclei_metrics.model import Bool, Case, CaseResult, Float64, Instances, Int64
from nuclei_metrics.model.arrays import merge_runs
from nuclei_metrics.model.instances import join_instances
from nuclei_metrics.ranking.methods import needs_units

LOSS = 0.005  # of pooled F1, or of the pooled class score: a submission that lost more is worse
JUDGED = ("detection.f1.pooled", "detection.macro_f1.pooled")


@dataclass(frozen=True, slots=True, eq=False)
class TrickCase:
    """One case of a submission as a trick sees it.

    prediction    None: the case was not submitted
    classes       how many the challenge has
    common, rare  the commonest and the rarest of the classes that the whole submission predicts
    """

    reference: Instances
    prediction: Instances | None
    classes: int
    common: int = 1
    rare: int = 1


Predictions = Sequence[Instances | None]  # of each case; None: not submitted
Apply = Callable[[Sequence[TrickCase]], Predictions]
ChangeOfNuclei = Callable[[Instances, TrickCase], Instances]
ValueOfNuclei = Callable[[Instances, TrickCase], Float64]


@dataclass(frozen=True, slots=True)
class Trick:
    """What is done, in words, and the function that does it.

    by_reference  it chooses by the reference, which no participant has: what a very good guess would gain
    points        it can be done to nuclei that are points, too
    """

    name: str
    words: str
    apply: Apply
    by_reference: bool = False
    points: bool = False


def trick_cases(references: Sequence[Instances], predictions: Predictions, classes: int) -> list[TrickCase]:
    """Make the cases of one submission as tricks see them. Without nuclei both classes are the first."""
    predicted = [nuclei.class_id for nuclei in predictions if nuclei is not None]
    class_ids, often = np.unique(np.concatenate([np.empty(0, np.int16), *predicted]), return_counts=True)
    common, rare = (int(class_ids[often.argmax()]), int(class_ids[often.argmin()])) if len(often) else (1, 1)
    sides = zip(references, predictions, strict=True)
    return [TrickCase(reference, prediction, classes, common, rare) for reference, prediction in sides]


# --- what tricks are made of ------------------------------------------------------------------------------------------


def each(change: ChangeOfNuclei) -> Apply:
    """Make a trick of a change of the nuclei of one case. What was not submitted is not changed."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        return [None if case.prediction is None else change(case.prediction, case) for case in cases]

    return apply


def _only_if(test: Callable[[Instances, TrickCase], Bool]) -> Apply:
    return each(lambda nuclei, case: runs.select_instances(nuclei, test(nuclei, case)))


def keep(value: ValueOfNuclei, share: float) -> Apply:
    """Keep the share of the nuclei of each case that have the highest value, rounded up."""
    return _only_if(lambda nuclei, case: _highest_share(value(nuclei, case), share))


def _highest_share(value: Float64, share: float) -> Bool:
    return _among_highest(value, math.ceil(share * len(value)))


def _among_highest(value: Float64, number: int) -> Bool:
    """Mark the ``number`` highest values, bool (N,); of equal ones the first."""
    chosen = np.zeros(len(value), np.bool_)
    chosen[np.argsort(-value, kind="stable")[:number]] = True
    return chosen


def area(nuclei: Instances, case: TrickCase) -> Float64:
    return nuclei.areas_px().astype(np.float64)


def confidence(nuclei: Instances, case: TrickCase) -> Float64:
    return area(nuclei, case) if nuclei.probability is None else nuclei.probability.astype(np.float64)


def best_iou(nuclei: Instances, case: TrickCase) -> Float64:
    """Measure the highest IoU of each prediction with a reference nucleus, float64 (N,)."""
    highest = np.zeros(len(nuclei))
    table = overlap_table(case.reference, nuclei)
    np.maximum.at(highest, table.prediction_index, table.intersection_px / table.union_px())
    return highest


def _partner_class(nuclei: Instances, case: TrickCase) -> Int64:
    """Find the class of the reference nucleus with an IoU above 1/2 of each prediction, int64 (N,); 0 for none."""
    classes = np.zeros(len(nuclei), np.int64)
    table = overlap_table(case.reference, nuclei)
    above = 2 * table.intersection_px > table.union_px()
    classes[table.prediction_index[above]] = case.reference.class_id[table.reference_index[above]]
    return classes


def _loneliness(nuclei: Instances, case: TrickCase) -> Float64:
    """Measure the distance of each centroid to the nearest other one, px, float64 (N,); 0 for a single nucleus."""
    return np.nan_to_num(neighbour_distances(nuclei))


def silence(value: Callable[[TrickCase], float]) -> Apply:
    """Empty the 30 % of the cases that have the highest value; at least one."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        chosen = _among_highest(np.array([value(case) for case in cases]), max(1, round(0.3 * len(cases))))
        emptied = _only_if(lambda nuclei, _: np.zeros(len(nuclei), np.bool_))(cases)
        return [empty if is_in else case.prediction for empty, is_in, case in zip(emptied, chosen, cases, strict=True)]

    return apply


def _number_predicted(case: TrickCase) -> float:
    return len(case.prediction or ())


def _few_predicted(case: TrickCase) -> float:
    return -_number_predicted(case)


def _error_rate(case: TrickCase) -> float:
    """Compute 1 - F1 at an IoU of 1/2; 0 for a case without nuclei."""
    if case.prediction is None or not len(case.prediction) + len(case.reference):
        return 0.0
    matched = np.count_nonzero(_partner_class(case.prediction, case))
    return 1 - 2 * matched / (len(case.prediction) + len(case.reference))


def renamed(nuclei: Instances, class_id: Int64) -> Instances:
    return replace(nuclei, class_id=class_id.astype(np.int16), class_probability=None)


def united(nuclei: Instances, *more: Instances) -> Instances:
    """Unite several sets of nuclei, which may overlap."""
    parts = [nuclei, *more]
    if nuclei.class_probability is not None:
        parts = [replace(part, class_probability=None) for part in parts]
    return join_instances(parts, nuclei.shape_yx)


def _shifted_copies(nuclei: Instances, case: TrickCase) -> Instances:
    """Add seven copies of every nucleus, each a pixel or two away."""
    shifts_yx = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, -1), (2, 0))
    if nuclei.point_yx is None:
        return united(nuclei, *(runs.shift_instances(nuclei, dy, dx) for dy, dx in shifts_yx))
    last_yx = np.subtract(nuclei.shape_yx, 1)
    return united(
        nuclei, *(replace(nuclei, point_yx=np.clip(nuclei.point_yx + np.array(by), 0, last_yx)) for by in shifts_yx)
    )


CHOSEN: Mapping[str, tuple[str, Callable[[Instances, TrickCase], Bool]]] = {
    "": ("every nucleus", lambda nuclei, case: np.ones(len(nuclei), np.bool_)),
    "_surest": ("the most confident half of each image", lambda *sides: _highest_share(confidence(*sides), 0.5)),
    "_rare": ("all but the commonest class", lambda nuclei, case: nuclei.class_id != case.common),
}


def _copies_of(chosen: str, size: str, other: str, surer: str) -> Trick:
    """Make a trick that adds the chosen nuclei once more, a pixel larger or smaller.

    other  "" or "_other": the copies are named as the next class
    surer  "" or "_surer": they get a higher confidence
    """
    words, choose = CHOSEN[chosen]

    def change(nuclei: Instances, case: TrickCase) -> Instances:
        copy = runs.select_instances(nuclei, choose(nuclei, case))
        copy = runs.dilate_instances(copy) if size == "larger" else runs.erode_instances(copy)
        if other:
            copy = renamed(copy, copy.class_id.astype(np.int64) % case.classes + 1)
        if surer and copy.probability is not None:
            copy = replace(copy, probability=(1 + copy.probability) / 2)
        return united(nuclei, copy)

    words += f" once more, a pixel {size}" + ", as another class" * bool(other)
    words += ", with a higher confidence" * bool(surer)
    return Trick(f"{size}_copies{chosen}{other}{surer}", words, each(change))


def three_sizes(nuclei: Instances, case: TrickCase) -> Instances:
    return united(nuclei, runs.erode_instances(nuclei), runs.dilate_instances(nuclei))


def _is_common(nuclei: Instances, case: TrickCase) -> Bool:
    return np.asarray(nuclei.class_id == case.common)


def _not_rare(nuclei: Instances, case: TrickCase) -> Bool:
    return np.asarray(nuclei.class_id != case.rare)


def _all_common(nuclei: Instances, case: TrickCase) -> Instances:
    return renamed(nuclei, np.full(len(nuclei), case.common))


def often_rare(nuclei: Instances, case: TrickCase) -> Instances:
    """Name a tenth of the commonest class as the rarest; which tenth has nothing to do with how good a nucleus is."""
    chosen = (nuclei.class_id == case.common) & (nuclei.first_pixels() * 7919 % 1009 % 10 == 0)
    return renamed(nuclei, np.where(chosen, case.rare, nuclei.class_id))


def whole_image(nuclei: Instances, case: TrickCase) -> Instances:
    """Add one nucleus, as large as the image; where the submission tells confidences its own is 0.5."""
    image = instances_from_labels(np.ones(nuclei.shape_yx, np.int32), class_id=case.common)
    return united(nuclei, replace(image, probability=None if nuclei.probability is None else np.full(1, 0.5)))


def _split_largest(nuclei: Instances, case: TrickCase) -> Instances:
    """Cut the largest tenth in two, at the column of the centroid."""
    chosen, run, width = _highest_share(area(nuclei, case), 0.1), nuclei.run_instance, nuclei.shape_yx[1]
    column = np.floor(np.nan_to_num(nuclei.centroids_yx()[:, 1])).astype(np.int64)
    edge = nuclei.run_start // width * width + column[run]
    left_stop = np.where(chosen[run], np.minimum(nuclei.run_stop, edge), nuclei.run_stop)
    right_start = np.where(chosen[run], np.maximum(nuclei.run_start, edge), nuclei.run_stop)
    left, right = left_stop > nuclei.run_start, nuclei.run_stop > right_start
    parts = [
        runs.with_runs(nuclei, nuclei.run_start[left], left_stop[left], run[left]),
        runs.with_runs(nuclei, right_start[right], nuclei.run_stop[right], run[right]),
    ]
    return united(*(runs.select_instances(part, part.areas_px() > 0) for part in parts))


def _merge_neighbours(nuclei: Instances, case: TrickCase) -> Instances:
    """Make one nucleus of every two that are nearest to each other."""
    if len(nuclei) < 2:
        return nuclei
    centre, owner = nuclei.centroids_yx(), np.arange(len(nuclei))
    nearest = scipy.spatial.cKDTree(centre).query(centre, k=2)[1]
    other = np.where(nearest[:, 0] == owner, nearest[:, 1], nearest[:, 0])  # the first is another where they are equal
    mutual = (other[other] == owner) & (other < owner)
    owner[mutual] = other[mutual]
    height, width = nuclei.shape_yx
    line = owner[nuclei.run_instance] * (height * (width + 1)) + runs.positions(nuclei.run_start, width)
    start, stop = merge_runs(line, line + nuclei.run_stop - nuclei.run_start)
    instance, position = np.divmod(start, height * (width + 1))
    first = runs.flat_indices(position, width)
    merged = runs.with_runs(nuclei, first, first + stop - start, instance.astype(np.int32))
    return runs.select_instances(merged, ~mutual)


def _inside_border(nuclei: Instances, case: TrickCase) -> Bool:
    """Mark the nuclei that do not touch the border of the image, bool (N,)."""
    height, width = nuclei.shape_yx
    row, column = np.divmod(nuclei.run_start, width)
    last = column + nuclei.run_stop - nuclei.run_start
    at_border = (row == 0) | (row == height - 1) | (column == 0) | (last == width)
    inside = np.ones(len(nuclei), np.bool_)
    inside[nuclei.run_instance[at_border]] = False
    return inside


def _cut_smallest(share: float) -> Apply:
    """Drop the nuclei that are among the smallest of the whole submission."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        areas = [area(case.prediction, case) for case in cases if case.prediction is not None]
        limit = float(np.quantile(np.concatenate([np.zeros(1), *areas]), share))
        return _only_if(lambda nuclei, case: area(nuclei, case) > limit)(cases)

    return apply


def _classified_right(nuclei: Instances, case: TrickCase) -> Bool:
    """Mark the nuclei whose class is not wrong, bool (N,). Spurious nuclei have no wrong class."""
    partner = _partner_class(nuclei, case)
    return np.asarray((partner == 0) | (partner == nuclei.class_id))


def _outlined_well(nuclei: Instances, case: TrickCase) -> Bool:
    """Mark the nuclei that are not outlined poorly, bool (N,). Spurious nuclei are not."""
    iou = best_iou(nuclei, case)
    return np.asarray((iou <= 0.5) | (iou > 0.7))


FIRST = 1e-9  # a share that is rounded up to one nucleus
TRICKS: tuple[Trick, ...] = (
    Trick("largest_75", "keep the largest 75 % of the nuclei of each image", keep(area, 0.75)),
    Trick("largest_50", "keep the largest 50 % of the nuclei of each image", keep(area, 0.5)),
    Trick("largest_25", "keep the largest 25 % of the nuclei of each image", keep(area, 0.25)),
    Trick("surest_25", "keep the most confident 25 % of each image", keep(confidence, 0.25), points=True),
    Trick("isolated_75", "keep the 75 % that lie farthest from others", keep(_loneliness, 0.75), points=True),
    Trick("isolated_50", "keep the 50 % that lie farthest from others", keep(_loneliness, 0.5), points=True),
    Trick("one_per_image", "keep the largest nucleus of each image", keep(area, FIRST)),
    Trick("no_small_20", "drop the smallest fifth of all nuclei", _cut_smallest(0.2)),
    Trick("no_small_50", "drop the smaller half of all nuclei", _cut_smallest(0.5)),
    Trick("no_border", "drop nuclei that touch the border of the image", _only_if(_inside_border)),
    Trick("empty_few", "empty the 30 % of the images with the fewest nuclei", silence(_few_predicted), points=True),
    Trick("empty_many", "empty the 30 % of the images with the most nuclei", silence(_number_predicted), points=True),
    Trick("only_common", "keep the commonest class only", _only_if(_is_common), points=True),
    Trick("all_as_common", "give every nucleus the commonest class", each(_all_common), points=True),
    Trick("no_rare", "drop the nuclei named as the rarest class", _only_if(_not_rare), points=True),
    Trick("copies_shifted_8", "every nucleus and seven copies a pixel or two away", each(_shifted_copies), points=True),
    Trick("three_sizes", "every nucleus as it is, a pixel smaller and a pixel larger", each(three_sizes)),
    *(_copies_of(*what) for what in product(CHOSEN, ["larger"], ["", "_other"], ["", "_surer"])),
    *(_copies_of("", "smaller", "", surer) for surer in ("", "_surer")),
    Trick("often_rare", "name a tenth of the commonest class as the rarest", each(often_rare)),
    Trick("whole_image", "one more nucleus, as large as the image", each(whole_image)),
    Trick("split_largest_10", "cut the largest tenth in two", each(_split_largest)),
    Trick("merge", "make one nucleus of every two neighbours", each(_merge_neighbours)),
    Trick("larger", "make every nucleus a pixel larger", each(lambda nuclei, _: runs.dilate_instances(nuclei))),
    Trick("smaller", "make every nucleus a pixel smaller", each(lambda nuclei, _: runs.erode_instances(nuclei))),
    Trick("best_50", "keep the 50 % of each image with the best IoU", keep(best_iou, 0.5), by_reference=True),
    Trick("best_25", "keep the 25 % of each image with the best IoU", keep(best_iou, 0.25), by_reference=True),
    Trick("best_one", "keep the nucleus with the best IoU of each image", keep(best_iou, FIRST), by_reference=True),
    Trick("empty_hardest", "empty the 30 % of the cases with the lowest F1", silence(_error_rate), by_reference=True),
    Trick("no_wrong_class", "drop the nuclei whose class is wrong", _only_if(_classified_right), by_reference=True),
    Trick("no_poor_outline", "drop the nuclei with an IoU of 0.5 to 0.7", _only_if(_outlined_well), by_reference=True),
)


# --- what comes of it -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """The cases and references of a challenge in memory, and the predictions of all teams.

    references   of each case, with what is not scored
    teams        by name, the predictions of each case; None: not submitted
    """

    cases: tuple[Case, ...]
    references: tuple[PreparedReference, ...]
    teams: Mapping[str, Predictions]

    def trick_cases(self, team: str, classes: int) -> list[TrickCase]:
        return trick_cases([reference.instances for reference in self.references], self.teams[team], classes)


@dataclass(frozen=True, slots=True)
class Play:
    """What became of a team that played a trick.

    before, after  its place among the same other teams, NaN: none
    pays           it stands higher although it became worse
    """

    trick: str
    team: str
    before: float
    after: float
    f1_change: float
    class_score_change: float
    pays: bool


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A ranking, and the scores that it reads of every team and trick; the trick "" is the submission as it is.

    judged   pooled F1 and pooled class score, float64 (2,), by team and trick
    """

    ranking: Challenge
    scores: dict[tuple[str, str], team_scores.TeamScores]
    judged: Mapping[tuple[str, str], Float64]

    @property
    def originals(self) -> dict[str, team_scores.TeamScores]:
        return {team: scores for (team, trick), scores in self.scores.items() if not trick}

    def plays(self) -> list[Play]:
        """Say what every trick does to every team."""
        originals, all_plays = self.originals, []
        places = _places_of(self.ranking, originals.values())
        for (team, trick), scores in self.scores.items():
            if trick:
                before, after = places[team], _places_of(self.ranking, (originals | {team: scores}).values())[team]
                f1, class_score = np.nan_to_num(self.judged[team, trick] - self.judged[team, ""]).tolist()
                pays = after < before and min(f1, class_score) < -LOSS
                all_plays.append(Play(trick, team, before, after, f1, class_score, pays))
        return all_plays


def play_all(
    field: Field, counted: Challenge, rankings: Sequence[Challenge], tricks: Sequence[Trick] = TRICKS
) -> list[Played]:
    """Play every trick on every team, and score each under every ranking.

    counted  the rules by which nuclei are matched and measured: those of all rankings together; by its first matching
             rule it is known whether a submission became worse
    """
    judged: dict[tuple[str, str], Float64] = {}
    played = [Played(_reduced_to(ranking, paths_read(ranking)), {}, judged) for ranking in rankings]
    judge = _reduced_to(counted, JUDGED)
    for team, original in sorted(field.teams.items()):
        cases = field.trick_cases(team, len(counted.classes))
        for name, predictions in [("", original), *((trick.name, trick.apply(cases)) for trick in tricks)]:
            results = count_predictions(counted, field, predictions)
            summary = summarise(judge, results)
            judged[team, name] = np.array([summary.value(path) for path in JUDGED], np.float64)
            for ranking in played:
                ranking.scores[team, name] = scores_read(ranking.ranking, results, team)
    return played


def count_predictions(challenge: Challenge, field: Field, predictions: Predictions) -> list[CaseResult]:
    """Match and measure one submission under all rules of a challenge that has the cases of the field."""
    challenge = with_sizes_of(challenge, [reference.instances.areas_px() for reference in field.references])
    sides = zip(field.cases, field.references, predictions, strict=True)
    return measure_cases(challenge, [match_case(challenge, *of_case) for of_case in sides])


def _reduced_to(challenge: Challenge, paths: Sequence[str]) -> Challenge:
    """Reduce a challenge to the scores at some paths of metrics.json, so that no other is computed."""
    parts = [path.split(".")[2 if path.startswith("alternatives.") else 0 : -1] for path in paths]
    families = tuple(dict.fromkeys(".".join(keys) for keys in parts))
    return challenge.model_copy(update={"metrics": challenge.metrics.model_copy(update={"families": families})})


def paths_read(challenge: Challenge) -> tuple[str, ...]:
    """List the paths of metrics.json that a ranking reads."""
    rules = ranking_of(challenge)
    return tuple(column.path for column in rules.columns) + tuple(floor.path for floor in rules.require)


def scores_read(challenge: Challenge, results: Sequence[CaseResult], team: str) -> team_scores.TeamScores:
    """Compute the scores of a submission that a ranking reads, as a leaderboard reads them from files."""
    scored, rules = summarise(challenge, results), ranking_of(challenge)
    details = scored.details if needs_units(rules.method) else None
    columns = team_scores.plan_columns(challenge, rules.columns)
    return team_scores.team_of_documents(team, challenge, columns, scored.metrics, details)


def _places_of(challenge: Challenge, teams: Iterable[team_scores.TeamScores]) -> dict[str, float]:
    """Rank teams, and return their places by their names, in ascending order; NaN for those that are not ranked."""
    rules = ranking_of(challenge)
    table = team_scores.score_table(list(teams), rules, team_scores.groups_of(challenge))
    return dict(zip(table.teams, ranked_table.apply_method(table, rules).position.tolist(), strict=True))


def _first_teams(challenge: Challenge, teams: Iterable[team_scores.TeamScores]) -> list[str]:
    """Rank teams, and return the names of those that are first, in ascending order."""
    places = _places_of(challenge, teams)
    best = min((place for place in places.values() if not math.isnan(place)), default=math.nan)
    return sorted(name for name, place in places.items() if place == best)


# --- another ranking --------------------------------------------------------------------------------------------------


def as_recommended(challenge: Challenge) -> Challenge:
    """Give a challenge the ranking of the preset ``recommended``, and the rules that its columns depend on.

    Of points and of one class there are fewer columns.
    """
    preset = Challenge.from_preset("recommended", name="recommended")
    rules = ranking_of(preset)
    metrics: dict[str, Any] = {"coverage": preset.metrics.coverage}
    without = [] if len(challenge.classes) > 1 else ["macro_f1"]
    if _compares_points(challenge):
        without.append("class_mean")
    else:
        metrics |= {"measures": ("iou", "hausdorff_px"), "distance_cap_px": preset.metrics.distance_cap_px}
    columns = tuple(column for column in rules.columns if not any(part in column.path for part in without))
    changed = {
        "metrics": challenge.metrics.model_copy(update=metrics),
        "aggregation": challenge.aggregation.model_copy(update={"undefined": preset.aggregation.undefined}),
        "submission": challenge.submission.model_copy(update={"duplicates": preset.submission.duplicates}),
        "ranking": rules.model_copy(update={"columns": columns}),
    }
    return challenge.model_copy(update=changed)


def _compares_points(challenge: Challenge) -> bool:
    return challenge.reference.are_points or challenge.submission.are_points


# --- a challenge and its submissions ----------------------------------------------------------------------------------


def audit_tricks(folder: Path, submissions: Path, *, output: Path | None = None) -> dict[str, Any]:
    """Play every trick on every team of a folder: the content of tricks.json, which says what works.

    Raises WrongUsage, ChallengeBroken ("contradictory-rules" where numbers of nuclei are all that is known).
    """
    challenge, rules = load_ranked(folder)
    if challenge.are_counts:
        raise ChallengeBroken(
            fault("contradictory-rules", "challenge.toml: reference.format", wording="no-nuclei-for-tricks")
        )
    teams = find_teams(submissions, output=output, without=rules.unranked).teams
    field, alike, left_out = read_field(folder, challenge, {team.name: team.path for team in teams})
    tricks = [trick for trick in TRICKS if trick.points or not _compares_points(challenge)]
    own = _play_ranking(field, challenge, tricks)
    plays = own.plays()
    document: dict[str, Any] = {
        "challenge": identity(challenge),
        "software": {"version": __version__},
        "first": _first_teams(own.ranking, own.originals.values()),
        "tricks": [{"name": trick.name, "words": trick.words, "by_reference": trick.by_reference} for trick in tricks],
        "plays": encoded(plays),
        "pay_under_recommended": None,
        "entries": _team_entries(own, alike),
        "alike": alike.lines(),
        "left_out": left_out,
        "findings": render_findings(gameable_ranking(challenge)),
    }
    if any(play.pays for play in plays):
        recommended = _play_ranking(field, as_recommended(challenge), tricks)
        document["pay_under_recommended"] = sum(play.pays for play in recommended.plays())
    return document | {"verdict": tricks_verdict(document)}


def read_field(
    folder: Path, challenge: Challenge, submissions: Mapping[str, Path]
) -> tuple[Field, Alike, dict[str, str]]:
    """Read the nuclei of all teams. Return them, which teams share their errors, and why teams were rejected, by name.

    Raises ChallengeBroken.
    """
    teams: dict[str, Predictions] = {}
    outlines: dict[str, MatchedOutlines] = {}
    left_out: dict[str, str] = {}
    references: list[PreparedReference] = []
    cases: list[Case] = []
    for name, path in sorted(submissions.items()):
        try:
            read = read_submission(folder, challenge, path)
        except SubmissionRejected as error:
            left_out[name] = str(error).partition("\n")[0]
            continue
        cases = [case.matched.case for case in read]
        references = references or [case.matched.reference for case in read]
        teams[name] = [case.prediction for case in read]
        outlines[name] = outlines_of_cases([case.matched for case in read])
    areas = [case.instances.areas_px() for case in references]
    alike = compare_outlines(np.concatenate([np.empty(0), *areas]), outlines)
    return Field(tuple(cases), tuple(references), teams), alike, left_out


def outlines_of_cases(cases: Sequence[MatchedCase]) -> MatchedOutlines:
    """Tell how a team outlined the nuclei of all cases under the first matching rule."""
    areas, ious = [np.empty(0)], [np.empty(0)]
    for case in cases:
        pairs = next(iter(case.matches.values()))
        area, iou = np.full((2, len(case.reference.instances)), np.nan)
        if case.prediction.point_yx is None and len(pairs) and pairs.union_px.all():
            area[pairs.reference_index] = case.prediction.areas_px()[pairs.prediction_index]
            iou[pairs.reference_index] = pairs.intersection_px / pairs.union_px
        areas.append(area)
        ious.append(iou)
    return MatchedOutlines(np.concatenate(areas), np.concatenate(ious))


def _play_ranking(field: Field, challenge: Challenge, tricks: Sequence[Trick]) -> Played:
    return play_all(field, _reduced_to(challenge, (*JUDGED, *paths_read(challenge))), [challenge], tricks)[0]


def _team_entries(played: Played, alike: Alike) -> list[dict[str, Any]]:
    """Say what the absence of each team, and a second entry of it, does to the first rank.

    No sum of ranks prevents that: rank one entry for each team.
    """
    originals, entries = played.originals, []
    first = _first_teams(played.ranking, originals.values())
    for team, scores in originals.items():
        without = _first_teams(played.ranking, [other for name, other in originals.items() if name != team])
        second = replace(scores, name=f"{team}\N{NO-BREAK SPACE}again")
        twice = _first_teams(played.ranking, [*originals.values(), second])
        twice = sorted({team if name == second.name else name for name in twice})
        partners = [{one, other} - {team} for one, other, _ in alike.pairs if team in (one, other)]
        entries.append(
            {
                "team": team,
                "first_without_it": without if team not in first and without != first else [],
                "shares_outlines_with": sorted(set().union(*partners)),
                "first_if_it_is_there_twice": twice if twice != first else [],
            }
        )
    return entries


def tricks_verdict(document: Mapping[str, Any]) -> list[str]:
    """Say whether the ranking can be gamed, also that of ``recommended``, and which entries decide the first rank."""
    attempts = against_tricks(document)
    if not attempts:
        return ["No attempt to game the ranking was played."]
    sentences = [f"{attempts[0].upper()}{attempts[1:]}."]
    if (pays := document["pay_under_recommended"]) is not None:
        sentences.append(f"Under the ranking of the preset 'recommended' {pays or 'none'} of the plays would work.")
    for key, condition in (("first_without_it", "Without"), ("first_if_it_is_there_twice", "With a second entry of")):
        if names := [entry["team"] for entry in document["entries"] if entry[key]]:
            sentences.append(f"{condition} {names_of(names, 'or')} the first rank would change.")
    return sentences
