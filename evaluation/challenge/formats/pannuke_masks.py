"""The rules of ``pannuke_masks``: see ``evaluation.formats.pannuke_masks``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import ClassValues, NumberedClasses


class PannukeMasksRules(NumberedClasses):
    """NumPy arrays with a channel for each class, as in PanNuke."""

    format: Literal["pannuke_masks"]
    class_values: ClassValues

    file_holds: ClassVar = "either"
    dense: ClassVar = True

    @property
    def needs_index(self) -> bool:
        return self.is_shared
