"""What all matching rules share: the candidate pairs, and the form of their answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.matching.table import overlap_table
from evaluation.model import Bool, Float64, Instances, Int32, Int64, Matches, OverlapTable

FINEST = 1_000_000  # thresholds are fractions with at most this denominator


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Pairs that share a pixel and may match, (P,), sorted by reference, prediction; columns as in ``Matches``."""

    reference_index: Int32
    prediction_index: Int32
    intersection_px: Int64
    union_px: Int64

    def __len__(self) -> int:
        return len(self.union_px)

    def iou(self) -> Float64:
        """Equal fractions give equal numbers."""
        return np.asarray(self.intersection_px / self.union_px)

    def above(self, threshold: Fraction) -> Bool:
        """Which pairs have IoU > ``threshold``, in integers."""
        return np.asarray(self.intersection_px * threshold.denominator > self.union_px * threshold.numerator)

    def at_least(self, threshold: Fraction) -> Bool:
        """Which pairs have IoU >= ``threshold``, in integers."""
        return np.asarray(self.intersection_px * threshold.denominator >= self.union_px * threshold.numerator)

    def part(self, wanted: npt.NDArray[Any]) -> Candidates:
        """The pairs at these indices, or where it is true."""
        return Candidates(
            self.reference_index[wanted],
            self.prediction_index[wanted],
            self.intersection_px[wanted],
            self.union_px[wanted],
        )

    def matches(self, wanted: Bool) -> Matches:
        """The matches that are the pairs where it is true."""
        return Matches(
            self.reference_index[wanted],
            self.prediction_index[wanted],
            self.intersection_px[wanted],
            self.union_px[wanted],
        )


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
    """Which pairs share one of their two instances with another pair, bool (P,)."""
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
        intersection = shared_px(table, left, right)
        union = table.reference_area_px[left] + table.prediction_area_px[right] - intersection
    return Matches(left.astype(np.int32), right.astype(np.int32), intersection, union)


def shared_px(table: OverlapTable, reference_index: Int64, prediction_index: Int64) -> Int64:
    """Pixels that each pair shares, int64 (T,); 0 for pairs that are not in the table."""
    span = len(table.prediction_area_px)
    key = table.reference_index.astype(np.int64) * span + table.prediction_index
    wanted = reference_index.astype(np.int64) * span + prediction_index
    index = np.searchsorted(key, wanted)
    known = np.append(key, -1)[index] == wanted
    return np.where(known, np.append(table.intersection_px, 0)[index], 0)
