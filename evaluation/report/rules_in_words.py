"""The rules of a challenge that decided scores, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.report.result import Document

MATCHING: Mapping[str, str] = {
    "iou_above": "if their IoU is above {limit}; of rival pairs the most, then those of the greatest total IoU",
    "iou_assignment": "if their IoU is above {limit}; of rival pairs those of the greatest total IoU",
    "best_iou_centroid_inside": "if the prediction is the one with the highest IoU and its centroid lies inside",
    "best_iou_any_overlap": "if the prediction is the one with the highest IoU; one shared pixel is enough",
    "centroid_closest_first": "if their centroids are at most {limit} apart, the closest pair first",
    "centroid_assignment": "if their centroids are at most {limit} apart, in the best assignment of all",
    "hausdorff_closest_first": "if their boundaries are at most {limit} apart, the closest pair first",
    "confidence_first": "within {limit}, the most probable prediction first",
}
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
    """Names and sentences, in the order in which the rules act."""
    reference, metrics = rules["reference"], rules["metrics"]
    matching = rules["matching"]["rules"]
    lines = [("Classes", ", ".join(of_class["name"] for of_class in rules["classes"]))]
    if reference["overlap"] is not None:
        scope = " of its class" if reference["overlap_scope"] == "class" else ""
        words = f"Pixels inside several outlines{scope} {OVERLAP[reference['overlap']]}."
        if reference["vanished"] is not None:
            words += f" Outlines without a pixel {VANISHED[reference['vanished']]}."
        if reference["vertices"] is not None:
            words += f" Vertices are {VERTICES[reference['vertices']]}."
        lines.append(("Reference", words))
    ignore = reference["ignore"]
    if ignore["classes"]:
        what = IGNORED[ignore["policy"]].format(fraction=ignore["fraction"])
        lines.append(("Not scored", f"Regions called {', '.join(ignore['classes'])}: {what}."))
    lines.append(("A missing case", f"It {MISSING_CASE[rules['submission']['missing_case']]}."))
    if not matching:
        lines.append(("Counting", "The nuclei of each class are counted in each case; where they lie does not matter."))
    for place, rule in enumerate(matching):
        name = f"Matching: {rule['name']}" if place == 0 else f"Also: {rule['name']}"
        lines.append((name, matching_in_words(rule)))
    lines.append(("Averages", averages_in_words(rules["aggregation"])))
    if "segmentation" in metrics["families"]:
        edge = "counts" if metrics["boundary"] == "closed" else "does not count"
        words = f"Measured on each pair: {', '.join(metrics['measures'])}. The border of the image {edge} as boundary."
        for unit in ("px", "um"):
            if metrics[f"tolerance_{unit}"] is not None:
                words += f" Tolerance: {metrics[f'tolerance_{unit}']:g} {unit}."
        lines.append(("Segmentation", words))
    if (confidence := rules["confidence"]) is not None:
        drawn = f"{confidence['samples']:,} samples of {confidence['resample'].replace('_', ' ')}"
        words = (
            f"{100 * confidence['level']:g} %, {confidence['method']} bootstrap: {drawn}, seed {confidence['seed']}."
        )
        lines.append(("Intervals", words))
    if (ranking := rules["ranking"]) is not None and ranking["columns"]:
        columns = "; ".join(
            f"{column['path']} ({'higher' if column['direction'] == 'descending' else 'lower'} is better"
            f"{'' if column['weight'] == 1 else ', weight {:g}'.format(column['weight'])})"
            for column in ranking["columns"]
        )
        lines.append(("Ranking", f"By {ranking['method'].replace('_', ' ')}: {columns}."))
    return lines


def matching_in_words(rule: Mapping[str, Any]) -> str:
    """One matching rule in a sentence or two."""
    limits = (("threshold", "an IoU of {:g}"), ("radius_px", "{:g} px"), ("radius_um", "{:g} um"))
    limit = next((words.format(rule[key]) for key, words in limits if rule.get(key) is not None), "")
    if rule["rule"] in ("iou_above", "iou_assignment"):
        limit = limit.removeprefix("an IoU of ")
    of_class = (
        "Only nuclei of equal class can be a pair."
        if rule["class_aware"]
        else "Classes do not matter for the pairing; the classes of the pairs are compared afterwards."
    )
    return f"A reference nucleus and a prediction are a pair {MATCHING[rule['rule']].format(limit=limit)}. {of_class}"


def averages_in_words(aggregation: Mapping[str, Any]) -> str:
    words = f"{UNIT[aggregation['unit']]} Undefined values {UNDEFINED[aggregation['undefined']]}."
    if aggregation["class_present"] == "reference":
        words += " A class counts in a unit only if the reference has it."
    return words
