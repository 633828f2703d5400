"""Matching rule ``hausdorff_closest_first``: the pair with the least Hausdorff distance first, then of those left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.instances.boundary import RunsByInstance, boundaries_of, runs_by_instance
from evaluation.matching.distances import ROUNDING, close_pairs, place_instances
from evaluation.matching.greedy import take_in_order
from evaluation.metrics.surfaces import hausdorff_distances
from evaluation.model import BorderRule, Boundaries, Float64, Instances, Int32, Int64, Matches, OverlapTable

BOUNDARIES_AT_ONCE = 2048  # pairs, or instances, whose boundaries are held together


def match_hausdorff_closest_first(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    border: BorderRule,
    table: OverlapTable | None = None,
) -> Matches:
    """Of all pairs with a Hausdorff distance of at most ``radius_px`` the closest one matches; both leave; and so on.

    border  whether the border of the image is part of a boundary, see ``boundaries_of``
    table   the overlap table, if there is one already

    The sides of the boxes of two sets of pixels are no farther apart than the sets, so only pairs are measured whose
    boxes agree within the radius on each of their four sides. Pairs that are equally far apart: the one whose reference
    comes first by its position, then the one whose prediction does. Foucart, Debeir, Decaestecker, Scientific Reports
    13, 2023 (minimum Hausdorff distance, in the order of closeness).
    Raises ValueError if the radius is negative or not finite, or if a side is points.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 0, 0, 2, 2], [0, 7, 7, 7, 0, 0])]
    >>> matches = match_hausdorff_closest_first(*sides, radius_px=2, class_aware=False, border="open")
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0], [0])
    """
    if reference.point_yx is not None or prediction.point_yx is not None:
        raise ValueError("points have no boundary")
    runs = runs_by_instance(reference), runs_by_instance(prediction)
    left = place_instances(reference, boxes_of(runs[0], border))
    right = place_instances(prediction, boxes_of(runs[1], border))

    def distances(i: Int64, j: Int64) -> Float64:
        return distances_of(*runs, left.index[i].astype(np.int32), right.index[j].astype(np.int32), border)

    pairs = close_pairs(
        (left, right),
        radius_px=radius_px,
        norm=np.inf,
        closeness=distances,
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
        starts, index = np.unique(boundaries.first[some], return_inverse=True)
        ends = [extreme.reduceat(boundaries.points_yx, starts, axis=1) for extreme in (np.minimum, np.maximum)]
        boxes[some] = np.concatenate(ends).T[index]
    return boxes


def boxes_of(runs: RunsByInstance, border: BorderRule) -> Int32:
    """``boundary_boxes`` of all instances; only some boundaries are in memory at a time."""
    instances = len(runs.bound) - 1
    parts = [boundary_boxes(boundaries_of(runs, part, border=border)) for part in parts_of(np.arange(instances))]
    return np.concatenate([np.empty((0, 4), np.int32), *parts])


def distances_of(
    left: RunsByInstance, right: RunsByInstance, reference_index: Int32, prediction_index: Int32, border: BorderRule
) -> Float64:
    """Hausdorff distances of pairs, px; only some boundaries are in memory at a time."""
    parts = [
        hausdorff_distances(boundaries_of(left, i, border=border), boundaries_of(right, j, border=border))[0]
        for i, j in zip(parts_of(reference_index), parts_of(prediction_index), strict=True)
    ]
    return np.concatenate([np.empty(0), *parts])


def parts_of(index: npt.NDArray[np.integer[Any]]) -> Iterator[npt.NDArray[np.integer[Any]]]:
    for first in range(0, len(index), BOUNDARIES_AT_ONCE):
        yield index[first : first + BOUNDARIES_AT_ONCE]
