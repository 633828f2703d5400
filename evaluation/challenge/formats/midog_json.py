"""The rules of ``midog_json``: see ``evaluation.formats.midog_json``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import NumberedClasses, PointRules


class MidogJsonRules(PointRules, NumberedClasses):
    """MIDOG JSON, a box for each nucleus."""

    format: Literal["midog_json"]

    file_holds: ClassVar = "either"
