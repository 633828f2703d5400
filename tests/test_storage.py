"""Addresses of storage: what is fetched is what lies there, within limits, and nothing else."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import fsspec.implementations.memory
import pytest

from evaluation.authoring.demo import write_demo
from evaluation.challenge import LimitRules
from evaluation.commands import main as cli
from evaluation.execution import cache, storage
from evaluation.execution.storage import check_storable, entries_at, fetched, is_address
from evaluation.execution.worker_pools import SharedPool, run_packed
from evaluation.findings.errors import SubmissionRejected, WorkersLost, WrongUsage
from evaluation.leaderboard.board import score_and_rank, write_board
from evaluation.leaderboard.index import INDEX_FILE
from evaluation.results.version import __version__

ROOT = Path(__file__).resolve().parents[1]
LIMITS = LimitRules()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cases of the demo, a team as a ZIP, one with an unusual name of a file, and what is no submission."""
    folder = tmp_path_factory.mktemp("storage")
    demo = write_demo(folder)
    cases = folder / "challenge/cases.csv"
    cases.write_text("\n".join(line for line in cases.read_text().splitlines() if not line.startswith(("P3", "P4"))))
    for patient in ("P3", "P4"):
        for submission in demo.submissions.values():
            shutil.rmtree(submission / patient)
    teams = folder / "submissions"
    shutil.make_archive(str(teams / "zipped"), "zip", demo.submissions["finder"])
    (teams / "namer/P1/a note – für uns.txt").write_text("not used")
    (teams / "outliner/.DS_Store").write_bytes(b"litter")
    (teams / "README.md").write_text("notes")
    board = score_and_rank(folder / "challenge", teams, folder / "board", workers=1)
    write_board(folder / "board", board)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATION_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def in_memory(made: Path) -> Iterator[str]:
    """The same files in the memory of fsspec."""
    system = fsspec.filesystem("memory")
    system.put(f"{made}/", "/bucket/", recursive=True)
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)


@pytest.fixture(scope="module")
def served(made: Path) -> Iterator[str]:
    """The same files behind the HTTP server of Python, which lists folders."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(made)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["file", "memory", "http"])
def address(request: pytest.FixtureRequest, made: Path) -> str:
    if request.param == "file":
        return made.as_uri()
    return str(request.getfixturevalue({"memory": "in_memory", "http": "served"}[request.param]))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != INDEX_FILE
    }


# --- what is fetched --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_is_fetched_with_all_that_is_in_it_but_litter(made: Path, address: str, slash: str) -> None:
    for team in ("namer", "outliner"):
        expected = contents(made / "submissions" / team)
        expected.pop(".DS_Store", None)
        with fetched(f"{address}/submissions/{team}{slash}", LIMITS) as found:
            assert contents(found) == expected
            assert found.name == team


def test_a_file_is_fetched_under_its_name(made: Path, address: str) -> None:
    with fetched(f"{address}/submissions/zipped.zip", LIMITS) as found:
        assert found.name == "zipped.zip"
        assert found.read_bytes() == (made / "submissions/zipped.zip").read_bytes()


def test_what_is_in_a_zip_is_fetched_with_a_chain_of_protocols(made: Path) -> None:
    with fetched(f"zip::{made.as_uri()}/submissions/zipped.zip", LIMITS) as found:
        assert contents(found) == contents(made / "submissions/finder")


def test_a_local_path_is_what_it_is(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("fsspec", "fsspec.core"):
        monkeypatch.setitem(sys.modules, module, None)
    for path in (made, str(made)):
        with fetched(path, LIMITS) as found:
            assert found == made
    assert not is_address("a::b")
    assert is_address("zip::s3://bucket/a.zip")
    with pytest.raises(WrongUsage) as fault, fetched("memory://bucket", LIMITS):
        pass
    assert str(fault.value).startswith("[missing-extra] 'memory://bucket': a package is missing: 'fsspec")


def test_a_protocol_whose_package_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with (
        pytest.raises(WrongUsage, match=r"\[missing-extra\] 's3://bucket/x': .*s3fs"),
        fetched("s3://bucket/x", LIMITS),
    ):
        pass


@pytest.mark.parametrize("address", ["memory://nowhere", "http://127.0.0.1:1/x", "nosuch://x"])
def test_what_cannot_be_fetched_is_told(address: str) -> None:
    with pytest.raises(WrongUsage, match=r"^\[not-fetched\] ") as fault, fetched(address, LIMITS):
        pass
    assert repr(address) in str(fault.value)


class Forbidding(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_what_may_be_secret_is_not_told() -> None:
    """File systems repeat the address in what they say."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forbidding) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            for address in ("memory://nowhere", f"http://me:s3cret@127.0.0.1:{server.server_port}/x.zip"):
                with pytest.raises(WrongUsage) as fault, fetched(f"{address}?token=s3cret", LIMITS):
                    pass
                assert "s3cret" not in str(fault.value)
            assert "403" in str(fault.value)
        finally:
            server.shutdown()
            thread.join()


class Remembering(fsspec.implementations.memory.MemoryFileSystem):
    """Lists folders once, as s3fs and gcsfs do."""

    protocol = "remembering"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("remembering://"))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        path = path.rstrip("/")
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=detail, **options)
        return self.dircache[path]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.pop(path, None)


def test_what_was_listed_before_is_listed_again() -> None:
    """Or a second call in the same process would miss what was handed in meanwhile."""
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    system = fsspec.filesystem("remembering")
    for team in ("alpha", "beta"):
        system.pipe(f"/teams/{team}/first.txt", b"x")
        system.pipe(f"/teams/alpha/{team}.txt", b"x")
        with fetched("remembering://teams/alpha", LIMITS) as found:
            assert f"{team}.txt" in contents(found)
        assert team in [entry.name for entry in entries_at("remembering://teams")]


# --- limits -----------------------------------------------------------------------------------------------------------


def test_more_and_larger_files_than_allowed_are_refused(address: str) -> None:
    for limits, code in (
        (LimitRules(files_per_submission=3), "too-many-files"),
        (LimitRules(bytes_per_file=100), "too-large"),
        (LimitRules(bytes_per_submission=100), "too-large"),
    ):
        with (
            pytest.raises(SubmissionRejected, match=rf"\[{code}\]"),
            fetched(f"{address}/submissions/namer", limits),
        ):
            pass
    with (
        pytest.raises(SubmissionRejected, match=r"\[too-large\] 'zipped.zip'"),
        fetched(f"{address}/submissions/zipped.zip", LimitRules(bytes_per_file=100)),
    ):
        pass


def test_links_are_refused_as_they_are_in_local_folders(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not for you")
    (tmp_path / "team").mkdir()
    (tmp_path / "team/a.txt").write_text("a")
    (tmp_path / "team/link.txt").symlink_to(tmp_path / "secret")
    with (
        pytest.raises(SubmissionRejected, match=r"\[unsafe-path\] 'link.txt': neither a file nor a folder"),
        fetched((tmp_path / "team").as_uri(), LIMITS),
    ):
        pass


@pytest.mark.parametrize("name", ["..\\x", "a/../../x", "a\nb", "x" * 300, "ü" * 200])
def test_names_that_could_lead_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    system.store[f"/hostile/{name}"] = fsspec.implementations.memory.MemoryFile(system, f"/hostile/{name}", b"x")
    try:
        with (
            pytest.raises(SubmissionRejected, match=r"\[unsafe-path\]"),
            fetched("memory://hostile", LIMITS, cache=tmp_path / "deep/down"),
        ):
            pass
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    finally:
        system.store.clear()


def test_a_name_of_a_file_and_of_a_folder_is_refused() -> None:
    """Object stores have both; no file system of this machine has."""
    check_storable(["a", "b/a", "b/c"])
    with pytest.raises(SubmissionRejected, match=r"\[unsafe-path\] 'b': the name of a file and of a folder"):
        check_storable(["b", "b/c/d"])


def test_links_of_a_page_that_lead_elsewhere_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not for you")
    (tmp_path / "team").mkdir()
    (tmp_path / "team/index.html").write_text(
        '<a href="/secret">1</a> <a href="../">2</a> <a href="http://127.0.0.1:1/x">3</a> <a href="a.txt">4</a>'
        '<a href="?C=N;O=D">as Apache sorts its pages</a>'
    )
    (tmp_path / "team/a.txt").write_text("a")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with fetched(f"http://127.0.0.1:{server.server_port}/team", LIMITS) as found:
                assert contents(found) == {"a.txt": b"a"}
            (tmp_path / "team/index.html").write_text('<a href="../secret">1</a>')
            fsspec.filesystem("http").dircache.clear()
            with (
                pytest.raises(SubmissionRejected, match=r"\[unsafe-path\] '\.\./secret'"),
                fetched(f"http://127.0.0.1:{server.server_port}/team", LIMITS),
            ):
                pass
        finally:
            server.shutdown()
            thread.join()


# --- the commands -----------------------------------------------------------------------------------------------------


def test_entries_of_a_folder_are_told_by_name_and_kind(address: str) -> None:
    found = [(entry.name, entry.is_folder) for entry in entries_at(f"{address}/submissions")]
    folders = [(name, True) for name in ("finder", "namer", "outliner")]
    assert found == [("README.md", False), *folders, ("zipped.zip", False)]


def test_a_leaderboard_of_storage_is_that_of_the_files(made: Path, address: str, tmp_path: Path, capsys) -> None:
    options = ["--challenge", f"{address}/challenge", "--submissions", f"{address}/submissions"]
    assert cli.run(["leaderboard", *options, "--output", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert contents(tmp_path / "out") == contents(made / "board")
    capsys.readouterr()
    assert cli.run(["leaderboard", *options, "--output", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert ": 0 scored, 4 kept" in capsys.readouterr().err
    rank = ["rank", "--challenge", f"{address}/challenge", "--results", f"{address}/board/results"]
    assert cli.run([*rank, "--output", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again/leaderboard.csv").read_bytes() == (made / "board/leaderboard.csv").read_bytes()


def test_a_score_of_storage_is_that_of_the_files(made: Path, in_memory: str, tmp_path: Path) -> None:
    options = ["--challenge", f"{in_memory}/challenge", "--submission", f"{in_memory}/submissions/zipped.zip"]
    assert cli.run(["score", *options, "--output", str(tmp_path)]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics.pop("leaderboard")["position"] is None
    del metrics["undefined"]["leaderboard"]
    assert metrics == json.loads((made / "board/results/zipped/metrics.json").read_text())
    assert cli.run(["validate", *options]) == 0
    assert cli.run(["validate", *options[:3], f"{in_memory}/submissions/nobody"]) == 2


def test_other_commands_take_the_address_of_a_challenge(in_memory: str, tmp_path: Path, capsys) -> None:
    challenge = ["--challenge", f"{in_memory}/challenge"]
    assert cli.run(["rasterise", *challenge, "--output", str(tmp_path / "drawn")]) == 0
    assert cli.run(["kit", *challenge, "--output", str(tmp_path / "kit")]) == 0
    assert cli.run(["sensitivity", *challenge, "--output", str(tmp_path / "study")]) == 0
    assert cli.run(["phase", *challenge]) == 0
    score = [*challenge, "--submission", f"{in_memory}/submissions/namer"]
    assert cli.run(["score", *score, "--output", str(tmp_path / "score")]) == 0
    assert cli.run(["report", "--results", str(tmp_path / "score"), *score]) == 0
    assert sorted(path.name for path in (tmp_path / "drawn/labels").rglob("*.tif*"))[0].startswith("P1_1")


def test_what_is_wrong_with_the_files_of_a_challenge_is_no_fault_of_a_submission(
    in_memory: str, tmp_path: Path, capsys
) -> None:
    fsspec.filesystem("memory").pipe("/bucket/challenge/a\\b.txt", b"x")
    options = ["--challenge", f"{in_memory}/challenge", "--submission", f"{in_memory}/submissions/namer"]
    assert cli.run(["score", *options, "--output", str(tmp_path)]) == 3
    assert "The challenge itself has a fault" in capsys.readouterr().err


def test_the_limits_of_the_challenge_hold_for_what_is_fetched(in_memory: str, monkeypatch) -> None:
    seen: list[LimitRules] = []
    look = storage.look
    monkeypatch.setattr(storage, "look", lambda *given: (seen.append(given[-1]), look(*given))[1])
    toml = "/bucket/challenge/challenge.toml"
    system = fsspec.filesystem("memory")
    system.pipe(toml, system.cat(toml) + b"[limits]\nfiles_per_submission = 3\n")
    options = ["--challenge", f"{in_memory}/challenge", "--submission", f"{in_memory}/submissions/namer"]
    assert cli.run(["validate", *options]) == 1
    assert [limits.files_per_submission for limits in seen] == [sys.maxsize, 3]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_worker_elsewhere_fetches_what_it_does_not_see(in_memory: str, tmp_path: Path, monkeypatch) -> None:
    """Its machine has an empty cache when the task comes, and keeps what it fetched for the next one."""
    monkeypatch.setenv("EVALUATION_CACHE", str(tmp_path / "cache"))
    sent: list[bytes] = []

    class Sending(ThreadPoolExecutor):
        def submit(self, function, /, *arguments):
            sent.append(arguments[1])
            return super().submit(function, *arguments)

    with Sending(1) as executor, fetched(f"{in_memory}/submissions/namer", LIMITS) as found:
        expected = names_in(found)
        pool = SharedPool(executor, 1)
        assert list(pool.outcomes(names_in, [(found,)], pool.plan([], []))) == [expected]
    shutil.rmtree(tmp_path / "cache")
    assert run_packed(__version__, sent[0]) == expected
    assert contents(tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    fsspec.filesystem("memory").pipe("/bucket/submissions/namer/new.txt", b"x")
    with pytest.raises(WorkersLost, match="does not see"):  # it is not what the task is about
        run_packed(__version__, sent[0])
    fsspec.filesystem("memory").rm("/bucket/submissions/namer", recursive=True)
    with pytest.raises(WorkersLost, match=r"\[not-fetched\] 'memory://bucket/submissions/namer'"):
        run_packed(__version__, sent[0])


def test_what_did_not_change_is_not_fetched_again(made: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EVALUATION_CACHE", str(tmp_path / "cache"))
    read: list[str] = []
    system = fsspec.filesystem("memory")
    system.put(f"{made}/submissions/", "/changing/", recursive=True)
    get = type(system).get_file

    def noted(self: Any, path: str, *rest: Any, **options: Any) -> None:
        read.append(path)
        get(self, path, *rest, **options)

    monkeypatch.setattr(type(system), "get_file", noted)
    try:
        for expected in (True, False):
            for team in ("namer", "outliner"):
                with fetched(f"memory://changing/{team}", LIMITS):
                    pass
            assert bool(read) == expected
            read.clear()
        system.pipe("/changing/namer/new.txt", b"x")
        for team in ("namer", "outliner"):
            with fetched(f"memory://changing/{team}", LIMITS) as found:
                assert (found / "new.txt").exists() == (team == "namer")
        assert {path.split("/")[2] for path in read} == {"namer"}
    finally:
        system.rm("/changing", recursive=True)


def test_the_cache_is_bounded_and_keeps_what_is_in_use(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cache, "CACHE_BYTES", 250)

    def fill(folder: Path) -> None:
        (folder / "file").write_bytes(bytes(100))

    def kept() -> set[str]:
        return {path.name for path in tmp_path.iterdir()}

    with cache.cached("a-100", 100, fill, root=tmp_path) as used:
        for key in ("b-100", "c-100", "d-100"):
            with cache.cached(key, 100, fill, root=tmp_path):
                os.utime(tmp_path / key, (ord(key[0]), ord(key[0])))
        assert kept() == {"a-100", "d-100"}
        assert (used / "file").read_bytes() == bytes(100)
    with cache.cached("e-240", 240, fill, root=tmp_path):
        assert kept() == {"e-240"}
    with pytest.raises(ZeroDivisionError), cache.cached("f-1", 1, lambda _: 1 // 0, root=tmp_path):
        pass
    assert kept() == {"e-240"}


def test_a_team_that_is_refused_before_it_is_fetched_does_not_stop_the_others(
    made: Path, in_memory: str, tmp_path: Path
) -> None:
    fsspec.filesystem("memory").pipe("/bucket/submissions/evil/a\\b.mat", b"x")
    board = score_and_rank(made / "challenge", f"{in_memory}/submissions", tmp_path, workers=1)
    assert [(row.name, row.code) for row in board.unranked] == [("evil", "unsafe-path")]
    assert len(board.teams) == 4


def test_local_paths_import_nothing_of_storage_and_clusters(made: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from evaluation.commands import main as cli; code = cli.run(sys.argv[1:]);"
        "print(code, sorted({'fsspec', 'dask', 'distributed', 'aiohttp'} & set(sys.modules)))"
    )
    options = ["--challenge", made / "challenge", "--submission", made / "submissions/namer", "--output", tmp_path]
    done = subprocess.run(
        [sys.executable, "-c", script, "score", *map(str, options)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0 []\n"
