"""What commands print: tables, findings, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluation.findings import Finding, quote, render_findings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evaluation.leaderboard.document import Board
    from evaluation.report.page import Page
from evaluation.commands.options import writing_to


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on a terminal; silence elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:  # no thread: see forks.py
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, refresh=True)

        yield advance


def show(part: RenderableType) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(part)


def check_report() -> None:
    """Tell before anything is scored that no report can be written."""
    from evaluation.report.html import require_extra

    require_extra()


def show_board(
    board: Board,
    output: Path,
    *,
    report: bool,
    metrics: Mapping[str, Path] | None = None,
    classes: Sequence[str] = (),
) -> None:
    """Write a leaderboard and print what its page begins with.

    metrics   the metrics.json of each team; None: those that ``leaderboard`` keeps
    classes   in the order of the challenge
    """
    from evaluation.leaderboard.board import write_board
    from evaluation.leaderboard.document import leaderboard_document
    from evaluation.report.leaderboard import leaderboard_page
    from evaluation.report.results_folder import write_page
    from evaluation.report.skills import read_results, results_in
    from evaluation.report.terminal import team_grid

    document = leaderboard_document(board)
    with writing_to(output):
        write_board(output, board)
        results = read_results(output, document) if metrics is None else results_in(metrics, document)
        page = leaderboard_page(document, results=results, classes=classes)
        if report:
            write_page(page, output / "leaderboard.html")
    show_sections(page, "places")
    if results:
        show(team_grid(document, results))
    show_sections(page, "common")
    for line in [board.words, *board.findings]:
        click.echo(line)
    click.echo(f"Written to {output}: leaderboard.json, leaderboard.csv{', leaderboard.html' if report else ''}")


def show_sections(page: Page, *anchors: str) -> None:
    """Print the texts and tables of some sections of a page."""
    from evaluation.report.terminal import section_renderables

    for section in (section for section in page.sections if section.anchor in anchors):
        for part in section_renderables(section):
            show(part)


def tell_team(name: str, outcome: str) -> None:
    """A line on what became of a team, where no progress bar can be shown."""
    click.echo(f"{quote(name)}: {outcome}", err=True)


def show_findings(findings: Iterable[Finding]) -> None:
    for line in render_findings(findings):
        click.echo(line)


def finding_document(finding: Finding) -> dict[str, object]:
    fields = ("code", "severity", "where", "got", "expected", "fix", "count")
    return {name: getattr(finding, name) for name in fields}
