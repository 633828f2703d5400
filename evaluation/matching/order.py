"""An order of instances that owes nothing to their ids or to their place in a file: ties are decided by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import Bool, Instances, Int64


def position_order(instances: Instances) -> Int64:
    """All instances in the order of their positions: the tie rule ``first_pixel``, int64 (N,).

    Outlines by their first pixel (row by row), then by area, then the one that has the first pixel in which they
    differ; points by y, then x. Instances in exactly one place: by class, then the more probable one first. Only those
    that agree in everything but their ids keep the order of the file.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> position_order(instances_from_labels(np.array([[0, 7, 7], [3, 3, 0]]))).tolist()
    [1, 0]
    """
    if instances.point_yx is not None:
        y, x = instances.point_yx.T
        return np.lexsort((*nature(instances), x, y))
    first, areas = instances.first_pixels(), instances.areas_px()
    order = np.lexsort((areas, first))
    same = (first[order[1:]] == first[order[:-1]]) & (areas[order[1:]] == areas[order[:-1]])
    if not same.any():
        return order
    tied = np.zeros(len(instances), np.bool_)
    tied[order[1:][same]] = tied[order[:-1][same]] = True
    return np.lexsort((*nature(instances), rank_of_pixels(instances, tied), areas, first))


def position_rank(instances: Instances) -> Int64:
    """The place of each instance in ``position_order``, int64 (N,)."""
    rank = np.empty(len(instances), np.int64)
    rank[position_order(instances)] = np.arange(len(instances))
    return rank


def nature(instances: Instances) -> list[npt.NDArray[Any]]:
    """What tells instances in one place apart, as keys of ``np.lexsort``: the last one counts first."""
    keys: list[npt.NDArray[Any]] = [instances.class_id]
    if instances.probability is not None:
        keys.insert(0, -instances.probability)
    if instances.class_probability is not None:
        keys[:0] = [-column for column in instances.class_probability.T[::-1]]
    return keys


def rank_of_pixels(instances: Instances, wanted: Bool) -> Int64:
    """A rank by the set of pixels, the same for the same set, int64 (N,); 0 where it is not wanted.

    Of two sets the one that has the first pixel in which they differ comes first.
    """
    runs = np.flatnonzero(wanted[instances.run_instance])
    runs = runs[np.argsort(instances.run_instance[runs], kind="stable")]
    # Big-endian numbers compare as their bytes do; the run that stops later has the pixel.
    left_over = instances.shape_yx[0] * instances.shape_yx[1] - instances.run_stop[runs]
    bounds = np.stack([instances.run_start[runs], left_over], axis=1).astype(">i8")
    last = np.cumsum(np.bincount(instances.run_instance[runs], minlength=len(instances)))
    chosen = np.flatnonzero(wanted)
    pixels = [bounds[0 if i == 0 else last[i - 1] : last[i]].tobytes() for i in chosen.tolist()]
    rank_of = {key: rank for rank, key in enumerate(sorted(set(pixels)))}
    rank = np.zeros(len(instances), np.int64)
    rank[chosen] = [rank_of[key] for key in pixels]
    return rank
