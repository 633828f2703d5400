"""The rules of ``conic_array``: see ``evaluation.formats.conic_array``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import ClassValues, NumberedClasses


class ConicArrayRules(NumberedClasses):
    """NumPy arrays of nuclei and classes, as in CoNIC."""

    format: Literal["conic_array"]
    class_values: ClassValues

    file_holds: ClassVar = "all cases"
    dense: ClassVar = True

    @property
    def needs_index(self) -> bool:
        return True

    @property
    def zero_is_background(self) -> bool:
        return True
