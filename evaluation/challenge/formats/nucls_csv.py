"""The rules of ``nucls_csv``: see ``evaluation.formats.nucls_csv``."""

from __future__ import annotations

from typing import Literal

from evaluation.challenge.formats.rules import OutlineRules


class NuclsCsvRules(OutlineRules):
    """NuCLS CSV.

    class_column  which of the class levels of NuCLS counts
    """

    format: Literal["nucls_csv"]
    class_column: Literal["raw_classification", "main_classification", "super_classification"]
