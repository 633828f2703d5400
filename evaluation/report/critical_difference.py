"""Critical-difference diagrams: mean ranks on an axis, with a bar over teams that cannot be told apart.

J. Demšar: Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006, figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluation.report.page import Axis, Dot, Figure, Label, Series

BAR_STEP = 0.45  # between two bars, in rows
MARGIN = 0.4  # on either side of the axis, as a share of its length: for the names
ROW_PX = 24


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a team, on a line to its mean rank; ``row`` counts from the top on either side."""

    name: str
    mean_rank: float
    is_left: bool
    row: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from the lowest to the highest mean rank of a clique; bars of a row do not touch."""

    low: float
    high: float
    row: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagram:
    """What is drawn, from the axis down: bars, then names. Lines to names never cross."""

    labels: tuple[Name, ...]
    bars: tuple[Bar, ...]


def lay_out_diagram(mean_ranks: Mapping[str, float], cliques: Sequence[Sequence[str]]) -> Diagram:
    """Positions of names and bars: the better half on the left, the best on top; the worst on top on the right.

    >>> found = lay_out_diagram({"C": 3.0, "A": 1.0, "B": 2.0}, [["A", "B"], ["B", "C"], ["A"]])
    >>> [(label.name, label.is_left, label.row) for label in found.labels]
    [('A', True, 0), ('B', True, 1), ('C', False, 0)]
    >>> [(bar.low, bar.high, bar.row) for bar in found.bars]
    [(1.0, 2.0, 0), (2.0, 3.0, 1)]
    """
    order = sorted(mean_ranks.items(), key=lambda item: (item[1], item[0]))
    left = (len(order) + 1) // 2
    labels = [
        Name(name, mean, index < left, index if index < left else len(order) - 1 - index)
        for index, (name, mean) in enumerate(order)
    ]
    spans = [(sorted(mean_ranks[name] for name in names), tuple(names)) for names in cliques if len(names) > 1]
    ends: list[float] = []  # of the last bar in each row
    bars = []
    for low, high, clique in sorted((ranks[0], ranks[-1], names) for ranks, names in spans):
        row = next((row for row, end in enumerate(ends) if end < low), len(ends))
        ends[row : row + 1] = [high]
        bars.append(Bar(low, high, row, clique))
    return Diagram(tuple(labels), tuple(bars))


def draw_diagram(
    diagram: Diagram, *, anchor: str, caption: str, description: str, critical_difference: float | None
) -> Figure:
    """The diagram as a figure; the axis covers the mean ranks there are, and a whole number at either end."""
    ranks = [label.mean_rank for label in diagram.labels]
    low = int(min(ranks, default=1.0))
    high = max(low + 1, -int(-max(ranks, default=2.0) // 1))
    edge = MARGIN * (high - low)
    first_row = -(1.5 + BAR_STEP * (1 + max((bar.row for bar in diagram.bars), default=-1)))
    bottom = first_row - max((label.row for label in diagram.labels), default=-1) - 0.5
    ticks = range(low, high + 1, -(-(high - low) // 12))
    lines = [line([(low, 0), (high, 0)]), *(line([(tick, 0), (tick, 0.25)]) for tick in ticks)]
    labels = [Label(tick, 0.3, str(tick)) for tick in ticks]
    to_names: list[Dot] = []
    for name in diagram.labels:
        end, row = (low - edge if name.is_left else high + edge), first_row - name.row
        to_names += [Dot(name.mean_rank, 0), Dot(name.mean_rank, row), Dot(end, row), Dot(end, None)]
        words = f"{name.mean_rank:.2f}  {name.name}"
        labels.append(Label(end, row + 0.08, words, "left" if name.is_left else "right"))
    lines += [line([(x, -0.6 - BAR_STEP * bar.row) for x in (bar.low, bar.high)], "@accent", 6) for bar in diagram.bars]
    if critical_difference is not None:  # above the axis; cut where the drawing ends
        end = low + min(critical_difference, high - low + edge)
        lines += [line([(low, 1.3), (low, 1.6), (low, 1.45), (end, 1.45), (end, 1.3), (end, 1.6)])]
        labels.append(Label(low, 1.65, f"critical difference {critical_difference:.2f}", "left"))
    dots = Series("", tuple(Dot(name.mean_rank, 0.0, name.name) for name in diagram.labels), "@ink")
    return Figure(
        anchor,
        caption,
        description,
        (*lines, dots),
        Axis("mean rank", (low - edge, high + edge), hidden=True),
        Axis("row", (bottom, 2.4), hidden=True),
        labels=tuple(labels),
        height=round(ROW_PX * (2.4 - bottom)) + 20,
    )


def line(points: Sequence[tuple[float, float]], colour: str = "@ink", width: float = 1.5) -> Series:
    return Series("", tuple(Dot(x, y) for x, y in points), colour, is_curve=True, width=width)
