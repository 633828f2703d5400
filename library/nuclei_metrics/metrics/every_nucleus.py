"""Outlines and classes over all nuclei, or over the best share of them: the families ``covered`` and ``overall``.

The quality of each matched pair lies in [0, 1]; a missed or spurious nucleus has 0. Both families add it up.

A score such as IoU is its own quality. A distance d has the quality 1 - min(d, cap) / cap. Qualities are whole numbers
of 2^-41 (below 5e-13), so that sums inside a case are exact: the order of the nuclei changes no digit. A sum of more
than 2^22 of them does not fit 64 bits, so it is made of two halves (``join_halves``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nuclei_metrics.metrics import metric
from nuclei_metrics.metrics.counts import class_ids, hits, matched
from nuclei_metrics.metrics.order_statistics import rank
from nuclei_metrics.metrics.segmentation import is_distance, where_spaced
from nuclei_metrics.model import Float64, Int64, Measure, MetricChoice, Scores, Units
from nuclei_metrics.model.counts import MEASURES

# --- quality ----------------------------------------------------------------------------------------------------------

# The quality of each matched pair in [0, 1]; a missed or spurious nucleus has 0. Covered and overall add it up.
#
# A score such as IoU is its own quality. A distance d has the quality 1 - min(d, cap) / cap. Qualities are whole
# numbers of 2^-41 (below 5e-13), so that sums inside a case are exact: the order of the nuclei changes no digit. A sum
# of more than 2^22 of them does not fit 64 bits, so it is made of two halves (``join_halves``).

ONE = 2**41
HALF = 2**21  # sums of the upper and the lower half of the digits are exact for up to 2^32 nuclei


def _quality_of_pairs(units: Units, measure: Measure, cap: float | None) -> Int64:
    """Quality of every matched pair of the table, times ``ONE``, int64 (T,); 0 where it was not measured.

    cap  of a distance: nothing costs more; None for a score in [0, 1]
    """
    name = f"quality/{measure}/{cap!r}"
    if name not in units.cache:
        values = units.table.pairs.measures.get(measure)
        if values is None:
            values = np.full(len(units.table.pairs.case), 0.0 if cap is None else cap)
        quality = values if cap is None else 1 - np.minimum(values, cap) / cap
        units.cache[name] = np.rint(np.nan_to_num(quality) * ONE).astype(np.int64)
    return units.cache[name]


def join_halves(upper: Any, lower: Any) -> Float64:
    """Join sums of quality // HALF and of quality % HALF to the total, rounded once, float64."""
    return np.asarray(upper * float(HALF) + lower)


def _mean_quality(
    units: Units, total: Float64, number: Int64, measure: Measure, cap: float | None, reason: metric.Reasons | np.int8
) -> Scores:
    """``total / (ONE number)`` of each unit as the value of a measure; undefined for the reason where the number is 0.

    total   sum of qualities, times ``ONE``, float64 (B,)
    number  int64 (B,), how many nuclei it is divided by
    """
    quality = metric.ratio(total, number * float(ONE), reason)
    if cap is not None:
        quality = Scores(cap * (1 - quality.value), quality.reason)
    values = units.table.pairs.measures.get(measure)
    if values is not None and np.isnan(values).any():  # distances in um of cases without spacing
        lacking = units.weights @ np.bincount(units.table.pairs.case[np.isnan(values)], minlength=len(units.table)) > 0
        quality = Scores(np.where(lacking, np.nan, quality.value), quality.reason)
    return where_spaced(quality, measure)


def _why_no_reference(units: Units, class_id: int = 0) -> metric.Reasons:
    """Why there is no reference nucleus, of a class or of all (0): "no-instances" or "no-reference", int8 (B,)."""
    return np.where(hits(units, class_id).all_nuclei == 0, metric.code("no-instances"), metric.code("no-reference"))


def _quality_metrics(
    family: str,
    formulas: Mapping[str, Callable[..., Scores]],
    empty: metric.Empty,
    each: tuple[Callable[[MetricChoice], Iterable[metric.Variant]], ...] = (),
    **properties: Any,
) -> Iterable[metric.Metric]:
    """The metrics of a family for every measure that a false negative can have a worst value of.

    formulas  by what follows the name of the measure in the path; the first one is symmetric if the family is
    empty     of scores; of distances the cap stands for the numbers in it
    """

    def with_cap(choice: MetricChoice, measure: Measure) -> Iterable[metric.Variant]:
        if measure not in choice.measures:
            return []
        if not is_distance(measure):
            return [metric.Variant()]
        cap = choice.distance_cap_px if measure.endswith("_px") else choice.distance_cap_um
        if cap is None:
            raise ValueError(f"{measure} has no distance cap")
        return [metric.Variant(arguments={"cap": cap}, properties={"highest": cap, "worst": cap})]

    capped = metric.Empty(empty.both_sides, None, empty.no_reference if family == "covered" else None, None)
    of_distances = {"better": "lower", "empty": capped, "limit": "`metrics.distance_cap_px` (`_um`)"}
    for measure in MEASURES:
        if measure == "area_ratio":  # without a worst value
            continue
        unit = measure[-2:] if is_distance(measure) else ""
        for suffix, formula in formulas.items():
            yield metric.Metric(
                path=(family, measure + suffix),
                page=f"{family}.{'distance' if unit else 'score'}",
                evaluate=partial(formula, measure=measure),
                each=(partial(with_cap, measure=measure), *each),
                outlines=measure not in metric.OF_POINTS,
                missed="worse",
                symmetric=not suffix and family == "overall",
                unit=unit,
                **(of_distances if unit else {"empty": empty}),
                **properties,
            )


# --- covered ----------------------------------------------------------------------------------------------------------

# Covered: how well is the best share of the reference nuclei outlined, and how many of each class are named right?
#
# Leaving a nucleus out never raises a score over the best share: a false negative counts the worst value, so that
# taking a pair away can only put a worse value in the place of a better one among the best. It still tells who outlines
# well among those who find enough, which a mean over all nuclei does not. Where predictions may overlap, copies of a
# nucleus can raise it (the best copy counts, and spurious ones cost nothing): so a ranking needs a floor on F1 beside
# it.

MILLIONTHS = 10**6  # a coverage has at most six decimals


def best_mean(units: Units, measure: Measure, coverage: float, cap: float | None = None, class_id: int = 0) -> Scores:
    """Mean over the best share of the reference nuclei; a false negative has the worst value.

    Of R reference nuclei of the unit the best k = ceil(coverage R) count; a false negative counts 0, or the distance
    cap, and no distance counts more than the cap. With the IoU and coverage 1 it is StarDist's mean true score.
    Undefined "no-reference" without reference nuclei ("no-instances" if there is no prediction either).

    Of two nuclei one has IoU 3/4 and one is missed: 3/4 at coverage 0.5, 3/8 at coverage 1.
    """
    pairs, quality = units.table.pairs, _quality_of_pairs(units, measure, cap)
    chosen = pairs.class_id[:, 0] == class_id if class_id else slice(None)
    wanted = share_of(hits(units, class_id).references, coverage)
    total = _best_sums(units, quality[chosen], pairs.case[chosen], wanted)
    return _mean_quality(units, total, wanted, measure, cap, _why_no_reference(units, class_id))


def best_class_mean(units: Units, measure: Measure, coverage: float, cap: float | None = None) -> Scores:
    """Mean over classes of the mean over the best share of their reference nuclei; false negatives: the worst value.

    Every class that the reference has in the unit weighs the same; inside it the best k = ceil(coverage R) of its R
    nuclei count, whatever class was predicted. So it does not look at large nuclei most. Undefined "no-reference"
    without reference nuclei ("no-instances" if there is no prediction either).
    """
    return _mean_of_classes(
        units, [best_mean(units, measure, coverage, cap, class_id) for class_id in class_ids(units)]
    )


def recall_with_guesses(units: Units, guessed: int | None = None) -> Scores:
    """Mean over classes of their recall, a false negative counting as a guess, in [0, 1].

    Of a class with R reference nuclei, r of them matched with the right class and m missed: (r + m / C) / R, with the C
    classes of the challenge that the reference may have (``guessed``). A class counts in a unit if the reference has
    it. Silence earns what guessing earns, 1 / C, and no more. Undefined "one-class" if there is one class only, and
    "no-reference" without reference nuclei ("no-instances" if there is no prediction either).
    """
    confusion = units.sum("confusion")
    guessed = len(class_ids(units)) if guessed is None else guessed
    if guessed == 1:
        return metric.undefined(len(units), "one-class")
    parts = [
        metric.ratio(
            guessed * confusion[:, class_id, class_id] + confusion[:, class_id, 0],
            guessed * confusion[:, class_id].sum(axis=1),
            _why_no_reference(units, class_id),
        )
        for class_id in class_ids(units)
    ]
    return _mean_of_classes(units, parts)


def _row_normalised_f1(units: Units) -> Scores:
    """Mean over classes of the F1 of the row-normalised confusion matrix of all reference nuclei, in [0, 1].

    M_ij = n_ij / R_i, with the n_ij pairs whose reference has class i and whose prediction has class j, and all R_i
    reference nuclei of class i: a false negative counts as a wrong class. F_i = 2 M_ii / (1 + sum_k M_ki), over the
    classes that the reference has in the unit. So each class has the same weight, however rare: the share matched with
    the right class, reduced by other nuclei that were given this class. Undefined "no-reference" without reference
    nuclei ("no-instances" if there is no prediction either).

    "Lessons from MoNuSAC 2020" has it of the matched nuclei alone; here false negatives count as wrong.
    """
    confusion = units.sum("confusion")
    references = np.stack([hits(units, class_id).references for class_id in class_ids(units)], axis=1)
    shares = confusion[:, 1:, 1:] / np.maximum(references, 1)[:, :, None]
    right, named = np.diagonal(shares, axis1=1, axis2=2), shares.sum(axis=1)
    parts = [
        metric.scores(2 * right[:, k] / (1 + named[:, k]), references[:, k] > 0, _why_no_reference(units, k + 1))
        for k in range(references.shape[1])
    ]
    return _mean_of_classes(units, parts)


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
    quality, classes = _quality_of_pairs(units, measure, cap), range(1, len(confusion))
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
    if not curves or (measure not in metric.OF_POINTS and table.sums["points"].any()):
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


def _best_sums(units: Units, quality: Int64, case: Int64, wanted: Int64) -> Float64:
    """Sum of the ``wanted`` best qualities of each unit, float64 (B,); qualities that a unit lacks count as 0.

    quality, case  int64 (T,), of the pairs, and the case of each; a unit has them as often as the case
    wanted         int64 (B,)

    Raises ``ValueError`` for more than 2^21 cases.

    Two cases with qualities 5 and 3, and 4; both once, and the first twice:

    >>> from scipy.sparse import csr_array
    >>> units = Units(None, csr_array([[1, 1], [2, 0]]))
    >>> _best_sums(units, np.array([5, 3, 4]), np.array([0, 0, 1]), np.array([2, 5])).tolist()
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
    line = np.sort(case * (ONE + 1) + (ONE - quality))  # case by case, in each the best first
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


def _mean_of_classes(units: Units, parts: Sequence[Scores]) -> Scores:
    """Mean over the classes that the reference of a unit has; without a reference nucleus the reason why there is none.

    Where a class has no value for another reason (points, no spacing), neither has the mean.
    """
    mean = metric.mean_of(parts, _why_no_reference(units))
    reasons = np.stack([part.reason for part in parts])
    absent = (reasons == 0) | (reasons == metric.code("no-instances")) | (reasons == metric.code("no-reference"))
    other = np.where(absent, 0, reasons).max(axis=0)
    return Scores(np.where(other > 0, np.nan, mean.value), np.where(other > 0, other, mean.reason).astype(np.int8))


def _at_coverage(choice: MetricChoice) -> Iterable[metric.Variant]:
    """The metric with the coverage that the challenge sets: the share of the reference nuclei it looks at."""
    if choice.coverage is None:
        raise ValueError("the family covered has no coverage")
    return [metric.Variant(arguments={"coverage": choice.coverage})]


def _among_classes(choice: MetricChoice) -> Iterable[metric.Variant]:
    return [metric.Variant(arguments={} if choice.guessed is None else {"guessed": choice.guessed})]


COVERED = (
    *_quality_metrics(
        "covered",
        {"": best_mean, "_class_mean": best_class_mean},
        metric.Empty("no-instances", 0, "no-reference", 0),
        (_at_coverage,),
    ),
    metric.Metric(
        path=("covered", "class_recall"),
        evaluate=recall_with_guesses,
        each=(_among_classes,),
        missed="either",
        counts_missing=True,
        judges_class=True,
        empty=metric.Empty("no-instances", None, "no-reference", None),
    ),
    metric.Metric(
        path=("covered", "class_f1"),
        evaluate=_row_normalised_f1,
        missed="either",
        counts_missing=True,
        judges_class=True,
        empty=metric.Empty("no-instances", 0, "no-reference", 0),
    ),
)

# --- overall ----------------------------------------------------------------------------------------------------------

# Overall: what the pairs are worth, over all nuclei of both sides.
#
# The sum over pairs divided by pairs + missed + spurious. Of the IoU it is SQ times the threat score, a relative of PQ,
# SQ RQ = SQ tp / (tp + fp/2 + fn/2), that counts an error twice as much: it mixes detection and segmentation as PQ
# does.
#
# **Neither silence nor guessing pays**, where pairs are those with an IoU above t >= 1/2 and the nuclei of each side
# are disjoint. A nucleus then has at most one partner on the other side, whatever else is there: two disjoint
# predictions cannot both cover more than half of one reference nucleus. So one prediction more or less changes no other
# pair. With S the sum of the qualities (in [0, 1]) of the pairs and N = pairs + missed + spurious:
#
# - leaving out the prediction of a pair with quality q makes a false negative of the pair: (S - q) / N <= S / N;
# - adding a spurious prediction: S / (N + 1) <= S / N;
# - a distance is cap (1 - quality), so that it never falls.
#
# So no sequence of such changes pays either. Leaving out a spurious prediction does pay, as it should.
#
# Where it fails: if predictions may overlap, a second prediction of a nucleus can have the higher IoU and take its
# place; it pays where what it adds to S is above the mean S / N (IoU 3/5, then 4/5, and five missed: 3/30, then 4/35).
# Under rules that match at less, or by the distance of centroids, taking a prediction away can give its nucleus a
# better partner. And means over groups: a group without a nucleus of a class counts one spurious one of it as 0, like 0
# of many, so that never predicting a rare class pays. The class means are to be pooled.


def all_mean(units: Units, measure: Measure, cap: float | None = None) -> Scores:
    """Mean over all nuclei: the sum over pairs / (pairs + fn + fp); false negatives and positives have the worst value.

    They count 0, or the distance cap, and no distance counts more than the cap. Classes are ignored. Undefined
    "no-instances" if both sides are empty.
    """
    total = _sums_of_classes(units, measure, cap).sum(axis=1)
    return _mean_quality(units, total, hits(units).all_nuclei, measure, cap, metric.code("no-instances"))


def all_class_mean(units: Units, measure: Measure, cap: float | None = None) -> Scores:
    """Mean over classes of the mean over all nuclei of the class; false negatives and positives have the worst value.

    Of a class: the sum over the pairs whose reference has it / (those pairs + its false negatives + its false
    positives). A class counts in a unit if one of these has it. Take it pooled: averaged inside patients, never
    predicting a rare class raises it. Undefined "no-instances" if both sides are empty.
    """
    total, reason = _sums_of_classes(units, measure, cap), metric.code("no-instances")
    return _mean_of_classes(
        units,
        [
            _mean_quality(units, total[:, class_id - 1], _all_of_class(units, class_id), measure, cap, reason)
            for class_id in class_ids(units)
        ],
    )


def share_named_right(units: Units) -> Scores:
    """Share of all nuclei that were matched with the right class: right pairs / (pairs + fn + fp), in [0, 1].

    Undefined "no-instances" if both sides are empty.
    """
    right = np.trace(matched(units), axis1=1, axis2=2)
    return metric.ratio(right, hits(units).all_nuclei, metric.code("no-instances"))


def class_mean_accuracy(units: Units) -> Scores:
    """Mean over classes of the share that was matched with the right class, in [0, 1].

    Of a class: right pairs / (pairs whose reference has it + its false negatives + its false positives). A class
    counts in a unit if one of these has it. Take it pooled: averaged inside patients, never predicting a rare class
    raises it. Undefined "no-instances" if both sides are empty.
    """
    parts = [
        metric.ratio(hits(units, class_id).tp, _all_of_class(units, class_id), metric.code("no-instances"))
        for class_id in class_ids(units)
    ]
    return _mean_of_classes(units, parts)


def _all_of_class(units: Units, class_id: int) -> Int64:
    """Pairs whose reference has a class, plus its false negatives and false positives, int64 (B,)."""
    return np.asarray(hits(units, class_id).references + units.sum("confusion")[:, 0, class_id])


def _sums_of_classes(units: Units, measure: Measure, cap: float | None) -> Float64:
    """Sum of the qualities of the pairs by class of the reference, times ``ONE``, float64 (B, C)."""
    pairs, classes = units.table.pairs, len(class_ids(units))
    cell, cells = pairs.case * classes + pairs.class_id[:, 0] - 1, len(units.table) * classes
    halves = np.divmod(_quality_of_pairs(units, measure, cap), HALF)
    of_cases = join_halves(*(np.bincount(cell, half, cells) for half in halves))
    return np.asarray(units.weights @ of_cases.reshape(-1, classes))


OVERALL = (
    *_quality_metrics("overall", {"": all_mean, "_class_mean": all_class_mean}, metric.OF_ALL, spurious="worse"),
    *(
        metric.Metric(
            path=("overall", name),
            page="overall.accuracy",
            evaluate=formula,
            missed="worse",
            spurious="worse",
            judges_class=True,
            symmetric=name == "accuracy",
            empty=metric.OF_ALL,
        )
        for name, formula in (("accuracy", share_named_right), ("accuracy_class_mean", class_mean_accuracy))
    ),
)
