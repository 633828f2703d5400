"""Do the two sides cut the foreground into the same parts, whatever the matching rule? Classes are ignored.

SEG of the Cell Tracking Challenge, and over the pixels of the reference the adapted Rand error and the variation of
information of SNEMI3D. ``count_partitions`` makes the sums.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from nuclei_metrics.metrics.counts import JoinedCases, best_rows, hits, sum_cases
from nuclei_metrics.metrics.metric import Empty, Metric, ratio, scores
from nuclei_metrics.metrics.overlap import compare_foregrounds
from nuclei_metrics.model import Float64, Int64, Scores, Units


def seg(units: Units) -> Scores:
    """SEG: mean over the reference nuclei of their IoU with the prediction that covers more than half of them, [0, 1].

    0 for a nucleus of which no prediction covers more than half; a false positive costs nothing. Predictions that
    overlap each other may both cover more than half: then the higher IoU counts.

    0 if the prediction is empty; undefined "no-reference" without reference nuclei, "no-instances" if both sides are
    empty, "points-only" for points. Maška et al., Bioinformatics 30(11), 2014.
    """
    return ratio(units.sum("seg"), hits(units).references, hits(units).undefined)


def adapted_rand_error(units: Units) -> Scores:
    """Adapted Rand error, 1 - 2 C / (A + B), in [0, 1]; 0 is best.

    Over pairs of pixels of one image in the reference foreground: A of them share a reference nucleus, B a prediction,
    C both. Pixels without a prediction count as one predicted part, so a prediction that is empty merges all nuclei.

    Undefined "no-reference" without reference nuclei, "no-instances" if both sides are empty, "points-only" for points,
    and if all nuclei of the reference are single pixels. Arganda-Carreras et al., Frontiers in Neuroanatomy 9, 2015;
    scikit-image's ``adapted_rand_error``.
    """
    both, of_reference, of_prediction = units.sum("rand_pairs").T
    similar = ratio(2 * both, of_reference + of_prediction, hits(units).undefined)
    return Scores(1 - similar.value, similar.reason)


def adapted_rand_precision(units: Units) -> Scores:
    """Precision of the adapted Rand error, C / B, in [0, 1]: low if predictions merge nuclei."""
    both, _, of_prediction = units.sum("rand_pairs").T
    return ratio(both, of_prediction, hits(units).undefined)


def adapted_rand_recall(units: Units) -> Scores:
    """Recall of the adapted Rand error, C / A, in [0, 1]: low if predictions split nuclei."""
    both, of_reference, _ = units.sum("rand_pairs").T
    return ratio(both, of_reference, hits(units).undefined)


def variation_of_information(units: Units) -> Scores:
    """Variation of information, H(P | G) + H(G | P), bits, in [0, inf); 0 is best.

    Over the pixels of the reference foreground: G is the nucleus of a pixel, P its prediction; pixels without a
    prediction count as one predicted part.

    Undefined "no-reference" without reference nuclei, "no-instances" if both sides are empty, "points-only" for points.
    Meilă, Journal of Multivariate Analysis 98, 2007; scikit-image's ``variation_of_information`` with
    ``ignore_labels=(0,)``.
    """
    return _entropy(units, units.sum("vi_bits").sum(axis=1))


def vi_split(units: Units) -> Scores:
    """Part of the variation of information that splits cost, H(P | G), bits, in [0, inf)."""
    return _entropy(units, units.sum("vi_bits")[:, 0])


def vi_merge(units: Units) -> Scores:
    """Part of the variation of information that merges cost, H(G | P), bits, in [0, inf)."""
    return _entropy(units, units.sum("vi_bits")[:, 1])


def _entropy(units: Units, bits: Float64) -> Scores:
    pixels = units.sum("vi_pixels")
    return scores(bits / np.maximum(pixels, 1), pixels > 0, hits(units).undefined)


PARTS: dict[str, Any] = {"outlines": True, "by_rule": False, "missed": "either"}
OF_REFERENCE = Empty("no-instances", None, "no-reference", None)
BITS: dict[str, Any] = {
    "page": "partition.variation_of_information",
    "better": "lower",
    "highest": math.inf,
    "worst": None,
    "unit": "bit",
    "empty": OF_REFERENCE,
    **PARTS,
}
RAND: dict[str, Any] = {"page": "partition.adapted_rand", "empty": OF_REFERENCE, **PARTS}

PARTITION = (
    Metric(
        path=("partition", "seg"),
        evaluate=seg,
        empty=Empty("no-instances", 0, "no-reference", None),
        **{**PARTS, "missed": "worse"},
    ),
    Metric(path=("partition", "adapted_rand_error"), evaluate=adapted_rand_error, better="lower", worst=1.0, **RAND),
    Metric(path=("partition", "adapted_rand_precision"), evaluate=adapted_rand_precision, **RAND),
    Metric(path=("partition", "adapted_rand_recall"), evaluate=adapted_rand_recall, **RAND),
    Metric(path=("partition", "variation_of_information"), evaluate=variation_of_information, **BITS),
    Metric(path=("partition", "vi_split"), evaluate=vi_split, **BITS),
    Metric(path=("partition", "vi_merge"), evaluate=vi_merge, **BITS),
)

# --- count partitions -------------------------------------------------------------------------------------------------

# Sums over cases: ``seg`` float64 (U,), sum of the IoU of the covered nuclei; ``rand_pairs`` float64 (U, 3), ordered
# pairs of pixels of the reference that share a part on both sides, in the reference, in the prediction; ``vi_bits``
# float64 (U, 2), pixels times bits that splits and merges cost; ``vi_pixels`` int64 (U,), pixels of the reference.
# Where nuclei overlap others of their side a pixel counts once for each pair.


def count_partitions(cases: JoinedCases) -> dict[str, Any]:
    """The sums of each of K cases, (K, ...).

    >>> from nuclei_metrics.metrics.counts import join_cases
    >>> from nuclei_metrics.model import Instances, OverlapTable
    >>> row = Instances((1, 6), np.array([1, 1]), np.arange(2), np.array([0, 3]), np.array([3, 5]), np.array([0, 1]))
    >>> one = Instances((1, 6), np.array([1]), np.arange(1), np.array([1]), np.array([6]), np.array([0]))
    >>> table = OverlapTable(np.array([0, 1]), np.array([0, 0]), np.array([2, 2]), np.array([3, 2]), np.array([5]))
    >>> sums = count_partitions(join_cases([(row, one, table)]))
    >>> sums["rand_pairs"].tolist(), sums["vi_pixels"].tolist()  # 2 (2 - 1) + 2 (2 - 1), 3 * 2 + 2 * 1, 4 * 3
    ([[4.0, 8.0, 12.0]], [5])

    The IoU of the first nucleus is 2/6, of the second 2/5.

    >>> sums["seg"].round(6).tolist()
    [0.733333]
    """
    table, pair_bound = cases.table, cases.pair_bound()
    left, right, shared = table.reference_index, table.prediction_index, table.intersection_px
    unpredicted = compare_foregrounds(cases).outside_px[0]  # of each reference nucleus
    of_reference, of_prediction = unpredicted.copy(), np.zeros(len(table.prediction_area_px), np.int64)
    np.add.at(of_reference, left, shared)
    np.add.at(of_prediction, right, shared)
    rest = sum_cases(
        unpredicted, cases.reference_bound
    )  # of each case, the predicted part of pixels without prediction
    bounds = pair_bound, cases.reference_bound, cases.reference_bound, cases.prediction_bound, np.arange(len(cases) + 1)
    parts = shared, unpredicted, of_reference, of_prediction, rest
    pairs = [_sums(part * (part - 1.0), bound) for part, bound in zip(parts, bounds, strict=True)]
    bits = [_split(part * np.log2(np.maximum(part, 1)), bound) for part, bound in zip(parts, bounds, strict=True)]
    inner = [[-value for value in (*first, *second)] for first, second in zip(bits[0], bits[1], strict=True)]
    split = [math.fsum([*whole, *minus]) for whole, minus in zip(bits[2], inner, strict=True)]
    merge = [math.fsum([*one, *more, *minus]) for one, more, minus in zip(bits[3], bits[4], inner, strict=True)]
    return {
        "seg": _covered_iou(cases),
        "rand_pairs": np.stack([pairs[0] + pairs[1], pairs[2], pairs[3] + pairs[4]], axis=1),
        "vi_bits": np.array([split, merge]).T.clip(0),
        "vi_pixels": sum_cases(of_reference, cases.reference_bound),
    }


def _covered_iou(cases: JoinedCases) -> Float64:
    """Sum of the IoU of the reference nuclei of each case of which a prediction covers more than half, (K,)."""
    table = cases.table
    covering = 2 * table.intersection_px > table.reference_area_px[table.reference_index]
    iou = np.where(covering, table.intersection_px / table.union_px(), 0.0)
    best = best_rows(table.reference_index, table.prediction_index, iou, cases.ranks[1])
    return _sums(iou[best], np.searchsorted(table.reference_index[best], cases.reference_bound))


def _split(values: Float64, bound: Int64) -> list[list[float]]:
    """The values of each case."""
    listed = values.tolist()
    return [listed[first:last] for first, last in pairwise(bound.tolist())]


def _sums(values: Float64, bound: Int64) -> Float64:
    """Sum of the values of each case, rounded once: the same in any order; (K,)."""
    return np.array([math.fsum(part) for part in _split(values, bound)])
