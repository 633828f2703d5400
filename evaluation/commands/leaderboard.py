"""evaluation leaderboard: score all teams and rank them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluation.commands.options import (
    Attempts,
    BoardReport,
    Cluster,
    FolderPath,
    PathOrAddress,
    Workers,
    challenge_folder,
    output_folder,
    writing_to,
)
from evaluation.commands.screen import check_report, progress_bar, show_board, tell_team

if TYPE_CHECKING:
    from evaluation.leaderboard.attempts import Counting


@click.command()
@click.option(
    "--challenge", type=PathOrAddress, required=True, help="Folder with challenge.toml, cases.csv, reference."
)
@click.option(
    "--submissions", type=PathOrAddress, required=True, help="Folder with a folder, ZIP or CSV for each team."
)
@click.option("--output", type=FolderPath, required=True, help="Folder for the leaderboard, and results that are kept.")
@click.option(
    "--store", type=FolderPath, help="Folder that gets the metrics.json of each ranked team, for the next phase."
)
@Attempts
@BoardReport
@Cluster
@Workers
def leaderboard(
    challenge: Path | str,
    submissions: Path | str,
    output: Path,
    store: Path | None,
    workers: int | None,
    cluster: str | None,
    report: bool,
    attempts: Counting | None,
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
    if report:
        check_report()
    with connect(cluster) as executor, progress_bar("Scoring teams") as progress, writing_to(output):
        board = score_and_rank(
            challenge_folder(challenge, cluster, output),
            submissions,
            output,
            workers=workers,
            progress=progress,
            told=None if progress else tell_team,
            executor=executor,
            attempts=attempts,
        )
    show_board(board, output, report=False)
    if report:
        from evaluation.report.folder import report_board

        with progress_bar("Drawing") as progress, writing_to(output):
            folder = challenge_folder(challenge, cluster, output)
            written = report_board(output, board, folder, submissions, workers=workers, progress=progress)
        click.echo(f"{len(written):,} pages: open {output / written[0]} in a browser")
    if store is not None:
        from evaluation.leaderboard.board import store_results

        with writing_to(store):
            store_results(board, output, output_folder(store))
        click.echo(f"Stored in {store}: the results of {len(board.teams)} teams")
