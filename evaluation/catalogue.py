"""Every code a finding can have, explained: ``evaluation explain CODE`` prints these pages.

An example is the line as it is printed. Codes are stable: they are never renamed, only retired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Explanation:
    """A page of the catalogue: what a code means, why it matters, what to do, and how the line looks."""

    title: str
    why: str
    fix: str
    example: str
    severity: Literal["error", "warning"] = "error"


CATALOGUE: dict[str, Explanation] = {
    # --- challenge.toml and cases.csv -----------------------------------------------------------------------------
    "missing-file": Explanation(
        title="A file that is needed is not there",
        why="The challenge is defined by challenge.toml, cases.csv and one reference per case; without one of them "
        "nothing can be scored.",
        fix="Put the file where the line says, or correct the pattern in challenge.toml.",
        example="[missing-file] 'challenge.toml': no such file; expected the file that defines the challenge. "
        "Run 'evaluation init --preset NAME DIR' to make one.",
    ),
    "invalid-toml": Explanation(
        title="challenge.toml is not TOML",
        why="The file cannot be parsed, so no rule is known.",
        fix="Correct the line that is named; strings need quotes, lists need brackets.",
        example="[invalid-toml] 'challenge.toml': Invalid value (at line 4, column 11); expected TOML 1.0.",
    ),
    "unknown-preset": Explanation(
        title="The preset does not exist",
        why="A preset is a published challenge kept as a file of this program.",
        fix="Choose one of 'evaluation presets'.",
        example="[unknown-preset] challenge.toml: preset: 'monusac'; expected 'monusac2020'. "
        "Did you mean 'monusac2020'?",
    ),
    "unknown-key": Explanation(
        title="challenge.toml has a key that is not a rule",
        why="A misspelt rule that is silently ignored would change the scores.",
        fix="Correct or remove the key.",
        example="[unknown-key] challenge.toml: reference.overlaps: a key that is not known; expected one of "
        "'format', 'files', 'overlap'. Did you mean 'overlap'?",
    ),
    "missing-rule": Explanation(
        title="challenge.toml leaves a rule open",
        why="Nothing that changes a number has a silent default: another reader must be able to compute the same.",
        fix="Write the rule, or start from a preset that has it.",
        example="[missing-rule] challenge.toml: reference.overlap: missing; expected a value, since every rule that "
        "can change a score must be written. Add the key, or start from a preset.",
    ),
    "invalid-rule": Explanation(
        title="A rule in challenge.toml has a value that is not allowed",
        why="Each rule has a fixed set of values or a range.",
        fix="Use one of the values that the line lists.",
        example="[invalid-rule] challenge.toml: reference.overlap: 'paint'; expected 'keep', 'last', 'first', "
        "'smallest', 'class_order' or 'ignore'.",
    ),
    "contradictory-rules": Explanation(
        title="Two rules of challenge.toml contradict each other",
        why="One of them would have to be ignored silently.",
        fix="Change or remove one of the two keys that are named.",
        example="[contradictory-rules] challenge.toml: reference.ignore.fraction: 0.5 with policy 'clip'; expected a "
        "fraction only with the policy 'drop_overlapping'.",
    ),
    "invalid-cases": Explanation(
        title="cases.csv cannot be used",
        why="cases.csv is the list of what is scored: every row needs a name and a size, every name only once.",
        fix="Correct the row that is named.",
        example="[invalid-cases] cases.csv, line 3: height '0'; expected a whole number of pixels, at least 1.",
    ),
}
