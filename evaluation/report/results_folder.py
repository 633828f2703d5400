"""The page of a folder of results, for the command ``report``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.analysis.error_costs import error_costs
from evaluation.challenge import Challenge
from evaluation.decoding.csv import numbers_of
from evaluation.execution.workers import Progress
from evaluation.findings import fault, listed, quote
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.leaderboard.matched_nuclei import read_objects
from evaluation.leaderboard.team_scores import all_metrics, read_board, read_details, read_document, read_metrics
from evaluation.model import Int64, MatchCounts
from evaluation.report.audit import audit_page
from evaluation.report.html import page_html
from evaluation.report.leaderboard import leaderboard_page
from evaluation.report.nuclei import OUTCOMES, NucleusTable
from evaluation.report.page import Page
from evaluation.report.pictures import SecondPass, find_images, illustrate_cases
from evaluation.report.pictures.scenes import Scene
from evaluation.report.result import ResultDocuments
from evaluation.report.sensitivity import sensitivity_page
from evaluation.report.skills import read_results
from evaluation.report.submission import submission_page
from evaluation.report.tricks import tricks_page
from evaluation.report.units import worst_cases
from evaluation.results.files import write_atomically
from evaluation.results.metrics_json import published_metrics
from evaluation.results.schema import StudyFile

LAST_COLUMN = "prediction_area_px"  # before those of the measures
OTHER_DOCUMENTS: Mapping[str, Callable[[Mapping[str, Any]], Page]] = {
    "leaderboard.json": leaderboard_page,
    "audit.json": audit_page,
    "sensitivity.json": sensitivity_page,
    "tricks.json": tricks_page,
}


@dataclass(frozen=True, slots=True)
class Sources:
    """What pictures are made from, beside a result: the folder of its challenge, and the submission.

    images    folder with the images of the cases; None: in the folder of the challenge
    overlays  folder that gets an overlay of every case
    """

    challenge: Path
    submission: Path
    images: Path | None = None
    overlays: Path | None = None


def page_of_results(
    folder: Path,
    *,
    sources: Sources | None = None,
    public: bool = False,
    challenge: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Page:
    """The page of what lies in a folder: metrics.json, leaderboard.json, audit.json or sensitivity.json.

    sources  of pictures and costs of errors, for a metrics.json
    public   only what metrics.json holds, and of that what may be published
    challenge  folder of its rules, for a public page: what [publish] lets participants read, and the order of the
             classes; without it details.json beside the result tells the order

    Raises WrongUsage for files that are not what they should be, and what ``illustrate_cases`` raises.
    """
    if not (folder / "metrics.json").is_file():
        return page_of_others(folder, public=public, sources=sources)
    if public and sources is not None:
        raise WrongUsage(
            fault(
                "contradictory-rules",
                "--public",
                wording="only-one-option",
                other="--submission",
                reason="pictures show the reference",
            )
        )
    if public:
        with reading("metrics.json"):
            metrics = read_metrics(folder / "metrics.json", where="'metrics.json'")
            rules = None if challenge is None else rules_of(metrics, challenge)
            if rules is not None and rules.published_paths is not None:
                metrics = published_metrics(metrics, rules.published_paths)
            classes = rules.class_names if rules else read_result(folder).classes  # details.json has their order
            return submission_page(without_counts(metrics), classes=classes)
    return page_of_result(read_again(folder, sources, workers=workers, progress=progress))


@dataclass(frozen=True, slots=True)
class ReadResult:
    """All that is known of one submission: its documents, its nuclei, what is drawn of them, what its errors cost."""

    result: ResultDocuments
    nuclei: NucleusTable | None
    seen: SecondPass | None = None
    costs: Mapping[str, Any] | None = None
    counts: Sequence[MatchCounts] = ()

    @property
    def scenes(self) -> Mapping[str, Scene]:
        return self.seen.scenes if self.seen is not None else {}


def read_again(
    folder: Path, sources: Sources | None, *, workers: int | None = None, progress: Progress | None = None
) -> ReadResult:
    """The result in a folder; with ``sources`` the submission is read once more."""
    with reading("details.json"):
        result = read_result(folder)
        if sources is not None and result.details is None:
            why = "not there, although pictures are asked for"
            raise InputFault(
                fault("not-metrics", "'details.json'", wording="not-its-details", got=why, metrics="metrics.json")
            )
    with reading("objects.csv"):
        nuclei = read_nuclei(folder / "objects.csv", result)
    if sources is None:
        return ReadResult(result, nuclei)
    return ReadResult(result, nuclei, *look_again(result, sources, workers=workers, progress=progress))


def page_of_result(read: ReadResult, *, title: str = "") -> Page:
    with reading("details.json"):
        return submission_page(
            read.result.metrics,
            details=read.result.details,
            nuclei=read.nuclei,
            illustration=read.seen,
            error_costs=read.costs,
            counts=read.counts,
            title=title,
        )


def rules_of(metrics: Mapping[str, Any], folder: Path) -> Challenge:
    """The challenge in a folder. Raises WrongUsage if a result is of other rules or cases."""
    challenge = Challenge.load(folder)
    if (found := str(metrics["challenge"]["hash"])) != challenge.hash:
        raise WrongUsage(fault("different-challenges", "'metrics.json'", hash=found))
    return challenge


def without_counts(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """metrics.json without what tells how many nuclei of which class the reference holds.

    Errors of counts times cases are numbers of nuclei, and reasons of undefined values say which classes are absent.
    """
    kept = {key: value for key, value in metrics.items() if key != "counting"}
    intervals = {key: value for key, value in metrics.get("confidence_intervals", {}).items() if key != "counting"}
    rules = {
        rule: {key: value for key, value in of.items() if key != "counting"}
        for rule, of in metrics.get("alternatives", {}).items()
    }
    given = {"confidence_intervals": intervals, "alternatives": rules}
    return {**kept, **{key: value for key, value in given.items() if key in metrics}, "undefined": {}}


def write_page(page: Page, path: Path) -> None:
    """Write the page as one HTML file, whole or not at all. Raises WrongUsage if the extra ``report`` is not there."""
    write_atomically(path, page_html(page))


def check_images(challenge: Challenge, folder: Path, images: Path) -> None:
    """Raise WrongUsage if a folder of images that was named has none of any case."""
    if not find_images(challenge, folder, images):
        what = "no image of any case" if images.is_dir() else "no such folder"
        raise WrongUsage(
            fault(
                "missing-file",
                quote(images, 120),
                wording="no-images",
                got=what,
                example=f"{challenge.cases[0].name}.svs",
            )
        )


def document_in(folder: Path) -> str:
    """The name of the document that a folder has a page of; metrics.json if there is none."""
    return next((name for name in ("metrics.json", *OTHER_DOCUMENTS) if (folder / name).is_file()), "metrics.json")


def page_of_others(folder: Path, *, public: bool, sources: Sources | None) -> Page:
    """The page of a folder without metrics.json."""
    name = document_in(folder)
    if name not in OTHER_DOCUMENTS:
        why = f"no metrics.json, {listed(OTHER_DOCUMENTS)}".replace("'", "")
        raise WrongUsage(fault("not-metrics", quote(folder, 120), wording="no-document", got=why))
    if public or sources is not None:
        raise WrongUsage(
            fault(
                "contradictory-rules",
                "--public" if public else "--submission",
                got=f"given for {name}",
                expected="it for the metrics.json of one submission",
            )
        )
    with reading(name):
        if name == "leaderboard.json":
            document = read_board(folder / name)
            beside = read_study(folder / "audit.json") if (folder / "audit.json").is_file() else None
            return leaderboard_page(document, audit=beside, results=read_results(folder, document))
        return OTHER_DOCUMENTS[name](read_study(folder / name))


def read_study(path: Path) -> dict[str, Any]:
    """The content of audit.json, sensitivity.json or tricks.json, as ``read_document``."""
    return read_document(path, StudyFile, where=quote(path.name))


# --- one submission ---------------------------------------------------------------------------------------------------


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Raise WrongUsage for a document that is damaged, or not of the form that it should have."""
    try:
        yield
    except InputFault as error:
        raise WrongUsage(*error.findings) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, StopIteration):
        raise WrongUsage(fault("not-metrics", quote(name), wording="not-our-form", name=name)) from None


def read_result(folder: Path) -> ResultDocuments:
    """metrics.json, and details.json if it lies beside it."""
    metrics = read_metrics(folder / "metrics.json", where="'metrics.json'")
    if not (folder / "details.json").is_file():
        return ResultDocuments(metrics)
    details = read_details(folder / "details.json", where="'details.json'")
    if details["challenge"]["hash"] != metrics["challenge"]["hash"]:
        raise InputFault(
            fault("not-metrics", "'details.json'", got="of another challenge than the metrics.json beside it")
        )
    return ResultDocuments(all_metrics(metrics, details), details)


def read_nuclei(path: Path, result: ResultDocuments) -> NucleusTable | None:
    """The nuclei of objects.csv under the first matching rule; None if there is no such file, or nothing to match."""
    if not path.is_file() or result.details is None or not result.rules["matching"]["rules"]:
        return None
    table = read_objects(path)
    rules, rule_of_row = table.categories(table.need("rule"))
    chosen = table.take(rule_of_row == (rules.index(result.rule) if result.rule in rules else -1))
    outcomes, outcome_of_row = chosen.categories(chosen.need("outcome"))
    cases, case = chosen.categories(chosen.need("case"))
    index_of_class = {name: index for index, name in enumerate(result.classes)}

    def classes(column: str) -> Int64:
        names, name_of_row = chosen.categories(chosen.need(column))
        return np.array([index_of_class.get(name, -1) for name in names], np.int64)[name_of_row]

    def texts(column: str) -> list[str]:
        return [cell.decode() for cell in chosen.cells(chosen.need(column))]

    return NucleusTable(
        outcome=np.array([OUTCOMES.index(name) for name in outcomes], np.int64)[outcome_of_row],
        classes=result.classes,
        reference_class=classes("reference_class"),
        reference_area=numbers_of(chosen.cells(chosen.need("reference_area_px"))),
        measures={
            name: numbers_of(chosen.cells(column))
            for column, name in enumerate(table.names)
            if column > table.need(LAST_COLUMN)
        },
        cases=tuple(cases),
        case=case,
        prediction_class=classes("prediction_class"),
        prediction_area=numbers_of(chosen.cells(chosen.need("prediction_area_px"))),
        reference_id=texts("reference_id"),
        prediction_id=texts("prediction_id"),
    )


def look_again(
    result: ResultDocuments, sources: Sources, *, workers: int | None, progress: Progress | None
) -> tuple[SecondPass, Mapping[str, Any] | None, list[MatchCounts]]:
    """Pictures of a submission, what its errors cost, and what was counted in its cases, by scoring it once more.

    Raises WrongUsage if the result is not of this challenge, or not of this submission.
    """
    challenge = rules_of(result.metrics, sources.challenge)
    if sources.images is not None:
        check_images(challenge, sources.challenge, sources.images)
    second = illustrate_cases(
        sources.challenge,
        sources.submission,
        challenge=challenge,
        drawn=[unit.name for unit in worst_cases(result, len(result.cases))],
        images=sources.images,
        overlays=sources.overlays,
        workers=workers,
        progress=progress,
    )
    if not second.errors:
        return second, None, []
    costs = error_costs(challenge, second.errors)
    for path, value in costs["as_is"].items():
        if value != result.value(path):
            why = f"{path} is {result.value(path)}, but the submission that was given has {value}"
            raise WrongUsage(fault("not-metrics", "'metrics.json'", wording="not-its-result", got=why))
    return second, costs, [case.counts for case in second.errors]
