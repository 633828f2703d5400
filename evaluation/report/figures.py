"""Figures from series of dots, their numbers as a table, and their drawings by matplotlib, also as SVG for pages.

In SVG words are words, and colours are those of the page, light or dark. matplotlib is the extra ``report``; it is
imported when a figure is drawn.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evaluation.report.page import Axis, Cell, Dot, Figure, Label, Series, Table
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


# --- the numbers of a plot --------------------------------------------------------------------------------------------


def tabulate(figure: Figure) -> Table:
    """List the marks of a plot in a table, for readers who cannot see the plot; columns without a text are left out."""
    names = {one.name or "–" for one in figure.series if not one.is_curve}
    marks = []
    for one in figure.series:
        for dot in () if one.is_curve else one.dots:
            if dot.y is not None:
                ends = "" if dot.low is None else f"{shown_number(dot.low)} to {shown_number(dot.high)}"
                note = "; ".join(filter(None, (dot.text.replace("\n", "; "), ends)))
                texts = (one.name or "–", shown_number(dot.x), shown_number(dot.y), note)
                marks.append([Cell(text, anchor=dot.anchor) for text in texts])
    is_told = len(names) > 1 and not all(mark[0].value in (mark[1].value, mark[2].value) for mark in marks)
    titles = ["Series", *(getattr(figure, along).title or "Name" for along in ("x", "y")), "Note"]
    columns = [at for at in range(4) if (at or is_told) and any(mark[at].value for mark in marks)]
    rows = [[mark[at] if at == columns[-1] else mark[at].value for at in columns] for mark in marks[:NUMBERS_ROWS]]
    more = len(marks) - len(rows)
    note = f"{more:,} more values are in the plot and left out here." * (more > 0)
    return table_of(figure.anchor, figure.caption, [titles[at] for at in columns], rows, help={}, note=note)


# --- drawing ----------------------------------------------------------------------------------------------------------


WIDTH, WIDEST = 620, 26  # px, of a figure and of a disc
SYMBOLS = ("o", "s", "D", "P", "^", "X", "*", "v")
DASHES = {"": "-", "solid": "-", "dash": (0, (5, 3)), "dot": (0, (1, 2.5)), "dashdot": (0, (6, 2, 1, 2))}
IN_TURN = ("solid", "dash", "dot", "dashdot")
SYMBOLS_UP_TO = 60  # marks of a series; more are round dots
MARKS_UP_TO = 2000  # of a figure; of more those that are evenly spread over the ranks of each series
NAMES_UP_TO, LETTERS_ACROSS = 30, 75  # along x
COLOURS = {  # of the style sheet in the light, which has those of the dark
    "ink": "#1b1f24", "soft": "#565e68", "line": "#d5d8da", "grid": "#ebeceb", "muted": "#7b838c", "accent": "#0068a8",
    "missed": "#a87200", "spurious": "#3b8fc6", "1": "#0068a8", "2": "#cf5400", "3": "#008a66", "4": "#b04f87",
    "5": "#a87200", "6": "#3b8fc6", "7": "#857b00", "8": "#4a4f55",
}  # fmt: skip
VARIABLES = {value: name for name, value in reversed(COLOURS.items())}
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "path.simplify": False, "font.size": 11,
    "font.sans-serif": ["DejaVu Sans"], "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.edgecolor": COLOURS["line"], "axes.labelcolor": COLOURS["soft"], "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["line"], "ytick.color": COLOURS["line"], "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"], "grid.color": COLOURS["grid"], "axes.facecolor": "none",
    "figure.facecolor": "none", "legend.frameon": False, "axes.unicode_minus": True,
}  # fmt: skip


def svg_of(figure: Figure) -> str:
    """The figure as an element of a page; equal figures give equal texts.

    Names in it are text, never markup: matplotlib escapes them, and colours are put in only inside of tags.
    """
    with settings(figure.anchor), io.StringIO() as file:
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        draw_figure(figure).savefig(file, format="svg", metadata=metadata)
        text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", Tags().of_page, text)
    text = re.sub(r"M ([\d.]+) ([\d.]+) \nL \1 \2 \n", r"M\1 \2h0", text)  # a round dot
    text = re.sub(r'<path [^>]*style="fill:none"/>', "", text)  # nothing is painted
    text = re.sub(r" \n(?=[MLCQz\"])|(?<=[MLCQ]) ", "", text)
    return re.sub(r"\s*\n\s*", "\n", text)


class Tags:
    """Rewrites the tags of matplotlib's SVG: with the colours and letters of the page, short numbers, no unused ids."""

    def __init__(self) -> None:
        self.are_groups: list[bool] = []  # of those that are open, whether they say something

    def of_page(self, match: re.Match[str]) -> str:
        tag = re.sub(r"^<g id=\"[^\"]*\"", "<g", match[0])
        if tag in ("<g>", "</g>", "<g/>"):
            if tag == "<g>":
                self.are_groups.append(False)
            return "</g>" if tag == "</g>" and self.are_groups.pop() else ""
        if tag.startswith("<g "):
            self.are_groups.append(True)
        if tag.startswith("<svg"):
            width, height = (f"{float(size):g}" for size in re.findall(r' (?:width|height)="([\d.]+)pt"', tag))
            return f'<svg viewBox="0 0 {width} {height}" font-size="11" fill="var(--ink)" aria-hidden="true">'
        tag = tag.replace("xlink:href", "href")
        tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
        tag = re.sub(r"font: (?:\d+ )?([\d.]+)px [^;\"]*", r"font-size: \1px", tag)
        tag = tag.replace("font-size: 11px; ", "")
        if tag.startswith("<text"):
            tag = tag.replace(f"; fill: {COLOURS['ink']}", "")
        tag = re.sub(r"font-family: [^;\"]*; ?", "", tag)
        tag = re.sub(r'style="[^"]*"', lambda style: re.sub(r"([:;]) ", r"\1", style[0]), tag)
        tag = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", tag)
        return re.sub("#[0-9a-f]{6}(?![0-9a-f])", lambda colour: paint(colour[0]), tag)


def paint(colour: str) -> str:
    return f"var(--{VARIABLES[colour]})" if colour in VARIABLES else colour


@contextmanager
def settings(salt: str) -> Iterator[None]:
    """Settings of matplotlib that are the same for everybody, whatever a user's own file says."""
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(["default", {**SETTINGS, "svg.hashsalt": salt}]):
        warnings.simplefilter("ignore", UserWarning)  # letters that its font lacks: the browser has them
        yield


def picture_of(figure: Figure) -> Drawing:
    """The figure as one of matplotlib, which a notebook shows."""
    with settings(figure.anchor):
        drawing = draw_figure(figure)
        drawing.draw_without_rendering()
        return drawing


def draw_figure(figure: Figure) -> Drawing:
    from matplotlib.figure import Figure as Drawing

    across, along = ("y", "x") if figure.horizontal else ("x", "y")
    names = {"x": figure.names("x"), "y": figure.names("y")}
    height = figure.height or (min(110 + 30 * len(names["x"]), 2400) if figure.horizontal else 340)
    drawing = Drawing(figsize=(WIDTH / 72, height / 72), dpi=72, layout="constrained")
    axes = drawing.add_subplot()
    handles, labels = [], []
    most = max(MARKS_UP_TO // max(len(figure.series), 1), 2)
    for index, one in enumerate(figure.series):
        points = [(at(dot.x, names["x"]), dot) for dot in one.dots]
        handle = draw_series(axes, one, index, points, names["y"], horizontal=figure.horizontal, most=most)
        if one.name and handle is not None:
            handles.append(handle)
            labels.append(written(one.name))
    for label in figure.labels:
        where = {"left": ("left", "center"), "right": ("right", "center"), "below": ("center", "bottom")}[label.side]
        axes.text(label.x, label.y, written(label.text), ha=where[0], va=where[1], fontsize=10)
    for name, axis, its in ((across, figure.x, names["x"]), (along, figure.y, names["y"])):
        set_axis(axes, name, axis, its)
    if len(labels) > 1 and not all(one.kind == "boxes" for one in figure.series):
        columns = max(1, min(len(labels), 90 // (max(map(len, labels)) + 6)))
        drawing.legend(handles, labels, loc="outside upper left", ncols=columns, fontsize=10)
    return drawing


def at(value: float | str, names: Sequence[str]) -> float:
    return float(names.index(value)) if isinstance(value, str) else float(value)


def written(text: str, limit: int = 40) -> str:
    """A name on one line, cut when long. matplotlib leaves out labels that begin with a line."""
    line = " ".join(visible(text).split())
    if len(line) > limit:
        line = f"{line[: limit * 2 // 3 - 1]}…{line[-(limit // 3) :]}"
    return f" {line}" if line.startswith("_") else line


def draw_series(
    axes: Axes,
    one: Series,
    index: int,
    points: Sequence[tuple[float, Dot]],
    names: Sequence[str],
    *,
    horizontal: bool,
    most: int,
) -> Any:
    """Draw the dots of a series, at most ``most`` of them. Returns what the legend shows for the series."""
    import numpy as np

    known = [(x, at(dot.y, names), dot) for x, dot in points if dot.y is not None]
    xs, ys = [x for x, _, _ in known], [y for _, y, _ in known]
    colour = COLOURS[one.colour.removeprefix("@")]
    if one.is_curve or one.kind == "lines":
        gaps = [float("nan") if dot.y is None else at(dot.y, names) for _, dot in points]
        dash = DASHES[one.dash or ("solid" if one.is_curve else IN_TURN[index % len(IN_TURN)])]
        marker = "" if one.is_curve or len(known) > SYMBOLS_UP_TO else SYMBOLS[index % len(SYMBOLS)]
        line = [x for x, _ in points], gaps
        style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": one.width, "markersize": 4.5}
        (drawn,) = axes.plot(*swapped(line, horizontal), marker=marker, **style)
        return drawn
    whiskers = [(x, dot.low, dot.high) for x, _, dot in known if dot.low is not None and dot.high is not None]
    handle: Any = None
    if one.kind == "discs":
        widths = np.array([max(2, round(WIDEST * (dot.size or 0) ** 0.5)) for _, _, dot in known])
        for width in np.unique(widths).tolist():
            points = np.array(xs)[widths == width], np.array(ys)[widths == width]
            draw_dots(axes, *swapped(points, horizontal), colour, width)
    else:
        if one.kind == "boxes" and len(ys) >= BOX_FROM:
            draw_box(axes, xs[0], ys, colour, horizontal=horizontal)
            xs = [x + 0.3 * (0.618034 * number % 1 - 0.5) for number, x in enumerate(xs)]
        if len(xs) > most:
            order = np.argsort(ys, kind="stable")[np.linspace(0, len(ys) - 1, most).round().astype(int)]
            xs, ys = [xs[row] for row in order], [ys[row] for row in order]
        if one.kind == "points" and len(xs) <= SYMBOLS_UP_TO:
            marker = SYMBOLS[index % len(SYMBOLS)] if one.name else "o"
            style = {"color": colour, "alpha": 0.8, "markersize": 5, "linestyle": ""}
            (handle,) = axes.plot(*swapped((xs, ys), horizontal), marker=marker, **style)
        else:
            handle = draw_dots(axes, *swapped((xs, ys), horizontal), colour, 4)
    if whiskers:
        draw_ends = axes.hlines if horizontal else axes.vlines
        draw_ends(*zip(*whiskers, strict=True), color=COLOURS["ink"], linewidth=1.2)
    return handle


def swapped(points: tuple[Any, Any], horizontal: bool) -> tuple[Any, Any]:
    return (points[1], points[0]) if horizontal else points


def draw_box(axes: Axes, x: float, ys: Sequence[float], colour: str, *, horizontal: bool) -> None:
    """Draw the quartiles of the values as a box, with lines to the lowest and the highest value."""
    import numpy as np
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    low, first, middle, third, high = np.percentile(ys, [0, 25, 50, 75, 100]).tolist()
    one, other = x - 0.25, x + 0.25
    box = [(one, first), (one, third), (other, third), (other, first), (one, first)]
    lines = [box, [(x, low), (x, first)], [(x, third), (x, high)], [(one, middle), (other, middle)]]
    corners = [swapped(corner, horizontal) for line in lines for corner in line]
    codes = [code for line in lines for code in (Path.MOVETO, *[Path.LINETO] * (len(line) - 1))]
    axes.add_patch(PathPatch(Path(corners, codes), fill=False, edgecolor=colour, linewidth=1.5))
    axes.update_datalim(corners)
    axes.autoscale_view()


def draw_dots(axes: Axes, xs: Sequence[float], ys: Sequence[float], colour: str, width: float) -> Any:
    """Draw many marks as one path of round dots, which takes a tenth of the bytes of as many symbols."""
    import numpy as np
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corners = np.repeat(np.column_stack([xs, ys]), 2, axis=0)
    path = Path(corners, np.tile([Path.MOVETO, Path.LINETO], len(xs)))
    dots = PathPatch(path, fill=False, edgecolor=colour, linewidth=width, capstyle="round", alpha=0.6)
    axes.add_patch(dots)
    axes.update_datalim(corners)
    axes.autoscale_view()
    return dots


def set_axis(axes: Axes, name: str, axis: Axis, names: Sequence[str]) -> None:
    """Set the ends, ticks and title of an axis, "x" or "y"; names along y begin on top."""
    from matplotlib.ticker import MaxNLocator

    of_axes = axes.xaxis if name == "x" else axes.yaxis
    set_ends = axes.set_xlim if name == "x" else axes.set_ylim
    if axis.hidden:
        of_axes.set_visible(False)
        axes.spines["bottom" if name == "x" else "left"].set_visible(False)
    elif names:
        ticks = range(0, len(names), 1 if name == "y" else -(-len(names) // NAMES_UP_TO))
        of_axes.set_ticks(list(ticks), [written(names[tick], 24) for tick in ticks])
        of_axes.set_tick_params(length=0)
        ends = (-0.6, len(names) - 0.4)
        set_ends(*(ends[::-1] if name == "y" else ends))
        if name == "x" and sum(map(len, names)) > LETTERS_ACROSS:
            axes.tick_params("x", rotation=40)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")
        if name == "y":
            axes.spines["left"].set_visible(False)
    else:
        of_axes.grid(True)
        if axis.is_whole:
            of_axes.set_major_locator(MaxNLocator(integer=True))
    if axis.ends is not None:
        set_ends(*axis.ends)
    if axis.title and not axis.hidden:
        of_axes.set_label_text(axis.title)


# --- critical-difference diagrams -------------------------------------------------------------------------------------
# J. Demšar: Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006, figure 1.


BAR_STEP = 0.45  # between two bars, in rows
MARGIN = 0.4  # on either side of the axis, as a share of its length: for the names
ROW_PX = 24


def difference_figure(
    anchor: str,
    caption: str,
    description: str,
    mean_ranks: Mapping[str, float],
    cliques: Sequence[Sequence[str]],
    critical_difference: float | None,
) -> Figure:
    """From the axis down: a bar from the lowest to the highest mean rank of each clique, then names on lines.

    The better half hangs on the left, the best on top, the worst on top on the right: so lines to names never cross.
    Bars of a row do not touch. The axis covers the mean ranks there are, and a whole number at either end.
    """
    order = sorted(mean_ranks.items(), key=lambda item: (item[1], item[0]))
    low = int(min(mean_ranks.values(), default=1.0))
    high = max(low + 1, -int(-max(mean_ranks.values(), default=2.0) // 1))
    edge, left = MARGIN * (high - low), (len(order) + 1) // 2
    ticks = range(low, high + 1, -(-(high - low) // 12))
    series = [line([(low, 0), (high, 0)]), *(line([(tick, 0), (tick, 0.25)]) for tick in ticks)]
    labels = [Label(tick, 0.3, str(tick)) for tick in ticks]
    ends: list[float] = []  # of the last bar in each row
    of_cliques = [[mean_ranks[name] for name in names] for names in cliques if len(names) > 1]
    for begin, end in sorted((min(ranks), max(ranks)) for ranks in of_cliques):
        row = next((row for row, last in enumerate(ends) if last < begin), len(ends))
        ends[row : row + 1] = [end]
        series.append(line([(x, -0.6 - BAR_STEP * row) for x in (begin, end)], "@accent", 6))
    for index, (name, rank) in enumerate(order):
        place, x = (index, low - edge) if index < left else (len(order) - 1 - index, high + edge)
        y = -(1.5 + BAR_STEP * len(ends) + place)
        series.append(line([(rank, 0), (rank, y), (x, y)], width=1))
        labels.append(Label(x, y + 0.3, f"{rank:.2f}  {name}", "left" if index < left else "right"))
    if critical_difference is not None:  # above the axis; cut where the drawing ends
        end = low + min(critical_difference, high - low + edge)
        series.append(line([(low, 1.3), (low, 1.6), (low, 1.45), (end, 1.45), (end, 1.3), (end, 1.6)]))
        labels.append(Label(low, 2, f"critical difference {critical_difference:.2f}", "left"))
    dots = Series("", tuple(Dot(rank, 0.0, name) for name, rank in order), "@ink")
    x_axis = Axis("mean rank", (low - edge, high + edge), hidden=True)
    y_axis = Axis("row", (-(2 + BAR_STEP * len(ends) + max(left - 1, 0)), 2.4), hidden=True)
    height = round(ROW_PX * (y_axis.ends[1] - y_axis.ends[0])) + 20 if y_axis.ends else 0
    return Figure(anchor, caption, description, (*series, dots), x_axis, y_axis, labels=tuple(labels), height=height)


def line(points: Sequence[tuple[float, float]], colour: str = "@ink", width: float = 1.5) -> Series:
    return Series("", tuple(Dot(x, y) for x, y in points), colour, is_curve=True, width=width)
