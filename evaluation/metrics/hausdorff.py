"""Hausdorff distances of many pairs at once."""

from __future__ import annotations

from evaluation.metrics.surfaces import surface_measures
from evaluation.model import Boundaries, Float64


def hausdorff_distances(
    reference: Boundaries, prediction: Boundaries, *, percentile: float = 95.0
) -> tuple[Float64, Float64]:
    """Hausdorff distance of each pair of boundaries and its percentile variant, px, float64 (T,) each.

    See ``surface_measures``. Pair t compares entry t of both arguments; every entry has at least one point.

    >>> import numpy as np
    >>> p = Boundaries(np.array([[0, 0], [0, 1]], np.int32), np.array([0]), np.array([2]))
    >>> q = Boundaries(np.array([[0, 3], [0, 0]], np.int32), np.array([0]), np.array([2]))
    >>> hausdorff_distances(p, q)[0].tolist()
    [3.0]
    """
    found = surface_measures(reference, prediction, percentile=percentile)
    return found.hausdorff_px, found.hausdorff95_px
