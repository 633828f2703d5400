"""The rules of ``geojson``: see ``evaluation.formats.geojson``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import FeatureRules


class GeojsonRules(FeatureRules):
    """GeoJSON as QuPath writes it."""

    format: Literal["geojson"]
