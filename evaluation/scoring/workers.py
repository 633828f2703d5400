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

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

from evaluation.files.system import UNLIMITED, MemoryLeft, can_fork, memory_left, usable_processors
from evaluation.findings.errors import NoRoomBeside
from evaluation.scoring.pool import CASE_BYTES, Answer, Pool, ProcessPool, Task, answer_of

Progress = Callable[[int, int], None]  # is called with the number of parts that are done, and of all
Outcome = TypeVar("Outcome")
Item = TypeVar("Item")

WORKER_BYTES = 150_000_000  # with its launcher and two decoders, which share most of their memory with it
MAIN_BYTES = 256_000_000  # kept for the main process, which collects the results
CASES_AT_ONCE, SMALL_CASES_AT_ONCE = 8, 64  # that a worker takes at a time; of very many small ones
_TASKS_OF_WORKER = 4  # at least, before it takes more than ``CASES_AT_ONCE``
BYTES_AT_ONCE = 256_000_000  # that the cases which a worker takes at a time may need together, if they are several
SURELY_LONG_BYTES = 500_000_000  # of what cases need beyond ``CASE_BYTES``: more than a second's work in any format
RESULT_BYTES = 50_000  # that the counts of a case take until they are summarised


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

    def tasks(self, parts: int) -> list[Task]:
        """The work in about so many parts, or more, as memory is bounded."""
        largest = max(self.needs, default=0)
        lists = batches(self.items, self.needs, parts, self.at_once)
        return [Task(self.function, (*self.common, batch), largest) for batch in lists]


Run = Callable[[Work], list[Any]]


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WorkPlan:
    """How tasks are worked on.

    workers         processes
    is_in_process   whether the main process works: alone, or until more workers are known to be faster
    tries_again     whether the task of a lost worker, among several, runs again
    """

    workers: int
    is_in_process: bool
    tries_again: bool


def plan_workers(
    asked: int | None, needs: Sequence[int], memory: MemoryLeft | None = None, processors: int | None = None
) -> _WorkPlan:
    """As many workers as were requested, otherwise as there are processors and as fit into the memory, at least one.

    needs        of each case, from ``memory_needs``
    memory       None: the free memory now
    processors   None: the processors of this process (affinity, limits of containers)
    """
    check_workers(asked)
    memory = memory_left() if memory is None else memory
    largest = max(needs, default=0)
    workers = asked or 1
    if asked is None and len(needs) > 1:
        fitting = (memory.together - MAIN_BYTES) // (WORKER_BYTES + _bytes_at_once(needs))
        workers = max(1, min(processors or usable_processors(), fitting))
    fits_easily = 2 * largest <= min(memory.together, memory.each)
    is_long = can_fork() and sum(needs) - CASE_BYTES * len(needs) >= SURELY_LONG_BYTES
    is_in_process = fits_easily and (workers == 1 or (asked is None and not is_long))
    return _WorkPlan(workers, is_in_process, asked is None and workers > 1)


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


# --- one submission ---------------------------------------------------------------------------------------------------


def run_work(
    work: Work, workers: int | None = None, executor: Executor | None = None, *, tries_again: bool = False
) -> list[Any]:
    """The outcomes of all items in their order, or of the first, up to the part that spends the last of the budget.

    workers   processes; with an executor, its parallel tasks; None: chosen
    tries_again  what a lost worker was at, even if somebody chose the number of workers

    Raises WorkerDied if a worker is lost, or if memory runs out if it is not a file's fault, and WorkersLost.
    """
    if executor is not None:
        from evaluation.scoring.executors import ExecutorPool

        check_workers(workers)
        return run_on(ExecutorPool(executor, workers, tries_again=tries_again), work)
    plan = plan_workers(workers, work.needs)
    width = min(plan.workers, len(work.items)) or 1
    pool = ProcessPool(width, tries_again=tries_again or plan.tries_again, main_begins=plan.is_in_process)
    return run_on(pool, work)


def run_on(pool: Pool, work: Work) -> list[Any]:
    """The outcomes of work, from a pool that works on nothing else. Its workers are gone at the end."""
    with pool:
        numbers = [pool.submit(task) for task in work.tasks(pool.width)]
        return _collect(work, len(numbers), pool.in_order(numbers))


def run_here(work: Work, bytes_each: int = UNLIMITED) -> list[Any]:
    """``run_work`` in this process, which may be one of several. Raises NoRoomBeside.

    bytes_each  of memory that a case may need beside other workers
    """
    from evaluation.files.decoding.guard import of_thread

    if of_thread.share is not None and max(work.needs, default=0) > bytes_each:
        raise NoRoomBeside
    tasks = work.tasks(1)
    return _collect(work, len(tasks), (task.function(*task.arguments) for task in tasks))


def _collect(work: Work, parts: int, outcomes: Iterable[Sequence[Any]]) -> list[Any]:
    """Join the outcomes of the parts, up to the one that spends the last of the budget."""
    joined: list[Any] = []
    budget = work.budget
    for done, of_part in enumerate(outcomes, start=1):
        joined += of_part
        if work.progress is not None:
            work.progress(done, parts)
        budget -= sum(map(work.spent, of_part))
        if budget <= 0:
            break
    return joined


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
) -> Generator[tuple[int, Answer]]:
    """The index of every item (a submission) and what a function came to, or its error, as they are done.

    Each worker takes a submission at a time; if these are too few or too large, all workers take the cases of one after
    the other.

    function  is given what is common to all, then what runs the work on the cases of an item, then the item
    needs     the memory of each case of a submission, bytes, if known in advance
    workers   processes; with an executor, its parallel tasks; None: chosen
    idle      is called every idle second, if several items run in parallel
    """
    check_workers(workers)
    bytes_each = UNLIMITED
    need = _bytes_at_once(needs) + RESULT_BYTES * len(needs)
    if executor is not None:
        from evaluation.scoring.executors import ExecutorPool

        pool: Pool = ExecutorPool(executor, workers, tries_again=True)
    else:
        memory = memory_left()
        plan = plan_workers(workers, [*needs] * min(len(items), 1000), memory)
        if workers is None:
            bytes_each = (memory.together - MAIN_BYTES) // plan.workers - WORKER_BYTES
        pool = ProcessPool(plan.workers, tries_again=True, bytes_each=bytes_each, main_begins=plan.is_in_process)
    if need > bytes_each or len(items) < min(pool.width, -(-len(needs) // CASES_AT_ONCE)):
        run: Run = partial(run_work, workers=workers, executor=executor, tries_again=True)
        for index, item in enumerate(items):
            yield index, answer_of(index, Task(function, (*common, run, item)))
        return
    run = partial(run_here, bytes_each=bytes_each)
    with pool:
        tasks = [Task(function, (*common, run, item), need) for item in items]
        index_of = {pool.submit(task): index for index, task in enumerate(tasks)}
        while index_of:
            answers = pool.answers()
            if not answers:
                idle()
            for answer in answers:
                yield index_of.pop(answer.number), answer
