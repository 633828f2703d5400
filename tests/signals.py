"""Sends a signal to the program in each phase, and tells how it ended. On this machine and inside the image.

    python signals.py CHALLENGE SUBMISSION SCRATCH      prints a line of JSON for each ``Run`` of ``chosen()``

Imports nothing but what Python brings and the program.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HELD = Path(__file__).with_name("held.py")
LEFT_SECONDS = 60.0
PIPES = "pipes that a process holds open"  # who reads the output of the program would wait
SECONDS = 600.0  # for what never ends; no run is decided by a busy machine
SIGNALS = ("TERM", "INT", "KILL")
IN_MAIN = ("imports", "unpacking", "opened", "summary", "writing")
IN_WORKER = ("start", "decoding", "answering", "scoring")


@dataclass(frozen=True)
class Run:
    """A signal that is sent to one process while the program is held in a phase.

    to  ``watcher``, the process that was started; ``main``, its child, which does the work; the ``worker`` that is held
    """

    signal: str
    to: str
    phase: str
    workers: str = "2"  # asked for; empty: chosen

    @property
    def name(self) -> str:
        return f"{self.signal} to the {self.to}, {self.phase}{'' if self.workers else ', workers chosen'}"


@dataclass(frozen=True)
class End:
    """``code`` None: it did not end. ``left``: processes that are still there long after it, and ``PIPES``."""

    code: int | None
    last: str
    files: list[str]
    left: list[str] = field(default_factory=list)


RUNS = (
    *(Run(name, to, phase) for phase in IN_MAIN for name in SIGNALS for to in ("watcher", "main")),
    *(Run(name, to, phase) for phase in IN_WORKER for name in SIGNALS for to in ("watcher", "main", "worker")),
    *(Run(name, "worker", phase, "") for phase in ("decoding", "scoring") for name in ("TERM", "KILL")),
)


def chosen() -> list[Run]:
    """Fewer than half of them, for the image: each signal in each phase, sent to the processes in turn."""
    of_signal: dict[tuple[str, str], list[Run]] = {}
    for run in RUNS:
        of_signal.setdefault((run.phase, run.signal), []).append(run)
    return [runs[place % len(runs)] for place, runs in enumerate(of_signal.values())]


def ended(run: Run, challenge: Path, submission: Path, scratch: Path) -> End:
    """Start the program, wait until it is held, send the signal, and wait for the end."""
    output, mark = scratch / "output", scratch / "mark"
    for path in (*output.glob("*"), *scratch.glob("mark*")):
        path.unlink(missing_ok=True)
    output.mkdir(exist_ok=True)
    paths = ["--challenge", challenge, "--submission", submission, "--output", output, "--quiet"]
    asked = ["--workers", run.workers] if run.workers else []
    command = [sys.executable, HELD, run.phase, mark, "score", *paths, *asked]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*map(str, command)], text=True, start_new_session=True, **pipes) as process:
        try:
            held = wait_for(mark, process)
            target = {"watcher": process.pid, "main": main_of(held, process.pid), "worker": held}[run.to]
            os.kill(target, getattr(signal, f"SIG{run.signal}"))
            if (run.signal, run.to) == ("INT", "worker"):
                mark.unlink()  # nothing happens: a terminal sends it to all of its processes, and the main one decides
            code: int | None = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        left = left_of(process.pid, str(mark))
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        lines, are_open = read_to_the_end(process)
    names = sorted(path.name for path in output.iterdir())
    return End(code, lines[-1] if lines else "", names, left + [PIPES] * are_open)


def read_to_the_end(process: subprocess.Popen[str]) -> tuple[list[str], bool]:
    """The lines on stderr, and whether somebody holds the pipes open although the program has ended."""
    try:
        return [line for line in process.communicate(timeout=LEFT_SECONDS)[1].splitlines() if line.strip()], False
    except subprocess.TimeoutExpired:
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        return [], True


def wait_for(mark: Path, process: subprocess.Popen[Any]) -> int:
    """The id of the process that is held."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        if mark.exists() and (text := mark.read_text()).endswith("\n"):
            return int(text)
        time.sleep(0.01)
    raise RuntimeError("the program was never held")


def main_of(held: int, watcher: int) -> int:
    """The child of the watcher: the process that is held, or its parent."""
    return held if fields_of(held)[1] == str(watcher) else int(fields_of(held)[1])


def fields_of(pid: int) -> list[str]:
    """State, parent, group, session, … of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def left_of(leader: int, word: str) -> list[str]:
    """The processes of a program, after those that have just been killed had a moment."""
    until = time.monotonic() + LEFT_SECONDS
    while (left := list(processes_of(leader, word))) and time.monotonic() < until:
        time.sleep(0.02)
    return left


def processes_of(leader: int, word: str) -> Iterator[str]:
    """Those of a session, and those with a word in their command: what decodes has a session of its own."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile
            fields = fields_of(int(path.name))
            is_ours = fields[3] == str(leader) or word.encode() in (path / "cmdline").read_bytes()
            if is_ours and fields[0] != "Z":
                yield path.name


def main() -> None:
    challenge, submission, scratch = map(Path, sys.argv[1:])

    def of(run: Run) -> End:
        place = scratch / run.name.replace(" ", "_")
        place.mkdir()
        return ended(run, challenge, submission, place)

    runs = chosen()
    with ThreadPoolExecutor(2) as executor:
        for run, end in zip(runs, executor.map(of, runs), strict=True):
            print(json.dumps({"name": run.name, **asdict(end)}), flush=True)


if __name__ == "__main__":
    main()
