"""Makes Python on Linux resemble that of Windows or macOS: OTHER_SYSTEM=win32 or darwin, and this folder in PYTHONPATH.

No emulation: whatever the other system lacks is removed (modules, functions, signals, the start method fork, /proc), so
that an import or a call that only Linux has fails here as it would fail there. Processes that are started inherit that.
For Windows, processes also open text files as cp1252 with CRLF, print cp1252, make no links, refuse names that Windows
refuses and paths of 260 characters, unless these begin with // (for \\\\?\\), cannot rename or remove a file that they
have open, and get "Invalid argument" for a pipe that nobody reads. Not imitated: paths with drives, names that differ
in case only, files that other programs have open.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PosixPath, PurePath, PurePosixPath
from typing import Any

GONE = {  # by module: names that the other system lacks; "modules": modules
    "win32": {
        "modules": "fcntl resource termios pwd grp pty tty syslog posix",
        "os": """fork forkpty getuid geteuid getgid getgroups setsid getsid setpgid getpgid getpgrp killpg nice
            wait wait3 wait4 waitid WNOHANG WTERMSIG WIFSIGNALED WIFEXITED WEXITSTATUS O_NOFOLLOW O_DIRECTORY O_PATH
            O_CLOEXEC O_NONBLOCK sysconf mkfifo mknod pread pwrite statvfs fchmod fchown chown lchown uname getloadavg
            posix_fadvise memfd_create sched_getaffinity sched_setaffinity posix_spawn eventfd pipe2 setuid setgid
            fdatasync getxattr setxattr""",
        "signal": """SIGKILL SIGHUP SIGCHLD SIGALRM SIGPIPE SIGPROF SIGVTALRM SIGUSR1 SIGUSR2 SIGQUIT SIGCONT SIGSTOP
            SIGXCPU SIGBUS setitimer alarm pthread_sigmask pthread_kill sigwait sigpending siginterrupt
            SIG_BLOCK SIG_SETMASK SIG_UNBLOCK ITIMER_REAL""",
        "socket": "send_fds recv_fds",
    },
    "darwin": {
        "modules": "",
        "os": "sched_getaffinity sched_setaffinity O_PATH memfd_create posix_fadvise pipe2 eventfd getxattr setxattr",
        "signal": "",
        "socket": "",
    },
}
NEEDED = {"WNOHANG", "O_NONBLOCK"}  # by ``subprocess`` and, from Python 3.13, ``shutil`` of Linux
CALLS_OF_LINUX = ("prctl", "syscall", "malloc_trim", "unshare")
FORBIDDEN = r'[<>:"|?*\x00-\x1f]|[. ]\Z|\A(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|\Z)'  # in names, on Windows
TAKE_PATHS = "stat lstat scandir listdir mkdir rmdir rename replace unlink remove chmod open"  # of os
MOST_CHARACTERS = 260  # of a whole path, on Windows
IN_USE = "The process cannot access the file because it is being used by another process"
# Libraries ask where they are when they are imported, and are those of Linux.
LIBRARIES = """asyncio click filelock matplotlib.backends.backend_svg multiprocessing.connection numpy orjson pydantic
    rich.console scipy.optimize tifffile uuid"""
OF_TESTS = (
    "distributed hypothesis matplotlib.pyplot pandas playwright psutil pyarrow roifile sklearn.metrics xdist zarr"
)


def imitate(system: str, *, is_test: bool = False) -> None:
    """Take away from this process, and from those that it starts, what a system lacks.

    is_test   this process runs tests, whose own files are as on Linux
    """
    import ctypes
    import multiprocessing.popen_spawn_posix
    import multiprocessing.resource_tracker
    import multiprocessing.spawn
    import platform
    import signal
    import socket
    from contextlib import suppress
    from importlib import import_module

    platform.uname()
    for name in f"{LIBRARIES} {OF_TESTS if is_test else ''}".split():
        with suppress(ImportError):
            import_module(name)
    kill = signal.SIGKILL
    multiprocessing.set_start_method("spawn", force=True)
    _hide_modules(frozenset(GONE[system]["modules"].split()))
    for module in (os, signal, socket):
        for name in GONE[system][module.__name__].split():
            if hasattr(module, name) and name not in NEEDED:
                delattr(module, name)
    # The libraries are those of Linux, and so are the ends of their pipes.
    multiprocessing.spawn.sys = _SystemOfLinux()
    multiprocessing.resource_tracker._HAVE_SIGMASK = hasattr(signal, "pthread_sigmask")
    multiprocessing.popen_spawn_posix.Popen.kill = lambda self: self._send_signal(kill)
    subprocess.Popen.kill = lambda self: self.send_signal(kill)
    _hide_calls(ctypes, has_self=system != "win32")
    _pass_on(system)
    if not is_test:
        _hide_proc()
    if system == "win32":
        signal.SIGBREAK = signal.Signals(21)
        _sort_like_windows()
        if not is_test:
            _write_like_windows()
    sys.platform = system
    if system == "win32" and not is_test:
        with suppress(ImportError):
            windows = import_module("evaluation.files.system.windows")
            windows._without_limit = lambda path: path if path.startswith("//") else f"/{path}"


class _SystemOfLinux:
    """The module ``sys`` as it was."""

    platform = "linux"

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(sys, name, value)


def _hide_modules(names: frozenset[str]) -> None:
    class Missing:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name.partition(".")[0] in names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in names:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing())


def _hide_calls(ctypes: Any, *, has_self: bool) -> None:
    load = ctypes.CDLL

    class Library:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            if not has_self and arguments[:1] == (None,):
                raise TypeError("bad argument type for built-in operation")
            self.library = load(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            if name in CALLS_OF_LINUX:
                raise AttributeError(name)
            return getattr(self.library, name)

    ctypes.CDLL = Library


def _pass_on(system: str) -> None:
    """Let every process of Python that is started imitate the system, whatever its environment."""
    start, folder = subprocess.Popen.__init__, os.fspath(Path(__file__).resolve().parent)

    def variables(known: Any) -> dict[str, str]:
        path = [entry for entry in known.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != folder]
        return {**known, "OTHER_SYSTEM": system, "PYTHONPATH": os.pathsep.join([folder, *path])}

    def start_imitating(self: Any, *arguments: Any, env: Any = None, **options: Any) -> None:
        start(self, *arguments, env=variables(os.environ if env is None else env), **options)

    subprocess.Popen.__init__ = start_imitating
    os.environ.update(variables(os.environ))


def _hide_proc() -> None:
    import builtins
    import io

    opened = builtins.open

    def open_elsewhere(file: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(file, str | os.PathLike) and os.fspath(file).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", os.fspath(file))
        return opened(file, *arguments, **options)

    builtins.open = io.open = open_elsewhere


def _sort_like_windows() -> None:
    for kind in (PurePath, PurePosixPath, PosixPath):
        kind.__lt__ = lambda one, other: str(one).casefold() < str(other).casefold()
        kind.__gt__ = lambda one, other: str(one).casefold() > str(other).casefold()


def _write_like_windows() -> None:
    import builtins
    import io
    import re
    import weakref

    opened, streams = builtins.open, dict[Any, str]()
    resolved, following = os.path.realpath, list[Any]()

    def open_there(
        file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None,
        closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        is_path, is_written = isinstance(file, str | os.PathLike), bool(set(mode) & set("wxa+"))
        if is_path:
            check_length(file)
        if is_path and is_written:
            check_name(file)
        if "b" not in mode:
            encoding = "cp1252" if encoding in (None, "locale") else encoding
            newline = "\r\n" if newline is None and is_written else newline
        stream = opened(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if is_path:
            streams[weakref.ref(stream, lambda reference: streams.pop(reference, None))] = real(file)
        return stream

    def check_name(path: Any) -> None:
        name = os.fspath(path).rpartition("/")[2] if not isinstance(path, bytes) else ""
        if re.search(FORBIDDEN, name, re.IGNORECASE):
            raise OSError(22, "Invalid argument", os.fspath(path))

    def check_closed(path: Any) -> None:
        whole = real(path)
        for reference, name in list(streams.items()):
            if name == whole and (stream := reference()) is not None and not stream.closed:
                raise PermissionError(13, IN_USE, os.fspath(path))

    def check_length(path: Any) -> None:
        whole = os.fsdecode(path)
        whole = whole if whole.startswith("/") else f"{Path.cwd()}/{whole}"
        if not following and not whole.startswith("//") and len(whole) >= MOST_CHARACTERS:
            raise FileNotFoundError(2, "The system cannot find the path specified", os.fspath(path))

    def real(path: Any, **options: Any) -> Any:
        following.append(path)
        try:
            return resolved(path, **options)
        finally:
            following.pop()

    def real_with_prefix(path: Any, **options: Any) -> Any:
        is_long, found = os.fsdecode(path).startswith("//"), real(path, **options)
        return found[:1] + found if is_long else found

    def checked(function: Callable[..., Any], *checks: Callable[[Any], None] | None) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            for check, path in zip(checks, arguments, strict=False):
                if check is not None and isinstance(path, str | os.PathLike) and options.get("dir_fd") is None:
                    check(path)
            return function(*arguments, **options)

        return call

    class Pipe(io.FileIO):
        def write(self, data: Any) -> Any:
            try:
                return super().write(data)
            except BrokenPipeError:
                raise OSError(22, "Invalid argument") from None

    def symlink(*_: Any, **__: Any) -> None:
        raise OSError(22, "A required privilege is not held by the client")

    def check_target(path: Any) -> None:
        check_name(path)
        check_closed(path)

    builtins.open = io.open = open_there
    os.rename, os.replace = (checked(function, check_closed, check_target) for function in (os.rename, os.replace))
    os.unlink, os.remove = checked(os.unlink, check_closed), checked(os.remove, check_closed)
    os.mkdir, os.link, os.symlink = checked(os.mkdir, check_name), checked(os.link, None, check_name), symlink
    for name in TAKE_PATHS.split():
        setattr(os, name, checked(getattr(os, name), check_length, check_length if name[:2] == "re" else None))
    os.path.realpath = real_with_prefix
    for number, name in ((1, "stdout"), (2, "stderr")):
        if (stream := getattr(sys, name)) is not None and not stream.isatty():
            is_said = "PYTHONIOENCODING" in os.environ
            how = (stream.encoding, stream.errors, None) if is_said else ("cp1252", stream.errors, "\r\n")
            setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(Pipe(number, "wb", closefd=False)), *how))


# Processes of tests call it themselves (conftest.py), as pytest looks at the modules that it imports.
_is_test = "pytest" in sys.orig_argv or "exec(eval(sys.stdin.readline()))" in str(sys.orig_argv)  # the latter by xdist
if (_wanted := os.environ.get("OTHER_SYSTEM")) in GONE and not _is_test:
    imitate(_wanted)
