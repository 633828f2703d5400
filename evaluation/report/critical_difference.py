"""Critical-difference diagrams: mean ranks on an axis, with a bar over teams that cannot be told apart.

J. Demšar: Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006, figure 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.report.page import Figure

BAR_STEP = 0.45  # between two bars, in rows
MARGIN = 0.36  # on either side of the axis, as a share of its length: for the names
TICKS_UP_TO = 12
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

    @property
    def bar_rows(self) -> int:
        return 1 + max((bar.row for bar in self.bars), default=-1)

    @property
    def label_rows(self) -> int:
        return 1 + max((label.row for label in self.labels), default=-1)


def lay_out_diagram(mean_ranks: Mapping[str, float], cliques: Sequence[Sequence[str]]) -> Diagram:
    """Places of names and bars: the better half on the left, the best on top; the worst on top on the right.

    >>> found = lay_out_diagram({"C": 3.0, "A": 1.0, "B": 2.0}, [["A", "B"], ["B", "C"], ["A"]])
    >>> [(label.name, label.is_left, label.row) for label in found.labels]
    [('A', True, 0), ('B', True, 1), ('C', False, 0)]
    >>> [(bar.low, bar.high, bar.row) for bar in found.bars]
    [(1.0, 2.0, 0), (2.0, 3.0, 1)]
    """
    order = sorted(mean_ranks.items(), key=lambda item: (item[1], item[0]))
    left = (len(order) + 1) // 2
    labels = [
        Label(name, mean, place < left, place if place < left else len(order) - 1 - place)
        for place, (name, mean) in enumerate(order)
    ]
    spans = sorted(
        (min(mean_ranks[name] for name in names), max(mean_ranks[name] for name in names), tuple(names))
        for names in cliques
        if len(names) > 1
    )
    ends: list[float] = []  # of the last bar in each row
    bars = []
    for low, high, names in spans:
        row = next((row for row, end in enumerate(ends) if end < low), len(ends))
        ends[row : row + 1] = [high]
        bars.append(Bar(low, high, row, names))
    return Diagram(tuple(labels), tuple(bars))


def draw_diagram(
    diagram: Diagram, *, anchor: str, caption: str, description: str, critical_difference: float | None
) -> Figure:
    """The diagram as a figure; names as they shall be shown."""
    low, high = 1.0, max(2.0, float(len(diagram.labels)))
    edge = MARGIN * (high - low)
    first_row = -(1.5 + BAR_STEP * diagram.bar_rows)
    traces = [
        *axis_traces(low, high),
        *label_traces(diagram, low - edge, high + edge, first_row),
        *bar_traces(diagram),
    ]
    if critical_difference is not None:
        traces += difference_traces(low, min(critical_difference, high - low + edge), critical_difference)
    bottom = first_row - diagram.label_rows + 0.5
    hidden = {"visible": False, "fixedrange": True}
    return Figure(
        anchor=anchor,
        caption=caption,
        description=description,
        traces=tuple(traces),
        layout={
            "showlegend": False,
            "hovermode": "closest",
            "xaxis": {**hidden, "range": [low - edge, high + edge]},
            "yaxis": {**hidden, "range": [bottom, 2.2]},
        },
        height=round(ROW_PX * (2.2 - bottom)) + 60,
    )


def axis_traces(low: float, high: float) -> list[dict[str, Any]]:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**9) if (high - low) / step <= TICKS_UP_TO)
    ticks = [tick for tick in range(math.ceil(low), math.floor(high) + 1) if tick == low or tick % step == 0]
    xs: list[float | None] = [low, high]
    ys: list[float | None] = [0.0, 0.0]
    for tick in ticks:
        xs += [None, tick, tick]
        ys += [None, 0.0, 0.25]
    return [
        line_trace(xs, ys, "@ink", 1.5),
        {
            "type": "scatter",
            "mode": "text",
            "x": ticks,
            "y": [0.3] * len(ticks),
            "text": [str(tick) for tick in ticks],
            "textposition": "top center",
            "hoverinfo": "skip",
        },
    ]


def label_traces(diagram: Diagram, left: float, right: float, first_row: float) -> list[dict[str, Any]]:
    """A line from each mean rank down and out to the name, the names, and dots on the axis that tell the number."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for label in diagram.labels:
        xs += [label.mean_rank, label.mean_rank, left if label.is_left else right, None]
        ys += [0.0, first_row - label.row, first_row - label.row, None]
    texts = [
        {
            "type": "scatter",
            "mode": "text",
            "x": [left if is_left else right for _ in chosen],
            "y": [first_row - label.row for label in chosen],
            "text": [f"{label.mean_rank:.2f}  {label.name}" for label in chosen],
            "textposition": "top right" if is_left else "top left",
            "hoverinfo": "skip",
        }
        for is_left in (True, False)
        if (chosen := [label for label in diagram.labels if label.is_left == is_left])
    ]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "mean rank",
        "x": [label.mean_rank for label in diagram.labels],
        "y": [0.0] * len(diagram.labels),
        "marker": {"size": 8, "color": "@ink"},
        "hovertext": [f"{label.name}\nmean rank: {label.mean_rank}" for label in diagram.labels],
        "hoverinfo": "text",
    }
    return [line_trace(xs, ys, "@muted", 1.0), *texts, dots]


def bar_traces(diagram: Diagram) -> list[dict[str, Any]]:
    """One trace for each clique, thick."""
    return [
        {
            **line_trace([bar.low, bar.high], [-0.6 - BAR_STEP * bar.row] * 2, "@accent", 6.0),
            "mode": "lines+markers",
            "marker": {"size": 6, "color": "@accent"},
            "name": "cannot be told apart",
            "hovertext": [f"cannot be told apart:\n{', '.join(bar.names)}"] * 2,
            "hoverinfo": "text",
        }
        for bar in diagram.bars
    ]


def difference_traces(low: float, length: float, critical_difference: float) -> list[dict[str, Any]]:
    """How far apart two mean ranks must be, above the axis; cut where the drawing ends."""
    end = low + length
    return [
        line_trace(
            [low, low, None, low, end, None, end, end], [1.3, 1.6, None, 1.45, 1.45, None, 1.3, 1.6], "@ink", 1.5
        ),
        {
            "type": "scatter",
            "mode": "text",
            "x": [low],
            "y": [1.6],
            "text": [f"critical difference {critical_difference:.2f}"],
            "textposition": "top right",
            "hoverinfo": "skip",
        },
    ]


def line_trace(xs: Sequence[float | None], ys: Sequence[float | None], colour: str, width: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(xs),
        "y": list(ys),
        "line": {"color": colour, "width": width},
        "hoverinfo": "skip",
    }
