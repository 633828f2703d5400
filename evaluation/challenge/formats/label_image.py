"""The rules of ``label_image``: see ``evaluation.formats.label_image``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import ClassFiles


class LabelImageRules(ClassFiles):
    """Label images.

    class_table    pattern of a CSV or JSON file with the class of every id
    class_channel  the channel of the image, from 0, that holds the class of every pixel; ids are in the other one
    components     pixels of a mask with equal values that touch are one nucleus: by sides (4), or also corners (8); the
                   values are the classes (class_values), or do not matter
    """

    format: Literal["label_image"]
    class_table: str | None = None
    class_channel: Literal[0, 1] | None = None
    components: Literal[4, 8] | None = None

    dense: ClassVar = True
    companions: ClassVar = {"class_map": "class map", "class_table": "class table"}

    @property
    def ways(self) -> Mapping[str, object]:
        inherited = super().ways
        are_values = self.components is not None and (self.class_values is not None or inherited)
        return {**inherited, "components": self.components} if are_values else inherited

    @property
    def zero_is_background(self) -> bool:
        return self.components is not None or super().zero_is_background
