"""A signal at any time: the exit code, a true last line, whole files or none, and nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from signals import HELD, RUNS, SIGNALS, End, Run, chosen, ended, left_of, processes_of, wait_for

from evaluation.authoring.demo import DemoPaths

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = ["details.json", "metrics.json", "objects.csv"]
NOTHING = "Interrupted; no results were written."
OUT_OF_MEMORY = "The evaluation ran out of memory, or was stopped from outside"


def expected(run: Run) -> tuple[int, str, list[str]]:
    """The exit code, a part of the last line, and the files that do not begin with a dot."""
    if run.to == "watcher" and run.signal == "KILL":
        return -9, "", []  # nobody is there to say anything
    if run.to == "main" and run.signal == "KILL":
        return 70, OUT_OF_MEMORY, []
    if run.to != "worker":
        return {"TERM": 143, "INT": 130}[run.signal], NOTHING, []
    if run.signal == "INT" or not run.workers:  # the others go on; a lost worker costs its time
        return 0, "", WRITTEN
    return 70, OUT_OF_MEMORY, []


def faults_of_end(run: Run, end: End) -> list[str]:
    """Everything that is not as it must be."""
    code, line, files = expected(run)
    shown = end.files if run.signal != "KILL" else [name for name in end.files if name[0] != "."]
    return [
        *([] if end.code == code else [f"exit code {end.code}; expected {code}"]),
        *([] if end.last.startswith(line) and bool(end.last) == bool(line) else [f"the last line is {end.last!r}"]),
        *(["a path in the last line"] if "/" in end.last else []),
        *([] if shown == files else [f"files {end.files}"]),
        *([f"processes {end.left} are left"] if end.left else []),
    ]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_signal_in_any_phase_ends_everything_with_a_true_line(run: Run, demo: DemoPaths, tmp_path: Path) -> None:
    assert faults_of_end(run, ended(run, demo.challenge, demo.submissions["finder"], tmp_path)) == []


def test_the_image_gets_every_signal_in_every_phase() -> None:
    runs = chosen()
    assert {(run.signal, run.phase) for run in runs} == {(name, run.phase) for name in SIGNALS for run in RUNS}
    assert {run.to for run in runs} == {run.to for run in RUNS}
    assert 3 * len(runs) <= len(RUNS) + 10


@pytest.mark.parametrize("name", ["TERM", "KILL"])
@pytest.mark.parametrize("moment", ["workers start", "a result is there"])
def test_a_leaderboard_that_is_stopped_says_what_it_keeps(
    name: str, moment: str, demo: DemoPaths, tmp_path: Path
) -> None:
    """Its workers are processes that import everything, and are not yet there for a second."""
    teams = demo.challenge.parent / "submissions"
    options = ["--challenge", demo.challenge, "--submissions", teams, "--output", tmp_path / "out"]
    mark = tmp_path / "mark"
    command = [sys.executable, HELD, "noting", mark, "leaderboard", *options, "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*map(str, command)], env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as call:
        ours = partial(processes_of, call.pid, str(tmp_path))
        assert call.stderr is not None
        try:
            if moment == "workers start":
                while call.poll() is None and len(list(ours())) < 3:  # watcher, program, a worker
                    time.sleep(0.005)
            else:
                wait_for(mark, call)
            os.kill(call.pid, getattr(signal, f"SIG{name}"))  # it has not ended: at the latest there it is held
            lines = call.stderr.read().splitlines()
            assert call.wait() == {"TERM": 143, "KILL": -9}[name]
            assert left_of(call.pid, str(tmp_path)) == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(call.pid, signal.SIGKILL)
    kept = len(list(tmp_path.glob("out/results/*/metrics.json")))
    assert kept > 0 or moment == "workers start"
    if name == "TERM":
        assert lines[-1] == (f"Interrupted; results that were complete before are kept: {kept}." if kept else NOTHING)
