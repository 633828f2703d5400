"""Readers that do what decoders of damaged or hostile files may do."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.guard import MESSAGE_SIZES
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from nuclei_metrics import model

poisoned: list[bool] = []
F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP = 8, 10, 15, 0x8901, 0x8902
SYSTEM_V = (
    ("shmget", 1, 1, 0), ("shmat", 0, 0, 0), ("shmctl", 0, 0, 0), ("semget", 1, 1, 0), ("semop", 0, 0, 0),
    ("semctl", 0, 0, 0), ("msgget", 1, 0), ("msgsnd", 0, 0, 0, 0), ("msgrcv", 0, 0, 0, 0, 0), ("msgctl", 0, 0, 0),
)  # fmt: skip


def content(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """The bytes of every file, and the process that read them."""
    yield tuple(np.frombuffer(stream.read(), np.uint8) for stream in streams), os.getpid()


def fault(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield 1
    raise InputFault(Finding("not-json", "'a'", "a comma", "no comma"), Finding("wrong-format", "'b'", "b", "c", "d"))


def crash(streams: Sequence[BinaryIO], signal_number: int) -> Iterator[Any]:
    os.kill(os.getpid(), signal_number)
    yield None


def read_address_0(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield ctypes.string_at(0)


def poison(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    poisoned.append(True)
    yield None


def crash_if_poisoned(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    if poisoned:
        ctypes.string_at(0)
    yield "read"


def compute_forever(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield 1
    while True:
        pass


def compute(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """Use more than a quarter of a second of processor time."""
    began = time.process_time()
    while time.process_time() - began < 0.3:
        pass
    yield None


def wait_forever(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    time.sleep(1000)
    yield None


def take_memory(streams: Sequence[BinaryIO], size: int) -> Iterator[Any]:
    yield len(np.ones(size, np.uint8))


def slowly(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """The process that yields something, two seconds before the last."""
    yield os.getpid()
    yield 2
    time.sleep(2)
    yield os.getpid()


def answer_with(streams: Sequence[BinaryIO], size: int) -> Iterator[Any]:
    yield np.zeros(size, np.uint8)


def end(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    os._exit(0)
    yield None


def compute_and_die(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield from compute(streams)
    os.kill(os.getpid(), signal.SIGSEGV)


def wrong(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield {}["a key"]


def foreign(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield Path("a")


def garbage(streams: Sequence[BinaryIO], message: bytes) -> Iterator[Any]:
    """Write something else to the parent than a reader does."""
    send(message)
    time.sleep(1000)
    yield None


def attempts(streams: Sequence[BinaryIO], path: str, address: tuple[str, int], parent: int) -> Iterator[Any]:
    """What each forbidden thing comes to."""

    def tried(what: Any) -> str:
        try:
            what()
        except OSError as error:
            return type(error).__name__
        return "done"

    def called(name: str, *arguments: int) -> str:
        libc = ctypes.CDLL(None, use_errno=True)
        failed = getattr(libc, name)(*arguments) == -1
        return "PermissionError" if failed and ctypes.get_errno() == errno.EPERM else "done"

    yield {
        "read": tried(lambda: Path(path).read_bytes()),
        "list": tried(lambda: list(Path(path).parent.iterdir())),
        "write": tried(lambda: Path(path + "2").write_bytes(b"")),
        "connect": tried(lambda: socket.create_connection(address, timeout=2)),
        "run": tried(lambda: os.execv("/bin/true", ["true"])),
        "connect to a path": tried(lambda: socket.socket(socket.AF_UNIX).connect(path + ".socket")),
        "sockets for messages": tried(lambda: socket.socketpair(type=socket.SOCK_DGRAM)),
        "fork": tried(os.fork),
        "a process": tried(lambda: os.posix_spawn("/bin/true", ["true"], {})),
        "chmod": tried(lambda: Path(path).chmod(0o777)),
        "fchmod": tried(lambda: os.fchmod(streams[0].fileno(), 0o777)),
        "chown": tried(lambda: os.fchown(streams[0].fileno(), 1, 1)),
        "times": tried(lambda: os.utime(streams[0].fileno(), (0, 0))),
        "attributes": tried(lambda: os.setxattr(streams[0].fileno(), "user.a", b"a")),
        "rename": tried(lambda: Path(path).rename(path + "3")),
        "link": tried(lambda: os.link(path, path + "4")),
        "a folder": tried(lambda: Path(path + "5").mkdir()),
        "signal to the parent": tried(lambda: os.kill(parent, signal.SIGTERM)),
        "signal to its group": tried(lambda: os.kill(0, signal.SIGTERM)),
        "limits of the parent": tried(lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, (5, 5))),
        "priority": tried(lambda: os.setpriority(os.PRIO_PROCESS, parent, 19)),
        "session": tried(os.setsid),
        "signals by way of a file": tried(lambda: fcntl.fcntl(0, F_SETOWN, parent)),
        "which signal": tried(lambda: fcntl.fcntl(0, F_SETSIG, signal.SIGKILL)),
        "signals to a thread": tried(lambda: fcntl.fcntl(0, F_SETOWN_EX, bytes(8))),
        "signals by way of a socket": tried(lambda: fcntl.ioctl(0, FIOSETOWN, struct.pack("i", parent))),
        "signals to a group": tried(lambda: fcntl.ioctl(0, SIOCSPGRP, struct.pack("i", parent))),
        "processors of the parent": tried(lambda: os.sched_setaffinity(parent, {0})),
        **{f"shared memory and queues {name}": called(name, *arguments) for name, *arguments in SYSTEM_V},
        "open many": tried(lambda: [os.dup(0) for _ in range(300)]),
    }


def import_late(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """Modules of the program that nobody has imported before."""
    for name in ("evaluation.commands.prepare", "nuclei_metrics.ranking.stability"):
        sys.modules.pop(name, None)
        yield import_module(name).__name__


def packed_answer(*answer: Any) -> bytes:
    message = msgspec.msgpack.encode([["tuple", list(answer)], []])
    return MESSAGE_SIZES.pack(len(message), 0) + message


def send(message: bytes) -> None:
    """Write to the parent, whatever the number of the connection."""
    for number in range(3, 64):
        try:
            os.write(number, message)
        except OSError:
            continue


def answer_twice(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """What comes at the end comes once more, and is there when the next file is asked for."""
    yield "read"
    send(packed_answer("end", None))


def drip(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """One byte after the other, for ever: the beginning of a long answer."""
    send(MESSAGE_SIZES.pack(1 << 20, 0))
    while True:
        send(b"a")
        time.sleep(0.05)
    yield None


def made(streams: Sequence[BinaryIO], text: str) -> Iterator[Any]:
    """A record, whether or not its class describes it."""
    yield eval(text, {**vars(model), "np": np, "Annotations": Annotations, "Finding": Finding})


def threads(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """Libraries may have threads."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(1))
    thread.start()
    thread.join()
    yield found


def write_a_file(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """A file that stays behind, as one of a decoder that died."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"left")
    yield file.name


def find_the_disk_full(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield 1
    raise OSError(errno.ENOSPC, "No space left on device", "/secret")
