"""Output at addresses of storage: the bytes of a local folder, put whole, found again, whatever fails."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from evaluation.authoring.demo import write_demo
from evaluation.commands import main as cli
from evaluation.execution.stored_output import INDEX_FILE, StoredOutput, stored_output
from evaluation.leaderboard import board, index
from evaluation.leaderboard.board import score_and_rank
from evaluation.leaderboard.document import leaderboard_json
from evaluation.leaderboard.index import Index


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    demo = write_demo(folder)
    cases = folder / "challenge/cases.csv"
    cases.write_text("\n".join(line for line in cases.read_text().splitlines() if not line.startswith(("P3", "P4"))))
    with (folder / "challenge/challenge.toml").open("a") as toml:
        toml.write("[audit]\noverlap = []\nignore = []\n")
    for patient in ("P3", "P4"):
        for submission in demo.submissions.values():
            shutil.rmtree(submission / patient)
    for command in ("leaderboard", "audit"):
        assert run(command, folder, folder / command) == 0
    return folder


def run(command: str, made: Path, output: Path | str, *more: str) -> int:
    options = ["--challenge", str(made / "challenge"), "--submissions", str(made / "submissions")]
    return cli.run([command, *options, "--output", str(output), "--workers", "1", *more])


def local(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != INDEX_FILE
    }


def stored(address: str) -> dict[str, bytes]:
    system, root = fsspec.url_to_fs(address)
    system.invalidate_cache()
    paths = system.find(root)
    return {path.removeprefix(root).lstrip("/"): system.cat_file(path) for path in paths if INDEX_FILE not in path}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of moto's S3 server, over HTTP."""
    moto = pytest.importorskip("moto.server", reason="needs moto[server]: ./test.sh --all runs it from .venv-s3")
    s3fs = pytest.importorskip("s3fs")
    server = moto.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    patch = pytest.MonkeyPatch()
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(key, "testing")
    patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": f"http://{host}:{port}"})
    s3fs.S3FileSystem().mkdir("bucket")
    yield "s3://bucket"
    patch.undo()
    server.stop()


@pytest.fixture(params=["file", "memory", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "s3":
        yield f"{request.getfixturevalue('bucket')}/{tmp_path.name}/out"
    else:
        yield (tmp_path / "out").as_uri() if request.param == "file" else "memory://results/out"
        fsspec.filesystem("memory").store.clear()


def test_commands_write_to_an_address_what_they_write_to_a_folder(made: Path, address: str, capsys) -> None:
    assert run("leaderboard", made, f"{address}/board") == 0
    assert f"Written to {address}/board: leaderboard.json" in capsys.readouterr().out
    assert stored(f"{address}/board") == local(made / "leaderboard")
    assert run("leaderboard", made, f"{address}/board") == 0
    assert "0 scored, 3 kept" in capsys.readouterr().err
    assert stored(f"{address}/board") == local(made / "leaderboard")
    assert run("audit", made, f"{address}/audit") == 0
    assert run("audit", made, f"{address}/audit") == 0
    assert "0 scored, 3 kept" in capsys.readouterr().err
    assert stored(f"{address}/audit") == local(made / "audit")
    challenge = ["--challenge", str(made / "challenge")]
    assert cli.run(["rank", *challenge, "--results", f"{address}/board/results", "--output", f"{address}/rank"]) == 0
    assert stored(f"{address}/rank") == {
        name: data for name, data in local(made / "leaderboard").items() if name.startswith("leaderboard.")
    }
    score = ["score", *challenge, "--output", f"{address}/score"]
    assert cli.run([*score, "--submission", str(made / "submissions/namer")]) == 0
    found = stored(f"{address}/score")
    assert sorted(found) == ["details.json", "metrics.json", "objects.csv"]
    assert found["objects.csv"] == (made / "leaderboard/results/namer/objects.csv").read_bytes()
    assert json.loads(found["metrics.json"])["challenge"]
    (made / "broken").mkdir(exist_ok=True)
    assert cli.run([*score, "--submission", str(made / "broken")]) == 1
    assert stored(f"{address}/score") == {}  # an earlier submission's would be taken for this one's


def test_a_call_that_fails_half_way_keeps_what_was_complete(made: Path, address: str, capsys, monkeypatch) -> None:
    put_file = StoredOutput.put_file
    puts: list[str] = []

    def failing(self: StoredOutput, name: str) -> None:
        puts.append(name)
        if len(puts) > 6:
            raise OSError("the network is down")
        put_file(self, name)

    monkeypatch.setattr(StoredOutput, "put_file", failing)
    assert run("leaderboard", made, address) == 2
    assert f"[cannot-write] '{address}': 'the network is down'" in capsys.readouterr().err
    there = stored(address)
    assert {name: data for name, data in local(made / "leaderboard").items() if name in there} == there
    assert [name for name in there if name.endswith("key.json")] == ["results/finder/key.json"]
    assert "results/namer/metrics.json" not in there
    monkeypatch.setattr(StoredOutput, "put_file", put_file)
    assert run("leaderboard", made, address) == 0
    assert "2 scored, 1 kept" in capsys.readouterr().err
    assert stored(address) == local(made / "leaderboard")


def test_a_bucket_that_is_not_there_is_not_made(made: Path, bucket: str, capsys) -> None:
    assert run("leaderboard", made, "s3://mistyped/out") == 2
    assert "[cannot-write] 's3://mistyped/out': " in capsys.readouterr().err
    assert not fsspec.filesystem("s3").exists("mistyped")


def test_what_makes_a_result_valid_goes_first_and_comes_last(tmp_path: Path, monkeypatch) -> None:
    system = fsspec.filesystem("memory")
    steps: list[tuple[str, str]] = []
    for name in ("rm_file", "mv"):
        method = getattr(type(system), name)

        def noted(self: Any, path: str, *rest: Any, name: str = name, method: Any = method) -> None:
            steps.append((name, (rest or [path])[0].rpartition("/")[2]))
            method(self, path, *rest)

        monkeypatch.setattr(type(system), name, noted)
    for content in ("first", "second"):
        with stored_output("memory://results/ordered") as output:
            output.bring("results/alpha")
            team = output.folder / "results/alpha"
            team.mkdir(parents=True, exist_ok=True)
            for name in ("key.json", "metrics.json", "objects.csv"):
                (team / name).write_text(content)
            steps.clear()
    assert [step for step in steps if step[1][0] != "."] == [
        ("rm_file", "key.json"),
        ("rm_file", "metrics.json"),
        ("mv", "objects.csv"),
        ("mv", "metrics.json"),
        ("mv", "key.json"),
    ]
    system.store.clear()


@pytest.mark.parametrize("command", ["leaderboard", "audit"])
@pytest.mark.parametrize(
    ("address", "code"), [("https://127.0.0.1:1/out", "cannot-write"), ("gs://bucket/out", "missing-extra")]
)
def test_an_address_that_cannot_be_written_to_is_refused_before_anything_is_scored(
    made: Path, tmp_path: Path, monkeypatch, capsys, command: str, address: str, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert run(command, made, address) == 2
    assert capsys.readouterr().err.startswith(f"Cannot run: [{code}] '{address}': ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["file", "memory"], indirect=True)
def test_of_thousands_of_results_those_that_did_not_change_are_not_fetched(
    made: Path, address: str, monkeypatch
) -> None:
    monkeypatch.setattr(index, "SETTLED_SECONDS", 0)
    monkeypatch.setattr(board, "PAIRS_UP_TO", 0)  # more teams are not compared in pairs
    fetched: list[str] = []
    fetch = StoredOutput.fetch

    def noted(self: StoredOutput, names: set[str]) -> None:
        fetched.extend(sorted(names))
        fetch(self, names)

    monkeypatch.setattr(StoredOutput, "fetch", noted)

    def again() -> str:
        fetched.clear()
        with stored_output(address) as output:
            return leaderboard_json(score_and_rank(made / "challenge", made / "submissions", output, workers=1))

    first = again()
    assert fetched == []
    assert again() == first and fetched == [f"results/{INDEX_FILE}"]
    path = next((made / "submissions/namer").rglob("*.mat"))
    path.write_bytes(path.read_bytes())
    assert again() == first
    names = ("details.json", "key.json", "metrics.json", "objects.csv")
    assert fetched == [f"results/{INDEX_FILE}", *(f"results/namer/{name}" for name in names)]
    system, root = fsspec.url_to_fs(address)
    system.pipe_file(f"{root}/results/finder/details.json", b"{}")  # somebody else's
    assert again() == first and "results/finder/details.json" in fetched  # it was scored again
    system.rm_file(f"{root}/results/{INDEX_FILE}")
    assert again() == first and len(fetched) == 3 * len(names)


def test_two_calls_at_once_lose_no_line_of_an_index(address: str) -> None:
    with stored_output(address) as one, stored_output(address) as other:
        for output, team in ((one, "a"), (other, "b")):
            (output.folder / "results" / team).mkdir(parents=True)
            (output.folder / "results" / team / "key.json").write_text(team)
            output.put(f"results/{team}")
            Index(output, "results", "challenge").add(team, "stamp", {"team": team})
    with stored_output(address) as output:
        found = Index(output, "results", "challenge")
        assert [found.find(team, "stamp") for team in "abc"] == [{"team": "a"}, {"team": "b"}, None]
        assert found.find("a", "another stamp") is None
