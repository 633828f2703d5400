"""Arguments in, exit code out. Only this module prints, reads the environment and exits."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from evaluation.catalogue import CATALOGUE
from evaluation.errors import ChallengeBroken, EvaluationError, SubmissionRejected, WorkerDied, WrongUsage
from evaluation.findings import Finding, did_you_mean, quote, render_findings, render_summary
from evaluation.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

PLATFORM_INPUT = Path("/input")
PLATFORM_OUTPUT = Path("/output")
PLATFORM_GROUND_TRUTH = Path("/opt/ml/input/data/ground_truth")
OWN_GROUND_TRUTH = Path(__file__).resolve().parent.parent / "ground_truth"

FolderPath = click.Path(path_type=Path)
Workers = click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; never changes a result.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evaluation")
def cli() -> None:
    """Score instance segmentation and classification of cell nuclei: finding, naming and outlining kept apart."""


@cli.command()
@click.option("--challenge", type=FolderPath, help="Folder with challenge.toml, cases.csv and the reference.")
@click.option("--submission", type=FolderPath, help="Folder or ZIP of the submission. [default: /input]")
@click.option("--output", type=FolderPath, help="Folder for metrics.json and details. [default: /output]")
@Workers
def score(challenge: Path | None, submission: Path | None, output: Path | None, workers: int | None) -> None:
    """Score a submission: writes metrics.json, details.json and objects.csv.

    Without arguments the platform's paths are used: /input, /output, and the ground truth that was uploaded, else
    the one of the image.
    """
    from evaluation.pipeline import score_submission

    challenge = challenge_folder(challenge) if challenge else platform_ground_truth()
    submission = submission or existing(PLATFORM_INPUT, "--submission")
    output = output or existing(PLATFORM_OUTPUT, "--output")
    output_folder(output)
    with progress_bar("Scoring") as progress:
        result = score_submission(challenge, submission, workers=workers, progress=progress)
    result.write(output)
    if sys.stdout.isatty():
        from evaluation.report.tables import score_table

        rule, scores = next(iter(result.scores.items()))
        title = f"{result.challenge.name}, matched by {rule}"
        show(score_table(scores, title, unit=result.challenge.aggregation.unit))
        show_findings(result.findings)
        click.echo(f"Written to {output}: metrics.json, details.json, objects.csv")


@cli.command()
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml and cases.csv.")
@click.option("--submission", type=FolderPath, required=True, help="Folder or ZIP of the submission.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@Workers
def validate(challenge: Path, submission: Path, as_json: bool, workers: int | None) -> None:
    """Check a submission without the reference: everything that would be rejected, in one pass."""
    from evaluation.pipeline import check_submission

    with progress_bar("Checking") as progress:
        rules, findings = check_submission(challenge_folder(challenge), submission, workers=workers, progress=progress)
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
@click.option("--challenge", type=FolderPath, required=True, help="Folder with challenge.toml, cases.csv, reference.")
@click.option("--output", type=FolderPath, required=True, help="Folder for label maps and the report.")
@Workers
def rasterise(challenge: Path, output: Path, workers: int | None) -> None:
    """Turn the reference into label maps and tell what happened to overlapping, vanished and broken outlines."""
    from evaluation.pipeline import rasterise_reference
    from evaluation.report.rasterisation import write_rasterisation
    from evaluation.report.tables import rasterisation_table

    with progress_bar("Rasterising") as progress:
        rules, prepared = rasterise_reference(challenge_folder(challenge), workers=workers, progress=progress)
    told = [(case, reference.instances, reference.report) for case, reference in prepared if reference.report]
    write_rasterisation(output_folder(output), rules, told)
    show(rasterisation_table({case.name: report for case, _, report in told}))
    show_findings([finding for _, reference in prepared for finding in reference.findings])
    click.echo(f"Written to {output}: labels/, instances.csv, rasterisation.json")


@cli.command()
@click.option("--preset", required=True, help="Name of a published challenge; see 'evaluation presets'.")
@click.option("--name", help="Name of the new challenge. [default: the folder's]")
@click.argument("folder", type=FolderPath)
def init(preset: str, name: str | None, folder: Path) -> None:
    """Start a challenge in FOLDER: a commented challenge.toml, and cases.csv with the sizes of the images.

    Sizes are read from the headers of SVS and TIFF files that lie beside the reference files, where there are any.
    """
    from evaluation.initialise import initialise_challenge

    started = initialise_challenge(output_folder(folder), preset=preset, name=name)
    for line in started.lines():
        click.echo(line)


@cli.command()
def presets() -> None:
    """List the published challenges that 'init' and 'preset = …' know."""
    from evaluation.challenge import preset_names, preset_text

    for name in preset_names():
        click.echo(f"{name:24}{preset_text(name).splitlines()[0].lstrip('# ')}")


@cli.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Explain the CODE in the square brackets of a message; without CODE, list all."""
    if code is None:
        for known, page in CATALOGUE.items():
            click.echo(f"{known:24}{page.title}")
        return
    code = code.strip("[] ").lower()
    if code not in CATALOGUE:
        expected = "one of the codes that 'evaluation explain' lists"
        raise WrongUsage(Finding("unknown-code", "explain", quote(code), expected, did_you_mean(code, CATALOGUE)))
    page = CATALOGUE[code]
    click.echo(
        f"{code} ({page.severity}): {page.title}\n\n{page.why}\n\nWhat to do: {page.fix}\n\nExample:\n  {page.example}"
    )


@cli.command()
@click.option("--output", type=FolderPath, help="Folder to keep the made challenge and the results in.")
@Workers
def demo(output: Path | None, workers: int | None) -> None:
    """Make a challenge with three teams, score them, and see why one number is not enough."""
    from evaluation.demo import run_demo

    with progress_bar("Scoring three teams") as progress:
        outcome = run_demo(output_folder(output) if output else None, workers=workers, progress=progress)
    from evaluation.report.tables import comparison_table

    show(comparison_table(outcome.scores, "group_mean", outcome.title))
    for line in outcome.lines():
        click.echo(line)


# --- paths of the platform ------------------------------------------------------------------------------------------


def platform_ground_truth() -> Path:
    """The uploaded ground truth if there are files in it (the folder always exists), else the image's own."""
    uploaded = PLATFORM_GROUND_TRUTH
    if uploaded.is_dir() and any(path.is_file() for path in uploaded.rglob("*")):
        return uploaded
    return existing(OWN_GROUND_TRUTH, "--challenge")


def output_folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise WrongUsage(Finding("file-exists", quote(path), "a file", "a folder to write to", "Name another."))
    return path


def challenge_folder(path: Path) -> Path:
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
        last = "The evaluation was stopped from outside, most often for memory; nothing was scored."
    else:
        intro = "Submission rejected:" if isinstance(error, SubmissionRejected) else "Cannot run:"
        last = render_summary(error.findings, intro=intro)
        lines = [] if len(lines) == 1 else lines
    for line in [*lines, last]:
        print(line, file=sys.stderr)
    sys.stderr.flush()
