"""The program on Windows and macOS, as far as Linux can resemble them (``other_systems/sitecustomize.py``)."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import lock_descriptor
from frozen_demo import copy_frozen_demo
from other_systems.sitecustomize import GONE
from scipy.io import loadmat, savemat

from evaluation.files.system import windows

ROOT = Path(__file__).resolve().parents[1]
IMITATION = ROOT / "tests" / "other_systems"
SYSTEM = ROOT / "evaluation/files/system"
# What only Linux has, or only Linux and macOS; ``guard`` calls it where there is a launcher of decoders alone.
OF_LINUX = {SYSTEM / "linux.py", SYSTEM / "confinement.py", ROOT / "evaluation/files/decoding/guard.py"}
OF_UNIX = {*OF_LINUX, SYSTEM / "posix.py", SYSTEM / "macos.py"}
SOURCES = sorted([*ROOT.glob("evaluation/**/*.py"), *ROOT.glob("library/nuclei_metrics/**/*.py")])


def names_used(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each module that a file imports, as ("modules", name), and each attribute of os, signal and socket."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                yield from (("modules", alias.name.partition(".")[0]) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield "modules", module.partition(".")[0]
                yield from ((module, alias.name) for alias in names)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                yield module, name


@pytest.mark.parametrize("system", GONE)
def test_what_a_system_lacks_is_used_by_no_module_but_those_of_others(system: str) -> None:
    gone = {(kind, name) for kind, names in GONE[system].items() for name in names.split()}
    others = OF_UNIX if system == "win32" else OF_LINUX
    used = {(path.relative_to(ROOT).as_posix(), *use) for path in SOURCES for use in set(names_used(path)) & gone}
    assert {path for path, *_ in used} <= {path.relative_to(ROOT).as_posix() for path in others}
    assert used  # the walk sees what Linux has


def signatures(*files: str) -> dict[str, Any]:
    """The public functions of some modules of ``system``, by name, with their arguments that have no default."""
    functions = {}
    for node in (node for file in files for node in ast.parse((SYSTEM / file).read_text(encoding="utf-8")).body):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            positional = [argument.arg for argument in node.args.args]
            functions[node.name] = positional[: len(positional) - len(node.args.defaults)], ast.dump(node.returns)
    return functions


def test_every_system_answers_the_same_calls() -> None:
    door = ast.parse((SYSTEM / "__init__.py").read_text(encoding="utf-8")).body
    offered = {node.targets[0].id for node in door if isinstance(node, ast.Assign)} - {"STOPPING"}
    systems = [signatures(*files) for files in (("linux.py", "posix.py"), ("macos.py", "posix.py"), ("windows.py",))]
    for name in offered:
        assert systems[0][name] == systems[1][name] == systems[2][name], name


def text_is_written(call: ast.Call) -> bool:
    """Return whether a call writes a text file: ``write_text``, ``path.open("w")`` or ``open(path, "w")``."""
    match call.func, call.args:
        case ast.Attribute(attr="write_text"), _:
            return True
        case ast.Attribute(attr="open"), [ast.Constant(value=mode), *_]:
            return mode in ("w", "a", "x")
        case ast.Name("open"), [_, ast.Constant(value=mode), *_]:
            return mode in ("w", "a", "x")
    return False


def test_no_text_file_is_written_with_the_line_ends_or_the_code_page_of_a_system() -> None:
    calls = [(path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.Call) and text_is_written(node)]  # fmt: skip
    assert calls  # the log of ``leaderboard``
    said = {"encoding", "newline"}
    by_system = [(path.name, call.lineno) for path, call in calls if said - {word.arg for word in call.keywords}]
    assert by_system == []


# --- parts of the module for Windows ----------------------------------------------------------------------------------


def test_windows_delays_a_signal_until_the_block_ends() -> None:
    came: list[str] = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append("signal"))
    try:
        with windows.held_signals((signal.SIGINT,)):
            signal.raise_signal(signal.SIGINT)
            came.append("block")
        assert came == ["block", "signal"]
        signal.raise_signal(signal.SIGINT)
        assert came == ["block", "signal", "signal"]
    finally:
        signal.signal(signal.SIGINT, before)


def test_windows_locks_a_folder_for_one_program_and_writes_nothing_into_it(tmp_path: Path) -> None:
    first, second, other = (windows.lock_handle(folder) for folder in (tmp_path, tmp_path / ".", tmp_path / "other"))
    try:
        assert lock_descriptor(first)
        assert not lock_descriptor(second, blocking=False)
        assert lock_descriptor(other, blocking=False)
    finally:
        for handle in (first, second, other):
            os.close(handle)
    assert not list(tmp_path.iterdir())


# --- terminals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding, printed", [
    ("utf-8", "F1 ↑ 3 px ‹case› … µ ü 核"),
    ("cp1252", "F1 > 3 px ‹case› … µ ü ?"),
    ("latin-1", "F1 > 3 px <case> ... µ ü ?"),
    ("ascii", "F1 > 3 px <case> ... u ? ?"),
])  # fmt: skip
def test_a_terminal_that_lacks_a_character_gets_a_plain_one(encoding: str, printed: str) -> None:
    text = "F1 ↑ 3\u2007px ‹case› … µ ü 核"
    program = f"from evaluation import __main__ as program; program._print_everywhere(); print({text!r})"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)
    assert done.stdout.decode(encoding).rstrip().replace("\u2007", " ") == printed


# --- whole commands ---------------------------------------------------------------------------------------------------


KILLED = """
import sys
import killer
from evaluation.commands import main
from evaluation.scoring import street
if __name__ == "__main__":
    street.score_cases = killer.kill_worker
    sys.exit(main.run(sys.argv[1:]))
"""
FULL = """
import errno, sys
from evaluation.commands import main
from evaluation.files.results import files
def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
files.write_new = no_space
sys.exit(main.run(sys.argv[1:]))
"""
PROGRAM = ["-m", "evaluation"]
SIDES = ["--challenge", "demo/challenge", "--submission"]
SCORE = ["score", *SIDES, "demo/submissions/finder", "--output", "out"]
COMPARE = ["compare", "--output", "out", "demo/challenge/reference"]
BOARD = ["leaderboard", *SIDES[:2], "--submissions", "demo/submissions", "--output", "out"]
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "score": (PROGRAM, SCORE),
    "score with workers": (PROGRAM, [*SCORE, "--workers", "2", "--quiet"]),
    "validate": (PROGRAM, ["validate", *SIDES, "faulty"]),
    "compare": (PROGRAM, [*COMPARE, "demo/submissions/finder"]),
    "compare a ZIP": (PROGRAM, [*COMPARE, "finder.zip", "--report"]),
    "leaderboard": (PROGRAM, [*BOARD, "--workers", "2", "--report"]),
    "killed": (["-c", KILLED], [*SCORE, "--workers", "2"]),
    "full": (["-c", FULL], SCORE),
}

CODES = {"validate": 1, "killed": 70, "full": 70}


def run_on(system: str, folder: Path, name: str) -> dict[str, Any]:
    """The exit code of a command, what it prints, and the files that it writes, but what they say of confinement."""
    copy_frozen_demo(folder / "demo")
    shutil.make_archive(str(folder / "finder"), "zip", folder / "demo/submissions/finder")
    write_faults(folder / "demo/submissions/finder", folder / "faulty")
    start, arguments = COMMANDS[name]
    done = started_on(system, folder, [*start, *arguments])
    printed = [line for line in done.stdout.splitlines() if not line.startswith("Files were decoded without")]
    told = [re.sub("in [0-9]+ s: |; [0-9]+ a minute", "", line) for line in done.stderr.splitlines()]
    told = told if name == "validate" else told[-3:]
    return {"code": done.returncode, "lines": printed, "errors": told, "files": files_of(folder / "out")}


def started_on(system: str, folder: Path, arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([os.fspath(IMITATION), os.environ["PYTHONPATH"]])
    environment = {**os.environ, "PYTHONPATH": path, "OTHER_SYSTEM": system, "PYTHONIOENCODING": "utf-8"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [sys.executable, *arguments]
    return subprocess.run(command, text=True, cwd=folder, env=environment, check=False, **streams)


def files_of(folder: Path) -> dict[str, Any]:
    return {path.relative_to(folder).as_posix(): content_of(path) for path in folder.rglob("*") if path.is_file()}


def content_of(path: Path) -> Any:
    """The bytes of a file; of details.json what it says, but of confinement, and of a key what depends on that."""
    if path.name not in ("details.json", "key.json"):
        return path.read_bytes()
    document = json.loads(path.read_bytes())
    document.get("software", {}).pop("unconfined", None)
    document.get("files", {}).pop("details.json", None)
    return document


def write_faults(submission: Path, target: Path) -> None:
    """A submission with a fault in each of twenty of its files."""
    shutil.copytree(submission, target)
    files = sorted((path for path in target.rglob("*") if path.is_file()), key=lambda path: path.parts)
    files[0].write_bytes(b"")
    files[1].write_bytes(b"\x00\xff" * 500)
    files[2].write_bytes(files[2].read_bytes()[:-200])
    files[3].unlink()
    files[4].rename(files[4].with_name("of nobody" + files[4].suffix))
    files[5].write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    files[6].write_bytes(b"PK\x03\x04" + bytes(100))
    changes: list[Callable[[Any], dict[str, Any]]] = [
        lambda plain: {"n_ary_mask": -plain.astype(np.int32)},
        lambda plain: {"n_ary_mask": plain + 0.5},
        lambda plain: {"n_ary_mask": np.full(plain.shape, np.nan)},
        lambda plain: {"n_ary_mask": plain[:-1]},
        lambda plain: {"n_ary_mask": plain.T},
        lambda plain: {"n_ary_mask": np.stack([plain, plain])},
        lambda plain: {"n_ary_mask": plain * 1j},
        lambda plain: {"n_ary_mask": plain * 1e18},
        lambda _: {"n_ary_mask": "words"},
        lambda plain: {"n_ary_mask": {"a": plain}},
        lambda _: {"n_ary_mask": np.zeros((0, 0))},
        lambda plain: {"mask": plain, "other": plain},
        lambda _: {},
    ]
    for path, change in zip(files[8:], changes, strict=False):
        savemat(path, change(loadmat(path)["n_ary_mask"]))
    (target / "notes.docx").write_bytes(b"words")
    shutil.copytree(files[-1].parent, files[-1].parent.with_name("Of no class"))


@pytest.mark.parametrize("system", GONE)
def test_a_submission_is_scored_to_the_byte_as_on_linux(system: str, tmp_path: Path) -> None:
    here, there = (run_on(of, tmp_path / f"on {of}", "score") for of in ("linux", system))
    assert here["code"] == 0 and "metrics.json" in here["files"]
    assert there == here


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_and_writes_what_it_does_on_linux(name: str, tmp_path: Path) -> None:
    here, *others = (run_on(system, tmp_path / f"on {system}", name) for system in ("linux", *GONE))
    assert here["code"] == CODES.get(name, 0)
    for there in others:
        assert there == here


def test_the_twenty_faults_are_of_many_kinds(tmp_path: Path) -> None:
    told = run_on("win32", tmp_path, "validate")["errors"]
    kinds = {line.partition("]")[0].partition("[")[2] for line in told}
    assert len(kinds) >= 10, told


LONG: dict[str, list[str]] = {
    "convert": ["convert", "--challenge", "{}/challenge", "{}/submissions/finder", "{}/out", "--to", "geojson"],
    "rasterise": ["rasterise", "--challenge", "{}/challenge", "--output", "{}/out"],
    "kit": ["kit", "--challenge", "{}/challenge", "--output", "{}/out"],
    "validate": ["validate", "--challenge", "{}/challenge", "--submission", "{}/submissions/finder"],
    "compare": ["compare", "{}/challenge/reference", "--name", "a={}/submissions/finder", "--output", "{}/out"],
    "init": ["init", "{}/new", "--submission", "{}/submissions/finder"],
    "leaderboard": ["leaderboard", "--challenge", "{}/challenge", "--submissions", "{}/submissions", "--output",
                    "{}/out", "--store", "{}/store", "--log", "{}/log/lines", "--report"],
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_paths_have_any_length_on_windows(name: str, tmp_path: Path) -> None:
    """As in a folder of a short name, where the files are the same."""
    short, long = tmp_path / "short", tmp_path.joinpath(*["a folder whose name is long" * 3] * 4)
    assert len(str(long)) > 300
    found = []
    for folder in (short, long):
        copy_frozen_demo(folder)
        if name == "init":
            shutil.copytree(folder / "challenge/reference", folder / "new/reference")
        done = started_on("win32", tmp_path, [*PROGRAM, *(word.format(folder) for word in LONG[name])])
        assert done.returncode == 0, done.stderr
        files = files_of(folder)
        files.pop("log/lines", None)
        found.append(files)
    assert found[0].keys() == found[1].keys()
    differing = [key for key in found[0] if found[0][key] != found[1][key]]
    assert [key for key in differing if not key.endswith((".html", "key.json"))] == []


HELD = """
import sys
from evaluation.commands import main
if __name__ == "__main__":
    with open(sys.argv[1], "rb"):
        sys.exit(main.run(sys.argv[2:]))
"""


@pytest.mark.parametrize("held", ["metrics.json", "objects.csv"])
def test_results_of_which_another_program_has_a_file_open_stay_and_the_file_is_named(held: str, tmp_path: Path) -> None:
    copy_frozen_demo(tmp_path / "demo")
    assert started_on("win32", tmp_path, [*PROGRAM, *SCORE]).returncode == 0
    before = files_of(tmp_path / "out")
    other = [*SCORE[:4], "demo/submissions/namer", *SCORE[5:]]
    done = started_on("win32", tmp_path, ["-c", HELD, f"out/{held}", *other])
    assert done.returncode == 2
    assert "being used by another process" in done.stderr and "Close it in other programs" in done.stderr
    assert f"out/{held}" in done.stderr
    assert files_of(tmp_path / "out") == before
    assert started_on("win32", tmp_path, [*PROGRAM, *other]).returncode == 0
    assert files_of(tmp_path / "out") != before


def test_a_converted_file_that_another_program_has_open_stays(tmp_path: Path) -> None:
    copy_frozen_demo(tmp_path / "demo")
    convert = ["convert", *SIDES[:2], "demo/submissions/finder", "out", "--to", "geojson"]
    assert started_on("win32", tmp_path, [*PROGRAM, *convert]).returncode == 0
    before = files_of(tmp_path)
    done = started_on("win32", tmp_path, ["-c", HELD, "out/P2_1.geojson", *convert])
    assert done.returncode == 2
    assert "'out/P2_1.geojson'" in done.stderr and "being used by another process" in done.stderr
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("name", ["validate", "compare"])
def test_a_command_ends_well_when_nobody_reads_what_it_prints(name: str, tmp_path: Path) -> None:
    """Windows has no errno of its own for a closed pipe."""
    found = []
    for system in ("linux", *GONE):
        copy_frozen_demo(tmp_path / system / "demo")
        arguments = ["validate", *SIDES, "demo/submissions/finder"] if name == "validate" else COMMANDS[name][1]
        reading, writing = os.pipe()
        os.close(reading)
        try:
            done = started_on(system, tmp_path / system, [*PROGRAM, *arguments], stdout=writing)
        finally:
            os.close(writing)
        told = [line for line in done.stderr.splitlines() if "without" not in line]
        found.append((done.returncode, told[-2:], [*files_of(tmp_path / system / "out")]))
    assert found[0][0] == 0
    assert found[1:] == found[:1] * len(GONE)
