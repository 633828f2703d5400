"""The second pass over a scored case, in a worker: states of its nuclei, overlays, scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.analysis.error_costs import CaseErrors, count_errors
from evaluation.challenge import Challenge
from evaluation.findings import Finding
from evaluation.report.pictures.case_pictures import CasePictures
from evaluation.report.pictures.judging import judge_case
from evaluation.report.pictures.scenes import Scene, scene_of
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.street import CaseInput, CaseOutcome, ReadCase, read_and_match
from evaluation.submission import SubmissionFiles


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What is known of a case; ``files`` were written, ``findings`` say what these do not show."""

    errors: CaseErrors
    scene: Scene | None
    files: tuple[Path, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class CaseWork:
    """All that the pictures of a submission are made of; ``images`` by the name of the case.

    pixels  by name, how many may be shown of the cases whose scenes are wanted
    """

    challenge: Challenge
    folder: Path
    files: SubmissionFiles
    images: Mapping[str, Path]
    overlays: Path | None
    pixels: Mapping[str, int]

    def judge(self, inputs: Sequence[CaseInput]) -> list[Judgement | CaseOutcome]:
        """Judge and draw some cases, or return what is wrong with them."""
        outcomes = [read_and_match(self.challenge, self.folder, self.files, given) for given in inputs]
        found = [outcome for outcome in outcomes if isinstance(outcome, ReadCase)]
        if len(found) < len(outcomes):
            return [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)]
        results = measure_cases(self.challenge, [read.matched for read in found])
        judgements: list[Judgement | CaseOutcome] = []
        rule = self.challenge.matching.rules[0].name
        for read, result in zip(found, results, strict=True):
            judged = judge_case(self.challenge, read.matched, read.prediction)
            errors = count_errors(read.matched, result.counts[rule], judged.kinds, rule)
            name = result.case.name
            with CasePictures(judged, self.challenge.class_names, self.images.get(name)) as pictures:
                files = pictures.write(self.overlays) if self.overlays is not None else ()
                scene = scene_of(judged, pictures.background, self.pixels[name]) if name in self.pixels else None
                judgements.append(Judgement(errors, scene, files, tuple(pictures.findings)))
        return judgements
