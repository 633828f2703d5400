"""evaluation compare: scores of two folders, without a challenge."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, Workers, existing, output_folder, writing_to
from evaluation.commands.screen import check_report, progress_bar, show, show_findings, show_lines, show_sections
from evaluation.findings.errors import ChallengeBroken, ReferenceBroken


@click.command()
@click.option("--report", is_flag=True, help="Write compare.html as well, a page with all predictions.")
@click.option("--output", type=FolderPath, help="Folder for metrics.json, details.json and objects.csv.")
@click.option("--save-challenge", type=FolderPath, help="New folder for the challenge that is made, to go on with.")
@click.option("--classes", metavar="NAMES", help="Classes and other spellings: 'tumour=1,stroma=2'; 'none': one class.")
@click.option("--iou", type=click.FloatRange(0, 0.99), default=0.5, help="Nuclei match above this IoU. [default: 0.5]")
@click.option("--metrics", metavar="FAMILIES", help="Further families in the files, such as 'objects,curves'.")
@click.option("--ranking", is_flag=True, help="Rank several predictions, and print the tables of the ranking.")
@click.option("--explain", is_flag=True, help="Say how each file was read, and why.")
@Workers
@click.argument("reference", type=FolderPath)
@click.argument("predictions", type=FolderPath, nargs=-1, required=True)
def compare(
    reference: Path,
    predictions: tuple[Path, ...],
    report: bool,
    output: Path | None,
    save_challenge: Path | None,
    classes: str | None,
    iou: float,
    metrics: str | None,
    ranking: bool,
    explain: bool,
    workers: int | None,
) -> None:
    """Score PREDICTIONS against a REFERENCE: each a folder, a ZIP or a file of any format.

    Formats, pairs of files, sizes and classes are detected; the rules are those of the preset 'recommended'. Several
    predictions are shown side by side.
    """
    from evaluation.authoring.class_plan import parsed_classes
    from evaluation.authoring.compare import compare_paths, model_names
    from evaluation.leaderboard.document import leaderboard_document

    try:
        parsed_classes("none" if classes is None else classes)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--classes") from None
    for path, option in ((reference, "REFERENCE"), *((path, "PREDICTIONS") for path in predictions)):
        existing(path, option)
    if output is not None:
        output_folder(output)
    check_report(report)
    try:
        with progress_bar("Comparing") as progress, writing_to(save_challenge or Path()):
            found = compare_paths(
                reference,
                model_names(predictions),
                classes=classes,
                explain=explain,
                pictures=report,
                folder=save_challenge,
                iou=iou,
                families=families_in(metrics),
                workers=workers,
                progress=progress,
            )
    except ChallengeBroken as broken:
        raise ReferenceBroken(*broken.findings) from None
    from evaluation.report.terminal import comparison_grid

    show_lines(found.notes)
    cases = found.challenge.cases
    unit = "images" if len({case.group for case in cases}) == len(cases) else "patients"
    show(comparison_grid({model: result.metrics for model, result in found.results.items()}, unit))
    if found.board is not None and ranking:
        show_sections(found.page(), "places", "common")
    elif found.board is not None:
        show_lines(leaderboard_document(found.board)["verdict"][:2])
    show_findings(found.findings)
    if output is not None:
        with writing_to(output):
            found.write(output)
        click.echo(f"Written to {output}: metrics.json, details.json, objects.csv")
    if report:
        page = (output or Path()) / "compare.html"
        with writing_to(page.parent):
            found.report(page)
        click.echo(f"Page to open in a browser: {page}")
    if save_challenge is not None:
        click.echo(
            f"Challenge to go on with: {save_challenge}, with the predictions in {save_challenge / 'submissions'}"
        )


def families_in(names: str | None) -> list[str]:
    """Families of metrics, with commas between them. Raises BadParameter."""
    from evaluation.metrics import FAMILIES

    families = [name.strip() for name in (names or "").split(",") if name.strip()]
    for family in families:
        if family not in FAMILIES:
            expected = ", ".join(FAMILIES)
            raise click.BadParameter(f"'{family}' is no family of metrics; expected {expected}", param_hint="--metrics")
    return families
