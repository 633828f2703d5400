"""Where the platform puts what is scored, and where it looks for the results."""

from __future__ import annotations

from pathlib import Path

from evaluation.commands.options import OUTPUT as OUTPUT
from evaluation.commands.options import existing

INPUT = Path("/input")
GROUND_TRUTH = Path("/opt/ml/input/data/ground_truth")
OWN_GROUND_TRUTH = Path(__file__).resolve().parents[2] / "ground_truth"


def ground_truth() -> Path:
    """The uploaded ground truth if there are files in it (the folder always exists), else the image's own."""
    if GROUND_TRUTH.is_dir() and any(path.is_file() for path in GROUND_TRUTH.rglob("*")):
        return GROUND_TRUTH
    return existing(OWN_GROUND_TRUTH, "--challenge")
