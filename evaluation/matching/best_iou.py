"""What ``best_iou_any_overlap`` and ``best_iou_centroid_inside`` share: each reference takes its best prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.matching.pairs import Candidates
from evaluation.model import Bool, Instances, Int64


def best_of_each_reference(pairs: Candidates, prediction: Instances) -> Int64:
    """For each reference the pair with the highest IoU; of equal ones the prediction that comes first."""
    rank = prediction.position_rank()[pairs.prediction_index]
    order = np.lexsort((rank, -pairs.iou(), pairs.reference_index))
    return order[first_of_each(pairs.reference_index[order])]


def best_of_each_prediction(pairs: Candidates, chosen: Int64, reference: Instances) -> Bool:
    """Of the chosen pairs, for each prediction the one with the highest IoU; of equal ones the first reference.

    bool (P,), over all pairs.
    """
    rank = reference.position_rank()[pairs.reference_index[chosen]]
    order = chosen[np.lexsort((rank, -pairs.iou()[chosen], pairs.prediction_index[chosen]))]
    kept = np.zeros(len(pairs), np.bool_)
    kept[order[first_of_each(pairs.prediction_index[order])]] = True
    return kept


def first_of_each(sorted_keys: npt.NDArray[np.integer[Any]]) -> Bool:
    return np.asarray(np.append(True, sorted_keys[1:] != sorted_keys[:-1])[: len(sorted_keys)])
