"""The street, readable as a list of its stages. Only this module knows their order.

files -> outlines or label images -> instances -> overlap table -> matches -> counts -> scores -> files
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.aggregation import pool_counts, unit_mean
from evaluation.challenge import (
    AnyMatchingRule,
    BestIouCentroidInside,
    CentroidClosestFirst,
    Challenge,
    IouAbove,
    is_safe_name,
)
from evaluation.errors import ChallengeBroken, InputFault, SubmissionRejected
from evaluation.findings import Finding, did_you_mean, quote
from evaluation.formats.bounded_json import read_json
from evaluation.instances.boundary import boundaries_of, join_boundaries, runs_by_instance
from evaluation.instances.ignore import apply_ignore_region
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.parts import join_instances
from evaluation.instances.prepare import PreparedReference
from evaluation.matching import (
    compare_label_maps,
    match_best_iou_centroid_inside,
    match_centroid_assignment,
    match_centroid_closest_first,
    match_iou_above,
    overlap_table,
)
from evaluation.metrics import Metric, count_matches, hausdorff_distances, metrics_of
from evaluation.model import (
    AGGREGATIONS,
    Annotations,
    BorderRule,
    Boundaries,
    Case,
    CaseResult,
    Float64,
    Instances,
    LabelMaps,
    MatchCounts,
    Matches,
    MetricScores,
    ObjectList,
    OverlapTable,
    Region,
    UnitScores,
)
from evaluation.reading import (
    OUTSIDE_FIX,
    ReadPrediction,
    read_prediction,
    read_reference,
    read_shared,
    read_shared_reference,
    submission_side,
)
from evaluation.report.details_json import details_document
from evaluation.report.files import write_atomically
from evaluation.report.metrics_json import as_json, metrics_document
from evaluation.report.objects_csv import objects_csv
from evaluation.submission import CaseFile, SubmissionFiles, collection_findings, find_case_files, open_submission
from evaluation.version import __version__
from evaluation.workers import Progress, batches, memory_needs, plan_workers, run_tasks

PAIRS_AT_ONCE = 2048  # whose boundaries are held together; they stay in the cache


# --- the street, case by case ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class MatchedCase:
    """A case whose nuclei are paired, by the name of the matching rule, and not yet measured.

    prediction  what is scored: instances in ignore regions have left
    submitted   number of instances before, or None if the case was not submitted
    """

    case: Case
    reference: PreparedReference
    prediction: Instances
    submitted: int | None
    table: OverlapTable
    matches: dict[str, Matches]


def match_case(
    challenge: Challenge, case: Case, reference: PreparedReference, prediction: Instances | None
) -> MatchedCase:
    """Match one case under all rules of the challenge. ``prediction`` None: not submitted."""
    submitted = join_instances([], case.shape_yx) if prediction is None else prediction
    ignore = challenge.reference.ignore
    predicted = submitted
    if ignore.policy is not None:
        predicted = apply_ignore_region(submitted, reference.ignore, ignore.policy, ignore.fraction)
    table = overlap_table(reference.instances, predicted)
    return MatchedCase(
        case=case,
        reference=reference,
        prediction=predicted,
        submitted=None if prediction is None else len(submitted),
        table=table,
        matches={
            rule.name: match(rule, case, table, reference.instances, predicted) for rule in challenge.matching.rules
        },
    )


def match(
    rule: AnyMatchingRule, case: Case, table: OverlapTable, reference: Instances, prediction: Instances
) -> Matches:
    """Apply one matching rule of the challenge."""
    class_aware = rule.class_aware
    if isinstance(rule, IouAbove):
        return match_iou_above(table, reference, prediction, threshold=rule.threshold, class_aware=class_aware)
    if isinstance(rule, BestIouCentroidInside):
        return match_best_iou_centroid_inside(table, reference, prediction, class_aware=class_aware)
    radius_px = rule.radius_in_px(case)
    by_centroid = match_centroid_assignment
    if isinstance(rule, CentroidClosestFirst):
        by_centroid = match_centroid_closest_first
    return by_centroid(reference, prediction, radius_px=radius_px, class_aware=class_aware, table=table)


def measure_cases(challenge: Challenge, matched: Sequence[MatchedCase]) -> list[CaseResult]:
    """Count and measure the pairs of several cases; distances are measured for all of them together."""
    distances: Sequence[Sequence[Distances | None]] = [[None] * len(case.matches) for case in matched]
    are_points = challenge.reference.are_points or challenge.submission.are_points
    if "segmentation" in challenge.metrics.families and not are_points:
        distances = measure_distances(
            [(case.reference.instances, case.prediction, list(case.matches.values())) for case in matched],
            border=challenge.metrics.boundary,
        )
    return [
        CaseResult(
            case=case.case,
            missing=case.submitted is None,
            reference=object_list(case.reference.instances, case.table.reference_area_px),
            prediction=object_list(case.prediction, case.table.prediction_area_px),
            ignored_predictions=(case.submitted or 0) - len(case.prediction),
            matches=case.matches,
            counts={
                name: count_matches(
                    case.reference.instances,
                    case.prediction,
                    found,
                    classes=len(challenge.classes),
                    distances_px=distances_px,
                    missing=case.submitted is None,
                )
                for (name, found), distances_px in zip(case.matches.items(), of_case, strict=True)
            },
            rasterisation=case.reference.report,
        )
        for case, of_case in zip(matched, distances, strict=True)
    ]


Distances = tuple[Float64, Float64]


def measure_distances(
    images: Sequence[tuple[Instances, Instances, Sequence[Matches]]], *, border: BorderRule
) -> list[list[Distances]]:
    """Hausdorff distances and their 95th percentiles, for each image and each of its matchings.

    A pair that several matchings have is measured once. Pairs of all images go together, ``PAIRS_AT_ONCE`` at a time:
    small images cost no more than large ones, and the boundaries of a large one are never all in memory.
    """
    boundaries: list[tuple[Boundaries, Boundaries]] = []
    measured: list[Distances] = []
    places = []
    pairs = held = 0
    for reference, prediction, matchings in images:
        keys = [m.reference_index.astype(np.int64) * len(prediction) + m.prediction_index for m in matchings]
        distinct, place = np.unique(np.concatenate(keys), return_inverse=True)
        places.append(np.split(place + pairs, np.cumsum([len(key) for key in keys])[:-1]))
        pairs += len(distinct)
        indices = np.divmod(distinct, max(len(prediction), 1))
        sides = runs_by_instance(reference), runs_by_instance(prediction)
        for first in range(0, len(distinct), PAIRS_AT_ONCE):
            part = [index[first : first + PAIRS_AT_ONCE] for index in indices]
            left, right = (boundaries_of(runs, index, border=border) for runs, index in zip(sides, part, strict=True))
            boundaries.append((left, right))
            held += len(part[0])
            if held >= PAIRS_AT_ONCE:
                measured.append(hausdorff_distances(*map(join_boundaries, zip(*boundaries, strict=True))))
                boundaries, held = [], 0
    if boundaries:
        measured.append(hausdorff_distances(*map(join_boundaries, zip(*boundaries, strict=True))))
    maximum, percentile = (np.concatenate([np.empty(0), *(pair[side] for pair in measured)]) for side in (0, 1))
    return [[(maximum[place], percentile[place]) for place in of_image] for of_image in places]


def object_list(instances: Instances, areas_px: npt.NDArray[np.int64]) -> ObjectList:
    return ObjectList(instances.source_id, instances.class_id, areas_px)


# --- the street, for the data set -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """A scored submission: all cases, and the scores of the data set.

    ``metrics``, ``details`` and ``objects`` are the contents of the files that the commands write.
    """

    challenge: Challenge
    cases: tuple[CaseResult, ...]
    units: dict[str, dict[str, dict[str, UnitScores]]]
    scores: dict[str, tuple[MetricScores, ...]]
    findings: tuple[Finding, ...] = field(default=())

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """metrics.json as nested tables; numbers are rounded to six decimals, undefined values are None."""
        return metrics_document(self.challenge, self.scores, __version__)

    @cached_property
    def details(self) -> dict[str, Any]:
        """details.json as nested tables."""
        return details_document(self.challenge, self.cases, self.units, self.scores, self.findings, __version__)

    @cached_property
    def objects(self) -> str:
        """objects.csv: one row per matched, missed and spurious nucleus and matching rule."""
        return objects_csv(self.cases, self.challenge.class_names)

    def value(self, path: str) -> float | None:
        """The number at a path of metrics.json such as ``"panoptic.pq.group_mean"``; None if undefined."""
        node: Any = self.metrics
        for key in path.split("."):
            node = node[key]
        return None if node is None else float(node)

    def write(self, folder: Path | str) -> None:
        """Write details.json, objects.csv and, last, metrics.json: where it is, all are."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "details.json", as_json(self.details))
        write_atomically(folder / "objects.csv", self.objects)
        write_atomically(folder / "metrics.json", as_json(self.metrics))


def summarise(challenge: Challenge, cases: Iterable[CaseResult], findings: Sequence[Finding] = ()) -> Result:
    """Add up the cases and score every unit: each case, each group, and all pooled, under each matching rule."""
    ordered = tuple(sorted(cases, key=lambda result: (result.case.group, result.case.name)))
    units, scores = {}, {}
    for rule in challenge.matching.rules:
        metrics = metrics_of(challenge.metrics.families, challenge.class_names, class_aware=rule.class_aware)
        by_case = {result.case.name: result.counts[rule.name] for result in ordered}
        members: dict[str, list[MatchCounts]] = {}
        for result in ordered:
            members.setdefault(result.case.group, []).append(by_case[result.case.name])
        by_group = {group: pool_counts(counts) for group, counts in members.items()}
        pooled = {"all": pool_counts(list(by_case.values()))}
        units[rule.name] = {
            kind: {name: score_unit(metrics, counts) for name, counts in of_kind.items()}
            for kind, of_kind in (("cases", by_case), ("groups", by_group), ("pooled", pooled))
        }
        scores[rule.name] = tuple(average_units(metric, units[rule.name], challenge) for metric in metrics)
    return Result(challenge, ordered, units, scores, tuple(findings))


def score_unit(metrics: Sequence[Metric], counts: MatchCounts) -> UnitScores:
    return UnitScores(counts, {metric.path: metric.evaluate(counts) for metric in metrics})


def average_units(metric: Metric, units: Mapping[str, Mapping[str, UnitScores]], challenge: Challenge) -> MetricScores:
    undefined = challenge.aggregation.undefined
    means = {
        kind: unit_mean(
            [(unit.scores[metric.path], unit.counts) for unit in of_kind.values()],
            metric.worst,
            undefined=undefined,
            counts_missed=metric.counts_missed,
        )
        for kind, of_kind in units.items()
    }
    return MetricScores(metric.path, metric.better, means["pooled"], means["groups"], means["cases"])


# --- from files -----------------------------------------------------------------------------------------------------


def score_submission(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Score a submission (a folder or a ZIP) against the reference of a challenge folder.

    Raises SubmissionRejected or ChallengeBroken with all that is wrong; nothing is scored then. ``workers`` None
    chooses from the processors, the memory and the size of the challenge; it never changes the result.
    """
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder)
    check_columns(challenge)
    received = receive_submission(challenge, Path(submission))
    if received.has_errors:
        raise rejection(challenge, all_findings(challenge, received, workers, progress))
    try:
        shared = read_shared_reference(challenge, folder)
    except InputFault as fault:
        raise ChallengeBroken(*fault.findings) from fault
    inputs = [
        CaseInput(case, None if shared is None else shared.cases[case.name], received.contents.get(case.name))
        for case in challenge.cases
    ]
    needs = memory_needs(
        challenge, challenge.cases, folder=folder, shared=shared, files=received.files, contents=received.contents
    )
    plan = plan_workers(workers, challenge.cases, needs)
    tasks = [(challenge, folder, received.files, part) for part in batches(inputs, needs, plan.workers)]
    outcomes = [outcome for part in run_tasks(score_cases, tasks, plan, progress) for outcome in part]
    reference_faults = [f for outcome in outcomes for f in outcome.reference_faults]
    if reference_faults:
        raise ChallengeBroken(*reference_faults)
    prediction_faults = [f for outcome in outcomes for f in outcome.prediction_faults]
    if prediction_faults:
        raise rejection(challenge, [*prediction_faults, *received.findings])
    if lost := everything_outside([outcome.placed for outcome in outcomes]):
        raise rejection(challenge, [*lost, *received.findings])
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    warnings = [finding for outcome in outcomes for finding in outcome.warnings]
    return summarise(challenge, results, [*received.findings, *warnings])


def rejection(challenge: Challenge, findings: Iterable[Finding]) -> SubmissionRejected:
    """What is raised for a submission with faults."""
    names = {name for case in challenge.cases for name in (case.name, case.group)}
    return SubmissionRejected(*findings).hiding(names if challenge.submission.case_names == "hidden" else ())


CaseContent = Annotations | tuple[CaseFile, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedSubmission:
    """A submission as far as it is known before its cases are read: what belongs to each case, and findings."""

    files: SubmissionFiles
    contents: Mapping[str, CaseContent]
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


def receive_submission(challenge: Challenge, path: Path) -> ReceivedSubmission:
    """Find the files of every case; files that hold all cases are read here. Raises SubmissionRejected, WrongUsage."""
    try:
        files = open_submission(path, challenge.limits)
    except SubmissionRejected as error:
        raise rejection(challenge, error.findings) from None
    layout = find_case_files(files, challenge, partial(read_json, limits=challenge.limits))
    if not layout.shared_files:
        return ReceivedSubmission(files, layout.files, layout.findings)
    shared = read_shared(submission_side(challenge, files), challenge.cases, layout.shared_files)
    told = collection_findings(challenge, shared.mentioned, shared.unknown)
    findings = (*layout.findings, *shared.faults, *shared.warnings, *([] if shared.faults else told))
    return ReceivedSubmission(files, shared.cases, findings)


@dataclass(frozen=True, slots=True, eq=False)
class CaseInput:
    """What is known of a case before it is scored.

    reference   its annotations, if a file of all cases holds them; None: read its own files
    prediction  the same, or its files; None: not submitted
    """

    case: Case
    reference: Annotations | None
    prediction: CaseContent | None


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What a worker sends back about a case: a result, or what is at fault.

    ``placed`` is the number of predicted nuclei, and of those that lie outside the image or on no pixel of it.
    """

    result: CaseResult | None = None
    reference_faults: tuple[Finding, ...] = ()
    prediction_faults: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    placed: tuple[int, int] = (0, 0)


def score_cases(
    challenge: Challenge, folder: Path, files: SubmissionFiles, inputs: Sequence[CaseInput]
) -> list[CaseOutcome]:
    """Read, match and measure some cases. Faults come back as data, so that one pass finds all of them."""
    matched: list[MatchedCase] = []
    warnings: list[tuple[Finding, ...]] = []
    placed: list[tuple[int, int]] = []
    faulty: list[CaseOutcome] = []
    for given in inputs:
        try:
            reference = read_reference(challenge, folder, given.case, given.reference)
        except InputFault as fault:
            faulty.append(CaseOutcome(reference_faults=fault.findings))
            continue
        prediction: ReadPrediction | None = None
        try:
            if given.prediction is not None:
                prediction = read_prediction(challenge, files, given.case, given.prediction)
        except InputFault as fault:
            faulty.append(CaseOutcome(prediction_faults=fault.findings))
            continue
        matched.append(match_case(challenge, given.case, reference, prediction.instances if prediction else None))
        warnings.append((*reference.findings, *(prediction.findings if prediction else ())))
        placed.append((prediction.nuclei, prediction.outside) if prediction else (0, 0))
    if faulty:
        return faulty
    results = measure_cases(challenge, matched)
    return [
        CaseOutcome(result, warnings=told, placed=numbers)
        for result, told, numbers in zip(results, warnings, placed, strict=True)
    ]


def check_submission(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[Challenge, tuple[Finding, ...]]:
    """Everything that can be said about a submission without the reference; needs challenge.toml and cases.csv only."""
    challenge = Challenge.load(challenge_folder)
    check_columns(challenge)
    return challenge, all_findings(challenge, receive_submission(challenge, Path(submission)), workers, progress)


def all_findings(
    challenge: Challenge, received: ReceivedSubmission, workers: int | None, progress: Progress | None
) -> tuple[Finding, ...]:
    """Findings of the layout and of everything that could be assigned to a case."""
    tasks = [
        (challenge, received.files, case, received.contents[case.name])
        for case in challenge.cases
        if case.name in received.contents
    ]
    needs = memory_needs(challenge, challenge.cases, files=received.files, contents=received.contents)
    outcomes = list(run_tasks(check_case, tasks, plan_workers(workers, challenge.cases, needs), progress))
    of_cases = [finding for outcome in outcomes for finding in (*outcome.prediction_faults, *outcome.warnings)]
    has_faults = received.has_errors or any(outcome.prediction_faults for outcome in outcomes)
    lost = [] if has_faults else everything_outside([outcome.placed for outcome in outcomes])
    return (*received.findings, *of_cases, *lost)


def everything_outside(placed: Sequence[tuple[int, int]]) -> list[Finding]:
    """An error if there are predicted nuclei and none of them lies on its image."""
    nuclei, outside = (sum(numbers) for numbers in zip(*placed, strict=True)) if placed else (0, 0)
    if nuclei == 0 or outside < nuclei:
        return []
    got = f"all {nuclei:,} nuclei lie outside their images, or on no pixel of them"
    return [Finding("everything-outside", "submission", got, "coordinates in px of the images", OUTSIDE_FIX)]


def check_case(challenge: Challenge, files: SubmissionFiles, case: Case, content: CaseContent) -> CaseOutcome:
    try:
        prediction = read_prediction(challenge, files, case, content)
    except InputFault as fault:
        return CaseOutcome(prediction_faults=fault.findings)
    return CaseOutcome(warnings=prediction.findings, placed=(prediction.nuclei, prediction.outside))


def rasterise_reference(
    challenge_folder: Path | str, *, workers: int | None = None, progress: Progress | None = None
) -> tuple[Challenge, list[tuple[Case, PreparedReference]]]:
    """The reference of every case as instances, with the full rasterisation report. Raises ChallengeBroken."""
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder)
    try:
        shared = read_shared_reference(challenge, folder)
    except InputFault as fault:
        raise ChallengeBroken(*fault.findings) from fault
    tasks = [(challenge, folder, case, None if shared is None else shared.cases[case.name]) for case in challenge.cases]
    needs = memory_needs(challenge, challenge.cases, folder=folder, shared=shared)
    outcomes = list(run_tasks(rasterise_case, tasks, plan_workers(workers, challenge.cases, needs), progress))
    faults = [finding for outcome in outcomes if isinstance(outcome, tuple) for finding in outcome]
    if faults:
        raise ChallengeBroken(*faults)
    prepared = [outcome for outcome in outcomes if not isinstance(outcome, tuple)]
    return challenge, list(zip(challenge.cases, prepared, strict=True))


def rasterise_case(
    challenge: Challenge, folder: Path, case: Case, content: Annotations | None
) -> PreparedReference | tuple[Finding, ...]:
    try:
        return read_reference(challenge, folder, case, content, with_geometry_report=True)
    except InputFault as fault:
        return fault.findings


def check_columns(challenge: Challenge) -> None:
    """Refuse ranking columns that no result can have."""
    if challenge.ranking is None:
        return
    known = {
        ".".join((*prefix, *metric.path, aggregation))
        for index, rule in enumerate(challenge.matching.rules)
        for prefix in [("alternatives", rule.name) if index else ()]
        for metric in metrics_of(challenge.metrics.families, challenge.class_names, class_aware=rule.class_aware)
        for aggregation in AGGREGATIONS
    }
    unknown = [column.path for column in challenge.ranking.columns if column.path not in known]
    if unknown:
        raise ChallengeBroken(
            *(
                Finding(
                    "invalid-rule",
                    "challenge.toml: ranking.columns",
                    quote(path, 120),
                    "the path of a number in metrics.json, <family>.<metric>.<aggregation>",
                    did_you_mean(path, known),
                )
                for path in unknown
            )
        )


# --- from arrays ----------------------------------------------------------------------------------------------------


def score_instances(
    challenge: Challenge,
    images: Mapping[str, tuple[Instances, Instances | None]],
    *,
    groups: Mapping[str, str] | None = None,
) -> Result:
    """Score instances in memory: for each case name its reference and its prediction (None: not submitted).

    ``groups`` names the group (patient) of each case; a case without one is a group of its own. The cases of the
    challenge are replaced by these. Instances are taken as they are: rules on how files become instances, overlap and
    ignore rules among them, do not apply. Raises ValueError for no images, unusable names and classes, and
    SubmissionRejected for a missing prediction if the challenge rejects those.
    """
    if not images:
        raise ValueError("no images to score")
    missing = sorted(name for name, (_, prediction) in images.items() if prediction is None)
    if missing and challenge.submission.missing_case == "reject":
        raise SubmissionRejected(
            *(Finding("missing-case", f"case {quote(name)}", "no prediction", "one for every case") for name in missing)
        )
    cases = [Case(name, (groups or {}).get(name, name), *reference.shape_yx) for name, (reference, _) in images.items()]
    for case in cases:
        if not (is_safe_name(case.name) and is_safe_name(case.group)):
            raise ValueError(f"{case.name!r} in {case.group!r} cannot be the name of a case and its group")
    cases.sort(key=lambda case: (case.group, case.name))
    complete = challenge.model_copy(update={"cases": tuple(cases)})
    check_columns(complete)
    nothing = Region(np.empty(0, np.int64), np.empty(0, np.int64))
    matched = [
        match_case(complete, case, PreparedReference(images[case.name][0], nothing), images[case.name][1])
        for case in cases
    ]
    return summarise(complete, measure_cases(complete, matched))


def count_label_maps(images: Sequence[LabelMaps], *, hausdorff: bool = True) -> list[MatchCounts]:
    """Counts of each image from its two label maps, matched by IoU above 1/2 whatever the classes.

    The engine without files and rules, for those who have dense arrays and want numbers fast.

    >>> import numpy as np
    >>> labels = np.array([[1, 1, 0, 4, 4]])
    >>> maps = LabelMaps(labels, 10 * labels, np.array([1, 2]), np.array([1, 1]))
    >>> count_label_maps([maps])[0].confusion.tolist()
    [[0, 0, 0], [0, 1, 0], [0, 1, 0]]
    """
    matched: list[tuple[Instances, Instances, list[Matches]]] = []
    for maps in images:
        reference, prediction, table = instances_and_overlaps(maps, with_runs=hausdorff)
        found = match_iou_above(table, reference, prediction, threshold=0.5, class_aware=False)
        matched.append((reference, prediction, [found]))
    distances: Sequence[Sequence[Distances | None]] = [[None]] * len(matched)
    if hausdorff:
        distances = measure_distances(matched, border="open")
    return [
        count_matches(
            reference,
            prediction,
            found[0],
            classes=int(max(reference.class_id.max(initial=1), prediction.class_id.max(initial=1))),
            distances_px=distances_px[0],
        )
        for (reference, prediction, found), distances_px in zip(matched, distances, strict=True)
    ]


def instances_and_overlaps(maps: LabelMaps, *, with_runs: bool) -> tuple[Instances, Instances, OverlapTable]:
    """Both sides and their overlap table, in one pass over the pixels where the labels allow it.

    Without runs the instances have classes and ids only; nothing that matches at an IoU above 1/2 asks for more.
    """
    pair = compare_label_maps(maps.reference, maps.prediction, with_runs=with_runs)
    if pair is None:
        reference = instances_from_labels(maps.reference, maps.reference_class)
        prediction = instances_from_labels(maps.prediction, maps.prediction_class)
        return reference, prediction, overlap_table(reference, prediction)
    none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
    height, width = maps.reference.shape

    def side(ids: npt.NDArray[np.int64], classes: npt.NDArray[np.int16], runs: Any) -> Instances:
        return Instances((height, width), classes.astype(np.int16), ids, *(runs or none))

    return (
        side(pair.reference_ids, maps.reference_class, pair.reference_runs),
        side(pair.prediction_ids, maps.prediction_class, pair.prediction_runs),
        pair.table,
    )
