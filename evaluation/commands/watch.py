"""Runs the program as a child of a small process, which prints the last line if the program is killed.

Imports little, so that signals are handled from the first moment on, and the small process stays small.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable

from evaluation.files.results.files import placed_files
from evaluation.scoring.limits import end_with_parent, memory_limit

INTERNAL = 70
# With less of these, in bytes, OpenBLAS does not come to an end while it is imported, or ends with 1.
LEAST = (
    ("address space (ulimit -v)", resource.RLIMIT_AS, 300_000_000),
    ("data (ulimit -d)", resource.RLIMIT_DATA, 70_000_000),
)
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal has come: the program shall end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def run_watched(program: Callable[[], int]) -> int:
    """The exit code of a program, in which signals raise ``Stopped``; 70 if it was killed, or its limits are too low.

    Elsewhere than on Linux, and where no second process is allowed, the program runs alone.
    """
    for what, kind, least in LEAST:
        if 0 <= (limit := resource.getrlimit(kind)[0]) < least:  # -1: no limit
            needed = f"The evaluation needs {least / 1e6:.0f} MB of {what}, and may take {limit / 1e6:.0f} MB"
            print(f"{needed}; this is not about the submission.", file=sys.stderr)
            return INTERNAL
    signals = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]  # as nohup asks for
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    watcher = os.getpid()
    child = fork() if sys.platform == "linux" else None
    if child:
        _handle(signals, lambda number, _: os.kill(child, number))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return _exit_code_of(child)
    if child == 0:
        end_with_parent(watcher)
    _handle(signals, stop)
    # OpenBLAS interrupts a process that may start no threads; several workers are faster than its threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some takes time, and rules need none
    gc.set_threshold(100_000)  # modules make many objects, which stay: looking through them again and again takes long
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return program()
    except Stopped as stopped:  # while it was imported
        return end_early(stopped)
    finally:
        _handle(signals, signal.SIG_IGN)  # the last line is written


def fork() -> int | None:
    try:
        return os.fork()
    except OSError:
        return None


def _handle(signals: Iterable[int], handler: object) -> None:
    for number in signals:
        signal.signal(number, handler)  # type: ignore[arg-type]


def stop(number: int, _: object) -> None:
    """Raise ``Stopped``, once: further signals are ignored while the program ends."""
    _handle(STOPPING, signal.SIG_IGN)
    sys.unraisablehook = _stop_again
    raise Stopped(number)


def _stop_again(dropped: sys.UnraisableHookArgs) -> None:
    """Raise ``Stopped`` a moment later if it came where Python drops exceptions, as in ``__del__``."""
    if isinstance(stopped := dropped.exc_value, Stopped):
        signal.signal(signal.SIGALRM, lambda *_: stop(stopped.args[0], None))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(dropped)


def end_early(stopped: Stopped) -> int:
    """Print a last line on which files are complete. Returns the exit code."""
    results, files = sum(name == "metrics.json" for name in placed_files), len(placed_files)
    note = f"results that were complete before are kept: {results}" if results else ""
    note = note or (f"files that were complete before are kept: {files}" if files else "no results were written")
    print(f"Interrupted; {note}.", file=sys.stderr, flush=True)
    return stopped.exit_code


def _exit_code_of(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    name = signal.Signals(-code).name
    line = (
        out_of_memory()
        if name == "SIGKILL"
        else f"The evaluation was ended by {name}; this is not about the submission."
    )
    print(line, file=sys.stderr, flush=True)
    return INTERNAL


def out_of_memory() -> str:
    """The last line where memory ended. Whichever process the kernel kills then, the line is the same."""
    limit = memory_limit()
    words = "" if limit is None else f" (the limit is {limit / 1e6:,.0f} MB)"
    return f"The evaluation ran out of memory, or was stopped from outside{words}; this is not about the submission."
