"""What is wrong with an input, as data.

A finding has a stable code, a place, what was got, what was expected and what to do; the sentence is rendered from it:
``[code] where: what we got; what we expected. What to do.`` The words of each code stand in ``findings.toml``: its page
and its wordings, which ``fault`` fills with the data of one fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal, TypeVar

from evaluation.findings.entries import entry, wording_of
from evaluation.findings.templates import render
from evaluation.findings.words import EXAMPLES_SHOWN, join_places

FAULTS_NAMED = 20  # more of a kind are counted, not listed
SUMMARY_LIMIT = 1000

Severity = Literal["error", "warning"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault, or one thing worth knowing, at one place.

    where     the place as its author sees it: file inside the submission, case, key of challenge.toml
    got       what is there, with the value
    expected  the rule that is broken
    fix       what to do about it; a sentence of its own
    count     how many equal faults it stands for
    named     how many places ``where`` names
    """

    code: str
    where: str
    got: str
    expected: str
    fix: str = ""
    count: int = 1
    named: int = 1

    def __post_init__(self) -> None:
        entry(self.code)

    @property
    def severity(self) -> Severity:
        return "warning" if entry(self.code).get("severity") == "warning" else "error"

    def __str__(self) -> str:
        return render_group([self])


def fault(
    code: str,
    *where: str,
    wording: str = "",
    total: int | None = None,
    got: str | None = None,
    expected: str | None = None,
    fix: str | None = None,
    **data: Any,
) -> Finding:
    """The finding of a code at one place or more, of which the first three are named, in one of its wordings.

    total               how many equal faults it stands for, if not one at each place
    got, expected, fix  what the wording leaves to the caller, or says less well
    data                what the wording is filled with

    >>> fault("unknown-class", "'a.xml', region 1", name="Lymphocytes", known=["epithelial", "lymphocyte"]).fix
    "Did you mean 'lymphocyte'?"
    """
    named, said = where[:EXAMPLES_SHOWN], (got, expected, fix)
    templates = zip(said, wording_of(code, wording), strict=True)
    texts = [render(text, data) if own is None else own for own, text in templates]
    return Finding(
        code, join_places(named), texts[0], texts[1], texts[2], len(where) if total is None else total, len(named)
    )


def render_group(findings: Sequence[Finding]) -> str:
    """One line for equal faults (same code and expectation): at most three places, and how many more there are."""
    first = findings[0]
    shown = findings[:EXAMPLES_SHOWN]
    more = sum(finding.count for finding in findings) - sum(finding.named for finding in shown)
    if all(finding.got == first.got for finding in shown):
        where, got = join_places([finding.where for finding in shown]), first.got
        where += f" and {more:,} more" if more else ""
    else:
        also = [f"{finding.where}: {finding.got}" for finding in shown[1:]] + ([f"{more:,} more"] if more else [])
        where, got = first.where, f"{first.got} (also {'; '.join(also)})"
    line = f"[{first.code}] {where}: {got}; expected {first.expected}."
    text = f"{line} {first.fix}".rstrip()
    return "".join(character if character.isprintable() else "?" for character in text)  # names are untrusted input


def render_findings(findings: Iterable[Finding]) -> list[str]:
    """All findings as lines, equal faults grouped, errors before warnings; the same for any order of the findings."""

    def key(finding: Finding) -> tuple[str, str, str]:
        return finding.severity, finding.code, finding.expected

    ordered = sorted(set(findings), key=lambda finding: (key(finding), natural_order(finding.where), finding))
    return [render_group(list(group)) for _, group in groupby(ordered, key)]


def natural_order(text: str) -> list[tuple[int, str]]:
    """A key by which numbers behind a blank are sorted as numbers.

    >>> sorted(["line 10", "line 9"], key=natural_order)
    ['line 9', 'line 10']
    """
    parts = re.split("(?<= )([0-9]+)", text)  # every second one is a number; the longer one is larger
    return [(len(part) if index % 2 else 0, part) for index, part in enumerate(parts)]


def render_summary(findings: Iterable[Finding], *, intro: str) -> str:
    """One line of at most 1,000 characters: the intro, then as many lines of findings as fit, then how many do not."""
    lines = render_findings(finding for finding in findings if finding.severity == "error")
    summary = intro
    for index, line in enumerate(lines):
        remaining = len(lines) - index - 1
        tail = f" (and {remaining} more kinds of problem)" if remaining else ""
        room = SUMMARY_LIMIT - len(summary) - len(tail) - 1
        if len(line) > room:
            if index == 0:
                return f"{summary} {line[: room - 1]}…{tail}"
            return f"{summary} (and {remaining + 1} more kinds of problem)"
        if len(summary) + 1 + len(line) + 40 > SUMMARY_LIMIT and remaining:
            return f"{summary} {line}{tail}"
        summary = f"{summary} {line}"
    return summary


def for_each(items: Sequence[T], finding: Callable[[T], Finding]) -> list[Finding]:
    """A finding for each of the first items; the last of them also stands for the rest."""
    return with_rest([finding(item) for item in items[:FAULTS_NAMED]], len(items))


def with_rest(named: list[Finding], total: int) -> list[Finding]:
    """The findings that are named; the last one also stands for the rest of ``total`` equal faults."""
    rest = total - sum(finding.count for finding in named)
    return [*named[:-1], replace(named[-1], count=named[-1].count + rest)] if rest else named
