"""One file for each case, or for each case and class, which its path names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import PurePosixPath

from evaluation.challenge import Challenge
from evaluation.files.submission.files import PLATFORM_CSV, ROOT, CaseFile, Layout
from evaluation.findings import EXAMPLES_SHOWN, Finding, did_you_mean, fault, quote
from nuclei_metrics.model import Case

PLATFORM_LISTS = ("predictions.json", "inputs.json")


def find_by_pattern(names: Sequence[str], challenge: Challenge) -> Layout:
    """Assign files to cases by the patterns of the challenge; ``names`` are sorted."""
    patterns = _Patterns(challenge)
    places = patterns.read_all(names)
    assignment = _Assignment(challenge, patterns)
    for parsed in places:
        if parsed is not None:
            assignment.add(parsed)
    if not any(places):
        return _nothing_found(names, challenge)
    unused = [name for name, parsed in zip(names, places, strict=True) if parsed is None]
    files = assignment.case_files()
    return Layout(
        files=files,
        missing=frozenset(case.name for case in challenge.cases if case.name not in files),
        findings=tuple(sorted([*assignment.findings(), *_unused_files(unused, challenge)])),
    )


@dataclass
class _Assignment:
    """Files by case and class, and faults of other files.

    files        of each case by the id of their class
    companions   the file that goes with them, by key of its pattern and by case
    touched      cases with a file, usable or not
    """

    challenge: Challenge
    patterns: _Patterns
    files: dict[str, dict[int, str]] = field(default_factory=dict)
    companions: dict[str, dict[str, str]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    faults: list[Finding] = field(default_factory=list)
    unknown_cases: dict[str, list[_ParsedName]] = field(default_factory=dict)
    wrong_groups: dict[tuple[str, str], list[_ParsedName]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.challenge.submission
        self.cases = {case.name: case for case in self.challenge.cases}
        self.class_ids = self.challenge.class_ids()
        self.kinds = rules.companions
        self.has_class = "{class}" in rules.files
        self.class_of_nameless = 0 if rules.tells_class else 1
        self.companions = {key: {} for key in rules.companions if key in self.patterns.texts}

    def add(self, parsed: _ParsedName) -> None:
        """Assign a file to its case, or keep a finding with the reason."""
        name = parsed.fields["case"]
        case = self.cases.get(name)
        if case is None:
            self.unknown_cases.setdefault(name, []).append(parsed)
            return
        self.touched.add(name)
        group = parsed.fields.get("group", case.group)
        if group != case.group:
            self.wrong_groups.setdefault((name, group), []).append(parsed)
        elif parsed.key in self.companions:
            other = self.companions[parsed.key].setdefault(name, parsed.name)
            self.check_twice(parsed, other, f"{self.kinds[parsed.key]}s")
        elif (class_id := self.class_id(parsed)) or not self.has_class:
            what = f"files of class {quote(parsed.fields['class'])}" if self.has_class else "files"
            other = self.files.setdefault(name, {}).setdefault(class_id, parsed.name)
            self.check_twice(parsed, other, what)
        else:
            where = f"case {quote(name)}, {quote(parsed.name, 120)}"
            suggest = len(self.faults) < EXAMPLES_SHOWN
            self.faults.append(_unknown_class(self.challenge, where, parsed.fields["class"], suggest=suggest))

    def class_id(self, parsed: _ParsedName) -> int:
        return self.class_ids.get(parsed.fields["class"].casefold(), 0) if self.has_class else self.class_of_nameless

    def check_twice(self, parsed: _ParsedName, other: str, what: str) -> None:
        if other != parsed.name:
            where = f"case {quote(parsed.fields['case'])}, {quote(parsed.name, 120)}"
            wording = "twice-for-case-and-class" if self.has_class else "twice-for-case"
            self.faults.append(fault("duplicate-file", where, wording=wording, what=what, other=other))

    def case_files(self) -> dict[str, tuple[CaseFile, ...]]:
        """The usable files by case, in the order of cases.csv and of the classes."""
        return {
            name: tuple(
                CaseFile(file, class_id, {key: by_case[name] for key, by_case in self.companions.items()})
                for class_id, file in sorted(self.files[name].items())
            )
            for name in self.cases
            if self.files.get(name) and all(name in by_case for by_case in self.companions.values())
        }

    def findings(self) -> Iterator[Finding]:
        yield from self.faults
        yield from self.unknown_case_findings()
        yield from self.wrong_group_findings()
        yield from self.incomplete_case_findings()
        for name, case in self.cases.items():
            if name not in self.touched:
                right = _fill_pattern(self.challenge.submission.files, self.challenge, case)
                yield missing_case(self.challenge, case, "no file", quote(right, 120))
        if self.has_class:
            yield from _missing_class_files(self.challenge, self.files)

    def unknown_case_findings(self) -> Iterator[Finding]:
        known = list(self.cases)
        lacking = [name for name in known if name not in self.touched]
        for index, (name, found_names) in enumerate(sorted(self.unknown_cases.items())):
            suggestion = ""
            if index < EXAMPLES_SHOWN:
                suggestion = self.swapped(found_names[0]) or did_you_mean(name, lacking)
            where = [quote(parsed.name, 120) for parsed in found_names[:EXAMPLES_SHOWN]]
            total = len(found_names)
            yield fault("unknown-case", *where, total=total, name=name, known=known, suggestion=suggestion, what="")

    def swapped(self, parsed: _ParsedName) -> str:
        """The advice for a path in which known names of case, group and class are swapped; "" for any other path."""
        keys = list(parsed.fields)
        for values in permutations(parsed.fields.values()):
            fields = dict(zip(keys, values, strict=True))
            case = self.cases.get(fields["case"])
            class_id = self.class_ids.get(fields.get("class", self.challenge.class_names[0]).casefold(), 0)
            if case is not None and fields.get("group", case.group) == case.group and class_id > 0:
                class_name = self.challenge.class_names[class_id - 1]
                right = _fill_pattern(self.patterns.texts[parsed.key], self.challenge, case, class_name)
                return f"The names are in the wrong order: put this file at {quote(right, 120)}."
        return ""

    def wrong_group_findings(self) -> Iterator[Finding]:
        for (name, group), found_names in sorted(self.wrong_groups.items()):
            case = self.cases[name]
            right = _fill_pattern(self.patterns.texts[found_names[0].key], self.challenge, case)
            where = [f"case {quote(name)}, {quote(parsed.name, 120)}" for parsed in found_names[:EXAMPLES_SHOWN]]
            yield fault("wrong-group", *where, total=len(found_names), group=group, own_group=case.group, right=right)

    def incomplete_case_findings(self) -> Iterator[Finding]:
        for key, by_case in self.companions.items():
            pattern, kind = self.patterns.texts[key], self.kinds[key]
            for name, case in self.cases.items():
                has_file, has_companion = bool(self.files.get(name)), name in by_case
                if has_file == has_companion:
                    continue
                there, absent = ("label image", kind) if has_file else (kind, "label image")
                right = _fill_pattern(pattern if has_file else self.patterns.texts["files"], self.challenge, case)
                yield fault("incomplete-case", f"case {quote(name)}", present=there, absent=absent, right=right)


# --- File patterns: ``{group}/{case}/{class}/*.mat`` is compared part by part; '/' separates the parts. ---------------


MAX_WRAPPERS = 5
PIECE = re.compile(r"\{(case|group|class)\}|(\*+)")
PACKED = re.compile(r"\.gz\Z", re.IGNORECASE)
NOTE = re.compile(r"(readme|license|licence)[^/]*|[^/]*\.(txt|md)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _ParsedName:
    """The key of the pattern that a file fits, and its texts for {case}, {group} and {class}."""

    name: str
    key: str
    fields: Mapping[str, str]


class _Patterns:
    """The file patterns of a challenge, ready to be compared with names."""

    def __init__(self, challenge: Challenge) -> None:
        rules = challenge.submission
        self.known: dict[str, dict[str, str]] = {
            "case": {composed(case.name): case.name for case in challenge.cases},
            "group": {composed(case.group): case.group for case in challenge.cases},
            "class": {composed(name): name for name in challenge.class_ids() if name},
        }
        self.texts: dict[str, str] = {
            key: text for key in (*rules.companions, "files") if (text := rules.value(key)) is not None
        }
        self.compiled = {key: compile_pattern(text, self.known) for key, text in self.texts.items()}

    def read_all(self, names: Sequence[str]) -> list[_ParsedName | None]:
        """Case and class from the paths of files; None if no pattern matches, and for lists of the platform.

        Enclosing folders are ignored if names fit only without them.
        """
        folders = wrapping_folders(names)
        wrapper = next((folder for folder in folders if any(map(self.fits, inside(names, folder)))), "")

        def read(name: str) -> _ParsedName | None:
            parsed = self.read(name, name[len(wrapper) :]) if name.startswith(wrapper) else None
            is_list = name.removeprefix(wrapper) in PLATFORM_LISTS
            return None if parsed is None or (is_list and not self.is_known(parsed)) else parsed

        return [read(name) for name in names]

    def read(self, name: str, inner: str) -> _ParsedName | None:
        """The name of a file with its fields, ``inner``: its name without wrapping folders.

        Patterns with a known case come first; then companions of a file before the file.
        """
        inner = composed(inner)
        found_names = []
        for key, read in self.compiled.items():
            if (fields := read(inner)) is not None:
                fields = {field: self.known[field].get(text, text) for field, text in fields.items()}
                found_names.append(_ParsedName(name, key, fields))
        return next(filter(self.is_known, found_names), found_names[0] if found_names else None)

    def is_known(self, parsed: _ParsedName) -> bool:
        """Return whether a name belongs to a case that is scored, or to all cases."""
        return "case" not in parsed.fields or composed(parsed.fields["case"]) in self.known["case"]

    def fits(self, inner: str) -> bool:
        parsed = self.read(inner, inner)
        return parsed is not None and self.is_known(parsed)


def composed(name: str) -> str:
    """A name with accents as part of their letters: file systems of macOS take them apart."""
    return unicodedata.normalize("NFC", name)


def compile_pattern(pattern: str, known: Mapping[str, Mapping[str, str]]) -> Callable[[str], dict[str, str] | None]:
    """A function from a name to the fields of the pattern, or None if the name does not fit.

    Names of JSON and XML files may end with ``.gz``, on both sides, because compressed files are read, too.
    """
    parts = [_compile_part(part, known) for part in pattern.split("/")]
    may_be_packed = pattern.lower().endswith((".json", ".geojson", ".xml"))

    def read(name: str) -> dict[str, str] | None:
        texts = (PACKED.sub("", name) if may_be_packed else name).split("/")
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


def _compile_part(part: str, known: Mapping[str, Mapping[str, str]]) -> list[re.Pattern[str]]:
    """Expressions for one part of a pattern, the first that fits counts.

    With one open field in it there is one way to read a name. With several, as in ``{group}_{case}*.tif``, names of the
    challenge are tried first, the longest first; then any.
    """
    open_places = len(PIECE.findall(part))
    choices = (True, False) if open_places > 1 else (False,)
    return [re.compile(_part_expression(part, known if only_known else {}), re.IGNORECASE) for only_known in choices]


def _part_expression(part: str, known: Mapping[str, Mapping[str, str]]) -> str:
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


def _fill_pattern(pattern: str, challenge: Challenge, case: Case, class_name: str | None = None) -> str:
    """The pattern filled with the names of a case and a class (default: the first class)."""
    fields = {"case": case.name, "group": case.group, "class": class_name or challenge.class_names[0]}
    return PIECE.sub(lambda piece: fields.get(piece[1] or "", piece[0]), pattern)


def wrapping_folders(names: Sequence[str]) -> Iterator[str]:
    """ "", then the folder around all files, then the folder inside it, …; notes may be next to them.

    >>> list(wrapping_folders(["README.md", "a/b/1.mat", "a/b/2.mat", "a/notes.txt"]))
    ['', 'a/', 'a/b/']
    """
    wrapper = ""
    for _ in range(MAX_WRAPPERS + 1):
        yield wrapper
        folders = {name.partition("/")[:2] for name in inside(names, wrapper) if not NOTE.fullmatch(name)}
        if len(folders) != 1 or not (folder := folders.pop())[1]:
            return
        wrapper += "".join(folder)


def inside(names: Iterable[str], wrapper: str) -> Iterator[str]:
    """The names in a wrapping folder, relative to it."""
    return (name[len(wrapper) :] for name in names if name.startswith(wrapper))


# --- Files that hold all cases: one, or one for each class. Which cases they hold is known when they have been read. --


def find_shared_files(names: Sequence[str], challenge: Challenge) -> Layout:
    """The files that fit a pattern without {case}; ``names`` are sorted."""
    patterns = _Patterns(challenge)
    groups = {None, *patterns.known["group"].values()}
    found_names = [parsed for parsed in patterns.read_all(names) if parsed and parsed.fields.get("group") in groups]
    if not found_names and _is_uploaded_csv(names, challenge):
        found_names = [_ParsedName(PLATFORM_CSV, "files", {})]
    if not found_names:
        return _nothing_found(names, challenge)
    files, faults = _by_class(found_names, challenge)
    used = {parsed.name for parsed in found_names}
    unused = [name for name in names if name not in used]
    if "{class}" in challenge.submission.files and files:
        faults += _missing_class_files(challenge, {"": {file.class_id for file in files}})
    findings = sorted([*faults, *_unused_files(unused, challenge)])
    return Layout({}, frozenset(), tuple(findings), tuple(sorted(files, key=lambda file: (file.class_id, file.name))))


def _is_uploaded_csv(names: Sequence[str], challenge: Challenge) -> bool:
    """Return whether the file that is requested was submitted as it is, so that the platform gave it another name."""
    pattern = challenge.submission.files.lower()
    at_top = [name for name in names if "/" not in name and name.lower().endswith(".csv")]
    return pattern.endswith(".csv") and "{class}" not in pattern and at_top == [PLATFORM_CSV]


def _by_class(found_names: Iterable[_ParsedName], challenge: Challenge) -> tuple[list[CaseFile], list[Finding]]:
    """The files with the classes of their names; files of unknown classes and second files are faults."""
    class_ids = challenge.class_ids()
    files: dict[tuple[str | None, int], CaseFile] = {}
    faults = []
    for parsed in found_names:
        class_id = 0 if challenge.submission.tells_class else 1
        if "class" in parsed.fields:
            class_id = class_ids.get(parsed.fields["class"].casefold(), 0)
            if class_id == 0:
                faults.append(_unknown_class(challenge, quote(parsed.name, 120), parsed.fields["class"]))
                continue
        file = files.setdefault((parsed.fields.get("group"), class_id), CaseFile(parsed.name, class_id))
        if file.name != parsed.name:
            where, wording = quote(parsed.name, 120), "twice-for-all-cases"
            faults.append(fault("duplicate-file", where, wording=wording, other=file.name))
    return list(files.values()), faults


# --- What is missing in a submission and what is extra, in the same words for all layouts. ----------------------------


def collection_findings(challenge: Challenge, mentioned: Collection[str], unknown: Mapping[str, int]) -> list[Finding]:
    """Missing and extra content in files of all cases.

    mentioned   names of mentioned cases
    unknown     names that are not cases, with their numbers of entries
    """
    keys = {case.name: challenge.submission.key_of(case) for case in challenge.cases}
    without = [case for case in challenge.cases if case.name not in mentioned]
    lacking = [keys[case.name] for case in without]
    findings = [
        missing_case(challenge, case, "no entry", f"entries for {quote(keys[case.name], 120)}") for case in without
    ]
    unknown = {name: entries for name, entries in unknown.items() if name not in challenge.submission.skip_cases}
    for index, (name, entries) in enumerate(sorted(unknown.items())[:EXAMPLES_SHOWN]):
        uncounted = max(0, len(unknown) - EXAMPLES_SHOWN) if index == EXAMPLES_SHOWN - 1 else 0
        where, total, known = f"{entries:,} entries for {quote(name, 120)}", 1 + uncounted, list(keys.values())
        near = did_you_mean(name, lacking)
        findings.append(fault("unknown-case", where, wording="entries", total=total, known=known, suggestion=near))
    return sorted(findings)


def missing_case(challenge: Challenge, case: Case, got: str, needed: str) -> Finding:
    """A case without predictions: an error or a warning, according to the challenge. ``needed`` is what to add."""
    where = f"case {quote(case.name)}"
    if challenge.submission.missing_case == "reject":
        return fault("missing-case", where, got=got, right=needed, empty=_empty_file(challenge))
    return fault("missing-case-worst", where, got=got, right=needed)


def _empty_file(challenge: Challenge) -> str:
    """What to write for an image without nuclei."""
    rules = challenge.submission
    if rules.is_shared:
        return "as well"
    return "write an image of zeros" if rules.dense else "write a file without any"


def _missing_class_files(challenge: Challenge, present: Mapping[str, Collection[int]]) -> Iterator[Finding]:
    """Classes without a file, if the challenge requires all.

    present   by name of the case: the classes that it has a file for; "" means files of all cases
    """
    if challenge.submission.missing_class_file == "empty":
        return
    cases = {case.name: case for case in challenge.cases}
    for name, class_ids in sorted(present.items()):
        for class_id, class_name in enumerate(challenge.class_names, start=1):
            if class_id not in class_ids:
                case = cases[name] if name else challenge.cases[0]
                right = _fill_pattern(challenge.submission.files, challenge, case, class_name)
                where = f"case {quote(name)}, class {quote(class_name)}" if name else f"class {quote(class_name)}"
                yield fault("missing-class-file", where, right=right, empty=_empty_file(challenge))


def _unknown_class(challenge: Challenge, where: str, spelling: str, *, suggest: bool = True) -> Finding:
    """The fault of a class in a file name that is not scored. ``suggest``: look for a similar name, which is slow."""
    wording = "" if suggest else "no-suggestion"
    return fault("unknown-class", where, wording=wording, name=spelling, known=challenge.class_names)


def _unused_files(names: Sequence[str], challenge: Challenge) -> Iterator[Finding]:
    """A warning about files that match no pattern: three are named, the rest is counted."""
    for index, name in enumerate(names[:EXAMPLES_SHOWN]):
        uncounted = len(names) - EXAMPLES_SHOWN if index == EXAMPLES_SHOWN - 1 else 0
        yield fault("unused-file", quote(name, 120), total=1 + uncounted, pattern=challenge.submission.files)


def _nothing_found(names: Sequence[str], challenge: Challenge) -> Layout:
    """The layout of a submission without files at the expected paths."""
    missing = frozenset(case.name for case in challenge.cases)
    if not names:
        return Layout({}, missing, (fault("empty-submission", ROOT),))
    case, class_name = _likely_example(names, challenge)
    pattern = challenge.submission.files
    right = "" if case is None else _fill_pattern(pattern, challenge, case, class_name)
    finding = fault("no-case-found", ROOT, example=right or pattern, pattern=pattern, names=names)
    if case is not None and (differs := _what_differs(names, case, right, pattern)):
        finding = finding.advised(differs)
    return Layout({}, missing, (finding,))


def _what_differs(names: Iterable[str], case: Case, right: str, pattern: str) -> str:
    """The fault of the first nearly right name, and the right name; otherwise ""."""
    expected = PurePosixPath(right)
    for name in names:
        path = PurePosixPath(name)
        if path.parent.name == case.name and "{case}" in PurePosixPath(pattern).name:
            return f"{quote(name, 120)} is in a folder of its case: submit it as {quote(right, 120)}."
        if path.stem == expected.stem and path.suffix != expected.suffix:
            return f"{quote(name, 120)} is of another type: write {quote(expected.name, 120)}."
    return ""


def _likely_example(names: Iterable[str], challenge: Challenge) -> tuple[Case | None, str | None]:
    """A case and a class from the name of a file, for an example; otherwise the first case."""
    cases = {case.name: case for case in challenge.cases}
    class_ids = challenge.class_ids()
    for name in names:
        words = [word for part in name.split("/") for word in (part, part.rpartition(".")[0])]
        case = next((cases[word] for word in words if word in cases), None)
        if case is not None:
            class_id = next((id for word in words if (id := class_ids.get(word.casefold(), 0)) > 0), 1)
            return case, challenge.class_names[class_id - 1]
    return (challenge.cases[0] if challenge.cases else None), None
