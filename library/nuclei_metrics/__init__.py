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
    from nuclei_metrics.accumulate import COCO_THRESHOLDS as COCO_THRESHOLDS
    from nuclei_metrics.accumulate import Evaluation as Evaluation
    from nuclei_metrics.accumulate import Summary as Summary
    from nuclei_metrics.errors import TooManyPairs as TooManyPairs
    from nuclei_metrics.errors import UnusableOutlines as UnusableOutlines
    from nuclei_metrics.functional import DSB_THRESHOLDS as DSB_THRESHOLDS
    from nuclei_metrics.functional import AdaptedRand as AdaptedRand
    from nuclei_metrics.functional import DetectionScores as DetectionScores
    from nuclei_metrics.functional import PanopticScores as PanopticScores
    from nuclei_metrics.functional import VariationOfInformation as VariationOfInformation
    from nuclei_metrics.functional import adapted_rand as adapted_rand
    from nuclei_metrics.functional import aji as aji
    from nuclei_metrics.functional import aji_plus as aji_plus
    from nuclei_metrics.functional import average_precision as average_precision
    from nuclei_metrics.functional import boundary_iou as boundary_iou
    from nuclei_metrics.functional import confusion_matrix as confusion_matrix
    from nuclei_metrics.functional import detection_scores as detection_scores
    from nuclei_metrics.functional import dice as dice
    from nuclei_metrics.functional import ensemble_dice as ensemble_dice
    from nuclei_metrics.functional import hausdorff as hausdorff
    from nuclei_metrics.functional import mean_surface_distance as mean_surface_distance
    from nuclei_metrics.functional import object_dice as object_dice
    from nuclei_metrics.functional import object_f1 as object_f1
    from nuclei_metrics.functional import object_hausdorff as object_hausdorff
    from nuclei_metrics.functional import pair_dice as pair_dice
    from nuclei_metrics.functional import panoptic_quality as panoptic_quality
    from nuclei_metrics.functional import panoptic_scores as panoptic_scores
    from nuclei_metrics.functional import seg as seg
    from nuclei_metrics.functional import surface_dice as surface_dice
    from nuclei_metrics.functional import threat_score as threat_score
    from nuclei_metrics.functional import variation_of_information as variation_of_information
    from nuclei_metrics.instances.outlines import instances_from_outlines as instances_from_outlines
    from nuclei_metrics.instances.runs import instances_from_labels as instances_from_labels
    from nuclei_metrics.instances.runs import instances_from_masks as instances_from_masks
    from nuclei_metrics.model import Instances as Instances
    from nuclei_metrics.model.counts import Score as Score
    from nuclei_metrics.pair import ImagePair as ImagePair
    from nuclei_metrics.pair import instances_from_points as instances_from_points
    from nuclei_metrics.pairing import Matching as Matching
    from nuclei_metrics.pairing import Nearest as Nearest
    from nuclei_metrics.pairing import match as match
    from nuclei_metrics.pairing import match_centroids as match_centroids
    from nuclei_metrics.pairing import match_confidence as match_confidence

__version__ = "0.2.0"
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
__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # else every name that is not there would have the type Any

    def __getattr__(name: str) -> Any:
        """Import public names on first use, so that a program pays only for what it needs."""
        if name not in _HOMES:
            raise AttributeError(f"module 'nuclei_metrics' has no attribute {name!r}")
        return getattr(import_module(f"nuclei_metrics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
