"""Every code a finding can have, explained: ``evaluation explain CODE`` and docs/findings.md show these pages.

An example is the line as it is printed. Codes are stable: they are never renamed, only retired.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.findings.entries import entry, on_one_line, texts
from evaluation.findings.finding import Severity


@dataclass(frozen=True, slots=True)
class Page:
    """What is explained about a code: what it means, why it matters, what to do, and how the line looks."""

    title: str
    why: str
    fix: str
    example: str
    severity: Severity = "error"


def page(code: str) -> Page:
    """The page of a code."""
    words = entry(code)
    title, why, fix, example = (on_one_line(words[key]) for key in ("title", "why", "what_to_do", "example"))
    return Page(title, why, fix, example, words.get("severity", "error"))


CATALOGUE: dict[str, Page] = {code: page(code) for code in texts()}
PARTS: dict[str, dict[str, Page]] = {
    part: {code: each for code, each in CATALOGUE.items() if entry(code)["part"] == part}
    for part in dict.fromkeys(entry(code)["part"] for code in CATALOGUE)
}
