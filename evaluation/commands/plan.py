"""evaluation plan: how many patients a challenge needs."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, challenge_folder, existing, writing_to


@click.command()
@click.option(
    "--challenge", type=FolderPath, required=True, help="Folder with challenge.toml and cases.csv of a pilot."
)
@click.option("--results", type=FolderPath, required=True, help="Results of two pilot submissions or more.")
@click.option("--margin", type=click.FloatRange(min=0, min_open=True), default=0.02, show_default=True,
              help="By how much teams are to be told apart.")  # fmt: skip
@click.option("--teams", type=click.IntRange(2, 10_000), default=10, show_default=True, help="Teams that are expected.")
@click.option("--output", type=FolderPath, help="Folder for plan.json.")
def plan(challenge: Path, results: Path, margin: float, teams: int, output: Path | None) -> None:
    """How many patients are needed to tell teams apart, and which columns are too noisy? From a pilot, by simulation.

    Matching rule, tolerance and cap for the size of the nuclei: see 'evaluation sensitivity'.
    """
    from evaluation.analysis.plan import plan_challenge, plan_json, plan_lines
    from evaluation.results.files import write_atomically

    folder = challenge_folder(challenge)
    document = plan_challenge(folder, existing(results, "--results"), margin=margin, teams=teams)
    for line in plan_lines(document):
        click.echo(line)
    if output is not None:
        with writing_to(output):
            output.mkdir(parents=True, exist_ok=True)
            write_atomically(output / "plan.json", plan_json(document))
