"""The class that a name or a number in a file stands for, and what is said of one that is no class.

Names are the same in upper and lower case, and without the spaces around them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

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


def unknown_class(name: str, classes: ClassTable, *, nameless: str = "", numbers: bool = False) -> partial[Finding]:
    """What is wrong with a name that is no class of the challenge.

    nameless  what is wrong if there is no name
    numbers   whether numbers may stand for classes
    """
    known = sorted(known for known, class_id in classes.ids.items() if known and class_id > 0)
    if numbers and classes.values:
        values = ", ".join(map(str, sorted(classes.values)))
        return partial(fault, "unknown-class", wording="or-number", name=name, known=known, numbers=values)
    if nameless and not name:
        return partial(fault, "unknown-class", got=nameless, name=name, known=known)
    return partial(fault, "unknown-class", name=name, known=known)


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
    nameless, numbers   as for ``unknown_class``
    """
    faults: list[Finding] = []
    for index in np.unique(name_of_row[wrong])[:FAULTS_NAMED].tolist():
        rows = wrong[name_of_row[wrong] == index]
        problem = unknown_class(names[index], classes, nameless=nameless, numbers=numbers)
        faults.append(problem(*map(place, rows[:EXAMPLES_SHOWN].tolist()), total=len(rows)))
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
        self.found: dict[str, int] = {}
        self.unknown: dict[str, list[str]] = {}  # the first places of each name
        self.count: Counter[str] = Counter()

    def look_up(self, name: object) -> int:
        """The class id of a name, None stands for no name; or SKIPPED or UNKNOWN."""
        if self.file_class:
            return self.file_class
        text = name if type(name) is str else "" if name is None else shown(name)
        if text not in self.found:
            self.found[text] = class_of_name(text, self.classes)
        return self.found[text]

    def is_known(self, name: object) -> bool:
        """Whether a text is the name of a class, or of annotations that are left out."""
        return isinstance(name, str) and bool(name.strip()) and self.look_up(name) != UNKNOWN

    def add_unknown(self, name: object, place: str) -> None:
        text = name if isinstance(name, str) else shown(name)
        self.count[text] += 1
        if self.count[text] <= EXAMPLES_SHOWN:
            self.unknown.setdefault(text, []).append(place)

    def findings(self, where: str) -> list[Finding]:
        """The first names that are no class, each at its first places; counted are all annotations."""
        named: list[Finding] = []
        for name, places in islice(self.unknown.items(), FAULTS_NAMED):
            problem = unknown_class(name, self.classes, numbers=True)
            named.append(problem(*(f"{where}, {place}" for place in places), total=self.count[name]))
        return with_rest(named, self.count.total())


def shown(value: object) -> str:
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
