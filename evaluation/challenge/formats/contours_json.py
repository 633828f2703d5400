"""The rules of ``contours_json``: see ``evaluation.formats.contours_json``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import NumberedClasses, ShapeRules


class ContoursJsonRules(ShapeRules, NumberedClasses):
    """JSON of HoVer-Net, CellViT or labelme, with a contour and a class for each nucleus.

    tool  whose files they are
    """

    format: Literal["contours_json"]
    tool: Literal["hovernet", "cellvit", "labelme"]

    @property
    def zero_is_background(self) -> bool:
        return True
