"""The pages of the metrics: in the terminal, and as docs/metrics, which a test keeps equal to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import get_args

from evaluation.authoring.handbook.examples import EXAMPLES
from evaluation.authoring.handbook.situations import SITUATIONS, WHAT_WHEN, says
from evaluation.authoring.handbook.sources import sources_of
from evaluation.metrics.registry import FAMILIES, STANDARD_RANGE, Effect, Metric, metrics_of
from evaluation.model import AGGREGATIONS, STRATUM_MEAN, Measure, MetricChoice

FOLDER = "docs/metrics"
CHOICE = MetricChoice(
    FAMILIES,
    ("<class>",),
    measures=get_args(Measure),
    class_groups={"<grouping>": {"<group>": (1,)}},
    iou_thresholds=STANDARD_RANGE,
    false_positives=(10, 20, 50),
    per="mm2",
    class_probabilities=True,
    coverage=0.5,
    distance_cap_px=10,
    distance_cap_um=2.5,
)
FAMILY_TEXTS: Mapping[str, tuple[str, str]] = {
    "detection": (
        "Were the nuclei found?",
        "tp matched pairs, fp spurious predictions, fn missed nuclei. Of a class: a pair is a true positive if both "
        "sides have the class; a pair with two classes is a false positive of one and a false negative of the other.",
    ),
    "classification": (
        "Were those that were found named right?",
        "M is the confusion matrix of the matched pairs, rows reference, columns prediction; N is M with each row "
        "divided by its sum, which takes the frequency of the classes out. A grouping of classes adds up their rows "
        "and columns first. Under a class-aware matching rule all is undefined (`class-aware-matching`): pairs of "
        "unequal classes were never matched.",
    ),
    "segmentation": (
        "Were those that were found outlined right?",
        "Of every matched pair, whatever class was predicted: A and B are the areas of reference and prediction, I "
        "what they share, U = A + B - I. The boundary of a nucleus is its pixels with a 4-neighbour outside it; "
        "whether the border of the image counts as outside is the rule `metrics.boundary`. Distances in um are "
        "undefined (`no-spacing`) where a case has no spacing. Nuclei that are points have no outlines "
        "(`points-only`), only a distance of centroids.",
    ),
    "panoptic": (
        "Finding, naming and outlining in one number",
        "PQ = SQ * RQ mixes three skills: read it beside the others. iou_sum is the sum of the IoU of the true "
        "positives. Of a class: a pair is a true positive if both sides have the class. A class counts in a unit if "
        "it occurs on either "
        'side, or, with `aggregation.class_present = "reference"`, in the reference.',
    ),
    "covered": (
        "How good is the better half, and are the classes found?",
        "The best share of the reference nuclei counts, the rule `metrics.coverage` of them, rounded up to whole "
        "nuclei; missed ones have the worst value: 0, or the rule `metrics.distance_cap_px` (`_um`), which is also the "
        "most that a pair can cost. Leaving nuclei out never raises it. Copies of nuclei can, where predictions may "
        "overlap: rank with a floor on F1 beside it (`[ranking] require`). The curve over all coverages is in "
        "details.json.",
    ),
    "overall": (
        "Outlines and classes over all nuclei",
        "The sum over pairs divided by pairs + missed + spurious, missed and spurious ones at the worst: 0, or the "
        "rule `metrics.distance_cap_px` (`_um`), which is also the most that a pair can cost. For IoU that is SQ times "
        "the threat score, a relative of PQ: it mixes finding and outlining, so that several of them in one ranking "
        "rebuild PQ. Where an IoU above 1/2 or more decides and the nuclei of each side are disjoint, leaving out a "
        "right prediction or adding a spurious one never raises it. Overlapping predictions can: a second one with a "
        "higher IoU takes the place of the first.",
    ),
    "thresholds": (
        "Detection at a row of IoU thresholds",
        "Matched anew at each threshold, by an IoU strictly above it, whatever the matching rules of the challenge. "
        "0.5, 0.55, … 0.95 is `iou50_95` in a path, other lists are written out, `iou30_50_70`; one threshold is "
        "`iou50`.",
    ),
    "curves": (
        "What becomes of precision and recall as the confidence falls",
        "Only these are average precision. Predictions enter in order of falling probability, those of equal "
        "probability together; R_k and P_k are recall and precision after the k-th probability. Which prediction "
        "found which nucleus was decided before, by the matching rule (for `coco_…` by the assignment of COCO). "
        "Undefined (`no-probability`) if a prediction has no probability.",
    ),
    "overlap": (
        "How well the pixels agree, whatever the matching rule",
        "Classes are ignored. G_i are the reference nuclei and P_j the predicted ones of a case; partners are looked "
        "for inside a case, and the sums add up over cases.",
    ),
    "objects": (
        "The scores of GlaS 2015",
        "Classes are ignored. G_i are the reference objects and S_j the segmented ones of a case; best(S_j) is the "
        "G_i that shares the most pixels with S_j, best(G_i) the S_j that shares the most with G_i.",
    ),
    "counting": (
        "Is the number of nuclei right?",
        "In each case t reference nuclei and p predictions of a class. Where they lie does not matter.",
    ),
}
EFFECTS: Mapping[Effect, str] = {
    "worse": "make it worse, or leave it as it is",
    "none": "change nothing",
    "either": "may make it worse or better",
}
BETTER = {"higher": "higher", "lower": "lower", "one": "nearer to 1"}
HOW_DRAWN = (
    "Reference on the left, prediction on the right; every letter is a nucleus, small ones lymphocytes, "
    "capitals tumor cells."
)


@cache
def metrics_by_page() -> Mapping[str, list[Metric]]:
    """The metrics of every page, with ``<class>`` and ``<grouping>`` for names."""
    pages: dict[str, list[Metric]] = {}
    for metric in metrics_of(CHOICE, class_aware=False):
        pages.setdefault(metric.page, []).append(metric)
    return pages


def page_of(name: str) -> str | None:
    """The page of a metric by its name or by a path of metrics.json, with or without aggregation; None if none has it.

    >>> page_of("panoptic.per_class.Lymphocyte.pq.group_mean"), page_of("thresholds.f1_iou50_95"), page_of("pq")
    ('panoptic.per_class.pq', 'thresholds.f1_range', None)
    """
    if name in metrics_by_page():
        return name
    return pages_by_path().get(general_path(name.split(".")))


@cache
def pages_by_path() -> Mapping[str, str]:
    return {general_path(metric.path): page for page, metrics in metrics_by_page().items() for metric in metrics}


def general_path(keys: Sequence[str]) -> str:
    """A path without what a challenge chooses: class, grouping, thresholds, rates, matching rule and aggregation."""
    keys = keys[2:] if keys[0] == "alternatives" else keys
    keys = [key for index, key in enumerate(keys) if index == 0 or keys[index - 1] not in ("per_class", "grouped")]
    if keys and keys[-1] in (*AGGREGATIONS, STRATUM_MEAN):
        keys = keys[:-1]
    path = re.sub(r"_at_[0-9_e+]+_per_(image|mm2)$", "_at", ".".join(keys))
    found = re.search(r"_iou(\d+)(?:_(\d+))?((?:_\d+)*)$", path)
    if found is None:
        return path
    first, second, more = found.groups()
    is_range = bool(more) or (second is not None and int(second) > int(first))  # iou72_5 is one threshold, 0.725
    return path[: found.start()] + ("_iou<range>" if is_range else "_iou<threshold>")


# --- texts ------------------------------------------------------------------------------------------------------------


def terminal_page(page: str) -> str:
    """What ``evaluation explain PATH`` prints."""
    return f"{page_text(page)}\nThis page: {FOLDER}/{page}.md"


def terminal_index() -> str:
    """The pages with the first sentence of each, family by family; the end of ``evaluation explain``."""
    width = max(map(len, metrics_by_page())) + 2
    return "\n\n".join(
        "\n".join([f"Metrics: {family}", *(f"  {page:{width}}{plain(summary(page))}" for page in pages_of(family))])
        for family in FAMILIES
    )


def documents() -> dict[str, str]:
    """The files of docs/metrics in Markdown: a page for each metric, and README.md, which lists them."""
    pages = {f"{page}.md": f"{page_text(page)}\n[All metrics](README.md)\n" for page in metrics_by_page()}
    return {"README.md": index(), **pages}


def page_text(page: str) -> str:
    """A page in Markdown."""
    metrics = metrics_by_page()[page]
    title, text = FAMILY_TEXTS[metrics[0].family]
    stop = "" if title.endswith("?") else "."
    parts = [
        f"# {page}",
        definitions(metrics),
        f"Family {metrics[0].family}. {title}{stop} {text}",
        properties(metrics),
        "## What it says when",
        situation_table(page),
        "## Worked example",
        example(page),
        "## Sources",
        "\n".join(f"- {source}" for source in sources_of(page)),
    ]
    return "\n\n".join(parts) + "\n"


def definitions(metrics: Sequence[Metric]) -> str:
    """The paths of a page, and the definition of each; paths with one definition together."""
    paths: dict[str, list[str]] = {}
    for metric in metrics:
        paths.setdefault(metric.definition(), []).append(".".join(metric.path))
    common = shared_beginning(list(paths))
    parts = [f"{listed(of)}\n\n{plain(definition.removeprefix(common))}" for definition, of in paths.items()]
    return "\n\n".join([*([plain(common).strip()] if common else []), *parts])


def shared_beginning(definitions: Sequence[str]) -> str:
    """The first paragraph if several definitions have it in common."""
    first = definitions[0].partition("\n\n")[0] + "\n\n"
    return first if len(definitions) > 1 and all(text.startswith(first) for text in definitions) else ""


def listed(paths: Sequence[str]) -> str:
    shown = paths if len(paths) < 4 else [paths[0], "…", paths[-1]]
    return ", ".join(path if path == "…" else f"`{path}`" for path in shown)


def plain(docstring: str) -> str:
    """A docstring as Markdown."""
    return docstring.replace("``", "`")


def summary(page: str) -> str:
    """The first sentence, of the paragraph that tells the most."""
    metrics = metrics_by_page()[page]
    family = metrics[0].family
    paragraphs = metrics[0].definition().split("\n\n")
    sentences = [
        re.match(r".*?\.(?=\s|$)", " ".join(text.split())) for text in paragraphs[: 2 if family == "thresholds" else 1]
    ]
    return " ".join(plain(sentence[0]) for sentence in sentences if sentence)


def properties(metrics: Sequence[Metric]) -> str:
    """What the registry declares of a page, as a table."""
    first = metrics[0]
    symmetric = {metric.symmetric for metric in metrics}
    swap = "changes nothing" if symmetric == {True} else "changes it"
    if len(symmetric) > 1:
        same = listed([".".join(metric.path) for metric in metrics if metric.symmetric])
        swap = f"changes nothing in {same}, but changes the others"
    rows = {
        "range": f"{bound(first.lowest)} to {bound(first.highest)}",
        "better": BETTER[first.better],
        "unit": " or ".join(dict.fromkeys(metric.unit for metric in metrics)) or "none",
        "one more missed nucleus would": effect_of(first.missed),
        "one more spurious nucleus would": effect_of(first.spurious),
        "swapping reference and prediction": swap,
        "a case that was not submitted": cost_of_missing(first),
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows.items())])


def effect_of(effect: Effect) -> str:
    return EFFECTS[effect]


def bound(value: float) -> str:
    return f"{value:g}".replace("inf", "∞").replace("-", "−")


def cost_of_missing(metric: Metric) -> str:
    """What a missing case costs, in words."""
    scored = "is scored as if nothing had been found in it"
    if metric.worst is None:
        return f"{scored}; there is no worst value to penalise"
    worst = f"the diagonal of the image, {metric.worst[-2:]}" if isinstance(metric.worst, str) else bound(metric.worst)
    if metric.counts_missed:
        return f"{scored}; a unit that is undefined for it has {worst}"
    return (
        f"penalised: (1 − m/n) value + (m/n) worst with m of the n cases of a unit missing; the worst value is {worst}"
    )


def situation_table(page: str) -> str:
    """What the metrics of a page say in each situation, for the class lymphocyte."""
    paths = [path for path in WHAT_WHEN if page_of(path) == page]
    rows = [
        f"| {situation.title.partition(':')[0]} | {' | '.join(told(says(path, name)) for path in paths)} |"
        for name, situation in SITUATIONS.items()
    ]
    head = f"| [situation](README.md#situations) | {' | '.join(f'`{path}`' for path in paths)} |"
    return "\n".join([head, f"| --- |{' --- |' * len(paths)}", *rows])


def told(word: str) -> str:
    return f"`{word}`" if word[-1].isalpha() else word


def example(page: str) -> str:
    of = EXAMPLES[page]
    return f"{HOW_DRAWN}\n\n{of.by_hand}\n\n```python\n{of.doctest()}\n```"


# --- the index --------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# Metrics, page by page

The paths are those of `metrics.json`, without the aggregation at their end. [What is measured](../metrics.md) tells
how cases become groups and data sets, what an undefined value means and what a missing case costs.
`evaluation explain PATH` prints the page of a path.

## How published notation is written here

Hirling and others (Nature Methods 21, 2024) found five or six meanings each of "AP" and of "mAP" in use, and ask for
names that say what was computed: the score, the IoU thresholds, and whether counts are aggregated over the data set or
scores are averaged over images. A path says the same: `pooled` is their agg, `case_mean` their avg.

| in text | path |
| --- | --- |
| TS<sub>agg</sub><sup>0.5:0.05:0.95</sup> | `thresholds.threat_score_iou50_95.pooled` |
| TS<sub>avg</sub><sup>0.5:0.05:0.95</sup> | `thresholds.threat_score_iou50_95.case_mean` |
| F1<sub>agg</sub><sup>0.5</sup> | `thresholds.f1_iou50.pooled` |
| F1<sub>avg</sub><sup>0.5</sup> | `thresholds.f1_iou50.case_mean` |
| AP, the area under the precision-recall curve | `curves.average_precision.pooled` |
| AP at 101 recalls | `curves.average_precision_101.pooled` |
| mAP, its mean over classes | `curves.mean_average_precision.pooled` |
| mAP of COCO, over classes and IoU thresholds | `curves.coco_map_iou50_95.pooled` |
| PQ, SQ, RQ of one class | `panoptic.per_class.<class>.pq.pooled` and so on |
| mPQ+ (CoNIC) | `panoptic.pq.pooled` |
| mPQ (PanNuke) | `panoptic.pq.stratum_mean`, with unit `case` and tissues as strata |
| bPQ (PanNuke) | `panoptic.binary.pq.stratum_mean`, likewise |
| F<sub>d</sub>, F<sub>c</sub> (HoVer-Net) | `detection.f1.pooled`, `detection.per_class.<class>.f_c.pooled` |

What published codes call "average precision" and compute as tp / (tp + fp + fn) is the threat score. AP and mAP stand
for areas under a curve and nothing else.
"""
SITUATION_TEXT = f"""\
## Situations

What the tables on the pages say was worked out by hand from these drawings, and a test compares all of it with the
program. {HOW_DRAWN} `#` is an ignore region.

The paths are those of the class lymphocyte, pooled. A pair matches above an IoU of 1/2, points within 1 px; the
thresholds are 0.5 and 0.75, the tolerance is 1 px, a pixel has 0.5 um, the border of the image is outside of every
nucleus, and FROC is read at 1/4 and 1/2 false positives per image. The confidence of a prediction is the probability of
its class, too."""


def index() -> str:
    """The list of all pages in Markdown, family by family, and the situations."""
    parts = [INTRODUCTION.rstrip()]
    for family in FAMILIES:
        title, text = FAMILY_TEXTS[family]
        rows = [f"- [{page}]({page}.md): {plain(summary(page))}" for page in pages_of(family)]
        parts += [f"## {family}: {title[0].lower()}{title[1:]}", text, "\n".join(rows)]
    parts.append(SITUATION_TEXT)
    for situation in SITUATIONS.values():
        confidence = ", ".join(f"{letter} {value:g}" for letter, value in situation.confidence.items())
        told_by = f"\n\nConfidence: {confidence}." if confidence else ""
        parts.append(f"**{situation.title}.**{told_by}\n\n```text\n{situation.picture.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def pages_of(family: str) -> Iterable[str]:
    return [page for page, metrics in metrics_by_page().items() if metrics[0].family == family]
