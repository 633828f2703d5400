"""Tricks: what a participant could do to the nuclei of a submission to stand higher without being better.

Every trick is played on every team, one team at a time; what comes of it is scored and ranked as any submission is.
A trick *pays*, or works, if the team ranks higher although its pooled detection F1, or its pooled class score (mean
over classes of the F1 of detection with the right class), has fallen by more than 0.005 under the first matching rule
of the ranking. If the mean IoU over all nuclei has risen, the submission is nearer to the reference: that is
*calibration*, and does not pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import scipy

from evaluation.board import ranked_table, team_scores
from evaluation.board.rules import ranking_of
from evaluation.board.sensitivity import neighbour_distances
from evaluation.challenge import Challenge
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.read import rules_of_references
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.score import summarise
from evaluation.scoring.street import CaseOutcome, ReadCase, raise_faults, read_and_match, sort_cases
from evaluation.scoring.workers import run_here
from nuclei_metrics.instances import runs
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.matching import overlap_table
from nuclei_metrics.model import Bool, Case, CaseResult, Float64, Instances, Int64
from nuclei_metrics.model.arrays import merge_runs
from nuclei_metrics.model.instances import join_instances
from nuclei_metrics.ranking.methods import needs_units

LOSS = 0.005  # of the first or the second of ``JUDGED``: a submission that lost more is worse
JUDGED = ("detection.f1.pooled", "detection.macro_f1.pooled", "overall.iou.pooled")


@dataclass(frozen=True, slots=True, eq=False)
class TrickCase:
    """One case of a submission as a trick sees it.

    prediction    None: the case was not submitted
    classes       how many the challenge has
    common, rare  the commonest and the rarest of the classes that the whole submission predicts
    group         its patient
    """

    reference: Instances
    prediction: Instances | None
    classes: int
    common: int = 1
    rare: int = 1
    group: str = ""


Predictions = Sequence[Instances | None]  # of each case; None: not submitted
Apply = Callable[[Sequence[TrickCase]], Predictions]
ChangeOfNuclei = Callable[[Instances, TrickCase], Instances]
ValueOfNuclei = Callable[[Instances, TrickCase], Float64]


@dataclass(frozen=True, slots=True)
class Trick:
    """What is done, in words, and the function that does it.

    by_reference  it chooses by the reference, which no participant has: what a very good guess would gain
    """

    name: str
    words: str
    apply: Apply
    by_reference: bool = False


def trick_cases(
    references: Sequence[Instances], predictions: Predictions, classes: int, groups: Sequence[str] | None = None
) -> list[TrickCase]:
    """Make the cases of one submission as tricks see them. Without nuclei both classes are the first."""
    predicted = [nuclei.class_id for nuclei in predictions if nuclei is not None]
    class_ids, often = np.unique(np.concatenate([np.empty(0, np.int16), *predicted]), return_counts=True)
    common, rare = (int(class_ids[often.argmax()]), int(class_ids[often.argmin()])) if len(often) else (1, 1)
    sides = zip(references, predictions, groups or [""] * len(references), strict=True)
    return [TrickCase(reference, prediction, classes, common, rare, group) for reference, prediction, group in sides]


# --- what tricks are made of ------------------------------------------------------------------------------------------


def each(change: ChangeOfNuclei) -> Apply:
    """Make a trick of a change of the nuclei of one case. What was not submitted is not changed."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        return [None if case.prediction is None else change(case.prediction, case) for case in cases]

    return apply


def only_if(test: Callable[[Instances, TrickCase], Bool]) -> Apply:
    return each(lambda nuclei, case: runs.select_instances(nuclei, test(nuclei, case)))


def keep(value: ValueOfNuclei, share: float) -> Apply:
    """Keep the share of the nuclei of each case that have the highest value, rounded up."""
    return only_if(lambda nuclei, case: highest_share(value(nuclei, case), share))


def highest_share(value: Float64, share: float) -> Bool:
    return among_highest(value, math.ceil(share * len(value)))


def among_highest(value: Float64, number: int) -> Bool:
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


def partner_class(nuclei: Instances, case: TrickCase) -> Int64:
    """Find the class of the reference nucleus with an IoU above 1/2 of each prediction, int64 (N,); 0 for none."""
    classes = np.zeros(len(nuclei), np.int64)
    table = overlap_table(case.reference, nuclei)
    above = 2 * table.intersection_px > table.union_px()
    classes[table.prediction_index[above]] = case.reference.class_id[table.reference_index[above]]
    return classes


def loneliness(nuclei: Instances, case: TrickCase) -> Float64:
    """Measure the distance of each centroid to the nearest other one, px, float64 (N,); 0 for a single nucleus."""
    return np.nan_to_num(neighbour_distances(nuclei))


def silence(value: Callable[[TrickCase], float]) -> Apply:
    """Empty the 30 % of the cases that have the highest value; at least one."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        chosen = among_highest(np.array([value(case) for case in cases]), max(1, round(0.3 * len(cases))))
        emptied = only_if(lambda nuclei, _: np.zeros(len(nuclei), np.bool_))(cases)
        return [empty if is_in else case.prediction for empty, is_in, case in zip(emptied, chosen, cases, strict=True)]

    return apply


def number_predicted(case: TrickCase) -> float:
    return len(case.prediction or ())


def few_predicted(case: TrickCase) -> float:
    return -number_predicted(case)


def error_rate(case: TrickCase) -> float:
    """Compute 1 - F1 at an IoU of 1/2; 0 for a case without nuclei."""
    if case.prediction is None or not len(case.prediction) + len(case.reference):
        return 0.0
    matched = np.count_nonzero(partner_class(case.prediction, case))
    return 1 - 2 * matched / (len(case.prediction) + len(case.reference))


def renamed(nuclei: Instances, class_id: Int64) -> Instances:
    return replace(nuclei, class_id=class_id.astype(np.int16), class_probability=None)


def united(nuclei: Instances, *more: Instances) -> Instances:
    """Unite several sets of nuclei, which may overlap."""
    parts = [nuclei, *more]
    if nuclei.class_probability is not None:
        parts = [replace(part, class_probability=None) for part in parts]
    return join_instances(parts, nuclei.shape_yx)


def shifted_copies(nuclei: Instances, case: TrickCase) -> Instances:
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
    "_surest": ("the most confident half of each image", lambda *sides: highest_share(confidence(*sides), 0.5)),
    "_rare": ("all but the commonest class", lambda nuclei, case: nuclei.class_id != case.common),
}


def copies_of(chosen: str, size: str, other: str, surer: str) -> Trick:
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


def is_common(nuclei: Instances, case: TrickCase) -> Bool:
    return np.asarray(nuclei.class_id == case.common)


def not_rare(nuclei: Instances, case: TrickCase) -> Bool:
    return np.asarray(nuclei.class_id != case.rare)


def all_common(nuclei: Instances, case: TrickCase) -> Instances:
    return renamed(nuclei, np.full(len(nuclei), case.common))


def often_rare(nuclei: Instances, case: TrickCase) -> Instances:
    """Name a tenth of the commonest class as the rarest; which tenth has nothing to do with how good a nucleus is."""
    chosen = (nuclei.class_id == case.common) & (nuclei.first_pixels() * 7919 % 1009 % 10 == 0)
    return renamed(nuclei, np.where(chosen, case.rare, nuclei.class_id))


def whole_image(nuclei: Instances, case: TrickCase) -> Instances:
    """Add one nucleus, as large as the image; where the submission tells confidences its own is 0.5."""
    image = instances_from_labels(np.ones(nuclei.shape_yx, np.int32), class_id=case.common)
    return united(nuclei, replace(image, probability=None if nuclei.probability is None else np.full(1, 0.5)))


def split_largest(nuclei: Instances, case: TrickCase) -> Instances:
    """Cut the largest tenth in two, at the column of the centroid."""
    chosen, run, width = highest_share(area(nuclei, case), 0.1), nuclei.run_instance, nuclei.shape_yx[1]
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


def merge_neighbours(nuclei: Instances, case: TrickCase) -> Instances:
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


def inside_border(nuclei: Instances, case: TrickCase) -> Bool:
    """Mark the nuclei that do not touch the border of the image, bool (N,)."""
    height, width = nuclei.shape_yx
    row, column = np.divmod(nuclei.run_start, width)
    last = column + nuclei.run_stop - nuclei.run_start
    at_border = (row == 0) | (row == height - 1) | (column == 0) | (last == width)
    inside = np.ones(len(nuclei), np.bool_)
    inside[nuclei.run_instance[at_border]] = False
    return inside


def cut_smallest(share: float) -> Apply:
    """Drop the nuclei that are among the smallest of the whole submission."""

    def apply(cases: Sequence[TrickCase]) -> Predictions:
        areas = [area(case.prediction, case) for case in cases if case.prediction is not None]
        limit = float(np.quantile(np.concatenate([np.zeros(1), *areas]), share))
        return only_if(lambda nuclei, case: area(nuclei, case) > limit)(cases)

    return apply


def classified_right(nuclei: Instances, case: TrickCase) -> Bool:
    """Mark the nuclei whose class is not wrong, bool (N,). Spurious nuclei have no wrong class."""
    partner = partner_class(nuclei, case)
    return np.asarray((partner == 0) | (partner == nuclei.class_id))


def outlined_well(nuclei: Instances, case: TrickCase) -> Bool:
    """Mark the nuclei that are not outlined poorly, bool (N,). Spurious nuclei are not."""
    iou = best_iou(nuclei, case)
    return np.asarray((iou <= 0.5) | (iou > 0.7))


FIRST = 1e-9  # a share that is rounded up to one nucleus
FIRST_TRICKS: tuple[Trick, ...] = (
    Trick("largest_75", "keep the largest 75 % of the nuclei of each image", keep(area, 0.75)),
    Trick("largest_50", "keep the largest 50 % of the nuclei of each image", keep(area, 0.5)),
    Trick("largest_25", "keep the largest 25 % of the nuclei of each image", keep(area, 0.25)),
    Trick("surest_25", "keep the most confident 25 % of each image", keep(confidence, 0.25)),
    Trick("isolated_75", "keep the 75 % that lie farthest from others", keep(loneliness, 0.75)),
    Trick("isolated_50", "keep the 50 % that lie farthest from others", keep(loneliness, 0.5)),
    Trick("one_per_image", "keep the largest nucleus of each image", keep(area, FIRST)),
    Trick("no_small_20", "drop the smallest fifth of all nuclei", cut_smallest(0.2)),
    Trick("no_small_50", "drop the smaller half of all nuclei", cut_smallest(0.5)),
    Trick("no_border", "drop nuclei that touch the border of the image", only_if(inside_border)),
    Trick("empty_few", "empty the 30 % of the images with the fewest nuclei", silence(few_predicted)),
    Trick("empty_many", "empty the 30 % of the images with the most nuclei", silence(number_predicted)),
    Trick("only_common", "keep the commonest class only", only_if(is_common)),
    Trick("all_as_common", "give every nucleus the commonest class", each(all_common)),
    Trick("no_rare", "drop the nuclei named as the rarest class", only_if(not_rare)),
    Trick("copies_shifted_8", "every nucleus and seven copies a pixel or two away", each(shifted_copies)),
    Trick("three_sizes", "every nucleus as it is, a pixel smaller and a pixel larger", each(three_sizes)),
    *(copies_of(*what) for what in product(CHOSEN, ["larger"], ["", "_other"], ["", "_surer"])),
    *(copies_of("", "smaller", "", surer) for surer in ("", "_surer")),
    Trick("often_rare", "name a tenth of the commonest class as the rarest", each(often_rare)),
    Trick("whole_image", "one more nucleus, as large as the image", each(whole_image)),
    Trick("split_largest_10", "cut the largest tenth in two", each(split_largest)),
    Trick("merge", "make one nucleus of every two neighbours", each(merge_neighbours)),
    Trick("larger", "make every nucleus a pixel larger", each(lambda nuclei, _: runs.dilate_instances(nuclei))),
    Trick("smaller", "make every nucleus a pixel smaller", each(lambda nuclei, _: runs.erode_instances(nuclei))),
    Trick("best_50", "keep the 50 % of each image with the best IoU", keep(best_iou, 0.5), by_reference=True),
    Trick("best_25", "keep the 25 % of each image with the best IoU", keep(best_iou, 0.25), by_reference=True),
    Trick("best_one", "keep the nucleus with the best IoU of each image", keep(best_iou, FIRST), by_reference=True),
    Trick("empty_hardest", "empty the 30 % of the cases with the lowest F1", silence(error_rate), by_reference=True),
    Trick("no_wrong_class", "drop the nuclei whose class is wrong", only_if(classified_right), by_reference=True),
    Trick("no_poor_outline", "drop the nuclei with an IoU of 0.5 to 0.7", only_if(outlined_well), by_reference=True),
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
        references = [reference.instances for reference in self.references]
        return trick_cases(references, self.teams[team], classes, [case.group for case in self.cases])


@dataclass(frozen=True, slots=True)
class Play:
    """What became of a team that played a trick.

    before, after  its place among the same other teams, NaN: none
    pays           it stands higher although it became worse
    calibrates     so it does, and its mean IoU over all nuclei has risen: an honest improvement
    """

    trick: str
    team: str
    before: float
    after: float
    f1_change: float
    class_score_change: float
    pays: bool
    calibrates: bool


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A ranking, and the scores that it reads of every team and trick; the trick "" is the submission as it is.

    judged   the scores of ``JUDGED`` by its first matching rule, float64 (3,), by team and trick
    """

    ranking: Challenge
    scores: dict[tuple[str, str], team_scores.TeamScores]
    judged: dict[tuple[str, str], Float64]

    @property
    def originals(self) -> dict[str, team_scores.TeamScores]:
        return {team: scores for (team, trick), scores in self.scores.items() if not trick}

    def plays(self) -> list[Play]:
        """Say what every trick does to every team."""
        originals, all_plays = self.originals, []
        places = places_of(self.ranking, originals.values())
        for (team, trick), scores in self.scores.items():
            if trick:
                before, after = places[team], places_of(self.ranking, (originals | {team: scores}).values())[team]
                f1, class_score, iou = np.nan_to_num(self.judged[team, trick] - self.judged[team, ""]).tolist()
                higher = after < before and min(f1, class_score) < -LOSS
                all_plays.append(
                    Play(trick, team, before, after, f1, class_score, higher and iou <= 0, higher and iou > 0)
                )
        return all_plays


def play_all(field: Field, counted: Challenge, rankings: Sequence[Challenge], tricks: Sequence[Trick]) -> list[Played]:
    """Play every trick on every team, and score each under every ranking.

    counted  the rules by which nuclei are matched and measured: those of all rankings together
    """
    played = [Played(reduced_to(ranking, paths_read(ranking)), {}, {}) for ranking in rankings]
    judges = [reduced_to(by_iou(ranking), JUDGED) for ranking in rankings]
    for team, original in sorted(field.teams.items()):
        cases = field.trick_cases(team, len(counted.classes))
        for name, predictions in [("", original), *((trick.name, trick.apply(cases)) for trick in tricks)]:
            results = count_predictions(counted, field, predictions)
            for ranking, judge in zip(played, judges, strict=True):
                summary = summarise(judge, results)
                ranking.judged[team, name] = np.array([summary.value(path) for path in JUDGED], np.float64)
                ranking.scores[team, name] = scores_read(ranking.ranking, results, team)
    return played


def by_iou(challenge: Challenge) -> Challenge:
    """Let a challenge measure the IoU alone, which every judge reads."""
    return challenge.model_copy(update={"metrics": challenge.metrics.model_copy(update={"measures": ("iou",)})})


def count_predictions(challenge: Challenge, field: Field, predictions: Predictions) -> list[CaseResult]:
    """Match and measure one submission under all rules of a challenge that has the cases of the field."""
    sides = zip(field.cases, field.references, predictions, strict=True)
    return measure_cases(challenge, [match_case(challenge, *of_case) for of_case in sides])


def reduced_to(challenge: Challenge, paths: Sequence[str]) -> Challenge:
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
    columns = team_scores.plan_columns(challenge, rules.paths)
    return team_scores.team_of_documents(team, challenge, columns, scored.metrics, details)


def places_of(challenge: Challenge, teams: Iterable[team_scores.TeamScores]) -> dict[str, float]:
    """Rank teams, and return their places by their names, in ascending order; NaN for those that are not ranked."""
    rules = ranking_of(challenge)
    table = team_scores.score_table(list(teams), rules, team_scores.groups_of(challenge))
    return dict(zip(table.teams, ranked_table.apply_method(table, rules).position.tolist(), strict=True))


def _read_submission(folder: Path, challenge: Challenge, path: Path) -> list[ReadCase]:
    """All cases of a submission. Raises SubmissionRejected, ChallengeBroken."""
    received = receive_submission(challenge, path, folder)
    cases = sort_cases(challenge, folder, received, run=run_here)
    rules = rules_of_references(cases.challenge)
    outcomes = [read_and_match(cases.challenge, folder, received.files, case, rules) for case in cases.inputs]
    raise_faults(challenge, received, [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)])
    return [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]


def read_field(folder: Path, challenge: Challenge, submissions: Mapping[str, Path]) -> Field:
    """Read the nuclei of all teams. Raises ChallengeBroken, SubmissionRejected."""
    teams: dict[str, Predictions] = {}
    references: list[PreparedReference] = []
    cases: list[Case] = []
    for name, path in sorted(submissions.items()):
        read = _read_submission(folder, challenge, path)
        cases = [case.matched.case for case in read]
        references = references or [case.matched.reference for case in read]
        teams[name] = [case.matched.prediction for case in read]
    return Field(tuple(cases), tuple(references), teams)
