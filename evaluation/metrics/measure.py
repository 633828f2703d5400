"""From matches to counts: everything that scores are made of, measured once."""

from __future__ import annotations

import numpy as np

from evaluation.model import Float64, Instances, Int64, MatchCounts, Matches


def count_matches(
    reference: Instances,
    prediction: Instances,
    matches: Matches,
    *,
    classes: int,
    distances_px: tuple[Float64, Float64] | None = None,
    missing: bool = False,
) -> MatchCounts:
    """Counts and pair measures of one case: ``IoU = I / U``, ``Dice = 2 I / (A + B) = 2 I / (U + I)``.

    If the instances of a side are points there is nothing to measure on a pair: the measures are left out.

    classes       C; every instance has a class id of 1…C, else ValueError
    distances_px  Hausdorff distance of each matched pair and its 95th percentile; None leaves them out
    missing       the case was not submitted (``prediction`` is empty)
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
    none = np.empty(0)
    outlines = reference.point_yx is None and prediction.point_yx is None
    intersection, union = matches.intersection_px, matches.union_px
    hausdorff, hausdorff95 = (none, none) if distances_px is None or not outlines else distances_px
    return MatchCounts(
        confusion=confusion,
        pair_class=pair_class,
        iou=intersection / union if outlines else none,
        dice=2 * intersection / (union + intersection) if outlines else none,
        hausdorff_px=hausdorff,
        hausdorff95_px=hausdorff95,
        cases=1,
        missing_cases=int(missing),
        diagonal_px=float(np.hypot(reference.shape_yx[0] - 1, reference.shape_yx[1] - 1)),
        outlines=outlines,
    )


def class_counts(instances: Instances, classes: int) -> Int64:
    """Number of instances of each class, int64 (C,)."""
    if len(instances) and not 1 <= instances.class_id.min() <= instances.class_id.max() <= classes:
        raise ValueError(f"class ids are {instances.class_id.min()} to {instances.class_id.max()}, not 1 to {classes}")
    return np.bincount(instances.class_id, minlength=classes + 1)[1:].astype(np.int64)
