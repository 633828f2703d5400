"""The rules of ``points_csv``: see ``evaluation.formats.points_csv``."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from evaluation.challenge.base import invalid
from evaluation.challenge.formats.rules import NumberedClasses, PointRules, Units


class PointsCsvRules(PointRules, NumberedClasses):
    """CSV with a row for each nucleus.

    columns  the columns of a CSV file without a header
    """

    format: Literal["points_csv"]
    units: Units
    columns: tuple[Literal["case", "x", "y", "class", "probability", "_"], ...] | None = None

    file_holds: ClassVar = "either"

    @model_validator(mode="after")
    def check_columns(self) -> Self:
        if self.columns is None:
            return self
        if sorted(set(self.columns) & {"x", "y"}) != ["x", "y"]:
            raise invalid("columns", "no x or no y", "both, each once")
        named = [column for column in self.columns if column != "_"]
        if len(set(named)) < len(named):
            raise invalid("columns", "a column twice", "every column once; '_' leaves one out")
        return self
