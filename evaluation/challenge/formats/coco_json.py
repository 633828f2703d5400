"""The rules of ``coco_json``: see ``evaluation.formats.coco_json``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import NumberedClasses, OutlineRules


class CocoJsonRules(OutlineRules, NumberedClasses):
    """COCO JSON."""

    format: Literal["coco_json"]

    file_holds: ClassVar = "either"
