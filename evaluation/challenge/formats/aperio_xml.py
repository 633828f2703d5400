"""The rules of ``aperio_xml``: see ``evaluation.formats.aperio_xml``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import OutlineRules


class AperioXmlRules(OutlineRules):
    """Aperio ImageScope XML."""

    format: Literal["aperio_xml"]
