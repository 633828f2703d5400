"""Figures from series of dots, and their numbers as a table. ``svg.py`` draws them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.findings import percent
from evaluation.report.page import Axis, Dot, Figure, Label, Series
from evaluation.report.shown import shown_number

BOX_FROM = 5  # fewer values are points on a line: quartiles of four values say nothing
NUMBERS_ROWS = 100
PLAIN = Axis()


def series_colour(index: int) -> str:
    """The colour of the class or team at a position; there are eight.

    >>> series_colour(0), series_colour(8)
    ('@1', '@1')
    """
    return f"@{index % 8 + 1}"


def shorten(text: str, limit: int = 24) -> str:
    """A text cut in the middle, so that names that begin or end alike are still told apart.

    >>> shorten("a very long name of a team, version 2")
    'a very long nam…ersion 2'
    """
    return text if len(text) <= limit else f"{text[: limit * 2 // 3 - 1]}…{text[-(limit // 3) :]}"


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def plot(
    anchor: str,
    caption: str,
    description: str,
    series: Sequence[Series],
    *,
    x: Axis = PLAIN,
    y: Axis = PLAIN,
    horizontal: bool = False,
    height: int | None = None,
    labels: Sequence[Label] = (),
) -> Figure:
    """Series on two axes, as high as they need. ``horizontal`` lays everything down."""
    names = unique(str(dot.x) for one in series for dot in one.dots)
    height = height or (min(110 + 30 * len(names), 2400) if horizontal else 340)
    return Figure(anchor, caption, description, tuple(series), x, y, horizontal, tuple(labels), height)


def in_tenths(share: float) -> str:
    """A share in percent with a decimal, if it has one.

    >>> in_tenths(0.5), in_tenths(0.125), in_tenths(0.9996)
    ('50 %', '12.5 %', '> 99.9 %')
    """
    return percent(share, 1).replace(".0 %", " %")


def rank_discs(
    anchor: str,
    caption: str,
    description: str,
    teams: Sequence[str],
    shares: Sequence[Mapping[float, float]],
    *more: Series,
) -> Figure:
    """A disc for each team and rank, its area in proportion to the share of the bootstrap samples that gave it."""
    discs = tuple(
        Dot(team, rank, f"in {in_tenths(share)} of the bootstrap samples", size=share)
        for team, of_team in zip(teams, shares, strict=True)
        for rank, share in sorted(of_team.items())
        if share
    )
    last = max((rank for of_team in shares for rank in of_team), default=1)
    axis = Axis("rank", (0.5, last + 0.5), is_whole=True)
    return plot(anchor, caption, description, [Series("", discs, kind="discs"), *more], y=axis, horizontal=True)


# --- the numbers of a plot --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a plot as a table, for those who do not see it: texts, and where each row leads ("#anchor")."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    links: tuple[str, ...]
    left_out: int


def tabulate(figure: Figure) -> Numbers:
    """The marks of a plot, row by row."""
    marks, links = [], []
    for one in figure.series:
        for dot in () if one.is_curve else one.dots:
            if dot.y is not None:
                interval = "" if dot.low is None else f"{shown_number(dot.low)} to {shown_number(dot.high)}"
                note = "; ".join(filter(None, (dot.text.replace("\n", "; "), interval)))
                marks.append((one.name, shown_number(dot.x), shown_number(dot.y), note))
                links.append(f"#{dot.anchor}" if dot.anchor else "")
    kept = [index for index in range(4) if any(mark[index] for mark in marks)]
    if len({mark[0] for mark in marks}) == 1 or all(mark[0] in mark[1:3] for mark in marks):
        kept = [index for index in kept if index]
    titles = ["Series", *(getattr(figure, along).title or "Name" for along in ("x", "y")), "Note"]
    rows = tuple(tuple(mark[index] for index in kept) for mark in marks[:NUMBERS_ROWS])
    return Numbers(tuple(titles[index] for index in kept), rows, tuple(links[:NUMBERS_ROWS]), len(marks) - len(rows))
