"""Covered: how well is the best share of the reference nuclei outlined, and how many of each class are named right?

Leaving a nucleus out never raises a score over the best share: a missed nucleus counts the worst value, so that taking
a pair away can only put a worse value in the place of a better one among the best. It still tells who outlines well
among those who find enough, which a mean over all nuclei does not. Where predictions may overlap, copies of a nucleus
can raise it (the best copy counts, and spurious ones cost nothing): so a ranking needs a floor on F1 beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evaluation.metrics.metric import Empty, Metric, Variant
from evaluation.metrics.order_statistics import rank
from evaluation.metrics.quality import (
    HALF,
    ONE,
    join_halves,
    mean_quality,
    quality_metrics,
    quality_of_pairs,
    why_no_reference,
)
from evaluation.metrics.segmentation import OF_POINTS
from evaluation.metrics.undefined import code, mean_of, ratio, undefined
from evaluation.model import Float64, Int64, Measure, MetricChoice, Scores, Units

MILLIONTHS = 10**6  # a coverage has at most six decimals


def best_mean(units: Units, measure: Measure, coverage: float, cap: float | None = None) -> Scores:
    """Mean over the best share of the reference nuclei, missed ones at the worst.

    Of R reference nuclei of the unit the best k = ceil(coverage R) count; a missed one counts 0, or the distance cap,
    and no distance counts more than the cap. At coverage 1 and of the IoU it is the mean true score of stardist.
    Undefined "no-reference" without reference nuclei ("no-instances" if there is no prediction either).

    Of two nuclei one has IoU 3/4 and one is missed: 3/4 at coverage 0.5, 3/8 at coverage 1.
    """
    confusion = units.sum("confusion")
    wanted = share_of(confusion[:, 1:].sum(axis=(1, 2)), coverage)
    total = best_sums(units, quality_of_pairs(units, measure, cap), units.table.pairs.case, wanted)
    return mean_quality(units, total, wanted, measure, cap, why_no_reference(confusion))


def best_class_mean(units: Units, measure: Measure, coverage: float, cap: float | None = None) -> Scores:
    """Mean over classes of the mean over the best share of their reference nuclei, missed ones at the worst.

    Every class that the reference has in the unit weighs the same; inside it the best k = ceil(coverage R) of its R
    nuclei count, whatever class was predicted. So it does not look at large nuclei most. Undefined "no-reference"
    without reference nuclei ("no-instances" if there is no prediction either).
    """
    confusion, pairs = units.sum("confusion"), units.table.pairs
    quality, parts = quality_of_pairs(units, measure, cap), []
    for class_id in range(1, confusion.shape[1]):
        of_class = pairs.class_id[:, 0] == class_id
        wanted = share_of(confusion[:, class_id].sum(axis=1), coverage)
        total = best_sums(units, quality[of_class], pairs.case[of_class], wanted)
        parts.append(mean_quality(units, total, wanted, measure, cap, why_no_reference(confusion, class_id)))
    return mean_of_parts(parts, confusion)


def class_recall(units: Units) -> Scores:
    """Mean over classes of their recall, a missed nucleus counting as a guess, in [0, 1].

    Of a class with R reference nuclei, r of them found and named right and m missed: (r + m / C) / R, with the C
    classes of the challenge. A class counts in a unit if the reference has it. Silence earns what guessing earns, 1 /
    C, and no more. Undefined "one-class" if there is one class only, and "no-reference" without reference nuclei
    ("no-instances" if there is no prediction either).
    """
    confusion = units.sum("confusion")
    classes = confusion.shape[1] - 1
    if classes == 1:
        return undefined(len(units), "one-class")
    parts = [
        ratio(
            classes * confusion[:, class_id, class_id] + confusion[:, class_id, 0],
            classes * confusion[:, class_id].sum(axis=1),
            why_no_reference(confusion, class_id),
        )
        for class_id in range(1, classes + 1)
    ]
    return mean_of_parts(parts, confusion)


def coverage_curve(
    units: Units, measure: Measure, coverages: Sequence[float], cap: float | None = None, *, by_class: bool = False
) -> Float64:
    """The mean over the best share of the nuclei of all cases together, at each coverage; NaN where it is undefined.

    by_class  mean over classes, as ``best_class_mean``

    The risk-coverage curve of selective prediction (Geifman and El-Yaniv, NeurIPS 2017), with quality in place of risk.
    The nuclei are put in order once, each as often as its case is in the table.
    """
    table, pairs = units.table, units.table.pairs
    weights = units.weights.tocsr()
    if not len(units) == 1 == int(weights.max()) == int(weights.min()):
        raise ValueError("the curve is that of all cases, each once")
    confusion = table.sums["confusion"].sum(axis=0)
    quality, classes = quality_of_pairs(units, measure, cap), range(1, len(confusion))
    curves = []
    for class_id in classes if by_class else [0]:
        of_class = pairs.class_id[:, 0] == class_id if class_id else np.ones(len(quality), np.bool_)
        references = int(confusion[class_id].sum() if class_id else confusion[1:].sum())
        if references:
            best = np.zeros(references, np.int64)
            best[: np.count_nonzero(of_class)] = -np.sort(-quality[of_class])
            wanted = np.concatenate([share_of(np.array([references]), coverage) for coverage in coverages])
            total = join_halves(*(np.cumsum(half)[wanted - 1] for half in np.divmod(best, HALF)))
            curves.append(total / (wanted * float(ONE)))
    if not curves or (measure not in OF_POINTS and table.sums["points"].any()):
        return np.full(len(coverages), np.nan)
    mean = np.mean(curves, axis=0)
    return np.asarray(mean if cap is None else cap * (1 - mean))


# --- the best share ---------------------------------------------------------------------------------------------------


def share_of(references: Int64, coverage: float) -> Int64:
    """``ceil(coverage references)``, exactly; int64 as the references.

    >>> share_of(np.array([0, 1, 5, 30]), 0.1).tolist()
    [0, 1, 1, 3]
    """
    shared: Int64 = -(-references * round(coverage * MILLIONTHS) // MILLIONTHS)
    return shared


def best_sums(units: Units, quality: Int64, case: Int64, wanted: Int64) -> Float64:
    """Sum of the best qualities of each unit, as many as are wanted, float64 (B,); those that are lacking count 0.

    quality, case  int64 (T,), of the pairs, and the case of each; a unit has them as often as the case
    wanted         int64 (B,)

    Raises ``ValueError`` for more than 2^21 cases.

    Two cases with qualities 5 and 3, and 4; both once, and the first twice:

    >>> from scipy.sparse import csr_array
    >>> units = Units(None, csr_array([[1, 1], [2, 0]]))
    >>> best_sums(units, np.array([5, 3, 4]), np.array([0, 0, 1]), np.array([2, 5])).tolist()
    [9.0, 16.0]
    """
    weights = units.weights
    if len(quality) == 0:
        return np.zeros(len(wanted))
    if weights.shape[1] > 2**21:
        raise ValueError(f"{weights.shape[1]:,} cases are too many for whole numbers of 64 bits")
    order = np.argsort(-quality)
    ranking, best_first = rank(case[order], units), quality[order]
    last = best_first[ranking.find(np.maximum(wanted - 1, 0))]  # the quality of the last one that is wanted
    last = np.where(ranking.number < wanted, 0, last)
    line = np.sort(case * (ONE + 1) + (ONE - quality), kind="stable")  # case by case, in each the best first
    upper, lower = (np.concatenate([[0], np.cumsum(half)]) for half in np.divmod(ONE - line % (ONE + 1), HALF))
    unit, times = np.repeat(np.arange(len(wanted)), np.diff(weights.indptr)), weights.data
    base = np.arange(weights.shape[1]) * (ONE + 1)
    # What is better than the last counts as often as its case, of its equals as many as are still lacking.
    begin = np.searchsorted(line, base)[weights.indices]
    end = np.searchsorted(line, base[weights.indices] + (ONE - last)[unit])
    better = join_halves(upper[end] - upper[begin], lower[end] - lower[begin])
    total = np.bincount(unit, better * times, len(wanted))
    number = np.bincount(unit, (end - begin) * times, len(wanted))
    return np.asarray(total + (wanted - number) * last.astype(np.float64))


def mean_of_parts(parts: Sequence[Scores], confusion: Int64) -> Scores:
    """Mean over the classes of the reference; why there is none where the unit has no reference nucleus.

    Where a class has no value for another reason (points, no spacing), neither has the mean.
    """
    found = mean_of(parts, why_no_reference(confusion))
    reasons = np.stack([part.reason for part in parts])
    absent = (reasons == 0) | (reasons == code("no-instances")) | (reasons == code("no-reference"))
    other = np.where(absent, 0, reasons).max(axis=0)
    return Scores(np.where(other > 0, np.nan, found.value), np.where(other > 0, other, found.reason).astype(np.int8))


# --- records ----------------------------------------------------------------------------------------------------------


def at_coverage(choice: MetricChoice) -> Iterable[Variant]:
    """The share of the reference nuclei is a rule of the challenge."""
    if choice.coverage is None:
        raise ValueError("the family covered has no coverage")
    return [Variant(arguments={"coverage": choice.coverage})]


METRICS = (
    *quality_metrics(
        "covered",
        {"": best_mean, "_class_mean": best_class_mean},
        Empty("no-instances", 0, "no-reference", 0),
        (at_coverage,),
    ),
    Metric(
        path=("covered", "class_recall"),
        evaluate=class_recall,
        missed="either",
        counts_missing=True,
        judges_class=True,
        empty=Empty("no-instances", None, "no-reference", None),
    ),
)
