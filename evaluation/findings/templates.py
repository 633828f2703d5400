"""Wordings are templates of ``str.format``, with some more words behind the colon."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from string import Formatter
from typing import Any

from evaluation.findings.words import did_you_mean, first_named, listed, quote

WORDS: dict[str, Callable[..., str]] = {
    "quoted": quote,
    "listed": listed,
    "joined": partial(listed, last="and"),
    "named": first_named,
}


class Templates(Formatter):
    """``str.format`` of data by name; a collection stands for the number of its members where a number is written.

    ``{name:quoted}``, ``{name:quoted 120}``     a value from a file, safe to print
    ``{known:listed}``, ``{known:listed 20}``    quoted names, with "or" before the last
    ``{twice:joined}``                           the same with "and"
    ``{names:named}``                            the first three, and how many more there are
    ``{known:first}``                            the first, in quotes
    ``{known:closest {name}}``                   "Did you mean 'x'?", if one of them is close to the name
    ``{count:nucleus has/nuclei have}``          the first for 1, else the second
    ``{names:if , among {names:listed}|}``       the text before the bar if there are any, else the text behind it

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
    """A template with the data that it names. Raises KeyError for what is lacking."""
    no_positions: Sequence[Any] = ()
    return Templates().vformat(template, no_positions, data)
