"""Where fixtures build their inputs: a challenge and a submission in a folder, to be broken, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from every_format import challenge_document, write_both, write_files

from evaluation.commands.main import run
from evaluation.model import Case

Fixture = Callable[["Bench"], str]
FIXTURES: dict[str, Fixture] = {}
SLIDES = (Case("case_017", "P1", 20, 30, 0.25, 0), Case("case_018", "P2", 20, 30, 0.25, 1))
PATIENTS = (Case("P1_1", "P1", 20, 30, 0.25, 0), Case("P1_2", "P1", 20, 30, 0.25, 1))
FOUR_CLASSES = [{"name": name} for name in ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")]


class Bench:
    """An empty folder, which is the working directory, and commands that run in this process."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str] | None, patch: pytest.MonkeyPatch) -> None:
        patch.chdir(folder)
        self.capture = capture
        self.patch = patch

    def make(
        self,
        kind: str,
        *,
        cases: tuple[Case, ...] = SLIDES,
        submission: Mapping[str, Any] | None = None,
        reference: Mapping[str, Any] | None = None,
        **tables: Any,
    ) -> None:
        """Write a challenge and a perfect submission in a format; keys of ``submission`` and ``reference`` win."""
        document = challenge_document(kind, cases) | tables
        document["submission"] |= submission or {}
        document["reference"] |= reference or {}
        write_both(document, Path())

    def write(self, name: str, content: Any) -> Path:
        """A file of the working directory."""
        return write_files(Path(), {name: content}) / name

    def replace(self, name: str, before: str, after: str) -> None:
        """Change a text in a file, in which it must be."""
        text = Path(name).read_text()
        assert before in text
        Path(name).write_text(text.replace(before, after, 1))

    def run(self, *arguments: object) -> str:
        """All that a command prints."""
        self.capture.readouterr()
        run([str(argument) for argument in arguments])
        printed = self.capture.readouterr()
        return printed.out + printed.err

    def validate(self, submission: str = "submission") -> str:
        return self.run("validate", "--challenge", "challenge", "--submission", submission)

    def score(self, *more: object) -> str:
        return self.run("score", "--challenge", "challenge", "--submission", "submission", "--output", "out", *more)

    def convert(self, source: str, *more: object, to: str = "geojson") -> str:
        """Convert a file of the working directory."""
        return self.run("convert", source, "converted", "--to", to, *more)


def line_with(code: str, printed: str) -> str:
    """The line about a code: one of those that are printed, or what follows the introduction of the last line."""
    lines = printed.splitlines()
    for line in lines:
        if line.startswith(f"[{code}] "):
            return line
    assert f": [{code}] " in printed, f"no line about {code} in:\n{printed}"
    return lines[-1][lines[-1].index(f"[{code}] ") :]


def example_of(code: str) -> Callable[[Fixture], Fixture]:
    """Mark the function that makes the input and returns what the program prints about it."""

    def register(fixture: Fixture) -> Fixture:
        if code in FIXTURES:
            raise ValueError(f"two fixtures for {code}")
        FIXTURES[code] = fixture
        return fixture

    return register


def examples_of(fixtures: Mapping[str, Fixture]) -> None:
    """The same for functions that are written in one line each."""
    for code, fixture in fixtures.items():
        example_of(code)(fixture)


def told(files: Mapping[str, Any], command: str) -> Fixture:
    """What a command says of files in the working directory."""

    def fixture(bench: Bench) -> str:
        write_files(Path(), files)
        return bench.run(*command.split())

    return fixture


def after(make: Callable[..., object], *changes: Callable[[], object], run: Fixture = Bench.validate) -> Fixture:
    """What is said of a challenge and a submission after changes."""

    def fixture(bench: Bench) -> str:
        make(bench)
        for change in changes:
            change()
        return run(bench)

    return fixture
