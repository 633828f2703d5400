"""Scores of instance segmentation and classification of nuclei: arrays in, values out; numpy and scipy only.

>>> import numpy as np
>>> from nuclei_metrics import match, panoptic_quality
>>> reference, prediction = np.array([[1, 1, 0, 4]]), np.array([[7, 7, 7, 0]])
>>> panoptic_quality(reference, prediction)
Score(0.4444444444444444)
>>> match(reference, prediction).missed.tolist()
[4]

The functions of one image are in ``functional`` and ``pairing``, their arguments in ``pair``; ``Evaluation`` adds up
images. Below them is the engine: measure, aggregation, ranking, matching, metrics, instances, model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nuclei_metrics.accumulate import COCO_THRESHOLDS, Evaluation, Summary
    from nuclei_metrics.errors import TooManyPairs, UnusableOutlines
    from nuclei_metrics.functional import (
        DSB_THRESHOLDS,
        AdaptedRand,
        DetectionScores,
        PanopticScores,
        VariationOfInformation,
        adapted_rand,
        aji,
        aji_plus,
        average_precision,
        boundary_iou,
        confusion_matrix,
        detection_scores,
        dice,
        ensemble_dice,
        hausdorff,
        mean_surface_distance,
        object_dice,
        object_f1,
        object_hausdorff,
        pair_dice,
        panoptic_quality,
        panoptic_scores,
        seg,
        surface_dice,
        threat_score,
        variation_of_information,
    )
    from nuclei_metrics.instances.outlines import instances_from_outlines
    from nuclei_metrics.instances.runs import instances_from_labels, instances_from_masks
    from nuclei_metrics.model import Instances
    from nuclei_metrics.model.counts import Score
    from nuclei_metrics.pair import ImagePair, instances_from_points
    from nuclei_metrics.pairing import Matching, Nearest, match, match_centroids, match_confidence

__version__ = "0.2.0"
__all__ = [
    "COCO_THRESHOLDS",
    "DSB_THRESHOLDS",
    "AdaptedRand",
    "DetectionScores",
    "Evaluation",
    "ImagePair",
    "Instances",
    "Matching",
    "Nearest",
    "PanopticScores",
    "Score",
    "Summary",
    "TooManyPairs",
    "UnusableOutlines",
    "VariationOfInformation",
    "adapted_rand",
    "aji",
    "aji_plus",
    "average_precision",
    "boundary_iou",
    "confusion_matrix",
    "detection_scores",
    "dice",
    "ensemble_dice",
    "hausdorff",
    "instances_from_labels",
    "instances_from_masks",
    "instances_from_outlines",
    "instances_from_points",
    "match",
    "match_centroids",
    "match_confidence",
    "mean_surface_distance",
    "object_dice",
    "object_f1",
    "object_hausdorff",
    "pair_dice",
    "panoptic_quality",
    "panoptic_scores",
    "seg",
    "surface_dice",
    "threat_score",
    "variation_of_information",
]

_NAMES = {
    "accumulate": "COCO_THRESHOLDS Evaluation Summary",
    "errors": "TooManyPairs UnusableOutlines",
    "functional": "DSB_THRESHOLDS AdaptedRand DetectionScores PanopticScores VariationOfInformation adapted_rand aji "
    "aji_plus average_precision boundary_iou confusion_matrix detection_scores dice ensemble_dice hausdorff "
    "mean_surface_distance object_dice object_f1 object_hausdorff pair_dice panoptic_quality panoptic_scores seg "
    "surface_dice threat_score variation_of_information",
    "instances.outlines": "instances_from_outlines",
    "instances.runs": "instances_from_labels instances_from_masks",
    "model": "Instances",
    "model.counts": "Score",
    "pair": "ImagePair instances_from_points",
    "pairing": "Matching Nearest match match_centroids match_confidence",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # else every name that is not there would have the type Any

    def __getattr__(name: str) -> Any:
        """Import public names on first use, so that a program pays only for what it needs."""
        if name not in _HOMES:
            raise AttributeError(f"module 'nuclei_metrics' has no attribute {name!r}")
        return getattr(import_module(f"nuclei_metrics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
