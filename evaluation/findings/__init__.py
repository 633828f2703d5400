"""The faults of an input, as data: findings, the words and pages of their codes; ``errors`` carry them.

A finding has a stable code, a place, and data. The message with found, expected and fix is rendered from the data:
``[code] where: what we got; what we expected. What to do.`` The words of each code are in ``findings.toml``: its page
and its wordings, which ``fault`` fills with the data. ``Finding.for_folders`` renders them for another audience.

In: nothing; every room may import this room. Out: ``fault`` creates a ``Finding``; sentences are built from findings.
"""

from __future__ import annotations

import difflib
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from string import Formatter
from typing import Any, Literal, TypeVar

FAULTS_NAMED = 20  # more of a kind are counted, not listed
SUMMARY_LIMIT = 400  # characters of a summary: some 300 for a fault
EXAMPLES_SHOWN = 3
_TEXT_CHARACTERS = 1000  # of a text in the data of a finding; wordings show less

Severity = Literal["error", "warning"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A fault or a fact at one place.

    where     the place as its author sees it: file inside the submission, case, key of challenge.toml
    got       the content, with the value
    expected  the broken rule
    fix       the remedy, as a sentence
    count     number of equal faults
    named     number of places in ``where``
    wording   the wording of the code, "" for the default
    data      what ``fault`` needs to word it again: numbers, texts and tuples of them
    side      "reference" if the fault is in a file of the reference
    trace     the traceback of an unexpected exception, for the log
    """

    code: str
    where: str
    got: str
    expected: str
    fix: str = ""
    count: int = 1
    named: int = 1
    wording: str = field(default="", compare=False, repr=False)
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    side: str = field(default="", compare=False, repr=False)
    trace: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        entry(self.code)

    @property
    def severity(self) -> Severity:
        return "warning" if entry(self.code).get("severity") == "warning" else "error"

    def __str__(self) -> str:
        return _render_group([self])

    def for_folders(self) -> Finding:
        """Return the finding in the words for somebody who compares folders and has no challenge."""
        audience = {"folders": True, "of_reference": self.side == "reference"}
        with suppress(AttributeError, LookupError, TypeError, ValueError):  # of data from a decoder
            words = fault(self.code, self.where, wording=self.wording, **{**self.data, **audience})
            return replace(self, got=words.got, expected=words.expected, fix=words.fix)
        return self

    def advised(self, words: str) -> Finding:
        """Return the finding with further words behind its remedy."""
        further = f"{self.data.get('further', '')} {words}".strip()
        return replace(self, fix=f"{self.fix} {words}".strip(), data={**self.data, "further": further})


def fault(
    code: str,
    *where: str,
    wording: str = "",
    total: int | None = None,
    got: str | None = None,
    expected: str | None = None,
    fix: str | None = None,
    further: str = "",
    **data: Any,
) -> Finding:
    """The finding of a code at one or more places (the first three are named), in one of its wordings.

    total               number of equal faults, if not one per place
    got, expected, fix  texts that the wording leaves to the caller, or better texts
    further             words behind the remedy
    data                values for the wording

    >>> fault("unknown-class", "'a.xml', region 1", name="Lymphocytes", known=["epithelial", "lymphocyte"]).fix
    "Did you mean 'lymphocyte'?"
    """
    named, given = where[:EXAMPLES_SHOWN], {"got": got, "expected": expected, "fix": fix}
    templates = zip(given.values(), wording_of(code, wording), strict=True)
    texts = [(render(text, data) if own is None else own).strip() for own, text in templates]
    count = len(where) if total is None else total
    plain = {key: _plain(value) for key, value in data.items()} | {key: text for key, text in given.items() if text}
    finding = Finding(code, _join_places(named), texts[0], texts[1], texts[2], count, len(named), wording, plain)
    return finding.advised(further) if further else finding


def _plain(value: object) -> Any:
    """Return a value as a process can send it: a text that is not too long, a number, or a tuple of such values."""
    if getattr(value, "ndim", 1) == 0:  # a number of numpy
        value = value.item()  # type: ignore[attr-defined]
    if value is None or isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    if isinstance(value, Collection) and not isinstance(value, str):
        return tuple(map(_plain, value))
    return str(value[:_TEXT_CHARACTERS]) if isinstance(value, str) else quote(value)[1:-1]


def _render_group(findings: Sequence[Finding], examples: int = EXAMPLES_SHOWN) -> str:
    """One line for equal faults (same code and expectation): some places, and the number of further places."""
    first = findings[0]
    shown = findings[:examples]
    more = sum(finding.count for finding in findings) - sum(finding.named for finding in shown)
    if all(finding.got == first.got for finding in shown):
        where, got = _join_places([finding.where for finding in shown]), first.got
        where += f" and {more:,} more" if more else ""
    else:
        also = [f"{finding.where}: {finding.got}" for finding in shown[1:]] + ([f"{more:,} more"] if more else [])
        where, got = first.where, f"{first.got} (also {'; '.join(also)})"
    line = f"[{first.code}] {where}: {got}; expected {first.expected}."
    text = f"{line} {first.fix}".rstrip()
    return "".join(character if character.isprintable() else "?" for character in text)  # names are untrusted input


def render_findings(findings: Iterable[Finding]) -> list[str]:
    """All findings as lines, equal faults grouped, errors before warnings; the same for any order of the findings."""

    return [_render_group(group) for group in _grouped(findings)]


def _grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return equal faults together: errors before warnings, codes in alphabetical order."""

    def key(finding: Finding) -> tuple[str, str, str]:
        return finding.severity, finding.code, finding.expected

    ordered = sorted(set(findings), key=lambda finding: (key(finding), _natural_order(finding.where), finding))
    return [[*group] for _, group in groupby(ordered, key)]


def render_briefly(findings: Iterable[Finding], **data: Any) -> list[str]:
    """The fault, a phrase per code: ``brief`` of the code, otherwise the first ``got``.

    data  values for phrases, besides ``count``
    """
    phrases = []
    ordered = sorted(set(findings), key=lambda finding: (finding.code, _natural_order(finding.where), finding))
    for code, group in groupby(ordered, lambda finding: finding.code):
        first, *others = group
        count = sum(finding.count for finding in (first, *others))
        more = f" (and {count - first.count:,} more)" if others else ""
        brief = entry(code).get("brief")
        phrases.append(render(brief, {**data, "count": count}) if brief else first.got + more)
    return phrases


def _natural_order(text: str) -> list[tuple[int, str]]:
    """A sort key that compares numbers after a blank as numbers.

    >>> sorted(["line 10", "line 9"], key=_natural_order)
    ['line 9', 'line 10']
    """
    parts = re.split("(?<= )([0-9]+)", text)  # every second one is a number; the longer one is larger
    return [(len(part) if index % 2 else 0, part) for index, part in enumerate(parts)]


def render_summary(findings: Iterable[Finding], *, intro: str, rest: str = "see the lines above") -> str:
    """One line of at most 400 characters: the intro, the most important fault, and how many more there are.

    findings.toml defines the order of importance: faults of the whole submission, then of single files. A fault that is
    too long names one place only, then long names in it are cut in the middle. A fault that is still too long is cut,
    and the line shows whether it is complete.

    rest  where further faults are reported
    """
    groups = _grouped(finding for finding in findings if finding.severity == "error")
    if not groups:
        return intro
    order = list(texts())
    first = min(groups, key=lambda group: order.index(group[0].code))
    more = f" And {counted(len(groups) - 1, 'more kind')} of problem: {rest}." if len(groups) > 1 else ""
    room = SUMMARY_LIMIT - len(intro) - len(more) - 1
    one = _render_group(first, examples=1)
    short = _QUOTED.sub(lambda match: quote(match[1], _SHORT_NAME), one)
    line = next((line for line in (_render_group(first), one, short) if len(line) <= room), None)
    if line is None:
        more = more or f" And details: {rest}."
        line = f"{short[: SUMMARY_LIMIT - len(intro) - len(more) - 3].rpartition(' ')[0]} …"
    return f"{intro} {line}{more}"


_QUOTED = re.compile(r"(?<![^\s(])'([^']+)'")
_SHORT_NAME = 40  # characters


def for_each(items: Sequence[T], finding: Callable[[T], Finding]) -> list[Finding]:
    """A finding for each of the first items; the last finding also counts the rest."""
    return with_rest([finding(item) for item in items[:FAULTS_NAMED]], len(items))


def first_named_of(findings: Sequence[Finding]) -> list[Finding]:
    """The first findings; the last finding also counts the rest."""
    return with_rest(list(findings[:FAULTS_NAMED]), sum(finding.count for finding in findings))


def with_rest(named: list[Finding], total: int) -> list[Finding]:
    """The named findings; the last finding also counts the rest of ``total`` equal faults."""
    rest = total - sum(finding.count for finding in named)
    return [*named[:-1], replace(named[-1], count=named[-1].count + rest)] if rest else named


# --- findings.toml ----------------------------------------------------------------------------------------------------


FILE = Path(__file__).with_name("findings.toml")


@cache
def texts() -> dict[str, str]:
    """Return the tables of findings.toml by code."""
    parts = re.split(r"^(?=\[[a-z0-9-]+\]$)", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part[1 : part.index("]")]: part for part in parts[1:]}


@cache
def entry(code: str) -> Mapping[str, Any]:
    """The page of a code, its usual wording, and tables of the rest. Raises LookupError if there is no such code."""
    if code not in texts():
        raise LookupError(f"no finding has the code {code!r}")
    table: Mapping[str, Any] = tomllib.loads(texts()[code])[code]
    return table


@cache
def wording_of(code: str, wording: str) -> tuple[str, str, str]:
    """Found, expected and fix, as templates; "" for texts left to the caller.

    Raises LookupError if there is no such wording.
    """
    usual = entry(code)
    words = {**usual, **(usual[wording] if wording else {})}
    got, expected, fix = (_on_one_line(words.get(key, "")) for key in ("got", "expected", "fix"))
    return got, expected, fix


def _on_one_line(text: str) -> str:
    """Return a text of findings.toml without its line breaks."""
    return " ".join(text.split())


# --- words ------------------------------------------------------------------------------------------------------------


def quote(value: object, limit: int = 60) -> str:
    """A value from a file in quotes, safe to print: no control characters, cut in the middle when long.

    An apostrophe in it becomes a typographic one, so that it cannot end the quotation.

    >>> quote("a\\nb\\x1b[31m")
    "'a?b?[31m'"
    """
    try:
        whole = str(value)
    except ValueError:  # whole numbers of thousands of digits
        whole = f"a {type(value).__name__} too large to be written"
    text = whole[: 4 * limit]
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "?" for character in text)
    if len(text) > limit:
        text = f"{text[: limit * 2 // 3]}…{text[-limit // 3 :]}"
    return "'" + text.replace("'", "’") + "'"


def shell_command(*words: str | Path) -> str:
    """Return a command line for a shell, each word quoted; "" if a word has a character that cannot be printed.

    >>> shell_command("evaluation", "convert", Path("-a;b.png"), "OUTPUT")
    "evaluation convert './-a;b.png' OUTPUT"
    """
    texts = [f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word) for word in words]
    return shlex.join(texts) if all(map(str.isprintable, texts)) else ""


def listed(values: Iterable[object], limit: int = 8, *, last: str = "or") -> str:
    """Values in quotes as a list in words, cut after ``limit``; ``last`` is before the last of them.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    known = list(values)
    quoted = [quote(value) for value in known[:limit]]
    if len(known) > limit:
        return ", ".join(quoted) + f" {last} one of {len(known) - limit:,} more"
    return f" {last} ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))


def _first_named(values: Sequence[object], limit: int = 60) -> str:
    """The first three values in quotes, and the number of further values; ``limit``: characters per value.

    >>> _first_named(["a", "b", "c", "d"])
    "'a', 'b', 'c' and 1 more"
    """
    more = len(values) - EXAMPLES_SHOWN
    named = ", ".join(quote(value, limit) for value in values[:EXAMPLES_SHOWN])
    return f"{named} and {more:,} more" if more > 0 else named


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """The sentence "Did you mean 'x'?" if a known name is close to ``got``, otherwise an empty string."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(got[:200].casefold(), list(by_folded), n=1, cutoff=0.6)
    return f"Did you mean {quote(by_folded[close[0]])}?" if close else ""


def counted(number: int, one: str, many: str = "") -> str:
    """A number with the words that agree with it; without ``many`` an s is added.

    >>> counted(1, "nucleus is", "nuclei are"), counted(1200, "nucleus is", "nuclei are"), counted(0, "team")
    ('1 nucleus is', '1,200 nuclei are', '0 teams')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float | None, digits: int = 0) -> str:
    """A share in percent; only exactly 1 is "100%", and only exactly 0 is "0%".

    >>> percent(1.0), percent(0.9995), percent(0.99), percent(0.25), percent(0.004), percent(0.0), percent(None)
    ('100%', '> 99%', '99%', '25%', '< 1%', '0%', '–')
    >>> percent(1.0, 1), percent(0.9995, 1), percent(0.25, 1), percent(0.0004, 1)
    ('100%', '> 99.9%', '25.0%', '< 0.1%')
    """
    if share is None or share in (0, 1):
        return "–" if share is None else f"{100 * share:.0f}%"
    least = 0.1**digits
    if not least <= 100 * share <= 100 - least:
        return f"> {100 - least:.{digits}f}%" if share > 0.5 else f"< {least:.{digits}f}%"
    return f"{100 * share:.{digits}f}%"


def _join_places(places: Sequence[str]) -> str:
    """Places in words; a common part before the last comma is written once.

    >>> _join_places(["'a.xml', region 1", "'a.xml', region 2", "'b.xml', region 1"])
    "'a.xml', region 1, region 2, 'b.xml', region 1"
    """
    words, before = [], None
    for place in places:
        outer, comma, inner = place.rpartition(", ")
        is_whole = inner.count("'") % 2 == 0  # the comma does not stand inside a name
        words.append(inner if comma and outer == before and is_whole else place)
        before = outer
    return ", ".join(words)


# --- wordings ---------------------------------------------------------------------------------------------------------


WORDS: dict[str, Callable[..., str]] = {
    "quoted": quote,
    "listed": listed,
    "joined": partial(listed, last="and"),
    "named": _first_named,
}


class _Templates(Formatter):
    """``str.format`` of data by name; a collection used as a number means its size.

    ``{name:quoted}``, ``{name:quoted 120}``     a value from a file, safe to print
    ``{known:listed}``, ``{known:listed 20}``    quoted names, with "or" before the last
    ``{twice:joined}``                           the same with "and"
    ``{names:named}``                            the first three, and the number of further names
    ``{known:first}``                            the first, in quotes
    ``{known:closest {name}}``                   "Did you mean 'x'?", if a known name is close to the name
    ``{count:nucleus has/nuclei have}``          the first for 1, otherwise the second
    ``{names:if , among {names:listed}|}``       the text before the bar if there are any, otherwise the text after it
    ``{folders:if the image|the case}``          the first text in comparisons of folders, otherwise the second
    ``{of_reference:if --ignore 1|}``            the same for faults of the reference there

    >>> render("{count:,} {count:nucleus/nuclei}{names:if  of {names:joined}|}", {"count": 1, "names": ["a", "b"]})
    "1 nucleus of 'a' and 'b'"
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        word, _, rest = format_spec.partition(" ")
        if word in WORDS:
            return WORDS[word](value, *map(int, rest.split()))
        if word == "first":
            return quote(next(iter(value), ""))
        if word == "closest":
            return did_you_mean(rest, value)
        if word == "if":
            yes, _, no = rest.rpartition("|")
            return yes if value else no
        if isinstance(value, Collection) and format_spec and not isinstance(value, str):
            value = len(value)
        one, is_plural, many = format_spec.partition("/")
        return (one if value == 1 else many) if is_plural else format(value, format_spec)


def render(template: str, data: Mapping[str, Any]) -> str:
    """Return a template filled with its data, for comparisons of folders if they contain ``folders``.

    Raises KeyError for data that are lacking.
    """
    no_positions: Sequence[Any] = ()
    return _Templates().vformat(template, no_positions, {"folders": False, "of_reference": False, **data})


# --- the pages of codes: in the terminal, and as docs/findings.md, which a test keeps equal to them -------------------


@dataclass(frozen=True, slots=True)
class _CodePage:
    """The explanation of a code: meaning, reason, remedy, and an example line.

    part      the heading of the code in lists
    severity  its effect on the run, in words
    """

    title: str
    why: str
    what_to_do: str
    example: str
    part: str
    severity: str

    @property
    def meaning(self) -> str:
        if self.severity == "error":
            return "An error. Nothing is scored until it is corrected."
        return "A warning. Scoring continues. Check whether it is intended."


@cache
def catalogue() -> dict[str, _CodePage]:
    """The page of every code, in the order of the file."""
    keys = ("title", "why", "what_to_do", "example", "part", "severity")
    return {code: _CodePage(**{key: _on_one_line(entry(code).get(key, "error")) for key in keys}) for code in texts()}


def codes_by_part() -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for code, page in catalogue().items():
        parts.setdefault(page.part, []).append(code)
    return parts


CODES_DOCUMENT = "docs/findings.md"


def code_page(code: str) -> str:
    """What ``evaluation explain CODE`` prints."""
    page = catalogue()[code]
    return (
        f"{code}: {page.title}.\n\n{page.meaning}\n\nWhy: {page.why}\n\nWhat to do: {page.what_to_do}\n\n"
        f"Example:\n  {page.example}\n\nThis page: {CODES_DOCUMENT}#{code}"
    )


def code_index() -> str:
    """What ``evaluation explain`` prints: all codes with their titles, part by part."""
    width = max(map(len, catalogue())) + 2
    return "\n\n".join(
        "\n".join([part, *(f"  {code:{width}}{catalogue()[code].title}" for code in codes)])
        for part, codes in codes_by_part().items()
    )
