"""Names of metrics, columns, teams and units, as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from evaluation.findings import quote

Document = Mapping[str, Any]

NAMED_UP_TO = 3  # teams, units, changes of the rules


def names_of(names: Sequence[str], word: str = "and") -> str:
    """List names in quotes in words, the first three of them.

    >>> names_of(["A", "B", "C", "D"])
    "'A', 'B', 'C' and 1 more"
    """
    return in_words([quote(name, 40) for name in names], word)


def in_words(names: Sequence[str], word: str = "and") -> str:
    rest = [f"{len(names) - NAMED_UP_TO:,} more"] if len(names) > NAMED_UP_TO else []
    parts = [*names[:NAMED_UP_TO], *rest]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def unit_of(document: Document) -> str:
    return str(document["units"]["kind"]).removesuffix("s")


# --- names of metrics -------------------------------------------------------------------------------------------------


METRIC_NAMES: Mapping[str, str] = {
    "f1": "F1",
    "macro_f1": "macro F1",
    "iou": "IoU",
    "dice": "Dice",
    "pq": "PQ",
    "sq": "SQ",
    "rq": "RQ",
    "aji": "AJI",
    "mcc": "MCC",
    "r2": "R² of counts",
    "froc": "FROC",
    "auroc": "AUROC",
    "hausdorff": "Hausdorff distance",
    "hausdorff95": "Hausdorff distance (95%)",
    "mean_absolute_error": "mean absolute error of counts",
}
# Families whose metrics have names of their own; of all others the family is named.
FAMILIAR = ("classification", "segmentation", "panoptic", "counting", "curves", "thresholds")
OF_DETECTION = ("f1", "precision", "recall")  # that classification has as well
ALL_AGGREGATIONS = ("pooled", "group_mean", "case_mean", "stratum_mean")


def metric_title(path: str) -> str:
    """Name a metric by its path in metrics.json, with or without its aggregation.

    >>> metric_title("detection.f1.group_mean"), metric_title("segmentation.iou_class_mean")
    ('detection F1', 'IoU (class mean)')
    >>> metric_title("classification.per_class.Epithelial.f1"), metric_title("classification.accuracy")
    ('classification F1, Epithelial', 'accuracy')
    >>> metric_title("segmentation.per_class.Epithelial.hausdorff95_px.pooled")
    'Hausdorff distance (95%), px, Epithelial'
    >>> metric_title("thresholds.f1_iou50_95"), metric_title("segmentation.surface_dice_2px")
    ('F1 at IoU 0.5:0.05:0.95', 'surface Dice at 2 px')
    >>> metric_title("thresholds.f1_iou50_75"), metric_title("thresholds.f1_iou72_5")
    ('F1 at IoU 0.5, 0.75', 'F1 at IoU 0.725')
    """
    parts = path.split(".")
    if parts[-1] in ALL_AGGREGATIONS:
        parts.pop()
    if not parts:
        return path
    family, *between, name = ["", *parts][-max(len(parts), 2) :]
    name, ends = re.subn(r"_class_mean$", "", name)
    name, halves = re.subn(r"_median$", "", name)
    limit = re.search(r"_iou(\d+(?:_\d+)*)$", name)
    unit = re.search(r"_(\d*)(px|um)$", name)
    name = name[: (limit or unit).start()] if limit or unit else name  # type: ignore[union-attr]
    name = METRIC_NAMES.get(name, " ".join(METRIC_NAMES.get(word, word) for word in name.split("_")))
    if limit:
        name += f" at IoU {_thresholds_text(limit[1])}"
    elif unit:
        name += f" at {unit[1]} {unit[2]}" if unit[1] else f", {unit[2]}"
    title = f"{name}{' (class mean)' * ends}{' (median)' * halves}"
    if between[:1] == ["per_class"]:
        title += f", {'.'.join(between[1:])}"
    elif between:
        title += " without classes" if between == ["binary"] else f", {'.'.join(between)}"
    is_familiar = family in ("", *FAMILIAR) and not (family == "classification" and parts[-1] in OF_DETECTION)
    return title if is_familiar else f"{family.replace('_', ' ')} {title}"


def _thresholds_text(digits: str) -> str:
    """Write the IoU thresholds of a path: a range as start:step:end, a list with commas.

    >>> _thresholds_text("50_95"), _thresholds_text("50_62_5_75"), _thresholds_text("90")
    ('0.5:0.05:0.95', '0.5, 0.625, 0.75', '0.9')
    """
    if digits == "50_95":
        return "0.5:0.05:0.95"
    percents: list[str] = []
    for part in digits.split("_"):
        if percents and int(part) < float(percents[-1]):  # thresholds ascend, so these are decimals
            percents[-1] += f".{part}"
        else:
            percents.append(part)
    return ", ".join(f"{float(percent) / 100:.12g}" for percent in percents)


def short_titles(paths: Sequence[str]) -> list[str]:
    """Name metrics as headings side by side; where two are alike, by their paths.

    >>> short_titles(["detection.f1.group_mean", "segmentation.hausdorff_px.group_mean"])
    ['detection F1', 'Hausdorff distance, px']
    >>> short_titles(["detection.f1.pooled", "detection.f1.case_mean"])
    ['detection f1 pooled', 'detection f1 case mean']
    """
    titles = [metric_title(path) for path in paths]
    if len(set(titles)) == len(titles):
        return titles
    return [path.replace(".", " ").replace("_", " ") for path in paths]


# --- subtasks ---------------------------------------------------------------------------------------------------------


_OF_CLASSES = ("macro_f1", "class_f1", "class_recall", "accuracy", "balanced_accuracy")  # of families with other scores
_SUBTASKS: Mapping[str, str] = {  # of families; of others the family itself
    "detection": "detection",
    "objects": "detection",
    "thresholds": "detection",
    "segmentation": "segmentation",
    "covered": "segmentation",
    "overall": "segmentation",
    "overlap": "segmentation",
}


def _subtask_of(path: str) -> str:
    """Name the subtask that a column ranks: "detection", "classification", "segmentation", or its family.

    >>> [_subtask_of(f"{path}.pooled") for path in ("detection.f1", "covered.class_f1", "alternatives.x.overall.iou")]
    ['detection', 'classification', 'segmentation']
    >>> _subtask_of("panoptic.sq.group_mean"), _subtask_of("panoptic.pq.group_mean"), _subtask_of("score")
    ('segmentation', 'panoptic', 'score')
    """
    parts = path.split(".")
    family, *rest = parts[2:] if parts[0] == "alternatives" and len(parts) > 2 else parts
    name = rest[-2] if len(rest) > 1 else ""
    if family == "classification" or (family in _SUBTASKS and name in _OF_CLASSES):
        return "classification"
    if family == "panoptic" and name in ("sq", "rq"):
        return "segmentation" if name == "sq" else "detection"
    return _SUBTASKS.get(family, family)


def subtasks_of(paths: Sequence[str]) -> dict[str, list[int]]:
    """Group the columns of a ranking by subtask; nothing if there is one alone, or columns are not of metrics.json.

    >>> subtasks_of(["detection.f1.pooled", "segmentation.iou.pooled", "segmentation.hausdorff_px.pooled"])
    {'detection': [0], 'segmentation': [1, 2]}
    """
    groups: dict[str, list[int]] = {}
    for index, path in enumerate(paths):
        groups.setdefault(_subtask_of(path), []).append(index)
    return groups if len(groups) > 1 and all("." in path for path in paths) else {}


# --- methods and tests of rankings ------------------------------------------------------------------------------------


class _Method(NamedTuple):
    """A ranking method in a sentence, the name of the number that decides ("": the mean rank), and its column."""

    sentence: str
    name: str = ""
    head: str = "mean rank"


_OF_RANKS = "Teams are ranked in {columns}; the {by_weight}%s of their ranks decides."
_THEN_MEAN = "; the {by_weight}mean of these ranks decides."
METHODS: Mapping[str, _Method] = {
    "sum_of_ranks": _Method(_OF_RANKS % "sum", "sum of ranks", "sum"),
    "mean_of_ranks": _Method(_OF_RANKS % "mean", "mean of ranks"),
    "median_of_ranks": _Method(_OF_RANKS % "median", "median of ranks", "median"),
    "absolute": _Method("The value of the column decides.", "rank in the column", "rank"),
    "aggregate_then_rank": _Method(
        f"In {{columns}} teams are ranked by the {{aggregate}} of their values over all {{units}}{_THEN_MEAN}"
    ),
    "rank_then_aggregate": _Method(
        "In {columns} teams are ranked in each {unit}, and then by the {aggregate} of these ranks; the {by_weight}mean "
        "of the ranks decides."
    ),
    "test_then_rank": _Method(
        f"In {{columns}} teams are ranked by the number of teams that are significantly worse{_THEN_MEAN}"
    ),
}
TESTS = {  # of significance, and what they are corrected for
    "sign_flips": ("signs of whole {units} flipped", "corrected for all pairs of teams and all columns"),
    "friedman_nemenyi": ("Friedman and Nemenyi", "each column by itself"),
    "wilcoxon_holm": ("Wilcoxon and Holm", "each column by itself"),
}
