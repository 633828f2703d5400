"""The walks of docs/development.md ("Adding a metric", …), executed in a copy of the program.

A walk is a section of that page. Its blocks are taken in order:

- ``python`` whose first line is ``# path``: becomes that new file
- ``diff`` whose first line is ``--- path``: its lines with "+" are put between the lines without sign, those with "-"
  are taken away; the old lines must stand in the file, once
- ``shell``: lines with "$ " are commands, ``evaluation …`` or ``./test.sh …`` (pytest); they must succeed, and print
  the lines that follow them
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/development.md"
MOST_FILES = {"Adding a metric": 2, "Adding a command": 2, "Adding a finding": 2}  # by hand
REGISTRIES = {"evaluation/metrics/registry.py", "evaluation/commands/main.py"}  # one line in one of them is free


def section(heading: str) -> str:
    found = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", (ROOT / PAGE).read_text(), re.DOTALL | re.MULTILINE
    )
    assert found, heading
    return found[1]


def blocks_of(heading: str) -> Iterator[tuple[str, str]]:
    """Language and text of each block of a section."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", section(heading), re.DOTALL | re.MULTILINE)


def change(root: Path, diff: str) -> tuple[str, int]:
    """Make the change of a diff block; the file, and how many lines it adds or takes away."""
    head, *lines = diff.splitlines()
    name = head.removeprefix("--- ")
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    text = (root / name).read_text()
    assert text.count(before) == 1, f"these lines do not stand in {name} once:\n{before}"
    (root / name).write_text(text.replace(before, after))
    return name, sum(line[:1] in "+-" for line in lines)


def run(root: Path, command: str) -> str:
    """What a command prints in the copy; it must succeed."""
    program, *arguments = shlex.split(command)
    module = {"evaluation": ["evaluation"], "./test.sh": ["pytest", "-p", "no:cacheprovider"]}[program]
    found = subprocess.run(
        [sys.executable, "-m", *module, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def check_commands(root: Path, text: str) -> None:
    """Run the commands of a shell block; each must print the lines that follow it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.splitlines()
        printed = run(root, command).splitlines()
        assert [line for line in expected if line not in printed] == [], command


def copy_of_the_program(folder: Path) -> Path:
    for name in ("evaluation", "tests", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "frozen")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.parametrize("heading", MOST_FILES)
def test_a_walk_of_the_page_works_and_touches_few_files(heading: str, tmp_path: Path) -> None:
    root = copy_of_the_program(tmp_path)
    touched = set()
    for language, text in blocks_of(heading):
        if language == "shell":
            check_commands(root, text)
            continue
        if language == "diff":
            name, lines = change(root, text)
            is_free = name in REGISTRIES and lines == 1
        else:
            name, is_free = text.partition("\n")[0].removeprefix("# "), False
            assert not (root / name).exists(), name
            (root / name).write_text(text.partition("\n")[2])
        if not is_free and not name.startswith(("tests/", "docs/")):
            touched.add(name)
    assert 1 <= len(touched) <= MOST_FILES[heading]


def test_every_walk_of_the_page_is_executed() -> None:
    walks = re.findall(r"^## (Adding a .*)$", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert set(MOST_FILES) <= set(walks)
    elsewhere = {"Adding a format", "Adding a matching rule"}  # test_development_walks_formats.py
    assert [heading for heading in walks if any(blocks_of(heading)) and heading not in {*MOST_FILES, *elsewhere}] == []


def test_a_change_whose_old_lines_are_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(AssertionError, match="do not stand in"):
        change(tmp_path, "--- a.py\n+z = 3\n y = 2\n")
    assert change(tmp_path, "--- a.py\n+z = 3\n x = 1\n") == ("a.py", 1)
    assert (tmp_path / "a.py").read_text() == "z = 3\nx = 1\n"


def test_a_command_that_prints_something_else_is_noticed() -> None:
    with pytest.raises(AssertionError, match="explain"):
        check_commands(ROOT, "$ evaluation explain detection.f1\nnobody prints this\n")
