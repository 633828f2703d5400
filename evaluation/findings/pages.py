"""The catalogue as text: in the terminal, and as docs/findings.md, which a test keeps equal to it."""

from __future__ import annotations

import re

from evaluation.findings.catalogue import CATALOGUE, PARTS, Page

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
    return re.sub(r"[<*|]|(?<!\w)__", lambda found: "".join(f"\\{character}" for character in found[0]), text)
