"""The rules of ``yolo_txt``: see ``evaluation.formats.yolo_txt``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import NumberedClasses, OutlineRules


class YoloTxtRules(OutlineRules, NumberedClasses):
    """YOLO's text files for segmentation, with a class number and an outline in each line."""

    format: Literal["yolo_txt"]
