"""Stand-ins for ``score_cases`` that lose their worker. A module, so that workers can import them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from killer import kill_worker

from evaluation.scoring.street import score_cases


def score_after_a_loss(*task: Any) -> Any:
    """Cases, scored; the first task of all kills its worker, once. The mark lies where the environment says."""
    mark = Path(os.environ["KILLER_MARK"])
    if not mark.exists():
        mark.touch()
        kill_worker()
    return score_cases(*task)


def score_but_the_poisoned(challenge: Any, folder: Path, files: Any, *rest: Any) -> Any:
    """Cases, scored; those of the submission 'poison' kill every worker."""
    if files.path.name == "poison":
        kill_worker()
    return score_cases(challenge, folder, files, *rest)
