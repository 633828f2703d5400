"""What commands print: tables, findings, progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from evaluation.commands.options import writing_to
from evaluation.findings import Finding, fault, render_findings
from evaluation.findings.errors import WrongUsage

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from evaluation.leaderboard.document import Board
    from evaluation.report.page import Page


class Advance(Protocol):
    """Moves a bar; ``words`` stand behind it."""

    def __call__(self, done: int, total: int, words: str = "", /) -> None: ...


@contextmanager
def progress_bar(label: str) -> Iterator[Advance | None]:
    """A progress bar on a terminal; silence elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}")
    with Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bar:  # no thread: forks
        task = bar.add_task(label, total=None, words="")

        def advance(done: int, total: int, words: str = "", /) -> None:
            bar.update(task, completed=done, total=total, words=words, refresh=True)

        yield advance


def tell(line: str) -> None:
    """A line that is no result."""
    click.echo(line, err=True)


def show(part: RenderableType) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(part)


def check_report(wanted: bool, *output: Path | None) -> None:
    """Before anything is scored: raise WrongUsage if a page is wanted and cannot be written, or has no folder."""
    if wanted:
        from evaluation.report.html import require_extra

        if None in output:
            raise WrongUsage(fault("missing-option", "--output", wording="no-folder-for-pages"))
        require_extra()


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def show_board(
    board: Board,
    output: Path,
    *,
    report: bool,
    metrics: Mapping[str, Path] | None = None,
) -> None:
    """Write a leaderboard and print what its page begins with.

    metrics   the metrics.json of each team; None: those that ``leaderboard`` keeps
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
        page = leaderboard_page(document, results=results)
        if report:
            write_page(page, output / "leaderboard.html")
    show_sections(page, "places", "moves")
    if results:
        show(team_grid(document, results))
    show_sections(page, "common")
    show_lines([board.words, *board.findings, *board.alike.lines()])
    click.echo(f"Written to {output}: leaderboard.json, leaderboard.csv{', leaderboard.html' if report else ''}")


def show_sections(page: Page, *anchors: str) -> None:
    """Print the texts and tables of some sections of a page."""
    from evaluation.report.terminal import section_renderables

    for section in (section for section in page.sections if section.anchor in anchors):
        for part in section_renderables(section):
            show(part)


def show_findings(findings: Iterable[Finding]) -> None:
    show_lines(render_findings(findings))


def finding_document(finding: Finding) -> dict[str, object]:
    fields = ("code", "severity", "where", "got", "expected", "fix", "count")
    return {name: getattr(finding, name) for name in fields}
