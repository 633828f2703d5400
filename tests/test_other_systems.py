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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import lock_descriptor
from frozen_demo import copy_frozen_demo
from other_systems.sitecustomize import GONE

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
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": f"{ROOT}:{ROOT / 'library'}"}
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
    path = [os.fspath(part) for part in (IMITATION, ROOT, ROOT / "library", ROOT / "tests")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "OTHER_SYSTEM": system,
        "PYTHONIOENCODING": "utf-8",
    }
    start, arguments = COMMANDS[name]
    done = subprocess.run(
        [sys.executable, *start, *arguments], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )
    printed = [line for line in done.stdout.splitlines() if not line.startswith("Files were decoded without")]
    files = {path.relative_to(folder).as_posix(): content_of(path) for path in (folder / "out").rglob("*.*")}
    told = [re.sub("in [0-9]+ s: |; [0-9]+ a minute", "", line) for line in done.stderr.splitlines()[-3:]]
    return {"code": done.returncode, "lines": printed, "errors": told, "files": files}


def content_of(path: Path) -> Any:
    """The bytes of a file; of details.json what it says, but of confinement, and of a key what depends on that."""
    if path.name not in ("details.json", "key.json"):
        return path.read_bytes()
    document = json.loads(path.read_bytes())
    document.get("software", {}).pop("unconfined", None)
    document.get("files", {}).pop("details.json", None)
    return document


def write_faults(submission: Path, target: Path) -> None:
    """A submission with faults of many kinds."""
    shutil.copytree(submission, target)
    files = sorted((path for path in target.rglob("*") if path.is_file()), key=lambda path: path.parts)
    files[0].write_bytes(b"")
    files[1].write_bytes(b"\x00\xff" * 500)
    files[2].write_bytes(files[2].read_bytes()[:-200])
    files[3].unlink()
    files[4].rename(files[4].with_name("of nobody" + files[4].suffix))
    (target / "notes.docx").write_bytes(b"words")


@pytest.mark.parametrize("system", GONE)
def test_a_submission_is_scored_to_the_byte_as_on_linux(system: str, tmp_path: Path) -> None:
    here, there = (run_on(of, tmp_path / f"on {of}", "score") for of in ("linux", system))
    assert here["code"] == 0 and "out/metrics.json" in here["files"]
    assert there == here


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_and_writes_what_it_does_on_linux(name: str, tmp_path: Path) -> None:
    here, *others = (run_on(system, tmp_path / f"on {system}", name) for system in ("linux", *GONE))
    assert here["code"] == CODES.get(name, 0)
    for there in others:
        assert there == here
