"""evaluation explain: codes, metrics, words of the field, the published challenges, the forms of files."""

from __future__ import annotations

from pathlib import Path

import click

from evaluation.findings import did_you_mean, fault
from evaluation.findings.catalogue import CATALOGUE
from evaluation.findings.errors import WrongUsage

DOCUMENTS = ("metrics.json", "details.json", "leaderboard.json", "challenge.toml")
PRINTED = "-"


@click.command()
@click.argument("word", metavar="[CODE|PATH|WORD|presets]", required=False)
@click.argument("preset", metavar="[PRESET]", required=False)
@click.option("--schema", type=click.Choice(DOCUMENTS), help="Print the JSON Schema of a document.")
@click.option(
    "--all",
    "folder",
    is_flag=False,
    flag_value=PRINTED,
    metavar="[DIR]",
    help="Print all pages, or write findings.md, metrics.md and presets.md into DIR.",
)
def explain(word: str | None, preset: str | None, schema: str | None, folder: str | None) -> None:
    """Explain the CODE in the square brackets of a message, or the metric at a PATH of metrics.json.

    A WORD of the field is found whatever its case: a metric as papers call it (mAP, AJI, HD95), a rule or a key of
    challenge.toml. 'explain presets' lists the published challenges that 'init' and 'preset = …' know, 'explain presets
    NAME' prints the rules of one with comments. Without a word, list all codes and all pages of metrics.
    """
    surplus = preset if word != "presets" else None
    if schema is not None or folder is not None:
        surplus = word
    if surplus is not None:
        raise click.UsageError(f"Got unexpected extra argument ({surplus})")
    if schema is not None:
        click.echo(schema_text(schema), nl=False)
    elif folder == PRINTED:
        click.echo("\n".join(documents().values()), nl=False)
    elif folder is not None:
        write_documents(Path(folder))
    elif word == "presets":
        click.echo(presets_text(preset), nl=False)
    else:
        click.echo(page_text(word))


def page_text(word: str | None) -> str:
    """The page of a code, a metric or a word; the list of all without a word. Raises WrongUsage if there is none."""
    from evaluation.findings.pages import terminal_index, terminal_page

    wanted = (word or "").strip("[] ")
    if wanted.lower() in CATALOGUE:
        return terminal_page(wanted.lower())
    from evaluation.metrics import pages as metric_pages  # only now: it takes a while to import

    if word is None:
        return f"{terminal_index()}\n\n{metric_pages.terminal_index()}"
    page = metric_pages.page_of(wanted) or metric_pages.page_of(wanted.lower())
    if text := metric_pages.terminal_page(page) if page else metric_pages.word_text(wanted):
        return text
    from evaluation.challenge import preset_names
    from evaluation.challenge.explained import explain_rule, rule_names

    if text := explain_rule(wanted):
        return text
    known = [*CATALOGUE, *metric_pages.metrics_by_page(), *metric_pages.known_words(), *rule_names()]
    known += [f"presets {name}" for name in preset_names()]
    keys = metric_pages.general_path(wanted.split("."))
    suggestion = did_you_mean(".".join(key for key in keys if not key.startswith("<")), known)
    raise WrongUsage(fault("unknown-code", "explain", fix=suggestion, name=wanted))


def documents() -> dict[str, str]:
    """The files of docs/ that are written by the program, by name."""
    from evaluation.challenge import presets_document
    from evaluation.findings import pages as finding_pages
    from evaluation.metrics import pages as metric_pages

    return {
        "findings.md": finding_pages.document(),
        "metrics.md": metric_pages.document(),
        "presets.md": presets_document(),
    }


def write_documents(folder: Path) -> None:
    from evaluation.commands.options import writing_to

    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in documents().items():
            (folder / name).write_text(text, "utf-8")
    click.echo(f"Written to {folder}: {', '.join(documents())}")


def presets_text(name: str | None) -> str:
    """The file of a preset; a line for each without a name. Raises WrongUsage if there is none of that name."""
    from evaluation.challenge import preset_names, preset_text

    if name is not None:
        return preset_text(name)
    names = preset_names()
    width = max(map(len, names)) + 2
    return "".join(f"{name:{width}}{preset_text(name).splitlines()[0].lstrip('# ')}\n" for name in names)


def schema_text(file: str) -> str:
    """The JSON Schema of a document; challenge.toml with its preset merged in, as details.json holds its rules."""
    from evaluation.challenge import Challenge
    from evaluation.results.metrics_json import as_json
    from evaluation.results.schema import FILES

    document = FILES.get(file, Challenge).model_json_schema()
    if file not in FILES:
        del document["properties"]["cases"]
    return as_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})
