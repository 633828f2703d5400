"""Overlap table and runs of two label maps of one image, in one pass over their pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.matching.table import sum_by_key, sum_by_pair
from evaluation.model import Bool, Int32, Int64, OverlapTable

LabelMap = npt.NDArray[np.integer[Any]]

BLOCK_PX = 1 << 17  # what a block touches stays in the cache
LABEL_BITS, LENGTH_BITS = 24, 15  # two labels and a length in one int64


@dataclass(frozen=True, slots=True, eq=False)
class LabelMapPair:
    """Two label maps, compared. Instance n of a side is the n-th smallest of its labels.

    table                             pairs of instances that share pixels, and the areas of all instances
    reference_ids, prediction_ids     int64, ascending: the labels
    reference_runs, prediction_runs   start, stop and instance of the runs, sorted by start; None if not asked for
    """

    table: OverlapTable
    reference_ids: Int64
    prediction_ids: Int64
    reference_runs: tuple[Int64, Int64, Int32] | None
    prediction_runs: tuple[Int64, Int64, Int32] | None


def compare_label_maps(
    reference_labels: LabelMap, prediction_labels: LabelMap, *, with_runs: bool
) -> LabelMapPair | None:
    """Compare two dense label maps, integer (H, W); None if they do not fit into this pass.

    They fit if labels are from 0 to 2^24 - 1 and rows shorter than 2^15 px.

    The image is cut into stretches in which neither map changes. Those with both labels set are added up by pair of
    labels, block by block, so that no table of all pairs and no array as large as the image is ever made.

    >>> pair = compare_label_maps(np.array([[1, 1, 0, 4]]), np.array([[0, 7, 7, 7]]), with_runs=False)
    >>> assert pair is not None
    >>> pair.table.reference_index.tolist(), pair.table.intersection_px.tolist(), pair.reference_ids.tolist()
    ([0, 1], [1, 1], [1, 4])
    """
    height, width = reference_labels.shape
    if prediction_labels.shape != (height, width) or not 0 < width < 1 << LENGTH_BITS:
        return None
    step = max(1, BLOCK_PX // width) * width
    sides = [Side(reference_labels, step), Side(prediction_labels, step)]
    pairs, sums = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    either = np.empty(min(step, reference_labels.size), np.bool_)
    for begin in range(0, reference_labels.size, step):
        changed = [side.find_changes(begin, step, width) for side in sides]
        edge = np.flatnonzero(np.logical_or(changed[0], changed[1], out=either[: len(changed[0])]))
        length = np.append(edge[1:], len(changed[0])) - edge
        labels = [side.block[edge].astype(np.int64) for side in sides]
        if not all(side.add_areas(label, length) for side, label in zip(sides, labels, strict=True)):
            return None
        if with_runs:
            for side, flags, label in zip(sides, changed, labels, strict=True):
                side.add_runs(edge, flags[edge], label, begin)
        both = np.flatnonzero((labels[0] != 0) & (labels[1] != 0))
        if len(both):
            pair, total = sum_by_key((labels[0][both] << LABEL_BITS) | labels[1][both], length[both])
            pairs.append(pair)
            sums.append(total)
    ids = [np.flatnonzero(side.area) for side in sides]
    index = [np.zeros(len(side.area), np.int32) for side in sides]
    for table, known in zip(index, ids, strict=True):
        table[known] = np.arange(len(known), dtype=np.int32)
    label_pair = np.concatenate(pairs)
    return LabelMapPair(
        OverlapTable(
            *sum_by_pair(
                index[0][label_pair >> LABEL_BITS],
                index[1][label_pair & ((1 << LABEL_BITS) - 1)],
                np.concatenate(sums),
                len(ids[1]),
            ),
            reference_area_px=sides[0].area[ids[0]],
            prediction_area_px=sides[1].area[ids[1]],
        ),
        ids[0],
        ids[1],
        sides[0].runs(index[0]) if with_runs else None,
        sides[1].runs(index[1]) if with_runs else None,
    )


class Side:
    """One of the two label maps, block by block: areas by label, and runs."""

    def __init__(self, labels: LabelMap, step: int) -> None:
        self.flat = np.ascontiguousarray(labels).reshape(-1)
        self.area = np.zeros(1024, np.int64)
        self.changed = np.empty(min(len(self.flat), step), np.bool_)
        self.starts: list[Int64] = [np.empty(0, np.int64)]
        self.stops: list[Int64] = [np.empty(0, np.int64)]
        self.values: list[Int32] = [np.empty(0, np.int32)]

    def find_changes(self, begin: int, step: int, width: int) -> Bool:
        """Where a label differs from the one before it in the row."""
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

    def add_runs(self, edge: Int64, changed: Bool, label: Int64, begin: int) -> None:
        """Join the stretches between changes of this side: starts and ends of its runs alternate."""
        inside = label != 0
        start = np.flatnonzero(changed & inside)
        stop = np.flatnonzero(changed[1:] & inside[:-1]) + 1
        self.starts.append(edge[start] + begin)
        self.values.append(label[start].astype(np.int32))
        ends = edge[stop] + begin
        self.stops.append(np.append(ends, begin + len(self.block)) if inside[-1] else ends)

    def runs(self, index: Int32) -> tuple[Int64, Int64, Int32]:
        return np.concatenate(self.starts), np.concatenate(self.stops), index[np.concatenate(self.values)]
