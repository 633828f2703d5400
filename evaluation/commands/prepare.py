"""The commands that prepare a challenge: init, rasterise, sensitivity, kit, phase."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.challenge.documents import RECOMMENDED
from evaluation.commands import options, screen


@click.command()
@click.option(
    "--preset",
    default=RECOMMENDED,
    show_default=True,
    help="Rules to start from, such as a published challenge; see 'evaluation explain presets'.",
)
@click.option("--name", help="Name of the new challenge. [default: the folder's]")
@options.path_option("--submission", "A sample submission, or the predictions.json of an algorithm phase.")
@click.option("--refresh", is_flag=True, help="Add new cases to cases.csv without overwriting anything.")
@click.argument("folder", type=options.FolderPath)
def init(preset: str, name: str | None, submission: Path | None, refresh: bool, folder: Path) -> None:
    """Start a challenge in FOLDER: challenge.toml, and cases.csv with the cases of FOLDER/reference.

    Formats, classes, patients and sizes are detected from the files of the reference and images next to them.
    challenge.toml contains the preset and your changes to it.
    """
    from evaluation.folders.init import initialise_challenge, refresh_cases

    if submission is not None:
        options.existing(submission, "--submission")
    with options.writing_to(folder):
        if refresh:
            lines = refresh_cases(options.challenge_folder(folder))
        else:
            lines = initialise_challenge(options.output_folder(folder), preset=preset, name=name, sample=submission)
    screen.show_lines(lines)


# --- rasterise --------------------------------------------------------------------------------------------------------


@click.command()
@options.ReferenceFolder
@options.output_option("Folder for label images and the report.", required=True)
@options.Workers
def rasterise(challenge: Path, output: Path, workers: int | None) -> None:
    """Turn the reference into label images, and report overlapping, vanished and broken outlines."""
    from evaluation.report.terminal import rasterisation_table
    from evaluation.scoring.rasterise import rasterise_reference, reference_findings, write_rasterisation

    with screen.progress_bar("Rasterising") as progress:
        rules, prepared = rasterise_reference(challenge, workers=workers, progress=progress)
    findings = reference_findings(prepared)
    if rules.reference.are_points or rules.reference.are_counts:
        screen.show_findings(findings)
        what = "points" if rules.reference.are_points else "numbers of nuclei"
        click.echo(f"The reference contains {what}; there is nothing to rasterise.")
        return
    reports = [(case, reference.instances, reference.report) for case, reference in prepared if reference.report]
    with options.writing_to(output):
        write_rasterisation(output, rules, reports)
    screen.show_block(rasterisation_table({case.name: report for case, _, report in reports}))
    screen.show_findings(findings)
    screen.show_written(output, "labels/", "instances.csv", "rasterisation.json")


# --- sensitivity ------------------------------------------------------------------------------------------------------


@click.command()
@options.ReferenceFolder
@options.output_option("Folder for sensitivity.json.")
@options.page_option("sensitivity")
@options.Workers
def sensitivity(challenge: Path, output: Path | None, workers: int | None, report: bool) -> None:
    """What does a pixel cost? Compare the reference with itself, a pixel or two larger, smaller, lower, or coarser.

    Recommends a matching rule and scores of outlines for nuclei of this size, before anybody takes part: medians of
    IoU, Dice, Hausdorff distance and surface Dice by class and size, and the share of nuclei that each rule loses.
    """
    from evaluation.board.sensitivity import study_sensitivity
    from evaluation.report.studies import sensitivity_page

    options.folder_of_pages(report, output)
    with screen.progress_bar("Comparing") as progress:
        study = study_sensitivity(challenge, workers=workers, progress=progress)
    if output:
        screen.write_document(output, "sensitivity", study, sensitivity_page if report else None)
    screen.show_sections(sensitivity_page(study), "advice")
    if output:
        screen.show_written(output, "sensitivity.json", page="sensitivity.html" * report)


# --- kit --------------------------------------------------------------------------------------------------------------


@click.command()
@options.RulesFolder
@options.output_option("New folder for the files of participants.", required=True)
def kit(challenge: Path, output: Path) -> None:
    """Write the files for participants: rules, cases, an example submission that validates, the program, and a guide.

    In an algorithm phase also an example algorithm. PROPOSAL.md has paragraphs for the proposal of the challenge.
    """
    from evaluation.platform.kit import write_kit

    with options.writing_to(output):
        written = write_kit(challenge, output)
    screen.show_written(output, *written)


# --- phase ------------------------------------------------------------------------------------------------------------


@click.command()
@options.RulesFolder
@click.option("--json", "as_json", is_flag=True, help="Print all settings as JSON.")
@options.output_option("Folder for the message, settings, schemas, archive items and pack-context.json.")
def phase(challenge: Path, as_json: bool, output: Path | None) -> None:
    """Print the settings for the platform: a message to its support, settings, schemas and names of archive items."""
    from evaluation.board.rules import gameable_ranking, load_ranked
    from evaluation.findings import render_findings
    from evaluation.platform.phase import phase_of

    rules, _ = load_ranked(challenge)
    found = phase_of(rules)
    if as_json:
        screen.show_json(found.document())
    else:
        screen.show_lines(found.lines())
    for line in render_findings(gameable_ranking(rules)):
        click.echo(line, err=True)
    if output is not None:
        with options.writing_to(output):
            names = found.write(output)
        if not as_json:
            screen.show_written(output, *names)
