"""A page as one HTML file that opens from disk. It makes no request, and text from files is shown as plain text.

jinja2 and matplotlib are the extra ``report``; they are imported when a page is drawn.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.findings import fault
from evaluation.findings.errors import WrongUsage
from evaluation.report.figures import svg_of, tabulate
from evaluation.report.page import Cell, Figure, Page, Table, Widget
from evaluation.report.tables import isolated, name_ends, shown_cell, shown_value, visible

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
LONG_TABLE = 25


def page_html(page: Page) -> str:
    """The file; equal pages give equal bytes. ``WrongUsage`` if the extra ``report`` is not installed.

    Raises ``ValueError`` if two parts of the page have the same anchor, or a number of a plot is not finite.
    """
    environment = _load_environment()
    if page.figures():
        require_extra("matplotlib")
    widgets = [block for section in page.sections for block in section.blocks if isinstance(block, Widget)]
    names = ["style.css", "page.js", *["browser.js"] * len(widgets)]
    style, *scripts = (_compact((TEMPLATES / name).read_text(encoding="utf-8")) for name in names)
    return environment.get_template("page.html.j2").render(
        page=page,
        anchors=_collect_anchors(page),
        policy=_security_policy(scripts),
        style=style,
        scripts=scripts,
        browsers=[_embedded_json(widget.data) for widget in widgets],
    )


# --- the extra --------------------------------------------------------------------------------------------------------


def require_extra(*packages: str) -> None:
    """``WrongUsage`` if no page can be drawn, or not with these packages. Call it before long work."""
    for package in packages or ("jinja2", "matplotlib"):
        try:
            import_module(package)
        except ImportError:
            raise WrongUsage(fault("missing-extra", "HTML report", package=package, extra="report")) from None


def _load_environment() -> Environment:
    """Load the templates; they escape every value, and an undefined name in them is an error."""
    require_extra("jinja2")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    # as Markup, which "finalize" leaves as it is
    in_order = lambda text: Markup(isolated(str(escape(visible(text))), "<bdi>", "</bdi>"))  # noqa: E731
    environment.filters |= {"shown_cell": shown_cell, "in_order": in_order}
    environment.globals |= {
        "kind": lambda block: type(block).__name__,
        "shown_value": shown_value,
        "name_ends": name_ends,
        "tabulate": tabulate,
        "svg": lambda figure: Markup(svg_of(figure)),
        "LONG_TABLE": LONG_TABLE,
    }
    return environment


def _compact(text: str) -> str:
    """Omit the indentation, the empty lines and the lines of comments of a script or style sheet.

    >>> _compact("{\\n  // why\\n\\n  a();\\n}")
    '{\\na();\\n}'
    """
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("// ", "/** ", "/* ")))


# --- safety -----------------------------------------------------------------------------------------------------------


def _security_policy(scripts: Iterable[str]) -> str:
    """Create a Content-Security-Policy that allows no request and no script but these."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _embedded_json(value: Any) -> str:
    """Write JSON for a script element; no text inside the JSON can end the element."""
    text = json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _collect_anchors(page: Page) -> frozenset[str]:
    """Collect the anchors of all parts of the page. Raises ``ValueError`` if two parts have the same anchor."""
    anchors = [section.anchor for section in page.sections]
    for block in (block for section in page.sections for block in section.blocks):
        if isinstance(block, Table | Figure | Widget):
            anchors.append("browser" if isinstance(block, Widget) else block.anchor)
        if isinstance(block, Table):
            anchors += [cell.name for row in block.rows for cell in row if isinstance(cell, Cell) and cell.name]
    if len(set(anchors)) < len(anchors):
        twice = sorted({anchor for anchor in anchors if anchors.count(anchor) > 1})
        raise ValueError(f"anchors used twice: {twice[:5]}")
    return frozenset(anchors)
