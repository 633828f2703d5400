"""macOS, and other systems of the Unix kind without Linux's calls."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from evaluation.files.system.memory import UNLIMITED, MemoryLeft
from evaluation.files.system.posix import bytes_left  # fmt: skip


def missing_here() -> list[str]:
    """Return the confinements of decoders, all missing here: files are decoded in the process itself."""
    return ["processes", "Landlock", "seccomp"]


def memory_left() -> MemoryLeft:
    """Return half of the memory of the machine, because free memory is hard to measure."""
    together = UNLIMITED
    with suppress(OSError, ValueError):
        together = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return MemoryLeft(together, max(min(bytes_left({}), default=UNLIMITED), 0))


def memory_limit() -> int | None:
    """Return no limit: there are no control groups."""
    return None


def process_limit() -> int | None:
    """Return no limit: there are no control groups."""
    return None


def usable_processors() -> int:
    """Return the processors of the machine."""
    return os.cpu_count() or 1


def can_fork() -> bool:
    """Return False: libraries of macOS do not survive a fork."""
    return False


def fork() -> int:
    """Raise OSError: see ``can_fork``."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def end_with_parent(parent: int) -> None:
    """End this process if its parent, a process of this id, has ended already; its pipe ends it later."""
    if os.getppid() != parent:
        os._exit(1)


def be_killed_first() -> None:
    """Do nothing: where memory runs out the system asks the user."""
