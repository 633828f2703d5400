"""Where the platform puts what is scored, and where it looks for the results."""

from __future__ import annotations

import os
from pathlib import Path

from evaluation.commands.options import OUTPUT as OUTPUT
from evaluation.commands.options import existing
from evaluation.findings import fault, quote
from evaluation.findings.errors import ChallengeBroken

INPUT = Path("/input")
GROUND_TRUTH = Path("/opt/ml/input/data/ground_truth")
OWN_GROUND_TRUTH = Path(__file__).resolve().parents[2] / "ground_truth"


def is_platform() -> bool:
    """Whether this is the platform, where the folder of the ground truth always exists, and not a dry run."""
    return GROUND_TRUTH.is_dir()


def ground_truth() -> Path:
    """The uploaded ground truth if there are files in it, else the image's own.

    On the platform the folder always exists; elsewhere the image is only being tried, and its demo is used.
    Raises ChallengeBroken if the folder is empty and the image holds only the demo's ground truth, or if what is in
    the folder cannot be seen.
    """
    if is_platform() and not os.access(GROUND_TRUTH, os.R_OK | os.X_OK):
        raise ChallengeBroken(fault("unreadable-file", quote(GROUND_TRUTH), got="permission denied"))
    if is_platform() and any(path.is_file() for path in GROUND_TRUTH.rglob("*")):
        return GROUND_TRUTH
    own = existing(OWN_GROUND_TRUTH, "--challenge", usual=True)
    if is_platform():
        from evaluation.authoring.demo import is_demo

        if is_demo(own):
            raise ChallengeBroken(fault("no-challenge", quote(GROUND_TRUTH), wording="no-ground-truth"))
    return own
