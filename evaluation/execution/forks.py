"""Workers that are copies of this process: they start in milliseconds, have the tasks already, and end with it.

Only for a process of Linux without other threads, whose locks a copy would find closed for ever. The main process sends
the numbers of tasks and gets outcomes, by a pipe for each worker; a worker that is lost closes its pipe.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeVar

from evaluation.execution.processes import be_killed_first, end_with_parent

Outcome = TypeVar("Outcome")


class WorkerLost(Exception):
    """A worker ended without an answer."""


class NoWorker(Exception):
    """Not even one worker can be started."""


@dataclass(eq=False, slots=True)
class Worker:
    pid: int
    pipe: Connection


def can_fork() -> bool:
    """Whether a copy of this process works as this process does."""
    return sys.platform == "linux" and threading.active_count() == 1


def outcomes_of_forks(
    function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[Outcome]:
    """Apply a function to all tasks; outcomes in order. The workers are gone when this ends, however it ends.

    Raises WorkerLost, NoWorker, and what the function raises.
    """
    running: list[Worker] = []
    try:
        while len(running) < min(workers, len(tasks)):
            try:
                start(function, tasks, running)
            except OSError as error:
                if not running:
                    raise NoWorker from error
                break  # those that could be started do the work
        waiting = deque(range(len(tasks)))
        for worker in running:
            send(worker, waiting.popleft())
        found: dict[int, Outcome] = {}
        for index in range(len(tasks)):
            while index not in found:
                for worker in answering(running):
                    found.update([answer(worker)])
                    if waiting:
                        send(worker, waiting.popleft())
            yield found.pop(index)
    finally:
        for worker in running:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)
            worker.pipe.close()


def answering(workers: list[Worker]) -> list[Worker]:
    ready = wait([worker.pipe for worker in workers])
    return [worker for worker in workers if worker.pipe in ready]


def send(worker: Worker, index: int) -> None:
    try:
        worker.pipe.send(index)
    except ConnectionError as error:
        raise WorkerLost from error


def answer(worker: Worker) -> tuple[int, Any]:
    try:
        index, outcome, error = worker.pipe.recv()
    except (EOFError, ConnectionError) as lost:
        raise WorkerLost from lost
    if error is not None:
        raise error
    return index, outcome


def start(function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], running: list[Worker]) -> None:
    """Add one more worker to those that are running. Raises OSError."""
    ours, theirs = Pipe()
    main = os.getpid()
    # No signal comes between the fork and what it must find: the list of workers here, the handlers there.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        with warnings.catch_warnings():  # of threads that Python did not start: those of OpenBLAS stand still
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                end_with_parent(main)
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the main process ends this one
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                be_killed_first()
                for pipe in (ours, *(worker.pipe for worker in running)):
                    pipe.close()
                use_launcher(len(running))
                work(function, tasks, theirs)
            finally:
                os._exit(1)  # nothing of the main process is cleaned up or written here
        running.append(Worker(pid, ours))
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def use_launcher(index: int) -> None:
    """Decoders of this worker come from a process that has never seen the reference."""
    from evaluation.decoding.guard import adopt  # imported late, since an empty submission is refused without it

    adopt(index)


def work(function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], pipe: Connection) -> None:
    """What a worker does until it is killed."""
    while True:
        index = pipe.recv()
        try:
            pipe.send((index, function(*tasks[index]), None))
        except Exception as error:  # noqa: BLE001, of the task, or of sending what it gave: raised again by the main process
            error.add_note(traceback.format_exc())
            pipe.send((index, None, error))
