"""The reference of every case as instances, with what happened on the way."""

from __future__ import annotations

from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.execution.workers import Progress, plan_workers, run_tasks
from evaluation.findings import Finding
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.instances.prepare import PreparedReference
from evaluation.model import (
    Annotations,
    Case,
)
from evaluation.scoring.memory import memory_needs
from evaluation.scoring.read import (
    read_reference,
    read_shared_reference,
)


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
