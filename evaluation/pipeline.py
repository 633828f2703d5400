"""The street, readable as a list of its stages. Only this module knows their order.

files -> outlines or label images -> instances -> overlap table -> matches -> counts -> scores -> files
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.challenge import Challenge, RuleFault, is_safe_name
from evaluation.crews import ExecutorCrew
from evaluation.errors import ChallengeBroken, InputFault, SubmissionRejected
from evaluation.findings import Finding, did_you_mean, quote
from evaluation.formats.bounded_json import read_json
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.perturb import perturb_instances
from evaluation.instances.prepare import PreparedReference
from evaluation.matching import compare_label_maps, match_iou_above, overlap_table
from evaluation.measuring import measure_cases, measure_outlines, outlined_image
from evaluation.metrics import count_matches, metrics_of
from evaluation.metrics.measure import overlap_measures
from evaluation.model import (
    STRATUM_MEAN,
    Annotations,
    Case,
    CaseResult,
    Float64,
    Instances,
    LabelMaps,
    MatchCounts,
    Matches,
    OverlapTable,
    Perturbation,
    Region,
)
from evaluation.pairing import MatchedCase, match_case
from evaluation.reading import (
    OUTSIDE_FIX,
    ReadPrediction,
    read_prediction,
    read_reference,
    read_shared,
    read_shared_reference,
    submission_side,
)
from evaluation.submission import CaseFile, SubmissionFiles, collection_findings, find_case_files, open_submission
from evaluation.summary import Result, aggregations_of, summarise
from evaluation.workers import Plan, Progress, Workers, batches, memory_needs, plan_workers, run_tasks

Finished = TypeVar("Finished")

# --- from files -----------------------------------------------------------------------------------------------------


def score_submission(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    challenge: Challenge | None = None,
    perturbation: Perturbation = "none",
    executor: Executor | None = None,
) -> Result:
    """Score a submission (a folder or a ZIP) against the reference of a challenge folder.

    challenge     other rules for the same cases and files than those of challenge.toml
    perturbation  of the predictions, after they are read
    executor      works on the cases, ``workers`` of its tasks at once, in the place of processes of its own

    Raises SubmissionRejected or ChallengeBroken with all that is wrong; nothing is scored then. ``workers`` None
    chooses from the processors, the memory and the size of the challenge; it never changes the result.
    """
    crew = workers if executor is None else ExecutorCrew(executor, workers)
    return summarise(*count_submission(challenge_folder, submission, crew, progress, challenge, perturbation).counted)


def score_then(
    finish: Callable[[Result], Finished],
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    workers: Workers = None,
    challenge: Challenge | None = None,
    perturbation: Perturbation = "none",
) -> Finished:
    """What is made of the result. A crew does that too: small cases are counted in the time that it takes."""
    found = count_submission(challenge_folder, submission, workers, None, challenge, perturbation)
    task = (finish, *found.counted)
    return next(run_tasks(finish_submission, [task], found.plan, None)) if found.plan.crew else finish_submission(*task)


def finish_submission(
    finish: Callable[[Result], Finished],
    challenge: Challenge,
    results: Sequence[CaseResult],
    findings: Sequence[Finding],
) -> Finished:
    return finish(summarise(challenge, results, findings))


@dataclass(frozen=True, slots=True, eq=False)
class CountedSubmission:
    """All cases of a submission, with the rules and the findings, and how they were worked on."""

    counted: tuple[Challenge, list[CaseResult], list[Finding]]
    plan: Plan


def count_submission(
    challenge_folder: Path | str,
    submission: Path | str,
    workers: Workers,
    progress: Progress | None,
    challenge: Challenge | None,
    perturbation: Perturbation,
) -> CountedSubmission:
    """Everything that comes before the scores. Raises SubmissionRejected, ChallengeBroken."""
    folder = Path(challenge_folder).absolute()  # workers may be elsewhere
    challenge = Challenge.load(folder) if challenge is None else challenge
    check_columns(challenge)
    received = receive_submission(challenge, Path(submission))
    planned = plan_cases(challenge, folder, received, workers, progress)
    tasks = [(challenge, folder, received.files, part, perturbation) for part in planned.parts]
    outcomes = [outcome for part in run_tasks(score_cases, tasks, planned.plan, progress) for outcome in part]
    raise_faults(challenge, received, outcomes)
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    warnings = [finding for outcome in outcomes for finding in outcome.warnings]
    return CountedSubmission((challenge, results, [*received.findings, *warnings]), planned.plan)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCases:
    """All cases of a challenge in parts for the workers; each part is worked on at a time."""

    parts: list[list[CaseInput]]
    plan: Plan


def plan_cases(
    challenge: Challenge, folder: Path, received: ReceivedSubmission, workers: Workers, progress: Progress | None
) -> PlannedCases:
    """What belongs to each case, and how the cases are worked on. Raises SubmissionRejected, ChallengeBroken."""
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
    return PlannedCases(batches(inputs, needs, plan.workers), plan)


def raise_faults(challenge: Challenge, received: ReceivedSubmission, outcomes: Sequence[CaseOutcome]) -> None:
    """Raise ChallengeBroken or SubmissionRejected if any case is at fault, with all that is wrong."""
    reference_faults = [f for outcome in outcomes for f in outcome.reference_faults]
    if reference_faults:
        raise ChallengeBroken(*reference_faults)
    prediction_faults = [f for outcome in outcomes for f in outcome.prediction_faults]
    if prediction_faults:
        raise rejection(challenge, [*prediction_faults, *received.findings])
    if lost := everything_outside([outcome.placed for outcome in outcomes]):
        raise rejection(challenge, [*lost, *received.findings])


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
    challenge: Challenge,
    folder: Path,
    files: SubmissionFiles,
    inputs: Sequence[CaseInput],
    perturbation: Perturbation = "none",
) -> list[CaseOutcome]:
    """Read, match and measure some cases. Faults come back as data, so that one pass finds all of them."""
    outcomes = [read_and_match(challenge, folder, files, given, perturbation) for given in inputs]
    faulty = [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)]
    if faulty:
        return faulty
    found = [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]
    try:
        results = measure_cases(challenge, [read.matched for read in found])
    except InputFault as fault:
        return [CaseOutcome(prediction_faults=fault.findings)]
    return [
        CaseOutcome(result, warnings=read.warnings, placed=read.placed)
        for result, read in zip(results, found, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class ReadCase:
    """A case that is read and matched. ``prediction`` is what was read, before an ignore region acts on it."""

    matched: MatchedCase
    prediction: Instances | None
    warnings: tuple[Finding, ...]
    placed: tuple[int, int]


def read_and_match(
    challenge: Challenge,
    folder: Path,
    files: SubmissionFiles,
    given: CaseInput,
    perturbation: Perturbation = "none",
) -> ReadCase | CaseOutcome:
    """Read and match one case, or say what is at fault."""
    try:
        reference = read_reference(challenge, folder, given.case, given.reference)
    except InputFault as fault:
        return CaseOutcome(reference_faults=fault.findings)
    prediction: ReadPrediction | None = None
    try:
        if given.prediction is not None:
            prediction = read_prediction(challenge, files, given.case, given.prediction)
        instances = perturb_instances(prediction.instances, perturbation) if prediction else None
        counts = prediction.class_counts if prediction else None
        matched = match_case(challenge, given.case, reference, instances, counts)
    except InputFault as fault:
        return CaseOutcome(prediction_faults=fault.findings)
    warnings = (*reference.findings, *(prediction.findings if prediction else ()))
    return ReadCase(matched, instances, warnings, (prediction.nuclei, prediction.outside) if prediction else (0, 0))


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
    challenge: Challenge, received: ReceivedSubmission, workers: Workers, progress: Progress | None
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
    """Refuse columns of a ranking, or of confidence intervals, that no result can have."""
    columns = {
        "ranking.columns": [column.path for column in challenge.ranking.columns] if challenge.ranking else [],
        "confidence.columns": challenge.confidence.columns if challenge.confidence else (),
    }
    if not any(columns.values()):
        return
    metrics = {
        ".".join((*prefix, *metric.path))
        for index, (rule, class_aware) in enumerate(challenge.matching.passes)
        for prefix in [("alternatives", rule) if index else ()]
        for metric in metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=index == 0)
    }
    known = {f"{metric}.{aggregation}" for metric in metrics for aggregation in aggregations_of(challenge)}
    faults = [
        unknown_column(f"challenge.toml: {key}", path, metrics, known)
        for key, paths in columns.items()
        for path in paths
        if path not in known
    ]
    if faults:
        raise ChallengeBroken(*faults)


def unknown_column(where: str, path: str, metrics: Collection[str], known: Collection[str]) -> Finding:
    """The finding for a path that no result has: a mean over strata without strata, or anything else."""
    metric, _, aggregation = path.rpartition(".")
    if aggregation == STRATUM_MEAN and metric in metrics:
        fix = "Fill in the column 'stratum': the tissue, organ or centre of each case."
        expected = "a stratum for every case in cases.csv"
        return Finding("contradictory-rules", where, f"{quote(path, 120)}, but cases have no stratum", expected, fix)
    expected = "the path of a number in metrics.json, <family>.<metric>.<aggregation>"
    return Finding("invalid-rule", where, quote(path, 120), expected, did_you_mean(path, known))


# --- from arrays ----------------------------------------------------------------------------------------------------


def score_instances(
    challenge: Challenge,
    images: Mapping[str, tuple[Instances, Instances | None]],
    *,
    groups: Mapping[str, str] | None = None,
    strata: Mapping[str, str] | None = None,
    spacing_um: float | None = None,
) -> Result:
    """Score instances in memory: for each case name its reference and its prediction (None: not submitted).

    ``groups`` names the group (patient) of each case; a case without one is a group of its own. ``strata`` names the
    stratum of each case, if there are strata; ``spacing_um`` is the size of the pixels of all images, if it matters.
    The cases of the challenge are replaced by these. Instances are taken as they are: rules on how files become
    instances, overlap and ignore rules among them, do not apply. Raises ValueError for no images, unusable names and
    classes, and what the rules contradict in the cases, and
    SubmissionRejected for a missing prediction if the challenge rejects those.
    """
    if not images:
        raise ValueError("no images to score")
    missing = sorted(name for name, (_, prediction) in images.items() if prediction is None)
    if missing and challenge.submission.missing_case == "reject":
        raise SubmissionRejected(
            *(Finding("missing-case", f"case {quote(name)}", "no prediction", "one for every case") for name in missing)
        )
    cases = [
        Case(name, (groups or {}).get(name, name), *of[0].shape_yx, spacing_um, stratum=(strata or {}).get(name, ""))
        for name, of in images.items()
    ]
    stratum_of = {case.group: case.stratum for case in cases}
    for case in cases:
        if stratum_of[case.group] != case.stratum:
            raise ValueError(f"group {case.group!r} is in two strata")
        if not all(is_safe_name(name) for name in (case.name, case.group, case.stratum or "none")):
            raise ValueError(f"{case.name!r} in {case.group!r} cannot be the name of a case and its group")
    cases.sort(key=lambda case: (case.group, case.name))
    complete = challenge.model_copy(update={"cases": tuple(cases)})
    try:
        complete.check_metrics()
    except RuleFault as fault:
        raise ValueError(str(fault).replace("|", ": ")) from None
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
    surfaces: Sequence[Sequence[Mapping[str, Float64]]] = [[{}]] * len(matched)
    if hausdorff:
        wanted, tolerances = {"hausdorff_px", "hausdorff95_px"}, [None] * len(matched)
        outlined = [outlined_image(*of_image) for of_image in matched]
        surfaces = measure_outlines(outlined, wanted, border="open", tolerances_px=tolerances)
    return [
        count_matches(
            reference,
            prediction,
            found[0],
            classes=int(max(reference.class_id.max(initial=1), prediction.class_id.max(initial=1))),
            measures={**overlap_measures(found[0]), **of_image[0]},
        )
        for (reference, prediction, found), of_image in zip(matched, surfaces, strict=True)
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
