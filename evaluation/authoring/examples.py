"""A small valid file in every format: what the kit shows participants, and what the fuzzers start from."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.challenge import Challenge, FormatRules
from evaluation.formats import format_of
from evaluation.formats.example import Example, filled
from evaluation.model import Case


def example_files(challenge: Challenge, rules: FormatRules, cases: Sequence[Case]) -> dict[str, bytes]:
    """Valid files for all cases, by relative name, as the rules of a side ask for them."""
    format, made = format_of(rules.format), Example(rules, challenge.class_names)
    files: dict[str, bytes] = {}

    def groups(pattern: str) -> list[tuple[Case | None, Sequence[Case]]]:
        """The cases of each file of a pattern, first the one that gives the file its name."""
        return [(case, [case]) for case in cases] if "{case}" in pattern else [(None, cases)]

    for case, of_file in groups(rules.files):
        for class_name in made.names if "{class}" in rules.files else (None,):
            files[filled(rules.files, case, class_name)] = format.example(made, of_file, class_name)
    for key in rules.companions:
        if (pattern := rules.value(key)) is not None and format.companion is not None:
            files |= {filled(pattern, case): format.companion(made, key, of_file) for case, of_file in groups(pattern)}
    return files
