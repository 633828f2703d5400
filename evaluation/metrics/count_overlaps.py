"""What the family ``overlap`` is made of: sums of pixels of each case, whatever the matching rule.

Sums over cases, int64, from G_i, the reference nuclei, and P_j, the predicted ones, of a case: ``aji``, ``aji_plus``,
``dice1``, ``dice2`` (U, 2), numerator and denominator of each score; ``splits``, ``merges`` (U,). Partners are chosen
inside a case; the rest adds up. Nuclei may overlap others of their own side: then a pixel counts once for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.metrics.joined import JoinedCases, sum_cases
from evaluation.model import Bool, Instances, Int32, Int64, Matches, Region
from evaluation.model.intervals import merge_runs, overlaps


def count_overlaps(cases: JoinedCases, assignment: Matches) -> dict[str, Int64]:
    """The sums of each of K cases, (K, ...).

    assignment  the pairs with the greatest total IoU, whatever their class: ``iou_assignment`` with threshold 0

    >>> from evaluation.metrics.joined import join_cases
    >>> from evaluation.model import Instances, OverlapTable
    >>> row = Instances((1, 6), np.array([1, 1]), np.arange(2), np.array([0, 3]), np.array([3, 5]), np.array([0, 1]))
    >>> one = Instances((1, 6), np.array([1]), np.arange(1), np.array([1]), np.array([6]), np.array([0]))
    >>> table = OverlapTable(np.array([0, 1]), np.array([0, 0]), np.array([2, 2]), np.array([3, 2]), np.array([5]))
    >>> from evaluation.model import Matches
    >>> pair = Matches(np.array([1]), np.array([0]), np.array([2]), np.array([5]))
    >>> found = count_overlaps(join_cases([(row, one, table)]), pair)
    >>> {name: sums.tolist() for name, sums in found.items() if name != "dice1"}
    {'aji': [[4, 11]], 'aji_plus': [[2, 8]], 'dice2': [[8, 15]], 'splits': [0], 'merges': [1]}
    """
    table, bounds, pairs = cases.table, (cases.reference_bound, cases.prediction_bound), cases.pair_bound()
    areas = table.reference_area_px, table.prediction_area_px
    foreground = compare_foregrounds(cases)
    area = sum(sum_cases(of_side, bound) for of_side, bound in zip(areas, bounds, strict=True))
    paired = sum_cases(assignment.intersection_px, np.searchsorted(assignment.reference_index, bounds[0]))
    left, right, shared = table.reference_index, table.prediction_index, table.intersection_px
    outside = foreground.reference_outside_px, foreground.prediction_outside_px
    return {
        "aji": jaccard_sums(cases),
        "aji_plus": np.stack([paired, area - paired], axis=1),
        "dice1": np.stack([2 * foreground.shared_px, foreground.reference_px + foreground.prediction_px], axis=1),
        "dice2": np.stack([2 * sum_cases(shared, pairs), sum_cases(areas[0][left] + areas[1][right], pairs)], axis=1),
        "splits": sum_cases(has_several(right, left, shared, cases.reference_rank, outside[1]), bounds[0]),
        "merges": sum_cases(has_several(left, right, shared, cases.prediction_rank, outside[0]), bounds[1]),
    }


def jaccard_sums(cases: JoinedCases) -> Int64:
    """Numerator and denominator of the aggregated Jaccard index of each case, (K, 2)."""
    table, union = cases.table, cases.table.union_px()
    iou = table.intersection_px / union  # equal fractions give equal floats
    best = best_rows(table.reference_index, table.prediction_index, iou, cases.prediction_rank)
    alone, unused = table.reference_area_px.copy(), table.prediction_area_px.copy()
    alone[table.reference_index] = 0
    unused[table.prediction_index[best]] = 0
    of_case = np.searchsorted(table.reference_index[best], cases.reference_bound)
    lonely = sum_cases(alone, cases.reference_bound) + sum_cases(unused, cases.prediction_bound)
    shared = sum_cases(table.intersection_px[best], of_case)
    return np.stack([shared, sum_cases(union[best], of_case) + lonely], axis=1)


def best_rows(index: Int32, partner_index: Int32, value: npt.NDArray[Any], partner_rank: Int64) -> Int64:
    """For each instance in ``index``, in their order, the row with the largest value.

    Ties: the partner that comes first by ``partner_rank``.
    """
    number = np.bincount(index)
    best = np.empty(len(number), np.int64)
    best[index] = np.arange(len(index))  # the only row, if there is one
    rivals = np.flatnonzero(number[index] > 1)
    who = index[rivals]
    order = np.lexsort((partner_rank[partner_index[rivals]], -value[rivals], who))
    first = order[np.append(True, who[order[1:]] != who[order[:-1]])[: len(order)]]
    best[who[first]] = rivals[first]
    return best[number > 0]


def has_several(
    index: Int32, partner_index: Int32, intersection_px: Int64, partner_rank: Int64, outside_px: Int64
) -> Bool:
    """Which partners have two instances or more assigned to them, bool (N,).

    outside_px  pixels of each instance in none of the partners
    """
    best = best_rows(index, partner_index, intersection_px, partner_rank)
    best = best[intersection_px[best] > outside_px[index[best]]]
    return np.bincount(partner_index[best], minlength=len(partner_rank)) > 1


@dataclass(frozen=True, slots=True, eq=False)
class Foregrounds:
    """The pixels in any nucleus of a side, and how many of each instance lie outside those of the other side.

    reference_px, prediction_px, shared_px        of each case, int64 (K,)
    reference_outside_px, prediction_outside_px   of each instance, int64 (N,) and (M,)
    """

    reference_px: Int64
    prediction_px: Int64
    shared_px: Int64
    reference_outside_px: Int64
    prediction_outside_px: Int64


def compare_foregrounds(cases: JoinedCases) -> Foregrounds:
    """Compare the foregrounds of both sides; from the table alone unless instances overlap on their own side."""
    table, bounds = cases.table, (cases.reference_bound, cases.prediction_bound)
    outside_reference, outside_prediction = table.reference_area_px.copy(), table.prediction_area_px.copy()
    if is_disjoint(cases.reference) and is_disjoint(cases.prediction):
        np.subtract.at(outside_reference, table.reference_index, table.intersection_px)
        np.subtract.at(outside_prediction, table.prediction_index, table.intersection_px)
        return Foregrounds(
            sum_cases(table.reference_area_px, bounds[0]),
            sum_cases(table.prediction_area_px, bounds[1]),
            sum_cases(table.intersection_px, cases.pair_bound()),
            outside_reference,
            outside_prediction,
        )
    left, right = foreground(cases.reference), foreground(cases.prediction)
    *_, start, stop = overlaps(left.run_start, left.run_stop, right.run_start, right.run_stop)
    ends = np.concatenate([[0], np.cumsum(cases.shapes_yx[:, 0])]) * cases.reference.shape_yx[1]
    return Foregrounds(
        np.diff(pixels_before(left, ends)),
        np.diff(pixels_before(right, ends)),
        np.diff(pixels_before(Region(start, stop), ends)),
        outside_reference - pixels_inside(cases.reference, right),
        outside_prediction - pixels_inside(cases.prediction, left),
    )


def is_disjoint(instances: Instances) -> bool:
    """Whether no pixel belongs to two instances."""
    return bool(np.all(instances.run_start[1:] >= instances.run_stop[:-1]))


def foreground(instances: Instances) -> Region:
    """The pixels that belong to any instance."""
    return Region(*merge_runs(instances.run_start, instances.run_stop))


def pixels_inside(instances: Instances, region: Region) -> Int64:
    """Pixels of each instance inside a region, int64 (N,)."""
    inside = np.zeros(len(instances), np.int64)
    of_runs = pixels_before(region, instances.run_stop) - pixels_before(region, instances.run_start)
    np.add.at(inside, instances.run_instance, of_runs)
    return inside


def pixels_before(region: Region, pixel: Int64) -> Int64:
    """How many pixels of a region come before each pixel, int64."""
    before = np.concatenate([[0], np.cumsum(region.run_stop - region.run_start)])
    runs = np.searchsorted(region.run_start, pixel)
    beyond = np.append(0, region.run_stop)[runs] - pixel  # of the last run that begins before the pixel
    return np.asarray(before[runs] - np.maximum(beyond, 0))
