"""The rules of a challenge that decided scores, in rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.challenge.matching_rules import rule_from
from evaluation.leaderboard.titles import metric_title
from evaluation.report.result import Document

OVERLAP: Mapping[str, str] = {
    "keep": "belong to all of them",
    "last": "belong to the last one in the file",
    "first": "belong to the first one in the file",
    "smallest": "belong to the smallest one",
    "class_order": "belong to the later class in the list, inside a class to the last one in the file",
    "ignore": "are not scored",
}
VANISHED: Mapping[str, str] = {"drop": "are left out", "pixel": "get the nearest pixel", "error": "are an error"}
VERTICES: Mapping[str, str] = {
    "exact": "taken as they are",
    "truncate": "cut to whole pixels",
    "nearest": "rounded to the nearest pixel",
}
IGNORED: Mapping[str, str] = {
    "clip": "the pixels inside them leave both sides",
    "drop_overlapping": "nuclei with more than {fraction} inside leave both sides",
    "drop_centroid": "nuclei with their centroid inside leave both sides",
    "drop_unmatched": "the pixels inside them leave both sides, and so do predicted nuclei that match nothing and had "
    "more than {fraction} inside",
}
MISSING_CASE: Mapping[str, str] = {
    "worst": "is scored as if nothing had been predicted in it",
    "reject": "makes the whole submission invalid",
}
UNIT: Mapping[str, str] = {
    "pooled": "Counts of all cases are added up, then each formula is applied once.",
    "group": "Counts are added up in each group (patient), each formula is applied there, then groups are averaged.",
    "case": "Each formula is applied to every case, then cases are averaged.",
}
UNDEFINED: Mapping[str, str] = {
    "skip": "are left out of means",
    "worst": "count as the worst value where nothing was predicted or nothing matched, and are left out elsewhere",
}


def rules_in_words(rules: Document) -> list[tuple[str, str]]:
    """Names and rows, in the order in which the rules act."""
    reference, metrics = rules["reference"], rules["metrics"]
    matching = rules["matching"]["rules"]
    rows = [("Classes", ", ".join(of_class["name"] for of_class in rules["classes"]))]
    if reference["overlap"] is not None:
        scope = " of its class" if reference["overlap_scope"] == "class" else ""
        words = f"Pixels inside several outlines{scope} {OVERLAP[reference['overlap']]}."
        if reference.get("vanished") is not None:
            words += f" Outlines without a pixel {VANISHED[reference['vanished']]}."
        if reference.get("vertices") is not None:
            words += f" Vertices are {VERTICES[reference['vertices']]}."
        rows.append(("Reference", words))
    ignore = reference["ignore"]
    if ignore["classes"]:
        what = IGNORED[ignore["policy"]].format(fraction=ignore["fraction"])
        rows.append(("Not scored", f"Regions called {', '.join(ignore['classes'])}: {what}."))
    rows.append(("A missing case", f"It {MISSING_CASE[rules['submission']['missing_case']]}."))
    if not matching:
        rows.append(("Counting", "The nuclei of each class are counted in each case; where they lie does not matter."))
    for index, rule in enumerate(matching):
        name = f"Matching: {rule['name']}" if index == 0 else f"Also: {rule['name']}"
        rows.append((name, rule_from(rule).words))
    rows.append(("Averages", averages_in_words(rules["aggregation"])))
    if {"segmentation", "covered", "overall"} & {name.partition(".")[0] for name in metrics["families"]}:
        edge = "counts" if metrics["boundary"] == "closed" else "does not count"
        measured = "; ".join(metric_title(name) for name in metrics["measures"])
        words = f"Measured on each pair: {measured}. The border of the image {edge} as boundary."
        for unit in ("px", "um"):
            if metrics[f"tolerance_{unit}"] is not None:
                words += f" Tolerance: {metrics[f'tolerance_{unit}']:g} {unit}."
            if metrics.get(f"distance_cap_{unit}") is not None:
                words += f" A missed nucleus counts as a distance of {metrics[f'distance_cap_{unit}']:g} {unit}."
        if metrics.get("coverage") is not None:
            words += f" Covered: the best {100 * metrics['coverage']:g} % of the reference nuclei."
        rows.append(("Segmentation", words))
    if (confidence := rules["confidence"]) is not None:
        drawn = f"{confidence['samples']:,} samples of {confidence['resample'].replace('_', ' ')}"
        method = {"by_groups": "studentised bootstrap", "bca": "BCa bootstrap"}.get(
            confidence["method"], f"{confidence['method']} bootstrap"
        )
        words = f"{100 * confidence['level']:g} %, {method}: {drawn}, seed {confidence['seed']}."
        rows.append(("Intervals", words))
    if (ranking := rules["ranking"]) is not None and ranking["columns"]:
        columns = "; ".join(
            f"{column['path']} ({'higher' if column['direction'] == 'descending' else 'lower'} is better"
            f"{'' if column['weight'] == 1 else ', weight {:g}'.format(column['weight'])})"
            for column in ranking["columns"]
        )
        floors = " and ".join(f"{of['path']} of at least {of['at_least']:g}" for of in ranking.get("require", ()))
        behind = f" Teams without {floors} are ranked behind the others." if floors else ""
        rows.append(("Ranking", f"By {ranking['method'].replace('_', ' ')}: {columns}.{behind}"))
    return rows


def averages_in_words(aggregation: Mapping[str, Any]) -> str:
    words = f"{UNIT[aggregation['unit']]} Undefined values {UNDEFINED[aggregation['undefined']]}."
    if aggregation["class_present"] == "reference":
        words += " A class counts in a unit only if the reference has it."
    return words
