"""Linux: copies of this process, and free memory, processes and processors under the limits of the machine, control
groups (1 and 2) and this process.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evaluation.files.system.memory import UNLIMITED, MemoryLeft
from evaluation.files.system.posix import bytes_left  # fmt: skip


def can_fork() -> bool:
    """Return whether a copy of this process works as this process does: its locks are open if it has one thread."""
    return threading.active_count() == 1


def fork() -> int:
    """Return the id of a copy of this process; 0 in the copy. Raises OSError."""
    return os.fork()


def missing_here() -> list[str]:
    """Return which confinements of decoders the kernel lacks."""
    from evaluation.files.system import confinement  # late: few commands ask

    return confinement.missing_here()


def memory_left(root: Path = Path("/")) -> MemoryLeft:
    """Return the free memory: the least by machine, control groups (versions 1 and 2) and limits of this process.

    root   where proc and sys are
    """
    own = _sizes_by_name(root / "proc/self/status")
    used = {resource.RLIMIT_DATA: own.get("VmData:", 0), resource.RLIMIT_AS: own.get("VmSize:", 0)}
    each = bytes_left({kind: 1024 * kibibytes for kind, kibibytes in used.items()})
    machine = _sizes_by_name(root / "proc/meminfo").get("MemAvailable:")
    together = [*_left_in_groups(root), *([] if machine is None else [1024 * machine])]
    return MemoryLeft(max(min(together, default=UNLIMITED), 0), max(min(each, default=UNLIMITED), 0))


@dataclass(frozen=True, slots=True)
class _GroupFiles:
    """Mount point and file names of a version of control groups."""

    mounts: tuple[str, ...]
    limit: str
    used: str
    cached: tuple[str, str]


GROUPS_1 = _GroupFiles(
    ("sys/fs/cgroup/memory",),
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
)
GROUPS_2 = _GroupFiles(
    ("sys/fs/cgroup", "sys/fs/cgroup/unified"), "memory.max", "memory.current", ("active_file", "inactive_file")
)


def _left_in_groups(root: Path) -> list[int]:
    """Free memory in each control group of this process with a limit: the limit minus used memory without cache."""
    bytes_free = []
    for line in _small_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        kind = GROUPS_1 if controllers else GROUPS_2
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # a group outside of what this process can see
            parts = []
        for mount in kind.mounts:
            for depth in range(len(parts) + 1):  # a parent's limit holds as well
                folder = root.joinpath(mount, *parts[:depth])
                limit, used = (_small_text(folder / name).strip() for name in (kind.limit, kind.used))
                if limit.isdecimal() and used.isdecimal():
                    cached = _sizes_by_name(folder / "memory.stat")
                    bytes_free.append(int(limit) - int(used) + sum(cached.get(name, 0) for name in kind.cached))
    return bytes_free


def _small_text(path: Path) -> str:
    """The text of a small file; empty if it is not there."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _sizes_by_name(path: Path) -> dict[str, int]:
    """The lines ``name number …`` of a file."""
    words = (line.split() for line in _small_text(path).splitlines())
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdecimal()}


def memory_limit(root: Path = Path("/")) -> int | None:
    """The bytes that the control groups of this process allow; None: as many as the machine has."""
    return _smallest_limit(root, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory.max"))


def process_limit(root: Path = Path("/")) -> int | None:
    """The processes and threads that the control groups of this process allow together; None without a known limit."""
    return _smallest_limit(root, ("sys/fs/cgroup/pids/pids.max", "sys/fs/cgroup/pids.max"))


def usable_processors(root: Path = Path("/")) -> int:
    """Processors this process may use: its affinity, and the limits of its container as it sees them."""
    processors = len(os.sched_getaffinity(0))
    times = _small_text(root / "sys/fs/cgroup/cpu.max").split()
    times = times or [
        _small_text(root / f"sys/fs/cgroup/cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")
    ]
    quota, period = (int(time) if time.isdecimal() else 0 for time in [*times, "", ""][:2])  # "max" and -1: no limit
    return min(processors, -(-quota // period)) if quota and period else processors


def _smallest_limit(root: Path, names: tuple[str, ...]) -> int | None:
    """The smallest limit in the files of a container; None without a limit."""
    limits = [int(text) for name in names if (text := _small_text(root / name).strip()).isdecimal()]
    return min((limit for limit in limits if limit < 1 << 60), default=None)  # version 1 has a huge number for none


# --- the end of this process ------------------------------------------------------------------------------------------


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
        Path("/proc/self/oom_score_adj").write_bytes(b"1000")
