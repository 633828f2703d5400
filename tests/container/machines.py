"""What the image says on a machine with a fault: a table for docs/security.md, a row for each fault."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from container.engine import GROUND_TRUTH, MEMORY, SUBMISSION, TMP, Ended, Engine
from container.here import scored_here
from evaluation.folders.demo import DemoPaths

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
SHELL = "/opt/venv/bin/python -m evaluation score; code=$?; ls -A /output; exit $code"
MEMORIES = (64 << 20, 256 << 20)
PIDS = (1, 3, 4)
FUTURE = 4_000_000_000  # seconds since 1970


@dataclass(frozen=True)
class Row:
    """A fault, and how the evaluation ends. ``files``: those that are in /output then."""

    fault: str
    code: int | None
    last: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"| {self.fault} | {self.code} | {self.last} |"


def row(fault: str, ended: Ended) -> Row:
    return Row(fault, ended.code, ended.last, tuple(sorted(ended.files)))


def table(rows: list[Row]) -> str:
    return "\n".join(["| fault | exit code | last line |", "| --- | --- | --- |", *map(str, rows)])


def rows_of(engine: Engine, demo: DemoPaths, scratch: Path) -> Iterator[Row]:
    """Each fault, with the demo's challenge and a submission to it."""
    submission, challenge = demo.submissions["finder"], demo.challenge
    yield from disks(engine, submission, challenge)
    ended = engine.score(submission, challenge, options=())
    yield row("no `/tmp`", ended)
    for memory in MEMORIES:
        ended = engine.score(submission, challenge, memory=memory, data=MEMORY)
        yield row(f"{memory >> 20:,} MiB of memory", ended)
    for pids in PIDS:
        yield row(
            f"no more than {pids} {'process' if pids == 1 else 'processes and threads'}",
            engine.score(submission, challenge, pids=pids),
        )
    for fault, folder in ground_truths(challenge, scratch):
        yield row(fault, engine.score(submission, folder))
    later = shutil.copytree(submission, scratch / "later")
    for path in later.rglob("*"):
        os.utime(path, (FUTURE, FUTURE))
    yield row("clock set back: files of the year 2096", engine.score(later, challenge))
    yield two_at_once(engine, demo, scratch)


def disks(engine: Engine, submission: Path, challenge: Path) -> Iterator[Row]:
    texts = scored_here(challenge, submission).texts(public=True)
    pages = {name: -(-len(text.encode()) // 4096) * 4 for name, text in texts.items()}
    full = {"`/output` is full from the start": 4, "`/output` is full before the last file": sum(pages.values()) - 4}
    mounts = {SUBMISSION: submission, GROUND_TRUTH: challenge}
    for fault, size in full.items():
        options = (*TMP, "--tmpfs", f"/output:rw,mode=1777,size={size}k")
        ended = engine.run(
            ["-c", SHELL], entrypoint="/bin/sh", mounts=mounts, links={"input": SUBMISSION}, options=options
        )
        yield Row(fault, ended.code, ended.last, tuple(ended.out.split()))
    ended = engine.run(["-c", SHELL], entrypoint="/bin/sh", mounts=mounts, links={"input": SUBMISSION},
                       options=(*TMP, "--tmpfs", "/output:ro,mode=1777"))  # fmt: skip
    yield Row("`/output` is read-only", ended.code, ended.last, tuple(ended.out.split()))


def ground_truths(challenge: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    place = scratch / "ground_truths"
    broken = shutil.copytree(challenge, place / "broken")
    (broken / "challenge.toml").write_text("name = ")
    yield "ground truth: `challenge.toml` is broken", broken
    half = shutil.copytree(challenge, place / "half")
    shutil.rmtree(half / "reference")
    yield "ground truth: no reference", half
    shutil.copytree(challenge, place / "nested" / "ground_truth")
    yield "ground truth: one folder too deep", place / "nested"
    (place / "empty").mkdir()
    yield "ground truth: the folder is empty", place / "empty"


def two_at_once(engine: Engine, demo: DemoPaths, scratch: Path) -> Row:
    """Two runs with one /output: what is there afterwards is all of one of them."""
    output = scratch / "shared"
    output.mkdir()
    output.chmod(0o777)

    def run(name: str) -> Ended:
        mounts = {SUBMISSION: demo.submissions[name], GROUND_TRUTH: demo.challenge}
        return engine.run(mounts=mounts, output=output, links={"input": SUBMISSION})

    names = ("finder", "outliner")
    with ThreadPoolExecutor(2) as executor:
        ends = list(executor.map(run, names))
    found = {path.name: path.read_bytes().decode() for path in output.iterdir()}
    wanted = [scored_here(demo.challenge, demo.submissions[name]).texts(public=True) for name in names]
    worst = max(ends, key=lambda end: (end.code is None, end.code))
    said = worst.last if found in wanted else "files of both"
    return Row("two runs with one `/output`", worst.code, said, tuple(sorted(found)))
