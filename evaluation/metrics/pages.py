"""The page of each metric, made of its record: what ``evaluation explain PATH`` prints, and most of docs/metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import cache

from evaluation.metrics.metric import Effect, Example, Metric
from evaluation.metrics.registry import METRIC_FAMILIES
from evaluation.model import AGGREGATIONS, OF_STRATA, UNDEFINED_REASONS, WORST_GROUP

FOLDER = "docs/metrics"
EFFECTS: Mapping[Effect, str] = {
    "worse": "make it worse, or leave it as it is",
    "none": "change nothing",
    "either": "may make it worse or better",
}
BETTER = {"higher": "higher", "lower": "lower", "one": "nearer to 1"}
SIDES = ("both sides empty", "prediction empty", "reference empty", "nothing matched")
HOW_DRAWN = (
    "Reference on the left, prediction on the right; every letter is a nucleus, small ones lymphocytes, "
    "capitals tumor cells."
)


@cache
def metrics_by_page() -> Mapping[str, list[Metric]]:
    """The metrics of every page."""
    pages: dict[str, list[Metric]] = {}
    for family in METRIC_FAMILIES.values():
        for metric in family.metrics:
            pages.setdefault(metric.page, []).append(metric)
    return pages


def pages_of(family: str) -> list[str]:
    return [page for page, metrics in metrics_by_page().items() if metrics[0].family == family]


def page_of(name: str) -> str | None:
    """The page of a metric by its name or by a path of metrics.json, with or without aggregation; None if none has it.

    >>> page_of("panoptic.per_class.Lymphocyte.pq.group_mean"), page_of("thresholds.f1_iou50_95"), page_of("pq")
    ('panoptic.per_class.pq', 'thresholds.f1_range', None)
    """
    if name in metrics_by_page():
        return name
    path = general_path(name.split("."))
    return next((page for page, metrics in metrics_by_page().items() for m in metrics if m.path == path), None)


def general_path(keys: Sequence[str]) -> tuple[str, ...]:
    """A path with placeholders for what a challenge chooses, without matching rule and aggregation."""
    keys = list(keys[2:] if keys[0] == "alternatives" else keys)
    if keys and keys[-1] in (*AGGREGATIONS, *OF_STRATA, WORST_GROUP):
        keys.pop()
    for index, key in enumerate(keys[:-1]):
        if key in ("per_class", "grouped"):
            keys[index + 1] = "<class>" if key == "per_class" else "<grouping>"
    if keys[:1] == ["sizes"] and len(keys) > 2:
        keys[1] = "<size>"
    if keys:
        keys[-1] = re.sub(r"_at_[0-9_e+]+_per_(image|mm2)$", "_at_<rate>", keys[-1])
        keys[-1] = re.sub(r"_iou(\d+)(?:_(\d+))?((?:_\d+)*)$", general_thresholds, keys[-1])
    return tuple(keys)


def general_thresholds(found: re.Match[str]) -> str:
    """iou72_5 is one threshold, 0.725; iou50_75 are several."""
    first, second, more = found.groups()
    return "_iou<thresholds>" if more or (second and int(second) > int(first)) else "_iou<threshold>"


def terminal_page(page: str) -> str:
    """What ``evaluation explain PATH`` prints."""
    return f"{page_text(page)}\nThis page: {FOLDER}/{page}.md"


def terminal_index() -> str:
    """The pages with the first sentence of each, family by family; the end of ``evaluation explain``."""
    width = max(map(len, metrics_by_page())) + 2
    return "\n\n".join(
        "\n".join([f"Metrics: {family}", *(f"  {page:{width}}{summary(page)}" for page in pages_of(family))])
        for family in METRIC_FAMILIES
    )


def page_text(page: str) -> str:
    """A page in Markdown."""
    metrics = metrics_by_page()[page]
    family = METRIC_FAMILIES[metrics[0].family]
    stop = "" if family.title.endswith("?") else "."
    return "\n\n".join(
        [
            f"# {page}",
            definitions(metrics),
            f"Family {family.name}. {family.title}{stop} {family.text}",
            properties(metrics),
            "## Worked example",
            *(example_text(metric, metric.example) for metric in metrics if metric.example),
            "## Sources",
            "\n".join(f"- {source}" for source in metrics[0].sources) + "\n",
        ]
    )


def definitions(metrics: Sequence[Metric]) -> str:
    """The paths of a page, and the definition of each; what all begin with stands once."""
    paths: dict[str, list[str]] = {}
    for metric in metrics:
        paths.setdefault(metric.definition(), []).append(f"`{'.'.join(metric.path)}`")
    first = next(iter(paths)).partition("\n\n")[0] + "\n\n"
    common = first if len(paths) > 1 and all(text.startswith(first) for text in paths) else ""
    parts = [f"{', '.join(of)}\n\n{text.removeprefix(common)}" for text, of in paths.items()]
    return (common + "\n\n".join(parts)).replace("``", "`")


def summary(page: str) -> str:
    """The first sentence, of the first two paragraphs where the first one is a formula only."""
    metric = metrics_by_page()[page][0]
    paragraphs = metric.definition().split("\n\n")[: 2 if metric.family == "thresholds" else 1]
    sentences = [re.match(r".*?\.(?=\s|$)", " ".join(text.split())) for text in paragraphs]
    return " ".join(sentence[0] for sentence in sentences if sentence).replace("``", "`")


def properties(metrics: Sequence[Metric]) -> str:
    """What the records of a page declare, as a table."""
    first = metrics[0]
    same = [f"`{'.'.join(metric.path)}`" for metric in metrics if metric.symmetric]
    swap = "changes nothing" if len(same) == len(metrics) else "changes it"
    if 0 < len(same) < len(metrics):
        swap = f"changes nothing in {', '.join(same)}, but changes the others"
    rows = {
        "range": f"{bound(first.lowest)} to {first.limit or bound(first.highest)}",
        "better": BETTER[first.better],
        "unit": first.unit or "none",
        **{side: value_text(value) for side, value in zip(SIDES, astuple(first.empty), strict=True)},
        "points instead of outlines": "undefined: `points-only`" if first.outlines else "the same",
        "one more missed nucleus would": EFFECTS[first.missed],
        "one more spurious nucleus would": EFFECTS[first.spurious],
        "swapping reference and prediction": swap,
        "a case that was not submitted": cost_of_missing(first),
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows.items())])


def value_text(value: str | float | None) -> str:
    """What a metric is where there is nothing to compare, in words."""
    if value is None:
        return "what the formula gives"
    return f"undefined: `{value}`" if value in UNDEFINED_REASONS else str(value)


def bound(value: float) -> str:
    return f"{value:g}".replace("inf", "∞").replace("-", "−")


def cost_of_missing(metric: Metric) -> str:
    """What a missing case costs, in words."""
    scored = "is scored as if nothing had been found in it"
    if metric.worst is None and not metric.limit:
        return f"{scored}; there is no worst value to penalise"
    worst = metric.limit or worst_text(metric)
    if metric.counts_missed:
        return f"{scored}; a unit that is undefined for it has {worst}"
    return (
        f"penalised: (1 − m/n) value + (m/n) worst with m of the n cases of a unit missing; the worst value is {worst}"
    )


def worst_text(metric: Metric) -> str:
    if isinstance(metric.worst, str):
        return f"the diagonal of the image, {metric.worst[-2:]}"
    return bound(math.nan if metric.worst is None else metric.worst)


# --- examples ---------------------------------------------------------------------------------------------------------

IN_EXAMPLES = {"<class>": "lymphocyte", "<thresholds>": "50_75", "<threshold>": "75", "<rate>": "1_per_image"}


def example_path(metric: Metric, example: Example) -> str:
    """The path in metrics.json of the number that an example gives."""
    path = ".".join((*metric.path, "pooled"))
    for placeholder, name in IN_EXAMPLES.items():
        path = path.replace(placeholder, name)
    return example.path or path


def example_text(metric: Metric, example: Example) -> str:
    confidence = ", ".join(f"{letter} {value:g}" for letter, value in example.confidence.items())
    parts = [
        HOW_DRAWN,
        f"```text\n{example.picture.strip()}\n```",
        *([f"Confidence: {confidence}."] if confidence else []),
        example.by_hand,
        f"`{example_path(metric, example)}` is {example.gives:g}.",
    ]
    return "\n\n".join(parts)
