"""evaluation audit: can the first place be defended?"""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import (
    Cluster,
    Output,
    PathOrAddress,
    Workers,
    challenge_folder,
    open_output,
    writing_to,
)
from evaluation.commands.progress import Log, submissions_progress
from evaluation.commands.screen import check_report, show_sections


@click.command()
@click.option(
    "--challenge", type=PathOrAddress, required=True, help="Folder with challenge.toml, cases.csv, reference."
)
@click.option(
    "--submissions", type=PathOrAddress, required=True, help="Folder with a folder, ZIP or CSV for each team."
)
@click.option("--output", type=PathOrAddress, required=True, help="Folder for the audit, and scores that are kept.")
@click.option("--tricks", is_flag=True, help="Play tricks on the submissions, and say what pays.")
@click.option("--report", is_flag=True, help="Write audit.html (tricks.html) as well, to be opened in a browser.")
@Cluster
@Log
@Workers
def audit(
    challenge: Path | str,
    submissions: Path | str,
    output: Path | str,
    workers: int | None,
    cluster: str | None,
    log: Path | None,
    report: bool,
    tricks: bool,
) -> None:
    """Can the first place be defended? Rank all teams under other rules: audit.json, audit.csv and tables.

    Varied are the matching rule, its threshold, the unit of averages, how the reference is drawn, what is ignored,
    predictions by one pixel, and the method of the ranking; [audit] in challenge.toml says how. Scores are kept in
    OUTPUT/scores: a second call scores what is new or has changed, an interrupted one goes on.

    With --tricks nothing of this is done. Tricks that a participant could play (keep the easiest nuclei, empty hard
    cases, copies, one class only, …) are played on every submission, all held in memory; it says which pay, who
    would climb, which change of the ranking closes it, and whose presence decides the first place.
    """
    if tricks:
        if report:
            check_report()
        play_tricks(challenge_folder(challenge), submissions, open_output(output), report=report)
        return
    from evaluation.analysis.audit import KEPT, audit_challenge, write_audit
    from evaluation.analysis.audit_document import audit_document
    from evaluation.execution.cluster import connect
    from evaluation.report.audit import audit_page

    opened = open_output(output)
    folder = opened.folder
    if report:
        check_report()
    with (
        submissions_progress("Scoring", log) as progress,
        connect(cluster, progress.say) as executor,
        writing_to(folder),
    ):
        found = audit_challenge(
            challenge_folder(challenge),
            submissions,
            folder,
            workers=workers,
            progress=progress.progress,
            told=progress.note_and_put(opened.put, KEPT),
            executor=executor,
        )
        write_audit(folder, found)
        page = audit_page(audit_document(found))
        if report:
            from evaluation.report.results_folder import write_page

            write_page(page, folder / "audit.html")
    show_sections(page, *(section.anchor for section in page.sections))
    click.echo(f"Written to {output}: audit.json, audit.csv{', audit.html' if report else ''}")


def play_tricks(challenge: Path, submissions: Path | str, opened: Output, *, report: bool) -> None:
    """``audit --tricks``."""
    from evaluation.analysis.gaming import audit_tricks
    from evaluation.analysis.tricks_document import tricks_document, tricks_json, tricks_lines
    from evaluation.results.files import write_atomically

    output = opened.folder
    found = audit_tricks(challenge, submissions, output=output)
    with writing_to(output):
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(output / "tricks.json", tricks_json(found))
        if report:
            from evaluation.report.results_folder import write_page
            from evaluation.report.tricks import tricks_page

            write_page(tricks_page(tricks_document(found)), output / "tricks.html")
    for line in tricks_lines(found):
        click.echo(line)
    click.echo(f"Written to {opened.shown}: tricks.json{', tricks.html' if report else ''}")
