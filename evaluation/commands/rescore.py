"""evaluation rescore: score all teams again after an erratum."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, Workers, challenge_folder, output_folder, writing_to
from evaluation.commands.progress import submissions_progress
from evaluation.commands.screen import check_report, show_lines, show_sections


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder of the challenge as it is now.")
@click.option("--submissions", type=FolderPath, required=True, help="Folder with a folder, ZIP or CSV for each team.")
@click.option("--before", type=FolderPath, required=True, help="What 'leaderboard' wrote before the erratum.")
@click.option("--output", type=FolderPath, required=True, help="Folder for the new leaderboard and rescore.json.")
@click.option("--report", is_flag=True, help="Write rescore.html as well, to be opened in a browser.")
@Workers
def rescore(challenge: Path, submissions: Path, before: Path, output: Path, report: bool, workers: int | None) -> None:
    """Score all teams again with a corrected reference or rule: old beside new, who moves and why, both hashes."""
    from evaluation.leaderboard.alike import alike_lines
    from evaluation.leaderboard.attempts import decided_in
    from evaluation.leaderboard.board import score_and_rank, write_board
    from evaluation.leaderboard.rescore import RESCORE_FILE, read_before, rescore_document
    from evaluation.report.rescore import rescore_page
    from evaluation.report.results_folder import write_page
    from evaluation.results.files import write_atomically
    from evaluation.results.metrics_json import as_json

    output_folder(output)
    check_report(report)
    published = read_before(before)
    folder = challenge_folder(challenge)
    with submissions_progress("Scoring", None) as progress, writing_to(output):
        board = score_and_rank(
            folder,
            submissions,
            output,
            workers=workers,
            progress=progress.progress,
            note=progress.note,
            attempts=decided_in(published.board),
        )
        write_board(output, board)
        document = rescore_document(published, board, output)
        write_atomically(output / RESCORE_FILE, as_json(document))
        page = rescore_page(document)
        if report:
            write_page(page, output / "rescore.html")
    show_sections(page, *(section.anchor for section in page.sections))
    show_lines(alike_lines(board))
    click.echo(
        f"Written to {output}: leaderboard.json, leaderboard.csv, {RESCORE_FILE}{', rescore.html' if report else ''}"
    )
