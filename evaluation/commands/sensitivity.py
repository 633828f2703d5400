"""evaluation sensitivity: what a pixel costs."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import (
    FolderPath,
    ReferenceFolder,
    Workers,
    challenge_folder,
    output_folder,
    writing_to,
)
from evaluation.commands.screen import check_report, progress_bar, show_sections


@click.command()
@ReferenceFolder
@click.option("--output", type=FolderPath, help="Folder for sensitivity.json.")
@click.option("--report", is_flag=True, help="Write sensitivity.html as well, to be opened in a browser.")
@Workers
def sensitivity(challenge: Path, output: Path | None, workers: int | None, report: bool) -> None:
    """What does a pixel cost? Compare the reference with itself, a pixel or two larger, smaller, lower, or coarser.

    Advises how to match nuclei of this size and how to score their outlines, before anybody takes part: medians of IoU,
    Dice, Hausdorff distance and surface Dice by class and size, and the share of nuclei that each matching rule loses.
    """
    from evaluation.analysis.sensitivity import study_sensitivity
    from evaluation.report.results_folder import write_page
    from evaluation.report.sensitivity import sensitivity_page
    from evaluation.results.files import write_atomically
    from evaluation.results.metrics_json import as_json

    check_report(report, output)
    if output:
        output_folder(output)
    with progress_bar("Comparing") as progress:
        found = study_sensitivity(challenge_folder(challenge), workers=workers, progress=progress)
    page = sensitivity_page(found)
    if output:
        with writing_to(output):
            output.mkdir(parents=True, exist_ok=True)
            write_atomically(output / "sensitivity.json", as_json(found))
            if report:
                write_page(page, output / "sensitivity.html")
    show_sections(page, "advice")
    if output:
        click.echo(f"Written to {output}: sensitivity.json{', sensitivity.html' if report else ''}")
