"""evaluation score: one submission, from files to metrics.json."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluation.commands import platform_paths
from evaluation.commands.options import (
    Cluster,
    FolderPath,
    Workers,
    challenge_folder,
    existing,
    output_folder,
    writing_to,
)
from evaluation.commands.screen import check_report, progress_bar, show, show_findings, tell
from evaluation.findings import fault
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected, WrongUsage

if TYPE_CHECKING:
    from evaluation.scoring.score import Result


@click.command()
@click.option("--challenge", type=FolderPath, help="Folder with challenge.toml, cases.csv and the reference.")
@click.option("--submission", type=FolderPath, help="Folder or ZIP of the submission. [default: /input]")
@click.option("--output", type=FolderPath, help="Folder for metrics.json and details. [default: /output]")
@click.option("--report", is_flag=True, help="Write report.html as well, a page to look at; it shows the reference.")
@click.option("--team", help="Whose submission it is: its own stored result is no rival. [default: unknown]")
@click.option("--images", type=FolderPath, help="Folder with the images, for --report. [default: images/]")
@click.option("--quiet", is_flag=True, help="Print no summary.")
@Cluster
@Workers
def score(
    challenge: Path | None,
    submission: Path | None,
    output: Path | None,
    report: bool,
    team: str | None,
    images: Path | None,
    quiet: bool,
    workers: int | None,
    cluster: str | None,
) -> None:
    """Score a submission: writes metrics.json, details.json and objects.csv; with --report a page to look at.

    Without arguments the platform's paths are used: /input, /output, and the ground truth that was uploaded, else
    the one of the image. There metrics.json holds what [publish] of challenge.toml says, and nothing is printed;
    elsewhere it holds all, and a summary with all findings goes to stderr.
    """
    from evaluation.execution.cluster import connect
    from evaluation.results.files import remove_results
    from evaluation.scoring.street import score_submission

    if images is not None and not report:
        raise WrongUsage(
            fault(
                "missing-option",
                "--report",
                wording="not-given-beside",
                expected="both",
                option="--report",
                given="--images",
            )
        )
    check_report(report)
    is_public = challenge is None and platform_paths.is_platform()
    is_read = challenge is not None and not quiet and sys.stderr is not None
    challenge = challenge_folder(challenge) if challenge else platform_paths.ground_truth()
    submission = submission or existing(platform_paths.INPUT, "--submission", usual=True)
    output = output_folder(output or existing(platform_paths.OUTPUT, "--output", usual=True))
    if images is not None:
        from evaluation.challenge import Challenge
        from evaluation.report.results_folder import check_images

        check_images(Challenge.load(challenge), challenge, images)
    try:
        with connect(cluster, tell) as executor, progress_bar("Scoring") as progress:
            result = score_submission(challenge, submission, workers=workers, progress=progress, executor=executor)
    except (SubmissionRejected, ChallengeBroken):
        with writing_to(output):
            remove_results(output)  # an earlier submission's would be taken for this one's
        raise
    kept = challenge / "leaderboard"  # results to rank among, or a folder that may not be looked into
    if any(kept.glob("*.json")) or (kept.is_dir() and not os.access(kept, os.R_OK | os.X_OK)):
        from evaluation.leaderboard.board import rank_result

        result = rank_result(challenge, result, team=team or "")
    else:
        from evaluation.leaderboard.ranked_result import without_place

        result = without_place(result)
    with writing_to(output):
        result.write(output, public=is_public)
    if report:
        from evaluation.report.results_folder import Sources, page_of_results, write_page

        with progress_bar("Drawing") as progress, writing_to(output):
            sources = Sources(challenge, submission, images)
            page = page_of_results(output, sources=sources, workers=workers, progress=progress)
            write_page(page, output / "report.html")
    if is_read:
        files = f"metrics.json, details.json, objects.csv{', report.html' if report else ''}"
        with redirect_stdout(sys.stderr):
            show_summary(challenge, submission, result)
            click.echo(f"Written to {output}: {files}")


def show_summary(challenge: Path, submission: Path, result: Result) -> None:
    """Print the scores, the findings and the rank of a submission."""
    from evaluation.analysis.hints import hints_about_files
    from evaluation.report.result import AGGREGATIONS, ResultDocuments
    from evaluation.report.terminal import skill_grid

    rule = next(iter(result.scores))
    title = f"{result.challenge.name}, {f'matched by {rule}' if result.challenge.matching.rules else 'counted'}"
    if result.intervals and (confidence := result.challenge.confidence):
        title += f", {100 * confidence.level:g} % intervals"
    read = ResultDocuments(result.metrics, result.details)
    show(skill_grid({AGGREGATIONS[name]: (read, name) for name in read.aggregations}, title, compared=False))
    show_findings([*result.findings, *hints_about_files(challenge, submission, result)])
    ranks = result.metrics.get("leaderboard")
    if ranks and ranks["position"] is not None:
        click.echo(f"Rank {ranks['position']:g} of {ranks['submissions']} among the results of the challenge")
