"""Matching rule ``hausdorff_closest_first``: the pair with the least Hausdorff distance first, then of those left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evaluation.matching.distances import ROUNDING, close_pairs, place_instances
from evaluation.matching.greedy import take_in_order
from evaluation.model import Boundaries, Float64, Instances, Int32, Matches, OverlapTable


def match_hausdorff_closest_first(
    reference: Instances,
    prediction: Instances,
    *,
    boxes: tuple[Int32, Int32],
    distances: Callable[[Int32, Int32], Float64],
    radius_px: float,
    class_aware: bool,
    table: OverlapTable | None = None,
) -> Matches:
    """Of all pairs with a Hausdorff distance of at most ``radius_px`` the closest one matches; both leave; and so on.

    boxes      ``boundary_boxes`` of all instances of each side, int32 (N, 4) and (M, 4)
    distances  Hausdorff distances between the boundaries of pairs, float64 (P,), from the indices of their references
               and of their predictions, int32 (P,) each; asked only for pairs that may be close enough
    table      the overlap table, if there is one already

    The sides of the boxes of two sets of pixels are no farther apart than the sets, so only pairs are measured whose
    boxes agree within the radius on each of their four sides. Pairs that are equally far apart: the one whose reference
    comes first by its position, then the one whose prediction does. Foucart, Debeir, Decaestecker, Scientific Reports
    13, 2023 (minimum Hausdorff distance, in the order of closeness).
    Raises ValueError if the radius is negative or not finite, or if a side is points.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 0, 0, 2, 2], [0, 7, 7, 7, 0, 0])]
    >>> boxes = np.array([[0, 0, 0, 1], [0, 4, 0, 5]], np.int32), np.array([[0, 1, 0, 3]], np.int32)
    >>> known = {(0, 0): 2.0, (1, 0): 3.0}
    >>> def distances(i, j):
    ...     return np.array([known[pair] for pair in zip(i.tolist(), j.tolist())])
    >>> matches = match_hausdorff_closest_first(
    ...     *sides, boxes=boxes, distances=distances, radius_px=3, class_aware=False
    ... )
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0], [0])
    """
    if reference.point_yx is not None or prediction.point_yx is not None:
        raise ValueError("points have no boundary")
    left, right = place_instances(reference, boxes[0]), place_instances(prediction, boxes[1])
    pairs = close_pairs(
        (left, right),
        radius_px=radius_px,
        norm=np.inf,
        closeness=lambda i, j: distances(left.index[i].astype(np.int32), right.index[j].astype(np.int32)),
        limit=radius_px * ROUNDING,
        class_aware=class_aware,
    )
    taken = take_in_order(pairs.reference, pairs.prediction, [pairs.prediction, pairs.reference, pairs.closeness])
    return pairs.matches(taken, reference, prediction, table)


def boundary_boxes(boundaries: Boundaries) -> Int32:
    """First and last row and column of each boundary, int32 (K, 4) as y, x, y, x; -1 for an empty one.

    >>> boundaries = Boundaries(np.array([[0, 0, 5], [1, 2, 7]], np.int32), np.array([0, 2]), np.array([2, 1]))
    >>> boundary_boxes(boundaries).tolist()
    [[0, 1, 0, 2], [5, 7, 5, 7]]
    """
    boxes = np.full((len(boundaries.size), 4), -1, np.int32)
    some = np.flatnonzero(boundaries.size)
    if len(some):
        starts, place = np.unique(boundaries.first[some], return_inverse=True)
        ends = [extreme.reduceat(boundaries.points_yx, starts, axis=1) for extreme in (np.minimum, np.maximum)]
        boxes[some] = np.concatenate(ends).T[place]
    return boxes
