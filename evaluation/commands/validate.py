"""evaluation validate: everything that would be rejected, without the reference."""

from __future__ import annotations

import json
from pathlib import Path

import click

from evaluation.commands.options import FolderPath, Workers, challenge_folder
from evaluation.commands.screen import finding_document, progress_bar, show_findings
from evaluation.findings import quote
from evaluation.findings.errors import SubmissionRejected


@click.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml and cases.csv.")
@click.option("--submission", type=FolderPath, required=True, help="Folder or ZIP of the submission.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@Workers
def validate(challenge: Path, submission: Path, as_json: bool, workers: int | None) -> None:
    """Check a submission without the reference: everything that would be rejected, in one pass."""
    from evaluation.scoring.street import check_submission

    challenge = challenge_folder(challenge)
    with progress_bar("Checking") as progress:
        rules, findings = check_submission(challenge, submission, workers=workers, progress=progress)
    errors = [finding for finding in findings if finding.severity == "error"]
    if as_json:
        document = {"valid": not errors, "findings": [finding_document(finding) for finding in sorted(set(findings))]}
        click.echo(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False))
    if errors:
        raise SubmissionRejected(*findings)
    if not as_json:
        show_findings(findings)
        click.echo(f"Valid: all {len(rules.cases)} cases of {quote(rules.name)} can be scored.")
