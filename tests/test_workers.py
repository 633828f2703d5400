"""Workers, what they share, and what they keep between submissions: no byte depends on it."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import small_document, write_files, write_rules
from killer import kill_in_a_crowd, kill_worker, wait_for_ever

from evaluation import Case, Challenge
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.formats.format import image_bytes
from evaluation.files.submission import CaseFile, open_submission
from evaluation.files.system import UNLIMITED, MemoryLeft, can_fork, memory_left
from evaluation.findings.errors import WorkerDied, WorkersLost, WrongUsage, refused
from evaluation.scoring import executors, street, workers
from evaluation.scoring import read as module
from evaluation.scoring.match import MatchedCase
from evaluation.scoring.processes import ProcessExecutor, WorkerLost
from evaluation.scoring.read import SharedCases, Store, file_states, kept_references, rules_of_references
from evaluation.scoring.receive import memory_needs, receive_submission
from evaluation.scoring.score import ScoredCases, summarise
from evaluation.scoring.street import score_submission
from evaluation.scoring.workers import (
    BYTES_AT_ONCE,
    CASE_BYTES,
    CASES_AT_ONCE,
    MAIN_BYTES,
    SURELY_LONG_BYTES,
    WORKER_BYTES,
    Run,
    Work,
    batches,
    plan_workers,
    run_here,
    run_work,
)
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import empty_region
from nuclei_metrics.model import CaseResult, Outlines
from nuclei_metrics.model.instances import join_instances

MB, GB = 10**6, 10**9


# --- what is left -----------------------------------------------------------------------------------------------------


V1, V2 = "sys/fs/cgroup/memory/memory", "sys/fs/cgroup"
LEFT = {  # files of the kernel, and the memory that is left to all processes together
    # Version 1 gives back cached files. As docker shows it: the path is that of the host, the limit lies at the mount.
    "version 1": ({
        "proc/self/cgroup": "12:memory:/docker/0123abcd\n3:cpu,cpuacct:/docker/0123abcd\n0::/docker/0123abcd",
        f"{V1}.limit_in_bytes": 7 * GB, f"{V1}.usage_in_bytes": 3 * GB,
        f"{V1}.stat": "cache 9\ntotal_active_file 400000000\ntotal_inactive_file 600000000",
        "proc/meminfo": f"MemTotal: 64000000 kB\nMemAvailable: {20 * GB // 1024} kB",
    }, 5 * GB),
    # Version 2 asks the parents, too.
    **{f"version 2, parent {limit}": ({
        "proc/self/cgroup": "0::/slice/scope",
        f"{V2}/slice/memory.max": limit, f"{V2}/slice/memory.current": 1 * GB,
        f"{V2}/slice/scope/memory.max": 1600 * MB, f"{V2}/slice/scope/memory.current": 200 * MB,
        f"{V2}/slice/scope/memory.stat": "anon 5\nactive_file 40000000\ninactive_file 60000000\nfile 7",
    }, left) for limit, left in (("max", 1500 * MB), (2 * GB, 1 * GB))},
    "version 2 in a container, the limit at the root": ({
        "proc/self/cgroup": "0::/../../other", f"{V2}/memory.max": 900 * MB, f"{V2}/memory.current": 1 * MB
    }, 899 * MB),
    "hybrid groups of a host without limit": ({
        "proc/self/cgroup": "4:memory:/user\n0::/user", f"{V1}.limit_in_bytes": 9223372036854771712,
        f"{V1}.usage_in_bytes": 5, "proc/meminfo": "MemAvailable: 1000 kB",
    }, 1000 * 1024),
    "more used than allowed": (
        {"proc/self/cgroup": "0::/", f"{V2}/memory.max": 100, f"{V2}/memory.current": 200}, 0
    ),
    "nothing": ({}, UNLIMITED),
    "no paths": ({"proc/self/cgroup": "nonsense\n::\n0::"}, UNLIMITED),
    "no numbers": (
        {"proc/self/cgroup": "0::/", f"{V2}/memory.max": "many", f"{V2}/memory.current": "-3"}, UNLIMITED
    ),
    "no use": ({"proc/self/cgroup": "0::/", f"{V2}/memory.max": 9, "proc/meminfo": "MemAvailable: lots"}, UNLIMITED),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_the_memory_that_is_left_is_what_the_kernel_says(tmp_path, name):
    files, left = LEFT[name]
    assert memory_left(write_files(tmp_path, files)).together == left


@pytest.mark.parametrize("kind", [resource.RLIMIT_DATA, resource.RLIMIT_AS])
def test_limits_of_the_process_count_less_what_it_has(kind):
    """The real limits, in a process of its own: at most what the limit leaves, and that much can really be taken."""
    script = (
        "import resource\n"
        f"resource.setrlimit({kind}, (3 * 10**9, 3 * 10**9))\n"
        "from evaluation.files.system import memory_left\n"
        "left = memory_left().each\n"
        "taken = bytearray(left - 50 * 10**6)\n"
        "print(left)\n"
        "try:\n"
        "    bytearray(left - 50 * 10**6)\n"
        "except MemoryError:\n"
        "    print('no more')\n"
    )
    done = run([sys.executable, "-c", script])
    left, last = done.stdout.split("\n", 1)
    assert 0 < int(left) < 3 * GB
    assert last == "no more\n"


def run(command, *, data_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """A command with a limit on its data, and on those of its workers."""

    def limit() -> None:
        if data_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))

    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )


# --- what a case needs ------------------------------------------------------------------------------------------------

DENSE_AND_OUTLINES = Challenge.from_preset("monusac2020", name="outlines against label images")


def test_needs_follow_the_formula_of_the_larger_side(tmp_path):
    case, other = Case("c1", "P1", 2000, 3000), Case("c2", "P1", 10, 10)
    write_files(
        tmp_path, {"challenge/reference/P1/c1.xml": "x" * 10**7, "challenge/reference/P1/c2.xml.gz": "x" * 1000}
    )
    write_files(tmp_path, {"team/P1/c1/Epithelial/1.mat": "x" * 2000, "team/P1/c1/Lymphocyte/1.mat": "x" * 1000})
    files = open_submission(tmp_path / "team", DENSE_AND_OUTLINES.limits)
    contents = {"c1": tuple(CaseFile(name, 1) for name in files.names)}
    needs = memory_needs(
        DENSE_AND_OUTLINES, (case, other), folder=tmp_path / "challenge", files=files, contents=contents
    )
    outlines, dense = 10 * 10_000_000, 16 * 6_000_000 + 3000
    assert needs == [CASE_BYTES + 3 * max(outlines, dense) // 2, CASE_BYTES + 3 * 10 * 12 * 1000 // 2]
    without_reference = memory_needs(DENSE_AND_OUTLINES, (case, other), files=files, contents=contents)
    assert without_reference == [CASE_BYTES + 3 * dense // 2, CASE_BYTES]


def test_what_shared_files_say_counts_as_it_lies_in_memory():
    square = np.array([[0.0, 0], [4, 0], [4, 4], [0, 4]])
    outlines = Outlines(square, *(np.array(a) for a in ([0, 4], [0], [False], [1], [1])))
    shared = SharedCases({"c1": Annotations((outlines, outlines))})
    case = Case("c1", "P1", 20, 20)
    assert memory_needs(DENSE_AND_OUTLINES, [case], shared=shared) == [CASE_BYTES + 3 * 10 * 2 * square.nbytes // 2]


def test_files_that_cannot_be_opened_are_not_counted_and_told_later(tmp_path):
    write_files(tmp_path, {"team/P1/c1/Epithelial/1.mat": "x"})
    files = open_submission(tmp_path / "team", DENSE_AND_OUTLINES.limits)
    (tmp_path / "team/P1/c1/Epithelial/1.mat").unlink()
    contents = {"c1": (CaseFile(files.names[0], 1),)}
    case = Case("c1", "P1", 10, 10)
    needs = memory_needs(DENSE_AND_OUTLINES, [case], folder=tmp_path, files=files, contents=contents)
    assert needs == [CASE_BYTES + 3 * 16 * 100 // 2]


# --- the plan ---------------------------------------------------------------------------------------------------------


LONG = CASE_BYTES + SURELY_LONG_BYTES // 2
ROOM = [MemoryLeft(MAIN_BYTES + number * (WORKER_BYTES + GB)) for number in range(9)]
TIGHT = MemoryLeft(MAIN_BYTES + 2 * (WORKER_BYTES + BYTES_AT_ONCE))


@pytest.mark.parametrize("asked, needs, memory, processors, number, is_in_process", [
    *((None, [GB] * 20, memory, 8, number, None) for memory, number in (
        (MemoryLeft(), 8), (ROOM[8], 8), (ROOM[3], 3))),  # as many as processors and memory allow
    (None, [GB] * 20, MemoryLeft(GB), 8, 1, False),
    (None, [40 * MB] * 20, TIGHT, 8, 2, True),  # small cases count by what a worker takes at a time
    (None, [CASE_BYTES] * 2, MemoryLeft(), 2, 2, True),  # the main process begins with a small set
    (None, [CASE_BYTES], MemoryLeft(), 2, 1, True),
    (None, [LONG] * 2, MemoryLeft(), 2, 2, None),  # what surely takes long is shared at once
    (6, [GB] * 20, MemoryLeft(GB), 2, 6, False),  # who asks gets it
    (np.int64(1), [GB], MemoryLeft(), 2, 1, True),
    *((asked, [GB], memory, 2, 1, False) for asked in (None, 1) for memory in (
        MemoryLeft(2 * GB - 1), MemoryLeft(each=2 * GB - 1))),  # what may not fit has a process of its own
    *((asked, [GB], MemoryLeft(2 * GB, 2 * GB), 2, 1, True) for asked in (None, 1)),
])  # fmt: skip
def test_as_many_workers_as_are_asked_for_or_as_processors_and_memory_allow(
    asked, needs, memory, processors, number, is_in_process
):
    """``is_in_process`` None: if workers are no copies of this process."""
    plan = plan_workers(asked, needs, memory, processors)
    is_in_process = not can_fork() if is_in_process is None else is_in_process
    expected = (number, is_in_process, asked is None and number > 1)
    assert (plan.workers, plan.is_in_process, plan.tries_again) == expected


@pytest.mark.parametrize(("left", "width"), [(700 * MB, 1), (4 * GB, 8)])
def test_work_is_planned_with_the_memory_and_the_processors_of_the_machine(monkeypatch, left, width):
    monkeypatch.setattr(workers, "memory_left", lambda: MemoryLeft(left))
    monkeypatch.setattr(workers, "usable_processors", lambda: 8)
    assert plan_workers(None, [220 * MB] * 4).workers == width


@pytest.mark.parametrize("asked", [0, -1, 1.5, "2"])
def test_a_number_of_workers_that_cannot_be_is_refused(asked):
    """-1 never came to an end, 0 was 1."""
    with pytest.raises(ValueError, match=r"workers is .*; expected a whole number from 1"):
        plan_workers(asked, [])


def test_batches_keep_the_order_and_never_hold_more_than_the_largest_case_may():
    rng = np.random.default_rng(3)
    for _ in range(50):
        needs = [int(need) for need in rng.integers(1, BYTES_AT_ONCE * 2, rng.integers(1, 40))]
        found = batches(range(len(needs)), needs, workers=int(rng.integers(1, 9)))
        assert [item for part in found for item in part] == list(range(len(needs)))
        assert all(sum(needs[item] for item in part) <= max(BYTES_AT_ONCE, *needs, 0) for part in found)
        assert max(map(len, found)) <= CASES_AT_ONCE
    assert batches([], [], workers=3) == []


# --- the executors ----------------------------------------------------------------------------------------------------

TWO = replace(plan_workers(2, []), case_bytes=5400 * MB)
CHOSEN = replace(TWO, tries_again=True)
ALONE = replace(TWO, workers=1)
MAIN = replace(ALONE, is_in_process=True)


def call_each(function, arguments):
    return [function(*of_call) for of_call in arguments]


def outcomes_of(function, arguments, plan):
    """The outcome of each call, each a task of its own, by this plan."""
    return run_work(Work(call_each, (function,), arguments, [0] * len(arguments), at_once=1), plan=plan)


def test_outcomes_come_in_order_and_progress_is_told_whoever_works():
    for plan in (MAIN, ALONE, TWO):
        assert outcomes_of(divmod, [(n, 3) for n in range(9)], plan) == [divmod(n, 3) for n in range(9)]
    for number in (1, 2):
        told = []
        progress = lambda *numbers: told.append(numbers)  # noqa: E731, B023
        work = Work(sorted, (), [*"bcabcabca"], [1] * 9, progress, at_once=3)
        assert run_work(work, number) == [*"abcabcabc"]
        assert told == [(n, 3) for n in range(1, 4)]


def test_the_only_worker_is_a_process_of_its_own_and_ends_first_where_memory_runs_out():
    (of_worker,) = outcomes_of(os.getpid, [()], ALONE)
    (of_main,) = outcomes_of(os.getpid, [()], MAIN)
    assert of_main == os.getpid() != of_worker
    path = Path("/proc/self/oom_score_adj")
    assert [text.strip() for text in outcomes_of(Path.read_text, [(path, "utf-8")], ALONE)] == ["1000"]
    assert path.read_text().strip() != "1000"


@pytest.mark.parametrize(
    "plan, line",
    [
        (TWO,
         "[worker-died] one of 2 workers: stopped unexpectedly, probably out of memory; expected enough "
         "memory for all workers at once. Run again with '--workers 1' or with more memory."),
        (ALONE, "[worker-died] the only worker: stopped unexpectedly, probably out of memory; expected enough "
         "memory for the largest case, by our estimate 5,400 MB. Run with more memory."),
    ],
    ids=["two", "one"],
)  # fmt: skip
def test_a_killed_worker_ends_everything(plan, line):
    with pytest.raises(WorkerDied) as died:
        outcomes_of(kill_worker, [(1,), (2,), (3,)], plan)
    assert [str(finding) for finding in died.value.findings] == [line]


def test_one_worker_goes_on_alone_where_several_were_too_many(tmp_path):
    """A task that is killed as long as there are others: every outcome comes once, in order."""
    assert outcomes_of(kill_in_a_crowd, [(str(tmp_path), n) for n in range(6)], CHOSEN) == list(range(6))
    with pytest.raises(WorkerDied):
        outcomes_of(kill_in_a_crowd, [(str(tmp_path / "b"), n) for n in range(6)], TWO)


def test_worker_processes_are_an_executor_of_python():
    """Any code that takes an executor can use them; a lost worker leaves its task to nobody, others go on."""
    with ProcessExecutor(2) as executor:
        assert list(executor.map(divmod, range(5), [3] * 5)) == [divmod(n, 3) for n in range(5)]
        futures = [executor.submit(int, text, base=2) for text in ("10", "2", "11")]
        assert {future.exception() is None for future in as_completed(futures)} == {True, False}
        assert isinstance(executor.submit(kill_worker).exception(), BrokenExecutor)
        assert executor.submit(sum, [1, 2]).result() == 3
        executor.submit(kill_worker)
        late = [executor.submit(sum, [1, 2]) for _ in range(3)]
        assert {type(future.exception()) for future in late} == {WorkerLost}


def test_worker_processes_that_are_told_to_stop_cancel_what_waits_and_leave_what_they_are_at(tmp_path):
    executor = ProcessExecutor(1)
    futures = [executor.submit(wait_for_ever, tmp_path / "mark"), executor.submit(sum, [])]
    while not (tmp_path / "mark").exists():
        time.sleep(0.01)
    executor.shutdown(cancel_futures=True)
    assert isinstance(futures[0].exception(), WorkerLost)
    assert futures[1].cancelled()
    assert not Path(f"/proc/{(tmp_path / 'mark').read_text()}").exists()


@pytest.mark.parametrize(("plan", "where"), [(MAIN, "the main process"), (ALONE, "the only worker")])
def test_memory_that_runs_out_is_told_with_the_estimate(plan, where):
    with pytest.raises(WorkerDied) as died:
        outcomes_of(bytearray, [(1 << 60,)], plan)
    assert str(died.value.findings[0]).startswith(f"[worker-died] {where}: ran out of memory; expected enough memory ")


def test_other_errors_of_a_worker_are_raised_as_they_are():
    for calls in ([(1, 1), (1, 0)], [(1, 0), (1, 1)]):
        with pytest.raises(ZeroDivisionError):
            outcomes_of(divmod, calls, ALONE)


# --- copies of this process -------------------------------------------------------------------------------------------


COPIES = """
import json, os, sys, types
from pathlib import Path
from evaluation.files.decoding.guard import prepare
from evaluation.scoring import workers
from evaluation.scoring.workers import Work

def outcomes(function, items, progress=None, main_begins=False):
    plan = workers._WorkPlan(2, main_begins, tries_again=False)
    return workers.run_work(Work(function, (), items, [1] * len(items), progress, at_once=1), plan=plan)

told = {"main": os.getpid()}
clock, now = workers.time, [0.0]
workers.time = types.SimpleNamespace(perf_counter=lambda: now[0])  # a clock that no other process delays
for name, seconds in (("long", 0.3), ("short", 0.001)):
    def task(numbers):
        now[0] += seconds
        return [os.getpid()]
    told[name] = outcomes(task, range(9), main_begins=True)
workers.time = clock
told["outcomes"] = outcomes(lambda pairs: [divmod(*pair) for pair in pairs], [(n, 3) for n in range(5)])
told["errors"] = []
for bad in (lambda _: 1 / 0, lambda _: [lambda: None]):
    try:
        outcomes(bad, [()])
    except Exception as error:
        told["errors"].append([type(error).__name__, any(", in " in note for note in error.__notes__)])
def leave(done, total):
    raise KeyboardInterrupt
def work(items):
    Path(sys.argv[1]).write_text(str(os.getpid()))
    return items
try:
    outcomes(work, [1], leave)
except KeyboardInterrupt:
    told["left"] = int(Path(sys.argv[1]).read_text())
def fork():
    raise BlockingIOError(11, "Resource temporarily unavailable")
os.fork = fork
told["no process"] = outcomes(lambda _: [os.getpid()], [1, 2])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What workers of a process without threads did, which are copies of it."""
    done = run([sys.executable, "-c", COPIES, tmp_path_factory.mktemp("copies") / "pid"])
    assert done.stderr == ""
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_set_that_takes_long_is_shared_after_its_first_task_and_a_short_one_is_not(copies):
    assert set(copies["short"]) == {copies["main"]} == {copies["long"][0]}
    assert len(set(copies["long"][1:]) - {copies["main"]}) == 2


def test_outcomes_and_errors_of_copies_come_back(copies):
    assert copies["outcomes"] == [[*divmod(n, 3)] for n in range(5)]
    (zero, told), (other, told_too) = copies["errors"]
    assert (zero, told, told_too) == ("ZeroDivisionError", True, True) and other in ("AttributeError", "PicklingError")


def test_without_a_process_for_a_worker_the_main_process_works(copies):
    assert set(copies["no process"]) == {copies["main"]}


def test_workers_are_gone_when_the_call_that_waits_for_them_is_left(copies):
    assert not Path(f"/proc/{copies['left']}").exists()


# --- what is not worked on, and executors that are none ---------------------------------------------------------------


def leave_a_mark(folder: str, items: list[int]) -> list[int]:
    for item in items:
        Path(folder, str(item)).touch()
        time.sleep(0.01)
    return items


def itself(item: int) -> int:
    return item


@pytest.mark.parametrize("kind", ["alone", "processes", "threads"])
def test_behind_what_spends_the_last_of_a_budget_nothing_is_worked_on(kind: str, tmp_path: Path) -> None:
    """The same outcomes whoever works; of the other tasks only those that somebody worked on already are done."""

    def work(run: Run, name: str) -> list[int]:
        (tmp_path / name).mkdir()
        marks = {"at_once": 1, "budget": 3, "spent": itself}
        return run(Work(leave_a_mark, (str(tmp_path / name),), range(200), [0] * 200, **marks))

    executor = ThreadPoolExecutor(2) if kind == "threads" else None
    if kind == "alone":
        assert work(run_here, "a") == work(partial(run_work, workers=1), "b") == [0, 1, 2]
    else:
        assert work(partial(run_work, workers=2, executor=executor), "c") == [0, 1, 2]
    assert all(3 <= len(list(folder.iterdir())) < 50 for folder in tmp_path.iterdir())


def is_alone(items: Sequence[int]) -> list[bool]:
    from evaluation.files.decoding.guard import of_thread

    return [of_thread.share is None for _ in items]


def with_need(run: Run, need: int) -> list[bool]:
    return run(Work(is_alone, (), [0], [need]))


def test_a_submission_with_a_case_that_needs_more_memory_than_a_worker_has_is_worked_on_alone(monkeypatch) -> None:
    monkeypatch.setattr(workers, "memory_left", lambda: MemoryLeft(4 * GB))
    monkeypatch.setattr(workers, "usable_processors", lambda: 2)
    monkeypatch.setattr(workers, "can_fork", lambda: True)
    monkeypatch.setattr(workers, "SURELY_LONG_BYTES", 0)
    done = workers.run_many(with_need, (), [MB, 3 * GB, MB], needs=[40 * MB] * 2, workers=None, executor=None)
    assert [(index, answer.result()) for index, answer in sorted(done, key=lambda one: one[0])] == [
        (0, [False]),
        (1, [True]),
        (2, [False]),
    ]


def names_in(folder: Path, items: Sequence[int]) -> list[str]:
    return [folder.name for _ in items]


def test_a_worker_that_does_not_see_the_folders_is_told(tmp_path: Path) -> None:
    """Else the files of the submission would seem to be missing, and it would be rejected for good."""
    with ThreadPoolExecutor(1) as executor:
        assert run_work(Work(names_in, (tmp_path,), [0], [0]), 1, executor) == [tmp_path.name]
        with pytest.raises(WorkersLost, match=r"does not see '/nowhere'; expected folders that all machines share"):
            run_work(Work(names_in, (Path("/nowhere"),), [0], [0]), 1, executor)


@pytest.mark.parametrize("address", ["login1", "", "tcp://127.0.0.1:1"])
def test_an_address_where_nobody_answers_is_told_in_time(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)
    with pytest.raises(WrongUsage, match=r"\[no-cluster\]"), executors.connect(address):
        pass


def test_without_the_extra_a_cluster_is_refused_and_all_else_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with executors.connect(None) as executor:
        assert executor is None
    with pytest.raises(WrongUsage) as fault, executors.connect("tcp://login1:8786"):
        pass
    assert str(fault.value).startswith("[missing-extra] --cluster: 'distributed' is not installed; expected ")


# --- the whole program under limits -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_images(tmp_path_factory) -> tuple[Path, Path]:
    """Four label images of 2,600 x 2,600 px, which need some 200 MB each by our estimate, and a perfect submission."""
    folder = tmp_path_factory.mktemp("large")
    side = 2600
    labels = np.zeros((side, side), np.uint16)
    rows = np.arange(10, side - 20, 20)
    for index, row in enumerate(rows, start=1):
        labels[row : row + 12, 5:-5] = index
    content = image_bytes(labels, "labels.tif")
    rule = {"name": "iou", "rule": "iou_above", "threshold": 0.5}
    cases = [Case(f"c{number}", f"c{number}", side, side) for number in range(1, 5)]
    for case in cases:
        for below in ("challenge/reference", "submission"):
            write_files(folder / below / case.name, {"nucleus.tif": content})
    document = small_document({"format": "label_image", "files": "{case}/{class}.tif"}, rule, unit="case")
    write_rules({**document, "cases": cases}, folder / "challenge")
    return folder / "challenge", folder / "submission"


def score(large_images, output: Path, *arguments, data_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    challenge, submission = large_images
    command = [sys.executable, "-m", "evaluation", "score", "--challenge", challenge, "--submission", submission]
    return run([*command, "--output", output, *arguments], data_bytes=data_bytes)


def test_a_limit_for_each_process_that_holds_a_case_changes_no_byte(large_images, tmp_path):
    written = []
    for name, arguments, limit in (("limited", ("--quiet",), GB), ("two", ("--quiet", "--workers", "2"), None)):
        done = score(large_images, tmp_path / name, *arguments, data_bytes=limit)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        written.append([path.read_bytes() for path in sorted((tmp_path / name).iterdir())])
    assert written[0] == written[1]


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")], ids=["chosen", "two"])
def test_memory_too_small_for_one_case_is_told_and_nothing_is_written(large_images, tmp_path, arguments):
    """Matching, not reading, runs out of memory: reading is told as a finding about the file."""
    script = (
        "import sys\n"
        "from evaluation.commands import main as cli\nfrom evaluation.scoring import street\n"
        "from killer import take_all_memory\n"
        "street.score_cases = take_all_memory\n"
        "sys.exit(cli.run(sys.argv[1:]))\n"
    )
    challenge, submission = large_images
    options = ["--challenge", challenge, "--submission", submission, "--output", tmp_path / "out", *arguments]
    done = run([sys.executable, "-c", script, "score", *options], data_bytes=600 * MB)
    assert done.returncode == 70, done.stderr
    *lines, last = done.stderr.splitlines()
    assert last == "The evaluation ran out of memory, or was stopped from outside; this is not about the submission."
    (line,) = lines
    assert line.startswith("[worker-died] ")
    assert "ran out of memory; expected enough memory for the largest case, by our estimate " in line
    assert not (tmp_path / "out").exists()


def test_a_limit_that_hardly_holds_the_program_is_told_at_once(large_images, tmp_path):
    """The pool's threads have no room: without a check the process would never end."""
    script = (
        "import evaluation.scoring.street; print(next(line for line in open('/proc/self/status') if 'VmData' in line))"
    )
    used = 1024 * int(run([sys.executable, "-c", script]).stdout.split()[1])
    done = score(large_images, tmp_path / "out", data_bytes=used + 12 * MB)
    assert done.returncode == 70, done.stderr
    assert "ran out of memory; expected enough memory for the largest case" in done.stderr
    assert not (tmp_path / "out").exists()


# --- which cases a worker takes together decides nothing: neither what is scored nor what is told ---------------------


FROZEN = Path(__file__).parent / "golden/frozen"


@pytest.mark.parametrize("together", [1, 2, 8])
def test_a_fault_found_while_measuring_and_one_found_while_reading_are_both_told(tmp_path, monkeypatch, together):
    own = street.measure_cases

    def measure(challenge: Challenge, matched: Sequence[MatchedCase]) -> list[CaseResult]:
        if any(case.case.name == "P2_1" for case in matched):
            raise refused("case-too-costly", "case 'P2_1'", wording="too-many-distant", predictions=3)
        return own(challenge, matched)

    monkeypatch.setattr(street, "measure_cases", measure)
    submission = Path(shutil.copytree(FROZEN / "submissions/namer", tmp_path / "submission"))
    next((submission / "P2/P2_2").rglob("*.mat")).write_bytes(b"no MATLAB file")
    challenge, folder = Challenge.load(FROZEN / "challenge"), FROZEN / "challenge"
    received = receive_submission(challenge, submission, folder)
    cases = street.sort_cases(challenge, folder, received, run=run_here)
    outcomes = [
        outcome
        for first in range(0, len(cases.inputs), together)
        for outcome in street.score_cases(
            cases.challenge, folder, received.files, cases.inputs[first : first + together]
        )
    ]
    faults = [{finding.code for finding in outcome.prediction_faults} for outcome in outcomes]
    names = [case.case.name for case in cases.inputs]
    assert dict(zip(names, faults, strict=True)) == {
        name: {"P2_1": {"case-too-costly"}, "P2_2": {"wrong-format"}}.get(name, set()) for name in names
    }


@pytest.mark.parametrize("rules", ["challenge/challenge.toml", "everything.toml"])
@pytest.mark.parametrize("writes", [True, False])
def test_results_do_not_depend_on_which_process_scored_which_cases(tmp_path: Path, rules: str, writes: bool) -> None:
    """Each case is scored alone and sent, the last one first; the first two are of the process that adds up."""
    folder, submission = tmp_path / "challenge", FROZEN / "submissions/finder"
    shutil.copytree(FROZEN / "challenge", folder)
    shutil.copy(FROZEN / rules, folder / "challenge.toml")
    whole = score_submission(folder, submission, workers=1)
    challenge = Challenge.load(folder)
    received = receive_submission(challenge, submission, folder)
    cases = street.sort_cases(challenge, folder, received, run=run_here)
    parts = [
        street.score_cases(cases.challenge, folder, received.files, [case], writes=writes)[0].scored
        for case in reversed(cases.inputs)
    ]
    scored = ScoredCases.joined(cases.challenge, [*pickle.loads(pickle.dumps(parts[:-2])), *parts[-2:]])
    found = summarise(cases.challenge, scored, whole.findings)
    assert found.texts() == whole.texts()
    assert [case.case for case in found.cases] == [case.case for case in whole.cases]


# --- references that are kept between submissions: the same bytes, and nothing is used that changed -------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cases whose reference is read from now on, with nothing kept."""
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0)
    monkeypatch.setattr(module, "store", Store())
    found: list[str] = []
    own = module.read_reference
    monkeypatch.setattr(module, "read_reference", lambda *of, **how: (found.append(of[2].name), own(*of, **how))[1])
    return found


def challenge(folder: Path) -> Path:
    shutil.copytree(FROZEN / "challenge", folder / "challenge")
    return folder / "challenge"


def score_with_kept(folder: Path, team: str) -> dict[str, str]:
    return score_submission(folder, FROZEN / "submissions" / team, workers=1).texts()


def test_a_third_submission_reads_no_reference_and_has_the_same_bytes(tmp_path: Path, read: list[str]) -> None:
    folder = challenge(tmp_path)
    alone = {team: score_with_kept(folder, team) for team in ("finder", "namer", "outliner")}
    cases = len(read) // 2
    assert sorted(read[:cases]) == sorted(read[cases:])  # the first two submissions
    assert {team: score_with_kept(folder, team) for team in alone} == alone and len(read) == 2 * cases
    module.store.pickled.clear()
    assert {team: score_with_kept(folder, team) for team in alone} == alone


def test_what_changed_is_read_again(tmp_path: Path, read: list[str]) -> None:
    folder = challenge(tmp_path)
    first, *_ = [score_with_kept(folder, "finder") for _ in range(3)]
    read.clear()
    path = sorted((folder / "reference").rglob("*.xml"))[0]
    before, text = path.stat(), path.read_text()
    path.write_text(text.replace('X="1', 'X="2'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the same size and time of change
    assert score_with_kept(folder, "finder") != first and read == [path.stem]
    path.write_text(text)
    assert score_with_kept(folder, "finder") == first


def test_other_rules_of_the_reference_have_other_entries(tmp_path: Path, read: list[str]) -> None:
    folder = FROZEN / "challenge"
    for _ in range(2):
        score_with_kept(folder, "finder")
    loaded = Challenge.load(folder)
    other = loaded.model_copy(update={"reference": loaded.reference.model_copy(update={"overlap": "smallest"})})
    assert rules_of_references(other) != rules_of_references(loaded)
    read.clear()
    score_submission(folder, FROZEN / "submissions/finder", workers=1, challenge=other)
    assert len(read) == len(loaded.cases)


def test_the_memory_is_bounded_and_goes_to_the_rules_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 100)
    kept = Store()
    for case in "abc":
        kept.add(("rules", "folder", case, "state"), bytes(40))
    assert [key[2] for key in kept.pickled] == ["a", "b"] and kept.size == 80
    kept.add(("others", "folder", "c", "state"), bytes(40))
    assert [key[2] for key in kept.pickled] == ["c"] and kept.size == 40


def test_a_reference_that_may_change_unseen_is_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reference_files", lambda *case: (CaseFile("a.xml", 0),))
    made = PreparedReference(join_instances([], (5, 5)), empty_region())
    monkeypatch.setattr(module, "read_reference", lambda *case, **how: made)
    case, challenge = Case("a", "a", 5, 5), Challenge.from_preset("recommended", name="a")
    for state, entries in (("", 0), ("a state", 1)):
        monkeypatch.setattr(module, "file_states", lambda *case, state=state: state)
        monkeypatch.setattr(module, "store", Store())
        for _ in range(3):
            side = module.reference_side(challenge, Path("folder"))
            (reference,) = kept_references(challenge, Path("folder"), [(case, None)], "rules", side)
            assert isinstance(reference, PreparedReference) and not len(reference.instances)
        assert len(module.store.pickled) == entries


def test_another_file_with_the_size_and_the_time_of_the_old_one_has_another_state(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0)
    files = [CaseFile("a.xml", 0)]
    for name, text in (("a.xml", "old"), ("b.xml", "new")):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, ns=(0, 10**18))
    before = file_states(tmp_path, files)
    (tmp_path / "b.xml").replace(tmp_path / "a.xml")
    assert "" != before != file_states(tmp_path, files)
    monkeypatch.setattr(module, "SETTLED_SECONDS", 3600)
    assert file_states(tmp_path, files) == ""
