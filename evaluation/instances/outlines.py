"""Outlines in memory to instances, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from evaluation.instances.labels import as_array, checked_class_ids
from evaluation.instances.overlap import resolve_overlaps
from evaluation.instances.rasterise import rasterise_outlines
from evaluation.model import (
    Float64,
    Instances,
    OriginRule,
    Outlines,
    OverlapRule,
    OverlapScope,
    VanishedRule,
    VerticesRule,
)

LARGEST_SIDE_PX = 10_000_000  # so that positions in images of all classes together are int64


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

    outlines_xy_px  rings of vertices (V, 2), or (V, 1, 2) as OpenCV gives them, column before row, px; not closed
    class_ids       class id of each outline (N,), 1…C
    shape_yx        height and width of the image, px
    overlap         which outline keeps a pixel that several cover; the other rules: see docs/challenge.md

    Raises ValueError for other shapes, other rules, and vertices that are not finite, and EvaluationError for an
    outline that covers no pixel centre if ``vanished`` is "error", or that would take too long.

    >>> square = [(0, 0), (3, 0), (3, 3), (0, 3)]
    >>> moved = [(2, 2), (5, 2), (5, 5), (2, 5)]
    >>> instances = instances_from_outlines([square, moved], [1, 1], (6, 6), overlap="first")
    >>> instances.areas_px().tolist()
    [16, 12]
    """
    rules = {OverlapRule: overlap, OverlapScope: overlap_scope, VerticesRule: vertices, OriginRule: origin}
    for known, rule in {**rules, VanishedRule: vanished}.items():
        if rule not in get_args(known):
            raise ValueError(f"there is no rule {rule!r}; expected one of {', '.join(get_args(known))}")
    sides = as_array(shape_yx, "shape_yx")
    if sides.shape != (2,) or sides.dtype.kind not in "iu" or not 0 <= sides.min() <= sides.max() <= LARGEST_SIDE_PX:
        expected = f"height and width of the image, whole numbers of px up to {LARGEST_SIDE_PX:,}"
        raise ValueError(f"shape_yx is {shape_yx!r}; expected {expected}")
    if not isinstance(outlines_xy_px, Iterable):
        raise ValueError(f"outlines are {outlines_xy_px!r}; expected a list with the vertices of each, (V, 2)")
    rings = [checked_ring(ring, index) for index, ring in enumerate(outlines_xy_px)]
    sources: npt.NDArray[Any] = np.arange(1, len(rings) + 1)
    outlines = Outlines(
        points_xy=np.concatenate([*rings, np.empty((0, 2))]),
        ring_start=np.cumsum([0, *map(len, rings)], dtype=np.int64),
        ring_instance=np.arange(len(rings), dtype=np.int32),
        ring_is_hole=np.zeros(len(rings), np.bool_),
        class_id=checked_class_ids(class_ids, len(rings)),
        source_id=sources,
    )
    instances = rasterise_outlines(
        outlines, (int(sides[0]), int(sides[1])), vertices=vertices, origin=origin, vanished=vanished
    )
    return resolve_overlaps(instances, overlap, overlap_scope).instances


def checked_ring(ring: npt.ArrayLike, index: int) -> Float64:
    """The vertices of an outline, px, float64 (V, 2), V may be 0. Raises ValueError for other shapes and numbers."""
    try:
        points = np.asarray(ring, np.float64)
    except (TypeError, ValueError) as error:
        kind = type(ring).__name__
        raise ValueError(
            f"outline {index} is of type {kind}; expected x and y of each vertex, (V, 2): {error}"
        ) from None
    are_pairs = points.shape[-1:] == (2,) and points.size == 2 * len(points)
    if points.size and not (are_pairs and np.isfinite(points).all()):
        raise ValueError(
            f"outline {index} has vertices of shape {points.shape}; expected finite x and y of each, (V, 2)"
        )
    return points.reshape(-1, 2)
