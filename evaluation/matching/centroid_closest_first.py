"""Matching rule ``centroid_closest_first``: the closest pair of centroids first, then the closest of those left."""

from __future__ import annotations

from evaluation.matching.distances import close_centroids
from evaluation.matching.greedy import take_in_order
from evaluation.model import Instances, Matches, OverlapTable


def match_centroid_closest_first(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    table: OverlapTable | None = None,
) -> Matches:
    """Of all pairs with a distance of at most ``radius_px`` the closest one matches; both leave; and so on.

    The distance is that of the centroids, or of the points. Pairs that are equally far apart: the one whose reference
    comes first, then the one whose prediction does, points in the order of y, x and class, others in that of their
    first pixels. ``table`` is the overlap table, if there is one already; points need none.
    Raises ValueError if the radius is negative or not finite.

    >>> import numpy as np
    >>> from evaluation.instances.labels import instances_from_labels
    >>> reference = instances_from_labels(np.array([[1, 0, 0, 2, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7, 0, 0, 9]]))
    >>> matches = match_centroid_closest_first(reference, prediction, radius_px=2, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([1], [0])
    """
    pairs = close_centroids(reference, prediction, radius_px=radius_px, class_aware=class_aware)
    taken = take_in_order(pairs.reference, pairs.prediction, [pairs.prediction, pairs.reference, pairs.closeness])
    return pairs.matches(taken, reference, prediction, table)
