"""The result of ``compare``: several predictions, scored against one reference, side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evaluation.challenge import Challenge
from evaluation.findings import Finding, counted, listed, quote
from evaluation.leaderboard.board import board_of_challenge, with_pairs
from evaluation.leaderboard.document import Board, leaderboard_document
from evaluation.leaderboard.resampled import tables_of_result
from evaluation.leaderboard.team_scores import Unranked, plan_columns, team_of_documents
from evaluation.leaderboard.titles import metric_title
from evaluation.report.page import Page
from evaluation.report.result import ResultDocuments
from evaluation.report.skills import COMPARED, SkillRow, skill_rows
from evaluation.results.csv_files import csv_table
from evaluation.results.files import write_atomically
from evaluation.scoring.score import Result, import_pandas

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from evaluation.report.scenes import Scene

SHORT = ("detection.f1", "classification.balanced_accuracy", "segmentation.iou", "panoptic.pq")
AGGREGATION = "group_mean"
NO_PLACE = "its classes, or its points, cannot be compared by the rules of the others"

Level = Literal["scores", "cases", "nuclei"]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Scores of one or more predictions. In a notebook it shows itself as a table.

    results   a ``Result`` for each prediction, by its name
    notes     what was found and assumed, in words
    findings  what is worth knowing: files without a partner, classes of one side, ...
    board     the predictions ranked by the rules; None for one prediction
    scenes    what is drawn of the images of each model on the page, by their names; may be empty
    """

    results: Mapping[str, Result]
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    board: Board | None = None
    scenes: Mapping[str, Mapping[str, Scene]] = field(default_factory=dict)

    @property
    def challenge(self) -> Challenge:
        """The rules by which all were scored."""
        return next(iter(self.results.values())).challenge

    def value(self, path: str, model: str | None = None) -> float | None:
        """The number of a metric as it is shown, or at a path of metrics.json, of a model or of the only one."""
        return self.result_of(model).value(path)

    def result_of(self, model: str | None = None) -> Result:
        if model is None and len(self.results) > 1:
            raise ValueError(f"there are several models: {', '.join(self.results)}; name one")
        if model is not None and model not in self.results:
            raise ValueError(f"no model {model!r}; expected {listed(self.results)}")
        return next(iter(self.results.values())) if model is None else self.results[model]

    def __repr__(self) -> str:
        cases = len(self.challenge.cases)
        lines = [f"Comparison of {counted(cases, 'image')}{', means' * (cases > 1)}"]
        for model, result in self.results.items():
            values = zip(SHORT, values_at(result, [f"{path}.{AGGREGATION}" for path in SHORT]), strict=True)
            shown = ", ".join(f"{metric_title(path)} {value:.3f}" for path, value in values if value is not None)
            lines.append(f"  {model}: {shown or 'no nuclei'}")
        return "\n".join(lines)

    @property
    def documents(self) -> dict[str, tuple[ResultDocuments, str]]:
        """The result of each model, and the aggregation of it that is shown."""
        return {model: (ResultDocuments(result.metrics), AGGREGATION) for model, result in self.results.items()}

    def details(self) -> dict[str, ResultDocuments]:
        """The result of each model, with what is known of each case."""
        return {model: ResultDocuments(result.metrics, result.details) for model, result in self.results.items()}

    def rows(self) -> list[SkillRow]:
        """The scores of each skill, side by side."""
        return skill_rows(list(self.documents.values()))

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        head = "".join(f"<th>{escape(model)}</th>" for model in self.results)
        body = []
        for row in self.rows():
            values = "".join(f"<td>{score}</td>" for score in row.scores)
            body.append(f'<tr><th style="text-align:left" title="{row.skill}">{escape(row.path)}</th>{values}</tr>')
        return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"

    def to_frame(self, level: Level = "scores") -> pandas.DataFrame:
        """A pandas table: "scores" (a row for each model and metric), "cases" or "nuclei". Needs pandas."""
        frames = []
        for model, result in self.results.items():
            frame = result.to_frame(level)
            frame.insert(0, "model", model)
            frames.append(frame)
        return import_pandas().concat(frames, ignore_index=True)

    def plot(self) -> Figure:
        """Headline scores with their intervals, as a figure of matplotlib. Needs the extra ``report``."""
        from evaluation.report.html import require_extra

        require_extra()
        from evaluation.report.figures import picture_of
        from evaluation.report.skills import score_figure

        return picture_of(
            score_figure({model: document for model, (document, _) in self.documents.items()}, AGGREGATION)
        )

    def page(self) -> Page:
        """The page that ``report`` writes."""
        from evaluation.report.comparison import comparison_page
        from evaluation.report.folders import read_nuclei

        documents = self.details()
        with objects_of(self.results) as paths:
            nuclei = {model: read_nuclei(path, documents[model]) for model, path in paths.items()}
        cases = self.challenge.cases
        return comparison_page(
            documents,
            None if self.board is None else leaderboard_document(self.board),
            nuclei,
            self.scenes,
            title=self.challenge.name,
            unit="images" if len({case.group for case in cases}) == len(cases) else "patients",
        )

    def report(self, path: Path | str) -> None:
        """Write a page with all models, to be opened in a browser. Needs the extra ``report``."""
        from evaluation.report.folders import write_page

        write_page(self.page(), Path(path))

    def write(self, folder: Path | str) -> None:
        """Write metrics.json, details.json and objects.csv of each model, and images.csv with the scores of each image.

        Of several models the files are in ``results/<name>/``, and the leaderboard is written as well.
        """
        from evaluation.authoring.compare import free_name, safe_name
        from evaluation.leaderboard.board import write_board

        folder = Path(folder)
        written: dict[str, Result] = {}
        for model, result in self.results.items():
            written[name := free_name(safe_name(model), written)] = result
            result.write(folder if self.board is None else folder / "results" / name)
        write_atomically(folder / "images.csv", self.images_csv())
        if self.board is not None:
            write_board(folder, self.board)

    def images_csv(self) -> str:
        """A row for each model and image: its patient, and the scores that are shown, "" where one is undefined."""
        documents = self.details()
        paths = [path for path in COMPARED if any(document.has(path) for document in documents.values())]
        rows = [
            [model, image.name, image.group, *(image.value(path) for path in paths)]
            for model, document in documents.items()
            for image in document.cases
        ]
        return csv_table(["model", "image", "patient", *paths], rows)


def comparison_of(
    results: Mapping[str, Result],
    notes: Sequence[str] = (),
    findings: Sequence[Finding] = (),
    apart: Sequence[str] = (),
    scenes: Mapping[str, Mapping[str, Scene]] | None = None,
) -> Comparison:
    """The results of models, and their ranking if there are several; the first was scored by the rules of the ranking.

    apart  models that have no place in it, since they cannot be compared in all of its columns
    """
    challenge = next(iter(results.values())).challenge
    board = None
    if len(results) > 1 and challenge.ranking is not None:
        columns = plan_columns(challenge, challenge.ranking.columns)
        ranked = {model: result for model, result in results.items() if model not in apart}
        teams = [
            team_of_documents(model, challenge, columns, one.metrics, one.details, tables=tables_of_result(one))
            for model, one in ranked.items()
        ]
        paths = [column.path for column in challenge.ranking.columns]
        shown = [Unranked(model, "other-rules", NO_PLACE, values_at(results[model], paths)) for model in apart]
        board = board_of_challenge(challenge, challenge.ranking, teams, shown, ())
        with objects_of(results) as objects:
            board = with_pairs(board, challenge, challenge.ranking, objects, alike=False)
    reported = [*findings, *(of_model(one, model, results) for model in results for one in results[model].findings)]
    if any(finding.code == "not-paired" for finding in findings):
        reported = [finding for finding in reported if finding.code != "missing-case-worst"]  # the same in other words
    return Comparison(dict(results), tuple(notes), tuple(dict.fromkeys(reported)), board, scenes or {})


@contextmanager
def objects_of(results: Mapping[str, Result]) -> Iterator[dict[str, Path]]:
    """The objects.csv of each model, as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="evaluation-compare-") as scratch:
        paths = {model: Path(scratch) / f"{number}.csv" for number, model in enumerate(results)}
        for model, path in paths.items():
            path.write_text(results[model].objects, encoding="utf-8")
        yield paths


def of_model(finding: Finding, model: str, models: Mapping[str, Result]) -> Finding:
    """A finding with the name of the model, if there are several and it is not of the reference."""
    if len(models) == 1 or "'reference/" in finding.where:
        return finding
    return replace(finding, where=f"prediction {quote(model)}, {finding.where}")


def values_at(result: Result, paths: Sequence[str]) -> tuple[float | None, ...]:
    """The values at paths of metrics.json; None where a result has no such number."""

    def value(path: str) -> float | None:
        try:
            return result.value(path)
        except ValueError:
            return None

    return tuple(map(value, paths))
