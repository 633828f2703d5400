"""evaluation init: start a challenge."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.challenge.documents import RECOMMENDED
from evaluation.commands.options import FolderPath, challenge_folder, existing, output_folder, writing_to
from evaluation.commands.screen import show_lines


@click.command()
@click.option(
    "--preset",
    default=RECOMMENDED,
    show_default=True,
    help="What to start from, such as a published challenge; see 'evaluation explain presets'.",
)
@click.option("--name", help="Name of the new challenge. [default: the folder's]")
@click.option("--submission", type=FolderPath, help="A sample submission, whose format becomes that of submissions.")
@click.option("--refresh", is_flag=True, help="Add to cases.csv what is new in the reference; nothing is overwritten.")
@click.argument("folder", type=FolderPath)
def init(preset: str, name: str | None, submission: Path | None, refresh: bool, folder: Path) -> None:
    """Start a challenge in FOLDER: challenge.toml, and cases.csv with the cases of FOLDER/reference.

    Formats, classes, patients and sizes are found in the files of the reference, and in images beside them.
    challenge.toml holds the preset, and what differs from it.
    """
    from evaluation.authoring.init import initialise_challenge, refresh_cases

    if submission is not None:
        existing(submission, "--submission")
    with writing_to(folder):
        if refresh:
            lines = refresh_cases(challenge_folder(folder))
        else:
            lines = initialise_challenge(output_folder(folder), preset=preset, name=name, sample=submission).lines()
    show_lines(lines)
