"""A submission before its cases are read: which file is which case, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.decoding.json import read_json
from evaluation.findings import Finding
from evaluation.findings.errors import SubmissionRejected
from evaluation.scoring.cases import CaseContent
from evaluation.scoring.read import (
    read_shared,
    submission_side,
)
from evaluation.submission import SubmissionFiles, collection_findings, find_case_files, open_submission


def rejection(challenge: Challenge, findings: Iterable[Finding]) -> SubmissionRejected:
    """What is raised for a submission with faults."""
    names = {name for case in challenge.cases for name in (case.name, case.group)}
    return SubmissionRejected(*findings).hiding(names if challenge.submission.case_names == "hidden" else ())


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
    unmatched = collection_findings(challenge, shared.mentioned, shared.unknown)
    findings = (*layout.findings, *shared.faults, *shared.warnings, *([] if shared.faults else unmatched))
    return ReceivedSubmission(files, shared.cases, findings)
