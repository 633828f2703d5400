"""From matches to counts: everything that scores are made of, measured once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evaluation.metrics.segmentation import OF_POINTS
from evaluation.model import Float64, Instances, Int64, MatchCounts, Matches, PredictionList

NOTHING: Mapping[str, Float64] = {}


def count_matches(
    reference: Instances,
    prediction: Instances,
    matches: Matches,
    *,
    classes: int,
    measures: Mapping[str, Float64] = NOTHING,
    missing: bool = False,
    spacing_um: float | None = None,
    areas: bool = False,
) -> MatchCounts:
    """Counts of one case, with what was measured on its pairs.

    If the instances of a side are points, measures of outlines are left out.

    classes     C; every instance has a class id of 1…C, else ValueError
    measures    by name, of each matched pair (see ``overlap_measures`` and ``shape_measures``)
    missing     the case was not submitted (``prediction`` is empty)
    spacing_um  size of a pixel, or None
    areas       whether the area of the reference nucleus of each pair is wanted
    """
    pair_class = np.stack(
        [reference.class_id[matches.reference_index], prediction.class_id[matches.prediction_index]], axis=1
    )
    total_reference = class_counts(reference, classes)
    total_prediction = class_counts(prediction, classes)
    confusion = np.zeros((classes + 1, classes + 1), np.int64)
    np.add.at(confusion, (pair_class[:, 0], pair_class[:, 1]), 1)
    confusion[0, 1:] = total_prediction - confusion[1:, 1:].sum(axis=0)
    confusion[1:, 0] = total_reference - confusion[1:, 1:].sum(axis=1)
    outlines = reference.point_yx is None and prediction.point_yx is None
    found_class = np.zeros(len(prediction), np.int16)
    found_class[matches.prediction_index] = pair_class[:, 0]
    given = prediction.class_probability
    probability = prediction.probability
    if probability is None and len(prediction) == 0:
        probability = np.empty(0, np.float64)
    return MatchCounts(
        confusion=confusion,
        pair_class=pair_class,
        measures={name: values for name, values in measures.items() if outlines or name in OF_POINTS},
        pair_probability=None if given is None else given[matches.prediction_index],
        pair_area_px=reference.areas_px()[matches.reference_index] if areas else None,
        predictions=PredictionList(prediction.class_id, found_class, probability),
        missing=missing,
        diagonal_px=float(np.hypot(reference.shape_yx[0] - 1, reference.shape_yx[1] - 1)),
        spacing_um=spacing_um,
        outlines=outlines,
    )


def overlap_measures(matches: Matches) -> dict[str, Float64]:
    """IoU, ``I / U``, and Dice, ``2 I / (A + B) = 2 I / (U + I)``, of each matched pair, float64 (T,)."""
    intersection, union = matches.intersection_px, matches.union_px
    with np.errstate(invalid="ignore"):
        return {"iou": intersection / union, "dice": 2 * intersection / (union + intersection)}


def shape_measures(reference: Instances, prediction: Instances, matches: Matches) -> dict[str, Float64]:
    """Of each matched pair, float64 (T,): area_ratio, ``B / A``, and centroid_distance_px, which points have too."""
    left, right = matches.reference_index, matches.prediction_index
    offset_yx = reference.centroids_yx()[left] - prediction.centroids_yx()[right]
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "area_ratio": prediction.areas_px()[right] / reference.areas_px()[left],
            "centroid_distance_px": np.hypot(*offset_yx.T),
        }


def class_counts(instances: Instances, classes: int) -> Int64:
    """Number of instances of each class, int64 (C,)."""
    if len(instances) and not 1 <= instances.class_id.min() <= instances.class_id.max() <= classes:
        raise ValueError(f"class ids are {instances.class_id.min()} to {instances.class_id.max()}, not 1 to {classes}")
    return np.bincount(instances.class_id, minlength=classes + 1)[1:].astype(np.int64)
