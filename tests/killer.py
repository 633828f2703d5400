"""Tasks that end their worker the way an out-of-memory killer does, and stand-ins for ``_score_team`` that do.

A module, so that workers can import them.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from evaluation.board.teams import _score_team


def kill_worker(*arguments: object, **options: object) -> None:
    os.kill(os.getpid(), 9)  # SIGKILL, which Windows has no name for


def kill_in_a_crowd(folder: str, number: int) -> int:
    """Its number, if this is the only worker; the third task kills its worker the first time it is run."""
    mark = Path(folder).with_name(Path(folder).name + " killed")
    if number == 2 and not mark.exists():
        mark.touch()
        kill_worker()
    return number


def wait_for_ever(mark: Path) -> None:
    """Leave the id of this process in a file."""
    mark.with_suffix(".new").write_text(str(os.getpid()))
    mark.with_suffix(".new").rename(mark)
    while True:
        time.sleep(1)


def take_all_memory(*arguments: object, **options: object) -> None:
    """As much memory as a process can have, and more."""
    taken = []
    while True:
        taken.append(bytearray(1 << 27))


def score_after_a_loss(*task: Any) -> Any:
    """A submission, scored; the first task of all kills its worker, once. The mark lies where the environment says."""
    with suppress(FileExistsError):
        Path(os.environ["KILLER_MARK"]).touch(exist_ok=False)  # by one of two workers that begin together
        kill_worker()
    return _score_team(*task)


def score_but_the_poisoned(*task: Any) -> Any:
    """A submission, scored; 'poison' kills every worker."""
    if task[-1].name == "poison":
        kill_worker()
    return _score_team(*task)
