"""An index of stored results, so that an unchanged submission and its result need not be read again.

A line of ``.index.jsonl`` has the outcome of one submission for a challenge and columns, with a stamp of its files and
those of its result: on this machine their names, sizes, inodes and times, at an address what the storage says. Lines
are only ever added, under a lock, so two calls at once do no harm; the last one of a team counts. Without the index, or
with other stamps, the files are read.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from evaluation.challenge import LimitRules
from evaluation.execution.storage import is_address, look, told_faults
from evaluation.execution.stored_output import INDEX_FILE, LocalOutput, StoredOutput, state_of
from evaluation.findings.errors import EvaluationError
from evaluation.leaderboard.team_scores import TeamScores
from evaluation.model import Float64
from evaluation.results.files import alone_in

INDEX_BYTES = 2_000_000_000
SETTLED_SECONDS = 2  # a file that changed later may change again without another time


class Index:
    """The index in a folder ``below`` an output, for the challenge and columns with a key."""

    def __init__(self, output: LocalOutput | StoredOutput, below: str, of: str) -> None:
        self.output, self.below, self.of = output, below, of
        self.path = output.folder / below / INDEX_FILE
        self.entries: dict[str, tuple[str, bytes]] = {}  # stamp and content, which is parsed if it is asked for
        try:
            if self.path.stat().st_size <= INDEX_BYTES:
                with self.path.open("rb") as stream:
                    for line in stream:
                        self.read(line)
        except OSError:
            return

    def read(self, line: bytes) -> None:
        head, _, content = line.partition(b"\t")
        with suppress(orjson.JSONDecodeError, ValueError):  # a call was killed here, or another version wrote it
            of, team, stamp = orjson.loads(head)
            if of == self.of and content.endswith(b"\n"):
                self.entries[team] = stamp, content

    def find(self, team: str, stamp: str) -> dict[str, Any] | None:
        """What is known of a team whose submission has this stamp, if nothing has changed."""
        known, content = self.entries.get(team, ("", b""))
        if not known or known != self.with_result(team, stamp):
            return None
        entry: dict[str, Any] = orjson.loads(content)
        return entry

    def add(self, team: str, stamp: str, content: dict[str, Any]) -> None:
        """Keep the outcome of a team; nothing if its files have no stamp."""
        stamp = self.with_result(team, stamp)
        if not stamp:
            return
        line = orjson.dumps([self.of, team, stamp]) + b"\t" + orjson.dumps(content) + b"\n"
        with alone_in(self.path.parent), self.path.open("ab") as stream:
            stream.write(line)

    def with_result(self, team: str, stamp: str) -> str:
        """Changes with the stamp of a submission and every file of its result; "" if one of them has none."""
        of_result = self.output.state(f"{self.below}/{team}")
        return digest_of([stamp, of_result]) if stamp and of_result else ""


def scores_entry(scores: TeamScores) -> dict[str, Any]:
    units = None if scores.by_unit is None else listing(scores.by_unit)
    parts = {"overall": listing(scores.overall), "by_unit": units, "floors": listing(scores.floors)}
    return {**parts, "version": scores.version}


def scores_of(team: str, entry: dict[str, Any]) -> TeamScores:
    overall, floors = (np.array(entry[part], np.float64) for part in ("overall", "floors"))
    units = None if entry["by_unit"] is None else np.array(entry["by_unit"], np.float64).reshape(len(overall), -1)
    return TeamScores(team, overall, units, entry["version"], floors)


def listing(values: Float64) -> list[Any]:
    """Numbers as nested lists, None for NaN."""
    return np.where(np.isnan(values), None, values).tolist()  # type: ignore[call-overload, no-any-return]


def stamp_of(submission: Path | str, limits: LimitRules) -> str:
    """Changes with every file of a submission; "" if that is not known without reading them."""
    if is_address(submission):
        with suppress(EvaluationError), told_faults(str(submission)):  # fetching tells what is wrong
            return look(str(submission), limits).key or ""
        return ""
    return state_of(Path(submission), time.time_ns() - SETTLED_SECONDS * 1_000_000_000)


def digest_of(texts: Sequence[str]) -> str:
    return hashlib.sha256(repr(texts).encode("utf-8", "surrogatepass")).hexdigest()
