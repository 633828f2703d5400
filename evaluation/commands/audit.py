"""evaluation audit: can the first place be defended?"""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.commands.options import (
    Cluster,
    FolderPath,
    PathOrAddress,
    Workers,
    challenge_folder,
    output_folder,
    writing_to,
)
from evaluation.commands.screen import check_report, progress_bar, show_sections, tell_team


@click.command()
@click.option(
    "--challenge", type=PathOrAddress, required=True, help="Folder with challenge.toml, cases.csv, reference."
)
@click.option(
    "--submissions", type=PathOrAddress, required=True, help="Folder with a folder, ZIP or CSV for each team."
)
@click.option("--output", type=FolderPath, required=True, help="Folder for the audit, and scores that are kept.")
@click.option("--report", is_flag=True, help="Write audit.html as well, to be opened in a browser.")
@Cluster
@Workers
def audit(
    challenge: Path | str,
    submissions: Path | str,
    output: Path,
    workers: int | None,
    cluster: str | None,
    report: bool,
) -> None:
    """Can the first place be defended? Rank all teams under other rules: audit.json, audit.csv and tables.

    Varied are the matching rule, its threshold, the unit of averages, how the reference is drawn, what is ignored,
    predictions by one pixel, and the method of the ranking; [audit] in challenge.toml says how. Scores are kept in
    OUTPUT/scores: a second call scores what is new or has changed, an interrupted one goes on.
    """
    from evaluation.analysis.audit import audit_challenge, write_audit
    from evaluation.analysis.audit_document import audit_document
    from evaluation.execution.cluster import connect
    from evaluation.report.audit import audit_page

    output_folder(output)
    if report:
        check_report()
    with connect(cluster) as executor, progress_bar("Scoring teams") as progress, writing_to(output):
        found = audit_challenge(
            challenge_folder(challenge, cluster, output),
            submissions,
            output,
            workers=workers,
            progress=progress,
            told=None if progress else tell_team,
            executor=executor,
        )
        write_audit(output, found)
        page = audit_page(audit_document(found))
        if report:
            from evaluation.report.results_folder import write_page

            write_page(page, output / "audit.html")
    show_sections(page, *(section.anchor for section in page.sections))
    click.echo(f"Written to {output}: audit.json, audit.csv{', audit.html' if report else ''}")
