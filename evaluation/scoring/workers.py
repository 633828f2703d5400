"""Work on many cases, of one submission or of many: how many workers there is room for, and which of them does what.

What a case needs is estimated from its size and from its files, by constants that were measured (docs/organisers.md):

    side    16 bytes for each pixel + the bytes of its files     formats with a number for every pixel
            10 times the bytes of its files                      outlines, points, run-length codes
    case    32 MB + 3/2 of the larger of its two sides
    worker  150 MB for the program + the largest case

An estimate may be wrong. So a case that may not fit is worked on in a process of its own, whose end the main process
can report; and what a lost worker was at is tried again with nothing next to it. Results never depend on any of this.

A submission is a job: it asks for work on its cases, gets the outcomes, and comes to a result. The main process begins,
until it is known that several workers are faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

from evaluation.files.system import UNLIMITED, MemoryLeft, can_fork, memory_left, usable_processors
from evaluation.scoring.pool import CASE_BYTES, Answer, Pool, ProcessPool, Task, is_faster_shared

Progress = Callable[[int, int], None]  # is called with the number of parts that are done, and of all
Outcome = TypeVar("Outcome")
Item = TypeVar("Item")

WORKER_BYTES = 150_000_000  # with its launcher and two decoders, which share most of their memory with it
MAIN_BYTES = 256_000_000  # kept for the main process, which collects the results
CASES_AT_ONCE, SMALL_CASES_AT_ONCE = 8, 64  # that a worker takes at a time; of very many small ones
_TASKS_OF_WORKER = 4  # at least, before it takes more than ``CASES_AT_ONCE``
BYTES_AT_ONCE = 256_000_000  # that the cases which a worker takes at a time may need together, if they are several
SURELY_LONG_BYTES = 500_000_000  # of what cases need beyond ``CASE_BYTES``: more than a second's work in any format
TASKS_FOR_EACH = 4  # that are under way or waiting for each task that is worked on
IN_FLIGHT_UP_TO = 256  # jobs


def progress_of_round(progress: Progress | None, number: int, rounds: int) -> Progress | None:
    """The progress of one of several rounds over as many parts each: the bar goes through all of them once.

    >>> progress_of_round(lambda done, total: print(f"{done} of {total}"), 1, 3)(2, 8)
    10 of 24
    """
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, rounds * total)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A function that makes a list of outcomes of a list of items (cases), given what is common to all of them.

    needs      bytes of memory that each item takes beyond the program, by our estimate
    progress   is called with the number of parts that are done, and of all; not where many jobs are under way
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


Job = Generator[Work, list[Any], Outcome]


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WorkPlan:
    """How tasks are worked on.

    workers         processes
    is_in_process   whether the main process works: alone, or until it is known that more workers are faster
    tries_again     whether what one of several workers was at when it was lost is tried again
    """

    workers: int
    is_in_process: bool
    tries_again: bool


def plan_workers(
    asked: int | None, needs: Sequence[int], memory: MemoryLeft | None = None, processors: int | None = None
) -> _WorkPlan:
    """As many workers as were requested, otherwise as there are processors and as fit into the memory, at least one.

    needs        of each case, from ``memory_needs``
    memory       None: what is left now
    processors   None: those this process may use (affinity, limits of containers)
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
    """The items in order, in lists for the workers; those in a list need no more memory than the largest item may.

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


# --- one job ----------------------------------------------------------------------------------------------------------


def run_job(job: Job[Outcome], workers: int | None = None, executor: Executor | None = None) -> Outcome:
    """The result of a job. ``workers`` and ``executor`` as in ``run_work``; what these raise, the job may catch."""
    step: Callable[[], Work] = partial(next, job)
    while True:
        try:
            work = step()
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        try:
            step = partial(job.send, run_work(work, workers, executor))
        except Exception as error:  # noqa: BLE001 (the job may catch it)
            step = partial(job.throw, error)


def run_work(work: Work, workers: int | None = None, executor: Executor | None = None) -> list[Any]:
    """The outcomes of all items in their order, or of the first, up to the part that spends the last of the budget.

    workers   processes; with an executor, the tasks that it works on at once; None: chosen

    Raises WorkerDied if a worker is lost, or if memory runs out if it is not a file's fault, and WorkersLost.
    """
    if executor is not None:
        from evaluation.scoring.executors import ExecutorPool

        check_workers(workers)
        return run_on(ExecutorPool(executor, workers), work)
    plan = plan_workers(workers, work.needs)
    width = min(plan.workers, len(work.items)) or 1
    return run_on(ProcessPool(width, tries_again=plan.tries_again, main_begins=plan.is_in_process), work)


def run_on(pool: Pool, work: Work) -> list[Any]:
    """The outcomes of work, from a pool that works on nothing else. Its workers are gone at the end."""

    def ask(work: Work) -> Job[list[Any]]:
        return (yield work)

    with pool:
        ((_, outcomes),) = together([work], ask, pool, cases=1)
    return outcomes


# --- many jobs --------------------------------------------------------------------------------------------------------


def run_jobs(
    items: Sequence[Item],
    begin: Callable[[Item], Job[Outcome]],
    *,
    needs: Sequence[int],
    workers: int | None,
    executor: Executor | None,
    idle: Callable[[], object] = int,
) -> Generator[tuple[int, Outcome]]:
    """The index and the outcome of the job of every item (a submission), as they are done.

    needs     the bytes that each case of a submission needs, as far as it is known before
    workers   processes; with an executor, the tasks that it works on at once; None: chosen
    idle      is called every second in which nothing is done, as far as several items are worked on at once
    """
    check_workers(workers)
    done = 0
    if executor is not None:
        from evaluation.scoring.executors import ExecutorPool

        pool: Pool = ExecutorPool(executor, workers, tries_again=True)
    else:
        memory = memory_left()
        plan = plan_workers(workers, [*needs] * min(len(items), 1000), memory)
        while done < len(items) and (plan.workers == 1 or plan.is_in_process or len(items) == 1):
            began = time.perf_counter()
            yield done, run_job(begin(items[done]), 1 if plan.is_in_process and len(items) > 1 else workers)
            done += 1
            if is_faster_shared(time.perf_counter() - began, len(items) - done, plan.workers):
                break
        bytes_each = (memory.together - MAIN_BYTES) // plan.workers - WORKER_BYTES if workers is None else UNLIMITED
        pool = ProcessPool(plan.workers, tries_again=True, bytes_each=bytes_each)
    if done < len(items):
        with pool:
            for place, outcome in together(items[done:], begin, pool, len(needs), idle):
                yield done + place, outcome


@dataclass(slots=True, eq=False)
class _JobUnderWay:
    """A job, its place among all, the work that it requested, and the tasks of it with the answers to them.

    known   answers that came, without a gap, up to an error or the one that spends the last of the budget
    budget  what is left of it behind these
    """

    place: int
    job: Job[Any]
    work: Work | None = None
    numbers: list[int] = field(default_factory=list)
    answers: list[Answer | None] = field(default_factory=list)
    known: list[Answer] = field(default_factory=list)
    budget: int = 0

    def begin(self, work: Work, numbers: list[int]) -> None:
        self.work, self.numbers, self.answers = work, numbers, [None] * len(numbers)
        self.known, self.budget = [], work.budget

    def is_done(self) -> bool:
        """Return whether all answers arrived, or enough of them: up to an error, or up to the end of the budget."""
        assert self.work is not None
        for answer in self.answers[len(self.known) :]:
            if answer is None or self.budget <= 0:
                break
            self.known.append(answer)
            self.budget -= self.budget if answer.error is not None else sum(map(self.work.spent, answer.outcome))
            if self.work.progress is not None and answer.error is None:
                self.work.progress(len(self.known), len(self.answers))
        return self.budget <= 0 or len(self.known) == len(self.answers)

    def proceed(self) -> Callable[[], Work]:
        """Hand the answers to the job and go on with it."""
        if self.known[-1].error is not None:
            return partial(self.job.throw, self.known[-1].error)
        return partial(self.job.send, [outcome for answer in self.known for outcome in answer.outcome])


def together(
    items: Sequence[Item],
    begin: Callable[[Item], Job[Outcome]],
    pool: Pool,
    cases: int,
    idle: Callable[[], object] = int,
) -> Iterator[tuple[int, Outcome]]:
    """The place and the outcome of each job, as they are done; so many are under way that no worker waits.

    How many is bounded by the tasks that workers can use, so that ten thousand submissions are not in memory together.
    What a job comes to never depends on the others.
    """
    width = pool.width
    parts = -(-width // len(items))
    most = max(2, min(IN_FLIGHT_UP_TO, -(-TASKS_FOR_EACH * width // max(parts, -(-cases // CASES_AT_ONCE)))))
    askers: dict[int, tuple[_JobUnderWay, int]] = {}  # of tasks, by number
    waiting = iter(enumerate(items))
    under_way = 0

    def proceed(job: _JobUnderWay, step: Callable[[], Work]) -> Iterator[tuple[int, Outcome]]:
        nonlocal under_way
        while True:
            try:
                work = step()
            except StopIteration as end:
                under_way -= 1
                yield job.place, end.value
                return
            job.begin(work, [pool.submit(task) for task in work.tasks(parts)])
            askers.update((number, (job, index)) for index, number in enumerate(job.numbers))
            if job.numbers:
                return
            step = partial(job.job.send, [])

    while True:
        while under_way < most and (entry := next(waiting, None)) is not None:
            job = _JobUnderWay(entry[0], begin(entry[1]))
            under_way += 1
            yield from proceed(job, partial(next, job.job))
        if not under_way:
            return
        answers = pool.answers()
        if not answers:
            idle()
        for answer in answers:
            if answer.number not in askers:  # nobody wants to know it any more
                continue
            job, index = askers.pop(answer.number)
            job.answers[index] = answer
            if job.is_done():
                for number in job.numbers:
                    if askers.pop(number, None):
                        pool.drop(number)
                yield from proceed(job, job.proceed())
