"""Results as tables for people in a shell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.table import Table

from evaluation.model import AggregationUnit, Better, Interval, MetricScores, RasterisationReport, UnitMean
from evaluation.report.result import is_lower_better
from evaluation.report.shown import names_apart, visible

HEADLINES: dict[str, tuple[tuple[str, ...], ...]] = {
    "Detection": (("detection", "precision"), ("detection", "recall"), ("detection", "f1")),
    "Classification": (("classification", "balanced_accuracy"), ("classification", "accuracy")),
    "Segmentation": (
        ("segmentation", "iou_class_mean"),
        ("segmentation", "dice_class_mean"),
        ("segmentation", "hausdorff_px"),
    ),
    "Panoptic quality": (("panoptic", "pq"), ("panoptic", "sq"), ("panoptic", "rq")),
    "Counting": (("counting", "r2"), ("counting", "mean_absolute_error")),
}

ALL_SKILLS: dict[str, tuple[tuple[str, ...], ...]] = {  # the same with the families that count every nucleus
    "Detection": (("detection", "precision"), ("detection", "recall"), ("detection", "f1")),
    "Classification, of matched nuclei": (("classification", "balanced_accuracy"), ("classification", "accuracy")),
    "Segmentation, of matched nuclei": (
        ("segmentation", "iou"),
        ("segmentation", "dice"),
        ("segmentation", "hausdorff_px"),
    ),
    "Overall, missed and spurious nuclei at the worst": (
        ("overall", "accuracy"),
        ("overall", "iou"),
        ("overall", "hausdorff_px"),
    ),
    "Panoptic quality": (("panoptic", "pq"), ("panoptic", "sq"), ("panoptic", "rq")),
    "Counting": (("counting", "r2"), ("counting", "mean_absolute_error")),
}


def shown(mean: UnitMean) -> str:
    return f"{mean.score.value:.4f}" if mean.score.value is not None else f"– ({mean.score.undefined})"


def shown_interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{interval.low:.4f} to {interval.high:.4f}" if interval.reason is None else f"– ({interval.reason})"


NO_INTERVALS: Mapping[tuple[str, ...], Interval] = {}
MEANS = {"pooled": "pooled", "group_mean": "group mean", "case_mean": "case mean", "stratum_mean": "stratum mean"}
MEANS |= {"worst_group": "worst group", "worst_stratum": "worst stratum"}
ARROWS: dict[Better, str] = {"higher": "↑", "lower": "↓", "one": "→1"}


def score_table(
    scores: Sequence[MetricScores],
    title: str,
    *,
    unit: AggregationUnit,
    intervals: Mapping[tuple[str, ...], Interval] = NO_INTERVALS,
    level: float = 0.0,
) -> Table:
    """The headline scores of one submission: three skills apart, panoptic quality beside them; ``unit`` comes first.

    intervals   by the path of the number, for the first column of numbers; none: no such column
    level       of the intervals
    """
    order = sorted(scores[0].means, key=lambda name: not name.startswith(unit))
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for kind in order:
        table.add_column(MEANS[kind], justify="right")
        if intervals and kind == order[0]:
            table.add_column(f"{100 * level:g} % interval")

    def cells(metric: MetricScores) -> list[str]:
        found = [shown(metric.means[kind]) for kind in order]
        interval = [shown_interval(intervals.get((*metric.path, order[0])))] if intervals else []
        return [*found[:1], *interval, *found[1:]]

    add_headlines(table, {metric.path: metric for metric in scores}, cells, ALL_SKILLS)
    return table


def add_headlines(
    table: Table,
    metrics: Mapping[tuple[str, ...], MetricScores],
    cells: Callable[[MetricScores], Sequence[str]],
    skills: Mapping[str, tuple[tuple[str, ...], ...]] = HEADLINES,
) -> None:
    """A line for each skill, and a row for each of its metrics that there is."""
    for skill, paths in skills.items():
        present = [metrics[path] for path in paths if path in metrics]
        if present:
            table.add_row(f"[bold]{skill}[/bold]")
        for metric in present:
            table.add_row(f"  {'.'.join(metric.path)} {ARROWS[metric.better]}", *cells(metric))


def comparison_table(teams: Mapping[str, Sequence[MetricScores]], aggregation: str, title: str) -> Table:
    """Several submissions side by side, a column each; the best value of a row stands out."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    for team in teams:
        table.add_column(team, justify="right")
    by_team = [{metric.path: metric for metric in scores} for scores in teams.values()]

    def cells(metric: MetricScores) -> list[str]:
        means = [of_team[metric.path].means[aggregation] for of_team in by_team]
        values = [mean.score.value for mean in means if mean.score.value is not None]
        best = (min if metric.better == "lower" else max)(values, default=None)
        return [f"[bold green]{shown(mean)} ★[/]" if mean.score.value == best else shown(mean) for mean in means]

    common = {path: metric for path, metric in by_team[0].items() if all(path in of_team for of_team in by_team)}
    add_headlines(table, common, cells)
    return table


def side_by_side_table(
    names: Sequence[str],
    rows: Sequence[tuple[str, str, Sequence[tuple[float | None, tuple[float, float] | None]]]],
) -> Table:
    """Models side by side with their intervals; the best value of a row stands out.

    rows  skill, path in metrics.json, and of each model the value and its interval
    """
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(visible(name), justify="right")
    skill_above = ""
    for skill, path, cells in rows:
        if skill != skill_above:
            table.add_row(f"[bold]{skill}[/bold]")
            skill_above = skill
        lower = is_lower_better(path)
        values = [value for value, _ in cells if value is not None]
        best = (min if lower else max)(values, default=None) if len(cells) > 1 else None
        shown_cells = []
        for value, ends in cells:
            interval = f" [dim]{ends[0]:.3f}–{ends[1]:.3f}[/]" if ends else ""
            plain = "–" if value is None else f"{value:.4f}"
            shown_cells.append(
                f"[bold green]{plain} ★[/]{interval}" if value is not None and value == best else plain + interval
            )
        table.add_row(f"  {path} {'↓' if lower else '↑'}", *shown_cells)
    return table


def rasterisation_table(reports: Mapping[str, RasterisationReport], *, outlines: bool = True) -> Table:
    """What happened when outlines became pixels, a row for each case.

    outlines   False: the reference holds pixels, so that nothing of it can vanish, cross itself or reach outside
    """
    table = Table(title="Rasterisation of the reference", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("case", overflow="fold")
    of_pixels = ("outlines" if outlines else "nuclei", "ignore regions", "contested px", "lost pixels", "lost whole")
    of_outlines = ("vanished", "self-intersecting", "reach outside", "holes", "multi-part") if outlines else ()
    for heading in (*of_pixels, *of_outlines):
        table.add_column(heading, justify="right")
    for case, report in zip(names_apart(list(reports)), reports.values(), strict=True):
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
        table.add_row(visible(case), *cells[: len(table.columns) - 1])
    return table
