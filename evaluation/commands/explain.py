"""evaluation explain: the page of a code or of a metric, the published challenges, the forms of files."""

from __future__ import annotations

import click

from evaluation.findings import did_you_mean
from evaluation.findings.catalogue import CATALOGUE
from evaluation.findings.command_line import UnknownCode
from evaluation.findings.errors import WrongUsage

DOCUMENTS = ("metrics.json", "details.json", "leaderboard.json", "challenge.toml")


@click.command()
@click.argument("word", metavar="[CODE|PATH|presets]", required=False)
@click.argument("preset", metavar="[PRESET]", required=False)
@click.option("--schema", type=click.Choice(DOCUMENTS), help="Print the JSON Schema of a document.")
def explain(word: str | None, preset: str | None, schema: str | None) -> None:
    """Explain the CODE in the square brackets of a message, or the metric at a PATH of metrics.json.

    'explain presets' lists the published challenges that 'init' and 'preset = …' know, 'explain presets NAME' prints
    the rules of one with comments. Without a word, list all codes and all pages of metrics.
    """
    surplus = preset if word != "presets" else None
    if schema is not None:
        surplus = word
    if surplus is not None:
        raise click.UsageError(f"Got unexpected extra argument ({surplus})")
    if schema is not None:
        click.echo(schema_text(schema), nl=False)
    elif word == "presets":
        click.echo(presets_text(preset), nl=False)
    else:
        click.echo(page_text(word))


def page_text(word: str | None) -> str:
    """The page of a code or of a metric; the list of all without a word. Raises WrongUsage if there is none."""
    from evaluation.findings.pages import terminal_index, terminal_page

    wanted = (word or "").strip("[] ")
    if wanted.lower() in CATALOGUE:
        return terminal_page(wanted.lower())
    from evaluation.challenge import preset_names
    from evaluation.metrics import pages as metric_pages  # only now: it takes a while to import

    if word is None:
        return f"{terminal_index()}\n\n{metric_pages.terminal_index()}"
    page = metric_pages.page_of(wanted)
    if page is None:
        known = [*CATALOGUE, *metric_pages.metrics_by_page(), *(f"presets {name}" for name in preset_names())]
        keys = metric_pages.general_path(wanted.split("."))
        suggestion = did_you_mean(".".join(key for key in keys if not key.startswith("<")), known)
        raise WrongUsage(UnknownCode(wanted, suggestion).at("explain"))
    return metric_pages.terminal_page(page)


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
