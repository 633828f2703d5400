"""Coordinates in files: which numbers can be some, and what their units are worth."""

from __future__ import annotations

import numpy as np

from evaluation.model import Bool, Float64

COORDINATE_LIMIT = 1e9
UM_PER_UNIT = {"um": 1.0, "mm": 1000.0}


def are_coordinates(numbers: Float64) -> Bool:
    """Which numbers are coordinates: between -1e9 and 1e9 px; NaN is none. The shape stays."""
    return np.asarray(np.abs(numbers) <= COORDINATE_LIMIT)


def um_and_spacing(units: str | None, spacing_um: float | Float64 | None) -> tuple[float, float | Float64 | None]:
    """The factor and the divisor that make px of coordinates: um for a unit, and um for a px.

    1 and None for px, or if a format has no units.
    """
    if units in (None, "px"):
        return 1.0, None
    return UM_PER_UNIT[units], np.nan if spacing_um is None else spacing_um
