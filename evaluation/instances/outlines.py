"""Outlines in memory to instances, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.instances.overlap import resolve_overlaps
from evaluation.instances.rasterise import rasterise_outlines
from evaluation.model import Instances, OriginRule, Outlines, OverlapRule, OverlapScope, VanishedRule, VerticesRule


def instances_from_outlines(
    outlines_xy_px: Sequence[npt.ArrayLike],
    class_ids: npt.ArrayLike,
    shape_yx: tuple[int, int],
    *,
    overlap: OverlapRule,
    overlap_scope: OverlapScope = "image",
    vertices: VerticesRule = "exact",
    origin: OriginRule = "pixel_centre",
    vanished: VanishedRule = "drop",
) -> Instances:
    """The instances of polygons, one ring each: exactly the pixels that ``skimage.draw.polygon`` sets.

    outlines_xy_px  rings of vertices (V, 2), column before row, px; not closed
    class_ids       class id of each outline (N,), 1…C
    shape_yx        height and width of the image, px
    overlap         which outline keeps a pixel that several cover; the other rules: see docs/challenge.md

    >>> square = [(0, 0), (3, 0), (3, 3), (0, 3)]
    >>> moved = [(2, 2), (5, 2), (5, 5), (2, 5)]
    >>> instances = instances_from_outlines([square, moved], [1, 1], (6, 6), overlap="first")
    >>> instances.areas_px().tolist()
    [16, 12]
    """
    rings = [np.asarray(ring, np.float64).reshape(-1, 2) for ring in outlines_xy_px]
    sources: npt.NDArray[Any] = np.arange(1, len(rings) + 1)
    outlines = Outlines(
        points_xy=np.concatenate([*rings, np.empty((0, 2))]),
        ring_start=np.cumsum([0, *map(len, rings)], dtype=np.int64),
        ring_instance=np.arange(len(rings), dtype=np.int32),
        ring_is_hole=np.zeros(len(rings), np.bool_),
        class_id=np.asarray(class_ids, np.int16).reshape(len(rings)),
        source_id=sources,
    )
    instances = rasterise_outlines(outlines, shape_yx, vertices=vertices, origin=origin, vanished=vanished)
    return resolve_overlaps(instances, overlap, overlap_scope).instances
