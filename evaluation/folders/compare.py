"""``evaluation compare``: scores of folders, files or archives, without a challenge.

``look`` detects formats, cases, sizes and classes. From them a challenge with the preset ``recommended`` and its
submissions are written, and scored like any other challenge.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from html import escape
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from evaluation.board.board import board_of_challenge, with_pairs
from evaluation.board.document import Board, leaderboard_document
from evaluation.board.stored import Unranked
from evaluation.board.team_scores import ordered_cases, plan_columns, tables_of_result, team_of_documents
from evaluation.board.titles import metric_title, names_of
from evaluation.challenge import Challenge, LimitRules
from evaluation.challenge.documents import CASES_FILE, CHALLENGE_FILE
from evaluation.challenge.formats import Overlaps
from evaluation.files.decoding.pixels import TISSUE_SUFFIXES
from evaluation.files.decoding.streams import plain_chunks
from evaluation.files.results.documents import csv_table
from evaluation.files.results.files import write_atomically
from evaluation.findings import Finding, counted, fault, listed, quote, render_findings
from evaluation.findings.errors import ChallengeBroken, EvaluationError, SubmissionRejected, WrongUsage
from evaluation.folders import made_challenge as challenges
from evaluation.folders.differences import (
    ModelDifference,
    differences_csv,
    differences_of,
    differences_table,
    of_images,
    value_at,
)
from evaluation.folders.hints import hints_about_files
from evaluation.folders.look import look
from evaluation.folders.made_challenge import ClassPlan, Party, Wanted, free_name, holds_points, safe_name
from evaluation.folders.pieces import EACH_A_MASK, pixels_of
from evaluation.folders.source import NAMELESS, Source, SourceFile, convert_call, pictures_near
from evaluation.report.page import Page, Table
from evaluation.report.result import ResultDocuments
from evaluation.report.skills import COMPARED, MARK, SkillRow, side_by_side, skill_rows
from evaluation.scoring.score import Result, import_pandas, summarise
from evaluation.scoring.street import count_submission
from evaluation.scoring.workers import Progress, progress_of_round, run_work

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from evaluation.report.notebook import ShownPage, ShownTable
    from evaluation.report.nuclei import NucleusTable
    from evaluation.report.paper import PaperTable
    from evaluation.report.pictures import Scene

SHORT = ("detection.f1", "classification.balanced_accuracy", "segmentation.iou", "panoptic.pq", "panoptic.binary.pq")
AGGREGATION = "group_mean"
NO_PLACE = "its classes, or its points, cannot be compared by the rules of the other models"
Level = Literal["scores", "cases", "nuclei", "table"]
_PLACES = {"metrics": "--metrics", "limits": "the images"}  # of tables of challenge.toml


def compare_paths(
    reference: Path,
    predictions: Mapping[str, Path],
    *,
    classes: str | None = None,
    folder: Path | None = None,
    ignore: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    match: str | None = None,
    annotators: Sequence[str] = (),
    families: Sequence[str] = (),
    explain: bool = False,
    pictures: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Score predictions against a reference, each a folder, a ZIP or a file.

    classes  the classes with other spellings, "tumour=neoplastic=1,stroma"; "none": one class; None: the classes
             of both sides
    explain  add detected formats and their signs to the notes
    pictures draw the nuclei of every image for the page, on the tissue image if it is next to the files
    folder   for the created challenge and the predictions; None: not kept
    ignore   labels or classes of unannotated regions in the reference: predictions there do not count
    leave_out  classes of either side that are not nuclei, such as cells: their content is scored
    match    matching rule, as ``--match``: "iou=0.7", "centroid=12", "hausdorff=6", "any_overlap"
    annotators  names of predictions that are second annotations: shown as the ceiling, never best or ranked
    families further families of metrics, such as "objects"

    Raises WrongUsage for what cannot be read or paired, SubmissionRejected or ChallengeBroken for faulty files.
    """
    with ExitStack() as stack:
        stack.enter_context(_told_for_files())
        workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evaluation-compare-")))
        if folder is not None and folder.exists() and any(folder.iterdir()):
            raise WrongUsage(fault("file-exists", quote(folder, 120), wording="folder-not-empty"))
        paths = [reference, *predictions.values()]
        skip_tables = challenges.is_none(classes)  # of predictions; those of the reference may call nuclei ambiguous
        named = challenges.spellings_of(classes)
        sides = _look_at_sides(paths, workspace, leave_out, named, skip_tables=skip_tables)
        reference_side, of_models = sides[0], dict(zip(predictions, sides[1:], strict=True))
        of_models = {model: _with_categories(side, reference_side) for model, side in of_models.items()}
        _check_ignored(reference_side, of_models.values(), ignore)
        wanted = Wanted(
            challenges.parsed_match(match) if match else None,
            tuple(families),
            tuple(challenges.ignored_classes(reference_side, ignore)) if ignore else (),
            as_one=skip_tables,
        )
        planned = challenges.plan_classes(reference_side, of_models, classes, wanted.ignore)
        parties = parties_of(reference_side, of_models, planned)
        results: dict[str, Result] = {}
        scenes: dict[str, Mapping[str, Scene]] = {}
        tissue = _tissue_of(reference_side, of_models.values()) if pictures else {}
        signs = [line for side in sides for line in (f"Files of {quote(str(side.path), 120)}:", *side.signs)]
        notes: list[str] = signs if explain else []
        findings = list(planned.findings)
        lost: dict[str, list[str]] = {}
        for number, party in enumerate(parties):
            made = challenges.make_challenge(reference_side, party, wanted, workspace)
            if faults := challenges.faults_of_sizes(made):
                raise WrongUsage(*faults)
            challenge = next(iter(made.rules.values()))
            for model, own in made.rules.items():
                submitted = made.submissions[model]
                shown = progress_of_round(progress, len(results), len(of_models))
                with _told_for_files(model if len(of_models) > 1 else ""):
                    run = partial(run_work, workers=workers)
                    result = summarise(*count_submission(own, made.reference, submitted, run, shown, writes=False))
                if pictures:
                    from evaluation.report.pictures import judge_files  # slow to import

                    names = [case.name for case in own.cases]
                    drawn = judge_files(own, made.reference, submitted, tissue, names, workers=workers)
                    scenes[model] = drawn.scenes
                hints = hints_about_files(made.reference, submitted, result)
                hints = [_about_um(hint, of_models[model]) for hint in hints]
                findings += [replace(hint, where=f"prediction {quote(model)}") for hint in hints]
                results[model] = replace(result, challenge=challenge, findings=_for_files(result.findings))
                for words in filter(None, (_about_overlaps(own, result), _about_empty(result))):
                    lost.setdefault(words, []).append(model)
            if folder is not None and number == 0:
                made.save(folder)
            notes += made.notes
            findings += made.findings
        notes += [words.format(names=names_of(models)) for words, models in lost.items()]
        findings = list(dict.fromkeys(_for_files(findings)))
        return comparison_of(results, parties, tuple(dict.fromkeys(notes)), findings, scenes, annotators)


def _tissue_of(reference: Source, models: Collection[Source]) -> dict[str, Path]:
    """The pictures that are next to the files of a case, or in a folder of pictures near them, by case."""
    taken: set[str] = set()
    pictures = {}
    for name, case in reference.cases.items():
        free = free_name(safe_name(name), taken)
        files = [file for side in (reference, *models) for file in side.cases.get(name, case).files]
        own = {path for file in files for path in (file.path, file.classes)}
        near = (path for file in files for path in pictures_near(file.path, [name]))
        picture = next((path for path in near if path not in own and path.suffix in TISSUE_SUFFIXES), None)
        if picture is not None:
            pictures[free] = picture
    return pictures


def _look_at_sides(
    paths: Sequence[Path], workspace: Path, leave_out: Sequence[str], named: Sequence[str], *, skip_tables: bool
) -> list[Source]:
    """Look at reference and predictions. The sizes of images on one side show how arrays of the other are.

    named  spellings of the requested classes; without them, the reference shows which may be in paths
    """

    def look_at(
        path: Path, sizes: Collection[tuple[int, int]], known: Sequence[str] = named, *, is_reference: bool
    ) -> Source:
        folder = Path(tempfile.mkdtemp(dir=workspace))
        skip = skip_tables and not is_reference
        return look(path, folder, skip_tables=skip, imports=True, sizes=sizes, leave_out=leave_out, known=known)

    reference = look_at(paths[0], (), is_reference=True)
    known = named or reference.classes
    predictions = [look_at(path, _sizes_in(reference), known, is_reference=False) for path in paths[1:]]
    if reference.is_stack or EACH_A_MASK in reference.imports:
        reference = look_at(paths[0], set().union(*map(_sizes_in, predictions)), is_reference=True)
    return [reference, *predictions]


def _sizes_in(side: Source) -> set[tuple[int, int]]:
    return set() if side.is_stack else {case.size_yx for case in side.cases.values() if case.size_yx is not None}


def parties_of(reference: Source, models: Mapping[str, Source], planned: ClassPlan) -> list[Party]:
    """Group the models by the rules under which each would be compared alone, so that models do not affect each other.

    The first party is ranked: outlines before points, and models with classes before models without.
    """
    parties = []
    for is_point in (False, True):
        for is_without in (False, True):
            chosen = {
                model: side
                for model, side in models.items()
                if (holds_points(side) or holds_points(reference)) == is_point
                and (model in planned.without) == is_without
            }
            plan, foreign = (planned.one_class, ()) if is_without else (planned.classes, planned.foreign)
            parties += [Party(chosen, plan, foreign, is_point)] if chosen else []
    return parties


def _about_overlaps(challenge: Challenge, result: Result) -> str:
    """A note if outlines of the reference lose pixels, because the files of models cannot contain overlaps."""
    if challenge.reference.overlaps is Overlaps.NONE and "{class}" not in challenge.reference.files:
        return ""  # spares unpacking the results of all cases
    reports = [case.rasterisation for case in result.cases if case.rasterisation is not None]
    lost = sum(report.outlines_that_lost_pixels for report in reports)
    whole = sum(len(report.outlines_lost_whole) for report in reports)
    if not lost and not whole:
        return ""
    outlines = f"{lost:,} of {sum(report.outlines for report in reports):,} lose pixels to other nuclei"
    outlines += f", and {whole:,} {'is' if whole == 1 else 'are'} lost whole" * bool(whole)
    why = "Outlines of the reference overlap, which the files of {names} cannot contain"
    return f"{why}: {outlines} (overlap = {challenge.reference.overlap})."


def _about_empty(result: Result) -> str:
    """A note if nothing is predicted in images that have nuclei, and have a prediction."""
    sums = result.scored.tables[next(iter(result.scores))].sums
    with_nuclei = sums["confusion"][:, 1:].any(axis=(1, 2)) & (sums["missing"] == 0)
    empty = np.flatnonzero(with_nuclei & ~sums["confusion"][:, :, 1:].any(axis=(1, 2)))
    if not len(empty):
        return ""
    name = quote(result.scored.cases[empty[0]].name, 24).replace("{", "{{").replace("}", "}}")
    images = f"{len(empty):,} of {counted(int(with_nuclei.sum()), 'image')} with nuclei, such as {name}"
    return f"No nucleus of {{names}} in {images}."


@contextmanager
def _told_for_files(model: str = "") -> Iterator[None]:
    """Raise faults in the words for somebody without a challenge, those of a submission with the name of its model."""
    try:
        yield
    except EvaluationError as error:
        if isinstance(error, ChallengeBroken):
            error.findings = tuple(replace(finding, side="reference") for finding in error.findings)
        error.findings = _of_model(_for_files(error.findings), model * isinstance(error, SubmissionRejected))
        raise


def _check_ignored(reference: Source, models: Collection[Source], ignore: Sequence[str]) -> None:
    """Refuse what ``--ignore`` cannot name in the files of a reference. Raises WrongUsage."""
    known = {name.casefold() for name in reference.classes}
    for name in ignore:
        if holds_points(reference):
            raise WrongUsage(fault("nothing-to-ignore", f"--ignore {quote(name)}", wording="points"))
        may_be_label = reference.format == "label_image" and challenges.is_number(name)
        may_be_region = reference.format == "geojson"  # regions of QuPath are seen when all classes are known
        if name.casefold() in known:
            continue
        if may_be_label and not int(name):
            raise WrongUsage(fault("nothing-to-ignore", f"--ignore {quote(name)}", wording="background"))
        if challenges.is_number(name) and any(challenges.covers_half(side, int(name)) for side in models):
            continue
        if not (may_be_label or may_be_region) or not any(_has_in_it(file, name) for file in reference.files()):
            label = "the number of a label, such as 255" if reference.format == "label_image" else ""
            classes = f"a class of its nuclei ({listed(reference.classes, 20)})" if reference.classes else ""
            expected = " or ".join(filter(None, (label, classes))) or "a reference with classes"
            raise WrongUsage(fault("nothing-to-ignore", f"--ignore {quote(name)}", expected=expected))


def _has_in_it(file: SourceFile, name: str) -> bool:
    """Return whether a file contains what ``--ignore`` names: a label, or the name of a class."""
    if file.detected.format == "label_image":
        array = pixels_of(file, as_colours=False)
        return array is None or bool((array == int(name)).any())
    with file.path.open("rb") as stream:
        text = b"".join(plain_chunks(stream, quote(file.name), LimitRules().bytes_per_file)).decode("utf-8", "replace")
    return any(word.casefold() in text.casefold() for word in (f'"{name}"', json.dumps(name)))


def _about_um(hint: Finding, side: Source) -> Finding:
    """Add the command that converts um to px to a hint that the coordinates of GeoJSON may be um."""
    if hint.wording != "times-as-large" or side.format != "geojson" or side.imports:
        return hint
    factor = f"{hint.data['factor']:g}"
    call = convert_call(side.path, side.files()[0].name, "--to", "geojson", "--set", f"scale={factor}")
    return hint.advised(f"If so, multiply them by {factor}. {call}")


def model_names(paths: Sequence[Path]) -> dict[str, Path]:
    """A short name for each prediction: its file or folder name, with the folder around it where two are the same.

    A common beginning of all names is removed up to its last "_", "-", " " or ".", if letters follow in every name.
    """

    def without_challenge_words(path: Path) -> str:
        path = path.resolve()
        return path.name if path.is_dir() else re.sub(r"(\.[A-Za-z][A-Za-z0-9]{0,7})+$", "", path.name) or path.name

    short = [without_challenge_words(path) for path in paths]
    if len(set(short)) > 1:
        shared = re.match(r".*[ _.-]|", commonprefix(short))  # noqa: RUF071
        rest = [name[shared.end() :] if shared else name for name in short]
        short = rest if all(re.match(r"[^\W\d]", name) for name in rest) else short
    names: dict[str, Path] = {}
    taken: set[str] = set()
    for name, path in zip(short, paths, strict=True):
        if short.count(name) > 1:
            name = f"{path.resolve().parent.name}_{name}"
        names[free_name(safe_name(name), taken)] = path
    return names


def _with_categories(prediction: Source, reference: Source) -> Source:
    """Results of COCO with the names that the reference has for the ids of their classes."""
    known = reference.categories
    if prediction.categories or not (prediction.classes and set(prediction.classes) <= set(known)):
        return prediction
    numbers = {known[id]: int(id) for id in prediction.classes if id.isdecimal()}
    classes = tuple(known[id] for id in prediction.classes if known[id] != NAMELESS)
    return replace(prediction, classes=classes, numbers=numbers)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Scores of one or more predictions. In a notebook it shows itself as a table.

    results   a ``Result`` for each prediction, by its name
    notes     findings and assumptions, in words
    findings  warnings: files without a partner, classes of one side, ...
    apart     predictions that cannot be ranked with the rest
    scenes    scenes of the images of each model on the page, by their names; may be empty
    annotators  predictions that are second annotations: their agreement with the reference is the ceiling
    draw      creates missing scenes on first use
    """

    results: Mapping[str, Result]
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    apart: tuple[str, ...] = ()
    scenes: Mapping[str, Mapping[str, Scene]] = field(default_factory=dict)
    annotators: tuple[str, ...] = ()
    draw: Callable[[], Mapping[str, Mapping[str, Scene]]] | None = None

    @property
    def challenge(self) -> Challenge:
        """The rules by which all were scored."""
        return next(iter(self.results.values())).challenge

    def value(self, path: str, model: str | None = None) -> float | None:
        """The score of a model (default: the only model), by metric title or path of metrics.json."""
        return self.result_of(model).value(path)

    def result_of(self, model: str | None = None) -> Result:
        if model is None and len(self.results) > 1:
            raise ValueError(f"there are several models: {', '.join(self.results)}; name one")
        if model is not None and model not in self.results:
            raise ValueError(f"no model {model!r}; expected {listed(self.results)}")
        return next(iter(self.results.values())) if model is None else self.results[model]

    def __repr__(self) -> str:
        cases = len(self.challenge.cases)
        lines = [f"Comparison of {counted(cases, 'image')}{', means' * (cases > 1)}", *self.about_classes]
        paths = [row.path for row in self.rows() if row.path in SHORT]
        for model, result in self.results.items():
            values = ((path, value_at(result, f"{path}.{AGGREGATION}")) for path in paths)
            shown = ", ".join(f"{metric_title(path)} {value:.3f}" for path, value in values if value is not None)
            lines.append(f"  {model}: {shown or 'no nuclei'}")
        return "\n".join(lines)

    @cached_property
    def board(self) -> Board | None:
        """The ranking under the rules of the first party (``parties_of``); None for one prediction."""
        challenge, results = self.challenge, self.results
        if len(results) - len(self.annotators) < 2 or challenge.ranking is None:
            return None
        ranking = challenge.ranking.model_copy(update={"unranked": self.annotators})
        columns = plan_columns(challenge, ranking.paths)
        teams = [
            team_of_documents(model, challenge, columns, one.metrics, one.details, tables=tables_of_result(one))
            for model, one in results.items()
            if model not in self.apart
        ]
        shown = [
            Unranked(model, "other-rules", NO_PLACE, tuple(value_at(results[model], path) for path in ranking.paths))
            for model in self.apart
        ]
        board = board_of_challenge(challenge, ranking, teams, shown, ())
        board = replace(board, units=board.units._replace(kind=self.unit))
        objects = {model: result.objects.encode() for model, result in results.items()}
        return with_pairs(board, challenge, ranking, objects, alike=False)

    @property
    def unit(self) -> str:
        """What means are over: "images", or "patients" if they have several."""
        cases = self.challenge.cases
        return "images" if len({case.group for case in cases}) == len(cases) else "patients"

    @cached_property
    def differences(self) -> list[ModelDifference]:
        """Every model compared with the best model in each main score; empty for one prediction."""
        models = {model: result for model, result in self.results.items() if model not in self.annotators}
        return differences_of(models, [row.path for row in self.rows()])

    @property
    def labels(self) -> dict[str, str]:
        """The names of the models as tables show them: annotators are marked."""
        return {model: f"{MARK}{model}" if model in self.annotators else model for model in self.results}

    @property
    def about_classes(self) -> list[str]:
        """The lines about different classes, which are first on every screen."""
        return render_findings(finding for finding in self.findings if finding.code == "classes-differ")

    @property
    def documents(self) -> dict[str, tuple[ResultDocuments, str]]:
        """The result of each model, and the aggregation of it that is shown."""
        return {model: (ResultDocuments(result.metrics), AGGREGATION) for model, result in self.results.items()}

    def details(self) -> dict[str, ResultDocuments]:
        """The result of each model, with information on each case."""
        return {model: ResultDocuments(result.metrics, result.details) for model, result in self.results.items()}

    def rows(self) -> list[SkillRow]:
        """The scores that are shown, side by side."""
        return skill_rows(list(self.documents.values()), {"": tuple(COMPARED)})

    def scores(self) -> Table:
        """The table of scores of terminals and notebooks."""
        groups = len({case.group for case in self.challenge.cases})
        what = f"mean over {self.unit}" if groups > 1 else "score"
        columns = {self.labels[model]: column for model, column in self.documents.items()}
        return side_by_side("", columns, what=what)

    def summary(self) -> ShownTable:
        """Tabulate why the PQ is below 1: what detection, classes and outlines cost, and how much of it is a pixel."""
        from evaluation.report.notebook import ShownTable

        table = self._summary()
        if table is None:
            raise ValueError("there is no score of matched nuclei to explain")
        return ShownTable(table)

    def show(self, image: str | None = None, *, height: int = 640) -> ShownPage:
        """Show the nuclei in a notebook, in the viewer of the page. Needs the extra ``report``.

        image   by its name; None: the image with the worst score
        height  of the viewer, px
        """
        from evaluation.report.notebook import ShownPage
        from evaluation.report.submission import image_sections

        names = [case.name for case in self.challenge.cases]
        if image is not None and image not in names:
            raise ValueError(f"no image {image!r}; expected {listed(names)}")
        sections = image_sections(self._labelled(), self._nuclei(), self._drawn, start=image or "*")
        subtitle = f"{counted(len(self.results), 'model')}, {counted(len(names), 'image')}"
        return ShownPage(Page(self.challenge.name, subtitle, (), tuple(sections[:1])), height)

    def _repr_html_(self) -> str:
        """The tables that notebooks show."""
        from evaluation.report.notebook import table_html

        first = "".join(f"<p>{escape(line)}</p>" for line in self.about_classes)
        tables = [self.scores(), self._summary()]
        return first + "".join(table_html(table) for table in tables if table is not None)

    def to_frame(self, level: Level = "scores") -> pandas.DataFrame:
        """A pandas table: "scores" (a row for each model and metric), "cases", "nuclei", or "table". Needs pandas.

        table  a row for each model and a column for each shown score, as ``compare --table`` writes them
        """
        if level == "table":
            return import_pandas().DataFrame(self.table().records())
        frames = []
        for model, result in self.results.items():
            frame = result.to_frame(level)
            frame.insert(0, "model", model)
            frames.append(frame)
        return import_pandas().concat(frames, ignore_index=True)

    def table(self) -> PaperTable:
        """The shown scores as the table of a paper."""
        from evaluation.report.paper import PaperTable

        return PaperTable(
            [*self.labels.values()], self.rows(), len({case.group for case in self.challenge.cases}), self.unit
        )

    def plot(self) -> Figure:
        """Headline scores with their intervals, as a figure of matplotlib. Needs the extra ``report``."""
        from evaluation.report.html import require_extra

        require_extra()
        from evaluation.report.figures import picture_of
        from evaluation.report.skills import score_figure

        return picture_of(
            score_figure({model: document for model, (document, _) in self.documents.items()}, AGGREGATION)
        )

    def page(self, *, ranking: bool = False) -> Page:
        """The page of ``report``; optionally with the ranking of several models."""
        from evaluation.report.submission import comparison_page

        differences = differences_table(self.differences, self.unit) if self.differences else None
        return comparison_page(
            self._labelled(),
            leaderboard_document(self.board) if ranking and self.board else None,
            self._nuclei(),
            self._drawn,
            title=self.challenge.name,
            about_classes=self.about_classes,
            beside=[table for table in (differences, self._summary()) if table is not None],
            unit=self.unit,
        )

    def _nuclei(self) -> dict[str, NucleusTable | None]:
        """The nuclei of each model."""
        from evaluation.report.folders import read_nuclei

        documents, labels = self.details(), self.labels
        objects = {model: result.objects.encode() for model, result in self.results.items()}
        return {labels[model]: read_nuclei(table, documents[model]) for model, table in objects.items()}

    @cached_property
    def _drawn(self) -> Mapping[str, Mapping[str, Scene]]:
        scenes = self.scenes if self.scenes or self.draw is None else self.draw()
        return {self.labels[model]: of_model for model, of_model in scenes.items()}

    def _labelled(self) -> dict[str, ResultDocuments]:
        return {self.labels[model]: document for model, document in self.details().items()}

    def _summary(self) -> Table | None:
        from evaluation.report.summary import summary_table

        return summary_table({self.labels[model]: result for model, result in self.results.items()})

    def report(self, path: Path | str, *, ranking: bool = False) -> None:
        """Write a page with all models, to be opened in a browser. Needs the extra ``report``."""
        from evaluation.report.folders import write_page

        write_page(self.page(ranking=ranking), Path(path))

    def write(self, folder: Path | str, *, ranking: bool = False) -> None:
        """Write metrics.json, details.json and objects.csv of each model, and images.csv with the scores of each image.

        For several models the files are in ``results/<name>/``, with differences.csv, and optionally with the
        leaderboard.
        """
        from evaluation.board.board import write_board

        folder = Path(folder)
        taken: set[str] = set()
        for model, result in self.results.items():
            name = free_name(safe_name(model), taken)
            result.write(folder / "results" / name if len(self.results) > 1 else folder)
        write_atomically(folder / "images.csv", self.images_csv())
        if self.differences:
            write_atomically(folder / "differences.csv", differences_csv(self.differences))
        if ranking and self.board is not None:
            write_board(folder, self.board)

    def images_csv(self) -> str:
        """A row for each model and image: its patient, and the scores that are shown as they enter the mean.

        So an image with nuclei but no predictions has the worst value; "" if a value is undefined.
        """
        paths = [row.path for row in self.rows()]
        rows: list[list[object]] = []
        for model, result in self.results.items():
            values = np.stack([of_images(result, path) for path in paths])
            texts = np.where(np.isnan(values), None, values).T.tolist()  # type: ignore[call-overload]
            cases = ordered_cases(result.challenge)
            rows += [[model, case.name, case.group, *text] for case, text in zip(cases, texts, strict=True)]
        return csv_table(["model", "image", "patient", *paths], rows)


def comparison_of(
    results: Mapping[str, Result],
    parties: Sequence[Party],
    notes: Sequence[str] = (),
    findings: Sequence[Finding] = (),
    scenes: Mapping[str, Mapping[str, Scene]] | None = None,
    annotators: Sequence[str] = (),
) -> Comparison:
    """The results of models, and their ranking if there are several, by the rules of the first party.

    Models of other parties are excluded if they cannot be compared in all of its columns.
    """
    apart = tuple(model for other in parties[1:] if not parties[0].ranks(other) for model in other.models)
    reported = [*findings]
    for model, result in results.items():
        reported += _of_model(result.findings, model if len(results) > 1 else "")
    if any(finding.code == "not-paired" for finding in findings):
        reported = [finding for finding in reported if finding.code != "missing-case-worst"]  # the same in other words
    if unknown := [name for name in annotators if name not in results]:
        raise ValueError(f"annotators: {unknown[0]!r} is no prediction; expected {listed(results)}")
    told = tuple(dict.fromkeys(reported))
    return Comparison(dict(results), tuple(notes), told, apart, scenes or {}, tuple(annotators))


def _of_model(findings: Iterable[Finding], model: str) -> tuple[Finding, ...]:
    """The findings with the name of a model ("": the only one) before the place, if that is not in the reference."""
    where = f"prediction {quote(model)}, " if model else ""
    return tuple(one if one.side == "reference" else replace(one, where=where + one.where) for one in findings)


def _for_files(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the words for somebody who has files and no challenge."""
    return tuple(replace(one.for_folders(), where=_place_in_folders(one.where)) for one in findings)


def _place_in_folders(where: str) -> str:
    """Return a place in a created challenge with the names of the user.

    >>> _place_in_folders("challenge.toml: metrics.families"), _place_in_folders("cases.csv, line 2")
    ('--metrics', 'the images of the reference, line 2')
    """
    file, _, key = where.partition(": ")
    if file == CHALLENGE_FILE:
        return _PLACES.get(key.partition(".")[0], f"the rules that were made: {key}")
    return f"the images of the reference{where.removeprefix(CASES_FILE)}" if where.startswith(CASES_FILE) else where
