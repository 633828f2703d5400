"""The page of one submission, and the page of ``compare``.

metrics.json alone makes a page that can be published; the other documents add sections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evaluation.board.titles import Document, metric_title
from evaluation.challenge.matching_rules import rule_from
from evaluation.findings import counted, percent, render_findings
from evaluation.report.leaderboard import board_table, facts_table, folded_sections
from evaluation.report.nuclei import (
    NucleusTable,
    TeamNuclei,
    browser_of,
    browser_section,
    coverage_section,
    roc_section,
    size_section,
    threshold_section,
)
from evaluation.report.page import (
    Block,
    Cell,
    Page,
    Section,
    Table,
    Text,
    Tile,
    Tiles,
    Value,
    document_page,
    identify_document,
)
from evaluation.report.pictures import WORDS_OF_STATES, Scene, SecondPass
from evaluation.report.plots import outline_section, scatter_section
from evaluation.report.result import WORDS_OF_AGGREGATIONS, ResultDocuments, Unit, is_lower_better, node_at
from evaluation.report.skills import SKILLS, WITHOUT_CLASSES, side_by_side, skill_rows
from evaluation.report.tables import bar_cell, leaf_table, leaves_of, show_rest, table_of

BY_CLASS = (
    "panoptic.pq", "detection.precision", "detection.recall", "classification.recall", "classification.f1",
    "segmentation.iou", "counting.mean_absolute_error",
)  # fmt: skip
FINDINGS_OPEN = 3  # or fewer stand open


@dataclass(frozen=True, slots=True)
class ReadResult:
    """All data of one submission.

    result   metrics.json (alone, it gives a page with only aggregates) and details.json
    nuclei   of objects.csv
    pictures scenes of its cases
    costs    costs of each kind of error (``study.error_costs``)
    """

    result: ResultDocuments
    nuclei: NucleusTable | None = None
    pictures: SecondPass = field(default_factory=SecondPass)
    costs: Document | None = None


def submission_page(read: ReadResult, *, title: str = "Result of a submission", standing: Sequence[Block] = ()) -> Page:
    """The report of one result. ``standing``: its rank on a leaderboard (``standing_of``), shown first.

    Sections below the nuclei are folded.

    KeyError, TypeError, ValueError and IndexError mean that a document is not of the form that ``score`` writes.
    """
    result, nuclei = read.result, read.nuclei
    has_details = result.details is not None
    sections = [_answer_section(result, read.costs, standing), *_findings_section(result, read.pictures)]
    sections += [] if nuclei is None else nuclei_section(result, {"": (result.cases, nuclei, read.pictures.scenes)})
    sections += _class_section(result, folded=nuclei is not None)
    behind = _case_section(result) if has_details else []
    behind += [size_section(nuclei)] if nuclei is not None else []
    behind += roc_section(result, [errors.counts for errors in read.pictures.errors])
    behind += [*threshold_section(result), *coverage_section(result), *_alternatives_section(result)]
    behind += [*_scores_section(result), *_undefined_section(result)]
    behind += [_rules_section(result)] if has_details else []
    sections += [replace(section, folded=True) for section in behind]
    sections.sort(key=lambda section: section.folded)
    subtitle = str(result.metrics["challenge"]["name"])
    return document_page("", result.metrics, sections, subtitle=subtitle, title=title)


def nuclei_section(
    first: ResultDocuments, teams: Mapping[str, tuple[Sequence[Unit], NucleusTable, Mapping[str, Scene]]]
) -> list[Section]:
    """The section with the browser of one or more submissions: cases, nuclei and scenes, by name."""
    score = main_score(first)
    entries = [
        TeamNuclei(name, nuclei, scenes, {unit.name: unit.value(score) for unit in units})
        for name, (units, nuclei, scenes) in teams.items()
    ]
    return browser_section(entries, first.rules["matching"]["rules"][0], score=metric_title(score))


# --- the verdict ------------------------------------------------------------------------------------------------------


def _answer_section(result: ResultDocuments, costs: Document | None, standing: Sequence[Block] = ()) -> Section:
    """The rank, findings in words, the skills side by side, and the costliest errors."""
    rows = skill_rows([(result, result.main)])
    first = {row.skill: row.path for row in reversed(rows)}
    chosen = [(skill, first[skill]) for skill in SKILLS if skill in first]
    tiles = [
        _skill_tile(result, *skill) for skill in chosen or [(metric_title(path), path) for path in result.paths[:4]]
    ]
    board = None if standing else result.metrics.get("leaderboard")
    if board:
        path, among = "leaderboard.position", f"of {board['submissions']} ranked, including this submission"
        tile = None if board["position"] is None else Tile("Rank", f"{board['position']:g}", among, path)
        tiles.append(tile or Tile("Rank", None, result.why(path), path, "warning"))
    sentences = _result_sentences(result)
    words = [Text((" ".join(sentences),))] if sentences else []
    blocks = [*standing[:1], *words, Tiles(tuple(tiles)), *standing[1:]]
    if costs is not None and (errors := _error_table(result, costs)).rows:
        blocks.append(errors)
    if board:
        blocks.append(_rank_rows(result))
    counted = all(path.startswith("counting.") for path in result.paths)
    rule = "" if counted else ", under the first matching rule"
    lead = f"All numbers: {result.main_in_words}{rule}."
    return Section("skills", "Scores", tuple(blocks), lead)


def _result_sentences(result: ResultDocuments) -> list[str]:
    """Return how many nuclei are matched and of the right class, and which class is best and worst."""
    sentences = []
    if result.details is not None:
        counts = result.details["pooled"]["rules"][result.rule]["counts"]
        if "true_positives" in counts:
            matched, missed, extra = (counts[key] for key in ("true_positives", "false_negatives", "false_positives"))
            right = sum(row[index] for index, row in enumerate(counts["confusion_matrix"]) if index)
            sentences.append(
                f"{matched:,} of {counted(matched + missed, 'reference nucleus', 'reference nuclei')} "
                f"{'is' if matched == 1 else 'are'} matched: {counted(missed, 'false negative')}, "
                f"{counted(extra, 'false positive')}."
            )
            if matched:
                sentences.append(f"{right:,} of the matched nuclei {'has' if right == 1 else 'have'} the right class.")
    path = "panoptic.per_class.{}.pq." + result.main
    of_classes = highest_and_lowest("By class, PQ", {name: result.value(path.format(name)) for name in result.classes})
    sentences += [of_classes] if of_classes else []
    return sentences


def _error_table(result: ResultDocuments, costs: Document) -> Table:
    """The kinds of errors, the costliest first: numbers of nuclei, and losses of each skill."""
    first: dict[str, str] = {}
    for path, value in costs["as_is"].items():
        if value is not None:
            first.setdefault(path.partition(".")[0], path)
    main = f"{main_score(result)}.{result.main}"
    paths = sorted(first.values(), key=lambda path: path != main)
    kinds = [kind for kind in costs["kinds"] if kind["kind"] != "ignored" and (kind["reference"] or kind["prediction"])]
    kinds.sort(key=lambda kind: -(kind["cost"].get(main) or 0.0))
    rows: list[list[Value]] = []
    for kind in kinds:
        lost = [kind["cost"].get(path) for path in paths]
        cells = [Cell(cost, shade=None if cost is None else min(max(cost, 0.0), 1.0)) for cost in lost]
        words = WORDS_OF_STATES.get(kind["kind"], kind["kind"].replace("_", " "))
        rows.append([words, *cells, kind["reference"], kind["prediction"]])
    return table_of(
        "errors",
        "Errors, the costliest first",
        ["error", *(f"{metric_title(path)} lost" for path in paths), "reference nuclei", "predictions"],
        rows,
        sortable=False,
        note="Lost: how much higher the score would be if errors of this kind alone were corrected (poor outline: the "
        "outlines of all matched nuclei). Losses do not add up, because errors interact.",
    )


def _skill_tile(result: ResultDocuments, skill: str, path: str) -> Tile:
    full = f"{path}.{result.main}"
    value, detail = result.value(full), metric_title(path)
    if value is None:
        return Tile(skill, None, f"{detail}: {result.why(full)}", full, "warning")
    if (ends := result.interval(full)) is not None:
        level = result.rules["confidence"] and result.rules["confidence"]["level"] if result.details else None
        detail += f", {f'{100 * level:g}%' if level else 'confidence'} interval {ends[0]:z.3f} to {ends[1]:z.3f}"
    return Tile(skill, value, detail + "; lower is better" * is_lower_better(path), full)


def _rank_rows(result: ResultDocuments) -> Table:
    board = result.metrics["leaderboard"]
    rows = [
        [path, result.value(path), Cell(rank, "" if rank is not None else result.why(f"leaderboard.rank.{path}"))]
        for path, rank in leaves_of(board["rank"])
    ]
    caption = f"Ranks among {counted(board['submissions'], 'result')}"
    note = "" if board["sum_of_ranks"] is None else f"Weighted sum of ranks: {board['sum_of_ranks']:g}."
    return table_of("ranks", caption, ["column of the ranking", "value", "rank"], rows, note=note)


# --- classes ----------------------------------------------------------------------------------------------------------


def _class_section(result: ResultDocuments, *, folded: bool) -> list[Section]:
    """Scores of each class, and the confusion of classes; nothing if both are missing."""
    blocks: list[Block] = []
    scores = {path: ".per_class.{}.".join(path.split(".")) for path in BY_CLASS}
    known = {
        metric_title(path): of_class
        for path, of_class in scores.items()
        if any(result.has(of_class.format(name)) for name in result.classes)
    }
    if known:
        rows: list[list[Value]] = [
            [name, *(bar_cell(result.value(f"{path.format(name)}.{result.main}"), is_bar=not is_lower_better(path))
                     for path in known.values())]
            for name in result.classes
        ]  # fmt: skip
        table = table_of(
            "class-table",
            f"Scores of each class, {result.main_in_words}",
            ["class", *known],
            rows,
            help={title: f"{path.format('…')}.{result.main}" for title, path in known.items()},
            rest="classes of metrics.json",
            note="–: undefined; see the reasons below.",
        )
        blocks.append(table)
    if result.details is not None:
        counts = result.details["pooled"]["rules"][result.rule]["counts"]
        if "confusion_matrix" in counts:
            blocks.append(_confusion_table(counts["confusion_matrix"], result.details["classes"]))
    return [Section("classes", "Classes", tuple(blocks), folded=folded)] if blocks else []


def _confusion_table(matrix: Sequence[Sequence[int]], names: Sequence[str]) -> Table:
    """Counts with the share of each row."""
    order = [*range(1, len(names)), 0]  # "none" last
    rows: list[list[Value]] = []
    for row in order:
        shares = [number / (sum(matrix[row]) or 1) for number in matrix[row]]
        texts = [f"{number:,} ({percent(share, 1)})" for number, share in zip(matrix[row], shares, strict=True)]
        cells = [
            Cell(number, text if number else "0", shade=round(share, 3))
            for number, text, share in zip(matrix[row], texts, shares, strict=True)
        ]
        rows.append([names[row], *(cells[column] if row or column else Cell(None) for column in order)])
    titles = ["reference \\ prediction", *(names[column] for column in order)]
    caption = "Confusion matrix of all cases: nuclei, and the share of each row"
    note = "Row 'none': false positives; column 'none': false negatives."
    return table_of("confusion", caption, titles, rows, help={}, sortable=False, note=note)


# --- everything else --------------------------------------------------------------------------------------------------


def _alternatives_section(result: ResultDocuments) -> list[Section]:
    """The main scores under the other matching rules."""
    rules = result.metrics.get("alternatives") or {}
    paths = [row.path for row in skill_rows([(result, result.main)])]
    paths = [path for path in paths if any(node_at(rule, path) for rule in rules.values())]
    if not paths:
        return []
    before = ["", *(f"alternatives.{name}." for name in rules)]
    rows = [[metric_title(path), *(result.value(f"{start}{path}.{result.main}") for start in before)] for path in paths]
    titles = ["score", result.rule if result.details is not None else "first rule", *rules]
    caption = "The same predictions under each matching rule"
    table = table_of("alternative-scores", caption, titles, rows, help={})
    lead = "What counts as matched is a decision, and scores depend on it."
    return [Section("alternatives", "Other matching rules", (table,), lead)]


_SD_TITLES = {"group_mean": "SD over patients", "case_mean": "SD over cases"}


def _scores_section(result: ResultDocuments) -> list[Section]:
    """Every number of metrics.json that is not of a single class, in all aggregations, with interval."""
    paths = [path for path in result.paths if ".per_class." not in path]
    if not paths:
        return []
    means = result.aggregations
    help: dict[str, str] = {}
    for name in means:
        help[WORDS_OF_AGGREGATIONS[name]] = name
        if name in _SD_TITLES and "standard_deviations" in result.metrics:
            help[_SD_TITLES[name]] = f"standard deviation of {name}"
        if name == means[0] and result.has_intervals:
            help |= dict.fromkeys(("low", "high"), "end of its interval")

    def cells(path: str) -> list[Value]:
        columns: dict[str, Value] = {end: result.interval_end(f"{path}.{means[0]}", end) for end in ("low", "high")}
        columns |= {WORDS_OF_AGGREGATIONS[name]: result.value(f"{path}.{name}") for name in means}
        columns |= {title: result.deviation(f"{path}.{name}") for name, title in _SD_TITLES.items()}
        return [path, *(columns[title] for title in help)]

    caption, rest = "Scores under the first matching rule, as in metrics.json", "scores of metrics.json"
    titles, note = ["path", *help], "'evaluation explain PATH' describes a score."
    table = table_of("scores", caption, titles, map(cells, paths), help=help, rest=rest, note=note)
    return [Section("scores-section", "All scores", (table,))]


def _undefined_section(result: ResultDocuments) -> list[Section]:
    """Return why numbers are null, and how many units were excluded from means or penalised."""
    reasons = [path for path, _ in leaves_of(result.metrics["undefined"])]
    if result.details is None and not reasons:
        return []
    blocks: list[Block] = [Text(("Every number of metrics.json has a value.",))]
    if reasons:
        rows = [[path, result.why(path)] for path in reasons]
        titles, rest = ["path", "why it has no value"], "undefined values of metrics.json"
        blocks = [table_of("undefined-values", "Undefined values", titles, rows, rest=rest)]
    if result.details is not None:
        blocks += _mean_blocks(result)
    return [Section("undefined", "Undefined scores and exclusions", tuple(blocks))]


def _mean_blocks(result: ResultDocuments) -> list[Block]:
    """Numbers of units in means, if some were excluded or penalised, and further omissions."""
    assert result.details is not None
    means = result.details["means"][result.rule]
    rows = [
        {"path": f"{path}.{name}", **entry}
        for path in result.paths
        for name, entry in (node_at(means, path) or {}).items()
        if isinstance(entry, Mapping) and (entry["left_out"] or entry["penalised"])
    ]
    missing = sum(not unit.submitted for unit in result.cases)
    ignored = sum(case["ignored_predictions"] for case in result.details["cases"].values())
    words = "All cases were submitted."
    if missing:
        cases, were = counted(len(result.cases), "case"), "was" if missing == 1 else "were"
        words = f"{missing:,} of {cases} {were} not submitted."
    words += f" {counted(ignored, 'prediction')} not scored because of ignore regions." if ignored else ""
    caption = "Means that some units did not enter, or entered with the worst value"
    keys = ("path", "units", "left_out", "penalised")
    table = table_of("means", caption, keys, rows, rest="means of details.json")
    return [Text((words,), "warning" if missing else "plain"), *([table] if rows else [])]


def _findings_section(result: ResultDocuments, pictures: SecondPass) -> list[Section]:
    """List the findings about the submitted files."""
    if result.details is None:
        return []
    lines = [*map(str, result.details["findings"]), *render_findings(pictures.findings)]
    shown = [*lines[:50], *filter(None, [show_rest(len(lines), 50, "findings of details.json")])]
    text = Text(tuple(shown or ["Nothing was found to be wrong or unusual."]), "warning" if lines else "good")
    return [Section("findings", "Findings", (text,), folded=not 0 < len(lines) <= FINDINGS_OPEN)]


def _rules_section(result: ResultDocuments) -> Section:
    """How nuclei are matched, in words, and all rules as they were applied."""
    matching = result.rules["matching"]["rules"]
    words = tuple(f"{rule['name']}: {rule_from(rule).words}" for rule in matching)
    counted_only = "The nuclei of each class are counted per case. Their positions do not matter."
    rules = {key: value for key, value in result.rules.items() if key not in ("limits", "publish", "audit")}
    note = "'evaluation explain KEY' describes a rule and its values."
    table = leaf_table("rules", "Rules that decided the scores", rules, note=note)
    return Section("rules-section", "The rules that were applied", (Text(words or (counted_only,)), table))


# --- groups (patients) and cases --------------------------------------------------------------------------------------


SCORES_OF_UNITS = {
    metric_title(path): path
    for path in (
        "detection.f1", "classification.balanced_accuracy", "segmentation.iou_class_mean", "segmentation.hausdorff_px",
        "panoptic.pq", WITHOUT_CLASSES, "counting.mean_absolute_error",
    )
}  # fmt: skip
COUNTS_OF_UNITS = {
    "matched": "true_positives", "false negatives": "false_negatives", "false positives": "false_positives",
    "in the reference": "reference", "predicted": "prediction",
}  # fmt: skip


def worst_first(result: ResultDocuments) -> list[Unit]:
    """The cases, the worst main score first, cases without a value last, ties by name."""
    score = main_score(result)
    return sorted(result.cases, key=lambda unit: _badness(score, unit.value(score), unit.name))


def _badness(score: str, value: float | None, name: str) -> tuple[bool, float, str]:
    """Create a sort key that puts the worst value of a score first, and undefined values last."""
    if value is None:
        return True, 0.0, name
    return False, -value if is_lower_better(score) else value, name


def highest_and_lowest(what: str, values: Mapping[str, float | None]) -> str:
    """Who has the highest and who the lowest value, in a sentence; nothing if all are the same."""
    known = sorted((value, name) for name, value in values.items() if value is not None)
    if not known or known[0][0] == known[-1][0]:
        return ""
    (low, lowest), (high, highest) = known[0], known[-1]
    return f"{what} is highest for {highest} ({high:.3f}) and lowest for {lowest} ({low:.3f})."


def main_score(result: ResultDocuments) -> str:
    """The score that cases are sorted by: PQ, with classes or without, otherwise detection F1, otherwise the error
    of counts."""
    known = ("panoptic.pq", WITHOUT_CLASSES, "detection.f1", "counting.mean_absolute_error")
    return next((path for path in known if result.has(path)), next(iter(result.paths), ""))


def _case_section(result: ResultDocuments) -> list[Section]:
    """The table of cases, each leads to its nuclei in the browser, if the page has one; and of patients."""
    cases, title, patients = worst_first(result), metric_title(main_score(result)), ["patient"] * result.are_grouped
    if not cases:
        return []
    columns = ["case", *unit_cells(result, cases[0]), *patients]
    rows: list[list[Value]] = []
    for index, unit in enumerate(cases):
        name = Cell(unit.name, anchor="browser", name=f"case-row-{index}")
        rows.append([name, *unit_cells(result, unit).values(), *[unit.group] * len(patients)])
    caption, rest = f"Counts and scores of cases, the worst {title} first", "cases of details.json"
    table = table_of("cases", caption, columns, rows, help=SCORES_OF_UNITS, rest=rest)
    if not patients:
        return [Section("cases-section", "Cases", (table,))]
    places = {unit.name: index for index, unit in enumerate(cases)}
    rows = []
    for unit in result.groups:
        worst = f"case-row-{min(places[name] for name in unit.cases)}"
        rows.append([Cell(unit.name, anchor=worst), *unit_cells(result, unit).values(), len(unit.cases)])
    caption, rest = "Patients (groups); each leads to its worst case", "groups of details.json"
    columns = ["patient", *columns[1:-1], "cases"]
    groups = table_of("groups", caption, columns, rows, help=SCORES_OF_UNITS, rest=rest)
    return [Section("cases-section", "Patients and cases", (groups, table))]


def unit_cells(result: ResultDocuments, unit: Unit) -> dict[str, Value]:
    """The scores and counts of a case or patient, by the titles of their columns."""
    known = {title: path for title, path in SCORES_OF_UNITS.items() if result.has(path)}
    if result.has("panoptic.pq"):
        known.pop(metric_title(WITHOUT_CLASSES), None)
    values: dict[str, Value] = {title: unit.value(path) for title, path in known.items()}
    for title, key in COUNTS_OF_UNITS.items():
        if (count := unit.counts.get(key)) is not None:
            number = sum(count) if isinstance(count, list) else count
            is_partial = title in ("matched", "in the reference") and not unit.submitted
            values[title] = Cell(number, f"{number} (not all submitted)", tone="warning") if is_partial else number
    return values


# --- the page of ``compare`` ------------------------------------------------------------------------------------------


PICTURES_UP_TO = 24  # of whole images; the others can be chosen


def comparison_page(
    results: Mapping[str, ResultDocuments],
    board: Mapping[str, Any] | None,
    nuclei: Mapping[str, NucleusTable | None],
    scenes: Mapping[str, Mapping[str, Scene]],
    *,
    title: str,
    unit: str,
    about_classes: Sequence[str] = (),
    beside: Sequence[Table] = (),
) -> Page:
    """Create the page of ``compare``: the scores of the models, the images, and folded below all other sections.

    results  of each model, with details.json
    board    the content of leaderboard.json, if several models are ranked
    nuclei   of each model, from objects.csv
    scenes   of each model by the name of the image; may be empty
    unit     the unit of means, such as "images"
    about_classes  lines about classes that differ
    beside   tables next to the scores
    """
    first = next(iter(results.values()))
    caption = f"Mean over {unit}" if len(first.groups) > 1 else "Scores of the image"
    columns = {name: (result, "group_mean") for name, result in results.items()}
    table = side_by_side(caption, columns)
    answer = [Text(tuple(about_classes), "warning")] if about_classes else []
    folded: list[Section] = []
    if len(results) == 1:
        known = {"skills", "cases-section", *(("classes",) if len(first.classes) == 1 else ())}
        alone = submission_page(ReadResult(first))
        folded = [_of_images(replace(one, folded=True)) for one in alone.sections if one.anchor not in known]
    elif board is not None:
        ranking = Section("places", "Ranking", (facts_table(board), board_table(board)), folded=True)
        folded = [ranking, *(_of_images(section) for section in folded_sections(board) if section.anchor != "values")]
    if len(first.groups) > 1:
        columns = {name: (result, "pooled") for name, result in results.items()}
        pooled = replace(side_by_side("All images pooled", columns), anchor="pooled-scores")
        folded.insert(0, Section("pooled", "Pooled scores", (pooled,), folded=True))
    images = counted(len(first.cases), "image")
    return Page(
        title,
        f"{counted(len(results), 'model')}, {images}",
        identify_document(first.metrics if board is None else board),
        (
            Section("compared", "Scores", (*answer, table, *beside)),
            *image_sections(results, nuclei, scenes),
            *(replace(section, folded=True) for section in scatter_section(results, unit.removesuffix("s"))),
            *outline_section(nuclei, rule_from(first.rules["matching"]["rules"][0]).short),
            *folded,
        ),
    )


def _of_images(section: Section) -> Section:
    """Call the cases in the title of a section images."""
    return replace(section, title=section.title.replace(" case", " image"))


def image_sections(
    results: Mapping[str, ResultDocuments],
    nuclei: Mapping[str, NucleusTable | None],
    scenes: Mapping[str, Mapping[str, Scene]],
    *,
    start: str = "",
) -> list[Section]:
    """Images from the worst to the best: drawn, and as a table. ``start``: the image that the viewer shows at once."""
    first = next(iter(results.values()))
    score = main_score(first)
    values = {name: {unit.name: unit.value(score) for unit in result.cases} for name, result in results.items()}

    means: dict[str, float | None] = {}
    for image in next(iter(values.values())):
        known = [value for of_model in values.values() if (value := of_model[image]) is not None]
        means[image] = float(np.mean(known)) if known else None
    order = sorted(means, key=lambda image: _badness(score, means[image], image))
    title, is_bar = metric_title(score), not is_lower_better(score)
    rows: list[list[Value]] = [
        [Cell(image, anchor="browser"), *(bar_cell(of_model[image], is_bar=is_bar) for of_model in values.values())]
        for image in order
    ]
    caption = f"{title} of each image, the worst first"
    table = table_of("images", caption, ["image", *results], rows, help={}, rest="images of details.json")
    teams = [
        TeamNuclei(name, table, scenes.get(name, {}), values[name])
        for name, table in nuclei.items()
        if table is not None
    ]
    if not any(len(one.nuclei.case) for one in teams):
        return [Section("image-section", "Images", (table,))]
    lead = f"From the worst to the best {title}. A click on an image opens it in the whole window."
    rule, overview = first.rules["matching"]["rules"][0], max(1, PICTURES_UP_TO // len(results))
    drawn = browser_of(teams, rule, score=title, order=order, overview=overview, start=start)
    return [
        Section("image-section", "Images", (drawn,), lead),
        Section("image-table", "Scores of each image", (table,), folded=True),
    ]
