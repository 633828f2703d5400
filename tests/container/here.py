"""What this machine's Python gives: the expected results of the image."""

from __future__ import annotations

from pathlib import Path

from evaluation import score_submission
from evaluation.board.board import rank_result
from evaluation.scoring.score import Result


def scored_here(challenge: Path, submission: Path) -> Result:
    """The result with its place, as the command ``score`` writes it."""
    return rank_result(challenge, score_submission(challenge, submission, workers=1))
