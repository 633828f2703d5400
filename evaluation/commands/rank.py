"""evaluation rank: rank teams that are scored already."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from evaluation.commands.options import (
    Before,
    BoardReport,
    FolderPath,
    ScoreColumns,
    challenge_folder,
    output_folder,
)
from evaluation.commands.screen import check_report, progress_bar, show_board


@click.command()
@click.option("--challenge", type=FolderPath, help="Folder with challenge.toml and cases.csv; needed for --results.")
@click.option("--results", type=FolderPath, help="Folder with metrics.json (and details.json) of every team.")
@click.option("--scores", type=FolderPath, help="CSV with the columns team, case, group, metric, value.")
@ScoreColumns
@click.option("--output", type=FolderPath, required=True, help="Folder for the leaderboard.")
@Before
@BoardReport
def rank(
    challenge: Path | None,
    results: Path | None,
    scores: Path | None,
    columns: tuple[str, ...],
    settings: tuple[str, ...],
    unit: Literal["group", "case"],
    output: Path,
    report: bool,
    before: Path | None,
) -> None:
    """Rank teams that are scored already: result folders, files of the platform, or a CSV of scores."""
    from evaluation.leaderboard.rank_given import rank_given
    from evaluation.leaderboard.teams import ResultFolder

    output_folder(output)
    check_report(report)
    folder = challenge_folder(challenge) if challenge else None
    with progress_bar("Testing columns") as progress:
        board = rank_given(
            folder,
            results=results,
            scores=scores,
            columns=columns,
            settings=settings,
            unit=unit,
            before=before,
            progress=progress,
        )
    files = ResultFolder(results).metrics() if results else None
    show_board(board, output, report=report, metrics=files)
