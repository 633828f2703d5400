"""Arguments in, exit code out. Only this module prints, reads the environment and exits."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from evaluation.catalogue import CATALOGUE
from evaluation.errors import ChallengeBroken, EvaluationError, SubmissionRejected, WorkerDied, WrongUsage
from evaluation.findings import Finding, did_you_mean, listed, quote, render_findings, render_summary
from evaluation.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

    from evaluation.model import OriginRule, OverlapRule
    from evaluation.report.leaderboard import Board

PLATFORM_INPUT = Path("/input")
PLATFORM_OUTPUT = Path("/output")
PLATFORM_GROUND_TRUTH = Path("/opt/ml/input/data/ground_truth")
OWN_GROUND_TRUTH = Path(__file__).resolve().parent.parent / "ground_truth"

FolderPath = click.Path(path_type=Path)


class Place(click.Path):
    """A local path, or an address of storage (fsspec), which is fetched when it is read. Shells complete paths."""

    def convert(self, value: str | os.PathLike[str], *_: object) -> Path | str:
        return value if isinstance(value, str) and "://" in value else Path(value)


place = Place()

BoardReport = click.option("--report", is_flag=True, help="Write leaderboard.html as well, to be opened in a browser.")
Cluster = click.option("--cluster", metavar="ADDRESS", help="Scheduler of a Dask cluster that works on the cases.")
Workers = click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; never changes a result.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evaluation")
def cli() -> None:
    """Score instance segmentation and classification of cell nuclei: finding, naming and outlining kept apart."""


@cli.command()
@click.option("--challenge", type=place, help="Folder with challenge.toml, cases.csv and the reference.")
@click.option("--submission", type=place, help="Folder or ZIP of the submission. [default: /input]")
@click.option("--output", type=FolderPath, help="Folder for metrics.json and details. [default: /output]")
@click.option("--report", is_flag=True, help="Write report.html as well, a page to look at; it shows the reference.")
@click.option("--images", type=FolderPath, help="Folder with the images, for --report. [default: images/]")
@Cluster
@Workers
def score(
    challenge: Path | str | None,
    submission: Path | str | None,
    output: Path | None,
    report: bool,
    images: Path | None,
    workers: int | None,
    cluster: str | None,
) -> None:
    """Score a submission: writes metrics.json, details.json and objects.csv; with --report a page to look at.

    Without arguments the platform's paths are used: /input, /output, and the ground truth that was uploaded, else
    the one of the image.
    """
    from evaluation.cluster import connect
    from evaluation.pipeline import score_submission

    if images is not None and not report:
        raise WrongUsage(Finding("missing-option", "--report", "not given, but --images is", "both", "Add --report."))
    if report:
        check_report()
    challenge = challenge_folder(challenge, cluster, output) if challenge else platform_ground_truth()
    submission = submission or existing(PLATFORM_INPUT, "--submission")
    submission = local(submission, cluster, output, challenge=challenge)
    output = output or existing(PLATFORM_OUTPUT, "--output")
    output_folder(output)
    if images is not None:
        from evaluation.challenge import Challenge
        from evaluation.report_command import check_images

        check_images(Challenge.load(challenge), challenge, images)
    with connect(cluster) as executor, progress_bar("Scoring") as progress:
        result = score_submission(challenge, submission, workers=workers, progress=progress, executor=executor)
    if has_earlier_results(challenge):
        from evaluation.leaderboard import rank_result

        result = rank_result(challenge, result)
    with writing_to(output):
        result.write(output)
    if report:
        from evaluation.report_command import Sources, report_result

        with progress_bar("Drawing") as progress, writing_to(output):
            report_result(output, Sources(challenge, submission, images), workers=workers, progress=progress)
    if sys.stdout.isatty():
        from evaluation.report.tables import score_table

        rule, scores = next(iter(result.scores.items()))
        title = f"{result.challenge.name}, {f'matched by {rule}' if result.challenge.matching.rules else 'counted'}"
        unit, confidence = result.challenge.aggregation.unit, result.challenge.confidence
        level = confidence.level if confidence else 0.0
        show(score_table(scores, title, unit=unit, intervals=result.intervals, level=level))
        show_findings(result.findings)
        ranks = result.metrics.get("leaderboard")
        if ranks and ranks["position"] is not None:
            click.echo(f"Place {ranks['position']:g} of {ranks['submissions']} among the results of the challenge")
        click.echo(f"Written to {output}: metrics.json, details.json, objects.csv{', report.html' if report else ''}")


@cli.command()
@click.option("--challenge", type=place, required=True, help="Folder with challenge.toml and cases.csv.")
@click.option("--submission", type=place, required=True, help="Folder or ZIP of the submission.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@Workers
def validate(challenge: Path | str, submission: Path | str, as_json: bool, workers: int | None) -> None:
    """Check a submission without the reference: everything that would be rejected, in one pass."""
    from evaluation.pipeline import check_submission

    challenge = challenge_folder(challenge)
    submission = local(submission, challenge=challenge)
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


@cli.command()
@click.option("--challenge", type=place, required=True, help="Folder with challenge.toml, cases.csv, reference.")
@click.option("--submissions", type=place, required=True, help="Folder with a folder, ZIP or CSV for each team.")
@click.option("--output", type=FolderPath, required=True, help="Folder for the leaderboard, and results that are kept.")
@BoardReport
@Cluster
@Workers
def leaderboard(
    challenge: Path | str,
    submissions: Path | str,
    output: Path,
    workers: int | None,
    cluster: str | None,
    report: bool,
) -> None:
    """Score all teams and rank them: leaderboard.json, leaderboard.csv and a table; with --report leaderboard.html.

    Results are kept in OUTPUT/results: a second call scores what is new or has changed, an interrupted one goes on.
    A team whose submission is rejected stays in the table, with the reason.
    """
    from evaluation.cluster import connect
    from evaluation.leaderboard import score_and_rank

    output_folder(output)
    if report:
        check_report()
    with connect(cluster) as executor, progress_bar("Scoring teams") as progress, writing_to(output):
        board = score_and_rank(
            challenge_folder(challenge, cluster, output),
            submissions,
            output,
            workers=workers,
            progress=progress,
            told=None if progress else tell_team,
            executor=executor,
        )
    show_board(board, output, report=report)


@cli.command()
@click.option("--challenge", type=place, required=True, help="Folder with challenge.toml, cases.csv, reference.")
@click.option("--submissions", type=place, required=True, help="Folder with a folder, ZIP or CSV for each team.")
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
    from evaluation.audit import audit_challenge, write_audit
    from evaluation.cluster import connect
    from evaluation.report.audit import audit_lines, effect_table, team_table

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
        if report:
            from evaluation.report.audit import audit_document
            from evaluation.report.pages.audit import audit_page
            from evaluation.report_command import write_page

            write_page(audit_page(audit_document(found)), output / "audit.html")
    for line in found.answer:
        click.echo(line)
    show(team_table(found))
    show(effect_table(found))
    for line in audit_lines(found):
        click.echo(line)
    click.echo(f"Written to {output}: audit.json, audit.csv{', audit.html' if report else ''}")


@cli.command()
@click.option("--challenge", type=place, help="Folder with challenge.toml and cases.csv; needed for --results.")
@click.option("--results", type=place, help="Folder with metrics.json (and details.json) of every team.")
@click.option("--scores", type=FolderPath, help="CSV with the columns team, case, group, metric, value.")
@click.option("--column", "columns", multiple=True, metavar="METRIC:DIRECTION[:WEIGHT]",
              help="A column to rank by, ascending or descending; for --scores without a challenge.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Another value for a key of [ranking].")
@click.option("--unit", type=click.Choice(["group", "case"]), default="group", show_default=True,
              help="What means of --scores are taken over, and what is tested and drawn.")  # fmt: skip
@click.option("--output", type=FolderPath, required=True, help="Folder for the leaderboard.")
@BoardReport
def rank(
    challenge: Path | str | None,
    results: Path | str | None,
    scores: Path | None,
    columns: tuple[str, ...],
    settings: tuple[str, ...],
    unit: Literal["group", "case"],
    output: Path,
    report: bool,
) -> None:
    """Rank teams that are scored already: result folders, files of the platform, or a CSV of scores."""
    from evaluation.rank_command import rank_given

    output_folder(output)
    if report:
        check_report()
    folder = challenge_folder(challenge) if challenge else None
    found = local(results) if results else None
    board = rank_given(folder, results=found, scores=scores, columns=columns, settings=settings, unit=unit)
    show_board(board, output, report=report)


@cli.command()
@click.option("--results", type=FolderPath, required=True,
              help="Folder with metrics.json, leaderboard.json, audit.json or sensitivity.json.")  # fmt: skip
@click.option("--output", type=FolderPath, help="HTML file to write. [default: a summary on the terminal]")
@click.option("--challenge", type=place, help="Folder of the challenge, for pictures and the cost of each error.")
@click.option("--submission", type=place, help="Folder or ZIP of the submission that was scored, for the same.")
@click.option("--images", type=FolderPath, help="Folder with the images of the cases. [default: images/]")
@click.option("--overlays", type=FolderPath, help="Folder for overlays of all cases: PNG, and GeoJSON for QuPath.")
@click.option("--public", is_flag=True, help="Only what metrics.json tells: nothing of single cases or patients.")
@Workers
def report(
    results: Path,
    output: Path | None,
    challenge: Path | str | None,
    submission: Path | str | None,
    images: Path | None,
    overlays: Path | None,
    public: bool,
    workers: int | None,
) -> None:
    """Make a page of results, one HTML file that opens anywhere: of a submission, a leaderboard, an audit or a study.

    With --challenge and --submission the page of a submission shows its worst nuclei and cases, and what each kind of
    error costs. Without --output a summary is printed.
    """
    from evaluation.report_command import Sources, page_of_results, write_page

    given = {"--submission": submission, "--challenge": challenge, "--images": images, "--overlays": overlays}
    named = [option for option, path in given.items() if path is not None]
    for option in ("--challenge", "--submission"):
        if named and given[option] is None:
            got = f"not given, but {named[0]} is"
            raise WrongUsage(Finding("missing-option", option, got, "--challenge and --submission", f"Add {option}."))
    sources = None
    if challenge is not None and submission is not None:
        challenge = challenge_folder(challenge)
        sources = Sources(challenge, local(submission, challenge=challenge), images, overlays)
    if output is not None:
        check_report()
    with progress_bar("Drawing") as progress, writing_to(overlays or results):
        page = page_of_results(results, sources=sources, public=public, workers=workers, progress=progress)
    if output is not None:
        with writing_to(output):
            write_page(page, output)
        click.echo(f"Written to {output}")
        return
    from rich.console import Console

    from evaluation.report.pages.terminal import page_renderables

    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    for part in page_renderables(page):
        console.print(part)


@cli.command()
@click.option("--challenge", type=place, required=True, help="Folder with challenge.toml and cases.csv.")
def phase(challenge: Path | str) -> None:
    """Print the settings of the platform's phase that belong to [ranking], as JSON, and what they mean."""
    from evaluation.leaderboard import load_ranked
    from evaluation.phase import phase_settings

    rules, _ = load_ranked(challenge_folder(challenge))
    click.echo(json.dumps(phase_settings(rules), indent=1, ensure_ascii=False))


@cli.command()
@click.option("--challenge", type=place, required=True, help="Folder with challenge.toml, cases.csv, reference.")
@click.option("--output", type=FolderPath, required=True, help="Folder for label maps and the report.")
@Workers
def rasterise(challenge: Path | str, output: Path, workers: int | None) -> None:
    """Turn the reference into label maps and tell what happened to overlapping, vanished and broken outlines."""
    from evaluation.pipeline import rasterise_reference
    from evaluation.report.rasterisation import write_rasterisation
    from evaluation.report.tables import rasterisation_table

    with progress_bar("Rasterising") as progress:
        rules, prepared = rasterise_reference(challenge_folder(challenge), workers=workers, progress=progress)
    findings = [finding for _, reference in prepared for finding in reference.findings]
    if rules.reference.are_points or rules.reference.are_counts:
        show_findings(findings)
        what = "points" if rules.reference.are_points else "numbers of nuclei"
        click.echo(f"The reference holds {what}; there is nothing to rasterise.")
        return
    told = [(case, reference.instances, reference.report) for case, reference in prepared if reference.report]
    with writing_to(output):
        write_rasterisation(output_folder(output), rules, told)
    outlines = rules.reference.vanished is not None
    show(rasterisation_table({case.name: report for case, _, report in told}, outlines=outlines))
    show_findings(findings)
    click.echo(f"Written to {output}: labels/, instances.csv, rasterisation.json")


@cli.command()
@click.option("--challenge", type=place, required=True, help="Folder with challenge.toml, cases.csv, reference.")
@click.option("--output", type=FolderPath, help="Folder for sensitivity.json and sensitivity.csv.")
@click.option("--report", is_flag=True, help="Write sensitivity.html as well, to be opened in a browser.")
@Workers
def sensitivity(challenge: Path | str, output: Path | None, workers: int | None, report: bool) -> None:
    """What does a pixel cost? Compare the reference with itself, a pixel or two larger, smaller, lower, or coarser.

    Tells how to match nuclei of this size and how to score their outlines, before anybody takes part: medians of IoU,
    Dice, Hausdorff distance and surface Dice by class and size, and the share of nuclei that each matching rule loses.
    """
    from evaluation.report.sensitivity import sensitivity_document, sensitivity_lines
    from evaluation.sensitivity import study_sensitivity, write_sensitivity

    if report and output is None:
        expected = "a folder for the page"
        raise WrongUsage(Finding("missing-option", "--output", "not given", expected, "Add --output DIR."))
    if output:
        output_folder(output)
    if report:
        check_report()
    with progress_bar("Comparing") as progress:
        found = study_sensitivity(challenge_folder(challenge), workers=workers, progress=progress)
    document = sensitivity_document(found)
    if output:
        with writing_to(output):
            write_sensitivity(output, found)
            if report:
                from evaluation.report.pages.sensitivity import sensitivity_page
                from evaluation.report_command import write_page

                write_page(sensitivity_page(document), output / "sensitivity.html")
    for line in sensitivity_lines(document):
        click.echo(line)
    if output:
        page = ", sensitivity.html" if report else ""
        click.echo(f"Written to {output}: sensitivity.json, sensitivity.csv{page}")


@cli.command()
@click.option("--preset", required=True, help="Name of a published challenge; see 'evaluation presets'.")
@click.option("--name", help="Name of the new challenge. [default: the folder's]")
@click.argument("folder", type=FolderPath)
def init(preset: str, name: str | None, folder: Path) -> None:
    """Start a challenge in FOLDER: a commented challenge.toml, and cases.csv with the sizes of the images.

    Sizes are read from the headers of SVS and TIFF files that lie beside the reference files, where there are any.
    """
    from evaluation.initialise import initialise_challenge

    with writing_to(folder):
        started = initialise_challenge(output_folder(folder), preset=preset, name=name)
    for line in started.lines():
        click.echo(line)


@cli.command()
@click.option("--challenge", type=place, required=True, help="Folder with challenge.toml and cases.csv.")
@click.option("--output", type=FolderPath, required=True, help="New folder for what participants get.")
def kit(challenge: Path | str, output: Path) -> None:
    """Write what participants get: the rules, the cases, an example submission that validates, and a guide."""
    from evaluation.kit import write_kit

    with writing_to(output):
        written = write_kit(challenge_folder(challenge), output_folder(output))
    click.echo(f"Written to {output}: {', '.join(written.files)}")


@cli.command()
@click.argument("source", type=FolderPath)
@click.argument("output", type=FolderPath)
@click.option("--to", "target", required=True, help="label_tiff, geojson, nary_mat, polygons_json, points_json, …")
@click.option("--from", "format", help="Format of SOURCE, as in challenge.toml. [default: guessed from its suffix]")
@click.option("--set", "options", multiple=True, metavar="KEY=VALUE", help="A key of the format, such as units=mm.")
@click.option("--classes", help="Names of the classes in order, with commas. [default: those in the file]")
@click.option("--size", metavar="HEIGHTxWIDTH", help="Size of the image in px, where the file does not tell it.")
@click.option("--spacing", type=float, help="Size of a pixel in um, for files in mm or um.")
@click.option("--challenge", type=place, help="Take all rules from here; SOURCE is a submission, or 'reference'.")
@click.option("--origin", type=click.Choice(["pixel_corner", "pixel_centre"]), default="pixel_corner",
              help="Where whole coordinates lie in what is written.", show_default=True)  # fmt: skip
@click.option("--overlap", type=click.Choice(["last", "first", "smallest", "class_order"]),
              help="Who keeps pixels of several nuclei, for label images.")  # fmt: skip
@click.option("--trust-pickle", is_flag=True, help="SOURCE is a pickle of your own: loading it runs what is in it.")
def convert(
    source: Path,
    output: Path,
    target: str,
    format: str | None,
    options: tuple[str, ...],
    classes: str | None,
    size: str | None,
    spacing: float | None,
    challenge: Path | str | None,
    origin: OriginRule,
    overlap: OverlapRule | None,
    trust_pickle: bool,
) -> None:
    """Convert annotations or predictions: one file, or with --challenge a whole submission or reference."""
    from evaluation.conversion import TARGETS, convert_challenge, convert_file, parse_options, parse_size

    if target not in TARGETS:
        expected = listed(TARGETS)
        raise WrongUsage(Finding("unknown-format", "--to", quote(target), expected, did_you_mean(target, TARGETS)))
    with writing_to(output):
        if challenge is not None:
            given = {"--from": format, "--set": options, "--classes": classes, "--size": size, "--spacing": spacing}
            for option in [name for name, value in given.items() if value] + ["--trust-pickle"] * trust_pickle:
                expected = "only one of them, since the challenge says how its files are read"
                raise WrongUsage(Finding("contradictory-rules", option, "given with --challenge", expected))
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
                trust_pickle=trust_pickle,
            )
    for path in done.files[:10]:
        click.echo(f"Written: {path}")
    if len(done.files) > 10:
        click.echo(f"and {len(done.files) - 10:,} more files")
    show_findings(done.findings)


@cli.command()
def presets() -> None:
    """List the published challenges that 'init' and 'preset = …' know."""
    from evaluation.challenge import preset_names, preset_text

    names = preset_names()
    width = max(map(len, names)) + 2
    for name in names:
        click.echo(f"{name:{width}}{preset_text(name).splitlines()[0].lstrip('# ')}")


@cli.command()
@click.argument("code", metavar="[CODE|PATH]", required=False)
def explain(code: str | None) -> None:
    """Explain the CODE in the square brackets of a message, or the metric at a PATH of metrics.json.

    Without either, list all codes and all pages of metrics.
    """
    from evaluation.catalogue.pages import terminal_index, terminal_page

    wanted = (code or "").strip("[] ")
    if wanted.lower() in CATALOGUE:
        click.echo(terminal_page(wanted.lower()))
        return
    from evaluation.handbook import pages as metric_pages  # only now: it takes a while to import

    if code is None:
        click.echo(f"{terminal_index()}\n\n{metric_pages.terminal_index()}")
        return
    page = metric_pages.page_of(wanted)
    if page is None:
        expected = "one of the codes that 'evaluation explain' lists"
        known = [*CATALOGUE, *metric_pages.metrics_by_page()]
        fix = did_you_mean(metric_pages.general_path(wanted.split(".")), known)
        raise WrongUsage(Finding("unknown-code", "explain", quote(wanted), expected, fix))
    click.echo(metric_pages.terminal_page(page))


@cli.command()
@click.option("--output", type=FolderPath, help="Folder to keep the made challenge and the results in.")
@click.option("--report", is_flag=True, help="Write pages as well: leaderboard.html, results/<team>/report.html.")
@click.option("--real", is_flag=True, help="Real annotations (a tile of NuCLS) and three perturbed copies of them.")
@Workers
def demo(output: Path | None, report: bool, real: bool, workers: int | None) -> None:
    """Make a challenge with three teams, score them, and see why one number is not enough."""
    from evaluation.demo import run_demo
    from evaluation.real_demo import run_real_demo

    if report:
        if output is None:
            fix = "Add --output DIR."
            raise WrongUsage(Finding("missing-option", "--output", "not given", "a folder that pages are kept in", fix))
        check_report()
    with progress_bar("Scoring three teams") as progress:
        make = run_real_demo if real else run_demo
        outcome = make(output_folder(output) if output else None, workers=workers, progress=progress)
    from evaluation.report.leaderboard import leaderboard_table
    from evaluation.report.tables import comparison_table

    show(comparison_table(outcome.scores, "group_mean", outcome.title))
    for line in outcome.lines():
        click.echo(line)
    click.echo()
    show(leaderboard_table(outcome.board))
    click.echo()
    for line in outcome.closing_lines():
        click.echo(line)
    if report and outcome.folder is not None:
        from evaluation.report_command import report_demo

        with progress_bar("Drawing") as progress, writing_to(outcome.folder):
            written = report_demo(outcome.folder, outcome.board, workers=workers, progress=progress)
        click.echo(f"Pages to open in a browser: {', '.join(written)}")


# --- paths of the platform ------------------------------------------------------------------------------------------


def platform_ground_truth() -> Path:
    """The uploaded ground truth if there are files in it (the folder always exists), else the image's own."""
    uploaded = PLATFORM_GROUND_TRUTH
    if uploaded.is_dir() and any(path.is_file() for path in uploaded.rglob("*")):
        return uploaded
    return existing(OWN_GROUND_TRUTH, "--challenge")


def has_earlier_results(challenge: Path) -> bool:
    """Whether the challenge keeps results that a submission is ranked among."""
    return any((challenge / "leaderboard").glob("*.json"))


def output_folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise WrongUsage(Finding("file-exists", quote(path), "a file", "a folder to write to", "Name another."))
    return path


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Tell what cannot be written as a fault of the command line."""
    try:
        yield
    except OSError as error:
        got = (error.strerror or "not writable").lower()
        fix = "Check its permissions and the space that is left, or name another folder."
        raise WrongUsage(Finding("cannot-write", quote(folder, 120), got, "a folder to write to", fix)) from None


def local(
    path: Path | str, cluster: str | None = None, output: Path | None = None, *, challenge: Path | None = None
) -> Path:
    """A path, or what lies at an address until the command ends: with a cluster below the output, which it can see.

    challenge   whose limits hold; None: what is fetched is the organisers' own, whatever its size
    """
    if isinstance(path, Path):
        return path
    from evaluation.challenge import Challenge, LimitRules
    from evaluation.storage import FETCHED, fetched

    own = LimitRules(bytes_per_file=sys.maxsize, files_per_submission=sys.maxsize)
    limits = own if challenge is None else Challenge.load(challenge).limits
    below = output / FETCHED if cluster and output else None
    return click.get_current_context().with_resource(fetched(path, limits, below=below))


def challenge_folder(path: Path | str, cluster: str | None = None, output: Path | None = None) -> Path:
    try:
        path = local(path, cluster, output)
    except SubmissionRejected as error:  # for the names of its files
        raise ChallengeBroken(*error.findings) from None
    if not path.is_dir():
        raise WrongUsage(Finding("no-challenge", quote(path, 120), "no such folder", "the folder of a challenge"))
    return path


def existing(path: Path, option: str) -> Path:
    if not path.exists():
        raise WrongUsage(
            Finding("missing-option", option, f"not given, and there is no {path}", "a path", f"Add {option} PATH.")
        )
    return path


# --- what people see ------------------------------------------------------------------------------------------------


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on a terminal; silence elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield advance


def show(table: Table) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def check_report() -> None:
    """Tell before anything is scored that no report can be written."""
    from evaluation.report.pages.html import require_extra

    require_extra()


def show_board(board: Board, output: Path, *, report: bool) -> None:
    """Write a leaderboard and print it."""
    from evaluation.leaderboard import write_board
    from evaluation.report.leaderboard import leaderboard_document, leaderboard_lines, leaderboard_table

    with writing_to(output):
        write_board(output, board)
        if report:
            from evaluation.report.pages.leaderboard import leaderboard_page
            from evaluation.report_command import write_page

            write_page(leaderboard_page(leaderboard_document(board)), output / "leaderboard.html")
    show(leaderboard_table(board))
    click.echo()
    for line in [*leaderboard_lines(board), *board.findings]:
        click.echo(line)
    click.echo(f"Written to {output}: leaderboard.json, leaderboard.csv{', leaderboard.html' if report else ''}")


def tell_team(name: str, outcome: str) -> None:
    """A line on what became of a team, where no progress bar can be shown."""
    click.echo(f"{quote(name)}: {outcome}", err=True)


def show_findings(findings: Iterable[Finding]) -> None:
    for line in render_findings(findings):
        click.echo(line)


def finding_document(finding: Finding) -> dict[str, object]:
    fields = ("code", "severity", "where", "got", "expected", "fix", "count")
    return {name: getattr(finding, name) for name in fields}


# --- the only way out -----------------------------------------------------------------------------------------------


def main() -> NoReturn:
    """Run a command and leave with its exit code; the last line on stderr is what a participant may read."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of a command: 0 done, 1 submission rejected, 2 wrong usage, 3 challenge broken, 70 our fault."""
    try:
        cli.main(arguments, prog_name="evaluation", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except EvaluationError as error:
        explain_failure(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("Interrupted; nothing was written.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"Cannot run: {error.strerror or 'a file or folder could not be used'}.", file=sys.stderr)
        traceback.print_exc(file=sys.stdout)
        return 70
    except MemoryError:
        print("The evaluation ran out of memory; this is not about your submission's scores.", file=sys.stderr)
        return 70
    except Exception:
        traceback.print_exc()
        print(
            "The evaluation failed by a fault of its own; the organisers find the details in the log.", file=sys.stderr
        )
        return 70
    return 0


def explain_failure(error: EvaluationError) -> None:
    """All findings, then one last line that is safe and useful to whoever handed in the submission."""
    lines = render_findings(error.findings)
    if isinstance(error, ChallengeBroken):
        last = "The challenge itself has a fault; this is not about the submission. Organisers: see the lines above."
    elif isinstance(error, WorkerDied):
        last = "The evaluation ran out of memory, or was stopped from outside; nothing was scored."
    else:
        from evaluation.submission.redact import redact_findings  # imports what commands that succeed may not need

        hidden = error.hidden_names if isinstance(error, SubmissionRejected) else ()
        last = render_summary(redact_findings(error.findings, hidden), intro=error.intro)
        lines = [] if lines == [last.removeprefix(f"{error.intro} ")] else lines
    for line in [*lines, last]:
        print(line, file=sys.stderr)
    sys.stderr.flush()
