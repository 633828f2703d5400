"""The page of a plan: how many patients tell teams apart, which rules fit the nuclei, the proposed challenge.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.analysis.plan import MADE, NUMBERS, few_groups, noise_words
from evaluation.leaderboard.titles import titles_by_path
from evaluation.ranking.differences import POWER
from evaluation.report.documents import document_page
from evaluation.report.listing import table_of
from evaluation.report.page import Cell, Column, Page, Section, Text
from evaluation.report.plots import Axis, Dot, Series, plot, series_colour


def plan_page(document: Mapping[str, Any], proposed: str) -> Page:
    """The page of the content of a plan.json; ``proposed``: the text of challenge.toml."""
    sections = [power_section(document), fit_section(document, proposed)]
    subtitle = f"How many patients tell {document['teams']} teams apart, from {document['pilot']}"
    return document_page("plan", document, sections, subtitle=subtitle)


def power_section(document: Mapping[str, Any]) -> Section:
    columns = document["columns"]
    names = titles_by_path([of["path"] for of in columns])
    noise = noise_words(document)
    few = few_groups(document)
    texts = [] if few else [Text((noise or "No column is too noisy.",), "warning" if noise else "good")]
    texts += [Text((MADE,), "warning")] if document["pilot"] == "made teams" else []
    lines = [
        Series(
            names[of["path"]],
            tuple(Dot(groups, power) for groups, power in zip(document["numbers"], of["power"], strict=True)),
            series_colour(index),
            "lines",
        )
        for index, of in enumerate(columns)
    ]
    described = "; ".join(f"{names[of['path']]} {needed(of)}" for of in columns)
    figure = (
        Text((few,), "warning")
        if few
        else plot(
            "power-by-groups",
            "Probability that a team ahead by the margin is called better",
            f"Groups that are needed for a probability of {POWER}: {described}.",
            lines,
            x=Axis("groups (patients)", is_log=True),
            y=Axis("power", (0, 1.02)),
        )
    )
    table = table_of(
        "columns",
        "Columns of the ranking",
        columns,
        Column("column", of=lambda of: names[of["path"]]),
        Column("margin", 4, "by which teams are to be told apart", "margin"),
        Column(
            "one pixel", 4, "what eroding, dilating or shifting the reference by a pixel changes at most", "one_pixel"
        ),
        Column("annotators", 4, "what another annotator as the reference changes, the mean", "annotators"),
        Column("spread", 4, "standard deviation of paired differences over groups", "spread"),
        Column("groups needed", 0, f"for a power of {POWER}", lambda of: Cell(of["needed"], needed(of))),
        Column("smallest difference", 4, f"that {document['groups']} groups find with this power", "smallest"),
        Column("", of=lambda of: Cell("too noisy", tone="warning") if of["noisy"] else ""),
    )
    return Section("power", "How many patients", (*texts, figure, table))


def needed(of: Mapping[str, Any]) -> str:
    return "" if of["spread"] is None else str(of["needed"] or f"more than {NUMBERS[-1]}")


def fit_section(document: Mapping[str, Any], proposed: str) -> Section:
    texts = [Text(tuple(document["fit"]) or ("Nothing is known of the size of the nuclei.",))]
    if document["not_proposed"]:
        texts.append(Text(tuple(f"Not proposed: {reason}" for reason in document["not_proposed"]), "warning"))
    rules = "\n".join(line for line in proposed.splitlines() if line[:1] != "#").strip()
    written = Text((rules,), is_code=True)
    lead = "Which rules fit the nuclei, and the challenge.toml that follows."
    return Section("fit", "Proposed rules", (*texts, written), lead)
