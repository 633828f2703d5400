"""Signs that labels are not nuclei: a background that is not 0, ids of several nuclei, and regions."""

from __future__ import annotations

import numpy as np

from nuclei_metrics.model.annotations import Outlines, connect
from nuclei_metrics.model.arrays import Bool, Float64, Int64, distinct, overlaps
from nuclei_metrics.model.instances import Instances

_LEAST_PX = 1000  # of an image; a nucleus may fill a smaller one
_MOST_RUNS = 1 << 18  # of instances that may have several parts
_MOST_HELD, _MOST_ASKED, _MOST_REGIONS, _MOST_NESTED = 5, 64, 1000, 2000


def background_index(instances: Instances) -> int | None:
    """Return the index of an instance that looks like the background of its image; None if there is none.

    It covers more than half of the image and touches all four borders; or two instances share the whole image, and it
    is the larger one. Images of fewer than 1,000 px and points have none.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> labels = np.ones((40, 40), np.int64)
    >>> labels[5:9, 5:9] = 2
    >>> background_index(instances_from_labels(labels)), background_index(instances_from_labels(labels - 1))
    (0, None)
    """
    height, width = instances.shape_yx
    covered = int((instances.run_stop - instances.run_start).sum())
    if height * width < _LEAST_PX or 2 * covered <= height * width:
        return None
    areas = instances.areas_px()
    largest = int(areas.argmax())
    if len(instances) == 2 and int(areas.sum()) == height * width and instances.is_disjoint():
        return largest
    if 2 * int(areas[largest]) <= height * width:
        return None
    runs = instances.run_instance == largest
    start, last = instances.run_start[runs], instances.run_stop[runs] - 1
    touches = (start[0] < width, last[-1] >= (height - 1) * width, (start % width == 0).any())
    return largest if all(touches) and bool((last % width == width - 1).any()) else None


def scattered_instances(instances: Instances) -> Int64:
    """Return the indices of instances with two parts further apart than the length of the larger part, int64.

    Parts are regions of pixels that touch, also by corners. Length and distance are those of bounding boxes, px.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> scattered_instances(instances_from_labels(np.array([[1, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2]]))).tolist()
    [0, 1]
    """
    runs = instances.runs_by_instance()
    if not len(runs):
        return np.empty(0, np.int64)
    width = instances.shape_yx[1]
    start, stop, owner = instances.run_start[runs], instances.run_stop[runs], instances.run_instance[runs]
    row, left = np.divmod(start, width)
    right = left + stop - start
    follows = (np.diff(row) == 1) & (left[1:] <= right[:-1]) & (right[1:] >= left[:-1])
    begins = np.flatnonzero(np.r_[True, (owner[1:] != owner[:-1]) | ~follows])  # chains of runs, which are connected
    chains, of_chain = _boxes(row, left, right, begins), owner[begins]
    first = np.flatnonzero(np.r_[True, of_chain[1:] != of_chain[:-1]])
    if len(first) == len(begins):
        return np.empty(0, np.int64)
    # Two parts are no further apart than two chains in them, and the larger one is as long as the longest chain.
    longest = np.maximum.reduceat((chains[:, 2:] - chains[:, :2]).max(axis=1), first)
    gaps = np.maximum.reduceat(chains[:, :2], first) - np.minimum.reduceat(chains[:, 2:], first)
    suspect = np.zeros(len(instances), np.bool_)
    suspect[of_chain[first]] = gaps.max(axis=1) > longest
    chosen = np.flatnonzero(suspect[owner])[:_MOST_RUNS]
    if not len(chosen):
        return np.empty(0, np.int64)
    start, stop, owner = start[chosen], stop[chosen], owner[chosen]
    part = _regions(owner, start, stop, instances.shape_yx)
    order = np.argsort(part, kind="stable")
    part, row, left, right = part[order], *(side[chosen][order] for side in (row, left, right))
    first = np.flatnonzero(np.r_[True, part[1:] != part[:-1]])
    return _scattered_owners(owner[order][first].astype(np.int64), _boxes(row, left, right, first))


def _boxes(row: Int64, left: Int64, right: Int64, first: Int64) -> Int64:
    """Return the bounding box (top, left, bottom, right), px, int64 (N, 4), of runs from each ``first`` to the next."""
    sides = (np.minimum, row), (np.minimum, left), (np.maximum, row + 1), (np.maximum, right)
    return np.stack([function.reduceat(values, first) for function, values in sides], axis=1)


def _regions(owner: Int64, start: Int64, stop: Int64, shape_yx: tuple[int, int]) -> Int64:
    """Return the region of touching pixels that each run belongs to, in runs of one owner; owners ascend."""
    stride = shape_yx[1] + 2  # a run that looks one pixel to each side does not reach the next row
    band = np.unique(owner, return_inverse=True)[1].astype(np.int64) * (shape_yx[0] + 1) * stride
    row = start // shape_yx[1]
    start, stop = start + band + 2 * row + 1, stop + band + 2 * row + 1
    above, below, *_ = overlaps(start - 1 + stride, stop + 1 + stride, start, stop)
    return np.asarray(connect(above, below, len(start)), np.int64)


def _scattered_owners(owner: Int64, boxes: Int64) -> Int64:
    """Return the owners with a box further from their largest box than the length of the latter, int64.

    owner   of each box, ascending, int64 (K,); boxes, int64 (K, 4)
    """
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    count = np.diff(np.append(first, len(owner)))
    length = (boxes[:, 2:] - boxes[:, :2]).max(axis=1)
    longest = np.repeat(np.maximum.reduceat(length, first), count)
    largest = np.flatnonzero(length == longest)
    main = boxes[np.repeat(largest[np.searchsorted(largest, first)], count)]  # the first of equally long ones
    gaps = np.maximum(boxes[:, :2] - main[:, 2:], main[:, :2] - boxes[:, 2:]).max(axis=1)
    return distinct(owner[gaps > longest])


def outlines_around_others(outlines: Outlines) -> Bool:
    """Return which outlines contain more than five others, as tissue regions do and nuclei do not, bool (N,).

    An outline contains another one if its bounding box does, and if its ring has the first vertex of the other inside
    (even-odd rule). Only the 1,000 largest are tested, each against 64 others in its box.

    >>> def squares(*corners):
    ...     points = [np.array([(0, 0), (side, 0), (side, side), (0, side)]) + at for at, side in corners]
    ...     rings = np.arange(len(points))
    ...     none = np.zeros(len(points))
    ...     return Outlines(np.concatenate(points) * 1.0, np.arange(len(points) + 1) * 4, rings, none > 0, none, rings)
    >>> outlines_around_others(squares((0, 50), *((4 * n, 2) for n in range(1, 7)))).tolist()
    [True, False, False, False, False, False, False]
    """
    rings = np.flatnonzero(np.diff(outlines.ring_start))
    around = np.zeros(len(outlines), np.bool_)
    first, points = outlines.ring_start[rings], outlines.points_xy
    if not len(rings):
        return around
    boxes = np.concatenate([function.reduceat(points, first) for function in (np.minimum, np.maximum)], axis=1)
    outer = ~outlines.ring_is_hole[rings]
    rings, boxes, first = rings[outer], boxes[outer], first[outer]
    size = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    for index in np.argsort(-size, kind="stable")[:_MOST_REGIONS].tolist():
        box, owner = boxes[index], outlines.ring_instance[rings]
        within = (boxes[:, :2] >= box[:2]).all(axis=1) & (boxes[:, 2:] <= box[2:]).all(axis=1)
        held = np.flatnonzero(within & (owner != owner[index]))[:_MOST_ASKED]
        if len(held) > _MOST_HELD:
            ring = points[outlines.ring_start[rings[index]] : outlines.ring_start[rings[index] + 1]]
            around[owner[index]] |= int(_inside(ring, points[first[held]]).sum()) > _MOST_HELD
    return around


def holders_of_outlines(outlines: Outlines) -> Int64:
    """Return the smallest outline of another class that contains each outline, as its index, -1 for none, int64 (N,).

    An outline contains another one as in ``outlines_around_others``. Only the first 2,000 of an image are tested.

    >>> box = np.array([(0, 0), (9, 0), (9, 9), (0, 9)], float)
    >>> nested = Outlines(np.concatenate([box, box / 3 + 2]), np.array([0, 4, 8]), np.array([0, 1]), np.zeros(2, bool),
    ...                   np.array([1, 2]), np.array([0, 1]))
    >>> holders_of_outlines(nested).tolist()
    [-1, 0]
    """
    holders = np.full(len(outlines), -1)
    rings = np.flatnonzero((np.diff(outlines.ring_start) > 0) & ~outlines.ring_is_hole)[:_MOST_NESTED]
    first, owner = outlines.ring_start[rings], outlines.ring_instance[rings]
    vertices = [outlines.points_xy[outlines.ring_start[ring] : outlines.ring_start[ring + 1]] for ring in rings]
    if not vertices:
        return holders
    low, high = (np.array([getattr(ring, name)(axis=0) for ring in vertices]) for name in ("min", "max"))
    for index in np.argsort(-(high - low).prod(axis=1), kind="stable").tolist():  # smaller ones overwrite
        within = (low >= low[index]).all(axis=1) & (high <= high[index]).all(axis=1)
        held = np.flatnonzero(within & (outlines.class_id[owner] != outlines.class_id[owner[index]]))
        held = held[_inside(vertices[index], outlines.points_xy[first[held]])] if len(held) else held
        holders[owner[held]] = owner[index]
    return holders


def select_outlines(outlines: Outlines, chosen: Bool) -> Outlines:
    """Return the outlines that are chosen, bool (N,), in their order."""
    rings = chosen[outlines.ring_instance]
    count = np.diff(outlines.ring_start)
    probability, of_class = outlines.probability, outlines.class_probability
    return Outlines(
        points_xy=outlines.points_xy[np.repeat(rings, count)],
        ring_start=np.concatenate([[0], np.cumsum(count[rings])]),
        ring_instance=(np.cumsum(chosen) - 1).astype(np.int32)[outlines.ring_instance[rings]],
        ring_is_hole=outlines.ring_is_hole[rings],
        class_id=outlines.class_id[chosen],
        source_id=outlines.source_id[chosen],
        probability=None if probability is None else probability[chosen],
        class_probability=None if of_class is None else of_class[chosen],
    )


def _inside(ring: Float64, points: Float64) -> Bool:
    """Return which points (P, 2) lie inside a ring of vertices (V, 2) by the even-odd rule, bool (P,)."""
    (x, y), after = ring.T, np.roll(ring, -1, axis=0)
    crosses = (y > points[:, 1:]) != (after[:, 1] > points[:, 1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        at = x + (points[:, 1:] - y) / (after[:, 1] - y) * (after[:, 0] - x)
    return np.asarray((crosses & (points[:, :1] < at)).sum(axis=1) % 2 == 1)
