"""The rules of ``label_image``: see ``evaluation.formats.label_image``."""

from __future__ import annotations

from typing import ClassVar, Literal

from evaluation.challenge.formats.rules import ClassFiles


class LabelImageRules(ClassFiles):
    """Label images.

    class_table    pattern of a CSV or JSON file with the class of every id
    class_channel  the channel of the image, from 0, that holds the class of every pixel; ids are in the other one
    """

    format: Literal["label_image"]
    class_table: str | None = None
    class_channel: Literal[0, 1] | None = None

    dense: ClassVar = True
    companions: ClassVar = {"class_map": "class map", "class_table": "class table"}
