"""What is wrong with an input, as data.

A finding has a stable code, a place, what was got, what was expected and what to do; the sentence is rendered from it:
``[code] where: what we got; what we expected. What to do.`` Every code is explained in ``CATALOGUE``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from evaluation.catalogue import CATALOGUE

EXAMPLES_SHOWN = 3
SUMMARY_LIMIT = 1000
PART_LIMIT = 120


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault, or one thing worth knowing, at one place.

    where     the place as its author sees it: file inside the submission, case, key of challenge.toml
    got       what is there, with the value
    expected  the rule that is broken
    fix       what to do about it; a sentence of its own
    count     how many equal faults at this place it stands for
    """

    code: str
    where: str
    got: str
    expected: str
    fix: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        if self.code not in CATALOGUE:
            raise LookupError(f"no page in the catalogue for {self.code!r}")

    @property
    def severity(self) -> Literal["error", "warning"]:
        return CATALOGUE[self.code].severity

    def __str__(self) -> str:
        return render_group([self])


def quote(value: object, limit: int = 60) -> str:
    """A value of a stranger's in quotes, safe to print: no control characters, cut in the middle when long.

    >>> quote("a\\nb\\x1b[31m")
    "'a?b?[31m'"
    """
    text = "".join(character if character.isprintable() else "?" for character in str(value)[: 4 * limit])
    if len(text) > limit:
        text = f"{text[: limit * 2 // 3]}…{text[-limit // 3 :]}"
    return f"'{text}'"


def listed(values: Iterable[object], limit: int = 8) -> str:
    """Values in quotes as a list in words, cut after ``limit``.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    quoted = [quote(value) for value in values]
    if len(quoted) > limit:
        return ", ".join(quoted[:limit]) + f" or one of {len(quoted) - limit:,} more"
    return " or ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """The sentence "Did you mean 'x'?" if a known name is close to what was got, else an empty string."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(got[:200].casefold(), list(by_folded), n=1, cutoff=0.6)
    return f"Did you mean {quote(by_folded[close[0]])}?" if close else ""


def render_group(findings: Sequence[Finding]) -> str:
    """One line for equal faults (same code and expectation): at most three places, and how many more there are."""
    first = findings[0]
    shown = findings[:EXAMPLES_SHOWN]
    more = sum(finding.count for finding in findings) - len(shown)
    if all(finding.got == first.got for finding in shown):
        where, got = ", ".join(finding.where for finding in shown), first.got
        where += f" and {more:,} more" if more else ""
    else:
        also = [f"{finding.where}: {finding.got}" for finding in shown[1:]] + ([f"{more:,} more"] if more else [])
        where, got = first.where, f"{first.got} (also {'; '.join(also)})"
    line = f"[{first.code}] {where}: {got}; expected {first.expected}."
    text = f"{line} {first.fix}".rstrip()
    return "".join(character if character.isprintable() else "?" for character in text)  # names of strangers


def render_findings(findings: Iterable[Finding]) -> list[str]:
    """All findings as lines, equal faults grouped, errors before warnings; the same for any order of the findings."""

    def key(finding: Finding) -> tuple[str, str, str]:
        return finding.severity, finding.code, finding.expected

    ordered = sorted(set(findings), key=lambda finding: (key(finding), finding))
    return [render_group(list(group)) for _, group in groupby(ordered, key)]


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
