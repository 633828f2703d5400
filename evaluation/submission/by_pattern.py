"""One file for each case, or for each case and class: its place tells which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from evaluation.challenge import Challenge
from evaluation.challenge.definition import tells_class
from evaluation.findings import EXAMPLES_SHOWN, Finding, did_you_mean, quote
from evaluation.findings.submission import IncompleteCase, TwiceForCase, TwiceForCaseAndClass, UnknownCase, WrongGroup
from evaluation.submission.completeness import (
    missing_case,
    missing_class_files,
    no_case_found,
    unknown_class,
    unused_files,
)
from evaluation.submission.found import CaseFile, Layout
from evaluation.submission.patterns import Patterns, Place, fill_pattern, find_wrapper

PLATFORM_LISTS = ("predictions.json", "inputs.json")
KINDS = {"class_map": "class map", "class_table": "class table", "segments": "segments file"}


def find_by_pattern(names: Sequence[str], challenge: Challenge) -> Layout:
    """Assign files to cases by the patterns of the challenge; ``names`` are sorted."""
    patterns = Patterns(challenge)
    wrapper = find_wrapper(names, patterns.fits)
    found = [find_place(name, wrapper, patterns) for name in names]
    assignment = Assignment(challenge, patterns)
    for place in found:
        if place is not None:
            assignment.add(place)
    if not any(place is not None and "case" in place.fields for place in found):
        return Layout({}, frozenset(case.name for case in challenge.cases), (no_case_found(names, challenge),))
    unused = [name for name, place in zip(names, found, strict=True) if place is None]
    files = assignment.case_files()
    return Layout(
        files=files,
        missing=frozenset(case.name for case in challenge.cases if case.name not in files),
        findings=tuple(sorted([*assignment.findings(), *unused_files(unused, challenge)])),
    )


def find_place(name: str, wrapper: str, patterns: Patterns) -> Place | None:
    """Where a file lies, None if no pattern fits. Lists of the platform are nothing by themselves."""
    place = patterns.read(name, name[len(wrapper) :]) if name.startswith(wrapper) else None
    is_list = name.removeprefix(wrapper) in PLATFORM_LISTS
    return None if place is None or (is_list and not patterns.is_known(place)) else place


@dataclass
class Assignment:
    """Files by case and class, and the faults on the way.

    files        of each case by the id of their class
    companions   the file that goes with them, by key of its pattern and by case
    touched      cases with a file, usable or not
    """

    challenge: Challenge
    patterns: Patterns
    files: dict[str, dict[int, str]] = field(default_factory=dict)
    companions: dict[str, dict[str, str]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    faults: list[Finding] = field(default_factory=list)
    unknown_cases: dict[str, list[Place]] = field(default_factory=dict)
    wrong_groups: dict[tuple[str, str], list[Place]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.challenge.submission
        self.cases = {case.name: case for case in self.challenge.cases}
        self.class_ids = self.challenge.class_ids()
        self.has_class = "{class}" in rules.files
        self.class_of_nameless = 0 if tells_class(rules) else 1
        self.companions = {key: {} for key in KINDS if key in self.patterns.texts}

    def add(self, place: Place) -> None:
        """Put a file where it belongs, or note why it belongs nowhere."""
        if "case" not in place.fields:
            self.add_shared_companion(place)
            return
        name = place.fields["case"]
        case = self.cases.get(name)
        if case is None:
            self.unknown_cases.setdefault(name, []).append(place)
            return
        self.touched.add(name)
        group = place.fields.get("group", case.group)
        if group != case.group:
            self.wrong_groups.setdefault((name, group), []).append(place)
        elif place.key in KINDS:
            other = self.companions[place.key].setdefault(name, place.name)
            self.check_twice(place, other, f"{KINDS[place.key]}s")
        elif (class_id := self.class_id(place)) > 0 or not self.has_class:
            what = f"files of class {quote(self.challenge.class_names[class_id - 1])}" if self.has_class else "files"
            other = self.files.setdefault(name, {}).setdefault(class_id, place.name)
            self.check_twice(place, other, what)
        else:
            where = f"case {quote(name)}, {quote(place.name, 120)}"
            suggest = len(self.faults) < EXAMPLES_SHOWN
            self.faults.append(unknown_class(self.challenge, where, place.fields["class"], suggest=suggest))

    def class_id(self, place: Place) -> int:
        return self.class_ids.get(place.fields["class"].casefold(), 0) if self.has_class else self.class_of_nameless

    def add_shared_companion(self, place: Place) -> None:
        """Put a file that goes with the files of all cases, or of those of a group."""
        for name, case in self.cases.items():
            if place.fields.get("group", case.group) == case.group:
                self.companions[place.key].setdefault(name, place.name)

    def check_twice(self, place: Place, other: str, what: str) -> None:
        if other == place.name:
            return
        fault = (TwiceForCaseAndClass if self.has_class else TwiceForCase)(what, other)
        self.faults.append(fault.at(f"case {quote(place.fields['case'])}, {quote(place.name, 120)}"))

    def case_files(self) -> dict[str, tuple[CaseFile, ...]]:
        """The usable files by case, in the order of cases.csv and of the classes."""
        return {
            name: tuple(
                CaseFile(file, class_id, **{f"{key}_name": by_case[name] for key, by_case in self.companions.items()})
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
                right = fill_pattern(self.challenge.submission.files, self.challenge, case)
                yield missing_case(self.challenge, case, "no file", quote(right, 120))
        if self.has_class:
            yield from missing_class_files(self.challenge, self.files)

    def unknown_case_findings(self) -> Iterator[Finding]:
        known = list(self.cases)
        for index, (name, places) in enumerate(sorted(self.unknown_cases.items())):
            suggestion = ""
            if index < EXAMPLES_SHOWN:
                suggestion = self.swapped(places[0]) or did_you_mean(name, known)
            where = [quote(place.name, 120) for place in places[:EXAMPLES_SHOWN]]
            yield UnknownCase(name, known, suggestion).at(*where, count=len(places))

    def swapped(self, place: Place) -> str:
        """What to do if the names of case, group and class are all right but each in the wrong place, else ""."""
        keys = list(place.fields)
        for values in permutations(place.fields.values()):
            fields = dict(zip(keys, values, strict=True))
            case = self.cases.get(fields["case"])
            class_id = self.class_ids.get(fields.get("class", self.challenge.class_names[0]).casefold(), 0)
            if case is not None and fields.get("group", case.group) == case.group and class_id > 0:
                class_name = self.challenge.class_names[class_id - 1]
                right = fill_pattern(self.patterns.texts[place.key], self.challenge, case, class_name)
                return f"The names are in the wrong order: put this file at {quote(right, 120)}."
        return ""

    def wrong_group_findings(self) -> Iterator[Finding]:
        for (name, group), places in sorted(self.wrong_groups.items()):
            case = self.cases[name]
            right = fill_pattern(self.patterns.texts[places[0].key], self.challenge, case)
            where = [f"case {quote(name)}, {quote(place.name, 120)}" for place in places[:EXAMPLES_SHOWN]]
            yield WrongGroup(group, case.group, right).at(*where, count=len(places))

    def incomplete_case_findings(self) -> Iterator[Finding]:
        for key, by_case in self.companions.items():
            pattern = self.patterns.texts[key]
            for name, case in self.cases.items():
                has_file, has_companion = bool(self.files.get(name)), name in by_case
                if has_file == has_companion or (has_companion and "{case}" not in pattern):
                    continue
                there, absent = ("label image", KINDS[key]) if has_file else (KINDS[key], "label image")
                right = fill_pattern(pattern if has_file else self.patterns.texts["files"], self.challenge, case)
                yield IncompleteCase(there, absent, right).at(f"case {quote(name)}")
