"""References that this process has prepared already: of many submissions only the first two read them.

A reference is kept when it is met for the second time, so scoring one submission costs and holds nothing more. It is
used again under the same rules only, as long as its files have the same names, sizes, inodes and times.
"""

from __future__ import annotations

import os
import pickle
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.instances.prepare import PreparedReference
from evaluation.model import Case
from evaluation.scoring.read import read_reference, reference_files
from evaluation.submission import CaseFile

KEPT_BYTES = 32_000_000  # in each process
MET_UP_TO = 100_000  # cases
SETTLED_SECONDS = 2  # a file that changed later may change again without another time
NO_RULES_OF_REFERENCES = {"cases", "submission", "metrics", "aggregation", "ranking", "audit", "publish", "confidence"}

Key = tuple[str, str, str, tuple[tuple[object, ...], ...]]


class KeptReferences:
    """Prepared references, pickled; None for one that was met once."""

    def __init__(self) -> None:
        self.found: dict[Key, bytes | None] = {}
        self.size = 0

    def read(self, challenge: Challenge, folder: Path, case: Case, rules: str) -> PreparedReference:
        """As ``read_reference`` does, from files of the case alone. ``rules``: ``rules_of_references``."""
        states = states_of(folder, reference_files(challenge, folder, case))
        if states is None:
            return read_reference(challenge, folder, case)
        key = rules, str(folder), repr(case), states
        if (content := self.found.get(key)) is not None:
            kept: PreparedReference = pickle.loads(content)
            return kept
        prepared = read_reference(challenge, folder, case)
        self.add(key, pickle.dumps(prepared, pickle.HIGHEST_PROTOCOL) if key in self.found else None)
        return prepared

    def add(self, key: Key, content: bytes | None) -> None:
        size = len(content or b"")
        if self.size + size > KEPT_BYTES or len(self.found) >= MET_UP_TO:  # those of other rules go
            self.found = {other: of for other, of in self.found.items() if other[:2] == key[:2]}
            self.size = sum(len(of or b"") for of in self.found.values())
        if self.size + size <= KEPT_BYTES and len(self.found) < MET_UP_TO:
            self.found[key] = content
            self.size += size


kept_references = KeptReferences()


def rules_of_references(challenge: Challenge) -> str:
    """All rules that a prepared reference may depend on."""
    return challenge.model_dump_json(exclude=NO_RULES_OF_REFERENCES)


def states_of(folder: Path, files: Sequence[CaseFile]) -> tuple[tuple[object, ...], ...] | None:
    """What changes with every file of a reference; None if something may change without it."""
    settled_before = time.time_ns() - SETTLED_SECONDS * 1_000_000_000
    states: list[tuple[object, ...]] = []
    for file in files:
        for name in (file.name, *file.companions.values()):
            try:
                state = os.lstat(folder / name)
            except OSError:
                return None
            is_settled = max(state.st_mtime_ns, state.st_ctime_ns) <= settled_before
            if not stat.S_ISREG(state.st_mode) or not is_settled:
                return None
            states.append((name, file.class_id, state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns))
    return tuple(states)
