"""What a reader has to know besides the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.challenge import FormatRules, LimitRules
from evaluation.model import ClassTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to read a file.

    where       the file, and its case if it has one, for messages; in quotes
    name        name of the file; its suffix tells image formats apart
    rules       the rules of the side that the file belongs to
    classes     how its files name the classes
    limits      bounds on what is read
    file_class  the class of everything in the file, if its path tells; 0: the file tells
    """

    where: str
    name: str
    rules: FormatRules
    classes: ClassTable
    limits: LimitRules
    file_class: int = 0
