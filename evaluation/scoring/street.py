"""The path of every submission: receive, decode, match, measure, score.

    receive   which file is which case, and the faults of that        receive_submission
    decode    files -> annotations -> instances, of both sides             read_reference, read_prediction
    match     instances -> overlap table -> pairs, under every rule        match_cases
    measure   pairs -> counts and distances                                measure_cases
    score     counts of all cases -> scores of the data set                summarise

Faults are returned as data, so that all faults of a submission are reported at once. ``workers`` decides which
process works on which cases; this module yields work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from evaluation.challenge import Challenge
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.guard import seconds_of
from evaluation.files.submission import SubmissionFiles, rejection
from evaluation.findings import Finding, fault
from evaluation.findings.errors import ChallengeBroken, InputFault, faults_as
from evaluation.scoring import receive
from evaluation.scoring.match import (
    CaseSides,
    MatchedCase,
    SeenNuclei,
    match_cases,
    only_nuclei,
    own_duplicates,
    share_of_only_nucleus,
    suspicious_content,
)
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.read import (
    SLOW_FILES,
    BegunFile,
    ReadPrediction,
    ReferenceFolder,
    Side,
    begin_predictions,
    kept_references,
    look_together,
    not_looked_at,
    prepare_decoders,
    read_prediction,
    read_shared_reference,
    reference_files,
    reference_side,
    rules_of_references,
    seconds_for,
    seconds_overdrawn,
    slow_files,
    submission_side,
)
from evaluation.scoring.score import Result, ScoredCases, check_columns, summarise
from evaluation.scoring.workers import Progress, Run, Work, check_workers, run_work
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.model import Case, CaseResult

_NO_NUCLEI = ("region", "around-others", "crowd")  # wordings of left-out
Finished = TypeVar("Finished")
CountedCases = tuple[Challenge, ScoredCases, list[Finding]]


def score_submission(
    challenge_folder: Path | str,
    submission: Path | str | SubmissionFiles,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    challenge: Challenge | None = None,
    executor: Executor | None = None,
) -> Result:
    """Score a submission (a folder or a ZIP) against the reference of a challenge folder.

    challenge     rules other than challenge.toml for the same cases and files
    executor      runs the cases, ``workers`` tasks at once, instead of new processes

    Raises SubmissionRejected or ChallengeBroken with all faults, WrongUsage for a submission that is not there,
    and ValueError for other wrong arguments; nothing is scored then. ``workers`` None chooses from the
    processors, the memory and the size of the challenge; it never changes the result.
    """
    if challenge is not None and not isinstance(challenge, Challenge):
        raise ValueError(f"challenge is of type {type(challenge).__name__}; expected other rules, a Challenge")
    check_workers(workers)
    challenge = Challenge.load(challenge_folder) if challenge is None else challenge
    run = partial(run_work, workers=workers, executor=executor)
    submission = submission if isinstance(submission, SubmissionFiles) else Path(submission)
    return summarise(*count_submission(challenge, Path(challenge_folder), submission, run, progress))


def count_submission(
    challenge: Challenge,
    folder: ReferenceFolder,
    submission: Path | SubmissionFiles,
    run: Run,
    progress: Progress | None = None,
    *,
    writes: bool = True,
) -> CountedCases:
    """From a submission to the counts of all its cases; ``summarise`` makes scores of them.

    writes  objects.csv will be written
    """
    folder = folder.absolute() if isinstance(folder, Path) else folder  # workers may be elsewhere
    check_columns(challenge)
    received = receive.receive_submission(challenge, submission, folder)
    receive.check_links(challenge, received.files, folder)
    cases = sort_cases(challenge, folder, received, progress, run)
    score = partial(score_cases, writes=writes)
    work = cases.work(score, cases.challenge, folder, received.files, progress=progress)
    seconds = seconds_for(challenge.cases)
    outcomes = run(replace(work, budget=BUDGET, spent=partial(_spent, seconds=seconds)))
    outcomes = _until_too_slow(outcomes, len(cases.inputs), seconds)
    raise_faults(challenge, received, outcomes)
    scored = ScoredCases.joined(cases.challenge, [outcome.scored for outcome in outcomes if outcome.scored is not None])
    warnings = [finding for outcome in outcomes for finding in outcome.warnings]
    seen = _seen_in(outcomes)
    of_reference = _of_reference(only_nuclei([outcome.reference_share for outcome in outcomes], "reference"))
    of_submission = only_nuclei([case.alone for case in seen], "submission")
    of_all = [*own_duplicates(challenge, seen), *of_reference, *of_submission]
    return cases.challenge, scored, [*received.findings, *warnings, *of_all]


def score_cases(
    challenge: Challenge,
    folder: ReferenceFolder,
    files: SubmissionFiles,
    inputs: Sequence[CaseInput],
    *,
    writes: bool = True,
) -> list[CaseOutcome]:
    """Decode, match and measure some cases: one task of a worker. Faults are returned as data."""
    before = seconds_of(str(files.path))
    read = _read_cases(challenge, folder, files, inputs, rules_of_references(challenge))
    matched = iter(match_cases(challenge, [sides.sides for sides in read if isinstance(sides, _ReadSides)]))
    outcomes = [sides if isinstance(sides, CaseOutcome) else _matched(sides, next(matched)) for sides in read]
    measured = iter(_measure_read(challenge, [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]))
    done = [(outcome, None) if isinstance(outcome, CaseOutcome) else next(measured) for outcome in outcomes]
    results = [result for _, result in done if result is not None]
    scored = ScoredCases(challenge, results, writes=writes) if len(results) == len(done) else None
    last = replace(done[-1][0], scored=scored, seconds=seconds_of(str(files.path)) - before)
    return [*(outcome for outcome, _ in done[:-1]), last]


def _measure_read(challenge: Challenge, cases: Sequence[ReadCase]) -> list[tuple[CaseOutcome, CaseResult | None]]:
    """Measure a batch of cases; if it fails, measure each case alone, so that reports do not depend on other cases."""
    try:
        results = measure_cases(challenge, [read.matched for read in cases])
    except InputFault as error:
        if len(cases) == 1:
            return [(CaseOutcome(prediction_faults=error.findings), None)]
        return [outcome for read in cases for outcome in _measure_read(challenge, [read])]
    outcomes = [
        CaseOutcome(
            warnings=read.warnings,
            seen=read.seen,
            reference_share=share_of_only_nucleus(read.matched.reference.instances),
        )
        for read in cases
    ]
    return list(zip(outcomes, results, strict=True))


def _matched(read: _ReadSides, matched: MatchedCase | InputFault) -> ReadCase | CaseOutcome:
    """Return a case with its warnings, or the fault by which it could not be matched."""
    if isinstance(matched, InputFault):
        return CaseOutcome(prediction_faults=matched.findings)
    return ReadCase(matched, read.warnings, read.seen)


def read_and_match(
    challenge: Challenge, folder: ReferenceFolder, files: SubmissionFiles, case: CaseInput, rules: str
) -> ReadCase | CaseOutcome:
    """Read and match one case, or return its faults. ``rules``: of references (``rules_of_references``)."""
    (read,) = _read_cases(challenge, folder, files, [case], rules)
    return read if isinstance(read, CaseOutcome) else _matched(read, *match_cases(challenge, [read.sides]))


def _read_cases(
    challenge: Challenge, folder: ReferenceFolder, files: SubmissionFiles, inputs: Sequence[CaseInput], rules: str
) -> list[_ReadSides | CaseOutcome]:
    """Read both sides of cases, or return their faults. Predictions are decoded while references are read.

    rules  of references (``rules_of_references``), under which a reference may be cached

    Nothing is read after the case that exceeds the processor time of the submission.
    """
    of_reference, of_submission = reference_side(challenge, folder), submission_side(challenge, files)
    read: list[CaseOutcome | tuple[PreparedReference, ReadPrediction | None]] = []
    owner = str(files.path)
    slow, before = 0, seconds_of(owner)
    with closing(begin_predictions(challenge, files, [(case.case, case.prediction) for case in inputs])) as groups:
        for case, reference, begun in _with_references(challenge, folder, inputs, groups, rules, of_reference):
            read.append(_read_prediction_of(challenge, files, case, reference, begun, of_submission))
            slow += _slow_files_of(outcome) if isinstance(outcome := read[-1], CaseOutcome) else 0
            if slow >= SLOW_FILES or seconds_overdrawn(owner, before, challenge.cases):
                break
    predictions = [
        (case.case, of_case[1])
        for case, of_case in zip(inputs, read, strict=False)
        if not isinstance(of_case, CaseOutcome) and of_case[1] is not None
    ]
    looked_at = iter(look_together(challenge, predictions))
    return [
        of_case
        if isinstance(of_case, CaseOutcome)
        else _sides_of(case.case, of_case[0], None if of_case[1] is None else next(looked_at))
        for case, of_case in zip(inputs, read, strict=False)
    ]


def _with_references(
    challenge: Challenge,
    folder: ReferenceFolder,
    inputs: Sequence[CaseInput],
    groups: Iterable[list[list[BegunFile]]],
    rules: str,
    side: Side,
) -> Iterator[tuple[CaseInput, PreparedReference | InputFault, list[BegunFile]]]:
    """Yield cases with their references, read for as many cases together as predictions are decoded together."""
    first = 0
    for begun in groups:
        cases = inputs[first : first + len(begun)]
        first += len(begun)
        references = kept_references(challenge, folder, [(case.case, case.reference) for case in cases], rules, side)
        yield from zip(cases, references, begun, strict=True)


def _read_prediction_of(
    challenge: Challenge,
    files: SubmissionFiles,
    case: CaseInput,
    reference: PreparedReference | InputFault,
    begun: Sequence[BegunFile],
    side: Side,
) -> CaseOutcome | tuple[PreparedReference, ReadPrediction | None]:
    """Read the prediction of a case with its reference, or return its faults."""
    if isinstance(reference, InputFault):
        for file in begun:
            file.drop()
        return CaseOutcome(reference_faults=_suspect_size(challenge, files, case, _of_reference(reference.findings)))
    try:
        if case.prediction is not None:
            return reference, read_prediction(challenge, files, case.case, case.prediction, begun, side)
    except InputFault as error:
        return CaseOutcome(prediction_faults=error.findings)
    return reference, None


def _sides_of(case: Case, reference: PreparedReference, prediction: ReadPrediction | None) -> _ReadSides:
    if prediction is None:
        return _ReadSides(CaseSides(case, reference, None), _of_reference(reference.findings))
    sides = CaseSides(case, reference, prediction.instances, prediction.class_counts)
    return _ReadSides(sides, (*_of_reference(reference.findings), *prediction.findings), prediction.seen)


def _of_reference(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(replace(finding, side="reference") for finding in findings)


# --- what travels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CaseInput:
    """Information on a case before it is scored.

    reference   its annotations, if a file of all cases contains them; None: read its own files
    prediction  the same, or its files; None: not submitted
    """

    case: Case
    reference: Annotations | None
    prediction: receive.CaseContent | None


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Outcome of a case from a worker: faults or warnings, and counts for the whole submission.

    reference_share  share of the image covered by the only reference nucleus; 0 for several nuclei or no nucleus

    The last of the cases in a batch has the totals of the batch:

    scored   their counts, if no case has a fault
    seconds  processor time of their files
    """

    reference_faults: tuple[Finding, ...] = ()
    prediction_faults: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    seen: SeenNuclei | None = None
    scored: ScoredCases | None = None
    seconds: float = 0.0
    reference_share: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _ReadSides:
    """A case with both sides read, before matching."""

    sides: CaseSides
    warnings: tuple[Finding, ...]
    seen: SeenNuclei | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReadCase:
    """A case that is read and matched."""

    matched: MatchedCase
    warnings: tuple[Finding, ...]
    seen: SeenNuclei | None


@dataclass(frozen=True, slots=True, eq=False)
class _SortedCases:
    """All cases of a challenge with known nucleus sizes, the content of each case, and its memory."""

    challenge: Challenge
    inputs: list[CaseInput]
    needs: list[int]

    def work(
        self, function: Callable[..., Sequence[object]], *common: object, progress: Progress | None = None
    ) -> Work:
        """Process all cases: the function is called with the common inputs, and some cases at a time."""
        return Work(function, common, self.inputs, self.needs, progress)


# --- before and after the cases ---------------------------------------------------------------------------------------


def sort_cases(
    challenge: Challenge,
    folder: ReferenceFolder,
    received: receive.ReceivedSubmission,
    progress: Progress | None = None,
    run: Run = run_work,
) -> _SortedCases:
    """The content of each case. Raises SubmissionRejected, with all faults of all cases, and ChallengeBroken."""
    if received.has_errors:
        _check_references(challenge, folder, received)
        findings = _find_all(challenge, received, progress, run)
        raise rejection(challenge, findings, received.inputs)
    with faults_as(ChallengeBroken):
        shared = read_shared_reference(challenge, folder)
    inputs = [
        CaseInput(case, None if shared is None else shared.cases[case.name], received.contents.get(case.name))
        for case in challenge.cases
    ]
    needs = receive.memory_needs(
        challenge, challenge.cases, folder=folder, shared=shared, files=received.files, contents=received.contents
    )
    prepare_decoders(challenge)
    if not all(rule.is_by_pixels for rule in challenge.matching.rules) or "overlap" in challenge.metrics.family_names:
        import scipy.spatial  # noqa: F401, once: workers that are copies of this process have them
    return _SortedCases(challenge, inputs, needs)


def score_then(
    finish: Callable[[Result], Finished], challenge: Challenge, challenge_folder: Path, submission: Path, run: Run
) -> Finished:
    """Score a submission and apply a function to its result."""
    return finish(summarise(*count_submission(challenge, challenge_folder, submission, run)))


def check_submission(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[Challenge, tuple[Finding, ...]]:
    """All findings about a submission without the reference; needs only challenge.toml and cases.csv."""
    challenge = Challenge.load(challenge_folder)
    check_columns(challenge)
    received = receive.receive_submission(challenge, Path(submission), Path(challenge_folder))
    return challenge, _find_all(challenge, received, progress, partial(run_work, workers=workers))


def _find_all(
    challenge: Challenge, received: receive.ReceivedSubmission, progress: Progress | None, run: Run
) -> tuple[Finding, ...]:
    """All findings about a submission: its layout, and every file of a case."""
    submitted = [case for case in challenge.cases if case.name in received.contents]
    inputs = [(case, received.contents[case.name]) for case in submitted]
    needs = receive.memory_needs(challenge, submitted, files=received.files, contents=received.contents)
    common, seconds = (challenge, received.files), seconds_for(challenge.cases)
    spent = partial(_spent, seconds=seconds)
    outcomes = run(Work(_check_cases, common, inputs, needs, progress, at_once=1, budget=BUDGET, spent=spent))
    outcomes = _until_too_slow(outcomes, len(inputs), seconds)
    of_cases = [finding for outcome in outcomes for finding in (*outcome.prediction_faults, *outcome.warnings)]
    has_faults = received.has_errors or any(outcome.prediction_faults for outcome in outcomes)
    lost = [] if has_faults else _everything_outside(outcomes)
    nuclei_seen = _seen_in(outcomes)
    meant = [] if has_faults or lost or challenge.are_counts else suspicious_content(nuclei_seen)
    meant = meant or only_nuclei([case.alone for case in nuclei_seen], "submission")
    return (*received.findings, *of_cases, *lost, *own_duplicates(challenge, nuclei_seen), *meant)


def _check_cases(
    challenge: Challenge, files: SubmissionFiles, inputs: Sequence[tuple[Case, receive.CaseContent]]
) -> list[CaseOutcome]:
    """Read some predictions: one task of a worker."""
    outcomes = []
    for case, content in inputs:
        before = seconds_of(str(files.path))
        try:
            prediction = read_prediction(challenge, files, case, content)
        except InputFault as error:
            outcome = CaseOutcome(prediction_faults=error.findings)
        else:
            (looked_at,) = look_together(challenge, [(case, prediction)])
            outcome = CaseOutcome(warnings=looked_at.findings, seen=looked_at.seen)
        outcomes.append(replace(outcome, seconds=seconds_of(str(files.path)) - before))
    return outcomes


def _slow_files_of(outcome: CaseOutcome) -> int:
    return slow_files(outcome.prediction_faults)


BUDGET = 1_000_000  # parts of what a submission may take: ``SLOW_FILES``, or the processor time of all its files


def _spent(outcome: CaseOutcome, *, seconds: int) -> int:
    """Return how much of the budget a case takes. ``seconds``: processor time for all files."""
    return math.ceil(BUDGET * max(_slow_files_of(outcome) / SLOW_FILES, outcome.seconds / seconds))


def _until_too_slow(outcomes: Sequence[CaseOutcome], cases: int, seconds: int) -> list[CaseOutcome]:
    """Cut the outcomes when the budget is spent; then a finding reports unread cases."""
    slow, spent = 0, 0
    for number, outcome in enumerate(outcomes, start=1):
        slow, spent = slow + _slow_files_of(outcome), spent + _spent(outcome, seconds=seconds)
        if slow >= SLOW_FILES or spent >= BUDGET:
            stops = not_looked_at("submission", number, cases, "cases", slow=slow, seconds=seconds)
            return [*outcomes[:number], CaseOutcome(prediction_faults=tuple(stops))]
    return list(outcomes)


# --- who is at fault --------------------------------------------------------------------------------------------------


def raise_faults(challenge: Challenge, received: receive.ReceivedSubmission, outcomes: Sequence[CaseOutcome]) -> None:
    """Raise ChallengeBroken or SubmissionRejected if any case is at fault, with all faults."""
    reference_faults = [f for outcome in outcomes for f in outcome.reference_faults]
    if reference_faults:
        raise ChallengeBroken(*reference_faults)
    prediction_faults = [f for outcome in outcomes for f in outcome.prediction_faults]
    if prediction_faults:
        raise rejection(challenge, [*prediction_faults, *received.findings], received.inputs)
    if outside := _everything_outside(outcomes):
        raise rejection(challenge, [*outside, *received.findings], received.inputs)


def _everything_outside(outcomes: Sequence[CaseOutcome]) -> list[Finding]:
    """Refuse a submission with all nuclei outside their images, or with annotations but no nuclei."""
    nuclei_seen = _seen_in(outcomes)
    nuclei, outside = sum(case.nuclei for case in nuclei_seen), sum(case.outside for case in nuclei_seen)
    lost = [one for outcome in outcomes for one in outcome.warnings if one.code == "left-out"]
    left_out = sum(one.count for one in lost)
    if nuclei == 0 and any(one.wording not in _NO_NUCLEI for one in lost):
        return [fault("everything-outside", "submission", wording="left-out", left_out=left_out)]
    if nuclei == 0 or outside < nuclei:
        return []
    return [fault("everything-outside", "submission", nuclei=nuclei)]


def _seen_in(outcomes: Sequence[CaseOutcome]) -> list[SeenNuclei]:
    """Collect the counts of the submitted cases."""
    return [outcome.seen for outcome in outcomes if outcome.seen is not None]


def _check_references(challenge: Challenge, folder: ReferenceFolder, received: receive.ReceivedSubmission) -> None:
    """Raise ChallengeBroken if a case that the submission lacks has no reference: that is the organisers' fault."""
    faults: list[Finding] = []
    for case in challenge.cases:
        if not challenge.reference.is_shared and case.name not in received.contents:
            try:
                reference_files(challenge, folder, case)
            except InputFault as error:
                faults += error.findings
    if faults:
        raise ChallengeBroken(*faults)


def _suspect_size(
    challenge: Challenge, files: SubmissionFiles, case: CaseInput, faults: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """Advise to correct cases.csv where reference and prediction have the same other size."""
    sizes = _sizes_in(faults)
    if not sizes or case.prediction is None:
        return faults
    try:
        read_prediction(challenge, files, case.case, case.prediction)
    except InputFault as error:
        both = sizes & _sizes_in(error.findings)
        fix = "The prediction has this size too: correct height and width in cases.csv."
        return tuple(replace(each, fix=fix) if _sizes_in([each]) & both else each for each in faults)
    return faults


def _sizes_in(findings: Iterable[Finding]) -> set[tuple[int, ...]]:
    """Return the sizes, height and width, that differ from the sizes of their images."""
    return {finding.data["found"] for finding in findings if finding.code == "wrong-shape" and not finding.wording}
