"""The rules of ``points_json``: see ``evaluation.formats.points_json``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import PointRules, Units


class PointsJsonRules(PointRules):
    """JSON of the platform's kind "Multiple points"."""

    format: Literal["points_json"]
    units: Units
