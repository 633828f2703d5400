"""Evaluate instance segmentation and classification of cell nuclei: finding, naming and outlining kept apart.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluation.challenge import Challenge
    from evaluation.errors import ChallengeBroken, EvaluationError, SubmissionRejected
    from evaluation.findings import Finding
    from evaluation.instances.labels import instances_from_labels
    from evaluation.instances.outlines import instances_from_outlines
    from evaluation.model import Case, Instances, LabelMaps
    from evaluation.pipeline import check_submission, count_label_maps, score_instances, score_submission
    from evaluation.summary import Result
    from evaluation.version import __version__

__all__ = [
    "Case",
    "Challenge",
    "ChallengeBroken",
    "EvaluationError",
    "Finding",
    "Instances",
    "LabelMaps",
    "Result",
    "SubmissionRejected",
    "__version__",
    "check_submission",
    "count_label_maps",
    "instances_from_labels",
    "instances_from_outlines",
    "score_instances",
    "score_submission",
]

HOMES = {
    "Case": "model",
    "Challenge": "challenge",
    "ChallengeBroken": "errors",
    "EvaluationError": "errors",
    "Finding": "findings",
    "Instances": "model",
    "LabelMaps": "model",
    "Result": "summary",
    "SubmissionRejected": "errors",
    "__version__": "version",
    "check_submission": "pipeline",
    "count_label_maps": "pipeline",
    "instances_from_labels": "instances.labels",
    "instances_from_outlines": "instances.outlines",
    "score_instances": "pipeline",
    "score_submission": "pipeline",
}


if not TYPE_CHECKING:  # else every name that is not there would have the type Any

    def __getattr__(name: str) -> Any:
        """Import public names on first use, so that a command pays only for what it needs."""
        if name not in HOMES:
            raise AttributeError(f"module 'evaluation' has no attribute {name!r}")
        return getattr(import_module(f"evaluation.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
