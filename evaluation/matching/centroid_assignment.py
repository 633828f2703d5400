"""Matching rule ``centroid_assignment``: the optimal assignment of centroids, within a radius or cut off by it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy

from evaluation.findings.errors import TooManyPairs
from evaluation.matching.assignment import best_assignment
from evaluation.matching.distances import (
    ClosePairs,
    centroid_places,
    check_radius,
    close_centroids,
    squared_distances,
    squared_limit,
    without_rounding,
)
from evaluation.model import Float64, Instances, Int64, Matches, OverlapTable

MOST_PAIRS = 30_000_000  # in a table of all against all: 240 MB, some 2 s

Cutoff = Literal["before", "after"]


def match_centroid_assignment(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    cutoff: Cutoff = "before",
    table: OverlapTable | None = None,
) -> Matches:
    """The optimal assignment of pairs with a distance of at most ``radius_px``.

    The distance is that of the centroids, or of the points.

    cutoff   "before": pairs beyond the radius are no candidates; of the others the most pairs are taken, then the least
             total distance. "after": as many pairs as the smaller side has nuclei, whatever their distance, with the
             least total distance; then those beyond the radius are dropped, as in HoVer-Net (Graham et al., Medical
             Image Analysis 58, 2019)
    table    the overlap table, if there is one already; points need none

    Of several optimal assignments it is the same for any order and ids of the instances, since these are compared in
    the order of their positions. "after" holds a table of all pairs, of each class if ``class_aware``.
    Raises ValueError if the radius is negative or not finite, and ``TooManyPairs`` for a table of more than
    ``MOST_PAIRS``.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> reference = instances_from_labels(np.array([[1, 0, 0, 2, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7, 0, 0, 9]]))
    >>> matches = match_centroid_assignment(reference, prediction, radius_px=2, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0, 1], [0, 1])

    Each nucleus of the reference has a prediction 2 px away, 4 px in total. If 2 takes 7, which is where it is, 1 and 9
    are left with 2.83 px: less in total, and beyond the radius.

    >>> reference = instances_from_labels(np.array([[1, 0, 2], [0, 0, 0], [0, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7], [0, 0, 0], [0, 0, 9]]))
    >>> for cutoff in ("before", "after"):
    ...     matches = match_centroid_assignment(
    ...         reference, prediction, radius_px=2, class_aware=False, cutoff=cutoff
    ...     )
    ...     matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0, 1], [0, 1])
    ([1], [0])
    """
    if cutoff == "after":
        check_radius(radius_px)
        pairs = assign_all(reference, prediction, class_aware=class_aware)
        kept = pairs.closeness <= squared_limit(radius_px)
    else:
        pairs = close_centroids(reference, prediction, radius_px=radius_px, class_aware=class_aware)
        kept = best_assignment(pairs.reference, pairs.prediction, -np.sqrt(pairs.closeness), most_pairs=True)
    return pairs.matches(kept, reference, prediction, table)


def assign_all(reference: Instances, prediction: Instances, *, class_aware: bool) -> ClosePairs:
    """As many pairs as the smaller side has nuclei, of each class if ``class_aware``, with the least total distance."""
    left, right = sides = centroid_places(reference), centroid_places(prediction)
    parts = [(np.arange(len(left.index)), np.arange(len(right.index)))]
    if class_aware:
        classes = np.intersect1d(left.class_id, right.class_id).tolist()
        parts = [(np.flatnonzero(left.class_id == c), np.flatnonzero(right.class_id == c)) for c in classes]
    found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for one, other in parts:
        if len(one) * len(other) > MOST_PAIRS:
            what = f"pairs of {len(one):,} x {len(other):,} nuclei"
            raise TooManyPairs(what, len(one) * len(other), MOST_PAIRS, by_reference=len(one) ** 2 > MOST_PAIRS)
        row, column = least_total(left.at[one], right.at[other])
        found.append((one[row], other[column]))
    i, j = (np.concatenate(column) for column in zip(*found, strict=True))
    return ClosePairs(i, j, squared_distances(left.at[i], right.at[j]), sides)


def least_total(left_at: Float64, right_at: Float64) -> tuple[Int64, Int64]:
    """The assignment of points (K, 2) that uses up the smaller side with the least total distance.

    The smaller side gives the rows: scipy then solves the table where it lies, and no tie hangs on the names of the
    sides unless they are equally large.
    """
    if len(left_at) > len(right_at):
        column, row = least_total(right_at, left_at)
        return row, column
    distance = without_rounding(scipy.spatial.distance.cdist(left_at, right_at))
    row, column = scipy.optimize.linear_sum_assignment(distance)
    return row, column
