"""How well do the pixels agree, whatever the matching rule? Classes are ignored.

The families ``overlap`` (AJI, Dice, splits and merges) and ``objects`` (GlaS 2015). G_i are the reference nuclei and
P_j the predicted ones of a case; ``count_overlaps`` and ``count_objects`` make the sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.metrics.counts import JoinedCases, best_partners, hits, sum_cases
from nuclei_metrics.metrics.metric import OF_ALL, Empty, Metric, code, ratio, scores, why_undefined
from nuclei_metrics.model import Bool, Float64, Instances, Int32, Int64, Matches, Region, Scores, Units
from nuclei_metrics.model.arrays import distinct, expand, merge_runs, overlaps


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
    those codes says 0, the second stops with an error; for two empty sides both divide 0 by 0. Of equal nuclei each
    takes another of equal predictions.
    """
    return _quotient(units, "aji")


def aggregated_jaccard_plus(units: Units) -> Scores:
    """AJI+: the aggregated Jaccard index with pairs one to one, I / U, in [0, 1].

    Pairs are those with the greatest total IoU (``iou_assignment`` with threshold 0). ``I = sum |G_i n P_j|`` over
    pairs; ``U = sum |G_i u P_j|`` over pairs ``+ sum |G_i| + sum |P_j|`` of the nuclei that are in none.
    Symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points. There is no paper: it comes
    from the code of HoVer-Net (Graham et al., Medical Image Analysis 58, 2019), which stops or says NaN if sides are
    empty.
    """
    return _quotient(units, "aji_plus")


def dice1(units: Units) -> Scores:
    """DICE1: Dice coefficient of the foregrounds, 2 |G n P| / (|G| + |P|), in [0, 1].

    G and P are the pixels of all nuclei of a side; a pixel under several counts once. Symmetric. How the foreground is
    cut into nuclei does not matter.

    0 if one side is empty; undefined "no-instances" if both are (NaN in published codes), "points-only" for points.
    The "DICE" of HoVer-Net (Graham et al., Medical Image Analysis 58, 2019).
    """
    return _quotient(units, "dice1")


def dice2(units: Units) -> Scores:
    """DICE2, "ensemble Dice": 2 sum |G_i n P_j| / sum (|G_i| + |P_j|) over all pairs that share a pixel, in [0, 1].

    A nucleus that touches k others counts k times in the denominator; a false negative or false positive
    that touches none does not count at all. Symmetric.

    0 if nothing overlaps (there published codes divide 0 by 0), also if one side is empty; undefined "no-instances" if
    both are, "points-only" for points. Vu et al., Frontiers in Bioengineering and Biotechnology 7, 2019 (CPM 2017);
    the "DICE2" of HoVer-Net.
    """
    return _quotient(units, "dice2")


def splits(units: Units) -> Scores:
    """Number of reference nuclei that were split, in [0, inf), in all cases of the unit.

    A prediction is assigned to the nucleus that it shares the most pixels with, or to the background if it has at
    least as many pixels outside all nuclei. A nucleus is split if two predictions or more are assigned to it. False
    negatives are no splits. At most as many as there are reference nuclei.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Coelho, Shariff, Murphy, ISBI 2009, with ties between nuclei decided by the higher IoU, then by the first pixel,
    instead of by the label; each of several equal nuclei counts for one of several equal predictions. Their code counts
    the background as one more nucleus, and the last two labels as one.
    """
    return total(units, "splits")


def merges(units: Units) -> Scores:
    """Number of predictions that merge nuclei, in [0, inf), in all cases of the unit.

    As ``splits`` with the sides swapped: a reference nucleus is assigned to the prediction that it shares the most
    pixels with, or to the background if it has at least as many pixels outside all predictions; a prediction merges if
    two nuclei or more are assigned to it. False positives are no merges. At most half as many as there are
    reference nuclei.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Coelho, Shariff, Murphy, ISBI 2009. Their code leaves out the first label and counts the last two as one.
    """
    return total(units, "merges")


def _quotient(units: Units, name: str) -> Scores:
    """Numerator / denominator of a score; 0 if a unit has instances and the denominator is 0."""
    numerator, denominator = units.sum(name).T
    score = ratio(numerator, denominator, code("no-instances"))
    nothing = (denominator == 0) & (hits(units).all_nuclei > 0)
    return scores(np.where(nothing, 0, score.value), (score.reason == 0) | nothing, score.reason)


def total(units: Units, name: str) -> Scores:
    """Return the total of a count over all cases of a unit."""
    return scores(units.sum(name), hits(units).all_nuclei > 0, code("no-instances"))


OF_PIXELS: dict[str, Any] = {"outlines": True, "by_rule": False, "empty": OF_ALL}
WORSE: dict[str, Any] = {"missed": "worse", "spurious": "worse", **OF_PIXELS}
NUMBER: dict[str, Any] = {"better": "lower", "highest": math.inf, "worst": None, **OF_PIXELS}

OVERLAP = (
    Metric(path=("overlap", "aji"), evaluate=aggregated_jaccard, **WORSE),
    Metric(path=("overlap", "aji_plus"), evaluate=aggregated_jaccard_plus, symmetric=True, **WORSE),
    Metric(path=("overlap", "dice1"), evaluate=dice1, symmetric=True, **WORSE),
    Metric(path=("overlap", "dice2"), evaluate=dice2, symmetric=True, **OF_PIXELS),
    Metric(path=("overlap", "splits"), evaluate=splits, **NUMBER),
    Metric(path=("overlap", "merges"), evaluate=merges, **NUMBER),
)

# --- count overlaps ---------------------------------------------------------------------------------------------------

# What the family ``overlap`` is made of: sums of pixels of each case, whatever the matching rule.
#
# Sums over cases, int64, from G_i, the reference nuclei, and P_j, the predicted ones, of a case: ``aji``, ``aji_plus``,
# ``dice1``, ``dice2`` (U, 2), numerator and denominator of each score; ``splits``, ``merges`` (U,). Partners are chosen
# inside a case; the rest adds up. Nuclei may overlap others of their own side: then a pixel counts once for each.


def count_overlaps(cases: JoinedCases, assignment: Matches) -> dict[str, Int64]:
    """The sums of each of K cases, (K, ...).

    assignment  the pairs with the greatest total IoU, whatever their class: ``iou_assignment`` with threshold 0

    >>> from nuclei_metrics.metrics.counts import join_cases
    >>> from nuclei_metrics.model import Instances, OverlapTable
    >>> row = Instances((1, 6), np.array([1, 1]), np.arange(2), np.array([0, 3]), np.array([3, 5]), np.array([0, 1]))
    >>> one = Instances((1, 6), np.array([1]), np.arange(1), np.array([1]), np.array([6]), np.array([0]))
    >>> table = OverlapTable(np.array([0, 1]), np.array([0, 0]), np.array([2, 2]), np.array([3, 2]), np.array([5]))
    >>> from nuclei_metrics.model import Matches
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
    outside, iou = foreground.outside_px, shared / table.union_px()
    ranks = cases.ranks
    return {
        "aji": _jaccard_sums(cases),
        "aji_plus": np.stack([paired, area - paired], axis=1),
        "dice1": np.stack([2 * foreground.shared_px, sum(foreground.side_px)], axis=1),
        "dice2": np.stack([2 * sum_cases(shared, pairs), sum_cases(areas[0][left] + areas[1][right], pairs)], axis=1),
        "splits": sum_cases(_has_several(right, left, shared, iou, ranks[::-1], outside[1]), bounds[0]),
        "merges": sum_cases(_has_several(left, right, shared, iou, ranks, outside[0]), bounds[1]),
    }


def _jaccard_sums(cases: JoinedCases) -> Int64:
    """Numerator and denominator of the aggregated Jaccard index of each case, (K, 2)."""
    table, union = cases.table, cases.table.union_px()
    iou = table.intersection_px / union  # equal fractions give equal floats
    best = best_partners(table.reference_index, table.prediction_index, iou, iou, *cases.ranks)
    alone, unused = table.reference_area_px.copy(), table.prediction_area_px.copy()
    alone[table.reference_index] = 0
    unused[table.prediction_index[best]] = 0
    of_case = np.searchsorted(table.reference_index[best], cases.reference_bound)
    lonely = sum_cases(alone, cases.reference_bound) + sum_cases(unused, cases.prediction_bound)
    shared = sum_cases(table.intersection_px[best], of_case)
    return np.stack([shared, sum_cases(union[best], of_case) + lonely], axis=1)


def _has_several(
    index: Int32,
    partner_index: Int32,
    intersection_px: Int64,
    iou: Float64,
    ranks: tuple[Int64, Int64],
    outside_px: Int64,
) -> Bool:
    """Return whether each partner has at least two instances assigned to it, bool (N,).

    ranks       of the instances, and of the partners
    outside_px  pixels of each instance in none of the partners
    """
    best = best_partners(index, partner_index, intersection_px, iou, *ranks)
    best = best[intersection_px[best] > outside_px[index[best]]]
    return np.bincount(partner_index[best], minlength=len(ranks[1])) > 1


@dataclass(frozen=True, slots=True, eq=False)
class _Foregrounds:
    """The pixels in any nucleus of a side, and how many of each instance lie outside those of the other side.

    side_px       of each case: of the reference and of the prediction, int64 (K,) each
    shared_px     of each case: in both, int64 (K,)
    outside_px    of each instance of the reference, and of the prediction, int64 (N,) and (M,)
    """

    side_px: tuple[Int64, Int64]
    shared_px: Int64
    outside_px: tuple[Int64, Int64]


def compare_foregrounds(cases: JoinedCases) -> _Foregrounds:
    """Compare the foregrounds of both sides; from the table alone unless instances overlap on their own side."""
    table = cases.table
    outside = table.reference_area_px.copy(), table.prediction_area_px.copy()
    if cases.reference.is_disjoint() and cases.prediction.is_disjoint():
        np.subtract.at(outside[0], table.reference_index, table.intersection_px)
        np.subtract.at(outside[1], table.prediction_index, table.intersection_px)
        annotated = sum_cases(table.reference_area_px, cases.reference_bound)
        predicted = sum_cases(table.prediction_area_px, cases.prediction_bound)
        return _Foregrounds((annotated, predicted), sum_cases(table.intersection_px, cases.pair_bound()), outside)
    left, right = _foreground(cases.reference), _foreground(cases.prediction)
    *_, start, stop = overlaps(left.run_start, left.run_stop, right.run_start, right.run_stop)
    ends = np.concatenate([[0], np.cumsum(cases.shapes_yx[:, 0])]) * cases.reference.shape_yx[1]
    annotated, predicted, shared = (
        np.diff(region.pixels_before(ends)) for region in (left, right, Region(start, stop))
    )
    beyond = outside[0] - right.pixels_of(cases.reference), outside[1] - left.pixels_of(cases.prediction)
    return _Foregrounds((annotated, predicted), shared, beyond)


def _foreground(instances: Instances) -> Region:
    """The pixels that belong to any instance."""
    return Region(*merge_runs(instances.run_start, instances.run_stop))


# --- objects ----------------------------------------------------------------------------------------------------------

# Scores of the challenge GlaS 2015: F1, Dice and Hausdorff distance of objects. Classes are ignored.
#
# Sirinukunwattana et al., Medical Image Analysis 35, 2017, section 4. G_i are the reference objects of a case, S_j the
# segmented ones. ``best(S_j)`` is the G_i that shares the most pixels with S_j, or none, and ``best(G_i)`` the S_j that
# shares the most with G_i. Ties: the higher IoU, then the first pixel (row by row); in the code of the challenge, the
# smaller label.
#
# ``count_objects`` makes the sums. Best objects are looked for inside a case; weights run over all objects of the unit,
# as published for each test part.


def object_f1(units: Units) -> Scores:
    """Object-level F1, 2 tp / (number of G_i + number of S_j), in [0, 1].

    A segmented object is a true positive if it covers more than half of the pixels of ``best(S_j)``, strictly as in the
    code (the paper says "at least 50%"). This is not the IoU: an S_j that is far too large still counts. A reference
    object counts once, even if segmented objects that overlap each other cover it. All others are false positives; a
    reference object that no true positive belongs to is a false negative. Not symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are (1 in published code), "points-only" for points.
    """
    numerator, denominator = units.sum("object_f1").T
    return ratio(numerator, denominator, code("no-instances"))


def object_dice(units: Units) -> Scores:
    """Object-level Dice, 1/2 [sum_i v_i Dice(G_i, best(G_i)) + sum_j w_j Dice(best(S_j), S_j)], in [0, 1].

    ``v_i = |G_i| / sum_k |G_k|`` and ``w_j = |S_j| / sum_k |S_k|`` over all objects of the unit; Dice is 0 where there
    is no best object. Symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are (1 in published code), "points-only" for points.
    """
    areas = units.sum("object_area")
    value = (units.sum("object_dice") / np.maximum(areas, 1)).sum(axis=1) / 2
    return scores(value, areas.sum(axis=1) > 0, code("no-instances"))


def object_hausdorff(units: Units) -> Scores:
    """Object-level Hausdorff distance, 1/2 [sum_i v_i H(G_i, S*_i) + sum_j w_j H(G*_j, S_j)], px, in [0, inf).

    0 is best. Weights as in ``object_dice``. S*_i is ``best(G_i)``, or, where there is none, the S_j of the case with
    the smallest distance H(G_i, S_j); G*_j likewise. With d(a, B) the Euclidean distance from pixel a to the nearest
    pixel of B, ``H(A, B) = max(max_a d(a, B), max_b d(b, A))`` over *all* pixels of A and of B, not of their outlines:
    a square and the ring of its border pixels are apart by the distance of the centre of the square. Symmetric.

    Objects of a case whose other side is empty enter with the diagonal of the image, the largest distance that there
    can be (infinity in published code). Undefined "no-prediction" or "no-reference" if a side is empty in all cases of
    the unit, "no-instances" if both are (0 in published code), "points-only" for points.
    """
    areas = units.sum("object_area")
    value = (units.sum("object_hausdorff") / np.maximum(areas, 1)).sum(axis=1) / 2
    reason = why_undefined(areas[:, 0], areas[:, 1])
    return scores(value, areas.min(axis=1) > 0, reason)


OF_OBJECTS: dict[str, Any] = {"outlines": True, "by_rule": False}
OF_OBJECT_SCORES: dict[str, Any] = {"missed": "worse", "spurious": "worse", "empty": OF_ALL, **OF_OBJECTS}

OBJECTS = (
    Metric(path=("objects", "f1"), evaluate=object_f1, **OF_OBJECT_SCORES),
    Metric(path=("objects", "dice"), evaluate=object_dice, symmetric=True, **OF_OBJECT_SCORES),
    Metric(
        path=("objects", "hausdorff_px"),
        evaluate=object_hausdorff,
        better="lower",
        highest=math.inf,
        worst="diagonal_px",
        unit="px",
        empty=Empty("no-instances", "no-prediction", "no-reference", None),
        missed="either",
        spurious="either",
        symmetric=True,
        counts_missing=True,
        **OF_OBJECTS,
    ),
)

# --- count objects ----------------------------------------------------------------------------------------------------

# What the family ``objects`` is made of: sums over the objects of each case, and their Hausdorff distances.
#
# Sums over cases, all (U, 2): ``object_f1`` int64, numerator and denominator; ``object_area`` int64, pixels of all G_i
# and of all S_j; ``object_dice`` and ``object_hausdorff`` float64, sums over G_i and over S_j of area times score. Best
# objects are looked for inside a case; weights run over all objects of the unit, as published for each test part.

DISTANCES_AT_ONCE = 1 << 20  # bounds the memory
OBJECT_PAIRS_AT_ONCE = 1 << 10  # with their intermediate results they stay in the cache
OBJECT_RUNS_AT_ONCE = 1 << 18  # of pairs of objects with very many; bounds the memory
COARSE, FINE = (-2, 2), (-1, 1, -3, 3, -6, 6)  # runs of an object that are tried, from the one in the same row
CALIPER_STEPS_YX = ((1, 0), (0, 1), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1))  # y, x
FIRST_MEASURED = 1  # objects that are measured at first for one that has no best one; then 16 times as many
NEIGHBOURS_AT_ONCE = 1 << 18  # bounds the memory
MOST_MEASURED = 20_000_000  # pairs of objects; half a minute
FAR, FAR_SQUARED = 1 << 30, 1 << 62  # beyond all columns, and all distances
MARGIN = 1 + 1e-9  # of a search whose rounding is not ours; what it finds is measured

WholeNumbers = npt.NDArray[np.integer[Any]]


def count_objects(cases: JoinedCases, runs: Sequence[_SortedRuns] = ()) -> dict[str, npt.NDArray[Any]]:
    """The sums of each of K cases, (K, 2); every object has a pixel, unless a side is points.

    runs  of the reference of each case, then of the prediction of each, if they are sorted already

    >>> from nuclei_metrics.metrics.counts import join_cases
    >>> from nuclei_metrics.model import Instances, OverlapTable
    >>> two = Instances((1, 9), np.array([1, 1]), np.arange(2), np.array([0, 8]), np.array([4, 9]), np.array([0, 1]))
    >>> found = Instances((1, 9), np.array([1]), np.arange(1), np.array([1]), np.array([5]), np.array([0]))
    >>> table = OverlapTable(np.array([0]), np.array([0]), np.array([3]), np.array([4, 1]), np.array([4]))
    >>> sums = count_objects(join_cases([(two, found, table)]))
    >>> [sums[name].tolist() for name in ("object_f1", "object_area", "object_dice", "object_hausdorff")]
    [[[2, 3]], [[5, 4]], [[3.0, 3.0]], [[11.0, 4.0]]]

    The first object is 1 px from the one that was found, with a Dice of 3/4; the second one 7 px.
    """
    table, bounds = cases.table, (cases.reference_bound, cases.prediction_bound)
    left, right, shared = table.reference_index, table.prediction_index, table.intersection_px
    areas = table.reference_area_px, table.prediction_area_px
    iou, ranks = shared / table.union_px(), cases.ranks
    best = (best_partners(left, right, shared, iou, *ranks), best_partners(right, left, shared, iou, *ranks[::-1]))
    covering = best[1][2 * shared[best[1]] > areas[0][left[best[1]]]]
    covered, dice = np.zeros(len(areas[0]), np.bool_), [np.zeros(len(area)) for area in areas]
    covered[left[covering]] = True
    for of_side, index, rows in zip(dice, (left, right), best, strict=True):
        of_side[index[rows]] = 2 * shared[rows] / (areas[0][left[rows]] + areas[1][right[rows]])
    objects, distances = np.diff(bounds[0]) + np.diff(bounds[1]), _object_distances(cases, best, runs)
    return {
        "object_f1": np.stack([2 * sum_cases(covered, bounds[0]), objects], axis=1),
        "object_area": np.stack(list(map(sum_cases, areas, bounds)), axis=1),
        "object_dice": np.stack(list(map(_exact_sums, areas, dice, bounds)), axis=1),
        "object_hausdorff": np.stack(list(map(_exact_sums, areas, distances, bounds)), axis=1),
    }


def _exact_sums(area_px: Int64, score: Float64, bound: Int64) -> Float64:
    """Sum of area times score over the objects of each case, rounded once: the same in any order; (K,)."""
    products = (area_px * score).tolist()
    return np.array([math.fsum(products[first:last]) for first, last in pairwise(bound.tolist())])


def _object_distances(
    cases: JoinedCases, best: tuple[Int64, Int64], runs: Sequence[_SortedRuns] = ()
) -> tuple[Float64, Float64]:
    """Distance of each object to its best one, else to the nearest one of the case, px, float64 (N,) and (M,).

    best  the rows of the table with the best object of each reference and of each segmented object
    """
    reference, prediction, table = cases.reference, cases.prediction, cases.table
    case = np.concatenate([cases.reference_case(), cases.prediction_case()])
    distance = np.hypot(*(cases.shapes_yx - 1).T)[case]  # of cases in which a side is empty
    if len(reference.run_start) and len(prediction.run_start):
        shapes = _shapes_of_runs(runs) if runs else shapes_of(reference, prediction)
        left, right = table.reference_index.astype(np.int64), table.prediction_index.astype(np.int64) + len(reference)
        rows = distinct(np.concatenate(best))
        measured = np.ones(len(case), np.bool_)
        measured[left], measured[right] = False, False
        both = (np.diff(cases.reference_bound) > 0) & (np.diff(cases.prediction_bound) > 0)
        alone = np.flatnonzero(measured & both[case])
        search = Search(shapes, case, len(reference))
        squared = hausdorff_squared(shapes, left[rows], right[rows])
        distance[left[best[0]]] = np.sqrt(squared[np.searchsorted(rows, best[0])])
        distance[right[best[1]]] = np.sqrt(squared[np.searchsorted(rows, best[1])])
        distance[alone] = np.sqrt(search.nearest_squared(alone))
    return distance[: len(reference)], distance[len(reference) :]


@dataclass(frozen=True, slots=True, eq=False)
class _Shapes:
    """The runs of many instances; those of instance i are ``bound[i]`` to ``bound[i + 1]``, row by row.

    row, first, last  integer (R,): the run covers the columns ``first`` to ``last`` of its row; squared distances in
                      an image fit into their type
    bound             int64 (K + 1,); every instance has a run
    top               int64 (K,), the first row of each instance
    offset, begin     int64 (K + 1,) and (sum of all heights + K,): the runs of instance i from row ``top[i] + k`` on
                      begin with run ``begin[offset[i] + k]``
    """

    row: WholeNumbers
    first: WholeNumbers
    last: WholeNumbers
    bound: Int64
    top: Int64
    offset: Int64
    begin: Int64

    def boxes(self) -> WholeNumbers:
        """First and last row and column of each instance, (K, 4)."""
        begin = self.bound[:-1]
        columns = np.minimum.reduceat(self.first, begin), np.maximum.reduceat(self.last, begin)
        return np.stack([self.row[begin], self.row[self.bound[1:] - 1], *columns], axis=1)

    def first_from(self, instance: Int64, row: WholeNumbers) -> Int64:
        """The first run of each instance that lies in a row or below it; behind its last run if there is none."""
        heights = np.diff(self.offset)[instance] - 1
        return np.asarray(self.begin[self.offset[instance] + np.clip(row - self.top[instance], 0, heights)])


class _SortedRuns(Protocol):
    """The runs of the instances of one image; those of instance i are ``bound[i]`` to ``bound[i + 1]``, row by row."""

    @property
    def shape_yx(self) -> tuple[int, int]: ...
    @property
    def bound(self) -> Int64: ...
    def columns(self) -> tuple[Int32, Int32, Int32]:
        """Row, first column and last column + 1 of each run."""
        ...


def shapes_of(reference: Instances, prediction: Instances) -> _Shapes:
    """The instances of both sides: first those of the reference, then those of the prediction."""
    height, width = reference.shape_yx
    instance = np.concatenate([reference.run_instance, prediction.run_instance + np.int32(len(reference))])
    start, stop = np.stack([instance * np.int64(height * width)] * 2)
    start += np.concatenate([reference.run_start, prediction.run_start])
    stop += np.concatenate([reference.run_stop, prediction.run_stop])
    start.sort()
    stop.sort()
    line, runs = start // width, np.bincount(instance, minlength=len(reference) + len(prediction))
    row = line - np.repeat(np.arange(len(runs)) * height, runs)
    return _shapes_from(row, start - line * width, stop - line * width - 1, runs, height**2 + width**2)


def _shapes_of_runs(images: Sequence[_SortedRuns]) -> _Shapes:
    """The instances of several images, image by image. Rows and columns count from the corner of their image."""
    shapes_yx = [image.shape_yx for image in images]
    row, begin, end = map(np.concatenate, zip(*(image.columns() for image in images), strict=True))
    runs = np.concatenate([np.diff(image.bound) for image in images])
    return _shapes_from(row, begin, end - 1, runs, max(height**2 + width**2 for height, width in shapes_yx))


def _shapes_from(row: WholeNumbers, first: WholeNumbers, last: WholeNumbers, runs: Int64, largest: int) -> _Shapes:
    """Shapes with so many runs each, of which no squared distance is larger than ``largest``."""
    bound = np.concatenate([[0], np.cumsum(runs)])
    top = row[bound[:-1]].astype(np.int64)
    offset = np.concatenate([[0], np.cumsum(row[bound[1:] - 1] - top + 2)])
    in_row = np.bincount(row + np.repeat(offset[:-1] - top, runs), minlength=offset[-1])
    dtype = np.int32 if largest < 1 << 31 else np.int64
    begin = np.cumsum(in_row) - in_row
    return _Shapes(row.astype(dtype), first.astype(dtype), last.astype(dtype), bound, top, offset, begin)


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A search for the objects of the other side of a case.

    case        int64 (K,) of each object
    references  how many of the objects, from the first, belong to the reference; both sides of a case have one
    """

    shapes: _Shapes
    case: Int64
    references: int

    def nearest_squared(self, sources: Int64) -> Int64:
        """Squared distance of each source to the nearest object, px^2, (K,).

        Objects are measured in the order of a bound that their distance does not fall below (``_extents``), until that
        of the next one is no nearer than the nearest so far. Of objects with the same pixels one is measured.

        Raises ``TooManyPairs`` above ``MOST_MEASURED`` pairs.
        """
        boxes = np.column_stack([_extents(self.shapes), self.case * float(FAR)])
        nearest, measured = np.full(len(sources), (FAR // 2) ** 2), 0
        for here, there in self.sides(sources):
            targets = _different_shapes(self.shapes, there, self.case)
            tree = _tree_of(boxes[targets])
            number, passed = FIRST_MEASURED, np.zeros(len(sources))  # bounds up to which objects were measured
            while len(here):
                still = []
                for part in np.split(here, np.arange(0, len(here), max(1, NEIGHBOURS_AT_ONCE // number))[1:]):
                    reach = np.sqrt(nearest[part]) * MARGIN
                    ranks = np.arange(1, number + 1)
                    bound, near = tree.query(
                        boxes[sources[part]], ranks, p=np.inf, distance_upper_bound=reach.max(initial=0)
                    )
                    # Of equal bounds another one may be the first now: all of them are measured again.
                    row, rank = np.nonzero((bound >= passed[part, None]) & (bound < reach[:, None]))
                    measured += len(row)
                    if measured > MOST_MEASURED:
                        raise TooManyPairs("pairs of distant objects", measured, MOST_MEASURED, by_reference=False)
                    pair = sources[part[row]], targets[near[row, rank]]
                    squared = hausdorff_squared(self.shapes, *pair, enough=nearest[part[row]])
                    np.minimum.at(nearest, part[row], squared)
                    passed[part] = bound[:, -1]
                    still.append(part[bound[:, -1] < np.sqrt(nearest[part]) * MARGIN])
                here, number = np.concatenate(still), 16 * number
        return nearest

    def sides(self, sources: Int64) -> Iterator[tuple[Int64, slice]]:
        """Indices of the sources of one side, and the objects of the other side."""
        for of_reference, others in (
            (True, slice(self.references, len(self.case))),
            (False, slice(0, self.references)),
        ):
            here = np.flatnonzero((sources < self.references) == of_reference)
            if len(here):
                yield here, others


def _tree_of(points: Float64) -> Any:
    """A search tree for the nearest of points. scipy is imported here, since ``explain`` starts without it."""
    from scipy.spatial import cKDTree

    return cKDTree(points)


def _extents(shapes: _Shapes) -> Float64:
    """How far each object reaches to either side along ``CALIPER_STEPS_YX``, px, (K, 16).

    Two objects are at least as far apart as any of these differ, because the outermost pixel of each has a pixel of the
    other that near; and one that lies elsewhere is at most by a 36th farther away than the largest difference says.
    """
    begin, columns = shapes.bound[:-1], []
    for down, right in CALIPER_STEPS_YX:
        ends = (shapes.first, shapes.last) if right > 0 else (shapes.last, shapes.first)
        length, rows = math.hypot(down, right), down * shapes.row  # three sides of an image fit into the type, too
        for outermost, column in zip((np.minimum, np.maximum), ends, strict=True):
            columns.append(outermost.reduceat(rows + right * column, begin) / length)
    return np.stack(columns, axis=1)


def _different_shapes(shapes: _Shapes, objects: slice, case: Int64) -> Int64:
    """Drop the objects that have the same pixels as one before them in their case."""
    index = np.arange(objects.start, objects.stop)
    looks = np.column_stack([shapes.boxes()[index], np.diff(shapes.bound)[index], case[index]])
    order = np.lexsort(looks.T)
    alike = (looks[order[1:]] == looks[order[:-1]]).all(axis=1)
    known: set[tuple[int, bytes]] = set()
    repeated = np.zeros(len(index), np.bool_)
    for row in np.sort(order[np.append(alike, False) | np.append(False, alike)]).tolist():
        runs = slice(*shapes.bound[index[row] : index[row] + 2])
        pixels = np.stack([shapes.row[runs], shapes.first[runs], shapes.last[runs]]).tobytes()
        repeated[row] = (key := (int(case[index[row]]), pixels)) in known
        known.add(key)
    return index[~repeated]


def hausdorff_squared(shapes: _Shapes, one: Int64, other: Int64, *, enough: WholeNumbers | None = None) -> WholeNumbers:
    """Squared Hausdorff distance of the pixel sets of each pair of instances, px^2, (T,).

    enough  (T,): a pair that is farther apart is not measured to the end; its result is at least this
    """
    squared, boxes = np.zeros(len(one), shapes.row.dtype), shapes.boxes()
    runs = np.diff(shapes.bound)
    of_pairs = np.cumsum(runs[one] + runs[other]) // OBJECT_RUNS_AT_ONCE
    cuts = np.flatnonzero((np.diff(of_pairs) > 0) | (np.arange(1, len(one)) % OBJECT_PAIRS_AT_ONCE == 0)) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(one)]):
        part = slice(begin, end)
        ends = np.stack([one[part], other[part]], axis=1)
        limit = np.full(len(ends), FAR_SQUARED) if enough is None else enough[part]
        # The outermost pixel of an object is at least as far from the other one as that one's outermost pixel is.
        outside = (boxes[ends[:, 1]] - boxes[ends[:, 0]]) * np.array([1, -1, 1, -1], boxes.dtype)
        beyond = np.stack([outside.max(axis=1), (-outside).max(axis=1)], axis=1).clip(0) ** 2
        directed = _farthest_squared(
            shapes, ends.reshape(-1), ends[:, ::-1].reshape(-1), beyond.reshape(-1), np.repeat(limit, 2)
        )
        squared[part] = directed.reshape(-1, 2).max(axis=1)
    return squared


def _farthest_squared(
    shapes: _Shapes, sources: Int64, targets: Int64, squared: WholeNumbers, enough: WholeNumbers
) -> WholeNumbers:
    """Squared distance from its target of the pixel of each source that is farthest from it, px^2, (T,).

    squared  at most the result, (T,); it is raised to the result
    enough   the result is exact below this, (T,)

    Most pixels need no measuring: a run of the target gives an upper bound to the distance of any pixel. In each source
    the piece with the highest bound is measured; what has no higher bound than that is then out.
    """
    pieces = _pieces_of_sources(shapes, sources, targets)
    upper = _upper_bounds(shapes, pieces, (0,))
    for offsets in (COARSE, FINE):
        pieces, upper = contenders(pieces, upper, squared, enough)
        _raise_by_ends(squared, shapes, *highest(pieces, upper))
        pieces, upper = contenders(pieces, upper, squared, enough)
        upper = np.minimum(upper, _upper_bounds(shapes, pieces, offsets))
    pieces, upper = _raise_by_ends(squared, shapes, *contenders(pieces, upper, squared, enough))
    pixels, upper = _every_pixel(*contenders(pieces, upper, squared, enough))
    upper = np.minimum(upper, _upper_bounds(shapes, pixels, (0, *COARSE, *FINE)))
    _raise_by_ends(squared, shapes, *contenders(pixels, upper, squared, enough))
    return squared


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """Pixels of sources: the columns ``first`` to ``last`` of a row. All (S,), sorted by task.

    task    which source and target
    target  the instance
    near    a run of the target: in the same row or below, else the last one
    """

    task: Int64
    target: Int64
    row: WholeNumbers
    first: WholeNumbers
    last: WholeNumbers
    near: Int64


def _choose(pieces: _Pieces, chosen: Int64) -> _Pieces:
    """Some of the pieces, by their indices."""
    return _Pieces(*(getattr(pieces, field.name)[chosen] for field in fields(_Pieces)))


def _pieces_of_sources(shapes: _Shapes, sources: Int64, targets: Int64) -> _Pieces:
    """Take all runs of the sources as the first pieces."""
    begin, end = shapes.bound[sources], shapes.bound[sources + 1]
    runs = expand(begin, end)
    task = np.repeat(np.arange(len(sources)), end - begin)
    row, target = shapes.row[runs], targets[task]
    near = np.minimum(shapes.first_from(target, row), shapes.bound[target + 1] - 1)
    return _Pieces(task, target, row, shapes.first[runs], shapes.last[runs], near)


def _upper_bounds(shapes: _Shapes, pieces: _Pieces, offsets: Sequence[int]) -> WholeNumbers:
    """Return a bound on the squared distances of the pixels of each piece: from its farther end to a run."""
    bounds = []
    low, high = shapes.bound[pieces.target], shapes.bound[pieces.target + 1] - 1
    for offset in offsets:
        run = np.minimum(np.maximum(pieces.near + offset, low), high)
        columns = np.maximum(shapes.first[run] - pieces.first, pieces.last - shapes.last[run])
        bounds.append(np.maximum(columns, 0) ** 2 + (shapes.row[run] - pieces.row) ** 2)
    return np.asarray(np.minimum.reduce(bounds))


def contenders(
    pieces: _Pieces, upper: WholeNumbers, squared: WholeNumbers, enough: WholeNumbers
) -> tuple[_Pieces, WholeNumbers]:
    """The pieces that may still raise the result of their task, and their bounds."""
    hurdle = np.where(squared < enough, squared, np.iinfo(squared.dtype).max)
    chosen = np.flatnonzero(upper > hurdle[pieces.task])
    return _choose(pieces, chosen), upper[chosen]


def highest(pieces: _Pieces, upper: WholeNumbers) -> tuple[_Pieces, WholeNumbers]:
    """For each task its piece with the highest bound, and that bound."""
    if len(upper) == 0:
        return pieces, upper
    begin = np.flatnonzero(np.append(True, pieces.task[1:] != pieces.task[:-1]))
    top = np.repeat(np.maximum.reduceat(upper, begin), np.diff(np.append(begin, len(upper))))
    best = np.flatnonzero(upper == top)
    best = best[np.append(True, pieces.task[best[1:]] != pieces.task[best[:-1]])]
    return _choose(pieces, best), upper[best]


def _raise_by_ends(
    squared: WholeNumbers, shapes: _Shapes, pieces: _Pieces, upper: WholeNumbers
) -> tuple[_Pieces, WholeNumbers]:
    """Raise the result of each task by measuring both ends of pieces; returns the parts that may lie farther away.

    The distance from a run falls up to its first column and rises from its last one. So up to the column in which the
    first of the near runs ends the farthest pixel is the first one, from the column in which the last of them begins it
    is the last one, and farther pixels may lie between those columns only. From one pixel to the next a distance
    changes by no more than 1.
    """
    reach = np.sqrt(upper).astype(np.int64)
    low = shapes.first_from(pieces.target, pieces.row - reach)
    number = shapes.first_from(pieces.target, pieces.row + reach + 1) - low
    before = np.cumsum(number) - number
    between, until = np.empty((2, len(upper)), np.int64)
    ends = np.zeros(len(upper))
    for part in np.split(np.arange(len(upper)), np.flatnonzero(np.diff(before // DISTANCES_AT_ONCE)) + 1):
        if len(part) == 0:
            break
        begin, many = before[part] - before[part[0]], number[part]
        run = expand(low[part], low[part] + many)
        first, last = shapes.first[run], shapes.last[run]
        rows = (shapes.row[run] - np.repeat(pieces.row[part], many)) ** 2
        for column in (pieces.first[part], pieces.last[part]):
            at = np.repeat(column, many)
            columns = np.maximum(np.maximum(first - at, at - last), 0)
            nearest = np.minimum.reduceat(columns**2 + rows, begin)
            np.maximum.at(squared, pieces.task[part], nearest)
            ends[part] += np.sqrt(nearest)
        between[part] = np.minimum.reduceat(last, begin)
        until[part] = np.maximum.reduceat(first, begin)
    between = np.maximum(pieces.first, between) + 1
    until = np.minimum(pieces.last, until) - 1
    some = np.flatnonzero(between <= until)
    farthest = ((ends + pieces.last - pieces.first)[some] / 2 * MARGIN) ** 2
    rest = replace(pieces, first=between.astype(pieces.first.dtype), last=until.astype(pieces.first.dtype))
    return _choose(rest, some), np.minimum(upper[some], farthest.astype(upper.dtype))


def _every_pixel(pieces: _Pieces, upper: WholeNumbers) -> tuple[_Pieces, WholeNumbers]:
    """Cut each piece into its single pixels; each pixel keeps the upper bound of its piece."""
    number = (pieces.last - pieces.first).astype(np.int64) + 1
    of_piece = np.repeat(np.arange(len(number)), number)
    column = (expand(np.zeros_like(number), number) + pieces.first[of_piece]).astype(pieces.first.dtype)
    return replace(_choose(pieces, of_piece), first=column, last=column), upper[of_piece]
