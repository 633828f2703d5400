"""What a call tells while it works, and what it leaves if a signal ends it."""

from __future__ import annotations

import io
import itertools
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import types
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from distributed import LocalCluster
from signals import HELD, RUNS, SIGNALS, End, Run, chosen, ended, left_of, processes_of, wait_for

from evaluation.commands import main as cli
from evaluation.commands.screen import SubmissionsProgress, scoring
from evaluation.findings.errors import WorkersLost
from evaluation.folders.compare import compare_paths
from evaluation.folders.demo import DemoPaths, run_demo
from evaluation.scoring import executors


def test_a_line_every_thirty_seconds_tells_counts_speed_and_what_is_left(capsys) -> None:
    now = [0.0]
    log = io.StringIO()
    progress = SubmissionsProgress(None, log, lambda: now[0])
    outcomes = ["kept"] * 100 + ["scored"] * 18 + ["not ranked"] * 2
    for index, outcome in enumerate(outcomes):
        now[0] += 0 if outcome == "kept" else 3  # 20 a minute
        progress.note(f"team {index}", outcome)
        progress.progress(index + 1, 1120)
    progress.end()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "110 of 1,120 done: 10 scored, 100 kept, 0 not ranked; 20 a minute; 50 min left",
        "120 of 1,120 done: 18 scored, 100 kept, 2 not ranked; 20 a minute; 50 min left",
        "120 submissions in 60 s: 18 scored, 100 kept, 2 not ranked; 20 a minute; 50 min left",
    ]
    records = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(records) == 120
    assert records[-1] == {"submission": "team 119", "outcome": "not ranked", "number": 120, "seconds": 60.0}


def test_the_command_writes_a_json_line_for_each_submission(own_demo: DemoPaths, tmp_path: Path, capsys) -> None:
    options = ["--challenge", "challenge", "--submissions", "submissions", "--output", "out", "--log", "logs/log.jsonl"]
    run = ["leaderboard", *(str(tmp_path / part) if part[0] != "-" else part for part in options)]
    for expected in ("3 scored, 0 kept, 0 not ranked", "0 scored, 3 kept, 0 not ranked"):
        assert cli.run([*run, "--workers", "1"]) == 0
        assert re.match(rf"3 submissions in \d+ (s|min): {expected}", capsys.readouterr().err)
    records = [json.loads(line) for line in (tmp_path / "logs/log.jsonl").read_text().splitlines()]
    assert [(each["submission"], each["outcome"]) for each in records] == [
        *((team, "scored") for team in ("finder", "namer", "outliner")),
        *((team, "kept") for team in ("finder", "namer", "outliner")),
    ]
    assert cli.run([*run[:-1], str(tmp_path)]) == 2
    assert f"[cannot-write] '{tmp_path}'" in capsys.readouterr().err


def test_a_terminal_shows_a_bar_with_the_counts(own_demo: DemoPaths, tmp_path: Path) -> None:
    where = ["--challenge", tmp_path / "challenge", "--submissions", tmp_path / "submissions"]
    code, shown = on_a_terminal(["leaderboard", *where, "--output", tmp_path / "out", "--workers", "1"], 140)
    assert code == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"Scoring .* 2/3 2 scored, 0 kept, 0 not ranked; [\d,.]+ a minute; \d+ (s|min) left", text)
    assert re.search(r"3 submissions in \d+ (s|min): 3 scored", text)


# --- clusters without workers -----------------------------------------------------------------------------------------


def test_waiting_for_workers_is_told_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "WORKER_SECONDS", 1.2)
    monkeypatch.setattr(executors, "REPORT_EVERY_SECONDS", 0.3)
    ticks = itertools.count(step=0.35)  # a clock that goes on by being looked at
    clock = types.SimpleNamespace(monotonic=lambda: next(ticks), sleep=time.sleep)
    monkeypatch.setattr(executors, "time", clock)
    lines: list[str] = []
    with LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address=":0") as empty:
        address = empty.scheduler_address
        with pytest.raises(WorkersLost) as fault, executors.connect(address, lines.append):
            pass
    assert len(lines) == 3
    assert re.fullmatch(rf"no workers at {address} yet, waiting \d s of 1.2", lines[0])
    assert str(fault.value).startswith(f"[no-cluster] --cluster '{address}': no workers for 1.2 s; expected workers")


def test_workers_that_come_later_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "REPORT_EVERY_SECONDS", 0.2)
    with LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address=":0") as empty:

        def say(line: str) -> None:
            empty.scale(1)

        with executors.connect(empty.scheduler_address, say) as executor:
            assert executor is not None
            assert executor.submit(sum, [1, 2]).result() == 3


def test_a_lost_scheduler_is_one_sentence_and_the_same_command_goes_on(own_demo: DemoPaths, tmp_path: Path) -> None:
    for team in range(12):
        shutil.copytree(list(own_demo.submissions.values())[team % 3], tmp_path / "teams" / f"team_{team}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    dask = [Path(sys.executable).with_name("dask")]
    scheduler = [*dask, "scheduler", "--port", address.rsplit(":")[-1], "--no-dashboard"]
    worker = [*dask, "worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    command = [sys.executable, "-m", "evaluation", "leaderboard", "--challenge", tmp_path / "challenge"]
    command += ["--submissions", tmp_path / "teams", "--cluster", address]
    log = ["--log", tmp_path / "log"]
    mark = tmp_path / "mark"
    held = [sys.executable, HELD, "noting", mark, *command[3:], "--workers", "1"]  # few are under way with the third
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    called = {**quiet, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(scheduler, **quiet) as first, subprocess.Popen(worker, **quiet) as left:
        with subprocess.Popen([*held, "--output", tmp_path / "out", *log], **called) as call:
            assert call.stderr is not None
            wait_for(mark, call)
            first.kill()
            first.wait()
            mark.unlink()
            assert call.stderr.read() == (
                f"Cannot run: [no-cluster] --cluster '{address}': the scheduler was lost; expected a scheduler that "
                "runs to the end. Start it and its workers again, and run the command again. Completed work is kept.\n"
            )
        left.kill()  # some end with their scheduler, some wait for ever
        assert call.returncode == 70
    kept = (tmp_path / "log").read_text().count("scored")
    assert 3 <= kept < 12
    with subprocess.Popen(scheduler, **quiet) as again, subprocess.Popen(worker, **quiet) as working:
        done = subprocess.run([*command, "--output", tmp_path / "out", *log], **called, check=True)
        again.kill()
        working.kill()
    assert f": {12 - kept} scored, {kept} kept, 0 not ranked" in done.stderr
    subprocess.run([*command[:-2], "--output", tmp_path / "alone"], **quiet, check=True)
    for name in ("leaderboard.json", "leaderboard.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_the_log_says_what_the_system_lacks_to_confine_decoders(tmp_path, monkeypatch):
    for missing in ([], ["seccomp"]):
        monkeypatch.setattr("evaluation.commands.screen.missing_here", lambda missing=missing: missing)
        with scoring(cluster=None, log=tmp_path / "log", workers=1) as how:
            how["note"]("a", "scored")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line.get("unconfined") for line in lines] == [None, ["seccomp"]]


@pytest.mark.parametrize("command", ["compare", "demo"])
def test_several_models_have_one_bar_with_a_total(demo: DemoPaths, command: str, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    if command == "demo":
        run_demo(tmp_path, workers=1, progress=lambda *step: steps.append(step))
    else:
        models = {name: demo.submissions[name] for name in ("finder", "namer")}
        compare_paths(demo.challenge / "reference", models, workers=1, progress=lambda *step: steps.append(step))
    totals = {total for _, total in steps}
    assert len(totals) == 1 and [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (max(totals), max(totals))


def test_a_finding_is_wrapped_at_the_width_of_a_terminal_and_is_one_line_elsewhere(own_demo, tmp_path, capsys):
    (tmp_path / "submissions/finder/P1/P1_1/Epithelial/1.mat").write_bytes(b"no MAT file at all")
    where = ["--challenge", str(tmp_path / "challenge"), "--submission", str(tmp_path / "submissions/finder")]
    command = ["validate", *where, "--workers", "1"]
    assert cli.run(command) == 1
    piped = capsys.readouterr().err
    assert len(piped.splitlines()) <= 2 and len(piped) > 2 * 60
    code, text = on_a_terminal(command, 60)
    lines = [line for line in text.splitlines() if "\x1b" not in line]
    assert code == 1 and len(lines) > 2 and max(map(len, lines)) <= 60
    assert "".join(piped.split())[-80:] in "".join("".join(lines).split())


def on_a_terminal(command: list[object], columns: int) -> tuple[int, str]:
    """The exit code of a command, and what it writes to a terminal of this width on stderr."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    program = [sys.executable, "-m", "evaluation", *map(str, command)]
    with subprocess.Popen(program, stderr=theirs, stdout=subprocess.DEVNULL, env=environment) as call:
        os.close(theirs)
        parts = []
        with suppress(OSError):  # it was closed
            while True:
                parts.append(os.read(ours, 1 << 16))
        os.close(ours)
    return call.returncode, b"".join(parts).decode()


# --- a signal at any time: the exit code, a true last line, whole files or none, and nobody left behind ---------------


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


def ended_script(text: str, *arguments: str) -> tuple[int, str]:
    """The exit code of a script, and what it says on stderr."""
    command = [sys.executable, "-c", text, *arguments]
    call = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return call.returncode, call.stderr


DROPS_EXCEPTIONS = """
import os, signal, time
from evaluation.commands.watch import run_watched

class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)

def program():
    Last()
    time.sleep(60)

raise SystemExit(run_watched(program))
"""


def test_a_signal_that_comes_where_python_drops_exceptions_ends_the_program() -> None:
    assert ended_script(DROPS_EXCEPTIONS) == (143, "Interrupted; no results were written.\n")


ENDS_FIRST = """
import os, signal, time
from evaluation.commands.watch import run_watched

def wait(child, options, wait=os.waitpid):
    ended = wait(child, options)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
    return ended

os.waitpid = wait
raise SystemExit(run_watched(lambda: 3))
"""


def test_a_signal_to_the_watcher_of_a_program_that_has_just_ended_changes_nothing() -> None:
    assert ended_script(ENDS_FIRST) == (3, "")


WRAPS_EXCEPTIONS = """
import os, signal, sys, time
from evaluation.commands.watch import run_watched

class Signalled:
    def __set_name__(self, *_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)

class Finder:
    def find_spec(name, *_):
        if name == sys.argv[1]:
            type("Owner", (), {"name": Signalled()})  # Python 3.11 makes a RuntimeError of what is raised

def program():
    sys.meta_path.insert(0, Finder)
    from evaluation.commands.main import run
    return run(["init", "--help"])

raise SystemExit(run_watched(program))
"""


CRASHES_AT_ITS_END = """
import os, signal, time
from evaluation.commands.watch import run_watched

class Fragile:
    def __del__(self, abort=os.abort):
        abort()

def program():
    global fragile
    fragile = Fragile()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

raise SystemExit(run_watched(program))
"""


def test_a_signal_ends_a_program_that_python_cannot_take_apart() -> None:
    assert ended_script(CRASHES_AT_ITS_END) == (143, "Interrupted; no results were written.\n")


@pytest.mark.parametrize("module", ["evaluation.commands.main", "evaluation.commands.prepare"])
def test_a_signal_of_which_an_extension_makes_another_error_ends_the_program(module: str) -> None:
    assert ended_script(WRAPS_EXCEPTIONS, module) == (143, "Interrupted; no results were written.\n")


def test_the_image_gets_every_signal_in_every_phase() -> None:
    runs = chosen()
    assert {(run.signal, run.phase) for run in runs} == {(name, run.phase) for name in SIGNALS for run in RUNS}
    assert {run.to for run in runs} == {run.to for run in RUNS}
    assert 2 * len(runs) <= len(RUNS)


@pytest.mark.parametrize("moment, name, code", [
    *((moment, *ends) for moment in ("workers start", "a result is there") for ends in (("TERM", 143), ("KILL", -9))),
    ("a result is there", "KILL of the child", 70),
])  # fmt: skip
def test_a_leaderboard_that_is_stopped_says_what_it_keeps(moment, name, code, demo, tmp_path):
    """Its workers are processes that import everything, and are not yet there for a second."""
    teams = demo.challenge.parent / "submissions"
    options = ["--challenge", demo.challenge, "--submissions", teams, "--output", tmp_path / "out"]
    mark = tmp_path / "mark"
    command = [sys.executable, HELD, "noting", mark, "leaderboard", *options, "--workers", "2"]
    with subprocess.Popen([*map(str, command)], start_new_session=True, stderr=subprocess.PIPE, text=True) as call:
        ours = partial(processes_of, call.pid, str(tmp_path))
        assert call.stderr is not None
        try:
            if moment == "workers start":
                while call.poll() is None and len(list(ours())) < 3:  # watcher, program, a worker
                    time.sleep(0.005)
            else:
                wait_for(mark, call)
            # It has not ended: at the latest there it is held.
            process = int(mark.read_text()) if name == "KILL of the child" else call.pid
            os.kill(process, getattr(signal, f"SIG{name.split()[0]}"))
            lines = call.stderr.read().splitlines()
            assert call.wait() == code
            assert left_of(call.pid, str(tmp_path)) == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(call.pid, signal.SIGKILL)
    kept = len(list(tmp_path.glob("out/results/*/metrics.json")))
    assert kept > 0 or moment == "workers start"
    if name == "TERM":
        assert lines[-1] == (f"Interrupted; results that were complete before are kept: {kept}." if kept else NOTHING)
    elif code == 70:
        assert lines[-1].startswith(OUT_OF_MEMORY)
        assert lines[-1].endswith(f"submission. Results that were complete before are kept: {kept}.")
