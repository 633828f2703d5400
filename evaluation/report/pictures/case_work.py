"""What workers do with a case once it is scored: judge it, write its overlays, draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.analysis.error_costs import CorrectedCase, correct_case
from evaluation.challenge import Challenge
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.model import Case
from evaluation.report.illustrated import CasePicture, NucleusPicture
from evaluation.report.pictures.case_pictures import CasePictures
from evaluation.report.pictures.judging import JudgedCase, Mistake, judge_case
from evaluation.scoring.cases import CaseInput, CaseOutcome, ReadCase, read_and_match
from evaluation.scoring.measure import measure_cases
from evaluation.submission import SubmissionFiles

WORST = 10  # nuclei of a submission that are shown


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What is known of a case after the first round: its worst mistakes of each kind, and the files written."""

    case: Case
    mistakes: tuple[Mistake, ...]
    corrected: CorrectedCase
    files: tuple[Path, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """The pictures of a case; ``whole`` if it was asked for."""

    nuclei: Mapping[Mistake, NucleusPicture]
    whole: CasePicture | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class CaseWork:
    """All that the pictures of a submission are made of; ``images`` by the name of the case."""

    challenge: Challenge
    folder: Path
    files: SubmissionFiles
    images: Mapping[str, Path]
    overlays: Path | None

    def judge(self, inputs: Sequence[CaseInput]) -> list[Judgement | CaseOutcome]:
        """Judge some cases and write their overlays, or say what is at fault."""
        outcomes = [read_and_match(self.challenge, self.folder, self.files, given) for given in inputs]
        found = [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]
        if len(found) < len(outcomes):
            return [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)]
        results = measure_cases(self.challenge, [read.matched for read in found])
        judgements: list[Judgement | CaseOutcome] = []
        rule = self.challenge.matching.rules[0].name
        for read, result in zip(found, results, strict=True):
            judged = judge_case(self.challenge, read.matched, read.prediction)
            corrected = correct_case(read.matched, result, judged.kinds, rule)
            files, findings = self.write_overlays(judged)
            judgements.append(Judgement(result.case, tuple(judged.mistakes.worst(WORST)), corrected, files, findings))
        return judgements

    def write_overlays(self, judged: JudgedCase) -> tuple[tuple[Path, ...], tuple[Finding, ...]]:
        """The files written of a case, if overlays are wanted, and what they do not show."""
        if self.overlays is None:
            return (), ()
        with self.drawing(judged) as drawing:
            return drawing.write(self.overlays), tuple(drawing.findings)

    def drawing(self, judged: JudgedCase) -> CasePictures:
        return CasePictures(judged, self.challenge.class_names, self.images.get(judged.matched.case.name))

    def draw(self, given: CaseInput, mistakes: Sequence[Mistake], whole: bool) -> Sheet:
        """Draw some mistakes of a case, and the case as a whole if asked."""
        read = read_and_match(self.challenge, self.folder, self.files, given)
        if isinstance(read, CaseOutcome):  # it was read a moment ago
            raise InputFault(*read.reference_faults, *read.prediction_faults)
        judged = judge_case(self.challenge, read.matched, read.prediction)
        with self.drawing(judged) as drawing:
            nuclei = {mistake: drawing.nucleus(mistake) for mistake in mistakes}
            case = drawing.whole(submitted=read.prediction is not None) if whole else None
            return Sheet(nuclei, case, tuple(drawing.findings))
