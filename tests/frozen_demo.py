"""The demo as it was when its golden results were written, under the preset ``monusac2020``."""

from __future__ import annotations

import shutil
from pathlib import Path

from evaluation.authoring.demo import DemoPaths

FROZEN = Path(__file__).parent / "golden" / "frozen"
TEAMS = ("outliner", "finder", "namer")


def copy_frozen_demo(folder: Path) -> DemoPaths:
    """A copy that a test may change."""
    shutil.copytree(FROZEN / "challenge", folder / "challenge")
    shutil.copytree(FROZEN / "submissions", folder / "submissions")
    return DemoPaths(folder / "challenge", {team: folder / "submissions" / team for team in TEAMS})
