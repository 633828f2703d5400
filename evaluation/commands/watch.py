"""Runs the program as a child of a small process, which prints the last line if the program is killed.

Imports little, so that signals are handled from the first moment on, and the small process stays small.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from evaluation.files.results.files import note_of_placed
from evaluation.files.system import (
    STOPPING,
    can_fork,
    end_with_parent,
    fork,
    held_signals,
    memory_limit,
    signal_again,
    too_low_limit,
)  # fmt: skip

INTERNAL = 70
ASIDE = "; this is not about the submission"


class Stopped(BaseException):
    """A signal has come: the program should end.

    came  the one that was raised: extensions in C may make another exception of it
    """

    came: Stopped | None = None

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def run_watched(program: Callable[[], int]) -> int:
    """The exit code of a program, in which signals raise ``Stopped``; 70 if it was killed, or its limits are too low.

    Elsewhere than on Linux, and if no second process is allowed, the program runs alone.
    """
    if limit := too_low_limit():
        print(f"The evaluation {limit}{ASIDE}.", file=sys.stderr)
        return INTERNAL
    signals = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]  # as nohup asks for
    watcher, child = os.getpid(), None
    try:
        with held_signals(signals):
            with suppress(OSError):  # no second process is allowed
                child = fork() if can_fork() else None
            if child:
                _handle(signals, partial(_pass_on, child))
            else:
                _handle(signals, stop)
        if child:
            return _exit_code_of(child)
        if child == 0:
            end_with_parent(watcher)
        # OpenBLAS interrupts a process that may start no threads; several workers are faster than its threads.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some takes time, and rules need none
        gc.set_threshold(100_000)  # modules make many objects, which stay: looking through them often takes long
        code = program()
    except Stopped as stopped:  # while it was imported
        code = end_early(stopped)
    except Exception:
        if Stopped.came is None:
            raise
        code = end_early(Stopped.came)
    finally:
        if not child:
            _handle(signals, signal.SIG_IGN)  # the last line is written
    if child == 0:
        atexit._run_exitfuncs()
        with suppress(OSError):  # else Python tells what it could not write
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # taking apart all modules takes long, and may crash if some are half imported
    return code


def _handle(signals: Iterable[int], handler: object) -> None:
    for number in signals:
        signal.signal(number, handler)  # type: ignore[arg-type]


def _pass_on(child: int, number: int, _: object) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(child, number)


def stop(number: int, _: object) -> None:
    """Raise ``Stopped``, once: further signals are ignored while the program ends."""
    _handle(STOPPING, signal.SIG_IGN)
    sys.unraisablehook = _stop_again
    Stopped.came = Stopped(number)
    raise Stopped.came


def _stop_again(dropped: sys.UnraisableHookArgs) -> None:
    """Raise ``Stopped`` a moment later if it came where Python drops exceptions, as in ``__del__``."""
    if isinstance(stopped := dropped.exc_value, Stopped):
        signal_again(stopped.args[0], stop)
    else:
        sys.__unraisablehook__(dropped)


def end_early(stopped: Stopped) -> int:
    """Print a last line on which files are complete. Returns the exit code."""
    note = note_of_placed() or "no results were written"
    print(f"Interrupted; {note}.", file=sys.stderr, flush=True)
    return stopped.exit_code


def _exit_code_of(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        return code
    name = signal.Signals(-code).name
    line = out_of_memory(ASIDE) if name == "SIGKILL" else f"The evaluation was ended by {name}{ASIDE}."
    note = note_of_placed().capitalize()
    print(f"{line} {note}." if note else line, file=sys.stderr, flush=True)
    return INTERNAL


def out_of_memory(aside: str) -> str:
    """Return the last line of a run without memory left: the same line, whichever process the kernel kills."""
    limit = memory_limit()
    words = "" if limit is None else f" (the limit is {limit / 1e6:,.0f} MB)"
    return f"The evaluation ran out of memory, or was stopped from outside{words}{aside}."
