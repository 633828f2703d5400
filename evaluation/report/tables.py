"""Results as tables for people in a shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from evaluation.model import AggregationUnit, MetricScores, RasterisationReport, UnitMean

HEADLINES: dict[str, tuple[tuple[str, ...], ...]] = {
    "Finding the nuclei": (("detection", "precision"), ("detection", "recall"), ("detection", "f1")),
    "Naming those found": (("classification", "balanced_accuracy"), ("classification", "accuracy")),
    "Outlining those found": (
        ("segmentation", "iou_class_mean"),
        ("segmentation", "dice_class_mean"),
        ("segmentation", "hausdorff_px"),
    ),
    "All in one number": (("panoptic", "pq"), ("panoptic", "sq"), ("panoptic", "rq")),
}


def shown(mean: UnitMean) -> str:
    return f"{mean.score.value:.4f}" if mean.score.value is not None else f"– ({mean.score.undefined})"


MEANS = {"pooled": "pooled", "group": "group mean", "case": "case mean"}


def score_table(scores: Sequence[MetricScores], title: str, *, unit: AggregationUnit) -> Table:
    """The headline scores of one submission: three skills apart, panoptic quality beside them; ``unit`` comes first."""
    order = sorted(MEANS, key=lambda kind: kind != unit)
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for kind in order:
        table.add_column(MEANS[kind], justify="right")
    by_path = {metric.path: metric for metric in scores}
    for skill, paths in HEADLINES.items():
        present = [by_path[path] for path in paths if path in by_path]
        if present:
            table.add_row(f"[bold]{skill}[/bold]")
        for metric in present:
            arrow = "↓" if metric.better == "lower" else "↑"
            means = {"pooled": metric.pooled, "group": metric.group_mean, "case": metric.case_mean}
            table.add_row(f"  {'.'.join(metric.path)} {arrow}", *(shown(means[kind]) for kind in order))
    return table


def comparison_table(teams: Mapping[str, Sequence[MetricScores]], aggregation: str, title: str) -> Table:
    """Several submissions side by side, a column each; the best value of a row stands out."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for team in teams:
        table.add_column(team, justify="right")
    by_team = {team: {metric.path: metric for metric in scores} for team, scores in teams.items()}
    for skill, paths in HEADLINES.items():
        table.add_row(f"[bold]{skill}[/bold]")
        for path in paths:
            metrics = [of_team[path] for of_team in by_team.values()]
            means: list[UnitMean] = [getattr(metric, aggregation) for metric in metrics]
            values = [mean.score.value for mean in means if mean.score.value is not None]
            best = (min if metrics[0].better == "lower" else max)(values) if values else None
            arrow = "↓" if metrics[0].better == "lower" else "↑"
            cells = [f"[bold green]{shown(mean)} ★[/]" if mean.score.value == best else shown(mean) for mean in means]
            table.add_row(f"  {'.'.join(path)} {arrow}", *cells)
    return table


def rasterisation_table(reports: Mapping[str, RasterisationReport], *, outlines: bool = True) -> Table:
    """What happened when outlines became pixels, a row for each case.

    outlines   False: the reference holds pixels, so that nothing of it can vanish, cross itself or reach outside
    """
    table = Table(title="Rasterisation of the reference", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("case")
    of_pixels = ("outlines" if outlines else "nuclei", "ignore regions", "contested px", "lost pixels", "lost whole")
    of_outlines = ("vanished", "self-intersecting", "reach outside", "holes", "multi-part") if outlines else ()
    for heading in (*of_pixels, *of_outlines):
        table.add_column(heading, justify="right")
    for case, report in reports.items():
        numbers = (
            report.outlines,
            report.ignore_outlines,
            report.contested_px,
            report.outlines_that_lost_pixels,
            len(report.outlines_lost_whole),
            len(report.outlines_vanished),
            report.outlines_self_intersecting,
            report.outlines_outside,
            report.outlines_with_holes,
            report.outlines_multi_part,
        )
        cells = [f"{number:,}" if number is not None else "–" for number in numbers]
        table.add_row(case, *cells[: len(table.columns) - 1])
    return table
