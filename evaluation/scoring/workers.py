"""Work on many cases, of one submission or of many: how many workers there is room for, and which of them does what.

The memory of a case is estimated from its size and files, by measured constants (docs/organisers.md):

    side    16 bytes for each pixel + the bytes of its files     formats with a number for every pixel
            10 times the bytes of its files                      outlines, points, run-length codes
    case    32 MB + 3/2 of the larger of its two sides
    worker  150 MB for the program + the largest case

An estimate may be wrong. So a case that may not fit runs in a separate process, and the main process can report its
end; the task of a lost worker runs again alone. Results never depend on this.

The main process begins, until it is known that several workers are faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from evaluation.files.system import UNLIMITED, MemoryLeft, can_fork, memory_left, usable_processors
from evaluation.findings import fault
from evaluation.findings.errors import NoRoomBeside, WorkerDied, WorkersLost

Progress = Callable[[int, int], None]  # is called with the number of parts that are done, and of all
Outcome = TypeVar("Outcome")
Item = TypeVar("Item")

CASE_BYTES = 32_000_000  # that any case needs
WORKER_BYTES = 150_000_000  # with its launcher and two decoders, which share most of their memory with it
MAIN_BYTES = 256_000_000  # kept for the main process, which collects the results
CASES_AT_ONCE, SMALL_CASES_AT_ONCE = 8, 64  # that a worker takes at a time; of very many small ones
_TASKS_OF_WORKER = 4  # at least, before it takes more than ``CASES_AT_ONCE``
BYTES_AT_ONCE = 256_000_000  # that the cases which a worker takes at a time may need together, if they are several
SURELY_LONG_BYTES = 500_000_000  # of what cases need beyond ``CASE_BYTES``: more than a second's work in any format
RESULT_BYTES = 50_000  # that the counts of a case take until they are summarised
FORK_SECONDS = 0.2  # that copies of this process cost: to start, and since one process already decodes beside its work
START_SECONDS = 2.5  # that processes which are no copies take on a machine with two processors: each imports everything
WATCH_SECONDS = 1  # after which one who waits for answers looks up


def progress_of_round(progress: Progress | None, number: int, rounds: int) -> Progress | None:
    """Progress of one of several rounds over equally many parts: the bar covers all rounds once.

    >>> progress_of_round(lambda done, total: print(f"{done} of {total}"), 1, 3)(2, 8)
    10 of 24
    """
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, rounds * total)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A function from the common inputs and a list of items (cases) to a list of outcomes.

    needs      bytes of memory that each item takes beyond the program, by our estimate
    progress   is called with the number of parts that are done, and of all
    at_once    items that a worker takes at a time, at most
    budget     what all outcomes together may spend: behind the part that spends the last of it, nothing is worked on
    spent      what an outcome spends
    """

    function: Callable[..., Sequence[Any]]
    common: tuple[Any, ...]
    items: Sequence[Any]
    needs: Sequence[int]
    progress: Progress | None = None
    at_once: int = SMALL_CASES_AT_ONCE
    budget: int = UNLIMITED
    spent: Callable[[Any], int] = lambda outcome: 0

    def tasks(self, parts: int) -> list[partial[Any]]:
        """The work in about so many parts, or more, as memory is bounded."""
        lists = batches(self.items, self.needs, parts, self.at_once)
        return [partial(self.function, *self.common, batch) for batch in lists]


Run = Callable[[Work], list[Any]]


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WorkPlan:
    """How tasks are worked on.

    workers         processes, or parallel tasks of the executor
    is_in_process   whether the main process works: alone, or until more workers are known to be faster
    tries_again     whether the task of a lost worker, among several, runs again
    executor        of somebody else; None: processes of this machine
    case_bytes      memory that the largest case needs, by our estimate
    """

    workers: int
    is_in_process: bool
    tries_again: bool
    executor: Executor | None = None
    case_bytes: int = 0

    def open(self, tasks: Sequence[Callable[[], Any]]) -> Executor | None:
        """Return an executor for the tasks; None if no worker can be started here."""
        if self.executor is not None:
            from evaluation.scoring.executors import LentExecutor

            return LentExecutor(self.executor, self.workers)
        from evaluation.scoring.processes import ProcessExecutor

        try:
            enough = memory_left().each >= CASE_BYTES
            return ProcessExecutor(min(self.workers, len(tasks)), tasks) if enough else None
        except (OSError, RuntimeError):
            return None

    def watch(self) -> None:
        """Raise WorkersLost if the executor is a cluster without workers."""
        if watch := getattr(self.executor, "watch", None):
            watch.has_workers()

    def died(self, error: BaseException, where: str) -> WorkerDied:
        """The finding about a process that was lost or had no memory left."""
        wording = "out-of-memory" if isinstance(error, MemoryError) else "only-worker"
        if wording == "only-worker" and where.startswith("one of"):
            return WorkerDied(fault("worker-died", where))
        return WorkerDied(fault("worker-died", where, wording=wording, case_megabytes=self.case_bytes / 1e6))


def plan_workers(
    asked: int | None,
    needs: Sequence[int],
    memory: MemoryLeft | None = None,
    processors: int | None = None,
    *,
    executor: Executor | None = None,
    tries_again: bool = False,
) -> _WorkPlan:
    """As many workers as were requested, otherwise as there are processors and as fit into the memory, at least one.

    needs        of each case, from ``memory_needs``
    memory       None: the free memory now
    processors   None: the processors of this process (affinity, limits of containers)
    """
    check_workers(asked)
    largest = max(needs, default=0)
    if executor is not None:
        from evaluation.scoring.executors import tasks_at_once

        return _WorkPlan(asked or tasks_at_once(executor), False, tries_again, executor, largest)
    memory = memory_left() if memory is None else memory
    workers = asked or 1
    if asked is None and len(needs) > 1:
        fitting = (memory.together - MAIN_BYTES) // (WORKER_BYTES + _bytes_at_once(needs))
        workers = max(1, min(processors or usable_processors(), fitting))
    fits_easily = 2 * largest <= min(memory.together, memory.each)
    is_long = can_fork() and sum(needs) - CASE_BYTES * len(needs) >= SURELY_LONG_BYTES
    is_in_process = fits_easily and (workers == 1 or (asked is None and not is_long))
    is_chosen = asked is None and workers > 1
    return _WorkPlan(workers, is_in_process, tries_again or is_chosen, case_bytes=largest)


def check_workers(asked: int | None) -> None:
    """Raise ValueError for a number of workers that cannot be."""
    if asked is not None and not (isinstance(asked, Integral) and asked >= 1):
        raise ValueError(f"workers is {asked!r}; expected a whole number from 1, or None for as many as fit")


def _bytes_at_once(needs: Sequence[int]) -> int:
    """Memory that the cases which a worker takes at a time may need together."""
    return min(max(BYTES_AT_ONCE, *needs, 0), sum(needs))


def batches(
    items: Sequence[Item], needs: Sequence[int], workers: int, at_once: int = SMALL_CASES_AT_ONCE
) -> list[list[Item]]:
    """The items in order, in lists for the workers; the items of a list together need no more memory than the largest
    item.

    >>> batches("abcdefg", [1] * 7, workers=2)
    [['a', 'b', 'c', 'd'], ['e', 'f', 'g']]
    >>> batches("abc", [BYTES_AT_ONCE - 1, 1, 1], workers=1)
    [['a', 'b'], ['c']]
    """
    fair = -(-len(items) // workers)
    most = min(at_once, fair, max(CASES_AT_ONCE, fair // _TASKS_OF_WORKER))
    of_program = CASE_BYTES if most > CASES_AT_ONCE else 0  # is needed once, however many cases there are
    bytes_at_once = max([BYTES_AT_ONCE, *needs])
    lists: list[list[Item]] = []
    held = 0
    for item, needed in zip(items, needs, strict=True):
        beyond = max(needed - of_program, 0)
        if not lists or len(lists[-1]) == most or held + beyond > bytes_at_once:
            lists.append([])
            held = 0
        lists[-1].append(item)
        held += beyond
    return lists


def is_faster_shared(seconds: float, tasks: int, workers: int) -> bool:
    """Return whether workers save more time than it takes to start them, if each task takes so many seconds.

    >>> is_faster_shared(1.0, tasks=20, workers=2), is_faster_shared(1.0, tasks=1, workers=2)
    (True, False)
    """
    rounds = -(-tasks // workers)
    return seconds * (tasks - rounds) > 2 * (FORK_SECONDS if can_fork() else START_SECONDS)


_ONLY_HERE = _WorkPlan(1, is_in_process=True, tries_again=False)

# --- answers ----------------------------------------------------------------------------------------------------------


def _answers(
    tasks: Sequence[Callable[[], Any]], plan: _WorkPlan, idle: Callable[[], object] = int
) -> Generator[tuple[int, Future[Any]]]:
    """Yield the number of each task and its future when it is done.

    The main process begins if the plan says so, and goes on if no worker can be started. The task of a lost worker, or
    of one without memory, runs again alone after all others if the plan says so, because another task may have been
    the cause; a task with a file that needs more than the free memory always does.

    idle  is called every idle second
    """
    waiting = dict(enumerate(tasks))
    works_here, executor = plan.is_in_process, None
    while waiting and (works_here or (executor := plan.open([*waiting.values()])) is None):
        future: Future[Any] = Future()
        began, number = time.perf_counter(), next(iter(waiting))
        task = waiting.pop(number)
        try:
            if not works_here and memory_left().each < CASE_BYTES:
                raise MemoryError
            future.set_result(task())
        except MemoryError as error:
            future.set_exception(error if plan is _ONLY_HERE else plan.died(error, "the main process"))
        except Exception as error:  # noqa: BLE001, of the task: raised again where its outcome is wanted
            future.set_exception(error)
        seconds = time.perf_counter() - began
        works_here = works_here and not is_faster_shared(seconds, len(waiting), plan.workers)
        yield number, future
    if executor is not None:
        yield from _answers_of_workers(executor, waiting, plan, idle)


def _answers_of_workers(
    executor: Executor, tasks: Mapping[int, Callable[[], Any]], plan: _WorkPlan, idle: Callable[[], object]
) -> Generator[tuple[int, Future[Any]]]:
    """Yield the number of each task and its future when the workers of an executor are done with it."""
    width = min(plan.workers, len(tasks))
    who = "a worker" if plan.executor else "the only worker" if width == 1 else f"one of {width} workers"
    postponed: list[int] = []
    try:
        for number, future in _finished(executor, tasks, plan.watch, idle):
            failure = future.exception()
            if isinstance(failure, WorkersLost):
                raise failure
            if isinstance(failure, BrokenExecutor | MemoryError):
                if plan.tries_again or isinstance(failure, NoRoomBeside):
                    postponed.append(number)
                    continue
                future = Future()
                future.set_exception(plan.died(failure, who))
            yield number, future
    finally:
        executor.shutdown(cancel_futures=True)
    alone = replace(plan, workers=1, is_in_process=False, tries_again=False)
    for number in postponed:
        for _, future in _answers([tasks[number]], alone, idle):
            yield number, future


def _finished(
    executor: Executor, tasks: Mapping[int, Callable[[], Any]], *idle: Callable[[], object]
) -> Iterator[tuple[int, Future[Any]]]:
    """Yield the number of each task and its future when an executor is done with it."""
    done: SimpleQueue[Future[Any]] = SimpleQueue()
    numbers: dict[Future[Any], int] = {}
    for number, task in tasks.items():
        numbers[future := executor.submit(task)] = number
        future.add_done_callback(done.put)
    while numbers:
        try:
            future = done.get(timeout=WATCH_SECONDS)
        except Empty:
            for function in idle:
                function()
        else:
            yield numbers.pop(future), future


# --- one submission ---------------------------------------------------------------------------------------------------


def run_work(
    work: Work,
    workers: int | None = None,
    executor: Executor | None = None,
    *,
    tries_again: bool = False,
    plan: _WorkPlan | None = None,
) -> list[Any]:
    """The outcomes of all items in their order, or of the first, up to the part that spends the last of the budget.

    workers   processes; with an executor, its parallel tasks; None: chosen
    tries_again  what a lost worker was at, even if somebody chose the number of workers

    Raises WorkerDied if a worker is lost, or if memory runs out if it is not a file's fault, and WorkersLost.
    """
    plan = plan or plan_workers(workers, work.needs, executor=executor, tries_again=tries_again)
    tasks = work.tasks(plan.workers)
    joined: list[Any] = []
    early: dict[int, Future[Any]] = {}
    done, budget = 0, work.budget
    with closing(_answers(tasks, plan)) as answers:
        for number, future in answers:
            early[number] = future
            while budget > 0 and done in early:
                of_part = early.pop(done).result()
                joined += of_part
                done += 1
                budget -= sum(map(work.spent, of_part))
                if work.progress is not None:
                    work.progress(done, len(tasks))
            if budget <= 0:
                break
    return joined


def run_here(work: Work, bytes_each: int = UNLIMITED) -> list[Any]:
    """``run_work`` in this process, which may be one of several. Raises NoRoomBeside.

    bytes_each  of memory that a case may need beside other workers
    """
    from evaluation.files.decoding.guard import of_thread

    if of_thread.share is not None and max(work.needs, default=0) > bytes_each:
        raise NoRoomBeside
    return run_work(work, plan=_ONLY_HERE)


# --- many submissions -------------------------------------------------------------------------------------------------


def run_many(
    function: Callable[..., Any],
    common: tuple[Any, ...],
    items: Sequence[Any],
    *,
    needs: Sequence[int],
    workers: int | None,
    executor: Executor | None,
    idle: Callable[[], object] = int,
) -> Generator[tuple[int, Future[Any]]]:
    """Yield the index of every item (a submission) and the future of its outcome, as they are done.

    Each worker takes a submission at a time; if these are too few or too large, all workers take the cases of one after
    the other.

    function  is given what is common to all, then what runs the work on the cases of an item, then the item
    needs     the memory of each case of a submission, bytes, if known in advance
    workers   processes; with an executor, its parallel tasks; None: chosen
    idle      is called every idle second, if several items run in parallel
    """
    memory = memory_left()
    plan = plan_workers(workers, [*needs] * min(len(items), 1000), memory, executor=executor, tries_again=True)
    bytes_each, need = UNLIMITED, _bytes_at_once(needs) + RESULT_BYTES * len(needs)
    if executor is None and workers is None:
        bytes_each = (memory.together - MAIN_BYTES) // plan.workers - WORKER_BYTES
    run: Run = partial(run_here, bytes_each=bytes_each)
    if need > bytes_each or len(items) < min(plan.workers, -(-len(needs) // CASES_AT_ONCE)):
        plan, run = _ONLY_HERE, partial(run_work, workers=workers, executor=executor, tries_again=True)
    tasks = [partial(function, *common, run, item) for item in items]
    return _answers(tasks, plan if plan is _ONLY_HERE else replace(plan, case_bytes=need), idle)
