"""Which file is which case and class. What is expected comes from cases.csv and challenge.toml, never from the files.

A pattern such as ``{group}/{case}/{class}/*.mat`` is compared part by part, the parts being what stands between '/'.
Classes are the same in upper and lower case, and so is the fixed text of a pattern; cases and groups are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TypeVar

from evaluation.challenge import Challenge
from evaluation.findings import EXAMPLES_SHOWN, Finding, did_you_mean, listed, quote
from evaluation.model import Case

MAX_WRAPPERS = 5
ROOT = "submission"
Key = TypeVar("Key")
PIECE = re.compile(r"\{(case|group|class)\}|(\*+)")


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file of a case: the class of all its instances, or 0 and the file that holds the class of every pixel."""

    name: str
    class_id: int
    class_map_name: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a submission by case.

    files     files of each case by its name, in the order of their classes; no entry for a case without files
    missing   cases of cases.csv without any file
    findings  what is wrong, errors and warnings
    """

    files: dict[str, tuple[CaseFile, ...]]
    missing: frozenset[str]
    findings: tuple[Finding, ...]


def find_case_files(names: Sequence[str], challenge: Challenge) -> Layout:
    """Assign the files of a submission to the cases of the challenge, and say what is missing, extra or unclear.

    names   relative POSIX names; their order changes nothing. One folder around everything is ignored if the pattern
            fits without it and not with it.

    >>> challenge = Challenge.from_preset("monusac2020", name="example", cases=[Case("a", "P1", 100, 120)])
    >>> layout = find_case_files(["sub/P1/a/Epithelial/1.mat", "sub/P1/a/macrophage/1.mat"], challenge)
    >>> [(file.name, file.class_id) for file in layout.files["a"]]
    [('sub/P1/a/Epithelial/1.mat', 1), ('sub/P1/a/macrophage/1.mat', 4)]
    """
    ordered = sorted(set(names))
    patterns = Patterns(challenge)
    wrapper = find_wrapper(ordered, patterns)
    found = [patterns.read(name, name[len(wrapper) :]) for name in ordered]
    placed = [place for place in found if place is not None]
    if not placed:
        return Layout({}, frozenset(case.name for case in challenge.cases), (no_case_found(ordered, challenge),))
    assignment = Assignment(challenge, patterns)
    for place in placed:
        assignment.add(place)
    unused = [name for name, place in zip(ordered, found, strict=True) if place is None]
    files = assignment.case_files()
    return Layout(
        files=files,
        missing=frozenset(case.name for case in challenge.cases if case.name not in files),
        findings=tuple(sorted([*assignment.findings(), *unused_files(unused, challenge)])),
    )


# --- patterns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file lies by the pattern that it fits; ``fields`` are the texts of {case}, {group} and {class}."""

    name: str
    fields: Mapping[str, str]
    is_class_map: bool


class Patterns:
    """The file patterns of a challenge, ready to be compared with names."""

    def __init__(self, challenge: Challenge) -> None:
        rules = challenge.submission
        self.known: dict[str, dict[str, str]] = {
            "case": {composed(case.name): case.name for case in challenge.cases},
            "group": {composed(case.group): case.group for case in challenge.cases},
            "class": {composed(name): name for name in challenge.class_ids() if name},
        }
        self.files = compile_pattern(rules.files, self.known)
        self.class_map = compile_pattern(rules.class_map, self.known) if rules.class_map is not None else None

    def read(self, name: str, inner: str) -> Place | None:
        """The place of a file, ``inner`` being its name without wrapping folders. A class map is tried first."""
        inner = composed(inner)
        fields = self.class_map(inner) if self.class_map is not None else None
        is_class_map = fields is not None
        if fields is None:
            fields = self.files(inner)
        if fields is None:
            return None
        return Place(name, {key: self.known[key].get(text, text) for key, text in fields.items()}, is_class_map)

    def fits_known_case(self, inner: str) -> bool:
        place = self.read(inner, inner)
        return place is not None and composed(place.fields["case"]) in self.known["case"]


def composed(name: str) -> str:
    """A name with accents as part of their letters: file systems of macOS take them apart."""
    return unicodedata.normalize("NFC", name)


def compile_pattern(pattern: str, known: Mapping[str, Mapping[str, str]]) -> Callable[[str], dict[str, str] | None]:
    """A function from a name to the fields of the pattern, or None if the name does not fit."""
    parts = [compile_part(part, known) for part in pattern.split("/")]

    def read(name: str) -> dict[str, str] | None:
        texts = name.split("/")
        if len(texts) != len(parts):
            return None
        fields: dict[str, str] = {}
        for text, expressions in zip(texts, parts, strict=True):
            match = next(filter(None, (expression.fullmatch(text) for expression in expressions)), None)
            if match is None:
                return None
            for key, value in match.groupdict().items():
                if fields.setdefault(key, value) != value:
                    return None
        return fields

    return read


def compile_part(part: str, known: Mapping[str, Mapping[str, str]]) -> list[re.Pattern[str]]:
    """Expressions for one part of a pattern, the first that fits counts.

    With one open place in it there is one way to read a name. With several, as in ``{group}_{case}*.tif``, names that
    the challenge knows are tried first, the longest first; then any.
    """
    open_places = len(PIECE.findall(part))
    choices = (True, False) if open_places > 1 else (False,)
    return [re.compile(part_expression(part, known if only_known else {}), re.IGNORECASE) for only_known in choices]


def part_expression(part: str, known: Mapping[str, Mapping[str, str]]) -> str:
    expression, end = "", 0
    used: set[str] = set()
    for piece in PIECE.finditer(part):
        expression += re.escape(part[end : piece.start()])
        end = piece.end()
        key = piece[1]
        if key is None:
            expression += ".*"
        elif key in used:
            expression += f"(?P={key})"
        else:
            used.add(key)
            names = sorted(known.get(key, ()), key=lambda name: (-len(name), name))
            alternatives = "|".join(map(re.escape, names)) or ".+"
            if names and key != "class":
                alternatives = f"(?-i:{alternatives})"
            expression += f"(?P<{key}>{alternatives})"
    return expression + re.escape(part[end:])


def fill_pattern(pattern: str, challenge: Challenge, case: Case, class_name: str | None = None) -> str:
    """The pattern with the names of a case in it, and of a class (the first one if none is given)."""
    fields = {"case": case.name, "group": case.group, "class": class_name or challenge.class_names[0]}
    return PIECE.sub(lambda piece: fields.get(piece[1] or "", piece[0]), pattern)


def find_wrapper(names: Sequence[str], patterns: Patterns) -> str:
    """The folders around everything that have to be ignored, "" if none: only if names fit without them, not with."""
    wrapper = ""
    for _ in range(MAX_WRAPPERS + 1):
        if any(patterns.fits_known_case(name[len(wrapper) :]) for name in names):
            return wrapper
        folders = {name[len(wrapper) :].partition("/")[:2] for name in names}
        if len(folders) != 1 or not (folder := folders.pop())[1]:
            break
        wrapper += "".join(folder)
    return ""


# --- assignment -------------------------------------------------------------------------------------------------------


@dataclass
class Assignment:
    """Files by case and class, and the faults on the way."""

    challenge: Challenge
    patterns: Patterns
    labels: dict[str, dict[int, str]] = field(default_factory=dict)
    class_maps: dict[str, str] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)  # cases with a file, usable or not
    faults: list[Finding] = field(default_factory=list)
    unknown_cases: dict[str, list[Place]] = field(default_factory=dict)
    wrong_groups: dict[tuple[str, str], list[Place]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cases = {case.name: case for case in self.challenge.cases}
        self.class_ids = self.challenge.class_ids()
        self.pattern_has_class = "{class}" in self.challenge.submission.files

    def add(self, place: Place) -> None:
        """Put a file where it belongs, or note why it belongs nowhere."""
        name = place.fields["case"]
        case = self.cases.get(name)
        if case is None:
            self.unknown_cases.setdefault(name, []).append(place)
            return
        self.touched.add(name)
        group = place.fields.get("group", case.group)
        if group != case.group:
            self.wrong_groups.setdefault((name, group), []).append(place)
        elif place.is_class_map:
            self.put(self.class_maps, case, name, place, "class maps")
        elif not self.pattern_has_class:
            self.put(self.labels.setdefault(name, {}), case, self.only_class_id, place, "label images")
        else:
            class_id = self.class_ids.get(place.fields["class"].casefold(), 0)
            if class_id > 0:
                kind = f"files of class {quote(self.challenge.class_names[class_id - 1])}"
                self.put(self.labels.setdefault(name, {}), case, class_id, place, kind)
            else:
                self.faults.append(self.unknown_class(case, place, ignored=class_id < 0))

    @property
    def only_class_id(self) -> int:
        return 0 if self.challenge.submission.class_map is not None else 1

    def put(self, files: dict[Key, str], case: Case, key: Key, place: Place, kind: str) -> None:
        if key not in files:
            files[key] = place.name
            return
        expected = "one file for each case"
        if self.pattern_has_class:
            expected += " and class"
        self.faults.append(
            Finding(
                "duplicate-file",
                f"case {quote(case.name)}, {quote(place.name, 120)}",
                f"{kind} twice; the other is {quote(files[key], 120)}",
                expected,
                "Remove one of them.",
            )
        )

    def unknown_class(self, case: Case, place: Place, *, ignored: bool) -> Finding:
        names = self.challenge.class_names
        got, fix = f"{quote(place.fields['class'])} is not a class of this challenge", ""
        if ignored:
            got = f"{quote(place.fields['class'])} marks regions that are not scored"
            fix = "Leave this file out."
        elif len(self.faults) < EXAMPLES_SHOWN:
            fix = did_you_mean(place.fields["class"], names)
        return Finding("unknown-class", f"case {quote(case.name)}, {quote(place.name, 120)}", got, listed(names), fix)

    def case_files(self) -> dict[str, tuple[CaseFile, ...]]:
        """The usable files by case, in the order of cases.csv and of the classes."""
        return {
            name: tuple(
                CaseFile(file, class_id, self.class_maps.get(name))
                for class_id, file in sorted(self.labels[name].items())
            )
            for name in self.cases
            if self.labels.get(name) and (not self.patterns.class_map or name in self.class_maps)
        }

    def findings(self) -> Iterator[Finding]:
        yield from self.faults
        yield from self.unknown_case_findings()
        yield from self.wrong_group_findings()
        yield from self.incomplete_case_findings()
        yield from self.missing_case_findings()
        yield from self.missing_class_findings()

    def unknown_case_findings(self) -> Iterator[Finding]:
        example = f", such as {quote(self.challenge.cases[0].name)}" if self.challenge.cases else ""
        for index, (name, places) in enumerate(sorted(self.unknown_cases.items())):
            fix = ""
            if index < EXAMPLES_SHOWN:
                fix = self.swapped(places[0]) or did_you_mean(name, self.cases)
            yield Finding(
                "unknown-case",
                quote(places[0].name, 120),
                f"{quote(name)} is not a case of this challenge",
                f"one of the {len(self.cases):,} cases in cases.csv{example}",
                fix or "Leave out what is not asked for.",
                len(places),
            )

    def swapped(self, place: Place) -> str:
        """What to do if the names of case, group and class are all right but each in the wrong place, else ""."""
        keys = list(place.fields)
        for values in permutations(place.fields.values()):
            fields = dict(zip(keys, values, strict=True))
            case = self.cases.get(fields["case"])
            class_id = self.class_ids.get(fields.get("class", self.challenge.class_names[0]).casefold(), 0)
            if case is not None and fields.get("group", case.group) == case.group and class_id > 0:
                class_name = self.challenge.class_names[class_id - 1]
                right = fill_pattern(self.challenge.submission.files, self.challenge, case, class_name)
                return f"The names are in the wrong order: put this file at {quote(right, 120)}."
        return ""

    def wrong_group_findings(self) -> Iterator[Finding]:
        for (name, group), places in sorted(self.wrong_groups.items()):
            case = self.cases[name]
            right = fill_pattern(self.challenge.submission.files, self.challenge, case)
            yield Finding(
                "wrong-group",
                f"case {quote(name)}, {quote(places[0].name, 120)}",
                f"in the group {quote(group)}, but the case belongs to {quote(case.group)}",
                "every case in the group that cases.csv gives it",
                f"Move it; files of this case lie at places like {quote(right, 120)}.",
                len(places),
            )

    def incomplete_case_findings(self) -> Iterator[Finding]:
        if self.patterns.class_map is None:
            return
        rules = self.challenge.submission
        for name, case in self.cases.items():
            has_labels, has_map = bool(self.labels.get(name)), name in self.class_maps
            if has_labels == has_map:
                continue
            got = "a label image without a class map" if has_labels else "a class map without a label image"
            pattern = (rules.class_map if has_labels else rules.files) or ""
            yield Finding(
                "incomplete-case",
                f"case {quote(name)}",
                got,
                "both for every case",
                f"Add {quote(fill_pattern(pattern, self.challenge, case), 120)}.",
            )

    def missing_case_findings(self) -> Iterator[Finding]:
        rejects = self.challenge.submission.missing_case == "reject"
        for name, case in self.cases.items():
            if name in self.touched:
                continue
            right = quote(fill_pattern(self.challenge.submission.files, self.challenge, case), 120)
            fix = f"Add {right}; for an image without nuclei write an image of zeros."
            if not rejects:
                fix = f"It gets the worst value of every metric. To change that, add {right}."
            yield Finding(
                "missing-case" if rejects else "missing-case-worst",
                f"case {quote(name)}",
                "no file",
                "predictions for every case in cases.csv",
                fix,
            )

    def missing_class_findings(self) -> Iterator[Finding]:
        if not self.pattern_has_class or self.challenge.submission.missing_class_file == "empty":
            return
        for name, by_class in sorted(self.labels.items()):
            for class_id, class_name in enumerate(self.challenge.class_names, start=1):
                if class_id not in by_class:
                    right = fill_pattern(self.challenge.submission.files, self.challenge, self.cases[name], class_name)
                    yield Finding(
                        "missing-class-file",
                        f"case {quote(name)}, class {quote(class_name)}",
                        "no file",
                        "one file for every class, also without nuclei",
                        f"Add {quote(right, 120)}; without nuclei write an image of zeros.",
                    )


def unused_files(names: Sequence[str], challenge: Challenge) -> Iterator[Finding]:
    """A warning about files that no pattern fits: three are named, the others counted."""
    for index, name in enumerate(names[:EXAMPLES_SHOWN]):
        uncounted = len(names) - EXAMPLES_SHOWN if index == EXAMPLES_SHOWN - 1 else 0
        yield Finding(
            "unused-file",
            quote(name, 120),
            "not used",
            f"only files like {quote(challenge.submission.files, 120)}",
            "Check that these are not predictions.",
            1 + uncounted,
        )


def no_case_found(names: Sequence[str], challenge: Challenge) -> Finding:
    """The finding for a submission in which nothing lies where a prediction is expected."""
    case, class_name = likely_example(names, challenge)
    right = "" if case is None else fill_pattern(challenge.submission.files, challenge, case, class_name)
    shown = ", ".join(quote(name, 120) for name in names[:EXAMPLES_SHOWN])
    more = f" and {len(names) - EXAMPLES_SHOWN:,} more" if len(names) > EXAMPLES_SHOWN else ""
    return Finding(
        "no-case-found",
        ROOT,
        f"no prediction among {len(names):,} files ({shown}{more})" if names else "no file",
        f"files like {quote(right or challenge.submission.files, 120)}",
        f"The pattern is {quote(challenge.submission.files, 120)}; '*' stands for any name.",
    )


def likely_example(names: Iterable[str], challenge: Challenge) -> tuple[Case | None, str | None]:
    """A case, and a class, whose name occurs in the name of a file; else the first case."""
    cases = {case.name: case for case in challenge.cases}
    class_ids = challenge.class_ids()
    for name in names:
        words = [word for part in name.split("/") for word in (part, part.rpartition(".")[0])]
        case = next((cases[word] for word in words if word in cases), None)
        if case is not None:
            class_id = next((id for word in words if (id := class_ids.get(word.casefold(), 0)) > 0), 1)
            return case, challenge.class_names[class_id - 1]
    return (challenge.cases[0] if challenge.cases else None), None
