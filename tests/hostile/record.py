"""What a hostile submission is, and how it gets onto the disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from every_format import CASES, challenge_document, write_files, write_rules

from evaluation.challenge import Challenge
from evaluation.platform.kit import example_files

Content = bytes | Callable[[], bytes]
JOBS = "predictions.json"


@dataclass(frozen=True)
class Hostile:
    """A submission that is wrong in one way, and what must be said about it.

    kind    of the challenge, a key of tests/every_format.SIDES, or "predictions.json"
    code    of every error that is found; None: the submission is accepted
    files   the files of it that are replaced or added; everything else is a perfect submission
    build   makes the submission in another way: gets its folder, which holds the files, and gives the path to hand in
    limits  of the challenge, where they differ from the defaults
    rules   of the submission, where they differ
    size    height and width of the image of the first case in cases.csv
    says    must be in one of the lines
    nuclei  how many the first case has, if the submission is accepted
    warns   the codes of all warnings
    """

    name: str
    kind: str
    code: str | None
    files: Mapping[str, Content] = field(default_factory=dict)
    build: Callable[[Path], Path] | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    size: tuple[int, int] | None = None
    says: str = ""
    nuclei: int | None = None
    warns: tuple[str, ...] = ()

    def write(self, folder: Path) -> tuple[Path, Path]:
        """The folder of the challenge, which has no reference, and the path of the submission."""
        document = self.document()
        files = example_files_of(self.kind)
        challenge, submission = folder / "challenge", folder / "submission"
        write_challenge(document, challenge, self.size)
        write_files(submission, {**files, **self.files})
        return challenge, submission if self.build is None else self.build(submission)

    def document(self) -> dict[str, Any]:
        document = challenge_document("polygons_json" if self.kind == JOBS else self.kind)
        document["submission"] |= {"missing_case": "reject", **self.rules}
        if self.kind == JOBS:
            document["submission"]["socket"] = "nuclei"
        if self.limits:
            document["limits"] = dict(self.limits)
        return document


def write_challenge(document: Mapping[str, Any], folder: Path, size: tuple[int, int] | None = None) -> None:
    """challenge.toml and cases.csv."""
    height, width = size or CASES[0].shape_yx
    write_rules({**document, "cases": (replace(CASES[0], height=height, width=width), *CASES[1:])}, folder)


EXAMPLES: dict[str, dict[str, bytes]] = {}


def example_files_of(kind: str) -> dict[str, bytes]:
    """A perfect submission; none for predictions.json, which every record writes itself."""
    if kind == JOBS:
        return {
            f"job{index}/output/nuclei.json": b'{"type": "Multiple polygons", "polygons": []}' for index in (1, 2, 3)
        }
    if kind not in EXAMPLES:
        challenge = Challenge.build(challenge_document(kind))
        EXAMPLES[kind] = example_files(challenge, challenge.submission, challenge.cases)
    return EXAMPLES[kind]
