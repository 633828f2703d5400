"""evaluation rasterise: the reference as label maps, and what happened to its outlines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluation.commands.options import (
    FolderPath,
    ReferenceFolder,
    Workers,
    challenge_folder,
    output_folder,
    writing_to,
)
from evaluation.commands.screen import progress_bar, show, show_findings

if TYPE_CHECKING:
    from evaluation.model import Instances


@click.command()
@ReferenceFolder
@click.option("--output", type=FolderPath, required=True, help="Folder for label maps and the report.")
@Workers
def rasterise(challenge: Path, output: Path, workers: int | None) -> None:
    """Turn the reference into label images, and report overlapping, vanished and broken outlines."""
    from evaluation.report.terminal import rasterisation_table
    from evaluation.results.rasterisation import write_rasterisation
    from evaluation.scoring.rasterise import rasterise_reference

    with progress_bar("Rasterising") as progress:
        rules, prepared = rasterise_reference(challenge_folder(challenge), workers=workers, progress=progress)
    findings = [finding for _, reference in prepared for finding in reference.findings]
    if rules.reference.are_points or rules.reference.are_counts:
        show_findings(findings)
        what = "points" if rules.reference.are_points else "numbers of nuclei"
        click.echo(f"The reference holds {what}; there is nothing to rasterise.")
        return
    reports = [(case, reference.instances, reference.report) for case, reference in prepared if reference.report]
    with writing_to(output):
        write_rasterisation(output_folder(output), rules, reports)
    outlines = rules.reference.value("vanished") is not None
    show(rasterisation_table({case.name: report for case, _, report in reports}, outlines=outlines))
    show_findings(findings)
    click.echo(thirds_of_areas([instances for _, instances, _ in reports]))
    click.echo(f"Written to {output}: labels/, instances.csv, rasterisation.json")


def thirds_of_areas(references: Sequence[Instances]) -> str:
    """Limits of sizes with as many nuclei each, as a rule for the family sizes."""
    import numpy as np

    from evaluation.metrics.segmentation import LARGEST, quantile_sizes

    areas = np.concatenate([[1], *(instances.areas_px() for instances in references)])[1:]
    sizes = quantile_sizes(areas, ("small", "medium", "large"))
    thirds = ", ".join(
        f"{name} = [{low:.0f}, {'1e12' if high == LARGEST else f'{high:.0f}'}]" for name, (low, high) in sizes.items()
    )
    return f"Thirds of the {len(areas):,} areas, for the family 'sizes': sizes_px = {{ {thirds} }}"
