"""The page of a study of sensitivity, made of sensitivity.json: what a pixel costs, and which rules break."""

from __future__ import annotations

from evaluation.analysis.sensitivity import MEASURES, ONE_PIXEL, PERTURBATIONS
from evaluation.findings import percent
from evaluation.leaderboard.titles import metric_title
from evaluation.report.documents import document_page
from evaluation.report.listing import shaded_table, show_rest, table_of, with_key
from evaluation.report.page import Block, Cell, Column, Page, Section, Text
from evaluation.report.result import Document

CLASSES_UP_TO = 30  # in plots and tables; sensitivity.json has all
ALL_NUCLEI = "all nuclei"
IN_BARS = (*ONE_PIXEL, "halved")
DEFINITIONS = (
    "Eroded and dilated: by pixels with a 4-neighbour outside the nucleus, each nucleus by itself; at the border of "
    "the image nuclei go on. Shifted: down, with the whole image; what leaves it is gone. Half the resolution: blocks "
    "of 2 x 2 pixels from the upper left corner; a block belongs to a nucleus that covers more than half of it, or "
    "half of it with its upper left pixel.",
    "Each nucleus is compared with its changed copy. One without a pixel left has IoU, Dice and surface Dice 0, and "
    "no distance. Given are the median, and in brackets the 10 % and the 90 % quantile.",
    "For matching rules the changed reference is a submission, neighbours and ignore regions included. A nucleus is "
    "lost if it is not paired with its changed copy; those without a pixel left are not counted.",
)


def sensitivity_page(document: Document) -> Page:
    """The page of the content of a sensitivity.json."""
    sections = [verdict_section(document)]
    if document["nuclei"]:
        sections += [rule_section(document), number_section(document)]
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
        return f"from {low} px" if high is None else f"{low} to {high} px"
    if of["class"] is None:
        return ALL_NUCLEI
    return f"class {of['class']}" if of["class"] == ALL_NUCLEI else str(of["class"])


def effect_of(of: Document, perturbation: str) -> Document:
    found: Document = next(effect for effect in of["effects"] if effect["perturbation"] == perturbation)
    return found


def spread_cell(row: tuple[Document, str], measure: str) -> Cell:
    """The median, and the range of eight nuclei of ten, of some nuclei under a change."""
    spread = effect_of(*row)["measures"][measure]
    if spread["median"] is None:
        return Cell(None, "–")
    return Cell(spread["median"], f"{spread['median']:.2f} ({spread['low']:.2f}–{spread['high']:.2f})")


# --- sections ---------------------------------------------------------------------------------------------------------


def verdict_section(document: Document) -> Section:
    """The advice in words, and what a pixel costs each class and each size as a table."""
    first, *others = document["advice"]
    blocks: list[Block] = [Text((first["text"],), "warning" if first["is_warning"] else "good")]
    for is_warning in (True, False):
        texts = tuple(advice["text"] for advice in others if advice["is_warning"] is is_warning)
        blocks += [Text(texts, "warning" if is_warning else "plain")] if texts else []
    if not (chosen := of_all_sizes(document)):
        return Section("advice", "What to do", tuple(blocks))

    def cost(of: Document) -> Cell:
        return Cell(of["one_pixel_costs"], f"{of['one_pixel_costs']:.2f}", shade=of["one_pixel_costs"])

    def iou(of: Document, name: str) -> Cell:
        return spread_cell((of, name), "iou")

    table = table_of(
        "classes",
        "What a pixel costs each class and each size",
        [*chosen, *of_sizes(document)],
        Column("nuclei of", of=name_of),
        Column("IoU lost for a pixel", 2, "by the worst change by one pixel, in the median", cost),
        *(Column(f"IoU, {PERTURBATIONS[name].replace('by ', '')}", 2, of=with_key(iou, name)) for name in IN_BARS),
        Column("nuclei", 0, of="nuclei"),
        Column("diameter, px", 0, "the median", "diameter_px.median"),
    )
    return Section("advice", "What to do", (*blocks, table))


def rule_section(document: Document) -> Section:
    """Which matching rules lose nuclei, by change."""
    names = [f"{of['words']} (yours: {of['name']})" if of["is_own"] else str(of["words"]) for of in document["rules"]]
    effects = document["strata"][0]["effects"]
    values = [[effect["lost"].get(rule["name"]) for effect in effects] for rule in document["rules"]]
    table = shaded_table(
        "lost",
        "Share of nuclei that a rule does not find again",
        names,
        list(PERTURBATIONS.values()),
        values,
        texts=[["–" if value is None else percent(value, 1) for value in row] for row in values],
        head="matching rule",
        note="Not paired with their changed copy, by matching rule and by change.",
    )
    lead = "The changed reference as a submission: every nucleus is there, and a rule should find each again."
    return Section("rules", "Which matching rules break", (table,), lead)


def number_section(document: Document) -> Section:
    """All measures of all classes, and of all sizes."""
    rows = [(of, change) for of in [*of_all_sizes(document), *of_sizes(document)] for change in PERTURBATIONS]
    classes = sum(of["size_px"] is None and of["class"] is not None for of in document["strata"])
    table = table_of(
        "measures",
        "Median (10 % to 90 % quantile) of every measure",
        rows,
        Column("nuclei of", of=lambda row: name_of(row[0])),
        Column("change", of=lambda row: PERTURBATIONS[row[1]]),
        Column("vanished", 0, "those without a pixel left", lambda row: effect_of(*row)["vanished"]),
        *(Column(metric_title(measure), 2, of=with_key(spread_cell, measure)) for measure in MEASURES),
        rest="rows of sensitivity.json",
        note=show_rest(classes, CLASSES_UP_TO, "classes of sensitivity.json"),
    )
    return Section("numbers", "All numbers", (table,), folded=True)


def definition_section(document: Document) -> Section:
    """How it was computed, and of how many nuclei."""
    counted = (
        f"{document['nuclei']:,} nuclei in {document['cases']:,} cases, {document['empty_cases']:,} of them without "
        f"nuclei. {document['one_pixel_nuclei']:,} nuclei are a single pixel."
    )
    return Section("definitions", "How it is computed", (Text((counted, *DEFINITIONS)),))
