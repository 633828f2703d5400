"""A small valid file in every format: what the kit shows participants, and what the fuzzers start from."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.challenge import Challenge, FormatRules
from evaluation.challenge.base import filled
from evaluation.formats import format_of
from evaluation.formats.format import Example
from evaluation.model import Case


def example_files(challenge: Challenge, rules: FormatRules, cases: Sequence[Case]) -> dict[str, bytes]:
    """Valid files for all cases, by relative name, as the rules of a side ask for them."""
    format, made = format_of(rules.format), Example(rules, challenge.class_names)
    files: dict[str, bytes] = {}
    for file_cases in files_of(rules.files, cases):
        for class_name in made.names if "{class}" in rules.files else ("",):
            name = filled(rules.files.replace("*", "1"), file_cases[0], class_name)
            files[name] = format.example(made, file_cases, class_name or None)
    for key in rules.companions:
        if (pattern := rules.value(key)) is not None and format.companion is not None:
            for file_cases in files_of(pattern, cases):
                files[filled(pattern, file_cases[0])] = format.companion(made, key, file_cases)
    return files


def files_of(pattern: str, cases: Sequence[Case]) -> list[Sequence[Case]]:
    """The cases of each file of a pattern."""
    return [[case] for case in cases] if "{case}" in pattern else [cases]
