"""Critical-difference diagrams: mean ranks on an axis, with a bar over teams that cannot be told apart.

J. Demšar: Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006, figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.report.page import Figure

BAR_STEP = 0.45  # between two bars, in rows
MARGIN = 0.36  # on either side of the axis, as a share of its length: for the names
ROW_PX = 24


@dataclass(frozen=True, slots=True)
class Label:
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

    labels: tuple[Label, ...]
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
        Label(name, mean, index < left, index if index < left else len(order) - 1 - index)
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

    def end_of(label: Label) -> float:
        return low - edge if label.is_left else high + edge

    ticks = range(low, high + 1, -(-(high - low) // 12))
    traces: list[Mapping[str, Any]] = [
        segments([[(low, 0), (high, 0)], *([(tick, 0), (tick, 0.25)] for tick in ticks)], "@ink", 1.5),
        words([(tick, 0.3, str(tick)) for tick in ticks], "top center"),
        segments(
            [
                [(of.mean_rank, 0), (of.mean_rank, first_row - of.row), (end_of(of), first_row - of.row)]
                for of in diagram.labels
            ],
            "@muted",
            1,
        ),
    ]
    for is_left, position in ((True, "top right"), (False, "top left")):
        chosen = [of for of in diagram.labels if of.is_left == is_left]
        names = [(end_of(of), first_row - of.row, f"{of.mean_rank:.2f}  {of.name}") for of in chosen]
        traces.append(words(names, position))
    dots = [(of.mean_rank, 0.0, f"{of.name}\nmean rank: {of.mean_rank}") for of in diagram.labels]
    traces.append(pointed(dots, {"size": 8, "color": "@ink"}, name="mean rank", mode="markers"))
    for bar in diagram.bars:
        hover = f"cannot be told apart:\n{', '.join(bar.names)}"
        points = [(x, -0.6 - BAR_STEP * bar.row, hover) for x in (bar.low, bar.high)]
        thick = {"color": "@accent", "width": 6.0}
        marker = {"size": 6, "color": "@accent"}
        traces.append(pointed(points, marker, name="cannot be told apart", mode="lines+markers", line=thick))
    if critical_difference is not None:  # above the axis; cut where the drawing ends
        end = low + min(critical_difference, high - low + edge)
        traces += [
            segments([[(low, 1.3), (low, 1.6)], [(low, 1.45), (end, 1.45)], [(end, 1.3), (end, 1.6)]], "@ink", 1.5),
            words([(low, 1.6, f"critical difference {critical_difference:.2f}")], "top right"),
        ]
    hidden = {"visible": False, "fixedrange": True}
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {**hidden, "range": [low - edge, high + edge]},
        "yaxis": {**hidden, "range": [bottom, 2.2]},
    }
    return Figure(anchor, caption, description, tuple(traces), layout, round(ROW_PX * (2.2 - bottom)) + 60)


def segments(lines: Sequence[Sequence[tuple[float, float]]], colour: str, width: float) -> dict[str, Any]:
    """Lines through points (x, y), each apart from the next."""
    points: list[tuple[float | None, float | None]] = []
    for line in lines:
        points += [*line, (None, None)]
    xs, ys = [x for x, _ in points[:-1]], [y for _, y in points[:-1]]
    stroke = {"color": colour, "width": width}
    return {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": stroke, "hoverinfo": "skip"}


def words(texts: Sequence[tuple[float, float, str]], position: str) -> dict[str, Any]:
    x, y, text = ([of[index] for of in texts] for index in range(3))
    return {"type": "scatter", "mode": "text", "x": x, "y": y, "text": text, "textposition": position,
            "hoverinfo": "skip"}  # fmt: skip


def pointed(points: Sequence[tuple[float, float, str]], marker: dict[str, Any], **trace: Any) -> dict[str, Any]:
    """Marks that say something when they are pointed at."""
    x, y, text = ([of[index] for of in points] for index in range(3))
    return {"type": "scatter", "x": x, "y": y, "marker": marker, "hovertext": text, "hoverinfo": "text", **trace}
