"""Overall: what the pairs are worth, over all nuclei of both sides.

The sum over pairs divided by pairs + missed + spurious. Of the IoU it is SQ times the threat score, a relative of PQ,
SQ RQ = SQ tp / (tp + fp/2 + fn/2), that counts an error twice as much: it mixes detection and segmentation as PQ does.

**Neither silence nor guessing pays**, where pairs are those with an IoU above t >= 1/2 and the nuclei of each side are
disjoint. A nucleus then has at most one partner on the other side, whatever else is there: two disjoint predictions
cannot both cover more than half of one reference nucleus. So one prediction more or less changes no other pair. With S
the sum of the qualities (in [0, 1]) of the pairs and N = pairs + missed + spurious:

- leaving out the prediction of a pair with quality q makes a missed nucleus of the pair: (S - q) / N <= S / N;
- adding a spurious prediction: S / (N + 1) <= S / N;
- a distance is cap (1 - quality), so that it never falls.

So no sequence of such changes pays either. Leaving out a spurious prediction does pay, as it should.

Where it fails: if predictions may overlap, a second prediction of a nucleus can have the higher IoU and take its place;
it pays where what it adds to S is above the mean S / N (IoU 3/5, then 4/5, and five missed: 3/30, then 4/35). Under
rules that match at less, or by the distance of centroids, taking a prediction away can give its nucleus a better
partner. And means over groups: a group without a nucleus of a class counts one spurious one of it as 0, like 0 of many,
so that never predicting a rare class pays. The class means are to be pooled.
"""

from __future__ import annotations

import numpy as np

from evaluation.metrics.counts import hits
from evaluation.metrics.covered import mean_of_parts
from evaluation.metrics.metric import OF_ALL, Metric
from evaluation.metrics.quality import HALF, join_halves, mean_quality, quality_metrics, quality_of_pairs
from evaluation.metrics.undefined import code, ratio
from evaluation.model import Float64, Int64, Measure, Scores, Units


def all_mean(units: Units, measure: Measure, cap: float | None = None) -> Scores:
    """Mean over all nuclei: the sum over pairs / (pairs + missed + spurious), missed and spurious ones at the worst.

    They count 0, or the distance cap, and no distance counts more than the cap. Classes are ignored. Undefined
    "no-instances" if both sides are empty.
    """
    of = hits(units)
    total = sums_of_classes(units, measure, cap).sum(axis=1)
    return mean_quality(units, total, of.tp + of.fp + of.fn, measure, cap, code("no-instances"))


def all_class_mean(units: Units, measure: Measure, cap: float | None = None) -> Scores:
    """Mean over classes of the mean over all nuclei of the class, missed and spurious ones at the worst.

    Of a class: the sum over the pairs whose reference has it / (those pairs + its missed + its spurious nuclei). A
    class counts in a unit if a pair, a missed or a spurious nucleus has it. Take it pooled: averaged inside patients,
    never predicting a rare class pays. Undefined "no-instances" if both sides are empty.
    """
    confusion, total = units.sum("confusion"), sums_of_classes(units, measure, cap)
    parts = [
        mean_quality(
            units, total[:, class_id - 1], all_of_class(confusion, class_id), measure, cap, code("no-instances")
        )
        for class_id in range(1, confusion.shape[1])
    ]
    return mean_of_parts(parts, confusion)


def accuracy(units: Units) -> Scores:
    """Share of all nuclei that were found and named right: right pairs / (pairs + missed + spurious), in [0, 1].

    Undefined "no-instances" if both sides are empty.
    """
    of, confusion = hits(units), units.sum("confusion")
    right = np.trace(confusion[:, 1:, 1:], axis1=1, axis2=2)
    return ratio(right, of.tp + of.fp + of.fn, code("no-instances"))


def class_mean_accuracy(units: Units) -> Scores:
    """Mean over classes of the share that was found and named right, in [0, 1].

    Of a class: right pairs / (pairs whose reference has it + its missed + its spurious nuclei). A class counts in a
    unit if a pair, a missed or a spurious nucleus has it. Take it pooled: averaged inside patients, never predicting a
    rare class pays. Undefined "no-instances" if both sides are empty.
    """
    confusion = units.sum("confusion")
    parts = [
        ratio(confusion[:, class_id, class_id], all_of_class(confusion, class_id), code("no-instances"))
        for class_id in range(1, confusion.shape[1])
    ]
    return mean_of_parts(parts, confusion)


def all_of_class(confusion: Int64, class_id: int) -> Int64:
    """Pairs whose reference has a class, missed and spurious nuclei of it, int64 (B,)."""
    number: Int64 = confusion[:, class_id].sum(axis=1) + confusion[:, 0, class_id]
    return number


def sums_of_classes(units: Units, measure: Measure, cap: float | None) -> Float64:
    """Sum of the qualities of the pairs by class of the reference, times ``ONE``, float64 (B, C)."""
    pairs, classes = units.table.pairs, units.sum("confusion").shape[1] - 1
    cell, cells = pairs.case * classes + pairs.class_id[:, 0] - 1, len(units.table) * classes
    halves = np.divmod(quality_of_pairs(units, measure, cap), HALF)
    of_cases = join_halves(*(np.bincount(cell, half, cells) for half in halves))
    return np.asarray(units.weights @ of_cases.reshape(-1, classes))


# --- records ----------------------------------------------------------------------------------------------------------

METRICS = (
    *quality_metrics("overall", {"": all_mean, "_class_mean": all_class_mean}, OF_ALL, spurious="worse"),
    *(
        Metric(
            path=("overall", name),
            page="overall.accuracy",
            evaluate=formula,
            missed="worse",
            spurious="worse",
            judges_class=True,
            symmetric=name == "accuracy",
            empty=OF_ALL,
        )
        for name, formula in (("accuracy", accuracy), ("accuracy_class_mean", class_mean_accuracy))
    ),
)
