"""Counts and units with a given confusion matrix, for tests of formulas."""

from __future__ import annotations

import numpy as np

from nuclei_metrics.aggregation import stack_cases, unite
from nuclei_metrics.model import MatchCounts, Units
from nuclei_metrics.model.counts import PredictionList, Score, SharedCounts

MEASURES = ("iou", "dice", "hausdorff_px", "hausdorff95_px")


def counts_of(confusion, iou_of_pairs=None, **overrides) -> MatchCounts:
    """Counts of a case with a given confusion matrix; all pairs have the same IoU unless given."""
    confusion = np.array(confusion, np.int64)
    pairs = np.array(
        [(i, j) for i in range(1, len(confusion)) for j in range(1, len(confusion)) for _ in range(confusion[i, j])],
        np.int16,
    ).reshape(-1, 2)
    values = np.full(len(pairs), 0.75) if iou_of_pairs is None else np.array(iou_of_pairs)
    predictions = [
        (j, i) for i in range(len(confusion)) for j in range(1, len(confusion)) for _ in range(confusion[i, j])
    ]
    columns = np.array(predictions, np.int16).reshape(-1, 2).T
    fields = {
        "confusion": confusion,
        "pair_class": pairs,
        "measures": {
            "iou": values,
            "dice": 2 * values / (1 + values),
            "hausdorff_px": np.full(len(pairs), 2.0),
            "hausdorff95_px": np.full(len(pairs), 1.0),
        },
        "predictions": PredictionList(columns[0], columns[1], None),
        "diagonal_px": 50.0,
    }
    return MatchCounts(**{**fields, **overrides})


def units_of(*counts: MatchCounts, members=None, shared: tuple[SharedCounts, ...] = (), measures=MEASURES) -> Units:
    """Cases as units: each its own, or the unions that ``members`` lists."""
    table = stack_cases(counts, shared, measures=measures, areas_mm2=[None] * len(counts))
    return unite(table, [[row] for row in range(len(counts))] if members is None else members)


def score_of(function, *counts: MatchCounts, **arguments) -> Score:
    """What a metric says of the union of some cases."""
    return function(units_of(*counts, members=[list(range(len(counts)))]), **arguments).at(0)
