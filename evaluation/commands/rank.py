"""evaluation rank: rank teams that are scored already."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from evaluation.commands.options import (
    Before,
    BoardReport,
    FolderPath,
    PathOrAddress,
    ScoreColumns,
    challenge_folder,
    local,
    open_output,
)
from evaluation.commands.screen import check_report, progress_bar, show_board


@click.command()
@click.option("--challenge", type=PathOrAddress, help="Folder with challenge.toml and cases.csv; needed for --results.")
@click.option("--results", type=PathOrAddress, help="Folder with metrics.json (and details.json) of every team.")
@click.option("--scores", type=FolderPath, help="CSV with the columns team, case, group, metric, value.")
@ScoreColumns
@click.option("--output", type=PathOrAddress, required=True, help="Folder for the leaderboard.")
@Before
@BoardReport
def rank(
    challenge: Path | str | None,
    results: Path | str | None,
    scores: Path | None,
    columns: tuple[str, ...],
    settings: tuple[str, ...],
    unit: Literal["group", "case"],
    output: Path | str,
    report: bool,
    before: Path | None,
) -> None:
    """Rank teams that are scored already: result folders, files of the platform, or a CSV of scores."""
    from evaluation.leaderboard.rank_given import rank_given
    from evaluation.leaderboard.teams import ResultFolder

    opened = open_output(output)
    check_report(report)
    folder = challenge_folder(challenge) if challenge else None
    found = local(results) if results else None
    with progress_bar("Testing columns") as progress:
        board = rank_given(
            folder,
            results=found,
            scores=scores,
            columns=columns,
            settings=settings,
            unit=unit,
            before=before,
            progress=progress,
        )
    files = ResultFolder(found).metrics() if found else None
    show_board(board, opened, report=report, metrics=files)
