"""Measures of the outlines of matched pairs: how far they are apart, at worst, on average, and how often little."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evaluation.metrics.nearest import nearest_in_batches
from evaluation.model import Boundaries, Contours, Float64, Int64

ROUNDING = 1e-12  # of a squared tolerance: 0.6 um at 0.2 um/px are three pixels, whatever the division says
FARTHEST_SQUARED = 2.0**62  # no squared distance is larger


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceMeasures:
    """Measures of T pairs of outlines, float64 (T,) each, in the order of the pairs.

    hausdorff_px      Hausdorff distance
    hausdorff95_px    the same with a percentile of the distances instead of their maximum
    mean_distance_px  average symmetric surface distance, or None if not asked for
    within_tolerance  normalised surface Dice in [0, 1], or None if no tolerance was given
    """

    hausdorff_px: Float64
    hausdorff95_px: Float64
    mean_distance_px: Float64 | None
    within_tolerance: Float64 | None


def surface_measures(
    reference: Boundaries,
    prediction: Boundaries,
    *,
    percentile: float = 95.0,
    tolerance_px: Float64 | None = None,
    mean: bool = False,
) -> SurfaceMeasures:
    """Distances between the outlines of each pair: entry t of both arguments is pair t, and has at least one point.

    With P and Q the boundary pixels of a pair and d(p, Q) the Euclidean distance from pixel p to the nearest of Q:

    - Hausdorff distance ``max(max_p d(p, Q), max_q d(q, P))``, px. Huttenlocher et al., IEEE TPAMI 15(9), 1993.
    - Its percentile variant: the larger of the percentiles (linear interpolation) of the two sets of distances, px.
    - Average symmetric surface distance ``(sum_p d(p, Q) + sum_q d(q, P)) / (|P| + |Q|)``, px, if ``mean``. All pixels
      of both outlines weigh the same; ITK's average Hausdorff distance is the mean of the two directed means instead.
    - Normalised surface Dice ``(#{p: d(p, Q) <= tau} + #{q: d(q, P) <= tau}) / (|P| + |Q|)``, if ``tolerance_px`` gives
      the tau of each pair, float64 (T,), px, at least 0. Nikolov et al., J. Med. Internet Res. 23(7), 2021.

    Nikolov et al. and their program surface-distance measure the area (in 2D the length) of surface elements that lie
    between the pixels, half a pixel outside the boundary pixels. Here every boundary pixel counts once, where it is.
    So two pixels two columns apart have the distances 1 and 2 there, mean 1.5, and 2 here; Hausdorff is 2 in both.
    ``length_within`` is their surface Dice.

    Squared distances are integers, and are sorted before they are added: neither the machine nor the order of pixels
    nor a shift, a mirror or swapped sides changes a digit. A squared distance is within the tolerance if it is at most
    ``tau^2 (1 + 1e-12)``; so a tau that is the rounded quotient of a tolerance and a spacing in um loses no pixel.

    >>> p = Boundaries(np.array([[0, 0, 0], [0, 1, 2]], np.int32), np.array([0]), np.array([3]))
    >>> q = Boundaries(np.array([[0, 0], [0, 6]], np.int32), np.array([0]), np.array([2]))
    >>> found = surface_measures(p, q, tolerance_px=np.array([1.0]), mean=True)
    >>> found.hausdorff_px.tolist(), found.mean_distance_px.tolist(), found.within_tolerance.tolist()
    ([4.0], [1.4], [0.6])

    Here d(p, Q) is 0, 1 and 2, and d(q, P) is 0 and 4.
    """
    pairs = len(reference.size)
    maximum, quantile = np.zeros((2, pairs))
    total = np.zeros(pairs) if mean else None
    within = limit = None
    if tolerance_px is not None:
        within = np.zeros(pairs, np.int64)
        limit = squared_limit(tolerance_px)
    for batch, directions in nearest_in_batches(reference, prediction):
        maximum[batch] = np.sqrt(np.maximum(*(nearest.largest() for nearest in directions)), dtype=np.float64)
        there, back = (nearest.sorted() for nearest in directions)
        quantile[batch] = np.maximum(there.percentile(percentile), back.percentile(percentile))
        if total is not None:
            total[batch] = there.sum() + back.sum()
        if within is not None and limit is not None:
            within[batch] = there.count_within(limit[batch]) + back.count_within(limit[batch])
    points = reference.size + prediction.size
    return SurfaceMeasures(
        hausdorff_px=maximum,
        hausdorff95_px=quantile,
        mean_distance_px=None if total is None else total / points,
        within_tolerance=None if within is None else within / points,
    )


def squared_limit(tolerance_px: Float64) -> Int64:
    """The largest squared distance within each tolerance, px^2."""
    return np.minimum(np.floor(tolerance_px**2 * (1 + ROUNDING)), FARTHEST_SQUARED).astype(np.int64)


def length_within(reference: Contours, prediction: Contours, tolerance_px: Float64) -> Float64:
    """Normalised surface Dice of each pair by the length of its contours, float64 (T,), in [0, 1].

    ``(length of the pieces of P within tau of Q + of Q within tau of P) / (length of P + length of Q)``: distances are
    those between the corners of pixels at which the pieces are (``contours_of``). Nikolov et al., J. Med. Internet Res.
    23(7), 2021; as ``compute_surface_dice_at_tolerance`` of surface-distance with a spacing of 1. Pieces are counted in
    whole numbers, so that no order changes a digit. ``tolerance_px`` is the tau of each pair.
    """
    pieces = np.zeros((2, 2, len(tolerance_px)), np.int64)  # within, all; straight, diagonal
    limit = squared_limit(tolerance_px)
    for batch, directions in nearest_in_batches(reference.points, prediction.points):
        for side, nearest in zip((reference, prediction), directions, strict=True):
            row, points = np.arange(len(nearest.squared))[:, None], side.points
            real = row < nearest.size
            index = points.first[batch] + np.minimum(row, nearest.size - 1)
            for which, counted in enumerate((real & (nearest.squared <= limit[batch]), real)):
                pieces[which, 0, batch] += (side.straight[index] * counted).sum(axis=0)
                pieces[which, 1, batch] += (side.diagonal[index] * counted).sum(axis=0)
    length = pieces[:, 0] + pieces[:, 1] * math.sqrt(0.5)
    return np.asarray(length[0] / length[1])
