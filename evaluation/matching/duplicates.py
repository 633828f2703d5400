"""Own duplicates: nuclei of one side that share more than half of the smaller of the two, whatever their classes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from evaluation.findings.errors import TooManyPairs
from evaluation.matching.table import overlap_table
from evaluation.model import Bool, Float64, Instances, Int64

MOST_POINTS = 20_000_000  # pairs of points that are looked at


def find_twins(instances: Instances, *, radius_px: float | None = None, most: int | None = None) -> tuple[Int64, Int64]:
    """All pairs that share more than half of the smaller of the two, int64 (P,) each, the first index below the second.

    Points share no pixels: of them two are such a pair that lie less than half of ``radius_px`` apart, the radius
    within which a point is matched. Only runs that overlap another one are compared, so disjoint nuclei cost one look
    at the runs. Raises ``TooManyPairs`` beyond ``most`` shared rows (``overlap_table``), or pairs of points.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> [index.tolist() for index in find_twins(instances_from_labels(np.array([[1, 1, 2, 2]])))]
    [[], []]
    """
    none = np.empty(0, np.int64)
    if instances.point_yx is not None:
        if not radius_px or len(instances) < 2:
            return none, none
        return close_points(instances, radius_px, min(most or MOST_POINTS, MOST_POINTS))
    if instances.is_disjoint():
        return none, none
    start, stop, area = instances.run_start, instances.run_stop, instances.areas_px()
    shares = np.zeros(len(start), np.bool_)
    shares[1:] = start[1:] < np.maximum.accumulate(stop)[:-1]
    shares[:-1] |= stop[:-1] > start[1:]
    owner = instances.run_instance[shares]
    part = replace(instances, run_start=start[shares], run_stop=stop[shares], run_instance=owner)
    table = overlap_table(part, part, most=most)
    first, second = table.reference_index.astype(np.int64), table.prediction_index.astype(np.int64)
    chosen = (first < second) & (2 * table.intersection_px > np.minimum(area[first], area[second]))
    return first[chosen], second[chosen]


def count_copies(instances: Instances, twins: Int64) -> int:
    """How many of some instances are equal to another of them: in all their pixels, or in their point.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> one = instances_from_labels(np.array([[0, 1, 1]]))
    >>> two = replace(one, class_id=one.class_id.repeat(2), run_start=one.run_start.repeat(2),
    ...     run_stop=one.run_stop.repeat(2), run_instance=np.array([0, 1], np.int32))
    >>> count_copies(two, np.array([0, 1]))
    2
    """
    if instances.point_yx is not None:
        shapes = [point.tobytes() for point in instances.point_yx[twins] + 0.0]
    else:
        order = instances.runs_by_instance()
        edges = np.searchsorted(instances.run_instance[order], np.arange(len(instances) + 1)).tolist()
        shapes = [
            np.stack([instances.run_start[runs], instances.run_stop[runs]]).tobytes()
            for runs in (order[edges[index] : edges[index + 1]] for index in twins.tolist())
        ]
    return sum(count for count in Counter(shapes).values() if count > 1)


def close_points(instances: Instances, radius_px: float, most: int) -> tuple[Int64, Int64]:
    from scipy.spatial import cKDTree

    assert instances.point_yx is not None
    tree = cKDTree(instances.point_yx)
    reach = radius_px / 2 * (1 - 1e-9)  # less than half: a rounded distance of exactly half is not
    if (pairs := int(tree.count_neighbors(tree, reach))) > most + len(instances):
        raise TooManyPairs("points close to each other", pairs, most, by_reference=False)
    close = tree.query_pairs(reach, output_type="ndarray").astype(np.int64)
    return close[:, 0], close[:, 1]


def duplicates_among(instances: Instances, twins: tuple[Int64, Int64], matched: Bool, fit: Float64) -> Bool:
    """Which instances do not take part in matching, bool (N,): of two twins at most one does.

    matched  which match a nucleus of the reference if all take part: two twins that both do, which are two different
             nuclei then, are no duplicates
    fit      how well each lies on a nucleus of the reference, float64 (N,): its IoU; 0 for one that matches none

    Of two that would match the one that fits worse takes part: so a copy cannot stand in for a worse original. One that
    would match nothing gives way to one that would. Equal ones are decided by ``position_order``: of a nucleus and a
    copy around it the inner one takes part. Neither confidences nor the order of a file decide anything.
    """
    first, second = twins
    both = matched[first] & matched[second]
    order = instances.position_order()[::-1]
    order = order[np.argsort(np.where(fit > 0, fit, np.inf)[order], kind="stable")]
    rank = np.empty(len(instances), np.int64)
    rank[order] = np.arange(len(instances))
    ends = np.sort(np.stack([rank[first[~both]], rank[second[~both]]]), axis=0)
    leaves = [False] * len(instances)
    for worse, better in ends[:, np.lexsort(ends[::-1])].T.tolist():
        leaves[better] = leaves[better] or not leaves[worse]
    return np.array(leaves, np.bool_)[rank]
