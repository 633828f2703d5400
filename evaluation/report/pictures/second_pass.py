"""A second pass over the cases of a scored submission: kinds of errors, overlays, scenes for the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from evaluation.analysis.error_costs import CaseErrors
from evaluation.challenge import Challenge
from evaluation.execution.workers import Progress, run_job, run_work
from evaluation.findings import Finding
from evaluation.report.pictures.case_work import CaseWork, Judgement
from evaluation.report.pictures.images import find_images
from evaluation.report.pictures.scenes import WINDOW_PX, Scene
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.street import CaseOutcome, raise_faults, sort_cases

PIXELS = 20_000_000  # of all cases together that a page may show: some 4 MB


@dataclass(frozen=True, slots=True, eq=False)
class SecondPass:
    """What the second pass found.

    scenes     by name, of the cases that were asked for
    errors     of every case
    files      overlays that were written
    findings   images that are not shown, and why
    """

    scenes: dict[str, Scene]
    errors: tuple[CaseErrors, ...] = ()
    files: tuple[Path, ...] = ()
    findings: tuple[Finding, ...] = ()


def illustrate_cases(
    challenge_folder: Path | str,
    submission: Path | str,
    *,
    challenge: Challenge | None = None,
    drawn: Sequence[str] = (),
    images: Path | None = None,
    overlays: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> SecondPass:
    """Read every case of a submission again, as ``score_submission`` does, and find the state of its nuclei.

    challenge  other rules for the same cases and files than those of challenge.toml
    drawn      names of cases whose scenes are wanted, the most wanted first; PIXELS are shared among them
    images     where the images of the cases lie; None: see ``find_images``
    overlays   where the overlays of every case are written; None: nowhere

    Raises what ``score_submission`` raises. Workers never change a byte.
    """
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder) if challenge is None else challenge
    received = receive_submission(challenge, Path(submission), folder)
    cases = run_job(sort_cases(challenge, folder, received, progress), workers)
    challenge = cases.challenge
    if challenge.are_counts:  # nothing is known of where nuclei lie
        return SecondPass({})
    if overlays is not None:
        overlays.mkdir(parents=True, exist_ok=True)
    chosen = frozenset(drawn[: PIXELS // WINDOW_PX**2])
    found = find_images(challenge, folder, images)
    sizes = {case.name: prod(case.shape_yx) for case in challenge.cases if case.name in chosen}
    work = CaseWork(challenge, folder, received.files, found, overlays, share_pixels(sizes, PIXELS))
    outcomes = run_work(cases.work(work.judge, progress=progress), workers)
    raise_faults(challenge, received, [outcome for outcome in outcomes if isinstance(outcome, CaseOutcome)])
    judged = [outcome for outcome in outcomes if isinstance(outcome, Judgement)]
    return SecondPass(
        scenes={one.scene.case: one.scene for one in judged if one.scene is not None},
        errors=tuple(one.errors for one in judged),
        files=tuple(path for one in judged for path in one.files),
        findings=tuple(dict.fromkeys(finding for one in judged for finding in one.findings)),
    )


def share_pixels(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """How many pixels of each case may be shown: what small cases do not need is left for large ones.

    >>> share_pixels({"a": 100, "b": 10, "c": 100}, 130)
    {'b': 43, 'a': 60, 'c': 60}
    """
    shares: dict[str, int] = {}
    for index, (name, size) in enumerate(sorted(sizes.items(), key=lambda item: (item[1], item[0]))):
        shares[name] = total // (len(sizes) - index)
        total -= min(size, shares[name])
    return shares
