"""The curve of quality against coverage: how good the best share of the reference nuclei is, for every share."""

from __future__ import annotations

from evaluation.leaderboard.titles import metric_title
from evaluation.report.page import Axis, Block, Dot, Section, Series
from evaluation.report.plots import plot, series_colour
from evaluation.report.result import ResultDocuments


def coverage_section(result: ResultDocuments) -> Section | None:
    """A plot for the scores and one for each unit of the distances; None where details.json has no curves."""
    curves = result.details.get("coverage_curves") if result.details is not None else None
    if curves is None:
        return None
    found = curves["rules"].get(result.rule, {})
    known = {name: values for name, values in found.items() if None not in values}
    chosen = {name: of for name, of in known.items() if name.endswith("_class_mean")} or known
    blocks: list[Block] = []
    units = {name: name.removesuffix("_class_mean").rpartition("_")[2] for name in chosen}
    for unit in ("", "px", "um"):
        names = [name for name in chosen if (units[name] if units[name] in ("px", "um") else "") == unit]
        if not names:
            continue
        at = [curves["coverage"].index(share) for share in (0.5, 1.0)]
        ends = "; ".join(
            f"{metric_title(name)} {chosen[name][at[0]]:.3f} over the better half, {chosen[name][at[1]]:.3f} over all"
            for name in names
        )
        series = [
            Series(
                metric_title(name),
                tuple(map(Dot, curves["coverage"], chosen[name])),
                series_colour(index),
                "lines",
            )
            for index, name in enumerate(names)
        ]
        title = f"distance, {unit}" if unit else "score"
        words = "A missed nucleus counts the worst value: where a curve bends, the nuclei that were found end."
        blocks.append(
            plot(
                f"coverage-{unit or 'scores'}",
                f"{title.capitalize()} over the best share of the reference nuclei",
                f"{words} {ends}.",
                series,
                x=Axis("share of the reference nuclei", (0, 1)),
                y=Axis(title, None if unit else (0, 1)),
            )
        )
    lead = (
        "Of all reference nuclei, pooled, the best share counts, from a twentieth to all of them. A curve that stays "
        "flat to the end belongs to outlines that are alike; one that drops early to few nuclei that were found."
    )
    return Section("coverage", "Quality against coverage", tuple(blocks), lead) if blocks else None
