"""What a process asks of the kernel about its own end. Imports nothing but what Python brings."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1  # prctl of Linux


def end_with_parent(parent: int) -> None:
    """The kernel kills this process when the thread that started it has ended; ``parent`` is the id of its process."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)


def be_killed_first() -> None:
    """Let the kernel end this process where memory runs out, not its parent, which reports it."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
