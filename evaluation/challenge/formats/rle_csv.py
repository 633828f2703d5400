"""The rules of ``rle_csv``: see ``evaluation.formats.rle_csv``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import FormatRules


class RleCsvRules(FormatRules):
    """CSV of run-length codes.

    pixel_order  whether run-length codes go along rows or down columns
    first_pixel  the number of the first pixel
    """

    format: Literal["rle_csv"]
    pixel_order: Literal["row", "column"]
    first_pixel: Literal[0, 1]

    file_holds: ClassVar = "all cases"
