"""Tasks that end their worker the way an out-of-memory killer does. A module, so that workers can import them."""

from __future__ import annotations

import os
from pathlib import Path


def kill_worker(*arguments: object) -> None:
    os.kill(os.getpid(), 9)  # SIGKILL, which Windows has no name for


def kill_in_a_crowd(folder: str, number: int) -> int:
    """Its number, if this is the only worker; the third task kills its worker the first time it is run."""
    mark = Path(folder).with_name(Path(folder).name + " killed")
    if number == 2 and not mark.exists():
        mark.touch()
        kill_worker()
    return number


def take_all_memory(*arguments: object) -> None:
    """As much memory as a process can have, and more."""
    taken = []
    while True:
        taken.append(bytearray(1 << 27))
