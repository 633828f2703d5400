"""A challenge and a submission in a folder, to be broken, and the command line in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from every_format import challenge_document, write_both, write_files

from evaluation.commands.main import run
from nuclei_metrics.model import Case

SLIDES = (Case("case_017", "P1", 20, 30, 0.25, 0), Case("case_018", "P2", 20, 30, 0.25, 1))


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
