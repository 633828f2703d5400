"""A signal at any time: the exit code, a true last line, whole files or none, and nobody left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from signals import RUNS, End, Run, ended

from evaluation.authoring.demo import DemoPaths, write_demo

WRITTEN = ["details.json", "metrics.json", "objects.csv"]
NOTHING = "Interrupted; no results were written."


def expected(run: Run) -> tuple[int, str, list[str]]:
    """The exit code, a part of the last line, and the files that do not begin with a dot."""
    if run.to == "watcher" and run.signal == "KILL":
        return -9, "", []  # nobody is there to say anything
    if run.to == "main" and run.signal == "KILL":
        return 70, "The evaluation was killed, as a rule because the memory did not suffice", []
    if run.to != "worker":
        return {"TERM": 143, "INT": 130}[run.signal], NOTHING, []
    if run.signal == "INT" or not run.workers:  # the others go on; a lost worker costs its time
        return 0, "", WRITTEN
    return 70, "The evaluation ran out of memory", []


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


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoPaths:
    return write_demo(tmp_path_factory.mktemp("demo"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_signal_in_any_phase_ends_everything_with_a_true_line(run: Run, demo: DemoPaths, tmp_path: Path) -> None:
    assert faults_of_end(run, ended(run, demo.challenge, demo.submissions["finder"], tmp_path)) == []
