"""evaluation init: start a challenge."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.challenge.documents import RECOMMENDED
from evaluation.commands.options import FolderPath, output_folder, writing_to


@click.command()
@click.option(
    "--preset",
    default=RECOMMENDED,
    show_default=True,
    help="What to start from, such as a published challenge; see 'evaluation presets'.",
)
@click.option("--name", help="Name of the new challenge. [default: the folder's]")
@click.argument("folder", type=FolderPath)
def init(preset: str, name: str | None, folder: Path) -> None:
    """Start a challenge in FOLDER: a commented challenge.toml, and cases.csv with the sizes of the images.

    Sizes are read from the headers of SVS and TIFF files that lie beside the reference files, where there are any.
    """
    from evaluation.authoring.init import initialise_challenge

    with writing_to(folder):
        started = initialise_challenge(output_folder(folder), preset=preset, name=name)
    for line in started.lines():
        click.echo(line)
