"""evaluation explain: the page of a code or of a metric."""

from __future__ import annotations

import click

from evaluation.findings import did_you_mean
from evaluation.findings.catalogue import CATALOGUE
from evaluation.findings.command_line import UnknownCode
from evaluation.findings.errors import WrongUsage


@click.command()
@click.argument("code", metavar="[CODE|PATH]", required=False)
def explain(code: str | None) -> None:
    """Explain the CODE in the square brackets of a message, or the metric at a PATH of metrics.json.

    Without either, list all codes and all pages of metrics.
    """
    from evaluation.findings.pages import terminal_index, terminal_page

    wanted = (code or "").strip("[] ")
    if wanted.lower() in CATALOGUE:
        click.echo(terminal_page(wanted.lower()))
        return
    from evaluation.metrics import pages as metric_pages  # only now: it takes a while to import

    if code is None:
        click.echo(f"{terminal_index()}\n\n{metric_pages.terminal_index()}")
        return
    page = metric_pages.page_of(wanted)
    if page is None:
        known = [*CATALOGUE, *metric_pages.metrics_by_page()]
        keys = metric_pages.general_path(wanted.split("."))
        suggestion = did_you_mean(".".join(key for key in keys if not key.startswith("<")), known)
        raise WrongUsage(UnknownCode(wanted, suggestion).at("explain"))
    click.echo(metric_pages.terminal_page(page))
