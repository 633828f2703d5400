"""An index of stored results: what is ranked, so that an unchanged submission and its result need not be read again.

A line of ``results/.index.jsonl`` is what one submission came to, for a challenge and columns, with a stamp of its
files and those of its result: their names, sizes, inodes and times. Lines are only ever added, under a lock, so two
calls at once do no harm; the last one of a team counts. Without the index, or with other stamps, the files are read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from evaluation.challenge import LimitRules
from evaluation.execution.storage import is_address, look, told_faults
from evaluation.findings.errors import EvaluationError
from evaluation.leaderboard.team_scores import TeamScores
from evaluation.model import Float64
from evaluation.results.files import alone_in

INDEX_FILE = ".index.jsonl"
INDEX_BYTES = 2_000_000_000
SETTLED_SECONDS = 2  # a file that changed later may change again without another time


class Index:
    """The index in a folder of results, for the challenge and columns with a key."""

    def __init__(self, folder: Path, of: str) -> None:
        self.path, self.of = folder / INDEX_FILE, of
        self.entries: dict[str, dict[str, Any]] = {}
        try:
            if self.path.stat().st_size <= INDEX_BYTES:
                with self.path.open("rb") as stream:
                    for line in stream:
                        self.read(line)
        except OSError:
            return

    def read(self, line: bytes) -> None:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:  # a call was killed here
            return
        if isinstance(entry, dict) and entry.get("of") == self.of:
            self.entries[str(entry.get("team"))] = entry

    def find(self, team: str, stamp: str) -> dict[str, Any] | None:
        """What is known of a team, if nothing has changed."""
        entry = self.entries.get(team)
        return entry if stamp and entry and entry.get("stamp") == stamp else None

    def add(self, team: str, stamp: str, content: dict[str, Any]) -> None:
        if not stamp:
            return
        line = orjson.dumps({"team": team, "of": self.of, "stamp": stamp, **content}) + b"\n"
        with alone_in(self.path.parent), self.path.open("ab") as stream:
            stream.write(line)


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
    """Changes with every file of a submission; "" if that cannot be told without reading them."""
    if is_address(submission):
        with suppress(EvaluationError), told_faults(str(submission)):  # fetching tells what is wrong
            return look(str(submission), limits).key or ""
        return ""
    return digest_of(states(Path(submission), time.time_ns() - SETTLED_SECONDS * 1_000_000_000))


def with_result(stamp: str, result: Path) -> str:
    """Changes with the stamp of a submission and every file of its result; "" if one of them cannot be told."""
    of_result = digest_of(states(result, None))
    return digest_of([stamp, of_result]) if stamp and of_result else ""


def digest_of(told: list[str] | None) -> str:
    return "" if told is None else hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()


def states(path: Path, settled_before: int | None) -> list[str] | None:
    """Every file below a folder, or a file, with its size, inode and times; None for links and what just changed."""
    found: list[str] = []
    waiting = [str(path)]
    while waiting:
        place = waiting.pop()
        try:
            state = os.lstat(place)
            if stat.S_ISDIR(state.st_mode):
                waiting += [entry.path for entry in os.scandir(place)]
                continue
        except OSError:
            return None
        is_settled = settled_before is None or max(state.st_ctime_ns, state.st_mtime_ns) <= settled_before
        if not stat.S_ISREG(state.st_mode) or not is_settled:
            return None
        found.append(repr((place, state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)))
    return sorted(found)
