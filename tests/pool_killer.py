"""Stand-ins for ``_score_team`` that lose their worker. A module, so that workers can import them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from killer import kill_worker

from evaluation.board.teams import _score_team


def score_after_a_loss(*task: Any) -> Any:
    """A submission, scored; the first task of all kills its worker, once. The mark lies where the environment says."""
    mark = Path(os.environ["KILLER_MARK"])
    if not mark.exists():
        mark.touch()
        kill_worker()
    return _score_team(*task)


def score_but_the_poisoned(*task: Any) -> Any:
    """A submission, scored; 'poison' kills every worker."""
    if task[-1].name == "poison":
        kill_worker()
    return _score_team(*task)
