"""Classification: of the nuclei that were found, were the classes right? Only matched pairs count.

The confusion matrix M of the matched pairs has rows for the class of the reference and columns for that of the
prediction; N is M with each row divided by its sum (a row without pairs stays 0), which takes the frequency of the
classes out.
"""

from __future__ import annotations

import math

import numpy as np

from evaluation.metrics.detection import totals
from evaluation.metrics.undefined import why_undefined
from evaluation.model import Float64, Int64, MatchCounts, Score


def accuracy(counts: MatchCounts) -> Score:
    """Share of the matched pairs with equal classes, trace(M) / sum(M), in [0, 1]. Undefined if nothing matched."""
    matrix = matched(counts)
    return Score(int(matrix.trace()) / int(matrix.sum())) if matrix.any() else nothing_matched(counts)


def balanced_accuracy(counts: MatchCounts) -> Score:
    """Mean of the recalls of the classes that have a matched reference, trace(N) / rows of N in use, in [0, 1].

    Undefined if nothing matched. The "overall NCM accuracy" of "lessons from MoNuSAC 2020"; scikit-learn's
    ``balanced_accuracy_score``.
    """
    matrix = matched(counts)
    rows = matrix.sum(axis=1)
    if not rows.any():
        return nothing_matched(counts)
    return Score(math.fsum(matrix.diagonal()[rows > 0] / rows[rows > 0]) / int(np.count_nonzero(rows)))


def matthews_correlation(counts: MatchCounts) -> Score:
    """Matthews correlation of several classes (R_K), in [-1, 1]; 0 is no better than chance.

    ``(c s - sum_k t_k p_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2))`` with s pairs, c of them right, t_k
    references and p_k predictions of class k. 0 if all predictions have one class but the references do not.
    Undefined "one-class" if all references do, and if nothing matched. Gorodkin, Comput. Biol. Chem. 28, 2004.
    """
    matrix = matched(counts)
    if not matrix.any():
        return nothing_matched(counts)
    total = int(matrix.sum())
    references = [int(n) for n in matrix.sum(axis=1)]
    predictions = [int(n) for n in matrix.sum(axis=0)]
    spread = [total**2 - sum(n**2 for n in side) for side in (references, predictions)]
    if spread[0] == 0:
        return Score(None, "one-class")
    if spread[1] == 0:
        return Score(0.0)
    covariance = int(matrix.trace()) * total - sum(t * p for t, p in zip(references, predictions, strict=True))
    return Score(covariance / math.sqrt(spread[0] * spread[1]))


def macro_f1(counts: MatchCounts) -> Score:
    """Mean over classes of 2 M_kk / (row_k + column_k) from the counts M, in [0, 1].

    A class counts if a matched reference or prediction has it. Undefined if nothing matched. scikit-learn's
    ``f1_score(average="macro")``; note that the F1 per class beside it is from N, as published.
    """
    matrix = matched(counts)
    present = matrix.sum(axis=1) + matrix.sum(axis=0)
    if not present.any():
        return nothing_matched(counts)
    f1 = 2 * matrix.diagonal()[present > 0] / present[present > 0]
    return Score(math.fsum(f1) / len(f1))


def class_precision(counts: MatchCounts, class_id: int) -> Score:
    """N_kk / column k of N, in [0, 1]: how pure the class is if all classes were equally frequent.

    Undefined if no matched pair was predicted as this class.
    """
    normalised = row_normalised(counts)
    column = math.fsum(normalised[:, class_id - 1])
    if not column:
        return class_not_matched(counts, class_id)
    return Score(float(normalised[class_id - 1, class_id - 1]) / column)


def class_recall(counts: MatchCounts, class_id: int) -> Score:
    """N_kk, the share of the matched references of a class that were named right, in [0, 1].

    Undefined if no matched reference has this class.
    """
    if not matched(counts)[class_id - 1].any():
        return class_not_matched(counts, class_id)
    return Score(float(row_normalised(counts)[class_id - 1, class_id - 1]))


def class_f1(counts: MatchCounts, class_id: int) -> Score:
    """2 N_kk / (row k + column k of N), in [0, 1]. Undefined if no matched pair has this class on either side."""
    normalised = row_normalised(counts)
    total = math.fsum([*normalised[class_id - 1], *normalised[:, class_id - 1]])
    if not total:
        return class_not_matched(counts, class_id)
    return Score(2 * float(normalised[class_id - 1, class_id - 1]) / total)


def matched(counts: MatchCounts) -> Int64:
    return counts.confusion[1:, 1:]


def row_normalised(counts: MatchCounts) -> Float64:
    matrix = matched(counts)
    return np.asarray(matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1))


def nothing_matched(counts: MatchCounts) -> Score:
    return Score(None, why_undefined(*totals(counts)))


def class_not_matched(counts: MatchCounts, class_id: int) -> Score:
    references, predictions = counts.confusion[class_id].sum(), counts.confusion[:, class_id].sum()
    return Score(None, why_undefined(int(references), int(predictions)))
