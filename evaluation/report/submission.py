"""The page of one submission. metrics.json alone makes one that can be published; the other documents add sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluation.findings import render_findings
from evaluation.report.documents import embed_document, identify_document, show_rest
from evaluation.report.figures import Dot, Series, bar_figure, scatter_figure, series_colour, shown_number
from evaluation.report.illustrated import Illustration
from evaluation.report.nuclei import NucleusTable, size_section, threshold_section
from evaluation.report.page import Block, Cell, Column, Page, Pictures, Section, Table, Text, Tile, Tiles
from evaluation.report.result import (
    AGGREGATIONS,
    Document,
    ResultDocuments,
    is_lower_better,
    label_of,
    leaves_of,
    node_at,
    reason_in_words,
)
from evaluation.report.rules_in_words import rules_in_words
from evaluation.report.units import case_section, main_score, spread_section, trade_section, under_rule

SKILLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Finding", ("detection.f1", "curves.froc")),
    ("Naming", ("classification.balanced_accuracy", "classification.macro_f1")),
    ("Outlining", ("segmentation.iou_class_mean", "segmentation.iou", "segmentation.dice_class_mean")),
    ("All in one", ("panoptic.pq",)),
    ("Counting", ("counting.mean_absolute_error",)),
)
FOREST: Mapping[str, tuple[str, ...]] = {
    "Finding": ("detection.precision", "detection.recall", "detection.f1"),
    "Naming": ("classification.balanced_accuracy", "classification.macro_f1"),
    "Outlining": ("segmentation.iou_class_mean", "segmentation.dice_class_mean"),
    "All in one": ("panoptic.pq", "panoptic.sq", "panoptic.rq"),
}
BY_CLASS = (
    ("detection", "precision", "found: precision"),
    ("detection", "recall", "found: recall"),
    ("classification", "recall", "named: recall"),
    ("classification", "f1", "named: F1"),
    ("segmentation", "iou", "IoU"),
    ("panoptic", "pq", "PQ"),
    ("counting", "mean_absolute_error", "error of counts"),
)
ERROR_NAMES: Mapping[str, str] = {
    "missed": "missed",
    "spurious": "spurious",
    "wrong_class": "wrong class",
    "poor_outline": "poor outline",
    "split": "split",
    "merged": "merged",
    "all": "all of them",
}
MATRIX_CLASSES = 20
ROWS_SHOWN = 200
SAY_MORE = "evaluation explain PATH tells how a score is computed."


def submission_page(
    metrics: Document,
    *,
    details: Document | None = None,
    nuclei: NucleusTable | None = None,
    illustration: Illustration | None = None,
    error_costs: Document | None = None,
    title: str = "",
) -> Page:
    """The report of one result.

    metrics       content of metrics.json; without the rest the page shows nothing but aggregates
    details       content of details.json
    nuclei        of objects.csv
    illustration  pictures of its nuclei and cases
    error_costs   what each kind of error costs (``error_costs.costs_document``)

    KeyError, TypeError, ValueError and IndexError mean that a document is not of the form that ``score`` writes.
    """
    result = ResultDocuments(metrics, details)
    data, told = embed_document("metrics", metrics)
    sections = [skills_section(result)]
    if result.classes:
        sections.append(class_section(result))
    if details is not None:
        more, too_large = embed_document("details", details)
        data |= more
        told = " ".join(filter(None, (told, too_large)))
        sections += [spread_section(result)]
        if "true_positives" in node_at(details, "pooled.rules")[result.rule]["counts"]:
            sections += [trade_section(result), confusion_section(result)]
    if nuclei is not None:
        sections.append(size_section(nuclei))
    if (of_thresholds := threshold_section(result, nuclei)) is not None:
        sections.append(of_thresholds)
    if error_costs is not None:
        data["error_costs"] = error_costs
        sections.append(cost_section(error_costs))
    if illustration is not None:
        sections += picture_sections(illustration, result)
    if details is not None:
        overlays = {picture.case: picture.picture.anchor for picture in (illustration.cases if illustration else ())}
        sections.append(case_section(result, overlays))
    sections += [alternatives_section(result), scores_section(result), undefined_section(result)]
    if details is not None:
        sections += [rules_section(result), findings_section(result, illustration)]
    facts = identify_document(metrics)
    subtitle = str(metrics["challenge"]["name"])
    if told:
        facts = (*facts, ("not embedded", told))
    return Page(title or "Result of a submission", subtitle, facts, tuple(s for s in sections if s.blocks), data)


# --- skills -----------------------------------------------------------------------------------------------------------


def skills_section(result: ResultDocuments) -> Section:
    """The three skills side by side, panoptic quality beside them, and the place among earlier results."""
    tiles = [
        skill_tile(result, skill, next(path for path in paths if result.has(path)))
        for skill, paths in SKILLS
        if any(result.has(path) for path in paths)
    ]
    if not tiles:
        tiles = [skill_tile(result, label_of(path), path) for path in result.paths[:4]]
    place = place_tile(result)
    blocks: list[Block] = [Tiles((*tiles, *([place] if place else [])))]
    if (figure := forest(result)) is not None:
        blocks.append(figure)
    if place:
        blocks.append(rank_table(result))
    lead = f"All numbers: {AGGREGATIONS.get(result.main, result.main)}{under_rule(result)}."
    return Section("skills", "Three skills, apart", tuple(blocks), lead)


def skill_tile(result: ResultDocuments, skill: str, path: str) -> Tile:
    full = f"{path}.{result.main}"
    value = result.value(full)
    if value is None:
        return Tile(skill, None, f"{label_of(path)}: {result.why(full)}", full, "warning")
    told = label_of(path)
    if (ends := result.interval(full)) is not None:
        told += f", {interval_name(result)} {ends[0]:.3f} to {ends[1]:.3f}"
    if is_lower_better(path):
        told += "; lower is better"
    return Tile(skill, value, told, full)


def interval_name(result: ResultDocuments) -> str:
    confidence = result.rules["confidence"] if result.details is not None else None
    return f"{100 * confidence['level']:g} % interval" if confidence else "confidence interval"


def place_tile(result: ResultDocuments) -> Tile | None:
    """The place among earlier results, if the challenge keeps some."""
    board = result.metrics.get("leaderboard")
    if not board:
        return None
    among = f"of {board['submissions']} ranked, this one included"
    if board["position"] is None:
        return Tile("Place", None, result.why("leaderboard.position"), "leaderboard.position", "warning")
    return Tile("Place", f"{board['position']:g}", among, "leaderboard.position")


def rank_table(result: ResultDocuments) -> Table:
    board = result.metrics["leaderboard"]
    rows = [
        (path, result.value(path), Cell(rank, text="" if rank is not None else result.why(f"leaderboard.rank.{path}")))
        for path, rank in leaves_of(board["rank"])
    ]
    total = board["sum_of_ranks"]
    note = "" if total is None else f"Weighted sum of ranks: {total:g}."
    columns = (Column("column of the ranking"), Column("value", 4), Column("rank", 1))
    return Table("ranks", f"Ranks among {board['submissions']} results", columns, tuple(rows), note=note)


def forest(result: ResultDocuments) -> Block | None:
    """The scores between 0 and 1 of each skill with their intervals."""
    series, told = [], []
    for place, (skill, paths) in enumerate(FOREST.items()):
        dots = []
        for path in paths:
            full = f"{path}.{result.main}"
            value = result.value(full) if result.has(path) else None
            if value is not None:
                low, high = result.interval(full) or (None, None)
                ends = "" if low is None else f"\n{interval_name(result)}: {shown_number(low)} to {shown_number(high)}"
                dots.append(Dot(label_of(path), value, f"{full}\n{shown_number(value)}{ends}", low=low, high=high))
                told.append(f"{label_of(path)} {value:.3f}")
        if dots:
            series.append(Series(skill, tuple(dots), series_colour(place)))
    if not series:
        return None
    whiskers = f"Whiskers: {interval_name(result)}." if result.has_intervals else ""
    description = f"{'; '.join(told)}. {whiskers}".strip()
    return scatter_figure("main-scores", "Main scores", description, series, y_title="score", y_range=(0, 1.02))


# --- classes ----------------------------------------------------------------------------------------------------------


def class_section(result: ResultDocuments) -> Section:
    """Scores of each class, as a table, and as bars if there are few."""
    columns = [
        (family, name, title)
        for family, name, title in BY_CLASS
        if any(result.has(f"{family}.per_class.{of_class}.{name}") for of_class in result.classes)
    ]
    if not columns:
        return Section("classes", "Classes", ())
    rows = []
    for of_class in result.classes[:ROWS_SHOWN]:
        paths = [f"{family}.per_class.{of_class}.{name}.{result.main}" for family, name, _ in columns]
        rows.append((of_class, *(result.value(path) for path in paths)))
    note = show_rest(len(result.classes), ROWS_SHOWN, "classes", "metrics.json")
    if any(value is None for row in rows for value in row[1:]):
        note = f"–: undefined; the reasons stand below. {note}".strip()
    table = Table(
        "class-table",
        f"Scores of each class, {AGGREGATIONS.get(result.main, result.main)}",
        (Column("class"), *(Column(title, 3, f"{f}.per_class.….{n}.{result.main}") for f, n, title in columns)),
        tuple(rows),
        note=note,
    )
    blocks: list[Block] = [table]
    if 1 < len(rows) <= 8:
        series = [
            Series(title, bars, series_colour(place))
            for place, (_, _, title) in enumerate(columns)
            if title != "error of counts"
            and (bars := tuple(Dot(str(row[0]), row[place + 1]) for row in rows if row[place + 1] is not None))
        ]
        if series:
            told = "; ".join(f"{bar.x} {bar.y:.3f}" for bar in series[-1].dots)
            figure = bar_figure(
                "class-bars",
                "Scores of each class",
                f"{series[-1].name}: {told}.",
                series,
                y_title="score",
                y_range=(0, 1),
            )
            blocks.insert(0, figure)
    return Section("classes", "Classes", tuple(blocks))


def confusion_section(result: ResultDocuments) -> Section:
    """Counts and shares of each row; for many classes the most frequent confusions."""
    assert result.details is not None
    matrix = result.details["pooled"]["rules"][result.rule]["counts"]["confusion_matrix"]
    names = list(result.details["classes"])
    lead = (
        "Rows are classes of the reference, columns what was predicted. In the row 'none' are spurious predictions, in "
        "the column 'none' missed nuclei. All cases pooled."
    )
    blocks: tuple[Block, ...]
    if len(names) <= MATRIX_CLASSES + 1:
        blocks = (
            matrix_table("confusion", "Numbers of nuclei", names, matrix, share=False),
            matrix_table("confusion-shares", "Share of each row, %", names, matrix, share=True),
        )
    else:
        blocks = (confusion_list(names, matrix),)
    return Section("confusion-section", "What was taken for what", blocks, lead)


def matrix_table(
    anchor: str, caption: str, names: Sequence[str], matrix: Sequence[Sequence[int]], *, share: bool
) -> Table:
    order = [*range(1, len(names)), 0]
    rows = []
    for row in order:
        total = sum(matrix[row])
        cells: list[Cell | str | None] = [names[row]]
        for column in order:
            number = matrix[row][column]
            part = number / total if total else 0.0
            if row == column == 0:
                cells.append(Cell(None, text="–"))
            else:
                cells.append(Cell((100 * part if total else None) if share else number, shade=round(part, 3)))
        rows.append(tuple(cells))
    columns = (Column("reference \\ prediction"), *(Column(names[column], 1 if share else 0) for column in order))
    return Table(anchor, caption, columns, tuple(rows), sortable=False)


def confusion_list(names: Sequence[str], matrix: Sequence[Sequence[int]]) -> Table:
    found = [
        (matrix[row][column], row, column)
        for row in range(len(names))
        for column in range(len(names))
        if row != column and matrix[row][column]
    ]
    found.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    rows = [(names[row], names[column], number, 100 * number / sum(matrix[row])) for number, row, column in found[:50]]
    note = show_rest(len(found), 50, "confusions", "details.json")
    columns = (Column("reference"), Column("prediction"), Column("nuclei", 0), Column("of the row, %", 1))
    return Table("confusion", "The most frequent confusions", columns, tuple(rows), note=note)


# --- errors and pictures ----------------------------------------------------------------------------------------------


def cost_section(costs: Document) -> Section:
    """What every score would gain if all errors of a kind were corrected."""
    paths = [path for path in costs["scores"] if costs["as_is"].get(path) is not None]
    kinds = costs["kinds"]
    lead = (
        "Each kind of error is corrected alone, everything else stays, and the scores are computed again. What a score "
        "gains is what that kind costs it. The gains do not add up: errors hide each other."
    )
    title = "What PQ hides: the cost of each kind of error"
    if not paths:
        return Section("costs", title, (Text(("No score has a value, so nothing can be said to cost.",)),))
    rows: list[tuple[Cell | float | str | None, ...]] = [
        (f"nuclei: {side}", None, *(Cell(kind[key], text=f"{kind[key]:,}") for kind in kinds))
        for side, key in (("reference", "reference"), ("predictions", "prediction"))
    ]
    for path in paths:
        gains = [kind["cost"].get(path) for kind in kinds]
        cells = [None if gain is None else Cell(gain, shade=min(abs(gain), 1.0)) for gain in gains]
        rows.append((label_of(path.rpartition(".")[0]), costs["as_is"][path], *cells))
    table = Table(
        "cost-table",
        "What correcting each kind of error would add to each score",
        (Column("score"), Column("as it is", 3), *(Column(name_of_error(kind["kind"]), 3) for kind in kinds)),
        tuple(rows),
        sortable=False,
    )
    return Section("costs", title, (*cost_figure(kinds, paths), table), lead)


def cost_figure(kinds: Sequence[Document], paths: Sequence[str]) -> list[Block]:
    """Bars of the costs, for panoptic quality and the three skills."""
    wanted = ("panoptic.pq", "detection.f1", "classification.balanced_accuracy", "segmentation.iou")
    shown = [path for name in wanted for path in paths if path.rpartition(".")[0] == name]
    series = [
        Series(
            label_of(path.rpartition(".")[0]),
            tuple(
                Dot(name_of_error(kind["kind"]), cost, f"{name_of_error(kind['kind'])}\n{path}: {shown_number(cost)}")
                for kind in kinds
                if kind["kind"] != "all" and (cost := kind["cost"].get(path)) is not None
            ),
            series_colour(index),
        )
        for index, path in enumerate(shown)
    ]
    series = [one for one in series if one.dots]
    if not series:
        return []
    first = max(series[0].dots, key=lambda dot: float(dot.y or 0))
    return [
        bar_figure(
            "cost-bars",
            "What correcting each kind of error alone would add to a score",
            f"{series[0].name} would gain most, {first.y:+.3f}, without errors of the kind '{first.x}'.",
            series,
            y_title="gain",
            height=400,
        )
    ]


def name_of_error(kind: str) -> str:
    return ERROR_NAMES.get(kind, kind)


def picture_sections(illustration: Illustration, result: ResultDocuments) -> list[Section]:
    """The worst nuclei and the worst cases."""
    sections = []
    worst = f"{'highest' if is_lower_better(main_score(result)) else 'lowest'} {label_of(main_score(result))}"
    for anchor, title, pictures, lead in (
        ("worst-nuclei", "The worst nuclei", illustration.nuclei, illustration.definition),
        ("worst-cases", "The worst cases", illustration.cases, f"Those with the {worst}, the worst first."),
    ):
        if pictures:
            shown = tuple(one.picture for one in pictures)
            lead = f"{lead} {illustration.lines}"
            sections.append(Section(anchor, title, (Pictures(shown, illustration.legend),), lead))
    return sections


# --- everything else --------------------------------------------------------------------------------------------------


def alternatives_section(result: ResultDocuments) -> Section:
    """The main scores under the other matching rules."""
    rules = result.metrics.get("alternatives") or {}
    rows = []
    for path in [*(path for paths in FOREST.values() for path in paths), "segmentation.hausdorff_px"]:
        if result.has(path) and any(node_at(of_rule, path) for of_rule in rules.values()):
            full = f"{path}.{result.main}"
            others = [result.value(f"alternatives.{name}.{full}") for name in rules]
            rows.append((label_of(path), result.value(full), *others))
    if not rows:
        return Section("alternatives", "Other matching rules", ())
    first = result.rule if result.details is not None else "first rule"
    columns = (Column("score"), Column(first, 4), *(Column(name, 4) for name in rules))
    table = Table("alternative-scores", "The same predictions under each matching rule", columns, tuple(rows))
    lead = "What counts as found is a decision, and scores depend on it."
    return Section("alternatives", "Other matching rules", (table,), lead)


def scores_section(result: ResultDocuments) -> Section:
    """Every number of metrics.json that is not of a single class, in all aggregations, with interval."""
    paths = [path for path in result.paths if ".per_class." not in path]
    names = result.aggregations
    columns = [Column("path"), *(Column(AGGREGATIONS.get(name, name), 4, name) for name in names)]
    if result.has_intervals:
        columns[2:2] = [Column("from", 4, "lower end of its interval"), Column("to", 4, "upper end of its interval")]
    rows = []
    for path in paths[:ROWS_SHOWN]:
        cells: list[Cell | float | str | None] = [path, *(result.value(f"{path}.{name}") for name in names)]
        if result.has_intervals:
            cells[2:2] = result.interval(f"{path}.{names[0]}") or (None, None)
        rows.append(tuple(cells))
    note = " ".join(filter(None, [show_rest(len(paths), ROWS_SHOWN, "scores", "metrics.json"), SAY_MORE]))
    caption = "Scores under the first matching rule, as in metrics.json"
    table = Table("scores", caption, tuple(columns), tuple(rows), note=note)
    return Section("scores-section", "All scores", (table,) if rows else (), folded=True)


def undefined_section(result: ResultDocuments) -> Section:
    """Why numbers are null, and how many units were left out of means or penalised."""
    blocks: list[Block] = []
    reasons = list(leaves_of(result.metrics["undefined"]))
    if reasons:
        rows = [(path, reason_in_words(reason)) for path, reason in reasons[:ROWS_SHOWN]]
        note = show_rest(len(reasons), ROWS_SHOWN, "undefined values", "metrics.json")
        columns = (Column("path"), Column("why it has no value"))
        blocks.append(Table("undefined-values", "Undefined values", columns, tuple(rows), note=note))
    else:
        blocks.append(Text(("Every number of metrics.json has a value.",)))
    if result.details is not None:
        blocks += mean_blocks(result)
    return Section("undefined", "What has no value, and what was left out", tuple(blocks), folded=True)


def mean_blocks(result: ResultDocuments) -> list[Block]:
    """How many units entered means, where some did not or were penalised, and what else was left out."""
    assert result.details is not None
    means = result.details["means"][result.rule]
    rows = []
    for path in result.paths:
        for name, entry in (node_at(means, path) or {}).items():
            if isinstance(entry, Mapping) and (entry["left_out"] or entry["penalised"]):
                rows.append((f"{path}.{name}", entry["units"], entry["left_out"], entry["penalised"]))
    missing = sum(not unit.submitted for unit in result.cases)
    ignored = sum(case["ignored_predictions"] for case in result.details["cases"].values())
    told = ["All cases were submitted."]
    if missing:
        told = [f"{missing:,} of {len(result.cases):,} cases were not submitted."]
    if ignored:
        told.append(f"{ignored:,} predictions left because of ignore regions.")
    blocks: list[Block] = [Text((" ".join(told),), "warning" if missing else "plain")]
    if rows:
        table = Table(
            "means",
            "Means that some units did not enter, or entered with the worst value",
            (Column("path"), Column("entered", 0), Column("left out", 0), Column("penalised", 0)),
            tuple(rows[:ROWS_SHOWN]),
            note=show_rest(len(rows), ROWS_SHOWN, "means", "details.json"),
        )
        blocks.append(table)
    return blocks


def rules_section(result: ResultDocuments) -> Section:
    rows = tuple(rules_in_words(result.rules))
    table = Table("rules", "Rules that decided the scores", (Column("rule"), Column("in words")), rows, sortable=False)
    return Section("rules-section", "The rules that were applied", (table,), folded=True)


def findings_section(result: ResultDocuments, illustration: Illustration | None) -> Section:
    """What was said about the files."""
    assert result.details is not None
    lines = [str(line) for line in result.details["findings"]]
    lines += render_findings(illustration.findings if illustration else ())
    shown = lines[:50]
    if rest := show_rest(len(lines), 50, "findings", "details.json"):
        shown.append(rest)
    return Section("findings", "Findings", (Text(tuple(shown or ["Nothing was found to be wrong or unusual."])),))
