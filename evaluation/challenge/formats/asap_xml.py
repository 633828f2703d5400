"""The rules of ``asap_xml``: see ``evaluation.formats.asap_xml``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import ShapeRules


class AsapXmlRules(ShapeRules):
    """ASAP XML."""

    format: Literal["asap_xml"]
