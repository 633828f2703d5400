"""The reference of every case as instances, with what happened on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from evaluation.challenge import Challenge
from evaluation.execution.workers import Job, Progress, Work, run_job
from evaluation.findings import EXAMPLES_SHOWN, Finding, fault, quote
from evaluation.findings.errors import ChallengeBroken, InputFault, faults_as
from evaluation.instances.prepare import PreparedReference
from evaluation.matching.duplicates import find_twins
from evaluation.metrics.segmentation import quantile_sizes
from evaluation.model import Annotations, Case, Instances, Int64
from evaluation.scoring.read import read_reference, read_shared_reference
from evaluation.scoring.receive import memory_needs

Made = TypeVar("Made")


def rasterise_reference(
    challenge_folder: Path | str, *, workers: int | None = None, progress: Progress | None = None
) -> tuple[Challenge, list[tuple[Case, PreparedReference]]]:
    """The reference of every case as instances, with the full rasterisation report. Raises ChallengeBroken."""
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder)
    prepared = run_job(of_every_case(rasterise_case, challenge, folder, progress), workers)
    return challenge, list(zip(challenge.cases, prepared, strict=True))


def of_every_case(
    function: Callable[[Challenge, Path, Case, Annotations | None], Made | tuple[Finding, ...]],
    challenge: Challenge,
    folder: Path,
    progress: Progress | None = None,
) -> Job[list[Made]]:
    """Apply a function to the reference of every case, in order. Raises ChallengeBroken."""
    with faults_as(ChallengeBroken):
        shared = read_shared_reference(challenge, folder)
    inputs = [(case, None if shared is None else shared.cases[case.name]) for case in challenge.cases]
    needs = memory_needs(challenge, challenge.cases, folder=folder, shared=shared)
    outcomes = yield Work(of_cases, (function, challenge, folder), inputs, needs, progress, at_once=1)
    faults = [finding for outcome in outcomes if isinstance(outcome, tuple) for finding in outcome]
    if faults:
        raise ChallengeBroken(*faults)
    return [outcome for outcome in outcomes if not isinstance(outcome, tuple)]


def of_cases(
    function: Callable[[Challenge, Path, Case, Annotations | None], Made],
    challenge: Challenge,
    folder: Path,
    inputs: Sequence[tuple[Case, Annotations | None]],
) -> list[Made]:
    return [function(challenge, folder, case, content) for case, content in inputs]


def rasterise_case(
    challenge: Challenge, folder: Path, case: Case, content: Annotations | None
) -> PreparedReference | tuple[Finding, ...]:
    """The reference of a case with its report. Nuclei drawn twice are looked for before the overlap rule acts."""
    rules = challenge.reference.model_copy(update={"overlap": "keep"})
    as_drawn = challenge.model_copy(update={"reference": rules})
    try:
        prepared = read_reference(challenge, folder, case, content, with_geometry_report=True)
        slips = annotated_twice(case, read_reference(as_drawn, folder, case, content).instances)
        return replace(prepared, findings=(*prepared.findings, *slips))
    except InputFault as error:
        return error.findings


def annotated_twice(case: Case, reference: Instances) -> list[Finding]:
    """A warning that names pairs of nuclei that share more than half of the smaller of the two: annotators' slips."""
    first, second = find_twins(reference)
    if not len(first):
        return []
    named = sorted(zip(reference.source_id[first].tolist(), reference.source_id[second].tolist(), strict=True), key=str)
    pairs = [f"{quote(str(one))} and {quote(str(other))}" for one, other in named[:EXAMPLES_SHOWN]]
    where = f"reference of case {quote(case.name)}"
    return [fault("annotated-twice", where, pairs=len(first), named="; ".join(pairs))]


def with_sizes(challenge: Challenge, folder: Path) -> Job[Challenge]:
    """The challenge with the sizes of nuclei that ``size_quantiles`` asks for; as it is if it has them already.

    They are those of the whole reference, so no submission, missing case or part of the cases changes them.
    Raises ChallengeBroken.
    """
    rules = challenge.metrics
    if not rules.size_quantiles or rules.sizes_px:
        return challenge
    return with_sizes_of(challenge, (yield from of_every_case(areas_of_case, challenge, folder)))


def with_sizes_of(challenge: Challenge, areas_px: Sequence[Int64]) -> Challenge:
    """The challenge with the sizes of nuclei, from the areas of the reference nuclei of each case."""
    names = challenge.metrics.size_quantiles
    if not names or challenge.metrics.sizes_px:
        return challenge
    sizes = quantile_sizes(np.concatenate([np.empty(0, np.int64), *areas_px]), names)
    return challenge.model_copy(update={"metrics": challenge.metrics.model_copy(update={"sizes_px": sizes})})


def areas_of_case(
    challenge: Challenge, folder: Path, case: Case, content: Annotations | None
) -> Int64 | tuple[Finding, ...]:
    try:
        return read_reference(challenge, folder, case, content).instances.areas_px()
    except InputFault as fault:
        return fault.findings
