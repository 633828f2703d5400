"""Which cases a worker takes together decides nothing: neither what is scored nor what is told."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluation import Challenge
from evaluation.execution.workers import run_job
from evaluation.findings.errors import refused
from evaluation.model import CaseResult
from evaluation.scoring import street
from evaluation.scoring.match import MatchedCase
from evaluation.scoring.receive import receive_submission

FROZEN = Path(__file__).parent / "golden/frozen"


@pytest.mark.parametrize("together", [1, 2, 8])
def test_a_fault_found_while_measuring_and_one_found_while_reading_are_both_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    own = street.measure_cases

    def measure(challenge: Challenge, matched: Sequence[MatchedCase]) -> list[CaseResult]:
        if any(case.case.name == "P2_1" for case in matched):
            raise refused("case-too-costly", "case 'P2_1'", predictions=3)
        return own(challenge, matched)

    monkeypatch.setattr(street, "measure_cases", measure)
    submission = Path(shutil.copytree(FROZEN / "submissions/namer", tmp_path / "submission"))
    next((submission / "P2/P2_2").rglob("*.mat")).write_bytes(b"no MATLAB file")
    challenge, folder = Challenge.load(FROZEN / "challenge"), FROZEN / "challenge"
    received = receive_submission(challenge, submission, folder)
    cases = run_job(street.sort_cases(challenge, folder, received), 1)
    outcomes = [
        outcome
        for first in range(0, len(cases.inputs), together)
        for outcome in street.score_cases(
            cases.challenge, folder, received.files, cases.inputs[first : first + together]
        )
    ]
    faults = [{finding.code for finding in outcome.prediction_faults} for outcome in outcomes]
    names = [case.case.name for case in cases.inputs]
    assert dict(zip(names, faults, strict=True)) == {
        name: {"P2_1": {"case-too-costly"}, "P2_2": {"wrong-format"}}.get(name, set()) for name in names
    }
    assert [outcome.result is None for outcome in outcomes] == [name in ("P2_1", "P2_2") for name in names]
