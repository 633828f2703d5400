"""Signals, limits and locks that Linux and macOS share."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# With less of these, in bytes, OpenBLAS does not come to an end while it is imported, or ends with 1.
_LEAST = (
    ("address space (ulimit -v)", resource.RLIMIT_AS, 300_000_000),
    ("data (ulimit -d)", resource.RLIMIT_DATA, 70_000_000),
)


@contextmanager
def held_signals(numbers: Iterable[int]) -> Iterator[set[int]]:
    """Delay signals until the block ends; yields the signals that were delayed before (``restore_signals``)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield before
    finally:
        restore_signals(before)


def restore_signals(delayed: set[int]) -> None:
    """Delay only these signals of this thread."""
    signal.pthread_sigmask(signal.SIG_SETMASK, delayed)


def signal_again(number: int, handler: Callable[[int, object], object]) -> None:
    """Call the handler of a signal once more, a moment later."""
    signal.signal(signal.SIGALRM, lambda *_: handler(number, None))
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def too_low_limit() -> str:
    """Return a limit of this process under which the program cannot run, in words; "" if all suffice."""
    for what, kind, least in _LEAST:
        if 0 <= (limit := resource.getrlimit(kind)[0]) < least:  # -1: no limit
            return f"needs {least / 1e6:.0f} MB of {what}, and may take {limit / 1e6:.0f} MB"
    return ""


def bytes_left(used: dict[int, int]) -> list[int]:
    """Return the bytes that the limits of this process leave.

    used   bytes that count for a limit, by RLIMIT_DATA and RLIMIT_AS; if known
    """
    limits = ((resource.getrlimit(kind)[0], kind) for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS))
    return [limit - used.get(kind, 0) for limit, kind in limits if limit != resource.RLIM_INFINITY]


def lock_handle(folder: Path) -> int:
    """Open the lock of a folder for one writing program: the folder itself."""
    return os.open(folder, os.O_RDONLY)


def long_path(path: Path) -> Path:
    """Return a path that may have any length."""
    return path
