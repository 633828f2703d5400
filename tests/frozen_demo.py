"""Copies of the demo, and of the demo as it was when its golden results were written, under ``monusac2020``."""

from __future__ import annotations

import shutil
from pathlib import Path

from evaluation.folders.demo import TEAMS, DemoPaths

FROZEN = Path(__file__).parent / "golden" / "frozen"


def copy_demo(demo: Path, folder: Path) -> DemoPaths:
    """A copy that a test may change."""
    for name in ("challenge", "submissions"):
        shutil.copytree(demo / name, folder / name)
    return DemoPaths(folder / "challenge", {team: folder / "submissions" / team for team in TEAMS})


def copy_frozen_demo(folder: Path) -> DemoPaths:
    return copy_demo(FROZEN, folder)
