"""evaluation convert: from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluation.findings import counted, fault
from evaluation.findings.errors import WrongUsage

if TYPE_CHECKING:
    from evaluation.model import OriginRule, OverlapRule
from evaluation.commands.options import FolderPath, challenge_folder, existing, output_folder, writing_to
from evaluation.commands.screen import show_findings


@click.command()
@click.argument("source", type=FolderPath)
@click.argument("output", type=FolderPath)
@click.option("--to", "target", required=True, help="geojson, label_tiff, nary_mat or platform (its JSON).")
@click.option("--from", "format", help="Format of SOURCE, as in challenge.toml. [default: by its content]")
@click.option("--set", "options", multiple=True, metavar="KEY=VALUE", help="A key of the format, such as units=mm.")
@click.option("--classes", help="Names of the classes in order, with commas. [default: those in the file]")
@click.option("--size", metavar="HEIGHTxWIDTH", help="Size of the image in px, where the file does not say it.")
@click.option("--spacing", type=float, help="Size of a pixel in um, for files in mm or um.")
@click.option("--challenge", type=FolderPath, help="Take all rules from here; SOURCE is a submission, or 'reference'.")
@click.option("--origin", type=click.Choice(["pixel_corner", "pixel_centre"]), default="pixel_corner",
              help="Where whole coordinates lie in what is written.", show_default=True)  # fmt: skip
@click.option("--overlap", type=click.Choice(["last", "first", "smallest", "class_order"]),
              help="Who keeps pixels of several nuclei, for label images.")  # fmt: skip
def convert(
    source: Path,
    output: Path,
    target: str,
    format: str | None,
    options: tuple[str, ...],
    classes: str | None,
    size: str | None,
    spacing: float | None,
    challenge: Path | None,
    origin: OriginRule,
    overlap: OverlapRule | None,
) -> None:
    """Convert annotations or predictions: one file, or with --challenge a whole submission or reference."""
    from evaluation.authoring.convert import TARGETS, convert_challenge, convert_file, parse_options, parse_size

    if target not in TARGETS:
        raise WrongUsage(fault("unknown-format", "--to", name=target, known=TARGETS))
    with writing_to(output):
        if challenge is not None:
            given = {"--from": format, "--set": options, "--classes": classes, "--size": size, "--spacing": spacing}
            for option in (name for name, value in given.items() if value):
                raise WrongUsage(
                    fault(
                        "contradictory-rules",
                        option,
                        wording="only-one-option",
                        other="--challenge",
                        reason="the challenge says how its files are read",
                    )
                )
            submission = None if str(source) == "reference" else source
            done = convert_challenge(
                challenge_folder(challenge), submission, output_folder(output), target, origin=origin, overlap=overlap
            )
        else:
            done = convert_file(
                existing(source, "SOURCE"),
                output,
                target,
                format=format,
                options=parse_options(options),
                class_names=[name.strip() for name in classes.split(",")] if classes else (),
                size_yx=parse_size(size),
                spacing_um=spacing,
                origin=origin,
                overlap=overlap,
            )
    for path in done.files[:10]:
        click.echo(f"{'Replaced' if path in done.replaced else 'Written'}: {path}")
    if more := done.files[10:]:
        again = len(done.replaced.intersection(more))
        click.echo(f"and {counted(len(more), 'more file')}" + f", {again:,} of them replaced" * (again > 0))
    if target == "label_tiff":
        click.echo(f"Classes: {', '.join(f'{number} is {name}' for name, number in done.classes.items())}")
    show_findings(done.findings)
