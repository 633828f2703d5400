"""One file for each case, or for each case and class, which its path names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from evaluation.challenge import Challenge
from evaluation.findings import EXAMPLES_SHOWN, Finding, did_you_mean, fault, quote
from evaluation.submission.completeness import (
    missing_case,
    missing_class_files,
    no_case_found,
    unknown_class,
    unused_files,
)
from evaluation.submission.found import CaseFile, Layout
from evaluation.submission.patterns import ParsedName, Patterns, fill_pattern, find_wrapper

PLATFORM_LISTS = ("predictions.json", "inputs.json")


def find_by_pattern(names: Sequence[str], challenge: Challenge) -> Layout:
    """Assign files to cases by the patterns of the challenge; ``names`` are sorted."""
    patterns = Patterns(challenge)
    wrapper = find_wrapper(names, patterns.fits)
    found = [find_place(name, wrapper, patterns) for name in names]
    assignment = Assignment(challenge, patterns)
    for parsed in found:
        if parsed is not None:
            assignment.add(parsed)
    if not any(found):
        return Layout({}, frozenset(case.name for case in challenge.cases), (no_case_found(names, challenge),))
    unused = [name for name, parsed in zip(names, found, strict=True) if parsed is None]
    files = assignment.case_files()
    return Layout(
        files=files,
        missing=frozenset(case.name for case in challenge.cases if case.name not in files),
        findings=tuple(sorted([*assignment.findings(), *unused_files(unused, challenge)])),
    )


def find_place(name: str, wrapper: str, patterns: Patterns) -> ParsedName | None:
    """The case, group and class of a file by its path; None if no pattern fits, and for lists of the platform."""
    parsed = patterns.read(name, name[len(wrapper) :]) if name.startswith(wrapper) else None
    is_list = name.removeprefix(wrapper) in PLATFORM_LISTS
    return None if parsed is None or (is_list and not patterns.is_known(parsed)) else parsed


@dataclass
class Assignment:
    """Files by case and class, and what is wrong with others.

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
    unknown_cases: dict[str, list[ParsedName]] = field(default_factory=dict)
    wrong_groups: dict[tuple[str, str], list[ParsedName]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.challenge.submission
        self.cases = {case.name: case for case in self.challenge.cases}
        self.class_ids = self.challenge.class_ids()
        self.kinds = rules.companions
        self.has_class = "{class}" in rules.files
        self.class_of_nameless = 0 if rules.tells_class else 1
        self.companions = {key: {} for key in rules.companions if key in self.patterns.texts}

    def add(self, parsed: ParsedName) -> None:
        """Assign a file to its case, or keep a finding on why it has none."""
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
            self.faults.append(unknown_class(self.challenge, where, parsed.fields["class"], suggest=suggest))

    def class_id(self, parsed: ParsedName) -> int:
        return self.class_ids.get(parsed.fields["class"].casefold(), 0) if self.has_class else self.class_of_nameless

    def check_twice(self, parsed: ParsedName, other: str, what: str) -> None:
        if other == parsed.name:
            return
        self.faults.append(
            fault(
                "duplicate-file",
                f"case {quote(parsed.fields['case'])}, {quote(parsed.name, 120)}",
                wording="twice-for-case-and-class" if self.has_class else "twice-for-case",
                what=what,
                other=other,
            )
        )

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
                right = fill_pattern(self.challenge.submission.files, self.challenge, case)
                yield missing_case(self.challenge, case, "no file", quote(right, 120))
        if self.has_class:
            yield from missing_class_files(self.challenge, self.files)

    def unknown_case_findings(self) -> Iterator[Finding]:
        known = list(self.cases)
        lacking = [name for name in known if name not in self.touched]
        for index, (name, found_names) in enumerate(sorted(self.unknown_cases.items())):
            suggestion = ""
            if index < EXAMPLES_SHOWN:
                suggestion = self.swapped(found_names[0]) or did_you_mean(name, lacking)
            where = [quote(parsed.name, 120) for parsed in found_names[:EXAMPLES_SHOWN]]
            yield fault(
                "unknown-case", *where, total=len(found_names), name=name, known=known, suggestion=suggestion, what=""
            )

    def swapped(self, parsed: ParsedName) -> str:
        """What to do if the names of case, group and class are known but swapped in the path, else ""."""
        keys = list(parsed.fields)
        for values in permutations(parsed.fields.values()):
            fields = dict(zip(keys, values, strict=True))
            case = self.cases.get(fields["case"])
            class_id = self.class_ids.get(fields.get("class", self.challenge.class_names[0]).casefold(), 0)
            if case is not None and fields.get("group", case.group) == case.group and class_id > 0:
                class_name = self.challenge.class_names[class_id - 1]
                right = fill_pattern(self.patterns.texts[parsed.key], self.challenge, case, class_name)
                return f"The names are in the wrong order: put this file at {quote(right, 120)}."
        return ""

    def wrong_group_findings(self) -> Iterator[Finding]:
        for (name, group), found_names in sorted(self.wrong_groups.items()):
            case = self.cases[name]
            right = fill_pattern(self.patterns.texts[found_names[0].key], self.challenge, case)
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
                right = fill_pattern(pattern if has_file else self.patterns.texts["files"], self.challenge, case)
                yield fault("incomplete-case", f"case {quote(name)}", present=there, absent=absent, right=right)
