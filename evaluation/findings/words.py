"""Words for messages: values of a participant's file in quotes, lists, suggestions, places."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

EXAMPLES_SHOWN = 3


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
    text = "".join(character if character.isprintable() else "?" for character in whole[: 4 * limit])
    if len(text) > limit:
        text = f"{text[: limit * 2 // 3]}…{text[-limit // 3 :]}"
    return "'" + text.replace("'", "’") + "'"


def listed(values: Iterable[object], limit: int = 8, *, last: str = "or") -> str:
    """Values in quotes as a list in words, cut after ``limit``; ``last`` stands before the last of them.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    known = list(values)
    quoted = [quote(value) for value in known[:limit]]
    if len(known) > limit:
        return ", ".join(quoted) + f" {last} one of {len(known) - limit:,} more"
    return f" {last} ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))


def first_named(values: Sequence[object], limit: int = 60) -> str:
    """The first three values in quotes, and how many more there are; ``limit``: characters of each.

    >>> first_named(["a", "b", "c", "d"])
    "'a', 'b', 'c' and 1 more"
    """
    more = len(values) - EXAMPLES_SHOWN
    named = ", ".join(quote(value, limit) for value in values[:EXAMPLES_SHOWN])
    return f"{named} and {more:,} more" if more > 0 else named


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """The sentence "Did you mean 'x'?" if a known name is close to what was got, else an empty string."""
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
    """A share in percent; only a true one is "100 %", and only a true zero "0 %".

    >>> percent(1.0), percent(0.9995), percent(0.99), percent(0.25), percent(0.004), percent(0.0), percent(None)
    ('100 %', '> 99 %', '99 %', '25 %', '< 1 %', '0 %', '–')
    >>> percent(1.0, 1), percent(0.9995, 1), percent(0.25, 1), percent(0.0004, 1)
    ('100 %', '> 99.9 %', '25.0 %', '< 0.1 %')
    """
    if share is None or share in (0, 1):
        return "–" if share is None else f"{100 * share:.0f} %"
    least = 0.1**digits
    if not least <= 100 * share <= 100 - least:
        return f"> {100 - least:.{digits}f} %" if share > 0.5 else f"< {least:.{digits}f} %"
    return f"{100 * share:.{digits}f} %"


def join_places(places: Sequence[str]) -> str:
    """Places in words; what stands before the last comma is said once.

    >>> join_places(["'a.xml', region 1", "'a.xml', region 2", "'b.xml', region 1"])
    "'a.xml', region 1, region 2, 'b.xml', region 1"
    """
    words, before = [], None
    for place in places:
        outer, comma, inner = place.rpartition(", ")
        is_whole = inner.count("'") % 2 == 0  # the comma does not stand inside a name
        words.append(inner if comma and outer == before and is_whole else place)
        before = outer
    return ", ".join(words)
