"""Detection: were the nuclei found, whatever their class and outline?"""

from __future__ import annotations

from evaluation.metrics.undefined import why_undefined
from evaluation.model import MatchCounts, Score


def precision(counts: MatchCounts) -> Score:
    """Share of the predictions that found a nucleus, tp / (tp + fp), in [0, 1].

    Undefined "no-prediction" without predictions ("no-instances" if there is no reference either).
    """
    return ratio(counts, counts.true_positives, counts.true_positives + counts.false_positives)


def recall(counts: MatchCounts) -> Score:
    """Share of the reference nuclei that were found, tp / (tp + fn), in [0, 1].

    Undefined "no-reference" without reference nuclei ("no-instances" if there is no prediction either).
    """
    return ratio(counts, counts.true_positives, counts.true_positives + counts.false_negatives)


def f1(counts: MatchCounts) -> Score:
    """Harmonic mean of precision and recall, 2 tp / (2 tp + fp + fn), in [0, 1]; 0 if one side is empty.

    Undefined "no-instances" if both sides are.
    """
    missed_or_spurious = counts.false_positives + counts.false_negatives
    return ratio(counts, 2 * counts.true_positives, 2 * counts.true_positives + missed_or_spurious)


def threat_score(counts: MatchCounts) -> Score:
    """Critical success index, tp / (tp + fp + fn), in [0, 1]; 0 if one side is empty.

    Undefined "no-instances" if both sides are. Called "accuracy" or "average precision" by others; it is neither.
    """
    missed_or_spurious = counts.false_positives + counts.false_negatives
    return ratio(counts, counts.true_positives, counts.true_positives + missed_or_spurious)


def ratio(counts: MatchCounts, numerator: int, denominator: int) -> Score:
    return Score(numerator / denominator) if denominator else Score(None, why_undefined(*totals(counts)))


def totals(counts: MatchCounts) -> tuple[int, int]:
    """Number of reference and of prediction instances."""
    found = counts.true_positives
    return found + counts.false_negatives, found + counts.false_positives
