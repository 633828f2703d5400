"""What all matching rules share: the candidate pairs, and the form of their answer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evaluation.model import Instances, Int64, Matches, OverlapTable


def candidate_pairs(table: OverlapTable, reference: Instances, prediction: Instances, class_aware: bool) -> Int64:
    """Rows of the overlap table that may match: all, or those of equal class."""
    if not class_aware:
        return np.arange(len(table.intersection_px))
    same = reference.class_id[table.reference_index] == prediction.class_id[table.prediction_index]
    return np.flatnonzero(same)


def take_matches(table: OverlapTable, rows: npt.NDArray[np.integer]) -> Matches:
    """The matches that are the given rows of the overlap table, sorted by reference."""
    rows = np.sort(rows)
    return Matches(
        reference_index=table.reference_index[rows],
        prediction_index=table.prediction_index[rows],
        intersection_px=table.intersection_px[rows],
        union_px=table.union_px()[rows],
    )
