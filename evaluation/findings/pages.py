"""The catalogue as text: in the terminal, and as docs/findings.md, which a test keeps equal to it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evaluation.findings.finding import Severity, entry, on_one_line, texts

DOCUMENT = "docs/findings.md"
MEANING = {
    "error": "Nothing is scored or written until it is corrected.",
    "warning": "Scoring goes on. Check whether it is meant.",
}


def terminal_page(code: str) -> str:
    """What ``evaluation explain CODE`` prints."""
    page = CATALOGUE[code]
    return (
        f"{code}: {page.title}.\n\n{meaning(page)}\n\nWhy: {page.why}\n\nWhat to do: {page.fix}\n\n"
        f"Example:\n  {page.example}\n\nThis page: {DOCUMENT}#{code}"
    )


def terminal_index() -> str:
    """What ``evaluation explain`` prints: all codes with their titles, part by part."""
    width = max(map(len, CATALOGUE)) + 2
    parts = [
        "\n".join([name, *(f"  {code:{width}}{page.title}" for code, page in pages.items())])
        for name, pages in PARTS.items()
    ]
    return "\n\n".join(parts)


def document() -> str:
    """docs/findings.md: a section for each code, by part of the catalogue, errors before warnings."""
    sections = [
        "# What the program finds, code by code",
        "Every message has the form `[code] where: what we got; what we expected. What to do.` The code in square "
        "brackets has a section here; `evaluation explain CODE` prints the same. Equal faults come in one line, with "
        "up to three places and how many more there are.",
    ]
    for name, pages in PARTS.items():
        sections.append(f"## {escaped(name)}")
        ordered = sorted(pages, key=lambda code: (list(MEANING).index(pages[code].severity), code))
        sections += [markdown_section(code) for code in ordered]
    return "\n\n".join(sections) + "\n"


def markdown_section(code: str) -> str:
    """The section of a code in Markdown."""
    page = CATALOGUE[code]
    return (
        f"### `{code}`\n\n**{escaped(page.title)}.** {meaning(page)}\n\n{escaped(page.why)}\n\n"
        f"What to do: {escaped(page.fix)}\n\n```text\n{page.example}\n```"
    )


def meaning(page: Page) -> str:
    """What the severity of a code means."""
    return f"{'An error' if page.severity == 'error' else 'A warning'}. {MEANING[page.severity]}"


def escaped(text: str) -> str:
    """Plain text for Markdown, where '<', '*' and '__' would vanish.

    >>> escaped("'<!DOCTYPE …>', '*.mat' and __MACOSX")
    "'\\\\<!DOCTYPE …>', '\\\\*.mat' and \\\\_\\\\_MACOSX"
    """
    return re.sub(r"[<*|]|(?<!\w)__", lambda match: "".join(f"\\{character}" for character in match[0]), text)


# --- the catalogue ----------------------------------------------------------------------------------------------------


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
