"""The numbers of a plot as a table, for those who do not see it or want to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

from evaluation.report.figures import shown_number
from evaluation.report.page import Figure

ROWS, COLUMNS = 200, 40


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a plot as a table: texts, and of each row where it leads ("" or "#anchor")."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    links: tuple[str, ...]
    left_out: int


def tabulate(figure: Figure) -> Numbers:
    """The marks of a plot, row by row; of a heat map, its rows."""
    if any(trace.get("type") == "heatmap" for trace in figure.traces):
        return tabulate_heat_map(figure.traces[0])
    titles = ["Series", *map(partial(axis_title, figure), "xy"), "Note"]
    marks, links = [], []
    for trace in figure.traces:
        hover = trace.get("hovertext", trace.get("text", ()))
        to = trace.get("customdata", ()) if (trace.get("meta") or {}).get("links") else ()
        columns = [trace.get("x", ()), trace.get("y", ()), [hover] if isinstance(hover, str) else hover, to]
        for x, y, note, link in zip_longest(*columns):
            if x is not None and y is not None and trace.get("hoverinfo") != "skip":
                marks.append((trace.get("name", ""), shown_number(x), shown_number(y), note or ""))
                links.append(link or "")
    kept = [index for index in range(4) if any(mark[index] for mark in marks)]
    names = {mark[0] for mark in marks}
    if len(names) == 1 or all(mark[0] in mark[1:3] for mark in marks):
        kept = [index for index in kept if index]
    rows = tuple(tuple(mark[index].replace("\n", "; ") for index in kept) for mark in marks[:ROWS])
    return Numbers(tuple(titles[index] for index in kept), rows, tuple(links[:ROWS]), len(marks) - len(rows))


def tabulate_heat_map(trace: Mapping[str, Any]) -> Numbers:
    heads = trace["x"][:COLUMNS]
    rows = tuple(
        (str(name), *(shown_number(value) for value in values[:COLUMNS]))
        for name, values in zip(trace["y"], trace["z"], strict=True)
    )
    left_out = sum(map(len, trace["z"])) - sum(len(row) - 1 for row in rows[:ROWS])
    return Numbers(("", *map(str, heads)), rows[:ROWS], ("",) * len(rows[:ROWS]), left_out)


def axis_title(figure: Figure, name: str) -> str:
    axis = figure.layout.get(f"{name}axis", {})
    title = axis.get("title", "")
    text = title.get("text", "") if isinstance(title, Mapping) else title
    return str(text) or ("Name" if axis.get("type") == "category" else name)
