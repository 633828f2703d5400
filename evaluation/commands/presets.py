"""evaluation presets: the published challenges."""

from __future__ import annotations

import click


@click.command()
def presets() -> None:
    """List the published challenges that 'init' and 'preset = …' know."""
    from evaluation.challenge import preset_names, preset_text

    names = preset_names()
    width = max(map(len, names)) + 2
    for name in names:
        click.echo(f"{name:{width}}{preset_text(name).splitlines()[0].lstrip('# ')}")
