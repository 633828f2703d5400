"""Makes the page of a folder of results, and all pages of a leaderboard: the board, each team, each case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote as in_url

import numpy as np
import numpy.typing as npt

from evaluation.board.document import Board, leaderboard_document, read_board
from evaluation.board.stored import all_metrics, read_details, read_document, read_metrics, read_objects
from evaluation.board.teams import find_teams
from evaluation.board.titles import metric_title
from evaluation.challenge import Challenge
from evaluation.files.decoding.csv import numbers_of
from evaluation.files.results.documents import OUTCOMES, StudyFile, published_metrics
from evaluation.files.results.files import write_atomically
from evaluation.findings import fault, listed, quote
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.report import submission
from evaluation.report.html import page_html
from evaluation.report.leaderboard import leaderboard_page, standing_of
from evaluation.report.nuclei import NucleusTable
from evaluation.report.page import Cell, Page, Section, Text, Value, document_page
from evaluation.report.pictures import Scene, SecondPass, find_images, illustrate_cases
from evaluation.report.plots import RESULTS_UP_TO
from evaluation.report.result import ResultDocuments, Unit, is_lower_better
from evaluation.report.skills import read_results
from evaluation.report.studies import audit_page, sensitivity_page
from evaluation.report.tables import table_of
from evaluation.scoring.error_costs import error_costs
from evaluation.scoring.workers import Progress, progress_of_round
from nuclei_metrics.model import Int64

LAST_COLUMN = "prediction_area_px"  # before those of the measures
FIRST_REASON = "kind"  # the first column after them
OTHER_DOCUMENTS: Mapping[str, Callable[[Mapping[str, Any]], Page]] = {
    "leaderboard.json": leaderboard_page,
    "audit.json": audit_page,
    "sensitivity.json": sensitivity_page,
}


@dataclass(frozen=True, slots=True)
class Sources:
    """Names the files that pictures need next to a result: the challenge and the submission.

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
    """The page of the content of a folder: metrics.json, leaderboard.json, audit.json or sensitivity.json.

    sources  of pictures and costs of errors, for a metrics.json
    public   only publishable content of metrics.json
    challenge  folder of its rules, for a public page: content that [publish] permits, and the order of the
             classes; by default details.json next to the result defines the order

    Raises WrongUsage for unexpected files, and as ``illustrate_cases``.
    """
    name = document_in(folder)
    if not (folder / name).is_file():
        why = f"no metrics.json, {listed(OTHER_DOCUMENTS)}".replace("'", "")
        raise WrongUsage(fault("not-metrics", quote(folder, 120), wording="no-document", got=why))
    if name in OTHER_DOCUMENTS and (public or sources is not None):
        option, expected = "--public" if public else "--submission", "it for the metrics.json of one submission"
        raise WrongUsage(fault("contradictory-rules", option, got=f"given for {name}", expected=expected))
    if public and sources is not None:
        other, why = "--submission", "pictures show the reference"
        raise WrongUsage(fault("contradictory-rules", "--public", wording="only-one-option", other=other, reason=why))
    if name == "metrics.json" and not public:
        return page_of_result(read_again(folder, sources, workers=workers, progress=progress))
    with reading(name):
        if name == "leaderboard.json":
            document, audit = read_board(folder / name), folder / "audit.json"
            beside = _read_study(audit) if audit.is_file() else None
            details = _results_with_details(folder, document)
            return leaderboard_page(document, audit=beside, results=read_results(folder, document), details=details)
        if name in OTHER_DOCUMENTS:
            return OTHER_DOCUMENTS[name](_read_study(folder / name))
        metrics = read_metrics(folder / name, where=f"'{name}'")
        rules = None if challenge is None else _rules_of(metrics, challenge)
        if rules is not None:
            metrics = published_metrics(metrics, rules)
        classes = rules.class_names if rules else read_result(folder).classes  # details.json has their order
        published = ResultDocuments(_without_counts(metrics), None, tuple(classes))
        return submission.submission_page(submission.ReadResult(published))


def read_again(
    folder: Path, sources: Sources | None, *, workers: int | None = None, progress: Progress | None = None
) -> submission.ReadResult:
    """Read the result in a folder; with ``sources`` the submission is scored once more for its pictures."""
    with reading("details.json"):
        result = read_result(folder)
        if sources is not None and result.details is None:
            why, metrics = "missing, although pictures were requested", "metrics.json"
            raise InputFault(
                fault("not-metrics", "'details.json'", wording="not-its-details", got=why, metrics=metrics)
            )
    with reading("objects.csv"):
        nuclei = read_nuclei(folder / "objects.csv", result)
    if sources is None:
        return submission.ReadResult(result, nuclei)
    return submission.ReadResult(result, nuclei, *_look_again(result, sources, workers=workers, progress=progress))


def page_of_result(read: submission.ReadResult, **shown: Any) -> Page:
    """``submission_page`` of documents that may be damaged. Raises WrongUsage."""
    with reading("details.json"):
        return submission.submission_page(read, **shown)


def _results_with_details(folder: Path, document: Mapping[str, Any]) -> dict[str, ResultDocuments]:
    """The results with details.json of the first teams of a leaderboard, and of entries that are shown."""
    entries = (*document["teams"][:RESULTS_UP_TO], *document["shown"])[:RESULTS_UP_TO]
    results: dict[str, ResultDocuments] = {}
    for name in (str(entry["name"]) for entry in entries):
        path = folder / "results" / name
        if path.parent == folder / "results" and (path / "details.json").is_file():
            with suppress(InputFault):
                result = read_result(path)
                if result.metrics["challenge"] == document["challenge"]:
                    results[name] = result
    return results


def _rules_of(metrics: Mapping[str, Any], folder: Path) -> Challenge:
    """The challenge in a folder. Raises WrongUsage if a result is of other rules or cases."""
    challenge = Challenge.load(folder)
    if (hash := str(metrics["challenge"]["hash"])) != challenge.hash:
        raise WrongUsage(fault("different-challenges", "'metrics.json'", hash=hash))
    return challenge


def _without_counts(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """metrics.json without numbers of reference nuclei per class.

    Errors of counts times cases are numbers of nuclei, and reasons of undefined values state which classes are absent.
    """

    def without(tree: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in tree.items() if key != "counting"}

    published = without(metrics) | {"undefined": {}}
    for key in {"confidence_intervals", "standard_deviations"} & set(metrics):
        published[key] = without(metrics[key])
    if "alternatives" in metrics:
        published["alternatives"] = {rule: without(scores) for rule, scores in metrics["alternatives"].items()}
    return published


def write_page(page: Page, path: Path) -> None:
    """Write the page as one HTML file, whole or not at all. Raises WrongUsage if the extra ``report`` is not there."""
    write_atomically(path, page_html(page))


def check_image_folder(challenge: Challenge, folder: Path, images: Path) -> None:
    """Raise WrongUsage if a given folder has no image of any case."""
    if not find_images(challenge, folder, images):
        what = "no image of any case" if images.is_dir() else "no such folder"
        example = f"{challenge.cases[0].name}.svs"
        raise WrongUsage(fault("missing-file", quote(images, 120), wording="no-images", got=what, example=example))


def document_in(folder: Path) -> str:
    """The name of the document that a folder has a page of; metrics.json if missing."""
    return next((name for name in ("metrics.json", *OTHER_DOCUMENTS) if (folder / name).is_file()), "metrics.json")


def _read_study(path: Path) -> dict[str, Any]:
    """The content of audit.json or sensitivity.json, as ``read_document``."""
    return read_document(path, StudyFile.model_validate_json, where=quote(path.name))


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
    """metrics.json, and details.json if it is next to it."""
    metrics = read_metrics(folder / "metrics.json", where="'metrics.json'")
    if not (folder / "details.json").is_file():
        return ResultDocuments(metrics)
    details = read_details(folder / "details.json", where="'details.json'")
    if details["challenge"]["hash"] != metrics["challenge"]["hash"]:
        raise InputFault(
            fault("not-metrics", "'details.json'", got="not from the challenge of the metrics.json in the same folder")
        )
    return ResultDocuments(all_metrics(metrics, details), details)


def read_nuclei(objects: Path | bytes, result: ResultDocuments) -> NucleusTable | None:
    """The nuclei of objects.csv under the first matching rule; None if there is no such file, or nothing to match."""
    has_matches = result.details is not None and result.rules["matching"]["rules"]
    if not has_matches or (table := read_objects(objects)) is None:
        return None
    rules, rule_of_row = table.categories(table.need("rule"))
    chosen = table.take(rule_of_row == (rules.index(result.rule) if result.rule in rules else -1))
    outcomes, outcome_of_row = chosen.categories(chosen.need("outcome"))
    cases, case = chosen.categories(chosen.need("case"))
    index_of_class = {name: index for index, name in enumerate(result.classes)}

    def classes(column: str) -> Int64:
        names, name_of_row = chosen.categories(chosen.need(column))
        return np.array([index_of_class.get(name, -1) for name in names], np.int64)[name_of_row]

    def texts(column: str) -> npt.NDArray[np.object_]:
        return np.array([cell.decode() for cell in chosen.cells(chosen.need(column))], object)

    return NucleusTable(
        outcome=np.array([OUTCOMES.index(name) for name in outcomes], np.int64)[outcome_of_row],
        classes=result.classes,
        reference_class=classes("reference_class"),
        reference_area=numbers_of(chosen.cells(chosen.need("reference_area_px"))),
        measures={
            name: numbers_of(chosen.cells(column))
            for column, name in enumerate(table.names)
            if table.need(LAST_COLUMN) < column < table.need(FIRST_REASON)
        },
        cases=tuple(cases),
        case=case,
        prediction_class=classes("prediction_class"),
        prediction_area=numbers_of(chosen.cells(chosen.need("prediction_area_px"))),
        reference_id=texts("reference_id"),
        prediction_id=texts("prediction_id"),
        reasons={
            **{name: texts(name) for name in ("kind", "nearest_id", "taken_by")},
            **{name: numbers_of(chosen.cells(chosen.need(name))) for name in ("nearest_iou", "nearest_distance_px")},
        },
    )


def _look_again(
    result: ResultDocuments, sources: Sources, *, workers: int | None, progress: Progress | None
) -> tuple[SecondPass, Mapping[str, Any] | None]:
    """Score a submission again, for its pictures and the costs of its errors.

    Raises WrongUsage if the result is not of this challenge, or not of this submission.
    """
    challenge = _rules_of(result.metrics, sources.challenge)
    if sources.images is not None:
        check_image_folder(challenge, sources.challenge, sources.images)
    second = illustrate_cases(
        sources.challenge,
        sources.submission,
        challenge=challenge,
        drawn=[unit.name for unit in submission.worst_first(result)],
        images=sources.images,
        overlays=sources.overlays,
        workers=workers,
        progress=progress,
    )
    if not second.errors:
        return second, None
    costs = error_costs(challenge, second.errors)
    for path, value in costs["as_is"].items():
        if value != result.value(path):
            why = f"{path} is {result.value(path)}, but the submission that was given has {value}"
            raise WrongUsage(fault("not-metrics", "'metrics.json'", wording="not-its-result", got=why))
    return second, costs


# --- the pages of a leaderboard ---------------------------------------------------------------------------------------


CASES_UP_TO = 100  # that have a page
TEAMS_ON_A_CASE_PAGE = 20  # on the page of a case
BOARD = "leaderboard.html"


def report_board(
    output: Path,
    board: Board,
    challenge: Path,
    submissions: Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Write all pages of the leaderboard in ``output``, and return their names.

    submissions   the folder that was scored
    """
    document = leaderboard_document(board)
    paths = {team.name: team.path for team in find_teams(submissions, output=output).teams}
    names = [team["name"] for team in (*document["teams"], *document["shown"])]
    links = {name: f"results/{in_url(name)}/report.html" for name in names}
    chosen: list[str] = []
    teams: dict[str, _TeamCases] = {}
    first: ResultDocuments | None = None
    results: dict[str, ResultDocuments] = {}
    for index, name in enumerate(names):
        folder = output / "results" / name
        of_team = progress_of_round(progress, index, len(names))
        read = read_again(folder, Sources(challenge, paths[name]), workers=workers, progress=of_team)
        page = page_of_result(read, title=f"Result of {name}", standing=standing_of(document, name))
        write_page(replace(page, pages=back(2)), folder / "report.html")
        first, results[name] = first or read.result, read.result
        chosen = chosen or [unit.name for unit in submission.worst_first(first)[:CASES_UP_TO]]
        if index < TEAMS_ON_A_CASE_PAGE:
            units = {unit.name: unit for unit in read.result.cases if unit.name in chosen}
            scenes = {case: scene for case, scene in read.pictures.scenes.items() if case in chosen}
            teams[name] = _TeamCases(units, read.nuclei, scenes)
    details = dict(list(results.items())[:RESULTS_UP_TO])
    page = leaderboard_page(document, results=read_results(output, document), details=details)
    first_section, *sections = page.sections
    if lines := board.alike.lines():
        sections.insert(0, Section("alike", "Entries to look into", (Text(tuple(lines), "warning"),)))
    if first is not None:
        (output / "cases").mkdir(exist_ok=True)
        for case in chosen:
            write_page(_case_page(case, teams, first, links), output / "cases" / f"{case}.html")
        sections.insert(-1, _case_list(chosen, teams, first))
    write_page(replace(page, sections=(first_section, *sections), links=links), output / BOARD)
    return [BOARD, *links.values(), *(f"cases/{case}.html" for case in chosen)]


def back(levels: int) -> tuple[tuple[str, str], ...]:
    return (("Leaderboard", f"{'../' * levels}{BOARD}"),)


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TeamCases:
    """Holds the results of a team in the cases that have a page, by the names of the cases."""

    units: Mapping[str, Unit]
    nuclei: NucleusTable | None
    scenes: Mapping[str, Scene]


def _case_page(case: str, teams: Mapping[str, _TeamCases], first: ResultDocuments, links: Mapping[str, str]) -> Page:
    """One case across teams: their scores and counts, and the nuclei of all of them on the same tissue."""
    score = submission.main_score(first)
    best = submission.highest_and_lowest(
        metric_title(score), {name: read.units[case].value(score) for name, read in teams.items()}
    )
    values = {name: submission.unit_cells(first, read.units[case]) for name, read in teams.items()}
    titles = ["team", *next(iter(values.values()))]
    rows = [[name, *of_team.values()] for name, of_team in values.items()]
    table = table_of("teams", f"All teams on case {case}", titles, rows, help=submission.SCORES_OF_UNITS)
    sections = [Section("scores", "Scores", (table,), best)]
    empty = "No nuclei are stored for this image."
    of_teams = {
        name: ([read.units[case]], read.nuclei.of_case(case), {case: read.scenes[case]} if case in read.scenes else {})
        for name, read in teams.items()
        if read.nuclei is not None
    }
    sections += submission.nuclei_section(first, of_teams) if of_teams else []
    if len(sections) == 1:
        sections.append(Section("nuclei", "Nuclei", (Text((empty,)),)))
    subtitle = str(first.metrics["challenge"]["name"])
    page = document_page("", first.metrics, sections, subtitle=subtitle, title=f"Case {case}")
    return replace(page, pages=back(1), links={name: f"../{url}" for name, url in links.items()})


def _case_list(cases: list[str], teams: Mapping[str, _TeamCases], first: ResultDocuments) -> Section:
    """The section of the board that leads to the cases, the hardest first."""
    score = submission.main_score(first)
    way, title = max if is_lower_better(score) else min, metric_title(score)
    rows: list[list[Value]] = []
    for case in cases:
        known = [value for read in teams.values() if (value := read.units[case].value(score)) is not None]
        ends = [float(np.median(known)), way(known)] if known else [None, None]
        page = f"cases/{in_url(case)}.html"
        rows.append([Cell(case, page=page), *ends, Cell("open", page=f"{page}#case={in_url(case)}")])
    note = f"The {len(cases)} of {len(first.cases):,} cases that the first team finds hardest have a page." * (
        len(cases) < len(first.cases)
    )
    caption = "Cases, each with a page of all teams"
    table = table_of("case-pages", caption, ["case", f"median {title}", f"worst {title}", "viewer"], rows, note=note)
    return Section("case-list", "Cases", (table,), folded=True)
