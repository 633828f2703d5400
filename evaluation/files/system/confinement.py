"""Rights that a process gives up before it decodes untrusted files.

Everywhere: written bytes, open files, processes, core dumps, standard streams. Where the kernel has it (Linux 5.13):
Landlock blocks opening files, except Python's modules, and (6.7) TCP ports. Seccomp blocks sockets, processes, signals
to other processes, changes of names, rights and attributes of files, and calls that few programs need. If user
namespaces are permitted, the process has a network without interfaces. ``missing_here`` reports missing features of the
system: the files that headers name are refused anyway.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import gc
import os
import resource
import signal
import struct
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

OPEN_FILES = 192  # with those of a request (guard.MOST_FILES)
THREADS = 16  # beyond those that the user has; libraries of imports need some
MOST_WRITTEN = 1 << 31  # bytes, for each file in the scratch folder
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
CLONE_NEWUSER, CLONE_NEWNET, CLONE_THREAD = 0x10000000, 0x40000000, 0x10000
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

# Calls that are refused, with their numbers on x86_64 and aarch64 (-: it has none).
REFUSED = """
socket 41 198  connect 42 203  bind 49 200  listen 50 201  accept 43 202  accept4 288 242
fork 57 -  vfork 58 -  execve 59 221  execveat 322 281  setns 308 268  unshare 272 97  setsid 112 157
ptrace 101 117  process_vm_readv 310 270  process_vm_writev 311 271  kcmp 312 272
pidfd_open 434 434  pidfd_getfd 438 438  pidfd_send_signal 424 424  process_madvise 440 440
rt_sigqueueinfo 129 138  rt_tgsigqueueinfo 297 240
setpriority 141 140  ioprio_set 251 30  sched_setscheduler 144 119  sched_setparam 142 118  sched_setattr 314 274
chmod 90 -  fchmod 91 52  fchmodat 268 53  fchmodat2 452 452  chown 92 -  fchown 93 55  lchown 94 -  fchownat 260 54
utime 132 -  utimes 235 -  futimesat 261 -  utimensat 280 88  truncate 76 45
setxattr 188 5  lsetxattr 189 6  fsetxattr 190 7  setxattrat 463 463
removexattr 197 14  lremovexattr 198 15  fremovexattr 199 16  removexattrat 466 466
link 86 -  linkat 265 37  symlink 88 -  symlinkat 266 36  rename 82 -  renameat 264 38  renameat2 316 276
mknod 133 -  mknodat 259 33  mkdir 83 -  mkdirat 258 34  rmdir 84 -
mount 165 40  umount2 166 39  chroot 161 51  pivot_root 155 41  open_tree 428 428  move_mount 429 429  fsopen 430 430
name_to_handle_at 303 264  open_by_handle_at 304 265  fanotify_init 300 262  inotify_init 253 -  inotify_init1 294 26
io_uring_setup 425 425  bpf 321 280  perf_event_open 298 241  userfaultfd 323 282
keyctl 250 219  add_key 248 217  request_key 249 218
shmget 29 194  semget 64 190  msgget 68 186  mq_open 240 180  mq_unlink 241 181
shmat 30 196  shmctl 31 195  semop 65 193  semtimedop 220 192  semctl 66 191  msgsnd 69 189  msgrcv 70 188
msgctl 71 187
"""
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as seccomp tells them
CLONE, CLONE3, PRLIMIT, SIGNALS = (56, 220), 435, (302, 261), ((62, 200, 234), (129, 130, 131))
# What sends signals to others by way of a file: F_SETOWN, F_SETSIG and F_SETOWN_EX of fcntl, FIOSETOWN and SIOCSPGRP of
# ioctl; and the processors of others (0: of itself).
FCNTL, IOCTL, AFFINITY = ((72, 25), (8, 10, 15)), ((16, 29), (0x8901, 0x8902)), (203, 122)
SOCKETPAIR, NOT_STREAM = (53, 199), 0xE  # a datagram could be sent to the socket of somebody else
X32_CALLS = 0x40000000  # another set of numbers on x86_64
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of the packet filter of BSD
NUMBER, ARCHITECTURE, ARGUMENT, SECOND = 0, 4, 16, 24  # where a filter finds them; of arguments the lower half
ALLOWED, FAILING = 0x7FFF0000, 0x00050000


def detach(open_descriptor: int) -> None:
    """Drop inherited file descriptors, signal handlers and session in a new child process with one thread. The new
    session lets this process clean up if the group of the parent is killed.

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
    os.closerange(3, open_descriptor)
    os.closerange(open_descriptor + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(b"1000")


def confine(scratch: Path | None, tasks: int) -> None:
    """Confine this process as far as the kernel can.

    scratch   where files can be written, for libraries that read nothing else; None: nowhere
    tasks     processes and threads that its user has already
    """
    tempfile.tempdir = str(scratch)
    for kind, most in (
        (resource.RLIMIT_FSIZE, MOST_WRITTEN if scratch else 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, tasks + THREADS),
    ):
        limit(kind, most)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)
    _restrict_files(libc, scratch)
    _restrict_calls(libc)


def tasks_of_user() -> int:
    """Count the processes and threads of the user of this process, if visible."""
    count = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            count += sum(1 for _ in (path / "task").iterdir()) if path.stat().st_uid == os.getuid() else 0
    return count


def missing_here() -> list[str]:
    """Return the missing confinements of the kernel."""
    libc = ctypes.CDLL(None, use_errno=True)
    has_files = libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), GET_VERSION) >= 1
    libc.prctl(PR_SET_SECCOMP, 2, None, 0, 0)  # fails: there is no filter at address 0
    has_calls = ctypes.get_errno() == errno.EFAULT and os.uname().machine in ARCHITECTURES
    return [name for name, has in (("Landlock", has_files), ("seccomp", has_calls)) if not has]


def _restrict_files(libc: ctypes.CDLL, scratch: Path | None) -> bool:
    """Landlock: only Python's modules and shared libraries are readable. False if the kernel lacks it."""
    call = libc.syscall
    version = call(LANDLOCK_CREATE, None, ctypes.c_size_t(0), GET_VERSION)
    if version < 1:
        return False
    of_version = max(known for known in FILE_RIGHTS_OF_VERSION if known <= version)
    file_rights = FILE_RIGHTS_OF_VERSION[of_version]
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rights = struct.pack("=QQQ", file_rights, TCP_RIGHTS, SCOPES)
    ruleset = call(LANDLOCK_CREATE, rights, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    for path in (*_readable_paths(), *filter(None, [scratch])):
        with suppress(OSError):
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = EXECUTE | READ_FILE | (READ_FOLDER if path.is_dir() else 0)
            if path == scratch:
                allowed = SCRATCH & file_rights
            call(LANDLOCK_ADD, ruleset, PATH_BENEATH, struct.pack("=Qi", allowed, folder), 0)
            os.close(folder)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    restricted = bool(call(LANDLOCK_RESTRICT, ruleset, 0) == 0)
    os.close(ruleset)
    return restricted


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def _restrict_calls(libc: ctypes.CDLL) -> bool:
    """seccomp: calls of the kernel that no decoder needs fail. False if there is no such filter."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return False
    program = _filter_of_calls(list(ARCHITECTURES).index(machine), ARCHITECTURES[machine], os.getpid())
    instructions = (_Instruction * len(program))(*(_Instruction(*step) for step in program))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(_Filter(len(program), instructions)), 0, 0) == 0)


def _filter_of_calls(column: int, architecture: int, process: int) -> list[tuple[int, int, int, int]]:
    """Return the filter: ``REFUSED`` and unknown call tables fail, new tasks are threads, signals go to this process.

    column   of ``REFUSED``, and of the other tuples of numbers
    """
    allowed, refused = (RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, FAILING | errno.EPERM)
    unknown = (RETURN, 0, 0, FAILING | errno.ENOSYS)  # the C library then calls clone, whose flags can be looked at

    def only(code: int, value: int) -> list[tuple[int, int, int, int]]:
        return [(LOAD, 0, 0, ARGUMENT), (code, 1, 0, value), refused, allowed]

    words = REFUSED.split()
    ends = {int(number): [refused] for number in words[1 + column :: 3] if number != "-"} | {CLONE3: [unknown]}
    ends |= {number: only(EQUAL, process) for number in SIGNALS[column]}
    ends |= {CLONE[column]: only(ANY_BIT, CLONE_THREAD), PRLIMIT[column]: only(EQUAL, 0)}
    ends |= {AFFINITY[column]: only(EQUAL, 0)}
    for numbers, owners in (FCNTL, IOCTL):
        checked = [step for owner in owners for step in ((EQUAL, 0, 1, owner), refused)]
        ends |= {numbers[column]: [(LOAD, 0, 0, SECOND), *checked, allowed]}
    ends |= {SOCKETPAIR[column]: [(LOAD, 0, 0, SECOND), (ANY_BIT, 0, 1, NOT_STREAM), refused, allowed]}
    head = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, architecture), refused, (LOAD, 0, 0, NUMBER)]
    head += [(AT_LEAST, 0, 1, X32_CALLS), refused]
    checks = [step for number, end in ends.items() for step in ((EQUAL, 0, len(end), number), *end)]
    return [*head, *checks, allowed]


def _readable_paths() -> list[Path]:
    """Return the folders of late imports; from the folder of this program only the program itself."""
    installed = [Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix}]
    imported = [Path(entry).resolve() for entry in sys.path if entry]
    of_python = [path for path in imported if any(path.is_relative_to(prefix / "lib") for prefix in installed)]
    packages = [path for path in imported if path.name in ("site-packages", "dist-packages")]
    specs = filter(None, map(find_spec, ("evaluation", "nuclei_metrics")))
    own = [Path(spec.origin).resolve().parent for spec in specs if spec.origin]
    return [*own, *of_python, *packages, *map(Path, LIBRARIES)]


def end_with_parent() -> None:
    """Let the kernel end this process when the thread that forked it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def address_space() -> int:
    """Return the bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()


def limit_next(address_bytes: int, seconds: int) -> None:
    """Limit the address space of this process, and its further processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    for kind, most in ((resource.RLIMIT_AS, address_bytes), (resource.RLIMIT_CPU, spent + seconds)):
        limit(kind, most, keep_hard=True)


def limit(kind: int, most: int, *, keep_hard: bool = False) -> None:
    """Lower a resource limit of this process; never raise it.

    keep_hard   the limit can be changed later
    """
    hard = resource.getrlimit(kind)[1]
    lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (lowest, hard if keep_hard else lowest))
