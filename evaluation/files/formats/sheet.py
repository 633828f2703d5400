"""The sheet of a file: its nuclei as columns, checked as arrays; faults are reported here.

Readers of JSON, tables and XML locate the values. All formats have the same rules: a class is a name of the challenge,
a coordinate is a number between limits, a probability is a number from 0 to 1, for all nuclei or no nucleus. Names are
compared without case and without surrounding spaces.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.csv import count_rest
from evaluation.files.formats.format import Request
from evaluation.findings import EXAMPLES_SHOWN, FAULTS_NAMED, Finding, fault, with_rest
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Bool, ClassTable, Float64, Int16, Int64

AS_JSON = json.JSONEncoder(ensure_ascii=False)
SKIPPED, UNKNOWN = -32768, -32767  # no class ids: a name of what is no nucleus, and one that is no class
NUMBERS = frozenset({int, float})  # by type: True is no number
PROBABILITIES_LIMIT = 50_000_000  # nuclei times classes: 400 MB
Row = TypeVar("Row")


class _Spelling(str):
    """A class name in lower case for look-up, with its original spelling."""

    written: str

    def __new__(cls, name: str) -> _Spelling:
        spelling = super().__new__(cls, name.strip().casefold())
        spelling.written = name.strip()
        return spelling


def class_of_name(name: str, classes: ClassTable) -> int:
    """Return the class id of a name ("": no name), or SKIPPED or UNKNOWN."""
    folded = _Spelling(name)
    if folded in classes.skipped:
        return SKIPPED
    return classes.ids.get(folded, UNKNOWN) if folded else classes.of_nameless


def class_of_text(text: str, classes: ClassTable) -> int:
    """Look up the class id of a name or a number; names go first."""
    class_id = class_of_name(text, classes)
    number = re.fullmatch(r"([+-]?[0-9]{1,9})(\.0*)?", text, re.ASCII) if class_id == UNKNOWN else None
    return classes.values.get(int(number[1]), UNKNOWN) if number else class_id


def class_of_names(names: Iterable[str], is_nameless: bool, request: Request) -> int:
    """Return the class of the first known name, or SKIPPED or UNKNOWN.

    is_nameless  whether all names are meaningless: only then they count as unnamed, so that a misspelt name never
                 does
    """
    classes = request.classes
    folded = filter(None, map(_Spelling, names))
    for name in [*folded, ""] if is_nameless else folded:
        if name in classes.skipped:
            return SKIPPED
        if name in classes.ids:
            return request.file_class or classes.ids[name]
    return request.file_class or (classes.of_nameless if is_nameless else UNKNOWN) or UNKNOWN


def keys_of_classes(
    keys: Sequence[str], classes: ClassTable, prefix: str = ""
) -> tuple[list[int | None], list[tuple[str, str]]]:
    """Find the key of each class: it is called ``prefix`` and the name, or an alias, of the class.

    Gives the index of the key of each class, None if missing, and the pairs of keys that name one class. If no
    classes are requested, as in the conversion of a single file, no key is looked at.
    """
    if not classes.names:
        return [], []
    key_of_class: dict[int, int] = {}
    twice: list[tuple[str, str]] = []
    for index, key in enumerate(keys):
        name = key.strip().casefold()
        name = name.removeprefix(prefix).strip() if name.startswith(prefix) else ""
        class_id = classes.ids.get(name, 0) if name else 0
        if class_id > 0 and key_of_class.setdefault(class_id, index) != index:
            twice.append((keys[key_of_class[class_id]], key))
    return [key_of_class.get(class_id) for class_id in range(1, len(classes.names) + 1)], twice


def json_of(value: object) -> str:
    """Write a value as JSON, for messages."""
    return AS_JSON.encode(value)


def numbers_in(values: Sequence[object]) -> tuple[Float64, Bool]:
    """Convert JSON values to numbers, float64 (N,), NaN for other types; and return which are missing (None), bool
    (N,).

    >>> numbers_in([1, None, True])[0].tolist(), numbers_in([1, None, True])[1].tolist()
    ([1.0, nan, nan], [False, True, False])
    """
    if NUMBERS.issuperset(map(type, values)):
        return np.fromiter(values, np.float64, len(values)), np.zeros(len(values), np.bool_)
    numbers = np.array([value if type(value) in NUMBERS else np.nan for value in values], np.float64)
    return numbers, np.array([value is None for value in values], np.bool_)


def check_size(nuclei: int, classes: int, where: str) -> None:
    """Refuse more probabilities of classes than fit, before there are any. Raises InputFault ("too-large").

    >>> check_size(50_000_000 // 6, 6, "'a.csv'")
    """
    if nuclei * classes > (limit := PROBABILITIES_LIMIT):
        wording = "too-many-probabilities"
        raise refused("too-large", where, wording=wording, classes=classes, nuclei=nuclei, limit=limit)


class FileFaults:
    """The faults of a file, or worth a warning: the first few of each kind, with the number of all.

    others  findings from other sources
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.named: dict[str, list[Finding]] = {}
        self.total: Counter[str] = Counter()
        self.others: list[Finding] = []

    def fault(self, code: str, place: str, **words: Any) -> None:
        """Record the fault at a place, in the words of ``evaluation.findings.fault``."""
        self.total[code] += 1
        named = self.named.setdefault(code, [])
        if len(named) < FAULTS_NAMED:
            named.append(fault(code, f"{self.where}, {place}", **words))

    def first(self, code: str, items: Sequence[Row]) -> Sequence[Row]:
        """The items with a fault that are to be noted; those after them are only counted."""
        self.total[code] += max(0, len(items) - FAULTS_NAMED)
        return items[:FAULTS_NAMED]

    def findings(self) -> list[Finding]:
        named = [finding for code, named in self.named.items() for finding in with_rest(named, self.total[code])]
        return [*named, *count_rest(self.others)]


class Sheet:
    """Nuclei of a file. A place in it has a number: of an annotation, a region, a line.

    place     describes the place with a number, for messages: "line 2", "feature 1"
    nameless  message for a nucleus without a required name
    faults    the faults of the file
    left_out  warnings about ignored annotations
    """

    def __init__(self, request: Request, place: Callable[[int], str], nameless: str | None = None) -> None:
        self.request, self.place, self.nameless = request, place, nameless
        self.faults, self.left_out = FileFaults(request.where), FileFaults(request.where)
        self.class_of_text: dict[str, int] = {}  # of the names looked up so far
        self.unknown: dict[str, list[int]] = {}  # the numbers of the places where a name stands that is no class

    def fault(self, code: str, number: int, /, **words: Any) -> None:
        """Record the fault at the place with this number."""
        self.faults.fault(code, self.place(number), **words)

    def rows_with(self, code: str, is_wrong: Bool) -> list[Any]:
        """Return the first rows with a fault, bool (R,), or row and column of each, bool (R, K); all are counted."""
        wrong = np.flatnonzero(is_wrong) if is_wrong.ndim == 1 else np.argwhere(is_wrong)
        return self.faults.first(code, wrong.tolist())  # type: ignore[return-value]

    # --- classes ----------------------------------------------------------------------------------------------------

    def look_up(self, name: object) -> int:
        """Look up the class id of a name, None means no name; or SKIPPED or UNKNOWN."""
        if self.request.file_class:
            return self.request.file_class
        text = name if type(name) is str else "" if name is None else json_of(name)
        if text not in self.class_of_text:
            self.class_of_text[text] = class_of_name(text, self.request.classes)
        return self.class_of_text[text]

    def is_known(self, name: object) -> bool:
        """Return whether a name belongs to a class or is skipped."""
        return isinstance(name, str) and bool(name.strip()) and self.look_up(name) != UNKNOWN

    def note_unknown(self, name: object, number: int) -> None:
        """Record an unknown name at the place with this number."""
        self.unknown.setdefault(name if isinstance(name, str) else json_of(name), []).append(number)

    def classes_of(self, texts: Sequence[str], text_of_row: Int64, numbers: Int64 | None = None) -> Int16:
        """Return the class id of each row by its name or number, int16 (R,), or SKIPPED; 0 for unknown names.

        texts, text_of_row  distinct texts, and the index of each row's text, int64 (R,)
        numbers             of the places of the rows, int64 (R,); None: their indices
        """
        ids = [class_of_text(text, self.request.classes) for text in texts]
        class_id = np.array(ids, np.int16)[text_of_row]
        for row in np.flatnonzero(class_id == UNKNOWN).tolist():
            self.note_unknown(texts[text_of_row[row]], row if numbers is None else int(numbers[row]))
        return np.where(class_id == UNKNOWN, 0, class_id).astype(np.int16)

    def unknown_classes(self) -> list[Finding]:
        """Return the faults of names: the first names with their first places; all are counted."""
        request, faults = self.request, list[Finding]()
        known = sorted(name for name, class_id in request.classes.ids.items() if name and class_id > 0)
        has_numbers = hasattr(request.rules, "class_values")  # in other formats numbers stand for no class
        values = ", ".join(map(str, sorted(request.classes.values))) if has_numbers else ""
        for name, numbers in islice(self.unknown.items(), FAULTS_NAMED):
            places = [f"{request.where}, {self.place(number)}" for number in numbers[:EXAMPLES_SHOWN]]
            faults.append(
                fault(
                    "unknown-class",
                    *places,
                    wording="or-number" if values else "",
                    total=len(numbers),
                    got=None if name else self.nameless,
                    name=name,
                    known=known,
                    numbers=values,
                )
            )
        return with_rest(faults, sum(map(len, self.unknown.values())))

    # --- numbers ----------------------------------------------------------------------------------------------------

    def check_coordinates(self, is_wrong: Bool, at: Callable[..., tuple[str, str, object]]) -> None:
        """Record invalid coordinates; ``at`` returns the place, the name and the value at a row, or row and column."""
        for row in self.rows_with("invalid-coordinate", is_wrong):
            place, name, value = at(*row) if type(row) is list else at(row)
            self.faults.fault("invalid-coordinate", place, name=name, value=value)

    def check_probabilities(
        self,
        values: Float64,
        is_missing: Bool,
        numbers: Sequence[int] | Int64,
        names: Sequence[str],
        value: Callable[[int, int], object],
        *,
        of_classes: bool = False,
    ) -> None:
        """Record values outside 0 to 1, and rows without a value.

        values, is_missing  float64 and bool (R, K)
        numbers             of the places of the rows, (R,)
        names, value        of the columns, and the text at a row and a column, for messages
        of_classes          whether there is a column for each class
        """
        is_probability = (values >= 0) & (values <= 1)
        for row, column in self.rows_with("invalid-probability", ~(is_probability | is_missing)):
            self.fault("invalid-probability", numbers[row], name=names[column], value=value(row, column))
        for row in self.rows_with("missing-probability", np.any(is_missing, axis=1)):
            lacking = [name for name, is_lacking in zip(names, is_missing[row], strict=True) if is_lacking]
            wording = "of-classes" if of_classes else ""
            self.fault("missing-probability", numbers[row], wording=wording, names=lacking)

    # --- all of it --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise InputFault with all faults of the file."""
        if findings := [*self.unknown_classes(), *self.faults.findings()]:
            raise InputFault(*findings)

    def checked_columns(
        self,
        class_id: Sequence[int] | Int16,
        source_id: Sequence[Any] | npt.NDArray[Any],
        probability: Float64 | None = None,
        class_probability: Float64 | None = None,
    ) -> dict[str, Any]:
        """Create the columns of all nuclei, as in ``Points``. Raises InputFault with all faults of the
        file."""
        self.check()
        return {
            "class_id": np.asarray(class_id, np.int16),
            "source_id": source_id if isinstance(source_id, np.ndarray) else np.array([*source_id, None], object)[:-1],
            "probability": probability,
            "class_probability": class_probability,
        }
