"""Worker processes of this machine, as an executor of ``concurrent.futures``. Executors of others: executors.py.

If this process can be forked (Linux, one thread), workers are forks: they start in milliseconds, already have the
waiting tasks, and end with it. Otherwise they are new Python processes, which import their modules and receive all
data. Every worker has a pipe for tasks and answers, with a thread at this end; a lost worker closes its pipe.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Lock, Thread
from types import ModuleType
from typing import Any

from evaluation.files.system import (
    be_killed_first,
    can_fork,
    end_with_parent,
    held_signals,
    memory_left,
    restore_signals,
    usable_processors,
)  # fmt: skip

Task = Callable[[], Any]
_THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"


class WorkerLost(BrokenExecutor):
    """A worker ended without an answer."""


class ProcessExecutor(Executor):
    """Worker processes of this machine, at most ``width``: fewer if no more can be started.

    known   tasks that will be submitted: copies of this process have them, so they are never sent

    A lost worker is not replaced: its task raises WorkerLost, and without any worker all tasks do.
    Raises OSError or RuntimeError if no worker can be started.
    """

    def __init__(self, width: int, known: Sequence[Task] = ()) -> None:
        self._known = known if can_fork() else ()
        self._numbers = {id(task): number for number, task in enumerate(self._known)}
        self._waiting: SimpleQueue[tuple[Future[Any], Task] | None] = SimpleQueue()
        self._workers: list[tuple[BaseProcess, Connection]] = []
        self._threads: list[Thread] = []
        self._lock, self._is_stopped = Lock(), False
        self._share = None if width == 1 else memory_left().together // width // 2
        try:
            # Signals wait until every worker and thread is in its list, or shutdown might wait for ever. Threads
            # inherit that they are delayed, so that each signal comes to the main thread.
            with held_signals((signal.SIGINT, signal.SIGTERM)) as mask:
                with suppress(OSError, MemoryError, AssertionError):  # by a limit, or in a daemon of multiprocessing
                    for _ in range(width):
                        self._start(width, mask)
                if not self._workers:
                    raise OSError("no worker can be started")
                for worker in self._workers:
                    thread = Thread(target=self._serve, args=worker, daemon=True)
                    thread.start()
                    self._threads.append(thread)
                atexit.register(self.shutdown, cancel_futures=True)  # a signal may come before anybody has the executor
        except BaseException:
            self.shutdown(cancel_futures=True)
            raise

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.put((future, partial(function, *arguments, **options) if arguments or options else function))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers when all is done; with ``cancel_futures`` at once, even if they work on a task."""
        atexit.unregister(self.shutdown)
        self._is_stopped |= cancel_futures
        for process, _ in [*self._workers] if cancel_futures else ():
            process.kill()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _start(self, width: int, mask: set[int]) -> None:
        """Start one of so many workers, whose signals have this mask.

        Raises OSError, MemoryError, and AssertionError in a daemon.
        """
        from evaluation.files.decoding.guard import another_launcher  # late: an empty submission is refused without it

        is_copy, main = can_fork(), sys.modules["__main__"]
        launcher = another_launcher() if is_copy else None
        ours, theirs = Pipe()
        of_main = (ours, *(pipe for _, pipe in self._workers)) if is_copy else ()
        threads = None if is_copy else max(1, usable_processors() // width)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads of OpenBLAS, which stand still
            arguments = theirs, os.getpid(), mask, of_main, launcher, threads, self._known, self._share
            context = get_context("fork") if is_copy else get_context("spawn")
            process = context.Process(target=_begin_work, args=arguments, daemon=True)
            try:
                if not is_copy:
                    sys.modules["__main__"] = ModuleType("__main__")  # else it would run the script of a user once more
                process.start()
                self._workers.append((process, ours))
            except BaseException:
                ours.close()
                raise
            finally:
                sys.modules["__main__"] = main
                theirs.close()
                if launcher:
                    launcher.close()

    def _serve(self, process: BaseProcess, pipe: Connection) -> None:
        """Hand tasks to a worker until no more come, or it is lost; all tasks fail if the last worker is."""
        error = None
        while (waiting := self._waiting.get()) is not None:
            future, task = waiting
            if self._is_stopped:
                future.cancel()
            elif future.set_running_or_notify_cancel():
                error = self._settle(pipe, future, task)
            del waiting, future, task  # they may be large
            with self._lock:
                if isinstance(error, WorkerLost) and len(self._workers) > 1:
                    self._workers.remove((process, pipe))
                    break
        process.kill()
        process.join()
        pipe.close()

    def _settle(self, pipe: Connection, future: Future[Any], task: Task) -> BaseException | None:
        """Let a worker work on a task, and return its error."""
        error: BaseException | None
        try:
            pipe.send(self._numbers.get(id(task), task))
            outcome, error = pipe.recv()
        except (EOFError, ConnectionError):
            outcome, error = None, WorkerLost()
        except Exception as unsent:  # noqa: BLE001, of pickling: raised again where the outcome is wanted
            outcome, error = None, unsent
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)
        return error


def _begin_work(
    pipe: Connection,
    main: int,
    mask: set[int],
    others: Sequence[Connection],
    launcher: socket.socket | None,
    threads: int | None,
    known: Sequence[Task],
    share: int | None,
) -> None:
    """Prepare a worker, and work on tasks until it is killed: the main function of its process.

    main      id of the main process
    mask      signals that are delayed there
    others    pipes that a copy of the main process has of it
    launcher  of decoders, for a copy; others fork one before they read the reference
    threads   of a process that is no copy
    known     tasks of which only the number comes
    share     bytes of memory for the decoder of a file, and as many for its answer; None: nothing runs beside it
    """
    end_with_parent(main)
    for other in others:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the main process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    restore_signals(mask)
    be_killed_first()
    for name in _THREADS if threads else ():
        os.environ[name] = str(threads)
    from evaluation.files.decoding.guard import adopt, of_thread, prepare

    adopt(launcher) if launcher else prepare()
    of_thread.share = share
    with suppress(EOFError, ConnectionError):  # the main process is gone
        _work(pipe, known)


def _work(pipe: Connection, known: Sequence[Task]) -> None:
    answer: tuple[Any, BaseException | None]
    while True:
        task = pipe.recv()
        try:
            answer = (known[task] if isinstance(task, int) else task)(), None
        except Exception as error:  # noqa: BLE001, of the task: raised again where its outcome is wanted
            answer = None, _noted(error)
        try:
            pipe.send(answer)
        except Exception as error:  # noqa: BLE001, of pickling: raised again by the main process
            pipe.send((None, _noted(error)))


def _noted(error: BaseException) -> BaseException:
    """Add the traceback to an error as a note, since another process does not receive it."""
    error.add_note("".join(traceback.format_exception(error)))
    return error
