"""How many cases are worked on at once: as many as there are processors, and no more than the memory holds.

What a case needs is estimated from its size and from its files, by constants that were measured (docs/organisers.md):

    side    16 bytes for each pixel + the bytes of its files     formats with a number for every pixel
            10 times the bytes of its files                      outlines, points, run-length codes
    case    32 MB + 3/2 of the larger of its two sides
    worker  150 MB for the program + the largest case

An estimate may be wrong. So a case that may not fit is worked on in a process of its own, whose end the main process
can report; and where a worker is lost, one worker alone goes on. Results never depend on any of this.

That is one submission by itself. Workers that many submissions share are a ``WorkerPool`` (worker_pools.py).
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evaluation.findings import Finding, execution
from evaluation.findings.errors import WorkerDied
from evaluation.model import Case

Progress = Callable[[int, int], None]
Outcome = TypeVar("Outcome")
Item = TypeVar("Item")

CASE_BYTES = 32_000_000
WORKER_BYTES = 150_000_000  # with its launcher and two decoders, which share most of their memory with it
MAIN_BYTES = 256_000_000  # kept for the main process, which collects the results
CASES_AT_ONCE = 8  # that a worker takes at a time
BYTES_AT_ONCE = 256_000_000  # that the cases which a worker takes at a time may need together, if they are several
POOL_FROM_PX = 20_000_000  # fewer pixels are scored sooner than worker processes have started
PARENT_SECONDS = 2  # after which a worker notices that the main process is gone
UNLIMITED = sys.maxsize


# --- what a case needs ------------------------------------------------------------------------------------------------


# --- what there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryLeft:
    """Bytes that all processes ``together`` can still take, and ``each`` of them; ``UNLIMITED`` if unknown."""

    together: int = UNLIMITED
    each: int = UNLIMITED


def memory_left(root: Path = Path("/")) -> MemoryLeft:
    """What the machine, the control groups (version 1 and 2) and the limits of this process leave.

    root   where proc and sys lie
    """
    own = sizes_in(root / "proc/self/status")
    each = [
        limit - 1024 * own.get(used, 0)
        for limit, used in (
            (resource.getrlimit(resource.RLIMIT_DATA)[0], "VmData:"),
            (resource.getrlimit(resource.RLIMIT_AS)[0], "VmSize:"),
        )
        if limit != resource.RLIM_INFINITY
    ]
    machine = sizes_in(root / "proc/meminfo").get("MemAvailable:")
    together = [*left_in_groups(root), *([] if machine is None else [1024 * machine])]
    return MemoryLeft(max(min(together, default=UNLIMITED), 0), max(min(each, default=UNLIMITED), 0))


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """Where a version of control groups is mounted, and what its files are called."""

    mounts: tuple[str, ...]
    limit: str
    used: str
    cached: tuple[str, str]


GROUPS_1 = GroupFiles(
    ("sys/fs/cgroup/memory",),
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
)
GROUPS_2 = GroupFiles(
    ("sys/fs/cgroup", "sys/fs/cgroup/unified"), "memory.max", "memory.current", ("active_file", "inactive_file")
)


def left_in_groups(root: Path) -> list[int]:
    """What each control group of this process that limits memory leaves: the limit, less what is used and not cache."""
    left = []
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        kind = GROUPS_1 if controllers else GROUPS_2
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # a group outside of what this process can see
            parts = []
        for mount in kind.mounts:
            for depth in range(len(parts) + 1):  # a parent's limit holds as well
                folder = root.joinpath(mount, *parts[:depth])
                limit, used = (text_of(folder / name).strip() for name in (kind.limit, kind.used))
                if limit.isdecimal() and used.isdecimal():
                    cached = sizes_in(folder / "memory.stat")
                    left.append(int(limit) - int(used) + sum(cached.get(name, 0) for name in kind.cached))
    return left


def text_of(path: Path) -> str:
    """What is in a small file; nothing if it is not there."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def sizes_in(path: Path) -> dict[str, int]:
    """The lines ``name number …`` of a file."""
    words = (line.split() for line in text_of(path).splitlines())
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdecimal()}


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """How tasks are worked on.

    workers         processes
    is_in_process   whether the main process does the work itself
    may_shrink      whether one worker alone goes on if one of several is lost
    case_bytes      what the largest case needs, by our estimate
    left_bytes      what all processes can still take together
    worker_pool     works in the place of own processes; ``workers`` then is the number of parts
    """

    workers: int
    is_in_process: bool
    may_shrink: bool
    case_bytes: int = 0
    left_bytes: int = UNLIMITED
    worker_pool: WorkerPool | None = None


class WorkerPool(ABC):
    """Workers that several submissions share."""

    @abstractmethod
    def plan(self, cases: Sequence[Case], needs: Sequence[int]) -> Plan:
        """How the cases of one submission are worked on."""

    @abstractmethod
    def outcomes(
        self, function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], plan: Plan
    ) -> Iterator[Outcome]:
        """Apply a function to all tasks; outcomes in the order of the tasks. Raises WorkerDied."""


Workers = int | WorkerPool | None  # who works: so many processes, a worker pool, or as many as there is room for


def plan_workers(
    asked: Workers,
    cases: Sequence[Case],
    needs: Sequence[int],
    memory: MemoryLeft | None = None,
    processors: int | None = None,
) -> Plan:
    """As many workers as were asked for, else as there are processors and as fit into the memory, at least one.

    needs        of each case, from ``memory_needs``
    memory       None: what is left now
    processors   None: those this process may use (affinity, limits of containers)
    """
    if isinstance(asked, WorkerPool):
        return asked.plan(cases, needs)
    memory = memory_left() if memory is None else memory
    largest = max(needs, default=0)
    pixels = pixels_of(cases)
    workers = asked or 1
    if asked is None and len(cases) > 1 and pixels >= POOL_FROM_PX:
        fitting = (memory.together - MAIN_BYTES) // (WORKER_BYTES + bytes_at_once(needs))
        workers = max(1, min(processors or usable_processors(), fitting))
    fits_easily = 2 * largest <= min(memory.together, memory.each)
    return Plan(workers, workers == 1 and fits_easily, asked is None, largest, memory.together)


def pixels_of(cases: Sequence[Case]) -> int:
    return sum(case.height * case.width for case in cases)


def bytes_at_once(needs: Sequence[int]) -> int:
    """Memory that the cases which a worker takes at a time may need together."""
    return min(max(BYTES_AT_ONCE, *needs, 0), sum(needs))


def usable_processors() -> int:
    """Processors this process may use: its affinity, and the limits of its container."""
    from joblib import cpu_count

    return int(cpu_count())


def batches(items: Sequence[Item], needs: Sequence[int], workers: int) -> list[list[Item]]:
    """The items in order, in lists for the workers; those in a list need no more memory than the largest item may.

    >>> batches("abcdefg", [1] * 7, workers=2)
    [['a', 'b', 'c', 'd'], ['e', 'f', 'g']]
    >>> batches("abc", [BYTES_AT_ONCE - 1, 1, 1], workers=1)
    [['a', 'b'], ['c']]
    """
    most = min(CASES_AT_ONCE, -(-len(items) // workers))
    bytes_at_once = max([BYTES_AT_ONCE, *needs])
    found: list[list[Item]] = []
    held = 0
    for item, needed in zip(items, needs, strict=True):
        if not found or len(found[-1]) == most or held + needed > bytes_at_once:
            found.append([])
            held = 0
        found[-1].append(item)
        held += needed
    return found


# --- the pool ---------------------------------------------------------------------------------------------------------


def run_tasks(
    function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], plan: Plan, progress: Progress | None
) -> Iterator[Outcome]:
    """Apply a function to all tasks; outcomes in the order of the tasks.

    Raises WorkerDied if a worker is lost, or if memory runs out where it is not a file's fault.
    """
    workers = max(1, min(plan.workers, len(tasks)))
    done = 0
    while done < len(tasks):
        try:
            for outcome in outcomes_of(function, tasks[done:], workers, plan):
                done += 1
                if progress is not None:
                    progress(done, len(tasks))
                yield outcome
        except WorkerDied:
            if workers == 1 or not plan.may_shrink:
                raise
            workers = 1


def outcomes_of(
    function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], workers: int, plan: Plan
) -> Iterator[Outcome]:
    """Outcomes in order, from a worker pool, the main process or a pool."""
    if plan.worker_pool is not None:
        yield from plan.worker_pool.outcomes(function, tasks, plan)
        return
    if workers > 1 or not plan.is_in_process:
        yield from in_pool(function, tasks, workers, plan)
        return
    for task in tasks:
        try:
            outcome = function(*task)
        except MemoryError as error:
            raise out_of_memory("the main process", plan) from error
        yield outcome


def in_pool(
    function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], workers: int, plan: Plan
) -> Iterator[Outcome]:
    """Outcomes in order, from worker processes, which are gone when this ends, however it ends."""
    try:
        with worker_processes(workers, plan) as pool:
            waiting = deque(pool.submit(function, *task) for task in tasks)
            while waiting:
                yield waiting.popleft().result()
    except BrokenExecutor as error:
        raise WorkerDied(lost_worker(workers, plan)) from error
    except MemoryError as error:
        raise out_of_memory(f"one of {workers} workers" if workers > 1 else "the only worker", plan) from error


@contextmanager
def worker_processes(workers: int, plan: Plan) -> Iterator[Executor]:
    """A pool of worker processes. They end with their work done, or, after any exception, at once."""
    from joblib.externals.loky import ProcessPoolExecutor, process_executor

    process_executor.kill_process_tree = kill_worker
    if memory_left().each < CASE_BYTES:  # no room for the threads of a pool, which would never end
        raise out_of_memory("the main process", plan)
    start_trackers()
    threads = str(max(1, usable_processors() // workers))
    pool = ProcessPoolExecutor(
        workers,
        initializer=begin_worker,
        env={"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
    )
    finished = False
    try:
        yield pool
        finished = True
    finally:
        if not finished:
            for process in list((pool._processes or {}).values()):
                kill_worker(process)
        with suppress(RuntimeError):  # not even the thread of the pool could be started
            pool.shutdown(kill_workers=not finished)


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


def begin_worker() -> None:
    """Let the kernel end this process where memory runs out, not the main process, which reports it.

    And end this process soon after the main one was killed. What decodes is forked before any of the reference is here.
    """
    from evaluation.decoding.guard import prepare

    prepare()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(RuntimeError):  # no memory for a thread
        threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()


def end_with(parent: int) -> None:
    """End this process soon after its parent."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


def lost_worker(workers: int, plan: Plan) -> Finding:
    if workers == 1:
        return execution.OnlyWorkerDied(plan.case_bytes / 1e6).at("the only worker")
    return execution.WorkerDied().at(f"one of {workers} workers")


def out_of_memory(where: str, plan: Plan) -> WorkerDied:
    return WorkerDied(execution.OutOfMemory(plan.case_bytes / 1e6).at(where))
