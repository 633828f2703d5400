"""What a process that decodes untrusted files takes away from itself before it sees the first of them.

Everywhere: written bytes, open files, core dumps, standard streams. Where the kernel has it (Linux 5.13): Landlock, so
that no file can be opened but Python's own modules, and (6.7) no TCP port. Where user namespaces are permitted: a
network without interfaces. What a system does not offer is left out: the files that headers name are refused anyway.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

OPEN_FILES = 64
MOST_WRITTEN = 1 << 31  # bytes, for each file in the scratch folder
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # on every architecture
GET_VERSION, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, REMOVE_FILE, MAKE_FILE, TRUNCATE = (
    1 << bit for bit in (0, 1, 2, 3, 5, 8, 14)
)
SCRATCH = WRITE_FILE | READ_FILE | REMOVE_FILE | MAKE_FILE | TRUNCATE  # but not to list what is there
FILE_RIGHTS_OF_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_RIGHTS = 3  # bind and connect, from version 4
SCOPES = 3  # abstract sockets and signals of others, from version 6
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/dev/urandom")


class RulesetRights(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class RightsBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def detach(kept: int) -> None:
    """Let go of what was inherited from the parent: files, signals and session. This process was just forked, with one
    thread; whoever kills the parent with all of its group lets this process clean up.

    kept   the only descriptor that stays open, besides the standard streams, which lead nowhere
    """
    faulthandler.disable()  # it would write to a descriptor that is closed here
    gc.freeze()
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGPROF, signal.SIGVTALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends, and this process with it
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def confine(scratch: Path | None) -> None:
    """Take away all that can be taken away from this process.

    scratch   where files can be written, for libraries that read nothing else; None: nowhere
    """
    tempfile.tempdir = str(scratch)
    for kind, most in (
        (resource.RLIMIT_FSIZE, MOST_WRITTEN if scratch else 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        limit(kind, most)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)
    restrict_files(libc, scratch)


def restrict_files(libc: ctypes.CDLL, scratch: Path | None) -> bool:
    """Landlock: nothing can be read but Python's modules and shared libraries. False where the kernel has none."""
    call = libc.syscall
    version = call(LANDLOCK_CREATE, None, ctypes.c_size_t(0), GET_VERSION)
    if version < 1:
        return False
    of_version = max(known for known in FILE_RIGHTS_OF_VERSION if known <= version)
    rights = RulesetRights(FILE_RIGHTS_OF_VERSION[of_version], TCP_RIGHTS, SCOPES)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = call(LANDLOCK_CREATE, ctypes.byref(rights), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    for path in (*readable_paths(), *filter(None, [scratch])):
        with suppress(OSError):
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = EXECUTE | READ_FILE | (READ_FOLDER if path.is_dir() else 0)
            if path == scratch:
                allowed = SCRATCH & rights.files
            rule = RightsBeneath(allowed, folder)
            call(LANDLOCK_ADD, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
            os.close(folder)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    restricted = bool(call(LANDLOCK_RESTRICT, ruleset, 0) == 0)
    os.close(ruleset)
    return restricted


def readable_paths() -> list[Path]:
    """Where modules are imported from late; of the folder of this program only the program, not what lies beside it."""
    installed = [Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix}]
    imported = [Path(entry).resolve() for entry in sys.path if entry]
    of_python = [path for path in imported if any(path.is_relative_to(prefix / "lib") for prefix in installed)]
    packages = [path for path in imported if path.name in ("site-packages", "dist-packages")]
    return [Path(__file__).resolve().parents[1], *of_python, *packages, *map(Path, LIBRARIES)]


def end_with_parent() -> None:
    """The kernel ends this process when the thread that forked it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def address_space() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()


def limit_next(address_bytes: int, seconds: int) -> None:
    """Bounds for what comes now: the address space of this process, and how much more processor time it may use."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    for kind, most in ((resource.RLIMIT_AS, address_bytes), (resource.RLIMIT_CPU, spent + seconds)):
        limit(kind, most, keep_hard=True)


def limit(kind: int, most: int, *, keep_hard: bool = False) -> None:
    """Set a limit of this process, or leave that which it was given if it is lower: none can be raised again.

    keep_hard   the limit can be changed later
    """
    hard = resource.getrlimit(kind)[1]
    lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (lowest, hard if keep_hard else lowest))
