"""The rules of ``counts_csv``: see ``evaluation.formats.counts_csv``."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from evaluation.challenge.base import invalid
from evaluation.challenge.formats.rules import FormatRules


class CountsCsvRules(FormatRules):
    """CSV with a row for each image and a column for each class."""

    format: Literal["counts_csv"]

    file_holds: ClassVar = "all cases"

    @property
    def are_counts(self) -> bool:
        return True

    @model_validator(mode="after")
    def check_class(self) -> Self:
        if "{class}" in self.files:
            raise invalid("files", "a pattern with {class}", "one without, since each class has a column")
        return self
