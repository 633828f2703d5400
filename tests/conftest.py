"""What several test files share, and which tests are left out (see marks.py)."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("OTHER_SYSTEM") and ("-n" not in sys.argv or "PYTEST_XDIST_WORKER" in os.environ):
    from other_systems.sitecustomize import imitate

    imitate(os.environ["OTHER_SYSTEM"], is_test=True)  # before the program is imported
from browser import browser, chromium  # noqa: F401, fixtures
from findings import Bench
from frozen_demo import copy_demo, copy_frozen_demo
from hypothesis import HealthCheck, settings
from marks import MARKS, OF_FIXTURE, OF_LINUX, OF_TEST

from evaluation.commands.main import run
from evaluation.folders.demo import DemoPaths, write_demo

TESTS = Path(__file__).resolve().parent
os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (TESTS.parent, TESTS.parent / "library", TESTS)))  # of children
SHARED_DATA = TESTS.parents[1] / "shared" / "data"
collect_ignore = [name for name in OF_LINUX if "::" not in name and sys.platform != "linux"]
LEFT_OUT = pytest.StashKey[Counter[str]]()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the real data, which are never copied into the project (licences)."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"NOT TESTED ON REAL DATA: the folder {SHARED_DATA} is missing")
    return SHARED_DATA


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoPaths:
    """The demo with its three teams, not to be changed."""
    return write_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Generator[None]:
    """Nobody needs the files of tests after a power failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own_demo(demo: DemoPaths, tmp_path: Path) -> DemoPaths:
    """A copy of the demo in the test's folder, which the test may change."""
    return copy_demo(demo.challenge.parent, tmp_path)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> DemoPaths:
    """The frozen demo with its three teams, not to be changed."""
    return copy_frozen_demo(tmp_path_factory.mktemp("frozen"))


@pytest.fixture(scope="session")
def board(made: DemoPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of 'leaderboard' for the teams of the demo and one that is rejected, not to be changed."""
    folder = tmp_path_factory.mktemp("board")
    shutil.copytree(made.challenge.parent / "submissions", folder / "submissions")
    (folder / "submissions/empty").mkdir()
    arguments = ["--challenge", made.challenge, "--submissions", folder / "submissions", "--output", folder / "out"]
    assert run(["leaderboard", *map(str, arguments), "--workers", "1"]) == 0
    return folder / "out"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo with its board and all pages, not to be changed; a team has a name that a URL must not have as it is."""
    folder = tmp_path_factory.mktemp("pages")
    write_demo(folder)
    (folder / "submissions" / "namer").rename(folder / "submissions" / "namer + co @1")
    where = ["--challenge", str(folder / "challenge"), "--submissions", str(folder / "submissions")]
    assert run(["leaderboard", *where, "--output", str(folder), "--workers", "1", "--report"]) == 0
    return folder


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, capsys, monkeypatch)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew-golden", action="store_true", help="write the golden results of tests/golden anew")
    parser.addoption("--fast", action="store_true", help="leave out every test that marks.py marks")


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.stash[LEFT_OUT] = Counter()
    if config.getoption("--fast"):
        settings.load_profile("fast")  # a property that says no number of its own is tried 20 times, else 100 times
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)  # so that what tests have started ends with them


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """No file is searched for examples that has none: that takes seconds."""
    collectors = yield
    has_doctests = file_path.name != "conftest.py" and b">>>" in file_path.read_bytes()
    return collectors if has_doctests else [of for of in collectors if type(of) is pytest.Module]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are called by their argument: those of gzip hold the second at which they were made, and the workers of
    xdist must collect the same names."""
    return argname if isinstance(val, bytes) else None


def interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise KeyboardInterrupt


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests; with --fast keep only those without a mark, and count the others by their first mark."""
    of_name = {name: mark for mark, names in OF_TEST.items() for name in names}
    kept, left_out = [], []
    for item in items:
        marks = [OF_FIXTURE[fixture] for fixture in getattr(item, "fixturenames", ()) if fixture in OF_FIXTURE]
        function = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        if item.path.is_relative_to(TESTS):
            marks += [of_name[name] for name in (item.path.name, function) if name in of_name]
        for mark in marks:
            item.add_marker(mark)
        if marks:
            config.stash[LEFT_OUT][marks[0]] += 1
        if function in OF_LINUX and sys.platform != "linux":
            item.add_marker(pytest.mark.skip(reason="only Linux has what it needs"))
        (left_out if marks else kept).append(item)
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish() -> None:
    """What was collected stays: the garbage collector need not walk it again, here and in every forked process."""
    gc.freeze()


# With xdist the workers collect, and tell the one process that reports.


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(session.config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--fast"):
        left_out = config.stash[LEFT_OUT]
        told = ", ".join(f"{left_out[name]} {name}" for name in MARKS if left_out[name])
        terminalreporter.write_line(
            f"Left out: {left_out.total()} tests ({told}) and the image; ./test.sh --all runs them."
        )


# Machines are noisy: how long an example takes decides nothing.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("patient"), max_examples=20)
settings.load_profile("patient")
