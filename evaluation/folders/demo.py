"""The demo: a synthetic challenge like MoNuSAC 2020, and three teams that are good at one skill.

Their panoptic quality is nearly the same, although their mistakes differ clearly. The files are shipped with the
program, and scored like any other files.
"""

from __future__ import annotations

import math
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.board.board import score_and_rank, write_board
from evaluation.board.document import Board
from evaluation.board.stored import read_metrics
from evaluation.challenge import CASES_FILE, CHALLENGE_FILE
from evaluation.scoring.workers import Progress

DEMO = Path(__file__).with_name("demo.zip")  # made by benchmarks/demo_files.py
TEAMS = ("outliner", "finder", "namer")  # good at segmentation, at detection, at classification
TITLE = "Three teams in a synthetic challenge: means over four patients"

SHOWN_SKILLS = {
    "best and worst at detection": "detection.f1",
    "at classification": "classification.balanced_accuracy",
    "at segmentation": "segmentation.iou_class_mean",
}


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Paths of the demo: the folder of the challenge, and the submission folder of each team by name."""

    challenge: Path
    submissions: dict[str, Path]


def write_demo(folder: Path) -> DemoPaths:
    """Write the challenge and the submissions of three teams into a folder.

    ``challenge/``           challenge.toml, cases.csv and ``reference/<patient>/<case>.xml``
    ``submissions/<team>/``  ``<patient>/<case>/<class>/1.mat``, a file for each class that the team found

    Unclear nuclei are not in the reference; they are in an Ambiguous region, and teams may find them all the same.
    Files with the same name are replaced. Raises OSError if the folder cannot be written.
    """
    with zipfile.ZipFile(DEMO) as packed:
        packed.extractall(folder)
    return DemoPaths(folder / "challenge", {team: folder / "submissions" / team for team in TEAMS})


def is_demo(challenge_folder: Path) -> bool:
    """Return whether a folder contains exactly the rules and the list of cases of the demo."""
    with zipfile.ZipFile(DEMO) as packed:
        files = {challenge_folder / name: packed.read(f"challenge/{name}") for name in (CHALLENGE_FILE, CASES_FILE)}
    return all(path.is_file() and path.read_bytes() == content for path, content in files.items())


@dataclass(frozen=True, slots=True)
class _DemoOutcome:
    """metrics.json of the three teams, their leaderboard, and whether all files are written."""

    results: dict[str, dict[str, Any]]
    board: Board
    folder: Path | None

    def lines(self) -> list[str]:
        """Describe the table; every statement is computed from its numbers."""

        def means(path: str) -> dict[str, float]:
            family, name = path.split(".")
            means = {team: metrics[family][name]["group_mean"] for team, metrics in self.results.items()}
            return {team: value for team, value in means.items() if value is not None}

        quality = means("panoptic.pq").values()
        spread = math.ceil(round(1000 * (max(quality) - min(quality)), 3)) / 1000
        skills = [(skill, means(path)) for skill, path in SHOWN_SKILLS.items()]
        return [
            f"Panoptic quality puts the three within {spread:.3f} of each other. The skills that it mixes differ more:",
            *(
                f"  {skill}: {max(values, key=values.__getitem__)} {max(values.values()):.2f}, "
                f"{min(values, key=values.__getitem__)} {min(values.values()):.2f}"
                for skill, values in skills
            ),
        ]

    def closing_lines(self) -> list[str]:
        """Return lines below the leaderboard about the ranked scores and the files."""
        lines = [
            "Ranked by F1, by the F1 of classes (false negatives count as wrong), and by the outlines of the better "
            "half of each patient's nuclei. Omitting a true positive lowers F1, the second score (if its class was "
            "right), and the third (if it was in the better half)."
        ]
        if self.folder is not None:
            files = "challenge/, submissions/, results/<team>/ with metrics.json, leaderboard.json and leaderboard.csv"
            lines.append(f"Written to {self.folder}: {files}.")
        return lines


def run_demo(output: Path | None, *, workers: int | None = None, progress: Progress | None = None) -> _DemoOutcome:
    """Write a challenge and its teams to ``output`` (None: to a temporary folder), and score and rank them."""
    with tempfile.TemporaryDirectory(prefix="evaluation-demo-") as temporary:
        folder = output or Path(temporary)
        challenge = write_demo(folder).challenge
        board = score_and_rank(challenge, folder / "submissions", folder, workers=workers, progress=progress)
        write_board(folder, board)
        results = {team: read_metrics(folder / "results" / team / "metrics.json", where=team) for team in TEAMS}
    return _DemoOutcome(results, board, output)
