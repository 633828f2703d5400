"""The matching rules: which prediction found which reference nucleus."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances.boundary import RunsByInstance, boundaries_of_runs, choose_runs, runs_by_instance
from nuclei_metrics.matching.table import Candidates, as_fraction, candidate_pairs, has_rival, matches_of
from nuclei_metrics.metrics.counts import best_rows
from nuclei_metrics.metrics.surfaces import surface_measures
from nuclei_metrics.model import (
    Bool,
    BorderRule,
    Boundaries,
    Float64,
    Instances,
    Int16,
    Int32,
    Int64,
    Matches,
    OverlapTable,
)
from nuclei_metrics.model.annotations import connect
from nuclei_metrics.model.arrays import Integers, blocks

# --- pairs taken one after the other ----------------------------------------------------------------------------------


def take_in_order(left: Integers, right: Integers, keys: Sequence[npt.NDArray[Any]]) -> Bool:
    """Return which pairs are taken, bool (P,), if they are gone through in the order of ``keys``.

    left, right  the two instances of each pair, integers from 0 on, (P,)
    keys         as for ``np.lexsort``: the last one counts first; together they leave no two pairs equal

    Pairs without a rival are taken all at once, the others one by one.

    >>> left, right = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
    >>> take_in_order(left, right, [np.array([3, 1, 2, 4])]).tolist()
    [False, True, False, True]
    """
    contested = has_rival(left, right)
    taken = ~contested
    rivals = np.flatnonzero(contested)
    if len(rivals) == 0:
        return taken
    rivals = rivals[np.lexsort([key[rivals] for key in keys])]
    free_left = bytearray(b"\1") * (int(left[rivals].max()) + 1)
    free_right = bytearray(b"\1") * (int(right[rivals].max()) + 1)
    chosen = []
    for pair, i, j in zip(rivals.tolist(), left[rivals].tolist(), right[rivals].tolist(), strict=True):
        if free_left[i] and free_right[j]:
            free_left[i] = free_right[j] = 0
            chosen.append(pair)
    taken[chosen] = True
    return taken


# --- IoU above a threshold --------------------------------------------------------------------------------------------


def match_iou_above(
    table: OverlapTable,
    reference: Instances,
    prediction: Instances,
    *,
    threshold: float,
    class_aware: bool,
    strict: bool = True,
) -> Matches:
    """Pairs with IoU > ``threshold``, compared in integers: exactly at the threshold is no match if ``strict``.

    From 1/2 on a pair is unique among instances that do not overlap on their own side (Kirillov et al., CVPR 2019).
    Wherever candidates compete (a lower threshold, or overlapping instances), an optimal assignment of the competing
    ones is taken: the most pairs, and among those the greatest sum of IoU. Of several optimal ones it is the same for
    any labels and order, since instances are compared in the order of their positions (``best_assignment``).
    ``threshold`` lies in 0 <= t < 1 and has at most six decimals; more are rounded.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> reference = instances_from_labels(np.array([[1, 1, 2, 2, 2]]))
    >>> prediction = instances_from_labels(np.array([[7, 0, 9, 9, 0]]))
    >>> table = overlap_table(reference, prediction)
    >>> match_iou_above(table, reference, prediction, threshold=0.5, class_aware=False).reference_index.tolist()
    [1]
    """
    return match_iou_above_many(table, reference, prediction, [threshold], class_aware=class_aware, strict=strict)[0]


def match_iou_above_many(
    table: OverlapTable,
    reference: Instances,
    prediction: Instances,
    thresholds: Sequence[float],
    *,
    class_aware: bool,
    strict: bool = True,
) -> list[Matches]:
    """``match_iou_above`` at each threshold, in their order.

    A pair without a rival at the lowest threshold has none at any other: candidates are looked for once.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 2, 2, 2], [7, 0, 9, 9, 0])]
    >>> found = match_iou_above_many(overlap_table(*sides), *sides, [0.5, 0.7], class_aware=False)
    >>> [len(matches) for matches in found]
    [1, 0]
    """

    def settle(rivals: Candidates, left: Int64, right: Int64) -> Bool:
        return best_assignment(left, right, rivals.iou(), most_pairs=True)

    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    reach = Candidates.above if strict else Candidates.at_least
    return _match_at_each(thresholds, pairs, reach, reference, prediction, settle)


def _match_at_each(
    thresholds: Sequence[float],
    pairs: Candidates,
    reach: Callable[[Candidates, Fraction], Bool],
    reference: Instances,
    prediction: Instances,
    settle: Callable[[Candidates, Int64, Int64], Bool],
) -> list[Matches]:
    """The matches at each threshold: pairs that reach it and have no rival, and those of the rivals that are chosen.

    reach    which pairs reach a threshold, bool (P,)
    settle   which of the pairs with rivals are matches, from the ranks of their two instances, bool (P,)
    """
    if not thresholds:
        return []
    limits = [as_fraction(threshold) for threshold in thresholds]
    pairs = pairs.part(reach(pairs, min(limits)))
    contested = np.flatnonzero(has_rival(pairs.reference_index, pairs.prediction_index))
    if len(contested) == 0:
        return [pairs.matches(reach(pairs, limit)) for limit in limits]
    left = reference.position_rank()[pairs.reference_index]
    right = prediction.position_rank()[pairs.prediction_index]
    matches = []
    for limit in limits:
        is_match = reach(pairs, limit)
        rivals = contested[is_match[contested]]
        is_match[rivals] = settle(pairs.part(rivals), left[rivals], right[rivals])
        matches.append(pairs.matches(is_match))
    return matches


def match_iou_assignment(
    table: OverlapTable, reference: Instances, prediction: Instances, *, threshold: float, class_aware: bool
) -> Matches:
    """The optimal assignment of pairs with IoU > ``threshold``: the greatest total IoU, however many pairs that takes.

    ``iou_above`` takes the most pairs first; this rule leaves a nucleus alone if that lets the others overlap better.
    The two agree wherever no candidates compete, so from 1/2 on among instances that do not overlap on their own side.
    IoU is compared with the threshold in integers. Of several optimal assignments it is the same for any labels and
    order, since instances are compared in the order of their positions (``best_assignment``).
    ``threshold`` lies in 0 <= t < 1 and has at most six decimals; more are rounded. Kuhn, Naval Research Logistics
    Quarterly 2, 1955.

    >>> import numpy as np
    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> reference = instances_from_labels(np.array([[1, 1, 1, 1, 2, 2]]))
    >>> prediction = instances_from_labels(np.array([[5, 7, 7, 7, 7, 0]]))
    >>> table = overlap_table(reference, prediction)
    >>> matches = match_iou_assignment(table, reference, prediction, threshold=0, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()  # 3/5 is more than 1/4 + 1/5
    ([0], [1])
    """
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    pairs = pairs.part(pairs.above(as_fraction(threshold)))
    left = reference.position_rank()[pairs.reference_index]
    right = prediction.position_rank()[pairs.prediction_index]
    return pairs.matches(best_assignment(left, right, pairs.iou(), most_pairs=False))


# --- the best IoU of each reference nucleus ---------------------------------------------------------------------------


def _best_of_each_reference(pairs: Candidates, prediction: Instances) -> Int64:
    """For each reference the pair with the highest IoU; of equal ones the prediction that comes first."""
    return best_rows(pairs.reference_index, pairs.prediction_index, pairs.iou(), prediction.position_rank())


def _best_of_each_prediction(pairs: Candidates, chosen: Int64, reference: Instances) -> Int64:
    """Of the chosen pairs, for each prediction the one with the highest IoU; of equal ones the first reference."""
    columns = pairs.prediction_index[chosen], pairs.reference_index[chosen], pairs.iou()[chosen]
    return np.sort(chosen[best_rows(*columns, reference.position_rank())])


def match_best_iou_any_overlap(
    table: OverlapTable, reference: Instances, prediction: Instances, *, class_aware: bool
) -> Matches:
    """Each reference takes the prediction with the highest IoU; one shared pixel is enough.

    A prediction may be taken by several references; the one with the highest IoU keeps it, the others stay unmatched:
    they do not look for a second choice. Ties: the instance that comes first. Foucart, Debeir, Decaestecker, "Panoptic
    quality should be avoided as a metric …", Scientific Reports 13, 2023: "the loosest possible sense, i.e. as any
    overlapping pair of annotated objects", with the largest IoU if there are several.

    >>> import numpy as np
    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 1, 2, 2, 2], [0, 0, 7, 7, 7, 9])]
    >>> matches = match_best_iou_any_overlap(overlap_table(*sides), *sides, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([1], [0])
    """
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    best = _best_of_each_reference(pairs, prediction)
    return pairs.matches(_best_of_each_prediction(pairs, best, reference))


def match_best_iou_centroid_inside(
    table: OverlapTable, reference: Instances, prediction: Instances, *, class_aware: bool
) -> Matches:
    """Each reference takes the prediction with the highest IoU; it matches if the prediction's centroid lies inside.

    "Inside": the pixel of the centroid (``Instances.centroid_pixels_yx``) belongs to the reference. If
    reference instances overlap, a prediction may be accepted by several; the one with the highest IoU keeps it, the
    others stay unmatched. Ties: the instance that comes first.
    Foucart, Debeir, Decaestecker, "lessons from MoNuSAC 2020", section 3.2.1.
    """
    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    best = _best_of_each_reference(pairs, prediction)
    inside = centroid_inside(reference, prediction, pairs.reference_index[best], pairs.prediction_index[best])
    return pairs.matches(_best_of_each_prediction(pairs, best[inside], reference))


def centroid_inside(
    reference: Instances, prediction: Instances, reference_index: Int32, prediction_index: Int32
) -> Bool:
    """Return for each pair whether the pixel of the prediction's centroid belongs to the reference instance."""
    height, width = reference.shape_yx
    span = height * width + 1
    y, x = prediction.centroid_pixels_yx()[prediction_index].T
    wanted = reference_index.astype(np.int64) * span + y * width + x
    order = reference.runs_by_instance()
    base: Int64 = reference.run_instance[order] * np.int64(span)
    start, stop = base + reference.run_start[order], base + reference.run_stop[order]
    run = np.searchsorted(start, wanted, side="right") - 1
    return np.asarray((run >= 0) & (wanted < stop[np.maximum(run, 0)]))


# --- distance of centroids --------------------------------------------------------------------------------------------


def match_centroid_closest_first(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    table: OverlapTable | None = None,
    places: tuple[Float64, Float64] | None = None,
) -> Matches:
    """Of all pairs with a distance of at most ``radius_px`` the closest one matches; both leave; and so on.

    The distance is that of the centroids, or of the points. Pairs that are equally far apart: the one whose reference
    comes first, then the one whose prediction does, points in the order of y, x and class, others in that of their
    first pixels. ``table`` is the overlap table, if there is one already; points need none. ``places``: y, x and the
    number of its image of each instance, float64 (N, 3) and (M, 3), if several images lie below each other.
    Raises ValueError if the radius is negative or not finite.

    >>> import numpy as np
    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> reference = instances_from_labels(np.array([[1, 0, 0, 2, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7, 0, 0, 9]]))
    >>> matches = match_centroid_closest_first(reference, prediction, radius_px=2, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([1], [0])
    """
    pairs = close_centroids(reference, prediction, radius_px=radius_px, class_aware=class_aware, places=places)
    taken = take_in_order(pairs.reference, pairs.prediction, [pairs.prediction, pairs.reference, pairs.closeness])
    return pairs.matches(taken, reference, prediction, table)


# Nuclei of a class in a table of all against all: the smaller side squared times the larger take 12 s at worst. Each
# side has a limit of its own, so that what one side may have says nothing about the other.
MOST_OF_REFERENCE, MOST_OF_PREDICTION = 2_000, 5_000

Cutoff = Literal["before", "after"]


def in_order(placed: _Placed) -> _Placed:
    """Put the instances back into the order of their file."""
    order = np.argsort(placed.index)
    return _Placed(placed.index[order], placed.class_id[order], placed.at[order])


def match_centroid_assignment(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    cutoff: Cutoff = "before",
    table: OverlapTable | None = None,
) -> Matches:
    """The optimal assignment of pairs with a distance of at most ``radius_px``.

    The distance is that of the centroids, or of the points.

    cutoff   "before": pairs beyond the radius are no candidates; of the others the most pairs are taken, then the least
             total distance. "after": as many pairs as the smaller side has nuclei, whatever their distance, with the
             least total distance; then those beyond the radius are dropped, as in HoVer-Net (Graham et al., Medical
             Image Analysis 58, 2019)
    table    the overlap table, if there is one already; points need none

    Of several optimal assignments it is the same for any order and ids of the instances, since these are compared in
    the order of their positions. "after" holds a table of all pairs, of each class if ``class_aware``.
    Raises ValueError if the radius is negative or not finite, and ``TooManyPairs`` for more nuclei in a table than
    ``MOST_OF_REFERENCE`` or ``MOST_OF_PREDICTION``, or, without a table, more than ``MOST_NEIGHBOURS``.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> reference = instances_from_labels(np.array([[1, 0, 0, 2, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7, 0, 0, 9]]))
    >>> matches = match_centroid_assignment(reference, prediction, radius_px=2, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0, 1], [0, 1])

    Each nucleus of the reference has a prediction 2 px away, 4 px in total. If 2 takes 7, which is where it is, 1 and 9
    are left with 2.83 px: less in total, and beyond the radius.

    >>> reference = instances_from_labels(np.array([[1, 0, 2], [0, 0, 0], [0, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7], [0, 0, 0], [0, 0, 9]]))
    >>> for cutoff in ("before", "after"):
    ...     matches = match_centroid_assignment(
    ...         reference, prediction, radius_px=2, class_aware=False, cutoff=cutoff
    ...     )
    ...     matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0, 1], [0, 1])
    ([1], [0])
    """
    if cutoff == "after":
        _check_radius(radius_px)
        pairs = _assign_all(reference, prediction, class_aware=class_aware)
        is_match = pairs.closeness <= _squared_limit(radius_px)
    else:
        pairs = close_centroids(
            reference, prediction, radius_px=radius_px, class_aware=class_aware, most_neighbours=MOST_NEIGHBOURS
        )
        is_match = best_assignment(pairs.reference, pairs.prediction, -np.sqrt(pairs.closeness), most_pairs=True)
    return pairs.matches(is_match, reference, prediction, table)


def _assign_all(reference: Instances, prediction: Instances, *, class_aware: bool) -> _ClosePairs:
    """As many pairs as the smaller side has nuclei, of each class if ``class_aware``, with the least total distance."""
    left, right = sides = centroid_places(reference), centroid_places(prediction)
    parts = [(np.arange(len(left.index)), np.arange(len(right.index)))]
    if class_aware:
        classes = np.intersect1d(left.class_id, right.class_id).tolist()
        parts = [(np.flatnonzero(left.class_id == c), np.flatnonzero(right.class_id == c)) for c in classes]
    limits = (MOST_OF_REFERENCE, True), (MOST_OF_PREDICTION, False)
    for side, (most, by_reference) in zip(sides, limits, strict=True):
        groups = np.unique(side.class_id, return_counts=True)[1] if class_aware else [len(side.index)]
        if (largest := int(max(groups, default=0))) > most:
            what = f"nuclei{' of a class' if class_aware else ''} in an assignment of all to all"
            raise TooManyPairs(what, largest, most, by_reference=by_reference)
    assigned = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for one, other in parts:
        row, column = _least_total(left.at[one], right.at[other])
        assigned.append((one[row], other[column]))
    i, j = (np.concatenate(column) for column in zip(*assigned, strict=True))
    return _ClosePairs(i, j, _squared_distances(left.at[i], right.at[j]), sides)


def _least_total(left_at: Float64, right_at: Float64) -> tuple[Int64, Int64]:
    """The assignment of points (K, 2) that uses up the smaller side with the least total distance.

    The smaller side gives the rows: scipy then solves the table where it lies, and no tie hangs on the names of the
    sides unless they are equally large.
    """
    if len(left_at) > len(right_at):
        column, row = _least_total(right_at, left_at)
        return row, column
    distance = _without_rounding(scipy.spatial.distance.cdist(left_at, right_at))
    row, column = scipy.optimize.linear_sum_assignment(distance)
    return row, column


# --- Hausdorff distance -----------------------------------------------------------------------------------------------


BOUNDARIES_AT_ONCE = 2048  # pairs, or instances, whose boundaries are held together


def match_hausdorff_closest_first(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    border: BorderRule,
    table: OverlapTable | None = None,
) -> Matches:
    """Of all pairs with a Hausdorff distance of at most ``radius_px`` the closest one matches; both leave; and so on.

    border  whether the border of the image is part of a boundary, see ``boundaries_of_runs``
    table   the overlap table, if there is one already

    The sides of the boxes of two sets of pixels are no farther apart than the sets, so only pairs are measured whose
    boxes agree within the radius on each of their four sides. Pairs that are equally far apart: the one whose reference
    comes first by its position, then the one whose prediction does. Foucart, Debeir, Decaestecker, Scientific Reports
    13, 2023 (minimum Hausdorff distance, in the order of closeness).
    Raises ValueError if the radius is negative or not finite, or if a side is points.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 0, 0, 2, 2], [0, 7, 7, 7, 0, 0])]
    >>> matches = match_hausdorff_closest_first(*sides, radius_px=2, class_aware=False, border="open")
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0], [0])
    """
    if reference.point_yx is not None or prediction.point_yx is not None:
        raise ValueError("points have no boundary")
    runs = runs_by_instance(reference), runs_by_instance(prediction)
    left = _place_instances(reference, _boxes_of(runs[0], border))
    right = _place_instances(prediction, _boxes_of(runs[1], border))

    def distances(i: Int64, j: Int64) -> Float64:
        return _distances_of(*runs, left.index[i].astype(np.int32), right.index[j].astype(np.int32), border)

    limit = radius_px * RADIUS_ROUNDING
    pairs = _close_pairs((left, right), radius_px, distances, norm=np.inf, limit=limit, class_aware=class_aware)
    taken = take_in_order(pairs.reference, pairs.prediction, [pairs.prediction, pairs.reference, pairs.closeness])
    return pairs.matches(taken, reference, prediction, table)


def boundary_boxes(boundaries: Boundaries) -> Int32:
    """First and last row and column of each boundary, int32 (K, 4) as y, x, y, x; -1 for an empty one.

    >>> boundaries = Boundaries(np.array([[0, 0, 5], [1, 2, 7]], np.int32), np.array([0, 2]), np.array([2, 1]))
    >>> boundary_boxes(boundaries).tolist()
    [[0, 1, 0, 2], [5, 7, 5, 7]]
    """
    boxes = np.full((len(boundaries.size), 4), -1, np.int32)
    some = np.flatnonzero(boundaries.size)
    if len(some):
        starts, index = np.unique(boundaries.first[some], return_inverse=True)
        ends = [extreme.reduceat(boundaries.points_yx, starts, axis=1) for extreme in (np.minimum, np.maximum)]
        boxes[some] = np.concatenate(ends).T[index]
    return boxes


def _boxes_of(runs: RunsByInstance, border: BorderRule) -> Int32:
    """``boundary_boxes`` of all instances; only some boundaries are in memory at a time."""
    indices = np.arange(len(runs.bound) - 1)
    parts = [
        boundary_boxes(boundaries_of_runs(choose_runs(runs, indices[block]), border=border))
        for block in blocks(len(indices), BOUNDARIES_AT_ONCE)
    ]
    return np.concatenate([np.empty((0, 4), np.int32), *parts])


def _distances_of(
    left: RunsByInstance, right: RunsByInstance, reference_index: Int32, prediction_index: Int32, border: BorderRule
) -> Float64:
    """Hausdorff distances of pairs, px; only some boundaries are in memory at a time."""
    parts = [
        surface_measures(
            boundaries_of_runs(choose_runs(left, reference_index[block]), border=border),
            boundaries_of_runs(choose_runs(right, prediction_index[block]), border=border),
        ).hausdorff_px
        for block in blocks(len(reference_index), BOUNDARIES_AT_ONCE)
    ]
    return np.concatenate([np.empty(0), *parts])


# --- the most probable prediction first -------------------------------------------------------------------------------


def match_confidence_first(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    table: OverlapTable | None = None,
) -> Matches:
    """In order of falling probability each prediction takes the nearest free reference within ``radius_px``.

    The distance is that of the centroids, or of the points; exactly the radius is near enough. Equally probable
    predictions (all of them, if there are no probabilities) choose in the order of their positions; of references that
    are equally near the one that comes first is taken. ``table`` is the overlap table, if there is one already; points
    need none. Raises ValueError if the radius is negative or not finite, and ``TooManyPairs`` for crowds
    (``refuse_crowds``).

    This is how detections are matched for a precision-recall curve or FROC. The published codes of three challenges
    go through the *references*, in the order of their file, so their results depend on that order:

    - MIDOG (``evalutils.score_detection``): each takes the nearest free prediction; probabilities decide nothing.
    - MONKEY: each asks for its nearest prediction only, nearer than the radius; if that is taken, it is missed.
    - PUMA: each takes the most probable free prediction of its class nearer than 15 px, of equal ones the nearest.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> reference = instances_from_labels(np.array([[1, 0, 0, 2, 0, 0]]))
    >>> prediction = instances_from_labels(np.array([[0, 0, 7, 0, 9, 0]]))
    >>> matches = match_confidence_first(reference, prediction, radius_px=2, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([1], [0])
    """
    _check_radius(radius_px)
    left, right = centroid_places(reference), centroid_places(prediction)
    chooser = np.argsort(-_confidences(prediction)[right.index], kind="stable")
    free = np.arange(len(left.index))
    reach = radius_px * SEARCH_MARGIN
    refuse_crowds([left.at, right.at], reach)
    count = scipy.spatial.cKDTree(left.at).query_ball_point(right.at[chooser], reach, return_length=True)
    matched: list[tuple[Int64, Int64]] = [(free[:0], chooser[:0])]
    for part in batches_of_pairs(count):
        who = chooser[part]
        trees = scipy.spatial.cKDTree(left.at[free]), scipy.spatial.cKDTree(right.at[who])
        near = trees[0].sparse_distance_matrix(trees[1], reach, output_type="ndarray")
        i, j = near["i"], near["j"]
        squared = _squared_distances(left.at[free[i]], right.at[who[j]])
        is_close = squared <= _squared_limit(radius_px)
        if class_aware:
            is_close &= left.class_id[free[i]] == right.class_id[who[j]]
        i, j, squared = i[is_close], j[is_close], _without_rounding(squared[is_close])
        taken = take_in_order(i, j, [i, squared, j])
        matched.append((free[i[taken]], who[j[taken]]))
        free = np.delete(free, i[taken])
    i, j = (np.concatenate(column) for column in zip(*matched, strict=True))
    return matches_of(left.index[i], right.index[j], reference, prediction, table)


def match_confidence_first_iou(
    table: OverlapTable, reference: Instances, prediction: Instances, *, threshold: float, class_aware: bool
) -> Matches:
    """In order of falling probability each prediction takes the free reference with the highest IoU >= ``threshold``.

    As ``pycocotools`` matches masks for the average precision, but for ties: equally probable predictions (all of them,
    if there are no probabilities) choose in the order of their positions, where pycocotools keeps the order of the
    file; of references with equal IoU the one that comes first is taken, there the last one of the file. IoU is
    compared with the threshold in integers. ``threshold`` lies in 0 < t <= 1 and has at most six decimals; more are
    rounded. Everingham et al., IJCV 88, 2010; Lin et al., ECCV 2014.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 2, 2], [7, 7, 7, 9])]
    >>> matches = match_confidence_first_iou(overlap_table(*sides), *sides, threshold=0.5, class_aware=False)
    >>> matches.reference_index.tolist(), matches.prediction_index.tolist()
    ([0, 1], [0, 1])
    """
    return match_confidence_first_iou_many(table, reference, prediction, [threshold], class_aware=class_aware)[0]


def match_confidence_first_iou_many(
    table: OverlapTable, reference: Instances, prediction: Instances, thresholds: Sequence[float], *, class_aware: bool
) -> list[Matches]:
    """``match_confidence_first_iou`` at each threshold, in their order.

    A pair without a rival at the lowest threshold has none at any other: candidates are looked for once.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> from nuclei_metrics.matching.table import overlap_table
    >>> sides = [instances_from_labels(np.array([row])) for row in ([1, 1, 2, 2], [7, 7, 7, 9])]
    >>> found = match_confidence_first_iou_many(overlap_table(*sides), *sides, [0.5, 0.6], class_aware=False)
    >>> [len(matches) for matches in found]
    [2, 1]
    """

    def settle(rivals: Candidates, left: Int64, right: Int64) -> Bool:
        confidence = _confidences(prediction)[rivals.prediction_index]
        return take_in_order(left, right, [left, -rivals.iou(), right, -confidence])

    pairs = candidate_pairs(table, reference, prediction, class_aware=class_aware)
    return _match_at_each(thresholds, pairs, Candidates.at_least, reference, prediction, settle)


def _confidences(prediction: Instances) -> Float64:
    """The probability of each prediction; all equal if there are none."""
    if prediction.probability is None:
        return np.zeros(len(prediction))
    return prediction.probability.astype(np.float64)


# --- pairs that are close to each other -------------------------------------------------------------------------------


CLOSE_PAIRS_AT_ONCE = 1 << 21  # pairs that are held before those that cannot match are left out
RADIUS_ROUNDING = 1 + 1e-9  # exactly the radius is near enough, though coordinates and radii in px are rounded numbers
MOST_CLOSE = 100_000_000  # pairs of a side in a cell as large as the radius; a slide of a million nuclei has a million
BINS = 1 << 22  # of cells
MOST_NEIGHBOURS = 2_700  # of a reference nucleus within twice the radius, for an optimal assignment: 12 s at worst
SEARCH_MARGIN = 1 + 3e-9  # of the search, whose rounding is not ours; every pair it finds is compared again

Closeness = Callable[[Int64, Int64], Float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """The instances of one side that have coordinates, in ``position_order``.

    index     int64 (K,), the instance at each rank of the order; ranks decide ties
    class_id  int16 (K,)
    at        float64 (K, D), coordinates by which close ones are found
    """

    index: Int64
    class_id: Int16
    at: Float64


@dataclass(frozen=True, slots=True, eq=False)
class _ClosePairs:
    """Pairs within a radius, (P,); an instance is given by its rank in the sorted instances of its side.

    reference, prediction  int64 (P,), ranks: they decide ties
    closeness              float64 (P,), by which pairs are compared: smaller is closer
    sides                  the two orders
    """

    reference: Int64
    prediction: Int64
    closeness: Float64
    sides: tuple[_Placed, _Placed]

    def matches(self, chosen: Bool, reference: Instances, prediction: Instances, table: OverlapTable | None) -> Matches:
        """The chosen pairs as matches."""
        left = self.sides[0].index[self.reference[chosen]]
        right = self.sides[1].index[self.prediction[chosen]]
        return matches_of(left, right, reference, prediction, table)


def _place_instances(instances: Instances, at: npt.NDArray[Any]) -> _Placed:
    """The instances that are points or have pixels, each at its row of ``at``."""
    order = instances.position_order()
    if instances.point_yx is None:
        order = order[instances.areas_px()[order] > 0]
    return _Placed(order, instances.class_id[order], np.ascontiguousarray(at[order], np.float64))


def close_centroids(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    most_neighbours: int | None = None,
    places: tuple[Float64, Float64] | None = None,
) -> _ClosePairs:
    """All pairs with a distance of centroids of at most ``radius_px`` that could match; their squares are compared.

    Up to a billionth of the radius beyond it counts as exactly the radius: a centroid, a point and a radius in px are
    rounded numbers, and where in the image a nucleus lies must not decide.
    """
    if places is None:
        sides = centroid_places(reference), centroid_places(prediction)
    else:  # images are farther apart than nuclei are looked for
        apart = [1, 1, 4 * radius_px + 1]
        sides = _place_instances(reference, places[0] * apart), _place_instances(prediction, places[1] * apart)

    def closeness(i: Int64, j: Int64) -> Float64:
        return _squared_distances(sides[0].at[i], sides[1].at[j])

    limit = _squared_limit(radius_px)
    return _close_pairs(
        sides, radius_px, closeness, norm=2, limit=limit, class_aware=class_aware, most_neighbours=most_neighbours
    )


def centroid_places(instances: Instances) -> _Placed:
    return _place_instances(instances, instances.centroids_yx())


def _squared_distances(a: Float64, b: Float64) -> Float64:
    return np.asarray(((a - b) ** 2).sum(axis=1))


def _close_pairs(
    sides: tuple[_Placed, _Placed],
    radius_px: float,
    closeness: Closeness,
    *,
    norm: float,
    limit: float,
    class_aware: bool,
    most_neighbours: int | None = None,
) -> _ClosePairs:
    """All pairs with a closeness of at most ``limit`` that could match if the closest, or the most, are to be taken.

    Pairs are sought among those with ``at`` at most ``radius_px`` apart in the Minkowski norm ``norm``.

    A reference that shares predictions with k - 1 others never needs more than its k closest ones: whatever the others
    take, one of these is left for it. So the pairs that are kept are bounded by the references and their density,
    whatever the predictions are; at most about ``CLOSE_PAIRS_AT_ONCE``, or those of one reference, are held besides.
    Raises ValueError if the radius is negative or not finite, and ``TooManyPairs`` for crowds (``refuse_crowds``), or
    for a reference with more than ``most_neighbours`` others within twice the radius.
    """
    _check_radius(radius_px)
    left, right = sides
    reach = radius_px * SEARCH_MARGIN
    refuse_crowds([left.at, right.at], reach)
    tree = scipy.spatial.cKDTree(right.at)
    count = tree.query_ball_point(left.at, reach, p=norm, return_length=True)
    twice = 2 * reach * SEARCH_MARGIN
    enough = scipy.spatial.cKDTree(left.at).query_ball_point(left.at, twice, p=norm, return_length=True)
    if most_neighbours is not None and (largest := int(enough.max(initial=0))) > most_neighbours:
        raise TooManyPairs("nuclei within twice the radius of one", largest, most_neighbours, by_reference=True)
    parts: list[tuple[Int64, Int64, Float64]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for part in batches_of_pairs(count):
        near = scipy.spatial.cKDTree(left.at[part]).sparse_distance_matrix(tree, reach, p=norm, output_type="ndarray")
        i, j = near["i"] + part.start, near["j"]
        if class_aware:
            same = left.class_id[i] == right.class_id[j]
            i, j = i[same], j[same]
        value = closeness(i, j)
        is_close = value <= limit
        i, j, value = i[is_close], j[is_close], _without_rounding(value[is_close])
        if np.any(count[part] > enough[part]):
            nearest = nearest_of_each(i, j, value, enough)
            i, j, value = i[nearest], j[nearest], value[nearest]
        parts.append((i, j, value))
    i, j, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _ClosePairs(i, j, value, sides)


def may_be_refused(predictions: int) -> bool:
    """Return whether a rule may raise ``TooManyPairs`` because of so many predictions; never for fewer."""
    return predictions > min(MOST_OF_PREDICTION, math.isqrt(MOST_CLOSE))


def refuse_crowds(sides: Sequence[Float64], reach: float) -> None:
    """Raise ``TooManyPairs`` if the nuclei of a side, the reference or the prediction, lie too close to each other.

    sides  coordinates of both, float64 (K, D)

    Counted are the pairs of a side in the same cell of a grid of the size of the radius. Neither side decides about the
    other; where both are bounded, so are the pairs of one with the other, at 9 times as many (81 times for boxes).
    """
    for at, by_reference in zip(sides, (True, False), strict=True):
        if len(at) ** 2 > MOST_CLOSE and (pairs := _pairs_in_cells(at, reach)) > MOST_CLOSE:
            what = "pairs of nuclei of a side within the radius"
            raise TooManyPairs(what, pairs, MOST_CLOSE, by_reference=by_reference)


def _pairs_in_cells(at: Float64, reach: float) -> int:
    """The pairs of points in the same cell, each with itself too; a few more, since some cells share a bin."""
    cells = np.floor(at / reach) if reach else at
    mixed = np.zeros(len(at))
    for axis, prime in enumerate((2, 3, 5, 7)[: at.shape[1]]):
        mixed += cells[:, axis] * np.sqrt(prime)
    bins = (np.mod(mixed, 1.0) * BINS).astype(np.int64)
    return int((np.bincount(bins).astype(np.int64) ** 2).sum())


def _without_rounding(closeness: Float64) -> Float64:
    """Closeness to six decimals, in place: the last bit of a centroid must not decide which nucleus is nearer.

    >>> _without_rounding(np.array([(2 / 3 - 1) ** 2, (4 / 3 - 1) ** 2])).tolist()
    [0.111111, 0.111111]
    """
    return np.round(closeness, 6, out=closeness)


def _squared_limit(radius_px: float) -> float:
    """The largest squared distance within a radius."""
    return (radius_px * RADIUS_ROUNDING) ** 2


def _check_radius(radius_px: float) -> None:
    if not 0 <= radius_px < np.inf:
        raise ValueError(f"a radius of {radius_px} px; a finite number from 0 on")


def batches_of_pairs(count: Int64) -> Iterator[slice]:
    """Slices of instances that are worked on together, so that a slice has a bounded number of pairs."""
    total = np.cumsum(count)
    first = 0
    while first < len(count):
        before = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, before + CLOSE_PAIRS_AT_ONCE, side="right")))
        yield slice(first, last)
        first = last


def nearest_of_each(i: Int64, j: Int64, value: Float64, enough: Int64) -> Bool:
    """Which pairs are among the first ``enough[i]`` of their reference, by closeness, then by rank, bool (P,)."""
    order = np.lexsort((j, value, i))
    owner = i[order]
    nearest = np.empty(len(i), np.bool_)
    nearest[order] = np.arange(len(i)) - np.searchsorted(owner, owner) < enough[owner]
    return nearest


# --- the optimal assignment -------------------------------------------------------------------------------------------


# The optimal assignment of pairs that compete, without a table of all instances against all.


SUM_ROUNDING = 1e-9  # of sums of values
FEW_PAIRS = 10  # of a group, whose assignments are tried one by one: scipy.optimize is slow to import
DENSE_ENTRIES = 1 << 14  # groups with a larger table of all pairs are solved without it,
DENSE_SHARE = 4  # unless the table is at most this many times what the pairs themselves take


def best_assignment(left: Int64, right: Int64, value: Float64, *, most_pairs: bool) -> Bool:
    """Which pairs to keep, bool (P,), each instance in one at the most, so that their total value is the greatest.

    left, right  the two instances of each pair as ranks of position, (P,); no pair twice
    value        of each pair, finite; without ``most_pairs`` above 0
    most_pairs   the most pairs first, whatever their value, and among those the greatest total

    Pairs without a rival are kept, and so are, without ``most_pairs``, those that are worth more than all of their
    rivals together. The others are solved group by group of those that compete, directly or through others, so what
    lies elsewhere in an image decides nothing. If all pairs of a group share an instance, the one with
    the greatest value is kept, of several the one that comes first by left, then right. In other groups with several
    optimal assignments one of them is chosen; the choice depends on the order of ranks only. Memory is proportional to
    the pairs.

    >>> left, right = np.array([0, 0, 1]), np.array([0, 1, 0])
    >>> best_assignment(left, right, np.array([0.9, 0.2, 0.3]), most_pairs=False).tolist()
    [True, False, False]
    >>> best_assignment(left, right, np.array([0.9, 0.2, 0.3]), most_pairs=True).tolist()
    [False, True, True]
    """
    chosen = np.zeros(len(left), np.bool_) if most_pairs else _outweighs_rivals(left, right, value)
    rest = np.flatnonzero(~(np.isin(left, left[chosen]) | np.isin(right, right[chosen])))
    contested = has_rival(left[rest], right[rest])
    chosen[rest[~contested]] = True
    pairs = rest[contested]
    if len(pairs) == 0:
        return chosen
    groups = _find_groups(left[pairs], right[pairs])
    order = np.lexsort((right[pairs], left[pairs], -value[pairs], groups.of_pair))
    best = order[np.append(True, np.diff(groups.of_pair[order]) > 0)]
    chosen[pairs[best[groups.is_star[groups.of_pair[best]]]]] = True

    order = np.lexsort((right[pairs], left[pairs], groups.of_pair))
    order = order[~groups.is_star[groups.of_pair[order]]]
    bounds = np.flatnonzero(np.diff(groups.of_pair[order], prepend=-1, append=len(groups.is_star)))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        members = order[first:last]
        i, j = groups.left[members], groups.right[members]
        gain = value[pairs[members]]
        if most_pairs:
            # Above 0, in the order of the values, and such that the most pairs gain more than any fewer.
            span = float(gain.max() - gain.min()) or 1.0
            gain = gain - gain.min() + span * (min(int(i.max()), int(j.max())) + 2)
        chosen[pairs[members[_solve(i, j, gain)]]] = True
    return chosen


def _outweighs_rivals(left: Int64, right: Int64, value: Float64) -> Bool:
    """Return whether each pair is worth more than all pairs together that share an instance with it, bool (P,).

    Every optimal assignment contains such a pair.

    An assignment without such a pair gains if the pair takes the place of its rivals, two at the most.
    """
    if len(value) == 0:
        return np.zeros(0, np.bool_)
    with_rivals = np.bincount(left, value)[left] + np.bincount(right, value)[right]
    return np.asarray(3 * value > with_rivals * (1 + SUM_ROUNDING))


@dataclass(frozen=True, slots=True, eq=False)
class _CompetingGroups:
    """Pairs that compete with each other, directly or through others.

    of_pair      int64 (P,), the group of each pair
    is_star      bool (G,), whether all pairs of a group share an instance
    left, right  int64 (P,), the instances of each pair, numbered in their group from 0 in the order of rank
    """

    of_pair: Int64
    is_star: Bool
    left: Int64
    right: Int64


def _find_groups(left: Int64, right: Int64) -> _CompetingGroups:
    left, right = (np.unique(side, return_inverse=True)[1] for side in (left, right))
    lefts, rights = int(left.max()) + 1, int(right.max()) + 1
    group = np.unique(connect(left, lefts + right, lefts + rights), return_inverse=True)[1]
    sizes = [np.bincount(side, minlength=int(group.max()) + 1) for side in (group[:lefts], group[lefts:])]
    return _CompetingGroups(
        of_pair=group[left],
        is_star=np.minimum(*sizes) == 1,
        left=_number_inside(group[:lefts], sizes[0])[left],
        right=_number_inside(group[lefts:], sizes[1])[right],
    )


def _number_inside(group: Int64, sizes: Int64) -> Int64:
    """Number the nodes of each group from 0."""
    order = np.argsort(group, kind="stable")
    number = np.empty(len(group), np.int64)
    number[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return number


def _solve(i: Int64, j: Int64, gain: Float64) -> Int64:
    """The pairs of one group with the greatest total gain, int64 (K,); pairs are sorted by i, then j; gains above 0."""
    if len(i) <= FEW_PAIRS and (best := _only_best(i, j, gain)) is not None:
        return best
    rows, columns = int(i.max()) + 1, int(j.max()) + 1
    if rows * columns > max(DENSE_ENTRIES, DENSE_SHARE * len(i)):
        return _solve_sparse(i, j, gain, rows, columns)
    table = np.zeros((rows, columns))
    table[i, j] = gain
    pair = np.full((rows, columns), -1)
    pair[i, j] = np.arange(len(i))
    chosen = pair[scipy.optimize.linear_sum_assignment(table, maximize=True)]
    return np.asarray(chosen[chosen >= 0])


def _only_best(i: Int64, j: Int64, gain: Float64) -> Int64 | None:
    """``_solve`` by trying every assignment; None if another one is as good, but for rounding."""
    pairs = [*zip(i.tolist(), (1 << j).tolist(), gain.tolist(), range(len(i)), strict=True)]
    tried: list[tuple[float, int, list[int]]] = [(0.0, 0, [])]  # total, columns as bits, pairs
    for row in range(int(i.max()) + 1):
        tried += [
            (total + value, taken | column, [*chosen, pair])
            for total, taken, chosen in tried
            for own_row, column, value, pair in pairs
            if own_row == row and not taken & column
        ]
    (second, *_), (most, _, best) = sorted(tried)[-2:]
    return np.array(best) if most - second > SUM_ROUNDING * most else None


def _solve_sparse(i: Int64, j: Int64, gain: Float64, rows: int, columns: int) -> Int64:
    """``_solve`` without a table of all rows against all columns.

    Each row may stay alone, in a column of its own, so that a full matching always exists. Costs are above 0, because
    scipy drops zeros. The fewer rows, the faster.
    """
    if rows > columns:
        turned = np.lexsort((i, j))
        return turned[_solve_sparse(j[turned], i[turned], gain[turned], columns, rows)]
    alone = np.arange(rows)
    most = float(gain.max())
    cost = np.concatenate([most - gain, np.full(rows, most)]) + most
    entries = np.concatenate([i, alone]), np.concatenate([j, columns + alone])
    graph = scipy.sparse.csr_array((cost, entries), shape=(rows, columns + rows))
    row, column = scipy.sparse.csgraph.min_weight_full_bipartite_matching(graph)
    paired = column < columns
    return np.asarray(np.searchsorted(i * columns + j, row[paired] * columns + column[paired]))
