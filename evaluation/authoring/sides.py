"""What was found on a side: its files, cases and classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.findings import Finding, listed, quote

NAMELESS = "nucleus"  # what nuclei without a class are called
CLASS_TABLE = ".csv"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a case.

    name       below the folder, for messages
    suffix     that its content has
    case       the name of its case, from its path
    group      of the case, "" if the path has none
    of_class   the class whose nuclei it has, "" for all
    classes    a second file, with the class of every pixel (an image) or of every id (a table), None for neither
    """

    path: Path
    name: str
    suffix: str
    case: str = ""
    group: str = ""
    of_class: str = ""
    classes: Path | None = None

    @property
    def class_key(self) -> str:
        """The key of the rules for the file of classes."""
        is_table = self.classes is not None and self.classes.suffix.lower() == CLASS_TABLE
        return "class_table" if is_table else "class_map"

    @property
    def class_ending(self) -> str:
        """What the name of the file of classes has behind the case."""
        return CLASS_TABLE if self.class_key == "class_table" else f"_class{self.suffix}"


@dataclass(frozen=True, slots=True, eq=False)
class FoundCase:
    """A case of a side. ``index`` is that in an array of all cases, ``image_id`` that of a COCO file.

    called  what a file of all cases calls it, in full
    """

    files: tuple[FoundFile, ...]
    group: str = ""
    size_yx: tuple[int, int] | None = None
    index: int | None = None
    extent_yx: tuple[int, int] | None = None
    image_id: str | None = None
    called: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class FoundSide:
    """What a path holds.

    keys      of the rules of its format, as far as they are known
    cases     by the name that the files give them
    classes   names of the classes in the files, in the order in which they are met; none if the files tell none
    numbers   the numbers that stand for classes in the files, by name
    findings  what was not read
    imports   what its files were before they were imported, in words
    notes     what was put together of its files, in sentences
    signs     what its files were taken for, and why, in lines
    has_pictures  pictures lay among its files, which are left out
    is_stack  its images are planes of an array, with numbers for names
    categories  names of classes by their ids in a COCO file, under which results name them
    """

    path: Path
    format: str
    suffix: str
    keys: Mapping[str, Any]
    cases: Mapping[str, FoundCase]
    classes: tuple[str, ...]
    numbers: Mapping[str, int] = field(default_factory=dict)
    is_shared: bool = False
    findings: tuple[Finding, ...] = ()
    imports: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    has_pictures: bool = False
    is_stack: bool = False
    categories: Mapping[str, str] = field(default_factory=dict)

    @property
    def class_file(self) -> FoundFile | None:
        """The first file whose classes another one has."""
        files = (file for case in self.cases.values() for file in case.files)
        return next((file for file in files if file.classes and not file.of_class), None)

    @property
    def has_class_files(self) -> bool:
        return any(file.of_class for case in self.cases.values() for file in case.files)

    def words(self) -> str:
        """The side in a sentence."""
        number = len(self.cases)
        images = f"{number:,} {'image' if number == 1 else 'images'} as {self.format}"
        images += f" (from {' and '.join(self.imports)})" if self.imports else ""
        classes = f"classes {listed(self.classes, 20, last='and')}" if self.classes else "no classes"
        parts = ", each part of a MultiPolygon a nucleus" if self.keys.get("parts") == "apart" else ""
        file = next((f for case in self.cases.values() for f in case.files if f.of_class), None)
        of_name = f", the class in the name ({quote(file.name, 80)} is of {quote(file.case)})" if file else ""
        return f"{quote(str(self.path), 120)}: {images}, {classes}{parts}{of_name}"
