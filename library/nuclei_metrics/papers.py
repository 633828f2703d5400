"""What names in papers mean here: the table of papers.md, which the README, ``explain`` and ``value`` read, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from nuclei_metrics.metrics import METRIC_FAMILIES

_NO_NAME = re.compile("(score|coefficient|index|distance)$")  # what papers write behind the name of a metric
_NAMES_IN_FULL = {
    "panopticquality": "pq",
    "segmentationquality": "sq",
    "recognitionquality": "rq",
    "cohenskappa": "kappa",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A row of the table: the meaning of a name in a paper.

    heading  of its table
    names    as papers write them, without tags
    what     is computed
    who      means it, or ""
    here     paths of metrics.json, in the words of the table
    call     a call of this library, or ""
    """

    heading: str
    names: tuple[str, ...]
    what: str
    who: str
    here: str
    call: str

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of metrics.json that contain it."""
        return tuple(path for path in re.findall(r"`([^`]+)`", self.here) if "." in path)


def table_text() -> str:
    """Return the tables of names as Markdown."""
    return resources.files("nuclei_metrics").joinpath("papers.md").read_text("utf-8")


@cache
def readings() -> tuple[Reading, ...]:
    """Return the rows of the tables, in their order."""
    rows, heading, columns = [], "", dict[str, int]()
    for line in table_text().splitlines():
        cells = [_without_tags(cell) for cell in line.strip("| ").split(" | ")]
        if line.startswith("#"):
            heading = line.strip("# ")
        elif line.startswith("| in papers"):
            columns = {name: index for index, name in enumerate(cells)}
        elif line.startswith("| ") and not line.startswith("| ---"):
            names, what, who, here, call = (
                cells[columns[name]] if name in columns and columns[name] < len(cells) else ""
                for name in ("in papers", "what is computed", "who", "path in metrics.json", "call")
            )
            rows.append(Reading(heading, tuple(names.split(", ")), what, who, here, call.strip("`|— ")))
    return tuple(rows)


def readings_of(word: str) -> list[Reading]:
    """Return the rows of a name, whatever its case and signs; the plus of AJI+ counts.

    >>> [row.paths for row in readings_of("m-PQ+")]
    [('panoptic.pq.pooled',)]
    """
    wanted = plain_word(word)
    return [row for row in readings() if wanted in map(plain_word, row.names)]


@cache
def pages_of_word(word: str) -> tuple[str, ...]:
    """Return the pages of the metrics whose name is a word: ``hausdorff`` is segmentation.hausdorff_px and others.

    Where none has the name, it is looked for without "score", "coefficient", "index" or "distance" at its end.

    >>> pages_of_word("AJI"), pages_of_word("Panoptic quality"), pages_of_word("F1-score")[0]
    (('overlap.aji',), ('panoptic.pq', 'panoptic.binary.pq', 'panoptic.per_class.pq'), 'detection.f1')
    """
    wanted = _NAMES_IN_FULL.get(plain_word(word), plain_word(word))
    pages = dict.fromkeys(metric.page for metrics in METRIC_FAMILIES.values() for metric in metrics)
    found = tuple(page for page in pages if wanted in _words_of_page(page))
    shorter = _NO_NAME.sub("", wanted)
    return found or (pages_of_word(shorter) if shorter and shorter != wanted else ())


def meanings_of(word: str) -> Mapping[str, str]:
    """Return what a name can mean: paths of metrics.json, or metrics without aggregation, and what each is.

    >>> list(meanings_of("mPQ+")), list(meanings_of("splits"))
    (['panoptic.pq.pooled'], ['overlap.splits'])
    """
    of_papers = {path: row.what for row in readings_of(word) for path in row.paths if "<" not in path}
    return of_papers or dict.fromkeys(pages_of_word(word), "a metric of this name")


def calls() -> str:
    """Return the table of names and calls of the README."""
    rows = [
        f"| {', '.join(row.names)}{f' ({row.who})' if row.who else ''} | `{row.call}` |"
        for row in readings()
        if row.call
    ]
    return "\n".join(["| in papers | call |", "| --- | --- |", *rows])


def _without_tags(text: str) -> str:
    """
    >>> _without_tags("F1<sub>agg</sub><sup>0.5</sup>")
    'F1agg0.5'
    """
    return re.sub("</?su[bp]>", "", text)


def plain_word(word: str) -> str:
    """Strip a word of case, spaces and signs, which papers write as they like; the plus of AJI+ stays.

    >>> plain_word("AP@0.5"), plain_word("mPQ+"), plain_word("F_d")
    ('ap05', 'mpq+', 'fd')
    """
    return re.sub(r"[^\w+]|_", "", word.casefold())


def _words_of_page(page: str) -> set[str]:
    name = page.rpartition(".")[2]
    parts = name, re.sub("_(px|um)$", "", name), re.sub("_(at|range)$", "", name), page
    return set(map(plain_word, parts))
