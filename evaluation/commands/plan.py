"""evaluation plan: how many patients a challenge needs, and which rules fit its nuclei."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import FolderPath, Workers, challenge_folder, existing, writing_to
from evaluation.commands.screen import check_report, show_lines


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml, cases.csv, reference.")
@click.option("--results", type=FolderPath,
              help="Results of two pilot submissions or more.  [default: teams made of the reference]")  # fmt: skip
@click.option("--margin", type=click.FloatRange(min=0, min_open=True),
              help="By how much teams are to differ.  [default: what a pixel changes, at least 0.02]")  # fmt: skip
@click.option("--teams", type=click.IntRange(2, 10_000), default=10, show_default=True, help="Teams expected.")
@click.option("--output", type=FolderPath, help="Folder for plan.json and the proposed challenge.toml.")
@click.option("--report", is_flag=True, help="Write plan.html as well, to be opened in a browser.")
@Workers
def plan(
    challenge: Path,
    results: Path | None,
    margin: float | None,
    teams: int,
    output: Path | None,
    report: bool,
    workers: int | None,
) -> None:
    """How many patients tell teams apart, which columns are too noisy, which rules fit the nuclei? From a pilot.

    By simulation, from pilot submissions or, without any, from teams that are made of the reference. The proposed
    challenge.toml has the matching rule, tolerance, cap, floor and margins that fit.
    """
    from evaluation.analysis.plan import heading, plan_challenge, plan_lines
    from evaluation.authoring.challenge_text import challenge_text
    from evaluation.report.plan import plan_page
    from evaluation.report.results_folder import write_page
    from evaluation.results.files import write_atomically
    from evaluation.results.metrics_json import as_json

    check_report(report, output)
    folder = challenge_folder(challenge)
    pilot = existing(results, "--results") if results else None
    document = plan_challenge(folder, pilot, margin=margin, teams=teams, workers=workers)
    text = challenge_text(heading(document), document["proposed"])
    show_lines(plan_lines(document))
    if output is None:
        click.echo(f"Proposed challenge.toml:\n{text}", nl=False)
        return
    with writing_to(output):
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / "plan.json", as_json(document))
        write_atomically(output / "challenge.toml", text)
        if report:
            write_page(plan_page(document, text), output / "plan.html")
    click.echo(f"Written to {output}: plan.json, challenge.toml{', plan.html' if report else ''}")
