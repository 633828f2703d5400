"""evaluation audit: can the first rank be defended?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from evaluation.commands.options import (
    Cluster,
    FolderPath,
    ScoreColumns,
    Workers,
    challenge_folder,
    output_folder,
    writing_to,
)
from evaluation.commands.progress import Log, submissions_progress
from evaluation.commands.screen import check_report, show_lines, show_sections
from evaluation.findings import fault
from evaluation.findings.errors import WrongUsage

if TYPE_CHECKING:
    from evaluation.analysis.variants import Audit


@click.command()
@click.option("--challenge", type=FolderPath, help="Folder with challenge.toml, cases.csv, reference.")
@click.option("--submissions", type=FolderPath, help="Folder with a folder, ZIP or CSV for each team.")
@click.option("--scores", type=FolderPath, help="Instead: a CSV of scores, with the options of rank.")
@ScoreColumns
@click.option("--output", type=FolderPath, required=True, help="Folder for the audit, and scores that are kept.")
@click.option("--tricks", is_flag=True, help="Try to game the ranking with each submission; say what works.")
@click.option("--report", is_flag=True, help="Write audit.html (tricks.html) as well, to be opened in a browser.")
@Cluster
@Log
@Workers
def audit(
    challenge: Path | None,
    submissions: Path | None,
    scores: Path | None,
    columns: tuple[str, ...],
    settings: tuple[str, ...],
    unit: Literal["group", "case"],
    output: Path,
    workers: int | None,
    cluster: str | None,
    log: Path | None,
    report: bool,
    tricks: bool,
) -> None:
    """Rank all teams under other rules: can the first rank be defended? Writes audit.json and audit.csv.

    Varied are the matching rule, its threshold, the unit of averages, how the reference is read, what is ignored, the
    weights of columns and the method of the ranking; [audit] in challenge.toml says how. Scores are kept in
    OUTPUT/scores: a second call scores nothing. With --scores only the rules of the ranking are varied.

    --tricks does none of this. It tries what a participant could do to game the ranking (keep the easiest nuclei, empty
    hard cases, copies, one class only, …) with every submission, all held in memory, and says what works, which teams
    would gain, under which other rankings nothing works, and which entries decide the first rank.
    """
    check_report(report)
    if scores is not None:
        if submissions is not None or tricks:
            other = "--tricks" if tricks else "--submissions"
            raise WrongUsage(
                fault(
                    "contradictory-rules",
                    other,
                    wording="only-one-option",
                    other="--scores",
                    reason="scores have no nuclei",
                )
            )
        from evaluation.analysis.audit import audit_scores_in_file

        folder = challenge_folder(challenge) if challenge else None
        output_folder(output)
        found = audit_scores_in_file(folder, scores, columns=columns, settings=settings, unit=unit)
        show_audit(found, output, report=report)
        return
    if submissions is None:
        raise WrongUsage(
            fault("missing-option", "--submissions, --scores", wording="no-results-or-scores", number="neither is")
        )
    if challenge is None:
        needed = "the challenge that the submissions are of"
        raise WrongUsage(
            fault(
                "missing-option",
                "--challenge",
                wording="not-given-beside",
                expected=needed,
                option="--challenge DIR",
                given="--submissions",
            )
        )
    if columns or settings:
        raise WrongUsage(
            fault(
                "contradictory-rules",
                "--column, --set",
                wording="only-one-option",
                other="--submissions",
                reason="the ranking is that of the challenge",
            )
        )
    output_folder(output)
    if tricks:
        play_tricks(challenge_folder(challenge), submissions, output, report=report)
        return
    from evaluation.analysis.audit import audit_challenge
    from evaluation.execution.cluster import connect

    with (
        submissions_progress("Scoring", log) as progress,
        connect(cluster, progress.say) as executor,
        writing_to(output),
    ):
        found = audit_challenge(
            challenge_folder(challenge),
            submissions,
            output,
            workers=workers,
            progress=progress.progress,
            note=progress.note,
            executor=executor,
        )
    show_audit(found, output, report=report)


def show_audit(found: Audit, output: Path, *, report: bool) -> None:
    """Write an audit, and print what its page begins with."""
    from evaluation.analysis.audit import write_audit
    from evaluation.analysis.variants import audit_document
    from evaluation.report.audit import audit_page

    with writing_to(output):
        write_audit(output, found)
        page = audit_page(audit_document(found))
        if report:
            from evaluation.report.results_folder import write_page

            write_page(page, output / "audit.html")
    show_sections(page, "first-place", "rules")
    show_lines(found.notes)
    click.echo(f"Written to {output}: audit.json, audit.csv{', audit.html' if report else ''}")


def play_tricks(challenge: Path, submissions: Path, output: Path, *, report: bool) -> None:
    """``audit --tricks``."""
    from evaluation.analysis.tricks import audit_tricks, tricks_lines
    from evaluation.results.files import write_atomically
    from evaluation.results.metrics_json import as_json

    found = audit_tricks(challenge, submissions, output=output)
    with writing_to(output):
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / "tricks.json", as_json(found))
        if report:
            from evaluation.report.results_folder import write_page
            from evaluation.report.tricks import tricks_page

            write_page(tricks_page(found), output / "tricks.html")
    show_lines(tricks_lines(found))
    click.echo(f"Written to {output}: tricks.json{', tricks.html' if report else ''}")
