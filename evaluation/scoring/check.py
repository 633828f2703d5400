"""Everything that can be said about a submission without the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.execution.workers import Progress, Workers, plan_workers, run_tasks
from evaluation.findings import Finding, fault
from evaluation.findings.errors import InputFault
from evaluation.model import (
    Case,
)
from evaluation.scoring.cases import CaseContent, CaseOutcome
from evaluation.scoring.columns import check_columns
from evaluation.scoring.memory import memory_needs
from evaluation.scoring.read import (
    read_prediction,
)
from evaluation.scoring.receive import ReceivedSubmission, receive_submission
from evaluation.submission import SubmissionFiles


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
    received = receive_submission(challenge, Path(submission), Path(challenge_folder))
    return challenge, all_findings(challenge, received, workers, progress)


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
    lost = [] if has_faults else everything_outside(outcomes)
    return (*received.findings, *of_cases, *lost)


def everything_outside(outcomes: Sequence[CaseOutcome]) -> list[Finding]:
    """An error if there are predicted nuclei and none of them lies on its image."""
    nuclei, outside = (sum(outcome.placed[index] for outcome in outcomes) for index in (0, 1))
    if nuclei == 0 or outside < nuclei:
        return []
    return [fault("everything-outside", "submission", nuclei=nuclei)]


def check_case(challenge: Challenge, files: SubmissionFiles, case: Case, content: CaseContent) -> CaseOutcome:
    try:
        prediction = read_prediction(challenge, files, case, content)
    except InputFault as error:
        return CaseOutcome(prediction_faults=error.findings)
    return CaseOutcome(warnings=prediction.findings, placed=(prediction.nuclei, prediction.outside))
