"""Untrusted files are decoded in a child process that can do nothing else.

A process forks a launcher before it reads secret data; the launcher forks a confined decoder for each submission
(``confinement``). A decoder serves many files in turn: it gets descriptors or bytes, never paths, and answers with
plain values (``plain_values``). Its address space and processor time are bounded per file. It decodes a file in
parallel, until the parent asks for the result.

    a fault of the file           InputFault, as if the reader ran in this process
    any other exception           InputFault (unreadable-file), with its traceback for the log
    too much memory, or time      InputFault (too-large, too-slow)
    the decoder dies (a signal)   InputFault (unreadable-file), if a new decoder dies as well
    no space for its copy         OSError, not a fault of the file; the same without a temporary folder or a process
    killed from outside           NoRoomBeside next to other work, as for more than its share of the memory
    the same, alone               again in a new decoder; InputFault (too-large) if it is killed as well

Where processes cannot be forked like this (not Linux), readers are called in this process.
"""

from __future__ import annotations

import atexit
import errno
import os
import pickle
import re
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from io import BytesIO
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.plain_values import from_plain, to_plain
from evaluation.findings import Finding, fault
from evaluation.findings.errors import EvaluationError, InputFault, NoRoomBeside, refused

IS_AVAILABLE = sys.platform == "linux"
MESSAGE_SIZES = struct.Struct("<QI")  # of a message: its bytes, and how many buffers or descriptors come with it
ORDER = struct.Struct("<qI")  # what, and the bytes of the names of modules that follow
STATUS = struct.Struct("<q")
START, START_WITH_SCRATCH, START_LAUNCHER = 0, -1, -2  # as an order; else the process that is to be ended
MOST_FILES = 128  # of one request
MOST_IDLE = 2  # decoders of a thread
LIBRARY_BYTES = 1 << 30  # of address space, for modules that are imported late
MEMORY_BYTES = 2 << 30  # for each file …
BYTES_PER_BYTE, BYTES_PER_PIXEL = 240, 32  # … and what its size and that of its image allow, …
TIMES_LIMIT = 4  # … but no more than so often limits.bytes_per_file
SECONDS, BYTES_PER_SECOND, PIXELS_PER_SECOND = 30, 1_000_000, 10_000_000
# Processor time for all files of an owner: of each image of so many px or more, and at least for all.
SECONDS_OF_IMAGE, PIXELS_OF_IMAGE, LEAST_SECONDS = 10, 1_000_000, 100
STOPPED_SECONDS = 1  # at least, for a file whose decoder had to be replaced
MESSAGE_SHARE = 16
_SENT_TOGETHER_BYTES = 1 << 22  # of arrays; each then begins at a multiple of ...
_ALIGNED = 8  # ... so many
WAITED = 4  # times the processor time: others may use the processors, too
CPU_CLOCK = 2  # of a process, in the numbers of clocks of Linux
_TRACE_CHARACTERS = 8000  # of the end of a traceback

Reader = Callable[..., Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What decoding a file may take: bytes of memory beyond the program, and seconds of processor time."""

    memory_bytes: int
    seconds: int


def bounds_of(file_bytes: int, pixels: int, bytes_limit: int) -> Bounds:
    """Return bounds that grow with the file and with its image.

    >>> bounds_of(10**6, 10**6, 2 * 10**9).seconds
    31
    """
    wanted = BYTES_PER_BYTE * file_bytes + BYTES_PER_PIXEL * pixels
    seconds = SECONDS + file_bytes // BYTES_PER_SECOND + pixels // PIXELS_PER_SECOND
    return Bounds(MEMORY_BYTES + min(wanted, TIMES_LIMIT * bytes_limit), seconds)


def seconds_of_images(pixels: Iterable[int]) -> int:
    """Return the processor time that all files of an owner may take together, by the pixels of their images.

    >>> seconds_of_images([300 * 300] * 100), seconds_of_images([5000 * 4000] * 12)
    (100, 144)
    """
    of_images = (SECONDS_OF_IMAGE * min(1.0, px / PIXELS_OF_IMAGE) + px / PIXELS_PER_SECOND for px in pixels)
    return max(LEAST_SECONDS, int(sum(of_images)))


class _Died(Exception):
    """A decoder ended by a signal before it answered."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class _OutOfBounds(Exception):
    """A file needs more memory than it may take."""


class _ReaderFailed(Exception):
    """A reader raised an exception that no reader should raise: the name of its class, and its traceback."""


# --- messages ---------------------------------------------------------------------------------------------------------


def _receive_exactly(connection: socket.socket, size: int, deadline: float | None = None) -> bytearray:
    """Receive a number of bytes before a monotonic time. Raises EOFError if the other side is gone, TimeoutError."""
    data = bytearray(size)
    fill(connection, memoryview(data), deadline)
    return data


def fill(connection: socket.socket, view: memoryview, deadline: float | None = None) -> None:
    while len(view):
        if deadline is not None:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise TimeoutError
            connection.settimeout(seconds)
        received = connection.recv_into(view)
        if not received:
            raise EOFError
        view = view[received:]


def _send_answer(connection: socket.socket, answer: Any) -> None:
    import msgspec

    buffers: list[npt.NDArray[Any]] = []
    plain = to_plain(answer, buffers)
    message = msgspec.msgpack.encode([plain, [buffer.nbytes for buffer in buffers]])
    connection.sendall(MESSAGE_SIZES.pack(len(message), len(buffers)) + message)
    parts = [buffer.reshape(-1).view(np.uint8).data for buffer in buffers if buffer.nbytes]
    if sum(map(len, parts)) <= _SENT_TOGETHER_BYTES:
        parts = [memoryview(b"".join(chain.from_iterable((part, bytes(-len(part) % _ALIGNED)) for part in parts)))]
    for part in parts:
        connection.sendall(part)


def receive_answer(connection: socket.socket, most_bytes: int, deadline: float) -> tuple[str, Any]:
    """Receive an untrusted answer of a decoder, in the form of ``_answers``.

    most_bytes  of its arrays; other values, which grow when decoded, may have ``MESSAGE_SHARE`` of it

    Raises EOFError, TimeoutError, ValueError.
    """
    import msgspec

    size, count = MESSAGE_SIZES.unpack(_receive_exactly(connection, MESSAGE_SIZES.size, deadline))
    if size > most_bytes // MESSAGE_SHARE:
        raise ValueError(f"an answer of {size:,} bytes")
    message = _receive_exactly(connection, size, deadline)
    try:
        plain, sizes = msgspec.msgpack.decode(message, type=tuple[Any, list[int]])
        if len(sizes) != count or min(sizes, default=0) < 0 or sum(sizes) > most_bytes:
            raise ValueError(f"{sum(sizes):,} bytes in an answer")
        if sum(sizes) <= _SENT_TOGETHER_BYTES:
            starts = [0, *accumulate(size + -size % _ALIGNED for size in sizes)]
            together = np.empty(starts.pop(), np.uint8)
            fill(connection, together.data, deadline)
            buffers = [together[start : start + size] for start, size in zip(starts, sizes, strict=True)]
        else:
            buffers = [np.empty(size, np.uint8) for size in sizes]
            for buffer in buffers:
                fill(connection, buffer.data, deadline)
        return _check_answer(from_plain(plain, buffers))
    except (msgspec.MsgspecError, TypeError, LookupError, OverflowError, RecursionError, AttributeError) as error:
        raise ValueError("an answer that no reader gives") from error


def _check_answer(answer: Any) -> tuple[str, Any]:
    """Check that the content of an answer fits its kind. Raises ValueError."""
    match answer:
        case ("result", _) | ("end", None) | ("memory", ()) | ("error", (str(), str())):
            return answer  # type: ignore[no-any-return]
        case ("full", errno.ENOSPC | errno.EDQUOT):
            return answer  # type: ignore[no-any-return]
        case ("fault", (_, *_) as findings) if all(isinstance(finding, Finding) for finding in findings):
            return answer  # type: ignore[no-any-return]
    raise ValueError("an answer of no known kind")


def _receive_request(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a request and its descriptors; the other side is trusted."""
    head, numbers, _, _ = socket.recv_fds(connection, MESSAGE_SIZES.size, MOST_FILES)
    if not head:
        raise EOFError
    size, _ = MESSAGE_SIZES.unpack(head + bytes(_receive_exactly(connection, MESSAGE_SIZES.size - len(head))))
    return bytes(_receive_exactly(connection, size)), numbers


# --- the child processes ----------------------------------------------------------------------------------------------


def _launch(connection: socket.socket) -> None:
    """Work as the launcher: fork decoders, and report how they ended, until the parent is gone. It sees no file."""
    from evaluation.files.system.confinement import address_space, confine, detach, end_with_parent, tasks_of_user

    room, tasks = address_space() + LIBRARY_BYTES, tasks_of_user()
    detach(connection.fileno())
    children: dict[int, Path | None] = {}
    launchers_of_workers: list[int] = []  # each ends with its worker
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        order, numbers, _, _ = socket.recv_fds(connection, ORDER.size, 1)
        if not order:
            break
        launchers_of_workers = [child for child in launchers_of_workers if not os.waitpid(child, os.WNOHANG)[0]]
        process, size = ORDER.unpack(order)
        if not numbers:
            connection.sendall(STATUS.pack(_end_child(process, children.pop(process))))
            continue
        scratch: Path | None = None
        try:
            for module in _receive_exactly(connection, size).decode().split():
                import_module(module)
            scratch = Path(tempfile.mkdtemp(prefix="evaluation-")) if process == START_WITH_SCRATCH else None
            child = os.fork()
        except (OSError, MemoryError) as error:
            if scratch:
                scratch.rmdir()
            child = -(getattr(error, "errno", None) or errno.ENOMEM)
        if not child and process == START_LAUNCHER:
            _launch(socket.socket(fileno=numbers[0]))
            return
        if not child:
            end_with_parent()
            connection.close()
            confine(scratch, tasks)
            _serve(socket.socket(fileno=numbers[0]), room)
            return
        if child > 0 and process == START_LAUNCHER:
            launchers_of_workers.append(child)
        elif child > 0:
            children[child] = scratch
        os.close(numbers[0])
        connection.sendall(STATUS.pack(child))
    for child, scratch in children.items():
        _end_child(child, scratch)
    for child in launchers_of_workers:
        os.waitpid(child, 0)


def _end_child(process: int, scratch: Path | None) -> int:
    """Terminate a decoder, delete the folder of its files, and return its status."""
    os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)
    return status


def _serve(connection: socket.socket, room: int) -> None:
    """Work as a decoder: answer requests until the parent is gone."""
    from evaluation.files.system.confinement import limit_next

    while True:
        packed, numbers = _receive_request(connection)
        function, arguments, contents, bounds = pickle.loads(packed)
        limit_next(room + bounds.memory_bytes, bounds.seconds)
        remaining = iter(numbers)
        streams = [os.fdopen(next(remaining), "rb") if content is None else BytesIO(content) for content in contents]
        for answer in _answers(function, streams, arguments):
            try:
                _send_answer(connection, answer)
            except MemoryError:
                _send_answer(connection, ("memory", ()))
                break
            except TypeError as error:  # no plain value
                _send_answer(connection, _told(error))
                break
        for stream in streams:
            stream.close()


def _answers(function: str, streams: Sequence[BinaryIO], arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a reader, and its outcome."""
    try:
        for result in find(function)(streams, *arguments):
            yield "result", result
    except InputFault as error:
        yield "fault", error.findings
    except MemoryError:
        yield "memory", ()
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        yield ("full", error.errno) if is_full else _told(error)
    except Exception as error:  # noqa: BLE001 (no list of exceptions of libraries is complete)
        yield _told(error)
    else:
        yield "end", None


def _told(error: Exception) -> tuple[str, tuple[str, str]]:
    """Return the answer about an exception that is being handled."""
    return "error", (type(error).__name__, traceback.format_exc())


def find(name: str) -> Reader:
    """Import the function that is called ``module:function``."""
    module, _, function = name.partition(":")
    reader: Reader = getattr(import_module(module), function)
    return reader


# --- the parent -------------------------------------------------------------------------------------------------------


class _Launcher:
    """The launcher of this process, and the connection to it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.modules: set[str] = set()
        self.lock = threading.Lock()
        self.connection, other = socket.socketpair()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forked with threads: it uses none of their locks
            self.child = os.fork()
        if not self.child:
            try:
                _launch(other)
            finally:  # whatever happens, it never goes on with the work of the parent
                os._exit(0)
        other.close()
        atexit.register(self.close)

    def close(self) -> None:
        """End the launcher with its decoders, so that no child process remains."""
        if self.process == os.getpid():
            self.connection.close()
            self.reap()

    def reap(self) -> None:
        with suppress(ChildProcessError):  # it is that of another process, or gone
            os.waitpid(self.child, 0)

    def start(self, *, writes: bool) -> Decoder:
        connection, other = socket.socketpair()
        with other:
            return Decoder(self, connection, self.order(START_WITH_SCRATCH if writes else START, other.fileno()))

    def order(self, process: int, *descriptors: int) -> int:
        """With a descriptor: start a decoder; without: end it, and get its status."""
        try:
            with self.lock:
                modules = " ".join(sorted(self.modules)).encode() if descriptors else b""
                socket.send_fds(self.connection, [ORDER.pack(process, len(modules)) + modules], descriptors)
                (answer,) = STATUS.unpack(_receive_exactly(self.connection, STATUS.size))
        except (EOFError, ConnectionError):
            launchers.clear()
            self.reap()
            raise MemoryError("the launcher was killed") from None
        if answer == -errno.ENOMEM:
            raise MemoryError("no decoder can be started")
        if answer < 0:
            what = "" if answer == -errno.EAGAIN else "no temporary folder can be created: "
            raise OSError(-answer, what + os.strerror(-answer))
        return int(answer)


@dataclass
class Decoder:
    """A child process that decodes.

    is_used  it has seen a file
    used     processor time until it was stopped, if known
    """

    launcher: _Launcher
    connection: socket.socket
    process: int
    is_used: bool = False
    status: int | None = field(default=None, init=False)
    used: float | None = field(default=None, init=False)

    def __del__(self) -> None:
        self.connection.close()

    def ask(self, request: bytes, descriptors: Sequence[int], bounds: Bounds) -> Iterator[Any]:
        """Yield None as soon as a request is sent, then its results.

        Raises InputFault, OutOfBounds, TimeoutError, Died, _ReaderFailed, OSError.
        """
        self.is_used = True
        seconds = float(WAITED * bounds.seconds)
        try:
            self.connection.settimeout(seconds)
            packed = MESSAGE_SIZES.pack(len(request), len(descriptors)) + request
            sent = socket.send_fds(self.connection, [packed], descriptors)
            self.connection.sendall(packed[sent:])
            yield None
            while True:
                began = time.monotonic()
                kind, content = receive_answer(self.connection, bounds.memory_bytes, began + seconds)
                seconds -= time.monotonic() - began
                if kind == "end":
                    return
                if kind != "result":
                    if kind == "full":
                        raise OSError(content, os.strerror(content))
                    raise {"fault": InputFault, "memory": _OutOfBounds}.get(kind, _ReaderFailed)(*content)
                yield content
        except (EOFError, ConnectionError):
            raise _Died(self.stop()) from None
        except ValueError:
            self.stop()
            raise _Died(0) from None

    def seconds(self) -> float | None:
        """Return the processor time that it has used, by the kernel; None if unknown any more."""
        if self.status is not None:
            return self.used
        try:
            return time.clock_gettime(~self.process << 3 | CPU_CLOCK)
        except OSError:
            return None

    @property
    def is_silent(self) -> bool:
        """Return whether the decoder is alive and has no unread output."""
        self.connection.settimeout(0)
        try:
            self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def stop(self) -> int:
        """Terminate the decoder, and return the signal that ended it, now or before."""
        if self.status is None:
            self.connection.close()
            self.used = self.seconds()  # the kernel knows it until the launcher has waited for the process
            self.status = self.launcher.order(self.process)
        return os.WTERMSIG(self.status)


class _OfThread(threading.local):
    """The idle decoders of a thread, by owner, and whether they write copies of files.

    share    maximum bytes of memory that a decoder may take for a file; None without parallel work
    seconds  processor time spent on the files of each owner
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.idle: dict[tuple[str, bool], Decoder] = {}
        self.share: int | None = None

    def take(self, owner: str, *, writes: bool) -> Decoder:
        """Take a decoder of an owner; the least recently used decoder makes room for a new one."""
        if decoder := self.idle.pop((owner, writes), None):
            if decoder.is_silent:
                return decoder
            decoder.stop()
        if len(self.idle) >= MOST_IDLE:
            self.idle.pop(next(iter(self.idle))).stop()
        return launchers[0].start(writes=writes)

    def stop_all(self) -> None:
        for decoder in self.idle.values():
            decoder.stop()
        self.idle.clear()


launchers: list[_Launcher] = []
launchers_lock = threading.Lock()
of_thread = _OfThread()


def prepare(*modules: str) -> None:
    """Fork the launcher if missing: data read later is not in the memory of any decoder.

    modules   that decoders need: imported once, here if the launcher is not yet there, otherwise by it
    """
    with launchers_lock:
        if IS_AVAILABLE and not (launchers and launchers[0].process == os.getpid()):
            for module in modules:
                import_module(module)
            launchers[:] = [_Launcher()]
            of_thread.idle.clear()
        for launcher in launchers:
            launcher.modules.update(modules)


def another_launcher() -> socket.socket | None:
    """Start a second launcher, which has read no data, for a worker process that is about to be forked."""
    prepare()
    if not launchers:
        return None
    connection, other = socket.socketpair()
    try:
        launchers[0].order(START_LAUNCHER, other.fileno())
    except BaseException:
        connection.close()
        raise
    finally:
        other.close()
    return connection


def adopt(connection: socket.socket) -> None:
    """In a worker that is a copy: use the launcher that was created for it (``another_launcher``)."""
    of_thread.idle.clear()
    launchers[0].process, launchers[0].connection = os.getpid(), connection


def decode(
    function: str,
    streams: Sequence[BinaryIO],
    arguments: tuple[Any, ...],
    *,
    where: str,
    owner: str,
    bounds: Bounds,
    writes: bool = False,
) -> Iterator[Any]:
    """Return the values of ``function(streams, *arguments)``, called in a decoder; it begins at once, and streams stay
    open.

    function   ``module:function``, which yields plain values
    where      the file, for messages
    owner      a decoder serves the files of one owner only
    writes     the reader copies files, for libraries that need a file

    Results raise InputFault, NoRoomBeside, MemoryError, OSError; see above.
    """
    if not IS_AVAILABLE:
        return _told_here(find(function)(streams, *arguments), where, owner)
    prepare()
    contents = [_content_of(stream) for stream in streams]
    share = bounds.memory_bytes if of_thread.share is None else of_thread.share
    shared_bounds = replace(bounds, memory_bytes=min(share, bounds.memory_bytes))
    request = pickle.dumps((function, arguments, contents, shared_bounds), pickle.HIGHEST_PROTOCOL)
    has_less = shared_bounds != bounds  # memory than where nobody works beside it
    is_sent = was_killed = False
    yielded = 0

    def results() -> Iterator[Any]:
        """Yield None when the request is sent, then its results."""
        nonlocal is_sent, was_killed, yielded
        while True:
            decoder = of_thread.take(owner, writes=writes)
            was_used, count, is_sound, least = decoder.is_used, 0, False, 0.0
            began = decoder.seconds() or 0.0
            try:
                decoded = decoder.ask(request, _rewound(streams, contents), shared_bounds)
                next(decoded)
                if not is_sent:
                    is_sent = True
                    yield None
                for result in decoded:
                    count += 1
                    if count > yielded:  # else it was yielded before the decoder was killed
                        yielded = count
                        yield result
                is_sound = True
                return
            except InputFault:
                is_sound = True
                raise
            except _ReaderFailed as failed:
                least = STOPPED_SECONDS
                raise _unread(where, *failed.args) from None
            except _OutOfBounds:
                if has_less:
                    raise NoRoomBeside from None
                least = STOPPED_SECONDS
                memory = f"{_limit_in_force(shared_bounds.memory_bytes) >> 20:,} MiB of memory"
                raise refused("too-large", where, wording="too-much-to-decode", what=memory) from None
            except TimeoutError:
                raise refused("too-slow", where, seconds=shared_bounds.seconds) from None
            except _Died as death:
                if death.signal_number == signal.SIGXCPU:
                    raise refused("too-slow", where, seconds=shared_bounds.seconds) from None
                if death.signal_number == 0 and has_less:  # a long answer
                    raise NoRoomBeside from None
                least = STOPPED_SECONDS if death.signal_number != signal.SIGKILL else 0.0
                if death.signal_number == signal.SIGKILL:
                    if of_thread.share is not None:
                        raise NoRoomBeside from None
                    if was_killed:
                        raise refused("too-large", where, wording="killed-twice") from None
                    was_killed = True
                    of_thread.stop_all()
                elif count or not was_used:  # else what came before may have broken it: once more, in a new one
                    raise broke_off(where, death.signal_number) from None
            finally:
                spent = float(shared_bounds.seconds) if (used := decoder.seconds()) is None else used - began
                of_thread.seconds[owner] = seconds_of(owner) + max(spent, least)
                if is_sound and (owner, writes) not in of_thread.idle:
                    of_thread.idle[owner, writes] = decoder
                else:
                    decoder.stop()

    begun = results()
    next(begun)
    return begun


def _told_here(results: Iterator[Any], where: str, owner: str) -> Iterator[Any]:
    """Yield the values of a reader in this process."""
    with reader_faults_told(where):
        while True:
            began = time.process_time()
            try:
                result = next(results)
            except StopIteration:
                return
            finally:
                of_thread.seconds[owner] = seconds_of(owner) + time.process_time() - began
            yield result


def _limit_in_force(memory_bytes: int) -> int:
    """Return the lowest memory limit of a decoder with this memory for a file."""
    import resource

    from evaluation.files.system import memory_limit

    limits = [memory_bytes, memory_limit(), resource.getrlimit(resource.RLIMIT_AS)[1]]
    return min(limit for limit in limits if limit is not None and limit >= 0)  # -1: unlimited


def forget_seconds(owner: str) -> None:
    """Reset the processor time of an owner."""
    of_thread.seconds.pop(owner, None)


def seconds_of(owner: str) -> float:
    """Return the processor time that this thread has spent on the files of an owner, by decoders or here."""
    return of_thread.seconds.get(owner, 0.0)


def _unread(where: str, name: str, trace: str) -> InputFault:
    """Return the error of a file on which its reader raised an exception that no reader should raise.

    name, trace  of the exception: the name of its class, and its traceback, which only logs show
    """
    name = name if re.fullmatch(r"\w{1,60}", name, re.ASCII) else "an exception"
    finding = fault("unreadable-file", where, wording="reader-failed", name=name)
    return InputFault(replace(finding, trace=trace[-_TRACE_CHARACTERS:]))


@contextmanager
def reader_faults_told(where: str) -> Iterator[None]:
    """Raise an exception that no reader should raise as a finding about its file; errors of the system stay.

    where  the file, for messages
    """
    try:
        yield
    except (EvaluationError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _unread(where, type(error).__name__, traceback.format_exc()) from None


def _content_of(stream: BinaryIO) -> bytes | None:
    """Return the bytes of a stream that is no file."""
    try:
        stream.fileno()
    except OSError:
        stream.seek(0)
        return stream.read()
    return None


def _rewound(streams: Sequence[BinaryIO], contents: Sequence[bytes | None]) -> list[int]:
    """Return the descriptors of the streams that are files, at their start."""
    numbers = [stream.fileno() for stream, content in zip(streams, contents, strict=True) if content is None]
    for number in numbers:
        os.lseek(number, 0, os.SEEK_SET)
    return numbers


def broke_off(where: str, signal_number: int) -> InputFault:
    how = signal.Signals(signal_number).name if signal_number else "no answer"
    return refused("unreadable-file", where, wording="broke-off", how=how)
