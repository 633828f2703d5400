"""docs/metrics: the page of each metric, what it is in every situation, and README.md, which lists them.

``pytest tests/test_metric_pages.py --renew-golden`` writes them.
"""

from __future__ import annotations

from situations import SITUATIONS, WHAT_WHEN, says

from evaluation.metrics.pages import HOW_DRAWN, metrics_by_page, page_of, page_text, pages_of, summary
from evaluation.metrics.registry import METRIC_FAMILIES

INTRODUCTION = """\
# Metrics, page by page

The paths are those of `metrics.json`, without the aggregation at their end. [What is measured](../metrics.md) says
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

The tables on the pages were worked out by hand from these drawings, and a test compares all of it with the program.
{HOW_DRAWN} `#` is an ignore region.

The paths are those of the class lymphocyte, pooled. A pair matches above an IoU of 1/2, points within 1 px; the
thresholds are 0.5 and 0.75, the tolerance is 1 px, a pixel has 0.5 um, the border of the image is outside of every
nucleus, and FROC is read at 1/4 and 1/2 false positives per image. The confidence of a prediction is the probability of
its class, too."""


def documents() -> dict[str, str]:
    """The files of docs/metrics in Markdown, by name."""
    pages = {
        f"{page}.md": f"{page_text(page)}\n{situation_table(page)}\n\n[All metrics](README.md)\n"
        for page in metrics_by_page()
    }
    return {"README.md": index(), **pages}


def situation_table(page: str) -> str:
    """What the metrics of a page are in each situation, for the class lymphocyte."""
    paths = [path for path in WHAT_WHEN if page_of(path) == page]
    rows = [
        f"| {situation.title.partition(':')[0]} | {' | '.join(shown(says(path, name)) for path in paths)} |"
        for name, situation in SITUATIONS.items()
    ]
    head = f"| [situation](README.md#situations) | {' | '.join(f'`{path}`' for path in paths)} |"
    return "\n".join(["## In every situation", "", head, f"| --- |{' --- |' * len(paths)}", *rows])


def shown(word: str) -> str:
    return f"`{word}`" if word[-1].isalpha() else word


def index() -> str:
    """The list of all pages, family by family, and the situations."""
    parts = [INTRODUCTION.rstrip()]
    for family in METRIC_FAMILIES.values():
        rows = [f"- [{page}]({page}.md): {summary(page)}" for page in pages_of(family.name)]
        title = family.title[0].lower() + family.title[1:]
        parts += [f"## {family.name}: {title}", family.text, "\n".join(rows)]
    parts.append(SITUATION_TEXT)
    for situation in SITUATIONS.values():
        confidence = ", ".join(f"{letter} {value:g}" for letter, value in situation.confidence.items())
        given = f"\n\nConfidence: {confidence}." if confidence else ""
        parts.append(f"**{situation.title}.**{given}\n\n```text\n{situation.picture.strip()}\n```")
    return "\n\n".join(parts) + "\n"
