"""The words of the metrics: the text of ``evaluation explain PATH``, and docs/metrics.md.

They are in pages/, one file per family with one section per page, and are read on demand. A section adds to the
docstring of the formula: a worked example that a test scores, and the sources. Properties in a record are written from
the record.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache, partial
from importlib import resources
from inspect import cleandoc
from typing import Any

from nuclei_metrics.metrics import METRIC_FAMILIES
from nuclei_metrics.metrics.metric import Effect, Metric
from nuclei_metrics.model import AGGREGATIONS, UNDEFINED_REASONS
from nuclei_metrics.model.annotations import STRATUM_MEAN
from nuclei_metrics.papers import pages_of_word, plain_word, readings, readings_of

DOCUMENT = "docs/metrics.md"
EFFECTS: Mapping[Effect, str] = {
    "worse": "make it worse, or leave it as it is",
    "none": "change nothing",
    "either": "may make it worse or better",
}
BETTER = {"higher": "higher", "lower": "lower", "one": "nearer to 1"}
PIXEL_WISE = ("overlap.dice1", "partition.adapted_rand", "partition.variation_of_information")
SIDES = ("both sides empty", "prediction empty", "reference empty", "nothing matched")
HOW_DRAWN = (
    "Reference on the left, prediction on the right; every letter is a nucleus, lower case lymphocytes, capitals tumor "
    "cells. Pairs match above an IoU of 1/2; thresholds are 0.5 and 0.75, the tolerance is 1 px, a pixel 0.5 µm, the "
    "image border is outside of every nucleus, distances are capped at 4 px, FROC is read at 1/4 and 1 false positive "
    "per image."
)


@cache
def metrics_by_page() -> Mapping[str, list[Metric]]:
    """The metrics of every page."""
    pages: dict[str, list[Metric]] = {}
    for family in METRIC_FAMILIES.values():
        for metric in family:
            pages.setdefault(metric.page, []).append(metric)
    return pages


def pages_of(family: str) -> list[str]:
    return [page for page, metrics in metrics_by_page().items() if metrics[0].family == family]


def page_of(name: str) -> str | None:
    """The page of a metric by name or path of metrics.json, with or without aggregation; None if unknown.

    >>> page_of("panoptic.per_class.Lymphocyte.pq.group_mean"), page_of("thresholds.f1_iou50_95"), page_of("pq")
    ('panoptic.per_class.pq', 'thresholds.f1_range', None)
    """
    if name in metrics_by_page():
        return name
    path = general_path(name.split("."))
    return next((page for page, metrics in metrics_by_page().items() for m in metrics if m.path == path), None)


def general_path(keys: Sequence[str]) -> tuple[str, ...]:
    """A path with placeholders for choices of the challenge, without matching rule and aggregation."""
    keys = list(keys[2:] if keys[0] == "alternatives" else keys)
    if keys and keys[-1] in (*AGGREGATIONS, STRATUM_MEAN):
        keys.pop()
    for index, key in enumerate(keys[:-1]):
        if key in ("per_class", "grouped"):
            keys[index + 1] = "<class>" if key == "per_class" else "<grouping>"
    if keys[:1] == ["sizes"] and len(keys) > 2:
        keys[1] = "<size>"
    if keys:
        keys[-1] = re.sub(r"_at_[0-9_e+]+_per_(image|mm2)$", "_at_<rate>", keys[-1])
        keys[-1] = re.sub(r"_iou(\d+)(?:_(\d+))?((?:_\d+)*)$", _general_thresholds, keys[-1])
    return tuple(keys)


def _general_thresholds(match: re.Match[str]) -> str:
    """Replace thresholds in a path by placeholders: iou72_5 is one threshold (0.725), iou50_75 several."""
    first, second, more = match.groups()
    return "_iou<thresholds>" if more or (second and int(second) > int(first)) else "_iou<threshold>"


# --- words ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PageSection:
    """The words of a page, and its worked example.

    words       its definition, instead of the docstring of its formula; before the docstrings if a page has several
                metrics
    picture     the reference on the left and the prediction on the right, an empty line before the next image; every
                letter is a nucleus, lower case a lymphocyte, upper case a tumor cell
    confidence  of the predicted nuclei, by their letters
    by_hand     calculation of the number
    path, gives where the number is in metrics.json, and the number, six decimals
    sources     names in sources.md
    """

    words: str
    picture: str
    confidence: Mapping[str, float]
    by_hand: str
    path: str
    gives: float
    sources: tuple[str, ...]


SECTION = re.compile(
    r"(?P<words>.*?)```text\n(?P<picture>.*?)\n```\n\n(?:Confidence: (?P<confidence>[^\n]*)\.\n\n)?(?P<by_hand>.*)\n\n"
    r"`(?P<path>\S+)` is (?P<gives>\S+)\.\n\nSources: (?P<sources>.*)\.\s*",
    re.DOTALL,
)


def page_text(file: str) -> str:
    return resources.files("evaluation.findings").joinpath("pages", f"{file}.md").read_text("utf-8")


@cache
def words_of(family: str) -> tuple[str, str, Mapping[str, _PageSection]]:
    """The title of a family, the introduction to its pages, and the section of each page."""
    head, *sections = page_text(family).split("\n## ")
    title, _, text = head.removeprefix(f"# {family}: ").partition("\n\n")
    pages = (section.partition("\n") for section in sections)
    return title, text.strip(), {page: _section_of(content) for page, _, content in pages}


def _section_of(text: str) -> _PageSection:
    match = SECTION.fullmatch(text.lstrip())
    if match is None:
        raise ValueError(f"{text!r} is no section with an example and sources")
    confidence = (entry.split(" ") for entry in (match["confidence"] or "").split(", ") if entry)
    return _PageSection(
        words=match["words"].strip(),
        picture=match["picture"],
        confidence={letter: float(value) for letter, value in confidence},
        by_hand=match["by_hand"].strip(),
        path=match["path"],
        gives=float(match["gives"]),
        sources=tuple(" ".join(match["sources"].split()).split(", ")),
    )


def section(page: str) -> _PageSection:
    return words_of(metrics_by_page()[page][0].family)[2][page]


@cache
def sources() -> Mapping[str, str]:
    """The literature, by the names that sections call it by."""
    return dict(re.findall(r"^- ([^:]+): (.+)$", page_text("sources"), re.MULTILINE))


def docstring(metric: Metric) -> str:
    """The docstring of the formula of a metric; for a formula passed to a formula, both docstrings."""
    function: Any = metric.evaluate
    parts: list[Any] = []
    while isinstance(function, partial):
        parts += [function.keywords["formula"]] if "formula" in function.keywords else []
        function = function.func
    return "\n\n".join(cleandoc(part.__doc__ or "") for part in (*parts, function))


# --- pages ------------------------------------------------------------------------------------------------------------


def terminal_page(page: str) -> str:
    """What ``evaluation explain PATH`` prints."""
    title, text, _ = words_of(metrics_by_page()[page][0].family)
    stop = "" if title.endswith("?") else "."
    family = f"Family {metrics_by_page()[page][0].family}. {title}{stop} {text}"
    cited = "\n".join(f"- {sources()[name]}" for name in section(page).sources)
    return "\n\n".join(
        [
            f"# {page}",
            definitions(page),
            family,
            "\n".join(f"{name:34}{value}" for name, value in properties(metrics_by_page()[page]).items()),
            f"## Worked example\n\n{HOW_DRAWN}",
            example_text(page),
            f"## Sources\n\n{cited}",
            f"This page: {DOCUMENT}#{anchor(page)}",
        ]
    )


def terminal_index() -> str:
    """The pages with their first sentences, by family; the end of ``evaluation explain``."""
    width = max(map(len, metrics_by_page())) + 2
    return "\n\n".join(
        "\n".join([f"Metrics: {family}", *_summaries(pages_of(family), width)]) for family in METRIC_FAMILIES
    )


def _summaries(pages: Sequence[str], width: int = 0) -> list[str]:
    """A line for each page with its first sentence."""
    width = width or max(map(len, pages)) + 2
    return [f"  {page:{width}}{summary(page)}" for page in pages]


def word_text(word: str) -> str:
    """Explain a word of the field, in upper or lower case: a family, a metric, or several meanings; empty if unknown.

    A word for one metric gives its page; for several metrics a line per metric, and its meanings in papers.
    """
    family = next((name for name in METRIC_FAMILIES if plain_word(name) == plain_word(word)), None)
    pages, rows = pages_of(family) if family else pages_of_word(word), readings_of(word)
    if len(pages) == 1 and not rows:
        return terminal_page(pages[0])
    parts = ["# {}: {}\n\n{}".format(family, *words_of(family))] if family else []
    if rows:
        listed = "\n".join(f"- {row.what}{f' ({row.who})' if row.who else ''}: {row.here}" for row in rows)
        parts.append(f"# {word} in papers\n\n{listed}\n\nThis list: {DOCUMENT}#{anchor(rows[0].heading)}")
    if len(pages) == 1:
        parts.append(terminal_page(pages[0]))
    elif pages:
        parts.append("\n".join(["Pages that 'evaluation explain' prints:", *_summaries(pages)]))
    return "\n\n".join(parts)


def known_words() -> list[str]:
    """All words that ``word_text`` knows."""
    of_pages = [page.rpartition(".")[2] for page in metrics_by_page()]
    of_papers = [name for row in readings() for name in row.names]
    return [*METRIC_FAMILIES, *dict.fromkeys([*of_pages, *of_papers])]


def anchor(heading: str) -> str:
    """The anchor that GitHub and GitLab give a heading.

    >>> anchor("panoptic.per_class.pq"), anchor("detection: were the nuclei found?")
    ('panopticper_classpq', 'detection-were-the-nuclei-found')
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def definitions(page: str, without: Container[str] = ()) -> str:
    """Return the paths of a page and their definitions, except for definitions on other pages."""
    words, metrics = section(page).words, metrics_by_page()[page]
    paths: dict[str, list[str]] = {}
    for metric in metrics:
        if definition(metric) not in without:
            paths.setdefault(definition(metric), []).append(f"`{'.'.join(metric.path)}`")
    if words and len(paths) == 1 and len({definition(metric) for metric in metrics}) == 1:
        paths = {words: next(iter(paths.values()))}
        words = ""
    parts = [text if names == [f"`{page}`"] else f"{', '.join(names)}\n\n{text}" for text, names in paths.items()]
    return "\n\n".join([words, *parts] if words else parts)


def definition(metric: Metric) -> str:
    return docstring(metric).replace("``", "`")


def summary(page: str) -> str:
    """The first sentence, from the first two paragraphs if the first is only a formula."""
    text = section(page).words or docstring(metrics_by_page()[page][0])
    paragraphs = text.split("\n\n")[: 2 if page.startswith("thresholds.") else 1]
    sentences = [re.match(r".*?\.(?=\s|$)", " ".join(paragraph.split())) for paragraph in paragraphs]
    return " ".join(sentence[0] for sentence in sentences if sentence).replace("``", "`")


def example_text(page: str) -> str:
    example = section(page)
    confidence = ", ".join(f"{letter} {value:g}" for letter, value in example.confidence.items())
    parts = (
        f"```text\n{example.picture}\n```",
        confidence and f"Confidence: {confidence}.",
        example.by_hand,
        f"`{example.path}` is {example.gives:g}.",
    )
    return "\n\n".join(filter(None, parts))


def properties(metrics: Sequence[Metric]) -> Mapping[str, str]:
    """Properties declared by the records of a page."""
    first = metrics[0]
    same = [f"`{'.'.join(metric.path)}`" for metric in metrics if metric.symmetric]
    swap = "changes nothing" if len(same) == len(metrics) else "changes it"
    if 0 < len(same) < len(metrics):
        swap = f"changes nothing in {', '.join(same)}, but changes the other metrics"
    return {
        "range": f"{bound(first.lowest)} to {first.limit or bound(first.highest)}",
        "better": BETTER[first.better],
        "unit": first.unit or "none",
        "computed": "pixel-wise" if first.page in PIXEL_WISE else "object-wise",
        **{side: _value_text(value) for side, value in zip(SIDES, astuple(first.empty), strict=True)},
        "points instead of outlines": "undefined: `points-only`" if first.outlines else "the same",
        "one more false negative would": EFFECTS[first.missed],
        "one more false positive would": EFFECTS[first.spurious],
        "swapping reference and prediction": swap,
        "a case that was not submitted": _cost_of_missing(first),
    }


def _value_text(value: str | float | None) -> str:
    """Describe the value of a metric if there is nothing to compare."""
    if value is None:
        return "given by the formula"
    return f"undefined: `{value}`" if value in UNDEFINED_REASONS else str(value)


def bound(value: float | str | None) -> str:
    """Write the end of a range of values, or the worst value, which may be the diagonal of the image."""
    if isinstance(value, str):
        return f"the diagonal of the image, {value[-2:]}"
    return f"{value:g}".replace("inf", "∞").replace("-", "−")


def _cost_of_missing(metric: Metric) -> str:
    """The cost of a missing case, in words."""
    scored = "is scored as if nothing had been found in it"
    if metric.worst is None and not metric.limit:
        return f"{scored}; there is no worst value to penalise"
    worst = metric.limit or bound(metric.worst)
    if metric.counts_missed:
        return f"{scored}; a unit that is undefined for it has {worst}"
    return (
        f"penalised: (1 − m/n) value + (m/n) worst with m of the n cases of a unit missing; the worst value is {worst}"
    )
