"""The overlap table: which instances share pixels, and how many. Made once a case; all rules and metrics read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from evaluation.findings.errors import TooManyPairs
from evaluation.model import Instances, Int32, Int64, OverlapTable
from evaluation.model.arrays import give_memory_back
from evaluation.model.intervals import count_before, expand, overlaps, row_bands

PIECES_AT_ONCE = 1 << 20  # shared rows that are held together; bounds the memory


def overlap_table(reference: Instances, prediction: Instances, *, most: int | None = None) -> OverlapTable:
    """The sparse table of all pairs of instances that share at least one pixel, exact, also if instances overlap.

    most   how many *shared rows* there may be beyond the runs of both sides; None: any number. A shared row is a pair
           of runs, one of each side, with a pixel in both. Where no instances of a side overlap each other there are
           fewer than runs; where n lie on m others there are n times m for every row.

    Cost: proportional to the runs of both sides and their shared rows, plus a sort of these, in bands of rows, one
    after the other; never a dense reference x prediction table. Raises ValueError if the images differ in shape, and
    ``TooManyPairs`` for too many shared rows, as soon as there are more.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> table = overlap_table(
    ...     instances_from_labels(np.array([[1, 1, 0, 2]])), instances_from_labels(np.array([[0, 5, 5, 5]]))
    ... )
    >>> table.reference_index.tolist(), table.prediction_index.tolist(), table.intersection_px.tolist()
    ([0, 1], [0, 0], [1, 1])
    """
    if reference.shape_yx != prediction.shape_yx:
        raise ValueError(f"reference is {reference.shape_yx} px, prediction {prediction.shape_yx} px (height, width)")
    sums: list[Pieces] = []
    held = limit = 0  # pairs in ``sums``; those of several rows are added up before they take much more than their sum
    for pieces in shared_in_bands(reference, prediction, most):
        sums.append(sum_by_pair(*pieces, len(prediction)))
        held += len(sums[-1][0])
        if held > limit:
            sums = [sum_pieces(sums, len(prediction))]
            held = len(sums[0][0])
            limit = 2 * held + PIECES_AT_ONCE
    table = OverlapTable(
        *(sums[0] if len(sums) == 1 else sum_pieces(sums, len(prediction))),
        reference_area_px=reference.areas_px(),
        prediction_area_px=prediction.areas_px(),
    )
    sums.clear()
    give_memory_back(len(reference.run_start) + len(prediction.run_start))
    return table


Pieces = tuple[Int32, Int32, Int64]  # reference index, prediction index, pixels of both


def shared_in_bands(reference: Instances, prediction: Instances, most: int | None) -> Iterator[Pieces]:
    """The stretches of pixels in a run of both sides, about ``PIECES_AT_ONCE`` at a time, band by band; at least once.

    Of two runs that share pixels one begins inside the other; so those that share pixels with a run are the runs of
    the other side that begin inside it, and those in which it begins. Each are neighbours in the order of their starts.
    """
    shared = 0

    def count(rows: int) -> None:
        nonlocal shared
        shared += rows
        if most is not None and shared > most + len(reference.run_start) + len(prediction.run_start):
            raise too_many_rows(reference, prediction, most)

    for left, right in bands_of(reference, prediction):
        if is_disjoint(left) and is_disjoint(right):
            a, b, start, stop = overlaps(left.run_start, left.run_stop, right.run_start, right.run_stop)
            count(len(a))
            yield left.run_instance[a], right.run_instance[b], stop - start
            continue
        for inner, outer, swapped in ((right, left, False), (left, right, True)):
            first, last = runs_that_begin_inside(inner, outer, ties=not swapped)
            count(int((last - first).sum()))
            before = np.cumsum(last - first) - (last - first)
            cuts = np.flatnonzero(np.diff(before // PIECES_AT_ONCE)) + 1
            for begin, end in pairwise([0, *cuts.tolist(), len(first)]):
                inside = expand(first[begin:end], last[begin:end])
                around = np.repeat(np.arange(begin, end), last[begin:end] - first[begin:end])
                stop = np.minimum(outer.run_stop[around], inner.run_stop[inside])
                index = outer.run_instance[around], inner.run_instance[inside]
                yield *(index[::-1] if swapped else index), stop - inner.run_start[inside]


def runs_that_begin_inside(inner: Instances, outer: Instances, *, ties: bool) -> tuple[Int64, Int64]:
    """First and last + 1 of the inner runs that begin inside each outer run; with ``ties`` also where it begins."""
    first = count_before(outer.run_start, inner.run_start, ties_count=not ties)
    if is_disjoint(outer):  # so its stops ascend
        last = count_before(outer.run_stop, inner.run_start, ties_count=False)
    else:
        last = np.searchsorted(inner.run_start, outer.run_stop, "left")
    return first, np.maximum(first, last)


def bands_of(reference: Instances, prediction: Instances) -> Iterator[tuple[Instances, Instances]]:
    for left, right in row_bands([reference.run_start, prediction.run_start], reference.shape_yx[1]):
        yield reference.part(left), prediction.part(right)


def is_disjoint(instances: Instances) -> bool:
    """Whether no pixel belongs to two instances."""
    return bool(np.all(instances.run_start[1:] >= instances.run_stop[:-1]))


def count_shared_rows(reference: Instances, prediction: Instances) -> int:
    """How many pairs of runs share pixels, without looking at each of them."""
    shared = 0
    for left, right in bands_of(reference, prediction):
        for inner, outer, ties in ((right, left, True), (left, right, False)):
            first, last = runs_that_begin_inside(inner, outer, ties=ties)
            shared += int((last - first).sum())
    return shared


def too_many_rows(reference: Instances, prediction: Instances, most: int) -> TooManyPairs:
    """The refusal, which says whether the reference alone has too many."""
    runs = len(reference.run_start)
    shared, limit = count_shared_rows(reference, prediction), most + runs + len(prediction.run_start)
    alone = count_shared_rows(reference, reference) > most + 2 * runs
    return TooManyPairs("rows of pixels in a nucleus of either side", shared, limit, by_reference=alone)


def sum_pieces(pieces: Sequence[Pieces], predictions: int) -> Pieces:
    columns = zip(*pieces, strict=True)
    left, right, length = (np.concatenate(column) for column in columns)
    return sum_by_pair(left, right, length, predictions)


def sum_by_pair(reference_index: Int32, prediction_index: Int32, length: Int64, predictions: int) -> Pieces:
    """Add up the pieces of each pair; pairs sorted by reference, then prediction."""
    if len(length) == 0:
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    pair, total = sum_by_key(reference_index.astype(np.int64) * predictions + prediction_index, length)
    reference_of_pair, prediction_of_pair = np.divmod(pair, predictions)
    return reference_of_pair.astype(np.int32), prediction_of_pair.astype(np.int32), total


def sum_by_key(key: Int64, value: Int64) -> tuple[Int64, Int64]:
    """The distinct keys, sorted, and the sum of the values of each; at least one, none negative.

    Key and value are packed into one int64 where they fit, since sorting values is several times faster than sorting
    indices.
    """
    bits = int(value.max()).bit_length()
    if int(key.max()).bit_length() + bits < 64:
        packed = (key << bits) | value
        packed.sort(kind="stable")
        key, value = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order]
    first = np.flatnonzero(key[1:] != key[:-1]) + 1
    first = np.concatenate([[0], first])
    return key[first], np.add.reduceat(value, first)
