"""Whatever a reader or a library raises is a finding about its file; in a board the other teams are ranked."""

from __future__ import annotations

import cProfile
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from boards import ranking_by
from every_format import SIDES, write_challenge
from findings import Bench
from scipy.io import savemat

from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.files.decoding import guard
from evaluation.files.formats import annotation_xml, format_of, geojson
from evaluation.files.formats.imports import find_stores
from evaluation.findings import shell_command
from evaluation.findings.errors import ChallengeBroken
from evaluation.folders.pairs import pair_names
from evaluation.scoring import street

MASK = np.zeros((60, 60), np.uint8)
MASK[5:15, 5:15], MASK[30:40, 30:45] = 1, 2


class MadeForThisTest(Exception):
    """A class that no reader can list."""


def let_readers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the readers of GeoJSON and of Aperio's XML raise at files with the word "odd"."""
    for formats, name in ((geojson.FORMATS, "geojson"), (annotation_xml.FORMATS, "aperio_xml")):
        plain = formats[name].read

        def reader(stream: Any, *arguments: Any, plain: Callable[..., Any] = plain, **more: Any) -> Any:
            if b"odd" in stream.read():
                raise MadeForThisTest("a file")
            stream.seek(0)
            return plain(stream, *arguments, **more)

        monkeypatch.setitem(formats, name, replace(formats[name], read=reader))
    format_of.cache_clear()


@pytest.fixture
def failing_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_readers_fail(monkeypatch)
    kept, guard.launchers[:] = list(guard.launchers), []
    guard.of_thread.idle.clear()
    yield
    format_of.cache_clear()
    guard.of_thread.stop_all()
    guard.launchers[:] = kept


def make_odd(path: Path) -> None:
    path.write_text(path.read_text().replace("{", '{"odd": 1, ', 1))


LINE = "a damaged file, or a fault of its reader (MadeForThisTest); expected a complete file."


@pytest.mark.parametrize("command", ["score", "validate", "compare", "convert", "convert challenge", "init"])
def test_an_exception_that_nobody_listed_is_a_finding_in_every_command(
    failing_reader: None, command: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.make("geojson outlines")
    (odd, *_) = sorted(Path("submission").glob("*.geojson"))
    make_odd(odd)
    sides = ["--challenge", "challenge", "--submission", "submission"]
    commands = {
        "score": (1, ["score", *sides, "--output", "out"]),
        "validate": (1, ["validate", *sides]),
        "compare": (2, ["compare", "challenge/reference", "submission"]),
        "convert": (1, ["convert", str(odd), "made", "--to", "label_tiff", "--size", "20x30"]),
        "convert challenge": (1, ["convert", "submission", "made", "--to", "geojson", "--challenge", "challenge"]),
        "init": (2, ["init", "new"]),
    }
    shutil.copytree("submission", "new/reference")
    code, arguments = commands[command]
    assert run(arguments) == code
    printed = capsys.readouterr()
    assert "[unreadable-file] " in printed.err and LINE in printed.err
    assert "Traceback" not in printed.err
    assert ("Traceback" in printed.out) == (command == "score")  # administrators read it


def test_an_odd_reference_is_a_fault_of_the_challenge(failing_reader: None, bench: Bench) -> None:
    bench.make("geojson outlines")
    make_odd(min(Path("challenge/reference").glob("*.geojson")))
    for command in (["score", "--output", "out"], ["rasterise", "--output", "out"]):
        submission = ["--submission", "submission"] if command[0] == "score" else []
        printed = bench.run(*command, "--challenge", "challenge", *submission)
        assert LINE in printed and "The challenge itself has a fault" in printed


def make_teams(bench: Bench) -> None:
    """A challenge that ranks by F1, and three perfect submissions, of which "odd" is to be spoilt."""
    bench.make("geojson outlines", ranking=ranking_by("detection.f1.group_mean"))
    for team in ("alpha", "beta", "odd"):
        shutil.copytree("submission", f"teams/{team}")


TEAMS = ["--challenge", "challenge", "--submissions", "teams", "--output", "out"]
FAILING = """
import sys
import pytest
from test_unlisted_faults import let_readers_fail
from evaluation.commands.main import run
let_readers_fail(pytest.MonkeyPatch())
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("command", ["leaderboard", "audit"])
def test_in_a_board_the_team_is_not_ranked_and_the_others_are(command: str, workers: str, bench: Bench) -> None:
    """In a process without threads, whose workers are copies of it."""
    make_teams(bench)
    make_odd(min(Path("teams/odd").glob("*.geojson")))
    call = [sys.executable, "-c", FAILING, command, *TEAMS, "--workers", workers, "--log", "log"]
    subprocess.run(call, check=True)
    document = json.loads(Path(f"out/{command}.json").read_text())
    (team,) = document["not_ranked"]
    assert team["name"] == "odd" and LINE in team["reason"]
    assert sorted(each["name"] for each in document["teams"]) == ["alpha", "beta"]
    lines = {line["submission"]: line for line in map(json.loads, Path("log").read_text().splitlines())}
    assert "MadeForThisTest: a file" in lines["odd"]["trace"]
    assert "trace" not in lines["alpha"]


def test_a_fault_of_the_program_leaves_one_team_without_a_place(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    """Behind the readers, where a library meets numbers that it cannot take."""
    make_teams(bench)
    plain = street.match_cases

    def match_cases(challenge: Any, cases: Any) -> Any:
        if any(len(case.prediction) == 0 for case in cases):
            raise MadeForThisTest("a case")
        return plain(challenge, cases)

    for path in Path("teams/odd").glob("*.geojson"):
        path.write_text('{"type": "FeatureCollection", "features": []}')
    with monkeypatch.context() as patch:
        patch.setattr(street, "match_cases", match_cases)
        assert run(["leaderboard", *TEAMS, "--workers", "1", "--log", "log"]) == 0
    document = json.loads(Path("out/leaderboard.json").read_text())
    assert [each["name"] for each in document["not_ranked"]] == ["odd"]
    assert (
        "[program-failed] submission: the program failed on it (MadeForThisTest)" in document["not_ranked"][0]["reason"]
    )
    assert "MadeForThisTest: a case" in Path("log").read_text()
    assert run(["leaderboard", *TEAMS, "--workers", "1"]) == 0  # it is not kept
    assert json.loads(Path("out/leaderboard.json").read_text())["not_ranked"] == []


# --- files of the study -----------------------------------------------------------------------------------------------


def mat_of_class_255(path: Path) -> None:
    """scipy calls it logical, and raises UnboundLocalError for its class."""
    savemat(path, {"inst_map": MASK.astype(np.int32), "inst_type": np.array([[1], [2]])})
    content = bytearray(path.read_bytes())
    content[144], content[145] = 255, content[145] | 2
    path.write_bytes(content)


def tiff_of_planes(path: Path) -> None:
    """imagecodecs raises DeflateError."""
    tifffile.imwrite(path, np.stack([MASK, 2 * MASK, MASK]), compression="zlib", photometric="minisblack")
    content = bytearray(path.read_bytes())
    start = content.find(b"\x78\x9c") + 10
    content[start : start + 4] = bytes(255 - byte for byte in content[start : start + 4])
    path.write_bytes(content)


def empty_array(path: Path) -> None:
    np.save(path, np.zeros((5, 0), int))


DAMAGED = {"a.mat": mat_of_class_255, "a.tif": tiff_of_planes, "a.npy": empty_array}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_of_the_study_end_with_a_finding(name: str, bench: Bench) -> None:
    for folder in ("one", "two", "new/reference"):
        Path(folder).mkdir(parents=True)
        DAMAGED[name](Path(folder) / name)
    np.save("two/b.npy", MASK)
    for arguments in (
        ["compare", "one", "two"],
        ["compare", "two", "one"],
        ["init", "new"],
        ["convert", f"one/{name}", "made", "--to", "geojson"],
    ):
        assert run(arguments) in (0, 1, 2, 3)


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("kind", ["label_image channel npz", "geojson outlines", "pannuke_masks", "hovernet_mat"])
def test_a_damaged_file_of_another_format_is_a_finding_of_validate(kind: str, name: str, bench: Bench) -> None:
    bench.make(kind)
    for path in [path for path in Path("submission").rglob("*") if path.is_file()]:
        DAMAGED[name](path.with_name(name))
        path.write_bytes(path.with_name(name).read_bytes())
        path.with_name(name).unlink()
    assert run(["validate", "--challenge", "challenge", "--submission", "submission"]) == 1


# --- folders of every format ------------------------------------------------------------------------------------------


def test_folders_of_every_format_are_compared_and_started_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in SIDES:
        challenge, submission = write_challenge(kind, tmp_path / "made")
        (challenge / "reference" / "counts.csv").write_text("case,Epithelial,Lymphocyte\nc1,2,1\n")
        assert run(["compare", str(challenge / "reference"), str(submission)]) in (0, 1, 2), kind
        shutil.copytree(challenge / "reference", tmp_path / "new" / "reference")
        assert run(["init", "new"]) in (0, 2, 3), kind
        shutil.copytree(challenge / "reference", tmp_path / "all" / kind)
        shutil.rmtree(tmp_path / "made")
        shutil.rmtree(tmp_path / "new")
    assert run(["compare", "all", "all"]) == 0


def test_a_table_of_counts_beside_labels_is_left_out(bench: Bench) -> None:
    for side in ("one", "two", "new/reference"):
        bench.write(f"{side}/a.npy", MASK)
        bench.write(f"{side}/counts.csv", "case,epithelial\na,2\n")
    line = "numbers of nuclei only; expected labels in the format of the other files. Ignored."
    assert line in bench.run("compare", "one", "two")
    assert line in bench.run("init", "new")
    Path("one/a.npy").unlink()
    assert "no labels, but 'counts.csv', numbers of nuclei only" in bench.run("compare", "one", "two")


# --- hostile names ----------------------------------------------------------------------------------------------------


NAMES = ("a;touch X.png", "a$(touch X).png", "a`touch X`.png", "a'b\"c.png", "-o.png", "é.png", "a.png;touch X;")


@pytest.mark.parametrize("name", NAMES)
def test_commands_that_are_printed_name_the_file_and_run_nothing_else(name: str, bench: Bench) -> None:
    """In a shell in which ``evaluation`` prints its arguments."""
    coloured = np.zeros((60, 60, 3), np.uint8)
    coloured[..., 0], coloured[..., 1] = MASK, 20 * MASK
    channels = np.stack([MASK, np.where(MASK > 0, MASK, 0)])
    channels[1, 20:28, 20:28] = 7
    bench.write("one/a.npy", MASK)
    for side, content in (("colours", coloured), ("channels", channels)):
        bench.write(f"{side}/made.{'png' if side == 'colours' else 'npy'}", content)
        (made,) = Path(side).iterdir()
        made.rename(made.with_name(name))
        for arguments in (["one", side], ["one", f"{side}/{name}"]):
            printed = bench.run("compare", *arguments)
            call = re.search(r"(evaluation convert .*--set plane=\S+)", printed)
            assert call is not None, printed
            script = "evaluation() { printf '%s\\n' \"$@\"; }; " + call[1]
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
            assert done.stdout.splitlines()[1] == f"{side}/{name}"
    assert not Path("X").exists() and sorted(path.name for path in Path().iterdir()) == ["channels", "colours", "one"]


def test_a_name_that_cannot_be_printed_gives_no_command(bench: Bench) -> None:
    assert shell_command("evaluation", "convert", Path("a\nb.png")) == ""
    bench.make("geojson outlines")
    bench.write("submission.json", "{}")
    labels = np.zeros((20, 30), np.uint8)
    labels[2:6, 2:6] = 1
    shutil.rmtree("submission")
    bench.write("submission/case_017.png", labels)
    Path("submission/case_017.png").rename("submission/case_017\n.png")
    assert "evaluation convert" not in bench.validate()


def test_a_terminal_without_arrows_ends_with_0(bench: Bench) -> None:
    bench.write("one/a.npy", MASK)
    call = [sys.executable, "-m", "evaluation", "compare", "one", "one", "--output", "out"]
    done = subprocess.run(call, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Detection: F1" in done.stdout


# --- many of anything -------------------------------------------------------------------------------------------------


def test_names_stores_and_keys_are_gone_through_once(tmp_path: Path) -> None:
    """Thousands, as many calls of the program for each as for hundreds."""

    def stores(number: int) -> None:
        names = [f"{index}.zarr/{part}" for index in range(number) for part in (".zgroup", "0/.zarray", "0/0.0")]
        assert len(find_stores(names)) == number

    def pairs(number: int) -> None:
        left, right = ([f"{word} {index} {7 * index % number}" for index in range(number)] for word in ("a", "b"))
        assert len(pair_names([*left, "c"], [f"{name}x" for name in right]).pairs) <= number

    def keys(number: int) -> None:
        (tmp_path / "cases.csv").write_text("case,height,width\na,9,9\n")
        unknown = "".join(f"key{index} = 1\n" for index in range(number))
        (tmp_path / "challenge.toml").write_text(f'format_version = 1\nname = "a"\npreset = "monusac2020"\n{unknown}')
        with pytest.raises(ChallengeBroken) as broken:
            Challenge.load(tmp_path)
        assert len(broken.value.findings) == number

    for work in (stores, pairs, keys):
        few, many = (calls_of(partial(work, number)) for number in (200, 1600))
        assert many < 12 * few, work.__name__


def calls_of(work: Callable[[], None]) -> int:
    """How many functions, built-in ones as well, are called."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def test_a_store_in_a_store_and_names_beside_it_stay_where_they_belong() -> None:
    names = ["a.zarr/.zgroup", "a.zarr/b.zarr/.zgroup", "a.zarr-x/.zgroup", "a/0/.zarray", "a-b/1.tif", "a.zarr/x/1"]
    assert find_stores(names) == {
        "a.zarr": ("a.zarr/.zgroup", "a.zarr/b.zarr/.zgroup", "a.zarr/x/1"), "a.zarr-x": ("a.zarr-x/.zgroup",),
        "a/0": ("a/0/.zarray",),
    }  # fmt: skip
    assert find_stores([".zgroup", "0/.zarray", "b/c.tif"]) == {"": (".zgroup", "0/.zarray", "b/c.tif")}


def test_an_odd_team_in_many_rows_is_counted(bench: Bench) -> None:
    rows = "".join(f"{team},{case},f1,0.{case}\n" for case in range(1, 7) for team in ("good", "b\u200bd"))
    bench.write("scores.csv", f"team,case,metric,value\n{rows}")
    call = ["rank", "--scores", "scores.csv", "--output", "board", "--column", "f1:descending"]
    assert "line 3, line 5, line 7 and 3 more: the team" in bench.run(*call)


@pytest.mark.parametrize("end, code", [("\f", "U+000C"), ("\u2028", "U+2028"), ("\x85", "U+0085")])
def test_a_table_whose_lines_end_as_no_csv_ends_them_is_refused(end: str, code: str, bench: Bench) -> None:
    """All of it is the header then, and it would be a prediction without nuclei."""
    bench.make("points_csv")
    bench.write("submission/case_017.csv", f"x,y,class{end}1,2,Epithelial{end}".encode())
    assert f"'case_017.csv', line 1: the character {code} in the names of the columns" in bench.validate()
