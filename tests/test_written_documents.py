"""The documents of docs/ that are written from the program: findings.md and metrics.md.

``./test.sh tests/test_written_documents.py --renew-golden`` renews them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import pytest

from evaluation.findings import catalogue, codes_by_part
from evaluation.findings.metric_pages import (
    BETTER,
    anchor,
    bound,
    definition,
    definitions,
    metrics_by_page,
    page_text,
    pages_of,
    section,
    words_of,
)
from nuclei_metrics.metrics import METRIC_FAMILIES
from nuclei_metrics.metrics.metric import Effect, Metric
from nuclei_metrics.model import UNDEFINED_REASONS
from nuclei_metrics.papers import table_text

EFFECT_WORDS: Mapping[Effect, str] = {"worse": "worse", "none": "same", "either": "either"}
PROPERTIES_HEAD = """\
| metric | range | better | both empty | no prediction | no reference | no match | + FN | + FP | symmetric | points |
|---|---|---|---|---|---|---|---|---|---|---|"""
LONG = 60  # letters of a paragraph that is not repeated
_EMPTY = r'"(?:no-instances|no-reference|no-prediction)"'
IN_TABLE = re.compile(  # values of empty sides
    rf'(?:0 if one side is empty; undefined|Undefined) {_EMPTY}(?:[^.";(]|{_EMPTY}|"points-only"|\([^)]*\))*\.'
    r"|Undefined if nothing matched\."
)


def metrics_document() -> str:
    """Return docs/metrics.md: overview, names in papers, and of each family its definitions and a table of properties.

    A worked example and the rest of the properties are on the page that ``evaluation explain`` prints.
    """
    names = re.sub(r"(?m)^(\|.*) \|[^|\n]*\|$", r"\1 |", table_text().strip())  # calls: in the library's README
    parts = [page_text("overview").strip(), names]
    for family in METRIC_FAMILIES:
        title, text, _ = words_of(family)
        shared = _shared_definitions(family)
        parts += [f"## {family}: {title[0].lower()}{title[1:]}", text]
        parts += [f"- {', '.join(paths)}: {' '.join(definition.split())}" for definition, paths in shared.items()]
        parts.append(_table_of_properties(family))
        cited = dict.fromkeys(source for page in pages_of(family) for source in section(page).sources)
        parts.append(f"Sources: {', '.join(cited)}.")
        seen: dict[str, str] = {}
        for page in pages_of(family):
            parts += [f"### {page}", *_new_paragraphs(page, definitions(page, without=shared), seen)]
    return "\n\n".join([*parts, page_text("sources").strip().replace("# Sources", "## Sources")]) + "\n"


def _shared_definitions(family: str) -> dict[str, list[str]]:
    """Return the definitions that many pages of a family have, with their paths, in which the page is a placeholder."""
    found: dict[str, list[str]] = {}
    pages: dict[str, set[str]] = {}
    for page in pages_of(family):
        for metric in metrics_by_page()[page]:
            text = definition(metric)
            found.setdefault(text, []).append(f"`{_general_name(metric)}`")
            pages.setdefault(text, set()).add(page)
    return {text: list(dict.fromkeys(paths)) for text, paths in found.items() if len(pages[text]) > 3}


def _new_paragraphs(page: str, text: str, seen: dict[str, str]) -> list[str]:
    """Return the paragraphs of a page without what is on earlier pages (but a link) or in its row of the table."""
    new, earlier = list[str](), dict[str, None]()
    for part in text.split("\n\n"):
        paragraph = " ".join(IN_TABLE.sub("", " ".join(part.split())).split())
        if not paragraph:
            continue
        if seen.setdefault(paragraph, page) == page or len(paragraph) < LONG:
            new.append(paragraph)
        else:
            earlier[seen[paragraph]] = None
    return [*new, *(f"See [{_short(other)}](#{anchor(other)})." for other in earlier)]


def _general_name(metric: Metric) -> str:
    """Return the path of a metric with a placeholder for what its page measures.

    >>> _general_name(METRIC_FAMILIES["segmentation"][0])
    'segmentation.<measure>'
    """
    return ".".join(metric.path).replace(metric.page.rpartition(".")[2], "<measure>")


def _table_of_properties(family: str) -> str:
    """Return a row for each set of properties in a family: range, values of empty sides, effect of errors."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for page in pages_of(family):
        rows.setdefault(_row_of_properties(metrics_by_page()[page]), []).append(page)
    lines = [
        f"| {', '.join(f'[{_short(page)}](#{anchor(page)})' for page in of)} | {' | '.join(row)} |"
        for row, of in rows.items()
    ]
    return "\n".join([PROPERTIES_HEAD, *lines])


def _short(page: str) -> str:
    return page.partition(".")[2]


def _row_of_properties(metrics: Sequence[Metric]) -> tuple[str, ...]:
    first = metrics[0]
    sides = (
        "formula" if value is None else "–" if value in UNDEFINED_REASONS else str(value)
        for value in astuple(first.empty)
    )
    symmetric = {metric.symmetric for metric in metrics}
    unit = f" {first.unit}" if first.unit else ""
    return (
        f"{bound(first.lowest)} to {first.limit or bound(first.highest)}{unit}",
        f"{BETTER[first.better]}",
        *sides,
        EFFECT_WORDS[first.missed],
        EFFECT_WORDS[first.spurious],
        "partly" if len(symmetric) == 2 else "yes" if first.symmetric else "no",
        "no" if first.outlines else "yes",
    )


def codes_document() -> str:
    """docs/findings.md: a section for each code, by part of the catalogue, errors before warnings."""
    sections = [
        "# Messages",
        "A message reads `[code] where: found; expected. Fix.` Identical messages are combined into one line with "
        "up to three places and a count. Errors stop scoring until they are corrected; after a warning, scoring "
        "continues. `evaluation explain CODE` prints a section, and what to do.",
    ]
    for part, codes in codes_by_part().items():
        sections.append(f"## {_markdown_text(part)}")
        for code in sorted(codes, key=lambda code: (catalogue()[code].severity, code)):
            page = catalogue()[code]
            warning = " (warning)" if page.severity == "warning" else ""
            sections += [
                f"### `{code}`",
                f"**{_markdown_text(page.title)}**{warning}. {_markdown_text(page.why)}",
                f"```text\n{page.example}\n```",
            ]
    return "\n\n".join(sections) + "\n"


def _markdown_text(text: str) -> str:
    """Plain text for Markdown, where '<', '*' and '__' would vanish.

    >>> _markdown_text("'<!DOCTYPE …>', '*.mat' and __MACOSX")
    "'\\\\<!DOCTYPE …>', '\\\\*.mat' and \\\\_\\\\_MACOSX"
    """
    return re.sub(r"[<*|]|(?<!\w)__", lambda match: "".join(f"\\{character}" for character in match[0]), text)


DOCUMENTS = {"findings.md": codes_document, "metrics.md": metrics_document}
DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_written_from_the_program_is_what_lies_in_docs(name: str, pytestconfig: pytest.Config) -> None:
    text = DOCUMENTS[name]()
    if pytestconfig.getoption("--renew-golden"):
        (DOCS / name).write_text(text)
    assert (DOCS / name).read_text() == text
