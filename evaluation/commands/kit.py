"""evaluation kit: what participants get."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, challenge_folder, output_folder, writing_to


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml and cases.csv.")
@click.option("--output", type=FolderPath, required=True, help="New folder for what participants get.")
@click.option("--source", default="", help="What to install with pipx, for the guide. [default: this version]")
def kit(challenge: Path, output: Path, source: str) -> None:
    """Write what participants get: the rules, the cases, an example submission that validates, and a guide."""
    from evaluation.authoring.kit import write_kit

    with writing_to(output):
        written = write_kit(challenge_folder(challenge), output_folder(output), source=source)
    click.echo(f"Written to {output}: {', '.join(written.files)}")
