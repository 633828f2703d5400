"""evaluation presets: the published challenges."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", required=False)
def presets(name: str | None) -> None:
    """List the published challenges that 'init' and 'preset = …' know, or print the rules of NAME with comments."""
    from evaluation.challenge import preset_names, preset_text

    if name is not None:
        click.echo(preset_text(name), nl=False)
        return
    names = preset_names()
    width = max(map(len, names)) + 2
    for name in names:
        click.echo(f"{name:{width}}{preset_text(name).splitlines()[0].lstrip('# ')}")
