"""The rules of ``imagej_roi``: see ``evaluation.formats.imagej_roi``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import NumberedClasses, ShapeRules


class ImagejRoiRules(ShapeRules, NumberedClasses):
    """ZIP of ImageJ's ROI manager; ``class_values`` are numbers of groups."""

    format: Literal["imagej_roi"]

    @property
    def zero_is_background(self) -> bool:
        return True
