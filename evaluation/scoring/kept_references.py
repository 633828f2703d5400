"""References that this process has prepared and keeps: of many submissions only the first two read them.

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
MET_ONCE_BYTES = 320  # what the key of a reference that was met once counts
SETTLED_SECONDS = 2  # a file that changed later may change again without another time
NO_RULES_OF_REFERENCES = {"cases", "submission", "metrics", "aggregation", "ranking", "audit", "publish", "confidence"}

Key = tuple[str, ...]  # rules, folder, case, state of its files


class KeptReferences:
    """Prepared references, pickled; ``b""`` for one that was met once."""

    def __init__(self) -> None:
        self.pickled: dict[Key, bytes] = {}
        self.size = 0

    def read(self, challenge: Challenge, folder: Path, case: Case, rules: str) -> PreparedReference:
        """The same as ``read_reference`` from the files of the case. ``rules``: ``rules_of_references``."""
        key = rules, str(folder), repr(case), file_states(folder, reference_files(challenge, folder, case))
        if content := self.pickled.get(key):
            reference: PreparedReference = pickle.loads(content)
            return reference
        reference = read_reference(challenge, folder, case)
        if key[-1]:
            self.add(key, pickle.dumps(reference, pickle.HIGHEST_PROTOCOL) if key in self.pickled else b"")
        return reference

    def add(self, key: Key, content: bytes) -> None:
        """Keep a reference if there is room; where there is none, those of other rules go first."""
        size = len(content) or MET_ONCE_BYTES
        if self.size + size > KEPT_BYTES:
            self.pickled = {other: pickled for other, pickled in self.pickled.items() if other[:2] == key[:2]}
            self.size = sum(len(pickled) or MET_ONCE_BYTES for pickled in self.pickled.values())
        if self.size + size <= KEPT_BYTES:
            self.pickled[key] = content
            self.size += size


kept_references = KeptReferences()


def rules_of_references(challenge: Challenge) -> str:
    """All rules that a prepared reference may depend on."""
    return challenge.model_dump_json(exclude=NO_RULES_OF_REFERENCES)


def file_states(folder: Path, files: Sequence[CaseFile]) -> str:
    """A text that changes with every file of a reference; "" if a file may change and the text would not."""
    states = []
    for file in files:
        for name in file.names:
            try:
                state = os.lstat(folder / name)
            except OSError:
                return ""
            changed_ns = max(state.st_mtime_ns, state.st_ctime_ns)
            if not stat.S_ISREG(state.st_mode) or changed_ns > time.time_ns() - SETTLED_SECONDS * 1_000_000_000:
                return ""
            states.append((name, file.class_id, state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns))
    return repr(states)
