"""The overlap table: which instances share pixels, and how many. Made once a case; all rules and metrics read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances.runs import give_memory_back
from nuclei_metrics.model import Bool, Float64, Instances, Int32, Int64, Matches, OverlapTable, Pairs
from nuclei_metrics.model.annotations import BLOCK_PX
from nuclei_metrics.model.arrays import count_before, expand, overlaps, row_bands

PIECES_AT_ONCE = 1 << 20  # shared rows that are held together; bounds the memory


def overlap_table(reference: Instances, prediction: Instances) -> OverlapTable:
    """The sparse table of all pairs of instances that share at least one pixel, exact, also if instances overlap.

    Cost: proportional to the runs of both sides and their *shared rows*, pairs of runs, one of each side, with a pixel
    in both, plus a sort of these, in bands of rows, one after the other; never a dense reference x prediction table.
    Where no instances of a side overlap each other, there are fewer shared rows than runs; otherwise
    ``refuse_overlaps`` limits them. Raises ValueError if the images differ in shape.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> table = overlap_table(
    ...     instances_from_labels(np.array([[1, 1, 0, 2]])), instances_from_labels(np.array([[0, 5, 5, 5]]))
    ... )
    >>> table.reference_index.tolist(), table.prediction_index.tolist(), table.intersection_px.tolist()
    ([0, 1], [0, 0], [1, 1])
    """
    if reference.shape_yx != prediction.shape_yx:
        raise ValueError(f"reference is {reference.shape_yx} px, prediction {prediction.shape_yx} px (height, width)")
    sums: list[SharedPixels] = []
    held = limit = 0  # pairs in ``sums``; those of several rows are added up before they take much more than their sum
    for pieces in _shared_in_bands(reference, prediction):
        sums.append(_sum_by_pair(*pieces, len(prediction)))
        held += len(sums[-1][0])
        if held > limit:
            sums = [_sum_pieces(sums, len(prediction))]
            held = len(sums[0][0])
            limit = 2 * held + PIECES_AT_ONCE
    table = OverlapTable(
        *(sums[0] if len(sums) == 1 else _sum_pieces(sums, len(prediction))),
        reference_area_px=reference.areas_px(),
        prediction_area_px=prediction.areas_px(),
    )
    sums.clear()
    give_memory_back(len(reference.run_start) + len(prediction.run_start))
    return table


SharedPixels = tuple[Int32, Int32, Int64]  # reference index, prediction index, pixels of both


def _shared_in_bands(reference: Instances, prediction: Instances) -> Iterator[SharedPixels]:
    """The stretches of pixels in a run of both sides, about ``PIECES_AT_ONCE`` at a time, band by band; at least once.

    Of two runs that share pixels one begins inside the other; so those that share pixels with a run are the runs of
    the other side that begin inside it, and those in which it begins. Each are neighbours in the order of their starts.
    """
    for left, right in _bands_of(reference, prediction):
        if left.is_disjoint() and right.is_disjoint():
            a, b, start, stop = overlaps(left.run_start, left.run_stop, right.run_start, right.run_stop)
            yield left.run_instance[a], right.run_instance[b], stop - start
            continue
        for inner, outer, swapped in ((right, left, False), (left, right, True)):
            first, last = _runs_that_begin_inside(inner, outer, ties=not swapped)
            before = np.cumsum(last - first) - (last - first)
            cuts = np.flatnonzero(np.diff(before // PIECES_AT_ONCE)) + 1
            for begin, end in pairwise([0, *cuts.tolist(), len(first)]):
                inside = expand(first[begin:end], last[begin:end])
                around = np.repeat(np.arange(begin, end), last[begin:end] - first[begin:end])
                stop = np.minimum(outer.run_stop[around], inner.run_stop[inside])
                index = outer.run_instance[around], inner.run_instance[inside]
                yield *(index[::-1] if swapped else index), stop - inner.run_start[inside]


def _runs_that_begin_inside(inner: Instances, outer: Instances, *, ties: bool) -> tuple[Int64, Int64]:
    """First and last + 1 of the inner runs that begin inside each outer run; with ``ties`` also where it begins."""
    first = count_before(outer.run_start, inner.run_start, ties_count=not ties)
    if outer.is_disjoint():  # so its stops ascend
        last = count_before(outer.run_stop, inner.run_start, ties_count=False)
    else:
        last = np.searchsorted(inner.run_start, outer.run_stop, "left")
    return first, np.maximum(first, last)


def _bands_of(reference: Instances, prediction: Instances) -> Iterator[tuple[Instances, Instances]]:
    for left, right in row_bands([reference.run_start, prediction.run_start], reference.shape_yx[1]):
        yield reference.part(left), prediction.part(right)


def count_shared_rows(reference: Instances, prediction: Instances) -> int:
    """Return how many pairs of runs share pixels, without looking at each of them."""
    shared = 0
    for left, right in _bands_of(reference, prediction):
        for inner, outer, ties in ((right, left, True), (left, right, False)):
            first, last = _runs_that_begin_inside(inner, outer, ties=ties)
            shared += int((last - first).sum())
    return shared


def refuse_overlaps(instances: Instances, most: int, *, by_reference: bool = False) -> None:
    """Raise ``TooManyPairs`` if the instances of a side lie on each other in far too many rows.

    most  how many *shared rows* there may be beyond twice the runs. A shared row is a pair of runs with a pixel in
          both, each with itself too. Where n instances lie on each other there are n times n for every row.

    They are counted, not looked at. Where both sides are bounded, so is their table; neither decides about the other.
    """
    if instances.is_disjoint():
        return
    shared, limit = count_shared_rows(instances, instances), most + 2 * len(instances.run_start)
    if shared > limit:
        raise TooManyPairs("rows of pixels in two nuclei of a side", shared, limit, by_reference=by_reference)


def _sum_pieces(pieces: Sequence[SharedPixels], predictions: int) -> SharedPixels:
    columns = zip(*pieces, strict=True)
    left, right, length = (np.concatenate(column) for column in columns)
    return _sum_by_pair(left, right, length, predictions)


def _sum_by_pair(reference_index: Int32, prediction_index: Int32, length: Int64, predictions: int) -> SharedPixels:
    """Add up the pieces of each pair; pairs sorted by reference, then prediction."""
    if len(length) == 0:
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    pair, total = _sum_by_key(reference_index.astype(np.int64) * predictions + prediction_index, length)
    reference_of_pair, prediction_of_pair = np.divmod(pair, predictions)
    return reference_of_pair.astype(np.int32), prediction_of_pair.astype(np.int32), total


def _sum_by_key(key: Int64, value: Int64) -> tuple[Int64, Int64]:
    """The distinct keys, sorted, and the sum of the values of each; at least one, none negative.

    Key and value are packed into one int64 where they fit, since sorting values is several times faster than sorting
    indices.
    """
    bits = int(value.max()).bit_length()
    if int(key.max()).bit_length() + bits < 64:
        packed = (key << bits) | value
        packed.sort()
        key, value = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order]
    first = np.flatnonzero(key[1:] != key[:-1]) + 1
    first = np.concatenate([[0], first])
    return key[first], np.add.reduceat(value, first)


# --- pairs of the table: the candidates of the rules that match by overlap --------------------------------------------


FINEST = 1_000_000  # thresholds are fractions with at most this denominator


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Pairs):
    """Pairs that share a pixel and may match, (P,), sorted by reference, then prediction."""

    def iou(self) -> Float64:
        """Equal fractions give equal numbers."""
        return np.asarray(self.intersection_px / self.union_px)

    def above(self, threshold: Fraction) -> Bool:
        """Return which pairs have IoU > ``threshold``, in integers."""
        return np.asarray(self.intersection_px * threshold.denominator > self.union_px * threshold.numerator)

    def at_least(self, threshold: Fraction) -> Bool:
        """Return which pairs have IoU >= ``threshold``, in integers."""
        return np.asarray(self.intersection_px * threshold.denominator >= self.union_px * threshold.numerator)

    def part(self, wanted: npt.NDArray[Any]) -> Candidates:
        """The pairs with these indices, or those whose entry of a bool array is True."""
        return Candidates(*self.columns(wanted))

    def matches(self, chosen: Bool | Int64) -> Matches:
        """Return the pairs with these indices, or where a mask is True, as matches."""
        return Matches(*self.columns(chosen))


def candidate_pairs(
    table: OverlapTable, reference: Instances, prediction: Instances, *, class_aware: bool
) -> Candidates:
    """All pairs of the overlap table, or those of equal class."""
    pairs = Candidates(table.reference_index, table.prediction_index, table.intersection_px, table.union_px())
    if not class_aware:
        return pairs
    return pairs.part(reference.class_id[table.reference_index] == prediction.class_id[table.prediction_index])


@cache
def as_fraction(threshold: float) -> Fraction:
    """The threshold as it is written; more than six decimals are rounded."""
    return Fraction(str(threshold)).limit_denominator(FINEST)


def has_rival(left: npt.NDArray[np.integer[Any]], right: npt.NDArray[np.integer[Any]]) -> Bool:
    """Return whether each pair shares one of its two instances with another pair, bool (P,)."""
    if len(left) == 0:
        return np.zeros(0, np.bool_)
    return np.asarray((np.bincount(left)[left] > 1) | (np.bincount(right)[right] > 1))


def matches_of(
    reference_index: Int64,
    prediction_index: Int64,
    reference: Instances,
    prediction: Instances,
    table: OverlapTable | None,
) -> Matches:
    """Pairs of instances as matches, sorted by reference; with what they share, unless a side is points.

    ``table`` is the overlap table, if there is one already.
    """
    order = np.argsort(reference_index)
    left, right = reference_index[order], prediction_index[order]
    intersection = union = np.zeros(len(left), np.int64)
    if reference.point_yx is None and prediction.point_yx is None:
        table = overlap_table(reference, prediction) if table is None else table
        intersection = _intersections_px(table, left, right)
        union = table.reference_area_px[left] + table.prediction_area_px[right] - intersection
    return Matches(left.astype(np.int32), right.astype(np.int32), intersection, union)


def _intersections_px(table: OverlapTable, reference_index: Int64, prediction_index: Int64) -> Int64:
    """Pixels that each pair shares, int64 (T,); 0 for pairs that are not in the table."""
    span = len(table.prediction_area_px)
    key = table.reference_index.astype(np.int64) * span + table.prediction_index
    wanted = reference_index.astype(np.int64) * span + prediction_index
    index = np.searchsorted(key, wanted)
    known = np.append(key, -1)[index] == wanted
    return np.where(known, np.append(table.intersection_px, 0)[index], 0)


# --- two label maps of one image, in one pass over their pixels -------------------------------------------------------


LabelMap = npt.NDArray[np.integer[Any]]

LABEL_BITS, LENGTH_BITS = 24, 15  # two labels and a length in one int64


@dataclass(frozen=True, slots=True, eq=False)
class _LabelMapPair:
    """Two label maps, compared. Instance n of a side is the n-th smallest of its labels.

    table                          pairs of instances that share pixels, and the areas of all instances
    reference_ids, prediction_ids  int64, ascending: the labels
    """

    table: OverlapTable
    reference_ids: Int64
    prediction_ids: Int64


def compare_label_maps(reference_labels: LabelMap, prediction_labels: LabelMap) -> _LabelMapPair | None:
    """Compare two dense label maps, integer (H, W); None if they do not fit into this pass.

    They fit if labels are from 0 to 2^24 - 1 and rows shorter than 2^15 px.

    The image is cut into stretches in which neither map changes. Those with both labels set are added up by pair of
    labels, block by block, so that no table of all pairs and no array as large as the image is ever made.

    >>> pair = compare_label_maps(np.array([[1, 1, 0, 4]]), np.array([[0, 7, 7, 7]]))
    >>> assert pair is not None
    >>> pair.table.reference_index.tolist(), pair.table.intersection_px.tolist(), pair.reference_ids.tolist()
    ([0, 1], [1, 1], [1, 4])
    """
    height, width = reference_labels.shape
    if prediction_labels.shape != (height, width) or not 0 < width < 1 << LENGTH_BITS:
        return None
    step = max(1, BLOCK_PX // width) * width
    sides = [_LabelSide(reference_labels, step), _LabelSide(prediction_labels, step)]
    pairs, sums = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    either = np.empty(min(step, reference_labels.size), np.bool_)
    for begin in range(0, reference_labels.size, step):
        changed = [side.find_changes(begin, step, width) for side in sides]
        edge = np.flatnonzero(np.logical_or(changed[0], changed[1], out=either[: len(changed[0])]))
        length = np.append(edge[1:], len(changed[0])) - edge
        labels = [side.block[edge].astype(np.int64) for side in sides]
        if not all(side.add_areas(label, length) for side, label in zip(sides, labels, strict=True)):
            return None
        both = np.flatnonzero((labels[0] != 0) & (labels[1] != 0))
        if len(both):
            pair, total = _sum_by_key((labels[0][both] << LABEL_BITS) | labels[1][both], length[both])
            pairs.append(pair)
            sums.append(total)
    ids = [np.flatnonzero(side.area) for side in sides]
    index = [np.zeros(len(side.area), np.int32) for side in sides]
    for table, known in zip(index, ids, strict=True):
        table[known] = np.arange(len(known), dtype=np.int32)
    label_pair = np.concatenate(pairs)
    return _LabelMapPair(
        OverlapTable(
            *_sum_by_pair(
                index[0][label_pair >> LABEL_BITS],
                index[1][label_pair & ((1 << LABEL_BITS) - 1)],
                np.concatenate(sums),
                len(ids[1]),
            ),
            reference_area_px=sides[0].area[ids[0]],
            prediction_area_px=sides[1].area[ids[1]],
        ),
        *ids,
    )


class _LabelSide:
    """One of the two label maps, block by block: areas by label."""

    def __init__(self, labels: LabelMap, step: int) -> None:
        self.flat = np.ascontiguousarray(labels).reshape(-1)
        self.area = np.zeros(1024, np.int64)
        self.changed = np.empty(min(len(self.flat), step), np.bool_)

    def find_changes(self, begin: int, step: int, width: int) -> Bool:
        """Return where a label differs from the one before it in the row."""
        self.block = self.flat[begin : begin + step]
        changed = self.changed[: len(self.block)]
        np.not_equal(self.block[1:], self.block[:-1], out=changed[1:])
        changed[::width] = True
        return changed

    def add_areas(self, label: Int64, length: Int64) -> bool:
        """Add the lengths of stretches to the areas of their labels; False if a label does not fit."""
        largest = int(label.max())
        if largest >= 1 << LABEL_BITS or label.min() < 0:
            return False
        if largest >= len(self.area):
            self.area = np.concatenate([self.area, np.zeros(largest, np.int64)])
        np.add.at(self.area, label, length)
        self.area[0] = 0
        return True


# --- own duplicates ---------------------------------------------------------------------------------------------------


# Nuclei of one side that share more than half of the smaller of the two, whatever their classes.


MOST_POINTS = 20_000_000  # pairs of points that are looked at


def find_twins(instances: Instances, *, radius_px: float | None = None, most: int | None = None) -> tuple[Int64, Int64]:
    """All pairs that share more than half of the smaller of the two, int64 (P,) each, the first index below the second.

    Points share no pixels: of them two are such a pair that lie less than half of ``radius_px`` apart, the radius
    within which a point is matched. Only runs that overlap another one are compared, so disjoint nuclei cost one look
    at the runs. Raises ``TooManyPairs`` beyond ``most`` shared rows (``refuse_overlaps``), or pairs of points.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> [index.tolist() for index in find_twins(instances_from_labels(np.array([[1, 1, 2, 2]])))]
    [[], []]
    """
    none = np.empty(0, np.int64)
    if instances.point_yx is not None:
        if not radius_px or len(instances) < 2:
            return none, none
        return _close_points(instances, radius_px, min(most or MOST_POINTS, MOST_POINTS))
    if instances.is_disjoint():
        return none, none
    start, stop, area = instances.run_start, instances.run_stop, instances.areas_px()
    shares = np.zeros(len(start), np.bool_)
    shares[1:] = start[1:] < np.maximum.accumulate(stop)[:-1]
    shares[:-1] |= stop[:-1] > start[1:]
    owner = instances.run_instance[shares]
    part = replace(instances, run_start=start[shares], run_stop=stop[shares], run_instance=owner)
    if most is not None:
        refuse_overlaps(part, most)
    table = overlap_table(part, part)
    first, second = table.reference_index.astype(np.int64), table.prediction_index.astype(np.int64)
    chosen = (first < second) & (2 * table.intersection_px > np.minimum(area[first], area[second]))
    return first[chosen], second[chosen]


def count_copies(instances: Instances, twins: Int64) -> int:
    """Return how many of some instances are equal to another of them: in all their pixels, or in their point.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
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


def _close_points(instances: Instances, radius_px: float, most: int) -> tuple[Int64, Int64]:
    from scipy.spatial import cKDTree

    assert instances.point_yx is not None
    tree = cKDTree(instances.point_yx)
    reach = radius_px / 2 * (1 - 1e-9)  # less than half: a rounded distance of exactly half is not
    if (pairs := int(tree.count_neighbors(tree, reach))) > most + len(instances):
        raise TooManyPairs("points close to each other", pairs, most, by_reference=False)
    close = tree.query_pairs(reach, output_type="ndarray").astype(np.int64)
    return close[:, 0], close[:, 1]


def duplicates_among(instances: Instances, twins: tuple[Int64, Int64], matched: Bool, fit: Float64) -> Bool:
    """Return which instances do not take part in matching, bool (N,): of two twins at most one does.

    matched  which match a nucleus of the reference if all take part: two twins that both do, which are two different
             nuclei then, are no duplicates
    fit      how well each lies on a nucleus of the reference, float64 (N,): its IoU; 0 for one that matches none

    Of two that would match, the one that fits worse takes part, so a copy cannot replace a worse original. One that
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
