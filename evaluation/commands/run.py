"""The commands that score, rank and defend: validate, score, leaderboard, rank, audit, archive, verify."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evaluation.commands import options, screen
from evaluation.files.system import missing_here
from evaluation.findings import Finding, counted, fault, quote, render_briefly
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected, WrongUsage

if TYPE_CHECKING:
    from evaluation.board.variants import Audit
    from evaluation.files.submission import SubmissionFiles
    from evaluation.scoring.score import Result


def _with_other_format(findings: Sequence[Finding], challenge: Path, submission: Path) -> tuple[Finding, ...]:
    """Report that the files of a rejected submission have another format, by the names that participants see."""
    if any(finding.code == "empty-submission" for finding in findings):
        return tuple(findings)  # spares the import of all formats
    from evaluation.challenge import Challenge
    from evaluation.folders.convert import with_other_format

    format, is_inside = Challenge.load(challenge).submission.format, submission == options.INPUT
    return with_other_format(findings, submission, format, is_inside=is_inside)


@click.command()
@options.RulesFolder
@options.path_option("--submission", "Folder or ZIP of the submission.", required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@options.Workers
def validate(challenge: Path, submission: Path, as_json: bool, workers: int | None) -> None:
    """Check a submission without the reference: everything that would be rejected, in one pass."""
    from evaluation.scoring.street import check_submission

    with screen.progress_bar("Checking") as progress:
        rules, findings = check_submission(challenge, submission, workers=workers, progress=progress)
    missing = missing_here()
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        findings = _with_other_format(findings, challenge, submission)
    if as_json:
        keys = ("code", "severity", "where", "got", "expected", "fix", "count")
        entries = [{key: getattr(finding, key) for key in keys} for finding in sorted(set(findings))]
        document = {"valid": not errors, "findings": entries, **({"unconfined": missing} if missing else {})}
        screen.show_json(document, sort_keys=True)
    elif missing:
        click.echo(f"Files were decoded without {', '.join(missing)} to confine the decoder (docs/security.md).")
    if errors:
        raise SubmissionRejected(*findings)
    if not as_json:
        screen.show_findings(findings)
        cases = len(rules.cases)
        if findings:
            told = render_briefly(findings, cases=cases)
            click.echo(f"Valid, with {counted(len(told), 'warning')}: {'; '.join(told)}.")
        else:
            click.echo(f"Valid: {'all ' * (cases > 1)}{counted(cases, 'case')} of {quote(rules.name)} can be scored.")


# --- score ------------------------------------------------------------------------------------------------------------


@click.command()
@options.challenge_option("Folder with challenge.toml, cases.csv and the reference.")
@options.path_option("--submission", "Folder or ZIP of the submission. [default: /input]")
@options.output_option("Folder for metrics.json and details. [default: /output]")
@options.page_option("report", "Also write {}.html, a page that shows the reference.")
@click.option(
    "--team", help="Team of the submission; its stored result is excluded from the ranking. [default: unknown]"
)
@options.path_option("--images", "Folder with the images, for --report. [default: images/]")
@click.option("--quiet", is_flag=True, help="Print no summary.")
@options.Cluster
@options.Workers
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

    Without arguments the paths of the platform are used: /input, /output, and the uploaded ground truth, or the ground
    truth in the image. There [publish] of challenge.toml defines the content of metrics.json, and nothing is printed;
    otherwise metrics.json contains all scores, and a summary with all findings is printed to stderr.
    """
    from evaluation.challenge import Challenge
    from evaluation.files.results.files import remove_results
    from evaluation.files.submission import open_of_challenge

    if images is not None and not report:
        raise options.needed_beside("--images", "--report", "both")
    is_public = challenge is None and options.is_platform()
    is_read = challenge is not None and not quiet and sys.stderr is not None
    challenge = challenge or options.ground_truth()
    submission = submission or options.existing(options.INPUT, "--submission", usual=True)
    output = output or options.existing(options.OUTPUT, "--output", usual=True)
    try:
        rules = Challenge.load(challenge)
        if images is not None:
            from evaluation.report.folders import check_image_folder

            check_image_folder(rules, challenge, images)
        files = open_of_challenge(submission, rules)
        from evaluation.scoring.executors import connect  # late: an empty submission is rejected without the rest
        from evaluation.scoring.street import score_submission

        with connect(cluster, screen.tell) as executor, screen.progress_bar("Scoring") as progress:
            result = score_submission(
                challenge, files, challenge=rules, workers=workers, progress=progress, executor=executor
            )
    except (SubmissionRejected, ChallengeBroken) as error:
        for trace in dict.fromkeys(finding.trace for finding in error.findings if finding.trace):
            click.echo(trace)
        with options.writing_to(output):
            remove_results(output)  # an earlier submission's would be taken for this one's
        if isinstance(error, SubmissionRejected):
            error.findings = _with_other_format(error.findings, challenge, submission)
        raise
    earlier_results = challenge / "leaderboard"  # results to rank among, or a folder that may not be looked into
    if any(earlier_results.glob("*.json")) or (
        earlier_results.is_dir() and not os.access(earlier_results, os.R_OK | os.X_OK)
    ):
        from evaluation.board.board import rank_result

        result = rank_result(challenge, result, team=team or "")
    with options.writing_to(output):
        result.write(output, public=is_public)
    if report:
        from evaluation.report.folders import Sources, page_of_results, write_page

        with screen.progress_bar("Drawing") as progress, options.writing_to(output):
            sources = Sources(challenge, submission, images)
            page = page_of_results(output, sources=sources, workers=workers, progress=progress)
            write_page(page, output / "report.html")
    if is_read:
        with redirect_stdout(sys.stderr):
            _show_summary(challenge, files, result)
            screen.show_written(output, "metrics.json", "details.json", "objects.csv", page="report.html" * report)


def _show_summary(challenge: Path, submission: SubmissionFiles, result: Result) -> None:
    """Print the scores, the findings and the rank of a submission."""
    from evaluation.folders.hints import hints_about_files
    from evaluation.report.result import WORDS_OF_AGGREGATIONS, ResultDocuments
    from evaluation.report.skills import SKILLS, side_by_side

    rule = next(iter(result.scores))
    title = f"{result.challenge.name}, {f'matched by {rule}' if result.challenge.matching.rules else 'counted'}"
    if (confidence := result.challenge.confidence) and any(ends.low is not None for ends in result.intervals.values()):
        title += f", {100 * confidence.level:g}% intervals"
    read = ResultDocuments(result.metrics, result.written_details)  # no score of a case or patient is shown
    screen.show_block(
        side_by_side(title, {WORDS_OF_AGGREGATIONS[name]: (read, name) for name in read.aggregations}, SKILLS)
    )
    hints: list[Finding] = []
    with suppress(MemoryError):  # the results are written
        hints += hints_about_files(challenge, submission, result)
    screen.show_findings([*result.findings, *hints])
    ranks = result.metrics.get("leaderboard")
    if ranks and ranks["position"] is not None:
        click.echo(f"Rank {ranks['position']:g} of {ranks['submissions']} among the results of the challenge")


# --- leaderboard ------------------------------------------------------------------------------------------------------


_Store = options.path_option(
    "--store",
    "Folder for a copy of the metrics.json of each ranked team, for the next phase.",
    check=options.output_folder,
)


@click.command()
@options.ReferenceFolder
@options.path_option("--submissions", "Folder with a folder, ZIP or CSV for each team.", required=True)
@options.output_option("Folder for the leaderboard and cached results.", required=True)
@_Store
@options.Before
@options.page_option("leaderboard")
@options.Work
def leaderboard(
    challenge: Path,
    submissions: Path,
    output: Path,
    store: Path | None,
    report: bool,
    before: Path | None,
    work: dict[str, Any],
) -> None:
    """Score all teams and rank them: leaderboard.json, leaderboard.csv and a table.

    With --report, leaderboard.html links to a page for each team and each case.

    Results are cached in OUTPUT/results. Run the command again to score new or changed submissions, or to resume.
    A team with a rejected submission stays in the table, with the reason. Put the files of --store into the folder
    leaderboard/ of the challenge: then 'score' ranks a submission among these results.
    """
    from evaluation.board.board import score_and_rank

    with screen.scoring(**work) as how, options.writing_to(output):
        board = score_and_rank(challenge, submissions, output, before=before, **how)
    show_board, notes = screen.keep_board(board, output, report=False), []
    if report:
        from evaluation.report.folders import report_board

        with screen.progress_bar("Drawing") as drawn, options.writing_to(output):
            written = report_board(output, board, challenge, submissions, workers=work["workers"], progress=drawn)
        notes.append(f"{counted(len(written), 'page')}: open {output}/{written[0]} in a browser")
    if store is not None:
        from evaluation.board.board import store_results
        from evaluation.board.teams import ResultFolder

        with options.writing_to(store):
            store_results(board, ResultFolder(output / "results").metrics(), store)
        notes.append(f"Stored in {store}: the results of {counted(len(board.teams), 'team')}")
    show_board()
    if board.teams:
        from evaluation.report.folders import read_result
        from evaluation.report.reasons import nuclei_of_columns

        of_first = read_result(output / "results" / board.teams[0].name)
        notes = [*nuclei_of_columns([column.path for column in board.columns], of_first), *notes]
    screen.show_lines(notes)


# --- rank -------------------------------------------------------------------------------------------------------------


@click.command()
@options.challenge_option("Folder with challenge.toml and cases.csv; needed for --results.")
@options.path_option("--results", "Folder with metrics.json of every team, or the platform's export (CSV).")
@options.path_option("--scores", "CSV with the columns team, case, group, metric, value.")
@options.ScoreColumns
@options.output_option("Folder for the leaderboard.", required=True)
@_Store
@options.Before
@options.page_option("leaderboard")
def rank(
    challenge: Path | None,
    results: Path | None,
    scores: Path | None,
    ranked: dict[str, Any],
    output: Path,
    store: Path | None,
    report: bool,
    before: Path | None,
) -> None:
    """Rank teams that are scored already: result folders, files of the platform, or a CSV of scores.

    The platform's export is the CSV of its leaderboard page, or the JSON of its API: the newest published evaluation
    of each user under these rules counts. --store keeps the ranked results for the folder leaderboard/ of a challenge.
    """
    from evaluation.board.board import rank_given, store_results
    from evaluation.board.exported import unpack_export
    from evaluation.board.teams import ResultFolder
    from evaluation.challenge import Challenge

    with tempfile.TemporaryDirectory() as unpacked:
        if results is not None and results.is_file() and challenge is not None:
            screen.show_lines(unpack_export(results, Challenge.load(challenge), Path(unpacked)))
            results = Path(unpacked)
        board = rank_given(challenge, results=results, scores=scores, before=before, **ranked)
        files = ResultFolder(results).metrics() if results else None
        screen.keep_board(board, output, report=report, metrics=files)()
        if store is not None:
            if files is None:
                raise options.needed_beside("--store", "--results", "results to store")
            with options.writing_to(store):
                store_results(board, files, store)
            click.echo(f"Stored in {store}: the results of {counted(len(board.teams), 'team')}")


# --- audit ------------------------------------------------------------------------------------------------------------


@click.command()
@options.challenge_option("Folder with challenge.toml, cases.csv, reference.")
@options.path_option("--submissions", "Folder with a folder, ZIP or CSV for each team.")
@options.path_option("--scores", "CSV of scores instead of submissions, with the options of rank.")
@options.ScoreColumns
@options.output_option("Folder for the audit and cached scores.", required=True)
@options.page_option("audit")
@options.Work
def audit(
    challenge: Path | None,
    submissions: Path | None,
    scores: Path | None,
    ranked: dict[str, Any],
    output: Path,
    work: dict[str, Any],
    report: bool,
) -> None:
    """Rank all teams under other rules: can the first rank be defended? Writes audit.json and audit.csv.

    The audit varies the matching rule, its threshold, the averaging unit, overlap rules, ignore regions, the weights of
    columns and the ranking method, as set by [audit] in challenge.toml. Scores are cached in OUTPUT/scores for the next
    audit. With --scores, only ranking rules are varied.
    """
    if scores is not None:
        if submissions is not None:
            raise options.not_both("--submissions", "--scores", "scores have no nuclei")
        from evaluation.board.audit import audit_scores_in_file

        _show_audit(audit_scores_in_file(challenge, scores, **ranked), output, report=report)
        return
    if submissions is None:
        raise WrongUsage(
            fault("missing-option", "--submissions, --scores", wording="no-results-or-scores", number="neither is")
        )
    if challenge is None:
        raise options.needed_beside("--submissions", "--challenge", "the challenge that the submissions are of")
    if ranked["columns"] or ranked["settings"]:
        raise options.not_both("--column, --set", "--submissions", "the challenge defines the ranking")
    from evaluation.board.audit import audit_challenge

    with screen.scoring(**work) as how, options.writing_to(output):
        of_challenge = audit_challenge(challenge, submissions, output, **how)
    _show_audit(of_challenge, output, report=report)


def _show_audit(audit: Audit, output: Path, *, report: bool) -> None:
    """Write an audit, and print the first sections of its page."""
    from evaluation.board.variants import audit_csv, audit_document
    from evaluation.files.results.files import write_atomically
    from evaluation.report.studies import audit_page

    document = audit_document(audit)
    screen.write_document(output, "audit", document, audit_page if report else None)
    with options.writing_to(output):
        write_atomically(output / "audit.csv", audit_csv(audit))
    screen.show_sections(audit_page(document), "first-place", "borders-section", "rules")
    screen.show_lines(audit.notes)
    screen.show_written(output, "audit.json", "audit.csv", page="audit.html" * report)


# --- archive ----------------------------------------------------------------------------------------------------------


@click.command()
@options.RulesFolder
@options.path_option("--results", "Folder that 'leaderboard' wrote.", required=True)
@options.path_option("--output", "The ZIP to write.", required=True)
@click.option("--creator", "creators", multiple=True, required=True, help="Creator, 'Family name, Given name'.")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Day of publication. [default: today]")
@click.option("--image", default="", metavar="DIGEST", help="Digest of the container image that computed the scores.")
@click.option("--private", is_flag=True, help="Include reference, details.json and objects.csv; not for publication.")
def archive(challenge: Path, results: Path, output: Path, date: datetime | None, **about: Any) -> None:
    """Write one ZIP of a challenge: rules, results, ranking, versions, lock, checksums, metadata.

    Files that reveal the reference need --private. 'evaluation verify' recomputes the archive.
    """
    from evaluation.platform.archive import write_archive

    day = (date or datetime.now(UTC)).date().isoformat()
    with options.writing_to(output.parent):
        names = write_archive(challenge, options.existing(results, "--results"), output, date=day, **about)
    click.echo(f"Written to {output}: {len(names)} files")


# --- verify -----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("archive", type=options.FolderPath)
@options.path_option("--submissions", "Submissions to score again; needs an archive with the reference.")
@options.Workers
def verify(archive: Path, submissions: Path | None, workers: int | None) -> None:
    """Recompute an ARCHIVE as far as it permits: checksums, metadata, rules, the ranking, the scores of teams.

    With --submissions, and the reference in the archive, every result is recomputed. Each item is the same to the byte,
    the same to the digit, different, or cannot be checked; the exit code is 1 if an item differs.
    """
    from evaluation.platform.archive import verify_archive

    with tempfile.TemporaryDirectory() as work:
        checked = verify_archive(options.existing(archive, "ARCHIVE"), Path(work), submissions, workers=workers)
    for each in checked:
        click.echo(f"{each.outcome}: {each.what}{f' ({each.why})' if each.why else ''}")
    if any(each.outcome == "differs" for each in checked):
        click.get_current_context().exit(1)
    click.echo("everything that can be checked agrees")
