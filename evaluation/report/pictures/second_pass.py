"""Every case of a scored submission once more: kinds of errors, overlays, and the worst nuclei as pictures.

Two rounds. In the first, workers judge all cases and write overlays; then the worst nuclei of all cases are chosen. In
the second, workers read the few cases again that those nuclei lie in, or whose picture is wanted, and draw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from evaluation.analysis.error_costs import CorrectedCase
from evaluation.challenge import Challenge
from evaluation.execution.workers import Progress, run_tasks
from evaluation.report.illustrated import CasePicture, Illustration, NucleusPicture
from evaluation.report.pictures.case_work import WORST, CaseWork, Judgement
from evaluation.report.pictures.images import find_images
from evaluation.report.pictures.judging import MOST_OF_A_KIND, choose_worst
from evaluation.scoring.cases import CaseOutcome
from evaluation.scoring.from_files import plan_cases, raise_faults
from evaluation.scoring.receive import receive_submission

DEFINITION = (
    f"The {WORST} nuclei that cost most pixels. One that is not matched, or has another class, costs all its pixels "
    "and those of its partner on the other side; a matched one costs the pixels on one side only. At most "
    f"{MOST_OF_A_KIND} of a kind are shown as long as there are others."
)
Shown = TypeVar("Shown", NucleusPicture, CasePicture)


@dataclass(frozen=True, slots=True, eq=False)
class SecondPass:
    """What a submission looks like. ``corrected`` is what the costs of its errors are computed from."""

    illustration: Illustration
    corrected: tuple[CorrectedCase, ...]


def illustrate_cases(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    challenge: Challenge | None = None,
    worst_cases: Sequence[str] = (),
    images: Path | None = None,
    overlays: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> SecondPass:
    """Read every case of a submission again, as ``score_submission`` does, and draw what became of its nuclei.

    challenge    other rules for the same cases and files than those of challenge.toml
    worst_cases  names of cases to be drawn as a whole; those that the challenge does not have are left out
    images       where the images of the cases lie; None: see ``find_images``
    overlays     where ``<case>.png`` and ``<case>.geojson`` of every case are written; None: nowhere

    Raises what ``score_submission`` raises. Workers never change a byte.
    """
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder) if challenge is None else challenge
    received = receive_submission(challenge, Path(submission))
    planned = plan_cases(challenge, folder, received, workers, progress)
    if challenge.are_counts:  # nothing is known of where nuclei lie
        return SecondPass(Illustration(), ())
    if overlays is not None:
        overlays.mkdir(parents=True, exist_ok=True)
    case_work = CaseWork(challenge, folder, received.files, find_images(challenge, folder, images), overlays)
    parts = run_tasks(case_work.judge, [(part,) for part in planned.parts], planned.plan, progress)
    outcomes = [outcome for part in parts for outcome in part]
    raise_faults(challenge, received, [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)])
    judged = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]

    worst = choose_worst([(one.case.name, mistake) for one in judged for mistake in one.mistakes], WORST)
    inputs = {given.case.name: given for part in planned.parts for given in part}
    wanted = [name for name in dict.fromkeys(worst_cases) if name in inputs]
    names = sorted({*wanted, *(case for case, _ in worst)})
    tasks = [(inputs[name], [mistake for case, mistake in worst if case == name], name in wanted) for name in names]
    sheets = dict(zip(names, run_tasks(case_work.draw, tasks, planned.plan, progress), strict=True))
    findings_of_cases = [*(one.findings for one in judged), *(sheet.findings for sheet in sheets.values())]
    illustration = Illustration(
        nuclei=anchored([sheets[case].nuclei[mistake] for case, mistake in worst], "nucleus"),
        cases=anchored([whole for name in wanted if (whole := sheets[name].whole) is not None], "overlay"),
        definition=DEFINITION,
        files=tuple(path for one in judged for path in one.files),
        findings=tuple(dict.fromkeys(finding for findings in findings_of_cases for finding in findings)),
    )
    return SecondPass(illustration, tuple(one.corrected for one in judged))


def anchored(pictures: Sequence[Shown], anchor: str) -> tuple[Shown, ...]:
    """Pictures with a place in the page each: ``nucleus-1``, ``nucleus-2`` and so on."""
    return tuple(
        replace(shown, picture=replace(shown.picture, anchor=f"{anchor}-{number}"))
        for number, shown in enumerate(pictures, start=1)
    )
