"""Worker processes of this machine that are no copies of this one, and stay from one submission to the next."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from typing import Any

from evaluation.execution.limits import usable_processors
from evaluation.execution.processes import be_killed_first

LOSSES = 3  # of workers, after which no others are started
PARENT_SECONDS = 0.5  # after which a worker notices that the main process is gone


class LocalProcesses(Executor):
    """An executor of worker processes. They start with the first task, and others with the next task after a loss.

    Submitting raises BrokenExecutor where there are none: after three losses, after the end, or if none can be started.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.lock = threading.Lock()
        self.losses = 0
        self.pool: Any = None

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        with self.lock:
            while self.losses < LOSSES:
                try:
                    self.pool = self.pool or self.started()
                    future: Future[Any] = self.pool.submit(function, *arguments, **options)
                    return future
                except (RuntimeError, OSError, MemoryError):  # BrokenExecutor among them
                    self.losses += 1
                    self.end(at_once=True)
            raise BrokenExecutor

    def started(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor, process_executor

        process_executor.kill_process_tree = kill_worker
        start_trackers()
        threads = str(max(1, usable_processors() // self.workers))
        return ProcessPoolExecutor(
            self.workers,
            initializer=begin_worker,
            initargs=(os.getpid(),),
            env={"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
        )

    def end(self, *, at_once: bool) -> None:
        pool, self.pool = self.pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()) if at_once else ():
                kill_worker(process)
            with suppress(RuntimeError):  # not even the thread of the pool could be started
                pool.shutdown(kill_workers=at_once)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes with their work done, or at once."""
        with self.lock:  # nobody starts others
            self.losses = LOSSES
            self.end(at_once=cancel_futures)

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        self.shutdown(cancel_futures=error is not None)


def kill_worker(process: Any, use_psutil: bool = True) -> None:
    """In the place of loky's own, which needs pgrep or psutil, which small images lack. Decoders end by themselves."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.join()


def start_trackers() -> None:
    """Start the two processes that remove what lost workers leave behind, without stderr.

    They end after this process, and a warning of theirs would stand behind the last line, the one that people read.
    """
    from multiprocessing import resource_tracker as tracker_of_python

    from joblib.externals.loky.backend import resource_tracker as tracker_of_loky

    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        tracker_of_python.ensure_running()
        tracker_of_loky.ensure_running()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def begin_worker(parent: int) -> None:
    """Let the kernel end this process where memory runs out, and soon after its parent, which may be gone already.

    What decodes is forked before any of the reference is here. Its parent cannot be told by the kernel here: a thread
    of it started this process, and threads end earlier.
    """
    from evaluation.decoding.guard import prepare

    be_killed_first()
    prepare()
    with suppress(RuntimeError):  # no memory for a thread
        threading.Thread(target=watch, args=(parent,), daemon=True).start()


def watch(parent: int) -> None:
    """End this process soon after its parent."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)
