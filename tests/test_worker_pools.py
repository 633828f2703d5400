"""Many submissions by shared workers: the same bytes whoever works, what becomes of lost workers, a real cluster."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import LocalCluster
from killer import score_after_a_loss, score_but_the_poisoned
from signals import HELD, left_of, wait_for

from evaluation import score_submission
from evaluation.board.audit import audit_challenge
from evaluation.board.board import score_and_rank, write_board
from evaluation.board.document import Board
from evaluation.board.variants import audit_document
from evaluation.commands import main as cli
from evaluation.files.results import __version__
from evaluation.files.results.documents import as_json
from evaluation.findings.errors import WorkersLost
from evaluation.folders.demo import write_demo
from evaluation.scoring import executors, workers
from evaluation.scoring.processes import ProcessExecutor
from evaluation.scoring.workers import UNLIMITED, MemoryLeft

ROOT = Path(__file__).resolve().parents[1]
TEAMS = 5
PARTS = 2  # that the eight cases are scored in: together they may need more memory than a worker takes at a time


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's challenge, and five teams: mixtures of the demo's three, one of them broken, one a ZIP."""
    folder = tmp_path_factory.mktemp("worker_pools")
    demo = write_demo(folder)
    skills = list(demo.submissions.values())
    for team in range(TEAMS):
        for place, case in enumerate(sorted(path.relative_to(skills[0]) for path in skills[0].glob("*/*"))):
            shutil.copytree(skills[(team >> place % 3) % 3] / case, folder / "teams" / f"team_{team}" / case)
    (folder / "teams/team_3/P1/P1_1/Epithelial/1.mat").write_bytes(b"not a MATLAB file")
    shutil.make_archive(str(folder / "teams/zipped"), "zip", folder / "teams/team_4")
    return folder


@pytest.fixture(scope="module")
def expected(made: Path) -> dict[str, bytes]:
    """All files of the leaderboard that one process makes, team after team."""
    rank(made, made / "alone", workers=1)
    return contents(made / "alone")


def rank(made: Path, output: Path, *, teams: Path | None = None, **options: Any) -> Board:
    board = score_and_rank(made / "challenge", teams or made / "teams", output, **options)
    write_board(output, board)
    return board


def noted_in(outcomes: dict[str, str]) -> Callable[[str, str, str], None]:
    """Return a ``note`` that keeps the outcome of each team."""
    return lambda name, outcome, trace: outcomes.__setitem__(name, outcome)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_expected_board_has_all_that_matters(expected: dict[str, bytes]) -> None:
    assert sum(name.endswith("metrics.json") for name in expected) == TEAMS
    assert b"wrong-format" in expected["leaderboard.json"]
    assert len(set(expected.values())) == len(expected) - 3  # team_4 and its ZIP are alike, but for their keys


# --- the same bytes -------------------------------------------------------------------------------------------------


def spawned(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, spawned])
def test_any_executor_makes_the_bytes_of_one_process(made, expected, tmp_path, kind):
    with kind(2) as executor:
        rank(made, tmp_path / "out", executor=executor)
        result = score_submission(made / "challenge", made / "teams/team_0", executor=executor, workers=5)
    assert contents(tmp_path / "out") == expected
    assert result.texts()["metrics.json"].encode() == expected["results/team_0/metrics.json"]


def test_an_audit_by_an_executor_is_that_of_one_process(made: Path, tmp_path: Path) -> None:
    for team in ("team_0", "team_3", "team_4"):
        shutil.copytree(made / "teams" / team, tmp_path / "teams" / team)
    shutil.copytree(made / "challenge", tmp_path / "challenge")
    with (tmp_path / "challenge/challenge.toml").open("a") as toml:
        toml.write('[audit]\noverlap = ["last"]\nignore = []\n')
    steps: list[tuple[int, int]] = []
    with ThreadPoolExecutor(2) as executor:
        for name, options in (("alone", {"workers": 1}), ("together", {"executor": executor})):
            steps.clear()
            folders = [tmp_path / of for of in ("challenge", "teams", name)]
            found = audit_challenge(*folders, progress=lambda *step: steps.append(step), **options)
            (tmp_path / name / "audit.json").write_text(as_json(audit_document(found)))
            assert steps[-1] == (6, 6)
            assert steps == sorted(steps)
    assert contents(tmp_path / "alone") == contents(tmp_path / "together")


# --- processes of this machine ----------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many processes each executor has that is started from now on."""
    widths: list[int] = []
    start = ProcessExecutor.__init__

    def counting(executor: ProcessExecutor, width: int, tasks: Any) -> None:
        widths.append(width)
        start(executor, width, tasks)

    monkeypatch.setattr(ProcessExecutor, "__init__", counting)
    return widths


def test_one_pool_scores_all_teams_and_a_second_call_only_what_is_new(made, expected, opened, tmp_path):
    teams = Path(shutil.copytree(made / "teams", tmp_path / "teams"))
    told: dict[str, str] = {}
    steps: list[tuple[int, int]] = []
    options: dict[str, Any] = {"workers": 2, "note": noted_in(told), "progress": lambda *step: steps.append(step)}
    rank(made, tmp_path / "out", teams=teams, **options)
    assert contents(tmp_path / "out") == expected
    assert opened == [2]
    assert list(dict.fromkeys(steps)) == [(done, TEAMS + 1) for done in range(TEAMS + 2)]  # some twice
    assert sorted(told.values()) == ["not ranked", *["scored"] * TEAMS]
    rank(made, tmp_path / "out", teams=teams, **options)
    assert contents(tmp_path / "out") == expected
    assert opened == [2]  # nothing to do, nobody started
    shutil.copytree(teams / "team_1", teams / "newcomer")
    told.clear()
    rank(made, tmp_path / "out", teams=teams, **options | {"workers": 1})
    assert [name for name, outcome in told.items() if outcome == "scored"] == ["newcomer"]


@pytest.mark.parametrize(("seconds", "pools"), [(0.01, []), (100.0, [2])], ids=["short", "long"])
def test_the_main_process_begins_and_is_joined_where_that_saves_time(
    made: Path, expected, opened: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, pools
) -> None:
    is_faster_shared = workers.is_faster_shared
    monkeypatch.setattr(
        workers, "is_faster_shared", lambda _, tasks, workers: is_faster_shared(seconds, tasks, workers)
    )
    monkeypatch.setattr(workers, "usable_processors", lambda: 2)
    monkeypatch.setattr(workers, "memory_left", lambda: MemoryLeft(64 * 10**9))
    monkeypatch.setattr(workers, "SURELY_LONG_BYTES", UNLIMITED)
    rank(made, tmp_path / "out")
    assert opened[:1] == pools
    assert contents(tmp_path / "out") == expected


def test_a_worker_that_is_lost_costs_a_second_try_and_nothing_else(made, expected, opened, tmp_path, monkeypatch):
    """The others go on; what it was at is tried again when they are done."""
    monkeypatch.setenv("KILLER_MARK", str(tmp_path / "mark"))
    monkeypatch.setattr("evaluation.board.teams._score_team", score_after_a_loss)
    rank(made, tmp_path / "out", workers=2)
    assert (tmp_path / "mark").exists()
    assert opened == [2, 1]
    assert contents(tmp_path / "out") == expected


def with_poison(made: Path, folder: Path) -> Path:
    """A good team, one whose files are wrong, and one that kills whoever scores it."""
    for source, team in (("team_1", "poison"), ("team_0", "team_0"), ("team_3", "team_3")):
        shutil.copytree(made / "teams" / source, folder / "teams" / team)
    return folder / "teams"


def test_a_submission_that_kills_workers_alone_has_no_place(made, expected, opened, tmp_path, monkeypatch):
    monkeypatch.setattr("evaluation.board.teams._score_team", score_but_the_poisoned)
    board = rank(made, tmp_path / "out", teams=with_poison(made, tmp_path), workers=2)
    assert [(row.name, row.code) for row in board.not_ranked] == [("poison", "worker-died"), ("team_3", "wrong-format")]
    of_others = {
        name: content for name, content in expected.items() if name.startswith(("results/team_0", "results/team_3"))
    }
    assert of_others.items() <= contents(tmp_path / "out").items()


def test_a_call_that_is_killed_half_way_leaves_nobody_behind_and_the_next_one_goes_on(made, expected, tmp_path):
    """Killed: no handler and no 'finally' runs."""
    options = ["--challenge", made / "challenge", "--submissions", made / "teams", "--output", tmp_path / "out"]
    mark = tmp_path / "mark"
    command = [sys.executable, HELD, "noting", mark, "leaderboard", *options, "--workers", "2"]
    command += ["--log", tmp_path / "log"]
    with subprocess.Popen([*map(str, command)], start_new_session=True) as call:
        try:
            wait_for(mark, call)
            call.kill()
            assert left_of(call.pid, str(tmp_path)) == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(call.pid, signal.SIGKILL)
    told = (tmp_path / "log").read_text().splitlines()
    assert len(told) == 2
    outcomes: dict[str, str] = {}
    rank(made, tmp_path / "out", workers=1, note=noted_in(outcomes))
    records = [json.loads(line) for line in told]
    scored = [record["submission"] for record in records if record["outcome"] == "scored"]
    assert [team for team in scored if outcomes[team] != "kept"] == []
    assert contents(tmp_path / "out") == expected


# --- executors that lose workers --------------------------------------------------------------------------------------


class Forgetful(ThreadPoolExecutor):
    """An executor that loses the worker of some tasks, by their number, and goes on."""

    def __init__(self, lost: Callable[[int], bool]) -> None:
        super().__init__(2)
        self.lost, self.submitted = lost, 0

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self.submitted += 1
        if self.lost(self.submitted):
            failed: Future[Any] = Future()
            failed.set_exception(BrokenExecutor("a machine went away"))
            return failed
        return super().submit(function, *arguments, **options)


def test_a_submission_whose_worker_was_lost_is_scored_by_itself_and_then_not_again(made, expected, tmp_path):
    with Forgetful(lambda number: number in (1, 4)) as executor:
        rank(made, tmp_path / "some", executor=executor)
    assert contents(tmp_path / "some") == expected
    with Forgetful(lambda number: True) as executor:
        with pytest.raises(Exception, match="a worker: stopped unexpectedly") as died:
            score_submission(made / "challenge", made / "teams/team_0", executor=executor, workers=1)
        assert type(died.value).__name__ == "WorkerDied"
        assert executor.submitted == PARTS


def test_faults_of_a_submission_are_never_tried_again(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "teams/team_3", tmp_path / "teams/team_3")
    with Forgetful(lambda number: False) as executor:
        board = rank(made, tmp_path / "out", teams=tmp_path / "teams", executor=executor, workers=1)
        assert executor.submitted == 1
    assert [row.code for row in board.not_ranked] == ["wrong-format"]


def test_an_executor_that_breaks_stops_the_call_and_the_next_one_goes_on(made, expected, opened, tmp_path, monkeypatch):
    """A pool of Python never comes back. What was complete is not scored again."""
    told: dict[str, str] = {}
    teams = Path(shutil.copytree(made / "teams", tmp_path / "teams"))
    shutil.move(teams / "team_4", teams / "poison")
    monkeypatch.setattr("evaluation.board.teams._score_team", score_but_the_poisoned)
    with spawned(1) as executor, pytest.raises(WorkersLost, match="no-cluster") as lost:
        rank(made, tmp_path / "out", teams=teams, executor=executor, note=noted_in(told))
    assert "Completed work is kept" in lost.value.findings[0].fix
    monkeypatch.undo()
    done = [name for name, outcome in told.items() if outcome == "scored"]
    shutil.move(teams / "poison", teams / "team_4")
    told.clear()
    rank(made, tmp_path / "out", teams=teams, workers=1, note=noted_in(told))
    assert [name for name in done if told[name] != "kept"] == []
    shutil.rmtree(tmp_path / "out/results/poison", ignore_errors=True)
    assert contents(tmp_path / "out") == expected


def test_an_interrupted_call_leaves_no_task_behind(made: Path, tmp_path: Path) -> None:
    def interrupt(name: str, outcome: str, trace: str) -> None:
        raise KeyboardInterrupt

    futures: list[Future[Any]] = []

    class Recording(ThreadPoolExecutor):
        def submit(self, *task: Any, **options: Any) -> Future[Any]:
            futures.append(super().submit(*task, **options))
            return futures[-1]

    with Recording(1) as executor:
        with pytest.raises(KeyboardInterrupt):
            rank(made, tmp_path / "out", executor=executor, note=interrupt)
        assert [future for future in futures if not (future.running() or future.done())] == []
    assert any(future.cancelled() for future in futures)


def test_a_worker_with_another_version_is_told(made, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "__version__", "0.0.9")  # here; a worker in another process has the real one
    with spawned(1) as executor, pytest.raises(WorkersLost) as lost:
        rank(made, tmp_path / "out", executor=executor)
    assert str(lost.value).startswith(
        f"[no-cluster] a worker: runs the version {__version__}; expected the version 0.0.9"
    )


def test_a_worker_without_the_program_is_told(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes back is the ImportError of unpickling; here a task raises it."""
    monkeypatch.setattr("evaluation.board.teams._score_team", import_nothing)
    with ThreadPoolExecutor(1) as executor, pytest.raises(WorkersLost) as lost:
        rank(made, tmp_path / "out", executor=executor)
    assert str(lost.value).startswith("[no-cluster] a worker: ")
    assert "nothing" in str(lost.value)


def import_nothing(*task: object) -> None:
    import nothing  # noqa: F401


# --- a cluster --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A scheduler and three worker processes, each with a nanny that starts it again."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0") as found,
    ):
        yield found


def test_a_cluster_that_loses_a_worker_half_way_makes_the_same_bytes(made, expected, dask_cluster, tmp_path):
    told: list[str] = []
    killed = dask_cluster.workers[1].pid

    def kill_half_way(name: str, outcome: str, trace: str) -> None:
        told.append(name)
        if len(told) == TEAMS // 2:
            os.kill(killed, signal.SIGKILL)

    with executors.connect(dask_cluster.scheduler_address) as executor:
        rank(made, tmp_path / "out", executor=executor, note=kill_half_way)
    assert len(told) == TEAMS + 1
    assert contents(tmp_path / "out") == expected


def test_a_submission_that_kills_every_worker_is_told_and_the_others_are_scored(
    made: Path, dask_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.board.teams._score_team", score_but_the_poisoned)
    with executors.connect(dask_cluster.scheduler_address) as executor:
        board = rank(made, tmp_path / "out", teams=with_poison(made, tmp_path), executor=executor, workers=1)
    assert [(row.name, row.code) for row in board.not_ranked] == [("poison", "worker-died"), ("team_3", "wrong-format")]
    assert [team.name for team in board.teams] == ["team_0"]


def test_the_commands_take_the_address_of_a_cluster(made: Path, expected, dask_cluster, tmp_path: Path, capsys) -> None:
    address = dask_cluster.scheduler_address
    options = ["--challenge", made / "challenge", "--cluster", address]
    run = ["leaderboard", *options, "--submissions", made / "teams", "--output", tmp_path / "board"]
    assert cli.run([str(part) for part in run]) == 0
    assert contents(tmp_path / "board") == expected
    run = ["score", *options, "--submission", made / "teams/team_0", "--output", tmp_path / "score"]
    assert cli.run([str(part) for part in run]) == 0
    metrics = json.loads((tmp_path / "score/metrics.json").read_text())
    assert metrics == json.loads(expected["results/team_0/metrics.json"])


PYTHON = re.findall(r"```python\n(.*?)```", (ROOT / "docs/scale.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: re.findall(r"(?:from|import) (\w+)", block)[-1])
def test_python_examples_of_the_page_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/scale.md", "exec"), {"__name__": "__main__"})


def test_commands_of_the_page_run_with_the_address_of_a_cluster(dask_cluster, made, tmp_path, monkeypatch) -> None:
    shutil.copytree(made / "challenge", tmp_path / "demo/challenge")
    shutil.copytree(made / "submissions", tmp_path / "demo/submissions")
    with (tmp_path / "demo/challenge/challenge.toml").open("a") as toml:
        toml.write("[audit]\noverlap = []\nignore = []\n")  # one run of each team is enough here
    monkeypatch.chdir(tmp_path)
    commands = re.findall(
        r"^evaluation (.* --cluster tcp://127\.0\.0\.1:8786)$", (ROOT / "docs/scale.md").read_text(), re.M
    )
    assert len(commands) == 2
    for command in commands:
        assert cli.run(command.replace("tcp://127.0.0.1:8786", dask_cluster.scheduler_address).split()) == 0


SIGNALLED = """
import os, signal, threading
from evaluation.commands.watch import Stopped, stop
from evaluation.scoring.processes import ProcessExecutor

def start(thread, started=[], start=threading.Thread.start):
    started.append(thread)
    if len(started) == 2:
        os.kill(os.getpid(), signal.SIGTERM)  # the second worker is there, and its thread is not
    start(thread)

threading.Thread.start = start
signal.signal(signal.SIGTERM, stop)
try:
    ProcessExecutor(2)
except Stopped:
    print("stopped")
"""


def test_a_signal_while_workers_start_ends_them() -> None:
    command = [sys.executable, "-c", SIGNALLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.communicate(timeout=120)[0] == "stopped\n"
            assert left_of(process.pid, SIGNALLED) == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
