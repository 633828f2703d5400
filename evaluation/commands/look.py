"""The commands that need no challenge: compare, convert, report, explain, demo."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evaluation.commands import options, screen
from evaluation.findings import catalogue, code_index, code_page, counted, did_you_mean, errors, fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from nuclei_metrics.model import OriginRule, OverlapRule


def _check_words(_: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Raise BadParameter for classes, or a matching rule, that ``compare`` cannot read."""
    if text is not None:
        from evaluation.folders.made_challenge import parsed_classes, parsed_match

        try:
            parsed_match(text) if option.name == "match" else parsed_classes(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=f"--{option.name}") from None
    return text


def _named_paths(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, Path]:
    """Split NAME=PATH. Raises BadParameter for missing names, and for names that a folder cannot have."""
    from evaluation.challenge import is_safe_name

    named: dict[str, Path] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not (sign and path and is_safe_name(name)) or name in named:
            expected = "a unique name of letters, digits, spaces or _-.+@, and a path, such as 'U-Net=unet_masks'"
            raise click.BadParameter(f"'{text}'; expected {expected}", param_hint="--name")
        named[name] = options.FolderPath.convert(path)
    return named


def _table_file(path: Path) -> Path:
    """Raise BadParameter for a file without an ending of ``--table``."""
    from evaluation.report.paper import TEXT_OF_ENDING

    if path.suffix.lower() not in TEXT_OF_ENDING:
        raise click.BadParameter(f"'{path.name}'; expected .tex, .csv or .md", param_hint="--table")
    return path


def _families_in(_: click.Context, __: click.Parameter, names: str | None) -> list[str]:
    """Families of metrics, with commas between them. Raises BadParameter."""
    from nuclei_metrics.metrics import FAMILIES

    families = [name.strip() for name in (names or "").split(",") if name.strip()]
    for family in families:
        if family not in FAMILIES:
            expected = ", ".join(FAMILIES)
            raise click.BadParameter(f"'{family}' is no family of metrics; expected {expected}", param_hint="--metrics")
    return families


@click.command()
@options.page_option("compare", "Also write {}.html, a page with all predictions.")
@options.output_option("Folder for images.csv, metrics.json, details.json and objects.csv.")
@options.path_option("--save-challenge", "Save the challenge in this new folder.")
@click.option(
    "--classes",
    metavar="NAMES",
    callback=_check_words,
    help="Classes with their spellings, e.g. 'tumour=1,stroma=2', or 'none' for one class.",
)
@click.option("--leave-out", metavar="CLASS", multiple=True, help="Class that is not a nucleus, e.g. cells.")
@click.option("--ignore", metavar="NAME", multiple=True, help="Label or class of unannotated regions.")
@click.option(
    "--match",
    metavar="RULE[=NUMBER]",
    callback=_check_words,
    help="iou=0.7, centroid=12, hausdorff=6 (px), any_overlap or best_iou_centroid_inside. [default: iou=0.5]",
)
@click.option(
    "--annotator",
    "annotators",
    type=options.FolderPath,
    multiple=True,
    help="Second annotation of the same images: shown as the ceiling, not ranked.",
)
@click.option(
    "--metrics",
    "families",
    metavar="FAMILIES",
    callback=_families_in,
    help="Additional metric families to write, e.g. 'objects,curves'.",
)
@options.path_option("--table", "File for the table of a paper: .tex, .csv or .md.", check=_table_file)
@click.option(
    "--name",
    "named",
    metavar="NAME=PATH",
    multiple=True,
    callback=_named_paths,
    help="Prediction with its name in tables.",
)
@click.option("--ranking", is_flag=True, help="Rank several predictions, and print the tables of the ranking.")
@click.option("--explain", is_flag=True, help="Print how each file was read, and why.")
@options.Workers
@click.argument("reference", type=options.FolderPath)
@click.argument("predictions", type=options.FolderPath, nargs=-1)
def compare(
    reference: Path,
    predictions: tuple[Path, ...],
    named: dict[str, Path],
    report: bool,
    output: Path | None,
    save_challenge: Path | None,
    table: Path | None,
    ranking: bool,
    annotators: tuple[Path, ...],
    **how: Any,
) -> None:
    """Score PREDICTIONS against a REFERENCE: each a folder, a ZIP or a file of any format.

    Formats, pairs of files, sizes and classes are detected; the rules come from the preset 'recommended'. Several
    predictions are shown side by side.
    """
    from evaluation.folders.compare import compare_paths, model_names

    paths = (*predictions, *named.values(), *annotators)
    if not paths:
        raise click.MissingParameter(param_type="argument", param_hint="'PREDICTIONS...'")
    second = model_names(annotators)
    models = model_names(predictions) | named | second
    if len(models) < len(paths):
        raise click.BadParameter("two predictions have the same name", param_hint="--name")
    how["annotators"] = tuple(second)
    for path, option in ((reference, "REFERENCE"), *((path, "PREDICTIONS") for path in paths)):
        if report and path.suffix.lower() in (".html", ".htm") and not path.exists():
            place = "compare.html in the folder of --output, or here"
            raise click.BadParameter(f"it takes no value: the page is {place}. Remove '{path}'.", param_hint="--report")
        options.existing(path, option)
    try:
        with screen.progress_bar("Comparing") as progress, options.writing_to(save_challenge or Path()):
            comparison = compare_paths(
                reference, models, pictures=report, folder=save_challenge, progress=progress, **how
            )
    except errors.ChallengeBroken as broken:
        raise errors.ReferenceBroken(*broken.findings) from None
    except errors.SubmissionRejected as rejected:
        raise errors.PredictionRejected(*rejected.findings) from None
    from evaluation.folders.differences import differences_table

    if output is not None:
        with options.writing_to(output):
            comparison.write(output, ranking=ranking)
    if table is not None:
        from evaluation.files.results.files import write_atomically
        from evaluation.report.paper import TEXT_OF_ENDING

        with options.writing_to(table.parent):
            write_atomically(table, TEXT_OF_ENDING[table.suffix.lower()](comparison.table()))
    page = (output or Path()) / "compare.html"
    if report:
        with options.writing_to(page.parent):
            comparison.report(page, ranking=ranking)
    screen.show_lines(comparison.about_classes)
    screen.show_lines(comparison.notes)
    screen.show_block(comparison.scores())
    if comparison.differences:
        screen.show_block(differences_table(comparison.differences, comparison.unit))
    if ranking:
        screen.show_sections(comparison.page(ranking=True), "places", "common")
    screen.show_findings(finding for finding in comparison.findings if finding.code != "classes-differ")
    if output is not None:
        of_one = "metrics.json, details.json, objects.csv"
        of_board = "leaderboard.json, leaderboard.csv, " * ranking
        of_several = f"differences.csv, {of_board}results/"
        screen.show_written(output, "images.csv", of_one if len(comparison.results) == 1 else of_several)
    if report:
        click.echo(f"Page to open in a browser: {page}")
    if table is not None:
        click.echo(f"Written: {table}")
    if save_challenge is not None:
        submissions = save_challenge / "submissions"
        click.echo(f"Challenge to go on with: {save_challenge}, with the predictions in {submissions}")


# --- convert ----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("source", type=options.FolderPath)
@click.argument("output", type=options.FolderPath)
@click.option("--to", "target", required=True, help="geojson, label_tiff, nary_mat or platform (its JSON).")
@click.option("--from", "format", help="Format of SOURCE, as in challenge.toml. [default: by its content]")
@click.option("--set", "keys", multiple=True, metavar="KEY=VALUE", help="A key of the format, such as units=mm.")
@click.option("--classes", help="Class names in order, with commas. [default: from the file]")
@click.option("--size", metavar="HEIGHTxWIDTH", help="Image size in px, if the file does not contain it.")
@click.option("--spacing", "spacing_um", type=float, help="Pixel size in µm, for files in mm or µm.")
@options.challenge_option("Take all rules from here; SOURCE is a submission, or 'reference'.")
@click.option("--origin", type=click.Choice(["pixel_corner", "pixel_centre"]), default="pixel_corner",
              help="Origin of integer coordinates in the output.", show_default=True)  # fmt: skip
@click.option("--overlap", type=click.Choice(["last", "first", "smallest", "class_order"]),
              help="Which nucleus keeps shared pixels, for label images.")  # fmt: skip
def convert(
    source: Path,
    output: Path,
    target: str,
    keys: tuple[str, ...],
    classes: str | None,
    size: str | None,
    challenge: Path | None,
    origin: OriginRule,
    overlap: OverlapRule | None,
    **of_file: Any,
) -> None:
    """Convert annotations or predictions: one file, or with --challenge a whole submission or reference."""
    from evaluation.folders.convert import TARGETS, convert_challenge, convert_file, parse_options, parse_size

    if target not in TARGETS:
        raise errors.WrongUsage(fault("unknown-format", "--to", name=target, known=TARGETS))
    with options.writing_to(output):
        if challenge is not None:
            of_files = {"--set": keys, "--classes": classes, "--size": size, "--from": of_file["format"]}
            of_files["--spacing"] = of_file["spacing_um"]
            for option in (name for name, value in of_files.items() if value):
                raise options.not_both(option, "--challenge", "the challenge defines how its files are read")
            submission = None if str(source) == "reference" else source
            done = convert_challenge(
                challenge, submission, options.output_folder(output), target, origin=origin, overlap=overlap
            )
        else:
            of_file |= {"options": parse_options(keys), "size_yx": parse_size(size)}
            of_file["class_names"] = [name.strip() for name in classes.split(",")] if classes else ()
            done = convert_file(
                options.existing(source, "SOURCE"), output, target, origin=origin, overlap=overlap, **of_file
            )
    for path in done.files[:10]:
        click.echo(f"{'Replaced' if path in done.replaced else 'Written'}: {path}")
    if more := done.files[10:]:
        again = len(done.replaced.intersection(more))
        click.echo(f"and {counted(len(more), 'more file')}" + f", {again:,} of them replaced" * (again > 0))
    if target == "label_tiff":
        click.echo(f"Classes: {', '.join(f'{number} is {name}' for name, number in done.classes.items())}")
    screen.show_findings(done.findings)


# --- report -----------------------------------------------------------------------------------------------------------


@click.command()
@options.path_option(
    "--results", "Folder with metrics.json, leaderboard.json, audit.json or sensitivity.json.", required=True
)
@options.path_option("--output", "HTML file to write. [default: a summary on the terminal]")
@options.challenge_option("Challenge folder, for pictures, costs of errors and [publish].")
@options.path_option("--submission", "Folder or ZIP of the scored submission, for pictures and costs of errors.")
@options.path_option("--images", "Folder with the images of the cases. [default: images/]")
@options.path_option("--overlays", "Folder for overlays of all cases: GeoJSON for QuPath, label images for napari.")
@click.option("--public", is_flag=True, help="Only publishable content, without single cases and patients; "
              "with --challenge only the content named by [publish].")  # fmt: skip
@options.Workers
def report(results: Path, output: Path | None, public: bool, workers: int | None, **paths: Path | None) -> None:
    """Create a self-contained HTML page from the results of a submission, a leaderboard, an audit or a study.

    With --challenge and --submission, the page of a submission shows its worst nuclei and cases, and the cost of each
    kind of error. Without --output, a summary is printed.
    """
    from evaluation.report.folders import Sources, document_in, page_of_results, reading, write_page
    from evaluation.report.html import require_extra

    named = [name for name in ("submission", "challenge", "images", "overlays") if paths[name] is not None]
    for option in ("challenge", "submission"):
        if named and option not in named and not (public and named == ["challenge"]):
            raise options.needed_beside(f"--{named[0]}", f"--{option}", "--challenge and --submission")
    rules, submission = paths.pop("challenge"), paths.pop("submission")
    sources = None if rules is None or submission is None else Sources(rules, submission, **paths)
    if output is not None:
        require_extra()
    with screen.progress_bar("Drawing") as progress, options.writing_to(paths["overlays"] or results):
        how: dict[str, Any] = {"workers": workers, "progress": progress}
        page = page_of_results(results, sources=sources, public=public, challenge=rules, **how)
    if output is not None:
        with options.writing_to(output), reading(document_in(results)):
            write_page(page, output)
        click.echo(f"Written to {output}")
        return
    from evaluation.report.terminal import page_renderables

    with reading(document_in(results)):
        parts = list(page_renderables(page))
    for part in parts:
        screen.show(part)


# --- explain ----------------------------------------------------------------------------------------------------------


DOCUMENTS = ("metrics.json", "details.json", "leaderboard.json", "challenge.toml")
SUBMITTED = (
    *("predictions.json", "polygons_json", "points_json", "geojson", "geojson_points", "coco_json", "hovernet_json"),
    *("cellvit_json", "labelme_json", "midog_json", "points_csv", "nucls_csv", "rle_csv", "counts_csv"),
)


@click.command()
@click.argument("word", metavar="[CODE|PATH|WORD|presets]", required=False)
@click.argument("preset", metavar="[PRESET]", required=False)
@click.option(
    "--schema",
    type=click.Choice((*DOCUMENTS, *SUBMITTED)),
    metavar="NAME",
    help="Print the JSON Schema of a result (metrics.json, …) or of a submitted file (polygons_json, …).",
)
@options.path_option("--results", "Results of a submission (with --case and --at), or a leaderboard (with --team).")
@click.option("--case", metavar="NAME", help="Case of the nucleus.")
@click.option("--at", metavar="ROW,COLUMN|ID", help="Position (px) or id of the nucleus to explain.")
@click.option("--team", metavar="NAME", help="Team to explain: columns in which other teams are better.")
def explain(word: str | None, preset: str | None, schema: str | None, results: Path | None, **of: str | None) -> None:
    """Explain the CODE in the square brackets of a message, or the metric at a PATH of metrics.json.

    A WORD is the name of a metric in papers (mAP, AJI, HD95), a rule or a key of challenge.toml, in any case.
    'explain presets' lists the published challenges, 'explain presets NAME' prints the rules of one with comments.
    Without a word, list all codes and all pages of metrics.

    '--results DIR --case NAME --at 512,300' explains why a nucleus is not matched, '--results DIR --team NAME' in which
    columns other teams are better.
    """
    surplus = preset if word != "presets" else None
    is_of_result = results is not None or any(of.values())
    if schema is not None or is_of_result:
        surplus = word
    if surplus is not None:
        raise click.UsageError(f"Got unexpected extra argument ({surplus})")
    if is_of_result:
        screen.show_lines(_reasons(results, **of))
    elif schema is not None:
        click.echo(_schema_text(schema), nl=False)
    elif word == "presets":
        click.echo(_presets_text(preset), nl=False)
    else:
        click.echo(_finding_text(word))


def _reasons(results: Path | None, case: str | None, at: str | None, team: str | None) -> list[str]:
    """Explain a nucleus of a result, or a team of a leaderboard. Raises WrongUsage."""
    given = {"--results": results, "--case": case, "--at": at, "--team": team}
    named = [option for option, value in given.items() if value is not None]
    wanted = ["--results", "--team"] if team is not None else ["--results", "--case", "--at"]
    for option in (option for option in wanted if given[option] is None):
        raise options.needed_beside(named[0], option, "--results with --case and --at, or with --team")
    for option in (option for option in named if option not in wanted):
        raise options.not_both(option, "--team", "a nucleus or a team is explained")
    from evaluation.board.document import read_board
    from evaluation.report.folders import read_result, reading
    from evaluation.report.leaderboard import why_behind
    from evaluation.report.reasons import nuclei_of_columns, one_percent_more, reasons_at

    assert results is not None
    results = options.existing(results, "--results")
    folder = results if results.is_dir() else results.parent
    if team is not None:
        with reading("leaderboard.json"):
            lines = why_behind(document := read_board(folder), team)
        own = folder / "results" / team  # a team of the board, so its name is no path
        if not (own / "details.json").is_file():
            return lines
        with reading("details.json"):
            result, columns = read_result(own), [column["path"] for column in document["columns"]]
            return [*lines, *one_percent_more(document, team, result), *nuclei_of_columns(columns, result)]
    with reading("objects.csv"):
        return reasons_at(folder, read_result(folder), case or "", at or "")


def _finding_text(word: str | None) -> str:
    """The page of a code, a metric or a word; the list of all without a word. Raises WrongUsage if missing."""
    wanted = (word or "").strip("[] ")
    if wanted.lower() in catalogue():
        return code_page(wanted.lower())
    from evaluation.findings import metric_pages  # only now: it takes a while to import

    if word is None:
        return f"{code_index()}\n\n{metric_pages.terminal_index()}"
    page = metric_pages.page_of(wanted) or metric_pages.page_of(wanted.lower())
    if text := metric_pages.terminal_page(page) if page else metric_pages.word_text(wanted):
        return text
    from evaluation.challenge import preset_names
    from evaluation.challenge.definition import explain_rule, rule_names

    if text := explain_rule(wanted):
        return text
    known = [*catalogue(), *metric_pages.metrics_by_page(), *metric_pages.known_words(), *rule_names()]
    known += [f"presets {name}" for name in preset_names()]
    keys = metric_pages.general_path(wanted.split("."))
    suggestion = did_you_mean(".".join(key for key in keys if not key.startswith("<")), known)
    raise errors.WrongUsage(fault("unknown-code", "explain", fix=suggestion, name=wanted))


def _presets_text(name: str | None) -> str:
    """The file of a preset; without a name, a line per preset. Raises WrongUsage for an unknown name."""
    from evaluation.challenge import preset_names, preset_text

    if name is not None:
        return preset_text(name)
    names = preset_names()
    width = max(map(len, names)) + 2
    return "".join(f"{name:{width}}{preset_text(name).splitlines()[0].lstrip('# ')}\n" for name in names)


def _schema_text(file: str) -> str:
    """The JSON Schema of a document; challenge.toml with its preset merged in, as details.json contains its rules."""
    if file in SUBMITTED:
        from evaluation.files.schemas import json_schema

        return json.dumps(json_schema(file), indent=1) + "\n"
    from evaluation.challenge import Challenge
    from evaluation.files.results.documents import DetailsFile, MetricsFile, as_json

    if file == "leaderboard.json":
        from evaluation.board.document import board_form

        with warnings.catch_warnings(action="ignore"):  # about fields that a document may lack
            document = board_form().json_schema()
    else:
        forms: Mapping[str, type[BaseModel]] = {"metrics.json": MetricsFile, "details.json": DetailsFile}
        document = forms.get(file, Challenge).model_json_schema()
    if file == "challenge.toml":
        del document["properties"]["cases"]
    return as_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})


# --- demo -------------------------------------------------------------------------------------------------------------


@click.command()
@options.output_option("Folder for the challenge and its results.")
@options.page_option("leaderboard", "Also write pages; {}.html links to all of them.")
@options.Workers
def demo(output: Path | None, report: bool, workers: int | None) -> None:
    """Create a challenge with three teams, score them, and see why one number is not enough."""
    from evaluation.folders.demo import TITLE, run_demo

    options.folder_of_pages(report, output)
    with screen.progress_bar("Scoring three teams") as progress:
        outcome = run_demo(output, workers=workers, progress=progress)
    from evaluation.board.document import leaderboard_document
    from evaluation.report.leaderboard import leaderboard_page
    from evaluation.report.result import ResultDocuments
    from evaluation.report.skills import CONDITIONAL, side_by_side

    columns = {team: (ResultDocuments(metrics), "group_mean") for team, metrics in outcome.results.items()}
    screen.show_block(side_by_side(TITLE, columns, CONDITIONAL))
    screen.show_lines(outcome.lines())
    click.echo()
    screen.show_sections(leaderboard_page(leaderboard_document(outcome.board)), "places")
    screen.show_lines(outcome.closing_lines())
    if report and outcome.folder is not None:
        from evaluation.report.folders import report_board

        with screen.progress_bar("Drawing") as progress, options.writing_to(outcome.folder):
            folders = (outcome.folder / "challenge", outcome.folder / "submissions")
            written = report_board(outcome.folder, outcome.board, *folders, workers=workers, progress=progress)
        click.echo(f"{len(written):,} pages: open {outcome.folder / written[0]} in a browser")
