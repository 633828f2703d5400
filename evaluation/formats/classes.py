"""The class that a name or a number in a file stands for, and what is said of one that is no class.

Names are the same in upper and lower case, and without the spaces around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evaluation.findings import EXAMPLES_SHOWN, FAULTS_NAMED, Finding, fault, with_rest
from evaluation.findings.errors import refused
from evaluation.formats.format import Request
from evaluation.model import Bool, ClassTable, Int16, Int64

AS_JSON = json.JSONEncoder(ensure_ascii=False)
SKIPPED, UNKNOWN = -32768, -32767  # no class ids: a name of what is no nucleus, and one that is no class


class Spelling(str):
    """A name of a class in lower case, by which classes are looked up, that knows how it was written."""

    written: str

    def __new__(cls, name: str) -> Spelling:
        spelling = super().__new__(cls, name.strip().casefold())
        spelling.written = name.strip()
        return spelling


def class_of_name(name: str, classes: ClassTable) -> int:
    """The class id of a name, "" stands for none; or SKIPPED or UNKNOWN."""
    folded = Spelling(name)
    if folded in classes.skipped:
        return SKIPPED
    return classes.ids.get(folded, UNKNOWN) if folded else classes.of_nameless


def class_of_text(text: str, classes: ClassTable) -> int:
    """The same for a name or a number; names go first."""
    class_id = class_of_name(text, classes)
    number = re.fullmatch(r"([+-]?[0-9]{1,9})(\.0*)?", text, re.ASCII) if class_id == UNKNOWN else None
    return classes.values.get(int(number[1]), UNKNOWN) if number else class_id


def class_of_names(names: Iterable[str], is_nameless: bool, request: Request) -> int:
    """The class of the first of several names that is known; or SKIPPED or UNKNOWN.

    is_nameless  whether the names say nothing: only then no name counts, so that a misspelt name is never taken for it
    """
    classes = request.classes
    folded = filter(None, map(Spelling, names))
    for name in [*folded, ""] if is_nameless else folded:
        if name in classes.skipped:
            return SKIPPED
        if name in classes.ids:
            return request.file_class or classes.ids[name]
    return request.file_class or (classes.of_nameless if is_nameless else UNKNOWN) or UNKNOWN


def unknown_classes(
    names: Sequence[str],
    name_of_row: Int64,
    wrong: Int64,
    place: Callable[[int], str],
    classes: ClassTable,
    *,
    nameless: str = "",
    numbers: bool = False,
) -> list[Finding]:
    """What is wrong with the rows whose name is no class: the first names, each at its first places; all are counted.

    names, name_of_row  and which of them stands in each row, int64 (R,)
    wrong               the rows, int64, ascending
    place               where a row is, for messages
    nameless            what is wrong if there is no name
    numbers             whether numbers may stand for classes
    """
    known = sorted(known for known, class_id in classes.ids.items() if known and class_id > 0)
    values = ", ".join(map(str, sorted(classes.values)))
    faults: list[Finding] = []
    for index in np.unique(name_of_row[wrong])[:FAULTS_NAMED].tolist():
        name, rows = names[index], wrong[name_of_row[wrong] == index]
        places = [*map(place, rows[:EXAMPLES_SHOWN].tolist())]
        if numbers and values:
            wording = "or-number"
            finding = fault("unknown-class", *places, wording=wording, name=name, known=known, numbers=values)
        elif nameless and not name:
            finding = fault("unknown-class", *places, got=nameless, name=name, known=known)
        else:
            finding = fault("unknown-class", *places, name=name, known=known)
        faults.append(replace(finding, count=len(rows)))
    return with_rest(faults, len(wrong))


def find_classes(
    texts: Sequence[str], text_of_row: Int64, place: Callable[[int], str], classes: ClassTable
) -> tuple[Int16, Bool, list[Finding]]:
    """The class id of each row, int16 (R,), which rows are nuclei, bool (R,), and what is wrong with the texts.

    Rows of skipped names have the class id 0 and are no nuclei.

    texts, text_of_row  names or numbers, and which of them stands in each row, int64 (R,)
    place               where a row is, for messages
    """
    class_id = np.array([class_of_text(text, classes) for text in texts], np.int16)
    wrong = np.flatnonzero(class_id[text_of_row] == UNKNOWN)
    faults = unknown_classes(texts, text_of_row, wrong, place, classes, numbers=True)
    is_nucleus = class_id != SKIPPED
    return np.where(is_nucleus, class_id, 0).astype(np.int16)[text_of_row], is_nucleus[text_of_row], faults


class ClassNames:
    """Class ids of the names that annotations carry; the names that are no class are counted."""

    def __init__(self, classes: ClassTable, file_class: int) -> None:
        self.classes = classes
        self.file_class = file_class
        self.ids: dict[str, int] = {}  # of the names looked up so far
        self.unknown: dict[str, int] = {}  # an index for each name that is no class
        self.unknown_numbers: list[tuple[int, int]] = []  # such an index, and the number of the annotation

    def look_up(self, name: object) -> int:
        """The class id of a name, None stands for no name; or SKIPPED or UNKNOWN."""
        if self.file_class:
            return self.file_class
        text = name if type(name) is str else "" if name is None else json_of(name)
        if text not in self.ids:
            self.ids[text] = class_of_name(text, self.classes)
        return self.ids[text]

    def is_known(self, name: object) -> bool:
        """Whether a text is the name of a class, or of annotations that are left out."""
        return isinstance(name, str) and bool(name.strip()) and self.look_up(name) != UNKNOWN

    def add_unknown(self, name: object, number: int) -> None:
        """Note that the annotation with this number has a name that is no class."""
        text = name if isinstance(name, str) else json_of(name)
        self.unknown_numbers.append((self.unknown.setdefault(text, len(self.unknown)), number))

    def findings(self, where: str, place: Callable[[int], str]) -> list[Finding]:
        """What is wrong with names, as ``unknown_classes`` says it; ``place`` of an annotation by its number."""
        index, number = np.array(self.unknown_numbers, np.int64).reshape(-1, 2).T
        rows = np.arange(len(index))
        return unknown_classes(
            [*self.unknown], index, rows, lambda row: f"{where}, {place(number[row])}", self.classes, numbers=True
        )


def columns_of_classes(
    keys: Sequence[str], classes: ClassTable, prefix: str = ""
) -> tuple[dict[int, int], list[tuple[str, str]]]:
    """Find the key of each class: it is called ``prefix`` and the name, or an alias, of the class.

    Gives the index of the key by class id, and the pairs of keys that name one class.
    """
    columns: dict[int, int] = {}
    twice: list[tuple[str, str]] = []
    for column, key in enumerate(keys):
        name = key.strip().casefold()
        name = name.removeprefix(prefix).strip() if name.startswith(prefix) else ""
        class_id = classes.ids.get(name, 0) if name else 0
        if class_id > 0 and columns.setdefault(class_id, column) != column:
            twice.append((keys[columns[class_id]], key))
    return columns, twice


def missing_classes(columns: Mapping[int, int], classes: ClassTable) -> list[str]:
    """The names of the classes that have no column."""
    return [name for class_id, name in enumerate(classes.names, start=1) if class_id not in columns]


def json_of(value: object) -> str:
    """A value as JSON, for messages."""
    return AS_JSON.encode(value)


# --- Probabilities of the classes: a number from 0 to 1 for each nucleus and each class of the challenge. -------------


NUMBERS_LIMIT = 50_000_000  # nuclei times classes: 200 MB


def check_size(nuclei: int, classes: int, where: str) -> None:
    """Refuse more numbers than fit, before there are any. Raises InputFault ("too-large").

    >>> check_size(50_000_000 // 6, 6, "'a.csv'")
    """
    if nuclei * classes > (limit := NUMBERS_LIMIT):
        wording = "too-many-probabilities"
        raise refused("too-large", where, wording=wording, classes=classes, nuclei=nuclei, limit=limit)
