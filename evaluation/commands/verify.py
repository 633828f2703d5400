"""evaluation verify: what of an archive can be computed again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from evaluation.commands.options import FolderPath, Workers, existing


@click.command()
@click.argument("archive", type=FolderPath)
@click.option("--submissions", type=FolderPath, help="Score these again; needs an archive with the reference.")
@Workers
def verify(archive: Path, submissions: Path | None, workers: int | None) -> None:
    """Compute again what an ARCHIVE allows: the checksums, the hash of the rules, the ranking, the counts of nuclei.

    With --submissions and the reference in it every result, too. Says of each whether it is the same to the byte, the
    same to the digit, or cannot be checked; exit code 1 if one differs.
    """
    from evaluation.leaderboard.archive import verify_archive

    with tempfile.TemporaryDirectory() as work:
        checked = verify_archive(existing(archive, "ARCHIVE"), Path(work), submissions, workers=workers)
    for each in checked:
        click.echo(f"{each.outcome}: {each.what}{f' ({each.why})' if each.why else ''}")
    if any(each.outcome == "differs" for each in checked):
        click.get_current_context().exit(1)
