"""Lines of teams over rules side by side: where each would stand under which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluation.leaderboard.document import shown
from evaluation.report.figures import Dot, Series, line_figure, series_colour, shorten
from evaluation.report.page import Figure

RULES_UP_TO = 8  # told in words
NAMES_UP_TO = 30  # characters of the names of teams that share a place


def rank_lines(
    anchor: str,
    caption: str,
    *,
    rules: Sequence[str],
    teams: Sequence[str],
    ranks: Sequence[Sequence[float | None]],
    note: str = "",
    is_published: bool = True,
) -> Figure:
    """A line for each team, rank 1 on top.

    rules  side by side
    teams  as they are written beside the plot, from the first place to the last
    ranks  a row for each team; None: not ranked
    note   stands before what the figure shows in words
    is_published  the first rule is the one that holds: its places have the names of the teams beside them
    """
    series = [
        Series(
            team,
            tuple(Dot(rule, rank, f"{team}\n{rule}: {shown(rank)}") for rule, rank in zip(rules, of, strict=True)),
            series_colour(place),
        )
        for place, (team, of) in enumerate(zip(teams, ranks, strict=True))
    ]
    told = [f"{team} {', '.join(map(shown, of))}" for team, of in zip(teams[:3], ranks, strict=False)]
    words = f"From left to right: {', '.join(rules)}. {'; '.join(told)}."
    if len(rules) > RULES_UP_TO:
        words = f"{len(rules)} sets of rules side by side; all places stand in the numbers below."
    lowest = max((rank for of in ranks for rank in of if rank is not None), default=1)
    figure = line_figure(
        anchor,
        caption,
        f"{note} {words}".strip(),
        series,
        y_reversed=True,
        height=min(max(380, 200 + 22 * round(lowest)), 2200),  # names of neighbours stay apart
    )
    at: dict[float, list[str]] = {}
    for team, of in zip(teams, ranks, strict=True):
        if of[0] is not None:
            at.setdefault(of[0], []).append(team)
    if not is_published or not at:
        return figure
    names = [f"{shorten(', '.join(teams), NAMES_UP_TO)}  {shown(place)}" for place, teams in at.items()]
    axis = {**figure.layout["yaxis"], "tickvals": list(at), "ticktext": names, "automargin": True}
    return replace(figure, layout={**figure.layout, "yaxis": axis, "showlegend": False})
