"""How many cases are worked on at once: as many as there are processors, and no more than the memory holds.

What a case needs is estimated from its size and from its files, by constants that were measured (docs/organisers.md):

    side    16 bytes for each pixel + the bytes of its files     formats with a number for every pixel
            10 times the bytes of its files                      outlines, points, run-length codes
    case    32 MB + 3/2 of the larger of its two sides
    worker  150 MB for the program + the largest case

An estimate may be wrong. So a case that may not fit is worked on in a process of its own, whose end the main process
can report; and where a worker is lost, one worker alone goes on. Results never depend on any of this.

That is one submission by itself. Workers that many submissions share: worker_pools.py.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeVar

from evaluation.execution.forks import NoWorker, WorkerLost, can_fork, outcomes_of_forks
from evaluation.execution.limits import UNLIMITED, MemoryLeft, memory_left, usable_processors
from evaluation.execution.local_processes import LocalProcesses
from evaluation.findings import fault
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
FORK_SECONDS = 0.2  # that copies of this process cost: to start, and since one process already decodes beside its work
START_SECONDS = 2.5  # that processes which are no copies take on a machine with two processors: each imports everything
SURELY_LONG_BYTES = 500_000_000  # of what cases need beyond ``CASE_BYTES``: more than a second's work in any format


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """How tasks are worked on.

    workers         processes
    is_in_process   whether the main process works: alone, or until it is known that more workers are faster
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
    check_workers(asked)
    memory = memory_left() if memory is None else memory
    largest = max(needs, default=0)
    workers = asked or 1
    if asked is None and len(cases) > 1:
        fitting = (memory.together - MAIN_BYTES) // (WORKER_BYTES + bytes_at_once(needs))
        workers = max(1, min(processors or usable_processors(), fitting))
    fits_easily = 2 * largest <= min(memory.together, memory.each)
    is_long = can_fork() and sum(needs) - CASE_BYTES * len(needs) >= SURELY_LONG_BYTES
    is_in_process = fits_easily and (workers == 1 or (asked is None and not is_long))
    return Plan(workers, is_in_process, asked is None, largest, memory.together)


def check_workers(asked: int | None) -> None:
    """Raise ValueError for a number of workers that cannot be."""
    if asked is not None and not (isinstance(asked, Integral) and asked >= 1):
        raise ValueError(f"workers is {asked!r}; expected a whole number from 1, or None for as many as fit")


def bytes_at_once(needs: Sequence[int]) -> int:
    """Memory that the cases which a worker takes at a time may need together."""
    return min(max(BYTES_AT_ONCE, *needs, 0), sum(needs))


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
    done = 0
    while done < len(tasks):
        try:
            for outcome in outcomes_of(function, tasks[done:], plan):
                done += 1
                if progress is not None:
                    progress(done, len(tasks))
                yield outcome
        except WorkerDied:
            if plan.workers == 1 or not plan.may_shrink:
                raise
            plan = replace(plan, workers=1, is_in_process=False)  # alone, and not at the cost of the main process


def outcomes_of(function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], plan: Plan) -> Iterator[Outcome]:
    """Outcomes in order, from a worker pool, the main process or workers of their own."""
    if plan.worker_pool is not None:
        yield from plan.worker_pool.outcomes(function, tasks, plan)
        return
    done = 0
    if plan.is_in_process:
        for outcome, seconds in of_main(function, tasks, plan):
            done += 1
            yield outcome
            if is_faster_shared(seconds, len(tasks) - done, plan.workers):
                break
    if done < len(tasks):
        try:
            yield from of_workers(function, tasks[done:], plan)
        except NoWorker:  # by the limit of processes; nothing was done yet
            yield from (outcome for outcome, _ in of_main(function, tasks[done:], plan))


def of_main(
    function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], plan: Plan
) -> Iterator[tuple[Outcome, float]]:
    """Outcomes in order, from the main process, each with the seconds that it took."""
    for task in tasks:
        began = time.perf_counter()
        try:
            outcome = function(*task)
        except MemoryError as error:
            raise out_of_memory("the main process", plan) from error
        yield outcome, time.perf_counter() - began


def is_faster_shared(seconds: float, tasks: int, workers: int) -> bool:
    """Whether workers save more time than it takes to start them, if each task takes so many seconds.

    >>> is_faster_shared(1.0, tasks=20, workers=2), is_faster_shared(1.0, tasks=1, workers=2)
    (True, False)
    """
    rounds = -(-tasks // workers)
    return seconds * (tasks - rounds) > 2 * (FORK_SECONDS if can_fork() else START_SECONDS)


def of_workers(function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], plan: Plan) -> Iterator[Outcome]:
    """Outcomes in order, from worker processes, which are gone when this ends, however it ends."""
    workers = min(plan.workers, len(tasks))
    if memory_left().each < CASE_BYTES:  # no room for a case, nor for the threads of a pool, which would never end
        raise out_of_memory("the main process", plan)
    try:
        if can_fork():
            yield from outcomes_of_forks(function, tasks, workers)
            return
        with LocalProcesses(workers) as pool:
            waiting = deque(pool.submit(function, *task) for task in tasks)
            while waiting:
                yield waiting.popleft().result()
    except (BrokenExecutor, WorkerLost) as error:
        if workers == 1:
            raise lost_worker("the only worker", plan) from error
        raise WorkerDied(fault("worker-died", f"one of {workers} workers")) from error
    except MemoryError as error:
        raise out_of_memory(f"one of {workers} workers" if workers > 1 else "the only worker", plan) from error


def lost_worker(where: str, plan: Plan) -> WorkerDied:
    return WorkerDied(fault("worker-died", where, wording="only-worker", case_megabytes=plan.case_bytes / 1e6))


def out_of_memory(where: str, plan: Plan) -> WorkerDied:
    return WorkerDied(fault("worker-died", where, wording="out-of-memory", case_megabytes=plan.case_bytes / 1e6))
