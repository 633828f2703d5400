"""evaluation leaderboard: score all teams and rank them."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import (
    Before,
    BoardReport,
    Cluster,
    FolderPath,
    ReferenceFolder,
    Workers,
    challenge_folder,
    output_folder,
    writing_to,
)
from evaluation.commands.progress import Log, submissions_progress
from evaluation.commands.screen import check_report, progress_bar, show_board


@click.command()
@ReferenceFolder
@click.option("--submissions", type=FolderPath, required=True, help="Folder with a folder, ZIP or CSV for each team.")
@click.option("--output", type=FolderPath, required=True, help="Folder for the leaderboard, and results that are kept.")
@click.option(
    "--store", type=FolderPath, help="Folder that gets the metrics.json of each ranked team, for the next phase."
)
@Before
@BoardReport
@Cluster
@Log
@Workers
def leaderboard(
    challenge: Path,
    submissions: Path,
    output: Path,
    store: Path | None,
    workers: int | None,
    cluster: str | None,
    log: Path | None,
    report: bool,
    before: Path | None,
) -> None:
    """Score all teams and rank them: leaderboard.json, leaderboard.csv and a table.

    With --report there are pages as well: leaderboard.html leads to one for each team and each case.

    Results are kept in OUTPUT/results: a second call scores what is new or has changed, an interrupted one goes on.
    A team whose submission is rejected stays in the table, with the reason. What --store writes belongs into the folder
    leaderboard/ of the challenge: 'score' then ranks a submission among these results.
    """
    from evaluation.execution.cluster import connect
    from evaluation.leaderboard.board import score_and_rank

    output_folder(output)
    check_report(report)
    with (
        submissions_progress("Scoring", log) as progress,
        connect(cluster, progress.say) as executor,
        writing_to(output),
    ):
        board = score_and_rank(
            challenge_folder(challenge),
            submissions,
            output,
            workers=workers,
            progress=progress.progress,
            note=progress.note,
            executor=executor,
            before=before,
        )
    show_board(board, output, report=False)
    if report:
        from evaluation.report.folder import report_board

        with progress_bar("Drawing") as drawn, writing_to(output):
            written = report_board(
                output, board, challenge_folder(challenge), submissions, workers=workers, progress=drawn
            )
        click.echo(f"{len(written):,} pages: open {output}/{written[0]} in a browser")
    if store is not None:
        from evaluation.leaderboard.board import store_results

        with writing_to(store):
            store_results(board, output, output_folder(store))
        click.echo(f"Stored in {store}: the results of {len(board.teams)} teams")
