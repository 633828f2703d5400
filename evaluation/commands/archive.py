"""evaluation archive: one ZIP of a finished challenge."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from evaluation.commands.options import FolderPath, challenge_folder, existing, writing_to


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml and cases.csv.")
@click.option("--results", type=FolderPath, required=True, help="What 'leaderboard' wrote.")
@click.option("--output", type=FolderPath, required=True, help="The ZIP to write.")
@click.option(
    "--creator", "creators", multiple=True, required=True, help="Who publishes it, 'Family name, Given name'."
)
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Day of publication.  [default: today]")
@click.option("--image", default="", metavar="DIGEST", help="Digest of the image that scored.")
@click.option("--private", is_flag=True, help="With the reference, details.json and objects.csv: not to be published.")
def archive(
    challenge: Path,
    results: Path,
    output: Path,
    creators: tuple[str, ...],
    date: datetime | None,
    image: str,
    private: bool,
) -> None:
    """Write one ZIP of a challenge: rules, results, ranking, versions, lock, checksums, metadata.

    What reveals the reference is left out unless --private is given. 'evaluation verify' computes it again.
    """
    from evaluation.leaderboard.archive import write_archive

    folder, day = challenge_folder(challenge), (date or datetime.now(UTC)).date().isoformat()
    with writing_to(output.parent):
        names = write_archive(
            folder, existing(results, "--results"), output, date=day, creators=creators, image=image, private=private
        )
    click.echo(f"Written to {output}: {len(names)} files")
