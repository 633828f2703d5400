"""The program, held in a phase: a function of the phase tells where it is, once, and waits.

    python held.py PHASE MARK score …          or leaderboard …, for ``noting``

PHASE   one of ``PHASES``, or ``imports``
MARK    a file that gets the id of the process that is held; where it is removed the process goes on

Nothing of the program knows of it: the function is replaced before the command runs, and workers are copies.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import reduce
from importlib import import_module
from importlib.abc import MetaPathFinder
from itertools import count
from pathlib import Path
from typing import Any

from evaluation.scoring import workers

# The function that is held, and a module that calls it under this name.
PHASES = {
    "start": ("evaluation.scoring.processes", "_work"),  # of a worker
    "opened": ("evaluation.scoring.workers", "_answers_of_workers"),  # workers are there, and nobody ends them yet
    "unpacking": ("evaluation.files.submission.files", "open_submission"),
    "decoding": ("evaluation.scoring.street", "read_prediction"),
    "answering": ("evaluation.files.decoding.guard", "receive_answer"),  # a decoder is at work
    "scoring": ("evaluation.scoring.street", "measure_cases"),
    "summary": ("evaluation.scoring.street", "summarise"),
    "writing": ("evaluation.files.results.files", "write_new"),
    "noting": ("evaluation.commands.screen", "SubmissionsProgress.note"),  # the third of many submissions is done
}


class HeldImport(MetaPathFinder):
    """Holds the import of the commands, before any of them can run."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "evaluation.commands.main":
            wait(self.mark)


def wait(mark: Path) -> None:
    """Tell who waits, and wait until the mark is removed; only once."""
    with suppress(FileExistsError):
        mark.with_suffix(".once").touch(exist_ok=False)
        mark.write_text(f"{os.getpid()}\n")
        while mark.exists():
            time.sleep(0.02)


def hold(phase: str, mark: Path) -> None:
    module_name, path = PHASES[phase]
    *owners, name = path.split(".")
    owner = reduce(getattr, owners, import_module(module_name))
    function = getattr(owner, name)
    calls = count(1)

    def held(*arguments: Any, **options: Any) -> Any:
        is_later = phase == "writing" and not arguments[0].name.startswith(".metrics.json")  # the others come first
        if not is_later and (phase != "noting" or next(calls) == 3):
            wait(mark)
        return function(*arguments, **options)

    setattr(owner, name, held)
    workers.SURELY_LONG_BYTES = 0  # so that several workers are chosen for a small set, too


def program() -> int:
    phase, mark = sys.argv[1], Path(sys.argv[2])
    if phase == "imports":
        sys.meta_path.insert(0, HeldImport(mark))
    else:
        hold(phase, mark)
    from evaluation.commands.main import run

    return run(sys.argv[3:])


if __name__ == "__main__":
    from evaluation.commands.watch import run_watched

    sys.exit(run_watched(program))
