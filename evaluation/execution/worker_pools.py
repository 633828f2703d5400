"""Many submissions at once, by workers that they share: processes of this machine, or any executor of Python.

Several submissions are in flight, each in a thread that reads what was handed in and waits for its cases. How many is
bounded by the tasks that the workers can use, so that ten thousand submissions are not in memory together. What a
submission comes to never depends on who else is in flight.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from evaluation.execution.cluster import scheduler_lost
from evaluation.execution.limits import UNLIMITED, memory_left, usable_processors
from evaluation.execution.local_processes import LocalProcesses
from evaluation.execution.workers import (
    CASES_AT_ONCE,
    MAIN_BYTES,
    WORKER_BYTES,
    Plan,
    WorkerPool,
    Workers,
    bytes_at_once,
    check_workers,
    lost_worker,
    out_of_memory,
    plan_workers,
)
from evaluation.findings import Finding, fault
from evaluation.findings.errors import WorkersLost
from evaluation.model import Case
from evaluation.results.version import __version__
from evaluation.submission import SubmissionFiles

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

POOL_FROM_PX = 20_000_000  # of all submissions together: fewer are scored one after the other
SHARED_POOL_FROM_PX = 5_000_000  # fewer are scored sooner than processes have started: a second call finds little new
TASKS_FOR_EACH = 4  # that are under way or waiting for each task that is worked on
IN_FLIGHT_UP_TO = 256  # submissions
WATCH_SECONDS = 1  # after which one who waits looks whether there are still workers
CLUSTER_TASKS = 8  # at least, where a cluster has not started its workers yet


class NotTogether(Exception):
    """A submission is to be scored by itself, when the others are done."""


class SharedPool(WorkerPool):
    """The workers behind an executor, of which nothing is known but that it takes tasks.

    width         tasks at once; each of several submissions is cut into ``parts``
    bytes_each    that a worker has for the cases which it takes at a time
    pool_from_px  of all submissions so far; fewer are scored by this process

    A submission that needs more memory than a worker has, whose worker was lost or had no memory left, is scored by
    itself: another one may have been the cause. What a submission has wrong is an outcome, and is never tried again.
    """

    def __init__(
        self,
        executor: Executor,
        width: int | None = None,
        submissions: int = 1,
        *,
        bytes_each: int = UNLIMITED,
        pool_from_px: int = 0,
    ) -> None:
        check_workers(width)
        self.executor, self.is_alone = executor, submissions == 1
        self.width = width or tasks_at_once(executor)
        self.parts = -(-self.width // max(submissions, 1))
        self.bytes_each, self.pool_from_px = bytes_each, pool_from_px
        self.lock = threading.Lock()
        self.pixels = 0
        self.futures: set[Future[Any]] = set()
        self.is_stopped = False

    def plan(self, cases: Sequence[Case], needs: Sequence[int]) -> Plan:
        if bytes_at_once(needs) > self.bytes_each:
            raise NotTogether
        with self.lock:
            self.pixels += pixels_of(cases)
            are_few = self.pixels < self.pool_from_px
        if are_few:  # so far: they are scored sooner than worker processes have started
            alone = plan_workers(1, cases, needs)
            if alone.is_in_process:
                return alone
        return Plan(
            self.parts, is_in_process=False, may_shrink=False, case_bytes=max(needs, default=0), worker_pool=self
        )

    def outcomes(
        self, function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], plan: Plan
    ) -> Iterator[Outcome]:
        futures: list[Future[Any]] = []
        try:
            for task in tasks:
                futures.append(self.submit(pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL)))
            for future in futures:
                yield self.outcome(future, plan)
        finally:
            for future in futures:
                future.cancel()

    def submit(self, packed: bytes) -> Future[Any]:
        if self.is_stopped:
            raise CancelledError
        try:
            future = self.executor.submit(run_packed, __version__, packed)
        except (RuntimeError, OSError) as error:  # BrokenExecutor among them, and connections that are closed
            raise (NotTogether if self.is_ours else WorkersLost(no_executor(error))) from error
        self.futures.add(future)
        future.add_done_callback(self.futures.discard)
        return future

    def outcome(self, future: Future[Any], plan: Plan) -> Any:
        """What became of a task. Raises NotTogether; WorkerDied for a submission that is scored by itself."""
        watch = getattr(self.executor, "watch", None)  # of a cluster: cluster.py
        while watch and not wait([future], WATCH_SECONDS).done:
            watch.has_workers()
        try:
            return future.result()
        except worker_was_lost() as error:
            raise (lost_worker("a worker", plan) if self.is_alone else NotTogether) from error
        except MemoryError as error:
            raise (out_of_memory("a worker", plan) if self.is_alone else NotTogether) from error
        except CancelledError as error:
            raise WorkersLost(scheduler_lost(watch.address) if watch else no_executor(error)) from error
        except ImportError as error:
            raise WorkersLost(fault("no-cluster", "a worker", wording="package-not-found", error=error)) from error

    @property
    def is_ours(self) -> bool:
        return isinstance(self.executor, LocalProcesses)

    def end(self, *, at_once: bool) -> None:
        """Take no more tasks, and end the processes that are ours; at once: threads that wait get an exception."""
        self.is_stopped = True
        for future in list(self.futures) if at_once else ():
            future.cancel()
        if self.is_ours:
            self.executor.shutdown(cancel_futures=at_once)


def run_packed(version: str, packed: bytes) -> Any:
    """What a worker is sent. It has to run the program that sent it: another one may come to other numbers."""
    if version != __version__:
        raise WorkersLost(
            fault("no-cluster", "a worker", wording="other-program", version=__version__, own_version=version)
        )
    function, task = pickle.loads(packed)
    for path in paths_of(task):
        if not path.exists():  # or its files would seem to be missing
            raise WorkersLost(fault("no-cluster", "a worker", wording="folder-not-shared", path=path))
    return function(*task)


def paths_of(task: Sequence[Any]) -> list[Path]:
    """The files and folders that a task reads."""
    paths = [argument.path if isinstance(argument, SubmissionFiles) else argument for argument in task]
    return [path for path in paths if isinstance(path, Path)]


def worker_was_lost() -> tuple[type[Exception], ...]:
    """What executors raise for a task whose worker was lost. Dask and Ray have given it to several workers by then."""
    distributed, ray = sys.modules.get("distributed"), sys.modules.get("ray")
    of_dask = () if distributed is None else (distributed.KilledWorker,)
    of_ray = () if ray is None else (ray.exceptions.WorkerCrashedError,)
    return (BrokenExecutor, *of_dask, *of_ray)


def no_executor(error: BaseException) -> Finding:
    return fault("no-cluster", "the executor", wording="executor-stopped", why=str(error) or type(error).__name__)


def tasks_at_once(executor: Executor) -> int:
    """How many tasks an executor works on at once, as far as it tells."""
    client = getattr(executor, "_client", None)
    if client is not None:  # of dask.distributed; a cluster may start its workers when there are tasks
        return max(CLUSTER_TASKS, sum(int(threads) for threads in client.nthreads().values()))
    return int(getattr(executor, "_max_workers", 0)) or usable_processors()


def pixels_of(cases: Sequence[Case]) -> int:
    return sum(case.height * case.width for case in cases)


def local_pool(cases: Sequence[Case], needs: Sequence[int], submissions: int, workers: int | None) -> SharedPool | None:
    """The processes that work on several submissions; None if one process alone is as good, or all there is room for.

    ``needs``, the bytes that each case takes, tell how many there is room for; a submission that needs more is scored
    by itself.
    """
    if submissions < 2 or workers == 1:
        return None
    if workers is not None:
        return SharedPool(LocalProcesses(workers), workers, submissions)
    if pixels_of(cases) * submissions < POOL_FROM_PX:
        return None
    times = min(submissions, 1000)  # so many cases are more than any number of processors
    memory = memory_left()
    width = plan_workers(None, [*cases] * times, [*needs] * times, memory).workers
    if width == 1:
        return None
    each = (memory.together - MAIN_BYTES) // width - WORKER_BYTES
    return SharedPool(LocalProcesses(width), width, submissions, bytes_each=each, pool_from_px=SHARED_POOL_FROM_PX)


# --- several submissions in flight ------------------------------------------------------------------------------------


def work_through(
    items: Sequence[Item],
    work: Callable[[Item, Workers], Outcome],
    *,
    cases: Sequence[Case],
    needs: Sequence[int],
    workers: int | None,
    executor: Executor | None,
    idle: Callable[[], object] = int,
) -> Iterator[tuple[int, Outcome]]:
    """The index and the outcome of every item (a submission), as they are done.

    work      on an item, with those who do it
    cases     of each item, and the bytes that each of them ``needs``
    workers   processes; with an executor, the tasks that it works on at once; None: chosen
    idle      is called every second in which nothing is done, as far as several items are worked on at once
    """
    if executor is None:
        worker_pool = local_pool(cases, needs, len(items), workers)
    else:
        worker_pool = SharedPool(executor, workers, len(items))
    left: Sequence[int] = range(len(items))
    if worker_pool is not None:
        left = []
        tasks_of_each = max(worker_pool.parts, -(-len(cases) // CASES_AT_ONCE))
        at_once = max(2, min(IN_FLIGHT_UP_TO, -(-TASKS_FOR_EACH * worker_pool.width // tasks_of_each)))
        yield from in_flight(items, work, worker_pool, at_once, left, idle)
    for index in left:
        yield index, work(items[index], workers if executor is None else SharedPool(executor, workers))


def in_flight(
    items: Sequence[Item],
    work: Callable[[Item, Workers], Outcome],
    worker_pool: SharedPool,
    at_once: int,
    left: list[int],
    idle: Callable[[], object],
) -> Iterator[tuple[int, Outcome]]:
    """The same, several at once; into ``left`` come the indices of those that are to be scored by themselves."""
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="submission")
    indices = iter(range(len(items)))
    waiting: dict[Future[Outcome], int] = {}
    try:
        while True:
            for index in islice(indices, at_once - len(waiting)):
                waiting[threads.submit(work, items[index], worker_pool)] = index
            if not waiting:
                break
            done = wait(waiting, WATCH_SECONDS, return_when=FIRST_COMPLETED).done
            if not done:
                idle()
            for future in done:
                index = waiting.pop(future)
                try:
                    outcome = future.result()
                except NotTogether:
                    left.append(index)
                else:
                    yield index, outcome
    except BaseException:
        worker_pool.end(at_once=True)  # nobody waits for the others
        raise
    else:
        worker_pool.end(at_once=False)
    finally:
        threads.shutdown(cancel_futures=True)
    left.sort()
