"""Overlap: how well do the pixels agree, whatever the matching rule? Classes are ignored.

Sums over cases, int64, from G_i, the reference nuclei, and P_j, the predicted ones, of a case: ``aji``, ``aji_plus``,
``dice1``, ``dice2`` (U, 2), numerator and denominator of each score; ``splits``, ``merges`` (U,). Partners are chosen
inside a case; the rest adds up. Nuclei may overlap others of their own side: then a pixel counts once for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.metrics.counts import hits, without_points
from evaluation.metrics.joined import JoinedCases, sum_cases
from evaluation.metrics.undefined import code, ratio, scores
from evaluation.model import Bool, Instances, Int32, Int64, Matches, Region, Scores, Units
from evaluation.model.intervals import merge_runs, overlaps


def aggregated_jaccard(units: Units) -> Scores:
    """Aggregated Jaccard index, AJI = I / U, in [0, 1].

    The partner of a reference nucleus G_i is the prediction P_j with the highest IoU, however low, if any touches it.
    ``I = sum |G_i n P_j|`` over nuclei with a partner; ``U = sum |G_i u P_j|`` over them ``+ sum |G_i|`` of the nuclei
    without a partner ``+ sum |P_j|`` of the predictions that are nobody's partner. A prediction may be the partner of
    several nuclei, and then counts in each union. Not symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Kumar et al., IEEE TMI 36(7), 2017, algorithm 1, as in the code of MoNuSeg 2018 and of HoVer-Net. Which of two
    partners with equal IoU is taken changes the value: there the one with the smaller label or the larger union, here
    the one whose first pixel comes first (row by row), then the smaller one. For an empty prediction the first of
    those codes says 0, the second stops with an error; for two empty sides both divide 0 by 0.
    """
    return quotient(units, "aji")


def aggregated_jaccard_plus(units: Units) -> Scores:
    """AJI+: the aggregated Jaccard index with pairs one to one, I / U, in [0, 1].

    Pairs are those with the greatest total IoU (``iou_assignment`` with threshold 0). ``I = sum |G_i n P_j|`` over
    pairs; ``U = sum |G_i u P_j|`` over pairs ``+ sum |G_i| + sum |P_j|`` of the nuclei that are in none.
    Symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points. There is no paper: it comes
    from the code of HoVer-Net (Graham et al., Medical Image Analysis 58, 2019), which stops or says NaN if sides are
    empty.
    """
    return quotient(units, "aji_plus")


def dice1(units: Units) -> Scores:
    """DICE1: RandomIntegers coefficient of the foregrounds, 2 |G n P| / (|G| + |P|), in [0, 1].

    G and P are the pixels of all nuclei of a side; a pixel under several counts once. Symmetric. How the foreground is
    cut into nuclei does not matter.

    0 if one side is empty; undefined "no-instances" if both are (NaN in published codes), "points-only" for points.
    The "DICE" of HoVer-Net (Graham et al., Medical Image Analysis 58, 2019).
    """
    return quotient(units, "dice1")


def dice2(units: Units) -> Scores:
    """DICE2, "ensemble Dice": 2 sum |G_i n P_j| / sum (|G_i| + |P_j|) over all pairs that share a pixel, in [0, 1].

    A nucleus that touches k others counts k times in the denominator; a missed or a spurious one that touches none
    does not count at all. Symmetric.

    0 if nothing overlaps (there published codes divide 0 by 0), also if one side is empty; undefined "no-instances" if
    both are, "points-only" for points. Vu et al., Frontiers in Bioengineering and Biotechnology 7, 2019 (CPM 2017);
    the "DICE2" of HoVer-Net.
    """
    return quotient(units, "dice2")


def splits(units: Units) -> Scores:
    """Number of reference nuclei that were split, in [0, inf), in all cases of the unit.

    A prediction is assigned to the nucleus that it shares the most pixels with, or to the background if it has at
    least as many pixels outside all nuclei. A nucleus is split if two predictions or more are assigned to it. Missed
    nuclei are no splits. At most as many as there are reference nuclei.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Coelho, Shariff, Murphy, ISBI 2009, with ties between nuclei decided by the first pixel, then the smaller area,
    instead of by the label. Their code counts the background as one more nucleus, and the last two labels as one.
    """
    return total(units, "splits")


def merges(units: Units) -> Scores:
    """Number of predictions that merge nuclei, in [0, inf), in all cases of the unit.

    As ``splits`` with the sides swapped: a reference nucleus is assigned to the prediction that it shares the most
    pixels with, or to the background if it has at least as many pixels outside all predictions; a prediction merges if
    two nuclei or more are assigned to it. Spurious predictions are no merges. At most half as many as there are
    reference nuclei.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Coelho, Shariff, Murphy, ISBI 2009. Their code leaves out the first label and counts the last two as one.
    """
    return total(units, "merges")


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


def quotient(units: Units, name: str) -> Scores:
    """Numerator over denominator; 0 if there are instances but nothing to divide by."""
    numerator, denominator = units.sum(name).T
    found = ratio(numerator, denominator, code("no-instances"))
    of = hits(units)
    nothing = (denominator == 0) & (of.tp + of.fp + of.fn > 0)
    return without_points(units, scores(np.where(nothing, 0, found.value), (found.reason == 0) | nothing, found.reason))


def total(units: Units, name: str) -> Scores:
    """A number of instances in all cases of a unit."""
    of = hits(units)
    return without_points(units, scores(units.sum(name), of.tp + of.fp + of.fn > 0, code("no-instances")))
