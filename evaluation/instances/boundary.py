"""Boundary pixels from runs: neither a picture nor a loop over instances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evaluation.intervals import expand, overlaps
from evaluation.model import BorderRule, Boundaries, Instances, Int64


def instance_boundaries(instances: Instances, chosen: npt.NDArray[np.integer], *, border: BorderRule) -> Boundaries:
    """The boundary pixels of the chosen instances: their pixels with a 4-neighbour outside the instance.

    chosen  indices (K,) into the instances, each at most once; entry k of the result belongs to ``chosen[k]``
    border  whether what lies beyond the image border counts as outside: ``closed`` if it does, ``open`` if not.
            Under ``open`` an instance that fills the image has no boundary; it then gets all its pixels on the
            border of the image, so that a distance stays defined.

    The points of an instance come row by row. Cost: proportional to the runs of the chosen instances.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> square = instances_from_labels(np.ones((3, 4), int))
    >>> len(instance_boundaries(square, np.array([0]), border="closed").points_yx)
    10
    """
    height, width = instances.shape_yx
    # One number line: instance k of the chosen has the stretch [k * span, (k + 1) * span), its image in the middle of
    # it with an empty row on either side, so that shifts by a row stay inside the stretch.
    span = (height + 2) * width
    slot = np.full(len(instances), -1, np.int64)
    slot[chosen] = np.arange(len(chosen)) * span + width
    base = slot[instances.run_instance]
    runs = slice(None) if len(chosen) == len(instances) else base >= 0
    start = np.sort((instances.run_start + base)[runs])
    stop = np.sort((instances.run_stop + base)[runs])

    interior_start, interior_stop = start + 1, stop - 1
    above, below = (start + width, stop + width), (start - width, stop - width)
    if border == "open":
        row, column = np.divmod(start % span, width)
        interior_start -= column == 0
        interior_stop += column + stop - start == width
        above, below = cover_edge(above, row == 1, start, stop), cover_edge(below, row == height, start, stop)
    kept = interior_start < interior_stop
    interior_start, interior_stop = overlaps(interior_start[kept], interior_stop[kept], *above)[2:]
    interior_start, interior_stop = overlaps(interior_start, interior_stop, *below)[2:]

    # Instance minus interior: its starts and the interior's stops alternate with its stops and the interior's starts.
    edge_start = np.sort(np.concatenate([start, interior_stop]), kind="stable")
    edge_stop = np.sort(np.concatenate([stop, interior_start]), kind="stable")
    some = edge_start < edge_stop
    position = expand(edge_start[some], edge_stop[some])
    counts = np.diff(np.searchsorted(position, np.arange(len(chosen) + 1) * span))
    if border == "open" and not counts.all():
        position, counts = add_image_border(position, counts, instances, chosen, span)
    points = np.empty((len(position), 2), np.int32)
    flat = position - np.repeat(np.arange(len(chosen)) * span + width, counts)
    np.floor_divide(flat, width, out=points[:, 0], casting="unsafe")
    np.subtract(flat, points[:, 0].astype(np.int64) * width, out=points[:, 1], casting="unsafe")
    return Boundaries(points, np.concatenate([[0], np.cumsum(counts)]))


def cover_edge(
    cover: tuple[Int64, Int64], at_edge: npt.NDArray[np.bool_], start: Int64, stop: Int64
) -> tuple[Int64, Int64]:
    """Add the runs on an open edge of the image to the runs that lie beside them: beyond the edge is not outside."""
    if not at_edge.any():
        return cover
    return (
        np.sort(np.concatenate([cover[0], start[at_edge]]), kind="stable"),
        np.sort(np.concatenate([cover[1], stop[at_edge]]), kind="stable"),
    )


def add_image_border(
    position: Int64, counts: Int64, instances: Instances, chosen: npt.NDArray[np.integer], span: int
) -> tuple[Int64, Int64]:
    """Give the instances that fill the image the border of the image as their boundary."""
    height, width = instances.shape_yx
    image = np.zeros((height, width), np.bool_)
    image[[0, -1]] = True
    image[:, [0, -1]] = True
    full = np.flatnonzero((counts == 0) & (instances.areas_px()[chosen] > 0))
    added = (full[:, None] * span + width + np.flatnonzero(image)).reshape(-1)
    position = np.sort(np.concatenate([position, added]), kind="stable")
    return position, np.diff(np.searchsorted(position, np.arange(len(chosen) + 1) * span))
