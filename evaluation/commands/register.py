"""evaluation register: the design of a challenge, dated, before anybody takes part."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from evaluation.commands.options import FolderPath, challenge_folder, writing_to


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml and cases.csv.")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Day of registration.  [default: today]")
@click.option("--late", default="", metavar="TEXT", help="What happens to late submissions, in words.")
def register(challenge: Path, date: datetime | None, late: str) -> None:
    """Write the design of a challenge to be published: registration.md under the headings of BIAS, and its data.

    Every later leaderboard says whether it follows registration.json, and what differs.
    """
    from evaluation.authoring.register import register_challenge

    with writing_to(challenge):
        day = (date or datetime.now(UTC)).date().isoformat()
        found = register_challenge(challenge_folder(challenge), date=day, late=late)
    click.echo(f"Written: {found.path} and registration.json, SHA-256 {found.sha256}")
    click.echo(f"{found.left_open} headings are for the organisers. Publish the document with this hash.")
