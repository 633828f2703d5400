"""Plots: one description, series of dots on two axes, drawn by one function; tables of colours by another.

All texts are plain; colours are the names that ``Figure`` explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from evaluation.findings import percent
from evaluation.report.page import Figure
from evaluation.report.shown import shown_number

Kind = Literal["points", "lines", "bars", "boxes", "discs"]
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
BOX_FROM = 5  # fewer values are points on a line: quartiles of four values say nothing
LABELLED_CELLS = 600
NUMBERS_ROWS, NUMBERS_COLUMNS = 200, 40


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark of a plot.

    x, y       a text is a category, in the order in which it first comes; y None: a gap in a line
    text       shown on hover; if empty: the series, x and y
    anchor     of what a click leads to
    low, high  the ends of an interval of y, drawn as whiskers
    size       px; of a disc its share in 0…1, which its area is in proportion to
    colour     if not that of its series
    """

    x: float | str
    y: float | str | None
    text: str = ""
    anchor: str = ""
    low: float | None = None
    high: float | None = None
    size: float | None = None
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Dots of one kind. Symbols and dashes follow the position among the series, so that colour is not alone.

    kind       "boxes": quartiles of y (interpolated, as numpy does) and all dots, which have the same x
    is_curve   a line without marks that cannot be pointed at
    """

    name: str
    dots: tuple[Dot, ...]
    colour: str = "@accent"
    kind: Kind = "points"
    dash: str = ""
    symbol: str = ""
    is_curve: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """``ends`` of the axis; ``reversed``: the lowest value, such as rank 1, on top."""

    title: str = ""
    ends: tuple[float, float] | None = None
    is_log: bool = False
    reversed: bool = False


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


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 and their tenfolds and tenths between two positive values.

    >>> log_ticks(3, 110)
    [5, 10, 20, 50, 100]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = (step * 10**power for power in powers for step in (1, 2, 5))
    return [tick for tick in ticks if low <= tick <= high]


# --- plots ------------------------------------------------------------------------------------------------------------


def plot(
    anchor: str,
    caption: str,
    description: str,
    series: Sequence[Series],
    *,
    x: Axis = Axis(),
    y: Axis = Axis(),
    horizontal: bool = False,
    height: int | None = None,
    **layout: Any,
) -> Figure:
    """Series on two axes. ``horizontal`` lays everything down: x of the dots goes down, y to the right.

    layout   of plotly, beside what follows from the series
    """
    traces = [trace_of(one, index, horizontal=horizontal) for index, one in enumerate(series)]
    names = unique(str(dot.x) for one in series for dot in one.dots)
    across, along = ("y", "x") if horizontal else ("x", "y")
    axes = {f"{across}axis": axis_layout(series, "x", x, across), f"{along}axis": axis_layout(series, "y", y, along)}
    if any(one.kind == "bars" for one in series):
        layout = {"barmode": "group", "bargap": 0.35, **layout}
        axes[f"{along}axis"]["rangemode"] = "tozero"
    is_named = all(one.kind == "boxes" for one in series)
    bars = len(names) * sum(one.kind == "bars" for one in series)
    rows = (150 + max(26 * bars, 38 * len(names))) if horizontal else 380
    layout = {"showlegend": len(series) > 1 and not is_named, **axes, **layout}
    return Figure(anchor, caption, description, tuple(traces), layout, height or min(max(rows, 260), 2400))


def trace_of(one: Series, index: int, *, horizontal: bool) -> dict[str, Any]:
    across, along = ("y", "x") if horizontal else ("x", "y")
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": one.name,
        across: [dot.x for dot in one.dots],
        along: [dot.y for dot in one.dots],
        **hover_of(one),
        **whiskers(one, along),
    }
    if one.is_curve:
        line = {"color": one.colour, "dash": one.dash or "solid", "width": 2}
        return {**trace, "mode": "lines", "line": line, "hoverinfo": "skip", "showlegend": bool(one.name)}
    dash = one.dash or DASHES[index % len(DASHES)]
    match one.kind:
        case "bars":
            marker = {"color": one.colour, "line": {"color": "@surface", "width": 1}}
            return {**trace, "type": "bar", "orientation": "h" if horizontal else "v", "marker": marker}
        case "boxes" if len(one.dots) >= BOX_FROM:
            return {
                **trace,
                "type": "box",
                "orientation": "h" if horizontal else "v",
                "boxpoints": "all",
                "pointpos": -1.4,
                "jitter": 0.5,
                "quartilemethod": "linear",
                "hoveron": "points",
                "marker": {"color": one.colour, "size": 6, "opacity": 0.8},
                "line": {"color": one.colour, "width": 1.5},
                "fillcolor": f"{one.colour}/0.15",
            }
        case "boxes":
            return {
                **trace, "mode": "lines+markers", "marker": {"color": one.colour, "size": 8, "opacity": 0.8},
                "line": {"color": one.colour, "width": 1.5}
            }  # fmt: skip
        case "discs":
            return {**trace, "mode": "markers", "marker": disc_marker(one), "cliponaxis": False}
        case "lines":
            line = {"color": one.colour, "width": 2, "dash": dash}
            return {**trace, "mode": "lines+markers", "line": line, "marker": marker_of(one, index)}
        case "points":
            return {**trace, "mode": "markers", "marker": {**marker_of(one, index), "opacity": 0.85}}


def marker_of(one: Series, index: int) -> dict[str, Any]:
    sizes = [dot.size or 8 for dot in one.dots]
    return {
        "color": one.colour,
        "symbol": one.symbol or SYMBOLS[index % len(SYMBOLS)],
        "size": sizes[0] if len(set(sizes)) == 1 else sizes,
        "line": {"color": "@surface", "width": 1},
    }


def disc_marker(one: Series) -> dict[str, Any]:
    widest_px = min(max(340 // max(len({dot.y for dot in one.dots}), 1), 14), 34)
    return {
        "size": [dot.size for dot in one.dots],
        "sizemode": "area",
        "sizeref": 2 / widest_px**2,
        "sizemin": 1.5,
        "color": [dot.colour or one.colour for dot in one.dots],
        "opacity": 0.85,
        "line": {"width": 0},
    }


def whiskers(one: Series, along: str) -> dict[str, Any]:
    """The intervals of dots, as their distances from the values."""
    ends = [
        (dot.y - dot.low, dot.high - dot.y)
        if isinstance(dot.y, int | float) and dot.low is not None and dot.high is not None
        else (0, 0)
        for dot in one.dots
    ]
    if not any(map(any, ends)):
        return {}
    below, above = [end[0] for end in ends], [end[1] for end in ends]
    bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": "@ink", "thickness": 1.2}
    return {f"error_{along}": bars}


def hover_of(one: Series) -> dict[str, Any]:
    def made(dot: Dot) -> str:
        interval = f" ({shown_number(dot.low)} to {shown_number(dot.high)})" if dot.low is not None else ""
        line = f"{shown_number(dot.x)}: {shown_number(dot.y)}{interval}"
        return line if dot.x == one.name or not one.name else f"{one.name}\n{line}"

    fields: dict[str, Any] = {"hovertext": [dot.text or made(dot) for dot in one.dots], "hoverinfo": "text"}
    if any(dot.anchor for dot in one.dots):
        links = [f"#{dot.anchor}" if dot.anchor else "" for dot in one.dots]
        fields |= {"customdata": links, "meta": {"links": True}}
    return fields


def axis_layout(series: Sequence[Series], name: Literal["x", "y"], axis: Axis, along: str) -> dict[str, Any]:
    given = [value for one in series for dot in one.dots if (value := getattr(dot, name)) is not None]
    if any(isinstance(value, str) for value in given):
        return {**category_axis(unique(map(str, given)), downwards=along == "y"), "title": {"text": axis.title}}
    made: dict[str, Any] = {"title": {"text": axis.title}}
    if axis.is_log:
        positive = [value for value in given if value > 0] or [1.0]
        low, high = axis.ends or (min(positive) / 1.1, max(positive) * 1.1)
        made |= {"type": "log", "tickvals": log_ticks(low, high), "range": [math.log10(low), math.log10(high)]}
    elif axis.ends:
        made["range"] = list(axis.ends)
    if axis.reversed:
        made |= {"range": made["range"][::-1]} if "range" in made else {"autorange": "reversed"}
    return made


def category_axis(names: Sequence[str], *, downwards: bool = False) -> dict[str, Any]:
    """An axis of names in their order; ``downwards``: along y, the first on top."""
    ticks = list(names)[:: 1 if downwards else -(-len(names) // 30) or 1]
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": list(names),
        "range": [len(names) - 0.5, -0.5] if downwards else [-0.5, len(names) - 0.5],
        "tickvals": ticks,
        "ticktext": [shorten(name) for name in ticks],
    }


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def heat_map(
    anchor: str,
    caption: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    shown: Sequence[Sequence[str]] = (),
    hover: Sequence[Sequence[str]] = (),
    ends: tuple[float, float] | None = None,
    is_diverging: bool = False,
    **trace: Any,
) -> Figure:
    """A table of colours with its values written in, the first row on top; ``is_diverging``: a scale around 0.

    values, shown, hover   a row of the table each, (rows, columns); a value None: an empty cell
    trace   settings of plotly, beside those that follow from the values
    """
    colours = ["@negative", "@middle", "@high"] if is_diverging else ["@low", "@high"]
    is_labelled = len(rows) * len(columns) <= LABELLED_CELLS
    settings: dict[str, Any] = {
        "type": "heatmap",
        "x": list(columns),
        "y": list(rows),
        "z": [list(row) for row in values],
        "hoverinfo": "text" if hover else "x+y+z",
        "hoverongaps": False,
        "colorscale": [[index / (len(colours) - 1), colour] for index, colour in enumerate(colours)],
        "colorbar": {"thickness": 10, "outlinewidth": 0},
    }
    if is_labelled:
        shown = shown or [["" if value is None else f"{value:.3g}" for value in row] for row in values]
        settings |= {"text": [list(row) for row in shown], "texttemplate": "%{text}", "xgap": 2, "ygap": 2}
    if hover:
        settings["hovertext"] = [list(row) for row in hover]
    else:  # made by the browser, so that large maps stay small files
        settings["hovertemplate"] = "%{y}, %{x}: %{z}<extra></extra>"
    if ends:
        settings |= {"zmin": ends[0], "zmax": ends[1]}
    layout = {
        "xaxis": {**category_axis(columns), "title": {"text": ""}, "showgrid": False},
        "yaxis": {**category_axis(rows, downwards=True), "title": {"text": ""}, "showgrid": False},
    }
    height = min(max(150 + (32 if len(rows) <= 20 else 18) * len(rows), 260), 2400)
    return Figure(anchor, caption, description, ({**settings, **trace},), layout, height)


# --- special plots ----------------------------------------------------------------------------------------------------


def in_tenths(share: float) -> str:
    """A share in percent with a decimal, if it has one.

    >>> in_tenths(0.5), in_tenths(0.125), in_tenths(0.9996)
    ('50 %', '12.5 %', '> 99.9 %')
    """
    return percent(share, 1).replace(".0 %", " %")


def place_discs(
    anchor: str,
    caption: str,
    description: str,
    teams: Sequence[str],
    shares: Sequence[dict[float, float]],
    of_what: str,
    *more: Series,
) -> Figure:
    """A disc for each team and place, its area in proportion to the share of ``of_what`` in which it has it."""
    places = sorted({place for of in shares for place, share in of.items() if share})
    dots = tuple(
        Dot(
            team,
            shown_number(place),
            f"{team}\nplace {shown_number(place)} in {in_tenths(share)} of the {of_what}",
            size=share,
            colour=series_colour(row),
        )
        for row, (team, of) in enumerate(zip(teams, shares, strict=True))
        for place, share in sorted(of.items())
        if share
    )
    series = sorted([Series("", dots, kind="discs"), *more], key=lambda one: not one.is_curve)  # curves below
    place = Axis("place")
    found = plot(anchor, caption, description, series, y=place, horizontal=True, showlegend=False)
    names = [shown_number(place) for place in places]
    names += [name for one in more for dot in one.dots if (name := str(dot.y)) not in names and dot.y is not None]
    found.layout["xaxis"].update(category_axis(sorted(names, key=float)))
    return found


def rank_lines(
    anchor: str,
    caption: str,
    rules: Sequence[str],
    teams: Sequence[str],
    ranks: Sequence[Sequence[float | None]],
    *,
    note: str = "",
    is_published: bool = True,
) -> Figure:
    """A line for each team over rules side by side, rank 1 on top.

    teams  as they are written beside the plot, from the first place to the last
    ranks  a row for each team; None: not ranked
    note   stands before what the figure shows in words
    is_published  the first rule is the one that holds: its places have the names of the teams beside them
    """
    series = [
        Series(team, tuple(map(Dot, rules, of)), series_colour(row), "lines")
        for row, (team, of) in enumerate(zip(teams, ranks, strict=True))
    ]
    best = "; ".join(
        f"{team} {', '.join('–' if rank is None else shown_number(rank) for rank in of)}"
        for team, of in zip(teams[:3], ranks, strict=False)
    )
    words = f"From left to right: {', '.join(rules)}. {best}."
    if len(rules) > 8:
        words = f"{len(rules)} sets of rules side by side; the numbers below have all places."
    lowest = max((rank for of in ranks for rank in of if rank is not None), default=1)
    height = min(max(380, 200 + 22 * round(lowest)), 2200)  # names of neighbours stay apart
    description = f"{note} {words}".strip()
    figure = plot(anchor, caption, description, series, y=Axis(reversed=True), height=height)
    names: dict[float, list[str]] = {}
    for team, of in zip(teams, ranks, strict=True):
        if of[0] is not None:
            names.setdefault(of[0], []).append(team)
    if is_published and names:
        ticks = [f"{shorten(', '.join(of), 30)}  {shown_number(rank)}" for rank, of in names.items()]
        figure.layout["yaxis"].update(tickvals=list(names), ticktext=ticks, automargin=True)
        figure.layout["showlegend"] = False
    return figure


# --- the numbers of a plot --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a plot as a table, for those who do not see it: texts, and where each row leads ("#anchor")."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    links: tuple[str, ...]
    left_out: int


def tabulate(figure: Figure) -> Numbers:
    """The marks of a plot, row by row; of a heat map, its rows."""
    first = figure.traces[0] if figure.traces else {}
    if first.get("type") == "heatmap":
        lines = [
            (str(name), *map(shown_number, values[:NUMBERS_COLUMNS]))
            for name, values in zip(first["y"][:NUMBERS_ROWS], first["z"], strict=False)
        ]
        left_out = sum(map(len, first["z"])) - sum(len(line) - 1 for line in lines)
        return Numbers(("", *map(str, first["x"][:NUMBERS_COLUMNS])), tuple(lines), ("",) * len(lines), left_out)
    marks, links = [], []
    for trace in figure.traces:
        if trace.get("hoverinfo") == "skip":
            continue
        to = trace.get("customdata", ()) if trace.get("meta") else ()
        columns = [trace.get(key, ()) for key in ("x", "y", "hovertext")]
        for x, y, note, link in zip_longest(*columns, to):
            if x is not None and y is not None:
                name, point = trace.get("name", ""), f"{shown_number(x)}: {shown_number(y)}"
                says_more = note not in (None, point, f"{name}\n{point}")
                marks.append((name, shown_number(x), shown_number(y), note if says_more else ""))
                links.append(link or "")
    kept = [index for index in range(4) if any(mark[index] for mark in marks)]
    if len({mark[0] for mark in marks}) == 1 or all(mark[0] in mark[1:3] for mark in marks):
        kept = [index for index in kept if index]
    titles = ["Series", *(title_of(figure.layout.get(f"{name}axis", {}), name) for name in "xy"), "Note"]
    rows = tuple(tuple(mark[index].replace("\n", "; ") for index in kept) for mark in marks[:NUMBERS_ROWS])
    left_out = len(marks) - len(rows)
    return Numbers(tuple(titles[index] for index in kept), rows, tuple(links[:NUMBERS_ROWS]), left_out)


def title_of(axis: Mapping[str, Any], name: str) -> str:
    return str(axis.get("title", {}).get("text") or ("Name" if axis.get("type") == "category" else name))
