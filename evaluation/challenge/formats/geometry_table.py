"""The rules of ``geometry_table``: see ``evaluation.formats.geometry_table``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import FeatureRules, Units


class GeometryTableRules(FeatureRules):
    """Tables of geometries: TIAToolbox's annotation store, GeoParquet, Xenium's boundaries."""

    format: Literal["geometry_table"]
    units: Units
