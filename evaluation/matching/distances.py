"""Pairs of nuclei that are close to each other: the candidates of the rules that match by distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.findings.errors import TooManyPairs
from evaluation.matching.table import matches_of
from evaluation.model import Bool, Float64, Instances, Int16, Int64, Matches, OverlapTable

PAIRS_AT_ONCE = 1 << 21  # pairs that are held before those that cannot match are left out
ROUNDING = 1 + 1e-9  # exactly the radius is near enough, though coordinates and radius / spacing are rounded numbers
MOST_CLOSE = 200_000_000  # pairs within a radius that are looked at; a slide of a million nuclei has some ten million
MARGIN = 1 + 3e-9  # of the search, whose rounding is not ours; every pair it finds is compared again

Closeness = Callable[[Int64, Int64], Float64]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """The instances of one side that have coordinates, in ``position_order``.

    index     int64 (K,), the instance at each rank of the order; ranks decide ties
    class_id  int16 (K,)
    at        float64 (K, D), coordinates by which close ones are found
    """

    index: Int64
    class_id: Int16
    at: Float64


@dataclass(frozen=True, slots=True, eq=False)
class ClosePairs:
    """Pairs within a radius, (P,); an instance is given by its rank in the sorted instances of its side.

    reference, prediction  int64 (P,), ranks: they decide ties
    closeness              float64 (P,), by which pairs are compared: smaller is closer
    sides                  the two orders
    """

    reference: Int64
    prediction: Int64
    closeness: Float64
    sides: tuple[Placed, Placed]

    def matches(self, chosen: Bool, reference: Instances, prediction: Instances, table: OverlapTable | None) -> Matches:
        """The chosen pairs as matches."""
        left = self.sides[0].index[self.reference[chosen]]
        right = self.sides[1].index[self.prediction[chosen]]
        return matches_of(left, right, reference, prediction, table)


def place_instances(instances: Instances, at: npt.NDArray[Any]) -> Placed:
    """The instances that are points or have pixels, each at its row of ``at``."""
    order = instances.position_order()
    if instances.point_yx is None:
        order = order[instances.areas_px()[order] > 0]
    return Placed(order, instances.class_id[order], np.ascontiguousarray(at[order], np.float64))


def close_centroids(reference: Instances, prediction: Instances, *, radius_px: float, class_aware: bool) -> ClosePairs:
    """All pairs with a distance of centroids of at most ``radius_px`` that could match; their squares are compared.

    Up to a billionth of the radius beyond it counts as exactly the radius: a centroid, a point and a radius in px are
    rounded numbers, and where in the image a nucleus lies must not decide.
    """
    sides = centroid_places(reference), centroid_places(prediction)
    return close_pairs(
        sides,
        radius_px=radius_px,
        norm=2,
        closeness=lambda i, j: squared_distances(sides[0].at[i], sides[1].at[j]),
        limit=squared_limit(radius_px),
        class_aware=class_aware,
    )


def centroid_places(instances: Instances) -> Placed:
    return place_instances(instances, instances.centroids_yx())


def squared_distances(a: Float64, b: Float64) -> Float64:
    return np.asarray(((a - b) ** 2).sum(axis=1))


def close_pairs(
    sides: tuple[Placed, Placed],
    *,
    radius_px: float,
    norm: float,
    closeness: Closeness,
    limit: float,
    class_aware: bool,
) -> ClosePairs:
    """All pairs with a closeness of at most ``limit`` that could match if the closest, or the most, are to be taken.

    Pairs are sought among those with ``at`` at most ``radius_px`` apart in the Minkowski norm ``norm``.

    A reference that shares predictions with k - 1 others never needs more than its k closest ones: whatever the others
    take, one of these is left for it. So the pairs that are kept are bounded by the references and their density,
    whatever the predictions are; at most about ``PAIRS_AT_ONCE``, or those of one reference, are held besides.
    Raises ValueError if the radius is negative or not finite, and ``TooManyPairs`` above ``MOST_CLOSE``.
    """
    check_radius(radius_px)
    left, right = sides
    tree = scipy.spatial.cKDTree(right.at)
    reach = radius_px * MARGIN
    count = tree.query_ball_point(left.at, reach, p=norm, return_length=True)
    refuse_too_many(count, left.at, reach, norm)
    enough = scipy.spatial.cKDTree(left.at).query_ball_point(left.at, 2 * reach * MARGIN, p=norm, return_length=True)
    parts: list[tuple[Int64, Int64, Float64]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for part in batches(count):
        near = scipy.spatial.cKDTree(left.at[part]).sparse_distance_matrix(tree, reach, p=norm, output_type="ndarray")
        i, j = near["i"] + part.start, near["j"]
        if class_aware:
            same = left.class_id[i] == right.class_id[j]
            i, j = i[same], j[same]
        value = closeness(i, j)
        is_close = value <= limit
        i, j, value = i[is_close], j[is_close], without_rounding(value[is_close])
        if np.any(count[part] > enough[part]):
            nearest = nearest_of_each(i, j, value, enough)
            i, j, value = i[nearest], j[nearest], value[nearest]
        parts.append((i, j, value))
    i, j, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ClosePairs(i, j, value, sides)


def refuse_too_many(count: Int64, reference_at: Float64, reach: float, norm: float = 2) -> None:
    """Raise ``TooManyPairs`` if there are more close pairs than are looked at; ``count`` of each instance of a side."""
    if (pairs := int(count.sum())) > MOST_CLOSE:
        own = scipy.spatial.cKDTree(reference_at).query_ball_point(reference_at, reach, p=norm, return_length=True)
        raise TooManyPairs("pairs within the radius", pairs, MOST_CLOSE, by_reference=int(own.sum()) > MOST_CLOSE)


def without_rounding(closeness: Float64) -> Float64:
    """Closeness to six decimals, in place: the last bit of a centroid must not decide which nucleus is nearer.

    >>> without_rounding(np.array([(2 / 3 - 1) ** 2, (4 / 3 - 1) ** 2])).tolist()
    [0.111111, 0.111111]
    """
    return np.round(closeness, 6, out=closeness)


def squared_limit(radius_px: float) -> float:
    """The largest squared distance within a radius."""
    return (radius_px * ROUNDING) ** 2


def check_radius(radius_px: float) -> None:
    if not 0 <= radius_px < np.inf:
        raise ValueError(f"a radius of {radius_px} px; a finite number from 0 on")


def batches(count: Int64) -> Iterator[slice]:
    """Slices of instances that are worked on together, so that a slice has a bounded number of pairs."""
    total = np.cumsum(count)
    first = 0
    while first < len(count):
        before = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, before + PAIRS_AT_ONCE, side="right")))
        yield slice(first, last)
        first = last


def nearest_of_each(i: Int64, j: Int64, value: Float64, enough: Int64) -> Bool:
    """Which pairs are among the first ``enough[i]`` of their reference, by closeness, then by rank, bool (P,)."""
    order = np.lexsort((j, value, i))
    owner = i[order]
    nearest = np.empty(len(i), np.bool_)
    nearest[order] = np.arange(len(i)) - np.searchsorted(owner, owner) < enough[owner]
    return nearest
