"""The rules of ``coco_panoptic``: see ``evaluation.formats.coco_panoptic``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import NumberedClasses


class CocoPanopticRules(NumberedClasses):
    """COCO panoptic PNG and JSON.

    segments  pattern of the JSON file that goes with the PNG files; without {case} it is shared
    """

    format: Literal["coco_panoptic"]
    segments: str

    dense: ClassVar = True
    companions: ClassVar = {"segments": "segments file"}
