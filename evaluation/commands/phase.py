"""evaluation phase: the settings of the platform's phase."""

from __future__ import annotations

import json
from pathlib import Path

import click

from evaluation.commands.options import FolderPath, challenge_folder


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml and cases.csv.")
def phase(challenge: Path) -> None:
    """Print the settings of the platform's phase that belong to [ranking], as JSON, and what they mean."""
    from evaluation.findings import render_findings
    from evaluation.leaderboard.board import load_ranked
    from evaluation.leaderboard.gameable import gameable_ranking
    from evaluation.leaderboard.phase import phase_settings

    rules, _ = load_ranked(challenge_folder(challenge))
    click.echo(json.dumps(phase_settings(rules), indent=1, ensure_ascii=False))
    for line in render_findings(gameable_ranking(rules)):
        click.echo(line, err=True)
