"""Who works on tasks: worker processes of this machine. Tasks that other executors work on: executors.py.

If this process can be forked (Linux, one thread), workers are forks: they start in milliseconds, already have the
waiting tasks, and end with it. Otherwise they are new Python processes, which import their modules and receive all
data. Every worker has a pipe for tasks and answers; a lost worker closes its pipe.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe, wait
from types import ModuleType, TracebackType
from typing import Any, Self

from evaluation.files.system import (
    UNLIMITED,
    be_killed_first,
    can_fork,
    end_with_parent,
    fork,
    held_signals,
    memory_left,
    restore_signals,
    usable_processors,
)  # fmt: skip
from evaluation.findings import fault
from evaluation.findings.errors import NoRoomBeside, WorkerDied

CASE_BYTES = 32_000_000  # that any case needs
FORK_SECONDS = 0.2  # that copies of this process cost: to start, and since one process already decodes beside its work
START_SECONDS = 2.5  # that processes which are no copies take on a machine with two processors: each imports everything
WATCH_SECONDS = 1  # after which one who waits for answers looks up


class WorkerLost(Exception):
    """A worker ended without an answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A function of a module with its arguments, and the memory that its largest case needs, by our estimate."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    case_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The outcome of the task with this number, or its error."""

    number: int
    outcome: Any = None
    error: BaseException | None = None


class Pool(ABC):
    """Workers that tasks are handed to. Answers come as they are ready.

    width          number of parallel tasks
    tries_again    a task of a lost worker, or of a worker without memory, runs again alone after all other tasks,
                   because
    another task may have been the cause; a task with a file that needs more than the free memory always does
    bytes_each     memory of a worker for a case; a task that needs more also waits for all other tasks
    """

    def __init__(self, width: int, *, tries_again: bool, bytes_each: int = UNLIMITED) -> None:
        self.width, self.tries_again, self.bytes_each = width, tries_again, bytes_each
        self.tasks: dict[int, Task] = {}  # those without an answer
        self.postponed: deque[int] = deque()
        self.alone: int | None = None  # the task that nothing runs beside
        self.count = 0

    def submit(self, task: Task) -> int:
        """Hand over a task and return its number."""
        number = self.count
        self.count += 1
        self.tasks[number] = task
        if task.case_bytes > self.bytes_each:
            self.postponed.append(number)
        else:
            self.send(number)
        return number

    def answers(self) -> list[Answer]:
        """New answers; empty after a timeout."""
        if self.postponed and len(self.postponed) == len(self.tasks):
            self.alone = self.postponed.popleft()
            self.send(self.alone)
        answers = []
        for answer in self.received():
            if isinstance(answer.error, WorkerLost | MemoryError):
                is_tried_again = self.tries_again or isinstance(answer.error, NoRoomBeside)
                if is_tried_again and answer.number != self.alone:
                    self.postponed.append(answer.number)
                    continue
                answer = Answer(answer.number, error=self.died(answer))
            del self.tasks[answer.number]
            answers.append(answer)
        return answers

    def in_order(self, numbers: Iterable[int]) -> Iterator[Any]:
        """The outcomes of tasks in their order. Raises the first error."""
        known: dict[int, Answer] = {}
        for number in numbers:
            while number not in known:
                known |= {answer.number: answer for answer in self.answers()}
            answer = known.pop(number)
            if answer.error is not None:
                raise answer.error
            yield answer.outcome

    def died(self, answer: Answer) -> WorkerDied:
        """The finding about a worker that was lost or had no memory left."""
        of_several = self.several() if answer.number != self.alone else ""
        if isinstance(answer.error, MemoryError):
            return _out_of_memory(of_several or self.name, self.tasks[answer.number])
        if of_several:
            return WorkerDied(fault("worker-died", of_several))
        case_megabytes = self.tasks[answer.number].case_bytes / 1e6
        return WorkerDied(fault("worker-died", self.name, wording="only-worker", case_megabytes=case_megabytes))

    name = "the only worker"

    def several(self) -> str:
        """The words for a worker in messages if there may be several; "" if there is one."""
        return ""

    @abstractmethod
    def send(self, number: int) -> None:
        """Send a task to the workers."""

    @abstractmethod
    def received(self) -> list[Answer]:
        """Answers that arrived since the last call; empty after ``WATCH_SECONDS``."""

    @abstractmethod
    def close(self) -> None:
        """Accept no more tasks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _out_of_memory(where: str, task: Task) -> WorkerDied:
    return WorkerDied(fault("worker-died", where, wording="out-of-memory", case_megabytes=task.case_bytes / 1e6))


# --- processes of this machine ----------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Worker:
    """A worker process. ``task``: the number of the task that it works on; ``known_below``: it has these already."""

    kill: Callable[[], object]
    wait: Callable[[], object]
    pipe: Connection
    known_below: int = 0
    task: int | None = None


def is_faster_shared(seconds: float, tasks: int, workers: int) -> bool:
    """Return whether workers save more time than it takes to start them, if each task takes so many seconds.

    >>> is_faster_shared(1.0, tasks=20, workers=2), is_faster_shared(1.0, tasks=1, workers=2)
    (True, False)
    """
    rounds = -(-tasks // workers)
    return seconds * (tasks - rounds) > 2 * (FORK_SECONDS if can_fork() else START_SECONDS)


class ProcessPool(Pool):
    """Worker processes of this machine, which start when answers are waited for. A lost worker is not replaced.

    main_begins    whether the main process works alone until workers are known to be faster
    memory_bytes   limit for all workers together
    """

    def __init__(
        self, width: int, *, tries_again: bool = False, bytes_each: int = UNLIMITED, main_begins: bool = False
    ) -> None:
        super().__init__(width, tries_again=tries_again, bytes_each=bytes_each)
        self.main_begins = main_begins
        self.asked = width
        self.memory_bytes = memory_left().together
        self.queue: deque[int] = deque()
        self.workers: list[_Worker] = []

    def several(self) -> str:
        return f"one of {self.asked} workers" if self.asked > 1 else ""

    def send(self, number: int) -> None:
        if number == self.alone:
            self.close()
        self.queue.append(number)

    def received(self) -> list[Answer]:
        if not self.main_begins:
            self.employ()
        if self.queue and not self.workers:  # this process works: it begins, or no other could be started
            return [self.answer_of_main(self.queue.popleft())]
        busy = {worker.pipe: worker for worker in self.workers if worker.task is not None}
        answers = []
        for pipe in wait(list(busy), WATCH_SECONDS):
            worker = busy[pipe]  # type: ignore[index]
            number, worker.task = worker.task, None
            assert number is not None
            try:
                answers.append(worker.pipe.recv())
            except (EOFError, ConnectionError):
                self.dismiss(worker)
                self.width = max(1, self.width - 1)
                answers.append(Answer(number, error=WorkerLost()))
        if not self.postponed:  # else they may have to run alone
            self.employ()
        return answers

    def answer_of_main(self, number: int) -> Answer:
        """The answer to a task that the main process works on, unless it has no room for a case."""
        began, task = time.perf_counter(), self.tasks[number]
        answer = Answer(number, error=MemoryError())
        if self.main_begins or memory_left().each >= CASE_BYTES:
            answer = answer_of(number, task)
        if isinstance(answer.error, MemoryError):
            answer = Answer(number, error=_out_of_memory("the main process", task))
        seconds = time.perf_counter() - began
        self.main_begins = self.main_begins and not is_faster_shared(seconds, len(self.queue), self.asked)
        return answer

    def employ(self) -> None:
        """Assign every waiting task to an idle worker, or to a new worker."""
        width = 1 if self.alone in self.tasks else self.width
        if self.queue and not self.workers and memory_left().each < CASE_BYTES:  # no room for a case
            return
        while self.queue:
            worker = next((worker for worker in self.workers if worker.task is None), None)
            if worker is None:
                if len(self.workers) >= width:
                    return
                try:
                    worker = self.start()
                except (OSError, MemoryError):  # by a limit: those that could be started do the work
                    self.width = max(1, len(self.workers))
                    return
            number = self.queue.popleft()
            try:
                task = None if number < worker.known_below else self.tasks[number]
                worker.pipe.send((number, task, self.share(number)))
                worker.task = number
            except ConnectionError:  # it was lost while it had nothing to do
                self.queue.appendleft(number)
                self.dismiss(worker)

    def share(self, number: int) -> int | None:
        """Bytes of memory for the decoder of a task, and as many for its answer; None: nothing runs next to it."""
        return None if number == self.alone or self.asked == 1 else self.memory_bytes // self.asked // 2

    def dismiss(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        _end_worker(worker)

    def close(self) -> None:
        """Kill all workers."""
        while self.workers:
            _end_worker(self.workers.pop())

    def start(self) -> _Worker:
        """Start one more worker. Raises OSError."""
        from evaluation.files.decoding.guard import another_launcher  # late: an empty submission is refused without it

        is_copy = can_fork()
        launcher = another_launcher() if is_copy else None
        ours, theirs = Pipe()
        # No signal comes between the start and what it must find: the list of workers here, the handlers there.
        with held_signals((signal.SIGINT, signal.SIGTERM)) as before:
            try:
                worker = (
                    _Worker(*self.copy(ours, theirs, launcher, before), ours, known_below=self.count)
                    if is_copy
                    else _Worker(*_start_fresh(self.width, theirs), ours)
                )
                self.workers.append(worker)
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
                if launcher:
                    launcher.close()
        return worker

    def copy(
        self, ours: Connection, theirs: Connection, launcher: socket.socket | None, mask: set[int]
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """Fork a copy of this process that works on tasks; return the functions that kill it and wait for its end."""
        main = os.getpid()
        with warnings.catch_warnings():  # of threads that Python did not start: those of OpenBLAS stand still
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = fork()
        if pid == 0:
            try:
                end_with_parent(main)
                for pipe in (ours, *(worker.pipe for worker in self.workers)):
                    pipe.close()
                if launcher:
                    from evaluation.files.decoding.guard import adopt

                    adopt(launcher)
                _begin_work(mask)
                work(theirs, self.tasks)
            finally:
                os._exit(1)  # nothing of the main process is cleaned up or written here
        return partial(os.kill, pid, 9), partial(os.waitpid, pid, 0)


def _start_fresh(workers: int, pipe: Connection) -> tuple[Callable[[], object], Callable[[], object]]:
    """Start a process of Python that works on the tasks that it is sent; return the functions that kill it and wait for
    its end. It shares the processors with the other workers.
    """
    threads = max(1, usable_processors() // workers)
    process = get_context("spawn").Process(target=_work_fresh, args=(pipe, os.getpid(), threads), daemon=True)
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")  # else the worker would run the script of a user once more
    try:
        process.start()
    finally:
        sys.modules["__main__"] = main
    return process.kill, process.join


def _work_fresh(pipe: Connection, main: int, threads: int) -> None:
    """Main function of a new process. Its decoder launcher is forked before it reads the reference."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    from evaluation.files.decoding.guard import prepare

    end_with_parent(main)
    _begin_work(set())
    prepare()
    with suppress(EOFError, ConnectionError):  # the main process is gone
        work(pipe, {})


def _end_worker(worker: _Worker) -> None:
    with suppress(ProcessLookupError):
        worker.kill()
    worker.wait()
    worker.pipe.close()


def _begin_work(mask: set[int]) -> None:
    """Set the signal handlers of a worker, and let the kernel kill it before its main process if memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the main process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    restore_signals(mask)
    be_killed_first()


def work(pipe: Connection, tasks: Mapping[int, Task]) -> None:
    """Work on tasks until the process is killed. ``tasks``: known tasks of the worker, by number."""
    from evaluation.files.decoding.guard import of_thread

    while True:
        number, task, of_thread.share = pipe.recv()
        answer = answer_of(number, task or tasks[number])
        try:
            pipe.send(answer if answer.error is None else Answer(number, error=_noted(answer.error)))
        except Exception as error:  # noqa: BLE001, of pickling: raised again by the main process
            pipe.send(Answer(number, error=_noted(error)))


def answer_of(number: int, task: Task) -> Answer:
    """The answer to a task that this process works on."""
    try:
        return Answer(number, task.function(*task.arguments))
    except Exception as error:  # noqa: BLE001, of the task: raised again where its outcome is wanted
        return Answer(number, error=error)


def _noted(error: BaseException) -> BaseException:
    """Add the traceback to an error as a note, since another process does not receive it."""
    error.add_note("".join(traceback.format_exception(error)))
    return error
