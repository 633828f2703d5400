"""What a path holds: files, cases and classes, as the readers of its format tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.findings import Finding, counted, listed, quote
from evaluation.formats.detect import Detected

Size = tuple[int, int]  # height and width, px

ARRAYS = ("conic_array", "pannuke_masks")  # formats whose rules must name the numbers of classes
NAMELESS = "nucleus"  # what nuclei without a class are called
CLASS_TABLE = ".csv"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that has a format.

    name       below the folder, for messages
    detected   its format, and the sign by which it is known
    suffix     that its content has
    classes    a second file, with the class of every pixel (an image) or of every id (a table), None for neither
    case       the name of its case, from its path
    group      of the case, "" if the path has none
    of_class   the class whose nuclei it has, "" for all
    """

    name: str
    path: Path
    detected: Detected
    suffix: str
    classes: Path | None = None
    case: str = ""
    group: str = ""
    of_class: str = ""

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
class SourceCase:
    """A case of a source.

    size_yx    of its image, None if no file tells it
    index      its place in an array of all cases
    extent_yx  how far its nuclei reach
    image_id   the id of its image in a COCO file
    called     what a file of all cases calls it, in full
    """

    files: tuple[SourceFile, ...]
    group: str = ""
    size_yx: Size | None = None
    index: int | None = None
    extent_yx: Size | None = None
    image_id: str | None = None
    called: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
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
    cases: Mapping[str, SourceCase]
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

    def files(self) -> list[SourceFile]:
        return [file for case in self.cases.values() for file in case.files]

    @property
    def class_file(self) -> SourceFile | None:
        """The first file whose classes another one has."""
        return next((file for file in self.files() if file.classes and not file.of_class), None)

    @property
    def has_class_files(self) -> bool:
        return any(file.of_class for file in self.files())

    def words(self) -> str:
        """The source in a sentence."""
        images = f"{counted(len(self.cases), 'image')} as {self.format}"
        images += f" (from {' and '.join(self.imports)})" if self.imports else ""
        classes = f"classes {listed(self.classes, 20, last='and')}" if self.classes else "no classes"
        parts = ", each part of a MultiPolygon a nucleus" if self.keys.get("parts") == "apart" else ""
        parts += ", each region of touching pixels a nucleus" if "components" in self.keys else ""
        file = next((file for file in self.files() if file.of_class), None)
        of_name = f", the class in the name ({quote(file.name, 80)} is of {quote(file.case)})" if file else ""
        return f"{quote(str(self.path), 120)}: {images}, {classes}{parts}{of_name}"
