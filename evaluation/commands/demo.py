"""evaluation demo: a made challenge with three teams."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, Workers, output_folder, writing_to
from evaluation.commands.screen import check_report, progress_bar, show, show_lines, show_sections


@click.command()
@click.option("--output", type=FolderPath, help="Folder to keep the made challenge and the results in.")
@click.option("--report", is_flag=True, help="Write pages as well; leaderboard.html leads to all of them.")
@Workers
def demo(output: Path | None, report: bool, workers: int | None) -> None:
    """Make a challenge with three teams, score them, and see why one number is not enough."""
    from evaluation.authoring.demo import TITLE, run_demo

    check_report(report, output)
    with progress_bar("Scoring three teams") as progress:
        outcome = run_demo(output_folder(output) if output else None, workers=workers, progress=progress)
    from evaluation.leaderboard.document import leaderboard_document
    from evaluation.report.leaderboard import leaderboard_page
    from evaluation.report.result import ResultDocuments
    from evaluation.report.terminal import skill_grid

    columns = {team: (ResultDocuments(metrics), "group_mean") for team, metrics in outcome.results.items()}
    show(skill_grid(columns, TITLE))
    show_lines(outcome.lines())
    click.echo()
    show_sections(leaderboard_page(leaderboard_document(outcome.board)), "places")
    show_lines(outcome.closing_lines())
    if report and outcome.folder is not None:
        from evaluation.report.folder import report_board

        with progress_bar("Drawing") as progress, writing_to(outcome.folder):
            folders = (outcome.folder / "challenge", outcome.folder / "submissions")
            written = report_board(outcome.folder, outcome.board, *folders, workers=workers, progress=progress)
        click.echo(f"{len(written):,} pages: open {outcome.folder / written[0]} in a browser")
