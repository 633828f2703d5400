"""The page of one submission. metrics.json alone makes one that can be published; the other documents add sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evaluation.challenge.matching_rules import rule_from
from evaluation.findings import counted, percent, render_findings
from evaluation.leaderboard.ranked_result import NO_STORED_RESULTS
from evaluation.leaderboard.titles import metric_title
from evaluation.report.nuclei import (
    NucleusTable,
    Seen,
    browser_section,
    coverage_section,
    size_section,
    threshold_section,
)
from evaluation.report.page import Block, Cell, Page, Section, Table, Text, Tile, Tiles, Value, identify_document
from evaluation.report.pictures import WORDS, SecondPass
from evaluation.report.result import (
    AGGREGATIONS,
    Document,
    ResultDocuments,
    Unit,
    is_lower_better,
    leaves_of,
    node_at,
    reason_in_words,
)
from evaluation.report.skills import SKILLS, skill_rows
from evaluation.report.tables import bar_cell, in_percent, leaf_table, record_table, show_rest, table_of

BY_CLASS = (
    "panoptic.pq", "detection.precision", "detection.recall", "classification.recall", "classification.f1",
    "segmentation.iou", "counting.mean_absolute_error",
)  # fmt: skip
MATRIX_CLASSES = 20
FINDINGS_OPEN = 3  # or fewer stand open
SAY_MORE = "evaluation explain PATH says how a score is computed."


def submission_page(
    metrics: Document,
    *,
    details: Document | None = None,
    nuclei: NucleusTable | None = None,
    illustration: SecondPass | None = None,
    error_costs: Document | None = None,
    title: str = "",
    classes: Sequence[str] = (),
    standing: Sequence[Block] = (),
) -> Page:
    """The report of one result.

    metrics       content of metrics.json; without the rest the page shows nothing but aggregates
    details       content of details.json
    nuclei        of objects.csv
    illustration  what is drawn of its cases
    error_costs   what each kind of error costs (``study.error_costs``)
    classes       in the order of the challenge, where details.json is not given
    standing      its rank on a leaderboard (``standing_of``), which comes first

    What stands below the nuclei is folded.

    KeyError, TypeError, ValueError and IndexError mean that a document is not of the form that ``score`` writes.
    """
    result = ResultDocuments(metrics, details, tuple(classes))
    sections: list[Section | None] = [verdict_section(result, error_costs, standing)]
    if details is not None:
        sections.append(findings_section(result, illustration))
    if nuclei is not None:
        sections.append(browser_section([Seen("", nuclei, illustration.scenes if illustration else {})]))
    sections.append(class_section(result, folded=nuclei is not None))
    sections += folded_sections(result, nuclei)
    sections.sort(key=lambda section: section is not None and section.folded)
    subtitle = str(metrics["challenge"]["name"])
    shown = tuple(section for section in sections if section is not None and section.blocks)
    return Page(title or "Result of a submission", subtitle, identify_document(metrics), shown)


def folded_sections(result: ResultDocuments, nuclei: NucleusTable | None) -> list[Section | None]:
    """What stands behind the scores, each part closed at first."""
    details = result.details
    sections = [
        case_section(result) if details is not None else None,
        size_section(nuclei) if nuclei is not None else None,
        threshold_section(result),
        coverage_section(result),
        alternatives_section(result),
        scores_section(result),
        undefined_section(result) if details is not None or result.metrics["undefined"] else None,
        rules_section(result) if details is not None else None,
    ]
    return [None if section is None else replace(section, folded=True) for section in sections]


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict_section(result: ResultDocuments, costs: Document | None, standing: Sequence[Block] = ()) -> Section:
    """The rank, what was found in words, the skills side by side, and which errors cost most."""
    rows = skill_rows([(result, result.main)])
    first = {row.skill: row.path for row in reversed(rows)}
    chosen = [(skill, first[skill]) for skill in SKILLS if skill in first]
    tiles = [skill_tile(result, *of) for of in chosen or [(metric_title(path), path) for path in result.paths[:4]]]
    board = result.metrics.get("leaderboard")
    if standing or result.metrics["undefined"].get("leaderboard", {}).get("position") == NO_STORED_RESULTS:
        board = None
    if board:
        path, among = "leaderboard.position", f"of {board['submissions']} ranked, this one included"
        if board["position"] is None:
            tiles.append(Tile("Rank", None, result.why(path), path, "warning"))
        else:
            tiles.append(Tile("Rank", f"{board['position']:g}", among, path))
    sentences = verdict_sentences(result)
    blocks: list[Block] = [*standing[:1], *([Text((" ".join(sentences),))] if sentences else [])]
    blocks += [Tiles(tuple(tiles)), *standing[1:]]
    if costs is not None and (errors := error_table(result, costs)).rows:
        blocks.append(errors)
    if board:
        blocks.append(rank_table(result))
    counted = all(path.startswith("counting.") for path in result.paths)
    rule = "" if counted else ", under the first matching rule"
    lead = f"All numbers: {result.main_in_words}{rule}."
    return Section("skills", "Scores", tuple(blocks), lead)


def verdict_sentences(result: ResultDocuments) -> list[str]:
    """How many nuclei are matched and of the right class, and which class is best and worst."""
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
    known = [(value, name) for name in result.classes if (value := result.value(path.format(name))) is not None]
    if len(known) > 1:
        (low, worst), (high, best) = min(known), max(known)
        if low < high:
            sentences.append(f"By class, PQ is highest for {best} ({high:.3f}) and lowest for {worst} ({low:.3f}).")
    return sentences


def error_table(result: ResultDocuments, costs: Document) -> Table:
    """The kinds of errors that occur, the costliest first: of how many nuclei, and what each skill loses by them."""
    first: dict[str, str] = {}
    for path, value in costs["as_is"].items():
        if value is not None:
            first.setdefault(path.partition(".")[0], path)
    main = f"{main_score(result)}.{result.main}"
    paths = sorted(first.values(), key=lambda path: path != main)
    kinds = [kind for kind in costs["kinds"] if kind["reference"] or kind["prediction"]]

    kinds.sort(key=lambda kind: -(kind["cost"].get(main) or 0.0))
    rows: list[list[Value]] = []
    for kind in kinds:
        costs_of = [kind["cost"].get(path) for path in paths]
        gains = [Cell(of, shade=None if of is None else min(max(of, 0.0), 1.0)) for of in costs_of]
        rows.append([words_of(kind["kind"]), *gains, kind["reference"], kind["prediction"]])
    return table_of(
        "errors",
        "Errors, the costliest first",
        ["error", *(f"{metric_title(path)} lost" for path in paths), "reference nuclei", "predictions"],
        rows,
        sortable=False,
        note="Lost: how much higher the score would be if errors of this kind alone were corrected. Losses do not add "
        "up: errors hide each other.",
    )


def words_of(kind: str) -> str:
    """A kind of error in words."""
    return WORDS.get(kind, kind.replace("_", " "))


def skill_tile(result: ResultDocuments, skill: str, path: str) -> Tile:
    full = f"{path}.{result.main}"
    value, detail = result.value(full), metric_title(path)
    if value is None:
        return Tile(skill, None, f"{detail}: {result.why(full)}", full, "warning")
    if (ends := result.interval(full)) is not None:
        detail += f", {interval_name(result)} {ends[0]:.3f} to {ends[1]:.3f}"
    return Tile(skill, value, detail + "; lower is better" * is_lower_better(path), full)


def interval_name(result: ResultDocuments) -> str:
    confidence = result.rules["confidence"] if result.details is not None else None
    return f"{100 * confidence['level']:g} % interval" if confidence else "confidence interval"


def rank_table(result: ResultDocuments) -> Table:
    board = result.metrics["leaderboard"]
    rows = [
        [path, result.value(path), Cell(rank, "" if rank is not None else result.why(f"leaderboard.rank.{path}"))]
        for path, rank in leaves_of(board["rank"])
    ]
    titles, caption = (
        ["column of the ranking", "value", "rank"],
        f"Ranks among {counted(board['submissions'], 'result')}",
    )
    note = "" if board["sum_of_ranks"] is None else f"Weighted sum of ranks: {board['sum_of_ranks']:g}."
    return table_of("ranks", caption, titles, rows, note=note)


# --- classes ----------------------------------------------------------------------------------------------------------


def class_section(result: ResultDocuments, *, folded: bool) -> Section | None:
    """Scores of each class, and which classes are taken for which."""
    paths = [
        ".per_class.{}.".join(path.split("."))
        for path in BY_CLASS
        if any(result.has(".per_class.{}.".join(path.split(".")).format(name)) for name in result.classes)
    ]
    confused = confusion_table(result)
    if not paths:
        return None if confused is None else Section("classes", "Classes", (confused,), folded=folded)
    titles = [metric_title(path.replace(".per_class.{}", "")) for path in paths]

    rows: list[list[Value]] = [
        [name, *(bar_cell(result.value(f"{path.format(name)}.{result.main}"), is_bar=not is_lower_better(path))
                 for path in paths)]
        for name in result.classes
    ]  # fmt: skip
    table = table_of(
        "class-table",
        f"Scores of each class, {result.main_in_words}",
        ["class", *titles],
        rows,
        help={title: f"{path.format('…')}.{result.main}" for title, path in zip(titles, paths, strict=True)},
        rest="classes of metrics.json",
        note="–: undefined; the reasons stand below.",
    )
    return Section("classes", "Classes", (table, *(() if confused is None else (confused,))), folded=folded)


def confusion_table(result: ResultDocuments) -> Table | None:
    """Counts with the share of each row; for many classes the most frequent confusions; None where none are known."""
    if result.details is None:
        return None
    matrix = result.details["pooled"]["rules"][result.rule]["counts"].get("confusion_matrix")
    if matrix is None:
        return None
    names = [*result.details["classes"]]
    order = [*range(1, len(names)), 0]  # "none" last

    def count(row: int, column: int) -> Cell:
        if row == column == 0:
            return Cell(None, "–")
        number, total = matrix[row][column], sum(matrix[row])
        share = number / total if total else 0.0
        return Cell(number, f"{number:,} ({percent(share, 1)})" if number else "0", shade=round(share, 3))

    if len(names) <= MATRIX_CLASSES + 1:
        rows: list[list[Value]] = [[names[row], *(count(row, column) for column in order)] for row in order]
        titles = ["reference \\ prediction", *(names[column] for column in order)]
        caption = "Confusion matrix of all cases: nuclei, and the share of each row"
        note = "Row 'none': false positives; column 'none': false negatives."
        return table_of("confusion", caption, titles, rows, help={}, sortable=False, note=note)
    found = [(row, column) for row in order for column in order if row != column and matrix[row][column]]
    found.sort(key=lambda pair: (-matrix[pair[0]][pair[1]], pair))
    rows = [
        [names[row], names[column], matrix[row][column], in_percent(matrix[row][column] / sum(matrix[row]))]
        for row, column in found[:50]
    ]
    titles = ["reference", "prediction", "nuclei", "of the row, %"]
    note = show_rest(len(found), 50, "confusions of details.json")
    return table_of("confusion", "The most frequent confusions", titles, rows, note=note)


# --- everything else --------------------------------------------------------------------------------------------------


def alternatives_section(result: ResultDocuments) -> Section | None:
    """The main scores under the other matching rules."""
    rules = result.metrics.get("alternatives") or {}
    rows = skill_rows([(result, result.main)])
    paths = [row.path for row in rows if any(node_at(of, row.path) for of in rules.values())]
    if not paths:
        return None

    rows_of_paths: list[list[Value]] = []
    for path in paths:
        others = [result.value(f"alternatives.{name}.{path}.{result.main}") for name in rules]
        rows_of_paths.append([metric_title(path), result.value(f"{path}.{result.main}"), *others])
    titles = ["score", result.rule if result.details is not None else "first rule", *rules]
    caption = "The same predictions under each matching rule"
    table = table_of("alternative-scores", caption, titles, rows_of_paths, help={})
    lead = "What counts as matched is a decision, and scores depend on it."
    return Section("alternatives", "Other matching rules", (table,), lead)


def scores_section(result: ResultDocuments) -> Section | None:
    """Every number of metrics.json that is not of a single class, in all aggregations, with interval."""
    paths = [path for path in result.paths if ".per_class." not in path]
    if not paths:
        return None

    titles = ["path", *(AGGREGATIONS.get(name, name) for name in result.aggregations)]
    rows: list[list[Value]] = [
        [path, *(result.value(f"{path}.{name}") for name in result.aggregations)] for path in paths
    ]
    help = dict(zip(titles[1:], result.aggregations, strict=True))
    if result.has_intervals:
        titles[2:2], help = ["low", "high"], {**help, "low": "end of its interval", "high": "end of its interval"}
        for row in rows:
            row[2:2] = [result.interval_end(f"{row[0]}.{result.aggregations[0]}", end) for end in ("low", "high")]
    caption = "Scores under the first matching rule, as in metrics.json"
    table = table_of("scores", caption, titles, rows, help=help, rest="scores of metrics.json", note=SAY_MORE)
    return Section("scores-section", "All scores", (table,))


def undefined_section(result: ResultDocuments) -> Section:
    """Why numbers are null, and how many units were left out of means or penalised."""
    blocks: list[Block] = [Text(("Every number of metrics.json has a value.",))]
    if reasons := list(leaves_of(result.metrics["undefined"])):
        rows = [[path, reason_in_words(reason)] for path, reason in reasons]
        titles, rest = ["path", "why it has no value"], "undefined values of metrics.json"
        blocks = [table_of("undefined-values", "Undefined values", titles, rows, rest=rest)]
    if result.details is not None:
        blocks += mean_blocks(result)
    return Section("undefined", "What has no value, and what was left out", tuple(blocks))


def mean_blocks(result: ResultDocuments) -> list[Block]:
    """How many units entered means, where some did not or were penalised, and what else was left out."""
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
    said = ["All cases were submitted."]
    if missing:
        cases, were = counted(len(result.cases), "case"), "was" if missing == 1 else "were"
        said = [f"{missing:,} of {cases} {were} not submitted."]
    if ignored:
        said.append(f"{counted(ignored, 'prediction')} left because of ignore regions.")
    blocks: list[Block] = [Text((" ".join(said),), "warning" if missing else "plain")]
    if rows:
        caption = "Means that some units did not enter, or entered with the worst value"
        keys = ("path", "units", "left_out", "penalised")
        blocks.append(record_table("means", caption, rows, keys=keys, rest="means of details.json"))
    return blocks


def findings_section(result: ResultDocuments, illustration: SecondPass | None) -> Section:
    """The findings about the files."""
    assert result.details is not None
    lines = [str(line) for line in result.details["findings"]]
    lines += render_findings(illustration.findings if illustration else ())
    shown = [*lines[:50], *filter(None, [show_rest(len(lines), 50, "findings of details.json")])]
    text = Text(tuple(shown or ["Nothing was found to be wrong or unusual."]), "warning" if lines else "good")
    return Section("findings", "Findings", (text,), folded=not 0 < len(lines) <= FINDINGS_OPEN)


def rules_section(result: ResultDocuments) -> Section:
    """How nuclei are matched, in words, and all rules as they were applied."""
    matching = result.rules["matching"]["rules"]
    words = tuple(f"{rule['name']}: {rule_from(rule).words}" for rule in matching)
    counted_only = "The nuclei of each class are counted in each case; where they lie does not matter."
    rules = {key: value for key, value in result.rules.items() if key not in ("limits", "publish", "audit")}
    note = "evaluation explain KEY says what a key means, and which other values it can have."
    table = leaf_table("rules", "Rules that decided the scores", rules, note=note)
    return Section("rules-section", "The rules that were applied", (Text(words or (counted_only,)), table))


# --- groups (patients) and cases --------------------------------------------------------------------------------------


ROWS_SHOWN = 500
COLUMNS = (
    "detection.f1",
    "classification.balanced_accuracy",
    "segmentation.iou_class_mean",
    "segmentation.hausdorff_px",
    "panoptic.pq",
    "counting.mean_absolute_error",
)


def case_anchors(result: ResultDocuments) -> dict[str, str]:
    """The rows of cases in their table, by name: all, or the worst if there are too many."""
    shown = {unit.name for unit in worst_cases(result, ROWS_SHOWN)}
    return {unit.name: f"case-row-{index}" for index, unit in enumerate(result.cases) if unit.name in shown}


def worst_cases(result: ResultDocuments, number: int) -> list[Unit]:
    """The cases with the lowest main score, those without a value last; equal ones by name."""
    score = main_score(result)

    def badness(unit: Unit) -> tuple[bool, float, str]:
        value = unit.value(score)
        if value is None:
            return True, 0.0, unit.name
        return False, -value if is_lower_better(score) else value, unit.name

    return sorted(result.cases, key=badness)[:number]


def main_score(result: ResultDocuments) -> str:
    """The score that cases are sorted by: PQ, else detection F1, else the error of counts."""
    known = ("panoptic.pq", "detection.f1", "counting.mean_absolute_error")
    return next((path for path in known if result.has(path)), next(iter(result.paths), ""))


def first_anchor(unit: Unit, anchors: Mapping[str, str]) -> str:
    """The row of the first case of a unit that has one."""
    return next((anchors[name] for name in unit.cases if name in anchors), "")


# --- tables -----------------------------------------------------------------------------------------------------------


def group_table(result: ResultDocuments) -> Table:
    anchors, titles = case_anchors(result), unit_titles(result)
    rows = [
        [Cell(unit.name, anchor=first_anchor(unit, anchors)), *unit_cells(result, unit), len(unit.cases)]
        for unit in result.groups
    ]
    caption, rest = "Patients (groups); each leads to its first case", "groups of details.json"
    return table_of("groups", caption, ["patient", *titles, "cases"], rows, help=titles, rest=rest)


def case_section(result: ResultDocuments) -> Section:
    """The table of cases; each leads to its nuclei in the browser, if the page has one."""
    anchors, titles = case_anchors(result), unit_titles(result)
    note, number = "", len(result.cases)
    if len(anchors) < number:
        score = metric_title(main_score(result))
        note = f"These are the {len(anchors):,} of {number:,} cases with the worst {score}."
    rows = [
        [Cell(unit.name, anchor="browser", name=anchors[unit.name]), *unit_cells(result, unit),
         *([unit.group] if result.are_grouped else [])]
        for unit in result.cases
        if unit.name in anchors
    ]  # fmt: skip
    all_titles = ["case", *titles, *(["patient"] if result.are_grouped else [])]
    table = table_of("cases", "Counts and scores of cases", all_titles, rows, help=titles, note=note)
    patients = (group_table(result),) if result.are_grouped else ()
    title = "Patients and cases" if patients else "Cases"
    return Section("cases-section", title, (*patients, table))


def unit_titles(result: ResultDocuments) -> dict[str, str]:
    """The titles of scores and counts of units, the scores first, and where each score stands in metrics.json."""
    scores = {metric_title(path): path for path in COLUMNS if result.has(path)}
    return scores | dict.fromkeys(counts_of(result), "")


def counts_of(result: ResultDocuments) -> dict[str, str]:
    if result.cases and "true_positives" in result.cases[0].counts:
        return {"matched": "true_positives", "false negatives": "false_negatives", "false positives": "false_positives"}
    return {"in the reference": "reference", "predicted": "prediction"}


def unit_cells(result: ResultDocuments, unit: Unit) -> list[Value]:
    """The scores and counts of a unit under ``unit_titles``."""
    cells: list[Value] = [unit.value(path) for path in COLUMNS if result.has(path)]
    for index, key in enumerate(counts_of(result).values()):
        found = unit.counts[key]
        number = sum(found) if isinstance(found, list) else found
        is_told = index == 0 and not unit.submitted
        cells.append(Cell(number, f"{number} (not all submitted)", tone="warning") if is_told else Cell(number))
    return cells
