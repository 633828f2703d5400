"""Makers of the plots that several pages show. All texts are plain; colours are the names that ``Figure`` explains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evaluation.report.page import Figure

Range = tuple[float, float] | None
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
TICKS_ACROSS, TICK_LENGTH = 30, 24
LABELLED_CELLS = 600


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark of a scatter plot, a line or a bar chart.

    x, y       a text is a category, in the order in which it first comes; y None: a gap in a line
    text       shown on hover; if empty: the series, x and y
    anchor     of what a click leads to
    low, high  the ends of an interval, drawn as whiskers
    size       px
    """

    x: float | str
    y: float | str | None
    text: str = ""
    anchor: str = ""
    low: float | None = None
    high: float | None = None
    size: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Dots of one kind; ``symbol`` and ``dash`` follow its position if they are empty, so that colour is not alone."""

    name: str
    dots: tuple[Dot, ...]
    colour: str = "@accent"
    symbol: str = ""
    dash: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A point beside a box: its value, what is shown on hover, the anchor of what a click leads to."""

    value: float
    text: str = ""
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A distribution: its quartiles as a box (interpolated, as numpy does), and every value beside it."""

    name: str
    marks: tuple[Mark, ...]
    colour: str = "@accent"


def series_colour(index: int) -> str:
    """The colour of the class or team at a position; there are eight.

    >>> series_colour(0), series_colour(8)
    ('@1', '@1')
    """
    return f"@{index % 8 + 1}"


def shown_number(value: float | str | None) -> str:
    """A number as it stands in the JSON; a text as it is.

    >>> shown_number(0.25), shown_number(12.0), shown_number(None)
    ('0.25', '12', 'undefined')
    """
    if value is None:
        return "undefined"
    return value if isinstance(value, str) else f"{value:.6f}".rstrip("0").rstrip(".")


def shorten(text: str, limit: int = TICK_LENGTH) -> str:
    """A text cut in the middle, so that names that begin or end alike are still told apart.

    >>> shorten("a very long name of a team, version 2")
    'a very long nam…ersion 2'
    """
    return text if len(text) <= limit else f"{text[: limit * 2 // 3 - 1]}…{text[-(limit // 3) :]}"


# --- plots ------------------------------------------------------------------------------------------------------------


def box_figure(
    anchor: str,
    caption: str,
    description: str,
    boxes: Sequence[Box],
    *,
    value_title: str = "",
    value_range: Range = None,
    horizontal: bool = False,
    height: int | None = None,
) -> Figure:
    """A box for each distribution, with all of its points beside it."""
    along, across = ("x", "y") if horizontal else ("y", "x")
    traces = [
        {
            "type": "box",
            "name": box.name,
            "orientation": "h" if horizontal else "v",
            along: [mark.value for mark in box.marks],
            across: [box.name] * len(box.marks),
            "boxpoints": "all",
            "pointpos": -1.4,
            "jitter": 0.5,
            "quartilemethod": "linear",
            "hoveron": "points",
            "marker": {"color": box.colour, "size": 6, "opacity": 0.8},
            "line": {"color": box.colour, "width": 1.5},
            "fillcolor": f"{box.colour}/0.15",
            **hover_and_links(
                [(mark.text or f"{box.name}: {shown_number(mark.value)}", mark.anchor) for mark in box.marks]
            ),
        }
        for box in boxes
    ]
    layout = {
        f"{along}axis": axis(value_title, value_range),
        f"{across}axis": category_axis([box.name for box in boxes], downwards=horizontal),
        "showlegend": False,
    }
    return Figure(anchor, caption, description, tuple(traces), layout, height or rows_height(len(boxes), horizontal))


def scatter_figure(
    anchor: str,
    caption: str,
    description: str,
    series: Sequence[Series],
    *,
    x_title: str = "",
    y_title: str = "",
    x_range: Range = None,
    y_range: Range = None,
    x_log: bool = False,
    y_log: bool = False,
    diagonal: bool = False,
    height: int | None = None,
) -> Figure:
    """Dots; ``diagonal`` draws the line of equal values."""
    traces = [
        {**dot_trace(one), "mode": "markers", "marker": {**marker(one, index), "opacity": 0.85}}
        for index, one in enumerate(series)
    ]
    layout = xy_layout(series, x_title, y_title, x_range, y_range, x_log=x_log, y_log=y_log)
    if diagonal:
        low, high = x_range or (0, 1)
        line = {"color": "@muted", "dash": "dot", "width": 1}
        layout["shapes"] = [
            {"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "layer": "below", "line": line}
        ]
    return Figure(anchor, caption, description, tuple(traces), layout, height or 380)


def line_figure(
    anchor: str,
    caption: str,
    description: str,
    series: Sequence[Series],
    *,
    x_title: str = "",
    y_title: str = "",
    x_range: Range = None,
    y_range: Range = None,
    x_log: bool = False,
    y_reversed: bool = False,
    markers: bool = True,
    height: int | None = None,
) -> Figure:
    """Lines; ``y_reversed`` puts the lowest value, such as rank 1, on top."""
    traces = [
        {
            **dot_trace(one),
            "mode": "lines+markers" if markers else "lines",
            "line": {"color": one.colour, "width": 2, "dash": one.dash or DASHES[index % len(DASHES)]},
            "marker": marker(one, index),
        }
        for index, one in enumerate(series)
    ]
    layout = xy_layout(series, x_title, y_title, x_range, y_range, x_log=x_log)
    if y_reversed:
        layout["yaxis"] |= {"range": y_range[::-1]} if y_range else {"autorange": "reversed"}
    return Figure(anchor, caption, description, tuple(traces), layout, height or 380)


def bar_figure(
    anchor: str,
    caption: str,
    description: str,
    series: Sequence[Series],
    *,
    x_title: str = "",
    y_title: str = "",
    y_range: Range = None,
    stacked: bool = False,
    horizontal: bool = False,
    height: int | None = None,
) -> Figure:
    """Bars; ``horizontal`` lays them down: x of a dot stays its category and y its value, and so do the titles."""
    along, across = ("x", "y") if horizontal else ("y", "x")
    categories = unique(str(dot.x) for one in series for dot in one.dots)
    traces = [
        {
            "type": "bar",
            "name": one.name,
            "orientation": "h" if horizontal else "v",
            across: [str(dot.x) for dot in one.dots],
            along: [dot.y for dot in one.dots],
            "marker": {"color": one.colour, "line": {"color": "@surface", "width": 1}},
            **whiskers(one, along),
            **hover_of_dots(one),
        }
        for one in series
    ]
    layout = {
        f"{along}axis": {**axis(y_title, y_range), "rangemode": "tozero"},
        f"{across}axis": {**category_axis(categories, downwards=horizontal), "title": {"text": x_title}},
        "barmode": "stack" if stacked else "group",
        "bargap": 0.35,
        "showlegend": len(series) > 1,
    }
    bars = len(categories) * (1 if stacked else max(len(series), 1))
    return Figure(anchor, caption, description, tuple(traces), layout, height or rows_height(bars, horizontal, each=26))


def heat_map_figure(
    anchor: str,
    caption: str,
    description: str,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    shown: Sequence[Sequence[str]] = (),
    hover: Sequence[Sequence[str]] = (),
    anchors: Sequence[Sequence[str]] = (),
    x_title: str = "",
    y_title: str = "",
    scale: Literal["sequential", "diverging"] = "sequential",
    value_range: Range = None,
    value_title: str = "",
    height: int | None = None,
) -> Figure:
    """A table of colours with its values written in, the first row on top; ``diverging``: a scale around 0.

    values, shown, hover, anchors   a row of the table each, (rows, columns); a value None: an empty cell
    """
    if not shown:
        shown = [["" if value is None else f"{value:.3g}" for value in row] for row in values]
    if not hover:
        hover = [
            [f"{row}, {column}: {shown_number(value)}" for column, value in zip(columns, of_row, strict=True)]
            for row, of_row in zip(rows, values, strict=True)
        ]
    colours = ["@low", "@high"] if scale == "sequential" else ["@negative", "@middle", "@high"]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": list(columns),
        "y": list(rows),
        "z": [list(row) for row in values],
        "text": [list(row) for row in shown],
        "texttemplate": "%{text}" if len(rows) * len(columns) <= LABELLED_CELLS else "",
        "hovertext": [list(row) for row in hover],
        "hoverinfo": "text",
        "hoverongaps": False,
        "colorscale": [[index / (len(colours) - 1), colour] for index, colour in enumerate(colours)],
        "xgap": 2,
        "ygap": 2,
        "colorbar": {"title": {"text": value_title}, "thickness": 10, "outlinewidth": 0},
    }
    if value_range:
        trace |= {"zmin": value_range[0], "zmax": value_range[1]}
    if anchors:
        trace |= {"customdata": [[f"#{one}" if one else "" for one in row] for row in anchors], "meta": {"links": True}}
    layout = table_axes(rows, columns, x_title, y_title)
    return Figure(anchor, caption, description, (trace,), layout, height or rows_height(len(rows), True, each=32))


def blob_figure(
    anchor: str,
    caption: str,
    description: str,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    shares: Sequence[Sequence[float]],
    x_title: str = "",
    y_title: str = "",
    hover: Sequence[Sequence[str]] = (),
    height: int | None = None,
) -> Figure:
    """A disc for each row and column, its area in proportion to a share in 0…1; none where the share is 0."""
    there = [(y, x) for y, row in enumerate(shares) for x, share in enumerate(row) if share > 0]
    texts = [
        hover[y][x] if hover else f"{rows[y]}, {columns[x]}: {100 * shares[y][x]:.3g} %"
        for y, x in there
    ]  # fmt: skip
    widest_px = min(max(340 // max(len(columns), 1), 14), 34)
    trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "",
        "x": [columns[x] for _, x in there],
        "y": [rows[y] for y, _ in there],
        "marker": {
            "size": [shares[y][x] for y, x in there],
            "sizemode": "area",
            "sizeref": 2 / widest_px**2,
            "sizemin": 1.5,
            "color": [series_colour(y) for y, _ in there],
            "opacity": 0.85,
            "line": {"width": 0},
        },
        "hovertext": texts,
        "hoverinfo": "text",
        "cliponaxis": False,
    }
    layout = {**table_axes(rows, columns, x_title, y_title), "showlegend": False}
    return Figure(anchor, caption, description, (trace,), layout, height or rows_height(len(rows), True, each=38))


# --- parts of them ----------------------------------------------------------------------------------------------------


def dot_trace(series: Series) -> dict[str, Any]:
    xs, ys = [dot.x for dot in series.dots], [dot.y for dot in series.dots]
    return {
        "type": "scatter", "name": series.name, "x": xs, "y": ys, **whiskers(series, "y"), **hover_of_dots(series)
    }  # fmt: skip


def marker(series: Series, index: int) -> dict[str, Any]:
    sizes: float | list[float] = 8
    if any(dot.size is not None for dot in series.dots):
        sizes = [8 if dot.size is None else dot.size for dot in series.dots]
    return {"color": series.colour, "symbol": series.symbol or SYMBOLS[index % len(SYMBOLS)], "size": sizes}


def whiskers(series: Series, along: str) -> dict[str, Any]:
    """The intervals of dots, as their distances from the values."""
    ends = [
        (dot.y - dot.low, dot.high - dot.y)
        if isinstance(dot.y, int | float) and dot.low is not None and dot.high is not None
        else (0, 0)
        for dot in series.dots
    ]
    if not any(map(any, ends)):
        return {}
    below, above = [end[0] for end in ends], [end[1] for end in ends]
    return {
        f"error_{along}": {
            "type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": "@ink", "thickness": 1.2
        }
    }  # fmt: skip


def hover_of_dots(series: Series) -> dict[str, Any]:
    def made(dot: Dot) -> str:
        interval = f" ({shown_number(dot.low)} to {shown_number(dot.high)})" if dot.low is not None else ""
        return "\n".join(filter(None, [series.name, f"{shown_number(dot.x)}: {shown_number(dot.y)}{interval}"]))

    return hover_and_links([(dot.text or made(dot), dot.anchor) for dot in series.dots])


def hover_and_links(texts_and_anchors: Iterable[tuple[str, str]]) -> dict[str, Any]:
    pairs = list(texts_and_anchors)
    fields: dict[str, Any] = {"hovertext": [text for text, _ in pairs], "hoverinfo": "text"}
    if any(anchor for _, anchor in pairs):
        fields |= {"customdata": [f"#{anchor}" if anchor else "" for _, anchor in pairs], "meta": {"links": True}}
    return fields


def xy_layout(
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    x_range: Range,
    y_range: Range,
    *,
    x_log: bool = False,
    y_log: bool = False,
) -> dict[str, Any]:
    layout: dict[str, Any] = {"showlegend": len(series) > 1}
    ways = (("x", x_title, x_range, x_log), ("y", y_title, y_range, y_log))
    for name, title, ends, is_log in ways:
        given = [getattr(dot, name) for one in series for dot in one.dots]
        if any(isinstance(value, str) for value in given):
            categories = unique(str(value) for value in given if value is not None)
            layout[f"{name}axis"] = {**category_axis(categories, downwards=name == "y"), "title": {"text": title}}
        else:
            ends = (math.log10(ends[0]), math.log10(ends[1])) if ends and is_log else ends
            layout[f"{name}axis"] = {**axis(title, ends), "type": "log" if is_log else "linear"}
    return layout


def table_axes(rows: Sequence[str], columns: Sequence[str], x_title: str, y_title: str) -> dict[str, Any]:
    return {
        "xaxis": {**category_axis(columns), "title": {"text": x_title}, "showgrid": False},
        "yaxis": {**category_axis(rows, downwards=True), "title": {"text": y_title}, "showgrid": False},
    }


def axis(title: str, ends: Range) -> dict[str, Any]:
    return {"title": {"text": title}, **({"range": list(ends)} if ends else {})}


def category_axis(names: Sequence[str], *, downwards: bool = False) -> dict[str, Any]:
    """An axis of names in their order; ``downwards``: along y, the first on top."""
    step = 1 if downwards else -(-len(names) // TICKS_ACROSS) or 1
    ticks = list(names)[::step]
    ends = [len(names) - 0.5, -0.5] if downwards else [-0.5, len(names) - 0.5]
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": list(names),
        "range": ends,
        "tickvals": ticks,
        "ticktext": [shorten(name) for name in ticks],
    }


def rows_height(rows: int, is_downwards: bool, each: int = 44) -> int:
    """px; a plot whose rows are laid down grows with them."""
    return min(max(150 + each * rows, 260), 2400) if is_downwards else 380


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
