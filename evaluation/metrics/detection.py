"""Detection: were the nuclei found, whatever their outline?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evaluation.metrics.counts import Hits, class_hits, hits
from evaluation.metrics.metric import OF_ALL, Empty, Metric
from evaluation.metrics.undefined import mean_of, ratio
from evaluation.model import Scores, Units

Formula = Callable[[Hits], Scores]


def precision(of: Hits) -> Scores:
    """Precision, tp / (tp + fp)."""
    return ratio(of.tp, of.tp + of.fp, of.undefined)


def recall(of: Hits) -> Scores:
    """Recall, tp / (tp + fn)."""
    return ratio(of.tp, of.tp + of.fn, of.undefined)


def f_beta(of: Hits, beta: int) -> Scores:
    """F-measure, (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp) with b = ``beta``: recall weighs b times as much."""
    found = (1 + beta**2) * of.tp
    return ratio(found, found + beta**2 * of.fn + of.fp, of.undefined)


def f1(of: Hits) -> Scores:
    """F1, 2 tp / (2 tp + fp + fn)."""
    return f_beta(of, beta=1)


def threat_score(of: Hits) -> Scores:
    """Threat score, tp / (tp + fp + fn)."""
    return ratio(of.tp, of.tp + of.fp + of.fn, of.undefined)


# What the formulas above have in common with each other, wherever they are used.
OF_PRECISION: dict[str, Any] = {"spurious": "worse", "empty": Empty("no-instances", "no-prediction", 0, 0)}
OF_RECALL: dict[str, Any] = {"missed": "worse", "empty": Empty("no-instances", 0, "no-reference", 0)}
OF_BOTH: dict[str, Any] = {"missed": "worse", "spurious": "worse", "empty": OF_ALL, "symmetric": True}


def of_all(units: Units, formula: Formula) -> Scores:
    """A detection score with classes ignored."""
    return formula(hits(units))


def of_class(units: Units, formula: Formula, class_id: int) -> Scores:
    """A detection score of a class: a matched pair is a true positive if both sides have the class."""
    return formula(class_hits(units, class_id))


def macro_f1(units: Units) -> Scores:
    """Mean over classes of their F1 of detection and classification, in [0, 1].

    A class counts in a unit if it occurs in reference or prediction. Undefined "no-instances" if none does. The
    "macro F1" of PUMA 2024.
    """
    classes = range(1, units.sum("confusion").shape[1])
    return mean_of([of_class(units, f1, class_id) for class_id in classes], hits(units).undefined)


def hovernet_class_f1(units: Units, class_id: int) -> Scores:
    """F_c of HoVer-Net: F1 of a class in which a wrong class costs twice what a missed or spurious nucleus does.

    ``2 t / (2 t + 2 f + 2 g + s + m)``, in [0, 1], with t matched pairs of the class on both sides, f pairs in which
    only the prediction has the class, g pairs in which only the reference has it, s spurious predictions and m missed
    nuclei of the class. Undefined "no-instances" if the class is on neither side. Graham et al., Medical Image
    Analysis 58, 2019, section 4.2, with matching by ``centroid_assignment`` within 12 px, ``cutoff = "after"``, pooled.
    """
    confusion = units.sum("confusion")
    both = class_hits(units, class_id)
    spurious, missed = confusion[:, 0, class_id], confusion[:, class_id, 0]
    wrong = both.fp - spurious + both.fn - missed
    return ratio(2 * both.tp, 2 * both.tp + 2 * wrong + spurious + missed, both.undefined)


# --- records ----------------------------------------------------------------------------------------------------------

METRICS = (
    Metric(path=("detection", "precision"), evaluate=partial(of_all, formula=precision), **OF_PRECISION),
    Metric(path=("detection", "recall"), evaluate=partial(of_all, formula=recall), **OF_RECALL),
    Metric(path=("detection", "f1"), evaluate=partial(of_all, formula=f1), **OF_BOTH),
    Metric(path=("detection", "threat_score"), evaluate=partial(of_all, formula=threat_score), **OF_BOTH),
    Metric(path=("detection", "macro_f1"), evaluate=macro_f1, **OF_BOTH),
    *(
        Metric(path=("detection", "per_class", "<class>", name), evaluate=formula, **properties)
        for name, formula, properties in (
            ("precision", partial(of_class, formula=precision), OF_PRECISION),
            ("recall", partial(of_class, formula=recall), OF_RECALL),
            ("f1", partial(of_class, formula=f1), OF_BOTH),
            ("f_c", hovernet_class_f1, OF_BOTH),
        )
    ),
)
