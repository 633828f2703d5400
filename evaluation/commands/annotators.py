"""evaluation annotators: how well annotators agree."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, challenge_folder, writing_to
from evaluation.commands.screen import show_lines


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml, cases.csv, annotators.")
@click.option("--submissions", type=FolderPath, help="Folder with a folder, ZIP or CSV for each team.")
@click.option("--output", type=FolderPath, help="Folder for annotators.json. It tells of the reference: keep it.")
def annotators(challenge: Path, submissions: Path | None, output: Path | None) -> None:
    """How well do annotators agree, and which teams are above, within or below that?

    Each folder of CHALLENGE/annotators/ is an annotator. All are scored against each other by the rules of the
    challenge. A margin of equivalence and a matching radius are proposed from where they differ.
    """
    from evaluation.leaderboard.annotators import annotator_lines, annotators_document
    from evaluation.leaderboard.teams import find_teams
    from evaluation.results.files import write_atomically
    from evaluation.results.metrics_json import as_json

    teams = find_teams(submissions, output=output).teams if submissions else []
    document = annotators_document(challenge_folder(challenge), {team.name: team.path for team in teams})
    show_lines(annotator_lines(document))
    if output is not None:
        with writing_to(output):
            output.mkdir(parents=True, exist_ok=True)
            write_atomically(output / "annotators.json", as_json(document))
        click.echo(f"Written to {output}: annotators.json")
