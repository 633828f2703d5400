"""The street, readable as a list of its stages. Only this module knows their order.

files -> outlines or label images -> instances -> overlap table -> matches -> counts -> scores -> files
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from evaluation.challenge import Challenge
from evaluation.execution.worker_pools import SharedPool
from evaluation.execution.workers import Plan, Progress, Workers, batches, plan_workers, run_tasks
from evaluation.findings import Finding
from evaluation.findings.errors import ChallengeBroken, InputFault, faults_as
from evaluation.model import (
    CaseResult,
)
from evaluation.scoring.cases import CaseInput, CaseOutcome, ReadCase, read_and_match, score_cases
from evaluation.scoring.check import all_findings, everything_outside
from evaluation.scoring.columns import check_columns
from evaluation.scoring.memory import memory_needs
from evaluation.scoring.rasterise import with_sizes
from evaluation.scoring.read import prepare_decoders, read_shared_reference, reference_files
from evaluation.scoring.receive import ReceivedSubmission, check_links, receive_submission, rejection
from evaluation.scoring.score import Result, summarise
from evaluation.submission import SubmissionFiles

Finished = TypeVar("Finished")

# --- from files -----------------------------------------------------------------------------------------------------


def score_submission(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    challenge: Challenge | None = None,
    executor: Executor | None = None,
) -> Result:
    """Score a submission (a folder or a ZIP) against the reference of a challenge folder.

    challenge     other rules for the same cases and files than those of challenge.toml
    executor      works on the cases, ``workers`` of its tasks at once, in the place of processes of its own

    Raises SubmissionRejected or ChallengeBroken with all that is wrong, WrongUsage for a submission that is not there,
    and ValueError for other wrong arguments; nothing is scored then. ``workers`` None chooses from the
    processors, the memory and the size of the challenge; it never changes the result.
    """
    if challenge is not None and not isinstance(challenge, Challenge):
        raise ValueError(f"challenge is of type {type(challenge).__name__}; expected other rules, a Challenge")
    worker_pool = workers if executor is None else SharedPool(executor, workers)
    begun = begin_submission(challenge_folder, submission, worker_pool, progress, challenge)
    return summarise(*count_cases(begun, progress))


def score_then(
    finish: Callable[[Result], Finished],
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    workers: Workers = None,
    challenge: Challenge | None = None,
) -> Finished:
    """What is made of the result. A worker pool does that too: small cases are counted in the time that it takes.

    Cases that one worker takes together become a result there, so that what was counted of them is not sent around.
    """
    begun = begin_submission(challenge_folder, submission, workers, None, challenge)
    parts, plan, findings = begun.planned.parts, begun.planned.plan, begun.received.findings
    if plan.worker_pool is None or len(parts) > 1:
        task = (finish, *count_cases(begun, None))
        return next(run_tasks(finish_submission, [task], plan, None)) if plan.worker_pool else finish_submission(*task)
    whole = (finish, begun.challenge, begun.folder, begun.received.files, parts[0], findings)
    finished: list[Finished]
    finished, outcomes = next(run_tasks(score_together, [whole], plan, None))
    raise_faults(begun.challenge, begun.received, outcomes)
    return finished[0]


def score_together(
    finish: Callable[[Result], Finished],
    challenge: Challenge,
    folder: Path,
    files: SubmissionFiles,
    inputs: list[CaseInput],
    findings: Sequence[Finding],
) -> tuple[list[Finished], list[CaseOutcome]]:
    """What is made of a submission whose cases one worker takes together; or the outcomes, if any is faulty."""
    outcomes = score_cases(challenge, folder, files, inputs)
    if any(o.reference_faults or o.prediction_faults for o in outcomes) or everything_outside(outcomes):
        return [], outcomes
    return [finish_submission(finish, challenge, *joined(outcomes, findings))], []


def finish_submission(
    finish: Callable[[Result], Finished],
    challenge: Challenge,
    results: Sequence[CaseResult],
    findings: Sequence[Finding],
) -> Finished:
    return finish(summarise(challenge, results, findings))


@dataclass(frozen=True, slots=True, eq=False)
class BegunSubmission:
    """A submission whose files are named and sorted into cases, and how these are worked on."""

    challenge: Challenge
    folder: Path
    received: ReceivedSubmission
    planned: PlannedCases


def begin_submission(
    challenge_folder: Path | str,
    submission: Path | str,
    workers: Workers,
    progress: Progress | None,
    challenge: Challenge | None,
) -> BegunSubmission:
    """Everything that comes before the cases are read. Raises SubmissionRejected, ChallengeBroken."""
    folder = Path(challenge_folder).absolute()  # workers may be elsewhere
    challenge = Challenge.load(folder) if challenge is None else challenge
    check_columns(challenge)
    received = receive_submission(challenge, Path(submission), folder)
    check_links(challenge, received.files, folder)
    if not received.has_errors:
        challenge = with_sizes(challenge, folder, workers)
    return BegunSubmission(challenge, folder, received, plan_cases(challenge, folder, received, workers, progress))


def count_cases(begun: BegunSubmission, progress: Progress | None) -> tuple[Challenge, list[CaseResult], list[Finding]]:
    """All cases of a submission, with the rules and the findings. Raises SubmissionRejected, ChallengeBroken."""
    challenge, received, planned = begun.challenge, begun.received, begun.planned
    tasks = [(challenge, begun.folder, received.files, part) for part in planned.parts]
    outcomes = [outcome for part in run_tasks(score_cases, tasks, planned.plan, progress) for outcome in part]
    raise_faults(challenge, received, outcomes)
    return challenge, *joined(outcomes, received.findings)


def joined(outcomes: Sequence[CaseOutcome], findings: Sequence[Finding]) -> tuple[list[CaseResult], list[Finding]]:
    """The results of all cases, and the findings about files and cases."""
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    return results, [*findings, *(finding for outcome in outcomes for finding in outcome.warnings)]


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
        check_references(challenge, folder, received)
        raise rejection(challenge, all_findings(challenge, received, workers, progress), received.inputs)
    with faults_as(ChallengeBroken):
        shared = read_shared_reference(challenge, folder)
    inputs = [
        CaseInput(case, None if shared is None else shared.cases[case.name], received.contents.get(case.name))
        for case in challenge.cases
    ]
    needs = memory_needs(
        challenge, challenge.cases, folder=folder, shared=shared, files=received.files, contents=received.contents
    )
    plan = plan_workers(workers, challenge.cases, needs)
    if plan.worker_pool is None:
        prepare_decoders(challenge, alone=plan.workers == 1 and plan.is_in_process)
    return PlannedCases(batches(inputs, needs, plan.workers), plan)


def read_submission(folder: Path, challenge: Challenge, path: Path) -> list[ReadCase]:
    """All cases of a submission. Raises SubmissionRejected, ChallengeBroken."""
    received = receive_submission(challenge, path, folder)
    planned = plan_cases(challenge, folder, received, 1, None)
    outcomes = [read_and_match(challenge, folder, received.files, of) for part in planned.parts for of in part]
    raise_faults(challenge, received, [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)])
    return [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]


def check_references(challenge: Challenge, folder: Path, received: ReceivedSubmission) -> None:
    """Raise ChallengeBroken if a case that the submission lacks has no reference: that is the organisers' fault."""
    faults: list[Finding] = []
    for case in challenge.cases:
        if not challenge.reference.is_shared and case.name not in received.contents:
            try:
                reference_files(challenge, folder, case)
            except InputFault as fault:
                faults += fault.findings
    if faults:
        raise ChallengeBroken(*faults)


def raise_faults(challenge: Challenge, received: ReceivedSubmission, outcomes: Sequence[CaseOutcome]) -> None:
    """Raise ChallengeBroken or SubmissionRejected if any case is at fault, with all that is wrong."""
    reference_faults = [f for outcome in outcomes for f in outcome.reference_faults]
    if reference_faults:
        raise ChallengeBroken(*reference_faults)
    prediction_faults = [f for outcome in outcomes for f in outcome.prediction_faults]
    if prediction_faults:
        raise rejection(challenge, [*prediction_faults, *received.findings], received.inputs)
    if lost := everything_outside(outcomes):
        raise rejection(challenge, [*lost, *received.findings], received.inputs)


# --- from arrays ----------------------------------------------------------------------------------------------------
