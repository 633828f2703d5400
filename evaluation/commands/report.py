"""evaluation report: a page of results."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, Workers, challenge_folder, writing_to
from evaluation.commands.screen import check_report, progress_bar, show
from evaluation.findings import fault
from evaluation.findings.errors import WrongUsage


@click.command()
@click.option("--results", type=FolderPath, required=True,
              help="Folder with metrics.json, leaderboard.json, audit.json or sensitivity.json.")  # fmt: skip
@click.option("--output", type=FolderPath, help="HTML file to write. [default: a summary on the terminal]")
@click.option(
    "--challenge", type=FolderPath, help="Folder of the challenge, for pictures, the cost of errors, what is public."
)
@click.option("--submission", type=FolderPath, help="Folder or ZIP of the submission that was scored, for the same.")
@click.option("--images", type=FolderPath, help="Folder with the images of the cases. [default: images/]")
@click.option("--overlays", type=FolderPath, help="Folder for overlays of all cases: PNG, and GeoJSON for QuPath.")
@click.option(
    "--public",
    is_flag=True,
    help="Only what may be published: nothing of single cases or patients; "
    "with --challenge only what its [publish] names.",
)
@Workers
def report(
    results: Path,
    output: Path | None,
    challenge: Path | None,
    submission: Path | None,
    images: Path | None,
    overlays: Path | None,
    public: bool,
    workers: int | None,
) -> None:
    """Make a page of results, one HTML file that opens anywhere: of a submission, a leaderboard, an audit or a study.

    With --challenge and --submission the page of a submission shows its worst nuclei and cases, and what each kind of
    error costs. Without --output a summary is printed.
    """
    from evaluation.report.results_folder import Sources, document_in, page_of_results, reading, write_page

    given = {"--submission": submission, "--challenge": challenge, "--images": images, "--overlays": overlays}
    named = [option for option, path in given.items() if path is not None]
    is_rules = named == ["--challenge"] and public
    for option in ("--challenge", "--submission"):
        if named and given[option] is None and not is_rules:
            raise WrongUsage(
                fault(
                    "missing-option",
                    option,
                    wording="not-given-beside",
                    expected="--challenge and --submission",
                    option=option,
                    given=named[0],
                )
            )
    rules = challenge_folder(challenge) if challenge is not None else None
    sources = None
    if rules is not None and submission is not None:
        sources = Sources(rules, submission, images, overlays)
    check_report(output is not None)
    with progress_bar("Drawing") as progress, writing_to(overlays or results):
        page = page_of_results(
            results, sources=sources, public=public, challenge=rules, workers=workers, progress=progress
        )
    if output is not None:
        with writing_to(output), reading(document_in(results)):
            write_page(page, output)
        click.echo(f"Written to {output}")
        return
    from evaluation.report.terminal import page_renderables

    with reading(document_in(results)):
        parts = list(page_renderables(page))
    for part in parts:
        show(part)
