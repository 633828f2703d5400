"""The page of a study of sensitivity, made of sensitivity.json: what a pixel costs, and which rules mind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.analysis.advice import CHEAP, COSTLY, FEW, percent
from evaluation.analysis.sensitivity_document import AT_HALF, MEASURES, ONE_PIXEL, PERTURBATIONS, TWO_PIXELS
from evaluation.report.documents import embed_document, identify_document, show_rest
from evaluation.report.figures import (
    Dot,
    Series,
    bar_figure,
    heat_map_figure,
    line_figure,
    series_colour,
    shown_number,
)
from evaluation.report.page import Block, Cell, Column, Figure, Page, Section, Table, Text, Tile, Tiles, Tone

Document = Mapping[str, Any]

CLASSES_UP_TO = 30  # in plots and tables; more are in sensitivity.json
TILES_UP_TO = 12
ALL_NUCLEI = "all nuclei"
IN_BARS = (*ONE_PIXEL, "halved")
SHORT: Mapping[str, str] = {  # where room is short
    "eroded_1": "eroded 1 px",
    "eroded_2": "eroded 2 px",
    "dilated_1": "dilated 1 px",
    "dilated_2": "dilated 2 px",
    "shifted_1": "shifted 1 px",
    "shifted_2": "shifted 2 px",
    "halved": "half",
    "half_eroded_1": "half, eroded",
    "half_dilated_1": "half, dilated",
    "half_shifted_1": "half, shifted",
}
TITLES: Mapping[str, str] = {
    "iou": "IoU",
    "dice": "Dice",
    "hausdorff_px": "Hausdorff, px",
    "hausdorff95_px": "Hausdorff 95, px",
    "surface_dice_1px": "surface Dice at 1 px",
    "surface_dice_2px": "surface Dice at 2 px",
}
DEFINITIONS = (
    "Eroded and dilated: by pixels with a 4-neighbour outside the nucleus, each nucleus by itself; at the border of "
    "the image nuclei go on. Shifted: down, with the whole image; what leaves it is gone.",
    "Half the resolution: blocks of 2 x 2 pixels from the upper left corner. A block belongs to a nucleus that covers "
    "more than half of it, or half of it with its upper left pixel. “Drawn at half the resolution” is this on the "
    "pixels of the image; “at half the resolution” compares on the blocks themselves: distances are in their pixels, "
    "and nuclei without a block are left out.",
    "Each nucleus is compared with what became of it. One without a pixel left has IoU, Dice and surface Dice 0, and "
    "no distance. Given are the median, and in brackets the 10 % and the 90 % quantile.",
    "For matching rules the changed reference is a submission, neighbours and ignore regions included. A nucleus is "
    "lost if it is not paired with what became of it; those without a pixel left are not counted.",
)


def sensitivity_page(document: Document) -> Page:
    """The page of the content of a sensitivity.json."""
    data, told = embed_document("sensitivity", document)
    sections = [advice_section(document)]
    if document["nuclei"]:
        sections += [pixel_section(document), size_section(document), rule_section(document), number_section(document)]
    return Page(
        title=f"{document['challenge']['name']}: sensitivity",
        subtitle="What becomes of the reference when it is drawn a pixel differently",
        facts=identify_document(document),
        sections=(*sections, definition_section(document, told)),
        data=data,
    )


# --- what is asked of the document ------------------------------------------------------------------------------------


def of_all_sizes(document: Document) -> list[Document]:
    """All nuclei, and those of each class, if there are several, that has any."""
    found = [of for of in document["strata"] if of["size_px"] is None and of["nuclei"]]
    return found[: 1 + CLASSES_UP_TO] if len(found) > 2 else found[:1]


def of_sizes(document: Document) -> list[Document]:
    """Nuclei of each size, of whatever class."""
    return [of for of in document["strata"] if of["class"] is None and of["size_px"] is not None]


def name_of(of: Document) -> str:
    """The class; different for different classes."""
    if of["class"] is None:
        return ALL_NUCLEI
    return f"class {of['class']}" if of["class"] == ALL_NUCLEI else str(of["class"])


def effect_of(of: Document, perturbation: str) -> Document:
    found: Document = next(effect for effect in of["effects"] if effect["perturbation"] == perturbation)
    return found


def spread_words(spread: Document) -> str:
    """The median, and the range of eight nuclei of ten."""
    if spread["median"] is None:
        return "–"
    return f"{spread['median']:.2f} ({spread['low']:.2f}–{spread['high']:.2f})"


def most_lost(of: Document, rule: str, perturbations: Sequence[str], key: str = "lost") -> float | None:
    """The largest share under some perturbations; None where no nucleus is left."""
    shares = [effect_of(of, name)[key] for name in perturbations]
    return max((share[rule] for share in shares if rule in share), default=None)


# --- sections ---------------------------------------------------------------------------------------------------------


def advice_section(document: Document) -> Section:
    """The advice in words, and what a pixel costs each class."""
    first, *others = document["advice"]
    tiles = []
    for of in of_all_sizes(document)[:TILES_UP_TO]:
        cost = of["one_pixel_costs"]
        number = "1 nucleus" if of["nuclei"] == 1 else f"{of['nuclei']:,} nuclei"
        detail = f"of IoU for a pixel; {number}, {of['diameter_px']['median']:.0f} px across"
        tone: Tone = "bad" if cost >= COSTLY else "warning" if cost >= CHEAP else "good"
        tiles.append(Tile(name_of(of), cost, detail, tone=tone if of["nuclei"] >= FEW else "plain"))
    blocks: list[Block] = [Text((first["text"],), "warning" if first["is_warning"] else "good")]
    blocks += [Tiles(tuple(tiles))] if tiles else []
    for is_warning in (True, False):
        texts = tuple(advice["text"] for advice in others if advice["is_warning"] is is_warning)
        blocks += [Text(texts, "warning" if is_warning else "plain")] if texts else []
    return Section(
        "advice",
        "What to do",
        tuple(blocks),
        lead="Nobody draws the border of a nucleus to the pixel: what a score makes of one is no skill of a method.",
    )


def pixel_section(document: Document) -> Section:
    """Median IoU of each class under each perturbation."""
    shown = of_all_sizes(document)
    costs = "; ".join(f"{name_of(of)} {of['one_pixel_costs']:.2f}" for of in shown[:TILES_UP_TO])
    bars = [
        Series(
            PERTURBATIONS[name],
            tuple(iou_dot(of, name) for of in shown),
            series_colour(index),
        )
        for index, name in enumerate(IN_BARS)
    ]
    values = [[effect_of(of, name)["measures"]["iou"]["median"] for name in PERTURBATIONS] for of in shown]
    hover = [
        [f"{name_of(of)}, {words}\nIoU {spread_words(effect_of(of, name)['measures']['iou'])}"
         for name, words in PERTURBATIONS.items()]
        for of in shown
    ]  # fmt: skip
    return Section(
        "pixel",
        "What a pixel costs",
        (
            bar_figure(
                "iou-of-classes",
                "Median IoU of nuclei with themselves, and the range of eight nuclei of ten",
                f"IoU that the worst change by one pixel takes from the median nucleus: {costs}.",
                bars,
                y_title="IoU",
                y_range=(0, 1),
            ),
            heat_map_figure(
                "iou-of-perturbations",
                "Median IoU under every change",
                "Median IoU of nuclei with what became of them, by class and by change.",
                rows=[name_of(of) for of in shown],
                columns=list(SHORT.values()),
                values=values,
                shown=[["–" if value is None else f"{value:.2f}" for value in row] for row in values],
                hover=hover,
                value_range=(0, 1),
                value_title="IoU",
            ),
        ),
        lead="Small nuclei are nearly all border: the same pixel costs them more.",
    )


def iou_dot(of: Document, perturbation: str) -> Dot:
    spread = effect_of(of, perturbation)["measures"]["iou"]
    return Dot(name_of(of), spread["median"], low=spread["low"], high=spread["high"])


def size_section(document: Document) -> Section:
    """IoU against the diameter, beside that of a disc, and the bins of sizes."""
    rows = document["by_diameter"]
    series = [
        Series(
            PERTURBATIONS[name],
            tuple(
                Dot(
                    at["diameter_px"],
                    at["iou"][name],
                    f"{PERTURBATIONS[name]}\n{at['diameter_px']} px across: IoU {shown_number(at['iou'][name])}\n"
                    f"{at['nuclei']:,} nuclei",
                )
                for at in rows
            ),
            series_colour(index),
        )
        for index, name in enumerate(ONE_PIXEL)
    ]
    discs = tuple(Dot(at["diameter_px"], disc_eroded(at["diameter_px"])) for at in rows)
    series.append(Series("a disc eroded by 1 px", discs, "@muted", dash="dot"))
    table = Table(
        "sizes",
        "Nuclei by size",
        (
            Column("diameter, px", None, "of the disc that is as large as the nucleus"),
            Column("nuclei", 0),
            Column("IoU lost for a pixel", 2, "by the worst change by one pixel, in the median"),
            *(Column(f"IoU, {SHORT[name]}", 2) for name in IN_BARS),
        ),
        tuple(
            (
                Cell(of["size_px"]["from"], size_words(of["size_px"])),
                of["nuclei"],
                Cell(of["one_pixel_costs"], f"{of['one_pixel_costs']:.2f}", shade=of["one_pixel_costs"]),
                *(spread_cell(effect_of(of, name)["measures"]["iou"]) for name in IN_BARS),
            )
            for of in of_sizes(document)
        ),
    )
    figure = line_figure(
        "iou-by-diameter",
        "Median IoU against the diameter of nuclei",
        "IoU falls with the diameter d as that of a disc does, ((d - 2) / d)^2 when it is eroded by a pixel.",
        series,
        x_title="diameter, px",
        y_title="IoU",
        y_range=(0, 1.02),
        height=420,
    )
    return Section("size", "How much of it is size", (figure, table))


def disc_eroded(diameter_px: float) -> float:
    """IoU of a disc with itself when its radius is a pixel less.

    >>> disc_eroded(10)
    0.64
    """
    return round((max(diameter_px - 2, 0) / diameter_px) ** 2, 6) if diameter_px else 0.0


def size_words(size_px: Document) -> str:
    return f"from {size_px['from']}" if size_px["below"] is None else f"{size_px['from']} to {size_px['below']}"


def spread_cell(spread: Document) -> Cell:
    return Cell(spread["median"], spread_words(spread))


def rule_section(document: Document) -> Section:
    """Which matching rules lose nuclei."""
    everything = document["strata"][0]
    at_full = [name for name in PERTURBATIONS if name not in AT_HALF]
    rules = document["rules"]
    names = [f"{rule['words']} (yours: {rule['name']})" if rule["is_own"] else str(rule["words"]) for rule in rules]
    values = [[effect_of(everything, name)["lost"].get(rule["name"]) for name in at_full] for rule in rules]
    columns = [SHORT[name] for name in at_full]
    hover = [
        [f"{rule_name}\n{column}: {shown_number(value)} lost" for column, value in zip(columns, row, strict=True)]
        for rule_name, row in zip(names, values, strict=True)
    ]
    table = Table(
        "rules-table",
        "The largest share of nuclei that a rule loses",
        (
            Column("matching rule"),
            Column("name", None, "of the rule in challenge.toml, or in sensitivity.json"),
            Column("one pixel", 6, "eroded, dilated or shifted by one pixel"),
            Column("two pixels", 6, "eroded, dilated or shifted by two pixels"),
            Column("half the resolution", 6, "drawn at half the resolution"),
            Column("taken", 6, "the largest part of it that is paired with what became of another nucleus"),
        ),
        tuple(
            (
                rule_name,
                rule["name"],
                *(
                    share_cell(most_lost(everything, rule["name"], changes))
                    for changes in (ONE_PIXEL, TWO_PIXELS, ("halved",))
                ),
                share_cell(most_lost(everything, rule["name"], at_full, "taken")),
            )
            for rule_name, rule in zip(names, rules, strict=True)
        ),
    )
    return Section(
        "rules",
        "Which matching rules break",
        (lost_figure(names, columns, values, hover), table, *class_figure(document, names)),
        lead="The changed reference as a submission: every nucleus is there, and a rule should find each again.",
    )


def lost_figure(
    names: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    hover: Sequence[Sequence[str]],
) -> Figure:
    return heat_map_figure(
        "lost",
        "Share of nuclei that a rule does not find again",
        "Share of nuclei that are not paired with what became of them, by matching rule and by change.",
        rows=names,
        columns=columns,
        values=values,
        shown=[["–" if value is None else percent(value) for value in row] for row in values],
        hover=hover,
        value_range=(0, 1),
        value_title="lost",
    )


def class_figure(document: Document, names: Sequence[str]) -> tuple[Figure, ...]:
    """What rules lose of each class, if there are several."""
    classes = of_all_sizes(document)[1:]
    if not classes:
        return ()
    values = [[most_lost(of, rule["name"], (*ONE_PIXEL, *TWO_PIXELS)) for of in classes] for rule in document["rules"]]
    return (
        heat_map_figure(
            "lost-of-classes",
            "The largest share of a class that a rule loses, for one or two pixels",
            "Largest share of nuclei that are not paired with what became of them, by matching rule and by class.",
            rows=names,
            columns=[name_of(of) for of in classes],
            values=values,
            shown=[["–" if value is None else percent(value) for value in row] for row in values],
            value_range=(0, 1),
            value_title="lost",
        ),
    )


def share_cell(share: float | None) -> Cell:
    return Cell(share, "–" if share is None else percent(share), shade=share)


def number_section(document: Document) -> Section:
    """All measures of all classes, and of all sizes."""
    rows = []
    for of in [*of_all_sizes(document), *of_sizes(document)]:
        name = name_of(of) if of["size_px"] is None else f"{size_words(of['size_px'])} px"
        for perturbation, words in PERTURBATIONS.items():
            effect = effect_of(of, perturbation)
            spreads = (spread_cell(effect["measures"][measure]) for measure in MEASURES)
            rows.append((name, words, effect["compared"], effect["vanished"], *spreads))
    table = Table(
        "measures",
        "Median (10 % to 90 % quantile) of every measure",
        (
            Column("nuclei of"),
            Column("change"),
            Column("compared", 0, "how many nuclei"),
            Column("vanished", 0, "of them, those without a pixel left"),
            *(Column(TITLES[measure], 2) for measure in MEASURES),
        ),
        tuple(rows),
        note=show_rest(
            sum(of["size_px"] is None and of["class"] is not None for of in document["strata"]),
            CLASSES_UP_TO,
            "classes",
            "sensitivity.json",
        ),
    )
    return Section("numbers", "All numbers", (table,), folded=True)


def definition_section(document: Document, told: str) -> Section:
    """How it was computed, and what was there."""
    ignored = max(document["ignored"].values(), default=0)
    counted = (
        f"{document['nuclei']:,} nuclei in {document['cases']:,} cases, {document['empty_cases']:,} of them without "
        f"nuclei. {document['one_pixel_nuclei']:,} nuclei are a single pixel. Up to {ignored:,} changed nuclei left "
        "because of an ignore region before they were matched."
    )
    texts = (counted, *DEFINITIONS, *([told] if told else []))
    return Section("definitions", "How it is computed", (Text(texts),), folded=True)
