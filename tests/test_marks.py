"""What tests are run with: marks, mutants, processes and benchmarks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from marks import MARKS, OF_FIXTURE, OF_TEST
from mutants import MUTANTS
from processes import run_in_group

from benchmarks import files, run

HERE = Path(__file__).parent
PACKAGES = ("evaluation", "library/nuclei_metrics")


def test_what_is_marked_is_there_and_marked_once() -> None:
    named = [name for names in OF_TEST.values() for name in names]
    assert len(named) == len(set(named))
    assert {*OF_TEST, *OF_FIXTURE.values()} == set(MARKS)
    for name in named:
        file, _, function = name.partition("::")
        assert re.search(rf"^(async )?def {function or 'test_'}", (HERE / file).read_text(), re.MULTILINE), name


# --- the list of mutants: every old text is in the program once, and all rooms of the engine have some ----------------


def test_every_mutant_can_be_made():
    assert [f"{mutant}: {fault}" for mutant in MUTANTS if (fault := mutant.fault())] == []


def test_a_mutant_that_cannot_be_made_is_told():
    assert replace(MUTANTS[0], old="no such text").fault() == "the old text is there 0 times"
    assert replace(MUTANTS[0], old="import").fault() != ""
    assert replace(MUTANTS[0], tests=("nothing",)).fault() == "no such tests: nothing"


def test_no_two_mutants_are_equal_and_the_rooms_that_score_rank_and_show_have_some():
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.old != mutant.new for mutant in MUTANTS)
    rooms = {path.parent.name for package in PACKAGES for path in HERE.parent.glob(f"{package}/*/__init__.py")}
    rooms -= {"folders"}
    assert {mutant.file.partition("/")[0] for mutant in MUTANTS if "/" in mutant.file} == rooms


# --- what tests start ends with them ----------------------------------------------------------------------------------


TESTS = Path(__file__).parent
SPIN = "while True: pass"


def test_a_process_that_uses_too_much_processor_time_is_killed() -> None:
    done = run_in_group([sys.executable, "-c", SPIN], cpu_seconds=1)
    assert done.returncode in (-signal.SIGKILL, -signal.SIGXCPU)


def test_what_a_process_prints_and_returns_is_there() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = run_in_group([sys.executable, "-c", code], cpu_seconds=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_grandchildren_are_gone_when_the_call_returns() -> None:
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid)"
    done = run_in_group([sys.executable, "-c", code], cpu_seconds=60)
    assert is_gone(int(done.stdout))


def test_a_process_that_ends_with_its_parent_is_gone_when_the_parent_is_killed() -> None:
    """The parent is killed while its child spins; nothing of the parent runs any more."""
    child = f"from processes import end_with_parent; end_with_parent(); print('ready', flush=True)\n{SPIN}"
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        try:
            running.kill()
            running.wait()
            assert is_gone(pid)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_gone(pid: int) -> bool:
    """Whether a process that was killed has ended; it may take the kernel a moment."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("only Linux tells what is running")
    handle = None
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
    if handle is None:
        return True
    import select

    ended = bool(select.select([handle], [], [], 60)[0])
    os.close(handle)
    return ended


# --- what the benchmarks print, from made-up measurements. Nothing here is timed --------------------------------------


MEASURED = {
    name: [dict(zip(("seconds", "processor", "memory"), round_, strict=True)) for round_ in rounds]
    for name, rounds in {
        "floor": [(0.3, 0.25, 57.0), (0.26, 0.26, 57.5)], "one": [(1.3, 1.6, 84.0), (1.4, 1.5, 85.0)],
        "stardist": [(4.0, 4.0, 1600.0)] * 2,
    }.items()
}  # fmt: skip


def test_ratios_from_files_are_of_the_shortest_rounds():
    rows = [line.split(" | ") for line in files.table(MEASURED).splitlines()[4:]]
    last = str(json.loads(files.LAST_RELEASE.read_text())["ratios"]["one"])
    assert rows == [
        ["| `tifffile.imread` of both sides", "0.26 (0.28)", "0.25", "1.0", "1.0", "57 |"],
        ["| `evaluation score --workers 1`", "1.30 (1.35)", "1.50", "6.0", last, "84 |"],
        ["| stardist, `imread` and `matching_dataset`", "4.00 (4.00)", "4.00", "16.0", "", "1,600 |"],
    ]


def test_a_contender_that_failed_keeps_its_row():
    outcomes = {
        "counts": run.Outcome(times=(0.1, 0.2), ratios=(2.0,), peak=1.1, pairs=9, description="made up"),
        "cellpose": run.Outcome(times=(1.0,), ratios=(20.0,), peak=2.0, pairs=9),
        "hover_net": run.Outcome(failure="not done after 3 minutes"),
    }
    lines = run.table("set", outcomes, rounds=1).splitlines()
    assert [line.split(" | ")[1:4] for line in lines[-3:-1]] == [
        ["0.100 (0.150)", "2.0, goal: at most 2", ""],
        ["1.000 (1.000)", "20.0", "10.0"],
    ]
    assert lines[-1].startswith("| HoVer-Net") and "not done after 3 minutes" in lines[-1]


def test_only_what_stands_between_the_markers_is_renewed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n")
    run.write_between_markers(page, "new")
    assert page.read_text() == f"before\n{run.BEGIN}\n\nnew\n\n{run.END}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="has no lines"):
        run.write_between_markers(page, "new")
