"""What a reader has to know besides the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeVar

from evaluation.challenge import FormatRules, LimitRules
from evaluation.model import ClassTable

RulesT = TypeVar("RulesT", bound=FormatRules, default=FormatRules, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[RulesT]):
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
    rules: RulesT
    classes: ClassTable
    limits: LimitRules
    file_class: int = 0
