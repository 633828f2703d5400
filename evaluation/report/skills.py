"""The main scores of detection, classification and segmentation, in one list.

The terminal, pages and notebooks show the same rows, of one result in several aggregations, or of several results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from evaluation.board.stored import read_metrics
from evaluation.board.titles import metric_title
from evaluation.findings.errors import InputFault
from evaluation.report.figures import series_colour
from evaluation.report.page import Axis, Cell, Dot, Figure, Series, Table, Tone, Value
from evaluation.report.result import (
    WORDS_OF_AGGREGATIONS,
    Document,
    ResultDocuments,
    is_lower_better,
    node_at,
    reason_in_words,
)
from evaluation.report.tables import bar_cell, table_of

WITHOUT_CLASSES = "panoptic.binary.pq"  # shown where the classes of the two sides are not compared
SKILLS: Mapping[str, tuple[str, ...]] = {  # the first that a result has is the main score of the skill
    "Detection": ("detection.f1", "detection.precision", "detection.recall", "curves.froc"),
    "Classification": ("classification.balanced_accuracy", "classification.accuracy"),
    "Segmentation": (
        "segmentation.iou_class_mean", "segmentation.dice_class_mean", "segmentation.iou", "segmentation.dice",
        "segmentation.hausdorff_px"
    ),
    "Every nucleus": (
        "covered.class_f1", "covered.surface_dice", "detection.macro_f1", "overall.accuracy", "overall.iou",
        "overall.hausdorff_px"
    ),
    "Panoptic quality": ("panoptic.pq", "panoptic.sq", "panoptic.rq", WITHOUT_CLASSES),
    "Counting": ("counting.mean_absolute_error", "counting.r2"),
}  # fmt: skip
ABOUT: Mapping[str, str] = {
    "Classification": ", of matched nuclei",
    "Segmentation": ", of matched nuclei",
    "Every nucleus": ", false negatives at the worst value",
}
CONDITIONAL = {skill: paths for skill, paths in SKILLS.items() if skill != "Every nucleus"}  # beside a ranking
SIDE_BY_SIDE = 5  # teams in a shell
NOTE_ON_DISTANCES = (
    "Hausdorff distance: without a match an image counts with its diagonal, unless the rules exclude it."
)

COMPARED: Mapping[str, str] = {  # what a comparison shows, in the field's words
    "detection.f1": "Detection: F1",
    "detection.precision": "Detection: precision",
    "detection.recall": "Detection: recall",
    "classification.balanced_accuracy": "Matched nuclei: balanced accuracy",
    "classification.macro_f1": "Matched nuclei: macro F1 of classes",
    "segmentation.iou": "Matched nuclei: IoU",
    "segmentation.dice": "Matched nuclei: Dice",
    "segmentation.hausdorff_px": "Matched nuclei: Hausdorff, px",
    "segmentation.hausdorff95_px": "Matched nuclei: HD95, px",
    "panoptic.pq": "Panoptic quality",
    WITHOUT_CLASSES: "PQ without classes",
    "thresholds.f1_iou75": "F1 at IoU 0.75",
    "thresholds.f1_iou90": "F1 at IoU 0.9",
    "thresholds.f1_iou50_95": "F1 at IoU 0.5:0.05:0.95",
    "thresholds.threat_score_iou50": "Threat score at IoU 0.5",
    "thresholds.threat_score_iou75": "Threat score at IoU 0.75",
    "thresholds.threat_score_iou90": "Threat score at IoU 0.9",
    "thresholds.threat_score_iou50_95": "Threat score at IoU 0.5:0.05:0.95",
    "overlap.aji": "AJI",
    "overlap.dice1": "Dice of the foreground",
    "counting.mean_absolute_error": "Number of nuclei: mean absolute error",
    "counting.r2": "Number of nuclei: R²",
}


@dataclass(frozen=True, slots=True)
class _ShownScore:
    """A value as in metrics.json, its interval, the reason for a missing value, and the standard deviation."""

    value: float | None
    ends: tuple[float, float] | None
    why: str
    deviation: float | None = None

    def __str__(self) -> str:
        return self.text()

    def text(self, digits: int = 3) -> str:
        """As tables show it: "0.500 (0.250 to 0.750)", which breaks before the bracket if it is narrow.

        Without an interval, the standard deviation is beside the value.

        >>> _ShownScore(0.5, (0.25, 0.75), "").text(4).split(), str(_ShownScore(None, None, "no-instances"))
        (['0.5000', '(0.250', 'to', '0.750)'], '– (no instances)')
        >>> _ShownScore(0.5, None, "", 0.125).text().split()
        ['0.500', '±', '0.125']
        """
        if self.value is None:
            return f"– ({self.why.replace('-', ' ')})" if self.why else "–"
        ends = f" ({self.ends[0]:z.3f}\u00a0to\u00a0{self.ends[1]:z.3f})" if self.ends else ""
        if not self.ends and self.deviation is not None:
            ends = f"\u00a0±\u00a0{self.deviation:z.3f}"
        return f"{self.value:.{digits}f}{ends}"


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A metric of a skill, and its scores side by side."""

    skill: str
    path: str
    scores: tuple[_ShownScore, ...]

    @property
    def arrow(self) -> str:
        """Towards better values."""
        return "↓" if is_lower_better(self.path) else "↑"

    def best(self, columns: Sequence[int]) -> float | None:
        """The best value of some columns; None if there are not several, or all are the same."""
        values = [self.scores[column].value for column in columns]
        known = [value for value in values if value is not None]
        return (min if self.arrow == "↓" else max)(known) if len(known) > 1 and len(set(values)) > 1 else None


def skill_rows(
    columns: Sequence[tuple[ResultDocuments, str]], skills: Mapping[str, tuple[str, ...]] = SKILLS
) -> list[SkillRow]:
    """The scores of each skill that some result has, side by side; a column is a result and an aggregation."""
    return [
        SkillRow(skill, path, tuple(_score_of(result, f"{path}.{name}") for result, name in columns))
        for skill, paths in skills.items()
        for path in paths
        if any(result.has(path) for result, _ in columns)
        and not (path == WITHOUT_CLASSES and all(result.has("panoptic.pq") for result, _ in columns))
        and not any(f"{path}_class_mean" in paths and result.has(f"{path}_class_mean") for result, _ in columns)
    ]


def _score_of(result: ResultDocuments, path: str) -> _ShownScore:
    reason = node_at(result.metrics["undefined"], path)
    return _ShownScore(result.value(path), result.interval(path), str(reason or ""), result.deviation(path))


def about_spread(rows: Sequence[SkillRow]) -> str:
    """Return the note on intervals or standard deviations next to the values; "" if there are none."""
    scores = [score for row in rows for score in row.scores]
    if any(score.ends for score in scores):
        return "In brackets: the confidence interval."
    return "±: standard deviation." if any(score.deviation is not None for score in scores) else ""


def _about_distances(rows: Sequence[SkillRow]) -> str:
    """Return the cost of an image without matches, if a row is a distance of matched nuclei."""
    return NOTE_ON_DISTANCES if any(row.path == "segmentation.hausdorff_px" for row in rows) else ""


MARK = "○ "  # before an entry that is shown beside others, and not one of them
UNBOUNDED = ("curves.froc", "counting.r2")  # not in 0…1


def side_by_side(
    caption: str,
    columns: Mapping[str, tuple[ResultDocuments, str]],
    skills: Mapping[str, tuple[str, ...]] = MappingProxyType({"": tuple(COMPARED)}),
    *,
    what: str = "score",
) -> Table:
    """Tabulate scores in rows, with a column of bars for each result and aggregation.

    The best value of a row is marked, among values with the aggregation of the first column. Other ``skills`` go by
    path. ``what`` is the title of the column of names.
    """
    rows = skill_rows(list(columns.values()), skills)
    paths = [row.path for row in rows]
    names = paths if "" not in skills else [COMPARED[path] for path in paths]
    aggregations = [aggregation for _, aggregation in columns.values()]
    is_marked = [label.startswith(MARK) for label in columns]
    alike = [at for at, name in enumerate(aggregations) if name == aggregations[0] and not is_marked[at]]
    table: list[list[Value]] = []
    for row, name in zip(rows, names, strict=True):
        is_bar, best, cells = row.arrow == "↑" and row.path not in UNBOUNDED, row.best(alike), list[Value]()
        for index, score in enumerate(row.scores):
            cell = bar_cell(score.value, score.text(4), score.ends, is_bar=is_bar)
            is_best = index in alike and best is not None and score.value == best
            cells.append(replace(cell, tone="good") if is_best else cell)
        table.append([f"{name} {row.arrow}", *cells])
    notes = ["↑: higher is better, ↓: lower is better."]
    notes += ["✓: the best."] if len(alike) > 1 else []
    notes += ["○: second annotation or baseline, never marked as the best."] if any(is_marked) else []
    notes += filter(None, [about_spread(rows)])
    whys = dict.fromkeys(score.why for row in rows for score in row.scores if score.value is None and score.why)
    notes += [f"{why.replace('-', ' ').capitalize()}: {reason_in_words(why)}." for why in whys]
    notes += [f"{skill}: {ABOUT[skill][2:]}." for skill in dict.fromkeys(row.skill for row in rows) if skill in ABOUT]
    notes += filter(None, [_about_distances(rows)])
    titles, note = [what, *columns], " ".join(notes)
    return table_of("compared-scores", caption, titles, table, help={}, sortable=False, note=note)


def teams_table(document: Document, results: Mapping[str, Document]) -> Table:
    """The first teams of a leaderboard with a result, side by side; entries that are not ranked are marked."""
    names = {team["name"]: team["name"] for team in document["teams"]}
    names |= {entry["name"]: f"{MARK}{entry['name']}" for entry in document["shown"]}
    known = {label: ResultDocuments(results[name]) for name, label in names.items() if name in results}
    main = main_of(document, next(iter(known.values())))
    which = f"The first {SIDE_BY_SIDE} of {len(known):,} teams" if len(known) > SIDE_BY_SIDE else "All teams"
    columns = {name: (result, main) for name, result in list(known.items())[:SIDE_BY_SIDE]}
    return side_by_side(f"{which} side by side, {_mean_in_words(document, main)}", columns, CONDITIONAL)


def score_figure(results: Mapping[str, ResultDocuments], aggregation: str) -> Figure:
    """The main scores between 0 and 1 with their intervals, for notebooks: a series of marks for each result."""
    rows = skill_rows([(result, aggregation) for result in results.values()])
    rows = [row for row in rows if row.arrow == "↑" and row.path not in UNBOUNDED]
    series = []
    for index, name in enumerate(results):
        scores = {metric_title(row.path): row.scores[index] for row in rows}
        known = [(title, score, score.ends or (None, None)) for title, score in scores.items()]
        dots = [Dot(title, score.value, low=ends[0], high=ends[1]) for title, score, ends in known]
        series.append(Series(name, [dot for dot in dots if dot.y is not None], series_colour(index)))
    how = WORDS_OF_AGGREGATIONS[aggregation]
    return Figure("main-scores", "Main scores", f"Scores, {how}.", series, y=Axis(how, (0, 1.02)))


# --- the table of a leaderboard ---------------------------------------------------------------------------------------


INTERVALS_UP_TO = 5  # columns of a table; with more there is no room for them
TEAMS_UP_TO = 200  # that are shown side by side: reading the results of thousands takes longer than ranking them


def read_results(folder: Path, document: Document) -> dict[str, Document]:
    """The metrics.json of teams, by name, as ``leaderboard`` keeps them: ``results/<team>/metrics.json``.

    Only the first ``TEAMS_UP_TO`` teams are read. Teams without a result, and results of other rules or cases than the
    leaderboard, are omitted.
    """
    names = [team["name"] for team in (*document["teams"][:TEAMS_UP_TO], *document.get("shown", ()))]
    folders = {name: folder / "results" / name for name in names}
    inside = {name: path / "metrics.json" for name, path in folders.items() if path.parent == folder / "results"}
    return results_in(inside, document)


def results_in(files: Mapping[str, Path], document: Document) -> dict[str, Document]:
    """Read those files that are a metrics.json by the rules of a leaderboard."""
    documents: dict[str, Document] = {}
    for name, path in files.items():
        if path.is_file():
            with suppress(InputFault):
                metrics = read_metrics(path, where="'metrics.json'")
                if metrics["challenge"] == document["challenge"]:
                    documents[name] = metrics
    return documents


def main_of(document: Document, result: ResultDocuments) -> str:
    """Choose the aggregation of the first ranked column, otherwise of a result."""
    path = document["columns"][0]["path"]
    return next((name for name in WORDS_OF_AGGREGATIONS if path.endswith(f".{name}")), result.main)


def _mean_in_words(document: Document, aggregation: str) -> str:
    """Write an aggregation in words; a mean over patients names the units on which a leaderboard compares its teams."""
    return (
        f"mean over {document['units']['kind']}" if aggregation == "group_mean" else WORDS_OF_AGGREGATIONS[aggregation]
    )


def team_tables(document: Document, results: Mapping[str, Document]) -> list[Table]:
    """A table for each skill: a row for each team with a result, the first rank on top, the best of a column marked."""
    every = (*document["teams"], *document.get("shown", ()))
    teams = [(team["name"], ResultDocuments(results[team["name"]])) for team in every if team["name"] in results]
    if not teams:
        return []
    marked = {team["name"]: f"{MARK}{team['name']}" for team in document.get("shown", ())}
    main = main_of(document, teams[0][1])
    rows = skill_rows([(result, main) for _, result in teams])

    among = f" here, the first {TEAMS_UP_TO}" if len(document["teams"]) > TEAMS_UP_TO else ""
    note = f"✓: the best of the teams{among}.{' “○”: shown and not ranked.' * bool(marked)}"
    tables = []
    for skill in SKILLS:
        of_skill = [row for row in rows if row.skill == skill]
        if not of_skill:
            continue
        everywhere, has_room = range(len(teams)), len(of_skill) <= INTERVALS_UP_TO
        table: list[list[Value]] = [[Cell(name, marked.get(name, ""))] for name, _ in teams]
        for row in of_skill:
            best = row.best(everywhere)
            for cells, score in zip(table, row.scores, strict=True):
                tone: Tone = "good" if score.value is not None and score.value == best else "plain"
                cells.append(Cell(score.value, str(score) * (has_room and score.value is not None), tone=tone))
        help = {f"{metric_title(row.path)} {row.arrow}": row.path for row in of_skill}
        tables.append(
            table_of(
                f"scores-{skill.lower().replace(' ', '-')}",
                f"{skill}{ABOUT.get(skill, '')}, {_mean_in_words(document, main)}",
                ["team", *help],
                table,
                help=help,
                rest="teams of leaderboard.json",
                note=" ".join(filter(None, [about_spread(of_skill) * has_room, note, _about_distances(of_skill)])),
            )
        )
    return tables
