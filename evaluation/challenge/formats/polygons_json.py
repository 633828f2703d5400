"""The rules of ``polygons_json``: see ``evaluation.formats.polygons_json``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import OutlineRules, Units


class PolygonsJsonRules(OutlineRules):
    """JSON of the platform's kind "Multiple polygons"."""

    format: Literal["polygons_json"]
    units: Units
