"""Evaluate instance segmentation and classification of cell nuclei: detection, classification, segmentation kept apart.

In one line, from arrays or from paths::

    import evaluation
    evaluation.compare(reference_labels, predicted_labels)

From files, as the commands do::

    from evaluation import score_submission
    result = score_submission("challenge/", "submission/")
    result.value("detection.f1.group_mean")

From arrays, in a notebook:

>>> import numpy as np
>>> from evaluation import Challenge, instances_from_labels, score_instances
>>> challenge = Challenge.from_preset("monusac2020", name="my notebook")
>>> reference = instances_from_labels(np.array([[1, 1, 0, 2, 2], [1, 1, 0, 2, 2]]), [1, 2])
>>> prediction = instances_from_labels(np.array([[7, 7, 0, 0, 0], [7, 7, 0, 0, 0]]), [1])
>>> result = score_instances(challenge, {"image": (reference, prediction)})
>>> result.value("detection.recall.pooled"), result.value("detection.precision.pooled")
(0.5, 1.0)
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if not (3, 11) <= sys.version_info[:2] <= (3, 14):  # a clone is not installed by pip, which would refuse it
    raise ImportError(f"nuclei-evaluation needs Python 3.11 to 3.14; this is {sys.version.split()[0]}")

if TYPE_CHECKING:
    from evaluation.challenge import Challenge as Challenge
    from evaluation.files.results import __version__ as __version__
    from evaluation.findings import Finding as Finding
    from evaluation.findings.errors import ChallengeBroken as ChallengeBroken
    from evaluation.findings.errors import EvaluationError as EvaluationError
    from evaluation.findings.errors import SubmissionRejected as SubmissionRejected
    from evaluation.folders.arrays import compare as compare
    from evaluation.folders.compare import Comparison as Comparison
    from evaluation.scoring.from_arrays import score_instances as score_instances
    from evaluation.scoring.score import Result as Result
    from evaluation.scoring.street import check_submission as check_submission
    from evaluation.scoring.street import score_submission as score_submission
    from nuclei_metrics import Instances as Instances
    from nuclei_metrics import instances_from_labels as instances_from_labels
    from nuclei_metrics import instances_from_masks as instances_from_masks
    from nuclei_metrics import instances_from_outlines as instances_from_outlines
    from nuclei_metrics.model import Case as Case

_NAMES = {
    "evaluation.challenge": "Challenge",
    "evaluation.files.results": "__version__",
    "evaluation.findings": "Finding",
    "evaluation.findings.errors": "ChallengeBroken EvaluationError SubmissionRejected",
    "evaluation.folders.arrays": "compare",
    "evaluation.folders.compare": "Comparison",
    "evaluation.scoring.from_arrays": "score_instances",
    "evaluation.scoring.score": "Result",
    "evaluation.scoring.street": "check_submission score_submission",
    "nuclei_metrics": "Instances instances_from_labels instances_from_masks instances_from_outlines",
    "nuclei_metrics.model": "Case",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # else every name that is not there would have the type Any

    def __getattr__(name: str) -> Any:
        """Import public names on first use, so that a command pays only for what it needs."""
        if name not in _HOMES:
            raise AttributeError(f"module 'evaluation' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
