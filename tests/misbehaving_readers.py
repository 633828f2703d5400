"""Readers that do what decoders of damaged or hostile files may do."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evaluation.findings import Finding
from evaluation.findings.errors import InputFault

poisoned: list[bool] = []


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


def wait_forever(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    time.sleep(1000)
    yield None


def take_memory(streams: Sequence[BinaryIO], size: int) -> Iterator[Any]:
    yield len(np.ones(size, np.uint8))


def end(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    os._exit(0)
    yield None


def wrong(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield {}["a key"]


def foreign(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield Path("a")


def garbage(streams: Sequence[BinaryIO], message: bytes) -> Iterator[Any]:
    """Write something else to the parent than a reader does."""
    for number in range(3, 64):
        try:
            os.write(number, message)
        except OSError:
            continue
    time.sleep(1000)
    yield None


def attempts(streams: Sequence[BinaryIO], path: str, address: tuple[str, int]) -> Iterator[Any]:
    """What each forbidden thing comes to."""

    def tried(what: Any) -> str:
        try:
            what()
        except OSError as error:
            return type(error).__name__
        return "done"

    yield {
        "read": tried(lambda: Path(path).read_bytes()),
        "list": tried(lambda: list(Path(path).parent.iterdir())),
        "write": tried(lambda: Path(path + "2").write_bytes(b"")),
        "connect": tried(lambda: socket.create_connection(address, timeout=2)),
        "run": tried(lambda: os.execv("/bin/true", ["true"])),
        "open many": tried(lambda: [os.dup(0) for _ in range(100)]),
    }


def write_a_file(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    """A file that stays behind, as one of a decoder that died."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"left")
    yield file.name


def find_the_disk_full(streams: Sequence[BinaryIO]) -> Iterator[Any]:
    yield 1
    raise OSError(errno.ENOSPC, "No space left on device", "/secret")
