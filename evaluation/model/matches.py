"""Which nuclei of the two sides overlap, and which are matched."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.model.arrays import Int32, Int64


@dataclass(frozen=True, slots=True, eq=False)
class OverlapTable:
    """Which reference and prediction instances share pixels, and how many. Sparse; sorted by reference, prediction.

    reference_index, prediction_index  int32 (P,)
    intersection_px                    int64 (P,), at least 1
    reference_area_px (N,), prediction_area_px (M,)   int64, of all instances, in or out of the table
    """

    reference_index: Int32
    prediction_index: Int32
    intersection_px: Int64
    reference_area_px: Int64
    prediction_area_px: Int64

    def union_px(self) -> Int64:
        """Pixels in either instance of each pair, int64 (P,)."""
        areas = self.reference_area_px[self.reference_index] + self.prediction_area_px[self.prediction_index]
        return areas - self.intersection_px


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The matched pairs of one image under one rule; each instance is in one pair at the most.

    reference_index, prediction_index   int32 (T,), sorted by reference_index
    intersection_px, union_px           int64 (T,); 0 if one side is points
    """

    reference_index: Int32
    prediction_index: Int32
    intersection_px: Int64
    union_px: Int64

    def __len__(self) -> int:
        return len(self.reference_index)
