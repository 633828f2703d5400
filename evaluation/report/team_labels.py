"""Names of teams on pages: printable, short enough, and different from each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evaluation.findings import quote

NAME_UP_TO = 60  # characters of a name in tables and sentences
LABEL_UP_TO = 20  # characters of a name beside a plot


def label_teams(names: Sequence[str]) -> list[str]:
    """Names that fit beside a plot, all different, so that no two teams share a row.

    >>> label_teams(["finder", "a" * 98, "a" * 99])
    ['finder', 'aaaaaaaaaaaaa…aaaaaaa #1', 'aaaaaaaaaaaaa…aaaaaaa #2']
    """
    short = [write_name(name, LABEL_UP_TO) for name in names]
    times, seen, taken = Counter(short), Counter[str](), set(short)
    labels = []
    for name in short:
        label = name
        while times[name] > 1 and label in taken:
            seen[name] += 1
            label = f"{name} #{seen[name]}"
        taken.add(label)
        labels.append(label)
    return labels


def write_name(name: str, limit: int = NAME_UP_TO) -> str:
    """A name without control characters, cut in the middle when long."""
    return quote(name, limit)[1:-1]


def name_some(names: Sequence[str], limit: int = 3) -> str:
    """Names in a sentence: "A", "A and B", "A, B and 7 more".

    >>> name_some(["A", "B", "C", "D", "E"])
    'A, B, C and 2 more'
    """
    found = [write_name(name) for name in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(found)} and {len(names) - limit:,} more"
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
