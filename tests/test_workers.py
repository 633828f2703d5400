"""Workers, what they share, and what they keep between submissions: no byte depends on it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from every_format import small_document, write_files, write_rules
from killer import kill_in_a_crowd, kill_worker

from evaluation import Case, Challenge
from evaluation.execution.limits import UNLIMITED, MemoryLeft, left_in_groups, memory_left
from evaluation.execution.pool import CASE_BYTES, ProcessPool, can_fork
from evaluation.execution.workers import (
    BYTES_AT_ONCE,
    CASES_AT_ONCE,
    MAIN_BYTES,
    SURELY_LONG_BYTES,
    WORKER_BYTES,
    Work,
    batches,
    plan_workers,
    run_job,
    run_on,
    run_work,
)
from evaluation.findings.errors import WorkerDied, refused
from evaluation.formats.format import image_bytes
from evaluation.model import Annotations, CaseResult, Outlines
from evaluation.scoring import read as module
from evaluation.scoring import street
from evaluation.scoring.match import MatchedCase
from evaluation.scoring.read import SharedCases, Store, file_states, kept_reference, rules_of_references
from evaluation.scoring.receive import memory_needs, receive_submission
from evaluation.scoring.street import score_submission
from evaluation.submission import CaseFile, open_submission

ROOT = Path(__file__).resolve().parents[1]
MB, GB = 10**6, 10**9


# --- what is left -----------------------------------------------------------------------------------------------------


def test_version_1_of_control_groups_gives_back_cached_files(tmp_path):
    """As docker shows it: the path is that of the host, the limit lies at the mount."""
    root = write_files(
        tmp_path,
        {
            "proc/self/cgroup": "12:memory:/docker/0123abcd\n3:cpu,cpuacct:/docker/0123abcd\n0::/docker/0123abcd",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 7 * GB,
            "sys/fs/cgroup/memory/memory.usage_in_bytes": 3 * GB,
            "sys/fs/cgroup/memory/memory.stat": "cache 9\ntotal_active_file 400000000\ntotal_inactive_file 600000000",
            "proc/meminfo": f"MemTotal: 64000000 kB\nMemAvailable: {20 * GB // 1024} kB",
        },
    )
    assert left_in_groups(root) == [5 * GB]
    assert memory_left(root).together == 5 * GB


@pytest.mark.parametrize(("of_parent", "left"), [("max", 1500 * MB), (2 * GB, 1 * GB)])
def test_version_2_of_control_groups_asks_the_parents_too(tmp_path, of_parent, left):
    root = write_files(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slice/scope",
            "sys/fs/cgroup/slice/memory.max": of_parent,
            "sys/fs/cgroup/slice/memory.current": 1 * GB,
            "sys/fs/cgroup/slice/scope/memory.max": 1600 * MB,
            "sys/fs/cgroup/slice/scope/memory.current": 200 * MB,
            "sys/fs/cgroup/slice/scope/memory.stat": "anon 5\nactive_file 40000000\ninactive_file 60000000\nfile 7",
        },
    )
    assert memory_left(root).together == left


def test_inside_a_container_of_version_2_the_limit_lies_at_the_root(tmp_path):
    files = {
        "proc/self/cgroup": "0::/../../other",
        "sys/fs/cgroup/memory.max": 900 * MB,
        "sys/fs/cgroup/memory.current": 1 * MB,
    }
    assert memory_left(write_files(tmp_path, files)).together == 899 * MB


def test_hybrid_groups_of_a_host_without_limit_leave_what_the_machine_has(tmp_path):
    root = write_files(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/user\n0::/user",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
            "sys/fs/cgroup/memory/memory.usage_in_bytes": 5,
            "proc/meminfo": "MemAvailable: 1000 kB",
        },
    )
    assert memory_left(root).together == 1000 * 1024


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "nonsense\n::\n0::"},
        {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "many", "sys/fs/cgroup/memory.current": "-3"},
        {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "100", "proc/meminfo": "MemAvailable: lots"},
    ],
    ids=["nothing", "no paths", "no numbers", "no use"],
)
def test_what_cannot_be_read_limits_nothing(tmp_path, files):
    assert memory_left(write_files(tmp_path, files)).together == UNLIMITED


def test_more_used_than_allowed_leaves_nothing(tmp_path):
    files = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": 100, "sys/fs/cgroup/memory.current": 200}
    assert memory_left(write_files(tmp_path, files)).together == 0


@pytest.mark.parametrize("kind", [resource.RLIMIT_DATA, resource.RLIMIT_AS])
def test_limits_of_the_process_count_less_what_it_has(kind):
    """The real limits, in a process of its own: at most what the limit leaves, and that much can really be taken."""
    script = (
        "import resource\n"
        f"resource.setrlimit({kind}, (3 * 10**9, 3 * 10**9))\n"
        "from evaluation.execution.limits import memory_left\n"
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
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OPENBLAS_NUM_THREADS": "1"},
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


@pytest.mark.parametrize(
    "together, expected",
    [(UNLIMITED, 8), (MAIN_BYTES + 8 * (WORKER_BYTES + GB), 8), (MAIN_BYTES + 3 * (WORKER_BYTES + GB), 3), (GB, 1)],
)
def test_as_many_workers_as_processors_and_memory_allow(together, expected):
    plan = plan_workers(None, [GB] * 20, MemoryLeft(together), processors=8)
    assert (plan.workers, plan.tries_again) == (expected, expected > 1)


def test_small_cases_are_counted_by_what_a_worker_takes_at_a_time():
    memory = MemoryLeft(MAIN_BYTES + 2 * (WORKER_BYTES + BYTES_AT_ONCE))
    assert plan_workers(None, [40 * MB] * 20, memory, processors=8).workers == 2


def test_the_main_process_begins_with_a_small_set_and_has_a_single_case_for_itself():
    for cases, workers in ((2, 2), (1, 1)):
        plan = plan_workers(None, [CASE_BYTES] * cases, MemoryLeft(), processors=2)
        assert (plan.workers, plan.is_in_process) == (workers, True)


def test_what_surely_takes_long_is_shared_at_once():
    plan = plan_workers(None, [CASE_BYTES + SURELY_LONG_BYTES // 2] * 2, MemoryLeft(), processors=2)
    assert (plan.workers, plan.is_in_process) == (2, not can_fork())


def test_the_number_that_was_asked_for_is_taken_and_kept():
    plan = plan_workers(6, [GB] * 20, MemoryLeft(GB), processors=2)
    assert (plan.workers, plan.is_in_process, plan.tries_again) == (6, False, False)


@pytest.mark.parametrize("asked", [None, 1])
@pytest.mark.parametrize("memory", [MemoryLeft(2 * GB - 1), MemoryLeft(each=2 * GB - 1)])
def test_a_case_that_may_not_fit_has_a_process_of_its_own(asked, memory):
    plan = plan_workers(asked, [GB], memory)
    assert (plan.workers, plan.is_in_process) == (1, False)
    assert plan_workers(asked, [GB], MemoryLeft(2 * GB, 2 * GB)).is_in_process


@pytest.mark.parametrize("asked", [0, -1, 1.5, "2"])
def test_a_number_of_workers_that_cannot_be_is_refused(asked):
    """-1 never came to an end, 0 was 1."""
    with pytest.raises(ValueError, match=r"workers is .*; expected a whole number from 1"):
        plan_workers(asked, [])


def test_a_number_of_workers_may_be_numpys():
    assert plan_workers(np.int64(1), [GB]).workers == 1


def test_batches_keep_the_order_and_never_hold_more_than_the_largest_case_may():
    rng = np.random.default_rng(3)
    for _ in range(50):
        needs = [int(need) for need in rng.integers(1, BYTES_AT_ONCE * 2, rng.integers(1, 40))]
        found = batches(range(len(needs)), needs, workers=int(rng.integers(1, 9)))
        assert [item for part in found for item in part] == list(range(len(needs)))
        assert all(sum(needs[item] for item in part) <= max(BYTES_AT_ONCE, *needs, 0) for part in found)
        assert max(map(len, found)) <= CASES_AT_ONCE
    assert batches([], [], workers=3) == []


# --- the pool ---------------------------------------------------------------------------------------------------------

POOL_OF_TWO = {"width": 2}
CHOSEN = {"width": 2, "tries_again": True}
ALONE = {"width": 1}
MAIN = {"width": 1, "main_begins": True}


def call_each(function, arguments):
    return [function(*of_call) for of_call in arguments]


def outcomes_of(function, arguments, pool):
    """The outcome of each call, each a task of its own, by a pool with these parameters."""
    work = Work(call_each, (function,), arguments, [5400 * MB] * len(arguments), at_once=1)
    return run_on(ProcessPool(**pool), work)


@pytest.fixture
def importable(monkeypatch):
    """Workers find the modules of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")]))


def test_outcomes_come_in_order_and_progress_is_told_whoever_works():
    for pool in (MAIN, ALONE, POOL_OF_TWO):
        assert outcomes_of(divmod, [(n, 3) for n in range(9)], pool) == [divmod(n, 3) for n in range(9)]
    for workers in (1, 2):
        told = []
        progress = lambda *numbers: told.append(numbers)  # noqa: E731, B023
        work = Work(sorted, (), [*"bcabcabca"], [1] * 9, progress, at_once=3)
        assert run_work(work, workers) == [*"abcabcabc"]
        assert told == [(n, 3) for n in range(1, 4)]


def test_the_only_worker_is_a_process_of_its_own():
    (of_worker,) = outcomes_of(os.getpid, [()], ALONE)
    (of_main,) = outcomes_of(os.getpid, [()], MAIN)
    assert of_main == os.getpid() != of_worker


def test_workers_stand_in_front_of_the_main_process_where_memory_runs_out():
    path = "/proc/self/oom_score_adj"
    tasks = [(Path(path), "utf-8")]
    assert [text.strip() for text in outcomes_of(Path.read_text, tasks, ALONE)] == ["1000"]
    assert Path(path).read_text().strip() != "1000"


@pytest.mark.parametrize(
    "pool, line",
    [
        (POOL_OF_TWO,
         "[worker-died] one of 2 workers: ended without an answer, most often killed for memory; expected enough "
         "memory for all workers at once. Run again with '--workers 1' or with more memory."),
        (ALONE, "[worker-died] the only worker: ended without an answer, most often killed for memory; expected enough "
         "memory for the largest case, by our estimate 5,400 MB. Run with more memory."),
    ],
    ids=["two", "one"],
)  # fmt: skip
def test_a_killed_worker_ends_everything(importable, pool, line):
    with pytest.raises(WorkerDied) as died:
        outcomes_of(kill_worker, [(1,), (2,), (3,)], pool)
    assert [str(finding) for finding in died.value.findings] == [line]


def test_one_worker_goes_on_alone_where_several_were_too_many(importable, tmp_path):
    """A task that is killed as long as there are others: every outcome comes once, in order."""
    assert outcomes_of(kill_in_a_crowd, [(str(tmp_path), n) for n in range(6)], CHOSEN) == list(range(6))
    with pytest.raises(WorkerDied):
        outcomes_of(kill_in_a_crowd, [(str(tmp_path / "b"), n) for n in range(6)], POOL_OF_TWO)


@pytest.mark.parametrize(("pool", "where"), [(MAIN, "the main process"), (ALONE, "the only worker")])
def test_memory_that_runs_out_is_told_with_the_estimate(pool, where):
    with pytest.raises(WorkerDied) as died:
        outcomes_of(bytearray, [(1 << 60,)], pool)
    assert str(died.value.findings[0]).startswith(f"[worker-died] {where}: ran out of memory; expected enough memory ")


def test_other_errors_of_a_worker_are_raised_as_they_are():
    for calls in ([(1, 1), (1, 0)], [(1, 0), (1, 1)]):
        with pytest.raises(ZeroDivisionError):
            outcomes_of(divmod, calls, ALONE)


# --- copies of this process -------------------------------------------------------------------------------------------


def test_a_set_that_takes_long_is_shared_after_its_first_task_and_a_short_one_is_not():
    for seconds, workers in ((0.3, "2"), (0.001, "0")):
        script = (
            "import os, types\n"
            "from evaluation.execution import pool\n"
            "from evaluation.execution.workers import Work, run_on\n"
            "now = [0.0]\n"  # a clock that no other process delays
            "pool.time = types.SimpleNamespace(perf_counter=lambda: now[0])\n"
            f"def task(numbers):\n    now[0] += {seconds}\n    return [os.getpid()]\n"
            "pids = run_on(pool.ProcessPool(2, main_begins=True), Work(task, (), range(9), [1] * 9, at_once=1))\n"
            "print(pids[0] == os.getpid(), len(set(pids[1:]) - {os.getpid()}))\n"
        )
        done = run([sys.executable, "-c", script])
        assert (done.stdout.split(), done.stderr) == (["True", workers], "")


def test_outcomes_and_errors_of_copies_come_back():
    script = (
        "from evaluation.execution.pool import ProcessPool\n"
        "from evaluation.execution.workers import Work, run_on\n"
        "def outcomes(function, items, workers):\n"
        "    return run_on(ProcessPool(workers), Work(function, (), items, [1] * len(items), at_once=1))\n"
        "print(outcomes(lambda pairs: [divmod(*pair) for pair in pairs], [(n, 3) for n in range(5)], 2))\n"
        "for bad in (lambda _: 1 / 0, lambda _: [lambda: None]):\n"
        "    try:\n"
        "        outcomes(bad, [()], 1)\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, ', in ' in error.__notes__[0])\n"
    )
    done = run([sys.executable, "-c", script])
    assert done.stdout.splitlines()[0] == str([divmod(n, 3) for n in range(5)])
    assert done.stdout.splitlines()[1:] in (
        ["ZeroDivisionError True", "AttributeError True"],
        ["ZeroDivisionError True", "PicklingError True"],
    )


def test_without_a_process_for_a_worker_the_main_process_works():
    script = (
        "import os\n"
        "from evaluation.execution import workers\n"
        "def fork():\n    raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
        "os.fork = fork\n"
        "from evaluation.decoding.guard import prepare\n"
        "work = workers.Work(lambda _: [os.getpid()], (), [1, 2], [1, 1], at_once=1)\n"
        "print(set(workers.run_on(workers.ProcessPool(2), work)) == {os.getpid()})\n"
    )
    done = run([sys.executable, "-c", script])
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_workers_are_gone_when_the_call_that_waits_for_them_is_left():
    script = (
        "import os, time\n"
        "from evaluation.execution.pool import ProcessPool\n"
        "from evaluation.execution.workers import Work, run_on\n"
        "def progress(done, total):\n    raise KeyboardInterrupt\n"
        "def work(items):\n    print(os.getpid(), flush=True)\n    return items\n"
        "try:\n"
        "    run_on(ProcessPool(2), Work(work, (), [1], [1], progress, at_once=1))\n"
        "except KeyboardInterrupt:\n    pass\n"
    )
    done = run([sys.executable, "-c", script])
    assert not Path(f"/proc/{int(done.stdout)}").exists()


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


def test_a_set_whose_two_workers_do_not_fit_is_scored_by_one(large_images, tmp_path):
    """A machine with 700 MB left in all and eight processors."""
    script = (
        "import sys\n"
        "from evaluation.commands import main as cli\n"
        "from evaluation.execution import workers\n"
        "from evaluation.scoring import street\n"
        "workers.memory_left = lambda: workers.MemoryLeft(700 * 10**6)\n"
        "workers.usable_processors = lambda: 8\n"
        "plan_workers = workers.plan_workers\n"
        "def told(*arguments):\n"
        "    plan = plan_workers(*arguments)\n"
        "    print(plan.workers)\n"
        "    return plan\n"
        "workers.plan_workers = told\n"
        "sys.exit(cli.run(sys.argv[1:]))\n"
    )
    challenge, submission = large_images
    options = ["--challenge", challenge, "--submission", submission, "--output", tmp_path / "out", "--quiet"]
    done = run([sys.executable, "-c", script, "score", *options])
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == {"1"}
    assert (tmp_path / "out" / "metrics.json").is_file()


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")], ids=["chosen", "two"])
def test_memory_too_small_for_one_case_is_told_and_nothing_is_written(large_images, tmp_path, arguments):
    """Matching, not reading, runs out of memory: reading is told as a finding about the file."""
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
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
            raise refused("case-too-costly", "case 'P2_1'", predictions=3)
        return own(challenge, matched)

    monkeypatch.setattr(street, "measure_cases", measure)
    submission = Path(shutil.copytree(FROZEN / "submissions/namer", tmp_path / "submission"))
    next((submission / "P2/P2_2").rglob("*.mat")).write_bytes(b"no MATLAB file")
    challenge, folder = Challenge.load(FROZEN / "challenge"), FROZEN / "challenge"
    received = receive_submission(challenge, submission, folder)
    cases = run_job(street.sort_cases(challenge, folder, received), 1)
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
    assert [outcome.result is None for outcome in outcomes] == [name in ("P2_1", "P2_2") for name in names]


# --- references that are kept between submissions: the same bytes, and nothing is used that changed -------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cases whose reference is read from now on, with nothing kept."""
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0)
    monkeypatch.setattr(module, "store", Store())
    found: list[str] = []
    own = module.read_reference
    monkeypatch.setattr(module, "read_reference", lambda *of: (found.append(of[2].name), own(*of))[1])
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
    folder = challenge(tmp_path)
    for _ in range(3):
        score_with_kept(folder, "finder")
    loaded = Challenge.load(folder)
    other = loaded.model_copy(update={"reference": loaded.reference.model_copy(update={"overlap": "smallest"})})
    assert rules_of_references(other) != rules_of_references(loaded)
    read.clear()
    score_submission(folder, FROZEN / "submissions/finder", workers=1, challenge=other)
    assert len(read) == len(loaded.cases)


def test_what_has_just_changed_is_not_kept(tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_SECONDS", 3600)
    folder = challenge(tmp_path)
    for _ in range(3):
        score_with_kept(folder, "finder")
    assert module.store.pickled == {} and len(read) == 3 * len(Challenge.load(folder).cases)


def test_the_memory_is_bounded_and_goes_to_the_rules_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 100)
    kept = Store()
    for case in "abc":
        kept.add(("rules", "folder", case, "state"), bytes(40))
    assert [key[2] for key in kept.pickled] == ["a", "b"] and kept.size == 80
    kept.add(("others", "folder", "c", "state"), bytes(40))
    assert [key[2] for key in kept.pickled] == ["c"] and kept.size == 40


def test_a_reference_that_may_change_unseen_is_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reference_files", lambda *case: ())
    monkeypatch.setattr(module, "read_reference", lambda *case: "read")
    case = Case("a", "a", 5, 5)
    for state, entries in (("", 0), ("a state", 1)):
        monkeypatch.setattr(module, "file_states", lambda *case, state=state: state)
        monkeypatch.setattr(module, "store", Store())
        assert [kept_reference(None, Path("folder"), case, "rules") for _ in range(3)] == ["read"] * 3  # type: ignore[arg-type]
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
