"""evaluation schema: the forms of the files that other programs read."""

from __future__ import annotations

import click


@click.command()
@click.argument("file", type=click.Choice(["metrics", "details", "leaderboard", "challenge"]))
def schema(file: str) -> None:
    """Print the JSON Schema of metrics.json, details.json, leaderboard.json, or of the rules of a challenge.

    The rules are those that details.json holds: challenge.toml with its preset merged in.
    """
    from evaluation.challenge import Challenge
    from evaluation.results.metrics_json import as_json
    from evaluation.results.schema import FILES

    document = (FILES.get(file) or Challenge).model_json_schema()
    if file == "challenge":
        del document["properties"]["cases"]
    click.echo(as_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **document}), nl=False)
