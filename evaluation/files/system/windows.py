"""Windows: signals of a console, no limits of processes, no copies of a process, paths of 260 characters."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluation.files.system.memory import UNLIMITED, MemoryLeft

STOPPING = tuple(known for known in signal.Signals if known.name in ("SIGINT", "SIGTERM", "SIGBREAK"))
_MOST_PROCESSES = 60  # Windows waits for 63 handles at once, at most


@contextmanager
def held_signals(numbers: Iterable[int]) -> Iterator[set[int]]:
    """Delay signals until the block ends; yields nothing that ``restore_signals`` needs."""
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():  # signals come to no other
        before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def restore_signals(delayed: set[int]) -> None:
    """Do nothing: signals are delayed by their handlers, which a new process does not have."""


def signal_again(number: int, handler: Callable[[int, object], object]) -> None:
    """Call the handler of a signal once more, a moment later."""
    signal.signal(number, handler)
    threading.Timer(0.01, signal.raise_signal, [number]).start()


def too_low_limit() -> str:
    """Return "": there are no limits of processes."""
    return ""


class _MemoryStatus(ctypes.Structure):
    _fields_ = (
        ("length", ctypes.c_uint32), ("load_percent", ctypes.c_uint32),
        ("physical", ctypes.c_uint64), ("available", ctypes.c_uint64),
        ("page_file", ctypes.c_uint64), ("page_file_available", ctypes.c_uint64),
        ("virtual", ctypes.c_uint64), ("virtual_available", ctypes.c_uint64), ("extended", ctypes.c_uint64),
    )  # fmt: skip


def missing_here() -> list[str]:
    """Return the confinements of decoders, all missing here: files are decoded in the process itself."""
    return ["processes", "Landlock", "seccomp"]


def memory_left() -> MemoryLeft:
    """Return the memory that is free."""
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    libraries = getattr(ctypes, "windll", None)
    is_known = libraries is not None and libraries.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return MemoryLeft(status.available if is_known else UNLIMITED)


def memory_limit() -> int | None:
    """Return None: there are no control groups."""
    return None


def process_limit() -> int | None:
    """Return None: there are no control groups."""
    return None


def usable_processors() -> int:
    """Return the processors of the machine, up to the number of processes that can be waited for."""
    return min(os.cpu_count() or 1, _MOST_PROCESSES)


def can_fork() -> bool:
    """Return False: processes are not copied."""
    return False


def fork() -> int:
    """Raise OSError: see ``can_fork``."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def end_with_parent(parent: int) -> None:
    """Do nothing: the pipe to its parent ends this process."""


def be_killed_first() -> None:
    """Do nothing: no process is killed where memory runs out."""


def lock_handle(folder: Path) -> int:
    """Open the lock of a folder for one writing program: a file of its name in the folder for temporary files, since a
    folder cannot be opened.
    """
    digest = hashlib.sha256(os.path.normcase(long_path(folder.resolve())).encode("utf-8", "surrogatepass")).hexdigest()
    return os.open(Path(tempfile.gettempdir()) / f"evaluation-{digest[:32]}.lock", os.O_RDWR | os.O_CREAT)


def long_path(path: Path) -> Path:
    """Return a path that may be longer than 260 characters."""
    return Path(_without_limit(str(path.absolute())))


def _without_limit(path: str) -> str:
    r"""Return an absolute path in the form that has no limit of 260 characters.

    >>> print(_without_limit(r"C:\data\P1"), _without_limit(r"\\server\data"), _without_limit(r"\\?\C:\data"))
    \\?\C:\data\P1 \\?\UNC\server\data \\?\C:\data
    """
    if path.startswith("\\\\?\\"):
        return path
    if path.startswith("\\\\"):
        return f"\\\\?\\UNC{path[1:]}"
    return f"\\\\?\\{path}" if path[1:3] == ":\\" else path
