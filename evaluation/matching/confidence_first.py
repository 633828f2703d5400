"""Matching rule ``confidence_first``: the most probable prediction chooses first, then the next one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from evaluation.matching.distances import (
    MARGIN,
    batches,
    centroid_places,
    check_radius,
    refuse_too_many,
    squared_distances,
    squared_limit,
    without_rounding,
)
from evaluation.matching.greedy import take_in_order
from evaluation.matching.pairs import as_fraction, candidate_pairs, has_rival, matches_of
from evaluation.model import Float64, Instances, Int64, Matches, OverlapTable


def match_confidence_first(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    table: OverlapTable | None = None,
) -> Matches:
    """In order of falling probability each prediction takes the nearest free reference within ``radius_px``.

    The distance is that of the centroids, or of the points; exactly the radius is near enough. Equally probable
    predictions (all of them, if there are no probabilities) choose in the order of their positions; of references that
    are equally near the one that comes first is taken. ``table`` is the overlap table, if there is one already; points
    need none. Raises ValueError if the radius is negative or not finite, and ``TooManyPairs`` for far too many pairs
    within it.

    This is how detections are matched for a precision-recall curve or FROC. The published codes of three challenges
    go through the *references*, in the order of their file, so their results depend on that order:

    - MIDOG (``evalutils.score_detection``): each takes the nearest free prediction; probabilities decide nothing.
    - MONKEY: each asks for its nearest prediction only, nearer than the radius; if that is taken, it is missed.
    - PUMA: each takes the most probable free prediction of its class nearer than 15 px, of equal ones the nearest.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> reference = instances_from_labels(np.array([[1, 0, 0, 2, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7, 0, 9, 0]]))
    >>> matches = match_confidence_first(reference, prediction, radius_px=2, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([1], [0])
    """
    check_radius(radius_px)
    left, right = centroid_places(reference), centroid_places(prediction)
    chooser = np.argsort(-confidences(prediction)[right.index], kind="stable")
    free = np.arange(len(left.index))
    reach = radius_px * MARGIN
    count = scipy.spatial.cKDTree(left.at).query_ball_point(right.at[chooser], reach, return_length=True)
    refuse_too_many(count, left.at, reach)
    found: list[tuple[Int64, Int64]] = [(free[:0], chooser[:0])]
    for part in batches(count):
        who = chooser[part]
        trees = scipy.spatial.cKDTree(left.at[free]), scipy.spatial.cKDTree(right.at[who])
        near = trees[0].sparse_distance_matrix(trees[1], reach, output_type="ndarray")
        i, j = near["i"], near["j"]
        squared = squared_distances(left.at[free[i]], right.at[who[j]])
        kept = squared <= squared_limit(radius_px)
        if class_aware:
            kept &= left.class_id[free[i]] == right.class_id[who[j]]
        i, j, squared = i[kept], j[kept], without_rounding(squared[kept])
        taken = take_in_order(i, j, [i, squared, j])
        found.append((free[i[taken]], who[j[taken]]))
        free = np.delete(free, i[taken])
    i, j = (np.concatenate(column) for column in zip(*found, strict=True))
    return matches_of(left.index[i], right.index[j], reference, prediction, table)


def match_confidence_first_iou(
    table: OverlapTable, reference: Instances, prediction: Instances, *, threshold: float, class_aware: bool
) -> Matches:
    """In order of falling probability each prediction takes the free reference with the highest IoU >= ``threshold``.

    As ``pycocotools`` matches masks for the average precision, but for ties: equally probable predictions (all of them,
    if there are no probabilities) choose in the order of their positions, where pycocotools keeps the order of the
    file; of references with equal IoU the one that comes first is taken, there the last one of the file. IoU is
    compared with the threshold in integers. ``threshold`` lies in 0 < t <= 1 and has at most six decimals; more are
    rounded. Everingham et al., IJCV 88, 2010; Lin et al., ECCV 2014.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> from evaluation.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 2, 2], [7, 7, 7, 9])]
    >>> matches = match_confidence_first_iou(overlap_table(*sides), *sides, threshold=0.5, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0, 1], [0, 1])
    """
    return match_confidence_first_iou_many(table, reference, prediction, [threshold], class_aware=class_aware)[0]


def match_confidence_first_iou_many(
    table: OverlapTable,
    reference: Instances,
    prediction: Instances,
    thresholds: Sequence[float],
    *,
    class_aware: bool,
) -> list[Matches]:
    """``match_confidence_first_iou`` at each threshold, in their order.

    A pair without a rival at the lowest threshold has none at any other: candidates are looked for once.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> from evaluation.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 2, 2], [7, 7, 7, 9])]
    >>> found = match_confidence_first_iou_many(overlap_table(*sides), *sides, [0.5, 0.6], class_aware=False)
    >>> [len(matches) for matches in found]
    [2, 1]
    """
    if not thresholds:
        return []
    limits = [as_fraction(threshold) for threshold in thresholds]
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    pairs = pairs.part(pairs.at_least(min(limits)))
    contested = np.flatnonzero(has_rival(pairs.reference_index, pairs.prediction_index))
    if len(contested) == 0:
        return [pairs.matches(pairs.at_least(limit)) for limit in limits]
    left = reference.position_rank()[pairs.reference_index[contested]]
    right = prediction.position_rank()[pairs.prediction_index[contested]]
    keys = [left, -pairs.iou()[contested], right, -confidences(prediction)[pairs.prediction_index[contested]]]
    found = []
    for limit in limits:
        kept = pairs.at_least(limit)
        fought = kept[contested]
        kept[contested[fought]] = take_in_order(left[fought], right[fought], [key[fought] for key in keys])
        found.append(pairs.matches(kept))
    return found


def confidences(prediction: Instances) -> Float64:
    """The probability of each prediction; all equal if there are none."""
    if prediction.probability is None:
        return np.zeros(len(prediction))
    return prediction.probability.astype(np.float64)
