"""The page of a study of sensitivity, made of sensitivity.json: what a pixel costs, and which rules break."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.analysis.sensitivity_document import AT_HALF, MEASURES, ONE_PIXEL, PERTURBATIONS
from evaluation.findings import percent
from evaluation.leaderboard.titles import metric_title
from evaluation.report.documents import document_page
from evaluation.report.listing import show_rest, table_of, with_key
from evaluation.report.page import Block, Cell, Column, Figure, Page, Section, Text
from evaluation.report.plots import Axis, Dot, Series, heat_map, plot, series_colour
from evaluation.report.result import Document

CLASSES_UP_TO = 30  # in plots and tables; sensitivity.json has all
ALL_NUCLEI = "all nuclei"
IN_BARS = (*ONE_PIXEL, "halved")
DEFINITIONS = (
    "Eroded and dilated: by pixels with a 4-neighbour outside the nucleus, each nucleus by itself; at the border of "
    "the image nuclei go on. Shifted: down, with the whole image; what leaves it is gone.",
    "Half the resolution: blocks of 2 x 2 pixels from the upper left corner. A block belongs to a nucleus that covers "
    "more than half of it, or half of it with its upper left pixel. “Drawn at half the resolution” is this on the "
    "pixels of the image; “at half the resolution” compares on the blocks themselves: distances are in their pixels, "
    "and nuclei without a block are left out.",
    "Each nucleus is compared with its changed copy. One without a pixel left has IoU, Dice and surface Dice 0, and "
    "no distance. Given are the median, and in brackets the 10 % and the 90 % quantile.",
    "For matching rules the changed reference is a submission, neighbours and ignore regions included. A nucleus is "
    "lost if it is not paired with its changed copy; those without a pixel left are not counted.",
)


def sensitivity_page(document: Document) -> Page:
    """The page of the content of a sensitivity.json."""
    sections = [verdict_section(document)]
    if document["nuclei"]:
        sections += [size_section(document), rule_section(document), number_section(document)]
    sections.append(definition_section(document))
    subtitle = "The reference against itself, drawn a pixel differently"
    return document_page("sensitivity", document, sections, subtitle=subtitle)


# --- access to the document -------------------------------------------------------------------------------------------


def of_all_sizes(document: Document) -> list[Document]:
    """All nuclei, and those of each class, if there are several, that has any."""
    found = [of for of in document["strata"] if of["size_px"] is None and of["nuclei"]]
    return found[: 1 + CLASSES_UP_TO] if len(found) > 2 else found[:1]


def of_sizes(document: Document) -> list[Document]:
    """Nuclei of each size, of whatever class."""
    return [of for of in document["strata"] if of["class"] is None and of["size_px"] is not None]


def name_of(of: Document) -> str:
    """The class, or the size; different for different classes."""
    if of["size_px"] is not None:
        low, high = of["size_px"]["from"], of["size_px"]["below"]
        return f"from {low}" if high is None else f"{low} to {high}"
    if of["class"] is None:
        return ALL_NUCLEI
    return f"class {of['class']}" if of["class"] == ALL_NUCLEI else str(of["class"])


def effect_of(of: Document, perturbation: str) -> Document:
    found: Document = next(effect for effect in of["effects"] if effect["perturbation"] == perturbation)
    return found


def spread_of(of: Document, perturbation: str, measure: str = "iou") -> Cell:
    """The median, and the range of eight nuclei of ten."""
    spread = effect_of(of, perturbation)["measures"][measure]
    if spread["median"] is None:
        return Cell(None, "–")
    return Cell(spread["median"], f"{spread['median']:.2f} ({spread['low']:.2f}–{spread['high']:.2f})")


def iou_columns() -> list[Column]:
    """What a pixel costs, and the IoU under each change by a pixel."""

    def cost(of: Document) -> Cell:
        return Cell(of["one_pixel_costs"], f"{of['one_pixel_costs']:.2f}", shade=of["one_pixel_costs"])

    changes = [
        Column(f"IoU, {PERTURBATIONS[name].replace('by ', '')}", 2, of=with_key(spread_of, name)) for name in IN_BARS
    ]
    help_of_cost = "by the worst change by one pixel, in the median"
    return [Column("IoU lost for a pixel", 2, help_of_cost, cost), *changes, Column("nuclei", 0, of="nuclei")]


# --- sections ---------------------------------------------------------------------------------------------------------


def verdict_section(document: Document) -> Section:
    """The advice in words, and what a pixel costs each class as bars and as a table."""
    first, *others = document["advice"]
    blocks: list[Block] = [Text((first["text"],), "warning" if first["is_warning"] else "good")]
    for is_warning in (True, False):
        texts = tuple(advice["text"] for advice in others if advice["is_warning"] is is_warning)
        blocks += [Text(texts, "warning" if is_warning else "plain")] if texts else []
    if not (chosen := of_all_sizes(document)):
        return Section("advice", "What to do", tuple(blocks))
    bars = [
        Series(PERTURBATIONS[name], tuple(iou_dot(of, name) for of in chosen), series_colour(index), "bars")
        for index, name in enumerate(IN_BARS)
    ]
    costs = "; ".join(f"{name_of(of)} {of['one_pixel_costs']:.2f}" for of in chosen[:12])
    caption = "Median IoU of nuclei with themselves, and the range of eight nuclei of ten"
    description = f"IoU that the worst change by one pixel takes from the median nucleus: {costs}."
    figure = plot("iou-of-classes", caption, description, bars, y=Axis("IoU", (0, 1)))
    across = Column("diameter, px", 0, "the median", "diameter_px.median")
    table = table_of(
        "classes", "What a pixel costs each class", chosen, Column("class", of=name_of), *iou_columns(), across
    )
    return Section("advice", "What to do", (*blocks, figure, table))


def iou_dot(of: Document, perturbation: str) -> Dot:
    spread = effect_of(of, perturbation)["measures"]["iou"]
    return Dot(name_of(of), spread["median"], low=spread["low"], high=spread["high"])


def size_section(document: Document) -> Section:
    """IoU against the diameter, beside that of a disc, and the bins of sizes."""
    rows = document["by_diameter"]
    series = []
    for index, name in enumerate(ONE_PIXEL):
        words = PERTURBATIONS[name]
        dots = tuple(
            Dot(at["diameter_px"], iou, f"{words}\n{at['diameter_px']} px across: IoU {iou}\n{at['nuclei']:,} nuclei")
            for at in rows
            if (iou := at["iou"][name]) is not None
        )
        series.append(Series(words, dots, series_colour(index), "lines"))
    discs = tuple(Dot(at["diameter_px"], disc_eroded(at["diameter_px"])) for at in rows)
    series.append(Series("a disc eroded by 1 px", discs, "@muted", "lines", "dot"))
    lowest = min((float(dot.y or 0) for one in series for dot in one.dots), default=0.0) // 0.1 / 10
    figure = plot(
        "iou-by-diameter",
        "Median IoU against the diameter of nuclei",
        "IoU falls with the diameter d as that of a disc does, ((d - 2) / d)^2 when it is eroded by a pixel.",
        series,
        x=Axis("diameter, px"),
        y=Axis("IoU", (lowest, 1.02)),
        height=420,
    )
    diameter = Column("diameter, px", of=lambda of: Cell(of["size_px"]["from"], name_of(of)))
    table = table_of("sizes", "Nuclei by size", of_sizes(document), diameter, *iou_columns())
    lead = "Small nuclei are nearly all border: the same pixel costs them more."
    return Section("size", "How much of it is size", (figure, table), lead)


def disc_eroded(diameter_px: float) -> float:
    """IoU of a disc with itself when its radius is a pixel less.

    >>> disc_eroded(10)
    0.64
    """
    return round((max(diameter_px - 2, 0) / diameter_px) ** 2, 6) if diameter_px else 0.0


def rule_section(document: Document) -> Section:
    """Which matching rules lose nuclei: of all nuclei by change, and of each class."""
    rules = document["rules"]
    names = [f"{rule['words']} (yours: {rule['name']})" if rule["is_own"] else str(rule["words"]) for rule in rules]
    everything, *classes = of_all_sizes(document)
    changes = [name for name in PERTURBATIONS if name not in AT_HALF]
    figures = [
        lost_figure(
            anchor,
            f"Share of nuclei that a rule {key}",
            f"Share of nuclei that {what}, by matching rule and by change.",
            names,
            [PERTURBATIONS[name] for name in changes],
            [[effect_of(everything, name)[field].get(rule["name"]) for name in changes] for rule in rules],
        )
        for anchor, field, key, what in (
            ("lost", "lost", "does not find again", "are not paired with their changed copy"),
            ("taken", "taken", "pairs wrongly", "are paired with the changed copy of another nucleus"),
        )
    ]
    if classes:
        values = [[most_lost(of, rule["name"]) for of in classes] for rule in rules]
        caption = "The largest share of a class that a rule does not find again, for one or two pixels"
        description = "Largest share of nuclei that are not paired with their changed copy, by rule and class."
        columns = [name_of(of) for of in classes]
        figures.append(lost_figure("lost-of-classes", caption, description, names, columns, values))
    lead = "The changed reference as a submission: every nucleus is there, and a rule should find each again."
    return Section("rules", "Which matching rules break", tuple(figures), lead)


def most_lost(of: Document, rule: str) -> float | None:
    """The largest share of a class that a rule loses under changes by one or two pixels; None: no nucleus is left."""
    shares = [effect["lost"] for effect in of["effects"] if effect["perturbation"].endswith(("_1", "_2"))]
    return max((share[rule] for share in shares if rule in share), default=None)


def lost_figure(
    anchor: str,
    caption: str,
    description: str,
    names: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
) -> Figure:
    words = [["–" if value is None else percent(value, 1) for value in row] for row in values]
    return heat_map(anchor, caption, description, names, columns, values, shown=words, ends=(0, 1))


def spread_of_row(row: tuple[Document, str], measure: str) -> Cell:
    return spread_of(*row, measure)


def number_section(document: Document) -> Section:
    """All measures of all classes, and of all sizes."""
    rows = [(of, change) for of in [*of_all_sizes(document), *of_sizes(document)] for change in PERTURBATIONS]
    classes = sum(of["size_px"] is None and of["class"] is not None for of in document["strata"])
    table = table_of(
        "measures",
        "Median (10 % to 90 % quantile) of every measure",
        rows,
        Column("nuclei of", of=lambda row: f"{name_of(row[0])}{' px' if row[0]['size_px'] else ''}"),
        Column("change", of=lambda row: PERTURBATIONS[row[1]]),
        Column("compared", 0, "how many nuclei", lambda row: effect_of(*row)["compared"]),
        Column("vanished", 0, "of them, those without a pixel left", lambda row: effect_of(*row)["vanished"]),
        *(Column(metric_title(measure), 2, of=with_key(spread_of_row, measure)) for measure in MEASURES),
        rest="rows of sensitivity.json",
        note=show_rest(classes, CLASSES_UP_TO, "classes of sensitivity.json"),
    )
    return Section("numbers", "All numbers", (table,), folded=True)


def definition_section(document: Document) -> Section:
    """How it was computed, and of how many nuclei."""
    ignored = max(document["ignored"].values(), default=0)
    counted = (
        f"{document['nuclei']:,} nuclei in {document['cases']:,} cases, {document['empty_cases']:,} of them without "
        f"nuclei. {document['one_pixel_nuclei']:,} nuclei are a single pixel. Up to {ignored:,} changed nuclei left "
        "because of an ignore region before they were matched."
    )
    return Section("definitions", "How it is computed", (Text((counted, *DEFINITIONS)),))
