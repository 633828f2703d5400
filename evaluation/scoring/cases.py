"""What a worker does with cases: read, match, measure; faults come back as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.model import (
    Annotations,
    Case,
    CaseResult,
    Instances,
)
from evaluation.scoring.kept_references import kept_references, rules_of_references
from evaluation.scoring.match import MatchedCase, match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.read import (
    ReadPrediction,
    begin_prediction,
    read_prediction,
    read_reference,
)
from evaluation.submission import CaseFile, SubmissionFiles

CaseContent = Annotations | tuple[CaseFile, ...]


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
) -> list[CaseOutcome]:
    """Read, match and measure some cases. Faults come back as data, so that one pass finds all of them."""
    rules = rules_of_references(challenge)
    outcomes = [read_and_match(challenge, folder, files, given, rules=rules) for given in inputs]
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
    *,
    rules: str | None = None,
) -> ReadCase | CaseOutcome:
    """Read and match one case, or say what is at fault. The prediction is decoded while the reference is read.

    rules  of references (``rules_of_references``), for a case that may be met again
    """
    begun = begin_prediction(challenge, files, given.case, given.prediction)
    try:
        if rules is None or given.reference is not None:
            reference = read_reference(challenge, folder, given.case, given.reference)
        else:
            reference = kept_references.read(challenge, folder, given.case, rules)
    except InputFault as fault:
        if begun:
            begun.drop()
        return CaseOutcome(reference_faults=suspect_size(challenge, files, given, fault.findings))
    prediction: ReadPrediction | None = None
    try:
        if given.prediction is not None:
            prediction = read_prediction(challenge, files, given.case, given.prediction, begun)
        instances = prediction.instances if prediction else None
        counts = prediction.class_counts if prediction else None
        matched = match_case(challenge, given.case, reference, instances, counts)
    except InputFault as fault:
        return CaseOutcome(prediction_faults=fault.findings)
    warnings = (*reference.findings, *(prediction.findings if prediction else ()))
    return ReadCase(matched, instances, warnings, (prediction.nuclei, prediction.outside) if prediction else (0, 0))


def suspect_size(
    challenge: Challenge, files: SubmissionFiles, given: CaseInput, faults: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """Faults of a reference; if the prediction has the size that the reference has, cases.csv is named."""
    sizes = {fault.got for fault in faults if fault.code == "wrong-shape"}
    if not sizes or given.prediction is None:
        return faults
    try:
        read_prediction(challenge, files, given.case, given.prediction)
    except InputFault as fault:
        said = {found.got for found in fault.findings if found.code == "wrong-shape"}
        fix = "The prediction has this size too: correct height and width in cases.csv."
        return tuple(replace(each, fix=fix) if each.got in sizes & said else each for each in faults)
    return faults
