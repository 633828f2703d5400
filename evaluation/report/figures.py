"""Figures from series of dots, their numbers as a table, and their drawings by matplotlib, also as SVG for pages.

SVG contains text as text, with the colours of the page, light or dark. matplotlib is the extra ``report``; it is
imported when a figure is drawn.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evaluation.report.page import Axis, Cell, Dot, Figure, Series, Table
from evaluation.report.tables import shown_number, table_of, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


BOX_FROM = 5  # fewer values are points on a line: quartiles of four values say nothing
NUMBERS_ROWS = 100


def series_colour(index: int) -> str:
    """The colour of the class or team at a position; there are eight.

    >>> series_colour(0), series_colour(8)
    ('@1', '@1')
    """
    return f"@{index % 8 + 1}"


def difference_figure(
    anchor: str,
    caption: str,
    description: str,
    mean_ranks: Mapping[str, float],
    cliques: Sequence[Sequence[str]],
    critical_difference: float | None,
) -> Figure:
    """A critical-difference diagram with a row for each team, the best on top.

    A line connects the mean rank of a team to the last team in its clique: up to there no difference is
    significant. J. Demšar: Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006.
    """
    dots, order = [], sorted(mean_ranks, key=lambda name: (mean_ranks[name], name))
    for name in order:
        mean = mean_ranks[name]
        last = max((mean_ranks[other] for clique in cliques if name in clique for other in clique), default=mean)
        ends = (mean, last) if last > mean else (None, None)
        dots.append(Dot(name, mean, low=ends[0], high=ends[1]))
    series = [Series("", dots)]
    if critical_difference is not None and order:
        low = mean_ranks[order[0]]
        ruler = Dot(f"critical difference {critical_difference:.3g}", low, low=low, high=low + critical_difference)
        series.insert(0, Series("", [ruler], "@ink"))
    return Figure(anchor, caption, description, series, y=Axis("mean rank", is_whole=True), horizontal=True)


# --- the numbers of a plot --------------------------------------------------------------------------------------------


def tabulate(figure: Figure) -> Table:
    """List the marks of a plot in a table, for readers who cannot see the plot; columns without a text are omitted."""
    marks = []
    for one in figure.series:
        for dot in (dot for dot in one.dots if dot.y is not None):
            ends = "" if dot.low is None else f"{shown_number(dot.low)} to {shown_number(dot.high)}"
            note = "; ".join(filter(None, (dot.text.replace("\n", "; "), ends)))
            texts = (one.name or "–", shown_number(dot.x), shown_number(dot.y), note)
            marks.append([Cell(text, anchor=dot.anchor) for text in texts])
    is_told = len({one.name for one in figure.series}) > 1
    is_told = is_told and any(mark[0].value not in (mark[1].value, mark[2].value) for mark in marks)
    titles = ["Series", figure.x.title or "Name", figure.y.title or "Name", "Note"]
    columns = [index for index in range(4) if (index or is_told) and any(mark[index].value for mark in marks)]
    rows = [[*(mark[index].value for index in columns[:-1]), mark[columns[-1]]] for mark in marks[:NUMBERS_ROWS]]
    more = len(marks) - len(rows)
    note = f"{more:,} more values are shown only in the plot." * (more > 0)
    return table_of(figure.anchor, figure.caption, [titles[index] for index in columns], rows, help={}, note=note)


# --- drawing ----------------------------------------------------------------------------------------------------------


WIDTH, WIDEST = 620, 26  # px, of a figure and of a disc
SYMBOLS = ("o", "s", "D", "P", "^", "X", "*", "v")
DASHES: Sequence[Any] = ("-", (0, (5, 3)), (0, (1, 2.5)), (0, (6, 2, 1, 2)))
SYMBOLS_UP_TO = 60  # marks of a series; more are round dots
MARKS_UP_TO = 2000  # of a figure; of more those that are evenly spread over the ranks of each series
NAMES_UP_TO, LETTERS_ACROSS = 30, 75  # along x
COLOURS = {  # of the style sheet in the light, which has those of the dark
    "ink": "#1b1f24", "soft": "#565e68", "line": "#d5d8da", "grid": "#ebeceb", "muted": "#7b838c", "accent": "#0068a8",
    "missed": "#a87200", "spurious": "#3b8fc6", "1": "#0068a8", "2": "#cf5400", "3": "#008a66", "4": "#b04f87",
    "5": "#a87200", "6": "#3b8fc6", "7": "#857b00", "8": "#4a4f55",
}  # fmt: skip
VARIABLES = {value: f"var(--{name})" for name, value in reversed(COLOURS.items())}
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "path.simplify": False, "font.size": 11,
    "font.sans-serif": ["DejaVu Sans"], "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.edgecolor": COLOURS["line"], "axes.labelcolor": COLOURS["soft"], "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["line"], "ytick.color": COLOURS["line"], "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"], "grid.color": COLOURS["grid"], "axes.facecolor": "none",
    "figure.facecolor": "none", "legend.frameon": False, "axes.unicode_minus": True,
}  # fmt: skip
REWRITTEN: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]] = (  # in each tag of matplotlib's SVG
    (r"\s+", " "),
    (r'^<g id="[^"]*"', "<g"),  # figures of a page have the same ids
    (r'^<svg .*viewBox="([^"]*)".*', r'<svg viewBox="\1" font-size="11" fill="var(--ink)" aria-hidden="true">'),
    ("xlink:href", "href"),
    (r"font(?:-size)?: (?:\d+ )?([\d.]+)px[^;]*; (?:font-family: [^;]*; )?", r"font-size: \1px; "),
    (r' transform="rotate\(-0 [^"]*"', ""),
    (r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}"),
    (r"#[0-9a-f]{6}(?![0-9a-f])", lambda colour: VARIABLES.get(colour[0], colour[0])),
)


def svg_of(figure: Figure) -> str:
    """The figure as an element of a page, in the letters and colours of the page; equal figures give equal texts.

    Names in it are text, never markup: matplotlib escapes them, and only tags are rewritten.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with settings(figure.anchor), io.StringIO() as file:
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        drawing = _draw_figure(figure)
        FigureCanvasSVG(drawing)  # letters are measured as this format does
        if (engine := drawing.get_layout_engine()) is not None:
            engine.execute(drawing)
            drawing.set_layout_engine(None)  # otherwise it would be drawn twice
        drawing.savefig(file, format="svg", metadata=metadata)
        text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)

    def rewrite(match: re.Match[str]) -> str:
        tag = match[0]
        for pattern, replacement in REWRITTEN:
            tag = re.sub(pattern, replacement, tag)
        return re.sub(r"M ([\d.]+) ([\d.]+) L \1 \2 ", r"M\1 \2h0", tag)  # a round dot

    return re.sub(r"<[^>]+>\s*", rewrite, text)


@contextmanager
def settings(salt: str) -> Iterator[None]:
    """Fixed settings of matplotlib, whatever the settings file of the user."""
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(["default", {**SETTINGS, "svg.hashsalt": salt}]):
        warnings.simplefilter("ignore", UserWarning)  # letters that its font lacks: the browser has them
        yield


def picture_of(figure: Figure) -> Drawing:
    """The figure as one of matplotlib, which a notebook shows."""
    with settings(figure.anchor):
        drawing = _draw_figure(figure)
        drawing.draw_without_rendering()
        return drawing


def _draw_figure(figure: Figure) -> Drawing:
    from matplotlib.figure import Figure as Drawing

    names = figure.names("x"), figure.names("y")
    height = min(110 + 30 * len(names[0]), 2400) if figure.horizontal else max(340, 180 + 26 * len(names[1]))
    drawing = Drawing(figsize=(WIDTH / 72, height / 72), dpi=72, layout="constrained")
    axes = drawing.add_subplot()
    for index in range(len(figure.series)):
        _draw_series(axes, figure, index, names)
    for along, axis, its_names in zip("yx" if figure.horizontal else "xy", (figure.x, figure.y), names, strict=True):
        _set_axis(axes, along, axis, its_names)
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        columns = max(1, min(len(labels), 90 // (max(map(len, labels)) + 6)))
        drawing.legend(handles, labels, loc="outside upper left", ncols=columns, fontsize=10)
    return drawing


def _name_on_line(text: str, limit: int = 40) -> str:
    """A name on one line, cut when long. matplotlib omits labels that begin with a line."""
    line = " ".join(visible(text).split())
    if len(line) > limit:
        line = f"{line[: limit * 2 // 3 - 1]}…{line[-(limit // 3) :]}"
    return f" {line}" if line.startswith("_") else line


def _draw_series(axes: Axes, figure: Figure, index: int, names: tuple[Sequence[str], Sequence[str]]) -> None:
    """Draw the dots of a series. Names are at their numbers on the axis; a dot without y is a gap in a line."""
    import numpy as np

    one, turn = figure.series[index], -1 if figure.horizontal else 1
    colour, symbol = COLOURS[one.colour.removeprefix("@")], SYMBOLS[index % len(SYMBOLS)] if one.name else "o"
    marked: dict[str, Any] = {"color": colour, "label": _name_on_line(one.name)}
    if one.kind != "lines":
        one = replace(one, dots=[dot for dot in one.dots if dot.y is not None])
    places = []
    for along, its_names in zip("xy", names, strict=True):
        values = [getattr(dot, along) for dot in one.dots]
        places.append([its_names.index(value) if isinstance(value, str) else value for value in values])
    points = np.array(places, np.float64)  # None is NaN
    if one.kind == "lines":
        symbol = symbol if len(one.dots) <= SYMBOLS_UP_TO else ""
        axes.plot(*points[::turn], marker=symbol, linestyle=DASHES[index % 4], linewidth=2, markersize=4.5, **marked)
        ends = [(dot.low, dot.high) for dot in one.dots if dot.low is not None and dot.high is not None]
        if ends and len(ends) == len(one.dots):
            fill = axes.fill_betweenx if figure.horizontal else axes.fill_between
            fill(points[0], *np.array(ends).T, color=colour, alpha=0.15, linewidth=0)
        return
    if one.kind == "discs":
        widths = np.array([max(2, round(WIDEST * (dot.size or 0) ** 0.5)) for dot in one.dots])
        for width in np.unique(widths).tolist():
            _draw_dots(axes, points[::turn, widths == width], colour, width)
    else:
        if one.kind == "boxes" and points.shape[1] >= BOX_FROM:
            line = {"color": colour, "linewidth": 1.5}
            axes.boxplot(
                points[1], positions=points[0, :1], orientation="horizontal" if figure.horizontal else "vertical",
                widths=0.5, whis=(0, 100), showcaps=False, manage_ticks=False,
                boxprops=line, whiskerprops=line, medianprops=line,
            )  # fmt: skip
            points[0] += 0.3 * (0.618034 * np.arange(points.shape[1]) % 1 - 0.5)
        most = max(MARKS_UP_TO // len(figure.series), 2)
        if points.shape[1] > most:
            order = np.argsort(points[1], kind="stable")
            points = points[:, order[np.linspace(0, len(order) - 1, most).round().astype(int)]]
        if one.kind == "points" and points.shape[1] <= SYMBOLS_UP_TO:
            sizes = {dot.size for dot in one.dots} - {None}
            look: dict[str, Any] = {"alpha": 0.8, "markersize": 5}
            if sizes:  # a mean, above the dots that it is of
                look = {"markersize": WIDEST * max(filter(None, sizes)) ** 0.5, "markeredgecolor": COLOURS["ink"]}
            axes.plot(*points[::turn], marker=symbol, linestyle="", **look, **marked)
        else:
            _draw_dots(axes, points[::turn], colour, 4)
    whiskers = [(x, dot.low, dot.high) for x, dot in zip(places[0], one.dots, strict=True) if dot.low is not None]
    if whiskers:
        draw_whiskers = axes.hlines if figure.horizontal else axes.vlines
        draw_whiskers(*zip(*whiskers, strict=True), color=colour, linewidth=2)


def _draw_dots(axes: Axes, points: Any, colour: str, width: float) -> None:
    """Draw points (2, N) as one path of round dots, a tenth of the bytes of symbols."""
    import numpy as np
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corners = np.repeat(points.T, 2, axis=0)
    path = Path(corners, np.tile([Path.MOVETO, Path.LINETO], points.shape[1]))
    axes.add_patch(PathPatch(path, fill=False, edgecolor=colour, linewidth=width, capstyle="round", alpha=0.6))
    axes.update_datalim(corners)
    axes.autoscale_view()


def _set_axis(axes: Axes, along: str, axis: Axis, names: Sequence[str]) -> None:
    """Set the ends, ticks and title of an axis, "x" or "y"; names along y begin on top."""
    from matplotlib.ticker import MaxNLocator

    of_axes, set_ends = (axes.xaxis, axes.set_xlim) if along == "x" else (axes.yaxis, axes.set_ylim)
    of_axes.set_label_text(axis.title)
    if not names:
        of_axes.grid(True)
        if axis.is_whole:
            of_axes.set_major_locator(MaxNLocator(integer=True))
    else:
        ticks = range(0, len(names), 1 if along == "y" else -(-len(names) // NAMES_UP_TO))
        of_axes.set_ticks(list(ticks), [_name_on_line(names[tick], 24) for tick in ticks])
        of_axes.set_tick_params(length=0)
        ends = (-0.6, len(names) - 0.4)
        set_ends(*(ends[::-1] if along == "y" else ends))
        if along == "y":
            axes.spines["left"].set_visible(False)
        elif sum(map(len, names)) > LETTERS_ACROSS:
            of_axes.set_tick_params(rotation=40)
            for label in axes.get_xticklabels():
                label.set(horizontalalignment="right", rotation_mode="anchor")
    if axis.ends is not None:
        set_ends(*axis.ends)
