"""The rules of ``geojson``: see ``evaluation.formats.geojson``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import ShapeRules


class GeojsonRules(ShapeRules):
    """GeoJSON as QuPath writes it.

    parts  whether the parts of a MultiPolygon are one nucleus together (if not given), or a nucleus each, as in CellViT
    """

    format: Literal["geojson"]
    parts: Literal["together", "apart"] | None = None
