"""The pages of studies: audit.json and sensitivity.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from evaluation.board.sensitivity import COMPARED_MEASURES, ONE_PIXEL, PERTURBATIONS
from evaluation.board.titles import Document, metric_title
from evaluation.findings import counted, percent
from evaluation.report import tables
from evaluation.report.page import Block, Cell, Page, Section, Table, Text, Tone, Value, document_page

# --- the audit: does the first rank hold under other rules, and which rule changes it? --------------------------------


VALUES_NAMED_UP_TO = 12  # of a rule that are named
TONES: Mapping[str, Tone] = {
    "yes": "good",
    "untested": "warning",
    "undecided": "warning",
    "shared": "warning",
    "no": "bad",
}


def audit_page(document: Document) -> Page:
    """The page of the content of an audit.json."""
    sections = [_first_place_section(document), rule_section(document)]
    sections += [_pair_section(document["pairs"])] if document["pairs"] else []
    sections += [_border_section(document["borders"])] if document.get("borders") else []
    sections.append(_method_section(document))
    teams = [team["name"] for team in document["teams"]]
    subtitle = "The ranking under other rules"
    return document_page("audit", document, sections, subtitle=subtitle, teams=teams)


def _first_place_section(document: Document) -> Section:
    """The answer, and the ranks of all teams."""
    blocks: tuple[Block, ...] = (answer_text(document), _team_table(document))
    return Section("first-place", "Can the first rank be defended?", blocks)


def answer_text(document: Document) -> Text:
    first = document["first_place"]
    return Text(tuple(first["answer"]), TONES.get(first["defended"], "plain"))


def _team_table(document: Document) -> Table:
    """The ranks of each team in the variants of the rules."""
    variants = document["first_place"]["variants"]
    teams = []
    for team in document["teams"]:
        among = [entry["place"] for entry in team["places"]]
        ranks = Cell(among[0], tables.rank_range(among[0], among[-1])) if among else Cell(None)
        teams.append([team["name"], tables.rank_cell(team["published"]), ranks,
                      tables.share_cell((team["first"], variants)),
                      team["first_share"], team["first_alone"], team["not_ranked"]])  # fmt: skip
    titles = ["team", "rank", "ranks", "first", "part", "alone", "not ranked"]
    caption = f"Ranks in {counted(variants, 'variant')}"
    note = "Rank: by the rules of the challenge. First: alone or tied. Part: a tied rank divided equally."
    return tables.table_of("audit-teams", caption, titles, teams, rest="teams of audit.json", note=note)


def rule_section(document: Document) -> Section:
    """Show the effect of single rules, the largest effect first. Leaderboards have it too."""
    effects = [effect for effect in document["effects"] if effect["comparisons"]]
    effects.sort(key=itemgetter("dimension"))
    effects.sort(key=lambda effect: (-effect["pairs_changed"], -effect["first_changes"] / effect["comparisons"]))
    rows = [{**effect, "change_of_first": (effect["first_changes"], effect["comparisons"])} for effect in effects]
    caption = "Rules by their effect on the order"
    table = tables.table_of("effects", caption, ("dimension", "change_of_first", "pairs_changed"), rows)
    lead = "Compares all pairs of variants that differ only in this rule."
    return Section("rules", "Effect of each rule", (table,), lead)


def _pair_section(pairs: Sequence[Document]) -> Section:
    """Show which differences between teams are stable under all conditions, stable differences first."""
    rows: list[list[Value]] = []
    for pair in sorted(pairs, key=lambda pair: not pair["holds"]):
        counts = (tables.share_cell((pair[key], pair["conditions"])) for key in ("better", "significant"))
        names = pair["team"], pair["other"], metric_title(pair["column"])
        rows.append([*names, *counts, "yes" if pair["holds"] else "no"])
    caption = "Pairs of teams, stable differences first"
    note = "Stable: better under all conditions, and significantly better under at least half of them."
    titles = ["team", "other", "column", "better", "significantly better", "stable"]
    table = tables.table_of("pairs", caption, titles, rows, rest="pairs of audit.json", note=note)
    lead = "A condition is a combination of matching rule, threshold, overlap, ignore policy and missing values."
    return Section("pairs-of-teams", "Stable differences", (table,), lead)


_WORDS_OF_BORDERS = {"remove": "removed", "remove_and_dilate": "dilated"}


def _border_section(conditions: Sequence[Document]) -> Section:
    """Show the scores of all teams, and of the reference itself as colour maps, by border and matching rule."""
    titles = [f"{_WORDS_OF_BORDERS[one['border']]}, {one['matching'].replace('_', ' ')}" for one in conditions]
    rows: list[list[Value]] = []
    for number, path in enumerate(conditions[0]["columns"]):
        for entry, first in enumerate(conditions[0]["entries"]):
            values = [one["entries"][entry]["values"][number] for one in conditions]
            rows.append([first["name"], metric_title(path), *map(tables.decimal_cell, values)])
    caption = "Scores by border and matching rule"
    table = tables.table_of("borders", caption, ["team", "column", *titles], rows, sortable=False)
    lead = (
        "Borders between nuclei are removed, or removed and the nuclei dilated by a pixel. The last row of a column is "
    )
    lead += "the reference itself, drawn as a colour map: the limit of the format."
    return Section("borders-section", "Cost of colour maps", (table,), lead)


def _method_section(document: Document) -> Section:
    """List the varied rules with the winners under each value, unranked teams, and omissions."""
    rows: list[list[Value]] = []
    for dimension in document["dimensions"]:
        alike: dict[str, list[Document]] = {}
        for entry in dimension["values"]:
            first = [f"{tables.write_name(team['team'])} {percent(team['share'])}" for team in entry["first"]]
            alike.setdefault(tables.name_some(first) or "nobody", []).append(entry)
        for names, entries in alike.items():
            values = [
                f"{entry['value']}{' (published)' * (entry['value'] == dimension['published'])}" for entry in entries
            ]
            variants = sum(entry["variants"] for entry in entries)
            rows.append([dimension["name"], tables.name_some(values, VALUES_NAMED_UP_TO), variants, names])
    caption = "Varied rules, and the share of first ranks under each value"
    titles = ["rule", "values", "variants", "first"]
    blocks: list[Block] = [tables.table_of("varied", caption, titles, rows, sortable=False)]
    blocks += [unranked_table(document["not_ranked"])] if document["not_ranked"] else []
    blocks += [Text(tuple(document["notes"]))] if document["notes"] else []
    lead = (
        "All teams are ranked again in each variant. Shares of variants are not probabilities: they show how many "
        "of the tested variants agree."
    )
    return Section("varied-rules", "The method", tuple(blocks), lead, folded=True)


def unranked_table(teams: Sequence[Document]) -> Table:
    """Teams without a rank, and why."""
    keys = ("name", "code", "reason")
    return tables.table_of("unranked", "Teams that are not ranked", keys, teams, rest="teams of the JSON")


# --- sensitivity: what a pixel costs, and which rules break -----------------------------------------------------------


CLASSES_UP_TO = 30  # in plots and tables; sensitivity.json has all
ALL_NUCLEI = "all nuclei"
IN_BARS = (*ONE_PIXEL, "halved", "halved_eroded_1", "halved_dilated_1")
DEFINITIONS = (
    "Eroded and dilated: by pixels with a 4-neighbour outside the nucleus, each nucleus by itself; at the border of "
    "the image nuclei go on. Shifted: down, with the whole image; what leaves it is gone. Half the resolution: blocks "
    "of 2 x 2 pixels from the upper left corner; a block belongs to a nucleus that covers more than half of it, or "
    "half of it with its upper left pixel. Half the resolution, then a pixel: the nuclei at half the resolution are "
    "compared with their copies that are changed there; distances are in pixels of the reference.",
    "Each nucleus is compared with its changed copy. A nucleus without a pixel left has IoU, Dice and surface Dice "
    "0, and no distance. Cells show the median, and the 10% and 90% quantiles in brackets.",
    "For matching rules, the changed reference is scored as a submission, with neighbours and ignore regions. A "
    "nucleus is lost if it is not paired with its changed copy; nuclei without a pixel left are not counted.",
)


def sensitivity_page(document: Document) -> Page:
    """The page of the content of a sensitivity.json."""
    sections = [_advice_section(document)]
    if document["nuclei"]:
        sections += [_matching_section(document), _number_section(document)]
    sections.append(_definition_section(document))
    subtitle = "The reference against itself, drawn a pixel differently"
    return document_page("sensitivity", document, sections, subtitle=subtitle)


# --- access to the document -------------------------------------------------------------------------------------------


def _strata_in(document: Document) -> list[Document]:
    """List the strata that tables show: all nuclei, each class that has nuclei, if there are several, and each size."""
    classes = [stratum for stratum in document["strata"] if stratum["size_px"] is None and stratum["nuclei"]]
    sizes = [stratum for stratum in document["strata"] if stratum["class"] is None and stratum["size_px"] is not None]
    return [*classes[: 1 + CLASSES_UP_TO if len(classes) > 2 else 1], *sizes]


def _name_of(stratum: Document) -> str:
    """Name a stratum by its class, or by its size."""
    if stratum["size_px"] is not None:
        low, high = stratum["size_px"]["from"], stratum["size_px"]["below"]
        return f"from {low} px" if high is None else f"{low} to {high} px"
    if stratum["class"] is None:
        return ALL_NUCLEI
    return f"class {stratum['class']}" if stratum["class"] == ALL_NUCLEI else str(stratum["class"])


def _change_in(stratum: Document, change: str) -> Document:
    """Find the effect of a change on the nuclei of a stratum."""
    return next(effect for effect in stratum["effects"] if effect["perturbation"] == change)


def _spread_cell(stratum: Document, change: str, measure: str) -> Cell:
    """Show the median of a measure under a change, and its 10% and 90% quantiles."""
    spread = _change_in(stratum, change)["measures"][measure]
    if spread["median"] is None:
        return Cell(None)
    return Cell(spread["median"], f"{spread['median']:.2f} ({spread['low']:.2f}–{spread['high']:.2f})")


# --- sections ---------------------------------------------------------------------------------------------------------


def _advice_section(document: Document) -> Section:
    """Show the advice, and the cost of a pixel per class and size."""
    first, *others = document["advice"]
    blocks: list[Block] = [Text((first["text"],), "warning" if first["is_warning"] else "good")]
    for is_warning in (True, False):
        texts = tuple(advice["text"] for advice in others if advice["is_warning"] is is_warning)
        blocks += [Text(texts, "warning" if is_warning else "plain")] if texts else []
    if not any(stratum["nuclei"] for stratum in document["strata"]):
        return Section("advice", "What to do", tuple(blocks))
    rows: list[list[Value]] = []
    for stratum in _strata_in(document):
        cost = stratum["one_pixel_costs"]
        ious = [_spread_cell(stratum, change, "iou") for change in IN_BARS]
        sizes = stratum["nuclei"], stratum["diameter_px"]["median"]
        rows.append([_name_of(stratum), Cell(cost, f"{cost:.2f}", shade=cost), *ious, *sizes])
    changes = [f"IoU, {PERTURBATIONS[change].replace('by ', '')}" for change in IN_BARS]
    titles = ["nuclei of", "IoU lost for a pixel", *changes, "nuclei", "median diameter, px"]
    table = tables.table_of("classes", "Cost of a pixel per class and size", titles, rows)
    return Section("advice", "What to do", (*blocks, table))


def _matching_section(document: Document) -> Section:
    """Show the share of nuclei that each matching rule loses under each change."""
    rows: list[list[Value]] = []
    for rule in document["rules"]:
        lost = [effect["lost"].get(rule["name"]) for effect in document["strata"][0]["effects"]]
        cells = [Cell(share, "–" if share is None else percent(share, 1), shade=share) for share in lost]
        rows.append([f"{rule['words']} (yours: {rule['name']})" if rule["is_own"] else str(rule["words"]), *cells])
    caption = "Share of nuclei that a rule does not find again"
    note = "Not paired with their changed copy, by matching rule and by change."
    titles = ["matching rule", *PERTURBATIONS.values()]
    table = tables.table_of("lost", caption, titles, rows, note=note, sortable=False)
    lead = "The changed reference as a submission: every nucleus is there, and a rule should find each again."
    return Section("rules", "Which matching rules break", (table,), lead)


def _number_section(document: Document) -> Section:
    """All measures of all classes, and of all sizes."""
    rows = [
        [_name_of(stratum), PERTURBATIONS[change], _change_in(stratum, change)["vanished"],
         *(_spread_cell(stratum, change, measure) for measure in COMPARED_MEASURES)]
        for stratum in _strata_in(document)
        for change in PERTURBATIONS
    ]  # fmt: skip
    classes = sum(stratum["size_px"] is None and stratum["class"] is not None for stratum in document["strata"])
    table = tables.table_of(
        "measures",
        "Median (10% to 90% quantile) of every measure",
        ["nuclei of", "change", "vanished", *map(metric_title, COMPARED_MEASURES)],
        rows,
        rest="rows of sensitivity.json",
        note=tables.show_rest(classes, CLASSES_UP_TO, "classes of sensitivity.json"),
    )
    return Section("numbers", "All numbers", (table,), folded=True)


def _definition_section(document: Document) -> Section:
    """Return how everything was computed, and of how many nuclei."""
    sizes = (
        f"{counted(document['nuclei'], 'nucleus', 'nuclei')} in {counted(document['cases'], 'case')}, "
        f"{document['empty_cases']:,} of them without nuclei. "
        f"{counted(document['one_pixel_nuclei'], 'nucleus is', 'nuclei are')} a single pixel."
    )
    return Section("definitions", "How it is computed", (Text((sizes, *DEFINITIONS)),), folded=True)
